"""Liu, Lee, Julien 2020, section IV and appendix A: a global optimum that is bad for one node.

The theorem: for every factor C > 1 there are data such that, as federated averaging brings the
global loss ``F = sum_k p_k F_k`` to its minimum ``F*``, the loss of one node N goes to C times its
own minimum ``F_N*``. The printed proof chooses the degree of non-IID-ness
``Gamma = F* - sum_k p_k F_k*`` and the node's share ``p_N`` so that
``Gamma / p_N = (C - 1) F_N*``, and lets the other nodes reach their own minima.

A construction that meets the assumptions (all losses 2-smooth and 2-strongly convex), with one
weight w: the nodes 1..N-1 have ``F_k(w) = w^2``, node N has ``F_N(w) = (w - d)^2 + f``. Then
``w* = p_N d``, ``Gamma = p_N (1 - p_N) d^2`` and ``F_N* = f``; the printed choice is
``d^2 = (C - 1) f / (1 - p_N)``. At the global minimum the loss of node N is then
``(C - p_N (C - 1)) f``: C times its minimum in the limit of a small share, and less otherwise,
because the other nodes are at their minima in that limit only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

CURVATURE = 2.0
"""Of every local loss: both the constant of smoothness L and that of strong convexity mu."""


@dataclass(frozen=True)
class UnfairOptimum:
    """The construction.

    Attributes:
        factor: C > 1, how many times its own minimum node N's loss is to become.
        share: p_N, weight of node N, in (0, 1); the others share the rest equally.
        gamma: Gamma > 0, the degree of non-IID-ness.
        nodes: N >= 2.
    """

    factor: float
    share: float
    gamma: float
    nodes: int = 10

    def __post_init__(self) -> None:
        """Refuse values outside the theorem."""
        if not (self.factor > 1 and 0 < self.share < 1 and self.gamma > 0 and self.nodes >= 2):
            raise ValueError("needs factor > 1, 0 < share < 1, gamma > 0 and nodes >= 2")

    @property
    def own_minimum(self) -> float:
        """F_N*, from the printed choice of Gamma."""
        return self.gamma / (self.share * (self.factor - 1))

    @property
    def distance(self) -> float:
        """D, how far node N's best weight is from the others'."""
        return math.sqrt(self.gamma / (self.share * (1 - self.share)))

    @property
    def weights(self) -> FloatArray:
        """p_k, float64 [nodes]; they sum to one."""
        others = np.full(self.nodes - 1, (1 - self.share) / (self.nodes - 1))
        return np.append(others, self.share)

    @property
    def best(self) -> FloatArray:
        """The weight at which each node's loss is least, float64 [nodes]."""
        return np.append(np.zeros(self.nodes - 1), self.distance)

    @property
    def limit(self) -> float:
        """Node N's loss at the global minimum, in multiples of its own minimum: C - p_N (C - 1)."""
        return self.factor - self.share * (self.factor - 1)

    def losses(self, w: FloatArray) -> FloatArray:
        """Return every node's loss at weights w: float64 [..., nodes] for w of shape [...]."""
        minima = np.append(np.zeros(self.nodes - 1), self.own_minimum)
        result: FloatArray = (w[..., None] - self.best) ** 2 + minima
        return result

    def global_loss(self, w: FloatArray) -> FloatArray:
        """Return F at weights w, float64 of w's shape."""
        result: FloatArray = self.losses(w) @ self.weights
        return result

    @property
    def global_minimum(self) -> float:
        """F*, the least global loss."""
        return float(self.global_loss(np.asarray(self.weights @ self.best)))


def federated_averaging(
    case: UnfairOptimum,
    rounds: int,
    local_steps: int,
    rng: np.random.Generator,
    noise: float = 0.0,
    repeats: int = 1,
) -> FloatArray:
    """Minimise the global loss by federated averaging with the step size of Li et al. 2019.

    The first weight is ``-d``, on the far side of the other nodes.
    Every node takes ``local_steps`` steps of ``2 / (mu (gamma + t))`` from the global weight with
    ``gamma = max(8 L / mu, local_steps)`` and t counting steps; the server takes the mean weighted
    by p_k.

    Args:
        case: the local losses.
        rounds: rounds of averaging.
        local_steps: E, steps between two averagings.
        rng: draws the noise of the gradients.
        noise: standard deviation of a local gradient, in units of the distance d.
        repeats: runs side by side, each with noise of its own.

    Returns:
        The global weight before the first and after every round, float64 [rounds + 1, repeats].
    """
    best, shares = case.best, case.weights
    offset = max(8.0, local_steps)
    w = np.full(repeats, -case.distance)
    history = [w]
    for t in range(rounds):
        local = np.repeat(w[:, None], case.nodes, axis=1)
        for step in range(local_steps):
            size = 2 / (CURVATURE * (offset + t * local_steps + step))
            drawn = rng.standard_normal(local.shape) if noise else 0.0
            gradient = CURVATURE * (local - best) + noise * case.distance * drawn
            local = local - size * gradient
        w = local @ shares
        history.append(w)
    return np.stack(history)


ROUNDS = 300


def course(case: UnfairOptimum) -> tuple[FloatArray, FloatArray]:
    """Return what becomes of the losses under federated averaging with noisy gradients.

    Returns:
        The global loss above its minimum, in units of Gamma, and node N's loss in multiples of its
        minimum, before the first and after every round: float64 [ROUNDS + 1], means of 50 repeats.
    """
    rng = np.random.default_rng(0)
    w = federated_averaging(case, ROUNDS, local_steps=5, rng=rng, noise=0.5, repeats=50)
    excess = (case.global_loss(w).mean(axis=1) - case.global_minimum) / case.gamma
    node = case.losses(w)[..., -1].mean(axis=1) / case.own_minimum
    return excess, node
