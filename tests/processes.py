"""Processes of this machine by group and session, and when they have ended.

A zombie has ended: where the first process of a container adopts it, it may stay for ever.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection
from pathlib import Path

PATIENCE = 300.0  # seconds


def alive(*, group: int | None = None, session: int | None = None) -> list[int]:
    """Return the processes that have not ended; those of a group or a session if one is given."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ends meanwhile
            state, _, its_group, its_session = (
                (folder / "stat").read_text().rpartition(")")[2].split()[:4]
            )
            if (
                state not in "ZX"
                and group in (None, int(its_group))
                and session in (None, int(its_session))
            ):
                found.append(int(folder.name))
    return sorted(found)


def wait_for_end(of: Collection[int] | Callable[[], Collection[int]]) -> Collection[int]:
    """Wait until processes have ended; return those that have not after a long time.

    Args:
        of: the processes, or a function that returns those that are left.
    """
    end = time.monotonic() + PATIENCE
    left = of if callable(of) else lambda: {*of} & {*alive()}
    while (found := left()) and time.monotonic() < end:
        time.sleep(0.05)
    return found
