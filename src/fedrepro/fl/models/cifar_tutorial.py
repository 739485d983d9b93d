"""The CIFAR-10 network of the TensorFlow tutorial, as in McMahan et al. 2017, Zhao et al. 2018.

McMahan et al. name it in section 3, Zhao et al. in section 2.1.
conv 5x5 3->64 same, ReLU, max-pool 3 stride 2 same, LRN -> conv 5x5 64->64 same, ReLU, LRN,
max-pool 3 stride 2 same -> fc 384 ReLU -> fc 192 ReLU -> fc 10: 1,068,298 parameters and 18,470,784
multiply-adds on 24x24 crops with 10 classes at width 1.

Initial weights as in the tutorial: normal with standard deviation 0.05 (convolutions), 0.04 (first
two linear layers) and 1/192 (last), drawn again beyond two standard deviations; biases 0 (first
convolution, last layer) or 0.1. Below width 1 the standard deviations of all layers but the first
are divided by the root of the width, so that signals keep their size. The tutorial's weight decay
belongs to the run.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from fedrepro.fl.models.network import Network

if TYPE_CHECKING:
    from torch import nn


_INITIAL = {
    "conv1": (0.05, 0.0),
    "conv2": (0.05, 0.1),
    "fc3": (0.04, 0.1),
    "fc4": (0.04, 0.1),
    "fc5": (1 / 192, 0.0),
}
"""Standard deviation of the weights, at width 1, and value of the biases of each layer."""


def build(shape: tuple[int, int, int], classes: int, width: float) -> nn.Sequential:
    """Build the network; ``width`` scales the 64 channels twice and the 384, 192 hidden units."""
    from torch import nn

    from fedrepro.fl.models.parts.blocks import LocalResponseNorm
    from fedrepro.fl.models.parts.initial import draw_truncated_normal

    channels, height, breadth = shape
    first, second, third, fourth = (max(1, round(full * width)) for full in (64, 64, 384, 192))
    net = nn.Sequential()
    # Same padding of a pool over an even size is one more row and column at the end: ceil_mode.
    # Pooling before the ReLU changes no value and no gradient, and leaves it a quarter of the work.
    net.add_module("conv1", nn.Conv2d(channels, first, 5, padding=2))
    net.add_module("pool1", nn.MaxPool2d(3, stride=2, ceil_mode=True))
    net.add_module("relu1", nn.ReLU())
    net.add_module("norm1", LocalResponseNorm(first))
    net.add_module("conv2", nn.Conv2d(first, second, 5, padding=2))
    net.add_module("relu2", nn.ReLU())
    net.add_module("norm2", LocalResponseNorm(second))
    net.add_module("pool2", nn.MaxPool2d(3, stride=2, ceil_mode=True))
    net.add_module("flatten", nn.Flatten())
    net.add_module("fc3", nn.Linear(second * (height // 4) * (breadth // 4), third))
    net.add_module("relu3", nn.ReLU())
    net.add_module("fc4", nn.Linear(third, fourth))
    net.add_module("relu4", nn.ReLU())
    net.add_module("fc5", nn.Linear(fourth, classes))
    for name, (std, bias) in _INITIAL.items():
        layer = net.get_submodule(name)
        assert isinstance(layer, nn.Conv2d | nn.Linear)
        assert layer.bias is not None
        if name != "conv1":
            std /= math.sqrt(width)
        draw_truncated_normal(layer.weight, std)
        nn.init.constant_(layer.bias, bias)
    return net


NETWORK = Network("cifar_tutorial", build, mflop=110.8)
