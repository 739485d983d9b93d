"""Whether ``torch.compile`` works here: what it needs on a GPU, and what of that is missing."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sysconfig
from pathlib import Path

from fedrepro.base.errors import FedreproError
from fedrepro.fl.engine import CHOICES


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
    """Refuse a choice of ``--compile`` that cannot be followed.

    Args:
        choice: one of :data:`CHOICES`.
        device: the kind of device, ``cpu`` or ``cuda``.

    Raises:
        FedreproError: it is unknown, or ``on`` where nothing can be compiled; says what to do.
    """
    if choice not in CHOICES:
        raise FedreproError(f"--compile {choice}: there are {', '.join(CHOICES)}")
    if choice != "on":
        return
    if device != "cuda":
        raise FedreproError(
            f"--compile on: networks are compiled for GPUs only, and the device is {device}; leave "
            "the option out, or give --device cuda"
        )
    problem = compiler_problem()
    if problem is not None:
        raise FedreproError(f"--compile on: {problem}; --compile off does without")
