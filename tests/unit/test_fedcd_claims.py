"""Claims of the paper `fedcd`: each holds in a world as the paper claims and fails in another."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from fedcd_records import World
from frames import verdict
from seeds import MadeUpRuns, Seeds, write_all

from fedrepro.papers.fedcd import claims
from fedrepro.papers.fedcd.claims import RULES
from fedrepro.report import verdicts
from fedrepro.report.expected import load_expected, published
from fedrepro.report.finding import Finding
from fedrepro.runs.runset import RunSet

AGAINST = {
    "A1": World(level={("hier_fedcd", 3): 0.55}),
    "A1-hyper": World(group_level={"hyper_fedcd": 0.3}),
    "A1-hyper-end": World(group_level={"hyper_fedcd": 0.3}),
    "A2": World(calm_from={"hier_fedcd": 50}),
    "A3": World(rough=0.06),
    "A4": World(together=False),
    "A5": World(fedavg_swing=0.01),
    "A5-trend": World(fedavg_swing=0.001),
    "A6": World(fedavg_swing=0.005),
    "A6-hyper": World(fedavg_swing=0.005),
    "A7": World(group_level={"hier_fedcd": 0.9}),
    "A8": World(shared_from=12),
    "A8-late": World(shared_from=40, strays=1),
    "A9": World(climb=0.06),
    "A9-25": World(climb=0.06, climb_at=28),
    "A10": World(shared_from=44),
    "A10-which": World(named=None),
    "A11": World(hoard=11),
    "A12": World(hoard=3),
    "A12-single": World(),
    "A13": World(quiet=True),
    "A14": World(singles={0.8: 3}),
    "A14-groups": World(united={0.8: 2}),
    "A14-pairs": World(singles={0.2: 1}),
    "A15": World(gap=0.2),
    "A16": World(group_level={"fedcd_float32": 0.97}),
    "A16-fedavg": World(group_level={"fedavg_float32": 0.65}),
    "A16-rounds": World(calm_from={"fedcd_float32": 50}),
    "A17": World(calm_from={"hyper_fedcd": None}),
    "A18": World(level={("hyper_fedcd", 0): 0.39}),
    "A18-baseline": World(level={("hyper_fedcd", 2): 0.45}),
    "A18-gain": World(level={("hyper_fedavg", 3): 0.0, ("hyper_fedcd", 3): 0.6}),
    "A19": World(centre_swing=0.2),
    "A19-changes": World(fedavg_swing=0.001),
    "A19-changes-end": World(fedavg_swing=0.001, centre_swing=0.001),
    "A20": World(cost={"hyper_fedcd": 1.0}),
    "A21": World(),
    "A21-images": World(),
    "A21-models": World(hoard=4, singles={0.65: 0}),
    "A23": World(calm_from={"hyper_fedcd": None}),
    "A24-Hierarchical": World(calm_from={"hier_fedcd": None}),
    "A24-Hypergeometric": World(calm_from={"hyper_fedcd": None}),
    "A25": World(cost={"hier_fedcd": 12.0}),
    "R2": World(six_extra=4),
    "R3": World(off_the_log=-0.03),
    "R4": World(one_model_swing=0.1),
}
"""A world against each claim; the rules leave none against R1."""

OTHER_WAYS = [
    ("A3", World(early=0.05)),  # calm from the beginning
    ("A6", World(fedavg_calm_from=200)),  # restless after 150 rounds, and no more after 300
    ("A10", World(named=((0, 1, 8), (4, 0, 9)))),
    ("A10", World(named=((0, 1, 8), (4, 4)))),
    ("A10", World(named=((0, 1, 2, 3, 8), (4, 5, 9)))),
    ("A10", World(settled=True)),
    ("A13", World(hoard=3)),  # a device gets a model in round 40, ten after the last clones
    ("A14-pairs", World(gap=0.2)),  # two models, but not of equal rank
    ("A23", World(fedavg_swing=0.005)),  # four of six converge under FedAvg, too
    ("A19", World(level={("hyper_fedavg", 2): 0.1})),
    ("A20", World(fedavg_calm_from=20)),
    ("A24-Hierarchical", World(fedavg_calm_from=20)),
    ("A25", World(calm_from={"hyper_fedcd": None})),
    ("A25", World(fedavg_calm_from=20)),
    # FedAvg is restless once more, in a round that FedCD's shorter runs do not have
    ("A20", World(fedavg_calm_from=20, fedavg_blip=250)),
    ("A24-Hierarchical", World(fedavg_calm_from=20, fedavg_blip=250)),
    ("A24-Hypergeometric", World(fedavg_calm_from=20, fedavg_blip=250)),
    ("A25", World(fedavg_calm_from=20, fedavg_blip=250)),
    ("R3", World(mirrored=True)),
]
"""The other halves of claims that say several things."""

NO_RUNS = {"P1": False, "P2": False, "P3": False, "P4": True, "P4-sd": True, "P5": False}
"""Claims on what is published alone, and whether it agrees with itself."""
CONTRADICTED = {
    "A12-single": World(singles={0.65: 10}),
    "A21": World(cost={"hier_fedcd": 2.0}),
    "A21-images": World(cost={"hier_fedcd": 2.0}),
}
"""What other parts of the paper, which the made-up runs follow, contradict; and where it holds."""
NO_TARGETS = {"R1", "A13", "A18-baseline", "S36-most", "T1-hyper-fedavg", "T1-hier-fedavg"}

AT_LITE_ONLY = {"A1-hyper", "A19-changes"}
"""Early rounds of runs that are longer at paper, where the claims' others look at the end."""

