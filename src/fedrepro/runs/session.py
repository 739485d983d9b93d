"""Trains runs and writes their records: what ``fedrepro train`` does."""

from __future__ import annotations

import contextlib
import datetime
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError

from fedrepro.base.errors import FedreproError
from fedrepro.base.files import require_writable, sweep
from fedrepro.base.strict import first_problem
from fedrepro.fl.data import Dataset, load
from fedrepro.fl.engine import checkpoint
from fedrepro.fl.engine.active import ActiveRun, Storage
from fedrepro.fl.engine.backends import backend as make_backend
from fedrepro.fl.engine.driver import Limits, Listener, RunFailure, drive
from fedrepro.fl.engine.jobs import Backend
from fedrepro.fl.spec import RunSpec
from fedrepro.runs import provenance, records, stopping, transfer, weights
from fedrepro.runs.budget import Budget
from fedrepro.runs.locks import Claims
from fedrepro.runs.messages import Messages, failed
from fedrepro.runs.options import CHECKPOINTS, TrainOptions
from fedrepro.runs.plan import PlannedRun
from fedrepro.runs.queue import Queue
from fedrepro.runs.shared import SharedClaims
from fedrepro.runs.status import status
from fedrepro.runs.store import Store

_RECORD_BYTES = 64 << 10
"""More than the largest of our records."""


DEFAULTS = TrainOptions()


def train(
    runs: Sequence[PlannedRun],
    options: TrainOptions = DEFAULTS,
    dataset: Callable[[RunSpec], Dataset] | None = None,
) -> int:
    """Train the runs that have no record yet and write their records.

    Two processes may be given the same runs: each run is claimed by a lock, and a run that another
    process holds is left to it, or waited for. With a store of records, so may two machines: what
    is there is taken in first, and each new record added at once.

    Args:
        runs: distinct runs, in order.
        options: how.
        dataset: returns a run's data set; None loads it from the usual sources.

    Returns:
        How many runs were trained.

    Raises:
        FedreproError: some runs failed (the message lists them; the others are recorded); the time
            budget is too short to do anything; the backend does not fit the device; a record,
            checkpoint or lock cannot be written, or ``options.out`` not added to, of which what can
            be is found out before the training; the store cannot be read or written; or the device
            was lost.
    """

    def usual(spec: RunSpec) -> Dataset:
        return load(spec.dataset.name, options.data_root, content=spec.dataset.content)

    budget = math.inf if options.time_budget is None else options.time_budget
    deadline = time.monotonic() + budget
    check_out(options.out)
    if folders := {run.records for run in runs if not run.recorded}:
        for folder in [*sorted(folders), options.checkpoints]:
            require_writable(folder, _RECORD_BYTES)
    for folder in {options.checkpoints, *(run.records for run in runs)}:
        sweep(folder)
    torch.set_num_threads(1)  # results are then equal to the bit on every run
    claims = _claims(runs, options)
    training = _Training(runs, options, deadline, claims)
    with _closing(training):
        interrupted = training.run(dataset or usual)
    if problems := training.problems():
        raise FedreproError("\n".join(problems))
    if options.time_budget is not None:
        training.say_what_is_left(options.time_budget, interrupted)
    return len(training.written)


def check_out(out: Path | None) -> None:
    """Refuse, before the training, a file that ``--out`` cannot write or add to.

    Raises:
        FedreproError: it cannot be written, or it exists and was not written by ``--out``.
    """
    if out is not None:
        transfer.require_addable(out)
        require_writable(Path(os.path.realpath(out)).parent)


def write_out(
    out: Path,
    written: Sequence[Path],
    runs: Sequence[PlannedRun],
    folder: Path = CHECKPOINTS,
) -> None:
    """Write new records, and the checkpoints of runs that have one, to the file of ``--out``.

    Without any, nothing is written.

    Args:
        out: the tar file.
        written: the records.
        runs: whose checkpoints to add.
        folder: of the checkpoints.

    Raises:
        FedreproError: as :func:`fedrepro.runs.transfer.write`.
    """
    checkpoints = [checkpoint.path_of(run.id, folder) for run in runs]
    if files := [*written, *(file for file in checkpoints if file.exists())]:
        transfer.write(out, files)


@contextlib.contextmanager
def _closing(training: _Training) -> Iterator[None]:
    """Close a training, whatever ended it; what cannot be closed then is said beside that."""
    try:
        yield
    except FedreproError as error:
        try:
            training.close()
        except FedreproError as further:
            error.args = (f"{error}\n{further}",)
        raise
    except BaseException:  # an interrupt stays one
        try:
            training.close()
        except FedreproError as further:
            print(further, file=sys.stderr)
        raise
    training.close()
    stopping.check()


