"""Liu, Lee, Julien 2020: figures 3 and 6, and our own on shared storage and on the groups."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as MplFigure
from matplotlib.lines import Line2D

from fedrepro.plots.figure import Figure
from fedrepro.plots.style import PALETTE, WIDTH
from fedrepro.runs import RunSet
from fedrepro.tables.selective import (
    CENTRALISED,
    FEDERATED_AS_RUN,
    FEDERATED_AS_WRITTEN,
    KEPT_MOMENTS,
    LOCAL,
    OWN_INITIAL,
    SELECTIVE_AS_RUN,
    SELECTIVE_AS_WRITTEN,
    TEST_TITLES,
    Curve,
    Test,
    by_percent,
    group_counts,
)

X_LABEL = "N: percentage balanced"
Y_LABEL = "accuracy (%)"

_METHOD_COLOURS = {
    "federated": PALETTE["blue"],
    "selective": PALETTE["orange"],
    "local": PALETTE["green"],
}
_PANELS = {
    "as run (nodes share storage)": (FEDERATED_AS_RUN, SELECTIVE_AS_RUN, LOCAL),
    "as written (true averaging)": (FEDERATED_AS_WRITTEN, SELECTIVE_AS_WRITTEN, LOCAL),
}
_LINE: dict[str, Any] = {"linestyle": "-"}
_POINTS: dict[str, Any] = {"linestyle": "--", "linewidth": 0.8, "marker": "D", "markersize": 3}
_ALIASING = {
    FEDERATED_AS_WRITTEN: ("blue", _LINE, "true averaging, moments reset every round"),
    KEPT_MOMENTS: ("green", _POINTS, "true averaging, moments kept"),
    OWN_INITIAL: ("purple", _POINTS, "the same, own initial weights"),
    FEDERATED_AS_RUN: ("red", _LINE, "shared storage (as run)"),
}
"""Colour, how the mean is drawn, and legend; diamonds mark the few N of the variants."""

SMALL_PERCENT = 20
"""Largest N of the figure on shared storage."""


def _points(summary: pd.DataFrame, series: str) -> pd.DataFrame:
    points = summary.rename(columns={"percent": "x"})
    points.insert(0, "series", series)
    return points


def curves(runs: RunSet, *, test: Test) -> pd.DataFrame:
    """Return figure 3 (``iid``) or 6 (``noniid``): both readings, and centralised at x = 100."""
    shown = (
        FEDERATED_AS_RUN,
        SELECTIVE_AS_RUN,
        FEDERATED_AS_WRITTEN,
        SELECTIVE_AS_WRITTEN,
        LOCAL,
        CENTRALISED,
    )
    return pd.concat(
        [_points(by_percent(runs, curve, curve.metric(test)), curve.name) for curve in shown],
        ignore_index=True,
    )


def draw_curves(cells: pd.DataFrame) -> MplFigure:
    """Draw the readings side by side: all of the range above, the upper end of it below."""
    figure, axes = plt.subplots(
        2, 2, figsize=(WIDTH, 6.0), sharex=True, sharey="row", height_ratios=[3, 2]
    )
    for column, (title, shown) in enumerate(_PANELS.items()):
        for axis in axes[:, column]:
            for curve in shown:
                _draw_method(axis, cells, curve)
            central = 100 * float(cells.loc[cells["series"] == CENTRALISED.name, "mean"].iloc[0])
            axis.axhline(central, color=PALETTE["grey"], linestyle=":", linewidth=1.2)
        axes[0, column].set_title(title)
        axes[1, column].set_xlabel(X_LABEL)
    axes[0, 0].set(ylabel=Y_LABEL, ylim=(None, 102))
    axes[1, 0].set(ylabel=f"{Y_LABEL}, enlarged", ylim=(90, 99.5), xlim=(-2, 102))
    figure.legend(handles=_curve_legend(), loc="outside lower center", ncols=4)
    return figure


def _draw_method(axis: Axes, cells: pd.DataFrame, curve: Curve) -> None:
    colour = _METHOD_COLOURS[curve.name.split(",")[0]]
    points = cells[cells["series"] == curve.name]
    _draw_ours(axis, points, colour)
    published = points.dropna(subset="published")
    axis.plot(published["x"], 100 * published["published"], color=colour, **_PUBLISHED)


_PUBLISHED: dict[str, Any] = {
    "linestyle": (0, (2, 1.5)),
    "linewidth": 0.8,
    "marker": "s",
    "markersize": 2.5,
    "markerfacecolor": "white",
    "markeredgewidth": 0.6,
}
"""How a published curve looks: thin, dashed, with white squares."""


def _draw_ours(
    axis: Axes, points: pd.DataFrame, colour: str, scale: float = 100, **mean: Any
) -> None:
    """Draw our mean (as a line, unless told otherwise) and every seed as a dot."""
    axis.plot(points["x"], scale * points["mean"], color=colour, **mean)
    x, y = _seeds(points)
    axis.plot(x, [scale * v for v in y], ".", color=colour, markersize=2.5, alpha=0.6)


def _seeds(points: pd.DataFrame) -> tuple[list[float], list[float]]:
    """Return x and value of every seed."""
    pairs = [
        (float(x), float(value))
        for x, values in zip(points["x"], points["values"], strict=True)
        for value in str(values).split()
    ]
    return [x for x, _ in pairs], [value for _, value in pairs]


def _curve_legend() -> list[Line2D]:
    handles = [
        Line2D([], [], color=colour, label=method) for method, colour in _METHOD_COLOURS.items()
    ]
    black = "black"
    return [
        *handles,
        Line2D([], [], color=PALETTE["grey"], linestyle=":", label="centralised (ours)"),
        Line2D([], [], color=black, label="ours, mean"),
        Line2D([], [], color=black, linestyle="", marker=".", label="ours, every seed"),
        Line2D([], [], color=black, label="published", **_PUBLISHED),
    ]


def aliasing(runs: RunSet) -> pd.DataFrame:
    """Return federated accuracy at small N, true averaging against shared storage, both tests.

    Further columns: ``curve`` (the series without its test) and ``test``.
    """
    parts = []
    for curve in _ALIASING:
        for test, title in TEST_TITLES.items():
            summary = by_percent(runs, curve, curve.metric(test))
            points = _points(summary[summary["percent"] <= SMALL_PERCENT], f"{curve.name}; {title}")
            parts.append(points.assign(curve=curve.name, test=title))
    return pd.concat(parts, ignore_index=True)


def draw_aliasing(cells: pd.DataFrame) -> MplFigure:
    """Draw a panel a test."""
    figure, axes = plt.subplots(1, 2, figsize=(WIDTH, 3.4), sharex=True, sharey=True)
    for axis, title in zip(axes, TEST_TITLES.values(), strict=True):
        for curve, (colour, mean, _) in _ALIASING.items():
            shown = (cells["curve"] == curve.name) & (cells["test"] == title)
            _draw_ours(axis, cells[shown], PALETTE[colour], **mean)
        axis.set(title=title, xlabel=X_LABEL)
    axes[0].set(ylabel=Y_LABEL, ylim=(None, 100), xlim=(-0.7, SMALL_PERCENT + 0.7))
    handles = [
        Line2D([], [], color=PALETTE[colour], label=label, **mean)
        for colour, mean, label in _ALIASING.values()
    ]
    dots = Line2D([], [], color="black", linestyle="", marker=".", label="every seed")
    figure.legend(handles=[*handles, dots], loc="outside lower center", ncols=2)
    return figure


_GROUP_CURVES: Sequence[Curve] = (SELECTIVE_AS_RUN, SELECTIVE_AS_WRITTEN)


def groups_per_n(runs: RunSet) -> pd.DataFrame:
    """Return the number of groups at every N, in both readings."""
    return pd.concat(
        [_points(group_counts(runs, curve), curve.name) for curve in _GROUP_CURVES],
        ignore_index=True,
    )


def draw_groups_per_n(cells: pd.DataFrame) -> MplFigure:
    """Draw a panel a reading: the mean as a line, every seed as a dot."""
    figure, axes = plt.subplots(1, 2, figsize=(WIDTH, 3.0), sharex=True, sharey=True)
    for axis, title, curve in zip(axes, _PANELS, _GROUP_CURVES, strict=True):
        _draw_ours(axis, cells[cells["series"] == curve.name], PALETTE["orange"], scale=1)
        axis.set(title=title, xlabel=X_LABEL)
    axes[0].set(ylabel="number of groups", ylim=(0, 9.5), yticks=range(10), xlim=(-2, 102))
    handles = [
        Line2D([], [], color=PALETTE["orange"], label="mean over seeds"),
        Line2D([], [], color=PALETTE["orange"], linestyle="", marker=".", label="every seed"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2)
    return figure


FIGURES: dict[str, Figure] = {
    "fig3": Figure(functools.partial(curves, test="iid"), draw_curves),
    "fig6": Figure(functools.partial(curves, test="noniid"), draw_curves),
    "aliasing": Figure(aliasing, draw_aliasing),
    "groups_per_n": Figure(groups_per_n, draw_groups_per_n),
}
