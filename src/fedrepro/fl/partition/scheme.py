"""What a partition scheme is: its parameters, how it cuts a data set, what it costs.

A scheme is one class in one file of this package, or of another distribution, which names it as an
entry point of ``fedrepro.partitions``. Nothing else has to be edited for it to be found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from fedrepro.base.strict import Strict

if TYPE_CHECKING:
    from fedrepro.fl.data import DatasetInfo

IntArray: TypeAlias = NDArray[np.int64]


def nobody() -> IntArray:
    """Return no examples, int64 [0]."""
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class Labelled:
    """What a scheme may look at: labels, but no images. The arrays cannot be written to.

    Attributes:
        train: labels of the official training split, int64 [n].
        test: labels of the official test split, int64 [n].
        classes: number of classes of the data set.
        seed: of the partition: the scheme's own, or else the run's.
        data_root: folder of packed data, for published lists; None takes the usual places.
    """

    train: IntArray
    test: IntArray
    classes: int
    seed: int
    data_root: Path | None = None


@dataclass(frozen=True)
class NodeSets:
    """For every node the examples it is tested on: positions in ``split``, int64 [n_k], n_k > 0."""

    split: Literal["train", "test"]
    parts: tuple[IntArray, ...]


@dataclass(frozen=True)
class Cut:
    """Who holds which examples; all but ``node_sets`` are positions in the training split.

    Attributes:
        clients: int64 [n_k] for each client, n_k > 0.
        validation: held by no client and set aside for validation, int64 [n].
        shared: handed out to the clients by the server, int64 [n].
        server: held by no client, for the server to train on, int64 [n].
        node_sets: named test sets of the nodes.
    """

    clients: tuple[IntArray, ...]
    validation: IntArray = field(default_factory=nobody)
    shared: IntArray = field(default_factory=nobody)
    server: IntArray = field(default_factory=nobody)
    node_sets: Mapping[str, NodeSets] = field(default_factory=dict)


class Scheme(Strict):
    """Base of every scheme: a model of its parameters.

    A scheme has a field ``scheme`` that is a literal of its name, and a field or property
    ``clients``.

    Attributes:
        version: raised when the scheme's numbers change, so that exactly its runs train again.
        seeded: whether the partition depends on the seed; if not, all seeds share one partition.
        example: parameters of a small case, on 1,000 examples of 10 classes, for golden tests.
    """

    seed: int | None = Field(
        default=None, ge=0, description="seed of the partition; null: the run's seed"
    )

    version: ClassVar[int] = 1
    seeded: ClassVar[bool] = True
    example: ClassVar[Mapping[str, Any]] = {}

    if TYPE_CHECKING:
        # Fields or properties of every scheme.
        @property
        def scheme(self) -> str: ...  # noqa: D102

        @property
        def clients(self) -> int: ...  # noqa: D102

    @property
    def dataset(self) -> str:
        """Name of the only data set that the scheme is for; empty if it is for any."""
        return ""

    @model_validator(mode="after")
    def _seed_decides(self) -> Self:
        if self.seed is not None and not self.seeded:
            raise ValueError(f"seed: the scheme {self.scheme} draws nothing; leave it out")
        return self

    def cut(self, data: Labelled, rng: np.random.Generator) -> Cut:
        """Cut a data set.

        Args:
            data: its labels.
            rng: the random stream of the partition.

        Raises:
            FedreproError: the data set cannot be cut as asked.
        """
        raise NotImplementedError

    def examples(self, info: DatasetInfo) -> float:
        """Return about how many training examples the clients hold together."""
        return info.train

    def evaluated(self, info: DatasetInfo) -> float:
        """Return about how many examples an evaluation predicts with each model."""
        return info.test
