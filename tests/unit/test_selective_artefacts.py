"""Tables, figures and verdicts of the paper `selective` on made-up records of the smoke plan."""

from __future__ import annotations

import contextlib
import functools
from pathlib import Path
from types import SimpleNamespace

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from frames import cell, check_any_subset
from made_up import content
from readable import check_readable
from seeds import MadeUpRuns, Some, write_all, write_some
from selective_records import ONE_GROUP, THREE_GROUPS, World, distinct

from fedrepro.cli import main
from fedrepro.fl.data import describe
from fedrepro.papers.selective.drawings import DRAWINGS, STEPS, _ours
from fedrepro.papers.selective.figures import _reduced
from fedrepro.papers.selective.measurements import (
    CURVES,
    METHODS,
    READINGS,
    SELECTIVE,
    TABLES,
    TRAFFIC,
    _rule,
    merge_points,
    merges,
    over_percents,
    published_curve,
    traffic,
)
from fedrepro.report import artefacts, documents, drawings, style, verdicts
from fedrepro.report.checks import Check
from fedrepro.report.expected import load_expected
from fedrepro.report.plots import Canvas, Ink
from fedrepro.runs import records
from fedrepro.runs.plan import expand, unique
from fedrepro.runs.runset import MissingRunsError, RunSet

mpl.use("Agg")


@pytest.fixture(scope="module")
def runs() -> RunSet:
    return MadeUpRuns("smoke", World())


@pytest.fixture(scope="module")
def frame_of(runs):
    """Return how to get a table's or figure's frame, which is made once."""
    return functools.cache(functools.partial(artefacts.frame, runs))


@pytest.fixture(scope="module")
def judged(tmp_path_factory) -> dict[str, Check]:
    """The verdicts on all runs, by their ids."""
    folder = tmp_path_factory.mktemp("records")
    write_all(folder, "smoke", World())
    return {item.id: item for item in verdicts.check("selective", "smoke", folder)}


def test_table2(runs):
    frame = artefacts.frame(runs, "table2")
    assert list(frame["row"]) == ["Model 1", "Model 1", "Model 2", "Model 2", "Model 3", "Model 3"]
    assert list(frame["column"]) == ["test accuracy", "validation accuracy"] * 3
    assert list(frame["mean"])[:4] == pytest.approx([0.2005, 0.6005, 0.2205, 0.6205])
    assert list(frame["published"]) == [0.9640, 0.9603, 0.9912, 0.9889, 0.9954, 0.9936]
    assert list(frame["n"]) == [2, 2, 2, 2, 1, 1]


@pytest.mark.parametrize("name", sorted({*TABLES, *DRAWINGS} - {"theorem"}))  # of no run
@pytest.mark.parametrize("share", [0, 0.1, 0.5])
def test_any_subset_of_the_runs_gives_a_frame(runs, share, name):
    at_some_n = ["m3_noniid_cost", "merge", "choices", "open_choices"]
    check_any_subset(runs, name, share, of_pairs=at_some_n)


def test_what_compares_networks_can_do_without_some(tmp_path):
    fewer = write_some(tmp_path, "smoke", World(), lambda run: run.group != "m2_centralised")
    with pytest.raises(MissingRunsError):
        artefacts.frame(fewer, "table2")
    frame = artefacts.frame(fewer, "table2", partial=True)
    assert list(frame["row"]) == ["Model 1", "Model 1", "Model 3", "Model 3"]
    found = {item.id: item for item in verdicts.check("selective", "smoke", tmp_path)}
    assert found["T2-1"].verdict == "not decidable"
    assert found["T2-1"].ours == pytest.approx(0.2005)
    assert found["T2-2"].verdict == "not run"
    assert found["fig4.federated.as_run@100"].verdict == "not decidable"
    assert found["fig4.federated.as_run@100"].ours is not None
    assert found["B10-m2"].verdict == "not decidable"


def test_a_partial_table_names_the_runs_that_it_lacks(runs, tmp_path, monkeypatch):
    folder = tmp_path / records.FOLDER
    write_some(folder, "smoke", World(), lambda run: run.group != "m2_centralised")
    note = "Left out, as they have no record: 2 of 2 runs of Model 2, centralised.\n"
    monkeypatch.chdir(tmp_path)
    command = ["table", "selective", "table2", "--scale", "smoke", "--out", "table2"]
    assert main(command) == 1
    assert main([*command, "--partial"]) == 0
    text = Path("table2.md").read_text()
    assert text.endswith(note)
    assert "| Model 3 |" in text
    assert "| Model 2 |" not in text
    block = documents.BLOCKS["table"]("selective", "table2", "smoke")
    assert block.splitlines()[1:] == text.splitlines()[1:]  # the first has the scale's note
    assert artefacts.left_out(runs, "table2") == ""


