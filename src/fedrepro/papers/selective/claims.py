"""Liu, Lee, Julien 2020: the claims.

A claim is a function of our mean accuracies over the seeds. "Points" are percentage points; every
number in the code is a fraction. A claim that both readings or several networks can decide (see
:mod:`fedrepro.papers.selective.measurements`) is one function, called with the curves of each.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd

from fedrepro.papers.selective.measurements import (
    AS_RUN_RESET,
    CENTRALISED,
    FEDERATED_AS_RUN,
    FEDERATED_AS_WRITTEN,
    KEPT_MOMENTS,
    LOCAL,
    LOCAL_STATISTICS,
    MODEL_1,
    MODEL_2,
    MODEL_3,
    MODELS,
    OWN_INITIAL,
    OWN_INITIAL_RESET,
    SELECTIVE_AS_RUN,
    SELECTIVE_AS_WRITTEN,
    TEST_TITLES,
    Curve,
    Model,
    Test,
    by_percent,
    threshold_means,
)
from fedrepro.report.finding import SLACK, Finding, in_percent, in_points, not_planned
from fedrepro.runs.runset import RunSet


@dataclass(frozen=True)
class Reading:
    """The curves of one network that one reading calls federated and selective, and local."""

    federated: Curve
    selective: Curve
    local: Curve

    @classmethod
    def as_run(cls, model: Model) -> Reading:
        """Return the curves of what the public code does."""
        return cls(model(FEDERATED_AS_RUN), model(SELECTIVE_AS_RUN), model(LOCAL))

    @classmethod
    def as_written(cls, model: Model) -> Reading:
        """Return the curves of what the paper describes."""
        return cls(model(FEDERATED_AS_WRITTEN), model(SELECTIVE_AS_WRITTEN), model(LOCAL))


class _Values:
    """Our mean accuracies, and the ids of the runs that were looked at."""

    def __init__(self, runs: RunSet) -> None:
        self.used: list[str] = []
        self._runs = runs
        self._curves: dict[tuple[str, Test], dict[int, pd.Series]] = {}

    def _curve(self, curve: Curve, test: Test) -> dict[int, pd.Series]:
        key = (curve.group, test)
        if key not in self._curves:
            summary = by_percent(self._runs, curve, curve.metric(test))
            self._curves[key] = {int(cell["percent"]): cell for _, cell in summary.iterrows()}
        return self._curves[key]

    def percents(self, *curves: Curve, last: int = 100) -> list[int]:
        """Return the values of N up to ``last`` at which all the curves have runs."""
        shared = set.intersection(*(set(self._curve(curve, "iid")) for curve in curves))
        return sorted(percent for percent in shared if percent <= last)

    def at(self, curve: Curve, test: Test, percent: int) -> float:
        """Return the mean accuracy over the seeds."""
        cell = self._curve(curve, test)[percent]
        self.used += list(cell["runs"])
        return float(cell["mean"])


def _within(
    runs: RunSet, *, curve: Curve, bounds: dict[Test, tuple[float, float]], percent: int = 0
) -> Finding:
    """Decide whether the accuracy at one N lies between two bounds, on every test that is named."""
    values = _Values(runs)
    ours = {test: values.at(curve, test, percent) for test in bounds}
    return Finding(
        holds=all(low <= ours[test] <= high for test, (low, high) in bounds.items()),
        evidence="; ".join(
            f"{curve.name}, {TEST_TITLES[test]}: {in_percent(value)}"
            for test, value in ours.items()
        ),
        runs=values.used,
        ours=next(iter(ours.values())),
    )


def rises_steeply(runs: RunSet, *, reading: Reading) -> Finding:
    """B7: more than half of the gain on the IID test is there by N = 6."""
    values = _Values(runs)
    shares = {}
    for curve in (reading.federated, reading.selective, reading.local):
        early = values.percents(curve, last=6)[-1]
        start, middle, end = (values.at(curve, "iid", n) for n in (0, early, 100))
        gain = end - start
        shares[f"{curve.name} (N = {early})"] = (middle - start) / gain if gain > 0 else 0.0
    return Finding(
        holds=all(share > 0.5 for share in shares.values()),
        evidence="share of the gain: "
        + "; ".join(f"{name} {in_percent(share)}" for name, share in shares.items()),
        runs=values.used,
        ours=min(shares.values()),
    )


def best_on_iid(runs: RunSet, *, reading: Reading) -> Finding:
    """B8: up to N = 20 federated is at most 1 point below selective and 0.5 below local."""
    values = _Values(runs)
    parts = []
    for other, slack in ((reading.selective, 0.01), (reading.local, 0.005)):
        leads = {
            n: values.at(reading.federated, "iid", n) - values.at(other, "iid", n)
            for n in values.percents(reading.federated, other, last=20)
        }
        worst = min(leads, key=lambda n: leads[n])
        parts.append((other.name, worst, leads[worst], slack))
    return Finding(
        holds=all(lead >= -slack - SLACK for _, _, lead, slack in parts),
        evidence="smallest lead of federated: "
        + "; ".join(
            f"over {name} {in_points(lead)} (N = {worst})" for name, worst, lead, _ in parts
        ),
        runs=values.used,
        ours=min(lead for _, _, lead, _ in parts),
    )


def selective_beats_federated(
    runs: RunSet, *, reading: Reading, last: int, by: float, at_zero: float
) -> Finding:
    """B9: on the non-IID test selective leads by so much up to N = ``last``, and at N = 0."""
    values = _Values(runs)
    leads = {
        n: values.at(reading.selective, "noniid", n) - values.at(reading.federated, "noniid", n)
        for n in values.percents(reading.federated, reading.selective, last=last)
    }
    worst = min(leads, key=lambda n: leads[n])
    return Finding(
        holds=leads[worst] > by and leads[0] > at_zero,
        evidence=f"lead of selective: {in_points(leads[0])} at N = 0, smallest "
        f"{in_points(leads[worst])} at N = {worst}",
        runs=values.used,
        ours=leads[worst],
    )


def selective_matches_local(runs: RunSet, *, reading: Reading) -> Finding:
    """B10: on the non-IID test at N = 0 selective and local are less than 0.5 points apart."""
    values = _Values(runs)
    selective = values.at(reading.selective, "noniid", 0)
    local = values.at(reading.local, "noniid", 0)
    return Finding(
        holds=abs(selective - local) < 0.005,
        evidence=f"{reading.selective.name} {in_percent(selective)}, local {in_percent(local)}",
        runs=values.used,
        ours=selective - local,
    )


def local_falls(runs: RunSet) -> Finding:
    """B11: local loses more than 2 points on the non-IID test from N = 0 to N = 100."""
    values = _Values(runs)
    first, last = values.at(LOCAL, "noniid", 0), values.at(LOCAL, "noniid", 100)
    return Finding(
        holds=first - last > 0.02,
        evidence=f"local {in_percent(first)} at N = 0, {in_percent(last)} at N = 100",
        runs=values.used,
        ours=first - last,
    )


def modes_meet(
    runs: RunSet, *, reading: Reading, local_below: tuple[float, float] | None
) -> Finding:
    """B13: at N = 100 selective is within 0.5 points of federated, and local so much below it."""
    values = _Values(runs)
    holds, parts = True, []
    for test, title in TEST_TITLES.items():
        federated = values.at(reading.federated, test, 100)
        selective = values.at(reading.selective, test, 100)
        below = federated - values.at(reading.local, test, 100)
        holds &= abs(selective - federated) <= 0.005 + SLACK
        if local_below:
            holds &= local_below[0] - SLACK <= below <= local_below[1] + SLACK
        parts.append(
            f"{title}: federated {in_percent(federated)}, selective {in_percent(selective)}, "
            f"local {in_points(below)} below federated"
        )
    return Finding(holds=holds, evidence="; ".join(parts), runs=values.used)


def grouping(runs: RunSet, *, curve: Curve) -> Finding:
    """B14: three groups of three nodes at N = 0, one group from N = 20 on, for every seed."""
    finals = runs.final([curve.group], ["groups"])
    at_zero = finals[finals["percent"] == 0]
    later = finals[finals["percent"] >= 20]
    for what, found in (("N = 0", at_zero), ("N from 20 on", later)):
        if found.empty:
            raise not_planned(runs, curve.group, what)
    sizes = [sorted(len(group) for group in groups) for groups in at_zero["groups"]]
    several = later[[len(groups) != 1 for groups in later["groups"]]]
    exceptions = ", ".join(str(n) for n in sorted(set(several["percent"])))
    return Finding(
        holds=all(size == [3, 3, 3] for size in sizes) and several.empty,
        evidence=f"sizes of the groups at N = 0: {_listed(sizes)}; runs with more than one group "
        f"from N = 20 on: {len(several)} of {len(later)}"
        + (f" (N = {exceptions})" if exceptions else ""),
        runs=[*at_zero["run"], *later["run"]],
        ours=float(len(several)),
    )


def _listed(sizes: Sequence[Sequence[int]]) -> str:
    return ", ".join(sorted({"+".join(str(size) for size in found) for found in sizes}))


def above(runs: RunSet, *, curve: Curve, bound: float) -> Finding:
    """B15: the accuracy on the IID test at N = 0 is above a bound."""
    values = _Values(runs)
    ours = values.at(curve, "iid", 0)
    return Finding(ours > bound, f"{curve.name}: {in_percent(ours)}", values.used, ours)


def storage_alone(runs: RunSet) -> Finding:
    """B16: with the moments reset as well, shared storage alone makes the network collapse."""
    values = _Values(runs)
    shared, apart = (values.at(curve, "iid", 0) for curve in (AS_RUN_RESET, OWN_INITIAL_RESET))
    return Finding(
        holds=shared < 0.5 and apart - shared > 0.15,
        evidence=f"moments reset, own initial weights: shared storage {in_percent(shared)}, "
        f"true averaging {in_percent(apart)}",
        runs=values.used,
        ours=shared,
    )


def rises_with_complexity(runs: RunSet, *, curve: Curve, test: Test, gap: float) -> Finding:
    """B2, B3: federated accuracy at N = 0 rises from network to network by more than a gap."""
    values = _Values(runs)
    ours = [values.at(model(curve), test, 0) for model in MODELS]
    gaps = [after - before for before, after in itertools.pairwise(ours)]
    return Finding(
        holds=all(found > gap for found in gaps),
        evidence=f"{curve.name}, {TEST_TITLES[test]}, Models 1, 2, 3: "
        + ", ".join(in_percent(value) for value in ours),
        runs=values.used,
        ours=min(gaps),
    )


def robust(runs: RunSet, *, curve: Curve, bound: float) -> Finding:
    """B12: from N = 2 on the accuracy on both tests is above a bound."""
    values = _Values(runs)
    found = {
        (n, test): values.at(curve, test, n)
        for n in values.percents(curve)
        for test in TEST_TITLES
        if n >= 2
    }
    n, test = min(found, key=lambda place: found[place])
    worst = found[n, test]
    return Finding(
        holds=worst > bound,
        evidence=f"{curve.name}, lowest from N = 2 on: {in_percent(worst)} (N = {n}, "
        f"{TEST_TITLES[test]})",
        runs=values.used,
        ours=worst,
    )


def _tuned(runs: RunSet) -> tuple[pd.DataFrame, float]:
    """Return the means over the seeds of every threshold, and the threshold that is best."""
    means = threshold_means(runs)
    over_seeds = means.groupby("threshold", as_index=False)[["tuning", "noniid"]].mean()
    best = over_seeds[over_seeds["tuning"] >= over_seeds["tuning"].max() - SLACK]
    return over_seeds.set_index("threshold"), float(best["threshold"].min())


def threshold_is_tuned(runs: RunSet, *, around: tuple[float, float]) -> Finding:
    """T1: the best threshold on the tuning images lies between two values."""
    means, best = _tuned(runs)
    return Finding(
        holds=around[0] <= best <= around[1],
        evidence=f"best on the tuning images: {best:g} with {in_percent(means['tuning'][best])}; "
        f"0.82 has {in_percent(means['tuning'][0.82])}",
        runs=[run.id for run in runs.members(["selective_threshold"])],
        ours=best,
    )


def threshold_costs_little(runs: RunSet, *, slack: float) -> Finding:
    """T2: on the non-IID test 0.82 is at most so much below the tuned threshold."""
    means, best = _tuned(runs)
    below = float(means["noniid"][best] - means["noniid"][0.82])
    return Finding(
        holds=below <= slack + SLACK,
        evidence=f"non-IID test, mean over N: {in_percent(means['noniid'][best])} at the tuned "
        f"threshold {best:g}, {in_percent(means['noniid'][0.82])} at 0.82",
        runs=[run.id for run in runs.members(["selective_threshold"])],
        ours=below,
    )


_COLLAPSE: dict[Test, tuple[float, float]] = {"iid": (0.30, 0.41), "noniid": (0.28, 0.38)}
_LABEL_SHARE: dict[Test, tuple[float, float]] = {"iid": (0.31, 0.35)}
_TABLE_2: dict[Model, tuple[float, float]] = {
    MODEL_1: (0.959, 0.970),
    MODEL_2: (0.988, 0.993),
    MODEL_3: (0.993, 0.997),
}

_of = functools.partial
Claims = dict[str, Callable[[RunSet], Finding]]


def _claims_of(model: Model, suffix: str) -> Claims:
    """Return the claims that are made of every network, with the suffix of its ids."""
    central: dict[Test, tuple[float, float]] = {"iid": _TABLE_2[model]}
    claims: Claims = {
        f"B1{suffix}": _of(_within, curve=model(CENTRALISED), bounds=central, percent=100),
        f"B5{suffix}": _of(_within, curve=model(LOCAL), bounds=_LABEL_SHARE),
    }
    local_below = (0.009, 0.019) if model is MODEL_1 else None
    readings = {"": Reading.as_run(model), "-as_written": Reading.as_written(model)}
    for ending, reading in readings.items():
        end = suffix + ending
        claims |= {
            f"B6{end}": _of(_within, curve=reading.selective, bounds=_LABEL_SHARE),
            f"B7{end}": _of(rises_steeply, reading=reading),
            f"B8{end}": _of(best_on_iid, reading=reading),
            f"B10{end}": _of(selective_matches_local, reading=reading),
            f"B13{end}": _of(modes_meet, reading=reading, local_below=local_below),
            f"B14{end}": _of(grouping, curve=reading.selective),
        }
    return claims


_beats = selective_beats_federated
_rises = rises_with_complexity

CLAIMS: Claims = {
    **_claims_of(MODEL_1, ""),
    **_claims_of(MODEL_2, "-m2"),
    **_claims_of(MODEL_3, "-m3"),
    "B2": _of(_rises, curve=FEDERATED_AS_RUN, test="iid", gap=0.05),
    "B2-as_written": _of(_rises, curve=FEDERATED_AS_WRITTEN, test="iid", gap=0.05),
    "B2-order": _of(_rises, curve=FEDERATED_AS_RUN, test="iid", gap=0.0),
    "B2-order-as_written": _of(_rises, curve=FEDERATED_AS_WRITTEN, test="iid", gap=0.0),
    "B3": _of(_rises, curve=FEDERATED_AS_RUN, test="noniid", gap=0.05),
    "B3-as_written": _of(_rises, curve=FEDERATED_AS_WRITTEN, test="noniid", gap=0.05),
    "B3-order": _of(_rises, curve=FEDERATED_AS_RUN, test="noniid", gap=0.0),
    "B3-order-as_written": _of(_rises, curve=FEDERATED_AS_WRITTEN, test="noniid", gap=0.0),
    "B4": _of(_within, curve=FEDERATED_AS_RUN, bounds=_COLLAPSE),
    "B4-as_written": _of(_within, curve=FEDERATED_AS_WRITTEN, bounds=_COLLAPSE),
    "B9": _of(_beats, reading=Reading.as_run(MODEL_1), last=12, by=0.04, at_zero=0.60),
    "B9-as_written": _of(
        _beats, reading=Reading.as_written(MODEL_1), last=12, by=0.04, at_zero=0.04
    ),
    "B9-m2": _of(_beats, reading=Reading.as_run(MODEL_2), last=6, by=0.0, at_zero=0.0),
    "B9-m2-as_written": _of(
        _beats, reading=Reading.as_written(MODEL_2), last=6, by=0.0, at_zero=0.0
    ),
    "B11": local_falls,
    "B12": _of(robust, curve=MODEL_3(FEDERATED_AS_RUN), bound=0.96),
    "B12-as_written": _of(robust, curve=MODEL_3(FEDERATED_AS_WRITTEN), bound=0.96),
    "B12-local_statistics": _of(robust, curve=MODEL_3(LOCAL_STATISTICS), bound=0.96),
    "B15-reset": _of(above, curve=FEDERATED_AS_WRITTEN, bound=0.75),
    "B15-kept": _of(above, curve=KEPT_MOMENTS, bound=0.55),
    "B15-own_initial": _of(above, curve=OWN_INITIAL, bound=0.55),
    "B16": storage_alone,
    "T1": _of(threshold_is_tuned, around=(0.80, 0.85)),
    "T2": _of(threshold_costs_little, slack=0.005),
}
