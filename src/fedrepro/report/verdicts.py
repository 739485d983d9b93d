"""Verdicts: every published number and claim against our runs.

A number is judged against runs of the published scale only. At another scale it is judged too
where the runs of its artefact are the very same runs (equal ids); elsewhere it is ``not decidable``
there and our value is shown without a verdict. Claims are judged at the scales they list.

Verdicts of numbers, with tolerance tol: ``reproduced`` where ``|ours - published| <= tol``;
``close`` up to twice that; else ``deviates``. Of claims: ``reproduced`` or ``deviates``. Both:
``not run`` where a record is missing, ``not reproducible`` with the reason, ``not decidable``.
A printed value that cannot be held as a target is ``not reproducible``.
"""

from __future__ import annotations

import inspect
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import pandas as pd
from tabulate import tabulate

from fedrepro.base.configfile import nearest
from fedrepro.base.errors import FedreproError
from fedrepro.base.paths import root
from fedrepro.report import code
from fedrepro.report.artefacts import frame, keys_of
from fedrepro.report.expected import Claim, Number, cell_key, load_expected
from fedrepro.report.finding import Finding
from fedrepro.runs import records
from fedrepro.runs.plan import Scale, at_published_scale
from fedrepro.runs.runset import MissingRunsError, RunSet

Verdict = Literal["reproduced", "close", "deviates", "not run", "not reproducible", "not decidable"]


@dataclass(frozen=True)
class Check:
    """The verdict on one published number or claim.

    ``published`` and ``ours`` are fractions for accuracies; ``ours`` is the mean over the seeds
    listed in ``values``; ``interval`` is its 95 % Student t interval (empty for one seed).
    """

    id: str
    kind: Literal["number", "claim"]
    paper: str
    scale: str
    where: str
    reading: str
    statement: str
    published: float | None
    ours: float | None
    interval: list[float]
    values: list[float]
    tolerance: float | None
    reason: str
    verdict: Verdict
    evidence: str
    explanation: str
    runs: list[str]


def check(paper: str, scale: Scale, folder: Path | None = None) -> list[Check]:
    """Judge every published number and claim of a paper at a scale.

    Raises:
        FedreproError: the expected values are wrong, or name a cell that our frame does not have.
    """
    expected = load_expected(paper)
    runs = RunSet(paper, scale, folder)
    frames: dict[str, _Frame] = {}
    checks = []
    for number in expected.judged_numbers():
        name = number.artefact
        if name not in frames:
            frames[name] = _frame(runs, name)
        checks.append(_judge_number(runs, number, frames[name]))
    for item in expected.not_reproducible:
        checks.append(
            _check(runs, item.id, "number", item.where, "not reproducible")
            | {"published": item.published, "reason": item.reason}
        )
    checks += [_judge_claim(runs, claim) for claim in expected.claims]
    return [Check(**content) for content in checks]


@dataclass(frozen=True)
class _Frame:
    """What the records give of an artefact, if anything; ``whole`` if none of them is missing."""

    cells: pd.DataFrame | None
    whole: bool


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
        "where": where,
        "reading": "",
        "statement": "",
        "published": None,
        "ours": None,
        "interval": [],
        "values": [],
        "tolerance": None,
        "reason": "",
        "verdict": verdict,
        "evidence": "",
        "explanation": "",
        "runs": [],
    }


def _judge_number(runs: RunSet, number: Number, made: _Frame) -> dict[str, Any]:
    content = _check(runs, number.id, "number", number.where, "not run") | {
        "reading": number.reading,
        "published": number.published,
        "tolerance": number.tolerance,
        "reason": number.reason,
    }
    if number.unusable:
        return content | {"verdict": "not reproducible", "reason": number.unusable}
    if made.cells is None:
        return content
    cell = _find(made, number, runs)
    if cell is None and not (made.whole or (number.sparse and _has_row(made, number))):
        return content
    if cell is None:
        return content | {"verdict": "not decidable", "evidence": f"not in the {runs.scale} plan"}
    ours = float(cell[number.value])
    if math.isnan(ours):
        return content | {"verdict": "not decidable", "evidence": "one seed has no spread"}
    ids = list(cell["runs"])
    content |= {
        "ours": ours,
        "values": list(cell["values"]),
        "runs": ids,
    }
    if number.value == "mean" and not math.isnan(cell["low"]):
        content["interval"] = [float(cell["low"]), float(cell["high"])]
    content["verdict"] = "not decidable"
    if at_published_scale(runs.paper, ids):
        content["verdict"] = _verdict(abs(ours - number.published), number.tolerance)
    if content["verdict"] in ("close", "deviates"):
        content["explanation"] = number.explanation
    return records.rounded(content)  # type: ignore[no-any-return]


