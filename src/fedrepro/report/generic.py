"""Tables and figures of plans that have no code of their own."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from fedrepro.report.figure import Figure
from fedrepro.report.stats import differences, first_reaching, summarise
from fedrepro.runs.plan import PlannedRun
from fedrepro.runs.runset import RunSet

METRIC = "accuracy"
LAST, BEST = "after the last round", "best round"
_LEVELS = [*range(10, 100, 10), 95, 99]
"""Test accuracies in per cent."""
_MOST_LEVELS = 5


def name_of(runs: RunSet, run: PlannedRun) -> str:
    """Return what a reader calls a run: the title of its group, and its grid point.

    Groups of one title are told apart by their names: their runs are not one row.
    """
    title = runs.plan.runs[run.group].title
    if sum(group.title == title for group in runs.plan.runs.values()) > 1:
        title += f" ({run.group})"
    point = [f"{key} {value}" for key, value in run.coordinates.items()]
    return ", ".join([title, *point])


def _members(runs: RunSet) -> list[PlannedRun]:
    """Return the runs of the plan, of which there is at least one.

    Raises:
        MissingRunsError: the scale has none, or none is recorded, where partial.
    """
    runs.require_planned("this table or figure")
    return runs.some(runs.plan.runs)


def _frame(runs: RunSet) -> pd.DataFrame:
    rows = []
    for run in _members(runs):
        values = list(runs.curve(run, METRIC).values())
        point = frozenset(run.coordinates.items())
        row = {"row": name_of(runs, run), "group": run.group, "point": point}
        rows.append({**row, "seed": run.seed, "run": run.id, LAST: values[-1], BEST: max(values)})
    return pd.DataFrame(rows)


def accuracy(runs: RunSet) -> pd.DataFrame:
    """Return test accuracy (fraction), last and best: a row a group and grid point."""
    wide = _frame(runs)
    long = wide.melt(["row", "seed", "run"], [LAST, BEST], "column")
    return summarise(long, "value", ["row", "column"]).assign(unit="fraction")


def comparison(runs: RunSet) -> pd.DataFrame:
    """Return how far each row is from the first group's at its grid point (fraction), by seed.

    Where the first group has no such point, or is the only one, that is the first row.
    """
    wide = _frame(runs)
    first, ours = wide.iloc[0], wide["group"] == wide["group"].iloc[0]
    alone = ours.all()
    others = wide[wide["row"] != first["row"]] if alone else wide[~ours]
    held = {} if alone else dict(zip(wide[ours]["point"], wide[ours]["row"], strict=True))
    baselines = [
        next((row for part, row in held.items() if part <= point), first["row"])
        for point in others["point"]
    ]
    others = others.assign(baseline=baselines)
    both = differences(
        others, wide.assign(baseline=wide["row"]), LAST, BEST, on=["baseline", "seed"]
    )
    long = both.melt(["row", "seed", "run"], [LAST, BEST], "column")
    return summarise(long, "value", ["row", "column"]).assign(unit="points")


def rounds(runs: RunSet) -> pd.DataFrame:
    """Return after how many rounds test accuracy first is at a level: a row a group and grid point.

    A column a level, the five highest that some run reaches; a cell is of the seeds that reach it.
    """
    rows = []
    for run in _members(runs):
        curve = runs.curve(run, METRIC)
        base = {"row": name_of(runs, run), "seed": run.seed, "run": run.id}
        rows += [
            {**base, "level": level, "value": first_reaching(curve, level / 100)}
            for level in _LEVELS
        ]
    long = pd.DataFrame(rows)
    highest = sorted(long.dropna()["level"].unique())[-_MOST_LEVELS:] or _LEVELS[:1]
    long = long[long["level"].isin(highest)].assign(column=lambda at: [f"{x} %" for x in at.level])
    key = ["row", "column"]
    cells = long[key].drop_duplicates().merge(summarise(long.dropna(), "value", key), "left", key)
    counts = cells["n"].fillna(0).astype(int)
    otherwise = counts.map(lambda n: "" if n else "not reached")
    return cells.assign(n=counts, unit="count", otherwise=otherwise)


def metrics(runs: RunSet) -> pd.DataFrame:
    """Return what is recorded of the last round: a row a group and grid point, a column a metric.

    Accuracies are fractions, also those of metrics of one's own with "accuracy" in their names.
    """
    rows = []
    for run in _members(runs):
        for metric in sorted(runs.record(run).metrics.keys() - {"evaluated_rounds"}):
            unit = "fraction" if METRIC in metric else "number"
            cell = {"row": name_of(runs, run), "column": metric, "unit": unit}
            last = list(runs.curve(run, metric).values())[-1]
            rows.append({**cell, "seed": run.seed, "run": run.id, "value": last})
    return summarise(pd.DataFrame(rows), "value", ["row", "column"], "unit")


def curves(runs: RunSet) -> pd.DataFrame:
    """Return test accuracy (fraction) over the rounds: a series a group and grid point."""
    names = {run.id: name_of(runs, run) for run in _members(runs)}
    table = runs.curves(list(runs.plan.runs), METRIC)
    table = table.assign(series=table["run"].map(names), x=table["round"])
    return summarise(table, "value", ["series", "x"])


TABLES: dict[str, Callable[[RunSet], pd.DataFrame]] = {
    "accuracy": accuracy,
    "comparison": comparison,
    "rounds": rounds,
    "metrics": metrics,
}

FIGURES = {"curves": Figure(curves)}
