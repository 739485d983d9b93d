"""Packs: folders of ``.npz`` files that carry the data sets to machines without internet.

A pack holds a file ``SHA256SUMS`` (lines of ``<sha256>  <file name>``, as the tool of that name
writes and checks them) and any of the files below. No array holds pickled objects. A file that
``SHA256SUMS`` does not list, or lists with another hash, is not read.

``mnist.npz``
    ``x_train``, ``x_test`` uint8 [n, 28, 28]; ``y_train``, ``y_test`` uint8 [n].
``cifar10_train_a.npz``, ``cifar10_train_b.npz``, ``cifar10_test.npz``, ``cifar100_...``
    Training images 0-24,999, training images 25,000-49,999, test images. ``sheet000``, ... uint8:
    each one lossless WebP file of up to 500 images stacked vertically (width 32, RGB); ``y`` uint8
    [n] (of CIFAR-100 the fine labels); ``step``: what the decoded pixels are multiplied by, 1
    where they are exact; ``names``. Not read, for other users: ``first``, the index of the first
    image, and ``lossy_idx``, the images that are decoded JPEG (CIFAR-10); ``coarse_names`` and
    ``fine_to_coarse`` (CIFAR-100).
``speech_commands_mfcc.npz``
    ``x`` int16 [n, 20, 11], features times ``scale`` (float32); ``y`` uint8 [n]; ``names``;
    ``dup_of`` int32 [n], the first clip with the same features.
``kws_mfcc.npz``
    ``x_train``, ``x_test`` int32 [n, 50 frames, 10 coefficients], MFCC features times 1,024, not
    standardised; ``y_train``, ``y_test`` uint8 [n]; ``names``; ``left_out``: training clips left
    out because a test clip has the same samples; ``made_with``: librosa's version.
``cadis_index.npz``
    The CADIS authors' client lists; see `fedrepro.fl.data.cadis`. It is read only if every list
    asked for has the hash in ``cadis_index.yaml``.

`publish` makes a change to a pack all-or-nothing: files are written under temporary names, and
``SHA256SUMS``, written last, is what makes them part of the pack.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import io
import math
import os
import re
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrepro.base.errors import FedreproError
from fedrepro.fl.data import fetch, mfcc, npz
from fedrepro.fl.data.dataset import Arrays, Dataset, Labels
from fedrepro.fl.data.registry import DatasetInfo, PackFiles

SUMS = "SHA256SUMS"
MOST_SUMS_BYTES = 1 << 20
"""Largest file of checksums."""

_COPY = "Copy the pack again from where it came from, or run `fedrepro data import` on a whole one."

SHEET_IMAGES = 500
"""Images per WebP sheet: 16,000 pixels high, below the format's limit of 16,383."""


def has(folder: Path, files: tuple[str, ...]) -> bool:
    """Return whether the pack ``folder`` holds these files: all of them, or none.

    Raises:
        FedreproError: it holds only some of them, or one that `SUMS` does not list.
    """
    listed = sums(folder)
    there = [file for file in files if (folder / file).is_file()]
    for file in there:
        if file not in listed:
            raise FedreproError(
                f"{folder / file} is not listed in {folder / SUMS}, so it cannot be trusted to be "
                "whole: import it again with `fedrepro data import`, or remove it."
            )
    known = [file for file in files if file in listed]
    for file in files:
        if (there or known) and file not in there:
            raise FedreproError(
                f"{folder / file} is missing, but the pack holds or lists other files of its data "
                f"set ({', '.join(files)}): copy the pack again, or run `fedrepro data import` on "
                "a whole one."
            )
    return bool(there)


def sums(folder: Path) -> dict[str, str]:
    """Read `SUMS` of a pack: file name -> sha256; empty if there is no such file.

    Raises:
        FedreproError: it cannot be read, is too large, or a line of it is not
            ``<sha256>  <file name>``.
    """
    try:
        status = (folder / SUMS).stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_SUMS_BYTES:
            raise FedreproError(f"{folder / SUMS} is no file of checksums, or too large. {_COPY}")
        lines = (folder / SUMS).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise FedreproError(f"{folder / SUMS} cannot be read: {error}. {_COPY}") from None
    found = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        match = re.fullmatch(r"([0-9a-f]{64}) [ *]([A-Za-z0-9_][A-Za-z0-9_.-]*)", line)
        if match is None:
            raise FedreproError(
                f"{folder / SUMS}, line {number} is not '<sha256>  <file name>': {line[:100]!r}. "
                f"{_COPY}"
            )
        found[match[2]] = match[1]
    return found


