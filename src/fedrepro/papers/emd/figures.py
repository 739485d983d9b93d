"""Zhao et al. 2018: figures 1 to 8, and the bound of Proposition 3.1.

The paper prints its curves and divergences as images only. Published numbers are drawn in figure
5a, which is Table 2 as a curve, and in figure 7, where the text names a few. Figures 3 and 6 are
drawings in the paper; here they are drawn from a run's weights and from a run's partition.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as MplFigure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from fedrepro.papers.emd.measurements import (
    BOUND,
    DATASETS,
    IID,
    LARGE,
    LAYERS,
    ONE_CLASS,
    ROUNDING,
    SCRATCH,
    SMALL,
    SWEEP,
    TWO_CLASS,
    WARM,
    divergences,
    emd_label,
    group,
    reported,
    shared_label,
    titles,
)
from fedrepro.report.expected import published
from fedrepro.report.figure import Figure
from fedrepro.report.stats import summarise
from fedrepro.report.style import PALETTE, WIDTH
from fedrepro.runs.runset import RunSet

NOISE_FLOOR = "SGD in another order (noise floor)"
"""The divergence of two SGD runs that differ in nothing but the order of the examples."""

X_EMD = "earth mover's distance (EMD)"
Y_ACCURACY = "test accuracy (%)"
Y_DIVERGENCE = r"$\|w^{\mathrm{FedAvg}} - w^{\mathrm{SGD}}\| \; / \; \|w^{\mathrm{SGD}}\|$"

_SIX = ("blue", "orange", "green", "purple", "sky", "red")
_DASHES: tuple[Literal["-", "--", "-."], ...] = ("-", "--", "-", "-", "--", "-.")
"""Dashed where a curve may lie on the one before it: IID on SGD, E = 5 on E = 1."""
_SPREAD = 0.17
"""Distance of neighbouring series in figure 2, in units of the distance of layers."""
_BOXED_EMD = 1.44
_ONE_RUN = "one run each"
_PUBLISHED: dict[str, Any] = {
    "linestyle": "",
    "marker": "*",
    "markersize": 9,
    "markerfacecolor": "white",
}
_KEYS = ["series", "x"]


# Figures 1 and 8: accuracy over the rounds


def accuracy_curves(runs: RunSet, dataset: str, trainings: Sequence[str]) -> pd.DataFrame:
    """Return test accuracy (fraction) over the rounds, one series a training.

    A pre-trained run begins at round 0 with what pre-training reached.
    """
    groups = [group(dataset, training) for training in trainings]
    curves = runs.curves(groups, "accuracy")
    before = {
        run.id: getattr(run.spec.algorithm, "pretrain_epochs", 0) for run in runs.members(groups)
    }
    curves["x"] = curves["round"] - curves["run"].map(before)
    curves = curves[curves["x"] >= 0]
    cells = summarise(curves.rename(columns={"title": "series"}), "value", _KEYS)
    return cells.assign(dataset=titles(runs)[dataset])


def draw_accuracy_curves(cells: pd.DataFrame) -> MplFigure:
    """Draw the mean of every series as a line and every seed as a thin one.

    A dot marks where a pre-trained run begins. The right panel enlarges the second half of the
    rounds.
    """
    figure, (whole, late) = plt.subplots(1, 2, figsize=(WIDTH, 3.6))
    handles = []
    repeated = bool((cells["n"] > 1).any())
    for series, name, style in zip(cells["series"].unique(), _SIX, _DASHES, strict=False):
        points = cells[cells["series"] == series]
        seeds = [[100 * value for value in values] for values in points["values"]]
        for axis in (whole, late):
            if repeated:
                axis.plot(points["x"], seeds, color=PALETTE[name], linewidth=0.5, alpha=0.5)
            axis.plot(points["x"], 100 * points["mean"], color=PALETTE[name], linestyle=style)
        handles.append(Line2D([], [], color=PALETTE[name], linestyle=style, label=str(series)))
        start = points[points["x"] == 0]
        if len(start):
            dot: dict[str, Any] = {"color": PALETTE[name], "marker": "o", "linestyle": ""}
            whole.plot([0], 100 * start["mean"], **dot, clip_on=False, zorder=5)
            handles.append(Line2D([], [], **dot, label="where pre-training ended"))
    if repeated:
        handles.append(Line2D([], [], color="black", linewidth=0.5, label="every seed"))
    else:
        handles.append(Line2D([], [], linestyle="", label=_ONE_RUN))
    end = cells["x"].max()
    shown = [
        100 * value for values in cells.loc[cells["x"] >= end / 2, "values"] for value in values
    ]
    margin = max(0.05 * (max(shown) - min(shown)), 0.1)
    dataset = cells["dataset"].iloc[0]
    whole.set(title=f"{dataset}: all rounds", ylabel=Y_ACCURACY, xlim=(0, end), ylim=(0, 100))
    late.set(title="second half, enlarged", xlim=(end / 2, end))
    late.set_ylim(min(shown) - margin, max(shown) + margin)
    for axis in (whole, late):
        axis.set_xlabel("communication round")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
    return figure


# Figures 2 and 4: weight divergence


def divergence_by_skew(runs: RunSet) -> pd.DataFrame:
    """Return figure 2: divergence of each layer for IID, 2-class and 1-class clients.

    A fourth series, our own, is the noise floor, taken from the IID runs. Further columns:
    ``dataset`` and ``layer``, which together are ``x``.
    """
    parts = []
    for dataset, title in titles(runs).items():
        layers = LAYERS[dataset]
        groups = [group(dataset, training) for training in (IID, TWO_CLASS, ONE_CLASS)]
        ours = divergences(runs, groups, layers)
        floor = divergences(runs, groups[:1], layers, "sgd_other_shuffle")
        both = pd.concat([ours, floor.assign(title=NOISE_FLOOR)], ignore_index=True)
        parts.append(both.assign(dataset=title, x=title + " " + both["layer"]))
    table = pd.concat(parts, ignore_index=True).rename(columns={"title": "series"})
    return summarise(table, "value", [*_KEYS, "dataset", "layer"])


def draw_divergence_by_skew(cells: pd.DataFrame) -> MplFigure:
    """Draw a panel a data set, on a logarithmic scale: a bar at the mean, every seed as a dot."""
    figure, axes = plt.subplots(
        1, len(DATASETS), figsize=(WIDTH, 3.6), sharey=True, gridspec_kw={"width_ratios": (4, 5, 5)}
    )
    names = list(dict.fromkeys(cells["series"]))
    colours = [PALETTE[name] for name in (*_SIX[:3], "grey")]
    for axis, dataset, title in zip(axes, DATASETS, cells["dataset"].unique(), strict=True):
        for position, (series, colour) in enumerate(zip(names, colours, strict=True)):
            points = cells[(cells["series"] == series) & (cells["dataset"] == title)]
            shift = _SPREAD * (position - (len(names) - 1) / 2)
            for place, (mean, values) in enumerate(
                zip(points["mean"], points["values"], strict=True)
            ):
                seeds = values
                x = place + shift
                spots = np.linspace(x - 0.04, x + 0.04, len(seeds))
                axis.plot(spots, seeds, ".", color=colour, markersize=3)
                axis.plot([x - 0.07, x + 0.07], [mean, mean], color=colour)
        layers = [layer.replace("_", " ") for layer in LAYERS[dataset]]
        axis.set(yscale="log", title=title, xticks=range(len(layers)))
        axis.set_xticklabels(layers, rotation=40, ha="right")
        axis.grid(visible=False, axis="x")
    axes[0].set_ylabel(Y_DIVERGENCE)
    handles = [
        Line2D([], [], color=colour, marker=".", label=series)
        for series, colour in zip(names, colours, strict=True)
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2)
    return figure


def divergence_by_emd(runs: RunSet, dataset: str) -> pd.DataFrame:
    """Return figure 4: divergence of each layer against EMD, over the distributions."""
    table = divergences(runs, [group(dataset, SWEEP)], LAYERS[dataset])
    cells = summarise(table.rename(columns={"layer": "series", "emd": "x"}), "value", _KEYS)
    return cells.assign(dataset=titles(runs)[dataset])


def draw_divergence_by_emd(cells: pd.DataFrame) -> MplFigure:
    """Draw a curve a layer: mean, its interval, every distribution as a dot."""
    figure, axis = plt.subplots(figsize=(WIDTH, 3.6))
    for series, name, marker in zip(cells["series"].unique(), _SIX, "osD^v", strict=False):
        points = cells[cells["series"] == series]
        label = str(series).replace("_", " ")
        _errorbar(axis, points, points["mean"], PALETTE[name], label, marker)
        _dots(axis, points, PALETTE[name])
    axis.set(xlabel=X_EMD, ylabel=Y_DIVERGENCE)
    axis.set_ylim(bottom=0)
    _emd_ticks(axis, cells)
    dataset = cells["dataset"].iloc[0]
    axis.set_title(f"{dataset}; {_spread(cells)}; dots: the distributions", fontsize=8)
    figure.legend(loc="outside lower center", ncols=5)
    return figure


# Figure 5: accuracy against EMD


def accuracy_by_emd(runs: RunSet) -> pd.DataFrame:
    """Return figure 5a: reported test accuracy (fraction) against EMD, a series a data set.

    Further columns: ``table2`` and ``table2_sd``, the published values that the curves show.
    """
    tables = [
        reported(runs, [group(dataset, SWEEP)]).assign(series=title)
        for dataset, title in titles(runs).items()
    ]
    table = pd.concat(tables, ignore_index=True).rename(columns={"emd": "x"})
    cells = summarise(table, "accuracy", _KEYS)
    means, sds = published(runs.paper, "table2"), published(runs.paper, "table2", "sd")
    keys = [(s, emd_label(emd)) for s, emd in zip(cells["series"], cells["x"], strict=True)]
    cells["table2"] = [means.get(key, np.nan) for key in keys]
    cells["table2_sd"] = [sds.get(key, np.nan) for key in keys]
    return cells.assign(scale=runs.scale)


def draw_accuracy_by_emd(cells: pd.DataFrame) -> MplFigure:
    """Draw our mean with its interval and every distribution; published values beside."""
    figure, axis = plt.subplots(figsize=(WIDTH, 3.9))
    for series, name, marker in zip(cells["series"].unique(), _SIX, "osD", strict=False):
        colour = PALETTE[name]
        points = cells[cells["series"] == series]
        percent = points.assign(low=100 * points["low"], high=100 * points["high"])
        axis.errorbar(
            points["x"],
            100 * points["table2"],
            yerr=100 * points["table2_sd"],
            color=colour,
            linestyle=":",
            marker=marker,
            markerfacecolor="white",
            alpha=0.6,
            capsize=2,
        )
        _errorbar(axis, percent, 100 * points["mean"], colour, str(series), marker)
        _dots(axis, points, colour, factor=100)
    axis.set(xlabel=X_EMD, ylabel=Y_ACCURACY)
    _emd_ticks(axis, cells)
    handles, _ = axis.get_legend_handles_labels()
    published_too = Line2D(
        [], [], color="black", linestyle=":", marker="o", mfc="white", label="published, ± sd"
    )
    label = f"ours ({cells['scale'].iloc[0]} scale), {_spread(cells)}"
    ours = Line2D([], [], color="black", label=label)
    figure.legend(handles=[*handles, ours, published_too], loc="outside lower center", ncols=3)
    return figure


def variation(runs: RunSet) -> pd.DataFrame:
    """Return figure 5b: what the five distributions of EMD 1.44 do to accuracy and divergence.

    Values are relative to their mean. Series ``accuracy`` by data set, which the text speaks of;
    series ``weight divergence`` by data set and layer, which the caption names. Further columns:
    ``dataset`` and ``layer``, which together are ``x`` (no layer: accuracy), and ``emd``.
    At a scale without that EMD, the nearest is taken.
    """
    parts = []
    for dataset, title in titles(runs).items():
        name, layers = group(dataset, SWEEP), LAYERS[dataset]
        accuracy = reported(runs, [name]).rename(columns={"accuracy": "value"})
        parts.append(accuracy.assign(series="accuracy", x=title, dataset=title, layer=""))
        divergence = divergences(runs, [name], layers)
        x = title + " " + divergence["layer"]
        parts.append(divergence.assign(series="weight divergence", x=x, dataset=title))
    table = pd.concat(parts, ignore_index=True)
    levels = sorted(table["emd"].unique(), key=lambda emd: abs(emd - _BOXED_EMD))
    table = table[table["emd"] == levels[0]]
    table["value"] /= table.groupby(_KEYS)["value"].transform("mean")
    names = table.groupby(_KEYS)[["dataset", "layer"]].first()
    return summarise(table, "value", _KEYS).assign(emd=levels[0]).join(names, on=_KEYS)


def draw_variation(cells: pd.DataFrame) -> MplFigure:
    """Draw a box over the distributions, each a dot, in per cent of their mean.

    One panel for the accuracies, and one a data set for the divergences of its layers.
    """
    accuracy = cells[cells["series"] == "accuracy"]
    divergence = cells[cells["series"] == "weight divergence"]
    datasets = list(accuracy["dataset"])
    sizes = [len(accuracy), *(int((divergence["dataset"] == name).sum()) for name in datasets)]
    figure, (first, *others) = plt.subplots(
        1, len(sizes), figsize=(WIDTH, 3.4), gridspec_kw={"width_ratios": sizes}
    )
    _boxes(first, accuracy, [name.partition(",")[0] for name in datasets])
    first.set_title("accuracy", fontsize=8)
    for axis, dataset in zip(others, datasets, strict=True):
        points = divergence[divergence["dataset"] == dataset]
        _boxes(axis, points, [layer.replace("_", " ") for layer in points["layer"]])
        axis.set_title(f"divergence,\n{dataset}", fontsize=8)
        axis.sharey(others[0])
    for axis in others[1:]:
        axis.tick_params(labelleft=False)
    first.set_ylabel("distance from the mean (%)")
    emd = emd_label(cells["emd"].iloc[0])
    what = f"EMD {emd}; dots: the distributions; box: their quartiles, line: their median"
    figure.supxlabel(what, fontsize=8)
    return figure


def _boxes(axis: Axes, points: pd.DataFrame, labels: list[str]) -> None:
    boxes = [[100 * value - 100 for value in values] for values in points["values"]]
    axis.boxplot(boxes, showfliers=False, medianprops={"color": PALETTE["red"]})
    for place, values in enumerate(boxes, start=1):
        axis.plot([place] * len(values), values, ".", color=PALETTE["blue"], alpha=0.7)
    axis.set_xticklabels(labels, rotation=40, ha="right", fontsize=7)
    axis.grid(visible=False, axis="x")


# Figures 3 and 6, redrawn from runs


def weights_in_a_plane(runs: RunSet) -> pd.DataFrame:
    """Return figure 3: models of the first synchronisations, projected to a plane.

    The records of the runs for Proposition 3.1 hold the inner products of all models'
    displacements from the initial weights; their first two principal components span the plane of
    each panel, in units of the weights.

    Returns:
        One row a model: ``series`` (``EMD 1.8: client 3``), ``x`` (synchronisation, 0 is the
        start), ``mean`` (along the first component), ``up`` (along the second), ``kept`` (share of
        the squared distances that the plane keeps), ``emd``, ``model``, ``dataset``, ``runs``.
    """
    rows = []
    runs_of = runs.members([BOUND])
    for run in (runs_of[0], runs_of[-1]):
        products = np.array(runs.record(run).final["inner_products"])
        clients = len(runs.record(run).partition.counts)
        models = [f"client {k}" for k in range(clients)] + ["FedAvg", "SGD"]
        place, kept = plane(products)
        emd = float(run.coordinates["emd"])
        dataset = run.spec.dataset.name
        for number, (x, up) in enumerate(place):
            synchronisation, model = divmod(number - 1, len(models))
            name = "start" if number == 0 else models[model]
            rows.append(
                {
                    "series": f"EMD {emd_label(emd)}: {name}",
                    "x": 0 if number == 0 else synchronisation + 1,
                    "mean": x,
                    "up": up,
                    "kept": kept,
                    "emd": emd,
                    "model": name,
                    "dataset": DATASETS.get(dataset, dataset),
                    "runs": (run.id,),
                }
            )
    return pd.DataFrame(rows)


def plane(products: np.ndarray) -> tuple[np.ndarray, float]:
    """Project vectors to the plane of their first two principal components.

    Args:
        products: inner products of n vectors, float64 [n, n]; the zero vector is put in front.

    Returns:
        Coordinates, float64 [n + 1, 2], the zero vector first and at the origin; and the share of
        the sum of squared distances from the mean that lies in the plane.
    """
    size = len(products) + 1
    gram = np.zeros((size, size))
    gram[1:, 1:] = products
    centre = np.eye(size) - 1 / size
    values, vectors = np.linalg.eigh(centre @ gram @ centre)
    place = vectors[:, -2:][:, ::-1] * np.sqrt(np.maximum(values[-2:][::-1], 0))
    place = place - place[0]
    for column in range(2):  # an eigenvector's sign is arbitrary: the last model lies to the right
        place[:, column] *= 1 if place[-1, column] >= 0 else -1
    total = float(np.maximum(values, 0).sum())
    return place, float(values[-2:].sum()) / total if total else 1.0


def draw_weights_in_a_plane(cells: pd.DataFrame) -> MplFigure:
    """Draw the path of SGD, of the average, and of every client between synchronisations.

    Each panel says how far apart, at most, two models of one synchronisation are in it.
    """
    levels = cells["emd"].unique()
    figure, axes = plt.subplots(1, len(levels), figsize=(WIDTH, 3.8))
    grey, blue, red = PALETTE["grey"], PALETTE["blue"], PALETTE["red"]
    for axis, emd in zip(axes, levels, strict=True):
        here = cells[cells["emd"] == emd].set_index(["model", "x"])[["mean", "up"]]
        path = {
            name: np.vstack([here.loc[("start", 0)], here.loc[name].sort_index()])
            for name in here.index.get_level_values(0).unique()
            if name != "start"
        }
        for name, points in path.items():
            if name in ("SGD", "FedAvg"):
                continue
            for m in range(1, len(points)):  # a client starts from the average of the round before
                ends = np.vstack([path["FedAvg"][m - 1], points[m]])
                axis.plot(ends[:, 0], ends[:, 1], color=grey, linewidth=0.8, marker=".", zorder=1)
        for name, colour, marker in (("SGD", blue, "s"), ("FedAvg", red, "o")):
            axis.plot(*path[name].T, color=colour, marker=marker, markersize=5)
        kept = cells.loc[cells["emd"] == emd, "kept"].iloc[0]
        apart = max(
            float(np.linalg.norm(models.to_numpy()[:, None] - models.to_numpy(), axis=-1).max())
            for _, models in here.groupby(level="x")
        )
        axis.set_title(
            f"EMD {emd_label(emd)} ({100 * kept:.0f} % of the variance in the plane);\n"
            f"clients, FedAvg, SGD at most {apart:.2g} apart in it",
            fontsize=8,
        )
        axis.set_xlabel("first component")
        axis.set_aspect("equal", adjustable="datalim")
    axes[0].set_ylabel("second component")
    handles = [
        Line2D([], [], color=blue, marker="s", label="SGD"),
        Line2D([], [], color=red, marker="o", label="FedAvg, after each synchronisation"),
        Line2D([], [], color=grey, marker=".", label="a client"),
    ]
    what = f"{cells['dataset'].iloc[0]}, full batches, {cells['x'].max()} synchronisations"
    figure.legend(
        handles=handles, loc="outside lower center", ncols=3, title=what, title_fontsize=8
    )
    return figure


def sharing_partition(runs: RunSet) -> pd.DataFrame:
    """Return figure 6: what each client holds of each class, of its own and of G.

    Taken from one run of figure 7b: the smaller G, the alpha nearest to one half. Series ``own``
    and ``class <i> of G``, ``x`` the client; ``mean`` counts examples.
    """
    members = runs.members([WARM])
    alpha = min((float(run.coordinates["alpha"]) for run in members), key=lambda a: abs(a - 0.5))
    run = next(run for run in members if run.coordinates["alpha"] == alpha)
    cut = run.spec.partition
    assert cut.scheme == "data_sharing"
    counts = np.array(runs.record(run).partition.counts)
    own = np.eye(counts.shape[1], dtype=int)[counts.argmax(axis=1)] * (
        counts - round(cut.alpha * cut.beta * cut.per_class)
    )
    rows = [
        {"series": f"own, class {label}", "x": client, "mean": int(count), "held": "own"}
        for client, row in enumerate(own)
        for label, count in enumerate(row)
        if count
    ]
    rows += [
        {"series": f"class {label} of G", "x": client, "mean": int(count), "held": "shared"}
        for client, row in enumerate(counts - own)
        for label, count in enumerate(row)
    ]
    what = f"{shared_label(cut.beta)}, alpha = {100 * cut.alpha:g} %"
    emd = float(np.mean(runs.record(run).partition.emd))
    return pd.DataFrame(rows).assign(what=what, emd=emd, runs=run.id)


def draw_sharing_partition(cells: pd.DataFrame) -> MplFigure:
    """Draw a bar a client: its own class, and the share of G on top; a colour a class."""
    figure, axis = plt.subplots(figsize=(WIDTH, 4))
    colours = plt.get_cmap("tab10")
    top = np.zeros(int(cells["x"].max()) + 1)
    for held, hatch in (("own", ""), ("shared", "///")):
        part = cells[cells["held"] == held]
        for series in part["series"].unique():
            points = part[part["series"] == series]
            label = _class_of(series)
            clients = points["x"].to_numpy()
            counts = points["mean"].to_numpy()
            axis.bar(
                clients,
                counts,
                bottom=top[clients],
                color=colours(label % 10),
                hatch=hatch,
                edgecolor="white",
                linewidth=0.3,
            )
            top[clients] += counts
    axis.set(xlabel="client", ylabel="training examples", xticks=range(len(top)))
    axis.set_title(f"{cells['what'].iloc[0]}: EMD {cells['emd'].iloc[0]:.4g} instead of 1.8")
    axis.grid(visible=False, axis="x")
    axis.set_axisbelow(True)
    handles = [
        Patch(facecolor="white", edgecolor="black", label="own examples"),
        Patch(facecolor="white", edgecolor="black", hatch="///", label="share of G"),
        *(
            Patch(facecolor=colours(label % 10), label=f"class {label}")
            for label in sorted({_class_of(series) for series in cells["series"]})
        ),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=6)
    return figure


def _class_of(series: object) -> int:
    """Return the number in the name of a series of figure 6."""
    return int("".join(filter(str.isdigit, str(series))))


# Figure 7: data sharing


def accuracy_by_beta(runs: RunSet) -> pd.DataFrame:
    """Return figure 7a: reported accuracy (fraction) by beta (per cent), and the clients' EMD."""
    table = reported(runs, [SCRATCH])
    emd = {
        run.id: float(np.mean(runs.record(run).partition.emd)) for run in runs.members([SCRATCH])
    }
    table = table.assign(series="accuracy", x=100 * table["beta"], emd=table["run"].map(emd))
    cells = summarise(table, "accuracy", _KEYS)
    return cells.assign(emd=summarise(table, "emd", _KEYS)["mean"])


