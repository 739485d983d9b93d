"""Nguyen et al. 2023: figures 2, 5, 7 to 11, and our own on what the code does and on a stand-in.

The paper prints its curves as images only. Where they are curves of Table I's runs, its best
accuracies stand at the end of ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure as MplFigure
from matplotlib.ticker import MaxNLocator

from fedrepro.fl.algorithms.clustering import true_clusters
from fedrepro.fl.data import describe, load
from fedrepro.fl.data.pill_counts import COUNTS as PILL
from fedrepro.papers.cadis.measurements import (
    CADIS,
    SERVER_MS,
    SINGLESET,
    best,
    by_choice,
    measured,
    results,
    timings,
)
from fedrepro.papers.cadis.meeting import rounds_to_see_all, share_of_pairs_met
from fedrepro.report import choices
from fedrepro.report.expected import called, cell_key, published
from fedrepro.report.figure import Figure, at_the_end
from fedrepro.report.plots import ACCURACY, BLACK, ROUND, Canvas, Ink
from fedrepro.report.stats import moving_average, summarise
from fedrepro.report.style import WIDTH
from fedrepro.runs.runset import RunSet

WINDOW = 10
"""Values of a moving average; the paper's number is lost."""

TRUE_CLUSTERS = "weights inverse to the true cluster sizes"
STANDARD = "CADIS without transitive learning"

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


def _curves(found: pd.DataFrame, metric: str, window: int = 1) -> pd.DataFrame:
    """Return a metric over the rounds, one row a run and value.

    Args:
        found: what :func:`fedrepro.papers.cadis.measurements.results` returns.
        metric: of the records; runs without it are left out.
        window: values of the moving average.

    Returns:
        The columns of ``found`` but for the record, ``x`` (the round) and ``value``.
    """
    rows = []
    for run in found.to_dict("records"):
        record = run.pop("record")
        if metric in record.metrics:
            curve = record.curve(metric)
            values = moving_average(list(curve.values()), window)
            rows += [run | {"x": t, "value": value} for t, value in zip(curve, values, strict=True)]
    return pd.DataFrame(rows)


def _panels(found: pd.DataFrame, metrics: Mapping[str, tuple[str, int]]) -> pd.DataFrame:
    """Return the curves of several panels, which have a column and are part of the series.

    Args:
        found: the runs, with a column ``series``.
        metrics: panel -> metric, and values of its moving average.
    """
    parts = [
        _curves(run, metric, window).assign(panel=panel)
        for _, run in found.groupby("run", sort=False)
        for panel, (metric, window) in metrics.items()
    ]
    curves = pd.concat(parts, ignore_index=True)
    return curves.assign(series=curves["series"] + ", " + curves["panel"])


def _summary(curves: pd.DataFrame, *more: str) -> pd.DataFrame:
    return summarise(curves, "value", ["series", "x"], *more)


def _beside_table1(
    runs: RunSet, cells: pd.DataFrame, found: pd.DataFrame, ending: str = ""
) -> pd.DataFrame:
    """Return the cells with ``reported``, Table I's best accuracy, in the last row of a curve.

    Args:
        runs: the paper's runs at a scale.
        cells: with ``series`` and ``x``.
        found: the runs; a column ``series`` says to which curve they belong.
        ending: that the series of the cells have more, those of accuracy curves.
    """
    printed = published(runs.paper, "table1")
    reported = {
        run["series"] + ending: printed.get(
            cell_key(f"{run['dataset']} {run['clients']}", run["method"])
        )
        for run in found.to_dict("records")
    }
    return at_the_end(cells, pd.to_numeric(cells["series"].map(reported)))


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


def case_study(runs: RunSet) -> pd.DataFrame:
    """Return figure 2: test accuracy (fraction) over the rounds; also ``reported`` (Table I's)."""
    found = results(runs, runs.groups_of("fig2"))
    found = found.assign(series=found["method"])
    return _beside_table1(runs, _summary(_curves(found, "accuracy")), found)


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


SHOWN_CLASS = 8


