"""Liu, Lee, Julien 2020: what the paper shows of each way to train, and its tables.

The paper's "federated" and "selective" curves are read in two ways. *As run*: nodes share storage,
as in the public code, and are tested as there: the IID test deals the test images over the nodes,
and the non-IID test of the nine selective nodes gives each a label of its own. *As written*: true
averaging; the IID test is all test images for every node, and the non-IID test is cut as the
training images are (section III.A).

Three networks are trained in these ways (:data:`MODELS`). What compares them shows those of whose
runs there are records.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from fedrepro.fl.algorithms import ALGORITHMS
from fedrepro.fl.data import describe
from fedrepro.fl.spec import RunSpec
from fedrepro.report.expected import Series, load_expected, published
from fedrepro.report.stats import summarise
from fedrepro.runs.runset import RunSet

Test = Literal["iid", "noniid"]

TEST_TITLES: dict[Test, str] = {"iid": "IID test", "noniid": "non-IID test"}


@dataclass(frozen=True)
class Curve:
    """One way to train, at every N.

    Attributes:
        name: its series in a figure, its row in a table.
        group: its group of runs in the plan.
        iid: the final metric that is its accuracy on the IID test (Figs. 3 to 5).
        noniid: the final metric that is its accuracy on the non-IID test (Figs. 6 to 8).
        validation: the final metric that is its validation accuracy.
    """

    name: str
    group: str
    iid: str = "accuracy_iid"
    noniid: str = "accuracy_noniid"
    validation: str = "accuracy_validation"

    def metric(self, test: Test) -> str:
        """Return the final metric of one of the two tests."""
        return self.iid if test == "iid" else self.noniid


CENTRALISED = Curve("centralised", "centralised")
LOCAL = Curve("local", "local", iid="accuracy_iid_dealt")
FEDERATED_AS_RUN = Curve("federated, as run", "federated_as_run", iid="accuracy_iid_dealt")
AS_RUN_EVERY_ROUND = Curve("federated, as run", "federated_as_run_rounds", iid="accuracy_iid_dealt")
FEDERATED_AS_WRITTEN = Curve("federated, as written", "federated_as_written")
KEPT_MOMENTS = Curve("federated, as written, moments kept", "federated_kept_moments")
OWN_INITIAL = Curve(
    "federated, as written, moments kept, own initial weights", "federated_own_initial"
)
OWN_INITIAL_RESET = Curve(
    "federated, as written, own initial weights", "federated_own_initial_reset"
)
AS_RUN_RESET = Curve(
    "federated, as run, moments reset", "federated_as_run_reset", iid="accuracy_iid_dealt"
)
LOCAL_STATISTICS = Curve("federated, as written, local statistics", "federated_local_statistics")
SELECTIVE_AS_RUN = Curve(
    "selective, as run",
    "selective_as_run",
    iid="accuracy_iid_dealt",
    noniid="accuracy_noniid_as_run",
    validation="accuracy_validation_all",
)
SELECTIVE_AS_WRITTEN = Curve(
    "selective, as written", "selective_as_written", validation="accuracy_validation_all"
)
THRESHOLDS = Curve("selective, as written, threshold tuned", "selective_threshold")

SELECTIVE = (SELECTIVE_AS_RUN, SELECTIVE_AS_WRITTEN)
FEDERATED = (FEDERATED_AS_RUN, FEDERATED_AS_WRITTEN)


@dataclass(frozen=True)
class Model:
    """One of the three networks.

    Attributes:
        name: its row in a table.
        prefix: what the names of its groups of runs begin with.
        merged: the first N of the published non-IID curve at which selective has merged groups.
        quoted: where the text quotes a federated accuracy of it for the IID test at N = 0.
        variants: its federated curves besides the two readings.
    """

    name: str
    prefix: str
    merged: int
    quoted: tuple[str, ...]
    variants: tuple[Curve, ...] = ()

    def __call__(self, curve: Curve) -> Curve:
        """Return a curve of this network."""
        return dataclasses.replace(curve, group=self.prefix + curve.group)


MODEL_1 = Model(
    "Model 1",
    "",
    merged=14,
    quoted=("quoted in I.A and VII", "quoted in VII.A"),
    variants=(AS_RUN_RESET, KEPT_MOMENTS, OWN_INITIAL, OWN_INITIAL_RESET),
)
MODEL_2 = Model(
    "Model 2",
    "m2_",
    merged=8,
    quoted=("quoted in VII.A",),
)
MODEL_3 = Model(
    "Model 3",
    "m3_",
    merged=4,
    quoted=("quoted in VII.A",),
    variants=(LOCAL_STATISTICS,),
)
MODELS = (MODEL_1, MODEL_2, MODEL_3)

VALIDATION_PERCENTS = (0, 2, 10, 50, 100)
"""Values of N whose validation accuracy is published."""


def models_with(runs: RunSet, curves: Iterable[Curve]) -> list[Model]:
    """Return the networks that have records of all runs of all the curves.

    Raises:
        MissingRunsError: there is none.
    """
    curves = list(curves)
    groups = {model: [model(curve).group for curve in curves] for model in MODELS}
    found = [model for model in MODELS if not runs.missing(groups[model])]
    if not found:
        runs.require(groups[MODEL_1], "the comparison of the networks")
    return found


def recorded(runs: RunSet, model: Model, curves: Iterable[Curve]) -> list[Curve]:
    """Return the curves of which a network has the records of all runs.

    Raises:
        MissingRunsError: there is none.
    """
    curves = list(curves)
    found = [curve for curve in curves if not runs.missing([model(curve).group])]
    if not found:
        runs.require([model(curve).group for curve in curves], f"the curves of {model.name}")
    return found


def by_percent(runs: RunSet, curve: Curve, metric: str) -> pd.DataFrame:
    """Return a final metric of a curve's runs, summarised over the seeds at every N.

    Columns: ``percent`` (N, 0..100) and those of :func:`fedrepro.report.stats.summarise`.
    """
    finals = runs.final([curve.group], [metric])
    if "percent" not in finals:  # centralised: one node that holds everything
        finals["percent"] = 100
    return summarise(finals, metric, ["percent"])


def group_counts(runs: RunSet, curve: Curve) -> pd.DataFrame:
    """Return how many groups a selective curve's runs formed, summarised over the seeds at every N.

    Columns: ``percent`` (N, 0..100) and those of :func:`fedrepro.report.stats.summarise`.
    """
    finals = runs.final([curve.group], ["groups"])
    finals["count"] = [len(groups) for groups in finals["groups"]]
    return summarise(finals, "count", ["percent"])


def merges(groups: Sequence[Sequence[int]]) -> bool:
    """Return whether any group unites nodes of different label groups.

    Of nine nodes, three consecutive ones share a label group.
    """
    return any(len({node // 3 for node in group}) > 1 for group in groups)


def merge_points(runs: RunSet, curve: Curve) -> pd.DataFrame:
    """Return between which two N nodes of different label groups come to share a group.

    ``share at`` is the first N at which they do, in a seed where they never do 102, one step beyond
    the last; ``apart at`` is the N trained before it, -2 where there is none.

    Columns: ``column`` (which of the two) and those of :func:`fedrepro.report.stats.summarise`.
    """
    finals = runs.final([curve.group], ["groups"]).sort_values("percent", kind="stable")
    rows = []
    for seed, of_seed in finals.groupby("seed"):
        shared = [merges(groups) for groups in of_seed["groups"]]
        first = shared.index(True) if any(shared) else len(shared)
        percents, ids = [-2, *of_seed["percent"], 102], list(of_seed["run"])
        rows += [
            {"column": column, "value": percents[at], "seed": seed, "run": run}
            for column, at, run in (
                ("apart at", first, ids[max(first - 1, 0)]),
                ("share at", first + 1, ids[min(first, len(ids) - 1)]),
            )
        ]
    return summarise(pd.DataFrame(rows), "value", ["column"])


def _row(name: str, summary: pd.DataFrame, column: str, unit: str = "fraction") -> pd.DataFrame:
    """Lay one summarised cell out as a table's frame wants it."""
    cells = summary.drop(columns="percent", errors="ignore")
    cells.insert(0, "row", name)
    cells.insert(1, "column", column)
    return cells.assign(unit=unit)


