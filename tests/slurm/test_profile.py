"""``profiles/slurm`` on a real SLURM: jobs are submitted, meet their time limit, and go on."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import psutil
import pytest
import yaml
from clones import REPOSITORY, Clone, copy_repository
from cluster import PATIENCE, Cluster

pytestmark = pytest.mark.slow

PROFILE = yaml.safe_load((REPOSITORY / "profiles/slurm/profile.yaml").read_text())
FIGURE = "results/smoke/figures/fedcd/fig2.csv"
"""Made of two runs: FedCD's and that of FedAvg, which is made long enough to be stopped."""
ROUNDS = 40
SETTINGS = ("--config", "scale=smoke", "papers=fedcd", "runs_per_batch=1")
HASTE = ("--slurm-init-seconds-before-status-checks", "1", "--latency-wait", "5")
"""A cluster would not like to be asked that often."""


@contextlib.contextmanager
def submitting(clone: Clone, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run Snakemake with the profile, beside the test; what it says is in ``said.txt``."""
    command = ("--workflow-profile", "slurm", *HASTE, *arguments)
    with (clone.root / "said.txt").open("w") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "snakemake", *command],
            cwd=clone.root,
            env=clone.environment,
            stdout=said,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


def said(clone: Clone) -> str:
    return (clone.root / "said.txt").read_text()


@dataclass
class Trained:
    """What came of a figure of two runs, after the longer one's first job met its time limit.

    Attributes:
        cluster: with all jobs.
        clone: with the figure.
        short: id of the run that was left alone.
        long: id of the run that was stopped.
        left: rounds that its checkpoint had when its first job had ended.
        plain: folder of records of both runs, trained without SLURM.
        jobs: numbers of the jobs of each run.
        text: what Snakemake said.
    """

    cluster: Cluster
    clone: Clone
    short: str
    long: str
    left: int
    plain: Path
    jobs: dict[str, list[str]]
    text: str


@pytest.fixture(scope="module")
def trained(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    clone = copy_repository(tmp_path_factory.mktemp("clone") / "clone")
    rounds = "hier_fedavg: {set: {rounds: %d}}"
    clone.edit("config/papers/fedcd.yaml", rounds % 5, rounds % ROUNDS)
    clone.edit("workflow/rules/train.smk", '" --device', '" --checkpoint-seconds 0 --device')
    short, long = run_ids(clone, "hier_fedcd", "hier_fedavg")
    checkpoint = clone.root / f".checkpoints/{long}.pt"
    with submitting(clone, *SETTINGS, "--", FIGURE) as process:
        cluster.wait(checkpoint.exists)
        training(long).suspend()  # SLURM looks for jobs past their limit every 30 seconds
        (number,) = jobs_of(long, cluster, said(clone))
        end = "scontrol", "update", f"JobId={number}", "EndTime=now"
        cluster.wait(lambda: cluster.accepts(*end))  # may be refused at first, as an invalid time
        plain = train_without_slurm(clone, short, long)  # meanwhile
        cluster.wait(lambda: cluster.job(number)["JobState"] == "TIMEOUT")
        left = Path(
            shutil.copy(checkpoint, clone.root.parent)
        )  # the next job deletes it in the end
        process.wait(PATIENCE)
    text = said(clone)
    assert process.returncode == 0, text + cluster.log
    jobs = {run: jobs_of(run, cluster, text) for run in (short, long)}
    return Trained(cluster, clone, short, long, rounds_done(clone, left), plain, jobs, text)


def run_ids(clone: Clone, *groups: str) -> list[str]:
    program = (
        "import sys\n"
        "from fedrepro.runs.plan import expand\n"
        "ids = {run.group: run.id for run in expand('fedcd', 'smoke')}\n"
        "print(*(ids[group] for group in sys.argv[1:]))\n"
    )
    return clone.run(sys.executable, "-c", program, *groups).stdout.split()


def training(run: str) -> psutil.Process:
    """Return the process that trains a run; SLURM lets it go on before it asks it to stop."""
    (process,) = (p for p in psutil.process_iter() if {"train", run} <= {*command_of(p)})
    return process


def command_of(process: psutil.Process) -> list[str]:
    with contextlib.suppress(psutil.Error):
        return process.cmdline()
    return []


def train_without_slurm(clone: Clone, *runs: str) -> Path:
    folder = clone.root.parent / "plain"
    folder.mkdir()
    done = clone.fedrepro("train", *runs, "--scale", "smoke", "--workers", "1", folder=folder)
    assert done.returncode == 0, done.stderr
    return folder / "results/own/runs"


def jobs_of(run: str, cluster: Cluster, text: str) -> list[str]:
    """Return the numbers of a run's jobs, whose comment names the rule that Snakemake printed."""
    rule = re.search(rf"^rule (train_\w+):\n.*\n    output: .*{run}", text, re.MULTILINE)
    assert rule, text
    return [number for number, of in cluster.jobs("%i %k") if of == f"rule_{rule.group(1)}"]


def rounds_done(clone: Clone, checkpoint: Path) -> int:
    program = (
        "import pathlib, sys\n"
        "from fedrepro.fl.engine import checkpoint\n"
        "file = pathlib.Path(sys.argv[1])\n"
        "print(checkpoint.load(file, file.stem)['progress']['round'])\n"
    )
    return int(clone.run(sys.executable, "-c", program, str(checkpoint)).stdout)


def record(folder: Path, run_id: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / f"{run_id}.json").read_text())
    return content


