"""Nguyen et al. 2023: which run is which cell, and Tables I to III with our own beside them.

The paper reports the best test accuracy of a run's rounds. Every method is trained as the paper
means it; "as run" is what the authors' code does (docs/papers/cadis.md). A table shows the cells
whose runs are recorded.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fedrepro.base.errors import FedreproError
from fedrepro.base.paths import root
from fedrepro.fl.algorithms.clustering import Relation, true_clusters
from fedrepro.fl.algorithms.probe import THRESHOLDS
from fedrepro.fl.partition.index_file import IndexFile
from fedrepro.report.expected import load_expected
from fedrepro.report.stats import summarise
from fedrepro.runs.plan import PlannedRun, load_plan
from fedrepro.runs.runset import MissingRunsError, RunSet

DATASETS = {"mnist": "MNIST", "cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}
SINGLESET = "SingleSet"
METHODS = {
    "singleset": SINGLESET,
    "fedavg": "FedAvg",
    "fedprox": "FedProx",
    "fedfa": "FedFA",
    "feddyn": "FedDyn",
    "cadis": "CADIS",
}
BASELINES = ("FedAvg", "FedProx", "FedFA", "FedDyn")
KINDS = ("PA", "BC", "UC")
AS_RUN = ", as run"

OVER_FEDAVG, OVER_BEST = "CADIS over FedAvg", "CADIS over best baseline"
"""Columns of relative gains, the paper's Impr. (a) and (b)."""

TARGETS = {"MNIST": (0.8, 0.9), "CIFAR-10": (0.48,), "CIFAR-100": (0.35,)}
"""Accuracies of Table II."""


@dataclass(frozen=True)
class Place:
    """Where a run belongs.

    Attributes:
        dataset: title of the data set.
        kind: MC, PA, BC or UC.
        method: title of the method, with ``, as run`` where it is the authors' code.
        clients: ``10/100``: clients a round of all; empty for SingleSet.
    """

    dataset: str
    kind: str
    method: str
    clients: str


def labels_of(run: PlannedRun) -> dict[str, str]:
    """Return the labels of a run's group."""
    return load_plan(run.paper).runs[run.group].labels


def place(run: PlannedRun) -> Place | None:
    """Return where a run belongs; None if it is not one of Tables I to III."""
    labels, partition = labels_of(run), run.spec.partition
    if "dataset" not in labels:
        return None
    kind = labels.get("kind") or (partition.kind if isinstance(partition, IndexFile) else "")
    participants = getattr(run.spec.algorithm, "participants", None)
    return Place(
        labels["dataset"],
        kind,
        labels["method"],
        f"{participants}/{partition.clients}" if participants else "",
    )


def recorded(runs: RunSet, groups: Iterable[str]) -> list[PlannedRun]:
    """Return the runs of the groups that have a record, in plan order.

    Raises:
        MissingRunsError: there is none.
    """
    groups = list(groups)
    missing = {run.id for run in runs.missing(groups)}
    found = [run for run in runs.members(groups) if run.id not in missing]
    if not found:
        runs.require(groups, "this")
        raise MissingRunsError(f"{runs.paper} ({runs.scale}) plans no run of {', '.join(groups)}")
    return found


def results(runs: RunSet, groups: Iterable[str]) -> pd.DataFrame:
    """Return what every recorded run of the groups reached, one row a run.

    Columns: ``dataset``, ``kind``, ``method``, ``clients`` (of :class:`Place`), ``seed``, ``run``,
    ``best`` and ``final`` (test accuracy, fractions).

    Raises:
        MissingRunsError: none is recorded.
    """
    rows = []
    for run in recorded(runs, groups):
        where = place(run)
        if where is not None:
            accuracy = runs.record(run).metrics["accuracy"]
            rows.append(
                vars(where)
                | {"seed": run.seed, "run": run.id}
                | {"best": max(accuracy), "final": accuracy[-1]}
            )
    return pd.DataFrame(rows)


def _rank(methods: pd.Series) -> pd.Series:
    """Return the order of the paper's rows, with the methods as run behind them."""
    order = [*METHODS.values(), *(method + AS_RUN for method in METHODS.values())]
    return methods.map({method: i for i, method in enumerate(order)})


def _cells(frame: pd.DataFrame, value: str, unit: str = "fraction") -> pd.DataFrame:
    return summarise(frame, value, ["row", "column"]).assign(unit=unit)


def table1(runs: RunSet) -> pd.DataFrame:
    """Build Table I: rows are data set and clients a round, columns methods and CADIS's gains."""
    return _multi_cluster(runs, runs.plan.tables["table1"].runs)


def table1_mnist(runs: RunSet) -> pd.DataFrame:
    """Build the row of Table I with MNIST and 10 clients a round."""
    return _multi_cluster(runs, runs.plan.tables["table1_mnist"].runs)


