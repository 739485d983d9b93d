"""Trains runs and writes their records: what ``fedrepro train`` does."""

from __future__ import annotations

import datetime
import fcntl
import functools
import math
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch

import fedrepro
from fedrepro import cost, records, transfer
from fedrepro.algorithms import ALGORITHMS
from fedrepro.data import load
from fedrepro.engine.backends import backend as make_backend
from fedrepro.engine.driver import ActiveRun, RunFailure, drive, use_one_thread
from fedrepro.engine.jobs import Backend
from fedrepro.errors import FedreproError
from fedrepro.paths import root
from fedrepro.plan import PlannedRun
from fedrepro.spec import RunSpec, spec_dict
from fedrepro.status import duration, status
from fedrepro.versions import component_versions

CHECKPOINTS = Path(".checkpoints")
_SECONDS_BETWEEN_REPORTS = {"terminal": 1.0, "log": 20.0}
_START_UP_SECONDS = 10.0
_SAVING_SECONDS = 3.0
_SECONDS_BETWEEN_LOOKS = 2.0


def train(
    runs: Sequence[PlannedRun],
    *,
    device: str = "cpu",
    backend: str = "auto",
    workers: int | None = 1,
    in_flight: int | None = None,
    data_root: Path | None = None,
    checkpoint_seconds: float = 30.0,
    time_budget: float | None = None,
    out: Path | None = None,
    wait: bool = False,
) -> int:
    """Train the runs that have no record yet and write their records.

    Two processes may be given the same runs: each run is claimed by a lock, and a run that another
    process holds is left to it, or waited for.

    Args:
        runs: distinct runs, in order.
        device: a PyTorch device name.
        backend: a key of :data:`fedrepro.engine.backends.BACKENDS`.
        workers: processes of the pool; None: as many cores as there are.
        in_flight: how many runs are open at once; None: as many as keep the backend busy.
        data_root: folder of packed data; None takes the usual sources.
        checkpoint_seconds: least time between two checkpoints of a run.
        time_budget: seconds after which to stop, with checkpoints of the runs in flight; on a CPU
            no run is started that cannot finish a round in what is left of it.
        out: file for one tar of the new records and checkpoints, whatever ends the training; what
            is in the file already stays in it.
        wait: whether to wait for runs that another process trains, and to take over those that it
            gives up.

    Returns:
        How many runs were trained.

    Raises:
        FedreproError: some runs failed (the message lists them; the others are recorded), or the
            time budget is too short to do anything.
    """
    deadline = math.inf if time_budget is None else time.monotonic() + time_budget
    if out is not None and out.exists():
        with tempfile.TemporaryDirectory() as folder:
            transfer.content(out, Path(folder))  # rather an error now than after the training
    use_one_thread()
    trainer = _Trainer(runs, device, make_backend(backend, device, workers), deadline)
    try:
        while True:
            interrupted = drive(
                trainer.claimed(),
                lambda spec: load(spec.dataset.name, data_root),
                trainer.backend,
                on_done=trainer.record,
                on_failed=trainer.failed,
                on_progress=trainer.report,
                in_flight=in_flight,
                checkpoints=CHECKPOINTS,
                checkpoint_seconds=checkpoint_seconds,
                deadline=deadline - _SAVING_SECONDS,
                data_root=data_root,
                origin=trainer.origin,
            )
            if interrupted or not (wait and trainer.wait_for_others()):
                break
    finally:
        trainer.backend.close()
        trainer.release_all()
        trainer.end_status_line()
        if out is not None:
            checkpoints = [checkpoint_of(run.id) for run in runs]
            transfer.write(out, [*trainer.written, *(f for f in checkpoints if f.exists())])
    if trainer.failures:
        raise FedreproError("\n".join(str(failure) for failure in trainer.failures))
    if time_budget is not None:
        trainer.say_what_is_left(time_budget, interrupted)
    return len(trainer.written)


def checkpoint_of(run_id: str) -> Path:
    """Return the file of a run's checkpoint."""
    return CHECKPOINTS / f"{run_id}.pt"


