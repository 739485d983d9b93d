"""What commands print: plain text, with colours where a terminal shows it."""

from __future__ import annotations

import shutil
import sys
import textwrap

_STYLES = {
    r"\b(reproduced|recorded)\b": "green",
    r"\b(close|inconclusive|pending)\b": "yellow",
    r"\bdeviates\b": "red",
    r"\bno(t (run|reproducible|decidable|here)| target)\b": "dim",
    r"^-[- ]+$": "dim",
}


def width() -> int | None:
    """Return how many columns the terminal has that is printed to; None: it is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def show(text: str, *, wrap: bool = False) -> None:
    """Print a text; on a terminal words for a state are coloured. The characters are the same.

    Args:
        text: it.
        wrap: on a terminal, break lines that are wider between words, and indent the rest.
    """
    columns = width()
    if columns is None:
        print(text)
        return
    from rich.console import Console
    from rich.text import Text

    if wrap:
        text = "\n".join(_wrapped(line, columns) for line in text.splitlines())
    coloured = Text(text)
    for pattern, style in _STYLES.items():
        coloured.highlight_regex(rf"(?m){pattern}", style)
    Console(highlight=False).print(coloured, soft_wrap=True)


def _wrapped(line: str, columns: int) -> str:
    if len(line) <= columns:
        return line
    return textwrap.fill(
        line,
        columns,
        subsequent_indent=4 * " ",
        break_long_words=False,
        break_on_hyphens=False,
    )
