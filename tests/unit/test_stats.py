"""Means, standard deviations and Student t intervals over seeds, by hand."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from fedrepro.report.stats import summarise, t_interval


def test_the_interval_of_three_values() -> None:
    """Mean 2, sd 1; 97.5 % of a t distribution with two degrees of freedom lie below 4.3027."""
    reach = 4.3027 / math.sqrt(3)
    assert t_interval([1, 2, 3]) == pytest.approx((2 - reach, 2 + reach), abs=1e-3)
    assert t_interval([1, 2, 3]) == pytest.approx((-0.484, 4.484), abs=1e-3)


def test_another_confidence() -> None:
    """With one degree of freedom, 75 % lie below 1: half of the mass is between -1 and 1."""
    assert t_interval([1, 3], 0.5) == pytest.approx((1, 3))


@pytest.mark.parametrize("values", [[], [0.5]])
def test_too_few_values_have_no_interval(values: list[float]) -> None:
    assert all(map(math.isnan, t_interval(values)))


def test_cells_keep_their_order_and_list_their_seeds_in_order() -> None:
    runs = pd.DataFrame(
        [
            ("late", 2, "c", 4.0),
            ("early", 0, "d", 0.5),
            ("late", 0, "a", 1.0),
            ("late", 1, "b", 1.0),
        ],
        columns=["row", "seed", "run", "accuracy"],
    )
    late, early = summarise(runs, "accuracy", ["row"]).to_dict("records")
    assert (late["row"], late["values"], late["n"]) == ("late", (1, 1, 4), 3)
    assert late["runs"] == ("a", "b", "c")
    assert (late["mean"], late["sd"]) == pytest.approx((2.0, math.sqrt(3)))
    assert (late["low"], late["high"]) == pytest.approx((2 - 4.3027, 2 + 4.3027), abs=1e-3)
    assert (early["row"], early["values"], early["n"]) == ("early", (0.5,), 1)
    assert early["runs"] == ("d",)
    assert early["mean"] == 0.5
    assert all(math.isnan(early[name]) for name in ("sd", "low", "high"))
