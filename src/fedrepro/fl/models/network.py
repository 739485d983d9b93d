"""What a network is: how it is built, and what a sample pass costs.

A network is one file of this package, or of another distribution, which names it as an entry point
of ``fedrepro.networks``. It imports PyTorch where it is built, not where it is imported: the
Snakefile asks for names and costs.
"""

from __future__ import annotations

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
        mflop: arithmetic of one training sample pass (forward and backward) at width 1.
        pixels: height times width of the images that ``mflop`` is of, where the arithmetic grows
            with them; None: it does not.
        version: raised when the network's numbers change.
        module: dotted name of the file that defines it.
    """

    name: str
    build: Callable[[Shape, int, float], nn.Sequential]
    mflop: float
    pixels: int | None = None
    version: int = 1
    module: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        """Take the module from the function that builds."""
        if not self.module:
            object.__setattr__(self, "module", self.build.__module__)

    def flop(self, shape: Shape, width: float) -> float:
        """Return the arithmetic of one sample pass, forward and backward, in FLOP.

        A narrower network has fewer inputs and outputs of every layer, so it goes by the square of
        the width; that makes too little of the first layer and the last.
        """
        scale = 1.0 if self.pixels is None else shape[1] * shape[2] / self.pixels
        return self.mflop * 1e6 * width**2 * scale
