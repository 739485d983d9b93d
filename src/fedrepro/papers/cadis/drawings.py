"""Draws the figures of Nguyen et al. 2023, and our own."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure as MplFigure
from matplotlib.ticker import MaxNLocator

from fedrepro.fl.data import describe, load
from fedrepro.papers.cadis.figures import ERROR, KNOWN, MET, ROBUSTNESS, SEEN
from fedrepro.papers.cadis.measurements import CADIS, SERVER_MS, SINGLESET, measured
from fedrepro.report.drawings import Drawing, draw_choices
from fedrepro.report.plots import ACCURACY, BLACK, EVERY_SEED, ROUND, Canvas, Ink
from fedrepro.report.style import WIDTH

TRUE_CLUSTERS = "weights inverse to the true cluster sizes"

_INKS = {
    SINGLESET: Ink("black", "--"),
    f"{SINGLESET}, clients' SGD": Ink("black", "-."),
    "FedAvg": Ink("blue"),
    "FedProx": Ink("sky", "--"),
    "FedFA": Ink("purple"),
    "FedDyn": Ink("green"),
    CADIS: Ink("red"),
    TRUE_CLUSTERS: Ink("red"),
    "FedFA, as run": Ink("purple", ":"),
    "FedDyn, as run": Ink("green", ":"),
}
"""Every method in all figures."""


ROUNDS = {"MNIST": 500, "CIFAR-10": 1000}
"""Communication rounds of the published runs, by data set."""


def _about_published(*datasets: str) -> str:
    """Return what the legend says of the published accuracies."""
    rounds = ", ".join(f"{dataset}: {ROUNDS[dataset]}" for dataset in datasets)
    return f"published: Table I's best accuracy of all rounds ({rounds}), drawn where ours end"


_MANY = 150
"""Points of a curve from which on its line is thin: it swings from point to point."""


def _methods(canvas: Canvas, axis: Axes, cells: pd.DataFrame, factor: float = 100) -> None:
    """Draw a curve a method, and what Table I prints of it at its end."""
    for method, points in cells.groupby("method", sort=False):
        ink = _INKS[str(method)]
        width = 0.7 if len(points) > _MANY else 1.5
        canvas.curve(axis, points, ink, factor=factor, linewidth=width)
        canvas.key(str(method), ink)
        canvas.published(axis, points, ink, column="reported", factor=factor)


def _same_rounds(axes: Iterable[Axes], cells: pd.DataFrame) -> None:
    """Let panels begin at round 0 and end a little after the last round of any."""
    for axis in axes:
        axis.set_xlim(0, 1.03 * float(cells["x"].max()))


def draw_case_study(cells: pd.DataFrame) -> MplFigure:
    """Draw both curves; a dotted line across is ours of what Table I prints of one of them."""
    canvas = Canvas(height=3.6)
    for series, points in cells.groupby("series", sort=False):
        ink = _INKS[str(series)]
        canvas.curve(canvas.axis, points, ink, str(series))
        highest = float(np.array(list(points["values"])).max(axis=0).mean())
        dotted = Ink(ink.colour, ":")
        canvas.level(canvas.axis, highest, f"ours, best of all rounds: {series}", dotted)
        canvas.published(canvas.axis, points, ink, column="reported")
    canvas.accuracy_over_rounds()
    canvas.axis.set_ylim(0, 100)
    _same_rounds(canvas, cells)
    return canvas.legend(2, _about_published("MNIST"))


def draw_row_changes(cells: pd.DataFrame) -> MplFigure:
    """Draw a panel a client: for each row a bar from its lowest to its highest change."""
    canvas = Canvas(1, cells["series"].nunique(), height=3.0, sharex=True, sharey=True)
    bars = {True: ("class of the client", Ink("red")), False: ("other class", Ink("blue"))}
    for axis, (panel, points) in zip(canvas, cells.groupby("series", sort=False), strict=True):
        for held, (whose, ink) in bars.items():
            rows = points[points["held"] == held]
            axis.vlines(
                rows["x"], rows["low"], rows["high"], color=ink.options["color"], linewidth=3
            )
            axis.plot(rows["x"], rows["mean"], "o", color="white", markersize=2)
            canvas.key(f"lowest to highest, {whose}", ink, linewidth=3)
        axis.axhline(0, color="black", linewidth=0.6)
        axis.set_title(str(panel).replace(", ", "\n"), fontsize=8)
        axis.set_xticks(range(0, 10, 2))
        axis.tick_params(labelsize=7)
    canvas.axes[0, canvas.axes.shape[1] // 2].set_xlabel("row of the final layer (class)")
    canvas.axis.set_ylabel("change of the row's weights\nin local training")
    canvas.key("mean of the row", Ink("grey", "", "o"), markerfacecolor="white")
    return canvas.legend()


def draw_class_distribution(cells: pd.DataFrame) -> MplFigure:
    """Draw a class x client map a partition; all have one logarithmic scale of examples."""
    rows = cells["panel"].nunique()
    canvas = Canvas(rows, height=0.6 + 1.25 * rows)
    most = float(cells["mean"].max())
    scale = LogNorm(1, most)
    for axis, (panel, points) in zip(canvas, cells.groupby("panel", sort=False), strict=True):
        counts = points.pivot(index="label", columns="x", values="mean")
        shown = np.ma.masked_equal(counts.to_numpy(), 0)
        image = axis.imshow(
            shown, aspect="auto", cmap="viridis_r", interpolation="nearest", norm=scale
        )
        axis.set_ylabel(f"{panel}\nclass", fontsize=7)
        axis.set_yticks(range(0, len(counts), 3))
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.tick_params(labelsize=7)
        axis.grid(visible=False)
    ticks = [tick for tick in (1, 3, 10, 30, 100, 300, 1000, 3000) if tick <= most]
    bar = canvas.figure.colorbar(image, ax=canvas.axes, aspect=60, pad=0.01, ticks=ticks)
    bar.ax.set_yticklabels(map(str, ticks))
    bar.ax.minorticks_off()
    bar.set_label("examples of a class that a client has (white: none), logarithmic")
    canvas.axes[-1, 0].set_xlabel("client")
    return canvas.legend()


_EIGHT = {
    "accuracy": (ACCURACY, ""),
    "moving average": (ACCURACY, "evaluations"),
    "local": ("accuracy on participants' data (%)", "rounds"),
    "spread": ("its sd over participants (points)", "rounds"),
}
"""Panels of figure 8 -> what is shown, and what is averaged over."""


def draw_robustness(cells: pd.DataFrame) -> MplFigure:
    """Draw a row a data set, a column a panel; its title says what a value is a mean of."""
    datasets = sorted(cells["dataset"].unique())
    canvas = Canvas(len(datasets), len(_EIGHT))
    canvas.figure.set_size_inches(1.35 * WIDTH, 1 + 2.3 * len(datasets))
    for dataset, line in zip(datasets, canvas.axes, strict=True):
        for (panel, (title, over)), axis in zip(_EIGHT.items(), line, strict=True):
            shown = cells[(cells["dataset"] == dataset) & (cells["panel"] == panel)]
            _methods(canvas, axis, shown)
            if over:
                _, window = ROBUSTNESS[panel]
                whole = shown["x"].nunique() <= window
                title += f",\nmean of {f'all {over} so far' if whole else f'{window} {over}'}"
            axis.set_title(title, fontsize=8)
            axis.tick_params(labelsize=7)
        canvas.over_rounds(dataset, line)
        _same_rounds(line, cells[cells["dataset"] == dataset])
    return canvas.legend(6, _about_published(*datasets))


_NINE = {
    "transitive, eps = 0.02": Ink("red"),
    "transitive, eps = 0.1": Ink("green"),
    "transitive, eps = 0.3": Ink("purple"),
    "standard": Ink("blue", "--"),
}


def draw_transitive(cells: pd.DataFrame) -> MplFigure:
    """Draw the error on the left, what is known on the right."""
    canvas = Canvas(1, 2, height=3.2)
    error, known = canvas
    for series, ink in _NINE.items():
        for axis, panel, factor in ((error, ERROR, 1), (known, KNOWN, 100)):
            points = cells[cells["series"] == f"{series}, {panel}"]
            if len(points):
                canvas.curve(axis, points, ink, series, factor=factor)
    met = cells[cells["series"] == MET]
    dotted, grey = Ink("black", ":"), Ink("grey", "-.")
    known.plot(met["x"], 100 * met["mean"], linewidth=0.9, **dotted.options)
    canvas.key(f"{MET} (computed)", dotted)
    seen = float(cells.loc[cells["series"] == SEEN, "x"].iloc[0])
    if seen <= met["x"].max():
        known.axvline(seen, linewidth=0.8, **grey.options)
        canvas.key(f"{SEEN} (expected)", grey)
    canvas.over_rounds("")
    error.set(title="mean squared error of the similarities")
    known.set(title="share of pairs known (%)")
    for axis in canvas:
        axis.set_ylim(bottom=0)
    _same_rounds(canvas, cells[cells["series"] != SEEN])
    return canvas.legend(4)


def draw_sensitivity(cells: pd.DataFrame) -> MplFigure:
    """Draw a line a weight of the distillation, and every seed as a dot."""
    canvas = Canvas(height=3.4)
    colours = ("blue", "orange", "red")
    for (series, points), colour in zip(cells.groupby("series", sort=False), colours, strict=False):
        ink, label = Ink(colour, marker="o"), str(series).replace("lambda", r"$\lambda$")
        canvas.curve(canvas.axis, points, ink, label, seeds=False)
        canvas.dots(canvas.axis, points, ink)
    canvas.key(EVERY_SEED, Ink("black", "", "."))
    canvas.axis.set(xlabel=r"similarity threshold $\tau$", ylabel=f"best {ACCURACY}")
    canvas.axis.set_title(cells["dataset"].iloc[0])
    canvas.axis.set_xticks(sorted(cells["x"].unique()))
    return canvas.legend()


def draw_as_run(cells: pd.DataFrame) -> MplFigure:
    """Draw the accuracies, and the norm of FedDyn's model."""
    canvas = Canvas(1, 2, height=3.8)
    left, right = canvas
    _methods(canvas, left, cells[cells["panel"] == "accuracy"])
    _methods(canvas, right, cells[cells["panel"] == "norm"], factor=1)
    canvas.accuracy_over_rounds()
    left.set_ylim(0, 100)
    right.set(ylabel="norm of the global model (FedDyn)")
    right.set_ylim(bottom=0)
    _same_rounds(canvas, cells)
    return canvas.legend(4, _about_published("MNIST"))


