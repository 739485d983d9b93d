"""Liu, Lee, Julien 2020: what the paper shows of each way to train, and its tables.

The paper's "federated" and "selective" curves are read in two ways. *As run*: nodes share storage,
as in the public code, and are tested as there: the IID test deals the test images over the nodes,
and the non-IID test of the nine selective nodes gives each a label of its own. *As written*: true
averaging; the IID test is all test images for every node, and the non-IID test is cut as the
training images are (section III.A).

The labels of a group of runs in the plan say which network it trains and what curve it is: method,
reading, and a variant where it is none of the paper's. An artefact shows what is recorded of the
groups that the plan lists for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedrepro.fl.algorithms import ALGORITHMS
from fedrepro.fl.algorithms.algorithm import params_of
from fedrepro.fl.algorithms.selective import Params, group_nodes
from fedrepro.fl.data import describe
from fedrepro.fl.partition.balanced_percent import BalancedPercent
from fedrepro.fl.spec import RunSpec
from fedrepro.report.choices import by_labels, moved
from fedrepro.report.expected import Series, load_expected, published
from fedrepro.report.stats import SUMMARY, summarise
from fedrepro.runs.plan import PlannedRun
from fedrepro.runs.runset import RunSet

Test = Literal["iid", "noniid"]
Measure = Test | Literal["validation", "groups"]

NETWORKS = {"m1": "Model 1", "m2": "Model 2", "m3": "Model 3"}
READINGS = {"as_run": "as run", "as_written": "as written"}
TESTS: dict[Test, str] = {"iid": "IID test", "noniid": "non-IID test"}
CURVES: dict[str, tuple[str, Test]] = {
    "fig3": ("m1", "iid"),
    "fig4": ("m2", "iid"),
    "fig5": ("m3", "iid"),
    "fig6": ("m1", "noniid"),
    "fig7": ("m2", "noniid"),
    "fig8": ("m3", "noniid"),
}
"""Network and test of the figures of accuracy over N."""


def curve(*, method: str, reading: str = "", variant: str = "", **_: str) -> str:
    """Return what runs with these labels are called: a series in a figure, a row in a table."""
    return ", ".join(filter(None, [method, READINGS.get(reading), variant]))


CENTRALISED, LOCAL = "centralised", "local"
FEDERATED = {reading: curve(method="federated", reading=reading) for reading in READINGS}
SELECTIVE = {reading: curve(method="selective", reading=reading) for reading in READINGS}
METHODS = ("federated", "selective", "local")


def by_method(reading: str) -> dict[str, str]:
    """Return the curves that one reading calls federated and selective, and local."""
    return {"federated": FEDERATED[reading], "selective": SELECTIVE[reading], "local": LOCAL}


def published_curve(figure: str, method: str) -> Series:
    """Return a published curve; it is held against one or two readings of its method."""
    place = figure, by_method("as_run")[method]
    every = load_expected("selective").series
    return next(series for series in every if (series.artefact, series.series) == place)


def metric(measure: Measure, *, method: str, reading: str = "", **_: str) -> str:
    """Return the final metric that has a measure of runs with these labels."""
    as_run = reading == "as_run"
    match measure:
        case "iid" if as_run or method == "local":
            return "accuracy_iid_dealt"
        case "noniid" if as_run and method == "selective":
            return "accuracy_noniid_as_run"
        case "validation" if method == "selective":
            return "accuracy_validation_all"
        case "groups":
            return "groups"
    return f"accuracy_{measure}"


def shown(runs: RunSet, artefact: str) -> list[str]:
    """Return the groups of an artefact that have runs.

    Raises:
        MissingRunsError: none is recorded.
    """
    groups = runs.groups_of(artefact)
    found = [group for group in groups if runs.members([group])]
    if not found:
        runs.require(groups, artefact)
    return found


def some(runs: RunSet, artefact: str, cells: pd.DataFrame) -> pd.DataFrame:
    """Return the cells of an artefact.

    Raises:
        MissingRunsError: there are none, for want of the runs that they are made of.
    """
    if cells.empty:
        runs.require(runs.groups_of(artefact), artefact)
    return cells


def measured(runs: RunSet, artefact: str, measure: Measure) -> pd.DataFrame:
    """Return a measure of an artefact's groups, summarised over the seeds at every N.

    Columns: ``network`` (its title), ``method``, ``curve``, ``percent`` (N, 0..100) and those of
    :func:`fedrepro.report.stats.summarise`.
    """
    parts = []
    for group in shown(runs, artefact):
        labels = runs.plan.runs[group].labels
        name = metric(measure, **labels)
        finals = runs.final([group], [name])
        if measure == "groups":
            finals[name] = finals[name].map(len)
        if "percent" not in finals:  # centralised: one node that holds everything
            finals["percent"] = 100
        cells = summarise(finals, name, ["percent"])
        cells["network"] = NETWORKS[labels["network"]]
        parts.append(cells.assign(method=labels["method"], curve=curve(**labels)))
    return pd.concat(parts, ignore_index=True)


def _table(cells: pd.DataFrame, **columns: Any) -> pd.DataFrame:
    """Lay summarised cells out as a table's frame wants them; fractions, unless told otherwise."""
    cells = cells.assign(**{"unit": "fraction"} | columns)
    kept = ["row", "column", *SUMMARY, "unit"]
    return cells[kept + ["published"] * ("published" in cells)]


