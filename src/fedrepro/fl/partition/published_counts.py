"""Clients by a published table of label counts, where the images themselves are private.

PILL of Nguyen et al. 2023 (section V-A): 10 clients, 15 labels. Images are handed out in file
order, so of the data set ``pill``, which is ordered by client, every client gets its own published
list.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from pydantic import Field

from fedrepro.base.errors import FedreproError
from fedrepro.fl.data.pill_counts import COUNTS as PILL
from fedrepro.fl.partition.scheme import Cut, Labelled, Scheme
from fedrepro.fl.partition.shared import Clients, Indices, check_labels

if TYPE_CHECKING:
    from fedrepro.fl.data import DatasetInfo


COUNTS = {"pill": PILL}
"""Images of each label, [clients][labels], by the name of the table."""


def published_counts(
    labels: Indices, counts: str, share: float, rng: np.random.Generator
) -> Clients:
    """Give every client its number of images of each label, or a share of them.

    Of each label the first images in file order are the first client's, the next the second's, and
    so on. Of a client's ``n`` images of a label ``ceil(share * n)`` are drawn.

    Args:
        labels: int64 [n], class numbers from 0.
        counts: a key of :data:`COUNTS`.
        share: of what a client holds of each label, in (0, 1].
        rng: draws them.

    Returns:
        One ascending index array for each client; no two clients share an image.

    Raises:
        FedreproError: the data set has other labels than the table, or a label has too few images.
    """
    check_labels(labels)
    table = np.array(COUNTS[counts], dtype=np.int64)
    supply, demand = np.bincount(labels), table.sum(axis=0)
    if len(supply) != len(demand):
        raise FedreproError(
            f"partition.counts = {counts} is for {len(demand)} labels, these data have "
            f"{len(supply)}"
        )
    if (supply < demand).any():
        label = int((supply < demand).argmax())
        raise FedreproError(
            f"label {label} has {supply[label]} images; the clients of partition.counts = {counts} "
            f"hold {demand[label]}"
        )
    starts = table.cumsum(axis=0) - table
    images = [np.flatnonzero(labels == label) for label in range(len(demand))]
    parts = []
    for firsts, amounts in zip(starts, table, strict=True):
        own = [of[a : a + n] for of, a, n in zip(images, firsts, amounts, strict=True)]
        if share < 1:
            own = [rng.permutation(of)[: math.ceil(share * len(of) - 1e-9)] for of in own]
        parts.append(np.sort(np.concatenate(own)))
    return tuple(parts)


class PublishedCounts(Scheme):
    """Clients by published label counts (Nguyen et al. 2023, PILL: 10 clients, 15 labels)."""

    scheme: Literal["published_counts"]
    counts: Literal["pill"]
    share: float = Field(
        default=1.0, gt=0, le=1, description="of what a client holds of each label; drawn by seed"
    )

    @property
    def clients(self) -> int:
        """Clients of the table."""
        return 10

    example: ClassVar = {"scheme": "published_counts", "counts": "pill", "share": 0.02}

    @property
    def seeded(self) -> bool:  # type: ignore[override]
        """Whether a share is drawn; whole lists are the same for every seed."""
        return self.share < 1

    def cut(self, data: Labelled, rng: np.random.Generator) -> Cut:
        """Hand images out in file order, and draw a share of them."""
        return Cut(published_counts(data.train, self.counts, self.share, rng))

    def examples(self, info: DatasetInfo) -> float:
        """Return how many training examples the clients hold together."""
        return self.share * sum(map(sum, COUNTS[self.counts]))
