"""Liu, Lee, Julien 2020: the claims that Model 1 alone can decide.

A claim is a function of our mean accuracies over the seeds. "Points" are percentage points; every
number in the code is a fraction. A claim that both readings can decide (see
:mod:`fedrepro.tables.selective`) is one function, called with the curves of either.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd

from fedrepro.claims.finding import Finding
from fedrepro.runs import RunSet
from fedrepro.tables.selective import (
    CENTRALISED,
    FEDERATED_AS_RUN,
    FEDERATED_AS_WRITTEN,
    KEPT_MOMENTS,
    LOCAL,
    OWN_INITIAL,
    SELECTIVE_AS_RUN,
    SELECTIVE_AS_WRITTEN,
    TEST_TITLES,
    Curve,
    Test,
    by_percent,
)

TOLERATED = 1e-9
"""Means of decimal fractions are not exact; a bound that is met exactly is met."""


@dataclass(frozen=True)
class Reading:
    """The curves that one reading calls federated and selective."""

    federated: Curve
    selective: Curve


AS_RUN = Reading(FEDERATED_AS_RUN, SELECTIVE_AS_RUN)
AS_WRITTEN = Reading(FEDERATED_AS_WRITTEN, SELECTIVE_AS_WRITTEN)


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
        self.used += str(cell["runs"]).split()
        return float(cell["mean"])


def _percent(value: float) -> str:
    return f"{100 * value:.2f} %"


def _points(value: float) -> str:
    return f"{100 * value:.2f} points"


def _within(
    runs: RunSet, *, curve: Curve, bounds: dict[Test, tuple[float, float]], percent: int = 0
) -> Finding:
    """Decide whether the accuracy at one N lies between two bounds, on every test that is named."""
    values = _Values(runs)
    ours = {test: values.at(curve, test, percent) for test in bounds}
    return Finding(
        holds=all(low <= ours[test] <= high for test, (low, high) in bounds.items()),
        evidence="; ".join(
            f"{curve.name}, {TEST_TITLES[test]}: {_percent(value)}" for test, value in ours.items()
        ),
        runs=values.used,
        ours=next(iter(ours.values())),
    )


def rises_steeply(runs: RunSet, *, reading: Reading) -> Finding:
    """B7: more than half of the gain on the IID test is there by N = 6."""
    values = _Values(runs)
    shares = {}
    for curve in (reading.federated, reading.selective, LOCAL):
        early = values.percents(curve, last=6)[-1]
        start, middle, end = (values.at(curve, "iid", n) for n in (0, early, 100))
        gain = end - start
        shares[f"{curve.name} (N = {early})"] = (middle - start) / gain if gain > 0 else 0.0
    return Finding(
        holds=all(share > 0.5 for share in shares.values()),
        evidence="share of the gain: "
        + "; ".join(f"{name} {_percent(share)}" for name, share in shares.items()),
        runs=values.used,
        ours=min(shares.values()),
    )


def best_on_iid(runs: RunSet, *, reading: Reading) -> Finding:
    """B8: up to N = 20 federated is at most 1 point below selective and 0.5 below local."""
    values = _Values(runs)
    parts = []
    for other, slack in ((reading.selective, 0.01), (LOCAL, 0.005)):
        leads = {
            n: values.at(reading.federated, "iid", n) - values.at(other, "iid", n)
            for n in values.percents(reading.federated, other, last=20)
        }
        worst = min(leads, key=lambda n: leads[n])
        parts.append((other.name, worst, leads[worst], slack))
    return Finding(
        holds=all(lead >= -slack - TOLERATED for _, _, lead, slack in parts),
        evidence="smallest lead of federated: "
        + "; ".join(f"over {name} {_points(lead)} (N = {worst})" for name, worst, lead, _ in parts),
        runs=values.used,
        ours=min(lead for _, _, lead, _ in parts),
    )


def selective_beats_federated(runs: RunSet, *, reading: Reading, at_zero: float) -> Finding:
    """B9: on the non-IID test selective leads by 4 points up to N = 12, and ``at_zero`` at 0."""
    values = _Values(runs)
    leads = {
        n: values.at(reading.selective, "noniid", n) - values.at(reading.federated, "noniid", n)
        for n in values.percents(reading.federated, reading.selective, last=12)
    }
    worst = min(leads, key=lambda n: leads[n])
    return Finding(
        holds=leads[worst] > 0.04 and leads[0] > at_zero,
        evidence=f"lead of selective: {_points(leads[0])} at N = 0, smallest "
        f"{_points(leads[worst])} at N = {worst}",
        runs=values.used,
        ours=leads[worst],
    )


def selective_matches_local(runs: RunSet, *, reading: Reading) -> Finding:
    """B10: on the non-IID test at N = 0 selective and local are less than 0.5 points apart."""
    values = _Values(runs)
    selective = values.at(reading.selective, "noniid", 0)
    local = values.at(LOCAL, "noniid", 0)
    return Finding(
        holds=abs(selective - local) < 0.005,
        evidence=f"{reading.selective.name} {_percent(selective)}, local {_percent(local)}",
        runs=values.used,
        ours=selective - local,
    )


def local_falls(runs: RunSet) -> Finding:
    """B11: local loses more than 2 points on the non-IID test from N = 0 to N = 100."""
    values = _Values(runs)
    first, last = values.at(LOCAL, "noniid", 0), values.at(LOCAL, "noniid", 100)
    return Finding(
        holds=first - last > 0.02,
        evidence=f"local {_percent(first)} at N = 0, {_percent(last)} at N = 100",
        runs=values.used,
        ours=first - last,
    )


def modes_meet(runs: RunSet, *, reading: Reading) -> Finding:
    """B13: at N = 100 selective is within 0.5 points of federated, local 0.9 to 1.9 below it."""
    values = _Values(runs)
    holds, parts = True, []
    for test, title in TEST_TITLES.items():
        federated = values.at(reading.federated, test, 100)
        selective = values.at(reading.selective, test, 100)
        below = federated - values.at(LOCAL, test, 100)
        holds &= abs(selective - federated) <= 0.005 + TOLERATED
        holds &= 0.009 - TOLERATED <= below <= 0.019 + TOLERATED
        parts.append(
            f"{title}: federated {_percent(federated)}, selective {_percent(selective)}, "
            f"local {_points(below)} below federated"
        )
    return Finding(holds=holds, evidence="; ".join(parts), runs=values.used)


def grouping(runs: RunSet, *, curve: Curve) -> Finding:
    """B14: three groups of three nodes at N = 0, one group from N = 20 on, for every seed."""
    finals = runs.final([curve.group], ["groups"])
    at_zero = finals[finals["percent"] == 0]
    later = finals[finals["percent"] >= 20]
    sizes = [sorted(len(group) for group in groups) for groups in at_zero["groups"]]
    several = later[[len(groups) != 1 for groups in later["groups"]]]
    exceptions = ", ".join(str(n) for n in sorted(set(several["percent"])))
    return Finding(
        holds=all(found == [3, 3, 3] for found in sizes) and several.empty,
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
    return Finding(ours > bound, f"{curve.name}: {_percent(ours)}", values.used, ours)


_COLLAPSE: dict[Test, tuple[float, float]] = {"iid": (0.30, 0.41), "noniid": (0.28, 0.38)}
_LABEL_SHARE: dict[Test, tuple[float, float]] = {"iid": (0.31, 0.35)}
_TABLE_2: dict[Test, tuple[float, float]] = {"iid": (0.959, 0.970)}

_of = functools.partial

CLAIMS: dict[str, Callable[[RunSet], Finding]] = {
    "B1": _of(_within, curve=CENTRALISED, bounds=_TABLE_2, percent=100),
    "B4": _of(_within, curve=FEDERATED_AS_RUN, bounds=_COLLAPSE),
    "B4-as_written": _of(_within, curve=FEDERATED_AS_WRITTEN, bounds=_COLLAPSE),
    "B5": _of(_within, curve=LOCAL, bounds=_LABEL_SHARE),
    "B6": _of(_within, curve=SELECTIVE_AS_RUN, bounds=_LABEL_SHARE),
    "B6-as_written": _of(_within, curve=SELECTIVE_AS_WRITTEN, bounds=_LABEL_SHARE),
    "B7": _of(rises_steeply, reading=AS_RUN),
    "B7-as_written": _of(rises_steeply, reading=AS_WRITTEN),
    "B8": _of(best_on_iid, reading=AS_RUN),
    "B8-as_written": _of(best_on_iid, reading=AS_WRITTEN),
    "B9": _of(selective_beats_federated, reading=AS_RUN, at_zero=0.60),
    "B9-as_written": _of(selective_beats_federated, reading=AS_WRITTEN, at_zero=0.04),
    "B10": _of(selective_matches_local, reading=AS_RUN),
    "B10-as_written": _of(selective_matches_local, reading=AS_WRITTEN),
    "B11": local_falls,
    "B13": _of(modes_meet, reading=AS_RUN),
    "B13-as_written": _of(modes_meet, reading=AS_WRITTEN),
    "B14": _of(grouping, curve=SELECTIVE_AS_RUN),
    "B14-as_written": _of(grouping, curve=SELECTIVE_AS_WRITTEN),
    "B15-reset": _of(above, curve=FEDERATED_AS_WRITTEN, bound=0.75),
    "B15-kept": _of(above, curve=KEPT_MOMENTS, bound=0.55),
    "B15-own_initial": _of(above, curve=OWN_INITIAL, bound=0.55),
}
