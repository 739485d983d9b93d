"""Made-up records, for tests of what is made from records."""

from __future__ import annotations

from typing import Any

from fedrepro.fl.data import describe
from fedrepro.fl.spec import component_versions, spec_dict
from fedrepro.runs import records
from fedrepro.runs.plan import PlannedRun


def content(run: PlannedRun, **changes: Any) -> dict[str, Any]:
    """Return the content of a valid record of a run; ``changes`` replace whole fields."""
    plain = spec_dict(run.spec)
    clients = run.spec.partition.clients
    return {
        "schema_version": records.SCHEMA,
        "run_id": run.id,
        "status": "complete",
        "spec": plain,
        "versions": component_versions(plain),
        "metrics": {"evaluated_rounds": [1.0], "accuracy": [0.5]},
        "final": {"accuracy": 0.5},
        "partition": {
            "counts": [[client + 1, 2] for client in range(clients)],
            "sha256": "0" * 64,
        },
        "provenance": {
            "commit": "0123abc",
            "dirty": True,
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
            "dataset_sha256": _content(run.spec.dataset.name),
        },
    } | changes


def _content(name: str) -> str:
    """Return a content hash that a data set's description knows; any, where it states none."""
    return (*describe(name).content.known, "0" * 64)[0]
