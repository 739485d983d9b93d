"""Recorded runs as data frames."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from made_up import content

from fedrepro.base.errors import FedreproError
from fedrepro.base.paths import root
from fedrepro.runs import records
from fedrepro.runs.runset import Evaluated, MissingRunsError, RunSet

GROUP = "centralised"


@pytest.fixture
def runs(tmp_path: Path, write_record: Any) -> RunSet:
    """Runs of four rounds, evaluated after every second."""
    runs = RunSet("selective", "smoke", tmp_path)
    for run in runs.members([GROUP]):
        metrics = {
            "evaluated_rounds": [2, 4],
            "accuracy": [0.5, 0.75],
            "train_loss": [8.0, 4.0, 2.0, 1.0],
        }
        write_record(run, tmp_path, metrics=metrics, final={"accuracy": 0.75, "inner": {"a": 3}})
    return runs


def test_rounds_of_a_curve_are_rounds_done(runs: RunSet) -> None:
    def points(metric: str) -> list[tuple[int, float]]:
        curve = runs.curves([GROUP], metric)
        first = curve[curve["run"] == runs.members([GROUP])[0].id]
        return list(zip(first["round"], first["value"], strict=True))

    assert points("train_loss") == [(1, 8.0), (2, 4.0), (3, 2.0), (4, 1.0)]
    assert points("accuracy") == [(2, 0.5), (4, 0.75)]


def test_final_metrics_may_be_nested(runs: RunSet) -> None:
    final = runs.final([GROUP], ["accuracy", "inner.a"])
    assert set(zip(final["accuracy"], final["inner.a"], strict=True)) == {(0.75, 3)}
    assert list(final["run"]) == [run.id for run in runs.members([GROUP])]


def test_a_metric_that_is_not_recorded_is_named(runs: RunSet) -> None:
    run = runs.members([GROUP])[0]
    with pytest.raises(
        FedreproError,
        match=rf"{run.id} \({GROUP}\) records no metric 'los'; it has accuracy, evaluated_rounds",
    ):
        runs.curves([GROUP], "los")
    for name in ("los", "inner.b", "accuracy.a"):
        with pytest.raises(
            FedreproError, match=rf"records no final metric '{name}'; delete"
        ) as error:
            runs.final([GROUP], [name])
        assert str(records.path_of(run.id, runs._folder)) in str(error.value)


def test_recorded_runs_are_all_there_is_where_asked_for(runs: RunSet, tmp_path: Path) -> None:
    gone, *kept = runs.members([GROUP])
    records.path_of(gone.id, tmp_path).unlink()
    recorded = runs.recorded()
    assert recorded.members([GROUP]) == kept
    assert recorded.planned([GROUP]) == runs.members([GROUP]) == [gone, *kept]
    assert recorded.missing([GROUP]) == runs.missing([GROUP]) == [gone]
    ids = [run.id for run in kept]
    assert list(recorded.final([GROUP], ["accuracy"])["run"]) == ids
    assert list(recorded.curves([GROUP], "accuracy")["run"].unique()) == ids
    with pytest.raises(MissingRunsError):
        runs.final([GROUP], ["accuracy"])


def test_fewer_seeds_do_where_one_of_a_point_is_recorded(tmp_path: Path) -> None:
    """Of a point without any record all runs stay, so that asking for it fails by name."""
    runs = RunSet("emd", "lite", tmp_path)
    sweep = runs.planned(["mnist_sweep"])
    first = sweep[0].point
    kept = [run for run in sweep if run.point == first][1:3]
    for run in kept:
        records.write(content(run), tmp_path)
    fewer = runs.recorded_seeds()
    left = [run for run in sweep if run in kept or run.point != first]
    assert len(kept) < len(left) < len(sweep)
    assert fewer.members(["mnist_sweep"]) == left
    assert runs.members(["mnist_sweep"]) == sweep
    with pytest.raises(MissingRunsError, match=r"mnist_sweep"):
        fewer.final(["mnist_sweep"], ["accuracy"])


def test_nothing_recorded_is_an_error_and_nothing_planned_is_not(runs: RunSet) -> None:
    for run in runs.members([GROUP]):
        records.path_of(run.id, runs._folder).unlink()
    recorded = runs.recorded()
    for ask in (recorded.final, recorded.curves):
        with pytest.raises(MissingRunsError, match=rf"of the runs for group '{GROUP}', such as"):
            ask([GROUP], "accuracy")
    assert recorded.final([], ["accuracy"]).empty


def test_of_groups_without_runs_none_is_missed(tmp_path: Path) -> None:
    few = RunSet("tricks", "paper", tmp_path).recorded()
    with pytest.raises(MissingRunsError, match=r"for group 'choice_masks_best', such as \w+ \("):
        few.some(["choice_pixels_niid", "choice_masks_best"])
    assert few.some(["choice_pixels_niid"]) == []


def test_runs_that_need_a_gpu_are_to_be_trained_on_one(tmp_path: Path) -> None:
    for paper, option in (("fedcd", " --device cuda"), ("emd", "")):
        runs = RunSet(paper, "paper" if option else "lite", tmp_path)
        (run, *_) = runs.planned(runs.plan.runs)
        assert run.needs_gpu == bool(option)
        assert run.command == f"fedrepro train {run.id}{option}"
        with pytest.raises(MissingRunsError, match=rf"--scale {runs.scale}{option}`$"):
            runs.require([run.group], "this")


def test_what_accuracies_are_measured_on(runs: RunSet) -> None:
    assert runs.evaluated([GROUP]) == Evaluated(10, 500)
    assert runs.evaluated([GROUP]).chance == 0.1
    assert RunSet("cadis", "paper").evaluated(["cifar100_mc_fedavg"]).chance == 0.01


def test_where_no_record_is_looked_for_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jupyter opens a notebook in its folder; all runs seem to lack a record there."""
    monkeypatch.chdir(root() / "notebooks")
    for folder in (None, Path("results/runs")):
        with pytest.raises(FedreproError, match=f"run it in {root()}: records are looked up in"):
            RunSet("tricks", "lite", folder)
    RunSet("tricks", "lite", root() / "results/runs")
