"""Kopparapu, Lin, Zhao 2020: what decides the claims.

Their values stand in ``config/expected/fedcd.yaml``: experiments and methods by the plan's labels,
``points`` in percentage points, rounds from 0, from ``first`` to ``last`` inclusive. Where there
are several seeds, accuracies are means over them and counts have to hold for each. The last rules
are about the paper's own numbers and rest on no run.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from fedrepro.papers.fedcd.measurements import (
    FEDAVG,
    FEDCD,
    PASSES_RATIO,
    ROUNDS,
    Floats,
    Log,
    by_rising_bias,
    converged,
    logs,
    params,
    passes_until,
)
from fedrepro.report.expected import load_expected, published
from fedrepro.report.finding import SLACK, Finding, in_percent, in_points, not_planned
from fedrepro.report.rules import Names, Rule, Sample, leads
from fedrepro.runs.runset import RunSet

_Decided: TypeAlias = tuple[bool, str, float | None]


def _logs(
    runs: RunSet, experiment: Names, method: str = FEDCD, first: int = 0, last: int | None = None
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


def _ids(logs_: Iterable[Log]) -> list[str]:
    return [log.run.id for log in logs_]


def _decided(decide: Callable[..., _Decided]) -> Rule:
    """Return the rule that decides by the logs of experiments, cut to some rounds.

    Args:
        decide: gets the logs, one a seed, and its values; returns whether the claim holds, the
            evidence, and the number that sums it up.
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
        found = _logs(runs, experiment, method, first, last)
        holds, evidence, ours = decide(found, **values)
        return Finding(bool(holds), evidence, _ids(found), ours)

    *own, _ = inspect.signature(rule).parameters.values()
    _, *further = inspect.signature(decide).parameters.values()
    rule.__signature__ = inspect.Signature([*own, *further])  # type: ignore[attr-defined]
    return rule


def _mean(values: Iterable[Any]) -> Floats:
    """Return the mean over the seeds."""
    mean: Floats = np.mean(list(values), axis=0)
    return mean


def _ends(found: Iterable[Log]) -> Floats:
    """Return the mean accuracy of every archetype, [archetypes]."""
    return _mean(log.by_archetype.mean(axis=0) for log in found)


def _shown(values: Mapping[str, float], show: Callable[[float], str]) -> str:
    """Return names and values: ``FedCD: 91.52 %, FedAvg: 60.00 %``."""
    return ", ".join(f"{name}: {show(value)}" for name, value in values.items())


def _in_turn(values: Iterable[float]) -> str:
    return ", ".join(map(in_percent, values))


# Accuracies and their changes


def accuracy(
    runs: RunSet,
    what: int,
    *,
    of: Literal["archetype", "meta-archetype"],
    experiment: str,
    first: int,
    last: int,
    above_label: bool = False,
) -> Sample:
    """Return FedCD's mean accuracy of an archetype, or of a meta-archetype, in some rounds.

    With ``above_label`` it is less the share of each device's most frequent label.
    """
    values, found = [], _logs(runs, experiment, FEDCD, first, last)
    for log in found:
        ends = _ends([log]) - (log.majority if above_label else 0)
        values.append(float(ends[what if of == "archetype" else log.metas == what].mean()))
    return Sample(f"{of} {what}", tuple(values), tuple(_ids(found)))


def leads_everywhere(
    runs: RunSet, *, what: str, over: str, experiment: str, first: int, last: int
) -> Finding:
    """Every archetype has a higher accuracy under one method than under the other."""
    high, low = (_logs(runs, experiment, method, first, last) for method in (what, over))
    ours, theirs = _ends(high), _ends(low)
    lead = float((ours - theirs).min())
    evidence = f"{what} {_in_turn(ours)}; {over} {_in_turn(theirs)}"
    return Finding(lead > 0, evidence, _ids([*high, *low]), lead)


@_decided
def converges(found: list[Log], *, about: int, within: int, points: float, window: int) -> _Decided:
    """FedCD has converged by about some round."""
    rounds = [converged(log.change, points, window) for log in found]
    met = [t for t in rounds if t is not None]
    evidence = "; ".join("not converged" if t is None else f"round {t}" for t in rounds)
    holds = len(met) == len(rounds) and max(met) <= about + within
    return holds, evidence, float(np.mean(met)) if met else None


