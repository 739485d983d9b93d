"""Centralised training: one model on the union of all clients' examples.

An example that several clients hold is in the union once for each of them. One round is E epochs,
so that its curve can be drawn beside those of federated runs (Zhao et al. 2018, section 2.1; Liu et
al. 2020, section VII.C). The optimiser's state lives for the whole run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from fedrepro.fl.algorithms.algorithm import Algorithm, AlgorithmParams, Cost
from fedrepro.fl.requests import Lane, Train, Trained

if TYPE_CHECKING:
    from fedrepro.fl.federation import Federation
    from fedrepro.fl.requests import OptimizerState, Steps, Weights


class Params(AlgorithmParams):
    """Centralised training has no parameters beyond the spec's optimiser and batch."""

    name: Literal["sgd"]


@dataclass
class State:
    """The model and its optimiser's moments."""

    weights: Weights
    moments: OptimizerState | None = None


def init(fed: Federation) -> State:
    """Start from the common initialisation."""
    return State(fed.initial_weights())


def round(fed: Federation, state: State, t: int) -> Steps:
    """Train E epochs on the union."""
    lane = Lane(state.weights, np.concatenate(fed.clients), ("union",), state.moments)
    trained: list[Trained] = yield Train([lane], t, keep_optimizer_state=True)
    state.weights, state.moments = trained[0].weights, trained[0].optimizer_state
    return {"train_loss": trained[0].loss}


ALGORITHM = Algorithm(
    Params,
    init,
    round,
    example={"name": "sgd"},
    cost=Cost(lanes=lambda _: 1),
)
