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
from collections.abc import Callable, Iterable
from pathlib import Path

import pandas as pd

import fedrepro
from fedrepro.base.configfile import nearest
from fedrepro.base.errors import FedreproError
from fedrepro.base.files import write_text
from fedrepro.base.paths import root
from fedrepro.report.artefacts import frame, markdown
from fedrepro.report.verdicts import Check, Verdict, check
from fedrepro.runs import records
from fedrepro.runs.plan import Scale, expand, load_plan, papers, unique
from fedrepro.runs.runset import MissingRunsError, RunSet

VERDICTS: tuple[Verdict, ...] = (
    "reproduced",
    "close",
    "deviates",
    "not decidable",
    "not run",
    "not reproducible",
)

_BEGIN, _END = r"<!-- begin: (\S[^>]*?) -->", "<!-- end -->"
_MARKER = re.compile(f"{_BEGIN}|{_END}")
_BLOCK = re.compile(f"{_BEGIN}.*?{_END}", re.DOTALL)


def files() -> list[Path]:
    """Return the Markdown files that hold generated blocks."""
    pages = sorted((root() / "docs").glob("*.md")) + sorted((root() / "docs/papers").glob("*.md"))
    return [root() / "README.md", *pages]


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


def _counts(checks: Iterable[Check], kind: str) -> str:
    found = Counter(item.verdict for item in checks if item.kind == kind)
    return ", ".join(f"{found[name]} {name}" for name in VERDICTS if found[name]) or "none"


def _scoreboard() -> str:
    """One row a paper and scale: verdicts and cost."""
    rows = []
    for paper in papers():
        plan = load_plan(paper)
        scales: tuple[Scale, ...] = ("lite", "paper")
        for scale in scales:
            checks = _checks(paper, scale)
            costs = _costs(paper, scale)
            total = len(unique(expand(paper, scale)))
            rows.append(
                {
                    "paper": f"[`{paper}`](docs/papers/{paper}.md) {plan.authors.split(',')[0]} "
                    f"et al. {plan.year}",
                    "scale": scale,
                    "published numbers": _counts(checks, "number"),
                    "claims": _counts(checks, "claim"),
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
    empty = [name for name in VERDICTS if name in table and (table[name] == "").all()]
    return str(table.drop(columns=empty).to_markdown(index=False))


def _claims(paper: str, scale: Scale) -> str:
    """One row a claim: the statement, our verdict and the evidence."""
    rows = [
        {
            "claim": item.id,
            "statement": item.statement,
            "verdict": item.verdict,
            "evidence": ". ".join(text for text in (item.evidence, item.explanation) if text),
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
    "cost": _cost_table,
    "runs": _runs,
    "verdicts": _verdicts,
    "claims": _claims,
    "table": _table,
}
