"""Kopparapu, Lin, Zhao 2020: what decides the claims.

Their values stand in ``config/expected/fedcd.yaml``: experiments and methods by the plan's labels,
``points`` in percentage points, rounds from 0, from ``first`` to ``last`` inclusive. Where there
are several seeds, accuracies are means over them and counts have to hold for each. The last rules
are about the paper's own numbers and rest on no run.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from fedrepro.papers.fedcd.measurements import (
    FEDAVG,
    FEDCD,
    PASSES_RATIO,
    ROUNDS,
    Floats,
    Log,
    by_rising_bias,
    changes_of,
    common_rounds,
    converged,
    hypergeometric_law,
    logs,
    megabytes,
    params,
    rounds_trained,
)
from fedrepro.report.expected import load_expected, published
from fedrepro.report.finding import SLACK, Finding, Margin, in_percent, in_points, not_planned
from fedrepro.report.rules import (
    Names,
    Rule,
    Rules,
    Sample,
    amount,
    combined,
    compared,
    lead,
    leads,
    less,
    listed,
    taking,
)
from fedrepro.runs.runset import RunSet


def _logs(
    runs: RunSet, method: str, *, experiment: Names, first: int = 0, last: int | None = None
) -> list[Log]:
    """Return the logs of experiments, cut to some rounds.

    Raises:
        FedreproError: the plan has none at this scale.
    """
    names = [experiment] if isinstance(experiment, str) else experiment
    found = [log.cut(first, last) for name in names for log in logs(runs, name, method)]
    if not found:
        raise not_planned(runs, f"{', '.join(names)}, {method}", "run")
    return found


RULES = Rules(where=_logs)


def _ids(logs_: Iterable[Log]) -> list[str]:
    return [log.run.id for log in logs_]


def _by_logs(decide: Callable[..., Finding]) -> Rule:
    """Add the rule that decides by the logs of experiments, cut to some rounds: a decorator.

    Args:
        decide: gets the logs, one a seed, and its values.
    """

    def rule(
        runs: RunSet,
        *,
        experiment: Names,
        method: str = FEDCD,
        first: int = 0,
        last: int | None = None,
        **values: Any,
    ) -> Finding:
        found = _logs(runs, method, experiment=experiment, first=first, last=last)
        return decide(found, **values)

    return RULES.add(taking(rule, decide, skip=1), decide.__name__)


def _sample(
    name: str, found: Sequence[Log], values: Iterable[float], *, fraction: bool = True
) -> Sample:
    """Return values of logs, one of each, by seed."""
    return Sample.of_runs(name, [log.run for log in found], values, fraction=fraction)


def _over_rounds(
    name: str,
    found: Sequence[Log],
    rounds: Callable[[Log], Floats | Sequence[float]],
    *,
    fraction: bool = True,
) -> Sample:
    """Return the mean of some rounds of each log, as :meth:`Sample.over_rounds`."""
    runs = [log.run for log in found]
    return Sample.over_rounds(name, runs, map(rounds, found), fraction=fraction)


def _of_archetype(found: Sequence[Log], a: int) -> Sample:
    """Return the mean accuracy of an archetype over the rounds of logs."""
    return _over_rounds(f"archetype {a}", found, lambda log: log.by_archetype[:, a])


def _shown(values: Mapping[str, float], show: Callable[[float], str]) -> str:
    """Return names and values: ``FedCD: 91.52 %, FedAvg: 60.00 %``."""
    return ", ".join(f"{name}: {show(value)}" for name, value in values.items())


def _in_turn(values: Iterable[float]) -> str:
    return ", ".join(map(in_percent, values))


def _rounds_told(rounds: Iterable[int | None]) -> list[str]:
    """Return what to say of rounds of convergence."""
    return ["not converged" if t is None else f"round {t}" for t in rounds]


# Accuracies and their changes


def accuracy(
    runs: RunSet,
    what: int,
    *,
    of: Literal["archetype", "meta-archetype"],
    experiment: str,
    first: int,
    last: int,
    method: str = FEDCD,
    above_label: bool = False,
) -> Sample:
    """Return a method's mean accuracy of an archetype, or of a meta-archetype, in some rounds.

    With ``above_label`` it is less the share of each device's most frequent label.
    """

    def rounds(log: Log) -> Floats:
        above = log.by_archetype - (log.majority if above_label else 0)
        chosen = [what] if of == "archetype" else log.metas == what
        mean: Floats = above[:, chosen].mean(axis=1)
        return mean

    found = _logs(runs, method, experiment=experiment, first=first, last=last)
    return _over_rounds(f"{of} {what}", found, rounds)


RULES.add(leads(accuracy), "leads")


@RULES.add
def gains_more(
    runs: RunSet, *, what: Sequence[int], over: Sequence[int], than: str, **where: Any
) -> Finding:
    """FedCD's gain over another method is larger on each of some archetypes than on others."""
    ours, theirs = (
        {a: _of_archetype(found, a) for a in (*what, *over)}
        for found in (_logs(runs, method, **where) for method in (FEDCD, than))
    )
    gains = {a: lead(ours[a], theirs[a]) for a in ours}
    margins = [
        combined(
            [(1, ours[a]), (-1, theirs[a]), (-1, ours[b]), (1, theirs[b])],
            what=f"gain on archetype {a} - on archetype {b}",
            strict=True,
        )
        for a, b in itertools.product(what, over)
    ]
    evidence = _shown({f"archetype {a}": gain for a, gain in gains.items()}, in_points)
    least = min(gains[a] for a in what) - max(gains[b] for b in over)
    return compared([*ours.values(), *theirs.values()], margins, least, evidence)


