"""Tables and figures of the paper `emd` on made-up records."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace

import matplotlib as mpl
import matplotlib.figure
import numpy as np
import pandas as pd
import pytest
from emd_records import FLOOR, JITTER, World, rise
from frames import cell, check_any_subset
from readable import check_readable
from seeds import Edited, MadeUpRuns, Some, write_all, write_some

from fedrepro.papers.emd.drawings import DRAWINGS
from fedrepro.papers.emd.figures import plane
from fedrepro.papers.emd.measurements import LAYERS, reported, warm_up
from fedrepro.report import artefacts, style
from fedrepro.report.expected import load_expected, published
from fedrepro.report.verdicts import check
from fedrepro.runs import records
from fedrepro.runs.plan import load_plan
from fedrepro.runs.runset import MissingRunsError, RunSet

mpl.use("Agg")


def drawn(runs: RunSet, name: str) -> mpl.figure.Figure:
    """Return a figure as it is drawn."""
    return DRAWINGS[name](artefacts.frame(runs, name))


def legend(figure: mpl.figure.Figure) -> list[str]:
    """Return the texts of a figure's legend."""
    return [text.get_text() for text in figure.legends[0].get_texts()]


@pytest.fixture(scope="module")
def paper() -> RunSet:
    return MadeUpRuns("paper", World())


@pytest.fixture(scope="module")
def lite() -> RunSet:
    return MadeUpRuns("lite", World())


@pytest.fixture(scope="module")
def smoke() -> RunSet:
    return MadeUpRuns("smoke", World())


def test_expected_counts():
    expected = load_expected("emd")
    by_artefact = [number.artefact for number in expected.all_numbers()]
    counts = {name: by_artefact.count(name) for name in set(by_artefact)}
    assert counts == {
        "table1": 15,
        "table2": 48,
        "table3": 30,
        "unit_pixels": 3,
        "sweep_text": 6,
        "fig7a": 3,
        "fig7b": 2,
        "warm_up": 2,
    }
    assert sum(number.value == "sd" for number in expected.all_numbers()) == 27
    assert all(number.reason for number in expected.all_numbers())


def test_reported_is_the_mean_of_the_last_ten_rounds(tmp_path):
    runs = RunSet("emd", "smoke", tmp_path)
    run = runs.members(["mnist_sgd_large"])[0]
    content = World().record(run)
    rounds = list(range(1, 21))
    content["metrics"] = {"evaluated_rounds": rounds, "accuracy": [t / 100 for t in rounds]}
    content["metrics"]["accuracy"][2] = 0.9
    content["metrics"]["accuracy"][15] += 0.5
    for other in runs.members(["mnist_sgd_large"])[1:]:
        records.write(World().record(other), tmp_path)
    records.write(json.loads(json.dumps(content)), tmp_path)
    row = reported(runs, ["mnist_sgd_large"]).set_index("seed").loc[run.seed]
    assert row["accuracy"] == pytest.approx(0.155 + 0.05)  # mean of 0.11 to 0.20, one 0.5 more
    assert row["final"] == 0.2
    assert row["best"] == 0.9
    assert row["run"] == run.id


def test_evaluations_further_apart_than_the_last_rounds_leave_the_final_one(tmp_path):
    runs = write_all(tmp_path, "smoke", World())
    run = runs.members(["mnist_sgd_large"])[0]
    content = World().record(run)
    content["metrics"] = {"evaluated_rounds": [20, 40, 50], "accuracy": [0.2, 0.4, 0.5]}
    records.write(content, tmp_path)
    row = reported(RunSet("emd", "smoke", tmp_path), ["mnist_sgd_large"]).iloc[0]
    assert row["accuracy"] == 0.5


def test_table1_subtracts_seed_by_seed(paper):
    frame = artefacts.frame(paper, "table1")
    assert list(frame["row"].unique()) == [
        "FedAvg, non-IID(1), large B",
        "FedAvg, non-IID(1), E = 5, large B",
        "FedAvg, non-IID(2), large B",
        "FedAvg, non-IID(1), small B",
        "FedAvg, non-IID(2), small B",
    ]
    assert list(frame["column"].unique()) == ["MNIST", "CIFAR-10", "KWS"]
    assert len(frame) == 15
    assert list(frame["mean"]) == pytest.approx(list(frame["published"]), abs=1e-9)
    assert list(frame["sd"]) == pytest.approx([0] * 15, abs=1e-9)  # equal jitter cancels
    for other in ("final", "best"):  # lost as well
        assert list(frame[other]) == pytest.approx(list(frame["mean"]), abs=1e-9)
    ids = {run.id for run in paper.members(["mnist_sgd_large", "mnist_one_class_large"])}
    assert set(frame["runs"].iloc[0]) == ids
    small = {run.id for run in paper.members(["kws_sgd_small", "kws_two_class_small"])}
    assert set(frame["runs"].iloc[-1]) == small


