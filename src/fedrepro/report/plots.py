"""The vocabulary of figures: panels, curves with every seed, published points, one legend below.

A :class:`Canvas` draws frames of one row a point, with the columns of
:func:`fedrepro.report.stats.summarise` and ``x``. What is drawn with a label is in the legend once.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from fedrepro.report.style import PALETTE, WIDTH

ACCURACY = "test accuracy (%)"
ROUND = "communication round"
EVERY_SEED, ALL_SEEDS, PUBLISHED = "every seed", "range of seeds", "published"
INTERVALS = "mean, 95 % Student t interval, every run as a dot"
_LAST = (EVERY_SEED, ALL_SEEDS, PUBLISHED)
_MOST_LINES = 10


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

    figure: Figure
    axes: Any

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
        """Draw the mean as a line and, where there are several seeds, each as a thin one.

        More than ten would hide the mean: then an area reaches from the lowest to the highest.

        Args:
            axis: the panel.
            points: a series, in the order of ``x``.
            ink: how it is drawn.
            label: in the legend; empty: not there.
            factor: on the values; 100 draws fractions in per cent.
            seeds: whether they are drawn.
            options: further keywords of ``Axes.plot``.
        """
        if points.empty:
            return
        style = ink.options | options
        axis.plot(points["x"], factor * points["mean"], **style)
        most = points["n"].max() if seeds else 0
        if most > _MOST_LINES:
            low, high = (factor * points["values"].map(end) for end in (min, max))
            axis.fill_between(points["x"], low, high, color=style["color"], alpha=0.2, linewidth=0)
            self.patch(ALL_SEEDS, color=Ink("grey").options["color"], alpha=0.4, linewidth=0)
        elif most > 1:
            thin = {"color": style["color"], "linewidth": 0.4, "alpha": 0.4}
            for seed in itertools.zip_longest(*points["values"], fillvalue=np.nan):
                axis.plot(points["x"], factor * np.array(seed), **thin)
            self.key(EVERY_SEED, Ink("grey"), linewidth=0.8)
        if label:
            self.key(label, ink, **options)

    def dots(self, axis: Axes, points: pd.DataFrame, ink: Ink, *, factor: float = 100) -> None:
        """Draw every seed as a dot."""
        colour = ink.options["color"]
        dot: dict[str, Any] = {
            "linestyle": "",
            "marker": ".",
            "markersize": 4,
            "markeredgewidth": 0,
            "alpha": 0.7,
        }
        for x, values in zip(points["x"], points["values"], strict=True):
            heights = [factor * value for value in values]
            axis.plot([x] * len(heights), heights, color=colour, **dot)

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
        if points.empty:
            return
        mean, low, high = (factor * points[name] for name in ("mean", "low", "high"))
        reach = np.array([(mean - low).fillna(0), (high - mean).fillna(0)])
        axis.errorbar(points["x"], mean, yerr=reach, capsize=2, **ink.options)
        if label:
            self.key(label, ink)

    def published(
        self,
        axis: Axes,
        points: pd.DataFrame,
        ink: Ink,
        *,
        factor: float = 100,
        column: str = "published",
        **options: Any,
    ) -> None:
        """Draw what the paper prints as hollow circles, without a line.

        Args:
            axis: the panel.
            points: a series; where ``column`` is NaN, nothing is drawn.
            ink: whose colour is taken.
            factor: on the values; 100 draws fractions in per cent.
            column: that holds the published values.
            options: further keywords of ``Axes.plot``; ``linestyle=":", marker=""`` draws a line.
        """
        shown = points.dropna(subset=[column])
        if shown.empty:
            return
        style = ink.options | {"linestyle": "", "marker": "o", "markerfacecolor": "none"} | options
        axis.plot(shown["x"], factor * shown[column], **{"zorder": 5} | style)
        self.key(PUBLISHED, BLACK, **{k: v for k, v in style.items() if k != "color"})

    def level(self, axis: Axes, value: float, label: str, ink: Ink, *, factor: float = 100) -> None:
        """Draw a horizontal line across the panel."""
        style = ink.options | {"linewidth": 0.8, "marker": ""}
        axis.axhline(factor * value, **style)
        if label:
            self.key(label, ink, **style)

    def key(self, label: str, ink: Ink, **options: Any) -> None:
        """Put a line or marker into the legend, once."""
        self._keys.setdefault(label, Line2D([], [], label=label, **(ink.options | options)))

    def patch(self, label: str, **options: Any) -> None:
        """Put an area into the legend, once."""
        self._keys.setdefault(label, Patch(label=label, **options))

    def legend(self, columns: int = 3, title: str = "") -> Figure:
        """Draw the legend below the panels, if there is anything to say; return the figure.

        Args:
            columns: at most so many, and fewer where they would run out of the figure.
            title: above the entries.
        """
        if not (self._keys or title):
            return self.figure
        last = [label for label in _LAST if label in self._keys]
        named = [label for label in self._keys if label not in last] + last
        legend = self._legend(named, columns, title)
        while columns > 1 and legend.get_window_extent().width > self.figure.bbox.width:
            legend.remove()
            columns -= 1
            legend = self._legend(named, columns, title)
        return self.figure

    def _legend(self, named: Sequence[str], columns: int, title: str) -> Legend:
        return self.figure.legend(
            loc="outside lower center",
            handles=[self._keys[label] for label in named],
            ncols=columns,
            title=title or None,
            title_fontsize=8,
        )

    def accuracy_over_rounds(self) -> None:
        """Label panels of accuracy in per cent over whole rounds: outer axes only."""
        self.over_rounds(ACCURACY)

    def over_rounds(self, what: str, axes: Iterable[Axes] | None = None) -> None:
        """Label panels of a quantity over whole rounds: outer axes only.

        Args:
            what: the quantity, with its unit.
            axes: the panels; None: all.
        """
        for axis in self if axes is None else axes:
            axis.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
            place = axis.get_subplotspec()
            assert place is not None
            row, column = place.rowspan.start, place.colspan.start
            if not any(below.get_visible() for below in self.axes[row + 1 :, column]):
                axis.set_xlabel(ROUND)
                axis.tick_params(labelbottom=True)
            if column == 0:
                axis.set_ylabel(what)
