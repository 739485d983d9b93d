"""Numbers in sentences, held against cells of the committed records."""

from pathlib import Path

import pandas as pd
import pytest

from fedrepro.base.errors import FedreproError
from fedrepro.base.paths import root
from fedrepro.report import cited
from fedrepro.runs.plan_files import plans
from fedrepro.runs.runset import RunSet

NIID = "FL - NIID(5)/accuracy"
"""36.06 % +- 1.41, n = 7; published 73.0 %."""
CENTRAL = "Centralized/accuracy"
"""48.73 %; published 90.4 %."""


@pytest.fixture
def citations(tmp_path, monkeypatch):
    """Return a function that yields what a text cites of Table 1 of `tricks` at lite."""
    file = tmp_path / "cited.yaml"
    monkeypatch.setattr(cited, "file_of", lambda paper: file)

    def found(text, sentence, cell=NIID, table="table1", scale="lite"):
        file.write_text(f"{scale}:\n  {table}:\n    '{cell}':\n      - '{sentence}'\n")
        return list(cited.citations("tricks", {Path("page.md"): text}))

    return found


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("ends at 36.06 %", True),
        ("ends at 36.1 %", True),
        ("ends at 36 %", True),
        ("ends at 36.0 %", False),
        ("ends at 37 %", False),
        ("ends at -36 %", False),
    ],
)
def test_a_number_is_right_if_its_cell_rounds_to_it(citations, text, right):
    assert [item.right for item in citations(text, "ends at {mean} %")] == [right]


def test_every_field_is_told_in_the_units_of_readers(citations):
    text = "36.06 1.41 7 34.76 37.36 34.54 38.55 73.00 -36.94"
    named = "mean sd n low high least most published gap"
    found = citations(text, " ".join(f"{{{name}}}" for name in named.split()))
    assert [item.right for item in found] == [True] * 9
    assert named.split() == list(cited.FIELDS)


def test_numbers_may_be_words(citations):
    for word, right in (("seven", True), ("six", False)):
        assert [item.right for item in citations(f"over {word} seeds", "over {n} seeds")] == [right]


def test_a_difference_is_of_the_means_and_of_the_published_values(citations):
    sentence = "loses {mean} points (published {published}), a gain of {-mean}"
    text = "loses 12.7 points (published 17.4), a gain of -12.7"
    found = citations(text, sentence, cell=f"{CENTRAL} minus {NIID}")
    assert [item.right for item in found] == [True] * 3


def test_lines_may_be_broken_anywhere(citations):
    assert citations("it\n  ends\n  at 36.1 %", "it ends at {mean} %")[0].right


def test_every_place_with_the_sentence_counts(citations):
    found = citations("ends at 36 %; ends at 35 %", "ends at {mean} %")
    assert [item.right for item in found] == [True, False]
    assert [item.start for item in found] == [8, 22]


@pytest.mark.parametrize(
    ("changed", "parts"),
    [
        ({"cell": "FL - NIID(4)/accuracy"}, ["no cell 'FL - NIID(4)/accuracy'", f"'{NIID}'"]),
        ({"sentence": "ends at {means} %"}, ["no field {means}", "mean"]),
        ({"sentence": "begins at {mean} %"}, ["no 'begins at {mean} %' in page.md"]),
        ({"sentence": "ends at 36.1 %"}, ["'ends at 36.1 %' has no number"]),
        ({"table": "table9"}, ["table9"]),
        ({"table": "fig2"}, ["lite fig2 has no high, low, mean"]),
        ({"scale": "large"}, ["large"]),
        ({"cell": f"{NIID} minus {NIID}", "sentence": "at {sd} %"}, ["no field {sd}"]),
    ],
)
def test_what_cannot_be_held_is_named(citations, changed, parts):
    with pytest.raises(FedreproError) as error:
        citations(**{"text": "ends at 36.1 %", "sentence": "ends at {mean} %"} | changed)
    for part in parts:
        assert part in str(error.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", r"is empty; write `\{\}` where there is nothing to say"),
        ("lit: {}", r"\n  unknown key 'lit' \(did you mean 'lite'\?"),
        ("lite: {tabel1: {}}", r"lite: paper 'tricks' has no table or figure 'tabel1'"),
        ("smoke: {table1: {}}", r"smoke: tricks, scale smoke: no record of "),
    ],
)
def test_what_is_wrong_is_named_with_the_file(tmp_path, monkeypatch, text, problem):
    file = tmp_path / "cited.yaml"
    file.write_text(text)
    monkeypatch.setattr(cited, "file_of", lambda paper: file)
    with pytest.raises(FedreproError, match=rf"^{file}:\s*{problem}"):
        list(cited.citations("tricks", {}))


def test_a_cell_that_is_there_twice_is_refused(citations, monkeypatch):
    twice = pd.concat([cited.frame(RunSet("tricks", "lite"), "table1")] * 2)
    monkeypatch.setattr(cited, "frame", lambda *args, **options: twice)
    with pytest.raises(FedreproError, match="has several rows 'FL - NIID"):
        citations("ends at 36 %", "ends at {mean} %")


def test_a_wrong_number_is_told_with_its_file_and_cell(citations, monkeypatch):
    citations("ends at 36 %", "ends at {mean} %")
    texts = {Path("page.md"): "ends at 36 %", Path("verdicts.yaml"): "it ends\n    at 37 %"}
    monkeypatch.setattr(cited, "plans", lambda: ["tricks"])
    monkeypatch.setattr(cited, "texts_of", lambda paper: texts)
    assert cited.wrong() == [f"verdicts.yaml: '37' is 36.06 by lite table1 '{NIID}' mean"]


def test_a_paper_without_the_file_cites_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr(cited, "file_of", lambda paper: tmp_path / paper)
    assert cited.wrong() == []


def test_every_paper_and_study_says_what_it_cites():
    files = (root() / "config/cited").glob("*.yaml")
    assert sorted(file.stem for file in files) == plans()
