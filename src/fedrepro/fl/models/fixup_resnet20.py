"""The Fixup ResNet-20 (Zhang, Dauphin, Ma 2019) of Ozdayi et al. 2020: no normalisation layers.

Ozdayi et al. name it in section 4.1.
conv 3x3 3->16, bias, ReLU -> three stages of three basic blocks with 16, 32, 64 channels, stride 2
into stages 2 and 3 -> global average pooling, bias, fc 10. Convolutions have padding 1 and no bias
vector; the biases and multipliers around them are single numbers. 268,393 parameters, 47 of them
such numbers, and 40,551,040 multiply-adds on 32x32 colour images with 10 classes at width 1.

Initial weights: the first convolution of each block is He normal (fan-out) times 9**-0.5 for the
nine blocks; the second, the linear layer and all biases are 0; multipliers 1; the stem is PyTorch's
default. So the logits are 0 and the Euclidean norm of all parameters is about 8.85.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedrepro.fl.models.network import Network

if TYPE_CHECKING:
    from torch import nn


_BLOCKS_A_STAGE = 3
_STAGES = 3


def build(shape: tuple[int, int, int], classes: int, width: float) -> nn.Sequential:
    """Build the network; ``width`` scales the 16 channels, which double twice."""
    from torch import nn

    from fedrepro.fl.models.parts.blocks import Bias, FixupBlock

    channels = max(1, round(16 * width))
    net = nn.Sequential()
    net.add_module("conv", nn.Conv2d(shape[0], channels, 3, padding=1, bias=False))
    net.add_module("conv_bias", Bias())
    net.add_module("relu", nn.ReLU())
    for stage in range(_STAGES):
        for number in range(_BLOCKS_A_STAGE):
            wider = 2 * channels if stage and not number else channels
            net.add_module(
                f"block{stage + 1}{'abc'[number]}",
                FixupBlock(channels, wider, _STAGES * _BLOCKS_A_STAGE),
            )
            channels = wider
    net.add_module("pool", nn.AdaptiveAvgPool2d(1))
    net.add_module("flatten", nn.Flatten())
    net.add_module("pool_bias", Bias())
    output = nn.Linear(channels, classes)
    nn.init.zeros_(output.weight)
    nn.init.zeros_(output.bias)
    net.add_module("output", output)
    return net


NETWORK = Network("fixup_resnet20", build, mflop=243.3, pixels=32 * 32)
