"""Liu, Lee, Julien 2020: figures 3 to 8, and our own on what stands behind them.

Our own: shared storage at small N, the three networks at N = 0, the groups, the threshold, and the
worst case of the theorem, for which nothing is trained.
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as MplFigure
from matplotlib.lines import Line2D

from fedrepro.fl.spec import RunSpec
from fedrepro.papers.selective.measurements import (
    AS_RUN_EVERY_ROUND,
    AS_RUN_RESET,
    CENTRALISED,
    FEDERATED,
    FEDERATED_AS_RUN,
    FEDERATED_AS_WRITTEN,
    KEPT_MOMENTS,
    LOCAL,
    LOCAL_STATISTICS,
    MODEL_1,
    MODEL_2,
    MODEL_3,
    MODELS,
    OWN_INITIAL,
    OWN_INITIAL_RESET,
    SELECTIVE,
    SELECTIVE_AS_RUN,
    SELECTIVE_AS_WRITTEN,
    TEST_TITLES,
    Curve,
    Model,
    Test,
    by_percent,
    group_counts,
    models_with,
    published_curve,
    recorded,
    threshold_means,
    thresholds,
)
from fedrepro.papers.selective.theory import UnfairOptimum, federated_averaging
from fedrepro.report.figure import Figure
from fedrepro.report.stats import summarise
from fedrepro.report.style import PALETTE, WIDTH
from fedrepro.runs.plan import Scale, expand
from fedrepro.runs.runset import RunSet

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
    FEDERATED_AS_WRITTEN: ("blue", _LINE, "true averaging, moments reset (as written)"),
    OWN_INITIAL_RESET: ("sky", _POINTS, "true averaging, moments reset, own initial weights"),
    KEPT_MOMENTS: ("green", _POINTS, "true averaging, moments kept"),
    OWN_INITIAL: ("purple", _POINTS, "true averaging, moments kept, own initial weights"),
    FEDERATED_AS_RUN: ("red", _LINE, "shared storage, moments kept (as run)"),
    AS_RUN_RESET: ("orange", _POINTS, "shared storage, moments reset"),
}
"""Colour, how the mean is drawn, and legend; diamonds mark the few N of the variants."""

SMALL_PERCENT = 20
"""Largest N of the figure on shared storage."""

STEPS = {"federated": 2, "selective": 2, "local": 5}
"""Steps of N in the published curves; ours are solid lines only where they are as fine."""


def _points(summary: pd.DataFrame, series: str) -> pd.DataFrame:
    points = summary.rename(columns={"percent": "x"})
    points.insert(0, "series", series)
    return points


def curves(runs: RunSet, *, model: Model, test: Test) -> pd.DataFrame:
    """Return a network's curves on one test: both readings, and centralised at x = 100.

    The published curves, at all their points, are further series, ``<method>, published``, with the
    published accuracy as ``mean``.
    """
    statistics = [curve for curve in model.variants if curve is LOCAL_STATISTICS]
    shown = recorded(runs, model, [*FEDERATED, *SELECTIVE, LOCAL, *statistics, CENTRALISED])
    return pd.concat(
        [
            *(
                _points(by_percent(runs, model(curve), curve.metric(test)), curve.name)
                for curve in shown
            ),
            *(_published(model, method, test) for method in _METHOD_COLOURS),
        ],
        ignore_index=True,
    )


def _published(model: Model, method: str, test: Test) -> pd.DataFrame:
    series = published_curve(model, method, test)
    return pd.DataFrame(
        {"series": f"{method}, published", "x": series.x, "mean": series.published, "n": 0}
    ).assign(values="", runs="")


def draw_curves(cells: pd.DataFrame, *, enlarged: tuple[float, float]) -> MplFigure:
    """Draw the readings side by side: all of the range above, the upper end of it below.

    Args:
        cells: of :func:`curves`.
        enlarged: the upper end of the range, in %.
    """
    figure, axes = plt.subplots(
        2, 2, figsize=(WIDTH, 6.0), sharex=True, sharey="row", height_ratios=[3, 2]
    )
    few = (cells["series"] == FEDERATED_AS_WRITTEN.name).sum() < FEW_POINTS
    variant = cells[cells["series"] == LOCAL_STATISTICS.name]
    for column, (title, shown) in enumerate(_PANELS.items()):
        for axis in axes[:, column]:
            for curve in shown:
                _draw_method(axis, cells, curve, **(_MARKED if few else {}))
            for central in cells.loc[cells["series"] == CENTRALISED.name, "mean"]:
                axis.axhline(100 * central, color=PALETTE["grey"], linestyle=":", linewidth=1.2)
            if FEDERATED_AS_WRITTEN in shown and len(variant):
                _draw_ours(axis, variant, PALETTE["sky"], step=STEPS["federated"], **_POINTS)
        axes[0, column].set_title(title)
        axes[1, column].set_xlabel(X_LABEL)
    axes[0, 0].set(ylabel=Y_LABEL, ylim=(None, 102))
    axes[1, 0].set(ylabel=f"{Y_LABEL}, enlarged", ylim=enlarged, xlim=(-2, 102))
    handles = [*_curve_legend(variant=bool(len(variant))), *_untrained_legend(figure)]
    figure.legend(handles=handles, loc="outside lower center", ncols=4)
    return figure


FEW_POINTS = 12
"""Curves with fewer values of N than this have their means marked."""

_MARKED: dict[str, Any] = {"marker": "o", "markersize": 3.5}


def _draw_method(axis: Axes, cells: pd.DataFrame, curve: Curve, **mean: Any) -> None:
    method = curve.name.split(",")[0]
    colour = _METHOD_COLOURS[method]
    ours = cells[cells["series"] == curve.name]
    _draw_ours(axis, ours, colour, step=STEPS[method], **mean)
    published = cells[cells["series"] == f"{method}, published"]
    axis.plot(published["x"], 100 * published["mean"], color=colour, **_PUBLISHED)


_PUBLISHED: dict[str, Any] = {
    "linestyle": (0, (2, 1.5)),
    "linewidth": 0.8,
    "marker": "s",
    "markersize": 2.5,
    "markerfacecolor": "white",
    "markeredgewidth": 0.6,
}
"""How a published curve looks: thin, dashed, with white squares."""


_UNTRAINED: dict[str, Any] = {
    "linestyle": ":",
    "linewidth": 0.8,
    "label": "ours, no N between trained",
}
"""How points of ours are joined that are further apart than the published ones."""


def _draw_ours(
    axis: Axes,
    points: pd.DataFrame,
    colour: str,
    scale: float = 100,
    step: float = math.inf,
    **mean: Any,
) -> None:
    """Draw our mean (as a line, unless told otherwise) and every seed as a dot.

    Neighbours that are more than a step apart are joined by thin dots only.
    """
    x, y = list(points["x"]), list(scale * points["mean"])
    apart = [i + 1 for i, (a, b) in enumerate(itertools.pairwise(x)) if b - a > step]
    if apart:
        axis.plot(x, y, color=colour, **_UNTRAINED)
    axis.plot(*np.insert(np.array([x, y], float), apart, math.nan, axis=1), color=colour, **mean)
    x, y = _seeds(points)
    axis.plot(x, [scale * v for v in y], ".", color=colour, markersize=2.5, alpha=0.6)


def _seeds(points: pd.DataFrame) -> tuple[list[float], list[float]]:
    """Return x and value of every seed."""
    pairs = [
        (float(x), float(value))
        for x, values in zip(points["x"], points["values"], strict=True)
        for value in values
    ]
    return [x for x, _ in pairs], [value for _, value in pairs]


def _curve_legend(*, variant: bool) -> list[Line2D]:
    handles = [
        Line2D([], [], color=colour, label=method) for method, colour in _METHOD_COLOURS.items()
    ]
    if variant:
        label = "federated, local statistics"
        handles.append(Line2D([], [], color=PALETTE["sky"], label=label, **_POINTS))
    black = "black"
    return [
        *handles,
        Line2D([], [], color=PALETTE["grey"], linestyle=":", label="centralised (ours)"),
        Line2D([], [], color=black, label="ours, mean"),
        Line2D([], [], color=black, linestyle="", marker=".", label="ours, every seed"),
        Line2D([], [], color=black, label="published", **_PUBLISHED),
    ]


def _untrained_legend(figure: MplFigure) -> list[Line2D]:
    """Return the legend's entry for the thin dots of :func:`_draw_ours`, if any are drawn."""
    drawn = {label for axis in figure.axes for label in axis.get_legend_handles_labels()[1]}
    return [Line2D([], [], color="black", **_UNTRAINED)] if _UNTRAINED["label"] in drawn else []


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


