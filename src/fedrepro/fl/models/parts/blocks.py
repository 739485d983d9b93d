"""Parts of the networks that PyTorch does not have as a layer."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional

from fedrepro.fl.models.parts.layers import BatchNorm2d


class LocalResponseNorm(nn.Module):
    """Response normalisation across channels (Krizhevsky et al. 2012), constants of the tutorial.

    Each value is divided by ``(1 + 0.001 / 9 * s) ** 0.75``, where s sums the squares at the same
    position in the nine channels around it (fewer at the ends). That is PyTorch's layer with size
    9, alpha 0.001, beta 0.75 and k 1, which on a CPU takes as long as the second convolution.
    """

    band: torch.Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        # A 1x1 convolution with a band of ones sums the neighbours. Truth values, since numbers
        # would count as running statistics and be part of the weights.
        band = torch.ones(channels, channels, dtype=torch.bool).tril_(4).triu_(-4)
        self.register_buffer("band", band.view(channels, channels, 1, 1), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Normalise x, [n, channels, height, width]."""
        sums = functional.conv2d(x * x, self.band.to(x.dtype))
        root = torch.rsqrt(1 + 0.001 / 9 * sums.float())  # the 1 would swallow the rest in bfloat16
        return x * (root * root.sqrt()).to(x.dtype)


class TwoBlocks(nn.Module):
    """Two blocks whose output is added to their input."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.block1 = conv_block(channels, channels)
        self.block2 = conv_block(channels, channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map x, [n, channels, height, width], to the same shape."""
        result: torch.Tensor = x + self.block2(self.block1(x))
        return result


def conv_block(channels: int, wider: int, *, pool: bool = False) -> nn.Sequential:
    """Return a 3x3 convolution, batch normalisation, 2x2 max-pooling if asked for, and ReLU."""
    block = nn.Sequential()
    block.add_module("conv", nn.Conv2d(channels, wider, 3, padding=1))
    block.add_module("bn", BatchNorm2d(wider))
    if pool:  # before the ReLU: the same values and gradients, and a quarter of its work
        block.add_module("pool", nn.MaxPool2d(2))
    block.add_module("relu", nn.ReLU())
    return block


class Bias(nn.Module):
    """Adds one number to everything."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Shift x, of any shape."""
        return x + self.bias


class FixupBlock(nn.Module):
    """A basic block; its first convolution may halve the image and double the channels.

    The shortcut then takes every second pixel of the biased input and fills the new channels with
    zeros (option A of He et al. 2016). ``blocks`` is the number of all blocks of the network.
    """

    def __init__(self, channels: int, wider: int, blocks: int) -> None:
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
        std = math.sqrt(2 / (9 * wider)) * blocks**-0.5
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


class BasicBlock(nn.Module):
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