def draw_accuracy_by_beta(cells: pd.DataFrame) -> MplFigure:
    """Draw accuracy (left axis) and EMD (right axis) against beta, and the published points.

    What the text quotes for no sharing is of another experiment and is left out.
    """
    figure, axis = plt.subplots(figsize=(WIDTH, 3.6))
    blue, orange = PALETTE["blue"], PALETTE["orange"]
    percent = cells.assign(low=100 * cells["low"], high=100 * cells["high"])
    _errorbar(axis, percent, 100 * cells["mean"], blue, f"accuracy, {_spread(cells)}", "o")
    _dots(axis, cells, blue, factor=100)
    _published_points(axis, cells[cells["x"] > 0], blue)
    axis.plot([], [], color=blue, **_PUBLISHED, label="published accuracy")
    axis.set(xlabel=r"size of G, $\beta$ (% of D)", ylabel=Y_ACCURACY)
    right = axis.twinx()
    right.plot(cells["x"], cells["emd"], color=orange, linestyle="--", marker="s", label="EMD")
    right.set(ylabel="EMD of the clients", ylim=(0, 1.9))
    right.spines["right"].set_visible(True)
    right.grid(visible=False)
    figure.legend(loc="outside lower center", ncols=3)
    return figure


def accuracy_by_alpha(runs: RunSet) -> pd.DataFrame:
    """Return figure 7b: reported accuracy (fraction) by alpha (per cent), a series a G."""
    table = reported(runs, [WARM])
    table = table.assign(series=table["beta"].map(shared_label), x=100 * table["alpha"])
    return summarise(table, "accuracy", _KEYS)


