"""Rules that decide claims by comparing means over the seeds.

A paper says what its quantity is: a function of runs, the name of what is compared, and further
values of the claim that say where (a data set, say). Each function here makes a rule of that
quantity; the thresholds are values of the claim in ``config/expected``, as its statement prints
them: ``points`` are percentage points, ``percent`` is a share of 100.

Every rule takes a claim apart into margins, one for each thing that has to hold, seed by seed, so
that the verdict knows whether other seeds could turn it.
"""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from fedrepro.base.configfile import nearest
from fedrepro.base.errors import FedreproError
from fedrepro.report.finding import Finding, Margin, in_percent, not_planned
from fedrepro.report.stats import (
    NO_ERROR,
    Error,
    error_of_mean,
    sampling_error,
    sd_bounds,
    sd_p,
    sd_ratio_bounds,
    sd_ratio_p,
    total,
)
from fedrepro.runs.plan import PlannedRun
from fedrepro.runs.runset import Evaluated, MissingRunsError, RunSet

NEAR_CHANCE = 2.5
"""Networks that all stay below so many times the accuracy of guessing decide nothing."""


@dataclass(frozen=True)
class Sample:
    """A quantity over the seeds.

    Attributes:
        name: what a reader calls it.
        values: one a seed; fractions where the quantity is an accuracy.
        runs: ids of the runs.
        seeds: of the values; empty: 0, 1, ...
        on: of an accuracy: what it is measured on; None: it is none.
        error: that a single value has for another reason than the seed, the test examples and
            ``rounds``.
        rounds: of each value that is a mean over rounds, these; empty: none is.
        last: how many of the last of these each value is the mean of; 0: all.
        fraction: whether the values are fractions, as accuracies and shares are; those with ``on``
            always are.
    """

    name: str
    values: tuple[float, ...]
    runs: tuple[str, ...]
    seeds: tuple[int, ...] = ()
    on: Evaluated | None = None
    error: Error = NO_ERROR
    rounds: tuple[tuple[float, ...], ...] = ()
    last: int = 0
    fraction: bool = False

    @classmethod
    def of(cls, name: str, cells: pd.DataFrame, column: str, on: Evaluated | None = None) -> Sample:
        """Return a column of a frame that has one row a run, with its id and seed."""
        values, ids, seeds = (tuple(cells[key]) for key in (column, "run", "seed"))
        return cls(name, values, ids, seeds, on)

    @classmethod
    def of_runs(
        cls,
        name: str,
        runs: Sequence[PlannedRun],
        values: Iterable[float],
        on: Evaluated | None = None,
        error: Error = NO_ERROR,
        *,
        fraction: bool = False,
    ) -> Sample:
        """Return values of runs, one of each."""
        ids, seeds = tuple(run.id for run in runs), tuple(run.seed for run in runs)
        each = tuple(map(float, values))
        return cls(name, each, ids, seeds, on, error, fraction=fraction)

    @classmethod
    def over_rounds(
        cls,
        name: str,
        runs: Sequence[PlannedRun],
        rounds: Iterable[ArrayLike],
        *,
        last: int = 0,
        fraction: bool = False,
    ) -> Sample:
        """Return the mean over some rounds of each run; its error is that of their scatter.

        It is not for what rises or falls through these rounds, whose spread is no error. Samples
        that are compared are of the same rounds.

        Args:
            name: what a reader calls it.
            runs: the runs.
            rounds: of each of them, [rounds].
            last: of how many of the last rounds the mean is; the others only tell how far the means
                of so few are apart. 0: of all.
            fraction: as of the sample.
        """
        each = tuple(tuple(map(float, np.asarray(values))) for values in rounds)
        means = (float(np.mean(values[-last:])) for values in each)
        sample = cls.of_runs(name, runs, means, fraction=fraction)
        return dataclasses.replace(sample, rounds=each, last=last)

    @property
    def unit(self) -> str:
        """The unit of differences of its values: ``points`` of fractions."""
        return "points" if self.fraction or self.on is not None else ""

    @property
    def mean(self) -> float:
        """Mean over the seeds."""
        return float(np.mean(self.values))

    @property
    def sd(self) -> float:
        """Sample standard deviation over the seeds; NaN for one."""
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else math.nan

    @property
    def near_chance(self) -> bool:
        """Whether it is an accuracy of networks that have hardly learnt."""
        return self.on is not None and self.mean < NEAR_CHANCE * self.on.chance

    @property
    def full(self) -> bool:
        """Whether it is a fraction, and 100 % for every seed, where nothing can be above it."""
        return self.unit == "points" and all(value == 1 for value in self.values)

    @property
    def sampling_error(self) -> Error:
        """Error that a single value has from its test examples; 0 where it is no accuracy."""
        return NO_ERROR if self.on is None else Error(sampling_error(self.mean, self.on.examples))

    def above(self, bound: float, *, strict: bool = False) -> Margin:
        """Return the margin by which it is above a bound."""
        what = f"{self.name} - {self._told(bound)}"
        return combined([(1, self)], bound, what, strict=strict)

    def below(self, bound: float, *, strict: bool = False) -> Margin:
        """Return the margin by which it is below a bound."""
        what = f"{self._told(bound)} - {self.name}"
        return combined([(-1, self)], -bound, what, strict=strict)

    def _told(self, bound: float) -> str:
        return f"{100 * bound:g} %" if self.unit else f"{bound:g}"

    def by_seed(self) -> dict[int, float]:
        """Return seed -> value.

        Raises:
            ValueError: two values have the same seed.
        """
        return dict(zip(self._seeds(), self.values, strict=True))

    def rounds_of(self, seed: int) -> np.ndarray:
        """Return the rounds that the value of a seed is the mean over, float64 [rounds].

        Raises:
            ValueError: two values have the same seed, or none has this one.
        """
        return np.array(self.rounds[self._seeds().index(seed)])

    def _seeds(self) -> tuple[int, ...]:
        seeds = self.seeds or tuple(range(len(self.values)))
        if len({*seeds}) < len(seeds):
            raise ValueError(f"{self.name} has several values of one seed: {list(seeds)}")
        return seeds


