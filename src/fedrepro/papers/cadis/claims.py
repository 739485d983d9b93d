"""Nguyen et al. 2023: rules of the claims, and of what the authors' code does instead.

Their values stand in ``config/expected/cadis.yaml``; those that say where are labels of the plan,
``dataset``, ``kind`` (of the partition) and ``what`` (the method), and ``clients``, how many take
part in a round. The last group of rules is about published numbers alone.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fedrepro.fl.algorithms.probe import THRESHOLDS
from fedrepro.papers.cadis.measurements import (
    BASELINES,
    OVER_BEST,
    OVER_FEDAVG,
    PRINTED_PILL,
    SINGLESET,
    best,
    kind_of,
    participants,
    partition_facts,
    results,
    rounds_to,
    title_of,
)
from fedrepro.papers.cadis.meeting import rounds_to_see_all
from fedrepro.report.expected import published
from fedrepro.report.finding import SLACK, Finding, in_percent, in_points, not_planned
from fedrepro.report.rules import Rule, Sample, leads, listed, near
from fedrepro.runs.records import RunRecord
from fedrepro.runs.runset import RunSet

ROUNDED = 1e-6
"""Records hold six digits."""


def chosen(
    runs: RunSet,
    what: str,
    *,
    dataset: str,
    kind: str = "",
    clients: int = 0,
    warm_up: int | None = None,
) -> dict[str, RunRecord]:
    """Return the records of a method on a partition, by run id.

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
    runs.require({run.group for run in found}, f"the claims on {what}, {dataset} {kind}")
    return {run.id: runs.record(run) for run in found}


def _sample(runs: RunSet, what: str, measure: Callable[[RunRecord], float], **where: Any) -> Sample:
    """Return a measure of each of the chosen runs."""
    found = chosen(runs, what, **where)
    return Sample(title_of(runs, what), tuple(map(measure, found.values())), tuple(found))


def _both(
    runs: RunSet, what: str, than: str, measure: Callable[[RunRecord], float], where: dict[str, Any]
) -> tuple[Sample, Sample]:
    return _sample(runs, what, measure, **where), _sample(runs, than, measure, **where)


def accuracy(runs: RunSet, what: str, *, dataset: str, clients: int, kind: str = "") -> Sample:
    """Return the quantity: best test accuracy of a run's rounds."""
    return _sample(runs, what, best, dataset=dataset, clients=clients, kind=kind)


def late_accuracy(
    runs: RunSet, what: str, *, dataset: str, clients: int, kind: str, window: int
) -> Sample:
    """Return the quantity: mean test accuracy of the last ``window`` evaluations."""
    where = {"dataset": dataset, "clients": clients, "kind": kind}
    return _sample(runs, what, lambda r: float(np.mean(r.metrics["accuracy"][-window:])), **where)


# Tables I and II


def leads_at_each(
    runs: RunSet, *, what: str, over: Sequence[str], clients: Sequence[int], **where: Any
) -> Finding:
    """Hold where ``what`` is above all of ``over`` at each number of clients a round."""
    each = {k: leads(accuracy)(runs, what=what, over=over, clients=k, **where) for k in clients}
    gaps = {k: finding.ours or 0.0 for k, finding in each.items()}
    ahead = ", ".join(f"{k}: {in_points(gap)}" for k, gap in gaps.items())
    evidence = f"{title_of(runs, what)} ahead by {ahead}"
    used = [run for finding in each.values() for run in finding.runs]
    least = min(gaps.values())
    return Finding(least > 0, evidence, used, least)


def no_later(
    runs: RunSet, *, what: str, than: str, percent: Sequence[float], **where: Any
) -> Finding:
    """Hold where ``what`` reaches each accuracy no later than the other, in means over seeds."""
    parts, holds, used = [], True, list[str]()
    for target in percent:
        reach = functools.partial(rounds_to, target=target / 100)
        one, other = _both(runs, what, than, reach, where)
        parts.append(f"{target:g} %: {listed([other, one], '{:g} rounds'.format)}")
        holds &= one.mean <= other.mean
        used += [*one.runs, *other.runs]
    return Finding(holds, "; ".join(parts), used)


# Figure 8


