"""`fedrepro train --time-budget`: leave on time, lose nothing, start nothing in vain."""

import fcntl
import re
import tarfile
from types import SimpleNamespace

import pytest
import small_runs
from small_runs import ends_after

from fedrepro import cli
from fedrepro.base.errors import FedreproError
from fedrepro.fl.engine import checkpoint, saved
from fedrepro.fl.engine.active import Progress, Storage
from fedrepro.fl.engine.driver import Limits, Listener, drive
from fedrepro.fl.engine.jobs import OutOfTime
from fedrepro.fl.engine.loop import LoopBackend
from fedrepro.runs import budget, messages, queue, records, session, transfer
from fedrepro.runs.budget import share_done
from fedrepro.runs.display import Log
from fedrepro.runs.messages import Messages
from fedrepro.runs.options import TrainOptions
from fedrepro.runs.progress import Pace


def planned(seed, rounds=4):
    return small_runs.planned(
        seed=seed,
        rounds=rounds,
        algorithm={"name": "fedavg", "optimizer_state": "keep"},
        optimizer={"name": "adam", "lr": 0.01},
    )


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def estimates(monkeypatch):
    """Seconds that the plan says each run takes, to be filled in by the test."""
    seconds = {}
    real = session.status

    def status(runs):
        report = real(runs)
        report.seconds.update({run: seconds.get(run, 0.001) for run in report.seconds})
        return report

    monkeypatch.setattr(session, "status", status)
    return seconds


def test_an_interrupted_run_goes_on_to_the_same_numbers(estimates, monkeypatch, tmp_path, capsys):
    run = planned(0)
    with monkeypatch.context() as elsewhere:
        (tmp_path / "whole").mkdir()
        elsewhere.chdir(tmp_path / "whole")
        session.train([run], TrainOptions(backend="loop"))
        whole = records.read(run.id)
    estimates[run.id] = 4 * 90.0
    with ends_after(5):  # two rounds of training and prediction, and the training of the third
        assert session.train([run], TrainOptions(backend="loop", time_budget=1000.0)) == 0
    assert (session.CHECKPOINTS / f"{run.id}.pt").exists()
    assert not records.is_recorded(run.id)
    said = capsys.readouterr().err
    assert "1 run left, about 3 min on one core; with a checkpoint to go on from: 1" in said
    seen = []
    monkeypatch.setattr(
        Messages, "report", lambda _, active: seen.extend(r.resumed_at for r in active)
    )
    assert session.train([run], TrainOptions(backend="loop")) == 1
    assert set(seen) == {2}
    again = records.read(run.id)
    assert (again.metrics, again.final) == (whole.metrics, whole.final)
    assert not list(session.CHECKPOINTS.iterdir())


