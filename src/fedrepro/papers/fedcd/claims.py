"""Kopparapu, Lin, Zhao 2020: the claims.

A claim is a function of our runs; where there are several seeds, accuracies are means over them and
counts have to hold for each. Every number in the code is a fraction, "points" in the texts are
percentage points. Rounds count from 0. The last claims are about the paper's own numbers and rest
on no run.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from fedrepro.fl.algorithms.fedcd import Params
from fedrepro.papers.fedcd.measurements import (
    BITS,
    CALM,
    COUNTED_UNTIL,
    EXPERIMENTS,
    FEDAVG_FLOAT32,
    FEDAVG_ROUNDS,
    FEDCD_FLOAT32,
    FEDCD_ROUNDS,
    HIER_AS_RUN,
    HIER_FEDAVG,
    HIER_FEDCD,
    HYPER_FEDAVG,
    HYPER_FEDCD,
    PASSES_RATIO,
    SIX_AS_RUN,
    SIX_FEDAVG_AS_RUN,
    WINDOW,
    Floats,
    Log,
    by_rising_bias,
    converged,
    late,
    logs,
    majority_share,
    members_of,
    milestones,
    passes_until,
)
from fedrepro.report.expected import load_expected, published
from fedrepro.report.finding import SLACK, Finding, in_percent, in_points
from fedrepro.runs.runset import RunSet

END = COUNTED_UNTIL - 1
"""Round 44, the last of Figs 1 and 7 to 9."""


_percent = functools.partial(in_percent, digits=1)
_points = functools.partial(in_points, digits=1)


def _ids(*used: Iterable[Log]) -> list[str]:
    return [log.run.id for log in itertools.chain(*used)]


def _mean(values: Iterable[Floats]) -> Floats:
    """Return the mean over the seeds."""
    mean: Floats = np.mean(list(values), axis=0)
    return mean


def _ends(found: Sequence[Log]) -> Floats:
    """Return the mean accuracy of every archetype in rounds 35 to 44."""
    return _mean(log.by_archetype[late(len(log.accuracy))].mean(axis=0) for log in found)


def _end(found: Sequence[Log]) -> float:
    """Return the mean accuracy of all devices in rounds 35 to 44."""
    return float(_mean(log.accuracy[late(len(log.accuracy))].mean() for log in found))


def _listed(values: Iterable[float]) -> str:
    return ", ".join(f"{100 * value:.1f}" for value in values) + " %"


# The hierarchical experiment


def beats_fedavg(runs: RunSet) -> Finding:
    """A1: every archetype is better off under FedCD."""
    fedcd, fedavg = logs(runs, HIER_FEDCD), logs(runs, HIER_FEDAVG)
    ours, theirs = _ends(fedcd), _ends(fedavg)
    lead = float((ours - theirs).min())
    evidence = f"FedCD {_listed(ours)}; FedAvg {_listed(theirs)}"
    return Finding(lead > 0, evidence, _ids(fedcd, fedavg), lead)


def converges(runs: RunSet, *, group: str, by: int) -> Finding:
    """A2, A17: FedCD has converged by a round."""
    found = logs(runs, group)
    rounds = [converged(log.change) for log in found]
    met = [t for t in rounds if t is not None]
    evidence = "; ".join("not converged" if t is None else f"round {t}" for t in rounds)
    holds = len(met) == len(rounds) and max(met) <= by
    return Finding(holds, evidence, _ids(found), float(np.mean(met)) if met else None)


def calms_down(runs: RunSet) -> Finding:
    """A3: the mean change is large in some round from 1 to 7, and below 10 points from 11 on."""
    found = logs(runs, HIER_FEDCD)
    change = _mean(log.change[: END + 1] for log in found)  # entry t - 1 is round t
    early, later = float(change[0:7].max()), float(change[10:45].max())
    evidence = f"largest mean change: {_points(early)} up to round 7, {_points(later)} from 11 on"
    return Finding(early > 0.15 and later < 0.10, evidence, _ids(found), later)


def oscillates_together(runs: RunSet) -> Finding:
    """A4: curves of rounds 0 to 7 correlate more within meta-archetypes than across."""
    found = logs(runs, HIER_FEDCD)
    within: list[float] = []
    across: list[float] = []
    for log in found:
        curves = log.by_archetype[:8]
        moving = [a for a in range(curves.shape[1]) if curves[:, a].std() > 0]
        for a, b in itertools.combinations(moving, 2):
            together = any({a, b} <= set(members_of(log.run.spec, meta)) for meta in (0, 1))
            value = float(np.corrcoef(curves[:, a], curves[:, b])[0, 1])
            (within if together else across).append(value)
    means = float(np.mean(within)), float(np.mean(across))
    evidence = f"mean correlation {means[0]:.2f} within, {means[1]:.2f} across"
    return Finding(means[0] > means[1], evidence, _ids(found), means[0] - means[1])


def fedavg_oscillates(runs: RunSet, *, factor: float) -> Finding:
    """A5: in rounds 40 to 49 FedAvg's mean change is a multiple of FedCD's, or just larger."""
    fedcd, fedavg = logs(runs, HIER_FEDCD), logs(runs, HIER_FEDAVG)
    ours, theirs = (
        float(_mean(log.change[39:49].mean() for log in found)) for found in (fedcd, fedavg)
    )
    evidence = f"FedCD {_points(ours)}, FedAvg {_points(theirs)}"
    ratio = theirs / ours if ours else None
    holds = theirs > ours if factor == 1 else theirs >= factor * ours - SLACK
    return Finding(holds, evidence, _ids(fedcd, fedavg), ratio)


def fedavg_does_not_converge(runs: RunSet) -> Finding:
    """A6: the mean change of the last five of 150 and of 300 rounds is 2 points or more."""
    found = logs(runs, HIER_FEDAVG)
    last = [float(_mean(log.change[: n - 1][-WINDOW:].mean() for log in found)) for n in (150, 300)]
    evidence = f"last five rounds of 150: {_points(last[0])}, of 300: {_points(last[1])}"
    return Finding(min(last) >= CALM - SLACK, evidence, _ids(found), min(last))


def first_meta_ends_lower(runs: RunSet) -> Finding:
    """A7: meta-archetype 0 ends below meta-archetype 1."""
    found = logs(runs, HIER_FEDCD)
    ends = _ends(found)
    first, second = (float(ends[members_of(found[0].run.spec, meta)].mean()) for meta in (0, 1))
    evidence = f"meta-archetype 0 {_percent(first)}, 1 {_percent(second)}"
    return Finding(first < second, evidence, _ids(found), second - first)


def _sides(log: Log, rounds: Iterable[int]) -> tuple[set[int], set[int]]:
    rounds = list(rounds)
    first, second = (log.preferred_by(members_of(log.run.spec, meta), rounds) for meta in (0, 1))
    return first, second


def _told(sides: Iterable[tuple[set[int], set[int]]]) -> str:
    return "; ".join(
        f"meta-archetype 0 prefers {sorted(first)}, 1 {sorted(second)}" for first, second in sides
    )


def splits(runs: RunSet, *, first: int, last: int) -> Finding:
    """A8: no model is preferred by devices of both meta-archetypes."""
    found = logs(runs, HIER_FEDCD)
    sides = [_sides(log, range(first, last + 1)) for log in found]
    shared = max(len(one & other) for one, other in sides)
    return Finding(shared == 0, _told(sides), _ids(found), shared)


def later_clones_matter_little(runs: RunSet) -> Finding:
    """A9: from round 30 to 44 less than 5 points are gained."""
    found = logs(runs, HIER_FEDCD)
    gain = float(_mean(log.accuracy[END].mean() - log.accuracy[30].mean() for log in found))
    return Finding(gain < 0.05, f"gain of {_points(gain)}", _ids(found), gain)


def few_models_alternate(runs: RunSet) -> Finding:
    """A10: in rounds 31 to 44 each meta-archetype prefers 2 or 3 models, none of them shared."""
    found = logs(runs, HIER_FEDCD)
    sides = [_sides(log, range(31, END + 1)) for log in found]
    holds = all(
        not first & second and all(len(side) in (2, 3) for side in (first, second))
        for first, second in sides
    )
    return Finding(holds, _told(sides), _ids(found))


def the_named_models_alternate(runs: RunSet) -> Finding:
    """A10-which: archetypes of one meta-archetype prefer models 0 and 1, of the other 4 and 5."""
    found = logs(runs, HIER_FEDCD)
    sides = []
    for log in found:
        consensus = np.array(log.consensus[31 : END + 1])
        first, second = (set(consensus[:, members_of(log.run.spec, meta)].flat) for meta in (0, 1))
        sides.append(({int(m) for m in first}, {int(m) for m in second}))
    named = ({0, 1}, {4, 5})
    holds = all(pair in (named, named[::-1]) for pair in sides)
    return Finding(holds, _told(sides), _ids(found))


def most_models_die(runs: RunSet) -> Finding:
    """A11: 4 to 8 models are left in round 44."""
    found = logs(runs, HIER_FEDCD)
    left = [log.live_models[END] for log in found]
    evidence = "models left: " + ", ".join(map(str, left))
    return Finding(all(4 <= n <= 8 for n in left), evidence, _ids(found), float(np.mean(left)))


def two_models_a_device(runs: RunSet) -> Finding:
    """A12: no device has more than two active models in round 44."""
    found = logs(runs, HIER_FEDCD)
    most = max(len(models) for log in found for models in log.active[END])
    return Finding(most <= 2, f"at most {most}", _ids(found), most)


def rises_and_falls(runs: RunSet) -> Finding:
    """A13: active models rise after each milestone, and not again before the next."""
    found = logs(runs, HIER_FEDCD)
    holds, told = True, []
    for log in found:
        active = log.active_models
        marks = [*(m for m in milestones(log.run.spec) if m < END), END]
        for mark, following in itertools.pairwise(marks):
            span = active[mark + 1 : following + 1]
            holds &= span[0] > active[mark] and all(
                later <= earlier for earlier, later in itertools.pairwise(span)
            )
            told.append(
                f"{active[mark]} in round {mark}, {span[0]} after it, {span[-1]} in the end"
            )
    return Finding(bool(holds), "; ".join(told), _ids(found))


def bias_prunes(runs: RunSet) -> Finding:
    """A14: the mean number of active models of rounds 16 to 44 falls with the bias."""
    levels = by_rising_bias(runs)
    means = {
        name: float(np.mean([np.mean(log.active_models[16 : END + 1]) for log in found]))
        for name, found in levels.items()
    }
    holds = all(high < low for low, high in itertools.pairwise(means.values()))
    evidence = ", ".join(f"{name}: {value:.1f}" for name, value in means.items())
    return Finding(holds, evidence, _ids(*levels.values()))


def scores_agree(runs: RunSet) -> Finding:
    """A15: the deviation of the scores in round 44 is below 0.05 at every bias."""
    levels = by_rising_bias(runs)
    spreads = {name: max(log.spread[END] for log in found) for name, found in levels.items()}
    evidence = ", ".join(f"{name}: {value:.3f}" for name, value in spreads.items())
    worst = max(spreads.values())
    return Finding(worst < 0.05, evidence, _ids(*levels.values()), worst)


def bits_do_not_matter(runs: RunSet, *, groups: Sequence[str]) -> Finding:
    """A16: accuracies at the end are at most 3 points apart."""
    found = logs(runs, *groups)
    ends: dict[str, list[Log]] = {}
    for log in found:
        algorithm = log.run.spec.algorithm
        assert isinstance(algorithm, Params)
        bits = algorithm.quantise_bits
        ends.setdefault("not quantised" if bits is None else f"{bits} bits", []).append(log)
    means = {name: _end(members) for name, members in ends.items()}
    apart = max(means.values()) - min(means.values())
    evidence = ", ".join(f"{name} {_percent(value)}" for name, value in means.items())
    return Finding(apart <= 0.03 + SLACK, evidence, _ids(found), apart)


# The hypergeometric experiment

CENTRAL, SKEWED = (2, 3), (0, 5)


def skewed_do_best(runs: RunSet, *, above_majority: bool) -> Finding:
    """A18: archetypes 0 and 5 are above 2 and 3, in accuracy or above the most frequent label."""
    found = logs(runs, HYPER_FEDCD)
    ends = _ends(found)
    if above_majority:
        ends = ends - _mean(majority_share(runs, log) for log in found)
    lead = float(ends[list(SKEWED)].min() - ends[list(CENTRAL)].max())
    return Finding(lead > 0, f"archetypes 0 to 5: {_listed(ends)}", _ids(found), lead)


def fedavg_favours_the_centre(runs: RunSet) -> Finding:
    """A19: under FedAvg 2 and 3 vary less in rounds 20 to 44, and gain more above the majority."""
    found = logs(runs, HYPER_FEDAVG)
    swings = _mean(log.by_archetype[20 : END + 1].std(axis=0, ddof=1) for log in found)
    above = _ends(found) - _mean(majority_share(runs, log) for log in found)
    calmer = swings[list(CENTRAL)].max() < swings[list(SKEWED)].min()
    better = above[list(CENTRAL)].min() > above[list(SKEWED)].max()
    evidence = (
        f"archetypes 0 to 5: standard deviation {_listed(swings)}; above the most frequent label "
        f"{_listed(above)}"
    )
    return Finding(bool(calmer and better), evidence, _ids(found))


def fedcd_is_cheaper(runs: RunSet) -> Finding:
    """A20: 300 rounds of FedAvg take 1.4 to 4 times the images of FedCD until it has converged."""
    ratios, used, holds = {}, [], True
    for name, (fedcd, fedavg) in EXPERIMENTS.items():
        ours, theirs = logs(runs, fedcd), logs(runs, fedavg)
        ends = [converged(log.change) for log in ours]
        used += _ids(ours, theirs)
        if None in ends:
            holds, ratios[name] = False, "FedCD did not converge"
            continue
        cost = np.mean([passes_until(log, t) for log, t in zip(ours, ends, strict=True) if t])
        ratio = float(np.mean([passes_until(log, 300) for log in theirs]) / cost)
        holds, ratios[name] = holds and 1.4 <= ratio <= 4, f"{ratio:.2f}"
    return Finding(holds, "; ".join(f"{k} {v}" for k, v in ratios.items()), used)


# Beside the public log


def public_log(name: str) -> list[float]:
    """Return the values of a public log, by round."""
    series = load_expected("fedcd").series
    return next(item.published for item in series if item.id == name)


def rules_leave_no_choice(runs: RunSet) -> Finding:
    """R1: active models are those of the public log up to round 15."""
    found = logs(runs, SIX_AS_RUN)
    theirs = public_log("six.active")[:16]
    apart = max(
        abs(a - b) for log in found for a, b in zip(log.active_models[:16], theirs, strict=True)
    )
    return Finding(apart == 0, f"at most {apart:g} apart", _ids(found), apart)


def falls_back_to_two(runs: RunSet) -> Finding:
    """R2: active models are two a device in rounds 25, 30 and 44, within 3."""
    found = logs(runs, SIX_AS_RUN)
    counts = {t: [log.active_models[t] for log in found] for t in (25, 30, END)}
    two = [2 * log.accuracy.shape[1] for log in found]
    apart = max(
        abs(n - wanted) for values in counts.values() for n, wanted in zip(values, two, strict=True)
    )
    evidence = ", ".join(f"round {t}: {', '.join(map(str, v))}" for t, v in counts.items())
    return Finding(apart <= 3, evidence, _ids(found), apart)


LOGGED_END = slice(43, 53)
"""The last ten rounds of the public notebook's log."""