def table2(runs: RunSet) -> pd.DataFrame:
    """Build Table II: the accuracy of centralised training, on the test and validation images."""
    return pd.concat(
        [
            _row(model.name, by_percent(runs, model(CENTRALISED), metric), column)
            for model in models_with(runs, [CENTRALISED])
            for metric, column in (
                (CENTRALISED.iid, "test accuracy"),
                (CENTRALISED.validation, "validation accuracy"),
            )
        ],
        ignore_index=True,
    )


def noniid_cost(runs: RunSet, *, model: Model) -> pd.DataFrame:
    """Show what each reading of "federated" gives at N = 0, beside centralised and local.

    ``published`` is what the authors' result tables have for the way to train, in both readings.
    The accuracies that the text quotes as federated stand in rows of their own
    (:attr:`Model.quoted`), beside ours as written.
    """
    cells = []
    for curve in recorded(runs, model, (CENTRALISED, *FEDERATED, *model.variants, LOCAL)):
        quoted = model.quoted if curve is FEDERATED_AS_WRITTEN else ()
        for test, title in TEST_TITLES.items():
            summary = by_percent(runs, model(curve), curve.metric(test))
            if curve is not CENTRALISED:
                summary = summary[summary["percent"] == 0]
            known = _published_at_zero(model, curve, test)
            cells.append(_row(curve.name, summary, title).assign(published=known))
            if test == "iid":
                cells += [_row(f"{curve.name} ({name})", summary, title) for name in quoted]
    return pd.concat(cells, ignore_index=True)


