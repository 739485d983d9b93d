"""Nguyen et al. 2023: figures 2, 5, 7 to 11, and our own on what the code does and on a stand-in.

The paper prints its curves as images only, so nothing published is drawn beside ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure as MplFigure
from matplotlib.ticker import MaxNLocator

from fedrepro.fl.algorithms.clustering import true_clusters
from fedrepro.fl.data import describe, load
from fedrepro.fl.data.pill_counts import COUNTS as PILL
from fedrepro.papers.cadis.measurements import (
    AS_RUN,
    DATASETS,
    METHODS,
    SERVER_MS,
    SINGLESET,
    measured,
    moving_average,
    place,
    recorded,
    spread,
    stand_in_method,
    stand_in_runs,
    timings,
)
from fedrepro.papers.cadis.meeting import rounds_to_see_all, share_of_pairs_met
from fedrepro.report.figure import Figure
from fedrepro.report.plots import ACCURACY, Canvas, Ink
from fedrepro.report.stats import summarise
from fedrepro.report.style import PALETTE, WIDTH
from fedrepro.runs.plan import PlannedRun
from fedrepro.runs.runset import RunSet

WINDOW = 10
"""Evaluations (of accuracies on the test images) or rounds of a moving average."""
SWINGS = 40
"""Rounds of the norm that are shown."""

INKS = {
    "FedAvg": Ink("blue"),
    "FedProx": Ink("sky", "--"),
    "FedFA": Ink("orange"),
    "FedDyn": Ink("green"),
    "CADIS": Ink("red"),
    SINGLESET: Ink("grey", "--"),
    "FedFA" + AS_RUN: Ink("orange", ":"),
    "FedDyn" + AS_RUN: Ink("green", ":"),
}
"""A method's look in every figure; FedProx is dashed because it may lie on FedAvg."""


def _curve(
    runs: RunSet, run: PlannedRun, series: str, metric: str, window: int = 1
) -> list[dict[str, object]]:
    """Return a run's metric by round, one row a value, as a moving average of ``window`` values."""
    metrics = runs.record(run).metrics
    values = moving_average(metrics[metric], window)
    evaluated = metrics["evaluated_rounds"]
    rounds = evaluated if len(values) == len(evaluated) else range(1, len(values) + 1)
    return [
        {"series": series, "x": int(t), "value": value, "seed": run.seed, "run": run.id}
        for t, value in zip(rounds, values, strict=True)
    ]


def _summary(rows: Iterable[Mapping[str, object]], *more: str) -> pd.DataFrame:
    return summarise(pd.DataFrame(list(rows)), "value", ["series", "x", *more])


TRUE_CLUSTERS = "weights inverse to the true cluster sizes"


def case_study(runs: RunSet) -> pd.DataFrame:
    """Return figure 2: test accuracy (fraction) over the rounds."""
    groups = {"mnist_mc_fedavg": "FedAvg", "mnist_mc_oracle": TRUE_CLUSTERS}
    return _summary(
        row
        for group, series in groups.items()
        for run in recorded(runs, [group])
        for row in _curve(runs, run, series, "accuracy")
    )


def draw_case_study(cells: pd.DataFrame) -> MplFigure:
    """Draw both curves, with a dotted line at the mean of the seeds' best accuracies."""
    canvas = Canvas(height=3.4)
    for series, ink in {"FedAvg": INKS["FedAvg"], TRUE_CLUSTERS: INKS["CADIS"]}.items():
        points = cells[cells["series"] == series]
        canvas.curve(canvas.axis, points, ink, series)
        best = np.array(list(points["values"])).max(axis=0).mean()
        canvas.level(canvas.axis, best, "", Ink(ink.colour, ":"))
    canvas.key("our best accuracy, as in Table I", Ink("black", ":"))
    canvas.accuracy_over_rounds()
    canvas.axis.set_ylim(0, 100)
    canvas.legend()
    return canvas.figure


SHOWN_CLASS = 8


