"""Claims on runs: which process trains a run is settled by a lock on a file."""

from __future__ import annotations

import warnings
from pathlib import Path

from filelock import BaseFileLock, FileLock, SoftFileLock, Timeout

from fedrepro.base.errors import FedreproError


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
        self._held: dict[str, BaseFileLock] = {}

    def take(self, run_id: str) -> bool:
        """Claim a run; return whether no other process holds it.

        Raises:
            FedreproError: the lock cannot be written, or the file system has no locks.
        """
        file = self._folder / f"{run_id}.lock"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            file.touch()
        except OSError as error:
            raise FedreproError(f"{file}: cannot be written ({error})") from error
        lock = FileLock(file)
        while not _acquire(lock, file):
            if file.exists():
                return False
            # The process that held it has deleted the file meanwhile: the run is free.
        self._held[run_id] = lock
        return True

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
        lock = self._held.pop(run_id)
        Path(lock.lock_file).unlink(missing_ok=True)
        lock.release()

    def release_all(self) -> None:
        """Give up all runs that are still held, such as when an error ends the training."""
        for run_id in list(self._held):
            self.release(run_id)


def _acquire(lock: BaseFileLock, file: Path) -> bool:
    """Lock a file unless another process has; return whether it is locked now.

    Raises:
        FedreproError: the file system has no locks that end with the process.
    """  # noqa: DOC501 - made by a function
    try:
        with warnings.catch_warnings(action="ignore"):  # that it makes do with a soft lock
            lock.acquire(timeout=0)
    except Timeout:
        pass
    except (OSError, NotImplementedError) as error:
        raise _no_locks(file, getattr(error, "strerror", None) or str(error)) from error
    if isinstance(lock, SoftFileLock):  # a mere file, which a process that is killed leaves behind
        lock.release()
        raise _no_locks(file, "only files that mark one")
    return lock.is_locked


def _no_locks(file: Path, reason: str) -> FedreproError:
    return FedreproError(
        f"{file}: this file system has no locks ({reason}), which keep two processes from training "
        "one run; have it mounted with them (Lustre: flock), or work in a folder of another one"
    )
