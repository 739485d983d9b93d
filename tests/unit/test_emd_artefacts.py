"""Tables and figures of the paper `emd` on made-up records."""

from __future__ import annotations

import json
import math
from pathlib import Path

import matplotlib as mpl
import pytest
from emd_records import FLOOR, JITTER, RISE, World, write_all

from fedrepro import artefacts, records
from fedrepro.expected import load_expected
from fedrepro.plan import load_plan
from fedrepro.plots import FIGURES
from fedrepro.runs import MissingRunsError, RunSet
from fedrepro.tables import TABLES
from fedrepro.tables.emd import reported

mpl.use("Agg")


@pytest.fixture(scope="module")
def paper(tmp_path_factory) -> RunSet:
    return write_all(tmp_path_factory.mktemp("paper"), "paper")


@pytest.fixture(scope="module")
def smoke(tmp_path_factory) -> RunSet:
    return write_all(tmp_path_factory.mktemp("smoke"), "smoke")


def cell(frame, row, column):
    found = frame[(frame.iloc[:, 0] == row) & (frame.iloc[:, 1] == column)]
    assert len(found) == 1
    return found.iloc[0]


def test_the_plan_names_what_there_is():
    plan = load_plan("emd")
    assert set(plan.tables) == set(TABLES["emd"])
    assert set(plan.figures) == set(FIGURES["emd"])


def test_expected_counts():
    expected = load_expected("emd")
    by_artefact = [number.artefact for number in expected.all_numbers()]
    counts = {name: by_artefact.count(name) for name in set(by_artefact)}
    assert counts == {"table1": 3, "table2": 16, "table3": 5, "sweep_text": 2}
    assert sum(number.value == "sd" for number in expected.all_numbers()) == 8
    assert all(number.reason for number in expected.all_numbers())


def test_reported_is_the_mean_of_the_last_ten_rounds(tmp_path):
    runs = RunSet("emd", "smoke", tmp_path)
    run = runs.members(["sgd_large"])[0]
    content = World().record(run)
    rounds = list(range(1, 21))
    content["metrics"] = {"evaluated_rounds": rounds, "accuracy": [t / 100 for t in rounds]}
    content["metrics"]["accuracy"][2] = 0.9
    for other in runs.members(["sgd_large"])[1:]:
        records.write(World().record(other), tmp_path)
    records.write(json.loads(json.dumps(content)), tmp_path)
    row = reported(runs, ["sgd_large"]).set_index("seed").loc[run.seed]
    assert row["accuracy"] == pytest.approx(0.155)  # mean of 0.11 to 0.20
    assert row["final"] == 0.2
    assert row["best"] == 0.9
    assert row["run"] == run.id


def test_evaluations_further_apart_than_the_last_rounds_leave_the_final_one(tmp_path):
    runs = write_all(tmp_path, "smoke")
    run = runs.members(["sgd_large"])[0]
    content = World().record(run)
    content["metrics"] = {"evaluated_rounds": [20, 40, 50], "accuracy": [0.2, 0.4, 0.5]}
    records.write(content, tmp_path)
    row = reported(RunSet("emd", "smoke", tmp_path), ["sgd_large"]).iloc[0]
    assert row["accuracy"] == 0.5


def test_table1_subtracts_seed_by_seed(paper):
    frame = artefacts.frame(paper, "table1")
    assert list(frame["row"]) == [
        "FedAvg, non-IID(1)",
        "FedAvg, non-IID(1), E = 5",
        "FedAvg, non-IID(2)",
    ]
    assert list(frame["mean"]) == pytest.approx([0.0652, 0.0677, 0.0240])
    assert list(frame["published"]) == [0.0652, 0.0677, 0.0240]
    assert list(frame["sd"]) == pytest.approx([0, 0, 0], abs=1e-9)  # equal jitter cancels
    ids = {run.id for run in paper.members(["sgd_large", "one_class_large"])}
    assert set(frame["runs"].iloc[0].split()) == ids


