"""What the documents say of verdicts, on checks of our own."""

from __future__ import annotations

from typing import Any

import pytest
from test_score import claim, number

from fedrepro.report import verdict_blocks
from fedrepro.report.checks import Check
from fedrepro.report.expected import Change, Expected

PAPER = [
    number("N1", paper="cadis"),
    number("N2", paper="cadis", verdict="deviates"),
    number("N3", paper="cadis", verdict="not run"),
    number("N4", paper="cadis", origin="repository"),
    number("N5", paper="cadis", verdict="no target", reason="quoted\nwrongly"),
    claim("C1", paper="cadis", statement="one is better", p=0.001, seeds=3),
    number("N1", reading="as_run", where="a", interval=[0.4, 0.6], seeds=3),
    number("N2", reading="as_printed", where="a", verdict="close", informative=False),
]
LITE = [
    claim("C1", paper="cadis", scale="lite", verdict="inconclusive", p=0.2, seeds=3),
    number("N5", paper="cadis", scale="lite", verdict="no target", reason="quoted wrongly"),
]


@pytest.fixture(autouse=True)
def checks(monkeypatch: pytest.MonkeyPatch) -> None:
    held = {"paper": PAPER, "lite": LITE}

    def checks_of(paper: str, scale: str) -> list[Check]:
        return [item for item in held[scale] if item.paper == paper]

    monkeypatch.setattr(verdict_blocks, "checks_of", checks_of)
    monkeypatch.setattr(verdict_blocks, "papers", lambda: ["cadis", "emd"])


def block(name: str, *arguments: str) -> str:
    return verdict_blocks.BLOCKS[name](*arguments)


def rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_first_table_counts_printed_values_and_no_others() -> None:
    first = block("scoreboard").partition("Claims of the papers")[0]
    heads, _, *counted = rows(first)
    found = [dict(zip(heads, row, strict=True)) for row in counted]
    assert [(row["reading"], row["all"], row["tried"]) for row in found] == [
        ("", "3", "2"),
        ("as run", "1", "1"),
        ("as printed", "1", "1"),
    ]
    assert [row["not informative"] for row in found] == ["", "", "1"]


def test_the_scoreboard_has_claims_at_both_scales() -> None:
    _, _, published, lite = block("scoreboard").split(":\n\n")
    assert ["[cadis](docs/papers/cadis.md)", "1", "1", "1"] in [r[:4] for r in rows(published)]
    heads, _, row = rows(lite)
    found = dict(zip(heads, row, strict=True))
    assert found["paper"] == "[cadis](docs/papers/cadis.md)"
    assert (found["tried"], found["inconclusive"]) == ("1", "1")
    assert "reproduced" not in found, "columns without a count are left out"


def test_a_page_shows_all_counts_and_how_many_tests_there_are() -> None:
    text = block("score", "cadis")
    found = {(row[0], row[1]) for row in rows(text)[2:]}
    assert found == {
        ("paper", "printed values"),
        ("paper", "repository's"),
        ("paper", "paper's claims"),
        ("lite", "paper's claims"),
    }
    several = "of the paper's claims compare means of several seeds. Significant one by one"
    one_sided = "(p < 0.025, one-sided):"
    assert f"At scale paper 1 {several} {one_sided} 1 for the claim, 0 against" in text
    assert f"At scale lite 1 {several} {one_sided} 0 for the claim, 0 against" in text
    assert text.count("after Holm's adjustment for all of them: ") == 2
    assert "as run" in block("score", "emd")


def test_what_is_no_target_has_a_row_a_reason() -> None:
    assert rows(block("no_targets", "cadis"))[2:] == [["quoted wrongly", "`N5`"]]
    assert block("no_targets", "emd") == "All are targets."


def test_long_lists_of_entries_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    many = [number(f"N{k}", verdict="no target", reason="-") for k in range(8)]
    monkeypatch.setattr(verdict_blocks, "checks_of", lambda paper, scale: many)
    ((_, entries),) = rows(block("no_targets", "emd"))[2:]
    assert entries == "`N0`, `N1`, `N2`, `N3`, `N4`, `N5` and 2 more"


def test_baselines_need_three_values() -> None:
    assert block("baselines", "emd", "paper") == ""
    text = block("baselines", "cadis", "paper")
    assert text.startswith("How many of our values are within the tolerances, and how many")
    heads, _, row = rows(text.partition(":\n\n")[2])
    assert (row[0], row[3]) == ("Table 1", "3")
    assert row[4:] == ["100 %", "100 %", "100 %"]
    assert "reproduced" not in heads, "N2 is within its tolerance, and deviates"


def test_changes_say_what_was_before(monkeypatch: pytest.MonkeyPatch) -> None:
    content: dict[str, Any] = {"paper": "emd"}
    change = Change(claims=["C1"], commit="0123456", what="wider", before="deviates")
    held = Expected.model_validate(content).model_copy(update={"changes": [change]})
    monkeypatch.setattr(verdict_blocks, "load_expected", lambda paper: held)
    assert rows(block("changes", "emd"))[2:] == [["`C1`", "0123456", "wider", "deviates"]]
    monkeypatch.setattr(
        verdict_blocks, "load_expected", lambda paper: Expected.model_validate(content)
    )
    assert block("changes", "emd") == "There were none."


def test_there_is_an_example_of_each_verdict_of_the_best_kind() -> None:
    told = block("examples").splitlines()
    assert [line.split(". ")[0] for line in told] == [
        "- **reproduced**, a number",
        "- **reproduced**, a claim",
        "- **deviates**, a number",
        "- **inconclusive**, a claim",
        "- **not run**, a number",
        "- **no target**, a number",
    ]
    assert told[0] == (
        "- **reproduced**, a number. `N1` of `emd` at scale paper (a); published 0.5, tolerance ± "
        "0.1; ours 0.5 (95 % interval 0.4 to 0.6, 3 seeds)."
    )
    assert '"one is better"; p = 0.001.' in told[1]


def test_a_paper_without_numbers_has_no_table_of_verdicts() -> None:
    assert block("verdicts", "cadis", "lite").count("| N5") == 1
    assert block("verdicts", "emd", "lite") == "No published number is compared with ours."
