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
from fedrepro.fl.partition.shared import Indices, Partition, check_labels

if TYPE_CHECKING:
    from fedrepro.fl.data import DatasetInfo


COUNTS = {"pill": PILL}
"""Images of each label, [clients][labels], by the name of the table."""


def published_counts(labels: Indices, counts: str, keep: float) -> Partition:
    """Give every client its number of images of each label, or a share of them.

    Of each label the first images in file order are the first client's, the next the second's, and
    so on; with a share of them a client has the first ``ceil(keep * n)`` of its ``n``.

    Args:
        labels: int64 [n], class numbers from 0.
        counts: a key of :data:`COUNTS`.
        keep: share kept of what a client holds of each label, in (0, 1].

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
    for client, amounts in enumerate(table):
        kept = [math.ceil(keep * amount - 1e-9) for amount in amounts]
        firsts = starts[client]
        parts.append(
            np.sort(
                np.concatenate(
                    [of[a : a + n] for of, a, n in zip(images, firsts, kept, strict=True)]
                )
            )
        )
    return tuple(parts)


class PublishedCounts(Scheme):
    """Clients by published label counts (Nguyen et al. 2023, PILL: 10 clients, 15 labels)."""

    scheme: Literal["published_counts"]
    counts: Literal["pill"]
    keep: float = Field(
        default=1.0, gt=0, le=1, description="share kept of what a client holds of each label"
    )

    @property
    def clients(self) -> int:
        """Clients of the table."""
        return 10

    seeded: ClassVar = False
    example: ClassVar = {"scheme": "published_counts", "counts": "pill", "keep": 0.02}

    def cut(self, data: Labelled, rng: np.random.Generator) -> Cut:
        """Hand images out in file order."""
        return Cut(published_counts(data.train, self.counts, self.keep))

    def examples(self, info: DatasetInfo) -> float:
        """Return how many training examples the clients hold together."""
        return self.keep * sum(map(sum, COUNTS[self.counts]))
