"""Evaluation shared by the algorithms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedrepro.fl.requests import Predict, Prediction

if TYPE_CHECKING:
    from fedrepro.fl.federation import Federation
    from fedrepro.fl.requests import Steps, Weights


def evaluate_global(fed: Federation, state: Any) -> Steps:
    """Evaluate the global model ``state.weights``, which every node holds; see evaluate_models."""
    return (yield from evaluate_models(fed, [state.weights], [0] * len(fed.clients)))


def evaluate_models(fed: Federation, models: Sequence[Weights], owner: Sequence[int]) -> Steps:
    """Evaluate the models that the nodes hold.

    Args:
        fed: the federation.
        models: the distinct models, each float32 [size].
        owner: for every node the position of its model in ``models``.

    Yields:
        One :class:`Predict` on the test split, and one on the training examples of node sets, if
        there are any.

    Returns:
        ``accuracy`` (fraction) and ``loss`` (cross entropy) on the official test split, unweighted
        means over the nodes. Where the partition gives nodes test sets of their own (Liu et al.
        2020, section VII), for each of them: ``nodes_<name>``, the accuracy of every node's model
        on the node's part, and ``accuracy_<name>``, their unweighted mean.
    """
    on_test: list[Prediction] = yield Predict(models, "test")
    metrics: dict[str, float | list[float]] = {
        "accuracy": float(np.mean([on_test[m].accuracy for m in owner])),
        "loss": float(np.mean([on_test[m].loss for m in owner])),
    }
    node_sets = fed.partition.node_sets
    correct = {"test": [answer.correct for answer in on_test], "train": []}
    asked = [part for each in node_sets.values() if each.split == "train" for part in each.parts]
    if asked:
        pool = np.unique(np.concatenate(asked))
        on_pool: list[Prediction] = yield Predict(models, "train", pool)
        for answer in on_pool:
            whole = np.zeros(fed.train_size, dtype=bool)
            whole[pool] = answer.correct
            correct["train"].append(whole)
    for name, node_set in node_sets.items():
        accuracies = [
            float(correct[node_set.split][model][part].mean())
            for model, part in zip(owner, node_set.parts, strict=True)
        ]
        metrics[f"accuracy_{name}"] = float(np.mean(accuracies))
        metrics[f"nodes_{name}"] = accuracies
    return metrics
