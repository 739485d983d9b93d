"""FedProx (Li et al. 2020, Algorithm 2), as Nguyen et al. 2023 compare with it.

A client minimises its cross entropy plus ``mu / 2 * ||w - w_t||^2``; the server averages as FedAvg
does. With ``mu = 0`` it is FedAvg. Clients are drawn uniformly; Li et al. draw client k with
probability n_k / n, and then average with 1 / K.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from fedrepro.fl.algorithms import participants
from fedrepro.fl.algorithms.algorithm import Algorithm, SamplingParams
from fedrepro.fl.algorithms.averaging import weighted_mean
from fedrepro.fl.algorithms.participants import Order, Weighting
from fedrepro.fl.requests import Objective

if TYPE_CHECKING:
    from fedrepro.fl.federation import Federation
    from fedrepro.fl.requests import Steps, Weights
    from fedrepro.fl.spec import RunSpec


class Params(SamplingParams):
    """Parameters of FedProx."""

    name: Literal["fedprox"]
    mu: float = Field(ge=0, description="weight of the proximal term")
    weighting: Weighting = Field(
        default="examples", description="n_k / n, or 1 / K (Nguyen et al. 2023, footnote 1)"
    )
    order: Order = Field(
        default="fresh",
        description="fresh shuffles every round, or the same ones again (as run)",
    )
    local_accuracy: bool = Field(
        default=False,
        description="log the received model's accuracy on the participants' training examples",
    )

    def require_fit(self, spec: RunSpec) -> None:
        """Refuse fewer clients than a round draws, and steps that change where rounds repeat.

        Raises:
            ValueError: one of them is the run's.
        """
        super().require_fit(spec)
        optimizer = spec.optimizer
        if self.order == "repeated" and (optimizer.lr_decay != 1 or optimizer.lr_milestones):
            raise ValueError(
                "algorithm.order: repeated trains every round as the first, so the step size must "
                "be constant; leave optimizer.lr_decay and lr_milestones out"
            )


@dataclass
class State:
    """The global weights, float32 [size]."""

    weights: Weights


def init(fed: Federation) -> State:
    """Start from one common initialisation."""
    return State(fed.initial_weights())


def round(fed: Federation, state: State, t: int) -> Steps:
    """Train the participants near the global weights, and average."""
    params = fed.params(Params)
    clients = fed.participants(t, params.participants)
    log = yield from participants.log_received(
        fed, state.weights, clients, wanted=params.local_accuracy
    )
    trained = yield from participants.train(
        fed, state.weights, clients, t, Objective(proximal=params.mu), order=params.order
    )
    shares = participants.shares(fed, clients, params.weighting)
    state.weights = weighted_mean([result.weights for result in trained], shares)
    return log | {"train_loss": participants.mean_loss(trained)}


ALGORITHM = Algorithm(
    Params,
    init,
    round,
    example={"name": "fedprox", "mu": 0.1},
)
