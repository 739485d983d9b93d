"""Where the steps of a lane run: in this thread on a CPU, or on a stream of a GPU as a CUDA graph.

Both offer the same few calls, so that all but the capture itself is the same code, and is tested,
on a machine without a GPU.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from typing import Protocol

import torch

from fedrepro.fl.engine.device import never_free

STREAMS = 24
"""Streams on a GPU. On an H100, more do not help, and fewer are slower with small kernels."""

Step = Callable[[], object]


class Place(Protocol):
    """A sequence of work on a device; a slot has one, and may share it with others."""

    ahead: int
    """Most groups of steps that are handed over and have not ended."""
    group: int
    """Steps in a group."""

    def using(self) -> contextlib.AbstractContextManager[object]:
        """Return a context in which work goes here."""

    def take_over(self, *tensors: torch.Tensor | None) -> None:
        """Let work here wait until these tensors are made elsewhere; keep their memory for it."""

    def hand_over(self, *tensors: torch.Tensor) -> None:
        """Let tensors made here be used elsewhere, once the work here has ended."""

    def capture(self, step: Step) -> Step:
        """Return a function that does what a step does, without doing it now.

        Raises:
            RuntimeError: the step cannot be captured.
        """

    def fetch(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a host tensor that holds a copy once the work here has ended."""

    def mark(self) -> Callable[[], bool]:
        """Return a function that returns whether all work handed over so far has ended."""


class HostPlace:
    """The CPU: work is done at once, and replaying a step means taking it."""

    ahead = 1
    group = 1

    def using(self) -> contextlib.AbstractContextManager[object]:
        """Return a context that changes nothing."""
        return contextlib.nullcontext()

    def take_over(self, *tensors: torch.Tensor | None) -> None:
        """Do nothing: all tensors are there."""

    def hand_over(self, *tensors: torch.Tensor) -> None:
        """Do nothing: all tensors are there."""

    def capture(self, step: Step) -> Step:
        """Return the step itself."""
        return step

    def fetch(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the tensor itself."""
        return tensor

    def mark(self) -> Callable[[], bool]:
        """Return a function that returns True."""
        return lambda: True


class CudaPlace:
    """A stream, and the memory that the graphs captured on it share.

    They may share it because they run one after another there and leave nothing in it: what
    outlives a step lies in buffers that were made outside of a capture.
    """

    ahead = 4
    group = 8

    def __init__(self, device: torch.device) -> None:
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._others = torch.cuda.current_stream(device)  # where all but the steps is computed
        self._pool = torch.cuda.graph_pool_handle()

    def using(self) -> contextlib.AbstractContextManager[object]:
        """Return a context whose kernels go to the stream."""
        context: contextlib.AbstractContextManager[object] = torch.cuda.stream(self._stream)
        return context

    def take_over(self, *tensors: torch.Tensor | None) -> None:
        """Let the stream wait for the one on which they were made."""
        self._stream.wait_stream(self._others)
        for tensor in tensors:
            if tensor is not None and tensor.is_cuda:
                tensor.record_stream(self._stream)

    def hand_over(self, *tensors: torch.Tensor) -> None:
        """Keep the memory of tensors of this stream until the other one is done with them."""
        for tensor in tensors:
            tensor.record_stream(self._others)

    def capture(self, step: Step) -> Step:
        """Return the replay of a graph of the step's kernels.

        Raises:
            torch.OutOfMemoryError: memory is short.
            RuntimeError: the step cannot be captured.
        """
        graph = torch.cuda.CUDAGraph()
        broken: BaseException | None = None
        try:
            with (
                without_collections(),
                torch.cuda.graph(graph, pool=self._pool, stream=self._stream),
            ):
                try:
                    step()
                except BaseException as error:
                    broken = error
        except Exception:
            self._give_up(graph)
            if broken is None:
                raise
        if broken is not None:  # ending a capture that it broke may fail, too, and tells nothing
            try:
                raise broken
            finally:
                del broken  # whose traceback holds this frame, and so the memory of the lane
        replay: Step = graph.replay
        return replay

    def _give_up(self, graph: torch.cuda.CUDAGraph) -> None:
        """End what PyTorch leaves open where CUDA refuses to end a capture.

        The allocator would go on to serve the stream from the graph's memory. That of pinned memory
        still asks the graph, so that stays alive; later graphs get memory of their own.
        """
        try:
            torch._C._cuda_endAllocateToPool(self._stream.device_index, self._pool)
        except RuntimeError:
            return  # nothing is open: it never began, or its end came and failed afterwards
        never_free(graph)
        self._pool = torch.cuda.graph_pool_handle()

    def fetch(self, tensor: torch.Tensor) -> torch.Tensor:
        """Copy a tensor to pinned memory of the host."""
        host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        return host.copy_(tensor, non_blocking=True)

    def mark(self) -> Callable[[], bool]:
        """Record an event; return its query."""
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record(self._stream)
        done: Callable[[], bool] = event.query
        return done


@contextlib.contextmanager
def without_collections() -> Iterator[None]:
    """Hold back the garbage collector.

    A graph that it finds is destroyed, which CUDA does not permit while another one is captured:
    that capture would fail (https://github.com/pytorch/pytorch/issues/161037).
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
