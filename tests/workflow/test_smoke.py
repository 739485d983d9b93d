"""The smoke scale, trained from scratch, and what follows from its records."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pandas as pd
import pytest
from clones import MADE, PAPERS, SMOKE, SMOKE_OF_MADE, Clone

from fedrepro.fl.spec import partition_id
from fedrepro.report import artefacts
from fedrepro.runs import records
from fedrepro.runs.plan import expand, load_plan
from fedrepro.runs.runset import RunSet

pytestmark = pytest.mark.slow
Smoke = tuple[Clone, Path, str]


def test_everything_is_there(smoke: Smoke, smoke_ids: Any) -> None:
    _, folder, text = smoke
    results = folder / "results/smoke"
    assert records.recorded_ids(folder / "results/own/runs") == smoke_ids()
    of_made = smoke_ids(lambda run: run.paper == MADE)
    assert f"0 runs recorded, {len(of_made)} pending" in text
    plan = load_plan(MADE)
    for name, table in plan.tables.items():
        assert len(pd.read_csv(results / f"tables/{MADE}/{name}.csv"))
        scale = "Scale: smoke" if table.runs else "The same at every scale"
        assert scale in (results / f"tables/{MADE}/{name}.md").read_text()
    for figure in plan.figures:
        stem = results / f"figures/{MADE}/{figure}"
        assert stem.with_suffix(".svg").read_text().lstrip().startswith("<?xml")
        assert stem.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
        assert len(pd.read_csv(stem.with_suffix(".csv")))
    verdicts = json.loads((results / f"checks/{MADE}.json").read_text())
    assert {"id", "kind", "published", "ours", "interval", "verdict", "runs"} <= set(verdicts[0])
    overview = pd.read_csv(results / f"partitions/{MADE}/overview.csv")
    assert set(overview["partition"]) == {partition_id(run.spec) for run in expand(MADE, "smoke")}
    html = (results / f"notebooks/{MADE}.html").read_text()
    assert "<img" in html
    assert "import " not in html.partition("<body")[2].partition("<script")[0]
    assert not re.search(r"<(?:script|link|img)[^>]*\s(?:src|href)=\"?https?:", html)
    assert f"papers/{MADE}.html" in (results / "report/index.html").read_text()
    assert not (folder / f"logs/smoke/notebooks/{MADE}.ipynb").exists(), "kept only when it fails"


@pytest.mark.parametrize("paper", PAPERS)
def test_trained_runs_have_what_every_artefact_shows(smoke: Smoke, paper: str) -> None:
    runs = RunSet(paper, "smoke", smoke[1] / "results/own/runs")
    for name in [*runs.plan.made("tables", "smoke"), *runs.plan.made("figures", "smoke")]:
        if runs.groups_of(name):  # others show no run
            assert len(artefacts.frame(runs, name)), name


def test_the_repository_is_left_alone(smoke: Smoke) -> None:
    clone, _, _ = smoke
    assert not (clone.root / "results").exists()
    assert not (clone.root / "logs").exists()
    assert not (clone.root / "data").exists()


def test_a_second_call_has_nothing_to_do(smoke: Smoke) -> None:
    clone, folder, _ = smoke
    plan = clone.plan("--directory", str(folder), *SMOKE_OF_MADE, "all")
    assert plan.jobs == {}
    assert "Nothing to be done" in plan.text


def test_index_lists(smoke: Smoke) -> None:
    clone, folder, _ = smoke
    run = expand("emd", "smoke")[-1]
    path = f"results/smoke/partitions/emd/{partition_id(run.spec)}.npz"
    done = clone.snakemake("--cores", "1", "--directory", str(folder), *SMOKE, path)
    assert done.returncode == 0, done.stderr
    counts = records.read(run.id, folder / "results/own/runs").partition.counts
    with np.load(folder / path, allow_pickle=False) as arrays:
        sizes = [len(arrays[f"client_{i:03}"]) for i in range(len(counts))]
    assert sizes == [sum(row) for row in counts]


def test_a_deleted_record_comes_back_the_same(recorded: Clone, smoke_ids: Any) -> None:
    run_id = smoke_ids(lambda run: run.group == "selective_as_written")[0]
    file = recorded.records / f"{run_id}.json"
    before = json.loads(file.read_text())
    file.unlink()
    done = recorded.snakemake("--cores", "1", *SMOKE, f"results/own/runs/{run_id}.json")
    assert done.returncode == 0, done.stderr
    after = json.loads(file.read_text())
    for part in ("spec", "versions", "metrics", "final", "partition"):
        assert after[part] == before[part]


def test_edited_code_makes_only_its_artefacts_again(smoke: Smoke) -> None:
    """A changed drawing remakes figures and what shows them, no table and no verdict.

    Touching it does nothing, nor does a change of another paper's.
    """
    clone, folder, _ = smoke
    codes = [clone.root / f"src/fedrepro/papers/{paper}/drawings.py" for paper in (MADE, "emd")]
    code, of_other = codes
    originals = [file.read_text() for file in codes]
    try:
        code.touch()
        of_other.write_text(originals[1] + "\n# changed\n")
        assert clone.plan("--directory", str(folder), *SMOKE_OF_MADE, "all").jobs == {}
        code.write_text(originals[0] + "\n# changed\n")
        plan = clone.plan("--directory", str(folder), *SMOKE_OF_MADE, "all")
    finally:
        for file, original in zip(codes, originals, strict=True):
            file.write_text(original)
    figures = len(load_plan(MADE).figures)
    assert plan.jobs == {"all": 1, "figure": figures, "notebook": 1, "report": 1}


def test_a_failing_notebook_is_kept(recorded: Clone) -> None:
    template = recorded.root / "notebooks/emd.ipynb"
    notebook = nbformat.read(template, 4)
    notebook.cells = [
        *notebook.cells[:3],
        nbformat.v4.new_code_cell("raise ValueError('broken on purpose')"),
    ]
    nbformat.write(notebook, template)
    said = recorded.fails("--cores", "1", *SMOKE, "results/smoke/notebooks/emd.html")
    assert "broken on purpose" in said
    assert "The notebook with its error: logs/smoke/notebooks/emd.ipynb" in said
    kept = nbformat.read(recorded.root / "logs/smoke/notebooks/emd.ipynb", 4)
    assert any(
        output.output_type == "error" and output.evalue == "broken on purpose"
        for cell in kept.cells
        for output in cell.get("outputs", [])
    )
    assert not (recorded.root / "results/smoke/notebooks/emd.html").exists()
    shutil.rmtree(recorded.root)


def test_a_half_written_page_is_no_output(clone: Clone, write_record: Any) -> None:
    for run in expand("fedcd", "smoke"):
        write_record(run, clone.records)
    template = clone.root / "notebooks/fedcd.ipynb"
    template.write_text(json.dumps(json.loads(template.read_text()) | {"cells": []}))
    (clone.root / "src/nbconvert.py").write_text(  # goes before the real one
        "import pathlib, sys\n"
        "pathlib.Path(sys.argv[-1]).with_suffix('.html').write_text('<html>')\n"
        "sys.exit('no space left')\n"
    )
    page = "results/smoke/notebooks/fedcd.html"
    said = clone.fails("--keep-incomplete", "--cores", "1", *SMOKE, page)
    assert "no space left" in said
    assert not (clone.root / page).exists()


def test_report_of_snakemake(smoke: Smoke, tmp_path: Path) -> None:
    """What `snakemake --report` shows has a place, a name and a caption."""
    clone, folder, _ = smoke
    report = tmp_path / "report.html"
    done = clone.snakemake(
        "--directory", str(folder), "--report", str(report), *SMOKE_OF_MADE, "all"
    )
    assert done.returncode == 0, done.stderr
    text = report.read_text()
    shown, categories = _variable(text, "results"), _variable(text, "categories")
    plan = load_plan(MADE)
    by_kind = categories.pop(MADE)
    assert set(by_kind) == {"Tables", "Figures", "Partitions", "Notebooks"}
    for kind, every in (("Tables", plan.tables), ("Figures", plan.figures)):
        labels = [shown[file]["labels"] for file in by_kind[kind]]
        named = {label["name"]: (label["title"], label["in the paper"]) for label in labels}
        assert named == {name: (about.title, about.source) for name, about in every.items()}
    assert categories == {}, "something is of no paper"
    for file, about in shown.items():
        assert all(about["labels"].values()), file
        assert about["labels"]["scale"] == "smoke"
        caption = re.sub(r"<[^>]+>", "", about["caption"]).strip()
        assert len(caption) > 40, file
        assert not re.search(r"[{}]|Undefined|None|from 0 run", caption), caption
    assert not re.search(r"<(?:script|link|img)[^>]*\s(?:src|href)=\"?https?:", text)


def _variable(page: str, name: str) -> Any:
    """Return an object that a script of the page defines."""
    place = page.index(f"var {name} = {{") + len(f"var {name} = ")
    return json.JSONDecoder().raw_decode(page[place:])[0]
