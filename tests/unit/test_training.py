"""What `fedrepro train` leaves behind: records, and failures by name."""

import dataclasses
import errno
import fcntl
import io
import multiprocessing
import os
import shutil
import subprocess
import sys
import tarfile
import textwrap
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import small_runs
from small_runs import ends_after

from fedrepro import cli
from fedrepro.base import files
from fedrepro.base.errors import FedreproError
from fedrepro.fl.engine import backends
from fedrepro.fl.engine.backends import backend
from fedrepro.fl.engine.loop import LoopBackend
from fedrepro.runs import command, provenance, records, session
from fedrepro.runs.display import Log
from fedrepro.runs.locks import Claims
from fedrepro.runs.options import TrainOptions
from fedrepro.runs.status import describe


def planned(seed, lr=0.05):
    return small_runs.planned(seed=seed, rounds=2, optimizer={"name": "sgd", "lr": lr})


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_a_record_holds_what_the_run_was():
    run = planned(0)
    assert session.train([run]) == 1
    record = records.read(run.id)
    assert record.typed_spec() == run.spec
    assert record.metrics["evaluated_rounds"] == [1, 2]
    assert record.partition.counts == [[5] * 10] * 2
    assert record.partition.emd == [0, 0]
    assert record.provenance.dataset_source == "synthetic"
    assert record.provenance.threads == 1
    assert list(session.CHECKPOINTS.iterdir()) == []


def test_a_recorded_run_is_left_alone():
    run = planned(0)
    session.train([run])
    before = records.path_of(run.id).read_bytes()
    assert session.train([run]) == 0
    assert records.path_of(run.id).read_bytes() == before


def test_named_runs_hand_over_what_is_recorded_and_pending_ones_what_is_new(
    monkeypatch, capsys, write_record
):
    run = planned(0)
    file = write_record(run, records.FOLDER)
    monkeypatch.setattr(command, "selected", lambda *_, **__: [run])
    assert cli.main(["train", "--pending", "--out", "new.tar"]) == 0
    text = "new.tar: not written, as nothing is new; `fedrepro records push FOLDER RUN...` hands"
    assert text in capsys.readouterr().out
    assert not Path("new.tar").exists()
    assert cli.main(["train", run.id, "--out", "new.tar"]) == 0
    assert "not written" not in capsys.readouterr().out
    with tarfile.open("new.tar") as tar:
        assert tar.getnames() == [file.as_posix()]


def let_loops_take(seconds, monkeypatch):
    """Let each answer of a loop have taken so many seconds."""
    real = LoopBackend.collect

    def collect(self, deadline):
        return [dataclasses.replace(found, seconds=seconds) for found in real(self, deadline)]

    monkeypatch.setattr(LoopBackend, "collect", collect)


def test_a_record_holds_the_seconds_of_all_requests(monkeypatch):
    """Two rounds of training and prediction are four answers."""
    let_loops_take(0.5, monkeypatch)
    run = planned(0)
    session.train([run], TrainOptions(backend="loop"))
    took = records.training_time(run.id)
    assert took is not None
    assert (took.seconds, took.gpu) == (4 * 0.5, False)


def test_a_run_that_another_process_ends_meanwhile_is_left_alone(monkeypatch, write_record):
    """It writes its record after we looked for one and before we lock the run."""
    run, take = planned(0), Claims.take

    def late(claims, run_id):
        write_record(run, records.FOLDER)
        return take(claims, run_id)

    monkeypatch.setattr(Claims, "take", late)
    assert session.train([run]) == 0
    assert records.read(run.id).provenance.host == "made up"
    assert list(session.CHECKPOINTS.iterdir()) == []


def test_a_record_that_comes_while_its_run_is_trained_stays(monkeypatch, capsys, write_record):
    """By git, or by an import."""
    run, collect = planned(0), LoopBackend.collect

    def late(self, deadline):
        write_record(run, records.FOLDER)
        return collect(self, deadline)

    monkeypatch.setattr(LoopBackend, "collect", late)
    assert session.train([run], TrainOptions(backend="loop")) == 0
    assert records.read(run.id).provenance.host == "made up"
    assert f"{records.path_of(run.id)}: came from elsewhere" in capsys.readouterr().err
    assert list(session.CHECKPOINTS.iterdir()) == []


