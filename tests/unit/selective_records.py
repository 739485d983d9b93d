"""Made-up records of the paper `selective`, for tests of its tables, figures and claims."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from made_up import content

from fedrepro import records
from fedrepro.plan import PlannedRun, Scale, expand, unique
from fedrepro.records import RunRecord
from fedrepro.runs import RunSet

Final = Callable[[PlannedRun], dict[str, Any]]
"""Gives a planned run its final metrics."""

ACCURACIES = (
    "accuracy_iid",
    "accuracy_iid_dealt",
    "accuracy_noniid",
    "accuracy_noniid_as_run",
    "accuracy_validation",
    "accuracy_validation_all",
)

THREE_GROUPS = [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
ONE_GROUP = [list(range(9))]


def write_all(folder: Path, scale: Scale, final: Final) -> RunSet:
    """Write a record for every run of a scale; return the run set."""
    for run in unique(expand("selective", scale)).values():
        records.write(content(run, final=final(run)), folder)
    return RunSet("selective", scale, folder)


class MadeUpRuns(RunSet):
    """The whole published plan with made-up final metrics and no files."""

    def __init__(self, final: Final) -> None:
        super().__init__("selective", "paper")
        self._final_of = final

    def missing(self, groups: Iterable[str]) -> list[PlannedRun]:
        return []

    def record(self, run: PlannedRun) -> RunRecord:
        return RunRecord.model_validate(content(run, final=self._final_of(run)) | {"checksum": ""})
