"""Liu, Lee, Julien 2020: the rules that decide the claims of ``config/expected/selective.yaml``.

``what`` is a method, and ``n`` the percentage balanced. Further values of a claim say of which
network, in which reading, of which variant (as the labels of the plan) and on which test.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fedrepro.papers.selective.measurements import (
    NETWORKS,
    TESTS,
    Sent,
    Test,
    curve,
    metric,
    over_percents,
    published_curve,
    sent_at_zero,
)
from fedrepro.papers.selective.theory import ROUNDS, UnfairOptimum, course
from fedrepro.report.finding import SLACK, Finding, Margin, in_percent, in_points, not_planned
from fedrepro.report.rules import (
    Rules,
    Sample,
    between,
    combined,
    compared,
    lead,
    leads,
    less,
    listed,
    near,
    together,
    universal,
)
from fedrepro.runs.runset import RunSet


def _group(
    runs: RunSet, what: str, *, network: str, reading: str = "", variant: str = "", test: str = ""
) -> str:
    """Return the group of runs that a claim means, the same for either test.

    Centralised and local training have no reading, and stand for both; where a variant has none of
    its own, the plain one stands for it.
    """
    groups = runs.labelled(network=network)
    named = {curve(**runs.plan.runs[group].labels): group for group in groups}
    meant = curve(method=what, reading=reading, variant=variant)
    return named.get(meant) or named.get(curve(method=what, variant=variant)) or named[what]


def _trained(
    runs: RunSet, *methods: str, first: int = 0, last: int = 100, **where: Any
) -> list[int]:
    """Return the values of N, ``first`` to ``last``, at which there are runs of all these methods.

    Raises:
        FedreproError: there is none.
    """
    return _common(runs, [_group(runs, method, **where) for method in methods], first, last)


def _common(runs: RunSet, groups: Sequence[str], first: int, last: int) -> list[int]:
    trained = [{run.coordinates["percent"] for run in runs.members([group])} for group in groups]
    common = sorted(int(n) for n in set.intersection(*trained) if first <= int(n) <= last)
    if not common:
        raise not_planned(runs, " and ".join(groups), f"N from {first} to {last}")
    return common


def accuracy(
    runs: RunSet,
    what: str,
    *,
    network: str,
    test: Test,
    n: int,
    reading: str = "",
    variant: str = "",
) -> Sample:
    """Return the accuracy of a method at one N; centralised training has N = 100.

    Raises:
        FedreproError: no run of the scale has this N.
    """
    group = _group(runs, what, network=network, reading=reading, variant=variant)
    labels = runs.plan.runs[group].labels
    members = [run for run in runs.members([group]) if run.coordinates.get("percent", 100) == n]
    if not members:
        raise not_planned(runs, group, f"N = {n}")
    return Sample.of_runs(
        f"{curve(**labels)} ({TESTS[test]}, N = {n})",
        members,
        (runs.record(run).final[metric(test, **labels)] for run in members),
        on=runs.evaluated([group]),
    )


RULES = Rules(where=_group)
RULES.add(near(accuracy), "near")
RULES.add(between(accuracy), "between")
RULES.add(leads(accuracy), "leads")


@RULES.add
def collapses(
    runs: RunSet,
    *,
    what: str,
    n: int,
    iid: Sequence[float],
    noniid: Sequence[float],
    **where: Any,
) -> Finding:
    """Decide whether the accuracy is between two bounds, in percent, on either test."""
    parts = [
        between(accuracy)(runs, what=what, n=n, test=test, low=low, high=high, **where)
        for test, (low, high) in {"iid": iid, "noniid": noniid}.items()
    ]
    return together(parts, parts[0].ours)


@RULES.add
def rises_steeply(
    runs: RunSet, *, what: Sequence[str], first: int, by: int, last: int, share: float, **where: Any
) -> Finding:
    """Decide whether at N = ``by`` every method has more than ``share`` percent of its gain."""
    shares, samples, margins = {}, [], []
    for method in what:
        early = _trained(runs, method, last=by, **where)[-1]
        path = [accuracy(runs, method, n=n, **where) for n in (first, early, last)]
        start, middle, end = path
        gain = less(end, start, strict=True)
        part = lead(middle, start) / gain.value if gain.met else 0.0
        shares[f"{method} (N = {early}) {in_percent(part)}"] = part
        samples += path
        margins += [gain, _beyond(share / 100, *path)]
    evidence = f"share of the gain: {', '.join(shares)}"
    return compared(samples, margins, min(shares.values()), evidence)


def _beyond(share: float, start: Sample, middle: Sample, end: Sample) -> Margin:
    """Return by how much the middle is beyond a share of the way from start to end."""
    gained = f"{middle.name} - {start.name} - {share:g} x ({end.name} - {start.name})"
    terms = [(1.0, middle), (share - 1, start), (-share, end)]
    return combined(terms, 0, gained, strict=True)


@RULES.add
@universal
def ahead(
    runs: RunSet,
    *,
    what: str,
    over: str,
    last: int,
    points: float,
    at_zero: float | None = None,
    **where: Any,
) -> Finding:
    """Decide whether a method leads by more than ``points`` up to an N, and by more at N = 0."""
    pairs = {
        n: (accuracy(runs, what, n=n, **where), accuracy(runs, over, n=n, **where))
        for n in _trained(runs, what, over, last=last, **where)
    }
    leads_by = {n: lead(*pair) for n, pair in pairs.items()}
    least = min(leads_by, key=lambda n: leads_by[n])
    margins = [less(one, other, points / 100, strict=True) for one, other in pairs.values()]
    if at_zero is not None:
        one, other = (accuracy(runs, method, n=0, **where) for method in (what, over))
        margins.append(less(one, other, at_zero / 100, strict=True))
    first = min(leads_by)
    evidence = (
        f"lead of {what} over {over}: {in_points(leads_by[first])} at N = {first}, smallest "
        f"{in_points(leads_by[least])} at N = {least}"
    )
    return compared([*itertools.chain(*pairs.values())], margins, leads_by[least], evidence)


@RULES.add
@universal
def no_worse(
    runs: RunSet, *, what: str, over: str, last: int, points: float, **where: Any
) -> Finding:
    """Decide whether a method is less than so many points below another up to an N."""
    return ahead(runs, what=what, over=over, last=last, points=-points, **where)


@RULES.add
def published_no_worse(
    runs: RunSet, *, figure: str, network: str, what: str, over: str, last: int, points: float
) -> Finding:
    """Decide whether a published curve is less than so many points below another up to an N."""
    curves = (published_curve(figure, method) for method in (what, over))
    one, other = (dict(zip(each.x, each.published, strict=True)) for each in curves)
    leads_by = {n: one[n] - other[n] for n in sorted(one.keys() & other.keys()) if n <= last}
    least = min(leads_by, key=lambda n: leads_by[n])
    behind = sum(gap < 0 for gap in leads_by.values())
    evidence = (
        f"published lead of {what} over {over} for {NETWORKS[network]}: smallest "
        f"{in_points(leads_by[least])} at N = {least:g}; behind at {behind} of {len(leads_by)} N"
    )
    return Finding(leads_by[least] > SLACK - points / 100, evidence, [], leads_by[least])


@RULES.add
@universal
def best_or_tied(
    runs: RunSet, *, what: str, last: int, selective: float, local: float, **where: Any
) -> Finding:
    """Decide whether a method is less than so many points below selective and below local."""
    parts = [
        no_worse(runs, what=what, over=over, last=last, points=points, **where)
        for over, points in {"selective": selective, "local": local}.items()
    ]
    return together(parts, min(part.ours or 0.0 for part in parts))


@RULES.add
def falls(
    runs: RunSet, *, what: str, first: int, last: int, points: float, **where: Any
) -> Finding:
    """Decide whether the accuracy falls by more than ``points`` from one N to another."""
    start, end = (accuracy(runs, what, n=n, **where) for n in (first, last))
    fall = less(start, end, points / 100, strict=True)
    return compared([start, end], [fall], lead(start, end))


@RULES.add
def meet(
    runs: RunSet,
    *,
    what: str,
    to: str,
    n: int,
    points: float,
    over: str = "",
    by: Sequence[float] = (),
    **where: Any,
) -> Finding:
    """Decide whether on both tests a method is at most ``points`` from another.

    And by between two numbers of points above a third, if that is given.
    """
    parts = []
    for test in TESTS:
        here = {"what": what, "n": n, "test": test, **where}
        parts.append(near(accuracy)(runs, to=to, points=points, **here))
        if over:
            least, most = by
            parts.append(leads(accuracy)(runs, over=over, points=least, at_most=most, **here))
    return together(parts, None)


@RULES.add
@universal
def grouping(
    runs: RunSet, *, what: str, n: int, sizes: Sequence[int], first: int, **where: Any
) -> Finding:
    """Decide whether groups have these sizes at one N, and are one from ``first`` on."""
    group = _group(runs, what, **where)
    finals = runs.final([group], ["groups"])
    start, later = finals[finals["percent"] == n], finals[finals["percent"] >= first]
    for place, cells in ((f"N = {n}", start), (f"N from {first} on", later)):
        if cells.empty:
            raise not_planned(runs, group, place)
    found = [sorted(len(nodes) for nodes in groups) for groups in start["groups"]]
    several = later[later["groups"].map(len) != 1]
    shown = ", ".join(sorted({"+".join(map(str, of_run)) for of_run in found}))
    at = ", ".join(map(str, sorted(set(several["percent"]))))
    return Finding(
        holds=all(of_run == sorted(sizes) for of_run in found) and several.empty,
        evidence=f"sizes of the groups at N = {n}: {shown}; runs with more than one group from "
        f"N = {first} on: {len(several)} of {len(later)}" + (f" (N = {at})" if at else ""),
        runs=[*start["run"], *later["run"]],
        ours=float(len(several)),
    )


@RULES.add
def storage_alone(
    runs: RunSet,
    *,
    what: str,
    n: int,
    shared: str,
    apart: str,
    below: float,
    points: float,
    **where: Any,
) -> Finding:
    """Decide whether the variant ``shared`` as run is below so many percent.

    And more than ``points`` below the variant ``apart`` as written.
    """
    low = accuracy(runs, what, n=n, reading="as_run", variant=shared, **where)
    high = accuracy(runs, what, n=n, reading="as_written", variant=apart, **where)
    margins = [low.below(below / 100, strict=True), less(high, low, points / 100, strict=True)]
    return compared([low, high], margins, low.mean)


@RULES.add
def rises_with_complexity(
    runs: RunSet,
    *,
    what: str,
    networks: Sequence[str],
    test: Test,
    n: int,
    points: float,
    reading: str,
) -> Finding:
    """Decide whether the accuracy rises from network to network by more than ``points``."""
    where: dict[str, Any] = {"test": test, "n": n, "reading": reading}
    samples = [
        replace(accuracy(runs, what, network=network, **where), name=NETWORKS[network])
        for network in networks
    ]
    steps = list(itertools.pairwise(samples))
    margins = [less(after, before, points / 100, strict=True) for before, after in steps]
    return compared(samples, margins, min(lead(after, before) for before, after in steps))


@RULES.add
@universal
def rises_with_complexity_everywhere(
    runs: RunSet, *, what: str, networks: Sequence[str], test: Test, last: int, reading: str
) -> Finding:
    """Decide whether the accuracy rises from network to network at every N up to one."""
    groups = [_group(runs, what, network=network, reading=reading) for network in networks]
    common = _common(runs, groups, 0, last)
    parts, rises = list[Finding](), dict[int, float]()
    for n in common:
        part = rises_with_complexity(
            runs, what=what, networks=networks, test=test, n=n, points=0, reading=reading
        )
        margins = [replace(each, what=f"{each.what}, N = {n}") for each in part.margins]
        parts.append(replace(part, margins=margins))
        rises[n] = part.ours or 0.0
    least = min(rises, key=lambda n: rises[n])
    evidence = f"smallest rise at {len(common)} N: {in_points(rises[least])} at N = {least}"
    return together(parts, rises[least], evidence)


@RULES.add
def loses_less(
    runs: RunSet, *, what: str, than: str, first: int, last: int, **where: Any
) -> Finding:
    """Decide whether from one N down to another a method loses less accuracy than another."""
    one, other = (
        [accuracy(runs, method, n=n, **where) for n in (first, last)] for method in (what, than)
    )
    (low, high), (their_low, their_high) = one, other
    saved = f"what {than} loses - what {what} loses"
    terms = [(1.0, low), (-1.0, high), (-1.0, their_low), (1.0, their_high)]
    margin = combined(terms, 0, saved, strict=True)
    evidence = (
        f"lost from N = {last} to N = {first}: {what} {in_points(lead(high, low))}, {than} "
        f"{in_points(lead(their_high, their_low))}"
    )
    return compared([*one, *other], [margin], margin.value, evidence)


@RULES.add
@universal
def robust(runs: RunSet, *, what: str, first: int, percent: float, **where: Any) -> Finding:
    """Decide whether on both tests the accuracy is above ``percent`` at every N from one on."""
    samples = [
        accuracy(runs, what, test=test, n=n, **where)
        for test in TESTS
        for n in _trained(runs, what, first=first, **where)
    ]
    least = min(samples, key=lambda sample: sample.mean)
    margins = [sample.above(percent / 100, strict=True) for sample in samples]
    return compared(samples, margins, least.mean, f"lowest: {listed([least])}")


@RULES.add
def robust_at(
    runs: RunSet, *, what: str, to: str, network: str, n: int, points: float, **where: Any
) -> Finding:
    """Decide whether on both tests it is at most so many points below training on all data."""
    whole = accuracy(runs, to, network=network, test="iid", n=100)
    parts = [accuracy(runs, what, network=network, test=test, n=n, **where) for test in TESTS]
    margins = [less(part, whole, -points / 100) for part in parts]
    return compared([whole, *parts], margins, min(lead(part, whole) for part in parts))


def _tuned(runs: RunSet, n: Sequence[int], what: str) -> dict[float, Sample]:
    """Return an accuracy at every threshold, ascending: the mean over these N, seed by seed."""
    means = over_percents(runs, n).sort_values(["threshold", "seed"])
    samples: dict[float, Sample] = {}
    for threshold in means["threshold"].unique().tolist():
        cells = means[means["threshold"] == threshold]
        ids = tuple(itertools.chain(*cells["run"]))
        sample = Sample.of(f"{threshold:g}", cells, what)
        samples[threshold] = replace(sample, runs=ids, fraction=True)
    return samples


def _best(samples: Mapping[float, Sample]) -> float:
    """Return the threshold of the best mean; of equally good ones the lowest."""
    most = max(sample.mean for sample in samples.values())
    return min(value for value, sample in samples.items() if sample.mean >= most - SLACK)


@RULES.add
def threshold_is_tuned(
    runs: RunSet, *, n: Sequence[int], printed: float, low: float, high: float
) -> Finding:
    """Decide whether the best threshold on the tuning images lies between two values.

    It does if one between them is at least as good as any above, and better than any below.
    """
    tuning = _tuned(runs, n, "tuning")
    inside = {value: sample for value, sample in tuning.items() if low <= value <= high}
    best, champion = _best(tuning), inside[_best(inside)]
    margins = [
        less(champion, sample, what=f"at {champion.name} - at {sample.name}", strict=value < low)
        for value, sample in tuning.items()
        if value not in inside
    ]
    evidence = (
        f"best on the tuning images: {best:g} with {in_percent(tuning[best].mean)}; "
        f"{printed:g} has {in_percent(tuning[printed].mean)}"
    )
    return compared([*tuning.values()], margins, best, evidence)


@RULES.add
def threshold_costs_little(
    runs: RunSet, *, n: Sequence[int], printed: float, points: float
) -> Finding:
    """Decide whether a threshold is at most ``points`` below the best on the non-IID test."""
    best = _best(_tuned(runs, n, "tuning"))
    noniid = _tuned(runs, n, "noniid")
    chosen, usual = noniid[best], noniid[printed]
    evidence = (
        f"non-IID test, mean over N: {in_percent(chosen.mean)} at the tuned threshold {best:g}, "
        f"{in_percent(usual.mean)} at {printed:g}"
    )
    margin = less(usual, chosen, -points / 100, f"at {usual.name} - at {chosen.name}")
    return compared([*noniid.values()], [margin], lead(chosen, usual), evidence)


def _sent(runs: RunSet, what: str, **where: str) -> Sent:
    """Return what a method sends at N = 0."""
    group = _group(runs, what, **where)
    found = sent_at_zero(runs, group)
    if found is None:
        raise not_planned(runs, group, "N = 0")
    return found


@RULES.add
def rounds_added(runs: RunSet, *, what: str, over: str, rounds: int, **where: Any) -> Finding:
    """Decide whether a method communicates in so many rounds more than another."""
    one, other = (_sent(runs, method, **where) for method in (what, over))
    added = one.rounds - other.rounds
    evidence = f"rounds of communication: {what} {one.rounds}, {over} {other.rounds}"
    return Finding(added == rounds, evidence, [one.run.id, other.run.id], float(added))


@RULES.add
def grouping_costs_rounds(runs: RunSet, *, what: str, rounds: float, **where: Any) -> Finding:
    """Decide whether what is sent to form groups is at most so many rounds' worth of models."""
    sent = _sent(runs, what, **where)
    a_round = sent.models / sent.run.spec.rounds
    evidence = (
        f"images and vectors to form groups: {sent.other:.1f} MB; models of one round: "
        f"{a_round:.1f} MB"
    )
    worth = sent.other / a_round
    return Finding(worth <= rounds, evidence, [sent.run.id], worth)


@RULES.add
def unfair_optimum(
    runs: RunSet, *, factors: Sequence[float], gammas: Sequence[float], share: float, percent: float
) -> Finding:
    """Decide whether the global loss converges while one node's goes to C times its minimum.

    Both to within ``percent``: of Gamma, and of C. Computed; no run is trained for it.
    """
    excesses, ratios = [], []
    for factor, gamma in itertools.product(factors, gammas):
        over_rounds, node = course(UnfairOptimum(factor, share, gamma))
        excesses.append(float(over_rounds[-1]))
        ratios.append(float(node[-1]) / factor)
    excess, ratio = max(excesses), max(ratios, key=_off)
    evidence = (
        f"after {ROUNDS} rounds, at worst: global loss {in_percent(excess)} of Gamma above its "
        f"minimum, loss of node N {in_percent(ratio)} of C times its own"
    )
    return Finding(max(excess, _off(ratio)) <= percent / 100, evidence, [], ratio)


def _off(ratio: float) -> float:
    return abs(ratio - 1)