def test_table1_leaves_out_seeds_without_their_sgd(smoke):
    """At smoke, MNIST has two seeds of each training, the others one."""
    frame = artefacts.frame(smoke, "table1")
    assert dict(zip(frame["column"], frame["n"], strict=True)) == {
        "MNIST": 2,
        "CIFAR-10": 1,
        "KWS": 1,
    }


def test_table2(paper):
    frame = artefacts.frame(paper, "table2")
    assert list(frame["row"].unique()) == ["MNIST", "CIFAR-10", "KWS"]
    emds = ["0", "0.36", "0.72", "1.08", "1.44", "1.62", "1.764", "1.8"]
    assert list(frame["column"]) == emds * 3
    assert list(frame["mean"]) == pytest.approx(list(frame["published"]))
    assert list(frame["n"]) == [5] * 24
    expected_sd = math.sqrt(sum(value**2 for value in JITTER) / 4)
    assert list(frame["sd"]) == pytest.approx([expected_sd] * 24)
    assert (frame["final"] - frame["mean"]).tolist() == pytest.approx([0.0001] * 24)
    assert "98.57 ± 0.01 % (n=5) [98.57 ± 0.064 %]" in artefacts.markdown(paper, "table2", frame)


def test_table3_has_the_papers_rows(paper):
    frame = artefacts.frame(paper, "table3")
    assert list(frame["row"].unique())[:2] == ["SGD, large B", "FedAvg, IID, large B"]
    assert len(frame) == 30
    assert not frame["published"].isna().any()
    two = cell(frame, "FedAvg, non-IID(2), large B", "CIFAR-10")
    assert two["mean"] == pytest.approx(0.67, abs=1e-4)
    assert two["published"] == 0.67


def test_packed_keyword_features_have_their_own_name_and_no_published_value(lite):
    for name in ("table1", "table2", "table3", "sweep_text"):
        frame = artefacts.frame(lite, name)
        key = frame["row"] if name in ("table2", "sweep_text") else frame["column"]
        assert set(key) == {"MNIST", "CIFAR-10", "KWS, 20 x 11 features"}
        assert frame[key == "KWS, 20 x 11 features"]["published"].isna().all()
        means = frame["column"] != "accuracy / mean, largest sd"
        assert not frame[means & (key == "CIFAR-10")]["published"].isna().any()
    assert "KWS, 20 x 11 features" in set(artefacts.frame(lite, "fig5a")["series"])


def test_table3_shows_and_judges_the_trainings_that_are_recorded(paper, tmp_path):
    """A training counts with the seeds that are there; Table 1 still needs its SGD."""
    kept = paper.members(["mnist_one_class_large", "mnist_two_class_large"])
    kept += paper.members(["mnist_iid_large"])[:2]
    runs = write_some(tmp_path, "paper", World(), lambda run: run in kept)
    with pytest.raises(MissingRunsError):
        artefacts.frame(runs, "table3")
    frame = artefacts.frame(runs, "table3", partial=True)
    rows = ["FedAvg, IID, large B", "FedAvg, non-IID(2), large B", "FedAvg, non-IID(1), large B"]
    assert list(frame["row"]) == rows
    assert set(frame["column"]) == {"MNIST"}
    left_out = artefacts.left_out(runs, "table3").split(": ", 1)[1].split(". ")
    assert "1 of 3 runs on mnist of FedAvg, IID, large B" in left_out
    two_class = "FedAvg, non-IID(2), large B; FedAvg, non-IID(1), large B"
    iid = "FedAvg, IID, large B; "
    assert f"3 of 3 runs each on cifar10, kws_mfcc of {iid}{two_class}." in left_out
    assert left_out[0].startswith("3 of 3 runs each on mnist, cifar10, kws_mfcc of SGD, large B; ")
    assert artefacts.markdown(runs, "table3", frame).endswith(f"{'. '.join(left_out)}\n")
    found = {item.id: item for item in check("emd", "paper", tmp_path)}
    whole, some = found["T3-two_class_large-mnist"], found["T3-iid_large-mnist"]
    assert (whole.verdict, whole.seeds, whole.evidence) == ("reproduced", 3, "")
    assert (some.verdict, some.seeds) == ("reproduced", 2)
    assert some.evidence == "2 of 3 runs are recorded"
    assert found["T1-two_class_large-mnist"].verdict == "not run"