@pytest.mark.parametrize("group", ["m3_centralised", "m3_local", "m3_federated_as_written"])
def test_a_partial_figure_names_the_runs_that_it_lacks(runs, tmp_path, monkeypatch, group):
    fewer = Some(runs, lambda run: run.group != group)
    titles = []
    monkeypatch.setattr(style, "save", lambda figure, stem: titles.append(figure.get_suptitle()))
    with pytest.raises(MissingRunsError):
        drawings.write_figure(fewer, "fig5", tmp_path / "fig5")
    drawings.write_figure(fewer, "fig5", tmp_path / "fig5", partial=True)
    first, *rest = titles[0].splitlines()
    assert first.endswith("(Fig. 5)")
    assert rest[0].startswith("scale: smoke; n = ")
    planned = len(fewer.planned([group]))
    left_out = f"Left out, as they have no record: {planned} of {planned} runs of"
    assert " ".join(rest).endswith(f"{left_out} {fewer.plan.runs[group].title}.")


def test_a_title_names_only_the_groups_without_any_record(runs):
    groups = ["m3_federated_as_written", "m3_federated_as_run"]
    first = {runs.planned([group])[0].id for group in groups}
    some = Some(runs, lambda run: run.id not in first)
    planned = len(runs.planned(runs.groups_of("fig5")))
    said = "Left out, as they have no record:"
    assert artefacts.left_out_briefly(some, "fig5") == f"{said} 2 of {planned} runs."
    more = Some(runs, lambda run: run.id not in first and run.group != "m3_local")
    local, title = len(runs.planned(["m3_local"])), runs.plan.runs["m3_local"].title
    assert artefacts.left_out_briefly(more, "fig5") == (
        f"{said} {local} of {local} runs of {title}. 2 of {planned - local} other runs."
    )


def test_a_curve_is_judged_without_the_others(tmp_path):
    fewer = write_some(tmp_path, "smoke", World(), lambda run: run.group != "m2_selective_as_run")
    with pytest.raises(MissingRunsError):
        artefacts.frame(fewer, "fig4")
    found = {item.id: item for item in verdicts.check("selective", "smoke", tmp_path)}
    assert found["fig4.federated.as_run@100"].ours is not None
    assert found["fig4.federated.as_run@2"].evidence == "not in the smoke plan"
    verdict = {n: found[f"fig4.selective.as_run@{n}"].verdict for n in (2, 100)}
    assert verdict == {2: "not decidable", 100: "not run"}


def test_unusable_points_are_no_targets_and_unplanned_ones_not_decidable(judged):
    assert judged["fig5.federated.as_run@22"].verdict == "no target"
    assert "1/9999" in judged["fig5.federated.as_run@22"].reason
    assert judged["fig5.federated.as_run@24"].verdict == "not decidable"
    assert judged["fig5.federated.as_run@24"].evidence == "not in the smoke plan"


def test_a_third_of_all_labels_is_no_target():
    tests_of_all = ("fig3", "fig4", "fig5", "validation")
    at_zero = {
        number.id: number.unusable
        for series in load_expected("selective").series
        for number in series.numbers()
        if series.id.startswith(tests_of_all) and number.id.endswith("@0")
    }
    apart = {name for name in at_zero if "local" in name or "selective" in name}
    assert len(apart) == 3 + 6 + 6
    assert {name for name in apart if "a third of the labels" not in at_zero[name]} == set()


def test_a_tolerance_that_nearly_anything_meets_makes_no_target():
    wide = {
        number.id: number.unusable
        for series in load_expected("selective").series
        for number in series.numbers()
        if number.tolerance >= 0.2 and not number.drawn_only
    }
    assert len(wide) == 8
    assert {name for name, why in wide.items() if "nearly anything would pass" not in why} == set()


