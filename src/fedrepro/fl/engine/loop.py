"""The reference backend: one lane after another in this process.

With one compute thread the same requests give the same bits, whatever else is in flight.
"""

from __future__ import annotations

import math
import time

import torch

from fedrepro.base.errors import FedreproError
from fedrepro.fl.engine import lane
from fedrepro.fl.engine.device import has_failed, precision, subnormals_flushed
from fedrepro.fl.engine.jobs import (
    Answer,
    Ask,
    LaneError,
    OutOfTime,
    is_out_of_memory,
    too_large,
    unexpected,
)
from fedrepro.fl.engine.resources import Resources
from fedrepro.fl.requests import Prediction, Train, Trained


class LoopBackend:
    """Trains and predicts lane after lane on one device."""

    name = "loop"
    compiles = deterministic = False

    def __init__(self, device: str = "cpu") -> None:
        self.device = torch.device(device)
        self.cores = int(self.device.type == "cpu")
        self._resources = Resources(self.device)
        self._open: list[tuple[int, Ask]] = []

    def load(self, ask: Ask) -> float:
        """Return 1: nothing is gained from more than one run at a time."""
        return 1.0

    def submit(self, ticket: int, ask: Ask) -> None:
        """Take a request."""
        self._resources.add_dataset(ask.dataset)
        self._open.append((ticket, ask))

    def collect(self, deadline: float = math.inf) -> list[Answer]:
        """Answer the oldest open request.

        Raises:
            OutOfTime: the deadline, in seconds of ``time.monotonic()``, came first.
        """
        if not self._open:
            return []
        ticket, ask = self._open.pop(0)
        started = time.perf_counter()
        with precision(ask.spec), subnormals_flushed():
            result = self._answer(ask, deadline)
        return [Answer(ticket, result, time.perf_counter() - started)]

    def give_way(self) -> bool:
        """Return False: one lane at a time is the least."""
        return False

    def close(self) -> None:
        """Do nothing: there is nothing to free."""

    def _answer(self, ask: Ask, deadline: float) -> list[Trained] | list[Prediction] | LaneError:
        try:
            return self._trained_or_asked(ask, deadline)
        except LaneError as error:
            return error
        except (FedreproError, OutOfTime):
            raise
        except Exception as error:
            if has_failed(self.device, error):
                raise  # no lane is to blame
            if is_out_of_memory(error):
                return too_large("a lane or model", error)
            return unexpected(error)

    def _trained_or_asked(self, ask: Ask, deadline: float) -> list[Trained] | list[Prediction]:
        resources, request, spec = self._resources, ask.request, ask.spec
        net, data = resources.network(spec), resources.data(spec)
        if not isinstance(request, Train):
            return [lane.predict(net, data, job) for job in ask.predict_jobs]
        teacher = resources.teacher(spec, request.objective)
        return [lane.train_lane(net, teacher, data, job, deadline) for job in ask.jobs]
