"""The scale ``quick``: one comparison a paper, on real images, trained in minutes."""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest
from matplotlib.figure import Figure
from seeds import write_all

from fedrepro.base.errors import FedreproError
from fedrepro.base.paths import root
from fedrepro.cli import main
from fedrepro.report import artefacts, drawings, style
from fedrepro.report.checks import DECIDED
from fedrepro.report.verdicts import check
from fedrepro.runs import records
from fedrepro.runs.plan import expand, load_plan
from fedrepro.runs.plan_files import papers
from fedrepro.runs.plan_schema import SCALES
from fedrepro.runs.runset import MissingRunsError, RunSet
from fedrepro.runs.status import status
from fedrepro.workflow.dag import Workflow

CORE_SECONDS = 20 * 60
"""Two cores train everything in ten minutes."""
CONFIG = {
    "papers": papers(),
    "scale": "quick",
    "train": "auto",
    "device": "cpu",
    "data_root": None,
    "runs_per_batch": 8,
}
PACK = os.environ.get("FEDREPRO_DATA")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], RunSet]:
    """Made-up records of a paper's quick runs."""

    @functools.cache
    def write(paper: str) -> RunSet:
        folder = tmp_path_factory.mktemp(paper) / records.OWN_FOLDER
        world = importlib.import_module(f"{paper}_records").World()
        return write_all(folder, "quick", world)

    return write


@pytest.mark.parametrize("paper", papers())
def test_quick_runs_are_of_real_images_and_of_no_other_scale(paper: str) -> None:
    planned = expand(paper, "quick")
    entry = load_plan(paper).at("quick")
    assert {run.group for run in planned} == set(entry.groups or [])
    assert {run.spec.dataset.name for run in planned} == {"mnist"}
    others = {run.id for scale in SCALES if scale != "quick" for run in expand(paper, scale)}
    assert not others & {run.id for run in planned}, "trained already, or in committed records"


def test_all_of_it_is_trained_in_minutes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The estimate rests on the committed records of like runs."""
    committed = root() / records.FOLDER
    monkeypatch.chdir(tmp_path)
    records.FOLDER.parent.mkdir()
    records.FOLDER.symlink_to(committed)
    state = status([run for paper in papers() for run in expand(paper, "quick")])
    assert state.recorded == ()
    assert state.pending_seconds < CORE_SECONDS
    for paper in papers():
        assert sum(state.seconds[run.id] for run in state.runs if run.paper == paper) < 300, paper


def test_records_are_not_among_the_committed_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for paper in papers():
        for scale in SCALES:
            committed = scale in ("paper", "lite")
            folder = records.FOLDER if committed else records.OWN_FOLDER
            assert {run.records for run in expand(paper, scale)} == {folder}


@pytest.mark.parametrize("paper", papers())
def test_its_artefacts_are_made(
    runs: Callable[[str], RunSet], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, paper: str
) -> None:
    def laid_out(figure: Figure, _: Path) -> None:
        """Draw no pixel, which takes most of the time."""
        figure.draw_without_rendering()
        plt.close(figure)

    monkeypatch.setattr(style, "save", laid_out)
    plan = load_plan(paper)
    made = {
        artefacts.write_table: plan.made("tables", "quick"),
        drawings.write_figure: plan.made("figures", "quick"),
    }
    for write, names in made.items():
        assert names
        for name in names:
            write(runs(paper), name, tmp_path / name)
            assert (tmp_path / f"{name}.csv").stat().st_size


@pytest.mark.parametrize("paper", papers())
def test_others_are_refused(runs: Callable[[str], RunSet], paper: str) -> None:
    plan, workflow = load_plan(paper), Workflow(CONFIG)
    made = {"tables": workflow.of_table, "figures": workflow.of_figure}
    for kind, made_of in made.items():
        name = next(n for n in getattr(plan, kind) if n not in plan.made(kind, "quick"))
        text = (
            f"{paper}: {name} is not made at scale quick, which has .* only; choose `--scale lite`"
        )
        with pytest.raises(MissingRunsError, match=text):
            artefacts.frame(runs(paper), name)
        with pytest.raises(FedreproError, match=text):
            made_of("quick", paper, name)


@pytest.mark.parametrize("paper", papers())
def test_nothing_is_judged(runs: Callable[[str], RunSet], paper: str) -> None:
    found = check(paper, "quick", runs(paper)._folder)
    assert found
    assert not {item.verdict for item in found} & set(DECIDED)


def test_check_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["check", "--paper", "selective", "--scale", "quick"]) == 0
    assert "Nothing is judged at scale quick" in capsys.readouterr().out


def test_snakemake_makes_a_part() -> None:
    workflow = Workflow(CONFIG)
    targets = workflow.everything(workflow.papers)
    assert "results/quick/figures/selective/fig3.svg" in targets
    assert "results/quick/partitions/emd/overview.csv" in targets
    assert not [path for path in targets if "/notebooks/" in path or "/checks/" in path]
    assert workflow.report() == []
    for ask in (workflow.of_check, workflow.of_notebook):
        with pytest.raises(FedreproError, match=r"emd has no verdicts, .* at scale quick"):
            ask("quick", "emd")
    with pytest.raises(FedreproError, match="has no verdicts, notebook and report at scale quick"):
        workflow.of_report("quick")
    assert workflow.runs_folder("emd") == str(records.OWN_FOLDER)


@pytest.mark.slow
@pytest.mark.skipif(PACK is None, reason="needs MNIST: set FEDREPRO_DATA to a pack of the data")
def test_training_shows_what_the_paper_says(tmp_path: Path, monkeypatch: Any) -> None:
    """Model 1 collapses without common classes where parameters share storage, not elsewhere."""
    from fedrepro.runs import session

    monkeypatch.chdir(tmp_path)
    groups = ["federated_as_written", "federated_as_run"]
    planned = [
        run
        for run in expand("selective", "quick")
        if run.group in groups and run.coordinates["percent"] in (0, 100)
    ]
    assert session.train(planned) == 4
    last = RunSet("selective", "quick").recorded().final(groups, ["accuracy"])
    accuracy = last.set_index(["group", "percent"])["accuracy"]
    assert accuracy.xs(100, level="percent").min() > 0.9
    assert 0.15 < accuracy["federated_as_run", 0] + 0.2 < accuracy["federated_as_written", 0]
    assert list(records.OWN_FOLDER.glob("*.json"))
    assert not records.FOLDER.exists()