def _end(record: RunRecord, metric: str, last: int) -> np.ndarray:
    """Return the last so many percent of what a run logs."""
    values = record.metrics[metric]
    return np.array(values[len(values) * (100 - last) // 100 :])


def steadier(runs: RunSet, *, what: str, than: str, last: int, **where: Any) -> Finding:
    """Hold where accuracy moves less from one of the last evaluations to the next."""

    def step(record: RunRecord) -> float:
        return float(np.abs(np.diff(_end(record, "accuracy", last))).mean())

    one, other = _both(runs, what, than, step, where)
    evidence = f"a step: {listed([other, one], in_points)}"
    return Finding(one.mean < other.mean, evidence, [*one.runs, *other.runs])


def serves_clients(runs: RunSet, *, what: str, than: str, last: int, **where: Any) -> Finding:
    """Hold where the accuracy on participants' own data is higher, and its spread smaller."""

    def late(metric: str) -> tuple[Sample, Sample]:
        return _both(runs, what, than, lambda r: float(_end(r, metric, last).mean()), where)

    (one, other), (narrow, wide) = late("local_accuracy"), late("local_accuracy_sd")
    evidence = f"mean: {listed([other, one])}; standard deviation: "
    evidence += listed([wide, narrow], in_points)
    holds = one.mean > other.mean and narrow.mean < wide.mean
    return Finding(holds, evidence, [*one.runs, *other.runs], one.mean - other.mean)


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
                for record in found.values()
                for rows, counts in zip(record.final["rows"], record.partition.counts, strict=True)
            ]
            parts.append(f"{sum(held)} of {len(held)} clients ({title_of(runs, kind)})")
            right += held
            used += found
        return Finding(all(right), f"true of {', '.join(parts)}", used, float(np.mean(right)))

    return rule


def _only_own_rows_rise(rows: np.ndarray, own: np.ndarray) -> bool:
    """Proposition III.1: no entry of the class's row falls, none of the others rises."""
    return bool((rows[own, 0] >= 0).all() and (rows[~own, 2] <= 0).all())


def _rising_rows_are_labels(rows: np.ndarray, own: np.ndarray) -> bool:
    """Observation III.2: a row has a rising entry if and only if the client holds its class."""
    return bool(((rows[:, 2] > 0) == own).all())


def recovers_clusters(runs: RunSet, *, vector: str, threshold: float, **where: Any) -> Finding:
    """Hold where the cosines of all clients, rescaled and cut, give the true clusters."""
    found = chosen(runs, "probe", **where)
    cuts = [record.final["vectors"][vector]["all"] for record in found.values()]
    place = THRESHOLDS.index(threshold)
    wrong = [cut["wrong_pairs"][place] for cut in cuts]
    evidence = "clusters: " + ", ".join(f"{cut['clusters'][place]:.0f}" for cut in cuts)
    evidence += "; pairs wrong: " + ", ".join(map(in_percent, wrong))
    return Finding(max(wrong) == 0, evidence, [*found], float(np.mean(wrong)))


def merges_all(runs: RunSet, *, vector: str, thresholds: Sequence[float], **where: Any) -> Finding:
    """Hold where the code's rescaling makes one cluster of all clients at each threshold."""
    found = chosen(runs, "probe", **where)
    cuts = [record.final["vectors"][vector]["as_run"]["clusters"] for record in found.values()]
    numbers = dict(zip(THRESHOLDS, np.mean(cuts, axis=0), strict=True))
    evidence = "clusters: " + ", ".join(f"{numbers[tau]:g} at {tau:g}" for tau in thresholds)
    return Finding(all(numbers[tau] == 1 for tau in thresholds), evidence, [*found])


def cosines_exceed(runs: RunSet, *, vector: str, above: float, **where: Any) -> Finding:
    """Hold where the mean cosine of clients of other labels is that high."""
    found = chosen(runs, "probe", **where)
    vectors = [record.final["vectors"] for record in found.values()]
    means = {name: float(np.mean([v[name]["other"][1] for v in vectors])) for name in vectors[0]}
    evidence = "mean cosine of clients of other labels: "
    evidence += ", ".join(f"{name.replace('_', ' ')} {value:.3f}" for name, value in means.items())
    return Finding(means[vector] > above, evidence, [*found], means[vector])


def wrong_pairs(
    runs: RunSet, *, what: str, more_than: float = -1, at_most: float = 100, **where: Any
) -> Finding:
    """Hold where every run ends with so many percent of the pairs of clients wrong."""
    found = chosen(runs, what, **where)
    shares = [record.metrics["wrong_pairs"][-1] for record in found.values()]
    numbers = [record.metrics["clusters"][-1] for record in found.values()]
    evidence = "; ".join(
        f"{in_percent(share)} of the pairs wrong, {number:.1f} clusters"
        for share, number in zip(shares, numbers, strict=True)
    )
    holds = all(more_than < 100 * share <= at_most + SLACK for share in shares)
    return Finding(holds, evidence, [*found], float(np.mean(shares)))


# Figures 9 and 10


def nearer_to_truth(runs: RunSet, *, what: str, than: str, **where: Any) -> Finding:
    """Hold where the error of the similarities, mean over the rounds, is smaller."""

    def error(record: RunRecord) -> float:
        return float(np.mean(record.metrics["similarity_error"]))

    one, other = _both(runs, what, than, error, where)
    evidence, gain = listed([one, other], "{:.4f}".format), other.mean - one.mean
    return Finding(gain > 0, evidence, [*one.runs, *other.runs], gain)


def pairs_known(runs: RunSet, *, what: str, percent: float, **where: Any) -> Finding:
    """Theorem III.4: that many pairs are known when all clients are expected to be seen."""

    def seen(record: RunRecord) -> int:
        drawn = record.spec["algorithm"]["participants"]
        expected = round(rounds_to_see_all(len(record.partition.counts), drawn))
        return min(expected, len(record.metrics["pairs_known"]))

    found = chosen(runs, what, **where)
    rounds = [seen(record) for record in found.values()]
    shares = [
        record.metrics["pairs_known"][after - 1]
        for record, after in zip(found.values(), rounds, strict=True)
    ]
    evidence = f"pairs known after {rounds[0]} rounds: " + ", ".join(map(in_percent, shares))
    return Finding(min(shares) >= percent / 100, evidence, [*found], float(np.mean(shares)))


def varies_more(runs: RunSet, *, group: str, axis: str, other: str) -> Finding:
    """Hold where the best accuracy ranges wider along one axis of a grid than along the other."""
    runs.require([group], "Fig. 10")
    found = results(runs, [group])
    means = found.assign(best=found["record"].map(best)).groupby([axis, other])["best"].mean()
    ranges = {name: float(np.ptp(means.groupby(name).mean())) for name in (axis, other)}
    evidence = ", ".join(f"range over the {n} {in_points(v)}" for n, v in ranges.items())
    return Finding(ranges[axis] > ranges[other], evidence, list(found["run"]))


# What the authors' code does


def is_lost(runs: RunSet, *, what: str, images: int, of: int, **where: Any) -> Finding:
    """Hold where every run stops being finite, and ends with every image in class 0.

    Which so many ``images`` are, ``of`` all test images.
    """
    found = chosen(runs, what, **where)
    parts, holds = [], True
    for record in found.values():
        finite, end = record.metrics["finite"], record.metrics["accuracy"][-1]
        lost = f"not a number from round {finite.index(0) + 1}" if 0 in finite else "never lost"
        parts.append(f"{lost}, accuracy {in_percent(end)}")
        holds &= 0 in finite and abs(end - images / of) < ROUNDED
    return Finding(holds, ", ".join(parts), [*found])


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


# The partitions: the text against the authors' lists


def cluster_sizes(runs: RunSet, *, what: str, sizes: list[int], **where: Any) -> Finding:
    """Section V.A: clusters of so many clients, of unequal amounts."""
    found = chosen(runs, what, **where)
    counts = np.array(next(iter(found.values())).partition.counts)
    _, clients = np.unique(counts > 0, axis=0, return_counts=True)
    largest_first = sorted(map(int, clients), reverse=True)
    unequal = len(np.unique(counts.sum(axis=1))) > 1
    evidence = f"clusters of {largest_first} clients, {'un' if unequal else ''}equal amounts"
    return Finding(largest_first == sizes and unequal, evidence, [*found][:1])


def main_cluster(
    runs: RunSet, *, what: str, kinds: Sequence[str], percent: float, **where: Any
) -> Finding:
    """Section V.C: the largest cluster of each partition holds that share of the clients."""
    shares, used = {}, list[str]()
    for kind in kinds:
        run, record = next(iter(chosen(runs, what, kind=kind, **where).items()))
        facts = partition_facts(record.partition.counts)
        shares[kind] = facts["largest cluster"] / facts["clients"]
        used.append(run)
    evidence = ", ".join(
        f"{title_of(runs, kind)}: {in_percent(share)}" for kind, share in shares.items()
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
        names = [record.final["cluster_of"] for record in found.values()]
        ends = [
            [[i for i, own in enumerate(end) if own == name] for name in sorted({*end})]
            for end in names
        ]
        evidence = f"clusters {'; '.join(map(str, ends))}"
        return Finding(all(holds(end, one, other) for end in ends), evidence, [*found])

    return rule


def _parted(clusters: list[list[int]], one: list[int], other: list[int]) -> bool:
    return not any({*one} & {*cluster} and {*other} & {*cluster} for cluster in clusters)


# The paper's own numbers


def _table1(paper: str) -> dict[tuple[str, str], float]:
    """Return Table I as published, with PILL."""
    pill = published(paper, "pill").items()
    cells = {("PILL 3/10", row): value for (row, column), value in pill if column == PRINTED_PILL}
    return published(paper, "table1") | cells


def gains_follow(runs: RunSet, *, what: str, points: float) -> Finding:
    """Hold where Impr. (a) and (b) are the relative gains from Table I, to the digit printed."""
    cells, ours = _table1(runs.paper), title_of(runs, what)
    rows = {row for row, column in cells if column == OVER_FEDAVG}
    worst = max(
        abs(cells[row, ours] / max(cells[row, name] for name in over) - 1 - cells[row, column])
        for row in rows
        for column, over in ((OVER_FEDAVG, BASELINES[:1]), (OVER_BEST, BASELINES))
    )
    evidence = f"largest difference {in_points(worst)} over {len(rows)} rows"
    return Finding(worst <= points / 100 + SLACK, evidence, [], worst)


def largest_gain(runs: RunSet, *, percent: float, points: float) -> Finding:
    """Hold where the largest gain over FedAvg in Table I is the one that the abstract has."""
    cells = _table1(runs.paper)
    largest = max(value for (_, column), value in cells.items() if column == OVER_FEDAVG)
    evidence = f"text {percent:g} %; largest in Table I {in_percent(largest)}"
    return Finding(abs(largest - percent / 100) <= points / 100 + SLACK, evidence, [], largest)


def among_best(runs: RunSet, *, what: str, places: int) -> Finding:
    """Hold where so few federated methods are above ``what`` in each column of Table III."""
    cells, ours = published(runs.paper, "table3"), title_of(runs, what)
    found = {
        column: 1 + sum(cells[name, column] > cells[ours, column] for name in BASELINES)
        for column in sorted({column for _, column in cells})
    }
    evidence = ", ".join(f"{column}: place {number}" for column, number in found.items())
    return Finding(max(found.values()) <= places, evidence, [], max(found.values()))


def no_better(runs: RunSet, *, dataset: str, kind: str, kinds: Sequence[str]) -> Finding:
    """Hold where central training reaches no more on one partition than on the best other."""
    cells = published(runs.paper, "table3")
    names = [title_of(runs, name) for name in (kind, *kinds)]
    one, *others = (cells[SINGLESET, f"{title_of(runs, dataset)} {name}"] for name in names)
    evidence = ", ".join(f"{n} {in_percent(v)}" for n, v in zip(names, [one, *others], strict=True))
    return Finding(one <= max(others), evidence, [], one)


def _strict(rule: Rule) -> Rule:
    """Say in a rule's signature which values choose its runs, so that others are refused."""
    *own, last = inspect.signature(rule).parameters.values()
    if last.kind is inspect.Parameter.VAR_KEYWORD:
        named = {parameter.name for parameter in own} | {"what"}
        where = [p for p in inspect.signature(chosen).parameters.values() if p.name not in named]
        rule.__signature__ = inspect.Signature([*own, *where])  # type: ignore[attr-defined]
    return rule


_RULES: dict[str, Rule] = {
    "leads": leads(accuracy),
    "leads_late": leads(late_accuracy),
    "near": near(accuracy),
    "leads_at_each": leads_at_each,
    "no_later": no_later,
    "steadier": steadier,
    "serves_clients": serves_clients,
    "only_own_rows_rise": every_client(_only_own_rows_rise),
    "rising_rows_are_labels": every_client(_rising_rows_are_labels),
    "recovers_clusters": recovers_clusters,
    "merges_all": merges_all,
    "cosines_exceed": cosines_exceed,
    "wrong_pairs": wrong_pairs,
    "nearer_to_truth": nearer_to_truth,
    "pairs_known": pairs_known,
    "varies_more": varies_more,
    "is_lost": is_lost,
    "oscillates": oscillates,
    "cluster_sizes": cluster_sizes,
    "main_cluster": main_cluster,
    "parts_groups": every_end(_parted),
    "finds_groups": every_end(lambda clusters, one, other: clusters == [one, other]),
    "gains_follow": gains_follow,
    "largest_gain": largest_gain,
    "among_best": among_best,
    "no_better": no_better,
}

CLAIMS = {name: _strict(rule) for name, rule in _RULES.items()}
