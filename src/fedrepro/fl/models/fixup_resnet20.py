"""The Fixup ResNet-20 (Zhang, Dauphin, Ma 2019) of Ozdayi et al. 2020: no normalisation layers.

conv 3x3 3->16, bias, ReLU -> three stages of three basic blocks with 16, 32, 64 channels, stride 2
into stages 2 and 3 -> global average pooling, bias, fc 10. Convolutions have padding 1 and no bias
vector; the biases and multipliers around them are single numbers. 268,393 parameters, 47 of them
such numbers, and 40,551,040 multiply-adds on 32x32 colour images with 10 classes at width 1.

Initial weights: the first convolution of each block is He normal (fan-out) times 9**-0.5 for the
nine blocks; the second, the linear layer and all biases are 0; multipliers 1; the stem is PyTorch's
default. So the logits are 0 and the Euclidean norm of all parameters is about 8.85.
"""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional

_BLOCKS_A_STAGE = 3
_STAGES = 3


class Bias(nn.Module):
    """Adds one number to everything."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Shift x, of any shape."""
        return x + self.bias


class Block(nn.Module):
    """A basic block; its first convolution may halve the image and double the channels.

    The shortcut then takes every second pixel of the biased input and fills the new channels with
    zeros (option A of He et al. 2016).
    """

    def __init__(self, channels: int, wider: int) -> None:
        super().__init__()
        self.added = wider - channels
        self.stride = 2 if self.added else 1
        self.bias1a = nn.Parameter(torch.zeros(1))
        self.conv1 = nn.Conv2d(channels, wider, 3, self.stride, padding=1, bias=False)
        self.bias1b = nn.Parameter(torch.zeros(1))
        self.bias2a = nn.Parameter(torch.zeros(1))
        self.conv2 = nn.Conv2d(wider, wider, 3, padding=1, bias=False)
        self.scale = nn.Parameter(torch.ones(1))
        self.bias2b = nn.Parameter(torch.zeros(1))
        std = math.sqrt(2 / (9 * wider)) * (_STAGES * _BLOCKS_A_STAGE) ** -0.5
        nn.init.normal_(self.conv1.weight, std=std)
        nn.init.zeros_(self.conv2.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map x, [n, channels, height, width], to [n, wider, height / stride, width / stride]."""
        shifted = x + self.bias1a
        branch = functional.relu(self.conv1(shifted) + self.bias1b)
        branch = self.conv2(branch + self.bias2a) * self.scale + self.bias2b
        if self.added:
            x = functional.pad(shifted[:, :, ::2, ::2], (0, 0, 0, 0, 0, self.added))
        return functional.relu(branch + x)


def build(shape: tuple[int, int, int], classes: int, width: float) -> nn.Sequential:
    """Build the network; ``width`` scales the 16 channels, which double twice."""
    channels = max(1, round(16 * width))
    net = nn.Sequential()
    net.add_module("conv", nn.Conv2d(shape[0], channels, 3, padding=1, bias=False))
    net.add_module("conv_bias", Bias())
    net.add_module("relu", nn.ReLU())
    for stage in range(_STAGES):
        for number in range(_BLOCKS_A_STAGE):
            wider = 2 * channels if stage and not number else channels
            net.add_module(f"block{stage + 1}{'abc'[number]}", Block(channels, wider))
            channels = wider
    net.add_module("pool", nn.AdaptiveAvgPool2d(1))
    net.add_module("flatten", nn.Flatten())
    net.add_module("pool_bias", Bias())
    output = nn.Linear(channels, classes)
    nn.init.zeros_(output.weight)
    nn.init.zeros_(output.bias)
    net.add_module("output", output)
    return net