@RULES.add
def leads_everywhere(runs: RunSet, *, what: str, over: str, **where: Any) -> Finding:
    """Every archetype has a higher accuracy under one method than under the other."""
    high, low = (
        [_of_archetype(found, a) for a in range(len(found[0].metas))]
        for found in (_logs(runs, method, **where) for method in (what, over))
    )
    pairs = [*zip(high, low, strict=True)]
    margins = [
        less(one, other, what=f"{what} - {over}, {one.name}", strict=True) for one, other in pairs
    ]
    evidence = "; ".join(
        f"{method} {_in_turn(sample.mean for sample in of)}"
        for method, of in ((what, high), (over, low))
    )
    return compared([*high, *low], margins, min(lead(*pair) for pair in pairs), evidence)


@_by_logs
def converges(found: list[Log], *, about: int, within: int, points: float, window: int) -> Finding:
    """FedCD has converged by about some round."""
    rounds = [converged(log.change, points, window) for log in found]
    met = [t for t in rounds if t is not None]
    holds = len(met) == len(rounds) and max(met) <= about + within
    mean = float(np.mean(met)) if met else None
    return Finding(holds, "; ".join(_rounds_told(rounds)), _ids(found), mean)


@RULES.add
def converges_sooner(
    runs: RunSet, *, what: str, than: str, points: float, window: int, **where: Any
) -> Finding:
    """One method converges in an earlier round than the other, which need not converge.

    Both are looked at in the rounds that all of their runs have.
    """
    used = {name: _logs(runs, name, **where) for name in (what, than)}
    both = common_rounds(itertools.chain(*used.values()))
    rounds = {
        name: [converged(log.change[:both], points, window) for log in of]
        for name, of in used.items()
    }
    early, late = (  # a run that does not converge counts as later than any that does
        _sample(name, of, (both if t is None else t for t in rounds[name]), fraction=False)
        for name, of in used.items()
    )
    evidence = "; ".join(f"{name}: {', '.join(_rounds_told(of))}" for name, of in rounds.items())
    margins = [less(late, early, strict=True)]
    return compared([early, late], margins, early.mean, evidence)


@_by_logs
def calms_down(found: list[Log], *, until: int, above: float, since: int, below: float) -> Finding:
    """The mean change exceeds ``above`` points up to a round, and stays low from another on."""
    early = _sample("early", found, (log.change[1 : until + 1].max() for log in found))
    late = _sample("late", found, (log.change[since:].max() for log in found))
    evidence = (
        f"largest: {in_points(early.mean)} up to round {until}, {in_points(late.mean)} from "
        f"{since} on"
    )
    margins = [early.above(above / 100, strict=True), late.below(below / 100, strict=True)]
    return Finding.of(margins, evidence, _ids(found), late.mean)


