"""Liu, Lee, Julien 2020: figures 3 to 8, and our own on what stands behind them.

Our own: shared storage at small N, the three networks at N = 0, the groups, the threshold, and the
worst case of the theorem, for which nothing is trained.
"""

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

from fedrepro.fl.spec import RunSpec
from fedrepro.papers.selective.measurements import (
    CENTRALISED,
    CURVES,
    FEDERATED,
    LOCAL,
    NETWORKS,
    OVER_PERCENTS,
    READINGS,
    SELECTIVE,
    TESTS,
    by_choice,
    curve,
    measured,
    metric,
    shown,
    some,
    tuning,
)
from fedrepro.papers.selective.theory import UnfairOptimum, course
from fedrepro.report import choices
from fedrepro.report.expected import load_expected, published
from fedrepro.report.figure import Figure
from fedrepro.report.plots import BLACK, EVERY_SEED, Canvas, Ink
from fedrepro.report.stats import summarise
from fedrepro.report.style import PALETTE
from fedrepro.runs.plan import expand
from fedrepro.runs.plan_schema import Scale
from fedrepro.runs.runset import RunSet

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
_SUMMARY = ["mean", "sd", "n", "low", "high", "values", "runs"]
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


def _points(cells: pd.DataFrame, *others: str, **columns: Any) -> pd.DataFrame:
    """Lay summarised cells out as a figure's frame wants them, with some other columns."""
    return cells.assign(**columns)[["series", "x", *_SUMMARY, *others]]


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


_LOCAL_STATISTICS = curve(method="federated", reading="as_written", variant="local statistics")
_METHODS = {"federated": "blue", "selective": "orange", "local": "green"}


def _shown(reading: str) -> dict[str, str]:
    """Return the curves that one reading calls federated and selective, and local."""
    return {"federated": FEDERATED[reading], "selective": SELECTIVE[reading], "local": LOCAL}


def curves(runs: RunSet, *, artefact: str) -> pd.DataFrame:
    """Return a network's curves on one test: both readings, and centralised at x = 100.

    The published curves, at all their points, are further series, ``<method>, published``, with the
    published accuracy as ``mean``.
    """
    ours = measured(runs, artefact, CURVES[artefact][1])
    ours = _points(ours, series=ours["curve"], x=ours["percent"])
    known = [published_curve(artefact, method) for method in _METHODS]
    return pd.concat([ours, *known], ignore_index=True)


def published_curve(artefact: str, method: str) -> pd.DataFrame:
    """Return a published curve; it is held against one or two readings of its method."""
    place = artefact, _shown("as_run")[method]
    every = load_expected("selective").series
    known = next(series for series in every if (series.artefact, series.series) == place)
    points = pd.DataFrame({"x": known.x, "mean": known.published, "n": 0, "values": "", "runs": ""})
    return points.assign(series=f"{method}, published")


def draw_curves(cells: pd.DataFrame, *, enlarged: Sequence[float]) -> MplFigure:
    """Draw the readings side by side: all of the range above, the upper end of it below.

    Args:
        cells: of :func:`curves`.
        enlarged: the upper end of the range, in %.
    """
    canvas = Canvas(2, 2, height=6.0, sharex=True, sharey="row", height_ratios=[3, 2])
    few = (cells["series"] == FEDERATED["as_written"]).sum() < FEW_POINTS
    for axis, reading in zip(canvas, itertools.cycle(READINGS), strict=False):
        for method, name in _shown(reading).items():
            ink = Ink(_METHODS[method], marker="o" if few else "")
            ours, known = (_only(cells, series=s) for s in (name, f"{method}, published"))
            _ours(canvas, axis, ours, ink, method, step=STEPS[method])
            canvas.published(axis, known.assign(published=known["mean"]), ink, **_PUBLISHED)
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
    """Say at which N our curves of a figure have points."""
    places = cells[cells["n"] > 0].groupby("series", sort=False)["x"]
    by_places: dict[str, list[str]] = {}
    for method in _METHODS:
        names = {_shown(reading)[method] for reading in READINGS}
        ns = sorted({f"{x:g}" for name, xs in places if name in names for x in xs}, key=float)
        by_places.setdefault(", ".join(ns), []).append(method)
    parts = [f"{' and '.join(methods)} {ns}" for ns, methods in by_places.items() if ns]
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

