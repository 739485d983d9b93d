"""A committed record trained again on real data gives the same numbers."""

import os

import pytest
import torch

from fedrepro.base.paths import root
from fedrepro.runs import records, session
from fedrepro.runs.plan import expand
from fedrepro.runs.session import TrainOptions

PACK = os.environ.get("FEDREPRO_DATA")
RUNS = root() / records.FOLDER


def cheapest(group):
    return next(
        run
        for run in expand("selective", "lite")
        if run.group == group and run.coordinates.get("percent", 0) == 0
    )


@pytest.mark.slow
@pytest.mark.skipif(PACK is None, reason="needs MNIST: set FEDREPRO_DATA to a pack of the data")
@pytest.mark.parametrize("group", ["federated_as_run", "federated_as_written"])
def test_a_deleted_record_comes_back_with_the_same_metrics(group, tmp_path, monkeypatch):
    run = cheapest(group)
    committed = records.read(run.id, RUNS)
    monkeypatch.chdir(tmp_path)
    assert session.train([run], TrainOptions(backend=committed.provenance.backend)) == 1
    again = records.read(run.id)
    assert again.partition == committed.partition
    assert again.provenance.dataset_sha256 == committed.provenance.dataset_sha256
    here, there = again.provenance, committed.provenance
    if (here.device, here.torch) == (there.device, there.torch):
        assert again.metrics == committed.metrics
        assert again.final == committed.final
    else:  # other processors, of another generation too, and library versions round differently
        for name in ("accuracy_iid", "accuracy_noniid"):
            assert again.final[name] == pytest.approx(committed.final[name], abs=0.05)
    assert torch.get_num_threads() == 1