def test_table2(paper):
    frame = artefacts.frame(paper, "table2")
    assert list(frame["column"]) == ["0", "0.36", "0.72", "1.08", "1.44", "1.62", "1.764", "1.8"]
    assert list(frame["mean"]) == pytest.approx(list(frame["published"]))
    assert list(frame["n"]) == [5] * 8
    expected_sd = math.sqrt(sum(value**2 for value in JITTER) / 4)
    assert list(frame["sd"]) == pytest.approx([expected_sd] * 8)
    assert (frame["final"] - frame["mean"]).tolist() == pytest.approx([0.0001] * 8)
    assert "98.57 ± 0.01 % (n=5) [98.57 %]" in artefacts.markdown(paper, "table2", frame)


def test_table3(paper):
    frame = artefacts.frame(paper, "table3")
    assert frame["row"].iloc[0] == "SGD"
    assert len(frame) == 5
    assert not frame["published"].isna().any()
    assert cell(frame, "FedAvg, non-IID(2)", "MNIST")["mean"] == pytest.approx(0.9629, abs=1e-4)


def test_sweep_text(paper):
    frame = artefacts.frame(paper, "sweep_text")
    reduction = cell(frame, "MNIST", "largest reduction")
    assert reduction["mean"] == pytest.approx(0.9857 - 0.922)
    assert reduction["n"] == 5
    variation = cell(frame, "MNIST", "largest relative sd")
    sd = math.sqrt(sum(value**2 for value in JITTER) / 4)
    assert variation["mean"] == pytest.approx(sd / 0.922)
    assert variation["published"] == 0.00086
    assert len(variation["runs"].split()) == 5


def test_figure_1a(smoke):
    frame = artefacts.frame(smoke, "fig1a")
    assert frame["series"].nunique() == 5
    last = cell(frame, "FedAvg, IID", smoke.members(["iid_large"])[0].spec.rounds)
    assert last["n"] == 2
    assert last["mean"] == pytest.approx(0.98695)


def test_figure_2_has_a_noise_floor(smoke):
    frame = artefacts.frame(smoke, "fig2")
    assert frame["series"].nunique() == 4
    assert len(frame) == 16
    two = cell(frame, "FedAvg, non-IID(2)", "conv1")
    assert two["mean"] == pytest.approx(FLOOR + RISE["conv1"] * 1.6 + 0.5e-5)
    floor = frame[frame["series"].str.contains("noise floor")]
    assert list(floor["mean"]) == pytest.approx([FLOOR / 2 + 0.5e-5] * 4)


def test_figure_4a(paper):
    frame = artefacts.frame(paper, "fig4a")
    assert list(frame["series"].unique()) == list(RISE)
    point = cell(frame, "fc2", 1.44)
    assert point["n"] == 5
    assert point["mean"] == pytest.approx(FLOOR + RISE["fc2"] * 1.44 + 2e-5)


def test_figure_5a_says_what_each_curve_is(paper, smoke):
    frame = artefacts.frame(paper, "fig5a")
    assert list(frame["table2"]) == pytest.approx(list(frame["mean"]))
    assert frame["table2_sd"].iloc[0] == 0.0006431
    assert set(frame["ours"]) == {"ours, paper scale (500 rounds, full network)"}
    small = artefacts.frame(smoke, "fig5a")
    assert set(small["ours"]) == {"ours, smoke scale (3 rounds, network of width 0.125)"}
    assert list(small["table2"]) == [0.9857, 0.9860, 0.9835, 0.922]


@pytest.mark.parametrize("name", ["fig1a", "fig2", "fig4a", "fig5a"])
def test_figures_are_written(smoke, tmp_path, name):
    artefacts.write_figure(smoke, name, tmp_path / name)
    assert (tmp_path / f"{name}.png").stat().st_size > 5000
    assert (tmp_path / f"{name}.svg").exists()
    assert (tmp_path / f"{name}.csv").read_text().startswith("series,x,mean,sd,n,")


@pytest.mark.parametrize("name", ["table1", "table2", "table3", "sweep_text"])
def test_tables_are_written(smoke, tmp_path, name):
    artefacts.write_table(smoke, name, tmp_path / name)
    assert "Scale: smoke" in (tmp_path / f"{name}.md").read_text()
    assert (tmp_path / f"{name}.csv").read_text().startswith("row,column,mean,sd,n,")


def test_missing_runs_are_named(tmp_path: Path):
    with pytest.raises(MissingRunsError, match="emd fig4a"):
        artefacts.frame(RunSet("emd", "smoke", tmp_path), "fig4a")
