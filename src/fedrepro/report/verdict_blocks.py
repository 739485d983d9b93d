"""Blocks of the documentation that say how verdicts came out, and how they were reached.

Each function of ``BLOCKS`` returns the Markdown of a block; its parameters are the arguments in the
marker.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import get_args

import pandas as pd

from fedrepro.report import score
from fedrepro.report.checks import Check, Verdict, how_sure, remarks, shown, tolerance
from fedrepro.report.expected import load_expected
from fedrepro.report.stats import LEVEL
from fedrepro.report.verdicts import check
from fedrepro.runs.plan_files import papers
from fedrepro.runs.plan_schema import Scale

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)


@functools.cache
def checks_of(paper: str, scale: Scale) -> list[Check]:
    """Return the verdicts of a paper at a scale, made once for all blocks."""
    return check(paper, scale)


def _scoreboard() -> str:
    """What of the papers holds: printed values, then claims, a row a paper and reading."""
    published, lite = _all_scores("paper"), _all_scores("lite")
    keys = ["paper", "reading"]
    return "\n\n".join(
        [
            "Values printed in the papers, at the published scale:",
            _scores((item for item in published if item.origin == "printed"), keys),
            "Claims of the papers, at the published scale:",
            _scores((item for item in published if item.origin == "paper"), keys),
            "The same claims at lite, where smaller runs can decide them:",
            _scores((item for item in lite if item.origin == "paper"), keys),
        ]
    )


def _all_scores(scale: Scale) -> list[score.Score]:
    return list(score.scores(item for paper in papers() for item in checks_of(paper, scale)))


def _scores(found: Iterable[score.Score], keys: Sequence[str]) -> str:
    """Return scores as a table: keys, targets, tried, and how many came out how."""
    rows = []
    for item in found:
        own = {
            "paper": f"[{item.paper}](docs/papers/{item.paper}.md)",
            "scale": item.scale,
            "what": item.what,
            "reading": score.in_words(item.reading),
        }
        rows.append({**{key: own[key] for key in keys}, **item.counts()})
    return _filled(rows)


def _filled(rows: Sequence[Mapping[str, object]]) -> str:
    """Return a table without the columns that are empty in every row."""
    table = pd.DataFrame(rows)
    empty = [key for key in table if (table[key] == "").all()]
    return str(table.drop(columns=empty).to_markdown(index=False))


def _score(paper: str) -> str:
    """All counts of a paper: a row a scale, kind of target and reading, and the tests together."""
    scales: tuple[Scale, ...] = ("paper", "lite")
    checks = {scale: checks_of(paper, scale) for scale in scales}
    found = [item for scale in scales for item in score.scores(checks[scale]) if item.tried]
    keys = ["scale", "what", "reading"]
    lines = [_scores(found, keys) if found else "Nothing has been tried."]
    for scale, items in checks.items():
        claims = [item for item in items if (item.kind, item.origin) == ("claim", "paper")]
        for reading in score.readings(claims):
            tests = score.significance(item for item in claims if item.reading in ("", reading))
            if not tests.tested:
                continue
            single, adjusted = tests.single, tests.adjusted
            read = f", {score.in_words(reading)}," if reading else ""
            lines.append(
                f"At scale {scale}{read} {tests.tested} of the paper's claims compare means of "
                f"several seeds. Significant one by one (p < {LEVEL}, one-sided): {single.met} for "
                f"the claim, {single.unmet} against; after Holm's adjustment for all of them: "
                f"{adjusted.met} for, {adjusted.unmet} against."
            )
    return "\n\n".join(lines)


_BASELINES = (
    "How many of our values are within the tolerances, and how many would be if they were "
    "shuffled, or each replaced by its neighbour's (where a curve or table has at least three):"
)


def _baselines(paper: str, scale: Scale) -> str:
    """One row a curve or table: what share of our values is within its tolerances, and would be.

    Nothing where no curve or table has three values that were tried.
    """
    rows = [
        {
            "curve or table": item.group,
            "unit": item.unit,
            "reading": score.in_words(item.reading),
            "tried": item.tried,
            "within tolerance": f"{100 * item.reproduced:.0f} %",
            "if shuffled": f"{100 * item.shuffled:.0f} %",
            "if the neighbour's": f"{100 * item.neighbour:.0f} %",
        }
        for item in score.baselines(checks_of(paper, scale))
    ]
    if not rows:
        return ""
    return f"{_BASELINES}\n\n{pd.DataFrame(rows).to_markdown(index=False)}"


def _no_targets(paper: str) -> str:
    """One row a reason: values and claims that cannot be held against our runs."""
    reasons: dict[str, list[str]] = {}
    for item in checks_of(paper, "paper") + checks_of(paper, "lite"):
        if item.verdict in ("no target", "not reproducible"):
            places = reasons.setdefault(" ".join(item.reason.split()), [])
            places += [item.id] if item.id not in places else []
    rows = [{"why": why, "entries": _shortened(ids)} for why, ids in reasons.items()]
    return str(pd.DataFrame(rows).to_markdown(index=False)) if rows else "All are targets."


def _shortened(ids: Sequence[str]) -> str:
    first = ", ".join(f"`{name}`" for name in ids[:6])
    return f"{first} and {len(ids) - 6} more" if len(ids) > 6 else first


def _changes(paper: str) -> str:
    """One row a change to claims after our results were known."""
    rows = [
        {
            "claims": _shortened(change.claims),
            "commit": change.commit,
            "what": change.what,
            "unchanged it would have said": change.before,
        }
        for change in load_expected(paper).changes
    ]
    return str(pd.DataFrame(rows).to_markdown(index=False)) if rows else "There were none."


def _examples() -> str:
    """One number and one claim of every verdict, with all that decided it.

    Preferred is what the paper itself says, then what several seeds decide.
    """
    checks = [i for s in ("paper", "lite") for paper in papers() for i in checks_of(paper, s)]
    lines = []
    for verdict, kind in itertools.product(VERDICTS, ("number", "claim")):
        like = [x for x in checks if (x.verdict, x.kind) == (verdict, kind) and x.informative]
        if like:
            told = max(like, key=lambda x: (x.origin in ("printed", "paper"), x.seeds > 1))
            lines.append(f"- **{verdict}**, a {kind}. {_told(told)}")
    return "\n".join(lines)


def _told(item: Check) -> str:
    """Tell how a check came to its verdict."""
    parts = [f"`{item.id}` of `{item.paper}` at scale {item.scale} ({item.where})"]
    if item.statement:
        parts.append(f'"{item.statement}"')
    if item.published is not None and item.tolerance is not None:
        published = shown(item.published, item.unit)
        parts.append(f"published {published}, tolerance ± {tolerance(item)}")
    if item.kind == "number" and item.ours is not None:
        parts.append(f"ours {shown(item.ours, item.unit)} ({how_sure(item)})")
    parts += [text.rstrip(".") for text in (item.evidence, " ".join(item.reason.split())) if text]
    if item.p is not None:
        parts.append(f"p = {item.p:.2g}")
    return "; ".join(parts) + "."


def _verdicts(paper: str, scale: Scale, parts: str = "") -> str:
    """One row a published place and reading: counts of verdicts of published numbers.

    ``parts``: how many of a place's parts between commas make a row; empty: all.
    """
    rows = []
    depth = int(parts) if parts else None
    grouped: dict[tuple[str, str], list[Check]] = {}
    for item in checks_of(paper, scale):
        if item.kind == "number":
            place = item.where.split(", x = ")[0]
            place = ", ".join(place.split(", ")[:depth])
            grouped.setdefault((place, item.reading), []).append(item)
    for (place, reading), items in grouped.items():
        found = Counter(item.verdict for item in items)
        rows.append(
            {"published": place, "reading": score.in_words(reading), "n": len(items)}
            | {name: found[name] or "" for name in VERDICTS}
        )
    return _filled(rows) if rows else "No published number is compared with ours."


def _claims(paper: str, scale: Scale) -> str:
    """One row a claim: the statement, our verdict and the evidence."""
    rows = [
        {
            "claim": item.id,
            "statement": item.statement,
            "verdict": item.verdict,
            "seeds": item.seeds or "",
            "p": "" if item.p is None else f"{item.p:.2g}",
            "evidence": remarks(item),
        }
        for item in checks_of(paper, scale)
        if item.kind == "claim"
    ]
    return str(pd.DataFrame(rows).to_markdown(index=False))


BLOCKS: dict[str, Callable[..., str]] = {
    "scoreboard": _scoreboard,
    "score": _score,
    "baselines": _baselines,
    "no_targets": _no_targets,
    "changes": _changes,
    "examples": _examples,
    "verdicts": _verdicts,
    "claims": _claims,
}