def draw_accuracy_by_alpha(cells: pd.DataFrame) -> MplFigure:
    """Draw a curve a G, and the published points."""
    figure, axis = plt.subplots(figsize=(WIDTH, 3.4))
    for series, name, marker in zip(cells["series"].unique(), _SIX, "os", strict=False):
        points = cells[cells["series"] == series]
        percent = points.assign(low=100 * points["low"], high=100 * points["high"])
        _errorbar(axis, percent, 100 * points["mean"], PALETTE[name], str(series), marker)
        _dots(axis, points, PALETTE[name], factor=100)
        _published_points(axis, points, PALETTE[name])
    axis.plot([], [], linestyle="", label=f"ours: {_spread(cells)}")
    axis.plot([], [], color="black", **_PUBLISHED, label="published")
    axis.set(xlabel=r"share of G that a client receives, $\alpha$ (%)", ylabel=Y_ACCURACY)
    figure.legend(loc="outside lower center", ncols=2)
    return figure


def _published_points(axis: Axes, points: pd.DataFrame, colour: str) -> None:
    axis.plot(points["x"], 100 * points["published"], color=colour, **_PUBLISHED)


# Proposition 3.1


def bound_by_synchronisation(runs: RunSet) -> pd.DataFrame:
    """Return the distance of FedAvg from SGD and the bound on it, by synchronisation m.

    A further column, ``rounding``, is the distance below which single-precision arithmetic alone
    may be seen. All in units of the weights.
    """
    parts = []
    for run in runs.members([BOUND]):
        final = runs.record(run).final
        emd = float(run.coordinates["emd"])
        for side in ("distance", "bound"):
            content = {
                "series": f"EMD {emd_label(emd)}, {side}",
                "x": range(1, len(final[side]) + 1),
                "value": final[side],
                "rounding": ROUNDING * np.array(final["norm"]),
                "emd": emd,
                "side": side,
                "seed": run.seed,
                "run": run.id,
            }
            parts.append(pd.DataFrame(content))
    table = pd.concat(parts, ignore_index=True)
    cells = summarise(table, "value", [*_KEYS, "emd", "side"])
    return cells.assign(rounding=summarise(table, "rounding", _KEYS)["mean"])