def rounds(runs: RunSet) -> pd.DataFrame:
    """Return the accuracy of Model 2 with shared storage after every round, on both tests.

    The published accuracies stand at the round that they are published for, as series
    ``..., published``. Further columns: ``percent`` (N) and ``test``.
    """
    curve = MODEL_2(AS_RUN_EVERY_ROUND)
    last = _spec(curve, "paper").rounds
    parts = []
    for test, title in TEST_TITLES.items():
        values = runs.curves([curve.group], curve.metric(test)).rename(columns={"round": "x"})
        values["series"] = [f"N = {percent}; {title}" for percent in values["percent"]]
        parts.append(summarise(values, "value", ["series", "x", "percent"]).assign(test=title))
        known = _published(MODEL_2, "federated", test).rename(columns={"x": "percent"})
        known = known[known["percent"].isin(values["percent"])].assign(test=title, x=last)
        known["series"] = [f"N = {percent:g}; {title}, published" for percent in known["percent"]]
        parts.append(known)
    return pd.concat(parts, ignore_index=True)


def _spec(curve: Curve, scale: Scale) -> RunSpec:
    """Return the first run of a curve's group at a scale."""
    return next(run.spec for run in expand("selective", scale) if run.group == curve.group)


def draw_rounds(cells: pd.DataFrame) -> MplFigure:
    """Draw a panel a test, a line an N; dotted across, the published accuracies."""
    figure, axes = plt.subplots(1, 2, figsize=(WIDTH, 3.4), sharex=True, sharey=True)
    colours = dict(zip(sorted(set(cells["percent"])), ("red", "blue"), strict=True))
    for axis, title in zip(axes, TEST_TITLES.values(), strict=True):
        for percent, colour in colours.items():
            shown = cells[(cells["percent"] == percent) & (cells["test"] == title)]
            ours, known = shown[shown["n"] > 0], shown[shown["n"] == 0]
            seeds = "one seed" if ours["n"].max() == 1 else f"mean of {ours['n'].max()} seeds"
            label = f"N = {percent:g}, ours, {seeds}"
            axis.plot(ours["x"], 100 * ours["mean"], color=PALETTE[colour], label=label)
            for accuracy, after in zip(known["mean"], known["x"], strict=True):
                label = f"N = {percent:g}, published, after {after} rounds"
                axis.axhline(100 * accuracy, color=PALETTE[colour], linestyle=":", label=label)
        axis.set(title=title, xlabel="round")
    axes[0].set(ylabel=Y_LABEL, ylim=(0, 100))
    handles = axes[0].get_legend_handles_labels()[0]
    figure.legend(handles=handles, loc="outside lower center", ncols=2)
    return figure


