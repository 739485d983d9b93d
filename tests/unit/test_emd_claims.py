"""Claims of the paper `emd`: each holds in a world as the paper claims and fails in another."""

from __future__ import annotations

import numpy as np
import pytest
from emd_records import World
from frames import verdict
from seeds import Edited, Elsewhere, MadeUpRuns, Seeds, write_all

from fedrepro.base.errors import FedreproError
from fedrepro.papers.emd import claims
from fedrepro.papers.emd.claims import RULES
from fedrepro.report import checks, verdicts
from fedrepro.report.expected import load_expected, published
from fedrepro.report.finding import Finding
from fedrepro.runs import records
from fedrepro.runs.runset import RunSet

STATED = {claim.id: claim for claim in load_expected("emd").claims}

MNIST_FALLS = {"mnist_sweep/0": 0.98, "mnist_sweep/1.44": 0.96}
"""1.39 points per unit of EMD are lost up to 1.44; 2.5 points from there are five times as fast."""
MNIST_RISES = {"mnist_sweep/0": 0.90, "mnist_sweep/1.44": 0.95, "mnist_sweep/1.8": 0.96}
STRAIGHT = {"mnist_sweep/0": 0.98, "mnist_sweep/1.44": 0.9512, "mnist_sweep/1.8": 0.944}
FLAT = {f"mnist_sweep/{emd}": 0.95 for emd in (0, 0.36, 0.72, 1.08, 1.44, 1.62, 1.764, 1.8)}
LITTLE_TO_GAIN = {
    "sharing_scratch/0": 0.51,
    "sharing_scratch/0.025": 0.58,
    "sharing_scratch/0.05": 0.60,
}
"""Data sharing of 10 % reaches 74.12 %, and no more of it costs anything."""
AT_175 = (0.7412 + 0.7872) / 2
"""Accuracy with a beta of 17.5 %."""

NO_TEST = (
    *("F7a-0", "T2-mean-mnist@1.8", "T3-one_class_large-mnist", "T1-one_class_large-mnist"),
    *("X-variation-mnist", "X-variation-cifar10", "X-variation-kws"),
    *("W-G10", "W-G20"),
    *("X-reduction-mnist", "ZA22", "ZB1", "ZB3", "ZB5"),
)
"""What is no target: quoted of another experiment, what a reading was chosen by or is made of that,
a bound, where training is stopped, or true by construction."""

