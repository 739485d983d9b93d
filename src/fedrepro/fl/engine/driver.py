"""Drives one or many runs at once: continuous batching.

The driver keeps the open requests of all runs in flight with a backend, hands each run its results
as soon as they are there, and admits the next run when the backend has room for more lanes; on a
GPU, when more were also worth it so far (:mod:`fedrepro.fl.engine.admission`).
"""

from __future__ import annotations

import contextlib
import itertools
import math
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from fedrepro.base.errors import FedreproError
from fedrepro.fl import cost
from fedrepro.fl.data import Dataset
from fedrepro.fl.engine import checkpoint
from fedrepro.fl.engine import device as devices
from fedrepro.fl.engine.active import ActiveRun, Storage
from fedrepro.fl.engine.admission import Admission
from fedrepro.fl.engine.jobs import (
    AlgorithmFailed,
    Answer,
    Backend,
    LaneError,
    OutOfTime,
    is_out_of_memory,
    too_large,
    unexpected,
)
from fedrepro.fl.requests import Train
from fedrepro.fl.spec import RunSpec, run_id

MOST_IN_FLIGHT = 256


class RunFailure(FedreproError):
    """A run ended without a result.

    Args:
        run_id: which.
        reason: why; names the round and the lane where these are to blame.

    Attributes:
        run_id: as the argument.
        reason: likewise; equal for runs that fail alike.
    """

    def __init__(self, run_id: str, reason: str) -> None:
        super().__init__(run_id, reason)
        self.run_id, self.reason = run_id, reason

    def __str__(self) -> str:
        return f"run {self.run_id} failed: {self.reason}"


@dataclass(frozen=True)
class Listener:
    """What is called as runs get on.

    Attributes:
        done: called with each run that ended; its checkpoint is deleted afterwards. Where it raises
            a RunFailure, the run has failed and its checkpoint stays.
        failed: called with the id of each run that failed; the other runs go on.
        progress: called with the runs in flight whenever answers have come in.
    """

    done: Callable[[ActiveRun], None]
    failed: Callable[[str, RunFailure], None]
    progress: Callable[[Sequence[ActiveRun]], None] = lambda _: None


@dataclass(frozen=True)
class Limits:
    """How many runs, and how long.

    Attributes:
        in_flight: how many runs are open at once; None: as many as keep the backend busy, on a GPU
            as many as fit its memory, as long as more of them make it faster.
        deadline: when to have stopped, in seconds of ``time.monotonic()``: with checkpoints of the
            runs in flight, as long as they take no longer than the ones before.
    """

    in_flight: int | None = None
    deadline: float = math.inf


NO_LIMITS = Limits()


def drive(
    specs: Iterable[RunSpec],
    load: Callable[[RunSpec], Dataset],
    backend: Backend,
    listener: Listener,
    storage: Storage,
    limits: Limits = NO_LIMITS,
) -> list[ActiveRun]:
    """Train runs, several at once.

    A run in which the program itself fails ends with the traceback as its message, and so do all
    runs of a data set that cannot be loaded; the others go on. Any other error ends the training,
    after a checkpoint of each run in flight.

    Args:
        specs: the runs, in order; taken one by one, so a generator may skip some late. A run whose
            algorithm finds no memory beside the others is taken up again once there are fewer.
        load: returns a run's data set.
        backend: answers the requests; left open.
        listener: told of runs that end, fail and advance.
        storage: where checkpoints and packed data lie, and what checkpoints say of this process.
        limits: on the runs in flight, and on the time.

    Returns:
        The runs that the deadline interrupted.

    Raises:
        NotSaved: a checkpoint cannot be written.
        DeviceFailed: the device is lost; the checkpoints are those of the rounds that it has copied
            in full.
    """  # noqa: DOC501 - made by a function
    device = devices.described(backend.device)  # asked while it can tell
    opener = _Opener(specs, load, backend, storage)
    flight = _Flight(backend, listener, limits.in_flight, opener.put_back)
    try:
        while True:
            _fill(flight, opener)
            if not flight.runs:
                return []
            storage.saving.in_flight = sum(run.state_bytes for run in flight.runs.values())
            try:
                answers = backend.collect(limits.deadline - storage.saving.seconds)
            except OutOfTime:
                interrupted = list(flight.runs.values())
                for run in interrupted:
                    run.save()
                return interrupted
            for answer in answers:
                flight.take(answer)
            listener.progress(list(flight.runs.values()))
    except BaseException as error:
        active = list(flight.runs.values())
        for run in active:
            with contextlib.suppress(FedreproError):  # what ended the training is said, not this
                run.save()
        if devices.has_failed(backend.device, error):
            devices.never_free(active, error)  # frames of its traceback hold answers
            saved = sum(run.has_checkpoint for run in active)
            raise devices.failure(device, error, saved, len(active)) from error
        raise