def test_sweep_text(paper):
    frame = artefacts.frame(paper, "sweep_text")
    reduction = cell(frame, "MNIST", "largest reduction")
    assert reduction["mean"] == pytest.approx(0.9857 - 0.922)
    assert (reduction["n"], len(set(reduction["runs"]))) == (5, 10)
    variation = cell(frame, "MNIST", "accuracy / mean, largest sd")
    sd = math.sqrt(sum(value**2 for value in JITTER) / 4)
    assert (variation["mean"], variation["n"]) == (pytest.approx(1), 5)
    assert variation["sd"] == pytest.approx(sd / 0.922)
    assert variation["published_sd"] == 0.00086
    assert len(variation["runs"]) == 5
    assert cell(frame, "KWS", "largest reduction")["published"] == 0.4021


def test_the_lowest_mean_need_not_be_that_of_the_highest_emd():
    frame = artefacts.frame(
        MadeUpRuns("paper", World(accuracy={"mnist_sweep/1.44": 0.9})), "sweep_text"
    )
    assert cell(frame, "MNIST", "largest reduction")["mean"] == pytest.approx(0.9857 - 0.9)


def test_the_last_round_and_the_best_are_told_apart():
    def early(name: str, values: list[float]) -> list[float]:
        return [0.99, *values[1:]] if name == "accuracy" else values

    runs = Edited(MadeUpRuns("lite", World()), early)
    ours = cell(artefacts.frame(runs, "table3"), "FedAvg, IID, large B", "MNIST")
    assert [ours["final"], ours["best"]] == pytest.approx([ours["mean"] + 0.0001, 0.99])
    frame = artefacts.frame(runs, "choices")
    last, best = (cell(frame, name, "IID") for name in ("after the last round", "best round"))
    assert last["mean"] == pytest.approx(0.0001)
    assert best["mean"] == pytest.approx(0.99 - ours["mean"])


def test_sweep_text_needs_every_emd_of_a_seed(paper, tmp_path):
    """Of some EMDs the lowest is not known, nor which varies most."""
    ends = {"cifar10_sweep": (0, 0.36), "mnist_sweep": (0, 1.8)}
    some = write_some(
        tmp_path,
        "paper",
        World(),
        lambda run: run.coordinates.get("emd") in ends.get(run.group, ()),
    )
    with pytest.raises(MissingRunsError):
        artefacts.frame(some, "sweep_text", partial=True)
    found = {item.id: item.verdict for item in check("emd", "paper", tmp_path)}
    assert (found["X-reduction-cifar10"], found["X-variation-cifar10"]) == ("not run", "no target")
    seeds = Some(paper, lambda run: run.group == "mnist_sweep" and run.seed < 3)
    frame = artefacts.frame(seeds, "sweep_text", partial=True)
    assert list(frame["row"]) == ["MNIST", "MNIST"]
    assert list(frame["n"]) == [3, 3]


def test_warm_up_table_shows_each_model_once(lite):
    frame = artefacts.frame(lite, "warm_up")
    epochs = cell(frame, "G = 10 % of D", "epochs")
    assert (epochs["n"], epochs["values"]) == (8, tuple(range(40, 48)))
    assert cell(frame, "G = 20 % of D", "accuracy")["mean"] == 0.61
    assert len(frame) == 4


def test_warm_up_models_of_other_seeds_are_others():
    rows = {"beta": 0.1, "alpha": [0.5, 1.0] * 2, "seed": [0, 0, 1, 1], "run": list("abcd")}
    found = {"warm_up.epochs": [40, 40, 42, 42], "warm_up.accuracy": 0.6}
    frame = warm_up(SimpleNamespace(final=lambda groups, metrics: pd.DataFrame(rows | found)))
    assert cell(frame, "G = 10 % of D", "epochs")["values"] == (40, 42)


