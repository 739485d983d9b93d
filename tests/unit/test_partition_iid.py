"""IID partitions: every example once, equal sizes, equal class shares."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrepro.base.errors import FedreproError
from fedrepro.fl.partition import iid
from fedrepro.fl.partition.statistics import class_counts, digest

SMALL = settings(max_examples=60)
LABELS = st.lists(st.integers(0, 5), min_size=1, max_size=120).map(np.array)
SEEDS = st.integers(0, 2**32)


def used(clients):
    """All examples of all clients, with repetitions, ascending."""
    return np.sort(np.concatenate(clients)).tolist()


def assert_well_formed(clients):
    for indices in clients:
        assert indices.dtype == np.int64
        assert np.all(np.diff(indices) > 0)


@SMALL
@given(LABELS, SEEDS, st.data())
def test_plain_uses_every_example_once_in_equal_sizes(labels, seed, data):
    clients = data.draw(st.integers(1, labels.size))
    split = iid.plain(labels, clients, np.random.default_rng(seed))
    assert_well_formed(split)
    sizes = [indices.size for indices in split]
    assert len(split) == clients
    assert used(split) == list(range(labels.size))
    assert max(sizes) - min(sizes) <= 1


@SMALL
@given(LABELS, SEEDS, st.data())
def test_stratified_uses_every_example_once_and_balances_classes(labels, seed, data):
    clients = data.draw(st.integers(1, labels.size))
    split = iid.stratified(labels, clients, np.random.default_rng(seed))
    assert_well_formed(split)
    counts = class_counts(labels, split, 6)
    assert used(split) == list(range(labels.size))
    assert np.all(np.ptp(counts, axis=0) <= 1)
    assert np.ptp(counts.sum(axis=1)) <= 1


@SMALL
@given(
    st.lists(st.integers(12, 20), min_size=1, max_size=5),
    st.sampled_from([(1, 12), (2, 6), (3, 12), (4, 8), (6, 12), (12, 12)]),
    SEEDS,
)
def test_stratified_with_per_class_is_exact(sizes, clients_and_kept, seed):
    clients, kept = clients_and_kept
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    split = iid.stratified(labels, clients, rng, per_class=kept)
    assert_well_formed(split)
    assert np.all(class_counts(labels, split, len(sizes)) == kept // clients)
    assert len(set(used(split))) == kept * len(sizes)


def test_seeds_give_different_splits_and_the_surplus_is_random():
    labels = np.repeat(np.arange(3), 50)
    splits = [iid.stratified(labels, 5, np.random.default_rng(s), per_class=20) for s in range(3)]
    assert len({digest(split) for split in splits}) == 3
    assert len({tuple(used(split)) for split in splits}) == 3
    assert digest(splits[0]) == digest(
        iid.stratified(labels, 5, np.random.default_rng(0), per_class=20)
    )


def test_neighbouring_examples_are_spread_over_clients():
    split = iid.plain(np.zeros(1000, dtype=np.int64), 2, np.random.default_rng(0))
    alternations = np.count_nonzero(np.diff(np.isin(np.arange(1000), split[0])))
    assert 400 < alternations < 600


def test_more_clients_than_examples():
    with pytest.raises(FedreproError, match=r"clients must be in 1\.\.3 .* got 4"):
        iid.plain(np.array([0, 1, 1]), 4, np.random.default_rng(0))
    with pytest.raises(FedreproError, match=r"clients must be in 1\.\.3 .* got 0"):
        iid.stratified(np.array([0, 1, 1]), 0, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("per_class", "text"),
    [
        (5, r"per_class must be a multiple of clients \(2\).* got 5"),
        (8, r"per_class must be in 1\.\.6, the size of the smallest class, got 8"),
        (0, r"per_class must be in 1\.\.6, .* got 0"),
    ],
)
def test_infeasible_per_class(per_class, text):
    labels = np.repeat(np.arange(2), [9, 6])
    with pytest.raises(FedreproError, match=text):
        iid.stratified(labels, 2, np.random.default_rng(0), per_class=per_class)


def test_nobody_gets_the_same_number_of_each_class():
    with pytest.raises(FedreproError, match=r"per_class must be a multiple of clients \(0\)"):
        iid.stratified(np.repeat(np.arange(2), 6), 0, np.random.default_rng(0), per_class=6)


def test_per_class_with_an_absent_class():
    with pytest.raises(FedreproError, match="class 1 has none"):
        iid.stratified(np.array([0, 2, 2]), 1, np.random.default_rng(0), per_class=1)


@pytest.mark.parametrize(
    ("labels", "text"),
    [
        (np.zeros((2, 2), dtype=np.int64), r"one-dimensional integer array, got shape \(2, 2\)"),
        (np.array([0.0, 1.0]), "integer array, got shape .* of float64"),
        (np.array([], dtype=np.int64), "non-empty"),
        (np.array([0, -1]), "class numbers from 0, got -1"),
    ],
)
def test_labels_that_are_none(labels, text):
    for scheme in (iid.plain, iid.stratified):
        with pytest.raises(FedreproError, match=text):
            scheme(labels, 1, np.random.default_rng(0))
