"""Which runs this process trains: those without a record that no other process has claimed."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from fedrepro.fl.engine import checkpoint
from fedrepro.fl.spec import RunSpec
from fedrepro.runs import records, stopping
from fedrepro.runs.budget import Budget
from fedrepro.runs.locks import Claims
from fedrepro.runs.messages import Messages
from fedrepro.runs.plan import PlannedRun


class Queue:
    """The runs that are still to be trained, shared with other processes by claims.

    Args:
        runs: in order.
        checkpoints: folder of the checkpoints.
        budget: chooses among them by the time there is.
        messages: told of runs that are claimed here or elsewhere.
        claims: settle who trains a run.
    """

    def __init__(
        self,
        runs: Sequence[PlannedRun],
        checkpoints: Path,
        budget: Budget,
        messages: Messages,
        claims: Claims,
    ) -> None:
        self._runs = runs
        self._checkpoints = checkpoints
        self._budget = budget
        self._messages = messages
        self._claims = claims
        self._finished: set[str] = set()
        self._elsewhere: set[str] = set()

    def claimed(self) -> Iterator[RunSpec]:
        """Claim, one by one, the runs without a record that no other process trains.

        Yields:
            The spec of each, once it is claimed.

        Raises:
            FedreproError: as :meth:`Claims.take`, or a record is damaged.
        """
        left = [run for run in self._runs if run.id not in self._finished]
        while left:
            run = left.pop(self._budget.choose(left))
            if run.recorded:  # of which other machines, kills and full disks leave more
                for path_of in (checkpoint.path_of, records.path_of):
                    path_of(run.id, self._checkpoints).unlink(missing_ok=True)
                self._claims.clear(run.id)
            elif self._budget.fits(run) and self._claim(run):
                yield run.spec

    def _claim(self, run: PlannedRun) -> bool:
        """Claim a run; return whether it is to be trained here."""
        if not self._claims.take(run.id):
            self._messages.left_to_another(run, again=run.id in self._elsewhere)
            self._elsewhere.add(run.id)
            return False
        self._elsewhere.discard(run.id)
        if run.recorded:  # another process ended it since we looked
            self._claims.release(run.id)
            return False
        for half in self._checkpoints.glob(f"{run.id}.*.tmp"):  # of a process that was killed:
            half.unlink(missing_ok=True)  # without the claim none is written here
        self._messages.claimed(run)
        return True

    def finish(self, run_id: str) -> None:
        """Give up a run that ended or failed; it is not tried again.

        Raises:
            KeyError: it was not claimed here.
        """
        self._claims.release(run_id)
        self._finished.add(run_id)

    def wait_for_others(self) -> bool:
        """Wait until another process ends or gives up a run that was left to it.

        Returns:
            True if one did; False if none was left to others, or the time is up.

        Raises:
            FedreproError: as :meth:`Claims.take`.
        """
        if self._elsewhere:
            self._messages.waiting(len(self._elsewhere))
        while self._elsewhere and not self._budget.over:
            for run_id in sorted(self._elsewhere):
                if self._claims.take(run_id):
                    self._claims.release(run_id)
                    self._elsewhere.remove(run_id)
                    return True
            stopping.check()
            time.sleep(min(self._claims.seconds_between_looks, self._budget.seconds_left))
        return False

    def left(self) -> list[PlannedRun]:
        """Return the runs that have no record and that no other process trains."""
        ours = [run for run in self._runs if run.id not in self._elsewhere]
        return [run for run in ours if not run.recorded]

    def close(self) -> None:
        """Give up all runs that are still held, such as when an error ends the training."""
        self._claims.release_all()
