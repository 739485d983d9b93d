"""Made-up records of the paper `cadis`, for tests of its tables, figures and claims."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from made_up import content

from fedrepro.fl.algorithms.probe import THRESHOLDS
from fedrepro.fl.data.pill_counts import COUNTS
from fedrepro.papers.cadis.measurements import SINGLESET, participants
from fedrepro.report.expected import load_expected, published
from fedrepro.runs.plan import PlannedRun, load_plan

SWING = {"FedAvg": 0.02, "FedAvg, as run": 0.02, "CADIS": 0.01, "CADIS, as run": 0.01}
"""How far a method's accuracy falls at every other evaluation."""

LOCAL = {"FedAvg": (0.80, 0.15), "FedProx": (0.80, 0.15), "CADIS": (0.85, 0.10)}
"""Mean and standard deviation of the accuracy on the participants' data."""

SETTLED = {"mnist_mc_standard": 6}
"""Entry of the record from which the clusters are the final ones, by group; 3 of others."""

ERROR = {"mnist_mc_cadis": 0.05, "mnist_mc_standard": 0.15}
SEPARATION = {"weight_change": 0.95, "bias_change": -0.2, "weight": 0.98, "bias": 0.75}
"""Mean cosine of clients of other labels; the first as the paper says, not as we measure."""

GROUPS = [0 if client < 7 else 7 for client in range(len(COUNTS))]
"""The cluster of each client of synthetic pills, named by its first; 0 to 6 have diabetes drugs."""

PILLS = "synthetic pills"
ON_PILLS = {SINGLESET: 0.8, f"{SINGLESET}, clients' SGD": 0.9, "CADIS": 0.5}
"""Best accuracies on synthetic pills; 0.4 of other methods."""

AS_WRITTEN = {f"{name}, as run": name for name in ("FedAvg", "FedProx", "FedFA", "FedDyn", "CADIS")}
"""The method that each "as run" is of."""

OTHERS = {
    "weights inverse to the true cluster sizes": 0.94,
    "CADIS without transitive learning": 0.9345,
}
"""Best accuracies of methods that Table I has not."""

BEST = {"cifar100": 0.9}
"""Threshold of the grid with the highest accuracy; 0.975 on others."""

TEXT = [30, 30, 20, 10, 10]


def place(run: PlannedRun) -> tuple[str, str, str]:
    """Return data set, kind and method of a run, as they are printed."""
    groups = load_plan("cadis").runs
    labels = groups[groups[run.group].labels.get("of", run.group)].labels
    lists = str(run.coordinates.get("lists", ""))
    kind = lists.removeprefix(f"{labels.get('dataset')}_") or labels.get("kind", "")
    names = load_expected("cadis").names
    dataset, kind, method = (
        names.get(label, label) for label in (labels.get("dataset", ""), kind, labels["method"])
    )
    return dataset, kind, method


