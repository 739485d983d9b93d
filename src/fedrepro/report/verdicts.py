"""Verdicts: every published number and claim against our runs.

A number is judged against runs of the published scale only. At another scale it is judged too
where the runs of its cell are the very same runs (equal ids); elsewhere it is ``not decidable``
there and our value is shown without a verdict. Claims are judged at the scales they list.

A verdict is the same for our mean and for all that the mean may be, given its seeds
(:func:`fedrepro.report.stats.bounds`); else it is ``inconclusive``. For a number with tolerance tol
it is ``reproduced`` where ``|ours - published| <= tol``, ``close`` up to twice that, else
``deviates``. A claim about means is taken apart into margins, paired by seed; it is ``reproduced``
where all are met, ``deviates`` where one is not. Networks that have hardly learnt decide nothing.

The others say why there is none: ``not run`` where a record is missing, ``not decidable`` at this
scale, ``not reproducible`` for want of data or machines, ``no target`` for values that cannot be
right and claims that cannot fail. :mod:`fedrepro.report.score` counts.
"""

from __future__ import annotations

import functools
import inspect
import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd
from pydantic import TypeAdapter

from fedrepro.base.configfile import nearest, read_json
from fedrepro.base.errors import FedreproError
from fedrepro.base.paths import root
from fedrepro.report import code
from fedrepro.report.artefacts import frame, keys_of
from fedrepro.report.expected import Claim, Expected, Number, cell_key, load_expected
from fedrepro.report.finding import SLACK, Finding
from fedrepro.report.informative import uninformative
from fedrepro.report.stats import MOST_SEEDS, bounds, sd_bounds, seeds_needed
from fedrepro.runs import records
from fedrepro.runs.plan import Scale, at_published_scale
from fedrepro.runs.runset import MissingRunsError, RunSet

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


@dataclass(frozen=True)
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
        informative: False where values of other places would pass as well, nearly all of them.
        verdict: see the module.
        evidence: in a sentence.
        seeds: how many decide: runs of equal setting, or pairs; of a claim that is not about means,
            those of its runs. 1: a single run; 0: no run.
        spread: beside a single run the median standard deviation of like cells, where there is one.
        p: of a claim about means, one-sided, not adjusted; None: none.
        needed: how many seeds would decide what is inconclusive, in 4 of 5 cases, if means and
            spreads are as found; None: not known.
        explanation: of a deviation.
        cause: whether the explanation is ``measured`` by runs of ours or a ``conjecture``.
        runs: ids.
    """

    id: str
    kind: Literal["number", "claim"]
    paper: str
    scale: str
    origin: str
    where: str
    group: str
    value: str
    unit: str
    reading: str
    statement: str
    published: float | None
    ours: float | None
    interval: list[float]
    values: list[float]
    tolerance: float | None
    reason: str
    informative: bool
    verdict: Verdict
    evidence: str
    seeds: int
    spread: float | None
    p: float | None
    needed: int | None
    explanation: str
    cause: Literal["", "measured", "conjecture"]
    runs: list[str]


def check(paper: str, scale: Scale, folder: Path | None = None) -> list[Check]:
    """Judge every published number and claim of a paper at a scale.

    Raises:
        FedreproError: the expected values are wrong, or name a cell that our frame does not have.
    """
    expected = load_expected(paper)
    runs = RunSet(paper, scale, folder)
    checks = _judge_numbers(runs, expected, expected.judged_numbers())
    for item in expected.not_reproducible:
        checks.append(
            _check(runs, item.id, "number", item.where, "not reproducible")
            | {"origin": item.origin, "published": item.published, "reason": item.reason}
        )
    checks += [_judge_claim(runs, claim) for claim in expected.claims]
    return [Check(**content) for content in checks]


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
        if groups.intersection(runs.plan.artefact(number.artefact).runs)
    ]
    return [Check(**content) for content in _judge_numbers(runs, expected, numbers)]


def _judge_numbers(
    runs: RunSet, expected: Expected, numbers: Iterable[Number]
) -> list[dict[str, Any]]:
    """Judge some of a paper's numbers; every table and figure is made once."""
    frames: dict[str, _Frame] = {}
    blind = uninformative(expected)
    checks = []
    for number in numbers:
        name = number.artefact
        if name not in frames:
            frames[name] = _frame(runs, name)
        content = _judge_number(runs, number, frames[name])
        checks.append(content | {"informative": number.id not in blind})
    return checks