def lead(one: Sample, other: Sample) -> float:
    """Return by how much ``one`` is above ``other``, in the mean over the seeds of both.

    Raises:
        MissingRunsError: they have no seed in common.
    """
    return float(np.mean([a - b for a, b in paired(one, other)]))


def less(
    one: Sample, other: Sample, by: float = 0, what: str = "", *, strict: bool = False
) -> Margin:
    """Return the margin by which ``one`` exceeds ``other`` by ``by``, over the seeds of both.

    Args:
        one: what has to be the larger.
        other: what it is compared with.
        by: by how much.
        what: the difference of the two, in words; empty: by the names of the samples.
        strict: whether an excess of just ``by`` is too little.

    Raises:
        MissingRunsError: they have no seed in common.
    """
    what = what or f"{one.name} - {other.name}"
    if by:
        what += f" {'-' if by > 0 else '+'} {amount(abs(by), one.unit)}"
    return combined([(1, one), (-1, other)], by, what, strict=strict)


def amount(value: float, unit: str) -> str:
    """Return a difference in the name of a margin: ``2 points``."""
    if not unit:
        return f"{value:g}"
    points = f"{100 * value:g}"
    return f"{points} point{'s' * (points != '1')}"


def combined(
    terms: Sequence[tuple[float, Sample]], by: float = 0, what: str = "", *, strict: bool = False
) -> Margin:
    """Return the margin by which a weighted sum of samples exceeds ``by``, over the seeds of all.

    Samples have independent errors but for means over as many rounds, which are subtracted round by
    round: runs of one seed draw the same clients in each. Networks that are tested on the same
    examples mostly err on the same ones, so that theirs is an error at most.

    Args:
        terms: weight and sample.
        by: the least that the sum has to be.
        what: the sum less ``by``, in words.
        strict: whether just ``by`` is too little.

    Raises:
        MissingRunsError: they have no seed in common.
        ValueError: only some are fractions.
    """
    weights, samples = zip(*terms, strict=True)
    values = [float(np.dot(weights, each)) - by for each in paired(*samples)]
    each = (_error(terms, seed) for seed in _common(samples))
    error = max(each, key=lambda one: one.reach)
    unit, *others = {sample.unit for sample in samples}
    if others:
        names = " and ".join(sample.name for sample in samples)
        raise ValueError(f"{names} have no difference: only some of them are fractions")
    return Margin.of(values, what, strict=strict, error=error, unit=unit)


