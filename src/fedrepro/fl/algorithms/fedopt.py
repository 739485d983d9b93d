"""Federated optimisation with the four techniques of Ozdayi et al. 2020, in any combination.

The server takes the clients' mean update ``d = sum_k (n_k / n) (w_k - w)`` for a gradient (FedOpt,
Reddi et al. 2021):

1. server momentum (section 3.3; FedAvgM, Hsu et al. 2019): ``v <- beta v + d``, v = 0 at first;
2. sign agreement (section 3.4, the robust learning rate): ``w <- w + eta_theta * v``, where a
   coordinate's step size is eta if enough clients' updates have the same sign there, else 0;
3. server-side training (section 3.1): w is then trained on examples that the server keeps;
4. projected gradient descent (section 3.2) bounds a norm after every step of the clients, with or
   without noise on their gradients.

Without any of them, and with eta = 1, this is FedAvg. The paper prints ``w <- v + eta w`` (eq. 3),
which is the same where eta_theta is 1; where it is 0, the printed form would replace w by v.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import Field

from fedrepro.base.errors import FedreproError
from fedrepro.base.strict import Strict
from fedrepro.fl.algorithms.algorithm import (
    Algorithm,
    Cost,
    SamplingParams,
    clients_a_round,
    params_of,
)
from fedrepro.fl.algorithms.averaging import weighted_mean
from fedrepro.fl.algorithms.evaluation import evaluate_global
from fedrepro.fl.algorithms.participants import mean_loss
from fedrepro.fl.algorithms.scalars import floats
from fedrepro.fl.requests import Lane, Objective, Predict, Prediction, Train, Trained

if TYPE_CHECKING:
    from fedrepro.fl.federation import Federation
    from fedrepro.fl.requests import Steps, Weights
    from fedrepro.fl.spec import RunSpec


class SignAgreement(Strict):
    """Which coordinates the server moves (section 3.4)."""

    threshold: int = Field(
        default=0, ge=0, description="theta: least sum of signs of a coordinate that moves; 0: off"
    )
    vote: Literal["absolute", "signed"] = Field(
        default="absolute",
        description="the sum's absolute value, or the sum itself as printed, which only ever "
        "lets coordinates through that most clients increase",
    )
    masks: Literal["step", "update"] = Field(
        default="step", description="what is masked: v, or d before it enters v"
    )


class Projection(Strict):
    """Projected gradient descent on the clients (section 3.2)."""

    radius: float = Field(gt=0, description="M: bound on the Euclidean norm after every step")
    bounds: Literal["weights", "update"] = Field(
        default="weights",
        description="the norm of the model (reading A, literal) or of its distance from the "
        "global model (reading B, the authors' other code)",
    )


class Params(SamplingParams):
    """Parameters of the server's step, and of what surrounds it."""

    name: Literal["fedopt"]
    server_lr: float = Field(default=1.0, gt=0, description="eta")
    server_momentum: float = Field(default=0.0, ge=0, lt=1, description="beta; 0: off")
    sign_agreement: SignAgreement = SignAgreement()
    projection: Projection | None = Field(default=None, description="null: off")
    gradient_noise: float = Field(
        default=0.0,
        ge=0,
        description="standard deviation on each of the clients' gradients; 0: off",
    )
    server_epochs: int = Field(
        default=1,
        ge=0,
        description="epochs a round on the server's examples, where the partition gives it any; "
        "0: off",
    )
    conflict_examples: int = Field(
        default=0,
        ge=0,
        description="at each evaluation compare the clients' models on so many test images, the "
        "first ones: log which share of them two models put into different classes (section 3.1), "
        "and these models' mean accuracy there (local_accuracy); 0: off",
    )
    update_rounds: tuple[Annotated[int, Field(ge=0)], ...] = Field(
        default=(),
        description="rounds (from 0) in which to also train SGD from the global weights on the "
        "union of the clients' data with K times the batch, and to keep the inner products of all "
        "updates (figure 2)",
    )

    def require_fit(self, spec: RunSpec) -> None:
        """Refuse also a threshold that no vote reaches, and rounds that the run does not have.

        Raises:
            ValueError: it asks for one of these, or draws more clients than the partition has.
        """
        super().require_fit(spec)
        theta, voters = self.sign_agreement.threshold, clients_a_round(spec)
        if theta > voters:
            raise ValueError(
                f"algorithm.sign_agreement.threshold: {theta}, but the {voters} clients of a round "
                "have a vote each, so that no weight would ever move; give at most as many"
            )
        beyond = [t for t in self.update_rounds if t >= spec.rounds]
        if beyond:
            raise ValueError(
                f"algorithm.update_rounds: {beyond[0]}, but the run's {spec.rounds} rounds are "
                f"counted from 0; give at most {spec.rounds - 1}"
            )


