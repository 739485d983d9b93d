"""Claims on runs: which process trains a run is settled by a lock on a file."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import IO

from fedrepro.base.errors import FedreproError


class Claims:
    """The runs that this process holds; no other process trains them meanwhile.

    Args:
        folder: of the lock files, shared by all processes that train the same runs.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: dict[str, IO[str]] = {}

    def take(self, run_id: str) -> bool:
        """Claim a run; return whether no other process holds it.

        Raises:
            FedreproError: there can be no lock here.
        """
        file = self._folder / f"{run_id}.lock"
        while True:
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
                lock = file.open("w")
            except OSError as error:
                raise FedreproError(f"{file}: cannot be written ({error})") from error
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # The process that held it deletes the file, perhaps between the two lines above:
                # then the lock is on a file that no other process will find.
                if os.path.samestat(os.fstat(lock.fileno()), file.stat()):
                    self._held[run_id] = lock
                    return True
            except BlockingIOError:
                lock.close()
                return False
            except FileNotFoundError:
                pass
            except OSError as error:
                lock.close()
                raise FedreproError(
                    f"{file}: this file system has no locks ({error.strerror}), which keep two "
                    "processes from training one run; have it mounted with them (Lustre: flock), "
                    "or work in a folder of another one"
                ) from error
            lock.close()

    def release(self, run_id: str) -> None:
        """Give up a run."""
        lock = self._held.pop(run_id)
        Path(lock.name).unlink(missing_ok=True)
        lock.close()

    def release_all(self) -> None:
        """Give up the runs still held, where an error ends the training."""
        for run_id in list(self._held):
            self.release(run_id)
