"""Label clusters: the clients of a cluster hold the same labels, the clusters share none.

With clusters of 30, 30, 20, 10 and 10 clients and unequal amounts this is the sample-unbalanced
multi-cluster partition (MC) of Nguyen et al. 2023, section V-A. With one cluster of nearly all
clients it is what their CIFAR-10 files call a single cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedrepro.base.errors import FedreproError
from fedrepro.fl.partition.scheme import Cut, Labelled, Scheme
from fedrepro.fl.partition.shared import (
    Clients,
    Indices,
    check_clients,
    check_labels,
    shuffled_classes,
)

if TYPE_CHECKING:
    from fedrepro.fl.data import DatasetInfo


def label_clusters(
    labels: Indices,
    clusters: Sequence[int],
    per_label: Sequence[int],
    spread: Sequence[float],
    rng: np.random.Generator,
    *,
    random_labels: bool = False,
) -> Clients:
    """Give the clients of every cluster amounts of that cluster's labels.

    Cluster k owns the k-th of ``len(clusters)`` equal parts of the labels and the clients that
    follow those of cluster k - 1. A client gets ``max(1, floor(per_label * F))`` examples of each
    of its labels, F from Normal(1, spread^2).

    Args:
        labels: int64 [n], class numbers from 0; their number is a multiple of the clusters'.
        clusters: clients in each cluster.
        per_label: for each cluster, examples of each label before the factor.
        spread: for each cluster, the factor's standard deviation; 0 makes all clients equal.
        rng: draws the cut of the labels if it is random, then one factor a client, then one
            permutation a class.
        random_labels: cut the labels in random order instead of consecutively.

    Returns:
        One ascending index array for each client; no two clients share an example.

    Raises:
        FedreproError: the arguments do not fit each other, or a label has too few examples.
    """
    check_labels(labels)
    classes = int(labels.max()) + 1
    if not clusters or classes % len(clusters):
        raise FedreproError(
            f"clusters must be a divisor of the {classes} classes in number, got {len(clusters)}"
        )
    if not len(clusters) == len(per_label) == len(spread):
        raise FedreproError(
            "clusters, per_label and spread must be of one length, got "
            f"{len(clusters)}, {len(per_label)} and {len(spread)}"
        )
    check_clients(sum(clusters), labels.size)
    order = rng.permutation(classes) if random_labels else np.arange(classes)
    owned = np.repeat(order.reshape(len(clusters), -1), clusters, axis=0)
    amounts = amounts_of(
        labels, owned, np.repeat(per_label, clusters), np.repeat(spread, clusters), rng
    )
    return hand_out(labels, owned, amounts, rng)


TRIES = 100
"""Draws of the factors after which a label counts as too small for its clients."""


def amounts_of(
    labels: Indices,
    owned: NDArray[np.int64],
    base: NDArray[np.int64 | np.float64],
    spread: NDArray[np.float64],
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Draw how many examples of each of its labels a client gets.

    Args:
        labels: int64 [n], class numbers from 0.
        owned: int64 [clients, k], the labels of every client.
        base: [clients], the amount before the factor.
        spread: float64 [clients], standard deviation of the factor.
        rng: draws one normal number a client, anew while a label has too few examples.

    Returns:
        int64 [clients]: ``max(1, floor(base * F))``, F from Normal(1, spread^2); of more than there
        are examples, one more.

    Raises:
        FedreproError: no draw fits the labels' examples.
    """
    supply = np.bincount(labels)
    for _ in range(TRIES):
        factor = 1 + spread * rng.standard_normal(len(base))
        amounts = np.clip(np.floor(base * factor), 1, len(labels) + 1).astype(np.int64)
        short = supply < demand(owned, amounts, len(supply))
        if not short.any():
            return amounts
    raise FedreproError(
        f"label {int(short.argmax())} has too few examples for its clients; lower per_label"
    )


def demand(owned: NDArray[np.int64], amounts: NDArray[np.int64], classes: int) -> NDArray[np.int64]:
    """Return how many examples of each label all clients together ask for, int64 [classes].

    Args:
        owned: int64 [clients, k], the labels of every client.
        amounts: int64 [clients], examples of each label.
        classes: number of classes.
    """
    each = np.repeat(amounts, owned.shape[1])
    return np.bincount(owned.ravel(), each, minlength=classes).astype(np.int64)


def hand_out(
    labels: Indices,
    owned: NDArray[np.int64],
    amounts: NDArray[np.int64],
    rng: np.random.Generator,
) -> Clients:
    """Give every client an amount of each of its labels; no example is used twice.

    Args:
        labels: int64 [n], class numbers from 0.
        owned: int64 [clients, k], the labels of every client.
        amounts: int64 [clients], examples of each label; the :func:`demand` of no label is more
            than it has.
        rng: draws one permutation a class, in class order.

    Returns:
        One ascending index array for each client.
    """
    left = shuffled_classes(labels, None, rng)
    parts: list[list[Indices]] = [[] for _ in owned]
    for client, (mine, amount) in enumerate(zip(owned, amounts, strict=True)):
        for label in mine:
            parts[client].append(left[label][:amount])
            left[label] = left[label][amount:]
    return tuple(np.sort(np.concatenate(part)) for part in parts)


_Number = TypeVar("_Number", int, float)
_Count = Annotated[int, Field(ge=1, lt=2**31)]
_Deviation = Annotated[float, Field(ge=0)]


class LabelClusters(Scheme):
    """Clusters of clients with the same labels (Nguyen et al. 2023, section V-A, MC)."""

    scheme: Literal["label_clusters"]
    clusters: tuple[_Count, ...] = Field(min_length=1, description="clients in each cluster")
    per_label: _Count | tuple[_Count, ...] = Field(
        description="examples a client gets of each label, before its factor; one for each cluster"
    )
    spread: _Deviation | tuple[_Deviation, ...] = Field(
        default=0.3, description="standard deviation of a client's factor; one for each cluster"
    )
    labels: Literal["consecutive", "random"] = Field(
        default="consecutive", description="how the labels are cut into as many equal parts"
    )

    @property
    def clients(self) -> int:
        """Clients of all clusters."""
        return sum(self.clusters)

    example: ClassVar = {"scheme": "label_clusters", "clusters": [3, 2, 1, 1, 1], "per_label": 20}

    def cut(self, data: Labelled, rng: np.random.Generator) -> Cut:
        """Give every cluster its labels."""
        return Cut(
            label_clusters(
                data.train,
                self.clusters,
                self._each(self.per_label),
                self._each(self.spread),
                rng,
                random_labels=self.labels == "random",
            )
        )

    def _each(self, value: _Number | tuple[_Number, ...]) -> tuple[_Number, ...]:
        """Return a value for each cluster."""
        return value if isinstance(value, tuple) else (value,) * len(self.clusters)

    def examples(self, info: DatasetInfo) -> float:
        """Return about how many training examples the clients hold together."""
        labels = info.classes // len(self.clusters)
        amounts = self._each(self.per_label)
        return sum(n * m * labels for n, m in zip(self.clusters, amounts, strict=True))