@dataclass
class State:
    """What the server keeps between rounds.

    Attributes:
        weights: global weights w, float32 [size].
        velocity: momentum v, float32 [parameters]; None without momentum, and at first.
        local: the clients' last models, float32 [size] each, if they are to be compared.
        updates: inner products of updates, an entry for each of ``update_rounds``.
    """

    weights: Weights
    velocity: Weights | None = None
    local: list[Weights] = field(default_factory=list)
    updates: list[dict[str, Any]] = field(default_factory=list)


def init(fed: Federation) -> State:
    """Start from the common initialisation.

    Raises:
        FedreproError: the clients are to be compared on more test images than there are.
    """
    asked = fed.params(Params).conflict_examples
    if asked > fed.test_size:
        raise FedreproError(
            f"algorithm.conflict_examples = {asked}, but the test split has {fed.test_size} "
            "examples; lower it"
        )
    return State(fed.initial_weights())


def round(fed: Federation, state: State, t: int) -> Steps:
    """Train the participants, take the server's step, and train on the server's examples."""
    params = fed.params(Params)
    clients = fed.participants(t, params.participants)
    lanes = [Lane(state.weights, fed.clients[k], ("client", k)) for k in clients]
    trained: list[Trained] = yield Train(lanes, t, objective=_objective(params))
    local = [result.weights for result in trained]
    if params.conflict_examples:
        state.local = local
    if t in params.update_rounds:
        yield from _keep_updates(fed, state, lanes, local, t)
    log = _server_step(fed, state, local, [len(lane.examples) for lane in lanes])
    if len(fed.partition.server) and params.server_epochs:
        lane = Lane(state.weights, fed.partition.server, ("server",))
        served: list[Trained] = yield Train([lane], t, epochs=params.server_epochs)
        state.weights = served[0].weights
    return {"train_loss": mean_loss(trained)} | log


def _objective(params: Params) -> Objective:
    if params.projection is None:
        return Objective(gradient_noise=params.gradient_noise)
    return Objective(
        gradient_noise=params.gradient_noise,
        projection=params.projection.bounds,
        radius=params.projection.radius,
    )


def _server_step(
    fed: Federation, state: State, local: Sequence[Weights], sizes: Sequence[int]
) -> dict[str, float]:
    """Move the global weights; running statistics behind the parameters are averaged.

    Returns:
        ``agreement``, the share of coordinates in which all updates have the same sign; ``moved``,
        the share that the step may move (both 0..1); Euclidean norms of the updates (mean over the
        clients), of their mean and of the old weights.
    """
    import torch  # slow to import, and the Snakefile reads this module

    params, size = fed.params(Params), fed.layout.parameters
    rule, old = params.sign_agreement, state.weights[:size]
    mean = weighted_mean(local, sizes)
    updates = torch.stack([model[:size] for model in local]) - old
    update = mean[:size] - old
    votes = sign_votes(updates)
    moving = moving_coordinates(votes, rule.threshold, rule.vote)
    step = update * moving if rule.masks == "update" else update
    if params.server_momentum:
        if state.velocity is not None:
            step = params.server_momentum * state.velocity + step
        state.velocity = step
    if rule.masks == "step":
        step = step * moving
    weights = state.weights.clone()
    weights[:size] += params.server_lr * step
    weights[size:] = mean[size:]
    state.weights = weights
    agreement, moved, mean_norm, weight_norm, *norms = floats(
        [
            (votes.abs() == len(updates)).double().mean(),
            moving.double().mean(),
            update.norm(),
            old.norm(),
            *updates.norm(dim=1),
        ]
    )
    return {
        "agreement": agreement,
        "moved": moved,
        "update_norm": float(np.mean(norms)),
        "mean_update_norm": mean_norm,
        "weight_norm": weight_norm,
    }


