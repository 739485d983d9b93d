"""Zhao et al. 2018: figures 1a, 2, 4a and 5a, the MNIST parts.

The paper prints its curves and divergences as images only. Published numbers are drawn in figure
5a alone, which is Table 2 as a curve.
"""

from __future__ import annotations

from typing import Literal

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as MplFigure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from fedrepro.expected import published
from fedrepro.plots.figure import Figure
from fedrepro.plots.style import PALETTE, WIDTH
from fedrepro.runs import RunSet
from fedrepro.stats import summarise
from fedrepro.tables.emd import (
    DATASET,
    IID,
    LAYERS,
    ONE_CLASS,
    SWEEP,
    TABLE_3,
    TWO_CLASS,
    divergences,
    emd_label,
    reported,
)

NOISE_FLOOR = "SGD in another order (noise floor)"
"""The divergence of two SGD runs that differ in nothing but the order of the examples."""

X_EMD = "earth mover's distance (EMD)"
Y_ACCURACY = "test accuracy (%)"
Y_DIVERGENCE = r"$\|w^{\mathrm{FedAvg}} - w^{\mathrm{SGD}}\| \; / \; \|w^{\mathrm{SGD}}\|$"

_FIVE = ("blue", "orange", "green", "red", "purple")
_DASHES: tuple[Literal["-", "--"], ...] = ("-", "--", "-", "-", "--")
"""Dashed where a curve may lie on the one before it: IID on SGD, E = 5 on E = 1."""
_SPREAD = 0.17
"""Distance of neighbouring series in figure 2, in units of the distance of layers."""


def accuracy_curves(runs: RunSet) -> pd.DataFrame:
    """Return figure 1a: test accuracy (fraction) over the rounds, one series a group of runs."""
    curves = runs.curves(TABLE_3, "accuracy")
    return summarise(curves.rename(columns={"title": "series", "round": "x"}), "value", _KEYS)


_KEYS = ["series", "x"]


def draw_accuracy_curves(cells: pd.DataFrame) -> MplFigure:
    """Draw the mean of every series as a line and every seed as a thin one.

    The right panel enlarges what the means cover in the second half of the rounds.
    """
    figure, (whole, top) = plt.subplots(1, 2, figsize=(WIDTH, 3.6))
    handles = []
    for series, name, style in zip(cells["series"].unique(), _FIVE, _DASHES, strict=True):
        points = cells[cells["series"] == series]
        seeds = [[100 * value for value in _floats(values)] for values in points["values"]]
        for axis in (whole, top):
            axis.plot(points["x"], seeds, color=PALETTE[name], linewidth=0.5, alpha=0.5)
            axis.plot(points["x"], 100 * points["mean"], color=PALETTE[name], linestyle=style)
        handles.append(Line2D([], [], color=PALETTE[name], linestyle=style, label=str(series)))
    handles.append(Line2D([], [], color="black", linewidth=0.5, label="every seed"))
    end = cells["x"].max()
    late = 100 * cells.loc[cells["x"] >= end / 2, "mean"]
    margin = max(0.05 * (late.max() - late.min()), 0.1)
    whole.set(title="all rounds", ylabel=Y_ACCURACY, xlim=(0, end), ylim=(0, 100))
    top.set(title="second half, enlarged", xlim=(end / 2, end))
    top.set_ylim(late.min() - margin, late.max() + margin)
    for axis in (whole, top):
        axis.set_xlabel("communication round")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
    return figure


def divergence_by_skew(runs: RunSet) -> pd.DataFrame:
    """Return figure 2: divergence of each layer for IID, 2-class and 1-class clients.

    A fourth series, our own, is the noise floor, taken from the IID runs.
    """
    ours = divergences(runs, (IID, TWO_CLASS, ONE_CLASS), LAYERS)
    floor = divergences(runs, [IID], LAYERS, "sgd_other_shuffle").assign(title=NOISE_FLOOR)
    both = pd.concat([ours, floor], ignore_index=True)
    return summarise(both.rename(columns={"title": "series", "layer": "x"}), "value", _KEYS)


def draw_divergence_by_skew(cells: pd.DataFrame) -> MplFigure:
    """Draw a group a layer on a logarithmic scale: a bar at the mean, every seed as a dot."""
    figure, axis = plt.subplots(figsize=(WIDTH, 3.6))
    names = cells["series"].unique()
    for position, (series, name) in enumerate(zip(names, (*_FIVE[:3], "grey"), strict=True)):
        points = cells[cells["series"] == series]
        shift = _SPREAD * (position - (len(names) - 1) / 2)
        for place, (mean, values) in enumerate(zip(points["mean"], points["values"], strict=True)):
            seeds = _floats(values)
            x = place + shift
            axis.plot(np.linspace(x - 0.04, x + 0.04, len(seeds)), seeds, ".", color=PALETTE[name])
            axis.plot([x - 0.07, x + 0.07], [mean, mean], color=PALETTE[name])
    axis.set(yscale="log", ylabel=Y_DIVERGENCE, xticks=range(len(LAYERS)), xticklabels=LAYERS)
    axis.grid(visible=False, axis="x")
    handles = [
        Line2D([], [], color=PALETTE[name], marker=".", label=series)
        for series, name in zip(names, (*_FIVE[:3], "grey"), strict=True)
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=4)
    return figure


