"""Messages between the pool and its workers, whose arrays lie in shared memory.

The weights of a lane are megabytes. Through a pipe the kernel copies them in small parts, with both
processes at work on it; through memory that both see, each side copies them once.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from numpy.typing import NDArray

from fedrepro.fl.algorithms import AlgorithmParams
from fedrepro.fl.partition import Scheme

_ALIGNED = 64  # bytes


@dataclass(frozen=True)
class Blocks:
    """Memory that a worker shares with the pool: for the arrays of a task, and of its results.

    Attributes:
        task: uint8 [size].
        results: uint8 [size].
    """

    task: torch.Tensor
    results: torch.Tensor

    @classmethod
    def of(cls, size: int) -> Blocks:
        """Return blocks of so many bytes each.

        Raises:
            RuntimeError: there is too little shared memory.
        """
        task, results = (torch.empty(size, dtype=torch.uint8) for _ in range(2))
        for block in (task, results):
            block.share_memory_()  # type: ignore[no-untyped-call]
        return cls(task, results)

    @property
    def size(self) -> int:
        """Bytes of each."""
        return len(self.task)


@dataclass(frozen=True)
class Message:
    """A value as it goes through a pipe.

    Tensors are sent as plain arrays, and specs without their algorithm and partition, for which a
    worker has no use; it could not import those that the main program defines.

    Attributes:
        content: the value, pickled without its arrays.
        sizes: bytes of each array.
        arrays: the arrays themselves; empty if they lie in a block.
    """

    content: bytes
    sizes: Sequence[int]
    arrays: Sequence[bytearray]

    @classmethod
    def of(cls, value: object, block: torch.Tensor) -> Message:
        """Write a value's arrays to a block, uint8 [size], or to the message if they do not fit."""
        content = io.BytesIO()
        pickled: list[pickle.PickleBuffer] = []
        _Pickler(content, protocol=5, buffer_callback=pickled.append).dump(value)
        arrays = [buffer.raw() for buffer in pickled]
        message = cls(content.getvalue(), [array.nbytes for array in arrays], [])
        if message.size > len(block):
            return replace(message, arrays=[bytearray(array) for array in arrays])
        for part, array in zip(message._parts(block), arrays, strict=True):
            part[:] = array
        return message

    @property
    def size(self) -> int:
        """Bytes that its arrays take in a block."""
        return sum(map(_padded, self.sizes))

    def open(self, block: torch.Tensor, *, copy: bool) -> Any:
        """Return the value.

        Args:
            block: where its arrays lie if they do not come with it, uint8 [size].
            copy: whether the arrays are to outlive what is written to the block next.
        """
        arrays: Sequence[bytearray | memoryview] = self.arrays
        if not arrays:
            parts = self._parts(block)
            arrays = [bytearray(part) for part in parts] if copy else parts
        return pickle.loads(self.content, buffers=arrays)

    def _parts(self, block: torch.Tensor) -> list[memoryview]:
        """Return where in a block the arrays lie, one after another."""
        memory, begin = block.numpy().data, 0
        parts = []
        for size in self.sizes:
            parts.append(memory[begin : begin + size])
            begin += _padded(size)
        return parts


def _padded(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED


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