def file_sha256(path: Path) -> str:
    """Return a file's SHA-256, hexadecimal; a file of the same size and time is hashed once."""
    status = path.stat()
    return _file_sha256(path.resolve(), status.st_size, status.st_mtime_ns)


def checked(folder: Path, file: str) -> Path:
    """Return the path of a file of a pack after checking its hash.

    Raises:
        FedreproError: it is missing, not listed or corrupt.
    """
    path = folder / file
    expected = sums(folder).get(file)
    if expected is None:
        raise FedreproError(f"{folder / SUMS} does not list {file}: it is not part of the pack.")
    if not path.is_file():
        raise FedreproError(f"{path} is missing, but {folder / SUMS} lists it: copy it again.")
    try:
        found = file_sha256(path)
    except OSError as error:
        reason = error.strerror or error
        raise FedreproError(f"{path} cannot be read: {reason}. {_COPY}") from None
    if found != expected:
        raise FedreproError(
            f"{path} is corrupt: its sha256 is {found}, but {SUMS} lists {expected}. {_COPY}"
        )
    return path


def most_bytes(info: DatasetInfo) -> int:
    """Return how many bytes a file of a data set has at most, packed or unpacked.

    That is 8 bytes for every value, label and group of all its examples, and 1 MB for the rest.
    """
    return 8 * (info.train + info.test) * (math.prod(info.shape) + 2) + 2**20


def read(info: DatasetInfo, folder: Path) -> Arrays:
    """Read a data set from a pack.

    Raises:
        FedreproError: a file is missing, corrupt or not of the format above.
    """
    pack = _pack(info)
    if info.format == "mnist":
        with opened(folder, pack.train[0], most_bytes(info)) as arrays:
            return Arrays(
                arrays["x_train"][:, None],
                _labels(arrays["y_train"]),
                arrays["x_test"][:, None],
                _labels(arrays["y_test"]),
            )
    if info.format == "keywords":
        with opened(folder, pack.train[0], most_bytes(info)) as arrays:
            x = (arrays["x"].astype(np.float32) / np.float32(arrays["scale"]))[:, None]
            y, test = _labels(arrays["y"]), keyword_test_mask(arrays["dup_of"])
            return Arrays(x[~test], y[~test], x[test], y[test])
    if info.format == "speech_commands":
        with opened(folder, pack.train[0], most_bytes(info)) as arrays:
            return _read_clip_features(info, arrays)
    train = [_read_sheets(info, folder, file) for file in pack.train]
    test_sheets = [_read_sheets(info, folder, file) for file in pack.test]
    return Arrays(
        np.concatenate([x for x, _ in train]),
        np.concatenate([y for _, y in train]),
        np.concatenate([x for x, _ in test_sheets]),
        np.concatenate([y for _, y in test_sheets]),
    )


def read_labels(info: DatasetInfo, folder: Path) -> tuple[Labels, Labels]:
    """Read only the labels of a data set: int64 [n] of the training and of the test split.

    Raises:
        FedreproError: as :func:`read`.
    """
    pack = _pack(info)
    if info.format in ("mnist", "speech_commands"):
        with opened(folder, pack.train[0], most_bytes(info)) as arrays:
            return _labels(arrays["y_train"]), _labels(arrays["y_test"])
    if info.format == "keywords":
        with opened(folder, pack.train[0], most_bytes(info)) as arrays:
            y, test = _labels(arrays["y"]), keyword_test_mask(arrays["dup_of"])
            return y[~test], y[test]
    sides = []
    for files in (pack.train, pack.test):
        parts = []
        for file in files:
            with opened(folder, file, most_bytes(info)) as arrays:
                parts.append(_labels(arrays["y"]))
        sides.append(np.concatenate(parts))
    return sides[0], sides[1]


