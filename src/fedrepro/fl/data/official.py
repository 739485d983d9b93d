"""The official files of MNIST and CIFAR: download and read.

They lie below ``data/raw`` as torchvision lays them out: ``MNIST/raw/train-images-idx3-ubyte``
(or the same with ``.gz``), ``cifar-10-batches-py/data_batch_1``, ``cifar-100-python/train``.

Unpacking is torchvision's work. Reading is not: both formats are simple, and reading them here
needs no torch and works on small files, too. A CIFAR batch is a pickle, which can run any code
when it is loaded. So it is read only after its md5 was found to be the official one, and even then
with an unpickler that knows nothing but NumPy arrays.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import pickle
import tarfile
import tempfile
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from fedrepro.base.errors import FedreproError
from fedrepro.fl.data import fetch, packs
from fedrepro.fl.data.dataset import Arrays, Labels
from fedrepro.fl.data.registry import Archive, DatasetInfo, Official, RawFile

NDArrayU8 = NDArray[np.uint8]


def files(info: DatasetInfo, raw: Path) -> tuple[Path, ...]:
    """Return the official files below ``raw``; empty if one is missing."""
    if info.official is None:
        return ()
    found = [_find(info.official, raw, file) for file in info.official.train + info.official.test]
    return tuple(path for path in found if path) if all(found) else ()


def read(info: DatasetInfo, raw: Path) -> Arrays:
    """Read the official files below ``raw``, each only if its checksum is the official one.

    Raises:
        FedreproError: a file is missing, has another checksum or cannot be read.
    """
    official = _official(info)
    train = [_checked(official, raw, file) for file in official.train]
    test = [_checked(official, raw, file) for file in official.test]
    if info.format == "mnist":
        sides = [_read_mnist(paths) for paths in (train, test)]
    else:
        sides = [_read_cifar(paths) for paths in (train, test)]
    return Arrays(*sides[0], *sides[1])


def read_mnist_labels(info: DatasetInfo, raw: Path) -> tuple[Labels, Labels]:
    """Read only the label files of MNIST: int64 [n] of the training and of the test split.

    Raises:
        FedreproError: as :func:`read`.
    """
    official = _official(info)
    train, test = (
        read_idx(_checked(official, raw, side[1])).astype(np.int64)
        for side in (official.train, official.test)
    )
    return train, test


def read_idx(path: Path) -> NDArrayU8:
    """Read an idx file of unsigned bytes, gzipped if its name ends in ``.gz``.

    The format: two zero bytes, the type (8 for unsigned byte), the number of axes, the size of
    each axis as big-endian 32-bit integer, then the values.

    Returns:
        A uint8 array of the shape that the file states.

    Raises:
        FedreproError: it is not such a file, or is shorter or longer than it states.
    """
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            content = stream.read()
    except (OSError, EOFError, zlib.error) as error:
        raise FedreproError(f"{path} cannot be read: {error}. {_AGAIN}") from None
    if len(content) < 4 or content[:3] != b"\x00\x00\x08":
        raise FedreproError(f"{path} is not an idx file of unsigned bytes. {_OTHER}")
    start = 4 + 4 * content[3]
    shape = tuple(int.from_bytes(content[at : at + 4], "big") for at in range(4, start, 4))
    size = int(np.prod(shape, dtype=np.int64))
    if len(content) != start + size:
        raise FedreproError(
            f"{path} has {len(content)} bytes, but its header, {shape}, needs {start + size}. "
            f"{_OTHER}"
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape).copy()


def read_cifar_batch(path: Path) -> tuple[NDArrayU8, Labels]:
    """Read a file of CIFAR-10 or CIFAR-100 "python version", without running its code.

    Returns:
        Images, uint8 [n, 3, 32, 32]; labels (of CIFAR-100 the fine ones), int64 [n].

    Raises:
        FedreproError: it is not such a file, or asks for anything but NumPy arrays.
    """  # noqa: DOC501 - caught below
    try:
        with path.open("rb") as stream:
            batch = _ArrayUnpickler(stream, encoding="latin1").load()
        labels = batch["labels"] if "labels" in batch else batch["fine_labels"]
        images = np.asarray(batch["data"])
        if images.dtype != np.uint8 or images.shape != (len(labels), 3 * 32 * 32):
            raise ValueError(
                f"its images are {images.dtype} {images.shape} for {len(labels)} labels"
            )
        return images.reshape(-1, 3, 32, 32), np.array(labels, dtype=np.int64)
    except MemoryError:
        raise
    except Exception as error:  # a broken pickle can raise anything
        raise FedreproError(f"{path} is not a CIFAR batch: {error}. {_OTHER}") from None


def download(info: DatasetInfo, raw: Path) -> None:
    """Download the official files to where `read` finds them, and unpack them there.

    This happens in a temporary folder beside; only whole files are then moved into place. An
    archive that was put there by hand is used instead if it is the official one.

    Raises:
        FedreproError: no address worked, or ``raw`` cannot be written. The message says what to put
            where by hand.
    """  # noqa: DOC501 - made by a function
    from torchvision.datasets.utils import extract_archive

    official = _official(info)
    folder = raw / official.folder
    by_hand = folder if info.format == "mnist" else raw
    try:
        raw.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=fetch.PARTIAL, dir=raw) as partial:
            unpacked = Path(partial, official.folder)
            target = unpacked if info.format == "mnist" else Path(partial)
            target.mkdir(parents=True, exist_ok=True)
            for each in official.archives:
                archive = at_hand(official, each, raw) or Path(partial, each.file)
                if not archive.exists():
                    get(official, each, archive, raw)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # how torchvision untars
                    extract_archive(str(archive), str(target))
            _move_files(unpacked, folder)
    except fetch.DownloadError as error:
        raise no_download(info, error.failures, by_hand) from None
    except _UNPACK_ERRORS as error:
        raise fetch.not_written(raw, error) from None


def at_hand(official: Official, archive: Archive, raw: Path) -> Path | None:
    """Return the path of an official archive that lies below ``raw``; None if there is none."""
    for path in (raw / archive.file, raw / official.folder / archive.file):
        if path.is_file() and packs.file_sha256(path) == archive.sha256:
            return path
    return None


def get(official: Official, archive: Archive, target: Path, raw: Path) -> None:
    """Download an official archive; a part of it waits in ``raw`` for the next attempt.

    Raises:
        DownloadError: no address gave it.
        OSError: it cannot be written.
    """
    urls = [base + archive.file for base in official.urls]
    try:
        fetch.fetch(urls, target, size=archive.bytes, sha256=archive.sha256, parts=raw)
    except fetch.DownloadError as error:
        there = [raw / archive.file, raw / official.folder / archive.file]
        others = [
            f"  {path}: there, but its sha256 is not {archive.sha256}"
            for path in there
            if path.is_file()
        ]
        raise fetch.DownloadError([*error.failures, *others]) from None


def no_download(info: DatasetInfo, failures: list[str], folder: Path) -> FedreproError:
    """Return the error of a download that failed.

    Args:
        info: the data set.
        failures: what went wrong, a line each.
        folder: where its archives can be put by hand.
    """
    official = _official(info)
    names = ", ".join(archive.file for archive in official.archives)
    return FedreproError(
        f"Could not download data set {info.name!r}:\n"
        + "\n".join(failures)
        + f"\nWithout internet: put {names} (from {official.urls[0]}) into {folder}; or set "
        "FEDREPRO_DATA to a folder written by `fedrepro data pack`; or run "
        "`fedrepro data import FOLDER` on such a folder."
    )


_AGAIN = "Delete it and run again to download it."
_OTHER = (
    "Its checksum is as described, so the data set's description names another format or file: "
    "correct that."
)

_UNPACK_ERRORS = (OSError, RuntimeError, EOFError, zlib.error, tarfile.TarError)


class _ArrayUnpickler(pickle.Unpickler):
    """An unpickler that can make NumPy arrays and plain Python values, nothing else.

    For anything else :meth:`find_class` raises a pickle.UnpicklingError.
    """

    def find_class(self, module: str, name: str) -> Any:
        """Return one of the things an array is made of; refuse everything else."""
        allowed: dict[tuple[str, str], Callable[..., Any]] = {
            ("numpy", "ndarray"): np.ndarray,
            ("numpy", "dtype"): _make_dtype,
            ("numpy.core.multiarray", "_reconstruct"): _reconstruct_array,
            ("numpy._core.multiarray", "_reconstruct"): _reconstruct_array,
        }
        if (module, name) not in allowed:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no image file needs")
        return allowed[module, name]


_reconstruct_array = cast("Callable[..., Any]", np.empty(0).__reduce__()[0])


def _make_dtype(name: str, align: int = 0, copy: int = 0) -> np.dtype[Any]:
    """Make a dtype as pickles of old NumPy versions ask for it, with numbers for booleans."""
    return np.dtype(name, bool(align), bool(copy))


def _official(info: DatasetInfo) -> Official:
    if info.official is None:
        raise FedreproError(
            f"Data set {info.name!r} has no official files that could be read or downloaded: it "
            "comes only in a pack. Set FEDREPRO_DATA to a folder that holds it "
            f"({', '.join(info.pack.files) if info.pack else 'no files'}), or run `fedrepro data "
            "import FOLDER`."
        )
    return info.official


def _find(official: Official, raw: Path, file: RawFile) -> Path | None:
    """Return the file below ``raw``, or its gzipped form if that is how it is published."""
    plain = raw / official.folder / file.file
    packed = plain.with_name(plain.name + ".gz")
    if plain.is_file():
        return plain
    published = {archive.file for archive in official.archives}
    return packed if packed.name in published and packed.is_file() else None


def _checked(official: Official, raw: Path, file: RawFile) -> Path:
    """Return the path of a file whose md5 is the official one."""
    path = _find(official, raw, file)
    if path is None:
        raise FedreproError(
            f"{raw / official.folder / file.file} is missing. Run again to download it, or put "
            "it there by hand."
        )
    archives = {archive.file: archive.md5 for archive in official.archives}
    expected = archives.get(path.name, file.md5)
    try:
        with path.open("rb") as stream:
            found = hashlib.file_digest(stream, _md5).hexdigest()
    except OSError as error:
        raise FedreproError(f"{path} cannot be read: {error.strerror or error}. {_AGAIN}") from None
    if found != expected:
        raise FedreproError(f"{path} is corrupt: its md5 is {found}, expected {expected}. {_AGAIN}")
    return path


def _md5() -> Any:
    return hashlib.md5(usedforsecurity=False)


def _read_mnist(paths: list[Path]) -> tuple[NDArrayU8, Labels]:
    """Read images and labels: uint8 [n, 1, 28, 28], int64 [n]."""
    images, labels = (read_idx(path) for path in paths)
    return images[:, None], labels.astype(np.int64)


def _read_cifar(paths: list[Path]) -> tuple[NDArrayU8, Labels]:
    """Read batches, one after the other: uint8 [n, 3, 32, 32], int64 [n]."""
    batches = [read_cifar_batch(path) for path in paths]
    return np.concatenate([x for x, _ in batches]), np.concatenate([y for _, y in batches])


def _move_files(source: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for path in sorted(source.iterdir()):
        os.replace(path, target / path.name)
