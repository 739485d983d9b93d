"""The precision study's table and figure on made-up records, and how commands treat a study."""

from __future__ import annotations

import json
from typing import Any

import matplotlib as mpl
import pytest
from frames import cell
from made_up import content
from seeds import MadeUpRuns, Some, write_all

from fedrepro.base.errors import FedreproError
from fedrepro.cli import main
from fedrepro.papers.precision.drawings import DRAWINGS
from fedrepro.papers.precision.measurements import TABLES
from fedrepro.report import artefacts, documents, drawings, style, verdicts
from fedrepro.report.expected import published
from fedrepro.runs import records
from fedrepro.runs.plan import PlannedRun, expand, load_plan
from fedrepro.runs.plan_files import papers, plans
from fedrepro.runs.plan_schema import SCALES
from fedrepro.runs.runset import MissingRunsError, RunSet
from fedrepro.runs.status import orphans
from fedrepro.workflow.config import load_config

mpl.use("Agg")

RESNET = "ResNet-9 (cadis)"
SEED = (0.40, 0.42, 0.47)
"""Made-up final accuracy of the float32 seeds."""
LESS = {"float32": (0, 0, 0), "tf32": (0.01, -0.01, 0.03), "bf16": (-0.02, -0.02, -0.02)}
"""Made-up differences to float32 by seed."""


class World:
    """What the made-up runs found."""

    paper = "precision"

    def record(self, run: PlannedRun) -> dict[str, Any]:
        final = SEED[run.seed] + LESS[run.spec.precision][run.seed]
        metrics = {"evaluated_rounds": [1, 2], "accuracy": [final / 2, final]}
        return content(run, metrics=metrics, final={"accuracy": final})


@pytest.fixture(scope="module")
def runs() -> RunSet:
    return MadeUpRuns("paper", World())


def test_the_study_is_the_same_run_in_three_precisions():
    by_place: dict[tuple[str, int], dict[str, dict]] = {}
    for run in expand("precision", "paper"):
        plain = run.spec.model_dump(exclude={"precision"})
        by_place.setdefault((run.group, run.seed), {})[run.spec.precision] = plain
    assert len(by_place) == 4 * 3
    for specs in by_place.values():
        assert list(specs) == ["float32", "tf32", "bf16"]
        assert specs["float32"] == specs["tf32"] == specs["bf16"]


def test_its_networks_are_those_that_are_published_in_tf32():
    fast = {r.spec.model.name for p in papers() for r in expand(p, "paper") if _fast(r)}
    assert {run.spec.model.name for run in expand("precision", "paper")} == fast


def _fast(run) -> bool:
    return run.spec.precision == "tf32"


def test_the_table_has_every_seed_and_paired_differences(runs):
    frame = artefacts.frame(runs, "networks")
    assert list(dict.fromkeys(frame["column"])) == [
        "float32",
        "TF32",
        "bfloat16",
        "TF32 less float32",
        "bfloat16 less float32",
        "seeds apart in float32",
    ]
    assert len(dict.fromkeys(frame["row"])) == 4 * (1 + 3)
    assert cell(frame, RESNET, "float32")["mean"] == pytest.approx(0.43)
    assert cell(frame, RESNET, "TF32")["values"] == (0.41, 0.41, 0.5)
    less = cell(frame, RESNET, "TF32 less float32")
    assert less["mean"] == pytest.approx(0.01)
    assert less["sd"] == pytest.approx(0.02)
    assert cell(frame, RESNET, "bfloat16 less float32")["sd"] == pytest.approx(0, abs=1e-9)
    assert cell(frame, RESNET, "seeds apart in float32")["mean"] == pytest.approx(0.07)
    one = cell(frame, f"{RESNET}, seed 2", "TF32 less float32")
    assert (one["n"], one["mean"]) == (1, pytest.approx(0.03))
    ids = {run.id for run in runs.members(["resnet9"]) if run.seed == 2 and not _bf16(run)}
    assert set(one["runs"]) == ids
    assert frame["published"].isna().all()


def _bf16(run) -> bool:
    return run.spec.precision == "bf16"


def test_the_table_is_laid_out(runs):
    text = artefacts.markdown(runs, "networks", artefacts.frame(runs, "networks"))
    assert "43.00 ± 3.61 % (n=3) | 44.00 ± 5.20 % (n=3)" in text
    assert "1.00 ± 2.00 points (n=3) | -2.00 ± 0.00 points (n=3) | 7.00 points (n=3)" in text
    assert f"| {RESNET}, seed 0 " in text
    assert "published value" not in text


