"""Verdicts on single numbers, on frames made by hand."""

from __future__ import annotations

import inspect
import json
import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fedrepro.base.errors import FedreproError
from fedrepro.report import code, verdicts
from fedrepro.report.checks import Check, to_json
from fedrepro.report.expected import Claim, Expected, Number
from fedrepro.report.finding import Finding, Margin
from fedrepro.report.rules import final_accuracy, leads
from fedrepro.report.stats import summarise
from fedrepro.runs.plan import expand
from fedrepro.runs.plan_files import papers
from fedrepro.runs.plan_schema import Scale
from fedrepro.runs.runset import RunSet

LITE_ONLY = sorted({r.id for r in expand("emd", "lite")} - {r.id for r in expand("emd", "paper")})
PUBLISHED = [run.id for run in expand("emd", "paper")[:3]]

NUMBER = {
    "id": "T1",
    "where": "Table 1",
    "artefact": "table1",
    "cell": ("a", "b"),
    "published": 0.9,
    "tolerance": 0.01,
    "reason": "",
    "explanation": "fewer rounds",
}


def judged(
    values: list[float], scale: Scale = "paper", runs: list[str] | None = None, **changes: Any
) -> Check:
    """Judge a number of 0.9 ± 0.01 by the runs of a cell's seeds, by default published ones."""
    ids = runs or PUBLISHED[: len(values)]
    seeds = pd.DataFrame({"row": "a", "column": "b", "seed": range(len(ids)), "run": ids})
    cells = summarise(seeds.assign(accuracy=values), "accuracy", ["row", "column"])
    return judged_in(cells.assign(unit="fraction"), scale, **changes)


def judged_in(
    cells: pd.DataFrame | None, scale: Scale = "paper", *, whole: bool = True, **changes: Any
) -> Check:
    """Judge the number by the cells of a table, whose runs are all recorded or not."""
    number = Number.model_validate(NUMBER | changes)
    return verdicts._judge_number(RunSet("emd", scale), number, verdicts._Frame(cells, whole))


@pytest.mark.parametrize(("value", "informative"), [(0.9, False), (0.5, True)])
def test_a_value_that_any_would_pass_is_evidence_where_ours_does_not(
    monkeypatch: pytest.MonkeyPatch, value: float, informative: bool
) -> None:
    seeds = pd.DataFrame({"row": "a", "column": "b", "seed": 0, "run": PUBLISHED[:1]})
    cells = summarise(seeds.assign(accuracy=value), "accuracy", ["row", "column"])
    monkeypatch.setattr(verdicts, "_frame", lambda *_: verdicts._Frame(cells, whole=True))
    monkeypatch.setattr(verdicts, "uninformative", lambda _: {"T1": "any would pass"})
    expected = Expected.model_validate({"paper": "emd", "numbers": [NUMBER]})
    (found,) = verdicts._judge_numbers(RunSet("emd", "paper"), expected, expected.numbers)
    assert found.informative is informative


def test_the_seeds_and_their_interval_are_shown() -> None:
    """Mean 0.9, sd 0.001; t of two degrees of freedom: 4.3027 / sqrt(3) = 2.4841 of them."""
    shown = judged([0.899, 0.9, 0.901])
    assert (shown.ours, shown.values) == (0.9, [0.899, 0.9, 0.901])
    assert shown.interval == [0.897516, 0.902484]
    assert shown.runs == PUBLISHED


def test_two_seeds_are_their_own_interval() -> None:
    assert judged([0.91, 0.905]).interval == [0.905, 0.91]


def test_a_value_made_of_two_runs_is_of_one_seed() -> None:
    pairs = [tuple(PUBLISHED[:2]), tuple(PUBLISHED[1:])]
    seeds = pd.DataFrame({"row": "a", "column": "b", "seed": [0, 1], "run": pairs})
    shown = judged_in(summarise(seeds.assign(gain=[0.9, 0.901]), "gain", ["row", "column"]))
    assert shown.seeds == 2
    assert shown.runs == [*PUBLISHED[:2], *PUBLISHED[1:]]


