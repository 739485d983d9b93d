"""The reference backend: one lane after another, an ordinary module and autograd.

The simplest code that does what the requests say. Every other backend is held against it. On a CPU
with one compute thread the same requests give the same bits, whatever else is in flight.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional

from fedrepro import models, streams
from fedrepro.data import Dataset, describe
from fedrepro.engine import optim
from fedrepro.engine.federation import Federation
from fedrepro.engine.layout import Layout
from fedrepro.requests import Lane, Predict, Prediction, Request, Train, Trained, Weights
from fedrepro.spec import ModelSpec, RunSpec

_PREDICT_BATCH = 1000


class LaneError(Exception):
    """A lane cannot be trained; the message names the lane and the reason."""


class DeviceData:
    """A data set's two splits on the device, as stored; pixels become floats batch by batch."""

    def __init__(self, dataset: Dataset, transform: str, device: torch.device) -> None:
        self.images = {
            "train": torch.tensor(dataset.train_x, device=device),
            "test": torch.tensor(dataset.test_x, device=device),
        }
        self.labels = {
            "train": torch.tensor(dataset.train_y, device=device),
            "test": torch.tensor(dataset.test_y, device=device),
        }
        self._scale = 255.0 if dataset.train_x.dtype.name == "uint8" else 1.0
        self._mean = self._std = None
        if transform == "standard":
            constants = describe(dataset.name)
            shape = (1, -1, 1, 1) if constants.statistics_axis == "channel" else (1, 1, -1, 1)
            self._mean = torch.tensor(constants.mean, device=device).view(shape)
            self._std = torch.tensor(constants.std, device=device).view(shape)

    def batch(self, split: str, examples: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return images float32 [n, channels, height, width] and labels int64 [n]."""
        images = self.images[split].index_select(0, examples).to(torch.float32)
        if self._scale != 1.0:
            images.div_(self._scale)
        if self._mean is not None and self._std is not None:
            images.sub_(self._mean).div_(self._std)
        return images, self.labels[split].index_select(0, examples)


class FlatModule:
    """A module whose parameters, gradients and buffers are views of flat vectors."""

    def __init__(self, module: nn.Module, device: torch.device) -> None:
        self.layout = Layout.of(module)
        self.module = module.to(device)
        self.flat = self.layout.flatten(self.module)
        self.gradient = torch.zeros(self.layout.parameters, device=device)
        tensors = dict(self.module.named_parameters()) | dict(self.module.named_buffers())
        for position, name in enumerate(self.layout.names):
            tensors[name].data = self.layout.view(self.flat, position)
            if isinstance(tensors[name], nn.Parameter):
                tensors[name].grad = self.layout.view(self.gradient, position)

    @property
    def parameters(self) -> torch.Tensor:
        """The trainable front part of ``flat``, float32 [parameters]."""
        return self.flat[: self.layout.parameters]


class LoopBackend:
    """Trains and predicts lane after lane on one device."""

    name = "loop"

    def __init__(self, device: str = "cpu") -> None:
        self.device = torch.device(device)
        self._data: dict[tuple[str, str], DeviceData] = {}
        self._modules: dict[tuple[ModelSpec, tuple[int, ...], int], FlatModule] = {}

    def answer(
        self, open_requests: Sequence[tuple[Federation, Dataset, Request]]
    ) -> list[list[Trained] | list[Prediction] | LaneError]:
        """Answer the open requests of all runs in flight, in their order.

        A run whose lane fails gets the :class:`LaneError` as its answer; the others go on.
        """
        answers: list[list[Trained] | list[Prediction] | LaneError] = []
        for fed, dataset, request in open_requests:
            data = self._device_data(fed.spec, dataset)
            module = self._module(fed.spec, dataset)
            try:
                if isinstance(request, Train):
                    answers.append(
                        [_train_lane(module, data, fed.spec, request, x) for x in request.lanes]
                    )
                else:
                    answers.append([_predict(module, data, request, w) for w in request.models])
            except LaneError as error:
                answers.append(error)
        return answers

    def _device_data(self, spec: RunSpec, dataset: Dataset) -> DeviceData:
        key = (dataset.name, spec.dataset.transform)
        if key not in self._data:
            self._data[key] = DeviceData(dataset, spec.dataset.transform, self.device)
        return self._data[key]

    def _module(self, spec: RunSpec, dataset: Dataset) -> FlatModule:
        channels, height, width = dataset.train_x.shape[1:]
        key = (spec.model, (channels, height, width), dataset.classes)
        if key not in self._modules:
            module = models.build(
                spec.model.name, (channels, height, width), dataset.classes, spec.model.width
            )
            self._modules[key] = FlatModule(module, self.device)
        return self._modules[key]


def _train_lane(
    net: FlatModule, data: DeviceData, spec: RunSpec, request: Train, lane: Lane
) -> Trained:
    """Train one lane; its examples are shuffled anew each epoch, the last batch may be smaller.

    Raises:
        LaneError: the lane has no examples, or its loss or weights are no longer finite.
    """
    name = " ".join(str(part) for part in lane.stream)
    if len(lane.examples) == 0:
        raise LaneError(f"lane '{name}' in round {request.round} has no examples to train on")
    optimizer = spec.optimizer
    lr = optimizer.lr * optimizer.lr_decay**request.round
    net.flat.copy_(lane.weights)
    net.module.train()
    parameters, gradient = net.parameters, net.gradient
    if lane.optimizer_state is None:
        state = optim.fresh_state(optimizer, parameters)
    else:
        state = {
            key: value.clone() if isinstance(value, torch.Tensor) else value
            for key, value in lane.optimizer_state.items()
        }
    total = torch.zeros((), device=net.flat.device)
    epochs = request.epochs or spec.local_epochs
    for epoch in range(epochs):
        stream = streams.key(spec.seed, "shuffle", *lane.stream, request.round, epoch)
        order = lane.examples[streams.permutation(stream, len(lane.examples))]
        on_device = torch.from_numpy(order).to(net.flat.device)
        for examples in torch.split(on_device, lane.batch or spec.batch):
            images, labels = data.batch("train", examples)
            gradient.zero_()
            loss = functional.cross_entropy(net.module(images), labels)
            loss.backward()  # type: ignore[no-untyped-call]
            with torch.no_grad():
                optim.step(optimizer, lr, parameters, gradient, state)
                total.add_(loss, alpha=len(examples))
    mean_loss = float(total) / (epochs * len(lane.examples))
    if not (torch.isfinite(total) and torch.isfinite(net.flat).all()):
        raise LaneError(
            f"lane '{name}' in round {request.round} has a loss of {mean_loss} or weights that are "
            "not finite; lower the step size (optimizer.lr) or check the data"
        )
    return Trained(net.flat.clone(), mean_loss, state if request.keep_optimizer_state else None)


@torch.no_grad()
def _predict(net: FlatModule, data: DeviceData, request: Predict, weights: Weights) -> Prediction:
    """Predict with one model in evaluation mode, in batches of 1,000."""
    net.flat.copy_(weights)
    net.module.eval()
    if request.examples is None:
        everything = torch.arange(len(data.labels[request.split]), device=net.flat.device)
    else:
        everything = torch.from_numpy(request.examples).to(net.flat.device)
    classes, correct = [], []
    loss = torch.zeros((), device=net.flat.device)
    for examples in torch.split(everything, _PREDICT_BATCH):
        images, labels = data.batch(request.split, examples)
        logits = net.module(images)
        loss += functional.cross_entropy(logits, labels, reduction="sum")
        classes.append(logits.argmax(dim=1))
        correct.append(classes[-1] == labels)
    return Prediction(
        classes=torch.cat(classes).cpu().numpy(),
        correct=torch.cat(correct).cpu().numpy(),
        loss=float(loss) / len(everything),
    )
