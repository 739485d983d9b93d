"""How many runs a GPU has in flight: more, while memory lasts and more make it faster.

A GPU that trains the lanes of one run is mostly idle; how many it takes to fill it depends on the
network, the batch and the card, so it is measured. Runs are admitted in groups: first as many as
have a lane for every stream together, then as many again as are in flight. Once all of them are
past their first round (in which graphs are captured and kernels chosen), the work a second is held
against that before the group. A group that gained less than a twentieth is the last, and its places
are not filled again when runs end; a run of another kind opens the question anew.

Groups rather than single runs: where 20 runs are in flight, one more gains a twentieth at best, so
its gain drowns in noise, and filling a card one by one takes as many times longer.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable
from dataclasses import dataclass

from fedrepro.fl.engine.places import STREAMS

LEAST_GAIN = 0.05
ROUNDS = 2
SECONDS = 2.0


@dataclass
class _Run:
    """A run in flight.

    Attributes:
        kind: runs of one kind are alike to the device.
        rounds: done so far.
        warm: whether a round has ended here.
        open: work of the round that is under way.
        since: end of the round from which it is measured; None: it is not yet.
        last: end of its last round since then.
        measured: rounds since then.
        work: of these.
    """

    kind: Hashable
    rounds: int
    warm: bool = False
    open: float = 0.0
    since: float | None = None
    last: float = 0.0
    measured: int = 0
    work: float = 0.0

    @property
    def seconds(self) -> float:
        """Time over which it is measured."""
        return 0.0 if self.since is None else self.last - self.since


class Admission:
    """Decides whether another run in flight is worth it, from the work done and the time it took.

    The speed is the sum of the speeds of the runs, each measured between two ends of its rounds.
    Otherwise, rounds under way at either end of a measurement would be counted for some runs only.
    """

    def __init__(self) -> None:
        self._runs: dict[int, _Run] = {}
        self._most = 1
        self._before: float | None = None  # speed and number of runs before the last group
        self._before_runs = 0
        self._measuring = False
        self._settled_for: frozenset[Hashable] | None = None  # kinds in flight

    def has_room(self, loads: Collection[float]) -> bool:
        """Return whether another run is to be admitted.

        Args:
            loads: share of memory, 0..1, that each run in flight takes; the next is assumed to be
                like them.
        """
        if not self._runs:
            return True
        used = sum(loads)
        return len(self._runs) < self._most and used + used / len(loads) <= 1

    def admitted(self, run: int, kind: Hashable, rounds: int, lanes: int) -> None:
        """Take note of a run.

        Args:
            run: its number.
            kind: runs of one kind are alike to the device: same network, same number of lanes.
            rounds: rounds of it that were done before.
            lanes: that it trains side by side.
        """
        self._runs[run] = _Run(kind, rounds)
        if self._before is None:
            self._most = max(self._most, math.ceil(STREAMS / max(lanes, 1)))
        if self._settled_for is not None:
            if self._kinds() == self._settled_for:
                return
            self._settled_for = self._before = None
        self._measuring = True
        for one in self._runs.values():
            one.since, one.measured, one.work = None, 0, 0.0

    def worked(self, run: int, work: float, rounds: int, now: float) -> None:
        """Take note of work that was done for a run.

        Args:
            run: its number.
            work: how much, in any unit that makes different runs comparable.
            rounds: rounds of the run that are done now.
            now: the time in seconds, by a monotonic clock.
        """
        one = self._runs[run]
        one.open += work
        if rounds == one.rounds:
            return
        one.rounds, one.warm = rounds, True
        if one.since is not None:
            one.last, one.measured, one.work = now, one.measured + 1, one.work + one.open
        elif all(other.warm for other in self._runs.values()):
            one.since = one.last = now
        one.open = 0.0
        self._judge()

    def ended(self, run: int) -> None:
        """Take note of the end of a run.

        Measurements that it was part of are dropped. If it ended before it was measured, it does
        not count against admitting more runs.
        """
        del self._runs[run]
        if self._measuring:
            self._measuring = False
            self._most = max(self._most, len(self._runs) + 2)

    def _judge(self) -> None:
        """Once all runs are measured, admit another group or settle for those before the last."""
        runs = self._runs.values()
        if not self._measuring or any(
            one.measured < ROUNDS or one.seconds < SECONDS for one in runs
        ):
            return
        self._measuring = False
        speed = sum(one.work / one.seconds for one in runs)
        if self._before is None or speed >= (1 + LEAST_GAIN) * self._before:
            self._before, self._before_runs = speed, len(runs)
            self._most = 2 * len(runs)
        else:
            self._most = self._before_runs
            self._settled_for = self._kinds()

    def _kinds(self) -> frozenset[Hashable]:
        return frozenset(one.kind for one in self._runs.values())
