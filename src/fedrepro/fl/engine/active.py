"""A run in flight: its state between requests, its progress, and its checkpoints."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedrepro.base.errors import FedreproError
from fedrepro.fl.algorithms import ALGORITHMS
from fedrepro.fl.data import Dataset
from fedrepro.fl.engine import checkpoint, saved
from fedrepro.fl.engine.effect import Effect
from fedrepro.fl.engine.host_copy import HostCopier, HostCopy, mapped, on_device, tensors
from fedrepro.fl.engine.jobs import AlgorithmFailed, Ask, ProgramFailed
from fedrepro.fl.engine.saved import Part
from fedrepro.fl.engine.state import CheckedState
from fedrepro.fl.engine.well_formed import MalformedRequest, check_request
from fedrepro.fl.federation import CPU, Federation
from fedrepro.fl.requests import Steps, Train
from fedrepro.fl.spec import RunSpec, canonical_json, component_versions, run_id, spec_dict

_NO_METRICS = {"evaluated_rounds", "round", "run", "seed"}
"""What records and frames call something else."""
_MOST_SAVING = 0.05
"""Share of its time that a process spends on checkpoints while the states stay as large."""


@dataclass
class Saving:
    """How long checkpoints take to be written, by the largest one that this process wrote.

    The thread that writes them also feeds the device.

    Attributes:
        in_flight: bytes of the states of all runs in flight.
    """

    in_flight: int = 0
    _largest: int = 0
    _seconds: float = 0.0

    def took(self, size: int, seconds: float) -> None:
        """Take note of a checkpoint that was written: the bytes of its state, and how long."""
        if size >= self._largest:
            self._largest, self._seconds = size, seconds

    @property
    def seconds(self) -> float:
        """How long it takes to write the checkpoints of all runs in flight; 0: not known yet."""
        return self._seconds * self.in_flight / self._largest if self._largest else 0.0

    @property
    def pause(self) -> float:
        """Least seconds between two checkpoints of a run."""
        return self.seconds / _MOST_SAVING


@dataclass(frozen=True)
class Storage:
    """Where a run in flight finds and leaves what outlives the process.

    Attributes:
        checkpoints: folder of the checkpoints.
        checkpoint_seconds: least time between two checkpoints of a run, which is longer where they
            would take much of the time; 0 writes one every round, whatever it takes.
        data_root: folder of packed data, for partitions that are read; None: the usual places.
        origin: what checkpoints say of this process: code, device, backend.
        saving: how long they take.
    """

    checkpoints: Path = Path(".checkpoints")
    checkpoint_seconds: float = 30.0
    data_root: Path | None = None
    origin: dict[str, Any] = field(default_factory=dict)
    saving: Saving = field(default_factory=Saving)


@dataclass
class Progress:
    """What a checkpoint holds besides the algorithm's state.

    Attributes:
        round: rounds done.
        seconds: time spent on the run so far.
        metrics: name -> one number for each round, or for each of ``evaluated_rounds``.
        final: the last evaluation, lists included, and in the end the algorithm's summary.
    """

    round: int = 0
    seconds: float = 0.0
    metrics: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    final: dict[str, Any] = field(default_factory=dict)


class ActiveRun:
    """A run in flight.

    Its weights are on the device that trains it. Checkpoints hold tensors on the CPU, so a run may
    be resumed on another device than it began on.

    Attributes:
        idle: the most lanes of one request, so far, that hold less than a batch and take no step;
            their unchanged weights count in a mean.
        resumed_at: rounds that were done when it was taken up, 0 for a fresh run.
        current_round: the one that is trained or evaluated, from 1, as messages call it.
        earlier: what other processes did before, from the checkpoint.
        imported: rounds that were trained elsewhere, if the checkpoint was imported.
        state_bytes: memory that the state takes, each of its tensors counted once.
    """

    def __init__(
        self, spec: RunSpec, dataset: Dataset, storage: Storage, device: torch.device = CPU
    ) -> None:
        self.spec = spec
        self.id = run_id(spec)
        self.dataset = dataset
        self.fed = Federation(spec, dataset, storage.data_root, device)
        self.idle = 0
        self.algorithm = ALGORITHMS[spec.algorithm.name]
        self.rounds = self.algorithm.rounds(spec)
        try:
            self.state = self.algorithm.init(self.fed)
        except FedreproError:
            raise
        except Exception as error:
            raise AlgorithmFailed(f"algorithm {spec.algorithm.name}, init", error) from error
        if not hasattr(self.state, "__dict__"):
            raise FedreproError(
                f"algorithm {spec.algorithm.name}: `init` returns a {type(self.state).__name__}; "
                "its state must be a dataclass, without slots"
            )
        self.progress = Progress()
        self._ask: Ask | None = None
        self.earlier: list[Part] = []
        self.imported: list[Part] = []
        self._origin = storage.origin
        self._file = checkpoint.path_of(self.id, storage.checkpoints)
        self._checkpoint_seconds = storage.checkpoint_seconds
        self._saving = storage.saving
        self._last_save = time.monotonic()
        self.state_bytes = 0
        self._fresh = mapped(vars(self.state), lambda tensor: tensor.to("meta"))  # shapes alone
        self._restore()
        self.current_round = self.resumed_at = self.progress.round
        self._copier = HostCopier()
        self._checked = CheckedState(spec.algorithm.name, self.state)
        self._boundaries = [self._snapshot()]
        self._effect = Effect(self.fed.layout.parameters, shown=self.resumed_at > 0)
        self._steps = self._run()

    def begin(self) -> None:
        """Go on to the first request, or to the end if all rounds were done before."""
        self._advance(None)

    def _restore(self) -> None:
        found = saved.read(self._file, self.id)
        if found is None:
            return
        if vars(self.state).keys() != found.state.keys():
            raise checkpoint.unusable(self._file, "does not fit this version of the code")
        # Not made by its class, whose code may change what it holds.
        vars(self.state).update(on_device(found.state, self.fed.device))
        if field := saved.misfit(vars(self.state), self._fresh):
            raise checkpoint.unusable(
                self._file, f"does not fit the run: {field} is not as the algorithm has it"
            )
        try:
            CheckedState(self.spec.algorithm.name, self.state)
        except FedreproError as error:
            raise checkpoint.unusable(self._file, f"does not fit the run ({error})") from error
        data = found.data
        if data != self._data:
            raise FedreproError(
                f"{self._file}: this checkpoint was made on other examples than those here "
                f"(sha256 of data set and partition {_short(data)}, here {_short(self._data)}): "
                "train on those, or delete it to start the run anew"
            )
        progress = found.progress
        metrics = defaultdict(list, progress.metrics)
        self.progress = Progress(progress.round, progress.seconds, metrics, progress.final)
        self.earlier, self.imported = found.parts, found.imported

    @property
    def _data(self) -> list[str]:
        return [self.dataset.sha256, self.fed.partition.sha256]

    @property
    def parts(self) -> list[Part]:
        """Rounds done so far by each process, in order; this process comes last."""
        return self._parts(self._boundaries[-1])

    def _parts(self, boundary: HostCopy) -> list[Part]:
        parts = list(self.earlier)
        if parts and parts[-1].origin == self._origin:
            parts.pop()
        rounds = boundary.content["progress"]["round"] - sum(part.rounds for part in parts)
        seconds = self.progress.seconds - sum(part.seconds for part in parts)
        return [*parts, Part(origin=self._origin, rounds=rounds, seconds=seconds)]

    def _snapshot(self) -> HostCopy:
        """Copy state and progress as they are between two rounds.

        Tensors and evaluations are never changed, and of the metrics only the lists grow.
        """
        distinct = {id(tensor): tensor.nbytes for tensor in tensors(vars(self.state))}
        self.state_bytes = sum(distinct.values())
        metrics = {name: list(values) for name, values in self.progress.metrics.items()}
        copy = self._copier.copy({"state": vars(self.state)})
        copy.content["progress"] = vars(self.progress) | {"metrics": metrics}
        return copy

    def _round_done(self) -> None:
        """Keep the newest snapshot and, until that is complete, the one before.

        A whole round later that one is complete, so nothing is waited for.

        Raises:
            FedreproError: a checkpoint of the state could not be used.
        """
        self._checked.require_unchanged()
        if field := saved.misfit(vars(self.state), self._fresh):
            raise FedreproError(
                f"algorithm {self.spec.algorithm.name}: {field} of its state is of another kind, "
                "shape or dtype than `init` made it, so that no checkpoint would fit: let `init` "
                "make it as it will be, or None, or keep a list"
            )
        self._checked = CheckedState(self.spec.algorithm.name, self.state)
        before = [boundary for boundary in self._boundaries if boundary.arrives()]
        newest = self._snapshot()
        self._boundaries = [newest] if newest.complete else [*before[-1:], newest]
        self._effect.require(self.current_round)
        if self.progress.round >= self.rounds:
            return
        pause = max(self._checkpoint_seconds, self._saving.pause) if self._checkpoint_seconds else 0
        if time.monotonic() - self._last_save >= pause:
            self.save()

    def save(self) -> None:
        """Write the checkpoint of the last finished round.

        If the device has failed, that is the last round that it has copied in full; if there is
        none, the checkpoint written before stays.

        Raises:
            NotSaved: the file cannot be written.
        """
        complete = (boundary for boundary in reversed(self._boundaries) if boundary.arrives())
        boundary = next(complete, None)
        if boundary is None:
            return
        progress = boundary.content["progress"] | {"seconds": self.progress.seconds}
        parts = [part.model_dump() for part in self._parts(boundary) if part.rounds]
        plain = spec_dict(self.spec)
        content = boundary.content | {
            "spec": plain,
            "versions": component_versions(plain),
            "progress": progress,
            "data": self._data,
            "parts": parts,
            "imported": [part.model_dump() for part in self.imported],
        }
        began = time.monotonic()
        checkpoint.save(self._file, self.id, content)
        self._last_save = time.monotonic()
        self._saving.took(self.state_bytes, self._last_save - began)

    @property
    def has_checkpoint(self) -> bool:
        """Whether a process that takes up the run can go on from a checkpoint."""
        return self._file.exists()

    def explained(self, error: Exception) -> Exception:
        """Return what to say of an error: a checkpoint that the run went on from is to blame.

        What a checkpoint holds deep in the state is not checked before it is used. After a whole
        round of its own, it is rather the algorithm's code that fails.
        """
        first = self.resumed_at and self.progress.round == self.resumed_at
        if not (first and isinstance(error, ProgramFailed | MalformedRequest)):
            return error
        last = str(error).splitlines()[-1]
        return checkpoint.unusable(
            self._file, f"does not fit the run, which failed after it ({last})"
        )

    def forget_checkpoint(self) -> None:
        """Delete the checkpoint of a run whose record is safe."""
        self._file.unlink(missing_ok=True)

    def _run(self) -> Steps:
        progress = self.progress
        while progress.round < self.rounds:
            log = yield from self._steps_of("round", progress.round)
            if not isinstance(log, dict):
                raise FedreproError(
                    f"algorithm {self.spec.algorithm.name}: `round` returns {log!r:.50}, not a "
                    "dictionary of what it logs"
                )
            log = _plain(log)
            _check_finite(log, self.current_round)
            _require_numbers(log, self.current_round)
            for name, value in log.items():
                progress.metrics[name].append(value)
            progress.round += 1
            _require_whole(progress.metrics, log, self.current_round)
            last = progress.round == self.rounds
            if last or progress.round % self.spec.evaluate_every == 0:
                final = yield from self._steps_of("evaluate")
                self._evaluated(_plain(final))
            self._round_done()
        summary = _plain(self.algorithm.summary(self.fed, self.state))
        _check_finite(summary, self.current_round)
        if both := summary.keys() & progress.final.keys():
            raise FedreproError(
                f"algorithm {self.spec.algorithm.name}: `summary` returns {min(both)}, which the "
                "last evaluation has; give it another name"
            )
        progress.final = progress.final | summary

    def _steps_of(self, name: str, *arguments: Any) -> Steps:
        """Go through the generator that a function of the algorithm is to be."""
        algorithm = self.spec.algorithm.name
        self.current_round = self.progress.round + (name == "round")
        try:
            steps = getattr(self.algorithm, name)(self.fed, self.state, *arguments)
            if not isinstance(steps, Generator):
                raise FedreproError(
                    f"algorithm {algorithm}: `{name}` is not a generator; it yields a Train or a "
                    "Predict, or `yield from`s another generator"
                )
            return (yield from steps)
        except FedreproError:
            raise
        except Exception as error:
            where = f"algorithm {algorithm}, round {self.current_round}"
            raise AlgorithmFailed(where, error) from error

    def _evaluated(self, final: dict[str, Any]) -> None:
        """Take note of an evaluation."""
        metrics, curves = self.progress.metrics, _curves(final)
        _check_finite(final, self.current_round)
        _require_numbers(curves, self.current_round)
        before = _curves(self.progress.final)
        if metrics["evaluated_rounds"] and (changed := curves.keys() ^ before.keys()):
            raise FedreproError(
                f"round {self.current_round}: evaluations return {min(changed)} only sometimes, so "
                "that its values could not be told from those of other rounds: return it always, "
                "or never"
            )
        self.progress.final = final
        metrics["evaluated_rounds"].append(self.progress.round)
        for name, value in curves.items():
            metrics[name].append(value)

    def _advance(self, answer: list[Any] | None) -> None:
        self._ask = None
        try:
            request = self._steps.send(answer)
        except StopIteration:
            return
        check_request(self.spec, request, self.dataset, self.fed.layout)
        self._ask = Ask(self.spec, self.dataset, request)
        self.idle = max(self.idle, sum(not job.sizes for job in self._ask.jobs))

    def receive(self, answer: list[Any], seconds: float) -> None:
        """Take the answer to the open request and go on to the next one, or to the end.

        Args:
            answer: one :class:`Trained` or :class:`Prediction` for each lane or model, in the order
                of the request.
            seconds: time that the request took.

        Raises:
            FedreproError: a number to record is not finite, or the round ends and nothing trains.
            NotSaved: a checkpoint is due and cannot be written.
        """
        self.progress.seconds += seconds
        if isinstance(self.ask.request, Train):
            self._effect.watch(self.ask.request, answer)
        self._advance(answer)

    def close(self) -> None:
        """Leave the algorithm where it is, and free what it holds on the device."""
        self._steps.close()

    @property
    def done(self) -> bool:
        """Whether the run has no further request."""
        return self._ask is None

    @property
    def ask(self) -> Ask:
        """The open request."""
        assert self._ask is not None
        return self._ask

    @property
    def lanes(self) -> int:
        """Number of models that the open request trains; 1 if it predicts."""
        return len(self.ask.jobs) or 1


def _curves(final: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an evaluation returns besides lists."""
    return {name: value for name, value in final.items() if not isinstance(value, list)}


