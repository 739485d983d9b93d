"""A worker process of the pool: answers tasks with one compute thread until its pipe closes."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import math
import os
import pickle
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import torch

from fedrepro.base.errors import FedreproError
from fedrepro.fl.engine import dense, lane
from fedrepro.fl.engine.device import subnormals_flushed
from fedrepro.fl.engine.jobs import (
    LaneError,
    LaneJob,
    OutOfTime,
    PredictJob,
    is_out_of_memory,
    too_large,
    unexpected,
)
from fedrepro.fl.engine.messages import Block, Message, Pickled
from fedrepro.fl.engine.resources import Resources
from fedrepro.fl.losses import LOSS_TERMS, LossTerm
from fedrepro.fl.models import NETWORKS, Network
from fedrepro.fl.requests import Prediction, Trained

_KEPT_BLOCK = 1 << 30
_KEPT_KERNELS = 128
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # parameters of glibc's mallopt


@dataclass(frozen=True)
class DataMessage:
    """A data set that the worker has not seen yet; the block with its tensors follows."""

    content: Message


@dataclass(frozen=True)
class RoomMessage:
    """A block for the arrays of tasks, and then of their results, follows."""


@dataclass(frozen=True)
class TrainTask:
    """Lanes of one key; ``stacked`` trains them as one."""

    jobs: Sequence[LaneJob]
    stacked: bool


def pack(own: Sequence[Network | LossTerm]) -> bytes:
    """Return the code of networks and loss terms that the program defines itself; b"" if of none.

    A worker could not import them from a script or a notebook.

    Raises:
        FedreproError: they hold what cannot be sent to another process.
    """
    import cloudpickle

    try:
        return cloudpickle.dumps(own) if own else b""
    except Exception as error:  # whatever an object raises that is not to be pickled
        names = " and ".join(one.name for one in own)
        raise FedreproError(
            f"{names}: cannot be sent to the processes that train ({error}); use nothing in its "
            "code that belongs to this process, or train with workers=1"
        ) from error


@functools.lru_cache(maxsize=8)
def _unpack(own: bytes) -> None:
    """Let this process know what :func:`pack` returned."""
    for component in pickle.loads(own):
        (NETWORKS if isinstance(component, Network) else LOSS_TERMS).use(component)


def set_memory_use() -> None:
    """Keep freed blocks, and fewer of the convolution kernels that were compiled.

    Batches and activations need blocks of the same sizes again, so glibc is told to keep them.
    oneDNN compiles each convolution anew for each size of a batch, and PyTorch and oneDNN keep the
    last 1,024 of them: gigabytes in every worker if predictions are of many different numbers of
    examples. Call this before the first convolution; limits set in the environment take precedence.
    """
    for cache in ("LRU_CACHE_CAPACITY", "ONEDNN_PRIMITIVE_CACHE_CAPACITY"):
        os.environ.setdefault(cache, str(_KEPT_KERNELS))
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_THRESHOLD, _KEPT_BLOCK)
        libc.mallopt(_M_TRIM_THRESHOLD, _KEPT_BLOCK)


def work(pipe: Connection) -> None:
    """Answer each task with its result and the seconds it took: a worker's main function."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # the main process decides
        signal.signal(number, signal.SIG_IGN)
    torch.set_num_threads(1)
    set_memory_use()
    resources = Resources(torch.device("cpu"), channels_last=True)
    room = memoryview(b"")
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            message = pipe.recv()
            if isinstance(message, DataMessage):
                memory = Block.receive(pipe).memory
                resources.add(*message.content.open(memory, copy=False))
            elif isinstance(message, RoomMessage):
                room = Block.receive(pipe).memory
            else:
                started = time.perf_counter()
                results = _answer(message, room, resources)
                answer = Pickled((results, time.perf_counter() - started))
                pipe.send(answer.message(room))


def _answer(message: Message, room: memoryview, resources: Resources) -> list[Any] | LaneError:
    try:
        task, own = message.open(room, copy=False)
    except Exception as error:
        return unexpected(error)
    return attempt(task, resources, own=own)


def attempt(
    task: TrainTask | PredictJob,
    resources: Resources,
    deadline: float = math.inf,
    own: bytes = b"",
) -> list[Any] | LaneError:
    """Perform a task; an error of the program is the result of all its lanes.

    Args:
        task: the task.
        resources: of this process.
        deadline: in seconds of ``time.monotonic()``.
        own: as of :func:`pack`, if this process does not know it otherwise.

    Raises:
        OutOfTime: the deadline, in seconds of ``time.monotonic()``, has passed.
    """
    try:
        if own:
            _unpack(own)
        return list(perform(task, resources, deadline))
    except OutOfTime:
        raise
    except Exception as error:
        return unexpected(error)


@subnormals_flushed()
def perform(
    task: TrainTask | PredictJob, resources: Resources, deadline: float = math.inf
) -> list[Trained | LaneError] | list[Prediction]:
    """Train the lanes of a task, in order, or predict.

    Raises:
        OutOfTime: the deadline, in seconds of ``time.monotonic()``, has passed.
        RuntimeError: PyTorch failed, other than for want of memory to train a lane.
    """
    spec = task.spec if isinstance(task, PredictJob) else task.jobs[0].spec
    net, data = resources.network(spec), resources.data(spec)
    if isinstance(task, PredictJob):
        return [lane.predict(net, data, task)]
    if task.stacked:
        try:
            return dense.train_stack(net, data, task.jobs, deadline)
        except RuntimeError as error:  # lane by lane, with the same bits, takes less memory
            if not is_out_of_memory(error):
                raise
    teacher = resources.teacher(spec, task.jobs[0].request.objective)
    results: list[Trained | LaneError] = []
    for job in task.jobs:
        try:
            results.append(lane.train_lane(net, teacher, data, job, deadline))
        except LaneError as error:
            results.append(error)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            results.append(too_large(job.name, error))
    return results