def _published_at_zero(model: Model, curve: Curve, test: Test) -> float:
    """Return the published accuracy at N = 0 (centralised: of Table II); NaN where there is none.

    The variants of a network are ours: nothing is published for them.
    """
    if curve is CENTRALISED:
        key = (model.name, "test accuracy")
        return published("selective", "table2")[key] if test == "iid" else math.nan
    if curve in model.variants:
        return math.nan
    points = published_curve(model, curve.name.split(",")[0], test)
    return points.published[points.x.index(0)]


def published_curve(model: Model, method: str, test: Test) -> Series:
    """Return a published curve; it is held against one or two readings of its method."""
    figure = f"fig{3 + MODELS.index(model) + (3 if test == 'noniid' else 0)}"
    return next(
        series
        for series in load_expected("selective").series
        if series.artefact == figure and series.series.split(",")[0] == method
    )


def validation(runs: RunSet, *, model: Model) -> pd.DataFrame:
    """Show the validation accuracies at the values of N for which they are published.

    The authors trained the federated network twice, once for each test; we train it once and hold
    it against both, so its values stand in two rows.
    """
    cells = []
    for curve in recorded(runs, model, (*FEDERATED, *SELECTIVE)):
        twice = [f"{curve.name} ({title}-test run)" for title in ("IID", "non-IID")]
        summary = by_percent(runs, model(curve), curve.validation)
        cells += [
            _row(name, summary[summary["percent"] == percent], str(percent))
            for name in (twice if curve in FEDERATED else [curve.name])
            for percent in VALIDATION_PERCENTS
            if percent in set(summary["percent"])
        ]
    return pd.concat(cells, ignore_index=True)


def groups(runs: RunSet, *, model: Model) -> pd.DataFrame:
    """Count the groups that selective averaging forms at every N, in both readings."""
    summaries = [(curve.name, group_counts(runs, model(curve))) for curve in SELECTIVE]
    return pd.concat(
        [
            _row(str(percent), summary[summary["percent"] == percent], name, unit="count")
            for percent in _percents([summary for _, summary in summaries])
            for name, summary in summaries
        ],
        ignore_index=True,
    )


def _percents(summaries: Sequence[pd.DataFrame]) -> list[int]:
    return sorted({int(percent) for summary in summaries for percent in summary["percent"]})


def merge(runs: RunSet) -> pd.DataFrame:
    """Show between which N selective averaging comes to unite nodes of different label groups."""
    return pd.concat(
        [
            _row(
                model.name,
                summary.drop(columns="column"),
                f"{curve.name.split(', ')[1]}: {column}",
                "count",
            )
            for model in models_with(runs, SELECTIVE)
            for curve in SELECTIVE
            for column, summary in merge_points(runs, model(curve)).groupby("column", sort=False)
        ],
        ignore_index=True,
    )


def thresholds(runs: RunSet) -> pd.DataFrame:
    """Return what each threshold gives at each N, one row a run.

    Columns: ``threshold``, ``percent`` (N), ``seed``, ``run``, ``tuning`` (accuracy on the half of
    the validation images that the selection vectors leave), ``noniid`` (on the non-IID test) and
    ``count`` (groups).
    """
    metrics = {"accuracy_tuning": "tuning", THRESHOLDS.noniid: "noniid"}
    finals = runs.final([THRESHOLDS.group], [*metrics, "groups"]).rename(columns=metrics)
    finals["count"] = [len(groups) for groups in finals["groups"]]
    return finals[["threshold", "percent", "seed", "run", "tuning", "noniid", "count"]]


def threshold_means(runs: RunSet) -> pd.DataFrame:
    """Return the accuracies of every threshold and seed, means over N; the tuning goes by these.

    Columns: ``threshold``, ``seed``, ``run`` (ids), ``tuning`` and ``noniid``.
    """
    return (
        thresholds(runs)
        .groupby(["threshold", "seed"], sort=False, as_index=False)
        .agg({"run": tuple, "tuning": "mean", "noniid": "mean"})
    )


