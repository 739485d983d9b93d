"""Checkpoints: the state of a run between two rounds, so that a killed run goes on where it was.

A file ``.checkpoints/<run id>.pt`` is written to a temporary name and, once it is on the disk,
moved into place, so it is either whole or not there. It begins with a line that names its format
and a line with the SHA-256 of what follows, which is checked before any of that is used; what
follows is read with ``weights_only=True``: nothing in it is executed.
"""

from __future__ import annotations

import hashlib
import io
import sys
from pathlib import Path
from typing import Any

import torch

from fedrepro.base.errors import BadFile, FedreproError, unread
from fedrepro.base.files import sync, temporary_name

FORMAT = 3
_FIRST = b"fedrepro checkpoint "


class NotSaved(FedreproError):
    """A checkpoint cannot be written, whatever the run: the disk is full, say."""


def path_of(run_id: str, folder: Path) -> Path:
    """Return the file of a run's checkpoint."""
    return folder / f"{run_id}.pt"


def unusable(path: Path, problem: str) -> BadFile:
    """Return the error for a checkpoint that cannot be used.

    Args:
        path: its file.
        problem: what is wrong, as the end of a sentence about it.
    """
    return BadFile(path, f"this checkpoint {problem}", "delete it to start the run anew")


def save(path: Path, run_id: str, content: dict[str, Any]) -> None:
    """Write a checkpoint atomically.

    Args:
        path: the file.
        run_id: identity of the run, checked on reading.
        content: tensors, numbers, strings and lists or dicts of these.

    Raises:
        NotSaved: the file cannot be written (no space left, say).
    """
    temporary, handled = temporary_name(path), sys.exception()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _Hashed(io.FileIO(temporary, "wb")) as file:
            file.seek(len(_header("0" * 64)))
            torch.save({"run_id": run_id, "progress": content}, file)
            header = _header(file.sha256.hexdigest())
            file.seek(0)
            file.write(header)
        sync(temporary)
        temporary.replace(path)
    except (OSError, RuntimeError) as error:
        reason: BaseException = error
        if error.__context__ not in (None, handled):  # PyTorch failed again when it ended the file
            reason = error.__context__
        if isinstance(reason, KeyboardInterrupt):
            raise reason from None
        raise NotSaved(
            f"{path}: cannot write the checkpoint ({reason}); free some space and run again, "
            "training goes on from the last checkpoint"
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


def load(path: Path, run_id: str) -> dict[str, Any] | None:
    """Return the saved content, with tensors on the CPU, or None if there is no checkpoint.

    Raises:
        FedreproError: the file is damaged or belongs to another run or format.
    """  # noqa: DOC501 - made by a function
    try:
        with path.open("rb") as file:
            header = file.read(len(_header("0" * 64)))
            payload = file.read()
    except FileNotFoundError:
        return None
    except IsADirectoryError as error:
        raise unusable(path, "is a folder") from error
    except OSError as error:  # it may be whole
        raise unread(path, error) from error
    if header != _header(hashlib.sha256(payload).hexdigest()):
        raise unusable(path, _problem(header))
    try:
        content = torch.load(io.BytesIO(payload), weights_only=True, map_location="cpu")
        theirs, progress = content["run_id"], content["progress"]
    except MemoryError:
        raise
    except Exception as error:  # torch.load raises many kinds, all meaning the same
        raise unusable(path, f"cannot be read ({type(error).__name__})") from error
    if theirs != run_id:
        raise unusable(path, f"belongs to another run ({theirs})")
    if not isinstance(progress, dict):
        raise unusable(path, "holds no progress")
    return progress


class _Hashed(io.BufferedWriter):
    """A file and the SHA-256 of what is written to it."""

    def __init__(self, raw: io.FileIO) -> None:
        super().__init__(raw)
        self.sha256 = hashlib.sha256()

    def write(self, content: Any, /) -> int:
        """Write bytes, and hash them."""
        self.sha256.update(content)
        return super().write(content)


def _header(digest: str) -> bytes:
    return b"%s%d\n%s\n" % (_FIRST, FORMAT, digest.encode())


def _problem(header: bytes) -> str:
    """Return what is wrong with a file whose header is not the one of its content."""
    if header.startswith(_FIRST) and not header.startswith(b"%s%d\n" % (_FIRST, FORMAT)):
        return "belongs to another version"
    return "is damaged (its content does not have the SHA-256 it was written with)"
