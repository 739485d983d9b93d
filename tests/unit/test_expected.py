"""Published values: what is refused on reading."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from fedrepro.base.errors import FedreproError
from fedrepro.report.expected import Claim, Number, Series, load_expected
from fedrepro.report.verdicts import judge
from fedrepro.runs.plan import load_plan
from fedrepro.runs.plan_files import papers

NUMBER = {
    "where": "Table 1",
    "artefact": "table1",
    "cell": ["a", "b"],
    "published": 0.5,
    "tolerance": 0.1,
    "reason": "made up",
}


CURVE: dict[str, Any] = {
    "id": "F",
    "where": "Fig. 1",
    "artefact": "fig1",
    "series": "a",
    "x": [1.0, 2.0],
    "published": [0.5, 0.6],
    "tolerance": 0.1,
    "reason": "-",
}


@pytest.mark.parametrize(
    ("changes", "refused"),
    [
        ({}, False),
        ({"tolerance": [0.1, 0.2]}, False),
        ({"published": [0.5]}, True),
        ({"published": [0.5, 0.6, 0.7]}, True),
        ({"tolerance": [0.1]}, True),
    ],
)
def test_a_curve_has_one_value_for_each_x(changes: dict[str, Any], refused: bool) -> None:
    content = CURVE | changes
    if refused:
        with pytest.raises(ValidationError, match="x, published and tolerance differ in length"):
            Series.model_validate(content)
    else:
        assert [number.id for number in Series.model_validate(content).numbers()] == ["F@1", "F@2"]


def test_a_curve_is_a_number_a_point_with_all_that_the_curve_says() -> None:
    own: dict[str, Any] = {
        "reading": "as_run",
        "explanation": "fewer rounds",
        "shown_by": ["table1"],
        "sparse": True,
        "origin": "repository",
    }
    points = {
        "tolerance": [0.1, 0.2],
        "unusable": [{"x": [1.0], "reason": "off the page"}],
        "drawn_only": [2.0],
    }
    alike = {"artefact": "fig1", "reason": "-", "series": "F"} | own
    first = {"id": "F@1", "where": "Fig. 1, x = 1", "cell": ("a", 1.0), "published": 0.5}
    second = {"id": "F@2", "where": "Fig. 1, x = 2", "cell": ("a", 2.0), "published": 0.6}
    assert Series.model_validate(CURVE | own | points).numbers() == [
        Number(**alike, **first, tolerance=0.1, unusable="off the page"),
        Number(**alike, **second, tolerance=0.2, drawn_only=True),
    ]
    assert [number.tolerance for number in Series.model_validate(CURVE).numbers()] == [0.1, 0.1]


@pytest.mark.parametrize(
    "changes", [{"unusable": [{"x": [1.0, 3.0], "reason": "-"}]}, {"drawn_only": [3.0]}]
)
def test_what_is_said_of_a_point_is_of_one_that_is_published(changes: dict[str, Any]) -> None:
    (key,) = changes
    with pytest.raises(ValidationError, match=rf"{key}: no published points at x = \[3\.0\]"):
        Series.model_validate(CURVE | changes)


def test_a_number_could_be_mistaken_for_those_of_its_curve_or_of_its_kind_in_its_table() -> None:
    mean = Number.model_validate(NUMBER | {"id": "T1"})
    groups = [mean.model_copy(update=of).group for of in ({}, {"value": "sd"}, {"gain": True})]
    assert groups == ["table1, mean", "table1, sd", "table1, gain"]
    assert mean.model_copy(update={"series": "F"}).group == "F"


SHOWN = {"id": "C1", "statement": "-", "source": "-", "shown_by": ["tabel1"]}
GONE = {"id": "T9", "where": "Table 9", "published": 0.5, "reason": "-"}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ({"numbers": [NUMBER | {"id": "T1"}, NUMBER | {"id": "T1"}]}, "ids used twice: T1"),
        ({"series": [CURVE, CURVE]}, "ids used twice: F@1, F@2"),
        ({"not_reproducible": [GONE, GONE]}, "ids used twice: T9"),
        ({"paper": "tricsk"}, "paper: 'tricsk' is not the name of the file; write `paper: tricks`"),
        (
            {"not_reproducible": [GONE | {"artefact": "tabel1"}]},
            r"T9: no table or figure 'tabel1' \(did you mean 'table1'",
        ),
        ({"headline": {"figure": "fig99"}}, "headline: no figure 'fig99'"),
        ({"headline": {"figure": "table1"}}, "headline: no figure 'table1'"),
        ({"headline": {"claims": ["C2"]}, "claims": [SHOWN]}, "headline: no claim 'C2'"),
        (
            {"series": [CURVE | {"artefact": "fig99"}]},
            "F@1: no table or figure 'fig99'",
        ),
        ({"claims": [SHOWN]}, r"C1: shown_by: no table, figure or claim 'tabel1' \(did you mean"),
        (
            {"numbers": [NUMBER | {"id": "T1", "shown_by": ["C2"]}]},
            "T1: shown_by: no table, figure or claim 'C2'",
        ),
        (
            {
                "numbers": [NUMBER | {"id": "T1"}, NUMBER | {"id": "T2"}],
                "claims": [{"id": "T2", "statement": "-", "source": "-"}],
            },
            "ids used twice: T2",
        ),
        (
            {"numbers": [NUMBER | {"id": "T1", "artefact": "tabel1"}]},
            r"T1: no table or figure 'tabel1' \(did you mean 'table1'",
        ),
        ({"series": [CURVE | {"tolerance": 0}]}, r"(?s:.*)tolerance\.constrained-float: .* than 0"),
        ({"series": [CURVE | {"tolerance": [0.1, 0]}]}, r"series\.0\.tolerance\.\S+\.1: .* than 0"),
    ],
)
def test_files_that_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: dict[str, Any], problem: str
) -> None:
    refused(tmp_path, monkeypatch, content, problem)


def refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: dict[str, Any], problem: str
) -> None:
    """Make sure that a file of this content is refused, with its name and the problem."""
    load_plan("tricks")  # of the repository, before there is another root
    (tmp_path / "config/papers").mkdir(parents=True)
    (tmp_path / "config/expected").mkdir()
    file = tmp_path / "config/expected/tricks.yaml"
    file.write_text(yaml.safe_dump({"paper": "tricks"} | content))
    monkeypatch.setenv("FEDREPRO_ROOT", str(tmp_path))
    with pytest.raises(FedreproError, match=rf"tricks\.yaml:\s+{problem}"):
        load_expected.__wrapped__("tricks")


CLAIM: dict[str, Any] = {
    "id": "C-{dataset}",
    "statement": "On {dataset} {methods} gain {points} points in {rounds} rounds.",
    "source": "Table {table}",
    "reading": "{dataset}, literally",
    "rule": "leads",
    "with": {"points": 2.5, "methods": ["a", "b", "c"], "rounds": 1000000, "table": 1},
    "explanation": "few rounds",
    "each": [
        {"dataset": "mnist"},
        {"dataset": "cifar10", "points": 4, "methods": ["a"], "scales": ["paper"]},
        {"dataset": "kws", "methods": ["a", "b"], "table": 2, "explanation": "", "rounds": 0.1},
    ],
}
NAMES = {"mnist": "MNIST", "cifar10": "CIFAR-10", "b": "FedB", "2": "two"}


def cases(**changes: Any) -> list[Claim]:
    return Claim.model_validate(CLAIM | changes).cases(NAMES)


def test_templates_are_filled_with_the_values_of_the_rule() -> None:
    first, second, third = cases()
    assert [claim.id for claim in (first, second, third)] == ["C-mnist", "C-cifar10", "C-kws"]
    assert first.statement == "On MNIST a, FedB and c gain 2.5 points in 1000000 rounds."
    assert second.statement == "On CIFAR-10 a gain 4 points in 1000000 rounds."
    assert third.statement == "On kws a and FedB gain 2.5 points in 0.1 rounds."
    assert (first.source, third.source) == ("Table 1", "Table two")
    assert first.reading == "mnist, literally"
    assert first.values == {**CLAIM["with"], "dataset": "mnist"}
    assert {claim.rule for claim in (first, second, third)} == {"leads"}


def test_a_case_may_have_scales_and_an_explanation_of_its_own() -> None:
    own = {"shown_by": ["table2"], "unusable": "it cannot fail"}
    *others, last = CLAIM["each"]
    first, second, third = cases(shown_by=["table1"], each=[*others, last | own])
    assert [claim.shown_by for claim in (first, second, third)] == [["table1"]] * 2 + [["table2"]]
    assert [claim.unusable for claim in (first, second, third)] == ["", "", "it cannot fail"]
    assert first.scales == third.scales == ("paper", "lite")
    assert second.scales == ("paper",)
    assert [claim.explanation for claim in (first, second, third)] == ["few rounds"] * 2 + [""]
    for claim in (first, second, third):
        assert not {"scales", "explanation", *own} & claim.values.keys()


def test_a_claim_without_cases_or_a_rule_is_one_that_the_rule_of_its_id_decides() -> None:
    (claim,) = Claim(id="C1", statement="It holds.", source="-").cases({})
    assert (claim.id, claim.rule, claim.values) == ("C1", "C1", {})


def test_numbers_are_printed_with_all_their_digits() -> None:
    assert (
        " gain 1234567.5 points" in cases(each=[{"dataset": "a", "points": 1234567.5}])[0].statement
    )


def test_an_empty_list_is_printed_as_nothing() -> None:
    values = CLAIM["with"] | {"methods": []}
    assert cases(**{"with": values})[0].statement.startswith("On MNIST  gain")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"id": "C-{data}"}, r"claims: C-\{data\}: no value 'data' for 'C-\{data\}'"),
        ({"statement": "{points"}, r"claims: C-\{dataset\}: expected '\}' .* in '\{points'"),
        ({"statement": "{}"}, r"claims: C-\{dataset\}: .* in '\{\}'"),
        (
            {"statement": "{points.x}"},
            r"claims: C-\{dataset\}: .* no attribute 'x' in '\{points\.x\}'",
        ),
        ({"statement": "{points[x]}"}, r"claims: C-\{dataset\}: .* in '\{points\[x\]\}'"),
        ({"statement": "{methods[9]}"}, r"claims: C-\{dataset\}: .* in '\{methods\[9\]\}'"),
        ({"each": [{"dataset": {"a": 1}}]}, r"(?s:.*)claims\.0\.each\.0\.dataset"),
        ({"each": [{"dataset": None}]}, r"(?s:.*)claims\.0\.each\.0\.dataset"),
        ({"each": [{"scales": ["smoke"]}]}, r"(?s:.*)claims\.0\.each\.0\.scales"),
        ({"each": [{"dataset": "a"}] * 2}, "ids used twice: C-a"),
    ],
)
def test_claims_that_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], problem: str
) -> None:
    refused(tmp_path, monkeypatch, {"claims": [CLAIM | changes]}, problem)


def test_every_template_of_the_repository_is_filled() -> None:
    for paper in papers():
        for claim in load_expected(paper).claims:
            texts = (claim.id, claim.statement, claim.source, claim.reading)
            assert not any("{" in text for text in texts), claim.id


@pytest.mark.parametrize(
    ("published", "no_gain", "ours", "verdict"),
    [
        (0.02, 0, 0.001, "reproduced"),
        (0.02, 0, -0.001, "deviates"),
        (-0.02, 0, 0.001, "deviates"),
        (1.2, 0, 0.997, "reproduced"),
        (1.2, 1, 0.997, "deviates"),
        (1.2, 1, 1, "deviates"),
        (1.2, 1, 1.003, "reproduced"),
        (0.8, 1, 1.003, "deviates"),
        (0.8, 1, 0.997, "reproduced"),
    ],
)
def test_a_gain_of_the_other_sign_deviates(
    published: float, no_gain: float, ours: float, verdict: str
) -> None:
    content = {"id": "N", "where": "Table 1", "artefact": "table1", "cell": ["a", "b"]}
    content |= {"published": published, "tolerance": 0.48, "reason": "-"}
    number = Number.model_validate(content | {"gain": True, "no_gain": no_gain})
    assert judge(number, ours, ours, ours) == verdict
    with pytest.raises(ValidationError, match="no_gain is for gains only"):
        Number.model_validate(content | {"gain": False, "no_gain": 1})


def test_entries_have_the_reading_of_their_file_unless_they_name_one() -> None:
    expected = load_expected("cadis")
    readings = {entry.id: entry.reading for entry in (*expected.numbers, *expected.claims)}
    assert readings["T2-MNIST-80-CADIS"] == readings["NA2-mnist"] == "as_written"
    assert readings["T2-MNIST-80-CADIS-as-run"] == readings["NA2-mnist-as_run"] == "as_run"
    assert readings["T1-MNIST-10-100-SingleSet"] == readings["NE1"] == ""  # the same in both
    assert readings["NP1"] == ""  # arithmetic
    assert {series.reading for series in load_expected("fedcd").series} == {"as_run"}