AGAINST = {
    "ZB4": World(accuracy={"mnist_iid_own_initial": 0.99}),
    "ZB5": World(emd={"mnist_iid_own_initial": 0.0}),
    "ZA1-mnist": World(accuracy={"mnist_iid_large": 0.975}),
    "ZA1-cifar10": World(accuracy={"cifar10_iid_large": 0.80}),
    "ZA1-kws": World(accuracy={"kws_iid_large": 0.86}),
    "ZA1-mnist-small": World(accuracy={"mnist_iid_small": 0.979}),
    "ZA1-cifar10-small": World(accuracy={"cifar10_iid_small": 0.82}),
    "ZA1-kws-small": World(accuracy={"kws_iid_small": 0.85}),
    "ZA1-mnist-curves": World(accuracy={"mnist_iid_large": 0.96}),
    "ZA1-cifar10-curves": World(accuracy={"cifar10_iid_large": 0.77}),
    "ZA1-kws-curves": World(accuracy={"kws_iid_large": 0.81}),
    "ZA1-mnist-small-curves": World(accuracy={"mnist_iid_small": 0.96}),
    "ZA1-kws-small-curves": World(accuracy={"kws_iid_small": 0.81}),
    "ZA2-mnist": World(accuracy={"mnist_one_class_large": 0.97}),
    "ZA2-cifar10": World(accuracy={"cifar10_two_class_large": 0.81}),
    "ZA2-kws": World(accuracy={"kws_two_class_large": 0.85}),
    "ZA2-mnist-small": World(accuracy={"mnist_one_class_small": 0.98}),
    "ZA2-cifar10-small": World(accuracy={"cifar10_sgd_small": 0.6}),
    "ZA2-kws-small": World(accuracy={"kws_two_class_small": 0.3}),
    "ZA3-mnist": World(accuracy={"mnist_one_class_large": 0.965}),
    "ZA3-cifar10": World(accuracy={"cifar10_one_class_large": 0.6}),
    "ZA3-kws": World(accuracy={"kws_one_class_large": 0.6}),
    "ZA4-mnist": World(accuracy={"mnist_two_class_large": 0.94}),
    "ZA4-cifar10": World(accuracy={"cifar10_two_class_large": 0.6}),
    "ZA4-kws": World(accuracy={"kws_two_class_large": 0.6}),
    "ZA4-mnist-small": World(accuracy={"mnist_two_class_small": 0.92}),
    "ZA4-cifar10-small": World(accuracy={"cifar10_two_class_small": 0.5}),
    "ZA4-kws-small": World(accuracy={"kws_two_class_small": 0.5}),
    "ZA5-mnist": World(accuracy={"mnist_one_class_large_e5": 0.95}),
    "ZA5-cifar10": World(accuracy={"cifar10_one_class_large_e5": 0.46}),
    "ZA5-kws": World(accuracy={"kws_one_class_large_e5": 0.47}),
    "ZA5-mnist-curves": World(accuracy={"mnist_one_class_large_e5": 0.96}),
    "ZA5-cifar10-curves": World(accuracy={"cifar10_one_class_large_e5": 0.4}),
    "ZA5-kws-curves": World(accuracy={"kws_one_class_large_e5": 0.46}),
    "ZA6-mnist": World(accuracy={"mnist_one_class_small": 0.9}),
    "ZA6-cifar10": World(accuracy={"cifar10_iid_small": 0.8}),
    "ZA6-kws": World(accuracy={"kws_sgd_small": 0.84}),
    "ZA7-mnist": World(start=-0.01),
    "ZA7-cifar10": World(start=-0.01),
    "ZA7-kws": World(start=-0.01),
    "ZA7-cifar10-drop": World(start=-0.001),
    "ZA7-mnist-scratch": World(accuracy={"mnist_pretrained_large": 0.92}),
    "ZA7-cifar10-scratch": World(accuracy={"cifar10_pretrained_large": 0.43}),
    "ZA7-kws-scratch": World(accuracy={"kws_one_class_large": 0.64}),
    "ZA8-mnist": World(emd={"mnist_two_class_first_round": 1.81}),
    "ZA8-cifar10": World(emd={"cifar10_iid_large": 1.7}),
    "ZA8-kws": World(emd={"kws_one_class_large": 1.5}),
    "ZA9-mnist": World(rise={"mnist/conv2": -0.0005}),
    "ZA9-cifar10": World(rise={"cifar10/fc4": -0.0005}),
    "ZA9-kws": World(rise={"kws/low_rank": -0.0005}),
    "ZA10-mnist": World(rise={"mnist/fc1": 0.055}),
    "ZA10-cifar10": World(rise={"cifar10/conv2": 0.085}),
    "ZA10-kws": World(rise={"kws/output": 0.001}),
    "ZA11": World(rise={"kws/output": 0.09}),
    "ZA12-mnist": World(accuracy={"mnist_sweep/1.08": 0.975}),
    "ZA12-cifar10": World(accuracy={"cifar10_sweep/0": 0.8}),
    "ZA12-kws": World(accuracy={"kws_sweep/1.8": 0.6}),
    "ZA13-mnist": World(accuracy={"mnist_sweep/1.44": 0.94}),
    "ZA13-cifar10": World(accuracy={"cifar10_sweep/1.44": 0.6}),
    "ZA13-kws": World(accuracy={"kws_sweep/1.44": 0.6}),
    "ZA13-trend-mnist": World(accuracy={"mnist_sweep/1.44": 0.925}),
    "ZA13-trend-cifar10": World(accuracy={"cifar10_sweep/1.44": 0.45}),
    "ZA13-trend-kws": World(accuracy={"kws_sweep/1.8": 0.79}),
    "ZA14-mnist": World(accuracy={"mnist_sweep/1.44": 0.88}),
    "ZA14-cifar10": World(accuracy={"cifar10_sweep/1.44": 0.7}),
    "ZA14-kws": World(accuracy={"kws_sweep/1.44": 0.7}),
    "ZA15-mnist": World(accuracy={"mnist_sweep/1.764": 0.935}),
    "ZA15-cifar10": World(accuracy={"cifar10_sweep/1.764": 0.47}),
    "ZA15-kws": World(accuracy={"kws_sweep/1.764": 0.48}),
    "ZA16-mnist": World(jitter=8),
    "ZA16-cifar10": World(jitter=75),
    "ZA16-kws": World(jitter=40),
    "ZA17-mnist": World(accuracy={"mnist_one_class_large": 0.94}),
    "ZA17-cifar10": World(accuracy={"cifar10_iid_large": 0.79}),
    "ZA18-mnist": World(accuracy={"mnist_two_class_large": 0.98}),
    "ZA18-cifar10": World(accuracy={"cifar10_two_class_large": 0.7}),
    "ZA18-kws": World(accuracy={"kws_two_class_large": 0.76}),
    "ZA19": World(accuracy={"sharing_scratch/0.2": 0.7}),
    "ZA19-trend": World(accuracy={"sharing_scratch/0.25": 0.5}),
    "ZA19-control": World(accuracy={"sharing_scratch/0": 0.38}),
    "ZA20": World(accuracy={"sharing_warm/0.2/0.5": 0.74}),
    "ZA20-trend-10": World(accuracy={"sharing_warm/0.1/1": 0.7}),
    "ZA20-trend-20": World(accuracy={"sharing_warm/0.2/1": 0.7}),
    "ZA20-rise-10": World(accuracy={"sharing_warm/0.1/0.1": 0.7262}),
    "ZA20-rise-20": World(accuracy={"sharing_warm/0.2/0.5": 0.7468}),
    "ZA20-order": World(accuracy={"sharing_warm/0.2/0.25": 0.7}),
    "ZA21": World(accuracy={"sharing_warm/0.1/0.5": 0.44 + 0.24}),
    "ZA21-beta": World(accuracy={"sharing_scratch/0.05": 0.44 + 0.24}),
    "ZA21-trend": World(accuracy={"sharing_warm/0.1/0.5": 0.43}),
    "ZA22": World(astray=0.005),
    "ZA23": World(accuracy={"sharing_warm/0.1/1": 0.75}),
    "ZA24-mnist": World(peak={"mnist/conv2": 0}),
    "ZA24-cifar10": World(accuracy={"cifar10_sweep/0": 0.6}),
    "ZA24-kws": World(rise={"kws/low_rank": -0.2}),
    "ZB1": World(stretch={1.44: 10}),
    "ZB2": World(stretch={1.8: 0.1}),
    "ZB3": World(stretch={0: 0.1}),
    "ZB6": World(stretch={0: 1}),  # EMD 0 is as far away after the first synchronisation
    "ZB6-grows": World(stretch={1.8: 0}),
    "ZB7-mnist": World(contrary=("mnist",)),
    "ZB7-cifar10": World(contrary=("cifar10",)),
    "ZB7-kws": World(emd={"kws_one_class_large": 0.1}),  # from 0.3 of the step size on it falls
}
"""For every claim on our runs a world in which it is false."""

