"""How far a run moves when it is trained again otherwise: on other cores, code paths, versions.

Every network of the papers is trained federatedly on a few real images: four clients of 100
examples, ten rounds of FedAvg, once as usual and once with each change. Each training is a process
of its own, since libraries choose their code when they are loaded:

- ``again``: no change;
- ``pool``, ``graphs``: other backends (two worker processes; lane graphs without a GPU);
- ``two threads`` of PyTorch;
- ``AVX2``, ``SSE4.1``: libraries held to older instruction sets, by the variables in :data:`HELD`;
- ``another PyTorch``: that of the interpreter given as ``--other-python``.

    .venv/bin/python benchmarks/reproducibility.py --data-root PACK

Writes to ``benchmarks/reproducibility.json``, for each network and change: whether all weights are
equal to the bit after every round; how far the weights are apart (2-norm of the difference over
that of the weights) and how many points the test accuracy, after the rounds in :data:`SHOWN`; and
of the networks in :data:`TIMED` the CPU time held to AVX2 over the usual one, in three interleaved
pairs. docs/reproducibility.md shows it.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

SOURCE = Path(__file__).resolve().parents[1] / "src"

NETWORKS: dict[str, dict[str, Any]] = {
    "mnist_cnn": {"dataset": "mnist", "width": 0.25, "lr": 0.05},
    "liu1": {"dataset": "mnist", "lr": 0.05},
    "liu2": {"dataset": "mnist", "width": 0.5, "lr": 0.05},
    "liu3": {"dataset": "mnist", "width": 0.25, "lr": 0.05},
    "cifar_tutorial": {"dataset": "cifar10", "width": 0.5, "lr": 0.05},
    "resnet9": {"dataset": "cifar10", "width": 0.125, "lr": 0.05},
    "resnet18": {"dataset": "cifar10", "width": 0.125, "lr": 0.05},
    "fixup_resnet20": {"dataset": "cifar10", "width": 0.25, "lr": 0.1},
    "fedcd_cnn": {"dataset": "cifar10", "width": 0.25, "lr": 0.05},
    "kws_cnn": {"dataset": "kws_mfcc20", "lr": 0.05},
}
"""The papers' networks: data set, share of the published width, step size."""

HELD = {
    "AVX2": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    },
    "SSE4.1": {
        "ATEN_CPU_CAPABILITY": "default",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
    },
}
"""Environment variables that hold ATen, oneDNN and MKL to an instruction set."""

CHANGES: dict[str, dict[str, Any]] = {
    "again": {},
    "pool": {"backend": "pool"},
    "graphs": {"backend": "graphs"},
    "two threads": {"threads": 2},
    **{name: {"environment": variables} for name, variables in HELD.items()},
}

CLIENTS, EXAMPLES, TEST, BATCH, ROUNDS = 4, 400, 1000, 10, 10
SHOWN = (1, 2, 5, 10)
TIMED = ("liu1", "resnet9", "fixup_resnet20")
PAIRS = 3


@dataclasses.dataclass(frozen=True)
class Trained:
    """A training, round by round.

    Attributes:
        weights: float32 [rounds, parameters + buffers].
        accuracy: on the test images, fractions, [rounds].
        seconds: CPU time of the process while it trained.
    """

    weights: NDArray[np.float32]
    accuracy: NDArray[np.float64]
    seconds: float


def train_here(network: str, backend: str, threads: int, data_root: Path) -> Trained:
    """Train a network in this process."""
    import torch

    from fedrepro.fl.data import load
    from fedrepro.fl.engine.active import ActiveRun, Storage
    from fedrepro.fl.engine.backends import backend as make_backend
    from fedrepro.fl.engine.driver import Limits, Listener, drive
    from fedrepro.fl.spec import RunSpec

    torch.set_num_threads(threads)
    about = NETWORKS[network]
    spec = RunSpec.model_validate(
        {
            "dataset": {"name": about["dataset"]},
            "partition": {"scheme": "iid_plain", "clients": CLIENTS},
            "model": {"name": network, "width": about.get("width", 1.0)},
            "algorithm": {"name": "fedavg"},
            "optimizer": {"name": "sgd", "lr": about["lr"]},
            "batch": BATCH,
            "rounds": ROUNDS,
            "seed": 0,
        }
    )
    whole = load(about["dataset"], data_root)
    part = dataclasses.replace(
        whole,
        train_x=whole.train_x[:EXAMPLES],
        train_y=whole.train_y[:EXAMPLES],
        test_x=whole.test_x[:TEST],
        test_y=whole.test_y[:TEST],
    )
    rounds: list[NDArray[np.float32]] = []
    ended: list[ActiveRun] = []

    def look(active: Any) -> None:
        for run in [*active, *ended]:
            if run.progress.round > len(rounds):
                rounds.append(run.state.weights.numpy().copy())

    def fail(_: str, error: Exception) -> None:
        raise SystemExit(f"{network}: {error}")

    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.closing(make_backend(backend, workers=2)) as trainer,
    ):
        began = time.process_time()
        listener = Listener(ended.append, fail, look)
        drive([spec], lambda _: part, trainer, listener, Storage(Path(folder)), Limits())
        seconds = time.process_time() - began
    accuracy = np.array(ended[0].progress.metrics["accuracy"])
    return Trained(np.stack(rounds), accuracy, seconds)


