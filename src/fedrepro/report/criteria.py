"""What decides verdicts, kept apart from the results: a change after them cannot be silent.

``config/expected/criteria.json`` holds a digest of what decides each number and claim. Where it is
no longer that of ``config/expected/<paper>.yaml``, the tests say so, and ``fedrepro check
--release`` refuses, until the paper's ``changes`` name the entry; then it takes the digest over.
The code of the rules has no digest: tests hold every rule against made-up runs, and a verdict that
it turns differs from the released one.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from pydantic import TypeAdapter

from fedrepro.base.configfile import read_json
from fedrepro.base.errors import FedreproError
from fedrepro.base.files import write_text
from fedrepro.base.paths import root
from fedrepro.report.expected import Claim, NotReproducible, Number, Series, load_expected
from fedrepro.runs.plan_files import papers


class Criterion(NamedTuple):
    """What is kept of an entry.

    Attributes:
        digest: of what decides its verdict.
        changes: how many entries of the paper's ``changes`` name it.
    """

    digest: str
    changes: int


def file() -> Path:
    """Return the committed file."""
    return root() / "config/expected/criteria.json"


def criteria() -> dict[str, dict[str, Criterion]]:
    """Return paper -> id -> criterion, as the expected values have it.

    An entry that is gone, and that ``changes`` name, has an empty digest.
    """
    return {paper: _of(paper) for paper in papers()}


def _of(paper: str) -> dict[str, Criterion]:
    expected = load_expected(paper)
    changed = Counter(name for change in expected.changes for name in change.claims)
    entries: list[Number | Series | Claim | NotReproducible]
    entries = [*expected.numbers, *expected.series, *expected.claims, *expected.not_reproducible]
    gone = {name: Criterion("", times) for name, times in changed.items()}
    return gone | {entry.id: Criterion(_digest(entry), changed[entry.id]) for entry in entries}


_DECIDES = {
    *("artefact", "cell", "published", "tolerance", "gain", "no_gain", "value", "reading"),
    *("sparse", "series", "x", "unusable", "drawn_only", "rule", "values", "scales"),
    *("origin", "about"),
}
"""Keys of numbers, series and claims; wording, sources and explanations decide nothing."""


def _digest(entry: Number | Series | Claim | NotReproducible) -> str:
    content = entry.model_dump(mode="json", include=_DECIDES, exclude_defaults=True)
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]


_KEPT = TypeAdapter(dict[str, dict[str, tuple[str, int]]])


def kept() -> dict[str, dict[str, Criterion]]:
    """Return what the committed file has.

    Raises:
        FedreproError: it is damaged.
    """
    content = read_json(file(), _KEPT, "restore it with git")
    return {
        paper: {name: Criterion(*criterion) for name, criterion in entries.items()}
        for paper, entries in content.items()
    }


def silent_changes() -> list[str]:
    """Return the entries whose criteria changed without a word of it in ``changes``.

    New entries are no change; one that is gone is.
    """
    now, silent = criteria(), []
    for paper, entries in kept().items():
        for name, (digest, changes) in entries.items():
            new = now.get(paper, {}).get(name, Criterion("", 0))
            if new.digest != digest and new.changes <= changes:
                silent.append(f"{paper} {name}")
    return silent


def take_over() -> None:
    """Write the committed file anew.

    Raises:
        FedreproError: a change is silent; names the entries and what to do.
    """
    silent = silent_changes() if file().exists() else []
    if silent:
        papers = dict.fromkeys(entry.split()[0] for entry in silent)
        files = ", ".join(f"config/expected/{paper}.yaml" for paper in papers)
        raise FedreproError(
            f"what decides {', '.join(silent)} changed after results were known: say so under "
            f"`changes` in {files}, with what it would have said before"
        )
    lines = [
        json.dumps(paper)
        + ": {\n"
        + ",\n".join(f" {json.dumps(name)}: {json.dumps([*c])}" for name, c in entries.items())
        + "\n}"
        for paper, entries in criteria().items()
    ]
    write_text(file(), "{\n" + ",\n".join(lines) + "\n}\n")
