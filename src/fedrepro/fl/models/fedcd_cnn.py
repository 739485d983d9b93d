"""The network of Kopparapu et al. 2020 (FedCD): nine convolutions and a linear layer.

The paper says "10-layer convolutional neural network" (section 3.1); the rest is its public code.
Each block is conv 3x3 with padding 1 and no bias, batch normalisation, ReLU; channels 32, 32, 64,
64, 64, 128, 128, 256, 256, stride 2 in blocks 3 and 6; then global average pooling and fc 10.
1,212,778 parameters and 104,696,320 multiply-adds on 32x32 colour images with 10 classes at width
1. PyTorch's default initialisation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedrepro.fl.models.network import Network

if TYPE_CHECKING:
    from torch import nn


_BLOCKS = ((32, 1), (32, 1), (64, 2), (64, 1), (64, 1), (128, 2), (128, 1), (256, 1), (256, 1))
"""Channels at width 1 and stride of each block."""


def build(shape: tuple[int, int, int], classes: int, width: float) -> nn.Sequential:
    """Build the network; ``width`` scales the channels of every block."""
    from torch import nn

    from fedrepro.fl.models.parts.layers import BatchNorm2d

    channels = shape[0]
    net = nn.Sequential()
    for number, (full, stride) in enumerate(_BLOCKS, start=1):
        wider = max(1, round(full * width))
        conv = nn.Conv2d(channels, wider, 3, stride, padding=1, bias=False)
        net.add_module(f"conv{number}", conv)
        net.add_module(f"bn{number}", BatchNorm2d(wider))
        net.add_module(f"relu{number}", nn.ReLU())
        channels = wider
    net.add_module("pool", nn.AdaptiveAvgPool2d(1))
    net.add_module("flatten", nn.Flatten())
    net.add_module("output", nn.Linear(channels, classes))
    return net


NETWORK = Network("fedcd_cnn", build, mflop=628.2)
