"""Whether a run trains at all: lanes without a step, and a first round that changes nothing."""

from __future__ import annotations

import torch

from fedrepro.base.errors import FedreproError
from fedrepro.fl.engine.host_copy import HostCopy, tensors
from fedrepro.fl.engine.jobs import LaneJob
from fedrepro.fl.requests import Train
from fedrepro.fl.spec import RunSpec

_ROUNDING = 1e-6
"""Largest change of a weight, relative to it, that averaging in float32 makes by rounding alone."""


def idle_lanes(spec: RunSpec, request: Train) -> int:
    """Count the lanes that take no step, as they hold less than a batch and the rest is dropped.

    They still take part: their unchanged weights count in a mean.
    """
    return sum(not LaneJob(spec, request, lane).sizes for lane in request.lanes)


class FirstEffect:
    """Compares a run's models after its first rounds with those that it began with.

    Args:
        before: snapshot of the run before its first round.
        size: numbers of one model, parameters and buffers.
    """

    def __init__(self, before: HostCopy, size: int) -> None:
        self._before = before
        self._size = size

    def seen(self, after: HostCopy) -> bool:
        """Return whether a snapshot shows that training changes the models.

        Args:
            after: a snapshot between two rounds.

        Returns:
            False if it is that of the beginning, or has not arrived in host memory.

        Raises:
            FedreproError: rounds have passed, and no weight has changed by more than rounding.
        """
        rounds = after.content["progress"]["round"]
        if rounds == 0 or not after.complete:
            return False
        old, new = self._models(self._before), self._models(after)
        if old and all(_same(models, new.get(name, [])) for name, models in old.items()):
            raise FedreproError(
                f"training changed no weight in {rounds} round{'s' * (rounds > 1)}: the step size "
                "(optimizer.lr, algorithm.server_lr) is too small for float32, or no client holds "
                "as much as a batch (batch, with last_batch: drop)"
            )
        return True

    def _models(self, snapshot: HostCopy) -> dict[str, list[torch.Tensor]]:
        """Return the models in each field of a state that has some."""
        fields = {
            name: [one for one in tensors(value) if one.numel() == self._size]
            for name, value in snapshot.content["state"].items()
        }
        return {name: models for name, models in fields.items() if models}


def _same(old: list[torch.Tensor], new: list[torch.Tensor]) -> bool:
    return len(old) == len(new) and all(
        torch.allclose(one, other, rtol=_ROUNDING, atol=0.0)
        for one, other in zip(new, old, strict=True)
    )