def _holder(counts: np.ndarray) -> dict[str, int]:
    """Return panel -> its client: the first that holds the class."""
    return {f"class {SHOWN_CLASS} only": int((counts[:, SHOWN_CLASS] > 0).argmax())}


def _pair(counts: np.ndarray) -> dict[str, int]:
    """Return panel -> its client: the first, who holds two classes."""
    return {f"classes {' and '.join(map(str, np.flatnonzero(counts[0])))}": 0}


def _twins(counts: np.ndarray) -> dict[str, int]:
    """Return panel -> its client: two of one cluster, and one of another."""
    same = true_clusters(counts)
    return {
        "client A, first cluster": 0,
        "client B, first cluster": int(same[0, 1:].argmax()) + 1,
        "client C, another cluster": int((~same[0]).argmax()),
    }


def row_changes(runs: RunSet) -> pd.DataFrame:
    """Return figure 5: how the rows of the final layer changed, for five clients of first seeds.

    ``series`` is a panel, ``x`` a class, ``mean`` the row's mean change; further columns: ``low``
    and ``high``, the row's lowest and highest change, and ``held``, whether the client holds it.
    """
    groups = runs.groups_of("fig5")
    found = results(runs, groups).drop_duplicates("group", ignore_index=True)
    records = dict(zip(found["group"], found["record"], strict=True))
    shown = {
        panel: (records[group], client)
        for group, clients in zip(groups, (_holder, _pair, _twins), strict=True)
        if group in records
        for panel, client in clients(np.array(records[group].partition.counts)).items()
    }
    return pd.DataFrame(
        [
            {"series": panel, "x": label, "mean": mean, "low": low, "high": high}
            | {"held": record.partition.counts[client][label] > 0, "run": record.run_id}
            for panel, (record, client) in shown.items()
            for label, (low, mean, high) in enumerate(record.final["rows"][client])
        ]
    )


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


PUBLISHED = "PILL (published)"


def class_distribution(runs: RunSet) -> pd.DataFrame:
    """Return figure 7: the examples of each class and client, by partition; PILL's as published.

    ``series`` is ``<partition>, class <c>``, ``x`` a client, ``mean`` the number of examples;
    further columns: ``panel`` and ``label``.
    """
    groups = [group for group in runs.groups_of("fig7") if runs.members([group])]
    firsts = [results(runs, [group]).iloc[0] for group in groups]
    shown = [
        (f"{run['dataset']} {run['kind']}", run["record"].partition.counts, run["run"])
        for run in firsts
    ]
    return pd.DataFrame(
        [
            {"series": f"{panel}, class {label}", "x": client, "mean": count, "run": run}
            | {"panel": panel, "label": label}
            for panel, clients, run in [*shown, (PUBLISHED, PILL, "")]
            for client, counts in enumerate(clients)
            for label, count in enumerate(counts)
        ]
    )


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
    "accuracy": ("accuracy", 1, ACCURACY, ""),
    "moving average": ("accuracy", WINDOW, ACCURACY, "evaluations"),
    "local": ("local_accuracy", WINDOW, "accuracy on participants' data (%)", "rounds"),
    "spread": ("local_accuracy_sd", WINDOW, "its sd over participants (points)", "rounds"),
}
"""Of each column: metric, values of the moving average, what is shown, what is averaged over."""


def robustness(runs: RunSet) -> pd.DataFrame:
    """Return figure 8: accuracies (fractions) by data set.

    Further columns: ``dataset``, ``method``, ``panel`` and ``reported`` (Table I's).
    """
    found = results(runs, runs.groups_of("fig8"))
    named = found.assign(series=found["dataset"] + ", " + found["method"])
    metrics = {panel: (metric, window) for panel, (metric, window, *_) in _EIGHT.items()}
    cells = _summary(_panels(named, metrics), "dataset", "method", "panel")
    return _beside_table1(runs, cells, named, ", accuracy")


