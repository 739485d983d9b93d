"""Numbers that an algorithm computes from weights, copied from their device together.

A GPU works asynchronously, and reading one number waits for all work before it. So a round computes
all its numbers first and reads them at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def floats(numbers: Iterable[torch.Tensor]) -> list[float]:
    """Return tensors of shape [] as floats, and wait for their device only once."""
    import torch  # slow to import, and the Snakefile reads this module

    exact = [number.double() for number in numbers]
    values: list[float] = torch.stack(exact).tolist() if exact else []
    return values
