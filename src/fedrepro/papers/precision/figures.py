"""The precision study (docs/precision.md): accuracy over the rounds, a panel a network."""

from __future__ import annotations

from typing import Literal

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure as MplFigure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from fedrepro.papers.precision.measurements import PRECISIONS, recorded
from fedrepro.report.figure import Figure
from fedrepro.report.stats import summarise
from fedrepro.report.style import PALETTE, WIDTH
from fedrepro.runs.runset import RunSet

_LINES: dict[str, tuple[str, Literal["-", "--", "-."]]] = {
    "float32": ("blue", "-"),
    "TF32": ("orange", "--"),
    "bfloat16": ("green", "-."),
}
"""Colour and dashes of a precision: where they lie on one another, all are seen."""


def accuracy_curves(runs: RunSet) -> pd.DataFrame:
    """Return test accuracy (fraction) over the rounds, one series a network and precision.

    Further columns, ``network`` and ``precision``, name the series.
    """
    curves = runs.curves(recorded(runs), "accuracy").rename(
        columns={"title": "network", "round": "x"}
    )
    curves["precision"] = curves["precision"].map(PRECISIONS)
    curves["series"] = curves["network"] + ", " + curves["precision"]
    return summarise(curves, "value", ["series", "x", "network", "precision"])


def draw_accuracy_curves(cells: pd.DataFrame) -> MplFigure:
    """Draw a panel a network: the mean of each precision as a line, every seed as a thin one."""
    networks = list(dict.fromkeys(cells["network"]))
    rows = -(-len(networks) // 2)
    figure, axes = plt.subplots(rows, 2, figsize=(WIDTH, 0.8 + 2.6 * rows), squeeze=False)
    for axis in axes.flat[len(networks) :]:
        axis.set_visible(False)
    for axis, network in zip(axes.flat, networks, strict=False):
        for precision, (name, style) in _LINES.items():
            points = cells[(cells["network"] == network) & (cells["precision"] == precision)]
            seeds = [[100 * value for value in values] for values in points["values"]]
            axis.plot(points["x"], seeds, color=PALETTE[name], linewidth=0.5, alpha=0.5)
            axis.plot(points["x"], 100 * points["mean"], color=PALETTE[name], linestyle=style)
        axis.set(title=network, xlabel="communication round", ylabel="test accuracy (%)")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    handles = [
        Line2D([], [], color=PALETTE[name], linestyle=style, label=precision)
        for precision, (name, style) in _LINES.items()
    ]
    handles.append(Line2D([], [], color="black", linewidth=0.5, label="every seed"))
    figure.legend(handles=handles, loc="outside lower center", ncols=4)
    return figure


FIGURES = {"curves": Figure(accuracy_curves, draw_accuracy_curves)}
