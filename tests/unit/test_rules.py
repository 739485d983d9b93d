"""The rules that decide claims: where they hold, what they find, and which values they take."""

from __future__ import annotations

import inspect
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from made_up import content

from fedrepro.base.errors import FedreproError
from fedrepro.report.finding import Finding, Margin, in_points
from fedrepro.report.rules import (
    Rule,
    Rules,
    Sample,
    between,
    combined,
    compared,
    final_accuracy,
    lead,
    leads,
    less,
    listed,
    near,
    paired,
    steadier,
    steady,
    together,
    whole_seeds,
    within,
)
from fedrepro.report.stats import (
    LEVEL,
    MOST_SEEDS,
    Error,
    rank_correlation,
    seeds_needed,
    t_interval,
)
from fedrepro.runs import records
from fedrepro.runs.runset import Evaluated, MissingRunsError, RunSet

RUN = Sample("a", (0.5,), ("x",))
"""A finding without runs has no margins."""

TEN = Evaluated(10, 10_000)

MEANS = {"low": 0.1, "middle": 0.15, "same": 0.15, "high": 0.3}


def made_up(runs: RunSet, what: str, *, shift: float = 0.0) -> Sample:
    """Return two seeds around a mean."""
    mean = MEANS[what] + shift
    return Sample(what, (mean - 0.01, mean + 0.01), (f"{what}0", f"{what}1"))


def decided(rule: Rule, **values: Any) -> Finding:
    return rule(RunSet("tricks", "lite"), **values)


@pytest.mark.parametrize(
    ("rule", "values", "holds", "ours"),
    [
        (leads, {"what": "high", "over": "low"}, True, 0.2),
        (leads, {"what": "high", "over": "low", "points": 20}, True, 0.2),
        (leads, {"what": "high", "over": "low", "points": 20.1}, False, 0.2),
        (leads, {"what": "high", "over": "low", "at_most": 20}, True, 0.2),
        (leads, {"what": "high", "over": "low", "at_most": 19.9}, False, 0.2),
        (leads, {"what": "middle", "over": "same"}, False, 0),
        (leads, {"what": "low", "over": "high", "points": -30}, False, -0.2),
        (leads, {"what": ["high", "middle"], "over": ["low", "same"]}, False, 0),
        (leads, {"what": ["high", "middle"], "over": ["low"]}, True, 0.05),
        (leads, {"what": "high", "over": "low", "above": ["same", "middle"]}, True, 0.2),
        (leads, {"what": "middle", "over": "low", "above": "same"}, False, 0.05),
        (near, {"what": "high", "to": "middle", "points": 15}, True, 0.15),
        (near, {"what": "middle", "to": "high", "points": 15}, True, -0.15),
        (near, {"what": "middle", "to": "high", "points": 14.9}, False, -0.15),
        (between, {"what": "low"}, True, 0.1),
        (between, {"what": "low", "low": 10, "high": 10}, True, 0.1),
        (between, {"what": "low", "low": 10.1}, False, 0.1),
        (between, {"what": "low", "high": 9.9}, False, 0.1),
        (between, {"what": "low", "low": 12, "shift": 0.02}, True, 0.12),
    ],
)
def test_means_are_compared(rule: Any, values: dict[str, Any], holds: bool, ours: float) -> None:
    finding = decided(rule(made_up), **values)
    assert finding.holds == holds
    assert finding.ours == pytest.approx(ours)


def test_evidence_and_runs_are_of_all_that_is_compared() -> None:
    finding = decided(leads(made_up), what="high", over="low", above="middle")
    assert finding.evidence == "low 10.00 %, middle 15.00 %, high 30.00 %"
    assert finding.runs == [
        f"{name}{seed}" for name in ("low", "middle", "high") for seed in (0, 1)
    ]
    assert decided(near(made_up), what="high", to="low", points=1).evidence == (
        "low 10.00 %, high 30.00 %"
    )
    assert decided(between(made_up), what="low").evidence == "low 10.00 %"
    both = [Sample("a", (0.1, 0.3), ("x",)), Sample("b", (0.5,), ("y", "z"))]
    assert compared(both, []) == Finding(
        True,
        "a 20.00 % (n=2), b 50.00 % (n=1); with equal seeds (n=1) a 10.00 %, b 50.00 %",
        ["x", "y", "z"],
        None,
    )
    assert compared(both, [], 0.3, "in other words").evidence == "in other words"
    assert in_points(0.0132) == "1.32 points"


