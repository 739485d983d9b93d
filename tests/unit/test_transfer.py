"""Records and checkpoints on their way between machines."""

import dataclasses
import gzip
import json
import tarfile

import pytest
import torch

from fedrepro.base.errors import FedreproError
from fedrepro.fl.engine import checkpoint
from fedrepro.fl.spec import RunSpec, run_id
from fedrepro.runs import records, session, transfer
from fedrepro.runs.plan import PlannedRun


def planned(seed, rounds=2):
    spec = RunSpec.model_validate(
        {
            "dataset": {"name": "synthetic"},
            "partition": {"scheme": "iid_stratified", "clients": 2, "per_class": 10},
            "model": {"name": "liu1"},
            "algorithm": {"name": "fedavg"},
            "optimizer": {"name": "sgd", "lr": 0.05},
            "batch": 10,
            "rounds": rounds,
            "seed": seed,
        }
    )
    return PlannedRun("made_up", "group", {}, seed, spec, run_id(spec))


@pytest.fixture
def there(tmp_path, monkeypatch):
    """A machine where a run was trained and another was cut off; returns the tar and both ids."""
    monkeypatch.chdir(tmp_path)
    run, cut = planned(0), planned(1)
    session.train([run])
    session.CHECKPOINTS.mkdir(exist_ok=True)
    partial = session.CHECKPOINTS / f"{cut.id}.pt"
    checkpoint.save(partial, cut.id, {"weights": torch.ones(3), "round": 1})
    tar = tmp_path / "new.tar.gz"
    transfer.write(tar, [records.path_of(run.id), partial])
    return tar, run.id, cut.id


