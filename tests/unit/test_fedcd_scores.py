"""Scores of FedCD against numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrepro.fl.algorithms.fedcd_scores import (
    best,
    dropped,
    loser_of_two,
    noisy,
    noisy_as_run,
    normalised,
    raw_score,
)

SCORES = st.floats(1e-6, 1)


@pytest.mark.parametrize(
    ("history", "score"),
    [
        ([0.4, 0.6], 0.6),
        ([0.4, 0.6, 0.8], 0.6),
        ([0.1, 0.4, 0.6, 0.8], 0.6),
        ([0.0], 1e-5),
        ([0.9, 0.0, 0.0, 0.0], 1e-5),
    ],
)
def test_window(history, score):
    assert raw_score(history, 3) == pytest.approx(score)


def test_a_window_of_one_is_the_last_accuracy():
    assert raw_score([0.1, 0.4, 0.8], 1) == 0.8


def test_scores_sum_to_one_over_the_active_models():
    histories = {0: [0.6], 1: [0.3], 2: [0.9]}
    assert normalised(histories, [0, 1], 3) == pytest.approx({0: 2 / 3, 1: 1 / 3})


def test_as_run_inactive_models_stay_in_the_sum():
    histories = {0: [0.6], 1: [0.3], 2: [0.9]}
    assert normalised(histories, [0, 1], 3, 3) == pytest.approx({0: 1 / 3, 1: 1 / 6})
    never = normalised(histories, [0, 1], 3, 5)  # two more that the device never had, at 1e-5 each
    assert never == pytest.approx({0: 0.6 / 1.80002, 1: 0.3 / 1.80002}, rel=1e-9)


def test_first_split_is_accuracy_against_the_rest():
    assert normalised({0: [0.6], 1: [0.4]}, [0, 1], 3) == pytest.approx({0: 0.6, 1: 0.4})


@given(SCORES, SCORES, st.sampled_from([2, 3]), st.sampled_from(["code", "paper"]))
def test_two_models_survive_the_deviation_rule(a, b, created, rule):
    assert dropped({4: a, 7: b}, rule, created) == []


@given(st.lists(SCORES, min_size=1, max_size=8), st.integers(1, 16))
def test_the_best_model_is_never_deleted(values, created):
    scores = dict(enumerate(values))
    for rule in ("code", "paper"):
        assert best(scores) not in dropped(scores, rule, created)


@pytest.mark.parametrize(
    ("values", "gone"),
    [
        ((0.45, 0.45, 0.10), [2]),  # mean 1/3, sd 0.2021; 0.2333 below the mean
        ((0.40, 0.35, 0.25), [2]),  # sd 0.0764; 0.0833 below
        ((0.40, 0.30, 0.30), []),  # sd 0.0577; 0.0333 below
        ((0.42, 0.32, 0.26), []),  # sd 0.0808, not the population's 0.0660; 0.0733 below
        ((0.25, 0.25, 0.25, 0.25), []),
        ((1.0,), []),
    ],
)
def test_deviation_rule_of_the_code(values, gone):
    assert dropped(dict(enumerate(values)), "code", 3) == gone


@pytest.mark.parametrize("accuracies", [(0.4, 0.3, 0.2), (0.9, 0.8, 0.7)])
def test_one_deviation_below_the_mean_is_not_more_than_one(accuracies):
    """Of three scores at equal distances; in floating point the lowest is further below."""
    scores = normalised({m: [accuracy] for m, accuracy in enumerate(accuracies)}, [0, 1, 2], 3)
    assert dropped(scores, "code", 3) == []


@pytest.mark.parametrize(
    ("values", "gone"),
    [
        ((0.45, 0.45, 0.10), [2]),  # 0.35 below the highest, sd 0.2021
        ((0.40, 0.35, 0.25), [2]),  # 0.15 below, sd 0.0764; 0.05 is not
        ((0.40, 0.30, 0.30), [1, 2]),  # 0.10 below, sd 0.0577
        ((0.40, 0.355, 0.30), [2]),  # 0.045 and 0.10 below, sd 0.0501; the population's is 0.0409
        ((0.5, 0.3, 0.1, 0.1), [1, 2, 3]),  # 0.2 and 0.4 below, sd 0.1915: one is left
        ((0.9, 0.1), []),
        ((1 / 3, 1 / 3, 1 / 3), []),
        ((1.0,), []),
    ],
)
def test_deviation_rule_of_the_paper(values, gone):
    assert dropped(dict(enumerate(values)), "paper", 3) == gone


def test_a_tenth_of_the_best_goes_once_more_than_three_models_were_created():
    scores = {0: 0.92, 5: 0.08}
    assert dropped(scores, "code", 3) == []
    assert dropped(scores, "code", 4) == [5]
    assert dropped({0: 0.9, 5: 0.1}, "code", 4) == []
    assert dropped({0: 1.0, 5: 0.1}, "code", 4) == []


class Draws:
    """A generator that draws a given place and a given noise of standard deviation 0.01."""

    def __init__(self, models, place, noise):
        self.models, self.place, self.noise = models, place, noise

    def integers(self, n):
        assert n == self.models
        return self.place

    def normal(self, mean, sd):
        assert (mean, sd) == (0, 0.01)
        return self.noise


def test_noise_by_hand():
    noise = noisy({0: 0.5, 3: 0.3, 4: 0.2}, 0.01, Draws(3, 1, 0.02))
    assert noise == pytest.approx({0: 0.49, 3: 0.32, 4: 0.19})


@given(st.lists(st.floats(0.1, 1), min_size=2, max_size=6), st.integers(0, 99))
def test_noise_cancels(values, seed):
    scores = dict(enumerate(values))
    noise = noisy(scores, 0.01, np.random.default_rng(seed))
    assert sum(noise.values()) == pytest.approx(sum(values))
    assert noise != scores


def test_noise_stops_at_zero_and_spares_a_single_model():
    draws = Draws(2, 0, -0.2)
    assert noisy({0: 0.1, 1: 0.9}, 0.01, draws) == pytest.approx({0: 0.0, 1: 1.1})
    assert noisy({2: 1.0}, 0.01, draws) == {2: 1.0}
    assert noisy({0: 0.4, 1: 0.6}, 0.0, draws) == {0: 0.4, 1: 0.6}


@pytest.mark.parametrize(
    ("scores", "gone", "noise", "expected"),
    [
        # without dead models it is the noise above, and the sum is 1 again
        ({0: 0.5, 1: 0.3, 2: 0.2}, [], 0.02, {0: 0.52, 1: 0.29, 2: 0.19}),
        # 0.02 less for the dead models 2 and 3, too: 0.02 more for all four, of 0.84 in sum
        ({0: 0.4, 1: 0.4}, [], 0.02, {0: 0.44 / 0.84, 1: 0.4 / 0.84}),
        # 0.02 more for them: they keep 0.04 of 0.84
        ({0: 0.4, 1: 0.4}, [], -0.02, {0: 0.38 / 0.84, 1: 0.42 / 0.84}),
        # the noise goes to a model that was just deleted; the others lose or win half of it
        ({0: 0.05, 1: 0.5, 3: 0.4}, [0], 0.02, {1: 0.5 / 0.93, 3: 0.4 / 0.93}),
        # a single model: the noise is its own, and cancels
        ({1: 0.3}, [], 0.02, {1: 1.0}),
    ],
)
def test_noise_as_run_by_hand(scores, gone, noise, expected):
    created = max(4 if len(scores) == 2 else 0, max(scores) + 1)
    draws = Draws(len(scores), 0, noise)
    assert noisy_as_run(scores, gone, created, 0.01, draws) == pytest.approx(expected)


@given(st.dictionaries(st.integers(0, 7), st.floats(0.05, 1), min_size=1), st.integers(0, 99))
def test_noise_as_run_leaves_no_negative_score_and_a_sum_of_at_most_one(values, seed):
    share = sum(values.values()) + 0.3
    scores = {m: value / share for m, value in values.items()}
    noise = noisy_as_run(scores, [], 8, 0.01, np.random.default_rng(seed))
    assert noise.keys() == scores.keys()
    assert min(noise.values()) >= 0
    assert sum(noise.values()) <= 1 + 1e-9


@pytest.mark.parametrize(
    ("scores", "loser"),
    [
        ({0: 0.7, 1: 0.3}, 1),
        ({0: 0.69, 1: 0.31}, None),
        ({2: 0.1, 5: 0.9}, 2),
        ({0: 1.0}, None),
        ({0: 0.8, 1: 0.1, 2: 0.1}, None),
    ],
)
def test_the_worse_of_two_goes_by_its_score(scores, loser):
    assert loser_of_two(scores, "score", 0.3) == loser


def test_as_run_the_worse_of_two_goes_by_the_gap():
    assert loser_of_two({0: 0.76, 1: 0.24}, "gap", 0.5) == 1
    assert loser_of_two({0: 0.75, 1: 0.25}, "gap", 0.5) is None
    assert loser_of_two({0: 0.4, 1: 0.0}, "gap", 0.5) is None


def test_of_equals_the_lowest_index_is_best():
    assert best({7: 0.4, 3: 0.4, 1: 0.2}) == 3
