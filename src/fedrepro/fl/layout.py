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

    def divergence(self, model: torch.Tensor, reference: torch.Tensor) -> dict[str, float]:
        """Return ``||w - w_ref|| / ||w_ref||`` (Zhao et al. 2018, eq. 1).

        Args:
            model: w, float32 [size].
            reference: w_ref, float32 [size].

        Returns:
            ``<layer>`` for each trainable weight tensor without its bias, ``<layer>+bias`` with
            it, and ``model`` for all parameters.
        """

        def ratio(positions: list[int]) -> torch.Tensor:
            ours = torch.cat([self.view(model, i).reshape(-1) for i in positions]).double()
            theirs = torch.cat([self.view(reference, i).reshape(-1) for i in positions]).double()
            share: torch.Tensor = (ours - theirs).norm() / theirs.norm()
            return share

        trainable = [i for i in range(len(self.names)) if self.offsets[i] < self.parameters]
        result: dict[str, torch.Tensor] = {}
        for i in trainable:
            layer, _, kind = self.names[i].rpartition(".")
            if kind == "weight":
                result[layer] = ratio([i])
                same = [j for j in trainable if self.names[j].rpartition(".")[0] == layer]
                result[f"{layer}+bias"] = ratio(same)
        result["model"] = ratio(trainable)
        return dict(zip(result, torch.stack(list(result.values())).tolist(), strict=True))