_LOOKS = 8
"""Made-up images of each class that the figure shows."""


def draw_stand_in(cells: pd.DataFrame) -> MplFigure:
    """Draw a contact sheet of the synthetic images on the left, the curves on the right."""
    canvas = Canvas(1, 2, height=4.2, width_ratios=(1, 2))
    left, right = canvas
    made, names = load("synthetic_pills"), describe("synthetic_pills").class_names
    sheet = [
        np.concatenate(list(made.test_x[made.test_y == label][:_LOOKS]), axis=2)
        for label in range(len(names))
    ]
    side = made.test_x.shape[-1]
    left.imshow(np.concatenate(sheet, axis=1).transpose(1, 2, 0), interpolation="nearest")
    left.set_xticks([])
    left.set_yticks(side * (np.arange(len(names)) + 0.5), names, fontsize=7)
    left.grid(visible=False)
    left.set_title("synthetic images")
    for method, points in cells.groupby("series", sort=False):
        canvas.curve(right, points, _INKS[str(method)], str(method))
    canvas.over_rounds("", [right])
    right.set(ylabel="accuracy on synthetic test images (%)", ylim=(0, 100))
    right.set_xlabel(f"{ROUND} ({SINGLESET}: of central training)")
    right.set_title("not PILL, not comparable with it", fontsize=8)
    return canvas.legend(4)