def test_without_a_time_budget_nothing_is_estimated(monkeypatch):
    monkeypatch.setattr(session, "status", lambda _: pytest.fail("estimated"))
    assert session.train([planned(0)], TrainOptions(backend="loop")) == 1


def test_what_is_wrong_with_records_is_found_out_before_there_is_a_backend(monkeypatch):
    def damaged(_):
        raise FedreproError("a damaged record")

    monkeypatch.setattr(session, "status", damaged)
    monkeypatch.setattr(session, "_backend", lambda _: pytest.fail("made"))
    with pytest.raises(FedreproError, match="a damaged record"):
        session.train([planned(0)], TrainOptions(time_budget=1000.0))


def test_no_worker_outlives_a_training(monkeypatch):
    made, make = [], session._backend
    monkeypatch.setattr(session, "_backend", lambda options: made.append(make(options)) or made[0])
    assert session.train([planned(0)], TrainOptions(backend="pool", workers=2)) == 1
    assert multiprocessing.active_children() == []


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """Make the code that of a small clone; return a function that calls git in it."""
    folder = tmp_path / "clone"
    for name in ("src/code.py", "config/papers/toy.yaml", "README.md"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("1")

    def git(*arguments):
        who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        command = ["git", "-C", str(folder), *who, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)  # may ask for signatures, or have hooks
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "--message", "first")
    monkeypatch.setenv("FEDREPRO_ROOT", str(folder))
    monkeypatch.setattr(provenance, "__file__", str(folder / "src/code.py"))
    return git


@pytest.mark.parametrize(
    ("edited", "dirty"),
    [(None, False), ("README.md", False), ("src/code.py", True), ("config/new.yaml", True)],
)
def test_code_is_dirty_where_it_or_its_configuration_is_edited(clone, tmp_path, edited, dirty):
    if edited:
        (tmp_path / "clone" / edited).write_text("2")
    assert provenance.code_version.__wrapped__() == (clone("rev-parse", "HEAD"), dirty)


def test_a_new_file_is_an_edit_whatever_git_is_told_to_show(clone, tmp_path):
    clone("config", "status.showUntrackedFiles", "no")
    (tmp_path / "clone/src/new.py").write_text("2")
    assert provenance.code_version.__wrapped__() == (clone("rev-parse", "HEAD"), True)


def test_the_clone_may_be_another_users(clone, monkeypatch):
    """As a colleague's on a cluster, or root's in a container."""
    commit = clone("rev-parse", "HEAD")
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    with pytest.raises(subprocess.CalledProcessError):
        clone("rev-parse", "HEAD")
    assert provenance.code_version.__wrapped__() == (commit, False)


def test_code_of_no_clone_has_no_commit(clone, tmp_path, monkeypatch):
    with monkeypatch.context() as installed:
        installed.setattr(provenance, "__file__", str(tmp_path / "elsewhere/code.py"))
        assert provenance.code_version.__wrapped__() == ("unknown", False)
    clone("rm", "--quiet", "-r", "--cached", "src")  # of a repository of other things
    assert provenance.code_version.__wrapped__() == ("unknown", False)
    shutil.rmtree(tmp_path / "clone/.git")
    assert provenance.code_version.__wrapped__() == ("unknown", False)


def test_a_diverging_run_fails_by_name_and_the_others_are_recorded():
    bad, good = planned(1, lr=1e30), planned(2)
    with pytest.raises(
        FedreproError, match=rf"run {bad.id} \(.*\) failed.*round 1.*client 0.*optimizer"
    ):
        session.train([bad, good])
    assert not records.is_recorded(bad.id)
    assert records.is_recorded(good.id)


def test_runs_that_fail_alike_are_one_message(capsys):
    bad, alike = planned(1, lr=1e30), planned(2, lr=1e30)
    with pytest.raises(FedreproError) as failure:
        session.train([bad, alike], TrainOptions(backend="loop", in_flight=1))
    first, *runs = str(failure.value).splitlines()
    assert first.startswith("2 runs failed: round 1: lane 'client 0' has a loss of nan")
    assert runs == [f"  {run.id} ({describe(run)})" for run in (bad, alike)]
    said = capsys.readouterr().err.splitlines()[:2]
    reason = first.removeprefix("2 runs ")
    assert said == [
        f"run {bad.id} ({describe(bad)}) {reason}",
        f"run {alike.id} ({describe(alike)}) failed: as run {bad.id} did",
    ]


