"""Trains recorded runs again and compares them with their records: ``fedrepro verify``."""

from __future__ import annotations

import dataclasses
import random
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from fedrepro.base.errors import FedreproError
from fedrepro.base.paths import find_root
from fedrepro.fl.engine import BackendName
from fedrepro.runs import measured, records
from fedrepro.runs.options import TrainOptions
from fedrepro.runs.plan import PlannedRun
from fedrepro.runs.records import Origin, RunRecord
from fedrepro.runs.status import describe, duration

TOLERANCE = 0.05
"""How far an accuracy (fraction) of the last evaluation may be off where other code computed, at
least: recorded runs are longer than those that are measured, and one of them (`selective`,
``liu1``) was off by 0.026. Where the same code computed, every number is equal."""


@dataclass(frozen=True)
class Comparison:
    """A record and the run trained again.

    Attributes:
        same_machine: whether processor, PyTorch, the code it takes, backend and threads are those
            of all rounds of the record: then every number must be equal.
        tolerance: else, how far accuracies of the last evaluation may be off, a fraction.
        differences: metric -> by how much it differs at most; infinite if it is no like number.
        beyond: what differs by more than it may.
    """

    run: PlannedRun
    same_machine: bool
    tolerance: float
    differences: dict[str, float]
    beyond: list[str]

    def text(self) -> str:
        """Return one line for a person: what was found, and what was asked for."""
        found = "differs" if self.beyond else "equal"
        if self.differences and not self.beyond:
            found = "within the tolerance"
        by = ", ".join(f"{name} by {much:.3g}" for name, much in sorted(self.differences.items()))
        asked = "every digit compared"
        if not self.same_machine:
            asked = (
                "other processor or PyTorch than the record's: last accuracies compared, to "
                f"{100 * self.tolerance:.3g} points"
            )
        return f"{self.run.id}  {describe(self.run)}: {found} ({asked}){': ' * bool(by)}{by}"


def sample(
    runs: Sequence[PlannedRun], number: int, seed: int, max_hours: float | None = None
) -> list[PlannedRun]:
    """Draw recorded runs, cheapest first by the time that their records tell.

    Runs trained on a GPU are left out, and of those drawn the ones that no longer fit the time.

    Args:
        runs: distinct runs.
        number: how many at most.
        seed: of the draw.
        max_hours: of training, on the machines of the records; None: no limit.

    Raises:
        FedreproError: no run is left.
    """
    costs = {run.id: cost for run in runs if (cost := records.training_time(run.id, run.records))}
    trained = [run for run in runs if run.id in costs and not costs[run.id].gpu]
    drawn = random.Random(seed).sample(trained, min(number, len(trained)))
    chosen, seconds = [], 0.0
    for run in sorted(drawn, key=lambda run: costs[run.id].seconds):
        seconds += costs[run.id].seconds
        if max_hours is None or seconds <= 3600 * max_hours:
            chosen.append(run)
    if not chosen:
        fits = f" that fits {max_hours:g} h" if drawn and max_hours is not None else ""
        raise FedreproError(f"there is no run to verify: none recorded on a CPU{fits}")
    return chosen


def plan_text(runs: Sequence[PlannedRun]) -> str:
    """Return how many runs are trained again and how long their records took."""
    costs = [records.training_time(run.id, run.records) for run in runs]
    seconds = sum(cost.seconds for cost in costs if cost is not None)
    return f"runs to train again: {len(runs)}, {duration(seconds)} by their records"


def verify(
    runs: Sequence[PlannedRun], data_root: Path | None = None, tolerance: float | None = None
) -> Iterator[Comparison]:
    """Train recorded runs again, in a temporary folder, and compare them one by one.

    Args:
        runs: recorded runs.
        data_root: folder of packed data; None takes the usual sources.
        tolerance: where other code computed; None: that of each run's network.

    Yields:
        The comparison of each run, once it is trained.

    Raises:
        FedreproError: a run cannot be trained here.
    """
    from fedrepro.runs import session

    for run in runs:
        committed = records.read(run.id, run.records)
        with tempfile.TemporaryDirectory() as folder:
            again = dataclasses.replace(run, folder=Path(folder))
            options = TrainOptions(
                backend=cast(BackendName, committed.provenance.backend),  # or refused
                workers=1,
                data_root=data_root,
                checkpoints=Path(folder) / "checkpoints",
            )
            session.train([again], options)
            yield compare(run, committed, records.read(run.id, again.records), tolerance)


def tolerance_of(network: str) -> float:
    """Return how far an accuracy may be off where other code computed: the most that was measured.

    Args:
        network: name of the run's network.

    Returns:
        A fraction, at least :data:`TOLERANCE`.

    Raises:
        FedreproError: the file of the measurements is damaged.
    """
    here = find_root()
    if here is None or not (here / measured.MEASURED).exists():
        return TOLERANCE
    found = measured.read(here).networks.get(network)
    if found is None:
        return TOLERANCE
    return max([TOLERANCE, *(change.most_points / 100 for change in found.changes.values())])


def compare(
    run: PlannedRun, committed: RunRecord, again: RunRecord, tolerance: float | None = None
) -> Comparison:
    """Compare two records of a run.

    Partition and data set must be equal. So must every metric, if the same code computed; if not,
    the accuracies of the last evaluation may be off by the tolerance.

    Args:
        run: the run.
        committed: its record.
        again: that of the run trained again.
        tolerance: a fraction; None: :func:`tolerance_of` its network.
    """
    here, there = again.provenance, committed.provenance
    if tolerance is None:
        tolerance = tolerance_of(run.spec.model.name)
    parts = (there, *there.earlier, *there.imported)
    same = all(_computes_alike(part, here) for part in parts)
    found = _differences(committed.metrics, again.metrics)
    final = _differences(committed.final, again.final)
    found |= {f"final {name}": much for name, much in final.items()}
    beyond = [
        name
        for name, much in found.items()
        if same or (name.startswith("final accuracy") and much > tolerance)
    ]
    inputs = {
        "partition": committed.partition == again.partition,
        "data set": here.dataset_sha256 == there.dataset_sha256,
        "names of metrics": committed.metrics.keys() == again.metrics.keys(),
        "names of the last evaluation": committed.final.keys() == again.final.keys(),
    }
    for name in (name for name, equal in inputs.items() if not equal):
        found[name] = float("inf")
        beyond.append(name)
    return Comparison(run, same, tolerance, found, beyond)


def _computes_alike(one: Origin, other: Origin) -> bool:
    """Return whether the same code computed.

    Records before there was ``arithmetic`` were made where no variable, such as
    ``ATEN_CPU_CAPABILITY=avx2``, held libraries to another instruction set: they are like those
    that name no variable.
    """
    fields = ["device", "torch", "backend", "threads"]
    if (one.arithmetic and other.arithmetic) or "=" in one.arithmetic + other.arithmetic:
        fields.append("arithmetic")
    return all(getattr(one, field) == getattr(other, field) for field in fields)


def _differences(one: dict[str, Any], other: dict[str, Any]) -> dict[str, float]:
    """Return, of the names in both with unequal values, by how much they differ at most."""
    names = sorted(one.keys() & other.keys())
    return {name: _difference(one[name], other[name]) for name in names if one[name] != other[name]}


def _difference(one: Any, other: Any) -> float:
    if isinstance(one, int | float) and isinstance(other, int | float):
        return abs(one - other)
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return max((_difference(one[key], other[key]) for key in one), default=0.0)
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return max(map(_difference, one, other), default=0.0)
    return 0.0 if one == other else float("inf")
