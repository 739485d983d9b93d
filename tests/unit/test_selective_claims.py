"""Claims of the paper `selective`: each holds on data made for it and fails on data against it."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest
from seeds import Some
from selective_records import ACCURACIES, LABELS, ONE_GROUP, THREE_GROUPS, MadeUpRuns

from fedrepro.base.errors import FedreproError
from fedrepro.papers.selective import claims
from fedrepro.papers.selective.claims import RULES, _group
from fedrepro.report import verdicts
from fedrepro.report.expected import load_expected
from fedrepro.report.finding import Finding, Margin
from fedrepro.report.rules import Sample
from fedrepro.runs.plan import PlannedRun
from fedrepro.runs.runset import RunSet

Values = dict[str, object]


def rising(start: float, percent: int, end: float, scale: float = 4.0) -> float:
    """Return a curve that rises fast from ``start`` and ends at ``end``."""
    share = (1 - 2.0 ** (-percent / scale)) / (1 - 2.0 ** (-100 / scale))
    return start + (end - start) * share


ALL = {claim.id: claim for claim in load_expected("selective").claims}


def decide(name: str, runs: RunSet) -> Finding:
    """Return what a claim's rule finds with the claim's values; its margins say the same."""
    finding = RULES[ALL[name].rule](runs, **ALL[name].values)
    if finding.margins:
        assert len({margin.what for margin in finding.margins}) == len(finding.margins)
        assert finding.holds == all(margin.met for margin in finding.margins)
    else:
        assert ALL[name].rule in NOT_ABOUT_MEANS
    return finding


NOT_ABOUT_MEANS = {
    *("grouping", "grouping_costs_rounds", "rounds_added"),
    *("published_no_worse", "unfair_optimum"),
}


MERGED = {"m1": 14, "m2": 8, "m3": 4}
"""First N at which all nodes share a group."""


def as_claimed(run: PlannedRun) -> Values:
    """Return what the runs would give if every claim of the paper held."""
    percent = int(run.coordinates.get("percent", 100))
    labels = LABELS[run.group]
    network, method, variant = labels["network"], labels["method"], labels.get("variant")
    if variant == "threshold tuned":
        off = abs(float(run.coordinates["threshold"]) - 0.8)
        tuned = 0.97 - 0.1 * off - percent / 10_000
        return {"accuracy_tuning": tuned, "accuracy_noniid": tuned, "groups": ONE_GROUP}
    top = {"m1": 0.964, "m2": 0.991, "m3": 0.995}[network]
    iid0, noniid0 = {"m1": (0.36, 0.31), "m2": (0.54, 0.71), "m3": (0.975, 0.975)}[network]
    alone = top - (0.013 if network == "m1" else 0.002)
    single = {"m1": 0.988, "m2": 0.997, "m3": 0.998}[network]
    own = {"m1": 0.987, "m2": 0.997, "m3": 0.998}[network]
    speed = {"m1": 2, "m2": 1, "m3": 0.3}[network]
    local = single + (alone - 0.988) * percent / 100
    # ahead of federated and of local up to the last N, where federated and selective meet
    merged = max(top, local) + 0.001 if percent < 100 else top - 0.001
    iid, noniid = {
        "centralised": (top, top),
        "federated": (
            rising(iid0, percent, top, speed),
            rising(noniid0, percent, top, 1.75 * speed),
        ),
        "local": (
            rising(0.33, percent, alone, 2 * speed),
            local,
        ),
        "selective": (
            rising(0.33, percent, top, 2 * speed),
            own if percent < MERGED[network] else merged,
        ),
    }[method]
    iid, noniid = {
        "moments kept": (0.64, 0.63),
        "moments kept, own initial weights": (0.62, 0.63),
        "own initial weights": (0.78, 0.76),
        "moments reset": (0.38, 0.33),
    }.get(variant, (iid, noniid))
    if variant == "groups of Table I" and method == "federated":
        iid = {"as_run": 0.30, "as_written": 0.78}[labels["reading"]]
    final: Values = dict.fromkeys(ACCURACIES, iid) | {
        "accuracy_noniid": noniid,
        "accuracy_noniid_as_run": noniid,
    }
    if method == "selective":
        final["groups"] = THREE_GROUPS if percent < MERGED[network] else ONE_GROUP
    return final


def changed(group: str, percents: set[int], *metrics: str, value: object):
    """Return ``as_claimed`` with metrics of some runs replaced."""

    def final(run: PlannedRun) -> Values:
        values = as_claimed(run)
        if run.group == group and int(run.coordinates.get("percent", 100)) in percents:
            values |= dict.fromkeys(metrics or ("accuracy_iid", "accuracy_iid_dealt"), value)
        return values

    return final


# these two readings cannot hold at once: a network that collapses is not one that does not
IMPOSSIBLE_TOGETHER = {"B15-reset"}


# what is counted, computed or published is the same whatever the accuracies are
PUBLISHED = {"B9-all-published", "B10-all-published"}
COUNTED = {"R1", "R2-m1", "R2-m2", "R2-m3", "TH1", "TH2", *PUBLISHED}


@pytest.mark.parametrize("name", sorted(set(ALL) - IMPOSSIBLE_TOGETHER - COUNTED))
def test_holds_where_all_is_as_claimed(name):
    finding = decide(name, MadeUpRuns(as_claimed))
    assert finding.holds, finding.evidence
    assert finding.runs
    assert finding.evidence


def test_algorithm_1_adds_a_round():
    finding = decide("R1", MadeUpRuns(as_claimed))
    assert finding.holds
    assert finding.evidence == "rounds of communication: selective 22, federated 21"
    assert len(set(finding.runs)) == 2


def test_the_round_it_adds_costs_more_than_the_others():
    values = ALL["R2-m1"].values
    # 9 nodes, 10,000 images of 784 bytes and a bit each, against 23,860 weights up and down
    worth = 9 * 10_000 * (784 + 1 / 8) / (2 * 9 * 23_860 * 4)
    for rounds, holds in ((worth + 0.1, True), (worth - 0.1, False)):
        rule = RULES["grouping_costs_rounds"]
        finding = rule(MadeUpRuns(as_claimed), **values | {"rounds": rounds})
        assert finding.holds == holds
        assert finding.ours == pytest.approx(worth)


@pytest.mark.parametrize(
    ("share", "percent", "holds"),
    [(0.001, 1, True), (0.001, 0.5, False), (0.01, 1, True), (0.01, 0.8, False), (0.3, 1, False)],
)
def test_the_theorem_holds_for_small_shares(share, percent, holds):
    values = ALL["TH1"].values | {"share": share, "percent": percent}
    assert RULES["unfair_optimum"](MadeUpRuns(as_claimed), **values).holds == holds


def test_what_is_computed_rests_on_no_run():
    for name in ALL:
        computed = ALL[name].rule in {"published_no_worse", "unfair_optimum"}
        assert (ALL[name].about == "arithmetic") == computed
    for name in ("TH1", *PUBLISHED):
        assert decide(name, MadeUpRuns(as_claimed)).runs == []


@pytest.mark.parametrize(
    ("name", "values", "ours", "holds"),
    [
        # Fig. 6: 97.01 and 92.19 % at N = 12, 91.78 and 94.39 % at N = 22
        ("B9-all-published", {"last": 12}, 0.0482, True),
        ("B9-all-published", {}, -0.0261, False),
        ("B9-all-published", {"points": 2.62}, -0.0261, True),
        # 93.32 and 94.40 % at N = 20: behind by 1.08 points, which in floats is a little less
        ("B9-all-published", {"last": 20, "points": 1.08}, -0.0108, False),
        # 93.32 and 96.31 % at N = 20; at N = 10 it is behind by 0.04 points
        ("B10-all-published", {"last": 10}, -0.0004, True),
        ("B10-all-published", {}, -0.0299, False),
        ("B10-all-published", {"points": 3}, -0.0299, True),
    ],
)
def test_published_curves_cross(name, values, ours, holds):
    rule = RULES["published_no_worse"]
    finding = rule(MadeUpRuns(as_claimed), **ALL[name].values | values)
    assert finding.holds == holds
    assert finding.ours == pytest.approx(ours)


def test_published_curves_are_counted_where_one_is_behind():
    finding = decide("B9-all-published", MadeUpRuns(as_claimed))
    told = "smallest -2.61 points at N = 22; behind at 30 of 50 N"
    assert finding.evidence.endswith(told)


def test_a_published_curve_is_not_behind_where_both_are_equal(monkeypatch):
    curves = {"federated": [0.5, 0.6, 0.7], "selective": [0.5, 0.7, 0.6]}

    def made_up(figure, method):
        return SimpleNamespace(x=[0, 2, 4], published=curves[method])

    monkeypatch.setattr(claims, "published_curve", made_up)
    values = ALL["B9-all-published"].values | {"what": "federated", "over": "selective"}
    finding = RULES["published_no_worse"](MadeUpRuns(as_claimed), **values)
    assert finding.evidence.endswith("; behind at 1 of 3 N")


def test_true_averaging_does_not_collapse():
    final = changed("federated_as_written", {0}, value=0.78)
    assert decide("B15-reset", MadeUpRuns(final)).holds
    assert not decide("B4-as_written", MadeUpRuns(final)).holds
    assert decide("B4", MadeUpRuns(final)).holds


NONIID = ("accuracy_noniid", "accuracy_noniid_as_run")


def tuned_at(best: float, noniid: float | None = None):
    """Return ``as_claimed`` with another best threshold, and one for the non-IID test."""

    def final(run: PlannedRun) -> Values:
        values = as_claimed(run)
        if run.group == "selective_threshold":
            threshold = float(run.coordinates["threshold"])
            values |= {
                "accuracy_tuning": 0.97 - 0.1 * abs(threshold - best),
                "accuracy_noniid": 0.97 - 0.1 * abs(threshold - (noniid or best)),
            }
        return values

    return final


AT_20 = rising(0.36, 20, 0.964, 2)
"""Accuracy of federated at N = 20 on the IID test."""
AT_12 = rising(0.31, 12, 0.964, 3.5)
"""And at N = 12 on the non-IID test."""

BROKEN = {
    "B1": [changed("centralised", {100}, value=0.958), changed("centralised", {100}, value=0.971)],
    "B4": [
        changed("federated_as_run", {0}, value=0.42),
        changed("federated_as_run", {0}, *NONIID, value=0.27),
        changed("federated_as_run", {0}, value=0.29),
        changed("federated_as_run", {0}, *NONIID, value=0.39),
    ],
    "B4-as_written": [
        changed("federated_as_written", {0}, value=0.78),
        changed("federated_as_written", {0}, *NONIID, value=0.76),
    ],
    "B5": [changed("local", {0}, value=0.36)],
    "B6": [changed("selective_as_run", {0}, value=0.36)],
    "B6-as_written": [changed("selective_as_written", {0}, value=0.30)],
    "B6-order": [changed("selective_as_run", {12}, value=0.99)],
    "B6-order-as_written": [changed("selective_as_written", {12}, value=0.99)],
    "B6-order-m2": [changed("m2_selective_as_run", {6}, value=1.02)],
    "B6-order-m2-as_written": [changed("m2_selective_as_written", {2}, value=1.02)],
    "B6-order-m3": [changed("m3_selective_as_run", {4}, value=1.02)],
    "B6-order-m3-as_written": [changed("m3_selective_as_written", {6}, value=1.02)],
    "B7": [
        changed("federated_as_run", {6}, value=0.5),
        changed("selective_as_run", {6}, value=0.5),
        changed("local", {5}, value=0.5),
        changed("local", {100}, value=0.2),  # no gain at all
    ],
    "B7-as_written": [
        changed("federated_as_written", {6}, value=0.5),
        changed("selective_as_written", {6}, value=0.5),
    ],
    "B8": [
        changed("selective_as_run", {8}, value=0.99),
        changed("selective_as_run", {98}, value=0.975),
        changed("local", {20}, value=0.99),
        changed("selective_as_run", {20}, value=AT_20 + 0.011),
        changed("local", {20}, value=AT_20 + 0.006),
    ],
    "B8-as_written": [
        changed("selective_as_written", {8}, value=0.99),
        changed("local", {10}, value=0.99),
    ],
    "B9": [
        changed("selective_as_run", {12}, *NONIID, value=0.90),
        changed("federated_as_run", {0}, *NONIID, value=0.5),
        changed("selective_as_run", {12}, *NONIID, value=AT_12 + 0.03),
    ],
    "B9-as_written": [changed("federated_as_written", {2}, *NONIID, value=0.96)],
    "B9-order": [changed("selective_as_run", {12}, *NONIID, value=AT_12 - 0.001)],
    "B9-order-as_written": [changed("selective_as_written", {2}, *NONIID, value=0.5)],
    "B9-all": [changed("selective_as_run", {98}, *NONIID, value=0.963)],
    "B9-all-as_written": [changed("selective_as_written", {20}, *NONIID, value=0.94)],
    "B9-all-m2": [changed("m2_selective_as_run", {50}, *NONIID, value=0.98)],
    "B9-all-m2-as_written": [changed("m2_selective_as_written", {50}, *NONIID, value=0.98)],
    "B10": [changed("selective_as_run", {0}, *NONIID, value=0.98)],
    "B10-all": [changed("selective_as_run", {20}, *NONIID, value=0.975)],
    "B10-all-as_written": [changed("selective_as_written", {90}, *NONIID, value=0.949)],
    "B10-as_written": [changed("selective_as_written", {0}, *NONIID, value=0.995)],
    "B11": [changed("local", {100}, *NONIID, value=0.97)],
    "B13": [
        changed("selective_as_run", {100}, value=0.97 + 0.001),
        changed("selective_as_run", {100}, *NONIID, value=0.95),
        changed("local", {100}, value=0.96),
        changed("local", {100}, *NONIID, value=0.94),
    ],
    "B13-as_written": [
        changed("selective_as_written", {100}, value=0.95),
        changed("federated_as_written", {100}, value=0.99),
    ],
    "B14": [
        changed("selective_as_run", {0}, "groups", value=[[0, 1], [2, 3, 4, 5], [6, 7, 8]]),
        changed("selective_as_run", {0}, "groups", value=ONE_GROUP),
        changed("selective_as_run", {64}, "groups", value=[[0, 1], [2, 3, 4, 5, 6, 7, 8]]),
    ],
    "B14-as_written": [changed("selective_as_written", {20}, "groups", value=THREE_GROUPS)],
    "B15-reset": [changed("federated_as_written", {0}, value=0.749)],
    "B15-kept": [changed("federated_kept_moments", {0}, value=0.549)],
    "B4-table1": [changed("federated_as_run_table1", {0}, value=0.33)],
    "B15-table1": [changed("federated_as_written_table1", {0}, value=0.74)],
    "B10-table1": [changed("selective_as_written_table1", {0}, *NONIID, value=0.98)],
    "B14-dot": [
        changed("selective_dot", {0}, "groups", value=ONE_GROUP),
        changed("selective_dot", {50}, "groups", value=THREE_GROUPS),
    ],
    "B15-own_initial": [changed("federated_own_initial", {0}, value=0.54)],
    "B16": [
        changed("federated_as_run_reset", {0}, value=0.5),
        changed("federated_own_initial_reset", {0}, value=0.53),
    ],
    "B12-local_statistics": [changed("m3_federated_local_statistics", {50}, *NONIID, value=0.95)],
    "B12-zero-local_statistics": [changed("m3_federated_local_statistics", {0}, value=0.971)],
    "B9-m2": [changed("m2_selective_as_run", {6}, *NONIID, value=0.9)],
    "B9-m2-as_written": [changed("m2_selective_as_written", {4}, *NONIID, value=0.9)],
    # at 0.775 one below the range is as good as the best within it
    "T1": [tuned_at(0.75), tuned_at(0.775), tuned_at(0.9), tuned_at(0.75, noniid=0.82)],
    "T2": [tuned_at(0.5), tuned_at(0.75)],
}
for suffix, prefix, low, high in (("-m2", "m2_", 0.987, 0.994), ("-m3", "m3_", 0.992, 0.998)):
    BROKEN |= {
        f"B1{suffix}": [changed(f"{prefix}centralised", {100}, value=v) for v in (low, high)],
        f"B5{suffix}": [changed(f"{prefix}local", {0}, value=0.36)],
    }
    for ending in ("as_run", "as_written"):
        federated, selective = f"{prefix}federated_{ending}", f"{prefix}selective_{ending}"
        end = suffix + ("" if ending == "as_run" else "-as_written")
        BROKEN |= {
            f"B6{end}": [changed(selective, {0}, value=0.36)],
            f"B7{end}": [
                changed(federated, {6}, value=0.5),
                changed(selective, {6}, value=0.5),
                changed(f"{prefix}local", {6}, value=0.5),
            ],
            f"B8{end}": [
                changed(selective, {8}, value=1.02),
                changed(f"{prefix}local", {20}, value=1.02),
            ],
            f"B10{end}": [changed(selective, {0}, *NONIID, value=0.99)],
            f"B10-all{end}": [changed(selective, {50}, *NONIID, value=0.99)],
            f"B17{end}": [changed(f"{prefix}local", {0}, *NONIID, value=0.7)],
            f"B13{end}": [
                changed(selective, {100}, value=0.98),
                changed(federated, {100}, *NONIID, value=0.98),
            ],
            f"B14{end}": [changed(selective, {20}, "groups", value=THREE_GROUPS)],
            f"B18{end}": [
                changed(selective, {0}, *NONIID, value=0.5),
                changed(federated, {100}, *NONIID, value=0.5),
            ],
        }
for ending, suffix in (("as_run", ""), ("as_written", "-as_written")):
    BROKEN |= {
        # within 5 points, and the wrong way round
        f"B2{suffix}": [changed(f"m2_federated_{ending}", {0}, value=0.40)],
        f"B2-order{suffix}": [changed(f"m3_federated_{ending}", {0}, value=0.5)],
        f"B2-all-m2{suffix}": [
            changed(f"m2_federated_{ending}", {50}, value=0.9),
            changed(f"federated_{ending}", {2}, value=0.99),
        ],
        f"B2-all-m3{suffix}": [changed(f"m3_federated_{ending}", {8}, value=0.9)],
        f"B18{suffix}": [
            changed(f"selective_{ending}", {0}, *NONIID, value=0.2),
            changed(f"federated_{ending}", {100}, *NONIID, value=0.2),
        ],
        f"B3{suffix}": [changed(f"m3_federated_{ending}", {0}, *NONIID, value=0.75)],
        f"B3-order{suffix}": [changed(f"m2_federated_{ending}", {0}, *NONIID, value=0.3)],
        f"B12{suffix}": [changed(f"m3_federated_{ending}", {2}, value=0.95)],
        f"B12-zero{suffix}": [
            changed(f"m3_federated_{ending}", {0}, value=0.971),
            changed(f"m3_federated_{ending}", {0}, *NONIID, value=0.971),
        ],
        f"B17{suffix}": [changed(f"federated_{ending}", {0}, *NONIID, value=0.989)],
    }


JUST = {
    # it has no N = 100, where networks are not compared
    "B2-all-m2": [changed("m2_federated_as_run", {100}, value=0.9)],
    # both lose 0.3
    "B18": [
        changed("selective_as_run", {0}, *NONIID, value=0.964 - 0.001 - (0.964 - 0.31) + 0.001)
    ],
    "B2": [changed("m2_federated_as_run", {0}, value=0.42)],
    "B3": [changed("m3_federated_as_run", {0}, *NONIID, value=0.77)],
    "B7": [changed("federated_as_run", {6}, value=0.67)],
    "B8": [
        changed("selective_as_run", {20}, value=AT_20 + 0.009),
        changed("local", {20}, value=AT_20 + 0.004),
    ],
    "B9": [changed("selective_as_run", {12}, *NONIID, value=AT_12 + 0.05)],
    "B9-order": [changed("selective_as_run", {12}, *NONIID, value=AT_12 + 0.001)],
    "B10": [changed("selective_as_run", {0}, *NONIID, value=0.992)],
    "B10-all": [changed("selective_as_run", {20}, *NONIID, value=0.976)],
    # it says nothing of N = 0
    "B12": [changed("m3_federated_as_run", {0}, value=0.95)],
    # it is compared with central training on the IID test
    "B12-zero": [
        changed("m3_federated_as_run", {0}, value=0.973),
        changed("m3_centralised", {100}, *NONIID, value=0.999),
    ],
    "B13": [
        changed("selective_as_run", {100}, value=0.968),
        changed("selective_as_run", {100}, *NONIID, value=0.96),
    ],
    "B16": [changed("federated_own_initial_reset", {0}, value=0.54)],
    # at 0.875 one above the range is as good
    "T1": [tuned_at(0.85), tuned_at(0.875), tuned_at(0.82, noniid=0.5)],
    # the tuned threshold need not be the best of the non-IID test
    "T2": [tuned_at(0.85), tuned_at(0.75, noniid=0.82)],
}
"""Data on which a claim holds, if by little."""


@pytest.mark.parametrize(
    ("name", "number"),
    [(name, number) for name, just in JUST.items() for number in range(len(just))],
)
def test_holds_within_its_bounds(name, number):
    finding = decide(name, MadeUpRuns(JUST[name][number]))
    assert finding.holds, finding.evidence


AT_ITS_BOUND = [
    ("B7", changed("federated_as_run", {6}, value=(0.36 + 0.964) / 2), False),
    ("B8", changed("selective_as_run", {20}, value=AT_20 + 0.01), False),
    ("B9", changed("selective_as_run", {0}, *NONIID, value=0.31 + 0.6), False),
    ("B9", changed("selective_as_run", {12}, *NONIID, value=AT_12 + 0.04), False),
    ("B9-order", changed("selective_as_run", {12}, *NONIID, value=AT_12), False),
    ("B11", changed("local", {100}, *NONIID, value=0.988 - 0.02), False),
    ("B12", changed("m3_federated_as_run", {2}, value=0.96), False),
    ("B12-zero", changed("m3_federated_as_run", {0}, value=0.995 - 0.0223), True),
    ("B18", changed("selective_as_run", {0}, *NONIID, value=0.963 - (0.964 - 0.31)), False),
    ("T2", tuned_at(0.9, noniid=0.885), True),  # 0.97 - 0.0015 and 0.97 - 0.0065
]
"""Data that just meet the bound of a claim, and whether it says "at most" or "less" and "more"."""


@pytest.mark.parametrize(("name", "final", "holds"), AT_ITS_BOUND)
def test_at_its_bound_a_claim_holds_if_it_says_at_most(name, final, holds):
    finding = decide(name, MadeUpRuns(final))
    assert min(margin.value for margin in finding.margins) == pytest.approx(0, abs=1e-9)
    assert finding.holds is holds


def test_a_small_rise_is_a_rise():
    final = changed("m2_federated_as_run", {0}, value=0.37)
    assert decide("B2-order", MadeUpRuns(final)).holds
    assert not decide("B2", MadeUpRuns(final)).holds


@pytest.mark.parametrize(("name", "margins"), [("B9", 8), ("B9-as_written", 7)])
def test_a_claim_is_tested_by_the_margins_that_it_states(name, margins):
    """At N = 0, 2, ..., 12, and at N = 0 again where more is asked there."""
    assert len(decide(name, MadeUpRuns(as_claimed)).margins) == margins


@pytest.mark.parametrize(
    ("name", "group", "n", "value", "ours"),
    [
        ("B2", "m2_federated_as_run", 0, 0.5, 0.5 - 0.36),  # of Model 1; Model 3 has 0.975
        ("B7", "federated_as_run", 6, 0.67, (0.67 - 0.36) / (0.964 - 0.36)),
        ("B7", "local", 100, 0.2, 0),  # of no gain no share is there, at whatever N
        ("B7", "local", 100, 0.33, 0),
        ("B8", "federated_as_run", 100, 0.914, 0.914 - 0.964),  # of selective; local is nearer
        ("B12", "m3_federated_as_run", 2, 0.9, 0.9),
        ("B12-zero", "m3_federated_as_run", 0, 0.973, 0.973 - 0.995),  # the other test has 0.975
    ],
)
def test_what_is_said_of_several_is_the_least_of_them(name, group, n, value, ours):
    finding = decide(name, MadeUpRuns(changed(group, {n}, value=value)))
    assert finding.ours == pytest.approx(ours)


def test_evidence_has_leads_falls_and_losses_of_the_right_sign():
    runs = MadeUpRuns(as_claimed)
    ahead = decide("B9", runs)
    assert ahead.ours == pytest.approx(0.987 - AT_12)
    least = f"{100 * ahead.ours:.2f} points at N = 12"
    assert ahead.evidence.endswith(f": 67.70 points at N = 0, smallest {least}")
    assert decide("B11", runs).ours == pytest.approx(0.988 - 0.951)
    loses = decide("B18", runs)
    assert loses.ours == pytest.approx(0.654 + 0.024)
    lost = "lost from N = 100 to N = 0: selective -2.40 points, federated 65.40 points"
    assert loses.evidence == lost
    assert decide("T2", MadeUpRuns(tuned_at(0.9, noniid=0.885))).ours == pytest.approx(0.005)
    tuned = decide("T2", MadeUpRuns(tuned_at(0.9, noniid=0.8)))  # not on the non-IID test
    assert tuned.ours == pytest.approx(0.96 - 0.968)


@pytest.mark.parametrize(
    ("name", "final", "evidence"),
    [
        ("T1", tuned_at(0.85), "best on the tuning images: 0.85 with 97.00 %; 0.82 has 96.70 %"),
        (  # where the best is not one of those between the two values
            "T1",
            tuned_at(0.9),
            "best on the tuning images: 0.9 with 97.00 %; 0.82 has 96.20 %",
        ),
        (
            "T2",
            tuned_at(0.9, noniid=0.885),
            "non-IID test, mean over N: 96.85 % at the tuned threshold 0.9, 96.35 % at 0.82",
        ),
        (  # 9 x 10,000 x (784 + 1 / 8) and 2 x 9 x 23,860 x 4 bytes
            "R2-m1",
            as_claimed,
            "images and vectors to form groups: 70.6 MB; models of one round: 1.7 MB",
        ),
        (
            "TH1",
            as_claimed,
            "after 300 rounds, at worst: global loss 0.65 % of Gamma above its minimum, loss of "
            "node N 99.95 % of C times its own",
        ),
    ],
)
def test_evidence_says_which_value_is_which(name, final, evidence):
    assert decide(name, MadeUpRuns(final)).evidence == evidence


def test_evidence_counts_the_runs_with_more_than_one_group():
    several = changed("selective_as_run", {64}, "groups", value=[[0, 1], [2, 3, 4, 5, 6, 7, 8]])
    finding = decide("B14", MadeUpRuns(several))
    assert finding.ours == 10
    assert finding.evidence == (
        "sizes of the groups at N = 0: 3+3+3; runs with more than one group from N = 20 on: "
        "10 of 410 (N = 64)"
    )
    assert len(finding.runs) == 10 + 410


@pytest.mark.parametrize(
    ("what", "variant", "group"),
    [
        ("local", "groups of Table I", "local_table1"),
        ("local", "moments kept", "local"),
        ("federated", "groups of Table I", "federated_as_written_table1"),
        ("centralised", "groups of Table I", "centralised"),
    ],
)
def test_local_and_central_training_of_a_variant_are_its_own_where_it_has_some(
    what, variant, group
):
    runs = RunSet("selective", "paper")
    where = {"network": "m1", "reading": "as_written", "variant": variant}
    assert _group(runs, what, **where) == group


def test_no_rise_is_no_rise():
    final = changed("m2_federated_as_run", {0}, value=0.36)
    assert not decide("B2-order", MadeUpRuns(final)).holds
    assert not decide("B2-all-m2", MadeUpRuns(final)).holds


def test_another_number_of_rounds_than_said_is_not_that_one():
    runs = MadeUpRuns(as_claimed)
    fewer = RULES["rounds_added"](runs, **ALL["R1"].values | {"rounds": 0})
    assert not fewer.holds
    assert fewer.ours == 1
    values = ALL["R1"].values
    swapped = values | {"what": values["over"], "over": values["what"]}
    assert not RULES["rounds_added"](runs, **swapped).holds


def test_every_claim_has_data_against_it():
    assert set(BROKEN) == set(ALL) - COUNTED


@pytest.mark.parametrize(
    ("name", "number"),
    [(name, number) for name, broken in BROKEN.items() for number in range(len(broken))],
)
def test_fails_on_data_against_it(name, number):
    assert not decide(name, MadeUpRuns(BROKEN[name][number])).holds


UNIVERSAL = {
    "B9-all-m2": ("m2_selective_as_run", 50, (0, 6, 98)),
    "B10-all-m2": ("m2_selective_as_run", 50, (0, 6, 98)),
    "B8-m2": ("m2_selective_as_run", 8, (0, 6, 100)),
    "B14-m2": ("m2_selective_as_run", 20, (6, 100)),
    "B2-all-m3": ("m3_federated_as_run", 8, (0, 6, 100)),
    "B12": ("m3_federated_as_run", 2, (0, 6, 100)),
}
"""Claim of every N -> group and N at which the first of its data above are against it; other N."""


def of(group: str, *percents: int):
    """Say which runs are of a group at some N."""
    return lambda run: run.group == group and run.coordinates["percent"] in percents


def without(lacking, final) -> Some:
    """Return made-up runs; those of which something is true have no record."""
    return Some(MadeUpRuns(final), lambda run: not lacking(run))


@pytest.mark.parametrize("name", UNIVERSAL)
def test_one_counter_example_refutes_what_is_said_of_every_n(name):
    group, _, missing = UNIVERSAL[name]
    lacking = without(of(group, *missing), BROKEN[name][0])
    check = verdicts.check_entry(lacking, ALL[name])
    whole = verdicts.check_entry(MadeUpRuns(BROKEN[name][0]), ALL[name])
    assert (check.verdict, whole.verdict) == ("deviates", "deviates")
    assert check.ours == whole.ours
    planned = lacking.planned([group])
    assert (
        f"alone refute it: {len(planned) - len(check.missing)} of {len(planned)}" in check.evidence
    )
    assert {run.id for run in planned if not lacking.is_recorded(run)} == set(check.missing)
    assert not set(check.missing) & set(check.runs)


@pytest.mark.parametrize("name", UNIVERSAL)
def test_runs_of_some_n_show_nothing_of_every_n(name):
    group, against, _ = UNIVERSAL[name]
    for final, lacking in (
        (as_claimed, of(group, 6)),
        (BROKEN[name][0], of(group, against)),
        (BROKEN[name][0], lambda run: run.group == group),
    ):
        check = verdicts.check_entry(without(lacking, final), ALL[name])
        assert check.verdict == "not run"
        assert check.missing
        assert not check.runs


def test_a_counter_example_that_other_test_examples_could_turn_refutes_nothing():
    """Of 10,000 images 95.9 % are at most 0.39 points off, and one run has no other interval."""
    for accuracy, verdict in ((0.959, "not run"), (0.955, "deviates")):
        final = changed("m3_federated_as_run", {2}, value=accuracy)
        lacking = without(of("m3_federated_as_run", 100), final)
        assert verdicts.check_entry(lacking, ALL["B12"]).verdict == verdict


def test_what_is_no_claim_of_every_n_needs_all_its_runs():
    """The gain of one method is too small, and that of another has no run."""
    final = changed("m2_federated_as_run", {6}, value=0.5)
    lacking = without(lambda run: run.group == "m2_selective_as_run", final)
    assert verdicts.check_entry(MadeUpRuns(final), ALL["B7-m2"]).verdict == "deviates"
    assert verdicts.check_entry(lacking, ALL["B7-m2"]).verdict == "not run"


def test_of_equally_good_thresholds_the_lowest_is_best():
    def final(run: PlannedRun) -> Values:
        values = tuned_at(0.8)(run)
        if run.coordinates.get("threshold") == 0.82:
            values["accuracy_tuning"] = 0.97
        return values

    finding = decide("T1", MadeUpRuns(final))
    assert finding.ours == 0.8
    assert "best on the tuning images: 0.8 with" in finding.evidence
    last_digits = {0.8: 0.97, 0.82: 0.97 + 1e-12}  # of a mean of fractions
    samples = {value: Sample("", (mean,), ("a",)) for value, mean in last_digits.items()}
    assert claims._best(samples) == 0.8


def test_one_seed_with_other_groups_fails_the_grouping_claim():
    def final(run: PlannedRun) -> Values:
        values = as_claimed(run)
        if (
            run.group == "selective_as_written"
            and run.seed == 2
            and run.coordinates["percent"] == 0
        ):
            values["groups"] = [[0, 1, 2, 3], [4, 5], [6, 7, 8]]
        return values

    finding = decide("B14-as_written", MadeUpRuns(final))
    assert not finding.holds
    assert "2+3+4" in finding.evidence
    assert decide("B14", MadeUpRuns(final)).holds


def made_up_runs(final, kept: Callable[[PlannedRun], bool]) -> MadeUpRuns:
    """Return made-up runs, of the plan those that are kept."""
    runs = MadeUpRuns(final)
    runs._runs = {name: [*filter(kept, group)] for name, group in runs._runs.items()}
    return runs


@pytest.mark.parametrize(("kept", "what"), [(range(2, 101), "N = 0"), (range(20), "N from 20 on")])
def test_no_runs_are_no_groups(kept, what):
    runs = made_up_runs(as_claimed, lambda run: run.coordinates.get("percent") in kept)
    with pytest.raises(FedreproError, match=f"selective_as_run has no {what}, which a claim needs"):
        decide("B14", runs)


def by_seed(group: str, *values: float):
    """Return ``as_claimed`` with other accuracies on the IID test at N = 0, one a seed."""

    def final(run: PlannedRun) -> Values:
        found = as_claimed(run)
        if run.group == group and run.coordinates["percent"] == 0:
            found |= dict.fromkeys(("accuracy_iid", "accuracy_iid_dealt"), values[run.seed])
        return found

    return final


def three_seeds(final) -> MadeUpRuns:
    """Return made-up runs of the seeds 0 to 2 alone."""
    return made_up_runs(final, lambda run: run.seed < 3)


def test_claims_are_about_the_mean_over_the_seeds():
    finding = decide("B4", three_seeds(by_seed("federated_as_run", 0.29, 0.36, 0.43)))
    assert finding.holds
    assert finding.ours == pytest.approx(0.36)
    assert not finding.firm  # other seeds could have a mean beyond the bounds
    assert decide("B4", three_seeds(by_seed("federated_as_run", 0.35, 0.36, 0.37))).firm


def test_networks_that_guess_decide_nothing():
    finding = decide("B15-reset", three_seeds(by_seed("federated_as_written", 0.1, 0.1, 0.1)))
    assert finding.undecided
    assert not finding.firm


def test_runs_are_compared_with_those_of_the_same_seed():
    final = by_seed("federated_own_initial_reset", 0.53, 0.8, 0.8)
    finding = decide("B16", three_seeds(final))
    assert finding.holds
    expected = Margin.of((0, 0.27, 0.27))
    assert finding.margins[1].low == pytest.approx(expected.low)
    assert finding.seeds == 3
    assert not finding.firm


def test_evidence_names_the_runs_it_rests_on():
    runs = MadeUpRuns(as_claimed)
    finding = decide("B5", runs)
    ids = {run.id for run in runs.members(["local"]) if run.coordinates["percent"] == 0}
    assert set(finding.runs) == ids
    assert len(ids) == 10
    tuned = {run.id for run in runs.members(["selective_threshold"])}
    assert set(decide("T1", runs).runs) == tuned
