"""What :class:`fedrepro.fl.requests.Objective` means for a step of one lane or a stack of lanes.

Vectors are [parameters], or [lanes, parameters] for a stack; norms run over the last axis. In a
stack every lane gets what it would get alone.
"""

from __future__ import annotations

import torch
from torch import nn

from fedrepro.fl import device_streams
from fedrepro.fl.layout import Layout
from fedrepro.fl.losses import LOSS_TERMS, LossTerm
from fedrepro.fl.requests import Objective


def terms_of(objective: Objective) -> tuple[tuple[LossTerm, float], ...]:
    """Return the loss terms besides the cross entropy, and their weights.

    Raises:
        FedreproError: there is no term of this name.
    """
    return tuple((LOSS_TERMS[name], weight) for name, weight in objective.terms)


def needs_teacher(objective: Objective) -> bool:
    """Return whether a step needs the representation of the batch by the start model."""
    return any(term.needs_start for term, _ in terms_of(objective))


def needs_start(objective: Objective) -> bool:
    """Return whether a step needs the lane's start weights."""
    return bool(objective.proximal) or objective.projection == "update"


def adjust_gradient(
    objective: Objective,
    clip_norm: float | None,
    parameters: torch.Tensor,
    gradient: torch.Tensor,
    start: torch.Tensor | None,
    linear: torch.Tensor | None,
    noise: torch.Tensor | None,
) -> None:
    """Add the penalties' gradients, clip, and add noise, in place.

    Args:
        objective: what to add.
        clip_norm: bound on the gradient's Euclidean norm; None: no bound.
        parameters: current parameters.
        gradient: of the data loss; changed in place.
        start: the lane's start parameters; None unless :func:`needs_start`.
        linear: the lane's linear term.
        noise: standard normal numbers of the gradient's shape; None where there is no noise.
    """
    if objective.proximal:
        assert start is not None
        gradient.add_(parameters, alpha=objective.proximal)
        gradient.sub_(start, alpha=objective.proximal)
    if linear is not None:
        gradient.add_(linear)
    if clip_norm is not None:
        norm = gradient.norm(dim=-1, keepdim=True)
        gradient.mul_((clip_norm / norm.clamp(min=1e-12)).clamp(max=1.0))
    if noise is not None:
        gradient.add_(noise, alpha=objective.gradient_noise)


def project(objective: Objective, parameters: torch.Tensor, start: torch.Tensor | None) -> None:
    """Project the parameters to the objective's ball, in place; if it has none, leave them.

    With M the radius: ``w * min(1, M / ||w||)``, or ``w_0 + (w - w_0) * min(1, M / ||w - w_0||)``
    for the update (Ozdayi et al. 2020, section 3.2).

    Args:
        objective: which ball.
        parameters: w, float32 [parameters] or [lanes, parameters]; changed in place.
        start: w_0, of the same shape; None unless the update is bounded.
    """
    if objective.projection == "weights":
        parameters.mul_(_shrink(parameters, objective.radius))
    elif objective.projection == "update":
        assert start is not None
        update = parameters - start
        parameters.copy_(start + update * _shrink(update, objective.radius))


def _shrink(vector: torch.Tensor, radius: float) -> torch.Tensor:
    norm: torch.Tensor = vector.norm(dim=-1, keepdim=True)
    return (radius / norm.clamp(min=1e-12)).clamp(max=1.0)


def quantised_layers(module: nn.Module) -> list[tuple[str, str | None]]:
    """Return the names of the weights to quantise, each with the bias that shares its scale."""
    names: list[tuple[str, str | None]] = []
    for name, layer in module.named_modules():
        if isinstance(layer, nn.Conv2d):
            names.append((f"{name}.weight", None))
        elif isinstance(layer, nn.Linear):
            names.append((f"{name}.weight", f"{name}.bias"))
    return names


def quantise(
    weights: torch.Tensor,
    bits: int,
    layout: Layout,
    layers: list[tuple[str, str | None]],
    key: torch.Tensor,
) -> None:
    """Round convolution and linear weights stochastically to ``2**bits`` levels, in place.

    With ``a = max|w|`` of a tensor and u uniform on [-1/2, 1/2): ``x = w / (2 a) + 1/2 +
    u / (2**bits - 1)`` is rounded to the nearest level and mapped back (after DoReFa-Net, as the
    public code of Kopparapu et al. 2020; the paper has no formula). A linear layer's bias uses the
    scale of its weights. Other parameters and all buffers stay as they are.

    Args:
        weights: float32 [size], in the layout's order.
        bits: bits a weight, >= 1.
        layout: places of the tensors.
        layers: as of :func:`quantised_layers`.
        key: stream of the rounding, int64 [].
    """
    levels = 2**bits - 1
    position = {name: i for i, name in enumerate(layout.names)}
    uniform = device_streams.uniform(key, layout.size)
    for weight, bias in layers:
        scale = layout.view(weights, position[weight]).abs().max().clamp(min=1e-30)
        for name in (weight, bias):
            if name is None or name not in position:
                continue
            tensor = layout.view(weights, position[name])
            u = layout.view(uniform, position[name]) - 0.5
            x = tensor / (2 * scale) + 0.5 + u / levels
            tensor.copy_(2 * scale * (torch.round(x * levels) / levels - 0.5))
