"""Summaries over seeds: all seeds shown, sample standard deviation, Student t intervals."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

LEVEL = 0.025
"""Of one-sided p values: a mean's 95 % interval leaves out the threshold where p is below it."""

BATCH = 10
"""Rounds of which the mean is taken where they are many."""

LEAST_BATCHES = 5
"""Fewer batches tell less than the rounds themselves."""

LEAST_FOR_T = 3
"""Fewer values have no t interval that decides anything: that of two is 18 times their distance."""

_EQUAL = 1e-9
"""Decimal fractions that differ by less are equal."""


@dataclass(frozen=True)
class Error:
    """The standard error of a value for other reasons than the seed.

    Attributes:
        known: the part that is known, such as the binomial error of test examples; 0: none.
        estimated: the part that is estimated from few values; 0: none.
        freedom: degrees of freedom of the estimate, such as 2 where it is of three values.
    """

    known: float = 0.0
    estimated: float = 0.0
    freedom: float = math.inf

    @property
    def reach(self) -> float:
        """Half of an interval that holds in 95 % of all cases, or in more.

        Each part has its own quantile. One for both would make the interval narrower where a known
        part is added to an estimate on two degrees of freedom, and it would hold too rarely.
        """
        from scipy.special import ndtri, stdtrit  # quantiles; scipy is slow to import

        known = self.known * float(ndtri(1 - LEVEL))
        if not self.estimated:
            return known
        return math.hypot(known, self.estimated * float(stdtrit(self.freedom, 1 - LEVEL)))

    def times(self, weight: float) -> Error:
        """Return the error of a multiple of the value."""
        return Error(abs(weight) * self.known, abs(weight) * self.estimated, self.freedom)


NO_ERROR = Error()


def total(errors: Iterable[Error]) -> Error:
    """Return the error of a sum of independent values (Satterthwaite 1946, Welch 1947)."""
    each = list(errors)
    known = math.sqrt(sum(error.known**2 for error in each))
    square = sum(error.estimated**2 for error in each)
    lost = sum(error.estimated**4 / error.freedom for error in each)
    return Error(known, math.sqrt(square), square**2 / lost if lost else math.inf)


def first_reaching(curve: Mapping[int, float], least: float) -> int | None:
    """Return the first round of a curve (round -> value) with so much; None if none has it."""
    return next((t for t, value in curve.items() if value >= least - _EQUAL), None)


