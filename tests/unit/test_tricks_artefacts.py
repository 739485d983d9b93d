"""Tables and figures of the paper `tricks` on made-up records."""

from __future__ import annotations

import math

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from frames import cell, check_any_subset
from readable import check_readable
from seeds import MadeUpRuns, Some, write_some
from tricks_records import PRODUCTS, World

from fedrepro.base.errors import FedreproError
from fedrepro.papers.tricks.conflicts import EVERYTHING, FIRST, POINTS, SECOND, VOTES, hypotheses
from fedrepro.papers.tricks.drawings import DRAWINGS, coinciding
from fedrepro.papers.tricks.figures import in_plane
from fedrepro.papers.tricks.measurements import (
    GRID,
    HELD_OUT,
    ROWS,
    TEST,
    by_choice,
    cell_name,
    chosen,
    late,
    lately,
    searched,
    welch,
)
from fedrepro.report import artefacts, style
from fedrepro.report.choices import COMMITTED
from fedrepro.report.expected import load_expected
from fedrepro.report.verdicts import check, check_entry
from fedrepro.runs import records
from fedrepro.runs.plan import expand, load_plan
from fedrepro.runs.runset import MissingRunsError, RunSet

mpl.use("Agg")

SINGLE_CELLS = {
    "niid",
    "server_training",
    "projected",
    "projected_noise",
    "momentum_5",
    "momentum_9",
    "sign_agreement",
    "best",
}


@pytest.fixture(scope="module")
def paper() -> RunSet:
    return MadeUpRuns("paper", World())


@pytest.fixture(scope="module")
def smoke() -> RunSet:
    return MadeUpRuns("smoke", World())


def test_rows_name_what_the_plan_has():
    plan = load_plan("tricks")
    assert all(set(ROWS[name]) == set(plan.tables[name].runs) for name in ROWS)


def test_expected_counts():
    numbers = load_expected("tricks").all_numbers()
    by_artefact = [number.artefact for number in numbers]
    assert {name: by_artefact.count(name) for name in by_artefact} == {
        "table1": 6,
        "table2": 4,
        "table3": 2 + 2 * 4,
        "table4": 6,
        "table5": 4,
        "best_combination": 2,
    }
    assert sum(number.value == "sd" for number in numbers) == 14 + 2


def test_tolerances_follow_the_stated_rules():
    numbers = load_expected("tricks").all_numbers()
    sds = {number.cell: number.published for number in numbers if number.value == "sd"}
    for number in numbers:
        rule = 5.2 * sds[number.cell] if number.value == "sd" else 0.01 + 1.63 * sds[number.cell]
        assert number.tolerance == pytest.approx(rule, abs=0.0011), number.id


def test_the_published_plan():
    """Ten configurations of seven seeds, the 36 cells, and two agents of five classes each."""
    runs = expand("tricks", "paper")
    spec = next(run.spec for run in runs if run.group == "niid")
    assert (spec.rounds, spec.batch, spec.local_epochs) == (100, 256, 1)
    assert spec.optimizer.model_dump(exclude_defaults=True) == {
        "name": "sgd",
        "lr": 0.1,
        "weight_decay": 0.0005,
        "clip_norm": 10,
    }
    ten = SINGLE_CELLS | {"centralised", "iid"}
    for name in ten:
        assert [run.seed for run in runs if run.group == name] == [*range(7)], name
    cells = {
        cell_name(
            run.spec.partition.server_share,
            run.spec.algorithm.server_momentum,
            run.spec.algorithm.sign_agreement.threshold,
            run.spec.algorithm.projection is not None,
            run.spec.algorithm.gradient_noise,
        )
        for run in runs
        if run.group in GRID
    }
    assert len(cells) == 36


