"""Tables and figures of the paper `fedcd` on made-up records, and the criterion of convergence."""

from __future__ import annotations

from types import SimpleNamespace

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from fedcd_records import HYPER_FEDAVG, World, public
from frames import cell, check_any_subset, verdict
from pydantic import ValidationError
from readable import check_readable
from seeds import MadeUpRuns

from fedrepro.fl import models
from fedrepro.fl.algorithms.fedcd import Params
from fedrepro.papers.fedcd import measurements as tables
from fedrepro.papers.fedcd.drawings import DRAWINGS
from fedrepro.papers.fedcd.figures import FIGURES, LOG_OF_18, LOG_OF_30
from fedrepro.papers.fedcd.measurements import Log, changes_of, converged, late, model_bytes
from fedrepro.report import artefacts, style
from fedrepro.report.expected import Series, load_expected
from fedrepro.report.verdicts import check_entry
from fedrepro.runs.plan import load_plan
from fedrepro.runs.runset import RunSet

mpl.use("Agg")

PUBLISHED = {number.id: number for number in load_expected("fedcd").all_numbers()}
SERIES = {series.id: series for series in load_expected("fedcd").series}


@pytest.fixture(scope="module")
def paper() -> RunSet:
    return MadeUpRuns("paper", World())


@pytest.fixture(scope="module")
def lite() -> RunSet:
    return MadeUpRuns("lite", World())


def log(**changes):
    accuracy = np.array([[0.1, 0.3, 0.5, 0.9], [0.2, 0.1, 0.5, 0.5]])
    values = {
        "run": SimpleNamespace(),
        "title": "FedCD",
        "experiment": "Hierarchical",
        "method": "FedCD",
        "accuracy": accuracy,
        "change": changes_of(accuracy),
        "archetype": np.array([0, 0, 1, 1]),
        "metas": np.array([0, 1]),
        "majority": np.array([0.5, 0.5]),
        "active": [[[0], [0], [0], [0]], [[0, 1], [1], [0, 3], [0]]],
        "preferred": [[0, 0, 0, 0], [1, 1, 3, 0]],
        "scores": [[[1.0]] * 4, [[0.4, 0.6], [1.0], [0.1, 0.9], [1.0]]],
        "passes": np.array([10.0, 20.0]),
        "trained": np.array([1.0, 2.0]),
        "sent": np.array([1.0, 2.0]),
    }
    return Log(**values | changes)


def test_what_a_log_says_by_hand():
    made = log()
    assert np.isnan(made.change[0])
    assert made.change[1:] == pytest.approx([(0.1 + 0.2 + 0 + 0.4) / 4])
    assert made.by_archetype == pytest.approx(np.array([[0.2, 0.7], [0.15, 0.5]]))
    assert made.active_models == [4, 6]
    assert made.live_models == [1, 3]
    # sample deviation of two scores: their distance over the root of 2
    assert made.spread == pytest.approx([0, (0.2 + 0.8) / np.sqrt(2) / 4])
    assert made.consensus.tolist() == [[0, 0], [1, 0]]  # archetype 1 is divided: the lowest
    divided = log(preferred=[[0, 0, 3, 2], [1, 1, 0, 0]])
    assert divided.agreeing.tolist() == [[True, False], [True, True]]
    assert divided.preferred_by(1) == {0, 2, 3}
    assert made.preferred_by(1) == {0, 3}
    assert made.cut(0, 0).preferred_by(1) == {0}
    late = made.cut(1)
    assert late.active_models == [6]
    assert late.spread == made.spread[1:]
    assert [late.change, late.passes, late.trained, late.sent] == [made.change[1], 20, 2, 2]
    assert tables.passes_until(made, 1) == 10


def cloned_twice():
    """Two devices; milestones 0 and 2. Round 1 opens with models 0 and 1, round 3 with four."""
    algorithm = Params(name="fedcd", milestones=(0, 2))
    return log(
        run=SimpleNamespace(spec=SimpleNamespace(algorithm=algorithm), id="abc", seed=0),
        archetype=np.array([0, 1]),
        metas=np.array([0, 1]),
        active=[[[0], [0]], [[0, 1], [1]], [[0, 1], [1]], [[1, 2], [1, 3]]],
        preferred=[[0, 0], [1, 1], [0, 1], [2, 1]],
    )


