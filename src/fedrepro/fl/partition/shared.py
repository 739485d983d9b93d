"""What several partition schemes share: argument checks, shuffled classes, dealing out."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedrepro.base.errors import FedreproError

Indices: TypeAlias = NDArray[np.int64]
"""Labels, or positions in their array, int64 [n]."""

Clients: TypeAlias = tuple[Indices, ...]
"""Positions in the training split, int64 [n_k], for each client."""


def check_labels(labels: Indices) -> None:
    """Refuse labels that are not a one-dimensional array of class numbers from 0.

    Raises:
        FedreproError: ``labels`` has another shape or type, is empty or holds a negative number.
    """
    if labels.ndim != 1 or labels.size == 0 or not np.issubdtype(labels.dtype, np.integer):
        raise FedreproError(
            "labels must be a non-empty one-dimensional integer array, "
            f"got shape {labels.shape} of {labels.dtype}"
        )
    if labels.min() < 0:
        raise FedreproError(f"labels must be class numbers from 0, got {labels.min()}")


def check_clients(clients: int, examples: int) -> None:
    """Refuse a number of clients that leaves a client without an example.

    Raises:
        FedreproError: ``clients`` is not in ``1..examples``.
    """
    if not 1 <= clients <= examples:
        raise FedreproError(
            f"clients must be in 1..{examples} (one example each at least), got {clients}"
        )


def check_per_class(labels: Indices, per_class: int) -> None:
    """Refuse more examples of each class than the smallest class has, or none.

    Args:
        labels: int64 [n], class numbers from 0; the classes are ``0..max(labels)``.
        per_class: how many are asked for.

    Raises:
        FedreproError: ``labels`` is no label array, or a class has too few.
    """
    check_labels(labels)
    sizes = np.bincount(labels)
    if not sizes.min():
        raise FedreproError(
            f"per_class needs examples of every class, and class {int(sizes.argmin())} has none"
        )
    if not 1 <= per_class <= sizes.min():
        raise FedreproError(
            f"per_class must be in 1..{sizes.min()}, the size of the smallest class, got "
            f"{per_class}"
        )


def shuffled_classes(
    labels: Indices, per_class: int | None, rng: np.random.Generator
) -> list[Indices]:
    """List the examples of every class in random order.

    Args:
        labels: int64 [n], class numbers from 0; the classes are ``0..max(labels)``.
        per_class: examples kept of each class, the surplus being dropped at random; None: all.
        rng: draws one permutation per class, in class order.

    Returns:
        One int64 array for each class, [per_class] or [examples of the class], in random order.

    Raises:
        FedreproError: ``labels`` is no label array, or a class has fewer than ``per_class``
            examples.
    """
    check_labels(labels)
    if per_class is not None:
        check_per_class(labels, per_class)
    members = (np.flatnonzero(labels == label) for label in range(int(labels.max()) + 1))
    return [rng.permutation(member)[:per_class] for member in members]


def deal(order: Indices, clients: int) -> Clients:
    """Deal examples out like cards: client k gets positions k, k + clients, ... of ``order``.

    Args:
        order: int64 [n], the examples in dealing order.
        clients: number of clients, ``1..n``.

    Returns:
        One ascending index array for each client; sizes differ by at most one.

    Raises:
        FedreproError: there are fewer examples than clients.
    """
    check_clients(clients, order.size)
    return tuple(np.sort(order[client::clients]) for client in range(clients))
