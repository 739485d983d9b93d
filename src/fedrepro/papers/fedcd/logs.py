"""Curves of Kopparapu, Lin, Zhao 2020, and the figures of runs as the public code beside its logs.

Beside ours are logs of the authors' public notebooks and values read off the plots of their course
report, in the set-ups of those. Rounds are counted from 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as MplFigure

from fedrepro.papers.fedcd.measurements import (
    FEDAVG,
    FEDCD,
    NOTEBOOK,
    OF_9,
    OF_18,
    Floats,
    Log,
    Row,
    entry,
    logs,
    summarised,
)
from fedrepro.report.expected import load_expected
from fedrepro.report.figure import Figure
from fedrepro.report.plots import ROUND, Canvas, Ink
from fedrepro.runs.runset import RunSet

Y_CHANGE = "mean |change| of a device's\naccuracy (points)"
CHANGE, SPREAD = "mean change", "standard deviation of the scores"
"""Series that figures of the paper and of the public logs have in common."""

INKS = {FEDCD: Ink("orange"), FEDAVG: Ink("blue")}
THIN: dict[str, Any] = {"linewidth": 0.9}


def curve(
    log: Log, series: str, values: Sequence[float] | Floats, first: int = 0, **others: Any
) -> Iterator[Row]:
    """Yield the rows of a curve; ``first`` is the round of its first value."""
    for t, value in enumerate(values, start=first):
        yield entry(log, value, series=series, x=t, **others)


def of(cells: pd.DataFrame, series: str) -> pd.DataFrame:
    """Return the points of a series."""
    return cells[cells["series"] == series]


def logged_as(series: str) -> str:
    """Return what the public log of one of our series is called."""
    return f"{series}, public log"


def beside_logs(
    data: Callable[[RunSet], pd.DataFrame], artefact: str, names: Mapping[str, str] | None = None
) -> Callable[[RunSet], pd.DataFrame]:
    """Return what makes a figure's frame: our series, and public logs as series of their own.

    Args:
        data: makes the frame of ours.
        artefact: the figure that the public logs belong to.
        names: its series with a public log -> what the log is called; None: all.
    """

    def frame(runs: RunSet) -> pd.DataFrame:
        cells = [data(runs)]
        for log in load_expected(runs.paper).series:
            if log.artefact == artefact and (names is None or log.series in names):
                name = logged_as(log.series) if names is None else names[log.series]
                points = {"series": name, "x": log.x, "mean": log.published, "n": 0}
                cells.append(pd.DataFrame(points).assign(values="", runs=""))
        return pd.concat(cells, ignore_index=True)

    return frame


def _draw_pair(
    canvas: Canvas,
    axis: Axes,
    cells: pd.DataFrame,
    series: str,
    ink: Ink,
    label: str = "",
    factor: float = 100,
) -> None:
    """Draw a series, and its public log dashed."""
    canvas.curve(axis, of(cells, series), ink, label, factor=factor)
    theirs = of(cells, logged_as(series))
    canvas.curve(axis, theirs, replace(ink, line="--"), factor=factor, **THIN)
    axis.set_ylim(bottom=0)


def _finished(canvas: Canvas) -> MplFigure:
    canvas.key("ours", Ink("grey"))
    canvas.key("public log", Ink("grey", "--"), **THIN)
    return canvas.legend(5)


# The last notebook: 30 devices

_LOGGED = {
    "all devices": Ink("black"),
    "meta-archetype 0": Ink("blue"),
    "meta-archetype 1": Ink("orange"),
    CHANGE: Ink("green"),
}


@summarised
def notebook(runs: RunSet) -> Iterator[Row]:
    """Yield what the last public notebook logs (fractions)."""
    for log in logs(runs, NOTEBOOK):
        yield from curve(log, "all devices", log.accuracy.mean(axis=1))
        for meta in (0, 1):
            mean = log.by_archetype[:, log.metas == meta].mean(axis=1)
            yield from curve(log, f"meta-archetype {meta}", mean)
        yield from curve(log, CHANGE, log.change[1:], first=1)


def draw_notebook(cells: pd.DataFrame) -> MplFigure:
    """Draw accuracies on the left and changes on the right."""
    canvas = Canvas(1, 2, height=3.6, width_ratios=[3, 2])
    left, right = canvas
    for series, ink in _LOGGED.items():
        _draw_pair(canvas, right if series == CHANGE else left, cells, series, ink, series)
    canvas.accuracy_over_rounds()
    left.set_ylim(0, 100)
    right.set_ylabel(Y_CHANGE)
    return _finished(canvas)


@summarised
def archetypes(runs: RunSet) -> Iterator[Row]:
    """Yield the accuracy (fraction) of every archetype as the last public notebook has it.

    Further column: ``archetype``.
    """
    for log in logs(runs, NOTEBOOK):
        for a, accuracy in enumerate(log.by_archetype.T):
            yield from curve(log, f"archetype {a}", accuracy, archetype=a)


def archetypes_beside_logs(runs: RunSet) -> pd.DataFrame:
    """Return every archetype's accuracy, ours and the public log's."""
    cells = beside_logs(archetypes, "archetypes")(runs)
    places = {logged_as(f"archetype {a}"): a for a in range(10)}
    return cells.fillna({"archetype": cells["series"].map(places)})


def draw_archetypes(cells: pd.DataFrame) -> MplFigure:
    """Draw a panel an archetype."""
    canvas = Canvas(2, 5, sharex=True, sharey=True)
    for a, axis in enumerate(canvas):
        meta = f"meta-archetype {int(a >= 5)}"
        _draw_pair(canvas, axis, cells, f"archetype {a}", _LOGGED[meta], meta)
        axis.set_title(f"archetype {a}", fontsize=8)
    canvas.accuracy_over_rounds()
    for axis in canvas.axes[1]:
        axis.set_xlabel("")
    canvas.axes[1, 2].set_xlabel(ROUND)
    canvas.axis.set_ylim(0, 100)
    return _finished(canvas)


# The course notebook and report: 18 and 9 devices

_COUNTS = {"active models": Ink("blue"), "models left": Ink("green"), SPREAD: Ink("red")}


@summarised
def six(runs: RunSet) -> Iterator[Row]:
    """Yield what the course notebook logs: active and live models, and the spread of scores."""
    for log in logs(runs, OF_18, FEDCD):
        yield from curve(log, "active models", log.active_models)
        yield from curve(log, "models left", log.live_models)
        yield from curve(log, SPREAD, log.spread)


def draw_six(cells: pd.DataFrame) -> MplFigure:
    """Draw a panel a quantity."""
    canvas = Canvas(1, 3, height=3.4)
    for axis, (series, ink) in zip(canvas, _COUNTS.items(), strict=True):
        _draw_pair(canvas, axis, cells, series, ink, factor=1)
        axis.set_title(series.replace(" of ", "\nof "), fontsize=9)
    canvas.over_rounds("")
    return _finished(canvas)


ACTIVE_OF_18 = "active models, 18 devices"
_PANELS: dict[str, dict[str, tuple[str, Ink]]] = {
    "active models of 18 devices": {ACTIVE_OF_18: ("FedCD, active models", Ink("green"))},
    "accuracy, 18 devices (%)": {
        f"{method}, {OF_18}": (method, ink) for method, ink in INKS.items()
    },
    "accuracy, 9 devices (%)": {f"{FEDCD}, {OF_9}": (FEDCD, INKS[FEDCD])},
}
"""Titles of the panels -> series -> what it is called, and its ink."""


@summarised
def course(runs: RunSet) -> Iterator[Row]:
    """Yield what the course report plots, and its notebook logs, of 18 and of 9 devices.

    Accuracies are means over all devices, fractions. A scale may leave runs out.
    """
    for log in logs(runs, OF_18, FEDCD):
        yield from curve(log, ACTIVE_OF_18, log.active_models)
    for log in [*logs(runs, OF_18), *logs(runs, OF_9)]:
        yield from curve(log, f"{log.method}, {log.experiment}", log.accuracy.mean(axis=1))


def draw_course(cells: pd.DataFrame) -> MplFigure:
    """Draw a panel a quantity, and FedAvg's published range as a band.

    A panel names the curve of which the scale has no run.
    """
    canvas = Canvas(1, 3, height=3.6)
    for axis, (title, panel) in zip(canvas, _PANELS.items(), strict=True):
        counts = ACTIVE_OF_18 in panel
        factor = 1 if counts else 100
        for series, (name, ink) in panel.items():
            ours, theirs = of(cells, series), of(cells, logged_as(series))
            canvas.curve(axis, ours, ink, f"{name}, ours", factor=factor)
            canvas.published(axis, theirs, ink, factor=factor, column="mean", markersize=3)
            if ours.empty:
                place: dict[str, Any] = {"ha": "center", "transform": axis.transAxes}
                axis.text(0.5, 0.05, f"no run of {name} at this scale", fontsize=7, **place)
        axis.set_title(title, fontsize=9)
        axis.set_ylim(0, None if counts else 100)
    ends = {item.id: item.published for item in load_expected("fedcd").not_reproducible}
    low, high = ends["course.fedavg-low"], ends["course.fedavg-high"]
    band: dict[str, Any] = {"color": INKS[FEDAVG].options["color"], "alpha": 0.12, "linewidth": 0}
    canvas.axes[0, 1].axhspan(100 * low, 100 * high, **band)
    canvas.patch("published: FedAvg swings in this range", **band)
    canvas.over_rounds("")
    return canvas.legend(3, "published: read off the course report; 9 devices: log of its notebook")


FIGURES: dict[str, Figure] = {
    "notebook": Figure(
        beside_logs(notebook, "notebook"), draw_notebook, {CHANGE: "points", "": "fraction"}
    ),
    "archetypes": Figure(archetypes_beside_logs, draw_archetypes),
    "six": Figure(beside_logs(six, "six"), draw_six, {SPREAD: "points", "": "count"}),
    "course": Figure(
        beside_logs(course, "course"), draw_course, {ACTIVE_OF_18: "count", "": "fraction"}
    ),
}
