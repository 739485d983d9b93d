"""What an algorithm may ask of the engine: train these models, or predict with them.

An algorithm is a generator that yields :class:`Train` and :class:`Predict` requests and receives
lists of :class:`Trained` and :class:`Prediction`, one per lane or model, in the order asked.
It never loops over batches, never touches a device, and never knows which other runs are in
flight. Model weights are one flat float32 vector: trainable parameters first, then buffers.

This module imports no torch at run time: specs and algorithms are read by the Snakefile.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

Weights: TypeAlias = "torch.Tensor"
"""Flat float32 [parameters + buffers]."""
OptimizerState: TypeAlias = "dict[str, torch.Tensor | int]"
"""Named moment vectors, each float32 [parameters], and the step count."""
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Lane:
    """One model to be trained on one list of examples.

    Attributes:
        weights: start weights, float32 [parameters + buffers]; left unchanged.
        examples: positions in the training split, int64 [n].
        stream: ids that name the lane's random streams within the run and round, such as
            ``("client", 3)``; two lanes of one request must differ.
        optimizer_state: moments to continue from; None starts fresh.
        batch: examples a step; None takes the spec's.
    """

    weights: Weights
    examples: IntArray
    stream: tuple[str | int, ...]
    optimizer_state: OptimizerState | None = None
    batch: int | None = None


@dataclass(frozen=True)
class Train:
    """Train every lane for the spec's number of local epochs, each on its own.

    Attributes:
        lanes: the models to train.
        round: round index from 0; sets the step size and names the random streams.
        keep_optimizer_state: whether the results carry the moments.
        epochs: epochs a lane; None takes the spec's ``local_epochs``.
    """

    lanes: Sequence[Lane]
    round: int
    keep_optimizer_state: bool = False
    epochs: int | None = None


@dataclass(frozen=True)
class Trained:
    """A lane after training: weights float32 [parameters + buffers], mean loss of all steps."""

    weights: Weights
    loss: float
    optimizer_state: OptimizerState | None


@dataclass(frozen=True)
class Predict:
    """Predict with every model on the same examples, without training.

    Attributes:
        models: weights, each float32 [parameters + buffers].
        split: which official split ``examples`` points into.
        examples: int64 [n]; None is the whole split.
    """

    models: Sequence[Weights]
    split: Literal["train", "test"]
    examples: IntArray | None = None


@dataclass(frozen=True)
class Prediction:
    """A model's answers: ``classes`` int64 [n], ``correct`` bool [n], ``loss`` mean over n."""

    classes: IntArray
    correct: NDArray[np.bool_]
    loss: float

    @property
    def accuracy(self) -> float:
        """Share of correct answers, 0..1."""
        return float(self.correct.mean())


Request = Train | Predict
Steps = Generator[Request, Any, Any]
"""A generator that yields requests, receives their results and returns a value."""
