"""Averages of model weights, summed in a fixed order so that equal inputs give equal bits.

Weights are one flat vector, trainable parameters first. What follows them are the running
statistics of batch normalisation; a node may keep its own when the parameters are shared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedrepro.fl.requests import Weights


def weighted_mean(models: Sequence[Weights], weights: Sequence[float]) -> Weights:
    """Return ``sum_k p_k w_k`` with ``p_k = weights[k] / sum(weights)``, float32 [size].

    This is the server's step of FedAvg (McMahan et al. 2017, Algorithm 1).

    Models are added one by one, in their order, on every device: the order of a product of matrices
    is the library's, and may change with sizes and versions. A GPU spends one kernel a model on
    that, microseconds beside the thousands of steps that each model was trained.

    Args:
        models: float32 [size] each.
        weights: one a model; their sum is positive, and need not be one.
    """
    total = float(sum(weights))
    mean = models[0] * (weights[0] / total)
    for model, weight in zip(models[1:], weights[1:], strict=True):
        mean.add_(model, alpha=weight / total)
    return mean


def statistics_of(weights: Weights, parameters: int) -> Weights:
    """Return a copy of a model's running statistics, float32 [size - parameters].

    Args:
        weights: float32 [size].
        parameters: length of the trainable front part.
    """
    return weights[parameters:].clone()


def with_statistics(weights: Weights, statistics: Weights) -> Weights:
    """Return a copy of a model, float32 [size], with other running statistics.

    Args:
        weights: float32 [size].
        statistics: as of :func:`statistics_of`.
    """
    model = weights.clone()
    model[len(weights) - len(statistics) :] = statistics
    return model
