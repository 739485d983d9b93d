"""The ResNet-18 (He et al. 2016) of Nguyen et al. 2023 (CADIS, V-A) for the PILL images.

conv 3x3 3->64 with stride 1 and no max-pool, batch normalisation, ReLU -> four stages of two basic
blocks with 64, 128, 256, 512 channels, stride 2 into stages 2 to 4 -> global average pooling ->
linear layer. No convolution has a bias. 11,203,716 parameters with 68 classes at width 1, and
27,215 million multiply-adds on 224x224 colour images. PyTorch's default initialisation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedrepro.fl.models.network import Network

if TYPE_CHECKING:
    from torch import nn


def build(shape: tuple[int, int, int], classes: int, width: float) -> nn.Sequential:
    """Build the network; ``width`` scales the 64 channels, which double three times."""
    from torch import nn

    from fedrepro.fl.models.parts.blocks import BasicBlock
    from fedrepro.fl.models.parts.layers import BatchNorm2d

    channels = max(1, round(64 * width))
    net = nn.Sequential()
    net.add_module("conv", nn.Conv2d(shape[0], channels, 3, padding=1, bias=False))
    net.add_module("bn", BatchNorm2d(channels))
    net.add_module("relu", nn.ReLU())
    for stage in range(4):
        wider = 2 * channels if stage else channels
        net.add_module(f"block{stage + 1}a", BasicBlock(channels, wider))
        net.add_module(f"block{stage + 1}b", BasicBlock(wider, wider))
        channels = wider
    net.add_module("pool", nn.AdaptiveAvgPool2d(1))
    net.add_module("flatten", nn.Flatten())
    net.add_module("output", nn.Linear(channels, classes))
    return net


NETWORK = Network("resnet18", build, mflop=163_000.0, pixels=224 * 224)