def draw_bound(cells: pd.DataFrame) -> MplFigure:
    """Draw measured distances as lines and bounds dashed, on a logarithmic scale.

    Shaded: where distances are rounding and may exceed their bound. A bound of zero (EMD 0, first
    synchronisation) has no place on the scale and is left out.
    """
    figure, axis = plt.subplots(figsize=(WIDTH, 3.6))
    for emd, name in zip(cells["emd"].unique(), _SIX, strict=False):
        for side, style in (("distance", "-"), ("bound", "--")):
            points = cells[(cells["emd"] == emd) & (cells["side"] == side) & (cells["mean"] > 0)]
            axis.plot(points["x"], points["mean"], color=PALETTE[name], linestyle=style, marker=".")
    handles = [
        Line2D([], [], color=PALETTE[name], label=f"EMD {emd_label(emd)}")
        for emd, name in zip(cells["emd"].unique(), _SIX, strict=False)
    ]
    handles += [
        Line2D([], [], color="black", label="measured"),
        Line2D([], [], color="black", linestyle="--", label="bound (eq. 2)"),
    ]
    axis.set(yscale="log", xlabel="synchronisation m")
    floor = axis.get_ylim()[0]
    rounding = cells.groupby("x")["rounding"].min()
    axis.fill_between(rounding.index, floor, rounding, color=PALETTE["grey"], alpha=0.25, lw=0)
    axis.set_ylim(bottom=floor)
    what = f"below {100 * ROUNDING:g} % of the weights' norm: rounding, which may exceed the bound"
    middle = float(cells["x"].median())
    axis.text(middle, 0.7 * rounding.min(), what, ha="center", va="top", fontsize=8)
    axis.set_ylabel(r"$\|w^{\mathrm{FedAvg}} - w^{\mathrm{SGD}}\|$")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
    return figure


