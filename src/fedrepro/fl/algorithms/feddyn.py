"""FedDyn (Acar et al. 2021, Algorithm 1), as published and as Nguyen et al. 2023 ran it.

Client i minimises ``L_i(w) - <g_i, w> + alpha / 2 * ||w - w_t||^2`` and then takes
``g_i <- g_i - alpha (w_i - w_t)``. The server, with N clients of which the set S took part:

- ``correct``: ``h <- h - alpha / N * sum_S (w_i - w_t)``, ``w_{t+1} = mean_S w_i - h / alpha``, for
  the trainable parameters; running statistics are averaged.
- ``as_run``: ``h <- h - alpha (1 / N * sum_S w_i - w_t)``, for running statistics as well. It
  divides the sum of |S| models by N and subtracts the whole global model, which is the same only if
  all clients take part. Otherwise the global model oscillates without damping: with rho = |S| / N,
  and leaving out what clients learn, it follows a recursion of determinant 1 and trace 1 + rho.

The clients' gradients g_i take as much memory as N models, on the device and in checkpoints.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

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
    """Parameters of FedDyn."""

    name: Literal["feddyn"]
    alpha: float = Field(gt=0, description="strength of the dynamic regularisation")
    server: Literal["correct", "as_run"] = Field(
        default="correct", description="the server's rule; see the module"
    )


@dataclass
class State:
    """What the server and the clients keep between rounds.

    Attributes:
        weights: global weights, float32 [size].
        correction: the server's h, float32 [size].
        gradients: g of each client that has taken part, float32 [parameters].
    """

    weights: Weights
    correction: Weights
    gradients: dict[int, Weights] = field(default_factory=dict)


def init(fed: Federation) -> State:
    """Start from one common initialisation, with no correction."""
    weights = fed.initial_weights()
    return State(weights, weights.new_zeros(weights.shape))


def round(fed: Federation, state: State, t: int) -> Steps:
    """Train the participants with their linear terms ``-g_i``, and correct the average by h."""
    params = fed.params(Params)
    clients = fed.participants(t, params.participants)
    size = fed.layout.parameters
    start = state.weights
    none_yet = start.new_zeros(size)
    held = [state.gradients.get(k, none_yet) for k in clients]
    trained = yield from participants.train(
        fed,
        start,
        clients,
        t,
        Objective(proximal=params.alpha),
        linear=[-gradient for gradient in held],
    )
    for k, gradient, result in zip(clients, held, trained, strict=True):
        change = result.weights[:size] - start[:size]
        state.gradients[k] = gradient - params.alpha * change
    mean = weighted_mean([result.weights for result in trained], [1] * len(clients))
    share = len(clients) / len(fed.clients)
    if params.server == "as_run":
        step = share * mean - start
    else:
        step = share * (mean - start)
        step[size:] = 0.0
    state.correction = state.correction - params.alpha * step
    state.weights = mean - state.correction / params.alpha
    norm = float(state.weights[:size].norm())
    return {"train_loss": participants.mean_loss(trained), "norm": norm}


def evaluate(fed: Federation, state: State) -> Steps:
    """Evaluate the global model; as run, leave out the loss, which may not be finite."""
    metrics = yield from evaluate_global(fed, state)
    if fed.params(Params).server == "as_run":
        del metrics["loss"]
    return metrics


ALGORITHM = Algorithm(
    Params,
    init,
    round,
    evaluate,
    example={"name": "feddyn", "alpha": 0.1, "participants": 4},
)
