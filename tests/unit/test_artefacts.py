"""Every table, figure and verdict of every paper, on made-up records of its smoke plan."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cadis_records
import emd_records
import fedcd_records
import numpy as np
import pandas as pd
import pytest
import selective_records
import tricks_records
from matplotlib.figure import Figure
from matplotlib.textpath import TextPath
from seeds import MadeUpRuns, Some, World, write_all

from fedrepro.base.errors import FedreproError
from fedrepro.cli import main
from fedrepro.report import artefacts, code, drawings, style, trace, verdicts
from fedrepro.report.expected import load_expected
from fedrepro.report.figure import COLUMNS, UNITS
from fedrepro.report.trace import why
from fedrepro.report.verdicts import check
from fedrepro.runs import records
from fedrepro.runs.plan import load_plan
from fedrepro.runs.plan_files import papers
from fedrepro.runs.runset import MissingRunsError, RunSet

WORLDS: dict[str, World] = {
    "cadis": cadis_records.World(),
    "emd": emd_records.World(),
    "fedcd": fedcd_records.World(),
    "selective": selective_records.World(),
    "tricks": tricks_records.World(),
}
POSITIONS = {("tricks", "fig1"), ("tricks", "fig2")}
"""Figures of positions alone: without a mean."""
EVERY_PAPER = pytest.mark.parametrize("paper", sorted(WORLDS))
Smoke = Callable[[str], RunSet]
Made = Callable[[str, str], pd.DataFrame]


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> Smoke:
    """The runs of a paper's smoke scale."""
    return functools.cache(
        lambda paper: write_all(
            tmp_path_factory.mktemp(paper) / records.FOLDER, "smoke", WORLDS[paper]
        )
    )


@pytest.fixture(scope="module")
def made(smoke: Smoke) -> Made:
    """The frame of a table or figure of a paper's smoke scale."""
    return functools.cache(lambda paper, name: artefacts.frame(smoke(paper), name))


def test_every_paper_is_here() -> None:
    assert set(WORLDS) == set(papers())


@EVERY_PAPER
def test_titles_fit_their_figures(paper: str) -> None:
    for name, figure in load_plan(paper).figures.items():
        text = TextPath((0, 0), f"{figure.title} ({figure.source})", size=10)
        assert text.get_extents().width < 0.98 * 72 * style.WIDTH, name


@EVERY_PAPER
def test_the_plan_names_what_there_is(paper: str) -> None:
    plan = load_plan(paper)
    assert set(plan.tables) == set(code.tables(paper))
    assert set(plan.figures) == set(code.figures(paper)) == set(drawings.of_paper(paper))


@EVERY_PAPER
def test_every_claim_has_a_rule_and_every_rule_a_claim(paper: str) -> None:
    assert {claim.rule for claim in load_expected(paper).claims} == set(code.claims(paper))


@pytest.mark.parametrize(
    ("paper", "name"), [(paper, name) for paper in WORLDS for name in load_plan(paper).tables]
)
def test_tables_are_written(smoke: Smoke, tmp_path: Path, paper: str, name: str) -> None:
    artefacts.write_table(smoke(paper), name, tmp_path / name)
    scale = "Scale: smoke" if smoke(paper).plan.tables[name].runs else "The same at every scale"
    assert scale in (tmp_path / f"{name}.md").read_text()
    spread = "mean,sd,low" if name == "pill" else "mean,sd,n"  # published numbers alone
    assert (tmp_path / f"{name}.csv").read_text().startswith(f"row,column,{spread},")


@pytest.mark.parametrize(
    ("paper", "name"), [(paper, name) for paper in WORLDS for name in load_plan(paper).figures]
)
def test_figures_are_written(
    smoke: Smoke,
    made: Made,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    paper: str,
    name: str,
) -> None:
    monkeypatch.setattr(drawings, "frame", lambda runs, name, *, partial: made(runs.paper, name))
    drawings.write_figure(smoke(paper), name, tmp_path / name)
    assert (tmp_path / f"{name}.svg").read_text().startswith("<?xml")
    png = (tmp_path / f"{name}.png").read_bytes()
    assert png.startswith(b"\x89PNG")
    assert len(png) > 5000
    mean = "" if (paper, name) in POSITIONS else "mean,"
    assert (tmp_path / f"{name}.csv").read_text().startswith(f"series,x,{mean}")
    assert {file.suffix for file in tmp_path.iterdir()} == {".csv", ".png", ".svg"}