def test_the_runs_that_a_cell_lacks_are_counted_at_its_grid_point(
    tmp_path: Path, write_record: Any
) -> None:
    for run in expand("emd", "smoke"):
        if run.group == "mnist_sweep" and (run.coordinates["emd"] != 0 or run.seed == 0):
            write_record(run, tmp_path)
    found = {item.id: item.evidence for item in verdicts.check("emd", "smoke", tmp_path)}
    assert found["T2-mean-mnist@0"] == "1 of 2 runs are recorded"
    assert found["T2-mean-mnist@0.36"] == ""


def test_one_seed_has_no_interval() -> None:
    assert judged([0.9]).interval == []
    assert judged([0.9]).values == [0.9]


def test_a_standard_deviation_has_an_interval_of_its_own() -> None:
    """Chi-square with two degrees of freedom: 2.5 % below 0.050636, 2.5 % above 7.3778."""
    shown = judged([0.899, 0.9, 0.901], value="sd", published=0.002, tolerance=0.002)
    assert (shown.ours, shown.verdict) == (0.001, "inconclusive")
    assert shown.interval == pytest.approx([0.000521, 0.006285], abs=1e-6)
    assert shown.values == [0.899, 0.9, 0.901]
    assert judged([0.89, 0.9, 0.91], value="sd", published=1.0).verdict == "deviates"


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([0.899, 0.9, 0.901], "reproduced"),
        ([0.908, 0.909, 0.91], "inconclusive"),
        ([0.915, 0.9151, 0.9152], "close"),
        ([0.92, 0.921, 0.922], "inconclusive"),
        ([0.93, 0.94, 0.95], "inconclusive"),
        ([0.94, 0.941, 0.942], "deviates"),
        ([0.5, 0.9, 1.3], "inconclusive"),
        ([0.91, 0.95, 0.99], "inconclusive"),  # both ends deviate, and the value is between them
        ([0.905, 0.91], "reproduced"),
        ([0.905, 0.911], "inconclusive"),
    ],
)
def test_a_verdict_holds_for_all_that_the_mean_may_be(values: list[float], verdict: str) -> None:
    """Published 0.9 ± 0.01; t intervals reach 2.48 standard deviations from the mean."""
    assert judged(values).verdict == verdict


@pytest.mark.parametrize(
    ("values", "changes", "needed"),
    [
        ([0.908, 0.909, 0.91], {}, 10),  # its own spread from 0.91
        ([0.93, 0.94, 0.95], {}, 5),  # twice its spread from 0.92
        ([0.001, 0.002, 0.003], {"published": 0.02, "tolerance": 0.04, "gain": True}, 5),  # from 0
        ([0.899, 0.9, 0.901], {}, None),
        ([0.94, 0.941, 0.942], {}, None),
        ([0.899, 0.9, 0.901], {"value": "sd", "published": 0.002, "tolerance": 0.002}, None),
    ],
)
def test_what_is_open_says_how_many_seeds_would_decide_it(
    values: list[float], changes: dict[str, Any], needed: int | None
) -> None:
    """Tables of power: ten seeds for one standard deviation, five for two."""
    assert judged(values, **changes).needed == needed


def test_a_single_run_is_shown_beside_the_spread_of_its_neighbours() -> None:
    """The other cells have standard deviations of 0.001, 0.003 and 0.007 of two values each."""
    rows = [("a", 0, 0.9, PUBLISHED[0])]
    for name, sd in (("c", 0.001), ("d", 0.003), ("e", 0.007)):
        rows += [(name, k, 0.5 + k * sd * 2**0.5, PUBLISHED[k]) for k in (0, 1)]
    seeds = pd.DataFrame(rows, columns=["row", "seed", "accuracy", "run"]).assign(column="b")
    cells = summarise(seeds, "accuracy", ["row", "column"])
    shown = judged_in(cells)
    assert (shown.seeds, shown.spread) == (1, 0.003)
    assert judged_in(cells.assign(unit=["fraction"] * 3 + ["points"])).spread == 0.002
    assert judged([0.9]).spread is None
    assert judged([0.9, 0.9]).spread is None


