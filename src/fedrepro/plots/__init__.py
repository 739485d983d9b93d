"""Figures: run records in, a data frame, then a Matplotlib figure out.

Each paper's module holds a dictionary ``FIGURES`` from the figure's name in the plan to a
:class:`Figure`. The frame has one row a plotted point: two key columns ``series`` and ``x`` first,
then what :func:`fedrepro.stats.summarise` returns. It is saved beside the figure as CSV.
"""

from __future__ import annotations

from fedrepro.plots import cadis, emd, fedcd, precision, selective, tricks
from fedrepro.plots.figure import Figure

FIGURES: dict[str, dict[str, Figure]] = {
    "cadis": cadis.FIGURES,
    "emd": emd.FIGURES,
    "fedcd": fedcd.FIGURES,
    "precision": precision.FIGURES,
    "selective": selective.FIGURES,
    "tricks": tricks.FIGURES,
}

__all__ = ["FIGURES", "Figure"]