SMALL_PERCENT = 20
"""Largest N of the figure on shared storage."""


def _on_both_tests(runs: RunSet, artefact: str, last: int) -> pd.DataFrame:
    """Return accuracies up to an N on both tests, with the columns ``test`` and ``series``."""
    parts = [measured(runs, artefact, test).assign(test=title) for test, title in TESTS.items()]
    cells = pd.concat(parts, ignore_index=True)
    cells = some(runs, artefact, cells[cells["percent"] <= last])
    return cells.assign(series=cells["curve"] + "; " + cells["test"])


def aliasing(runs: RunSet) -> pd.DataFrame:
    """Return federated accuracy at small N, true averaging against shared storage, both tests.

    Further columns: ``curve`` (the series without its test) and ``test``.
    """
    cells = _on_both_tests(runs, "aliasing", SMALL_PERCENT)
    return _points(cells, "curve", "test", x=cells["percent"])


def draw_aliasing(cells: pd.DataFrame) -> MplFigure:
    """Draw a panel a test."""
    canvas, panels = _panel_a_test(xlabel=X_LABEL)
    for (reading, variant), (ink, label) in _ALIASING.items():
        name = curve(method="federated", reading=reading, variant=variant)
        for title, axis in panels.items():
            _ours(canvas, axis, _only(cells, curve=name, test=title), ink, label)
    canvas.axis.set(ylim=(None, 100), xlim=(-0.7, SMALL_PERCENT + 0.7))
    return canvas.legend(2)


def rounds(runs: RunSet) -> pd.DataFrame:
    """Return the accuracy of Model 2 with shared storage after every round, on both tests.

    The published accuracies stand at the round that they are published for, as series
    ``..., published``. Further columns: ``percent`` (N) and ``test``.
    """
    (group,) = runs.labelled(variant="every round")
    parts = []
    for test, title in TESTS.items():
        values = runs.curves([group], metric(test, **runs.plan.runs[group].labels))
        values["series"] = values["percent"].map(f"N = {{}}; {title}".format)
        ours = summarise(values, "value", ["series", "round", "percent"])
        parts.append(ours.rename(columns={"round": "x"}).assign(test=title))
        figure = next(name for name, shows in CURVES.items() if shows == ("m2", test))
        known = published_curve(figure, "federated").rename(columns={"x": "percent"})
        known = known.merge(values[["percent"]].drop_duplicates())
        known["series"] = known["percent"].map(f"N = {{:g}}; {title}, published".format)
        parts.append(known.assign(test=title, x=_spec(group, "paper").rounds))
    return _points(pd.concat(parts, ignore_index=True), "percent", "test")


def _spec(group: str, scale: Scale) -> RunSpec:
    """Return the first run of a group at a scale."""
    return next(run.spec for run in expand("selective", scale) if run.group == group)


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


def groups_per_n(runs: RunSet) -> pd.DataFrame:
    """Return the number of groups at every N, for each network and reading.

    Further columns: ``curve`` (the reading) and ``model``.
    """
    cells = measured(runs, "groups_per_n", "groups")
    cells = cells.rename(columns={"network": "model", "percent": "x"})
    return _points(cells, "curve", "model", series=cells["model"] + ", " + cells["curve"])


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