def _error(terms: Sequence[tuple[float, Sample]], seed: int) -> Error:
    """Return the error of a weighted sum of samples for one seed."""
    known = [error.times(w) for w, of in terms for error in (of.error, of.sampling_error)]
    rounds = [(w * of.rounds_of(seed), of.last) for w, of in terms if of.rounds]
    if len({(len(each), last) for each, last in rounds}) == 1:
        rounds = [(np.sum([each for each, _ in rounds], axis=0), rounds[0][1])]
    return total([*known, *itertools.starmap(error_of_mean, rounds)])


def within(one: Sample, other: Sample, points: float) -> list[Margin]:
    """Return the margins by which two samples are at most so many points apart."""
    return [less(one, other, -points / 100), less(other, one, -points / 100)]


def steadier(one: Sample, other: Sample) -> Margin:
    """Return the margin by which the standard deviation of ``one`` is the smaller: ratio less 1.

    Bounds and p value are those of the F test. NaN where one of them has no spread.
    """
    sds, ns = (other.sd, one.sd), (len(other.values), len(one.values))
    what = f"sd of {other.name} / sd of {one.name} - 1"
    if not min(sds) > 0:
        return Margin(math.nan, math.nan, math.nan, math.nan, min(ns), strict=True, what=what)
    low, high = (ratio - 1 for ratio in sd_ratio_bounds(*sds, ns))
    p = sd_ratio_p(*sds, ns)
    return Margin(sds[0] / sds[1] - 1, low, high, p, min(ns), strict=True, what=what)


def steady(sample: Sample, within: float) -> Margin:
    """Return the margin by which a sample's standard deviation stays within a limit.

    Bounds and p value are those of the chi-square test. NaN for a single value.
    """
    n, unit = len(sample.values), sample.unit
    what = f"{amount(within, unit)} - sd of {sample.name}"
    if n < 2:
        return Margin(math.nan, math.nan, math.nan, math.nan, n, what=what, unit=unit)
    least, most = sd_bounds(sample.sd, n)
    p = sd_p(sample.sd, n, within)
    value, low, high = (within - sd for sd in (sample.sd, most, least))
    return Margin(value, low, high, p, n, what=what, unit=unit)


def paired(*samples: Sample) -> list[tuple[float, ...]]:
    """Return the values of samples, a tuple for each seed that all of them have.

    Raises:
        MissingRunsError: they have none in common.
    """
    found = [sample.by_seed() for sample in samples]
    return [tuple(values[seed] for values in found) for seed in _common(samples)]


def _common(samples: Sequence[Sample]) -> list[int]:
    """Return the seeds that all samples have.

    Raises:
        MissingRunsError: there are none.
    """
    first, *others = (sample.by_seed() for sample in samples)
    common = [seed for seed in first if all(seed in other for other in others)]
    if not common:
        names = " and ".join(sample.name for sample in samples)
        raise MissingRunsError(f"{names} have no seed in common")
    return common


