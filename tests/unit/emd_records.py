"""Made-up records of the paper `emd`, for tests of its tables, figures and claims."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from made_up import content

from fedrepro.papers.emd.measurements import DATASETS, LAYERS
from fedrepro.report.expected import published
from fedrepro.runs.plan import PlannedRun
from fedrepro.runs.runset import RunSet

Place = str
"""A group of runs, or one and a grid point: ``mnist_sweep/1.44``, ``sharing_warm/0.1/0.5``."""

EMD = {"iid": 0.0, "iid_own_initial": 1.0, "two_class": 1.6, "one_class": 1.8}
SLOPE = {"mnist": 0.05, "cifar10": 0.08, "kws": 0.06}
"""Made-up divergence per unit of EMD of the outer layers; others have a third of it."""
STEP_SIZE = {"mnist": 0.01, "cifar10": 0.1, "kws": 0.05}
"""The paper's; divergence is in proportion to it."""
FLOOR = 0.001

JITTER = (-0.0002, 0.0001, 0.0001, -0.0001, 0.0001)
"""What the seeds add to an accuracy, five in turn; sums to zero over five."""

ALONE = 0.44
"""Made-up accuracy without data sharing."""


def place_of(run: PlannedRun) -> Place:
    """Return the name of a run's place in the worlds below."""
    values = run.coordinates.values()
    return "/".join([run.group, *(x if isinstance(x, str) else f"{x:g}" for x in values)])


def claimed(run: PlannedRun) -> float:
    """Return the accuracy that the paper reports for a run, or one as it claims."""
    labels = GROUPS[run.group].labels
    row = DATASETS[labels["dataset"]]
    if run.group == "sharing_scratch":
        beta = float(run.coordinates["beta"])
        known = {0: ALONE, 0.05: 0.71, 0.1: 0.7412, 0.25: 0.7872}
        return float(np.interp(beta, list(known), list(known.values())))
    if run.group == "sharing_warm":
        beta, alpha = (float(run.coordinates[key]) for key in ("beta", "alpha"))
        best = {0.1: 0.7312, 0.2: 0.7708}[beta]
        return best - 0.01 * (1 - max(alpha, 0.5)) - 0.05 * max(0.5 - alpha, 0)
    if run.group == "bound" or run.group.startswith("choice_divergence"):
        return 0.5
    if labels.get("training") == "sweep":
        return published("emd", "table2")[row, f"{run.coordinates['emd']:g}"]
    if labels["training"] == "iid_own_initial":
        return 0.96
    group = run.group
    if "choice" in labels or "batches" not in labels:
        like = {"training": labels["training"], "dataset": labels["dataset"], "batches": "large"}
        group = next(name for name, one in GROUPS.items() if like.items() <= one.labels.items())
    return published("emd", "table3")[GROUPS[group].title, row]


GROUPS = RunSet("emd", "paper").plan.runs


def rise(dataset: str, layer: str) -> float:
    """Return the made-up divergence of a layer per unit of EMD."""
    outer = layer in (LAYERS[dataset][0], LAYERS[dataset][-1])
    return SLOPE[dataset] * (1 if outer else 1 / 3)


@dataclass(frozen=True)
class World:
    """What the made-up runs found; the default is what the paper claims.

    Divergence is in proportion to the step size, or to 1 over it of the data sets ``contrary``.
    ``rise`` is by ``<dataset>/<layer>``, and so is ``peak``, the EMD at which the divergence is by
    0.2 larger; ``emd`` is by group, ``stretch`` of the measured distance of
    the runs for Proposition 3.1 by EMD, ``start`` what pre-training reaches above the pre-trained
    rows of the paper. Each of the ten clients that share data has examples of another class in
    place of a share ``astray`` of its own, the last client in place of a share ``odd`` more.
    """

    paper: ClassVar[str] = "emd"
    accuracy: dict[Place, float] = field(default_factory=dict)
    rise: dict[str, float] = field(default_factory=dict)
    peak: dict[str, float] = field(default_factory=dict)
    emd: dict[str, float] = field(default_factory=dict)
    stretch: dict[float, float] = field(default_factory=dict)
    contrary: tuple[str, ...] = ()
    start: float = 0.02
    astray: float = 0.0
    odd: float = 0.0
    jitter: float = 1

    def record(self, run: PlannedRun) -> dict[str, Any]:
        """Return the content of a run's record."""
        level = self.accuracy.get(place_of(run), claimed(run)) + self.jitter * JITTER[run.seed % 5]
        algorithm = run.spec.algorithm
        before = getattr(algorithm, "pretrain_epochs", 0)
        rounds = before + run.spec.rounds
        metrics = {
            "evaluated_rounds": [rounds / 2, rounds - 5, rounds],
            "accuracy": [level / 2, level - 0.0001, level + 0.0001],
        }
        if before:
            metrics["evaluated_rounds"][:1] = [before / 2, before]
            metrics["accuracy"][:1] = [level / 2, level + self.start]
        final: dict[str, Any] = {"accuracy": level + 0.0001}
        if getattr(algorithm, "sgd_reference", False):
            final["weight_divergence"] = self._divergence(run)
        if getattr(algorithm, "warm_up", None):
            final["warm_up"] = {"epochs": 40 + run.seed, "accuracy": 0.61}
        if run.group == "bound":
            final |= self._bound(float(run.coordinates["emd"]))
        made = content(run, metrics=metrics, final=final)
        if run.spec.partition.scheme == "data_sharing":
            cut = run.spec.partition
            own, astray = np.eye(10), self.astray * np.ones((10, 1))
            astray[-1] += self.odd
            held = cut.alpha * cut.beta + own * (1 - astray) + np.roll(own, 1, axis=1) * astray
            examples = cut.per_class * (10_000 if astray.any() else 1)  # for whole numbers of them
            made["partition"]["counts"] = np.rint(examples * held).astype(int).tolist()
        return made

    def _divergence(self, run: PlannedRun) -> dict[str, dict[str, float]]:
        labels = GROUPS[run.group].labels
        dataset = labels["dataset"]
        emd = float(run.coordinates.get("emd", EMD.get(labels.get("training", ""), 0.0)))
        emd = self.emd.get(run.group, emd)
        step = run.spec.optimizer.lr / STEP_SIZE[dataset]
        emd *= 1 / step if dataset in self.contrary else step
        shift = 1e-5 * run.seed
        layers = LAYERS[dataset]
        slopes = {
            layer: self.rise.get(f"{dataset}/{layer}", rise(dataset, layer)) for layer in layers
        }
        peaks = {layer: 0.2 * (self.peak.get(f"{dataset}/{layer}") == emd) for layer in layers}
        fedavg = {
            layer: FLOOR + slope * emd + shift + peaks[layer] for layer, slope in slopes.items()
        }
        return {
            "fedavg": fedavg | {"model": float(np.mean([*fedavg.values()]))},
            "sgd_other_shuffle": dict.fromkeys(layers, FLOOR / 2 + shift),
        }

    def _bound(self, emd: float) -> dict[str, Any]:
        measured = np.array([0.1, 0.2, 0.3]) * emd * self.stretch.get(emd, 1) + 1e-7
        measured += self.stretch.get(0, 0) * (emd == 0)
        vectors = np.random.default_rng(3).normal(size=(24, 5)) * (0.1 + emd)
        return {
            "distance": measured.tolist(),
            "bound": [0.2 * emd, 0.5 * emd, 1.0 * emd],
            "norm": [10.0, 10.1, 10.2],
            "inner_products": (vectors @ vectors.T).tolist(),
        }
