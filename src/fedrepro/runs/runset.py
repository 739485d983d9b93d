"""The recorded runs of one paper at one scale, as data frames."""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from fedrepro.base.errors import FedreproError
from fedrepro.base.paths import find_root, require_place
from fedrepro.fl.data import describe
from fedrepro.runs import records
from fedrepro.runs.plan import PlannedRun, expand, load_plan, on_device, unique
from fedrepro.runs.plan_files import argument
from fedrepro.runs.plan_schema import PaperPlan, Scale
from fedrepro.runs.records import RunRecord


@dataclass(frozen=True)
class Evaluated:
    """What an accuracy is measured on.

    Attributes:
        classes: of the data set.
        examples: in its test split.
    """

    classes: int
    examples: int

    @property
    def chance(self) -> float:
        """The accuracy of guessing, as a fraction."""
        return 1 / self.classes


class MissingRunsError(FedreproError):
    """Some of the runs that are needed have no record yet.

    Attributes:
        missing: those that were looked for first; others may be missing too. Empty: not known.
    """

    def __init__(self, message: str, missing: Iterable[PlannedRun] = ()) -> None:
        super().__init__(message)
        self.missing = tuple(missing)


class RunSet:
    """Runs and their records.

    Making one raises a FedreproError in a folder inside the clone, where Jupyter opens a notebook:
    no record would be found there.

    Attributes:
        paper: slug of the paper.
        scale: the scale.
        plan: the paper's plan.
        partial: whether runs without a record are left out of what is asked for.
        fewer_seeds: whether such a run is left out where another seed at its grid point is
            recorded.
    """

    def __init__(self, paper: str, scale: Scale, folder: Path | None = None) -> None:
        if folder is None or not folder.is_absolute():
            require_place()
        self.paper = paper
        self.scale = scale
        self.plan: PaperPlan = load_plan(paper)
        self.partial = False
        self.fewer_seeds = False
        self._folder = folder
        self._runs: dict[str, list[PlannedRun]] = {}
        for run in expand(paper, scale):  # group after group
            self._runs.setdefault(run.group, []).append(run)
        self._records: dict[str, RunRecord] = {}
        self._recorded: set[str] = set()

    def recorded(self) -> RunSet:
        """Return the same runs without those that have no record."""
        other = copy.copy(self)  # shares the records that were read
        other.partial = True
        return other

    def recorded_seeds(self) -> RunSet:
        """Return the same runs, each with the seeds that are recorded, if any is."""
        other = copy.copy(self)
        other.fewer_seeds = True
        return other

    def _place(self, run: PlannedRun) -> Path:
        return run.records if self._folder is None else self._folder

    def planned(self, groups: Iterable[str]) -> list[PlannedRun]:
        """Return the planned runs of the named groups, in plan order."""
        wanted = set(groups)
        return [run for name, runs in self._runs.items() if name in wanted for run in runs]

    def members(self, groups: Iterable[str]) -> list[PlannedRun]:
        """Return the runs of the named groups, in plan order: those recorded, where partial."""
        planned = self.planned(groups)
        if not (self.partial or self.fewer_seeds):
            return planned
        there = [run for run in planned if self.is_recorded(run)]
        if self.partial:
            return there
        points = {run.point for run in there}
        return [run for run in planned if run.point not in points or self.is_recorded(run)]

    def is_recorded(self, run: PlannedRun) -> bool:
        """Return whether a planned run has a record."""
        if run.id not in self._recorded and records.is_recorded(run.id, self._place(run)):
            self._recorded.add(run.id)
        return run.id in self._recorded

    def labelled(self, groups: Iterable[str] | None = None, /, **labels: str) -> list[str]:
        """Return the groups, in plan order, that have all of these labels.

        Args:
            groups: the groups to choose from; None: all of the plan.
            labels: label -> its value.
        """
        named = self.plan.runs if groups is None else groups
        return [name for name in named if labels.items() <= self.plan.runs[name].labels.items()]

    def groups_of(self, artefact: str) -> list[str]:
        """Return the groups that a table or figure is made from, in the order it names them."""
        return self.plan.artefact(artefact).runs

    def evaluated(self, groups: Iterable[str]) -> Evaluated:
        """Return what the accuracies of groups are measured on.

        Raises:
            ValueError: the groups have no runs, or differ in it.
        """
        names = {run.spec.dataset.name for run in self.planned(groups)}
        (split,) = {Evaluated(info.classes, info.test) for info in map(describe, names)}
        return split

    def as_published(self, ids: Iterable[str]) -> bool:
        """Return whether runs, by their ids, are all in the plan at the published scale."""
        return self._published.issuperset(ids)

    @functools.cached_property
    def _published(self) -> frozenset[str]:
        return frozenset(run.id for run in expand(self.paper, "paper"))

    def missing(self, groups: Iterable[str]) -> list[PlannedRun]:
        """Return the planned runs of the groups that have no record."""
        return [run for run in self.planned(groups) if not self.is_recorded(run)]

    def require(self, groups: Iterable[str], what: str, else_: str = "") -> None:
        """Make sure that all runs of the groups are recorded.

        Args:
            groups: names of groups.
            what: what needs the runs.
            else_: what can be done with the others, said if any of the runs are recorded.

        Raises:
            MissingRunsError: some are not; says what needs them and how to train them.
        """
        groups = list(groups)
        missing = self.missing(groups)
        if missing:
            count, some = len(unique(missing)), len(missing) < len(self.planned(groups))
            raise MissingRunsError(
                f"{self.paper}, scale {self.scale}: no record of {count} of the runs "
                f"for {what}, such as {missing[0].id} ({missing[0].group}); "
                f"{self.how_to_train(missing)}{else_ if some else ''}{_elsewhere(missing[0])}",
                missing,
            )

    def how_to_train(self, missing: Iterable[PlannedRun]) -> str:
        """Return what to do about runs without a record, for an error."""
        options = f"--paper {argument(self.paper)} --scale {self.scale}{on_device(missing)}"
        return f"train them with `fedrepro train --pending {options}`"

    def require_planned(self, what: str) -> None:
        """Make sure that the plan has runs at the scale.

        Raises:
            MissingRunsError: it has none; says what needs them.
        """
        if not self._runs:
            raise MissingRunsError(
                f"{self.paper}, scale {self.scale}: the plan has no run for {what}; give each axis "
                "of a grid a value, or choose another scale"
            )

    def record(self, run: PlannedRun) -> RunRecord:
        """Return a run's record, read once.

        Raises:
            FedreproError: it is missing or damaged.
        """
        if run.id not in self._records:
            if not records.path_of(run.id, self._place(run)).exists():
                self.require([run.group], f"group '{run.group}'")
            self._records[run.id] = records.read(run.id, self._place(run))
        return self._records[run.id]

    def final(self, groups: Sequence[str], metrics: Sequence[str]) -> pd.DataFrame:
        """Return the final metrics: one row a run.

        Columns: ``group``, ``title``, the grid coordinates, ``seed``, ``run`` and the metrics.
        A metric may be nested: ``weight_divergence.fedavg.conv1``.

        Raises:
            MissingRunsError: a record is missing, or all are, where partial.
            FedreproError: one has no such metric.
        """
        return pd.DataFrame(
            [
                self._row(run) | {name: self._final(run, name) for name in metrics}
                for run in self.some(groups)
            ]
        )

    def some(self, groups: Iterable[str]) -> list[PlannedRun]:
        """Return the members; where runs without a record are left out, at least one.

        Raises:
            MissingRunsError: partial, and no run of the groups is recorded.
        """
        groups = list(groups)
        members = self.members(groups)
        planned = list(dict.fromkeys(run.group for run in self.planned(groups)))
        if planned and not members and self.partial:
            others = f" and {len(planned) - 1} more" if len(planned) > 1 else ""
            self.require(planned, f"group '{planned[0]}'{others}")
        return members

    def curves(self, groups: Sequence[str], metric: str) -> pd.DataFrame:
        """Return a metric over the rounds: one row a run and evaluated round.

        Columns: ``group``, ``title``, the grid coordinates, ``seed``, ``run``, ``round`` (rounds
        done) and ``value``. A metric that is logged every round is returned every round.

        Raises:
            FedreproError: a record is missing, or has no such metric.
        """
        rows = []
        for run in self.some(groups):
            base = self._row(run)
            rows += [base | {"round": t, "value": v} for t, v in self.curve(run, metric).items()]
        return pd.DataFrame(rows)

    def curve(self, run: PlannedRun, metric: str) -> dict[int, float]:
        """Return a metric of a run: round -> value.

        Raises:
            FedreproError: its record is missing or damaged, or has no such metric.
        """
        record = self.record(run)
        if metric not in record.metrics:
            raise FedreproError(
                f"run {run.id} ({run.group}) records no metric '{metric}'; it has "
                f"{', '.join(sorted(record.metrics))}"
            )
        return record.curve(metric)

    def _row(self, run: PlannedRun) -> dict[str, Any]:
        group = self.plan.runs[run.group]
        names = {"group": run.group, "title": group.title} | group.labels
        return names | run.coordinates | {"seed": run.seed, "run": run.id}

    def _final(self, run: PlannedRun, name: str) -> Any:
        value: Any = self.record(run).final
        for part in name.split("."):
            if not isinstance(value, dict) or part not in value:
                raise FedreproError(
                    f"run {run.id} ({run.group}) records no final metric '{name}'; delete "
                    f"{records.path_of(run.id, self._place(run))} to train it again"
                )
            value = value[part]
        return value


def _elsewhere(run: PlannedRun) -> str:
    """Return what to do instead of training where the clone has the record and is not here."""
    clone = find_root()
    file = records.path_of(run.id, run.records)
    if clone is None or file.is_file() or not (clone / file).is_file():
        return ""
    return f"; or call this in {clone}, where that run is recorded"
