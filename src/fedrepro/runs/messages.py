"""What a training reports: runs that end or fail, runs of other processes, progress and speed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fedrepro.runs.display import display
from fedrepro.runs.plan import PlannedRun
from fedrepro.runs.progress import Meter
from fedrepro.runs.status import describe

if TYPE_CHECKING:
    from fedrepro.fl.engine.active import ActiveRun


def named(run: PlannedRun) -> str:
    """Return a run's id and its place in the plan: ``0b77a2d8e4c1 (emd sweep emd=1.44 seed=0)``."""
    return f"{run.id} ({describe(run)})"


def failed(runs: Sequence[PlannedRun], reason: str) -> str:
    """Say that runs failed, one or several for one reason."""
    if len(runs) == 1:
        return f"run {named(runs[0])} failed: {reason}"
    return "\n  ".join([f"{len(runs)} runs failed: {reason}", *map(named, runs)])


class Messages:
    """The lines that a training prints.

    Args:
        runs: to be trained, as far as is known before it begins.
    """

    def __init__(self, runs: Sequence[PlannedRun]) -> None:
        self._display = display()
        self._reported = time.monotonic()
        self._meter = Meter(self._reported)
        self._written = 0
        self._warned: set[str] = set()
        self._names: dict[str, str] = {}
        for run in runs:
            self.claimed(run)

    def say(self, text: str) -> None:
        """Say a line."""
        self._display.say(text)

    def claimed(self, run: PlannedRun) -> None:
        """Count a run among those that are trained here."""
        self._meter.expect(run)
        self._names[run.id] = named(run)

    def left_to_another(self, run: PlannedRun, *, again: bool) -> None:
        """Say that another process trains a run, unless that was said before."""
        if not again:
            self.say(f"{named(run)} is being trained by another process; left to it")
        self._meter.drop(run.id)

    def waiting(self, runs: int) -> None:
        """Say that nothing is left but runs that other processes train."""
        s = "s" * (runs != 1)
        self.say(f"waiting for {runs} run{s} that other processes train")

    def recorded(self, run: ActiveRun) -> None:
        """Say that a run ended, and where it went on from."""
        self._written += 1
        self._meter.watch([run], time.monotonic())
        accuracy = run.progress.final.get("accuracy")
        reached = f", accuracy {accuracy:.4f}" if isinstance(accuracy, int | float) else ""
        before = f" ({run.resumed_at} before, from its checkpoint)" if run.resumed_at else ""
        s = "s" * (run.rounds != 1)
        took = f"{run.rounds} round{s}{before} in {run.progress.seconds:.1f} s"
        self.say(f"{self._names[run.id]}: {took}{reached} ({self._written} done)")

    def failed(self, run: PlannedRun, reason: str) -> None:
        """Say why a run failed; without a reason, that is said elsewhere."""
        self._meter.drop(run.id)
        if reason:
            self.say(failed([run], reason))

    def report(self, active: Sequence[ActiveRun]) -> None:
        """Say how far the runs in flight are, as often as the display allows."""
        for run in active:
            self._warn(run)
        now = time.monotonic()
        self._meter.watch(active, now)
        if now - self._reported >= self._display.every:
            self._reported = now
            line = self._meter.line(active, self._written)
            self._display.show(line, self._meter.share)

    def _warn(self, run: ActiveRun) -> None:
        """Warn, once, of clients of a run that train nothing."""
        if run.idle and run.id not in self._warned:
            self._warned.add(run.id)
            batch = f"less than a batch of {run.spec.batch}"
            idle = f"{run.idle} clients of a round hold {batch} and take no step"
            if run.idle == 1:
                idle = f"1 client of a round holds {batch} and takes no step"
            self.say(
                f"{self._names[run.id]}: {idle} (last_batch: {run.spec.last_batch}); unchanged "
                "weights, and losses of 0, count in the means; the record says so (idle_clients)"
            )

    def close(self) -> None:
        """Remove the line that says how far the runs are."""
        self._display.close()

    def sum_up(self) -> None:
        """Say how many runs were trained, and how fast."""
        if self._meter.progressed:
            runs = "1 run" if self._written == 1 else f"{self._written} runs"
            self.say(f"trained {runs}, {self._meter.speed}")
