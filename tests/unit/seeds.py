"""Made-up runs of a plan: what they found is that of a world, of one world a seed, or edited.

A world makes the records up; the papers' own are in ``<paper>_records.py``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar, Protocol

from fedrepro.runs import records
from fedrepro.runs.plan import PlannedRun, expand, unique
from fedrepro.runs.plan_schema import Scale
from fedrepro.runs.records import RunRecord
from fedrepro.runs.runset import RunSet


class World(Protocol):
    """What the made-up runs of a paper found."""

    paper: ClassVar[str]

    def record(self, run: PlannedRun) -> dict[str, Any]:
        """Return the content of a run's record."""


class Elsewhere(RunSet):
    """A plan's runs, all recorded in another world: what they found is made up when asked for.

    Groups that share a run have one record of it, as the first of them makes it up.
    """

    def __init__(self, runs: RunSet, world: World) -> None:
        first = unique(runs.planned(runs.plan.runs))
        vars(self).update(vars(runs), _records={}, _world=world, _first=first)

    def is_recorded(self, run: PlannedRun) -> bool:
        return True

    def record(self, run: PlannedRun) -> RunRecord:
        if run.id not in self._records:
            content = records.rounded(self._world.record(self._first[run.id]))
            self._records[run.id] = RunRecord.model_validate(content | {"checksum": "0" * 64})
        return self._records[run.id]


class MadeUpRuns(Elsewhere):
    """All runs of a paper at a scale, made up without files."""

    def __init__(self, scale: Scale, world: World) -> None:
        super().__init__(RunSet(world.paper, scale), world)


class Some(RunSet):
    """Recorded runs as if only those of which something is true had a record."""

    def __init__(self, runs: RunSet, keep: Callable[[PlannedRun], bool]) -> None:
        kept = _ids(runs.members(runs.plan.runs), keep)
        vars(self).update(vars(runs), _whole=runs, _kept=kept)

    def is_recorded(self, run: PlannedRun) -> bool:
        return run.id in self._kept

    def record(self, run: PlannedRun) -> RunRecord:
        if not self.is_recorded(run):
            self.require([run.group], f"group '{run.group}'")
        return self._whole.record(run)


def write_all(folder: Path, scale: Scale, world: World) -> RunSet:
    """Write a record of every run of a paper at a scale; return the runs."""
    return write_some(folder, scale, world, lambda _: True)


def write_some(
    folder: Path, scale: Scale, world: World, keep: Callable[[PlannedRun], bool]
) -> RunSet:
    """Write the records of those runs of which something is true; return the runs."""
    runs = expand(world.paper, scale)
    kept = _ids(runs, keep)
    for run in unique(runs).values():
        if run.id in kept:
            records.write(world.record(run), folder)
    return RunSet(world.paper, scale, folder)


def _ids(runs: Iterable[PlannedRun], keep: Callable[[PlannedRun], bool]) -> set[str]:
    return {run.id for run in runs if keep(run)}


class Seeds(RunSet):
    """A plan's runs with the seeds 0, 1, ...: what they found is that of one world each."""

    def __init__(self, runs: RunSet, *worlds: World) -> None:
        vars(self).update(vars(runs), _worlds=worlds)

    def members(self, groups: Iterable[str]) -> list[PlannedRun]:
        planned = [run for run in RunSet.members(self, groups) if run.seed == 0]
        seeds = range(len(self._worlds))
        return [dataclasses.replace(run, seed=seed) for seed in seeds for run in planned]

    def is_recorded(self, run: PlannedRun) -> bool:
        return True

    def record(self, run: PlannedRun) -> RunRecord:
        content = self._worlds[run.seed].record(run)
        return RunRecord.model_validate(content | {"checksum": "0" * 64})


class Edited(RunSet):
    """Recorded runs whose curves are changed by a function of their name and values."""

    def __init__(self, runs: RunSet, change: Callable[[str, list[float]], list[float]]) -> None:
        vars(self).update(vars(runs), _unchanged=runs, _change=change)

    def is_recorded(self, run: PlannedRun) -> bool:
        return self._unchanged.is_recorded(run)

    def record(self, run: PlannedRun) -> RunRecord:
        record = self._unchanged.record(run)
        changed = {name: self._change(name, values) for name, values in record.metrics.items()}
        return record.model_copy(update={"metrics": changed})
