"""Nguyen et al. 2023: figures 2, 5, 7 to 11, and our own on what the code does and on a stand-in.

The paper prints its curves as images only. Where they are curves of Table I's runs, its best
accuracies stand at the end of ours.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from fedrepro.fl.algorithms.clustering import true_clusters
from fedrepro.fl.data.pill_counts import COUNTS as PILL
from fedrepro.papers.cadis.measurements import SERVER_MS, best, by_choice, results, timings
from fedrepro.papers.cadis.meeting import rounds_to_see_all, share_of_pairs_met
from fedrepro.report import choices
from fedrepro.report.expected import called, cell_key, published
from fedrepro.report.figure import Figure, at_the_end
from fedrepro.report.stats import moving_average, summarise
from fedrepro.runs.runset import RunSet

WINDOW = 10
"""Values of a moving average; the paper's number is lost."""

STANDARD = "CADIS without transitive learning"


def _curves(found: pd.DataFrame, metric: str, window: int = 1) -> pd.DataFrame:
    """Return a metric over the rounds, one row a run and value.

    Args:
        found: what :func:`fedrepro.papers.cadis.measurements.results` returns.
        metric: of the records; runs without it are left out.
        window: values of the moving average.

    Returns:
        The columns of ``found`` but for the record, ``x`` (the round) and ``value``.
    """
    rows = []
    for run in found.to_dict("records"):
        record = run.pop("record")
        if metric in record.metrics:
            curve = record.curve(metric)
            values = moving_average(list(curve.values()), window)
            rows += [run | {"x": t, "value": value} for t, value in zip(curve, values, strict=True)]
    return pd.DataFrame(rows)


def _panels(found: pd.DataFrame, metrics: Mapping[str, tuple[str, int]]) -> pd.DataFrame:
    """Return the curves of several panels, which have a column and are part of the series.

    Args:
        found: the runs, with a column ``series``.
        metrics: panel -> metric, and values of its moving average.
    """
    parts = [
        _curves(run, metric, window).assign(panel=panel)
        for _, run in found.groupby("run", sort=False)
        for panel, (metric, window) in metrics.items()
    ]
    curves = pd.concat(parts, ignore_index=True)
    return curves.assign(series=curves["series"] + ", " + curves["panel"])


def _summary(curves: pd.DataFrame, *more: str) -> pd.DataFrame:
    return summarise(curves, "value", ["series", "x"], *more)


def _beside_table1(
    runs: RunSet, cells: pd.DataFrame, found: pd.DataFrame, ending: str = ""
) -> pd.DataFrame:
    """Return the cells with ``reported``, Table I's best accuracy, in the last row of a curve.

    Args:
        runs: the paper's runs at a scale.
        cells: with ``series`` and ``x``.
        found: the runs; a column ``series`` says to which curve they belong.
        ending: that the series of the cells have more, those of accuracy curves.
    """
    printed = published(runs.paper, "table1")
    reported = {
        run["series"] + ending: printed.get(
            cell_key(f"{run['dataset']} {run['clients']}", run["method"])
        )
        for run in found.to_dict("records")
    }
    return at_the_end(cells, pd.to_numeric(cells["series"].map(reported)))


def case_study(runs: RunSet) -> pd.DataFrame:
    """Return figure 2: test accuracy (fraction) over the rounds; also ``reported`` (Table I's)."""
    found = results(runs, runs.groups_of("fig2"))
    found = found.assign(series=found["method"])
    return _beside_table1(runs, _summary(_curves(found, "accuracy")), found)


SHOWN_CLASS = 8


def _holder(counts: np.ndarray) -> dict[str, int]:
    """Return panel -> its client: the first that holds the class."""
    return {f"class {SHOWN_CLASS} only": int((counts[:, SHOWN_CLASS] > 0).argmax())}


def _pair(counts: np.ndarray) -> dict[str, int]:
    """Return panel -> its client: the first, who holds two classes."""
    return {f"classes {' and '.join(map(str, np.flatnonzero(counts[0])))}": 0}


def _twins(counts: np.ndarray) -> dict[str, int]:
    """Return panel -> its client: two of one cluster, and one of another."""
    same = true_clusters(counts)
    return {
        "client A, first cluster": 0,
        "client B, first cluster": int(same[0, 1:].argmax()) + 1,
        "client C, another cluster": int((~same[0]).argmax()),
    }


def row_changes(runs: RunSet) -> pd.DataFrame:
    """Return figure 5: how the rows of the final layer changed, for five clients of first seeds.

    ``series`` is a panel, ``x`` a class, ``mean`` the row's mean change; further columns: ``low``
    and ``high``, the row's lowest and highest change, and ``held``, whether the client holds it.
    """
    groups = runs.groups_of("fig5")
    found = results(runs, groups).drop_duplicates("group", ignore_index=True)
    records = dict(zip(found["group"], found["record"], strict=True))
    shown = {
        panel: (records[group], client)
        for group, clients in zip(groups, (_holder, _pair, _twins), strict=True)
        if group in records
        for panel, client in clients(np.array(records[group].partition.counts)).items()
    }
    return pd.DataFrame(
        [
            {"series": panel, "x": label, "mean": mean, "low": low, "high": high}
            | {"held": record.partition.counts[client][label] > 0, "run": record.run_id}
            for panel, (record, client) in shown.items()
            for label, (low, mean, high) in enumerate(record.final["rows"][client])
        ]
    )


PUBLISHED = "PILL (published)"


