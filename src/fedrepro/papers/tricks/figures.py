"""Ozdayi et al. 2020: the two drawings redrawn from computations, and figures of our own.

Figure 1 needs no run, figure 2 the updates of real ones. Our own: accuracy over the rounds (the
paper prints no curve), the agents' disagreement, and the grid search.
"""

from __future__ import annotations

import functools
import textwrap
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure as MplFigure
from numpy.typing import NDArray

from fedrepro.base.errors import FedreproError
from fedrepro.papers.tricks.conflicts import POINTS, SIDE, THRESHOLD, VOTES, grid, hypotheses
from fedrepro.papers.tricks.conflicts import shares as trained_on
from fedrepro.papers.tricks.measurements import (
    ACCURACY,
    BASELINE,
    CENTRALISED,
    CONFLICTS,
    HELD_OUT,
    IID,
    PROJECTED,
    PROJECTED_NOISE,
    ROWS,
    SAME_SIGN,
    TECHNIQUES,
    TEST,
    by_choice,
    diagnosis,
    marked,
    printed,
    searched,
)
from fedrepro.report import choices
from fedrepro.report.figure import Figure, at_the_end
from fedrepro.report.plots import BLACK, Canvas, Ink
from fedrepro.report.stats import summarise
from fedrepro.report.style import PALETTE
from fedrepro.runs.runset import RunSet

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
}
"""The reported configurations."""


# Figure 1: hypotheses that conflict


def toy(runs: RunSet) -> pd.DataFrame:
    """Return figure 1: the class of each tree on a grid; ``x`` numbers the grid's places.

    Further columns: ``x0``, ``x1`` and ``class`` (1, -1, or the sum of two votes). Nothing is
    trained for it but the trees.
    """
    places = grid()
    plane = {"x": range(len(places)), "x0": places[:, 0], "x1": places[:, 1]}
    parts = [
        pd.DataFrame({"series": name, **plane, "class": classes})
        for name, classes in hypotheses(places).items()
    ]
    return pd.concat(parts, ignore_index=True)


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

KEPT = {"updates": BASELINE, "updates_projected": PROJECTED}
"""Groups that keep their updates, and those that they otherwise equal."""
AGENTS, AVERAGE, SGD = ("agent 1", "agent 2"), "average", "SGD on the union"
_ARROWS = {
    SGD: (Ink("grey"), 4.0),
    AGENTS[0]: (Ink("orange"), 1.6),
    AGENTS[1]: (Ink("purple"), 1.6),
    AVERAGE: (Ink("blue"), 1.6),
}
"""Inks and widths; the average may lie on SGD's arrow, which is wider and below."""


def updates(runs: RunSet) -> pd.DataFrame:
    """Return figure 2: where one round takes the agents, their average and SGD on their union.

    All start at the global weights, which are 0. ``x`` is the component along SGD's update, ``y``
    that along the agents' difference where it is orthogonal to SGD's update; both in units of the
    length of SGD's update. Further columns: ``title`` (of the run), ``round``, ``length`` (of the
    whole update, same unit), ``in_plane`` (share of the length that x and y show), ``run``.
    """
    rounds = [
        in_plane(np.array(kept["inner_products"])).assign(
            title=runs.plan.runs[KEPT[run.group]].title, round=kept["round"], run=run.id
        )
        for run in runs.some(KEPT)
        for kept in runs.record(run).final["updates"]
    ]
    ends = pd.concat(rounds, ignore_index=True)
    shown = np.hypot(ends["x"], ends["y"]) / ends["length"].where(ends["length"] > 0)
    return ends.assign(in_plane=shown.fillna(0))


def in_plane(products: NDArray[np.float64]) -> pd.DataFrame:
    """Return ``series``, ``x``, ``y`` and ``length`` of each update, as :func:`updates` says.

    Args:
        products: of the two agents' updates and, last, SGD's, float64 [3, 3].

    Raises:
        FedreproError: there are not two agents, or SGD did not move.
    """
    if products.shape != (3, 3) or not products[2, 2] > 0:
        raise FedreproError(
            f"figure 2 is of two agents and SGD, each of which moves; got {products.tolist()}"
        )
    mixes = np.array([[1, 0, 0], [0, 1, 0], [0.5, 0.5, 0], [0, 0, 1]])
    inner = mixes @ products @ mixes.T / products[2, 2]  # of the four ends, in units of SGD's
    x = inner[3]
    apart = inner[0] - inner[1] - (x[0] - x[1]) * x  # with the difference less its part along SGD
    square = apart[0] - apart[1]
    y = apart / np.sqrt(square) if square > 0 else np.zeros(4)
    length = np.sqrt(np.diag(inner).clip(0))
    return pd.DataFrame({"series": [*AGENTS, AVERAGE, SGD], "x": x, "y": y, "length": length})


