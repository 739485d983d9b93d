"""Checks that the state of an algorithm can be checkpointed.

It must be of types that a checkpoint can hold, or the checkpoint could not be read; all of it must
be there from the start and its own, not of its class, which no checkpoint holds; its tensors must
be where a resumed run has them; and they must not be changed in place, or a checkpoint, which
shares them, would be of no round at all. An algorithm of another distribution learns of this before
or after its first round.
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
        self._algorithm, self._state, self._names = algorithm, state, set(vars(state))
        self._versions: list[tuple[str, weakref.ref[torch.Tensor], int]] = []
        for name, value in vars(type(state)).items():
            if isinstance(value, dict | list | set | torch.Tensor) and not name.startswith("__"):
                raise FedreproError(
                    f"algorithm {algorithm}: {name} of its state belongs to the class, so all runs "
                    "share it and no checkpoint holds it: make it a field "
                    f"(`{name}: dict = field(default_factory=dict)`)"
                )
        for name, value in vars(state).items():
            for one in _unstorable(value):
                raise FedreproError(
                    f"algorithm {algorithm}: {name} of its state holds a "
                    f"{type(one).__module__}.{type(one).__qualname__}, which no checkpoint can; "
                    "keep tensors, numbers of Python, strings, and lists and dictionaries of these"
                )
            for tensor in tensors(value):
                if tensor.device.type != "cpu" and tensor.dtype != torch.float32:
                    raise FedreproError(
                        f"algorithm {algorithm}: {name} of its state holds a tensor of "
                        f"{tensor.dtype} on {tensor.device}, which a run that resumes has on the "
                        "CPU: make it float32, or keep it on the CPU"
                    )
            self._versions += [
                (name, weakref.ref(tensor), tensor._version) for tensor in tensors(value)
            ]

    def require_unchanged(self) -> None:
        """Refuse a state with other attributes, or whose tensors were changed in place.

        Raises:
            FedreproError: it has others, or a tensor was changed; names the field.
        """
        if other := vars(self._state).keys() ^ self._names:
            raise FedreproError(
                f"algorithm {self._algorithm}: {min(other)} of its state comes or goes in a round, "
                "so that no checkpoint would fit: let `init` make it, as a field of the dataclass"
            )
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
