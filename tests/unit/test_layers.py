"""Dropout from streams and batch normalisation that leaves padded examples out."""

import pytest
import torch
from torch import nn
from torch.func import functional_call, vmap

from fedrepro import device_streams
from fedrepro.models import layers

KEY = torch.tensor(17)


def dropped(x, p, key=KEY, **options):
    layer = layers.Dropout(p, **options)
    layers.set_keys(layer, key)
    return layer(x)


def test_dropout_does_nothing_in_evaluation_or_at_probability_zero():
    x = torch.randn(4, 5)
    assert layers.Dropout(0.5).eval()(x) is x
    assert layers.Dropout(0.0)(x) is x


def test_dropout_asks_for_its_key_and_gives_it_back():
    net = nn.Sequential(layers.Dropout(0.5))
    with pytest.raises(RuntimeError, match="stream key"):
        net(torch.ones(2, 3))
    layers.set_keys(net, KEY)
    net(torch.ones(2, 3))
    layers.set_keys(net, None)
    with pytest.raises(RuntimeError, match="stream key"):
        net(torch.ones(2, 3))


@pytest.mark.parametrize("p", [0.2, 0.5])
def test_dropout_keeps_its_share_and_rescales_it(p):
    out = dropped(torch.ones(100, 300), p)
    assert out.unique().tolist() == pytest.approx([0.0, 1 / (1 - p)])
    spread = (p * (1 - p) / out.numel()) ** 0.5
    assert float((out != 0).double().mean()) == pytest.approx(1 - p, abs=5 * spread + 2**-16)


def test_the_mask_depends_on_the_key_and_the_layer_only():
    x = torch.rand(8, 50) + 1
    mask = dropped(x, 0.5) != 0
    torch.manual_seed(99)
    assert torch.equal(dropped(x.flip(0) * 3, 0.5) != 0, mask)
    assert not torch.equal(dropped(x, 0.5, KEY + 1) != 0, mask)
    two = nn.Sequential(layers.Dropout(0.5), layers.Dropout(0.5))
    layers.set_keys(two, KEY)
    assert torch.equal(two[0](x) != 0, mask)
    assert not torch.equal(two[1](x) != 0, mask)


@pytest.mark.parametrize("channels", [False, True])
def test_padding_a_batch_leaves_the_masks_of_its_examples(channels):
    x = torch.rand(9, 7, 3, 3) + 1
    part = dropped(x[:4], 0.5, channels=channels)
    assert torch.equal(dropped(x, 0.5, channels=channels)[:4], part)


def test_channel_dropout_drops_whole_channels_of_single_examples():
    out = dropped(torch.ones(40, 50, 3, 2), 0.5, channels=True)
    maps = out.flatten(2)
    assert bool((maps == maps[:, :, :1]).all())
    kept = maps[:, :, 0] != 0
    assert float(kept.double().mean()) == pytest.approx(0.5, abs=5 * (0.25 / 2000) ** 0.5)
    assert not bool((kept == kept[:1]).all())


def test_dropout_gradient_goes_through_the_kept_values():
    x = torch.ones(6, 7, requires_grad=True)
    out = dropped(x, 0.2)
    out.sum().backward()
    assert torch.equal(x.grad, out.detach())


def test_stacked_lanes_get_the_masks_they_get_alone():
    layer = layers.Dropout(0.3)
    x, keys = torch.rand(3, 5, 4) + 1, torch.tensor([4, 5, 6])

    def lane(x, key):
        layers.set_keys(layer, key)
        return layer(x)

    stacked = vmap(lane)(x, keys)
    for i in range(3):
        assert torch.equal(stacked[i], lane(x[i], keys[i]))


def pair(shape):
    """PyTorch's layer and ours, with the same weights and running statistics."""
    theirs = (nn.BatchNorm2d if len(shape) == 4 else nn.BatchNorm1d)(shape[1])
    ours = (layers.BatchNorm2d if len(shape) == 4 else layers.BatchNorm1d)(shape[1])
    torch.manual_seed(3)
    with torch.no_grad():
        for tensor in (theirs.weight, theirs.bias, theirs.running_mean, theirs.running_var):
            tensor.copy_(torch.rand(shape[1]) + 0.5)
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours, torch.randn(shape) * 2 + 3