def whole_seeds(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the seeds that have as many as any; runs of the others are missing.

    Args:
        table: with a column ``seed``.
    """
    rows = table["seed"].map(table["seed"].value_counts())
    return table[rows == rows.max()]


Quantity: TypeAlias = Callable[..., Sample]
"""``quantity(runs, what, **where)``; its further parameters are values that claims may give."""
Rule: TypeAlias = Callable[..., Finding]
"""``rule(runs, **values)``."""
_Rule = TypeVar("_Rule", bound=Rule)
Names: TypeAlias = str | Sequence[str]


class Rules(dict[str, Rule]):
    """The rules of a paper, by the names that its claims have for them.

    Args:
        where: what the ``**where`` of its rules is passed on to; None: rules say nothing of it.
    """

    def __init__(self, where: Callable[..., Any] | None = None) -> None:
        super().__init__()
        self._where = where

    def add(self, rule: _Rule, name: str = "") -> _Rule:
        """Add a rule and return it, so that it is a decorator.

        Args:
            rule: the function.
            name: for claims; empty: that of the function.
        """
        *_, last = inspect.signature(rule).parameters.values()
        if self._where is not None and last.kind is inspect.Parameter.VAR_KEYWORD:
            taking(rule, self._where)
        self[name or rule.__name__] = rule
        return rule


def universal(rule: _Rule) -> _Rule:
    """Mark a rule that asks the same at every setting of the plan, such as every N.

    One setting at which the answer is no refutes it, whatever the others say: where runs are
    missing it is tried on :meth:`fedrepro.runs.runset.RunSet.recorded` alone. So its margins there
    have to be some of those that it has on all runs.
    """
    rule.universal = True  # type: ignore[attr-defined]
    return rule


def title_of(runs: RunSet, group: str) -> str:
    """Return the title of a group of runs that a claim names.

    Raises:
        FedreproError: there is no such group, or it has no runs at the scale.
    """
    groups = runs.plan.runs
    if group not in groups:
        raise FedreproError(
            f"config/expected/{runs.paper}.yaml: claims: no group of runs '{group}' "
            f"{nearest(group, list(groups))}"
        )
    if not runs.members([group]):
        raise not_planned(runs, groups[group].title, "run")
    return groups[group].title


def final_accuracy(runs: RunSet, what: str) -> Sample:
    """Return the quantity: the test accuracy of a group of runs after the last round."""
    title, on = title_of(runs, what), runs.evaluated([what])
    return Sample.of(title, runs.final([what], ["accuracy"]), "accuracy", on)


def listed(samples: Sequence[Sample], show: Callable[[float], str] = in_percent) -> str:
    """Return names and means: ``IID 98.69 %, 1-class 92.17 %``.

    Where samples are of different seeds each has their number, and the means over the seeds that
    all have follow, for what is said of their differences is of equal seeds.
    """
    told = [f"{sample.name} {show(sample.mean)}" for sample in samples]
    found = [sample.by_seed() for sample in samples]
    if len({*map(frozenset, found)}) == 1:
        return ", ".join(told)
    evidence = ", ".join(f"{text} (n={len(of)})" for text, of in zip(told, found, strict=True))
    common = set.intersection(*map(set, found))
    if not common:
        return evidence
    means = (float(np.mean([of[seed] for seed in common])) for of in found)
    again = (f"{sample.name} {show(m)}" for sample, m in zip(samples, means, strict=True))
    return f"{evidence}; with equal seeds (n={len(common)}) {', '.join(again)}"


def _samples(quantity: Quantity, runs: RunSet, what: Names, where: Any) -> list[Sample]:
    names = [what] if isinstance(what, str) else what
    samples = [quantity(runs, name, **where) for name in names]
    for sample in samples:
        if not sample.values:
            raise not_planned(runs, sample.name, "run")
    return samples


def compared(
    samples: Sequence[Sample],
    margins: Sequence[Margin],
    ours: float | None = None,
    evidence: str = "",
    *,
    networks: Sequence[Sample] | None = None,
) -> Finding:
    """Return the finding of :meth:`Finding.of` on samples, whose runs it rests on.

    Args:
        samples: what is compared.
        margins: the parts of the claim.
        ours: the one number that sums it up.
        evidence: in a sentence; empty: the samples' means.
        networks: accuracies of the runs, for networks near chance decide nothing; None: the
            samples.
    """
    return Finding.of(
        margins,
        evidence or listed(samples),
        [run for sample in samples for run in sample.runs],
        ours,
        undecided(samples if networks is None else networks),
    )


def undecided(samples: Sequence[Sample]) -> str:
    """Return why samples can decide nothing; empty where they can."""
    if samples and all(sample.near_chance for sample in samples):
        return "networks this near to guessing decide nothing"
    if len(samples) > 1 and all(sample.full for sample in samples):
        return "all are at 100 %, which decides nothing"
    return ""


def together(parts: Sequence[Finding], ours: float | None, evidence: str = "") -> Finding:
    """Return that several findings hold together; each part's evidence where no other is given."""
    reasons = [part.undecided for part in parts]
    return Finding(
        holds=all(part.holds for part in parts),
        evidence=evidence or "; ".join(part.evidence for part in parts),
        runs=[run for part in parts for run in part.runs],
        ours=ours,
        margins=[margin for part in parts for margin in part.margins],
        undecided=reasons[0] if all(reasons) else "",
    )


def taking(rule: _Rule, source: Callable[..., Any], skip: int = 2) -> _Rule:
    """Say in a rule's signature which values its ``**where`` takes, so that others are refused.

    Args:
        rule: its last parameter is ``**where``, which it passes on.
        source: to what.
        skip: how many of the source's first parameters are not values, such as runs and name.
    """
    *own, _ = inspect.signature(rule).parameters.values()
    named = {parameter.name for parameter in own}
    passed = [*inspect.signature(source).parameters.values()][skip:]
    further = [
        each.replace(kind=max(each.kind, inspect.Parameter.KEYWORD_ONLY))
        for each in passed
        if each.name not in named
    ]
    rule.__signature__ = inspect.Signature([*own, *further])  # type: ignore[attr-defined]
    return rule


def leads(quantity: Quantity) -> Rule:
    """Return the rule: the least of ``what`` is above the greatest of ``over``.

    By at least ``points``, and by at most ``at_most`` points where that is given. It is also above
    the greatest of ``above``, by however little.
    """

    def rule(
        runs: RunSet,
        *,
        what: Names,
        over: Names,
        points: float = 0,
        at_most: float = float("inf"),
        above: Names = (),
        **where: Any,
    ) -> Finding:
        high, low, others = (
            _samples(quantity, runs, names, where) for names in (what, over, above)
        )
        pairs = [*itertools.product(high, low)]
        closest = min(pairs, key=lambda pair: lead(*pair))
        bound, any_lead = max(points, 0) / 100, points <= 0
        margins = [less(*pair, bound, strict=any_lead) for pair in pairs]
        margins += [less(one, other, strict=True) for one in high for other in others]
        if at_most < math.inf:
            margins.append(less(*closest[::-1], -at_most / 100))
        return compared([*low, *others, *high], margins, lead(*closest))

    return taking(rule, quantity)


def near(quantity: Quantity) -> Rule:
    """Return the rule: ``what`` and ``to`` are at most ``points`` apart."""

    def rule(runs: RunSet, *, what: str, to: str, points: float, **where: Any) -> Finding:
        other, one = _samples(quantity, runs, [to, what], where)
        return compared([other, one], within(one, other, points), lead(one, other))

    return taking(rule, quantity)


def between(quantity: Quantity) -> Rule:
    """Return the rule: ``what`` is from ``low`` to ``high`` percent."""

    def rule(
        runs: RunSet, *, what: str, low: float = 0, high: float = 100, **where: Any
    ) -> Finding:
        (sample,) = _samples(quantity, runs, what, where)
        margins = [sample.above(low / 100), sample.below(high / 100)]
        return compared([sample], margins, sample.mean)

    return taking(rule, quantity)
