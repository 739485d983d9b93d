"""What a backend keeps between requests: data sets on the device, networks to train in."""

from __future__ import annotations

from collections.abc import Hashable

import torch
from torch import nn

from fedrepro.fl import models
from fedrepro.fl.data import Dataset
from fedrepro.fl.engine import objective as objectives
from fedrepro.fl.engine.data import DeviceData, tensors_of
from fedrepro.fl.engine.network import FlatModule
from fedrepro.fl.models import Shape
from fedrepro.fl.requests import Objective
from fedrepro.fl.spec import DatasetSpec, RunSpec


class Resources:
    """Data sets and networks of one process on one device, made when first asked for.

    A name of a data set is of one content: :mod:`.driver` lets no other data come under it.
    """

    def __init__(self, device: torch.device, *, channels_last: bool = False) -> None:
        self.device = device
        self._channels_last = channels_last
        self._data: dict[DatasetSpec, DeviceData] = {}
        self._classes: dict[str, int] = {}
        self._tensors: dict[str, dict[str, torch.Tensor]] = {}
        self._networks: dict[Hashable, FlatModule] = {}

    def add(self, name: str, tensors: dict[str, torch.Tensor], classes: int) -> None:
        """Take a data set's tensors, as of :func:`fedrepro.fl.engine.data.tensors_of`."""
        self._tensors[name] = tensors
        self._classes[name] = classes

    def add_dataset(self, dataset: Dataset) -> None:
        """Take a data set unless one of its name was added before."""
        if dataset.name not in self._tensors:
            self.add(dataset.name, tensors_of(dataset), dataset.classes)

    def data(self, spec: RunSpec) -> DeviceData:
        """Return the examples of a run on the device; its data set must have been added."""
        if spec.dataset not in self._data:
            tensors = self._tensors[spec.dataset.name]
            self._data[spec.dataset] = DeviceData(spec.dataset, tensors, self.device)
        return self._data[spec.dataset]

    @property
    def bytes(self) -> int:
        """Memory that the examples of all runs take on the device."""
        return sum(data.bytes for data in self._data.values())

    def network(self, spec: RunSpec, *, second: bool = False) -> FlatModule:
        """Return the network of a run's architecture, or the second one of it."""
        key = (*self._architecture(spec), second)
        if key not in self._networks:
            self._networks[key] = self.build(spec, channels_last=self._channels_last)
        return self._networks[key]

    def teacher(self, spec: RunSpec, objective: Objective) -> FlatModule | None:
        """Return a second network, for the start model, where a loss term looks at that."""
        return self.network(spec, second=True) if objectives.needs_teacher(objective) else None

    def blueprint(self, spec: RunSpec) -> nn.Module:
        """Return a run's network on the CPU, with arbitrary weights, to estimate its memory."""
        with torch.random.fork_rng(devices=[]):
            return models.build(*self._architecture(spec))

    def build(self, spec: RunSpec, *, channels_last: bool) -> FlatModule:
        """Return a new network of a run's architecture, which is not kept here."""
        net, aligned = models.build(*self._architecture(spec)), self.device.type == "cuda"
        return FlatModule(net, self.device, channels_last=channels_last, aligned=aligned)

    def _architecture(self, spec: RunSpec) -> tuple[str, Shape, int, float]:
        """Return the arguments of :func:`fedrepro.fl.models.build`."""
        classes = self._classes[spec.dataset.name]
        return spec.model.name, self.data(spec).shape, classes, spec.model.width
