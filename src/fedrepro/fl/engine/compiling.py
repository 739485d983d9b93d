"""``torch.compile``: whether it works here, and the loss that it makes for all lanes of a shape."""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import sysconfig
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from fedrepro.base.errors import FedreproError
from fedrepro.fl.engine import COMPILE_CHOICES, lane
from fedrepro.fl.engine.device import has_failed
from fedrepro.fl.engine.jobs import is_out_of_memory
from fedrepro.fl.spec import RunSpec

_SHAPES = 64
"""Combinations of network, batch size and objective that one process compiles at most."""


def compiler_problem() -> str | None:
    """Return what is missing to compile networks on a GPU, and how to get it; None if nothing is.

    ``torch.compile`` writes its kernels in Triton, and Triton compiles a launcher for each in C:
    with the compiler that CC names or else gcc or clang, and with Python's header files.
    """
    if importlib.util.find_spec("triton") is None:
        return "the package triton is missing; `pip install triton`, or PyTorch with CUDA, has it"
    named = os.environ.get("CC")
    if named is not None and shutil.which(named) is None:
        return f"CC={named} names a C compiler that is not there; unset CC, or name gcc or clang"
    if named is None and shutil.which("gcc") is None and shutil.which("clang") is None:
        return "there is no C compiler; install gcc or clang, or name one in CC"
    header = Path(sysconfig.get_paths()["include"], "Python.h")
    if not header.is_file():
        return f"{header} is missing; install Python's header files (python3-dev, python3-devel)"
    return None


def check_choice(choice: str, device: str) -> None:
    """Refuse a choice of ``compile`` that cannot be followed.

    Args:
        choice: one of :data:`COMPILE_CHOICES`.
        device: the kind of device, ``cpu`` or ``cuda``.

    Raises:
        FedreproError: it is unknown, or ``on`` where nothing can be compiled; says what to do.
    """
    if choice not in COMPILE_CHOICES:
        raise FedreproError(f"compile {choice}: there are {', '.join(COMPILE_CHOICES)}")
    if choice != "on":
        return
    if device != "cuda":
        raise FedreproError(
            f"compile on: networks are compiled for GPUs only, and the device is {device}; leave "
            "compile out, or take the device cuda"
        )
    problem = compiler_problem()
    if problem is not None:
        raise FedreproError(f"compile on: {problem}; compile off does without")


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


class CompiledLosses:
    """:func:`fedrepro.fl.engine.lane.losses`, compiled when it is first called.

    Args:
        spec: a run that it is for, to be named in errors.
        required: whether a call raises a FedreproError if compiling fails; if not, it warns and
            runs plain code.

    Attributes:
        failed: whether compiling failed, so that it runs plain code.
    """

    def __init__(self, spec: RunSpec, *, required: bool) -> None:
        self._model, self._required = spec.model.name, required
        self._tried = self.failed = False

    def __call__(self, *arguments: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Return what a step minimises, and its cross entropy.

        Raises:
            FedreproError: compiling is required, and fails.
        """
        if not self._tried:
            self._settle(arguments)
        found: tuple[torch.Tensor, torch.Tensor]
        found = lane.losses(*arguments) if self.failed else _compiled()(*arguments)
        return found

    def _settle(self, arguments: Sequence[Any]) -> None:
        try:
            _try(arguments)
        except Exception as error:
            if is_out_of_memory(error) or has_failed(arguments[-1].device, error):
                raise
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            problem = f"spec field model = {self._model} cannot be compiled ({reason})"
            if self._required:
                raise FedreproError(f"compile on: {problem}; leave it out") from error
            warnings.warn(f"{problem}; it is trained without", stacklevel=2)
            self.failed = True
        self._tried = True


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