def test_noniid_cost(runs):
    frame = artefacts.frame(runs, "noniid_cost")
    assert len(frame) == 24
    # dealt IID test for what was run, the whole test set for what was written
    assert cell(frame, "federated, as run", "IID test")["mean"] == pytest.approx(0.2005)
    assert cell(frame, "federated, as written", "IID test")["mean"] == pytest.approx(0.1005)
    assert cell(frame, "federated, as run", "non-IID test")["mean"] == pytest.approx(0.3005)
    assert cell(frame, "centralised", "IID test")["mean"] == pytest.approx(0.2005)


def test_brackets_of_noniid_cost_are_those_of_the_result_tables(runs):
    frame = artefacts.frame(runs, "noniid_cost")
    for name in ("federated, as run", "federated, as written"):
        assert cell(frame, name, "IID test")["published"] == 0.3780
        assert cell(frame, name, "non-IID test")["published"] == 0.3089
    assert cell(frame, "centralised", "IID test")["published"] == 0.9640
    assert cell(frame, "local", "IID test")["published"] == 0.3321
    assert cell(frame, "local", "non-IID test")["published"] == 0.9888
    published = frame[frame["published"].notna()]
    assert len(published) == 7 + 2  # no more than these and the quoted ones


def test_quoted_accuracies_have_rows_of_their_own(runs):
    frame = artefacts.frame(runs, "noniid_cost")
    ours = cell(frame, "federated, as written", "IID test")
    for where, quoted in (("I.A and VII", 0.3321), ("VII.A", 0.3266)):
        row = cell(frame, f"federated, as written (quoted in {where})", "IID test")
        assert row["published"] == quoted
        assert row["runs"] == ours["runs"]


def test_noniid_cost_of_the_other_networks(runs):
    second, third = (artefacts.frame(runs, f"m{m}_noniid_cost") for m in (2, 3))
    assert cell(second, "federated, as run", "IID test")["mean"] == pytest.approx(0.2205)
    quoted = "federated, as written (quoted in VII.A)"
    assert cell(second, "federated, as written", "IID test")["published"] == 0.5432
    assert cell(second, quoted, "IID test")["published"] == 0.8432
    assert cell(third, "federated, as run", "non-IID test")["published"] == 0.9731
    assert cell(third, quoted, "IID test")["published"] == 0.9731
    local = cell(third, "federated, as written, local statistics", "IID test")
    assert local["mean"] == pytest.approx(0.13)


def test_validation(runs):
    frame = artefacts.frame(runs, "validation")
    assert set(frame["column"]) == {"0", "50", "100"}  # the smoke plan has no N = 2 and 10
    first = cell(frame, "federated, as run (IID-test run)", "50")
    assert first["mean"] == pytest.approx(0.5505)
    assert first["published"] == 0.9580
    assert cell(frame, "federated, as run (non-IID-test run)", "50")["published"] == 0.9577
    assert cell(frame, "selective, as written", "50")["mean"] == pytest.approx(0.6505)


def test_tables_have_the_values_of_n_that_they_are_about():
    """At lite the curves have others too."""
    lite = MadeUpRuns("lite", World())
    assert {*artefacts.frame(lite, "validation")["column"]} == {"0", "2", "10", "50", "100"}
    frame = artefacts.frame(lite, "noniid_cost")
    assert not frame.duplicated(["row", "column"]).any()


def test_groups(runs):
    frame = artefacts.frame(runs, "groups")
    assert set(frame["unit"]) == {"count"}
    assert cell(frame, "0", "selective, as run")["mean"] == 3
    assert cell(frame, "100", "selective, as written")["values"] == (1, 1)
    assert cell(frame, "50", "selective, as written, dot product as printed")["mean"] == 1
    for name in ("groups", "grouping_rules", "agreement"):
        rows = [int(row) for row in artefacts.frame(runs, name)["row"]]
        assert rows == sorted(rows)


@pytest.mark.parametrize("models", ["as run", "as written"])
def test_each_rule_groups_the_models_of_both_readings(runs, models):
    frame = artefacts.frame(runs, "grouping_rules")
    found = {
        (percent, rule): cell(frame, percent, f"models {models}, rule {rule}")["values"]
        for percent in ("0", "50")
        for rule in ("as run", "as written")
    }
    assert found == {
        ("0", "as run"): (3, 3),
        ("0", "as written"): (3, 3),
        ("50", "as run"): (1, 1),  # each agrees with the first
        ("50", "as written"): (8, 8),  # the second joins the first, no other agrees with both
    }


