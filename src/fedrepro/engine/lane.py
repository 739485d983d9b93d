"""Training and prediction of one lane: the simplest code that does what a request says.

Every other way of training is held against :func:`train_lane`. On a CPU with one compute thread it
gives the same bits whatever else is in flight.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator

import numpy as np
import torch
from torch.nn import functional

from fedrepro import device_streams, streams
from fedrepro.engine import objective as objectives
from fedrepro.engine import optim
from fedrepro.engine.data import DeviceData
from fedrepro.engine.jobs import LaneJob, check_finite, check_lane, check_time
from fedrepro.engine.network import FlatModule
from fedrepro.models import layers
from fedrepro.requests import IntArray, Predict, Prediction, Trained, Weights
from fedrepro.spec import RunSpec

PREDICT_BATCH = 1000


def epoch_order(job: LaneJob, epoch: int) -> IntArray:
    """Return a lane's examples in the order of an epoch, int64 [n]."""
    lane = job.lane
    key = streams.key(job.spec.seed, "shuffle", *lane.stream, job.request.round, epoch)
    return lane.examples[streams.permutation(key, len(lane.examples))]


def stream_key(job: LaneJob, purpose: str) -> int:
    """Return the key of a lane's stream for a purpose in this round, as a signed 64-bit number."""
    key = streams.key(job.spec.seed, purpose, *job.lane.stream, job.request.round)
    return device_streams.as_signed(key)


def _batches(job: LaneJob, device: torch.device) -> Iterator[torch.Tensor]:
    sizes = job.sizes
    for epoch in range(job.epochs):
        order = torch.from_numpy(epoch_order(job, epoch)).to(device)
        yield from torch.split(order[: sum(sizes)], sizes)


def train_lane(
    net: FlatModule,
    teacher: FlatModule | None,
    data: DeviceData,
    job: LaneJob,
    deadline: float = math.inf,
) -> Trained:
    """Train one lane; its examples are shuffled anew each epoch.

    Args:
        net: the network to train in; its weights are overwritten.
        teacher: a second one for the start model, where the objective distils.
        data: the examples.
        job: the lane.
        deadline: ``time.monotonic()`` to give up at.

    Raises:
        LaneError: the lane cannot be trained, or its loss or weights are no longer finite.
        OutOfTime: the deadline has passed.
    """
    check_lane(job, net.layout, normalises_vectors=net.normalises_vectors)
    spec, lane, objective = job.spec, job.lane, job.request.objective
    device = net.flat.device
    net.load(lane.weights)
    net.module.train()
    parameters, gradient = net.parameters, net.gradient
    if lane.optimizer_state is None:
        state = optim.fresh_state(spec.optimizer, parameters)
    else:
        state = {
            key: net.inward(value) if isinstance(value, torch.Tensor) else value
            for key, value in lane.optimizer_state.items()
        }
    start = parameters.clone() if objectives.needs_start(objective) else None
    linear = None if lane.linear is None else net.inward(lane.linear)
    scale = optim.factors(spec.optimizer, net.layout, device)
    if scale is not None:
        scale = net.inward(scale)
    if teacher is not None:
        teacher.load(lane.weights)
        teacher.module.train()
    keys = {
        purpose: torch.tensor(stream_key(job, purpose), device=device)
        for purpose in ("augment", "dropout", "noise", "quantise")
    }
    total = torch.zeros((), device=device)
    for number, examples in enumerate(_batches(job, device)):
        check_time(deadline)
        augment = device_streams.child(keys["augment"], number) if data.augments else None
        images, labels = data.batch("train", examples, augment)
        dropout = device_streams.child(keys["dropout"], number) if net.drops else None
        with half_precision(spec, device):
            layers.set_keys(net.module, dropout)
            representation, logits = net.forward(images)
            if teacher is not None:
                layers.set_keys(teacher.module, dropout)
                with torch.no_grad():
                    anchor, _ = teacher.forward(images)
        loss = functional.cross_entropy(logits.float(), labels)
        full = loss
        if teacher is not None:
            divergence = objectives.pairwise_divergence(representation.float(), anchor.float())
            full = loss + objective.distillation * divergence
        net.differentiate(full)
        with torch.no_grad():
            noise = None
            if objective.gradient_noise:
                key = device_streams.child(keys["noise"], number)
                noise = net.inward(device_streams.normal(key, len(parameters)))
            objectives.adjust_gradient(
                objective, spec.optimizer.clip_norm, parameters, gradient, start, linear, noise
            )
            optim.step(spec.optimizer, job.lr, parameters, gradient, state, scale)
            projected = objectives.project(objective, parameters, start)
            if projected is not None:
                parameters.copy_(projected)
            total.add_(loss, alpha=len(examples))
    seen = job.epochs * sum(job.sizes)
    mean_loss = float(total) / max(seen, 1)
    weights = net.weights()
    check_finite(job, mean_loss, finite_weights=all_finite(weights))
    if objective.quantise_bits is not None:
        named = objectives.quantised_layers(net.module)
        bits = objective.quantise_bits
        objectives.quantise(weights, bits, net.layout, named, keys["quantise"])
    kept = None
    if job.request.keep_optimizer_state:
        kept = {
            key: net.outward(value).cpu() if isinstance(value, torch.Tensor) else value
            for key, value in state.items()
        }
    return Trained(weights.cpu(), mean_loss, kept)


@torch.no_grad()
def predict(net: FlatModule, data: DeviceData, request: Predict, weights: Weights) -> Prediction:
    """Predict with one model in evaluation mode, in batches of 1,000."""
    net.load(weights)
    net.module.eval()
    device = net.flat.device
    classes, correct = [], []
    loss = torch.zeros((), device=device)
    everything = positions(request, data)
    for examples in torch.split(everything, PREDICT_BATCH):
        images, labels = data.batch(request.split, examples)
        _, logits = net.forward(images)
        loss += functional.cross_entropy(logits, labels, reduction="sum")
        classes.append(logits.argmax(dim=1))
        correct.append(classes[-1] == labels)
    return Prediction(
        classes=torch.cat(classes).cpu().numpy(),
        correct=torch.cat(correct).cpu().numpy(),
        loss=float(loss) / len(everything),
    )


def all_finite(weights: Weights) -> bool:
    """Return whether all weights are finite; looks at each only if their sum is not."""
    return bool(torch.isfinite(weights.sum())) or bool(torch.isfinite(weights).all())


def half_precision(
    spec: RunSpec, device: torch.device
) -> contextlib.AbstractContextManager[object]:
    """Return the context in which a network runs: bfloat16 autocast if the spec says so."""
    if spec.precision == "bf16":
        return torch.autocast(device.type, torch.bfloat16)
    return contextlib.nullcontext()


def positions(request: Predict, data: DeviceData) -> torch.Tensor:
    """Return the examples a prediction is asked for, int64 [n] on the device."""
    labels = data.labels[request.split]
    if request.examples is None:
        return torch.arange(len(labels), device=labels.device)
    return torch.from_numpy(np.asarray(request.examples)).to(labels.device)
