"""Draws the figures of Ozdayi et al. 2020, and our own."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure as MplFigure

from fedrepro.papers.tricks.conflicts import POINTS, SIDE, THRESHOLD, VOTES
from fedrepro.papers.tricks.conflicts import shares as trained_on
from fedrepro.papers.tricks.figures import AGENTS, AVERAGE, SGD
from fedrepro.papers.tricks.measurements import (
    BASELINE,
    CENTRALISED,
    IID,
    PROJECTED,
    PROJECTED_NOISE,
    ROWS,
)
from fedrepro.report.drawings import Drawing, draw_choices
from fedrepro.report.plots import BLACK, Canvas, Ink
from fedrepro.report.style import PALETTE

_INKS = {
    CENTRALISED: BLACK,
    IID: Ink("sky"),
    BASELINE: Ink("blue"),
    "server_training": Ink("orange"),
    PROJECTED: Ink("green"),
    PROJECTED_NOISE: Ink("orange", "--"),
    "momentum_5": Ink("purple"),
    "momentum_9": Ink("purple", "--"),
    "sign_agreement": Ink("brown", "-."),
    "best": Ink("red", ":"),
    "longer_niid": Ink("blue"),
    "longer_best": Ink("red"),
    "longer_masks_best": Ink("purple"),
}
"""The reported configurations, and those of figure ``longer``."""


# Figure 1: hypotheses that conflict


def draw_toy(cells: pd.DataFrame) -> MplFigure:
    """Draw what each tree says of the plane, and the points that it was trained on."""
    canvas = Canvas(1, cells["series"].nunique(), height=2.5, sharey=True)
    colours = ListedColormap([PALETTE["orange"], "#e8e8e8", PALETTE["sky"]])
    points = trained_on() | {VOTES: POINTS}
    for axis, (name, plane) in zip(canvas, cells.groupby("series", sort=False), strict=True):
        sign = np.sign(plane["class"].to_numpy()).reshape(SIDE, SIDE)
        extent = (0, SIDE, 0, SIDE)
        axis.imshow(sign, cmap=colours, vmin=-1, vmax=1, origin="lower", extent=extent, alpha=0.6)
        for x0, x1, known in points[str(name)]:
            axis.text(x0, x1, "+" if known > 0 else "−", ha="center", va="center", fontsize=14)
        axis.set_title(str(name), fontsize=8)
        axis.set(xlabel="$x_0$", xticks=[0, THRESHOLD, SIDE], yticks=[0, THRESHOLD, SIDE])
        axis.grid(visible=False)
    canvas.axis.set_ylabel("$x_1$")
    for value, label in ((2, "predicts +"), (0, "predicts −"), (1, "votes cancel")):
        canvas.patch(label, color=colours(value), alpha=0.6)
    return canvas.legend()


# Figure 2: local updates against SGD's

_ARROWS = {
    SGD: (Ink("grey"), 4.0),
    AGENTS[0]: (Ink("orange"), 1.6),
    AGENTS[1]: (Ink("purple"), 1.6),
    AVERAGE: (Ink("blue"), 1.6),
}
"""Inks and widths; the average may lie on SGD's arrow, which is wider and below."""


def draw_updates(cells: pd.DataFrame) -> MplFigure:
    """Draw arrows from the global weights, of every seed: a row a training, a column a round.

    The percentage is the part of the agents' arrows that lies in the two directions, the least.
    """
    titles = cells["title"].unique()
    canvas = Canvas(len(titles), cells["round"].nunique(), height=2.3 * len(titles))
    panels = cells.groupby(["title", "round"], sort=False)
    for axis, ((_, number), panel) in zip(canvas, panels, strict=True):
        for series, (ink, width) in _ARROWS.items():
            arrow = {"arrowstyle": "-|>", "shrinkA": 0, "shrinkB": 0, "linewidth": width}
            arrow["color"] = ink.options["color"]
            for x, y in panel.loc[panel["series"] == series, ["x", "y"]].to_numpy():
                axis.annotate("", (x, y), (0, 0), arrowprops=arrow)
                axis.plot((0, x), (0, y), alpha=0)
            canvas.key(series, ink, linewidth=width)
        shown = panel.loc[panel["series"].isin(AGENTS), "in_plane"].min()
        axis.set_title(f"round {number}: {100 * shown:.0f} %", fontsize=9)
        axis.set_aspect("equal", adjustable="datalim")
        axis.margins(0.12)
    for axis in canvas.axes[-1]:
        axis.set_xlabel("along SGD's update", fontsize=8)
    for axis, title in zip(canvas.axes[:, 0], titles, strict=True):
        axis.set_ylabel(f"{title}\nalong the agents' difference", fontsize=8)
    what = (
        "Unit: the length of SGD's update. Percentage: how much of the agents' updates, by length,"
        "\nlies in the two directions drawn; the least of all agents and seeds"
    )
    return canvas.legend(4, what)


# Our own: curves

_PANELS = {
    "table1": "Table 1: baselines",
    "table2": "Table 2: server-side training",
    "table3": "Table 3: projection",
    "table4": "Table 4: server momentum",
    "table5": "Table 5: sign agreement",
    "best_combination": "best combination",
}


def draw_accuracy_curves(cells: pd.DataFrame) -> MplFigure:
    """Draw a panel a table, each with the baselines; a published value stands at the end."""
    canvas = _by_table(cells, *ROWS["table1"])
    canvas.accuracy_over_rounds()
    return canvas.legend(title="published: after 100 rounds, drawn where ours end")