def test_only_the_rule_as_run_puts_a_node_in_several_groups(runs):
    """The third agrees with the first two, which differ, and the fourth with the second alone."""
    like = np.array([[1, 0, 1, 0], [0, 1, 1, 1], [1, 1, 1, 0], [0, 1, 0, 1]])
    as_run, as_written = (_rule(runs, f"selective_{reading}") for reading in READINGS)
    assert as_run(like) == [[0, 2], [1, 2, 3]]
    assert as_written(like) == [[0, 2], [1, 3]]


def test_agreement_is_a_mean_over_pairs_of_nodes(runs):
    frame = artefacts.frame(runs, "agreement")
    for reading in ("as run", "as written"):
        at_0, at_50 = (
            [
                cell(frame, percent, f"{reading}: nodes of {which} labels")["mean"]
                for which in ("the same", "other")
            ]
            for percent in ("0", "50")
        )
        assert at_0 == pytest.approx([0.95, 0.3])
        # of 18 pairs of the same labels two are with the first node, of 54 others six
        assert at_50 == pytest.approx([0.5 + 0.4 * 4 / 18, 0.5 + 0.4 * 12 / 54])


def test_merge_counts_groups_that_unite_label_groups(runs):
    frame = artefacts.frame(runs, "merge")
    assert list(frame["row"])[::4] == ["Model 1", "Model 2", "Model 3"]
    assert cell(frame, "Model 1", "as run: share at")["values"] == (50, 50)
    assert cell(frame, "Model 1", "as run: apart at")["values"] == (0, 0)
    assert cell(frame, "Model 3", "as written: share at")["values"] == (100,)
    assert cell(frame, "Model 3", "as written: apart at")["values"] == (0,)
    assert cell(frame, "Model 2", "as run: share at")["published"] == 8
    assert set(frame["unit"]) == {"count"}


def test_merges():
    assert not merges([[0, 1], [2], [3, 4, 5], [6], [7, 8]])
    assert merges([[0, 1, 2], [3, 4, 6], [5], [7, 8]])


@pytest.mark.parametrize(
    ("merged", "apart", "share"), [(50, (0, 100), (50, 102)), (0, (-2, 100), (0, 102))]
)
def test_a_curve_that_never_merges_counts_beyond_the_last_n(tmp_path, merged, apart, share):
    def final(run):
        united = run.seed == 0 and run.coordinates["percent"] == merged
        return {"groups": ONE_GROUP if united else THREE_GROUPS}

    for run in unique(expand("selective", "smoke")).values():
        if run.group == "selective_as_run":
            records.write(content(run, final=final(run)), tmp_path)
    runs = RunSet("selective", "smoke", tmp_path)
    found = merge_points(runs, "selective_as_run").set_index("column")
    assert found["values"]["apart at"] == apart
    assert found["values"]["share at"] == share
    percent = {run.id: run.coordinates["percent"] for run in runs.members(["selective_as_run"])}
    assert [percent[run] for run in found["runs"]["share at"]] == [merged, 100]
    assert [percent[run] for run in found["runs"]["apart at"]] == [0, 100]


def test_seeds_of_some_n_alone_tell_no_merge_unless_they_have_all_up_to_it(tmp_path):
    """Model 2 has four more at five values of N, Model 1 ten at every N."""

    def final(run):
        return {"groups": THREE_GROUPS if run.coordinates["percent"] < 14 else ONE_GROUP}

    groups = {"selective_as_run": 10, "m2_selective_as_run": 1}
    for run in unique(expand("selective", "paper")).values():
        if run.group in groups:
            records.write(content(run, final=final(run)), tmp_path)
    runs = RunSet("selective", "paper", tmp_path)
    for group, seeds in groups.items():
        assert {*merge_points(runs, group)["n"]} == {seeds}


def test_where_label_groups_merge_by_hand():
    """Seed 0 comes apart again; seed 1 has all N up to there, seed 2 lacks one, seed 3 a record."""
    groups = {
        0: {4: THREE_GROUPS, 0: THREE_GROUPS, 2: ONE_GROUP},
        1: {0: THREE_GROUPS, 2: ONE_GROUP},
        2: {0: THREE_GROUPS, 4: ONE_GROUP},
        3: {0: THREE_GROUPS, 2: ONE_GROUP},
    }
    rows = [(seed, n, f"{seed}@{n}", of) for seed, each in groups.items() for n, of in each.items()]
    finals = pd.DataFrame(rows, columns=["seed", "percent", "run", "groups"])
    missing = [SimpleNamespace(seed=3)]
    made = SimpleNamespace(final=lambda *_: finals, missing=lambda _: missing)
    found = merge_points(made, "selective").set_index("column")
    assert found["values"].to_dict() == {"apart at": (0, 0), "share at": (2, 2)}
    assert found["runs"].to_dict() == {"apart at": ("0@0", "1@0"), "share at": ("0@2", "1@2")}


