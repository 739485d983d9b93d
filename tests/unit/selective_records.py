"""Made-up records of the paper `selective`, for tests of its tables, figures and claims."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedrepro import records
from fedrepro.plan import PlannedRun, Scale, expand, unique
from fedrepro.records import RunRecord
from fedrepro.runs import RunSet
from fedrepro.spec import spec_dict
from fedrepro.versions import component_versions

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


def content(run: PlannedRun, final: dict[str, Any]) -> dict[str, Any]:
    """Return a record's content with these final metrics."""
    plain = spec_dict(run.spec)
    return {
        "schema_version": records.SCHEMA,
        "run_id": run.id,
        "status": "complete",
        "spec": plain,
        "versions": component_versions(plain),
        "metrics": {"evaluated_rounds": [1.0], "accuracy": [0.5]},
        "final": final,
        "partition": {"counts": [[1, 1]], "emd": [0.0], "sha256": "0" * 64},
        "provenance": {
            "commit": "unknown",
            "dirty": False,
            "fedrepro": "0",
            "python": "3",
            "torch": "2",
            "numpy": "2",
            "backend": "loop",
            "device": "made up",
            "threads": 1,
            "host": "made up",
            "started": "2000-01-01T00:00:00+00:00",
            "seconds": 1.0,
            "dataset_source": "made up",
            "dataset_sha256": "0" * 64,
        },
    }


def write_all(folder: Path, scale: Scale, final: Final) -> RunSet:
    """Write a record for every run of a scale; return the run set."""
    for run in unique(expand("selective", scale)).values():
        records.write(content(run, final(run)), folder)
    return RunSet("selective", scale, folder)


class MadeUpRuns(RunSet):
    """The whole published plan with made-up final metrics and no files."""

    def __init__(self, final: Final) -> None:
        super().__init__("selective", "paper")
        self._final_of = final

    def record(self, run: PlannedRun) -> RunRecord:
        return RunRecord.model_validate(content(run, self._final_of(run)) | {"checksum": ""})
