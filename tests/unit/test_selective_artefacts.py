"""Tables, figures and verdicts of the paper `selective` on made-up records of the smoke plan."""

from __future__ import annotations

import matplotlib as mpl
import pytest
from selective_records import ACCURACIES, ONE_GROUP, THREE_GROUPS, write_all

from fedrepro import artefacts, checks
from fedrepro.plan import PlannedRun
from fedrepro.runs import RunSet

mpl.use("Agg")


def made_up(run: PlannedRun) -> dict[str, object]:
    """Give each metric a value of its own, so that a mix-up shows."""
    percent = run.coordinates.get("percent", 100)
    final: dict[str, object] = {
        name: (position + 1) / 10 + percent / 1000 + run.seed / 1000
        for position, name in enumerate(ACCURACIES)
    }
    if run.group.startswith("selective"):
        final["groups"] = THREE_GROUPS if percent == 0 else ONE_GROUP
    return final


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> RunSet:
    return write_all(tmp_path_factory.mktemp("records"), "smoke", made_up)


def cell(frame, row, column):
    found = frame[(frame.iloc[:, 0] == row) & (frame.iloc[:, 1] == column)]
    assert len(found) == 1
    return found.iloc[0]


def test_table2(runs):
    frame = artefacts.frame(runs, "table2")
    assert list(frame["column"]) == ["test accuracy", "validation accuracy"]
    assert list(frame["mean"]) == pytest.approx([0.2005, 0.6005])
    assert list(frame["published"]) == [0.9640, 0.9603]
    assert list(frame["n"]) == [2, 2]


def test_noniid_cost(runs):
    frame = artefacts.frame(runs, "noniid_cost")
    assert len(frame) == 12
    # dealt IID test for what was run, the whole test set for what was written
    assert cell(frame, "federated, as run", "IID test")["mean"] == pytest.approx(0.2005)
    assert cell(frame, "federated, as written", "IID test")["mean"] == pytest.approx(0.1005)
    assert cell(frame, "federated, as run", "non-IID test")["mean"] == pytest.approx(0.3005)
    assert cell(frame, "centralised", "IID test")["mean"] == pytest.approx(0.2005)
    assert cell(frame, "local", "IID test")["published"] == 0.3321


def test_validation(runs):
    frame = artefacts.frame(runs, "validation")
    assert set(frame["column"]) == {"0", "50", "100"}  # the smoke plan has no N = 2 and 10
    first = cell(frame, "federated, as run (IID-test run)", "50")
    assert first["mean"] == pytest.approx(0.5505)
    assert first["published"] == 0.9580
    assert cell(frame, "federated, as run (non-IID-test run)", "50")["published"] == 0.9577
    assert cell(frame, "selective, as written", "50")["mean"] == pytest.approx(0.6505)


def test_groups(runs):
    frame = artefacts.frame(runs, "groups")
    assert set(frame["unit"]) == {"count"}
    assert cell(frame, "0", "selective, as run")["mean"] == 3
    assert cell(frame, "100", "selective, as written")["values"] == "1 1"


@pytest.mark.parametrize("name", ["table2", "noniid_cost", "validation", "groups"])
def test_tables_are_written(runs, name, tmp_path):
    artefacts.write_table(runs, name, tmp_path / name)
    text = (tmp_path / f"{name}.md").read_text()
    assert "Scale: smoke" in text
    assert (tmp_path / f"{name}.csv").read_text().startswith("row,column,mean")


def test_curves_use_the_metrics_of_their_reading(runs):
    iid, noniid = artefacts.frame(runs, "fig3"), artefacts.frame(runs, "fig6")
    assert cell(iid, "selective, as run", 50)["mean"] == pytest.approx(0.2505)
    assert cell(iid, "selective, as written", 50)["mean"] == pytest.approx(0.1505)
    assert cell(noniid, "selective, as run", 50)["mean"] == pytest.approx(0.4505)
    assert cell(noniid, "selective, as written", 50)["mean"] == pytest.approx(0.3505)
    assert cell(noniid, "federated, as run", 50)["mean"] == pytest.approx(0.3505)
    assert cell(iid, "local", 50)["published"] == 0.9417
    assert cell(noniid, "federated, as written", 0)["published"] == 0.3089


def test_aliasing_holds_small_n_only(runs):
    frame = artefacts.frame(runs, "aliasing")
    assert set(frame["x"]) == {0}
    assert len(frame) == 8
    assert not frame.duplicated(["series", "x"]).any()


@pytest.mark.parametrize("name", ["fig3", "fig6", "aliasing", "groups_per_n"])
def test_figures_are_written(runs, name, tmp_path):
    artefacts.write_figure(runs, name, tmp_path / name)
    assert (tmp_path / f"{name}.svg").read_text().startswith("<?xml")
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / f"{name}.csv").read_text().startswith("series,x,mean")


def test_equal_data_give_equal_files(runs, tmp_path):
    for copy in ("a", "b"):
        artefacts.write_figure(runs, "groups_per_n", tmp_path / copy)
    for kind in ("svg", "png", "csv"):
        first, second = ((tmp_path / f"{copy}.{kind}").read_bytes() for copy in ("a", "b"))
        assert first == second


def test_every_seed_is_drawn(runs):
    from fedrepro.plots.selective import FIGURES

    cells = artefacts.frame(runs, "fig3")
    figure = FIGURES["fig3"].draw(cells)
    dots = [line for line in figure.axes[0].lines if line.get_marker() == "."]
    assert [len(line.get_xdata()) for line in dots] == [6, 6, 6]  # 3 values of N, 2 seeds


def test_smoke_runs_are_never_judged(runs):
    found = checks.check("selective", "smoke", runs._folder)
    assert {item.verdict for item in found} == {"not decidable", "not reproducible"}
    shown = [item for item in found if item.kind == "number" and item.ours is not None]
    assert shown  # our values stand there, without a verdict