@_decided
def calms_down(found: list[Log], *, until: int, above: float, since: int, below: float) -> _Decided:
    """The mean change exceeds ``above`` points up to a round, and stays low from another on."""
    change = _mean(log.change for log in found)
    early, late = float(change[1 : until + 1].max()), float(change[since:].max())
    evidence = f"largest: {in_points(early)} up to round {until}, {in_points(late)} from {since} on"
    return early > above / 100 and late < below / 100, evidence, late


@_decided
def moves_together(found: list[Log]) -> _Decided:
    """Curves of archetypes correlate more within meta-archetypes than across."""
    correlations: dict[bool, list[float]] = {True: [], False: []}
    for log in found:
        curves = log.by_archetype
        for a, b in itertools.combinations(np.flatnonzero(curves.std(axis=0)), 2):
            together = bool(log.metas[a] == log.metas[b])
            correlations[together].append(float(np.corrcoef(curves[:, a], curves[:, b])[0, 1]))
    within, across = (float(np.mean(correlations[together])) for together in (True, False))
    evidence = f"mean correlation {within:.2f} within, {across:.2f} across"
    return within > across, evidence, within - across


def changes_more(
    runs: RunSet, *, what: str, than: str, experiment: str, first: int, last: int, times: float = 1
) -> Finding:
    """The mean change is larger under one method, so many times or more."""
    both = [_logs(runs, experiment, method, first, last) for method in (than, what)]
    low, high = (float(_mean(log.change.mean() for log in found)) for found in both)
    evidence = _shown({than: low, what: high}, in_points)
    holds = high > low and high >= times * low - SLACK
    return Finding(holds, evidence, _ids(itertools.chain(*both)), high / low if low else None)


@_decided
def stays_restless(
    found: list[Log], *, spans: Sequence[int], window: int, points: float
) -> _Decided:
    """The mean change of the last rounds of each span is that large or larger."""
    change = _mean(log.change for log in found)
    last = {f"of {span}": float(change[span - window : span].mean()) for span in spans}
    least = min(last.values())
    return least >= points / 100 - SLACK, f"last rounds {_shown(last, in_points)}", least


@_decided
def gains_little(found: list[Log], *, points: float) -> _Decided:
    """From the first to the last round the mean accuracy of all devices gains less."""
    gain = float(_mean(log.accuracy[-1].mean() - log.accuracy[0].mean() for log in found))
    return gain < points / 100, f"gain of {in_points(gain)}", gain


@_decided
def bits_do_not_matter(found: list[Log], *, bits: Sequence[int], points: float) -> _Decided:
    """Mean accuracies with some numbers of bits and unquantised are close to each other."""
    ends: dict[int | None, list[float]] = {number: [] for number in (*bits, None)}
    for log in found:
        ends[params(log.run.spec).quantise_bits].append(float(log.accuracy.mean()))
    means = {
        f"{number} bits" if number else "unquantised": float(np.mean(values))
        for number, values in ends.items()
    }
    apart = max(means.values()) - min(means.values())
    return apart <= points / 100 + SLACK, _shown(means, in_percent), apart


@_decided
def favours(
    found: list[Log], *, what: Sequence[int], over: Sequence[int], since: int, settled: int
) -> _Decided:
    """Archetypes vary less than others, and settle farther above their most frequent labels."""
    swings = _mean(log.by_archetype[since:].std(axis=0, ddof=1) for log in found)
    above = _mean(log.by_archetype[settled:].mean(axis=0) - log.majority for log in found)
    calmer = swings[[*what]].max() < swings[[*over]].min()
    better = above[[*what]].min() > above[[*over]].max()
    evidence = (
        f"archetypes 0 to {len(above) - 1}: standard deviation {_in_turn(swings)}; above the most "
        f"frequent label {_in_turn(above)}"
    )
    return calmer and better, evidence, None


