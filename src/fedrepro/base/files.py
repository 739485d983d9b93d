"""Files are written whole or not at all, and named by who calls the program."""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
import time
from pathlib import Path

from fedrepro.base.errors import FedreproError

LEFT_SECONDS = 3600.0
"""A half-written file that has not grown for so long belongs to a process that was killed."""


def write_text(file: Path, text: str) -> None:
    """Write a UTF-8 text file atomically, with the errors of :func:`write_bytes`.

    Paths that are not UTF-8 are written with escapes.
    """
    write_bytes(file, text.encode(errors="backslashreplace"))


def write_bytes(file: Path, content: bytes, *, durable: bool = False) -> None:
    """Write a file atomically, in a folder that is made if need be.

    On failure the old file stays and no half-written one is left. A link stays one: the file that
    it leads to is written.

    Args:
        file: it.
        content: of it.
        durable: whether to wait until it is on the disk, some milliseconds, so that it outlasts a
            loss of power; for what takes long to make again.

    Raises:
        FedreproError: the file cannot be written, or is a folder, device or pipe.
    """
    if file.is_dir():
        raise FedreproError(f"{file}: a folder is there; name a file, such as {file / 'name'}")
    require_replaceable(file)
    target = Path(os.path.realpath(file)) if file.is_symlink() else file
    temporary = temporary_name(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(content)
        if durable:
            sync(temporary)
        temporary.replace(target)
        if durable:
            with contextlib.suppress(OSError):  # not every file system can do it with a folder
                sync(target.parent)
    except (FileExistsError, NotADirectoryError) as error:
        raise FedreproError(
            f"{file}: a file is where a folder of it would be; name another place"
        ) from error
    except OSError as error:
        raise FedreproError(
            f"{file}: cannot be written ({error.strerror or error}); free some space or check the "
            "permissions, then run again"
        ) from error
    finally:
        with contextlib.suppress(OSError):  # its folder may never have been made
            temporary.unlink()


def require_replaceable(file: Path) -> None:
    """Refuse what is there and is no file: a file moved to ``/dev/null`` would replace it.

    Raises:
        FedreproError: it is a device or a pipe, say.
    """
    if file.exists() and not file.is_file():
        raise FedreproError(
            f"{file}: is no file, and would be replaced by one (it is a device or a pipe, say); "
            "name a file"
        )


def temporary_name(file: Path) -> Path:
    """Return a name beside a file to write it under first, another one at each call.

    Threads have the process id in common, and so may containers that share a folder.
    """
    return file.with_name(f"{file.name}.{secrets.token_hex(4)}.tmp")


def sweep(folder: Path, pattern: str = "*.tmp") -> None:
    """Delete what killed processes left half written in a folder; what may still grow stays."""
    for half in folder.glob(pattern):
        with contextlib.suppress(OSError):  # another process may have been faster
            if time.time() - half.stat().st_mtime > LEFT_SECONDS:
                half.unlink()


def sync(path: Path) -> None:
    """Wait until the content of a file, or the names in a folder, are on the disk.

    A file that gets its name before that may be empty after a loss of power.

    Raises:
        OSError: there is no room for them, say.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def require_writable(folder: Path, size: int = 1) -> None:
    """Refuse a folder, before hours of work, in which no file can be written after them.

    Args:
        folder: made if need be.
        size: bytes there is to be room for.

    Raises:
        FedreproError: no file of this size can be written there.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:  # without a name: no kill leaves it
            probe.write(bytes(size))
    except (FileExistsError, NotADirectoryError) as error:
        raise FedreproError(
            f"{folder}: a file, or a link that leads nowhere, is where this folder or one that it "
            "is in would be; move it away, or make what it leads to"
        ) from error
    except OSError as error:
        raise FedreproError(
            f"{folder}: no file can be written there ({error.strerror or error}); free some space "
            "or check the permissions, then run again"
        ) from error


def named(text: str) -> Path:
    """Return the path that an argument of a command names.

    A ``~`` is the home folder, as in a shell, which leaves that of ``--out=~/file`` as it is.

    Raises:
        ValueError: it names none.
    """
    if not text.strip():
        raise ValueError("an empty text names no file or folder")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{text!a} is not UTF-8") from None
    return Path(os.path.expanduser(text))
