"""Network architectures, one small file each, with the parameter counts of their papers.

``build`` returns a network from images [n, channels, height, width] to logits [n, classes]. What
the engine relies on:

- It is an :class:`torch.nn.Sequential` whose last child is the :class:`torch.nn.Linear` from the
  representation to the logits, so ``net[:-1]`` is the representation map.
- Dropout and batch normalisation are those of :mod:`fedrepro.fl.models.layers`.
- It can be captured as a CUDA graph: nothing in it waits for the device or depends on values.
- It runs in the ``channels_last`` memory format.
- ``width`` in (0, 1] scales a layer of n channels or units to ``max(1, round(n * width))``; where
  channels double from stage to stage, the first stage is scaled and the doubling stays.
- Initial weights are PyTorch's defaults unless a file says otherwise, drawn in the constructor from
  the global generator only.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from fedrepro.fl.models import (
    cifar_tutorial,
    fedcd_cnn,
    fixup_resnet20,
    kws_cnn,
    liu1,
    liu2,
    liu3,
    mnist_cnn,
    resnet9,
    resnet18,
)

Shape = tuple[int, int, int]
"""Channels, height, width of one example."""

MODELS: dict[str, Callable[[Shape, int, float], nn.Sequential]] = {
    "liu1": liu1.build,
    "liu2": liu2.build,
    "liu3": liu3.build,
    "mnist_cnn": mnist_cnn.build,
    "cifar_tutorial": cifar_tutorial.build,
    "kws_cnn": kws_cnn.build,
    "fedcd_cnn": fedcd_cnn.build,
    "resnet9": resnet9.build,
    "fixup_resnet20": fixup_resnet20.build,
    "resnet18": resnet18.build,
}


def build(name: str, shape: Shape, classes: int, width: float = 1.0) -> nn.Sequential:
    """Build a network.

    Args:
        name: a key of ``MODELS``.
        shape: channels, height and width of one example.
        classes: number of logits.
        width: share of the hidden units and channels kept, in (0, 1].
    """
    return MODELS[name](shape, classes, width)