def is_cheaper(
    runs: RunSet,
    *,
    experiments: Sequence[str],
    rounds: int,
    low: float,
    high: float,
    points: float,
    window: int,
) -> Finding:
    """So many rounds of FedAvg take so many times the images of FedCD until it has converged."""
    ratios: dict[str, float] = {}
    used: list[Log] = []
    for name in experiments:
        fedcd, fedavg = _logs(runs, name), _logs(runs, name, FEDAVG)
        used += [*fedcd, *fedavg]
        ends = [converged(log.change, points, window) for log in fedcd]
        if None not in ends:
            cost = np.mean([passes_until(log, t) for log, t in zip(fedcd, ends, strict=True) if t])
            ratios[name] = float(np.mean([passes_until(log, rounds) for log in fedavg]) / cost)
    holds = len(ratios) == len(experiments) and all(low <= r <= high for r in ratios.values())
    missing = "".join(f"; {name}: not converged" for name in experiments if name not in ratios)
    return Finding(holds, _shown(ratios, "{:.2f}".format) + missing, _ids(used))


# Models: who prefers them, who has them


def _told(sides: Iterable[tuple[set[int], set[int]]]) -> str:
    return "; ".join(
        f"meta-archetype 0 prefers {sorted(one)}, 1 {sorted(other)}" for one, other in sides
    )


@_decided
def splits(found: list[Log]) -> _Decided:
    """No model is preferred by devices of both meta-archetypes."""
    sides = [(log.preferred_by(0), log.preferred_by(1)) for log in found]
    shared = max(len(one & other) for one, other in sides)
    return shared == 0, _told(sides), shared


@_decided
def prefers_few(found: list[Log], *, low: int, high: int) -> _Decided:
    """Each meta-archetype prefers a few models, none of them shared."""
    sides = [(log.preferred_by(0), log.preferred_by(1)) for log in found]
    apart = all(not one & other for one, other in sides)
    few = all(low <= len(side) <= high for pair in sides for side in pair)
    return apart and few, _told(sides), None


@_decided
def prefers_named(found: list[Log], *, one: Sequence[int], other: Sequence[int]) -> _Decided:
    """Most devices of an archetype prefer these models in one meta-archetype, those in the other.

    That is, each of them in some round, and never another.
    """
    sides = []
    for log in found:
        here, there = (set(log.consensus[:, log.metas == meta].ravel().tolist()) for meta in (0, 1))
        sides.append((here, there))
    holds = all(pair in (({*one}, {*other}), ({*other}, {*one})) for pair in sides)
    return holds, _told(sides), None


@_decided
def deletes_most(found: list[Log], *, created: int, deleted: int, within: int) -> _Decided:
    """About so many of the models are deleted by all devices in the last round."""
    left = [log.live_models[-1] for log in found]
    holds = all(abs(created - deleted - count) <= within for count in left)
    return holds, f"models left: {', '.join(map(str, left))}", float(np.mean(left))


@_decided
def keeps_few(found: list[Log], *, models: int) -> _Decided:
    """No device has more active models in the last round."""
    most = max(len(held) for log in found for held in log.active[-1])
    return most <= models, f"at most {most}", most


@_decided
def rises_and_falls(found: list[Log]) -> _Decided:
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
    return holds, "; ".join(told), None


def bias_prunes(runs: RunSet, *, first: int, last: int) -> Finding:
    """The mean number of active models falls from each bias to the next."""
    levels = by_rising_bias(runs)
    means = {
        name: float(np.mean([log.active_models[first : last + 1] for log in found]))
        for name, found in levels.items()
    }
    holds = all(high < low for low, high in itertools.pairwise(means.values()))
    return Finding(holds, _shown(means, "{:.1f}".format), _ids(itertools.chain(*levels.values())))


def scores_agree(runs: RunSet, *, last: int, below: float) -> Finding:
    """The deviation of the scores in a round is small at every bias."""
    levels = by_rising_bias(runs)
    spreads = {name: max(log.spread[last] for log in found) for name, found in levels.items()}
    worst, evidence = max(spreads.values()), _shown(spreads, "{:.3f}".format)
    return Finding(worst < below, evidence, _ids(itertools.chain(*levels.values())), worst)


# Beside the public logs


def public_log(name: str) -> dict[float, float]:
    """Return the values of a public log, round -> value."""
    (series,) = (item for item in load_expected("fedcd").series if item.id == name)
    return dict(zip(series.x, series.published, strict=True))


