"""Ozdayi et al. 2020: the two drawings redrawn from computations, and figures of our own.

Figure 1 needs no run, figure 2 the updates of real ones. Our own: accuracy over the rounds (the
paper prints no curve), the agents' disagreement, and the grid search.
"""

from __future__ import annotations

import functools
import math
import textwrap
from typing import Any, Literal

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure as MplFigure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from fedrepro.base.errors import FedreproError
from fedrepro.papers.tricks.conflicts import POINTS, SIDE, THRESHOLD, VOTES, grid, hypotheses
from fedrepro.papers.tricks.conflicts import shares as trained_on
from fedrepro.papers.tricks.measurements import (
    ACCURACY,
    BASELINE,
    BEST,
    CENTRALISED,
    CONFLICTS,
    IID,
    MOMENTUM_5,
    MOMENTUM_9,
    NO_TECHNIQUE,
    PROJECTED,
    PROJECTED_NOISE,
    ROWS,
    SAME_SIGN,
    SERVER_TRAINING,
    SIGN_AGREEMENT,
    THE_PAPERS_BEST,
    chosen,
    diagnosis,
    searched,
)
from fedrepro.report.expected import published
from fedrepro.report.figure import Figure
from fedrepro.report.stats import summarise
from fedrepro.report.style import PALETTE, WIDTH
from fedrepro.runs.runset import RunSet

_PANELS = {
    "Table 1: baselines": (),
    "Table 2: server-side training": (SERVER_TRAINING,),
    "Table 3: projection": (PROJECTED, PROJECTED_NOISE),
    "Table 4: server momentum": (MOMENTUM_5, MOMENTUM_9),
    "Table 5: sign agreement": (SIGN_AGREEMENT,),
    "best combination": (BEST,),
}
_LINES: dict[str, tuple[str, Literal["-", "--", "-."]]] = {
    CENTRALISED: ("grey", "-"),
    IID: ("sky", "-"),
    BASELINE: ("blue", "-"),
    SERVER_TRAINING: ("orange", "-"),
    PROJECTED: ("green", "-"),
    PROJECTED_NOISE: ("brown", "--"),
    MOMENTUM_5: ("purple", "-"),
    MOMENTUM_9: ("purple", "--"),
    SIGN_AGREEMENT: ("brown", "-."),
    BEST: ("red", "--"),
}
"""Colour and dashes of the reported configurations."""
_WATCHED = (IID, BASELINE, SERVER_TRAINING, PROJECTED, MOMENTUM_5, MOMENTUM_9, SIGN_AGREEMENT, BEST)


# Figure 1: hypotheses that conflict


def toy(runs: RunSet) -> pd.DataFrame:
    """Return figure 1: the class of each tree on a grid; ``x`` numbers the grid's places.

    Further columns: ``x0``, ``x1`` and ``class`` (1, -1, or the sum of two votes). Nothing is
    trained for it but the trees.
    """
    places = grid()
    parts = [
        pd.DataFrame({"series": name, "x": range(len(places)), "x0": places[:, 0]}).assign(
            x1=places[:, 1], **{"class": classes}
        )
        for name, classes in hypotheses(places).items()
    ]
    return pd.concat(parts, ignore_index=True)


