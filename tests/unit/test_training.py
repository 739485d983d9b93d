"""What `fedrepro train` leaves behind: records, and failures by name."""

import fcntl
import os

import pytest

from fedrepro import records, training
from fedrepro.engine.loop import LoopBackend
from fedrepro.errors import FedreproError
from fedrepro.plan import PlannedRun
from fedrepro.spec import RunSpec, run_id


def planned(seed, lr=0.05):
    spec = RunSpec.model_validate(
        {
            "dataset": {"name": "synthetic"},
            "partition": {"scheme": "iid_stratified", "clients": 2, "per_class": 10},
            "model": {"name": "liu1"},
            "algorithm": {"name": "fedavg"},
            "optimizer": {"name": "sgd", "lr": lr},
            "batch": 10,
            "rounds": 2,
            "seed": seed,
        }
    )
    return PlannedRun("made_up", "group", {}, seed, spec, run_id(spec))


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_a_record_holds_what_the_run_was():
    run = planned(0)
    assert training.train([run]) == 1
    record = records.read(run.id)
    assert record.typed_spec() == run.spec
    assert record.metrics["evaluated_rounds"] == [1, 2]
    assert record.partition.counts == [[5] * 10] * 2
    assert record.partition.emd == [0, 0]
    assert record.provenance.dataset_source == "synthetic"
    assert record.provenance.threads == 1
    assert list(training.CHECKPOINTS.iterdir()) == []


def test_a_recorded_run_is_left_alone():
    run = planned(0)
    training.train([run])
    before = records.path_of(run.id).read_bytes()
    assert training.train([run]) == 0
    assert records.path_of(run.id).read_bytes() == before


def test_a_diverging_run_fails_by_name_and_the_others_are_recorded():
    bad, good = planned(1, lr=1e30), planned(2)
    with pytest.raises(FedreproError, match=rf"run {bad.id} failed.*client 0.*round 0.*optimizer"):
        training.train([bad, good])
    assert not records.is_recorded(bad.id)
    assert records.is_recorded(good.id)


def test_a_run_that_another_process_trains_is_left_to_it(capsys):
    held, free = planned(3), planned(4)
    training.CHECKPOINTS.mkdir()
    with (training.CHECKPOINTS / f"{held.id}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert training.train([held, free]) == 1
    assert not records.is_recorded(held.id)
    assert records.is_recorded(free.id)
    assert f"{held.id} is being trained by another process" in capsys.readouterr().err


@pytest.mark.parametrize("claimed_anew", [False, True])
def test_a_lock_on_a_deleted_file_is_none(monkeypatch, claimed_anew):
    """The other process gives the run up after we opened its lock and before we lock it."""
    run, file = planned(6), training.CHECKPOINTS / f"{planned(6).id}.lock"
    flock, others = fcntl.flock, []

    def late(lock, how):
        if not others:
            file.unlink()
            others.append(file.open("w") if claimed_anew else None)
            if claimed_anew:
                flock(others[0], how)
        flock(lock, how)

    monkeypatch.setattr(training.fcntl, "flock", late)
    lock = training._claim(run.id)
    if claimed_anew:
        assert lock is None
        others[0].close()
    else:
        assert os.path.samestat(os.fstat(lock.fileno()), file.stat())
        lock.close()


def test_a_full_disk_is_a_clear_error(monkeypatch):
    run = planned(5)

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.write_bytes", full)
        with pytest.raises(FedreproError, match=rf"{run.id}\.json.*No space left"):
            training.train([run])
    assert list(records.FOLDER.glob("*")) == []
    monkeypatch.setattr(LoopBackend, "collect", lambda *_: pytest.fail("trained again"))
    assert training.train([run], backend="loop") == 1
    assert len(records.read(run.id).metrics["train_loss"]) == 2
