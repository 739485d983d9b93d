"""Draws the precision study: accuracy over the rounds, a panel a network."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure as MplFigure

from fedrepro.report.drawings import Drawing
from fedrepro.report.plots import Canvas, Ink

_INKS = {
    "float32": Ink("blue"),
    "TF32": Ink("orange", "--"),
    "bfloat16": Ink("green", "-."),
}
"""Dashed where they lie on one another, so that all are seen."""


def draw_accuracy_curves(cells: pd.DataFrame) -> MplFigure:
    """Draw a panel a network."""
    count = cells["network"].nunique()
    rows = -(-count // 2)
    canvas = Canvas(rows, 2, height=0.8 + 2.6 * rows)
    for axis in canvas.axes.flat[count:]:
        axis.set_visible(False)
    for axis, (network, panel) in zip(canvas, cells.groupby("network", sort=False), strict=False):
        axis.set_title(str(network))
        for precision, ink in _INKS.items():
            canvas.curve(axis, panel[panel["precision"] == precision], ink, precision)
    canvas.accuracy_over_rounds()
    return canvas.legend(4)


DRAWINGS: dict[str, Drawing] = {"curves": draw_accuracy_curves}