OTHER_WAYS = [
    # without a loss there is no half of it
    ("ZA4-mnist", World(accuracy={"mnist_one_class_large": 0.99, "mnist_two_class_large": 0.995})),
    ("ZA7-cifar10-drop", World(start=0)),  # it ends just where it began
    ("ZA8-mnist", World(rise={"mnist/fc2": -0.0001})),  # in the last layer alone
    ("ZA9-mnist", World(peak={"mnist/fc1": 0.36})),  # a rank correlation of 1/2
    ("ZA9-mnist", World(peak={"mnist/fc1": 1.08})),  # 0.76, in one layer of four
    ("ZA10-mnist", World(peak={"mnist/fc1": 1.8})),
    ("ZA10-mnist", World(peak={"mnist/conv1": 0})),
    ("ZA12-mnist", World(accuracy=FLAT)),
    ("ZA13-mnist", World(accuracy=MNIST_FALLS | {"mnist_sweep/1.8": 0.936})),
    ("ZA13-mnist", World(accuracy=FLAT)),
    ("ZA13-trend-mnist", World(accuracy=MNIST_RISES)),
    ("ZA13-trend-mnist", World(accuracy=STRAIGHT)),  # as fast, not faster
    ("ZA19", World(accuracy=LITTLE_TO_GAIN)),
    ("ZA19", World(accuracy={"sharing_scratch/0.2": AT_175 - 0.015})),
    ("ZA19-control", World(accuracy={"sharing_scratch/0": 0.48})),
    ("ZA20", World(accuracy={"sharing_warm/0.2/0.5": 0.7708 + 0.012})),
    ("ZA20", World(accuracy={"sharing_warm/0.1/0.5": 0.7312 - 0.012})),
    ("ZA20-rise-20", World(accuracy={"sharing_warm/0.2/1": 0.8})),
    ("ZA20-rise-10", World(accuracy={"sharing_warm/0.1/1": 0.72, "sharing_warm/0.1/0.1": 0.73})),
    ("ZA22", World(odd=0.0015 / 1.8)),
    ("ZB7-mnist", World(peak={"mnist/fc1": 1.8 * (0.003 / 0.01)})),  # most at the middle step
    # the divergence rises with the step size without skew, too
    ("ZB7-mnist", World(emd=dict.fromkeys(("mnist_iid_first_round", "mnist_iid_step"), 1.8))),
    ("ZA24-kws", World(accuracy={"kws_sweep/1.8": 0.8})),
    ("ZB1", World(stretch={1.44: 2.5})),  # after the first synchronisation alone
]
"""The other halves and bounds of claims that say several things."""

