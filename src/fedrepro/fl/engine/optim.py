"""Optimiser steps on one flat parameter vector.

Written out rather than taken from ``torch.optim`` because the moments travel with a lane between
rounds and backends, and because a flat vector needs a handful of operations a step instead of a
handful for every tensor. The tests hold them against ``torch.optim``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from fedrepro.fl.layout import Layout
from fedrepro.fl.requests import OptimizerState
from fedrepro.fl.spec import Adam, Sgd

ALIGNED = 16
"""Floats in 64 bytes, to which PyTorch aligns the tensors of a CPU."""


def fresh_state(spec: Sgd | Adam, parameters: torch.Tensor) -> OptimizerState:
    """Return zero moments for a parameter vector, float32 [parameters].

    Adam's are ``mean``, ``square`` and the number of steps so far, ``step``; SGD's ``velocity``.
    """
    if isinstance(spec, Adam):
        return {
            "step": 0,
            "mean": torch.zeros_like(parameters),
            "square": torch.zeros_like(parameters),
        }
    if spec.momentum:
        return {"velocity": torch.zeros_like(parameters)}
    return {}


def stack_rows(vectors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Copy vectors, float32 [n] each, to the rows of a matrix, [len(vectors), n].

    The rows are :func:`apart`, so that each is treated as a single vector, to the last bit.
    """
    rows = apart(len(vectors), len(vectors[0]), device=vectors[0].device)
    return torch.stack(tuple(vectors), out=rows)


