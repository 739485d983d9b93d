"""Messages between the pool and its workers, whose arrays lie in memory that both see.

The weights of a lane are megabytes. Through a pipe the kernel copies them in small parts, with both
processes at work on it; through a block of memory each side copies them once. Blocks are files
without a name, whose descriptors go over the pipe, so that nothing is left of them when the last
process that has one ends, however it ends.
"""

from __future__ import annotations

import io
import mmap
import os
import pickle
import socket
import tempfile
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import torch
from numpy.typing import NDArray

from fedrepro.base.errors import FedreproError
from fedrepro.fl.algorithms import AlgorithmParams
from fedrepro.fl.partition import Scheme

_ALIGNED = 64  # bytes


class Block:
    """Memory that several processes see.

    Attributes:
        memory: it; what is made of it without a copy keeps it alive.
    """

    def __init__(self, descriptor: int) -> None:
        """Map an open file, whose descriptor is closed with the block."""
        self._descriptor = descriptor
        weakref.finalize(self, os.close, descriptor)
        self.memory = memoryview(mmap.mmap(descriptor, os.fstat(descriptor).st_size))

    @classmethod
    def new(cls, size: int) -> Block:
        """Return a block of at least so many bytes; those that are not used take no memory.

        Raises:
            FedreproError: the system refuses it.
        """
        length = 1 << max(0, size - 1).bit_length()
        try:
            descriptor = _nameless_file()
            os.ftruncate(descriptor, length)
            return cls(descriptor)
        except OSError as error:
            raise FedreproError(
                f"no block of {length / 2**20:.0f} MiB to share with a worker process: "
                f"{error.strerror or error}; raise the limit, or train with fewer workers"
            ) from error

    def send(self, pipe: Connection) -> None:
        """Send it through a pipe, which must be a socket."""
        with _socket(pipe) as channel:
            socket.send_fds(channel, [b"."], [self._descriptor])

    @classmethod
    def receive(cls, pipe: Connection) -> Block:
        """Return the block that the other side sends.

        Raises:
            EOFError: the other side has ended.
        """
        with _socket(pipe) as channel:
            _, descriptors, _, _ = socket.recv_fds(channel, 1, 1)
        if not descriptors:
            raise EOFError
        return cls(descriptors[0])


def _nameless_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("fedrepro")
    with tempfile.TemporaryFile() as file:  # macOS
        return os.dup(file.fileno())


def _socket(pipe: Connection) -> socket.socket:
    return socket.socket(fileno=os.dup(pipe.fileno()))


@dataclass(frozen=True)
class Message:
    """A value as it goes through a pipe.

    Attributes:
        content: the value, pickled without its arrays.
        sizes: bytes of each array.
        arrays: the arrays themselves; empty if they lie in a block.
    """

    content: bytes
    sizes: Sequence[int]
    arrays: Sequence[bytearray]

    @property
    def size(self) -> int:
        """Bytes that its arrays take in a block."""
        return sum(map(_padded, self.sizes))

    def open(self, memory: memoryview, *, copy: bool) -> Any:
        """Return the value.

        Args:
            memory: of the block where its arrays lie if they do not come with it.
            copy: whether the arrays are to outlive what is written to the block next.
        """
        arrays: Sequence[bytearray | memoryview] = self.arrays
        if not arrays:
            parts = _parts(memory, self.sizes)
            arrays = [bytearray(part) for part in parts] if copy else parts
        return pickle.loads(self.content, buffers=arrays)


class Pickled:
    """A value that is about to be sent.

    Tensors are sent as plain arrays, and specs without their algorithm and partition, for which a
    worker has no use; it could not import those that the main program defines.

    Attributes:
        size: bytes that its arrays take in a block.
    """

    def __init__(self, value: object) -> None:
        content = io.BytesIO()
        pickled: list[pickle.PickleBuffer] = []
        _Pickler(content, protocol=5, buffer_callback=pickled.append).dump(value)
        self._content = content.getvalue()
        self._arrays = [buffer.raw() for buffer in pickled]
        self._sizes = [array.nbytes for array in self._arrays]
        self.size = sum(map(_padded, self._sizes))

    def message(self, memory: memoryview) -> Message:
        """Write its arrays to a block, or to the message if they do not fit there."""
        if self.size > len(memory):
            return Message(self._content, self._sizes, [bytearray(one) for one in self._arrays])
        for part, array in zip(_parts(memory, self._sizes), self._arrays, strict=True):
            part[:] = array
        return Message(self._content, self._sizes, [])


def _padded(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED


def _parts(memory: memoryview, sizes: Sequence[int]) -> list[memoryview]:
    """Return where arrays of these sizes lie, one after another."""
    begin, parts = 0, []
    for size in sizes:
        parts.append(memory[begin : begin + size])
        begin += _padded(size)
    return parts


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        """Return how to make a value again, or leave it to the usual way."""
        if isinstance(value, torch.Tensor):
            return _as_array(value)
        unused = isinstance(value, AlgorithmParams | Scheme)
        return (type(None), ()) if unused else NotImplemented


def _as_array(tensor: torch.Tensor) -> tuple[Callable[[NDArray[Any]], torch.Tensor], tuple[Any]]:
    return _as_tensor, (tensor.numpy(),)


def _as_tensor(array: NDArray[Any]) -> torch.Tensor:
    return torch.from_numpy(array)