def _short(digests: list[str]) -> str:
    return ", ".join(digest[:12] for digest in digests)


def _plain(value: Any) -> Any:
    """Return nested values with NumPy's numbers as Python's, as checkpoints hold."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value.item() if isinstance(value, np.generic) else value


def _require_whole(metrics: Mapping[str, list[Any]], log: Mapping[str, Any], done: int) -> None:
    """Refuse a log whose values could not be told from those of other rounds.

    Args:
        metrics: all values up to now by name.
        log: the last round's.
        done: rounds up to now.

    Raises:
        FedreproError: a name was not logged in every round, or an evaluation has it, too.
    """
    for name in log:
        if len(metrics[name]) != done:
            raise FedreproError(
                f"round {done}: the algorithm logs {name}, of which there are "
                f"{len(metrics[name])} values in {done} rounds: log a name in every round, and "
                "none that an evaluation has"
            )


def _require_numbers(values: Mapping[str, Any], round: int) -> None:
    """Refuse what cannot be a point of a curve.

    Args:
        values: what a round logs, or an evaluation returns besides lists, by name.
        round: round from 1 that they belong to.

    Raises:
        FedreproError: one of them is no number, or has the name of something else.
    """  # noqa: DOC501 - made by a function
    for name, value in values.items():
        if name in _NO_METRICS:
            raise FedreproError(
                f"round {round}: {name} cannot be the name of a metric, as records or data frames "
                "have something else of this name; give it another one"
            )
        if not isinstance(value, int | float):
            raise _no_number(name, value, round)


def _no_number(name: str, value: Any, round: int) -> FedreproError:
    return FedreproError(
        f"round {round}: {name} is {value!r:.50}, not a number; the algorithm must log a number, "
        "as `float(x)` makes one of a tensor"
    )


def _check_finite(values: dict[str, Any], round: int) -> None:
    """Refuse what no record can hold, while the run can still be named.

    Args:
        values: numbers by name, or lists and dicts of them.
        round: round from 1 that they belong to.

    Raises:
        FedreproError: one of them is not finite, or no number at all.
    """  # noqa: DOC501 - made by a function
    for name, value in values.items():
        try:
            canonical_json(value)
        except TypeError as error:
            raise _no_number(name, value, round) from error
        except ValueError as error:
            raise FedreproError(
                f"round {round}: {name} is not a finite number; lower the step size "
                "(optimizer.lr, algorithm.server_lr) or check the data and the partition"
            ) from error
