"""The streams on the device: equal to the NumPy ones to the bit, and distributed as they say."""

import math

import numpy as np
import pytest
import torch
from torch.func import vmap

from fedrepro.fl import device_streams, streams

KEYS = [streams.key(seed, "test", seed) for seed in range(6)] + [0, 2**63 - 1, 2**63, 2**64 - 1]


def device_keys():
    return torch.tensor([device_streams.as_signed(key) for key in KEYS])


def unsigned(tensor):
    return tensor.numpy().view(np.uint64)


def test_as_signed_keeps_the_bits():
    assert unsigned(device_keys()).tolist() == KEYS


def test_bits_are_those_of_numpy():
    expected = np.stack([streams.bits(key, 33) for key in KEYS])
    keys = device_keys()
    assert (unsigned(device_streams.bits(keys, 33)) == expected).all()
    assert (unsigned(device_streams.bits(keys.view(2, 5), 33)).reshape(10, 33) == expected).all()
    assert (unsigned(vmap(lambda key: device_streams.bits(key, 33))(keys)) == expected).all()
    assert keys.tolist() == device_keys().tolist()  # not changed in place


def test_a_child_is_a_value_of_the_stream():
    keys = device_keys()
    bits = device_streams.bits(keys, 40)
    for number in (0, 1, 39):
        assert torch.equal(device_streams.child(keys, number), bits[:, number])
        stacked = vmap(lambda key, number=number: device_streams.child(key, number))(keys)
        assert torch.equal(stacked, bits[:, number])
    numbers = torch.arange(len(KEYS)) * 4
    wanted = bits[torch.arange(len(KEYS)), numbers]
    assert torch.equal(device_streams.child(keys, numbers), wanted)
    assert torch.equal(vmap(device_streams.child)(keys, numbers), wanted)
    # one of each pair, as when lanes and steps are derived at once
    grid = device_streams.child(keys[:, None], torch.arange(40))
    assert torch.equal(grid, bits)
    assert keys.tolist() == device_keys().tolist()


def test_uniform_numbers_fill_the_unit_interval_evenly():
    draws = device_streams.uniform(device_keys(), 20_000).double()
    assert float(draws.min()) >= 0
    assert float(draws.max()) < 1
    count = draws.numel()
    # Five standard deviations of each statistic.
    assert float(draws.mean()) == pytest.approx(0.5, abs=5 * (1 / 12 / count) ** 0.5)
    assert float(draws.var()) == pytest.approx(1 / 12, abs=5 * (1 / 180 / count) ** 0.5)
    tenths = torch.histc(draws, 10, 0, 1)
    assert float((tenths - count / 10).abs().max()) < 5 * (count * 0.09) ** 0.5


@pytest.mark.parametrize("size", [1, 2, 7, 20_001])
def test_normal_numbers_have_their_shape_and_are_finite(size):
    draws = device_streams.normal(device_keys(), size)
    assert draws.shape == (len(KEYS), size)
    assert bool(draws.isfinite().all())
    assert len(draws.unique()) > 0.9 * draws.numel()


def test_normal_numbers_have_the_moments_and_tails_of_their_law():
    draws = device_streams.normal(device_keys(), 20_001).double().flatten()
    count = draws.numel()
    assert float(draws.mean()) == pytest.approx(0, abs=5 / count**0.5)
    assert float(draws.var()) == pytest.approx(1, abs=5 * (2 / count) ** 0.5)
    assert float((draws**3).mean()) == pytest.approx(0, abs=5 * (15 / count) ** 0.5)
    assert float((draws**4).mean()) == pytest.approx(3, abs=5 * (96 / count) ** 0.5)
    for bound in (-2.0, -0.5, 0.5, 2.0):
        below = 0.5 * (1 + math.erf(bound / 2**0.5))
        share = float((draws < bound).double().mean())
        assert share == pytest.approx(below, abs=5 * (below * (1 - below) / count) ** 0.5)


def test_the_two_numbers_of_a_normal_draw_are_independent():
    one, two = device_streams.normal(torch.tensor(3), 100_000).double().view(-1, 2).unbind(1)
    for a, b in ((one, two), (one**2 - 1, two**2 - 1)):
        assert float((a * b).mean()) == pytest.approx(0, abs=5 * 2 / 50_000**0.5)


@pytest.mark.parametrize("p", [0.0, 0.2, 0.5, 0.9])
def test_dropout_keeps_its_share_in_every_place(p):
    assert device_streams.keep(device_keys(), 7, p).shape == (len(KEYS), 7)
    kept = device_streams.keep(device_keys(), 40_000, p)
    assert kept.dtype == torch.bool
    for quarter in kept.view(len(KEYS), -1, 4).unbind(2):  # one 16-bit part of the values each
        count = quarter.numel()
        share = float(quarter.double().mean())
        assert share == pytest.approx(1 - p, abs=5 * (p * (1 - p) / count) ** 0.5 + 2**-16)


def test_a_longer_draw_starts_like_a_shorter_one():
    keys = device_keys()
    for draw in (
        device_streams.bits,
        device_streams.uniform,
        device_streams.normal,
        lambda key, size: device_streams.keep(key, size, 0.5),
    ):
        longer = draw(keys, 40)
        assert all(torch.equal(draw(keys, size), longer[:, :size]) for size in (1, 6, 13))


@pytest.mark.parametrize("draw", [device_streams.uniform, device_streams.normal])
def test_draws_do_not_depend_on_the_keys_beside(draw):
    keys = device_keys()
    together = draw(keys, 11)
    stacked = vmap(lambda key: draw(key, 11))(keys)
    for lane, key in enumerate(keys):
        alone = draw(key, 11)
        torch.testing.assert_close(together[lane], alone, rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(stacked[lane], alone, rtol=1e-6, atol=1e-6)


def test_pinned_values():
    key = torch.tensor(device_streams.as_signed(streams.key(0, "dropout", 3)))
    assert device_streams.bits(key, 3).tolist() == [
        9134359804335473624,
        -7830950287840407379,
        -2864929667493213664,
    ]
    uniform, normal = device_streams.uniform(key, 3), device_streams.normal(key, 3)
    assert uniform.tolist() == [0.4951745867729187, 0.5754833221435547, 0.844691812992096]
    assert normal.tolist() == pytest.approx([1.1737691, 0.1671995, -1.0331636], abs=1e-6)
    kept = device_streams.keep(key, 12, 0.5).int().tolist()
    assert kept == [1, 1, 1, 0, 1, 0, 1, 1, 1, 0, 1, 1]
