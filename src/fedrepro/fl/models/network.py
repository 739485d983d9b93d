"""What a network is: how it is built, and what a sample pass costs.

A network is one file of this package, or of another distribution, which names it as an entry point
of ``fedrepro.networks``. It imports PyTorch where it is built, not where it is imported: the
Snakefile asks for names and costs.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from torch import nn

Shape: TypeAlias = tuple[int, int, int]
"""Channels, height, width of one example."""


@dataclass(frozen=True)
class Network:
    """A network architecture.

    Attributes:
        name: what specs call it.
        build: from the shape of an example, the number of classes and the width to a network; see
            :mod:`fedrepro.fl.models` for what it has to be.
        mflop: arithmetic of one training sample pass (forward and backward) at width 1, in 10^6
            FLOP: about 6 for each multiply-add of a forward pass. Only estimates of time use it.
            None: it is counted where it is first needed, which imports PyTorch.
        pixels: height times width of the images that ``mflop`` is for, if the arithmetic grows in
            proportion to them; None if it does not.
        version: raised when the network's numbers change.
        module: dotted name of the file that defines it.
    """

    name: str
    build: Callable[[Shape, int, float], nn.Sequential]
    mflop: float | None = None
    pixels: int | None = None
    version: int = 1
    module: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        """Take the module from the function that builds."""
        if not self.module:
            object.__setattr__(self, "module", self.build.__module__)

    def flop(self, shape: Shape, classes: int, width: float) -> float:
        """Return the arithmetic of one training sample pass, forward and backward, in FLOP.

        If ``mflop`` is given, it scales with the square of the width, since a narrower network has
        fewer inputs and outputs of every layer. That underestimates the first layer and the last.

        Args:
            shape: of one example.
            classes: number of logits; without effect if ``mflop`` is given.
            width: share of the hidden units and channels kept, in (0, 1].
        """
        if self.mflop is None:
            return _counted(self, shape, classes, width)
        scale = 1.0 if self.pixels is None else shape[1] * shape[2] / self.pixels
        return self.mflop * 1e6 * width**2 * scale


@functools.lru_cache(maxsize=64)
def _counted(network: Network, shape: Shape, classes: int, width: float) -> float:
    """Count the arithmetic: three times that of a forward pass.

    It is 0 for a network that cannot be built or run: its runs fail, and say why.
    """
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    with torch.random.fork_rng(devices=[]), torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of tensors without elements
        try:
            net = network.build(shape, classes, width).eval()
            with FlopCounterMode(display=False) as counter:
                net(torch.zeros(2, *shape))
        except Exception:
            return 0.0
    flop: int = counter.get_total_flops()
    return 3.0 * flop / 2