def draw_updates(cells: pd.DataFrame) -> MplFigure:
    """Draw arrows from the global weights: a row a run, a column a round.

    The percentage is the part of the agents' arrows that lies in the two directions, the lesser.
    """
    titles = cells["title"].unique()
    canvas = Canvas(len(titles), cells["round"].nunique(), height=2.3 * len(titles))
    panels = cells.groupby(["title", "round"], sort=False)
    for axis, ((_, number), panel) in zip(canvas, panels, strict=True):
        ends = {end["series"]: end for end in panel.to_dict("records")}
        for series, (ink, width) in _ARROWS.items():
            x, y = ends[series]["x"], ends[series]["y"]
            arrow = {"arrowstyle": "-|>", "shrinkA": 0, "shrinkB": 0, "linewidth": width}
            axis.annotate("", (x, y), (0, 0), arrowprops=arrow | {"color": ink.options["color"]})
            axis.plot((0, x), (0, y), alpha=0)
            canvas.key(series, ink, linewidth=width)
        shown = min(ends[agent]["in_plane"] for agent in AGENTS)
        axis.set_title(f"round {number}: {100 * shown:.0f} %", fontsize=9)
        axis.set_aspect("equal", adjustable="datalim")
        axis.margins(0.12)
    for axis in canvas.axes[-1]:
        axis.set_xlabel("along SGD's update", fontsize=8)
    for axis, title in zip(canvas.axes[:, 0], titles, strict=True):
        axis.set_ylabel(f"{title}\nalong the agents' difference", fontsize=8)
    what = (
        "Unit: the length of SGD's update. Percentage: how much of the agents' updates, by length,"
        "\nlies in the two directions drawn; the lesser of the two agents"
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


def accuracy_curves(runs: RunSet) -> pd.DataFrame:
    """Return test accuracy (fraction) over the rounds, one series a reported configuration.

    Further columns: ``group``, and ``reported``, what the paper prints, in a series' last row.
    """
    curves = runs.curves(list(_INKS), ACCURACY).rename(columns={"title": "series", "round": "x"})
    cells = summarise(curves, "value", ["series", "x"], "group")
    means = {group: cell["mean"] for group, cell in printed(runs.paper).items()}
    return at_the_end(cells, cells["group"].map(means))


def draw_accuracy_curves(cells: pd.DataFrame) -> MplFigure:
    """Draw a panel a table, each with the baselines; a published value stands at the end."""
    canvas = _by_table(cells, CENTRALISED, IID, BASELINE)
    for axis, table in zip(canvas, _PANELS, strict=True):
        for group, points in cells.groupby("group", sort=False):
            if group in ROWS["table1"] | ROWS[table]:
                ink = _INKS[str(group)]
                canvas.published(axis, points, ink, column="reported", clip_on=False)
    canvas.accuracy_over_rounds()
    return canvas.legend(title="published: after 100 rounds, drawn where ours end")


def _by_table(cells: pd.DataFrame, *baselines: str) -> Canvas:
    """Draw a panel a table: the curves of its groups, and the baselines."""
    canvas = Canvas(2, 3, height=5, sharex=True, sharey=True)
    for axis, (table, title) in zip(canvas, _PANELS.items(), strict=True):
        axis.set_title(title, fontsize=9)
        for group, points in cells.groupby("group", sort=False):
            if group in (*baselines, *ROWS[table]):
                canvas.curve(axis, points, _INKS[str(group)], points["series"].iloc[0])
    return canvas


def disagreement(runs: RunSet, *, quantity: str) -> pd.DataFrame:
    """Return how far the agents disagree over the rounds (fraction), one series a configuration."""
    table = diagnosis(runs, [group for group in _INKS if group != CENTRALISED])
    table = table[table["quantity"] == quantity]
    table = table.rename(columns={"title": "series", "round": "x"})
    return summarise(table, "value", ["series", "x"], "group")


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


def selection(runs: RunSet) -> pd.DataFrame:
    """Return the grid search: accuracy on held-out (``x``) against test images, a row a cell.

    ``series`` is the cell's name; ``marked`` says what is special about it, further columns which
    techniques are on.
    """
    table = searched(runs)
    cells = summarise(table.rename(columns={"cell": "series"}), TEST, ["series"])
    by_cell = table.groupby("cell")
    cells.insert(1, "x", cells["series"].map(by_cell[HELD_OUT].mean()))
    cells = cells.join(by_cell[TECHNIQUES].first(), on="series")
    marks = pd.Series(marked(table))
    joined = marks.index.to_series().groupby(marks).agg(", ".join)
    return cells.assign(marked=cells["series"].map(joined).fillna(""))


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


FIGURES: dict[str, Figure] = {
    "fig1": Figure(toy, draw_toy, "none"),
    "fig2": Figure(updates, draw_updates, "none"),
    "curves": Figure(accuracy_curves, draw_accuracy_curves),
    "conflicts": Figure(functools.partial(disagreement, quantity=CONFLICTS), draw_conflicts),
    "agreement": Figure(functools.partial(disagreement, quantity=SAME_SIGN), draw_agreement),
    "grid_search": Figure(selection, draw_selection),
    "open_choices": choices.figure(by_choice),
}
