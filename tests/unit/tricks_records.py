"""Made-up records of the paper `tricks`, for tests of its tables, figures and claims."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from made_up import content

from fedrepro.fl.spec import RunSpec
from fedrepro.runs.plan import PlannedRun

ACCURACY: dict[str, float] = {
    "centralised": 0.904,
    "iid": 0.900,
    "niid": 0.730,
    "server_training": 0.837,
    "projected": 0.775,
    "projected_noise": 0.796,
    "projected_update": 0.775,
    "projected_update_noise": 0.796,
    "momentum_5": 0.809,
    "momentum_9": 0.759,
    "sign_agreement": 0.785,
    "best": 0.857,
}
"""What the paper reports, and something like it for the other reading."""

SPREAD: dict[str, float] = {"centralised": 0.0077, "iid": 0.0008, "server_training": 0.001}
SPREAD |= {"niid": 0.026, "projected": 0.023, "projected_noise": 0.013, "momentum_5": 0.024}
SPREAD |= {"momentum_9": 0.011, "sign_agreement": 0.0172, "best": 0.003}
"""Standard deviations that the paper reports."""

DEVIATIONS = (-1, 0, 1, -1, 1, -1, 1)
"""How many of them each seed is off; the first three and all seven have just that spread."""

PRODUCTS = [[4.0, -1.0, 0.9], [-1.0, 4.0, 1.1], [0.9, 1.1, 1.0]]
"""Inner products of the updates of two agents and of SGD: agents sqrt(10) apart."""
PROJECTED_PRODUCTS = [[1.0, -0.5, 0.3], [-0.5, 1.0, 0.2], [0.3, 0.2, 1.0]]

Kind = str
"""A group of the plan whose runs are alike; runs that two groups share are of one kind."""


def kind(spec: RunSpec) -> Kind:
    """Return which configuration of the paper a run is, ``other`` for the rest of the grid."""
    algorithm, partition = spec.algorithm, spec.partition
    if algorithm.name == "sgd":
        return "centralised"
    assert algorithm.name == "fedopt"
    assert partition.scheme == "class_blocks"
    if partition.classes_per_client == 10:
        return "iid"
    projection = algorithm.projection
    bounds = "" if projection is None else projection.bounds
    noise = "_noise" if algorithm.gradient_noise else ""
    point = (
        bool(partition.server_share),
        algorithm.server_momentum,
        algorithm.sign_agreement.threshold,
        bounds,
    )
    names = {
        (False, 0, 0, ""): "niid",
        (True, 0, 0, ""): "server_training",
        (False, 0, 0, "weights"): f"projected{noise}",
        (False, 0, 0, "update"): f"projected_update{noise}",
        (False, 0.5, 0, ""): "momentum_5",
        (False, 0.9, 0, ""): "momentum_9",
        (False, 0, 2, ""): "sign_agreement",
        (True, 0.9, 2, ""): "best",
    }
    if algorithm.sign_agreement.vote == "signed":
        return "signed_vote"
    return names.get(point, "other")


@dataclass(frozen=True)
class World:
    """What the made-up runs found; the default is what the paper claims."""

    paper: ClassVar[str] = "tricks"
    accuracy: dict[Kind, float] = field(default_factory=dict)
    spread: dict[Kind, float] = field(default_factory=dict)
    held_out: dict[Kind, float] = field(default_factory=dict)
    conflicts: dict[Kind, float] = field(default_factory=dict)
    cancelled: dict[Kind, float] = field(default_factory=dict)
    step: dict[Kind, float] = field(default_factory=dict)
    moved: dict[Kind, float] = field(default_factory=lambda: {"signed_vote": 0.2})
    projected_products: Sequence[Sequence[float]] = tuple(map(tuple, PROJECTED_PRODUCTS))
    last_projected: Sequence[Sequence[float]] | None = None

    def record(self, run: PlannedRun) -> dict[str, Any]:
        """Return the content of a run's record."""
        what = kind(run.spec)
        spread = (SPREAD | self.spread).get(what, 0.01)
        level = (ACCURACY | self.accuracy).get(what, 0.7) + spread * DEVIATIONS[run.seed]
        rounds = run.spec.rounds
        evaluated = sorted({max(1, rounds // 3), max(1, rounds - 1), rounds})
        before = len(evaluated) - 1
        step = ({"momentum_5": 0.1, "momentum_9": 0.1} | self.step).get(what, level / 2)
        metrics: dict[str, Any] = {
            "evaluated_rounds": evaluated,
            "accuracy": [level - step] * before + [level],
        }
        final: dict[str, Any] = {"accuracy": level}
        if getattr(run.spec.partition, "validation", 0):
            final["accuracy_validation"] = self.held_out.get(what, level - 0.005)
        if run.spec.algorithm.name == "fedopt":
            conflicts = ({"server_training": 0.5} | self.conflicts).get(what, 0.9)
            agreement = {"iid": 0.6}.get(what, 0.4)
            lost = ({"iid": 0.1} | self.cancelled).get(what, 0.25)
            metrics |= {
                "conflicts": [0.99] * (before - 1) + [conflicts, conflicts],
                "agreement": [0.9] * (rounds // 2) + [agreement] * (rounds - rounds // 2),
                "moved": [self.moved.get(what, 1.0)] * rounds,
                "update_norm": [2.0] * rounds,
                "mean_update_norm": [1.5] * (rounds // 2) + [2 - 2 * lost] * (rounds - rounds // 2),
                "weight_norm": [8.5] * rounds,
            }
            if run.spec.algorithm.update_rounds:
                projected = run.spec.algorithm.projection is not None
                products = self.projected_products if projected else PRODUCTS
                final["updates"] = [
                    {"round": t + 1, "inner_products": products}
                    for t in run.spec.algorithm.update_rounds
                ]
                if projected and self.last_projected:
                    final["updates"][-1]["inner_products"] = self.last_projected
        return content(run, metrics=metrics, final=final)
