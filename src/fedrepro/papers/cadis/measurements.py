"""Nguyen et al. 2023: Tables I to III with our own beside them, as frames of the recorded runs.

The paper reports the best test accuracy of a run's rounds. Every method is trained as the paper
means it; "as run" is what the authors' code does (docs/papers/cadis.md).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import TypeAdapter

from fedrepro.base.configfile import read_json
from fedrepro.base.paths import root
from fedrepro.fl import streams
from fedrepro.fl.algorithms.clustering import Relation, true_clusters
from fedrepro.fl.algorithms.probe import THRESHOLDS
from fedrepro.report.choices import by_labels, moved, of_records
from fedrepro.report.expected import called, load_expected
from fedrepro.report.stats import differences, first_reaching, in_order, summarise
from fedrepro.runs.plan import PlannedRun
from fedrepro.runs.records import RunRecord
from fedrepro.runs.runset import MissingRunsError, RunSet

SINGLESET, CADIS = "SingleSet", "CADIS"
BASELINES = ("FedAvg", "FedProx", "FedFA", "FedDyn")
METHODS = (SINGLESET, *BASELINES, CADIS)
"""The rows of Table III, in the paper's order; those as run stand behind them."""

OVER_FEDAVG, OVER_BEST = "CADIS over FedAvg", "CADIS over best baseline"
"""Columns of relative gains, the paper's Impr. (a) and (b)."""


def participants(run: PlannedRun) -> int | None:
    """Return how many clients take part in a round; None for training without clients."""
    return getattr(run.spec.algorithm, "participants", None)


def kind_of(runs: RunSet, run: PlannedRun) -> str:
    """Return the partition of a run, such as mc, pa, bc or uc; empty for pills.

    A group with a grid of the authors' lists, such as ``cifar10_pa``, has several.
    """
    lists = str(run.coordinates.get("lists", ""))
    return lists.rpartition("_")[2] or runs.plan.runs[run.group].labels.get("kind", "")


def results(runs: RunSet, groups: Iterable[str]) -> pd.DataFrame:
    """Return the runs of the groups, one row a run, in plan order.

    Columns: ``group`` and its ``title`` (where that names several partitions, the run's alone), its
    labels (``dataset``, ``kind`` and ``method``) as they are printed, the grid coordinates,
    ``clients`` (``10/100``: clients a round of all; empty for central training), ``seed``, ``run``
    and ``record``.

    Raises:
        MissingRunsError: a record is missing, or all are, where the runs are partial; or there are
            no such runs.
    """
    groups = list(groups)
    members = runs.some(groups)
    if not members:
        raise MissingRunsError(f"{runs.paper} ({runs.scale}) plans no run of {', '.join(groups)}")
    rows = []
    for run in members:
        group, record, drawn = runs.plan.runs[run.group], runs.record(run), participants(run)
        labels = group.labels | {"kind": kind_of(runs, run)}
        names = {name: called(runs.paper, label) for name, label in labels.items()}
        title = group.title
        if "lists" in run.coordinates:
            title = f"{names['method']}, {names['dataset']} {names['kind']}"
        rows.append(
            {"group": run.group, "title": title, **run.coordinates}
            | names
            | {"clients": f"{drawn}/{len(record.partition.counts)}" if drawn else ""}
            | {"seed": run.seed, "run": run.id, "record": record}
        )
    return pd.DataFrame(rows)


def best(record: RunRecord) -> float:
    """Return the best test accuracy of a run's rounds, a fraction."""
    return max(record.metrics["accuracy"])


