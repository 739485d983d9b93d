"""``torch.compile`` of what a lane minimises: compiled once for all lanes of a shape."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import torch

from fedrepro.base.errors import FedreproError
from fedrepro.fl.engine import lane
from fedrepro.fl.spec import RunSpec

_SHAPES = 64
"""Combinations of network, batch size and objective that one process compiles at most."""


@functools.cache
def _compiled() -> Any:
    import torch._dynamo

    config = torch._dynamo.config
    config.recompile_limit = max(config.recompile_limit, _SHAPES)
    return _compile(lane.losses)


def _compile(function: lane.Loss) -> Any:
    return torch.compile(function, dynamic=False)


def compiled_losses(spec: RunSpec, *, required: bool) -> lane.Loss:
    """Return a compiled :func:`fedrepro.fl.engine.lane.losses`.

    Args:
        spec: a run that it is for, to be named in errors.
        required: whether the result raises a FedreproError if compiling fails; if not, it warns
            and runs plain code.
    """
    failed = False

    def losses(*arguments: Any) -> tuple[torch.Tensor, torch.Tensor]:
        nonlocal failed
        if failed:
            return lane.losses(*arguments)
        try:
            found: tuple[torch.Tensor, torch.Tensor] = _compiled()(*arguments)
            return found
        except torch._dynamo.exc.TorchDynamoException as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            problem = f"spec field model = {spec.model.name} cannot be compiled ({reason})"
            if required:
                raise FedreproError(f"--compile on: {problem}; leave it out") from error
            warnings.warn(f"{problem}; it is trained without", stacklevel=2)
            failed = True
            return lane.losses(*arguments)

    return losses