def test_means_over_n_are_of_the_seeds_that_have_them_all():
    """Seed 0 has N = 0, 10 and 50, seed 1 lacks the last."""
    rows = [(0, 0, "a", 0.1), (0, 10, "b", 0.2), (0, 50, "c", 0.9), (1, 0, "d", 0.3)]
    rows.append((1, 10, "e", 0.5))
    finals = pd.DataFrame(rows, columns=["seed", "percent", "run", "accuracy_tuning"])
    finals = finals.assign(threshold=0.8, accuracy_noniid=finals["accuracy_tuning"] / 2)
    planned = [SimpleNamespace(coordinates={"percent": n}) for n in (0, 10, 50)]
    made = SimpleNamespace(
        labelled=lambda **_: ["tuned"], final=lambda *_: finals, planned=lambda _: planned
    )
    (whole,) = over_percents(made).to_dict("records")
    assert (whole["seed"], whole["run"]) == (0, ("a", "b", "c"))
    assert [whole["tuning"], whole["noniid"]] == pytest.approx([0.4, 0.2])
    some = over_percents(made, [0, 10])
    assert some["tuning"].tolist() == pytest.approx([0.15, 0.4])
    assert some["run"].tolist() == [("a", "b"), ("d", "e")]


def test_threshold(runs):
    frame = artefacts.frame(runs, "threshold")
    at = ["tuning images, N = 0", "tuning images, N = 50", "tuning images, mean"]
    at.append("non-IID test, mean")
    keys = [(each, column) for each in ("0.5", "0.82", "0.95") for column in at]
    assert artefacts.keys_of(frame) == keys
    assert cell(frame, "0.82", "tuning images, N = 50")["mean"] == pytest.approx(0.132)
    assert cell(frame, "0.5", "tuning images, mean")["mean"] == pytest.approx(0.075)
    assert cell(frame, "0.95", "non-IID test, mean")["mean"] == pytest.approx(0.325)


def test_communication(runs):
    frame = artefacts.frame(runs, "communication")

    def of(row, column):
        return cell(frame, row, column)["mean"]

    rounds, models, others, epochs = list(dict.fromkeys(frame["column"]))
    # 3 nodes, 3 rounds, 23,860 weights of 4 bytes, up and down
    federated = 3 * 3 * 2 * 23_860 * 4 / 1e6
    assert of("Model 1: federated, as run", models) == pytest.approx(federated)
    assert of("Model 1: federated, as written", models) == pytest.approx(federated)
    assert of("Model 1: selective, as written", models) == pytest.approx(3 * federated)
    assert of("Model 1: federated, as run", rounds) == 3
    assert of("Model 1: selective, as run", rounds) == 4
    assert of("Model 1: federated, as run", others) == 0
    # 400 validation images to each of 9 nodes, and a bit for each of them back
    assert of("Model 1: selective, as run", others) == pytest.approx(9 * 400 * (784 + 1 / 8) / 1e6)
    assert of("Model 1: selective, as run", epochs) == 6
    assert [of("Model 1: local", column) for column in (rounds, models, epochs)] == [0, 0, 3]
    # statistics that stay with the nodes are not sent
    kept = of("Model 3: federated, as run", models)
    assert kept < of("Model 3: federated, as written", models)
    assert of("Model 2: centralised", others) == of("Model 1: centralised", others)
    (central,) = {run.spec.dataset.name for run in runs.members(["centralised"])}
    images = describe(central).train - 400  # the training images of all nodes
    assert of("Model 1: centralised", others) == pytest.approx(images * 784 / 1e6)


def test_what_is_sent_at_other_n_is_not_shown(runs):
    fewer = Some(runs, lambda run: run.coordinates.get("percent") != 0)
    rows = artefacts.frame(fewer, "communication", partial=True)["row"]
    assert set(rows) == {f"Model {m}: centralised" for m in (1, 2, 3)}