def test_networks_whose_runs_are_recorded_are_shown(runs):
    fewer = Some(runs, lambda run: (run.group, run.seed) != ("resnet9", 2))
    with pytest.raises(MissingRunsError):
        artefacts.frame(fewer, "networks")
    frame = artefacts.frame(fewer, "networks", partial=True)
    assert len(set(frame["row"])) == 3 * (1 + 3)
    left_out = "Left out, as they have no record: 3 of 9 runs of ResNet-9 (cadis)."
    assert artefacts.left_out(fewer, "networks") == left_out
    figure = DRAWINGS["curves"](artefacts.frame(fewer, "curves", partial=True))
    assert [axis.get_visible() for axis in figure.axes] == [True, True, True, False]


def test_the_figure_has_a_panel_a_network_and_a_line_a_precision(runs, tmp_path, monkeypatch):
    frame = artefacts.frame(runs, "curves")
    assert list(frame.columns[:3]) == ["series", "x", "mean"]
    assert cell(frame, f"{RESNET}, bfloat16", 2)["values"] == (0.38, 0.4, 0.45)
    figure = DRAWINGS["curves"](frame)
    titles = [group.title for group in load_plan("precision").runs.values()]
    assert [axis.get_title() for axis in figure.axes] == titles
    for axis in figure.axes:
        assert len(axis.lines) == 3 * (3 + 1)
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == ["float32", "TF32", "bfloat16", "every seed"]
    monkeypatch.setattr(style, "save", lambda figure, stem: figure.savefig(f"{stem}.png"))
    drawings.write_figure(runs, "curves", tmp_path / "curves")
    assert (tmp_path / "curves.csv").read_text().startswith("series,x,mean,")


def test_a_study_is_planned_but_no_paper():
    assert set(plans()) - set(papers()) == {"precision"}
    assert set(TABLES) == set(load_plan("precision").tables)
    assert set(DRAWINGS) == set(load_plan("precision").figures)
    assert {scale: bool(expand("precision", scale)) for scale in SCALES} == {
        "paper": True,
        "lite": False,
        "quick": False,
        "smoke": False,
    }
    assert published("precision", "networks") == {}
    with pytest.raises(FedreproError, match="'precision' is a study of our own: without"):
        verdicts.check("precision", "paper")
    with pytest.raises(MissingRunsError, match="which has no run for it; choose `--scale paper`"):
        artefacts.frame(RunSet("precision", "lite"), "networks")


def test_its_records_are_no_orphans(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_all(records.FOLDER, "paper", World())
    assert orphans() == ()


def test_snakemake_does_not_make_it():
    values = {"papers": "precision", "scale": "paper", "train": "auto", "device": "cpu"}
    with pytest.raises(FedreproError, match="'precision' is a study of our own, which Snakemake"):
        load_config(values | {"data_root": None, "runs_per_batch": 8})


def test_commands_take_it_by_name_only(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    ids = {run.id for run in expand("precision", "paper")}
    command = ["status", "--scale", "paper", "--json"]
    assert main([*command, "--paper", "precision"]) == 0
    assert set(json.loads(capsys.readouterr().out)["pending"]) == ids
    assert main(command) == 0
    assert ids.isdisjoint(json.loads(capsys.readouterr().out)["pending"])
    write_all(tmp_path / records.FOLDER, "paper", World())
    assert main(["train", *sorted(ids)]) == 0
    assert capsys.readouterr().out == (
        "0 of 36 runs trained, 36 had a record\n"
        "`fedrepro why precision --scale paper` lists the tables and figures of these runs\n"
    )
    for kind, name in (("table", "networks"), ("figure", "curves")):
        assert main([kind, "precision", name, "--scale", "paper", "--out", name]) == 0
    said = capsys.readouterr().out.split()
    assert said == ["networks.csv", "networks.md", "curves.svg", "curves.png", "curves.csv"]
    assert {*said} <= {file.name for file in tmp_path.iterdir()}
    assert main(["why", "precision", "networks", f"{RESNET}/TF32", "--scale", "paper"]) == 0
    assert "precision resnet9 precision=tf32 seed=0" in capsys.readouterr().out


def test_its_page_says_what_is_not_trained(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = documents.BLOCKS["table"]("precision", "networks", "paper")
    assert "no record of " in text
    assert "train --pending --paper precision --scale paper" in text