JUST = [
    ("ZA5-cifar10", World(accuracy={"cifar10_one_class_large_e5": 0.4385 + 0.012})),
    ("ZA7-cifar10", World(start=-0.004)),
    ("ZA7-cifar10-drop", World(start=0.001)),
    ("ZA12-mnist", World(accuracy={"mnist_sweep/0.36": 0.9857 + 0.002})),
    ("ZA12-mnist", World(accuracy=FLAT | {"mnist_sweep/1.8": 0.949})),
    ("ZA13-mnist", World(accuracy=MNIST_FALLS | {"mnist_sweep/1.8": 0.934})),
    ("ZA17-mnist", World(accuracy={"mnist_one_class_large": 0.922 + 0.012})),
    ("ZA19", World(accuracy=LITTLE_TO_GAIN | {"sharing_scratch/0": 0.48})),
    ("ZA19", World(accuracy={"sharing_scratch/0.2": AT_175 - 0.007})),
    ("ZA19-control", World(accuracy={"sharing_scratch/0": 0.465})),
    ("ZA16-mnist", World(jitter=5)),
    ("ZA16-cifar10", World(jitter=60)),
    ("ZA16-kws", World(jitter=30)),
    ("ZA20", World(accuracy={"sharing_warm/0.2/0.5": 0.7708 - 0.009})),
    ("ZA21", World(accuracy={"sharing_warm/0.1/0.5": 0.44 + 0.26})),
    ("ZA21-beta", World(accuracy={"sharing_scratch/0.05": 0.44 + 0.26})),
    ("ZA22", World(odd=0.0008 / 1.8)),
    ("ZA24-mnist", World(peak={"mnist/conv2": 1.62})),  # three EMDs out of place: -0.905
]
"""Worlds in which a claim holds, if by little."""

FALSE_IN_THE_PAPER = {
    "ZP2-mnist",
    "ZP4-mnist",
    "ZP4-cifar10",
    "ZP4-kws",
    "ZP5-kws",
    "ZP6",
}

SMALLER_THAN_THE_ERROR = {"ZA20", "ZA20-rise-10", "ZA20-rise-20", "ZA23"}
"""One seed at the published scale, and differences that another draw of test images could turn."""