def test_what_sums_up_is_of_the_seeds_that_both_have() -> None:
    """As the margins are: a mean over other seeds may have the other sign."""
    values = {"many": (0.9, 0.1, 0.1), "few": (0.8,), "fewer": (0.85,)}

    def quantity(runs: RunSet, what: str) -> Sample:
        return Sample(what, values[what], tuple(f"{what}{i}" for i in range(len(values[what]))))

    found = decided(leads(quantity), what="many", over=["few", "fewer"])
    assert found.ours == pytest.approx(0.05)
    assert found.ours == pytest.approx(min(margin.value for margin in found.margins))
    assert found.evidence == (
        "few 80.00 % (n=1), fewer 85.00 % (n=1), many 36.67 % (n=3); "
        "with equal seeds (n=1) few 80.00 %, fewer 85.00 %, many 90.00 %"
    )
    apart = [Sample("a", (0.1,), ("x",), seeds=(0,)), Sample("b", (0.2,), ("y",), seeds=(1,))]
    assert listed(apart) == "a 10.00 % (n=1), b 20.00 % (n=1)"
    assert decided(near(quantity), what="many", to="few", points=11).ours == pytest.approx(0.1)


def test_the_spread_of_one_seed_is_unknown() -> None:
    assert Sample("a", (0.1, 0.3), ("x", "y")).sd == pytest.approx(0.02**0.5)
    assert math.isnan(Sample("a", (0.1,), ("x",)).sd)


def test_what_is_compared_is_paired_by_seed() -> None:
    """Seeds that only one of the two has decide nothing."""
    one = Sample("a", (0.5, 0.6, 0.9), ("x", "y", "z"), seeds=(0, 1, 5))
    other = Sample("b", (0.5, 0.1), ("v", "w"), seeds=(1, 0))
    margin = less(one, other, 0.05)
    assert (margin.low, margin.high, margin.seeds) == (pytest.approx(0.05), pytest.approx(0.35), 2)
    skewed = Sample("f", (0.9, 0.2, 0.1), ("p", "q", "r"), seeds=(0, 1, 5))
    assert lead(skewed, Sample("g", (0.0,) * 3, (), seeds=(5, 1, 0))) == pytest.approx(0.4)
    with pytest.raises(MissingRunsError, match="a and c have no seed in common"):
        less(one, Sample("c", (0.1,), ("u",), seeds=(7,)))
    with pytest.raises(ValueError, match="d has several values of one seed: \\[1, 1\\]"):
        less(one, Sample("d", (0.1, 0.2), ("u", "v"), seeds=(1, 1)))
    third = Sample("e", (0.3, 0.4), ("t", "s"), seeds=(5, 1))
    assert paired(one, other, third) == [(0.6, 0.5, 0.4)], "seed 5 is of two of the three alone"


def test_a_sample_is_held_against_bounds_and_another() -> None:
    one = Sample("a", (0.5, 0.6), ("x", "y"))
    assert one.above(0.4).value == pytest.approx(0.15)
    assert one.below(0.4).value == pytest.approx(-0.15)
    assert (one.above(0.55, strict=True).met, one.below(0.55).met) == (False, True)
    assert not one.below(0.55, strict=True).met
    other = Sample("b", (0.53, 0.63), ("v", "w"))
    assert [margin.met for margin in within(one, other, 3.1)] == [True, True]
    assert [margin.met for margin in within(one, other, 2.9)] == [False, True]
    cells = pd.DataFrame({"seed": [4, 2], "run": ["x", "y"], "loss": [0.5, 0.6]})
    assert Sample.of("a", cells, "loss") == Sample("a", (0.5, 0.6), ("x", "y"), (4, 2))


@pytest.mark.parametrize(
    ("values", "strict", "met", "firm"),
    [
        ((0.1, 0.2), False, True, True),
        ((0.1, -0.05), False, True, False),
        ((-0.1, -0.2), False, False, True),
        ((0.0,), False, True, True),
        ((0.0,), True, False, True),
        ((0.1, 0.1, 0.1), True, True, True),
        ((0.01, 0.02, 0.03), True, True, False),
        ((0.02, 0.021, 0.022), True, True, True),
    ],
)
def test_a_margin_is_firm_where_other_seeds_would_not_turn_it(
    values: tuple[float, ...], strict: bool, met: bool, firm: bool
) -> None:
    """The half width of 0.01, 0.02, 0.03 is 0.0248, that of 0.020, 0.021, 0.022 a tenth of it."""
    margin = Margin.of(values, strict=strict)
    assert (margin.met, margin.firm) == (met, firm)


