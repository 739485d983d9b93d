"""Where a training shows how far it is: a log, a terminal, or a notebook."""

from __future__ import annotations

import importlib
import sys
from typing import Any, Protocol


class Display(Protocol):
    """Shows messages, and a line that says how far a training is.

    Attributes:
        every: seconds between two updates of that line.
    """

    every: float

    def show(self, line: str, share: float) -> None:
        """Show how far the training is, in words and as a share in [0, 1]."""

    def say(self, text: str) -> None:
        """Show a message, which stays."""

    def close(self) -> None:
        """Remove what does not stay."""


class Log:
    """Lines one after another on standard error."""

    every = 20.0

    def show(self, line: str, share: float) -> None:
        """Print it like every other line."""
        self.say(line)

    def say(self, text: str) -> None:
        """Print a line."""
        if sys.stderr is not None:  # which is so where a service has closed it
            print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Do nothing: all lines stay."""


class Overwritten:
    """One line of a terminal, which each update overwrites."""

    every = 1.0

    def show(self, line: str, share: float) -> None:
        """Overwrite the line before."""
        print(f"\r{line}\x1b[K", end="", file=sys.stderr, flush=True)

    def say(self, text: str) -> None:
        """Print a message in place of the line that is overwritten."""
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
        """Remove the bar."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def display() -> Display:
    """Return the display that suits standard error; a bar only if tqdm is installed."""
    terminal = sys.stderr is not None and sys.stderr.isatty()
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