@_decided
def as_logged(found: list[Log], *, log: str) -> _Decided:
    """Active models are those of a public log."""
    theirs = public_log(log)
    apart = max(abs(n - theirs[t]) for one in found for t, n in enumerate(one.active_models))
    return apart == 0, f"at most {apart:g} apart", apart


@_decided
def falls_back(found: list[Log], *, rounds: Sequence[int], models: int, within: int) -> _Decided:
    """Active models are so many a device in some rounds, about."""
    wanted = models * len(found[0].archetype)
    counts = {t: [log.active_models[t] for log in found] for t in rounds}
    apart = max(abs(count - wanted) for values in counts.values() for count in values)
    evidence = ", ".join(f"round {t}: {', '.join(map(str, v))}" for t, v in counts.items())
    return apart <= within, evidence, apart


@_decided
def ends_as_logged(
    found: list[Log], *, log: str, since: int, points: float, lower: int, higher: int
) -> _Decided:
    """The mean accuracy is near that of a public log, and one meta-archetype below the other."""
    late, logged = [one.cut(since) for one in found], public_log(log)
    ours = float(_mean(one.accuracy.mean() for one in late))
    theirs = float(np.mean([logged[t] for t in range(since, len(found[0].accuracy))]))
    low, high = (float(_ends(late)[found[0].metas == meta].mean()) for meta in (lower, higher))
    values = {"ours": ours, "log": theirs}
    values |= {f"meta-archetype {lower}": low, f"meta-archetype {higher}": high}
    holds = abs(ours - theirs) <= points / 100 + SLACK and low < high
    return holds, _shown(values, in_percent), ours - theirs


@_decided
def swings_widely(found: list[Log], *, low: float, high: float, percent: float) -> _Decided:
    """The mean accuracy ranges over so many per cent of a range."""
    means = [log.accuracy.mean(axis=1) for log in found]
    narrowest = min(float(np.ptp(curve)) for curve in means)
    ranges = (f"between {in_percent(curve.min())} and {in_percent(curve.max())}" for curve in means)
    wanted = percent / 100 * (high - low) / 100
    return narrowest >= wanted - SLACK, "; ".join(ranges), narrowest


# The paper's own numbers


def text_is_table(runs: RunSet, *, experiments: Sequence[str], rounds: Sequence[int]) -> Finding:
    """The rounds of convergence in the text are Table 1's."""
    table = published(runs.paper, "table1")
    cells = [table[name, ROUNDS.format(FEDCD)] for name in experiments]
    apart = max((cell - text for cell, text in zip(cells, rounds, strict=True)), key=abs)
    told = zip(experiments, rounds, cells, strict=True)
    evidence = "; ".join(f"{name}: text {text:g}, table {cell:g}" for name, text, cell in told)
    return Finding(apart == 0, evidence, [], apart)


def ratio_fits(runs: RunSet, *, experiment: str, models: int) -> Finding:
    """By Table 1 a FedCD round costs at most so many FedAvg rounds."""
    table = published(runs.paper, "table1")
    fedavg, fedcd = (table[experiment, ROUNDS.format(method)] for method in (FEDAVG, FEDCD))
    cost = fedavg / fedcd / table[experiment, PASSES_RATIO]
    return Finding(cost <= models, f"a FedCD round in FedAvg rounds: {cost:.2f}", [], cost)


CLAIMS: dict[str, Rule] = {
    "leads": leads(accuracy),
    "leads_everywhere": leads_everywhere,
    "converges": converges,
    "calms_down": calms_down,
    "moves_together": moves_together,
    "changes_more": changes_more,
    "stays_restless": stays_restless,
    "gains_little": gains_little,
    "bits_do_not_matter": bits_do_not_matter,
    "favours": favours,
    "is_cheaper": is_cheaper,
    "splits": splits,
    "prefers_few": prefers_few,
    "prefers_named": prefers_named,
    "deletes_most": deletes_most,
    "keeps_few": keeps_few,
    "rises_and_falls": rises_and_falls,
    "bias_prunes": bias_prunes,
    "scores_agree": scores_agree,
    "as_logged": as_logged,
    "falls_back": falls_back,
    "ends_as_logged": ends_as_logged,
    "swings_widely": swings_widely,
    "text_is_table": text_is_table,
    "ratio_fits": ratio_fits,
}
