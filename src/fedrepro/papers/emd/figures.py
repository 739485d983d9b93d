"""Zhao et al. 2018: figures 1 to 8, and the bound of Proposition 3.1.

The paper prints its curves and divergences as images only. Published numbers are drawn in figure
5a, which is Table 2 as a curve, and in figure 7, where the text names a few. Figures 3 and 6 are
drawings in the paper; here they are drawn from a run's weights and from a run's partition.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as MplFigure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from fedrepro.fl.partition.data_sharing import DataSharing
from fedrepro.papers.emd.measurements import (
    BOUND,
    DATASETS,
    FIRST_ROUND,
    SCRATCH,
    WARM,
    by_choice,
    divergences,
    reported,
    shared_label,
    synchronisations,
    titles,
)
from fedrepro.report import choices
from fedrepro.report.expected import cell_key, published
from fedrepro.report.figure import Figure, at_the_end
from fedrepro.report.plots import ACCURACY, BLACK, INTERVALS, Canvas, Ink
from fedrepro.report.stats import summarise
from fedrepro.report.style import PALETTE
from fedrepro.runs.runset import RunSet

NOISE_FLOOR = "SGD in another order (noise floor)"
"""The divergence of two SGD runs that differ in nothing but the order of the examples."""

ROUNDING = 1e-5
"""Distances below this share of the weights' norm are those of single-precision arithmetic."""

X_EMD = "earth mover's distance (EMD)"
Y_DISTANCE = r"$\|w^{\mathrm{FedAvg}} - w^{\mathrm{SGD}}\|$"
Y_DIVERGENCE = rf"{Y_DISTANCE} / $\|w^{{\mathrm{{SGD}}}}\|$"

_COLOURS = ("blue", "orange", "green", "purple", "sky", "red")
_LINES = ("-", "--", "-", "-", "--", "-.")
"""Dashed where a curve may lie on the one before it: IID on SGD, E = 5 on E = 1."""
_TRAININGS = [Ink(colour, line) for colour, line in zip(_COLOURS[:-1], _LINES, strict=False)]
_TRAININGS.append(Ink("black", _LINES[-1]))
_SERIES = [Ink(colour, marker=marker) for colour, marker in zip(_COLOURS, "osD^vP", strict=True)]
_BAR: dict[str, Any] = {"markersize": 8, "markeredgewidth": 1.5}
_SPREAD = 0.17
"""Distance of neighbouring series in figure 2, in units of the distance of layers."""
_T_OF_FIVE = 2.776
"""Student's t, 97.5 %, four degrees of freedom: the published standard deviations are of five."""
_BOXED_EMD = 1.44
_KEYS = ["series", "x"]


# Figures 1 and 8: accuracy over the rounds


def accuracy_curves(runs: RunSet, figure: str) -> pd.DataFrame:
    """Return test accuracy (fraction) over the rounds, one series a training.

    A pre-trained run begins at round 0 with what pre-training reached. Further columns:
    ``dataset``, and ``reported``, what Table 3 prints, in a series' last row.
    """
    groups = runs.groups_of(figure)
    curves = runs.curves(groups, "accuracy")
    before = {
        run.id: getattr(run.spec.algorithm, "pretrain_epochs", 0) for run in runs.members(groups)
    }
    curves["x"] = curves["round"] - curves["run"].map(before)
    curves["dataset"] = curves["dataset"].map(titles(runs))
    curves = curves[curves["x"] >= 0].rename(columns={"title": "series"})
    cells = summarise(curves, "value", _KEYS, "dataset")
    table3 = published(runs.paper, "table3")
    keys = zip(cells["series"], cells["dataset"].map(_printed_as(runs)), strict=True)
    printed = pd.Series([table3.get(cell_key(*key), np.nan) for key in keys], cells.index)
    return at_the_end(cells, printed)


def _printed_as(runs: RunSet) -> dict[str, str]:
    """Return how the paper calls our data sets; its KWS has other features than our packed one."""
    return {ours: DATASETS[key] for key, ours in titles(runs).items()}