class _Trainer:
    def __init__(
        self, runs: Sequence[PlannedRun], device: str, backend: Backend, deadline: float
    ) -> None:
        self.runs = runs
        self.backend = backend
        self.origin = _origin(backend.name, device)  # of the code now, before it can change
        self.failures: list[RunFailure] = []
        self.written: list[Path] = []
        self._deadline = deadline
        self._locks: dict[str, IO[str]] = {}
        self._started = datetime.datetime.now(datetime.UTC)
        self._seconds = status(runs).seconds
        self._passes: dict[str, float] = {}
        for run in runs:
            if run.id in self._seconds:
                self._count(run)
        self._resumed: dict[str, float] = {}  # share of a run that was done before
        self._finished: set[str] = set()
        self._elsewhere: set[str] = set()
        self._status_line = sys.stderr.isatty()
        self._reported = self._began = time.monotonic()

    def claimed(self) -> Iterator[RunSpec]:
        """Yield the runs without a record that no other process is training."""
        for run in self.runs:
            if run.id in self._finished:
                continue
            if records.is_recorded(run.id):
                checkpoint_of(run.id).unlink(missing_ok=True)  # of another machine, or of a kill
                continue
            if not self._fits(run):
                continue
            lock = _claim(run.id)
            if lock is None:
                if run.id not in self._elsewhere:
                    self._say(f"{run.id} is being trained by another process; left to it")
                self._elsewhere.add(run.id)
                self._passes.pop(run.id, None)
                continue
            self._locks[run.id] = lock
            self._elsewhere.discard(run.id)
            if records.is_recorded(run.id):  # another process ended it since we looked
                self._release(run.id)
            else:
                self._count(run)
                yield run.spec

    def _count(self, run: PlannedRun) -> None:
        self._passes.setdefault(run.id, cost.sample_passes(run.spec))

    def wait_for_others(self) -> bool:
        """Wait until another process ends or gives up a run left to it; whether one did in time."""
        if self._elsewhere:
            self._say(f"waiting for {len(self._elsewhere)} runs that other processes train")
        while self._elsewhere and time.monotonic() < self._deadline:
            for run_id in sorted(self._elsewhere):
                lock = _claim(run_id)
                if lock is not None:
                    self._locks[run_id] = lock
                    self._release(run_id)
                    self._elsewhere.remove(run_id)
                    return True
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        return False

    def _fits(self, run: PlannedRun) -> bool:
        """Return whether a round of the run can be expected to end in time."""
        left = self._deadline - _SAVING_SECONDS - time.monotonic()
        return self._round_seconds(run) <= left

    def _round_seconds(self, run: PlannedRun) -> float:
        """Return an estimate from CPUs; 0, too little for any run, where a GPU trains."""
        if not self.backend.cores:
            return 0.0
        rounds = ALGORITHMS[run.spec.algorithm.name].rounds(run.spec)
        return self._seconds.get(run.id, 0.0) / rounds / self.backend.cores

    def _release(self, run_id: str) -> None:
        lock = self._locks.pop(run_id)
        Path(lock.name).unlink(missing_ok=True)
        lock.close()

    def release_all(self) -> None:
        """Give up the runs still held, where an error ends the training."""
        for run_id in list(self._locks):
            self._release(run_id)

    def record(self, run: ActiveRun) -> None:
        """Write the record of a run that ended."""
        file = records.write(_content(run, self._started))
        self._release(run.id)
        self.written.append(file)
        self._finished.add(run.id)
        accuracy = run.progress.final.get("accuracy", float("nan"))
        self._say(
            f"{file.name}: {run.rounds} rounds in {run.progress.seconds:.1f} s, "
            f"accuracy {accuracy:.4f} ({len(self.written)} done)"
        )

    def failed(self, run_id: str, failure: RunFailure) -> None:
        """Keep a failure; the other runs go on."""
        self._release(run_id)
        self._finished.add(run_id)
        self.failures.append(failure)
        self._say(str(failure))

    def report(self, active: Sequence[ActiveRun]) -> None:
        """Say once in a while how far the runs are: one line that a terminal overwrites."""
        now = time.monotonic()
        for run in active:
            self._resumed.setdefault(run.id, run.resumed_at / run.rounds)
        kind = "terminal" if self._status_line else "log"
        if now - self._reported < _SECONDS_BETWEEN_REPORTS[kind]:
            return
        self._reported = now
        line = self._progress(active, now - self._began)
        if self._status_line:
            print(f"\r{line}\x1b[K", end="", file=sys.stderr, flush=True)
        else:
            print(line, file=sys.stderr, flush=True)

    def _progress(self, active: Sequence[ActiveRun], elapsed: float) -> str:
        share = dict.fromkeys(self._finished, 1.0)
        share |= {run.id: run.progress.round / run.rounds for run in active}
        done = sum(self._passes[run] * part for run, part in share.items())
        old = sum(self._passes[run] * part for run, part in self._resumed.items())
        speed = (done - old) / elapsed
        total = sum(self._passes.values())
        rounds = sum(run.progress.round for run in active)
        all_rounds = sum(run.rounds for run in active)
        left = duration((total - done) / speed) if speed > 0 else "unknown time"
        return (
            f"{len(self.written)} of {len(self._passes)} runs done, {len(active)} in flight: round "
            f"{rounds}/{all_rounds}, {sum(run.lanes for run in active)} lanes, "
            f"{speed:,.0f} samples/s, {100 * done / total:.1f} %, {left} left"
        )

    def end_status_line(self) -> None:
        """Leave the terminal on a new line."""
        if self._status_line:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def say_what_is_left(self, budget: float, interrupted: Sequence[ActiveRun]) -> None:
        """Say what the time budget left undone.

        Raises:
            FedreproError: nothing could be done in it.
        """
        ours = [run for run in self.runs if run.id not in self._elsewhere]
        left = [run for run in ours if not records.is_recorded(run.id)]
        if not left:
            return
        progressed = any(run.progress.round > run.resumed_at for run in interrupted)
        if not (self.written or progressed):
            shortest = min(left, key=self._round_seconds)
            needed = self._round_seconds(shortest) + _START_UP_SECONDS + _SAVING_SECONDS
            hint = f"; the shortest possible is about {math.ceil(needed)} s (run {shortest.id})"
            raise FedreproError(
                f"a time budget of {budget:g} s is too short to finish a round of any pending run"
                + (hint if self.backend.cores else "")
            )
        seconds = sum(self._seconds.get(run.id, 0.0) for run in left)
        self._say(
            f"time is up: {len(left)} runs left, about {duration(seconds)} on one core; "
            f"{len(interrupted)} of them have a checkpoint and will go on from it"
        )

    def _say(self, text: str) -> None:
        clear = "\r\x1b[K" if self._status_line else ""
        print(f"{clear}{text}", file=sys.stderr, flush=True)