def _fill(flight: _Flight, opener: _Opener) -> None:
    """Take up runs while there are any and the backend has room."""
    while flight.has_room() and (spec := opener.next()) is not None:
        try:
            run = opener.open(spec)
        except Exception as error:
            flight.fail(spec, error)
        else:
            flight.admit(run)


class _Opener:
    """Makes runs in flight of specs, in order."""

    def __init__(
        self,
        specs: Iterable[RunSpec],
        load: Callable[[RunSpec], Dataset],
        backend: Backend,
        storage: Storage,
    ) -> None:
        self._queue = iter(specs)
        self._load = load
        self._backend = backend
        self._storage = storage
        self._unusable: dict[tuple[str, str | None], str] = {}  # -> the run that says why
        self._contents: dict[str, str] = {}  # name of a data set -> its content hash

    def next(self) -> RunSpec | None:
        """Return the next run; None once there is none."""
        return next(self._queue, None)

    def put_back(self, spec: RunSpec) -> None:
        """Let a run be the next one."""
        self._queue = itertools.chain([spec], self._queue)

    def open(self, spec: RunSpec) -> ActiveRun:
        """Take up a run, from its checkpoint if there is one."""
        devices.check_precision(spec, self._backend.device)
        return ActiveRun(spec, self._dataset(spec), self._storage, self._backend.device)

    def _dataset(self, spec: RunSpec) -> Dataset:
        data = spec.dataset.name, spec.dataset.content
        if data in self._unusable:  # not looked for, or downloaded, once more for every run
            raise FedreproError(
                f"data set {spec.dataset.name} cannot be loaded, as run {self._unusable[data]} says"
            )
        try:
            dataset = self._load(spec)
            self._require_same(dataset)
        except FedreproError:
            self._unusable[data] = run_id(spec)
            raise
        return dataset

    def _require_same(self, dataset: Dataset) -> None:
        """Refuse other data under the name of those that the backend has, and would train on.

        Raises:
            FedreproError: they are others, since their files were replaced meanwhile, say.
        """
        before = self._contents.setdefault(dataset.name, dataset.sha256)
        if dataset.sha256 != before:
            raise FedreproError(
                f"data set {dataset.name}: its content hash is {dataset.sha256[:12]}, and other "
                f"runs of this training are on {before[:12]}; train this run in a call of its own"
            )


