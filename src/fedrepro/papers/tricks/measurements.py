"""Ozdayi et al. 2020: Tables 1 to 5, the best combination, the grid search and what is open.

Accuracies are those after the last round, on the test images: the paper says "validation" without
saying of what, and the authors' other code evaluates on the test images under that name.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import pandas as pd

from fedrepro.report.expected import cell_key, published
from fedrepro.report.stats import summarise
from fedrepro.runs.runset import RunSet

ACCURACY = "accuracy"
"""The only column of the paper's tables."""

CENTRALISED, IID, BASELINE, BEST = "centralised", "iid", "niid", "best"
SERVER_TRAINING, SIGN_AGREEMENT = "server_training", "sign_agreement"
PROJECTED, PROJECTED_NOISE = "projected", "projected_noise"
PROJECTED_UPDATE, PROJECTED_UPDATE_NOISE = "projected_update", "projected_update_noise"
MOMENTUM_5, MOMENTUM_9 = "momentum_5", "momentum_9"

ROWS: dict[str, dict[str, str]] = {
    "table1": {CENTRALISED: "Centralized", IID: "FL - IID", BASELINE: "FL - NIID(5)"},
    "table2": {BASELINE: "server-side data 0 %", SERVER_TRAINING: "server-side data 5 %"},
    "table3": {
        BASELINE: "threshold 0, noise 0",
        PROJECTED: "threshold 3, noise 0",
        PROJECTED_NOISE: "threshold 3, noise 0.0001",
        PROJECTED_UPDATE: "threshold 3 on the update, noise 0",
        PROJECTED_UPDATE_NOISE: "threshold 3 on the update, noise 0.0001",
    },
    "table4": {BASELINE: "momentum 0", MOMENTUM_5: "momentum 0.5", MOMENTUM_9: "momentum 0.9"},
    "table5": {
        BASELINE: "adjustable step size: no",
        SIGN_AGREEMENT: "adjustable step size: yes",
        "signed_vote": "adjustable step size: as printed",
    },
    "best_combination": {BEST: "server-side data 5 %, momentum 0.9, adjustable step size"},
}
"""The groups of runs of each table, by the plan's names, and what the rows are called."""

TECHNIQUES = {
    SERVER_TRAINING: "table2",
    PROJECTED: "table3",
    PROJECTED_NOISE: "table3",
    MOMENTUM_5: "table4",
    MOMENTUM_9: "table4",
    SIGN_AGREEMENT: "table5",
    BEST: "best_combination",
}
"""What is compared with the baseline, and the table that prints its accuracy."""

REPEATS = 3
"""Of every experiment of the paper (section 4.1)."""

GRID = ("grid", "grid_projected")
THE_PAPERS_BEST = "server data, momentum 0.9, agreement"
NO_TECHNIQUE = "none"
TEST, HELD_OUT = "test accuracy", "held-out accuracy"


def of_paper(runs: RunSet, *, name: str) -> pd.DataFrame:
    """Build a table of the paper: one row a group of runs, of those that are recorded."""
    rows = ROWS[name]
    recorded = [group for group in rows if not runs.missing([group])]
    finals = runs.final(recorded or list(rows), [ACCURACY])
    cells = finals.assign(row=finals["group"].map(rows), column=ACCURACY)
    return summarise(cells, ACCURACY, ["row", "column"]).assign(unit="fraction")


def welch(one: tuple[float, float, int], other: tuple[float, float, int]) -> tuple[float, float]:
    """Return Welch's t and its two-sided p of the difference of two means; NaNs without spread.

    Args:
        one: mean, sample standard deviation and number of values.
        other: what is subtracted.
    """
    from scipy.stats import ttest_ind_from_stats  # slow to import

    if min(one[2], other[2]) < 2 or one[1] == other[1] == 0:
        return math.nan, math.nan
    result = ttest_ind_from_stats(*one, *other, equal_var=False)
    return float(result.statistic), float(result.pvalue)


def published_summary(paper: str, group: str) -> tuple[float, float, int]:
    """Return what the paper prints of a configuration: mean, standard deviation, repeats."""
    table = "table1" if group == BASELINE else TECHNIQUES[group]
    key = cell_key(ROWS[table][group], ACCURACY)
    return published(paper, table)[key], published(paper, table, "sd")[key], REPEATS


