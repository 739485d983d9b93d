"""Draws the figures of Kopparapu, Lin, Zhao 2020, of the public logs, and our own."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure as MplFigure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from fedrepro.papers.fedcd.figures import LOG_OF_18, LOG_OF_30, drawn_by
from fedrepro.papers.fedcd.measurements import FEDAVG, FEDCD, OF_9, OF_18
from fedrepro.papers.fedcd.public_logs import ACTIVE_OF_18, CHANGE, SPREAD, logged_as
from fedrepro.report.drawings import Drawing, draw_choices
from fedrepro.report.expected import load_expected
from fedrepro.report.plots import ACCURACY, BLACK, ROUND, Canvas, Ink
from fedrepro.report.stats import moving_average

Y_CHANGE = "mean |change| of a device's\naccuracy (points)"
Y_ACTIVE = "active models of all devices"
Y_SPREAD = "mean standard deviation\nof a device's scores"

_INKS = {FEDCD: Ink("orange"), FEDAVG: Ink("blue")}
_LOG_INK = Ink("dimgrey", "-.")
_THIN: dict[str, Any] = {"linewidth": 0.9}


def of(cells: pd.DataFrame, series: str) -> pd.DataFrame:
    """Return the points of a series."""
    return cells[cells["series"] == series]


def _shades(scale: str, count: int, low: float = 0, high: float = 0.95) -> list[Ink]:
    """Return inks along one of Matplotlib's colour scales; neighbours differ in line style."""
    places = np.linspace(low, high, count)
    lines = itertools.cycle(("-", "--", ":"))
    return [
        Ink(to_hex(colormaps[scale](place)), line)
        for place, line in zip(places, lines, strict=False)
    ]


def _drawn(points: pd.DataFrame) -> str:
    """Return which rounds a curve has."""
    return f"rounds {points['x'].min():g} to {points['x'].max():g}"


# Figures 1 and 4: accuracy of the archetypes

WINDOW = 5
"""Rounds of the moving average in the curves of archetypes."""


def draw_archetype_curves(cells: pd.DataFrame) -> MplFigure:
    """Draw a panel an algorithm: moving averages over the curves, thin, of the archetypes.

    Shades of a colour are a meta-archetype.
    """
    canvas = Canvas(1, cells["algorithm"].nunique(), height=4.2, sharey=True)
    members = cells.groupby("meta")["archetype"].unique()
    inks = _shades("viridis", len(members[0]), high=0.88)
    if len(members) > 1:
        inks = [
            ink
            for scale, archetypes in zip(("Blues", "Oranges"), members, strict=True)
            for ink in _shades(scale, len(archetypes), 0.45)
        ]
    for axis, (algorithm, shown) in zip(
        canvas, cells.groupby("algorithm", sort=False), strict=True
    ):
        for a, ink in enumerate(inks):
            points = shown[shown["archetype"] == a]
            every = replace(ink, line="-")
            canvas.curve(axis, points, every, seeds=False, linewidth=0.4, alpha=0.5)
            smooth = points.assign(mean=moving_average(points["mean"].tolist(), WINDOW))
            canvas.curve(axis, smooth, ink, f"archetype {a}", seeds=False, linewidth=1.4)
        axis.set(title=f"{algorithm}, {_drawn(shown)}", ylim=(0, 100))
    canvas.accuracy_over_rounds()
    canvas.key("thin: every round", Ink("grey"), linewidth=0.6)
    title = f"thick: mean of a round and up to {WINDOW - 1} before it"
    if len(members) > 1:
        title += "; blue: meta-archetype 0, orange: meta-archetype 1"
    return canvas.legend(4, title)


# Figures 2 and 5: changes


def draw_changes(cells: pd.DataFrame) -> MplFigure:
    """Draw both algorithms' mean change."""
    canvas = Canvas(height=3.4)
    for method, ink in _INKS.items():
        points = of(cells, method)
        canvas.curve(canvas.axis, points, ink, f"{method}, {_drawn(points)}", linewidth=1.2)
    canvas.curve(canvas.axis, of(cells, LOG_OF_30), _LOG_INK, LOG_OF_30, **_THIN)
    canvas.over_rounds(Y_CHANGE)
    canvas.axis.set_ylim(bottom=0)
    return canvas.legend(2)