def test_an_undefined_margin_is_neither_met_nor_firm() -> None:
    unknown = Margin(math.nan, math.nan, math.nan, math.nan, 1)
    assert (unknown.met, unknown.firm) == (False, False)
    found = compared([RUN], [unknown, Margin.of((0.1,))], None)
    assert (found.defined, found.firm) == (False, False)
    assert math.isnan(found.p)
    unbounded = Margin(0.1, math.nan, math.nan, math.nan, 2)
    assert (unbounded.met, unbounded.firm) == (True, False)
    assert not Margin(-0.1, math.nan, math.nan, math.nan, 2).firm
    assert not Margin(0.1, -0.3, -0.1, math.nan, 3).firm, "a bootstrap may leave out the value"


def spread(sd: float, n: int) -> Sample:
    """Return n values of a standard deviation."""
    half = sd * math.sqrt((n - 1) / n)
    values = tuple(0.5 + half * (-1) ** k for k in range(n))
    return Sample("a", values, ())


def test_standard_deviations_are_compared_by_their_ratio() -> None:
    """F with three and three degrees of freedom: 97.5 % lie below 15.439; 95 % below 9.2766."""
    margin = steadier(spread(0.01, 4), spread(0.05, 4))
    assert margin.value == pytest.approx(4)
    assert margin.low == pytest.approx(5 / math.sqrt(15.439) - 1, abs=1e-3)
    assert margin.high == pytest.approx(5 * math.sqrt(15.439) - 1, abs=1e-2)
    assert (margin.met, margin.firm, margin.seeds) == (True, True, 4)
    assert steadier(spread(0.01, 4), spread(math.sqrt(9.2766) / 100, 4)).p == pytest.approx(
        0.05, abs=1e-4
    )
    other_way = steadier(spread(0.05, 4), spread(0.01, 4))
    assert (other_way.met, other_way.firm) == (False, True)
    assert other_way.p == pytest.approx(margin.p)
    weak = steadier(spread(0.01, 4), spread(0.03, 4))
    assert (weak.met, weak.firm) == (True, False)
    assert not steadier(spread(0.01, 4), spread(0.01, 4)).met, "equal ones"


def test_standard_deviations_of_unlike_many_values_are_compared() -> None:
    """F with five and three degrees of freedom: 97.5 % lie below 14.885, 95 % below 9.0135.

    With three and five 97.5 % lie below 7.7636.
    """
    margin = steadier(spread(0.01, 4), spread(0.05, 6))
    assert margin.low == pytest.approx(5 / math.sqrt(14.885) - 1, abs=1e-4)
    assert margin.high == pytest.approx(5 * math.sqrt(7.7636) - 1, abs=1e-4)
    assert margin.seeds == 4
    assert steadier(spread(0.01, 4), spread(math.sqrt(9.0135) / 100, 6)).p == pytest.approx(
        0.05, abs=1e-5
    )


def test_a_standard_deviation_is_held_against_a_limit() -> None:
    """Chi-square with three degrees of freedom: 2.5 % below 0.21580, 2.5 % above 9.34840."""
    margin = steady(spread(0.01, 4), within=0.05)
    assert margin.value == pytest.approx(0.04)
    assert margin.low == pytest.approx(0.05 - 0.01 * math.sqrt(3 / 0.21580), abs=1e-6)
    assert margin.high == pytest.approx(0.05 - 0.01 * math.sqrt(3 / 9.34840), abs=1e-6)
    assert margin.firm
    assert not steady(spread(0.01, 4), within=0.03).firm
    assert steady(spread(0.01, 2), within=0.05).value == pytest.approx(0.04)
    far = steady(spread(0.09, 4), within=0.05)
    assert (far.met, far.firm) == (False, True)
    for quantile, met in ((0.21580, True), (9.34840, False)):
        edge = steady(spread(0.05 * math.sqrt(quantile / 3), 4), within=0.05)
        assert (edge.met, edge.p) == (met, pytest.approx(0.025, abs=1e-5))