def test_a_run_that_another_process_trains_is_left_to_it(capsys):
    held, free = planned(3), planned(4)
    session.CHECKPOINTS.mkdir()
    with (session.CHECKPOINTS / f"{held.id}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert session.train([held, free]) == 1
    assert not records.is_recorded(held.id)
    assert records.is_recorded(free.id)
    assert (
        f"{held.id} ({describe(held)}) is being trained by another process"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize("recorded", [False, True])
def test_a_run_that_another_process_trains_is_waited_for(
    monkeypatch, capsys, write_record, recorded
):
    """It ends the run, or gives it up: then this one trains it, once its own runs are done."""
    held, free = planned(3), planned(4)
    session.CHECKPOINTS.mkdir()
    lock = (session.CHECKPOINTS / f"{held.id}.lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    looks = []

    def sleep(_):
        looks.append(records.is_recorded(free.id))
        if len(looks) == 2:
            if recorded:
                write_record(held, records.FOLDER)
            lock.close()

    monkeypatch.setattr(session.time, "sleep", sleep)
    assert session.train([held, free], TrainOptions(backend="loop", wait=True)) == (
        1 if recorded else 2
    )
    assert looks == [True, True]
    assert (records.read(held.id).provenance.host == "made up") == recorded
    error = capsys.readouterr().err
    assert error.count(f"{held.id} ({describe(held)}) is being trained by another process") == 1
    assert "waiting for 1 run that other processes train" in error


def test_waiting_ends_with_the_time_budget(monkeypatch):
    held = planned(3)
    session.CHECKPOINTS.mkdir()
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(session.time, "monotonic", lambda: clock.now)
    monkeypatch.setattr(session.time, "sleep", lambda s: setattr(clock, "now", clock.now + s))
    with (session.CHECKPOINTS / f"{held.id}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert (
            session.train([held], TrainOptions(backend="loop", wait=True, time_budget=100.0)) == 0
        )
    assert 100 <= clock.now < 110


def test_a_failed_run_is_not_tried_again_after_waiting(monkeypatch):
    bad, held = planned(1, lr=1e30), planned(3)
    session.CHECKPOINTS.mkdir()
    lock = (session.CHECKPOINTS / f"{held.id}.lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    monkeypatch.setattr(session.time, "sleep", lambda _: lock.close())
    with pytest.raises(FedreproError) as caught:
        session.train([bad, held], TrainOptions(backend="loop", wait=True))
    assert str(caught.value).count(f"run {bad.id} ({describe(bad)}) failed") == 1
    assert records.is_recorded(held.id)


def test_what_other_processes_train_is_counted_in_the_end(monkeypatch, capsys, write_record):
    before, own, theirs, held = (planned(seed) for seed in range(4))
    write_record(before, records.FOLDER)
    monkeypatch.setattr(command, "selected", lambda *_, **__: [before, own, theirs, held])

    def train(*_):
        for run in (own, theirs):
            write_record(run, records.FOLDER)
        return 1

    monkeypatch.setattr(session, "train", train)
    assert cli.main(["train", "--pending"]) == 0
    counts, after = capsys.readouterr().out.splitlines()
    assert counts == ("1 of 4 runs trained, 1 had a record, 1 trained by others, 1 left to others")
    assert after.startswith("`fedrepro why made_up --scale paper` lists the tables and figures")
    assert cli.main(["train", "--pending", "--time-budget", "9"]) == 0
    assert "left to others" not in capsys.readouterr().out, "the budget says what is left"


def test_ids_are_waited_for_and_count_once(monkeypatch):
    run, seen = planned(0), []
    monkeypatch.setattr(command, "selected", lambda *_, **__: [run])
    monkeypatch.setattr(session, "train", lambda *given: seen.append(given) or 0)
    cli.main(["train", run.id, run.id])
    cli.main(["train", "--pending"])
    assert [(runs, options.wait) for runs, options in seen] == [([run], True), ([run], False)]


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (errno.ENOLCK, r"this file system has no locks .*flock"),
        (errno.ENOSYS, r"this file system has no locks .*flock"),
        (errno.EOPNOTSUPP, r"this file system has no locks .*flock"),
        (errno.EIO, r"cannot be locked \(Input/output error\)"),
    ],
)
def test_a_run_that_cannot_be_locked_is_a_clear_error(monkeypatch, fault, message):
    def refuse(*_):
        raise OSError(fault, os.strerror(fault))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(FedreproError, match=rf"\.lock: {message}"):
        session.train([planned(0)])


@pytest.mark.parametrize("folder", [session.CHECKPOINTS, Path("results/own"), Path("results")])
@pytest.mark.parametrize("kind", ["file", "link"])
def test_what_is_in_the_place_of_a_folder_is_a_clear_error(folder, kind):
    """As a link to a disk that is not mounted."""
    run = dataclasses.replace(planned(0), folder=Path("results/own/runs"))
    folder.parent.mkdir(exist_ok=True)
    folder.symlink_to("/nowhere/x") if kind == "link" else folder.touch()
    text = "a file, or a link that leads nowhere, is where this folder|a file is where a folder"
    with pytest.raises(FedreproError, match=rf"^{folder}.*: ({text}) .*move (it|that) away"):
        session.train([run])


def test_what_else_there_is_of_a_recorded_run_is_deleted():
    """It came from another machine, or a kill or a full disk left it; the record is what counts."""
    run = planned(0)
    session.train([run])
    left = [session.CHECKPOINTS / f"{run.id}.{kind}" for kind in ("pt", "json", "lock")]
    for file in left:
        file.write_text("of earlier rounds")
    assert session.train([run]) == 0
    assert not any(file.exists() for file in left)


def test_the_lock_of_a_recorded_run_stays_while_a_process_holds_it():
    run = planned(0)
    session.train([run])
    other = Claims(session.CHECKPOINTS)
    assert other.take(run.id)
    assert session.train([run]) == 0
    assert not Claims(session.CHECKPOINTS).take(run.id)
    other.release(run.id)


def test_the_lock_of_a_recorded_run_stays_if_it_changes_hands_meanwhile(monkeypatch):
    """Its holder deletes it, and another process makes its own, before ours is locked."""
    run, lock = planned(0), fcntl.flock
    first, second = Claims(session.CHECKPOINTS), Claims(session.CHECKPOINTS)
    assert first.take(run.id)

    def late(file, how):
        monkeypatch.setattr(fcntl, "flock", lock)
        first.release(run.id)
        assert second.take(run.id)
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", late)
    Claims(session.CHECKPOINTS).clear(run.id)
    assert not Claims(session.CHECKPOINTS).take(run.id)
    second.release(run.id)


def test_what_killed_processes_left_half_written_is_deleted():
    """At once where the claim says that nobody writes it, else by its age."""
    run, other, recorded = (planned(seed) for seed in range(3))
    session.train([recorded])
    halves = {
        (run.id, age, kind): folder / f"{run.id}.{kind}.{age}.tmp"
        for run in (run, other, recorded)
        for age in (0, 7200)
        for kind, folder in (("pt", session.CHECKPOINTS), ("json", records.FOLDER))
    }
    for (_, age, _), half in halves.items():
        half.write_bytes(b"half")
        os.utime(half, (time.time() - age,) * 2)
    session.train([run, recorded], TrainOptions(backend="loop"))
    assert {which for which, half in halves.items() if half.exists()} == {
        (run.id, 0, "json"),
        *((one.id, 0, kind) for one in (other, recorded) for kind in ("pt", "json")),
    }


def test_a_record_that_is_pulled_while_its_run_is_claimed_arrives(monkeypatch):
    """Whoever takes in a record holds no claim on the run."""
    run, sync = planned(0), files.sync
    session.train([run])
    record = records.path_of(run.id)
    content = record.read_bytes()
    record.unlink()

    def trained_meanwhile(path):
        monkeypatch.setattr(files, "sync", sync)
        session.train([run], TrainOptions(backend="loop"))
        record.unlink()
        sync(path)

    monkeypatch.setattr(files, "sync", trained_meanwhile)
    files.write_bytes(record, content, durable=True)
    assert run.recorded


def test_a_record_deleted_while_others_train_is_made_again(monkeypatch):
    runs = [planned(seed) for seed in range(2)]
    session.train(runs[1:])

    def delete(_, run):
        record(_, run)
        records.path_of(runs[1].id).unlink(missing_ok=True)

    record = session._Training._record
    with monkeypatch.context() as patch:
        patch.setattr(Log, "every", 0.0)
        patch.setattr(session._Training, "_record", delete)
        assert session.train(runs, TrainOptions(workers=1, in_flight=1)) == 2


def test_a_record_says_what_other_processes_did_of_the_run(monkeypatch):
    let_loops_take(1000.0, monkeypatch)
    run = planned(0)
    with ends_after(2, KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        session.train([run], TrainOptions(backend="loop"))
    session.train([run], TrainOptions(backend="graphs"))
    provenance = records.read(run.id).provenance
    [earlier] = provenance.earlier
    assert (provenance.backend, earlier.backend, earlier.rounds) == ("graphs", "loop", 1)
    assert 1000 <= earlier.seconds < provenance.seconds
    assert (provenance.device_type, earlier.device_type) == ("cpu", "cpu")
    session.train([planned(1)])
    assert "earlier" not in records.path_of(planned(1).id).read_text()


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            ["cpu family\t: 26", "model\t\t: 2", "model name\t: AMD EPYC", "model\t\t: 3"],
            "AMD EPYC, cpu family 26, model 2",
        ),
        (["model name\t: Some: CPU"], "Some: CPU"),
        ([], "an architecture"),
    ],
)
def test_a_processor_is_named_with_its_generation(monkeypatch, lines, expected):
    """Cloud machines have the same name for all of them."""
    monkeypatch.setattr(provenance, "_lines", lambda _: lines)
    monkeypatch.setattr(provenance.platform, "processor", lambda: "an architecture")
    assert provenance.processor() == expected


