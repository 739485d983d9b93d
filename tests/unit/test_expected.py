"""Published values: what is refused on reading."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from fedrepro.base.errors import FedreproError
from fedrepro.report.expected import Series, load_expected
from fedrepro.runs.plan import load_plan

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


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ({"numbers": [NUMBER | {"id": "T1"}, NUMBER | {"id": "T1"}]}, "ids used twice: T1"),
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
    load_plan("tricks")  # of the repository, before there is another root
    (tmp_path / "config/papers").mkdir(parents=True)
    (tmp_path / "config/expected").mkdir()
    file = tmp_path / "config/expected/tricks.yaml"
    file.write_text(yaml.safe_dump({"paper": "tricks"} | content))
    monkeypatch.setenv("FEDREPRO_ROOT", str(tmp_path))
    with pytest.raises(FedreproError, match=rf"tricks\.yaml:\s+{problem}"):
        load_expected.__wrapped__("tricks")
