"""What a claim's function finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


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