@pytest.mark.parametrize(
    ("paper", "name"), [(paper, name) for paper in WORLDS for name in load_plan(paper).figures]
)
def test_every_number_of_a_figure_has_a_unit(made: Made, paper: str, name: str) -> None:
    cells = made(paper, name)
    assert set(cells["unit"]) <= set(UNITS)
    described = {column for names in COLUMNS for column in names.split(", ")}
    described |= {"x", "sd", "low", "high", "published", "published_sd"}
    numbers = {column for column in cells if pd.api.types.is_numeric_dtype(cells[column])}
    numbers -= {column for column in numbers if cells[column].dtype == bool}
    assert numbers - described == set()
    if "mean" not in cells:
        return
    within = {"fraction": (0, 1), "points": (-1, 1)}
    whole = {"count", "index"}
    for unit, means in cells.dropna(subset="mean").groupby("unit")["mean"]:
        low, high = within.get(str(unit), (-np.inf, np.inf))
        assert means.between(low, high).all(), unit
        assert unit not in whole or (means >= 0).all()


@EVERY_PAPER
def test_figures_say_over_how_many_runs_their_points_are_means(
    smoke: Smoke, made: Made, paper: str
) -> None:
    for name in load_plan(paper).figures:
        text = drawings._under_title(smoke(paper), name, made(paper, name))
        assert re.fullmatch(
            r"the same at every scale|scale: smoke(; n = [1-9]\d*( to [1-9]\d*)?)?", text
        ), name


@pytest.mark.parametrize(
    ("n", "text"),
    [
        ([3, 1, 2], "scale: smoke; n = 1 to 3"),
        ([2.0, float("nan"), 0.0], "scale: smoke; n = 2"),
        ([0, 0], "scale: smoke"),
        ([], "scale: smoke"),
    ],
)
def test_cells_of_no_run_do_not_count(smoke: Smoke, n: list[float], text: str) -> None:
    assert drawings._under_title(smoke("selective"), "fig3", pd.DataFrame({"n": n})) == text


