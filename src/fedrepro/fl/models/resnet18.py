"""The ResNet-18 (He et al. 2016) of Nguyen et al. 2023 (CADIS) for the PILL images.

conv 3x3 3->64 with stride 1 and no max-pool, batch normalisation, ReLU -> four stages of two basic
blocks with 64, 128, 256, 512 channels, stride 2 into stages 2 to 4 -> global average pooling ->
linear layer. No convolution has a bias. 11,203,716 parameters with 68 classes at width 1, and
27,215 million multiply-adds on 224x224 colour images. PyTorch's default initialisation.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from fedrepro.fl.models.layers import BatchNorm2d


class Block(nn.Module):
    """Two 3x3 convolutions beside a shortcut, which is a 1x1 convolution if the shape changes."""

    def __init__(self, channels: int, wider: int) -> None:
        super().__init__()
        stride = 1 if channels == wider else 2
        self.conv1 = nn.Conv2d(channels, wider, 3, stride, padding=1, bias=False)
        self.bn1 = BatchNorm2d(wider)
        self.conv2 = nn.Conv2d(wider, wider, 3, padding=1, bias=False)
        self.bn2 = BatchNorm2d(wider)
        self.shortcut = nn.Sequential()
        if channels != wider:
            self.shortcut.add_module("conv", nn.Conv2d(channels, wider, 1, stride, bias=False))
            self.shortcut.add_module("bn", BatchNorm2d(wider))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map x, [n, channels, height, width], to [n, wider, height / stride, width / stride]."""
        branch = functional.relu(self.bn1(self.conv1(x)))
        return functional.relu(self.bn2(self.conv2(branch)) + self.shortcut(x))


def build(shape: tuple[int, int, int], classes: int, width: float) -> nn.Sequential:
    """Build the network; ``width`` scales the 64 channels, which double three times."""
    channels = max(1, round(64 * width))
    net = nn.Sequential()
    net.add_module("conv", nn.Conv2d(shape[0], channels, 3, padding=1, bias=False))
    net.add_module("bn", BatchNorm2d(channels))
    net.add_module("relu", nn.ReLU())
    for stage in range(4):
        wider = 2 * channels if stage else channels
        net.add_module(f"block{stage + 1}a", Block(channels, wider))
        net.add_module(f"block{stage + 1}b", Block(wider, wider))
        channels = wider
    net.add_module("pool", nn.AdaptiveAvgPool2d(1))
    net.add_module("flatten", nn.Flatten())
    net.add_module("output", nn.Linear(channels, classes))
    return net
