"""The ResNet-9 of Nguyen et al. 2023 (CADIS, V-A) for CIFAR-10 and CIFAR-100.

A block is conv 3x3 with padding 1 and bias, batch normalisation, ReLU and, where marked p, max-pool
2. Blocks 3->32, 32->64 p, a residual of two blocks of 64, 64->128 p, 128->256 p, a residual of two
blocks of 256; max-pool 4 to a single pixel, dropout 0.2, linear layer. A residual adds its input
after the last ReLU. 1,647,242 parameters with 10 classes and 1,670,372 with 100 on 32x32 colour
images at width 1. PyTorch's default initialisation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedrepro.fl.models.network import Network

if TYPE_CHECKING:
    from torch import nn


def build(shape: tuple[int, int, int], classes: int, width: float) -> nn.Sequential:
    """Build the network; ``width`` scales the 32 channels, which double three times."""
    from torch import nn

    from fedrepro.fl.models.parts.blocks import TwoBlocks, conv_block
    from fedrepro.fl.models.parts.layers import Dropout

    channels, height, breadth = shape
    base = max(1, round(32 * width))
    net = nn.Sequential()
    net.add_module("block1", conv_block(channels, base))
    net.add_module("block2", conv_block(base, 2 * base, pool=True))
    net.add_module("residual1", TwoBlocks(2 * base))
    net.add_module("block3", conv_block(2 * base, 4 * base, pool=True))
    net.add_module("block4", conv_block(4 * base, 8 * base, pool=True))
    net.add_module("residual2", TwoBlocks(8 * base))
    net.add_module("pool", nn.MaxPool2d((height // 8, breadth // 8)))
    net.add_module("flatten", nn.Flatten())
    net.add_module("dropout", Dropout(0.2))
    net.add_module("output", nn.Linear(8 * base, classes))
    return net


NETWORK = Network("resnet9", build, mflop=571.6, pixels=32 * 32)