BY_ID = {claim.id: claim for claim in load_expected("fedcd").claims}


def decide(name: str, runs: RunSet) -> Finding:
    """Decide a claim by its rule, with its values."""
    claim = BY_ID[name]
    return RULES[claim.rule](runs, **claim.values)


@pytest.fixture(scope="module")
def as_claimed() -> MadeUpRuns:
    return MadeUpRuns("paper", World())


def test_every_claim_on_our_runs_is_tested_to_fail():
    assert set(BY_ID) - {*NO_RUNS} - {"R1"} == set(AGAINST)


@pytest.mark.parametrize("name", [name for name in BY_ID if name not in NO_RUNS])
def test_claim_holds(as_claimed, name):
    world = CONTRADICTED.get(name)
    finding = decide(name, MadeUpRuns("paper", world) if world else as_claimed)
    assert finding.holds, finding.evidence
    assert finding.evidence
    assert finding.runs
    assert set(finding.runs) <= {run.id for run in as_claimed.members(as_claimed.plan.runs)}


@pytest.mark.parametrize("name", AGAINST)
def test_claim_fails(name):
    finding = decide(name, MadeUpRuns("paper", AGAINST[name]))
    assert not finding.holds, finding.evidence


@pytest.mark.parametrize(("name", "world"), OTHER_WAYS)
def test_claim_fails_in_its_other_parts(name, world):
    finding = decide(name, MadeUpRuns("paper", world))
    assert not finding.holds, finding.evidence


def test_a_single_device_is_no_archetype():
    world = World(shared_from=12, strays=1, named=((0, 1, 8), (4, 5, 0)))
    assert decide("A8", MadeUpRuns("paper", world)).holds
    only = World(named=((0, 1, 8), (4, 5, 0)))  # every third device prefers the other side's
    assert decide("A10", MadeUpRuns("paper", only)).holds


@pytest.mark.parametrize("name", ["A21-models", "A25"])
def test_seeds_that_disagree_leave_a_claim_open(as_claimed, name):
    finding = decide(name, Seeds(as_claimed, World(), AGAINST[name]))
    assert finding.margins
    assert not finding.firm


def test_the_largest_change_is_that_of_all_rounds_with_both_ends(as_claimed):
    """By far the largest is that of round 8."""
    values = BY_ID["A3"].values | {"until": 8, "since": 8}
    told = "largest: 46.20 points up to round 8, 46.20 points from 8 on"
    assert RULES["calms_down"](as_claimed, **values).evidence == told


def test_runs_that_do_not_converge_count_as_long_as_both_are(as_claimed):
    """FedAvg has 300 rounds, FedCD 150 and 80; it converges in rounds 37 and 47."""
    (margin,) = decide("A24-Hierarchical", as_claimed).margins
    assert margin.value == 150 - 37
    (margin,) = decide("A24-Hypergeometric", as_claimed).margins
    assert margin.value == 80 - 47