def ends_as_logged(runs: RunSet) -> Finding:
    """R3: rounds 43 to 52 are within 2 points of the log, and meta-archetype 0 ends lower."""
    found = logs(runs, HIER_AS_RUN)
    ours = float(_mean(log.accuracy[LOGGED_END].mean() for log in found))
    theirs = float(np.mean(public_log("ref.all")[LOGGED_END]))
    ends = _mean(log.by_archetype[LOGGED_END].mean(axis=0) for log in found)
    first, second = (float(ends[members_of(found[0].run.spec, meta)].mean()) for meta in (0, 1))
    evidence = (
        f"ours {_percent(ours)}, log {_percent(theirs)}; meta-archetype 0 {_percent(first)}, "
        f"1 {_percent(second)}"
    )
    holds = abs(ours - theirs) <= 0.02 + SLACK and first < second
    return Finding(holds, evidence, _ids(found), ours - theirs)


def one_model_swings(runs: RunSet) -> Finding:
    """R4: FedAvg's mean accuracy of 18 devices ranges over 25 points in rounds 5 to 44."""
    found = logs(runs, SIX_FEDAVG_AS_RUN)
    means = [log.accuracy[5 : END + 1].mean(axis=1) for log in found]
    lows, highs = ([float(pick(curve)) for curve in means] for pick in (np.min, np.max))
    narrowest = min(high - low for low, high in zip(lows, highs, strict=True))
    evidence = "; ".join(
        f"between {_percent(low)} and {_percent(high)}"
        for low, high in zip(lows, highs, strict=True)
    )
    return Finding(narrowest >= 0.25 - SLACK, evidence, _ids(found), narrowest)


