"""Clients that all lie at the same, exact distance from the uniform class distribution.

Zhao et al. 2018, section 3.2.1: one distribution P over the classes per federation; client k gets
P shifted cyclically by k; every example is used once. The distance is the sum over the classes of
``|share - population share|`` (0 to 2), called EMD there.

The paper does not say how P is drawn. Here it is drawn in whole examples, so that the distance is
reached exactly: H examples move from the classes below the mean to those above, and the realised
EMD is 2 H / M with M = ``per_class``, which is also the size of every client.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedrepro.base.errors import FedreproError
from fedrepro.fl import streams
from fedrepro.fl.partition.scheme import Cut, Labelled, Scheme
from fedrepro.fl.partition.shared import Clients, Indices, check_per_class, shuffled_classes

if TYPE_CHECKING:
    from fedrepro.fl.data import DatasetInfo


MAX_REDRAWS = 1000
MOST = 10_000
"""Distributions of a series: each is compared with all before it."""
COINCIDE = 0.02
"""Two distributions count as one federation when they differ by less than this share of M (L1)."""


def moved_examples(emd: float, per_class: int, classes: int) -> int:
    """Return H, the number of examples that a client at this distance has in excess of the mean.

    Args:
        emd: wanted sum of absolute differences of class shares, ``0..2 (1 - 1 / classes)``.
        per_class: M, examples of each class and size of every client; a multiple of ``classes``.
        classes: number of classes, at least 2.

    Returns:
        ``round(emd M / 2)``; the realised EMD is ``2 H / M``, within ``1 / M`` of ``emd``.

    Raises:
        FedreproError: an argument is out of range.
    """
    if classes < 2:
        raise FedreproError(f"classes must be at least 2, got {classes}")
    if per_class < classes or per_class % classes:
        raise FedreproError(
            f"per_class must be a positive multiple of the {classes} classes, got {per_class}"
        )
    highest = 2 * (1 - 1 / classes)
    if not 0 <= emd <= highest + 1e-9:
        raise FedreproError(
            f"emd must be in 0..{highest:.6g}, the distance of a single class from the uniform "
            f"distribution over {classes}, got {emd}"
        )
    return round(emd * per_class / 2)


def draw_counts(
    emd: float, per_class: int, classes: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw the class counts of client 0 at the given distance from uniform.

    The number of classes below the mean is uniform over its feasible values, and which ones they
    are is random. The excess H is split among the high classes with flat Dirichlet weights, and
    taken from the low classes one after the other, each by a uniform draw from what keeps the rest
    feasible.

    Args:
        emd: wanted sum of absolute differences of class shares, ``0..2 (1 - 1 / classes)``.
        per_class: M, the sum of the counts; a multiple of ``classes``.
        classes: number of classes, at least 2.
        rng: source of all draws; not used when no example moves (emd 0).

    Returns:
        int64 [classes], not negative, with sum M and realised EMD exactly
        ``2 * moved_examples(...) / M``.

    Raises:
        FedreproError: an argument is out of range.
    """
    moved = moved_examples(emd, per_class, classes)
    mean = per_class // classes
    counts = np.full(classes, mean, dtype=np.int64)
    if moved == 0:
        return counts
    low_classes = int(rng.integers(-(-moved // mean), classes - 1, endpoint=True))
    order = rng.permutation(classes)
    low, high = order[:low_classes], order[low_classes:]
    counts[high] += _largest_remainder(moved * rng.dirichlet(np.ones(high.size)), moved)
    left = moved
    for after, label in zip(range(low.size - 1, -1, -1), low, strict=True):
        taken = int(rng.integers(max(0, left - mean * after), min(mean, left), endpoint=True))
        counts[label] -= taken
        left -= taken
    return counts


def _largest_remainder(amounts: NDArray[np.float64], total: int) -> NDArray[np.int64]:
    """Round amounts that sum to ``total`` to integers with that sum, the largest fractions up."""
    whole = np.floor(amounts).astype(np.int64)
    by_fraction = np.argsort(whole - amounts, kind="stable")
    whole[by_fraction[: total - int(whole.sum())]] += 1
    return whole


def draw_counts_for(
    emd: float,
    per_class: int,
    classes: int,
    index: int,
    rng_for: Callable[[int], np.random.Generator],
) -> NDArray[np.int64]:
    """Return distribution number ``index`` of a series without repetitions.

    A distribution and its cyclic shifts give the same federation with the clients renamed. So
    distributions 0, 1, ... ``index`` are drawn in this order, each from its own generator, and one
    that coincides with an earlier one up to a shift is drawn again from the same generator.
    Distribution ``index`` is thereby a pure function of the arguments: runs that each use one of
    them need not know the others.

    Only levels that leave P free are compared: where all classes but one must lie below the mean
    (emd 1.62 and above for ten classes) the largest share is fixed, and at emd 0 there is one P.

    Args:
        emd: wanted sum of absolute differences of class shares, ``0..2 (1 - 1 / classes)``.
        per_class: M, the sum of the counts; a multiple of ``classes``.
        classes: number of classes, at least 2.
        index: number of the distribution, from 0.
        rng_for: returns the fresh generator of a distribution, given its number.

    Returns:
        int64 [classes], as :func:`draw_counts`.

    Raises:
        FedreproError: an argument is out of range, or the level has too few different
            distributions, or is asked for more than :data:`MOST`.
    """
    if index < 0:
        raise FedreproError(f"index must be 0 or more, got {index}")
    moved = moved_examples(emd, per_class, classes)
    fewest_low = -(-moved // (per_class // classes))
    if moved == 0 or fewest_low == classes - 1:
        return draw_counts(emd, per_class, classes, rng_for(index))
    if index >= MOST:
        raise FedreproError(
            f"seed: distribution {index} of emd_shift would be compared with all before it; take a "
            f"seed below {MOST}, or set the partition's"
        )
    drawn, least = np.empty((index + 1, classes), dtype=np.int64), COINCIDE * per_class
    for number in range(index + 1):
        rng = rng_for(number)
        for _ in range(MAX_REDRAWS):
            counts = draw_counts(emd, per_class, classes, rng)
            before = drawn[:number]
            bounds = np.abs(np.sort(before) - np.sort(counts)).sum(axis=1)  # no shift is nearer
            if np.all(cyclic_distances(counts, before[bounds < least]) >= least):
                break
        else:
            raise FedreproError(
                f"index: found only {number} different distributions at emd {emd} and per_class "
                f"{per_class}, asked for number {index}; use fewer or a larger per_class"
            )
        drawn[number] = counts
    return counts


def cyclic_distances(counts: NDArray[np.int64], others: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the smallest L1 distance from any cyclic shift of a count vector to other vectors.

    Args:
        counts: int64 [classes].
        others: int64 [n, classes].

    Returns:
        int64 [n], in examples: ``min over s of sum |roll(counts, s) - other|``.
    """
    classes = np.arange(counts.size)
    shifts = counts[(classes - classes[:, None]) % counts.size]
    nearest: NDArray[np.int64] = np.abs(others[:, None] - shifts).sum(axis=2).min(axis=1)
    return nearest


def emd_shift(
    labels: Indices, clients: int, counts: NDArray[np.int64], rng: np.random.Generator
) -> Clients:
    """Give client k ``counts[(i - k) mod classes]`` examples of class i.

    Args:
        labels: int64 [n], class numbers from 0; the classes are ``0..max(labels)``.
        clients: number of clients, equal to the number of classes.
        counts: int64 [classes], class counts of client 0, as of :func:`draw_counts`; their sum M
            is the number of examples kept of each class and the size of every client.
        rng: draws one permutation per class, in class order: which examples are kept and who gets
            them.

    Returns:
        One ascending index array [M] for each client. M examples of each class are used, each
        once.

    Raises:
        FedreproError: the arguments do not fit each other; the message names the feasible values.
    """
    if counts.ndim != 1 or counts.size == 0 or counts.min() < 0:
        raise FedreproError(f"counts must be a list of numbers from 0, got {counts.tolist()}")
    if clients != counts.size:
        raise FedreproError(
            f"clients must be {counts.size}, the number of classes, because every client has the "
            f"same distribution shifted by one class, got {clients}"
        )
    members = shuffled_classes(labels, int(counts.sum()), rng)
    if len(members) != counts.size:
        raise FedreproError(
            f"counts must have one number for each of the {len(members)} classes, got {counts.size}"
        )
    blocks = [
        np.split(member, np.cumsum(np.roll(counts[::-1], label + 1))[:-1])
        for label, member in enumerate(members)
    ]  # blocks[label][client] has counts[(label - client) mod classes] examples
    return tuple(
        np.sort(np.concatenate([of_class[client] for of_class in blocks]))
        for client in range(clients)
    )


class EmdShift(Scheme):
    """Every client at the same exact EMD from uniform (Zhao et al. 2018, section 3.2.1).

    The run seed is the number of the distribution: seeds 0..4 are the paper's five.
    """

    scheme: Literal["emd_shift"]
    clients: int = Field(ge=2)
    emd: float = Field(ge=0, le=2, description="sum of absolute differences of class shares")
    per_class: int = Field(ge=1, description="M: examples kept of each class, and client size")

    example: ClassVar = {"scheme": "emd_shift", "clients": 10, "emd": 1.08, "per_class": 50}

    def cut(self, data: Labelled, rng: np.random.Generator) -> Cut:
        """Give every client the shifted distribution whose number is the run seed."""
        check_per_class(data.train, self.per_class)
        counts = draw_counts_for(
            self.emd,
            self.per_class,
            data.classes,
            data.seed,
            lambda number: streams.generator(number, "distribution"),
        )
        return Cut(emd_shift(data.train, self.clients, counts, rng))

    def examples(self, info: DatasetInfo) -> float:
        """Return how many training examples the clients hold together."""
        return self.per_class * info.classes
