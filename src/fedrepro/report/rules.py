"""Rules that decide claims by comparing means over the seeds.

A paper says what its quantity is: a function of runs, the name of what is compared, and further
values of the claim that say where (a data set, say). Each function here makes a rule of that
quantity; the thresholds are values of the claim in ``config/expected``, as its statement prints
them: ``points`` are percentage points, ``percent`` is a share of 100.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from fedrepro.report.finding import SLACK, Finding, in_percent
from fedrepro.runs.runset import RunSet


@dataclass(frozen=True)
class Sample:
    """A quantity over the seeds.

    Attributes:
        name: what a reader calls it.
        values: one a seed; fractions where the quantity is an accuracy.
        runs: ids of the runs.
    """

    name: str
    values: tuple[float, ...]
    runs: tuple[str, ...]

    @property
    def mean(self) -> float:
        """Mean over the seeds."""
        return float(np.mean(self.values))


Quantity: TypeAlias = Callable[..., Sample]
"""``quantity(runs, what, **where)``."""
Rule: TypeAlias = Callable[..., Finding]
"""``rule(runs, **values)``."""
Names: TypeAlias = str | Sequence[str]


def listed(samples: Sequence[Sample], show: Callable[[float], str] = in_percent) -> str:
    """Return names and means: ``IID 98.69 %, 1-class 92.17 %``."""
    return ", ".join(f"{sample.name} {show(sample.mean)}" for sample in samples)


def _samples(quantity: Quantity, runs: RunSet, what: Names, where: Any) -> list[Sample]:
    names = [what] if isinstance(what, str) else what
    return [quantity(runs, name, **where) for name in names]


def _finding(holds: bool, samples: Sequence[Sample], ours: float) -> Finding:
    return Finding(holds, listed(samples), [run for s in samples for run in s.runs], ours)


def leads(quantity: Quantity) -> Rule:
    """Return the rule: the least of ``what`` is above the greatest of ``over``.

    By at least ``points``, and by at most ``at_most`` points where that is given.
    """

    def rule(
        runs: RunSet,
        *,
        what: Names,
        over: Names,
        points: float = 0,
        at_most: float = float("inf"),
        **where: Any,
    ) -> Finding:
        high, low = (_samples(quantity, runs, names, where) for names in (what, over))
        lead = min(sample.mean for sample in high) - max(sample.mean for sample in low)
        enough = lead > 0 and points / 100 - SLACK <= lead <= at_most / 100 + SLACK
        return _finding(enough, [*low, *high], lead)

    return rule


def near(quantity: Quantity) -> Rule:
    """Return the rule: ``what`` and ``to`` are at most ``points`` apart."""

    def rule(runs: RunSet, *, what: str, to: str, points: float, **where: Any) -> Finding:
        other, one = quantity(runs, to, **where), quantity(runs, what, **where)
        gap = one.mean - other.mean
        return _finding(abs(gap) <= points / 100 + SLACK, [other, one], gap)

    return rule


def between(quantity: Quantity) -> Rule:
    """Return the rule: ``what`` is from ``low`` to ``high`` percent."""

    def rule(
        runs: RunSet, *, what: str, low: float = 0, high: float = 100, **where: Any
    ) -> Finding:
        sample = quantity(runs, what, **where)
        inside = low / 100 - SLACK <= sample.mean <= high / 100 + SLACK
        return _finding(inside, [sample], sample.mean)

    return rule


def descends(quantity: Quantity) -> Rule:
    """Return the rule: each of ``what`` is above the next one."""

    def rule(runs: RunSet, *, what: Sequence[str], **where: Any) -> Finding:
        samples = _samples(quantity, runs, what, where)
        means = [sample.mean for sample in samples]
        least = min(a - b for a, b in itertools.pairwise(means))
        return _finding(least > 0, samples, least)

    return rule
