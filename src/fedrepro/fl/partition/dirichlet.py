"""Label skew and quantity skew from Dirichlet laws: a smaller ``alpha`` makes clients more unequal.

Classes are shared out over the clients, as Yurochkin et al. 2019 (section 4) and Li et al. 2022
(NIID-Bench, section III) write, so clients differ in size, too. The code of both also gives a
client no more once it has its equal share, which is not done here. Hsu et al. 2019 draw the other
way round: clients of one size, each with class shares of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedrepro.base.errors import FedreproError
from fedrepro.fl.partition.scheme import Cut, Labelled, Scheme
from fedrepro.fl.partition.shared import Clients, Indices, check_labels, shuffled_classes

if TYPE_CHECKING:
    from fedrepro.fl.data import DatasetInfo

TRIES = 1000
"""Draws after which the smallest client counts as too small."""


def label_skew(
    labels: Indices,
    clients: int,
    alpha: float,
    rng: np.random.Generator,
    *,
    per_class: int | None = None,
    smallest: int = 1,
) -> Clients:
    """Give every client a share of each class, drawn from Dir(alpha) over the clients.

    Args:
        labels: int64 [n], class numbers from 0.
        clients: number of clients, at least 1.
        alpha: concentration, above 0.
        rng: draws one permutation a class, in class order, and then one Dirichlet vector a class,
            all of them anew while a client has too few examples.
        per_class: examples used of each class; None: all.
        smallest: fewest examples of a client.

    Returns:
        One ascending index array for each client; every example used is used once.

    Raises:
        FedreproError: as :func:`shuffled_classes`, or no draw gives every client enough examples.
    """  # noqa: DOC501 - made by a function
    members = shuffled_classes(labels, per_class, rng)
    _check(clients, sum(map(len, members)), smallest)
    for _ in range(TRIES):
        shares = rng.dirichlet(np.full(clients, alpha), size=len(members))
        ends = [_ends(share, len(member)) for share, member in zip(shares, members, strict=True)]
        sizes = np.sum([np.diff(end, prepend=0) for end in ends], axis=0)
        if sizes.min() >= smallest:
            parts = [np.split(m, end[:-1]) for m, end in zip(members, ends, strict=True)]
            return tuple(np.sort(np.concatenate(part)) for part in zip(*parts, strict=True))
    raise _too_small(smallest)


def quantity_skew(
    labels: Indices, clients: int, alpha: float, rng: np.random.Generator, *, smallest: int = 1
) -> Clients:
    """Give every client a random part of all examples; sizes are drawn from Dir(alpha).

    Args:
        labels: int64 [n], class numbers from 0; only their number matters.
        clients: number of clients, at least 1.
        alpha: concentration, above 0.
        rng: draws one permutation, then Dirichlet vectors until every client is large enough.
        smallest: fewest examples of a client.

    Returns:
        One ascending index array for each client; every example is used once.

    Raises:
        FedreproError: ``labels`` is no label array, or no draw gives every client enough examples.
    """  # noqa: DOC501 - made by a function
    check_labels(labels)
    _check(clients, len(labels), smallest)
    order = rng.permutation(len(labels))
    for _ in range(TRIES):
        ends = _ends(rng.dirichlet(np.full(clients, alpha)), len(labels))
        if np.diff(ends, prepend=0).min() >= smallest:
            return tuple(np.sort(part) for part in np.split(order, ends[:-1]))
    raise _too_small(smallest)


def _ends(shares: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """Return where each client's part of ``count`` examples ends, int64 [clients]."""
    ends = np.rint(np.cumsum(shares) * count).astype(np.int64)
    ends[-1] = count
    return ends


def _check(clients: int, examples: int, smallest: int) -> None:
    if clients * smallest > examples:
        raise FedreproError(
            f"partition.smallest = {smallest} for {clients} clients needs {clients * smallest} "
            f"examples, and there are {examples}; lower one of them"
        )


def _too_small(smallest: int) -> FedreproError:
    return FedreproError(
        f"{TRIES} draws left a client with fewer than partition.smallest = {smallest} examples; "
        "raise partition.alpha, or lower smallest or clients"
    )


class Dirichlet(Scheme):
    """Label skew: every class is shared out in proportions of Dir(alpha)."""

    scheme: Literal["dirichlet"]
    clients: int = Field(ge=1)
    alpha: float = Field(gt=0, description="concentration: the smaller, the fewer labels a client")
    per_class: int | None = Field(default=None, ge=1, description="examples used of each class")
    smallest: int = Field(default=10, ge=1, description="fewest examples of a client")

    example: ClassVar = {"scheme": "dirichlet", "clients": 6, "alpha": 0.5, "per_class": 60}

    def cut(self, data: Labelled, rng: np.random.Generator) -> Cut:
        """Share every class out."""
        return Cut(
            label_skew(
                data.train,
                self.clients,
                self.alpha,
                rng,
                per_class=self.per_class,
                smallest=self.smallest,
            )
        )

    def examples(self, info: DatasetInfo) -> float:
        """Return how many training examples the clients hold together."""
        return info.train if self.per_class is None else self.per_class * info.classes


class QuantitySkew(Scheme):
    """Quantity skew: random parts whose sizes are in proportions of Dir(alpha)."""

    scheme: Literal["quantity_skew"]
    clients: int = Field(ge=1)
    alpha: float = Field(gt=0, description="concentration: the smaller, the more unequal the sizes")
    smallest: int = Field(default=10, ge=1, description="fewest examples of a client")

    example: ClassVar = {"scheme": "quantity_skew", "clients": 6, "alpha": 1.0}

    def cut(self, data: Labelled, rng: np.random.Generator) -> Cut:
        """Cut parts of unequal sizes."""
        parts = quantity_skew(data.train, self.clients, self.alpha, rng, smallest=self.smallest)
        return Cut(parts)
