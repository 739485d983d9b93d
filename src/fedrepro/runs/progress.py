"""How far a training is, how fast it goes, and which runs can end in the time that is left."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING

from fedrepro.fl import cost
from fedrepro.fl.spec import RunSpec
from fedrepro.runs.plan import PlannedRun
from fedrepro.runs.status import duration

if TYPE_CHECKING:
    from fedrepro.fl.engine.active import ActiveRun


class Meter:
    """Work done and to be done, in sample passes and in arithmetic, and the time it takes.

    The share that is done and the time that is left are computed from arithmetic
    (:func:`cost.flop`), as passes of large and small networks differ. What was done before this
    training counts for the share but not for the speed. The speed is that up to the last round
    that ended: what is done of the rounds now in flight is not known.

    Args:
        now: when the training began, in seconds of ``time.monotonic()``.
    """

    def __init__(self, now: float) -> None:
        self._began = self._progressed = now
        self._passes: dict[str, float] = {}
        self._flop: dict[str, float] = {}
        self._before: dict[str, float] = {}  # share of a run that was done before
        self._share: dict[str, float] = {}  # and is done now

    def expect(self, run: PlannedRun) -> None:
        """Count a run among those to be trained."""
        if run.id not in self._passes:
            self._passes[run.id] = cost.sample_passes(run.spec)
            self._flop[run.id] = self._passes[run.id] * cost.flop(run.spec)

    def drop(self, run_id: str) -> None:
        """No longer count a run: it failed, or another process trains it."""
        for parts in (self._passes, self._flop, self._before, self._share):
            parts.pop(run_id, None)

    def watch(self, active: Sequence[ActiveRun], now: float) -> None:
        """Take note of how far the runs in flight are.

        Args:
            active: the runs in flight.
            now: seconds of ``time.monotonic()``.
        """
        for run in active:
            share = run.progress.round / run.rounds
            before = self._before.setdefault(run.id, run.resumed_at / run.rounds)
            if share > self._share.get(run.id, before):
                self._progressed = now
            self._share[run.id] = share

    def line(self, active: Sequence[ActiveRun], written: int) -> str:
        """Return one line on the training as it stands.

        Args:
            active: the runs in flight.
            written: number of runs that have ended.
        """
        rounds = sum(run.progress.round for run in active)
        all_rounds = sum(run.rounds for run in active)
        count = sum(run.lanes for run in active)
        lanes = "1 lane" if count == 1 else f"{count} lanes"
        done, total = self._done(self._flop), sum(self._flop.values())
        speed = self._speed(self._flop)
        pace = (
            f"{self.speed}, {duration((total - done) / speed)} left"
            if speed > 0
            else "no round has ended yet"
        )
        return (
            f"{written} of {len(self._passes)} runs done, {len(active)} in flight: round "
            f"{rounds}/{all_rounds}, {lanes}, {100 * self.share:.1f} %, {pace}"
        )

    @property
    def share(self) -> float:
        """Share of the arithmetic that is done, in [0, 1]."""
        total = sum(self._flop.values())
        return self._done(self._flop) / total if total else 1.0

    @property
    def progressed(self) -> bool:
        """Whether anything was done since the training began."""
        return self._share != self._before

    @property
    def speed(self) -> str:
        """Sample passes a second and FLOP/s of this training, as text."""
        samples, flops = self._speed(self._passes), self._speed(self._flop)
        return f"{samples:,.0f} samples/s, {arithmetic(flops)}"

    def _done(self, work: dict[str, float]) -> float:
        return sum(work[run] * share for run, share in self._share.items())

    def _speed(self, work: dict[str, float]) -> float:
        before = sum(work[run] * share for run, share in self._before.items())
        return (self._done(work) - before) / max(self._progressed - self._began, 1e-9)


def arithmetic(flops: float) -> str:
    """Return FLOP/s for readers, in TFLOP/s, or in GFLOP/s where that is less than one."""
    return f"{flops / 1e12:.1f} TFLOP/s" if flops >= 1e12 else f"{flops / 1e9:.1f} GFLOP/s"


class Pace:
    """The speed of a lane of each kind on this device, measured while runs are in flight.

    It is the speed of one lane beside all others in flight, in sample passes a second. The first
    round of a run does not count: libraries choose their kernels in it, and graphs are captured.
    """

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, float]] = {}  # the last round of a run, and when it ended
        self._passes: dict[Hashable, float] = defaultdict(float)
        self._lane_seconds: dict[Hashable, float] = defaultdict(float)

    def watch(self, active: Sequence[ActiveRun], now: float) -> None:
        """Take note of rounds that have ended.

        Args:
            active: the runs in flight.
            now: seconds of ``time.monotonic()``.
        """
        for run in active:
            done = run.progress.round
            last = self._seen.get(run.id)
            if done == (run.resumed_at if last is None else last[0]):
                continue
            self._seen[run.id] = done, now
            if last is not None:
                kind = _kind(run.spec)
                share = (done - last[0]) / run.rounds
                self._passes[kind] += share * cost.sample_passes(run.spec)
                self._lane_seconds[kind] += (now - last[1]) * cost.lanes(run.spec)

    def seconds(self, spec: RunSpec, share: float) -> float | None:
        """Return how long a share (0..1) of a run takes; None if no like run was measured."""
        kind = _kind(spec)
        passes = self._passes.get(kind, 0.0)
        if not passes:
            return None
        speed = passes / self._lane_seconds[kind]
        return share * cost.sample_passes(spec) / (speed * cost.lanes(spec))

    def choose(
        self, runs: Sequence[PlannedRun], done: Callable[[PlannedRun], float], seconds: float
    ) -> int:
        """Choose the run to be trained next.

        That is the first that can end in the time left, as far as has been measured; if none
        can, the one that is nearest to its end.

        Args:
            runs: in order; at least one.
            done: returns the share, 0..1, of a run that is done already.
            seconds: the time that is left.

        Returns:
            Its position in ``runs``.
        """
        needed = []
        for i, run in enumerate(runs):
            time = self.seconds(run.spec, 1 - done(run))
            if time is None or time <= seconds:
                return i
            needed.append(time)
        return min(range(len(runs)), key=needed.__getitem__)


def _kind(spec: RunSpec) -> Hashable:
    return cost.kind(spec), spec.precision
