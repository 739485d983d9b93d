"""Verdicts: every published number and claim against our runs.

A number is judged against runs of the published scale only. At another scale it is judged too
where the runs of its cell are the very same runs (equal ids); elsewhere it is ``not decidable``
there and our value is shown without a verdict. Claims are judged at the scales they list.

A verdict is the same for our mean and for all that the mean may be, given its seeds
(:func:`fedrepro.report.stats.bounds`); else it is ``inconclusive``. For a number with tolerance tol
it is ``reproduced`` where ``|ours - published| <= tol``, ``close`` up to twice that, else
``deviates``. A claim about means is taken apart into margins, paired by seed; it is ``reproduced``
where all are met, ``deviates`` where one is not. Networks that have hardly learnt decide nothing.
Where runs are missing, a claim about every N may still deviate by those that are there
(:func:`fedrepro.report.rules.universal`).

The others say why there is none: ``not run`` where a record is missing, ``not decidable`` at this
scale, ``not reproducible`` for want of data or machines, ``no target`` for values that cannot be
right and claims that cannot fail or cannot hold. :mod:`fedrepro.report.score` counts.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from fedrepro.base.configfile import nearest
from fedrepro.base.errors import FedreproError
from fedrepro.report import code
from fedrepro.report.artefacts import frame, keys_of
from fedrepro.report.checks import Check, Verdict
from fedrepro.report.expected import (
    Claim,
    Expected,
    NotReproducible,
    Number,
    cell_key,
    load_expected,
)
from fedrepro.report.finding import SLACK, Finding, Margin
from fedrepro.report.informative import uninformative
from fedrepro.report.stats import bounds, sd_bounds, seeds_needed
from fedrepro.runs import records
from fedrepro.runs.plan import unique
from fedrepro.runs.plan_schema import Scale
from fedrepro.runs.runset import MissingRunsError, RunSet


def check(paper: str, scale: Scale, folder: Path | None = None) -> list[Check]:
    """Judge every published number and claim of a paper at a scale.

    Raises:
        FedreproError: the expected values are wrong, or name a cell that our frame does not have.
    """
    expected = load_expected(paper)
    runs = RunSet(paper, scale, folder)
    return [
        *_judge_numbers(runs, expected, expected.judged_numbers()),
        *(_not_reproducible(runs, entry) for entry in expected.not_reproducible),
        *(_judge_claim(runs, claim) for claim in expected.claims),
    ]


def check_entry(runs: RunSet, entry: Number | NotReproducible | Claim) -> Check:
    """Judge one published number or claim of a paper.

    Raises:
        FedreproError: as :func:`check`.
    """
    if isinstance(entry, Number):
        return _judge_numbers(runs, load_expected(runs.paper), [entry])[0]
    if isinstance(entry, Claim):
        return _judge_claim(runs, entry)
    return _not_reproducible(runs, entry)


def check_runs(paper: str, scale: Scale, ids: Iterable[str]) -> list[Check]:
    """Judge the published numbers of all tables and figures that show some of these runs.

    Raises:
        FedreproError: as :func:`check`.
    """
    expected = load_expected(paper)
    runs, wanted = RunSet(paper, scale), set(ids)
    groups = {run.group for run in runs.planned(runs.plan.runs) if run.id in wanted}
    numbers = [
        number
        for number in expected.judged_numbers()
        if groups.intersection(runs.groups_of(number.artefact))
    ]
    return _judge_numbers(runs, expected, numbers)


def _judge_numbers(runs: RunSet, expected: Expected, numbers: Iterable[Number]) -> list[Check]:
    """Judge some of a paper's numbers; every table and figure is made once."""
    frames: dict[str, _Frame] = {}
    blind = uninformative(expected)
    checks = []
    for number in numbers:
        name = number.artefact
        if name not in frames:
            frames[name] = _frame(runs, name)
        judged = _judge_number(runs, number, frames[name])
        informative = number.id not in blind or judged.verdict == "deviates"
        checks.append(replace(judged, informative=informative))
    return checks