# Shared by several figures


def _errorbar(
    axis: Axes, points: pd.DataFrame, mean: pd.Series, colour: str, label: str, marker: str
) -> None:
    """Draw means and their intervals; no bar where there is one value only."""
    style: dict[str, Any] = {"color": colour, "marker": marker, "label": label}
    if (points["n"] > 1).any():
        reach = (points["high"] - points["low"]) / 2
        axis.errorbar(points["x"], mean, yerr=reach, capsize=3, **style)
    else:
        axis.plot(points["x"], mean, **style)


def _spread(cells: pd.DataFrame) -> str:
    """Return what the bars of :func:`_errorbar` are called."""
    return "95 % Student t intervals" if (cells["n"] > 1).any() else _ONE_RUN


def _dots(axis: Axes, points: pd.DataFrame, colour: str, factor: float = 1) -> None:
    """Draw every seed as a small dot."""
    for x, values in zip(points["x"], points["values"], strict=True):
        seeds = [factor * value for value in values]
        axis.plot([x] * len(seeds), seeds, ".", color=colour, markersize=3, alpha=0.6)


def _emd_ticks(axis: Axes, cells: pd.DataFrame) -> None:
    """Put a tick at every EMD; 1.764 is too close to 1.8 for a label beside it."""
    ticks = sorted(cells["x"].unique())
    axis.set_xticks(ticks)
    axis.xaxis.set_major_formatter(
        FuncFormatter(lambda x, _: "\n1.764" if abs(x - 1.764) < 1e-6 else emd_label(x))
    )