def sign_votes(updates: Weights) -> Weights:
    """Return ``sum_k sgn(update_k)`` (section 3.4), float32 [parameters]; zeros do not vote.

    The sum is exact, whatever its order.

    Args:
        updates: float32 [clients, parameters].
    """
    return updates.sign().sum(dim=0)


def moving_coordinates(
    votes: Weights, threshold: int, vote: Literal["absolute", "signed"]
) -> Weights:
    """Return 1 for coordinates that may move (section 3.4), else 0, float32 [parameters].

    Args:
        votes: as of :func:`sign_votes`.
        threshold: theta; at 0 every coordinate may move, whatever the vote.
        vote: compare the absolute value of the votes with theta, or the votes themselves.
    """
    if threshold == 0:
        return votes.new_ones(votes.shape)
    strength = votes.abs() if vote == "absolute" else votes
    return (strength >= threshold).to(votes.dtype)


def _keep_updates(
    fed: Federation, state: State, lanes: Sequence[Lane], local: Sequence[Weights], t: int
) -> Steps:
    """Keep the inner products of the clients' updates and, last, of SGD's on their union."""
    size = fed.layout.parameters
    union = np.concatenate([lane.examples for lane in lanes])
    lane = Lane(state.weights, union, ("sgd",), batch=fed.spec.batch * len(lanes))
    sgd: list[Trained] = yield Train([lane], t)
    ends = [*local, sgd[0].weights]
    updates = [(end[:size] - state.weights[:size]).double() for end in ends]
    products = [floats(a.dot(b) for b in updates) for a in updates]
    state.updates = [*state.updates, {"round": t + 1, "inner_products": products}]


def evaluate(fed: Federation, state: State) -> Steps:
    """Evaluate the global model and, if asked for, the clients' hypothesis conflicts (section 3.1).

    Yields:
        The requests of :func:`evaluate_global`, and one :class:`Predict` with the clients' models.

    Returns:
        The metrics of :func:`evaluate_global`; ``conflicts``, the share of test images that two of
        the clients' models put into different classes, and ``local_accuracy``, the mean accuracy
        (fraction) of these models, as trained, on the same images. FedAvg, FedProx and CADIS log
        another ``local_accuracy``: that of the received model on the clients' training examples.
    """
    metrics = yield from evaluate_global(fed, state)
    count = fed.params(Params).conflict_examples
    if count:
        answers: list[Prediction] = yield Predict(state.local, "test", np.arange(count))
        classes = np.stack([answer.classes for answer in answers])
        metrics["conflicts"] = float((classes != classes[0]).any(axis=0).mean())
        metrics["local_accuracy"] = float(np.mean([answer.accuracy for answer in answers]))
    return metrics


def summary(fed: Federation, state: State) -> dict[str, Any]:
    """Return the inner products of the ``updates`` (figure 2), if they were asked for."""
    return {"updates": state.updates} if state.updates else {}


def _passes_for_updates(spec: RunSpec, epochs: float) -> float:
    """Return the sample passes of SGD on the participants' union; ``epochs`` is for all clients."""
    share = clients_a_round(spec) / spec.partition.clients
    return len(params_of(spec, Params).update_rounds) * share * epochs


ALGORITHM = Algorithm(
    Params,
    init,
    round,
    evaluate,
    summary=summary,
    example={"name": "fedopt", "server_lr": 0.1},
    cost=Cost(
        extra=_passes_for_updates,
        predicted=lambda spec: clients_a_round(spec) * params_of(spec, Params).conflict_examples,
    ),
)