def test_who_deleted_what_when_by_hand():
    made = cloned_twice()
    assert made.given[0] == [{0}, {0}]
    assert made.given[1] == [{0, 1}, {0, 1}]
    assert made.given[2] == [{0, 1}, {1}]
    assert made.given[3] == [{0, 1, 2, 3}, {1, 3}]  # clones of 0 and 1; of 1
    assert made.deletions == [(1, 1, 0), (3, 0, 0), (3, 0, 3)]
    assert made.holders(1, 0) == [0, 1, 1, 1]
    assert made.holders(3, 1) == [0, 0, 0, 1]


def test_each_milestone_doubles_the_models_by_hand():
    """A device that deletes nothing, with milestones 0, 1 and 2."""
    algorithm = Params(name="fedcd", milestones=(0, 1, 2))
    made = log(
        run=SimpleNamespace(spec=SimpleNamespace(algorithm=algorithm)),
        archetype=np.array([0]),
        active=[[[*range(models)]] for models in (1, 2, 4, 8)],
    )
    assert made.given == [[set(range(models))] for models in (1, 2, 4, 8)]
    assert made.deletions == []


def test_lives_by_hand(monkeypatch):
    monkeypatch.setattr(tables, "logs", lambda *_: [cloned_twice()])
    frame = tables.lives(None)
    lives = {
        model: dict(zip(part["column"], part["mean"], strict=True))
        for model, part in frame.groupby("row")
    }
    assert lives["model 0"] == {
        "first round": 0,
        "devices at first": 2,
        "deletions": 2,
        "first deletion": 1,
        "deleted by all in round": 3,
        "devices at the end": 0,
        "devices that prefer it at the end": 0,
    }
    assert lives["model 1"]["clone of"] == 0
    assert lives["model 1"]["devices that prefer it at the end"] == 1
    assert "first deletion" not in lives["model 1"]
    assert lives["model 2"]["clone of"] == 0
    assert lives["model 3"] == {
        "clone of": 1,
        "first round": 3,
        "devices at first": 2,
        "deletions": 1,
        "first deletion": 3,
        "devices at the end": 1,
        "devices that prefer it at the end": 0,
    }


def test_lives_end_where_models_are_counted(monkeypatch):
    monkeypatch.setattr(tables, "logs", lambda *_: [cloned_twice()])
    monkeypatch.setattr(tables, "COUNTED_UNTIL", 3)
    frame = tables.lives(None)
    assert cell(frame, "model 0", "deletions")["mean"] == 1
    assert cell(frame, "model 0", "devices at the end")["mean"] == 1
    assert cell(frame, "model 0", "devices that prefer it at the end")["mean"] == 1
    assert "deleted by all in round" not in set(frame["column"])