def _verdict(difference: float, tolerance: float) -> Verdict:
    slack = 1e-9  # published values and ours are decimal fractions of finite precision
    if difference <= tolerance + slack:
        return "reproduced"
    return "close" if difference <= 2 * tolerance + slack else "deviates"


def _find(made: _Frame, number: Number, runs: RunSet) -> pd.Series | None:
    """Return the number's cell; None where a record or the plan leaves it out."""
    assert made.cells is not None
    wanted = cell_key(*number.cell)
    keys = keys_of(made.cells)
    if wanted in keys:
        return made.cells.iloc[keys.index(wanted)]
    if runs.scale != "paper" or not made.whole or number.sparse:
        return None
    raise FedreproError(
        f"config/expected/{runs.paper}.yaml: {number.id}: {number.artefact} ({runs.scale}) has no "
        f"cell {list(number.cell)}; its first cells are {keys[:3]}"
    )


def _has_row(made: _Frame, number: Number) -> bool:
    """Return whether the records give any cell of the number's row or series."""
    assert made.cells is not None
    return cell_key(*number.cell)[0] in {key[0] for key in keys_of(made.cells)}


def _judge_claim(runs: RunSet, claim: Claim) -> dict[str, Any]:
    content = _check(runs, claim.id, "claim", claim.source, "not decidable") | {
        "reading": claim.reading,
        "statement": claim.statement,
    }
    if runs.scale not in claim.scales:
        return content | {"evidence": f"our {runs.scale} runs cannot decide this claim"}
    try:
        finding = _rule(runs.paper, claim)(runs, **claim.values)
    except MissingRunsError as error:
        return content | {"verdict": "not run", "evidence": str(error)}
    content |= {
        "verdict": "reproduced" if finding.holds else "deviates",
        "evidence": finding.evidence,
        "ours": finding.ours,
        "runs": sorted(set(finding.runs)),
    }
    if not finding.holds:
        content["explanation"] = claim.explanation
    return records.rounded(content)  # type: ignore[no-any-return]


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
    try:
        old = json.loads(file.read_text())
    except ValueError as error:
        raise FedreproError(
            f"{file}: not valid JSON ({error}); restore it with git, or `fedrepro check --release` "
            "writes it anew"
        ) from error
    new = json.loads(released(checks))
    lines = []
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name):
            lines.append(f"{name}: released {old.get(name)}, now {new.get(name)}")
    return lines


def text(checks: Iterable[Check], verbose: bool = False) -> str:
    """Return how many checks of each paper and kind have each verdict.

    Args:
        checks: what :func:`check` returned, of one or several papers.
        verbose: also one line a check.
    """
    checks = list(checks)
    counts = Counter((item.paper, item.kind, item.verdict) for item in checks)
    groups = dict.fromkeys((item.paper, item.scale, item.kind) for item in checks)
    verdicts = [verdict for verdict in get_args(Verdict) if any(v == verdict for *_, v in counts)]
    rows = [
        [paper, scale, f"{kind}s", *(counts[paper, kind, verdict] or "" for verdict in verdicts)]
        for paper, scale, kind in groups
    ]
    table = tabulate(rows, ["paper", "scale", "", *verdicts], tablefmt="simple")
    return "\n\n".join(["\n".join(map(_line, checks)), table] if verbose else [table])


def _line(item: Check) -> str:
    line = f"{item.verdict:<17} {item.paper} {item.id}"
    if item.ours is not None:
        line += f": ours {item.ours:.4g}"
        if item.published is not None:
            line += f", published {item.published:.4g}"
            if item.tolerance is not None:
                line += f" ± {item.tolerance:.2g}"
    detail = "; ".join(filter(None, (item.evidence, item.explanation)))
    return f"{line} ({detail})" if detail else line
