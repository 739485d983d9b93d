"""Claims of the paper `emd`: each holds in a world as the paper claims and fails in another."""

from __future__ import annotations

import pytest
from emd_records import World, write_all

from fedrepro import checks
from fedrepro.claims import emd
from fedrepro.claims.emd import CLAIMS
from fedrepro.errors import FedreproError
from fedrepro.expected import load_expected, published
from fedrepro.runs import RunSet

AGAINST = {
    "ZA1": World(accuracy={"iid_large": 0.975}),
    "ZA2": World(accuracy={"one_class_large": 0.97}),
    "ZA3": World(accuracy={"one_class_large": 0.965}),
    "ZA4": World(accuracy={"two_class_large": 0.94}),
    "ZA5": World(accuracy={"one_class_large_e5": 0.95}),
    "ZA8": World(emd={"two_class_large": 1.81}),
    "ZA9": World(rise={"conv2": -0.0005}),
    "ZA10": World(rise={"fc1": 0.045}),
    "ZA12": World(accuracy={1.08: 0.975}),
    "ZA13": World(accuracy={1.44: 0.94}),
    "ZA13-trend": World(accuracy={1.44: 0.925}),
    "ZA14": World(accuracy={1.44: 0.88}),
    "ZA15": World(accuracy={1.764: 0.935}),
    "ZA16": World(jitter=20),
    "ZA17": World(accuracy={"one_class_large": 0.94}),
    "ZA18": World(accuracy={"two_class_large": 0.98}),
}

FALSE_IN_THE_PAPER = {"ZP2", "ZP4"}


@pytest.fixture(scope="module")
def as_claimed(tmp_path_factory) -> RunSet:
    return write_all(tmp_path_factory.mktemp("claimed"), "lite")


def test_every_claim_has_a_function_and_every_function_a_claim():
    assert {claim.id for claim in load_expected("emd").claims} == set(CLAIMS)


def test_every_claim_on_our_runs_is_tested_to_fail():
    assert {name for name in CLAIMS if not name.startswith("ZP")} == set(AGAINST)


@pytest.mark.parametrize("name", AGAINST)
def test_claim_holds(as_claimed, name):
    finding = CLAIMS[name](as_claimed)
    assert finding.holds, finding.evidence
    assert finding.evidence
    assert set(finding.runs) <= {run.id for run in as_claimed.members(as_claimed.plan.runs)}
    assert finding.runs


@pytest.mark.parametrize("name", AGAINST)
def test_claim_fails(tmp_path, name):
    finding = CLAIMS[name](write_all(tmp_path, "lite", AGAINST[name]))
    assert not finding.holds, finding.evidence


def test_worlds_against_one_claim_leave_others_alone(tmp_path):
    runs = write_all(tmp_path, "lite", AGAINST["ZA13"])
    assert CLAIMS["ZA13-trend"](runs).holds
    assert CLAIMS["ZA12"](runs).holds is False  # 1.62 is then above 1.44
    assert CLAIMS["ZA2"](runs).holds


def test_evidence_has_our_numbers(as_claimed):
    assert "IID 98.69 %" in CLAIMS["ZA1"](as_claimed).evidence
    assert CLAIMS["ZA15"](as_claimed).ours == pytest.approx(0.04)
    assert CLAIMS["ZA14"](as_claimed).ours == pytest.approx(0.9799 / 0.9857)


@pytest.mark.parametrize("name", ["ZP1", "ZP2", "ZP3", "ZP4"])
def test_published_numbers_alone(tmp_path, name):
    finding = CLAIMS[name](RunSet("emd", "lite", tmp_path))  # no record is needed
    assert finding.holds == (name not in FALSE_IN_THE_PAPER)
    assert list(finding.runs) == []


@pytest.mark.parametrize(
    ("name", "table", "cell", "value"),
    [
        ("ZP1", "table1", ("FedAvg, non-IID(2)", "MNIST"), 0.0241),
        ("ZP2", "sweep_text", ("MNIST", "largest reduction"), 0.0637),
        ("ZP3", "sweep_text", ("MNIST", "largest relative sd"), 0.0009),
        ("ZP4", "table3", ("FedAvg, non-IID(2)", "MNIST"), 0.976),
    ],
)
def test_other_published_numbers_turn_the_finding(tmp_path, monkeypatch, name, table, cell, value):
    def changed(paper, artefact, kind="mean"):
        numbers = published(paper, artefact, kind)
        return numbers | ({cell: value} if artefact == table and kind == "mean" else {})

    monkeypatch.setattr(emd, "published", changed)
    finding = CLAIMS[name](RunSet("emd", "lite", tmp_path))
    assert finding.holds == (name in FALSE_IN_THE_PAPER)


def test_a_sweep_without_the_level_is_an_error(tmp_path):
    with pytest.raises(FedreproError, match=r"the sweep has no EMD 1\.44"):
        CLAIMS["ZA14"](write_all(tmp_path, "smoke"))


def test_lite_judges_orderings_only(as_claimed):
    found = {item.id: item for item in checks.check("emd", "lite", as_claimed._folder)}
    assert {i.verdict for i in found.values() if i.kind == "number"} == {"not decidable"}
    for name in ("ZA3", "ZA4", "ZA5", "ZA13", "ZA14", "ZA15", "ZA16", "ZA17"):
        assert found[name].verdict == "not decidable"
    for name in ("ZA1", "ZA2", "ZA8", "ZA9", "ZA10", "ZA12", "ZA13-trend", "ZA18", "ZP1"):
        assert found[name].verdict == "reproduced"
    for name in FALSE_IN_THE_PAPER:
        assert found[name].verdict == "deviates"
        assert found[name].explanation


def test_paper_scale_judges_everything(tmp_path):
    write_all(tmp_path, "paper")
    found = checks.check("emd", "paper", tmp_path)
    assert {i.id for i in found if i.verdict != "reproduced"} == FALSE_IN_THE_PAPER


def test_paper_scale_numbers_can_deviate(tmp_path):
    write_all(tmp_path, "paper", World(accuracy={1.8: 0.88, 1.62: 0.968}, jitter=20))
    found = {item.id: item.verdict for item in checks.check("emd", "paper", tmp_path)}
    assert found["T2-mean@1.8"] == "deviates"
    assert found["T2-mean@1.62"] == "close"
    assert found["T2-mean@0"] == "reproduced"
    assert found["T2-sd@1.8"] == "deviates"
    assert found["X-6.53"] == "deviates"


def test_without_records_nothing_is_judged(tmp_path):
    found = {item.id: item.verdict for item in checks.check("emd", "paper", tmp_path)}
    assert {verdict for name, verdict in found.items() if not name.startswith("ZP")} == {"not run"}