def draw_accuracy_curves(cells: pd.DataFrame) -> MplFigure:
    """Draw all rounds, and the second half of them enlarged.

    A dot marks where a pre-trained run begins.
    """
    canvas = Canvas(1, 2, height=3.6)
    whole, late = canvas
    for ink, (series, points) in zip(_TRAININGS, cells.groupby("series", sort=False), strict=False):
        for axis in canvas:
            canvas.curve(axis, points, ink, str(series))
            canvas.published(axis, points, ink, column="reported", clip_on=False)
        start = points[points["x"] == 0]
        if len(start):
            dot, name = Ink(ink.colour, "", "o"), "where pre-training ended"
            canvas.curve(whole, start, dot, name, seeds=False, clip_on=False, zorder=5)
    end = cells["x"].max()
    late_values = cells.loc[cells["x"] >= end / 2, "values"].explode().astype(float)
    shown = 100 * pd.concat([late_values, cells["reported"].dropna()])
    margin = max(0.05 * (shown.max() - shown.min()), 0.1)
    canvas.accuracy_over_rounds()
    whole.set(title=f"{cells['dataset'].iloc[0]}: all rounds", xlim=(0, end), ylim=(0, 100))
    late.set(title="second half, enlarged", xlim=(end / 2, end))
    late.set_ylim(shown.min() - margin, shown.max() + margin)
    packed = " x " in cells["dataset"].iloc[0]
    features = ", of 50 x 10 features" if packed else ""
    known = f"published: Table 3{features}, drawn where ours end"
    return canvas.legend(3, known if cells["reported"].notna().any() else "")


# Figures 2 and 4: weight divergence


def divergence_by_skew(runs: RunSet) -> pd.DataFrame:
    """Return figure 2: divergence of each layer for IID, 2-class and 1-class clients.

    A fourth series, our own, is the noise floor, taken from the IID runs. Further columns:
    ``dataset`` and ``layer``, which together are ``x``.
    """
    groups = runs.groups_of("fig2")
    table = divergences(runs, groups)
    iid = runs.labelled(groups, training="iid")
    if runs.members(iid):
        floor = divergences(runs, iid, "sgd_other_shuffle").assign(title=NOISE_FLOOR)
        table = pd.concat([table, floor])
    table["x"] = table["dataset"] + " " + table["layer"]
    table["series"] = table["title"].str.removesuffix(FIRST_ROUND)
    return summarise(table, "value", _KEYS, "dataset", "layer")


def draw_divergence_by_skew(cells: pd.DataFrame) -> MplFigure:
    """Draw a panel a data set, on a logarithmic scale: a bar at the mean, every seed as a dot."""
    datasets = cells.groupby("dataset", sort=False)
    widths = [points["layer"].nunique() for _, points in datasets]
    canvas = Canvas(1, len(widths), height=3.6, sharey=True, gridspec_kw={"width_ratios": widths})
    names = list(cells["series"].unique())
    inks = [Ink(colour, "", "_") for colour in ("blue", "orange", "green", "purple")]
    for axis, (dataset, here) in zip(canvas, datasets, strict=True):
        layers = list(here["layer"].unique())
        for position, (series, ink) in enumerate(zip(names, inks, strict=False)):
            points = here[here["series"] == series]
            shift = _SPREAD * (position - (len(names) - 1) / 2)
            points = points.assign(x=points["layer"].map(layers.index) + shift)
            canvas.curve(axis, points, ink, series, factor=1, seeds=False, **_BAR)
            canvas.dots(axis, points, ink, factor=1)
        axis.set(yscale="log", title=dataset)
        _name(axis, range(len(layers)), layers)
    canvas.axis.set_ylabel(Y_DIVERGENCE)
    return canvas.legend(2, "bar: mean, dots: every seed")


def divergence_by_emd(runs: RunSet, figure: str) -> pd.DataFrame:
    """Return figure 4: divergence of each layer against EMD, over the distributions."""
    table = divergences(runs, runs.groups_of(figure))
    table = table.rename(columns={"layer": "series", "emd": "x"})
    return summarise(table, "value", _KEYS, "dataset")