@dataclass(frozen=True)
class _Frame:
    """What the records give of an artefact, if anything; ``whole`` if none of them is missing."""

    cells: pd.DataFrame | None
    whole: bool

    @functools.cached_property
    def keys(self) -> dict[tuple[str, str], int]:
        """The key of every cell, and where it first is."""
        assert self.cells is not None
        keys = keys_of(self.cells)
        return dict(zip(reversed(keys), reversed(range(len(keys))), strict=True))


def _frame(runs: RunSet, name: str) -> _Frame:
    whole = not runs.missing(runs.plan.artefact(name).runs)
    try:
        return _Frame(frame(runs, name, partial=True), whole)
    except MissingRunsError:
        return _Frame(None, whole)


def _check(runs: RunSet, name: str, kind: str, where: str, verdict: Verdict) -> dict[str, Any]:
    return {
        "id": name,
        "kind": kind,
        "paper": runs.paper,
        "scale": runs.scale,
        "origin": "",
        "where": where,
        "group": "",
        "value": "",
        "unit": "",
        "reading": "",
        "statement": "",
        "published": None,
        "ours": None,
        "interval": [],
        "values": [],
        "tolerance": None,
        "reason": "",
        "informative": True,
        "verdict": verdict,
        "evidence": "",
        "seeds": 0,
        "spread": None,
        "p": None,
        "needed": None,
        "explanation": "",
        "cause": "",
        "runs": [],
    }


def _judge_number(runs: RunSet, number: Number, made: _Frame) -> dict[str, Any]:
    content = _check(runs, number.id, "number", number.where, "not run") | {
        "origin": number.origin,
        "group": number.group,
        "value": number.value,
        "reading": number.reading,
        "published": number.published,
        "tolerance": number.tolerance,
        "reason": number.reason,
    }
    if number.unusable:
        return content | {"verdict": "no target", "reason": number.unusable}
    if made.cells is None:
        return content
    cell = _find(made, number, runs)
    if cell is None and not (made.whole or (number.sparse and _has_row(made, number))):
        return content
    if cell is None:
        return content | {"verdict": "not decidable", "evidence": f"not in the {runs.scale} plan"}
    ours = float(cell[number.value])
    if math.isnan(ours):
        why = "one seed has no spread" if number.value == "sd" else "undefined for these runs"
        return content | {"verdict": "not decidable", "evidence": why}
    values, ids = list(cell["values"]), list(cell["runs"])
    low, high = _bounds(number, ours, values)
    content |= {
        "ours": ours,
        "interval": [low, high] if len(values) > 1 else [],
        "values": values,
        "unit": cell.get("unit", ""),
        "evidence": _seeds_missing(runs, ids),
        "seeds": len(values),
        "spread": _like_spread(made.cells, cell) if len(values) == 1 else None,
        "verdict": "not decidable",
        "runs": ids,
    }
    if at_published_scale(runs.paper, ids):
        content["verdict"] = judge(number, ours, low, high)
    if content["verdict"] == "inconclusive" and number.value == "mean":
        content["needed"] = seeds_needed(_to_next_verdict(number, ours), float(cell["sd"]))
    if content["verdict"] in ("close", "deviates", "inconclusive"):
        content |= _explained(number)
    return records.rounded(content)  # type: ignore[no-any-return]


def _bounds(number: Number, ours: float, values: Sequence[float]) -> tuple[float, float]:
    if not values:
        return ours, ours
    return sd_bounds(ours, len(values)) if number.value == "sd" else bounds(values)


