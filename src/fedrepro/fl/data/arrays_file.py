"""The user's own arrays in an ``.npz`` file, as a data set.

The identity of a run contains the content hash of the arrays, not the file they come from.
"""

from __future__ import annotations

import functools
from pathlib import Path

from fedrepro.base.errors import FedreproError
from fedrepro.fl.data import npz
from fedrepro.fl.data.dataset import Dataset

ARRAYS = ("train_x", "train_y", "test_x", "test_y")
MOST_BYTES = 1 << 34
"""Most bytes of such a file, packed or unpacked: all of it is held in memory."""

_FILES: dict[str, Path] = {}


def read(file: Path) -> Dataset:
    """Read a data set; a second call for an unchanged file returns the same object.

    Args:
        file: an ``.npz`` file with the four arrays of :meth:`.Dataset.from_arrays`.

    Raises:
        FedreproError: the file is missing or damaged or has other arrays, or they are no data set;
            names it.
    """
    try:
        found = file.stat()
    except OSError as error:
        reason = error.strerror or error
        raise FedreproError(f"{file}: {reason}; dataset.file names an .npz file") from error
    dataset = _read(file, found.st_size, found.st_mtime_ns)
    _FILES[dataset.name] = file
    return dataset


def file_of(name: str) -> Path | None:
    """Return the file that this process read a data set from; None if it is of another kind."""
    return _FILES.get(name)


@functools.cache  # all of them: runs of a plan know theirs by its content hash alone
def _read(file: Path, size: int, mtime_ns: int) -> Dataset:
    """Read one version of a file; the last two arguments tell versions apart."""
    with npz.opened(file, MOST_BYTES) as arrays:
        if set(arrays) != set(ARRAYS):
            raise FedreproError(
                f"{file}: has the arrays {', '.join(sorted(arrays)) or '(none)'}; give "
                f"{', '.join(ARRAYS)}, as `numpy.savez` writes them"
            )
        given = {name: arrays[name] for name in ARRAYS}
    try:
        return Dataset.from_arrays(**given, title=file.stem)
    except FedreproError as error:
        raise FedreproError(f"{file}: {error}") from error
