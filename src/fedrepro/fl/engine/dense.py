"""Stacked training of small dense networks on a CPU: one batched matrix product a layer.

For networks of Flatten, Linear and ReLU (Model 1 of Liu et al. 2020) a step of one lane is nearly
all interpreter and dispatch overhead; here a step of many lanes costs about as many calls as a step
of one. The backward pass of the linear layers is written out, autograd computes the gradient of the
loss alone.

Lanes need not be of one length: at each step the lanes whose batches have the same size are trained
together, and lanes that are done drop out, so nothing is padded. Every product, sum and update of a
lane is computed as :mod:`fedrepro.fl.engine.lane` computes it: the weights are equal to the bit,
whatever the stack is made of. The rounding of matrix libraries depends on shape and alignment, and
some batched products round differently from single ones; these are found by trial and computed lane
by lane.

Measured with 784-30-10 at batch 10 and 20 lanes, time of a client's step relative to a plain loop
on the same core (benchmarks/mechanisms.py): vmap 0.35, batched products with autograd 0.24, this
module 0.24 with the gathering and scaling of the pixels, which the others are spared. In training,
two workers are 12 times as fast as the plain loop (benchmarks/README.md).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from fedrepro.fl import device_streams
from fedrepro.fl.engine import objective as objectives
from fedrepro.fl.engine import optim
from fedrepro.fl.engine.data import DeviceData
from fedrepro.fl.engine.jobs import LaneError, LaneJob, check_finite, check_lane, check_time
from fedrepro.fl.engine.lane import epoch_order, stream_key
from fedrepro.fl.engine.network import FlatModule
from fedrepro.fl.requests import OptimizerState, Trained
from fedrepro.fl.spec import RunSpec

MOST_STACKED = 24
"""Most lanes in a stack; with more, the weights no longer fit a core's cache."""
LARGEST_NETWORK = 400_000
"""Parameters up to which stacking pays; larger dense layers fill a core by themselves."""
SMALLEST_BATCH = 8
"""Examples from which products are batched; smaller ones are rounded by the number of lanes too."""
_TRIALS = 17
"""Lanes in a trial of a product. Rounding may depend on how far from a multiple of 64 bytes a
matrix begins; 16 matrices, one after another, begin in all the ways that there are."""


def is_dense(module: nn.Module) -> bool:
    """Return whether a network is Flatten, then Linear layers, each with or without a ReLU.

    Subclasses of these, which may compute something else, and Linear without a bias are others.
    """
    if not isinstance(module, nn.Sequential):
        return False
    first, *layers = module  # a ReLU that serves twice is there twice
    return (
        type(first) is nn.Flatten
        and (first.start_dim, first.end_dim) == (1, -1)
        and all(
            _is_linear(layer) or (type(layer) is nn.ReLU and _is_linear(before))
            for before, layer in pairwise([first, *layers])
        )
    )


def _is_linear(layer: nn.Module) -> bool:
    own = {name for name, _ in layer.named_parameters()}  # others than these with weight_norm
    return type(layer) is nn.Linear and own == {"weight", "bias"}


def can_stack(net: FlatModule, job: LaneJob) -> bool:
    """Return whether :func:`train_stack` knows how to train a lane of this network."""
    return (
        is_dense(net.module)
        and net.layout.size <= LARGEST_NETWORK
        and job.spec.precision == "float32"
        and not job.request.objective.terms
    )


class _Batched(NamedTuple):
    """For the products of a linear layer, whether those of several lanes are made at once."""

    outputs: bool
    weight_gradient: bool
    input_gradient: bool


@dataclass(frozen=True)
class _Layer:
    """A linear layer of the stack: views of the flat weights and gradients of all lanes."""

    weight: torch.Tensor  # [lanes, out, in]
    bias: torch.Tensor  # [lanes, 1, out]
    weight_gradient: torch.Tensor
    bias_gradient: torch.Tensor
    offset: int  # of the weights in a lane's vector
    rectified: bool  # followed by ReLU

    def batched(self, lanes: int, batch: int) -> _Batched:
        """Return which products of so many lanes with so many examples each may be batched."""
        if lanes == 1 or batch < SMALLEST_BATCH:
            return _Batched(False, False, False)
        _, out, inputs = self.weight.shape
        return _may_be_batched(batch, out, inputs, self.offset)


