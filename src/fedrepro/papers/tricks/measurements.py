"""Ozdayi et al. 2020: Tables 1 to 5, the best combination, the grid search and what is open.

Accuracies are those after the last round, on the test images: the paper says "validation" without
saying of what, and the authors' other code evaluates on the test images under that name.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from fedrepro.report.choices import by_labels, moved, of_records
from fedrepro.report.expected import published
from fedrepro.report.stats import SUMMARY, in_order, summarise
from fedrepro.runs.records import RunRecord
from fedrepro.runs.runset import RunSet

ACCURACY = "accuracy"
"""The only column of the paper's tables."""

CENTRALISED, IID, BASELINE = "centralised", "iid", "niid"
PROJECTED, PROJECTED_NOISE = "projected", "projected_noise"

ROWS: dict[str, dict[str, str]] = {
    "table1": {CENTRALISED: "Centralized", IID: "FL - IID", BASELINE: "FL - NIID(5)"},
    "table2": {BASELINE: "server-side data 0 %", "server_training": "server-side data 5 %"},
    "table3": {
        BASELINE: "threshold 0, noise 0",
        PROJECTED: "threshold 3, noise 0",
        PROJECTED_NOISE: "threshold 3, noise 0.0001",
        "projected_update": "threshold 3 on the update, noise 0",
        "projected_update_noise": "threshold 3 on the update, noise 0.0001",
    },
    "table4": {BASELINE: "momentum 0", "momentum_5": "momentum 0.5", "momentum_9": "momentum 0.9"},
    "table5": {
        BASELINE: "adjustable step size: no",
        "sign_agreement": "adjustable step size: yes",
        "signed_vote": "adjustable step size: as printed",
    },
    "best_combination": {"best": "server-side data 5 %, momentum 0.9, adjustable step size"},
}
"""The groups of runs of each table, by the plan's names, and what the rows are called."""

REPEATS = 3
"""Of every experiment of the paper (section 4.1)."""


def of_paper(runs: RunSet, *, name: str) -> pd.DataFrame:
    """Build a table of the paper: one row a group of runs."""
    rows = ROWS[name]
    finals = runs.final([*rows], [ACCURACY])
    cells = finals.assign(row=finals["group"].map(rows), column=ACCURACY)
    return summarise(cells, ACCURACY, ["row", "column"]).assign(unit="fraction")


# Are the gains more than chance?


def printed(paper: str) -> dict[str, dict[str, Any]]:
    """Return what the paper prints of each group: ``mean``, ``sd``, ``n``; ``runs`` is empty."""
    cells = {}
    for table, labels in ROWS.items():
        means, sds = published(paper, table), published(paper, table, "sd")
        for group, label in labels.items():
            if (label, ACCURACY) in means and (label, ACCURACY) in sds:
                mean, sd = means[label, ACCURACY], sds[label, ACCURACY]
                cells[group] = {"mean": mean, "sd": sd, "n": REPEATS, "runs": ()}
    return cells


def welch(one: Mapping[Any, Any], other: Mapping[Any, Any]) -> tuple[float, float]:
    """Return Welch's t and its two-sided p of the difference of two means; NaNs without spread.

    Args:
        one: ``mean``, sample standard deviation ``sd``, number of values ``n``.
        other: what is subtracted.
    """
    from scipy.stats import ttest_ind_from_stats  # slow to import

    if min(one["n"], other["n"]) < 2 or one["sd"] == other["sd"] == 0:
        return math.nan, math.nan
    mean, sd, n = one["mean"], one["sd"], one["n"]
    result = ttest_ind_from_stats(
        mean, sd, n, other["mean"], other["sd"], other["n"], equal_var=False
    )
    return float(result.statistic), float(result.pvalue)


