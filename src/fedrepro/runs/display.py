"""Where a training shows how far it is: a log, a terminal, or a notebook."""

from __future__ import annotations

import importlib
import sys
from typing import Any, Protocol


class Display(Protocol):
    """Shows lines, and the line that says how far a training is.

    Attributes:
        every: seconds between two lines of the latter kind.
    """

    every: float

    def show(self, line: str, share: float) -> None:
        """Show how far the training is, in words and as a share in [0, 1]."""

    def say(self, text: str) -> None:
        """Show a line that stays."""

    def close(self) -> None:
        """Take away what does not stay."""


class Log:
    """Lines one after another."""

    every = 20.0

    def show(self, line: str, share: float) -> None:
        """Print it like every other line."""
        self.say(line)

    def say(self, text: str) -> None:
        """Print a line."""
        print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Do nothing: all lines stay."""


class Overwritten:
    """One line of a terminal that each next one overwrites."""

    every = 1.0

    def show(self, line: str, share: float) -> None:
        """Write over the line before."""
        print(f"\r{line}\x1b[K", end="", file=sys.stderr, flush=True)

    def say(self, text: str) -> None:
        """Print a line that stays in the place of the one that does not."""
        print(f"\r\x1b[K{text}", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Leave the terminal on an empty line."""
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


class Bar:
    """A progress bar of tqdm, which a notebook shows as a widget.

    Args:
        tqdm: the class of the bar.
    """

    every = 1.0

    def __init__(self, tqdm: Any) -> None:
        self._tqdm = tqdm
        self._bar: Any = None

    def show(self, line: str, share: float) -> None:
        """Draw the bar behind the line."""
        if self._bar is None:
            self._bar = self._tqdm(
                total=1.0,
                bar_format="{desc} {bar}",
                dynamic_ncols=True,
                file=sys.stderr,
                leave=False,
            )
        self._bar.n = share
        self._bar.set_description_str(line)

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        self._tqdm.write(text, file=sys.stderr)

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def display() -> Display:
    """Return the display for where this process writes; tqdm's where it is installed."""
    terminal = sys.stderr.isatty()
    if not (terminal or _in_notebook()):
        return Log()
    try:
        return Bar(importlib.import_module("tqdm.auto").tqdm)
    except ImportError:
        return Overwritten() if terminal else Log()


def _in_notebook() -> bool:
    python = sys.modules.get("IPython")
    shell = python.get_ipython() if python else None
    return type(shell).__name__ == "ZMQInteractiveShell"
