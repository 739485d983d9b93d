"""Federated algorithms: one file each, written as its paper reads.

An algorithm file holds frozen ``Params`` (part of a run's identity), a ``State`` whose fields are
tensors, numbers, strings and lists or dicts of these (so that it can be checkpointed), and five
functions:

- ``init(fed)`` returns the state before the first round;
- ``rounds(spec)`` returns how many rounds a run takes in all;
- ``round(fed, state, t)`` is a generator that asks for work (:mod:`fedrepro.fl.requests`), updates
  the state, and returns what to log of the round;
- ``evaluate(fed, state)`` is a generator that returns the metrics of the state;
- ``summary(fed, state)`` returns what to keep in the record besides metrics.

``fed`` is the :class:`fedrepro.fl.federation.Federation` the run trains on.

Weights and moments are float32 and stay on the device that trains; an algorithm computes with them
where they are, makes new tensors from them (``new_zeros``) rather than on the CPU, never changes a
tensor that its state holds, and reads numbers off them together (:mod:`.scalars`). Tensors of other
types, such as counts of pairs of clients, are on the CPU.
"""

from __future__ import annotations

from typing import Any

from fedrepro.fl.algorithms.algorithm import Algorithm, AlgorithmParams, Cost, SamplingParams
from fedrepro.fl.components import Registry

__all__ = ["ALGORITHMS", "Algorithm", "AlgorithmParams", "Cost", "SamplingParams"]


def _algorithm_name(value: Any) -> str | None:
    return value.name if isinstance(value, Algorithm) else None


ALGORITHMS: Registry[Algorithm] = Registry(
    "algorithm", __name__, "fedrepro.algorithms", _algorithm_name
)