def train_stack(
    net: FlatModule, data: DeviceData, jobs: Sequence[LaneJob], deadline: float = math.inf
) -> list[Trained | LaneError]:
    """Train lanes of one key together; each gets the bits that it would get alone.

    Args:
        net: a network of the lanes' architecture, for its layout and layers.
        data: the examples.
        jobs: lanes with equal :attr:`LaneJob.key`.
        deadline: ``time.monotonic()`` to give up at.

    Returns:
        One result a lane, in order; a lane that fails does not disturb the others.

    Raises:
        OutOfTime: the deadline has passed.
    """
    results: list[Trained | LaneError | None] = [None] * len(jobs)
    good = []
    for i, job in enumerate(jobs):
        try:
            check_lane(job, net)
            good.append(i)
        except LaneError as error:
            results[i] = error
    # Longest first, and equal lengths side by side, so that the lanes of a step are slices.
    good.sort(key=lambda i: (-jobs[i].epochs * len(jobs[i].sizes), -len(jobs[i].lane.examples)))
    if good:
        trained = Stack(net, data, [jobs[i] for i in good]).train(deadline)
        for i, result in zip(good, trained, strict=True):
            results[i] = result
    return [result for result in results if result is not None]


class Stack:
    """Lanes of one key that can all be trained, longest first."""

    def __init__(self, net: FlatModule, data: DeviceData, jobs: list[LaneJob]) -> None:
        self.net, self.data, self.jobs = net, data, jobs
        self.spec: RunSpec = jobs[0].spec
        self.objective = jobs[0].request.objective
        layout = net.layout
        self.weights = optim.stack_rows([job.lane.weights for job in jobs])
        self.gradient = optim.stack_rows([torch.zeros(layout.parameters)] * len(jobs))
        self.layers = self._layers()
        self.state = optim.stack_states(
            self.spec.optimizer, [job.lane.optimizer_state for job in jobs], layout.parameters
        )
        self.lr = torch.tensor([[job.lr] for job in jobs], dtype=torch.float64)
        self.scale = optim.factors(self.spec.optimizer, layout, torch.device("cpu"))
        needs_start = objectives.needs_start(self.objective)
        self.start = optim.stack_rows(list(self.weights)) if needs_start else None
        lines = [job.lane.linear for job in jobs if job.lane.linear is not None]
        self.linear = optim.stack_rows(lines) if lines else None
        self.noise_keys = torch.tensor([stream_key(job, "noise") for job in jobs])
        self.augment_keys = torch.tensor([stream_key(job, "augment") for job in jobs])
        self.losses = torch.zeros(len(jobs), 1)

    def _layers(self) -> list[_Layer]:
        modules = list(self.net.module._modules.items())
        place = {name: i for i, name in enumerate(self.net.layout.names)}
        layers = []
        for i, (name, module) in enumerate(modules):
            if isinstance(module, nn.Linear):
                rectified = i + 1 < len(modules) and isinstance(modules[i + 1][1], nn.ReLU)
                weight, bias = place[f"{name}.weight"], place[f"{name}.bias"]
                layers.append(
                    _Layer(
                        self._view(self.weights, weight),
                        self._view(self.weights, bias),
                        self._view(self.gradient, weight),
                        self._view(self.gradient, bias),
                        self.net.layout.offsets[weight],
                        rectified,
                    )
                )
        return layers

    def _view(self, vectors: torch.Tensor, position: int) -> torch.Tensor:
        layout = self.net.layout
        begin, end = layout.offsets[position : position + 2]
        shape = layout.shapes[position]
        return vectors[:, begin:end].view(len(vectors), *([1] * (2 - len(shape))), *shape)

    def train(self, deadline: float) -> list[Trained | LaneError]:
        """Train all lanes to their end.

        Raises:
            OutOfTime: the deadline, in seconds of ``time.monotonic()``, has passed.
        """
        sizes = [job.sizes for job in self.jobs]
        steps = [job.epochs * len(s) for job, s in zip(self.jobs, sizes, strict=True)]
        orders = self._orders()
        taken = [0] * len(self.jobs)
        for number in range(max(steps, default=0)):
            check_time(deadline)
            open_lanes = sum(number < count for count in steps)
            now = [sizes[i][number % len(sizes[i])] for i in range(open_lanes)]
            for size, first, last in _slices(now):
                lanes, begin = slice(first, last), taken[first]
                if taken[first:last].count(begin) == last - first:
                    examples = orders[lanes, begin : begin + size]
                else:
                    rows = [orders[i, taken[i] : taken[i] + size] for i in range(first, last)]
                    examples = torch.stack(rows)
                self.step(lanes, examples, number)
                taken[lanes] = [count + size for count in taken[lanes]]
        return [self._result(i) for i in range(len(self.jobs))]

    def _orders(self) -> torch.Tensor:
        """Return the examples of all epochs of each lane one after another, int64 [lanes, most]."""
        rows = []
        for job in self.jobs:
            used = sum(job.sizes)
            epochs = [epoch_order(job, epoch)[:used] for epoch in range(job.epochs)]
            rows.append(torch.from_numpy(np.concatenate([job.lane.examples[:0], *epochs])))
        return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)

    @torch.no_grad()
    def step(self, lanes: slice, examples: torch.Tensor, number: int) -> None:
        """Train some lanes on one batch each.

        Args:
            lanes: which ones.
            examples: their batches, positions in the training split, int64 [lanes, batch].
            number: of the step, from 0.
        """
        size = examples.shape[1]
        draws = None
        if self.data.augments:
            keys = device_streams.child(self.augment_keys[lanes], number)
            draws = self.data.draws(keys, size)
        images, labels = self.data.batch("train", examples, draws)
        loss = self._gradients(lanes, images.flatten(2), labels)
        parameters = self.weights[lanes, : self.net.layout.parameters]
        gradient = self.gradient[lanes]
        start = None if self.start is None else self.start[lanes]
        noise = None
        if self.objective.gradient_noise:
            key = device_streams.child(self.noise_keys[lanes], number)
            noise = device_streams.normal(key, gradient.shape[1])
        linear = None if self.linear is None else self.linear[lanes]
        optimizer = self.spec.optimizer
        objectives.adjust_gradient(
            self.objective, optimizer.clip_norm, parameters, gradient, start, linear, noise
        )
        state: OptimizerState = {
            key: value[lanes]
            for key, value in self.state.items()
            if isinstance(value, torch.Tensor)
        }
        optim.step(optimizer, self.lr[lanes], parameters, gradient, state, self.scale)
        objectives.project(self.objective, parameters, start)
        self.losses[lanes].add_(loss, alpha=size)

    def _gradients(self, lanes: slice, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Write the gradients of the mean cross entropies; return these, [lanes, 1]."""
        count, batch, _ = inputs.shape
        batched = [layer.batched(count, batch) for layer in self.layers]
        activations = [inputs]
        for layer, may in zip(self.layers, batched, strict=True):
            weight, bias = layer.weight[lanes], layer.bias[lanes]
            outputs = _outputs(activations[-1], weight, bias, may.outputs)
            activations.append(outputs.relu_() if layer.rectified else outputs)
        logits = activations[-1].requires_grad_()
        with torch.enable_grad():
            each = functional.cross_entropy(
                logits.flatten(0, 1), labels.flatten(), reduction="none"
            ).view(labels.shape)
            loss = each.mean(dim=1, keepdim=True)
            [delta] = torch.autograd.grad(loss.sum(), [logits])
        for depth in range(len(self.layers) - 1, -1, -1):
            layer, may = self.layers[depth], batched[depth]
            if layer.rectified:
                delta.masked_fill_(activations[depth + 1] <= 0, 0)
            gradient = layer.weight_gradient[lanes]
            _weight_gradients(delta, activations[depth], gradient, may.weight_gradient)
            torch.sum(delta, dim=1, keepdim=True, out=layer.bias_gradient[lanes])
            if depth:
                delta = _input_gradients(delta, layer.weight[lanes], may.input_gradient)
        return loss.detach()

    def _result(self, i: int) -> Trained | LaneError:
        job, layout = self.jobs[i], self.net.layout
        weights = self.weights[i].clone()
        seen = job.epochs * sum(job.sizes)
        loss = float(self.losses[i]) / max(seen, 1)
        try:
            check_finite(job, loss, weights, float(weights.sum()))
        except LaneError as error:
            return error
        if self.objective.quantise_bits is not None:
            key = torch.tensor(stream_key(job, "quantise"))
            named = objectives.quantised_layers(self.net.module)
            objectives.quantise(weights, self.objective.quantise_bits, layout, named, key)
        if not job.request.keep_optimizer_state:
            return Trained(weights, loss, None)
        return Trained(weights, loss, optim.lane_state(self.state, i))


def _outputs(
    inputs: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, batched: bool
) -> torch.Tensor:
    """Return the outputs of a linear layer, [lanes, batch, out]."""
    if batched:
        return torch.baddbmm(bias, inputs, weight.transpose(1, 2))
    each = zip(inputs, weight, bias, strict=True)
    return torch.stack([functional.linear(_alone(x), w, b[0]) for x, w, b in each])


def _weight_gradients(
    delta: torch.Tensor, inputs: torch.Tensor, out: torch.Tensor, batched: bool
) -> None:
    """Write the gradients of a linear layer's weights, [lanes, out, in]."""
    if batched:
        torch.bmm(delta.transpose(1, 2), inputs, out=out)
        return
    for d, x, gradient in zip(delta, inputs, out, strict=True):
        gradient.copy_(_alone(d).t() @ _alone(x))


def _input_gradients(delta: torch.Tensor, weight: torch.Tensor, batched: bool) -> torch.Tensor:
    """Return the gradients of a linear layer's inputs, [lanes, batch, in]."""
    if batched:
        return torch.bmm(delta, weight)
    each = zip(map(_alone, delta), weight, strict=True)
    if delta.shape[1] == weight.shape[2] == 1:  # where autograd multiplies the other way round
        return torch.stack([(w.t() @ d.t()).t() for d, w in each])
    return torch.stack([d @ w for d, w in each])


def _alone(matrix: torch.Tensor) -> torch.Tensor:
    """Return a matrix of a stack where a tensor of its own would begin, at 64 bytes."""
    return matrix if matrix.data_ptr() % 64 == 0 else matrix.clone()


@functools.cache
def _may_be_batched(batch: int, out: int, inputs: int, offset: int) -> _Batched:
    """Try out which batched products of a layer have the bits of single ones on this machine.

    Args:
        batch: examples a lane.
        out: units of the layer.
        inputs: of each.
        offset: of the layer's weights in a lane's vector.
    """
    numbers = torch.Generator().manual_seed(0)

    def vectors(shape: tuple[int, int], offset: int) -> torch.Tensor:
        rows = optim.apart(_TRIALS, offset + math.prod(shape)).normal_(generator=numbers)
        return rows[:, offset:].view(_TRIALS, *shape)

    x = torch.randn(_TRIALS, batch, inputs, generator=numbers)
    delta = torch.randn(_TRIALS, batch, out, generator=numbers)
    weight, bias = vectors((out, inputs), offset), vectors((1, out), 0)
    ways, gradients = (True, False), [vectors((out, inputs), offset) for _ in range(2)]
    for way, gradient in zip(ways, gradients, strict=True):
        _weight_gradients(delta, x, gradient, way)
    return _Batched(
        torch.equal(*(_outputs(x, weight, bias, way) for way in ways)),
        torch.equal(*gradients),
        torch.equal(*(_input_gradients(delta, weight, way) for way in ways)),
    )


def _slices(sizes: Sequence[int]) -> list[tuple[int, int, int]]:
    """Return runs of equal sizes as (size, first lane, last lane + 1)."""
    bounds = [0]
    values = []
    for size, run in groupby(sizes):
        values.append(size)
        bounds.append(bounds[-1] + sum(1 for _ in run))
    return [(value, *ends) for value, ends in zip(values, pairwise(bounds), strict=True)]
