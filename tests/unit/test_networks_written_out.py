"""Networks against their papers' descriptions, written out layer by layer.

Sizes alone, which `test_models` pins, do not tell where a network pools, normalises or adds.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch.nn.functional import avg_pool2d, batch_norm, conv2d, linear, max_pool2d, pad

from fedrepro.fl import models

Tensor = torch.Tensor
Drawn = Iterator[Tensor]


def liu1(x: Tensor, w: Drawn, _: Drawn) -> Tensor:
    """Liu et al. 2020, section III.B: a hidden layer of ReLUs."""
    return linear(linear(x.flatten(1), next(w), next(w)).relu(), next(w), next(w))


def liu2(x: Tensor, w: Drawn, _: Drawn) -> Tensor:
    """Two 5x5 convolutions, each with a pooling; two linear layers (dropout is off)."""
    for _layer in range(2):
        x = max_pool2d(conv2d(x, next(w), next(w)), 2).relu()
    return linear(linear(x.flatten(1), next(w), next(w)).relu(), next(w), next(w))


def liu3(x: Tensor, w: Drawn, statistics: Drawn) -> Tensor:
    """Three 3x3 convolutions, the last two pooled; normalisation after all but the last layer."""
    for layer in range(3):
        x = conv2d(x, next(w), next(w), padding=1)
        x = batch_norm(x, next(statistics), next(statistics), next(w), next(w)).relu()
        x = max_pool2d(x, 2) if layer else x
    x = x.flatten(1)
    for _layer in range(2):
        x = linear(x, next(w), next(w))
        x = batch_norm(x, next(statistics), next(statistics), next(w), next(w)).relu()
    return linear(x, next(w), next(w))


def mnist_cnn(x: Tensor, w: Drawn, _: Drawn) -> Tensor:
    """McMahan et al. 2017, section 3: 5x5 convolutions that keep the size, 2x2 poolings."""
    for _layer in range(2):
        x = max_pool2d(conv2d(x, next(w), next(w), padding=2).relu(), 2)
    return linear(linear(x.flatten(1), next(w), next(w)).relu(), next(w), next(w))


def cifar_tutorial(x: Tensor, w: Drawn, _: Drawn) -> Tensor:
    """TensorFlow's tutorial: pooling, then response normalisation; the other way round."""

    def pooled(x: Tensor) -> Tensor:  # "SAME": an even map is padded at its end
        return max_pool2d(pad(x, (0, 1, 0, 1), value=-torch.inf), 3, 2)

    def normalised(x: Tensor) -> Tensor:
        squares = pad(x.square(), (0, 0, 0, 0, 4, 4)).unfold(1, 9, 1).sum(-1)
        return x / (1 + 0.001 / 9 * squares) ** 0.75

    x = normalised(pooled(conv2d(x, next(w), next(w), padding=2).relu()))
    x = pooled(normalised(conv2d(x, next(w), next(w), padding=2).relu())).flatten(1)
    for _layer in range(2):
        x = linear(x, next(w), next(w)).relu()
    return linear(x, next(w), next(w))


def fixup_resnet20(x: Tensor, w: Drawn, _: Drawn) -> Tensor:
    """Zhang, Dauphin, Ma 2019, figure 1, with the shortcuts of He et al. 2016, option A."""
    x = (conv2d(x, next(w), padding=1) + next(w)).relu()
    for block in range(9):
        halved = block in (3, 6)
        bias1a, bias1b, bias2a, scale, bias2b, kernel1, kernel2 = (next(w) for _ in range(7))
        u = x + bias1a
        branch = conv2d(u, kernel1, stride=2 if halved else 1, padding=1)
        branch = (branch + bias1b).relu() + bias2a
        branch = conv2d(branch, kernel2, padding=1) * scale + bias2b
        if halved:
            u = avg_pool2d(u, 1, stride=2)
            x = torch.cat([u, torch.zeros_like(u)], dim=1)
        x = (branch + x).relu()
    return linear(x.mean(dim=(2, 3)) + next(w), next(w), next(w))


@pytest.mark.parametrize(
    ("written_out", "shape"),
    [
        (liu1, (1, 28, 28)),
        (liu2, (1, 28, 28)),
        (liu3, (1, 28, 28)),
        (mnist_cnn, (1, 28, 28)),
        (cifar_tutorial, (3, 24, 24)),
        (fixup_resnet20, (3, 32, 32)),
    ],
)
def test_logits(written_out, shape):
    torch.manual_seed(0)
    net = models.build(written_out.__name__, shape, 10, 0.25).double().eval()
    with torch.no_grad():
        for each in net.parameters():  # what starts at 0 or 1, too
            each.normal_().mul_(0.3 if each.dim() == 1 else each[0].numel() ** -0.5)
        statistics = [each for each in net.buffers() if each.is_floating_point()]
        for each in statistics:
            each.uniform_(0.5, 1.5)
        x = torch.rand(3, *shape, dtype=torch.float64)
        torch.testing.assert_close(net(x), written_out(x, net.parameters(), iter(statistics)))