def complexity(runs: RunSet) -> pd.DataFrame:
    """Return federated accuracy at N = 0 of each network, for each reading and test.

    ``x`` is the number of the network. Further columns: ``curve``, ``test`` and ``network`` (its
    name, and how its training differs from the published one).
    """
    cells = _on_both_tests(runs, "complexity", 0)
    titles = {}
    for group in shown(runs, "complexity"):
        name = NETWORKS[runs.plan.runs[group].labels["network"]]
        titles[name] = "\n".join([name, *_reduced(group, runs.scale)])
    number = cells["network"].map(list(NETWORKS.values()).index) + 1
    cells = cells.assign(x=number, network=cells["network"].map(titles))
    return _points(cells, "curve", "test", "network")


def _reduced(group: str, scale: Scale) -> list[str]:
    """Say what of a group's training is less than published."""
    ours, full = _spec(group, scale), _spec(group, "paper")
    parts = []
    if ours.rounds != full.rounds:
        parts.append(f"{ours.rounds} of {full.rounds} rounds")
    if ours.model.width != full.model.width:
        parts.append(f"{ours.model.width / full.model.width:g} of the width")
    return parts


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


def threshold_tuning(runs: RunSet) -> pd.DataFrame:
    """Return the accuracy on the tuning images at every threshold, for each N and their mean."""
    cells = tuning(runs)
    return _points(cells, series=cells["at"], x=cells["threshold"])


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


_FACTORS = {2.0: "blue", 5.0: "orange", 20.0: "green"}
_GAMMAS = {0.01: "o", 1.0: "x", 100.0: "+"}
_SHARES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 0.6)
_SHOWN_SHARE = 0.01


def theorem(runs: RunSet) -> pd.DataFrame:
    """Return federated averaging on the worst case of appendix A; no run is trained for it.

    ``mean`` is over runs with noisy gradients. Panels: ``global`` (global loss above its minimum,
    in units of Gamma) and ``node`` (node N's loss in multiples of its minimum), by round; ``share``
    (node N's loss after the last round, by p_N). Further columns: ``panel``, ``factor``, ``gamma``.
    """
    parts = []
    for factor, share, gamma in itertools.product(_FACTORS, _SHARES, _GAMMAS):
        excess, node = course(UnfairOptimum(factor, share, gamma))
        shown = {"share": pd.DataFrame({"series": "node N", "x": share, "mean": node[-1:]})}
        if share == _SHOWN_SHARE and gamma == 1.0:
            for panel, mean in {"global": excess, "node": node}.items():
                x = range(len(mean))
                shown[panel] = pd.DataFrame({"series": panel, "x": x, "mean": mean})
        for panel, points in shown.items():
            series = f"C = {factor:g}, Gamma = {gamma:g}: " + points["series"]
            parts.append(points.assign(series=series, panel=panel, factor=factor, gamma=gamma))
    return pd.concat(parts, ignore_index=True)


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
    shares = np.geomspace(min(_SHARES), 0.9)
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
        axis.set_yticks([1, *_FACTORS], ["1", *(f"{factor:g}" for factor in _FACTORS)])
        axis.minorticks_off()
    return canvas.legend(4)


def _curves(artefact: str, *enlarged: float) -> Figure:
    return Figure(
        functools.partial(curves, artefact=artefact),
        functools.partial(draw_curves, enlarged=enlarged),
    )


FIGURES: dict[str, Figure] = {
    "fig3": _curves("fig3", 90, 99.5),
    "fig4": _curves("fig4", 95, 100.1),
    "fig5": _curves("fig5", 95, 100.1),
    "fig6": _curves("fig6", 90, 99.5),
    "fig7": _curves("fig7", 95, 100.1),
    "fig8": _curves("fig8", 95, 100.1),
    "complexity": Figure(complexity, draw_complexity),
    "aliasing": Figure(aliasing, draw_aliasing),
    "m2_rounds": Figure(rounds, draw_rounds),
    "groups_per_n": Figure(groups_per_n, draw_groups_per_n, "count"),
    "threshold_tuning": Figure(threshold_tuning, draw_threshold_tuning),
    "theorem": Figure(theorem, draw_theorem, "ratio"),
    "open_choices": choices.figure(by_choice),
}
