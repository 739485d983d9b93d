"""Whether what an algorithm asks for can be done: checked before a device sees it.

An example that the data set does not have would end every run in flight on a GPU, and a loss term
that the algorithm does not declare would not be part of a run's identity.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch

from fedrepro.base.errors import FedreproError
from fedrepro.fl.algorithms import ALGORITHMS
from fedrepro.fl.data import Dataset
from fedrepro.fl.engine import optim
from fedrepro.fl.layout import Layout
from fedrepro.fl.requests import (
    IntArray,
    Lane,
    Objective,
    OptimizerState,
    Predict,
    Request,
    Train,
)
from fedrepro.fl.spec import Adam, RunSpec, Sgd


class MalformedRequest(FedreproError):
    """What an algorithm asks for cannot be done; the message names the algorithm."""


def check_request(spec: RunSpec, request: Request, dataset: Dataset, layout: Layout) -> None:
    """Refuse a request that is malformed.

    Args:
        spec: of the run whose algorithm makes it.
        request: the request.
        dataset: of the run.
        layout: of its network's weights.

    Raises:
        MalformedRequest: it is.
    """
    try:
        _check(spec, request, dataset, layout)
    except FedreproError as error:
        raise MalformedRequest(f"algorithm {spec.algorithm.name}: {error}") from error


def _check(spec: RunSpec, request: Request, dataset: Dataset, layout: Layout) -> None:
    if isinstance(request, Train):
        _check_training(spec, request, len(dataset.train_y), layout)
    elif isinstance(request, Predict):
        _check_prediction(request, dataset, layout)
    else:
        raise FedreproError(
            f"yields {request!r:.50}, neither a Train nor a Predict; another generator needs "
            "`yield from`"
        )


def _check_training(spec: RunSpec, request: Train, examples: int, layout: Layout) -> None:
    lanes = request.lanes
    if not (isinstance(lanes, Sequence) and all(isinstance(lane, Lane) for lane in lanes)):
        raise FedreproError(f"Train.lanes is {lanes!r:.50}, not a list of Lane")
    _check_objective(request.objective)
    undeclared = {term for term, _ in request.objective.terms} - set(
        ALGORITHMS[spec.algorithm.name].terms
    )
    if undeclared:
        raise FedreproError(
            f"uses the loss term {min(undeclared)}, which its Algorithm.loss_terms lacks: name it "
            "there, so that its version is part of a run's identity"
        )
    _check_count("Train.epochs", request.epochs, least=0)
    known = set()
    for lane in lanes:
        if not isinstance(lane.stream, tuple):
            raise FedreproError(f"Lane.stream is {lane.stream!r:.50}, not a tuple of ids")
        ids = "/".join(map(str, lane.stream))  # as streams are named: 1 and "1" are one
        if ids in known:
            raise FedreproError(
                f"two lanes of a request have the stream {lane.stream}, so their shuffles and "
                "dropout masks would be the same; give each ids of its own"
            )
        known.add(ids)
        _check_vector("Lane.weights", lane.weights, layout.size)
        if lane.linear is not None:
            _check_vector("Lane.linear", lane.linear, layout.parameters)
        if lane.optimizer_state is not None:
            _check_moments(spec.optimizer, lane.optimizer_state, layout)
        _check_positions("Lane.examples", lane.examples, examples)
        if lane.lr is not None:
            _check_number("Lane.lr", lane.lr, least=0)
        _check_count("Lane.batch", lane.batch, least=1)
        _check_count("Lane.epochs", lane.epochs, least=0)


def _check_moments(optimizer: Sgd | Adam, state: OptimizerState, layout: Layout) -> None:
    needed = optim.fresh_state(optimizer, torch.empty(0))
    if state.keys() != needed.keys():
        raise FedreproError(
            f"Lane.optimizer_state has {_listed(state)}, and this optimiser needs "
            f"{_listed(needed)} (spec field optimizer); None starts fresh"
        )
    for moment, value in state.items():
        what = f"Lane.optimizer_state['{moment}']"
        if moment == "step":
            _check_count(what, value, least=0)
        else:
            _check_vector(what, value, layout.parameters)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "nothing"


def _check_objective(objective: Objective) -> None:
    """Refuse numbers by which lanes could not be told apart: of a tensor, text has four digits."""
    _check_number("Objective.proximal", objective.proximal, least=0)
    _check_number("Objective.gradient_noise", objective.gradient_noise, least=0)
    _check_count("Objective.quantise_bits", objective.quantise_bits, least=1)
    for term in objective.terms:
        if not (isinstance(term, tuple) and len(term) == 2):
            raise FedreproError(
                f"Objective.terms has {term!r:.50}, not a pair of a name and a weight"
            )
        _check_number(f"Objective.terms: the weight of {term[0]}", term[1])
    if objective.projection not in (None, "weights", "update"):
        raise FedreproError(
            f"Objective.projection is {objective.projection!r:.50}, not weights or update"
        )
    if objective.projection is not None:
        _check_number("Objective.radius", objective.radius, least=0)


def _check_prediction(request: Predict, dataset: Dataset, layout: Layout) -> None:
    models = request.models
    if not (isinstance(models, Sequence) and len(models)):
        raise FedreproError(f"Predict.models is {models!r:.50}, not a list of weights")
    for model in models:
        _check_vector("Predict.models", model, layout.size)
    if request.split not in ("train", "test"):
        raise FedreproError(f"Predict.split is {request.split!r:.50}, not train or test")
    labels = dataset.test_y if request.split == "test" else dataset.train_y
    examples, limit = request.examples, len(labels)
    if isinstance(examples, np.ndarray):
        _check_asked("Predict.examples", examples, limit)
    elif isinstance(examples, Sequence):
        for i, own in enumerate(examples):
            _check_asked(f"Predict.examples[{i}]", own, limit)
        if len(examples) != len(models):
            raise FedreproError(
                f"Predict.examples has {len(examples)} arrays for {len(models)} models; give one "
                "for each, or one array without a list for all"
            )
    elif examples is not None:
        raise FedreproError(
            f"Predict.examples is {examples!r:.50}, neither an array of positions, int64 [n], nor "
            "a list with one for each model"
        )


def _check_asked(what: str, positions: IntArray, limit: int) -> None:
    """Refuse what a model cannot predict on: no examples have no accuracy."""
    _check_positions(what, positions, limit)
    if not len(positions):
        raise FedreproError(f"{what} is empty; leave out a model that has no examples")


def _check_count(what: str, count: object, *, least: int) -> None:
    if count is not None and not (isinstance(count, int | np.integer) and count >= least):
        raise FedreproError(f"{what} is {count!r:.50}, not a whole number from {least} on")


def _check_number(what: str, value: Any, least: float = -math.inf) -> None:
    number = isinstance(value, int | float | np.integer | np.floating)
    if not (number and math.isfinite(value) and value >= least):
        bound = "" if least == -math.inf else f" from {least:g} on"
        raise FedreproError(
            f"{what} is {value!r:.50}, not a finite number{bound}; `float(x)` makes one of a tensor"
        )


def _check_vector(what: str, weights: object, size: int) -> None:
    if not (isinstance(weights, torch.Tensor) and weights.ndim == 1):
        raise FedreproError(f"{what}: {weights!r:.50} is not a flat tensor of weights")
    if weights.dtype != torch.float32:
        raise FedreproError(f"{what}: weights are {weights.dtype}; convert them with `.float()`")
    if weights.requires_grad:
        raise FedreproError(f"{what}: weights come with a gradient; leave it with `.detach()`")
    if len(weights) != size:
        raise FedreproError(
            f"{what} has {len(weights)} numbers, and this network needs {size} (spec field model)"
        )


def _check_positions(what: str, positions: object, limit: int) -> None:
    if not (
        isinstance(positions, np.ndarray)
        and positions.ndim == 1
        and np.issubdtype(positions.dtype, np.integer)
    ):
        raise FedreproError(f"{what} is {positions!r:.50}, not an array of positions, int64 [n]")
    if len(positions) and not 0 <= positions.min() <= positions.max() < limit:
        raise FedreproError(f"{what} has positions that the {limit} examples do not have")
