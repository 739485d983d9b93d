"""Plans of one's own: in any folder, without code, with records apart."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from made_up import content
from test_report import require_links

import fedrepro as fr
import fedrepro.papers
from fedrepro.base import paths
from fedrepro.base.errors import FedreproError
from fedrepro.cli import main
from fedrepro.fl.spec import identity
from fedrepro.report import artefacts, code, drawings, generic, recorded, trace
from fedrepro.runs import command, records, session
from fedrepro.runs.plan import expand, load_plan
from fedrepro.runs.plan_files import OWN_PLANS, is_own, is_study, papers, plans, use_plans
from fedrepro.runs.runset import RunSet
from fedrepro.workflow.dag import Workflow

PLAN: dict[str, Any] = {
    "paper": "my-plan",
    "title": "FedProx against FedAvg",
    "defaults": {
        "dataset": {"name": "synthetic"},
        "partition": {"scheme": "dirichlet", "clients": 4, "alpha": 0.5},
        "model": {"name": "liu1"},
        "algorithm": {"name": "fedavg"},
        "optimizer": {"name": "sgd", "lr": 0.1},
        "batch": 10,
        "rounds": 3,
    },
    "seeds": [0, 1],
    "runs": {
        "fedavg": {"title": "FedAvg"},
        "fedprox": {
            "title": "FedProx",
            "set": {"algorithm": {"name": "fedprox", "mu": 0.1}},
            "grid": {"algorithm.mu": [0.1, 1.0]},
        },
    },
}
CONFIG = {
    "scale": "lite",
    "train": "auto",
    "device": "cpu",
    "data_root": None,
    "runs_per_batch": 4,
}


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The plan of one paper in a clone: to look through those of all takes seconds."""
    made = tmp_path_factory.mktemp("clone")
    shutil.copytree(paths.root() / "config", made / "config")
    for folder in ("papers", "expected"):
        for file in (made / "config" / folder).glob("*.yaml"):
            if file.stem != "emd":
                file.unlink()
    return made