def test_open_choices_are_compared_with_the_committed_reading_seed_by_seed():
    """At lite every choice has three of the eight seeds of the reading."""
    gain = {
        "choice_pixels_one_class/unit": 0.95,
        "choice_start_iid/1": 0.9,
        "choice_start_iid/2": 0.8,
    }
    lite = MadeUpRuns("lite", World(accuracy=gain))
    frame = artefacts.frame(lite, "choices")
    assert set(frame["unit"]) == {"points"}
    pixels = cell(frame, "pixels in [0, 1]", "non-IID(1)")
    assert pixels["mean"] == pytest.approx(0.95 - 0.9217)
    assert pixels["sd"] == pytest.approx(0, abs=1e-9)  # equal jitter cancels
    pairs = lite.members(["choice_pixels_one_class", "mnist_one_class_large"])
    assert set(pixels["runs"]) == {run.id for run in pairs if run.seed < 3}
    iid = [cell(frame, f"other initial weights, {seed}", "IID")["mean"] for seed in (1, 2)]
    assert iid == pytest.approx([0.9 - 0.9869, 0.8 - 0.9869])
    last = cell(frame, "after the last round", "non-IID(2)")
    assert (last["mean"], last["n"]) == (pytest.approx(0.0001), 8)
    assert cell(frame, "step size decays by epoch", "non-IID(1), E = 5")["n"] == 3


def test_runs_of_the_committed_reading_alone_are_no_comparison_of_choices(lite):
    committed = Some(lite, lambda run: "choice" not in lite.plan.runs[run.group].labels)
    with pytest.raises(MissingRunsError):
        artefacts.frame(committed, "choices", partial=True)


def test_the_rise_of_the_divergence_is_shown_by_pixels_and_initial_weights(smoke):
    frame = artefacts.frame(smoke, "choice_divergence")
    rows = frame["row"].unique()
    assert len(rows) == 6 + 1 + 4
    assert "pixels in [-0.5, 0.5], TensorFlow's tutorial weights" in rows
    assert rows[0] == "standardised pixels, Glorot's weights"
    assert rows[-1] == "standardised pixels, Glorot's weights, other draw 4"
    assert list(frame["column"].unique()) == ["conv1", "conv2", "fc1", "fc2"]
    found = cell(frame, "pixels in [0, 1], truncated normal weights", "fc2")
    assert found["mean"] == pytest.approx(1.8 * rise("mnist", "fc2"))
    assert found["n"] == 2
    pairs = [run for run in smoke.members(["choice_divergence"]) if run.id in found["runs"]]
    assert {(run.coordinates["emd"], run.seed) for run in pairs} == {
        (emd, seed) for emd in (0, 1.8) for seed in (0, 1)
    }
    (model,) = {run.spec.model.init for run in pairs}
    assert model == "truncated_normal"


def test_curves_are_apart_by_their_mean_absolute_distance():
    world = World(accuracy={"mnist_one_class_large": 0.9, "mnist_one_class_large_e5": 0.87})
    frame = artefacts.frame(MadeUpRuns("lite", world), "curves_apart")
    # the three evaluations of a made-up run have half of its accuracy, and about all of it twice
    trainings = cell(frame, "non-IID(1), E = 5 and E = 1", "MNIST")
    assert trainings["values"] == pytest.approx([0.03 * 5 / 6] * 8)
    seeds = cell(frame, "non-IID(1), two seeds", "MNIST")
    assert seeds["values"] == pytest.approx([0.00025, 0.0002 * 5 / 6, 0.00025, 0], rel=1e-5)
    assert [len(set(frame["column"])), frame["row"].nunique()] == [3, 6]


def test_longer_trainings_are_apart_by_stretches_of_rounds():
    """A made-up run of 200 rounds has half of its accuracy in round 100, and then it all."""
    world = World(
        accuracy={"mnist_one_class_longer/200": 0.9, "mnist_one_class_e5_longer/200": 0.8}
    )
    frame = artefacts.frame(MadeUpRuns("lite", world), "longer")
    assert list(frame["column"].unique()) == ["rounds 51 to 100", "rounds 151 to 200"]
    half, whole = (
        cell(frame, "MNIST, non-IID(1), E = 5 and E = 1", column)["values"]
        for column in ("rounds 51 to 100", "rounds 151 to 200")
    )
    assert (half, whole) == (pytest.approx([0.05] * 3), pytest.approx([0.1] * 3))
    assert cell(frame, "CIFAR-10, SGD, two seeds", "rounds 151 to 200")["n"] == 1