def row_changes(runs: RunSet) -> pd.DataFrame:
    """Return figure 5: how the rows of the final layer changed, for five clients of first seeds.

    ``series`` is a panel, ``x`` a class, ``mean`` the row's mean change; further columns: ``low``
    and ``high``, the row's lowest and highest change, and ``held``, whether the client holds it.
    """
    rows: list[dict[str, object]] = []

    def add(run: PlannedRun, client: int, panel: str) -> None:
        record = runs.record(run)
        counts = record.partition.counts[client]
        for label, (low, mean, high) in enumerate(record.final["rows"][client]):
            rows.append(
                {"series": panel, "x": label, "mean": mean, "low": low, "high": high}
                | {"held": counts[label] > 0, "run": run.id}
            )

    one = recorded(runs, ["probe_one_class"])[0]
    counts = np.array(runs.record(one).partition.counts)
    add(one, int((counts[:, SHOWN_CLASS] > 0).argmax()), f"class {SHOWN_CLASS} only")
    two = recorded(runs, ["probe_two_classes"])[0]
    held = np.flatnonzero(runs.record(two).partition.counts[0])
    add(two, 0, f"classes {' and '.join(str(label) for label in held)}")
    many = recorded(runs, ["probe_clusters"])[0]
    same = true_clusters(np.array(runs.record(many).partition.counts))
    first, twin, other = 0, int(same[0, 1:].argmax()) + 1, int((~same[0]).argmax())
    for number, client in enumerate((first, twin, other)):
        cluster = "first cluster" if client != other else "another cluster"
        add(many, client, f"client {'ABC'[number]}, {cluster}")
    return pd.DataFrame(rows)