def test_at_lite_the_grid_is_smaller_than_the_tables():
    by_group: dict[str, set[str]] = {}
    sizes = {}
    for run in expand("tricks", "lite"):
        by_group.setdefault(run.group, set()).add(run.id)
        sizes[run.group] = (run.spec.partition.per_class, run.spec.dataset.downsample)
    searched_runs = set().union(*(by_group.pop(group) for group in GRID))
    calibrated = by_group.pop("calibration")
    assert (len(searched_runs), len(calibrated)) == (36, 8)
    others = len(set().union(*by_group.values()))
    configurations, readings_and_updates, choices, longer = 10 * 7, 5 * 7, 7 * 3, 6
    assert others == configurations + readings_and_updates + choices + longer
    short = {*GRID, "calibration"}
    assert {group for group, size in sizes.items() if size == (300, 1)} == short
    assert {size for group, size in sizes.items() if group not in short} == {(2500, 2)}


@pytest.mark.parametrize("name", ROWS)
def test_tables_of_the_paper(paper, name):
    frame = artefacts.frame(paper, name)
    assert list(frame["row"]) == list(ROWS[name].values())
    assert set(frame["column"]) == {"accuracy"}
    printed = frame[~frame["published"].isna()]
    assert list(printed["mean"]) == pytest.approx(list(printed["published"]))
    assert set(printed["n"]) == {7}


def test_table_2_as_text(paper):
    frame = artefacts.frame(paper, "table2")
    text = artefacts.markdown(paper, "table2", frame)
    assert "83.70 ± 0.10 % (n=7) [83.70 ± 0.1 %]" in text
    assert "server-side data 0 %" in text


def test_what_is_recorded_of_a_table_is_judged(paper, tmp_path):
    """The ten configurations come first; other readings may follow later."""
    gone = {run.id for run in paper.members(["signed_vote", "projected_update"])}
    fewer = write_some(tmp_path, "paper", World(), lambda run: run.id not in gone)
    found = {item.id: item.verdict for item in check("tricks", "paper", tmp_path)}
    assert found["T2-5"] == "reproduced"
    assert found["OA5"] == "reproduced"
    assert found["T5-yes"] == found["T3-3-noise"] == "reproduced"
    assert found["OA5-update"] == "not run"
    assert len(artefacts.frame(fewer, "table5", partial=True)) == 2
    with pytest.raises(MissingRunsError, match="no record of 1 of the runs for table5"):
        artefacts.frame(fewer, "table5")


def test_claims_are_judged_on_the_seeds_that_are_recorded(tmp_path):
    """Runs that several groups share are counted once beside a verdict."""
    kept = {("niid", 0), ("iid", 0), ("iid", 1)}
    write_some(tmp_path, "paper", World(), lambda run: (run.group, run.seed) in kept)
    found = {item.id: item for item in check("tricks", "paper", tmp_path)}
    assert (found["OA2-trend"].verdict, found["OA2-trend"].seeds) == ("reproduced", 1)
    assert found["OA2-trend"].evidence.endswith("; one seed; 3 of 14 runs are recorded")
    assert found["T1-niid"].evidence == found["T2-0"].evidence == "1 of 7 runs are recorded"
    assert found["T1-iid"].evidence == "2 of 7 runs are recorded"
    assert (found["OA3"].verdict, found["OA3"].ours) == ("not run", None)
    assert "of 7 runs of server-side training are recorded; others may be" in found["OA3"].evidence
    assert found["OA4"].verdict == "not run"


def test_trainings_without_a_seed_in_common_are_not_compared(tmp_path):
    runs = RunSet("tricks", "lite", tmp_path)
    for group, seed in (("iid", 0), ("niid", 1)):
        (run,) = (run for run in runs.planned([group]) if run.seed == seed)
        records.write(World().record(run), tmp_path)
    (claim,) = (claim for claim in load_expected("tricks").claims if claim.id == "OA2-trend")
    found = check_entry(runs, claim)
    assert found.verdict == "not run"
    assert found.evidence == "FL - IID and FL - NIID(5) have no seed in common"


def test_one_seed_has_no_spread_to_judge(paper, tmp_path):
    gone = {run.id for run in paper.members(["niid", "server_training"]) if run.seed > 0}
    write_some(tmp_path, "paper", World(), lambda run: run.id not in gone)
    found = {item.id: item for item in check("tricks", "paper", tmp_path)}
    assert (found["OA4"].verdict, found["OA4"].ours) == ("not decidable", None)
    assert found["OA4"].evidence == "one seed has no spread; 2 of 14 runs are recorded"


