"""Kopparapu, Lin, Zhao 2020: figures 1 to 9, and our own of devices and models.

The paper prints its curves as images only; :mod:`fedrepro.papers.fedcd.logs` draws the authors'
public logs. Rounds are counted from 0.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure as MplFigure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from fedrepro.fl.algorithms.fedcd import Params
from fedrepro.fl.partition.archetypes import Hypergeometric
from fedrepro.papers.fedcd import logs as log_figures
from fedrepro.papers.fedcd.curves import (
    CHANGE,
    KEYS,
    PUBLIC_LOOK,
    SPREAD,
    X_ROUND,
    Y_ACCURACY,
    Y_CHANGE,
    curve,
    drawn_rounds,
    public,
    round_axis,
    row,
)
from fedrepro.papers.fedcd.measurements import (
    BITS,
    COUNTED_UNTIL,
    EXPERIMENTS,
    FEDAVG_FLOAT32,
    FEDCD_FLOAT32,
    HIER_FEDAVG,
    HIER_FEDCD,
    HYPER_FEDCD,
    Log,
    by_rising_bias,
    bytes_of,
    cells_of,
    logs,
    members_of,
    meta_archetype,
)
from fedrepro.report.figure import Figure
from fedrepro.report.style import PALETTE, WIDTH
from fedrepro.runs.runset import RunSet

Experiment = Literal["Hierarchical", "Hypergeometric"]


def archetype_curves(
    runs: RunSet, *, experiment: Experiment, algorithms: Sequence[str], rounds: int
) -> pd.DataFrame:
    """Return the accuracy (fraction) of every archetype over the rounds (Figs 1 and 4).

    Further columns: ``algorithm``, ``archetype``, ``meta`` (its meta-archetype) and ``archetypes``
    (how many there are).
    """
    groups = dict(zip(("FedCD", "FedAvg"), EXPERIMENTS[experiment], strict=True))
    rows: list[dict[str, Any]] = []
    for algorithm in algorithms:
        for log in logs(runs, groups[algorithm]):
            curves = log.by_archetype[:rounds]
            for a in range(curves.shape[1]):
                rows += curve(
                    log,
                    f"{algorithm}, archetype {a}",
                    curves[:, a],
                    algorithm=algorithm,
                    archetype=a,
                    meta=meta_archetype(log.run.spec, a),
                    archetypes=curves.shape[1],
                )
    return cells_of(rows, KEYS)


def _archetype_colours(cells: pd.DataFrame) -> dict[int, Any]:
    """Return a colour for each archetype: shades of one colour a meta-archetype, or a scale."""
    table = cells.drop_duplicates("archetype")
    metas = dict(zip(table["archetype"].astype(int), table["meta"].astype(int), strict=True))
    if len(set(metas.values())) == 1:
        scale = colormaps["viridis"]
        return {a: scale(0.95 * a / max(1, len(metas) - 1)) for a in metas}
    colours = {}
    for meta, name in zip(sorted(set(metas.values())), ("Blues", "Oranges"), strict=False):
        members = [a for a in metas if metas[a] == meta]
        for place, a in enumerate(members):
            colours[a] = colormaps[name](0.45 + 0.5 * place / max(1, len(members) - 1))
    return colours


def draw_archetype_curves(cells: pd.DataFrame) -> MplFigure:
    """Draw a panel an algorithm, with every archetype's curve."""
    colours = _archetype_colours(cells)
    algorithms = cells["algorithm"].unique()
    figure, axes = plt.subplots(
        1, len(algorithms), figsize=(WIDTH, 4.0), sharey=True, squeeze=False
    )
    for axis, algorithm in zip(axes[0], algorithms, strict=True):
        shown = cells[cells["algorithm"] == algorithm]
        for archetype, points in shown.groupby("archetype"):
            axis.plot(points["x"], 100 * points["mean"], color=colours[archetype], linewidth=1.2)
        axis.set(xlabel=X_ROUND, title=f"{algorithm}, {drawn_rounds(shown)}", ylim=(0, 100))
        round_axis(axis, cells)
    axes[0, 0].set_ylabel(Y_ACCURACY)
    handles = [
        Line2D([], [], color=colour, label=f"archetype {a}") for a, colour in colours.items()
    ]
    metas = "blue: meta-archetype 0, orange: meta-archetype 1" if cells["meta"].any() else None
    columns = len(handles) // 2
    figure.legend(handles=handles, loc="outside lower center", ncols=columns, title=metas)
    return figure