def test_a_node_in_two_groups_sends_twice():
    spec = next(r.spec for r in expand("selective", "paper") if r.group == "selective_as_run")
    once, twice = traffic(spec, THREE_GROUPS), traffic(spec, [[0, 1, 2], [2, 3, 4, 5], [6, 7, 8]])
    models = list(TRAFFIC).index("models sent, MB")
    assert twice[models] * 9 == pytest.approx(once[models] * 10)


def test_the_groups_that_a_run_formed_are_what_it_sends():
    overlapping = [[0, 1, 2], [2, 3, 4, 5], [6, 7, 8]]
    made = MadeUpRuns("smoke", World(lambda run: {"groups": overlapping}))
    frame = artefacts.frame(made, "communication")
    selective = cell(frame, "Model 1: selective, as written", "models sent, MB")["mean"]
    # 10 nodes' models in 3 rounds, up and down
    assert selective == pytest.approx(10 * 3 * 2 * 23_860 * 4 / 1e6)


def test_running_statistics_are_sent_where_they_are_averaged():
    """Model 3 has batch normalisation of 32, 64, 128, 128 and 64 features, and 74 rounds."""
    specs = {run.group: run.spec for run in expand("selective", "paper")}
    groups = ("m3_federated_as_written", "m3_federated_as_run")
    averaged, local = (traffic(specs[group], [[0]]) for group in groups)
    models = list(TRAFFIC).index("models sent, MB")
    statistics = 2 * (32 + 64 + 128 + 128 + 64)
    assert averaged[models] - local[models] == pytest.approx(2 * 74 * statistics * 4 / 1e6)


def test_a_node_trains_all_epochs_of_every_round():
    spec = next(r.spec for r in expand("selective", "paper") if r.group == "federated_as_run")
    once, five = (traffic(spec.model_copy(update={"local_epochs": n}), [[0]]) for n in (1, 5))
    epochs = list(TRAFFIC).index("epochs a node trains")
    assert five[epochs] == 5 * once[epochs] == 5 * spec.rounds
    assert five[:epochs] == once[:epochs]


def test_choices_are_compared_on_the_iid_test():
    def final(run):
        return distinct(run) | {"accuracy_iid": 0.9 if run.group.startswith("choice") else 0.8}

    frame = artefacts.frame(MadeUpRuns("lite", World(final)), "choices")
    assert list(frame["mean"]) == pytest.approx([0.1] * len(frame))


def test_curves_use_the_metrics_of_their_reading(runs):
    iid, noniid = artefacts.frame(runs, "fig3"), artefacts.frame(runs, "fig6")
    assert cell(iid, "selective, as run", 50)["mean"] == pytest.approx(0.2505)
    assert cell(iid, "selective, as written", 50)["mean"] == pytest.approx(0.1505)
    assert cell(noniid, "selective, as run", 50)["mean"] == pytest.approx(0.4505)
    assert cell(noniid, "selective, as written", 50)["mean"] == pytest.approx(0.3505)
    assert cell(noniid, "federated, as run", 50)["mean"] == pytest.approx(0.3505)
    assert cell(iid, "centralised", 100)["mean"] == pytest.approx(0.2005)
    assert cell(iid, "local", 50)["mean"] == pytest.approx(0.2505)  # dealt, in either reading
    assert cell(noniid, "local", 50)["mean"] == pytest.approx(0.3505)
    assert cell(iid, "local", 50)["published"] == 0.9417
    assert cell(noniid, "federated, as written", 0)["published"] == 0.3089


def test_curves_of_the_other_networks(runs):
    assert cell(artefacts.frame(runs, "fig4"), "federated, as run", 0)["published"] == 0.5432
    assert cell(artefacts.frame(runs, "fig8"), "selective, as run", 0)["published"] == 0.9981
    third = artefacts.frame(runs, "fig5")
    assert cell(third, "federated, as written, local statistics", 0)["mean"] == pytest.approx(0.13)
    assert "federated, as written, local statistics" not in set(
        artefacts.frame(runs, "fig4").series
    )


def test_published_curves_are_drawn_whole(runs):
    cells = artefacts.frame(runs, "fig8")
    federated = cells[cells["series"] == "federated, published"]
    assert len(federated) == 50
    assert federated.loc[federated["x"] == 2, "mean"].item() == 0.9679
    assert (cells["series"] == "local, published").sum() == 20
    drawn = DRAWINGS["fig8"](cells).axes[0].lines
    lengths = [len(line.get_xdata()) for line in drawn if line.get_marker() == "s"]
    assert sorted(lengths) == [20, 50, 51]


