"""Nguyen et al. 2023: rules of the claims, and of what the authors' code does instead.

Their values stand in ``config/expected/cadis.yaml``; those that say where are labels of the plan,
``dataset``, ``kind`` (of the partition) and ``what`` (the method), and ``clients``, how many take
part in a round. The last group of rules is about published numbers alone.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from fedrepro.fl.algorithms.probe import THRESHOLDS
from fedrepro.papers.cadis.measurements import (
    BASELINES,
    LOCAL_RATIO,
    OVER_BEST,
    OVER_FEDAVG,
    PRINTED_PILL,
    SERVER_MS,
    SINGLESET,
    SPEED_UP,
    accuracy_by_size,
    best,
    from_equal_shares,
    kind_of,
    participants,
    partition_facts,
    results,
    rounds_to,
    scatter,
    steps,
    tail,
    timings,
)
from fedrepro.papers.cadis.meeting import rounds_to_see_all
from fedrepro.report.expected import called, published
from fedrepro.report.finding import SLACK, Finding, Margin, in_percent, in_points, not_planned
from fedrepro.report.rules import (
    Rule,
    Rules,
    Sample,
    combined,
    compared,
    lead,
    leads,
    less,
    listed,
    near,
    paired,
    together,
    whole_seeds,
)
from fedrepro.report.stats import Error, sampling_error
from fedrepro.runs.plan import PlannedRun
from fedrepro.runs.records import RunRecord
from fedrepro.runs.runset import Evaluated, RunSet

WINDOWS = 10
"""So many means of as few evaluations as a claim is about tell how far such means are apart."""

ROUNDED = 1e-6
"""Records hold six digits."""

Measure = Callable[[RunRecord], float]
"""One number of a run."""


class Found(NamedTuple):
    """A run that a claim rests on."""

    run: PlannedRun
    record: RunRecord


def chosen(
    runs: RunSet,
    what: str,
    *,
    dataset: str,
    kind: str = "",
    clients: int = 0,
    warm_up: int | None = None,
) -> list[Found]:
    """Return the runs of a method on a partition, in plan order.

    Args:
        runs: of which to choose.
        what: the method.
        dataset: the data set.
        kind: of the partition.
        clients: a round; training without clients has none and is chosen too.
        warm_up: epochs before a probe; None: any.

    Raises:
        MissingRunsError: some of the runs have no record.
        FedreproError: the plan has none.
    """
    found = [
        run
        for run in runs.members(runs.labelled(dataset=dataset, method=what))
        if kind_of(runs, run) == kind
        and participants(run) in (None, clients)
        and warm_up in (None, run.coordinates.get("warm_up", 0))
    ]
    if not found:
        raise not_planned(runs, what, f"run on {dataset} {kind}")
    return [Found(run, runs.record(run)) for run in found]


RULES = Rules(where=chosen)


def _ids(found: Sequence[Found]) -> list[str]:
    return [one.run.id for one in found]


def _tested_on(runs: RunSet, what: str, **where: Any) -> Evaluated:
    """Return what accuracies of the chosen runs are measured on."""
    return runs.evaluated({one.run.group for one in chosen(runs, what, **where)})


def _sample(
    runs: RunSet, what: str, measure: Measure, *, fraction: bool = False, **where: Any
) -> Sample:
    """Return a measure of each of the chosen runs, that has no error but the seed's."""
    used, records = zip(*chosen(runs, what, **where), strict=True)
    name = called(runs.paper, what)
    return Sample.of_runs(name, used, map(measure, records), fraction=fraction)


def _estimated(
    runs: RunSet,
    what: str,
    estimate: Callable[[RunRecord], tuple[float, float]],
    *,
    fraction: bool = False,
    **where: Any,
) -> Sample:
    """Return an estimate from each of the chosen runs.

    Args:
        runs: of which to choose.
        what: the method.
        estimate: of a run, and its standard error for another reason than the seed.
        fraction: as of the sample.
        where: of :func:`chosen`.
    """
    used, records = zip(*chosen(runs, what, **where), strict=True)
    values, errors = zip(*map(estimate, records), strict=True)
    name = called(runs.paper, what)
    return Sample.of_runs(name, used, values, error=Error(max(errors)), fraction=fraction)


def _mean_over(
    runs: RunSet,
    what: str,
    rounds: Callable[[RunRecord], ArrayLike],
    *,
    last: int = 0,
    fraction: bool = False,
    **where: Any,
) -> Sample:
    """Return the mean of some rounds of each of the chosen runs (:meth:`Sample.over_rounds`)."""
    used, records = zip(*chosen(runs, what, **where), strict=True)
    name = called(runs.paper, what)
    return Sample.over_rounds(name, used, map(rounds, records), last=last, fraction=fraction)


