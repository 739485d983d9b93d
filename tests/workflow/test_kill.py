"""A process that is killed in mid-training: the run goes on and ends as if nothing had happened."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
from clones import SMOKE, Clone, copy_repository

from fedrepro.fl.engine import checkpoint
from fedrepro.runs.plan import expand

pytestmark = pytest.mark.slow
ROUNDS = 40


def longer(clone: Clone) -> None:
    """Make two smoke runs take a few seconds."""
    clone.edit(
        "config/papers/emd.yaml",
        "mnist_iid_small: {set: {partition: {per_class: 40}}}",
        f"mnist_iid_small: {{set: {{rounds: {ROUNDS}, partition: {{per_class: 20}}}}}}",
    )
    clone.edit(
        "config/papers/selective.yaml",
        "federated_kept_moments: {grid: {partition.percent: [0, 50]}}",
        "federated_kept_moments: "
        f"{{set: {{rounds: {ROUNDS}}}, grid: {{partition.percent: [0, 50]}}}}",
    )


@pytest.fixture(scope="module")
def ids(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The ids of the two longer runs."""
    clone = copy_repository(tmp_path_factory.mktemp("ids"))
    longer(clone)
    program = (
        "from fedrepro.runs.plan import expand\n"
        "for group in ('emd/mnist_iid_small', 'selective/federated_kept_moments'):\n"
        "    paper, _, group = group.partition('/')\n"
        "    print(next(r.id for r in expand(paper, 'smoke') if r.group == group))\n"
    )
    ids = clone.run(sys.executable, "-c", program).stdout.split()
    assert not {run.id for paper in ("emd", "selective") for run in expand(paper, "smoke")} & {*ids}
    return ids


@pytest.fixture(scope="module")
def batch(tmp_path_factory: pytest.TempPathFactory, ids: list[str]) -> list[str]:
    """The ids of the batch that one of the longer runs is trained in."""
    clone = copy_repository(tmp_path_factory.mktemp("batch"))
    longer(clone)
    plan = clone.plan("-p", *SMOKE, f"results/own/runs/{ids[0]}.json").text
    return re.findall(r"fedrepro.cli train ([0-9a-f ]+)", plan)[0].split()


def result(clone: Clone, run_id: str) -> dict[str, object]:
    record = json.loads((clone.records / f"{run_id}.json").read_text())
    return {part: record[part] for part in ("spec", "versions", "metrics", "final", "partition")}


def test_killed_runs_go_on_to_the_same_bits(clone: Clone, ids: list[str]) -> None:
    longer(clone)
    train = ("train", *ids, "--scale", "smoke", "--in-flight", "2", "--checkpoint-seconds", "0")
    unbroken = clone.fedrepro(*train)
    assert unbroken.returncode == 0, unbroken.stderr
    wanted = {run_id: result(clone, run_id) for run_id in ids}
    for run_id in ids:
        (clone.records / f"{run_id}.json").unlink()

    process = subprocess.Popen(
        [sys.executable, "-m", "fedrepro.cli", *train],
        cwd=clone.root,
        env=clone.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    checkpoints = [clone.root / f".checkpoints/{run_id}.pt" for run_id in ids]
    deadline = time.monotonic() + 300
    while not all(file.exists() for file in checkpoints):
        assert process.poll() is None, process.communicate()[1].decode()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert process.stderr is not None
    process.stderr.close()
    cut_off = [run_id for run_id in ids if not (clone.records / f"{run_id}.json").exists()]
    assert cut_off, "all runs had ended before the kill"
    kept = checkpoint.load(clone.root / f".checkpoints/{cut_off[0]}.pt", cut_off[0])
    assert kept["progress"]["round"] > 0

    resumed = clone.fedrepro(*train)
    assert resumed.returncode == 0, resumed.stderr
    assert {run_id: result(clone, run_id) for run_id in ids} == wanted
    assert not any(file.exists() for file in checkpoints)


@pytest.mark.parametrize("kill", [os.killpg, os.kill], ids=["with its jobs", "alone"])
def test_the_same_command_ends_what_a_killed_snakemake_began(
    clone: Clone, batch: list[str], kill: Callable[[int, int], None]
) -> None:
    """As config/README.md says; records that are there stay as they are.

    Where Snakemake is killed alone, its training job goes on, and the next one waits for it.
    """
    longer(clone)
    clone.edit("workflow/rules/train.smk", '" --device', '" --checkpoint-seconds 0 --device')
    (clone.root / "batch.smk").write_text(  # a recorded run is made by no rule, so it is no target
        f'include: "Snakefile"\n\n\nrule batch:\n    input:\n'
        f'        expand("results/own/runs/{{run}}.json", run={batch}),\n    localrule: True\n'
    )
    command = ("-s", "batch.smk", "--cores", "1", *SMOKE, "batch")
    process = subprocess.Popen(
        [sys.executable, "-m", "snakemake", *command],
        cwd=clone.root,
        env=clone.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    checkpoints = clone.root / ".checkpoints"
    deadline = time.monotonic() + 300
    while not (any(clone.records.glob("*.json")) and any(checkpoints.glob("*.pt"))):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    records = {file: file.read_bytes() for file in clone.records.glob("*.json")}
    assert len(records) < len(batch), "all runs had ended before the kill"

    assert "--unlock" in clone.fails(*command)
    assert clone.snakemake("--unlock", *SMOKE).returncode == 0
    done = clone.snakemake(*command)
    assert done.returncode == 0, done.stderr
    assert {file.stem for file in clone.records.glob("*.json")} == {*batch}
    for file, before in records.items():
        assert file.read_bytes() == before
