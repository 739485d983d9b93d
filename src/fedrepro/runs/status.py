"""Which planned runs are recorded, which are not, and what the missing ones will cost."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedrepro.fl.spec import RUN_ID_LENGTH
from fedrepro.runs import records
from fedrepro.runs.plan import SCALES, PlannedRun, expand, plans, unique

_RUN_ID = re.compile(rf"[0-9a-f]{{{RUN_ID_LENGTH}}}")


@dataclass(frozen=True)
class Status:
    """The state of a list of planned runs.

    Attributes:
        runs: the distinct runs, in plan order.
        recorded: ids of those with a valid record.
        pending: ids of those without.
        seconds: id -> estimated training time of each pending run on one core, in seconds.
        folder: where the records are.
    """

    runs: tuple[PlannedRun, ...]
    recorded: tuple[str, ...]
    pending: tuple[str, ...]
    seconds: dict[str, float]
    folder: Path

    @functools.cached_property
    def orphaned(self) -> tuple[str, ...]:
        """Ids of record files that no plan asks for at any scale; looked up when asked."""
        return orphans(self.folder)

    @property
    def pending_seconds(self) -> float:
        """Estimated seconds to train all pending runs, one after another on one core."""
        return sum(self.seconds.values())

    def to_json(self) -> dict[str, Any]:
        """Return plain values: ids by state, estimated seconds in all and of each pending run."""
        return {
            "recorded": list(self.recorded),
            "pending": list(self.pending),
            "orphaned": list(self.orphaned),
            "pending_seconds": round(self.pending_seconds, 1),
            "seconds": {run_id: round(value, 1) for run_id, value in self.seconds.items()},
        }

    def text(self, *, list_runs: bool = False) -> str:
        """Return counts for each paper, and one line a run if asked for."""
        from tabulate import tabulate

        recorded = Counter(run.paper for run in self.runs if run.id not in self.seconds)
        pending = Counter(run.paper for run in self.runs if run.id in self.seconds)
        rows: list[list[Any]] = []
        for paper in dict.fromkeys(run.paper for run in self.runs):
            need = sum(self.seconds.get(run.id, 0) for run in self.runs if run.paper == paper)
            rows.append([paper, recorded[paper], pending[paper], duration(need)])
        if len(rows) > 1:
            total = duration(self.pending_seconds)
            rows.append(["all", len(self.recorded), len(self.pending), total])
        headers = ["paper", "recorded", "pending", "time to train (estimate, one core)"]
        parts = [tabulate(rows, headers, tablefmt="simple", colalign=("left",))]
        if list_runs:
            parts.append("\n".join(self._line(run) for run in self.runs))
        if self.orphaned:
            parts.append(
                f"{len(self.orphaned)} records belong to no planned run; `fedrepro prune` lists "
                "them."
            )
        return "\n\n".join(parts)

    def _line(self, run: PlannedRun) -> str:
        state = "recorded"
        if run.id in self.seconds:
            state = f"pending ({duration(self.seconds[run.id])})"
        return f"{run.id}  {describe(run):<60} {state}"


def describe(run: PlannedRun) -> str:
    """Return a run's place in the plan: ``emd sweep emd=1.44 seed=0``."""
    point = "".join(f" {name}={value}" for name, value in run.coordinates.items())
    return f"{run.paper} {run.group}{point} seed={run.seed}"


def duration(seconds: float) -> str:
    """Return a time for readers: ``45 s``, ``12 min``, ``3.5 h``, ``12 days``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    hours = seconds / 3600
    return f"{hours:.1f} h" if hours < 48 else f"{hours / 24:.0f} days"


def orphans(folder: Path = records.FOLDER) -> tuple[str, ...]:
    """Return the ids of record files that no plan asks for at any scale."""
    planned = _planned()
    names = (name for name in records.recorded_ids(folder) if _RUN_ID.fullmatch(name))
    return tuple(name for name in names if name not in planned)


def _planned() -> dict[str, PlannedRun]:
    """Return the runs of all plans at all scales, by id."""
    return unique([run for name in plans() for scale in SCALES for run in expand(name, scale)])


def status(runs: Sequence[PlannedRun], folder: Path | None = None) -> Status:
    """Look up which runs have a record; every record found is verified.

    Args:
        runs: planned runs; equal ones count once.
        folder: where the records are; None: where each run has its own.

    Raises:
        FedreproError: a record is damaged, edited or of another run.
    """
    distinct = unique(runs)
    took = {run_id: records.cost(run_id, folder or run.records) for run_id, run in distinct.items()}
    pending = tuple(run_id for run_id, cost in took.items() if cost is None)
    return Status(
        runs=tuple(distinct.values()),
        recorded=tuple(run_id for run_id, cost in took.items() if cost is not None),
        pending=pending,
        seconds=_estimates(pending, distinct, took, folder or records.FOLDER) if pending else {},
        folder=folder or records.FOLDER,
    )


def _estimates(
    pending: Iterable[str],
    runs: dict[str, PlannedRun],
    took: dict[str, records.Cost | None],
    folder: Path,
) -> dict[str, float]:
    """Estimate the seconds of pending runs on a core from all like runs, of whatever plan.

    Runs trained on a GPU say nothing about cores and are left out.

    Args:
        pending: ids to estimate.
        runs: the runs looked up so far, pending ones included.
        took: what each of them took, None without a record.
        folder: where the records are.
    """
    from fedrepro.fl.cost import estimate, seconds_per_pass  # needs the data sets' descriptions

    planned = _planned() | runs
    others = planned.keys() - took
    known = took | {
        run_id: records.cost(run_id, folder)
        for run_id in records.recorded_ids(folder)
        if run_id in others
    }
    speeds = seconds_per_pass(
        (planned[run_id].spec, cost.seconds)
        for run_id, cost in known.items()
        if cost is not None and not cost.gpu
    )
    return {run_id: estimate(runs[run_id].spec, speeds) for run_id in pending}