def test_a_record_is_unpacked(paper):
    made = tables.logs(paper, "Hierarchical", "FedCD")[0]
    record = paper.record(made.run)
    assert made.accuracy.shape == (150, 30)
    assert made.accuracy[3, 7] == record.final["correct"][3][7] / 500
    assert made.archetype.tolist() == [device // 3 for device in range(30)]
    assert made.metas.tolist() == [0] * 5 + [1] * 5
    assert made.active[6][0] == [0, 1]
    assert record.final["active"][6][0] == 0b11
    assert made.scores[6][0] == [0.78, 0.22]


def test_scores_are_not_scaled_to_a_sum_of_one():
    """A device's scores are rounded, and their sum with them."""
    runs = MadeUpRuns("smoke", World())
    (first, *_) = runs.members(runs.labelled(experiment="Hierarchical", method="FedCD"))
    runs.record(first).final["scores"][0][0] = [600, 300]
    assert tables.logs(runs, "Hierarchical", "FedCD")[0].scores[0][0] == [0.6, 0.3]


def test_a_device_has_the_accuracy_of_its_own_test_images():
    record = SimpleNamespace(final={"correct": [[5, 5], [10, 15]], "tested": [10, 20]})
    assert tables.device_accuracies(record).tolist() == [[0.5, 0.25], [1.0, 0.75]]


def test_models_are_those_of_the_first_seed(lite):
    seeds = [made.run.seed for made in tables.logs(lite, "Hierarchical", "FedCD")]
    assert len(seeds) > 1
    assert tables.first_log(lite).run.seed == min(seeds)


def rounds_until_calm(change):
    return converged([np.nan, *change])  # round 0 has no change


def test_the_criterion_by_hand():
    assert rounds_until_calm([0.1] * 10 + [0.01] * 10) == 15  # the five of 11 to 15
    assert rounds_until_calm([0.01] * 10) == 5
    assert rounds_until_calm([0.1] * 10) is None
    assert rounds_until_calm([0.01] * 10 + [0.1]) is None  # restless in the end
    assert rounds_until_calm([0.01] * 10 + [0.1] + [0.01] * 5) == 16
    assert rounds_until_calm([0.0] * 4) is None
    assert rounds_until_calm([0.02] * 5) is None  # below two points, not at


def test_the_public_log_converges_in_round_35():
    series = SERIES["ref.change"]
    assert series.x == list(range(1, 53))
    assert rounds_until_calm(series.published) == 35


def test_the_public_logs_are_whole():
    for name in ("ref.all", "ref.meta0", "ref.meta1"):
        assert SERIES[name].x == list(range(53))
    ends = {name: np.mean(SERIES[name].published[43:]) for name in SERIES if "ref." in name}
    assert ends["ref.all"] == pytest.approx(0.922, abs=5e-4)
    assert ends["ref.meta0"] == pytest.approx(0.899, abs=5e-4)
    assert ends["ref.meta1"] == pytest.approx(0.944, abs=5e-4)
    middle = [np.mean(SERIES[f"ref.{name}"].published[35:45]) for name in ("all", "meta0", "meta1")]
    assert middle == pytest.approx([0.917, 0.892, 0.942], abs=5e-4)
    both = (np.array(SERIES["ref.meta0"].published) + SERIES["ref.meta1"].published) / 2
    assert SERIES["ref.all"].published == pytest.approx(both.tolist(), abs=1.1e-3)
    for name in ("six.active", "six.live", "six.spread"):
        assert SERIES[name].x == list(range(45))
    active = dict(zip(SERIES["six.active"].x, SERIES["six.active"].published, strict=True))
    assert [active[t] for t in (5, 6, 15, 16, 25, 26, 44)] == [18, 36, 36, 54, 36, 44, 36]
    assert max(SERIES["six.live"].published) == 6


def test_late_rounds():
    assert late(150) == slice(35, 45)
    assert late(45) == slice(35, 45)
    assert late(40) == slice(30, 40)
    assert late(5) == slice(0, 5)


def test_table1(paper):
    frame = artefacts.frame(paper, "table1")
    row = cell(frame, "Hierarchical", "rounds, FedCD")
    # calm from round 35 on: the mean of five rounds is below 2 points two rounds later, in the 38th
    assert row["mean"] == 38
    assert row["published"] == 45
    assert cell(frame, "Hierarchical", "rounds, FedAvg")["mean"] == 300
    assert cell(frame, "Hierarchical", "FedCD converged")["mean"] == 1
    assert cell(frame, "Hierarchical", "FedAvg converged")["mean"] == 0
    passes = cell(frame, "Hierarchical", "million sample passes, FedAvg")
    assert passes["mean"] == pytest.approx(300 * 15 * 3 * 5000 / 1e6)
    assert cell(frame, "Hierarchical", "minutes, FedAvg")["mean"] == pytest.approx(1 / 60)
    # 6 rounds of one model, 32 of 5.5
    ratio = cell(frame, "Hierarchical", "FedAvg : FedCD, sample passes")
    assert ratio["mean"] == pytest.approx(300 / (6 + 32 * 5.5))
    assert len(ratio["runs"]) == 2
    assert cell(frame, "Hypergeometric", "FedAvg : FedCD, sample passes")["published"] == 3.488
    # both records say 1 s: of FedCD's 150 rounds a share, of FedAvg's 300 all
    seconds = cell(frame, "Hierarchical", "FedAvg : FedCD, seconds")
    assert seconds["mean"] == pytest.approx((6 + 144 * 5.5) / (6 + 32 * 5.5))


def test_table1_does_not_look_at_rounds_that_one_method_lacks():
    """FedAvg is calm from round 20 on but for round 250; FedCD has 150 rounds."""
    for blip in (250, 1000):
        runs = MadeUpRuns("paper", World(fedavg_calm_from=20, fedavg_blip=blip))
        frame = artefacts.frame(runs, "table1")
        assert cell(frame, "Hierarchical", "FedAvg converged")["mean"] == 1
        # the change of round 20 is 10 points, and the mean of 20 to 24 not yet below 2
        assert cell(frame, "Hierarchical", "rounds, FedAvg")["mean"] == 26
    runs = MadeUpRuns("paper", World(fedavg_calm_from=20, fedavg_blip=149))
    frame = artefacts.frame(runs, "table1")
    assert cell(frame, "Hierarchical", "FedAvg converged")["mean"] == 0
    assert cell(frame, "Hierarchical", "rounds, FedAvg")["mean"] == 300


def test_table1_compares_runs_of_the_same_seed(monkeypatch):
    """FedAvg passes 10 images over in two rounds with seed 0, 40 with seed 1; FedCD always 20."""
    passes = {"FedCD": {2: 20, 0: 20, 1: 20}, "FedAvg": {1: 40, 0: 10}}

    def logs(runs, experiment, method):
        return [
            log(
                run=SimpleNamespace(id=f"{method} {seed}", seed=seed),
                method=method,
                passes=np.array([number / 2, number / 2]),
            )
            for seed, number in passes[method].items()
        ]

    monkeypatch.setattr(tables, "logs", logs)
    record = SimpleNamespace(provenance=SimpleNamespace(seconds=1.0))
    frame = tables.table1(SimpleNamespace(record=lambda run: record))
    ratio = cell(frame, "Hierarchical", "FedAvg : FedCD, sample passes")
    assert ratio["values"] == (0.5, 2)
    assert ratio["runs"] == ("FedCD 0", "FedAvg 0", "FedCD 1", "FedAvg 1")


def test_accuracy(paper):
    frame = artefacts.frame(paper, "accuracy")
    assert cell(frame, "hierarchical, archetype 3", "FedCD")["mean"] == pytest.approx(
        0.89, abs=5e-3
    )
    assert cell(frame, "hierarchical, archetype 3", "FedAvg")["mean"] == pytest.approx(
        0.6, abs=5e-3
    )
    label = cell(frame, "hypergeometric, archetype 5", "majority label")
    majority = label["mean"]
    assert majority == pytest.approx(0.832, abs=1e-3)
    above = cell(frame, "hypergeometric, archetype 5", "FedCD, above the majority label")
    ours = cell(frame, "hypergeometric, archetype 5", "FedCD")
    assert above["mean"] == pytest.approx(ours["mean"] - majority)
    assert label["runs"] == above["runs"] == ours["runs"]
    assert (above["unit"], ours["unit"]) == ("points", "fraction")
    every = cell(frame, "hypergeometric, all devices", "FedAvg")["mean"]
    assert every == pytest.approx(np.mean(HYPER_FEDAVG), abs=5e-3)
    assert cell(frame, "hierarchical, all devices", "FedCD")["mean"] == pytest.approx(
        0.915, abs=5e-3
    )


@pytest.mark.parametrize(("climb_at", "share"), [(45, 0), (43, 0.2)])
def test_accuracy_at_the_end_is_the_mean_of_rounds_35_to_44(climb_at, share):
    """From a round on the made-up runs are better by 6 points."""
    later = MadeUpRuns("paper", World(climb=0.06, climb_at=climb_at))
    frame = artefacts.frame(later, "accuracy")
    ours = cell(frame, "hierarchical, archetype 3", "FedCD")["mean"]
    assert ours == pytest.approx(0.89 - 0.004 - 0.06 * (1 - share), abs=1e-3)


def test_models(paper):
    frame = artefacts.frame(paper, "models")
    assert cell(frame, "FedCD", "models created")["mean"] == 16
    assert cell(frame, "FedCD", "models left")["mean"] == 6
    assert cell(frame, "FedCD", "deleted by all devices")["mean"] == 10
    assert cell(frame, "FedCD", "deleted by all devices")["published"] == 10
    assert cell(frame, "FedCD", "models preferred at the end")["mean"] == 6
    assert cell(frame, "FedCD", "active models of a device, at most")["mean"] == 2
    assert cell(frame, "FedCD", "devices with more than two")["mean"] == 0
    assert cell(frame, "FedCD at a fixed bias: b = 0.2", "models created")["mean"] == 16
    crowded = artefacts.frame(MadeUpRuns("paper", World(hoard=3)), "models")
    assert cell(crowded, "FedCD", "active models of a device, at most")["mean"] == 3
    assert cell(crowded, "FedCD", "devices with more than two")["mean"] == 1


def test_models_are_counted_where_the_paper_does_and_not_in_the_last_round(paper, monkeypatch):
    monkeypatch.setattr(tables, "COUNTED_UNTIL", 20)
    frame = tables.models(paper)
    assert frame[frame["row"] == "FedCD"].set_index("column")["mean"].to_dict() == {
        "models created": 4,
        "deleted by all devices": 0,
        "models left": 4,
        "models preferred at the end": 4,
        "active models of a device, at most": 2,
        "devices with more than two": 0,
    }


@pytest.mark.parametrize(("counted", "created"), [(31, 8), (32, 16)])
def test_models_count_from_the_round_after_a_milestone(paper, monkeypatch, counted, created):
    """The last milestone is round 30, from 0."""
    monkeypatch.setattr(tables, "COUNTED_UNTIL", counted)
    frame = tables.models(paper)
    assert cell(frame, "FedCD", "models created")["mean"] == created


def test_choices_are_compared_in_the_rounds_that_the_paper_shows_last():
    """From the ninth round a choice swings between 80 and 74 %.

    What it is compared with has more rounds: from round 45 on it is better by 6 points.
    """
    restless = {"calm_from": {"choice_pixels_fedcd": None}, "rough": 0.03}
    later = {"climb": 0.06, "climb_at": 45}
    world = World(group_level={"choice_pixels_fedcd": 0.8}, **restless, **later)
    frame = artefacts.frame(MadeUpRuns("lite", world), "choices")
    committed = (0.89 + 0.94) / 2 - 0.004
    moved = cell(frame, "pixels in [0, 1]", "FedCD")["mean"]
    assert moved == pytest.approx(0.77 - committed, abs=1e-3)  # of few test images


def test_bytes_of_the_published_network():
    full = model_bytes("cifar10", "fedcd_cnn", 1.0, None)
    # 1,212,778 parameters and 2 x 1,024 running statistics
    assert full.up == full.down == 4 * (1_212_778 + 2048)
    eight = model_bytes("cifar10", "fedcd_cnn", 1.0, 8)
    assert eight.down == full.down
    # a byte for each weight of ten layers and the bias, float32 for the rest and ten scales
    assert eight.up == (1_208_160 + 2570) + 4 * (2048 + 2048 + 10)
    assert model_bytes("cifar10", "fedcd_cnn", 1.0, 4).up < eight.up
    net = models.build("fedcd_cnn", (3, 32, 32), 10)
    assert sum(p.numel() for p in net.parameters()) == 1_212_778


def test_communication(paper):
    frame = artefacts.frame(paper, "communication")
    models_up = (6 + 39 * 5.5) * 15 / 45
    up, down = (cell(frame, "FedCD", f"models {way} a round") for way in ("up", "down"))
    assert [up["mean"], down["mean"]] == pytest.approx([models_up, 2 * models_up])
    assert {up["unit"], down["unit"]} == {"count"}, "models are no ratio"
    sent = cell(frame, "FedCD", "MB down a round")
    assert sent["mean"] == pytest.approx(2 * models_up * 4 * (1_212_778 + 2048) / 1e6)
    assert sent["unit"] == "MB"
    four = cell(frame, "FedCD, other numbers of bits: 4 bits", "MB up a round")["mean"]
    full = cell(frame, "FedCD, not quantised", "MB up a round")["mean"]
    assert four < full / 7
    assert cell(frame, "FedAvg", "sample passes, thousands a round")["mean"] == pytest.approx(225)


def test_curves_of_archetypes(paper):
    frame = artefacts.frame(paper, "fig1b")
    assert frame["x"].max() == 49
    assert len(frame) == 2 * 10 * 50
    point = cell(frame, "FedAvg, archetype 7", 10)
    assert point["meta"] == 1
    assert point["mean"] == pytest.approx(0.7)
    assert artefacts.frame(paper, "fig1a")["x"].max() == 44
    assert set(artefacts.frame(paper, "fig4a")["meta"]) == {0}
    figure = DRAWINGS["fig1b"](frame)
    assert [axis.get_title() for axis in figure.axes] == [
        "FedAvg, rounds 0 to 49",
        "FedCD, rounds 0 to 49",
    ]
    assert [len(axis.lines) for axis in figure.axes] == [20, 20]
    raw, smooth = figure.axes[0].lines[:2]
    assert raw.get_linewidth() < 0.5 < smooth.get_linewidth()
    shown = 100 * frame[frame["series"] == "FedAvg, archetype 0"]["mean"].to_numpy()
    assert raw.get_ydata() == pytest.approx(shown)
    assert smooth.get_ydata()[-1] == pytest.approx(shown[-5:].mean())
    legend = figure.legends[0]
    assert legend.get_title().get_text().startswith("thick: mean of a round and up to 4 before it")
    assert legend.get_texts()[-1].get_text() == "thin: every round"


def test_changes(paper):
    frame = artefacts.frame(paper, "fig2")
    spans = frame.groupby("series")["x"].agg(["min", "max"])
    assert spans.to_numpy().tolist() == [[1, 149], [1, 149], [1, 52]]
    assert cell(frame, LOG_OF_30, 3)["mean"] == public("ref.change", 3) == 0.3709
    assert set(artefacts.frame(paper, "fig5")["series"]) == {"FedCD", "FedAvg"}
    assert cell(frame, "FedAvg", 60)["mean"] == pytest.approx(0.2)
    assert artefacts.frame(paper, "fig5")["x"].max() == 79
    labels = [text.get_text() for text in DRAWINGS["fig2"](frame).legends[0].get_texts()]
    assert labels[:2] == ["FedCD, rounds 1 to 149", "FedAvg, rounds 1 to 149"]


def test_label_shares(paper):
    frame = artefacts.frame(paper, "fig3")
    assert cell(frame, "archetype 0", 0)["mean"] == pytest.approx(0.6151, abs=5e-5)
    assert cell(frame, "archetype 5", 10)["mean"] == pytest.approx(0.6151, abs=5e-5)
    assert cell(frame, "archetype 4, images drawn", 9)["mean"] == pytest.approx(0.2195, abs=1e-3)
    assert frame[frame["series"] == "archetype 2"]["mean"].sum() == pytest.approx(1)
    assert frame[frame["series"] == "archetype 5, images drawn"]["x"].max() == 9


def test_bits(paper):
    frame = artefacts.frame(paper, "fig6")
    assert set(frame["series"]) == {
        *(f"FedCD, {bits} bits" for bits in (4, 8, 16, 32)),
        "FedAvg, 8 bits",
        "FedAvg, 32 bits",
    }
    assert frame["x"].max() == 44
    (fedavg,) = tables.logs(paper, "Hierarchical", "FedAvg")
    assert cell(frame, "FedAvg, 32 bits", 10)["mean"] == pytest.approx(fedavg.accuracy[10].mean())


def test_preferences(paper):
    consensus, every = (artefacts.frame(paper, name) for name in ("fig7", "preference"))
    assert cell(consensus, "archetype 0", 10)["mean"] == 0
    assert cell(consensus, "archetype 9", 10)["mean"] == 1
    assert len(consensus) == 10 * 45
    assert len(every) == 30 * 150


def test_biases(paper):
    active, spread = artefacts.frame(paper, "fig8"), artefacts.frame(paper, "fig9")
    names = ["b = 0.2", "b = 0.4", "b = 0.5", "b = 0.6 to 0.7", "b = 0.8"]
    assert list(active["series"].unique()) == names
    assert list(spread["series"].unique()) == [*names, LOG_OF_18]
    assert (set(active["unit"]), set(spread["unit"])) == ({"count"}, {"points"})
    assert cell(spread, LOG_OF_18, 6)["mean"] == 0.3829
    assert cell(active, "b = 0.2", 0)["mean"] == 30
    assert cell(active, "b = 0.2", 10)["mean"] == 60
    # in round 44: six of thirty devices have one model, the others two scores 0.04 apart
    assert cell(active, "b = 0.4", 44)["mean"] == 54
    assert cell(spread, "b = 0.4", 44)["mean"] == pytest.approx(0.8 * 0.04 / np.sqrt(2))


def test_ours_and_the_public_log_side_by_side(paper):
    frame = artefacts.frame(paper, "notebook")
    assert cell(frame, "all devices", 40)["published"] == public("ref.all", 40)
    assert cell(frame, "all devices, public log", 40)["mean"] == 0.917
    assert frame["series"].nunique() == 2 * 4
    for meta in (0, 1):
        ours = cell(frame, f"meta-archetype {meta}", 40)["mean"]
        assert ours == pytest.approx(public(f"ref.meta{meta}", 40), abs=2e-3)
    assert cell(frame, "mean change", 1)["published"] == 0.2331
    units = [cell(frame, series, 1)["unit"] for series in ("all devices", "mean change")]
    assert units == ["fraction", "points"]
    assert cell(frame, "meta-archetype 1, public log", 0)["mean"] == 0
    figure = DRAWINGS["notebook"](frame)
    assert [len(line.get_xdata()) for line in figure.axes[0].lines] == [53] * 6
    assert [len(line.get_xdata()) for line in figure.axes[1].lines] == [52] * 2
    frame = artefacts.frame(paper, "six")
    assert cell(frame, "active models", 16)["published"] == 54
    assert cell(frame, "models left, public log", 44)["mean"] == 5
    # all devices get their second model in round 6, and two scores 0.56 apart
    before, after = (cell(frame, "standard deviation of the scores", t) for t in (5, 6))
    assert (before["mean"], after["mean"]) == (0, pytest.approx(0.56 / np.sqrt(2)))
    active = cell(frame, "active models", 6)
    assert (active["mean"], cell(frame, "models left", 6)["mean"]) == (2 * 18, 2)
    assert [active["unit"], after["unit"]] == ["count", "points"]


def test_every_archetype_beside_the_public_log(paper):
    frame = artefacts.frame(paper, "archetypes")
    assert frame["series"].nunique() == 20
    assert cell(frame, "archetype 4, public log", 8)["mean"] == 0.246
    last = cell(frame, "archetype 9", 52)
    assert (last["published"], last["mean"]) == (0.963, pytest.approx(0.963, abs=2e-3))
    assert [last["archetype"], cell(frame, "archetype 4, public log", 8)["archetype"]] == [9, 4]
    figure = DRAWINGS["archetypes"](frame)
    assert [len(axis.lines) for axis in figure.axes] == [2] * 10


def test_archetypes_of_the_log_are_its_means():
    logged = np.array([SERIES[f"ref.arch{a}"].published for a in range(10)])
    for name, members in (("all", logged), ("meta0", logged[:5]), ("meta1", logged[5:])):
        assert SERIES[f"ref.{name}"].published == pytest.approx(members.mean(axis=0), abs=1.1e-3)


def test_18_and_9_devices_beside_the_course_report(paper):
    frame = artefacts.frame(paper, "course")
    assert cell(frame, "active models, 18 devices", 16)["published"] == 55
    assert cell(frame, "active models, 18 devices", 6)["mean"] == 2 * 18
    units = [
        cell(frame, name, 1)["unit"] for name in ("active models, 18 devices", "FedCD, 18 devices")
    ]
    assert units == ["count", "fraction"]
    assert cell(frame, "active models, 18 devices, public log", 26)["mean"] == 47
    assert cell(frame, "FedCD, 18 devices", 44)["published"] == 0.92
    assert cell(frame, "FedAvg, 9 devices", 30)["mean"] == pytest.approx(0.934)
    assert "FedCD, 9 devices" not in set(frame["series"])
    assert cell(frame, "FedAvg, 18 devices", 10)["mean"] == pytest.approx(0.65)
    figure = DRAWINGS["course"](frame)
    assert [len(axis.lines) for axis in figure.axes] == [2, 3, 2]
    assert not any(axis.texts for axis in figure.axes)
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert "FedAvg, ours" in labels


def test_runs_that_a_scale_leaves_out_are_not_drawn(lite):
    assert lite.members(["six_fedavg_as_run", "nine_as_run"]) == []
    frame = artefacts.frame(lite, "course")
    assert "FedCD, 18 devices" in set(frame["series"])
    assert "FedAvg, 9 devices" not in set(frame["series"])
    figure = DRAWINGS["course"](frame)
    notes = [[text.get_text() for text in axis.texts] for axis in figure.axes]
    of = "no run of {} at this scale".format
    assert notes == [[], [of("FedAvg")], [of("FedAvg")]]
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels[:2] == ["FedCD, active models, ours", "FedCD, ours"]
    assert "FedAvg, ours" not in labels


def test_models_over_the_rounds(paper):
    held = artefacts.frame(paper, "holders")
    assert cell(held, "model 0, meta-archetype 0", 5)["mean"] == 15
    assert cell(held, "model 1, meta-archetype 1", 5)["mean"] == 0
    assert cell(held, "model 1, meta-archetype 1", 10)["mean"] == 15
    assert set(held["devices"]) == {15}
    every = artefacts.frame(paper, "active")
    assert len(every) == sum(tables.logs(paper, "Hierarchical", "FedCD")[0].active_models[:45])
    assert cell(every, "device 3, model 1", 6)["mean"] == 1


def test_a_model_has_a_panel_of_its_devices(monkeypatch):
    monkeypatch.setattr("fedrepro.papers.fedcd.figures.first_log", lambda _: cloned_twice())
    figure = DRAWINGS["active"](FIGURES["active"].data(None))
    shown = {axis.get_title(): axis.images[0].get_array() for axis in figure.axes}
    assert shown["model 0"].tolist() == [[1, 1, 1, 0], [1, 0, 0, 0]]
    assert shown["model 1"].tolist() == [[0, 1, 1, 1], [0, 1, 1, 1]]
    assert shown["model 3"].tolist() == [[0, 0, 0, 0], [0, 0, 0, 1]]


def test_panels_without_a_model_are_hidden(paper):
    frame = artefacts.frame(paper, "active")
    figure = DRAWINGS["active"](frame[frame["model"] < 2])
    assert [axis.get_visible() for axis in figure.axes] == [True, True, False, False]
    assert figure.axes[0].get_xlabel() == "communication round"


def test_preferred_models_are_numbered_where_there_is_room(monkeypatch):
    monkeypatch.setattr("fedrepro.papers.fedcd.figures.first_log", lambda _: cloned_twice())
    frame = FIGURES["preference"].data(None)
    axis, bar = DRAWINGS["preference"](frame).axes
    numbers = [(text.get_position(), text.get_text()) for text in axis.texts]
    of_0 = [((0, 0), "0"), ((1, 0), "1"), ((2, 0), "0"), ((3, 0), "2")]
    assert numbers == [*of_0, ((0, 1), "0"), ((2, 1), "1")]
    assert [text.get_text() for text in bar.get_xticklabels()] == ["0", "1", "2"]
    long = pd.concat([frame.assign(x=frame["x"] + 4 * k) for k in range(60)])
    axis = DRAWINGS["preference"](long).axes[0]
    assert {text.get_position()[1] for text in axis.texts} == {1}


@pytest.mark.parametrize(
    ("scale", "name"),
    [(scale, n) for scale in ("paper", "lite") for n in load_plan("fedcd").made("figures", scale)],
)
def test_figures_can_be_read(request, scale, name):
    style.use()
    runs = request.getfixturevalue(scale)
    if name == "preference":  # of devices that take turns it is thousands of stretches
        runs = MadeUpRuns(scale, World(settled=True))
    check_readable(DRAWINGS[name](artefacts.frame(runs, name)))


@pytest.fixture(scope="module")
def smoke() -> RunSet:
    return MadeUpRuns("smoke", World())


@pytest.mark.parametrize("share", [0, 0.1, 0.5])
@pytest.mark.parametrize("name", [*load_plan("fedcd").tables, *load_plan("fedcd").figures])
def test_any_subset_of_the_runs_gives_a_frame(smoke, share, name):
    check_any_subset(smoke, name, share, of_pairs=["table1"])


def test_traffic(paper):
    frame = artefacts.frame(paper, "traffic")
    assert set(frame["unit"]) == {"MB"}
    full = 4 * (1_212_778 + 2048) / 1e6
    assert cell(frame, "FedAvg, down", 20)["mean"] == pytest.approx(2 * 15 * full)
    assert cell(frame, "FedCD, down", 20)["mean"] == pytest.approx(2 * 15 * 5.5 * full)
    eight = tables.model_bytes("cifar10", "fedcd_cnn", 1.0, 8).up / 1e6
    assert cell(frame, "FedCD, up", 0)["mean"] == pytest.approx(15 * eight)
    table = artefacts.frame(paper, "communication")
    ours = frame[frame["series"] == "FedCD, up"]["mean"].mean()
    assert cell(table, "FedCD", "MB up a round")["mean"] == pytest.approx(ours)


def test_our_runs_are_judged_by_the_public_log():
    runs = MadeUpRuns("paper", World(six_extra=5))
    assert verdict(runs, "ref.all@35") == "reproduced"
    assert verdict(runs, "six.active@10") == "reproduced"
    assert check_entry(runs, PUBLISHED["six.active@44"]).ours == 41


def test_points_that_are_only_drawn_must_be_points_of_the_curve():
    assert PUBLISHED["ref.all@20"].drawn_only
    assert not PUBLISHED["ref.all@35"].drawn_only
    series = SERIES["nine.accuracy"].model_dump()
    with pytest.raises(ValidationError, match=r"drawn_only: no published points at x = \[46"):
        Series(**series | {"drawn_only": [46]})