def _by_row(parts: Iterable[pd.DataFrame]) -> pd.DataFrame:
    return pd.concat(parts).sort_values("row", kind="stable", ignore_index=True)


def table2(runs: RunSet) -> pd.DataFrame:
    """Build Table II: the accuracy of centralised training, on the test and validation images."""
    test, validation = (measured(runs, "table2", measure) for measure in ("iid", "validation"))
    return _by_row(
        [
            _table(test, row=test["network"], column="test accuracy"),
            _table(validation, row=validation["network"], column="validation accuracy"),
        ]
    )


_QUOTED = {"m1": ["I.A and VII", "VII.A"], "m2": ["VII.A"], "m3": ["VII.A"]}
"""Where the text quotes a federated accuracy of a network for the IID test at N = 0."""


def noniid_cost(runs: RunSet, *, artefact: str, network: str) -> pd.DataFrame:
    """Show what each reading of "federated" gives at N = 0, beside centralised and local.

    ``published`` is what the authors' result tables have; the accuracies that the text quotes as
    federated stand in rows of their own, beside ours as written.
    """
    parts = []
    for figure, (model, test) in CURVES.items():
        if model != network:
            continue
        cells = measured(runs, artefact, test)
        cells = cells[(cells["percent"] == 0) | (cells["curve"] == CENTRALISED)]
        cells = some(runs, artefact, cells)
        printed = published(runs.paper, figure).items()
        known = {name: value for (name, percent), value in printed if percent == "0"}
        if test == "iid":
            known[CENTRALISED] = published(runs.paper, "table2")[NETWORKS[model], "test accuracy"]
            written = cells[cells["curve"] == FEDERATED["as_written"]]
            for place in _QUOTED[network]:
                row = written["curve"] + f" (quoted in {place})"
                parts.append(_table(written, row=row, column=TESTS[test]))
        cells = cells.assign(published=cells["curve"].map(known))
        parts.append(_table(cells, row=cells["curve"], column=TESTS[test]))
    return _by_row(parts)


def validation(runs: RunSet, *, artefact: str) -> pd.DataFrame:
    """Show the validation accuracies at the values of N for which they are published.

    The authors trained the federated network twice, once for each test; we train it once and hold
    it against both, so its values stand in two rows.
    """
    cells = measured(runs, artefact, "validation")
    cells = some(runs, artefact, cells[cells["percent"].isin([0, 2, 10, 50, 100])])
    cells = cells.assign(column=cells["percent"].astype(str))
    twice = cells["method"] == "federated"
    once, federated = cells[~twice], cells[twice]
    parts = [_table(once, row=once["curve"])]
    for title in ("IID", "non-IID"):
        parts.append(_table(federated, row=federated["curve"] + f" ({title}-test run)"))
    return _by_row(parts)


def groups(runs: RunSet, *, artefact: str) -> pd.DataFrame:
    """Count the groups that selective averaging forms at every N, in both readings."""
    cells = measured(runs, artefact, "groups").sort_values(["percent", "curve"])
    return _table(cells, row=cells["percent"].astype(str), column=cells["curve"], unit="count")