@_by_logs
def moves_together(found: list[Log]) -> Finding:
    """Curves of archetypes correlate more within meta-archetypes than across."""
    within, across = (
        _sample(name, found, [_correlation(log, together) for log in found], fraction=False)
        for name, together in (("correlation within", True), ("across", False))
    )
    evidence = f"mean correlation {within.mean:.2f} within, {across.mean:.2f} across"
    margins = [less(within, across, strict=True)]
    return Finding.of(margins, evidence, _ids(found), within.mean - across.mean)


def _correlation(log: Log, together: bool) -> float:
    """Return the mean correlation of the curves of two archetypes, of one meta-archetype or not."""
    curves = log.by_archetype
    pairs = itertools.combinations(np.flatnonzero(curves.std(axis=0)), 2)
    return float(
        np.mean(
            [
                np.corrcoef(curves[:, a], curves[:, b])[0, 1]
                for a, b in pairs
                if bool(log.metas[a] == log.metas[b]) is together
            ]
        )
    )


@RULES.add
def changes_more(runs: RunSet, *, what: str, than: str, times: float = 1, **where: Any) -> Finding:
    """The mean change is larger under one method, so many times or more."""
    low, high = (
        _over_rounds(name, _logs(runs, name, **where), lambda log: log.change)
        for name in (than, what)
    )
    terms, difference = [(1, high), (-times, low)], f"{what} - {times:g} x {than}"
    margins = [combined(terms, what=difference, strict=times <= 1)]
    evidence = _shown({than: low.mean, what: high.mean}, in_points)
    ratio = high.mean / low.mean if low.mean else None
    return compared([low, high], margins, ratio, evidence, networks=())


@_by_logs
def stays_restless(
    found: list[Log], *, spans: Sequence[int], window: int, points: float
) -> Finding:
    """The mean change of the last rounds of each span is that large or larger."""
    samples = {
        f"of {span}": _sample(
            f"last rounds of {span}",
            found,
            (log.change[span - window : span].mean() for log in found),
        )
        for span in spans
    }
    margins = [sample.above(points / 100) for sample in samples.values()]
    means = {name: sample.mean for name, sample in samples.items()}
    evidence = f"last rounds {_shown(means, in_points)}"
    return Finding.of(margins, evidence, _ids(found), min(means.values()))


@_by_logs
def gains_little(found: list[Log], *, points: float) -> Finding:
    """From the first to the last round the mean accuracy of all devices gains less."""
    gains = [log.accuracy[-1].mean() - log.accuracy[0].mean() for log in found]
    gain = _sample("gain", found, gains)
    margins = [gain.below(points / 100, strict=True)]
    return Finding.of(margins, f"gain of {in_points(gain.mean)}", _ids(found), gain.mean)


def _all_devices(log: Log) -> Floats:
    """Return the mean accuracy of all devices, [rounds]."""
    mean: Floats = log.accuracy.mean(axis=1)
    return mean


@RULES.add
def leads_overall(runs: RunSet, *, what: str, over: str, **where: Any) -> Finding:
    """The mean accuracy of all devices is higher under one method than under the other."""
    high, low = (
        _over_rounds(name, _logs(runs, name, **where), _all_devices) for name in (what, over)
    )
    return compared([high, low], [less(high, low, strict=True)], lead(high, low))


def _by_bits(found: Iterable[Log], bits: Sequence[int]) -> dict[str, list[Log]]:
    """Return the logs of each number of bits, and of unquantised models."""
    wanted = {number: f"{number} bits" for number in bits} | {None: "unquantised"}
    groups: dict[str, list[Log]] = {name: [] for name in wanted.values()}
    for log in found:
        number = params(log.run.spec).quantise_bits
        if number in wanted:
            groups[wanted[number]].append(log)
    return groups


@_by_logs
def bits_do_not_matter(found: list[Log], *, bits: Sequence[int], points: float) -> Finding:
    """Mean accuracies with some numbers of bits and unquantised are close to each other."""
    ends = [_over_rounds(name, of, _all_devices) for name, of in _by_bits(found, bits).items()]
    pairs = [*itertools.permutations(ends, 2)]
    margins = [less(*pair, -points / 100) for pair in pairs]
    return compared(ends, margins, max(lead(*pair) for pair in pairs))