def test_pretraining_is_shown_before_and_after_federated_averaging():
    places = {"kws_pretrained_longer/500": 0.5, "kws_pretrained_longer/200": 0.4}
    frame = artefacts.frame(MadeUpRuns("lite", World(accuracy=places)), "pretraining")
    rows = [f"KWS, 20 x 11 features, {epochs} epochs" for epochs in (60, 200, 500)]
    assert [row for row in frame["row"].unique() if "KWS" in row] == rows
    for row, level in zip(rows[1:], (0.4, 0.5), strict=True):
        before, after, change = (
            cell(frame, row, column) for column in ("pre-training", "after FedAvg", "change")
        )
        assert (before["mean"], after["mean"]) == (
            pytest.approx(level + 0.02),
            pytest.approx(level),
        )
        assert (change["values"], change["unit"]) == (pytest.approx([-0.02] * 3), "points")


def test_a_cell_of_a_step_size_holds_the_runs_with_it(smoke):
    frame = artefacts.frame(smoke, "step_size")
    first = [f"MNIST, conv1, step size {size}" for size in ("0.01", "0.003", "0.001")]
    assert list(frame["row"].unique())[:3] == first
    assert list(frame["column"].unique()) == ["IID", "non-IID(2)", "non-IID(1)"]
    specs = {run.id: run.spec for run in smoke.members(smoke.groups_of("step_size"))}
    for row, training, scheme, size, classes in (
        ("MNIST, fc2, step size 0.003", "non-IID(2)", "class_aligned", 0.003, 2),
        ("CIFAR-10, fc5, step size 0.1", "non-IID(1)", "class_aligned", 0.1, 1),
        ("KWS, output, step size 0.005", "IID", "iid_stratified", 0.005, None),
    ):
        for run in cell(frame, row, training)["runs"]:
            spec = specs[run]
            assert (spec.partition.scheme, spec.optimizer.lr) == (scheme, size)
            assert getattr(spec.partition, "classes_per_client", None) == classes


def test_the_sweep_by_step_size_has_a_column_an_emd(smoke):
    frame = artefacts.frame(smoke, "step_size_sweep")
    assert list(frame["column"].unique()) == ["EMD 0", "EMD 0.36", "EMD 1.08", "EMD 1.8"]
    assert "CIFAR-10, conv2, step size 0.1" in set(frame["row"])
    found = cell(frame, "KWS, fc, step size 0.005", "EMD 1.08")
    (run,) = (run for run in smoke.members(["kws_sweep_step"]) if run.id in found["runs"])
    assert (run.coordinates["emd"], run.spec.optimizer.lr) == (1.08, 0.005)


def test_a_divergence_does_not_rise_from_an_emd_to_itself(smoke):
    lowest = Some(
        smoke, lambda run: run.group.startswith("choice_divergence") and not run.coordinates["emd"]
    )
    with pytest.raises(MissingRunsError):
        artefacts.frame(lowest, "choice_divergence", partial=True)


def test_open_choices_are_drawn_a_panel_a_training(smoke):
    panels = drawn(smoke, "open_choices").axes
    titles = [axis.get_title() for axis in panels]
    assert sorted(titles) == ["IID", "non-IID(1)", "non-IID(1), E = 5", "non-IID(2)"]
    names = [label.get_text() for label in panels[0].get_yticklabels()]
    assert names[:3] == ["after the last round", "best round", "pixels in [0, 1]"]


def test_open_choices_are_drawn_as_they_stand_in_the_table():
    """Of the seeds that both have, though the committed reading has more."""
    lite = MadeUpRuns("lite", World(accuracy={"choice_pixels_one_class/unit": 0.95}))
    table, figure = (artefacts.frame(lite, name) for name in ("choices", "open_choices"))
    assert set(figure["unit"]) == {"points"}
    for _, point in figure.iterrows():
        shown = cell(table, point["x"], point["series"])
        assert (point["mean"], point["n"]) == (shown["mean"], shown["n"])
    assert len(figure) == len(table)


@pytest.mark.parametrize("share", [0, 0.1, 0.5])
@pytest.mark.parametrize("name", [*load_plan("emd").tables, *load_plan("emd").figures])
def test_any_subset_of_the_runs_gives_a_frame(smoke, share, name):
    check_any_subset(
        smoke,
        name,
        share,
        of_pairs=(
            "table1",
            "choices",
            "open_choices",
            "choice_divergence",
            "curves_apart",
            "longer",
            "sweep_text",
        ),
    )


