"""Kopparapu, Lin, Zhao 2020: figures 1 to 9, and our own of devices and models.

The paper prints its curves as images only; :mod:`fedrepro.papers.fedcd.logs` draws the authors'
public logs. Rounds are counted from 0.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure as MplFigure
from numpy.typing import NDArray

from fedrepro.fl.partition.archetypes import Hypergeometric
from fedrepro.papers.fedcd import logs as log_figures
from fedrepro.papers.fedcd.logs import (
    CHANGE,
    INKS,
    SPREAD,
    THIN,
    Y_CHANGE,
    beside_logs,
    curve,
    of,
)
from fedrepro.papers.fedcd.measurements import (
    BITS,
    COUNTED_UNTIL,
    FEDAVG,
    FEDCD,
    HIERARCHICAL,
    HYPERGEOMETRIC,
    METHODS,
    Log,
    Row,
    by_archetype,
    by_choice,
    by_rising_bias,
    entry,
    first_log,
    logs,
    megabytes,
    params,
    summarised,
)
from fedrepro.report import choices
from fedrepro.report.figure import Figure
from fedrepro.report.plots import ACCURACY, BLACK, ROUND, Canvas, Ink
from fedrepro.report.stats import moving_average
from fedrepro.runs.runset import RunSet

LOG_OF_30 = "public notebook, 30 devices, milestones 2, 15, 25, 30"
LOG_OF_18 = "public notebook, 18 devices"
"""Public logs in figures of our own runs as published, whose set-up is close to theirs."""
_LOG_INK = Ink("dimgrey", "-.")


def _shades(scale: str, count: int, low: float = 0, high: float = 0.95) -> list[Ink]:
    """Return inks along one of Matplotlib's colour scales; neighbours differ in line style."""
    places = np.linspace(low, high, count)
    lines = itertools.cycle(("-", "--", ":"))
    return [
        Ink(to_hex(colormaps[scale](place)), line)
        for place, line in zip(places, lines, strict=False)
    ]


def _drawn(points: pd.DataFrame) -> str:
    """Return which rounds a curve has."""
    return f"rounds {points['x'].min():g} to {points['x'].max():g}"


# Figures 1 and 4: accuracy of the archetypes


@summarised
def archetype_curves(
    runs: RunSet, *, experiment: str, methods: Sequence[str], rounds: int
) -> Iterator[Row]:
    """Yield the accuracy (fraction) of every archetype over the rounds.

    Further columns: ``algorithm``, ``archetype``, ``meta`` (its meta-archetype) and ``archetypes``
    (how many there are).
    """
    for method in methods:
        for log in logs(runs, experiment, method):
            for a, values in enumerate(log.by_archetype[:rounds].T):
                more = {"archetype": a, "meta": log.metas[a], "archetypes": len(log.metas)}
                name = f"{method}, archetype {a}"
                yield from curve(log, name, values, algorithm=method, **more)


WINDOW = 5
"""Rounds of the moving average in the curves of archetypes."""


def draw_archetype_curves(cells: pd.DataFrame) -> MplFigure:
    """Draw a panel an algorithm: moving averages over the curves, thin, of the archetypes.

    Shades of a colour are a meta-archetype.
    """
    canvas = Canvas(1, cells["algorithm"].nunique(), height=4.2, sharey=True)
    members = cells.groupby("meta")["archetype"].unique()
    inks = _shades("viridis", len(members[0]), high=0.88)
    if len(members) > 1:
        inks = [
            ink
            for scale, archetypes in zip(("Blues", "Oranges"), members, strict=True)
            for ink in _shades(scale, len(archetypes), 0.45)
        ]
    for axis, (algorithm, shown) in zip(
        canvas, cells.groupby("algorithm", sort=False), strict=True
    ):
        for a, ink in enumerate(inks):
            points = shown[shown["archetype"] == a]
            every = replace(ink, line="-")
            canvas.curve(axis, points, every, seeds=False, linewidth=0.4, alpha=0.5)
            smooth = points.assign(mean=moving_average(points["mean"].tolist(), WINDOW))
            canvas.curve(axis, smooth, ink, f"archetype {a}", seeds=False, linewidth=1.4)
        axis.set(title=f"{algorithm}, {_drawn(shown)}", ylim=(0, 100))
    canvas.accuracy_over_rounds()
    canvas.key("thin: every round", Ink("grey"), linewidth=0.6)
    title = f"thick: mean of a round and up to {WINDOW - 1} before it"
    if len(members) > 1:
        title += "; blue: meta-archetype 0, orange: meta-archetype 1"
    return canvas.legend(4, title)


