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

from typing import TYPE_CHECKING, Annotated, Any, Protocol

from pydantic import Field

from fedrepro.fl.algorithms import (
    cadis,
    divergence_bound,
    fedavg,
    fedcd,
    feddyn,
    fedfa,
    fedopt,
    fedprox,
    local,
    probe,
    selective,
    sgd,
)

if TYPE_CHECKING:
    from fedrepro.fl.federation import Federation
    from fedrepro.fl.requests import Steps
    from fedrepro.fl.spec import RunSpec

AlgorithmParams = Annotated[
    fedavg.Params
    | sgd.Params
    | local.Params
    | selective.Params
    | divergence_bound.Params
    | fedcd.Params
    | fedopt.Params
    | fedprox.Params
    | feddyn.Params
    | fedfa.Params
    | cadis.Params
    | probe.Params,
    Field(discriminator="name"),
]


class Algorithm(Protocol):
    """What an algorithm file provides; see the package docstring."""

    def init(self, fed: Federation) -> Any: ...  # noqa: D102

    def rounds(self, spec: RunSpec) -> int: ...  # noqa: D102

    def round(self, fed: Federation, state: Any, t: int) -> Steps: ...  # noqa: D102

    def evaluate(self, fed: Federation, state: Any) -> Steps: ...  # noqa: D102

    def summary(self, fed: Federation, state: Any) -> dict[str, Any]: ...  # noqa: D102


ALGORITHMS: dict[str, Algorithm] = {
    "fedavg": fedavg,
    "fedopt": fedopt,
    "sgd": sgd,
    "local": local,
    "selective": selective,
    "divergence_bound": divergence_bound,
    "fedcd": fedcd,
    "fedprox": fedprox,
    "feddyn": feddyn,
    "fedfa": fedfa,
    "cadis": cadis,
    "probe": probe,
}
