"""Averages of model weights, summed in a fixed order so that equal inputs give equal bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedrepro.requests import Weights


def weighted_mean(models: Sequence[Weights], weights: Sequence[float]) -> Weights:
    """Return ``sum_k p_k w_k`` with ``p_k = weights[k] / sum(weights)``.

    Args:
        models: float32 [size] each.
        weights: non-negative, one a model, not all zero; they need not sum to one.
    """
    total = float(sum(weights))
    mean = models[0] * (weights[0] / total)
    for model, weight in zip(models[1:], weights[1:], strict=True):
        mean.add_(model, alpha=weight / total)
    return mean