def draw_divergence_by_emd(cells: pd.DataFrame) -> MplFigure:
    """Draw a curve a layer: mean, its interval, every distribution as a dot."""
    canvas = Canvas(height=3.6)
    _intervals(canvas, cells, factor=1)
    canvas.axis.set(title=cells["dataset"].iloc[0], ylabel=Y_DIVERGENCE)
    canvas.axis.set_ylim(bottom=0)
    _emd_axis(canvas.axis, cells)
    return canvas.legend(5, INTERVALS)


# Figure 5: accuracy against EMD


def accuracy_by_emd(runs: RunSet) -> pd.DataFrame:
    """Return figure 5a: reported test accuracy (fraction) against EMD, a series a data set.

    Further columns: ``table2`` and ``table2_sd``, the published values that the curves show, KWS's
    also where our features are packed.
    """
    table = reported(runs, runs.groups_of("fig5a"))
    cells = summarise(table.rename(columns={"dataset": "series", "emd": "x"}), "accuracy", _KEYS)
    names = cells["series"].map(_printed_as(runs))
    keys = [cell_key(*key) for key in zip(names, cells["x"], strict=True)]
    means, sds = published(runs.paper, "table2"), published(runs.paper, "table2", "sd")
    cells["table2"] = [means.get(key, np.nan) for key in keys]
    cells["table2_sd"] = [sds.get(key, np.nan) for key in keys]
    return cells.assign(scale=runs.scale)


def draw_accuracy_by_emd(cells: pd.DataFrame) -> MplFigure:
    """Draw our means with their intervals and every distribution; published values beside."""
    canvas = Canvas(height=4)
    for ink, (_, points) in zip(_SERIES, cells.groupby("series", sort=False), strict=False):
        printed = points.assign(published=points["table2"]).dropna(subset="published")
        canvas.published(canvas.axis, printed, ink, linestyle=":", marker=ink.marker, alpha=0.6)
        bars = {"ecolor": ink.options["color"], "fmt": "none", "capsize": 2, "alpha": 0.6}
        reach = 100 * _T_OF_FIVE * printed["table2_sd"] / np.sqrt(5)
        canvas.axis.errorbar(printed["x"], 100 * printed["published"], yerr=reach, **bars)
    _intervals(canvas, cells)
    canvas.axis.set_ylabel(ACCURACY)
    _emd_axis(canvas.axis, cells)
    what = f"ours ({cells['scale'].iloc[0]} scale) and published: {INTERVALS}"
    if cells["series"].str.contains(" x ").any():
        what += "\npublished KWS: 50 x 10 features"
    return canvas.legend(4, what)


def variation(runs: RunSet) -> pd.DataFrame:
    """Return figure 5b: what the five distributions of EMD 1.44 do to accuracy and divergence.

    Values are relative to their mean. Series ``accuracy`` by data set, which the text speaks of;
    series ``weight divergence`` by data set and layer, which the caption names. Further columns:
    ``dataset`` and ``layer``, which together are ``x`` (no layer: accuracy), and ``emd``.
    At a scale without that EMD, the nearest is taken.
    """
    groups = runs.groups_of("fig5b")
    accuracy = reported(runs, runs.labelled(groups, batches="large"))
    accuracy = accuracy.rename(columns={"accuracy": "value"})
    divergence = divergences(runs, runs.labelled(groups, reference="sgd"))
    divergence = divergence.assign(series="weight divergence")
    table = pd.concat([accuracy.assign(series="accuracy", layer=""), divergence])
    level = min(table["emd"].unique(), key=lambda emd: abs(emd - _BOXED_EMD))
    table = table[table["emd"] == level].reset_index()
    table["x"] = (table["dataset"] + " " + table["layer"]).str.rstrip()
    table["value"] /= table.groupby(_KEYS)["value"].transform("mean")
    return summarise(table, "value", _KEYS, "dataset", "layer", "emd")


