"""Other data than a data set's description means: refused, or runs of their own."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from made_up import content
from tiny_data import read_registry, tiny_root, write_official, write_registry

import fedrepro as fr
from fedrepro.base.errors import FedreproError
from fedrepro.cli import main
from fedrepro.fl import data
from fedrepro.fl.data import commands, packs, sources
from fedrepro.fl.data.dataset import ANY, labels_sha256
from fedrepro.fl.spec import RunSpec, partition_id, run_id
from fedrepro.runs import plan, plan_files, records
from fedrepro.runs.plan import PlannedRun

OFFICIAL, OTHER = Path("official"), Path("other")
PLAN: dict[str, Any] = {
    "paper": "mine",
    "title": "On other data",
    "defaults": {
        "dataset": {"name": "mnist"},
        "partition": {"scheme": "iid_plain", "clients": 2},
        "model": {"name": "liu1"},
        "algorithm": {"name": "fedavg"},
        "optimizer": {"name": "sgd", "lr": 0.1},
        "batch": 10,
        "rounds": 1,
    },
    "seeds": [0],
    "runs": {"fedavg": {"title": "FedAvg"}},
}


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work where a pack holds the tiny MNIST, and another one the same with permuted labels."""
    tiny_root(tmp_path, monkeypatch)
    monkeypatch.setenv(plan_files.OWN_PLANS, "")
    write_official("mnist", Path("data/raw"))
    commands.pack(OFFICIAL, ["mnist"])
    meant = data.load("mnist", OFFICIAL)
    registry = read_registry(tmp_path)
    registry["datasets"]["mnist"]["content"] = {
        "official": meant.sha256,
        "labels": labels_sha256(meant.train_y, meant.test_y),
    }
    write_registry(tmp_path, registry)
    repack(lambda arrays: arrays.update(y_train=arrays["y_train"][::-1]))
    return tmp_path


def repack(change: Callable[[dict[str, Any]], object]) -> None:
    """Write the pack `OTHER`: the official one with changed arrays and with fresh checksums."""
    with np.load(OFFICIAL / "mnist.npz") as arrays:
        changed = dict(arrays)
    change(changed)
    packs.publish(OTHER, {"mnist.npz": lambda path: np.savez(path, **changed)})
    sources._load.cache_clear()


@pytest.mark.parametrize(
    "read",
    [
        lambda: data.load("mnist", OTHER),
        lambda: data.labels("mnist", OTHER),
        lambda: commands.verify(["mnist"], OTHER),
        lambda: commands.prepare("mnist", Path("ready.json"), OTHER),
        lambda: commands.pack(Path("third"), ["mnist"], OTHER),
        lambda: commands.import_pack(OTHER),
        lambda: fr.load("mnist", OTHER),
    ],
)
def test_permuted_labels_with_fresh_checksums_are_refused(read: Callable[[], object]) -> None:
    with pytest.raises(FedreproError, match=r"pack other: .*other data.*--allow-other-data"):
        read()
    assert not any(Path(made).exists() for made in ("ready.json", "third", "data/pack"))


def test_other_data_are_read_where_they_are_named() -> None:
    found = data.load("mnist", OTHER, content=ANY)
    assert found.other
    assert not data.load("mnist", OFFICIAL).other
    assert found.note.startswith("Other data than those that are meant")
    assert data.load("mnist", OTHER, content=found.sha256) is found
    assert data.labels("mnist", OTHER, content=found.sha256)[0].tolist() == found.train_y.tolist()
    commands.prepare("mnist", Path("ready.json"), OTHER, content=found.sha256)
    assert json.loads(Path("ready.json").read_text())["sha256"] == found.sha256
    with pytest.raises(FedreproError, match=r"dataset\.content asks for 00000"):
        data.load("mnist", OTHER, content="0" * 64)
    meant = data.load("mnist", OFFICIAL)
    with pytest.raises(FedreproError, match="leave it out"):
        data.load("mnist", OFFICIAL, content=meant.sha256)


def test_official_files_are_known_by_their_own_checksums(root: Path) -> None:
    registry = read_registry(root)
    registry["datasets"]["mnist"]["content"] = {"copies": [{"sha256": "0" * 64, "note": "rough"}]}
    write_registry(root, registry)
    sources._load.cache_clear()
    assert data.load("mnist").source == "raw"
    with pytest.raises(FedreproError, match="other data"):
        data.load("mnist", OFFICIAL)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda a: a.update(x_train=a["x_train"] * 0), "training data that are 0 throughout"),
        (lambda a: a.update(x_test=a["x_test"] * 0 + 255), "test data that are 255 throughout"),
        (lambda a: a.update(y_train=a["y_train"] + 1), "training labels from 1 to 10"),
        (lambda a: a.update(y_train=a["y_train"] * 0), "training examples per class"),
        (lambda a: a.update(x_train=a["x_train"][:, :20]), "training data"),
    ],
)
def test_what_is_no_such_data_set_is_never_read(
    change: Callable[[dict[str, Any]], object], text: str
) -> None:
    repack(change)
    for allowed in (None, ANY):
        with pytest.raises(FedreproError, match=text):
            data.load("mnist", OTHER, content=allowed)


