"""How much memory a lane takes, estimated before it is trained, and how much there is."""

from __future__ import annotations

import copy
from pathlib import Path

import torch
from torch import nn

from fedrepro.fl.engine import objective as objectives
from fedrepro.fl.layout import Layout
from fedrepro.fl.requests import Objective
from fedrepro.fl.spec import Adam, RunSpec

_FREE_SHARE = {"cpu": 0.5, "cuda": 0.8}
_UNKNOWN = 4 << 30
_KEPT_ACTIVATIONS = 3  # the output, its gradient, and what a kernel needs besides


def activation_bytes(module: nn.Module, shape: tuple[int, int, int]) -> list[int]:
    """Return the bytes of each layer's output for one example, by a dry run on the CPU."""
    found: list[int] = []

    def count(_: nn.Module, __: object, output: object) -> None:
        if isinstance(output, torch.Tensor):
            found.append(output.numel() * output.element_size())

    dry = copy.deepcopy(module).eval()
    for layer in dry.modules():
        if not list(layer.children()):
            layer.register_forward_hook(count)
    with torch.no_grad():
        dry(torch.zeros(1, *shape))
    return found


def lane_bytes(
    module: nn.Module,
    shape: tuple[int, int, int],
    spec: RunSpec,
    objective: Objective,
    batch: int,
) -> int:
    """Return an estimate of the bytes that one lane takes.

    Args:
        module: its network, on the CPU.
        shape: channels, height and width of one input.
        spec: its run, which says which moments the optimiser keeps.
        objective: what it minimises, which says which further vectors it keeps.
        batch: examples a step.
    """
    vectors = 5  # weights, gradient, its copy, the update, one to spare
    vectors += 3 if isinstance(spec.optimizer, Adam) else int(spec.optimizer.momentum > 0)
    vectors += (
        bool(objective.proximal) + bool(objective.projection) + bool(objective.gradient_noise)
    )
    vectors += objectives.needs_teacher(objective)
    passes = 2 if objectives.needs_teacher(objective) else 1
    activations = sum(activation_bytes(module, shape)) * batch * _KEPT_ACTIVATIONS * passes
    return vectors * 4 * Layout.of(module).size + activations


def prediction_bytes(module: nn.Module, shape: tuple[int, int, int], batch: int) -> int:
    """Return an estimate of the bytes of a prediction, which keeps few layers' outputs at once."""
    activations = max(activation_bytes(module, shape)) * batch * _KEPT_ACTIVATIONS
    return 2 * 4 * Layout.of(module).size + activations  # weights, and one to spare


def available(device: torch.device) -> int:
    """Return the bytes that training may take: half of a CPU's free memory, four fifths of a GPU's.

    Memory is what is free now; 4 GiB if that is unknown.
    """
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return int(free * _FREE_SHARE["cuda"])
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return _UNKNOWN
    fields = dict(line.split(":", 1) for line in lines)
    return int(int(fields["MemAvailable"].split()[0]) * 1024 * _FREE_SHARE["cpu"])
