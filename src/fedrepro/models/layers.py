"""Layers whose training behaviour the engine steers: dropout from named streams, masked norms.

Networks use these instead of PyTorch's so that a lane gets the same masks and the same statistics
whether it is trained alone or stacked with others. In evaluation mode they do what PyTorch's do.
"""

from __future__ import annotations

import torch
from torch import nn

from fedrepro import device_streams


class Dropout(nn.Module):
    """Dropout whose mask is a pure function of a stream key.

    The engine sets :attr:`key` before each training step; see :func:`set_keys`.

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
        """Drop and rescale by ``1 / (1 - p)`` in training mode; do nothing otherwise."""
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
    layers = [layer for layer in module.modules() if isinstance(layer, Dropout)]
    for number, layer in enumerate(layers):
        layer.key = None if key is None else device_streams.child(key, number)


class _MaskedBatchNorm(nn.modules.batchnorm._BatchNorm):
    """Batch normalisation that can leave padded examples out and return its new statistics.

    With no mask it is PyTorch's layer and updates its buffers in place. With :attr:`mask`, float32
    [n] of ones and zeros, only the marked examples count; the new running statistics are then kept
    in :attr:`updated` and the buffers stay as they are, as ``torch.func`` asks for.
    """

    mask: torch.Tensor | None = None
    updated: tuple[torch.Tensor, torch.Tensor] | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Normalise x, [n, channels] or [n, channels, height, width]."""
        if not self.training or self.mask is None:
            return super().forward(x)
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.momentum is not None
        spatial = list(range(2, x.dim()))
        shape = [1, -1, *[1] * len(spatial)]
        mask = self.mask.view(-1, *[1] * (x.dim() - 1))
        count = self.mask.sum() * x.shape[2:].numel()
        axes = [0, *spatial]
        mean = (x * mask).sum(axes) / count.clamp(min=1)
        centred = (x - mean.view(shape)) * mask
        variance = (centred * centred).sum(axes) / count.clamp(min=1)
        unbiased = variance * count / (count - 1).clamp(min=1)
        self.updated = (
            torch.lerp(self.running_mean, mean, self.momentum),
            torch.lerp(self.running_var, unbiased, self.momentum),
        )
        scale = self.weight * torch.rsqrt(variance + self.eps)
        return centred * scale.view(shape) + self.bias.view(shape)


class BatchNorm1d(_MaskedBatchNorm, nn.BatchNorm1d):
    """Batch normalisation of [n, channels]."""


class BatchNorm2d(_MaskedBatchNorm, nn.BatchNorm2d):
    """Batch normalisation of [n, channels, height, width]."""


def batch_norms(module: nn.Module) -> list[tuple[str, _MaskedBatchNorm]]:
    """Return the batch normalisation layers of a network and their dotted names, in order."""
    return [
        (name, layer)
        for name, layer in module.named_modules()
        if isinstance(layer, _MaskedBatchNorm)
    ]
