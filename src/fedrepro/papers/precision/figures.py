"""The precision study (docs/precision.md): accuracy over the rounds, a panel a network."""

from __future__ import annotations

import pandas as pd

from fedrepro.papers.precision.measurements import PRECISIONS, recorded
from fedrepro.report.figure import Figure
from fedrepro.report.stats import summarise
from fedrepro.runs.runset import RunSet


def accuracy_curves(runs: RunSet) -> pd.DataFrame:
    """Return test accuracy (fraction) over the rounds, one series a network and precision.

    Further columns, ``network`` and ``precision``, name the series.
    """
    curves = runs.curves(recorded(runs), "accuracy")
    curves = curves.rename(columns={"title": "network", "round": "x"})
    curves["precision"] = curves["precision"].map(PRECISIONS)
    curves["series"] = curves["network"] + ", " + curves["precision"]
    return summarise(curves, "value", ["series", "x"], "network", "precision")


FIGURES = {"curves": Figure(accuracy_curves)}