def _claim(run_id: str) -> IO[str] | None:
    """Lock a run for this process; None where another process holds it.

    Raises:
        FedreproError: there can be no lock here.
    """
    file = CHECKPOINTS / f"{run_id}.lock"
    while True:
        try:
            CHECKPOINTS.mkdir(parents=True, exist_ok=True)
            lock = file.open("w")
        except OSError as error:
            raise FedreproError(f"{file}: cannot be written ({error})") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The process that held it deletes the file, perhaps between the two lines above: then
            # the lock is on a file that no other process will find.
            if os.path.samestat(os.fstat(lock.fileno()), file.stat()):
                return lock
        except BlockingIOError:
            lock.close()
            return None
        except FileNotFoundError:
            pass
        except OSError as error:
            lock.close()
            raise FedreproError(
                f"{file}: this file system has no locks ({error.strerror}), which keep two "
                "processes from training one run; have it mounted with them (Lustre: flock), or "
                "work in a folder of another one"
            ) from error
        lock.close()


def _content(run: ActiveRun, started: datetime.datetime) -> dict[str, Any]:
    partition, dataset = run.fed.partition, run.dataset
    plain = spec_dict(run.spec)
    *earlier, this = run.parts
    provenance = this.origin | {
        "started": started.isoformat(timespec="seconds"),
        "seconds": run.progress.seconds,
        "dataset_source": dataset.source,
        "dataset_sha256": dataset.sha256,
        "dataset_note": dataset.note,
    }
    if earlier:
        provenance["earlier"] = [
            part.origin | {"rounds": part.rounds, "seconds": part.seconds} for part in earlier
        ]
    return {
        "schema_version": records.SCHEMA,
        "run_id": run.id,
        "status": "complete",
        "spec": plain,
        "versions": component_versions(plain),
        "metrics": dict(run.progress.metrics),
        "final": run.progress.final,
        "partition": {
            "counts": partition.counts.tolist(),
            "emd": partition.emd.tolist(),
            "sha256": partition.sha256,
        },
        "provenance": provenance,
    }


def _origin(backend: str, device: str) -> dict[str, Any]:
    """Return what of a record's provenance is that of a process: code, libraries, machine."""
    commit, dirty = code_version()
    gpu = device.startswith("cuda")
    return {
        "commit": commit,
        "dirty": dirty,
        "fedrepro": fedrepro.__version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "backend": backend,
        "device": torch.cuda.get_device_name(device) if gpu else _processor(),
        "device_type": "cuda" if gpu else "cpu",
        "threads": torch.get_num_threads(),
        "host": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
    }


def _processor() -> str:
    """Return the processor's name, family and model; cloud machines leave these out of the name.

    Matrix libraries choose their code, and so their rounding, by the processor's generation.
    """
    facts: dict[str, str] = {}
    for line in _lines(Path("/proc/cpuinfo")):
        key, _, value = line.partition(":")
        facts.setdefault(key.strip(), value.strip())
    if "model name" not in facts:
        return platform.processor() or "CPU"
    numbers = [f"{key} {facts[key]}" for key in ("cpu family", "model") if key in facts]
    return ", ".join([facts["model name"], *numbers])


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text().splitlines()
    except OSError:
        return []


@functools.cache
def code_version() -> tuple[str, bool]:
    """Return the commit of the code and whether source files differ from it.

    The commit is ``unknown`` outside a git clone, and where the code is not the clone's.
    """
    if not Path(__file__).resolve().is_relative_to(root()):
        return "unknown", False

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", "-C", str(root()), *arguments], capture_output=True, text=True, check=True
        ).stdout.strip()

    try:
        commit = git("rev-parse", "HEAD")
        dirty = bool(git("status", "--porcelain", "--", "src", "config"))
    except (OSError, subprocess.CalledProcessError):
        return "unknown", False
    return commit, dirty