# Figure 3: the hypergeometric law

_HOLLOW: dict[str, Any] = {"markerfacecolor": "none"}


def draw_label_shares(cells: pd.DataFrame) -> MplFigure:
    """Draw the law of every archetype as a line, and our devices' images as circles."""
    canvas = Canvas(height=3.6)
    axis = canvas.axis
    for a, ink in enumerate(_shades("viridis", cells["archetype"].nunique())):
        name = f"archetype {a}"
        dots = replace(ink, line="", marker="o")
        canvas.curve(axis, of(cells, name), ink, name, factor=1)
        canvas.curve(axis, of(cells, drawn_by(a)), dots, factor=1, **_HOLLOW)
    last = int(cells["x"].max())
    axis.set(xlabel="label", ylabel="probability", xticks=range(last + 1))
    axis.set_xticklabels([*map(str, range(last)), f"{last}\n(dropped)"])
    canvas.key("images our devices drew", Ink("black", "", "o"), **_HOLLOW)
    return canvas.legend(4)


# Figure 6: quantisation

_BITS_COLOURS = {4: "orange", 8: "purple", 16: "green", 32: "blue"}
_LINES = {FEDCD: ("-", 1.4), FEDAVG: ("--", 0.9)}


def draw_bits_curves(cells: pd.DataFrame) -> MplFigure:
    """Draw FedCD as lines and FedAvg dashed; a colour a number of bits."""
    canvas = Canvas(height=3.6)
    for method, (line, width) in _LINES.items():
        for bits, colour in _BITS_COLOURS.items():
            name = f"{method}, {bits} bits"
            label = name if bits < 32 else f"{method}, not quantised"
            points = of(cells, name)
            canvas.curve(canvas.axis, points, Ink(colour, line), label, linewidth=width)
    canvas.over_rounds(f"mean {ACCURACY}")
    canvas.axis.set_ylim(0, 100)
    return canvas.legend()


# Figure 7, and our own: who prefers and who has which model, in the run of the first seed