def _late(runs: RunSet, what: str, metric: str, window: int, **where: Any) -> Sample:
    """Return the mean of the last ``window`` evaluations; it and those before tell of its error."""

    def rounds(record: RunRecord) -> list[float]:
        return record.metrics[metric][-WINDOWS * window :]

    return _mean_over(runs, what, rounds, last=window, **where)


def accuracy(runs: RunSet, what: str, *, dataset: str, clients: int, kind: str = "") -> Sample:
    """Return the quantity: best test accuracy of a run's rounds."""
    where: dict[str, Any] = {"dataset": dataset, "clients": clients, "kind": kind}
    highest = _sample(runs, what, best, **where)
    return dataclasses.replace(highest, on=_tested_on(runs, what, **where))


def late_accuracy(
    runs: RunSet, what: str, *, dataset: str, clients: int, kind: str, window: int
) -> Sample:
    """Return the quantity: mean test accuracy of the last ``window`` evaluations."""
    where: dict[str, Any] = {"dataset": dataset, "clients": clients, "kind": kind}
    late = _late(runs, what, "accuracy", window, **where)
    return dataclasses.replace(late, on=_tested_on(runs, what, **where))


def rounds(runs: RunSet, what: str, *, target: float, **where: Any) -> Sample:
    """Return in which round an accuracy (fraction) is reached first.

    Its error is half of what lies between the rounds that reach one standard error less and more:
    those of the test images, and of a single evaluation beside its neighbours.
    """
    tested = sampling_error(target, _tested_on(runs, what, **where).examples)

    def reach(record: RunRecord) -> tuple[float, float]:
        first = rounds_to(record, target)
        error = math.hypot(tested, scatter(record, first))
        sooner, later = (rounds_to(record, target + by) for by in (-error, error))
        return first, (later - sooner) / 2

    return _estimated(runs, what, reach, **where)


RULES.add(leads(accuracy), "leads")
RULES.add(leads(late_accuracy), "leads_late")
RULES.add(near(accuracy), "near")


# Tables I and II


@RULES.add
def leads_at_each(
    runs: RunSet, *, what: str, over: Sequence[str], clients: Sequence[int], **where: Any
) -> Finding:
    """Hold where ``what`` is above all of ``over`` at each number of clients a round."""
    each = {k: leads(accuracy)(runs, what=what, over=over, clients=k, **where) for k in clients}
    gaps = {k: finding.ours or 0.0 for k, finding in each.items()}
    ahead = ", ".join(f"{k}: {in_points(gap)}" for k, gap in gaps.items())
    evidence = f"{called(runs.paper, what)} ahead by {ahead}"
    return together([*each.values()], min(gaps.values()), evidence)


@RULES.add
def varies_slightly(
    runs: RunSet, *, what: Sequence[str], clients: Sequence[int], points: float, **where: Any
) -> Finding:
    """Hold where each accuracy differs by so many points or less between numbers of clients."""
    samples, margins, ranges = list[Sample](), list[Margin](), dict[str, float]()
    for name in what:
        each = {k: accuracy(runs, name, clients=k, **where) for k in clients}
        pairs = [*itertools.permutations(each, 2)]
        method = each[clients[0]].name
        margins += [
            less(each[a], each[b], -points / 100, f"{method}, {a} - {b} clients") for a, b in pairs
        ]
        ranges[method] = max(lead(each[a], each[b]) for a, b in pairs)
        samples += each.values()
    evidence = ", ".join(f"{name} {in_points(apart)}" for name, apart in ranges.items())
    return compared(samples, margins, max(ranges.values()), f"range: {evidence}")


@RULES.add
def in_first_places(
    runs: RunSet, *, what: str, others: Sequence[str], places: int, **where: Any
) -> Finding:
    """Hold where fewer than so many of the others are above ``what``."""
    one, *rest = (accuracy(runs, name, **where) for name in (what, *others))
    means = np.mean(paired(*rest), axis=0)
    rest = [rest[k] for k in np.argsort(-means, kind="stable")]
    margin = less(one, rest[places - 1])
    return compared([*rest, one], [margin], margin.value)


