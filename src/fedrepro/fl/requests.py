"""What an algorithm may ask of the engine: train these models, or predict with them.

An algorithm is a generator that yields :class:`Train` and :class:`Predict` requests and receives
lists of :class:`Trained` and :class:`Prediction`, one per lane or model, in the order asked.
It never loops over batches, never names a device, and never knows which other runs are in
flight. Model weights are one flat float32 vector: trainable parameters first, then buffers.
Weights and moments are on the backend's device, in requests and in results, and stay there between
requests: an algorithm's own arithmetic runs where they are. Neither side changes a tensor of a
request or of a result. Predictions are arrays on the CPU.

This module imports no torch at run time: specs and algorithms are read by the Snakefile.
"""

from __future__ import annotations

import math
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
            ``("client", 3)``; two lanes of one request must differ. A second request of the round
            with the same ids draws the same shuffles, masks and noise.
        optimizer_state: moments to continue from; None starts fresh.
        batch: examples a step; None takes the spec's.
        epochs: passes over its examples; None takes the request's.
        lr: step size; None takes the spec's at the request's round.
        linear: vector g, float32 [parameters], that adds ``<g, w>`` to the loss.
    """

    weights: Weights
    examples: IntArray
    stream: tuple[str | int, ...]
    optimizer_state: OptimizerState | None = None
    batch: int | None = None
    epochs: int | None = None
    lr: float | None = None
    linear: Weights | None = None


@dataclass(frozen=True)
class Objective:
    """What a lane minimises besides the mean cross entropy, and what else a step does.

    With ``w_0`` the lane's start weights, a step takes the gradient of

    ``CE + proximal / 2 * ||w - w_0||^2 + <linear, w> + sum of weight * term``,

    scales it down to the optimiser's ``clip_norm``, adds noise, steps, and projects. The norms run
    over all trainable parameters. FedProx is ``proximal`` alone, FedDyn is ``proximal`` with the
    client's ``linear``.

    Attributes:
        proximal: weight of the quadratic term, >= 0.
        terms: names of loss terms (:mod:`fedrepro.fl.losses`), each with its weight.
        gradient_noise: standard deviation of Gaussian noise on every gradient coordinate.
        projection: after each step, bound the norm of the ``weights`` or of the ``update``
            ``w - w_0`` by ``radius`` (Ozdayi et al. 2020, section 3.2).
        radius: the bound on the Euclidean norm, > 0; finite with ``projection``.
        quantise_bits: after training, round the weights stochastically to this many bits
            (Kopparapu et al. 2020, section 3.4, as in their code); None leaves them.
    """

    proximal: float = 0.0
    terms: tuple[tuple[str, float], ...] = ()
    gradient_noise: float = 0.0
    projection: Literal["weights", "update"] | None = None
    radius: float = math.inf
    quantise_bits: int | None = None


@dataclass(frozen=True)
class Train:
    """Train every lane, each on its own.

    Attributes:
        lanes: the models to train.
        round: round index from 0; sets the step size and names the random streams.
        keep_optimizer_state: whether the results carry the moments.
        epochs: epochs a lane; None takes the spec's ``local_epochs``.
        objective: what the lanes minimise.
    """

    lanes: Sequence[Lane]
    round: int
    keep_optimizer_state: bool = False
    epochs: int | None = None
    objective: Objective = Objective()


@dataclass(frozen=True)
class Trained:
    """A lane after training.

    Attributes:
        weights: float32 [parameters + buffers], on the backend's device.
        loss: cross entropy in nats, mean over the examples of all steps; 0 if there was no step.
        optimizer_state: the moments, on the same device; None unless they were asked for.
    """

    weights: Weights
    loss: float
    optimizer_state: OptimizerState | None


@dataclass(frozen=True)
class Predict:
    """Predict with every model, without training: on the same examples or each on its own.

    Attributes:
        models: weights, each float32 [parameters + buffers].
        split: the official split that ``examples`` are positions in.
        examples: int64 [n] for all models; or a list with one such array for each model, of any
            lengths but 0; None is the whole split.
    """

    models: Sequence[Weights]
    split: Literal["train", "test"]
    examples: IntArray | Sequence[IntArray] | None = None


@dataclass(frozen=True)
class Prediction:
    """A model's answers.

    Attributes:
        classes: predicted classes, int64 [n].
        correct: whether they are right, bool [n].
        loss: cross entropy in nats, mean over the n examples.
    """

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
