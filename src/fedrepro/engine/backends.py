"""The backends by name, and the choice between them."""

from __future__ import annotations

from collections.abc import Callable

from fedrepro.engine.compiling import check_choice
from fedrepro.engine.jobs import Backend
from fedrepro.engine.loop import LoopBackend
from fedrepro.engine.pool import PoolBackend
from fedrepro.engine.stacked import StackedBackend
from fedrepro.errors import FedreproError


def _auto(device: str, workers: int | None) -> Backend:
    """Stack on a GPU; on a CPU use every core, and stack small dense networks within each.

    benchmarks/README.md has the measurements behind the CPU rule. The GPU rule is reasoned: a step
    of one lane of these papers leaves a GPU mostly idle.
    """
    if device.startswith("cuda"):
        return StackedBackend(device)
    return PoolBackend(workers, stack=True)


BACKENDS: dict[str, Callable[[str, int | None], Backend]] = {
    "auto": _auto,
    "loop": lambda device, workers: LoopBackend(device),
    "pool": lambda device, workers: PoolBackend(workers),
    "stacked": lambda device, workers: StackedBackend(device),
}


def backend(
    name: str, device: str = "cpu", workers: int | None = None, *, compile: str = "auto"
) -> Backend:
    """Make a backend.

    Args:
        name: a key of :data:`BACKENDS`.
        device: a PyTorch device name.
        workers: processes of the pool; None: as many cores as there are.
        compile: whether networks are compiled on a GPU: ``auto``, ``on`` or ``off``.

    Raises:
        FedreproError: the device is not one, or not one that the backend can use, or there is no
            compiler where one is asked for.
    """
    import torch

    try:
        place = torch.device(device)
    except RuntimeError as error:
        raise FedreproError(f"--device {device}: not a PyTorch device; cpu and cuda are") from error
    kind = place.type
    if kind == "cuda" and not torch.cuda.is_available():
        raise FedreproError(
            f"--device {device}: PyTorch sees no GPU here; leave the option out to use the CPU"
        )
    if kind == "cuda" and place.index is not None:
        if place.index >= torch.cuda.device_count():
            raise FedreproError(
                f"--device {device}: PyTorch sees {torch.cuda.device_count()} GPUs here, counted "
                "from 0"
            )
        torch.cuda.set_device(place)  # CUDA graphs are captured on the current device
    if kind not in ("cpu", "cuda"):
        raise FedreproError(f"--device {device}: only cpu and cuda are supported")
    if name == "pool" and kind != "cpu":
        raise FedreproError("--backend pool uses CPU cores; with a GPU take auto or stacked")
    check_choice(compile, kind)
    return BACKENDS[name](device, workers)
