"""What notebooks show of verdicts, on checks of our own."""

from __future__ import annotations

from collections.abc import Callable

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
    ("show", "name"),
    [(notebooks.show_table, "pill"), (notebooks.show_figure, "synthetic_pills")],
)
def test_of_what_is_not_made_at_a_scale_the_reason_is_shown(
    show: Callable[[RunSet, str], Markdown], name: str
) -> None:
    assert show(RunSet("cadis", "paper"), name).data == (
        f"cadis: {name} is not made at scale paper, which has no run for it; choose scale lite"
    )