def test_bound_table(paper):
    frame = artefacts.frame(paper, "bound")
    emds = ("0", "0.72", "1.44", "1.8")
    rows = [f"EMD {emd}, {side}" for emd in emds for side in ("measured", "bound")]
    assert list(frame["row"]) == [row for row in rows for _ in range(3)]
    assert cell(frame, "EMD 1.8, measured", "m = 1")["mean"] == pytest.approx(0.18, rel=1e-4)
    assert cell(frame, "EMD 1.8, bound", "m = 3")["mean"] == pytest.approx(1.8)
    assert "0.180 (n=1)" in artefacts.markdown(paper, "bound", frame)


@pytest.mark.parametrize("letter", "abc")
def test_figures_1_and_8_have_the_papers_series(smoke, letter):
    large, small = artefacts.frame(smoke, f"fig1{letter}"), artefacts.frame(smoke, f"fig8{letter}")
    assert (large["series"].nunique(), small["series"].nunique()) == (6, 4)
    assert set(small["series"].str.endswith("small B")) == {True}


def test_figure_1_begins_the_pretrained_curve_where_pretraining_ended(paper):
    frame = artefacts.frame(paper, "fig1b")
    curve = frame[frame["series"].str.contains("pre-trained")].set_index("x")["mean"]
    assert list(curve.index) == [0, 495, 500]
    assert curve[0] == pytest.approx(0.6172 + 0.02)
    assert curve[500] == pytest.approx(0.6172 + 0.0001)


def test_figure_2_has_a_noise_floor(smoke):
    frame = artefacts.frame(smoke, "fig2")
    assert frame["series"].nunique() == 4
    assert len(frame) == 4 * (4 + 5 + 5)
    two = cell(frame, "FedAvg, non-IID(2), large B", "MNIST conv1")
    assert two["mean"] == pytest.approx(FLOOR + rise("mnist", "conv1") * 1.6 + 0.5e-5)
    floor = frame[frame["series"].str.contains("noise floor") & (frame["dataset"] == "MNIST")]
    assert list(floor["mean"]) == pytest.approx([FLOOR / 2 + 0.5e-5] * 4)


@pytest.mark.parametrize(("letter", "dataset"), list(zip("abc", LAYERS, strict=True)))
def test_figure_4(paper, letter, dataset):
    frame = artefacts.frame(paper, f"fig4{letter}")
    assert list(frame["series"].unique()) == list(LAYERS[dataset])
    last = LAYERS[dataset][-1]
    point = cell(frame, last, 1.44)
    assert point["n"] == 5
    assert point["mean"] == pytest.approx(FLOOR + rise(dataset, last) * 1.44 + 2e-5)


def test_figure_5a_holds_what_is_published(paper):
    frame = artefacts.frame(paper, "fig5a")
    assert list(frame["series"].unique()) == ["MNIST", "CIFAR-10", "KWS"]
    assert list(frame["table2"]) == pytest.approx(list(frame["mean"]))
    assert frame["table2_sd"].iloc[0] == 0.0006431


def test_packed_keyword_features_are_drawn_beside_the_published_ones(lite):
    frame = artefacts.frame(lite, "fig5a")
    packed = cell(frame, "KWS, 20 x 11 features", 1.8)
    assert packed["table2"] == 0.4475
    assert math.isnan(packed["published"]), "it is no target of ours"


@pytest.mark.parametrize(("name", "dataset"), [("fig1a", "MNIST"), ("fig8b", "CIFAR-10")])
def test_curves_end_at_what_table_3_prints(smoke, name, dataset):
    ends = artefacts.frame(smoke, name).dropna(subset="reported").set_index("series")
    printed = published("emd", "table3")
    assert len(ends) >= 3
    for series, end in ends.iterrows():
        assert end["x"] == 2
        assert end["reported"] == printed[series, dataset]


def test_figure_5b_is_relative_to_the_mean(paper):
    frame = artefacts.frame(paper, "fig5b")
    assert set(frame["emd"]) == {1.44}
    assert frame["series"].value_counts().to_dict() == {"weight divergence": 14, "accuracy": 3}
    assert list(frame["mean"]) == pytest.approx([1] * 17)
    values = list(cell(frame, "accuracy", "KWS")["values"])
    assert values == pytest.approx([1 + jitter / 0.7979 for jitter in JITTER], abs=1e-5)


