"""Lanes and models as the backends see them: which fit together, and what a backend offers."""

from __future__ import annotations

import functools
import itertools
import math
import time
import traceback
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import numpy as np
import torch

from fedrepro.fl.requests import (
    IntArray,
    Lane,
    Prediction,
    Request,
    Train,
    Trained,
    Weights,
)
from fedrepro.fl.spec import RunSpec, batch_sizes

if TYPE_CHECKING:
    from fedrepro.fl.data import Dataset
    from fedrepro.fl.engine.network import FlatModule


class LaneError(Exception):
    """A lane cannot be trained; the message names the lane and the reason."""


class ProgramFailed(LaneError):
    """The program itself failed over a lane or model; the message ends in the traceback."""


class AlgorithmFailed(Exception):
    """The code of an algorithm raised an error, which it did not mean to be read.

    Args:
        where: algorithm and round, for the message.
        error: what was raised, caught where the engine calls the algorithm.
    """

    def __init__(self, where: str, error: Exception) -> None:
        super().__init__(where)
        self.error = error


class OutOfTime(Exception):
    """The time budget ended in the middle of a request, whose work is lost."""


@dataclass(frozen=True)
class LaneJob:
    """One lane to be trained, with its run and what its request says of all lanes.

    Attributes:
        spec: of the run.
        request: without its lanes.
        lane: the lane.
        alike: what lanes of other requests must have in common with it, too; as text, which is
            compared and hashed in no time where there are thousands of lanes.
    """

    spec: RunSpec
    request: Train
    lane: Lane
    alike: str

    @property
    def batch(self) -> int:
        """Examples a step."""
        return self.spec.batch if self.lane.batch is None else self.lane.batch

    @property
    def epochs(self) -> int:
        """Passes over the lane's examples."""
        asked = (self.lane.epochs, self.request.epochs, self.spec.local_epochs)
        return next(epochs for epochs in asked if epochs is not None)

    @property
    def lr(self) -> float:
        """Step size."""
        if self.lane.lr is not None:
            return self.lane.lr
        return self.spec.optimizer.step_size(self.request.round)

    @property
    def name(self) -> str:
        """The lane's name in messages."""
        return f"lane '{' '.join(map(str, self.lane.stream))}'"

    @property
    def sizes(self) -> list[int]:
        """Batch sizes of one epoch."""
        return batch_sizes(len(self.lane.examples), self.batch, self.spec.last_batch)

    @property
    def key(self) -> Hashable:
        """What lanes must have in common to be stacked, or to follow one another in a slot.

        Lengths, step sizes and seeds may differ.
        """
        return self.alike, self.batch, self.lane.linear is None


_NO_STEP_SIZE = {"lr": 1.0, "lr_decay": 1.0, "lr_milestones": ()}


@dataclass(frozen=True)
class PredictJob:
    """One model to predict with, and on which examples, with its run."""

    spec: RunSpec
    weights: Weights
    split: Literal["train", "test"]
    examples: IntArray
    name = "a prediction"

    @property
    def key(self) -> Hashable:
        """What predictions must have in common to follow one another in a slot."""
        return "predict", self.spec.dataset, self.spec.model, self.spec.precision, self.split

    def divided(self, size: int) -> list[PredictJob]:
        """Return the same in jobs of so many examples each, the last one of the rest."""
        starts = range(0, len(self.examples), size)
        return [replace(self, examples=self.examples[start : start + size]) for start in starts]


def check_lane(job: LaneJob, net: FlatModule) -> None:
    """Refuse a lane that cannot be trained.

    Args:
        job: the lane.
        net: a network of its architecture.

    Raises:
        LaneError: it has no examples, or a batch of one example meets batch normalisation.
    """
    if len(job.lane.examples) == 0:
        raise LaneError(f"{job.name} has no examples to train on")
    if net.normalises_vectors and 1 in job.sizes:
        raise LaneError(
            f"{job.name} has a batch of one example, which batch normalisation cannot train on; "
            + ("raise batch" if job.batch == 1 else "set last_batch: drop_single")
        )


def check_finite(job: LaneJob, loss: float, weights: Weights, total: float) -> None:
    """Refuse the result of a lane that diverged.

    Each weight is looked at only if ``total``, the sum of all as they were trained, is not finite.

    Raises:
        LaneError: loss or weights are not finite.
    """
    finite = math.isfinite(total) or bool(torch.isfinite(weights).all())
    if not (math.isfinite(loss) and finite):
        raise LaneError(
            f"{job.name} has a loss of {loss} or weights that are not finite; lower the step size "
            "(optimizer.lr) or check the data"
        )


