"""The one form in which every data set reaches the rest of the package."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrepro.base.errors import FedreproError
from fedrepro.fl.data.registry import DatasetInfo, PerClass, describe, held, remember

Images = NDArray[np.uint8] | NDArray[np.float32]
Labels = NDArray[np.int64]


ANY = "any"
"""In place of a content hash: whatever data are there."""


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
        source: "pack", "raw" (official files that were here), "download", "synthetic", "plugin" or
            "memory".
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

    def __repr__(self) -> str:
        """Name the data set and say how large it is."""
        shape = " x ".join(map(str, self.train_x.shape[1:]))
        return (
            f"Dataset({self.name}: {len(self.train_y):,} + {len(self.test_y):,} examples of "
            f"{shape}, {self.classes} classes)"
        )

    @property
    def other(self) -> bool:
        """Whether the data are not those that their description means."""
        return not describe(self.name).knows(self.sha256, self.source)

    @classmethod
    def from_arrays(
        cls,
        train_x: Images,
        train_y: Labels,
        test_x: Images,
        test_y: Labels,
        *,
        title: str = "",
    ) -> Dataset:
        """Make a data set of one's own arrays; runs on it have its content hash in their identity.

        Of equal arrays there is one data set, which a second call returns. It takes memory as long
        as something refers to it: a variable, the parts that it was cut into, runs in training.

        Args:
            train_x: [n, channels, height, width] or, with one channel, [n, height, width]; uint8
                pixels 0-255, or features, which become float32.
            train_y: whole numbers from 0, [n]; there are as many classes as the largest says, at
                least two and not more than there are examples.
            test_x: as ``train_x``.
            test_y: as ``train_y``.
            title: what a reader calls it.

        Raises:
            FedreproError: shapes, types or labels do not fit.
        """
        arrays = Arrays(
            _examples(train_x, "train_x"),
            _class_numbers(train_y, "train_y"),
            _examples(test_x, "test_x"),
            _class_numbers(test_y, "test_y"),
        )
        for side, x, y in (
            ("training", arrays.train_x, arrays.train_y),
            ("test", arrays.test_x, arrays.test_y),
        ):
            if len(x) != len(y):
                raise FedreproError(f"{len(x)} {side} examples with {len(y)} labels")
        kinds = [f"{x.dtype} {list(x.shape[1:])}" for x in (arrays.train_x, arrays.test_x)]
        if kinds[0] != kinds[1]:
            raise FedreproError(f"train_x, test_x: {kinds[0]} and {kinds[1]}; give both alike")
        if not isinstance(title, str):
            raise FedreproError(f"title: {title!r:.50} is no text")
        _require_classes(arrays)
        sha256 = content_sha256(arrays)
        info = _described(arrays, f"own_{sha256[:12]}", title)
        dataset = held(info.name)
        if dataset is None or content_sha256(dataset) != sha256:  # its arrays were changed
            dataset = build(info, arrays, "memory", "the program's arrays")
        remember(info, dataset)
        return dataset


def _array(given: object, what: str) -> NDArray[Any]:
    if np.ma.is_masked(given):
        raise FedreproError(f"{what}: some values are masked; give an array without a mask")
    try:
        return np.asarray(given)
    except ValueError as error:
        raise FedreproError(f"{what}: rows of different lengths; give an array") from error
    except (TypeError, RuntimeError) as error:  # a tensor that is on a GPU, or has a gradient
        raise FedreproError(f"{what}: {str(error).rstrip('.')}; give an array") from error


def _examples(array: Images, what: str) -> Images:
    given = _array(array, what)
    if given.ndim == 3:
        given = given[:, None]
    if given.ndim != 4 or not given.size:
        wanted = "give [n, channels, height, width]"
        if given.ndim == 2:
            wanted += f", a table as x.reshape(n, 1, 1, {given.shape[1]})"
        raise FedreproError(f"{what}: shape {given.shape}; {wanted}, none of them 0")
    if _channels_last(given):
        raise FedreproError(
            f"{what}: shape {given.shape} is [n, height, width, channels]; give [n, channels, "
            "height, width], as `numpy.moveaxis(x, -1, 1)` does"
        )
    if given.dtype != np.uint8:
        if not np.issubdtype(given.dtype, np.floating):
            raise FedreproError(f"{what}: give uint8 pixels or floats, not {given.dtype}")
        with np.errstate(over="ignore"):  # refused below
            given = given.astype(np.float32)
        if not (np.abs(given) < _LARGEST).all():
            raise FedreproError(f"{what}: give finite floats, smaller than {_LARGEST:g}")
    if given.min() == given.max():
        raise FedreproError(f"{what}: {given.min()} throughout; give examples that differ")
    return np.ascontiguousarray(given)


def _channels_last(array: NDArray[Any]) -> bool:
    """Return whether the axes are, beyond doubt, in the order that other libraries have."""
    _, rows, columns, channels = array.shape
    pixels = array.dtype == np.uint8 and channels > 1
    return channels in (1, 3, 4) and min(rows, columns) > 4 and (rows == columns or pixels)


_LARGEST = 1e18
"""The squares of smaller values are numbers in float32."""


def _require_classes(arrays: Arrays) -> None:
    largest = int(max(arrays.train_y.max(), arrays.test_y.max()))
    if largest == 0:
        raise FedreproError("train_y, test_y: all are of class 0; give two classes or more")
    if largest >= len(arrays.train_y):
        raise FedreproError(
            f"train_y, test_y: a class {largest}, of {len(arrays.train_y)} training examples; "
            f"{_NUMBER}"
        )
    absent = np.flatnonzero(np.bincount(arrays.train_y, minlength=largest + 1) == 0)
    if absent.size and absent[0] in arrays.test_y:
        raise FedreproError(
            f"train_y: no example of class {absent[0]}, which test_y has; train on some, or leave "
            "its test examples out"
        )
    if absent.size:
        raise FedreproError(
            f"train_y: no example of class {absent[0]}, and there is a class {largest}; {_NUMBER}"
        )


_NUMBER = (
    "number the classes of both from 0 without gaps: `y = numpy.unique(numpy.concatenate([train_y, "
    "test_y]), return_inverse=True)[1]`; its first len(train_y) are those of train_y"
)
"""Not each by itself: where one of them lacks a class, the numbers would not be the same."""


def _class_numbers(array: Labels, what: str) -> Labels:
    given = _array(array, what)
    if given.ndim != 1 or not np.issubdtype(given.dtype, np.integer):
        names = f"; {_NUMBER}" if given.ndim == 1 and given.dtype.kind in "bOU" else ""
        raise FedreproError(
            f"{what}: give class numbers, [n], not {given.dtype} {given.shape}{names}"
        )
    if not given.size or given.min() < 0 or given.max() > np.iinfo(np.int64).max:
        raise FedreproError(f"{what}: give class numbers from 0, at least one of them")
    return given.astype(np.int64)


def _described(arrays: Arrays, name: str, title: str) -> DatasetInfo:
    """Describe arrays; mean and standard deviation are those of the training examples."""
    classes = int(max(arrays.train_y.max(), arrays.test_y.max())) + 1
    scale = 255.0 if arrays.train_x.dtype == np.uint8 else 1.0
    means, spreads = (values / scale for values in _statistics(arrays.train_x))
    _, depth, height, breadth = arrays.train_x.shape
    return DatasetInfo(
        name=name,
        title=title or name,
        format="memory",
        shape=(depth, height, breadth),
        dtype="uint8" if arrays.train_x.dtype == np.uint8 else "float32",
        classes=classes,
        class_names=tuple(map(str, range(classes))),
        train=len(arrays.train_x),
        test=len(arrays.test_x),
        per_class=PerClass(
            train=tuple(np.bincount(arrays.train_y, minlength=classes).tolist()),
            test=tuple(np.bincount(arrays.test_y, minlength=classes).tolist()),
        ),
        mean=tuple(float(f"{value:.6g}") for value in means),
        std=tuple(float(f"{value or 1.0:.6g}") for value in spreads),
        licence="of the arrays' owner",
        citation="",
        homepage="",
    )


_BLOCK = 1 << 20
"""Values that are double precision at once: of all pixels this would take 8 times their room."""


def _statistics(x: Images) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean and standard deviation of each channel, float64 [channels] each."""
    step, count = max(1, _BLOCK // x[0].size), x.size // x.shape[1]
    blocks = [x[first : first + step] for first in range(0, len(x), step)]
    means = np.sum([block.sum((0, 2, 3), dtype=np.float64) for block in blocks], axis=0) / count
    centres = means[:, None, None]
    squares = np.sum([((block - centres) ** 2).sum((0, 2, 3)) for block in blocks], axis=0)
    return means, np.sqrt(squares / count)


@dataclass(frozen=True)
class Arrays:
    """What a reader returns, not yet checked.

    Attributes:
        train_x: as in :class:`Dataset`, as are the other arrays.
        remark: what the data set's note must say besides.
    """

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
        read: returns its arrays; raises FedreproError if it cannot.
    """

    info: DatasetInfo
    read: Callable[[], Arrays]


def content_sha256(arrays: Arrays | Dataset) -> str:
    """Return the SHA-256, hexadecimal, of name, dtype, shape and values of the four arrays.

    The images are hashed in the order [n, height, width, channels], the order in which hashes of
    decoded image data are commonly published, so that a published hash of the pixels is enough to
    know the content hash of the official data.
    """
    names = ("train_x", "train_y", "test_x", "test_y")
    return _sha256({name: getattr(arrays, name) for name in names})


def labels_sha256(train_y: Labels, test_y: Labels) -> str:
    """Return the SHA-256, hexadecimal, of the labels alone, int64 [n] each, hashed likewise."""
    return _sha256({"train_y": train_y, "test_y": test_y})


def _sha256(arrays: Mapping[str, NDArray[Any]]) -> str:
    digest = hashlib.sha256()
    for name, array in arrays.items():
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
            if ``info.counts`` is "unverified", a class has no examples. Or the examples are empty:
            all values alike, or some not finite.
    """
    check_labels(info, arrays.train_y, arrays.test_y, where)
    for split, y, x in (
        ("training", arrays.train_y, arrays.train_x),
        ("test", arrays.test_y, arrays.test_x),
    ):
        shape = (len(y), *info.shape)
        _require(info, where, f"{split} data", (x.dtype.name, x.shape), (info.dtype, shape))
        lowest, highest = x.min(), x.max()
        if not np.isfinite([lowest, highest]).all():
            _refuse(info, where, f"{split} data with values that are not finite", "numbers")
        if lowest == highest:
            _refuse(info, where, f"{split} data that are {lowest} throughout", "examples")
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
        FedreproError: range, number or number per class is not as described; if ``info.counts`` is
            "unverified", a class has no examples.
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


def require_content(data: Dataset, where: str, content: str | None = None) -> None:
    """Refuse data that are not those that are meant.

    Args:
        data: the data set.
        where: folder or other origin, for the error text.
        content: hash of other data that are meant; `ANY` allows all; None: the description's.

    Raises:
        FedreproError: the data are others; or ``content`` is given and the data of the description
            are here.
    """
    if content == ANY:
        return
    if content is None and data.other:
        raise FedreproError(_other(data.name, where, f"content hash {data.sha256}"))
    if content is not None and content != data.sha256:
        raise FedreproError(
            f"Data set {data.name!r} from {where}: content hash {data.sha256}, and dataset.content "
            f"asks for {content}. Name the folder that holds those data, or ask for these."
        )
    if content is not None and not data.other:
        raise FedreproError(
            f"Data set {data.name!r}: dataset.content is that of the data its description means; "
            "leave it out, or equal runs would have two ids."
        )


def require_labels(info: DatasetInfo, train_y: Labels, test_y: Labels, where: str) -> None:
    """Refuse labels, int64 [n] each, that are not those of the data that are meant.

    Raises:
        FedreproError: they are others.
    """
    found = labels_sha256(train_y, test_y)
    if info.content.labels not in (None, found):
        raise FedreproError(_other(info.name, where, f"hash of the labels {found}"))


def _other(name: str, where: str, found: str) -> str:
    """Say that data are not those that the description means, and what to do."""
    expected = " or ".join(describe(name).content.known)
    return (
        f"Data set {name!r} from {where}: {found}; the data that are meant have the content "
        f"{expected}. These are other data, so numbers would not be comparable: replace them, or "
        "remove them to use another source. `fedrepro train --allow-other-data`, or in a program "
        "`fr.load(..., allow_other_data=True)`, takes them all the same; their runs have ids of "
        "their own."
    )


def _note(info: DatasetInfo, source: str, sha256: str) -> str:
    """Say how this content differs from the official data; "" where it does not."""
    if sha256 == info.content.official:
        return ""
    for copy in info.content.copies:
        if sha256 == copy.sha256:
            return copy.note
    if not info.knows(sha256, source):
        return f"Other data than those that are meant: content hash {sha256[:12]}..."
    if source == "pack":
        return (
            "Packed copy of unknown origin: no content hash of the official data is on record "
            "to compare it with."
        )
    return ""  # the official files' own checksums held, or there are none


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
