"""Signals that end a training as Ctrl-C does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from small_runs import planned

from fedrepro.base import files
from fedrepro.fl.engine.jobs import Answer
from fedrepro.fl.engine.loop import LoopBackend
from fedrepro.runs import command, records, session, training, transfer
from fedrepro.runs.locks import Claims
from fedrepro.runs.messages import Messages
from fedrepro.runs.options import TrainArguments, TrainOptions
from fedrepro.runs.plan import PlannedRun
from fedrepro.runs.stopping import STOPPING, Stopped, interrupting, signal_of


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in STOPPING}
    for number in STOPPING:
        signal.signal(number, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", STOPPING)
def test_a_signal_is_an_interrupt_that_knows_its_name(number: signal.Signals) -> None:
    with pytest.raises(Stopped) as stopped, interrupting():
        os.kill(os.getpid(), number)
    assert signal_of(stopped.value) == number
    assert signal_of(KeyboardInterrupt()) == signal.SIGINT
    assert signal.getsignal(number) == signal.SIG_DFL


def test_signals_that_follow_do_not_end_what_is_being_saved() -> None:
    saved = []

    def train() -> None:
        try:
            os.kill(os.getpid(), signal.SIGHUP)
        finally:
            for number in STOPPING * 2:
                os.kill(os.getpid(), number)
            saved.append("checkpoint")

    with pytest.raises(Stopped) as stopped, interrupting():
        train()
    assert saved
    assert stopped.value.signal == signal.SIGHUP


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    """As ``nohup`` starts a program."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with interrupting():
        os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN


@pytest.mark.parametrize(
    ("reason", "status", "text"),
    [
        (KeyboardInterrupt(), 130, "fedrepro: interrupted\n"),
        (Stopped(signal.SIGTERM), 143, "fedrepro: stopped by SIGTERM\n"),
        (Stopped(signal.SIGHUP), 129, "fedrepro: stopped by SIGHUP\n"),
        (MemoryError("146 MiB"), 1, "fedrepro: not enough memory (146 MiB); end other programs"),
    ],
)
def test_a_command_that_cannot_go_on_ends_with_a_status_and_a_message(
    capsys: pytest.CaptureFixture[str], reason: BaseException, status: int, text: str
) -> None:
    def work() -> None:
        raise reason

    assert command.carry_out(work) == status
    assert capsys.readouterr().err.startswith(text)


LOST = """
import os
from fedrepro.base.errors import DeviceFailed
from fedrepro.runs.command import carry_out

class OnTheDevice:
    def __del__(self):
        os.abort()  # as PyTorch does where it frees memory of a lost device

def work():
    tensor = OnTheDevice()
    print("a record was written")
    raise DeviceFailed("cuda:0 failed in mid-training")

kept = OnTheDevice()
raise SystemExit(carry_out(work))
"""


def test_a_lost_device_ends_a_command_without_freeing_what_lies_on_it() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", LOST], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert ended.stdout == "a record was written\n"
    assert ended.stderr == "fedrepro: cuda:0 failed in mid-training\n"


def test_what_an_interrupt_leaves_half_written_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "kept.json"
    kept.write_text("{}")

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        files.write_text(tmp_path / "record.json", "{}")
    with pytest.raises(KeyboardInterrupt):
        transfer.write(tmp_path / "new.tar", [kept])
    assert list(tmp_path.iterdir()) == [kept]


@pytest.mark.parametrize("number", STOPPING)
def test_a_signal_while_a_training_ends_leaves_the_file_of_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """The next training would find the runs recorded, and hand over none."""
    monkeypatch.chdir(tmp_path)
    run, write = planned(), transfer.write

    def interrupted(out: Path, files: Sequence[Path]) -> None:
        os.kill(os.getpid(), number)
        write(out, files)

    monkeypatch.setattr(transfer, "write", interrupted)
    with pytest.raises(Stopped) as stopped, interrupting():
        session.train([run], TrainOptions(backend="loop", out=Path("new.tar")))
    assert stopped.value.signal == number
    with tarfile.open("new.tar") as tar:
        assert tar.getnames() == [records.path_of(run.id).as_posix()]


class Preempted:
    """An object in whose finalizer a signal comes: Python drops what the handler raises."""

    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("where", ["trained here", "waited for"])
def test_a_signal_in_a_finalizer_ends_a_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.chdir(tmp_path)
    run, others = planned(), Claims(session.CHECKPOINTS)
    options = TrainOptions(backend="loop", wait=True)
    if where == "trained here":
        collect = LoopBackend.collect

        def late(backend: LoopBackend, deadline: float) -> list[Answer]:
            Preempted()
            return collect(backend, deadline)

        monkeypatch.setattr(LoopBackend, "collect", late)
    else:
        others.take(run.id)
        monkeypatch.setattr(Messages, "waiting", lambda *_: Preempted())
    with pytest.raises(Stopped) as stopped, interrupting():
        session.train([run], options)
    assert stopped.value.signal == signal.SIGTERM
    assert not run.recorded
    others.release_all()


def test_a_signal_while_plans_are_read_is_not_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pydantic drops what a handler raises while Python code answers whether 200 is a mapping."""

    def interrupted(*_: object) -> list[PlannedRun]:
        Preempted()
        return [planned()]

    monkeypatch.setattr(command, "selected", interrupted)
    with pytest.raises(Stopped) as stopped:
        training.train(TrainArguments(pending=True))
    assert stopped.value.signal == signal.SIGTERM