def _multi_cluster(runs: RunSet, groups: Sequence[str]) -> pd.DataFrame:
    found = results(runs, groups)
    central = found["method"] == SINGLESET
    federated = found[~central]
    keys = federated[["dataset", "clients"]].drop_duplicates()
    repeated = found[central].drop(columns="clients").merge(keys, on="dataset")
    both = pd.concat([repeated, federated], ignore_index=True)
    shown = both.assign(row=both["dataset"] + " " + both["clients"], column=both["method"])
    cells = _cells(shown, "best")
    order = {name: i for i, name in enumerate(dict.fromkeys(shown["row"]))}
    gains = _gains(shown)
    if len(gains):
        cells = pd.concat([cells, _cells(gains, "gain")], ignore_index=True)
    return cells.sort_values("row", key=lambda row: row.map(order), kind="stable").reset_index(
        drop=True
    )


def _gains(shown: pd.DataFrame) -> pd.DataFrame:
    """Return CADIS's relative gains, seed by seed, where all methods of a row are there."""
    rows = []
    for (row, seed), group in shown.groupby(["row", "seed"], sort=False):
        best: dict[str, float] = dict(zip(group["method"], group["best"], strict=True))
        ids: dict[str, str] = dict(zip(group["method"], group["run"], strict=True))
        if not {"CADIS", *BASELINES} <= set(best):
            continue
        leader = max(BASELINES, key=lambda name: best[name])
        for column, other in ((OVER_FEDAVG, "FedAvg"), (OVER_BEST, leader)):
            gain = best["CADIS"] / best[other] - 1
            both = (ids["CADIS"], ids[other])
            rows.append({"row": row, "column": column, "seed": seed, "run": both, "gain": gain})
    return pd.DataFrame(rows)


def rounds_to(runs: RunSet, run: PlannedRun, target: float) -> int:
    """Return the first evaluated round with the target accuracy; one more than all if none has."""
    metrics = runs.record(run).metrics
    for t, accuracy in zip(metrics["evaluated_rounds"], metrics["accuracy"], strict=True):
        if accuracy >= target - 1e-9:
            return int(t)
    return run.spec.rounds + 1


def table2(runs: RunSet) -> pd.DataFrame:
    """Build Table II: rounds to a target, by method; one more than there are stands for never."""
    rows = []
    for run in recorded(runs, runs.plan.tables["table2"].runs):
        where = place(run)
        assert where is not None
        for target in TARGETS[where.dataset]:
            rows.append(
                {
                    "row": f"{where.dataset} {100 * target:.0f} %",
                    "column": where.method,
                    "seed": run.seed,
                    "run": run.id,
                    "rounds": rounds_to(runs, run, target),
                }
            )
    return _cells(pd.DataFrame(rows), "rounds", "count")


def table3(runs: RunSet) -> pd.DataFrame:
    """Build Table III: rows are methods, columns data set and partition."""
    return _other_partitions(runs, runs.plan.tables["table3"].runs)


def table3_mnist(runs: RunSet) -> pd.DataFrame:
    """Build the columns of Table III with MNIST."""
    return _other_partitions(runs, runs.plan.tables["table3_mnist"].runs)


def _other_partitions(runs: RunSet, groups: Sequence[str]) -> pd.DataFrame:
    found = results(runs, groups).sort_values("method", key=_rank, kind="stable")
    shown = found.assign(row=found["method"], column=found["dataset"] + " " + found["kind"])
    return _cells(shown, "best")


VECTORS = {
    "weight_change": "change of the weights (eq. 11)",
    "bias_change": "change of the biases",
    "weight": "weights",
    "bias": "biases",
}
STARTS = {0: "fresh model", 1: "trained model"}
SAME, OTHER = "same labels", "other labels"
RULES = {"all": "clusters", "as_run": "clusters as run"}


def separations(runs: RunSet) -> pd.DataFrame:
    """Return what one local training tells of the clusters: one row a run, vector and figure.

    Columns: ``warm_up``, ``vector``, ``what``, ``seed``, ``run`` and ``value``. ``what`` is the
    mean cosine of pairs of the same or of other labels, or a rule and its threshold: ``clusters,
    0.8`` is how many clusters it makes.
    """
    rows = []
    for _, run in runs.final(["probe_clusters"], ["vectors"]).iterrows():
        for vector in VECTORS:
            found = run["vectors"][vector]
            values = {SAME: found["same"][1], OTHER: found["other"][1]}
            for rule, title in RULES.items():
                values |= {
                    f"{title}, {tau:g}": number
                    for tau, number in zip(THRESHOLDS, found[rule]["clusters"], strict=True)
                }
            rows += [
                {"warm_up": run["warm_up"], "vector": vector, "what": what, "value": value}
                | {"seed": run["seed"], "run": run["run"]}
                for what, value in values.items()
            ]
    return pd.DataFrame(rows)