@pytest.mark.parametrize(("fedcd", "fedavg", "holds"), [(4, 3, True), (3, 3, False), (4, 4, False)])
def test_half_of_the_archetypes_are_not_most(as_claimed, monkeypatch, fedcd, fedavg, holds):
    rounds = iter(t for met in (fedcd, fedavg) for t in [1] * met + [None] * (6 - met))
    monkeypatch.setattr(claims, "converged", lambda *_: next(rounds))
    finding = decide("A23", Seeds(as_claimed, World()))
    assert finding.evidence == f"converged: FedCD: {fedcd} of 6; FedAvg: {fedavg} of 6"
    assert finding.holds is holds


@pytest.mark.parametrize(
    ("name", "world"),
    [
        ("A23", World(calm_from={"hyper_fedcd": None})),
        ("A23", World(fedavg_swing=0.005)),
        ("A25", World(calm_from={"hyper_fedcd": None})),
    ],
)
def test_one_seed_is_enough_against_what_converges(as_claimed, name, world):
    for worlds in ((World(), world), (world, World())):
        assert not decide(name, Seeds(as_claimed, *worlds)).holds


def test_what_a_run_costs_until_it_converges_is_with_that_round(as_claimed):
    log, *_ = claims._logs(as_claimed, "FedCD", experiment="Hierarchical")
    assert sum(map(sum, claims.megabytes(log).values())) == pytest.approx(claims._sent(log).sum())
    ratios = []

    def edges(ratio):
        ratios.append(ratio)
        return [ratio.above(0)]

    criterion = {"points": 2, "window": 5}
    claims._costs_less(
        as_claimed,
        lambda log: np.ones(len(log.accuracy)),
        edges,
        experiments=["Hierarchical"],
        rounds=10,
        **criterion,
    )
    trained = claims.converged(log.change, **criterion) + 1
    assert ratios[0].values[0] == pytest.approx(10 / trained)


def test_other_active_models_than_the_public_log(as_claimed, monkeypatch):
    theirs = claims.public_log("six.active")
    assert [theirs[t] for t in range(16)] == [18] * 6 + [36] * 10
    monkeypatch.setattr(claims, "public_log", lambda _: theirs | {9: 35})
    finding = decide("R1", as_claimed)
    assert not finding.holds
    assert finding.ours == 1


def test_evidence_has_our_numbers(as_claimed):
    assert decide("A1", as_claimed).ours == pytest.approx(0.286)
    calm = MadeUpRuns("paper", World(fedavg_calm_from=200))
    assert decide("A6", calm).ours < 0.02 < decide("A6", as_claimed).ours
    assert decide("A7", as_claimed).ours == pytest.approx(0.05, abs=0.002)
    assert decide("A16", MadeUpRuns("paper", AGAINST["A16"])).ours > 0.03
    assert decide("A11", as_claimed).ours == 6
    assert decide("A4", as_claimed).evidence == "mean correlation 1.00 within, -1.00 across"
    assert "round 25: 36, round 30: 36, round 44: 36" in decide("R2", as_claimed).evidence


@pytest.mark.parametrize(("name", "holds"), NO_RUNS.items())
def test_published_numbers_alone_agree_or_do_not(tmp_path, name, holds):
    finding = decide(name, RunSet("fedcd", "lite", tmp_path))  # no record is needed
    assert finding.holds is holds, finding.evidence
    assert list(finding.runs) == []


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        (
            "P1",
            {("Hypergeometric", "rounds, FedCD"): 45, ("Hierarchical", "rounds, FedCD"): 35},
        ),
        ("P2", {("Hierarchical", "FedAvg : FedCD, sample passes"): 3.4}),
    ],
)
def test_other_published_numbers_would_agree(tmp_path, monkeypatch, name, changes):
    monkeypatch.setattr(claims, "published", lambda *args: published(*args) | changes)
    assert decide(name, RunSet("fedcd", "lite", tmp_path)).holds


@pytest.mark.parametrize(
    ("name", "values", "holds"),
    [
        ("P4", {"what": [1, 4]}, True),
        ("P4", {"what": [2, 3], "over": [0, 5]}, False),
        ("P4", {"successes": [55] * 6}, False),  # one law
        ("P4-sd", {"what": [1, 2]}, False),
        ("P4-sd", {"what": [2, 3], "over": [0, 5]}, False),
        ("P5", {"per_archetype": [3, 5]}, True),
        ("P5", {"per_archetype": [5, 5]}, False),
    ],
)
def test_other_laws_and_numbers_of_devices(tmp_path, name, values, holds):
    claim = BY_ID[name]
    found = RULES[claim.rule](RunSet("fedcd", "lite", tmp_path), **claim.values | values)
    assert found.holds is holds, found.evidence