def divergence_by_emd(runs: RunSet) -> pd.DataFrame:
    """Return figure 4a: divergence of each layer against EMD, over the distributions."""
    table = divergences(runs, [SWEEP], LAYERS)
    return summarise(table.rename(columns={"layer": "series", "emd": "x"}), "value", _KEYS)


def draw_divergence_by_emd(cells: pd.DataFrame) -> MplFigure:
    """Draw a curve a layer: mean, 95 % Student t interval, every distribution as a dot."""
    figure, axis = plt.subplots(figsize=(WIDTH, 3.6))
    for series, name, marker in zip(cells["series"].unique(), _FIVE, "osD^", strict=False):
        points = cells[cells["series"] == series]
        _errorbar(axis, points, points["mean"], PALETTE[name], str(series), marker)
        _dots(axis, points, PALETTE[name])
    axis.set(xlabel=X_EMD, ylabel=Y_DIVERGENCE)
    axis.set_ylim(bottom=0)
    _emd_ticks(axis, cells)
    axis.set_title("bars: 95 % Student t intervals; dots: the distributions", fontsize=8)
    figure.legend(loc="outside lower center", ncols=4)
    return figure


def accuracy_by_emd(runs: RunSet) -> pd.DataFrame:
    """Return figure 5a, the MNIST curve: reported test accuracy (fraction) against EMD.

    Further columns: ``table2`` and ``table2_sd``, the published values that the curve shows, and
    ``ours`` and ``theirs``, what was trained here and there.
    """
    table = reported(runs, [SWEEP]).assign(series=DATASET)
    cells = summarise(table.rename(columns={"emd": "x"}), "accuracy", _KEYS)
    means, sds = published(runs.paper, "table2"), published(runs.paper, "table2", "sd")
    keys = [(DATASET, emd_label(emd)) for emd in cells["x"]]
    cells["table2"] = [means.get(key, np.nan) for key in keys]
    cells["table2_sd"] = [sds.get(key, np.nan) for key in keys]
    return cells.assign(ours=_what_ran(runs), theirs="published (500 rounds, full network)")


def _what_ran(runs: RunSet) -> str:
    """Return the scale and size of the sweep's runs, for a legend."""
    spec = runs.members([SWEEP])[0].spec
    width = "full network" if spec.model.width == 1 else f"network of width {spec.model.width:g}"
    return f"ours, {runs.scale} scale ({spec.rounds} rounds, {width})"


def draw_accuracy_by_emd(cells: pd.DataFrame) -> MplFigure:
    """Draw our mean with its 95 % Student t interval and every distribution; published beside."""
    figure, axis = plt.subplots(figsize=(WIDTH, 3.6))
    percent = cells.assign(
        low=100 * cells["low"], high=100 * cells["high"], mean=100 * cells["mean"]
    )
    ours, theirs = PALETTE["blue"], PALETTE["grey"]
    axis.errorbar(
        cells["x"],
        100 * cells["table2"],
        yerr=100 * cells["table2_sd"],
        color=theirs,
        linestyle="--",
        marker="s",
        markerfacecolor="white",
        capsize=2,
        label=f"{cells['theirs'].iloc[0]}, ± sd",
    )
    label = f"{cells['ours'].iloc[0]}, 95 % Student t interval"
    _errorbar(axis, percent, percent["mean"], ours, label, "o")
    _dots(axis, cells, ours, factor=100)
    axis.set(xlabel=X_EMD, ylabel=Y_ACCURACY)
    _emd_ticks(axis, cells)
    figure.legend(loc="outside lower center")
    return figure


def _errorbar(
    axis: Axes, points: pd.DataFrame, mean: pd.Series, colour: str, label: str, marker: str
) -> None:
    """Draw means and their intervals; no bar where there is one value only."""
    reach = (points["high"] - points["low"]) / 2
    axis.errorbar(
        points["x"], mean, yerr=reach, color=colour, marker=marker, capsize=3, label=label
    )


def _dots(axis: Axes, points: pd.DataFrame, colour: str, factor: float = 1) -> None:
    """Draw every seed as a small dot."""
    for x, values in zip(points["x"], points["values"], strict=True):
        seeds = [factor * value for value in _floats(values)]
        axis.plot([x] * len(seeds), seeds, ".", color=colour, markersize=3, alpha=0.6)


def _emd_ticks(axis: Axes, cells: pd.DataFrame) -> None:
    """Put a tick at every EMD; 1.764 is too close to 1.8 for a label beside it."""
    ticks = sorted(cells["x"].unique())
    axis.set_xticks(ticks)
    axis.xaxis.set_major_formatter(
        FuncFormatter(lambda x, _: "\n1.764" if abs(x - 1.764) < 1e-6 else emd_label(x))
    )


def _floats(values: object) -> list[float]:
    """Return the seeds' values that :func:`fedrepro.stats.summarise` keeps as text."""
    return [float(value) for value in str(values).split()]


FIGURES: dict[str, Figure] = {
    "fig1a": Figure(accuracy_curves, draw_accuracy_curves),
    "fig2": Figure(divergence_by_skew, draw_divergence_by_skew),
    "fig4a": Figure(divergence_by_emd, draw_divergence_by_emd),
    "fig5a": Figure(accuracy_by_emd, draw_accuracy_by_emd),
}
