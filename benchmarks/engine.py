"""Measure the engine against plain PyTorch on workloads of the five papers.

Prints one JSON line a pair and one summary line a workload. A pair is some measurements in turn:
(a) a plain eager float32 loop over clients with tensors in memory, (b) the same loop fed by a
DataLoader, (c) the engine; on a CPU also (d) loop (a) in as many processes as the engine has, on a
GPU with ``--precision tf32`` loop (a) in TF32. Compare only figures of one line: machines drift
between pairs. The loops train for some seconds, the engine for whole rounds.

    python benchmarks/engine.py --workload mlp_b10 --pairs 5
    python benchmarks/engine.py --device cuda --precision tf32

Pixels and labels are random: speed does not depend on them. On a GPU a round is as long as the
paper's and is measured with all that belongs to it: the mean of the clients' weights, and its
evaluation on the test split where the paper evaluates every round. On a CPU it is a share of the
paper's so that it takes seconds. ``lanes`` says how many clients are trained at once.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.flop_counter import FlopCounterMode

from fedrepro.base.errors import FedreproError
from fedrepro.fl import models
from fedrepro.fl.data import Dataset
from fedrepro.fl.engine import BACKENDS
from fedrepro.fl.engine.backends import backend
from fedrepro.fl.engine.data import DeviceData, tensors_of
from fedrepro.fl.engine.device import check_precision, precision
from fedrepro.fl.engine.jobs import Ask, Backend, LaneError
from fedrepro.fl.federation import Federation
from fedrepro.fl.models.parts import layers
from fedrepro.fl.requests import Lane, Predict, Request, Train, Trained
from fedrepro.fl.spec import Adam, RunSpec

Batches = Iterator[tuple[torch.Tensor, torch.Tensor]]


@dataclass(frozen=True)
class Workload:
    """One round of some federated runs.

    Attributes:
        model: key of ``fedrepro.fl.models.NETWORKS``.
        shape: of a stored example.
        batch: examples a step.
        runs: runs in flight.
        clients: lanes of each.
        examples: examples of a client on a CPU.
        round: examples of a client in the paper, and epochs of a round: what a GPU trains.
        evaluates: whether the paper evaluates every round.
        spec: what the paper's plan says besides, but for the step size.
    """

    model: str
    shape: tuple[int, int, int]
    batch: int
    runs: int
    clients: int
    examples: int
    round: tuple[int, int]
    evaluates: bool = True
    spec: dict[str, Any] = field(default_factory=dict)


MNIST, CIFAR = (1, 28, 28), (3, 32, 32)
AUGMENTED = {"transform": "standard", "augment": True}
TUTORIAL = {"transform": "tutorial24", "augment": True}
MOMENTUM = {"name": "sgd", "momentum": 0.9, "weight_decay": 0.0005}
WORKLOADS = {
    "mlp_b10": Workload("liu1", MNIST, 10, 5, 9, 6660, (6660, 1), evaluates=False),
    "cnn_b100": Workload("mnist_cnn", MNIST, 100, 2, 10, 600, (5400, 1)),
    "cnn_b10": Workload("mnist_cnn", MNIST, 10, 5, 10, 150, (5400, 1)),
    "cnn_b8": Workload(
        "mnist_cnn", MNIST, 8, 8, 10, 40, (290, 5), spec={"dataset": {"transform": "standard"}}
    ),
    "resnet9_b8": Workload("resnet9", CIFAR, 8, 5, 10, 64, (302, 5)),
    "fixup_b256": Workload("fixup_resnet20", CIFAR, 256, 3, 2, 512, (25_000, 1)),
    "fedcd_b128": Workload(
        "fedcd_cnn",
        CIFAR,
        128,
        2,
        15,
        128,
        (5000, 3),
        spec={"dataset": AUGMENTED, "optimizer": MOMENTUM},
    ),
    "liu3_b128": Workload(
        "liu3",
        MNIST,
        128,
        9,
        3,
        128,
        (16_666, 1),
        evaluates=False,
        spec={"optimizer": {"name": "adam"}, "last_batch": "drop_single"},
    ),
    "tutorial_b100": Workload(
        "cifar_tutorial", CIFAR, 100, 4, 10, 100, (5000, 1), spec={"dataset": TUTORIAL}
    ),
}
CLASSES = 10
LR = 0.001
"""Small: there is nothing to learn, and nothing may diverge."""
TEST = {"cpu": 100, "cuda": 10_000}
GPU_SECONDS = 40.0
"""Time of a workload on a GPU: no pair is begun that would exceed it."""


def spec_of(workload: Workload, *, gpu: bool, rounding: str, seed: int) -> RunSpec:
    """Return one of a workload's runs."""
    dataset = {"name": "mnist" if workload.shape[0] == 1 else "cifar10"}
    return RunSpec.model_validate(
        {
            "partition": {"scheme": "iid_plain", "clients": workload.clients},
            "model": {"name": workload.model},
            "algorithm": {"name": "fedavg"},
            "batch": workload.batch,
            "local_epochs": workload.round[1] if gpu else 1,
            "rounds": 1,
            "precision": rounding,
            "seed": seed,
        }
        | workload.spec
        | {"dataset": dataset | workload.spec.get("dataset", {})}
        | {"optimizer": {"name": "sgd", "lr": LR} | workload.spec.get("optimizer", {})}
    )