# Figures 2 and 5: changes


@summarised
def changes(runs: RunSet, *, experiment: str, rounds: int) -> Iterator[Row]:
    """Yield the mean change (fraction) of a device's accuracy, by round."""
    for method in METHODS:
        for log in logs(runs, experiment, method):
            yield from curve(log, method, log.change[1:rounds], first=1)


def draw_changes(cells: pd.DataFrame) -> MplFigure:
    """Draw both algorithms' mean change."""
    canvas = Canvas(height=3.4)
    for method, ink in INKS.items():
        points = of(cells, method)
        canvas.curve(canvas.axis, points, ink, f"{method}, {_drawn(points)}", linewidth=1.2)
    canvas.curve(canvas.axis, of(cells, LOG_OF_30), _LOG_INK, LOG_OF_30, **THIN)
    canvas.over_rounds(Y_CHANGE)
    canvas.axis.set_ylim(bottom=0)
    return canvas.legend(2)


# Figure 3: the hypergeometric law


@summarised
def label_shares(runs: RunSet) -> Iterator[Row]:
    """Yield the hypergeometric law of every archetype, and what our devices drew.

    The law is computed, and its last value lies beyond the last label: those images are dropped.
    ``<archetype>, images drawn`` is the mean share of each label in the images that the archetype's
    devices asked for. Further column: ``archetype``.
    """
    from scipy.stats import hypergeom  # slow to import

    for log in logs(runs, HYPERGEOMETRIC, FEDCD):
        partition = log.run.spec.partition
        assert isinstance(partition, Hypergeometric)
        counts = np.array(runs.record(log.run).partition.counts) / partition.train
        drawn = by_archetype(counts.T, log.archetype).T
        for a, successes in enumerate(partition.successes):
            law = hypergeom(partition.population, successes, partition.draws)
            probabilities = law.pmf(np.arange(partition.draws + 1))
            yield from curve(log, f"archetype {a}", probabilities, archetype=a)
            yield from curve(log, _drawn_by(a), drawn[a], archetype=a)


def _drawn_by(archetype: int) -> str:
    return f"archetype {archetype}, images drawn"


_HOLLOW: dict[str, Any] = {"markerfacecolor": "none"}


def draw_label_shares(cells: pd.DataFrame) -> MplFigure:
    """Draw the law of every archetype as a line, and our devices' images as circles."""
    canvas = Canvas(height=3.6)
    axis = canvas.axis
    for a, ink in enumerate(_shades("viridis", cells["archetype"].nunique())):
        name = f"archetype {a}"
        dots = replace(ink, line="", marker="o")
        canvas.curve(axis, of(cells, name), ink, name, factor=1)
        canvas.curve(axis, of(cells, _drawn_by(a)), dots, factor=1, **_HOLLOW)
    last = int(cells["x"].max())
    axis.set(xlabel="label", ylabel="probability", xticks=range(last + 1))
    axis.set_xticklabels([*map(str, range(last)), f"{last}\n(dropped)"])
    canvas.key("images our devices drew", Ink("black", "", "o"), **_HOLLOW)
    return canvas.legend(4)


# Figure 6: quantisation


@summarised
def bits_curves(runs: RunSet) -> Iterator[Row]:
    """Yield the mean accuracy (fraction) of all devices by number of bits.

    Further columns: ``algorithm`` and ``bits`` (32: not quantised).
    """
    for log in [*logs(runs, HIERARCHICAL), *logs(runs, BITS)]:
        bits = params(log.run.spec).quantise_bits or 32
        values = log.accuracy[:COUNTED_UNTIL].mean(axis=1)
        name = f"{log.method}, {bits} bits"
        yield from curve(log, name, values, algorithm=log.method, bits=bits)