def test_a_gpu_that_is_not_there_is_refused(monkeypatch):
    chosen = []
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setattr(backends, "_use", chosen.append)
    assert backend("loop", "cuda:1").cores == 0
    assert [str(device) for device in chosen] == ["cuda:1"]
    with pytest.raises(FedreproError, match="device cuda:2: PyTorch sees 2 GPUs"):
        backend("loop", "cuda:2")


@pytest.mark.parametrize("claimed_anew", [False, True])
def test_a_lock_on_a_deleted_file_is_none(monkeypatch, claimed_anew):
    """The other process gives the run up after we opened its lock and before we lock it."""
    run, file = planned(6), session.CHECKPOINTS / f"{planned(6).id}.lock"
    flock, others = fcntl.flock, []

    def late(lock, how):
        if not others:
            file.unlink()
            others.append(file.open("w") if claimed_anew else None)
            if claimed_anew:
                flock(others[0], how)
        flock(lock, how)

    monkeypatch.setattr(fcntl, "flock", late)
    claims = Claims(session.CHECKPOINTS)
    if claimed_anew:
        assert not claims.take(run.id)
        others[0].close()
    else:
        assert claims.take(run.id)
        assert not Claims(session.CHECKPOINTS).take(run.id)
        claims.release(run.id)
        assert not file.exists()


