"""Means, standard deviations and Student t intervals over seeds, by hand."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from fedrepro.report.stats import (
    NO_ERROR,
    Error,
    bootstrap,
    bounds,
    differences,
    error_of_mean,
    first_reaching,
    holm,
    in_order,
    jackknife,
    moving_average,
    one_sided_p,
    rank_correlation,
    sampling_error,
    sd_bounds,
    summarise,
    t_interval,
    total,
)


def test_a_level_is_reached_in_the_first_round_that_has_it() -> None:
    assert first_reaching({5: 0.2, 10: 0.7, 15: 0.6, 20: 0.8}, 0.65) == 10
    assert first_reaching({5: 0.2, 10: 0.7 - 0.4}, 0.3) == 10, "decimal fractions are not exact"
    assert first_reaching({5: 0.2, 10: 0.3}, 0.31) is None


def test_the_interval_of_three_values() -> None:
    """Mean 2, sd 1; 97.5 % of a t distribution with two degrees of freedom lie below 4.3027."""
    reach = 4.3027 / math.sqrt(3)
    assert t_interval([1, 2, 3]) == pytest.approx((2 - reach, 2 + reach), abs=1e-3)
    assert t_interval([1, 2, 3]) == pytest.approx((-0.484, 4.484), abs=1e-3)


@pytest.mark.parametrize("values", [[], [0.5]])
def test_too_few_values_have_no_interval(values: list[float]) -> None:
    assert all(map(math.isnan, t_interval(values)))


def test_fewer_than_three_values_are_bounds_themselves() -> None:
    assert bounds([0.5]) == (0.5, 0.5)
    assert bounds([0.6, 0.5]) == (0.5, 0.6)
    assert bounds([1, 2, 3]) == t_interval([1, 2, 3]) == bounds([1, 2, 3], Error(9))
    assert bounds([0.6, 0.5], Error(0.1)) == pytest.approx((0.304, 0.796), abs=1e-4)


def test_the_error_that_accuracies_have_from_their_test_examples() -> None:
    assert sampling_error(0.9, 10_000) == pytest.approx(0.003)
    assert sampling_error(0.9, 2_500) == pytest.approx(0.006)
    assert sampling_error(1.0, 10) == 0
    assert sampling_error(1 + 1e-9, 10) == 0, "means of records are not exact"


def test_the_error_of_a_mean_over_rounds() -> None:
    assert error_of_mean([1, 2, 3, 4]) == Error(0, pytest.approx(math.sqrt(5 / 3 / 4)), 3)
    assert error_of_mean([0.5]) == NO_ERROR


def test_many_rounds_that_are_like_the_one_before_are_averaged_by_tens() -> None:
    slow = np.repeat([1.0, 2.0, 3.0, 4.0, 5.0], 10)
    assert error_of_mean(slow) == Error(0, pytest.approx(math.sqrt(2.5 / 5)), 4)
    assert error_of_mean([9.0, *slow]) == error_of_mean(slow), "the first ones are left out"
    turning = np.tile([1.0, 2.0, 3.0, 4.0, 5.0], 10)
    assert error_of_mean(turning).freedom == 49, "tens scatter less than the rounds themselves"


def test_a_mean_over_the_last_rounds_has_the_scatter_of_such_means() -> None:
    """Three windows of two rounds, with the means 1, 3 and 2; the first round is left out."""
    assert error_of_mean([9, 0, 2, 3, 3, 1, 3], last=2) == Error(0, pytest.approx(1.0), 2)
    assert error_of_mean([0, 2, 3, 3], last=2) == Error(0, pytest.approx(math.sqrt(2)), 1)
    assert error_of_mean([9, 1, 3], last=2) == error_of_mean([1, 3]), "one window tells nothing"


def test_an_error_of_few_values_reaches_as_far_as_their_t_quantile() -> None:
    assert Error(2.0).reach == pytest.approx(2 * 1.959964)
    assert Error(0, 2.0, 2).reach == pytest.approx(2 * 4.302653)
    assert Error(1.0, 2.0, 2).times(-3) == Error(3.0, 6.0, 2)


def test_the_error_of_a_sum_has_the_freedom_of_what_counts_in_it() -> None:
    assert total([Error(3.0), Error(4.0)]) == Error(5.0)
    assert total([Error(0, 3.0, 2)] * 2) == Error(0, pytest.approx(math.sqrt(18)), 4)
    assert total([Error(0, 3.0, 2), NO_ERROR]) == Error(0, 3.0, 2)
    assert total([]) == NO_ERROR


def test_a_known_error_widens_an_interval_which_holds_as_often_as_it_says() -> None:
    """Standard deviations 2.6 and 0.1 of three values each, and a known one of 0.6."""
    estimates = [Error(0, 2.6, 2), Error(0, 0.1, 2)]
    assert total([*estimates, Error(0.6)]).reach > total(estimates).reach
    rng, draws = np.random.default_rng(0), 2_000
    held = 0
    for sds in np.array([2.6, 0.1]) * np.sqrt(rng.chisquare(2, (draws, 2)) / 2):
        off = rng.normal(0, math.hypot(2.6, 0.1, 0.6))
        held += abs(off) < total([Error(0.6), *(Error(0, sd, 2) for sd in sds)]).reach
    assert held / draws > 0.94


def test_the_interval_of_a_standard_deviation() -> None:
    """Chi-square with four degrees of freedom: 2.5 % below 0.48442, 2.5 % above 11.1433."""
    expected = (math.sqrt(4 / 11.1433), math.sqrt(4 / 0.48442))
    assert sd_bounds(1, 5) == pytest.approx(expected, abs=1e-4)


def test_the_jackknife_of_a_mean_is_the_values() -> None:
    values = {3: 0.2, 5: 0.5, 9: 1.1}
    found = jackknife(lambda seeds: sum(values[s] for s in seeds) / len(seeds), [*values])
    assert found == pytest.approx([*values.values()])


def test_the_jackknife_of_any_statistic_has_it_as_its_mean() -> None:
    values = [4.0, 1.0, 9.0, 2.0]
    found = jackknife(lambda some: max(values[i] for i in some), range(4))
    assert sum(found) / 4 == pytest.approx(9)
    assert jackknife(lambda some: max(values[i] for i in some), [2]) == [9.0]


def mean(resamples: np.ndarray) -> np.ndarray:
    """Return the mean of each resample."""
    return resamples.mean(axis=1)


def test_the_bootstrap_counts_all_resamples() -> None:
    """Percentiles of three seeds are expanded by t: 20 % become 9.69 %, and 5 % all but nothing."""
    values = [0.2, 0.5, 1.1]
    assert bootstrap(mean, values) == pytest.approx((0.2, 1.1))
    assert bootstrap(mean, values, confidence=0.9) == pytest.approx((0.2, 1.1))
    drawn = np.random.default_rng(0).choice(values, (20_000, 3)).mean(axis=1)
    low, high = bootstrap(mean, values, confidence=0.6)
    assert np.quantile(drawn, [0.0969, 0.9031]) == pytest.approx([low, high])
    assert bootstrap(mean, [0.5]) == (0.5, 0.5)


def test_the_bootstrap_covers_a_mean_of_few_values_about_as_often_as_it_says() -> None:
    """Five normal values, 400 times: 94 % is the most that their range can cover."""
    drawn = np.random.default_rng(0).normal(size=(400, 5))
    intervals = [bootstrap(mean, values) for values in drawn]
    assert np.mean([low <= 0 <= high for low, high in intervals]) > 0.9


def test_the_bootstrap_sees_a_spread_where_the_jackknife_has_none() -> None:
    """A median without any one of five values is where it was if three of them are equal."""
    values = np.array([0.1, 0.5, 0.5, 0.5, 0.9])
    assert jackknife(lambda some: float(np.median(values[[*some]])), range(5)) == [0.5] * 5
    assert bootstrap(lambda resamples: np.median(resamples, axis=1), values) == (0.1, 0.9)


def test_the_bootstrap_resamples_whole_seeds() -> None:
    """A seed may have several values: here two that differ by 1 whichever seeds are drawn."""
    values = np.array([[0.2, 1.2], [0.5, 1.5], [1.1, 2.1]])
    found = bootstrap(lambda resamples: np.ptp(resamples.mean(axis=1), axis=-1), values)
    assert found == pytest.approx((1, 1))


def test_a_rank_correlation_is_that_of_pandas_along_the_last_axis() -> None:
    rows = np.random.default_rng(0).integers(0, 5, (50, 6)) / 10  # with ties
    other = [0.0, 0.3, 0.7, 1.1, 1.1, 1.8]
    expected = [pd.Series(row).rank().corr(pd.Series(other).rank()) for row in rows]
    assert rank_correlation(rows, pd.Index(other)) == pytest.approx(expected)
    assert rank_correlation([1.0, 2.0, 4.0], [5.0, 6.0, 5.5]) == pytest.approx(0.5)


def test_means_that_differ_by_rounding_have_one_rank() -> None:
    assert 0.1 + 0.2 > 0.3
    assert rank_correlation([0.1 + 0.2, 0.3, 0.4], [1, 2, 3]) == pytest.approx(math.sqrt(3) / 2)
    assert math.isnan(rank_correlation([0.1 + 0.2, 0.3], [1, 2])), "there is no order"


@pytest.mark.parametrize(
    ("values", "p"),
    [
        ([1, 2, 3], 0.0371),
        ([-1, -2, -3], 0.0371),
        ([1, 3], 0.1476),
        ([0.2, 0.2], math.nan),
        ([0.0, 0.0], math.nan),
        ([0.1 + 0.2, 0.3], math.nan),
        ([1], math.nan),
    ],
)
def test_how_likely_a_mean_is_by_chance(values: list[float], p: float) -> None:
    """Mean 2: t = 3.4641 with two degrees of freedom, 2 with one."""
    assert one_sided_p(values) == pytest.approx(p, abs=1e-4, nan_ok=True)


def test_many_p_values_are_adjusted_for_their_number() -> None:
    """Holm: 0.01 times four, 0.02 times three, then at least as much, at most 1."""
    assert holm([0.02, 0.9, 0.01, 0.03]) == pytest.approx([0.06, 0.9, 0.04, 0.06])
    assert holm([0.6, 0.9]) == [1, 1]
    assert holm([]) == []


def test_cells_keep_their_order_and_list_their_seeds_in_order() -> None:
    runs = pd.DataFrame(
        [
            ("late", 2, "c", 1.0),
            ("early", 0, "d", 0.1234567),
            ("late", 0, "a", 4.0),
            ("late", 1, "b", 1.0),
        ],
        columns=["row", "seed", "run", "accuracy"],
    )
    late, early = summarise(runs, "accuracy", ["row"]).to_dict("records")
    assert (late["row"], late["values"], late["n"]) == ("late", (4, 1, 1), 3)
    assert late["runs"] == ("a", "b", "c")
    assert (late["mean"], late["sd"]) == pytest.approx((2.0, math.sqrt(3)))
    assert (late["low"], late["high"]) == pytest.approx((2 - 4.3027, 2 + 4.3027), abs=1e-3)
    assert (early["row"], early["values"], early["n"]) == ("early", (0.123457,), 1)
    assert early["runs"] == ("d",)
    assert early["mean"] == 0.1234567
    assert all(math.isnan(early[name]) for name in ("sd", "low", "high"))


def test_further_columns_of_a_cell_stand_behind_its_numbers() -> None:
    runs = pd.DataFrame(
        {"row": "a", "unit": ["count", "MB"], "seed": 0, "run": "r", "value": [1, 2]}
    )
    cells = summarise(runs, "value", ["row"], "unit")
    assert list(cells["unit"]) == ["count", "MB"]
    assert (cells.columns[0], cells.columns[-1]) == ("row", "unit")


def test_differences_are_of_rows_that_agree_and_have_the_ids_of_both() -> None:
    ones = pd.DataFrame({"row": list("abb"), "seed": [0, 0, 2], "run": list("pqr"), "x": [3, 5, 7]})
    others = pd.DataFrame({"row": "c", "seed": [1, 0], "run": ["s", "t"], "x": [1, 1]})
    found = differences(ones, others, "x", on=["seed"])
    assert found.to_dict("list") == {
        "row": ["a", "b"],
        "seed": [0, 0],
        "run": [("p", "t"), ("q", "t")],
        "x": [2, 4],
    }


def test_rows_are_put_in_an_order_and_others_stand_behind_them() -> None:
    table = pd.DataFrame({"row": list("xbaxcab"), "seed": range(7)})
    ordered = in_order(table, "row", ["c", "b", "a"])
    assert "".join(ordered["row"]) == "cbbaaxx"
    assert list(ordered["seed"]) == [4, 1, 6, 2, 5, 0, 3]


def test_moving_average() -> None:
    assert moving_average([1, 3, 5, 7], 2) == [1, 2, 4, 6]
    assert moving_average([2, 4], 10) == [2, 3]
