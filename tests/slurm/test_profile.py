"""``profiles/slurm`` on a real SLURM: jobs are submitted, meet their time limit, and go on."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from clones import REPOSITORY, Clone, copy_repository
from cluster import Cluster

pytestmark = pytest.mark.slow

TABLE = "results/smoke/tables/tricks/best_combination.csv"
"""Made of two runs: one job each."""
ROUNDS = 40
SETTINGS = ("papers=tricks", "runs_per_batch=1")
HASTE = ("--slurm-init-seconds-before-status-checks", "1", "--latency-wait", "5")
"""A cluster would not like to be asked that often."""
PATIENCE = 240  # seconds, on a machine that has much else to do


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
    """What came of a table of two runs whose first job met its time limit.

    Attributes:
        cluster: with all jobs.
        clone: with the table.
        runs: ids of the two runs.
        stopped: which of them was stopped.
        left: rounds that its checkpoint had when its job had ended.
        jobs: run id -> numbers of its jobs.
        text: what Snakemake said.
    """

    cluster: Cluster
    clone: Clone
    runs: list[str]
    stopped: str
    left: int
    jobs: dict[str, list[str]]
    text: str


@pytest.fixture(scope="module")
def trained(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    clone = copy_repository(tmp_path_factory.mktemp("clone") / "clone")
    last = "      choice_augment_best: {seeds: [0]}\n\ntables:"
    clone.edit(
        "config/papers/tricks.yaml", last, f"      best: {{set: {{rounds: {ROUNDS}}}}}\n{last}"
    )
    clone.edit("workflow/rules/train.smk", '" --device', '" --checkpoint-seconds 0 --device')
    arguments = ("--config", "scale=smoke", *SETTINGS, "--", TABLE)
    runs = clone.plan(*arguments).trained
    checkpoints = {clone.root / f".checkpoints/{run}.pt": run for run in runs}
    with submitting(clone, *arguments) as process:
        cluster.wait(lambda: any(file.exists() for file in checkpoints), PATIENCE)
        file, stopped = next((f, run) for f, run in checkpoints.items() if f.exists())
        (number,) = job_numbers(cluster, said(clone), runs)[stopped]
        # SLURM counts in minutes. So the end is moved, and the job meets it now.
        cluster.ask("scontrol", "update", f"JobId={number}", "EndTime=now")
        cluster.wait(lambda: cluster.job(number)["JobState"] == "TIMEOUT", PATIENCE)
        left = rounds_done(clone, file)
        process.wait(PATIENCE)
    text = said(clone)
    assert process.returncode == 0, text + cluster.log
    return Trained(cluster, clone, runs, stopped, left, job_numbers(cluster, text, runs), text)


def job_numbers(cluster: Cluster, text: str, runs: list[str]) -> dict[str, list[str]]:
    """Return run id -> numbers of its jobs; a job's comment names its rule, a plan its outputs."""
    numbers = cluster.jobs("%i %k")
    rules = {
        run: re.search(
            rf"^rule (train_\w+):\n(?:    .*\n)*?    output: .*{run}", text, re.MULTILINE
        )
        for run in runs
    }
    return {
        run: [number for number, comment in numbers if rule and comment == f"rule_{rule.group(1)}"]
        for run, rule in rules.items()
    }


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
    assert sorted(len(numbers) for numbers in trained.jobs.values()) == [1, 2]
    profile = yaml.safe_load((REPOSITORY / "profiles/slurm/profile.yaml").read_text())
    for (number,) in trained.cluster.jobs():
        job = trained.cluster.job(number)
        assert (job["NumCPUs"], job["Partition"]) == ("1", "main")
        assert job["MinMemoryNode"] == f"{profile['default-resources']['mem_mb']}M"
        assert "TresPerJob" not in job, "no GPU for device=cpu"


def test_records_are_those_of_a_training_without_slurm(trained: Trained, tmp_path: Path) -> None:
    done = trained.clone.fedrepro("train", *trained.runs, "--scale", "smoke", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    for run in trained.runs:
        ours = record(trained.clone.records, run)
        plain = record(tmp_path / "results/own/runs", run)
        for part in ("spec", "versions", "metrics", "final", "partition"):
            assert ours[part] == plain[part]
    assert len(pd.read_csv(trained.clone.root / TABLE))


def test_a_job_that_met_its_time_limit_goes_on_in_the_next(trained: Trained) -> None:
    first, second = (trained.cluster.job(number) for number in trained.jobs[trained.stopped])
    assert (first["JobState"], second["JobState"]) == ("TIMEOUT", "COMPLETED")
    assert "stopped by SIGTERM; run again to go on from the checkpoints" in trained.text
    assert 0 < trained.left < ROUNDS
    assert f"{ROUNDS} rounds ({trained.left} before, from its checkpoint)" in log(trained)
    assert not list((trained.clone.root / ".checkpoints").iterdir())


def log(trained: Trained) -> str:
    """Return what the two jobs' trainings have said, the last one of each."""
    files = (trained.clone.root / "logs/smoke/train").glob("*.log")
    return "".join(file.read_text() for file in files)


def test_gpus_are_asked_for_and_no_more_jobs_than_the_profile_lets(
    trained: Trained,
) -> None:
    """No GPU is needed: the jobs wait, and end with Snakemake."""
    cluster, clone = trained.cluster, trained.clone
    before = len(cluster.jobs())
    cluster.ask("scontrol", "update", "PartitionName=main", "State=DOWN")
    arguments = ("--config", "scale=smoke", *SETTINGS, "device=cuda", "--", "all_tables")
    with submitting(clone, *arguments) as process:
        cluster.wait(lambda: len(cluster.jobs()) == before + 4, PATIENCE)
        waiting = [cluster.job(number) for (number,) in cluster.jobs()[before:]]
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE)
    assert process.returncode != 0
    for job in waiting:
        assert job["JobState"] == "PENDING"
        assert job["TresPerJob"] == "gres:gpu:1"
        assert job["TimeLimit"] == "04:00:00"
    assert {state for (state,) in cluster.jobs("%T")[before:]} == {"CANCELLED"}
