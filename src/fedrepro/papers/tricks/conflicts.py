"""Ozdayi et al. 2020, figure 1: hypotheses that conflict, on four points with two features.

The paper's example: the classes form a chessboard around (4, 4). A decision tree learns all four
points. Cut at x1 = 4, one agent sees the upper two and the other the lower two; each learns a
perfect tree in x0 alone, and the two trees contradict each other on the whole plane.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

POINTS = ((2, 6, 1), (6, 6, -1), (2, 2, -1), (6, 2, 1))
"""x0, x1 and class; the paper prints a drawing, from which the thresholds of 4 are certain."""
THRESHOLD = 4
SIDE = 8

EVERYTHING, FIRST, SECOND = "one tree on all points", "first agent's tree", "second agent's tree"
VOTES = "sum of the agents' votes"

Points = Sequence[tuple[int, int, int]]


def shares() -> dict[str, Points]:
    """Return what each tree is trained on."""
    return {
        EVERYTHING: POINTS,
        FIRST: [point for point in POINTS if point[1] > THRESHOLD],
        SECOND: [point for point in POINTS if point[1] < THRESHOLD],
    }


def grid() -> NDArray[np.float64]:
    """Return the centres of the unit squares of the plane, float64 [64, 2]."""
    centres = np.arange(SIDE) + 0.5
    return np.stack([axis.ravel() for axis in np.meshgrid(centres, centres)], axis=1)


def hypotheses(where: NDArray[np.float64]) -> dict[str, NDArray[np.int64]]:
    """Return each tree's classes (1 or -1) at some places, and the sum of the agents' votes.

    Args:
        where: x0 and x1, float64 [n, 2].

    Returns:
        int64 [n] for each of the three trees and for the votes.
    """
    from sklearn.tree import DecisionTreeClassifier  # slow to import

    classes = {}
    for name, points in shares().items():
        known = np.array(points)
        tree = DecisionTreeClassifier(random_state=0).fit(known[:, :2], known[:, 2])
        classes[name] = tree.predict(where).astype(np.int64)
    return classes | {VOTES: classes[FIRST] + classes[SECOND]}
