"""What a checkpoint holds, checked before any of it is used."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import ConfigDict, Field, ValidationError

from fedrepro.base.strict import Strict, first_problem
from fedrepro.fl.algorithms import ALGORITHMS
from fedrepro.fl.engine import checkpoint
from fedrepro.fl.spec import RunSpec, canonical_json, identity


class _Typed(Strict):
    """Values have their types; none is converted."""

    model_config = ConfigDict(strict=True)


class Part(_Typed):
    """Rounds of a run that one or more processes did in the same way.

    Attributes:
        origin: as in :class:`fedrepro.fl.engine.active.Storage`.
        rounds: number of them.
        seconds: time spent on them.
    """

    origin: dict[str, str | bool | int | float]
    rounds: Annotated[int, Field(ge=0)]
    seconds: float  # a difference of times, a rounding error below 0 at worst


class SavedProgress(_Typed):
    """As :class:`fedrepro.fl.engine.active.Progress`."""

    round: Annotated[int, Field(ge=0)]
    seconds: Annotated[float, Field(ge=0)]
    metrics: dict[str, list[Any]]
    final: dict[str, Any]


class Saved(_Typed):
    """A checkpoint.

    Attributes:
        spec: of the run, as of :func:`fedrepro.fl.spec.spec_dict`.
        versions: of the components that it uses; both give the run's identity.
        state: fields of the algorithm's state.
        progress: at the end of a round.
        data: SHA-256 of the data set and of the partition.
        parts: rounds of each process; together all of them.
        imported: rounds that were trained elsewhere, if the checkpoint was ever imported.
    """

    spec: dict[str, Any]
    versions: dict[str, int | str]
    state: dict[str, Any]
    progress: SavedProgress
    data: Annotated[list[str], Field(min_length=2, max_length=2)]
    parts: list[Part]
    imported: list[Part]


def read(file: Path, run_id: str) -> Saved | None:
    """Read and check a checkpoint, or return None if there is none.

    Raises:
        FedreproError: it is damaged, edited, or of another run or version.
    """  # noqa: DOC501 - made by a function
    content = checkpoint.load(file, run_id)
    if content is None:
        return None
    try:
        saved = Saved.model_validate(content)
        derived = identity(saved.spec, saved.versions)
        spec = RunSpec.model_validate(saved.spec)
        rounds = ALGORITHMS[spec.algorithm.name].rounds(spec)
    except ValidationError as error:
        raise checkpoint.unusable(
            file, f"does not fit this version of the code ({first_problem(error)})"
        ) from error
    except (KeyError, TypeError, ValueError) as error:
        raise checkpoint.unusable(file, "does not fit this version of the code") from error
    if derived != run_id:
        raise checkpoint.unusable(file, f"belongs to another run ({derived} by its spec)")
    if problem := _problem(saved, rounds, spec.evaluate_every):
        raise checkpoint.unusable(file, problem)
    return saved


def _problem(saved: Saved, rounds: int, every: int) -> str | None:
    """Return what contradicts what else in a checkpoint; None if nothing does.

    Args:
        saved: the checkpoint.
        rounds: of the whole run.
        every: rounds from one evaluation to the next.
    """
    progress, done = saved.progress, saved.progress.round
    if done > rounds:
        return f"is of round {done} of {rounds}"
    if sum(part.rounds for part in saved.parts) != done:
        return f"is of round {done}, but its parts are not of so many rounds"
    if sum(part.rounds for part in saved.imported) > done:
        return f"is of round {done}, but more rounds were imported"
    evaluated = [t for t in range(1, done + 1) if t % every == 0 or t == rounds]
    if progress.metrics.get("evaluated_rounds", []) != evaluated:
        return f"is of round {done}, but other rounds than those up to it were evaluated"
    if done and not progress.metrics:
        return f"is of round {done}, but has no metrics"
    for name, values in progress.metrics.items():
        if len(values) not in (done, len(evaluated)):
            return f"is of round {done}, but has {len(values)} values of {name}"
    for name, value in (*progress.metrics.items(), *progress.final.items()):
        if not _recordable(value):
            return f"holds what is no number as {name}"
    if missing := [
        name
        for name, value in progress.final.items()
        if not isinstance(value, list) and name not in progress.metrics
    ]:
        return f"has no metric {missing[0]}, which the last evaluation has"
    return None


def _recordable(value: Any) -> bool:
    try:
        canonical_json(value)
    except (TypeError, ValueError):
        return False
    return not isinstance(value, list) or not any(
        one is None or isinstance(one, str) for one in value
    )


def misfit(state: Mapping[str, Any], fresh: Mapping[str, Any]) -> str | None:
    """Return the name of a field that is of another kind than in a fresh state; None if none is.

    Lists and dicts grow, so of lists only the tensors at places that a fresh one has are compared.

    Args:
        state: fields of an algorithm's state, restored or after a round.
        fresh: those of the one that it begins with, of which only the kinds are looked at.
    """
    for name, expected in fresh.items():
        found = state[name]
        pairs = [(found, expected)]
        if isinstance(expected, list) and isinstance(found, list):
            pairs += [
                (one, other) for one, other in zip(found, expected, strict=False) if one is not None
            ]
        if not all(_alike(one, other) for one, other in pairs):
            return name
    return None


def _alike(found: Any, expected: Any) -> bool:
    if isinstance(expected, torch.Tensor):
        return (
            isinstance(found, torch.Tensor)
            and found.shape == expected.shape
            and found.dtype == expected.dtype
        )
    if isinstance(expected, int | float):
        return isinstance(found, int | float)
    return expected is None or isinstance(found, type(expected))
