"""Selective federated averaging (Liu, Lee, Julien 2020, section V), as written and as run.

Phase 1: every node trains alone for ``local_rounds``. Grouping: nodes whose models are right and
wrong on the same validation images join one group (Algorithm 1). Phase 2: each group runs federated
averaging from the locally trained weights.

With ``grouping="single"`` and ``local_rounds=0`` this is plain federated averaging over all nodes;
that is how the paper's own "federated" runs are described with the switches below.

**As run.** In the public code of the paper, loading the aggregate makes the parameters of all nodes
of a group share storage with the server's. From the second round on the nodes therefore train *one*
set of weights in place, one node after the other, each with its own Adam moments, and averaging the
identical copies changes nothing. ``aggregation="alias"`` reproduces this: every node points at a
storage, training writes into it, and loading an average moves the pointer. Only parameters are
loaded there: the running statistics of batch normalisation stay with each node, which is
``bn_statistics="local"``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedrepro.base.errors import FedreproError
from fedrepro.fl.algorithms import participants
from fedrepro.fl.algorithms.algorithm import Algorithm, AlgorithmParams, Cost, params_of
from fedrepro.fl.algorithms.averaging import statistics_of, weighted_mean, with_statistics
from fedrepro.fl.algorithms.evaluation import evaluate_models
from fedrepro.fl.algorithms.participants import Weighting
from fedrepro.fl.requests import Lane, Predict, Prediction, Train, Trained

if TYPE_CHECKING:
    from fedrepro.fl.federation import Federation
    from fedrepro.fl.requests import IntArray, OptimizerState, Steps, Weights
    from fedrepro.fl.spec import RunSpec


class Params(AlgorithmParams):
    """Parameters of selective federated averaging and the switches between its two readings."""

    name: Literal["selective"]
    local_rounds: int = Field(ge=0, description="rounds of phase 1, before the grouping")
    grouping: Literal["similarity", "single"] = Field(
        default="similarity", description="by agreement on the validation images, or one group"
    )
    threshold: float = Field(
        default=0.82, ge=0, le=1, description="nodes join above this share of agreement"
    )
    similarity: Literal["agreement", "dot"] = Field(
        default="agreement",
        description="agreement: nodes join above the threshold, a share of images on which both "
        "are right or both wrong; dot: below it, a share of images on which both are right, which "
        "is Algorithm 1 as printed",
    )
    vectors: Literal["all", "half"] = Field(
        default="all",
        description="validation images of the selection vectors: all of them, or every other one, "
        "which leaves the others to tune the threshold on (section V)",
    )
    compare: Literal["all", "first"] = Field(
        default="all", description="agree with all members of a group, or with its first (as run)"
    )
    several_groups: bool = Field(
        default=False, description="a node joins every group it agrees with (as run), or the first"
    )
    aggregation: Literal["average", "alias"] = Field(
        default="average", description="true averaging, or shared storage (as run)"
    )
    weighting: Weighting = Field(
        default="examples", description="n_k / n (as written) or 1 / K (as run)"
    )
    optimizer_state: Literal["reset", "keep"] = Field(
        default="reset", description="whether Adam's moments survive a round of phase 2"
    )
    initial: Literal["common", "own"] = Field(
        default="common", description="one initialisation for all nodes, or one each (as run)"
    )
    bn_statistics: Literal["average", "local"] = Field(
        default="average",
        description="running statistics of batch normalisation: averaged or shared with the "
        "parameters, or kept by each node (as run)",
    )


@dataclass
class State:
    """What the nodes hold.

    Attributes:
        models: one for each storage, float32 [size].
        storage: for each node the position of its model in ``models``.
        moments: the optimiser state of each node, if it is kept.
        groups: the nodes of each group; empty before the grouping.
        agreement: [nodes][nodes], as of :func:`group_nodes`; empty unless grouped by similarity.
        statistics: running statistics of each node that has trained, float32 [size - parameters],
            if nodes keep their own.
    """

    models: list[Weights]
    storage: list[int]
    moments: list[OptimizerState | None]
    groups: list[list[int]] = field(default_factory=list)
    agreement: list[list[float]] = field(default_factory=list)
    statistics: dict[int, Weights] = field(default_factory=dict)


def init(fed: Federation) -> State:
    """Give every node a storage of its own.

    Raises:
        FedreproError: there are no validation images to group by, or a node has none to tune the
            threshold on.
    """
    params, nodes = fed.params(Params), range(len(fed.clients))
    if params.grouping == "similarity" and not len(fed.partition.validation):
        raise FedreproError(
            "algorithm.grouping: similarity needs images that no client holds; set "
            "partition.validation (schemes balanced_percent and class_blocks)"
        )
    if params.vectors == "half":
        bare = [node for node, its in enumerate(_left_to_tune_on(fed)[1]) if not its.any()]
        if bare:
            raise FedreproError(
                "algorithm.vectors: half leaves every other validation image to tune the threshold "
                f"on, and node {bare[0]} has none of them; take all, or set partition.validation "
                "or partition.clients to another number"
            )
    own = params.initial == "own"
    return State(
        models=[fed.initial_weights(k if own else None) for k in nodes],
        storage=list(nodes),
        moments=[None for _ in nodes],
    )


def rounds(spec: RunSpec) -> int:
    """Return the rounds of both phases."""
    return params_of(spec, Params).local_rounds + spec.rounds


def round(fed: Federation, state: State, t: int) -> Steps:
    """Run one round of phase 1 or phase 2; the grouping precedes the first round of phase 2."""
    params = fed.params(Params)
    if t < params.local_rounds:
        loss = yield from _local_round(fed, state, t)
        return {"train_loss": loss}
    if not state.groups:
        yield from _form_groups(fed, state)
    if params.optimizer_state == "reset":
        state.moments = [None] * len(state.moments)
    one_round = _alias_round if params.aggregation == "alias" else _average_round
    loss = yield from one_round(fed, state, t)
    return {"train_loss": loss}


def _held(state: State, node: int) -> Weights:
    """Return the model a node holds: its storage's, with its own statistics if it keeps any."""
    model, statistics = state.models[state.storage[node]], state.statistics.get(node)
    return model if statistics is None else with_statistics(model, statistics)


