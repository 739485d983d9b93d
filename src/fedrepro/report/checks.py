"""A check: the verdict on one published number or claim, and how readers are told it.

:mod:`fedrepro.report.verdicts` makes them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from fedrepro.report.finding import SLACK
from fedrepro.report.stats import MOST_SEEDS

Verdict = Literal[
    "reproduced",
    "close",
    "deviates",
    "inconclusive",
    "not run",
    "not decidable",
    "not reproducible",
    "no target",
]
DECIDED: tuple[Verdict, ...] = ("reproduced", "close", "deviates", "inconclusive")
"""Verdicts of what was tried."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """The verdict on one published number or claim.

    Attributes:
        id: of the entry in ``config/expected``.
        kind: ``number`` or ``claim``.
        paper: its slug.
        scale: of our runs.
        origin: of a number ``printed``, ``repository`` or ``derived``; of a claim who makes it:
            ``paper``, ``ours``, or ``arithmetic`` on published numbers alone.
        where: the place of it; entries with equal ``where``, ``value`` and ``published`` are one
            target under two readings of the paper.
        group: of a number: the curve or table among whose values it is looked for.
        value: of a number: ``mean`` or ``sd``.
        unit: of a number and all that is said of it: ``fraction``, ``points`` (a difference of
            fractions), or what is counted; empty: unknown.
        reading: of the paper, where several are held.
        statement: of a claim.
        published: the value, a fraction for accuracies.
        ours: the mean over the seeds, or what sums a claim up.
        interval: 95 % interval of ``ours``; of two values both; empty for one.
        values: one a seed.
        tolerance: of a number.
        reason: why this tolerance, or why there is no target.
        informative: False where values of other places would pass as well, nearly all of them, and
            ours does not deviate.
        verdict: see :mod:`fedrepro.report.verdicts`.
        evidence: in a sentence.
        seeds: how many decide: runs of equal setting, or pairs; of a claim that is not about means,
            those of its runs. 1: a single run; 0: no run.
        spread: beside a single run the median standard deviation of like cells, where there is one.
        margins: of a claim about means, one for each condition: ``what`` it is, its ``unit``
            (``points`` of fractions; empty: that of the runs), ``value``, above 0 where it is met
            (or 0, unless ``strict``), ``low`` and ``high`` of its interval, one-sided ``p``,
            ``seeds``; None: not known.
        p: of a claim about means, one-sided, not adjusted; None: none.
        needed: how many seeds would decide what is inconclusive, in 4 of 5 cases, if means and
            spreads are as found; None: not known.
        explanation: of a deviation.
        cause: whether the explanation is ``measured`` by runs of ours or a ``conjecture``.
        runs: ids.
        missing: of a claim that is not run, or that the other runs refute: ids of runs without a
            record that it needs; there may be others.
    """

    id: str
    kind: Literal["number", "claim"]
    paper: str
    scale: str
    origin: str = ""
    where: str
    group: str = ""
    value: str = ""
    unit: str = ""
    reading: str = ""
    statement: str = ""
    published: float | None = None
    ours: float | None = None
    interval: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    tolerance: float | None = None
    reason: str = ""
    informative: bool = True
    verdict: Verdict
    evidence: str = ""
    seeds: int = 0
    spread: float | None = None
    margins: list[dict[str, Any]] = field(default_factory=list)
    p: float | None = None
    needed: int | None = None
    explanation: str = ""
    cause: Literal["", "measured", "conjecture"] = ""
    runs: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


def to_json(checks: Iterable[Check]) -> str:
    """Return checks as a JSON list, one check an entry."""
    return json.dumps([asdict(item) for item in checks], indent=1, allow_nan=False) + "\n"


def shown(value: float, unit: str) -> str:
    """Return a value as readers are shown it: ``98.71 %``, ``1.30 points``, ``1482``.

    Args:
        value: as stored, a fraction for per cent and points.
        unit: as of :class:`Check`.
    """
    if unit in ("fraction", "points"):
        return f"{100 * value:.2f} {'%' if unit == 'fraction' else 'points'}"
    return f"{value:.4g}" if abs(value) < 9999.5 else f"{value:.0f}"


def shown_difference(value: float, unit: str) -> str:
    """Return a difference of values of a unit likewise: in points, for fractions."""
    return shown(value, "points" if unit == "fraction" else unit)


def tolerance(item: Check) -> str:
    """Return a check's tolerance as readers are shown it, without a sign; empty if it has none."""
    return "" if item.tolerance is None else shown_difference(item.tolerance, item.unit)


def would_pass(check: Check, other: Check) -> bool:
    """Say whether the mean that another check found is within the tolerance of a check's number."""
    if check.published is None or check.tolerance is None or other.ours is None:
        return False
    return abs(other.ours - check.published) <= check.tolerance + SLACK


def line(item: Check) -> str:
    """Return a check in a line: verdict, id, what is asked, by how many seeds, evidence."""
    text = f"{item.verdict:<17} {item.paper} {item.id}"
    if item.kind == "number" and item.ours is not None:
        text += f": ours {shown(item.ours, item.unit)}"
        if sure := how_sure(item):
            text += f" ({sure})"
        if item.published is not None:
            text += f", published {shown(item.published, item.unit)}"
            if item.tolerance is not None:
                text += f" (tolerance ± {tolerance(item)})"
    if item.kind == "claim" and item.seeds:
        text += f", {item.seeds} seed{'s' * (item.seeds > 1)}"
    if item.verdict in DECIDED and not item.informative:
        text += ", not informative"
    if item.statement:
        text += f": {item.statement}"
    return f"{text} ({detail})" if (detail := remarks(item)) else text


def how_sure(item: Check) -> str:
    """Say how sure a number of ours is: its interval, or the spread of cells like it."""
    if item.interval:
        low, high = (shown(value, item.unit) for value in item.interval)
        if item.seeds == 2 and item.value == "mean":
            return f"two seeds: {low} and {high}"
        return f"95 % interval {low} to {high}, {item.seeds} seeds"
    if item.seeds != 1:
        return ""
    like = "" if item.spread is None else shown_difference(item.spread, item.unit)
    return f"single run; sd of the cells beside it {like}" if like else "single run"


def remarks(item: Check) -> str:
    """Return what is said of a verdict: evidence, seeds that would decide, explanation."""
    return ". ".join(filter(None, (item.evidence, outlook(item), explained(item))))


def condition(margin: Mapping[str, Any]) -> str:
    """Return what a margin of a claim has to be, what it is, and its interval."""
    scale, unit = (100, " points") if margin["unit"] == "points" else (1, "")
    value, low, high = (
        "not known" if margin[name] is None else f"{scale * margin[name]:+.4g}{unit}"
        for name in ("value", "low", "high")
    )
    asked = f"{margin['what']} {'>' if margin['strict'] else '>='} 0"
    interval = f" ({low.removesuffix(unit)} to {high})"
    return f"{asked}: {value}" + ("" if low == high else interval)


def outlook(item: Check) -> str:
    """Say how many seeds would decide what is inconclusive."""
    if item.needed is None:
        return ""
    about = f"{MOST_SEEDS} or more" if item.needed == MOST_SEEDS else f"about {item.needed}"
    return f"{about.capitalize()} seeds would decide it, if means and spreads are as found"


def explained(item: Check) -> str:
    """Return a check's explanation, and whether it is more than a conjecture."""
    return f"Explanation ({item.cause}): {item.explanation}" if item.explanation else ""
