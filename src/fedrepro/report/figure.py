"""What a figure is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import matplotlib.figure
import pandas as pd

from fedrepro.runs.runset import RunSet


@dataclass(frozen=True)
class Figure:
    """A figure's data and its drawing.

    Attributes:
        data: returns one row a plotted point; key columns ``series`` and ``x`` first.
        draw: draws the frame (with the column ``published``, NaN where the paper prints nothing).
    """

    data: Callable[[RunSet], pd.DataFrame]
    draw: Callable[[pd.DataFrame], matplotlib.figure.Figure]