def draw_variation(cells: pd.DataFrame) -> MplFigure:
    """Draw a box over the distributions, each a dot, in per cent of their mean.

    One panel for the accuracies, and one a data set for the divergences of its layers.
    """
    accuracy = cells[cells["series"] == "accuracy"]
    divergence = cells[cells["series"] == "weight divergence"].groupby("dataset", sort=False)
    sizes = [len(accuracy), *divergence.size()]
    canvas = Canvas(1, len(sizes), height=3.4, gridspec_kw={"width_ratios": sizes})
    first, *others = canvas
    _boxes(first, accuracy, list(accuracy["dataset"]))
    first.set_title("accuracy", fontsize=8)
    first.set_ylabel("distance from the mean (%)")
    for axis, (dataset, points) in zip(others, divergence, strict=True):
        if axis is not others[0]:
            axis.sharey(others[0])
            axis.tick_params(labelleft=False)
        _boxes(axis, points, list(points["layer"]))
        axis.set_title(f"divergence,\n{dataset}", fontsize=8)
    what = "dots: the distributions; box: their quartiles, line: their median"
    return canvas.legend(title=f"EMD {cells['emd'].iloc[0]:g}; {what}")


def _boxes(axis: Axes, points: pd.DataFrame, names: list[str]) -> None:
    boxes = [[100 * value - 100 for value in values] for values in points["values"]]
    axis.boxplot(boxes, showfliers=False, medianprops={"color": PALETTE["red"]})
    for place, values in enumerate(boxes, start=1):
        axis.plot([place] * len(values), values, ".", color=PALETTE["blue"], alpha=0.7)
    _name(axis, range(1, len(names) + 1), names)


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
    members = runs.some([BOUND])
    parts = []
    for run in (members[0], members[-1]):
        record = runs.record(run)
        place, kept = plane(np.array(record.final["inner_products"]))
        models = [f"client {k}" for k in range(len(record.partition.counts))] + ["FedAvg", "SGD"]
        rounds = (len(place) - 1) // len(models)
        emd = run.coordinates["emd"]
        part = pd.DataFrame(place, columns=["mean", "up"]).assign(kept=kept, emd=emd, runs=run.id)
        part["model"] = ["start", *models * rounds]
        part.insert(0, "x", [0, *np.repeat(range(1, rounds + 1), len(models))])
        part.insert(0, "series", f"EMD {emd:g}: " + part["model"])
        parts.append(part)
    dataset = titles(runs)[runs.plan.runs[BOUND].labels["dataset"]]
    return pd.concat(parts, ignore_index=True).assign(dataset=dataset)


def plane(products: np.ndarray) -> tuple[np.ndarray, float]:
    """Project vectors to the plane of their first two principal components.

    Args:
        products: inner products of n vectors, float64 [n, n]; the zero vector is put in front.

    Returns:
        Coordinates, float64 [n + 1, 2], the zero vector first and at the origin; and the share of
        the sum of squared distances from the mean that lies in the plane.
    """
    gram = np.pad(products, (1, 0))
    centre = np.eye(len(gram)) - 1 / len(gram)
    values, vectors = np.linalg.eigh(centre @ gram @ centre)
    place = vectors[:, -2:][:, ::-1] * np.sqrt(np.maximum(values[-2:][::-1], 0))
    place = place - place[0]
    place *= np.where(
        place[-1] >= 0, 1, -1
    )  # a sign is arbitrary: the last model lies to the right
    total = float(np.maximum(values, 0).sum())
    return place, float(values[-2:].sum()) / total if total else 1.0


