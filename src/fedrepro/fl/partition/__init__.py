"""Who holds which examples: one file for each scheme; see :class:`.scheme.Scheme`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrepro.base.errors import FedreproError
from fedrepro.fl import streams
from fedrepro.fl.components import Registry
from fedrepro.fl.partition import statistics
from fedrepro.fl.partition.scheme import Cut, IntArray, Labelled, NodeSets, Scheme

__all__ = ["SCHEMES", "Cut", "Labelled", "NodeSets", "Partition", "Scheme", "build_partition"]


def _scheme_name(value: Any) -> str | None:
    if not (isinstance(value, type) and issubclass(value, Scheme)):
        return None
    field = value.model_fields.get("scheme")
    return None if field is None else str(field.annotation.__args__[0])  # type: ignore[union-attr]


SCHEMES: Registry[type[Scheme]] = Registry(
    "partition scheme", __name__, "fedrepro.partitions", _scheme_name
)


@dataclass(frozen=True)
class Partition(Cut):
    """A cut, and what records tell of it.

    Attributes:
        counts: examples of each class, int64 [clients, classes].
        emd: EMD of each client from the pooled clients, float64 [clients], 0..2; see
            :func:`.statistics.emd`.
        sha256: digest of the index lists; see :func:`.statistics.digest`.
    """

    counts: IntArray = None  # type: ignore[assignment]
    emd: NDArray[np.float64] = None  # type: ignore[assignment]
    sha256: str = ""


def build_partition(
    spec: Scheme,
    train_labels: IntArray,
    test_labels: IntArray,
    classes: int,
    seed: int,
    data_root: Path | None = None,
) -> Partition:
    """Build the partition that a spec describes.

    Args:
        spec: scheme and parameters.
        train_labels: int64 [train].
        test_labels: int64 [test]; only schemes that give nodes test sets of their own read it.
        classes: number of classes of the data set.
        seed: run seed; names the random stream of the partition, unless the spec has a seed.
        data_root: folder of packed data, for published lists; None takes the usual places.

    Raises:
        FedreproError: the data set cannot be cut as asked.
    """
    if spec.seed is not None:
        seed = spec.seed
    data = Labelled(train_labels, test_labels, classes, seed, data_root)
    cut = spec.cut(data, streams.generator(seed, "partition"))
    for client, positions in enumerate(cut.clients):
        if len(positions) and not 0 <= positions.min() <= positions.max() < len(train_labels):
            raise FedreproError(
                f"partition.scheme: '{spec.scheme}' gives client {client} an example that the "
                f"{len(train_labels)} of the training split do not have"
            )
    counts = statistics.class_counts(train_labels, cut.clients, classes)
    return Partition(
        **vars(cut),
        counts=counts,
        emd=statistics.emd(counts),
        sha256=statistics.digest(cut.clients),
    )