LOG_OF_30 = "public notebook, 30 devices, milestones 2, 15, 25, 30"
LOG_OF_18 = "public notebook, 18 devices"
"""Public logs in figures of our own runs as published, whose set-up is close to theirs."""


def changes(runs: RunSet, *, experiment: Experiment, rounds: int) -> pd.DataFrame:
    """Return the mean change (fraction) of a device's accuracy, by round (Figs 2 and 5).

    The public notebook logs it for FedCD on the hierarchy, with its own milestones.
    """
    rows: list[dict[str, Any]] = []
    for name, group in zip(("FedCD", "FedAvg"), EXPERIMENTS[experiment], strict=True):
        for log in logs(runs, group):
            rows += curve(log, name, log.change[: rounds - 1], first=1)
    cells = cells_of(rows, KEYS)
    if experiment == "Hierarchical":
        cells = pd.concat([cells, public("notebook", CHANGE, LOG_OF_30)], ignore_index=True)
    return cells


_ALGORITHM_COLOURS = {"FedCD": PALETTE["orange"], "FedAvg": PALETTE["blue"]}


def draw_changes(cells: pd.DataFrame) -> MplFigure:
    """Draw both algorithms' mean change."""
    figure, axis = plt.subplots(figsize=(WIDTH, 3.4))
    for name, colour in _ALGORITHM_COLOURS.items():
        points = cells[cells["series"] == name]
        label = f"{name}, {drawn_rounds(points)}"
        axis.plot(points["x"], 100 * points["mean"], color=colour, label=label, linewidth=1.2)
    _draw_log(axis, cells, LOG_OF_30, factor=100)
    axis.set(xlabel=X_ROUND, ylabel=Y_CHANGE)
    axis.set_ylim(bottom=0)
    round_axis(axis, cells)
    figure.legend(loc="outside lower center", ncols=2)
    return figure


def _draw_log(axis: Axes, cells: pd.DataFrame, series: str, factor: float = 1) -> None:
    """Draw a public log in grey, if the frame has it."""
    points = cells[cells["series"] == series]
    if len(points):
        axis.plot(
            points["x"], factor * points["mean"], color="dimgrey", label=series, **PUBLIC_LOOK
        )


DRAWN_IMAGES = ", images drawn"


def label_shares(runs: RunSet) -> pd.DataFrame:
    """Return the hypergeometric law of every archetype (Fig. 3), and what our devices drew.

    The law is computed, and its last value lies beyond the last label: those images are dropped.
    ``<archetype>, images drawn`` is the mean share of each label in the images that the archetype's
    devices asked for. Further column: ``archetype``.
    """
    from scipy.stats import hypergeom  # slow to import

    rows: list[dict[str, Any]] = []
    for log in logs(runs, HYPER_FEDCD):
        partition = log.run.spec.partition
        assert isinstance(partition, Hypergeometric)
        counts = np.array(runs.record(log.run).partition.counts) / partition.train
        for a, successes in enumerate(partition.successes):
            law = hypergeom(partition.population, successes, partition.draws)
            name = f"archetype {a}"
            for x in range(partition.draws + 1):
                rows.append(row(log, name, x, law.pmf(x), archetype=a))
            drawn = counts[log.archetype == a].mean(axis=0)
            rows += curve(log, f"{name}{DRAWN_IMAGES}", drawn, archetype=a)
    return cells_of(rows, KEYS)


def draw_label_shares(cells: pd.DataFrame) -> MplFigure:
    """Draw the law of every archetype as a line, and our devices' images as circles."""
    figure, axis = plt.subplots(figsize=(WIDTH, 3.6))
    count = int(cells["archetype"].max()) + 1
    colours = [colormaps["viridis"](0.95 * a / max(1, count - 1)) for a in range(count)]
    for series, points in cells.groupby("series", sort=False):
        colour = colours[int(points["archetype"].iloc[0])]
        drawn = str(series).endswith(DRAWN_IMAGES)
        look: dict[str, Any] = {"linestyle": "", "marker": "o", "mfc": "none"} if drawn else {}
        axis.plot(points["x"], points["mean"], color=colour, **look)
    last = int(cells["x"].max())
    axis.set(xlabel="label", ylabel="probability", xticks=range(last + 1))
    axis.set_xticklabels([*(str(x) for x in range(last)), f"{last}\n(dropped)"])
    handles = [
        Line2D([], [], color=colour, label=f"archetype {a}") for a, colour in enumerate(colours)
    ]
    black: dict[str, Any] = {"color": "black", "linestyle": ""}
    handles.append(Line2D([], [], **black, marker="o", mfc="none", label="images our devices drew"))
    figure.legend(handles=handles, loc="outside lower center", ncols=4)
    return figure


