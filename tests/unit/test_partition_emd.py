"""The exact EMD sampler: sums, realised distance, cyclic structure, distinct draws."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrepro.base.errors import FedreproError
from fedrepro.fl.partition import emd, statistics

SMALL = settings(max_examples=80)
SEEDS = st.integers(0, 2**32)
GRID = (0.0, 0.36, 0.72, 1.08, 1.44, 1.62, 1.764, 1.8)
FREE = (0.36, 0.72, 1.08, 1.44)


@st.composite
def levels(draw):
    """A feasible (emd, per_class, classes)."""
    classes = draw(st.integers(2, 12))
    per_class = classes * draw(st.integers(1, 60))
    share = draw(st.floats(0, 1))
    return share * 2 * (1 - 1 / classes), per_class, classes


@SMALL
@given(levels(), SEEDS)
def test_counts_have_sum_m_and_the_exact_distance(level, seed):
    distance, per_class, classes = level
    counts = emd.draw_counts(distance, per_class, classes, np.random.default_rng(seed))
    moved = emd.moved_examples(distance, per_class, classes)
    realised = Fraction(int(np.abs(counts - per_class // classes).sum()), per_class)
    assert counts.dtype == np.int64
    assert counts.shape == (classes,)
    assert counts.min() >= 0
    assert counts.sum() == per_class
    assert realised == Fraction(2 * moved, per_class)
    assert abs(float(realised) - distance) <= 1 / per_class + 1e-9


@SMALL
@given(levels(), SEEDS)
def test_federation_has_equal_sums_and_shifted_clients(level, seed):
    distance, per_class, classes = level
    rng = np.random.default_rng(seed)
    counts = emd.draw_counts(distance, per_class, classes, rng)
    labels = rng.permutation(np.repeat(np.arange(classes), per_class + rng.integers(0, 9, classes)))
    split = emd.emd_shift(labels, classes, counts, rng)
    held = statistics.class_counts(labels, split, classes)
    for client, label in itertools.product(range(classes), repeat=2):
        assert held[client, label] == counts[(label - client) % classes]
    assert held.sum(axis=0).tolist() == [per_class] * classes
    assert held.sum(axis=1).tolist() == [per_class] * classes
    assert len(set(np.concatenate(split).tolist())) == per_class * classes
    assert all(indices.dtype == np.int64 and np.all(np.diff(indices) > 0) for indices in split)
    moved = emd.moved_examples(distance, per_class, classes)
    assert statistics.emd(held) == pytest.approx(2 * moved / per_class, abs=1e-12)


@pytest.mark.parametrize(
    ("distance", "per_class", "moved"),
    [
        (0, 5000, 0),
        (0.36, 5000, 900),
        (1.08, 5400, 2916),
        (1.764, 5000, 4410),
        (1.764, 5400, 4763),  # realised 1.764074
        (1.764, 2900, 2558),  # realised 1.764138
        (1.8, 5400, 4860),
        (1.8, 2900, 2610),
        (0.36, 10, 2),  # realised 0.4: a small M is coarse
    ],
)
def test_moved_examples_by_hand(distance, per_class, moved):
    assert emd.moved_examples(distance, per_class, 10) == moved


def test_the_highest_distance_may_be_rounded_up():
    """Of six classes it is 5 / 3."""
    assert emd.moved_examples(1.6666666667, 6, 6) == 5


def test_small_case_by_hand():
    # 2 classes, M = 4, emd 0.5: one example moves, so the counts are (3, 1) or (1, 3)
    drawn = {
        tuple(emd.draw_counts(0.5, 4, 2, np.random.default_rng(seed)).tolist())
        for seed in range(20)
    }
    assert drawn == {(3, 1), (1, 3)}
    split = emd.emd_shift(np.repeat([0, 1], 4), 2, np.array([3, 1]), np.random.default_rng(0))
    labels = np.repeat([0, 1], 4)
    assert [labels[indices].tolist() for indices in split] == [[0, 0, 0, 1], [0, 1, 1, 1]]


def test_largest_fractions_are_rounded_up():
    rounded = emd._largest_remainder(np.array([0.2, 1.7, 3.5, 0.6]), 6)
    assert rounded.tolist() == [0, 2, 3, 1]
    assert emd._largest_remainder(np.array([6.0]), 6).tolist() == [6]


def test_extreme_levels_are_forced():
    rng = np.random.default_rng(0)
    assert emd.draw_counts(0, 50, 10, rng).tolist() == [5] * 10
    assert sorted(emd.draw_counts(1.8, 50, 10, rng)) == [0] * 9 + [50]
    assert max(emd.draw_counts(1.62, 5000, 10, rng)) == 4550
    assert max(emd.draw_counts(1.764, 5000, 10, rng)) == 4910


def test_number_of_low_classes_covers_its_range():
    # a class at exactly the mean may be a low class that gave nothing, so count those above it
    for distance, fewest_low in ((0.36, 2), (0.72, 4), (1.08, 6), (1.44, 8)):
        high = {
            int(np.sum(emd.draw_counts(distance, 5000, 10, np.random.default_rng(seed)) > 500))
            for seed in range(300)
        }
        assert high == set(range(1, 10 - fewest_low + 1))


def test_all_classes_are_treated_alike():
    drawn = [emd.draw_counts(0.72, 1000, 10, np.random.default_rng(seed)) for seed in range(2000)]
    deviation = np.abs(np.mean(drawn, axis=0) - 100)
    standard_error = np.std(drawn, axis=0) / np.sqrt(2000)
    assert np.all(deviation < 4.5 * standard_error)


@pytest.mark.parametrize("per_class", [5400, 5000, 2900, 500])
@pytest.mark.parametrize("distance", FREE)
def test_five_distributions_differ_up_to_a_shift(distance, per_class):
    drawn = [
        emd.draw_counts_for(distance, per_class, 10, index, np.random.default_rng)
        for index in range(5)
    ]
    for first, second in itertools.combinations(drawn, 2):
        for shift in range(10):
            assert np.abs(np.roll(first, shift) - second).sum() >= 0.02 * per_class


def test_distributions_that_differ_by_two_in_a_hundred_are_different():
    """One example of 25 moves to a class one, two or three further: three, and no more."""

    def drawn(index):
        return emd.draw_counts_for(0.02, 100, 4, index, np.random.default_rng)

    for first, second in itertools.combinations(map(drawn, range(3)), 2):
        assert min(emd.cyclic_distances(first, second[None])) == 2
    with pytest.raises(FedreproError, match="found only 3 different distributions"):
        drawn(3)


def test_coinciding_distribution_is_drawn_again_from_its_own_generator():
    def same(number):
        return np.random.default_rng(7)

    first, second = (emd.draw_counts_for(0.72, 500, 10, index, same) for index in (0, 1))
    rng = np.random.default_rng(7)
    assert first.tolist() == emd.draw_counts(0.72, 500, 10, rng).tolist()
    assert second.tolist() == emd.draw_counts(0.72, 500, 10, rng).tolist()
    assert first.tolist() != second.tolist()
    assert second.tolist() == emd.draw_counts_for(0.72, 500, 10, 1, same).tolist()


@pytest.mark.parametrize("distance", [0, 1.62, 1.764, 1.8])
def test_levels_without_freedom_are_not_compared(distance):
    asked = []

    def rng_for(number):
        asked.append(number)
        return np.random.default_rng(7)

    counts = emd.draw_counts_for(distance, 500, 10, 4, rng_for)
    assert asked == [4]
    alone = emd.draw_counts(distance, 500, 10, np.random.default_rng(7))
    assert counts.tolist() == alone.tolist()


@SMALL
@given(st.integers(1, 8), SEEDS)
def test_cyclic_distances_by_brute_force(classes, seed):
    rng = np.random.default_rng(seed)
    counts, others = rng.integers(0, 9, classes), rng.integers(0, 9, (4, classes))
    expected = [
        min(np.abs(np.roll(counts, shift) - other).sum() for shift in range(classes))
        for other in others
    ]
    assert emd.cyclic_distances(counts, others).tolist() == expected
    assert emd.cyclic_distances(counts, np.roll(counts, 3)[None]).tolist() == [0]
    assert emd.cyclic_distances(counts, others[:0]).shape == (0,)


@pytest.mark.parametrize(
    ("distance", "per_class", "classes", "text"),
    [
        (-0.1, 100, 10, r"emd must be in 0\.\.1\.8, .* got -0\.1"),
        (1.81, 100, 10, r"emd must be in 0\.\.1\.8, .* got 1\.81"),
        (float("nan"), 100, 10, "emd must be in .* got nan"),
        (1.0, 105, 10, "per_class must be a positive multiple of the 10 classes, got 105"),
        (1.0, 0, 10, "per_class must be a positive multiple of the 10 classes, got 0"),
        (1.0, 100, 1, "classes must be at least 2, got 1"),
    ],
)
def test_infeasible_levels(distance, per_class, classes, text):
    with pytest.raises(FedreproError, match=text):
        emd.draw_counts(distance, per_class, classes, np.random.default_rng(0))
    with pytest.raises(FedreproError, match=text):
        emd.draw_counts_for(distance, per_class, classes, 0, np.random.default_rng)


def test_a_series_is_that_of_comparing_each_distribution_with_all_before():
    series, redrawn = [], 0
    for number in range(25):
        rng = np.random.default_rng(number)
        counts = emd.draw_counts(0.1, 400, 4, rng)
        while any(
            np.abs(np.roll(counts, shift) - other).sum() < 8
            for other in series
            for shift in range(4)
        ):
            counts, redrawn = emd.draw_counts(0.1, 400, 4, rng), redrawn + 1
        series.append(counts)
    assert redrawn > 5
    for number, counts in enumerate(series):
        found = emd.draw_counts_for(0.1, 400, 4, number, np.random.default_rng)
        assert found.tolist() == counts.tolist()


def test_a_seed_that_numbers_too_many_distributions_is_refused_at_once():
    with pytest.raises(FedreproError, match=r"seed: .*; take a seed below 10000"):
        emd.draw_counts_for(0.36, 100, 4, 10_000, np.random.default_rng)
    assert emd.draw_counts_for(0, 100, 4, 20_240_101, np.random.default_rng).tolist() == [25] * 4


def test_infeasible_series():
    with pytest.raises(FedreproError, match="index must be 0 or more, got -1"):
        emd.draw_counts_for(0.36, 100, 10, -1, np.random.default_rng)
    # 3 classes, M = 3, emd 2/3: (2, 1, 0) and (2, 0, 1) are all there is up to a shift
    with pytest.raises(FedreproError, match=r"found only 2 different .* asked for number 4;"):
        emd.draw_counts_for(2 / 3, 3, 3, 4, np.random.default_rng)


@pytest.mark.parametrize(
    ("clients", "counts", "text"),
    [
        (2, [2, 1, 0], "clients must be 3, the number of classes, .* got 2"),
        (2, [2, 1], "counts must have one number for each of the 3 classes, got 2"),
        (3, [5, 1, 0], r"per_class must be in 1\.\.5, the size of the smallest class, got 6"),
        (3, [5, 1, -1], r"counts must be a list of numbers from 0, got \[5, 1, -1\]"),
        (0, [], "counts must be a list"),
    ],
)
def test_infeasible_federations(clients, counts, text):
    labels = np.repeat(np.arange(3), [5, 6, 7])
    counts = np.array(counts, dtype=np.int64)
    with pytest.raises(FedreproError, match=text):
        emd.emd_shift(labels, clients, counts, np.random.default_rng(0))