@_by_logs
def converge_alike(
    found: list[Log], *, bits: Sequence[int], within: int, points: float, window: int
) -> Finding:
    """With some numbers of bits and unquantised all converge, in rounds close to each other."""
    rounds = {
        name: {log.run.seed: converged(log.change, points, window) for log in of}
        for name, of in _by_bits(found, bits).items()
    }
    told = "; ".join(
        f"{name}: {', '.join(_rounds_told(met.values()))}" for name, met in rounds.items()
    )
    seeds = set.intersection(*(set(met) for met in rounds.values()))
    apart = [_apart([met[seed] for met in rounds.values()]) for seed in sorted(seeds)]
    known = [difference for difference in apart if difference is not None]
    if len(known) < len(apart):
        return Finding(False, told, _ids(found))
    margin = Margin.of((within - each for each in known), f"{within} - rounds apart")
    return Finding.of([margin], told, _ids(found), max(known))


def _apart(rounds: Sequence[int | None]) -> int | None:
    """Return how far rounds are apart; None where one is unknown."""
    known = [t for t in rounds if t is not None]
    return max(known) - min(known) if len(known) == len(rounds) else None


@_by_logs
def favours(
    found: list[Log], *, what: Sequence[int], over: Sequence[int], since: int, settled: int
) -> Finding:
    """Archetypes vary less than others, and settle at a higher accuracy."""

    def swing(a: int) -> Sample:
        each = (log.by_archetype[since:, a].std(ddof=1) for log in found)
        return _sample(f"sd of archetype {a}", found, each)

    every, late = range(len(found[0].metas)), [log.cut(settled) for log in found]
    swings, levels = [swing(a) for a in every], [_of_archetype(late, a) for a in every]
    pairs = [*itertools.product(what, over)]
    margins = [less(swings[b], swings[a], strict=True) for a, b in pairs]
    margins += [less(levels[a], levels[b], strict=True) for a, b in pairs]
    sds, means = (_in_turn(sample.mean for sample in of) for of in (swings, levels))
    evidence = f"archetypes 0 to {every[-1]}: standard deviation {sds}; accuracy {means}"
    return Finding.of(margins, evidence, _ids(found))


@RULES.add
def most_converge(runs: RunSet, *, points: float, window: int, **where: Any) -> Finding:
    """More than half of the archetypes converge under FedCD, and at most half under FedAvg.

    An archetype converges as a run does, by the change of its mean accuracy.
    """
    found = {method: _logs(runs, method, **where) for method in (FEDCD, FEDAVG)}
    met = {
        method: [
            [
                converged(changes_of(curve[:, None]), points, window) is not None
                for curve in log.by_archetype.T
            ]
            for log in of
        ]
        for method, of in found.items()
    }
    shares = {method: [float(np.mean(each)) for each in of] for method, of in met.items()}
    told = (
        f"{method}: {', '.join(f'{sum(each)} of {len(each)}' for each in of)}"
        for method, of in met.items()
    )
    holds = min(shares[FEDCD]) > 0.5 and max(shares[FEDAVG]) <= 0.5
    return Finding(holds, f"converged: {'; '.join(told)}", _ids(itertools.chain(*found.values())))


def _passes(log: Log) -> Floats:
    """Return the images trained on in every round."""
    return log.passes


def _sent(log: Log) -> Floats:
    """Return the megabytes that all devices together send and receive in every round."""
    ways = megabytes(log)
    return ways["up"] + ways["down"]


