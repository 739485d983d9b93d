"""Liu et al. 2020, Model 1 ("Single Layer ReLU", section III.B): 784 -> 30 ReLU -> 10.

23,860 parameters on 28x28 images with 10 classes at width 1. The log-softmax output and NLL loss of
the paper are the cross entropy of these logits.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from fedrepro.fl.models.network import Network

if TYPE_CHECKING:
    from torch import nn


def build(shape: tuple[int, int, int], classes: int, width: float) -> nn.Sequential:
    """Build the network; ``width`` scales the 30 hidden units."""
    from torch import nn

    hidden = max(1, round(30 * width))
    net = nn.Sequential()
    net.add_module("flatten", nn.Flatten())
    net.add_module("hidden", nn.Linear(math.prod(shape), hidden))
    net.add_module("relu", nn.ReLU())
    net.add_module("output", nn.Linear(hidden, classes))
    return net


NETWORK = Network("liu1", build, mflop=0.0959)