def planned() -> PlannedRun:
    plan.load_plan.cache_clear()
    plan.expand.cache_clear()
    plan_files.use_plans("mine.yaml")
    (run,) = plan.expand("mine", "lite")
    return run


def train(*options: str) -> int:
    return main(["train", "mine.yaml", f"--data-root={OTHER}", "--backend=loop", *options])


def test_training_on_other_data_makes_runs_of_their_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("mine.yaml").write_text(yaml.safe_dump(PLAN))
    run, sha256 = planned(), data.load("mnist", OTHER, content=ANY).sha256
    assert train() == 1
    assert "--allow-other-data" in capsys.readouterr().err
    assert not run.recorded
    assert train("--allow-other-data") == 0
    assert f"mnist: other data, content {sha256}" in capsys.readouterr().err
    assert not run.recorded, "the planned run is still to be trained"
    other = run.on_content(sha256)
    record = records.read(other.id, records.OWN_FOLDER)
    assert record.spec["dataset"] == {"name": "mnist", "content": sha256}
    assert record.provenance.dataset_sha256 == sha256
    assert partition_id(other.spec) != partition_id(run.spec)
    assert train("--allow-other-data") == 0
    assert "0 of 1 runs trained, 1 had a record" in capsys.readouterr().out

    PLAN_ON_OTHER = PLAN | {
        "defaults": PLAN["defaults"] | {"dataset": {"name": "mnist", "content": sha256}}
    }
    Path("mine.yaml").write_text(yaml.safe_dump(PLAN_ON_OTHER))
    assert planned().id == other.id, "a plan that names the content means the same run"
    assert planned().recorded
    assert train() == 0


def test_a_run_that_a_plan_also_has_on_the_other_data_is_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sha256 = data.load("mnist", OTHER, content=ANY).sha256
    other = {"title": "the same", "set": {"dataset": {"name": "mnist", "content": sha256}}}
    Path("mine.yaml").write_text(yaml.safe_dump(PLAN | {"runs": PLAN["runs"] | {"named": other}}))
    plan.load_plan.cache_clear()
    plan.expand.cache_clear()
    assert train("--allow-other-data") == 0
    assert "1 of 1 runs trained" in capsys.readouterr().out


def test_a_run_on_the_data_that_are_meant_keeps_its_id() -> None:
    Path("mine.yaml").write_text(yaml.safe_dump(PLAN))
    run = planned()
    explicit = RunSpec.model_validate(run.spec.model_dump() | {"dataset": {"name": "mnist"}})
    assert run_id(explicit) == run.id


def test_a_record_of_other_data_enters_nothing() -> None:
    Path("mine.yaml").write_text(yaml.safe_dump(PLAN))
    run = planned()
    made = content(run)
    records.write(made)
    records.read(run.id)
    made["provenance"]["dataset_sha256"] = data.load("mnist", OTHER, content=ANY).sha256
    records.write(made)
    with pytest.raises(FedreproError, match="trained on other data than the data set mnist"):
        records.read(run.id)
    other = run.on_content("1" * 64)
    records.write(content(other) | {"provenance": made["provenance"]})
    with pytest.raises(FedreproError, match="trained on other data"):
        records.read(other.id)


def test_the_library_takes_other_data_if_it_is_told() -> None:
    found = fr.load("mnist", OTHER, allow_other_data=True)
    how = {"model": "liu1", "rounds": 1, "seeds": 1, "device": "cpu", "workers": 1}
    parts = fr.partition("iid_plain", found, clients=2, seed=0)
    (record,) = fr.train(found, parts, **how).records
    assert record.spec["dataset"]["content"] == found.sha256
    meant = fr.load("mnist", OFFICIAL)
    parts = fr.partition("iid_plain", meant, clients=2, seed=0)
    changed = dataclasses.replace(meant, train_y=meant.train_y[::-1].copy())
    with pytest.raises(FedreproError, match=r"changed after it was loaded.*from_arrays"):
        fr.train(changed, parts, **how)