def t_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean's 95 % interval by Student's t; NaNs for fewer than two values."""
    n = len(values)
    if n < 2:
        return math.nan, math.nan
    from scipy.special import stdtrit  # the quantile; scipy is slow to import

    mean, half = float(np.mean(values)), float(np.std(values, ddof=1)) / math.sqrt(n)
    reach = float(stdtrit(n - 1, 1 - LEVEL)) * half
    return mean - reach, mean + reach


def bounds(values: Sequence[float], error: Error = NO_ERROR) -> tuple[float, float]:
    """Return the interval of a mean: Student's t, or the range of values that are too few for it.

    Two values decide where they agree, which by chance they do half the time; a score counts apart
    what rests on so few.

    Args:
        values: one a seed.
        error: of a single value. It widens what too few values span, whose own spread says little
            or nothing.
    """
    if len(values) < LEAST_FOR_T:
        return min(values) - error.reach, max(values) + error.reach
    return t_interval(values)


def sampling_error(share: float, examples: int) -> float:
    """Return the standard error that an accuracy (fraction) has from its test examples (binomial).

    Args:
        share: the accuracy.
        examples: on how many it is measured.
    """
    return math.sqrt(max(share * (1 - share), 0) / examples)


def error_of_mean(values: ArrayLike, last: int = 0) -> Error:
    """Return the error of a mean over rounds, each of which may be like the one before.

    It is that of independent rounds, or of the means of tens of them (batch means, Conway 1963)
    where there are enough and they scatter more. A single round has no error.

    Args:
        values: of the rounds, [n].
        last: the mean is over so many of the last ones only; its error is the standard deviation of
            the means over as many rounds each, where there are two or more. 0: it is over all.
    """
    each = np.asarray(values, dtype=float)
    if last and len(each) >= 2 * last:
        windows = _means(each, last)
        return Error(estimated=float(windows.std(ddof=1)), freedom=len(windows) - 1)
    kinds = [each[-last:]]
    if len(each) >= LEAST_BATCHES * BATCH:
        kinds.append(_means(each, BATCH))
    return max(map(_independent, kinds), key=lambda error: error.reach)


def _independent(values: np.ndarray) -> Error:
    """Return the error of the mean of independent values [n]."""
    n = len(values)
    if n < 2:
        return NO_ERROR
    return Error(estimated=float(values.std(ddof=1)) / math.sqrt(n), freedom=n - 1)


def _means(values: np.ndarray, size: int) -> np.ndarray:
    """Return the means of so many values each [n // size]; the first ones may be left out."""
    means: np.ndarray = values[len(values) % size :].reshape(-1, size).mean(axis=1)
    return means


def sd_bounds(sd: float, n: int) -> tuple[float, float]:
    """Return the 95 % interval of a standard deviation of n normal values (chi-square)."""
    from scipy.special import chdtri

    low, high = (sd * math.sqrt((n - 1) / float(chdtri(n - 1, p))) for p in (LEVEL, 1 - LEVEL))
    return low, high


def sd_p(sd: float, n: int, limit: float) -> float:
    """Return the one-sided p value of a standard deviation against a limit (chi-square)."""
    from scipy.special import chdtr, chdtrc

    return float((chdtr if sd < limit else chdtrc)(n - 1, (n - 1) * (sd / limit) ** 2))


def sd_ratio_bounds(one: float, other: float, ns: tuple[int, int]) -> tuple[float, float]:
    """Return the 95 % interval of the ratio of two standard deviations of normal values (F).

    Args:
        one: a standard deviation.
        other: it is divided by this one.
        ns: of how many values each is.
    """
    from scipy.special import fdtri

    n, m = (count - 1 for count in ns)
    low, high = (one / other / math.sqrt(float(fdtri(n, m, p))) for p in (1 - LEVEL, LEVEL))
    return low, high


def sd_ratio_p(one: float, other: float, ns: tuple[int, int]) -> float:
    """Return the one-sided p value of two standard deviations that differ (F)."""
    from scipy.special import fdtr, fdtrc

    n, m = (count - 1 for count in ns)
    return float((fdtrc if one > other else fdtr)(n, m, (one / other) ** 2))


def jackknife(statistic: Callable[[Sequence[int]], float], seeds: Sequence[int]) -> list[float]:
    """Return a value a seed for a statistic of all of them, such as the distance of two curves.

    They are the pseudo-values of the jackknife (Tukey 1958), which takes each seed away in turn,
    moved so that their mean is the statistic.

    Args:
        statistic: its value on some of the seeds.
        seeds: all of them.
    """
    whole, n = statistic(seeds), len(seeds)
    if n == 1:
        return [whole]
    without = [statistic([other for other in seeds if other != seed]) for seed in seeds]
    middle = float(np.mean(without))
    return [whole + (n - 1) * (middle - one) for one in without]


def bootstrap(
    statistic: Callable[[np.ndarray], np.ndarray], values: ArrayLike, confidence: float = 0.95
) -> tuple[float, float]:
    """Return the expanded percentile interval of a statistic by the bootstrap over seeds.

    Efron 1979; the percentiles are those that give a mean of normal values about its t interval
    (Hesterberg 2015, section 5.2), since the plain ones of few seeds are far too narrow. For
    statistics that take few values, such as a rank correlation, where the jackknife may find no
    spread. All resamples are counted, none drawn; with up to five seeds the interval reaches about
    as far as the values of single ones.

    Args:
        statistic: its value on each of many resamples, [resamples, seeds, ...] -> [resamples].
        values: what it is a statistic of, [seeds, ...]; eight seeds at most.
        confidence: of the interval.
    """
    each = np.asarray(values, dtype=float)
    n = len(each)
    samples = [*itertools.combinations_with_replacement(range(n), n)]
    orders = [
        math.factorial(n) // math.prod(map(math.factorial, Counter(sample).values()))
        for sample in samples
    ]
    found = statistic(each[np.array(samples)])
    ascending = np.argsort(found, kind="stable")
    share = np.cumsum(np.array(orders)[ascending]) / n**n
    tail = (1 - confidence) / 2
    if n > 1:
        from scipy.special import ndtr, stdtrit

        tail = float(ndtr(stdtrit(n - 1, tail) * math.sqrt(n / (n - 1))))
    low, high = found[ascending][np.searchsorted(share, [tail, 1 - tail])]
    return float(low), float(high)


def rank_correlation(one: ArrayLike, other: ArrayLike) -> np.ndarray:
    """Return Spearman's rank correlation along the last axis.

    Args:
        one: [..., n].
        other: the same, or what broadcasts to it.

    Returns:
        [...]; NaN where all values of one of them are equal.
    """
    from scipy.stats import rankdata  # slow to import

    # values that are equal but for rounding share a rank
    ranks = (rankdata(np.round(np.divide(each, _EQUAL)), axis=-1) for each in (one, other))
    a, b = (each - each.mean(axis=-1, keepdims=True) for each in ranks)
    with np.errstate(invalid="ignore"):
        found: np.ndarray = (a * b).sum(axis=-1) / np.sqrt((a**2).sum(-1) * (b**2).sum(-1))
    return found


def one_sided_p(values: Sequence[float]) -> float:
    """Return the p value of Student's t test that the mean is on the side of 0 where it is found.

    NaN for one value, and where all are equal: without a spread they say nothing of it.
    """
    n = len(values)
    if n < 2 or float(np.ptp(values)) < _EQUAL:
        return math.nan
    from scipy.special import stdtr

    mean, sd = abs(float(np.mean(values))), float(np.std(values, ddof=1))
    return float(stdtr(n - 1, -mean / sd * math.sqrt(n)))


MOST_SEEDS = 1000
"""More than anybody trains."""


_POWER = 0.8
"""In what share of repetitions a test is to find what there is."""


def seeds_needed(distance: float, sd: float, level: float = LEVEL) -> int:
    """Return how many values it takes to tell their mean from a threshold.

    That is the fewest, three at least, with ``(t_(n-1, 1 - level) + t_(n-1, 0.8)) sd / sqrt(n)``
    below the distance, the usual approximation to the power of Student's t test.

    Args:
        distance: of the mean from the threshold.
        sd: standard deviation of the values.
        level: of the one-sided p value.

    Returns:
        The number; :data:`MOST_SEEDS` if it is that or more.
    """
    from scipy.special import stdtrit

    n = np.arange(3, MOST_SEEDS)
    reach = stdtrit(n - 1, 1 - level) + stdtrit(n - 1, _POWER)
    enough = reach * sd / np.sqrt(n) < distance
    return int(n[enough][0]) if enough.any() else MOST_SEEDS


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p values adjusted for their number (Holm 1979), in the order given."""
    order = np.argsort(p_values, kind="stable")
    adjusted, largest = [0.0] * len(order), 0.0
    for rank, position in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * p_values[position]))
        adjusted[position] = largest
    return adjusted


SUMMARY = ("mean", "sd", "n", "low", "high", "values", "runs")
"""Columns of what :func:`summarise` finds of a cell."""


def summarise(frame: pd.DataFrame, value: str, by: Sequence[str], *others: str) -> pd.DataFrame:
    """Summarise one value over the seeds of each cell.

    Args:
        frame: one row a run, with the columns ``by``, ``value``, ``seed`` and ``run``: a run id, or
            a tuple of the ids of several runs that the value is made of.
        value: the column to summarise.
        by: the columns that name a cell; cells keep the order in which they first appear.
        others: further columns of a cell, such as its unit.

    Returns:
        One row a cell: ``by``, ``mean``, ``sd`` (ddof 1; NaN for one seed), ``n``, ``low`` and
        ``high`` (95 % Student t), ``values`` (all seeds' values, a tuple of six significant digits
        each, in seed order), ``runs`` (their run ids, a tuple) and ``others``.
    """
    rows, names = [], [*by, *others]
    cells = frame.groupby(names, sort=False, dropna=False).ngroup()
    keys = frame.loc[~cells.duplicated(), names].itertuples(index=False, name=None)
    of_cell = defaultdict[int, list[tuple[int, float, str | tuple[str, ...]]]](list)
    columns = frame["seed"], frame[value], frame["run"]
    for cell, seed, number, ids in zip(cells, *columns, strict=True):
        of_cell[cell].append((seed, float(number), ids))
    for key, runs in zip(keys, of_cell.values(), strict=True):  # a frame a cell would be slow
        ordered = sorted(runs, key=lambda run: run[0])
        values = [v for _, v, _ in ordered]
        low, high = t_interval(values)
        rows.append(
            dict(zip(names, key, strict=True))
            | {
                "mean": float(np.mean(values)),
                "sd": float(np.std(values, ddof=1)) if len(values) > 1 else math.nan,
                "n": len(values),
                "low": low,
                "high": high,
                "values": tuple(float(f"{v:.6g}") for v in values),
                "runs": tuple(_ids(ids for _, _, ids in ordered)),
            }
        )
    return pd.DataFrame(rows, columns=[*by, *SUMMARY, *others])


def differences(
    ones: pd.DataFrame, others: pd.DataFrame, *values: str, on: Sequence[str]
) -> pd.DataFrame:
    """Return the rows of one frame less those of another: ``run`` has the ids of both.

    Args:
        ones: one row a run, with the columns ``on``, ``values`` and ``run``.
        others: the same.
        values: the columns to subtract.
        on: the columns in which the two rows of a pair agree, such as ``seed``.
    """
    pairs = ones.merge(others[[*on, *values, "run"]], on=on, suffixes=("", "_other"))
    for value in values:
        pairs[value] -= pairs.pop(f"{value}_other")
    pairs["run"] = list(zip(pairs["run"], pairs.pop("run_other"), strict=True))
    return pairs


def in_order(table: pd.DataFrame, column: str, order: Sequence[str]) -> pd.DataFrame:
    """Return the rows by an order of a column's values, those with others behind them; stable."""
    places = {value: place for place, value in enumerate(order)}
    return table.sort_values(column, kind="stable", key=lambda values: values.map(places))


def moving_average(values: Sequence[float], window: int) -> list[float]:
    """Return the mean of each value and up to ``window - 1`` before it."""
    total = np.concatenate([[0.0], np.cumsum(values)])
    ends = np.arange(1, len(values) + 1)
    starts = np.maximum(ends - window, 0)
    return [float(mean) for mean in (total[ends] - total[starts]) / (ends - starts)]


def _ids(runs: Iterable[str | tuple[str, ...]]) -> Iterator[str]:
    for run in runs:
        yield from (run,) if isinstance(run, str) else run