AT_LITE_ONLY = {"ZB7-mnist", "ZB7-cifar10", "ZB7-kws"}
"""The published scale has one step size."""

CONSISTENT = {"kws_one_class_large": 0.44, "kws_one_class_large_e5": 0.44}
"""One 1-class accuracy of KWS for both tables; the paper prints two (ZP5-kws)."""


@pytest.fixture(scope="module")
def as_claimed(tmp_path_factory) -> RunSet:
    return write_all(tmp_path_factory.mktemp("claimed"), "lite", World(accuracy=CONSISTENT))


def decide(name: str, runs: RunSet) -> Finding:
    """Decide a claim by its rule and values in the expected values."""
    return RULES[STATED[name].rule](runs, **STATED[name].values)


def test_every_claim_on_our_runs_is_tested_to_fail():
    assert {name for name in STATED if not name.startswith("ZP")} == set(AGAINST)


@pytest.mark.parametrize("name", AGAINST)
def test_claim_holds(as_claimed, name):
    finding = decide(name, as_claimed)
    assert finding.holds, finding.evidence
    assert finding.evidence
    assert set(finding.runs) <= {run.id for run in as_claimed.members(as_claimed.plan.runs)}
    assert finding.runs


def test_whole_curves_are_judged_at_every_scale_that_has_them():
    scales = {claim.id: {*claim.scales} for claim in STATED.values() if "curves" in claim.rule}
    assert len(scales) == 8
    assert all(judged == {"paper", "lite"} for judged in scales.values()), scales


@pytest.mark.parametrize(("name", "world"), [*AGAINST.items(), *OTHER_WAYS])
def test_claim_fails(as_claimed, name, world):
    finding = decide(name, Elsewhere(as_claimed, world))
    assert not finding.holds, finding.evidence


@pytest.mark.parametrize(("name", "world"), JUST)
def test_claim_just_holds(as_claimed, name, world):
    finding = decide(name, Elsewhere(as_claimed, world))
    assert finding.holds, finding.evidence


def test_seeds_that_disagree_on_the_step_size_do_not_decide(as_claimed):
    finding = decide("ZB7-mnist", Seeds(as_claimed, World(), AGAINST["ZB7-mnist"]))
    assert finding.margins
    assert not finding.firm


@pytest.mark.parametrize("name", ["ZB2", "ZB3"])
def test_distances_are_means_over_the_seeds(as_claimed, name):
    for worlds in ([AGAINST[name], World()], [World(), AGAINST[name]]):
        assert not decide(name, Seeds(as_claimed, *worlds)).holds
    assert decide(name, Seeds(as_claimed, World(), World())).holds


def test_a_claim_without_its_runs_is_refused(as_claimed, monkeypatch):
    kept = {
        name: [run for run in group if run.coordinates.get("emd") != 0]
        for name, group in as_claimed._runs.items()
    }
    monkeypatch.setattr(as_claimed, "_runs", kept)
    with pytest.raises(FedreproError, match=r"scales\.lite: bound has no EMD 0, which"):
        decide("ZB3", as_claimed)


def test_an_order_of_runs_without_a_seed_in_common_is_not_ranked(tmp_path):
    runs = RunSet("emd", "lite", tmp_path)
    for run in runs.planned(["mnist_sweep", "mnist_sweep_first_round"]):
        if run.seed == (run.coordinates["emd"] > 1):
            records.write(World().record(run), tmp_path)
    found = verdicts.check_entry(runs, STATED["ZA24-mnist"])
    assert found.verdict == "not run"
    assert found.evidence == "mnist: no seed is recorded at every EMD"


def test_worlds_against_one_claim_leave_others_alone(as_claimed):
    runs = Elsewhere(as_claimed, AGAINST["ZA13-mnist"])
    assert decide("ZA13-trend-mnist", runs).holds
    assert decide("ZA12-mnist", runs).holds is False  # 1.62 is then above 1.44
    assert decide("ZA2-mnist", runs).holds
    assert decide("ZA13-cifar10", runs).holds


