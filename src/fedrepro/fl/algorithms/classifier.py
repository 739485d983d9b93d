"""The final layer of a model, which tells what it was trained on (Nguyen et al. 2023, III-B).

The paper calls its weight matrix the penultimate layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from fedrepro.base.errors import FedreproError

if TYPE_CHECKING:
    from fedrepro.fl.layout import Layout
    from fedrepro.fl.requests import Weights

Vector = Literal["weight_change", "bias_change", "weight", "bias"]
"""What of a client's final layer is compared: a change in training, or the trained values."""


def tensors(layout: Layout, weights: Weights) -> tuple[Weights, Weights]:
    """Return the final layer's matrix, float32 [classes, features], and bias, float32 [classes].

    They are the last two trainable tensors of a network (see :mod:`fedrepro.fl.models`).

    Raises:
        FedreproError: the final layer has no bias.
    """
    last = layout.offsets.index(layout.parameters) - 1
    if not layout.names[last].endswith(".bias"):
        raise FedreproError(
            "model.name: clients are compared by the weights and the bias of the final layer, and "
            "that of this network has no bias"
        )
    return layout.view(weights, last - 1), layout.view(weights, last)


def vectors(
    layout: Layout, trained: Sequence[Weights], start: Weights, kind: Vector
) -> NDArray[np.float32]:
    """Return what is compared of every trained model's final layer, copied to the host together.

    Args:
        layout: of the network.
        trained: weights after training of K models, float32 [size] each.
        start: weights that they started from, float32 [size].
        kind: matrix or bias; as trained, or the change in training.

    Returns:
        float32 [K, classes * features] of the matrix, or float32 [K, classes] of the bias.
    """
    import torch  # slow to import, and the Snakefile reads this module

    place = 0 if kind.startswith("weight") else 1
    before = tensors(layout, start)[place]
    shown = [tensors(layout, weights)[place] for weights in trained]
    if kind.endswith("_change"):
        shown = [after - before for after in shown]
    together = torch.stack([vector.reshape(-1) for vector in shown])
    compared: NDArray[np.float32] = together.cpu().numpy()
    return compared
