"""CADIS (Nguyen et al. 2023): clustered aggregation and distilled regularisation.

A round: the participants train on cross entropy plus ``lambda * D``, where D compares the pairwise
structure of a batch's representations with that of the received model (eq. 18-20; see
:mod:`fedrepro.fl.losses.pairwise_divergence`). The server compares the changes of their final
layers by cosine (eq. 11), averages the cosines over all rounds two clients share (eq. 12), fills in
pairs that never met through third clients (Theorem III.3), rescales, and joins clients from a
threshold up (eq. 13). Client i then weighs ``n_i / n`` divided by the size of its cluster
(eq. 1-2).

The defaults are what the paper describes, made whole where it leaves something open. Options named
``as_run``, and those whose description says so, are what the authors' code does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field

from fedrepro.fl import streams
from fedrepro.fl.algorithms import classifier, clustering, participants
from fedrepro.fl.algorithms.algorithm import Algorithm, Cost, SamplingParams, params_of
from fedrepro.fl.algorithms.averaging import weighted_mean
from fedrepro.fl.algorithms.participants import Weighting
from fedrepro.fl.requests import Objective

if TYPE_CHECKING:
    import torch

    from fedrepro.fl.federation import Federation
    from fedrepro.fl.requests import Steps, Weights
    from fedrepro.fl.spec import RunSpec


class Params(SamplingParams):
    """Parameters of CADIS and the switches between the paper and the code."""

    name: Literal["cadis"]
    distillation: float = Field(
        default=1.0, ge=0, description="lambda: weight of the distillation term (eq. 20)"
    )
    clusters: Literal["learned", "oracle"] = Field(
        default="learned", description="from the final layers, or clients of the same labels"
    )
    vector: classifier.Vector = Field(
        default="weight_change",
        description="what is compared (eq. 11: weight_change; as run: bias_change or bias)",
    )
    pairing: clustering.Pairing = Field(
        default="correct",
        description="set_order compares wrong pairs of clients, as the authors' code does",
    )
    rescale: clustering.Rescale = Field(
        default="all", description="as_run: positive entries alone, and absolute values"
    )
    closure: clustering.Closure = Field(
        default="components", description="what makes clusters of pairs; as run: two_hop"
    )
    threshold: float = Field(default=0.8, ge=0, le=1, description="tau of the first round")
    threshold_growth: float = Field(
        default=1.0, ge=1, description="after round t, tau is multiplied by growth^t; as run 1.0005"
    )
    threshold_cap: float = Field(
        default=0.985, ge=0, le=1, description="tau does not grow beyond this"
    )
    transitive: Literal["off", "mean", "sample"] = Field(
        default="mean",
        description="pairs that never met: apart (as run), the mean of their estimates, or of "
        "draws (Theorem III.3)",
    )
    eps: float = Field(default=0.02, gt=0, description="bound on an estimate's deviation")
    cluster_size: Literal["all", "round"] = Field(
        default="all",
        description="c_i counts all clients seen so far (with clusters: oracle all N), or the "
        "round's",
    )
    weighting: Weighting = Field(
        default="examples", description="n_i / n / c_i (eq. 1), or 1 / c_i (as run)"
    )
    server: Literal["average", "scaled"] = Field(
        default="average",
        description="take the average, or go towards it by the share of all clusters seen that the "
        "round's clients come from (the code's second version)",
    )
    local_accuracy: bool = Field(
        default=False,
        description="log the received model's accuracy on the participants' training examples",
    )

    def require_fit(self, spec: RunSpec) -> None:
        """Refuse fewer clients than a round draws, and a single one, as clients are compared."""
        super().require_fit(spec)
        clustering.require_pairs(spec)


@dataclass
class State:
    """What the server keeps.

    Attributes:
        weights: the global model, float32 [size].
        similarity: mean cosine of each pair, float64 [N, N], 0 where they never met.
        together: rounds in which each pair met, int64 [N, N].
        estimate: transitive estimates, float64 [N, N], NaN where there is none. Once a pair has
            met, its estimate stays here but is no longer used.
        seen: clients that have taken part.
        threshold: tau of the next round, 0..1.
    """

    weights: Weights
    similarity: torch.Tensor
    together: torch.Tensor
    estimate: torch.Tensor
    seen: list[int]
    threshold: float


def init(fed: Federation) -> State:
    """Start from one common initialisation, with no pair of clients known."""
    import torch  # slow to import, and the Snakefile reads this module

    pairs = (len(fed.clients), len(fed.clients))
    return State(
        weights=fed.initial_weights(),
        similarity=torch.zeros(pairs, dtype=torch.float64),
        together=torch.zeros(pairs, dtype=torch.int64),
        estimate=torch.full(pairs, torch.nan, dtype=torch.float64),
        seen=[],
        threshold=fed.params(Params).threshold,
    )


def round(fed: Federation, state: State, t: int) -> Steps:
    """Train the participants, update the clusters, and average by them (eq. 1-2, 11-13, 18-20)."""
    params = fed.params(Params)
    clients = clustering.places(fed.participants(t, params.participants), params.pairing)
    start = state.weights
    log = yield from participants.log_received(fed, start, clients, wanted=params.local_accuracy)
    weight = params.distillation
    objective = Objective(terms=(("pairwise_divergence", weight),) if weight else ())
    trained = yield from participants.train(fed, start, clients, t, objective)
    models = [result.weights for result in trained]
    state.seen = sorted({*state.seen, *clients})

    instance = clustering.cosines(
        classifier.vectors(fed.layout, models, start, params.vector), params.pairing
    )
    _update(fed, state, t, clients, instance)
    truth = clustering.true_clusters(fed.partition.counts)
    relation = truth if params.clusters == "oracle" else _clusters(params, state)
    tau = state.threshold
    state.threshold = next_threshold(params, tau, t)

    everyone = list(range(len(fed.clients))) if params.clusters == "oracle" else state.seen
    among = clients if params.cluster_size == "round" else everyone
    of_cluster = clustering.sizes(relation, among)[clients]
    held = participants.shares(fed, clients, params.weighting)
    mean = weighted_mean(models, [n / c for n, c in zip(held, of_cluster, strict=True)])
    if params.server == "scaled":
        present = clustering.number_of_clusters(relation, clients)
        gamma = present / clustering.number_of_clusters(relation, everyone)
        mean = weighted_mean([start, mean], [1 - gamma, gamma])
    state.weights = mean

    values, known = _known(state)
    pairs = np.triu_indices(len(fed.clients), 1)
    return log | {
        "train_loss": participants.mean_loss(trained),
        "threshold": tau,
        "clusters": clustering.number_of_clusters(relation, everyone),
        "wrong_pairs": clustering.wrong_pairs(relation, truth),
        "similarity_error": clustering.squared_error(values, truth),
        "pairs_met": float((state.together.numpy()[pairs] > 0).mean()),
        "pairs_known": float(known[pairs].mean()),
    }


def next_threshold(params: Params, tau: float, t: int) -> float:
    """Return tau of round t + 1, ``min(tau * growth^t, cap)``, as the authors' code computes it.

    The paper only says that tau grows. Without growth, tau is constant and the cap does not apply.

    Args:
        params: growth and cap.
        tau: threshold of round t.
        t: round from 0.
    """
    if params.threshold_growth == 1:
        return tau
    return min(tau * params.threshold_growth**t, params.threshold_cap)


def _update(
    fed: Federation, state: State, t: int, clients: list[int], instance: clustering.Matrix
) -> None:
    """Take a round's cosines into the means, and estimate the pairs that never met."""
    import torch

    params = fed.params(Params)
    similarity, together = clustering.observe(
        state.similarity.numpy(), state.together.numpy(), clients, instance
    )
    state.similarity, state.together = torch.from_numpy(similarity), torch.from_numpy(together)
    if params.transitive == "off":
        return
    rng = None
    if params.transitive == "sample":
        rng = streams.generator(fed.spec.seed, "transitive", t)
    values, known = _known(state)
    new = clustering.bridged(values, known, params.eps, rng)
    old = state.estimate.numpy()
    state.estimate = torch.from_numpy(np.where(np.isnan(new), old, new))


