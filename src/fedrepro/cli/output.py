"""What commands print: plain text, with colours where a terminal shows it."""

from __future__ import annotations

import sys

_STYLES = {
    r"\b(reproduced|recorded)\b": "green",
    r"\b(close|inconclusive|pending)\b": "yellow",
    r"\bdeviates\b": "red",
    r"\bno(t (run|reproducible|decidable|here)| target)\b": "dim",
    r"^-[- ]+$": "dim",
}


def show(text: str) -> None:
    """Print a text; on a terminal words for a state are coloured. The characters are the same."""
    if not sys.stdout.isatty():
        print(text)
        return
    from rich.console import Console
    from rich.text import Text

    coloured = Text(text)
    for pattern, style in _STYLES.items():
        coloured.highlight_regex(rf"(?m){pattern}", style)
    Console(highlight=False).print(coloured, soft_wrap=True)
