"""Draws the figures of Zhao et al. 2018."""

from __future__ import annotations

import re
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as MplFigure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from fedrepro.papers.emd.figures import ROUNDING
from fedrepro.papers.emd.measurements import KWS_PACKED
from fedrepro.report.drawings import Drawing, draw_choices
from fedrepro.report.plots import ACCURACY, BLACK, INTERVALS, Canvas, Ink
from fedrepro.report.style import PALETTE

X_EMD = "earth mover's distance (EMD)"
Y_DISTANCE = r"$\|w^{\mathrm{FedAvg}} - w^{\mathrm{SGD}}\|$"
Y_DIVERGENCE = rf"{Y_DISTANCE} / $\|w^{{\mathrm{{SGD}}}}\|$"

_TRAININGS = {
    "SGD": Ink("blue"),
    "FedAvg, IID": Ink("orange", "--"),
    "FedAvg, non-IID(2)": Ink("green"),
    "FedAvg, non-IID(1)": Ink("purple"),
    "FedAvg, non-IID(1), E = 5": Ink("sky", "--"),
    "FedAvg, pre-trained, non-IID(1)": Ink("black", "-."),
}
"""By title, which goes on with the batches; dashed: may lie on the one before, as IID on SGD."""
_NEAR = 0.005
"""Published accuracies nearer than this would lie on each other."""
_BATCHES = re.compile(", (large|small) B$")
_COLOURS = ("blue", "orange", "green", "purple", "sky", "red")
_SERIES = [Ink(colour, marker=marker) for colour, marker in zip(_COLOURS, "osD^vP", strict=True)]
_BAR: dict[str, Any] = {"markersize": 8, "markeredgewidth": 1.5}
_SPREAD = 0.17
"""Distance of neighbouring series in figure 2, in units of the distance of layers."""
_T_OF_FIVE = 2.776
"""Student's t, 97.5 %, four degrees of freedom: the published standard deviations are of five."""


# Figures 1 and 8: accuracy over the rounds


def draw_accuracy_curves(cells: pd.DataFrame) -> MplFigure:
    """Draw all rounds, and the second half of them enlarged.

    A dot marks where a pre-trained run begins. Published values that nearly coincide are nested
    circles.
    """
    canvas = Canvas(1, 2, height=3.6)
    whole, late = canvas
    ends: list[float] = []
    for series, points in cells.groupby("series", sort=False):
        ink = _TRAININGS[_BATCHES.sub("", str(series))]
        end = float(points["reported"].iloc[-1])
        inner = sum(abs(end - other) < _NEAR for other in ends)
        circle: dict[str, Any] = {"markersize": 4 + 3 * inner, "clip_on": False}
        ends.append(end)
        for axis in canvas:
            canvas.curve(axis, points, ink, str(series))
            canvas.published(axis, points, ink, column="reported", **circle)
        start = points[points["x"] == 0]
        if len(start):
            dot, name = Ink(ink.colour, "", "o"), "where pre-training ended"
            canvas.curve(whole, start, dot, name, seeds=False, clip_on=False, zorder=5)
    end = cells["x"].max()
    late_values = cells.loc[cells["x"] >= end / 2, "values"].explode().astype(float)
    shown = 100 * pd.concat([late_values, cells["reported"].dropna()])
    margin = max(0.05 * (shown.max() - shown.min()), 0.1)
    canvas.accuracy_over_rounds()
    whole.set(title=f"{cells['dataset'].iloc[0]}: all rounds", xlim=(0, end), ylim=(0, 100))
    late.set(title="second half, enlarged", xlim=(end / 2, end))
    late.set_ylim(shown.min() - margin, shown.max() + margin)
    packed = cells["dataset"].iloc[0] == KWS_PACKED
    features = ", of 50 x 10 features" if packed else ""
    known = f"published: Table 3{features}, drawn where ours end"
    return canvas.legend(3, known if cells["reported"].notna().any() else "")


# Figures 2 and 4: weight divergence


