"""What a figure is made of, and what the numbers in its data are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pandas as pd

from fedrepro.report.expected import Series
from fedrepro.runs.runset import RunSet

UNITS = {
    "fraction": "an accuracy or another share of a whole, 0 to 1",
    "points": "a difference of fractions, or their standard deviation; 0.01 is one point",
    "count": "how many",
    "index": "which one, counted from 0",
    "ratio": "one value over another of the same kind; the figure's labels say of which",
    "weights": "a length in the space of the weights",
    "number": "a number without a unit",
    "MB": "10^6 bytes",
    "ms": "milliseconds",
    "none": "the figure shows positions alone",
}
"""Units of ``mean``, and what they mean."""

COLUMNS = {
    "mean": "of the unit in column `unit`, as are `sd`, `low`, `high`, `values` and `published`",
    "reported, table2, table2_sd": "published values, of the row's unit",
    "n": "seeds that `mean` is over; 0: a published curve",
    "emd, gamma": "earth mover's distance, 0 to 2; non-IIDness, as the paper defines it",
    "percent": "share of random images, %",
    "round, bits, devices, archetypes": "counts",
    "client, label, archetype, meta, device, model, line": "which one, counted from 0",
    "up, rounding": "lengths in the space of the weights",
    "kept, in_plane": "fractions",
    "y, length, factor": "ratios",
    "x0, x1, class": "a place in the plane, and the class there",
    "server_share, server_momentum, threshold, gradient_noise": "settings of the grid search",
}
"""Columns of numbers in a figure's data; several that mean the same are named together."""


@dataclass(frozen=True)
class Figure:
    """A figure's data; :mod:`fedrepro.report.drawings` finds what draws it.

    Attributes:
        data: returns one row a plotted point; key columns ``series`` and ``x`` first.
        unit: of :data:`UNITS`, that of ``mean``. Where it is not the same in all series: a part of
            a series' name -> its unit; the first part found decides.
    """

    data: Callable[[RunSet], pd.DataFrame]
    unit: str | Mapping[str, str] = "fraction"

    def with_units(self, cells: pd.DataFrame) -> pd.DataFrame:
        """Return the frame with a column ``unit``."""
        if isinstance(self.unit, str):
            return cells.assign(unit=self.unit)
        units = self.unit
        return cells.assign(
            unit=[
                next(unit for part, unit in units.items() if part in series)
                for series in cells["series"]
            ]
        )


def published_points(curve: Series, name: str) -> pd.DataFrame:
    """Return a published curve as the points of a series of its own, which have no runs."""
    points = {"series": name, "x": curve.x, "mean": curve.published, "n": 0}
    return pd.DataFrame(points).assign(values="", runs="")


def at_the_end(cells: pd.DataFrame, printed: pd.Series) -> pd.DataFrame:
    """Return points with ``reported``: what the paper prints of a curve, in its last row.

    Args:
        cells: with ``series`` and ``x``.
        printed: of each row's series; NaN where the paper prints nothing.
    """
    last = cells.groupby("series")["x"].transform("max") == cells["x"]
    return cells.assign(reported=printed.where(last))
