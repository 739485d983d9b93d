"""Checks that the state of an algorithm can be checkpointed.

It must be of types that a checkpoint can hold, or the checkpoint could not be read; and its tensors
must not be changed in place, or a checkpoint, which shares them, would be of no round at all. An
algorithm of another distribution learns of either after its first round.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch

from fedrepro.base.errors import FedreproError
from fedrepro.fl.engine.host_copy import tensors

_PLAIN = (str, int, float, bool, type(None))


class CheckedState:
    """The state of a run between two rounds, whose types have been checked.

    Args:
        algorithm: its name.
        state: a dataclass, as its functions get it.

    Raises:
        FedreproError: a checkpoint cannot hold it; names the field.
    """

    def __init__(self, algorithm: str, state: Any) -> None:
        self._algorithm = algorithm
        self._versions: list[tuple[str, weakref.ref[torch.Tensor], int]] = []
        for name, value in vars(state).items():
            for one in _unstorable(value):
                raise FedreproError(
                    f"algorithm {algorithm}: {name} of its state holds a "
                    f"{type(one).__module__}.{type(one).__qualname__}, which no checkpoint can; "
                    "keep tensors, numbers of Python, strings, and lists and dictionaries of these"
                )
            self._versions += [
                (name, weakref.ref(tensor), tensor._version) for tensor in tensors(value)
            ]

    def require_unchanged(self) -> None:
        """Refuse a state whose tensors were changed in place.

        Raises:
            FedreproError: one was; names the field.
        """
        for name, reference, version in self._versions:
            tensor = reference()
            if tensor is not None and tensor._version != version:
                raise FedreproError(
                    f"algorithm {self._algorithm}: a tensor in {name} of its state was changed in "
                    "place, as `+=` and methods with a trailing underscore do; checkpoints share "
                    "it: make a new one (`state.x = state.x + y`)"
                )


def _unstorable(value: Any) -> list[Any]:
    """Return the first value in nested dicts and lists that a checkpoint cannot hold, or none."""
    if isinstance(value, dict):
        found = [one for key in value for one in _not_plain(key)]
        found = found or [one for item in value.values() for one in _unstorable(item)]
    elif isinstance(value, list):
        found = [one for item in value for one in _unstorable(item)]
    elif isinstance(value, torch.Tensor):
        found = []
    else:
        found = _not_plain(value)
    return found[:1]


def _not_plain(value: Any) -> list[Any]:
    """Return the values that are neither numbers nor strings, nor tuples of these."""
    if type(value) is tuple:
        return [one for item in value for one in _not_plain(item)]
    return [] if type(value) in _PLAIN else [value]