def apart(count: int, *shape: int, device: torch.device | None = None) -> torch.Tensor:
    """Return a stack of empty tensors, float32 [count, *shape], each as if it stood alone.

    The rounding of matrix libraries depends on alignment, so each tensor begins at a multiple of 64
    bytes, as one of its own does; that of elementwise operations depends on the place in a row, so
    a gap follows each.
    """
    size = math.prod(shape)
    stride = (size // ALIGNED + 1) * ALIGNED
    return torch.empty(count, stride, device=device)[:, :size].view(count, *shape)


def stack_states(
    spec: Sgd | Adam, states: Sequence[OptimizerState | None], parameters: int
) -> OptimizerState:
    """Return the states of several lanes as those of a stack; None is a fresh one.

    Moments become float32 [lanes, parameters], the step count float64 [lanes, 1].
    """
    fresh = fresh_state(spec, torch.zeros(parameters))
    full = [fresh if state is None else state for state in states]
    return {
        name: stack_rows([torch.as_tensor(state[name]) for state in full])
        if isinstance(value, torch.Tensor)
        else torch.tensor([[float(state[name])] for state in full], dtype=torch.float64)
        for name, value in fresh.items()
    }


def lane_state(stacked: OptimizerState, lane: int) -> OptimizerState:
    """Return a copy of one lane's state out of a stack's."""
    state: OptimizerState = {}
    for name, value in stacked.items():
        row = torch.as_tensor(value)[lane]
        state[name] = int(row) if name == "step" else row.clone()
    return state


def factors(spec: Sgd | Adam, layout: Layout, device: torch.device) -> torch.Tensor | None:
    """Return the factor on each coordinate's step, float32 [parameters]; None: all are 1."""
    if isinstance(spec, Adam) or spec.vector_lr_factor == 1.0:
        return None
    scale = torch.ones(layout.parameters, device=device)
    for position, shape in enumerate(layout.shapes):
        if layout.offsets[position] < layout.parameters and len(shape) < 2:
            layout.view(scale, position).fill_(spec.vector_lr_factor)
    return scale


def step(
    spec: Sgd | Adam,
    lr: float | torch.Tensor,
    parameters: torch.Tensor,
    gradient: torch.Tensor,
    state: OptimizerState,
    scale: torch.Tensor | None = None,
) -> None:
    """Update ``parameters`` and ``state`` in place; ``gradient`` may be overwritten.

    Works on one lane or on a stack of lanes; the lanes of a stack get the bits that each would get
    alone on a CPU.

    Args:
        spec: the optimiser (SGD, or Adam of Kingma and Ba 2015, Algorithm 1) and its constants.
        lr: step size of this round; float64 [lanes, 1] for a stack, and a tensor of the type of
            :func:`register_type`, [], where a graph is to read it.
        parameters: float32 [parameters] or [lanes, parameters].
        gradient: of the same shape.
        state: as of :func:`fresh_state`; ``step`` is a tensor like ``lr`` if that is one, and the
            moments have the shape of the parameters.
        scale: as of :func:`factors`.
    """
    if parameters.is_cuda and isinstance(lr, torch.Tensor) and scale is None:
        fused_step(spec, lr, parameters, gradient, state)
        return
    if isinstance(spec, Adam):
        _adam(spec, lr, parameters, gradient, state)
        return
    if spec.weight_decay:
        gradient.add_(parameters, alpha=spec.weight_decay)
    if spec.momentum:
        velocity = _moment(state, "velocity")
        velocity.mul_(spec.momentum).add_(gradient)
        if spec.nesterov:
            gradient.add_(velocity, alpha=spec.momentum)
        else:
            gradient = velocity
    if scale is not None:
        gradient = gradient * scale
    if isinstance(lr, torch.Tensor):
        parameters.addcmul_(gradient, lr.to(parameters.dtype), value=-1)
    else:
        parameters.add_(gradient, alpha=-lr)


def register_type(device: torch.device) -> torch.dtype:
    """Return the dtype of step sizes and step counts that a graph reads from a device.

    The fused kernels of a GPU take float32; on a CPU float64 gives the bits of Python's numbers.
    """
    return torch.float32 if device.type == "cuda" else torch.float64


def fused_step(
    spec: Sgd | Adam,
    lr: torch.Tensor,
    parameters: torch.Tensor,
    gradient: torch.Tensor,
    state: OptimizerState,
) -> None:
    """Do what :func:`step` does with one kernel of PyTorch's own, as a GPU prefers.

    Args:
        spec: the optimiser; its step size is the same for all coordinates.
        lr: float32 [].
        parameters: float32 [parameters].
        gradient: of the same shape.
        state: as of :func:`fresh_state`; ``step`` is float32 [].
    """
    if isinstance(spec, Adam):
        count = _moment(state, "step")
        count.add_(1)
        torch._fused_adam_(
            [parameters],
            [gradient],
            [_moment(state, "mean")],
            [_moment(state, "square")],
            [],
            [count],
            lr=lr,
            beta1=spec.beta1,
            beta2=spec.beta2,
            weight_decay=0.0,
            eps=spec.eps,
            amsgrad=False,
            maximize=False,
        )
        return
    torch._fused_sgd_(
        [parameters],
        [gradient],
        [_moment(state, "velocity")] if spec.momentum else [],
        weight_decay=spec.weight_decay,
        momentum=spec.momentum,
        lr=lr,
        dampening=0.0,
        nesterov=spec.nesterov,
        maximize=False,
        is_first_step=False,
    )


def _adam(
    spec: Adam,
    lr: float | torch.Tensor,
    parameters: torch.Tensor,
    gradient: torch.Tensor,
    state: OptimizerState,
) -> None:
    mean, square = _moment(state, "mean"), _moment(state, "square")
    mean.lerp_(gradient, 1 - spec.beta1)
    square.mul_(spec.beta2).addcmul_(gradient, gradient, value=1 - spec.beta2)
    count = state["step"]
    if isinstance(count, torch.Tensor):
        count.add_(1)
        scale = (1 - spec.beta2**count).sqrt().to(square.dtype)
        rate = (-lr / (1 - spec.beta1**count)).to(square.dtype)
        denominator = square.sqrt().div_(scale).add_(spec.eps)
        parameters.add_((mean * rate).div_(denominator))
    else:
        assert not isinstance(lr, torch.Tensor)
        state["step"] = count = count + 1
        denominator = square.sqrt().div_(math.sqrt(1 - spec.beta2**count)).add_(spec.eps)
        parameters.addcdiv_(mean, denominator, value=-lr / (1 - spec.beta1**count))


def _moment(state: OptimizerState, name: str) -> torch.Tensor:
    moment = state[name]
    assert isinstance(moment, torch.Tensor)
    return moment
