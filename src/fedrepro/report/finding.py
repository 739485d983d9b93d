"""What a claim's function finds, and how it words its evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from fedrepro.base.errors import FedreproError
from fedrepro.runs.runset import RunSet

SLACK = 1e-9
"""Means of decimal fractions are not exact; a bound that is met exactly is met."""


@dataclass(frozen=True)
class Finding:
    """The outcome of testing a claim on our runs.

    Attributes:
        holds: whether every part of the assertion is true of our means.
        evidence: our numbers, in a sentence.
        runs: ids of the runs it rests on.
        ours: the one number that sums it up, where there is one.
    """

    holds: bool
    evidence: str
    runs: Sequence[str]
    ours: float | None = None


def not_planned(runs: RunSet, group: str, what: str) -> FedreproError:
    """Return the error of a claim that a group's runs at this scale cannot decide."""
    return FedreproError(
        f"config/papers/{runs.paper}.yaml: scales.{runs.scale}: {group} has no {what}, which a "
        "claim needs; add it to the grid, or take the scale off the claim"
    )


def in_percent(value: float, digits: int = 2) -> str:
    """Return a fraction in per cent: ``97.56 %``."""
    return f"{100 * value:.{digits}f} %"


def in_points(value: float, digits: int = 2) -> str:
    """Return a difference of fractions in percentage points: ``1.32 points``."""
    return f"{100 * value:.{digits}f} points"


def run_ids(cells: pd.DataFrame) -> list[str]:
    """Return the ids of the runs behind the cells of :func:`fedrepro.report.stats.summarise`."""
    return [run for runs in cells["runs"] for run in runs]
