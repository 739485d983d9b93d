"""A folder with the records of the small plan, and what else the program reads."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from programs import Server

from fedrepro.runs import transfer

PLAN = Path(__file__).with_name("plan.yaml")
RECORDS = Path("results/own/runs")
CHECKPOINTS = Path(".checkpoints")
PARTS = ("run_id", "spec", "versions", "metrics", "final", "partition")
"""Of a record: what it says of its run."""
TRAIN = ("train", PLAN.name, "--workers", "1", "--checkpoint-seconds", "0")
TABLE = ("table", PLAN.name, "accuracy")


@dataclass
class Undisturbed:
    """Where the plan was trained undisturbed.

    Attributes:
        folder: the plan, its records and ``new.tar``, which holds two records and two checkpoints.
        seconds: how long the training took.
        results: run id -> what its record says of it, without where it comes from.
        checkpoints: run id -> the checkpoint of one of its rounds.
        table: what ``fedrepro table`` prints.
    """

    folder: Path
    seconds: float
    results: dict[str, Any]
    checkpoints: dict[str, bytes] = field(default_factory=dict)
    table: str = ""

    @property
    def runs(self) -> list[str]:
        return sorted(self.results)

    def copy(self, target: Path) -> Path:
        """Copy the plan and the records to a folder."""
        shutil.copytree(self.folder / RECORDS, target / RECORDS)
        shutil.copy(PLAN, target)
        return target

    def begin(self, target: Path, run: str) -> Path:
        """Copy the plan, and of one run the checkpoint instead of the record; return that."""
        self.copy(target)
        (target / RECORDS / f"{run}.json").unlink()
        (target / CHECKPOINTS).mkdir()
        file = target / CHECKPOINTS / f"{run}.pt"
        file.write_bytes(self.checkpoints[run])
        return file

    def same(self, folder: Path) -> bool:
        """Return whether a folder is as if nothing had happened."""
        return not self.unlike(folder)

    def unlike(self, folder: Path) -> list[str]:
        """Return in what a folder differs: in its results, and in files left of the training."""
        found = results(folder)
        return [
            *(f"{run} is missing" for run in self.results.keys() - found.keys()),
            *(f"{run} is new" for run in found.keys() - self.results.keys()),
            *(
                f"{run} has another {part}"
                for run in self.results.keys() & found.keys()
                for part in PARTS
                if found[run][part] != self.results[run][part]
            ),
            *(
                f"{file.relative_to(folder)} is left"
                for file in folder.rglob("*")
                if file.suffix in (".pt", ".lock", ".tmp")
            ),
        ]


def results(folder: Path) -> dict[str, Any]:
    """Return run id -> what its record says of the run, for all records in a folder."""
    found = {}
    for file in sorted((folder / RECORDS).glob("*.json")):
        content = json.loads(file.read_text())
        found[file.stem] = {part: content[part] for part in PARTS}
    return found


def make(server: Server, folder: Path) -> Undisturbed:
    """Train the plan, keeping a checkpoint of each run from somewhere on the way."""
    shutil.copy(PLAN, folder)
    started = time.monotonic()
    ended = server.run(folder, *TRAIN)
    assert ended.status == 0, ended.said
    whole = Undisturbed(folder, time.monotonic() - started, results(folder))
    shown = server.run(folder, *TABLE)
    assert shown.status == 0, shown.said
    whole.table = shown.said
    for run in whole.runs:
        whole.checkpoints[run] = _cut_off(server, folder, run)
    with contextlib.chdir(folder):
        CHECKPOINTS.mkdir(exist_ok=True)
        files = [RECORDS / f"{run}.json" for run in whole.runs[:2]]
        for run in whole.runs[2:]:
            files.append(CHECKPOINTS / f"{run}.pt")
            files[-1].write_bytes(whole.checkpoints[run])
        transfer.write(Path("new.tar"), files)
        shutil.rmtree(CHECKPOINTS)
    return whole


def _cut_off(server: Server, folder: Path, run: str) -> bytes:
    """Return the checkpoint of the fifth round of a run, of six."""
    there = folder / "cut"
    there.mkdir()
    shutil.copy(PLAN, there)
    shutil.copytree(folder / RECORDS, there / RECORDS)
    (there / RECORDS / f"{run}.json").unlink()
    ended = server.run(there, *TRAIN, saves=5)
    assert ended.status == -signal.SIGKILL, ended.said
    content = (there / CHECKPOINTS / f"{run}.pt").read_bytes()
    shutil.rmtree(there)
    return content
