"""Who holds which examples: one file for each scheme; see :class:`.scheme.Scheme`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrepro.base.errors import FedreproError
from fedrepro.fl import streams
from fedrepro.fl.components import Registry
from fedrepro.fl.partition import statistics
from fedrepro.fl.partition.scheme import Cut, IntArray, Labelled, NodeSets, Scheme, nobody

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

    _: KW_ONLY
    counts: IntArray
    emd: NDArray[np.float64]
    sha256: str


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
    data = Labelled(_read_only(train_labels), _read_only(test_labels), classes, seed, data_root)
    cut = spec.cut(data, streams.generator(seed, "partition"))
    cut = _checked(spec, cut, len(train_labels), len(test_labels))
    counts = statistics.class_counts(train_labels, cut.clients, classes)
    return Partition(
        **vars(cut),
        counts=counts,
        emd=statistics.emd(counts),
        sha256=statistics.digest(cut.clients),
    )


def _read_only(labels: IntArray) -> IntArray:
    """Return a view of labels that a scheme cannot change: the data set is trained on, too."""
    view = labels.view()
    view.flags.writeable = False
    return view


def _checked(spec: Scheme, cut: object, train: int, test: int) -> Cut:
    """Return a cut with int64 arrays that name examples of the data set, some for each client.

    Raises:
        FedreproError: it is none.
    """  # noqa: DOC501 - made by a function

    def positions(found: Any, what: str, limit: int = train) -> IntArray:
        try:
            array = np.asarray(found)
        except ValueError as error:  # lists of different lengths
            raise _refused(spec, f"{what} {found!r:.50}, not positions, int64 [n]") from error
        if not array.size:
            return nobody()
        if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
            raise _refused(spec, f"{what} {found!r:.50}, not positions, int64 [n]")
        if not 0 <= array.min() <= array.max() < limit:
            raise _refused(spec, f"{what} an example that the {limit} of the split do not have")
        return array.astype(np.int64)

    def node_set(name: str, given: NodeSets) -> NodeSets:
        if given.split not in ("train", "test"):
            raise _refused(spec, f"node set {name} the split {given.split!r}, not train or test")
        if len(given.parts) != spec.clients:
            raise _refused(spec, f"node set {name} {len(given.parts)} parts, not {spec.clients}")
        limit = test if given.split == "test" else train
        parts = tuple(positions(part, f"node set {name}", limit) for part in given.parts)
        if not all(map(len, parts)):
            raise _refused(spec, f"node set {name} a part without an example")
        return NodeSets(given.split, parts)

    if not isinstance(cut, Cut):
        raise _refused(spec, f"{cut!r:.50}, not a Cut")
    clients = tuple(positions(one, f"client {i}") for i, one in enumerate(cut.clients))
    if len(clients) != spec.clients:
        raise _refused(spec, f"{len(clients)} clients, not {spec.clients}")
    for number, held in enumerate(clients):
        if not held.size:
            raise _refused(spec, f"client {number} no example; every client needs one")
    return Cut(
        clients=clients,
        validation=positions(cut.validation, "validation"),
        shared=positions(cut.shared, "shared"),
        server=positions(cut.server, "server"),
        node_sets={name: node_set(name, given) for name, given in cut.node_sets.items()},
    )


def _refused(spec: Scheme, problem: str) -> FedreproError:
    return FedreproError(f"partition.scheme: '{spec.scheme}' gives {problem}")