@dataclass(frozen=True)
class _Frame:
    """What the records give of an artefact, if anything; ``whole`` if none of them is missing."""

    cells: pd.DataFrame | None
    whole: bool

    @functools.cached_property
    def keys(self) -> dict[tuple[str, str], int]:
        """The key of every cell, and where it first is."""
        if self.cells is None:
            return {}
        keys = keys_of(self.cells)
        return dict(zip(reversed(keys), reversed(range(len(keys))), strict=True))

    def unit(self, key: tuple[str, str]) -> str:
        """Return the unit of a cell that is not there: that of its column, row or table.

        Empty where the cells that are there have several units.
        """
        if self.cells is None or "unit" not in self.cells:
            return ""
        units = self.cells["unit"].tolist()
        of = [(units[i], key) for key, i in self.keys.items()]
        for alike in (
            [unit for unit, (_, column) in of if column == key[1]],
            [unit for unit, (row, _) in of if row == key[0]],
            [unit for unit, _ in of],
        ):
            if alike:
                return alike[0] if len({*alike}) == 1 else ""
        return ""


def _frame(runs: RunSet, name: str) -> _Frame:
    whole = not runs.missing(runs.groups_of(name))
    try:
        return _Frame(frame(runs, name, partial=True), whole)
    except MissingRunsError:
        return _Frame(None, whole)


def _judge_number(runs: RunSet, number: Number, made: _Frame) -> Check:
    unjudged = Check(
        id=number.id,
        kind="number",
        paper=runs.paper,
        scale=runs.scale,
        origin=number.origin,
        where=number.where,
        group=number.group,
        value=number.value,
        reading=number.reading,
        published=number.published,
        tolerance=number.tolerance,
        reason=number.reason,
        verdict="not run",
    )
    if number.unusable:
        return replace(unjudged, verdict="no target", reason=number.unusable)
    cell = _find(made, number, runs)
    if cell is None:
        left_out = made.whole or (number.sparse and not _planned(runs, number))
        unjudged = replace(unjudged, unit=made.unit(cell_key(*number.cell)))
        why = f"not in the {runs.scale} plan"
        return replace(unjudged, verdict="not decidable", evidence=why) if left_out else unjudged
    assert made.cells is not None
    unjudged = replace(unjudged, unit=cell.get("unit", ""))
    ours = float(cell[number.value])
    if math.isnan(ours):
        why = "one seed has no spread" if number.value == "sd" else "undefined for these runs"
        return replace(unjudged, verdict="not decidable", evidence=why)
    values, ids = list(cell["values"]), list(cell["runs"])
    low, high = _bounds(number, ours, values)
    published = runs.as_published(ids)
    verdict = judge(number, ours, low, high) if published else "not decidable"
    undecided = verdict == "inconclusive" and number.value == "mean"
    return _rounded(
        replace(
            unjudged,
            ours=ours,
            interval=[low, high] if len(values) > 1 else [],
            values=values,
            verdict=verdict,
            evidence=_part_of(runs, runs.groups_of(number.artefact), ids),
            seeds=len(values),
            spread=_like_spread(made.cells, cell) if len(values) == 1 else None,
            needed=_seeds_needed(number, ours, float(cell["sd"])) if undecided else None,
            runs=ids,
            **(_explained(number) if verdict in ("close", "deviates", "inconclusive") else {}),
        )
    )


def _not_reproducible(runs: RunSet, entry: NotReproducible) -> Check:
    return Check(
        id=entry.id,
        kind="number",
        paper=runs.paper,
        scale=runs.scale,
        origin=entry.origin,
        where=entry.where,
        published=entry.published,
        reason=entry.reason,
        verdict="not reproducible",
    )


def _rounded(check: Check) -> Check:
    """Return the check with its numbers as records have them."""
    return Check(**records.rounded(asdict(check)))