def threshold(runs: RunSet) -> pd.DataFrame:
    """Show the tuning of the threshold: accuracy at each N, and the mean that decides."""
    every, means = thresholds(runs), threshold_means(runs)
    cells = []
    for value in sorted(set(every["threshold"])):
        of_value = every[every["threshold"] == value]
        for percent in sorted(set(of_value["percent"])):
            at = of_value[of_value["percent"] == percent]
            summary = summarise(at, "tuning", ["percent"])
            cells.append(_row(f"{value:g}", summary, f"tuning images, N = {percent}"))
        of_mean = means[means["threshold"] == value]
        for metric, column in (("tuning", "tuning images, mean"), ("noniid", "non-IID test, mean")):
            summary = summarise(of_mean, metric, ["threshold"]).drop(columns="threshold")
            cells.append(_row(f"{value:g}", summary, column))
    return pd.concat(cells, ignore_index=True)


WEIGHT_BYTES = 4
"""Bytes of a weight that is sent: float32."""


@dataclass(frozen=True)
class Traffic:
    """Rounds of communication, bytes that all nodes send and receive, epochs a node trains."""

    rounds: int
    model_bytes: int
    other_bytes: int
    epochs: int


def traffic(spec: RunSpec, groups: Sequence[Sequence[int]]) -> Traffic:
    """Count what a run sends (section VI).

    A node uploads and downloads a model in every round, once for each group it is in; running
    statistics that stay with it are not sent. Before groups are formed, each node downloads the
    validation images (a byte a pixel) and uploads a bit for each. Centralised training needs the
    training images of all nodes once. Training alone needs nothing.

    Args:
        spec: the run.
        groups: the groups that average; none where nothing is averaged.
    """
    info, partition = describe(spec.dataset.name), spec.partition
    assert partition.scheme == "balanced_percent"
    epochs = spec.local_epochs * ALGORITHMS[spec.algorithm.name].rounds(spec)
    image = math.prod(info.shape)
    if spec.algorithm.name == "sgd":
        return Traffic(1, 0, (info.train - partition.validation) * image, epochs)
    if spec.algorithm.name == "local":
        return Traffic(0, 0, 0, epochs)
    sent = 2 * sum(len(group) for group in groups) * spec.rounds * _model_bytes(spec)
    vectors = spec.algorithm.name == "selective" and spec.algorithm.grouping == "similarity"
    other = partition.clients * (partition.validation * image + partition.validation // 8)
    return Traffic(spec.rounds + vectors, sent, other if vectors else 0, epochs)


def _model_bytes(spec: RunSpec) -> int:
    from fedrepro.fl import models  # PyTorch is slow to import

    info = describe(spec.dataset.name)
    net = models.build(spec.model.name, info.shape, info.classes, spec.model.width)
    sent = sum(parameter.numel() for parameter in net.parameters())
    if getattr(spec.algorithm, "bn_statistics", "average") == "average":
        sent += sum(buffer.numel() for buffer in net.buffers() if buffer.is_floating_point())
    return WEIGHT_BYTES * sent


def communication(runs: RunSet) -> pd.DataFrame:
    """Show what each method sends at N = 0, all nodes together, and how long a node trains.

    Counted from the record of the first seed; no other differs but by the groups it formed.
    """
    shown = (CENTRALISED, LOCAL, *FEDERATED, *SELECTIVE)
    cells = []
    for model, curve in itertools.product(models_with(runs, shown), shown):
        run = next(
            run
            for run in runs.members([model(curve).group])
            if run.coordinates.get("percent", 0) == 0
        )
        groups = runs.record(run).final.get("groups", [range(run.spec.partition.clients)])
        sent = traffic(run.spec, groups)
        for column, unit, value in (
            ("rounds of communication", "count", sent.rounds),
            ("models sent, MB", "MB", sent.model_bytes / 1e6),
            ("images and vectors sent, MB", "MB", sent.other_bytes / 1e6),
            ("epochs a node trains", "count", sent.epochs),
        ):
            counted = pd.DataFrame([{"value": float(value), "seed": run.seed, "run": run.id}])
            summary = summarise(counted.assign(column=column), "value", ["column"])
            name = f"{model.name}: {curve.name}"
            cells.append(_row(name, summary.drop(columns="column"), column, unit))
    return pd.concat(cells, ignore_index=True)


_of = functools.partial

TABLES: dict[str, Callable[[RunSet], pd.DataFrame]] = {
    "table2": table2,
    "noniid_cost": _of(noniid_cost, model=MODEL_1),
    "m2_noniid_cost": _of(noniid_cost, model=MODEL_2),
    "m3_noniid_cost": _of(noniid_cost, model=MODEL_3),
    "validation": _of(validation, model=MODEL_1),
    "m2_validation": _of(validation, model=MODEL_2),
    "m3_validation": _of(validation, model=MODEL_3),
    "groups": _of(groups, model=MODEL_1),
    "m2_groups": _of(groups, model=MODEL_2),
    "m3_groups": _of(groups, model=MODEL_3),
    "merge": merge,
    "threshold": threshold,
    "communication": communication,
}