def class_distribution(runs: RunSet) -> pd.DataFrame:
    """Return figure 7: the examples of each class and client, by partition; PILL's as published.

    ``series`` is ``<partition>, class <c>``, ``x`` a client, ``mean`` the number of examples;
    further columns: ``panel`` and ``label``.
    """
    groups = [group for group in runs.groups_of("fig7") if runs.members([group])]
    firsts = [results(runs, [group]).iloc[0] for group in groups]
    shown = [
        (f"{run['dataset']} {run['kind']}", run["record"].partition.counts, run["run"])
        for run in firsts
    ]
    return pd.DataFrame(
        [
            {"series": f"{panel}, class {label}", "x": client, "mean": count, "run": run}
            | {"panel": panel, "label": label}
            for panel, clients, run in [*shown, (PUBLISHED, PILL, "")]
            for client, counts in enumerate(clients)
            for label, count in enumerate(counts)
        ]
    )


ROBUSTNESS = {
    "accuracy": ("accuracy", 1),
    "moving average": ("accuracy", WINDOW),
    "local": ("local_accuracy", WINDOW),
    "spread": ("local_accuracy_sd", WINDOW),
}
"""Panels of figure 8 -> metric, and values of its moving average."""


def robustness(runs: RunSet) -> pd.DataFrame:
    """Return figure 8: accuracies (fractions) by data set.

    Further columns: ``dataset``, ``method``, ``panel`` and ``reported`` (Table I's).
    """
    found = results(runs, runs.groups_of("fig8"))
    named = found.assign(series=found["dataset"] + ", " + found["method"])
    cells = _summary(_panels(named, ROBUSTNESS), "dataset", "method", "panel")
    return _beside_table1(runs, cells, named, ", accuracy")


ERROR, KNOWN = "error", "known"
MET, SEEN = "expected to have met", "all clients seen"


def transitive(runs: RunSet) -> pd.DataFrame:
    """Return figure 9: error of the similarities, and share of pairs known, over the rounds.

    A further column ``panel``. The series ``expected to have met`` is computed (Theorem III.4's
    setting), and ``all clients seen`` marks the round by which that is expected: of no run (n = 0).
    """
    found = results(runs, runs.groups_of("fig9"))
    eps = found.reindex(columns=["eps"])["eps"].fillna(0.02).map("transitive, eps = {:g}".format)
    named = found.assign(series=eps.mask(found["method"] == STANDARD, "standard"))
    curves = _panels(named, {ERROR: ("similarity_error", 1), KNOWN: ("pairs_known", 1)})
    record = found["record"].iloc[-1]
    clients = len(record.partition.counts)
    drawn = min(record.spec["algorithm"]["participants"], clients)
    rounds = range(record.spec["rounds"] + 1)
    met = [(MET, t, share_of_pairs_met(clients, drawn, t)) for t in rounds]
    seen = (SEEN, rounds_to_see_all(clients, drawn), 1.0)
    computed = pd.DataFrame([*met, seen], columns=["series", "x", "mean"]).assign(panel=KNOWN, n=0)
    return pd.concat([_summary(curves, "panel"), computed], ignore_index=True)


def sensitivity(runs: RunSet) -> pd.DataFrame:
    """Return figure 10: best accuracy (fraction) by threshold, one series a weight.

    A further column ``dataset``: the scales differ in it.
    """
    found = results(runs, runs.groups_of("fig10"))
    shown = found.assign(
        series=found["distillation"].map("lambda = {:g}".format),
        x=found["threshold"],
        value=found["record"].map(best),
    )
    name = found["record"][0].spec["dataset"]["name"]
    return _summary(shown).assign(dataset=called(runs.paper, name))


def as_run(runs: RunSet) -> pd.DataFrame:
    """Return our own figure: what the baselines do as written and as run.

    Further columns: ``method``, ``panel`` and ``reported`` (Table I's).
    """
    found = results(runs, runs.groups_of("as_run"))
    named = found.assign(series=found["method"])
    metrics = {"accuracy": ("accuracy", 1), "norm": ("norm", 1)}
    cells = _summary(_panels(named, metrics), "method", "panel")
    return _beside_table1(runs, cells, named, ", accuracy")


def stand_in(runs: RunSet) -> pd.DataFrame:
    """Return our own figure on synthetic pills: test accuracy (fraction) over the rounds."""
    found = results(runs, runs.groups_of("synthetic_pills"))
    return _summary(_curves(found.assign(series=found["method"]), "accuracy"))


def overhead(runs: RunSet) -> pd.DataFrame:
    """Return figure 11: ``x`` is a method, ``mean`` a median; further columns: network, panel.

    Panels: the server's milliseconds a round; CADIS's local training as a multiple of FedAvg's.
    """
    found = timings().rename(columns={"method": "x", "what": "panel"})
    found.insert(0, "series", found["network"] + ", " + found["panel"])
    keys, further = ["series", "x"], ["network", "panel"]
    return found[[*keys, *found.columns.drop([*keys, *further]), *further]]


FIGURES: dict[str, Figure] = {
    "fig2": Figure(case_study),
    "fig5": Figure(row_changes, "weights"),
    "fig7": Figure(class_distribution, "count"),
    "fig8": Figure(robustness, {", spread": "points", "": "fraction"}),
    "fig9": Figure(transitive, {f", {ERROR}": "number", "": "fraction"}),
    "fig10": Figure(sensitivity),
    "fig11": Figure(overhead, {SERVER_MS: "ms", "": "ratio"}),
    "synthetic_pills": Figure(stand_in),
    "as_run": Figure(as_run, {", norm": "weights", "": "fraction"}),
    "open_choices": choices.figure(by_choice),
}
