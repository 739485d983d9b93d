"""Compare ways of stacking clients, one training step each, on one core or a GPU.

What was tried before the engine took its form. On a CPU it kept the hand-written dense stack (small
dense networks) and the loop with kernels stored channels last (convolutions); a GPU steps each
client by a CUDA graph of its own, which beat vmap there and is not among these. Prints one JSON
line a case with the time of a client's step relative to the plain loop; below 1 is faster.

    python benchmarks/mechanisms.py --repeats 5
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from torch.func import functional_call, grad, vmap
from torch.nn import functional

from fedrepro.fl import models
from fedrepro.fl.data import load
from fedrepro.fl.engine import dense
from fedrepro.fl.engine.jobs import Ask
from fedrepro.fl.engine.resources import Resources
from fedrepro.fl.requests import Lane, Train
from fedrepro.fl.spec import RunSpec

CLASSES = 10
SECONDS = 0.2
"""Least duration of a measurement: caches are then as warm as they are in training."""
CASES = {  # network, width, batch, clients
    "mlp_b10": ("liu1", 1.0, 10, 20),
    "cnn_b100": ("mnist_cnn", 1.0, 100, 5),
    "cnn_b10": ("mnist_cnn", 1.0, 10, 10),
    "narrow_cnn_b10": ("mnist_cnn", 0.125, 10, 10),
    "narrow_cnn_b100": ("mnist_cnn", 0.125, 100, 10),
}
Step = Callable[[], object]
Tensors = dict[str, torch.Tensor]


def looped(net: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, clients: int) -> Step:
    """One client after another with autograd; the update is a plain SGD step."""
    parameters = list(net.parameters())

    def step() -> None:
        for client in range(clients):
            gradients = torch.autograd.grad(
                functional.cross_entropy(net(x[client]), y[client]), parameters
            )
            with torch.no_grad():
                for parameter, gradient in zip(parameters, gradients, strict=True):
                    parameter.sub_(gradient, alpha=0.01)

    return step


def stacked(net: torch.nn.Module, clients: int) -> Tensors:
    """Return parameters with a leading axis for the clients."""
    return {
        n: torch.stack([p.detach()] * clients).requires_grad_() for n, p in net.named_parameters()
    }


def updated(tensors: Tensors, loss: Callable[[], torch.Tensor]) -> Step:
    """Return an SGD step on the sum of the clients' losses."""
    parameters = list(tensors.values())

    def step() -> None:
        gradients = torch.autograd.grad(loss(), parameters)
        with torch.no_grad():
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.sub_(gradient, alpha=0.01)

    return step


