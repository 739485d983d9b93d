"""The time that a training has: which runs fit in it, and what it leaves undone."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from fedrepro.base.errors import FedreproError
from fedrepro.fl.algorithms import ALGORITHMS
from fedrepro.fl.engine import checkpoint, saved
from fedrepro.fl.engine.active import ActiveRun
from fedrepro.runs.plan import PlannedRun
from fedrepro.runs.progress import Pace
from fedrepro.runs.status import duration

_START_UP_SECONDS = 10.0
_SAVING_SECONDS = 3.0


class Budget:
    """Chooses runs by the time that is left.

    Args:
        deadline: end of the training, in seconds of ``time.monotonic()``; infinity for none.
        cores: number of CPU cores of the backend; 0 for a GPU, to which the estimates do not apply.
        seconds: run id -> estimated training time on one core, in seconds.
        checkpoints: folder of the checkpoints, which say what is already done of a run.
    """

    def __init__(
        self, deadline: float, cores: int, seconds: Mapping[str, float], checkpoints: Path
    ) -> None:
        self.deadline = deadline
        self._cores = cores
        self._seconds = seconds
        self._checkpoints = checkpoints
        self._pace = Pace()

    @property
    def last_answer(self) -> float:
        """When to have saved the runs in flight, in seconds of ``time.monotonic()``."""
        return self.deadline - _SAVING_SECONDS

    @property
    def seconds_left(self) -> float:
        """Seconds until the deadline; 0 once it has passed."""
        return max(self.deadline - time.monotonic(), 0.0)

    @property
    def over(self) -> bool:
        """Whether the deadline has passed."""
        return not self.seconds_left

    def watch(self, active: Sequence[ActiveRun]) -> None:
        """Measure how fast the runs in flight are."""
        self._pace.watch(active, time.monotonic())

    def choose(self, left: Sequence[PlannedRun]) -> int:
        """Return the position of the run to take next: the first, or on a GPU as :class:`Pace`.

        Once the time is up none fits, and none is compared with the others.
        """
        seconds = self.last_answer - time.monotonic()
        if self._cores or not 0 <= seconds < math.inf:
            return 0
        done = functools.partial(share_done, checkpoints=self._checkpoints)
        return self._pace.choose(left, done, seconds)

    def fits(self, run: PlannedRun) -> bool:
        """Return whether a round of the run is expected to end in time."""
        return self._round_seconds(run) <= self.last_answer - time.monotonic()

    def too_short(self, budget: float, left: Sequence[PlannedRun]) -> FedreproError:
        """Return the error for a training that could do nothing.

        Args:
            budget: in seconds.
            left: the runs that are left; at least one.
        """
        shortest = min(left, key=self._round_seconds)
        needed = self._round_seconds(shortest) + _START_UP_SECONDS + _SAVING_SECONDS
        hint = f"; the shortest possible is about {math.ceil(needed)} s (run {shortest.id})"
        return FedreproError(
            f"a time budget of {budget:g} s is too short to finish a round of any pending run"
            + (hint if self._cores else "")
        )

    def time_is_up(self, left: Sequence[PlannedRun], interrupted: int) -> str:
        """Return the message for runs that are left, ``interrupted`` of them with a checkpoint."""
        estimate = ""
        if self._cores:  # else checkpoints would be read for nothing
            seconds = sum(
                self._seconds.get(run.id, 0.0) * (1.0 - share_done(run, self._checkpoints))
                for run in left
            )
            estimate = f", about {duration(seconds)} on one core"
        return (
            f"time is up: {len(left)} run{'s' * (len(left) != 1)} left{estimate}; "
            f"with a checkpoint to go on from: {interrupted}"
        )

    def _round_seconds(self, run: PlannedRun) -> float:
        """Return an estimate from CPUs; 0, too little for any run, where a GPU trains."""
        if not self._cores:
            return 0.0
        return self._seconds.get(run.id, 0.0) / _rounds(run) / self._cores


def share_done(run: PlannedRun, checkpoints: Path) -> float:
    """Return the share, 0..1, of a run's rounds that its checkpoint holds; 0 if it has none."""
    file = checkpoint.path_of(run.id, checkpoints)
    try:
        return _rounds_saved(run.id, file, file.stat().st_mtime_ns) / _rounds(run)
    except (OSError, FedreproError):
        return 0.0  # a run whose checkpoint is damaged fails by name once it is taken up


def _rounds(run: PlannedRun) -> int:
    return ALGORITHMS[run.spec.algorithm.name].rounds(run.spec)


@functools.cache
def _rounds_saved(run_id: str, file: Path, _written_at: int) -> int:
    """Return how many rounds a checkpoint holds; read once, unless it is written anew."""
    found = saved.read(file, run_id)
    return found.progress.round if found else 0
