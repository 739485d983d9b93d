"""What notebooks show of verdicts, on checks of our own."""

from __future__ import annotations

from pathlib import Path

import pytest
from IPython.display import Markdown
from test_score import claim, number

from fedrepro.report import notebooks
from fedrepro.runs.runset import RunSet

HOSTILE = "p < 0.05 & <script>alert(1)</script>"
ESCAPED = "p &lt; 0.05 &amp; &lt;script&gt;alert(1)&lt;/script&gt;"


def test_texts_are_escaped_and_runs_are_links() -> None:
    claims = notebooks.show_claims([claim("C1", statement=HOSTILE, runs=["0123456789ab"])]).data
    numbers = notebooks.show_numbers([number("N1", where=HOSTILE)]).data
    for shown in (claims, numbers):
        assert "<script" not in shown
        assert ESCAPED in shown
    assert '<a href="../../runs/0123456789ab.json">0123456789ab</a>' in claims


def test_claims_that_fail_come_first_and_untried_ones_are_left_out() -> None:
    checks = [
        claim("C1"),
        claim("C2", verdict="deviates"),
        claim("C3", verdict="not run"),
    ]
    shown = notebooks.show_claims(checks).data
    assert shown.index("C2") < shown.index("C1")
    assert "C3" not in shown
    assert "published scale only" in notebooks.show_numbers([]).data


@pytest.mark.parametrize(
    ("paper", "name", "why"),
    [
        ("cadis", "pill", "pill is not made at scale paper, which has no run for it"),
        ("emd", "table2", "no record of 120 of the runs for table2, such as"),
    ],
)
def test_a_table_without_runs_says_why(tmp_path: Path, paper: str, name: str, why: str) -> None:
    assert why in notebooks.show_table(RunSet(paper, "paper", tmp_path), name).data


@pytest.mark.parametrize(
    ("paper", "name", "why"),
    [
        ("cadis", "synthetic_pills", "synthetic_pills is not made at scale paper"),
        ("emd", "fig6", "no record of 10 of the runs for fig6, such as"),
    ],
)
def test_a_figure_without_runs_says_why(tmp_path: Path, paper: str, name: str, why: str) -> None:
    shown = notebooks.show_figure(RunSet(paper, "paper", tmp_path), name)
    assert isinstance(shown, Markdown)
    assert why in shown.data
