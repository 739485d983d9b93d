"""Whether a run trains at all, or its first round changes nothing."""

from __future__ import annotations

import torch

from fedrepro.base.errors import FedreproError
from fedrepro.fl.engine.host_copy import HostCopy, tensors

_ROUNDING = 1e-6
"""Largest change of a weight, relative to it, that averaging in float32 makes by rounding alone."""


def training_shows(before: HostCopy, after: HostCopy, size: int) -> bool:
    """Return whether a snapshot shows that training changes a run's models.

    Args:
        before: snapshot of the run before its first round.
        after: a snapshot between two rounds.
        size: numbers of one model, parameters and buffers.

    Returns:
        False if ``after`` is that of the beginning, or has not arrived in host memory.

    Raises:
        FedreproError: rounds have passed, and no weight has changed by more than rounding.
    """
    rounds = after.content["progress"]["round"]
    if rounds == 0 or not after.complete:
        return False
    old, new = _models(before, size), _models(after, size)
    if old and all(_same(models, new.get(name, [])) for name, models in old.items()):
        raise FedreproError(
            f"training changed no weight in {rounds} round{'s' * (rounds > 1)}: the step size "
            "(optimizer.lr, algorithm.server_lr) is too small for float32, or no client holds "
            "as much as a batch (batch, with last_batch: drop)"
        )
    return True


def _models(snapshot: HostCopy, size: int) -> dict[str, list[torch.Tensor]]:
    """Return the models in each field of a state that has some."""
    fields = {
        name: [one for one in tensors(value) if one.numel() == size]
        for name, value in snapshot.content["state"].items()
    }
    return {name: models for name, models in fields.items() if models}


def _same(old: list[torch.Tensor], new: list[torch.Tensor]) -> bool:
    return len(old) == len(new) and all(
        torch.allclose(one, other, rtol=_ROUNDING, atol=0.0)
        for one, other in zip(new, old, strict=True)
    )