def test_plane_of_vectors_that_lie_in_one_keeps_their_distances():
    vectors = np.array([[3.0, 4.0, 0.0], [1.0, 0.0, 0.0], [0.0, 2.0, 0.0], [2.0, 2.0, 0.0]])
    place, kept = plane(vectors @ vectors.T)
    assert kept == pytest.approx(1)
    assert place[0].tolist() == [0, 0]
    everything = np.vstack([np.zeros(3), vectors])
    for a in range(5):
        for b in range(5):
            between = np.linalg.norm(everything[a] - everything[b])
            assert np.linalg.norm(place[a] - place[b]) == pytest.approx(between, abs=1e-9)


def test_plane_is_that_of_the_principal_components():
    """They are of the distances from the mean, not from the zero vector in front."""
    vectors = np.random.default_rng(0).normal(3, 1, (6, 4))
    place, kept = plane(vectors @ vectors.T)
    every = np.vstack([np.zeros(4), vectors])
    left, sizes, _ = np.linalg.svd(every - every.mean(axis=0), full_matrices=False)
    expected = left[:, :2] * sizes[:2]
    assert np.abs(place) == pytest.approx(np.abs(expected - expected[0]))
    assert kept == pytest.approx((sizes[:2] ** 2).sum() / (sizes**2).sum())


def test_figure_3_shows_the_lowest_and_the_highest_emd(paper):
    frame = artefacts.frame(paper, "fig3")
    assert list(frame["emd"].unique()) == [0, 1.8]
    for emd in ("0", "1.8"):
        start = cell(frame, f"EMD {emd}: start", 0)
        assert (start["mean"], start["up"]) == (0, 0)
        assert cell(frame, f"EMD {emd}: SGD", 2)["mean"] >= 0
        assert (frame["series"] == f"EMD {emd}: client 9").sum() == 2


def test_figure_6_is_a_partition(paper):
    frame = artefacts.frame(paper, "fig6")
    own, shared = (frame[frame["held"] == held] for held in ("own", "shared"))
    assert own["mean"].tolist() == [4000] * 10
    assert set(own["series"]) == {f"own, class {label}" for label in range(10)}
    assert shared["mean"].tolist() == [200] * 100
    assert set(frame["what"]) == {"G = 10 % of D, alpha = 50 %"}
    assert frame["emd"].iloc[0] == pytest.approx(1.2)


def test_figure_7a_has_emd_and_the_quoted_points(paper):
    frame = artefacts.frame(paper, "fig7a")
    assert len(frame) == 11
    assert cell(frame, "accuracy", 10.0)["emd"] == pytest.approx(0.9)
    assert frame["published"].notna().sum() == 3
    assert cell(frame, "accuracy", 25.0)["published"] == 0.7872


def test_figure_7b(paper):
    frame = artefacts.frame(paper, "fig7b")
    assert frame["series"].value_counts().tolist() == [5, 5]
    assert cell(frame, "G = 20 % of D", 100.0)["published"] == 0.7708
    assert cell(frame, "G = 10 % of D", 50.0)["mean"] == pytest.approx(0.7312 - 0.005, abs=3e-4)


def test_bound_figure(paper):
    frame = artefacts.frame(paper, "bound_rounds")
    assert cell(frame, "EMD 1.44, distance", 2)["mean"] == pytest.approx(0.288, rel=1e-4)
    assert cell(frame, "EMD 1.44, bound", 2)["mean"] == pytest.approx(0.72)
    assert cell(frame, "EMD 1.44, bound", 2)["rounding"] == pytest.approx(1.01e-4)


def test_the_bound_figure_shades_rounding(paper):
    """The made-up norms of the weights are 10, 10.1 and 10.2."""
    (axis,) = drawn(paper, "bound_rounds").axes
    (shade,) = axis.collections
    heights = {x: y for x, y in shade.get_paths()[0].vertices if y > axis.get_ylim()[0]}
    assert heights == pytest.approx({1: 1.00e-4, 2: 1.01e-4, 3: 1.02e-4})
    assert "below 0.001 %" in axis.texts[0].get_text()


@pytest.mark.parametrize("name", ["fig1b", "fig8b"])
def test_seeds_are_named_where_there_are_several(paper, smoke, name):
    """At smoke CIFAR-10 has one run of each training."""
    assert "every seed" in legend(drawn(paper, name))
    assert "every seed" not in legend(drawn(smoke, name))


