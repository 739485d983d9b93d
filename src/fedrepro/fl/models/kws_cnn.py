"""The keyword-spotting CNN of Zhao et al. 2018 (2.1): size S of Zhang et al. 2017 ("Hello Edge").

conv 10x4 1->28, ReLU -> conv 10x4 28->30 stride 2x1, ReLU -> fc 16 (no activation) -> fc 128 ReLU
-> fc 10, no padding: 68,980 parameters and 2,505,888 multiply-adds on maps of 50 frames x 10
coefficients with 10 classes at width 1. Zhao et al. give neither size nor normalisation; without
the batch normalisation of the original its tiny initial weights would not train, so: He et al. 2015
where a ReLU follows, Glorot and Bengio 2010 elsewhere, biases 0.

On other maps a kernel covers the same share, a fifth of the frames and two fifths of the
coefficients. Rows are frames, except in the 20 coefficients x 11 frames of ``kws_mfcc20``: there
the kernels are 8x2, the stride is 1x2, and the network has 31,828 parameters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedrepro.fl.models.network import Network

if TYPE_CHECKING:
    from torch import nn


_PACKED = (1, 20, 11)


def build(shape: tuple[int, int, int], classes: int, width: float) -> nn.Sequential:
    """Build the network; ``width`` scales 28 and 30 channels, 16 and 128 hidden units."""
    from torch import nn

    channels, rows, columns = shape
    first, second, low_rank, hidden = (max(1, round(full * width)) for full in (28, 30, 16, 128))
    shares, stride = ((0.4, 0.2), (1, 2)) if shape == _PACKED else ((0.2, 0.4), (2, 1))
    kernel = max(1, round(shares[0] * rows)), max(1, round(shares[1] * columns))
    left = [
        (size - 2 * (k - 1) - 1) // s + 1
        for size, k, s in zip((rows, columns), kernel, stride, strict=True)
    ]
    net = nn.Sequential()
    net.add_module("conv1", nn.Conv2d(channels, first, kernel))
    net.add_module("relu1", nn.ReLU())
    net.add_module("conv2", nn.Conv2d(first, second, kernel, stride))
    net.add_module("relu2", nn.ReLU())
    net.add_module("flatten", nn.Flatten())
    net.add_module("low_rank", nn.Linear(second * left[0] * left[1], low_rank))
    net.add_module("fc", nn.Linear(low_rank, hidden))
    net.add_module("relu3", nn.ReLU())
    net.add_module("output", nn.Linear(hidden, classes))
    for name, layer in net.named_children():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            if name in ("low_rank", "output"):
                nn.init.xavier_uniform_(layer.weight)
            else:
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            assert layer.bias is not None
            nn.init.zeros_(layer.bias)
    return net


NETWORK = Network("kws_cnn", build, mflop=15.0)
