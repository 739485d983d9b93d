"""Small runs on made-up images, and the answers of backends to single requests."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from fedrepro.fl import data
from fedrepro.fl.algorithms import ALGORITHMS
from fedrepro.fl.data import Dataset
from fedrepro.fl.engine.active import ActiveRun, Storage
from fedrepro.fl.engine.driver import Limits, Listener, RunFailure, drive
from fedrepro.fl.engine.jobs import Answer, Ask, Backend, OutOfTime, Result
from fedrepro.fl.engine.loop import LoopBackend
from fedrepro.fl.engine.pool import PoolBackend
from fedrepro.fl.federation import Federation
from fedrepro.fl.requests import Lane, Request
from fedrepro.fl.spec import RunSpec, run_id
from fedrepro.runs.plan import PlannedRun

SMALL_CNN = {"name": "mnist_cnn", "width": 0.05}

TINY_PLAN: dict[str, Any] = {
    "paper": "tiny",
    "title": "Runs of a moment",
    "defaults": {
        "dataset": {"name": "synthetic"},
        "partition": {"scheme": "iid_stratified", "clients": 2, "per_class": 10},
        "model": {"name": "liu1", "width": 0.3},
        "algorithm": {"name": "fedavg"},
        "optimizer": {"name": "sgd", "lr": 0.05},
        "batch": 8,
        "rounds": 2,
    },
    "runs": {"fedavg": {"title": "FedAvg"}},
}
"""A plan of one's own, as it stands in a file, without its seeds."""

LABELS = np.arange(120) % 4
IMAGES = (
    np.random.default_rng(0).integers(0, 60, (120, 8, 8)) + 45 * LABELS[:, None, None]
).astype(np.uint8)
"""Images of a program's own [120, 8, 8], which tell the four labels apart."""
HALVES = [np.arange(60), np.arange(60, 120)]
"""Two clients that hold them."""
OPTIONS = {"model": "liu1", "rounds": 2, "lr": 0.05, "device": "cpu", "workers": 1}
"""With these ``fedrepro.train`` takes a moment."""


def make_spec(**changes: Any) -> RunSpec:
    """Return the spec of a run of a second at most; ``changes`` replace whole fields."""
    content = {
        "dataset": {"name": "synthetic"},
        "partition": {"scheme": "iid_plain", "clients": 8},
        "model": {"name": "liu1", "width": 0.3},
        "algorithm": {"name": "fedavg"},
        "optimizer": {"name": "sgd", "lr": 0.05},
        "batch": 8,
        "local_epochs": 2,
        "rounds": 3,
        "seed": 5,
    }
    return RunSpec.model_validate(content | changes)


def change_algorithm(monkeypatch: pytest.MonkeyPatch, name: str, **changes: Any) -> None:
    """Replace functions or the version of a registered algorithm."""
    found = ALGORITHMS[name]
    changed = dataclasses.replace(found, **changes)
    monkeypatch.setitem(ALGORITHMS._found, name, (changed, None, found.module))


def planned(**changes: Any) -> PlannedRun:
    """Return a run as a plan would hold it."""
    changes = {"partition": {"scheme": "iid_stratified", "clients": 2, "per_class": 10}} | changes
    spec = make_spec(**changes)
    return PlannedRun("made_up", "group", {}, spec.seed, spec, run_id(spec))


def drive_runs(
    specs: Sequence[RunSpec],
    backend: Backend,
    folder: Path,
    done: Callable[[ActiveRun], object],
    failed: Callable[[str, RunFailure], object],
    *,
    on_progress: Callable[[Sequence[ActiveRun]], object] = lambda _: None,
    in_flight: int | None = None,
    deadline: float = math.inf,
    **storage: Any,
) -> list[ActiveRun]:
    """Train runs, their checkpoints in a folder; ``storage`` is of :class:`Storage`."""
    return drive(
        specs,
        lambda spec: data.load(spec.dataset.name),
        backend,
        Listener(done, failed, on_progress),  # type: ignore[arg-type]
        Storage(folder, **storage),
        Limits(in_flight, deadline),
    )


def federation(spec: RunSpec, dataset: Dataset | None = None) -> Federation:
    return Federation(spec, dataset or data.load(spec.dataset.name))


def make_lanes(fed: Federation, sizes: Sequence[int], **changes: Any) -> list[Lane]:
    """Return one lane a size, each from other weights and on other examples.

    A change that is a function is called with the number of the lane.
    """
    return [
        Lane(
            **{
                "weights": fed.initial_weights(k),
                "examples": fed.clients[k][:size],
                "stream": ("client", k),
            }
            | {name: value(k) if callable(value) else value for name, value in changes.items()}
        )
        for k, size in enumerate(sizes)
    ]


def answers(
    backend: Backend, asks: Sequence[tuple[RunSpec, Request]], dataset: Dataset | None = None
) -> list[Result]:
    """Return a backend's answers to requests that are open at the same time, in order.

    Workers that never answer are an error after a long time. The other backends compute while they
    are asked; they may compile for minutes on a machine that has much else to do.
    """
    patience = 300.0 if isinstance(backend, PoolBackend) else math.inf
    for ticket, (spec, request) in enumerate(asks):
        backend.submit(ticket, Ask(spec, dataset or data.load(spec.dataset.name), request))
    found: dict[int, Result] = {}
    while len(found) < len(asks):
        collected = backend.collect(time.monotonic() + patience)
        found |= {answer.ticket: answer.result for answer in collected}
    return [found[ticket] for ticket in range(len(asks))]


def answer(
    backend: Backend, spec: RunSpec, request: Request, dataset: Dataset | None = None
) -> Any:
    """Return a backend's answer to a single request."""
    return answers(backend, [(spec, request)], dataset)[0]


class Interrupt(Exception):
    """Ends a training."""


def stop_in_round_2(active: Sequence[ActiveRun]) -> None:
    """Interrupt a training, as its ``on_progress``, when its first run has trained two rounds.

    The second is not evaluated yet, so that the run goes on from the first where every round is.
    """
    if active and active[0].progress.round == 2:
        raise Interrupt


@contextlib.contextmanager
def ends_after(answers: int, error: type[BaseException] = OutOfTime) -> Iterator[None]:
    """Let the loop backend raise an error, the end of time say, after so many answers."""
    left, collect = iter(range(answers)), LoopBackend.collect

    def limited(self: LoopBackend, deadline: float = math.inf) -> list[Answer]:
        if next(left, None) is None:
            raise error
        return collect(self, deadline)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LoopBackend, "collect", limited)
        yield


def direction(fed: Federation) -> Callable[[int], torch.Tensor]:
    """Return the linear terms of lanes by number, each a random vector [parameters]."""

    def draw(number: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(number)
        return 0.01 * torch.randn(fed.layout.parameters, generator=generator)

    return draw


def float_dataset(images: NDArray[np.float32], labels: NDArray[np.int64]) -> Dataset:
    """Return a data set of floats [n, channels, height, width] under the name of one."""
    return Dataset(
        "kws_mfcc20", images, labels, images[:10], labels[:10], 10, "synthetic", "0" * 64, ""
    )