def test_evidence_has_our_numbers(as_claimed):
    assert "IID 98.69 %" in decide("ZA1-mnist", as_claimed).evidence
    assert decide("ZA2-mnist", as_claimed).ours == pytest.approx(0.9869 - 0.9629)
    assert decide("ZA4-mnist", as_claimed).ours == pytest.approx(240 / 652)
    assert decide("ZA8-mnist", as_claimed).ours == pytest.approx(1.12, abs=1e-3)
    assert decide("ZA12-mnist", as_claimed).ours == pytest.approx(0.9860 - 0.9857)
    assert decide("ZA17-mnist", as_claimed).ours == pytest.approx(0.9857 - 0.9869)
    rising = Elsewhere(as_claimed, World(accuracy=MNIST_RISES))
    assert decide("ZA13-trend-mnist", rising).ours is None
    late = Elsewhere(as_claimed, World(peak={"mnist/fc1": 1.08}))
    assert decide("ZA9-mnist", late).ours == pytest.approx(1 - 6 * (4**2 + 4) / (8 * 63))
    assert decide("ZA15-mnist", as_claimed).ours == pytest.approx(0.04)
    assert decide("ZA14-cifar10", as_claimed).ours == pytest.approx(0.7379 / 0.8099)
    assert decide("ZA21", as_claimed).ours == pytest.approx(0.7262 - 0.44)
    assert "pre-training 63.72 %" in decide("ZA7-cifar10", as_claimed).evidence
    exact = decide("ZP1", as_claimed)
    assert (exact.ours, "MNIST 0.00 points" in exact.evidence) == (0, True)


def test_the_bound_says_how_loose_it_is(as_claimed):
    finding = decide("ZB1", as_claimed)
    assert finding.ours == pytest.approx(2, rel=1e-3)
    assert "EMD 1.8: 2 to 3.33" in finding.evidence


@pytest.mark.parametrize("name", [name for name in STATED if name.startswith("ZP")])
def test_published_numbers_alone(tmp_path, name):
    finding = decide(name, RunSet("emd", "lite", tmp_path))  # no record is needed
    assert finding.holds == (name not in FALSE_IN_THE_PAPER)
    assert list(finding.runs) == []


def publish(monkeypatch, table, cell, value):
    """Let the paper have another mean in a cell, or standard deviation if it has no mean."""
    changes = "mean" if cell in published("emd", table) else "sd"
    assert cell in published("emd", table, changes)

    def changed(paper, artefact, kind="mean"):
        numbers = published(paper, artefact, kind)
        return numbers | ({cell: value} if (artefact, kind) == (table, changes) else {})

    monkeypatch.setattr(claims, "published", changed)


@pytest.mark.parametrize(
    ("name", "table", "cell", "value"),
    [
        ("ZP1", "table1", ("FedAvg, non-IID(2), small B", "KWS"), 0.1508),
        ("ZP2-mnist", "sweep_text", ("MNIST", "largest reduction"), 0.0637),
        ("ZP2-mnist", "sweep_text", ("MNIST", "largest reduction"), 0.0644),  # from the best, 98.6
        ("ZP2-cifar10", "sweep_text", ("CIFAR-10", "largest reduction"), 0.36),
        ("ZP2-kws", "table2", ("KWS", "1.8"), 0.46),
        ("ZP3-mnist", "sweep_text", ("MNIST", "accuracy / mean, largest sd"), 0.0009),
        ("ZP3-cifar10", "sweep_text", ("CIFAR-10", "accuracy / mean, largest sd"), 0.017),
        ("ZP3-kws", "sweep_text", ("KWS", "accuracy / mean, largest sd"), 0.02),
        ("ZP4-mnist", "table3", ("FedAvg, non-IID(2), large B", "MNIST"), 0.976),
        ("ZP4-cifar10", "table3", ("FedAvg, non-IID(2), large B", "CIFAR-10"), 0.7),
        # 0.78 points off: within three of the larger sd, 0.34, not of the smaller, 0.20
        ("ZP4-cifar10", "table3", ("FedAvg, non-IID(2), large B", "CIFAR-10"), 0.688),
        ("ZP4-kws", "table3", ("FedAvg, non-IID(2), large B", "KWS"), 0.76),
        ("ZP5-mnist", "table2", ("MNIST", "1.8"), 0.95),
        ("ZP5-cifar10", "table3", ("FedAvg, non-IID(1), large B", "CIFAR-10"), 0.42),
        ("ZP5-kws", "table3", ("FedAvg, non-IID(1), large B", "KWS"), 0.445),
        ("ZP6", "fig7a", ("accuracy", "10"), 0.775),
        ("ZP7-mnist", "table2", ("MNIST", "0.36"), 0.9872),
        ("ZP7-cifar10", "table2", ("CIFAR-10", "1.44"), 0.79),
        ("ZP7-kws", "table2", ("KWS", "1.8"), 0.6),
        ("ZP8", "table1", ("FedAvg, non-IID(1), small B", "MNIST"), 0.12),
        ("ZP8", "table1", ("FedAvg, non-IID(1), small B", "MNIST"), 0.10),
    ],
)
def test_other_published_numbers_turn_the_finding(tmp_path, monkeypatch, name, table, cell, value):
    publish(monkeypatch, table, cell, value)
    finding = decide(name, RunSet("emd", "lite", tmp_path))
    assert finding.holds == (name in FALSE_IN_THE_PAPER)


