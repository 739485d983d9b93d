"""Network architectures, one small file each, with the parameter counts of their papers.

``build`` returns a network from images [n, channels, height, width] to logits [n, classes]. What
the engine relies on:

- It is an :class:`torch.nn.Sequential` whose last child is the :class:`torch.nn.Linear` from the
  representation to the logits, so ``net[:-1]`` is the representation map.
- Dropout and batch normalisation are those of :mod:`fedrepro.fl.models.parts.layers`.
- Every parameter is used and trained, and belongs to one layer. Only layers without any, such as a
  ReLU, may stand in two places.
- What else changes in training is in buffers of floats, which are changed in place.
- It can be captured as a CUDA graph: nothing in it waits for the device or depends on values.
- It runs in the ``channels_last`` memory format.
- ``width`` in (0, 1] scales a layer of n channels or units to ``max(1, round(n * width))``; where
  channels double from stage to stage, the first stage is scaled and the doubling stays.
- Initial weights are PyTorch's defaults unless a file says otherwise, drawn in the constructor from
  the global generator only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fedrepro.fl.components import Registry
from fedrepro.fl.models.network import Network, Shape

if TYPE_CHECKING:
    from torch import nn

__all__ = ["NETWORKS", "Network", "Shape", "build"]


def _network_name(value: Any) -> str | None:
    return value.name if isinstance(value, Network) else None


NETWORKS: Registry[Network] = Registry("network", __name__, "fedrepro.networks", _network_name)


def build(name: str, shape: Shape, classes: int, width: float = 1.0) -> nn.Sequential:
    """Build a network.

    Args:
        name: a key of ``NETWORKS``.
        shape: channels, height and width of one example.
        classes: number of logits.
        width: share of the hidden units and channels kept, in (0, 1].

    Returns:
        The network, on the CPU, in training mode; its weights are drawn from the global generator.

    Raises:
        FedreproError: there is no network of this name.
    """
    return NETWORKS[name].build(shape, classes, width)
