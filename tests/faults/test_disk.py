"""Disks that are full and folders that are read-only: said by name, and nothing is lost."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from programs import Ended, Server
from trials import Trial
from undisturbed import CHECKPOINTS, PLAN, TABLE, TRAIN, Undisturbed, results

WRITES = {
    "training": ((*TRAIN, "--out", "new.tar"), False),
    "figure": (("figure", PLAN.name, "curves", "--out", "out/curves"), True),
    "table": ((*TABLE, "--out", "out/table"), True),
    "import": (("records", "import", "given.tar"), False),
}
"""Commands that write, and whether they start from the records."""


def prepared(whole: Undisturbed, folder: Path, what: str) -> Path:
    """Return a folder in which a command that writes can be run."""
    if WRITES[what][1]:
        whole.copy(folder)
    else:
        shutil.copy(PLAN, folder)
        shutil.copy(whole.folder / "new.tar", folder / "given.tar")
    return folder


@pytest.mark.trials("full disk", 3)
def test_no_file_gets_larger(
    trial: Trial, server: Server, whole: Undisturbed, tmp_path: Path
) -> None:
    """A limit on the size of files ends a write in its middle, as a full disk does."""
    what = trial.draw.choice([*WRITES, "training", "training"])
    folder, most = prepared(whole, tmp_path, what), 2 ** trial.draw.randrange(6, 18)
    trial.done = f"files cut off, {what}"
    trial.notes.append(f"files of {most} bytes at most")
    ended = server.run(folder, *WRITES[what][0], most_bytes=most)
    ends_well_with_room(trial, server, whole, folder, what, ended)


@pytest.mark.trials("full disk", 2)
def test_no_room(
    trial: Trial, server: Server, whole: Undisturbed, tmp_path: Path, small_disk: Path
) -> None:
    what = trial.draw.choice([*WRITES, "training", "training"])
    trial.done = f"no room left, {what}"
    folder = prepared(whole, small_disk, what)
    rest = trial.draw.choice([0, 4096, 1 << 16, 1 << 17, 1 << 18])
    filler = folder / "filler"
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as stream:
        while True:
            stream.write(bytes(4096))
    os.truncate(filler, max(0, filler.stat().st_size - rest))
    ended = server.run(folder, *WRITES[what][0])
    filler.unlink()
    ends_well_with_room(trial, server, whole, folder, what, ended)


@pytest.mark.trials("read-only folder", 3)
def test_read_only(trial: Trial, server: Server, whole: Undisturbed, tmp_path: Path) -> None:
    what = trial.draw.choice(list(WRITES))
    places = ["", *(["results/own/runs", ".checkpoints"] if what == "training" else [])]
    place = trial.draw.choice(places)
    trial.done = f"{place or 'the working directory'}, {what}"
    folder = prepared(whole, tmp_path, what)
    (folder / place).mkdir(parents=True, exist_ok=True)
    os.chmod(folder / place, 0o555)
    try:
        ended = server.run(folder, *WRITES[what][0], modest=True)
    finally:
        os.chmod(folder / place, 0o755)
    assert ended.refused, (trial.done, ended)
    assert "trained" not in ended.said, "found out after the training only"
    ends_well_with_room(trial, server, whole, folder, what, ended)


def ends_well_with_room(
    trial: Trial, server: Server, whole: Undisturbed, folder: Path, what: str, ended: Ended
) -> None:
    """Judge a command that was run without room by what the same command does with room."""
    assert not ended.crashed, (trial.done, trial.notes, ended)
    left = [file for file in folder.rglob("*.tmp") if CHECKPOINTS not in file.parents]
    assert not left, (trial.done, trial.notes, left, ended)
    assert results(folder).items() <= whole.results.items()
    trial.notes.append(str(ended))
    again = server.run(folder, *WRITES[what][0])
    if what == "import":
        again = server.run(folder, *TRAIN)
    trial.recover(again, whole.unlike(folder))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 1 MiB in memory, where this user may mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "campaign", str(disk)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no disk can be mounted here: {done.stderr.strip()}")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)