def test_a_gain_of_the_wrong_sign_is_never_reproduced() -> None:
    for ours, verdict in ((-0.001, "deviates"), (0.0, "deviates"), (0.001, "reproduced")):
        assert judged([ours], published=0.005, gain=True).verdict == verdict
    assert judged([-0.001], published=0.005).verdict == "reproduced"


@pytest.mark.parametrize(
    ("value", "evidence"), [("sd", "one seed has no spread"), ("mean", "undefined for these runs")]
)
def test_what_is_no_number_is_not_judged(value: str, evidence: str) -> None:
    shown = judged([float("nan")], value=value)
    assert (shown.verdict, shown.evidence) == ("not decidable", evidence)
    assert shown.unit == "fraction"


def test_what_is_no_target_is_not_judged() -> None:
    shown = judged([0.9], unusable="quoted wrongly")
    assert (shown.verdict, shown.reason) == ("no target", "quoted wrongly")


@pytest.mark.parametrize("scales", [["paper"], ["lite"]])
def test_a_claim_that_cannot_fail_is_no_target_with_and_without_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, scales: list[str]
) -> None:
    monkeypatch.setattr(code, "claims", lambda paper: {"leads": leads(final_accuracy)})
    content = {"id": "C1", "statement": "-", "source": "-", "rule": "leads", "scales": scales}
    content |= {"with": {"what": "best", "over": "niid"}}
    runs = RunSet("tricks", "paper", tmp_path)
    for unusable, verdict in (
        ("", "not run" if scales == ["paper"] else "not decidable"),
        ("it cannot fail", "no target"),
    ):
        (claim,) = Claim.model_validate(content | {"unusable": unusable}).cases({})
        judged = verdicts._judge_claim(runs, claim)
        assert (judged.verdict, judged.reason) == (verdict, unusable)


@pytest.mark.parametrize(("shown_by", "cause"), [([], "conjecture"), (["table1"], "measured")])
def test_an_explanation_is_a_conjecture_unless_runs_show_it(
    shown_by: list[str], cause: str
) -> None:
    assert judged([0.5], shown_by=shown_by).cause == cause
    assert judged([0.908, 0.909, 0.91], shown_by=shown_by).cause == cause
    assert judged([0.9], shown_by=shown_by).cause == ""


@pytest.mark.parametrize(
    ("ours", "verdict", "explanation"),
    [
        (0.91, "reproduced", ""),
        (0.911, "close", "fewer rounds"),
        (0.92, "close", "fewer rounds"),
        (0.88, "close", "fewer rounds"),
        (0.921, "deviates", "fewer rounds"),
        (0.879, "deviates", "fewer rounds"),
    ],
)
def test_what_is_beyond_the_tolerance_is_explained(
    ours: float, verdict: str, explanation: str
) -> None:
    shown = judged([ours])
    assert (shown.verdict, shown.explanation) == (verdict, explanation)


def test_runs_of_another_scale_are_never_judged_as_published() -> None:
    runs = RunSet("emd", "lite")
    assert runs.as_published(PUBLISHED)
    assert not runs.as_published([PUBLISHED[0], LITE_ONLY[0]])
    assert not runs.as_published(LITE_ONLY)
    mixed = judged([0.9, 0.9], scale="lite", runs=[PUBLISHED[0], LITE_ONLY[0]])
    assert (mixed.verdict, mixed.ours) == ("not decidable", 0.9)
    assert judged([0.9, 0.9], scale="lite").verdict == "reproduced"


