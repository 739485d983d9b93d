"""How far runs move: what records say of the arithmetic, the script, the page's tables."""

import importlib.util
import json
import sys

import numpy as np
import pytest
import torch

from fedrepro.base.paths import root
from fedrepro.report import reproducibility
from fedrepro.runs import provenance
from fedrepro.runs.plan import SCALES, expand, papers


@pytest.fixture(scope="module")
def bench():
    file = root() / "benchmarks/reproducibility.py"
    loader = importlib.util.spec_from_file_location("benchmark_of_reproducibility", file)
    module = importlib.util.module_from_spec(loader)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, loader.name, module)  # dataclasses look their module up
        loader.loader.exec_module(module)
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
def measuring(bench, monkeypatch, tmp_path):
    """Let a training be its change; return what runs the script and reads its file."""
    out = tmp_path / "measured.json"

    def train(network, data_root, **change):
        moved = 0.01 * bool(change)
        seconds = 2.0 if change.get("environment") else 1.0
        rounds = [[1.0 + moved]] * bench.ROUNDS
        return bench.Trained(np.array(rounds), np.full(bench.ROUNDS, 0.5 + moved), seconds)

    monkeypatch.setattr(bench, "train", train)

    def run(*options):
        arguments = ["reproducibility.py", "--data-root", "pack", "--out", str(out), *options]
        monkeypatch.setattr(sys, "argv", arguments)
        bench.main()
        return json.loads(out.read_text())

    return run


def test_changes_measured_later_join_the_file(bench, measuring):
    first = measuring("--networks", "liu1", "--changes", "again", "AVX2")
    assert first["networks"]["liu1"].keys() == {"accuracy", "changes", "avx2_time"}
    both = measuring("--networks", "liu1", "liu2", "--changes", "portable")["networks"]
    assert list(both["liu1"]["changes"]) == ["again", "AVX2", "portable"]
    assert both["liu1"]["changes"]["AVX2"]["most_points"] == 1.0
    assert (both["liu1"]["avx2_time"], both["liu1"]["portable_time"]) == (2.0, 2.0)
    assert list(both["liu2"]["changes"]) == ["portable"]
    assert "portable_time" not in both["liu2"]


def test_measurements_of_two_machines_do_not_mix(bench, measuring, monkeypatch):
    measuring("--networks", "liu1", "--changes", "again")
    monkeypatch.setattr(bench, "about", lambda _: {"processor": "another", "libraries": ""})
    with pytest.raises(SystemExit, match="measured elsewhere"):
        measuring("--networks", "liu1", "--changes", "portable")


def test_the_tables_say_equal_or_how_far(measuring, monkeypatch):
    content = measuring("--networks", "liu1", "--changes", "again", "AVX2")
    monkeypatch.setattr(reproducibility, "_measured", lambda: content)
    monkeypatch.setattr(reproducibility, "_seed_spreads", lambda: {"liu1": 0.0123})
    header, _, row = reproducibility._moves().splitlines()
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert [c.strip() for c in header.strip("|").split("|")][1:3] == ["accuracy", "again"]
    assert cells == ["`liu1`", "50.0 %", "equal", "1", "1.23"]
    assert "1.0e-02" in reproducibility._growth("AVX2")