_MODEL_COLOURS = {
    MODEL_1.name: PALETTE["blue"],
    MODEL_2.name: PALETTE["orange"],
    MODEL_3.name: PALETTE["green"],
}


def groups_per_n(runs: RunSet) -> pd.DataFrame:
    """Return the number of groups at every N, for each network and reading.

    Further columns: ``curve`` (the reading) and ``model``.
    """
    parts = []
    for model in models_with(runs, SELECTIVE):
        for curve in SELECTIVE:
            points = _points(group_counts(runs, model(curve)), f"{model.name}, {curve.name}")
            parts.append(points.assign(curve=curve.name, model=model.name))
    return pd.concat(parts, ignore_index=True)


def draw_groups_per_n(cells: pd.DataFrame) -> MplFigure:
    """Draw a panel a reading; a dashed line where the published groups merge."""
    figure, axes = plt.subplots(1, 2, figsize=(WIDTH, 3.4), sharex=True, sharey=True)
    for axis, title, curve in zip(axes, _PANELS, SELECTIVE, strict=True):
        for model in MODELS:
            colour = _MODEL_COLOURS[model.name]
            points = cells[(cells["curve"] == curve.name) & (cells["model"] == model.name)]
            marked = _MARKED if len(points) < FEW_POINTS else {}
            _draw_ours(axis, points, colour, scale=1, step=STEPS["selective"], **marked)
            axis.axvline(model.merged - 1, color=colour, linestyle="--", linewidth=1.0)
        axis.set(title=title, xlabel=X_LABEL)
    axes[0].set(ylabel="number of groups", ylim=(0, 9.5), yticks=range(10), xlim=(-2, 102))
    handles = [
        *(Line2D([], [], color=colour, label=name) for name, colour in _MODEL_COLOURS.items()),
        Line2D([], [], color="black", linestyle="", marker=".", label="every seed"),
        Line2D([], [], color="black", linestyle="--", label="published groups merge (Figs 6 to 8)"),
        *_untrained_legend(figure),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
    return figure


def complexity(runs: RunSet) -> pd.DataFrame:
    """Return federated accuracy at N = 0 of each network, for each reading and test.

    ``x`` is the number of the network. Further columns: ``curve``, ``test`` and ``network`` (its
    name, and how its training differs from the published one).
    """
    parts = []
    for model in models_with(runs, FEDERATED):
        network = "\n".join([model.name, *_reduced(model, runs.scale)])
        for curve in FEDERATED:
            for test, title in TEST_TITLES.items():
                summary = by_percent(runs, model(curve), curve.metric(test))
                points = summary[summary["percent"] == 0].assign(percent=MODELS.index(model) + 1)
                points = _points(points, f"{curve.name}; {title}")
                parts.append(points.assign(curve=curve.name, test=title, network=network))
    return pd.concat(parts, ignore_index=True)


def _reduced(model: Model, scale: Scale) -> list[str]:
    """Say what of a network's federated training is less than published."""
    ours, full = (_spec(model(FEDERATED_AS_RUN), name) for name in (scale, "paper"))
    parts = []
    if ours.rounds != full.rounds:
        parts.append(f"{ours.rounds} of {full.rounds} rounds")
    if ours.model.width != full.model.width:
        parts.append(f"{ours.model.width / full.model.width:g} of the width")
    return parts


_READINGS = {FEDERATED_AS_RUN.name: "red", FEDERATED_AS_WRITTEN.name: "blue"}
_POINT: dict[str, Any] = _MARKED | {"linestyle": ""}
_PUBLISHED_POINT: dict[str, Any] = _PUBLISHED | {"linestyle": "", "markersize": 5}


def draw_complexity(cells: pd.DataFrame) -> MplFigure:
    """Draw a panel a test, the published values with the reading they are held against."""
    figure, axes = plt.subplots(1, 2, figsize=(WIDTH, 3.4), sharex=True, sharey=True)
    networks = dict(zip(cells["x"], cells["network"], strict=True))
    for axis, title in zip(axes, TEST_TITLES.values(), strict=True):
        for name, colour in _READINGS.items():
            shown = cells[(cells["curve"] == name) & (cells["test"] == title)]
            known = shown.dropna(subset="published")
            axis.plot(known["x"], 100 * known["published"], color="black", **_PUBLISHED_POINT)
            _draw_ours(axis, shown, PALETTE[colour], **_POINT)
        axis.set_title(title)
        axis.set_xticks(list(networks), list(networks.values()), fontsize=8)
    axes[0].set(ylabel=Y_LABEL, ylim=(None, 102), xlim=(0.5, len(MODELS) + 0.5))
    handles = [
        Line2D([], [], color=PALETTE[colour], label=f"{name}, ours", **_POINT)
        for name, colour in _READINGS.items()
    ]
    label = "published, whole training"
    handles.append(Line2D([], [], color="black", label=label, **_PUBLISHED_POINT))
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
    return figure


def threshold_tuning(runs: RunSet) -> pd.DataFrame:
    """Return the accuracy on the tuning images at every threshold, for each N and their mean."""
    every, means = thresholds(runs), threshold_means(runs)
    parts = []
    for percent in sorted(set(every["percent"])):
        summary = summarise(every[every["percent"] == percent], "tuning", ["threshold"])
        parts.append((f"N = {percent}", summary))
    parts.append(("mean", summarise(means, "tuning", ["threshold"])))
    return pd.concat(
        [
            _points(summary.rename(columns={"threshold": "percent"}), series)
            for series, summary in parts
        ],
        ignore_index=True,
    )


PUBLISHED_THRESHOLD = 0.82


def draw_threshold_tuning(cells: pd.DataFrame) -> MplFigure:
    """Draw a line an N, and the mean that decides; dotted, the threshold of the public code."""
    figure, axis = plt.subplots(figsize=(WIDTH, 3.4))
    series = list(dict.fromkeys(cells["series"]))
    palette = [PALETTE[name] for name in ("blue", "orange", "green", "purple")]
    colours = dict(zip(series, palette, strict=False)) | {"mean": "black"}
    for name in series:
        _draw_ours(axis, cells[cells["series"] == name], colours[name], **_MARKED)
    axis.axvline(PUBLISHED_THRESHOLD, color=PALETTE["grey"], linestyle=":")
    axis.set(xlabel="similarity threshold", ylabel=f"{Y_LABEL}, tuning images")
    handles = [Line2D([], [], color=colours[name], label=name, **_MARKED) for name in series]
    label = f"threshold of the public code, {PUBLISHED_THRESHOLD}"
    handles.append(Line2D([], [], color=PALETTE["grey"], linestyle=":", label=label))
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
    return figure


_FACTORS = {2.0: "blue", 5.0: "orange", 20.0: "green"}
_GAMMAS = {0.01: "o", 1.0: "x", 100.0: "+"}
_SHARES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 0.6)
_SHOWN_SHARE = 0.01
_ROUNDS = 300