@pytest.mark.parametrize("alone", ["niid", "server_training"])
def test_either_of_two_groups_may_have_one_seed(paper, alone):
    gone = {run.id for run in paper.members([alone]) if run.seed > 0}
    (claim,) = (claim for claim in load_expected("tricks").claims if claim.id == "OA4")
    found = check_entry(Some(paper, lambda run: run.id not in gone), claim)
    assert found.verdict == "not decidable"
    assert found.evidence.startswith("one seed has no spread; ")


def test_what_is_open_is_compared_after_the_last_round():
    falling = MadeUpRuns("lite", World(step={"niid": -0.1}))
    table = by_choice(falling)
    committed = table[(table["row"] == COMMITTED) & (table["column"] == "FL - NIID(5)")]
    assert committed["accuracy"].mean() == pytest.approx(0.73, abs=0.026)


@pytest.mark.parametrize("share", [0, 0.1, 0.5])
@pytest.mark.parametrize("name", [*load_plan("tricks").tables, *load_plan("tricks").figures])
def test_any_subset_of_the_runs_gives_a_frame(paper, share, name):
    of_pairs = ["choices", "open_choices", "significance"]
    check_any_subset(paper, name, share, of_pairs)


def test_welch_by_hand():
    """Means 3 apart; variances 4 / 3 and 1 / 3 of the means: t = 3 / sqrt(5 / 3).

    Of 2.941 degrees of freedom; with four, as for equal variances, p would be 0.0808.
    """
    t, p = welch(summary(5.0, 2.0, 3), summary(2.0, 1.0, 3))
    assert t == pytest.approx(3 / math.sqrt(5 / 3))
    assert p == pytest.approx(0.1045, abs=1e-4)
    assert welch(summary(5.0, 0.0, 3), summary(2.0, 1.0, 3))[0] == pytest.approx(3 * math.sqrt(3))
    assert welch(summary(5.0, 1.0, 2), summary(2.0, 1.0, 2))[0] == pytest.approx(3)
    for one, other in (((5.0, 0.0, 3), (2.0, 0.0, 3)), ((5.0, 1.0, 1), (2.0, 1.0, 3))):
        assert all(math.isnan(value) for value in welch(summary(*one), summary(*other)))


def summary(mean: float, sd: float, n: int) -> dict[str, float]:
    return {"mean": mean, "sd": sd, "n": n}


def test_significance_of_ours_and_theirs(paper):
    frame = artefacts.frame(paper, "significance")
    row = "server-side training"
    assert cell(frame, row, "gain, published")["mean"] == pytest.approx(0.107)
    assert cell(frame, row, "t, published")["mean"] == pytest.approx(7.12, abs=0.005)
    assert cell(frame, row, "gain, ours")["mean"] == pytest.approx(0.107)
    units = {name: cell(frame, row, f"{name}, ours")["unit"] for name in ("gain", "t", "p")}
    assert units == {"gain": "points", "t": "number", "p": "number"}
    assert cell(frame, row, "t, ours")["mean"] == pytest.approx(7.123 * math.sqrt(7 / 3), abs=0.01)
    assert cell(frame, row, "p, published")["mean"] == pytest.approx(0.019, abs=0.001)
    assert cell(frame, row, "p, ours")["mean"] == pytest.approx(3.5e-5, abs=2e-6)
    assert len(cell(frame, row, "t, ours")["runs"]) == 14
    assert cell(frame, row, "t, published")["runs"] == ()
    assert set(frame["n"]) == {3, 7}
    assert "10.88 (n=7)" in artefacts.markdown(paper, "significance", frame)
    assert len(frame) == 8 * 6