def test_a_number_of_no_cell_is_refused_at_the_published_scale_only() -> None:
    with pytest.raises(FedreproError, match=r"emd\.yaml: T1: table1 .*has no cell \['a', 'c'\]"):
        judged([0.9], cell=("a", "c"))
    for changes in ({"sparse": True}, {"scale": "lite"}):
        allowed = judged([0.9], cell=("a", "c"), **changes)
        assert allowed.verdict == "not decidable"
        assert "plan" in allowed.evidence


@pytest.mark.parametrize(
    ("emd", "sparse", "verdict"),
    [
        (0.36, False, "not run"),
        (0.36, True, "not run"),
        (0.4, False, "not run"),
        (0.4, True, "not decidable"),
    ],
)
@pytest.mark.parametrize("recorded", [True, False])
def test_a_point_that_records_may_lack_is_not_run_unless_the_plan_leaves_it_out(
    recorded: bool, emd: float, sparse: bool, verdict: str
) -> None:
    """The plan has an EMD of 0.36, and none of 0.4, whatever the records have of the curve."""
    cells = pd.DataFrame({"row": ["a"], "column": [0]}) if recorded else None
    point = judged_in(cells, whole=False, artefact="table2", cell=("a", emd), sparse=sparse)
    assert point.verdict == verdict
    assert ("plan" in point.evidence) == (verdict == "not decidable")


@pytest.mark.parametrize(
    ("cell", "unit"),
    [
        (("c", "accuracy"), "fraction"),
        (("a", "gain"), ""),
        (("b", "gain"), "points"),
        (("c", "gain"), ""),
    ],
)
def test_a_number_without_a_cell_has_the_unit_of_its_column_or_else_of_its_row(
    cell: tuple[str, str], unit: str
) -> None:
    rows = [("a", "accuracy", "fraction"), ("a", "rounds", "count"), ("b", "lead", "points")]
    cells = pd.DataFrame(rows, columns=["row", "column", "unit"])
    assert judged_in(cells, whole=False, cell=cell).unit == unit
    assert judged_in(None, whole=False, cell=cell).unit == ""


def test_of_rows_of_equal_keys_the_first_is_judged() -> None:
    seeds = pd.DataFrame({"row": "a", "column": "b", "seed": [0], "run": PUBLISHED[:1]})
    one, other = (
        summarise(seeds.assign(accuracy=value), "accuracy", ["row", "column"])
        for value in (0.9, 0.5)
    )
    assert judged_in(pd.concat([one, other], ignore_index=True)).ours == 0.9


def found(monkeypatch: pytest.MonkeyPatch, finding: Finding, **changes: Any) -> Check:
    """Judge a claim that a rule decides in this way."""
    monkeypatch.setattr(code, "claims", lambda paper: {"C1": lambda runs: finding})
    content = {"id": "C1", "statement": "-", "source": "-", "explanation": "fewer rounds"}
    (claim,) = Claim.model_validate(content | changes).cases({})
    return verdicts._judge_claim(RunSet("tricks", "lite"), claim)


MET = Margin.of([0.9, 1.0, 1.1], "a - b", strict=True, unit="points")
UNMET = Margin.of([-0.9, -1.0, -1.1])
"""Each is firm."""
OPEN, SHORT = Margin.of([0.2, 1.0, 1.8]), Margin.of([-1.6, -1.0, 0.5])
"""Neither is: one is met, one not."""
NO_MARGIN = Margin(math.nan, math.nan, math.nan, math.nan, 1)