SHAPES = [(7, 5), (7, 5, 3, 4)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("place", ["end", "between"])
def test_padded_examples_do_not_count_in_batch_norm(shape, place):
    theirs, ours, x = pair(shape)
    weights = torch.randn(shape)
    real = torch.arange(7) if place == "end" else torch.tensor([0, 2, 3, 5, 6, 8, 9])
    padded = torch.full((10, *shape[1:]), 1e3)
    padded[real] = x
    ours.mask = torch.zeros(10)
    ours.mask[real] = 1.0
    before = ours.running_mean.clone(), ours.running_var.clone()
    x.requires_grad_()
    padded.requires_grad_()
    expected = theirs(x)
    (expected * weights).sum().backward()
    out = ours(padded)
    (out[real] * weights).sum().backward()
    close = {"rtol": 1e-4, "atol": 1e-5}
    torch.testing.assert_close(out[real], expected, **close)
    torch.testing.assert_close(padded.grad[real], x.grad, **close)
    assert not padded.grad[ours.mask == 0].any()
    for name in ("weight", "bias"):
        theirs_grad, ours_grad = getattr(theirs, name).grad, getattr(ours, name).grad
        torch.testing.assert_close(ours_grad, theirs_grad, **close)
    torch.testing.assert_close(ours.updated[0], theirs.running_mean, **close)
    torch.testing.assert_close(ours.updated[1], theirs.running_var, **close)
    assert torch.equal(ours.running_mean, before[0])
    assert torch.equal(ours.running_var, before[1])


@pytest.mark.parametrize("shape", SHAPES)
def test_without_a_mask_or_in_evaluation_batch_norm_is_pytorchs(shape):
    theirs, ours, x = pair(shape)
    assert torch.equal(ours(x), theirs(x))
    assert torch.equal(ours.running_mean, theirs.running_mean)
    assert torch.equal(ours.running_var, theirs.running_var)
    ours.mask = torch.tensor([1.0] * 4 + [0.0] * 3)
    assert torch.equal(ours.eval()(x), theirs.eval()(x))


def test_batch_norm_of_stacked_lanes_with_their_own_masks():
    _, ours, _ = pair((6, 5, 2, 2))
    names = [name for name, _ in ours.named_parameters()]
    torch.manual_seed(1)
    values = {name: torch.rand(2, 5) for name in names}
    x, masks = torch.randn(2, 6, 5, 2, 2), torch.tensor([[1.0] * 6, [1.0] * 4 + [0.0] * 2])

    def lane(values, x, mask):
        ours.mask = mask
        out = functional_call(ours, values, (x,))
        return out, *ours.updated

    stacked = vmap(lane)(values, x, masks)
    for i in range(2):
        alone = lane({name: values[name][i] for name in names}, x[i], masks[i])
        for together, single in zip(stacked, alone, strict=True):
            torch.testing.assert_close(together[i], single, rtol=1e-4, atol=1e-5)


def test_batch_norm_of_padding_only_is_finite():
    _, ours, x = pair((7, 5, 3, 4))
    ours.mask = torch.zeros(7)
    x.requires_grad_()
    ours(x).sum().backward()
    assert not x.grad.any()
    assert all(bool(tensor.isfinite().all()) for tensor in (ours.weight.grad, *ours.updated))


def test_batch_norms_and_keys_are_found_in_nested_networks():
    net = nn.Sequential()
    net.add_module("a", nn.Sequential(layers.BatchNorm2d(2), layers.Dropout(0.1)))
    net.add_module("b", layers.BatchNorm1d(3))
    net.add_module("c", layers.Dropout(0.1))
    assert [name for name, _ in layers.batch_norms(net)] == ["a.0", "b"]
    layers.set_keys(net, KEY)
    assert torch.equal(net.a[1].key, device_streams.child(KEY, 0))
    assert torch.equal(net.c.key, device_streams.child(KEY, 1))
