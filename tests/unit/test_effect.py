"""Runs that train nothing, in whole or in part, say so."""

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_runs
import torch
from small_runs import drive_runs

from fedrepro.base.errors import FedreproError
from fedrepro.fl.algorithms import ALGORITHMS, participants
from fedrepro.fl.engine.effect import Effect
from fedrepro.fl.engine.loop import LoopBackend
from fedrepro.fl.federation import Federation
from fedrepro.fl.requests import Lane, Objective, Predict, Steps, Train, Trained
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
        {"optimizer": {"name": "sgd", "lr": 1e-12}, "rounds": 1},
        {"batch": 500_000, "last_batch": "drop"},
    ],
    ids=["SGD", "Adam", "a single round", "no whole batch"],
)
def test_a_run_that_changes_no_weight_fails_at_once(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    reason = failure(small_runs.planned(**changes).spec, tmp_path)
    assert reason is not None
    assert "round 1: training changed no weight of any model: the step size" in reason


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
        assert "round 3: training changed no weight" in reason


@pytest.mark.parametrize("lanes", ["all", "none"])
def test_a_round_may_leave_the_global_model_as_it_is(
    lanes: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as a first one that only makes SCAFFOLD's control variates, or asks for nothing."""
    original = ALGORITHMS["feddyn"].round

    def a_round(fed: Federation, state: Any, t: int) -> Steps:
        if t > 0:
            return (yield from original(fed, state, t))
        clients = fed.participants(t, None) if lanes == "all" else []
        trained = yield from participants.train(fed, state.weights, clients, t, Objective())
        for k, result in zip(clients, trained, strict=True):
            change = result.weights - state.weights
            state.gradients[k] = change[: fed.layout.parameters]
        return {"train_loss": 0.0, "norm": 0.0}

    small_runs.change_algorithm(monkeypatch, "feddyn", round=a_round)
    feddyn = {"name": "feddyn", "alpha": 0.1}
    assert failure(small_runs.planned(algorithm=feddyn, rounds=2).spec, tmp_path) is None


def test_running_statistics_are_no_trained_weights() -> None:
    start = torch.ones(3)
    request = Train([Lane(start, np.arange(2), ("client", 0))], 0)
    for changed, trains in ([1.0, 1.0, 5.0], False), ([1.0, 1.1, 1.0], True):
        effect = Effect(2, shown=False)
        effect.watch(request, [Trained(torch.tensor(changed), 0.5, None)])
        with contextlib.nullcontext() if trains else pytest.raises(FedreproError):
            effect.require(0)


def test_only_the_first_round_must_change_something(tmp_path: Path) -> None:
    decaying = small_runs.planned(optimizer=SGD | {"lr_decay": 1e-12}).spec
    assert failure(decaying, tmp_path) is None


@pytest.mark.parametrize(
    ("alpha", "idle", "text"),
    [
        (0.5, 1, "1 client of a round holds less than a batch of 32 and takes no step"),
        (0.4, 2, "2 clients of a round hold less than a batch of 32 and take no step"),
    ],
)
def test_clients_without_a_whole_batch_are_told_and_recorded(
    alpha: float, idle: int, text: str, capfd: pytest.CaptureFixture[str]
) -> None:
    skewed = {"scheme": "quantity_skew", "clients": 6, "alpha": alpha, "smallest": 1}
    run = small_runs.planned(partition=skewed, batch=32, last_batch="drop")
    assert session.train([run]) == 1
    record = records.read(run.id)
    held = [sum(counts) for counts in record.partition.counts]
    assert sum(examples < 32 for examples in held) == idle
    assert record.provenance.idle_clients == idle
    said = [line for line in capfd.readouterr().err.splitlines() if "no step" in line]
    assert len(said) == 1
    assert f"{run.id} (made_up group seed=5): {text} (last_batch: drop)" in said[0]


def test_a_record_of_clients_that_all_train_says_nothing_of_idle_ones() -> None:
    run = small_runs.planned()
    session.train([run])
    assert "idle_clients" not in records.path_of(run.id).read_text()


def test_a_probe_may_leave_the_model_as_it_is(tmp_path: Path) -> None:
    probe = small_runs.planned(algorithm={"name": "probe"}, rounds=1).spec
    assert failure(probe, tmp_path) is None
