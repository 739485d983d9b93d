"""The keyword clips of Speech Commands v0.02: archive, split and features of ``kws_mfcc``.

`download` fetches the official archive, reads the clips of the ten words out of it and stores
their MFCC features (`fedrepro.fl.data.mfcc`) below ``data/raw``, as a pack of one file; the format
is in `fedrepro.fl.data.packs`. From then on the archive and librosa are not needed any more.

The archive is read only after its sha256 was found to be the official one, and even then nothing
of it is ever written to disk: clips are read from the stream one by one, so a name in it cannot
lead anywhere.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import io
import re
import tarfile
import warnings
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedrepro.base.errors import FedreproError
from fedrepro.fl.data import fetch, mfcc, official, packs
from fedrepro.fl.data.dataset import Arrays
from fedrepro.fl.data.registry import DatasetInfo

VALIDATION_PERCENT, TEST_PERCENT = 10.0, 10.0

BATCH = 256
"""Clips whose features are computed at once; the largest array is then about 50 MB."""

MAX_CLIP_BYTES = 1 << 20
"""Larger files, in bytes, are not read: no clip of one second is as large."""

Side = Literal["train", "validation", "test"]


@dataclass(frozen=True)
class Clip:
    """A recording.

    Attributes:
        word: its folder.
        name: its file name without ``.wav``.
        samples: at 16 kHz, int16 [samples].
    """

    word: str
    name: str
    samples: mfcc.Clips


def files(info: DatasetInfo, raw: Path) -> tuple[Path, ...]:
    """Return the file of stored features below ``raw``; empty if it is missing.

    Raises:
        FedreproError: as :func:`.packs.has`.
    """
    folder, names = _stored(info, raw)
    return tuple(folder / name for name in names) if packs.has(folder, names) else ()


def read(info: DatasetInfo, raw: Path) -> Arrays:
    """Read the stored features below ``raw``.

    Raises:
        FedreproError: the file is missing, corrupt or of another format.
    """
    return packs.read(info, _stored(info, raw)[0])


def download(info: DatasetInfo, raw: Path) -> None:
    """Fetch the archive, unless it lies in ``raw`` already, and store the features of its clips.

    Raises:
        FedreproError: no address worked, the archive is not as published, or no space is left.
    """
    archive = _fetch(info, raw)
    arrays = features(archive, info.class_names)
    folder, (name,) = _stored(info, raw)
    packs.publish(
        folder, {name: lambda path: np.savez_compressed(path, allow_pickle=False, **arrays)}
    )


def side(name: str) -> Side:
    """Return the side of the official split that a clip is on.

    The data set's own rule: SHA-1 of the speaker, which is the file name before ``_nohash_``, as a
    number modulo 2^27, scaled to 0-100. Below 10: validation; below 20: test; else training. So
    all clips of a speaker, repetitions included, are on one side.
    """
    speaker = name.split("_nohash_")[0]
    number = int(hashlib.sha1(speaker.encode(), usedforsecurity=False).hexdigest(), 16)
    percent = number % 2**27 * (100.0 / (2**27 - 1))
    if percent < VALIDATION_PERCENT:
        return "validation"
    return "test" if percent < VALIDATION_PERCENT + TEST_PERCENT else "train"


def features(archive: Path, words: tuple[str, ...]) -> dict[str, NDArray[np.generic]]:
    """Compute what is stored of an archive: the features of its training and test clips.

    Clips are ordered by word, then by file name, whatever the order in the archive. Validation
    clips are left out: Zhao et al. 2018 mention none. So are training clips with the very samples
    of a test clip: they were recorded under another speaker's name, which the split cannot know.

    Args:
        archive: a tar file, gzipped; a clip is at ``<word>/<speaker>_nohash_<number>.wav``.
        words: the folders to read; their positions are the labels.

    Returns:
        The arrays of the file, see `fedrepro.fl.data.packs`.

    Raises:
        FedreproError: a word has no clips on a side, or the archive cannot be read.
    """
    found: list[tuple[int, str, bytes]] = []
    parts, batch = [], []
    for clip in clips(archive, words):
        if side(clip.name) == "validation":
            continue
        fitted = mfcc.fit_length(clip.samples)
        found.append((words.index(clip.word), clip.name, hashlib.sha256(fitted.data).digest()))
        batch.append(fitted)
        if len(batch) == BATCH:
            parts.append(_steps(batch))
            batch = []
    if batch:
        parts.append(_steps(batch))
    order = sorted(range(len(found)), key=lambda i: found[i])
    test = [i for i in order if side(found[i][1]) == "test"]
    heard = {found[i][2] for i in test}
    train = [i for i in order if side(found[i][1]) == "train"]
    kept = [i for i in train if found[i][2] not in heard]
    labels = [np.array([found[i][0] for i in rows], np.uint8) for rows in (kept, test)]
    for y, what in zip(labels, ("training", "test"), strict=True):
        missing = [word for label, word in enumerate(words) if label not in y]
        if missing:
            raise FedreproError(f"{archive} holds no {what} clips of {missing}. {_AGAIN}")
    steps = np.concatenate(parts)
    return {
        "x_train": steps[kept],
        "y_train": labels[0],
        "x_test": steps[test],
        "y_test": labels[1],
        "names": np.array(words),
        "left_out": np.array(len(train) - len(kept)),
        "made_with": np.array(f"librosa {importlib.metadata.version('librosa')}"),
    }


def clips(archive: Path, words: tuple[str, ...]) -> Iterator[Clip]:
    """Read the clips of these words from a tar file, one by one, in its order.

    Everything else in the archive is passed over.

    Yields:
        The clips of all sides, at full length.

    Raises:
        FedreproError: the archive is broken, or a clip of these words is not a plain file, too
            large, there twice, or no recording.
    """
    pattern = re.compile(rf"(?:\./)?({'|'.join(words)})/([0-9A-Za-z]+_nohash_[0-9]+)\.wav")
    seen = set()
    try:
        with tarfile.open(archive, "r|gz") as tar:
            for member in tar:
                match = pattern.fullmatch(member.name)
                if match is None:
                    continue
                where = f"{archive}: {member.name!r}"
                content = tar.extractfile(member) if member.isreg() else None
                if content is None:
                    raise FedreproError(f"{where} is not a plain file. {_AGAIN}")
                if member.size > MAX_CLIP_BYTES:
                    raise FedreproError(
                        f"{where} has {member.size:,} bytes, more than a recording of one second "
                        f"needs. {_AGAIN}"
                    )
                if match.groups() in seen:
                    raise FedreproError(f"{where} is there twice. {_AGAIN}")
                seen.add(match.groups())
                yield Clip(match[1], match[2], decode(content.read(), where))
    except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
        raise FedreproError(f"{archive} cannot be read: {error}. {_AGAIN}") from None


def decode(content: bytes, where: str) -> mfcc.Clips:
    """Decode a wav file of the data set: 16-bit, one channel, 16 kHz.

    Returns:
        int16 [samples].

    Raises:
        FedreproError: it is no such file.
    """
    from scipy.io import wavfile

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", wavfile.WavFileWarning)  # unknown chunks
            rate, samples = wavfile.read(io.BytesIO(content))
    except Exception as error:  # a broken file can raise anything
        raise FedreproError(f"{where} is not a wav file: {error}. {_AGAIN}") from None
    found = (rate, samples.dtype.name, samples.ndim)
    if found != (mfcc.RATE, "int16", 1) or not len(samples):
        raise FedreproError(
            f"{where} holds {samples.dtype} {samples.shape} samples at {rate} Hz, not int16 of one "
            f"channel at {mfcc.RATE} Hz. {_AGAIN}"
        )
    clip: mfcc.Clips = samples
    return clip


_AGAIN = "Delete the archive and run again to download it."


def _stored(info: DatasetInfo, raw: Path) -> tuple[Path, tuple[str, ...]]:
    """Return the folder of the stored features below ``raw``, and the names of their files."""
    assert info.official is not None  # as of its format
    assert info.pack is not None
    return raw / info.official.folder, info.pack.files


def _fetch(info: DatasetInfo, raw: Path) -> Path:
    """Return the path of the official archive in ``raw``, after downloading it if need be."""
    assert info.official is not None
    archive = info.official.archives[0]
    try:
        path = official.at_hand(info.official, archive, raw)
        if path is None:
            path = raw / archive.file
            official.get(info.official, archive, path, raw)
        return path
    except fetch.DownloadError as error:
        raise official.no_download(info, error.failures, raw) from None
    except OSError as error:
        raise fetch.not_written(raw, error) from None


def _steps(batch: list[mfcc.Clips]) -> NDArray[np.int32]:
    """Compute features in steps: int32 [n, 50, 10]."""
    return mfcc.in_steps(mfcc.mfcc_50x10(np.stack(batch)))
