"""Local training: every client trains alone and nothing is averaged (Liu et al. 2020, VII)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from fedrepro.fl.algorithms.algorithm import Algorithm, AlgorithmParams, Cost
from fedrepro.fl.algorithms.evaluation import evaluate_models
from fedrepro.fl.algorithms.participants import mean_loss
from fedrepro.fl.requests import Lane, Train, Trained

if TYPE_CHECKING:
    from fedrepro.fl.federation import Federation
    from fedrepro.fl.requests import OptimizerState, Steps, Weights


class Params(AlgorithmParams):
    """Parameters of local training."""

    name: Literal["local"]
    initial: Literal["common", "own"] = Field(
        default="common", description="one initialisation for all clients, or one each"
    )


@dataclass
class State:
    """Every client's model, float32 [size], and optimiser state; None before the first round."""

    weights: list[Weights]
    moments: list[OptimizerState | None]


def init(fed: Federation) -> State:
    """Start every client from the common initialisation or from its own."""
    own = fed.params(Params).initial == "own"
    nodes = range(len(fed.clients))
    return State([fed.initial_weights(k if own else None) for k in nodes], [None for _ in nodes])


def round(fed: Federation, state: State, t: int) -> Steps:
    """Train every client E epochs on its own examples."""
    lanes = [
        Lane(weights, examples, ("client", k), moments)
        for k, (weights, examples, moments) in enumerate(
            zip(state.weights, fed.clients, state.moments, strict=True)
        )
    ]
    trained: list[Trained] = yield Train(lanes, t, keep_optimizer_state=True)
    state.weights = [result.weights for result in trained]
    state.moments = [result.optimizer_state for result in trained]
    return {"train_loss": mean_loss(trained)}


def evaluate(fed: Federation, state: State) -> Steps:
    """Evaluate every client's own model."""
    return (yield from evaluate_models(fed, state.weights, range(len(fed.clients))))


ALGORITHM = Algorithm(
    Params,
    init,
    round,
    evaluate,
    example={"name": "local"},
    cost=Cost(models=lambda spec: spec.partition.clients),
)
