"""Measure the engine against plain PyTorch on workloads of the five papers.

Prints one JSON line a pair and one summary line a workload. A pair is three measurements in turn:
(a) a plain sequential loop over clients with tensors in memory, (b) the same loop fed by a
DataLoader, (c) the engine. Compare only figures of one line: machines drift between pairs.

    python benchmarks/engine.py --workload mlp_b10 --pairs 5
    python benchmarks/engine.py --device cuda

Pixels and labels are random: speed does not depend on them. Sizes are a share of the papers' so
that a pair takes seconds; ``lanes`` says how many clients are trained at once.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.flop_counter import FlopCounterMode

from fedrepro import models
from fedrepro.data import Dataset
from fedrepro.engine.backends import BACKENDS, backend
from fedrepro.engine.driver import use_one_thread
from fedrepro.engine.federation import Federation
from fedrepro.engine.jobs import Ask, Backend, LaneError
from fedrepro.requests import Lane, Train
from fedrepro.spec import RunSpec


@dataclass(frozen=True)
class Workload:
    """One round of some federated runs, as a paper has it but for the number of examples.

    Attributes:
        model: key of ``fedrepro.models.MODELS``.
        shape: of a stored example.
        batch: examples a step.
        runs: runs in flight.
        clients: lanes of each.
        examples: examples of a client; a GPU gets ten times as many.
        plain_clients: clients that the plain loops train, enough for a steady figure.
    """

    model: str
    shape: tuple[int, int, int]
    batch: int
    runs: int
    clients: int
    examples: int
    plain_clients: int


WORKLOADS = {
    "mlp_b10": Workload("liu1", (1, 28, 28), 10, 5, 9, 6660, 5),
    "cnn_b100": Workload("mnist_cnn", (1, 28, 28), 100, 2, 10, 600, 4),
    "cnn_b10": Workload("mnist_cnn", (1, 28, 28), 10, 5, 10, 150, 10),
    "resnet9_b8": Workload("resnet9", (3, 32, 32), 8, 5, 10, 64, 5),
    "fixup_b256": Workload("fixup_resnet20", (3, 32, 32), 256, 3, 2, 512, 2),
}
CLASSES = 10
LR = 0.01


def made_up(workload: Workload, examples: int) -> Dataset:
    """Return a data set of random pixels."""
    generator = np.random.default_rng(0)
    sizes = {"train": examples * workload.clients, "test": 100}
    arrays = {}
    for split, size in sizes.items():
        arrays[f"{split}_x"] = generator.integers(0, 256, (size, *workload.shape), np.uint8)
        arrays[f"{split}_y"] = generator.integers(0, CLASSES, size)
    return Dataset(
        name="mnist" if workload.shape[0] == 1 else "cifar10",
        classes=CLASSES,
        source="made up",
        sha256="",
        note="",
        **arrays,
    )


class Plain:
    """The loops that the engine is measured against, on one thread of a CPU or an eager GPU."""

    def __init__(self, workload: Workload, dataset: Dataset, device: torch.device) -> None:
        self.workload, self.device = workload, device
        self.images = torch.tensor(dataset.train_x).to(device).float().div_(255)
        self.labels = torch.tensor(dataset.train_y).to(device)
        self.net = models.build(workload.model, workload.shape, CLASSES).to(device)
        self.start = {name: t.clone() for name, t in self.net.state_dict().items()}
        self.net.train()
        for layer in self.net.modules():
            if isinstance(layer, models.layers.Dropout):
                layer.p = 0.0  # its masks need the engine's keys; PyTorch's cost next to nothing

    def _client(self, batches: Iterator[tuple[torch.Tensor, torch.Tensor]]) -> None:
        self.net.load_state_dict(self.start)
        optimizer = torch.optim.SGD(self.net.parameters(), lr=LR)
        for images, labels in batches:
            optimizer.zero_grad()
            functional.cross_entropy(self.net(images), labels).backward()
            optimizer.step()

    def _clients(self, examples: int) -> Iterator[slice]:
        for client in range(min(self.workload.plain_clients, self.workload.clients)):
            yield slice(client * examples, (client + 1) * examples)

    def in_memory(self, examples: int) -> int:
        """Train some clients from tensors in memory; return the examples trained on."""
        seen = 0
        for part in self._clients(examples):
            order = torch.randperm(examples, device=self.device) + part.start
            batches = torch.split(order, self.workload.batch)
            self._client((self.images[b], self.labels[b]) for b in batches)
            seen += examples
        return seen

    def with_loader(self, examples: int) -> int:
        """Train some clients from a DataLoader; return the examples trained on."""
        seen = 0
        for part in self._clients(examples):
            data = TensorDataset(self.images[part].cpu(), self.labels[part].cpu())
            loader = DataLoader(data, self.workload.batch, shuffle=True)
            self._client((x.to(self.device), y.to(self.device)) for x, y in loader)
            seen += examples
        return seen


class Engine:
    """The engine on a workload: all clients of all runs, one round."""

    def __init__(self, workload: Workload, dataset: Dataset, engine: Backend) -> None:
        self.engine, self.dataset = engine, dataset
        self.spec = RunSpec.model_validate(
            {
                "dataset": {"name": dataset.name},
                "partition": {"scheme": "iid_plain", "clients": workload.clients},
                "model": {"name": workload.model},
                "algorithm": {"name": "fedavg"},
                "optimizer": {"name": "sgd", "lr": LR},
                "batch": workload.batch,
                "rounds": 1,
                "seed": 0,
            }
        )
        fed = Federation(self.spec, dataset)
        start = fed.initial_weights()
        self.requests = [
            Train([Lane(start, part, ("client", k)) for k, part in enumerate(fed.clients)], run)
            for run in range(workload.runs)
        ]

    def round(self, _: int) -> int:
        """Train one round of all runs; return the examples trained on."""
        for ticket, request in enumerate(self.requests):
            self.engine.submit(ticket, Ask(self.spec, self.dataset, request))
        waiting = len(self.requests)
        while waiting:
            for answer in self.engine.collect(float("inf")):
                if isinstance(answer.result, LaneError):
                    raise answer.result
                waiting -= 1
        return sum(len(lane.examples) for request in self.requests for lane in request.lanes)


def speed(work: Callable[[int], int], examples: int, device: torch.device) -> float:
    """Return examples trained on a second."""
    synchronise(device)
    started = time.perf_counter()
    seen = work(examples)
    synchronise(device)
    return seen / (time.perf_counter() - started)


def synchronise(device: torch.device) -> None:
    """Wait for a GPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def flop_per_example(workload: Workload) -> float:
    """Return the arithmetic of one training example, forward and backward."""
    net = models.build(workload.model, workload.shape, CLASSES).eval()
    with FlopCounterMode(display=False) as counter:
        net(torch.zeros(2, *workload.shape)).sum().backward()
    return counter.get_total_flops() / 2


