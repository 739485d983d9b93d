"""Draws the figures of Liu, Lee, Julien 2020, and our own."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as MplFigure

from fedrepro.papers.selective.figures import FACTORS, GAMMAS, SHARES, SMALL_PERCENT
from fedrepro.papers.selective.measurements import (
    CENTRALISED,
    FEDERATED,
    METHODS,
    NETWORKS,
    OVER_PERCENTS,
    READINGS,
    SELECTIVE,
    TESTS,
    by_method,
    curve,
)
from fedrepro.papers.selective.theory import UnfairOptimum
from fedrepro.report.drawings import Drawing, draw_choices
from fedrepro.report.expected import published
from fedrepro.report.plots import BLACK, EVERY_SEED, Canvas, Ink
from fedrepro.report.style import PALETTE

X_LABEL = "N: percentage balanced"
Y_LABEL = "accuracy (%)"
FEW_POINTS = 12
"""Curves with fewer values of N than this have their means marked."""

STEPS = {"federated": 2, "selective": 2, "local": 5}
"""Steps of N in the published curves; ours are joined only where they are as fine."""

_PANELS = {
    "as_run": "as run (nodes share storage)",
    "as_written": "as written (true averaging)",
}
_PUBLISHED: dict[str, Any] = {
    "linestyle": (0, (2, 1.5)),
    "linewidth": 0.8,
    "marker": "s",
    "markersize": 2.5,
    "markerfacecolor": "white",
    "markeredgewidth": 0.6,
    "zorder": 1.5,
}
"""Below our lines, which are on most of the published points."""


def _only(cells: pd.DataFrame, **values: object) -> pd.DataFrame:
    """Return the rows that have these values in the columns of the same names."""
    return cells[(cells[list(values)] == pd.Series(values)).all(axis=1)]


def _ours(
    canvas: Canvas,
    axis: Axes,
    points: pd.DataFrame,
    ink: Ink,
    label: str,
    *,
    step: float = math.inf,
    factor: float = 100,
) -> None:
    """Draw our mean as a line, thin where it is dashed, and every seed as a dot.

    Neighbours that are more than a step apart are not joined.
    """
    style: dict[str, Any] = {"factor": factor, "seeds": False}
    if ink.line == "--":
        style["linewidth"] = 0.8
    apart = points["x"].diff() > step
    for _, stretch in points.groupby(apart.cumsum()):
        canvas.curve(axis, stretch, ink, label, **style)
    canvas.dots(axis, points, ink, factor=factor)
    canvas.key(EVERY_SEED, Ink("black", "", "."))


def _panel_a_test(xlabel: str = "") -> tuple[Canvas, dict[str, Axes]]:
    """Return a canvas of accuracies, and its panels by the title of the test."""
    canvas = Canvas(1, 2, height=3.4, sharex=True, sharey=True)
    panels = dict(zip(TESTS.values(), canvas, strict=True))
    for title, axis in panels.items():
        axis.set(title=title, xlabel=xlabel)
    canvas.axis.set_ylabel(Y_LABEL)
    return canvas, panels


_COLOURS = dict(zip(METHODS, ("blue", "orange", "green"), strict=True))
_LOCAL_STATISTICS = curve(method="federated", reading="as_written", variant="local statistics")


def draw_curves(cells: pd.DataFrame, *, enlarged: Sequence[float]) -> MplFigure:
    """Draw the readings side by side: all of the range above, the upper end of it below.

    Args:
        cells: of :func:`curves`.
        enlarged: the upper end of the range, in %.
    """
    canvas = Canvas(2, 2, height=6.0, sharex=True, sharey="row", height_ratios=[3, 2])
    few = (cells["series"] == FEDERATED["as_written"]).sum() < FEW_POINTS
    inks = {method: Ink(colour, marker="o" if few else "") for method, colour in _COLOURS.items()}
    for method, ink in inks.items():
        canvas.key(method, ink)
    for axis, reading in zip(canvas, itertools.cycle(READINGS), strict=False):
        for method, name in by_method(reading).items():
            ours, known = (_only(cells, series=s) for s in (name, f"{method}, published"))
            _ours(canvas, axis, ours, inks[method], "", step=STEPS[method])
            printed = known.assign(published=known["mean"])
            canvas.published(axis, printed, inks[method], **_PUBLISHED)
        variant = _only(cells, series=_LOCAL_STATISTICS)
        if reading == "as_written" and len(variant):
            ink, label = Ink("sky", "--", "D"), "federated, local statistics"
            _ours(canvas, axis, variant, ink, label, step=STEPS["federated"])
        for central in _only(cells, series=CENTRALISED)["mean"]:
            canvas.level(axis, central, "centralised (ours)", Ink("grey", ":"))
    canvas.key("ours, mean", BLACK)
    for column, title in enumerate(_PANELS.values()):
        canvas.axes[0, column].set_title(title)
        canvas.axes[1, column].set_xlabel(X_LABEL)
    canvas.axes[0, 0].set(ylabel=Y_LABEL, ylim=(None, 102))
    canvas.axes[1, 0].set(ylabel=f"{Y_LABEL}, enlarged", ylim=enlarged, xlim=(-2, 102))
    return canvas.legend(4, _trained_at(cells) if few else "")


def _trained_at(cells: pd.DataFrame) -> str:
    """Say at which N our curves of a figure have points: of each reading where they differ."""
    ours = cells[cells["n"] > 0]
    by_places: dict[str, list[str]] = {}
    for method in METHODS:
        places = {}
        for reading, called in READINGS.items():
            xs = sorted(_only(ours, series=by_method(reading)[method])["x"])
            places[called] = ", ".join(f"{x:g}" for x in xs)
        if len(set(places.values())) == 1:
            places = {"": places.popitem()[1]}
        for called, ns in places.items():
            by_places.setdefault(ns, []).append(f"{method} {called}".rstrip())
    if len(by_places) == 1:
        return f"our values of N: {next(iter(by_places))}"
    parts = [f"{' and '.join(names)} {ns}" for ns, names in by_places.items() if ns]
    return f"our values of N: {'; '.join(parts)}"


_ALIASING = {
    ("as_written", ""): (Ink("blue"), "true averaging, moments reset (as written)"),
    ("as_written", "own initial weights"): (
        Ink("sky", "--", "D"),
        "true averaging, moments reset, own initial weights",
    ),
    ("as_written", "moments kept"): (Ink("green", "--", "D"), "true averaging, moments kept"),
    ("as_written", "moments kept, own initial weights"): (
        Ink("purple", "--", "D"),
        "true averaging, moments kept, own initial weights",
    ),
    ("as_run", ""): (Ink("red"), "shared storage, moments kept (as run)"),
    ("as_run", "moments reset"): (Ink("brown", "--", "D"), "shared storage, moments reset"),
}
"""By reading and variant; diamonds mark the few N of the variants."""


def draw_aliasing(cells: pd.DataFrame) -> MplFigure:
    """Draw a panel a test."""
    canvas, panels = _panel_a_test(xlabel=X_LABEL)
    for (reading, variant), (ink, label) in _ALIASING.items():
        name = curve(method="federated", reading=reading, variant=variant)
        for title, axis in panels.items():
            _ours(canvas, axis, _only(cells, curve=name, test=title), ink, label)
    canvas.axis.set(ylim=(None, 100), xlim=(-0.7, SMALL_PERCENT + 0.7))
    return canvas.legend(2)


def draw_rounds(cells: pd.DataFrame) -> MplFigure:
    """Draw a panel a test, a line an N; dotted across, the published accuracies."""
    canvas, panels = _panel_a_test(xlabel="round")
    colours = dict(zip(sorted(set(cells["percent"])), ("red", "blue"), strict=False))
    for (test, axis), (percent, colour) in itertools.product(panels.items(), colours.items()):
        points = _only(cells, test=test, percent=percent)
        ours = points[points["n"] > 0]
        seeds = "one seed" if ours["n"].max() == 1 else f"mean of {ours['n'].max()} seeds"
        canvas.curve(axis, ours, Ink(colour), f"N = {percent:g}, ours, {seeds}")
        known = points[points["n"] == 0]
        for after, accuracy in zip(known["x"], known["mean"], strict=True):
            label = f"N = {percent:g}, published, after {after} rounds"
            canvas.level(axis, accuracy, label, Ink(colour, ":"))
    canvas.axis.set_ylim(0, 100)
    return canvas.legend(2)


_NETWORK_COLOURS = dict(zip(NETWORKS.values(), ("blue", "orange", "green"), strict=True))


def draw_groups_per_n(cells: pd.DataFrame) -> MplFigure:
    """Draw a panel a reading; a dashed line where the published groups merge."""
    canvas = Canvas(1, 2, height=3.4, sharex=True, sharey=True)
    merged = published("selective", "merge")
    for axis, (reading, title) in zip(canvas, _PANELS.items(), strict=True):
        for name, colour in _NETWORK_COLOURS.items():
            points = _only(cells, curve=SELECTIVE[reading], model=name)
            canvas.key(name, Ink(colour))
            ink = Ink(colour, marker="o" if len(points) < FEW_POINTS else "")
            _ours(canvas, axis, points, ink, "", step=STEPS["selective"], factor=1)
            step_before = merged[name, f"{READINGS[reading]}: share at"] - 1
            axis.axvline(step_before, color=PALETTE[colour], linestyle="--", linewidth=1.0)
        axis.set(title=title, xlabel=X_LABEL)
    canvas.key("published groups merge (Figs 6 to 8)", Ink("black", "--"))
    canvas.axis.set(ylabel="number of groups", ylim=(0, 9.5), yticks=range(10), xlim=(-2, 102))
    return canvas.legend()


def draw_complexity(cells: pd.DataFrame) -> MplFigure:
    """Draw a panel a test, the published values with the reading they are held against."""
    canvas, panels = _panel_a_test()
    networks = dict(zip(cells["x"], cells["network"], strict=True))
    square: dict[str, Any] = _PUBLISHED | {"linestyle": "", "markersize": 5}
    colours = dict(zip(FEDERATED.values(), ("red", "blue"), strict=True))
    for (test, axis), (name, colour) in itertools.product(panels.items(), colours.items()):
        points = _only(cells, test=test, curve=name)
        canvas.published(axis, points, BLACK, **square)
        _ours(canvas, axis, points, Ink(colour, "", "o"), f"{name}, ours")
        axis.set_xticks(list(networks), list(networks.values()), fontsize=8)
    canvas.axis.set(ylim=(None, 102), xlim=(0.5, len(NETWORKS) + 0.5))
    return canvas.legend()


PUBLISHED_THRESHOLD = 0.82


def draw_threshold_tuning(cells: pd.DataFrame) -> MplFigure:
    """Draw a line an N, and the mean that decides; dotted, the threshold of the public code."""
    canvas = Canvas(height=3.4)
    each = [name for name in cells["series"].unique() if name != OVER_PERCENTS]
    colours = dict(zip(each, ("blue", "orange", "green", "purple"), strict=False))
    for name, colour in (colours | {OVER_PERCENTS: "black"}).items():
        _ours(canvas, canvas.axis, _only(cells, series=name), Ink(colour, marker="o"), name)
    canvas.axis.axvline(PUBLISHED_THRESHOLD, color=PALETTE["grey"], linestyle=":")
    canvas.key(f"threshold of the public code, {PUBLISHED_THRESHOLD}", Ink("grey", ":"))
    canvas.axis.set(xlabel="similarity threshold", ylabel=f"{Y_LABEL}, tuning images")
    return canvas.legend()


_FACTORS = dict(zip(FACTORS, ("blue", "orange", "green"), strict=True))
_GAMMAS = dict(zip(GAMMAS, ("o", "x", "+"), strict=True))


def draw_theorem(cells: pd.DataFrame) -> MplFigure:
    """Draw the global loss, node N's loss, and where that ends for other shares and Gamma."""
    canvas = Canvas(1, 3, height=3.4)
    everywhere, node, at_end = canvas
    plain: dict[str, Any] = {"factor": 1, "seeds": False}
    hollow: dict[str, Any] = {"markersize": 5, "markerfacecolor": "none"}
    cells = cells[cells["x"] > 0]
    for factor, colour in _FACTORS.items():
        for axis, panel in ((everywhere, "global"), (node, "node")):
            points = _only(cells, factor=factor, panel=panel)
            canvas.curve(axis, points, Ink(colour), f"C = {factor:g}", **plain)
    for gamma, marker in _GAMMAS.items():
        canvas.key(f"$\\Gamma$ = {gamma:g}", Ink("black", "", marker), **hollow)
    canvas.key("C", Ink("black", ":"))
    shares = np.geomspace(min(SHARES), 0.9)
    for factor, colour in _FACTORS.items():
        for gamma, marker in _GAMMAS.items():
            points = _only(cells, factor=factor, panel="share", gamma=gamma)
            canvas.curve(at_end, points, Ink(colour, "", marker), **plain, **hollow)
        limits = [UnfairOptimum(factor, share, 1.0).limit for share in shares]
        at_end.plot(shares, limits, color=PALETTE[colour], linewidth=0.8)
        for axis in (node, at_end):
            canvas.level(axis, factor, "C", Ink(colour, ":"), factor=1)
    canvas.key("$C - p_N (C - 1)$", BLACK, linewidth=0.8)
    for axis in canvas:
        axis.set(xscale="log", yscale="log", xlabel="round")
    everywhere.set(title="global loss (one for all C)", ylabel="above its minimum / $\\Gamma$")
    node.set(title="loss of node N", ylabel="in multiples of its minimum")
    at_end.set(title="the same, at the end", xlabel="share $p_N$")
    for axis in (node, at_end):
        axis.set_yticks([1, *FACTORS], ["1", *(f"{factor:g}" for factor in FACTORS)])
        axis.minorticks_off()
    return canvas.legend(4)


_draw_low = functools.partial(draw_curves, enlarged=(90, 99.5))
_draw_high = functools.partial(draw_curves, enlarged=(95, 100.1))

DRAWINGS: dict[str, Drawing] = {
    "fig3": _draw_low,
    "fig4": _draw_high,
    "fig5": _draw_high,
    "fig6": _draw_low,
    "fig7": _draw_high,
    "fig8": _draw_high,
    "complexity": draw_complexity,
    "aliasing": draw_aliasing,
    "m2_rounds": draw_rounds,
    "groups_per_n": draw_groups_per_n,
    "threshold_tuning": draw_threshold_tuning,
    "theorem": draw_theorem,
    "open_choices": draw_choices,
}