def test_a_killed_process_leaves_no_claim(tmp_path):
    program = """
        import os, pathlib, signal, sys
        from fedrepro.runs.locks import Claims
        claims = Claims(pathlib.Path("locks"))
        assert claims.take("a") and claims.take("b")
        claims.release("b")
        assert not pathlib.Path("locks/b.lock").exists()
        print("held", flush=True)
        sys.stdin.read()
        """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"held\n"
        ours = Claims(tmp_path / "locks")
        assert not ours.take("a")
        assert ours.take("b")
        process.kill()
        process.wait()
    assert ours.take("a")
    ours.release_all()
    assert not list((tmp_path / "locks").iterdir())


def full_for(monkeypatch, full):
    """Let files be written, but for those of whose path ``full`` says that there is no room."""
    write = Path.write_bytes

    def limited(self, content):
        if full(self):
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(self, content)

    monkeypatch.setattr(Path, "write_bytes", limited)


def test_a_full_disk_is_found_out_before_the_training(monkeypatch):
    monkeypatch.setattr("tempfile.TemporaryFile", lambda **_: io.FileIO("/dev/full", "wb"))
    monkeypatch.setattr(LoopBackend, "collect", lambda *_: pytest.fail("trained"))
    with pytest.raises(FedreproError, match=r"results/runs: no file can be written.*No space left"):
        session.train([planned(5)], TrainOptions(backend="loop"))
    assert list(records.FOLDER.glob("*")) == []


