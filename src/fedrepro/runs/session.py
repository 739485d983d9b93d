"""Trains runs and writes their records: what ``fedrepro train`` does."""

from __future__ import annotations

import datetime
import functools
import math
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

import fedrepro
from fedrepro.base.errors import FedreproError
from fedrepro.base.paths import find_root
from fedrepro.fl.algorithms import ALGORITHMS
from fedrepro.fl.data import Dataset, load
from fedrepro.fl.engine import checkpoint
from fedrepro.fl.engine.backends import backend as make_backend
from fedrepro.fl.engine.compiling import Choice
from fedrepro.fl.engine.driver import ActiveRun, RunFailure, drive, use_one_thread
from fedrepro.fl.engine.jobs import Backend
from fedrepro.fl.spec import RunSpec, component_versions, spec_dict
from fedrepro.runs import records, transfer
from fedrepro.runs.locks import Claims
from fedrepro.runs.plan import PlannedRun
from fedrepro.runs.progress import Meter, Pace
from fedrepro.runs.status import duration, status

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
    compile: Choice = "auto",
    deterministic: bool = False,
    in_flight: int | None = None,
    data_root: Path | None = None,
    checkpoint_seconds: float = 30.0,
    time_budget: float | None = None,
    out: Path | None = None,
    wait: bool = False,
    checkpoints: Path = CHECKPOINTS,
    dataset: Callable[[RunSpec], Dataset] | None = None,
) -> int:
    """Train the runs that have no record yet and write their records.

    Two processes may be given the same runs: each run is claimed by a lock, and a run that another
    process holds is left to it, or waited for.

    Args:
        runs: distinct runs, in order.
        device: a PyTorch device name.
        backend: a key of :data:`fedrepro.fl.engine.backends.BACKENDS`.
        workers: processes of the pool; None: as many cores as there are.
        compile: whether networks are compiled on a GPU: ``auto``, ``on`` or ``off``.
        deterministic: use only kernels of a GPU that give the same bits each time.
        in_flight: how many runs are open at once; None: as many as keep the backend busy.
        data_root: folder of packed data; None takes the usual sources.
        checkpoint_seconds: least time between two checkpoints of a run.
        time_budget: seconds after which to stop, with checkpoints of the runs in flight; on a CPU
            no run is started that cannot finish a round in what is left of it, and on a GPU runs
            that can end in it come first.
        out: file for one tar of the new records and checkpoints, whatever ends the training; what
            is in the file already stays in it.
        wait: whether to wait for runs that another process trains, and to take over those that it
            gives up.
        checkpoints: folder of the checkpoints, and of the locks on runs.
        dataset: returns a run's data set; None loads it from the usual sources.

    Returns:
        How many runs were trained.

    Raises:
        FedreproError: some runs failed (the message lists them; the others are recorded), or the
            time budget is too short to do anything.
    """
    deadline = math.inf if time_budget is None else time.monotonic() + time_budget
    check_out(out)
    use_one_thread()
    made = make_backend(backend, device, workers, compile=compile, deterministic=deterministic)
    trainer = _Trainer(runs, device, made, deadline, checkpoints)
    try:
        while True:
            interrupted = drive(
                trainer.claimed(),
                dataset or (lambda spec: load(spec.dataset.name, data_root)),
                trainer.backend,
                on_done=trainer.record,
                on_failed=trainer.failed,
                on_progress=trainer.report,
                in_flight=in_flight,
                checkpoints=checkpoints,
                checkpoint_seconds=checkpoint_seconds,
                deadline=deadline - _SAVING_SECONDS,
                data_root=data_root,
                origin=trainer.origin,
            )
            if interrupted or not (wait and trainer.wait_for_others()):
                break
    finally:
        trainer.backend.close()
        trainer.claims.release_all()
        trainer.end_status_line()
        if out is not None:
            write_out(out, trainer.written, runs, checkpoints)
        trainer.say_what_was_done()
    if trainer.failures:
        raise FedreproError("\n".join(str(failure) for failure in trainer.failures))
    if time_budget is not None:
        trainer.say_what_is_left(time_budget, interrupted)
    return len(trainer.written)