def _costs_less(
    runs: RunSet,
    cost: Callable[[Log], Floats],
    edges: Callable[[Sample], list[Margin]],
    *,
    experiments: Sequence[str],
    rounds: int,
    points: float,
    window: int,
) -> Finding:
    """Decide on what FedAvg costs until it has converged, over what FedCD does.

    Both are looked at in the rounds that all of their runs have. The round of convergence is paid
    for, too. FedAvg need not converge.

    Args:
        runs: of the plan.
        cost: of every round.
        edges: the margins of that ratio.
        experiments: each of which has to meet them.
        rounds: of FedAvg that count if it does not.
        points: below which the mean change of ``window`` rounds is where a run has converged.
        window: rounds.
    """
    ratios: dict[str, Sample] = {}
    used: list[Log] = []
    for name in experiments:
        fedcd, fedavg = (
            {log.run.seed: log for log in _logs(runs, method, experiment=name)}
            for method in (FEDCD, FEDAVG)
        )
        used += [*fedcd.values(), *fedavg.values()]
        both = common_rounds([*fedcd.values(), *fedavg.values()])
        met, theirs = (
            {seed: converged(log.change[:both], points, window) for seed, log in of.items()}
            for of in (fedcd, fedavg)
        )
        if None not in met.values():
            common = tuple(seed for seed in fedcd if seed in fedavg)
            ratio = tuple(
                cost(fedavg[seed])[: rounds_trained(theirs[seed], rounds)].sum()
                / cost(fedcd[seed])[: rounds_trained(met[seed], both)].sum()
                for seed in common
            )
            ratios[name] = Sample(f"ratio, {name}", ratio, (), common)
    means = {name: ratio.mean for name, ratio in ratios.items()}
    missing = "".join(f"; {name}: not converged" for name in experiments if name not in ratios)
    evidence = _shown(means, "{:.2f}".format) + missing
    if missing:
        return Finding(False, evidence, _ids(used))
    margins = [edge for ratio in ratios.values() for edge in edges(ratio)]
    return Finding.of(margins, evidence, _ids(used))


def is_cheaper(runs: RunSet, *, low: float, high: float, **values: Any) -> Finding:
    """FedAvg takes so many times the images of FedCD, each until it has converged."""
    return _costs_less(runs, _passes, lambda it: [it.above(low), it.below(high)], **values)


def sends_less(runs: RunSet, *, low: float, **values: Any) -> Finding:
    """FedAvg sends more than ``low`` times what FedCD does, each until it has converged."""
    return _costs_less(runs, _sent, lambda it: [it.above(low, strict=True)], **values)


RULES.add(taking(is_cheaper, _costs_less, skip=3))
RULES.add(taking(sends_less, _costs_less, skip=3))


# Models: who prefers them, who has them


def _told(sides: Iterable[tuple[set[int], ...]]) -> str:
    return "; ".join(
        f"meta-archetype 0 prefers {sorted(one)}, 1 {sorted(other)}" for one, other in sides
    )


def _sides(found: Iterable[Log], by: Literal["archetype", "device"]) -> list[tuple[set[int], ...]]:
    """Return the models that either meta-archetype prefers in any round, a pair a seed.

    Those of single devices, or, as Fig. 7 shows, those that most devices of an archetype prefer.
    """
    if by == "device":
        return [(log.preferred_by(0), log.preferred_by(1)) for log in found]
    return [
        tuple(set(log.consensus[:, log.metas == meta].ravel().tolist()) for meta in (0, 1))
        for log in found
    ]


@_by_logs
def splits(found: list[Log], *, by: Literal["archetype", "device"]) -> Finding:
    """No model is preferred in both meta-archetypes, by single devices or by archetypes."""
    sides = _sides(found, by)
    shared = max(len(one & other) for one, other in sides)
    return Finding(shared == 0, _told(sides), _ids(found), shared)


@_by_logs
def alternates_among_few(found: list[Log], *, low: int, high: int) -> Finding:
    """The archetypes of each meta-archetype prefer a few models, and some change among them.

    What an archetype prefers is what most of its devices do. No model is preferred on both sides.
    """
    sides = _sides(found, "archetype")
    apart = all(not one & other for one, other in sides)
    few = all(low <= len(side) <= high for pair in sides for side in pair)
    changing = [
        [int((np.ptp(log.consensus, axis=0) > 0)[log.metas == meta].sum()) for meta in (0, 1)]
        for log in found
    ]
    told = "; ".join(f"{one} and {other}" for one, other in changing)
    moved = all(min(counts) > 0 for counts in changing)
    evidence = f"{_told(sides)}; archetypes that change: {told}"
    return Finding(apart and few and moved, evidence, _ids(found))