def significance(runs: RunSet) -> pd.DataFrame:
    """Build our own table: is a gain over the baseline more than chance?

    Gain, Welch's t and two-sided p, of the published means and standard deviations (three repeats)
    and of our runs; n is the smaller number of repeats. The last row compares projection with noise
    and without.
    """
    techniques = runs.labelled(role="technique")
    finals = runs.final([BASELINE, *techniques], [ACCURACY])
    ours = summarise(finals, ACCURACY, ["group"]).set_index("group").to_dict("index")
    pairs = [(runs.plan.runs[group].title, group, BASELINE) for group in techniques]
    pairs.append(("noise, beside projection without", PROJECTED_NOISE, PROJECTED))
    rows = []
    for row, group, base in pairs:
        for whose, cells in (("published", printed(runs.paper)), ("ours", ours)):
            if not {group, base} <= cells.keys():
                continue
            one, other = cells[group], cells[base]
            n, used, nan = min(one["n"], other["n"]), one["runs"] + other["runs"], math.nan
            gain, (t, p) = one["mean"] - other["mean"], welch(one, other)
            for column, value, unit in (
                ("gain", gain, "points"),
                ("t", t, "number"),
                ("p", p, "number"),
            ):
                key = (row, f"{column}, {whose}")
                rows.append((*key, value, nan, n, nan, nan, (value,), used, unit))
    return pd.DataFrame(rows, columns=["row", "column", *SUMMARY, "unit"])


def calibration(runs: RunSet) -> pd.DataFrame:
    """Build our own table: centralised accuracy for each choice that the paper leaves open."""
    finals = runs.final(["calibration"], [ACCURACY])
    augment = finals["augment"].map({True: "crop and flip", False: "no augmentation"})
    scalars = {1: "biases and multipliers at the full step size", 0.1: "at a tenth of it"}
    cells = finals.assign(
        row=augment + ", momentum " + finals["momentum"].map("{:g}".format),
        column=finals["vector_lr_factor"].map(scalars),
    )
    return summarise(cells, ACCURACY, ["row", "column"]).assign(unit="fraction")


# The grid search

GRID = ("grid", "grid_projected")
TECHNIQUES = ["server_share", "server_momentum", "threshold", "projected", "gradient_noise"]
"""Columns that say what is on in a cell of the grid search."""
TEST, HELD_OUT = "test accuracy", "held-out accuracy"
BEST_ON_TEST = "best on test images"


def cell_name(
    server_share: float = 0,
    server_momentum: float = 0,
    threshold: int = 0,
    projected: bool = False,
    gradient_noise: float = 0,
) -> str:
    """Name a cell of the grid search by the techniques that are on."""
    parts = {
        "server data": server_share,
        f"momentum {server_momentum:g}": server_momentum,
        "agreement": threshold,
        "projection": projected,
        "noise": gradient_noise,
    }
    return ", ".join(part for part, on in parts.items() if on) or "none"


def searched(runs: RunSet) -> pd.DataFrame:
    """Return the grid search, one row a run.

    Columns: ``cell``, those of :data:`TECHNIQUES`, ``seed``, ``run``, :data:`TEST` and
    :data:`HELD_OUT` (fractions).
    """
    finals = runs.final(GRID, [ACCURACY, "accuracy_validation"])
    table = finals.rename(columns={ACCURACY: TEST, "accuracy_validation": HELD_OUT})
    table["projected"] = table["projection"] == "with"
    table = table.reindex(columns=[*TECHNIQUES, "seed", "run", TEST, HELD_OUT])
    table = table.fillna({"gradient_noise": 0.0})  # only cells with projection have noise
    points = table[TECHNIQUES].itertuples(index=False, name=None)
    table.insert(0, "cell", list(itertools.starmap(cell_name, points)))
    return table


def chosen(table: pd.DataFrame, by: str) -> str:
    """Return the cell with the best mean over the seeds; ``by`` is TEST or HELD_OUT."""
    return str(table.groupby("cell", sort=False)[by].mean().idxmax())


def marked(table: pd.DataFrame) -> dict[str, str]:
    """Return the cells of interest of :func:`searched`, by what they are."""
    return {
        BEST_ON_TEST: chosen(table, TEST),
        "best on held-out images": chosen(table, HELD_OUT),
        "the paper's best": cell_name(server_share=0.05, server_momentum=0.9, threshold=2),
        "baseline": cell_name(),
    }


def _on_both(table: pd.DataFrame) -> pd.DataFrame:
    """Return a cell a ``row`` and kind of images."""
    both = table.melt(["row", "seed", "run"], [TEST, HELD_OUT], "column", "value")
    return summarise(both, "value", ["row", "column"]).assign(unit="fraction")