def test_significance_of_the_noise(paper):
    frame = artefacts.frame(paper, "significance")
    row = "noise, beside projection without"
    assert cell(frame, row, "gain, published")["mean"] == pytest.approx(0.021)
    assert cell(frame, row, "t, published")["mean"] == pytest.approx(1.38, abs=0.005)
    assert cell(frame, row, "p, published")["mean"] > 0.05
    used = set(cell(frame, row, "t, ours")["runs"])
    assert used == {run.id for run in paper.members(["projected", "projected_noise"])}


def test_significance_is_of_the_smaller_number_of_repeats(paper):
    both = paper.members(["niid", "momentum_5"])
    kept = [run for run in both if (run.group, run.seed) != ("niid", 6)]
    fewer = Some(paper, lambda run: run in kept)
    frame = artefacts.frame(fewer, "significance", partial=True)
    ours = cell(frame, paper.plan.runs["momentum_5"].title, "t, ours")
    assert (ours["n"], len(ours["runs"])) == (6, 13)


def test_calibration_has_eight_cells(paper):
    frame = artefacts.frame(paper, "calibration")
    assert list(frame["row"].unique()) == [
        "crop and flip, momentum 0",
        "crop and flip, momentum 0.9",
        "no augmentation, momentum 0",
        "no augmentation, momentum 0.9",
    ]
    assert len(frame) == 8
    assert set(frame["n"]) == {1}
    (run_id,) = cell(frame, "no augmentation, momentum 0.9", "at a tenth of it")["runs"]
    (run,) = (run for run in paper.members(["calibration"]) if run.id == run_id)
    assert run.coordinates == {"augment": False, "momentum": 0.9, "vector_lr_factor": 0.1}


def test_names_of_cells():
    assert cell_name() == "none"
    assert cell_name(server_momentum=0.5) == "momentum 0.5"
    everything = cell_name(0.05, 0.9, 2, True, 1e-4)
    assert everything == "server data, momentum 0.9, agreement, projection, noise"


def test_grid_and_selection_on_test_and_on_held_out_images():
    world = World(
        accuracy={"momentum_5": 0.9, "server_training": 0.88},
        spread={"momentum_5": 0, "server_training": 0},
        held_out={"momentum_5": 0.80, "server_training": 0.87},
    )
    runs = MadeUpRuns("lite", world)
    table = searched(runs)
    assert len(table) == 36
    assert chosen(table, TEST) == "momentum 0.5"
    assert chosen(table, HELD_OUT) == "server data"
    frame = artefacts.frame(runs, "grid")
    assert len(frame) == 72
    assert frame["row"].iloc[0] == "momentum 0.5"
    assert cell(frame, "server data", "held-out accuracy")["mean"] == pytest.approx(0.87)
    choice = artefacts.frame(runs, "selection")
    honest = cell(choice, "best on held-out images: server data", "test accuracy")
    assert honest["mean"] == pytest.approx(0.88)
    papers = cell(choice, "best on test images, as in the paper: momentum 0.5", "test accuracy")
    assert papers["mean"] == pytest.approx(0.9)
    assert choice["column"].tolist() == ["test accuracy", "held-out accuracy"] * 4


def test_a_cell_is_chosen_by_its_mean_over_the_seeds():
    table = pd.DataFrame({"cell": list("aaabbb"), TEST: [0.9, 0.9, 0.1, 0.7, 0.7, 0.7]})
    assert chosen(table, TEST) == "b"


def test_diagnostics_are_of_the_second_half(smoke, paper):
    for runs in (smoke, paper):
        frame = artefacts.frame(runs, "diagnostics")
        assert cell(frame, "server-side training", "conflict rate")["mean"] == pytest.approx(0.5)
        assert cell(frame, "FL - IID", "same sign")["mean"] == pytest.approx(0.6)
        assert cell(frame, "FL - NIID(5)", "cancelled")["mean"] == pytest.approx(0.25)
        assert cell(frame, "sign agreement, the vote as printed", "may move")[
            "mean"
        ] == pytest.approx(0.2)
        assert cell(frame, "FL - NIID(5)", "may move")["mean"] == 1
        assert cell(frame, "FL - IID", "norm of the model")["mean"] == pytest.approx(8.5)
        assert cell(frame, "FL - IID", "norm of an update")["mean"] == pytest.approx(2)
        assert cell(frame, "FL - IID", "norm of an update")["unit"] == "weights"
        assert len(frame) == 11 * 6