def train(
    network: str,
    data_root: Path,
    *,
    backend: str = "loop",
    threads: int = 1,
    environment: dict[str, str] | None = None,
    python: str = sys.executable,
) -> Trained:
    """Train a network in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "trained.npz"
        arguments = [network, backend, str(threads), str(data_root), str(out)]
        subprocess.run(
            [python, __file__, "--child", *arguments],
            env=os.environ | {"PYTHONPATH": str(SOURCE)} | (environment or {}),
            check=True,
        )
        with np.load(out) as found:
            return Trained(found["weights"], found["accuracy"], float(found["seconds"]))


def child(network: str, backend: str, threads: str, data_root: str, out: str) -> None:
    """Train here and write what came of it."""
    found = train_here(network, backend, int(threads), Path(data_root))
    np.savez(out, **dataclasses.asdict(found))


def compared(one: Trained, other: Trained) -> dict[str, Any]:
    """Return how far two trainings are apart after the rounds that are shown."""
    shown = [t - 1 for t in SHOWN]
    apart = np.linalg.norm(other.weights[shown].astype(float) - one.weights[shown], axis=1)
    relative = apart / np.linalg.norm(one.weights[shown].astype(float), axis=1)
    points = 100 * np.abs(other.accuracy - one.accuracy)
    return {
        "equal": bool(np.array_equal(one.weights, other.weights)),
        "weights": [float(f"{value:.3g}") for value in relative],
        "points": [round(float(value), 2) for value in points[shown]],
        "most_points": round(float(points.max()), 2),
    }


def slower(network: str, data_root: Path) -> float:
    """Return the CPU time held to AVX2 over the usual one: median of interleaved pairs."""
    ratios = []
    for _ in range(PAIRS):
        usual, held = (
            train(network, data_root, environment=environment).seconds
            for environment in ({}, HELD["AVX2"])
        )
        ratios.append(held / usual)
    return round(statistics.median(ratios), 2)


def measure(network: str, data_root: Path, other_python: str | None) -> dict[str, Any]:
    """Return all that is measured of a network."""
    usual = train(network, data_root)
    changes = CHANGES | ({"another PyTorch": {"python": other_python}} if other_python else {})
    return {
        "accuracy": round(float(usual.accuracy[-1]), 4),
        "changes": {
            name: compared(usual, train(network, data_root, **change))
            for name, change in changes.items()
        },
    } | ({"avx2_time": slower(network, data_root)} if network in TIMED else {})


def about(python: str | None) -> dict[str, str]:
    """Return what it was measured on."""
    from fedrepro.runs.provenance import arithmetic, processor

    told = {"processor": processor(), "libraries": arithmetic()}
    if python:
        version = subprocess.run(
            [python, "-c", "import torch; print(torch.__version__)"],
            check=True,
            capture_output=True,
            text=True,
        )
        told["other"] = version.stdout.strip()
    return told


def main() -> None:
    """Measure, and write the result."""
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-root", type=Path, required=True, help="a pack of the data")
    parser.add_argument("--other-python", help="interpreter with another version of PyTorch")
    parser.add_argument("--networks", nargs="*", choices=NETWORKS, default=[*NETWORKS])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/reproducibility.json"))
    options = parser.parse_args()
    found = {}
    for network in options.networks:
        found[network] = measure(network, options.data_root, options.other_python)
        print(json.dumps({network: found[network]}), file=sys.stderr, flush=True)
    content = {"on": about(options.other_python), "rounds": SHOWN, "networks": found}
    options.out.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
