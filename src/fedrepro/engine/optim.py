"""Optimiser steps on one flat parameter vector.

Written out rather than taken from ``torch.optim`` because the moments travel with a lane between
rounds and backends, and because a flat vector needs a handful of operations a step instead of a
handful for every tensor. The tests hold them against ``torch.optim``.
"""

from __future__ import annotations

import math

import torch

from fedrepro.requests import OptimizerState
from fedrepro.spec import Adam, Sgd


def fresh_state(spec: Sgd | Adam, parameters: torch.Tensor) -> OptimizerState:
    """Return zero moments for a parameter vector, float32 [parameters]."""
    if isinstance(spec, Adam):
        return {
            "step": 0,
            "mean": torch.zeros_like(parameters),
            "square": torch.zeros_like(parameters),
        }
    if spec.momentum:
        return {"step": 0, "velocity": torch.zeros_like(parameters)}
    return {"step": 0}


def step(
    spec: Sgd | Adam,
    lr: float,
    parameters: torch.Tensor,
    gradient: torch.Tensor,
    state: OptimizerState,
) -> None:
    """Update ``parameters`` and ``state`` in place; ``gradient`` may be overwritten.

    Args:
        spec: the optimiser and its constants.
        lr: step size of this round.
        parameters: float32 [parameters].
        gradient: float32 [parameters].
        state: as of :func:`fresh_state`.
    """
    count = int(state["step"]) + 1
    state["step"] = count
    if isinstance(spec, Adam):
        mean, square = state["mean"], state["square"]
        assert isinstance(mean, torch.Tensor)
        assert isinstance(square, torch.Tensor)
        mean.lerp_(gradient, 1 - spec.beta1)
        square.mul_(spec.beta2).addcmul_(gradient, gradient, value=1 - spec.beta2)
        scale = math.sqrt(1 - spec.beta2**count)
        denominator = square.sqrt().div_(scale).add_(spec.eps)
        parameters.addcdiv_(mean, denominator, value=-lr / (1 - spec.beta1**count))
        return
    if spec.weight_decay:
        gradient.add_(parameters, alpha=spec.weight_decay)
    if spec.momentum:
        velocity = state["velocity"]
        assert isinstance(velocity, torch.Tensor)
        velocity.mul_(spec.momentum).add_(gradient)
        if spec.nesterov:
            gradient.add_(velocity, alpha=spec.momentum)
        else:
            gradient = velocity
    parameters.add_(gradient, alpha=-lr)