def _keep_statistics(fed: Federation, state: State, node: int, trained: Trained) -> None:
    if fed.params(Params).bn_statistics == "local":
        state.statistics[node] = statistics_of(trained.weights, fed.layout.parameters)


def _lane(fed: Federation, state: State, node: int, tag: tuple[str | int, ...] = ()) -> Lane:
    return Lane(
        _held(state, node),
        fed.clients[node],
        ("client", node, *tag),
        state.moments[node],
    )


def _local_round(fed: Federation, state: State, t: int) -> Steps:
    """Train every node on its own model (phase 1)."""
    nodes = range(len(fed.clients))
    trained: list[Trained] = yield Train(
        [_lane(fed, state, node) for node in nodes], t, keep_optimizer_state=True
    )
    state.models = [result.weights for result in trained]
    state.moments = [result.optimizer_state for result in trained]
    for node in nodes:
        _keep_statistics(fed, state, node, trained[node])
    return participants.mean_loss(trained)


def _form_groups(fed: Federation, state: State) -> Steps:
    """Group the nodes by their selection vectors (section V, figure 1 and Algorithm 1)."""
    params = fed.params(Params)
    nodes = list(range(len(fed.clients)))
    if params.grouping == "single":
        state.groups = [nodes]
        return
    pool = fed.partition.validation
    shown = pool if params.vectors == "all" else pool[::2]
    answers: list[Prediction] = yield Predict([_held(state, k) for k in nodes], "train", shown)
    vectors = np.stack([answer.correct for answer in answers])
    one, other = vectors[:, None, :], vectors[None, :, :]
    agreement = (one == other).mean(axis=2)
    state.agreement = agreement.tolist()
    likeness, threshold = agreement, params.threshold
    if params.similarity == "dot":  # what is below a share is above it in the share of the others
        likeness, threshold = 1 - (one & other).mean(axis=2), 1 - threshold
    state.groups = group_nodes(likeness, threshold, params.compare, params.several_groups)


def group_nodes(
    agreement: NDArray[np.float64],
    threshold: float,
    compare: Literal["all", "first"],
    several_groups: bool,
) -> list[list[int]]:
    """Group greedily in node order (Liu et al. 2020, Algorithm 1, with the sign put right).

    Args:
        agreement: float64 [nodes, nodes], share of validation images on which two nodes are both
            right or both wrong; with ``similarity: dot``, on which not both are right.
        threshold: a node joins a group if its agreement exceeds this, 0..1.
        compare: with all members of the group, or with its first only.
        several_groups: join every such group instead of the first.

    Returns:
        The groups, each a list of node numbers in the order they joined.
    """
    groups: list[list[int]] = []
    for node in range(len(agreement)):
        added = False
        for group in groups:
            members = group if compare == "all" else group[:1]
            if all(agreement[node, member] > threshold for member in members):
                group.append(node)
                added = True
                if not several_groups:
                    break
        if not added:
            groups.append([node])
    return groups