_OUT_OF_MEMORY = (
    "can't allocate memory",
    "out of memory",
    "ALLOC_FAILED",
    "ALLOCATION_FAILED",
    "unable to find an engine",  # cuDNN, where no way to convolve gets its workspace
)


def is_out_of_memory(error: Exception) -> bool:
    """Return whether an error says that PyTorch could not allocate, on a GPU or on the CPU."""
    said = any(text in str(error) for text in _OUT_OF_MEMORY)
    return isinstance(error, torch.OutOfMemoryError) or (isinstance(error, RuntimeError) and said)


def too_large(name: str, error: Exception) -> LaneError:
    """Return the error of a lane, prediction or run that does not fit into memory even alone."""
    said = str(error).splitlines()[0] if str(error) else type(error).__name__
    return LaneError(
        f"{name} does not fit into memory even alone; lower batch, or take a device with more "
        f"memory ({said})"
    )


Result: TypeAlias = "list[Trained] | list[Prediction] | LaneError"


def unexpected(error: Exception) -> LaneError:
    """Return the error of a lane, model or run in which the program failed, with the traceback.

    That of an algorithm begins with the algorithm's own code. Three errors of PyTorch are said in
    our words. Where batch normalisation got one value a channel, maps of a single pixel met a batch
    of one example, which :func:`check_lane` does not know. A network may need an operation that
    ``deterministic`` excludes. And for that cuBLAS must be told before its first product.
    """
    if isinstance(error, AlgorithmFailed):
        return _failed_algorithm(error)
    if " does not have a deterministic implementation" in str(error):
        operation = str(error).partition(" ")[0]
        return LaneError(
            f"deterministic: {operation} of PyTorch may give other bits each time; leave "
            "it out, or take a network without it (spec field model)"
        )
    if "CUBLAS_WORKSPACE_CONFIG" in str(error):
        return LaneError(
            "deterministic: set CUBLAS_WORKSPACE_CONFIG=:4096:8 in the environment before Python "
            "starts; cuBLAS has begun in this process with another setting"
        )
    if isinstance(error, ValueError) and "more than 1 value per channel" in str(error):
        return LaneError(
            "it has a batch of one example, which batch normalisation of single pixels cannot "
            "train on; set last_batch: drop_single, and a batch above 1"
        )
    trace = "".join(traceback.format_exception(error)).rstrip()
    return ProgramFailed(f"the program failed over it:\n{trace}")


def _failed_algorithm(failure: AlgorithmFailed) -> ProgramFailed:
    error, trace = failure.error, failure.error.__traceback__
    below = None if trace is None else trace.tb_next  # the first one is the engine's
    said = traceback.TracebackException(type(error), error, below)
    reason = "".join(said.format_exception_only()).rstrip()
    frames = "" if below is None else "\n" + "".join(said.format()).rstrip()
    return ProgramFailed(f"{failure}: {reason}{frames}")


def joined(parts: Sequence[Prediction]) -> Prediction:
    """Join a model's predictions on successive batches; all bits are as if they were one.

    The loss of a batch is a sum in single precision, divided in double precision by the number of
    examples, which loses none of its bits.
    """
    sums = np.array([part.loss * len(part.correct) for part in parts], dtype=np.float32)
    correct = np.concatenate([part.correct for part in parts])
    return Prediction(
        classes=np.concatenate([part.classes for part in parts]),
        correct=correct,
        loss=float(np.add.accumulate(sums)[-1]) / len(correct),
    )


@dataclass(frozen=True)
class Ask:
    """An open request of a run, and what is needed to answer it."""

    spec: RunSpec
    dataset: Dataset
    request: Request

    @functools.cached_property
    def jobs(self) -> list[LaneJob]:
        """The lanes to be trained, without the others of their request; none if it predicts."""
        if not isinstance(self.request, Train):
            return []
        spec, alone = self.spec, replace(self.request, lanes=())
        optimizer = spec.optimizer.model_copy(update=_NO_STEP_SIZE)
        alike = repr((spec.dataset, spec.model, optimizer, spec.precision, alone.objective))
        return [LaneJob(spec, alone, lane, alike) for lane in self.request.lanes]

    @property
    def passes(self) -> float:
        """Work in forward passes of one example; a training step counts as three."""
        if isinstance(self.request, Train):
            return sum(3.0 * job.epochs * len(job.lane.examples) for job in self.jobs)
        return float(sum(len(job.examples) for job in self.predict_jobs))

    @functools.cached_property
    def predict_jobs(self) -> list[PredictJob]:
        """The models to predict with, each with its examples; none if the request trains."""
        request = self.request
        if isinstance(request, Train):
            return []
        examples = request.examples
        if examples is None:
            labels = self.dataset.test_y if request.split == "test" else self.dataset.train_y
            examples = np.arange(len(labels))
        each = [examples] * self.lanes if isinstance(examples, np.ndarray) else examples
        return [
            PredictJob(self.spec, weights, request.split, own)
            for weights, own in zip(request.models, each, strict=True)
        ]

    @property
    def lanes(self) -> int:
        """Models trained or asked."""
        request = self.request
        return len(request.lanes if isinstance(request, Train) else request.models)