def test_complexity(runs):
    frame = artefacts.frame(runs, "complexity")
    found = frame[frame["series"] == "federated, as run; non-IID test"]
    assert list(found["x"]) == [1, 2, 3]
    assert list(found["mean"]) == pytest.approx([0.3005, 0.3205, 0.33])
    assert list(found["published"]) == [0.3089, 0.7117, 0.9731]


def test_theorem(frame_of):
    frame = frame_of("theorem")
    ends = frame[(frame["panel"] == "share") & (frame["x"] == 0.001)]
    assert len(ends) == 9
    assert list(ends["mean"] / ends["factor"]) == pytest.approx([1] * 9, rel=0.02)
    loss = frame[frame["series"] == "C = 5, Gamma = 1: global"]["mean"]
    assert loss.iloc[-1] < 0.01 * loss.iloc[0]


def test_aliasing_holds_small_n_only(runs):
    frame = artefacts.frame(runs, "aliasing")
    assert set(frame["x"]) == {0}
    assert len(frame) == 12
    assert not frame.duplicated(["series", "x"]).any()


def test_a_network_is_labelled_with_what_its_training_lacks(runs):
    cells = artefacts.frame(runs, "complexity")
    figure = DRAWINGS["complexity"](cells)
    labels = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    full = "Model 1\n3 of 21 rounds", "Model 2\n2 of 83 rounds"
    assert labels == [*full, "Model 3\n1 of 74 rounds\n0.0625 of the width"]
    assert {line.get_linestyle() for line in figure.axes[0].lines} == {"None"}
    assert _reduced("m3_centralised", "lite") == ["0.25 of the width", "0.25 of the pixels"]


def test_points_are_joined_only_where_n_is_as_fine_as_published():
    canvas = Canvas()
    points = pd.DataFrame({"x": [0, 2, 4, 10, 100], "mean": [0.1, 0.2, 0.3, 0.4, 0.5]})
    points = points.assign(values=[()] * 5, n=0)
    _ours(canvas, canvas.axis, points, Ink("red"), "", step=2)
    solid = [line for line in canvas.axis.lines if line.get_linestyle() != "None"]
    assert [line.get_linestyle() for line in solid] == ["-"] * 3
    assert [list(line.get_xdata()) for line in solid] == [[0, 2, 4], [10], [100]]
    canvas.axis.clear()
    _ours(canvas, canvas.axis, points[:3], Ink("red"), "", step=2)
    drawn = [line for line in canvas.axis.lines if line.get_linestyle() != "None"]
    assert [line.get_linestyle() for line in drawn] == ["-"]


def test_steps_are_those_of_the_published_curves():
    for figure in CURVES:
        for method, step in STEPS.items():
            assert np.diff(published_curve(figure, method).x).min() == step


def test_the_legend_says_at_which_few_n_ours_are_trained(runs):
    figure = DRAWINGS["fig4"](artefacts.frame(runs, "fig4"))
    title = figure.legends[0].get_title().get_text()
    assert title == "our values of N: 0, 100"
    fewer = artefacts.frame(runs, "fig4")
    fewer = fewer[(fewer["series"] != SELECTIVE["as_run"]) | (fewer["x"] == 0)]
    figure = DRAWINGS["fig4"](fewer)
    title = figure.legends[0].get_title().get_text()
    both = "federated and selective as written and local"
    assert title == f"our values of N: {both} 0, 100; selective as run 0"
    entries = [text.get_text() for text in figure.legends[0].get_texts()]
    assert entries[:3] == list(METHODS)
    many = artefacts.frame(runs, "fig3")
    extra = pd.concat([many.assign(x=many["x"] + shift / 100) for shift in range(12)])
    figure = DRAWINGS["fig3"](extra)
    assert figure.legends[0].get_title().get_text() == ""


def test_published_points_are_below_our_lines(runs):
    axis = DRAWINGS["fig3"](artefacts.frame(runs, "fig3")).axes[0]
    published = [line.get_zorder() for line in axis.lines if line.get_marker() == "s"]
    ours = [line.get_zorder() for line in axis.lines if line.get_linestyle() == "-"]
    assert max(published) < min(ours)