@pytest.mark.parametrize(
    ("name", "table", "cell", "value"),
    [
        ("ZP2-cifar10", "table2", ("CIFAR-10", "0.36"), 0.82),  # 37.03 points from EMD 0 as before
        ("ZP4-mnist", "table3", ("FedAvg, non-IID(2), large B", "MNIST"), 0.99),  # now too high
        ("ZP5-mnist", "table2", ("MNIST", "1.8"), 0.93),
        ("ZP6", "fig7a", ("accuracy", "10"), 0.76),
        ("ZP7-mnist", "table2", ("MNIST", "0.36"), 0.9862),  # 0.05 points, less than the sd of 0.06
        ("ZP7-cifar10", "table2", ("CIFAR-10", "0.36"), 0.8099),  # as at EMD 0, which is no rise
    ],
)
def test_other_published_numbers_leave_the_finding(tmp_path, monkeypatch, name, table, cell, value):
    publish(monkeypatch, table, cell, value)
    finding = decide(name, RunSet("emd", "lite", tmp_path))
    assert finding.holds == (name not in FALSE_IN_THE_PAPER)


def test_a_plan_without_the_level_is_an_error(tmp_path):
    smoke = write_all(tmp_path, "smoke", World())
    with pytest.raises(FedreproError, match=r"mnist_sweep has no EMD 1\.44"):
        decide("ZA14-mnist", smoke)
    with pytest.raises(FedreproError, match=r"sharing_warm has no beta 0\.2, alpha 0\.25"):
        claims.shared(smoke, 20, 25)


@pytest.fixture(scope="module")
def judged_at_lite(as_claimed):
    return {item.id: item for item in verdicts.check("emd", "lite", as_claimed._folder)}


def test_lite_judges_orderings_only(judged_at_lite):
    found = judged_at_lite
    outcomes = {i.id: i.verdict for i in found.values() if i.kind == "number"}
    assert {outcomes.pop(name) for name in NO_TEST if name in outcomes} == {"no target"}
    assert set(outcomes.values()) == {"not decidable"}
    paper_only = {claim.id for claim in STATED.values() if claim.scales == ("paper",)}
    assert {"ZA3-kws", "ZA5-kws", "ZA6-cifar10", "ZA11", "ZA16-kws", "ZA20"} <= paper_only
    assert not {"ZA3-mnist", "ZA17-mnist"} & paper_only
    for item in found.values():
        if item.kind == "claim" and item.id not in NO_TEST:
            wanted = "deviates" if item.id in FALSE_IN_THE_PAPER else "reproduced"
            assert item.verdict == ("not decidable" if item.id in paper_only else wanted), item.id
    assert all(found[name].explanation for name in FALSE_IN_THE_PAPER)


def test_keyword_numbers_are_not_held_against_the_packed_features(judged_at_lite):
    assert judged_at_lite["T3-sgd_large-cifar10"].ours is not None
    assert judged_at_lite["T3-sgd_large-kws"].ours is None


