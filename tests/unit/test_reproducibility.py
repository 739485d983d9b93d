"""How far runs move: what records say of the arithmetic, the script, the page's tables."""

import json
import sys

import benchmark_scripts
import numpy as np
import pytest
import torch

from fedrepro.report import reproducibility
from fedrepro.runs import provenance
from fedrepro.runs.measured import Measured
from fedrepro.runs.plan import expand
from fedrepro.runs.plan_files import papers
from fedrepro.runs.plan_schema import SCALES


@pytest.fixture(scope="module")
def bench():
    with benchmark_scripts.loaded("reproducibility") as module:
        yield module


def trained(bench, weights, accuracy):
    return bench.Trained(np.array(weights, np.float32), np.array(accuracy), 1.0)


def test_the_arithmetic_names_code_libraries_and_what_holds_them(monkeypatch):
    for name in provenance._HOLDING:
        monkeypatch.delenv(name, raising=False)
    usual = provenance.arithmetic()
    assert usual.startswith(torch.backends.cpu.get_cpu_capability())
    monkeypatch.setenv("MKL_CBWR", "COMPATIBLE")
    assert provenance.arithmetic() == f"{usual}, MKL_CBWR=COMPATIBLE"


def test_every_variable_that_holds_a_library_is_recorded(bench):
    used = {name for variables in bench.HELD.values() for name in variables}
    assert used <= set(provenance._HOLDING)


def test_all_networks_of_the_papers_are_measured(bench):
    planned = {r.spec.model.name for p in papers() for s in SCALES for r in expand(p, s)}
    assert planned - set(bench.NETWORKS) == set()


def test_two_trainings_are_compared_round_by_round(bench):
    weights, accuracy = [[3.0, 4.0]] * bench.ROUNDS, [0.5] * bench.ROUNDS
    usual = trained(bench, weights, accuracy)
    assert bench.compared(usual, usual)["equal"]
    weights[-1], accuracy[3] = [3.0, 4.5], 0.47  # the fourth round is not shown
    found = bench.compared(usual, trained(bench, weights, accuracy))
    assert not found["equal"]
    assert found["weights"] == [0.0, 0.0, 0.0, 0.1]
    assert found["points"] == [0.0, 0.0, 0.0, 0.0]
    assert found["most_points"] == 3.0


@pytest.fixture
def measured(bench, monkeypatch, tmp_path):
    """Return the file of the script, with trainings that a change moves by a hundredth."""
    out = tmp_path / "measured.json"

    def train(network, data_root, **change):
        moved = 0.01 * bool(change)
        seconds = 2.0 if change.get("environment") else 1.0
        rounds = np.full((bench.ROUNDS, 1), 1.0 + moved)
        return bench.Trained(rounds, np.full(bench.ROUNDS, 0.5 + moved), seconds)

    monkeypatch.setattr(bench, "train", train)
    arguments = ["reproducibility.py", "--data-root", "pack", "--networks", "liu1", "liu2"]
    monkeypatch.setattr(sys, "argv", [*arguments, "--out", str(out)])
    bench.main()
    return json.loads(out.read_text())


def test_the_file_has_every_change_and_the_time_of_networks_that_are_timed(bench, measured):
    assert measured["networks"].keys() == {"liu1", "liu2"}
    assert all(
        found["changes"].keys() == bench.CHANGES.keys() for found in measured["networks"].values()
    )
    assert measured["networks"]["liu1"]["avx2_time"] == 2.0
    assert "avx2_time" not in measured["networks"]["liu2"]
    assert "other" not in measured["on"]


def test_the_tables_say_equal_or_how_far(measured, monkeypatch):
    found = Measured.model_validate(measured)
    monkeypatch.setattr("fedrepro.runs.measured.read", lambda root: found)
    monkeypatch.setattr(reproducibility, "_seed_spreads", lambda: {"liu1": 0.0123})
    header, _, liu1, liu2 = map(cells, reproducibility._moves().splitlines())
    assert header[:4] == ["network", "accuracy, %", "again", "pool"]
    assert liu1[:4] == ["`liu1`", "50", "equal", "1"]
    assert liu1[-1] == "1.23"
    assert liu2[-1] == ""
    assert cells(reproducibility._growth("AVX2").splitlines()[2])[1:] == ["0.01"] * 4 + ["2"]


def cells(row):
    return [cell.strip() for cell in row.strip("|").split("|")]
