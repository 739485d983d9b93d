"""Tables and counts in the documentation, generated from records between markers.

A block in a Markdown file begins with ``<!-- begin: NAME ARGUMENTS -->`` and ends with
``<!-- end -->``; ``fedrepro docs`` writes what belongs between them.
"""

from __future__ import annotations

import functools
import itertools
import re
from pathlib import Path

from fedrepro.base.configfile import nearest
from fedrepro.base.errors import FedreproError
from fedrepro.base.files import write_text
from fedrepro.base.paths import root
from fedrepro.report import record_blocks, reproducibility, verdict_blocks

BLOCKS = record_blocks.BLOCKS | verdict_blocks.BLOCKS | reproducibility.BLOCKS

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
    verdict_blocks.checks_of.cache_clear()
    changed = []
    for file in files():
        old = file.read_text(encoding="utf-8")
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
    except (FedreproError, TypeError, ValueError) as error:
        raise FedreproError(f"{file}: block '{block}': {error}") from error
    return f"<!-- begin: {block} -->\n{body.strip()}\n{_END}"