def test_a_training_has_its_colour_whatever_others_are_drawn(paper):
    """Also in figures of few runs: a colour that moves misleads."""
    series = "FedAvg, non-IID(1), large B"
    frame = artefacts.frame(paper, "fig1a")
    alone = DRAWINGS["fig1a"](frame[frame["series"] == series])
    expected = colour(drawn(paper, "fig1a"), series)
    assert colour(alone, series) == expected
    assert colour(drawn(paper, "fig8a"), "FedAvg, non-IID(1), small B") == expected


def colour(figure: mpl.figure.Figure, series: str) -> str:
    """Return the colour of a line of a figure's legend."""
    line = figure.legends[0].legend_handles[legend(figure).index(series)]
    return line.get_color()


def test_published_values_that_coincide_are_nested(paper):
    frame = artefacts.frame(paper, "fig1a")
    first, second, *_ = frame["series"].unique()
    for apart, sizes in ((0.0, [4, 7]), (0.1, [4, 4])):
        two = frame[frame["series"].isin([first, second])].copy()
        ends = two["reported"].notna()
        two.loc[ends, "reported"] = [0.8, 0.8 + apart]
        whole, _ = DRAWINGS["fig1a"](two).axes
        circles = [line for line in whole.lines if line.get_markerfacecolor() == "none"]
        assert [line.get_markersize() for line in circles] == sizes


@pytest.mark.parametrize("name", ["fig4a", "fig5a", "fig7a", "fig7b"])
def test_intervals_are_named(paper, name):
    assert "95 % Student t" in drawn(paper, name).legends[0].get_title().get_text()


@pytest.mark.parametrize("name", ["fig5a", "fig7a", "fig7b"])
def test_published_points_have_one_entry(paper, name):
    assert [text for text in legend(drawn(paper, name)) if "published" in text] == ["published"]


def test_the_enlarged_panel_of_figure_1_shows_every_seed(paper):
    _, late = drawn(paper, "fig1b").axes
    frame = artefacts.frame(paper, "fig1b")
    rows = frame.loc[frame["x"] >= frame["x"].max() / 2, "values"]
    values = [100 * value for seeds in rows for value in seeds]
    low, high = late.get_ylim()
    assert low < min(values)
    assert max(values) < high


def test_figure_3_says_what_it_shows(paper):
    figure = drawn(paper, "fig3")
    assert figure.legends[0].get_title().get_text() == "MNIST, full batches, 2 synchronisations"
    assert all("at most" in axis.get_title() for axis in figure.axes)


def test_figure_3_draws_its_clients_in_order(paper):
    """In the order of a set the file would be another one in every process."""
    frame = artefacts.frame(paper, "fig3")
    panels = frame.groupby("emd", sort=False)
    for axis, (_, here) in zip(drawn(paper, "fig3").axes, panels, strict=True):
        ends = [line.get_xydata()[-1].tolist() for line in axis.lines]
        clients = here[here["model"].str.startswith("client")].sort_values("model", kind="stable")
        assert ends[: len(clients)] == clients[["mean", "up"]].to_numpy().tolist()


def test_figure_6_names_every_class(paper):
    texts = legend(drawn(paper, "fig6"))
    assert texts == ["own examples", "share of G", *(f"class {label}" for label in range(10))]


def test_figure_5b_has_a_panel_for_each_data_sets_layers(paper):
    first, *others = drawn(paper, "fig5b").axes
    assert [text.get_text() for text in first.get_xticklabels()] == ["MNIST", "CIFAR-10", "KWS"]
    shown = [[text.get_text() for text in axis.get_xticklabels()] for axis in others]
    assert shown == [[name.replace("_", " ") for name in names] for names in LAYERS.values()]


def test_figure_5b_names_the_data_sets_that_are_there(paper):
    some = Some(paper, lambda run: not run.group.startswith("mnist"))
    first, *_ = DRAWINGS["fig5b"](artefacts.frame(some, "fig5b", partial=True)).axes
    assert [text.get_text() for text in first.get_xticklabels()] == ["CIFAR-10", "KWS"]


@pytest.mark.parametrize("name", sorted(DRAWINGS))
def test_figures_can_be_read(smoke, name):
    style.use()
    figure = DRAWINGS[name](artefacts.frame(smoke, name))
    check_readable(figure, named_on_the_axis=name == "fig5b")
