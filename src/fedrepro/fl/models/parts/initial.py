"""Initial weights that a spec may ask for in place of those that a network draws itself."""

from __future__ import annotations

from torch import nn


def draw_glorot(module: nn.Module) -> None:
    """Draw kernels as Glorot and Bengio 2010 do, uniformly (their eq. 16), and set biases to 0.

    So do the layers of Keras. Other parameters, such as those of batch normalisation, are left as
    they are. Draws from the global generator, layer by layer in the module's order.
    """
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
