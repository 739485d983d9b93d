"""Summaries over seeds: all seeds shown, sample standard deviation, Student t intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pandas as pd


def t_interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """Return the Student t confidence interval of the mean; NaNs for fewer than two values."""
    n = len(values)
    if n < 2:
        return math.nan, math.nan
    from scipy.special import stdtrit  # the quantile; scipy is slow to import

    mean, half = float(np.mean(values)), float(np.std(values, ddof=1)) / math.sqrt(n)
    reach = float(stdtrit(n - 1, 0.5 + confidence / 2)) * half
    return mean - reach, mean + reach


def summarise(frame: pd.DataFrame, value: str, by: Sequence[str]) -> pd.DataFrame:
    """Summarise one value over the seeds of each cell.

    Args:
        frame: one row a run, with the columns ``by``, ``value``, ``seed`` and ``run``: a run id, or
            a tuple of the ids of several runs that the value is made of.
        value: the column to summarise.
        by: the columns that name a cell; cells keep the order in which they first appear.

    Returns:
        One row a cell: ``by``, ``mean``, ``sd`` (ddof 1; NaN for one seed), ``n``, ``low`` and
        ``high`` (95 % Student t), ``values`` (all seeds' values, a tuple of six significant digits
        each, in seed order) and ``runs`` (their run ids, a tuple).
    """
    rows = []
    for key, group in frame.groupby(list(by), sort=False, dropna=False):
        ordered = group.sort_values("seed", kind="stable")
        values = [float(v) for v in ordered[value]]
        low, high = t_interval(values)
        rows.append(
            dict(zip(by, key, strict=True))
            | {
                "mean": float(np.mean(values)),
                "sd": float(np.std(values, ddof=1)) if len(values) > 1 else math.nan,
                "n": len(values),
                "low": low,
                "high": high,
                "values": tuple(float(f"{v:.6g}") for v in values),
                "runs": tuple(_ids(ordered["run"])),
            }
        )
    columns = [*by, "mean", "sd", "n", "low", "high", "values", "runs"]
    return pd.DataFrame(rows, columns=columns)


def _ids(runs: Iterable[str | tuple[str, ...]]) -> Iterator[str]:
    for run in runs:
        yield from (run,) if isinstance(run, str) else run
