"""Several processes at once, one a device: their lines, their signals and their exit status."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import IO

from fedrepro.runs import stopping

_SECONDS_BETWEEN_LOOKS = 0.1


def run(commands: Mapping[str, Sequence[str]]) -> int:
    """Run commands side by side until all have ended.

    Each line that they print is passed on to the same stream, after the name of the command.
    SIGINT, SIGTERM and SIGHUP are forwarded; the commands have sessions of their own, or a terminal
    would send them SIGINT a second time.

    Args:
        commands: name -> program and arguments; at least one.

    Returns:
        The worst exit status; 128 + n for a command that signal n ended.
    """
    caught: list[int] = []
    children: list[subprocess.Popen[str]] = []
    readers: list[threading.Thread] = []

    def catch(number: int, _: FrameType | None) -> None:
        caught.append(number)

    numbers = stopping.STOPPING
    handlers = {
        number: signal.signal(number, catch)
        for number in numbers
        if signal.getsignal(number) != signal.SIG_IGN
    }
    try:
        for name, command in commands.items():
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                start_new_session=True,
            )
            children.append(child)
            for lines, to in ((child.stdout, sys.stdout), (child.stderr, sys.stderr)):
                reader = threading.Thread(target=_pass_on, args=(name, lines, to))
                reader.start()
                readers.append(reader)
        while any(child.poll() is None for child in children):
            while caught:
                number = caught.pop(0)
                for child in children:
                    child.send_signal(number)
            time.sleep(_SECONDS_BETWEEN_LOOKS)
    finally:
        for child in children:
            if child.poll() is None:  # an error here; they save what they have
                child.terminate()
        statuses = [child.wait() for child in children]
        for reader in readers:
            reader.join()
        for number, handler in handlers.items():
            signal.signal(number, handler)
    return max(128 - status if status < 0 else status for status in statuses)


def _pass_on(name: str, lines: IO[str], to: IO[str]) -> None:
    """Print the lines of a command as long as there are any, even if nobody reads them."""
    with lines:
        for line in lines:
            with contextlib.suppress(OSError, ValueError):
                to.write(f"{name}: {line.rstrip()}\n")
                to.flush()