def draw_divergence_by_skew(cells: pd.DataFrame) -> MplFigure:
    """Draw a panel a data set, on a logarithmic scale: a bar at the mean, every seed as a dot."""
    datasets = cells.groupby("dataset", sort=False)
    widths = [points["layer"].nunique() for _, points in datasets]
    canvas = Canvas(1, len(widths), height=3.6, sharey=True, gridspec_kw={"width_ratios": widths})
    names = list(cells["series"].unique())
    inks = [Ink(colour, "", "_") for colour in ("blue", "orange", "green", "purple")]
    for axis, (dataset, here) in zip(canvas, datasets, strict=True):
        layers = list(here["layer"].unique())
        for position, (series, ink) in enumerate(zip(names, inks, strict=False)):
            points = here[here["series"] == series]
            shift = _SPREAD * (position - (len(names) - 1) / 2)
            points = points.assign(x=points["layer"].map(layers.index) + shift)
            canvas.curve(axis, points, ink, series, factor=1, seeds=False, **_BAR)
            canvas.dots(axis, points, ink, factor=1)
        axis.set(yscale="log", title=dataset)
        _name(axis, range(len(layers)), layers)
    canvas.axis.set_ylabel(Y_DIVERGENCE)
    return canvas.legend(2, "bar: mean, dots: every seed")


def draw_divergence_by_emd(cells: pd.DataFrame) -> MplFigure:
    """Draw a curve a layer: mean, its interval, every distribution as a dot."""
    canvas = Canvas(height=3.6)
    _intervals(canvas, cells, factor=1)
    canvas.axis.set(title=cells["dataset"].iloc[0], ylabel=Y_DIVERGENCE)
    canvas.axis.set_ylim(bottom=0)
    _emd_axis(canvas.axis, cells)
    return canvas.legend(5, INTERVALS)


# Figure 5: accuracy against EMD


def draw_accuracy_by_emd(cells: pd.DataFrame) -> MplFigure:
    """Draw our means with their intervals and every distribution; published values beside."""
    canvas = Canvas(height=4)
    for ink, (_, points) in zip(_SERIES, cells.groupby("series", sort=False), strict=False):
        printed = points.assign(published=points["table2"]).dropna(subset="published")
        canvas.published(canvas.axis, printed, ink, linestyle=":", marker=ink.marker, alpha=0.6)
        bars = {"ecolor": ink.options["color"], "fmt": "none", "capsize": 2, "alpha": 0.6}
        reach = 100 * _T_OF_FIVE * printed["table2_sd"] / np.sqrt(5)
        canvas.axis.errorbar(printed["x"], 100 * printed["published"], yerr=reach, **bars)
    _intervals(canvas, cells)
    canvas.axis.set_ylabel(ACCURACY)
    _emd_axis(canvas.axis, cells)
    what = f"ours ({cells['scale'].iloc[0]} scale) and published: {INTERVALS}"
    if KWS_PACKED in set(cells["series"]):
        what += "\npublished KWS: 50 x 10 features"
    return canvas.legend(4, what)


def draw_variation(cells: pd.DataFrame) -> MplFigure:
    """Draw a box over the distributions, each a dot, in per cent of their mean.

    One panel for the accuracies, and one a data set for the divergences of its layers.
    """
    accuracy = cells[cells["series"] == "accuracy"]
    divergence = cells[cells["series"] == "weight divergence"].groupby("dataset", sort=False)
    sizes = [len(accuracy), *divergence.size()]
    canvas = Canvas(1, len(sizes), height=3.4, gridspec_kw={"width_ratios": sizes})
    first, *others = canvas
    _boxes(first, accuracy, list(accuracy["dataset"]))
    first.set_title("accuracy", fontsize=8)
    first.set_ylabel("distance from the mean (%)")
    for axis, (dataset, points) in zip(others, divergence, strict=True):
        if axis is not others[0]:
            axis.sharey(others[0])
            axis.tick_params(labelleft=False)
        _boxes(axis, points, list(points["layer"]))
        axis.set_title(f"divergence,\n{dataset}", fontsize=8)
    what = "dots: the distributions; box: their quartiles, line: their median"
    return canvas.legend(title=f"EMD {cells['emd'].iloc[0]:g}; {what}")


def _boxes(axis: Axes, points: pd.DataFrame, names: list[str]) -> None:
    boxes = [[100 * value - 100 for value in values] for values in points["values"]]
    axis.boxplot(boxes, showfliers=False, medianprops={"color": PALETTE["red"]})
    for place, values in enumerate(boxes, start=1):
        axis.plot([place] * len(values), values, ".", color=PALETTE["blue"], alpha=0.7)
    _name(axis, range(1, len(names) + 1), names)