def recovery(runs: RunSet) -> pd.DataFrame:
    """Show how one local training of all clients tells clusters apart, by what is compared."""
    found = separations(runs)
    shown = found.assign(
        row=[
            f"{VECTORS[vector]}, {STARTS[warm_up]}"
            for vector, warm_up in zip(found["vector"], found["warm_up"], strict=True)
        ],
        column=found["what"],
    )
    return _cells(shown, "value", "count")


LEARNT = {
    "clusters": "clusters",
    "wrong_pairs": "share of pairs wrong",
    "similarity_error": "error of the similarities",
    "pairs_met": "share of pairs met",
    "pairs_known": "share of pairs known",
}


def clusters(runs: RunSet) -> pd.DataFrame:
    """Show what CADIS knows of the clusters after its last round."""
    rows = []
    for run in recorded(runs, runs.plan.tables["clusters"].runs):
        metrics = runs.record(run).metrics
        title = runs.plan.runs[run.group].title
        if run.coordinates:
            title += ", " + ", ".join(f"{key} {value}" for key, value in run.coordinates.items())
        rows += [
            {"row": title, "column": column, "seed": run.seed, "run": run.id}
            | {"value": metrics[metric][-1]}
            for metric, column in LEARNT.items()
        ]
    return _cells(pd.DataFrame(rows), "value", "count")


def partition_facts(counts: Sequence[Sequence[int]]) -> dict[str, float]:
    """Return a partition in numbers.

    Args:
        counts: examples of each class, [clients][classes].
    """
    held = np.array(counts)
    same = true_clusters(held)
    sizes = held.sum(axis=1)
    return {
        "clients": len(held),
        "examples": float(sizes.sum()),
        "smallest client": float(sizes.min()),
        "median client": float(np.median(sizes)),
        "largest client": float(sizes.max()),
        "labels a client": float((held > 0).sum(axis=1).mean()),
        "clusters": len(np.unique(same, axis=0)),
        "largest cluster": float(same.sum(axis=1).max()),
    }


def partitions(runs: RunSet) -> pd.DataFrame:
    """Show the partitions in numbers; a cluster is clients of the same set of labels."""
    rows = []
    for run in recorded(runs, runs.plan.tables["partitions"].runs):
        where = place(run)
        assert where is not None
        facts = partition_facts(runs.record(run).partition.counts)
        rows += [
            {"row": f"{where.dataset} {where.kind}", "column": name, "value": value}
            | {"seed": run.seed, "run": run.id}
            for name, value in facts.items()
        ]
    return _cells(pd.DataFrame(rows), "value", "count")


def cluster_weights(counts: Sequence[Sequence[int]], cluster_of: Sequence[int]) -> dict[str, float]:
    """Return what the largest true cluster counts for when all clients are averaged.

    Args:
        counts: examples of each class, [clients][classes].
        cluster_of: each client's learnt cluster, [clients].

    Returns:
        Fractions: of the clients, of the labels, and of the average by eq. 1 with all clients in
        one cluster (FedAvg), with the learnt clusters, and with the true ones.
    """
    held = np.array(counts)
    truth = true_clusters(held)
    largest = truth[truth.sum(axis=1).argmax()]
    learnt = np.equal.outer(cluster_of, cluster_of)

    def weight(cluster: Relation) -> float:
        weights = held.sum(axis=1) / cluster.sum(axis=1)
        return float(weights[largest].sum() / weights.sum())

    return {
        "of the clients": float(largest.mean()),
        "of the labels": float((held[largest] > 0).any(axis=0).mean()),
        "FedAvg": weight(np.ones_like(truth)),
        "CADIS, learnt clusters": weight(learnt),
        "CADIS, true clusters": weight(truth),
    }


def cluster_weight(runs: RunSet) -> pd.DataFrame:
    """Show the share of the largest cluster in the average, as FedAvg and as CADIS weigh it."""
    rows = []
    for run in recorded(runs, runs.plan.tables["cluster_weight"].runs):
        where, record = place(run), runs.record(run)
        assert where is not None
        shares = cluster_weights(record.partition.counts, record.final["cluster_of"])
        rows += [
            {"row": f"{where.dataset} {where.kind}", "column": name, "value": value}
            | {"seed": run.seed, "run": run.id}
            for name, value in shares.items()
        ]
    return _cells(pd.DataFrame(rows), "value")


def laws(runs: RunSet) -> pd.DataFrame:
    """Show FedAvg and CADIS on the authors' lists and on partitions by the text's law."""
    rows: list[dict[str, Any]] = []
    for run in recorded(runs, runs.plan.tables["laws"].runs):
        labels, accuracy = labels_of(run), runs.record(run).metrics["accuracy"]
        rows.append(
            {"row": labels["law"], "column": labels["method"], "seed": run.seed, "run": run.id}
            | {"best": max(accuracy)}
        )
    return _cells(pd.DataFrame(rows), "best")


