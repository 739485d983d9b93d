"""Few labels a client, amounts from a Pareto law: the partition PA of Nguyen et al. 2023 (V-C)."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedrepro.base.errors import FedreproError
from fedrepro.fl.partition.label_clusters import TRIES, demand, hand_out
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


_LABEL_TRIES = 10_000
"""Draws of the clients' labels after which ``draws`` counts as too small for all to occur."""


def pareto_labels(
    labels: Indices,
    clients: int,
    draws: int,
    budget: int,
    rng: np.random.Generator,
    *,
    shape: float = 1.0,
    shared: bool = False,
) -> Clients:
    """Let every client draw labels, and give it amounts that follow a Pareto (Lomax) law.

    Labels are drawn with replacement, ``draws`` a client, until every label occurs. A client gets
    the same amount for each draw: its share of the Lomax numbers times one scale, which makes the
    amounts of the busiest label add up to ``budget`` before rounding. All is drawn anew while a
    label has too few examples.

    Args:
        labels: int64 [n], class numbers from 0.
        clients: number of clients.
        draws: label draws of a client; a label drawn twice counts twice.
        budget: examples that the clients of the busiest label hold together.
        rng: draws labels, Lomax numbers, then the examples.
        shape: the law's shape, above 0; smaller is more unequal.
        shared: as in the authors' files: of the examples drawn only those of a client's first label
            are used up, so clients share examples, and a label drawn twice gives some examples
            twice. Otherwise no example is used twice.

    Returns:
        One ascending index array for each client.

    Raises:
        FedreproError: the arguments do not fit each other or the number of examples, there are too
            few draws for all labels to occur, or a label has too few examples.
    """
    check_labels(labels)
    classes = int(labels.max()) + 1
    if clients * draws < 2 * classes:
        raise FedreproError(
            f"clients * draws must be at least {2 * classes}, twice the classes, for every label "
            f"to be drawn, got {clients} * {draws}"
        )
    check_clients(clients, labels.size)
    if draws > labels.size // (1 if shared else clients):
        raise FedreproError(
            f"draws of {clients} clients must not be more than the {labels.size} examples, got "
            f"{draws} each"
        )
    hand = _shared if shared else _apart
    for _ in range(TRIES):
        drawn = _all_labels(classes, clients, draws, rng)
        wealth = rng.pareto(shape, clients)
        asked = np.bincount(drawn.ravel(), np.repeat(wealth, draws), minlength=classes)
        if not np.isfinite(asked).all():
            raise FedreproError(f"shape {shape:g} draws numbers beyond all measure; raise it")
        clients_indices = hand(labels, drawn, wealth * budget / asked.max(), rng)
        if clients_indices is not None:
            return clients_indices
    raise FedreproError(f"a label has too few examples for its clients; lower budget ({budget})")


def _all_labels(
    classes: int, clients: int, draws: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw every client's labels, anew until each label occurs, int64 [clients, draws]."""
    for _ in range(_LABEL_TRIES):
        drawn = rng.integers(0, classes, (clients, draws))
        if len(np.unique(drawn)) == classes:
            return drawn
    raise FedreproError(
        f"{clients} clients with {draws} draws each leave one of {classes} labels out again and "
        "again; raise draws, or clients"
    )


def _apart(
    labels: Indices, drawn: NDArray[np.int64], exact: NDArray[np.float64], rng: np.random.Generator
) -> Clients | None:
    """Hand the amounts out, rounded down to at least 1; None where a label has too few."""
    amounts = np.clip(np.floor(exact), 1, len(labels) + 1).astype(np.int64)
    supply = np.bincount(labels)
    if (supply < demand(drawn, amounts, len(supply))).any():
        return None
    return hand_out(labels, drawn, amounts, rng)


def _shared(
    labels: Indices, drawn: NDArray[np.int64], exact: NDArray[np.float64], rng: np.random.Generator
) -> Clients | None:
    """Hand the amounts out, rounded up, using up only the first label's; None if it fails."""
    pools = shuffled_classes(labels, None, rng)
    clients_indices = []
    amounts = np.clip(np.ceil(exact), 1, len(labels) + 1).astype(np.int64)
    for mine, amount in zip(drawn, amounts, strict=True):
        parts = []
        for number, label in enumerate(mine):
            pool = rng.permutation(pools[label])
            if len(pool) < amount:
                return None
            parts.append(pool[:amount])
            if number == 0:
                pools[label] = pool[amount:]
        clients_indices.append(np.sort(np.concatenate(parts)))
    return tuple(clients_indices)


class ParetoLabels(Scheme):
    """Few labels a client, amounts from a Pareto law (Nguyen et al. 2023, section V-C, PA)."""

    scheme: Literal["pareto_labels"]
    clients: int = Field(ge=1)
    draws: int = Field(ge=1, description="label draws of a client, with replacement")
    budget: int = Field(ge=1, description="examples held by the clients of the busiest label")
    shape: float = Field(default=1.0, gt=0, description="shape of the Lomax law")
    shared: bool = Field(
        default=False, description="clients share examples, as in the authors' files"
    )

    example: ClassVar = {"scheme": "pareto_labels", "clients": 12, "draws": 2, "budget": 80}

    def cut(self, data: Labelled, rng: np.random.Generator) -> Cut:
        """Give every client a few labels."""
        return Cut(
            pareto_labels(
                data.train,
                self.clients,
                self.draws,
                self.budget,
                rng,
                shape=self.shape,
                shared=self.shared,
            )
        )

    def examples(self, info: DatasetInfo) -> float:
        """Return about how many training examples the clients hold together."""
        return self.budget * info.classes / 3  # most labels are held far less than the busiest
