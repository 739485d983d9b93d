"""Training and prediction of one lane: the step that every backend takes, and the plain loop.

:class:`Training` and :class:`Predicting` hold what a step reads and writes. They take their batches
from rows of examples by a step counter, so a step is the same call every time. With ``fixed`` all
of that lies on the device, the counter and the step size included, and is loaded anew in place for
each lane: then a step can be captured as a CUDA graph and replayed (:mod:`.graphs`).

Every other way of training is held against :func:`train_lane`. On a CPU with one compute thread it
gives the same bits whatever else is in flight.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from fedrepro.fl import device_streams, streams
from fedrepro.fl.engine import objective as objectives
from fedrepro.fl.engine import optim
from fedrepro.fl.engine.data import DeviceData, Split
from fedrepro.fl.engine.jobs import LaneJob, PredictJob, check_finite, check_lane, check_time
from fedrepro.fl.engine.network import FlatModule
from fedrepro.fl.losses import LossTerm, Outputs
from fedrepro.fl.requests import IntArray, OptimizerState, Prediction, Trained, Weights
from fedrepro.fl.spec import batch_sizes

PREDICT_BATCH = 1000
_PURPOSES = ("augment", "dropout", "noise", "quantise")


def epoch_order(job: LaneJob, epoch: int) -> IntArray:
    """Return a lane's examples in the order of an epoch, int64 [n]."""
    lane = job.lane
    key = streams.key(job.spec.seed, "shuffle", *lane.stream, job.request.round, epoch)
    return lane.examples[streams.permutation(key, len(lane.examples))]


def stream_key(job: LaneJob, purpose: str) -> int:
    """Return the key of a lane's stream for a purpose in this round, as a signed 64-bit number."""
    key = streams.key(job.spec.seed, purpose, *job.lane.stream, job.request.round)
    return device_streams.as_signed(key)


def rows_of(examples: IntArray, batch: int) -> IntArray:
    """Return examples as batches, int64 [steps, batch]; the last row is padded with zeros."""
    steps = math.ceil(len(examples) / batch)
    rows = np.zeros((steps, batch), dtype=np.int64)
    rows.reshape(-1)[: len(examples)] = examples
    return rows


class Batches:
    """Rows of examples, and the number of the step that takes the next one.

    Attributes:
        number: of the step, from 0; with ``fixed`` an int64 [] on the device.
    """

    def __init__(self, device: torch.device, *, fixed: bool) -> None:
        self._device, self._fixed = device, fixed
        self._rows = torch.zeros(0, 0, dtype=torch.int64, device=device)
        self.number: int | torch.Tensor = 0
        if fixed:
            self.number = torch.zeros((), dtype=torch.int64, device=device)

    @property
    def shape(self) -> torch.Size:
        """Room for steps, and examples a step."""
        return self._rows.shape

    def load(self, rows: IntArray) -> bool:
        """Take rows, int64 [steps, batch], and begin with the first one.

        Returns:
            Whether the rows lie in other memory than those before.
        """
        count, width = rows.shape
        fits = self._fixed and len(self._rows) >= count and self._rows.shape[1] == width
        if not fits:
            capacity = _rounded_up(count) if self._fixed else count
            self._rows = torch.zeros(capacity, width, dtype=torch.int64, device=self._device)
        upload(torch.from_numpy(rows), self._rows[:count])
        self.number = assign(self.number, 0)
        return not fits

    def take(self, size: int) -> torch.Tensor:
        """Return the examples of this step, int64 [size]."""
        return self.row(self._rows)[:size]

    def row(self, table: torch.Tensor) -> torch.Tensor:
        """Return this step's row of a table, [steps, ...]."""
        if isinstance(self.number, torch.Tensor):
            return table.index_select(0, self.number.view(1))[0]
        return table[self.number]

    def write(self, values: torch.Tensor, to: torch.Tensor) -> None:
        """Write this step's values, [size], to the front of its row of ``to``, [steps, batch]."""
        if isinstance(self.number, torch.Tensor):
            to[:, : len(values)].index_copy_(0, self.number.view(1), values.unsqueeze(0))
        else:
            to[self.number, : len(values)] = values

    def go_on(self) -> None:
        """Go on to the next row; a counter on the device is counted up there."""
        self.number += 1


def _rounded_up(count: int) -> int:
    """Return the next power of two, so that lanes of like lengths fit into the same rows."""
    return 1 << max(0, count - 1).bit_length()


Number = TypeVar("Number", int, float)


def assign(register: Number | torch.Tensor, value: Number) -> Number | torch.Tensor:
    """Return a register with a new value: the value itself, or the same tensor filled with it."""
    return register.fill_(value) if isinstance(register, torch.Tensor) else value