def test_a_spread_needs_two_seeds(tmp_path):
    """At smoke, CIFAR-10 has one distribution an EMD, MNIST two."""
    write_all(tmp_path, "smoke", World())
    found = {item.id: item for item in verdicts.check("emd", "smoke", tmp_path)}
    assert found["T2-sd-mnist@0"].ours is not None
    alone = found["T2-sd-cifar10@0"]
    assert (alone.verdict, alone.ours) == ("not decidable", None)
    assert alone.evidence == "one seed has no spread"
    assert "NaN" not in checks.to_json(found.values())


def test_paper_scale_judges_everything(tmp_path):
    write_all(tmp_path, "paper", World())
    found = verdicts.check("emd", "paper", tmp_path)
    judged = [item for item in found if item.value != "sd" or item.id in NO_TEST]
    other = {item.id: item.verdict for item in judged if item.verdict != "reproduced"}
    assert {other.pop(name) for name in NO_TEST} == {"no target"}
    assert {other.pop(name) for name in SMALLER_THAN_THE_ERROR} == {"inconclusive"}
    assert {other.pop(name) for name in AT_LITE_ONLY} == {"not decidable"}
    assert set(other) == FALSE_IN_THE_PAPER


def test_paper_scale_numbers_can_deviate():
    sweep = {"mnist_sweep/1.62": 0.9653, "mnist_sweep/1.764": 0.93, "cifar10_sweep/1.8": 0.2}
    changed = sweep | {"sharing_warm/0.2/1": 0.6}
    runs = MadeUpRuns("paper", World(accuracy=changed, jitter=8))
    assert verdict(runs, "T2-mean-mnist@1.764") == "deviates"
    assert verdict(runs, "T2-mean-mnist@1.62") == "close"
    assert verdict(runs, "T2-mean-mnist@0") == "reproduced"
    assert verdict(runs, "X-reduction-cifar10") == "deviates"
    assert verdict(runs, "F7b-G20") == "deviates"
    wide = MadeUpRuns("paper", World(jitter=100))
    assert verdict(wide, "T2-sd-mnist@1.8") == "deviates"


def test_without_records_nothing_is_judged(tmp_path):
    found = {item.id: item.verdict for item in verdicts.check("emd", "paper", tmp_path)}
    judged = {name: verdict for name, verdict in found.items() if not name.startswith("ZP")}
    assert {judged.pop(name) for name in NO_TEST} == {"no target"}
    assert {judged.pop(name) for name in AT_LITE_ONLY} == {"not decidable"}
    assert set(judged.values()) == {"not run"}


def test_noise_does_not_set_curves_apart(as_claimed):
    """Single evaluations of equal curves are 2.3 points apart, means of three seeds 1.3."""
    rng = np.random.default_rng(0)

    def noisy(name, values):
        return list(0.9 + rng.normal(0, 0.02, len(values))) if name == "accuracy" else values

    found = [decide("ZA5-mnist-curves", Edited(as_claimed, noisy)).ours for _ in range(30)]
    assert np.median(found) < 0.01


def test_curves_near_chance_decide_nothing(as_claimed):
    low = World(accuracy=dict.fromkeys(("mnist_one_class_large", "mnist_one_class_large_e5"), 0.1))
    assert decide("ZA5-mnist-curves", Elsewhere(as_claimed, low)).undecided
    assert not decide("ZA5-mnist-curves", as_claimed).undecided


def test_the_distance_of_curves_is_without_what_noise_adds(as_claimed):
    """Two seeds are 1 and 4 points apart, in the first of three evaluations half as far."""
    ends = {"mnist_one_class_large": 0.9}
    worlds = [
        World(accuracy=ends | {"mnist_one_class_large_e5": 0.9 + apart}) for apart in (0.01, 0.04)
    ]
    found = decide("ZA5-mnist-curves", Seeds(as_claimed, *worlds))
    assert found.ours == pytest.approx((0.01 * 0.04 * (1 / 4 + 1 + 1) / 3) ** 0.5)
