"""The worst-case construction of Liu et al. 2020, appendix A."""

from __future__ import annotations

import numpy as np
import pytest

from fedrepro.papers.selective.theory import UnfairOptimum, federated_averaging

CASES = [
    UnfairOptimum(factor, share, gamma)
    for factor in (2.0, 5.0, 50.0)
    for share in (0.5, 0.1, 0.001)
    for gamma in (0.01, 3.0)
]


@pytest.mark.parametrize("case", CASES)
def test_the_construction_is_what_the_proof_asks_for(case):
    grid = np.linspace(-2, 2, 400_001) * case.distance
    every = case.losses(grid)
    minima = every.min(axis=0)
    assert minima[-1] == pytest.approx(case.own_minimum, rel=1e-6)
    # Gamma is what it is called, and Gamma / p_N = (C - 1) F_N*
    least = case.global_loss(grid).min()
    assert least == pytest.approx(case.global_minimum, rel=1e-6)
    assert least - minima @ case.weights == pytest.approx(case.gamma, rel=1e-4)
    assert case.gamma / case.share == pytest.approx((case.factor - 1) * minima[-1], rel=1e-6)
    # what node N is left with where the global loss is least
    at_best = every[case.global_loss(grid).argmin(), -1]
    assert at_best / minima[-1] == pytest.approx(case.limit, rel=1e-4)


def test_the_factor_is_reached_for_a_small_share_only():
    assert UnfairOptimum(5.0, 1e-4, 1.0).limit == pytest.approx(5.0, rel=1e-3)
    assert UnfairOptimum(5.0, 0.5, 1.0).limit == 3.0


@pytest.mark.parametrize("case", CASES)
def test_averaging_brings_the_global_loss_down_and_node_n_to_the_limit(case):
    w = federated_averaging(case, 300, 5, np.random.default_rng(0))
    excess = case.global_loss(w[:, 0]) - case.global_minimum
    assert excess[-1] < 1e-4 * excess[0]
    assert case.losses(w[-1])[0, -1] / case.own_minimum == pytest.approx(case.limit, rel=0.02)


def test_noise_leaves_an_excess_that_falls_with_the_rounds():
    case = UnfairOptimum(5.0, 0.05, 1.0)
    w = federated_averaging(case, 400, 5, np.random.default_rng(1), noise=1.0, repeats=400)
    excess = case.global_loss(w).mean(axis=1) - case.global_minimum
    # the bound of Li et al. is of order 1 / T
    assert excess[400] < 0.5 * excess[100] < 0.25 * excess[25]
    ratio = case.losses(w[-1]).mean(axis=0)[-1] / case.own_minimum
    assert ratio == pytest.approx(case.limit, rel=0.02)


def test_one_step_by_hand():
    case = UnfairOptimum(2.0, 0.25, 3 / 16, nodes=2)
    assert case.distance == 1
    # from -1: gradients -2 and -4, step 2 / (2 * 8): -0.75 and -0.5, mean by (3/4, 1/4)
    w = federated_averaging(case, 1, 1, np.random.default_rng(0))
    assert w[:, 0].tolist() == [-1.0, -0.6875]


def test_steps_are_counted_through_the_rounds():
    """Steps of 1/8, 1/9, 1/10 and 1/11 leave 3/4, 7/9, 4/5 and 9/11 of the distance to 1/4."""
    case = UnfairOptimum(2.0, 0.25, 3 / 16, nodes=2)
    w = federated_averaging(case, 2, 2, np.random.default_rng(0))
    assert w[:, 0] == pytest.approx([-1.0, -23 / 48, -5 / 22])


def test_more_local_steps_than_eight_begin_smaller():
    """Steps of 1/16, 1/17, ... 1/31 leave 14/16, 15/17, ... 29/31 of the distance: 7/31 in all."""
    case = UnfairOptimum(2.0, 0.25, 3 / 16, nodes=2)
    w = federated_averaging(case, 1, 16, np.random.default_rng(0))
    assert w[:, 0] == pytest.approx([-1.0, -1 / 31])


@pytest.mark.parametrize(
    "wrong", [(1.0, 0.1, 1.0), (2.0, 0.0, 1.0), (2.0, 1.0, 1.0), (2.0, 0.1, 0)]
)
def test_refuses_what_the_theorem_excludes(wrong):
    with pytest.raises(ValueError, match="needs factor"):
        UnfairOptimum(*wrong)
