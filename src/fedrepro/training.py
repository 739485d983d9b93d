"""Trains runs and writes their records: what ``fedrepro train`` does."""

from __future__ import annotations

import datetime
import fcntl
import functools
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch

import fedrepro
from fedrepro import records
from fedrepro.data import Dataset, load
from fedrepro.engine.driver import BACKENDS, ActiveRun, Backend, RunFailure, drive, use_one_thread
from fedrepro.errors import FedreproError
from fedrepro.paths import root
from fedrepro.plan import PlannedRun
from fedrepro.spec import RunSpec, spec_dict
from fedrepro.versions import component_versions

CHECKPOINTS = Path(".checkpoints")


def train(
    runs: Sequence[PlannedRun],
    *,
    device: str = "cpu",
    backend: str = "loop",
    in_flight: int = 1,
    data_root: Path | None = None,
    checkpoint_seconds: float = 30.0,
) -> int:
    """Train the runs that have no record yet and write their records.

    Two processes may be given the same runs: each run is claimed by a lock, and a run that another
    process holds is left to it.

    Args:
        runs: distinct runs, in order.
        device: a PyTorch device name.
        backend: a key of :data:`fedrepro.engine.driver.BACKENDS`.
        in_flight: how many runs are open at once.
        data_root: folder of packed data; None takes the usual sources.
        checkpoint_seconds: least time between two checkpoints of a run.

    Returns:
        How many runs were trained.

    Raises:
        FedreproError: some runs failed; the message lists them. The others are recorded.
    """
    use_one_thread()
    trainer = _Trainer(runs, device, BACKENDS[backend](device))
    try:
        drive(
            trainer.claimed(),
            lambda spec: load(spec.dataset.name, data_root),
            trainer.backend,
            on_done=trainer.record,
            on_failed=trainer.failed,
            on_progress=trainer.report,
            in_flight=in_flight,
            checkpoints=CHECKPOINTS,
            checkpoint_seconds=checkpoint_seconds,
        )
    finally:
        trainer.release_all()
    if trainer.failures:
        raise FedreproError("\n".join(str(failure) for failure in trainer.failures))
    return trainer.trained


class _Trainer:
    def __init__(self, runs: Sequence[PlannedRun], device: str, backend: Backend) -> None:
        code_version()  # of the code that was loaded, before anything can change it
        self.runs = runs
        self.device = device
        self.backend = backend
        self.failures: list[RunFailure] = []
        self.trained = 0
        self._locks: dict[str, IO[str]] = {}
        self._started = datetime.datetime.now(datetime.UTC)
        self._last_report = self._started

    def claimed(self) -> Iterator[RunSpec]:
        """Yield the runs without a record that no other process is training."""
        for run in self.runs:
            if records.is_recorded(run.id):
                continue
            lock = _claim(run.id)
            if lock is None:
                _say(f"{run.id} is being trained by another process; left to it")
                continue
            self._locks[run.id] = lock
            if records.is_recorded(run.id):  # another process ended it since we looked
                self._release(run.id)
            else:
                yield run.spec

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
        file = records.write(_content(run, self.backend.name, self.device, self._started))
        self._release(run.id)
        self.trained += 1
        accuracy = run.progress.final.get("accuracy", float("nan"))
        _say(
            f"{file.name}: {run.rounds} rounds in {run.progress.seconds:.1f} s, "
            f"accuracy {accuracy:.4f} ({self.trained} done)"
        )

    def failed(self, run_id: str, failure: RunFailure) -> None:
        """Keep a failure; the other runs go on."""
        self._release(run_id)
        self.failures.append(failure)
        _say(str(failure))

    def report(self, active: Sequence[ActiveRun]) -> None:
        """Say once in a while how far the runs in flight are."""
        now = datetime.datetime.now(datetime.UTC)
        if (now - self._last_report).total_seconds() < 20:
            return
        self._last_report = now
        _say(", ".join(f"{run.id} {run.progress.round}/{run.rounds}" for run in active))


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _claim(run_id: str) -> IO[str] | None:
    """Lock a run for this process; None where another process holds it."""
    CHECKPOINTS.mkdir(parents=True, exist_ok=True)
    lock = (CHECKPOINTS / f"{run_id}.lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        return None
    return lock


def _content(
    run: ActiveRun, backend: str, device: str, started: datetime.datetime
) -> dict[str, Any]:
    partition = run.fed.partition
    plain = spec_dict(run.spec)
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
        "provenance": _provenance(run.dataset, backend, device)
        | {"seconds": run.progress.seconds, "started": started.isoformat(timespec="seconds")},
    }


def _provenance(dataset: Dataset, backend: str, device: str) -> dict[str, Any]:
    commit, dirty = code_version()
    return {
        "commit": commit,
        "dirty": dirty,
        "fedrepro": fedrepro.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "backend": backend,
        "device": torch.cuda.get_device_name() if device.startswith("cuda") else _processor(),
        "threads": torch.get_num_threads(),
        "host": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "dataset_source": dataset.source,
        "dataset_sha256": dataset.sha256,
        "dataset_note": dataset.note,
    }


def _processor() -> str:
    for line in _lines(Path("/proc/cpuinfo")):
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or "CPU"


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text().splitlines()
    except OSError:
        return []


@functools.cache
def code_version() -> tuple[str, bool]:
    """Return the commit of the code and whether source files differ from it.

    Outside a git clone the commit is ``unknown``.
    """

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