@dataclass(frozen=True)
class World:
    """What the made-up runs found; the default is what the paper or its code claims.

    Attributes:
        accuracy: best accuracy by ``<data set> <kind> <method>``, with ``@K`` for more clients;
            by ``<method>`` of those that Table I has not.
        slow: runs, named as in ``accuracy``, that learn nothing in the first half of the rounds.
        swing, local, settled, error, other: changes of the tables above.
        wrong: share of wrong pairs at the end, by group.
        known: share of pairs known from the first round on.
        one: clusters that the code's rule finds at the highest threshold in the bias improvements
            of fresh clients; 1 at others, and 5 in everything else.
        recovered: epochs of warm-up after which the cosines give the true clusters.
        lost: round in which FedFA as run is lost; None: never.
        stuck: accuracy that FedFA as run ends with; None: the share of class 0 if it is lost.
        period: of the norm of FedDyn's model as run.
        own_low, other_high: lowest change of the first client's row of class 0, which it holds,
            and highest of its row of class 9, which it does not.
        over_tau: how far the accuracy falls with the distance from the best threshold, in the grid.
        equal: whether all clients hold equal amounts.
        main: clients of the main cluster of BC and UC, of 100.
        labels: of a client of the other partitions.
        cluster_of: final clusters of synthetic pills.
        apart: how many of the first clients end in clusters of their own, by group.
    """

    paper: ClassVar[str] = "cadis"
    accuracy: dict[str, float] = field(default_factory=dict)
    slow: tuple[str, ...] = ()
    swing: dict[str, float] = field(default_factory=dict)
    local: dict[str, tuple[float, float]] = field(default_factory=dict)
    settled: dict[str, int] = field(default_factory=dict)
    error: dict[str, float] = field(default_factory=dict)
    other: dict[str, float] = field(default_factory=dict)
    wrong: dict[str, float] = field(default_factory=dict)
    known: float = 0.97
    one: float = 1.0
    recovered: tuple[int, ...] = (0, 1)
    lost: int | None = 3
    stuck: float | None = None
    period: float = math.pi / math.acos(0.55)
    own_low: float = 0.0
    other_high: float = -0.01
    over_tau: float = 0.2
    equal: bool = False
    main: int = 60
    labels: int = 2
    cluster_of: list[int] = field(default_factory=lambda: GROUPS)
    apart: dict[str, int] = field(default_factory=dict)

    def level(self, run: PlannedRun) -> float:
        """Return a run's best accuracy."""
        if run.group == "grid":
            tau, lam = float(run.coordinates["threshold"]), float(run.coordinates["distillation"])
            away = abs(tau - BEST.get(run.spec.dataset.name, 0.975))
            return 0.38 - self.over_tau * away / 0.175 - 0.001 * lam
        dataset, kind, method = place(run)
        name = " ".join(filter(None, (dataset, kind, method)))
        for key in (f"{name}@{participants(run)}", name, method):
            if key in self.accuracy:
                return self.accuracy[key]
        if dataset == PILLS:
            return ON_PILLS.get(method, 0.4)
        method = AS_WRITTEN.get(method, method)
        row = f"{dataset} {participants(run) or 10}/100"
        if kind == "MC" and method == "FedDyn" == place(run)[2]:
            return 0.92
        printed = published("cadis", "table1") | published("cadis", "table3")
        cell = (row, method) if kind == "MC" else (method, f"{dataset} {kind}")
        return printed.get(cell, OTHERS.get(method, 0.93))

    def record(self, run: PlannedRun) -> dict[str, Any]:
        """Return the content of a run's record."""
        level, points = self.level(run), min(20, run.spec.rounds)
        algorithm = run.spec.algorithm
        _, _, method = place(run)
        swing = (SWING | self.swing).get(method, 0.015)
        half = points // 2
        rise = 0.0 if " ".join(place(run)) in self.slow else (level - 0.1) / (half + 1)
        curve = [0.1 + rise * (i + 1) for i in range(half)]
        curve += [level - swing * (i % 2) for i in range(points - half)]
        rounds = np.linspace(run.spec.rounds / points, run.spec.rounds, points).astype(int)
        metrics: dict[str, list[float]] = {
            "evaluated_rounds": [float(t) for t in rounds],
            "accuracy": curve,
            "loss": [1 - accuracy for accuracy in curve],
        }
        logged = [float(i) for i in range(points)]
        if getattr(algorithm, "local_accuracy", False):
            mean, spread = (LOCAL | self.local)[method]
            metrics["local_accuracy"] = [mean for _ in logged]
            metrics["local_accuracy_sd"] = [spread for _ in logged]
        if algorithm.name == "cadis":
            wrong = self.wrong.get(run.group, 0.1 if method in AS_WRITTEN else 0.005)
            error = (ERROR | self.error).get(run.group, 0.1)
            settled = (SETTLED | self.settled).get(run.group, 3)
            metrics |= {
                "clusters": [5.0 if i + 1 >= settled else 6.0 for i in logged],
                "wrong_pairs": [wrong for _ in logged],
                "similarity_error": [error for _ in logged],
                "pairs_met": [0.3 for _ in logged],
                "pairs_known": [self.known for _ in logged],
            }
        if algorithm.name == "feddyn":
            long = range(2 * run.spec.rounds if run.spec.rounds < 100 else run.spec.rounds)
            metrics["norm"] = [2 + math.cos(2 * math.pi * t / self.period) for t in long]
        if algorithm.name == "fedfa":
            lost = method in AS_WRITTEN and self.lost is not None
            metrics["finite"] = [float(not lost or i + 1 < (self.lost or 0)) for i in range(points)]
            if lost:
                share = {"mnist": 0.098, "synthetic_pills": 1 / 15}
                metrics["accuracy"][-1] = share.get(run.spec.dataset.name, 0.1)
            if method in AS_WRITTEN and self.stuck is not None:
                metrics["accuracy"][-1] = self.stuck
        counts = self.counts(run)
        final: dict[str, Any] = {}
        if algorithm.name == "probe":
            final = self.probed(counts, int(run.coordinates.get("warm_up", 0)))
        elif (place(run)[0], method) == (PILLS, "CADIS"):
            final = {"cluster_of": self.cluster_of}
        elif algorithm.name == "cadis":  # clients of one first label are in one cluster
            firsts = [next(i for i, count in enumerate(row) if count) for row in counts]
            alone = self.apart.get(run.group, 0)
            names = [i if i < alone else firsts.index(first) for i, first in enumerate(firsts)]
            cosines = {"other": [-0.5, -0.1, 0.4]}
            if run.coordinates.get("lists") != "cifar100_pa":  # each client has its own labels
                cosines["same"] = [0.3, 0.8, 0.9]
            final = {"cluster_of": names, "cosines": cosines}
        partition = {"counts": counts, "sha256": "0" * 64}
        return content(run, metrics=metrics, final=final, partition=partition)

    def counts(self, run: PlannedRun) -> list[list[int]]:
        """Return made-up class counts: a cluster's clients hold two classes, or one."""
        dataset, kind, _ = place(run)
        if dataset == PILLS:
            return [list(row) for row in COUNTS]
        if kind in ("one class", "two classes"):
            width = 1 if kind == "one class" else 2
            return [[9 * ((c - k) % 10 < width) for c in range(10)] for k in range(10)]
        rows: list[list[int]] = []
        if dataset == "MNIST" and kind in ("BC", "BC of 60 %", "UC"):
            sizes = [self.main, *[1] * 4]
            sizes[1] += 100 - sum(sizes)
        else:
            sizes = TEXT
        for cluster, size in enumerate(sizes):
            for client in range(size):
                amount = 9 if self.equal else 5 + client % 7
                held = range(2 * cluster, 2 * cluster + self.labels)
                rows.append([amount * (label in held) for label in range(10)])
        return rows

    def probed(self, counts: list[list[int]], warm_up: int) -> dict[str, Any]:
        """Return what a probe would have found."""
        own, others = [0.0, 0.05, 0.1], [-0.1, -0.05, -0.01]
        rows = [[list(own if count else others) for count in row] for row in counts]
        rows[0][0][0], rows[0][9][2] = self.own_low, self.other_high
        wrong = 0.0 if warm_up in self.recovered else 0.02
        many = [5.0] * len(THRESHOLDS)
        as_run = {} if warm_up else {"bias_change": [*[1.0] * (len(THRESHOLDS) - 1), self.one]}
        return {
            "rows": rows,
            "vectors": {
                vector: {
                    "same": [0.9, 0.96, 0.99],
                    "other": [value - 0.1, value, value + 0.01],
                    "all": {
                        "clusters": [5.0] * len(THRESHOLDS),
                        "wrong_pairs": [wrong] * len(THRESHOLDS),
                    },
                    "as_run": {
                        "clusters": as_run.get(vector, many),
                        "wrong_pairs": [0.7] * len(THRESHOLDS),
                    },
                }
                for vector, value in (SEPARATION | self.other).items()
            },
        }
