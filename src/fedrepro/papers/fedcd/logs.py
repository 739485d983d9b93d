"""Runs as the public code of Kopparapu, Lin, Zhao 2020, beside its logs.

What is drawn beside ours are logs of the authors' public notebooks and values read off the plots of
their course report, in the set-ups of those. Rounds are counted from 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure as MplFigure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from fedrepro.papers.fedcd.curves import (
    CHANGE,
    KEYS,
    PUBLIC,
    PUBLIC_LOOK,
    SPREAD,
    X_ROUND,
    Y_ACCURACY,
    Y_CHANGE,
    curve,
    public,
    round_axis,
)
from fedrepro.papers.fedcd.measurements import (
    HIER_AS_RUN,
    NINE_AS_RUN,
    SIX_AS_RUN,
    SIX_FEDAVG_AS_RUN,
    cells_of,
    logs,
    members_of,
)
from fedrepro.report.expected import load_expected
from fedrepro.report.figure import Figure
from fedrepro.report.style import PALETTE, WIDTH
from fedrepro.runs.runset import RunSet

ALL_DEVICES = "all devices"


def notebook(runs: RunSet) -> pd.DataFrame:
    """Return what the last public notebook logs, from ours and theirs (fractions)."""
    rows: list[dict[str, Any]] = []
    for log in logs(runs, HIER_AS_RUN):
        curves = log.by_archetype
        rows += curve(log, ALL_DEVICES, log.accuracy.mean(axis=1))
        for meta in (0, 1):
            members = members_of(log.run.spec, meta)
            rows += curve(log, f"meta-archetype {meta}", curves[:, members].mean(axis=1))
        rows += curve(log, CHANGE, log.change, first=1)
    return pd.concat([cells_of(rows, KEYS), public("notebook")], ignore_index=True)


def draw_notebook(cells: pd.DataFrame) -> MplFigure:
    """Draw accuracies on the left and changes on the right; the public log dashed."""
    figure, axes = plt.subplots(1, 2, figsize=(WIDTH, 3.6), width_ratios=[3, 2])
    colours = {ALL_DEVICES: "black", "meta-archetype 0": PALETTE["blue"]}
    colours |= {"meta-archetype 1": PALETTE["orange"], CHANGE: PALETTE["green"]}
    _draw_pairs(axes[0], cells, {k: c for k, c in colours.items() if k != CHANGE}, factor=100)
    _draw_pairs(axes[1], cells, {CHANGE: colours[CHANGE]}, factor=100)
    axes[0].set(ylabel=Y_ACCURACY, ylim=(0, 100))
    axes[1].set(ylabel=Y_CHANGE)
    _finish_pairs(figure, axes, cells, colours)
    return figure


def _draw_pairs(
    axis: Axes, cells: pd.DataFrame, colours: dict[str, Any], factor: float = 1
) -> None:
    for series, colour in colours.items():
        ours = cells[cells["series"] == series]
        theirs = cells[cells["series"] == f"{series}{PUBLIC}"]
        axis.plot(ours["x"], factor * ours["mean"], color=colour)
        axis.plot(theirs["x"], factor * theirs["mean"], color=colour, **PUBLIC_LOOK)


def _finish_pairs(
    figure: MplFigure, axes: Iterable[Axes], cells: pd.DataFrame, colours: dict[str, Any]
) -> None:
    for axis in axes:
        axis.set_xlabel(X_ROUND)
        axis.set_ylim(bottom=0)
        round_axis(axis, cells)
    handles = [Line2D([], [], color=colour, label=name) for name, colour in colours.items()]
    figure.legend(handles=handles + _ours_and_public(), loc="outside lower center", ncols=4)


def _ours_and_public() -> list[Line2D]:
    return [
        Line2D([], [], color="grey", label="ours"),
        Line2D([], [], color="grey", label="public log", **PUBLIC_LOOK),
    ]


def archetypes(runs: RunSet) -> pd.DataFrame:
    """Return the accuracy (fraction) of every archetype as the last public notebook has it.

    Further column: ``archetype``.
    """
    rows: list[dict[str, Any]] = []
    for log in logs(runs, HIER_AS_RUN):
        for a, accuracy in enumerate(log.by_archetype.T):
            rows += curve(log, f"archetype {a}", accuracy)
    cells = pd.concat([cells_of(rows, KEYS), public("archetypes")], ignore_index=True)
    return cells.assign(archetype=cells["series"].str.extract(r"(\d+)", expand=False).astype(int))


def draw_archetypes(cells: pd.DataFrame) -> MplFigure:
    """Draw a panel an archetype; the public log dashed."""
    figure, axes = plt.subplots(2, 5, figsize=(WIDTH, 3.8), sharex=True, sharey=True)
    for a, axis in enumerate(axes.flat):
        colour = PALETTE["blue" if a < 5 else "orange"]
        _draw_pairs(axis, cells, {f"archetype {a}": colour}, factor=100)
        axis.set_title(f"archetype {a}", fontsize=8)
        axis.set_ylim(0, 100)
        round_axis(axis, cells)
        axis.xaxis.set_major_locator(MaxNLocator(3, integer=True))
    axes[1, 2].set_xlabel(X_ROUND)
    figure.supylabel(Y_ACCURACY, fontsize=9)
    metas = (("blue", 0), ("orange", 1))
    handles = [Line2D([], [], color=PALETTE[c], label=f"meta-archetype {m}") for c, m in metas]
    figure.legend(handles=handles + _ours_and_public(), loc="outside lower center", ncols=4)
    return figure


ACTIVE, LIVE = "active models", "models left"


def six(runs: RunSet) -> pd.DataFrame:
    """Return what the course notebook logs: active and live models, and the spread of scores."""
    rows: list[dict[str, Any]] = []
    for log in logs(runs, SIX_AS_RUN):
        rows += curve(log, ACTIVE, log.active_models)
        rows += curve(log, LIVE, log.live_models)
        rows += curve(log, SPREAD, log.spread)
    return pd.concat([cells_of(rows, KEYS), public("six")], ignore_index=True)


def draw_six(cells: pd.DataFrame) -> MplFigure:
    """Draw a panel a quantity; the public log dashed."""
    figure, axes = plt.subplots(1, 3, figsize=(WIDTH, 3.4))
    colours = {ACTIVE: PALETTE["blue"], LIVE: PALETTE["green"], SPREAD: PALETTE["red"]}
    for axis, (series, colour) in zip(axes, colours.items(), strict=True):
        _draw_pairs(axis, cells, {series: colour})
        axis.set_title(series.replace(" of ", "\nof "), fontsize=9)
        if series != SPREAD:
            axis.yaxis.set_major_locator(MaxNLocator(integer=True))
    _finish_pairs(figure, axes, cells, {})
    return figure


ACTIVE_OF_18 = "active models, 18 devices"
ACCURACY_OF_18, FEDAVG_OF_18 = "FedCD, 18 devices", "FedAvg, 18 devices"
ACCURACY_OF_9 = "FedCD, 9 devices"


def course(runs: RunSet) -> pd.DataFrame:
    """Return what the course report plots, and its notebook logs, of 18 and of 9 devices.

    Accuracies are means over all devices, fractions. A scale may leave runs out; the values read
    off the report and the log's rounds are series of their own, as in :func:`six`.
    """
    rows: list[dict[str, Any]] = []
    for log in logs(runs, SIX_AS_RUN):
        rows += curve(log, ACTIVE_OF_18, log.active_models)
    for series, group in (
        (ACCURACY_OF_18, SIX_AS_RUN),
        (FEDAVG_OF_18, SIX_FEDAVG_AS_RUN),
        (ACCURACY_OF_9, NINE_AS_RUN),
    ):
        for log in logs(runs, group):
            rows += curve(log, series, log.accuracy.mean(axis=1))
    return pd.concat([cells_of(rows, KEYS), public("course")], ignore_index=True)


def fedavg_range() -> tuple[float, float]:
    """Return between which mean accuracies (fractions) FedAvg swings in the course report."""
    found = {item.id: item.published for item in load_expected("fedcd").not_reproducible}
    return found["course.fedavg-low"], found["course.fedavg-high"]


def draw_course(cells: pd.DataFrame) -> MplFigure:
    """Draw a panel a quantity; what is published as dots, and FedAvg's range as a band.

    A panel names the curve of which the scale has no run.
    """
    figure, axes = plt.subplots(1, 3, figsize=(WIDTH, 3.6))
    colours = {name: PALETTE[colour] for name, colour in _COURSE.items()}
    panels: list[tuple[str, dict[str, str], float]] = [
        ("active models of 18 devices", {ACTIVE_OF_18: "FedCD, active models"}, 1),
        ("accuracy, 18 devices (%)", {ACCURACY_OF_18: "FedCD", FEDAVG_OF_18: "FedAvg"}, 100),
        ("accuracy, 9 devices (%)", {ACCURACY_OF_9: "FedCD"}, 100),
    ]
    drawn = set()
    for axis, (title, names, factor) in zip(axes, panels, strict=True):
        for series, name in names.items():
            ours = cells[cells["series"] == series]
            theirs = cells[cells["series"] == f"{series}{PUBLIC}"]
            axis.plot(theirs["x"], factor * theirs["mean"], color=colours[name], **_READ_OFF)
            if len(ours):
                axis.plot(ours["x"], factor * ours["mean"], color=colours[name])
                drawn.add(name)
            else:
                note = {"ha": "center", "fontsize": 7, "transform": axis.transAxes}
                axis.text(0.5, 0.05, f"no run of {name} at this scale", **note)
        axis.set(xlabel=X_ROUND, title=title, ylim=(0, None if factor == 1 else 100))
        axis.title.set_fontsize(9)
        round_axis(axis, cells)
        axis.set_xlim(-1, cells["x"].max() + 1)  # room for the dots at both ends
    low, high = fedavg_range()
    axes[1].axhspan(100 * low, 100 * high, color=colours["FedAvg"], alpha=0.12, linewidth=0)
    handles: list[Artist] = [
        Line2D([], [], color=colour, label=f"{name}, ours")
        for name, colour in colours.items()
        if name in drawn
    ]
    handles += [
        Line2D(
            [], [], color="grey", label="published: report, read off; 9 devices: log", **_READ_OFF
        ),
        Patch(color=colours["FedAvg"], alpha=0.12, label="published: FedAvg swings in this range"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2)
    return figure


_COURSE = {"FedCD, active models": "green", "FedCD": "orange", "FedAvg": "blue"}
_READ_OFF: dict[str, Any] = {"linestyle": "", "marker": "o", "markersize": 3, "mfc": "none"}

FIGURES: dict[str, Figure] = {
    "notebook": Figure(notebook, draw_notebook),
    "archetypes": Figure(archetypes, draw_archetypes),
    "six": Figure(six, draw_six),
    "course": Figure(course, draw_course),
}