def upload(source: torch.Tensor, target: torch.Tensor) -> None:
    """Copy a tensor of the host to the device, without waiting for it."""
    if target.is_cuda and not source.is_cuda:
        source = source.pin_memory()
    target.copy_(source, non_blocking=True)


Loss = Callable[..., tuple[torch.Tensor, torch.Tensor]]


def losses(
    body: nn.Module,
    classifier: nn.Module,
    teacher: nn.Module | None,
    terms: Sequence[tuple[LossTerm, float]],
    half: bool,
    images: torch.Tensor,
    labels: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what a step minimises, and its cross entropy, both float32 [].

    Args:
        body: from images to representations.
        classifier: from representations to logits.
        teacher: the start model's body, where a loss term looks at it.
        terms: loss terms besides the cross entropy, and their weights.
        half: whether the network runs under bfloat16 autocast.
        images: network inputs, float32 [n, channels, height, width].
        labels: int64 [n].

    Returns:
        The loss, and the cross entropy (nats, mean over the batch).
    """
    with half_precision(images.device.type) if half else contextlib.nullcontext():
        representation = body(images)
        logits = classifier(representation)
        start = None
        if teacher is not None:
            with torch.no_grad():
                start = teacher(images).float()
    logits = logits.float()
    loss = full = functional.cross_entropy(logits, labels)
    if terms:
        outputs = Outputs(labels, logits, representation.float(), start)
        for term, weight in terms:
            full = full + weight * term.function(outputs)
    return full, loss


def half_precision(device: str) -> torch.autocast:
    """Return the context in which a network runs at ``precision: bf16``."""
    return torch.autocast(device, torch.bfloat16, cache_enabled=False)


@dataclass(frozen=True)
class Ended:
    """A lane whose last step was taken.

    Attributes:
        weights: float32 [size], a copy, quantised where the objective says so.
        scalars: sum of the losses, and sum of the weights as they were trained; float32 [2].
        state: copies of the moments, if they were asked for.
    """

    weights: Weights
    scalars: torch.Tensor
    state: OptimizerState | None


class Training:
    """A network with all that changes while a lane trains in it.

    Args:
        net: the network; its weights are overwritten.
        teacher: a second one for the start model, where a loss term looks at it.
        data: the examples.
        job: a lane of the key (:attr:`LaneJob.key`) of those that will be trained.
        fixed: keep everything that a step reads in the same tensors from lane to lane.
        compiled: a faster :func:`losses` for full batches, if there is one.
    """

    def __init__(
        self,
        net: FlatModule,
        teacher: FlatModule | None,
        data: DeviceData,
        job: LaneJob,
        *,
        fixed: bool = False,
        compiled: Loss | None = None,
    ) -> None:
        self.net, self.teacher, self.data = net, teacher, data
        self._compiled = compiled
        self._objective, self._optimizer = job.request.objective, job.spec.optimizer
        self._terms = objectives.terms_of(self._objective)
        self._half = job.spec.precision == "bf16"
        device = net.flat.device
        self._device = device
        parameters = net.parameters
        needs_start = objectives.needs_start(self._objective)
        self._start = torch.empty_like(parameters) if needs_start else None
        self._linear = None if job.lane.linear is None else torch.empty_like(parameters)
        scale = optim.factors(self._optimizer, net.layout, device)
        self._scale = None if scale is None else net.inward(scale)
        self._state = optim.fresh_state(self._optimizer, parameters)
        self._lr: float | torch.Tensor = 0.0
        self._batches = Batches(device, fixed=fixed)
        if fixed:
            kind = optim.register_type(device)
            self._lr = torch.zeros((), dtype=kind, device=device)
            if "step" in self._state:
                self._state["step"] = torch.zeros((), dtype=kind, device=device)
        self._keys = {
            purpose: torch.zeros((), dtype=torch.int64, device=device) for purpose in _PURPOSES
        }
        self._tables: dict[str, torch.Tensor] = {}
        self._total = torch.zeros((), device=device)
        self._job = job

    @property
    def batch(self) -> int:
        """Examples of a full batch."""
        return self._job.batch

    @property
    def sizes(self) -> list[int]:
        """Examples of each step of the loaded lane."""
        return self._job.epochs * self._job.sizes

    def load(self, job: LaneJob) -> bool:
        """Take a lane of the key; its examples are shuffled anew for each epoch.

        Returns:
            Whether a step now reads from other memory: with ``fixed``, whether graphs captured
            before can no longer be replayed.

        Raises:
            LaneError: the lane cannot be trained.
        """
        net, lane = self.net, job.lane
        check_lane(job, net)
        self._job = job
        net.load(lane.weights)
        net.module.train()
        for name, value in self._state.items():
            given = None if lane.optimizer_state is None else lane.optimizer_state[name]
            if name == "step":
                self._state[name] = assign(value, 0 if given is None else int(given))
            elif given is None:
                torch.as_tensor(value).zero_()
            else:
                net.inward(torch.as_tensor(given), torch.as_tensor(value))
        if self._start is not None:
            self._start.copy_(net.parameters)
        if self._linear is not None and lane.linear is not None:
            net.inward(lane.linear, self._linear)
        if self.teacher is not None:
            self.teacher.load(lane.weights)
            self.teacher.module.train()
        for purpose, key in self._keys.items():
            key.fill_(stream_key(job, purpose))
        self._lr = assign(self._lr, job.lr)
        self._total.zero_()
        used = sum(job.sizes)
        epochs = [rows_of(epoch_order(job, e)[:used], job.batch) for e in range(job.epochs)]
        rows = np.concatenate([np.zeros((0, job.batch), np.int64), *epochs])
        moved = self._batches.load(rows)
        self._tabulate()
        return moved

    def _tabulate(self) -> None:
        """Compute what the steps draw from their streams, or their keys, for all steps at once."""
        capacity, batch = self._batches.shape
        steps = torch.arange(capacity, device=self._device)
        if self.data.augments:
            keys = device_streams.child(self._keys["augment"], steps)
            self._put("augment", self.data.draws(keys, batch))
        if self.net.dropouts:
            keys = device_streams.child(self._keys["dropout"], steps)
            numbers = torch.arange(len(self.net.dropouts), device=self._device)
            self._put("dropout", device_streams.child(keys.unsqueeze(1), numbers))
        if self._objective.gradient_noise:
            self._put("noise", device_streams.child(self._keys["noise"], steps))

    def _put(self, name: str, table: torch.Tensor) -> None:
        """Keep a table, [capacity, ...], where the one before it was if it fits there."""
        old = self._tables.get(name)
        if old is not None and old.shape == table.shape:
            old.copy_(table)
        else:
            self._tables[name] = table

    def _drawn(self, name: str) -> torch.Tensor:
        """Return this step's row of a table."""
        return self._batches.row(self._tables[name])

    def step(self, size: int) -> None:
        """Take the next step, on ``size`` examples; nothing in it waits for the device."""
        images, labels = self._take(size)
        loss = self._differentiate(images, labels)
        self._update()
        with torch.no_grad():
            self._total.add_(loss.detach(), alpha=size)
            self._batches.go_on()

    def stages(self, size: int) -> list[tuple[str, Callable[[], object]]]:
        """Return the parts of a step, each with the field of the spec that asks for it.

        Each can be run by itself, to find out which one a device cannot run.
        """
        images, labels = self._take(size)
        return [
            ("dataset", lambda: self._take(size)),
            ("model", lambda: self._differentiate(images, labels)),
            ("optimizer", self._update),
        ]

    def _take(self, size: int) -> tuple[torch.Tensor, torch.Tensor]:
        draws = self._drawn("augment") if self.data.augments else None
        images, labels = self.data.batch("train", self._batches.take(size), draws)
        return self.net.arranged(images), labels

    def _differentiate(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Compute the gradient; return the cross entropy."""
        net, teacher = self.net, self.teacher
        nets = [one for one in (net, teacher) if one is not None]
        for one in nets if net.dropouts else ():
            for layer, key in zip(one.dropouts, self._drawn("dropout"), strict=True):
                layer.key = key
        full_batch = len(labels) == self._job.batch
        function = self._compiled if self._compiled is not None and full_batch else losses
        full, loss = function(
            net.body,
            net.classifier,
            None if teacher is None else teacher.body,
            self._terms,
            self._half,
            images,
            labels,
        )
        net.differentiate(full)
        for one in nets if net.dropouts else ():
            for layer in one.dropouts:
                layer.key = None  # else memory of a graph would live on in it
        return loss

    @torch.no_grad()
    def _update(self) -> None:
        net, objective, optimizer = self.net, self._objective, self._optimizer
        parameters, gradient = net.parameters, net.gradient
        noise = None
        if objective.gradient_noise:
            noise = device_streams.normal(self._drawn("noise"), len(parameters))
            noise = net.inward(noise)
        objectives.adjust_gradient(
            objective,
            optimizer.clip_norm,
            parameters,
            gradient,
            self._start,
            self._linear,
            noise,
        )
        optim.step(optimizer, self._lr, parameters, gradient, self._state, self._scale)
        objectives.project(objective, parameters, self._start)

    @torch.no_grad()
    def end(self) -> Ended:
        """Return copies of the lane's weights and state, without waiting for the device."""
        net, objective = self.net, self._objective
        weights = net.weights()
        scalars = torch.stack([self._total, weights.sum()])
        if objective.quantise_bits is not None:
            named = objectives.quantised_layers(net.module)
            bits, key = objective.quantise_bits, self._keys["quantise"]
            objectives.quantise(weights, bits, net.layout, named, key)
        state: OptimizerState | None = None
        if self._job.request.keep_optimizer_state:
            given = self._job.lane.optimizer_state or {}
            steps = int(given.get("step", 0)) + len(self.sizes)
            state = {
                name: steps if name == "step" else net.outward(torch.as_tensor(value))
                for name, value in self._state.items()
            }
        return Ended(weights, scalars, state)

    def result(self, ended: Ended, scalars: list[float]) -> Trained:
        """Return the lane's result.

        Args:
            ended: of :meth:`end`.
            scalars: ``ended.scalars`` on the host.

        Raises:
            LaneError: loss or weights are no longer finite.
        """
        total, weight_sum = scalars
        loss = total / max(self._job.epochs * sum(self._job.sizes), 1)
        check_finite(self._job, loss, ended.weights, weight_sum)
        return Trained(ended.weights, loss, ended.state)


def train_lane(
    net: FlatModule,
    teacher: FlatModule | None,
    data: DeviceData,
    job: LaneJob,
    deadline: float = math.inf,
) -> Trained:
    """Train one lane, step after step.

    Args:
        net: the network to train in; its weights are overwritten.
        teacher: a second one for the start model, where a loss term looks at it.
        data: the examples.
        job: the lane.
        deadline: when to give up, in seconds of ``time.monotonic()``.

    Raises:
        LaneError: the lane cannot be trained, or its loss or weights are no longer finite.
        OutOfTime: the deadline has passed.
    """
    training = Training(net, teacher, data, job)
    training.load(job)
    for size in training.sizes:
        check_time(deadline)
        training.step(size)
    ended = training.end()
    return training.result(ended, ended.scalars.tolist())


@dataclass(frozen=True)
class Predicted:
    """A model's answers to all examples: ``classes`` and ``correct`` [steps, batch]."""

    classes: torch.Tensor
    correct: torch.Tensor
    loss: torch.Tensor


class Predicting:
    """A network in evaluation mode, and its answers.

    Args:
        net: the network; its weights are overwritten.
        data: the examples.
        split: official split that they are of.
        fixed: as of :class:`Training`.
    """

    batch = PREDICT_BATCH

    def __init__(
        self, net: FlatModule, data: DeviceData, split: Split, *, fixed: bool = False
    ) -> None:
        self.net, self.data, self._split = net, data, split
        self._batches = Batches(net.flat.device, fixed=fixed)
        self._classes = torch.zeros(0, 0, dtype=torch.int64)
        self._correct = torch.zeros(0, 0, dtype=torch.bool)
        self._loss = torch.zeros((), device=net.flat.device)
        self._count = 0

    @property
    def sizes(self) -> list[int]:
        """Examples of each step of the loaded job."""
        return batch_sizes(self._count, PREDICT_BATCH, "keep")

    def load(self, job: PredictJob) -> bool:
        """Take a model and the examples it is asked about; returns as :meth:`Training.load`."""
        net = self.net
        net.load(job.weights)
        net.module.eval()
        self._count = len(job.examples)
        self._loss.zero_()
        moved = self._batches.load(rows_of(job.examples, PREDICT_BATCH))
        if moved:
            shape, device = self._batches.shape, net.flat.device
            self._classes = torch.zeros(shape, dtype=torch.int64, device=device)
            self._correct = torch.zeros(shape, dtype=torch.bool, device=device)
        return moved

    @torch.no_grad()
    def step(self, size: int) -> None:
        """Ask about the next ``size`` examples; nothing in it waits for the device."""
        images, labels = self.data.batch(self._split, self._batches.take(size))
        _, logits = self.net.forward(images)
        self._loss.add_(functional.cross_entropy(logits, labels, reduction="sum"))
        classes = logits.argmax(dim=1)
        self._batches.write(classes, self._classes)
        self._batches.write(classes == labels, self._correct)
        self._batches.go_on()

    def end(self) -> Predicted:
        """Return copies of the answers, without waiting for the device."""
        steps = len(self.sizes)
        return Predicted(
            self._classes[:steps].clone(), self._correct[:steps].clone(), self._loss + 0
        )

    def result(self, found: Predicted) -> Prediction:
        """Return the answers, once they are on the host."""
        count = self._count
        return Prediction(
            classes=found.classes.flatten()[:count].numpy(),
            correct=found.correct.flatten()[:count].numpy(),
            loss=float(found.loss) / count,
        )


def predict(net: FlatModule, data: DeviceData, job: PredictJob) -> Prediction:
    """Predict with one model in evaluation mode, in batches of 1,000."""
    predicting = Predicting(net, data, job.split)
    predicting.load(job)
    for size in predicting.sizes:
        predicting.step(size)
    found = predicting.end()
    return predicting.result(Predicted(found.classes.cpu(), found.correct.cpu(), found.loss))
