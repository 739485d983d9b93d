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
        mflop: arithmetic of one training sample pass (forward and backward) at width 1, in 10^6
            FLOP: about 6 for each multiply-add of a forward pass.
        pixels: height times width of the images that ``mflop`` is for, if the arithmetic grows in
            proportion to them; None if it does not.
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
        """Return the arithmetic of one training sample pass, forward and backward, in FLOP.

        It scales with the square of the width, since a narrower network has fewer inputs and
        outputs of every layer. That underestimates the first layer and the last.

        Args:
            shape: of one example.
            width: share of the hidden units and channels kept, in (0, 1].
        """
        scale = 1.0 if self.pixels is None else shape[1] * shape[2] / self.pixels
        return self.mflop * 1e6 * width**2 * scale