def shown(value: float, unit: str) -> str:
    """Return a value as readers are shown it: ``98.71 %``, ``1.30 points``, ``1482``."""
    if unit in ("fraction", "points"):
        return f"{100 * value:.2f} {'%' if unit == 'fraction' else 'points'}"
    return f"{value:.4g}"


def would_pass(check: Check, other: Check) -> bool:
    """Say whether the mean that another check found is within the tolerance of a check's number."""
    if check.published is None or check.tolerance is None or other.ours is None:
        return False
    return abs(other.ours - check.published) <= check.tolerance + SLACK


def judge(number: Number, ours: float, low: float, high: float) -> Verdict:
    """Return the verdict on a number from our mean and what it may lie between."""
    nearest = min(max(number.published, low), high)
    found = {_verdict(number, value) for value in (ours, nearest, low, high)}
    return found.pop() if len(found) == 1 else "inconclusive"


def _explained(entry: Number | Claim) -> dict[str, str]:
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


def _seeds_missing(runs: RunSet, ids: Sequence[str]) -> str:
    """Say how many seeds of the cell's runs are recorded, where not all are."""
    wanted = set(ids)
    of_cell = [run for run in runs.planned(runs.plan.runs) if run.id in wanted]
    kinds = {(run.group, str(run.coordinates)) for run in of_cell}
    planned = runs.planned({run.group for run in of_cell})
    like = [run for run in planned if (run.group, str(run.coordinates)) in kinds]
    recorded = len(like) - len(runs.unrecorded(like))
    return "" if recorded == len(like) else f"{recorded} of {len(like)} runs are recorded"


def _like_spread(cells: pd.DataFrame, cell: pd.Series) -> float | None:
    """Return the median standard deviation over seeds of the cells of its unit, if any has one."""
    like = cells[cells["unit"] == cell["unit"]] if "unit" in cells else cells
    spreads = like["sd"].dropna() if "sd" in cells else pd.Series(dtype=float)
    return None if spreads.empty else float(spreads.median())


def _verdict(number: Number, ours: float) -> Verdict:
    if number.gain and ours * number.published <= 0:
        return "deviates"
    difference = abs(ours - number.published)
    if difference <= number.tolerance + SLACK:
        return "reproduced"
    return "close" if difference <= 2 * number.tolerance + SLACK else "deviates"


def _to_next_verdict(number: Number, ours: float) -> float:
    """Return how far our mean is from the nearest value with another verdict."""
    apart, tolerance = abs(ours - number.published), number.tolerance
    edges = [abs(apart - tolerance), abs(apart - 2 * tolerance)]
    return min([*edges, abs(ours)] if number.gain else edges)


def _find(made: _Frame, number: Number, runs: RunSet) -> pd.Series | None:
    """Return the number's cell; None where a record or the plan leaves it out."""
    assert made.cells is not None
    wanted = cell_key(*number.cell)
    if wanted in made.keys:
        return made.cells.iloc[made.keys[wanted]]
    if runs.scale != "paper" or not made.whole or number.sparse:
        return None
    raise FedreproError(
        f"config/expected/{runs.paper}.yaml: {number.id}: {number.artefact} ({runs.scale}) has no "
        f"cell {list(number.cell)}; its first cells are {keys_of(made.cells)[:3]}"
    )


def _has_row(made: _Frame, number: Number) -> bool:
    """Return whether the records give any cell of the number's row or series."""
    return cell_key(*number.cell)[0] in {row for row, _ in made.keys}