def test_each_run_is_a_job_with_what_the_profile_asks(trained: Trained) -> None:
    assert [len(numbers) for numbers in trained.jobs.values()] == [1, 2]
    assert len(trained.cluster.jobs()) == 3, "nothing but training is submitted"
    for (number,) in trained.cluster.jobs():
        job = trained.cluster.job(number)
        assert job["NumCPUs"] == "1"
        assert job["MinMemoryNode"] == f"{PROFILE['default-resources']['mem_mb']}M"
        assert "TresPerJob" not in job, "no GPU for device=cpu"


def test_records_are_those_of_a_training_without_slurm(trained: Trained) -> None:
    for run in (trained.short, trained.long):
        ours = record(trained.clone.records, run)
        plain = record(trained.plain, run)
        for part in ("spec", "versions", "metrics", "final", "partition"):
            assert ours[part] == plain[part]
    assert len(pd.read_csv(trained.clone.root / FIGURE))


def test_a_job_that_met_its_time_limit_goes_on_in_the_next(trained: Trained) -> None:
    first, second = (trained.cluster.job(number) for number in trained.jobs[trained.long])
    assert (first["JobState"], second["JobState"]) == ("TIMEOUT", "COMPLETED")
    assert 0 < trained.left < ROUNDS
    logs = (trained.clone.root / "logs/smoke/train").glob("*.log")
    went_on = f"{ROUNDS} rounds ({trained.left} before, from its checkpoint)"
    assert went_on in "".join(file.read_text() for file in logs)
    assert not list((trained.clone.root / ".checkpoints").iterdir())


def test_gpus_and_cores_are_asked_for_up_to_the_profiles_limit(trained: Trained) -> None:
    """None is needed: the jobs wait for a partition that is down, and end with Snakemake."""
    cluster, clone = trained.cluster, trained.clone
    before, limit = len(cluster.jobs()), PROFILE["resources"]["gpu"]
    cluster.ask("scontrol", "update", "PartitionName=main", "State=DOWN")
    with submitting(clone, *SETTINGS, "device=cuda", "threads=3", "--", "all_tables") as process:
        cluster.wait(lambda: said(clone).count("has been submitted") == limit)
        waiting = [cluster.job(number) for (number,) in cluster.jobs()[before:]]
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE)
    cluster.ask("scontrol", "update", "PartitionName=main", "State=UP")
    assert process.returncode != 0
    for job in waiting:
        assert job["JobState"] == "PENDING"
        assert job["TresPerJob"] == "gres:gpu:1"
        assert job["NumCPUs"] == "3"
        assert job["TimeLimit"] == "00:30:00", "the least, which is enough for the smoke scale"
    assert cluster.jobs("%T")[before:] == [["CANCELLED"]] * limit
