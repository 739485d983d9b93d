"""What a claim's function finds, and how it words its evidence."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedrepro.base.errors import FedreproError
from fedrepro.report.stats import (
    LEAST_FOR_T,
    LEVEL,
    NO_ERROR,
    Error,
    bootstrap,
    bounds,
    one_sided_p,
    seeds_needed,
)
from fedrepro.runs.runset import RunSet

SLACK = 1e-9
"""Means of decimal fractions are not exact; a bound that is met exactly is met."""


@dataclass(frozen=True)
class Margin:
    """By how much our runs meet one part of a claim: above 0 where they meet it.

    Attributes:
        value: the margin that our runs have; NaN where they have none.
        low: the least it may be, given its seeds.
        high: the most.
        p: one-sided p value of its sign; NaN where the seeds do not say.
        seeds: how many it rests on.
        strict: whether 0 is too little.
        sd: of the margins of single seeds; NaN where it is no mean of such.
        what: the difference it is, in words: ``IID - 1-class - 2 points``.
        unit: ``points`` of a difference of fractions; empty: that of the runs.
    """

    value: float
    low: float
    high: float
    p: float
    seeds: int
    strict: bool = False
    sd: float = math.nan
    what: str = ""
    unit: str = ""

    @classmethod
    def of(
        cls,
        values: Iterable[float],
        what: str = "",
        *,
        strict: bool = False,
        error: Error = NO_ERROR,
        unit: str = "",
    ) -> Margin:
        """Return the mean of margins of single seeds, within its bounds.

        Args:
            values: one a seed, differences of runs of equal seeds where two things are compared.
            what: the difference, in words.
            strict: whether 0 is too little.
            error: of a single one.
            unit: as of the margin.

        See :func:`fedrepro.report.stats.bounds`.
        """
        each = [float(value) for value in values]
        low, high = bounds(each, error)
        sd = float(np.std(each, ddof=1)) if len(each) > 1 else math.nan
        mean, p = float(np.mean(each)), one_sided_p(each)
        return cls(mean, low, high, p, len(each), strict, sd, what, unit)

    @classmethod
    def by_bootstrap(
        cls,
        statistic: Callable[[np.ndarray], np.ndarray],
        values: ArrayLike,
        what: str = "",
        *,
        most: float,
    ) -> Margin:
        """Return the margin that is a rank correlation of means over the seeds, less a bound.

        Noise hides an order, and resampling adds to the noise: both bring the correlation nearer to
        0. So the margin may be as far above its value as the resamples go below it. It has no p
        value. See :func:`fedrepro.report.stats.bootstrap`.

        Args:
            statistic: the margin on each of many resamples, [resamples, seeds, ...] ->
                [resamples].
            values: what it is a statistic of, [seeds, ...], of one seed at least.
            what: the difference, in words.
            most: that it can be, with a perfect order.
        """
        each = np.asarray(values, dtype=float)
        low, high = bootstrap(statistic, each)
        value = float(statistic(each[None])[0])
        high = max(high, min(2 * value - low, most))
        return cls(value, low, high, math.nan, len(each), what=what)

    @property
    def met(self) -> bool:
        """Whether our runs meet it."""
        return self._meets(self.value)

    @property
    def firm(self) -> bool:
        """Whether it is met everywhere in its interval, or nowhere."""
        all_it_may_be = (self.value, self.low, self.high)
        if any(map(math.isnan, all_it_may_be)):
            return False
        return len({self._meets(value) for value in all_it_may_be}) == 1

    def needed(self, level: float = LEVEL) -> int | None:
        """Return how many seeds would bring p below a level, were mean and spread as found.

        None: not known.
        """
        if math.isnan(self.sd):
            return None
        return seeds_needed(abs(self.value), self.sd, level)

    def _meets(self, value: float) -> bool:
        return value > SLACK if self.strict else value >= -SLACK


@dataclass(frozen=True)
class Finding:
    """The outcome of testing a claim on our runs.

    Attributes:
        holds: whether every part of the assertion is true of our means.
        evidence: our numbers, in a sentence.
        runs: ids of the runs it rests on.
        ours: the one number that sums it up, where there is one.
        margins: a claim about means: its parts, all of which have to be met. Empty: it is about
            something else, such as the same thing in every run, and has no interval.
        undecided: why its networks can decide nothing, such as that they hardly learn; empty: they
            can.
    """

    holds: bool
    evidence: str
    runs: Sequence[str]
    ours: float | None = None
    margins: Sequence[Margin] = ()
    undecided: str = ""

    @classmethod
    def of(
        cls,
        margins: Sequence[Margin],
        evidence: str,
        runs: Sequence[str],
        ours: float | None = None,
        undecided: str = "",
    ) -> Finding:
        """Return the finding that holds where all margins are met.

        Without runs, as of published numbers, it keeps none: no seed could turn it.
        """
        holds = all(margin.met for margin in margins)
        return cls(holds, evidence, runs, ours, tuple(margins) if runs else (), undecided)

    @property
    def defined(self) -> bool:
        """Whether our runs give every part a value."""
        return not any(math.isnan(margin.value) for margin in self.margins)

    @property
    def firm(self) -> bool:
        """Whether seeds would not turn it: all parts are firmly met, or one firmly is not."""
        if self.undecided:
            return False
        if self.holds:
            return all(margin.firm for margin in self.margins)
        return not self.margins or any(map(self._fails_firmly, self.margins))

    def _fails_firmly(self, margin: Margin) -> bool:
        """Whether a part is surely not met.

        Any of the parts would make the claim fail, so that one by chance is likelier the more there
        are: each is tested at a level divided by their number (Bonferroni).
        """
        if margin.met or not margin.firm:
            return False
        few = margin.seeds < LEAST_FOR_T
        return few or math.isnan(margin.p) or margin.p < LEVEL / len(self.margins)

    @property
    def p(self) -> float:
        """One-sided p value; NaN where there are no margins, or one of them has none.

        All parts have to hold for a claim to hold, so the largest decides; a claim fails by any of
        its parts, so the smallest of those unmet does, times their number.
        """
        if not self.margins or any(math.isnan(margin.p) for margin in self.margins):
            return math.nan
        if self.holds:
            return max(margin.p for margin in self.margins)
        unmet = min((margin.p for margin in self.margins if not margin.met), default=math.nan)
        return min(1.0, len(self.margins) * unmet)

    @property
    def needed(self) -> int | None:
        """How many seeds would make it firm, were means and spreads as found; None: not known."""
        if self.undecided or not self.margins:
            return None
        if self.holds:
            needed = [margin.needed() for margin in self.margins if not margin.firm]
        else:
            level = LEVEL / len(self.margins)
            needed = [margin.needed(level) for margin in self.margins if not margin.met]
        known = [number for number in needed if number is not None]
        if not known or (self.holds and len(known) < len(needed)):
            return None
        return max(known) if self.holds else min(known)

    @property
    def seeds(self) -> int:
        """On how many seeds it rests; 0 without margins.

        All parts have to hold for a claim to hold, so that with the fewest decides; one that surely
        fails is enough for it to fail.
        """
        failing = [margin.seeds for margin in self.margins if self._fails_firmly(margin)]
        return max(failing, default=min((margin.seeds for margin in self.margins), default=0))

    def few(self, seeds: int) -> str:
        """Return what to say if it rests on one seed or two; empty for others."""
        if seeds not in (1, 2) or not self.defined:
            return ""
        told = "one seed" if seeds == 1 else "two seeds"
        open_ = seeds == 1 and not self.firm and not self.undecided
        return f"{told}, and other seeds, test examples or rounds could turn it" if open_ else told


def not_planned(runs: RunSet, group: str, what: str) -> FedreproError:
    """Return the error of a claim that a group's runs at this scale cannot decide."""
    return FedreproError(
        f"config/papers/{runs.paper}.yaml: scales.{runs.scale}: {group} has no {what}, which a "
        "claim needs; add it to the grid, or take the scale off the claim"
    )


def in_percent(value: float) -> str:
    """Return a fraction in per cent: ``97.56 %``."""
    return f"{100 * value:.2f} %"


def in_points(value: float) -> str:
    """Return a difference of fractions in percentage points: ``1.32 points``."""
    return f"{100 * value:.2f} points"