def made_up(workload: Workload, *, gpu: bool) -> Dataset:
    """Return a data set of random pixels."""
    generator = np.random.default_rng(0)
    each = workload.round[0] if gpu else workload.examples
    sizes = {"train": each * workload.clients, "test": TEST["cuda" if gpu else "cpu"]}
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
    """The loops that the engine is measured against, on one thread of a CPU or an eager GPU.

    Images are prepared beforehand and not augmented.
    """

    def __init__(self, spec: RunSpec, dataset: Dataset, device: torch.device) -> None:
        self.spec, self.device = spec, device
        data = DeviceData(spec.dataset, tensors_of(dataset), device)
        parts = torch.arange(len(dataset.train_y), device=device).split(1000)
        self.images = torch.cat([data.batch("train", part)[0] for part in parts])
        self.labels = torch.tensor(dataset.train_y).to(device)
        self.stored = self.images.cpu(), self.labels.cpu()
        self.examples = len(self.labels) // spec.partition.clients
        self.net = models.build(spec.model.name, data.shape, CLASSES).to(device)
        self.start = copy.deepcopy(self.net.state_dict())
        self.net.train()
        for layer in self.net.modules():
            if isinstance(layer, layers.Dropout):
                layer.p = 0.0  # its masks need the engine's keys; PyTorch's cost next to nothing

    def _optimizer(self) -> torch.optim.Optimizer:
        chosen, parameters = self.spec.optimizer, self.net.parameters()
        if isinstance(chosen, Adam):
            return torch.optim.Adam(parameters, lr=chosen.lr)
        return torch.optim.SGD(
            parameters, chosen.lr, chosen.momentum, weight_decay=chosen.weight_decay
        )

    def _train(self, clients: Iterator[Batches], seconds: float) -> int:
        """Train client after client until the time is up; return the examples trained on."""
        end, seen = time.perf_counter() + seconds, 0
        for batches in clients:
            self.net.load_state_dict(self.start)
            optimizer = self._optimizer()
            for images, labels in batches:
                optimizer.zero_grad()
                functional.cross_entropy(self.net(images), labels).backward()
                optimizer.step()
                seen += len(labels)
                if time.perf_counter() >= end:
                    return seen
        raise AssertionError("clients come round and round")

    def _clients(self) -> Iterator[slice]:
        for client in itertools.cycle(range(self.spec.partition.clients)):
            yield slice(client * self.examples, (client + 1) * self.examples)

    def in_memory(self, seconds: float) -> int:
        """Train from tensors in memory; return the examples trained on."""

        def batches(part: slice) -> Batches:
            order = torch.randperm(self.examples, device=self.device) + part.start
            for chosen in torch.split(order, self.spec.batch):
                yield self.images[chosen], self.labels[chosen]

        return self._train((batches(part) for part in self._clients()), seconds)

    def with_loader(self, seconds: float) -> int:
        """Train from a DataLoader; return the examples trained on."""

        def batches(part: slice) -> Batches:
            data = TensorDataset(*(tensor[part] for tensor in self.stored))
            for images, labels in DataLoader(data, self.spec.batch, shuffle=True):
                yield images.to(self.device), labels.to(self.device)

        return self._train((batches(part) for part in self._clients()), seconds)


class PlainProcesses:
    """The plain loop from memory in several processes of one thread, at once."""

    def __init__(self, workload: Workload, spec: RunSpec, count: int) -> None:
        command = [sys.executable, __file__, "--plain"]
        self.processes = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for _ in range(count)
        ]
        self._answers(
            json.dumps({"workload": asdict(workload), "spec": spec.model_dump(mode="json")})
        )

    def _answers(self, line: str) -> list[int]:
        for process in self.processes:
            print(line, file=process.stdin, flush=True)
        return [int(next(process.stdout or iter(()))) for process in self.processes]

    def in_memory(self, seconds: float) -> int:
        """Train in each of them; return the examples trained on together."""
        return sum(self._answers(str(seconds)))

    def close(self) -> None:
        """End the processes."""
        for process in self.processes:
            process.communicate()

    @staticmethod
    def serve() -> None:
        """Be one of them: read what to train, then for how long, again and again."""
        task = json.loads(sys.stdin.readline())
        dataset = made_up(Workload(**task["workload"]), gpu=False)
        plain = Plain(RunSpec.model_validate(task["spec"]), dataset, torch.device("cpu"))
        print(plain.in_memory(0.0), flush=True)
        for seconds in sys.stdin:
            print(plain.in_memory(float(seconds)), flush=True)


