"""FedAvg (McMahan et al. 2017), as Zhao et al. 2018 section 2 and Liu et al. 2020 describe it.

In round t every participating client k trains E epochs from the global weights ``w_t`` on its own
examples; the server takes ``w_{t+1} = sum_k (n_k / n) w_t^(k)``.

The global weights may be trained before round 0: centrally on all examples (Zhao et al. 2018,
Table 3, "pre-trained"), or on the examples that the server shares (section 4.2, "warm-up").
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field, model_validator

from fedrepro.base.errors import FedreproError
from fedrepro.base.strict import Strict
from fedrepro.fl.algorithms import participants
from fedrepro.fl.algorithms.algorithm import Algorithm, Cost, SamplingParams, params_of
from fedrepro.fl.algorithms.averaging import statistics_of, weighted_mean, with_statistics
from fedrepro.fl.algorithms.evaluation import evaluate_global, evaluate_models
from fedrepro.fl.algorithms.participants import Weighting
from fedrepro.fl.algorithms.scalars import floats
from fedrepro.fl.requests import Lane, Predict, Prediction, Train, Trained

if TYPE_CHECKING:
    from fedrepro.fl.federation import Federation
    from fedrepro.fl.layout import Layout
    from fedrepro.fl.requests import OptimizerState, Steps, Weights
    from fedrepro.fl.spec import RunSpec


class WarmUp(Strict):
    """Central training on the shared examples until the test accuracy is reached."""

    until: float = Field(gt=0, le=1, description="test accuracy that ends it, fraction")
    epochs: int = Field(ge=1, description="most epochs; the step size decays with each")


class Params(SamplingParams):
    """Parameters of FedAvg."""

    name: Literal["fedavg"]
    weighting: Weighting = Field(
        default="examples", description="n_k / n (McMahan et al.) or 1 / K"
    )
    optimizer_state: Literal["reset", "keep"] = Field(
        default="reset", description="whether a client's moments survive the weight replacement"
    )
    bn_statistics: Literal["average", "local"] = Field(
        default="average",
        description="running statistics of batch normalisation: averaged with the parameters, or "
        "kept by each node",
    )
    initial: Literal["common", "own"] = Field(
        default="common",
        description="whether the clients' first round begins with the global initial weights or "
        "with a draw of each one's own (Zhao et al. 2018, Remark 3.3)",
    )
    sgd_reference: bool = Field(
        default=False,
        description="in round 0 also train SGD for E epochs on the union of the clients' data "
        "with K times the batch, twice with different shuffles, and log the weight divergence "
        "(Zhao et al. 2018, eq. 1)",
    )
    pretrain_epochs: int = Field(
        default=0,
        ge=0,
        description="epochs of SGD on the union of the clients' data, with K times the batch, "
        "before the first round; each is a round of its own",
    )
    warm_up: WarmUp | None = Field(
        default=None, description="before the first round, train on the examples the server shares"
    )
    local_accuracy: bool = Field(
        default=False,
        description="log the received model's accuracy on the participants' training examples "
        "(Nguyen et al. 2023, Fig. 8b)",
    )

    @model_validator(mode="after")
    def _logs_every_round(self) -> Params:
        if self.local_accuracy and self.pretrain_epochs:
            raise ValueError("local_accuracy: epochs of pretrain_epochs have none; choose one")
        return self


@dataclass
class State:
    """What the server and the clients keep between rounds.

    Attributes:
        weights: global weights, float32 [size].
        moments: the optimiser state of each client, if it is kept.
        divergence: weight divergence of round 0 (Zhao et al. 2018, eq. 1), by tensor; no unit.
        statistics: running statistics of each client that has trained, float32 [size - parameters],
            if they are kept; all others hold those at the end of ``weights``.
        warm_up: epochs it took, and the test accuracy (fraction) it reached.
    """

    weights: Weights
    moments: dict[int, OptimizerState] = field(default_factory=dict)
    divergence: dict[str, Any] = field(default_factory=dict)
    statistics: dict[int, Weights] = field(default_factory=dict)
    warm_up: dict[str, float] = field(default_factory=dict)


def init(fed: Federation) -> State:
    """Start from one common initialisation.

    Raises:
        FedreproError: a warm-up is asked for, and the server shares no examples.
    """
    if fed.params(Params).warm_up and not len(fed.partition.shared):
        raise FedreproError(
            "algorithm.warm_up needs examples that the server shares; partition.scheme "
            "data_sharing has them"
        )
    return State(fed.initial_weights())


def rounds(spec: RunSpec) -> int:
    """Return the epochs of pre-training plus the communication rounds."""
    return params_of(spec, Params).pretrain_epochs + spec.rounds


def round(fed: Federation, state: State, t: int) -> Steps:
    """Train the participants and average (Algorithm 1); before that, pre-train or warm up."""
    params = fed.params(Params)
    if t < params.pretrain_epochs:
        return (yield from _pretrain(fed, state, t))
    t -= params.pretrain_epochs  # streams and step size as if training began here
    if params.warm_up and t == 0:
        yield from _warm_up(fed, state, params.warm_up)
    clients = fed.participants(t, params.participants)
    keep = params.optimizer_state == "keep"
    own = params.initial == "own" and t == 0
    starts = [fed.initial_weights(k) if own else _held(state, k) for k in clients]
    lanes = [
        Lane(start, fed.clients[k], ("client", k), state.moments.get(k))
        for k, start in zip(clients, starts, strict=True)
    ]
    log = yield from participants.log_received(
        fed, state.weights, clients, wanted=params.local_accuracy
    )
    reference = _reference_lanes(fed, state) if params.sgd_reference and t == 0 else []
    trained: list[Trained] = yield Train(lanes + reference, t, keep_optimizer_state=keep)
    local, sgd = trained[: len(lanes)], trained[len(lanes) :]
    if keep:
        state.moments.update(
            {k: r.optimizer_state for k, r in zip(clients, local, strict=True) if r.optimizer_state}
        )
    shares = participants.shares(fed, clients, params.weighting)
    mean = weighted_mean([result.weights for result in local], shares)
    if params.bn_statistics == "local":
        size = fed.layout.parameters
        for k, result in zip(clients, local, strict=True):
            state.statistics[k] = statistics_of(result.weights, size)
        mean = with_statistics(mean, statistics_of(state.weights, size))
    state.weights = mean
    if sgd:
        state.divergence = {
            "fedavg": weight_divergence(fed.layout, state.weights, sgd[0].weights),
            "sgd_other_shuffle": weight_divergence(fed.layout, sgd[1].weights, sgd[0].weights),
        }
    return log | {"train_loss": participants.mean_loss(local)}


def weight_divergence(layout: Layout, model: Weights, reference: Weights) -> dict[str, float]:
    """Return ``||w - w_ref|| / ||w_ref||`` (Zhao et al. 2018, eq. 1).

    Args:
        layout: of the network.
        model: w, float32 [size].
        reference: w_ref, float32 [size].

    Returns:
        ``<layer>`` for each trainable weight tensor without its bias, ``<layer>+bias`` with it, and
        ``model`` for all parameters.
    """
    import torch  # slow to import, and the Snakefile reads this module

    def ratio(positions: list[int]) -> torch.Tensor:
        ours = torch.cat([layout.view(model, i).reshape(-1) for i in positions]).double()
        theirs = torch.cat([layout.view(reference, i).reshape(-1) for i in positions]).double()
        share: torch.Tensor = (ours - theirs).norm() / theirs.norm()
        return share

    trainable = [i for i in range(len(layout.names)) if layout.offsets[i] < layout.parameters]
    ratios: dict[str, torch.Tensor] = {}
    for i in trainable:
        layer, _, kind = layout.names[i].rpartition(".")
        if kind == "weight":
            ratios[layer] = ratio([i])
            same = [j for j in trainable if layout.names[j].rpartition(".")[0] == layer]
            ratios[f"{layer}+bias"] = ratio(same)
    ratios["model"] = ratio(trainable)
    return dict(zip(ratios, floats(ratios.values()), strict=True))


def _pretrain(fed: Federation, state: State, t: int) -> Steps:
    """Train an epoch on the union, as `sgd` with K times the batch does (no kept moments)."""
    union = np.sort(np.concatenate(fed.clients))
    lane = Lane(state.weights, union, ("union",), batch=fed.spec.batch * len(fed.clients))
    trained: list[Trained] = yield Train([lane], t, epochs=1)
    state.weights = trained[0].weights
    return {"train_loss": trained[0].loss}


def _warm_up(fed: Federation, state: State, wanted: WarmUp) -> Steps:
    """Train on the shared examples, epoch by epoch; keep how many it took and what was reached."""
    for epoch in range(wanted.epochs):
        lane = Lane(state.weights, fed.partition.shared, ("warm_up",))
        trained: list[Trained] = yield Train([lane], epoch, epochs=1)
        state.weights = trained[0].weights
        answers: list[Prediction] = yield Predict([state.weights], "test")
        state.warm_up = {"epochs": epoch + 1, "accuracy": answers[0].accuracy}
        if answers[0].accuracy >= wanted.until:
            return


def _held(state: State, client: int) -> Weights:
    """Return what a client holds: the global weights, with its own statistics if it has any."""
    statistics = state.statistics.get(client)
    return state.weights if statistics is None else with_statistics(state.weights, statistics)


def _reference_lanes(fed: Federation, state: State) -> list[Lane]:
    union = np.concatenate(fed.clients)
    batch = fed.spec.batch * len(fed.clients)
    return [Lane(state.weights, union, ("sgd", copy), batch=batch) for copy in range(2)]


def evaluate(fed: Federation, state: State) -> Steps:
    """Evaluate the global model, at each node with the node's own statistics if they are kept."""
    if not state.statistics:
        return (yield from evaluate_global(fed, state))
    nodes = range(len(fed.clients))
    return (yield from evaluate_models(fed, [_held(state, k) for k in nodes], nodes))


def summary(fed: Federation, state: State) -> dict[str, Any]:
    """Return ``weight_divergence`` of round 0 and the end of the ``warm_up``, if asked for."""
    kept: dict[str, Any] = {}
    if state.divergence:
        kept["weight_divergence"] = state.divergence
    if state.warm_up:
        kept["warm_up"] = state.warm_up
    return kept


def _passes_on_the_union(spec: RunSpec, epochs: float) -> float:
    """Return the sample passes of pre-training and of both references; ``epochs`` is for E."""
    params = params_of(spec, Params)
    return (params.pretrain_epochs / spec.local_epochs + 2 * params.sgd_reference) * epochs


ALGORITHM = Algorithm(
    Params,
    init,
    round,
    evaluate,
    rounds=rounds,
    summary=summary,
    example={"name": "fedavg", "participants": 2},
    cost=Cost(
        factor=lambda spec: spec.rounds / rounds(spec),  # in pre-training no client trains
        extra=_passes_on_the_union,
        models=lambda spec: (
            spec.partition.clients if params_of(spec, Params).bn_statistics == "local" else 1
        ),
    ),
)