def test_late_leaves_the_first_half_out():
    values = [9.0, 9.0, 9.0, 1.0, 2.0, 6.0]
    rounds = pd.DataFrame({"round": range(1, 7), "value": values})
    keys = dict.fromkeys(("group", "title", "run", "quantity"), "a")
    rounds = rounds.assign(seed=0, **keys)
    assert late(rounds)["value"].tolist() == [3.0]
    assert lately(rounds)["value"].tolist() == [1.0, 2.0, 6.0]
    assert lately(rounds, percent=25)["value"].tolist() == [2.0, 6.0]
    short = rounds[:2].assign(run="b", value=[5.0, 6.0])
    assert lately(pd.concat([rounds, short]))["value"].tolist() == [1.0, 2.0, 6.0, 6.0]


def test_trees_of_figure_1():
    known = np.array(POINTS)
    at_points = hypotheses(known[:, :2])
    assert at_points[EVERYTHING].tolist() == known[:, 2].tolist()
    apart = hypotheses(np.array([[1.0, 1.0], [1.0, 7.0], [7.0, 1.0], [7.0, 7.0]]))
    assert apart[FIRST].tolist() == [1, 1, -1, -1]  # "predicts (-) if x0 > 4"
    assert apart[SECOND].tolist() == [-1, -1, 1, 1]  # "predicts (+) if x0 > 4"
    assert apart[VOTES].tolist() == [0, 0, 0, 0]


def test_figure_1_covers_the_plane(smoke):
    frame = artefacts.frame(smoke, "fig1")
    assert frame["series"].nunique() == 4
    assert len(frame) == 4 * 64
    assert set(frame[frame["series"] == VOTES]["class"]) == {0}
    first = frame[frame["series"] == FIRST]
    assert (first["class"] > 0).tolist() == (first["x0"] < 4).tolist()


def test_figure_1_is_coloured_by_what_each_tree_says(smoke):
    figure = DRAWINGS["fig1"](artefacts.frame(smoke, "fig1"))
    patches = figure.legends[0].legend_handles
    named = {patch.get_facecolor()[:3]: patch.get_label() for patch in patches}
    said, points = {}, {}
    for axis in figure.axes:
        (image,) = axis.images
        assert (image.origin, *image.get_extent()) == ("lower", 0, 8, 0, 8)
        shades = image.cmap(image.norm(image.get_array()))[..., :3]
        said[axis.get_title()] = {  # x0 and x1 of the four points
            (x0, x1): named[tuple(shades[x1, x0])] for x0 in (2, 6) for x1 in (2, 6)
        }
        points[axis.get_title()] = {text.get_position(): text.get_text() for text in axis.texts}
    left, right = ((2, 2), (2, 6)), ((6, 2), (6, 6))
    plus, minus = "predicts +", "predicts −"
    assert said == {
        EVERYTHING: {(x0, x1): plus if known > 0 else minus for x0, x1, known in POINTS},
        FIRST: dict.fromkeys(left, plus) | dict.fromkeys(right, minus),
        SECOND: dict.fromkeys(left, minus) | dict.fromkeys(right, plus),
        VOTES: dict.fromkeys((*left, *right), "votes cancel"),
    }
    every = {(x0, x1): "+" if known > 0 else "−" for x0, x1, known in POINTS}
    assert points == {
        EVERYTHING: every,
        FIRST: {place: sign for place, sign in every.items() if place[1] > 4},
        SECOND: {place: sign for place, sign in every.items() if place[1] < 4},
        VOTES: every,
    }


def test_two_directions_by_hand():
    """In three dimensions: SGD goes (2, 0, 0), the agents (1, 2, 1) and (1, -2, 1)."""
    vectors = np.array([[1.0, 2.0, 1.0], [1.0, -2.0, 1.0], [2.0, 0.0, 0.0]])
    ends = in_plane(vectors @ vectors.T)
    assert list(ends["series"]) == ["agent 1", "agent 2", "average", "SGD on the union"]
    assert ends[["x", "y", "length"]].to_numpy() == pytest.approx(
        np.array(
            [
                (0.5, 1.0, math.sqrt(6) / 2),
                (0.5, -1.0, math.sqrt(6) / 2),
                (0.5, 0.0, math.sqrt(2) / 2),
                (1.0, 0.0, 1.0),
            ]
        )
    )


