"""Numbers in the documentation: every one is generated from records, between markers.

A block in a Markdown file begins with ``<!-- begin: NAME ARGUMENTS -->`` and ends with
``<!-- end -->``; ``fedrepro docs`` writes what belongs between them.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import get_args

import pandas as pd

import fedrepro
from fedrepro.base.configfile import nearest
from fedrepro.base.errors import FedreproError
from fedrepro.base.files import write_text
from fedrepro.base.paths import root
from fedrepro.report import score
from fedrepro.report.artefacts import frame, markdown
from fedrepro.report.expected import load_expected
from fedrepro.report.verdicts import DECIDED, Check, Verdict, check, explained
from fedrepro.runs import records
from fedrepro.runs.plan import Scale, expand, papers, unique
from fedrepro.runs.runset import MissingRunsError, RunSet

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

_BEGIN, _END = r"<!-- begin: (\S[^>]*?) -->", "<!-- end -->"
_MARKER = re.compile(f"{_BEGIN}|{_END}")
_BLOCK = re.compile(f"{_BEGIN}.*?{_END}", re.DOTALL)


def files() -> list[Path]:
    """Return the Markdown files that hold generated blocks."""
    folders = [root() / "docs" / name for name in (".", "papers", "verdicts")]
    return [root() / "README.md", *(file for f in folders for file in sorted(f.glob("*.md")))]


def update(*, dry_run: bool = False) -> list[Path]:
    """Write all generated blocks; return the files that were not current.

    Args:
        dry_run: only look.

    Raises:
        FedreproError: a block has an unknown name or no end, or a record it needs is missing.
    """
    _checks.cache_clear()
    changed = []
    for file in files():
        old = file.read_text()
        _require_pairs(file, old)
        new = _BLOCK.sub(functools.partial(_fill, file), old)
        if new != old:
            changed.append(file)
            if not dry_run:
                write_text(file, new)
    return changed


def _require_pairs(file: Path, text: str) -> None:
    """Make sure that every block has its own end: what lies before an end is written over."""
    markers = [marker[1] or _END for marker in _MARKER.finditer(text)]
    for one, following in itertools.pairwise([_END, *markers, "end of the file"]):
        if one == following == _END:
            raise FedreproError(f"{file}: `{_END}` without a block before it; take it out")
        if _END not in (one, following):
            raise FedreproError(f"{file}: block '{one}' has no `{_END}`; put it back")


def _fill(file: Path, match: re.Match[str]) -> str:
    block = match[1]
    name, *arguments = block.split()
    if name not in BLOCKS:
        raise FedreproError(f"{file}: unknown block '{name}' {nearest(name, list(BLOCKS))}")
    try:
        body = BLOCKS[name](*arguments)
    except (TypeError, ValueError) as error:
        raise FedreproError(f"{file}: block '{block}': {error}") from error
    return f"<!-- begin: {block} -->\n{body.strip()}\n{_END}"


@functools.cache
def _checks(paper: str, scale: Scale) -> list[Check]:
    return check(paper, scale)


def _scoreboard() -> str:
    """What of the papers holds: printed values, then claims, a row a paper and reading."""
    checks = [item for paper in papers() for item in _checks(paper, "paper")]
    found = list(score.scores(checks))
    printed = [item for item in found if item.origin == "printed"]
    claims = [item for item in found if item.origin == "paper"]
    return "\n\n".join(
        [
            _in_a_sentence(printed),
            _scores(printed, ["paper", "reading"]),
            "Claims of the papers, at the published scale:",
            _scores(claims, ["paper", "reading"]),
            "The same claims at lite, where smaller runs can decide them:",
            _scores(
                [
                    item
                    for item in score.scores(i for p in papers() for i in _checks(p, "lite"))
                    if item.origin == "paper"
                ],
                ["paper", "reading"],
            ),
        ]
    )


def _in_a_sentence(printed: Sequence[score.Score]) -> str:
    """Say how many printed values were tried, and how they came out, each reading on its own."""
    parts = []
    for paper, items in itertools.groupby(printed, lambda item: item.paper):
        readings = []
        for item in items:
            outcomes = [f"{count} {name}" for name in DECIDED if (count := item.outcomes[name])]
            if item.uninformative:
                outcomes.append(f"{item.uninformative} not informative")
            reading = f" {_reading(item.reading)}" if item.reading else ""
            came_out = f" ({', '.join(outcomes)})" if outcomes else ""
            readings.append(f"{item.tried} of {item.targets}{reading}{came_out}")
        parts.append(f"{paper} {', '.join(readings)}")
    return (
        f"Values printed in the papers that were tried at the published scale: {'; '.join(parts)}."
    )


def _scores(found: Iterable[score.Score], keys: Sequence[str]) -> str:
    """Return scores as a table: keys, targets, tried, and how many came out how."""
    rows = []
    for item in found:
        own = {
            "paper": f"[{item.paper}]({_page(item.paper)})",
            "scale": item.scale,
            "what": score.ORIGINS[item.kind][item.origin],
            "reading": _reading(item.reading),
        }
        rows.append(
            {key: own[key] for key in keys}
            | {"all": item.targets, "tried": item.tried}
            | {name: item.outcomes[name] or "" for name in DECIDED}
            | {"not informative": item.uninformative or "", "single run": item.single or ""}
        )
    table = pd.DataFrame(rows)
    empty = [key for key in ("reading", "not informative") if (table[key] == "").all()]
    return str(table.drop(columns=[key for key in empty if key in table]).to_markdown(index=False))


def _page(paper: str) -> str:
    return f"docs/papers/{paper}.md"


def _reading(reading: str) -> str:
    return reading.replace("_", " ")


def _score(paper: str) -> str:
    """All counts of a paper: a row a scale, kind of target and reading, and the tests together."""
    scales: tuple[Scale, ...] = ("paper", "lite")
    checks = {scale: _checks(paper, scale) for scale in scales}
    found = [item for scale in scales for item in score.scores(checks[scale]) if item.tried]
    keys = ["scale", "what", "reading"]
    lines = [_scores(found, keys) if found else "Nothing has been tried."]
    for scale, items in checks.items():
        tests = score.significance(item for item in items if item.origin == "paper")
        if tests.tested:
            lines.append(
                f"At scale {scale} {tests.tested} of the paper's claims compare means of several "
                f"seeds: {tests.single} of the differences are significant one by one (p < "
                f"{score.LEVEL}, one-sided), {tests.adjusted} after Holm's adjustment for all of "
                "them."
            )
    return "\n\n".join(lines)


def _baselines(paper: str, scale: Scale) -> str:
    """One row a curve or table: what share of it our values reproduce, and would elsewhere."""
    rows = [
        {
            "curve or table": item.group,
            "reading": _reading(item.reading),
            "tried": item.tried,
            "reproduced": f"{100 * item.reproduced:.0f} %",
            "if shuffled": f"{100 * item.shuffled:.0f} %",
            "if the neighbour's": f"{100 * item.neighbour:.0f} %",
        }
        for item in score.baselines(_checks(paper, scale))
    ]
    return str(pd.DataFrame(rows).to_markdown(index=False)) if rows else "Nothing has been tried."


def _no_targets(paper: str) -> str:
    """One row a reason: values and claims that cannot be held against our runs."""
    reasons: dict[str, list[str]] = {}
    for item in _checks(paper, "paper") + _checks(paper, "lite"):
        if item.verdict in ("no target", "not reproducible"):
            places = reasons.setdefault(" ".join(item.reason.split()), [])
            places += [item.id] if item.id not in places else []
    rows = [{"why": why, "entries": _shortened(ids)} for why, ids in reasons.items()]
    return str(pd.DataFrame(rows).to_markdown(index=False)) if rows else "All are targets."


def _shortened(ids: Sequence[str]) -> str:
    shown = ", ".join(f"`{name}`" for name in ids[:6])
    return f"{shown} and {len(ids) - 6} more" if len(ids) > 6 else shown


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
    """One number and one claim of every verdict, the first of each, with all that decided it."""
    checks = [i for s in ("paper", "lite") for paper in papers() for i in _checks(paper, s)]
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
        parts.append(f"published {item.published:.4g} ± {item.tolerance:.2g}")
    if item.kind == "number" and item.ours is not None:
        between = " to ".join(f"{value:.4g}" for value in item.interval)
        over = f", 95 % interval {between}, {item.seeds} seeds" if between else ", a single run"
        parts.append(f"ours {item.ours:.4g}{over}")
    parts += [text for text in (item.evidence, " ".join(item.reason.split())) if text]
    if item.p is not None:
        parts.append(f"p = {item.p:.2g}")
    return "; ".join(parts) + "."


def _effort() -> str:
    """One row a paper and scale: runs recorded, and what they took."""
    rows = []
    scales: tuple[Scale, ...] = ("lite", "paper")
    for paper, scale in itertools.product(papers(), scales):
        costs = _costs(paper, scale)
        total = len(unique(expand(paper, scale)))
        rows.append(
            {
                "paper": f"[{paper}]({_page(paper)})",
                "scale": scale,
                "runs recorded": f"{len(costs)} of {total}",
                "core minutes": f"{_minutes(costs, gpu=False):.0f}",
                "GPU minutes": f"{_minutes(costs, gpu=True):.0f}",
            }
        )
    return str(pd.DataFrame(rows).to_markdown(index=False))


def _costs(paper: str, scale: Scale) -> list[records.Cost]:
    """Return what each recorded run took."""
    took = (records.cost(name) for name in unique(expand(paper, scale)))
    return [cost for cost in took if cost is not None]


def _minutes(costs: Iterable[records.Cost], *, gpu: bool) -> float:
    return sum(cost.seconds for cost in costs if cost.gpu is gpu) / 60


def _cost_table(paper: str, scale: Scale) -> str:
    """One row a group that has runs at the scale: how many, seconds a run, minutes, on what."""
    runs = RunSet(paper, scale)
    rows = []
    for group, planned in runs.plan.runs.items():
        members = list(unique(runs.members([group])).values())
        if not members:
            continue
        found = [records.read(run.id) for run in members if records.is_recorded(run.id)]
        seconds = pd.Series([record.provenance.seconds for record in found], dtype=float)
        rows.append(
            {
                "runs": planned.title,
                "recorded": f"{len(found)} of {len(members)}",
                "seconds a run (median)": f"{seconds.median():.0f}" if found else "",
                "core minutes": f"{seconds.sum() / 60:.1f}",
                "on": ", ".join(
                    sorted({f"{r.provenance.device}, {r.provenance.threads} thread" for r in found})
                ),
            }
        )
    return str(pd.DataFrame(rows).to_markdown(index=False))


def _runs(paper: str, scale: Scale, *groups: str) -> str:
    """One row a recorded run of the groups: seed, test accuracy, what it took, its record."""
    runs = RunSet(paper, scale)
    for name in groups:
        if name not in runs.plan.runs:
            raise ValueError(f"no group of runs '{name}' {nearest(name, list(runs.plan.runs))}")
    missing = {run.id for run in runs.missing(groups)}
    rows = []
    for run in runs.members(groups):
        if run.id in missing:
            continue
        record = runs.record(run)
        accuracy, from_ = record.metrics["accuracy"], record.provenance
        rows.append(
            {
                "runs": runs.plan.runs[run.group].title,
                **run.coordinates,
                "seed": run.seed,
                "record": f"[`{run.id}`](../../{records.path_of(run.id)})",
                "after the last round": f"{100 * accuracy[-1]:.2f} %",
                "best": f"{100 * max(accuracy):.2f} %",
                "seconds": f"{from_.seconds:.0f}",
                "on": f"{from_.device}, backend {from_.backend}, commit {from_.commit[:7]}",
            }
        )
    return str(pd.DataFrame(rows).to_markdown(index=False, disable_numparse=True))


def _verdicts(paper: str, scale: Scale, parts: str = "") -> str:
    """One row a published place and reading: counts of verdicts of published numbers.

    ``parts``: how many of a place's parts between commas make a row; empty: all.
    """
    rows = []
    grouped: dict[tuple[str, str], list[Check]] = {}
    for item in _checks(paper, scale):
        if item.kind == "number":
            place = item.where.split(", x = ")[0]
            if parts:
                place = ", ".join(place.split(", ")[: int(parts)])
            grouped.setdefault((place, item.reading), []).append(item)
    for (place, reading), items in grouped.items():
        found = Counter(item.verdict for item in items)
        rows.append(
            {"published": place, "held against": reading.replace("_", " "), "n": len(items)}
            | {name: found[name] or "" for name in VERDICTS}
        )
    table = pd.DataFrame(rows)
    empty = [name for name in VERDICTS if (table[name] == "").all()]
    return str(table.drop(columns=empty).to_markdown(index=False))


def _claims(paper: str, scale: Scale) -> str:
    """One row a claim: the statement, our verdict and the evidence."""
    rows = [
        {
            "claim": item.id,
            "statement": item.statement,
            "verdict": item.verdict,
            "seeds": item.seeds or "",
            "p": "" if item.p is None else f"{item.p:.2g}",
            "evidence": ". ".join(filter(None, (item.evidence, explained(item)))),
        }
        for item in _checks(paper, scale)
        if item.kind == "claim"
    ]
    return str(pd.DataFrame(rows).to_markdown(index=False))


def _table(paper: str, name: str, scale: Scale) -> str:
    """A table as it is written by its rule, or what there are records for."""
    runs = RunSet(paper, scale)
    try:
        return markdown(runs, name, frame(runs, name, partial=True))
    except MissingRunsError as error:
        return f"*{runs.plan.artefact(name).title}: {error}.*"


def _api(name: str) -> str:
    """Signature and docstring of a name that ``import fedrepro`` offers."""
    thing = getattr(fedrepro, name, None)
    if thing is None:
        raise ValueError(f"fedrepro has no '{name}' {nearest(name, fedrepro.__all__)}")
    if inspect.isclass(thing):
        public = [key for key in vars(thing) if not key.startswith("_")]
        members = {key: inspect.getattr_static(thing, key) for key in public}
        listed = [
            f"- `{key}`: {str(inspect.getdoc(member)).splitlines()[0]}"
            for key, member in members.items()
            if inspect.getdoc(member) and not isinstance(member, str | tuple)
        ]
        return "\n".join([f"```text\n{inspect.getdoc(thing)}\n```", "", *listed])
    signature = re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(inspect.signature(thing)))
    if len(signature) > _SIGNATURE_WIDTH:
        inside, _, returned = signature[1:].rpartition(")")
        parameters = re.split(r", (?=\*|\w+: |\*\*)", inside)
        signature = "\n".join(["(", *(f"    {item}," for item in parameters), f"){returned}"])
    return f"```text\n{name}{signature}\n\n{inspect.getdoc(thing)}\n```"


_SIGNATURE_WIDTH = 80

BLOCKS: dict[str, Callable[..., str]] = {
    "api": _api,
    "scoreboard": _scoreboard,
    "effort": _effort,
    "score": _score,
    "baselines": _baselines,
    "no_targets": _no_targets,
    "changes": _changes,
    "examples": _examples,
    "cost": _cost_table,
    "runs": _runs,
    "verdicts": _verdicts,
    "claims": _claims,
    "table": _table,
}
