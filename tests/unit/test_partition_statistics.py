"""Class counts, EMD and digests by hand; pinned digests of every scheme."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedrepro.base.errors import FedreproError
from fedrepro.fl.partition import balanced_percent, class_aligned, emd, iid, statistics

SMALL = settings(max_examples=80)
COUNTS = hnp.arrays(np.int64, hnp.array_shapes(min_dims=2, max_dims=2), elements=st.integers(1, 99))


def test_class_counts_by_hand():
    labels = np.array([0, 2, 2, 1, 0])
    clients = (np.array([0, 1, 2]), np.array([4]), np.array([], dtype=np.int64))
    counts = statistics.class_counts(labels, clients, 4)
    assert counts.tolist() == [[1, 0, 2, 0], [1, 0, 0, 0], [0, 0, 0, 0]]
    assert counts.dtype == np.int64
    with pytest.raises(FedreproError, match="classes must be at least 3, got 2"):
        statistics.class_counts(labels, clients, 2)


def test_emd_by_hand():
    counts = np.array([[3, 1], [1, 3]])
    assert statistics.emd(counts).tolist() == [0.5, 0.5]
    # the population need not be uniform: pooled shares 1/4 and 3/4 here
    assert statistics.emd(np.array([[1, 1], [0, 2]])).tolist() == [0.5, 0.5]
    assert statistics.emd(np.array([[4, 0], [0, 4]])).tolist() == [1.0, 1.0]
    # pooled are examples, not shares: here, too, 1/4 and 3/4, of clients of one and three examples
    assert statistics.emd(np.array([[1, 0], [0, 3]])).tolist() == [1.5, 0.5]
    assert statistics.emd(np.eye(10, dtype=np.int64)) == pytest.approx(1.8)


@SMALL
@given(COUNTS, st.integers(1, 9))
def test_emd_properties(counts, factor):
    distance = statistics.emd(counts)
    assert distance.shape == (counts.shape[0],)
    assert distance.dtype == np.float64
    assert np.all((distance >= 0) & (distance <= 2))
    assert statistics.emd(factor * counts) == pytest.approx(distance)
    if counts.shape[0] == 1:
        assert distance[0] == 0


def test_emd_without_examples():
    with pytest.raises(FedreproError, match="client 1 has no examples"):
        statistics.emd(np.array([[1, 2], [0, 0]]))


def test_digest_tells_lists_apart():
    def digest(*clients):
        return statistics.digest([np.array(client, dtype=np.int64) for client in clients])

    different = [
        digest([1, 2], [3]),
        digest([1], [2, 3]),
        digest([2, 1], [3]),
        digest([3], [1, 2]),
        digest([1, 2], [3], []),
        digest([1, 2, 3]),
        digest([1, 1, 3]),
        digest(),
    ]
    assert len(set(different)) == len(different)
    # no client: SHA-256 of nothing
    assert digest() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    # the number type does not matter
    assert statistics.digest([np.array([1, 2], dtype=np.int32)]) == digest([1, 2])


def philox():
    """The bit generator of fedrepro.fl.streams with a fixed key."""
    return np.random.Generator(np.random.Philox(key=20180602))


LABELS = np.arange(600) * 7 % 10
PINNED = {
    "plain": lambda: iid.plain(LABELS, 10, philox()),
    "stratified": lambda: iid.stratified(LABELS, 10, philox()),
    "stratified, per class": lambda: iid.stratified(LABELS, 10, philox(), 50),
    "one class": lambda: class_aligned.class_aligned(LABELS, 10, 1, philox()),
    "two classes": lambda: class_aligned.class_aligned(LABELS, 10, 2, philox(), 40),
    "emd 0": lambda: emd.emd_shift(LABELS, 10, emd.draw_counts(0, 50, 10, philox()), philox()),
    "emd 1.08": lambda: emd.emd_shift(
        LABELS, 10, emd.draw_counts(1.08, 50, 10, philox()), philox()
    ),
    "balanced 30 %": lambda: balanced_percent.balanced_percent(
        LABELS, 9, 30, balanced_percent.CODE_GROUPS
    ),
    "dealt": lambda: balanced_percent.dealt(600, 7),
}
DIGESTS = {
    "plain": "c7d0985cc22dc9b2",
    "stratified": "242be14962629dc7",
    "stratified, per class": "246c52bb76a127dc",
    "one class": "9565d51a94ef24ce",
    "two classes": "df7a14dbf2cf30a8",
    "emd 0": "01732fc3bf7f1ac7",
    "emd 1.08": "1ead7d300183a64c",
    "balanced 30 %": "63eade2357930c37",
    "dealt": "d5a2ca3faff17f67",
}


@pytest.mark.parametrize("scheme", PINNED)
def test_pinned_digest(scheme):
    """A change here means that partitions of earlier runs can no longer be rebuilt."""
    assert statistics.digest(PINNED[scheme]())[:16] == DIGESTS[scheme]


@pytest.mark.parametrize(
    ("distance", "counts"),
    [
        (0.36, [0, 543, 443, 413, 707, 928, 387, 948, 546, 485]),
        (1.08, [120, 1409, 264, 5, 572, 0, 20, 2555, 2, 453]),
        (1.764, [8, 3, 7, 38, 5303, 0, 15, 0, 24, 2]),
    ],
)
def test_pinned_counts(distance, counts):
    assert emd.draw_counts(distance, 5400, 10, philox()).tolist() == counts
