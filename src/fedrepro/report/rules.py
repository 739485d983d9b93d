"""Rules that decide claims by comparing means over the seeds.

A paper says what its quantity is: a function of runs, the name of what is compared, and further
values of the claim that say where (a data set, say). Each function here makes a rule of that
quantity; the thresholds are values of the claim in ``config/expected``, as its statement prints
them: ``points`` are percentage points, ``percent`` is a share of 100.

Every rule takes a claim apart into margins, one for each thing that has to hold, seed by seed, so
that the verdict knows whether other seeds could turn it.
"""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import nan
from typing import Any, TypeAlias

import numpy as np

from fedrepro.base.configfile import nearest
from fedrepro.base.errors import FedreproError
from fedrepro.report.finding import Finding, Margin, in_percent, not_planned
from fedrepro.report.stats import sd_bounds, sd_p, sd_ratio_bounds, sd_ratio_p
from fedrepro.runs.runset import RunSet

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
        chance: of an accuracy: what guessing gives; None: it is none.
    """

    name: str
    values: tuple[float, ...]
    runs: tuple[str, ...]
    seeds: tuple[int, ...] = ()
    chance: float | None = None

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
        return self.chance is not None and self.mean < NEAR_CHANCE * self.chance

    @property
    def full(self) -> bool:
        """Whether it is 100 % for every seed, where nothing can be above it."""
        return all(value == 1 for value in self.values)

    def by_seed(self) -> dict[int, float]:
        """Return seed -> value.

        Raises:
            ValueError: two values have the same seed.
        """
        seeds = self.seeds or tuple(range(len(self.values)))
        if len({*seeds}) < len(seeds):
            raise ValueError(f"{self.name} has several values of one seed: {list(seeds)}")
        return dict(zip(seeds, self.values, strict=True))


def less(one: Sample, other: Sample, by: float = 0, *, strict: bool = False) -> Margin:
    """Return the margin by which ``one`` exceeds ``other`` by ``by``, over the seeds of both.

    Raises:
        ValueError: they have no seed in common.
    """
    return Margin.of((a - b - by for a, b in paired(one, other)), strict=strict)


def steadier(one: Sample, other: Sample) -> Margin:
    """Return the margin by which the standard deviation of ``one`` is the smaller: ratio less 1.

    Bounds and p value are those of the F test. NaN where one of them has no spread.
    """
    sds, ns = (other.sd, one.sd), (len(other.values), len(one.values))
    if not min(sds) > 0:
        return Margin(nan, nan, nan, nan, min(ns), strict=True)
    low, high = (ratio - 1 for ratio in sd_ratio_bounds(*sds, ns))
    return Margin(sds[0] / sds[1] - 1, low, high, sd_ratio_p(*sds, ns), min(ns), strict=True)


def steady(sample: Sample, within: float) -> Margin:
    """Return the margin by which a sample's standard deviation stays within a limit.

    Bounds and p value are those of the chi-square test. NaN for a single value.
    """
    n = len(sample.values)
    if n < 2:
        return Margin(nan, nan, nan, nan, n)
    least, most = sd_bounds(sample.sd, n)
    p = sd_p(sample.sd, n, within)
    return Margin(within - sample.sd, within - most, within - least, p, n)


def paired(*samples: Sample) -> list[tuple[float, ...]]:
    """Return the values of samples, a tuple for each seed that all of them have.

    Raises:
        ValueError: they have none in common.
    """
    first, *others = found = [sample.by_seed() for sample in samples]
    common = [seed for seed in first if all(seed in other for other in others)]
    if not common:
        names = " and ".join(sample.name for sample in samples)
        raise ValueError(f"{names} have no seed in common")
    return [tuple(values[seed] for values in found) for seed in common]


Quantity: TypeAlias = Callable[..., Sample]
"""``quantity(runs, what, **where)``; its further parameters are values that claims may give."""
Rule: TypeAlias = Callable[..., Finding]
"""``rule(runs, **values)``."""
Names: TypeAlias = str | Sequence[str]


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


def final(metric: str) -> Quantity:
    """Return the quantity: a metric of a group of runs after the last round.

    Args:
        metric: as of :meth:`fedrepro.runs.runset.RunSet.final`.
    """

    def quantity(runs: RunSet, what: str) -> Sample:
        title, table = title_of(runs, what), runs.final([what], [metric])
        chance = runs.chance([what]) if metric == "accuracy" else None
        seeds = tuple(table["seed"])
        return Sample(title, tuple(table[metric]), tuple(table["run"]), seeds, chance)

    return quantity


def listed(samples: Sequence[Sample], show: Callable[[float], str] = in_percent) -> str:
    """Return names and means: ``IID 98.69 %, 1-class 92.17 %``."""
    return ", ".join(f"{sample.name} {show(sample.mean)}" for sample in samples)


def _samples(quantity: Quantity, runs: RunSet, what: Names, where: Any) -> list[Sample]:
    names = [what] if isinstance(what, str) else what
    samples = [quantity(runs, name, **where) for name in names]
    for sample in samples:
        if not sample.values:
            raise not_planned(runs, sample.name, "run")
    return samples


def compared(
    samples: Sequence[Sample], margins: Sequence[Margin], ours: float | None, note: str = ""
) -> Finding:
    """Return a finding on samples: it holds where all margins are met.

    Its evidence are the samples' means and a note, its runs theirs. Samples of published numbers
    have no runs, and no seeds that could turn it.
    """
    evidence = f"{listed(samples)}; {note}" if note else listed(samples)
    runs = [run for sample in samples for run in sample.runs]
    met = all(margin.met for margin in margins)
    return Finding(met, evidence, runs, ours, tuple(margins) if runs else (), undecided(samples))


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


def _taking(rule: Rule, quantity: Quantity) -> Rule:
    """Say in a rule's signature which values its quantity takes, so that others are refused.

    Args:
        rule: with keywords of its own, and ``**where`` for those of the quantity.
        quantity: whose parameters after runs and name may be given.
    """
    *own, _ = inspect.signature(rule).parameters.values()
    _, _, *further = inspect.signature(quantity).parameters.values()
    given = [each.replace(kind=max(each.kind, inspect.Parameter.KEYWORD_ONLY)) for each in further]
    rule.__signature__ = inspect.Signature([*own, *given])  # type: ignore[attr-defined]
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
        first, last = min(high, key=_mean), max(low, key=_mean)
        bound, any_lead = max(points, 0) / 100, points <= 0
        margins = [less(one, other, bound, strict=any_lead) for one in high for other in low]
        margins += [less(one, other, strict=True) for one in high for other in others]
        if at_most < math.inf:
            margins.append(less(last, first, -at_most / 100))
        return compared([*low, *others, *high], margins, first.mean - last.mean)

    return _taking(rule, quantity)


def near(quantity: Quantity) -> Rule:
    """Return the rule: ``what`` and ``to`` are at most ``points`` apart."""

    def rule(runs: RunSet, *, what: str, to: str, points: float, **where: Any) -> Finding:
        other, one = _samples(quantity, runs, [to, what], where)
        margins = [less(one, other, -points / 100), less(other, one, -points / 100)]
        return compared([other, one], margins, one.mean - other.mean)

    return _taking(rule, quantity)


def between(quantity: Quantity) -> Rule:
    """Return the rule: ``what`` is from ``low`` to ``high`` percent."""

    def rule(
        runs: RunSet, *, what: str, low: float = 0, high: float = 100, **where: Any
    ) -> Finding:
        (sample,) = _samples(quantity, runs, what, where)
        margins = [
            Margin.of(value - low / 100 for value in sample.values),
            Margin.of(high / 100 - value for value in sample.values),
        ]
        return compared([sample], margins, sample.mean)

    return _taking(rule, quantity)


def descends(quantity: Quantity) -> Rule:
    """Return the rule: each of ``what`` is above the next one."""

    def rule(runs: RunSet, *, what: Sequence[str], **where: Any) -> Finding:
        samples = _samples(quantity, runs, what, where)
        margins = [less(one, other, strict=True) for one, other in itertools.pairwise(samples)]
        return compared(
            samples, margins, min(a.mean - b.mean for a, b in itertools.pairwise(samples))
        )

    return _taking(rule, quantity)


def _mean(sample: Sample) -> float:
    return sample.mean