def ceiling(device: torch.device) -> float:
    """Return the FLOP/s of a float32 matrix product: of one core, or of the GPU."""
    size, repeats = (2048, 3) if device.type == "cpu" else (8192, 20)
    a = torch.randn(size, size, device=device)
    a @ a
    synchronise(device)
    started = time.perf_counter()
    for _ in range(repeats):
        a @ a
    synchronise(device)
    return 2 * size**3 * repeats / (time.perf_counter() - started)


@contextmanager
def peak_memory(device: torch.device) -> Iterator[list[float]]:
    """Measure the peak memory of what is done inside, in MiB, as the list's only item.

    On a CPU that is the proportional set size of this process and its children, looked up ten
    times a second; on a GPU what PyTorch allocated there.
    """
    found = [0.0]
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        yield found
        found[0] = torch.cuda.max_memory_allocated(device) / 2**20
        return
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(0.1):
            found[0] = max(found[0], tree_memory())

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield found
    finally:
        stop.set()
        thread.join()


def tree_memory() -> float:
    """Return the proportional set size of this process and its descendants in MiB."""
    parents = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        parents[int(status.parent.name)] = int(fields[1])
    family, total = {os.getpid()}, 0.0
    grown = True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in family} - family
        family, grown = family | more, bool(more)
    for pid in family:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


def measure(name: str, arguments: argparse.Namespace) -> None:
    """Measure one workload and print its lines."""
    workload, device = WORKLOADS[name], torch.device(arguments.device)
    examples = workload.examples * (10 if device.type == "cuda" else 1)
    dataset = made_up(workload, examples)
    made = backend(arguments.backend, arguments.device, arguments.workers)
    workers = getattr(made, "workers", 1)
    try:
        engine = Engine(workload, dataset, made)
        with peak_memory(device) as peak:  # before the plain loop holds its own copy of the data
            speed(engine.round, examples, device)
        plain = Plain(workload, dataset, device)
        plain.in_memory(examples)
        flop = flop_per_example(workload)
        ratios = []
        for pair in range(arguments.pairs):
            product = ceiling(device)
            a = speed(plain.in_memory, examples, device)
            b = speed(plain.with_loader, examples, device)
            c = speed(engine.round, examples, device)
            ratios.append(c / a)
            line = {
                "workload": name,
                "pair": pair,
                "backend": made.name,
                "device": arguments.device,
                "workers": workers,
                "lanes": workload.runs * workload.clients,
                "samples_per_second": {
                    "plain": round(a),
                    "dataloader": round(b),
                    "engine": round(c),
                },
                "ratio": round(c / a, 2),
                "ratio_dataloader": round(c / b, 2),
                "peak_memory_mib": round(peak[0]),
                "ceiling_gflops": round(product / 1e9, 1),
                "share_of_ceiling": {
                    "plain": round(a * flop / product, 3),
                    "engine": round(c * flop / (product * workers), 3),
                },
            }
            print(json.dumps(line), flush=True)
        summary = {
            "workload": name,
            "pairs": len(ratios),
            "ratio_median": round(statistics.median(ratios), 2),
            "ratio_lowest": round(min(ratios), 2),
            "ratio_highest": round(max(ratios), 2),
        }
        print(json.dumps(summary), flush=True)
    finally:
        made.close()


def main() -> None:
    """Read the command line and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--workload", choices=sorted(WORKLOADS), help="default: all")
    parser.add_argument("--pairs", type=int, default=3, help="default: 3")
    parser.add_argument("--device", default="cpu", help="cpu or cuda; default: cpu")
    parser.add_argument("--backend", choices=sorted(BACKENDS), default="auto")
    parser.add_argument("--workers", type=int, default=None, help="default: one a core")
    arguments = parser.parse_args()
    use_one_thread()
    for name in [arguments.workload] if arguments.workload else WORKLOADS:
        measure(name, arguments)


if __name__ == "__main__":
    main()