class _Flight:
    """The runs in flight, by the tickets of their open requests.

    Attributes:
        runs: by ticket.
    """

    def __init__(
        self,
        backend: Backend,
        listener: Listener,
        most: int | None,
        put_back: Callable[[RunSpec], None],
    ) -> None:
        self.runs: dict[int, ActiveRun] = {}
        self._backend = backend
        self._listener = listener
        self._most = most
        self._put_back = put_back
        self._short: dict[str, int] = {}  # runs that found no memory -> how many others may be open
        self._loads: dict[int, float] = {}
        self._tickets = 0
        self._admission = Admission() if backend.cores == 0 and most is None else None

    def has_room(self) -> bool:
        """Return whether another run is to be taken up."""
        if self._short and len(self.runs) > min(self._short.values()):
            return False
        if self._most is not None:
            return len(self.runs) < self._most
        if self._admission is not None and not self._admission.has_room(self._loads.values()):
            return False
        return sum(self._loads.values()) < 1 and len(self.runs) < MOST_IN_FLIGHT

    def admit(self, run: ActiveRun) -> None:
        """Let a run begin."""
        self._tickets += 1
        self.runs[self._tickets] = run
        if self._admission is not None:
            lanes = cost.lanes(run.spec)
            kind = cost.kind(run.spec), run.spec.precision, lanes
            self._admission.admitted(self._tickets, kind, run.progress.round, lanes)
        try:
            run.begin()
        except Exception as error:
            self._give_up(self._tickets, error)
        else:
            self._submit(self._tickets, run)

    def take(self, answer: Answer) -> None:
        """Hand a run the answer to its request, and its next request to the backend."""
        run, ticket = self.runs[answer.ticket], answer.ticket
        work = 0.0 if self._admission is None else run.ask.passes * cost.flop(run.spec)
        try:
            if isinstance(answer.result, LaneError):
                raise type(answer.result)(f"round {run.current_round}: {answer.result}")
            run.receive(answer.result, answer.seconds)
        except Exception as error:
            self._give_up(ticket, error)
            return
        if self._admission is not None:
            self._admission.worked(ticket, work, run.progress.round, time.monotonic())
        self._submit(ticket, run)

    def fail(self, spec: RunSpec, error: Exception, run: ActiveRun | None = None) -> None:
        """Say that a run failed, unless it is only short of memory.

        Args:
            spec: the run's.
            error: what it failed with; raised if no run is to blame for it.
            run: the run, if it is in flight; it is not to be, afterwards.
        """
        cause = error.error if isinstance(error, AlgorithmFailed) else error
        if isinstance(error, checkpoint.NotSaved) or devices.has_failed(
            self._backend.device, cause
        ):
            raise cause
        if is_out_of_memory(cause):
            if self._finds_memory_later(spec, run):
                return
            reason: Exception = too_large("it", cause)
        else:
            known = isinstance(error, FedreproError | LaneError)
            reason = error if known else unexpected(error)
        if run is not None:
            reason = run.explained(reason)
        name = run_id(spec)
        self._short.pop(name, None)
        self._listener.failed(name, RunFailure(name, str(reason)))

    def _finds_memory_later(self, spec: RunSpec, run: ActiveRun | None) -> bool:
        """Put a run back that found no memory, unless it had all that there is."""
        name, others = run_id(spec), len(self.runs) - (run is not None)
        if not (others or self._backend.give_way()):
            return False
        if run is not None:
            run.save()
        self._short[name] = max(0, others - 1)
        self._put_back(spec)
        warnings.warn(f"run {name} is taken up later: memory is short", stacklevel=2)
        return True

    def _submit(self, ticket: int, run: ActiveRun) -> None:
        if run.done:
            self._short.pop(run.id, None)
            try:
                self._listener.done(run)
            except RunFailure as failure:
                self._listener.failed(run.id, failure)
            else:
                run.forget_checkpoint()
            self._leave(ticket)
            return
        try:
            if isinstance(run.ask.request, Train):
                self._loads[ticket] = self._backend.load(run.ask)
            else:  # predictions are short: the load of the last training, before it a full one
                self._loads.setdefault(ticket, 1.0)
            self._backend.submit(ticket, run.ask)
        except FedreproError:  # of the machine, such as no room in shared memory
            raise
        except Exception as error:
            self._give_up(ticket, error)

    def _give_up(self, ticket: int, error: Exception) -> None:
        """Let a run in flight fail; raises the error if no run is to blame for it."""
        run = self.runs[ticket]
        self.fail(run.spec, error, run)
        self._leave(ticket)

    def _leave(self, ticket: int) -> None:
        self.runs.pop(ticket).close()
        self._loads.pop(ticket, None)
        if self._admission is not None:
            self._admission.ended(ticket)