def theorem(runs: RunSet) -> pd.DataFrame:
    """Return federated averaging on the worst case of appendix A; no run is trained for it.

    ``mean`` is over runs with noisy gradients. Panels: ``global`` (global loss above its minimum,
    in units of Gamma) and ``node`` (node N's loss in multiples of its minimum), by round; ``share``
    (node N's loss after the last round, by p_N). Further columns: ``panel``, ``factor``, ``gamma``.
    """
    rows = []
    for factor, share, gamma in itertools.product(_FACTORS, _SHARES, _GAMMAS):
        case = UnfairOptimum(factor, share, gamma)
        rng = np.random.default_rng(0)
        w = federated_averaging(case, _ROUNDS, local_steps=5, rng=rng, noise=0.5, repeats=50)
        name = f"C = {factor:g}, Gamma = {gamma:g}"
        common = {"factor": factor, "gamma": gamma}
        excess = (case.global_loss(w).mean(axis=1) - case.global_minimum) / gamma
        node = case.losses(w)[..., -1].mean(axis=1) / case.own_minimum
        rows.append(
            {"series": f"{name}: node N", "x": share, "mean": node[-1], "panel": "share"} | common
        )
        if share == _SHOWN_SHARE and gamma == 1.0:
            for panel, values in (("global", excess), ("node", node)):
                rows += [
                    {"series": f"{name}: {panel}", "x": t, "mean": value, "panel": panel} | common
                    for t, value in enumerate(values)
                ]
    return pd.DataFrame(rows)


