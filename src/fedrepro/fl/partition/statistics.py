"""What records and figures show of a partition: class counts, EMD, a digest."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedrepro.base.errors import FedreproError
from fedrepro.fl.partition.shared import Indices, check_labels


def class_counts(
    labels: Indices, clients_indices: Sequence[Indices], classes: int
) -> NDArray[np.int64]:
    """Count the examples of every class that every client holds.

    Args:
        labels: int64 [n], class numbers ``0..classes - 1``.
        clients_indices: for each client, int64 positions in ``labels``.
        classes: number of classes.

    Returns:
        int64 [clients, classes].

    Raises:
        FedreproError: a label is not in ``0..classes - 1``.
    """
    check_labels(labels)
    if labels.max() >= classes:
        raise FedreproError(f"classes must be at least {labels.max() + 1}, got {classes}")
    counts = [np.bincount(labels[indices], minlength=classes) for indices in clients_indices]
    return np.array(counts, dtype=np.int64).reshape(len(counts), classes)


def emd(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return every client's distance from the pooled clients, as the papers define EMD.

    ``sum over classes of |client share - pooled share|``: 0 for the same class distribution, 2 for
    no common class (Zhao et al. 2018, Remark 3.4).

    Args:
        counts: int64 [clients, classes], examples of each class.

    Returns:
        float64 [clients], in ``0..2``.

    Raises:
        FedreproError: a client has no examples.
    """
    sizes = counts.sum(axis=1, keepdims=True)
    if np.any(sizes == 0):
        raise FedreproError(f"client {int(np.argmin(sizes))} has no examples, so it has no shares")
    pooled = counts.sum(axis=0)
    distance: NDArray[np.float64] = np.abs(counts / sizes - pooled / pooled.sum()).sum(axis=1)
    return distance


def digest(clients_indices: Sequence[Indices]) -> str:
    """Return a checksum of a partition: equal exactly for the same lists in the same order.

    Args:
        clients_indices: for each client, int64 positions.

    Returns:
        SHA-256, 64 hexadecimal digits, over each client's length and positions as little-endian
        64-bit integers, client after client.
    """
    sha = hashlib.sha256()
    for indices in clients_indices:
        sha.update(len(indices).to_bytes(8, "little"))
        sha.update(np.asarray(indices, dtype="<i8").tobytes())
    return sha.hexdigest()
