"""One main cluster: many clients hold the same labels, every other one its own random choice.

The single-cluster partitions of Nguyen et al. 2023, section V-C: sample-balanced (BC) where all
clients hold the same amount, sample-unbalanced (UC) where they do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from pydantic import Field

from fedrepro.base.errors import FedreproError
from fedrepro.fl.partition.label_clusters import amounts_of, hand_out
from fedrepro.fl.partition.scheme import Cut, Labelled, Scheme
from fedrepro.fl.partition.shared import Clients, Indices, check_clients, check_labels

if TYPE_CHECKING:
    from fedrepro.fl.data import DatasetInfo


def main_cluster(
    labels: Indices,
    clients: int,
    main: int,
    labels_per_client: int,
    per_label: int,
    spread: float,
    rng: np.random.Generator,
) -> Clients:
    """Give the first ``main`` clients the first labels, and the others random ones of the rest.

    Args:
        labels: int64 [n], class numbers from 0.
        clients: number of clients.
        main: clients of the main cluster, ``1..clients``.
        labels_per_client: labels of every client; the main cluster's are the first so many.
        per_label: examples of each label of a client, before the factor.
        spread: standard deviation of a client's factor, which is Normal(1, spread^2).
        rng: draws the labels of the other clients, one factor a client, one permutation a class.

    Returns:
        One ascending index array for each client; no two clients share an example.

    Raises:
        FedreproError: the arguments do not fit each other, or a label has too few examples.
    """
    check_labels(labels)
    check_clients(clients, labels.size)
    classes = int(labels.max()) + 1
    if not 1 <= main <= clients:
        raise FedreproError(f"main must be in 1..{clients} (clients), got {main}")
    if not 1 <= labels_per_client <= classes // 2:
        raise FedreproError(
            f"labels_per_client must be in 1..{classes // 2}, half of the {classes} classes, "
            f"got {labels_per_client}"
        )
    rest = np.arange(labels_per_client, classes)
    chosen = [np.arange(labels_per_client)] * main
    chosen += [
        np.sort(rng.choice(rest, labels_per_client, replace=False)) for _ in range(clients - main)
    ]
    owned = np.stack(chosen)
    base, spreads = np.full(clients, float(per_label)), np.full(clients, spread)
    amounts = amounts_of(labels, owned, base, spreads, rng)
    return hand_out(labels, owned, amounts, rng)


class MainCluster(Scheme):
    """One cluster of clients with the same labels (Nguyen et al. 2023, section V-C, BC and UC)."""

    scheme: Literal["main_cluster"]
    clients: int = Field(ge=1)
    main: int = Field(ge=1, description="clients of the cluster")
    labels_per_client: int = Field(ge=1)
    per_label: int = Field(ge=1, description="examples of each label, before the client's factor")
    spread: float = Field(
        default=0.0, ge=0, description="standard deviation of a client's factor; 0: BC"
    )

    example: ClassVar = {
        "scheme": "main_cluster",
        "clients": 8,
        "main": 4,
        "labels_per_client": 2,
        "per_label": 20,
    }

    def cut(self, data: Labelled, rng: np.random.Generator) -> Cut:
        """Give the cluster its labels, and every other client its own."""
        return Cut(
            main_cluster(
                data.train,
                self.clients,
                self.main,
                self.labels_per_client,
                self.per_label,
                self.spread,
                rng,
            )
        )

    def examples(self, info: DatasetInfo) -> float:
        """Return how many training examples the clients hold together."""
        return self.clients * self.labels_per_client * self.per_label