@pytest.mark.parametrize("values", [(0.5,), (0.5, 0.5, 0.5)])
def test_what_has_no_spread_is_not_steadier(values: tuple[float, ...]) -> None:
    """A single run has none, and equal runs are at a bound."""
    without = Sample("a", values, ())
    for margin in (steadier(without, spread(0.01, 3)), steadier(spread(0.01, 3), without)):
        assert math.isnan(margin.value)
        assert not margin.firm
    assert math.isnan(steady(without, 0.1).value) == (len(values) == 1)


@pytest.mark.parametrize(
    ("margins", "holds", "firm"),
    [
        ([(0.1, 0.2), (0.3, 0.4)], True, True),
        ([(0.1, 0.2), (0.3, -0.1)], True, False),
        ([(-0.1, -0.2), (0.3, -0.1)], False, True),
        ([(0.1, 0.2), (0.1, -0.3)], False, False),
    ],
)
def test_a_claim_holds_by_all_its_parts_and_fails_by_any(
    margins: list[tuple[float, ...]], holds: bool, firm: bool
) -> None:
    found = compared([RUN], [Margin.of(values) for values in margins], None)
    assert (found.holds, found.firm, found.seeds) == (holds, firm, 2)


def test_the_p_value_of_a_claim_is_that_of_the_part_that_decides() -> None:
    """Of 1, 2, 3 it is that of t = 3.464 with two degrees of freedom, one-sided: 0.0371."""
    clear, weak = Margin.of((10.0, 11.0, 12.0)), Margin.of((1.0, 2.0, 3.0))
    unmet = Margin.of((-1.0, -2.0, -3.0))
    assert weak.p == unmet.p == pytest.approx(0.0371, abs=1e-4)
    assert compared([RUN], [clear, weak], None).p == weak.p
    assert compared([RUN], [clear, unmet], None).p == pytest.approx(2 * unmet.p)
    assert math.isnan(Finding(True, "counted", []).p)
    assert Finding(False, "counted", []).firm
    assert math.isnan(compared([RUN], [Margin.of((-1.0,))], None).p)
    assert math.isnan(compared([RUN], [clear, Margin.of((1.0,))], None).p)
    noise = Margin.of((-3.0, 1.0, 1.0))  # p is 0.41
    assert compared([RUN], [noise] * 3, None).p == 1


def test_published_numbers_alone_have_no_seeds_that_could_turn_them() -> None:
    found = compared([Sample("Table 2", (0.5,), ())], [Margin.of((-0.1,))], None)
    assert not found.holds
    assert (found.seeds, list(found.margins)) == (0, [])


def test_networks_that_guess_decide_nothing() -> None:
    def accuracy(runs: RunSet, what: str) -> Sample:
        mean = MEANS[what]
        return Sample(what, (mean, mean), ("x", "y"), on=TEN)

    assert not decided(leads(accuracy), what="middle", over="low").firm
    assert decided(leads(accuracy), what="middle", over="low").holds
    assert not decided(leads(accuracy), what="low", over="middle").firm
    assert decided(leads(accuracy), what="high", over="low").firm
    assert not Sample("a", (0.25,), ("x",), on=TEN).near_chance, "2.5 times is enough"
    assert Sample("a", (0.1, 0.3), ("x", "y"), on=TEN).near_chance, "in the mean"
    low = accuracy(RunSet("tricks", "lite"), "low")
    assert not compared([low], [low.below(0.2)], networks=()).undecided
    assert compared([RUN], [RUN.above(0)], networks=[low]).undecided


def accuracies(*values: float, name: str = "a") -> Sample:
    return Sample(name, values, tuple("xyz"[: len(values)]), on=TEN)


def test_one_seed_decides_what_other_test_examples_could_not_turn() -> None:
    """Of 90 % on 10,000 examples the standard error is 0.3 points, of a difference 0.42."""
    base = accuracies(0.9)
    for ahead, firm in ((0.0091, True), (0.007, False), (-0.007, False), (-0.0095, True)):
        margin = less(accuracies(0.9 + ahead, name="b"), base, strict=True)
        assert (margin.met, margin.firm) == (ahead > 0, firm)
        assert math.isnan(margin.p), "a p value is of seeds"
    margin = less(accuracies(0.91, name="b"), base)
    reach = 1.959964 * math.sqrt(0.9 * 0.1 / 1e4 + 0.91 * 0.09 / 1e4)
    assert (margin.low, margin.high) == pytest.approx((0.01 - reach, 0.01 + reach))
    assert base.above(0.893).firm
    assert not base.above(0.895).firm
    assert not base.below(0.905).firm