# The paper's own numbers


def text_is_table1(runs: RunSet) -> Finding:
    """P1: the text's rounds of convergence are Table 1's."""
    table = published(runs.paper, "table1")
    text = {"Hypergeometric": 45.0, "Hierarchical": 35.0}
    apart = {name: table[name, FEDCD_ROUNDS] - t for name, t in text.items()}
    evidence = "; ".join(
        f"{name}: text {text[name]:g}, table {table[name, FEDCD_ROUNDS]:g}" for name in text
    )
    return Finding(all(gap == 0 for gap in apart.values()), evidence, [], max(apart.values()))


def ratio_fits_two_models(runs: RunSet) -> Finding:
    """P2: a FedCD round costs at most two FedAvg rounds by Table 1's hierarchical ratio."""
    table = published(runs.paper, "table1")
    costs = {
        name: table[name, FEDAVG_ROUNDS] / table[name, FEDCD_ROUNDS] / table[name, PASSES_RATIO]
        for name in EXPERIMENTS
    }
    evidence = "a FedCD round in FedAvg rounds: " + ", ".join(
        f"{name} {cost:.2f}" for name, cost in costs.items()
    )
    return Finding(costs["Hierarchical"] <= 2, evidence, [], costs["Hierarchical"])


_of = functools.partial

