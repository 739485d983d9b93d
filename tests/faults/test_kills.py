"""Kills at random moments: run again, the program ends with the record of an undisturbed run."""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path

import pytest
from processes import alive, wait_for_end
from programs import Running, Server
from trials import Trial
from undisturbed import PLAN, TRAIN, Undisturbed

from fedrepro.base.files import LEFT_SECONDS

SIGNALS = [signal.SIGKILL, signal.SIGTERM, signal.SIGINT]


def new(folder: Path) -> Path:
    shutil.copy(PLAN, folder)
    return folder


def kill(trial: Trial, running: Running, seconds: float) -> None:
    """Send a signal at some moment of so many seconds; a training that is told to end tells how."""
    number = trial.draw.choice(SIGNALS)
    everywhere = trial.draw.random() < 0.5
    moment = trial.draw.uniform(0, seconds)
    trial.done = f"{number.name} to {'all its processes' if everywhere else 'it alone'}"
    trial.notes.append(f"{trial.done} after {moment:.3f} s of {seconds:.1f}")
    time.sleep(moment)
    running.send(number, all_processes=everywhere)
    ended = running.wait()
    assert "Traceback" not in ended.said, ended.said
    in_time = {128 + number, -number}  # by the program, or by the system before it is ready
    early = "Aborted" in ended.said  # while the command line was being read
    assert early or ended.status in {0, *in_time}, ended


def pass_time(folder: Path) -> None:
    """Let what is half written be old, so that it is known that nobody writes it any more."""
    old = time.time() - 2 * LEFT_SECONDS
    for half in folder.rglob("*.tmp"):
        os.utime(half, (old, old))


@pytest.mark.trials("training, one process", 6)
def test_trainer(trial: Trial, server: Server, whole: Undisturbed, tmp_path: Path) -> None:
    folder = new(tmp_path)
    for _ in range(trial.draw.choice([1, 1, 2, 4])):
        kill(trial, server.start(folder, *TRAIN), whole.seconds)
    pass_time(folder)
    trial.recover(server.run(folder, *TRAIN), whole.unlike(folder))


@pytest.mark.trials("training, a pool of workers", 2)
def test_pool(trial: Trial, server: Server, whole: Undisturbed, tmp_path: Path) -> None:
    """Workers that are killed are replaced, and no worker outlives a trainer that is killed.

    So is the fork server, which starts them; a lane is given up where both kills hit it.
    """
    folder, command = new(tmp_path), [*TRAIN, "--workers", "2", "--backend", "pool"]
    running = server.start(folder, *command)
    if trial.draw.random() < 0.5:
        trial.done = "SIGKILL to workers or the fork server"
        for _ in range(trial.draw.choice([1, 2])):
            time.sleep(trial.draw.uniform(0, 2 * whole.seconds))
            victims = [one for one in workers_of(running) if not tracks_resources(one)]
            if victims:
                Running(server, trial.draw.choice(victims), folder).send(signal.SIGKILL)
        ended = running.wait()
        assert "Traceback" not in ended.said, ended.said
        given_up = ended.status == 1 and "ended its worker process 2 times" in ended.said
        assert ended.status == 0 or given_up, ended
    else:
        moment = trial.draw.uniform(0, 2 * whole.seconds)
        time.sleep(moment)
        workers = workers_of(running)
        running.send(signal.SIGKILL)
        running.wait()
        trial.done = "SIGKILL to the trainer"
        assert not wait_for_end(workers), "workers outlive the trainer"
    pass_time(folder)
    trial.recover(server.run(folder, *command), whole.unlike(folder))


def workers_of(running: Running) -> list[int]:
    """Return the processes of a training but for the one that was started."""
    return [one for one in alive(session=running.process) if one != running.process]


def tracks_resources(process: int) -> bool:
    """Return whether a process is Python's own that cleans up after the others, or has ended."""
    try:
        return "resource_tracker" in Path(f"/proc/{process}/cmdline").read_text()
    except FileNotFoundError:
        return True