def _by_table(cells: pd.DataFrame, *baselines: str) -> Canvas:
    """Draw a panel a table: the curves of its groups and the baselines, what is published, too."""
    canvas = Canvas(2, 3, height=5, sharex=True, sharey=True)
    for axis, (table, title) in zip(canvas, _PANELS.items(), strict=True):
        axis.set_title(title, fontsize=9)
        for group, points in cells.groupby("group", sort=False):
            if group in (*baselines, *ROWS[table]):
                ink = _INKS[str(group)]
                canvas.curve(axis, points, ink, points["series"].iloc[0])
                if "reported" in points:
                    canvas.published(axis, points, ink, column="reported", clip_on=False)
    return canvas


def draw_longer(cells: pd.DataFrame) -> MplFigure:
    """Draw a panel a group, with every seed's curve."""
    canvas = Canvas(1, cells["group"].nunique(), height=2.8, sharex=True, sharey=True)
    for axis, (group, points) in zip(canvas, cells.groupby("group", sort=False), strict=True):
        canvas.curve(axis, points, _INKS[str(group)], points["series"].iloc[0])
    canvas.accuracy_over_rounds()
    return canvas.legend(1)


def draw_agreement(cells: pd.DataFrame) -> MplFigure:
    """Draw a panel a table, each with the two baselines."""
    canvas = _by_table(cells, IID, BASELINE)
    canvas.over_rounds("of the same sign (%)")
    what = "share of the coordinates at which the agents' updates have the same sign"
    return canvas.legend(title=what)


def draw_conflicts(cells: pd.DataFrame) -> MplFigure:
    """Draw every configuration; those that are equal in every round and run are one black line."""
    canvas = Canvas()
    for groups in coinciding(cells):
        points = cells[cells["group"] == groups[0]]
        names = cells.loc[cells["group"].isin(groups), "series"].unique()
        if len(groups) == 1:
            canvas.curve(canvas.axis, points, _INKS[groups[0]], names[0])
        else:
            text = textwrap.fill(f"{len(groups)} coincide: {', '.join(names)}", 60)
            canvas.curve(canvas.axis, points, BLACK, text, seeds=False)
    canvas.over_rounds("in conflict (% of test images)")
    canvas.axis.set_ylim(bottom=0)
    return canvas.legend()


def coinciding(cells: pd.DataFrame) -> list[list[str]]:
    """Return the groups, together those that have the same values in every round and run."""
    alike: dict[tuple[tuple[int, str], ...], list[str]] = {}
    for group, points in cells.groupby("group", sort=False):
        curve = tuple(zip(points["x"], points["values"], strict=True))
        alike.setdefault(curve, []).append(str(group))
    return sorted(alike.values(), key=len)


# Our own: the grid search

_KINDS = ("no projection", "projection", "projection and noise")
_SHAPES = {0.0: "o", 0.5: "^", 0.9: "s"}
_COLOURS = {True: Ink("orange"), False: Ink("blue")}


def draw_selection(cells: pd.DataFrame) -> MplFigure:
    """Draw a panel a kind of projection, a marker a cell; a number beside a marked one.

    Colour: server-side training. Shape: momentum. Filled: sign agreement.
    """
    canvas = Canvas(1, len(_KINDS), height=4, sharex=True, sharey=True)
    marks: list[str] = []
    for cell in cells.to_dict("records"):
        axis = canvas.axes[0, cell["projected"] + (cell["gradient_noise"] > 0)]
        colour = _COLOURS[cell["server_share"] > 0].options["color"]
        face = colour if cell["threshold"] else "none"
        place = (100 * cell["x"], 100 * cell["mean"])
        shape = _SHAPES[cell["server_momentum"]]
        axis.plot(*place, shape, color=colour, markerfacecolor=face, markersize=5)
        if cell["marked"]:
            marks.append(cell["marked"])
            beside: dict[str, Any] = {"xytext": (5, 0), "textcoords": "offset points"}
            axis.annotate(str(len(marks)), place, va="center", fontsize=8, **beside)
    centre = 100 * float(cells["x"].mean())
    equal = Ink("grey", ":")
    for axis, title in zip(canvas, _KINDS, strict=True):
        axis.axline((centre, centre), slope=1, color=equal.options["color"], lw=0.8, ls=equal.line)
        axis.set_title(title, fontsize=9)
        axis.margins(0.12)
    canvas.axes[0, 1].set_xlabel("accuracy on held-out images (%)")
    canvas.axis.set_ylabel("accuracy on test images (%)")
    for served, label in ((True, "server data"), (False, "no server data")):
        canvas.patch(label, color=_COLOURS[served].options["color"])
    for momentum, shape in _SHAPES.items():
        label = f"momentum {momentum:g}" if momentum else "no momentum"
        canvas.key(label, Ink("black", "", shape), markerfacecolor="none")
    canvas.key("filled: sign agreement", Ink("black", "", "o"))
    canvas.key("equal on both", equal)
    numbered = (f"{number}: {mark}" for number, mark in enumerate(marks, start=1))
    return canvas.legend(4, "; ".join(numbered))


DRAWINGS: dict[str, Drawing] = {
    "fig1": draw_toy,
    "fig2": draw_updates,
    "curves": draw_accuracy_curves,
    "longer": draw_longer,
    "conflicts": draw_conflicts,
    "agreement": draw_agreement,
    "grid_search": draw_selection,
    "open_choices": draw_choices,
}
