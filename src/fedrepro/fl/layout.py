"""Where each parameter of a network lies in its flat weight vector."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True)
class Layout:
    """Names and shapes of a network's tensors, parameters first, then floating-point buffers.

    Attributes:
        names: dotted names, such as ``conv1.weight``.
        shapes: their shapes.
        offsets: start of each in the flat vector; the last entry is the vector's length.
        parameters: length of the trainable front part.
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    offsets: tuple[int, ...]
    parameters: int

    @classmethod
    def of(cls, module: nn.Module) -> Layout:
        """Read the layout off a module; integer buffers (step counters) are left out."""
        trainable = [(name, tuple(p.shape)) for name, p in module.named_parameters()]
        buffers = [
            (name, tuple(b.shape)) for name, b in module.named_buffers() if b.is_floating_point()
        ]
        offsets = [0]
        for _, shape in trainable + buffers:
            offsets.append(offsets[-1] + math.prod(shape))
        return cls(
            names=tuple(name for name, _ in trainable + buffers),
            shapes=tuple(shape for _, shape in trainable + buffers),
            offsets=tuple(offsets),
            parameters=offsets[len(trainable)],
        )

    @property
    def size(self) -> int:
        """Length of the flat vector."""
        return self.offsets[-1]

    def view(self, flat: torch.Tensor, position: int) -> torch.Tensor:
        """Return tensor number ``position``, in its own shape, as a view of a vector [size]."""
        part = flat[self.offsets[position] : self.offsets[position + 1]]
        return part.view(self.shapes[position])

    def flatten(self, module: nn.Module) -> torch.Tensor:
        """Copy a module's tensors into a new flat vector, float32 [size]."""
        tensors = dict(module.named_parameters()) | dict(module.named_buffers())
        return torch.cat([tensors[name].detach().reshape(-1).float() for name in self.names])