def draw_preferences(cells: pd.DataFrame, *, by: str) -> MplFigure:
    """Draw a row a device or archetype, a column a round; numbers and shades are the models."""
    models = cells.pivot(index="line", columns="x", values="mean").to_numpy().round().astype(int)
    lines, rounds = models.shape
    canvas = Canvas(height=1.9 + 0.15 * lines)
    axis, numbers = canvas.axis, np.unique(models)
    shades = colormaps["cividis_r"].resampled(max(2, len(numbers)))
    image = axis.imshow(
        np.searchsorted(numbers, models),
        cmap=shades,
        vmin=-0.5,
        vmax=max(2, len(numbers)) - 0.5,
        aspect="auto",
        interpolation="nearest",
    )
    for line, row in enumerate(models):
        for first, end in _stretches(row):
            dark = np.mean(shades(int(np.searchsorted(numbers, row[first])))[:3]) < 0.5
            _number_stretch(axis, line, (first, end), rounds, row[first], dark=bool(dark))
        look: dict[str, Any] = {"color": "white", "linewidth": 0.8}
        if 2 * line == lines:
            look = {"color": "red", "linewidth": 1.5}
        axis.axhline(line - 0.5, **look)
    canvas.over_rounds(by)
    axis.set_yticks(range(0, lines, max(1, lines // 10)))
    axis.grid(visible=False)
    bar = canvas.figure.colorbar(
        image, ax=axis, location="bottom", ticks=range(len(numbers)), aspect=60, pad=0.02
    )
    bar.ax.set_xticklabels(map(str, numbers))
    about = "model, in order of creation; its number stands where there is room"
    bar.set_label(f"{about}\nred line: between the meta-archetypes")
    return canvas.figure


def _stretches(models: Sequence[int] | NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return the stretches of equal models in a row: first round, and the round behind the last."""
    ends = np.flatnonzero(np.diff(models)) + 1
    return [(int(a), int(b)) for a, b in itertools.pairwise([0, *ends, len(models)])]


_DIGIT = 4.5
"""Width of a digit of 7 points, in points."""
_ROW = 6.4 * 72
"""Width of a row, in points."""


def _number_stretch(
    axis: Axes, line: int, stretch: tuple[int, int], rounds: int, model: int, *, dark: bool
) -> None:
    """Separate a stretch from the next, and write its model into it where there is room."""
    first, end = stretch
    axis.vlines(end - 0.5, line - 0.5, line + 0.5, color="white", linewidth=0.6)
    if _DIGIT * len(str(model)) <= _ROW * (end - first) / rounds:
        look: dict[str, Any] = {"ha": "center", "va": "center_baseline", "fontsize": 7}
        look["color"] = "white" if dark else "black"
        axis.text((first + end - 1) / 2, line, f"{model}", **look)


def draw_holders(cells: pd.DataFrame) -> MplFigure:
    """Draw a panel a meta-archetype: a row a model, a column a round, dark where all have it."""
    models = sorted(cells["model"].unique())
    canvas = Canvas(1, 2, height=1.6 + 0.16 * len(models), sharey=True)
    most = int(cells["devices"].max())
    for axis, (meta, part) in zip(canvas, cells.groupby("meta"), strict=True):
        grid = part.pivot(index="model", columns="x", values="mean").to_numpy()
        mesh = axis.pcolormesh(grid, cmap="Blues", vmin=0, vmax=most, edgecolors="white", lw=0.2)
        axis.set(xlabel=ROUND, title=f"devices of meta-archetype {meta}")
        ticks = np.arange(0, grid.shape[1], 5)
        axis.set_xticks(ticks + 0.5, map(str, ticks))
        axis.set_yticks(np.arange(len(models)) + 0.5, [f"{m:g}" for m in models])
        axis.grid(visible=False)
    canvas.axis.invert_yaxis()
    canvas.axis.set_ylabel("model")
    canvas.figure.colorbar(mesh, ax=canvas.axes, label="devices that have it")
    return canvas.figure


def draw_active(cells: pd.DataFrame) -> MplFigure:
    """Draw a panel a model: a row a device, a column a round, dark while the device has it."""
    rounds, devices = int(cells["x"].max()) + 1, int(cells["device"].max()) + 1
    models = sorted(cells["model"].unique())
    rows = -(-len(models) // 4)
    canvas = Canvas(rows, 4, height=1.2 + 1.2 * rows, sharex=True, sharey=True)
    for axis, model in itertools.zip_longest(canvas, models):
        if model is None:
            axis.set_visible(False)
            continue
        held = cells[cells["model"] == model]
        grid = np.zeros((devices, rounds))
        grid[held["device"].astype(int), held["x"].astype(int)] = 1
        axis.imshow(grid, cmap="Blues", vmax=1.2, aspect="auto", interpolation="nearest")
        axis.axhline(devices / 2 - 0.5, color=BLACK.colour, linewidth=0.6)
        axis.set_title(f"model {model:g}", fontsize=8, pad=3)
        axis.tick_params(labelsize=7)
        axis.grid(visible=False)
    canvas.over_rounds("device")
    canvas.patch("the device has the model", color=colormaps["Blues"](1 / 1.2))
    canvas.key("between the meta-archetypes", BLACK, linewidth=0.6)
    return canvas.legend()


# Our own: traffic

_WAYS = {"up": "drawn devices send", "down": "all devices receive"}


def draw_traffic(cells: pd.DataFrame) -> MplFigure:
    """Draw uploads on the left, downloads on the right."""
    canvas = Canvas(1, 2, height=3.2)
    for axis, (way, title) in zip(canvas, _WAYS.items(), strict=True):
        for method, ink in _INKS.items():
            canvas.curve(axis, of(cells, f"{method}, {way}"), ink, method, factor=1)
        axis.set_title(title)
        axis.set_ylim(bottom=0)
    canvas.over_rounds("MB in a round")
    return canvas.legend()


# Figures 8 and 9: biases


def draw_by_bias(cells: pd.DataFrame, *, label: str) -> MplFigure:
    """Draw a curve a bias."""
    canvas = Canvas(height=3.4)
    names = [name for name in cells["series"].unique() if name != LOG_OF_18]
    for name, ink in zip(names, _shades("plasma", len(names), high=0.88), strict=True):
        canvas.curve(canvas.axis, of(cells, name), ink, name, factor=1)
    canvas.curve(canvas.axis, of(cells, LOG_OF_18), _LOG_INK, LOG_OF_18, factor=1, **_THIN)
    canvas.over_rounds(label)
    canvas.axis.set_ylim(bottom=0)
    return canvas.legend()


# The public logs: ours, and theirs dashed


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
    canvas.curve(axis, theirs, replace(ink, line="--"), factor=factor, **_THIN)
    axis.set_ylim(bottom=0)


def _finished(canvas: Canvas) -> MplFigure:
    canvas.key("ours", Ink("grey"))
    canvas.key("public log", Ink("grey", "--"), **_THIN)
    return canvas.legend(5)


# The last notebook: 30 devices

_LOGGED = {
    "all devices": Ink("black"),
    "meta-archetype 0": Ink("blue"),
    "meta-archetype 1": Ink("orange"),
    CHANGE: Ink("green"),
}


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


def draw_six(cells: pd.DataFrame) -> MplFigure:
    """Draw a panel a quantity."""
    canvas = Canvas(1, 3, height=3.4)
    for axis, (series, ink) in zip(canvas, _COUNTS.items(), strict=True):
        _draw_pair(canvas, axis, cells, series, ink, factor=1)
        axis.set_title(series.replace(" of ", "\nof "), fontsize=9)
        if series != SPREAD:
            axis.yaxis.set_major_locator(MaxNLocator(integer=True))
    canvas.over_rounds("")
    return _finished(canvas)


_PANELS: dict[str, dict[str, tuple[str, Ink]]] = {
    "active models of 18 devices": {ACTIVE_OF_18: ("FedCD, active models", Ink("green"))},
    "accuracy, 18 devices (%)": {
        f"{method}, {OF_18}": (method, ink) for method, ink in _INKS.items()
    },
    "accuracy, 9 devices (%)": {f"{FEDAVG}, {OF_9}": (FEDAVG, _INKS[FEDAVG])},
}
"""Titles of the panels -> series -> what it is called, and its ink."""


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
    band: dict[str, Any] = {"color": _INKS[FEDAVG].options["color"], "alpha": 0.12, "linewidth": 0}
    canvas.axes[0, 1].axhspan(100 * low, 100 * high, **band)
    canvas.patch("published: FedAvg swings in this range", **band)
    canvas.over_rounds("")
    return canvas.legend(3, "published: read off the course report; 9 devices: log of its notebook")


DRAWINGS: dict[str, Drawing] = {
    "fig1a": draw_archetype_curves,
    "fig1b": draw_archetype_curves,
    "fig2": draw_changes,
    "fig3": draw_label_shares,
    "fig4a": draw_archetype_curves,
    "fig4b": draw_archetype_curves,
    "fig5": draw_changes,
    "fig6": draw_bits_curves,
    "fig7": functools.partial(draw_preferences, by="archetype"),
    "fig8": functools.partial(draw_by_bias, label=Y_ACTIVE),
    "fig9": functools.partial(draw_by_bias, label=Y_SPREAD),
    "preference": functools.partial(draw_preferences, by="device"),
    "holders": draw_holders,
    "active": draw_active,
    "traffic": draw_traffic,
    "open_choices": draw_choices,
    "notebook": draw_notebook,
    "archetypes": draw_archetypes,
    "six": draw_six,
    "course": draw_course,
}
