"""Dropout from streams and batch normalisation that leaves padded examples out."""

import pytest
import torch
from torch import nn

from fedrepro.fl import device_streams
from fedrepro.fl.models.parts import layers

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


def pair(shape):
    """PyTorch's layer and ours, with the same weights and running statistics."""
    theirs = (nn.BatchNorm2d if len(shape) == 4 else nn.BatchNorm1d)(shape[1])
    ours = (layers.BatchNorm2d if len(shape) == 4 else layers.BatchNorm1d)(shape[1])
    torch.manual_seed(3)
    with torch.no_grad():
        for tensor in (theirs.weight, theirs.bias, theirs.running_mean, theirs.running_var):
            tensor.copy_(torch.rand(shape[1]) + 0.5)
    ours.load_state_dict(theirs.state_dict(), strict=False)  # the counter has no place
    return theirs, ours, torch.randn(shape) * 2 + 3


@pytest.mark.parametrize("shape", [(7, 5), (7, 5, 3, 4)])
def test_batch_norm_is_pytorchs_without_the_counter(shape):
    theirs, ours, x = pair(shape)
    for mode in (True, False):
        assert torch.equal(ours.train(mode)(x), theirs.train(mode)(x))
    assert torch.equal(ours.running_mean, theirs.running_mean)
    assert torch.equal(ours.running_var, theirs.running_var)
    assert ours.num_batches_tracked is None
    assert theirs.num_batches_tracked == 1


@pytest.mark.parametrize(
    ("layer", "expected"), [(layers.BatchNorm1d(3), True), (layers.BatchNorm2d(3), False)]
)
def test_networks_that_cannot_train_on_one_example_are_found(layer, expected):
    assert layers.normalises_vectors(nn.Sequential(nn.Sequential(layer))) is expected


def test_keys_are_given_in_nested_networks():
    net = nn.Sequential()
    net.add_module("a", nn.Sequential(layers.BatchNorm2d(2), layers.Dropout(0.1)))
    net.add_module("b", layers.BatchNorm1d(3))
    net.add_module("c", layers.Dropout(0.1))
    layers.set_keys(net, KEY)
    assert torch.equal(net.a[1].key, device_streams.child(KEY, 0))
    assert torch.equal(net.c.key, device_streams.child(KEY, 1))
