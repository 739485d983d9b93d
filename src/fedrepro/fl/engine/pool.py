"""Lanes over persistent worker processes, one compute thread each.

This is how a CPU is kept busy: a large network fills a core by itself, so lanes are trained side by
side rather than stacked, with convolution kernels stored channels last; with ``stack``, small dense
networks are stacked within each worker (:mod:`.dense`). Where a model is to predict on more than a
worker's share of a request, several workers do so on parts of it. A lane's bits depend neither on
the number of workers nor on what else is in flight, and neither do those of predictions.

The workers are started once, by a fork server that has imported PyTorch, and share the data sets. A
worker that dies (killed for want of memory, usually) is replaced, and its lanes are tried again,
half as many at a time; a lane that kills two workers by itself fails by name. An error of the
program in a task fails its lanes, with the traceback.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import multiprocessing
import os
import sys
import tempfile
import time
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from multiprocessing.util import Finalize, get_temp_dir
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from fedrepro.base.errors import FedreproError
from fedrepro.fl.data import Dataset
from fedrepro.fl.engine import dense
from fedrepro.fl.engine.data import tensors_of
from fedrepro.fl.engine.jobs import (
    Answer,
    Ask,
    LaneError,
    LaneJob,
    OpenRequests,
    PredictJob,
    check_time,
)
from fedrepro.fl.engine.lane import PREDICT_BATCH
from fedrepro.fl.engine.messages import Block, Message, Pickled
from fedrepro.fl.engine.resources import Resources
from fedrepro.fl.engine.worker import (
    DataMessage,
    RoomMessage,
    TrainTask,
    attempt,
    pack,
    set_memory_use,
    work,
)
from fedrepro.fl.losses import LOSS_TERMS, LossTerm
from fedrepro.fl.models import NETWORKS, Network
from fedrepro.fl.requests import Train

_GROUP = Path("/sys/fs/cgroup")
_LANES_A_WORKER = 2
_MOST_DEATHS = 2
_MOST_STARTS, _PAUSE = 3, 0.2  # of one process, and seconds between them
_LONGEST_WAIT = 86_400.0  # seconds; the system cannot wait for more than 24 days
_LONGEST_TMPDIR = 70  # bytes; the name of a socket has 104 at most, of which Python takes 32


@dataclass(eq=False)
class _Piece:
    """One lane of an open request, or one model and what to ask it, or a part of that.

    Attributes:
        ticket: names the request.
        number: place of the result among those of the request.
        job: what to do.
        group: pieces of equal groups may share a task.
        most: how many of them at once.
        deaths: workers that died over it.
    """

    ticket: int
    number: int
    job: LaneJob | PredictJob
    group: Hashable
    most: int
    deaths: int = 0


def _keep_names_of_sockets_short() -> None:
    """Let Python's own sockets lie in /tmp where TMPDIR is too long for them, as 3.14 does."""
    if len(os.fsencode(tempfile.gettempdir())) > _LONGEST_TMPDIR:
        usual, tempfile.tempdir = tempfile.tempdir, "/tmp"
        try:
            get_temp_dir()  # remembers its answer
        finally:
            tempfile.tempdir = usual


