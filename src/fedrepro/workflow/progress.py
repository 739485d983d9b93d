"""One line of progress for a call of Snakemake, whose own messages go to a file.

``snakemake ... 2>&1 | python -m fedrepro.workflow.progress LOG`` says how many jobs are done and,
where runs train, what the trainer said last. From the first line of an error on, everything is
printed. ``make figures`` is such a call.
"""

from __future__ import annotations

import contextlib
import io
import re
import shutil
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import IO

_DONE = re.compile(r"(\d+) of (\d+) steps \((\d+)%\) done")
_ERROR = re.compile(
    r"(\w*Error|\w*Exception|Traceback|Exiting because|Terminating processes)\b|Error in rule"
)
_TRAINERS = "logs/*/train/*.log"
"""The trainers' logs, below the working directory."""
_EVERY = 10
"""Per cent between two lines where the output is no terminal."""


class Progress:
    """What has been said of a call of Snakemake, and what is next."""

    def __init__(self, out: IO[str], *, terminal: bool) -> None:
        """Start with nothing said.

        Args:
            out: where lines go.
            terminal: whether a line can be written over the one before.
        """
        self._out = out
        self._terminal = terminal
        self._said = -_EVERY
        self._failed = False
        self._over = 0

    def take(self, line: str) -> None:
        """Take a line of Snakemake's."""
        done = _DONE.match(line)
        if not self._failed and _ERROR.match(line):
            self._failed = True
            self._say("")
        if self._failed:
            self._out.write(line)
        elif done:
            jobs, total, percent = map(int, done.groups())
            if self._terminal or percent >= self._said + _EVERY or jobs == total:
                self._said = percent
                self._say(f"{jobs} of {total} jobs done{self._training()}")

    def end(self, log: Path) -> None:
        """Say where the rest is."""
        if self._terminal and self._over:
            self._out.write("\n")
        self._out.write(f"Snakemake's messages: {log}\n")

    def _say(self, text: str) -> None:
        if not self._terminal:
            self._out.write(f"{text}\n" if text else "")
        else:
            width = shutil.get_terminal_size().columns - 1
            self._out.write("\r" + text[:width].ljust(self._over))
            self._over = len(text[:width])
        self._out.flush()

    def _training(self) -> str:
        """Return the last line of the trainer that wrote last, if one is at work."""
        lines: list[str] = []
        with contextlib.suppress(OSError):  # Snakemake deletes the log of a job that begins
            logs = sorted(Path().glob(_TRAINERS), key=lambda file: file.stat().st_mtime)
            lines = logs[-1].read_text(errors="replace").splitlines() if logs else []
        return f"; {lines[-1]}" if lines and "in flight" in lines[-1] else ""


def follow(lines: Iterable[str], log: Path, progress: Progress) -> None:
    """Write lines to a file, and their progress to the terminal."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w", encoding="utf-8") as file:
        for line in lines:
            file.write(line)
            file.flush()
            progress.take(line)
    progress.end(log)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends Snakemake, which has more to say
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="backslashreplace")
    follow(sys.stdin, Path(sys.argv[1]), Progress(sys.stdout, terminal=sys.stdout.isatty()))