def _bounds(number: Number, ours: float, values: Sequence[float]) -> tuple[float, float]:
    if not values:
        return ours, ours
    return sd_bounds(ours, len(values)) if number.value == "sd" else bounds(values)


def judge(number: Number, ours: float, low: float, high: float) -> Verdict:
    """Return the verdict on a number from our mean and what it may lie between."""
    nearest = min(max(number.published, low), high)
    found = {_verdict(number, value) for value in (ours, nearest, low, high)}
    return found.pop() if len(found) == 1 else "inconclusive"


def _explained(entry: Number | Claim) -> dict[str, Any]:
    """Return the explanation of a deviation, and what it rests on."""
    if not entry.explanation:
        return {}
    return {
        "explanation": entry.explanation,
        "cause": "measured" if entry.shown_by else "conjecture",
    }


def _seeds(runs: RunSet, ids: Iterable[str]) -> int:
    """Return of how many different seeds runs are."""
    used = set(ids)
    return len({run.seed for run in runs.planned(runs.plan.runs) if run.id in used})


def _part_of(runs: RunSet, groups: Iterable[str], ids: Iterable[str]) -> str:
    """Say how many of the seeds of some runs of the groups are recorded, where not all are."""
    used, planned = set(ids), runs.planned(groups)
    points = {run.point for run in planned if run.id in used}
    like = unique([run for run in planned if run.point in points]).values()
    recorded = sum(map(runs.is_recorded, like))
    return "" if recorded == len(like) else f"{recorded} of {len(like)} runs are recorded"


def _like_spread(cells: pd.DataFrame, cell: pd.Series) -> float | None:
    """Return the median standard deviation over seeds of the cells of its unit, if any has one."""
    like = cells[cells["unit"] == cell["unit"]] if "unit" in cells else cells
    spreads = like["sd"].dropna() if "sd" in cells else pd.Series(dtype=float)
    return None if spreads.empty else float(spreads.median())


def _verdict(number: Number, ours: float) -> Verdict:
    none = number.no_gain
    if number.gain and (ours - none) * (number.published - none) <= 0:
        return "deviates"
    difference = abs(ours - number.published)
    if difference <= number.tolerance + SLACK:
        return "reproduced"
    return "close" if difference <= 2 * number.tolerance + SLACK else "deviates"


def _seeds_needed(number: Number, ours: float, sd: float) -> int | None:
    """Return how many seeds would tell our mean from the nearest value with another verdict."""
    apart, tolerance = abs(ours - number.published), number.tolerance
    edges = [abs(apart - tolerance), abs(apart - 2 * tolerance)]
    return seeds_needed(min([*edges, abs(ours - number.no_gain)] if number.gain else edges), sd)


def _find(made: _Frame, number: Number, runs: RunSet) -> pd.Series | None:
    """Return the number's cell; None where a record or the plan leaves it out."""
    wanted = cell_key(*number.cell)
    if made.cells is not None and wanted in made.keys:
        return made.cells.iloc[made.keys[wanted]]
    if runs.scale != "paper" or not made.whole or number.sparse:
        return None
    raise FedreproError(
        f"config/expected/{runs.paper}.yaml: {number.id}: {number.artefact} ({runs.scale}) has no "
        f"cell {list(number.cell)}; its first cells are {list(made.keys)[:3]}"
    )


def _planned(runs: RunSet, number: Number) -> bool:
    """Return whether the plan has runs of the number's artefact at its x."""
    planned = runs.planned(runs.groups_of(number.artefact))
    return any(number.cell[1] in run.coordinates.values() for run in planned)


