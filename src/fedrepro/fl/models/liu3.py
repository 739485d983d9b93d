"""Liu et al. 2020, Model 3 ("Six Layer Extra Wide", section III.B): three conv, three linear.

conv 3x3 1->32, conv 3x3 32->64, max-pool 2, conv 3x3 64->128, max-pool 2, padding 1, each with
batch normalisation and ReLU -> dropout 0.5, fc 6272->128 -> dropout 0.5, fc 128->64, each with
batch normalisation and ReLU -> dropout 0.5, fc 10: 905,354 parameters and 29,938,816 multiply-adds
on 28x28 images with 10 classes at width 1. PyTorch's default initialisation. That of PyTorch 1.0.0,
which their code ran with, draws the weights of batch normalisation from U(0, 1); here they are 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedrepro.fl.models.network import Network

if TYPE_CHECKING:
    from torch import nn


def build(shape: tuple[int, int, int], classes: int, width: float) -> nn.Sequential:
    """Build the network; ``width`` scales the 32, 64, 128 channels and 128, 64 hidden units."""
    from torch import nn

    from fedrepro.fl.models.parts.layers import BatchNorm1d, BatchNorm2d, Dropout

    channels, height, breadth = shape
    first, second, third, fourth, fifth = (
        max(1, round(full * width)) for full in (32, 64, 128, 128, 64)
    )
    net = nn.Sequential()
    net.add_module("conv1", nn.Conv2d(channels, first, 3, padding=1))
    net.add_module("bn1", BatchNorm2d(first))
    net.add_module("relu1", nn.ReLU())
    # Pooling before the ReLU changes no value and no gradient, and leaves it a quarter of the work.
    net.add_module("conv2", nn.Conv2d(first, second, 3, padding=1))
    net.add_module("bn2", BatchNorm2d(second))
    net.add_module("pool2", nn.MaxPool2d(2))
    net.add_module("relu2", nn.ReLU())
    net.add_module("conv3", nn.Conv2d(second, third, 3, padding=1))
    net.add_module("bn3", BatchNorm2d(third))
    net.add_module("pool3", nn.MaxPool2d(2))
    net.add_module("relu3", nn.ReLU())
    net.add_module("flatten", nn.Flatten())
    net.add_module("dropout4", Dropout(0.5))
    net.add_module("fc4", nn.Linear(third * (height // 4) * (breadth // 4), fourth))
    net.add_module("bn4", BatchNorm1d(fourth))
    net.add_module("relu4", nn.ReLU())
    net.add_module("dropout5", Dropout(0.5))
    net.add_module("fc5", nn.Linear(fourth, fifth))
    net.add_module("bn5", BatchNorm1d(fifth))
    net.add_module("relu5", nn.ReLU())
    net.add_module("dropout6", Dropout(0.5))
    net.add_module("fc6", nn.Linear(fifth, classes))
    return net


NETWORK = Network("liu3", build, mflop=179.6)
