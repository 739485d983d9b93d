"""What an algorithm keeps between rounds: of kinds that a checkpoint holds, and left as it is.

A checkpoint with anything else could be written and never be read again, and one with a tensor that
was changed after its round would be of no round at all. An algorithm of another distribution learns
of either after its first round.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch

from fedrepro.base.errors import FedreproError
from fedrepro.fl.engine.host_copy import tensors

_PLAIN = (str, int, float, bool, type(None))


class Kept:
    """The state of a run between two rounds.

    Args:
        algorithm: its name.
        state: what it keeps.

    Raises:
        FedreproError: a checkpoint cannot hold it; names the field.
    """

    def __init__(self, algorithm: str, state: Any) -> None:
        self._algorithm = algorithm
        self._versions: list[tuple[str, weakref.ref[torch.Tensor], int]] = []
        for name, value in vars(state).items():
            for one in _unsaved(value):
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


def _unsaved(value: Any) -> list[Any]:
    """Return what a checkpoint cannot hold of nested dicts and lists: the first such value."""
    if isinstance(value, dict):
        found = [one for key in value for one in _no_key(key)]
        found = found or [one for item in value.values() for one in _unsaved(item)]
    elif isinstance(value, list):
        found = [one for item in value for one in _unsaved(item)]
    elif isinstance(value, torch.Tensor):
        found = []
    else:
        found = _no_key(value)
    return found[:1]


def _no_key(value: Any) -> list[Any]:
    """Return what is neither a number nor a string, nor a tuple of these."""
    if type(value) is tuple:
        return [one for item in value for one in _no_key(item)]
    return [] if type(value) in _PLAIN else [value]
