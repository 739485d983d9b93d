"""Generated blocks of documents, on a file of our own and the committed records."""

import re

import pytest

from fedrepro.base.errors import FedreproError
from fedrepro.base.paths import root
from fedrepro.report import documents


@pytest.fixture
def document(tmp_path, monkeypatch):
    """Return a function that updates a document of some blocks and returns its new text."""
    file = tmp_path / "page.md"
    monkeypatch.setattr(documents, "files", lambda: [file])

    def updated(*blocks: str) -> str:
        old = (f"<!-- begin: {block} -->\nold\n<!-- end -->\n" for block in blocks)
        file.write_text(f"before\n{''.join(old)}after\n")
        documents.update()
        return file.read_text()

    return updated


def test_text_around_a_block_stays(document):
    text = document("claims tricks paper")
    assert text.startswith("before\n<!-- begin: claims tricks paper -->\n| claim ")
    assert text.endswith("|\n<!-- end -->\nafter\n")
    assert "old" not in text


def test_a_current_document_is_not_written_again(document):
    document("columns")
    assert documents.update() == []


def test_verdicts_may_be_added_up_by_the_first_parts_of_a_place(document):
    text = document("verdicts cadis paper", "verdicts cadis paper 2")
    every, rows = (block.splitlines() for block in text.split("<!-- end -->")[:2])
    assert sum(line.startswith("| Table I, MNIST 10/100, CADIS ") for line in every) == 2
    assert sum(line.startswith("| Table I, MNIST 10/100 ") for line in rows) == 3


def test_costs_leave_out_groups_without_runs_at_the_scale(document):
    text = document("cost cadis lite")
    assert "FedAvg, MNIST MC " in text
    assert "FedAvg, CIFAR-100 MC, more clients a round" not in text


def test_costs_tell_groups_of_one_title_apart(document):
    text = document("cost emd lite")
    assert "`mnist_sgd_large`" in text
    assert "`kws_sgd_large`" in text


def test_minutes_of_a_gpu_are_no_core_minutes(document):
    def rows(block: str) -> dict[str, dict[str, str]]:
        lines = [line for line in document(block).splitlines() if line.startswith("| ")]
        head, *others = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
        cells = [dict(zip(head, other, strict=True)) for other in others]
        return {row["group"]: row for row in cells}

    published = rows("cost emd paper")
    on_gpu = published["`unit_pixels_one_class`"]
    assert on_gpu["on"] == "NVIDIA H100 80GB HBM3"
    assert float(on_gpu["core minutes"]) == 0 < float(on_gpu["GPU minutes"])
    on_cpu = next(row for row in published.values() if "EPYC" in row["on"])
    assert float(on_cpu["GPU minutes"]) == 0 < float(on_cpu["core minutes"])
    assert all("GPU minutes" not in row for row in rows("cost tricks lite").values())


def test_what_a_scale_changes_is_said_once_not_over_every_table(document):
    note = "an eighth of the network's width"
    assert f"Scale `lite`: MNIST: {note}" in document("scale emd lite")
    table = document("table emd own_initial lite")
    assert "Scale: lite. Cells: " in table
    assert note not in table


def test_runs_are_listed_one_by_one(document):
    text = document("runs emd paper unit_pixels_one_class mnist_sgd_large")
    rows = [line for line in text.splitlines() if "results/runs/" in line]
    assert len(rows) == 3
    title = "FedAvg, non-IID(1), large B; pixels in [0, 1], PyTorch's initial weights"
    assert f"| {title} | unit        | own    | 0 " in rows[0]
    assert "83.69 %" in rows[0]
    assert "NVIDIA H100 80GB HBM3, backend stacked, commit 0f335c9" in rows[0]


END = "<!-- end -->\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"<!-- begin: one -->\nprose\n<!-- begin: two -->\n{END}", "block 'one' has no "),
        (f"<!-- begin: one -->\n{END}<!-- begin: two -->\nprose\n", "block 'two' has no "),
        (f"<!-- begin: one -->\n{END}prose\n{END}", "without a block before it"),
    ],
)
def test_a_lost_marker_deletes_no_prose(tmp_path, monkeypatch, text, message):
    file = tmp_path / "page.md"
    file.write_text(text)
    monkeypatch.setattr(documents, "files", lambda: [file])
    monkeypatch.setattr(documents, "BLOCKS", {"one": str, "two": str})
    with pytest.raises(FedreproError, match=message) as error:
        documents.update()
    assert "page.md" in str(error.value)
    assert file.read_text() == text


@pytest.mark.parametrize(
    ("block", "parts"),
    [
        ("verdict emd lite", ["unknown block 'verdict'", "verdicts"]),
        ("verdicts emd", ["block 'verdicts emd'", "scale"]),
        ("runs emd paper mnist_sgd_larg", ["no group of runs 'mnist_sgd_larg'"]),
        ("verdicts emd lite many", ["block 'verdicts emd lite many'", "'many'"]),
        ("growth AVX", ["block 'growth AVX': no change 'AVX' (did you mean 'AVX2'?"]),
        ("changes emdd", ["block 'changes emdd': unknown paper 'emdd' (did you mean 'emd'?"]),
    ],
)
def test_a_bad_block_is_named_with_its_file(document, tmp_path, block, parts):
    with pytest.raises(FedreproError) as error:
        document(block)
    for part in ("page.md", *parts):
        assert part in str(error.value)


def test_a_release_draws_every_figure_that_documents_show():
    pages = [root() / "README.md", *(root() / "docs").rglob("*.md")]
    shown = {name for page in pages for name in re.findall(r"gallery/(\w+)\.png", page.read_text())}
    drawn = re.findall(
        r"fedrepro figure (\w+) (\w+) --scale \w+(?: --partial)? --out docs/gallery/(\1_\2\w*)\n",
        (root() / "Makefile").read_text(),
    )
    kept = {file.stem for file in (root() / "docs/gallery").iterdir()}
    assert {stem for _, _, stem in drawn} == shown == kept
