"""How verdicts are shown on the command line."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from fedrepro.base.errors import FedreproError
from fedrepro.base.paths import root
from fedrepro.cli import main
from fedrepro.report import checks, criteria, released, score, verdicts
from fedrepro.report.checks import Check
from fedrepro.report.stats import MOST_SEEDS
from fedrepro.runs.plan_files import papers

ITEM = Check(
    id="T2@1.44",
    kind="number",
    paper="emd",
    scale="paper",
    origin="printed",
    where="Table 2",
    group="table2",
    value="mean",
    unit="",
    reading="",
    statement="",
    published=0.9799,
    ours=0.9785,
    interval=[0.97, 0.98],
    values=[0.978, 0.979],
    tolerance=0.006,
    reason="",
    informative=True,
    verdict="reproduced",
    evidence="",
    seeds=2,
    spread=None,
    p=None,
    needed=None,
    explanation="",
    cause="",
    runs=["0" * 12],
)
CLAIM = dataclasses.replace(
    ITEM,
    id="ZA1",
    kind="claim",
    origin="paper",
    statement="SGD is ahead.",
    published=None,
    ours=None,
    verdict="deviates",
    evidence="2 points apart",
    explanation="fewer rounds",
    cause="conjecture",
)


def test_counts_by_paper_and_kind() -> None:
    other = dataclasses.replace(ITEM, paper="cadis", verdict="not run")
    header, _, *rows = score.text([ITEM, CLAIM, other]).splitlines()
    assert header.split()[:6] == ["paper", "scale", "reading", "all", "tried", "reproduced"]
    assert header.endswith("1-2 seeds")
    assert [row.split() for row in rows] == [
        ["emd", "paper", "printed", "values", "1", "1", "1", "1"],
        ["emd", "paper", "paper's", "claims", "1", "1", "1", "1"],
        ["cadis", "paper", "printed", "values", "1"],
    ]


@pytest.mark.parametrize(
    ("changes", "sure"),
    [
        ({}, " (two seeds: 0.97 and 0.98)"),
        ({"seeds": 3}, " (95 % interval 0.97 to 0.98, 3 seeds)"),
        ({"value": "sd"}, " (95 % interval 0.97 to 0.98, 2 seeds)"),
        ({"interval": [], "seeds": 1}, " (single run)"),
        ({"interval": [], "seeds": 0}, ""),
        (
            {"interval": [], "seeds": 1, "spread": 0.0042},
            " (single run; sd of the cells beside it 0.0042)",
        ),
    ],
)
def test_one_line_each(changes: dict[str, Any], sure: str) -> None:
    item = dataclasses.replace(ITEM, **changes)
    lines = score.text([item, CLAIM], verbose=True).splitlines()
    published = "published 0.9799 (tolerance ± 0.006)"
    assert lines[0] == f"reproduced        emd T2@1.44: ours 0.9785{sure}, {published}"
    remarks = "2 points apart. Explanation (conjecture): fewer rounds"
    assert lines[1] == f"deviates          emd ZA1, 2 seeds: {CLAIM.statement} ({remarks})"


@pytest.mark.parametrize(("seeds", "told"), [(0, ""), (1, ", 1 seed")])
def test_a_claim_says_on_how_many_seeds_it_rests(seeds: int, told: str) -> None:
    line = checks.line(dataclasses.replace(CLAIM, seeds=seeds))
    assert line.startswith(f"deviates          emd ZA1{told}: {CLAIM.statement} (")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"published": 0.0}, "published 0 (tolerance ± 0.006)"),
        ({"tolerance": None}, "published 0.9799"),
        ({"published": None}, "0.98)"),
    ],
)
def test_a_number_is_told_beside_what_is_published_of_it(
    changes: dict[str, Any], told: str
) -> None:
    assert checks.line(dataclasses.replace(ITEM, **changes)).endswith(told)


def test_what_sums_a_claim_up_is_told_by_its_evidence_alone() -> None:
    assert checks.line(dataclasses.replace(CLAIM, ours=0.02)) == checks.line(CLAIM)


def test_accuracies_are_in_per_cent_and_their_differences_in_points() -> None:
    line = checks.line(dataclasses.replace(ITEM, unit="fraction"))
    assert "ours 97.85 % (two seeds: 97.00 % and 98.00 %)" in line
    assert line.endswith("published 97.99 % (tolerance ± 0.60 points)")
    alone = dataclasses.replace(ITEM, unit="fraction", interval=[], seeds=1, spread=0.0042)
    assert checks.how_sure(alone) == "single run; sd of the cells beside it 0.42 points"


@pytest.mark.parametrize(
    ("value", "unit", "told", "difference"),
    [
        (0.98765, "fraction", "98.77 %", "98.77 points"),
        (0.0123, "points", "1.23 points", "1.23 points"),
        (1482.6, "count", "1483", "1483"),
        (1.23456, "ratio", "1.235", "1.235"),
        (9999.4, "", "9999", "9999"),
        (9999.6, "", "10000", "10000"),
        (-37875.4, "", "-37875", "-37875"),
    ],
)
def test_values_are_shown_by_their_unit(
    value: float, unit: str, told: str, difference: str
) -> None:
    assert checks.shown(value, unit) == told
    assert checks.shown_difference(value, unit) == difference


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, "A - B > 0: +2 points (+1 to +3 points)"),
        ({"strict": False, "unit": ""}, "A - B >= 0: +0.02 (+0.01 to +0.03)"),
        ({"value": -0.02, "low": -0.02, "high": -0.02}, "A - B > 0: -2 points"),
        ({"value": 0.0, "low": None}, "A - B > 0: +0 points (not known to +3 points)"),
        ({"value": None, "low": None, "high": None}, "A - B > 0: not known"),
    ],
)
def test_what_a_margin_has_to_be_and_is(changes: dict[str, Any], told: str) -> None:
    margin = {"what": "A - B", "unit": "points", "strict": True}
    margin |= {"value": 0.02, "low": 0.01, "high": 0.03}
    assert checks.condition(margin | changes) == told


@pytest.mark.parametrize(
    ("needed", "told"),
    [(12, "About 12 seeds would decide it"), (MOST_SEEDS, f"{MOST_SEEDS} or more seeds would")],
)
def test_what_is_inconclusive_says_how_many_seeds_would_decide_it(needed: int, told: str) -> None:
    item = dataclasses.replace(CLAIM, verdict="inconclusive", needed=needed)
    evidence, outlook, why = checks.remarks(item).split(". ")
    assert evidence == "2 points apart"
    assert outlook.startswith(told)
    assert why.startswith("Explanation (conjecture)")


def test_what_is_no_evidence_is_marked() -> None:
    item = dataclasses.replace(ITEM, informative=False)
    assert checks.line(item).endswith("± 0.006), not informative")
    undecided = dataclasses.replace(item, verdict="not decidable")
    assert checks.line(undecided).endswith("± 0.006)")


def test_where_the_table_is_too_wide_each_score_is_a_line() -> None:
    items = [ITEM, CLAIM, dataclasses.replace(ITEM, paper="cadis", reading="as_run")]
    table = score.text(items)
    wide = len(table.splitlines()[0])
    assert score.text(items, width=wide) == table
    lines = score.text(items, width=wide - 1).splitlines()
    assert lines == [
        "emd paper, printed values: all 1, tried 1, reproduced 1, 1-2 seeds 1",
        "emd paper, paper's claims: all 1, tried 1, deviates 1, 1-2 seeds 1",
        "cadis paper, printed values, as run: all 1, tried 1, reproduced 1, 1-2 seeds 1",
    ]
    told = score.text(items, verbose=True, width=wide - 1)
    assert told.splitlines() == [*map(checks.line, items), "", *lines]


def test_without_checks() -> None:
    header, ruler = score.text([]).splitlines()
    assert header.split()[:2] == ["paper", "scale"]
    assert set(ruler) == {"-", " "}


def test_changed_verdicts_are_named(tmp_path: Path) -> None:
    file = tmp_path / "emd.json"
    file.write_text(released.text([ITEM]))
    assert released.changes([ITEM], file) == []
    (line,) = released.changes([dataclasses.replace(ITEM, verdict="deviates")], file)
    assert line.startswith("T2@1.44: released")
    (line,) = released.changes([dataclasses.replace(ITEM, ours=0.9784)], file)
    assert line == (
        "T2@1.44: released {'ours': 0.9785, 'published': 0.9799, 'verdict': 'reproduced'}, "
        "now {'ours': 0.9784, 'published': 0.9799, 'verdict': 'reproduced'}"
    )
    vanished, new = released.changes([CLAIM], file)
    assert vanished.startswith("T2@1.44: released {")
    assert vanished.endswith(", now None")
    assert new.startswith("ZA1: released None, now {")
    with pytest.raises(FedreproError, match="--release"):
        released.changes([ITEM], tmp_path / "none.json")


@pytest.fixture
def emd_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the released verdicts; a check of `emd` gives those above."""
    file = tmp_path / "emd.json"
    monkeypatch.setattr(verdicts, "check", lambda paper, scale: [ITEM, CLAIM])
    monkeypatch.setattr(released, "path_of", lambda paper, scale: file)
    monkeypatch.setattr(criteria, "file", lambda: tmp_path / "criteria.json")
    monkeypatch.chdir(root())
    return file