def bits_curves(runs: RunSet) -> pd.DataFrame:
    """Return the mean accuracy (fraction) of all devices by number of bits (Fig. 6).

    Further columns: ``algorithm`` and ``bits`` (32: not quantised).
    """
    rows: list[dict[str, Any]] = []
    for log in logs(runs, BITS, HIER_FEDCD, FEDCD_FLOAT32, HIER_FEDAVG, FEDAVG_FLOAT32):
        algorithm = log.run.spec.algorithm
        assert isinstance(algorithm, Params)
        name, bits = "FedCD" if algorithm.milestones else "FedAvg", algorithm.quantise_bits or 32
        rows += curve(
            log,
            f"{name}, {bits} bits",
            log.accuracy[:COUNTED_UNTIL].mean(axis=1),
            algorithm=name,
            bits=bits,
        )
    return cells_of(rows, KEYS)


_BITS_COLOURS = {4: "red", 8: "orange", 16: "green", 32: "blue"}


def draw_bits_curves(cells: pd.DataFrame) -> MplFigure:
    """Draw FedCD as lines and FedAvg dashed; a colour a number of bits."""
    figure, axis = plt.subplots(figsize=(WIDTH, 3.6))
    for series, points in sorted(cells.groupby("series"), key=lambda item: _order(item[1])):
        fedavg = points["algorithm"].iloc[0] == "FedAvg"
        axis.plot(
            points["x"],
            100 * points["mean"],
            color=PALETTE[_BITS_COLOURS[int(points["bits"].iloc[0])]],
            linestyle="--" if fedavg else "-",
            linewidth=0.9 if fedavg else 1.4,
            label=str(series).replace("32 bits", "not quantised"),
        )
    axis.set(xlabel=X_ROUND, ylabel=f"mean {Y_ACCURACY}", ylim=(0, 100))
    round_axis(axis, cells)
    figure.legend(loc="outside lower center", ncols=3)
    return figure


def _order(points: pd.DataFrame) -> tuple[bool, int]:
    return points["algorithm"].iloc[0] == "FedAvg", int(points["bits"].iloc[0])


def consensus(runs: RunSet) -> pd.DataFrame:
    """Return the model that most devices of each archetype prefer, by round (Fig. 7).

    ``mean`` is the number of a model in the run of the first seed: no mean of models makes sense.
    Further column: ``line``, the archetype.
    """
    rows: list[dict[str, Any]] = []
    first = logs(runs, HIER_FEDCD)[0]
    for t, models in enumerate(first.consensus[:COUNTED_UNTIL]):
        rows += [row(first, f"archetype {a}", t, m, line=a) for a, m in enumerate(models)]
    return cells_of(rows, KEYS)


def preferences(runs: RunSet) -> pd.DataFrame:
    """Return the model that every device prefers, by round; as :func:`consensus`."""
    rows: list[dict[str, Any]] = []
    first = logs(runs, HIER_FEDCD)[0]
    for t, models in enumerate(first.preferred):
        rows += [row(first, f"device {i}", t, m, line=i) for i, m in enumerate(models)]
    return cells_of(rows, KEYS)