def test_two_seeds_decide_with_their_range_and_the_test_examples() -> None:
    margin = less(accuracies(0.91, 0.93), accuracies(0.9, 0.9))
    reach = 1.959964 * math.sqrt(0.92 * 0.08 / 1e4 + 0.9 * 0.1 / 1e4)
    assert (margin.low, margin.high) == pytest.approx((0.01 - reach, 0.03 + reach))


def test_three_seeds_have_no_other_error_than_theirs() -> None:
    three = less(accuracies(0.91, 0.92, 0.93), accuracies(0.9, 0.9, 0.9))
    assert (three.low, three.high) == pytest.approx(t_interval([0.01, 0.02, 0.03]))


def test_what_has_no_error_of_its_own_adds_none() -> None:
    loss = Sample("loss", (0.5,), ("x",))
    assert (loss.above(0.4).low, loss.above(0.4).high) == pytest.approx((0.1, 0.1))
    share = replace(loss, fraction=True)
    assert less(accuracies(0.9), share).low == pytest.approx(0.4 - 1.959964 * 0.003)


def test_a_mean_over_rounds_has_the_error_of_its_rounds() -> None:
    """Known on three degrees of freedom, whose t is 3.18; of two seeds, that of the wider one."""
    rounds = [[1, 2, 3, 4], [2, 2, 2, 2]]
    runs = RunSet("tricks", "lite").members(["niid"])[1:3]
    sample = Sample.over_rounds("a", runs, rounds)
    assert (sample.values, sample.seeds) == ((2.5, 2), (1, 2))
    assert sample.runs == (runs[0].id, runs[1].id)
    reach = 3.182446 * math.sqrt(5 / 3 / 4)
    assert sample.above(1).low == pytest.approx(1 - reach)
    one = Sample.over_rounds("a", runs[:1], rounds[:1])
    assert one.above(0).low == pytest.approx(2.5 - reach)
    assert one.above(0).firm
    assert not one.above(2).firm, "other rounds could turn it"


def test_means_over_as_many_rounds_are_compared_round_by_round() -> None:
    runs = RunSet("tricks", "lite").members(["niid"])[:1]
    swinging, calm = [0.1, 0.9, 0.2, 0.8], [0.5, 0.5, 0.5, 0.5]
    above = [value + 0.05 for value in swinging]
    one, low, flat, short = (
        Sample.over_rounds("a", runs, [rounds]) for rounds in (above, swinging, calm, calm[1:])
    )
    assert less(one, low).low == pytest.approx(0.05), "what both share cancels"
    alone = less(one, flat)
    assert (alone.value, alone.low) == pytest.approx((0.05, 0.05 - 3.182446 * 0.2041241))
    assert less(one, short).low == pytest.approx(alone.low), "of other rounds: independent"


def test_errors_of_rounds_and_of_test_examples_add_up() -> None:
    sample = replace(accuracies(0.9), error=Error(0.004))
    assert sample.above(0.5).low == pytest.approx(0.4 - 1.959964 * 0.005)


def test_a_mean_over_the_last_rounds_is_compared_with_the_means_before_it() -> None:
    runs = RunSet("tricks", "lite").members(["niid"])[:1]
    one, low = (
        Sample.over_rounds("a", runs, [rounds], last=2)
        for rounds in ([0.5, 0.5, 0.9, 0.7, 0.6, 0.6], [0.4, 0.4, 0.4, 0.4, 0.5, 0.5])
    )
    assert one.values == (pytest.approx(0.6),)
    margin = less(one, low)  # by 0.1, 0.4 and 0.1 in the three windows
    assert (margin.value, margin.low) == pytest.approx((0.1, 0.1 - 4.302653 * 0.1732051), abs=1e-6)