def _judge_claim(runs: RunSet, claim: Claim) -> dict[str, Any]:
    content = _check(runs, claim.id, "claim", claim.source, "not decidable") | {
        "origin": claim.about,
        "reading": claim.reading,
        "statement": claim.statement,
    }
    no_target = {"verdict": "no target", "reason": claim.unusable} if claim.unusable else {}
    if runs.scale not in claim.scales:
        evidence = f"our {runs.scale} runs cannot decide this claim"
        return content | {"evidence": evidence} | no_target
    try:
        finding = _rule(runs.paper, claim)(runs, **claim.values)
    except MissingRunsError as error:
        return content | {"verdict": "not run", "evidence": str(error)} | no_target
    content |= {
        "verdict": _verdict_of(finding),
        "evidence": finding.evidence,
        "ours": finding.ours,
        "seeds": finding.seeds or _seeds(runs, finding.runs),
        "p": None if math.isnan(finding.p) else finding.p,
        "needed": finding.needed if _verdict_of(finding) == "inconclusive" else None,
        "runs": sorted(set(finding.runs)),
    }
    if finding.undecided:
        content["evidence"] += f"; {finding.undecided}"
    if content["verdict"] != "reproduced" and not no_target:
        content |= _explained(claim)
    return records.rounded(content | no_target)  # type: ignore[no-any-return]


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


def to_json(checks: Iterable[Check]) -> str:
    """Return checks as a JSON list, one check an entry."""
    return json.dumps([asdict(item) for item in checks], indent=1, allow_nan=False) + "\n"


def released_file(paper: str, scale: str) -> Path:
    """Return the committed file of the released verdicts."""
    return root() / f"docs/verdicts/{scale}/{paper}.json"


def released(checks: Iterable[Check]) -> str:
    """Return what is released of the verdicts: id -> verdict, ours, published."""
    content = {
        item.id: {"verdict": item.verdict, "ours": item.ours, "published": item.published}
        for item in checks
    }
    return json.dumps(content, indent=1, sort_keys=True, allow_nan=False) + "\n"


def changes(checks: Iterable[Check], file: Path) -> list[str]:
    """Return how fresh checks differ from the released ones, one line a difference.

    Raises:
        FedreproError: there is no released file, or it is damaged; says how to release.
    """
    checks = list(checks)
    if not file.exists():
        raise FedreproError(f"{file}: no released verdicts; `fedrepro check --release` writes them")
    cure = "restore it with git, or `fedrepro check --release` writes it anew"
    old = read_json(file, TypeAdapter(dict[str, dict[str, Any]]), cure)
    new = json.loads(released(checks))
    lines = []
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name):
            lines.append(f"{name}: released {old.get(name)}, now {new.get(name)}")
    return lines


def line(item: Check) -> str:
    """Return a check in a line: verdict, id, our value and the published one, evidence."""
    text = f"{item.verdict:<17} {item.paper} {item.id}"
    if item.ours is not None:
        text += f": ours {shown(item.ours, item.unit)}"
        if item.kind == "number" and (sure := how_sure(item)):
            text += f" ({sure})"
        if item.published is not None:
            text += f", published {shown(item.published, item.unit)}"
            if item.tolerance is not None:
                text += f" (tolerance ± {shown(item.tolerance, difference(item.unit))})"
    if item.verdict in DECIDED and not item.informative:
        text += ", not informative"
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
    like = "" if item.spread is None else shown(item.spread, difference(item.unit))
    return f"single run; sd of the cells beside it {like}" if like else "single run"


def difference(unit: str) -> str:
    """Return the unit of a difference of values: points for fractions."""
    return "points" if unit == "fraction" else unit


def remarks(item: Check) -> str:
    """Return what is said of a verdict: evidence, seeds that would decide, explanation."""
    return ". ".join(filter(None, (item.evidence, outlook(item), explained(item))))


def outlook(item: Check) -> str:
    """Say how many seeds would decide what is inconclusive."""
    if item.needed is None:
        return ""
    about = f"{MOST_SEEDS} or more" if item.needed == MOST_SEEDS else f"about {item.needed}"
    return f"To decide it takes {about} seeds, if means and spreads are as found"


def explained(item: Check) -> str:
    """Return a check's explanation, and whether it is more than a conjecture."""
    return f"{item.cause.capitalize()}: {item.explanation}" if item.explanation else ""
