"""Copies of a run in host memory, made while the device works on.

A snapshot of a run shares its tensors, which nobody changes once they are made. Those on a GPU
start to be copied to pinned memory at once, on a stream of their own, so that neither the device
nor the driver waits; a tensor that the snapshot before had, too, is not copied again.

What a failed device has copied is still good, but CUDA answers no more questions then, not even
whether an event has passed. So the last thing copied is a marker: the stream copies in order, and
host memory that holds the marker holds everything before it.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Transfer:
    """Tensors on their way to host memory.

    Attributes:
        wait: returns when they are there; raises a RuntimeError if the device fails meanwhile.
        marker: in host memory, 0 until they are there.
    """

    wait: Callable[[], None]
    marker: torch.Tensor

    @property
    def complete(self) -> bool:
        """Whether the tensors are there; does not ask the device."""
        return bool(self.marker)


@dataclass(frozen=True)
class HostCopy:
    """A snapshot whose tensors are in host memory, or on their way there.

    Attributes:
        content: dicts and lists of its own; tensors in host memory, not to be read before they have
            arrived.
    """

    content: dict[str, Any]
    _transfer: Transfer | None

    @property
    def complete(self) -> bool:
        """Whether the content can be read; neither waits nor asks the device."""
        return self._transfer is None or self._transfer.complete

    def arrives(self) -> bool:
        """Wait until the content can be read; False if the device has failed before that."""
        if self._transfer is not None and not self._transfer.complete:
            with contextlib.suppress(RuntimeError):
                self._transfer.wait()
        return self.complete


class HostCopier:
    """Takes the snapshots of one run."""

    def __init__(self) -> None:
        self._stream: torch.cuda.Stream | None = None
        self._copied: dict[int, tuple[weakref.ref[torch.Tensor], torch.Tensor]] = {}
        self._transfer: Transfer | None = None

    def copy(self, content: dict[str, Any]) -> HostCopy:
        """Copy nested dicts and lists; share tensors on the CPU and start to copy the others."""
        found = {id(one): one for one in tensors(content) if one.device.type != "cpu"}
        copied = {
            key: self._copied[key]
            for key, tensor in found.items()
            if key in self._copied and self._copied[key][0]() is tensor
        }
        new = [tensor for key, tensor in found.items() if key not in copied]
        if new:  # after what is still on its way, so its arrival is that of all
            hosts, self._transfer = self._fetch(new)
            for tensor, host in zip(new, hosts, strict=True):
                copied[id(tensor)] = weakref.ref(tensor), host
        self._copied = copied
        return HostCopy(
            mapped(content, lambda one: copied[id(one)][1] if id(one) in copied else one),
            self._transfer,
        )

    def _fetch(self, tensors: Sequence[torch.Tensor]) -> tuple[list[torch.Tensor], Transfer]:
        """Start to copy tensors of one GPU.

        Returns:
            What will hold them, and their transfer.
        """
        device = tensors[0].device
        hosts = [torch.empty(one.shape, dtype=one.dtype, pin_memory=True) for one in tensors]
        marker = torch.zeros((), dtype=torch.uint8, pin_memory=True)
        done = torch.ones((), dtype=torch.uint8, device=device)
        if self._stream is None:  # of high priority: no backend works on those
            self._stream = torch.cuda.Stream(device, priority=-1)  # type: ignore[no-untyped-call]
        self._stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(self._stream):
            for host, tensor in zip([*hosts, marker], [*tensors, done], strict=True):
                host.copy_(tensor, non_blocking=True)
                tensor.record_stream(self._stream)  # else its memory may be reused before
            event = self._stream.record_event()
        return hosts, Transfer(event.synchronize, marker)


def mapped(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Return a copy of nested dicts and lists with ``change`` applied to every tensor."""
    if isinstance(value, dict):
        return {key: mapped(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [mapped(item, change) for item in value]
    return change(value) if isinstance(value, torch.Tensor) else value


def on_device(content: Any, device: torch.device) -> Any:
    """Return a copy of a state with its weights and moments on a device.

    Those are the float32 tensors (see :mod:`fedrepro.fl.algorithms`); others stay on the CPU. A
    tensor that occurs several times is copied once.
    """
    moved: dict[int, torch.Tensor] = {}

    def move(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dtype != torch.float32:
            return tensor
        if id(tensor) not in moved:
            moved[id(tensor)] = tensor.to(device)
        return moved[id(tensor)]

    return mapped(content, move)


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors in nested dicts and lists, in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors(item)
    elif isinstance(value, list):
        for item in value:
            yield from tensors(item)
