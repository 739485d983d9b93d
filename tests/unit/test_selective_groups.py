"""Grouping by similarity (Liu et al. 2020, Algorithm 1) on agreement matrices made by hand."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from fedrepro.fl.algorithms.selective import group_nodes


def matrix(*agreeing: tuple[int, int], nodes: int = 4) -> NDArray[np.float64]:
    """Return an agreement matrix: 0.9 for the given pairs, 0.3 for the others."""
    agreement = np.full((nodes, nodes), 0.3)
    np.fill_diagonal(agreement, 1.0)
    for a, b in agreeing:
        agreement[a, b] = agreement[b, a] = 0.9
    return agreement


# 1 agrees with both 0 and 2, which do not agree with each other; 3 agrees with 1 and 2
CHAIN = matrix((0, 1), (1, 2), (1, 3), (2, 3))


@pytest.mark.parametrize(
    ("compare", "several_groups", "expected"),
    [
        ("all", False, [[0, 1], [2, 3]]),
        ("first", False, [[0, 1], [2, 3]]),
        ("all", True, [[0, 1], [2, 3]]),
        ("first", True, [[0, 1], [2, 3]]),
    ],
)
def test_chain(compare, several_groups, expected):
    assert group_nodes(CHAIN, 0.82, compare, several_groups) == expected


def test_all_members_are_stricter_than_the_first():
    # 2 agrees with 0, the first member, but not with 1
    agreement = matrix((0, 1), (0, 2))
    assert group_nodes(agreement, 0.82, "first", False) == [[0, 1, 2], [3]]
    assert group_nodes(agreement, 0.82, "all", False) == [[0, 1], [2], [3]]


def test_a_node_joins_the_first_group_or_every_group():
    # 2 agrees with 0 and 1, which do not agree with each other
    agreement = matrix((0, 2), (1, 2))
    assert group_nodes(agreement, 0.82, "all", False) == [[0, 2], [1], [3]]
    assert group_nodes(agreement, 0.82, "all", True) == [[0, 2], [1, 2], [3]]
    assert group_nodes(agreement, 0.82, "first", True) == [[0, 2], [1, 2], [3]]


def test_a_shared_node_blocks_a_later_one_only_where_all_members_count():
    # 2 is in both groups; 3 agrees with 1 but not with 2
    agreement = matrix((0, 2), (1, 2), (1, 3))
    assert group_nodes(agreement, 0.82, "first", True) == [[0, 2], [1, 2, 3]]
    assert group_nodes(agreement, 0.82, "all", True) == [[0, 2], [1, 2], [3]]


def test_the_threshold_must_be_exceeded():
    agreement = matrix((0, 1), nodes=2)
    assert group_nodes(agreement, 0.9, "all", False) == [[0], [1]]
    assert group_nodes(agreement, 0.8999, "all", False) == [[0, 1]]


def test_extremes():
    assert group_nodes(np.ones((9, 9)), 0.82, "all", False) == [list(range(9))]
    assert group_nodes(np.eye(3), 0.82, "first", True) == [[0], [1], [2]]
    assert group_nodes(np.zeros((0, 0)), 0.82, "all", False) == []


def test_order_of_the_nodes_decides():
    agreement = matrix((0, 1), (1, 2), nodes=3)
    assert group_nodes(agreement, 0.82, "all", False) == [[0, 1], [2]]
    turned = agreement[::-1, ::-1]
    assert group_nodes(turned, 0.82, "all", False) == [[0, 1], [2]]