def grid(runs: RunSet) -> pd.DataFrame:
    """Build the grid search: 36 cells, the best on test images first."""
    cells = _on_both(searched(runs).rename(columns={"cell": "row"}))
    best = cells[cells["column"] == TEST].sort_values("mean", ascending=False, kind="stable")
    return in_order(cells, "row", list(best["row"])).reset_index(drop=True)


def selection(runs: RunSet) -> pd.DataFrame:
    """Build our own table: what is reported of the cell that each way of selecting chooses.

    The paper selects on the accuracy that it then reports; here beside it the cell that is best on
    held-out images, and the cell that the paper names. The chosen cell is part of the row's name.
    """
    table = searched(runs)
    papers = {BEST_ON_TEST: f"{BEST_ON_TEST}, as in the paper"}
    rows = [
        table[table["cell"] == cell].assign(row=f"{papers.get(mark, mark)}: {cell}")
        for mark, cell in marked(table).items()
    ]
    cells = _on_both(pd.concat(rows))
    return in_order(cells, "row", list(cells["row"].unique()))


# How far the agents disagree

CONFLICTS, SAME_SIGN, CANCELLED, MOVED = "conflict rate", "same sign", "cancelled", "may move"


def diagnosis(runs: RunSet, groups: Sequence[str]) -> pd.DataFrame:
    """Return what the rounds log of the agents' disagreement, as fractions.

    Returns:
        One row a run, round and quantity: ``group``, ``title``, ``seed``, ``run``, ``round``,
        ``quantity`` and ``value``. Quantities: :data:`CONFLICTS`, the share of test images that the
        agents' models put into different classes; :data:`SAME_SIGN`, the share of coordinates whose
        updates agree in sign; :data:`MOVED`, the share of coordinates that the server lets move;
        :data:`CANCELLED`, what of the length of the updates is lost when they are averaged.
    """
    logged = {CONFLICTS: "conflicts", SAME_SIGN: "agreement", MOVED: "moved"}
    curves = {quantity: runs.curves(groups, metric) for quantity, metric in logged.items()}
    whole, mean = (runs.curves(groups, name) for name in ("update_norm", "mean_update_norm"))
    curves[CANCELLED] = whole.assign(value=1 - mean["value"] / whole["value"])
    columns = ["group", "title", "seed", "run", "round", "quantity", "value"]
    parts = [curve.assign(quantity=quantity) for quantity, curve in curves.items()]
    return pd.concat(parts, ignore_index=True)[columns]


def lately(table: pd.DataFrame, percent: float = 50) -> pd.DataFrame:
    """Return the last so many per cent of each run's rounds."""
    start = table.groupby("run")["round"].transform("max") * (1 - percent / 100)
    return table[table["round"] > start]


def late(table: pd.DataFrame) -> pd.DataFrame:
    """Return each run's mean over the second half of the rounds: one row a run and quantity.

    Args:
        table: as of :func:`diagnosis`.
    """
    keys = ["group", "title", "seed", "run", "quantity"]
    return lately(table).groupby(keys, sort=False)["value"].mean().reset_index()


def diagnostics(runs: RunSet) -> pd.DataFrame:
    """Build our own table: disagreement and norms in the second half of the rounds."""
    groups = runs.groups_of("diagnostics")
    norms = {"norm of the model": "weight_norm", "norm of an update": "update_norm"}
    curves = [runs.curves(groups, metric).assign(quantity=name) for name, metric in norms.items()]
    table = pd.concat(
        [
            late(diagnosis(runs, groups)).assign(unit="fraction"),
            late(pd.concat(curves, ignore_index=True)).assign(unit="weights"),
        ]
    )
    table = table.rename(columns={"title": "row", "quantity": "column"})
    return summarise(table, "value", ["row", "column"], "unit")


def by_choice(runs: RunSet) -> pd.DataFrame:
    """Return the accuracies by what the paper leaves open (:mod:`fedrepro.report.choices`)."""

    def at_the_end(record: RunRecord) -> float:
        return float(record.final[ACCURACY])

    return by_labels(runs, of_records(at_the_end))


TABLES: dict[str, Callable[[RunSet], pd.DataFrame]] = {
    name: functools.partial(of_paper, name=name) for name in ROWS
} | {
    "significance": significance,
    "calibration": calibration,
    "grid": grid,
    "selection": selection,
    "diagnostics": diagnostics,
    "choices": lambda runs: moved(by_choice(runs)),
}
