"""Network architectures, one small file each, with the parameter counts of their papers.

``build`` returns a plain :class:`torch.nn.Module` from images [n, channels, height, width] to
logits [n, classes]. Initial weights come from PyTorch's default initialisation unless a file says
otherwise.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from fedrepro.models import liu1, mnist_cnn

Shape = tuple[int, int, int]
"""Channels, height, width of one example."""

MODELS: dict[str, Callable[[Shape, int, float], nn.Module]] = {
    "liu1": liu1.build,
    "mnist_cnn": mnist_cnn.build,
}


def build(name: str, shape: Shape, classes: int, width: float = 1.0) -> nn.Module:
    """Build a network.

    Args:
        name: a key of ``MODELS``.
        shape: channels, height and width of one example.
        classes: number of logits.
        width: share of the hidden units and channels kept, in (0, 1].
    """
    return MODELS[name](shape, classes, width)