ON_STAND_IN = "synthetic stand-in, best accuracy (not PILL)"
"""Column of our runs on synthetic pills."""
ON_PILL = "PILL, best accuracy (ours)"
"""Column of runs on the private images."""


def stand_in_method(run: PlannedRun) -> str:
    """Return the title of a run's method on pills."""
    return labels_of(run)["method"]


def stand_in_runs(runs: RunSet, groups: Sequence[str]) -> list[PlannedRun]:
    """Return the recorded runs on pills; none where the scale plans none."""
    return recorded(runs, groups) if runs.members(groups) else []


def pill(runs: RunSet) -> pd.DataFrame:
    """Show PILL's published cells, and beside them what a stand-in of made-up images reached.

    A published cell has no run of ours (``n`` is 0 and ``mean`` NaN); the two are not comparable.
    Runs on PILL itself, where the plan has some, are a third kind of column.
    """
    nothing = {"mean": math.nan, "sd": math.nan, "low": math.nan, "high": math.nan}
    printed = pd.DataFrame(
        [
            {"row": item.cell[0], "column": item.cell[1], **nothing, "n": 0}
            | {"unit": "count" if item.published > 1 else "fraction"}
            for item in load_expected(runs.paper).not_reproducible
            if item.artefact == "pill"
        ]
    )
    rows = [
        {"row": stand_in_method(run), "seed": run.seed, "run": run.id}
        | {"column": ON_STAND_IN if "images" in labels_of(run) else ON_PILL}
        | {"best": max(runs.record(run).metrics["accuracy"])}
        for run in stand_in_runs(runs, runs.plan.tables["pill"].runs)
    ]
    if not rows:
        return printed
    return pd.concat([printed, _cells(pd.DataFrame(rows), "best")], ignore_index=True)


def measured() -> dict[str, Any]:
    """Return what ``benchmarks/cadis.py`` measured last; its file says on what and when.

    Raises:
        FedreproError: the file is missing or is not JSON.
    """
    file = root() / "benchmarks/cadis.json"
    try:
        content: dict[str, Any] = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise FedreproError(
            f"{file}: cannot be read ({error}); restore it with git, or measure again with "
            "`python benchmarks/cadis.py --out benchmarks/cadis.json`"
        ) from None
    return content


SERVER_MS, LOCAL_RATIO = "server, ms a round", "local training, times FedAvg's"


def timings() -> pd.DataFrame:
    """Return every measured value: ``network``, ``method``, ``what``, ``repeat`` and ``value``.

    ``what`` is :data:`SERVER_MS` or :data:`LOCAL_RATIO`, whose pairs are neighbours in time.
    """
    return pd.DataFrame(
        [
            {"network": line["network"], "method": line["method"], "what": what}
            | {"repeat": number, "value": value}
            for line in measured()["lines"]
            for what, key in ((SERVER_MS, "ms"), (LOCAL_RATIO, "ratio"))
            for number, value in enumerate(line.get(key, []))
        ]
    )


def spread(found: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Summarise repeated timings: the columns of a table, with the median as ``mean``.

    ``low`` and ``high`` are the lowest and highest value; ``sd`` is left out (NaN).
    """
    rows = []
    for key, group in found.groupby(list(by), sort=False):
        values = group["value"]
        rows.append(
            dict(zip(by, key, strict=True))
            | {"mean": float(values.median()), "sd": math.nan, "n": len(values)}
            | {"low": float(values.min()), "high": float(values.max())}
            | {"values": tuple(values), "runs": ()}
        )
    return pd.DataFrame(rows)


def overhead(runs: RunSet) -> pd.DataFrame:
    """Show the overhead of every method: medians of CPU times of one thread."""
    found = timings()
    shown = found.assign(row=found["method"], column=found["network"] + ": " + found["what"])
    return spread(shown, ["row", "column"]).assign(unit="count")


def moving_average(values: Sequence[float], window: int) -> list[float]:
    """Return the mean of each value and up to ``window - 1`` before it."""
    total = np.concatenate([[0.0], np.cumsum(values)])
    ends = np.arange(1, len(values) + 1)
    starts = np.maximum(ends - window, 0)
    return [float(v) for v in (total[ends] - total[starts]) / (ends - starts)]


TABLES: dict[str, Callable[[RunSet], pd.DataFrame]] = {
    "table1": table1,
    "table1_mnist": table1_mnist,
    "table2": table2,
    "table3": table3,
    "table3_mnist": table3_mnist,
    "recovery": recovery,
    "clusters": clusters,
    "cluster_weight": cluster_weight,
    "partitions": partitions,
    "laws": laws,
    "pill": pill,
    "overhead": overhead,
}
