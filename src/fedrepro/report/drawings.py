"""Draws figures and writes their files; the drawings of more than one plan."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from fedrepro.report import code, style
from fedrepro.report.artefacts import at_scale, frame, left_out_briefly, made_by, write_csv
from fedrepro.report.plots import Canvas, Ink
from fedrepro.report.stats import LEAST_FOR_T
from fedrepro.report.style import PALETTE
from fedrepro.runs.runset import RunSet

Drawing = Callable[[pd.DataFrame], Figure]
"""Draws a figure's frame (column ``published``: NaN where the paper prints nothing)."""

_MOVED = Ink("orange", "", "s")
_TITLE_WIDTH = 88
"""Characters of a line of a figure's title."""
_TITLE_LINE = 0.17
"""Height of such a line, in inches."""


def of_paper(paper: str) -> Mapping[str, Drawing]:
    """Return what draws each figure of a paper; without code of its own, what suits any plan."""
    if not code.has_code(paper):
        return {"curves": draw_curves}
    return code.found(paper, "DRAWINGS")


def write_figure(runs: RunSet, name: str, stem: Path, *, partial: bool = False) -> None:
    """Write ``<stem>.svg``, ``<stem>.png`` and the plotted data as ``<stem>.csv``.

    Args:
        runs: the paper's runs at a scale.
        name: of the figure.
        stem: file name without ending.
        partial: make do with what is recorded, and say in the title what is left out.

    Raises:
        FedreproError: as :func:`draw_figure`, or a file cannot be written.
    """
    figure, cells = draw_figure(runs, name, partial=partial)
    style.save(figure, stem)
    write_csv(stem, cells)


def draw_figure(runs: RunSet, name: str, *, partial: bool = False) -> tuple[Figure, pd.DataFrame]:
    """Return a paper's figure, and the plotted data.

    Args:
        runs: the paper's runs at a scale.
        name: of the figure.
        partial: make do with what is recorded, and say in the title what is left out.

    Raises:
        FedreproError: the paper has no such figure, or a record is missing that it cannot do
            without.
    """
    artefact = runs.plan.artefact(name, "figure")
    style.use()
    cells = frame(runs, name, partial=partial)
    figure = made_by(of_paper(runs.paper), "DRAWINGS", runs, name)(cells)
    title = f"{artefact.title} ({artefact.source})"
    missing = textwrap.wrap(left_out_briefly(runs, name), _TITLE_WIDTH, break_on_hyphens=False)
    figure.set_figheight(figure.get_figheight() + _TITLE_LINE * len(missing))
    text = "\n".join([title, _under_title(runs, name, cells), *missing])
    figure.suptitle(text, parse_math=False)  # a plan's title may have dollars
    return figure, cells


def _under_title(runs: RunSet, name: str, cells: pd.DataFrame) -> str:
    """Return a figure's scale, and over how many runs its points are means."""
    scale = at_scale(runs, name)
    if "n" not in cells or not runs.groups_of(name):
        return scale
    counts = {int(n) for n in cells["n"].dropna()} - {0}
    if not counts:
        return scale
    return f"{scale}; n = " + " to ".join(str(n) for n in sorted({min(counts), max(counts)}))


def draw_curves(cells: pd.DataFrame) -> Figure:
    """Draw the mean of every series and each seed."""
    canvas = Canvas()
    for (name, points), ink in zip(
        cells.groupby("series", sort=False), series_inks(), strict=False
    ):
        canvas.curve(canvas.axis, points, ink, str(name).replace("$", r"\$"))  # no mathematics
    canvas.accuracy_over_rounds()
    return canvas.legend(2)


def series_inks() -> Iterator[Ink]:
    """Yield ways to draw any number of series: every colour, then with other lines, and again."""
    inks = [Ink(colour, line) for line, colour in itertools.product(("-", "--", ":"), PALETTE)]
    return itertools.cycle(inks)


def draw_choices(cells: pd.DataFrame) -> Figure:
    """Draw a panel a headline: how far each choice moves it, the interval and every seed.

    Panels show every seed and every interval, but of two seeds, which is far too wide, only a part.

    Args:
        cells: as of :func:`fedrepro.report.choices.shifts`.
    """
    series = cells.groupby("series", sort=False)
    names = list(dict.fromkeys(cells["x"]))
    canvas = Canvas(1, len(series), height=3.8, sharey=True)
    for axis, (headline, points) in zip(canvas, series, strict=True):
        for _, point in points.iterrows():
            place = names.index(point["x"])
            reach = np.nan_to_num([[point["mean"] - point["low"]], [point["high"] - point["mean"]]])
            axis.errorbar(
                100 * point["mean"],
                place,
                xerr=100 * reach,
                capsize=2,
                markersize=4,
                **_MOVED.options,
            )
            seeds = [100 * value for value in point["values"]]
            axis.plot(seeds, [place] * len(seeds), ".", color=PALETTE["grey"], alpha=0.7, zorder=3)
        axis.axvline(0, color=PALETTE["grey"], linestyle=":")
        enough = points[points["values"].map(len) >= LEAST_FOR_T]
        shown = [
            0.0,
            *100 * points["values"].explode().astype(float),
            *100 * enough["low"],
            *100 * enough["high"],
        ]
        margin = max(0.1 * (max(shown) - min(shown)), 0.5)
        axis.set_xlim(min(shown) - margin, max(shown) + margin)
        axis.set(xlabel="points moved", yticks=range(len(names)), yticklabels=names)
        axis.set_title(textwrap.fill(str(headline), 17), fontsize=8)
        axis.grid(visible=False, axis="y")
    canvas.axis.invert_yaxis()
    canvas.key("difference from our own setting, paired by seed", _MOVED)
    return canvas.legend(1, "mean, 95 % Student t interval, every pair as a dot")