class _Training:
    """Hands runs to the driver and takes them back, as records or failures."""

    def __init__(
        self,
        runs: Sequence[PlannedRun],
        options: TrainOptions,
        deadline: float,
        claims: Claims,
    ) -> None:
        self.written: list[Path] = []
        self._failed: dict[str, list[PlannedRun]] = {}  # by the reason
        self._refused: list[str] = []
        self._runs = {run.id: run for run in runs}
        self._options = options
        pending = [run for run in runs if not run.recorded]
        seconds = {} if options.time_budget is None else status(runs).seconds
        self._backend = _backend(options)
        self._origin = provenance.origin(self._backend, options.device)  # before code can change
        self._started = datetime.datetime.now(datetime.UTC)
        self._messages = Messages(pending)
        self._budget = Budget(deadline, self._backend.cores, seconds, options.checkpoints)
        self._claims = claims
        self._queue = Queue(runs, options.checkpoints, self._budget, self._messages, claims)

    def run(self, dataset: Callable[[RunSpec], Dataset]) -> list[ActiveRun]:
        """Train until nothing is left; return the runs that the deadline interrupted."""
        options = self._options
        listener = Listener(self._record, self._fail, self._report)
        storage = Storage(
            options.checkpoints, options.checkpoint_seconds, options.data_root, self._origin
        )
        limits = Limits(options.in_flight, self._budget.last_answer)
        while True:
            specs = self._queue.claimed()
            interrupted = drive(specs, dataset, self._backend, listener, storage, limits)
            if interrupted or not (options.wait and self._queue.wait_for_others()):
                return interrupted

    def problems(self) -> list[str]:
        """Return what went wrong: one message for all runs that failed alike."""
        failures = [failed(runs, reason) for reason, runs in self._failed.items()]
        return [*failures, *self._refused]

    def close(self) -> None:
        """Give everything up, whatever ended the training, and write the file of ``--out``."""
        with stopping.held(), contextlib.ExitStack() as closing:  # last to first, whatever fails
            closing.callback(self._messages.close)
            closing.callback(self._queue.close)  # a store out of reach takes time
            if self._options.out is not None:
                runs, folder = list(self._runs.values()), self._options.checkpoints
                closing.callback(write_out, self._options.out, self.written, runs, folder)
            closing.callback(self._backend.close)
        self._messages.sum_up()

    def say_what_is_left(self, budget: float, interrupted: Sequence[ActiveRun]) -> None:
        """Say what the time budget left undone.

        Raises:
            FedreproError: nothing could be done in it.
        """
        left = self._queue.left()
        if not left:
            return
        progressed = any(run.progress.round > run.resumed_at for run in interrupted)
        if not (self.written or progressed):
            raise self._budget.too_short(budget, left)
        self._messages.say(self._budget.time_is_up(left, len(interrupted)))

    def _record(self, run: ActiveRun) -> None:
        """Write the record of a run that ended, unless one came from elsewhere meanwhile.

        Raises:
            RunFailure: what there is to record is not valid.
            FedreproError: the record cannot be written, or the one that came is damaged.
        """
        planned = self._runs[run.id]
        came = planned.recorded
        file = records.path_of(run.id, planned.records) if came else self._write(run)
        refused = self._claims.publish(file)
        self._queue.finish(run.id)
        if came:
            self._messages.say(f"{file}: came from elsewhere while the run was trained, and stays")
        else:
            self._messages.recorded(run)
        if refused:
            self._refused.append(refused)
            self._messages.say(refused)

    def _write(self, run: ActiveRun) -> Path:
        """Write the record of a run that ended; return its file."""
        self._see_what_is_compiled()
        content = provenance.content(run, self._started)
        if self._options.keep_weights:  # first: where there is a record, nothing is trained
            weights.write(run, self._runs[run.id].records)
        try:
            file = records.write(content, self._runs[run.id].records)
        except ValidationError as error:  # what an edited checkpoint said of its origin, say
            raise RunFailure(run.id, f"no valid record: {first_problem(error)}") from error
        except FedreproError as error:
            kept = self._keep(content)
            if kept is None:
                raise
            raise FedreproError(
                f"{error}; the record is kept as {kept}, to be moved there"
            ) from error
        self.written.append(file)
        return file

    def _keep(self, content: dict[str, Any]) -> Path | None:
        """Write a record that has no room where it belongs to another place, if there is one."""
        with contextlib.suppress(FedreproError):
            return records.write(content, self._options.checkpoints)
        with contextlib.suppress(FedreproError, FileNotFoundError):  # no such folder on the machine
            return records.write(content, Path(tempfile.gettempdir()))
        return None

    def _fail(self, run_id: str, failure: RunFailure) -> None:
        """Keep a failure; the other runs go on."""
        self._queue.finish(run_id)
        alike = self._failed.setdefault(failure.reason, [])
        alike.append(self._runs[run_id])
        reason = failure.reason if len(alike) == 1 else f"as run {alike[0].id} did"
        self._messages.failed(alike[-1], reason if self._options.say_failures else "")

    def _report(self, active: Sequence[ActiveRun]) -> None:
        """Say how far the runs are, and heed a signal that has come."""
        stopping.check()
        self._see_what_is_compiled()
        self._budget.watch(active)
        self._messages.report(active)

    def _see_what_is_compiled(self) -> None:
        """Keep the origin true: with ``auto`` the backend decides once it sees the work."""
        self._origin["compile"] = self._backend.compiles


def _claims(runs: Sequence[PlannedRun], options: TrainOptions) -> Claims:
    """Return what settles who trains a run, with the records that others have ended taken in."""
    if options.shared is None:
        return Claims(options.checkpoints)
    store = Store(options.shared)
    claims = SharedClaims(store, options.checkpoints)
    pulled = claims.fetch(run.id for run in runs)
    print(f"{len(pulled.new)} records pulled from {store.address}")
    return claims


def _backend(options: TrainOptions) -> Backend:
    return make_backend(
        options.backend,
        options.device,
        options.workers,
        compile=options.compile,
        deterministic=options.deterministic,
    )
