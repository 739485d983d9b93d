"""Runs that train nothing, in whole or in part, say so."""

from pathlib import Path
from typing import Any

import pytest
import small_runs
from small_runs import drive_runs

from fedrepro.fl.algorithms import ALGORITHMS
from fedrepro.fl.engine.loop import LoopBackend
from fedrepro.fl.federation import Federation
from fedrepro.fl.requests import Predict, Steps
from fedrepro.fl.spec import RunSpec
from fedrepro.runs import records, session

SGD = {"name": "sgd", "lr": 0.05}
FEDOPT = {"name": "fedopt", "conflict_examples": 20}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def failure(spec: RunSpec, tmp_path: Path) -> str | None:
    """Train a run; return why it failed, or None."""
    failures: dict[str, Any] = {}
    drive_runs([spec], LoopBackend(), tmp_path, lambda _: None, failures.setdefault)
    return str(*failures.values()) if failures else None


@pytest.mark.parametrize(
    "changes",
    [
        {"optimizer": {"name": "sgd", "lr": 1e-12}},
        {"optimizer": {"name": "adam", "lr": 1e-30}},
        {"algorithm": FEDOPT | {"server_lr": 1e-15}},
        {"batch": 500_000, "last_batch": "drop"},
    ],
    ids=["SGD", "Adam", "step size of the server", "no whole batch"],
)
def test_a_run_that_changes_no_weight_fails_at_once(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    reason = failure(small_runs.planned(**changes).spec, tmp_path)
    assert reason is not None
    assert "training changed no weight in 1 round:" in reason


@pytest.mark.parametrize(
    "changes",
    [{"optimizer": {"name": "sgd", "lr": 1e-4}}, {"algorithm": FEDOPT | {"server_lr": 1e-3}}],
    ids=["client", "server"],
)
def test_small_step_sizes_train(changes: dict[str, Any], tmp_path: Path) -> None:
    assert failure(small_runs.planned(**changes).spec, tmp_path) is None


@pytest.mark.parametrize("lr", [0.05, 1e-12])
def test_rounds_before_the_first_training_need_not_change_anything(
    lr: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as one that only groups the clients."""
    original = ALGORITHMS["sgd"].round

    def a_round(fed: Federation, state: Any, t: int) -> Steps:
        if t < 2:
            yield Predict([state.weights], "test")
            return {"train_loss": 0.0}
        return (yield from original(fed, state, t))

    small_runs.change_algorithm(monkeypatch, "sgd", round=a_round)
    spec = small_runs.planned(algorithm={"name": "sgd"}, optimizer=SGD | {"lr": lr}, rounds=4).spec
    reason = failure(spec, tmp_path)
    if lr > 0.01:
        assert reason is None
    else:
        assert reason is not None
        assert "training changed no weight in 3 rounds:" in reason


def test_only_the_first_round_must_change_something(tmp_path: Path) -> None:
    decaying = small_runs.planned(optimizer=SGD | {"lr_decay": 1e-12}).spec
    assert failure(decaying, tmp_path) is None


def test_clients_without_a_whole_batch_are_told_and_recorded(
    capfd: pytest.CaptureFixture[str],
) -> None:
    skewed = {"scheme": "quantity_skew", "clients": 6, "alpha": 0.5, "smallest": 1}
    run = small_runs.planned(partition=skewed, batch=32, last_batch="drop")
    assert session.train([run]) == 1
    record = records.read(run.id)
    held = [sum(counts) for counts in record.partition.counts]
    idle = sum(examples < 32 for examples in held)
    assert 0 < idle < 6, "the partition should have small and large clients"
    assert record.provenance.idle_clients == idle
    said = [line for line in capfd.readouterr().err.splitlines() if "take no step" in line]
    assert len(said) == 1
    assert f"{run.id}: {idle} clients of a round hold less than a batch of 32" in said[0]


def test_a_record_of_clients_that_all_train_says_nothing_of_idle_ones() -> None:
    run = small_runs.planned()
    session.train([run])
    assert "idle_clients" not in records.path_of(run.id).read_text()


def test_a_probe_may_leave_the_model_as_it_is(tmp_path: Path) -> None:
    probe = small_runs.planned(algorithm={"name": "probe"}, rounds=1).spec
    assert failure(probe, tmp_path) is None