def test_the_law_has_its_standard_deviation(tmp_path):
    """That of n draws from N with K successes: sqrt(n p (1 - p) (N - n) / (N - 1)), p = K / N."""
    share = 5 / 110
    sd = (10 * share * (1 - share) * 100 / 109) ** 0.5
    finding = decide("P4-sd", RunSet("fedcd", "lite", tmp_path))
    assert f"archetype 0: {sd:.2f}," in finding.evidence


def test_a_table_below_the_text_contradicts_it_too(tmp_path, monkeypatch):
    changes = {("Hypergeometric", "rounds, FedCD"): 45, ("Hierarchical", "rounds, FedCD"): 34}
    monkeypatch.setattr(claims, "published", lambda *args: published(*args) | changes)
    finding = decide("P1", RunSet("fedcd", "lite", tmp_path))
    assert (finding.holds, finding.ours) == (False, -1)


def test_lite_judges_no_number_and_no_timing(tmp_path):
    write_all(tmp_path, "lite", World())
    found = {item.id: item for item in verdicts.check("fedcd", "lite", tmp_path)}
    numbers = Counter(item.verdict for item in found.values() if item.kind == "number")
    assert set(numbers) == {"not decidable", "not reproducible", "no target"}
    timed = {
        "A2",
        "A3",
        "A5",
        "A6",
        "A6-hyper",
        "A9",
        "A9-25",
        "A10",
        "A10-which",
        "A11",
        "A16",
        "A16-fedavg",
    }
    timed |= {"A24-Hierarchical", "A24-Hypergeometric", "A25"}
    timed |= {"A1-hyper-end", "A19-changes-end", "A23", "A17", "A20", "R3", "R4", "A16-rounds"}
    for name in timed:
        assert found[name].verdict == "not decidable"
    for name in {*BY_ID} & NO_TARGETS:
        assert found[name].verdict == "no target"
    for name in set(BY_ID) - timed - {*NO_RUNS} - {*CONTRADICTED} - NO_TARGETS:
        assert found[name].verdict == "reproduced", found[name].evidence
    for name, holds in NO_RUNS.items():
        assert found[name].verdict == ("reproduced" if holds else "deviates")
    assert found["P2"].explanation


def test_paper_scale_judges_everything(tmp_path):
    write_all(tmp_path, "paper", World())
    found = verdicts.check("fedcd", "paper", tmp_path)
    assert "ref.all@20" not in {item.id for item in found}  # drawn only
    rest = [item for item in found if item.verdict not in ("reproduced", "not reproducible")]
    wrong = {name for name, holds in NO_RUNS.items() if not holds}
    assert {item.id for item in rest} == wrong | {*CONTRADICTED} | NO_TARGETS | AT_LITE_ONLY
    assert {item.id for item in rest if item.verdict == "no target"} == NO_TARGETS
    # seconds on Colab, and ends of ranges
    assert sum(item.verdict == "not reproducible" for item in found) == 4 + 4


def test_paper_scale_numbers_can_deviate():
    world = World(hoard=11, calm_from={"hier_fedcd": None}, six_extra=18)
    runs = MadeUpRuns("paper", world)
    for name in ("A12", "T1-hier-fedcd", "six.active@44", "course.active@25"):
        assert verdict(runs, name) == "deviates", name
    for name in ("T1-hyper-fedcd", "ref.all@40", "course.accuracy@44", "nine.accuracy@35"):
        assert verdict(runs, name) == "reproduced", name


def test_accuracies_off_the_public_log_deviate():
    runs = MadeUpRuns("paper", World(off_the_log=-0.06))
    for name in ("ref.all@45", "ref.meta1@45", "R3"):
        assert verdict(runs, name) == "deviates", name
    assert verdict(runs, "ref.arch4@45") == "close"
    assert verdict(runs, "ref.change@45") == "reproduced"


def test_without_records_nothing_is_judged(tmp_path):
    found = {item.id: item.verdict for item in verdicts.check("fedcd", "paper", tmp_path)}
    outcomes = {found[name] for name in found.keys() - {*NO_RUNS} - NO_TARGETS - AT_LITE_ONLY}
    assert outcomes == {"not run", "not reproducible"}