@dataclass(frozen=True)
class Answer:
    """The answer to a request.

    Attributes:
        ticket: names the request.
        result: one result for each lane or model, in order; or the error of one of them.
        seconds: time that it took.
    """

    ticket: int
    result: Result
    seconds: float


@dataclass
class _Open:
    """A request and the results that have arrived, None where one is missing."""

    ask: Ask
    results: list[Any]
    missing: int
    parts: Sequence[int] | None
    seconds: float = 0.0

    @property
    def result(self) -> Result:
        """The request's result: one failed lane or model fails it."""
        for one in self.results:
            if isinstance(one, LaneError):
                return one
        if self.parts is None:
            return self.results
        each = iter(self.results)
        return [joined(list(itertools.islice(each, count))) for count in self.parts]


class OpenRequests:
    """Requests that are answered lane by lane, or model by model, in any order."""

    def __init__(self) -> None:
        self._open: dict[int, _Open] = {}

    def __len__(self) -> int:
        return len(self._open)

    def add(self, ticket: int, ask: Ask, parts: Sequence[int] | None = None) -> None:
        """Take a request.

        Args:
            ticket: names it.
            ask: the request.
            parts: for each model, how many results, one after the other, make up its own: its
                predictions on successive batches. None: each lane or model has one result.
        """
        count = ask.lanes if parts is None else sum(parts)
        self._open[ticket] = _Open(ask, [None] * count, count, parts)

    def asks(self) -> list[Ask]:
        """Return the open requests."""
        return [one.ask for one in self._open.values()]

    def ask(self, ticket: int) -> Ask:
        """Return an open request."""
        return self._open[ticket].ask

    def settle(self, ticket: int, number: int, result: Any, seconds: float) -> None:
        """Take a result of a request, by its place among all, and the seconds that it took."""
        one = self._open[ticket]
        one.results[number] = result
        one.missing -= 1
        one.seconds += seconds

    def answers(self) -> list[Answer]:
        """Remove and return the requests that are answered in full."""
        done = {ticket: one for ticket, one in self._open.items() if not one.missing}
        for ticket in done:
            del self._open[ticket]
        return [Answer(ticket, one.result, one.seconds) for ticket, one in done.items()]


class Backend(Protocol):
    """Answers requests; the driver submits them as runs reach them and collects what is ready.

    Attributes:
        name: one of :data:`fedrepro.fl.engine.BACKENDS`; records hold it.
        device: where weights and moments are between requests.
        cores: number of CPU cores that it keeps busy; 0 if it works on a GPU.
        compiles: whether it trains with compiled networks, as far as it has decided.
        deterministic: whether it uses only operations that give the same bits each time.
    """

    name: str
    device: torch.device
    cores: int

    @property
    def compiles(self) -> bool:
        """See the class."""

    @property
    def deterministic(self) -> bool:
        """See the class."""

    def load(self, ask: Ask) -> float:
        """Return which share of its capacity a request takes, 0 or more.

        The driver admits runs until the loads of those in flight add up to 1.
        """

    def submit(self, ticket: int, ask: Ask) -> None:
        """Take a request; ``ticket`` names it in the answer."""

    def collect(self, deadline: float) -> list[Answer]:
        """Work until at least one request is answered, and return all answers that are ready.

        Args:
            deadline: when to stop, in seconds of ``time.monotonic()``; ``math.inf`` for never.

        Raises:
            OutOfTime: the deadline came first. After that the backend can only be closed.
        """

    def give_way(self) -> bool:
        """Leave more memory to the algorithms, from now on; return whether that is possible."""

    def close(self) -> None:
        """Free what the backend holds."""


def check_time(deadline: float) -> None:
    """Check that the deadline, in seconds of ``time.monotonic()``, has not passed.

    Raises:
        OutOfTime: it has.
    """
    if time.monotonic() > deadline:
        raise OutOfTime
