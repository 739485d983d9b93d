"""What the figures of :mod:`fedrepro.papers.fedcd.figures` and ``fedcd_logs`` share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from fedrepro.papers.fedcd.measurements import Floats, Log
from fedrepro.report.expected import load_expected

KEYS = ("series", "x")
X_ROUND = "communication round, from 0"
Y_ACCURACY = "test accuracy (%)"
Y_CHANGE = "mean |change| of a device's\naccuracy (points)"

PUBLIC = ", public log"
"""What the name of a series of a public log ends with."""
PUBLIC_LOOK: dict[str, Any] = {"linestyle": (0, (3, 1.5)), "linewidth": 0.9}

CHANGE, SPREAD = "mean change", "standard deviation of the scores"
"""Series that figures of the paper and of the public logs have in common."""


def row(log: Log, series: str, x: float, value: float, **others: Any) -> dict[str, Any]:
    """Return a value of one run, with ``others`` as further columns."""
    cell = {"series": series, "x": x, "value": float(value), "seed": log.run.seed}
    return cell | {"run": log.run.id} | others


def curve(
    log: Log, series: str, values: Sequence[float] | Floats, first: int = 0, **others: Any
) -> Iterator[dict[str, Any]]:
    """Yield the rows of a curve; ``first`` is the round of its first value."""
    for t, value in enumerate(values, start=first):
        yield row(log, series, t, value, **others)


def drawn_rounds(points: pd.DataFrame) -> str:
    """Return which rounds a curve has, for its label."""
    return f"rounds {points['x'].min():g} to {points['x'].max():g}"


def round_axis(axis: Axes, cells: pd.DataFrame) -> None:
    """Let an axis of rounds begin at 0 and have whole numbers."""
    axis.set_xlim(0, max(float(cells["x"].max()), 1))
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))


def public(artefact: str, series: str = "", name: str = "") -> pd.DataFrame:
    """Return the public logs that belong to a figure, each as a series of its own.

    Args:
        artefact: the figure.
        series: only this one of its series; empty: all.
        name: what to call it instead.
    """
    parts = [
        pd.DataFrame(
            {"series": name or f"{s.series}{PUBLIC}", "x": s.x, "mean": s.published, "n": 0}
        )
        for s in load_expected("fedcd").series
        if s.artefact == artefact and series in ("", s.series)
    ]
    return pd.concat(parts, ignore_index=True).assign(values="", runs="")
