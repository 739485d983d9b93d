"""Class-aligned partitions: pure clients, equal shards, every example once."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrepro.base.errors import FedreproError
from fedrepro.fl.partition.class_aligned import class_aligned
from fedrepro.fl.partition.statistics import class_counts, emd

SMALL = settings(max_examples=60)
SEEDS = st.integers(0, 2**32)
SHAPES = st.tuples(st.integers(2, 6), st.integers(1, 2), st.integers(1, 3)).map(
    # classes, classes per client, clients: a multiple of the classes for either
    lambda t: (t[0], t[1], t[0] * t[2])
)


@SMALL
@given(SHAPES, SEEDS)
def test_every_client_holds_its_number_of_classes(shape, seed):
    classes, classes_per_client, clients = shape
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat(np.arange(classes), rng.integers(6, 30, classes)))
    split = class_aligned(labels, clients, classes_per_client, rng)
    counts = class_counts(labels, split, classes)
    shards = clients * classes_per_client // classes
    assert np.all(np.count_nonzero(counts, axis=1) == classes_per_client)
    assert np.all(np.count_nonzero(counts, axis=0) == shards)
    assert np.sort(np.concatenate(split)).tolist() == list(range(labels.size))
    assert all(indices.dtype == np.int64 and np.all(np.diff(indices) > 0) for indices in split)
    for label in range(classes):
        assert np.ptp(counts[:, label][counts[:, label] > 0]) <= 1


@SMALL
@given(SHAPES, SEEDS)
def test_per_class_makes_all_clients_equal(shape, seed):
    classes, classes_per_client, clients = shape
    rng = np.random.default_rng(seed)
    shards = clients * classes_per_client // classes
    labels = rng.permutation(np.repeat(np.arange(classes), rng.integers(4 * shards, 40, classes)))
    split = class_aligned(labels, clients, classes_per_client, rng, per_class=4 * shards)
    counts = class_counts(labels, split, classes)
    assert set(counts[counts > 0]) == {4}
    assert np.all(counts.sum(axis=1) == 4 * classes_per_client)
    assert len(set(np.concatenate(split).tolist())) == 4 * shards * classes
    assert emd(counts) == pytest.approx(2 * (1 - classes_per_client / classes))


@pytest.mark.parametrize(("classes_per_client", "distance"), [(1, 1.8), (2, 1.6)])
def test_the_papers_partitions_of_ten_classes(classes_per_client, distance):
    labels = np.repeat(np.arange(10), 60)
    split = class_aligned(labels, 10, classes_per_client, np.random.default_rng(3))
    counts = class_counts(labels, split, 10)
    assert [indices.size for indices in split] == [60] * 10
    assert set(np.unique(counts)) == {0, 60 // classes_per_client}
    assert emd(counts) == pytest.approx(distance)


def test_one_class_permutation_is_random():
    labels = np.repeat(np.arange(3), 2)
    orders = {
        tuple(labels[c[0]] for c in class_aligned(labels, 3, 1, np.random.default_rng(seed)))
        for seed in range(60)
    }
    assert orders == set(itertools.permutations(range(3)))


def test_two_class_pairs_are_uniform_over_the_valid_pairings():
    # 3 classes, 3 clients: each of the 6 orders of the pairs 01, 02, 12 equally likely
    labels = np.repeat(np.arange(3), 2)
    seen = [
        tuple(tuple(labels[c]) for c in class_aligned(labels, 3, 2, np.random.default_rng(seed)))
        for seed in range(1200)
    ]
    frequencies = [seen.count(order) for order in set(seen)]
    assert len(frequencies) == 6
    assert min(frequencies) > 150
    assert max(frequencies) < 250


def test_hundred_clients_with_two_of_ten_classes():
    labels = np.repeat(np.arange(10), 40)
    split = class_aligned(labels, 100, 2, np.random.default_rng(0))
    assert np.all(np.count_nonzero(class_counts(labels, split, 10), axis=1) == 2)


@pytest.mark.parametrize(
    ("clients", "classes_per_client", "per_class", "text"),
    [
        (10, 3, None, "classes_per_client must be 1 or 2, got 3"),
        (5, 1, None, "must be a multiple of the 10 classes, got 5 [*] 1"),
        (7, 2, None, "must be a multiple of the 10 classes, got 7 [*] 2"),
        (0, 1, None, r"clients must be in 1\.\.300 .* got 0"),
        (110, 2, None, "clients must be at most 100 for 2 of 10 classes per client, got 110"),
        (10, 2, 15, "per_class must be a multiple of the 2 shards .* got 15"),
        (10, 2, 31, r"per_class must be in 1\.\.30"),
        (50, 1, 7, r"per_class must be a multiple of the 5 shards .* got 7"),
    ],
)
def test_infeasible_arguments(clients, classes_per_client, per_class, text):
    labels = np.repeat(np.arange(10), 30)
    with pytest.raises(FedreproError, match=text):
        class_aligned(labels, clients, classes_per_client, np.random.default_rng(0), per_class)


def test_too_few_examples_of_a_class():
    labels = np.repeat(np.arange(2), [30, 3])
    with pytest.raises(FedreproError, match=r"at least 4 examples, .* the smallest has 3"):
        class_aligned(labels, 8, 1, np.random.default_rng(0))
    with pytest.raises(FedreproError, match="must be 1 for labels of one class"):
        class_aligned(np.zeros(9, dtype=np.int64), 3, 2, np.random.default_rng(0))