def tail(record: RunRecord, metric: str = "accuracy", *, last: int) -> np.ndarray:
    """Return the last so many per cent of what a run logs."""
    values = record.metrics[metric]
    return np.array(values[len(values) * (100 - last) // 100 :])


def steps(accuracy: np.ndarray) -> np.ndarray:
    """Return by how much an accuracy moves from one evaluation to the next, [evaluations - 1].

    [NaN] where there is one evaluation alone.
    """
    return np.abs(np.diff(accuracy)) if len(accuracy) > 1 else np.array([math.nan])


def _shown(runs: RunSet, table: str) -> pd.DataFrame:
    """Return the results of a table's runs, with their best accuracy."""
    found = results(runs, runs.groups_of(table))
    return found.assign(best=found["record"].map(best))


def _cells(frame: pd.DataFrame, value: str, unit: str = "fraction") -> pd.DataFrame:
    return summarise(frame, value, ["row", "column"]).assign(unit=unit)


def _each(
    found: pd.DataFrame,
    rows: Iterable[str],
    values: Iterable[dict[str, float]],
    unit: str,
    **others: Iterable[str],
) -> pd.DataFrame:
    """Return the cells of a table with several values of each run.

    Args:
        found: one line a run, as of :func:`results`.
        rows: each line's row in the table.
        values: each line's values, by column.
        unit: of the values.
        others: unit -> columns that have it instead.
    """
    long = [
        {"row": row, "column": column, "value": value, "seed": seed, "run": run}
        for row, seed, run, several in zip(rows, found["seed"], found["run"], values, strict=True)
        for column, value in several.items()
    ]
    units = {column: name for name, columns in others.items() for column in columns}
    cells = _cells(pd.DataFrame(long), "value", unit)
    return cells.assign(unit=[units.get(column, unit) for column in cells["column"]])


def multi_cluster(runs: RunSet, table: str) -> pd.DataFrame:
    """Build Table I: rows are data set and clients a round, columns methods and CADIS's gains."""
    found = _shown(runs, table)
    central = found["method"] == SINGLESET
    repeated = found[central].drop(columns="clients").merge(_drawn(runs, table), on="dataset")
    all_clients = repeated["record"].map(lambda record: str(len(record.partition.counts)))
    repeated["clients"] = repeated.pop("drawn") + "/" + all_clients
    both = pd.concat([repeated, found[~central]], ignore_index=True)
    shown = both.assign(row=both["dataset"] + " " + both["clients"], column=both["method"])
    cells = pd.concat([_cells(shown, "best"), _gains(shown)])
    return in_order(cells, "row", list(shown["row"].unique())).reset_index(drop=True)


def _drawn(runs: RunSet, table: str) -> pd.DataFrame:
    """Return how many clients a round the plan has of each data set, as text."""
    planned = runs.planned(runs.groups_of(table))
    rows = [
        (called(runs.paper, runs.plan.runs[run.group].labels["dataset"]), str(drawn))
        for run in planned
        if (drawn := participants(run))
    ]
    return pd.DataFrame(rows, columns=["dataset", "drawn"]).drop_duplicates()


def _gains(shown: pd.DataFrame) -> pd.DataFrame | None:
    """Return CADIS's relative gains, seed by seed, where what it is compared with is there."""
    rows = []
    for (row, seed), group in shown.groupby(["row", "seed"], sort=False):
        accuracy = dict(zip(group["method"], group["best"], strict=True))
        ids = dict(zip(group["method"], group["run"], strict=True))
        for column, over in ((OVER_FEDAVG, BASELINES[:1]), (OVER_BEST, BASELINES)):
            if {CADIS, *over} <= {*ids}:
                other = max(over, key=accuracy.__getitem__)
                gain = accuracy[CADIS] / accuracy[other] - 1
                rows.append((row, column, seed, (ids[CADIS], ids[other]), gain))
    gains = pd.DataFrame(rows, columns=["row", "column", "seed", "run", "gain"])
    return _cells(gains, "gain") if rows else None


TARGETS = pd.DataFrame(
    [("MNIST", 0.8), ("MNIST", 0.9), ("CIFAR-10", 0.48), ("CIFAR-100", 0.35)],
    columns=["dataset", "target"],
)
"""Accuracies of Table II."""


NEIGHBOURS = 10
"""Evaluations on either side of one that tell how single ones scatter about it."""


def rounds_to(record: RunRecord, target: float) -> int:
    """Return the first evaluated round with the target accuracy; one more than all if none has."""
    first = first_reaching(record.curve("accuracy"), target)
    return int(record.spec["rounds"]) + 1 if first is None else first


def scatter(record: RunRecord, about: int) -> float:
    """Return by how much single evaluations scatter about a round: standard deviation, a fraction.

    It is found from the median absolute deviation of the changes from one to the next, of ten
    evaluations before and as many after, so that neither a steady rise nor a jump adds to it.
    """
    from scipy.stats import median_abs_deviation  # slow to import

    curve = record.curve("accuracy")
    after = [t for t in curve if t >= about][: NEIGHBOURS + 1]
    before = [t for t in curve if t < about][-NEIGHBOURS:]
    changes = np.diff([curve[t] for t in (*before, *after)])
    if not changes.size:
        return 0.0
    of_changes = float(median_abs_deviation(changes, scale="normal"))
    return of_changes / math.sqrt(2)  # a change has the scatter of two evaluations


LATE_STEP = "change from one evaluation to the next, last half"


def ends(runs: RunSet) -> pd.DataFrame:
    """Show the best accuracy beside what the runs end with, and how much they swing there."""
    found = _shown(runs, "ends")
    values = [
        {
            "best evaluation": highest,
            "mean of the last fifth": float(tail(record, last=20).mean()),
            LATE_STEP: float(steps(tail(record, last=50)).mean()),
        }
        for record, highest in zip(found["record"], found["best"], strict=True)
    ]
    return _each(found, found["method"], values, "fraction", points=[LATE_STEP])


SPEED_UP = ", speed-up"
"""Ending of the columns of Table II that compare a method with FedAvg."""


def table2(runs: RunSet) -> pd.DataFrame:
    """Build Table II: rounds to a target, by method, and the speed-ups over FedAvg.

    One round more than there are stands for never.
    """
    found = _shown(runs, "table2").merge(TARGETS, on="dataset")
    shown = found.assign(
        row=found["dataset"] + (100 * found["target"]).map(" {:.0f} %".format),
        column=found["method"],
        rounds=list(map(rounds_to, found["record"], found["target"])),
    )
    return pd.concat([_cells(shown, "rounds", "count"), _speed_ups(shown)], ignore_index=True)


def _speed_ups(shown: pd.DataFrame) -> pd.DataFrame | None:
    """Return FedAvg's rounds over those of the methods as written, seed by seed.

    A seed with which neither reaches the target has none; NaN where no seed has one.
    """
    fedavg, *others = *BASELINES, CADIS
    than = shown.loc[shown["column"] == fedavg, ["row", "seed", "rounds", "run"]]
    pairs = shown[shown["column"].isin(others)].merge(than, on=["row", "seed"])
    if pairs.empty:
        return None
    ends = pairs["record"].map(lambda record: record.spec["rounds"])
    reached = pairs[["rounds_x", "rounds_y"]].min(axis="columns") <= ends
    compared = pairs.assign(
        column=pairs["column"] + SPEED_UP,
        ratio=(pairs["rounds_y"] / pairs["rounds_x"]).where(reached),
        run=pd.Series([*zip(pairs["run_x"], pairs["run_y"], strict=True)]),
    )
    ratios = compared.groupby(["row", "column"])["ratio"]
    known = compared["ratio"].notna() | (ratios.transform("count") == 0)
    return _cells(compared[known], "ratio", "ratio")


def other_partitions(runs: RunSet, table: str) -> pd.DataFrame:
    """Build Table III: rows are methods, columns data set and partition."""
    found = in_order(_shown(runs, table), "method", METHODS)
    shown = found.assign(row=found["method"], column=found["dataset"] + " " + found["kind"])
    return _cells(shown, "best")


VECTORS = {
    "weight_change": "change of the weights (eq. 11)",
    "bias_change": "change of the biases",
    "weight": "weights",
    "bias": "biases",
}
CUTS = {"all": "clusters", "as_run": "clusters rescaled as run"}
COSINES = ("same labels", "other labels")


def recovery(runs: RunSet) -> pd.DataFrame:
    """Show how one local training of all clients tells clusters apart, by what is compared.

    Columns: the mean cosine of pairs of the same and of other labels, and how many clusters a cut
    at a threshold makes: connected components, of cosines rescaled as written or as run.
    """
    found = results(runs, runs.groups_of("recovery"))
    lines = found.merge(pd.DataFrame({"vector": [*VECTORS]}), how="cross")
    rows = lines["vector"].map(VECTORS) + ", " + _start(lines)
    values = [
        _separation(record.final["vectors"][vector])
        for record, vector in zip(lines["record"], lines["vector"], strict=True)
    ]
    return _each(lines, rows, values, "count", number=COSINES)


def recovery_epochs(runs: RunSet) -> pd.DataFrame:
    """Show what :func:`recovery` shows of changes of the weights, a row a length of training."""
    found = results(runs, runs.groups_of("recovery_epochs"))
    values = [_separation(record.final["vectors"]["weight_change"]) for record in found["record"]]
    return _each(found, found["title"] + ", " + _start(found), values, "count", number=COSINES)


def _start(found: pd.DataFrame) -> pd.Series:
    """Return what the local training of each line began with."""
    return (found["warm_up"] > 0).map({False: "fresh model", True: "trained model"})


def _separation(found: dict[str, Any]) -> dict[str, float]:
    cosines = (found["same"][1], found["other"][1])
    return dict(zip(COSINES, cosines, strict=True)) | {
        f"{title}, {tau:g}": number
        for cut, title in CUTS.items()
        for tau, number in zip(THRESHOLDS, found[cut]["clusters"], strict=True)
    }


LEARNT = {
    "clusters": "clusters",
    "wrong_pairs": "share of pairs wrong",
    "similarity_error": "error of the similarities",
    "pairs_met": "share of pairs met",
    "pairs_known": "share of pairs known",
}


COSINES_MET = {"same": "mean cosine, same labels", "other": "mean cosine, other labels"}


def clusters(runs: RunSet) -> pd.DataFrame:
    """Show what CADIS knows of the clusters after its last round."""
    found = results(runs, runs.groups_of("clusters"))
    last = [
        {column: record.metrics[metric][-1] for metric, column in LEARNT.items()}
        | {COSINES_MET[pairs]: mean for pairs, (_, mean, _) in record.final["cosines"].items()}
        for record in found["record"]
    ]
    shares = [column for column in LEARNT.values() if column.startswith("share")]
    numbers = [LEARNT["similarity_error"], *COSINES_MET.values()]
    return _each(found, found["title"], last, "count", fraction=shares, number=numbers)


def partition_facts(counts: Sequence[Sequence[int]]) -> dict[str, float]:
    """Return a partition in numbers; a cluster is clients of the same set of labels.

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
        return float(_shares(held, cluster)[largest].sum())

    return {
        "of the clients": float(largest.mean()),
        "of the labels": float((held[largest] > 0).any(axis=0).mean()),
        "FedAvg": weight(np.ones_like(truth)),
        "CADIS, learnt clusters": weight(learnt),
        "CADIS, true clusters": weight(truth),
    }


def _shares(held: NDArray[np.int64], cluster: Relation) -> NDArray[np.float64]:
    """Return what each client counts for in an average by eq. 1 of all clients, [clients].

    Args:
        held: examples of each class, [clients, classes].
        cluster: which clients are in one cluster, [clients, clients].
    """
    weights = held.sum(axis=1) / cluster.sum(axis=1)
    shares: NDArray[np.float64] = weights / weights.sum()
    return shares


def from_equal_shares(counts: Sequence[Sequence[int]], cluster_of: Sequence[int]) -> float:
    """Return how far the true clusters' shares in an average by eq. 1 are from equal ones.

    Args:
        counts: examples of each class, [clients][classes].
        cluster_of: the cluster by whose size each client's weight is divided, [clients]; all the
            same: FedAvg.

    Returns:
        Their total variation distance, half the sum of the absolute differences, with all clients
        taking part: from 0 to 1.
    """
    held = np.array(counts)
    clusters = np.unique(true_clusters(held), axis=0)
    shares = clusters @ _shares(held, np.equal.outer(cluster_of, cluster_of))
    return float(np.abs(shares - 1 / len(clusters)).sum() / 2)


def partitions(runs: RunSet) -> pd.DataFrame:
    """Show the partitions in numbers."""
    found = results(runs, runs.groups_of("partitions"))
    facts = [partition_facts(record.partition.counts) for record in found["record"]]
    return _each(found, found["dataset"] + " " + found["kind"], facts, "count")


def cluster_weight(runs: RunSet) -> pd.DataFrame:
    """Show the share of the largest cluster in the average, as FedAvg and as CADIS weigh it."""
    found = results(runs, runs.groups_of("cluster_weight"))
    shares = [
        cluster_weights(record.partition.counts, record.final["cluster_of"])
        for record in found["record"]
    ]
    return _each(found, found["dataset"] + " " + found["kind"], shares, "fraction")


LARGE = 30
"""Clients of a large cluster; on MC three in five clients are in one."""
SIZES = (f"clusters of {LARGE} clients or more", "smaller clusters")


def served(runs: RunSet) -> pd.DataFrame:
    """Show how well the models that participants receive serve large clusters and small ones."""
    found = results(runs, runs.groups_of("served"))
    rows = [
        {"row": f"{of}, {size}", "value": value, "column": method, "seed": seed, "run": run}
        for of, method, seed, run, record in zip(
            found["dataset"] + " " + found["kind"],
            *(found[column] for column in ("method", "seed", "run", "record")),
            strict=True,
        )
        for size, (value, _) in zip(SIZES, accuracy_by_size(record), strict=True)
    ]
    frame = pd.DataFrame(rows).assign(unit="fraction")
    fedavg = frame["column"] == BASELINES[0]
    gains = differences(frame[~fedavg], frame[fedavg], "value", on=["row", "seed"])
    both = pd.concat([frame, gains.assign(column=OVER_FEDAVG, unit="points")])
    return summarise(both, "value", ["row", "column"], "unit")


def accuracy_by_size(record: RunRecord, last: int = 50) -> list[tuple[float, float]]:
    """Estimate the accuracy of the received models on the data of clients, by size of cluster.

    A record has the mean over the participants of each round. Over the rounds it is regressed, by
    least squares without an intercept, on the shares of the participants that come from clusters of
    at least :data:`LARGE` clients and from smaller ones; the coefficients are the estimates, and
    can lie outside of 0..1.

    Args:
        record: of a run that logs ``local_accuracy``, on a partition with clusters of both kinds.
        last: per cent of the rounds to look at, counted from the last.

    Returns:
        Estimate and standard error for large clusters, then for smaller ones. The error is 0, as
        that of :class:`fedrepro.report.stats.Error` which is not known, where no more than two
        rounds are looked at.
    """
    held, spec = np.array(record.partition.counts), record.spec
    large = true_clusters(held).sum(axis=1) >= LARGE
    received = tail(record, "local_accuracy", last=last)
    rounds = range(spec["rounds"] - len(received), spec["rounds"])
    count = spec["algorithm"]["participants"]
    drawn = [streams.participants(spec["seed"], t, len(held), count) for t in rounds]
    shares = np.array([large[clients].mean() for clients in drawn])
    given = np.stack([shares, 1 - shares], axis=1)
    estimates = np.linalg.lstsq(given, received)[0]
    variance = ((received - given @ estimates) ** 2).sum() / max(len(received) - 2, 1)
    errors = np.sqrt(variance * np.diag(np.linalg.pinv(given.T @ given)))
    return [(float(of), float(error)) for of, error in zip(estimates, errors, strict=True)]


LAWS = {
    "MC": "MC, the authors' list",
    "MC by law": "MC, the text's law",
    "BC": "BC, the authors' list (40 %)",
    "BC of 60 %": "BC, the text's 60 %",
}


def laws(runs: RunSet) -> pd.DataFrame:
    """Show FedAvg and CADIS on the authors' lists and on partitions by the text's law."""
    found = _shown(runs, "laws")
    return _cells(found.assign(row=found["kind"].map(LAWS), column=found["method"]), "best")


PRINTED_PILL = "PILL, best accuracy (published only)"
ON_STAND_IN = "synthetic stand-in, best accuracy (not PILL)"
ON_PILL = "PILL, best accuracy (ours)"
PILLS = {"synthetic pills": ON_STAND_IN, "PILL": ON_PILL}
"""Columns of Table I's row PILL, of runs on synthetic pills, and of those on the private images."""


def pill(runs: RunSet) -> pd.DataFrame:
    """Show PILL's published cells, and beside them what a stand-in of synthetic images reached.

    A published cell has no run of ours (``n`` is 0 and ``mean`` NaN); the two are not comparable.
    Runs on PILL itself, where the plan has some, are a third kind of column.
    """
    nothing = dict.fromkeys(("mean", "sd", "low", "high"), math.nan)
    printed = pd.DataFrame(
        [
            {"row": item.cell[0], "column": item.cell[1], **nothing, "n": 0}
            | {"unit": _printed_unit(str(item.cell[1]))}
            for item in load_expected(runs.paper).not_reproducible
            if item.artefact == "pill"
        ]
    )
    if not runs.members(runs.groups_of("pill")):
        return printed
    found = _shown(runs, "pill")
    ours = _cells(found.assign(row=found["method"], column=found["dataset"].map(PILLS)), "best")
    return pd.concat([printed, ours], ignore_index=True)


def _printed_unit(column: str) -> str:
    if column == PRINTED_PILL:
        return "fraction"
    return "ratio" if "speed-up" in column else "count"


def measured() -> dict[str, Any]:
    """Return what ``benchmarks/cadis.py`` measured last; its file says on what and when.

    Raises:
        FedreproError: the file is missing or damaged.
    """
    cure = (
        "restore it with git, or measure again with `python benchmarks/cadis.py --out "
        "benchmarks/cadis.json`"
    )
    return read_json(root() / "benchmarks/cadis.json", TypeAdapter(dict[str, Any]), cure)


SERVER_MS, LOCAL_RATIO = "server, ms a round", "local training, times FedAvg's"


def timings() -> pd.DataFrame:
    """Return the measured values: a row a ``network``, ``method`` and ``what``.

    ``what`` is :data:`SERVER_MS` or :data:`LOCAL_RATIO`, whose pairs are neighbours in time.
    Further columns as of :func:`fedrepro.report.stats.summarise`, but ``mean`` is the median and
    ``low`` and ``high`` are the lowest and highest value; ``sd`` is left out (NaN).
    """
    return pd.DataFrame(
        [
            {"network": line["network"], "method": line["method"], "what": what}
            | {"mean": float(np.median(line[key])), "sd": math.nan, "n": len(line[key])}
            | {"low": min(line[key]), "high": max(line[key])}
            | {"values": tuple(line[key]), "runs": ()}
            for line in measured()["lines"]
            for what, key in ((SERVER_MS, "ms"), (LOCAL_RATIO, "ratio"))
            if key in line
        ]
    )


def overhead(runs: RunSet) -> pd.DataFrame:
    """Show the overhead of every method: medians of CPU times of one thread."""
    found = timings()
    found.insert(0, "row", found["method"])
    found.insert(1, "column", found["network"] + ": " + found["what"])
    found["unit"] = found["what"].map({SERVER_MS: "ms", LOCAL_RATIO: "ratio"})
    return found.drop(columns=["network", "method", "what"])


def ablation(runs: RunSet, table: str) -> pd.DataFrame:
    """Build our tables of what each part of CADIS adds to FedAvg, paired by seed."""
    found = _shown(runs, table).assign(column="best accuracy", unit="fraction")
    fedavg = found["method"] == BASELINES[0]
    gains = differences(found[~fedavg], found[fedavg], "best", on=["dataset", "kind", "seed"])
    both = pd.concat([found, gains.assign(column="over FedAvg", unit="points")])
    both["of"] = both["dataset"] + both["kind"].replace({"MC": "", "BC": " BC", "UC": " UC"})
    both["row"] = both["of"] + ", " + both["method"]
    both = in_order(both, "of", list(both["of"].unique()))
    return summarise(both, "best", ["row", "column"], "unit")


def by_choice(runs: RunSet) -> pd.DataFrame:
    """Return the best accuracies by what the paper leaves open (:mod:`fedrepro.report.choices`)."""
    return by_labels(runs, of_records(best))


TABLES: dict[str, Callable[[RunSet], pd.DataFrame]] = {
    "table1": functools.partial(multi_cluster, table="table1"),
    "table1_mnist": functools.partial(multi_cluster, table="table1_mnist"),
    "ends": ends,
    "table2": table2,
    "table3": functools.partial(other_partitions, table="table3"),
    "table3_mnist": functools.partial(other_partitions, table="table3_mnist"),
    "recovery": recovery,
    "recovery_epochs": recovery_epochs,
    "clusters": clusters,
    "ablation": functools.partial(ablation, table="ablation"),
    "ablation_others": functools.partial(ablation, table="ablation_others"),
    "choices": lambda runs: moved(by_choice(runs)),
    "cluster_weight": cluster_weight,
    "served": served,
    "partitions": partitions,
    "laws": laws,
    "pill": pill,
    "overhead": overhead,
}