_of = functools.partial


def _for_each_dataset(
    number: str, data: Callable[..., pd.DataFrame], draw: Callable[[pd.DataFrame], MplFigure]
) -> dict[str, Figure]:
    """Return the panels a, b, c of a figure, one a data set, as figures of their own."""
    return {
        f"fig{number}{letter}": Figure(_of(data, dataset=dataset), draw)
        for letter, dataset in zip("abc", DATASETS, strict=True)
    }


FIGURES: dict[str, Figure] = (
    _for_each_dataset("1", _of(accuracy_curves, trainings=LARGE), draw_accuracy_curves)
    | {
        "fig2": Figure(divergence_by_skew, draw_divergence_by_skew),
        "fig3": Figure(weights_in_a_plane, draw_weights_in_a_plane),
    }
    | _for_each_dataset("4", divergence_by_emd, draw_divergence_by_emd)
    | {
        "fig5a": Figure(accuracy_by_emd, draw_accuracy_by_emd),
        "fig5b": Figure(variation, draw_variation),
        "fig6": Figure(sharing_partition, draw_sharing_partition),
        "fig7a": Figure(accuracy_by_beta, draw_accuracy_by_beta),
        "fig7b": Figure(accuracy_by_alpha, draw_accuracy_by_alpha),
    }
    | _for_each_dataset("8", _of(accuracy_curves, trainings=SMALL), draw_accuracy_curves)
    | {"bound_rounds": Figure(bound_by_synchronisation, draw_bound)}
)