def test_out_holds_the_new_records_and_checkpoints(estimates):
    runs = [planned(0), planned(1)]
    with ends_after(11):  # the first run and a round of the second
        session.train(
            runs, TrainOptions(backend="loop", time_budget=1000.0, out=session.Path("new/all.tar"))
        )
    with tarfile.open("new/all.tar") as tar:
        names = tar.getnames()
    assert names == [f"results/runs/{runs[0].id}.json", f".checkpoints/{runs[1].id}.pt"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_out_is_written_whatever_ends_the_training(estimates, error):
    """And what the file held stays there, but for the checkpoint of a run that was ended."""
    runs, out = [planned(0), planned(1), planned(2)], session.Path("all.tar")
    with ends_after(11):
        session.train(runs[:2], TrainOptions(backend="loop", time_budget=1000.0, out=out))
    records.path_of(runs[0].id).unlink()  # sent away before, and not here any more
    with ends_after(10, error), pytest.raises(error):
        session.train(runs[1:], TrainOptions(backend="loop", out=out))
    with tarfile.open(out) as tar:
        assert tar.getnames() == [
            f"results/runs/{runs[0].id}.json",
            f"results/runs/{runs[1].id}.json",
            f".checkpoints/{runs[2].id}.pt",
        ]


def test_out_has_the_newer_of_two_checkpoints(tmp_path):
    run, out = planned(0), session.Path("all.tar")
    for _ in range(2):
        with ends_after(3, KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
            session.train([run], TrainOptions(backend="loop", out=out))
    [file] = transfer.content(out, tmp_path / "unpacked").values()
    assert saved.read(file, run.id).progress.round == 2


def test_a_foreign_file_for_out_is_refused_before_the_training(monkeypatch):
    session.Path("thesis.tar").write_text("precious")
    monkeypatch.setattr(LoopBackend, "collect", lambda *_: pytest.fail("trained"))
    with pytest.raises(FedreproError, match=r"thesis\.tar: not a whole tar file"):
        session.train([planned(0)], TrainOptions(backend="loop", out=session.Path("thesis.tar")))
    assert session.Path("thesis.tar").read_text() == "precious"


@pytest.mark.parametrize(("cores", "fits"), [(1, False), (2, True), (0, True)])
def test_estimates_are_of_one_core_and_say_nothing_of_a_gpu(estimates, monkeypatch, cores, fits):
    run = planned(0)
    estimates[run.id] = 4 * 900.0
    backend = LoopBackend()
    backend.cores = cores
    monkeypatch.setattr(session, "make_backend", lambda *_, **__: backend)
    if fits:
        assert session.train([run], TrainOptions(time_budget=600.0)) == 1
    else:
        with pytest.raises(FedreproError, match="too short"):
            session.train([run], TrainOptions(time_budget=600.0))


def test_a_budget_too_small_for_a_gpu_names_no_shortest(monkeypatch):
    backend = LoopBackend()
    backend.cores = 0
    monkeypatch.setattr(session, "make_backend", lambda *_, **__: backend)
    message = r"too short to finish a round of any pending run$"
    with ends_after(0), pytest.raises(FedreproError, match=message):
        session.train([planned(0)], TrainOptions(time_budget=600.0))


def test_a_run_that_cannot_end_a_round_is_not_started(estimates):
    long, short = planned(0), planned(1)
    estimates[long.id] = 4 * 900.0
    assert session.train([long, short], TrainOptions(backend="loop", time_budget=600.0)) == 1
    assert records.is_recorded(short.id)
    assert not (session.CHECKPOINTS / f"{long.id}.pt").exists()
    estimates[long.id] = 4 * 500.0  # a round of it fits, and the rest is for another time
    assert session.train([long, short], TrainOptions(backend="loop", time_budget=600.0)) == 1


def test_a_budget_too_small_names_the_shortest_possible(estimates):
    long, shorter = planned(0), planned(1)
    estimates.update({long.id: 4 * 900.0, shorter.id: 4 * 300.0})
    with pytest.raises(FedreproError, match=rf"60 s is too short.*about 313 s \(run {shorter.id}"):
        session.train([long, shorter], TrainOptions(backend="loop", time_budget=60.0))
    assert not list(records.FOLDER.glob("*"))


def test_nothing_left_is_no_error():
    run = planned(0)
    session.train([run], TrainOptions(backend="loop"))
    assert session.train([run], TrainOptions(backend="loop", time_budget=0.5)) == 0


@pytest.mark.parametrize("budget", ["0", "-3", "inf", "nan"])
def test_a_budget_is_a_positive_number(budget, capsys):
    assert cli.main(["train", "--pending", "--time-budget", budget]) == 2
    assert "positive number of seconds" in capsys.readouterr().err


def test_an_interrupt_from_the_keyboard_saves_the_runs_in_flight():
    run = planned(0)
    with ends_after(3, KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        session.train([run], TrainOptions(backend="loop"))
    saved = checkpoint.load(session.CHECKPOINTS / f"{run.id}.pt", run.id)
    assert saved["progress"]["round"] == 1
    assert not (session.CHECKPOINTS / f"{run.id}.lock").exists()


def test_a_lane_gives_up_at_the_deadline():
    run = planned(0)
    interrupted = drive(
        [run.spec],
        lambda spec: session.load(spec.dataset.name),
        LoopBackend(),
        Listener(
            done=lambda _: pytest.fail("there was no time"),
            failed=lambda _, failure: pytest.fail(str(failure)),
        ),
        Storage(checkpoints=session.CHECKPOINTS),
        Limits(deadline=0.0),
    )
    assert [left.id for left in interrupted] == [run.id]


def test_the_progress_line(monkeypatch, capsys):
    monkeypatch.setattr(Log, "every", 0.0)
    session.train([planned(0), planned(1)], TrainOptions(backend="loop"))
    lines = [line for line in capsys.readouterr().err.splitlines() if " in flight: " in line]
    assert lines[0].startswith("0 of 2 runs done, 1 in flight: round 1/4, ")
    assert lines[-2].startswith("1 of 2 runs done, 1 in flight: round 4/4, 1 lane, ")
    assert lines[-1].startswith("2 of 2 runs done, 0 in flight: ")
    for word in (" samples/s, ", "FLOP/s, ", " left"):
        assert all(word in line for line in lines)
    assert "100.0 %" in lines[-1]


def test_the_end_of_a_training_says_what_was_done_and_how_fast(monkeypatch, capsys):
    runs = [planned(0), planned(1)]
    session.train(runs, TrainOptions(backend="loop"))
    [line] = [line for line in capsys.readouterr().err.splitlines() if line.startswith("trained")]
    assert re.fullmatch(r"trained 2 runs, [\d,]+ samples/s, [\d.]+ [TG]FLOP/s", line)
    session.train(runs, TrainOptions(backend="loop"))
    assert "trained" not in capsys.readouterr().err


@pytest.fixture
def gpu(monkeypatch):
    """A loop that passes for a GPU, on which every answer takes a second."""
    clock = SimpleNamespace(now=0.0, monotonic=lambda: clock.now, sleep=None)
    for module in (session, budget, messages, queue):
        monkeypatch.setattr(module, "time", clock)
    collect = LoopBackend.collect

    def timed(self, deadline):
        clock.now += 1.0
        if clock.now > deadline:
            raise OutOfTime
        return collect(self)

    def make(*_, **__):
        backend = LoopBackend()
        backend.cores = 0
        return backend

    monkeypatch.setattr(LoopBackend, "collect", timed)
    monkeypatch.setattr(session, "make_backend", make)
    return clock


def test_a_gpu_prefers_runs_that_can_end_in_time(gpu, estimates):
    """A round takes 2 s: after the first run 17 s are left, too few for the next in the plan."""
    first, long, short = planned(0), planned(1, rounds=40), planned(2)
    estimates.update({long.id: 1e9, short.id: 1e9})  # estimates of CPUs count for nothing
    assert session.train([first, long, short], TrainOptions(time_budget=28.0)) == 2
    assert records.is_recorded(short.id)
    saved = checkpoint.load(session.CHECKPOINTS / f"{long.id}.pt", long.id)
    assert saved["progress"]["round"] == 4  # with what was left: no time is lost


def test_a_gpu_goes_on_with_the_run_that_is_nearest_to_its_end(gpu, capsys):
    """Of those that cannot end; what a checkpoint holds of a run counts."""
    first, fresh, begun = planned(0), planned(1, rounds=40), planned(2, rounds=44)
    assert session.train([begun], TrainOptions(time_budget=30.0)) == 0
    assert share_done(begun, session.CHECKPOINTS) == 13 / 44
    assert share_done(fresh, session.CHECKPOINTS) == 0.0
    assert session.train([first, fresh, begun], TrainOptions(time_budget=30.0)) == 1
    assert share_done(begun, session.CHECKPOINTS) > 13 / 44
    assert not checkpoint.path_of(fresh.id, session.CHECKPOINTS).exists()
    assert "time is up: 2 runs left; with a checkpoint to go on from: 1" in capsys.readouterr().err
    checkpoint.path_of(begun.id, session.CHECKPOINTS).write_text("damaged")
    assert share_done(begun, session.CHECKPOINTS) == 0.0


@pytest.mark.parametrize(("now", "compared"), [(6.0, True), (8.0, False)])
def test_a_gpu_compares_no_runs_once_the_time_is_up(gpu, monkeypatch, now, compared):
    """None fits then, and each of hundreds would be compared with all that are left."""
    calls = []
    monkeypatch.setattr(Pace, "choose", lambda *_: calls.append(1) or 1)
    chosen = budget.Budget(10.0, 0, {}, session.CHECKPOINTS)
    gpu.now = now
    assert chosen.choose([planned(0), planned(1)]) == compared
    assert bool(calls) == compared


def test_what_was_done_before_says_nothing_about_the_speed(monkeypatch, capsys):
    """Half of the run was done; a quarter takes 10 s, so the last one takes 10 s more."""
    run = planned(0)
    clock = SimpleNamespace(now=100.0, monotonic=lambda: clock.now)
    monkeypatch.setattr(messages, "time", clock)
    said = Messages([run])
    active = SimpleNamespace(
        id=run.id,
        spec=run.spec,
        rounds=4,
        resumed_at=2,
        lanes=2,
        idle=0,
        progress=Progress(round=2),
    )
    said.report([active])
    clock.now, active.progress.round = 110.0, 3
    monkeypatch.setattr(Log, "every", 10.0)
    said.report([active])
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("0 of 1 runs done, 1 in flight: round 3/4, 2 lanes, ")
    assert " 75.0 %, " in line
    assert line.endswith(" 10 s left")


def test_runs_that_another_process_trains_are_not_for_this_budget(estimates, capsys):
    held = planned(0)
    session.CHECKPOINTS.mkdir()
    with (session.CHECKPOINTS / f"{held.id}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert session.train([held], TrainOptions(backend="loop", time_budget=600.0)) == 0
    assert "is being trained by another process" in capsys.readouterr().err