# Figures 3 and 6, redrawn from runs


def draw_weights_in_a_plane(cells: pd.DataFrame) -> MplFigure:
    """Draw the path of SGD, of the average, and of every client between synchronisations.

    Each panel says how far apart, at most, two models of one synchronisation are in it.
    """
    canvas = Canvas(1, cells["emd"].nunique(), height=3.8)
    inks = {"SGD": Ink("blue", marker="s"), "FedAvg": Ink("red", marker="o")}
    client = Ink("grey", marker=".")
    for axis, (emd, here) in zip(canvas, cells.groupby("emd", sort=False), strict=True):
        start = here[here["model"] == "start"]
        path = {
            model: pd.concat([start, points])[["mean", "up"]].to_numpy()
            for model, points in here.groupby("model", sort=False)
        }
        for model in (name for name in path if name not in {"start", *inks}):
            for begin, end in zip(path["FedAvg"], path[model][1:], strict=False):
                axis.plot(*np.transpose([begin, end]), linewidth=0.8, zorder=1, **client.options)
        for model, ink in inks.items():
            axis.plot(*path[model].T, markersize=5, **ink.options)
        apart = max(
            float(np.linalg.norm(models.to_numpy()[:, None] - models.to_numpy(), axis=-1).max())
            for _, models in here.groupby("x")[["mean", "up"]]
        )
        axis.set_title(
            f"EMD {emd:g} ({100 * here['kept'].iloc[0]:.0f} % of the variance in the plane);\n"
            f"clients, FedAvg, SGD at most {apart:.2g} apart in it",
            fontsize=8,
        )
        axis.set_xlabel("first component")
        axis.set_aspect("equal", adjustable="datalim")
    canvas.axis.set_ylabel("second component")
    canvas.key("SGD", inks["SGD"])
    canvas.key("FedAvg, after each synchronisation", inks["FedAvg"])
    canvas.key("a client", client)
    what = f"{cells['dataset'].iloc[0]}, full batches, {cells['x'].max()} synchronisations"
    return canvas.legend(title=what)


def draw_sharing_partition(cells: pd.DataFrame) -> MplFigure:
    """Draw a bar a client: its own class, and the share of G on top; a colour a class."""
    canvas = Canvas(height=4)
    colours = plt.get_cmap("tab10")
    top = np.zeros(cells["x"].nunique())
    for held, name, hatch in (("own", "own examples", ""), ("shared", "share of G", "///")):
        canvas.patch(name, facecolor="white", edgecolor="black", hatch=hatch)
        part = cells[cells["held"] == held]
        for label in sorted(part["label"].unique()):
            points = part[part["label"] == label].set_index("x")["mean"]
            style = {"color": colours(label % 10), "edgecolor": "white", "linewidth": 0.3}
            canvas.axis.bar(points.index, points, bottom=top[points.index], hatch=hatch, **style)
            top[points.index] += points
    for label in sorted(cells["label"].unique()):
        canvas.patch(f"class {label}", facecolor=colours(label % 10))
    canvas.axis.set(xlabel="client", ylabel="training examples", xticks=range(len(top)))
    canvas.axis.set_title(f"{cells['what'].iloc[0]}: EMD {cells['emd'].iloc[0]:.4g} instead of 1.8")
    canvas.axis.grid(visible=False, axis="x")
    canvas.axis.set_axisbelow(True)
    return canvas.legend(6)


# Figure 7: data sharing


def draw_accuracy_by_beta(cells: pd.DataFrame) -> MplFigure:
    """Draw accuracy (left axis) and EMD (right axis) against beta, and the published points.

    What the text quotes for no sharing is of another experiment and is left out.
    """
    canvas = Canvas(height=3.6)
    emd = Ink("orange", "--", "s")
    _intervals(canvas, cells)
    canvas.published(canvas.axis, cells[cells["x"] > 0], _SERIES[0], marker="*", markersize=9)
    canvas.axis.set(xlabel=r"size of G, $\beta$ (% of D)", ylabel=ACCURACY)
    right = canvas.axis.twinx()
    right.plot(cells["x"], cells["emd"], **emd.options)
    right.set(ylabel="EMD of the clients", ylim=(0, 1.9))
    right.spines["right"].set_visible(True)
    right.grid(visible=False)
    canvas.key("EMD", emd)
    return canvas.legend(title=INTERVALS)