@_by_logs
def prefers_named(found: list[Log], *, one: Sequence[int], other: Sequence[int]) -> Finding:
    """Most devices of an archetype prefer these models in one meta-archetype, those in the other.

    That is, each of them in some round, and never another.
    """
    sides = _sides(found, "archetype")
    holds = all(pair in (({*one}, {*other}), ({*other}, {*one})) for pair in sides)
    return Finding(holds, _told(sides), _ids(found))


@_by_logs
def deletes_most(found: list[Log], *, created: int, deleted: int, within: int) -> Finding:
    """About so many of the models are deleted by all devices in the last round."""
    left = [log.live_models[-1] for log in found]
    holds = all(abs(created - deleted - count) <= within for count in left)
    evidence = f"models left: {', '.join(map(str, left))}"
    return Finding(holds, evidence, _ids(found), float(np.mean(left)))


@_by_logs
def keeps_few(found: list[Log], *, models: int) -> Finding:
    """No device has more active models in the last round."""
    most = max(len(held) for log in found for held in log.active[-1])
    return Finding(most <= models, f"at most {most}", _ids(found), most)


@_by_logs
def rises_and_falls(found: list[Log]) -> Finding:
    """Active models rise after each milestone, and not again before the next."""
    holds, told = True, []
    for log in found:
        active = log.active_models
        end = len(active) - 1
        marks = [*(m for m in params(log.run.spec).milestones if m < end), end]
        for mark, following in itertools.pairwise(marks):
            span = active[mark + 1 : following + 1]
            holds &= span[0] > active[mark] and span == sorted(span, reverse=True)
            told.append(f"{active[mark]} in round {mark}, {span[0]} after, {span[-1]} in the end")
    return Finding(holds, "; ".join(told), _ids(found))


def _by_rising_bias(runs: RunSet, first: int, last: int) -> dict[str, list[Log]]:
    """Return the logs of each bias, cut to some rounds."""
    levels = by_rising_bias(runs)
    return {name: [log.cut(first, last) for log in found] for name, found in levels.items()}


@RULES.add
def bias_prunes(runs: RunSet, *, first: int, last: int) -> Finding:
    """The mean number of active models falls from each bias to the next."""
    samples = [
        _sample(name, of, (float(np.mean(log.active_models)) for log in of), fraction=False)
        for name, of in _by_rising_bias(runs, first, last).items()
    ]
    margins = [less(low, high, strict=True) for low, high in itertools.pairwise(samples)]
    evidence = listed(samples, "{:.1f}".format)
    return compared(samples, margins, None, evidence)


@RULES.add
def bias_groups(runs: RunSet, *, first: int, last: int) -> Finding:
    """From each bias to the next, the devices of more archetypes all prefer one model."""
    samples = [
        _sample(name, of, (log.agreeing.mean() for log in of))
        for name, of in _by_rising_bias(runs, first, last).items()
    ]
    margins = [less(high, low, strict=True) for low, high in itertools.pairwise(samples)]
    return compared(samples, margins, networks=())


@RULES.add
def ends_with_pairs(runs: RunSet, *, models: int, last: int, below: float) -> Finding:
    """At the lowest bias every device ends with so many models, whose scores are close."""
    name, found = next(iter(by_rising_bias(runs).items()))
    having = [[len(held) == models for held in log.active[last]] for log in found]
    spread = [log.spread[last] for log in found]
    counts = ", ".join(f"{sum(each)} of {len(each)}" for each in having)
    evidence = (
        f"{name}: {counts} devices have {models}; standard deviation of the scores "
        f"{', '.join(f'{value:.3f}' for value in spread)}"
    )
    holds = all(map(all, having)) and max(spread) < below
    return Finding(holds, evidence, _ids(found), float(np.mean(having)))