class Engine:
    """The engine on a workload: all clients of all runs, round after round, as it is driven."""

    def __init__(
        self, specs: list[RunSpec], dataset: Dataset, engine: Backend, *, evaluates: bool
    ) -> None:
        self.engine, self.dataset, self.specs, self.evaluates = engine, dataset, specs, evaluates
        feds = [Federation(spec, dataset) for spec in specs]
        self.clients = [fed.clients for fed in feds]
        device = getattr(engine, "device", torch.device("cpu"))  # where weights stay in between
        self.weights = [fed.initial_weights().to(device) for fed in feds]
        self.number = 0

    def train(self, seconds: float) -> int:
        """Train round after round until the time is up; return the examples trained on."""
        end, seen = time.perf_counter() + seconds, 0
        while not seen or time.perf_counter() < end:
            seen += self.round()
        return seen

    def round(self) -> int:
        """Train one round of all runs, from their initial weights; return the examples trained on.

        As the plain loops do: steps so small on random pixels would let gradients of later rounds
        underflow, which slows a CPU down.
        """
        for run, clients in enumerate(self.clients):
            start = self.weights[run]
            lanes = [Lane(start, part, ("client", k)) for k, part in enumerate(clients)]
            self._ask(run, Train(lanes, self.number))
        waiting = len(self.specs)
        while waiting:
            for answer in self.engine.collect(float("inf")):
                if isinstance(answer.result, LaneError):
                    raise answer.result
                if isinstance(answer.result[0], Trained):
                    mean = torch.stack([lane.weights for lane in answer.result]).mean(0)
                    if self.evaluates:
                        self._ask(answer.ticket, Predict([mean], "test"))
                        continue
                waiting -= 1
        self.number += 1
        return sum(
            spec.local_epochs * sum(len(part) for part in clients)
            for spec, clients in zip(self.specs, self.clients, strict=True)
        )

    def _ask(self, run: int, request: Request) -> None:
        self.engine.submit(run, Ask(self.specs[run], self.dataset, request))


def speed(work: Callable[[float], int], seconds: float, device: torch.device) -> float:
    """Return examples trained on a second, by work that goes on for about so many seconds."""
    synchronise(device)
    started = time.perf_counter()
    seen = work(seconds)
    synchronise(device)
    return seen / (time.perf_counter() - started)


