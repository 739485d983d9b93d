"""What an algorithm sees of its run: the spec, the clients' examples and the named streams."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import torch
from torch.nn.parameter import is_lazy

from fedrepro.base.errors import FedreproError
from fedrepro.fl import models, streams
from fedrepro.fl.algorithms.algorithm import AlgorithmParams, params_of
from fedrepro.fl.data import Dataset
from fedrepro.fl.layout import Layout
from fedrepro.fl.models import NETWORKS, Network, Shape
from fedrepro.fl.models.parts.initial import draw
from fedrepro.fl.models.parts.layers import Dropout, set_keys
from fedrepro.fl.partition import Partition, build_partition
from fedrepro.fl.requests import Weights
from fedrepro.fl.spec import RunSpec

CPU = torch.device("cpu")
P = TypeVar("P", bound=AlgorithmParams)


@functools.lru_cache(maxsize=64)
def require_network(network: Network, shape: Shape, classes: int, width: float) -> None:
    """Refuse a network that is not what the engine relies on, or too large for the examples.

    Args:
        network: which.
        shape: of one example.
        classes: number of logits.
        width: share of the hidden units and channels kept.

    Raises:
        FedreproError: it is.
    """
    name = network.name
    with torch.random.fork_rng(devices=[]), torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of tensors without elements
        begun = torch.get_rng_state()
        net = network.build(shape, classes, width)
        problem = _problem(net, classes)
        if not problem:
            torch.set_rng_state(begun)
            problem = _difference(net, network.build(shape, classes, width))
        if problem:
            raise FedreproError(f"model.name: network {name} {problem}")
        before = torch.get_rng_state()
        images = torch.randn(2, *shape, generator=torch.Generator().manual_seed(0))
        try:
            logits, problem = _tried(net, images)
        except (RuntimeError, ValueError) as error:
            raise FedreproError(
                f"model.name: {name} cannot take examples of {_sizes(shape)} ({error}); take "
                "larger ones (dataset.downsample, dataset.transform) or another network"
            ) from error
        if logits.shape != (2, classes):
            raise FedreproError(
                f"model.name: network {name} makes logits of {_sizes(logits.shape)} of 2 examples, "
                f"not of 2x{classes}; is an nn.Flatten missing?"
            )
        if not torch.equal(torch.get_rng_state(), before):
            raise FedreproError(
                f"model.name: network {name} draws random numbers that depend on what else is "
                "trained; for dropout, take Dropout of fedrepro.fl.models.parts.layers"
            )
        if problem:
            raise FedreproError(f"model.name: network {name} {problem}")


def _problem(net: torch.nn.Module, classes: int) -> str:
    """Say what a network lacks of :mod:`fedrepro.fl.models`; "" if nothing."""
    last = net[-1] if isinstance(net, torch.nn.Sequential) and len(net) else None
    if not isinstance(last, torch.nn.Linear):
        return (
            "must be a torch.nn.Sequential that ends with the torch.nn.Linear to the logits, "
            "without a softmax after it"
        )
    if type(net) is not torch.nn.Sequential:
        return (
            f"is a {type(net).__name__}, whose own code would not be used in every place; put that "
            "into a layer of a plain torch.nn.Sequential"
        )
    if last.out_features != classes:
        return f"has {last.out_features} outputs, and there are {classes} classes"
    owners: dict[int, str] = {}
    places: dict[torch.nn.Module, str] = {}
    for name, layer in net.named_modules(remove_duplicate=False):
        first = places.setdefault(layer, name)
        if first != name and (isinstance(layer, Dropout) or layer._parameters):
            return f"has one layer as {first} and {name}; make one for each place"
        for own, parameter in layer.named_parameters(name, recurse=False):
            if not parameter.requires_grad:
                return (
                    f"has {own} with requires_grad=False, which would be trained: make it a buffer"
                )
            if is_lazy(parameter):
                return f"has {own} of a lazy layer; give the layer its number of inputs"
            if owners.setdefault(id(parameter), own) != own:
                return f"has one tensor as {owners[id(parameter)]} and {own}; give each its own"
        kind = type(layer).__name__
        if getattr(layer, "momentum", 0.1) is None:
            return (
                f"has torch.nn.{kind} with momentum=None, whose statistics depend on what else is "
                "trained; give it a momentum"
            )
    return ""


def _difference(net: torch.nn.Module, again: torch.nn.Module) -> str:
    """Say what is wrong with two networks that were built from one seed; "" if nothing."""
    known = {id(tensor) for tensor in (*net.parameters(), *net.buffers())}
    if any(id(tensor) in known for tensor in (*again.parameters(), *again.buffers())):
        return "has tensors that were made before it is built; make every layer in its `build`"
    first, second = net.state_dict(), again.state_dict()
    if first.keys() != second.keys() or not all(
        torch.equal(tensor, second[name]) for name, tensor in first.items()
    ):
        return (
            "has other initial weights each time it is built from one seed; draw them in its "
            "`build`, from PyTorch's global generator"
        )
    return ""


def _tried(net: torch.nn.Module, images: torch.Tensor) -> tuple[torch.Tensor, str]:
    """Return a network's logits of some examples, and what is wrong with how it makes them.

    Lanes train one after another in a network, to which each brings its parameters and
    floating-point buffers. With these back in place, it must be as it was.

    Args:
        net: the network.
        images: float32 [n, channels, height, width].

    Returns:
        Logits in training mode, [n, classes], and the problem; "" if there is none.

    Raises:
        RuntimeError, ValueError: it cannot take them.
    """
    set_keys(net, torch.tensor(0))
    brought = [one for one in (*net.parameters(), *net.buffers()) if one.is_floating_point()]
    saved = [tensor.clone() for tensor in brought]

    def logits(*, training: bool) -> torch.Tensor:
        with torch.no_grad():
            for tensor, value in zip(brought, saved, strict=True):
                tensor.copy_(value)
        found: torch.Tensor = net.train(training)(images.clone())
        return found

    modes = (False, True)
    first, again = ([logits(training=mode) for mode in modes] for _ in range(2))
    if not all(map(_close, first, again)):
        return first[1], (
            "remembers what it was trained on: let it have no counter and no attribute that "
            "changes, and change buffers in place (`self.mean.lerp_(mean, 0.1)`)"
        )
    parameters = dict(net.named_parameters())
    with torch.enable_grad():
        total = logits(training=True).sum()
    found = torch.autograd.grad(total, list(parameters.values()), allow_unused=True)
    unused = [name for name, one in zip(parameters, found, strict=True) if one is None]
    if unused:
        return first[1], f"does not use {unused[0]}, which would be trained: leave it out"
    return first[1], ""


def _close(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.allclose(one, other, rtol=1e-4, atol=1e-6, equal_nan=True)


def _sizes(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))


class Federation:
    """One run's clients and constants.

    Making one raises a FedreproError if the data set cannot be cut or transformed as ``spec`` says,
    its examples are too small for the network, or that is not what the engine relies on.

    Args:
        spec: the run.
        dataset: its data set.
        data_root: folder of packed data, for published partitions; None takes the usual places.
        device: where to put weights.

    Attributes:
        spec: the run.
        partition: who holds which examples.
        clients: positions in the training split, int64 [n_k] for each client.
        train_size: examples in the official training split.
        test_size: examples in the official test split.
        labels: classes of the training split, int64 [train_size].
        layout: where each parameter lies in a flat weight vector.
        device: where weights are, also between requests.
    """

    def __init__(
        self,
        spec: RunSpec,
        dataset: Dataset,
        data_root: Path | None = None,
        device: torch.device = CPU,
    ) -> None:
        self.spec = spec
        self.device = device
        self.partition: Partition = build_partition(
            spec.partition, dataset.train_y, dataset.test_y, dataset.classes, spec.seed, data_root
        )
        self.clients = self.partition.clients
        self.train_size = len(dataset.train_y)
        self.test_size = len(dataset.test_y)
        self.labels = dataset.train_y
        self._shape = spec.dataset.input_shape(dataset.train_x.shape[1:])
        self._classes = dataset.classes
        network = NETWORKS[spec.model.name]
        require_network(network, self._shape, self._classes, spec.model.width)
        self.layout = Layout.of(self._module())

    def _module(self) -> torch.nn.Module:
        model = self.spec.model
        return models.build(model.name, self._shape, self._classes, model.width)

    def params(self, kind: type[P]) -> P:
        """Return the algorithm's parameters; ``kind`` is their class."""
        return params_of(self.spec, kind)

    def initial_weights(self, node: int | None = None) -> Weights:
        """Draw initial weights, float32 [size] on the device: the common ones, or a node's own.

        They depend on ``init_seed`` (the run seed if that is null) and the node alone, not on the
        device, since they are drawn on the CPU.
        """
        seed = self.spec.seed if self.spec.init_seed is None else self.spec.init_seed
        ids = () if node is None else ("node", node)
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(streams.key(seed, "init", *ids) >> 1)  # no GPU's
            module = self._module()
            if self.spec.model.init != "own":
                draw(module, self.spec.model.init, self.spec.model.width)
            return self.layout.flatten(module).to(self.device)

    def participants(self, t: int, count: int | None) -> list[int]:
        """Return the clients of round ``t`` (from 0), ascending.

        Args:
            t: round.
            count: how many are drawn, without replacement; None: all.

        Raises:
            FedreproError: there are not so many.
        """
        total = len(self.clients)
        if count is None or count == total:
            return list(range(total))
        if count > total:
            raise FedreproError(
                f"algorithm {self.spec.algorithm.name}: draws {count} clients for a round, and the "
                f"partition has {total}"
            )
        return [int(client) for client in streams.participants(self.spec.seed, t, total, count)]