CLAIMS: dict[str, Callable[[RunSet], Finding]] = {
    "A1": beats_fedavg,
    "A2": _of(converges, group=HIER_FEDCD, by=40),
    "A3": calms_down,
    "A4": oscillates_together,
    "A5": _of(fedavg_oscillates, factor=3),
    "A5-trend": _of(fedavg_oscillates, factor=1),
    "A6": fedavg_does_not_converge,
    "A7": first_meta_ends_lower,
    "A8": _of(splits, first=11, last=14),
    "A8-late": _of(splits, first=35, last=END),
    "A9": later_clones_matter_little,
    "A10": few_models_alternate,
    "A10-which": the_named_models_alternate,
    "A11": most_models_die,
    "A12": two_models_a_device,
    "A13": rises_and_falls,
    "A14": bias_prunes,
    "A15": scores_agree,
    "A16": _of(bits_do_not_matter, groups=(BITS, HIER_FEDCD, FEDCD_FLOAT32)),
    "A16-fedavg": _of(bits_do_not_matter, groups=(HIER_FEDAVG, FEDAVG_FLOAT32)),
    "A17": _of(converges, group=HYPER_FEDCD, by=55),
    "A18": _of(skewed_do_best, above_majority=False),
    "A18-baseline": _of(skewed_do_best, above_majority=True),
    "A19": fedavg_favours_the_centre,
    "A20": fedcd_is_cheaper,
    "R1": rules_leave_no_choice,
    "R2": falls_back_to_two,
    "R3": ends_as_logged,
    "R4": one_model_swings,
    "P1": text_is_table1,
    "P2": ratio_fits_two_models,
}
