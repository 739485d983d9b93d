"""The evaluation that the algorithms share: three nodes, two models, by hand."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fake_federation import drive

from fedrepro.fl.algorithms.evaluation import evaluate_models
from fedrepro.fl.requests import Prediction

MODELS = [torch.tensor([0.0]), torch.tensor([1.0])]
OWNER = [0, 0, 1]
LOSSES = (1.0, 4.0)
CORRECT = {
    "test": np.array([[1, 1, 1, 0], [0, 0, 1, 0]], bool),
    "train": np.array([[0, 0, 1, 0, 0, 0, 1, 0], [0, 0, 0, 0, 0, 1, 1, 0]], bool),
}
"""What the two models get right of four test and eight training images."""
EVERYWHERE = {"accuracy": pytest.approx((0.75 + 0.75 + 0.25) / 3), "loss": pytest.approx(2.0)}


def federation(**node_sets):
    """Return nodes with test sets ``name=(split, parts)``, and no validation examples."""
    sets = {
        name: SimpleNamespace(split=split, parts=tuple(map(np.array, parts)))
        for name, (split, parts) in node_sets.items()
    }
    partition = SimpleNamespace(validation=np.zeros(0, dtype=np.int64), node_sets=sets)
    return SimpleNamespace(partition=partition, train_size=8)


def answer(request):
    rows = CORRECT[request.split]
    asked = slice(None) if request.examples is None else request.examples
    return [
        Prediction(np.zeros(len(row[asked]), dtype=np.int64), row[asked], loss)
        for row, loss in zip(rows, LOSSES, strict=True)
    ]


def test_a_model_counts_as_often_as_nodes_hold_it():
    requests, metrics = drive(evaluate_models(federation(), MODELS, OWNER), answer)
    assert metrics == EVERYWHERE
    assert [(request.split, request.examples) for request in requests] == [("test", None)]
    assert requests[0].models is MODELS


def test_every_node_is_tested_on_its_own_part_with_the_model_it_holds():
    fed = federation(
        cut=("test", [[0, 1], [2, 3], [0, 2, 3]]),
        own=("train", [[5], [2, 6], [2, 5, 6]]),
    )
    requests, metrics = drive(evaluate_models(fed, MODELS, OWNER), answer)
    assert metrics == EVERYWHERE | {
        "accuracy_cut": pytest.approx((1 + 1 / 2 + 1 / 3) / 3),
        "nodes_cut": [1, 1 / 2, pytest.approx(1 / 3)],
        "accuracy_own": pytest.approx((0 + 1 + 2 / 3) / 3),
        "nodes_own": [0, 1, pytest.approx(2 / 3)],
    }
    assert [request.split for request in requests] == ["test", "train"]
    assert requests[1].examples.tolist() == [2, 5, 6]


def test_without_a_node_set_of_it_no_training_image_is_asked_for():
    fed = federation(cut=("test", [[3], [0], [2]]))
    requests, metrics = drive(evaluate_models(fed, MODELS, OWNER), answer)
    assert len(requests) == 1
    assert metrics["nodes_cut"] == [0, 1, 1]
