"""The client partitions that the published numbers of Nguyen et al. 2023 were made with."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field

from fedrepro.base.errors import FedreproError
from fedrepro.fl.data.cadis import cadis_partition
from fedrepro.fl.partition.scheme import Cut, Labelled, Scheme
from fedrepro.fl.partition.shared import Clients, Indices

if TYPE_CHECKING:
    from fedrepro.fl.data import DatasetInfo


EXAMPLES = {
    "mnist_mc": 29_002,
    "mnist_bc": 29_000,
    "mnist_uc": 28_904,
    "mnist_pa": 42_876,
    "cifar10_mc": 30_200,
    "cifar10_bc": 10_400,
    "cifar10_uc": 27_038,
    "cifar10_pa": 16_932,
    "cifar100_mc": 23_660,
    "cifar100_bc": 24_000,
    "cifar100_uc": 23_320,
    "cifar100_pa": 13_910,
}
"""Examples that the 100 clients of each list hold together, counted once for each holder."""


def index_file(
    labels: Indices,
    lists: str,
    share: float,
    rng: np.random.Generator,
    data_root: Path | None = None,
) -> Clients:
    """Read the clients' lists, or a share of each.

    Args:
        labels: int64 [n], the training labels in original order.
        lists: which of the authors' partitions; a key of :data:`EXAMPLES`.
        share: of what a client holds of each label, in (0, 1]: ``ceil(share * n)`` are drawn.
        rng: draws them.
        data_root: folder of packed data; None takes the usual places.

    Returns:
        One index array for each client, in the order of the file.

    Raises:
        FedreproError: the file is missing or damaged, or belongs to more examples than there are.
    """
    clients = cadis_partition(lists, data_root)
    if max(int(client.max()) for client in clients) >= len(labels):
        raise FedreproError(
            f"partition.lists = {lists} names examples beyond the {len(labels)} of this data set"
        )
    if share == 1:
        return tuple(clients)
    return tuple(_drawn(client, labels[client], share, rng) for client in clients)


def _drawn(client: Indices, labels: Indices, share: float, rng: np.random.Generator) -> Indices:
    """Return a share of the examples of every label, in the given order."""
    kept = np.zeros(len(client), dtype=bool)
    for label in np.unique(labels):
        places = rng.permutation(np.flatnonzero(labels == label))
        kept[places[: math.ceil(share * len(places) - 1e-9)]] = True
    return client[kept]


class IndexFile(Scheme):
    """The authors' own client lists (Nguyen et al. 2023), 100 clients each."""

    scheme: Literal["index_file"]
    lists: Literal[
        "mnist_mc",
        "mnist_bc",
        "mnist_uc",
        "mnist_pa",
        "cifar10_mc",
        "cifar10_bc",
        "cifar10_uc",
        "cifar10_pa",
        "cifar100_mc",
        "cifar100_bc",
        "cifar100_uc",
        "cifar100_pa",
    ]
    share: float = Field(
        default=1.0, gt=0, le=1, description="of what a client holds of each label; drawn by seed"
    )

    @property
    def clients(self) -> int:
        """Clients of every list."""
        return 100

    @property
    def seeded(self) -> bool:  # type: ignore[override]
        """Whether a share is drawn; whole lists are the same for every seed."""
        return self.share < 1

    @property
    def dataset(self) -> str:
        """The data set that the lists are of."""
        return self.lists.rpartition("_")[0]

    def cut(self, data: Labelled, rng: np.random.Generator) -> Cut:
        """Read the lists, and draw a share of each."""
        return Cut(index_file(data.train, self.lists, self.share, rng, data.data_root))

    def examples(self, info: DatasetInfo) -> float:
        """Return how many training examples the clients hold together."""
        return self.share * EXAMPLES[self.lists]
