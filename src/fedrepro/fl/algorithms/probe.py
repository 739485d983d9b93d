"""What one local training tells the server of a client's labels (Nguyen et al. 2023, III-B).

Every client trains once from the same weights; nothing is averaged. The record says how each row of
the final layer changed (Proposition III.1 and Observation III.2; Fig. 5), and how well clients of
the same labels can be told from others by the cosines of several vectors, thresholds and rules.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedrepro.fl.algorithms import classifier, clustering
from fedrepro.fl.algorithms.algorithm import Algorithm, AlgorithmParams, params_of
from fedrepro.fl.algorithms.participants import mean_loss
from fedrepro.fl.requests import Lane, Train, Trained

if TYPE_CHECKING:
    from fedrepro.fl.federation import Federation
    from fedrepro.fl.requests import Steps, Weights
    from fedrepro.fl.spec import RunSpec

THRESHOLDS = (0.5, 0.8, 0.9, 0.95, 0.975, 0.985)
"""Values of tau (0..1) at which the recovered clusters are counted."""


class Params(AlgorithmParams):
    """Parameters of the probe."""

    name: Literal["probe"]
    warm_up: int = Field(
        default=0, ge=0, description="rounds on the union of all clients before the local training"
    )

    def require_fit(self, spec: RunSpec) -> None:
        """Refuse a single client, as clients are compared."""
        clustering.require_pairs(spec)


@dataclass
class State:
    """The common weights, float32 [size], and what :func:`summary` returns."""

    weights: Weights
    found: dict[str, Any] = field(default_factory=dict)


def init(fed: Federation) -> State:
    """Start from one common initialisation."""
    return State(fed.initial_weights())


def rounds(spec: RunSpec) -> int:
    """Return the rounds of the warm-up and the one of local training."""
    return params_of(spec, Params).warm_up + 1


def round(fed: Federation, state: State, t: int) -> Steps:
    """Warm up on the union, or train every client from the common weights."""
    if t < fed.params(Params).warm_up:
        lane = Lane(state.weights, np.concatenate(fed.clients), ("union",))
        together: list[Trained] = yield Train([lane], t)
        state.weights = together[0].weights
        return {"train_loss": together[0].loss}
    lanes = [Lane(state.weights, own, ("client", k)) for k, own in enumerate(fed.clients)]
    trained: list[Trained] = yield Train(lanes, t)
    models = [result.weights for result in trained]
    vectors = {
        kind: classifier.vectors(fed.layout, models, state.weights, kind)
        for kind in get_args(classifier.Vector)
    }
    state.found = {
        "rows": _rows(vectors["weight_change"], fed.partition.counts.shape[1]),
        "vectors": {kind: _separation(fed, compared) for kind, compared in vectors.items()},
    }
    return {"train_loss": mean_loss(trained)}


def _rows(changes: NDArray[np.float32], classes: int) -> list[list[list[float]]]:
    """Return lowest, mean and highest change of each row: [clients][classes][3].

    Args:
        changes: of the final layer's matrix, float32 [clients, classes * features].
        classes: how many there are.
    """
    return [
        [[float(row.min()), float(row.mean()), float(row.max())] for row in change]
        for change in changes.reshape(len(changes), classes, -1)
    ]


def _separation(fed: Federation, vectors: NDArray[np.float32]) -> dict[str, Any]:
    """Return cosines within and across true clusters, and what each rule makes of them."""
    truth = clustering.true_clusters(fed.partition.counts)
    cosines = clustering.cosines(vectors)
    known, similarity = ~np.isnan(cosines), np.nan_to_num(cosines)
    everyone = list(range(len(truth)))
    found: dict[str, Any] = dict(clustering.ranges(similarity, known, truth))
    for rule in get_args(clustering.Rescale):
        relations = [clustering.same_cluster(similarity, known, tau, rule) for tau in THRESHOLDS]
        found[rule] = {
            "clusters": [
                clustering.number_of_clusters(relation, everyone) for relation in relations
            ],
            "wrong_pairs": [clustering.wrong_pairs(relation, truth) for relation in relations],
        }
    return found


def summary(fed: Federation, state: State) -> dict[str, Any]:
    """Return what the local training revealed.

    Returns:
        ``rows``: lowest, mean and highest change of each row of the final matrix,
        [clients][classes][3]. ``vectors``: for each kind of vector, lowest, mean and highest cosine
        of pairs of clients with the ``same`` labels and of ``other`` pairs, and for each rescaling
        rule the number of ``clusters`` and the share of ``wrong_pairs`` at :data:`THRESHOLDS`.
    """
    return state.found


ALGORITHM = Algorithm(
    Params,
    init,
    round,
    rounds=rounds,
    summary=summary,
    example={"name": "probe", "warm_up": 1},
)