@pytest.mark.parametrize("left", [".checkpoints", "elsewhere"])
def test_a_record_that_has_no_room_after_the_training_is_kept(monkeypatch, tmp_path, left):
    run = planned(5)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "elsewhere"))
    with monkeypatch.context() as patch:
        full_for(patch, lambda file: run.id in file.name and left not in str(file.absolute()))
        with pytest.raises(FedreproError, match=rf"{run.id}\.json.*No space left.*kept as") as told:
            session.train([run], TrainOptions(backend="loop"))
    kept = Path(str(told.value).partition("kept as ")[2].partition(",")[0])
    assert kept.parent.name == left
    assert not records.is_recorded(run.id)
    monkeypatch.setattr(LoopBackend, "collect", lambda *_: pytest.fail("trained again"))
    kept.rename(records.path_of(run.id))
    assert session.train([run], TrainOptions(backend="loop")) == 0


def test_a_run_that_ended_on_a_full_disk_is_not_trained_again(monkeypatch):
    run = planned(5)
    with monkeypatch.context() as patch:
        full_for(patch, lambda file: run.id in file.name)
        with pytest.raises(FedreproError, match=rf"{run.id}\.json.*No space left"):
            session.train([run], TrainOptions(backend="loop"))
    assert list(records.FOLDER.glob("*")) == []
    monkeypatch.setattr(LoopBackend, "collect", lambda *_: pytest.fail("trained again"))
    assert session.train([run], TrainOptions(backend="loop")) == 1  # from its checkpoint
    assert len(records.read(run.id).metrics["train_loss"]) == 2


def test_an_out_that_fails_too_does_not_hide_where_a_record_is_kept(monkeypatch, tmp_path):
    run = planned(5)

    def fails(*_):
        raise FedreproError("new.tar: cannot write")

    monkeypatch.setattr(session.transfer, "write", fails)
    full_for(monkeypatch, lambda file: run.id in file.name and ".checkpoints" not in str(file))
    with pytest.raises(FedreproError, match=r"(?s)kept as .*\nnew\.tar: cannot write$"):
        session.train([run], TrainOptions(backend="loop", out=tmp_path / "new.tar"))


def test_an_out_that_fails_leaves_an_interrupt_what_it_is_and_no_claim(
    monkeypatch, tmp_path, capsys
):
    def fails(*_):
        raise FedreproError("new.tar: cannot write")

    monkeypatch.setattr(session.transfer, "write", fails)
    with ends_after(3, KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        session.train([planned(5)], TrainOptions(backend="loop", out=tmp_path / "new.tar"))
    assert "new.tar: cannot write" in capsys.readouterr().err
    assert {file.suffix for file in session.CHECKPOINTS.iterdir()} == {".pt"}


def test_a_second_interrupt_while_the_backend_is_closed_leaves_no_claim(monkeypatch, tmp_path):
    """As Ctrl-C twice in a notebook, whose process goes on and may train the runs again."""

    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(LoopBackend, "close", interrupted)
    out = tmp_path / "new.tar"
    with ends_after(3, KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        session.train([planned(5)], TrainOptions(backend="loop", out=out))
    assert {file.suffix for file in session.CHECKPOINTS.iterdir()} == {".pt"}
    assert out.exists()


@pytest.mark.parametrize(
    ("out", "message"),
    [("file/new.tar", "/file: a file, or a link"), (".", r"^\.: not a whole tar file")],
)
def test_an_out_that_cannot_be_written_is_found_out_before_the_training(monkeypatch, out, message):
    Path("file").touch()
    monkeypatch.setattr(LoopBackend, "collect", lambda *_: pytest.fail("trained"))
    with pytest.raises(FedreproError, match=message):
        session.train([planned(5)], TrainOptions(backend="loop", out=Path(out)))