def test_a_margin_may_be_as_far_above_a_rank_correlation_as_resamples_are_below() -> None:
    """Noise only lowers it: three noisy seeds do not refute an order that they hide."""
    noisy = [(1.0, 3.0, 2.0, 4.0), (2.0, 1.0, 4.0, 3.0), (3.0, 1.5, 1.9, 4.2)]

    def rank(resamples: np.ndarray) -> np.ndarray:
        return rank_correlation(resamples.mean(axis=1), range(4)) - 0.9

    margin = Margin.by_bootstrap(rank, noisy, "rank", most=1.0)
    assert (margin.value, margin.low, margin.high) == pytest.approx((-0.1, -0.7, 0.5))
    assert not margin.firm
    assert Margin.by_bootstrap(rank, noisy, "rank", most=0.1).high == 0.1, "a perfect order"
    one_high = Margin.by_bootstrap(lambda some: some.mean(axis=1), [0, 0, 1], "mean", most=2)
    assert (one_high.low, one_high.high) == (0, 1), "a resample is farther above it than any below"


def test_a_weighted_sum_has_the_error_of_its_weights() -> None:
    margin = combined([(2, accuracies(0.5)), (-1, accuracies(0.8))], 0.1, "twice")
    reach = 1.959964 * math.sqrt(4 * 0.5 * 0.5 / 1e4 + 0.8 * 0.2 / 1e4)
    assert (margin.what, margin.value) == ("twice", pytest.approx(0.1))
    assert margin.high - margin.value == pytest.approx(reach)


def test_what_rests_on_one_seed_or_two_says_so() -> None:
    base = accuracies(0.9)
    firm, open_ = (compared([base], [base.above(bound)]) for bound in (0.8, 0.899))
    assert firm.few(1) == "one seed"
    assert open_.few(1) == "one seed, and other seeds, test examples or rounds could turn it"
    guess = accuracies(0.1)
    assert compared([guess], [guess.above(0.0999)]).few(1) == "one seed", "no seed could turn it"
    two = accuracies(0.9, 0.91)
    assert compared([two], [two.above(0.8)]).few(2) == "two seeds"
    three = accuracies(0.9, 0.91, 0.92)
    assert compared([three], [three.above(0.8)]).few(3) == ""
    assert Finding(True, "", ["x"]).few(1) == Finding(False, "", ["x"]).few(1) == "one seed"


def test_seeds_of_which_runs_are_missing_are_left_out():
    table = pd.DataFrame({"seed": [0, 0, 1, 2, 2], "value": range(5)})
    assert [*whole_seeds(table)["value"]] == [0, 1, 3, 4]
    assert [*whole_seeds(table[2:3])["value"]] == [2]


def test_a_margin_says_what_difference_it_is() -> None:
    one, other = Sample("a", (0.5, 0.7), ("x", "y")), Sample("b", (0.4, 0.5), ("z", "w"))
    margins = [
        less(one, other),
        less(one, other, 0.02),
        less(one, other, -0.02),
        one.above(0.4),
        one.below(0.4),
        steadier(one, other),
        steady(one, 0.05),
        steady(RUN, 0.05),
    ]
    assert [margin.what for margin in margins] == [
        "a - b",
        "a - b - 0.02",
        "a - b + 0.02",
        "a - 0.4",
        "0.4 - a",
        "sd of b / sd of a - 1",
        "0.05 - sd of a",
        "0.05 - sd of a",
    ]
    assert [margin.value for margin in margins[:5]] == pytest.approx([0.15, 0.13, 0.17, 0.2, -0.2])
    assert {margin.unit for margin in margins} == {""}


def test_margins_of_fractions_are_in_points() -> None:
    one, other = (
        Sample("a", (0.5, 0.7), ("x", "y"), fraction=True),
        Sample("b", (0.4, 0.5), ("z", "w"), on=TEN),
    )
    margins = [
        less(one, other, 0.02),
        less(other, one, -0.01),
        one.above(0.955),
        other.below(0.4),
        steady(one, 0.005),
    ]
    assert [margin.what for margin in margins] == [
        "a - b - 2 points",
        "b - a + 1 point",
        "a - 95.5 %",
        "40 % - b",
        "0.5 points - sd of a",
    ]
    assert {margin.unit for margin in margins} == {"points"}
    assert steadier(one, other).unit == "", "a ratio"
    with pytest.raises(ValueError, match="a and c have no difference: only some"):
        less(one, Sample("c", (3.0, 4.0), ("u", "v")))