NOISE_ON_PROJECTION = "noise, beside projection without"


def significance(runs: RunSet) -> pd.DataFrame:
    """Build our own table: is a gain over the baseline more than chance?

    Gain, Welch's t and two-sided p, of the published means and standard deviations (three repeats)
    and of our runs; n is the smaller number of repeats. The last row compares projection with noise
    and without.
    """
    finals = runs.final([BASELINE, *TECHNIQUES], [ACCURACY])
    ours = {str(cell["group"]): cell for _, cell in _by_group(finals).iterrows()}
    compared = {runs.plan.runs[group].title: (group, BASELINE) for group in TECHNIQUES}
    compared[NOISE_ON_PROJECTION] = (PROJECTED_NOISE, PROJECTED)
    rows = []
    for row, groups in compared.items():
        pairs = {
            "published": [published_summary(runs.paper, g) for g in groups],
            "ours": [
                (float(ours[g]["mean"]), float(ours[g]["sd"]), int(ours[g]["n"])) for g in groups
            ],
        }
        for whose, (one, other) in pairs.items():
            t, p = welch(one, other)
            used = () if whose == "published" else sum((ours[g]["runs"] for g in groups), ())
            for column, value, unit in (
                ("gain", one[0] - other[0], "points"),
                ("t", t, "number"),
                ("p", p, "number"),
            ):
                rows.append(
                    {
                        "row": row,
                        "column": f"{column}, {whose}",
                        "mean": value,
                        "sd": math.nan,
                        "n": min(one[2], other[2]),
                        "low": math.nan,
                        "high": math.nan,
                        "values": (value,),
                        "runs": used,
                        "unit": unit,
                    }
                )
    return pd.DataFrame(rows)


def _by_group(finals: pd.DataFrame) -> pd.DataFrame:
    return summarise(finals, ACCURACY, ["group"])


def calibration(runs: RunSet) -> pd.DataFrame:
    """Build our own table: centralised accuracy for each choice that the paper leaves open."""
    finals = runs.final(["calibration"], [ACCURACY])
    augment = finals["augment"].map({True: "crop and flip", False: "no augmentation"})
    scalars = finals["vector_lr_factor"].map(
        {1: "biases and multipliers at the full step size", 0.1: "at a tenth of it"}
    )
    cells = finals.assign(
        row=augment + ", momentum " + finals["momentum"].map("{:g}".format), column=scalars
    )
    return summarise(cells, ACCURACY, ["row", "column"]).assign(unit="fraction")


def cell_name(server: float, momentum: float, threshold: int, projected: bool, noise: float) -> str:
    """Name a cell of the grid search by the techniques that are on."""
    parts = [
        "server data" if server else "",
        f"momentum {momentum:g}" if momentum else "",
        "agreement" if threshold else "",
        "projection" if projected else "",
        "noise" if noise else "",
    ]
    return ", ".join(filter(None, parts)) or NO_TECHNIQUE


def searched(runs: RunSet) -> pd.DataFrame:
    """Return the grid search's runs: ``cell``, ``seed``, ``run``, ``test`` and ``held_out``."""
    finals = runs.final(GRID, [ACCURACY, "accuracy_validation"])
    noise = finals["gradient_noise"].fillna(0.0)
    projected = finals["group"] == "grid_projected"
    columns = (
        finals["server_share"],
        finals["server_momentum"],
        finals["threshold"],
        projected,
        noise,
    )
    names = [cell_name(*point) for point in zip(*columns, strict=True)]
    return finals.assign(cell=names, test=finals[ACCURACY], held_out=finals["accuracy_validation"])[
        ["cell", "seed", "run", "test", "held_out"]
    ]


def grid(runs: RunSet) -> pd.DataFrame:
    """Build the grid search: 36 cells, accuracy on test and on held-out images."""
    table = searched(runs)
    both = [
        summarise(table.assign(column=column), value, ["cell", "column"])
        for column, value in ((TEST, "test"), (HELD_OUT, "held_out"))
    ]
    cells = pd.concat(both, ignore_index=True).rename(columns={"cell": "row"})
    best = cells[cells["column"] == TEST].sort_values("mean", ascending=False, kind="stable")
    order = {row: place for place, row in enumerate(best["row"])}
    cells = cells.sort_values("row", key=lambda rows: rows.map(order), kind="stable")
    return cells.reset_index(drop=True).assign(unit="fraction")


