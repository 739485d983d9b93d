"""Drives one or many runs at once.

The driver collects the open requests of all runs in flight, lets a backend answer them all, hands
each run its own results, and admits the next run when one ends.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch

from fedrepro.algorithms import ALGORITHMS
from fedrepro.data import Dataset
from fedrepro.engine import checkpoint
from fedrepro.engine.federation import Federation
from fedrepro.engine.loop import LaneError, LoopBackend
from fedrepro.errors import FedreproError
from fedrepro.requests import Prediction, Request, Steps, Train, Trained
from fedrepro.spec import RunSpec, run_id

BACKENDS: dict[str, type[LoopBackend]] = {"loop": LoopBackend}


class Backend(Protocol):
    """What the driver needs of a backend."""

    name: str

    def answer(  # noqa: D102
        self, open_requests: Sequence[tuple[Federation, Dataset, Request]]
    ) -> list[list[Trained] | list[Prediction] | LaneError]: ...


@dataclass
class Progress:
    """What a checkpoint holds besides the algorithm's state.

    Attributes:
        round: rounds done.
        seconds: time spent on the run so far.
        metrics: per-round lists, and ``evaluated_rounds`` with the lists that go with it.
        final: the last evaluation, lists included.
    """

    round: int = 0
    seconds: float = 0.0
    metrics: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    final: dict[str, Any] = field(default_factory=dict)


class RunFailure(FedreproError):
    """A run ended without a result; the message names the run, the round and the lane."""


class ActiveRun:
    """A run in flight."""

    def __init__(
        self, spec: RunSpec, dataset: Dataset, checkpoints: Path, checkpoint_seconds: float
    ) -> None:
        self.spec = spec
        self.id = run_id(spec)
        self.dataset = dataset
        self.fed = Federation(spec, dataset)
        self.algorithm = ALGORITHMS[spec.algorithm.name]
        self.rounds = self.algorithm.rounds(spec)
        self.state = self.algorithm.init(self.fed)
        self.progress = Progress()
        self.request: Request | None = None
        self._file = checkpoints / f"{self.id}.pt"
        self._checkpoint_seconds = checkpoint_seconds
        self._last_save = time.monotonic()
        self._restore()
        self._steps = self._run()
        self._advance(None)

    def _restore(self) -> None:
        saved = checkpoint.load(self._file, self.id)
        if saved is None:
            return
        self.state = type(self.state)(**saved["state"])
        progress = Progress(**saved["progress"])
        progress.metrics = defaultdict(list, progress.metrics)
        self.progress = progress

    def _save_if_due(self) -> None:
        if self.progress.round >= self.rounds:
            return
        if time.monotonic() - self._last_save < self._checkpoint_seconds:
            return
        self.save()

    def save(self) -> None:
        """Write the checkpoint of the last finished round."""
        progress = vars(self.progress) | {"metrics": dict(self.progress.metrics)}
        checkpoint.save(self._file, self.id, {"state": vars(self.state), "progress": progress})
        self._last_save = time.monotonic()

    def forget_checkpoint(self) -> None:
        """Delete the checkpoint of a run whose record is safe."""
        self._file.unlink(missing_ok=True)

    def _run(self) -> Steps:
        progress = self.progress
        while progress.round < self.rounds:
            log = yield from self.algorithm.round(self.fed, self.state, progress.round)
            for name, value in log.items():
                progress.metrics[name].append(value)
            progress.round += 1
            last = progress.round == self.rounds
            if last or progress.round % self.spec.evaluate_every == 0:
                progress.final = yield from self.algorithm.evaluate(self.fed, self.state)
                progress.metrics["evaluated_rounds"].append(progress.round)
                for name, value in progress.final.items():
                    if not isinstance(value, list):
                        progress.metrics[name].append(value)
            self._save_if_due()
        progress.final |= self.algorithm.summary(self.fed, self.state)

    def _advance(self, answer: list[Trained] | list[Prediction] | None) -> None:
        try:
            self.request = self._steps.send(answer)
        except StopIteration:
            self.request = None

    def receive(self, answer: list[Trained] | list[Prediction], seconds: float) -> None:
        """Take the answer to the open request and go on to the next one, or to the end."""
        self.progress.seconds += seconds
        self._advance(answer)

    @property
    def done(self) -> bool:
        """Whether the run has no further request."""
        return self.request is None


def _work(run: ActiveRun) -> float:
    """Return the sample passes of a run's open request, for sharing out the time it took."""
    request = run.request
    if isinstance(request, Train):
        epochs = request.epochs or run.spec.local_epochs
        return 3.0 * epochs * sum(len(lane.examples) for lane in request.lanes)
    assert request is not None
    size = len(run.dataset.test_y) if request.examples is None else len(request.examples)
    return float(len(request.models) * size)


def drive(
    specs: Iterable[RunSpec],
    load: Callable[[RunSpec], Dataset],
    backend: Backend,
    *,
    on_done: Callable[[ActiveRun], None],
    on_failed: Callable[[str, RunFailure], None],
    on_progress: Callable[[Sequence[ActiveRun]], None] = lambda _: None,
    in_flight: int = 1,
    checkpoints: Path = Path(".checkpoints"),
    checkpoint_seconds: float = 30.0,
) -> None:
    """Train runs, several at once.

    Args:
        specs: the runs, in order; taken one by one, so a generator may skip some late.
        load: returns a run's data set.
        backend: answers the requests.
        on_done: called with each run that ended; its checkpoint is deleted afterwards.
        on_failed: called with the id of each run that failed; the other runs go on.
        on_progress: called after every step of the driver.
        in_flight: how many runs are open at once.
        checkpoints: folder of the checkpoints.
        checkpoint_seconds: least time between two checkpoints of a run; 0 writes one every round.
    """
    queue = iter(specs)
    active: list[ActiveRun] = []
    exhausted = False
    while True:
        while not exhausted and len(active) < in_flight:
            spec = next(queue, None)
            if spec is None:
                exhausted = True
                break
            active.append(ActiveRun(spec, load(spec), checkpoints, checkpoint_seconds))
        if not active:
            return
        started = time.perf_counter()
        requests = [
            (run.fed, run.dataset, run.request) for run in active if run.request is not None
        ]
        answers = backend.answer(requests)
        elapsed = time.perf_counter() - started
        shares = [_work(run) for run in active]
        for run, answer, share in zip(list(active), answers, shares, strict=True):
            if isinstance(answer, LaneError):
                active.remove(run)
                on_failed(run.id, RunFailure(f"run {run.id} failed: {answer}"))
                continue
            run.receive(answer, elapsed * share / (math.fsum(shares) or 1.0))
            if run.done:
                active.remove(run)
                on_done(run)
                run.forget_checkpoint()
        on_progress(active)


def use_one_thread() -> None:
    """Give PyTorch one compute thread: results are then equal to the bit on every run."""
    torch.set_num_threads(1)