def test_agents_that_agree_have_no_second_direction():
    ends = in_plane(np.ones((3, 3)))
    assert ends[["x", "y", "length"]].to_numpy().tolist() == [[1.0, 0.0, 1.0]] * 4


def test_agents_that_undo_each_other_go_nowhere_on_average():
    """Of their average, a rounded record gives a square a little below 0."""
    ends = in_plane(np.array([[1.0, -1.00001, 0.0], [-1.00001, 1.00001, 0.0], [0.0, 0.0, 1.0]]))
    assert ends["length"].tolist() == pytest.approx([1.0, 1.0, 0.0, 1.0], abs=1e-5)


@pytest.mark.parametrize("products", [np.zeros((3, 3)), np.ones((4, 4))])
def test_figure_2_is_of_two_agents(products):
    with pytest.raises(FedreproError, match="two agents"):
        in_plane(products)


def test_figure_2(paper):
    frame = artefacts.frame(paper, "fig2")
    assert len(frame) == 2 * 3 * 4
    assert sorted(frame["round"].unique()) == [1, 50, 100]
    first = frame[(frame["title"] == "FL - NIID(5)") & (frame["series"] == "agent 1")].iloc[0]
    assert first["x"] == pytest.approx(PRODUCTS[0][2])
    assert first["length"] == pytest.approx(2.0)
    # of length 2; 5.18 / sqrt(9.96) along the difference without its part along SGD's
    assert first["in_plane"] == pytest.approx(math.hypot(0.9, 5.18 / math.sqrt(9.96)) / 2)
    assert set(frame[frame["series"] == "SGD on the union"]["in_plane"]) == {1.0}


def test_an_update_of_no_length_shows_nothing_of_it():
    """The agents undo each other, so that their average is zero."""
    opposite = [[1.0, -1.0, 0.3], [-1.0, 1.0, -0.3], [0.3, -0.3, 1.0]]
    runs = MadeUpRuns("paper", World(projected_products=opposite))
    frame = artefacts.frame(runs, "fig2")
    average = frame[
        (frame["title"] == "projected gradient descent") & (frame["series"] == "average")
    ]
    assert set(average["length"]) == set(average["in_plane"]) == {0}


def test_curves_end_at_what_is_reported(paper, smoke):
    frame = artefacts.frame(paper, "curves")
    assert frame["series"].nunique() == 10
    last = cell(frame, "best combination", 100)
    assert last["mean"] == pytest.approx(0.857)
    assert last["reported"] == 0.857
    assert math.isnan(cell(frame, "best combination", 99)["reported"])
    few_rounds = artefacts.frame(smoke, "curves").dropna(subset="reported")
    assert set(few_rounds["x"]) == {2}, "where ours end"


def test_disagreement_over_the_rounds(paper):
    conflicts = artefacts.frame(paper, "conflicts")
    assert cell(conflicts, "server-side training", 100)["mean"] == pytest.approx(0.5)
    agreement = artefacts.frame(paper, "agreement")
    assert cell(agreement, "FL - IID", 1)["mean"] == pytest.approx(0.9)
    assert cell(agreement, "FL - IID", 100)["mean"] == pytest.approx(0.6)
    planned = paper.plan.figures["agreement"].runs
    assert list(agreement["group"].unique()) == planned == list(conflicts["group"].unique())


