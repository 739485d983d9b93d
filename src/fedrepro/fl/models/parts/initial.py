"""Initial weights that a spec may ask for in place of those that a network draws itself."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


def draw(module: nn.Module, init: str, width: float) -> None:
    """Draw the kernels and set the biases of convolutions and linear layers anew.

    Other parameters, such as those of batch normalisation, are left as they are. Draws from the
    global generator, layer by layer in the module's order.

    Args:
        module: the network.
        init: ``glorot``, kernels as Glorot and Bengio 2010 draw them, uniformly (their eq. 16),
            and biases 0, as Keras has it; ``truncated_normal``, kernels of standard deviation
            0.1, cut at two of them, and biases 0.1; or ``tensorflow_mnist``, the same with biases
            0 in the first layer, as in ``tutorials/image/mnist/convolutional.py`` of TensorFlow's
            models.
        width: share of the network's full width. Below 1 the standard deviations of all layers but
            the first are divided by its root, so that signals keep their size. Glorot's do so
            by themselves.
    """
    layers = [layer for layer in module.modules() if isinstance(layer, nn.Conv2d | nn.Linear)]
    for place, layer in enumerate(layers):
        if init == "glorot":
            nn.init.xavier_uniform_(layer.weight)
            bias = 0.0
        else:
            draw_truncated_normal(layer.weight, 0.1 / math.sqrt(width if place else 1))
            bias = 0.0 if init == "tensorflow_mnist" and place == 0 else 0.1
        if layer.bias is not None:
            nn.init.constant_(layer.bias, bias)


def draw_truncated_normal(weights: Tensor, std: float) -> None:
    """Draw from a normal distribution cut at two standard deviations, by its inverse.

    PyTorch's ``trunc_normal_`` did the same until 2.11; 2.13 draws again what is beyond, and so
    other numbers from the same seed.
    """
    share = math.erf(math.sqrt(2.0))  # of a normal distribution, within two standard deviations
    with torch.no_grad():
        weights.uniform_(-share, share).erfinv_().mul_(std * math.sqrt(2.0))
        weights.clamp_(-2 * std, 2 * std)