def draw_weights_in_a_plane(cells: pd.DataFrame) -> MplFigure:
    """Draw the path of SGD, of the average, and of every client between synchronisations.

    Each panel says how far apart, at most, two models of one synchronisation are in it.
    """
    canvas = Canvas(1, cells["emd"].nunique(), height=3.8)
    inks = {"SGD": Ink("blue", marker="s"), "FedAvg": Ink("red", marker="o")}
    client = Ink("grey", marker=".")
    for axis, (emd, here) in zip(canvas, cells.groupby("emd", sort=False), strict=True):
        start = here[here["model"] == "start"]
        path = {
            model: pd.concat([start, points])[["mean", "up"]].to_numpy()
            for model, points in here.groupby("model", sort=False)
        }
        for model in (name for name in path if name not in {"start", *inks}):
            for begin, end in zip(path["FedAvg"], path[model][1:], strict=False):
                axis.plot(*np.transpose([begin, end]), linewidth=0.8, zorder=1, **client.options)
        for model, ink in inks.items():
            axis.plot(*path[model].T, markersize=5, **ink.options)
        apart = max(
            float(np.linalg.norm(models.to_numpy()[:, None] - models.to_numpy(), axis=-1).max())
            for _, models in here.groupby("x")[["mean", "up"]]
        )
        axis.set_title(
            f"EMD {emd:g} ({100 * here['kept'].iloc[0]:.0f} % of the variance in the plane);\n"
            f"clients, FedAvg, SGD at most {apart:.2g} apart in it",
            fontsize=8,
        )
        axis.set_xlabel("first component")
        axis.set_aspect("equal", adjustable="datalim")
    canvas.axis.set_ylabel("second component")
    canvas.key("SGD", inks["SGD"])
    canvas.key("FedAvg, after each synchronisation", inks["FedAvg"])
    canvas.key("a client", client)
    what = f"{cells['dataset'].iloc[0]}, full batches, {cells['x'].max()} synchronisations"
    return canvas.legend(title=what)


def sharing_partition(runs: RunSet) -> pd.DataFrame:
    """Return figure 6: what each client holds of each class, of its own and of G.

    Taken from one run of figure 7b: the smaller G, the alpha nearest to one half. Series ``own``
    and ``class <i> of G``, ``x`` the client; ``mean`` counts examples; ``label`` is the class.
    """
    members = runs.some([WARM])
    run = min(members, key=lambda run: abs(float(run.coordinates["alpha"]) - 0.5))
    cut, found = run.spec.partition, runs.record(run).partition
    assert isinstance(cut, DataSharing)
    counts = np.array(found.counts)
    shared = round(cut.alpha * cut.beta * cut.per_class)
    own = np.where(counts == counts.max(axis=1, keepdims=True), counts - shared, 0)
    clients, labels = np.indices(counts.shape).reshape(2, -1)
    table = pd.DataFrame(
        {"x": clients, "label": labels, "own": own.flat, "shared": (counts - own).flat}
    )
    table = table.melt(["x", "label"], var_name="held", value_name="mean")
    table = table[(table["held"] == "shared") | (table["mean"] > 0)]
    names = {"own": "own, class {}", "shared": "class {} of G"}
    keys = zip(table["held"], table["label"], strict=True)
    table["series"] = [names[held].format(label) for held, label in keys]
    return table[["series", "x", "mean", "held", "label"]].assign(
        what=f"{shared_label(cut.beta)}, alpha = {100 * cut.alpha:g} %",
        emd=float(np.mean(found.emd)),
        runs=run.id,
    )


def draw_sharing_partition(cells: pd.DataFrame) -> MplFigure:
    """Draw a bar a client: its own class, and the share of G on top; a colour a class."""
    canvas = Canvas(height=4)
    colours = plt.get_cmap("tab10")
    top = np.zeros(cells["x"].nunique())
    for held, name, hatch in (("own", "own examples", ""), ("shared", "share of G", "///")):
        canvas.patch(name, facecolor="white", edgecolor="black", hatch=hatch)
        part = cells[cells["held"] == held]
        for label in sorted(part["label"].unique()):
            points = part[part["label"] == label].set_index("x")["mean"]
            style = {"color": colours(label % 10), "edgecolor": "white", "linewidth": 0.3}
            canvas.axis.bar(points.index, points, bottom=top[points.index], hatch=hatch, **style)
            top[points.index] += points
    for label in sorted(cells["label"].unique()):
        canvas.patch(f"class {label}", facecolor=colours(label % 10))
    canvas.axis.set(xlabel="client", ylabel="training examples", xticks=range(len(top)))
    canvas.axis.set_title(f"{cells['what'].iloc[0]}: EMD {cells['emd'].iloc[0]:.4g} instead of 1.8")
    canvas.axis.grid(visible=False, axis="x")
    canvas.axis.set_axisbelow(True)
    return canvas.legend(6)


