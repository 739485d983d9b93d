"""From what clients send of their final layer to clusters (Nguyen et al. 2023, III-B and III-C).

Matrices are [N, N], symmetric, over all clients. ``together`` counts the rounds two clients have
trained in together; ``similarity`` is their mean cosine, 0 for pairs that have not met.

Options named ``as_run`` or ``set_order`` do what the public code does; docs/papers/cadis.md
explains the effects.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from fedrepro.fl.spec import RunSpec

Matrix = NDArray[np.float64]
Relation = NDArray[np.bool_]

Pairing = Literal["correct", "set_order"]
Rescale = Literal["all", "as_run"]
Closure = Literal["components", "two_hop", "none"]

FLAT = 1e-6
"""Similarities that differ by less all count as equal."""


def places(clients: Sequence[int], pairing: Pairing) -> list[int]:
    """Return a round's clients in the order in which they are paired.

    Args:
        clients: in ascending order.
        pairing: ``set_order`` takes that of a Python set, as the authors' code does: with 5 to 18
            clients that of their numbers modulo 32, if no two of these are equal.
    """
    return list(set(clients)) if pairing == "set_order" else list(clients)


def cosines(vectors: NDArray[np.float32], pairing: Pairing = "correct") -> Matrix:
    """Return the cosine of every pair of clients of a round (eq. 11).

    Args:
        vectors: float32 [K, size], as of :func:`fedrepro.fl.algorithms.classifier.vectors`.
        pairing: ``set_order`` takes vector number q - p - 1 instead of q for the clients at
            places p < q, so that the places p and 2p + 1 always get 1.

    Returns:
        float64 [K, K], NaN on the diagonal and where a vector is zero.
    """
    exact = vectors.astype(np.float64)
    norms = np.linalg.norm(exact, axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        unit = exact / norms
    count = len(vectors)
    values = unit @ unit.T
    if pairing == "set_order":
        first, second = np.triu_indices(count, 1)
        upper = np.full((count, count), np.nan)
        upper[first, second] = values[first, second - first - 1]
        values = np.where(np.isnan(upper), upper.T, upper)
    np.fill_diagonal(values, np.nan)
    clipped: Matrix = np.clip(values, -1, 1)
    return clipped


def observe(
    similarity: Matrix, together: NDArray[np.int64], clients: Sequence[int], instance: Matrix
) -> tuple[Matrix, NDArray[np.int64]]:
    """Return the running means and their counts after a round (eq. 12).

    Args:
        similarity: means so far, float64 [N, N].
        together: number of cosines in each mean, int64 [N, N].
        clients: the K clients that took part.
        instance: their cosines, float64 [K, K]; NaN entries are left out.

    Returns:
        New ``similarity`` and ``together``, of the same shapes.
    """
    place = np.ix_(clients, clients)
    new = ~np.isnan(instance)
    count = together[place] + new
    old = similarity[place]
    step = np.where(new, instance, old) - old
    means, counts = similarity.copy(), together.copy()
    means[place] = old + step / np.maximum(count, 1)
    counts[place] = count
    return means, counts


def bridged(
    similarity: Matrix,
    known: Relation,
    eps: float,
    rng: np.random.Generator | None = None,
) -> Matrix:
    """Estimate the similarity of pairs through third clients (Theorem III.3).

    For z known to both x and y: ``mu = s_xz s_zy`` and ``sigma^2 = (1 - s_xz^2) (1 - s_zy^2)``.
    The estimate is the mean over all z with ``sigma < eps`` of mu, or of draws from
    Normal(mu, sigma^2).

    Args:
        similarity: means or earlier estimates, float64 [N, N].
        known: which entries of ``similarity`` to use, bool [N, N].
        eps: bound on sigma, above 0.
        rng: draws the normal numbers; None takes the means.

    Returns:
        float64 [N, N], symmetric; NaN where there is no such z.
    """
    s = np.where(known, similarity, 0.0)
    away = np.sqrt(np.maximum(1 - s**2, 0.0))
    number, total = np.zeros(s.shape, dtype=np.int64), np.zeros(s.shape)
    for x in range(len(s)):  # [y, z] each: all at once would take the memory of N^3 numbers
        sigma = away[x] * away
        usable = known[x] & known & (sigma < eps)
        values = s[x] * s
        if rng is not None:
            values = values + sigma * rng.standard_normal(values.shape)
        number[x] = usable.sum(axis=1)
        total[x] = np.where(usable, values, 0.0).sum(axis=1)
    with np.errstate(invalid="ignore"):
        mean = np.where(number > 0, total / number, np.nan)
    return np.triu(mean, 1) + np.triu(mean, 1).T + np.diag(np.full(len(mean), np.nan))


def same_cluster(
    similarity: Matrix,
    known: Relation,
    threshold: float,
    rescale: Rescale = "all",
    closure: Closure = "components",
) -> Relation:
    """Return which clients belong together (eq. 13).

    ``all``: Q = (S - S_min) / (S_max - S_min), S_min over the known pairs, S_max with the diagonal,
    which is 1; together where ``Q >= threshold``. ``as_run``: minimum and maximum are over positive
    entries alone, and clients are together where ``|Q| > threshold``, so a negative cosine may
    count as a large positive one. Unknown pairs are apart.

    Args:
        similarity: float64 [N, N].
        known: pairs of clients whose similarity is known, bool [N, N]; the diagonal is ignored.
        threshold: tau, 0..1.
        rescale: ``all`` or ``as_run``.
        closure: as of :func:`closed`.

    Returns:
        bool [N, N], true on the diagonal.
    """
    itself = np.eye(len(similarity), dtype=bool)
    pairs = known & ~itself
    values = similarity[pairs]
    if rescale == "as_run":
        values = values[values > 0]
    lowest, highest = values.min(initial=1.0), values.max(initial=1.0)
    if highest - lowest < FLAT:
        adjacent = pairs | itself
    else:
        q = (similarity - lowest) / (highest - lowest)
        close = np.abs(q) > threshold if rescale == "as_run" else q >= threshold
        adjacent = (pairs & close) | itself
    return closed(adjacent, closure)


def closed(adjacent: Relation, closure: Closure) -> Relation:
    """Return a relation made transitive, or nearly so, bool [N, N].

    Args:
        adjacent: reflexive and symmetric, bool [N, N].
        closure: ``components`` makes an equivalence: each connected component is a cluster;
            ``two_hop`` also joins clients with a common neighbour (as run); ``none`` changes
            nothing.
    """
    if closure == "none":
        return adjacent
    wider = (adjacent.astype(np.int64) @ adjacent.astype(np.int64)) > 0
    if closure == "components":
        while (wider != adjacent).any():
            adjacent = wider
            wider = (adjacent.astype(np.int64) @ adjacent.astype(np.int64)) > 0
    return wider


def sizes(relation: Relation, among: Sequence[int]) -> NDArray[np.int64]:
    """Return, for each of all N clients, how many of some clients belong with it, int64 [N].

    Args:
        relation: which clients belong together, bool [N, N].
        among: the clients that are counted.
    """
    counted: NDArray[np.int64] = relation[:, list(among)].sum(axis=1)
    return counted


def number_of_clusters(relation: Relation, among: Sequence[int]) -> float:
    """Return how many clusters some clients form: the sum of 1 / cluster size over them.

    It is a whole number only if the relation is an equivalence.

    Args:
        relation: which clients belong together, bool [N, N].
        among: the clients that are counted.
    """
    return float((1 / sizes(relation, among)[list(among)]).sum())


def true_clusters(counts: NDArray[np.int64]) -> Relation:
    """Return which clients hold the same set of labels, bool [N, N].

    Args:
        counts: examples of each class, int64 [N, classes].
    """
    held = counts > 0
    same: Relation = (held[:, None, :] == held[None, :, :]).all(axis=2)
    return same


def require_pairs(spec: RunSpec) -> None:
    """Refuse a partition in which no two clients can be compared.

    Raises:
        ValueError: it has one client.
    """
    if spec.partition.clients < 2:
        raise ValueError(
            f"algorithm.name: {spec.algorithm.name} compares clients, and the partition has one; "
            "give it at least 2"
        )


def ranges(similarity: Matrix, known: Relation, truth: Relation) -> dict[str, list[float]]:
    """Return the lowest, mean and highest similarity of the known pairs of clients.

    Those that hold the ``same`` set of labels, as ``truth`` says, and the ``other`` ones are apart;
    left out is what has no pair. All matrices are [N, N].
    """
    upper = np.triu(known, 1)
    return {
        name: [float(values.min()), float(values.mean()), float(values.max())]
        for name, pairs in (("same", upper & truth), ("other", upper & ~truth))
        if (values := similarity[pairs]).size
    }


def wrong_pairs(relation: Relation, truth: Relation) -> float:
    """Return the share, 0..1, of all pairs of clients on which two relations differ.

    Args:
        relation: which clients belong together, bool [N, N].
        truth: the same, as it should be.
    """
    upper = np.triu_indices(len(truth), 1)
    return float((relation[upper] != truth[upper]).mean())


def squared_error(similarity: Matrix, truth: Relation) -> float:
    """Return the mean squared difference of a similarity matrix and the ideal one, over all pairs.

    Args:
        similarity: float64 [N, N].
        truth: bool [N, N]; the ideal similarity is 1 where it is true and 0 elsewhere.
    """
    upper = np.triu_indices(len(truth), 1)
    return float(((similarity[upper] - truth[upper]) ** 2).mean())
