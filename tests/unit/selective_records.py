"""Made-up records of the paper `selective`, for tests of its tables, figures and claims."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import seeds
from made_up import content

from fedrepro.runs.plan import PlannedRun, load_plan

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

_GROUPS = load_plan("selective").runs
LABELS = {name: _GROUPS[of.labels.get("of", name)].labels for name, of in _GROUPS.items()}
"""Labels by group; a group of another choice has those of the group it is of."""

THREE_GROUPS = [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
ONE_GROUP = [list(range(9))]

NODES = range(9)
APART = [[0.95 if one // 3 == other // 3 else 0.3 for other in NODES] for one in NODES]
"""Agreement of nodes of three label groups."""
WITH_THE_FIRST = [[0.9 if 0 in (one, other) else 0.5 for other in NODES] for one in NODES]
"""Agreement where all nodes are like the first, and no two others alike."""


def distinct(run: PlannedRun) -> dict[str, Any]:
    """Give each metric a value of its own, so that a mix-up shows."""
    percent = run.coordinates.get("percent", 100)
    final: dict[str, Any] = {
        name: (position + 1) / 10 + percent / 1000 + run.seed / 1000
        for position, name in enumerate(ACCURACIES)
    }
    labels = LABELS[run.group]
    model = {"m1": 0.0, "m2": 0.02, "m3": 0.03}[labels["network"]]
    final = {name: value + model for name, value in final.items()}
    if labels["method"] == "selective":
        final["groups"] = THREE_GROUPS if percent == 0 else ONE_GROUP
        final["agreement"] = APART if percent == 0 else WITH_THE_FIRST
    if labels.get("variant") == "threshold tuned":
        final["accuracy_tuning"] = run.coordinates["threshold"] / 10 + percent / 1000
    return final


def metrics(run: PlannedRun) -> dict[str, list[float]]:
    """Give each metric a curve of its own over the evaluated rounds."""
    last, every = run.spec.rounds, run.spec.evaluate_every
    evaluated = [float(t) for t in range(every, last + 1, every)] or [float(last)]
    return {"evaluated_rounds": evaluated} | {
        name: [position / 10 + t / 1000 for t in evaluated]
        for position, name in enumerate(ACCURACIES)
    }


@dataclass(frozen=True)
class World:
    """What the made-up runs found: ``final`` gives a run its final metrics."""

    paper: ClassVar[str] = "selective"
    final: Final = distinct

    def record(self, run: PlannedRun) -> dict[str, Any]:
        """Return the content of a run's record."""
        return content(run, final=self.final(run), metrics=metrics(run))


class MadeUpRuns(seeds.MadeUpRuns):
    """The whole published plan with made-up final metrics and no files: ``final`` gives them."""

    def __init__(self, final: Final) -> None:
        super().__init__("paper", World(final))