def grouping_rules(runs: RunSet) -> pd.DataFrame:
    """Count the groups that each reading's rule makes of the models of both readings, Model 1.

    Models and their agreement are those of the records; one of the two rules is the one that made
    the recorded groups.
    """
    groups = shown(runs, "grouping_rules")
    rules = {runs.plan.runs[group].labels["reading"]: _rule(runs, group) for group in groups}
    parts = []
    for group in groups:
        reading = runs.plan.runs[group].labels["reading"]
        finals = runs.final([group], ["agreement"])
        for other, rule in rules.items():
            number = [len(rule(np.array(agreement))) for agreement in finals["agreement"]]
            cells = summarise(finals.assign(groups=number), "groups", ["percent"])
            column = f"models {READINGS[reading]}, rule {READINGS[other]}"
            parts.append(cells.assign(column=column))
    cells = pd.concat(parts).sort_values("percent", kind="stable")
    return _table(cells, row=cells["percent"].astype(str), unit="count")


def agreement(runs: RunSet) -> pd.DataFrame:
    """Show on what share of the validation images two nodes agree, per N: means over pairs."""
    group_of = np.arange(9) // 3
    same = np.equal.outer(group_of, group_of)
    pairs = {"of the same labels": same & ~np.eye(9, dtype=bool), "of other labels": ~same}
    parts = []
    for group in shown(runs, "agreement"):
        finals = runs.final([group], ["agreement"])
        reading = READINGS[runs.plan.runs[group].labels["reading"]]
        for which, taken in pairs.items():
            mean = [float(np.array(found)[taken].mean()) for found in finals["agreement"]]
            cells = summarise(finals.assign(mean_agreement=mean), "mean_agreement", ["percent"])
            parts.append(cells.assign(column=f"{reading}: nodes {which}"))
    cells = pd.concat(parts).sort_values("percent", kind="stable")
    return _table(cells, row=cells["percent"].astype(str))


def _rule(runs: RunSet, group: str) -> Callable[[NDArray[np.float64]], list[list[int]]]:
    """Return what makes groups of the agreement of nodes in the runs of a group."""
    params = params_of(runs.members([group])[0].spec, Params)
    return partial(
        group_nodes,
        threshold=params.threshold,
        compare=params.compare,
        several_groups=params.several_groups,
    )