@RULES.add
def leads_in_most(
    runs: RunSet,
    *,
    what: str,
    over: Sequence[str],
    datasets: Sequence[str],
    kinds: Sequence[str],
    clients: int,
) -> Finding:
    """Hold where ``what`` is above all of the others on most partitions.

    That is where the middle one of its leads is above 0; its bounds are the middle ones of theirs.
    """
    each = {
        f"{called(runs.paper, dataset)} {called(runs.paper, kind)}": leads(accuracy)(
            runs, what=what, over=over, dataset=dataset, kind=kind, clients=clients
        )
        for dataset, kind in itertools.product(datasets, kinds)
    }
    parts = [*each.values()]

    def middle(bound: str) -> float:
        least = (min(getattr(margin, bound) for margin in part.margins) for part in parts)
        return float(sorted(least)[(len(parts) - 1) // 2])

    margin = Margin(
        middle("value"),
        middle("low"),
        middle("high"),
        p=math.nan,
        seeds=min(margin.seeds for part in parts for margin in part.margins),
        strict=True,
        what=f"the middle lead of {called(runs.paper, what)}",
        unit="points",
    )
    ahead = [name for name, part in each.items() if part.holds]
    evidence = f"in {len(ahead)} of {len(each)}" + ": " * bool(ahead) + ", ".join(ahead)
    every = together(parts, None, evidence)
    return dataclasses.replace(every, holds=margin.met, margins=[margin])


@RULES.add
def no_later(
    runs: RunSet,
    *,
    what: str,
    than: str,
    percent: Sequence[float],
    sooner: bool = False,
    **where: Any,
) -> Finding:
    """Hold where ``what`` reaches each accuracy no later than the other, in means over seeds.

    Or ``sooner``; where neither reaches it, none is sooner.
    """
    parts = []
    for target in percent:
        one, other = (rounds(runs, name, target=target / 100, **where) for name in (what, than))
        difference = f"{other.name} - {one.name}, rounds to {target:g} %"
        margin = less(other, one, what=difference, strict=sooner)
        evidence = f"{target:g} %: {listed([other, one], '{:g} rounds'.format)}"
        parts.append(compared([one, other], [margin], None, evidence))
    return together(parts, None)


@RULES.add
def as_soon(
    runs: RunSet, *, what: str, than: str, percent: Sequence[float], within: float, **where: Any
) -> Finding:
    """Hold where both reach each accuracy within so many percent of the other's rounds."""
    low, high, parts = 1 - within / 100, 1 + within / 100, []
    for target in percent:
        one, other = (rounds(runs, name, target=target / 100, **where) for name in (what, than))
        to = f"rounds to {target:g} %"
        above = f"{one.name} - {low:g} x {other.name}, {to}"
        below = f"{high:g} x {other.name} - {one.name}, {to}"
        margins = [
            combined([(1, one), (-low, other)], what=above),
            combined([(high, other), (-1, one)], what=below),
        ]
        evidence = f"{target:g} %: {listed([other, one], '{:g} rounds'.format)}"
        parts.append(compared([one, other], margins, None, evidence))
    return together(parts, None)


@RULES.add
def stays_below(runs: RunSet, *, what: str, percent: float, **where: Any) -> Finding:
    """Hold where the best accuracy is below so many percent: N/A in Table II."""
    sample = accuracy(runs, what, **where)
    margins = [sample.below(percent / 100, strict=True)]
    evidence = f"best accuracy: {listed([sample])}"
    return compared([sample], margins, sample.mean, evidence, networks=())


# Figure 8 and Proposition III.5


@RULES.add
def loses_no_more(runs: RunSet, *, what: str, than: str, window: int, **where: Any) -> Finding:
    """Hold where the test loss, mean of the last ``window`` evaluations, is not higher."""
    one, other = (_late(runs, name, "loss", window, **where) for name in (what, than))
    networks = [accuracy(runs, name, **where) for name in (what, than)]
    evidence, margin = listed([other, one], "{:.4f}".format), less(other, one)
    return compared([one, other], [margin], -margin.value, evidence, networks=networks)


@RULES.add
def steadier(runs: RunSet, *, what: str, than: str, last: int, **where: Any) -> Finding:
    """Hold where accuracy moves less from one of the last evaluations to the next."""

    def late(record: RunRecord) -> np.ndarray:
        return steps(tail(record, last=last))

    one, other = (_mean_over(runs, name, late, fraction=True, **where) for name in (what, than))
    networks = [accuracy(runs, name, **where) for name in (what, than)]
    evidence = f"a step: {listed([other, one], in_points)}"
    margin = less(other, one, strict=True)
    return compared([one, other], [margin], None, evidence, networks=networks)


@RULES.add
def serves_clients(runs: RunSet, *, what: str, than: str, last: int, **where: Any) -> Finding:
    """Hold where the accuracy on participants' own data is higher, and its spread smaller."""

    def late(name: str, metric: str) -> Sample:
        def rounds(record: RunRecord) -> np.ndarray:
            return tail(record, metric, last=last)

        return _mean_over(runs, name, rounds, fraction=True, **where)

    names = what, than
    networks = [accuracy(runs, name, **where) for name in names]
    one, other = (late(name, "local_accuracy") for name in names)
    narrow, wide = (late(name, "local_accuracy_sd") for name in names)
    evidence = f"mean: {listed([other, one])}; standard deviation: "
    evidence += listed([wide, narrow], in_points)
    spread = f"{wide.name} - {narrow.name}, standard deviation"
    margins = [less(one, other, strict=True), less(wide, narrow, what=spread, strict=True)]
    return compared([one, other], margins, lead(one, other), evidence, networks=networks)


@RULES.add
def serves_small(runs: RunSet, *, what: str, than: str, last: int, **where: Any) -> Finding:
    """Hold where the received models are better on the data of the smaller clusters."""

    def of_small(record: RunRecord) -> tuple[float, float]:
        return accuracy_by_size(record, last=last)[1]

    one, other = (_estimated(runs, name, of_small, fraction=True, **where) for name in (what, than))
    networks = [accuracy(runs, name, **where) for name in (what, than)]
    margin = less(one, other, strict=True)
    return compared([other, one], [margin], lead(one, other), networks=networks)


# Figure 5, and what the clustering rests on


def every_client(holds: Callable[[np.ndarray, np.ndarray], bool]) -> Rule:
    """Return the rule: it holds for every probed client of some partitions.

    Args:
        holds: of how the rows of the final layer changed, float64 [classes, 3] (lowest, mean and
            highest of a row), and of which classes the client has, bool [classes].
    """

    def rule(runs: RunSet, *, kinds: Sequence[str], **where: Any) -> Finding:
        parts, right, used = [], list[bool](), list[str]()
        for kind in kinds:
            found = chosen(runs, "probe", kind=kind, **where)
            held = [
                holds(np.array(rows), np.array(counts) > 0)
                for _, record in found
                for rows, counts in zip(record.final["rows"], record.partition.counts, strict=True)
            ]
            parts.append(f"{sum(held)} of {len(held)} clients ({called(runs.paper, kind)})")
            right += held
            used += _ids(found)
        return Finding(all(right), f"true of {', '.join(parts)}", used, float(np.mean(right)))

    return rule


def _only_own_rows_rise(rows: np.ndarray, own: np.ndarray) -> bool:
    """Proposition III.1: no entry of the class's row falls, none of the others rises."""
    return bool((rows[own, 0] >= 0).all() and (rows[~own, 2] <= 0).all())


def _rising_rows_are_labels(rows: np.ndarray, own: np.ndarray) -> bool:
    """Observation III.2: a row has a rising entry if and only if the client holds its class."""
    return bool(((rows[:, 2] > 0) == own).all())


RULES.add(every_client(_only_own_rows_rise), "only_own_rows_rise")
RULES.add(every_client(_rising_rows_are_labels), "rising_rows_are_labels")


@RULES.add
def recovers_clusters(runs: RunSet, *, vector: str, threshold: float, **where: Any) -> Finding:
    """Hold where the cosines of all clients, rescaled and cut, give the true clusters."""
    found = chosen(runs, "probe", **where)
    cuts = [record.final["vectors"][vector]["all"] for _, record in found]
    place = THRESHOLDS.index(threshold)
    wrong = [cut["wrong_pairs"][place] for cut in cuts]
    evidence = "clusters: " + ", ".join(f"{cut['clusters'][place]:.0f}" for cut in cuts)
    evidence += "; pairs wrong: " + ", ".join(map(in_percent, wrong))
    return Finding(max(wrong) == 0, evidence, _ids(found), float(np.mean(wrong)))


@RULES.add
def merges_all(runs: RunSet, *, vector: str, thresholds: Sequence[float], **where: Any) -> Finding:
    """Hold where the code's rescaling makes one cluster of all clients at each threshold."""
    found = chosen(runs, "probe", **where)
    cuts = [record.final["vectors"][vector]["as_run"]["clusters"] for _, record in found]
    numbers = dict(zip(THRESHOLDS, np.mean(cuts, axis=0), strict=True))
    evidence = "clusters: " + ", ".join(f"{numbers[tau]:g} at {tau:g}" for tau in thresholds)
    return Finding(all(numbers[tau] == 1 for tau in thresholds), evidence, _ids(found))


@RULES.add
def cosines_exceed(runs: RunSet, *, vector: str, above: float, **where: Any) -> Finding:
    """Hold where the mean cosine of clients of other labels is that high."""

    def cosine(name: str, warm_up: int) -> Sample:
        def other_labels(record: RunRecord) -> float:
            return float(record.final["vectors"][name]["other"][1])

        sample = _sample(runs, "probe", other_labels, warm_up=warm_up, **where)
        weights = "trained" if warm_up else "fresh"
        return dataclasses.replace(sample, name=f"{name.replace('_', ' ')}, {weights} weights")

    probes = chosen(runs, "probe", **where)
    begins = sorted({int(run.coordinates.get("warm_up", 0)) for run, _ in probes})
    vectors = sorted(probes[0].record.final["vectors"])
    samples = {name: [cosine(name, begin) for begin in begins] for name in vectors}
    found = samples[vector]
    each = listed([*itertools.chain(*samples.values())], "{:.3f}".format)
    evidence = f"mean cosine of clients of other labels: {each}"
    margins = [sample.above(above, strict=True) for sample in found]
    lowest = min(sample.mean for sample in found)
    return compared(found, margins, lowest, evidence)


@RULES.add
def wrong_pairs(
    runs: RunSet, *, what: str, more_than: float = -1, at_most: float = 100, **where: Any
) -> Finding:
    """Hold where every run ends with so many percent of the pairs of clients wrong."""
    found = chosen(runs, what, **where)
    shares = [record.metrics["wrong_pairs"][-1] for _, record in found]
    numbers = [record.metrics["clusters"][-1] for _, record in found]
    ends = Counter(
        f"{in_percent(share)} of the pairs wrong, {number:.1f} clusters"
        for share, number in zip(shares, numbers, strict=True)
    )
    evidence = "; ".join(
        f"{end} ({times} of {len(found)} runs)" if times > 1 else end for end, times in ends.items()
    )
    holds = all(more_than < 100 * share <= at_most + SLACK for share in shares)
    return Finding(holds, evidence, _ids(found), float(np.mean(shares)))


@RULES.add
def weighs_evenly(runs: RunSet, *, what: str, **where: Any) -> Finding:
    """Hold where the last clusters make the true ones more equal in the average than FedAvg."""
    used, records = zip(*chosen(runs, what, **where), strict=True)
    counts = [record.partition.counts for record in records]

    def distance(name: str, clusters: Iterable[Sequence[int]]) -> Sample:
        apart = map(from_equal_shares, counts, clusters)
        return Sample.of_runs(name, used, apart, fraction=True)

    learnt = distance(called(runs.paper, what), (record.final["cluster_of"] for record in records))
    plain = distance("FedAvg's weights", ([0] * len(clients) for clients in counts))
    margin = less(plain, learnt, strict=True)
    evidence = f"share of the average to move for equal clusters: {listed([plain, learnt])}"
    return compared([plain, learnt], [margin], margin.value, evidence, networks=())


# Figures 9 and 10


@RULES.add
def nearer_to_truth(runs: RunSet, *, what: str, than: str, **where: Any) -> Finding:
    """Hold where the error of the similarities, mean over the rounds, is smaller."""

    def error(record: RunRecord) -> float:
        return float(np.mean(record.metrics["similarity_error"]))

    one, other = (_sample(runs, name, error, **where) for name in (what, than))
    evidence, margin = listed([one, other], "{:.4f}".format), less(other, one, strict=True)
    return compared([one, other], [margin], margin.value, evidence)


def _settled(record: RunRecord) -> float:
    """Return the round, from 1, from which on the clusters are those of the last round.

    Clusters are told apart by their number and by how many pairs of clients they are wrong on.
    """
    states = np.array([record.metrics["clusters"], record.metrics["wrong_pairs"]])
    others = np.nonzero((states != states[:, -1:]).any(axis=0))[0]
    return float(others.max(initial=-1) + 2)


@RULES.add
def clusters_settle(runs: RunSet, *, what: str, last: float, **where: Any) -> Finding:
    """Hold where the clusters are the final ones in the last ``last`` % of the rounds."""

    def before(record: RunRecord) -> float:
        return (_settled(record) - 1) / len(record.metrics["clusters"])

    share = _sample(runs, what, before, fraction=True, **where)
    evidence = f"rounds before the final clusters: {listed([share])}"
    margins = [share.below(1 - last / 100)]
    return compared([share], margins, share.mean, evidence, networks=())


@RULES.add
def clusters_sooner(runs: RunSet, *, what: str, than: str, **where: Any) -> Finding:
    """Hold where the clusters are those of the last round from an earlier round on."""
    one, other = (_sample(runs, name, _settled, **where) for name in (what, than))
    margin = less(other, one, strict=True)
    evidence = (
        f"final clusters from: {listed([one, other], 'round {:g}'.format)}; on the seeds of both "
        f"{margin.value:g} rounds sooner"
    )
    return compared([one, other], [margin], margin.value, evidence)


@RULES.add
def pairs_known(runs: RunSet, *, what: str, percent: float, **where: Any) -> Finding:
    """Theorem III.4: that many pairs are known when all clients are expected to be seen."""

    def seen(record: RunRecord) -> int:
        drawn = record.spec["algorithm"]["participants"]
        expected = round(rounds_to_see_all(len(record.partition.counts), drawn))
        return min(expected, len(record.metrics["pairs_known"]))

    found = chosen(runs, what, **where)
    rounds = [seen(record) for _, record in found]
    shares = [
        record.metrics["pairs_known"][after - 1]
        for (_, record), after in zip(found, rounds, strict=True)
    ]
    evidence = f"pairs known after {rounds[0]} rounds: " + ", ".join(map(in_percent, shares))
    return Finding(min(shares) >= percent / 100, evidence, _ids(found), float(np.mean(shares)))


@RULES.add
def varies_more(runs: RunSet, *, group: str, axis: str, other: str, times: float = 1) -> Finding:
    """Hold where the best accuracy ranges so many times as wide along one axis of a grid or wider.

    A range along an axis is taken at each value of the other one, between the highest and the
    lowest of the means over the seeds; what counts is the mean of these ranges.
    """
    grid = _grid(runs, group)
    one, wider = _range(grid, axis, other), _range(grid, other, axis)
    networks = _networks(runs, group, grid)
    evidence = ", ".join(
        f"range along the {name} {in_points(sample.mean)}"
        for name, sample in ((axis, one), (other, wider))
    )
    what = f"{axis} - {times:g} x {other}"
    margin = combined([(1, one), (-times, wider)], 0, what, strict=times <= 1)
    return compared([networks], [margin], None, evidence)


@RULES.add
def best_threshold(runs: RunSet, *, group: str, dataset: str, threshold: float) -> Finding:
    """Hold where a threshold of the grid has a higher accuracy than the others, in the mean."""
    if {run.spec.dataset.name for run in runs.members([group])} != {dataset}:
        raise not_planned(runs, group, f"run on {dataset}")
    grid = _grid(runs, group)
    levels = _levels(grid, "threshold")
    seeds, networks = tuple(levels.index), _networks(runs, group, grid)
    samples = {
        tau: Sample(f"{tau:g}", tuple(levels[tau]), (), seeds, networks.on) for tau in levels
    }
    highest = samples.pop(threshold)
    margins = [
        less(highest, sample, what=f"at {highest.name} - at {sample.name}", strict=True)
        for sample in samples.values()
    ]
    evidence = f"by threshold: {listed([*samples.values(), highest])}"
    least = min(margin.value for margin in margins)
    return compared([networks], margins, least, evidence)


def _networks(runs: RunSet, group: str, grid: pd.DataFrame) -> Sample:
    """Return the best accuracies of all runs of a grid."""
    return Sample(group, tuple(grid["best"]), tuple(grid["run"]), on=runs.evaluated([group]))


def _grid(runs: RunSet, group: str) -> pd.DataFrame:
    """Return the best accuracy of each run of a grid.

    Raises:
        MissingRunsError: a record is missing.
    """
    found = results(runs, [group])
    return whole_seeds(found.assign(best=found["record"].map(best)))


def _levels(grid: pd.DataFrame, axis: str) -> pd.DataFrame:
    """Return the best accuracy, mean over the other axes: a row a seed, a column a value."""
    return grid.pivot_table(values="best", index="seed", columns=axis)


def _range(grid: pd.DataFrame, axis: str, other: str) -> Sample:
    """Return by seed how far the accuracy ranges along an axis, mean over the other one's values.

    The two values of the axis that are held apart are those farthest in the mean over the seeds.
    """
    ranges = []
    for _, part in grid.groupby(other):
        levels = _levels(part, axis)
        means = levels.mean()
        ranges.append(levels[means.idxmax()] - levels[means.idxmin()])
    apart = pd.concat(ranges, axis=1).mean(axis=1)
    return Sample(axis, tuple(apart), (), tuple(apart.index), fraction=True)


# What the authors' code does


@RULES.add
def is_lost(runs: RunSet, *, what: str, images: int, of: int, **where: Any) -> Finding:
    """Hold where every run stops being finite, and ends with every image in class 0.

    Which so many ``images`` are, ``of`` all test images.
    """
    found = chosen(runs, what, **where)
    ends, holds = defaultdict[str, list[str]](list), True
    for _, record in found:
        finite, end = record.metrics["finite"], record.metrics["accuracy"][-1]
        lost = f"not a number from round {finite.index(0) + 1}" if 0 in finite else "never lost"
        ends[lost].append(in_percent(end))
        holds &= 0 in finite and abs(end - images / of) < ROUNDED
    told = (f"{lost}, accuracy {', '.join(accuracies)}" for lost, accuracies in ends.items())
    return Finding(holds, "; ".join(told), _ids(found))


@RULES.add
def oscillates(runs: RunSet, *, what: str, percent: float, **where: Any) -> Finding:
    """Hold where the norm of FedDyn's model swings with the period of its recursion.

    With rho = K / N the recursion's period is ``2 pi / arccos((1 + rho) / 2)`` rounds, and that of
    the weights' norm is half of it.
    """

    def period(record: RunRecord) -> float:
        norm = np.array(record.metrics["norm"])
        power = np.abs(np.fft.rfft(norm - norm.mean(), 8 * len(norm)))
        return 8 * len(norm) / float(power.argmax())

    def recursion(record: RunRecord) -> float:
        share = record.spec["algorithm"]["participants"] / len(record.partition.counts)
        return float(np.pi / np.arccos((1 + share) / 2))

    ours, theirs = (_sample(runs, what, measure, **where) for measure in (period, recursion))
    evidence = f"period of the norm {', '.join(f'{t:.2f}' for t in ours.values)} rounds; recursion "
    evidence += f"{theirs.mean:.2f}"
    ratios = np.array(ours.values) / theirs.values
    holds = bool((np.abs(ratios - 1) <= percent / 100).all())
    return Finding(holds, evidence, ours.runs, ours.values[0])


# Figure 11: measured times, the same at every scale


@RULES.add
def server_takes_about(runs: RunSet, *, what: str, to: Sequence[str], times: float) -> Finding:
    """Hold where a server's round takes at most so many times each other's, on every network.

    By the medians that ``benchmarks/cadis.py`` measured: no run is trained for it.
    """
    found = timings()
    server = found[found["what"] == SERVER_MS]
    medians = server.pivot_table(values="mean", index="network", columns="method")
    one, others = called(runs.paper, what), [called(runs.paper, name) for name in to]
    ratios = medians[others].rdiv(medians[one], axis=0)
    most = float(ratios.to_numpy().max())
    shown = medians[[one, *others]].map("{:.1f} ms".format)
    evidence = "; ".join(
        f"{network}: {', '.join(f'{name} {ms}' for name, ms in row.items())}"
        for network, row in shown.iterrows()
    )
    return Finding(most <= times + SLACK, f"{evidence}; at most {most:.2f} times", [], most)


@RULES.add
def trains_longer(runs: RunSet, *, what: str) -> Finding:
    """Hold where a client trains longer than with FedAvg in every measured pair, on every network.

    By the ratios that ``benchmarks/cadis.py`` measured: no run is trained for it.
    """
    found, one = timings(), called(runs.paper, what)
    ratios = found[(found["what"] == LOCAL_RATIO) & (found["method"] == one)]
    told = "; ".join(
        f"{row.network}: {row.mean:.2f} times FedAvg's ({row.low:.2f} to {row.high:.2f})"
        for row in ratios.itertuples()
    )
    least = float(ratios["low"].min())
    return Finding(least > 1, f"{one}, {told}", [], least)


# The partitions: the text against the authors' lists


@RULES.add
def labels_per_client(
    runs: RunSet, *, what: str, percent: float, within: float, **where: Any
) -> Finding:
    """Section V.A: every client holds about that share of the labels."""
    found = chosen(runs, what, **where)
    held = (np.array(found[0].record.partition.counts) > 0).mean(axis=1)
    holds = bool((np.abs(held - percent / 100) <= within / 100 + SLACK).all())
    evidence = f"share of the labels: {in_percent(held.min())} to {in_percent(held.max())}"
    return Finding(holds, evidence, _ids(found)[:1], float(held.mean()))


@RULES.add
def unequal_amounts(runs: RunSet, *, what: str, **where: Any) -> Finding:
    """Section V.A: clients hold unequal amounts."""
    found = chosen(runs, what, **where)
    counts = np.array(found[0].record.partition.counts)
    _, clients = np.unique(counts > 0, axis=0, return_counts=True)
    largest_first = sorted(map(int, clients), reverse=True)
    unequal = len(np.unique(counts.sum(axis=1))) > 1
    evidence = f"clusters of {largest_first} clients, {'un' if unequal else ''}equal amounts"
    return Finding(unequal, evidence, _ids(found)[:1])


@RULES.add
def main_cluster(
    runs: RunSet, *, what: str, kinds: Sequence[str], percent: float, **where: Any
) -> Finding:
    """Section V.C: the largest cluster of each partition holds that share of the clients."""
    shares, used = {}, list[str]()
    for kind in kinds:
        run, record = chosen(runs, what, kind=kind, **where)[0]
        facts = partition_facts(record.partition.counts)
        shares[kind] = facts["largest cluster"] / facts["clients"]
        used.append(run.id)
    evidence = ", ".join(
        f"{called(runs.paper, kind)}: {in_percent(share)}" for kind, share in shares.items()
    )
    holds = all(abs(share - percent / 100) < SLACK for share in shares.values())
    return Finding(holds, evidence, used)


# PILL: the images are private, synthetic pills stand in for them


def every_end(holds: Callable[[list[list[int]], list[int], list[int]], bool]) -> Rule:
    """Return the rule: what is asked of two groups holds for the clusters of every run's end.

    Args:
        holds: of the clients of each cluster, by their first client, and of the groups.
    """

    def rule(runs: RunSet, *, what: str, one: list[int], other: list[int], **where: Any) -> Finding:
        found = chosen(runs, what, **where)
        names = [record.final["cluster_of"] for _, record in found]
        ends = [
            [[i for i, own in enumerate(end) if own == name] for name in sorted({*end})]
            for end in names
        ]
        evidence = f"clusters {'; '.join(map(str, ends))}"
        return Finding(all(holds(end, one, other) for end in ends), evidence, _ids(found))

    return rule


def _parted(clusters: list[list[int]], one: list[int], other: list[int]) -> bool:
    return not any({*one} & {*cluster} and {*other} & {*cluster} for cluster in clusters)


RULES.add(every_end(_parted), "parts_groups")
RULES.add(every_end(lambda clusters, one, other: clusters == [one, other]), "finds_groups")


# The paper's own numbers


def _table1(paper: str) -> dict[tuple[str, str], float]:
    """Return Table I as published, with PILL."""
    pill = published(paper, "pill").items()
    cells = {("PILL 3/10", row): value for (row, column), value in pill if column == PRINTED_PILL}
    return published(paper, "table1") | cells


@RULES.add
def gains_follow(runs: RunSet, *, what: str, points: float) -> Finding:
    """Hold where Impr. (a) and (b) are the relative gains from Table I, to the digit printed."""
    cells, ours = _table1(runs.paper), called(runs.paper, what)
    rows = {row for row, column in cells if column == OVER_FEDAVG}
    worst = max(
        abs(cells[row, ours] / max(cells[row, name] for name in over) - 1 - cells[row, column])
        for row in rows
        for column, over in ((OVER_FEDAVG, BASELINES[:1]), (OVER_BEST, BASELINES))
    )
    evidence = f"largest difference {in_points(worst)} over {len(rows)} rows"
    return Finding(worst <= points / 100 + SLACK, evidence, [], worst)


@RULES.add
def speed_ups_follow(runs: RunSet, *, than: str, within: float) -> Finding:
    """Hold where the speed-ups of Table II are ratios of its rounds, to the digit printed."""
    cells, base = _table2(runs.paper), called(runs.paper, than)
    off = [
        abs(cells[row, base] / cells[row, column.removesuffix(SPEED_UP)] - value)
        for (row, column), value in cells.items()
        if column.endswith(SPEED_UP)
    ]
    evidence = f"largest difference {max(off):.3f} of {len(off)} speed-ups"
    return Finding(max(off) <= within + SLACK, evidence, [], max(off))


def _table2(paper: str) -> dict[tuple[str, str], float]:
    """Return Table II as published, with PILL."""
    cells = published(paper, "table2")
    for (method, column), value in published(paper, "pill").items():
        what, _, target = column.partition(" to ")
        if target:
            ending = SPEED_UP if what.endswith(SPEED_UP) else ""
            cells[f"PILL {target}", method + ending] = value
    return cells


@RULES.add
def largest_gain(runs: RunSet, *, percent: float, points: float) -> Finding:
    """Hold where the largest gain over FedAvg in Table I is the one that the abstract has."""
    cells = _table1(runs.paper)
    largest = max(value for (_, column), value in cells.items() if column == OVER_FEDAVG)
    evidence = f"text {percent:g} %; largest in Table I {in_percent(largest)}"
    return Finding(abs(largest - percent / 100) <= points / 100 + SLACK, evidence, [], largest)


@RULES.add
def among_best(runs: RunSet, *, what: str, places: int) -> Finding:
    """Hold where so few federated methods are above ``what`` in each column of Table III."""
    found = {column: 1 + sum(lead < 0 for lead in leads) for column, leads in _leads(runs, what)}
    evidence = ", ".join(f"{column}: place {number}" for column, number in found.items())
    return Finding(max(found.values()) <= places, evidence, [], max(found.values()))


@RULES.add
def best_in_most(runs: RunSet, *, what: str) -> Finding:
    """Hold where ``what`` is above all federated methods in most columns of Table III."""
    found = {column: min(leads) for column, leads in _leads(runs, what)}
    best = [column for column, lead in found.items() if lead > 0]
    evidence = f"in {len(best)} of {len(found)}: {', '.join(best)}"
    return Finding(2 * len(best) > len(found), evidence, [], len(best))


def _leads(runs: RunSet, what: str) -> Iterator[tuple[str, list[float]]]:
    """Yield the columns of Table III, and by how much ``what`` leads each federated method."""
    cells, ours = published(runs.paper, "table3"), called(runs.paper, what)
    for column in sorted({column for _, column in cells}):
        yield column, [cells[ours, column] - cells[name, column] for name in BASELINES]


@RULES.add
def no_better(runs: RunSet, *, dataset: str, kind: str, kinds: Sequence[str]) -> Finding:
    """Hold where central training reaches no more on one partition than on the best other."""
    cells = published(runs.paper, "table3")
    names = [called(runs.paper, name) for name in (kind, *kinds)]
    one, *others = (cells[SINGLESET, f"{called(runs.paper, dataset)} {name}"] for name in names)
    evidence = ", ".join(f"{n} {in_percent(v)}" for n, v in zip(names, [one, *others], strict=True))
    return Finding(one <= max(others), evidence, [], one)
