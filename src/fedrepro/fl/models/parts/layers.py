"""Layers that suit the engine: dropout from named streams, batch normalisation without a counter.

Networks use these instead of PyTorch's so that a lane gets the same masks whatever is trained
beside it, and a step has no more kernels than it needs. In evaluation mode they behave as
PyTorch's.
"""

from __future__ import annotations

import torch
from torch import nn

from fedrepro.fl import device_streams


class Dropout(nn.Module):
    """Dropout whose mask is a pure function of a stream key.

    The engine sets :attr:`key` before each training step, to what :func:`set_keys` would.

    Args:
        p: probability of dropping, in [0, 1).
        channels: drop whole channels of [n, channels, ...] rather than single values.
    """

    key: torch.Tensor | None

    def __init__(self, p: float, *, channels: bool = False) -> None:
        super().__init__()
        self.p = p
        self.channels = channels
        self.key = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Drop and rescale by ``1 / (1 - p)`` in training mode; do nothing otherwise.

        Args:
            x: of any shape, or [n, channels, ...] with ``channels``.

        Raises:
            RuntimeError: there is no key in training mode.
        """
        if not self.training or self.p == 0:
            return x
        if self.key is None:
            raise RuntimeError("Dropout needs its stream key before a training step")
        shape = x.shape[:2] if self.channels else x.shape
        kept = device_streams.keep(self.key, shape.numel(), self.p).view(shape)
        scale = kept.to(x.dtype).div_(1 - self.p)
        return x * scale.view(*shape, *[1] * (x.dim() - len(shape)))

    def extra_repr(self) -> str:
        """Show the options."""
        return f"p={self.p}, channels={self.channels}"


def set_keys(module: nn.Module, key: torch.Tensor | None) -> None:
    """Give every dropout layer of a network its own key, derived from the step's key.

    Args:
        module: the network.
        key: int64 [], the key of the training step; None takes the keys away.
    """
    for number, layer in enumerate(dropouts(module)):
        layer.key = None if key is None else device_streams.child(key, number)


def dropouts(module: nn.Module) -> list[Dropout]:
    """Return the dropout layers of a network, in order."""
    return [layer for layer in module.modules() if isinstance(layer, Dropout)]


class _Uncounted(nn.modules.batchnorm._BatchNorm):
    """Batch normalisation without PyTorch's counter of batches, which running means do not need."""

    def __init__(self, features: int) -> None:
        super().__init__(features)
        self.num_batches_tracked = None


class BatchNorm1d(_Uncounted, nn.BatchNorm1d):
    """Batch normalisation of [n, channels]."""


class BatchNorm2d(_Uncounted, nn.BatchNorm2d):
    """Batch normalisation of [n, channels, height, width]."""


def normalises_vectors(module: nn.Module) -> bool:
    """Return whether a network normalises over the examples of a batch alone (BatchNorm1d)."""
    return any(isinstance(layer, nn.BatchNorm1d) for layer in module.modules())
