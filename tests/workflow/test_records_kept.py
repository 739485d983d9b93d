"""Snakemake starts, repeats and fails training jobs, and never removes a record that is there."""

from __future__ import annotations

from typing import Any

import pytest
from clones import SMOKE, Clone

from fedrepro.fl.spec import run_id
from fedrepro.runs.plan import batches, expand

pytestmark = pytest.mark.slow
GROUP = "mnist_sgd_large"
"""Runs of one batch, the quickest of the smoke scale."""


def test_a_record_of_another_process_is_not_made_again(clone: Clone, write_record: Any) -> None:
    """It comes after Snakemake has planned to train the run, and before it does."""
    runs = [run for run in expand("emd", "smoke") if run.group == GROUP]
    made_elsewhere = write_record(runs[0], clone.root / "elsewhere")
    before = made_elsewhere.read_bytes()
    (clone.root / "meanwhile.smk").write_text(
        'include: "Snakefile"\n\n\n'
        "onstart:\n"
        '    shell("mkdir -p results/own/runs && cp elsewhere/* results/own/runs")\n'
    )
    records = [f"results/own/runs/{run.id}.json" for run in runs]
    done = clone.snakemake("-s", "meanwhile.smk", "--cores", "1", *SMOKE, *records)
    assert done.returncode == 0, done.stderr
    assert all((clone.root / record).exists() for record in records)
    assert (clone.root / records[0]).read_bytes() == before


def test_a_job_on_another_machine_finds_its_runs_recorded(clone: Clone, write_record: Any) -> None:
    """It reads the Snakefile again, which has no rule for recorded runs where it is first read."""
    runs = [run for run in expand("emd", "smoke") if run.group == GROUP]
    batch = next(name for name, members in batches(expand("emd", "smoke"), 8) if runs[0] in members)
    before = [write_record(run, clone.records).read_bytes() for run in runs]
    done = clone.snakemake(
        *("--mode", "remote", "--target-jobs", f"train_{batch}:", "--force"),
        *("--allowed-rules", f"train_{batch}", "dataset", "--cores", "1", *SMOKE[:-1]),
    )
    assert done.returncode == 0, done.stderr
    assert [(clone.records / f"{run.id}.json").read_bytes() for run in runs] == before


def test_runs_that_end_are_kept_when_another_one_fails(clone: Clone) -> None:
    """No profile tells Snakemake to keep anything, and it tries the job twice."""
    clone.edit(
        "config/papers/emd.yaml",
        "mnist_sgd_large: {set: {partition: {per_class: 40}, batch: 200}}",
        "mnist_sgd_large: {set: {partition: {per_class: 40}, batch: 200}, "
        "grid: {optimizer.lr: [0.01, 1.0e+30]}, seeds: [0]}",
    )
    (run,) = (run for run in expand("emd", "smoke") if (run.group, run.seed) == (GROUP, 0))
    optimizers = (run.spec.optimizer.model_copy(update={"lr": lr}) for lr in (0.01, 1e30))
    good, diverges = (run_id(run.spec.model_copy(update={"optimizer": o})) for o in optimizers)
    said = clone.fails(
        *("--workflow-profile", "none", "--cores", "1", "--retries", "1"),
        *(*SMOKE, f"results/own/runs/{good}.json"),
    )
    assert "Trying to restart job" in said
    assert [file.stem for file in clone.records.glob("*")] == [good]
    (log,) = (clone.root / "logs/smoke/train").glob("*.log")
    assert diverges in log.read_text()
    assert good not in log.read_text(), "trained again at the second attempt"
