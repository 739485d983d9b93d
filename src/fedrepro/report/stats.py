"""Summaries over seeds: all seeds shown, sample standard deviation, Student t intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence

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
        frame: one row a run, with the columns ``by``, ``value``, ``seed`` and ``run``.
        value: the column to summarise.
        by: the columns that name a cell; cells keep the order in which they first appear.

    Returns:
        One row a cell: ``by``, ``mean``, ``sd`` (ddof 1; NaN for one seed), ``n``, ``low`` and
        ``high`` (95 % Student t), ``values`` (all seeds' values, space-separated, in seed order)
        and ``runs`` (their run ids).
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
                "values": " ".join(f"{v:.6g}" for v in values),
                "runs": " ".join(ordered["run"]),
            }
        )
    columns = [*by, "mean", "sd", "n", "low", "high", "values", "runs"]
    return pd.DataFrame(rows, columns=columns)


def seed_values(values: object) -> list[float]:
    """Return the seeds' values that :func:`summarise` keeps as text, in seed order."""
    return [float(value) for value in str(values).split()]