def keyword_test_mask(dup_of: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
    """Choose the test clips of the keyword features, whose official split is lost.

    A clip is a test clip when the first eight bytes of the sha256 of "kws_mfcc20/<group>", as
    big-endian integer, are a multiple of five, where the group is ``dup_of``: the index of the
    first clip with the same features. So about 20 % are, nothing else decides, and equal clips
    stay on one side. Not stratified: test shares of the ten words are 0.19 to 0.21.

    Args:
        dup_of: integer [n].

    Returns:
        bool [n], true for test clips.

    Raises:
        ValueError: ``dup_of`` is not of integers.
    """
    if not np.issubdtype(dup_of.dtype, np.integer):
        raise ValueError(f"dup_of is {dup_of.dtype}, not integer")
    digests = (hashlib.sha256(f"kws_mfcc20/{group}".encode()).digest() for group in dup_of.tolist())
    return np.array([int.from_bytes(digest[:8], "big") % 5 == 0 for digest in digests])


def writers(info: DatasetInfo, data: Dataset) -> dict[str, Callable[[Path], None]]:
    """Return, for each pack file of an image data set, the function that writes it at a path.

    Raises:
        FedreproError: the data set is not one of images, or has no files in a pack.
    """
    pack = _pack(info)
    if info.format == "mnist":
        return {pack.train[0]: lambda path: _write_mnist(path, data)}
    if info.format != "cifar":
        raise FedreproError(
            f"Data set {info.name!r} can be packed only by copying it from another pack."
        )
    result: dict[str, Callable[[Path], None]] = {}
    for files, x, y in (
        (pack.train, data.train_x, data.train_y),
        (pack.test, data.test_x, data.test_y),
    ):
        ends = [len(y) * (part + 1) // len(files) for part in range(len(files))]
        for file, start, end in zip(files, [0, *ends], ends, strict=False):
            result[file] = _sheet_writer(info, x[start:end].astype(np.uint8), y[start:end], start)
    return result


def publish(
    target: Path,
    new: Mapping[str, Callable[[Path], None]],
    expected: Mapping[str, str] | None = None,
) -> None:
    """Add files to a pack so that a failure at any moment leaves no half-written pack.

    Files are written under temporary names. Entries of files that change leave `SUMS` first, then
    the files move into place, then `SUMS` gains the new entries: until that moment a reader
    refuses them. Processes that add to one pack at once do so in turn.

    Args:
        target: the pack; made if it is not there.
        new: for each file name, the function that writes the file at a path.
        expected: sha256 that a written file must have.

    Raises:
        FedreproError: a file came out with another hash (a bad copy), or cannot be written.
    """
    made = not target.exists()
    try:
        target.mkdir(parents=True, exist_ok=True)
        fetch.sweep(target)
        with tempfile.TemporaryDirectory(prefix=fetch.PARTIAL, dir=target) as partial:
            hashes = {}
            for file, write in new.items():
                path = Path(partial, file)
                write(path)
                hashes[file] = file_sha256(path)
                wanted = (expected or {}).get(file, hashes[file])
                if hashes[file] != wanted:
                    raise FedreproError(
                        f"{file} came out with sha256 {hashes[file]}, expected {wanted}: the disk "
                        f"below {target} or the copy is bad. Nothing was changed."
                    )
            with _alone(target):
                listed = sums(target)
                unchanged = {
                    file: value
                    for file, value in listed.items()
                    if hashes.get(file, value) == value
                }
                if unchanged != listed:
                    _write_sums(target, Path(partial), unchanged)
                for file in new:
                    os.replace(Path(partial, file), target / file)
                _write_sums(target, Path(partial), unchanged | hashes)
    except BaseException as error:
        if made and target.is_dir() and not any(target.iterdir()):
            target.rmdir()
        if isinstance(error, OSError):
            raise FedreproError(
                f"Cannot write the pack {target}: {error.strerror or error}. Make room there or "
                "choose another folder, then run the same command again."
            ) from None
        raise


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Let no other process change a pack meanwhile, where the file system can lock a folder."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def opened(
    folder: Path, file: str, most: int = npz.MOST_BYTES
) -> Iterator[Mapping[str, NDArray[Any]]]:
    """Open a file of a pack after checking its hash.

    Args:
        folder: the pack.
        file: name of the file.
        most: bytes that it has at most, packed or unpacked.

    Yields:
        Its arrays by name.

    Raises:
        FedreproError: as :func:`checked` and :func:`fedrepro.fl.data.npz.opened`.
    """
    path = checked(folder, file)
    try:
        with npz.opened(path, most) as arrays:
            yield arrays
    except npz.WrongFormat as error:
        raise FedreproError(
            f"{path} is not of the pack format, though its hash is as listed: "
            f"{str(error).removeprefix(f'{path}: ')}. Write the pack again with `fedrepro data "
            "pack`."
        ) from None


@lru_cache(maxsize=256)
def _file_sha256(path: Path, size: int, mtime_ns: int) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _pack(info: DatasetInfo) -> PackFiles:
    if info.pack is None:
        raise FedreproError(f"Data set {info.name!r} has no pack files: it is made, not read.")
    return info.pack


def _labels(values: NDArray[np.generic]) -> Labels:
    if not np.issubdtype(values.dtype, np.integer) or values.ndim != 1:
        raise ValueError(f"labels are {values.dtype} {list(values.shape)}, not integers [n]")
    return values.astype(np.int64)


def _read_clip_features(info: DatasetInfo, arrays: Mapping[str, NDArray[Any]]) -> Arrays:
    """Standardise the features of spoken words: float32 [n, 1, 50, 10]."""
    if arrays["names"].tolist() != list(info.class_names):
        raise ValueError(f"its words are {arrays['names'].tolist()}")
    steps = [arrays["x_train"], arrays["x_test"]]
    if any(x.dtype != np.int32 or x.ndim != 3 for x in steps):
        raise ValueError("its features are not int32 of three axes")
    train, test = mfcc.standardised(*steps)
    return Arrays(
        train[:, None],
        _labels(arrays["y_train"]),
        test[:, None],
        _labels(arrays["y_test"]),
        f"Features made with {arrays['made_with']}; {arrays['left_out']} training clips left out "
        "because a test clip has the same samples.",
    )


def _read_sheets(info: DatasetInfo, folder: Path, file: str) -> tuple[NDArray[np.uint8], Labels]:
    """Decode a CIFAR file: uint8 [n, 3, 32, 32], int64 [n]."""
    from PIL import Image  # only CIFAR packs need it

    with opened(folder, file, most_bytes(info)) as arrays:
        keys = sorted(key for key in arrays if key.startswith("sheet"))
        if len(keys) > info.train + info.test:
            raise ValueError(f"it has {len(keys)} sheets")
        sheets = []
        for key in keys:
            try:
                image = Image.open(io.BytesIO(arrays[key].tobytes()), formats=["WEBP"])
            except Image.DecompressionBombError as error:
                raise ValueError(f"{key}: {error}") from None
            if image.width != 32 or image.height > 32 * SHEET_IMAGES:
                raise ValueError(f"{key} is {image.width} x {image.height} pixels large")
            sheets.append(np.asarray(image.convert("RGB")).reshape(-1, 32, 32, 3))
            if sum(map(len, sheets)) > info.train + info.test:
                raise ValueError("it has more images than the data set")
        x = np.concatenate(sheets) * np.uint8(arrays["step"])
        return np.ascontiguousarray(x.transpose(0, 3, 1, 2)), _labels(arrays["y"])


def _write_mnist(path: Path, data: Dataset) -> None:
    np.savez_compressed(
        path,
        x_train=data.train_x[:, 0],
        y_train=data.train_y.astype(np.uint8),
        x_test=data.test_x[:, 0],
        y_test=data.test_y.astype(np.uint8),
    )


def _sheet_writer(
    info: DatasetInfo, x: NDArray[np.uint8], y: Labels, first: int
) -> Callable[[Path], None]:
    """Return a function that writes images (uint8 [n, 3, 32, 32]) as a CIFAR file."""
    from PIL import Image

    def write(path: Path) -> None:
        arrays: dict[str, NDArray[np.generic]] = {
            "y": y.astype(np.uint8),
            "step": np.array(1),
            "names": np.array(info.class_names),
        }
        if info.superclasses:
            coarse = {
                name: index
                for index, names in enumerate(info.superclasses.values())
                for name in names
            }
            arrays["coarse_names"] = np.array(list(info.superclasses))
            arrays["fine_to_coarse"] = np.array(
                [coarse[name] for name in info.class_names], dtype=np.uint8
            )
        else:
            arrays["first"] = np.array(first)
            arrays["lossy_idx"] = np.array([], dtype=np.int64)
        for number, start in enumerate(range(0, len(x), SHEET_IMAGES)):
            sheet = x[start : start + SHEET_IMAGES].transpose(0, 2, 3, 1).reshape(-1, 32, 3)
            stream = io.BytesIO()
            Image.fromarray(sheet).save(
                stream, "WEBP", lossless=True, exact=True, method=5, quality=75
            )
            arrays[f"sheet{number:03d}"] = np.frombuffer(stream.getvalue(), np.uint8)
        np.savez(path, allow_pickle=False, **arrays)

    return write


def _write_sums(target: Path, partial: Path, hashes: Mapping[str, str]) -> None:
    """Replace `SUMS` in one step."""
    path = partial / SUMS
    path.write_text("".join(f"{hashes[file]}  {file}\n" for file in sorted(hashes)), "utf-8")
    os.replace(path, target / SUMS)
