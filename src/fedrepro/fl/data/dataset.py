"""The one form in which every data set reaches the rest of the package."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedrepro.base.errors import FedreproError
from fedrepro.fl.data.registry import DatasetInfo

Images = NDArray[np.uint8] | NDArray[np.float32]
Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Dataset:
    """A data set in memory. Loads are cached and shared, so the arrays must not be changed.

    Attributes:
        name: one of `fedrepro.fl.data.names()`.
        train_x: uint8 [n, channels, height, width], 0-255; float32 for features.
        train_y: int64 [n], 0 to classes - 1.
        test_x: as ``train_x``.
        test_y: as ``train_y``.
        classes: number of classes.
        source: "pack", "raw" (official files that were here), "download" or "synthetic".
        sha256: content hash, hex; see `content_sha256`.
        note: how the data differ from the official ones; "" where they do not.
    """

    name: str
    train_x: Images
    train_y: Labels
    test_x: Images
    test_y: Labels
    classes: int
    source: str
    sha256: str
    note: str


@dataclass(frozen=True)
class Arrays:
    """What a reader returns: the four arrays, not yet checked, and what else the note must say."""

    train_x: Images
    train_y: Labels
    test_x: Images
    test_y: Labels
    remark: str = ""


@dataclass(frozen=True)
class Source:
    """A data set that another distribution brings: an entry point of ``fedrepro.datasets``.

    Attributes:
        info: what it is; ``format`` is "plugin", and ``name`` the entry point's.
        read: returns its arrays; raises FedreproError where it cannot.
    """

    info: DatasetInfo
    read: Callable[[], Arrays]


def content_sha256(arrays: Arrays) -> str:
    """Hash the four arrays: name, dtype, shape and values of each.

    The images are hashed in the order [n, height, width, channels], the order in which hashes of
    decoded image data are commonly published, so that a published hash of the pixels is enough to
    know the content hash of the official data.
    """
    digest = hashlib.sha256()
    for name in ("train_x", "train_y", "test_x", "test_y"):
        array: NDArray[np.generic] = getattr(arrays, name)
        last = np.moveaxis(array, 1, -1) if array.ndim == 4 else array
        little = np.ascontiguousarray(last, dtype=last.dtype.newbyteorder("<"))
        values = hashlib.sha256(little.data).hexdigest()
        shape = "x".join(str(size) for size in array.shape)
        digest.update(f"{name} {array.dtype.name} {shape} {values}\n".encode("ascii"))
    return digest.hexdigest()


def build(info: DatasetInfo, arrays: Arrays, source: str, where: str) -> Dataset:
    """Check arrays against the data set's description and make them a `Dataset`.

    Args:
        info: the description.
        arrays: the four arrays.
        source: where they come from, as in `Dataset`.
        where: folder or other origin, for the error text.

    Raises:
        FedreproError: dtype, shape, number of examples or examples per class are not as described;
            where the numbers are unverified: there is a class without examples.
    """
    check_labels(info, arrays.train_y, arrays.test_y, where)
    for split, y, x in (
        ("training", arrays.train_y, arrays.train_x),
        ("test", arrays.test_y, arrays.test_x),
    ):
        shape = (len(y), *info.shape)
        _require(info, where, f"{split} data", (x.dtype.name, x.shape), (info.dtype, shape))
    sha256 = content_sha256(arrays)
    notes = (_note(info, source, sha256), arrays.remark, _recount(info, arrays))
    return Dataset(
        name=info.name,
        train_x=arrays.train_x,
        train_y=arrays.train_y,
        test_x=arrays.test_x,
        test_y=arrays.test_y,
        classes=info.classes,
        source=source,
        sha256=sha256,
        note=" ".join(note for note in notes if note),
    )


def check_labels(info: DatasetInfo, train_y: Labels, test_y: Labels, where: str) -> None:
    """Check labels (int64 [n] each) against the data set's description.

    Raises:
        FedreproError: range, number or number per class is not as described; where the numbers are
            unverified: there is a class without examples.
    """
    for split, examples, expected, y in (
        ("training", info.train, info.train_per_class, train_y),
        ("test", info.test, info.test_per_class, test_y),
    ):
        exact = info.counts == "exact"
        shape = (examples,) if exact else y.shape[:1]
        _require(info, where, f"{split} labels", (y.dtype.name, y.shape), ("int64", shape))
        if not len(y):
            _refuse(info, where, f"no {split} examples", "some of each class")
        extremes = (int(y.min()), int(y.max()))
        if extremes[0] < 0 or extremes[1] >= info.classes:
            _refuse(
                info,
                where,
                f"{split} labels from {extremes[0]} to {extremes[1]}",
                f"0 to {info.classes - 1}",
            )
        per_class = tuple(np.bincount(y, minlength=info.classes).tolist())
        if exact:
            _require(info, where, f"{split} examples per class", per_class, expected)
        elif not all(per_class):
            _refuse(info, where, f"{split} examples per class {per_class}", "some of each class")


def _note(info: DatasetInfo, source: str, sha256: str) -> str:
    """Say how this content differs from the official data; "" where it does not."""
    if sha256 == info.content.official:
        return ""
    for copy in info.content.copies:
        if sha256 == copy.sha256:
            return copy.note
    if source in ("raw", "download"):
        return ""  # the official files' own checksums held
    if info.content.official is None:
        return (
            "Packed copy of unknown origin: no content hash of the official data is on record "
            "to compare it with."
        )
    return (
        "Differs from the official data in an unknown way: content hash "
        f"{sha256[:12]}..., official {info.content.official[:12]}..."
    )


def _recount(info: DatasetInfo, arrays: Arrays) -> str:
    """Say which numbers of examples differ from unverified ones; "" where none do."""
    parts = []
    for split, y, expected in (
        ("training", arrays.train_y, info.train_per_class),
        ("test", arrays.test_y, info.test_per_class),
    ):
        found = tuple(np.bincount(y, minlength=info.classes).tolist())
        if found != expected:
            parts.append(f"{split} examples per class {found}, not {expected}")
    if not parts:
        return ""
    return f"Unverified numbers of the description differ: {'; '.join(parts)}."


def _require(info: DatasetInfo, where: str, what: str, found: object, expected: object) -> None:
    if found != expected:
        _refuse(info, where, f"{what} {found}", f"{expected}")


def _refuse(info: DatasetInfo, where: str, found: str, expected: str) -> None:
    raise FedreproError(
        f"Data set {info.name!r} from {where}: {found}, expected {expected}. These are not the "
        "files that its description has: replace them, or remove them to use another source."
    )