def draw_preferences(cells: pd.DataFrame, *, label: str) -> MplFigure:
    """Draw a row a device or archetype, a column a round, a colour a model."""
    grid = cells.pivot(index="line", columns="x", values="mean").to_numpy().round().astype(int)
    shown = sorted(set(grid.flat))
    figure, axis = plt.subplots(figsize=(WIDTH, 2.4 + 0.08 * len(grid)))
    places = np.searchsorted(shown, grid)
    axis.pcolormesh(
        np.arange(grid.shape[1] + 1) - 0.5,
        np.arange(len(grid) + 1) - 0.5,
        places,
        cmap=ListedColormap([_model_colour(m) for m in shown]),
        vmin=-0.5,
        vmax=len(shown) - 0.5,
        edgecolors="white",
        linewidth=0.2 if grid.shape[1] <= COUNTED_UNTIL else 0,
    )
    step = max(1, len(grid) // 10)
    axis.set(xlabel=X_ROUND, ylabel=label, yticks=range(0, len(grid), step))
    axis.invert_yaxis()
    axis.grid(visible=False)
    axis.axhline(len(grid) / 2 - 0.5, color="black", linewidth=0.8)
    _model_legend(figure, shown)
    return figure


def holders(runs: RunSet) -> pd.DataFrame:
    """Return how many devices of each meta-archetype have each model, by round.

    Of the first seed, as models of different runs are not the same. Further columns: ``model``,
    ``meta`` and ``devices`` (how many the meta-archetype has).
    """
    rows: list[dict[str, Any]] = []
    first = logs(runs, HIER_FEDCD)[0]
    created = sorted(
        {m for devices in first.active[:COUNTED_UNTIL] for had in devices for m in had}
    )
    for meta in (0, 1):
        members = members_of(first.run.spec, meta)
        size = int(np.isin(first.archetype, members).sum())
        for model in created:
            counts = first.holders(model, members)[:COUNTED_UNTIL]
            series = f"model {model}, meta-archetype {meta}"
            rows += curve(first, series, counts, model=model, meta=meta, devices=size)
    return cells_of(rows, KEYS)


def draw_holders(cells: pd.DataFrame) -> MplFigure:
    """Draw a panel a meta-archetype: a row a model, a column a round, dark where all have it."""
    models = sorted(cells["model"].unique())
    figure, axes = plt.subplots(1, 2, figsize=(WIDTH, 1.6 + 0.16 * len(models)), sharey=True)
    most = int(cells["devices"].max())
    for axis, (meta, part) in zip(axes, cells.groupby("meta"), strict=True):
        grid = part.pivot(index="model", columns="x", values="mean").to_numpy()
        mesh = axis.pcolormesh(grid, cmap="Blues", vmin=0, vmax=most, edgecolors="white", lw=0.2)
        axis.set(xlabel=X_ROUND, title=f"devices of meta-archetype {meta}")
        axis.set_xticks(np.arange(0, grid.shape[1], 5) + 0.5, range(0, grid.shape[1], 5))
        axis.set_yticks(np.arange(len(models)) + 0.5, [f"{m:g}" for m in models])
        axis.grid(visible=False)
    axes[0].invert_yaxis()
    axes[0].set_ylabel("model")
    figure.colorbar(mesh, ax=axes, label="devices that have it")
    return figure


def active(runs: RunSet) -> pd.DataFrame:
    """Return which models every device has, by round: a row a device, model and round.

    Of the first seed. ``mean`` is the model's number; a model that is missing in the next round was
    deleted there. Further columns: ``device`` and ``model``.
    """
    first = logs(runs, HIER_FEDCD)[0]
    rows = [
        row(first, f"device {i}, model {m}", t, m, device=i, model=m)
        for t, devices in enumerate(first.active[:COUNTED_UNTIL])
        for i, models in enumerate(devices)
        for m in models
    ]
    return cells_of(rows, KEYS)


SLICES = 12
"""Slices of a device's row, which its models share."""


def draw_active(cells: pd.DataFrame) -> MplFigure:
    """Draw a row a device, a column a round, shared out evenly among the device's models."""
    shown = sorted(int(m) for m in cells["model"].unique())
    rounds, devices = int(cells["x"].max()) + 1, int(cells["device"].max()) + 1
    places = np.zeros((devices * SLICES, rounds), dtype=int)
    for _, held in cells.groupby(["device", "x"]):
        models = np.searchsorted(shown, sorted(held["model"]))
        top, t = int(held["device"].iloc[0]) * SLICES, int(held["x"].iloc[0])
        places[top : top + SLICES, t] = models[np.arange(SLICES) * len(models) // SLICES]
    figure, axis = plt.subplots(figsize=(WIDTH, 5.2))
    axis.imshow(
        places,
        cmap=ListedColormap([_model_colour(m) for m in shown]),
        vmin=-0.5,
        vmax=len(shown) - 0.5,
        aspect="auto",
        interpolation="nearest",
        extent=(-0.5, rounds - 0.5, devices - 0.5, -0.5),
    )
    axis.set(xlabel=X_ROUND, ylabel="device", yticks=range(0, devices, max(1, devices // 10)))
    axis.grid(visible=False)
    for edge in np.arange(1, devices) - 0.5:
        middle = edge + 0.5 == devices / 2
        axis.axhline(edge, color="black" if middle else "white", linewidth=1.2 if middle else 0.8)
    _model_legend(figure, shown)
    return figure


def _model_legend(figure: MplFigure, shown: Iterable[int]) -> None:
    handles = [Patch(color=_model_colour(m), label=f"model {m}") for m in shown]
    figure.legend(handles=handles, loc="outside lower center", ncols=6)


def traffic(runs: RunSet) -> pd.DataFrame:
    """Return the megabytes that all devices together send and receive, by round (section 3.6)."""
    rows: list[dict[str, Any]] = []
    for name, group in zip(("FedCD", "FedAvg"), EXPERIMENTS["Hierarchical"], strict=True):
        for log in logs(runs, group):
            size, first = bytes_of(log.run.spec), slice(0, COUNTED_UNTIL)
            rows += curve(log, f"{name}, up", log.trained[first] * size.up / 1e6)
            rows += curve(log, f"{name}, down", log.sent[first] * size.down / 1e6)
    return cells_of(rows, KEYS)


def draw_traffic(cells: pd.DataFrame) -> MplFigure:
    """Draw uploads on the left, downloads on the right."""
    figure, axes = plt.subplots(1, 2, figsize=(WIDTH, 3.2))
    ways = {"up": "drawn devices send", "down": "all devices receive"}
    for axis, (way, title) in zip(axes, ways.items(), strict=True):
        for name, colour in _ALGORITHM_COLOURS.items():
            points = cells[cells["series"] == f"{name}, {way}"]
            axis.plot(points["x"], points["mean"], color=colour)
        axis.set(xlabel=X_ROUND, ylabel="MB in a round", title=title)
        axis.set_ylim(bottom=0)
        round_axis(axis, cells)
    handles = [Line2D([], [], color=c, label=name) for name, c in _ALGORITHM_COLOURS.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=2)
    return figure


def _model_colour(model: int) -> Any:
    """Return the colour of a model."""
    return colormaps["tab20"](model % 20)


def by_bias(
    runs: RunSet, *, value: Callable[[Log], Sequence[float]], logged: str = ""
) -> pd.DataFrame:
    """Return a value of every round, for every bias, rising (Figs 8 and 9).

    ``logged`` is what the log of the course notebook calls a value that does not depend on the
    number of devices: it is then a series of its own.
    """
    rows: list[dict[str, Any]] = []
    for name, found in by_rising_bias(runs).items():
        for log in found:
            rows += curve(log, name, value(log)[:COUNTED_UNTIL])
    cells = cells_of(rows, KEYS)
    if logged:
        cells = pd.concat([cells, public("six", logged, LOG_OF_18)], ignore_index=True)
    return cells


def draw_by_bias(cells: pd.DataFrame, *, label: str) -> MplFigure:
    """Draw a curve a bias."""
    figure, axis = plt.subplots(figsize=(WIDTH, 3.4))
    names = [name for name in cells["series"].unique() if name != LOG_OF_18]
    for place, name in enumerate(names):
        points = cells[cells["series"] == name]
        colour = colormaps["plasma"](0.88 * place / max(1, len(names) - 1))
        axis.plot(points["x"], points["mean"], color=colour, label=name)
    _draw_log(axis, cells, LOG_OF_18)
    axis.set(xlabel=X_ROUND, ylabel=label)
    axis.set_ylim(bottom=0)
    round_axis(axis, cells)
    figure.legend(loc="outside lower center", ncols=3)
    return figure


_of = functools.partial


def _accuracies(experiment: Experiment, algorithms: Sequence[str], rounds: int) -> Figure:
    return Figure(
        _of(archetype_curves, experiment=experiment, algorithms=algorithms, rounds=rounds),
        draw_archetype_curves,
    )


Y_ACTIVE = "active models of all devices"
Y_SPREAD = "mean standard deviation\nof a device's scores"

FIGURES: dict[str, Figure] = {
    "fig1a": _accuracies("Hierarchical", ["FedCD"], 45),
    "fig1b": _accuracies("Hierarchical", ["FedAvg", "FedCD"], 50),
    "fig2": Figure(_of(changes, experiment="Hierarchical", rounds=150), draw_changes),
    "fig3": Figure(label_shares, draw_label_shares),
    "fig4a": _accuracies("Hypergeometric", ["FedCD"], 80),
    "fig4b": _accuracies("Hypergeometric", ["FedAvg", "FedCD"], 80),
    "fig5": Figure(_of(changes, experiment="Hypergeometric", rounds=80), draw_changes),
    "fig6": Figure(bits_curves, draw_bits_curves),
    "fig7": Figure(consensus, _of(draw_preferences, label="archetype")),
    "fig8": Figure(
        _of(by_bias, value=lambda log: log.active_models), _of(draw_by_bias, label=Y_ACTIVE)
    ),
    "fig9": Figure(
        _of(by_bias, value=lambda log: log.spread, logged=SPREAD),
        _of(draw_by_bias, label=Y_SPREAD),
    ),
    "preference": Figure(preferences, _of(draw_preferences, label="device")),
    "holders": Figure(holders, draw_holders),
    "active": Figure(active, draw_active),
    "traffic": Figure(traffic, draw_traffic),
    **log_figures.FIGURES,
}