def test_the_mean_that_decides_is_black(runs):
    figure = DRAWINGS["threshold_tuning"](artefacts.frame(runs, "threshold_tuning"))
    colours = {line.get_label(): line.get_color() for line in figure.legends[0].get_lines()}
    assert colours["mean"] == "black"
    assert "black" not in {colours[name] for name in colours if name.startswith("N = ")}


def test_rounds_of_both_tests_end_beside_the_published_accuracies(runs):
    frame = artefacts.frame(runs, "m2_rounds")
    assert list(frame["series"].unique())[:2] == ["N = 0; IID test", "N = 2; IID test"]
    assert cell(frame, "N = 0; IID test", 2)["mean"] == pytest.approx(0.102)
    assert cell(frame, "N = 2; non-IID test", 1)["mean"] == pytest.approx(0.201)
    assert cell(frame, "N = 2; IID test, published", 83)["mean"] == 0.8208
    assert cell(frame, "N = 2; non-IID test, published", 83)["mean"] == 0.8609
    figure = DRAWINGS["m2_rounds"](frame)
    lines = figure.axes[0].lines
    assert max(max(line.get_xdata()) for line in lines) <= 2  # none of ours at round 83
    legend = {text.get_text() for text in figure.legends[0].get_texts()}
    assert {"N = 0, ours, mean of 2 seeds", "N = 2, published, after 83 rounds"} <= legend
    levels = [line.get_ydata() for line in lines if line.get_linestyle() == ":"]
    assert [level[0] for level in levels] == pytest.approx([54.32, 82.08])


def test_every_seed_is_drawn(runs):
    cells = artefacts.frame(runs, "fig3")
    figure = DRAWINGS["fig3"](cells)
    dots = [line for line in figure.axes[0].lines if line.get_marker() == "."]
    assert [len(line.get_xdata()) for line in dots] == [2] * 9  # 3 curves, 3 values of N, 2 seeds


def test_without_records_only_the_theorem_is_shown(runs):
    none, made = Some(runs, lambda _: False), []
    for name in (*runs.plan.tables, *runs.plan.figures):
        with contextlib.suppress(MissingRunsError):
            artefacts.frame(none, name, partial=True)
            made.append(name)
    assert made == ["theorem"]


@pytest.mark.parametrize("share", [0, 0.05, 0.15, 0.5])
def test_verdicts_can_do_with_any_runs(runs, tmp_path, share):
    rng, ids = np.random.default_rng(round(100 * share)), unique(runs.planned(runs.plan.runs))
    kept = {run_id for run_id in sorted(ids) if rng.random() < share}
    write_some(tmp_path, "smoke", World(), lambda run: run.id in kept)
    found = verdicts.check("selective", "smoke", tmp_path)
    shown = [item for item in found if item.ours is not None]
    assert bool(shown) == bool(share)
    assert {item.verdict for item in shown} <= {"not decidable"}


def test_a_mean_over_n_needs_them_all(runs):
    lacking = next(
        run
        for run in runs.members(["selective_threshold"])
        if run.coordinates == {"threshold": 0.82, "percent": 50}
    )
    kept = [run for run in runs.members(["selective_threshold"]) if run.id != lacking.id]
    fewer = Some(runs, lambda run: run in kept)
    frame = artefacts.frame(fewer, "threshold", partial=True)
    assert len(cell(frame, "0.82", "tuning images, N = 0")["runs"]) == 1
    columns = set(frame.loc[frame["row"] == "0.82", "column"])
    assert columns == {"tuning images, N = 0"}
    assert len(cell(frame, "0.95", "tuning images, mean")["runs"]) == 2


@pytest.mark.parametrize("lacking", [50, 100])
def test_where_groups_merge_needs_all_n(runs, lacking):
    kept = [
        run
        for run in runs.members(["selective_as_run"])
        if (run.seed, run.coordinates["percent"]) != (1, lacking)
    ]
    fewer = Some(runs, lambda run: run in kept)
    frame = artefacts.frame(fewer, "merge", partial=True)
    assert cell(frame, "Model 1", "as run: share at")["values"] == (50,)


def test_smoke_runs_are_shown_without_a_verdict(judged):
    shown = [item for item in judged.values() if item.kind == "number" and item.ours is not None]
    assert shown
    assert {item.verdict for item in shown} == {"not decidable"}


@pytest.mark.parametrize("name", sorted(DRAWINGS))
def test_figures_can_be_read(frame_of, name):
    style.use()
    check_readable(DRAWINGS[name](frame_of(name)))