def draw_toy(cells: pd.DataFrame) -> MplFigure:
    """Draw what each tree says of the plane, and the points that it was trained on."""
    names = list(cells["series"].unique())
    figure, axes = plt.subplots(1, len(names), figsize=(WIDTH, 2.5), sharey=True)
    colours = ListedColormap([PALETTE["orange"], "#e8e8e8", PALETTE["sky"]])
    points = trained_on() | {VOTES: POINTS}
    for axis, name in zip(axes, names, strict=True):
        plane = cells[cells["series"] == name]
        sign = np.sign(plane["class"].to_numpy()).reshape(SIDE, SIDE)
        extent = (0, SIDE, 0, SIDE)
        axis.imshow(sign, cmap=colours, vmin=-1, vmax=1, origin="lower", extent=extent, alpha=0.6)
        for x0, x1, label in points[name]:
            axis.text(x0, x1, "+" if label > 0 else "−", ha="center", va="center", fontsize=14)
        axis.set_title(name, fontsize=8)
        axis.set(xlabel="$x_0$", xticks=[0, THRESHOLD, SIDE], yticks=[0, THRESHOLD, SIDE])
        axis.grid(visible=False)
    axes[0].set_ylabel("$x_1$")
    handles = [
        Rectangle((0, 0), 1, 1, color=colours(value), alpha=0.6, label=label)
        for value, label in ((2, "predicts +"), (0, "predicts −"), (1, "votes cancel"))
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
    return figure


# Figure 2: local updates against SGD's

KEPT = {"updates": BASELINE, "updates_projected": PROJECTED}
"""Groups that keep their updates, and those that they otherwise equal."""
AGENTS, AVERAGE, SGD = ("agent 1", "agent 2"), "average", "SGD on the union"


def updates(runs: RunSet) -> pd.DataFrame:
    """Return figure 2: where one round takes the agents, their average and SGD on their union.

    All start at the global weights, which are 0. ``x`` is the component along SGD's update, ``y``
    that along the agents' difference where it is orthogonal to SGD's update; both in units of the
    length of SGD's update. Further columns: ``title`` (of the run), ``round``, ``length`` (of the
    whole update, same unit), ``in_plane`` (share of the length that x and y show), ``run``.
    """
    rows = []
    for run in runs.members(KEPT):
        for kept in runs.record(run).final["updates"]:
            ends = in_plane(np.array(kept["inner_products"]))
            for series, (x, y, length) in ends.items():
                rows.append(
                    {
                        "series": series,
                        "x": x,
                        "y": y,
                        "title": runs.plan.runs[KEPT[run.group]].title,
                        "round": kept["round"],
                        "length": length,
                        "in_plane": float(np.hypot(x, y)) / length if length else 0.0,
                        "run": run.id,
                    }
                )
    return pd.DataFrame(rows)


def in_plane(products: NDArray[np.float64]) -> dict[str, tuple[float, float, float]]:
    """Return x, y and length of each update, as :func:`updates` says, from inner products.

    Args:
        products: of the two agents' updates and, last, SGD's, float64 [3, 3].

    Raises:
        FedreproError: there are not two agents, or SGD did not move.
    """
    if products.shape != (3, 3) or not products[2, 2] > 0:
        raise FedreproError(
            f"figure 2 is of two agents and SGD, each of which moves; got {products.tolist()}"
        )
    weights = {AGENTS[0]: (1, 0, 0), AGENTS[1]: (0, 1, 0), AVERAGE: (0.5, 0.5, 0), SGD: (0, 0, 1)}
    unit = math.sqrt(products[2, 2])
    along = np.array([0, 0, 1]) / unit
    apart = np.array([1.0, -1.0, 0.0])
    apart -= (apart @ products @ along) * along
    norm = math.sqrt(max(float(apart @ products @ apart), 0.0))
    across = apart / norm if norm > 0 else np.zeros(3)
    ends = {}
    for series, mix in weights.items():
        vector = np.array(mix, dtype=np.float64)
        length = math.sqrt(max(float(vector @ products @ vector), 0.0))
        x, y = (float(vector @ products @ axis) for axis in (along, across))
        ends[series] = (x / unit, y / unit, length / unit)
    return ends


def draw_updates(cells: pd.DataFrame) -> MplFigure:
    """Draw arrows from the global weights: a row a run, a column a round.

    The percentage is the part of the agents' arrows that lies in the two directions, the lesser.
    The average lies on SGD's arrow, which is wider.
    """
    titles, rounds = cells["title"].unique(), sorted(cells["round"].unique())
    figure, axes = plt.subplots(
        len(titles), len(rounds), figsize=(WIDTH, 2.3 * len(titles)), squeeze=False
    )
    colours = {SGD: "grey", AGENTS[0]: "orange", AGENTS[1]: "purple", AVERAGE: "blue"}
    widths = {SGD: 5.0} | dict.fromkeys((*AGENTS, AVERAGE), 1.6)
    for row, title in zip(axes, titles, strict=True):
        for axis, number in zip(row, rounds, strict=True):
            ends = cells[(cells["title"] == title) & (cells["round"] == number)]
            ends = ends.set_index("series")
            for series, colour in colours.items():
                end = (ends.loc[series, "x"], ends.loc[series, "y"])
                arrow: dict[str, Any] = {"color": PALETTE[colour], "linewidth": widths[series]}
                arrow |= {"arrowstyle": "-|>", "shrinkA": 0, "shrinkB": 0}
                axis.annotate("", end, (0, 0), arrowprops=arrow)
                axis.plot(*zip((0, 0), end, strict=True), alpha=0)
            shown = ends.loc[list(AGENTS), "in_plane"].min()
            axis.set_title(f"round {number}: {100 * shown:.0f} %", fontsize=9)
            axis.set_aspect("equal", adjustable="datalim")
            axis.margins(0.12)
    for axis in axes[-1]:
        axis.set_xlabel("along SGD's update", fontsize=8)
    for axis, title in zip(axes[:, 0], titles, strict=True):
        axis.set_ylabel(f"{title}\nalong the agents' difference", fontsize=8)
    handles = [
        Line2D([], [], color=PALETTE[colour], linewidth=widths[series], label=series)
        for series, colour in colours.items()
    ]
    what = (
        "Unit: the length of SGD's update. Percentage: how much of the agents' updates, by length,"
        "\nlies in the two directions drawn; the lesser of the two agents"
    )
    figure.legend(
        handles=handles, loc="outside lower center", ncols=4, title=what, title_fontsize=8
    )
    return figure


# Our own: curves


def accuracy_curves(runs: RunSet) -> pd.DataFrame:
    """Return test accuracy (fraction) over the rounds, one series a reported configuration.

    Further columns: ``group``, and ``reported``, what the paper prints, in a series' last row; at
    the published scale only.
    """
    curves = runs.curves(list(_LINES), ACCURACY).rename(columns={"title": "series", "round": "x"})
    cells = summarise(curves, "value", ["series", "x", "group"])
    printed = {
        group: published(runs.paper, table)[label, ACCURACY]
        for table, rows in ROWS.items()
        for group, label in rows.items()
        if runs.scale == "paper" and (label, ACCURACY) in published(runs.paper, table)
    }
    last = cells.groupby("group")["x"].transform("max") == cells["x"]
    values = [printed.get(group, np.nan) for group in cells["group"]]
    return cells.assign(reported=pd.Series(values, index=cells.index).where(last))


def draw_accuracy_curves(cells: pd.DataFrame) -> MplFigure:
    """Draw a panel a table: mean, every seed as a thin line, a published value at the end."""
    figure, axes = plt.subplots(2, 3, figsize=(WIDTH, 5), sharex=True, sharey=True)
    for axis, (title, groups) in zip(axes.flat, _PANELS.items(), strict=True):
        for group in (CENTRALISED, IID, BASELINE, *groups):
            points = cells[cells["group"] == group]
            _line(axis, points, group)
            colour = PALETTE[_LINES[group][0]]
            axis.plot(points["x"], 100 * points["reported"], "x", color=colour, zorder=5)
        axis.set_title(title, fontsize=9)
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    for axis in axes[-1]:
        axis.set_xlabel("communication round")
    for axis in axes[:, 0]:
        axis.set_ylabel("test accuracy (%)")
    handles = _legend(cells)
    if cells["reported"].notna().any():
        handles.append(Line2D([], [], color="black", marker="x", linestyle="", label="published"))
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
    return figure


def _legend(cells: pd.DataFrame) -> list[Line2D]:
    names = dict(zip(cells["group"], cells["series"], strict=True))
    return [
        Line2D([], [], color=PALETTE[colour], linestyle=dashes, label=str(names[group]))
        for group, (colour, dashes) in _LINES.items()
        if group in names
    ]


def _line(axis: Axes, points: pd.DataFrame, group: str) -> None:
    """Draw a configuration in percent: the mean as a line, every seed as a thin one."""
    colour, dashes = _LINES[group]
    axis.plot(points["x"], 100 * points["mean"], color=PALETTE[colour], linestyle=dashes)
    seeds = [[100 * value for value in text] for text in points["values"]]
    axis.plot(points["x"], seeds, color=PALETTE[colour], linewidth=0.4, alpha=0.4)


def disagreement(runs: RunSet, *, quantity: str) -> pd.DataFrame:
    """Return how far the agents disagree over the rounds (fraction), one series a configuration."""
    table = diagnosis(runs, _WATCHED)
    table = table[table["quantity"] == quantity]
    table = table.rename(columns={"title": "series", "round": "x"})
    return summarise(table, "value", ["series", "x", "group"])


def draw_disagreement(cells: pd.DataFrame, *, label: str, bottom: float | None = None) -> MplFigure:
    """Draw the mean of every configuration and every seed as a thin line.

    Configurations that are equal in every round and run are one black line.

    Args:
        cells: as of :func:`disagreement`.
        label: of the vertical axis.
        bottom: where that axis begins; by default below the data.
    """
    figure, axis = plt.subplots(figsize=(WIDTH, 3.8))
    alike = coinciding(cells)
    single = cells[~cells["group"].isin([group for groups in alike for group in groups])]
    for group in single["group"].unique():
        _line(axis, single[single["group"] == group], str(group))
    handles = _legend(single)
    for groups in alike:
        points = cells[cells["group"] == groups[0]]
        axis.plot(points["x"], 100 * points["mean"], color="black")
        names = ", ".join(cells.loc[cells["group"].isin(groups), "series"].unique())
        text = textwrap.fill(f"{len(groups)} coincide: {names}", 75)
        handles.append(Line2D([], [], color="black", label=text))
    axis.set(xlabel="communication round", ylabel=label)
    axis.set_ylim(bottom=bottom)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
    return figure


def coinciding(cells: pd.DataFrame) -> list[list[str]]:
    """Return the groups that have the same values in every round and run, where two or more do."""
    alike: dict[tuple[tuple[int, str], ...], list[str]] = {}
    for group, points in cells.groupby("group", sort=False):
        curve = tuple(zip(points["x"], points["values"], strict=True))
        alike.setdefault(curve, []).append(str(group))
    return [groups for groups in alike.values() if len(groups) > 1]


# Our own: the grid search


def selection(runs: RunSet) -> pd.DataFrame:
    """Return the grid search: accuracy on held-out (``x``) against test images, a row a cell.

    ``series`` is the cell's name; ``marked`` says what is special about it.
    """
    table = searched(runs)
    cells = summarise(table.rename(columns={"cell": "series"}), "test", ["series"])
    held_out = table.groupby("cell", sort=False)["held_out"].mean()
    cells.insert(1, "x", cells["series"].map(held_out))
    marks: dict[str, list[str]] = {}
    for cell, mark in (
        (chosen(table, "test"), "best on test images"),
        (chosen(table, "held_out"), "best on held-out images"),
        (THE_PAPERS_BEST, "the paper's best"),
        (NO_TECHNIQUE, "baseline"),
    ):
        marks.setdefault(cell, []).append(mark)
    joined = {cell: ", ".join(names) for cell, names in marks.items()}
    return cells.assign(marked=cells["series"].map(joined).fillna(""))


def draw_selection(cells: pd.DataFrame) -> MplFigure:
    """Draw a panel a kind of projection, a marker a cell; a number beside a marked one.

    Colour: server-side training. Shape: momentum. Filled: sign agreement.
    """
    panels = ("no projection", "projection", "projection and noise")
    shapes = {"no momentum": "o", "momentum 0.5": "^", "momentum 0.9": "s"}
    figure, axes = plt.subplots(1, len(panels), figsize=(WIDTH, 4), sharex=True, sharey=True)
    marks: list[str] = []
    for _, cell in cells.iterrows():
        parts = str(cell["series"]).split(", ")
        axis = axes[("projection" in parts) + ("noise" in parts)]
        colour = PALETTE["orange" if "server data" in parts else "blue"]
        shape = next((s for name, s in shapes.items() if name in parts), shapes["no momentum"])
        face = colour if "agreement" in parts else "none"
        place = (100 * cell["x"], 100 * cell["mean"])
        axis.plot(*place, shape, color=colour, markerfacecolor=face, markersize=5)
        if cell["marked"]:
            marks.append(cell["marked"])
            beside: dict[str, Any] = {"xytext": (5, 0), "textcoords": "offset points"}
            axis.annotate(str(len(marks)), place, va="center", fontsize=8, **beside)
    centre = 100 * float(cells["x"].mean())
    for axis, title in zip(axes, panels, strict=True):
        axis.axline((centre, centre), slope=1, color=PALETTE["grey"], linewidth=0.8, linestyle=":")
        axis.set_title(title, fontsize=9)
        axis.margins(0.12)
    axes[1].set_xlabel("accuracy on held-out images (%)")
    axes[0].set_ylabel("accuracy on test images (%)")
    unfilled: dict[str, Any] = {"color": "black", "linestyle": "", "markerfacecolor": "none"}
    handles = [
        Patch(color=PALETTE["orange"], label="server data"),
        Patch(color=PALETTE["blue"], label="no server data"),
        *(Line2D([], [], marker=s, label=name, **unfilled) for name, s in shapes.items()),
        Line2D([], [], color="black", linestyle="", marker="o", label="filled: sign agreement"),
        Line2D([], [], color=PALETTE["grey"], linestyle=":", label="equal on both"),
    ]
    named = "; ".join(f"{number}: {mark}" for number, mark in enumerate(marks, start=1))
    figure.legend(
        handles=handles, loc="outside lower center", ncols=4, title=named, title_fontsize=8
    )
    return figure


FIGURES: dict[str, Figure] = {
    "fig1": Figure(toy, draw_toy),
    "fig2": Figure(updates, draw_updates),
    "curves": Figure(accuracy_curves, draw_accuracy_curves),
    "conflicts": Figure(
        functools.partial(disagreement, quantity=CONFLICTS),
        functools.partial(draw_disagreement, label="in conflict (% of test images)", bottom=0),
    ),
    "agreement": Figure(
        functools.partial(disagreement, quantity=SAME_SIGN),
        functools.partial(draw_disagreement, label="of the same sign (% of coordinates)"),
    ),
    "grid_search": Figure(selection, draw_selection),
}