@pytest.mark.parametrize(
    ("margins", "verdict", "explanation", "open_"),
    [
        ([MET], "reproduced", "", False),
        ([UNMET, SHORT], "deviates", "fewer rounds", False),
        ([OPEN], "inconclusive", "fewer rounds", True),
        ([MET, SHORT], "inconclusive", "fewer rounds", True),
        ([MET, NO_MARGIN], "not decidable", "fewer rounds", False),
        ([], "reproduced", "", False),
    ],
)
def test_the_verdict_on_a_claim_is_what_its_margins_say(
    monkeypatch: pytest.MonkeyPatch,
    margins: list[Margin],
    verdict: str,
    explanation: str,
    open_: bool,
) -> None:
    finding = Finding(all(m.met for m in margins), "counted", PUBLISHED, 0.5, margins)
    judged = found(monkeypatch, finding)
    assert (judged.verdict, judged.ours, judged.evidence) == (verdict, 0.5, "counted")
    assert (judged.explanation, judged.needed is not None) == (explanation, open_)
    assert (judged.p is None) == math.isnan(finding.p)


def test_a_check_keeps_the_margins_of_a_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    judged = found(monkeypatch, Finding(True, "", PUBLISHED, margins=[MET, NO_MARGIN]))
    (written,) = json.loads(to_json([judged]))
    met, unknown = written["margins"]
    assert (met.pop("what"), met.pop("unit"), met.pop("strict")) == ("a - b", "points", True)
    bounds = {"low": MET.low, "high": MET.high, "p": MET.p}
    assert met == pytest.approx({"value": 1, "seeds": 3} | bounds, rel=1e-4)
    nothing = dict.fromkeys(("value", "low", "high", "p"))
    assert unknown == nothing | {"what": "", "unit": "", "strict": False, "seeds": 1}


def test_a_claim_says_who_makes_it_and_why_its_networks_decide_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    finding = Finding(True, "a 10 %", ["b", "a", "b"], margins=[MET], undecided="near chance")
    judged = found(monkeypatch, finding, about="ours")
    assert (judged.verdict, judged.origin) == ("inconclusive", "ours")
    assert judged.evidence == "a 10 %; near chance"
    assert judged.runs == ["a", "b"]
    no_test = found(monkeypatch, finding, unusable="it cannot fail")
    assert (no_test.verdict, no_test.explanation) == ("no target", "")
    assert no_test.evidence == judged.evidence


def test_the_seeds_of_a_claim_are_those_of_its_margins_or_else_of_its_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two groups of seven seeds each are of seven seeds."""
    runs = [run.id for run in RunSet("tricks", "lite").planned(["iid", "niid"])]
    assert len(runs) == 14
    assert found(monkeypatch, Finding(True, "counted", runs)).seeds == 7
    assert found(monkeypatch, Finding(True, "", runs, margins=[MET])).seeds == 3


WHERE = r"config/expected/tricks\.yaml: claims: C1"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"rule": "leeds"}, rf"{WHERE}: no rule 'leeds' \(did you mean 'leads'\?"),
        ({"rule": ""}, rf"{WHERE}: no rule 'C1'"),
        (
            {"with": {"what": "best"}},
            rf"{WHERE}: rule 'leads': missing a required argument: 'over'",
        ),
        (
            {"with": {"what": "best", "over": "niid", "point": 2}},
            rf"{WHERE}: rule 'leads': got an unexpected keyword argument 'point'",
        ),
        ({"with": {"what": "bset", "over": "niid"}}, r"tricks\.yaml: claims: no group .* 'bset'"),
    ],
)
def test_rules_and_values_that_there_are_not_are_named(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], problem: str
) -> None:
    monkeypatch.setattr(code, "claims", lambda paper: {"leads": leads(final_accuracy)})
    content = {"id": "C1", "statement": "-", "source": "-", "rule": "leads"} | changes
    (claim,) = Claim.model_validate(content).cases({})
    with pytest.raises(FedreproError, match=problem):
        verdicts._judge_claim(RunSet("tricks", "lite"), claim)


@pytest.mark.parametrize("paper", papers())
def test_every_rule_says_which_values_it_takes(paper: str) -> None:
    """Any other, such as a misspelt one, is refused by name before the rule is tried."""
    for name, rule in code.claims(paper).items():
        kinds = {each.kind for each in inspect.signature(rule).parameters.values()}
        assert inspect.Parameter.VAR_KEYWORD not in kinds, name
