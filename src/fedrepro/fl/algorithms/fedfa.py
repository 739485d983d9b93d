"""FedFA (Huang et al. 2022), as Nguyen et al. 2023 describe it (section VI) and as they ran it.

Every participant reports an accuracy on its own examples: of its local model, after training, as
they describe it; of the received model, as they ran it. Its weight is
``alpha * A_i + (1 - alpha) * B_i``, both normalised over the participants:
``A_i = -log2(accuracy_i / sum accuracy + 1e-6)``, ``B_i = -log2(1 - F_i / sum F + 1e-5)``, where
F_i counts how often i has taken part, this round included.

If no participant's accuracy is above zero, ``A`` is 0 / 0. ``guard = True`` takes A uniform there.
Without it, as run, the weights and then the global model are not a number for ever, whatever alpha
is; such a model puts every image into class 0, and nothing can train it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedrepro.fl.algorithms import participants
from fedrepro.fl.algorithms.algorithm import Algorithm, SamplingParams
from fedrepro.fl.algorithms.averaging import weighted_mean
from fedrepro.fl.algorithms.evaluation import evaluate_global
from fedrepro.fl.requests import Objective

if TYPE_CHECKING:
    from fedrepro.fl.federation import Federation
    from fedrepro.fl.requests import Steps, Weights


class Params(SamplingParams):
    """Parameters of FedFA."""

    name: Literal["fedfa"]
    alpha: float = Field(default=0.5, ge=0, le=1, description="weight of the accuracies; 0 as run")
    accuracy_of: Literal["received", "trained"] = Field(
        default="received",
        description="whose accuracy counts: the received model's (as run) or the local one's (as "
        "written)",
    )
    server_lr: float = Field(
        default=0.0,
        ge=0,
        description="the server goes back by this share of its step; as run it is the clients' "
        "step size, 0.001",
    )
    guard: bool = Field(
        default=True, description="uniform A where no participant is right on anything"
    )


@dataclass
class State:
    """Global weights, float32 [size], and in how many rounds each client has taken part."""

    weights: Weights
    taken_part: dict[int, int] = field(default_factory=dict)


def init(fed: Federation) -> State:
    """Start from one common initialisation."""
    return State(fed.initial_weights())


def shares(
    accuracies: Sequence[float], taken_part: Sequence[int], alpha: float, *, guard: bool
) -> NDArray[np.float64]:
    """Return the participants' weights in the average (see the module), float64 [K], with sum 1.

    Args:
        accuracies: one for each of the K participants, fractions.
        taken_part: rounds each has taken part in, this one included.
        alpha: weight of the accuracies against the frequencies.
        guard: uniform A where all accuracies are 0; without it all weights are NaN there.
    """
    accuracy, count = np.array(accuracies), np.array(taken_part)
    if accuracy.sum() > 0:
        information = -np.log2(accuracy / accuracy.sum() + 1e-6)
    else:
        information = np.full(len(accuracy), 1.0 if guard else np.nan)
    frequency = -np.log2(1 - count / count.sum() + 1e-5)
    a, b = information / information.sum(), frequency / frequency.sum()
    mixed: NDArray[np.float64] = alpha * a + (1 - alpha) * b
    return mixed


def round(fed: Federation, state: State, t: int) -> Steps:
    """Train the participants, and average by their accuracies and how often they took part."""
    params = fed.params(Params)
    clients = fed.participants(t, params.participants)
    for k in clients:
        state.taken_part[k] = state.taken_part.get(k, 0) + 1
    if not bool(state.weights.isfinite().all()):
        return {"train_loss": 0.0, "finite": 0.0}
    if params.accuracy_of == "received":
        accuracies = yield from participants.accuracies(fed, state.weights, clients)
    trained = yield from participants.train(fed, state.weights, clients, t, Objective())
    if params.accuracy_of == "trained":
        accuracies = yield from participants.own_accuracies(fed, trained, clients)
    weights = shares(
        accuracies, [state.taken_part[k] for k in clients], params.alpha, guard=params.guard
    )
    mean = weighted_mean([result.weights for result in trained], list(weights))
    state.weights = mean - params.server_lr * (mean - state.weights)
    finite = bool(np.isfinite(weights).all())
    return {"train_loss": participants.mean_loss(trained), "finite": float(finite)}


def evaluate(fed: Federation, state: State) -> Steps:
    """Evaluate the global model; without the guard, leave out the loss, which may not be finite."""
    metrics = yield from evaluate_global(fed, state)
    if not fed.params(Params).guard:
        del metrics["loss"]
    return metrics


ALGORITHM = Algorithm(
    Params,
    init,
    round,
    evaluate,
    example={"name": "fedfa", "participants": 6},
)
