"""The device that a process trains on: its name, how it computes, and its failure."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils import deterministic

from fedrepro.base.errors import DeviceFailed, FedreproError
from fedrepro.fl.spec import RunSpec

_TF32_SINCE = (8, 0)
"""Compute capability of the first GPUs with TF32."""
_NEVER_FREED: list[object] = []


def described(device: torch.device) -> str:
    """Return a device's name for messages, such as ``cuda:0 (NVIDIA H100 80GB HBM3)``."""
    if device.type != "cuda":
        return str(device)
    index = torch.cuda.current_device() if device.index is None else device.index
    return f"cuda:{index} ({torch.cuda.get_device_name(index)})"


def check_precision(spec: RunSpec, device: torch.device) -> None:
    """Refuse a precision that the device does not have.

    Raises:
        FedreproError: TF32 without a GPU, or with one that lacks it and would compute in float32.
    """
    if spec.precision != "tf32":
        return
    if device.type != "cuda":
        raise FedreproError(
            f"precision: tf32 exists on NVIDIA GPUs only, and the device is {device.type}; train "
            "this run on the device cuda, or change the spec to precision: float32"
        )
    if torch.cuda.get_device_capability(device) < _TF32_SINCE:
        raise FedreproError(
            f"precision: tf32 exists on NVIDIA GPUs from 2020 on, and {device} is older "
            f"({torch.cuda.get_device_name(device)}); change the spec to precision: float32"
        )


@contextlib.contextmanager
def precision(spec: RunSpec) -> Iterator[None]:
    """Return a context in which CUDA uses TF32 if the spec says so, and otherwise does not."""
    allowed = spec.precision == "tf32"
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32
    matmul.allow_tf32 = cudnn.allow_tf32 = allowed
    try:
        yield
    finally:
        matmul.allow_tf32, cudnn.allow_tf32 = before


@contextlib.contextmanager
def subnormals_flushed() -> Iterator[None]:
    """Return a context in which this thread of the CPU takes subnormal numbers for zero.

    The gradients of a client that fits its examples are full of them, below 1.2e-38. They move no
    weight that is not as small, and a CPU takes many times as long for each as for another number.
    """
    before = not torch.full((), 1e-39, dtype=torch.float32).item()
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


@contextlib.contextmanager
def deterministic_operations() -> Iterator[None]:
    """Return a context in which every operation of PyTorch gives the same bits each time.

    One that cannot raises a RuntimeError with its name. This is
    ``torch.use_deterministic_algorithms`` without its import of the compiler, and without filling
    new memory, which takes a kernel for each tensor.
    """
    memory: Any = deterministic  # whose attribute is not annotated
    before = torch.get_deterministic_debug_mode(), memory.fill_uninitialized_memory
    torch.set_deterministic_debug_mode("error")
    memory.fill_uninitialized_memory = False
    try:
        yield
    finally:
        torch.set_deterministic_debug_mode(before[0])
        memory.fill_uninitialized_memory = before[1]


def has_failed(device: torch.device, error: BaseException) -> bool:
    """Return whether an error means that this process can no longer use the device.

    PyTorch raises :class:`torch.AcceleratorError` for it ("CUDA error: ..."), or a plain
    RuntimeError where cuDNN or cuBLAS meets it first. Neither says whether the error is lasting; if
    it is, every later call fails, so one is made.
    """
    if device.type != "cuda" or not isinstance(error, RuntimeError):
        return False
    try:
        torch.cuda.synchronize(device)
    except RuntimeError:
        return True
    return False


def never_free(*what: object) -> None:
    """Keep to the end what may not be freed.

    Where memory of a lost device is freed, PyTorch ends the process; and it goes on to ask a graph
    whose capture could not be ended.
    """
    _NEVER_FREED.extend(what)


def failure(device: str, error: BaseException, saved: int, runs: int) -> DeviceFailed:
    """Return the error that ends the training on a failed device.

    Args:
        device: as of :func:`described`; a failed device may not tell its name.
        error: what PyTorch raised.
        saved: how many of the runs in flight have a checkpoint.
        runs: runs in flight.
    """
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return DeviceFailed(
        f"{device} failed in mid-training ({reason}); {saved} of {runs} runs in flight have a "
        "checkpoint: run the same command again to go on from there; if it fails again, "
        "nvidia-smi and dmesg say more about the device"
    )
