"""The MNIST network of McMahan et al. 2017, used by Zhao et al. 2018 and Nguyen et al. 2023.

McMahan et al. describe it in section 3, Zhao et al. name it in section 2.1, Nguyen et al. in V-A.
conv 5x5 1->32 same, ReLU, max-pool 2 -> conv 5x5 32->64 same, ReLU, max-pool 2 -> fc 512 ReLU ->
fc 10: 1,663,370 parameters on 28x28 images with 10 classes at width 1. (The count forces the same
padding.) PyTorch's default initialisation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedrepro.fl.models.network import Network

if TYPE_CHECKING:
    from torch import nn


def build(shape: tuple[int, int, int], classes: int, width: float) -> nn.Sequential:
    """Build the network; ``width`` scales the 32 and 64 channels and the 512 hidden units."""
    from torch import nn

    channels, height, breadth = shape
    first, second, hidden = (max(1, round(full * width)) for full in (32, 64, 512))
    net = nn.Sequential()
    # Pooling before the ReLU changes no value and no gradient, and leaves it a quarter of the work.
    net.add_module("conv1", nn.Conv2d(channels, first, 5, padding=2))
    net.add_module("pool1", nn.MaxPool2d(2))
    net.add_module("relu1", nn.ReLU())
    net.add_module("conv2", nn.Conv2d(first, second, 5, padding=2))
    net.add_module("pool2", nn.MaxPool2d(2))
    net.add_module("relu2", nn.ReLU())
    net.add_module("flatten", nn.Flatten())
    net.add_module("fc1", nn.Linear(second * (height // 4) * (breadth // 4), hidden))
    net.add_module("relu3", nn.ReLU())
    net.add_module("fc2", nn.Linear(hidden, classes))
    return net


NETWORK = Network("mnist_cnn", build, mflop=72.4)
