"""Data sharing: one class a client, plus a share of a small set that holds every class.

Zhao et al. 2018, section 4.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from pydantic import Field

from fedrepro.base.errors import FedreproError
from fedrepro.fl.partition.class_aligned import class_aligned
from fedrepro.fl.partition.scheme import Cut, Labelled, Scheme
from fedrepro.fl.partition.shared import Clients, Indices

if TYPE_CHECKING:
    from fedrepro.fl.data import DatasetInfo


def data_sharing(
    labels: Indices,
    clients: int,
    rng: np.random.Generator,
    *,
    per_class: int,
    held_out: int,
    beta: float,
    alpha: float = 1.0,
    common: bool = False,
) -> tuple[Clients, Indices]:
    """Give every client one class, and a share of the globally shared set G (Zhao 2018, 4.2).

    The clients' own examples D are a 1-class partition (:func:`class_aligned`) that depends neither
    on ``beta`` nor on ``alpha``; of the rest, ``held_out`` random examples of each class are set
    aside (H in the paper), and G is the first ``beta * per_class`` of each. So a larger G contains
    the smaller ones of the same seed. A client receives ``alpha`` of each class of G.

    Args:
        labels: int64 [n], class numbers from 0.
        clients: number of clients, a multiple of the number of classes.
        rng: draws D, then H, then the clients' shares.
        per_class: examples of each class in D.
        held_out: examples of each class in H.
        beta: size of G divided by the size of D.
        alpha: share of G that each client receives, in (0, 1].
        common: all clients receive the same share.

    Returns:
        One ascending index array for each client, its own examples and its share of G; and G,
        int64 [beta * size of D].

    Raises:
        FedreproError: the arguments do not fit each other or the data.
    """
    in_g = _whole(beta * per_class, f"partition.beta = {beta:g}: beta * per_class")
    share = _whole(alpha * in_g, f"partition.alpha = {alpha:g}: alpha * beta * per_class")
    if in_g > held_out:
        raise FedreproError(
            f"partition.beta = {beta:g} needs {in_g} shared examples of each class, but held_out "
            f"is {held_out}"
        )
    own = class_aligned(labels, clients, 1, rng, per_class)
    rest = np.setdiff1d(np.arange(labels.size), np.concatenate(own))
    classes = int(labels.max()) + 1
    fewest = int(np.bincount(labels[rest], minlength=classes).min())
    if fewest < held_out:
        raise FedreproError(
            f"partition.held_out = {held_out}: after per_class = {per_class} a class has {fewest} "
            "examples left"
        )
    aside = [rng.permutation(rest[labels[rest] == label])[:held_out] for label in range(classes)]
    shared = [members[:in_g] for members in aside]

    def received() -> Indices:
        return np.concatenate([rng.permutation(members)[:share] for members in shared])

    parts = [received()] * clients if common else [received() for _ in range(clients)]
    merged = zip(own, parts, strict=True)
    return tuple(np.sort(np.concatenate(pair)) for pair in merged), np.sort(np.concatenate(shared))


def _whole(value: float, what: str) -> int:
    number = round(value)
    if abs(value - number) > 1e-6:
        raise FedreproError(f"{what} must be a whole number of examples, got {value:g}")
    return number


class DataSharing(Scheme):
    """Every client holds one class and a random share of a common set G (Zhao et al. 2018, 4.2).

    D, the clients' own examples, has ``per_class`` of each class. G is drawn from ``held_out``
    others of each class, has ``beta`` times the size of D and the same number of every class.
    """

    scheme: Literal["data_sharing"]
    clients: int = Field(ge=1)
    per_class: int = Field(ge=1, description="examples of each class in D")
    held_out: int = Field(ge=1, description="examples of each class set aside, of which G is made")
    beta: float = Field(ge=0, description="size of G / size of D")
    alpha: float = Field(default=1.0, gt=0, le=1, description="share of G that a client receives")
    shares: Literal["independent", "common"] = Field(
        default="independent", description="whether each client's share is drawn on its own"
    )

    example: ClassVar = {
        "scheme": "data_sharing",
        "clients": 10,
        "per_class": 40,
        "held_out": 20,
        "beta": 0.1,
    }

    def cut(self, data: Labelled, rng: np.random.Generator) -> Cut:
        """Give every client one class and its share of G."""
        clients, shared = data_sharing(
            data.train,
            self.clients,
            rng,
            per_class=self.per_class,
            held_out=self.held_out,
            beta=self.beta,
            alpha=self.alpha,
            common=self.shares == "common",
        )
        return Cut(clients, shared=shared)

    def examples(self, info: DatasetInfo) -> float:
        """Return how many training examples the clients hold together."""
        return self.per_class * info.classes * (1 + self.clients * self.alpha * self.beta)