def test_marks_of_the_grid_search(paper):
    frame = artefacts.frame(paper, "grid_search")
    marks = dict(zip(frame["series"], frame["marked"], strict=True))
    assert len(marks) == 36
    assert marks["none"] == "baseline"
    assert marks["server data, momentum 0.9, agreement"] == (
        "best on test images, best on held-out images, the paper's best"
    )
    assert sum(mark != "" for mark in marks.values()) == 2
    table = searched(paper).groupby("cell")[HELD_OUT].mean()
    assert list(frame["x"]) == pytest.approx(list(table[frame["series"]]))
    tested = searched(paper).groupby("cell")[TEST].mean()
    assert list(frame["mean"]) == pytest.approx(list(tested[frame["series"]]))


def inks(figure) -> dict[str, tuple[str, str]]:
    """Return colour and line style of the entries of a figure's legend."""
    lines = figure.legends[0].legend_handles
    return {line.get_label(): (line.get_color(), line.get_linestyle()) for line in lines}


@pytest.mark.parametrize(
    ("name", "baselines"),
    [("curves", ("centralised", "iid", "niid")), ("agreement", ("iid", "niid"))],
)
def test_a_panel_has_the_rows_of_its_table_and_the_baselines(paper, name, baselines):
    frame = artefacts.frame(paper, name)
    figure = DRAWINGS[name](frame)
    legend = inks(figure)
    series = frame["series"].unique()
    assert len({legend[each] for each in series}) == len(series)
    for axis, table in zip(figure.axes, ROWS, strict=True):
        title = table.replace("table", "table ").replace("_", " ")
        assert axis.get_title().lower().startswith(title)
        here = frame[frame["group"].isin({*baselines, *ROWS[table]})]
        thick = [line for line in axis.lines if line.get_linewidth() > 0.5]
        means = [
            ((line.get_color(), line.get_linestyle()), line.get_ydata().tolist())
            for line in thick
            if line.get_marker() != "o"
        ]
        assert means == [
            (legend[each], (100 * points["mean"]).tolist())
            for each, points in here.groupby("series", sort=False)
        ]
        circles = [line.get_ydata()[0] for line in thick if line.get_marker() == "o"]
        reported = here["reported"].dropna() if "reported" in here else pd.Series()
        assert circles == (100 * reported).tolist()


def test_longer_trainings_have_a_panel_each(paper):
    frame = artefacts.frame(paper, "longer")
    assert list(frame["group"].unique()) == paper.plan.figures["longer"].runs
    figure = DRAWINGS["longer"](frame)
    for axis, (name, points) in zip(figure.axes, frame.groupby("series", sort=False), strict=True):
        line = axis.lines[0]
        assert line.get_ydata().tolist() == (100 * points["mean"]).tolist()
        assert (line.get_color(), line.get_linestyle()) == inks(figure)[name]


def test_configurations_that_coincide_share_a_line(paper):
    """Made-up conflicts differ for server-side training alone; made-up agreements for IID alone."""
    alike = coinciding(artefacts.frame(paper, "conflicts"))
    assert [len(groups) for groups in alike] == [1, 8]
    assert alike[0] == ["server_training"]
    figure = DRAWINGS["conflicts"](artefacts.frame(paper, "conflicts"))
    alone, together, seeds = (text.get_text() for text in figure.legends[0].get_texts())
    assert (alone, seeds) == ("server-side training", "every seed")
    assert together.startswith("8 coincide: FL - IID, FL - NIID(5), ")
    assert figure.axes[0].get_ylim()[0] == 0


def test_one_round_or_run_apart_does_not_coincide():
    frame = pd.DataFrame(
        {
            "group": ["a", "a", "b", "b", "c", "c", "d", "d"],
            "x": [1, 2] * 3 + [1, 3],
            "values": [(1, 1), (1, 1), (1, 1), (1, 1), (1, 1), (1, 0.9), (1, 1), (1, 1)],
        }
    )
    assert coinciding(frame) == [["c"], ["d"], ["a", "b"]]


