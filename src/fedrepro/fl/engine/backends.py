"""The backends by name, and the choice between them."""

from __future__ import annotations

import torch

from fedrepro.base.configfile import nearest
from fedrepro.base.errors import FedreproError
from fedrepro.fl.engine import BACKENDS, CompileChoice
from fedrepro.fl.engine.compiling import check_choice
from fedrepro.fl.engine.graphs import GraphsBackend
from fedrepro.fl.engine.jobs import Backend
from fedrepro.fl.engine.loop import LoopBackend
from fedrepro.fl.engine.pool import PoolBackend


def backend(
    name: str,
    device: str = "cpu",
    workers: int | None = None,
    *,
    compile: CompileChoice = "auto",
    deterministic: bool = False,
) -> Backend:
    """Make a backend.

    Args:
        name: one of :data:`BACKENDS`.
        device: a PyTorch device name.
        workers: processes of the pool; None: one for each core that this process may use.
        compile: whether ``graphs`` compiles networks; ``auto``: where it is possible and pays.
        deterministic: let ``graphs`` on a GPU use only what gives the same bits each time.

    Raises:
        FedreproError: there is no such backend or device, the backend cannot use it or does not do
            what is asked of it, or ``compile`` is ``on`` where nothing can be compiled.
    """
    if name not in BACKENDS:
        raise FedreproError(f"backend {name}: no such backend {nearest(name, BACKENDS)}")
    place = _device(device)
    stack = name == "auto"
    if name == "auto":
        name = "graphs" if place.type == "cuda" else "pool"
    check_choice(compile, place.type)
    if compile == "on" and deterministic:
        raise FedreproError(
            "compile on: the compiler chooses kernels by timing them; leave deterministic out"
        )
    if compile == "on" and name != "graphs":
        raise FedreproError(f"compile on: backend {name} does not compile; take auto or graphs")
    if deterministic and name == "loop" and place.type == "cuda":
        raise FedreproError(
            f"deterministic: backend {name} does not choose its kernels; take auto or graphs"
        )
    if name == "graphs":
        return GraphsBackend(device, compile=compile, deterministic=deterministic)
    if name == "loop":
        return LoopBackend(device)
    if place.type != "cpu":
        raise FedreproError("backend pool uses CPU cores; with a GPU take auto or graphs")
    return PoolBackend(workers, stack=stack)


def _device(name: str) -> torch.device:
    try:
        place = torch.device(name)
    except RuntimeError as error:
        raise FedreproError(f"device {name}: not a PyTorch device; cpu and cuda are") from error
    if place.type not in ("cpu", "cuda"):
        raise FedreproError(f"device {name}: only cpu and cuda are supported")
    if place.type == "cpu":
        return place
    if not torch.cuda.is_available():
        raise FedreproError(f"device {name}: PyTorch sees no GPU here; leave it out to use the CPU")
    if place.index is not None and place.index >= torch.cuda.device_count():
        raise FedreproError(
            f"device {name}: PyTorch sees {torch.cuda.device_count()} GPUs here, counted from 0"
        )
    _use(place)
    return place


def _use(place: torch.device) -> None:
    """Make a GPU the one that is used, and see whether it can be.

    Raises:
        FedreproError: its memory is full, it is another process's alone, or too old for PyTorch.
    """
    try:
        if place.index is not None:
            torch.cuda.set_device(place)  # CUDA graphs are captured on the current device
        torch.ones((), device=place).item()
    except RuntimeError as error:
        raise FedreproError(
            f"device {place}: cannot be used ({str(error).splitlines()[0]}); nvidia-smi lists what "
            "else is on it, and docs/training.md says which cards and drivers PyTorch needs"
        ) from error