def draw_row_changes(cells: pd.DataFrame) -> MplFigure:
    """Draw a panel a client: for each row a bar from its lowest to its highest change."""
    panels = list(dict.fromkeys(cells["series"]))
    canvas = Canvas(1, len(panels), height=3.0, sharex=True, sharey=True)
    for axis, panel in zip(canvas, panels, strict=True):
        points = cells[cells["series"] == panel]
        for held, colour, whose in (
            (True, "red", "class of the client"),
            (False, "blue", "other class"),
        ):
            rows, bar = points[points["held"] == held], Ink(colour)
            axis.vlines(rows["x"], rows["low"], rows["high"], color=PALETTE[colour], linewidth=3)
            axis.plot(rows["x"], rows["mean"], "o", color="white", markersize=2)
            canvas.key(f"lowest to highest, {whose}", bar, linewidth=3)
        axis.axhline(0, color="black", linewidth=0.6)
        axis.set_title(panel.replace(", ", "\n"), fontsize=8)
        axis.set_xticks(range(0, 10, 2))
        axis.tick_params(labelsize=6)
    canvas.axes[0, len(panels) // 2].set_xlabel("row of the final layer (class)")
    canvas.axis.set_ylabel("change of the row's weights\nin local training")
    canvas.key("mean of the row", Ink("grey", "", "o"), markerfacecolor="white")
    canvas.legend()
    return canvas.figure


def class_distribution(runs: RunSet) -> pd.DataFrame:
    """Return figure 7: the examples of each class and client, by partition; PILL's as published.

    ``series`` is ``<partition>, class <c>``, ``x`` a client, ``mean`` the number of examples;
    further columns: ``panel`` and ``label``.
    """
    rows = []
    for group in runs.plan.figures["fig7"].runs:
        if not runs.members([group]):
            continue
        run = recorded(runs, [group])[0]
        where = place(run)
        assert where is not None
        panel = f"{where.dataset} {where.kind}"
        for client, counts in enumerate(runs.record(run).partition.counts):
            rows += [
                {"series": f"{panel}, class {label}", "x": client, "mean": count, "run": run.id}
                | {"panel": panel, "label": label}
                for label, count in enumerate(counts)
            ]
    rows += [
        {"series": f"{PUBLISHED}, class {label}", "x": client, "mean": count, "run": ""}
        | {"panel": PUBLISHED, "label": label}
        for client, counts in enumerate(PILL)
        for label, count in enumerate(counts)
    ]
    return pd.DataFrame(rows)


PUBLISHED = "PILL (published)"


def draw_class_distribution(cells: pd.DataFrame) -> MplFigure:
    """Draw a class x client map a partition; the colour is the number of examples.

    Its scale is logarithmic where the numbers span more than two decades.
    """
    panels = list(dict.fromkeys(cells["panel"]))
    canvas = Canvas(len(panels), height=0.6 + 1.25 * len(panels))
    for axis, panel in zip(canvas, panels, strict=True):
        counts = cells[cells["panel"] == panel].pivot(index="label", columns="x", values="mean")
        shown = np.ma.masked_equal(counts.to_numpy(), 0)
        least, most = shown.min(), shown.max()
        scale = LogNorm(least, most) if most > 100 * least else Normalize(0, most)
        image = axis.imshow(
            shown, aspect="auto", cmap="viridis_r", interpolation="nearest", norm=scale
        )
        axis.set_ylabel(f"{panel}\nclass", fontsize=7)
        axis.set_yticks(range(0, len(counts), 3))
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.tick_params(labelsize=6)
        axis.grid(visible=False)
        bar = canvas.figure.colorbar(image, ax=axis, pad=0.01, format="%g")
        bar.set_label("examples", fontsize=7)
        bar.ax.tick_params(labelsize=6)
    canvas.axes[-1, 0].set_xlabel("client")
    return canvas.figure


_PANELS = {
    "accuracy": ("accuracy", 1, "test accuracy (%)", ""),
    "moving average": ("accuracy", WINDOW, "test accuracy (%)", "evaluations"),
    "local": ("local_accuracy", WINDOW, "accuracy on participants' data (%)", "rounds"),
    "spread": ("local_accuracy_sd", WINDOW, "its sd over participants (points)", "rounds"),
}
"""Of each column: metric, values of the moving average, what is shown, what is averaged over."""


def robustness(runs: RunSet) -> pd.DataFrame:
    """Return figure 8: accuracies (fractions) by data set; further columns: dataset and panel."""
    rows = []
    for run in _members(runs, runs.plan.figures["fig8"].runs):
        where = place(run)
        assert where is not None
        for panel, (metric, window, *_) in _PANELS.items():
            name = f"{where.dataset}, {where.method}, {panel}"
            rows += [
                row | {"dataset": where.dataset, "method": where.method, "panel": panel}
                for row in _curve(runs, run, name, metric, window)
            ]
    return _summary(rows, "dataset", "method", "panel")


def _members(runs: RunSet, groups: Sequence[str]) -> list[PlannedRun]:
    """Return the recorded runs of those groups that this scale has."""
    return recorded(runs, [group for group in groups if runs.members([group])])


def draw_robustness(cells: pd.DataFrame) -> MplFigure:
    """Draw a row a data set, a column a panel; its title says what a value is a mean of."""
    datasets = [name for name in reversed(DATASETS.values()) if name in set(cells["dataset"])]
    canvas = Canvas(len(datasets), len(_PANELS), height=0.8 + 2.3 * len(datasets))
    canvas.figure.set_figwidth(WIDTH * 1.35)
    by_panel = dict(list(cells.groupby(["dataset", "method", "panel"])))
    for dataset, line in zip(datasets, canvas.axes, strict=True):
        for (panel, (_, window, title, over)), axis in zip(_PANELS.items(), line, strict=True):
            shown = cells.iloc[:0]
            for method in ("FedAvg", "FedProx", "CADIS"):
                shown = by_panel.get((dataset, method, panel), cells.iloc[:0])
                canvas.curve(axis, shown, INKS[method], method)
            if over:
                whole = len(shown) <= window
                title += f",\nmean of {f'all {over} so far' if whole else f'{window} {over}'}"
            axis.tick_params(labelsize=7)
            axis.set_title(title, fontsize=8)
        canvas.over_rounds(dataset, line)
    canvas.legend(4)
    return canvas.figure


_ERROR, _KNOWN = "error", "known"
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
    rows = []
    clients, participants, last = 0, 0, 0
    for run in _members(runs, runs.plan.figures["fig9"].runs):
        eps = run.coordinates.get("eps", 0.02)
        series = "standard" if run.group == "mnist_mc_standard" else f"transitive, eps = {eps}"
        for panel, metric in ((_ERROR, "similarity_error"), (_KNOWN, "pairs_known")):
            rows += [
                row | {"panel": panel} for row in _curve(runs, run, f"{series}, {panel}", metric)
            ]
        clients = len(runs.record(run).partition.counts)
        participants = min(getattr(run.spec.algorithm, "participants", clients), clients)
        last = run.spec.rounds
    cells = _summary(rows, "panel")
    computed = {"panel": _KNOWN, "n": 0}
    met = [
        {
            "series": "expected to have met",
            "x": t,
            "mean": share_of_pairs_met(clients, participants, t),
        }
        | computed
        for t in range(last + 1)
    ]
    seen = {
        "series": "all clients seen",
        "x": rounds_to_see_all(clients, participants),
        "mean": 1.0,
    }
    return pd.concat([cells, pd.DataFrame([*met, seen | computed])], ignore_index=True)


def draw_transitive(cells: pd.DataFrame) -> MplFigure:
    """Draw the error on the left, what is known on the right."""
    canvas = Canvas(1, 2, height=3.2)
    titles = {_ERROR: "mean squared error of the similarities", _KNOWN: "share of pairs known (%)"}
    for axis, (panel, title) in zip(canvas, titles.items(), strict=True):
        for series, ink in _NINE.items():
            points = cells[cells["series"] == f"{series}, {panel}"]
            canvas.curve(axis, points, ink, series, factor=1 if panel == _ERROR else 100)
        axis.set_title(title)
        axis.set_ylim(bottom=0)
    canvas.over_rounds("")
    right, computed = canvas.axes[0, 1], Ink("black", ":")
    met = cells[cells["series"] == "expected to have met"].assign(n=1)
    canvas.curve(right, met, computed, "expected to have met (computed)", linewidth=0.8)
    seen = float(cells.loc[cells["series"] == "all clients seen", "x"].iloc[0])
    if seen <= met["x"].max():
        right.axvline(seen, color=PALETTE["grey"], linewidth=0.8)
        canvas.key("all clients seen (expected)", Ink("grey"), linewidth=0.8)
    canvas.legend()
    return canvas.figure


def sensitivity(runs: RunSet) -> pd.DataFrame:
    """Return figure 10: best accuracy (fraction) by threshold, one series a weight.

    A further column ``dataset``: the scales differ in it.
    """
    grid = recorded(runs, ["grid"])
    dataset = grid[0].spec.dataset.name
    rows = [
        {"series": f"lambda = {run.coordinates['distillation']:g}"}
        | {"x": run.coordinates["threshold"], "value": max(runs.record(run).metrics["accuracy"])}
        | {"seed": run.seed, "run": run.id}
        for run in grid
    ]
    return _summary(rows).assign(dataset=DATASETS.get(dataset, dataset))


def draw_sensitivity(cells: pd.DataFrame) -> MplFigure:
    """Draw a line a weight of the distillation."""
    canvas = Canvas(height=3.4)
    for series, colour in zip(cells["series"].unique(), ("blue", "orange", "red"), strict=False):
        points = cells[cells["series"] == series]
        label = str(series).replace("lambda", r"$\lambda$")
        canvas.curve(canvas.axis, points, Ink(colour, marker="o"), label)
    canvas.axis.set(xlabel=r"similarity threshold $\tau$", ylabel=f"best {ACCURACY}")
    canvas.axis.set_title(f"{cells['dataset'].iloc[0]}, n = {cells['n'].max()}")
    canvas.axis.set_xticks(sorted(cells["x"].unique()))
    canvas.legend()
    return canvas.figure


_AS_RUN = ("FedAvg", "FedFA", "FedFA" + AS_RUN, "FedDyn", "FedDyn" + AS_RUN)


def as_run(runs: RunSet) -> pd.DataFrame:
    """Return our own figure: what the baselines do as written and as run; further column panel."""
    rows = []
    for run in _members(runs, runs.plan.figures["as_run"].runs):
        where = place(run)
        assert where is not None
        metrics = {"accuracy": "accuracy"}
        if where.method.startswith(METHODS["feddyn"]):
            metrics["norm"] = "norm"
        for panel, metric in metrics.items():
            rows += [
                row | {"method": where.method, "panel": panel}
                for row in _curve(runs, run, f"{where.method}, {panel}", metric)
            ]
    return _summary(rows, "method", "panel")


def draw_as_run(cells: pd.DataFrame) -> MplFigure:
    """Draw the accuracies, and the norm of FedDyn's model over the first forty rounds."""
    canvas = Canvas(1, 2, height=3.4)
    left, right = canvas
    for method in _AS_RUN:
        of_method = cells[cells["method"] == method]
        canvas.curve(left, of_method[of_method["panel"] == "accuracy"], INKS[method], method)
        norm = of_method[(of_method["panel"] == "norm") & (of_method["x"] <= SWINGS)]
        canvas.curve(right, norm, INKS[method], factor=1)
    canvas.accuracy_over_rounds([left])
    canvas.over_rounds("", [right])
    left.set_ylim(0, 100)
    right.set_ylabel("norm of the global model")
    right.set_ylim(bottom=0)
    canvas.legend()
    return canvas.figure


_LOOKS = 8
"""Made-up images of each class that the figure shows."""


def stand_in(runs: RunSet) -> pd.DataFrame:
    """Return our own figure on synthetic pills: test accuracy (fraction) over the rounds."""
    groups = runs.plan.figures["synthetic_pills"].runs
    rows = [
        row
        for run in stand_in_runs(runs, groups)
        for row in _curve(runs, run, stand_in_method(run), "accuracy")
    ]
    if not rows:
        return pd.DataFrame(columns=["series", "x", "mean", "values", "runs"])
    return _summary(rows)


def draw_stand_in(cells: pd.DataFrame) -> MplFigure:
    """Draw a contact sheet of the made-up images on the left, the curves on the right."""
    made = load("synthetic_pills")
    canvas = Canvas(1, 2, height=4.2, width_ratios=(1, 2))
    left, right = canvas
    names = describe("synthetic_pills").class_names
    sheet = [
        np.concatenate(list(made.test_x[made.test_y == label][:_LOOKS]), axis=2)
        for label in range(len(names))
    ]
    side = made.test_x.shape[-1]
    left.imshow(np.concatenate(sheet, axis=1).transpose(1, 2, 0), interpolation="nearest")
    left.set_xticks([])
    left.set_yticks(side * (np.arange(len(names)) + 0.5), names, fontsize=6)
    left.grid(visible=False)
    left.set_title("made-up images")
    notes = {SINGLESET: ": rounds of central training"}
    for method, ink in INKS.items():
        points = cells[cells["series"] == method]
        canvas.curve(right, points, ink, method + notes.get(method, ""))
    if cells.empty:
        right.text(0.5, 0.5, "no runs at this scale", ha="center", transform=right.transAxes)
    canvas.over_rounds("", [right])
    right.set(ylabel="accuracy on made-up test images (%)", ylim=(0, 100))
    right.set_title("not PILL, not comparable with it", fontsize=8)
    canvas.legend()
    return canvas.figure


def overhead(runs: RunSet) -> pd.DataFrame:
    """Return figure 11: ``x`` is a method, ``mean`` a median; further columns: network, panel.

    Panels: the server's milliseconds a round; CADIS's local training as a multiple of FedAvg's.
    """
    found = timings()
    cells = found.assign(series=found["network"] + ", " + found["what"], x=found["method"])
    return spread(cells.assign(panel=cells["what"]), ["series", "x", "network", "panel"])


def draw_overhead(cells: pd.DataFrame) -> MplFigure:
    """Draw every round of the server on the left, every pair of local trainings on the right."""
    about = measured()
    canvas = Canvas(1, 2, height=3.6, width_ratios=(2.2, 1))
    left, right = canvas
    networks = dict(zip(dict.fromkeys(cells["network"]), ("blue", "orange"), strict=True))
    methods = list(dict.fromkeys(cells["x"]))
    for number, (network, colour) in enumerate(networks.items()):
        for _, cell in cells[cells["network"] == network].iterrows():
            values = cell["values"]
            if cell["panel"] == SERVER_MS:
                place = methods.index(cell["x"]) + 0.3 * (number - 0.5)
                points, ends = (values, [place] * len(values)), [place - 0.13, place + 0.13]
                left.plot([cell["mean"]] * 2, ends, color="black", zorder=3)
                axis = left
            else:
                points, ends = ([number] * len(values), values), [number - 0.2, number + 0.2]
                right.plot(ends, [cell["mean"]] * 2, color="black", zorder=3)
                axis = right
            axis.plot(*points, "o", color=PALETTE[colour], markersize=3.5, alpha=0.7)
    left.set_yticks(range(len(methods)), [method.replace(", ", ",\n") for method in methods])
    left.invert_yaxis()
    left.set(xlabel="server, CPU milliseconds a round", xscale="log")
    left.set_title(f"{about['machine']}, {about['date']}; {about['note']}", fontsize=7)
    right.axhline(1, color=PALETTE["grey"], linewidth=0.8)
    right.set_xticks(range(len(networks)), [name.replace(", ", ",\n") for name in networks])
    right.set(xlim=(-0.5, len(networks) - 0.5), ylim=(0, None))
    right.set_ylabel("local training of CADIS / FedAvg")
    for network, colour in networks.items():
        canvas.key(network, Ink(colour, "", "o"))
    canvas.key("median", Ink("black"))
    canvas.legend()
    return canvas.figure


FIGURES: dict[str, Figure] = {
    "fig2": Figure(case_study, draw_case_study),
    "fig5": Figure(row_changes, draw_row_changes),
    "fig7": Figure(class_distribution, draw_class_distribution),
    "fig8": Figure(robustness, draw_robustness),
    "fig9": Figure(transitive, draw_transitive),
    "fig10": Figure(sensitivity, draw_sensitivity),
    "fig11": Figure(overhead, draw_overhead),
    "synthetic_pills": Figure(stand_in, draw_stand_in),
    "as_run": Figure(as_run, draw_as_run),
}
