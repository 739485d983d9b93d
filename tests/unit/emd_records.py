"""Made-up records of the paper `emd`, for tests of its tables, figures and claims."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from made_up import content

from fedrepro import records
from fedrepro.plan import PlannedRun, Scale, expand
from fedrepro.runs import RunSet

Place = str | float
"""A group of runs, or an EMD of the sweep."""

ACCURACY: dict[Place, float] = {
    "sgd_large": 0.9869,
    "iid_large": 0.9869,
    "two_class_large": 0.9629,
    "one_class_large": 0.9217,
    "one_class_large_e5": 0.9192,
    0: 0.9857,
    0.36: 0.9860,
    0.72: 0.9852,
    1.08: 0.9835,
    1.44: 0.9799,
    1.62: 0.9756,
    1.764: 0.962,
    1.8: 0.922,
}
"""What the paper reports."""

EMD = {"iid_large": 0.0, "two_class_large": 1.6, "one_class_large": 1.8}
RISE = {"conv1": 0.05, "conv2": 0.02, "fc1": 0.01, "fc2": 0.04}
"""Made-up divergence: a floor and this rise per unit of EMD."""
FLOOR = 0.001

JITTER = (-0.0002, 0.0001, 0.0001, -0.0001, 0.0001)
"""What the seeds add to an accuracy; sums to zero over five."""


@dataclass(frozen=True)
class World:
    """What the made-up runs found; the default is what the paper claims."""

    accuracy: dict[Place, float] = field(default_factory=dict)
    rise: dict[str, float] = field(default_factory=dict)
    emd: dict[str, float] = field(default_factory=dict)
    jitter: float = 1

    def record(self, run: PlannedRun) -> dict[str, Any]:
        """Return the content of a run's record."""
        place: Place = run.coordinates.get("emd", run.group)
        level = (ACCURACY | self.accuracy)[place] + self.jitter * JITTER[run.seed]
        rounds = run.spec.rounds
        metrics = {
            "evaluated_rounds": [rounds / 2, rounds - 5, rounds],
            "accuracy": [level / 2, level - 0.0001, level + 0.0001],
        }
        final: dict[str, Any] = {"accuracy": level + 0.0001}
        if getattr(run.spec.algorithm, "sgd_reference", False):
            emd = float(place) if run.group == "sweep" else (EMD | self.emd)[run.group]
            rise = RISE | self.rise
            shift = 1e-5 * run.seed
            final["weight_divergence"] = {
                "fedavg": {layer: FLOOR + rise[layer] * emd + shift for layer in rise},
                "sgd_other_shuffle": dict.fromkeys(rise, FLOOR / 2 + shift),
            }
        return content(run, metrics=metrics, final=final)


def write_all(folder: Path, scale: Scale, world: World | None = None) -> RunSet:
    """Write a record for every run of a scale; return the run set."""
    for run in expand("emd", scale):
        records.write((world or World()).record(run), folder)
    return RunSet("emd", scale, folder)
