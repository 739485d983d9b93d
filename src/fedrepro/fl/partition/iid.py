"""IID partitions: a plain random split, and one with equal class shares."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from pydantic import Field

from fedrepro.base.errors import FedreproError
from fedrepro.fl.partition.scheme import Cut, Labelled, Scheme
from fedrepro.fl.partition.shared import Clients, Indices, check_labels, deal, shuffled_classes

if TYPE_CHECKING:
    from fedrepro.fl.data import DatasetInfo


def plain(labels: Indices, clients: int, rng: np.random.Generator) -> Clients:
    """Split all examples at random, whatever their class.

    Args:
        labels: int64 [n], class numbers from 0; only their number matters.
        clients: number of clients, ``1..n``.
        rng: draws one permutation of the examples.

    Returns:
        One ascending index array for each client; every example is used once and sizes differ by
        at most one.

    Raises:
        FedreproError: ``clients`` is out of range or ``labels`` is no label array.
    """
    check_labels(labels)
    return deal(rng.permutation(labels.size), clients)


def stratified(
    labels: Indices, clients: int, rng: np.random.Generator, per_class: int | None = None
) -> Clients:
    """Give every client the same share of every class (Zhao et al. 2018, section 2.1, IID).

    The shuffled classes are laid end to end and dealt out like cards.

    Args:
        labels: int64 [n], class numbers from 0.
        clients: number of clients, ``1..n``.
        rng: draws one permutation per class, in class order.
        per_class: examples kept of each class, a multiple of ``clients``; None: all examples.

    Returns:
        One ascending index array for each client. With ``per_class``: ``per_class / clients``
        examples of each class for every client, the surplus dropped at random. Without: every
        example is used once, and both the counts of a class and the sizes differ by at most one
        between clients.

    Raises:
        FedreproError: ``clients`` or ``per_class`` is out of range or does not divide evenly.
    """
    if per_class is not None and (clients < 1 or per_class % clients):
        raise FedreproError(
            f"per_class must be a multiple of clients ({clients}) so that every client gets the "
            f"same number of each class, got {per_class}"
        )
    return deal(np.concatenate(shuffled_classes(labels, per_class, rng)), clients)


class IidPlain(Scheme):
    """Random split; client sizes differ by at most one example."""

    scheme: Literal["iid_plain"]
    clients: int = Field(ge=1)

    example: ClassVar = {"scheme": "iid_plain", "clients": 6}

    def cut(self, data: Labelled, rng: np.random.Generator) -> Cut:
        """Split all examples."""
        return Cut(plain(data.train, self.clients, rng))


class IidStratified(Scheme):
    """Every client gets the same number of each class (Zhao et al. 2018, section 2.1)."""

    scheme: Literal["iid_stratified"]
    clients: int = Field(ge=1)
    per_class: int | None = Field(default=None, ge=1, description="examples kept of each class")

    example: ClassVar = {"scheme": "iid_stratified", "clients": 5, "per_class": 40}

    def cut(self, data: Labelled, rng: np.random.Generator) -> Cut:
        """Deal every class out."""
        return Cut(stratified(data.train, self.clients, rng, self.per_class))

    def examples(self, info: DatasetInfo) -> float:
        """Return how many training examples the clients hold together."""
        return info.train if self.per_class is None else self.per_class * info.classes
