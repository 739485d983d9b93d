"""Identity: what changes a run's id, what does not, and ids pinned for good."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError
from small_runs import change_algorithm

from fedrepro.fl.partition.emd import EmdShift
from fedrepro.fl.spec import (
    RunSpec,
    canonical_json,
    component_versions,
    identity,
    partition_id,
    run_id,
    spec_dict,
)

BASE: dict[str, Any] = {
    "dataset": {"name": "mnist"},
    "partition": {"scheme": "emd_shift", "clients": 10, "emd": 1.44, "per_class": 5400},
    "model": {"name": "mnist_cnn"},
    "algorithm": {"name": "fedavg"},
    "optimizer": {"name": "sgd", "lr": 0.01, "lr_decay": 0.995},
    "batch": 100,
    "rounds": 500,
    "seed": 0,
}

CLUSTERS = {"scheme": "label_clusters", "clusters": [5, 5], "per_label": 3}
SHARED_PARTITION = {"scheme": "balanced_percent", "clients": 3, "percent": 50}


def spec(**changes: Any) -> RunSpec:
    return RunSpec.model_validate(BASE | changes)


def test_pinned_ids() -> None:
    """These never change: committed records are named so (see tests/golden for more)."""
    assert run_id(spec()) == "867e7114c974"
    assert run_id(spec(seed=1)) == "5635ac66cb78"
    assert run_id(spec(partition=SHARED_PARTITION, algorithm={"name": "local"})) == "e79ceff41481"
    assert partition_id(spec()) == "8b8e67ed9271"
    assert partition_id(spec(partition=SHARED_PARTITION)) == "a49637ad3ee9"


def test_defaults_are_left_out() -> None:
    written_out = {"local_epochs": 1, "evaluate_every": 1, "init_seed": None}
    model = {"name": "mnist_cnn", "width": 1.0}
    optimizer = BASE["optimizer"] | {"momentum": 0.0, "nesterov": False}
    same = spec(**written_out, model=model, optimizer=optimizer)
    assert spec_dict(same) == spec_dict(spec())
    assert run_id(same) == run_id(spec())
    assert "local_epochs" not in spec_dict(same)


@pytest.mark.parametrize(
    ("last_batch", "examples", "steps"),
    [
        ("keep", 30, 6),
        ("keep", 31, 8),
        ("drop", 31, 6),
        ("drop", 9, 0),
        ("drop_single", 31, 6),
        ("drop_single", 32, 8),
    ],
)
def test_local_steps(last_batch: str, examples: int, steps: int) -> None:
    run = spec(batch=10, local_epochs=2, last_batch=last_batch)
    assert run.local_steps(examples) == steps


def test_equal_numbers_are_equal() -> None:
    emd_as_integer = {"scheme": "emd_shift", "clients": 10, "emd": 1, "per_class": 5400}
    emd_as_float = emd_as_integer | {"emd": 1.0}
    assert run_id(spec(partition=emd_as_integer)) == run_id(spec(partition=emd_as_float))


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"batch": 99},
        {"rounds": 501},
        {"local_epochs": 2},
        {"evaluate_every": 2},
        {"init_seed": 0},
        {"dataset": {"name": "cifar10"}},
        {"dataset": {"name": "mnist", "transform": "standard"}},
        {"model": {"name": "mnist_cnn", "width": 0.5}},
        {"algorithm": {"name": "sgd"}},
        {"algorithm": {"name": "fedavg", "optimizer_state": "keep"}},
        {"optimizer": {"name": "sgd", "lr": 0.01}},
        {"partition": BASE["partition"] | {"emd": 1.62}},
    ],
)
def test_everything_in_a_spec_is_identity(change: dict[str, Any]) -> None:
    assert run_id(spec(**change)) != run_id(spec())


def test_a_version_renames_the_runs_that_use_it(monkeypatch: pytest.MonkeyPatch) -> None:
    before, other = run_id(spec()), run_id(spec(algorithm={"name": "sgd"}))
    change_algorithm(monkeypatch, "fedavg", version=99)
    assert run_id(spec()) != before
    assert run_id(spec(algorithm={"name": "sgd"})) == other


def test_a_partition_is_named_by_what_it_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    assert partition_id(spec(rounds=1, algorithm={"name": "sgd"})) == partition_id(spec())
    assert partition_id(spec(seed=1)) != partition_id(spec())
    assert partition_id(spec(dataset={"name": "cifar10"})) != partition_id(spec())
    shared = spec(partition=SHARED_PARTITION)
    assert partition_id(shared) == partition_id(shared.model_copy(update={"seed": 1}))
    before = partition_id(spec())
    change_algorithm(monkeypatch, "fedavg", version=99)
    assert partition_id(spec()) == before
    monkeypatch.setattr(EmdShift, "version", 99)
    assert partition_id(spec()) != before


def test_a_record_gives_its_id_again() -> None:
    """Through JSON and back, as in a record file."""
    plain = json.loads(json.dumps(spec_dict(spec())))
    assert identity(plain, component_versions(plain)) == run_id(spec())


def test_canonical_json() -> None:
    assert (
        canonical_json({"b": 1.0, "a": [True, None, "ä"]}) == '{"a":[true,null,"\\u00e4"],"b":1.0}'
    )
    with pytest.raises(ValueError, match="Out of range"):
        canonical_json(float("nan"))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"batchsize": 3}, "batchsize"),
        ({"batch": 0}, "greater than or equal to 1"),
        ({"rounds": True}, "rounds: true is no number"),
        ({"algorithm": {"name": "fedcd", "milestones": [True]}}, "milestones: true is no number"),
        ({"optimizer": {"name": "sgd", "lr": True}}, "lr: true is no number"),
        ({"evaluate_every": False}, "evaluate_every: false is no number"),
        ({"optimizer": {"name": "sgd", "lr": float("inf")}}, "finite"),
        ({"optimizer": {"name": "sgd", "lr": 0.1, "nesterov": True}}, "nesterov needs momentum"),
        (
            {"optimizer": {"name": "sgd", "lr": 0.1, "weight_decay": 1e39}},
            r"optimizer\.weight_decay: 1e\+39 is too large for float32",
        ),
        ({"algorithm": {"name": "fedprox", "mu": 1e300}}, r"algorithm\.mu: 1e\+300 is too large"),
        ({"partition": {"scheme": "iid", "clients": 3}}, "iid_plain"),
        (
            {"partition": {"scheme": "emd_shift", "clients": 3, "emd": 2.1, "per_class": 1}},
            r"emd\n.*less than or equal to 2",
        ),
        ({"partition": CLUSTERS | {"clusters": [-1, 11]}}, r"clusters\.0\n.*than or equal to 1"),
        ({"partition": CLUSTERS | {"per_label": [0, 5]}}, r"per_label\..*\.0\n.*or equal to 1"),
        ({"partition": CLUSTERS | {"spread": -0.1}}, r"spread\.\S+\n.*or equal to 0"),
    ],
)
def test_wrong_specs_are_refused(change: dict[str, Any], text: str) -> None:
    with pytest.raises(ValidationError, match=text):
        spec(**change)


def test_specs_are_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        spec().batch = 3  # type: ignore[misc]