def test_parts_that_hold_together_are_open_where_each_decides_nothing() -> None:
    held = compared([RUN], [RUN.above(0.4)])
    failed = compared([Sample("b", (0.1,), ("y",), on=TEN)], [RUN.above(0.6)])
    both = together([held, failed], 0.5)
    assert (both.holds, both.ours, both.runs) == (False, 0.5, ["x", "y"])
    assert both.evidence == "a 50.00 %; b 10.00 %"
    assert [margin.met for margin in both.margins] == [True, False]
    assert (held.undecided, failed.undecided != "", both.undecided) == ("", True, "")
    assert together([failed, held], None).undecided == ""
    assert together([failed, failed], None, "told").undecided == failed.undecided
    assert together([failed, failed], None, "told").evidence == "told"
    assert together([held, held], None).holds


def test_a_tie_at_one_hundred_per_cent_decides_nothing() -> None:
    def share(runs: RunSet, what: str, *, fraction: bool = True) -> Sample:
        values = (1.0, 1.0) if what == "full" else (1.0, 0.9)
        return Sample(what, values, ("x", "y"), fraction=fraction)

    tie = decided(leads(share), what="full", over="full")
    assert (tie.holds, tie.firm) == (False, False)
    assert tie.undecided == "all are at 100 %, which decides nothing"
    assert not decided(leads(share), what="full", over="part").undecided
    assert not decided(between(share), what="full").undecided
    assert not decided(leads(share), what="full", over="full", fraction=False).undecided


@pytest.mark.parametrize("rule", [leads, near, between])
def test_rules_take_their_values_and_those_of_the_quantity_alone(rule: Any) -> None:
    signature = inspect.signature(rule(made_up))
    values = {"what": "a", "over": "b", "to": "b", "points": 1}
    taken = {key: value for key, value in values.items() if key in signature.parameters}
    signature.bind(None, **taken, shift=1)
    with pytest.raises(TypeError, match="unexpected keyword argument 'moved'"):
        signature.bind(None, **taken, moved=1)
    with pytest.raises(TypeError, match="missing a required argument: 'what'"):
        signature.bind(None, shift=1)


def test_a_value_that_the_quantity_needs_is_asked_for() -> None:
    def of_data(runs: RunSet, what: str, *, dataset: str, **where: str) -> Sample:
        return Sample(f"{what}, {dataset}, {where}", (0.5,), ("a",))

    rule = between(of_data)
    with pytest.raises(TypeError, match="missing a required argument: 'dataset'"):
        inspect.signature(rule).bind(None, what="a", low=10)
    values = {"what": "a", "dataset": "mnist", "anything": "more"}
    inspect.signature(rule).bind(None, **values)
    assert "a, mnist, {'anything': 'more'}" in decided(rule, **values).evidence


def test_rules_are_kept_by_name_and_say_what_where_takes() -> None:
    def chosen(runs: RunSet, what: str, *, dataset: str, kind: str = "") -> str:
        return f"{what} {dataset} {kind}"

    rules = Rules(where=chosen)

    @rules.add
    def known(runs: RunSet, *, what: str, kind: str, **where: Any) -> Finding:
        return Finding(True, chosen(runs, what, kind=kind, **where), [])

    rules.add(near(made_up), "close")
    assert list(rules) == ["known", "close"]
    assert decided(rules["known"], what="a", kind="b", dataset="c").evidence == "a c b"
    assert list(inspect.signature(known).parameters) == ["runs", "what", "kind", "dataset"]
    with pytest.raises(TypeError, match="unexpected keyword argument 'data'"):
        inspect.signature(known).bind(None, what="a", kind="b", dataset="c", data="d")


def test_a_quantity_without_values_is_refused() -> None:
    def none(runs: RunSet, what: str) -> Sample:
        return Sample(what, (), ())

    with pytest.raises(FedreproError, match=r"tricks\.yaml: scales\.lite: FL has no run, which a"):
        decided(between(none), what="FL")


@pytest.fixture
def runs(tmp_path: Path) -> RunSet:
    recorded = RunSet("tricks", "lite", tmp_path)
    for run in recorded.members(["niid"]):
        accuracy = 0.5 + 0.01 * run.seed
        metrics = {"evaluated_rounds": [18], "accuracy": [accuracy]}
        records.write(content(run, metrics=metrics, final={"accuracy": accuracy}), tmp_path)
    return recorded


