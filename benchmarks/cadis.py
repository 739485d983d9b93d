"""Overhead of CADIS (Nguyen et al. 2023, Fig. 11): ``python benchmarks/cadis.py``.

Left of the figure: what a server does in a round once the clients' models are there, by method, for
100 clients of which 10 take part. Right: local training with the distillation term relative to
FedAvg's. Times are CPU seconds of one thread, so other work on the machine matters little; the
methods take turns round by round, and ratios are of neighbouring pairs. Prints JSON lines;
``--out benchmarks/cadis.json`` keeps them with what they were measured on, for figure ``fig11``.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from fedrepro.base.files import write_text
from fedrepro.fl import data
from fedrepro.fl.algorithms import ALGORITHMS
from fedrepro.fl.engine.jobs import Ask
from fedrepro.fl.engine.loop import LoopBackend
from fedrepro.fl.federation import Federation
from fedrepro.fl.requests import Lane, Objective, Predict, Prediction, Train, Trained
from fedrepro.fl.spec import RunSpec
from fedrepro.runs.provenance import code_version, processor

NETWORKS = {
    "CNN, MNIST": ("synthetic", "mnist_cnn"),
    "ResNet-9, CIFAR": ("synthetic_rgb", "resnet9"),
}
METHODS: dict[str, dict[str, Any]] = {
    "FedAvg": {"name": "fedavg"},
    "FedProx": {"name": "fedprox", "mu": 0.1},
    "FedFA": {"name": "fedfa"},
    "FedDyn": {"name": "feddyn", "alpha": 0.1},
    "CADIS": {"name": "cadis"},
    "CADIS, no transitive learning": {"name": "cadis", "transitive": "off"},
}
CLIENTS = {"scheme": "label_clusters", "clusters": [30, 30, 20, 10, 10], "per_label": 3}


def spec(dataset: str, model: str, algorithm: dict[str, Any]) -> RunSpec:
    """Return a run of the paper's size: 100 clients, 10 a round, batch 8, 5 epochs."""
    return RunSpec.model_validate(
        {
            "dataset": {"name": dataset, "transform": "standard"},
            "partition": CLIENTS,
            "model": {"name": model},
            "algorithm": algorithm | {"participants": 10},
            "optimizer": {"name": "sgd", "lr": 0.001},
            "batch": 8,
            "local_epochs": 5,
            "rounds": 1,
            "seed": 0,
        }
    )


def server_seconds(run: RunSpec, rounds: int) -> Iterator[float]:
    """Take one round after another; yield its CPU seconds outside training and prediction."""
    fed = Federation(run, data.load(run.dataset.name))
    algorithm = ALGORITHMS[run.algorithm.name]
    state = algorithm.init(fed)
    generator = torch.Generator().manual_seed(0)
    for t in range(rounds):
        steps, reply, spent = algorithm.round(fed, state, t), None, 0.0
        while True:
            begun = time.process_time()
            try:
                request = steps.send(reply)
            except StopIteration:
                yield spent + time.process_time() - begun
                break
            spent += time.process_time() - begun
            reply = _answer(request, generator)


def _answer(request: Any, generator: torch.Generator) -> list[Any]:
    """Return made-up models near the ones sent out, or made-up predictions."""
    if isinstance(request, Train):
        return [
            Trained(w + 0.001 * torch.randn(w.shape, generator=generator), 0.0, None)
            for w in (lane.weights for lane in request.lanes)
        ]
    assert isinstance(request, Predict)
    assert request.examples is not None
    correct = torch.rand(len(request.examples), generator=generator).numpy() < 0.5
    return [Prediction(correct.astype("int64"), correct, 0.0)]


def local_seconds(run: RunSpec, objective: Objective, examples: int) -> float:
    """Return the CPU seconds of one client's local training."""
    dataset = data.load(run.dataset.name)
    fed = Federation(run, dataset)
    own = fed.clients[0].repeat(examples)[:examples]
    lane = Lane(fed.initial_weights(), own, ("client", 0))
    backend = LoopBackend()
    backend.submit(0, Ask(run, dataset, Train([lane], 0, objective=objective)))
    begun = time.process_time()
    backend.collect(float("inf"))
    return time.process_time() - begun


def main() -> None:
    """Measure both sides of the figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20, help="rounds of the server")
    parser.add_argument("--pairs", type=int, default=5, help="pairs of local trainings")
    parser.add_argument("--examples", type=int, default=40, help="images of the client")
    parser.add_argument("--out", type=Path, help="file for the lines and what they are measured on")
    parser.add_argument("--note", default="", help="what else the machine did, for the file")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    lines = []
    for network, (dataset, model) in NETWORKS.items():
        servers = [
            server_seconds(spec(dataset, model, algorithm), arguments.rounds + 1)
            for algorithm in METHODS.values()
        ]
        turns = list(zip(*servers, strict=True))[1:]  # the first round warms up
        for method, seconds in zip(METHODS, zip(*turns, strict=True), strict=True):
            line = {"what": "server", "network": network, "method": method}
            lines.append(_printed(line | {"ms": [round(1000 * s, 3) for s in seconds]}, "ms"))
        run = spec(dataset, model, METHODS["FedAvg"])
        local_seconds(run, Objective(), arguments.examples)
        ratios = []
        for _ in range(arguments.pairs):
            plain = local_seconds(run, Objective(), arguments.examples)
            distilled = local_seconds(
                run, Objective(terms=(("pairwise_divergence", 1.0),)), arguments.examples
            )
            ratios.append(round(distilled / plain, 3))
        line = {"what": "local", "network": network, "method": "CADIS", "ratio": ratios}
        lines.append(_printed(line, "ratio"))
    if arguments.out is not None:
        commit, dirty = code_version()
        about = {
            "command": f"benchmarks/cadis.py --rounds {arguments.rounds} --pairs {arguments.pairs} "
            f"--examples {arguments.examples}",
            "commit": commit + (" with changes" if dirty else ""),
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "machine": f"{processor()}, {os.cpu_count()} cores",
            "note": arguments.note,
            "python": platform.python_version(),
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
        }
        write_text(arguments.out, json.dumps(about | {"lines": lines}, indent=1) + "\n")


def _printed(line: dict[str, Any], values: str) -> dict[str, Any]:
    line |= {"median": round(statistics.median(line[values]), 3)}
    print(json.dumps(line), flush=True)
    return line


if __name__ == "__main__":
    main()