def vmapped(net: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, clients: int) -> Step:
    """Use ``torch.func.vmap`` of ``grad``."""
    tensors = {name: t.detach() for name, t in stacked(net, clients).items()}

    def loss(client: Tensors, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(functional_call(net, client, (images,)), labels)

    gradients_of = vmap(grad(loss))

    def step() -> None:
        gradients = gradients_of(tensors, x, y)
        for name, gradient in gradients.items():
            tensors[name].sub_(gradient, alpha=0.01)

    return step


def batched(t: Tensors, name: str, x: torch.Tensor) -> torch.Tensor:
    """Apply a linear layer of every client: one batched matrix product."""
    return torch.baddbmm(t[f"{name}.bias"][:, None], x, t[f"{name}.weight"].transpose(1, 2))


def summed_loss(logits: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return the sum over clients of their mean cross entropies."""
    return functional.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="sum") / y.shape[1]


def mlp_products(net: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, clients: int) -> Step:
    """Use batched matrix products with autograd."""
    t = stacked(net, clients)
    flat = x.flatten(2)
    return updated(
        t, lambda: summed_loss(batched(t, "output", batched(t, "hidden", flat).relu()), y)
    )


def cnn_by(
    convolve: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor],
) -> Callable[..., Step]:
    """Return a way of stepping the MNIST network, given one of convolving for all clients.

    ``convolve`` takes images [clients, n, in, h, w], kernels [clients, out, in, 5, 5], biases.
    """

    def build(net: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, clients: int) -> Step:
        t = stacked(net, clients)

        def loss() -> torch.Tensor:
            h = x
            for name in ("conv1", "conv2"):
                h = convolve(h, t[f"{name}.weight"], t[f"{name}.bias"])
                h = functional.max_pool2d(h.flatten(0, 1), 2).unflatten(0, x.shape[:2]).relu()
            return summed_loss(batched(t, "fc2", batched(t, "fc1", h.flatten(2)).relu()), y)

        return updated(t, loss)

    return build


def grouped(x: torch.Tensor, kernels: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Convolve with clients as groups of channels."""
    clients = len(x)
    wide = x.transpose(0, 1).flatten(1, 2)
    out = functional.conv2d(wide, kernels.flatten(0, 1), bias.flatten(), padding=2, groups=clients)
    return out.unflatten(1, (clients, -1)).transpose(0, 1)


def unfolded(x: torch.Tensor, kernels: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Convolve by im2col and a batched matrix product."""
    clients, n, _, height, width = x.shape
    columns = functional.unfold(x.flatten(0, 1), 5, padding=2).unflatten(0, (clients, n))
    columns = columns.transpose(1, 2).flatten(2)  # [clients, in * 25, n * h * w]
    out = torch.bmm(kernels.flatten(2), columns) + bias[:, :, None]
    return out.view(clients, -1, n, height, width).transpose(1, 2)


def one_by_one(x: torch.Tensor, kernels: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Convolve for one client after another, inside one graph."""
    lanes = zip(x.unbind(), kernels.unbind(), bias.unbind(), strict=True)
    return torch.stack([functional.conv2d(*lane, padding=2) for lane in lanes])


def dense_stack(batch: int, clients: int) -> Step:
    """Use the engine's own dense stack, gathering and scaling of the pixels included."""
    spec = RunSpec.model_validate(
        {
            "dataset": {"name": "synthetic"},
            "partition": {"scheme": "iid_plain", "clients": 1},
            "model": {"name": "liu1"},
            "algorithm": {"name": "fedavg"},
            "optimizer": {"name": "sgd", "lr": 0.01},
            "batch": batch,
            "rounds": 1,
            "seed": 0,
        }
    )
    dataset, resources = load("synthetic"), Resources(torch.device("cpu"))
    resources.add_dataset(dataset)
    net, data = resources.network(spec), resources.data(spec)
    examples = np.arange(batch)
    lanes = [Lane(net.weights(), examples, ("client", client)) for client in range(clients)]
    stack = dense.Stack(net, data, Ask(spec, dataset, Train(lanes, 0)).jobs)
    chosen = torch.arange(batch).expand(clients, -1)
    return lambda: stack.step(slice(0, clients), chosen, 0)


def ways(network: str, width: float, batch: int, clients: int, device: str) -> dict[str, Step]:
    """Return the ways to step all clients once."""
    net = models.build(network, (1, 28, 28), CLASSES, width).to(device)
    x = torch.rand(clients, batch, 1, 28, 28, device=device)
    y = torch.randint(0, CLASSES, (clients, batch), device=device)
    last = models.build(network, (1, 28, 28), CLASSES, width).to(device)
    last = last.to(memory_format=torch.channels_last)
    found = {"loop": looped(net, x, y, clients), "vmap": vmapped(net, x, y, clients)}
    if network == "liu1":
        found["bmm, autograd"] = mlp_products(net, x, y, clients)
        if device == "cpu":
            found["bmm, hand-written backward"] = dense_stack(batch, clients)
        return found
    return found | {
        "loop, channels last": looped(last, x, y, clients),
        "grouped convolution": cnn_by(grouped)(net, x, y, clients),
        "im2col and bmm": cnn_by(unfolded)(net, x, y, clients),
        "convolutions one by one": cnn_by(one_by_one)(net, x, y, clients),
    }


def main() -> None:
    """Time every way of every case, in turn, and print medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for case, settings in CASES.items():
        steps = ways(*settings, arguments.device)
        seconds: dict[str, list[float]] = {name: [] for name in steps}
        for repeat in range(arguments.repeats + 1):
            for name, step in steps.items():
                started, done = time.perf_counter(), 0
                while not done or time.perf_counter() - started < SECONDS:
                    step()
                    done += 1
                if arguments.device != "cpu":
                    torch.cuda.synchronize()
                if repeat:  # the first is a warm-up
                    seconds[name].append((time.perf_counter() - started) / done)
        medians = {name: statistics.median(values) for name, values in seconds.items()}
        relative = {name: round(value / medians["loop"], 2) for name, value in medians.items()}
        milliseconds = round(1000 * medians["loop"] / settings[3], 3)
        print(
            json.dumps({"case": case, "loop_ms_a_step": milliseconds, "relative": relative}),
            flush=True,
        )


if __name__ == "__main__":
    main()