def chosen(table: pd.DataFrame, by: str) -> str:
    """Return the cell with the best mean over the seeds.

    Args:
        table: as of :func:`searched`.
        by: ``test`` or ``held_out``.
    """
    return str(table.groupby("cell", sort=False)[by].mean().idxmax())


def selection(runs: RunSet) -> pd.DataFrame:
    """Build our own table: what is reported of the cell that each way of selecting chooses.

    The paper selects on the accuracy that it then reports; here beside it the cell that is best on
    held-out images, and the cell that the paper names. The chosen cell is part of the row's name.
    """
    table = searched(runs)
    cells = {
        f"best on test images, as in the paper: {chosen(table, 'test')}": chosen(table, "test"),
        f"best on held-out images: {chosen(table, 'held_out')}": chosen(table, "held_out"),
        f"the paper's best: {THE_PAPERS_BEST}": THE_PAPERS_BEST,
        f"baseline: {NO_TECHNIQUE}": NO_TECHNIQUE,
    }
    parts = [
        table[table["cell"] == cell].assign(row=row, column=column, value=table[value])
        for row, cell in cells.items()
        for column, value in ((TEST, "test"), (HELD_OUT, "held_out"))
    ]
    both = pd.concat(parts, ignore_index=True)
    return summarise(both, "value", ["row", "column"]).assign(unit="fraction")


DIAGNOSED = (IID, BASELINE, *TECHNIQUES, PROJECTED_UPDATE, "signed_vote")
CONFLICTS, SAME_SIGN, CANCELLED = "conflict rate", "same sign", "cancelled"
MOVED = "may move"


def diagnosis(runs: RunSet, groups: Sequence[str]) -> pd.DataFrame:
    """Return what the rounds log of the agents' disagreement, as fractions.

    Returns:
        One row a run, round and quantity: ``group``, ``title``, ``seed``, ``run``, ``round``,
        ``quantity`` and ``value``. Quantities: :data:`CONFLICTS`, the share of test images that the
        agents' models put into different classes; :data:`SAME_SIGN`, the share of coordinates whose
        updates agree in sign; :data:`MOVED`, the share of coordinates that the server lets move;
        :data:`CANCELLED`, what of the length of the updates is lost when they are averaged.
    """
    keys = ["group", "title", "seed", "run", "round"]
    whole, mean = (runs.curves(groups, name) for name in ("update_norm", "mean_update_norm"))
    cancelled = whole.assign(value=1 - mean["value"] / whole["value"], quantity=CANCELLED)
    parts = [
        runs.curves(groups, "conflicts").assign(quantity=CONFLICTS),
        runs.curves(groups, "agreement").assign(quantity=SAME_SIGN),
        runs.curves(groups, "moved").assign(quantity=MOVED),
        cancelled,
    ]
    return pd.concat([part[[*keys, "quantity", "value"]] for part in parts], ignore_index=True)


def late(table: pd.DataFrame) -> pd.DataFrame:
    """Return the mean of each run's second half: one row a run and quantity."""
    half = table.groupby("run")["round"].transform("max") / 2
    keys = ["group", "title", "seed", "run", "quantity"]
    means = table[table["round"] > half].groupby(keys, sort=False)["value"].mean()
    return means.reset_index()


def diagnostics(runs: RunSet) -> pd.DataFrame:
    """Build our own table: the agents' disagreement in the second half of the rounds."""
    table = late(diagnosis(runs, DIAGNOSED)).rename(columns={"title": "row", "quantity": "column"})
    return summarise(table, "value", ["row", "column"]).assign(unit="fraction")


TABLES: dict[str, Callable[[RunSet], pd.DataFrame]] = {
    name: functools.partial(of_paper, name=name) for name in ROWS
} | {
    "significance": significance,
    "calibration": calibration,
    "grid": grid,
    "selection": selection,
    "diagnostics": diagnostics,
}