@contextlib.contextmanager
def _without_main() -> Iterator[None]:
    """Start processes that do not import the main program, which they have no use for.

    Else a script that trains outside of ``if __name__ == "__main__"`` would train in each of them.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


@dataclass
class _Worker:
    """A worker process.

    Attributes:
        process: it.
        pipe: to it.
        known: names of the data sets that were sent to it.
        room: for the arrays of its tasks and, once a task is done, of its results.
        needed: bytes of its largest results so far.
        pieces: what it works on.
    """

    process: ForkServerProcess
    pipe: Connection
    known: set[str] = field(default_factory=set)
    room: memoryview = field(default_factory=lambda: memoryview(b""))
    needed: int = 0
    pieces: list[_Piece] = field(default_factory=list)


def _cores() -> int:
    """Return how many cores this process may use; macOS does not say, so all of them there.

    A container may have them for a part of the time only, as by ``docker run --cpus 1.5``: these
    count as two.
    """
    cores = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    return max(1, math.ceil(min(cores, _quota())))


def _quota() -> float:
    """Return how many cores' time the control group of a container has; infinity: no limit."""
    try:
        if (_GROUP / "cpu.max").exists():
            limit, period = (_GROUP / "cpu.max").read_text().split()
        else:  # version 1
            limit, period = (
                (_GROUP / "cpu" / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period")
            )
        return int(limit) / int(period) if int(limit) > 0 else math.inf
    except (OSError, ValueError):  # there are no groups, or the limit is "max"
        return math.inf


class PoolBackend:
    """Trains and predicts in worker processes.

    Args:
        workers: how many processes; None: as many cores as this process may use. One worker is
            this process itself.
        stack: whether small dense networks are stacked within a worker.
    """

    compiles = deterministic = False

    def __init__(self, workers: int | None = None, *, stack: bool = False) -> None:
        self.name = "auto" if stack else "pool"
        self.device = torch.device("cpu")
        self.workers = self.cores = workers or _cores()
        self._stack = stack
        self._resources = Resources(self.device, channels_last=True)
        self._shared: dict[str, tuple[DataMessage, Block]] = {}
        self._stackable: dict[str, bool] = {}
        self._packed: dict[tuple[str, ...], bytes] = {}
        self._open = OpenRequests()
        self._waiting: OrderedDict[Hashable, list[_Piece]] = OrderedDict()  # by group
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["fedrepro.fl.engine.worker"])
        self._pool: list[_Worker] = []
        Finalize(self, _kill, args=(self._pool,), exitpriority=0)
        if self.workers == 1:
            set_memory_use()
        else:
            _keep_names_of_sockets_short()

    def load(self, ask: Ask) -> float:
        """Return a request's share of the lanes that keep all workers busy.

        A worker is kept busy by a full stack of lanes of one key, or by one lane and the next.
        """
        self._share(ask.dataset)
        each = dense.MOST_STACKED if self._can_stack(ask) else _LANES_A_WORKER
        return ask.lanes / (self.workers * each)

    def _share(self, dataset: Dataset) -> None:
        """Put a data set where the workers can see it."""
        if self.workers == 1:
            self._resources.add_dataset(dataset)
        elif dataset.name not in self._shared:
            pickled = Pickled((dataset.name, tensors_of(dataset), dataset.classes))
            block = Block.new(pickled.size)
            content = pickled.message(block.memory)
            self._resources.add(*content.open(block.memory, copy=False))
            self._shared[dataset.name] = DataMessage(content), block

    def submit(self, ticket: int, ask: Ask) -> None:
        """Take a request and divide it into lanes, or into models and examples to predict on.

        Predictions, and lanes that are trained by themselves, are started longest first, so that
        the workers end at about the same time; a stack has lanes of all lengths.
        """
        self._share(ask.dataset)
        predictions = self._divided(ask.predict_jobs)
        self._open.add(ticket, ask, [len(parts) for parts in predictions] or None)
        jobs: list[LaneJob | PredictJob] = [*ask.jobs, *itertools.chain(*predictions)]
        try:
            self._own(ask)
        except FedreproError as error:
            for i in range(len(jobs)):
                self._open.settle(ticket, i, LaneError(str(error)), 0.0)
            return
        if self._can_stack(ask):
            most = dense.MOST_STACKED
            pieces = [_Piece(ticket, i, job, job.key, most) for i, job in enumerate(jobs)]
        else:
            pieces = [_Piece(ticket, i, job, (ticket, i), 1) for i, job in enumerate(jobs)]
            pieces.sort(key=_work, reverse=True)
        for piece in pieces:
            self._waiting.setdefault(piece.group, []).append(piece)

    def _divided(self, jobs: Sequence[PredictJob]) -> list[list[PredictJob]]:
        """Divide the examples of each model that has more than a worker's share, in batches."""
        batches = sum(math.ceil(len(job.examples) / PREDICT_BATCH) for job in jobs)
        share = PREDICT_BATCH * math.ceil(batches / self.workers)
        return [job.divided(share) for job in jobs]

    def _can_stack(self, ask: Ask) -> bool:
        """Return whether a request has lanes, and a stack of them can be trained."""
        if not (self._stack and ask.jobs):
            return False
        job = ask.jobs[0]
        if job.alike not in self._stackable:
            self._stackable[job.alike] = dense.can_stack(self._resources.network(job.spec), job)
        return self._stackable[job.alike]

    def collect(self, deadline: float = math.inf) -> list[Answer]:
        """Keep the workers busy until at least one request is answered; return all answers.

        Args:
            deadline: when to stop, in seconds of ``time.monotonic()``.

        Raises:
            OutOfTime: the deadline came first.
        """
        while self._open:
            answers = self._open.answers()
            if answers:
                return answers
            check_time(deadline)  # else workers that are never waited for would hide it
            if self.workers == 1:
                self._perform_here(deadline)
            else:
                self._let_workers_perform(deadline)
        return []

    def _perform_here(self, deadline: float) -> None:
        pieces = self._next_pieces(idle=1)
        started = time.perf_counter()
        results = attempt(self._task(pieces), self._resources, deadline)
        self._finish(pieces, results, time.perf_counter() - started)

    def _let_workers_perform(self, deadline: float) -> None:
        self._hand_out()
        busy = [worker for worker in self._pool if worker.pieces]
        if not busy:  # those that were idle had died
            return
        left = min(max(0.0, deadline - time.monotonic()), _LONGEST_WAIT)
        ready = wait([worker.pipe for worker in busy], left)
        for worker in busy:
            if worker.pipe in ready:
                self._take_back(worker)

    def give_way(self) -> bool:
        """Return False: nothing is held between requests."""
        return False

    def close(self) -> None:
        """End the workers, even in the middle of a task."""
        _kill(self._pool)

    def _hand_out(self) -> None:
        idle = [worker for worker in self._pool if not worker.pieces]
        # An idle worker sends nothing, so its pipe has something to read only if it has died;
        # is_alive() says so later, once the fork server has told.
        for worker in [worker for worker in idle if worker.pipe.poll()]:
            idle.remove(worker)
            self._bury(worker)
        missing = self.workers - len(self._pool)
        for left in range(len(idle) + missing, 0, -1):
            if not self._waiting:
                return
            if not idle:
                idle.append(self._new_worker())
            self._start(idle.pop(), self._next_pieces(left))

    def _new_worker(self) -> _Worker:
        """Start a worker; the fork server is started anew if it dies over that.

        Raises:
            FedreproError: it dies each time.
        """
        for left in range(_MOST_STARTS - 1, -1, -1):
            try:
                worker = self._start_up()
                break
            except (EOFError, ConnectionError) as error:
                if not left:
                    raise FedreproError(
                        f"no worker process can be started, as the fork server dies ({error!r}); "
                        "is there enough memory? Train with fewer --workers, or end other programs"
                    ) from error
                time.sleep(_PAUSE)  # its end is known a little later than its sockets are closed
        self._pool.append(worker)
        return worker

    def _start_up(self) -> _Worker:
        """Start a worker.

        Raises:
            EOFError, ConnectionError: the fork server has died, perhaps after it started the
                process; that one ends with its pipe, which no other may have.
        """
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=work, args=(theirs,), daemon=True)
        try:
            with _without_main():
                process.start()
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        return _Worker(process, ours)

    def _next_pieces(self, idle: int) -> list[_Piece]:
        """Take an idle worker's share of the group that waits longest."""
        group, alike = next(iter(self._waiting.items()))
        count = min(math.ceil(len(alike) / idle), *(piece.most for piece in alike))
        chosen = alike[:count]
        del alike[:count]
        if not alike:
            del self._waiting[group]
        return chosen

    def _start(self, worker: _Worker, pieces: list[_Piece]) -> None:
        ask = self._open.ask(pieces[0].ticket)
        worker.pieces = pieces
        task = Pickled((self._task(pieces), self._own(ask)))
        try:
            if ask.dataset.name not in worker.known:
                message, block = self._shared[ask.dataset.name]
                worker.pipe.send(message)
                block.send(worker.pipe)
                worker.known.add(ask.dataset.name)
            if max(task.size, worker.needed) > len(worker.room):
                block = Block.new(max(task.size, worker.needed))
                worker.pipe.send(RoomMessage())
                block.send(worker.pipe)
                worker.room = block.memory
            worker.pipe.send(task.message(worker.room))
        except ConnectionError:
            self._bury(worker)

    def _task(self, pieces: Sequence[_Piece]) -> TrainTask | PredictJob:
        first = pieces[0]
        if isinstance(first.job, PredictJob):
            return first.job
        jobs = [piece.job for piece in pieces if isinstance(piece.job, LaneJob)]
        return TrainTask(jobs, stacked=self._can_stack(self._open.ask(first.ticket)))

    def _own(self, ask: Ask) -> bytes:
        """Return what of a request the program defines itself, as of :func:`.worker.pack`.

        Raises:
            FedreproError: as there.
        """
        if self.workers == 1:
            return b""
        network, request = ask.spec.model.name, ask.request
        terms = request.objective.terms if isinstance(request, Train) else ()
        key = (network, *(name for name, _ in terms))
        if key not in self._packed:
            used: list[Network | LossTerm] = [
                LOSS_TERMS[name] for name in key[1:] if LOSS_TERMS.is_unpackaged(name)
            ]
            if NETWORKS.is_unpackaged(network):
                used.append(NETWORKS[network])
            self._packed[key] = pack(used)
        return self._packed[key]

    def _take_back(self, worker: _Worker) -> None:
        try:
            message: Message = worker.pipe.recv()
        except (EOFError, OSError):  # in the middle of an answer, too
            self._bury(worker)
            return
        results, seconds = message.open(worker.room, copy=True)
        worker.needed = max(worker.needed, message.size)
        pieces, worker.pieces = worker.pieces, []
        self._finish(pieces, results, seconds)

    def _finish(
        self, pieces: Sequence[_Piece], results: Sequence[Any] | LaneError, seconds: float
    ) -> None:
        total = sum(map(_work, pieces))
        if isinstance(results, LaneError):
            results = [results] * len(pieces)
        for piece, result in zip(pieces, results, strict=True):
            share = seconds * _work(piece) / max(1, total)
            self._open.settle(piece.ticket, piece.number, result, share)

    def _bury(self, worker: _Worker) -> None:
        """Put the pieces of a dead worker back, to be tried in smaller tasks."""
        pieces = worker.pieces
        self._pool.remove(worker)
        _kill([worker])
        for piece in pieces:
            piece.deaths += len(pieces) == 1
            piece.most = max(1, len(pieces) // 2)
        lost = [piece for piece in pieces if piece.deaths >= _MOST_DEATHS]
        for piece in reversed(pieces):
            if piece not in lost:
                self._waiting[piece.group] = [piece, *self._waiting.get(piece.group, [])]
                self._waiting.move_to_end(piece.group, last=False)
        for piece in lost:
            error = LaneError(
                f"{piece.job.name} ended its worker process {_MOST_DEATHS} times ({_end(worker)}); "
                "is there enough memory?"
            )
            self._finish([piece], error, 0.0)


def _work(piece: _Piece) -> int:
    """Return how many examples a lane trains on, or a model predicts on."""
    job = piece.job
    if isinstance(job, PredictJob):
        return len(job.examples)
    return job.epochs * len(job.lane.examples)


def _end(worker: _Worker) -> str:
    status = worker.process.exitcode or 0
    return f"signal {-status}" if status < 0 else f"exit status {status}"


def _kill(workers: list[_Worker]) -> None:
    """End workers and empty the list; at the end of the program, too, if the pool was not closed.

    They ignore the signal by which Python would end them then, and wait for.
    """
    for worker in workers:
        worker.pipe.close()
        worker.process.kill()
    for worker in workers:
        worker.process.join()
    workers.clear()
