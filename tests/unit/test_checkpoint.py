"""A checkpoint that was damaged or edited is refused, and only its own run fails."""

import contextlib
import random
import shutil
import tarfile

import pytest
import torch
from small_runs import ends_after, planned

from fedrepro.base.errors import FedreproError
from fedrepro.fl.engine import checkpoint, saved
from fedrepro.runs import records, session, transfer
from fedrepro.runs.budget import share_done
from fedrepro.runs.options import TrainOptions

RUN = planned(rounds=4, evaluate_every=2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where a run was cut off after two of its four rounds."""
    folder = tmp_path_factory.mktemp("cut_off")
    with contextlib.chdir(folder):
        cut_off(RUN)
    return folder


@pytest.fixture
def file(folder, tmp_path, monkeypatch):
    """The checkpoint of that run, in a copy of the folder."""
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return checkpoint_of(RUN)


def cut_off(run, answers=3):
    with ends_after(answers, KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        session.train([run], TrainOptions(backend="loop"))
    return checkpoint_of(run)


def checkpoint_of(run):
    return session.CHECKPOINTS / f"{run.id}.pt"


def edit(file, change):
    """Change what a checkpoint holds and give it the hash of its new content."""
    content = checkpoint.load(file, file.stem)
    change(content)
    checkpoint.save(file, file.stem, content)


def refused(file):
    with pytest.raises(FedreproError, match=rf"{file.stem}\.pt.*delete it to start") as caught:
        saved.read(file, file.stem)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_checkpoint_is_one_file_and_fits(file):
    found = saved.read(file, RUN.id)
    assert found.progress.round == 2
    assert found.progress.metrics["evaluated_rounds"] == [2]
    assert [part.rounds for part in found.parts] == [2]
    assert [one.suffix for one in file.parent.iterdir() if one.stem == RUN.id] == [".pt"]


def test_every_flipped_bit_is_noticed(file):
    content, draw = file.read_bytes(), random.Random(0)
    positions = [*range(110), *(draw.randrange(len(content)) for _ in range(300))]
    for position in positions:
        changed = bytearray(content)
        changed[position] ^= 1 << draw.randrange(8)
        file.write_bytes(changed)
        refused(file)


@pytest.mark.parametrize("share", [0.0, 0.001, 0.01, 0.3, 0.9, 0.9999])
def test_a_cut_or_longer_file_is_noticed(file, share):
    content = file.read_bytes()
    for changed in (content[: int(share * len(content))], content[:-1], content + b"\0"):
        file.write_bytes(changed)
        refused(file)


def progress(**changes):
    return lambda content: content["progress"].update(changes)


def metrics(**changes):
    return lambda content: content["progress"]["metrics"].update(changes)


EDITS = {
    "one round more": (progress(round=3), "parts"),
    "all rounds": (
        lambda content: (
            content["progress"].update(round=4),
            content["parts"][0].update(rounds=4),
        ),
        "evaluated",
    ),
    "round 1000": (progress(round=1000), "round 1000 of 4"),
    "round -5": (progress(round=-5), "greater than or equal to 0"),
    "a round that is text": (progress(round="2"), "valid integer"),
    "a round that is a fraction": (progress(round=2.0), "valid integer"),
    "a round that is true": (progress(round=True), "round: true is no number"),
    "no metrics": (progress(metrics={}), "evaluated"),
    "empty metrics": (metrics(train_loss=[]), "0 values of train_loss"),
    "a value too much": (metrics(train_loss=[1.0] * 3), "3 values of train_loss"),
    "text for a number": (metrics(train_loss=["1", "2"]), "no number as train_loss"),
    "nan": (metrics(train_loss=[1.0, float("nan")]), "no number as train_loss"),
    "a tensor for a number": (metrics(train_loss=[torch.ones(1)] * 2), "no number as train_loss"),
    "a tensor for one of the last evaluation": (
        metrics(accuracy=[torch.ones(1)]),
        "no number as accuracy",
    ),
    "a metric that is missing": (
        lambda content: content["progress"]["metrics"].pop("accuracy"),
        "no metric accuracy",
    ),
    "metrics that are a list": (progress(metrics=[1]), "valid dictionary"),
    "seconds below 0": (progress(seconds=-1.0), "greater than or equal to 0"),
    "no progress": (lambda content: content.pop("progress"), "Field required"),
    "progress that is a number": (lambda content: content.update(progress=3), "progress"),
    "state that is a list": (lambda content: content.update(state=[1]), "valid dictionary"),
    "parts that are text": (lambda content: content.update(parts="all"), "valid list"),
    "data that is a number": (lambda content: content.update(data=[1, 2]), "valid string"),
    "another spec": (lambda content: content["spec"].update(rounds=40), "another run"),
    "a spec that is none": (lambda content: content.update(spec={"rounds": 4}), "does not fit"),
    "more imported rounds": (
        lambda content: content.update(imported=content["parts"] * 2),
        "more rounds were imported",
    ),
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edited_checkpoint_is_refused_even_with_a_new_hash(file, name):
    change, message = EDITS[name]
    edit(file, change)
    assert message in refused(file)
    assert share_done(RUN, file.parent) == 0.0


def test_the_checkpoint_of_another_run_is_refused(file):
    other = planned(seed=9)
    target = file.with_name(f"{other.id}.pt")
    target.write_bytes(file.read_bytes())
    assert f"another run ({RUN.id})" in refused(target)
    checkpoint.save(target, other.id, checkpoint.load(file, RUN.id))
    assert f"another run ({RUN.id} by its spec)" in refused(target)


def flip(file):
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


BAD = {
    "flipped": flip,
    "weights that are text": lambda file: edit(file, lambda c: c["state"].update(weights="w")),
    "weights of another size": lambda file: edit(
        file, lambda c: c["state"].update(weights=torch.ones(3))
    ),
    "moments that are a list": lambda file: edit(file, lambda c: c["state"].update(moments=[])),
    "unknown state": lambda file: edit(file, lambda c: c["state"].update(more=1)),
    "wrong type": lambda file: edit(file, progress(round="two")),
    "no checkpoint": lambda file: file.write_text("nothing"),
}


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("position", [0, 1])
def test_a_bad_checkpoint_fails_its_run_only(file, bad, position):
    BAD[bad](file)
    good = planned(seed=9)
    runs = [good, good]
    runs[position] = RUN
    with pytest.raises(FedreproError) as caught:
        session.train(runs, TrainOptions(backend="loop", in_flight=2))
    message = str(caught.value)
    assert message.startswith(f"run {RUN.id} (made_up group seed=5) failed: ")
    assert f"{RUN.id}.pt: this checkpoint" in message
    assert message.endswith("delete it to start the run anew")
    assert "\n" not in message
    assert records.is_recorded(good.id)
    assert not records.is_recorded(RUN.id)


def test_what_cannot_be_read_is_not_to_be_deleted(file):
    """A link to itself stands for a file that may not be read, or a disk that does not answer."""
    file.unlink()
    file.symlink_to(file.name)
    with pytest.raises(FedreproError) as caught:
        session.train([RUN], TrainOptions(backend="loop"))
    message = str(caught.value)
    assert f"{RUN.id}.pt: cannot be read (Too many levels" in message
    assert message.endswith("check its permissions and the disk, then run again")
    assert file.is_symlink()


def test_memory_that_runs_out_is_no_damage(file, monkeypatch):
    def load(*_, **__):
        raise MemoryError

    monkeypatch.setattr(torch, "load", load)
    with pytest.raises(MemoryError):
        saved.read(file, RUN.id)


def test_an_origin_that_no_record_can_hold_fails_its_run_only(file):
    edit(file, lambda content: content["parts"][0]["origin"].update(device_type="tpu"))
    good = planned(seed=9)
    with pytest.raises(FedreproError, match=f"run {RUN.id} .* failed: no valid record"):
        session.train([RUN, good], TrainOptions(backend="loop", in_flight=2))
    assert records.is_recorded(good.id)
    assert file.exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (EDITS["all rounds"][0], "evaluated"),
        (EDITS["round 1000"][0], "round 1000 of 4"),
        (lambda c: c["parts"][0]["origin"].pop("commit"), "what it was trained with"),
    ],
)
def test_an_edited_checkpoint_is_not_imported(file, change, message):
    edit(file, change)
    transfer.write(file.parent / "new.tar", [file])
    file.unlink()
    with pytest.raises(FedreproError, match=message):
        transfer.read(file.parent / "new.tar", session.CHECKPOINTS)
    assert not file.exists()


def test_a_record_says_which_rounds_came_from_elsewhere(file, tmp_path):
    transfer.write(tmp_path / "new.tar", [file])
    file.unlink()
    session.train([RUN], TrainOptions(backend="loop"))
    whole = records.read(RUN.id)
    assert whole.provenance.imported == ()
    records.path_of(RUN.id).unlink()
    transfer.read(tmp_path / "new.tar", session.CHECKPOINTS)
    assert cut_off(RUN, 1) == file  # and it stays known when the run is cut off again
    session.train([RUN], TrainOptions(backend="loop"))
    record = records.read(RUN.id)
    assert (record.metrics, record.final) == (whole.metrics, whole.final)
    [part] = record.provenance.imported
    assert (part.rounds, part.backend) == (2, "loop")
    with tarfile.open(tmp_path / "new.tar") as tar:
        assert tar.getnames() == [f".checkpoints/{RUN.id}.pt"]


DEEP = {
    "at once": (
        {"name": "feddyn", "alpha": 0.1},
        lambda c: c["state"]["gradients"].update({0: "x"}),
    ),
    "of a kind that none holds": (
        {"name": "feddyn", "alpha": 0.1},
        lambda c: c["state"]["gradients"].update({0: b"x"}),
    ),
    "in a request": (
        {"name": "fedavg", "optimizer_state": "keep"},
        lambda c: c["state"]["moments"].update({0: {"step": "many"}}),
    ),
}


@pytest.mark.parametrize("name", DEEP)
def test_what_fits_only_at_first_sight_is_named_when_its_run_fails(file, name, capsys):
    algorithm, change = DEEP[name]
    run = planned(rounds=4, algorithm=algorithm, optimizer={"name": "adam", "lr": 0.01})
    bad = cut_off(run)
    edit(bad, change)
    other = planned(seed=9)
    with pytest.raises(FedreproError, match=rf"{run.id}\.pt.* delete it to start") as caught:
        session.train([run, other], TrainOptions(backend="loop"))
    assert "\n" not in str(caught.value)
    assert records.is_recorded(other.id)