def draw_overhead(cells: pd.DataFrame) -> MplFigure:
    """Draw every round of the server on the left, every pair of local trainings on the right."""
    about = measured()
    canvas = Canvas(1, 2, height=4.0, width_ratios=(1.8, 1))
    left, right = canvas
    networks, methods = list(cells["network"].unique()), list(cells["x"].unique())
    inks = [Ink("blue", "", "o"), Ink("orange", "", "s")]
    for cell in cells.to_dict("records"):
        values, number = cell["values"], networks.index(cell["network"])
        dots = inks[number].options | {"markersize": 3.5, "alpha": 0.7}
        if cell["panel"] == SERVER_MS:
            height = methods.index(cell["x"]) + 0.3 * (number - 0.5)
            left.plot(values, [height] * len(values), **dots)
            left.plot([cell["mean"]] * 2, [height - 0.13, height + 0.13], color="black", zorder=3)
        else:
            right.plot([number] * len(values), values, **dots)
            right.plot([number - 0.2, number + 0.2], [cell["mean"]] * 2, color="black", zorder=3)
        canvas.key(f"{cell['network']}: one measurement", inks[number])
    left.set_yticks(range(len(methods)), [method.replace(", ", ",\n") for method in methods])
    left.invert_yaxis()
    left.set(xlabel="CPU time (ms), logarithmic", xscale="log")
    left.xaxis.set_major_formatter("{x:g}")
    left.set_title("server: one round, once the clients'\nmodels are there", fontsize=9)
    right.axhline(1, color=Ink("grey").options["color"], linewidth=0.8)
    right.set_xticks(range(len(networks)), [name.replace(", ", ",\n") for name in networks])
    right.set(xlim=(-0.5, len(networks) - 0.5), ylim=(0, None))
    right.set_ylabel("CPU time, CADIS's / FedAvg's")
    right.set_title("client: local training,\nCADIS over FedAvg", fontsize=9)
    canvas.key("median", BLACK)
    where = f"ours, on {about['machine']}, {about['date']}; {about['note']}"
    return canvas.legend(title=textwrap.fill(f"nothing published is drawn: {where}", 110))


DRAWINGS: dict[str, Drawing] = {
    "fig2": draw_case_study,
    "fig5": draw_row_changes,
    "fig7": draw_class_distribution,
    "fig8": draw_robustness,
    "fig9": draw_transitive,
    "fig10": draw_sensitivity,
    "fig11": draw_overhead,
    "synthetic_pills": draw_stand_in,
    "as_run": draw_as_run,
    "open_choices": draw_choices,
}
