"""Liu et al. 2020, Model 2 ("Four Layer Conv + ReLU", section III.B): two convolutions, two linear.

conv 5x5 1->10, max-pool 2, ReLU -> conv 5x5 10->20, channel dropout 0.5, max-pool 2, ReLU ->
fc 320->50 ReLU, dropout 0.5 -> fc 10, no padding: 21,840 parameters and 480,500 multiply-adds on
28x28 images with 10 classes at width 1. PyTorch's default initialisation, as their code ran.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedrepro.fl.models.network import Network

if TYPE_CHECKING:
    from torch import nn


def build(shape: tuple[int, int, int], classes: int, width: float) -> nn.Sequential:
    """Build the network; ``width`` scales the 10 and 20 channels and the 50 hidden units."""
    from torch import nn

    from fedrepro.fl.models.parts.layers import Dropout

    channels, height, breadth = shape
    first, second, hidden = (max(1, round(full * width)) for full in (10, 20, 50))
    rows, columns = (((size - 4) // 2 - 4) // 2 for size in (height, breadth))
    net = nn.Sequential()
    net.add_module("conv1", nn.Conv2d(channels, first, 5))
    net.add_module("pool1", nn.MaxPool2d(2))
    net.add_module("relu1", nn.ReLU())
    net.add_module("conv2", nn.Conv2d(first, second, 5))
    net.add_module("dropout1", Dropout(0.5, channels=True))
    net.add_module("pool2", nn.MaxPool2d(2))
    net.add_module("relu2", nn.ReLU())
    net.add_module("flatten", nn.Flatten())
    net.add_module("fc1", nn.Linear(second * rows * columns, hidden))
    net.add_module("relu3", nn.ReLU())
    net.add_module("dropout2", Dropout(0.5))
    net.add_module("fc2", nn.Linear(hidden, classes))
    return net


NETWORK = Network("liu2", build, mflop=2.595)