_BITS_COLOURS = {4: "orange", 8: "purple", 16: "green", 32: "blue"}
_LINES = {FEDCD: ("-", 1.4), FEDAVG: ("--", 0.9)}


def draw_bits_curves(cells: pd.DataFrame) -> MplFigure:
    """Draw FedCD as lines and FedAvg dashed; a colour a number of bits."""
    canvas = Canvas(height=3.6)
    for method, (line, width) in _LINES.items():
        for bits, colour in _BITS_COLOURS.items():
            name = f"{method}, {bits} bits"
            label = name if bits < 32 else f"{method}, not quantised"
            points = of(cells, name)
            canvas.curve(canvas.axis, points, Ink(colour, line), label, linewidth=width)
    canvas.over_rounds(f"mean {ACCURACY}")
    canvas.axis.set_ylim(0, 100)
    return canvas.legend()


# Figure 7, and our own: who prefers and who has which model, in the run of the first seed


@summarised
def preferences(runs: RunSet, *, by: Literal["archetype", "device"]) -> Iterator[Row]:
    """Yield the model that most devices of each archetype, or each device, prefer, by round.

    ``mean`` is the number of the model. Further column: ``line``, the archetype or device.
    """
    log = first_log(runs)
    if log is None:
        return
    rounds = log.consensus[:COUNTED_UNTIL] if by == "archetype" else np.array(log.preferred)
    for i, models in enumerate(rounds.T):
        yield from curve(log, f"{by} {i}", models, line=i)