def check_out(out: Path | None) -> None:
    """Refuse a file that ``--out`` cannot add to; rather now than after the training.

    Raises:
        FedreproError: it is there, and something else than ``--out`` writes.
    """
    if out is not None and out.exists():
        with tempfile.TemporaryDirectory() as folder:
            transfer.content(out, Path(folder))


def write_out(
    out: Path,
    written: Sequence[Path],
    runs: Sequence[PlannedRun],
    folder: Path = CHECKPOINTS,
) -> None:
    """Write new records, and the checkpoints there are of runs, to the file of ``--out``."""
    checkpoints = [folder / f"{run.id}.pt" for run in runs]
    transfer.write(out, [*written, *(file for file in checkpoints if file.exists())])


class _Trainer:
    """Hands runs to the driver and takes them back: claims, records, failures, messages."""

    def __init__(
        self,
        runs: Sequence[PlannedRun],
        device: str,
        backend: Backend,
        deadline: float,
        checkpoints: Path,
    ) -> None:
        self.runs = runs
        self.backend = backend
        self.origin = _origin(backend, device)  # of the code now, before it can change
        self.failures: list[RunFailure] = []
        self.written: list[Path] = []
        self.claims = Claims(checkpoints)
        self._checkpoints = checkpoints
        self._deadline = deadline
        self._folders = {run.id: run.records for run in runs}
        self._started = datetime.datetime.now(datetime.UTC)
        self._seconds = status(runs).seconds
        self._finished: set[str] = set()
        self._elsewhere: set[str] = set()
        self._status_line = sys.stderr.isatty()
        self._reported = time.monotonic()
        self._meter = Meter(self._reported)
        self._pace = Pace()
        for run in runs:
            if run.id in self._seconds:
                self._meter.expect(run)

    def claimed(self) -> Iterator[RunSpec]:
        """Yield the runs without a record that no other process is training."""
        left = [run for run in self.runs if run.id not in self._finished]
        while left:
            run = left.pop(self._next(left))
            if run.recorded:
                self._checkpoint_of(run).unlink(missing_ok=True)  # of another machine, or of a kill
            elif self._fits(run) and self._claim(run):
                yield run.spec

    def _next(self, left: Sequence[PlannedRun]) -> int:
        """Return which run comes next: the first, or the one that the pace of a GPU tells."""
        if self.backend.cores or self._deadline == math.inf:
            return 0
        return self._pace.choose(left, self._share_done, self._seconds_left())

    def _checkpoint_of(self, run: PlannedRun) -> Path:
        return self._checkpoints / f"{run.id}.pt"

    def _share_done(self, run: PlannedRun) -> float:
        """Return which share of a run's rounds its checkpoint holds."""
        rounds = ALGORITHMS[run.spec.algorithm.name].rounds(run.spec)
        return _rounds_done(run, self._checkpoint_of(run)) / rounds

    def _claim(self, run: PlannedRun) -> bool:
        """Claim a run; return whether it is to be trained here."""
        if not self.claims.take(run.id):
            if run.id not in self._elsewhere:
                self._say(f"{run.id} is being trained by another process; left to it")
            self._elsewhere.add(run.id)
            self._meter.drop(run.id)
            return False
        self._elsewhere.discard(run.id)
        if run.recorded:  # another process ended it since we looked
            self.claims.release(run.id)
            return False
        self._meter.expect(run)
        return True

    def wait_for_others(self) -> bool:
        """Wait until another process ends or gives up a run left to it; whether one did in time."""
        if self._elsewhere:
            self._say(f"waiting for {len(self._elsewhere)} runs that other processes train")
        while self._elsewhere and time.monotonic() < self._deadline:
            for run_id in sorted(self._elsewhere):
                if self.claims.take(run_id):
                    self.claims.release(run_id)
                    self._elsewhere.remove(run_id)
                    return True
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        return False

    def _seconds_left(self) -> float:
        return self._deadline - _SAVING_SECONDS - time.monotonic()

    def _fits(self, run: PlannedRun) -> bool:
        """Return whether a round of the run can be expected to end in time."""
        return self._round_seconds(run) <= self._seconds_left()

    def _round_seconds(self, run: PlannedRun) -> float:
        """Return an estimate from CPUs; 0, too little for any run, where a GPU trains."""
        if not self.backend.cores:
            return 0.0
        rounds = ALGORITHMS[run.spec.algorithm.name].rounds(run.spec)
        return self._seconds.get(run.id, 0.0) / rounds / self.backend.cores

    def record(self, run: ActiveRun) -> None:
        """Write the record of a run that ended."""
        self._see_what_is_compiled()
        file = records.write(_content(run, self._started), self._folders[run.id])
        self.claims.release(run.id)
        self.written.append(file)
        self._finished.add(run.id)
        self._meter.finish(run)
        accuracy = run.progress.final.get("accuracy", float("nan"))
        self._say(
            f"{file.name}: {run.rounds} rounds in {run.progress.seconds:.1f} s, "
            f"accuracy {accuracy:.4f} ({len(self.written)} done)"
        )

    def _see_what_is_compiled(self) -> None:
        """Keep the origin true: with ``auto`` the backend decides once it sees the work."""
        self.origin["compile"] = self.backend.compiles

    def failed(self, run_id: str, failure: RunFailure) -> None:
        """Keep a failure; the other runs go on."""
        self.claims.release(run_id)
        self._finished.add(run_id)
        self._meter.drop(run_id)
        self.failures.append(failure)
        self._say(str(failure))

    def report(self, active: Sequence[ActiveRun]) -> None:
        """Say once in a while how far the runs are: one line that a terminal overwrites."""
        self._see_what_is_compiled()
        now = time.monotonic()
        self._meter.watch(active)
        self._pace.watch(active, now)
        kind = "terminal" if self._status_line else "log"
        if now - self._reported < _SECONDS_BETWEEN_REPORTS[kind]:
            return
        self._reported = now
        line = self._meter.line(active, len(self.written), now)
        if self._status_line:
            print(f"\r{line}\x1b[K", end="", file=sys.stderr, flush=True)
        else:
            print(line, file=sys.stderr, flush=True)

    def end_status_line(self) -> None:
        """Leave the terminal on a new line."""
        if self._status_line:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def say_what_was_done(self) -> None:
        """Say how many runs were trained, and how fast."""
        if self._meter.progressed:
            speed = self._meter.speed(time.monotonic())
            self._say(f"trained {len(self.written)} runs, {speed}")

    def say_what_is_left(self, budget: float, interrupted: Sequence[ActiveRun]) -> None:
        """Say what the time budget left undone.

        Raises:
            FedreproError: nothing could be done in it.
        """
        ours = [run for run in self.runs if run.id not in self._elsewhere]
        left = [run for run in ours if not run.recorded]
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
        seconds = duration(sum(self._seconds.get(run.id, 0.0) for run in left))
        estimate = f", about {seconds} on one core" if self.backend.cores else ""
        self._say(
            f"time is up: {len(left)} runs left{estimate}; {len(interrupted)} of them have a "
            "checkpoint and will go on from it"
        )

    def _say(self, text: str) -> None:
        clear = "\r\x1b[K" if self._status_line else ""
        print(f"{clear}{text}", file=sys.stderr, flush=True)


def _rounds_done(run: PlannedRun, file: Path) -> int:
    """Return how many rounds a run's checkpoint holds; 0 where there is none to read."""
    try:
        return _rounds_saved(run.id, file, file.stat().st_mtime_ns)
    except (OSError, FedreproError, KeyError):
        return 0  # a run whose checkpoint is damaged fails by name once it is taken up


@functools.cache
def _rounds_saved(run_id: str, file: Path, _written_at: int) -> int:
    """Return how many rounds a checkpoint holds; read once, unless it is written anew."""
    saved = checkpoint.load(file, run_id) or {}
    return int(saved["progress"]["round"])


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


def _origin(backend: Backend, device: str) -> dict[str, Any]:
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
        "backend": backend.name,
        "compile": backend.compiles,
        "deterministic": backend.deterministic,
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
    here = find_root()
    if here is None or not Path(__file__).resolve().is_relative_to(here):
        return "unknown", False

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", "-C", str(here), *arguments], capture_output=True, text=True, check=True
        ).stdout.strip()

    try:
        commit = git("rev-parse", "HEAD")
        dirty = bool(git("status", "--porcelain", "--", "src", "config"))
    except (OSError, subprocess.CalledProcessError):
        return "unknown", False
    return commit, dirty