def _costs_at_most(cost: Callable[[Log], Floats | list[int]], unit: str, show: str) -> Rule:
    """Return the rule: in some rounds one method costs at most so many times what the other does.

    Args:
        cost: of every round.
        unit: what it is counted in.
        show: how it is printed.
    """

    def rule(runs: RunSet, *, what: str, over: str, times: float, **where: Any) -> Finding:
        found = {name: _logs(runs, name, **where) for name in (what, over)}
        one, other = (
            _sample(name, of, (float(np.mean(cost(log))) for log in of), fraction=False)
            for name, of in found.items()
        )
        beyond = f"{times:g} x {unit} of {over} - {unit} of {what}"
        margins = [combined([(times, other), (-1, one)], what=beyond)]
        evidence = f"{unit} a round: {_shown({what: one.mean, over: other.mean}, show.format)}"
        return compared([one, other], margins, one.mean / other.mean, evidence)

    return rule


def _models_held(log: Log) -> list[int]:
    """Return how many models all devices together hold in every round; with FedAvg one each."""
    return log.active_models or [len(log.archetype)] * len(log.accuracy)


RULES.add(_costs_at_most(_sent, "MB", "{:.2f}"), "costs_little")
RULES.add(_costs_at_most(_passes, "images", "{:.0f}"), "trains_little")
RULES.add(_costs_at_most(_models_held, "models held", "{:.0f}"), "holds_few")


@RULES.add
def scores_agree(runs: RunSet, *, first: int, last: int, below: float) -> Finding:
    """The mean standard deviation of a device's scores is small at every bias, in some rounds."""
    samples = [
        _over_rounds(name, of, lambda log: log.spread, fraction=False)
        for name, of in _by_rising_bias(runs, first, last).items()
    ]
    margins = [sample.below(below, strict=True) for sample in samples]
    worst, evidence = max(sample.mean for sample in samples), listed(samples, "{:.3f}".format)
    return compared(samples, margins, worst, evidence)


# Beside the public logs


def public_log(name: str) -> dict[float, float]:
    """Return the values of a public log, round -> value."""
    (series,) = (item for item in load_expected("fedcd").series if item.id == name)
    return dict(zip(series.x, series.published, strict=True))


@_by_logs
def as_logged(found: list[Log], *, log: str) -> Finding:
    """Active models are those of a public log."""
    theirs = public_log(log)
    apart = max(abs(n - theirs[t]) for one in found for t, n in enumerate(one.active_models))
    return Finding(apart == 0, f"at most {apart:g} apart", _ids(found), apart)


@_by_logs
def falls_back(found: list[Log], *, rounds: Sequence[int], models: int, within: int) -> Finding:
    """Active models are so many a device in some rounds, about."""
    wanted = models * len(found[0].archetype)
    counts = {t: [log.active_models[t] for log in found] for t in rounds}
    apart = max(abs(count - wanted) for values in counts.values() for count in values)
    evidence = ", ".join(f"round {t}: {', '.join(map(str, v))}" for t, v in counts.items())
    return Finding(apart <= within, evidence, _ids(found), apart)


@_by_logs
def ends_as_logged(
    found: list[Log], *, log: str, since: int, points: float, lower: int, higher: int
) -> Finding:
    """The mean accuracy is near that of a public log, and one meta-archetype below the other."""
    late, logged = [one.cut(since) for one in found], public_log(log)
    ours = _sample("ours", late, (one.accuracy.mean() for one in late))
    theirs = float(np.mean([logged[t] for t in range(since, len(found[0].accuracy))]))
    low, high = (
        _sample(
            f"meta-archetype {meta}",
            late,
            (one.by_archetype[:, one.metas == meta].mean() for one in late),
        )
        for meta in (lower, higher)
    )
    bound, allowed = points / 100, amount(points / 100, ours.unit)
    margins = [
        combined([(-1, ours)], -theirs - bound, f"log - ours + {allowed}"),
        combined([(1, ours)], theirs - bound, f"ours - log + {allowed}"),
        less(high, low, strict=True),
    ]
    values = {"ours": ours.mean, "log": theirs, low.name: low.mean, high.name: high.mean}
    return Finding.of(margins, _shown(values, in_percent), _ids(found), ours.mean - theirs)


@_by_logs
def swings_widely(found: list[Log], *, low: float, high: float, percent: float) -> Finding:
    """The mean accuracy ranges over so many per cent of a range."""
    means = [log.accuracy.mean(axis=1) for log in found]
    narrowest = min(float(np.ptp(curve)) for curve in means)
    ranges = (f"between {in_percent(curve.min())} and {in_percent(curve.max())}" for curve in means)
    wanted = percent / 100 * (high - low) / 100
    return Finding(narrowest >= wanted - SLACK, "; ".join(ranges), _ids(found), narrowest)


