"""Reading ``.npz`` files that may be damaged, or made to do harm.

NumPy makes room for whatever an array's header says, and what it raises for a file of another kind
is any of a dozen exceptions. Here a header is held against the bytes that there are before an
array is made, and there is one exception.
"""

from __future__ import annotations

import contextlib
import math
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from fedrepro.base.errors import FedreproError

MOST_BYTES = 1 << 30
"""Most bytes, packed or unpacked, of a file whose content is not known beforehand."""


class WrongFormat(FedreproError):
    """A file, or what is done with its arrays, shows that it has another format."""


class TooLarge(FedreproError):
    """A file is larger than it can be, or says that it is when it is unpacked."""


@contextlib.contextmanager
def opened(path: Path, most: int = MOST_BYTES) -> Iterator[Mapping[str, NDArray[Any]]]:
    """Open a file of arrays, none of which holds pickled objects.

    Args:
        path: the file.
        most: bytes that it has at most, packed or unpacked.

    Yields:
        Its arrays by name.

    Raises:
        TooLarge: it has more bytes.
        WrongFormat: it is damaged or has another format, or what is done with its arrays in the
            context fails for any other reason than a FedreproError or short memory.
    """  # noqa: DOC501 - passed on
    try:
        require_size(path, most)
        with path.open("rb") as stream:
            _require_true_headers(stream)
            with np.load(stream, allow_pickle=False) as arrays:
                yield arrays
    except (FedreproError, MemoryError):
        raise
    except OSError as error:
        raise WrongFormat(f"{path}: {error.strerror or error}") from error
    except Exception as error:  # what a broken file raises is anybody's guess
        reason = str(error.args[0] if error.args else "") or type(error).__name__
        raise WrongFormat(f"{path}: {' '.join(reason.split())}") from error


def require_size(path: Path, most: int) -> None:
    """Refuse a file that is larger than it can be, or says that it is when it is unpacked.

    Raises:
        TooLarge: it is.
        OSError: it cannot be read.
    """
    size = path.stat().st_size
    if size <= most:
        with contextlib.suppress(zipfile.BadZipFile), zipfile.ZipFile(path) as parts:
            size = sum(part.file_size for part in parts.infolist())
    if size > most:
        raise TooLarge(
            f"{path} has {size:,} bytes when it is unpacked, and what it is to hold needs at most "
            f"{most:,}: it is not read."
        )


def _require_true_headers(stream: IO[bytes]) -> None:
    """Refuse arrays whose header says another number of bytes than follow it.

    Raises:
        ValueError: a header is no header, or untrue; or there are two arrays of one name.
    """
    with zipfile.ZipFile(stream) as parts:
        if len(set(parts.namelist())) < len(parts.namelist()):
            raise ValueError("two of its arrays have one name")
        for part in parts.infolist():
            with parts.open(part) as array:
                shape, dtype = _header(array)
                values = part.file_size - array.tell()
            if any(axis < 0 for axis in shape) or math.prod(shape) * dtype.itemsize != values:
                raise ValueError(
                    f"the header of {part.filename} says {dtype} {shape}, and {values:,} bytes "
                    "follow it"
                )
    stream.seek(0)


def _header(array: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Read the header of an ``.npy`` file: shape and type; what follows is left unread."""
    version = np.lib.format.read_magic(array)
    if version not in _READERS:
        raise ValueError(f"its arrays have version {version} of the format")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a header as Python 2 wrote it, say
        shape, _, dtype = _READERS[version](array)
    return shape, dtype


_READERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