def draw_accuracy_by_alpha(cells: pd.DataFrame) -> MplFigure:
    """Draw a curve a G, and the published points."""
    canvas = Canvas(height=3.4)
    _intervals(canvas, cells)
    for ink, (_, points) in zip(_SERIES, cells.groupby("series", sort=False), strict=False):
        canvas.published(canvas.axis, points, ink, marker="*", markersize=9)
    canvas.axis.set(xlabel=r"share of G that a client receives, $\alpha$ (%)", ylabel=ACCURACY)
    return canvas.legend(title=INTERVALS)


# Proposition 3.1


def draw_bound(cells: pd.DataFrame) -> MplFigure:
    """Draw measured distances as lines and bounds dashed, on a logarithmic scale.

    Shaded: where distances are rounding and may exceed their bound. A bound of zero (EMD 0, first
    synchronisation) has no place on the scale and is left out.
    """
    canvas = Canvas(height=3.6)
    axis = canvas.axis
    lines = {"distance": "-", "bound": "--"}
    for ink, (emd, here) in zip(_SERIES, cells.groupby("emd", sort=False), strict=False):
        canvas.key(f"EMD {emd:g}", Ink(ink.colour))
        for side, points in here[here["mean"] > 0].groupby("side"):
            style = Ink(ink.colour, lines[str(side)], ".")
            canvas.curve(axis, points, style, factor=1, seeds=False)
    canvas.key("measured", BLACK)
    canvas.key("bound (eq. 2)", Ink("black", lines["bound"]))
    axis.set(yscale="log", xlabel="synchronisation m", ylabel=Y_DISTANCE)
    floor = axis.get_ylim()[0]
    rounding = cells.groupby("x")["rounding"].min()
    axis.fill_between(rounding.index, floor, rounding, color=PALETTE["grey"], alpha=0.25, lw=0)
    axis.set_ylim(bottom=floor)
    what = f"below {100 * ROUNDING:g} % of the weights' norm: rounding, which may exceed the bound"
    axis.text(cells["x"].max(), 1.5 * floor, what, ha="right", va="bottom", fontsize=8)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    return canvas.legend()


# Shared by several figures


def _intervals(canvas: Canvas, cells: pd.DataFrame, *, factor: float = 100) -> None:
    """Draw every series with intervals, and every run as a dot."""
    for ink, (series, points) in zip(_SERIES, cells.groupby("series", sort=False), strict=False):
        label = str(series).replace("_", " ")
        canvas.intervals(canvas.axis, points, ink, label, factor=factor)
        canvas.dots(canvas.axis, points, ink, factor=factor)


def _name(axis: Axes, places: range, names: list[str]) -> None:
    """Put names below a panel whose x is a category."""
    labels = [name.replace("_", " ") for name in names]
    axis.set_xticks(places, labels, rotation=40, ha="right", fontsize=7)
    axis.grid(visible=False, axis="x")


def _emd_axis(axis: Axes, cells: pd.DataFrame) -> None:
    """Put a tick at every EMD; 1.764 is too close to 1.8 for a label beside it."""
    axis.set_xlabel(X_EMD)
    axis.set_xticks(sorted(cells["x"].unique()))
    axis.xaxis.set_major_formatter(
        FuncFormatter(lambda x, _: "\n1.764" if abs(x - 1.764) < 1e-6 else f"{x:g}")
    )


DRAWINGS: dict[str, Drawing] = {
    **dict.fromkeys(("fig1a", "fig1b", "fig1c"), draw_accuracy_curves),
    "fig2": draw_divergence_by_skew,
    "fig3": draw_weights_in_a_plane,
    **dict.fromkeys(("fig4a", "fig4b", "fig4c"), draw_divergence_by_emd),
    "fig5a": draw_accuracy_by_emd,
    "fig5b": draw_variation,
    "fig6": draw_sharing_partition,
    "fig7a": draw_accuracy_by_beta,
    "fig7b": draw_accuracy_by_alpha,
    **dict.fromkeys(("fig8a", "fig8b", "fig8c"), draw_accuracy_curves),
    "bound_rounds": draw_bound,
    "open_choices": draw_choices,
}