# Figure 7: data sharing


def accuracy_by_beta(runs: RunSet) -> pd.DataFrame:
    """Return figure 7a: reported accuracy (fraction) by beta (per cent), and the clients' EMD."""
    table = reported(runs, [SCRATCH])
    emd = {run.id: np.mean(runs.record(run).partition.emd) for run in runs.members([SCRATCH])}
    table = table.assign(series="accuracy", x=100 * table["beta"], emd=table["run"].map(emd))
    cells = summarise(table, "accuracy", _KEYS)
    return cells.assign(emd=summarise(table, "emd", _KEYS)["mean"])


def draw_accuracy_by_beta(cells: pd.DataFrame) -> MplFigure:
    """Draw accuracy (left axis) and EMD (right axis) against beta, and the published points.

    What the text quotes for no sharing is of another experiment and is left out.
    """
    canvas = Canvas(height=3.6)
    emd = Ink("orange", "--", "s")
    _intervals(canvas, cells)
    canvas.published(canvas.axis, cells[cells["x"] > 0], _SERIES[0], marker="*", markersize=9)
    canvas.axis.set(xlabel=r"size of G, $\beta$ (% of D)", ylabel=ACCURACY)
    right = canvas.axis.twinx()
    right.plot(cells["x"], cells["emd"], **emd.options)
    right.set(ylabel="EMD of the clients", ylim=(0, 1.9))
    right.spines["right"].set_visible(True)
    right.grid(visible=False)
    canvas.key("EMD", emd)
    return canvas.legend()


def accuracy_by_alpha(runs: RunSet) -> pd.DataFrame:
    """Return figure 7b: reported accuracy (fraction) by alpha (per cent), a series a G."""
    table = reported(runs, [WARM])
    table = table.assign(series=table["beta"].map(shared_label), x=100 * table["alpha"])
    return summarise(table, "accuracy", _KEYS)


def draw_accuracy_by_alpha(cells: pd.DataFrame) -> MplFigure:
    """Draw a curve a G, and the published points."""
    canvas = Canvas(height=3.4)
    _intervals(canvas, cells)
    for ink, (_, points) in zip(_SERIES, cells.groupby("series", sort=False), strict=False):
        canvas.published(canvas.axis, points, ink, marker="*", markersize=9)
    canvas.axis.set(xlabel=r"share of G that a client receives, $\alpha$ (%)", ylabel=ACCURACY)
    return canvas.legend()


# Proposition 3.1


def bound_by_synchronisation(runs: RunSet) -> pd.DataFrame:
    """Return the distance of FedAvg from SGD and the bound on it, by synchronisation m.

    A further column, ``rounding``, is the distance below which single-precision arithmetic alone
    may be seen. All in units of the weights.
    """
    table = synchronisations(runs).rename(columns={"m": "x"})
    table["rounding"] = ROUNDING * table["norm"]
    table = table.melt(
        ["emd", "x", "rounding", "seed", "run"], ["distance", "bound"], var_name="side"
    ).sort_values("emd", kind="stable")
    table["series"] = "EMD " + table["emd"].map("{:g}".format) + ", " + table["side"]
    cells = summarise(table, "value", _KEYS, "emd", "side")
    return cells.assign(rounding=summarise(table, "rounding", _KEYS)["mean"])