def _known(state: State) -> tuple[clustering.Matrix, clustering.Relation]:
    """Return what is known of each pair, a mean or else an estimate (0 if neither), and of which.

    A pair's estimate no longer counts once the two clients have met.
    """
    met, estimate = state.together.numpy() > 0, state.estimate.numpy()
    known = met | ~np.isnan(estimate)
    return np.where(met, state.similarity.numpy(), np.nan_to_num(estimate)), known


def _clusters(params: Params, state: State) -> clustering.Relation:
    values, known = _known(state)
    return clustering.same_cluster(values, known, state.threshold, params.rescale, params.closure)


def summary(fed: Federation, state: State) -> dict[str, Any]:
    """Return each client's cluster, and the mean cosines of the pairs that met.

    Returns:
        ``cluster_of``: for each client the first client of its cluster, at the threshold of the
        round that would follow; ``cosines``: lowest, mean and highest cosine of the pairs of
        clients with the ``same`` set of labels and of the ``other`` pairs, where there are any.
    """
    params = fed.params(Params)
    truth = clustering.true_clusters(fed.partition.counts)
    relation = truth if params.clusters == "oracle" else _clusters(params, state)
    cosines = clustering.ranges(state.similarity.numpy(), state.together.numpy() > 0, truth)
    return {"cluster_of": [int(row.argmax()) for row in relation], "cosines": cosines}


def _teacher_too(spec: RunSpec) -> float:
    """Return what the forward passes of the teacher, a third of a training pass each, cost."""
    return 1 + 1 / 3 if params_of(spec, Params).distillation else 1.0


ALGORITHM = Algorithm(
    Params,
    init,
    round,
    summary=summary,
    example={"name": "cadis", "participants": 6},
    cost=Cost(factor=_teacher_too),
    loss_terms=("pairwise_divergence",),
)
