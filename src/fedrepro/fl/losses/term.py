"""What a loss term is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Outputs:
    """What a network makes of a batch.

    Attributes:
        labels: int64 [n].
        logits: float32 [n, classes].
        representation: input of the last layer, float32 [n, features].
        start: the same by the lane's start model, without gradient; None unless the term asks.
    """

    labels: torch.Tensor
    logits: torch.Tensor
    representation: torch.Tensor
    start: torch.Tensor | None


@dataclass(frozen=True)
class LossTerm:
    """A term of the loss of a batch.

    Attributes:
        name: what objectives call it.
        function: from :class:`Outputs` to a float32 [] that can be differentiated. It may not wait
            for the device nor depend on values, or it cannot be captured as a CUDA graph.
        needs_start: whether it looks at the start model's representation.
        version: raised when its numbers change; one above 1 is part of run ids.
    """

    name: str
    function: Callable[[Outputs], torch.Tensor]
    needs_start: bool = False
    version: int = 1

    @property
    def module(self) -> str:
        """Dotted name of the file that defines it."""
        return self.function.__module__
