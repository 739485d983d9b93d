"""Criteria are kept apart from the results: what decides a verdict does not change silently."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fedrepro.base.errors import FedreproError
from fedrepro.report import criteria
from fedrepro.report.expected import Expected

NUMBER: dict[str, Any] = {
    "id": "N1",
    "where": "Table 1",
    "artefact": "table1",
    "cell": ["a", "b"],
    "published": 0.5,
    "tolerance": 0.1,
    "reason": "made up",
}
CLAIM: dict[str, Any] = {"id": "C1", "statement": "-", "source": "-", "with": {"points": 2}}
CHANGE = {"claims": ["C1"], "commit": "0123456", "what": "wider", "before": "deviates"}


def expected(**content: Any) -> Expected:
    return Expected.model_validate(
        {"paper": "emd", "numbers": [NUMBER], "claims": [CLAIM]} | content
    )


class Committed:
    """The expected values of a paper, and what is committed of them."""

    def __init__(self) -> None:
        self.now = expected()


@pytest.fixture
def committed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Committed:
    held = Committed()
    monkeypatch.setattr(criteria, "file", lambda: tmp_path / "criteria.json")
    monkeypatch.setattr(criteria, "papers", lambda: ["emd"])
    monkeypatch.setattr(criteria, "load_expected", lambda paper: held.now)
    criteria.take_over()
    return held


def test_the_committed_criteria_are_those_in_use() -> None:
    assert criteria.silent_changes() == []


@pytest.mark.parametrize(
    ("content", "silent"),
    [
        ({}, []),
        ({"numbers": [NUMBER | {"tolerance": 0.2}]}, ["emd N1"]),
        ({"numbers": [NUMBER | {"published": 0.51}]}, ["emd N1"]),
        ({"numbers": [NUMBER | {"origin": "derived"}]}, ["emd N1"]),
        ({"numbers": [NUMBER | {"unusable": "quoted wrongly"}]}, ["emd N1"]),
        ({"numbers": [NUMBER | {"reason": "said better", "explanation": "-"}]}, []),
        ({"numbers": [NUMBER, NUMBER | {"id": "N2"}]}, []),
        ({"claims": [CLAIM | {"with": {"points": 1}}]}, ["emd C1"]),
        ({"claims": [CLAIM | {"scales": ["paper"]}]}, ["emd C1"]),
        ({"claims": [CLAIM | {"about": "ours"}]}, ["emd C1"]),
        ({"claims": [CLAIM | {"statement": "said better"}]}, []),
        ({"claims": []}, ["emd C1"]),
        ({"claims": [], "changes": [CHANGE]}, []),
        ({"claims": [CLAIM | {"scales": ["paper"]}], "changes": [CHANGE]}, []),
    ],
)
def test_changes_that_nobody_tells_of_are_found(
    committed: Committed, content: dict[str, Any], silent: list[str]
) -> None:
    committed.now = expected(**content)
    assert criteria.silent_changes() == silent


def test_a_change_has_to_be_told_to_be_taken_over(committed: Committed) -> None:
    wider = [CLAIM | {"with": {"points": 3}}]
    committed.now = expected(claims=wider)
    with pytest.raises(
        FedreproError, match=r"emd C1 changed .* `changes` in config/expected/emd\.yaml,"
    ):
        criteria.take_over()
    committed.now = expected(claims=wider, changes=[CHANGE])
    criteria.take_over()
    committed.now = expected(claims=[CLAIM], changes=[CHANGE])
    assert criteria.silent_changes() == ["emd C1"], "one word does not tell of two changes"
