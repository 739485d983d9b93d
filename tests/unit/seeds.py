"""Runs of several seeds where a plan has one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from fedrepro.runs.plan import PlannedRun
from fedrepro.runs.records import RunRecord
from fedrepro.runs.runset import RunSet


class Seeds(RunSet):
    """A plan's runs with the seeds 0, 1, ...: what they found is that of one world each."""

    def __init__(self, runs: RunSet, *worlds: Any) -> None:
        vars(self).update(vars(runs), _worlds=worlds)

    def members(self, groups: Iterable[str]) -> list[PlannedRun]:
        planned = RunSet.members(self, groups)
        seeds = range(len(self._worlds))
        return [dataclasses.replace(run, seed=seed) for seed in seeds for run in planned]

    def missing(self, groups: Iterable[str]) -> list[PlannedRun]:
        return []

    def record(self, run: PlannedRun) -> RunRecord:
        content = self._worlds[run.seed].record(run)
        return RunRecord.model_validate(content | {"checksum": "0" * 64})
