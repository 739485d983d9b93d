"""A committed record trained again on real data gives the same numbers."""

import dataclasses
import os
from pathlib import Path

import pytest

from fedrepro.base.paths import root
from fedrepro.runs import records, session, verify
from fedrepro.runs.options import TrainOptions
from fedrepro.runs.plan import PlannedRun, expand
from fedrepro.runs.records import RunRecord

PACK = os.environ.get("FEDREPRO_DATA")
RUNS = root() / records.FOLDER


def newest(group: str) -> PlannedRun:
    """Return the run of the last seed at N = 0; its record says which code computed it."""
    runs = [run for run in expand("selective", "lite") if run.group == group]
    return max((run for run in runs if run.coordinates["percent"] == 0), key=lambda run: run.seed)


def train(run: PlannedRun, folder: Path, backend: str) -> RunRecord:
    here = dataclasses.replace(run, folder=folder)
    options = TrainOptions(backend=backend, checkpoints=folder / "checkpoints")
    assert session.train([here], options) == 1
    return records.read(run.id, folder)


@pytest.mark.slow
@pytest.mark.skipif(PACK is None, reason="needs MNIST: set FEDREPRO_DATA to a pack of the data")
@pytest.mark.parametrize("group", ["federated_as_run", "federated_as_written"])
def test_a_deleted_record_comes_back_with_the_same_metrics(group: str, tmp_path: Path) -> None:
    run = newest(group)
    committed = records.read(run.id, RUNS)
    once, again = (
        train(run, tmp_path / name, committed.provenance.backend) for name in ("once", "again")
    )
    here = verify.compare(run, once, again)
    assert here.same_machine
    assert not here.differences  # to the last digit
    there = verify.compare(run, committed, once)
    assert not there.beyond  # nor there, on the record's processor and PyTorch; else see TOLERANCE