def draw_theorem(cells: pd.DataFrame) -> MplFigure:
    """Draw the global loss, node N's loss, and where that ends for other shares and Gamma."""
    figure, axes = plt.subplots(1, 3, figsize=(WIDTH, 3.4))
    for factor, name in _FACTORS.items():
        colour = PALETTE[name]
        of_factor = cells[cells["factor"] == factor]
        for axis, panel in zip(axes, ("global", "node"), strict=False):
            points = of_factor[(of_factor["panel"] == panel) & (of_factor["x"] > 0)]
            axis.plot(points["x"], points["mean"], color=colour)
        axes[1].axhline(factor, color=colour, linestyle=":")
        shares = np.geomspace(min(_SHARES), 0.9)
        limits = [UnfairOptimum(factor, share, 1.0).limit for share in shares]
        axes[2].plot(shares, limits, color=colour, linewidth=0.8)
        axes[2].axhline(factor, color=colour, linestyle=":")
        for gamma, marker in _GAMMAS.items():
            points = of_factor[(of_factor["panel"] == "share") & (of_factor["gamma"] == gamma)]
            axes[2].plot(
                points["x"], points["mean"], marker, color=colour, markersize=5, mfc="none"
            )
    axes[0].set(xscale="log", yscale="log", xlabel="round", title="global loss (one for all C)")
    axes[0].set_ylabel("above its minimum / $\\Gamma$")
    axes[1].set(xscale="log", yscale="log", xlabel="round", title="loss of node N")
    axes[1].set_ylabel("in multiples of its minimum")
    axes[2].set(xscale="log", yscale="log", xlabel="share $p_N$", title="the same, at the end")
    for axis in axes[1:]:
        axis.set_yticks([1, *_FACTORS], ["1", *(f"{factor:g}" for factor in _FACTORS)])
        axis.minorticks_off()
    handles = [
        Line2D([], [], color=PALETTE[name], label=f"C = {factor:g}")
        for factor, name in _FACTORS.items()
    ]
    handles += [
        Line2D([], [], color="black", linestyle="", marker=marker, mfc="none")
        for marker in _GAMMAS.values()
    ]
    labels = [str(handle.get_label()) for handle in handles[: len(_FACTORS)]]
    labels += [f"$\\Gamma$ = {gamma:g}" for gamma in _GAMMAS]
    handles += [
        Line2D([], [], color="black", linestyle=":"),
        Line2D([], [], color="black", linewidth=0.8),
    ]
    labels += ["C", "$C - p_N (C - 1)$"]
    figure.legend(handles, labels, loc="outside lower center", ncols=4)
    return figure


def _curves(model: Model, test: Test, *, lowest: float) -> Figure:
    highest = 99.5 if model is MODEL_1 else 100.1
    return Figure(
        functools.partial(curves, model=model, test=test),
        functools.partial(draw_curves, enlarged=(lowest, highest)),
    )


FIGURES: dict[str, Figure] = {
    "fig3": _curves(MODEL_1, "iid", lowest=90),
    "fig4": _curves(MODEL_2, "iid", lowest=95),
    "fig5": _curves(MODEL_3, "iid", lowest=95),
    "fig6": _curves(MODEL_1, "noniid", lowest=90),
    "fig7": _curves(MODEL_2, "noniid", lowest=95),
    "fig8": _curves(MODEL_3, "noniid", lowest=95),
    "complexity": Figure(complexity, draw_complexity),
    "aliasing": Figure(aliasing, draw_aliasing),
    "m2_rounds": Figure(rounds, draw_rounds),
    "groups_per_n": Figure(groups_per_n, draw_groups_per_n),
    "threshold_tuning": Figure(threshold_tuning, draw_threshold_tuning),
    "theorem": Figure(theorem, draw_theorem),
}
