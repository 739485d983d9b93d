"""``torch.compile`` of what a lane minimises: compiled once for all lanes of a shape."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from fedrepro.base.errors import FedreproError
from fedrepro.fl.engine import lane
from fedrepro.fl.engine.device import has_failed
from fedrepro.fl.engine.jobs import is_out_of_memory
from fedrepro.fl.spec import RunSpec

_SHAPES = 64
"""Combinations of network, batch size and objective that one process compiles at most."""


@functools.cache
def _compiled() -> Any:
    import torch._dynamo

    config = torch._dynamo.config
    config.recompile_limit = max(config.recompile_limit, _SHAPES)
    # Inductor advises TF32 wherever it is off; here the spec says which precision a run has.
    warnings.filterwarnings("ignore", message="TensorFloat32 tensor cores")
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
    tried = failed = False

    def losses(*arguments: Any) -> tuple[torch.Tensor, torch.Tensor]:
        nonlocal tried, failed
        if not (tried or failed):
            try:
                _try(arguments)
                tried = True
            except Exception as error:
                short = isinstance(error, RuntimeError) and is_out_of_memory(error)
                if short or has_failed(arguments[-1].device, error):
                    raise
                reason = (str(error).splitlines() or [type(error).__name__])[0]
                problem = f"spec field model = {spec.model.name} cannot be compiled ({reason})"
                if required:
                    raise FedreproError(f"--compile on: {problem}; leave it out") from error
                warnings.warn(f"{problem}; it is trained without", stacklevel=2)
                failed = True
        found: tuple[torch.Tensor, torch.Tensor]
        found = lane.losses(*arguments) if failed else _compiled()(*arguments)
        return found

    return losses


def _try(arguments: Sequence[Any]) -> None:
    """Compute a loss and its gradient, whose code is made when it is first asked for.

    The running statistics of batch normalisation are left as they were.
    """
    modules = [one for one in arguments if isinstance(one, nn.Module)]
    before = [(buffer, buffer.clone()) for one in modules for buffer in one.buffers()]
    trained = [one for net in modules[:2] for one in net.parameters()]
    try:
        torch.autograd.grad(_compiled()(*arguments)[0], trained)
    finally:
        for buffer, value in before:
            buffer.copy_(value)
