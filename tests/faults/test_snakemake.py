"""Snakemake killed at random moments, with the training and the notebook that it has begun."""

from __future__ import annotations

import functools
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest
from processes import alive, wait_for_end
from programs import REPOSITORY, Server
from trials import Trial
from undisturbed import CHECKPOINTS, RECORDS, results

PAPER = "fedcd"
TARGETS = [f"results/smoke/tables/{PAPER}/models.csv", f"results/smoke/notebooks/{PAPER}.html"]


@dataclass(frozen=True)
class Workflow:
    """A folder in which Snakemake trains two runs and makes a table and a notebook.

    Attributes:
        server: whose environment its processes have.
        folder: the records of the other runs.
        seconds: how long an undisturbed call takes.
        made: what it makes, see :meth:`what_is_made`.
    """

    server: Server
    folder: Path
    seconds: float
    made: dict[str, Any]

    def command(self, folder: Path, *arguments: str) -> list[str]:
        snakefile = ["-s", str(REPOSITORY / "Snakefile"), "--directory", str(folder), "--cores=1"]
        return [sys.executable, "-m", "snakemake", *snakefile, *arguments]

    def call(self, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(folder, *arguments),
            cwd=folder,
            env=self.server.environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def what_is_made(self, folder: Path) -> dict[str, Any]:
        """Return results of runs, the table, and what the notebook's cells print and draw."""
        notebook = nbformat.read((folder / TARGETS[1]).with_suffix(".ipynb"), 4)
        outputs = [
            output.get("text") or output.get("data")
            for cell in notebook.cells
            for output in cell.get("outputs", [])
        ]
        return results(folder) | {"table": (folder / TARGETS[0]).read_text(), "cells": outputs}


CONFIG = ("--config", "scale=smoke", "--", *TARGETS)


@pytest.fixture(scope="session")
def workflow(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Workflow:
    """What an undisturbed call makes."""
    start, end = tmp_path_factory.mktemp("start"), tmp_path_factory.mktemp("end")
    train = ("train", "--pending", "--scale", "smoke", "--paper", PAPER, "--workers", "1")
    trained = server.run(start, *train)
    assert trained.status == 0, trained
    for file in sorted((start / RECORDS).glob("*.json"))[:2]:
        file.unlink()
    shutil.copytree(start, end, dirs_exist_ok=True)
    bare, began = Workflow(server, start, 0.0, {}), time.monotonic()
    done = bare.call(end, *CONFIG)
    assert done.returncode == 0, done.stderr
    return Workflow(server, start, time.monotonic() - began, bare.what_is_made(end))


@pytest.mark.slow
@pytest.mark.trials("Snakemake", 1)
def test_kill(trial: Trial, workflow: Workflow, tmp_path: Path) -> None:
    folder = shutil.copytree(workflow.folder, tmp_path / "work")
    number = trial.draw.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
    everywhere = trial.draw.random() < 0.5
    trial.done = f"{number.name} to {'all its processes' if everywhere else 'it alone'}"
    moment = trial.draw.uniform(0.1, 0.95) * workflow.seconds
    trial.notes.append(f"after {moment:.1f} s of {workflow.seconds:.1f}")
    process = subprocess.Popen(
        workflow.command(folder, *CONFIG),
        cwd=folder,
        env=workflow.server.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    time.sleep(moment)
    if process.poll() is None:
        (os.killpg if everywhere else os.kill)(process.pid, number)
    process.wait()
    # Snakemake, killed alone, leaves jobs that it cannot know of any more.
    left = wait_for_end(functools.partial(alive, session=process.pid))
    assert not left, trial.notes
    workflow.call(folder, "--unlock", "--config", "scale=smoke")
    done = workflow.call(folder, *CONFIG)
    trial.notes.append(done.stderr[-3000:])
    assert done.returncode == 0, trial.notes
    assert workflow.what_is_made(folder) == workflow.made, trial.notes
    assert not list((folder / CHECKPOINTS).glob("*.pt")), trial.notes
    trial.outcome = "recovered"


@pytest.mark.slow
@pytest.mark.trials("input of a notebook", 1)
def test_damaged_input(trial: Trial, workflow: Workflow, tmp_path: Path) -> None:
    """A notebook whose records are damaged is not made, and the error names the record."""
    folder = shutil.copytree(workflow.folder, tmp_path / "work")
    file = trial.draw.choice(sorted((folder / RECORDS).glob("*.json")))
    content = bytearray(file.read_bytes())
    digits = [place for place, byte in enumerate(content) if byte in b"123456789"]
    content[trial.draw.choice(digits)] ^= 1
    file.write_bytes(content)
    trial.done = "a digit changed in a record"
    done = workflow.call(folder, *CONFIG)
    said = done.stdout + done.stderr
    assert done.returncode != 0, said[-3000:]
    assert file.name in said, said[-3000:]
    assert not re.search(r"^Traceback", said, re.MULTILINE), said[-3000:]
    assert not (folder / TARGETS[1]).exists()
    trial.outcome = "refused"
