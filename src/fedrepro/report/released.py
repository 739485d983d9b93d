"""Released verdicts, ``docs/verdicts/<scale>/<paper>.json``: what fresh ones are compared with."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from fedrepro.base.configfile import read_json
from fedrepro.base.errors import FedreproError
from fedrepro.base.paths import root
from fedrepro.report.checks import Check


def path_of(paper: str, scale: str) -> Path:
    """Return the committed file of the released verdicts."""
    return root() / f"docs/verdicts/{scale}/{paper}.json"


def text(checks: Iterable[Check]) -> str:
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
    new = json.loads(text(checks))
    lines = []
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name):
            lines.append(f"{name}: released {old.get(name)}, now {new.get(name)}")
    return lines