def draw_robustness(cells: pd.DataFrame) -> MplFigure:
    """Draw a row a data set, a column a panel; its title says what a value is a mean of."""
    datasets = sorted(cells["dataset"].unique())
    canvas = Canvas(len(datasets), len(_EIGHT))
    canvas.figure.set_size_inches(1.35 * WIDTH, 1 + 2.3 * len(datasets))
    for dataset, line in zip(datasets, canvas.axes, strict=True):
        for (panel, (_, window, title, over)), axis in zip(_EIGHT.items(), line, strict=True):
            shown = cells[(cells["dataset"] == dataset) & (cells["panel"] == panel)]
            _methods(canvas, axis, shown)
            if over:
                whole = shown["x"].nunique() <= window
                title += f",\nmean of {f'all {over} so far' if whole else f'{window} {over}'}"
            axis.set_title(title, fontsize=8)
            axis.tick_params(labelsize=7)
        canvas.over_rounds(dataset, line)
        _same_rounds(line, cells[cells["dataset"] == dataset])
    return canvas.legend(6, _about_published(*datasets))


_ERROR, _KNOWN = "error", "known"
_MET, _SEEN = "expected to have met", "all clients seen"
_NINE = {
    "transitive, eps = 0.02": Ink("red"),
    "transitive, eps = 0.1": Ink("green"),
    "transitive, eps = 0.3": Ink("purple"),
    "standard": Ink("blue", "--"),
}


def transitive(runs: RunSet) -> pd.DataFrame:
    """Return figure 9: error of the similarities, and share of pairs known, over the rounds.

    A further column ``panel``. The series ``expected to have met`` is computed (Theorem III.4's
    setting), and ``all clients seen`` marks the round by which that is expected: of no run (n = 0).
    """
    found = results(runs, runs.groups_of("fig9"))
    eps = found.reindex(columns=["eps"])["eps"].fillna(0.02).map("transitive, eps = {:g}".format)
    named = found.assign(series=eps.mask(found["method"] == STANDARD, "standard"))
    curves = _panels(named, {_ERROR: ("similarity_error", 1), _KNOWN: ("pairs_known", 1)})
    record = found["record"].iloc[-1]
    clients = len(record.partition.counts)
    drawn = min(record.spec["algorithm"]["participants"], clients)
    rounds = range(record.spec["rounds"] + 1)
    met = [(_MET, t, share_of_pairs_met(clients, drawn, t)) for t in rounds]
    seen = (_SEEN, rounds_to_see_all(clients, drawn), 1.0)
    computed = pd.DataFrame([*met, seen], columns=["series", "x", "mean"]).assign(panel=_KNOWN, n=0)
    return pd.concat([_summary(curves, "panel"), computed], ignore_index=True)


def draw_transitive(cells: pd.DataFrame) -> MplFigure:
    """Draw the error on the left, what is known on the right."""
    canvas = Canvas(1, 2, height=3.2)
    error, known = canvas
    for series, ink in _NINE.items():
        for axis, panel, factor in ((error, _ERROR, 1), (known, _KNOWN, 100)):
            points = cells[cells["series"] == f"{series}, {panel}"]
            if len(points):
                canvas.curve(axis, points, ink, series, factor=factor)
    met = cells[cells["series"] == _MET]
    dotted, grey = Ink("black", ":"), Ink("grey")
    known.plot(met["x"], 100 * met["mean"], linewidth=0.9, **dotted.options)
    canvas.key(f"{_MET} (computed)", dotted)
    seen = float(cells.loc[cells["series"] == _SEEN, "x"].iloc[0])
    if seen <= met["x"].max():
        known.axvline(seen, color=grey.options["color"], linewidth=0.8)
        canvas.key(f"{_SEEN} (expected)", grey)
    canvas.over_rounds("")
    error.set(title="mean squared error of the similarities")
    known.set(title="share of pairs known (%)")
    for axis in canvas:
        axis.set_ylim(bottom=0)
    _same_rounds(canvas, cells[cells["series"] != _SEEN])
    return canvas.legend(4)


def sensitivity(runs: RunSet) -> pd.DataFrame:
    """Return figure 10: best accuracy (fraction) by threshold, one series a weight.

    A further column ``dataset``: the scales differ in it.
    """
    found = results(runs, runs.groups_of("fig10"))
    shown = found.assign(
        series=found["distillation"].map("lambda = {:g}".format),
        x=found["threshold"],
        value=found["record"].map(best),
    )
    name = found["record"][0].spec["dataset"]["name"]
    return _summary(shown).assign(dataset=called(runs.paper, name))