def merges(groups: Sequence[Sequence[int]]) -> bool:
    """Return whether any group unites nodes of different label groups.

    Of nine nodes, three consecutive ones share a label group.
    """
    return any(len({node // 3 for node in group}) > 1 for group in groups)


def merge_points(runs: RunSet, group: str) -> pd.DataFrame:
    """Return between which two N nodes of different label groups come to share a group.

    ``share at`` is the first N at which they do, in a seed where they never do 102, one step beyond
    the last; ``apart at`` is the N trained before it, -2 where there is none. A seed without some
    of its records is left out, and so is one that is not trained at every N up to there.

    Columns: ``column`` (which of the two) and those of :func:`fedrepro.report.stats.summarise`.
    """
    finals = runs.final([group], ["groups"]).sort_values("percent", kind="stable")
    finals = finals[~finals["seed"].isin([run.seed for run in runs.missing([group])])]
    rows, every = [], sorted(set(finals["percent"]))
    for seed, of_seed in finals.groupby("seed"):
        first = [*of_seed["groups"].map(merges), True].index(True)
        if [*of_seed["percent"]][: first + 1] != every[: first + 1]:
            continue
        percents, ids = [-2, *of_seed["percent"], 102], list(of_seed["run"])
        apart = {"column": "apart at", "value": percents[first], "run": ids[max(first - 1, 0)]}
        share = {"column": "share at", "value": percents[first + 1], "run": [*ids, ids[-1]][first]}
        rows += [part | {"seed": seed} for part in (apart, share)]
    return summarise(
        pd.DataFrame(rows, columns=["column", "value", "run", "seed"]), "value", ["column"]
    )


def merge(runs: RunSet) -> pd.DataFrame:
    """Show between which N selective averaging comes to unite nodes of different label groups."""
    parts = []
    for group in shown(runs, "merge"):
        labels, cells = runs.plan.runs[group].labels, merge_points(runs, group)
        column = f"{READINGS[labels['reading']]}: " + cells["column"]
        parts.append(_table(cells, row=NETWORKS[labels["network"]], column=column, unit="count"))
    return some(runs, "merge", _by_row(parts))


def thresholds(runs: RunSet) -> pd.DataFrame:
    """Return what each threshold gives at each N, one row a run.

    Columns: those of :meth:`fedrepro.runs.runset.RunSet.final`, ``tuning`` (accuracy on the half of
    the validation images that the selection vectors leave) and ``noniid`` (on the non-IID test).
    """
    names = {"accuracy_tuning": "tuning", "accuracy_noniid": "noniid"}
    return runs.final(_tuned_groups(runs), [*names]).rename(columns=names)


def _tuned_groups(runs: RunSet) -> list[str]:
    return runs.labelled(variant="threshold tuned")


def over_percents(runs: RunSet, percents: Iterable[object] = ()) -> pd.DataFrame:
    """Return the accuracies of every threshold and seed, means over N; the tuning goes by these.

    Columns: ``threshold``, ``seed``, ``run`` (ids), ``tuning`` and ``noniid``.

    Args:
        runs: the paper's runs at a scale.
        percents: N to take the mean over; none: all planned. What lacks one of them is left out.
    """
    wanted = {*percents} or {
        run.coordinates["percent"] for run in runs.planned(_tuned_groups(runs))
    }
    every = thresholds(runs)
    by_seed = every[every["percent"].isin(wanted)].groupby(["threshold", "seed"], sort=False)
    means = by_seed.agg({"run": tuple, "tuning": "mean", "noniid": "mean"})
    return means[by_seed.size() == len(wanted)].reset_index()


OVER_PERCENTS = "mean"


def tuning(runs: RunSet) -> pd.DataFrame:
    """Return the accuracy on the tuning images, for each N and their mean.

    Columns: ``threshold``, ``at`` (N, or the mean) and those of
    :func:`fedrepro.report.stats.summarise`.
    """
    each = thresholds(runs).sort_values("percent", kind="stable")
    each = each.assign(at=each["percent"].map("N = {}".format))
    parts = [each, over_percents(runs).assign(at=OVER_PERCENTS)]
    return pd.concat(
        [summarise(part, "tuning", ["at", "threshold"]) for part in parts if len(part)]
    )


def threshold(runs: RunSet) -> pd.DataFrame:
    """Show the tuning of the threshold: accuracy at each N, and the mean that decides."""
    tuned, tested = tuning(runs), over_percents(runs)
    parts = [tuned.assign(at="tuning images, " + tuned["at"])]
    if len(tested):
        tested["at"] = f"non-IID test, {OVER_PERCENTS}"
        parts.append(summarise(tested, "noniid", ["at", "threshold"]))
    cells = pd.concat(parts)
    cells = cells.sort_values("threshold", kind="stable", ignore_index=True)
    return _table(cells, row=cells["threshold"].map("{:g}".format), column=cells["at"])


WEIGHT_BYTES = 4
"""Bytes of a weight that is sent: float32."""


TRAFFIC = {
    "rounds of communication": "count",
    "models sent, MB": "MB",
    "images and vectors sent, MB": "MB",
    "epochs a node trains": "count",
}
"""What is counted of a run, and its unit."""


def traffic(spec: RunSpec, groups: Sequence[Sequence[int]]) -> tuple[int, float, float, int]:
    """Count what all nodes of a run send and receive (section VI), in the order of ``TRAFFIC``.

    A node uploads and downloads a model in every round, once for each group it is in; running
    statistics that stay with it are not sent. Before groups are formed, each node downloads the
    validation images (a byte a pixel) and uploads a bit for each. Centralised training needs the
    training images of all nodes once. Training alone needs nothing.

    Args:
        spec: the run.
        groups: the groups that average; none where nothing is averaged.
    """
    info, partition = describe(spec.dataset.name), spec.partition
    assert isinstance(partition, BalancedPercent)
    epochs = spec.local_epochs * ALGORITHMS[spec.algorithm.name].rounds(spec)
    image = math.prod(info.shape)
    if spec.algorithm.name == "sgd":
        return 1, 0, (info.train - partition.validation) * image / 1e6, epochs
    if spec.algorithm.name == "local":
        return 0, 0, 0, epochs
    sent = 2 * sum(len(group) for group in groups) * spec.rounds * _model_bytes(spec)
    algorithm = spec.algorithm
    vectors = isinstance(algorithm, Params) and algorithm.grouping == "similarity"
    other = partition.clients * (partition.validation * image + partition.validation // 8)
    return spec.rounds + vectors, sent / 1e6, other * vectors / 1e6, epochs


def _model_bytes(spec: RunSpec) -> int:
    from fedrepro.fl import models  # PyTorch is slow to import

    info = describe(spec.dataset.name)
    net = models.build(spec.model.name, info.shape, info.classes, spec.model.width)
    sent = sum(parameter.numel() for parameter in net.parameters())
    if getattr(spec.algorithm, "bn_statistics", "average") == "average":
        sent += sum(buffer.numel() for buffer in net.buffers() if buffer.is_floating_point())
    return WEIGHT_BYTES * sent


class Sent(NamedTuple):
    """What all nodes of a run send and receive, and its run; see :func:`traffic`."""

    run: PlannedRun
    rounds: int
    models: float
    other: float
    epochs: int


def sent_at_zero(runs: RunSet, group: str) -> Sent | None:
    """Count what a group's first seed sends at N = 0; None where it is not recorded.

    No other seed differs but by the groups it formed.
    """
    at_zero = (run for run in runs.members([group]) if not run.coordinates.get("percent"))
    run = next(at_zero, None)
    if run is None:
        return None
    nodes = range(run.spec.partition.clients)
    return Sent(run, *traffic(run.spec, runs.record(run).final.get("groups", [nodes])))


def communication(runs: RunSet) -> pd.DataFrame:
    """Show what each method sends at N = 0, all nodes together, and how long a node trains."""
    rows = []
    for group in shown(runs, "communication"):
        labels = runs.plan.runs[group].labels
        found = sent_at_zero(runs, group)
        if found is None:
            continue
        run, *sent = found
        seed = {"seed": run.seed, "run": run.id}
        name = f"{NETWORKS[labels['network']]}: {curve(**labels)}"
        rows += [
            {"row": name, "column": column, "unit": unit, "value": value} | seed
            for (column, unit), value in zip(TRAFFIC.items(), sent, strict=True)
        ]
    every = some(runs, "communication", pd.DataFrame(rows))
    return summarise(every, "value", ["row", "column"], "unit")


def by_choice(runs: RunSet) -> pd.DataFrame:
    """Return the accuracy on the IID test, by N and by what the paper leaves open.

    See :mod:`fedrepro.report.choices`.
    """

    def measure(runs: RunSet, group: str) -> pd.DataFrame:
        finals = runs.final([group], ["accuracy_iid"])
        finals["where"] = finals["percent"].map("N = {:g}".format)
        return finals.rename(columns={"accuracy_iid": "accuracy"})

    return by_labels(runs, measure)


TABLES: dict[str, Callable[[RunSet], pd.DataFrame]] = {
    "table2": table2,
    "noniid_cost": partial(noniid_cost, artefact="noniid_cost", network="m1"),
    "m2_noniid_cost": partial(noniid_cost, artefact="m2_noniid_cost", network="m2"),
    "m3_noniid_cost": partial(noniid_cost, artefact="m3_noniid_cost", network="m3"),
    "validation": partial(validation, artefact="validation"),
    "m2_validation": partial(validation, artefact="m2_validation"),
    "m3_validation": partial(validation, artefact="m3_validation"),
    "groups": partial(groups, artefact="groups"),
    "m2_groups": partial(groups, artefact="m2_groups"),
    "m3_groups": partial(groups, artefact="m3_groups"),
    "grouping_rules": grouping_rules,
    "agreement": agreement,
    "merge": merge,
    "threshold": threshold,
    "communication": communication,
    "choices": lambda runs: moved(by_choice(runs)),
}
