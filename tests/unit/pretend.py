"""A GPU that is none: tensors that say they are on ``cuda:0`` and compute on the CPU.

What a GPU would refuse is refused, and what makes the program wait for one is counted. So the tests
of where weights are, and of how often they are waited for, need no GPU.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.utils import _pytree as tree
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from fedrepro.fl.engine.host_copy import HostCopier, Transfer, mapped
from fedrepro.fl.engine.jobs import Answer, Ask
from fedrepro.fl.engine.loop import LoopBackend
from fedrepro.fl.requests import Request, Train, Trained

GPU = torch.device("cuda", 0)

aten = torch.ops.aten
READS = {aten._local_scalar_dense, aten.equal, aten.nonzero, aten.masked_select, aten.is_nonzero}
"""What makes the host wait for a number; as a mask does that is indexed with."""


class Pretended(torch.Tensor):
    """A tensor that says it is on the GPU; ``inner`` is what it computes with."""

    inner: torch.Tensor

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Pretended:
        assert not isinstance(inner, Pretended)
        wrapper: Pretended = torch.Tensor._make_wrapper_subclass(
            cls,
            inner.shape,
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=GPU,
        )
        wrapper.inner = inner
        return wrapper

    def tolist(self) -> Any:
        """Do what PyTorch does, which refuses subclasses."""
        return self.cpu().tolist()

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise AssertionError(f"{func} on a pretended tensor outside of PretendedGpu")


class PretendedGpu(TorchDispatchMode):
    """While it is entered, ``cuda:0`` is there.

    Attributes:
        transfers: elements of each tensor that was brought to the host.
        reads: numbers that the host waited for, one by one.
        patch: what is to be undone when the GPU is gone again, of :func:`pretended_gpu`.
    """

    patch: pytest.MonkeyPatch

    _mode_key = torch._C._TorchDispatchModeKey.FAKE  # PyTorch looks for no driver then

    def __init__(self) -> None:
        super().__init__()
        self.transfers: list[int] = []
        self.reads = 0
        if not torch.cuda.is_available():
            torch._C._ensureCUDADeviceGuardSet()  # for indexing, which else would need a driver

    @property
    def waits(self) -> int:
        """How often the host has waited for the device."""
        return len(self.transfers) + self.reads

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        tensors = [x for x in tree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        ours = [x for x in tensors if isinstance(x, Pretended)]
        target = kwargs.get("device")
        if target is not None and torch.device(target).type == "cuda":
            kwargs["device"] = torch.device("cpu")
        elif not ours:
            return func(*args, **kwargs)
        kind = func.overloadpacket
        inside = tree.tree_map_only(Pretended, lambda x: x.inner, (args, kwargs))
        result = func(*inside[0], **inside[1])
        if kind is aten._to_copy and target is not None and torch.device(target).type == "cpu":
            self.transfers.append(args[0].numel())
            return result
        if kind is aten.copy_ and not isinstance(args[0], Pretended):
            self.transfers.append(args[1].numel())
            return args[0]
        if kind not in (aten._to_copy, aten.copy_):
            mixed = [x for x in tensors if not isinstance(x, Pretended) and x.dim()]
            assert not mixed, f"{func} mixes tensors of the GPU and of the CPU"
        masks = kind is aten.index and any(x.dtype == torch.bool for x in ours)
        self.reads += masks or kind in READS
        changed = {id(x.inner): x for x in ours}
        return tree.tree_map_only(
            torch.Tensor, lambda x: changed[id(x)] if id(x) in changed else Pretended(x), result
        )


class PretendedBackend(LoopBackend):
    """The loop, for weights on the pretended GPU; it trains on the CPU.

    It refuses requests whose weights or moments are elsewhere.
    """

    def __init__(self) -> None:
        super().__init__()
        self.device = GPU

    def submit(self, ticket: int, ask: Ask) -> None:
        """Take a request."""
        super().submit(ticket, replace(ask, request=_inside(ask.request)))

    def collect(self, deadline: float = math.inf) -> list[Answer]:
        """Answer the oldest open request."""
        with _disable_current_modes():
            answers = super().collect(deadline)
            return [
                replace(answer, result=[_outside(one) for one in answer.result])
                if isinstance(answer.result, list)
                else answer
                for answer in answers
            ]


def _inside(request: Request) -> Request:
    def inner(tensor: torch.Tensor) -> torch.Tensor:
        assert isinstance(tensor, Pretended), "weights have left the GPU"
        return tensor.inner

    if not isinstance(request, Train):
        return replace(request, models=[inner(model) for model in request.models])
    lanes = [
        replace(
            lane,
            weights=inner(lane.weights),
            optimizer_state=mapped(lane.optimizer_state, inner),
            linear=mapped(lane.linear, inner),
        )
        for lane in request.lanes
    ]
    return replace(request, lanes=lanes)


def _outside(result: Any) -> Any:
    if not isinstance(result, Trained):
        return result
    return replace(
        result,
        weights=Pretended(result.weights),
        optimizer_state=mapped(result.optimizer_state, Pretended),
    )


def fetched(
    self: HostCopier, tensors: Sequence[torch.Tensor]
) -> tuple[list[torch.Tensor], Transfer]:
    """Stand in for :meth:`HostCopier._fetch`: copy at once, and count no transfer."""
    assert all(isinstance(one, Pretended) for one in tensors)
    with _disable_current_modes():
        hosts = [one.inner.clone() for one in tensors if isinstance(one, Pretended)]
        return hosts, Transfer(lambda: None, torch.ones(()))


@contextlib.contextmanager
def pretended_gpu() -> Iterator[PretendedGpu]:
    """Let there be ``cuda:0`` for a while."""
    with pytest.MonkeyPatch.context() as patch, PretendedGpu() as gpu:
        patch.setattr(HostCopier, "_fetch", fetched)
        patch.setattr(torch.cuda, "get_device_name", lambda _: "Pretended")
        patch.setattr(torch.cuda, "synchronize", lambda _: None)
        gpu.patch = patch
        yield gpu
