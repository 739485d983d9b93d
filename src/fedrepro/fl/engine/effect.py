"""Whether a run trains at all, or its first training changes nothing."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from fedrepro.base.errors import FedreproError
from fedrepro.fl.requests import Train, Trained

_ROUNDING = 1e-6
"""Change of a weight, relative to it, that is too small to train in float32."""


class Effect:
    """Looks at the lanes of a run until one of them is seen to train.

    On a GPU that is one comparison, and the transfer of its result, for a whole run.

    Args:
        parameters: how many of a model's weights are trained; its buffers come after them.
        shown: whether it is known already that the run trains.
    """

    def __init__(self, parameters: int, *, shown: bool) -> None:
        self._parameters = parameters
        self._shown = shown
        self._asked = False

    def watch(self, request: Train, answer: Sequence[Trained]) -> None:
        """Compare the lanes of a request with what they started from, if it has any."""
        if self._shown or not request.lanes:
            return
        self._asked = True
        self._shown = any(
            not torch.allclose(
                result.weights[: self._parameters],
                lane.weights[: self._parameters].to(result.weights.device),
                rtol=_ROUNDING,
                atol=0.0,
            )
            for lane, result in zip(request.lanes, answer, strict=True)
        )

    def require(self, round: int) -> None:
        """Refuse, at the end of a round (from 1), a run whose lanes were all left as they were.

        Raises:
            FedreproError: they were.
        """
        if self._asked and not self._shown:
            raise FedreproError(
                f"round {round}: training changed no weight of any model: the step size "
                "(optimizer.lr) is too small for float32, or no client that takes part holds as "
                "much as a batch (batch, with last_batch: drop)"
            )