def test_the_grid_search_has_a_panel_for_each_projection(paper):
    frame = artefacts.frame(paper, "grid_search")
    figure = DRAWINGS["grid_search"](frame)
    without, plain, noisy = figure.axes
    assert plain.get_xlabel() == "accuracy on held-out images (%)"
    assert without.get_ylabel() == "accuracy on test images (%)"
    for axis, title, projected, noise in (
        (without, "no projection", False, 0),
        (plain, "projection", True, 0),
        (noisy, "projection and noise", True, 1e-4),
    ):
        assert axis.get_title() == title
        here = frame[(frame["projected"] == projected) & (frame["gradient_noise"] == noise)]
        assert len(here) == 12
        *markers, equal = axis.lines
        drawn = [tuple(line.get_xydata()[0]) for line in markers]
        assert drawn == [*zip(100 * here["x"], 100 * here["mean"], strict=True)]
        assert (equal.get_slope(), len({*equal.get_xy1()})) == (1, 1)
    assert [text.get_text() for text in figure.axes[0].texts] == ["1", "2"]
    assert figure.legends[0].get_title().get_text() == (
        "1: baseline; 2: best on test images, best on held-out images, the paper's best"
    )


def test_a_marker_of_the_grid_search_says_what_is_on(paper):
    frame = artefacts.frame(paper, "grid_search")
    figure = DRAWINGS["grid_search"](frame)
    (panel, *_) = figure.axes
    legend = {handle.get_label(): handle for handle in figure.legends[0].legend_handles}

    def marker(name):
        (point,) = 100 * frame.loc[frame["series"] == name, ["x", "mean"]].to_numpy()
        (line,) = (line for line in panel.lines if line.get_xydata().tolist() == [point.tolist()])
        return line.get_marker(), line.get_color(), line.get_markerfacecolor()

    orange, blue = style.PALETTE["orange"], style.PALETTE["blue"]
    assert marker("server data, momentum 0.9, agreement") == ("s", orange, orange)
    assert marker("none") == ("o", blue, "none")
    for momentum, name in (("no momentum", "none"), ("momentum 0.5", "momentum 0.5")):
        assert marker(name)[0] == legend[momentum].get_marker()
    assert legend["momentum 0.9"].get_marker() == "s"
    colours = [legend[name].get_facecolor() for name in ("server data", "no server data")]
    assert colours == [mpl.colors.to_rgba(colour) for colour in (orange, blue)]


def test_figure_2_draws_the_average_over_sgd(paper):
    frame = artefacts.frame(paper, "fig2")
    panel = DRAWINGS["fig2"](frame).axes[0]
    first = frame[(frame["title"] == "FL - NIID(5)") & (frame["round"] == 1)].set_index("series")
    ends = [tuple(text.xy) for text in panel.texts]
    assert ends[0] == pytest.approx((1, 0))
    assert ends[-1] == (first.loc["average", "x"], first.loc["average", "y"])
    shown = first.loc[["agent 1", "agent 2"], "in_plane"].min()
    assert panel.get_title() == f"round 1: {100 * shown:.0f} %"


def test_figure_2_has_a_row_a_training_and_a_column_a_round(paper):
    frame = artefacts.frame(paper, "fig2")
    frame.loc[frame["series"] == "agent 2", "in_plane"] = 0.5
    figure = DRAWINGS["fig2"](frame)
    legend = {name: mpl.colors.to_rgba(colour) for name, (colour, _) in inks(figure).items()}
    assert len(set(legend.values())) == 4
    panels = frame.groupby(["title", "round"], sort=False)
    for axis, ((_, number), panel) in zip(figure.axes, panels, strict=True):
        assert axis.get_title() == f"round {number}: 50 %"
        assert axis.get_aspect() == 1
        drawn = [(text.arrow_patch.get_edgecolor(), text.xyann, text.xy) for text in axis.texts]
        assert drawn == [
            (legend[series], (0, 0), (x, y))
            for series in ("SGD on the union", "agent 1", "agent 2", "average")
            for x, y in panel.loc[panel["series"] == series, ["x", "y"]].to_numpy()
        ]
    rows = [axis.get_ylabel().splitlines()[0] for axis in figure.axes[::3]]
    assert rows == list(frame["title"].unique())


@pytest.mark.parametrize("name", sorted(DRAWINGS))
def test_figures_can_be_read(paper, name):
    style.use()
    check_readable(DRAWINGS[name](artefacts.frame(paper, name)))
