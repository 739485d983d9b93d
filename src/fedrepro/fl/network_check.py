"""Whether a network is what the engine relies on: see :mod:`fedrepro.fl.models`."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence

import torch
from torch.nn.parameter import is_lazy

from fedrepro.base.errors import FedreproError
from fedrepro.fl.models import Network, Shape
from fedrepro.fl.models.parts.layers import Dropout, set_keys


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
