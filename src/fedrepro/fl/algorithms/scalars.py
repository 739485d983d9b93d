"""Numbers that an algorithm computes from weights, brought over from their device together.

Weights may be on a GPU, which works through what it is asked for while the program goes on. Reading
one number waits for all of that, so a round computes all its numbers first and reads them at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def floats(numbers: Iterable[torch.Tensor]) -> list[float]:
    """Return tensors of no dimension as floats, and wait for their device only once."""
    import torch  # slow to import, and the Snakefile reads this module

    exact = [number.double() for number in numbers]
    values: list[float] = torch.stack(exact).tolist() if exact else []
    return values