@pytest.fixture
def here(tmp_path, monkeypatch, there):
    """Another machine, without records."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return there


def test_records_and_checkpoints_arrive_as_they_were(here, tmp_path):
    tar, run, cut = here
    imported = transfer.read(tar, session.CHECKPOINTS)
    assert (imported.records, imported.checkpoints, imported.known) == ([run], [cut], [])
    sent = (tmp_path / records.path_of(run)).read_bytes()
    assert records.path_of(run).read_bytes() == sent
    assert checkpoint.load(session.CHECKPOINTS / f"{cut}.pt", cut)["round"] == 1
    again = transfer.read(tar, session.CHECKPOINTS)
    assert again.known == [run, cut]
    assert again.text() == "0 records and 0 checkpoints imported, 2 were here already"


def test_records_that_are_not_committed_arrive_beside_them(tmp_path, monkeypatch):
    run = dataclasses.replace(planned(0), scale="quick")
    for name in ("there", "here"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "there")
    session.train([run])
    transfer.write(tmp_path / "new.tar", [records.path_of(run.id, records.OWN_FOLDER)])
    monkeypatch.chdir(tmp_path / "here")
    assert transfer.read(tmp_path / "new.tar", session.CHECKPOINTS).records == [run.id]
    assert run.recorded
    assert not records.FOLDER.exists()
    assert transfer.read(tmp_path / "new.tar", session.CHECKPOINTS).known == [run.id]


def test_what_is_here_stays(here):
    tar, _, cut = here
    transfer.read(tar, session.CHECKPOINTS)
    ours = session.CHECKPOINTS / f"{cut}.pt"
    checkpoint.save(ours, cut, {"round": 7})
    transfer.read(tar, session.CHECKPOINTS)
    assert checkpoint.load(ours, cut) == {"round": 7}


def test_a_checkpoint_of_a_recorded_run_is_not_needed(here, tmp_path):
    tar, run, _ = here
    transfer.read(tar, session.CHECKPOINTS)
    late = session.CHECKPOINTS / f"{run}.pt"
    checkpoint.save(late, run, {"round": 1})
    transfer.write(tmp_path / "late.tar", [late])
    late.unlink()
    assert transfer.read(tmp_path / "late.tar", session.CHECKPOINTS).known == [run]
    assert not late.exists()


def repack(source, target, change):
    """Copy a tar file; ``change`` maps each (name, bytes) to what takes its place."""
    import io

    with tarfile.open(source) as old, tarfile.open(target, "w") as new:
        for member in old:
            name, content = change(member.name, old.extractfile(member).read())
            info = tarfile.TarInfo(name)
            info.size = len(content)
            new.addfile(info, io.BytesIO(content))


def edited(name, content):
    if name.endswith(".json"):
        record = json.loads(content)
        record["final"]["accuracy"] = 0.99
        content = json.dumps(record).encode()
    return name, content


def renamed(name, content):
    return name.replace(name.split("/")[-1].split(".")[0], "0123456789ab"), content


def cut_short(name, content):
    return name, content[:100] if name.endswith(".pt") else content


def test_a_record_that_arrives_replaces_the_checkpoint_of_its_run(here):
    tar, run, _ = here
    session.CHECKPOINTS.mkdir()
    own = session.CHECKPOINTS / f"{run}.pt"
    for _ in range(2):  # also where the record came before
        own.write_text("of an earlier round")
        transfer.read(tar, session.CHECKPOINTS)
        assert not own.exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (edited, r"checksum"),
        (renamed, r"0123456789ab"),
        (cut_short, r"\.pt.*cannot be read"),
        (lambda name, content: (f"../{name}", content), r"neither a record nor a checkpoint"),
        (lambda name, content: (f"/{name}", content), r"neither a record nor a checkpoint"),
        (lambda _, content: ("notes.txt", content), r"'notes\.txt'"),
    ],
)
def test_a_file_with_anything_wrong_is_refused_whole(here, tmp_path, change, message):
    tar, *_ = here
    wrong = tmp_path / "wrong.tar"
    repack(tar, wrong, change)
    with pytest.raises(FedreproError, match=message) as caught:
        transfer.read(wrong, session.CHECKPOINTS)
    assert "nothing was imported" in str(caught.value)
    assert not records.FOLDER.exists()
    assert not session.CHECKPOINTS.exists()
    assert not (tmp_path / "results/runs" / "notes.txt").exists()


def test_not_a_tar_file(here, tmp_path):
    file = tmp_path / "text.tar"
    file.write_text("no")
    with pytest.raises(FedreproError, match=r"text\.tar: not a whole tar file"):
        transfer.read(file, session.CHECKPOINTS)
    with pytest.raises(FedreproError, match=r"nowhere\.tar: not a whole tar file"):
        transfer.read(tmp_path / "nowhere.tar", session.CHECKPOINTS)


def test_a_link_in_the_file_is_refused(here, tmp_path):
    _, run, _ = here
    wrong = tmp_path / "link.tar"
    with tarfile.open(wrong, "w") as tar:
        info = tarfile.TarInfo(f"results/runs/{run}.json")
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/hostname"
        tar.addfile(info)
    with pytest.raises(FedreproError, match="neither a record nor a checkpoint"):
        transfer.read(wrong, session.CHECKPOINTS)


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.7, 0.9, 1.0])
@pytest.mark.parametrize("suffix", ["tar", "tar.gz"])
def test_a_file_that_was_cut_off_on_the_way_is_refused(here, tmp_path, suffix, share):
    tar, *_ = here
    whole = gzip.decompress(tar.read_bytes())
    with tarfile.open(tar) as opened:
        end = max(member.offset_data + member.size for member in opened)
    content, end = (whole, end) if suffix == "tar" else (tar.read_bytes(), tar.stat().st_size - 1)
    part = tmp_path / f"part.{suffix}"
    part.write_bytes(content[: int(share * end)])
    with pytest.raises(FedreproError, match=rf"(?s)nothing was.*part\.{suffix}: not a whole tar"):
        transfer.read(part, session.CHECKPOINTS)
    assert not records.FOLDER.exists()


def test_a_full_disk_is_a_clear_error(here, monkeypatch):
    tar, run, _ = here
    real = type(tar).write_bytes

    def full(file, content):
        if not file.is_absolute():
            raise OSError(28, "No space left on device")
        return real(file, content)

    monkeypatch.setattr(type(tar), "write_bytes", full)
    with pytest.raises(FedreproError, match=rf"{run}\.json.*No space left"):
        transfer.read(tar, session.CHECKPOINTS)
    assert not list(records.FOLDER.glob("*"))
