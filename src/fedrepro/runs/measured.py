"""How far a run moves when it is trained again otherwise, as measured for every network."""

from __future__ import annotations

from pathlib import Path

from pydantic import TypeAdapter

from fedrepro.base.configfile import read_json
from fedrepro.base.strict import Strict

MEASURED = "benchmarks/reproducibility.json"
"""The measurements, in the repository; ``benchmarks/reproducibility.py`` writes them."""


class Change(Strict):
    """What one change of the machine or its libraries does to a network.

    Attributes:
        equal: whether all weights are equal to those of the usual training.
        weights: by round shown, how far the weights are apart, over their norm.
        points: by round shown, how far the test accuracies are apart, in points.
        most_points: the most of all rounds.
    """

    equal: bool
    weights: list[float]
    points: list[float]
    most_points: float


class Network(Strict):
    """A network's measurements.

    Attributes:
        accuracy: of the usual training at its end, a fraction.
        changes: by name.
        avx2_time: CPU time where held to AVX2, over the usual one; None: not measured.
    """

    accuracy: float
    changes: dict[str, Change]
    avx2_time: float | None = None


class Measured(Strict):
    """All measurements.

    Attributes:
        on: ``processor``, ``libraries``, and ``other``, the other PyTorch, if there was one.
        rounds: those shown.
        networks: by name.
    """

    on: dict[str, str]
    rounds: list[int]
    networks: dict[str, Network]


def read(root: Path) -> Measured:
    """Return what was measured last.

    Args:
        root: of the repository.

    Raises:
        FedreproError: the file is missing or damaged.
    """
    cure = "restore it with git, or measure again with benchmarks/reproducibility.py"
    return read_json(root / MEASURED, TypeAdapter(Measured), cure)