def _judge_claim(runs: RunSet, claim: Claim) -> Check:
    unjudged = Check(
        id=claim.id,
        kind="claim",
        paper=runs.paper,
        scale=runs.scale,
        origin=claim.about,
        where=claim.source,
        reading=claim.reading,
        statement=claim.statement,
        reason=claim.unusable,
        verdict="not decidable",
        evidence=f"our {runs.scale} runs cannot decide this claim",
    )
    judged = _decided(runs, claim, unjudged) if runs.scale in claim.scales else unjudged
    return replace(judged, verdict="no target") if claim.unusable else judged


def _decided(runs: RunSet, claim: Claim, unjudged: Check) -> Check:
    """Return the check of a claim that runs of this scale decide."""
    rule = _rule(runs.paper, claim)
    lacking, missing = "", list[str]()
    try:
        finding = rule(runs.recorded_seeds(), **claim.values)
    except MissingRunsError as error:
        lacking, missing = _lacking(runs, error), [run.id for run in error.missing]
        refuting = _refuting(rule, runs, claim)
        if refuting is None:
            return replace(unjudged, verdict="not run", evidence=lacking, missing=missing)
        finding, lacking = refuting, f"the recorded runs alone refute it: {lacking}"
    verdict = _verdict_of(finding)
    seeds = finding.seeds or _seeds(runs, finding.runs)
    part = _part_of(runs, runs.plan.runs, finding.runs)
    explained = verdict != "reproduced" and not claim.unusable
    return _rounded(
        replace(
            unjudged,
            verdict=verdict,
            evidence="; ".join(
                filter(
                    None, (finding.evidence, finding.few(seeds), finding.undecided, part, lacking)
                )
            ),
            ours=None if finding.ours is None else _known(finding.ours),
            seeds=seeds,
            margins=[_shown(margin) for margin in finding.margins],
            p=_known(finding.p),
            needed=finding.needed if verdict == "inconclusive" else None,
            runs=sorted(set(finding.runs)),
            missing=missing,
            **(_explained(claim) if explained else {}),
        )
    )


def _refuting(rule: Callable[..., Finding], runs: RunSet, claim: Claim) -> Finding | None:
    """Return what the recorded runs say of a universal claim, if they refute it on their own."""
    if not getattr(rule, "universal", False):
        return None
    try:
        finding = rule(runs.recorded(), **claim.values)
    except FedreproError:  # they lack a setting that the rule cannot do without
        return None
    return finding if _verdict_of(finding) == "deviates" else None


def _lacking(runs: RunSet, error: MissingRunsError) -> str:
    """Say how many runs are recorded of the groups that a rule missed first."""
    told = []
    for group, missing in Counter(run.group for run in error.missing).items():
        planned, title = len(runs.planned([group])), runs.plan.runs[group].title
        told.append(f"{planned - missing} of {planned} runs of {title} are recorded")
    return f"{', '.join(told)}; others may be missing, too" if told else str(error)


def _shown(margin: Margin) -> dict[str, Any]:
    """Return what a check keeps of a margin."""
    numbers = ("value", "low", "high", "p", "seeds")
    known = {name: _known(getattr(margin, name)) for name in numbers}
    return {"what": margin.what, "unit": margin.unit, "strict": margin.strict} | known


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def _verdict_of(finding: Finding) -> Verdict:
    if not finding.defined:
        return "not decidable"
    if not finding.firm:
        return "inconclusive"
    return "reproduced" if finding.holds else "deviates"


def _rule(paper: str, claim: Claim) -> Callable[..., Finding]:
    """Return what decides a claim.

    Raises:
        FedreproError: there is no such rule, or it does not take the claim's values.
    """
    where = f"config/expected/{paper}.yaml: claims: {claim.id}"
    rules = code.claims(paper)
    if claim.rule not in rules:
        raise FedreproError(f"{where}: no rule '{claim.rule}' {nearest(claim.rule, list(rules))}")
    rule = rules[claim.rule]
    try:
        inspect.signature(rule).bind(None, **claim.values)
    except TypeError as error:
        raise FedreproError(f"{where}: rule '{claim.rule}': {error}") from error
    return rule