@pytest.fixture
def folder(tmp_path: Path, clone: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a plan of one's own."""
    monkeypatch.setenv("FEDREPRO_ROOT", str(clone))
    monkeypatch.setenv(OWN_PLANS, "")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my").mkdir()
    (tmp_path / "my/my-plan.yaml").write_text(yaml.safe_dump(PLAN))
    return tmp_path


@pytest.fixture(autouse=True)
def _forget() -> Any:
    yield
    load_plan.cache_clear()
    expand.cache_clear()


def accuracy(run: Any, t: int) -> float:
    return 0.5 + 0.1 * t + 0.01 * run.seed + (0.02 if run.group == "fedprox" else 0)


def test_a_plan_is_named_by_its_file(folder: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.chdir(folder / "my")
    assert main(["status", "--paper", "my-plan"]) == 1
    assert capsys.readouterr().err.endswith(
        "a plan of your own is named by its file: my-plan.yaml\n"
    )
    assert main(["train", "my-plan.yaml", "--paper", "emd"]) == 1
    assert "--paper: leave it out where files of plans are given" in capsys.readouterr().err


def test_what_an_algorithm_cannot_do_is_said_when_the_plan_is_read(
    folder: Path, capsys: Any
) -> None:
    few = PLAN | {"paper": "few"}
    few["runs"] = {"fedavg": {"title": "FedAvg", "grid": {"algorithm.participants": [2, 9]}}}
    (folder / "few.yaml").write_text(yaml.safe_dump(few))
    for words in (["status", "few.yaml"], ["train", "few.yaml"]):
        assert main(words) == 1
        assert capsys.readouterr().err == (
            f"fedrepro: {folder / 'few.yaml'}: runs.fedavg (lite), at algorithm.participants: 9:\n"
            "  algorithm.participants: 9, but the partition has 4 clients; set it to at most 4\n"
        )
    assert sorted(file.name for file in folder.iterdir()) == ["few.yaml", "my"], "none is trained"


def test_defaults_that_another_component_leaves_behind_are_said(folder: Path, capsys: Any) -> None:
    fair = PLAN | {"paper": "fair", "defaults": PLAN["defaults"] | {"model": {"name": "liu1"}}}
    fair["defaults"] |= {"algorithm": {"name": "fedavg", "participants": 2}}
    fair["defaults"] |= {"partition": PLAN["defaults"]["partition"] | {"seed": 0}}
    fair["runs"] = {
        "fedavg": {"title": "FedAvg"},
        "feddyn": {"title": "FedDyn", "set": {"algorithm": {"name": "feddyn", "alpha": 0.1}}},
        "fedprox": {
            "title": "FedProx",
            "set": {"algorithm": {"name": "fedprox", "mu": 0.1}},
            "grid": {"algorithm.participants": [2, 3]},
        },
        "sgd": {"title": "SGD", "set": {"algorithm": {"name": "sgd"}}},
        "iid": {
            "title": "IID",
            "set": {
                "algorithm": {"weighting": "uniform"},
                "partition": {"scheme": "iid_plain", "clients": 4},
            },
        },
    }
    (folder / "fair.yaml").write_text(yaml.safe_dump(fair))
    said = [
        f"{folder / 'fair.yaml'}: algorithm.participants: 2 of defaults does not hold for feddyn: "
        "another component replaces all of algorithm; repeat it in their `set` if it is meant",
        f"{folder / 'fair.yaml'}: partition.seed: 0 of defaults does not hold for iid: another "
        "component replaces all of partition; repeat it in their `set` if it is meant",
    ]
    assert main(["status", "fair.yaml"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert [line for line in shown if "of defaults" in line] == said
    assert main(["train", "fair.yaml", "--time-budget", "0.001"]) == 1, "no round ends so soon"
    assert capsys.readouterr().err.splitlines()[:2] == said
    assert main(["status", "my/my-plan.yaml"]) == 0
    assert "defaults" not in capsys.readouterr().out


def test_a_recorded_run_of_a_plan_is_shown(folder: Path, capsys: Any) -> None:
    use_plans("my/my-plan.yaml")
    write_records(records.OWN_FOLDER)
    run, other = expand("my-plan", "lite")[:2]
    os.environ[OWN_PLANS] = ""
    assert main(["show", run.id[:8]]) == 0, "its plan is not looked at"
    text = capsys.readouterr().out
    assert f"results/own/runs/{run.id}.json" in text
    assert "part of\n  none of the plans looked at; `--paper my-plan.yaml`" in text
    assert "group  " not in text
    assert "fedrepro train" not in text, "nothing plans it"
    assert main(["compare", run.id, other.id]) == 0
    assert capsys.readouterr().out.count("(no plan)") == 2
    assert main(["show", ""]) == 1
    assert "'' begins the ids of" in capsys.readouterr().err
    assert main(["show", run.id[:8], "--paper", "my/my-plan.yaml"]) == 0
    assert "group     my-plan fedavg seed=0" in capsys.readouterr().out
    assert main(["compare", run.id, other.id, "--paper", "my/my-plan.yaml"]) == 0
    assert "| accuracy" in capsys.readouterr().out


def test_a_record_of_code_that_is_not_here_is_read_but_not_trained(
    folder: Path, capsys: Any
) -> None:
    use_plans("my/my-plan.yaml")
    write_records(records.OWN_FOLDER)
    run = expand("my-plan", "lite")[0]
    os.environ[OWN_PLANS] = ""
    made = content(run)
    made["spec"] = made["spec"] | {"algorithm": {"name": "fedclip", "most": 2.5}}
    made["versions"] = made["versions"] | {"plugin.mine": "0.1.0, code a; 0.1.0, code b"}
    made["run_id"] = identity(made["spec"], made["versions"])
    file = records.write(made, records.OWN_FOLDER)
    assert main(["show", made["run_id"]]) == 0
    assert "algorithm.name     fedclip" in capsys.readouterr().out
    assert main(["compare", run.id, str(file)]) == 0
    rows = cells(capsys.readouterr().out)
    assert rows["algorithm.name"] == ["fedavg", "fedclip"]
    assert rows["algorithm.most"] == ["", "2.5"]
    assert "batch" not in rows
    assert main(["verify", made["run_id"]]) == 1
    error = capsys.readouterr().err
    assert "unknown name 'fedclip'" in error
    assert error.endswith("the run used mine 0.1.0: install that to train it\n")


def test_a_run_that_other_versions_trained_is_not_verified(folder: Path, capsys: Any) -> None:
    use_plans("my/my-plan.yaml")
    made = content(expand("my-plan", "lite")[0])
    made["versions"] = made["versions"] | {"engine": 0}
    made["run_id"] = identity(made["spec"], made["versions"])
    file = records.write(made, records.OWN_FOLDER)
    assert main(["verify", str(file)]) == 1
    assert f"{file}: other versions of components trained" in capsys.readouterr().err


def test_records_of_a_plan_by_other_code_are_counted_and_removed(folder: Path, capsys: Any) -> None:
    """Not those of other specs, which may be another plan's, nor committed or damaged ones."""
    use_plans("my/my-plan.yaml")
    write_records(records.OWN_FOLDER)
    run = expand("my-plan", "lite")[0]

    def old(place: Path, **spec: Any) -> Path:
        made = content(run)
        made["spec"] = made["spec"] | spec
        made["versions"] = made["versions"] | {"plugin.mine": "0.1.0"}
        made["run_id"] = identity(made["spec"], made["versions"])
        return records.write(made, place)

    outdated = old(records.OWN_FOLDER)
    old(records.OWN_FOLDER, rounds=4)
    old(records.FOLDER)
    damaged = records.path_of("0" * 12, records.OWN_FOLDER)
    damaged.write_text("{}")
    kept = {*records.OWN_FOLDER.iterdir(), *records.FOLDER.iterdir()} - {outdated}
    assert main(["status", "my/my-plan.yaml"]) == 0
    plan = folder / "my/my-plan.yaml"
    assert capsys.readouterr().out.endswith(
        f"1 records of my-plan are of other code than this; `fedrepro prune {plan}` lists them.\n"
    )
    assert main(["status", "my/my-plan.yaml", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["outdated"] == [outdated.stem]
    assert main(["prune", "my/my-plan.yaml"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"would remove {outdated}",
        "1 records of my-plan by other code",
        f"nothing was removed; `fedrepro prune {plan} --yes` removes them",
    ]
    assert main(["prune", "my/my-plan.yaml", "--yes"]) == 0
    assert {*records.OWN_FOLDER.iterdir(), *records.FOLDER.iterdir()} == kept


def cells(text: str) -> dict[str, list[str]]:
    """Return the rows of a printed table by their names."""
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    return {row[0]: row[1:] for row in rows if row}


def test_runs_of_changed_code_are_compared(folder: Path, capsys: Any) -> None:
    use_plans("my/my-plan.yaml")
    made = content(expand("my-plan", "lite")[0])
    ids = []
    for code_of in ("aaa", "bbb"):
        versions = made["versions"] | {"plugin.mine": f"0.1.0, code {code_of}"}
        ids.append(identity(made["spec"], versions))
        records.write(made | {"versions": versions, "run_id": ids[-1]}, records.OWN_FOLDER)
    assert main(["compare", *ids, "--paper", "my/my-plan.yaml"]) == 0
    rows = cells(capsys.readouterr().out)
    assert rows["plugin.mine"] == ["0.1.0, code aaa", "0.1.0, code bbb"]


def test_it_is_said_which_component_has_other_code(folder: Path, capsys: Any) -> None:
    use_plans("my/my-plan.yaml")
    made = content(expand("my-plan", "lite")[0])
    ids = []
    for of_network in ("bbb", "ccc", None):
        code = {"algorithm.fedavg": "mine 0.1.0, code aaa"}
        code["model.liu1"] = f"mine 0.1.0, code {of_network or 'ddd'}"
        versions = made["versions"] | {"plugin.mine": f"0.1.0, {of_network}"}
        from_ = made["provenance"] | ({"packages": code} if of_network else {})
        ids.append(identity(made["spec"], versions))
        changed = {"versions": versions, "run_id": ids[-1], "provenance": from_}
        records.write(made | changed, records.OWN_FOLDER)
    assert main(["show", ids[0]]) == 0
    assert "fedavg 1 of mine 0.1.0, code aaa, data.synthetic 1," in capsys.readouterr().out
    assert main(["compare", *ids[:2]]) == 0
    rows = cells(capsys.readouterr().out)
    assert rows["model.liu1"] == ["1 of mine 0.1.0, code bbb", "1 of mine 0.1.0, code ccc"]
    assert not {"algorithm.fedavg", "plugin.mine"} & rows.keys()
    assert main(["compare", *ids]) == 0
    assert "plugin.mine" in cells(capsys.readouterr().out), "an older record does not say it"


def write_records(folder: Path) -> None:
    for run in expand("my-plan", "lite"):
        values = [accuracy(run, t) for t in range(3)]
        metrics = {"accuracy": values, "evaluated_rounds": [1, 2, 3]}
        records.write(content(run, metrics=metrics, final={"accuracy": values[-1]}), folder)


def test_a_folder_makes_its_plans_known(folder: Path) -> None:
    assert use_plans("my") == ["my-plan"]
    assert "my-plan" in plans()
    assert "my-plan" not in papers()
    assert is_own("my-plan")
    assert is_study("my-plan")
    assert not is_own("emd")
    assert Path(os.environ[OWN_PLANS]).is_absolute(), "processes in other folders find it too"
    assert len(expand("my-plan", "lite")) == 6
    assert expand("my-plan", "paper")[0].id == expand("my-plan", "smoke")[0].id


def test_a_plan_that_is_named_twice_is_one(folder: Path) -> None:
    assert use_plans(os.pathsep.join(["my", "my/my-plan.yaml"])) == ["my-plan"]


def test_what_an_editor_hides_beside_a_plan_is_none(folder: Path) -> None:
    Path("my/.#my-plan.yaml").symlink_to("user@host.1234:5678")
    assert use_plans("my") == ["my-plan"]


def test_its_records_are_not_among_the_committed_ones(folder: Path) -> None:
    use_plans("my/my-plan.yaml")
    run = expand("my-plan", "lite")[0]
    assert run.records == records.OWN_FOLDER
    records.write(content(run, metrics={"accuracy": [0.5]}, final={}), records.FOLDER)
    assert run.records == records.FOLDER, "a run that a paper has too is not trained again"


def test_a_table_that_nothing_makes_is_named_with_those_that_suit_any_plan(folder: Path) -> None:
    tables = {"mine": {"title": "Mine", "source": "my plan", "runs": ["fedavg"]}}
    (folder / "my/my-plan.yaml").write_text(yaml.safe_dump(PLAN | {"tables": tables}))
    use_plans("my")
    write_records(records.OWN_FOLDER)
    text = (
        r"/my/my-plan\.yaml: tables\.mine: .* has accuracy, comparison, rounds, metrics there, or"
    )
    with pytest.raises(FedreproError, match=text):
        artefacts.frame(RunSet("my-plan", "lite"), "mine")


def test_it_gets_tables_and_curves(folder: Path) -> None:
    use_plans("my")
    plan = load_plan("my-plan")
    assert set(plan.tables) == set(code.tables("my-plan")) == set(generic.TABLES)
    assert set(plan.figures) == set(code.figures("my-plan")) == set(drawings.of_paper("my-plan"))
    write_records(records.OWN_FOLDER)
    runs = RunSet("my-plan", "lite")
    table = artefacts.frame(runs, "accuracy").set_index(["row", "column"])
    assert table["mean"]["FedAvg", generic.LAST] == pytest.approx(0.705)
    assert table["mean"]["FedProx, mu 1.0", generic.BEST] == pytest.approx(0.725)
    lead = artefacts.frame(runs, "comparison").set_index(["row", "column"])
    assert lead["values"]["FedProx, mu 0.1", generic.LAST] == pytest.approx((0.02, 0.02))
    assert len(lead["runs"]["FedProx, mu 0.1", generic.LAST]) == 4
    artefacts.write_table(runs, "comparison", folder / "comparison")
    assert "2.00 ± 0.00 points" in (folder / "comparison.md").read_text()
    drawings.write_figure(runs, "curves", folder / "curves")
    assert (folder / "curves.svg").stat().st_size > 1000


def test_its_own_metrics_have_a_table(folder: Path) -> None:
    use_plans("my")
    for run in expand("my-plan", "lite"):
        own = {"worst_client": [0.25, 0.125]} if run.group == "fedprox" else {}
        metrics = {"loss": [3.0, 2.0, 1.0], "accuracy": [0.5, 0.75], "evaluated_rounds": [1, 3]}
        records.write(content(run, metrics=metrics | own, final={}), records.OWN_FOLDER)
    artefacts.write_table(RunSet("my-plan", "lite"), "metrics", folder / "metrics")
    lines = (folder / "metrics.md").read_text().splitlines()
    heads, *rows = [[x.strip() for x in line.split("|")[1:-1]] for line in lines if "|" in line]
    assert set(heads[1:]) == {"accuracy", "loss", "worst_client"}
    shown = {row[0]: dict(zip(heads, row, strict=True)) for row in rows}
    assert shown["FedAvg"]["accuracy"] == "75.00 ± 0.00 % (n=2)"
    assert shown["FedAvg"]["worst_client"] == ""
    assert shown["FedProx, mu 0.1"]["worst_client"].startswith("0.125 ± 0")
    assert shown["FedProx, mu 0.1"]["loss"].startswith("1")


def test_rounds_are_counted_until_an_accuracy_is_reached(folder: Path) -> None:
    """A level that no run reaches has no column, a seed that does not reach one no value."""
    use_plans("my")
    curves = {
        ("fedavg", 0): [0.15, 0.5, 0.96],
        ("fedavg", 1): [0.2, 0.1, 0.9],
        ("fedprox", 0): [0.3, 0.49, 0.62],
        ("fedprox", 1): [0.09, 0.09, 0.09],
    }
    for run in expand("my-plan", "lite"):
        values = curves[run.group, run.seed]
        metrics = {"accuracy": values, "evaluated_rounds": [5, 10, 15]}
        records.write(content(run, metrics=metrics, final={}), records.OWN_FOLDER)
    runs = RunSet("my-plan", "lite")
    table = artefacts.frame(runs, "rounds").set_index(["row", "column"])
    assert [column for row, column in table.index if row == "FedAvg"] == [
        *("60 %", "70 %", "80 %", "90 %", "95 %"),
    ]
    assert table["values"]["FedAvg", "90 %"] == (15, 15)
    assert table["values"]["FedAvg", "95 %"] == (15,)
    assert table["values"]["FedProx, mu 1.0", "60 %"] == (15,)
    assert table["n"]["FedProx, mu 1.0", "70 %"] == 0
    artefacts.write_table(runs, "rounds", folder / "rounds")
    text = (folder / "rounds.md").read_text()
    assert "; not reached: by none of them." in text
    assert cells(text)["FedAvg"][3] == "15 ± 0 (n=2)"
    assert cells(text)["FedProx, mu 1.0"][1:] == ["not reached"] * 4


def test_rows_that_reach_no_accuracy_are_kept(folder: Path) -> None:
    use_plans("my")
    for run in expand("my-plan", "lite"):
        metrics = {"accuracy": [0.05], "evaluated_rounds": [3]}
        records.write(content(run, metrics=metrics, final={}), records.OWN_FOLDER)
    runs = RunSet("my-plan", "lite")
    artefacts.write_table(runs, "rounds", folder / "rounds")
    rows = cells((folder / "rounds.md").read_text())
    assert rows["row"] == ["10 %"]
    for name in ("FedAvg", "FedProx, mu 0.1", "FedProx, mu 1.0"):
        assert rows[name] == ["not reached"]


def test_it_is_reported_without_verdicts(folder: Path) -> None:
    use_plans("my/my-plan.yaml")
    write_records(records.OWN_FOLDER)
    gone = expand("my-plan", "lite")[-1]
    records.path_of(gone.id, gone.records).unlink()
    assert main(["report", "my/my-plan.yaml", "--out", "report", "--partial"]) == 0
    require_links(folder)
    index = (folder / "report/index.html").read_text()
    assert "What holds" not in index
    assert "<dt>reading</dt>" not in index
    assert '<img src="data/my-plan/curves.svg"' in index
    page = (folder / "report/papers/my-plan.html").read_text()
    assert "5 of its 6 runs are recorded" in page
    assert "1 of 4 runs of FedProx." in page
    assert page.count("<section id=") == len(generic.TABLES) + len(generic.FIGURES)
    for word in ("Claims", "Counts", "verdict", "of scale", "None"):
        assert word not in page


def test_groups_are_compared_point_by_point(folder: Path) -> None:
    grid = {"partition.alpha": [0.1, 1.0]}
    groups = {
        "fedavg": PLAN["runs"]["fedavg"] | {"grid": grid},
        "fedprox": PLAN["runs"]["fedprox"] | {"grid": grid | {"algorithm.mu": [0.1, 1.0]}},
    }
    (folder / "my/my-plan.yaml").write_text(yaml.safe_dump(PLAN | {"runs": groups}))
    use_plans("my")
    write_records(records.OWN_FOLDER)
    runs = RunSet("my-plan", "lite")
    lead = artefacts.frame(runs, "comparison").set_index(["row", "column"])
    known = {run.id: run for run in expand("my-plan", "lite")}
    assert len(lead) == 8, "no row of the first group"
    for (row, _), ids in lead["runs"].items():
        (alpha,) = {known[run].coordinates["alpha"] for run in ids}
        assert f"alpha {alpha}" in row
    artefacts.write_table(runs, "comparison", folder / "comparison")
    assert "Scale" not in (folder / "comparison.md").read_text(), "a plan without scales"


def test_points_of_one_group_are_compared_with_the_first(folder: Path) -> None:
    only = {"fedprox": PLAN["runs"]["fedprox"]}
    (folder / "my/my-plan.yaml").write_text(yaml.safe_dump(PLAN | {"runs": only}))
    use_plans("my")
    write_records(records.OWN_FOLDER)
    table = artefacts.frame(RunSet("my-plan", "lite"), "comparison")
    assert set(table["row"]) == {"FedProx, mu 1.0"}


def test_of_one_group_at_one_point_there_is_nothing_to_compare(folder: Path) -> None:
    only = {"fedavg": PLAN["runs"]["fedavg"]}
    (folder / "my/my-plan.yaml").write_text(yaml.safe_dump(PLAN | {"runs": only}))
    use_plans("my")
    write_records(records.OWN_FOLDER)
    runs = RunSet("my-plan", "lite")
    cells = artefacts.frame(runs, "comparison")
    assert cells.empty
    assert "\n\nNo run gives it a cell.\n" in artefacts.markdown(runs, "comparison", cells)
    lines = artefacts.latex(runs, "comparison", cells).splitlines()
    assert lines[1:] == ["% No run gives it a cell."]
    assert lines[0].startswith("% Differences from the first group")


def test_groups_of_one_title_are_rows_of_their_own(folder: Path) -> None:
    named = {name: group | {"title": "FedAvg"} for name, group in PLAN["runs"].items()}
    (folder / "my/my-plan.yaml").write_text(yaml.safe_dump(PLAN | {"runs": named}))
    use_plans("my")
    write_records(records.OWN_FOLDER)
    runs = RunSet("my-plan", "lite")
    table = artefacts.frame(runs, "accuracy")
    assert set(table["row"]) == {
        "FedAvg (fedavg)",
        "FedAvg (fedprox), mu 0.1",
        "FedAvg (fedprox), mu 1.0",
    }
    assert set(table["n"]) == {2}, "not the seeds of several groups"


def test_runs_that_log_no_accuracy_are_named(folder: Path, capsys: Any) -> None:
    use_plans("my")
    for run in expand("my-plan", "lite"):
        metrics = {"evaluated_rounds": [1], "loss": [2.0]}
        records.write(content(run, metrics=metrics, final={"loss": 2.0}), records.OWN_FOLDER)
    for words in (["table", "my-plan", "accuracy"], ["why", "my-plan", "comparison"]):
        assert main(words) == 1
        assert "(fedavg) records no metric 'accuracy'; it has " in capsys.readouterr().err


def test_titles_are_text_and_neither_mathematics_nor_markup(folder: Path) -> None:
    title = r"$\frac$ | <script>&"
    named = {name: group | {"title": f"{name} {title}"} for name, group in PLAN["runs"].items()}
    file = folder / "my/my-plan.yaml"
    file.write_text(yaml.safe_dump(PLAN | {"title": title, "runs": named}))
    use_plans("my")
    write_records(records.OWN_FOLDER)
    runs = RunSet("my-plan", "lite")
    drawings.write_figure(runs, "curves", folder / "curves")
    assert "<script>" not in (folder / "curves.svg").read_text()
    artefacts.write_table(runs, "accuracy", folder / "accuracy")
    rows = [x for x in (folder / "accuracy.md").read_text().splitlines() if x.startswith("|")]
    assert {row.replace(r"\|", "").count("|") for row in rows} == {rows[1].count("|")}


@pytest.fixture
def own_code(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give the plan code of its own, which makes a part of its tables."""
    package = folder / "code/my_plan"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "measurements.py").write_text("TABLES = {'accuracy': None}\n")
    monkeypatch.setattr(fedrepro.papers, "__path__", [str(folder / "code")])
    yield
    for name in [name for name in sys.modules if name.startswith("fedrepro.papers.my_plan")]:
        del sys.modules[name]


@pytest.mark.usefixtures("own_code")
def test_the_code_of_a_plan_with_a_hyphen_has_an_underscore() -> None:
    use_plans("my")
    write_records(records.OWN_FOLDER)
    assert code.tables("my-plan") == {"accuracy": None}
    text = "tables.comparison: .*; name one in TABLES of .*/papers/my_plan/measurements.py"
    with pytest.raises(FedreproError, match=text):
        artefacts.frame(RunSet("my-plan", "lite"), "comparison")


def test_snakemake_makes_it_in_place_of_the_papers(folder: Path) -> None:
    workflow = Workflow(CONFIG | {"plans": "my"})
    assert workflow.papers == ["my-plan"]
    targets = workflow.everything(workflow.papers)
    assert "results/lite/tables/my-plan/accuracy.csv" in targets
    assert not [path for path in targets if "checks" in path or "notebooks" in path]
    with pytest.raises(FedreproError, match="plans of your own have no verdicts"):
        workflow.pending_of_reported()
    for ask in (workflow.of_check, workflow.of_notebook):
        with pytest.raises(FedreproError, match="my-plan is a plan of your own, and has no"):
            ask("lite", "my-plan")
    made_of = workflow.of_table("lite", "my-plan", "accuracy")
    assert made_of["config"] == [str(folder / "my/my-plan.yaml")]
    assert all(path.startswith("results/own/runs/") for path in made_of["records"])
    assert [path for path in made_of["code"] if path.endswith("report/generic.py")]
    assert not [path for path in made_of["code"] if path.endswith("report/style.py")]
    figure = workflow.of_figure("lite", "my-plan", "curves")
    assert [path for path in figure["code"] if path.endswith("report/style.py")]
    trained = [run for batch in workflow.batches for run in batch.runs]
    assert sorted(trained) == sorted({run.id for run in expand("my-plan", "lite")})
    assert workflow.record_of(trained[0]) == f"results/own/runs/{trained[0]}.json"
    with pytest.raises(FedreproError, match="data_root is packs, which is not a folder"):
        Workflow(CONFIG | {"plans": "my", "data_root": "packs"})


def test_commands_in_messages_name_its_file(folder: Path) -> None:
    """A process that is not given the file does not know the plan."""
    use_plans("my/my-plan.yaml")
    file, run = folder / "my/my-plan.yaml", expand("my-plan", "lite")[0]
    trains = f"`fedrepro train {run.id} --paper {file}`"
    with pytest.raises(FedreproError) as missing:
        RunSet("my-plan", "lite").require(["fedavg"], "a table")
    assert f"`fedrepro train --pending --paper {file} --scale lite`" in str(missing.value)
    with pytest.raises(FedreproError, match=f"`fedrepro table {file} rounds` makes"):
        load_plan("my-plan").artefact("rounds", "figure")
    with pytest.raises(FedreproError) as not_recorded:
        recorded.find([run.id])
    assert trains in str(not_recorded.value)
    workflow = Workflow(CONFIG | {"plans": "my", "train": "never"})
    with pytest.raises(FedreproError) as refused:
        workflow.data_of(workflow.batches[0])
    assert trains in str(refused.value)
    write_records(run.records)
    again = trace.facts(run, records.read(run.id, run.records))["again"]
    assert f"&& {trains.strip('`')} --backend" in again
    assert expand("emd", "lite")[0].command == f"fedrepro train {expand('emd', 'lite')[0].id}"


def test_arrays_of_ones_own_lie_beside_the_plan(folder: Path) -> None:
    """And a training job waits for their file; a group may have them where others have a name."""
    labels = np.arange(60) % 3
    images = np.random.default_rng(0).integers(0, 256, (60, 8, 8), dtype=np.uint8)
    arrays = {"train_x": images, "train_y": labels, "test_x": images, "test_y": labels}
    np.savez(folder / "my/squares.npz", **arrays)
    np.savez(folder / "my/split.npz", client_0=np.arange(30), client_1=np.arange(30, 60))
    lists = {"scheme": "lists", "file": "split.npz"}
    own = {"dataset": {"file": "squares.npz"}, "partition": lists}
    runs = {"named": {"title": "Synthetic"}, "own": {"title": "Squares", "set": own}}
    (folder / "my/my-plan.yaml").write_text(yaml.safe_dump(PLAN | {"runs": runs, "seeds": [0]}))
    use_plans("my/my-plan.yaml")
    first, second = expand("my-plan", "lite")
    assert first.spec.dataset.name == "synthetic"
    assert second.spec.dataset.name == fr.Dataset.from_arrays(**arrays).name
    workflow = Workflow(CONFIG | {"plans": "my"})
    assert {workflow.data_of(batch) for batch in workflow.batches} == {
        "data/ready/synthetic.json",
        str(folder / "my/squares.npz"),
    }
    assert main(["train", "my/my-plan.yaml", "--workers", "1"]) == 0
    assert records.read(second.id, second.records).provenance.dataset_source == "memory"


@pytest.mark.parametrize(
    ("own", "text"),
    [
        (
            {"dataset": {"filee": "squares.npz"}},
            "dataset: filee: unknown key; did you mean 'file'?",
        ),
        ({"partition": {"scheme": "lists", "files": "x"}}, "partition: files: unknown key; did"),
    ],
)
def test_a_slip_in_the_key_of_a_file_is_told(folder: Path, own: Any, text: str) -> None:
    plan = PLAN | {"defaults": PLAN["defaults"] | own}
    (folder / "my/my-plan.yaml").write_text(yaml.safe_dump(plan))
    use_plans("my")
    with pytest.raises(FedreproError, match=re.escape(f"\n  {text}")):
        expand("my-plan", "lite")


def test_a_plan_may_ask_for_other_data(folder: Path) -> None:
    other = "1" * 64
    assert Workflow(CONFIG | {"plans": "my"}).content_of("synthetic") == ""
    defaults = PLAN["defaults"] | {"dataset": {"name": "synthetic", "content": other}}
    (folder / "other").mkdir()
    (folder / "other/of-mine.yaml").write_text(
        yaml.safe_dump(PLAN | {"paper": "of-mine", "defaults": defaults})
    )
    workflow = Workflow(CONFIG | {"plans": "other"})
    assert workflow.content_of("synthetic") == other
    assert workflow.content_of("mnist") == ""
    with pytest.raises(FedreproError, match="2 contents of the data set synthetic"):
        Workflow(CONFIG | {"plans": f"my{os.pathsep}other"}).content_of("synthetic")


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("nowhere", "nowhere: no plan there"),
        ("empty", "empty: no plan there"),
        (os.pathsep, f"^{os.pathsep}: no plan there"),
    ],
)
def test_a_wrong_place_is_named(folder: Path, place: str, text: str) -> None:
    (folder / "empty").mkdir()
    with pytest.raises(FedreproError, match=text):
        use_plans(place)


@pytest.mark.parametrize("place", ["a:b", "a:b/my-plan.yaml"])
def test_a_path_that_would_be_split_is_refused(folder: Path, place: str) -> None:
    (folder / "my").rename(folder / "a:b")
    with pytest.raises(FedreproError, match=r"a:b/my-plan\.yaml: no plan may lie in .* with ':'"):
        use_plans(place)
    assert os.environ[OWN_PLANS] == ""


@pytest.mark.parametrize("name", ["my.plan", "2nd", "my plan"])
def test_a_plan_that_snakemake_cannot_make_is_not_trained(folder: Path, name: str) -> None:
    (folder / "my/my-plan.yaml").rename(folder / f"my/{name}.yaml")
    with pytest.raises(
        FedreproError, match=rf"{name}\.yaml: '{name}' cannot be the name of a plan"
    ):
        use_plans(f"my/{name}.yaml")
    assert os.environ[OWN_PLANS] == ""


def test_a_plan_says_the_name_of_its_file(folder: Path) -> None:
    (folder / "my/my-plan.yaml").rename(folder / "my/other.yaml")
    with pytest.raises(FedreproError, match=r"my/other\.yaml: paper: 'my-plan' .* `paper: other`"):
        command.known_paper("my/other.yaml")


def test_a_plan_may_have_some_scales_only(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = folder / "my/my-plan.yaml"
    file.write_text(yaml.safe_dump(PLAN | {"scales": {"lite": {"note": "x"}}}))
    assert main(["status", "--paper", "my/my-plan.yaml"]) == 0
    assert "my-plan" in capsys.readouterr().out
    planned = command.selected("my-plan", None)
    assert {run.scale for run in planned} == {"paper"}, "lite is the same"
    write_records(records.OWN_FOLDER)
    assert main(["show", planned[0].id]) == 0
    assert "my-plan accuracy" in capsys.readouterr().out
    assert main(["status", "my/my-plan.yaml", "--scale", "quick"]) == 1
    assert "my/my-plan.yaml: scales: no scale 'quick'" in capsys.readouterr().err


def test_it_is_trained_at_lite_however_it_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the help of --scale says."""
    lite = {"defaults": {"rounds": 1}}
    (folder / "my/my-plan.yaml").write_text(yaml.safe_dump(PLAN | {"scales": {"lite": lite}}))
    chosen: list[set[str]] = []
    monkeypatch.setattr(
        session, "train", lambda runs, _: chosen.append({run.scale for run in runs}) or 0
    )
    assert main(["train", "my/my-plan.yaml"]) == 0
    assert main(["train", "--pending", "--paper", "my/my-plan.yaml"]) == 0
    assert main(["train", "--pending", "--paper", "my/my-plan.yaml", "--scale", "paper"]) == 0
    assert chosen == [{"lite"}, {"lite"}, {"paper"}]


def leave_clone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the package be installed outside of any clone from now on."""
    monkeypatch.setattr(paths, "__file__", str(folder / "site-packages/fedrepro/paths.py"))
    monkeypatch.setattr(paths, "_FOUND", {})
    monkeypatch.delenv("FEDREPRO_ROOT")


def test_outside_a_clone_it_needs_no_paper(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    write_record: Any,
) -> None:
    write_record(expand("emd", "smoke")[0], records.FOLDER)
    leave_clone(folder, monkeypatch)
    assert main(["status", "--paper", "my/my-plan.yaml"]) == 0
    out = capsys.readouterr().out
    assert "my-plan" in out
    assert "records belong to no planned run" not in out


@pytest.mark.parametrize(
    "words",
    [
        ["table", "emd", "table3"],
        ["why", "emd", "table3"],
        ["train", "--pending", "--paper", "emd"],
    ],
)
def test_outside_a_clone_no_paper_is_found_and_no_typo_guessed(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
) -> None:
    leave_clone(folder, monkeypatch)
    assert main(words) == 1
    assert "Cannot find the fedrepro repository" in capsys.readouterr().err


def test_outside_a_clone_records_are_shown(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use_plans("my/my-plan.yaml")
    write_records(records.OWN_FOLDER)
    run, other = expand("my-plan", "lite")[:2]
    os.environ[OWN_PLANS] = ""
    leave_clone(folder, monkeypatch)
    assert main(["compare", run.id, f"results/own/runs/{other.id}.json"]) == 0
    assert "| accuracy" in capsys.readouterr().out
    assert main(["show", "dfca63"]) == 1
    assert "Cannot find the fedrepro repository" in capsys.readouterr().err


EMPTY = {"a": {"title": "a", "grid": {"batch": []}}}


@pytest.mark.parametrize(
    "words",
    [
        ["train", "my/my-plan.yaml"],
        ["table", "my/my-plan.yaml", "accuracy"],
        ["table", "my/my-plan.yaml", "comparison", "--partial"],
        ["figure", "my/my-plan.yaml", "curves"],
        ["partitions", "my/my-plan.yaml", "--out", "overview"],
    ],
)
def test_of_no_runs_nothing_is_made(
    folder: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    (folder / "my/my-plan.yaml").write_text(yaml.safe_dump(PLAN | {"runs": EMPTY}))
    assert main(words) == 1
    error = capsys.readouterr().err
    assert error.startswith("fedrepro: ")
    assert "no run" in error
    assert "scale lite" in error


def test_of_no_records_no_table_is_made(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["table", "my/my-plan.yaml", "accuracy", "--partial"]) == 1
    assert "no record of 6 of the runs" in capsys.readouterr().err


def test_a_name_that_a_paper_has_is_refused(folder: Path) -> None:
    (folder / "emd.yaml").write_text(yaml.safe_dump(PLAN))
    with pytest.raises(FedreproError, match=r"emd\.yaml of the same name; rename one"):
        use_plans("emd.yaml")
