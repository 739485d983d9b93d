"""The N-% partition: by hand, by property, and against the table of node sizes for real MNIST."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrepro.base.errors import FedreproError
from fedrepro.fl.partition import build_partition
from fedrepro.fl.partition.balanced_percent import (
    CODE_GROUPS,
    GROUPS,
    PAPER_GROUPS,
    SINGLE_LABELS,
    BalancedPercent,
    balanced_percent,
    dealt,
)
from fedrepro.fl.partition.statistics import class_counts

SMALL = settings(max_examples=80)


@pytest.fixture(scope="module")
def mnist():
    folder = os.environ.get("FEDREPRO_DATA")
    if not folder:
        pytest.skip("FEDREPRO_DATA is not set: no real MNIST labels to compare with")
    with np.load(Path(folder) / "mnist.npz") as pack:
        return pack["y_train"].astype(np.int64)[10_000:], pack["y_test"].astype(np.int64)


def test_by_hand():
    labels = np.array([0, 1, 0, 1, 1, 1, 0, 1, 0, 0])
    groups = ((0, 0), (1, 1))
    # 50 %: 5 due, 2 each dealt from the first 4 images; the next 5 by label; the last unused
    split = balanced_percent(labels, 2, 50, groups)
    assert [indices.tolist() for indices in split] == [[0, 2, 6, 8], [1, 3, 4, 5, 7]]
    split = balanced_percent(labels, 2, 0, groups)
    assert [indices.tolist() for indices in split] == [[0, 2, 6, 8, 9], [1, 3, 4, 5, 7]]
    split = balanced_percent(labels, 2, 100, groups)
    assert [indices.tolist() for indices in split] == [[0, 2, 4, 6, 8], [1, 3, 5, 7, 9]]
    # two clients a group: a group's images go to its clients in turn
    split = balanced_percent(labels, 4, 0, groups)
    assert [indices.tolist() for indices in split] == [[0, 6, 9], [2, 8], [1, 4, 7], [3, 5]]


@SMALL
@given(
    st.integers(0, 2**32),
    st.integers(120, 400),
    st.integers(0, 100),
    st.sampled_from([(3, CODE_GROUPS), (3, PAPER_GROUPS), (9, CODE_GROUPS), (9, SINGLE_LABELS)]),
)
def test_construction(seed, examples, percent, clients_and_groups):
    clients, groups = clients_and_groups
    labels = np.random.default_rng(seed).permutation(np.arange(examples) % 10)
    split = balanced_percent(labels, clients, percent, groups)
    due = examples * percent // 100
    start = due - due % clients
    end = examples - due % clients
    group_size = clients // len(groups)
    assert np.sort(np.concatenate(split)).tolist() == list(range(end))
    for client, indices in enumerate(split):
        assert indices.dtype == np.int64
        assert np.all(np.diff(indices) > 0)
        balanced, rest = indices[indices < start], indices[indices >= start]
        assert balanced.tolist() == list(range(client, start, clients))
        low, high = groups[client // group_size]
        assert np.all((labels[rest] >= low) & (labels[rest] <= high))
    for group in range(len(groups)):
        sizes = [indices.size for indices in split[group * group_size : (group + 1) * group_size]]
        assert sizes == sorted(sizes, reverse=True)
        assert sizes[0] - sizes[-1] <= 1


@pytest.mark.parametrize(
    ("groups", "percent", "sizes"),
    [
        (CODE_GROUPS, 0, [15504, 14519, 19977]),
        (CODE_GROUPS, 10, [15642, 14726, 19630]),
        (CODE_GROUPS, 50, [16087, 15591, 18321]),
        (PAPER_GROUPS, 0, [20603, 14324, 15073]),
        (PAPER_GROUPS, 10, [20225, 14570, 15203]),
        (PAPER_GROUPS, 50, [18642, 15489, 15868]),
    ],
)
def test_node_sizes_of_mnist_training(mnist, groups, percent, sizes):
    split = balanced_percent(mnist[0], 3, percent, groups)
    assert [indices.size for indices in split] == sizes


@pytest.mark.parametrize(
    ("groups", "sizes"), [(CODE_GROUPS, [3147, 2884, 3969]), (PAPER_GROUPS, [4157, 2832, 3011])]
)
def test_node_sizes_of_mnist_test(mnist, groups, sizes):
    assert [indices.size for indices in balanced_percent(mnist[1], 3, 0, groups)] == sizes


def test_nine_nodes_of_mnist(mnist):
    train, test = mnist
    split = balanced_percent(train, 9, 0, CODE_GROUPS)
    assert [indices.size for indices in split] == [5168] * 3 + [4840] * 2 + [4839] + [6659] * 3
    counts = class_counts(test, balanced_percent(test, 9, 0, SINGLE_LABELS), 10)
    by_label = np.bincount(test)
    assert np.count_nonzero(counts, axis=1).tolist() == [1] * 8 + [2]
    assert counts[:8, :8].diagonal().tolist() == by_label[:8].tolist()
    assert counts[8, 8:].tolist() == by_label[8:].tolist()
    even = class_counts(test, balanced_percent(test, 9, 10, SINGLE_LABELS), 10)
    assert np.all(even.sum(axis=1) > 111)
    assert even.sum() == 9999  # floor(1000 / 9) = 111 each; one of the 1,000 stays unused


def test_dealt():
    assert [indices.tolist() for indices in dealt(8, 3)] == [[0, 3], [1, 4], [2, 5]]
    for clients, each in ((3, 3333), (9, 1111)):
        parts = dealt(10_000, clients)
        assert [part.size for part in parts] == [each] * clients
        assert np.sort(np.concatenate(parts)).tolist() == list(range(9999))
    with pytest.raises(FedreproError, match=r"clients must be in 1\.\.2 .* got 3"):
        dealt(2, 3)


def test_every_set_of_nine_nodes_by_hand():
    """Image i has label i mod 10, of 400 training images, 40 set aside, and 100 test images."""
    spec = BalancedPercent(scheme="balanced_percent", clients=9, percent=10, validation=40)
    partition = build_partition(spec, np.arange(400) % 10, np.arange(100) % 10, 10, 0)
    sets = {
        name: [part.tolist() for part in node_set.parts]
        for name, node_set in partition.node_sets.items()
    }
    assert {name: node_set.split for name, node_set in partition.node_sets.items()} == {
        "iid": "test",
        "iid_dealt": "test",
        "noniid": "test",
        "noniid_as_run": "test",
        "validation": "train",
        "validation_all": "train",
    }
    # 36 of 360 images are dealt, four each; of the others 32 have each label, and four more one
    # of 6 to 9.
    assert partition.clients[0].tolist() == [40, 49, 58, 67, *range(80, 400, 10)]
    assert [part.size for part in partition.clients] == [4 + 32] * 6 + [4 + 132 // 3] * 3
    assert partition.validation.tolist() == list(range(40))
    assert sets["validation_all"] == [list(range(40))] * 9
    # Four of 40 are due, none of nine each: 0 to 35 by label, in turn within the groups.
    assert sets["validation"] == [
        *([label, label + 10, label + 20, label + 30] for label in range(6)),
        [6, 9, 18, 27],
        [7, 16, 19, 28],
        [8, 17, 26, 29],
    ]
    assert sets["iid"] == [list(range(100))] * 9
    assert sets["iid_dealt"] == [list(range(node, 99, 9)) for node in range(9)]
    # Ten of 100 are due, one each; 9 to 98 go by label.
    by_label = [[label, *range(label + 10, 99, 10)] for label in range(8)]
    rest = [9, *(image for image in range(16, 99) if image % 10 >= 6)]
    assert sets["noniid"] == [*by_label[:6], *([node, *rest[node - 6 :: 3]] for node in (6, 7, 8))]
    last = [8, 9, *(image for image in range(18, 99) if image % 10 >= 8)]
    assert sets["noniid_as_run"] == [*by_label, last]


def test_groups_cover_ten_labels():
    assert set(GROUPS) == {"code", "paper"}
    for groups in (*GROUPS.values(), SINGLE_LABELS):
        assert [label for low, high in groups for label in range(low, high + 1)] == list(range(10))


def test_one_client_holds_all_labels_however_many():
    spec = BalancedPercent(scheme="balanced_percent", clients=1, percent=10, validation=20)
    labels = np.arange(120) % 12
    partition = build_partition(spec, labels, labels[:60], 12, seed=0)
    assert partition.clients[0].tolist() == list(range(20, 120))


def test_more_than_nine_nodes_are_tested_by_their_groups():
    spec = BalancedPercent(scheme="balanced_percent", clients=12, percent=10, validation=0)
    labels = np.arange(200) % 10
    sets = build_partition(spec, labels, labels, 10, seed=0).node_sets
    for one, other in zip(sets["noniid"].parts, sets["noniid_as_run"].parts, strict=True):
        assert one.tolist() == other.tolist()


@pytest.mark.parametrize("validation", [0, 3, 99])
def test_images_may_be_set_aside_until_one_is_left_for_each_client(validation):
    spec = BalancedPercent(scheme="balanced_percent", clients=3, percent=100, validation=validation)
    labels = np.arange(102) % 10
    partition = build_partition(spec, labels, labels, 10, seed=0)
    assert np.sort(np.concatenate(partition.clients)).tolist() == list(range(validation, 102))
    assert ("validation" in partition.node_sets) == (validation > 0)


@pytest.mark.parametrize(
    ("validation", "text"),
    [
        (2, "validation = 2: fewer images than the 3 clients; set more aside, or 0 for none"),
        (102, "validation = 102 leaves no training image of 102; lower it"),
    ],
)
def test_what_cannot_be_set_aside_is_refused(validation, text):
    spec = BalancedPercent(scheme="balanced_percent", clients=3, percent=100, validation=validation)
    labels = np.arange(102) % 10
    with pytest.raises(FedreproError, match=text):
        build_partition(spec, labels, labels, 10, seed=0)


@pytest.mark.parametrize(
    ("clients", "percent", "groups", "text"),
    [
        (3, 101, CODE_GROUPS, r"percent must be in 0\.\.100, got 101"),
        (3, -1, CODE_GROUPS, r"percent must be in 0\.\.100, got -1"),
        (4, 0, CODE_GROUPS, r"multiple of the number of groups \(3\), got 4"),
        (0, 0, CODE_GROUPS, r"clients must be in 1\.\.100 .* got 0"),
        (3, 0, (), r"multiple of the number of groups \(0\)"),
        (2, 0, ((0, 4), (4, 9)), "groups must not overlap"),
        (2, 0, ((4, 9), (0, 4)), "groups must not overlap"),
        (2, 0, ((0, 9), (10, 9)), r"groups must be ranges \(lowest, highest\)"),
        (2, 0, ((0, 4), (6, 8)), r"every label in 0\.\.9, and .* lack label 5"),
        (2, 0, ((0, 9), (10, 11)), r"client 1 would get no image: too few of labels 10\.\.11"),
        (4, 0, ((0, 9), (10, 11)), r"client 2 would get no image: too few of labels 10\.\.11"),
    ],
)
def test_infeasible_arguments(clients, percent, groups, text):
    with pytest.raises(FedreproError, match=text):
        balanced_percent(np.arange(100) % 10, clients, percent, groups)