def draw_sensitivity(cells: pd.DataFrame) -> MplFigure:
    """Draw a line a weight of the distillation."""
    canvas = Canvas(height=3.4)
    colours = ("blue", "orange", "red")
    for (series, points), colour in zip(cells.groupby("series", sort=False), colours, strict=False):
        label = str(series).replace("lambda", r"$\lambda$")
        canvas.curve(canvas.axis, points, Ink(colour, marker="o"), label, seeds=False)
    canvas.axis.set(xlabel=r"similarity threshold $\tau$", ylabel=f"best {ACCURACY}")
    canvas.axis.set_title(f"{cells['dataset'].iloc[0]}, n = {cells['n'].max()}")
    canvas.axis.set_xticks(sorted(cells["x"].unique()))
    return canvas.legend()


def as_run(runs: RunSet) -> pd.DataFrame:
    """Return our own figure: what the baselines do as written and as run.

    Further columns: ``method``, ``panel`` and ``reported`` (Table I's).
    """
    found = results(runs, runs.groups_of("as_run"))
    named = found.assign(series=found["method"])
    metrics = {"accuracy": ("accuracy", 1), "norm": ("norm", 1)}
    cells = _summary(_panels(named, metrics), "method", "panel")
    return _beside_table1(runs, cells, named, ", accuracy")


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


def stand_in(runs: RunSet) -> pd.DataFrame:
    """Return our own figure on synthetic pills: test accuracy (fraction) over the rounds."""
    groups = runs.groups_of("synthetic_pills")
    if not runs.planned(groups):
        return pd.DataFrame(columns=["series", "x", "mean", "values", "runs"])
    found = results(runs, groups)
    return _summary(_curves(found.assign(series=found["method"]), "accuracy"))


def draw_stand_in(cells: pd.DataFrame) -> MplFigure:
    """Draw a contact sheet of the made-up images on the left, the curves on the right."""
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
    left.set_title("made-up images")
    for method, points in cells.groupby("series", sort=False):
        canvas.curve(right, points, _INKS[str(method)], str(method))
    if cells.empty:
        right.text(0.5, 0.5, "no runs at this scale", ha="center", transform=right.transAxes)
    canvas.over_rounds("", [right])
    right.set(ylabel="accuracy on made-up test images (%)", ylim=(0, 100))
    right.set_xlabel(f"{ROUND} ({SINGLESET}: of central training)")
    right.set_title("not PILL, not comparable with it", fontsize=8)
    return canvas.legend(4)


def overhead(runs: RunSet) -> pd.DataFrame:
    """Return figure 11: ``x`` is a method, ``mean`` a median; further columns: network, panel.

    Panels: the server's milliseconds a round; CADIS's local training as a multiple of FedAvg's.
    """
    found = timings().rename(columns={"method": "x", "what": "panel"})
    found.insert(0, "series", found["network"] + ", " + found["panel"])
    keys, further = ["series", "x"], ["network", "panel"]
    return found[[*keys, *found.columns.drop([*keys, *further]), *further]]


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
    return canvas.legend(title=f"nothing published is drawn: {where}")


FIGURES: dict[str, Figure] = {
    "fig2": Figure(case_study, draw_case_study),
    "fig5": Figure(row_changes, draw_row_changes, "weights"),
    "fig7": Figure(class_distribution, draw_class_distribution, "count"),
    "fig8": Figure(robustness, draw_robustness, {", spread": "points", "": "fraction"}),
    "fig9": Figure(transitive, draw_transitive, {f", {_ERROR}": "number", "": "fraction"}),
    "fig10": Figure(sensitivity, draw_sensitivity),
    "fig11": Figure(overhead, draw_overhead, {SERVER_MS: "ms", "": "ratio"}),
    "synthetic_pills": Figure(stand_in, draw_stand_in),
    "as_run": Figure(as_run, draw_as_run, {", norm": "weights", "": "fraction"}),
    "open_choices": choices.figure(by_choice),
}
