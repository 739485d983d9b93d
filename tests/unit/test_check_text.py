"""How verdicts are shown on the command line."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from fedrepro import checks
from fedrepro.checks import Check

ITEM = Check(
    id="T2@1.44",
    kind="number",
    paper="emd",
    scale="paper",
    where="Table 2",
    reading="",
    statement="",
    published=0.9799,
    ours=0.9785,
    interval=[0.97, 0.98],
    values=[0.978, 0.979],
    tolerance=0.006,
    reason="",
    verdict="reproduced",
    evidence="",
    explanation="",
    runs=["0" * 12],
)
CLAIM = dataclasses.replace(
    ITEM,
    id="ZA1",
    kind="claim",
    published=None,
    ours=None,
    verdict="deviates",
    evidence="2 points apart",
    explanation="fewer rounds",
)


def test_counts_by_paper_and_kind() -> None:
    other = dataclasses.replace(ITEM, paper="cadis", verdict="not run")
    header, _, *rows = checks.text([ITEM, ITEM, CLAIM, other]).splitlines()
    assert header.split("  ")[-1].strip() == "not run"
    assert "close" not in header
    assert [row.split() for row in rows] == [
        ["emd", "paper", "numbers", "2"],
        ["emd", "paper", "claims", "1"],
        ["cadis", "paper", "numbers", "1"],
    ]


def test_one_line_each() -> None:
    lines = checks.text([ITEM, CLAIM], verbose=True).splitlines()
    assert lines[0] == "reproduced        emd T2@1.44: ours 0.9785, published 0.9799 ± 0.006"
    assert lines[1] == "deviates          emd ZA1 (2 points apart; fewer rounds)"


def test_without_checks() -> None:
    assert "paper" in checks.text([])


def test_changed_verdicts_are_named(tmp_path: Path) -> None:
    file = tmp_path / "emd.json"
    file.write_text(checks.released([ITEM]))
    assert checks.changes([ITEM], file) == []
    (line,) = checks.changes([dataclasses.replace(ITEM, verdict="deviates")], file)
    assert line.startswith("T2@1.44: released")
    with pytest.raises(checks.FedreproError, match="--release"):
        checks.changes([ITEM], tmp_path / "none.json")
