"""How far choices that a paper leaves open move its headlines, one choice at a time.

A group of runs with the labels ``choice`` and ``of`` differs from the group ``of``, our committed
reading, in that choice alone.

A *table of choices* has one row a run: ``row`` (the choice; :data:`COMMITTED` first), ``column``
(the headline), ``seed``, ``run`` and ``accuracy`` (a fraction).
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable

import numpy as np
import pandas as pd
from matplotlib.figure import Figure as MplFigure

from fedrepro.report.figure import Figure
from fedrepro.report.plots import Canvas, Ink
from fedrepro.report.stats import differences, summarise
from fedrepro.report.style import PALETTE
from fedrepro.runs.records import RunRecord
from fedrepro.runs.runset import MissingRunsError, RunSet

COMMITTED = "as committed"
_COLUMNS = ["row", "column", "seed", "run", "accuracy"]
_MOVED = Ink("orange", "", "s")


def by_labels(
    runs: RunSet, artefact: str, measure: Callable[[RunSet, str], pd.DataFrame]
) -> pd.DataFrame:
    """Return the table of choices that the labels of an artefact's groups make.

    Args:
        runs: the records.
        artefact: whose groups they are: those of the committed reading first.
        measure: returns of a group one row a run: ``seed``, ``run``, ``accuracy``, and ``where``,
            which tells headlines of one group apart (empty if there is one). Headlines of the
            committed reading that no choice has are left out.

    Returns:
        The table; empty where the scale plans no run of another choice.

    Raises:
        MissingRunsError: a record is missing, or all of the other choices are, where partial.
    """
    plan, groups = runs.plan, runs.groups_of(artefact)
    others = [group for group in groups if "choice" in plan.runs[group].labels]
    if not runs.planned(others):
        return pd.DataFrame(columns=_COLUMNS)
    runs.some(others)
    parts = []
    for group in groups:
        if not runs.members([group]):
            continue
        labels = plan.runs[group].labels
        of = plan.runs[labels.get("of", group)].title
        table = measure(runs, group)
        column = [", ".join(filter(None, (of, where))) for where in table["where"]]
        parts.append(table.assign(row=labels.get("choice", COMMITTED), column=column))
    every = pd.concat(parts, ignore_index=True)[_COLUMNS]
    chosen = every.loc[every["row"] != COMMITTED, "column"]
    return every[every["column"].isin(chosen)]


def of_records(value: Callable[[RunRecord], float]) -> Callable[[RunSet, str], pd.DataFrame]:
    """Return a measure for :func:`by_labels`: one headline a group, computed of each run's record.

    Args:
        value: returns a run's accuracy, a fraction.
    """

    def measure(runs: RunSet, group: str) -> pd.DataFrame:
        rows = [
            {"seed": run.seed, "run": run.id, "accuracy": value(runs.record(run))}
            for run in runs.some([group])
        ]
        return pd.DataFrame(rows).assign(where="")

    return measure


def moved(table: pd.DataFrame) -> pd.DataFrame:
    """Summarise how far each choice moves the accuracy, paired by seed with the committed reading.

    Args:
        table: a table of choices.

    Raises:
        MissingRunsError: no run of another choice has one of the committed reading beside it.
    """
    committed = table[table["row"] == COMMITTED]
    others = table[table["row"] != COMMITTED]
    both = differences(others, committed, "accuracy", on=["column", "seed"])
    if both.empty and not others.empty:
        raise MissingRunsError("no seed is recorded of both a choice and the committed reading")
    return summarise(both, "accuracy", ["row", "column"]).assign(unit="points")


def shifts(table: pd.DataFrame) -> pd.DataFrame:
    """Return what :func:`moved` does for a figure: a series a headline, x the choice."""
    named = moved(table).rename(columns={"column": "series", "row": "x"})
    return named[["series", "x", *named.columns.drop(["series", "x"])]]


def figure(table: Callable[[RunSet], pd.DataFrame]) -> Figure:
    """Return the figure of what makes a table of choices."""
    return Figure(lambda runs: shifts(table(runs)), draw, "points")


def draw(cells: pd.DataFrame) -> MplFigure:
    """Draw a panel a headline: how far each choice moves it, the interval and every seed.

    Panels end beyond the outermost seeds; intervals of two seeds are wider.

    Args:
        cells: as of :func:`shifts`.
    """
    series = cells.groupby("series", sort=False)
    names = list(dict.fromkeys(cells["x"]))
    canvas = Canvas(1, max(len(series), 1), height=3.8, sharey=True)
    if cells.empty:
        axis = canvas.axis
        axis.text(0.5, 0.5, "no runs at this scale", ha="center", transform=axis.transAxes)
        return canvas.figure
    for axis, (headline, points) in zip(canvas, series, strict=True):
        for _, point in points.iterrows():
            place = names.index(point["x"])
            reach = np.nan_to_num([[point["mean"] - point["low"]], [point["high"] - point["mean"]]])
            axis.errorbar(
                100 * point["mean"],
                place,
                xerr=100 * reach,
                capsize=2,
                markersize=4,
                **_MOVED.options,
            )
            seeds = [100 * value for value in point["values"]]
            axis.plot(seeds, [place] * len(seeds), ".", color=PALETTE["grey"], alpha=0.7, zorder=3)
        axis.axvline(0, color=PALETTE["grey"], linestyle=":")
        shown = [0.0, *100 * points["values"].explode().astype(float)]
        margin = max(0.1 * (max(shown) - min(shown)), 0.5)
        axis.set_xlim(min(shown) - margin, max(shown) + margin)
        axis.set(xlabel="points moved", yticks=range(len(names)), yticklabels=names)
        axis.set_title(textwrap.fill(str(headline), 17), fontsize=8)
        axis.grid(visible=False, axis="y")
    canvas.axis.invert_yaxis()
    canvas.key("less the committed reading, paired by seed", _MOVED)
    return canvas.legend(1, "mean, 95 % Student t interval, every pair as a dot")
