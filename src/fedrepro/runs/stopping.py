"""Signals that end a training end it as Ctrl-C does: with checkpoints, and with what --out asks."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Sent by Ctrl-C, by schedulers, ``timeout`` and preempted machines, and by a closed terminal."""

_received: list[signal.Signals] = []
"""Of those that :func:`interrupting` heeds."""


class Stopped(KeyboardInterrupt):
    """The process was asked to stop by a signal.

    Attributes:
        signal: which one.
    """

    def __init__(self, number: int) -> None:
        super().__init__()
        self.signal = signal.Signals(number)


def signal_of(interrupt: KeyboardInterrupt) -> signal.Signals:
    """Return the signal that an interrupt comes from."""
    return interrupt.signal if isinstance(interrupt, Stopped) else signal.SIGINT


def ignore() -> None:
    """Ignore these signals from now on, so that what is to be saved is."""
    for number in STOPPING:
        signal.signal(number, signal.SIG_IGN)


@contextlib.contextmanager
def interrupting() -> Iterator[None]:
    """Let the first of these signals raise :class:`Stopped`, and ignore those that follow.

    Schedulers send a signal to every process of a job and often more than once, while checkpoints
    are being written. A signal that the process was started to ignore, as ``nohup`` does with
    SIGHUP, stays ignored.
    """
    before = {number: signal.getsignal(number) for number in STOPPING}
    heeded = [number for number, handler in before.items() if handler != signal.SIG_IGN]

    for number in heeded:
        signal.signal(number, _stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        _received.clear()


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Let these signals interrupt nothing for now; :func:`check` raises what has come."""
    heeded = [number for number in STOPPING if signal.getsignal(number) == _stop]
    for number in heeded:
        signal.signal(number, _note)
    try:
        yield
    finally:
        for number in heeded:
            signal.signal(number, _stop)


def check() -> None:
    """Raise what a signal was to raise that has interrupted nothing.

    It was held, or Python dropped what the handler raised, as it does in a finalizer.

    Raises:
        Stopped: such a signal has come.
    """
    if _received:
        ignore()
        raise Stopped(_received[0])


def _note(number: int, _: FrameType | None) -> None:
    _received.append(signal.Signals(number))


def _stop(number: int, frame: FrameType | None) -> None:
    _note(number, frame)
    check()