def command(*options: str) -> int:
    return main(["check", "--paper", "emd", "--scale", "paper", *options])


@pytest.mark.usefixtures("emd_file")
def test_the_command_shows_counts_lines_or_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command() == 0
    counts = capsys.readouterr().out
    assert counts == f"{score.text([ITEM, CLAIM])}\n"
    assert command("--verbose") == 0
    assert capsys.readouterr().out == f"{score.text([ITEM, CLAIM], verbose=True)}\n"
    assert command("--json", "--out", str(tmp_path / "checks.json")) == 0
    printed = capsys.readouterr().out
    assert [entry["id"] for entry in json.loads(printed)] == ["T2@1.44", "ZA1"]
    assert json.loads(printed)[0] == dataclasses.asdict(ITEM)
    assert (tmp_path / "checks.json").read_text() == printed


def test_the_command_fails_where_a_released_verdict_changed(
    emd_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("--release") == 0
    assert json.loads(emd_file.read_text())["ZA1"]["verdict"] == "deviates"
    assert command("--against-released") == 0
    changed = released.text([dataclasses.replace(ITEM, verdict="close"), CLAIM])
    emd_file.write_text(changed)
    assert command() == 0
    capsys.readouterr()
    assert command("--against-released") == 1
    error = capsys.readouterr().err
    assert error.startswith(
        f"fedrepro: verdicts of emd differ from the released ones in {emd_file}:\n"
        "  T2@1.44: released {'ours': 0.9785, 'published': 0.9799, 'verdict': 'close'}, now {"
    )
    assert "ZA1" not in error
    assert emd_file.read_text() == changed


@pytest.mark.usefixtures("emd_file")
def test_all_papers_are_compared_before_any_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(released, "path_of", lambda paper, scale: tmp_path / f"{paper}.json")
    for paper in papers():
        kept = [ITEM] if paper in ("cadis", "tricks") else [ITEM, CLAIM]
        (tmp_path / f"{paper}.json").write_text(released.text(kept))
    assert main(["check", "--against-released"]) == 1
    error = capsys.readouterr().err
    assert error.count("verdicts of ") == 2
    for paper in ("cadis", "tricks"):
        assert f"verdicts of {paper} differ from the released ones in {tmp_path / paper}" in error
    assert error.count("\n  ZA1: released None, now {") == 2


@pytest.mark.parametrize(("changed", "options"), [(True, ["--verbose"]), (False, [])])
def test_verdicts_are_compared_though_nobody_reads_them(
    emd_file: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    changed: bool,
    options: list[str],
) -> None:
    emd_file.write_text(released.text([ITEM] if changed else [ITEM, CLAIM]))
    reader, writer = os.pipe()
    os.close(reader)
    with contextlib.suppress(BrokenPipeError), open(writer, "w") as closed:
        monkeypatch.setattr(sys, "stdout", closed)
        assert command("--against-released", *options) == 1
    assert ("ZA1: released None" in capsys.readouterr().err) == changed


def test_a_damaged_file_of_released_verdicts_is_named(
    emd_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for text in ("<<<<<<< HEAD\n{}\n", "[]", "[" * 5000, '{"ZA1": 1}'):
        emd_file.write_text(text)
        assert command("--against-released") == 1
        assert f"fedrepro: {emd_file}: not as it was written (" in capsys.readouterr().err


def test_verdicts_are_not_released_after_a_silent_change(
    emd_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("--release") == 0
    before = emd_file.read_text()
    changed = criteria.criteria()
    name, criterion = next(iter(changed["emd"].items()))
    changed["emd"][name] = criterion._replace(digest="other")
    monkeypatch.setattr(criteria, "criteria", lambda: changed)
    emd_file.write_text("{}")
    assert command("--release") == 1
    assert f"emd {name} changed after results were known" in capsys.readouterr().err
    assert emd_file.read_text() == "{}" != before


def test_verdicts_are_compared_or_released(
    emd_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("--against-released", "--release") == 2
    assert "--release: not allowed with --against-released" in capsys.readouterr().err
    assert not emd_file.exists()


def test_only_some_verdicts_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--paper", "tricks", "--only", "no target", "--only", "deviates"]) == 0
    *listed, count = capsys.readouterr().out.splitlines()
    assert {line.split("  ")[0] for line in listed} == {"no target", "deviates"}
    total = len(verdicts.check("tricks", "lite"))
    assert count == f"{len(listed)} of {total} checks"
    assert main(["check", "--paper", "tricks", "--only", "deviates", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {item["verdict"] for item in found} == {"deviates"}
    assert 0 < len(found) < len(listed)


def test_an_unknown_verdict_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--paper", "tricks", "--only", "devaites"]) == 2
    assert "no verdict 'devaites' (did you mean 'deviates'?" in capsys.readouterr().err