def _group_mean(fed: Federation, group: list[int], models: Sequence[Weights]) -> Weights:
    return weighted_mean(models, participants.shares(fed, group, fed.params(Params).weighting))


def _average_round(fed: Federation, state: State, t: int) -> Steps:
    """Train all nodes apart, then give every group the average of its nodes."""
    keep = fed.params(Params).optimizer_state == "keep"
    trained: list[Trained] = yield Train(
        [_lane(fed, state, node) for node in range(len(fed.clients))], t, keep_optimizer_state=keep
    )
    state.moments = [result.optimizer_state for result in trained]
    state.models = [
        _group_mean(fed, group, [trained[node].weights for node in group]) for group in state.groups
    ]
    for number, group in enumerate(state.groups):
        for node in group:
            state.storage[node] = number
            _keep_statistics(fed, state, node, trained[node])
    return participants.mean_loss(trained)


def _alias_round(fed: Federation, state: State, t: int) -> Steps:
    """Train a group's nodes in turn on whatever storage each points at; share the average."""
    keep = fed.params(Params).optimizer_state == "keep"
    losses = []
    for number, group in enumerate(state.groups):
        for node in group:
            tag = ("group", number) if len(state.groups) > 1 else ()
            trained: list[Trained] = yield Train(
                [_lane(fed, state, node, tag)], t, keep_optimizer_state=keep
            )
            state.models[state.storage[node]] = trained[0].weights
            state.moments[node] = trained[0].optimizer_state
            _keep_statistics(fed, state, node, trained[0])
            losses.append(trained[0].loss)
        held = [state.models[state.storage[node]] for node in group]
        state.models.append(_group_mean(fed, group, held))
        for node in group:
            state.storage[node] = len(state.models) - 1
    _drop_unused(state)
    return float(np.mean(losses))


def _drop_unused(state: State) -> None:
    used = sorted(set(state.storage))
    state.models = [state.models[position] for position in used]
    state.storage = [used.index(position) for position in state.storage]


def evaluate(fed: Federation, state: State) -> Steps:
    """Evaluate every node with the model it holds.

    Yields:
        The requests of :func:`evaluate_models`, and one :class:`Predict` for ``accuracy_tuning``.

    Returns:
        The metrics of :func:`evaluate_models`. Where half of the validation images are left to tune
        the threshold on, also ``accuracy_tuning``: the unweighted mean over the nodes of the
        accuracy (fraction) on the node's own part of that half.
    """
    nodes = range(len(fed.clients))
    if state.statistics:
        metrics = yield from evaluate_models(fed, [_held(state, node) for node in nodes], nodes)
    else:
        metrics = yield from evaluate_models(fed, state.models, state.storage)
    if fed.params(Params).vectors == "half":
        left, owned = _left_to_tune_on(fed)
        answers: list[Prediction] = yield Predict(
            [_held(state, node) for node in nodes], "train", left
        )
        metrics["accuracy_tuning"] = float(
            np.mean([answers[node].correct[owned[node]].mean() for node in nodes])
        )
    return metrics


def _left_to_tune_on(fed: Federation) -> tuple[IntArray, list[NDArray[np.bool_]]]:
    """Return the validation images that are not compared, and for each node which are its own."""
    left = fed.partition.validation[1::2]
    own = fed.partition.node_sets.get("validation")
    parts = [left[:0]] * len(fed.clients) if own is None else own.parts
    return left, [np.isin(left, part) for part in parts]


def summary(fed: Federation, state: State) -> dict[str, Any]:
    """Return ``groups`` and, if they come from similarity, the ``agreement`` matrix."""
    kept: dict[str, Any] = {"groups": state.groups}
    if state.agreement:
        kept["agreement"] = state.agreement
    return kept


ALGORITHM = Algorithm(
    Params,
    init,
    round,
    evaluate,
    rounds=rounds,
    summary=summary,
    example={"name": "selective", "local_rounds": 1, "weighting": "uniform"},
    cost=Cost(models=lambda spec: spec.partition.clients),
)
