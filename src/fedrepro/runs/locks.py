"""Claims on runs: which process trains a run is settled by a lock on a file."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path
from typing import IO

from fedrepro.base.errors import FedreproError

_NO_LOCKS = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP}


class Claims:
    """The runs that this process holds and that no other process trains meanwhile.

    A claim ends with the process, however that ends: the system frees its locks.

    Args:
        folder: of the lock files, shared by all processes that train the same runs.

    Attributes:
        seconds_between_looks: how long to wait before a run that another process holds is tried
            again.
    """

    seconds_between_looks = 2.0

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: dict[str, IO[bytes]] = {}

    def take(self, run_id: str) -> bool:
        """Claim a run; return whether no other process holds it.

        Raises:
            FedreproError: the lock cannot be written, or the file system has no locks.
        """
        file = self._path(run_id)
        while (lock := locked(file)) is not None:
            if _is_there(lock, file):
                self._held[run_id] = lock
                return True
            lock.close()  # the process that held it has deleted the file: the run may be free
        return False

    def publish(self, record: Path) -> str:
        """Let the processes that share the runs have a new record, before its run is given up.

        They read the same files, so there is nothing to do here.

        Args:
            record: its file.

        Returns:
            Why they cannot have it; empty if they can.
        """
        return ""

    def release(self, run_id: str) -> None:
        """Give up a run that is held.

        Raises:
            KeyError: it is not.
        """
        with self._held.pop(run_id):
            self._path(run_id).unlink(missing_ok=True)

    def clear(self, run_id: str) -> None:
        """Delete the lock file of a run if no process holds it: one that was killed leaves it.

        Raises:
            FedreproError: it cannot be locked.
        """
        file = self._path(run_id)
        if file.exists() and (lock := locked(file)) is not None:
            with lock:
                if _is_there(lock, file):  # else another process may have a lock there now
                    file.unlink(missing_ok=True)

    def release_all(self) -> None:
        """Give up all runs that are still held, such as when an error ends the training."""
        for run_id in list(self._held):
            self.release(run_id)

    def _path(self, run_id: str) -> Path:
        return self._folder / f"{run_id}.lock"


def locked(file: Path, *, wait: bool = False) -> IO[bytes] | None:
    """Make a lock file if need be, open and lock it; return None if another process holds it.

    Args:
        file: it, opened to read and to append.
        wait: until no other process holds it; then it is returned.

    Raises:
        FedreproError: it cannot be written or locked.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        lock = file.open("a+b")
    except OSError as error:
        raise FedreproError(f"{file}: cannot be written ({error})") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError as error:
        lock.close()
        if isinstance(error, BlockingIOError | PermissionError) and not wait:
            return None  # PermissionError on some network file systems
        reason = error.strerror or error
        if error.errno not in _NO_LOCKS:
            raise FedreproError(f"{file}: cannot be locked ({reason})") from error
        raise FedreproError(
            f"{file}: this file system has no locks ({reason}), which keep two processes from "
            "training one run; have it mounted with them (Lustre: flock), or work in a folder of "
            "another one"
        ) from error
    return lock


def _is_there(lock: IO[bytes], file: Path) -> bool:
    """Return whether an open file is still the one of its name."""
    try:
        return os.path.samestat(os.fstat(lock.fileno()), file.stat())
    except FileNotFoundError:
        return False