def draw_preferences(cells: pd.DataFrame, *, by: str) -> MplFigure:
    """Draw a row a device or archetype, a column a round; numbers and shades are the models."""
    models = cells.pivot(index="line", columns="x", values="mean").to_numpy().round().astype(int)
    lines, rounds = models.shape
    canvas = Canvas(height=1.9 + 0.15 * lines)
    axis, numbers = canvas.axis, np.unique(models)
    shades = colormaps["cividis_r"].resampled(max(2, len(numbers)))
    image = axis.imshow(
        np.searchsorted(numbers, models),
        cmap=shades,
        vmin=-0.5,
        vmax=max(2, len(numbers)) - 0.5,
        aspect="auto",
        interpolation="nearest",
    )
    for line, row in enumerate(models):
        for first, end in _stretches(row):
            dark = np.mean(shades(int(np.searchsorted(numbers, row[first])))[:3]) < 0.5
            _number_stretch(axis, line, (first, end), rounds, row[first], dark=bool(dark))
        look: dict[str, Any] = {"color": "white", "linewidth": 0.8}
        if 2 * line == lines:
            look = {"color": "red", "linewidth": 1.5}
        axis.axhline(line - 0.5, **look)
    canvas.over_rounds(by)
    axis.set_yticks(range(0, lines, max(1, lines // 10)))
    axis.grid(visible=False)
    bar = canvas.figure.colorbar(
        image, ax=axis, location="bottom", ticks=range(len(numbers)), aspect=60, pad=0.02
    )
    bar.ax.set_xticklabels(map(str, numbers))
    about = "model, in order of creation; its number stands where there is room"
    bar.set_label(f"{about}\nred line: between the meta-archetypes")
    return canvas.figure


def _stretches(models: Sequence[int] | NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return the stretches of equal models in a row: first round, and the round behind the last."""
    ends = np.flatnonzero(np.diff(models)) + 1
    return [(int(a), int(b)) for a, b in itertools.pairwise([0, *ends, len(models)])]


_DIGIT = 4.5
"""Width of a digit of 7 points, in points."""
_ROW = 6.4 * 72
"""Width of a row, in points."""


def _number_stretch(
    axis: Axes, line: int, stretch: tuple[int, int], rounds: int, model: int, *, dark: bool
) -> None:
    """Separate a stretch from the next, and write its model into it where there is room."""
    first, end = stretch
    axis.vlines(end - 0.5, line - 0.5, line + 0.5, color="white", linewidth=0.6)
    if _DIGIT * len(str(model)) <= _ROW * (end - first) / rounds:
        look: dict[str, Any] = {"ha": "center", "va": "center_baseline", "fontsize": 7}
        look["color"] = "white" if dark else "black"
        axis.text((first + end - 1) / 2, line, f"{model}", **look)


@summarised
def holders(runs: RunSet) -> Iterator[Row]:
    """Yield how many devices of each meta-archetype have each model, by round.

    Further columns: ``model``, ``meta`` and ``devices`` (how many the meta-archetype has).
    """
    whole = first_log(runs)
    if whole is None:
        return
    log = whole.cut(0, COUNTED_UNTIL - 1)
    created = sorted({model for devices in log.active for held in devices for model in held})
    for meta in (0, 1):
        size = int((log.metas[log.archetype] == meta).sum())
        for model in created:
            counts, name = log.holders(model, meta), f"model {model}, meta-archetype {meta}"
            yield from curve(log, name, counts, model=model, meta=meta, devices=size)


def draw_holders(cells: pd.DataFrame) -> MplFigure:
    """Draw a panel a meta-archetype: a row a model, a column a round, dark where all have it."""
    models = sorted(cells["model"].unique())
    canvas = Canvas(1, 2, height=1.6 + 0.16 * len(models), sharey=True)
    most = int(cells["devices"].max())
    for axis, (meta, part) in zip(canvas, cells.groupby("meta"), strict=True):
        grid = part.pivot(index="model", columns="x", values="mean").to_numpy()
        mesh = axis.pcolormesh(grid, cmap="Blues", vmin=0, vmax=most, edgecolors="white", lw=0.2)
        axis.set(xlabel=ROUND, title=f"devices of meta-archetype {meta}")
        ticks = np.arange(0, grid.shape[1], 5)
        axis.set_xticks(ticks + 0.5, map(str, ticks))
        axis.set_yticks(np.arange(len(models)) + 0.5, [f"{m:g}" for m in models])
        axis.grid(visible=False)
    canvas.axis.invert_yaxis()
    canvas.axis.set_ylabel("model")
    canvas.figure.colorbar(mesh, ax=canvas.axes, label="devices that have it")
    return canvas.figure


@summarised
def active(runs: RunSet) -> Iterator[Row]:
    """Yield which models every device has, by round: a row a device, model and round.

    ``mean`` is the model's number; a model that is missing in the next round was deleted there.
    Further columns: ``device`` and ``model``.
    """
    log = first_log(runs)
    if log is None:
        return
    for t, devices in enumerate(log.active[:COUNTED_UNTIL]):
        for i, models in enumerate(devices):
            for m in models:
                yield entry(log, m, series=f"device {i}, model {m}", x=t, device=i, model=m)


def draw_active(cells: pd.DataFrame) -> MplFigure:
    """Draw a panel a model: a row a device, a column a round, dark while the device has it."""
    rounds, devices = int(cells["x"].max()) + 1, int(cells["device"].max()) + 1
    models = sorted(cells["model"].unique())
    rows = -(-len(models) // 4)
    canvas = Canvas(rows, 4, height=1.2 + 1.2 * rows, sharex=True, sharey=True)
    for axis, model in itertools.zip_longest(canvas, models):
        if model is None:
            axis.set_visible(False)
            continue
        held = cells[cells["model"] == model]
        grid = np.zeros((devices, rounds))
        grid[held["device"].astype(int), held["x"].astype(int)] = 1
        axis.imshow(grid, cmap="Blues", vmax=1.2, aspect="auto", interpolation="nearest")
        axis.axhline(devices / 2 - 0.5, color=BLACK.colour, linewidth=0.6)
        axis.set_title(f"model {model:g}", fontsize=8, pad=3)
        axis.tick_params(labelsize=7)
        axis.grid(visible=False)
    canvas.over_rounds("device")
    canvas.patch("the device has the model", color=colormaps["Blues"](1 / 1.2))
    canvas.key("between the meta-archetypes", BLACK, linewidth=0.6)
    return canvas.legend()


# Our own: traffic

_WAYS = {"up": "drawn devices send", "down": "all devices receive"}


@summarised
def traffic(runs: RunSet) -> Iterator[Row]:
    """Yield the megabytes that all devices together send and receive, by round (section 3.6)."""
    for log in logs(runs, HIERARCHICAL):
        for way, sizes in megabytes(log).items():
            yield from curve(log, f"{log.method}, {way}", sizes[:COUNTED_UNTIL])


def draw_traffic(cells: pd.DataFrame) -> MplFigure:
    """Draw uploads on the left, downloads on the right."""
    canvas = Canvas(1, 2, height=3.2)
    for axis, (way, title) in zip(canvas, _WAYS.items(), strict=True):
        for method, ink in INKS.items():
            canvas.curve(axis, of(cells, f"{method}, {way}"), ink, method, factor=1)
        axis.set_title(title)
        axis.set_ylim(bottom=0)
    canvas.over_rounds("MB in a round")
    return canvas.legend()


# Figures 8 and 9: biases


@summarised
def by_bias(runs: RunSet, *, value: Callable[[Log], Sequence[float]]) -> Iterator[Row]:
    """Yield a value of every round, for every bias, rising."""
    for name, found in by_rising_bias(runs).items():
        for log in found:
            yield from curve(log, name, value(log)[:COUNTED_UNTIL])


def draw_by_bias(cells: pd.DataFrame, *, label: str) -> MplFigure:
    """Draw a curve a bias."""
    canvas = Canvas(height=3.4)
    names = [name for name in cells["series"].unique() if name != LOG_OF_18]
    for name, ink in zip(names, _shades("plasma", len(names), high=0.88), strict=True):
        canvas.curve(canvas.axis, of(cells, name), ink, name, factor=1)
    canvas.curve(canvas.axis, of(cells, LOG_OF_18), _LOG_INK, LOG_OF_18, factor=1, **THIN)
    canvas.over_rounds(label)
    canvas.axis.set_ylim(bottom=0)
    return canvas.legend()


_of = functools.partial


def _accuracies(experiment: str, methods: Sequence[str], rounds: int) -> Figure:
    data = _of(archetype_curves, experiment=experiment, methods=methods, rounds=rounds)
    return Figure(data, draw_archetype_curves)


Y_ACTIVE = "active models of all devices"
Y_SPREAD = "mean standard deviation\nof a device's scores"

FIGURES: dict[str, Figure] = {
    "fig1a": _accuracies(HIERARCHICAL, [FEDCD], 45),
    "fig1b": _accuracies(HIERARCHICAL, [FEDAVG, FEDCD], 50),
    "fig2": Figure(
        beside_logs(
            _of(changes, experiment=HIERARCHICAL, rounds=150), "notebook", {CHANGE: LOG_OF_30}
        ),
        draw_changes,
        "points",
    ),
    "fig3": Figure(label_shares, draw_label_shares),
    "fig4a": _accuracies(HYPERGEOMETRIC, [FEDCD], 80),
    "fig4b": _accuracies(HYPERGEOMETRIC, [FEDAVG, FEDCD], 80),
    "fig5": Figure(_of(changes, experiment=HYPERGEOMETRIC, rounds=80), draw_changes, "points"),
    "fig6": Figure(bits_curves, draw_bits_curves),
    "fig7": Figure(
        _of(preferences, by="archetype"), _of(draw_preferences, by="archetype"), "index"
    ),
    "fig8": Figure(
        _of(by_bias, value=lambda log: log.active_models),
        _of(draw_by_bias, label=Y_ACTIVE),
        "count",
    ),
    "fig9": Figure(
        beside_logs(_of(by_bias, value=lambda log: log.spread), "six", {SPREAD: LOG_OF_18}),
        _of(draw_by_bias, label=Y_SPREAD),
        "points",
    ),
    "preference": Figure(
        _of(preferences, by="device"), _of(draw_preferences, by="device"), "index"
    ),
    "holders": Figure(holders, draw_holders, "count"),
    "active": Figure(active, draw_active, "index"),
    "traffic": Figure(traffic, draw_traffic, "MB"),
    "open_choices": choices.figure(by_choice),
    **log_figures.FIGURES,
}
