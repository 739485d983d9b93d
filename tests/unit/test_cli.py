"""What the command line refuses before it does anything."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from fedrepro.base.paths import root
from fedrepro.cli import main
from fedrepro.report import verdicts


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test trains or judges, even if nothing is refused."""
    monkeypatch.chdir(tmp_path)
    training = SimpleNamespace(train=lambda *_, **__: pytest.fail("trained"))
    monkeypatch.setitem(sys.modules, "fedrepro.runs.session", training)
    monkeypatch.setattr(verdicts, "check", lambda *_: pytest.fail("judged"))


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 1
    out, error = capsys.readouterr()
    assert out == ""
    assert error.startswith("fedrepro: ")
    return error.removeprefix("fedrepro: ").rstrip("\n")


@pytest.mark.parametrize("runs", [[], ["--pending", "0123456789ab"]])
def test_runs_to_train_are_named_in_one_way(
    capsys: pytest.CaptureFixture[str], runs: list[str]
) -> None:
    error = refusal(capsys, "train", "--paper", "tricks", *runs)
    assert error == "fedrepro train: give run ids or plans, or --pending, and not both"


def test_an_unknown_run_is_not_trained(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    error = refusal(capsys, "train", "--paper", "tricks", "--scale", "smoke", "0123456789ab")
    assert error == (
        "no planned run has the id 0123456789ab; `fedrepro status --list` shows the ids"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("pause", ["nan", "inf", "-1"])
def test_checkpoints_are_seconds_apart(capsys: pytest.CaptureFixture[str], pause: str) -> None:
    with pytest.raises(SystemExit):
        main(["train", "--pending", f"--checkpoint-seconds={pause}"])
    message = f"argument --checkpoint-seconds: {pause}: must be a number of seconds, or 0"
    assert message in capsys.readouterr().err


def test_releases_are_made_in_the_repository(capsys: pytest.CaptureFixture[str]) -> None:
    assert refusal(capsys, "check", "--release", "--paper", "tricks") == (
        f"run it in {root()}: the released verdicts are made from the records there"
    )


def test_documents_are_made_in_the_repository(capsys: pytest.CaptureFixture[str]) -> None:
    assert refusal(capsys, "docs", "--check") == (
        f"run it in {root()}: the numbers in the documents are made from the records there"
    )


def test_folders_of_the_repository_hold_no_records(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root() / "src/fedrepro")
    assert refusal(capsys, "status", "--paper", "tricks") == (
        f"run it in {root()}: records are looked up in ./results/runs"
    )