# The paper's own numbers


@RULES.add
def text_is_table(runs: RunSet, *, experiments: Sequence[str], rounds: Sequence[int]) -> Finding:
    """The rounds of convergence in the text are Table 1's."""
    table = published(runs.paper, "table1")
    cells = [table[name, ROUNDS.format(FEDCD)] for name in experiments]
    apart = max((cell - text for cell, text in zip(cells, rounds, strict=True)), key=abs)
    told = zip(experiments, rounds, cells, strict=True)
    evidence = "; ".join(f"{name}: text {text:g}, table {cell:g}" for name, text, cell in told)
    return Finding(apart == 0, evidence, [], apart)


@RULES.add
def devices_add_up(
    runs: RunSet, *, per_archetype: Sequence[int], archetypes: Sequence[int], devices: int
) -> Finding:
    """Devices per archetype times archetypes are the devices of every experiment."""
    pairs = [*zip(per_archetype, archetypes, strict=True)]
    evidence = ", ".join(f"{each} x {of} = {each * of}" for each, of in pairs)
    return Finding(all(each * of == devices for each, of in pairs), evidence, [])


def _laws(population: int, successes: Sequence[int], draws: int) -> Floats:
    """Return the hypergeometric laws of archetypes: a row each, a column a label."""
    return np.array([hypergeometric_law(population, k, draws) for k in successes])


def _in_all(values: Floats, high: Sequence[int], low: Sequence[int], show: str) -> Finding:
    """Return the finding that values of some archetypes are above those of others."""
    evidence = ", ".join(f"archetype {a}: {show.format(values[a])}" for a in sorted([*high, *low]))
    holds = bool(values[[*high]].min() > values[[*low]].max())
    return Finding(holds, evidence, [], float(values[[*high]].min()))


@RULES.add
def law_is_apart(
    runs: RunSet,
    *,
    what: Sequence[int],
    over: Sequence[int],
    population: int,
    successes: Sequence[int],
    draws: int,
) -> Finding:
    """The laws of some archetypes differ more from the mean of all than those of others."""
    laws = _laws(population, successes, draws)
    apart = np.abs(laws - laws.mean(axis=0)).sum(axis=1)
    return _in_all(apart, what, over, "{:.2f}")


@RULES.add
def law_is_narrow(
    runs: RunSet,
    *,
    what: Sequence[int],
    over: Sequence[int],
    population: int,
    successes: Sequence[int],
    draws: int,
) -> Finding:
    """The laws of some archetypes have smaller standard deviations than those of others."""
    laws = _laws(population, successes, draws)
    labels = np.arange(laws.shape[1])
    means = laws @ labels
    sds = np.sqrt(laws @ labels**2 - means**2)
    return _in_all(sds, over, what, "{:.2f}")


@RULES.add
def keeps_two(runs: RunSet) -> Finding:
    """By equation 4 a device with two models of different scores keeps both.

    It deletes a model whose score is as far below the highest as a standard deviation or farther,
    and the two standard deviations of a pair are fixed shares of the distance of its scores.
    """
    pair = np.array([0.0, 1.0])
    sds = {"population": float(np.std(pair)), "sample": float(np.std(pair, ddof=1))}
    kept = min(sds.values()) > 1
    evidence = f"standard deviation of two, over their distance: {_shown(sds, '{:.2f}'.format)}"
    return Finding(kept, f"{evidence}; {'both are kept' if kept else 'the lower is deleted'}", [])


@RULES.add
def ratio_fits(runs: RunSet, *, experiment: str, models: int) -> Finding:
    """By Table 1 a FedCD round costs at most so many FedAvg rounds."""
    table = published(runs.paper, "table1")
    fedavg, fedcd = (table[experiment, ROUNDS.format(method)] for method in (FEDAVG, FEDCD))
    cost = fedavg / fedcd / table[experiment, PASSES_RATIO]
    return Finding(cost <= models, f"a FedCD round in FedAvg rounds: {cost:.2f}", [], cost)