def test_a_long_title_stays_on_the_figure(
    smoke: Smoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures: list[Figure] = []
    monkeypatch.setattr(drawings.style, "save", lambda figure, stem: figures.append(figure))
    drawings.write_figure(smoke("tricks"), "curves", tmp_path / "curves")
    monkeypatch.setattr(
        drawings, "left_out_briefly", lambda *_: "7 of 7 runs of server momentum; " * 20
    )
    drawings.write_figure(smoke("tricks"), "curves", tmp_path / "curves")
    short, figure = figures
    for drawing in figures:
        drawing.canvas.draw()
    panels = [drawing.axes[0].get_window_extent().height for drawing in figures]
    assert panels[1] == pytest.approx(panels[0], rel=0.05), "the title takes none of the panel"
    assert figure.bbox.height > short.bbox.height
    [title] = [text for text in figure.texts if "7 of 7 runs" in text.get_text()]
    box = title.get_window_extent()
    assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1


def test_equal_data_give_equal_files(smoke: Smoke, tmp_path: Path) -> None:
    for copy in ("a", "b"):
        drawings.write_figure(smoke("selective"), "groups_per_n", tmp_path / copy)
    for kind in ("svg", "png", "csv"):
        first, second = ((tmp_path / f"{copy}.{kind}").read_bytes() for copy in ("a", "b"))
        assert first == second


@pytest.mark.parametrize(
    ("paper", "name"),
    [
        (paper, name)
        for paper in WORLDS
        for name in (*load_plan(paper).tables, *load_plan(paper).figures)
    ],
)
def test_every_cell_can_be_traced(
    smoke: Smoke, made: Made, monkeypatch: pytest.MonkeyPatch, paper: str, name: str
) -> None:
    for module in (trace, verdicts):
        monkeypatch.setattr(
            module, "frame", lambda runs, name, *, partial: made(runs.paper, name).copy()
        )
    monkeypatch.chdir(smoke(paper)._folder.parents[1])
    title, *lines = why(paper, name, None, "smoke").splitlines()
    assert title.startswith(f"{paper} {name}: ")
    assert lines
    for line in lines:
        ours = r"(ours \S+|no number of ours).*; runs [0-9a-f]{12}.*"
        others = r"(no number of ours|undefined|-?\d\S*).*; no run"
        assert re.search(f" ({ours}|{others})$", line)
        assert "published nan" not in line


@pytest.mark.parametrize(
    ("write", "name"), [(artefacts.write_table, "fig1a"), (drawings.write_figure, "table2")]
)
def test_a_figure_is_no_table(
    smoke: Smoke, tmp_path: Path, write: Callable[..., None], name: str
) -> None:
    with pytest.raises(FedreproError, match=rf"paper 'emd' has no (table|figure) '{name}'"):
        write(smoke("emd"), name, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("name", "made"), [("table2", code.tables), ("fig5a", code.figures)])
def test_an_artefact_without_a_function_is_named(
    smoke: Smoke, monkeypatch: pytest.MonkeyPatch, name: str, made: Callable[[str], Any]
) -> None:
    monkeypatch.delitem(made("emd"), name)
    with pytest.raises(FedreproError, match=rf"emd\.yaml: (tables|figures)\.{name}: no function"):
        artefacts.frame(smoke("emd"), name)


def test_a_figure_that_nothing_draws_is_named(
    smoke: Smoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(drawings.of_paper("emd"), "fig5a")  # type: ignore[arg-type]
    text = "figures.fig5a: no function makes it; name one in DRAWINGS of .*/emd/drawings.py"
    with pytest.raises(FedreproError, match=text):
        drawings.write_figure(smoke("emd"), "fig5a", tmp_path / "fig5a")


@EVERY_PAPER
def test_smoke_runs_are_never_judged(smoke: Smoke, paper: str) -> None:
    found = check(paper, "smoke", smoke(paper)._folder)
    assert {item.verdict for item in found} - {"no target", "not reproducible"} == {"not decidable"}


@EVERY_PAPER
def test_one_group_alone_gives_a_table_or_says_what_is_missing(smoke: Smoke, paper: str) -> None:
    runs, count = smoke(paper), 0
    for group in runs.plan.runs:
        alone = Some(runs, lambda run, group=group: run.group == group)
        for name in [name for name in runs.plan.tables if group in runs.groups_of(name)]:
            try:
                cells = artefacts.frame(alone, name, partial=True)
            except MissingRunsError:
                continue
            assert artefacts.markdown(alone, name, cells)
            assert len(cells), name
            count += 1
    assert count


@EVERY_PAPER
def test_all_runs_of_the_published_scale_give_everything(paper: str) -> None:
    """All that is made of runs; the rest is the same at every scale."""
    runs = MadeUpRuns("paper", WORLDS[paper])
    names = (*runs.plan.made("tables", "paper"), *runs.plan.made("figures", "paper"))
    for name in filter(runs.groups_of, names):
        cells = artefacts.frame(runs, name)
        assert len(cells), name


def test_what_the_recorded_runs_do_not_suffice_for_is_named(smoke: Smoke, tmp_path: Path) -> None:
    runs = smoke("emd")
    few = RunSet("emd", "smoke", tmp_path)
    planned = {run.id for run in runs.planned(runs.groups_of("table1"))}
    with pytest.raises(MissingRunsError, match=f"no record of {len(planned)} .* for table1, "):
        artefacts.frame(few, "table1", partial=True)
    one = runs.planned(["mnist_sgd_large"])[0]
    shutil.copy(records.path_of(one.id, runs._folder), tmp_path)
    start = "^emd, scale smoke: table1 cannot be made of the 1 of .* runs that are recorded: "
    with pytest.raises(MissingRunsError, match=start):
        artefacts.frame(few, "table1", partial=True)
    with pytest.raises(MissingRunsError, match=r": no training is .*; train them with `fedrepro "):
        artefacts.frame(few, "table1", partial=True)
    with pytest.raises(MissingRunsError, match="; `--partial` leaves them out"):
        artefacts.frame(few, "table1")


@EVERY_PAPER
def test_missing_runs_are_named(tmp_path: Path, paper: str) -> None:
    plan = load_plan(paper)
    for name in [name for name in (*plan.tables, *plan.figures) if plan.artefact(name).runs]:
        start = rf"^{paper}, scale smoke: no record of \d+ of the runs for {name}, "
        with pytest.raises(MissingRunsError, match=start):
            artefacts.frame(RunSet(paper, "smoke", tmp_path), name)


def test_tables_and_verdicts_do_not_wait_for_what_is_slow_to_import() -> None:
    program = """
import sys, fedrepro.report.documents, fedrepro.report.verdicts
from fedrepro.report import code
from fedrepro.runs.plan_files import papers

[find(paper) for find in (code.tables, code.figures, code.claims) for paper in papers()]
print([name for name in ("matplotlib", "scipy", "torch") if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


def cell(unit: str, values: list[float], published: float = float("nan")) -> pd.Series:
    """A table's cell of these seeds' values."""
    nan = float("nan")
    return pd.Series(
        {
            "mean": np.mean(values) if values else nan,
            "sd": np.std(values, ddof=1) if len(values) > 1 else nan,
            "n": len(values),
            "values": tuple(values),
            "published": published,
            "unit": unit,
        }
    )


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (cell("fraction", [0.5, 0.6], 0.9804), "55.00 ± 7.07 % (n=2) [98.04 %]"),
        (cell("fraction", [0.5, 0.5], 0.00086), "50.00 ± 0.00 % (n=2) [0.086 %]"),
        (cell("points", [0.021, 0.019], 0.019), "2.00 ± 0.14 points (n=2) [1.90 points]"),
        (cell("count", [5.0, 5.0], 5), "5 ± 0 (n=2) [5]"),
        (cell("count", [81.0, 64.0], 94), "72.50 ± 12.02 (n=2) [94]"),
        (cell("number", [105.173, 104.173], 39.2), "104.7 ± 0.7 (n=2) [39.2]"),
        (cell("number", [3.8e-7, 3.6e-7]), "3.7e-07 ± 1.4e-08 (n=2)"),
        (cell("number", [0.0, 0.002]), "0.00100 ± 0.00141 (n=2)"),
        (cell("number", [float("nan")]), "undefined (n=1)"),
        (cell("count", [], 1001), "[1001]"),
        (cell("fraction", []), ""),
    ],
)
def test_text_of_a_cell(cell: pd.Series, text: str) -> None:
    assert artefacts.cell_text(cell) == text


def test_artefacts_say_whether_their_scale_matters(smoke: Smoke) -> None:
    assert artefacts.at_scale(smoke("selective"), "fig3") == "scale: smoke"
    assert artefacts.at_scale(smoke("selective"), "theorem") == "the same at every scale"
    lite = RunSet("selective", "lite")
    assert artefacts.at_scale(lite, "fig3") == "scale: lite, with these runs as published"
    assert artefacts.at_scale(lite, "fig4") == "scale: lite"
    assert artefacts.at_scale(RunSet("selective", "paper"), "fig3") == "scale: paper"


def test_without_a_file_to_write_they_are_printed(
    smoke: Smoke, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = smoke("tricks")
    monkeypatch.chdir(runs._folder.parent.parent)
    assert main(["table", "tricks", "table1", "--scale", "smoke"]) == 0
    printed = capsys.readouterr().out
    assert printed == artefacts.markdown(runs, "table1", artefacts.frame(runs, "table1"))
    assert main(["table", "tricks", "table2", "--scale", "smoke", "--latex"]) == 0
    about, begin, _, head, _, first, *_ = capsys.readouterr().out.splitlines()
    assert about.startswith("% Accuracy with server-side training (Table 2). Scale: smoke")
    assert (begin, head) == (r"\begin{tabular}{lr}", r" & accuracy \\")
    assert re.fullmatch(r"server-side data 0 \\% & [\d.]+ .*\\% .*\[73.00 ± 2.6 \\%\] \\\\", first)
    assert main(["table", "tricks", "table1", "--latex", "--out", "table1"]) == 2
    assert "--latex: not allowed with --out" in capsys.readouterr().err
    assert main(["figure", "tricks", "curves", "--scale", "smoke"]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.startswith("series,x,")
    assert len(rows) == len(artefacts.frame(runs, "curves"))
    assert main(["table", "tricks", "curves"]) == 1
    assert "no table 'curves'" in capsys.readouterr().err