def synchronise(device: torch.device) -> None:
    """Wait for a GPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def flop_per_example(spec: RunSpec, stored: tuple[int, int, int]) -> float:
    """Return the arithmetic of one training example, forward and backward."""
    shape = spec.dataset.input_shape(stored)
    net = models.build(spec.model.name, shape, CLASSES).eval()
    with FlopCounterMode(display=False) as counter:
        net(torch.zeros(2, *shape)).sum().backward()
    return counter.get_total_flops() / 2


def ceiling(device: torch.device, rounding: RunSpec) -> float:
    """Return the FLOP/s of a matrix product: of one core, or of the GPU.

    Args:
        device: where.
        rounding: a spec of the precision to measure.
    """
    size, repeats = (2048, 3) if device.type == "cpu" else (8192, 20)
    a = torch.randn(size, size, device=device)
    with precision(rounding):
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


def say(text: str) -> None:
    """Tell whoever waits what is being done."""
    print(text, file=sys.stderr, flush=True)


def measure(name: str, arguments: argparse.Namespace) -> None:
    """Measure one workload and print its lines."""
    started = time.perf_counter()
    workload, device = WORKLOADS[name], torch.device(arguments.device)
    gpu, seconds = device.type == "cuda", arguments.seconds
    limit = GPU_SECONDS if gpu else float("inf")
    dataset = made_up(workload, gpu=gpu)
    specs = [
        spec_of(workload, gpu=gpu, rounding=arguments.precision, seed=seed)
        for seed in range(workload.runs)
    ]
    float32, tf32 = (specs[0].model_copy(update={"precision": p}) for p in ("float32", "tf32"))
    made = backend(
        arguments.backend,
        arguments.device,
        arguments.workers,
        compile=arguments.compile,
        deterministic=arguments.deterministic,
    )
    workers = getattr(made, "workers", 1)
    with ExitStack() as ending:
        ending.callback(made.close)
        check_precision(specs[0], made.device)
        engine = Engine(specs, dataset, made, evaluates=gpu and workload.evaluates)
        say(f"{name}: the engine's first round")
        with peak_memory(device) as peak:  # before the plain loop holds its own copy of the data
            speed(engine.train, 0.0, device)
        plain = Plain(float32, dataset, device)
        if not gpu:
            processes = PlainProcesses(workload, float32, workers)
            ending.callback(processes.close)
        flop = flop_per_example(specs[0], workload.shape)
        ratios: list[float] = []
        with precision(float32):
            speed(plain.in_memory, min(1.0, seconds), device)
        for pair in range(arguments.pairs):
            begun = time.perf_counter()
            say(f"{name}: pair {pair + 1} of {arguments.pairs}: plain loops")
            product = ceiling(device, float32)
            with precision(float32):
                a = speed(plain.in_memory, seconds, device)
                b = speed(plain.with_loader, seconds, device)
            if not gpu:
                others = {"processes": speed(processes.in_memory, seconds, device)}
            elif arguments.precision == "tf32":
                with precision(tf32):
                    others = {"tf32": speed(plain.in_memory, seconds, device)}
            else:
                others = {}
            say(f"{name}: pair {pair + 1} of {arguments.pairs}: the engine")
            c = speed(engine.train, seconds, device)
            ratios.append(c / a)
            line: dict[str, Any] = {
                "workload": name,
                "pair": pair,
                "backend": made.name,
                "device": arguments.device,
                "precision": arguments.precision,
                "compile": bool(getattr(made, "compiles", False)),
                "deterministic": arguments.deterministic,
                "workers": workers,
                "lanes": workload.runs * workload.clients,
                "evaluates": engine.evaluates,
                "samples_per_second": {
                    "plain": round(a),
                    "dataloader": round(b),
                    "engine": round(c),
                }
                | {f"plain_{name}": round(other) for name, other in others.items()},
                "ratio": round(c / a, 2),
                "ratio_dataloader": round(c / b, 2),
                **{f"ratio_{name}": round(c / other, 2) for name, other in others.items()},
                "engine_gflops": round(c * flop / 1e9, 1),
                "peak_memory_mib": round(peak[0]),
                "ceiling_gflops": round(product / 1e9, 1),
                "share_of_ceiling": {
                    "plain": round(a * flop / product, 3),
                    "engine": round(c * flop / (product * workers), 3),
                },
            }
            if gpu:
                product = ceiling(device, tf32)
                line["ceiling_tf32_gflops"] = round(product / 1e9, 1)
                line["share_of_tf32_ceiling"] = round(c * flop / product, 3)
            print(json.dumps(line), flush=True)
            now = time.perf_counter()
            if now + (now - begun) > started + limit:
                break
        summary = {
            "workload": name,
            "pairs": len(ratios),
            "ratio_median": round(statistics.median(ratios), 2),
            "ratio_lowest": round(min(ratios), 2),
            "ratio_highest": round(max(ratios), 2),
            "seconds": round(time.perf_counter() - started, 1),
        }
        print(json.dumps(summary), flush=True)


def main() -> None:
    """Read the command line and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--workload", choices=sorted(WORKLOADS), help="default: all")
    parser.add_argument(
        "--pairs",
        type=int,
        default=3,
        help=f"default: 3; on a GPU as many of them as fit into {GPU_SECONDS:g} s a workload",
    )
    parser.add_argument(
        "--seconds", type=float, default=2.0, help="least duration of a measurement; default: 2"
    )
    parser.add_argument("--device", default="cpu", help="cpu or cuda; default: cpu")
    parser.add_argument("--backend", choices=sorted(BACKENDS), default="auto")
    parser.add_argument("--workers", type=int, default=None, help="default: one a core")
    parser.add_argument(
        "--precision",
        choices=["float32", "tf32", "bf16"],
        default="float32",
        help="of the engine (the plain loops are float32); default: float32",
    )
    parser.add_argument("--compile", choices=["auto", "on", "off"], default="auto")
    parser.add_argument(
        "--deterministic", action="store_true", help="as of `fedrepro train`: the cost of it"
    )
    parser.add_argument("--plain", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.plain:
        PlainProcesses.serve()
        return
    try:
        for name in [arguments.workload] if arguments.workload else WORKLOADS:
            measure(name, arguments)
    except FedreproError as error:
        sys.exit(f"benchmarks/engine.py: {error}")


if __name__ == "__main__":
    main()
