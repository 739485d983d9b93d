"""The vocabulary of figures: panels, curves with every seed, published points, one legend below.

A :class:`Canvas` draws frames of one row a point, with the columns of
:func:`fedrepro.report.stats.summarise` and ``x``. What is drawn with a label is in the legend once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from fedrepro.report.style import PALETTE, WIDTH

ACCURACY = "test accuracy (%)"
ROUND = "communication round"
EVERY_SEED, PUBLISHED = "every seed", "published"
_LAST = (EVERY_SEED, PUBLISHED)


@dataclass(frozen=True)
class Ink:
    """How a series is drawn everywhere.

    Attributes:
        colour: a key of the palette, or any colour.
        line: Matplotlib's line style; ``""`` draws none.
        marker: Matplotlib's marker; ``""`` draws none.
    """

    colour: str
    line: str = "-"
    marker: str = ""

    @property
    def options(self) -> dict[str, Any]:
        """Keywords of ``Axes.plot``."""
        colour = PALETTE.get(self.colour, self.colour)
        return {"color": colour, "linestyle": self.line, "marker": self.marker}


BLACK = Ink("black")


class Canvas:
    """A figure of one or more panels, and its legend.

    Attributes:
        figure: Matplotlib's figure.
        axes: its panels, [rows, columns].
    """

    def __init__(
        self, rows: int = 1, columns: int = 1, *, height: float = 3.8, **subplots: Any
    ) -> None:
        """Make the panels.

        Args:
            rows: of panels.
            columns: of panels.
            height: of the figure, in inches.
            subplots: further keywords of ``pyplot.subplots``, such as ``sharey``.
        """
        size = (WIDTH, height)
        self.figure, self.axes = plt.subplots(
            rows, columns, figsize=size, squeeze=False, **subplots
        )
        self._keys: dict[str, Artist] = {}

    def __iter__(self) -> Iterator[Axes]:
        """Yield the panels row by row."""
        return iter(self.axes.flat)

    @property
    def axis(self) -> Axes:
        """The first panel."""
        first: Axes = self.axes[0, 0]
        return first

    def curve(
        self,
        axis: Axes,
        points: pd.DataFrame,
        ink: Ink,
        label: str = "",
        *,
        factor: float = 100,
        seeds: bool = True,
        **options: Any,
    ) -> None:
        """Draw the mean as a line and, where there are several, every seed as a thin one.

        Args:
            axis: the panel.
            points: a series, in the order of ``x``.
            ink: how it is drawn.
            label: in the legend; empty: not there.
            factor: on the values; 100 draws fractions in per cent.
            seeds: whether every seed is drawn.
            options: further keywords of ``Axes.plot``.
        """
        style = ink.options | options
        axis.plot(points["x"], factor * points["mean"], **style)
        if seeds and (points["n"] > 1).any():
            values = pd.DataFrame(points["values"].tolist(), index=points["x"])
            thin = {"color": style["color"], "linewidth": 0.4, "alpha": 0.4}
            axis.plot(values.index, factor * values.to_numpy(), **thin)
            self.key(EVERY_SEED, Ink("grey"), linewidth=0.4)
        if label:
            self.key(label, ink, **options)

    def dots(self, axis: Axes, points: pd.DataFrame, ink: Ink, *, factor: float = 100) -> None:
        """Draw every seed as a dot, beside each other where they are equal."""
        for x, values in zip(points["x"], points["values"], strict=True):
            heights = [factor * value for value in values]
            colour = ink.options["color"]
            axis.plot([x] * len(heights), heights, ".", color=colour, markersize=3, alpha=0.6)

    def intervals(
        self,
        axis: Axes,
        points: pd.DataFrame,
        ink: Ink,
        label: str = "",
        *,
        factor: float = 100,
    ) -> None:
        """Draw the mean with its 95 % interval, where there is one."""
        mean, low, high = (factor * points[name] for name in ("mean", "low", "high"))
        reach = np.array([(mean - low).fillna(0), (high - mean).fillna(0)])
        axis.errorbar(points["x"], mean, yerr=reach, capsize=2, **ink.options)
        if label:
            self.key(label, ink)

    def published(
        self, axis: Axes, points: pd.DataFrame, ink: Ink, *, factor: float = 100, **options: Any
    ) -> None:
        """Draw what the paper prints: hollow markers, or a dotted line where ``line`` is given."""
        shown = points.dropna(subset=["published"])
        if shown.empty:
            return
        style = ink.options | {"linestyle": "", "marker": "o", "markerfacecolor": "none"} | options
        axis.plot(shown["x"], factor * shown["published"], zorder=5, **style)
        self.key(PUBLISHED, BLACK, **{k: v for k, v in style.items() if k != "color"})

    def level(self, axis: Axes, value: float, label: str, ink: Ink, *, factor: float = 100) -> None:
        """Draw a horizontal line across the panel."""
        style = {key: value for key, value in ink.options.items() if key != "marker"}
        axis.axhline(factor * value, linewidth=0.8, **style)
        self.key(label, ink, linewidth=0.8)

    def key(self, label: str, ink: Ink, **options: Any) -> None:
        """Put a line or marker into the legend, once."""
        self._keys.setdefault(label, Line2D([], [], label=label, **(ink.options | options)))

    def patch(self, label: str, **options: Any) -> None:
        """Put an area into the legend, once."""
        self._keys.setdefault(label, Patch(label=label, **options))

    def legend(self, columns: int = 3, title: str = "", axis: Axes | None = None) -> None:
        """Draw the legend below the panels, or inside one of them."""
        named = sorted(self._keys, key=lambda label: label in _LAST)
        options: dict[str, Any] = {
            "handles": [self._keys[label] for label in named],
            "ncols": columns,
            "title": title or None,
            "title_fontsize": 8,
        }
        if axis is not None:
            axis.legend(**options)
        elif named or title:
            self.figure.legend(loc="outside lower center", **options)

    def accuracy_over_rounds(self, axes: Sequence[Axes] | None = None) -> None:
        """Label panels of accuracy in per cent over whole rounds: outer axes only."""
        for axis in axes or list(self):
            axis.xaxis.set_major_locator(MaxNLocator(integer=True))
            if axis.get_subplotspec().is_last_row():  # type: ignore[union-attr]
                axis.set_xlabel(ROUND)
            if axis.get_subplotspec().is_first_col():  # type: ignore[union-attr]
                axis.set_ylabel(ACCURACY)