def test_the_final_accuracy_of_a_group(runs: RunSet) -> None:
    sample = final_accuracy(runs, "niid")
    assert sample.name == "FL - NIID(5)"
    assert sample.values == (0.5, 0.51, 0.52, 0.53, 0.54, 0.55, 0.56)
    assert sample.mean == pytest.approx(0.53)
    assert sample.on == TEN
    assert sample.runs == tuple(run.id for run in runs.members(["niid"]))
    with pytest.raises(FedreproError, match=r"no group of runs 'nid' \(did you mean 'niid'\?"):
        final_accuracy(runs, "nid")
    with pytest.raises(FedreproError, match=r"scales\.lite: ResNet-9 \(cadis\) has no run"):
        final_accuracy(RunSet("precision", "lite"), "resnet9")


@pytest.mark.parametrize(
    ("distance", "sd", "seeds"),
    [(1.0, 1.0, 10), (2.0, 1.0, 5), (0.5, 1.0, 34), (10.0, 1.0, 3), (0.001, 1.0, MOST_SEEDS)],
)
def test_seeds_needed_are_those_of_tables_of_power(distance: float, sd: float, seeds: int) -> None:
    assert seeds_needed(distance, sd) == seeds


def test_one_part_of_many_fails_a_claim_only_after_correction_for_their_number() -> None:
    """p is 0.017: below 0.025, but not below half of it."""
    unmet, met = Margin.of([-1.5, -1.0, -0.8]), Margin.of([0.9, 1.0, 1.1])
    assert unmet.firm
    assert LEVEL / 2 < unmet.p < LEVEL
    assert Finding(False, "", [], margins=[unmet]).firm
    both = Finding(False, "", [], margins=[unmet, met])
    assert not both.firm
    assert both.p == pytest.approx(2 * unmet.p)
    assert both.needed == unmet.needed(LEVEL / 2)
    assert Finding(False, "", [], margins=[Margin.of([-1.8, -1.0]), met]).firm  # both seeds agree
    assert Finding(False, "", [], margins=[Margin.of([-1.0] * 3), met]).firm  # without a p value
    assert Finding(False, "", [], margins=[Margin.of([-1.8, -1.0]), met]).seeds == 2


def test_the_seeds_of_a_claim_are_those_that_decide_it() -> None:
    few, many = Margin.of([0.9, 1.0]), Margin.of([1.0, 1.1, 1.2, 1.3])
    assert Finding(True, "", [], margins=[few, many]).seeds == 2, "all have to be met"
    fails = Margin.of([-1.0, -1.1, -1.2, -1.3])
    assert Finding(False, "", [], margins=[few, fails]).seeds == 4, "one that fails is enough"
    assert Finding(False, "", [], margins=[fails, Margin.of([-1.0, -1.1, -1.2])]).seeds == 4
    assert Finding(False, "", [], margins=[few, Margin.of([-9.0, 1, 1, 1])]).seeds == 2, "open"


def test_what_is_open_says_how_many_seeds_would_decide_it() -> None:
    firm, wide = Margin.of([0.9, 1.0, 1.1]), Margin.of([0.2, 1.0, 1.8])
    wider, unmet = Margin.of([-0.5, 1.0, 2.5]), Margin.of([-1.6, -1.0, 0.5])
    unknown = Margin(0.1, -0.1, 0.3, 0.2, 3)
    assert firm.firm
    assert Margin.of([0.0, 1.0, 2.0]).needed() == 10  # the table of power above
    assert wider.needed() > wide.needed()
    assert unmet.needed(LEVEL / 2) > unmet.needed()

    def needed(*margins: Margin, undecided: str = "") -> int | None:
        return Finding.of(margins, "", ["run"], undecided=undecided).needed

    assert needed(firm) is None
    assert needed(firm, wide, wider) == wider.needed()  # all have to be firm
    assert needed(wider, unmet) == unmet.needed(LEVEL / 2)  # one that is not met is enough
    worse = Margin.of([-3.0, -1.0, 1.5])
    assert needed(unmet, worse) == unmet.needed(LEVEL / 2) < worse.needed(LEVEL / 2)
    assert needed(wide, unknown) is None
    assert needed(unmet, Margin(-0.1, -0.3, 0.1, 0.2, 3)) == unmet.needed(LEVEL / 2)
    assert needed(wide, undecided="near chance") is None