def draw_bound(cells: pd.DataFrame) -> MplFigure:
    """Draw measured distances as lines and bounds dashed, on a logarithmic scale.

    Shaded: where distances are rounding and may exceed their bound. A bound of zero (EMD 0, first
    synchronisation) has no place on the scale and is left out.
    """
    canvas = Canvas(height=3.6)
    axis = canvas.axis
    lines = {"distance": "-", "bound": "--"}
    for ink, (emd, here) in zip(_TRAININGS, cells.groupby("emd", sort=False), strict=False):
        canvas.key(f"EMD {emd:g}", Ink(ink.colour))
        for side, points in here[here["mean"] > 0].groupby("side"):
            style = Ink(ink.colour, lines[str(side)], ".")
            canvas.curve(axis, points, style, factor=1, seeds=False)
    canvas.key("measured", BLACK)
    canvas.key("bound (eq. 2)", Ink("black", lines["bound"]))
    axis.set(yscale="log", xlabel="synchronisation m", ylabel=Y_DISTANCE)
    floor = axis.get_ylim()[0]
    rounding = cells.groupby("x")["rounding"].min()
    axis.fill_between(rounding.index, floor, rounding, color=PALETTE["grey"], alpha=0.25, lw=0)
    axis.set_ylim(bottom=floor)
    what = f"below {100 * ROUNDING:g} % of the weights' norm: rounding, which may exceed the bound"
    middle = float(cells["x"].median())
    axis.text(middle, 0.7 * rounding.min(), what, ha="center", va="top", fontsize=8)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    return canvas.legend()


# Shared by several figures


def _intervals(canvas: Canvas, cells: pd.DataFrame, *, factor: float = 100) -> None:
    """Draw every series with intervals, and every run as a dot."""
    for ink, (series, points) in zip(_SERIES, cells.groupby("series", sort=False), strict=False):
        label = str(series).replace("_", " ")
        canvas.intervals(canvas.axis, points, ink, label, factor=factor)
        canvas.dots(canvas.axis, points, ink, factor=factor)


def _name(axis: Axes, places: range, names: list[str]) -> None:
    """Put names below a panel whose x is a category."""
    labels = [name.replace("_", " ") for name in names]
    axis.set_xticks(places, labels, rotation=40, ha="right", fontsize=7)
    axis.grid(visible=False, axis="x")


def _emd_axis(axis: Axes, cells: pd.DataFrame) -> None:
    """Put a tick at every EMD; 1.764 is too close to 1.8 for a label beside it."""
    axis.set_xlabel(X_EMD)
    axis.set_xticks(sorted(cells["x"].unique()))
    axis.xaxis.set_major_formatter(
        FuncFormatter(lambda x, _: "\n1.764" if abs(x - 1.764) < 1e-6 else f"{x:g}")
    )


def _panels(
    number: str,
    data: Callable[..., pd.DataFrame],
    draw: Callable[[pd.DataFrame], MplFigure],
    unit: str = "fraction",
) -> dict[str, Figure]:
    """Return the panels a, b, c of a figure, one a data set, as figures of their own."""
    names = [f"fig{number}{letter}" for letter in "abc"]
    return {name: Figure(functools.partial(data, figure=name), draw, unit) for name in names}


FIGURES: dict[str, Figure] = {
    **_panels("1", accuracy_curves, draw_accuracy_curves),
    "fig2": Figure(divergence_by_skew, draw_divergence_by_skew, "ratio"),
    "fig3": Figure(weights_in_a_plane, draw_weights_in_a_plane, "weights"),
    **_panels("4", divergence_by_emd, draw_divergence_by_emd, "ratio"),
    "fig5a": Figure(accuracy_by_emd, draw_accuracy_by_emd),
    "fig5b": Figure(variation, draw_variation, "ratio"),
    "fig6": Figure(sharing_partition, draw_sharing_partition, "count"),
    "fig7a": Figure(accuracy_by_beta, draw_accuracy_by_beta),
    "fig7b": Figure(accuracy_by_alpha, draw_accuracy_by_alpha),
    **_panels("8", accuracy_curves, draw_accuracy_curves),
    "bound_rounds": Figure(bound_by_synchronisation, draw_bound, "weights"),
    "open_choices": choices.figure(by_choice),
}
