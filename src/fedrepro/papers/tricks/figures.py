"""Ozdayi et al. 2020: the two drawings redrawn from computations, and figures of our own.

Figure 1 needs no run, figure 2 the updates of real ones. Our own: accuracy over the rounds (the
paper prints no curve), the agents' disagreement, and the grid search.
"""

from __future__ import annotations

import functools

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedrepro.base.errors import FedreproError
from fedrepro.papers.tricks.conflicts import grid, hypotheses
from fedrepro.papers.tricks.measurements import (
    ACCURACY,
    BASELINE,
    CONFLICTS,
    HELD_OUT,
    PROJECTED,
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
from fedrepro.report.stats import summarise
from fedrepro.runs.runset import RunSet

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
    rounds = [
        in_plane(np.array(kept["inner_products"])).assign(
            title=runs.plan.runs[KEPT[run.group]].title, round=kept["round"], run=run.id
        )
        for run in runs.some(KEPT)
        for kept in runs.record(run).final["updates"]
    ]
    ends = pd.concat(rounds, ignore_index=True)
    shown = np.hypot(ends["x"], ends["y"]) / ends["length"]  # NaN of no length
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


# Our own: curves


def accuracy_over_rounds(runs: RunSet, *, name: str) -> pd.DataFrame:
    """Return test accuracy (fraction) over the rounds, one series a group of a figure.

    A further column: ``group``.
    """
    curves = runs.curves(runs.groups_of(name), ACCURACY).rename(
        columns={"title": "series", "round": "x"}
    )
    return summarise(curves, "value", ["series", "x"], "group")


def accuracy_curves(runs: RunSet) -> pd.DataFrame:
    """Return :func:`accuracy_over_rounds` of the reported configurations.

    A further column: ``reported``, what the paper prints, in a series' last row.
    """
    cells = accuracy_over_rounds(runs, name="curves")
    means = {group: cell["mean"] for group, cell in printed(runs.paper).items()}
    return at_the_end(cells, cells["group"].map(means))


def disagreement(runs: RunSet, *, quantity: str) -> pd.DataFrame:
    """Return how far the agents disagree over the rounds (fraction), one series a configuration."""
    table = diagnosis(runs, runs.groups_of("conflicts"))
    table = table[table["quantity"] == quantity]
    table = table.rename(columns={"title": "series", "round": "x"})
    return summarise(table, "value", ["series", "x"], "group")


# Our own: the grid search


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


FIGURES: dict[str, Figure] = {
    "fig1": Figure(toy, "none"),
    "fig2": Figure(updates, "none"),
    "curves": Figure(accuracy_curves),
    "longer": Figure(functools.partial(accuracy_over_rounds, name="longer")),
    "conflicts": Figure(functools.partial(disagreement, quantity=CONFLICTS)),
    "agreement": Figure(functools.partial(disagreement, quantity=SAME_SIGN)),
    "grid_search": Figure(selection),
    "open_choices": choices.figure(by_choice),
}
