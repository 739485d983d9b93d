"""What a plan says: the models of ``config/papers/<paper>.yaml``.

A plan is written once, at the published scale; ``scales`` holds what differs at the others.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, Field, StrictInt, model_validator

from fedrepro.base.configfile import nearest
from fedrepro.base.errors import FedreproError
from fedrepro.base.strict import Strict
from fedrepro.fl.spec import NetworkName, Precision
from fedrepro.runs.plan_files import argument, file_of

Scale = Literal["paper", "lite", "quick", "smoke"]
SCALES: tuple[Scale, ...] = get_args(Scale)
COMMITTED: tuple[Scale, ...] = ("paper", "lite")
"""The scales whose records are committed, and which verdicts are passed on."""

Scalar = bool | int | float | str


def _different(values: list[Any]) -> list[Any]:
    """Refuse a value that is there twice: it would count twice in every mean."""
    for position, value in enumerate(values):
        if value in values[:position]:
            raise ValueError(f"{value} is there twice; every run counts once")
    return values


Seeds = Annotated[list[StrictInt], Field(min_length=1), AfterValidator(_different)]
Axis = Annotated[list[Scalar], AfterValidator(_different)]


class Range(Strict):
    """Integers from ``start`` to ``stop``, both included."""

    start: int
    stop: int
    step: int = Field(default=1, ge=1)

    @model_validator(mode="after")
    def _in_order(self) -> Range:
        if self.stop < self.start:
            raise ValueError(f"no integer is from {self.start} to {self.stop}; exchange the two")
        return self


class MoreSeeds(Strict):
    """Further seeds at some points of a group's grid."""

    seeds: Seeds
    grid: dict[str, Axis] = Field(
        default={}, description="dotted path of a field of the group's grid -> some of its values"
    )


class RunGroup(Strict):
    """A named set of runs: one for each grid point and seed."""

    title: str = Field(description="what a legend or a table row calls these runs")
    labels: dict[str, str] = Field(
        default_factory=dict,
        description="what these runs are, such as data set and method, for code that selects and "
        "compares groups; columns of all frames",
    )
    set: dict[str, Any] = Field(default_factory=dict, description="differences from the defaults")
    grid: dict[str, Axis | Range] = Field(
        default={}, description="dotted path of a field -> its values; one run a combination"
    )
    seeds: Seeds | None = Field(default=None, description="null: the plan's seeds")
    more: MoreSeeds | None = Field(
        default=None,
        description="further seeds at some grid points, at scales that change neither the seeds "
        "nor the grid",
    )


class RunGroupOverride(Strict):
    """What a scale changes in a group of runs."""

    set: dict[str, Any] = Field(default_factory=dict)
    grid: dict[str, Axis | Range] = Field(default_factory=dict)
    seeds: Seeds | None = None
    more: MoreSeeds | None = Field(default=None, description="in place of the group's")


class ScaleEntry(Strict):
    """What differs from the published scale."""

    note: str = Field(default="", description="one sentence for readers: what this scale changes")
    defaults: dict[str, Any] = Field(default_factory=dict)
    seeds: Seeds | None = Field(
        default=None, description="of all groups, whatever seeds they have themselves"
    )
    precision: dict[NetworkName, Precision] = Field(
        default_factory=dict,
        description="network -> the precision of its runs, where they name none themselves",
    )
    runs: dict[str, RunGroupOverride] = Field(default_factory=dict)
    groups: list[str] | None = Field(
        default=None, description="the groups that have runs at this scale; null: all"
    )
    artefacts: list[str] | None = Field(
        default=None,
        description="the tables and figures made at this scale, without notebook, verdicts and "
        "report; null: all of them",
    )


class Artefact(Strict):
    """A table or figure: its function is found by its name in the paper's module."""

    title: str
    source: str = Field(description="where the paper shows it, such as 'Table 2, p. 6'")
    runs: list[str] = Field(description="the groups of runs it is made from")
    compared_with: list[str] = Field(
        default=[],
        description="those of the groups that the others are compared with; it is made where one "
        "of the others has runs",
    )
    part_of: str = Field(
        default="", description="the table whose published values stand in it; empty: its own"
    )
    cells: str = Field(
        default="our mean ± sample standard deviation over n seeds",
        description="what a table's cells hold",
    )


class PaperPlan(Strict):
    """The whole experiment plan of one paper, or of a study of our own."""

    paper: str
    title: str
    authors: str = ""
    year: int | None = None
    url: str = ""
    defaults: dict[str, Any]
    seeds: Seeds
    presets: dict[str, dict[str, Any]] = Field(
        default_factory=dict,
        description="named differences from the defaults, for YAML anchors; used where a `set` "
        "refers to them",
    )
    scales: dict[Scale, ScaleEntry] = Field(
        default_factory=dict, description="empty: the plan is the same at every scale"
    )
    runs: dict[str, RunGroup] = Field(min_length=1)
    tables: dict[str, Artefact] = Field(default_factory=dict)
    figures: dict[str, Artefact] = Field(default_factory=dict)

    def has(self, scale: Scale) -> bool:
        """Return whether the plan has a scale: ``paper`` always, another if it names it or none."""
        return scale == "paper" or not self.scales or scale in self.scales

    def at(self, scale: Scale) -> ScaleEntry:
        """Return what differs at a scale; the scale ``paper`` need not be in the plan.

        Raises:
            FedreproError: there is no such scale, or the plan lacks it.
        """
        if scale not in SCALES:
            raise FedreproError(f"unknown scale '{scale}' {nearest(scale, SCALES)}")
        if not self.has(scale):
            raise FedreproError(
                f"{file_of(self.paper)}: scales: no scale '{scale}'; say there what differs from "
                "the published one"
            )
        return self.scales.get(scale, ScaleEntry())

    def grid(self, group: str, scale: Scale) -> dict[str, Axis | Range]:
        """Return the values of each axis of a group's grid at a scale; with an empty axis no run.

        Raises:
            FedreproError: as :meth:`at`.
        """
        override = self.at(scale).runs.get(group, RunGroupOverride())
        return self.runs[group].grid | override.grid

    def has_runs(self, group: str, scale: Scale) -> bool:
        """Return whether a group has runs at a scale.

        Raises:
            FedreproError: as :meth:`at`.
        """
        chosen = self.at(scale).groups
        return (chosen is None or group in chosen) and all(self.grid(group, scale).values())

    def made(self, kind: Literal["tables", "figures"], scale: Scale) -> list[str]:
        """Return the names of the tables or figures that are made at a scale.

        Those are left out that are made from runs of which the scale has none, or none but those
        that the others are compared with.

        Raises:
            FedreproError: as :meth:`at`.
        """
        every = self.tables if kind == "tables" else self.figures
        return [name for name in every if self._is_made(name, scale)]

    def _is_made(self, name: str, scale: Scale) -> bool:
        chosen, artefact = self.at(scale).artefacts, self.artefact(name)
        if chosen is not None and name not in chosen:
            return False
        deciding = [group for group in artefact.runs if group not in artefact.compared_with]
        return not artefact.runs or any(self.has_runs(group, scale) for group in deciding)

    def not_made(self, name: str, scale: Scale) -> str:
        """Say why a table or figure is not made at a scale; empty if it is.

        Raises:
            FedreproError: as :meth:`at`.
        """
        if self._is_made(name, scale):
            return ""
        made = [*self.made("tables", scale), *self.made("figures", scale)]
        has = f"has {', '.join(made)} only" if made else "has none"
        if self.at(scale).artefacts is None:
            some = any(self.has_runs(group, scale) for group in self.artefact(name).runs)
            has = "has only runs to compare others with" if some else "has no run for it"
        elsewhere = [each for each in SCALES if self.has(each) and self._is_made(name, each)]
        cure = "give each axis of their grids a value"
        if elsewhere:
            other = "lite" if "lite" in elsewhere else elsewhere[0]
            cure = f"choose `--scale {other}` (Snakemake: `--config scale={other}`)"
        return f"{self.paper}: {name} is not made at scale {scale}, which {has}; {cure}"

    def artefact(self, name: str, kind: Literal["table", "figure"] | None = None) -> Artefact:
        """Return the entry of a table or figure; with ``kind``, of that kind only.

        Raises:
            FedreproError: there is none of that name; says the nearest.
        """
        every = self.tables | self.figures
        known = {"table": self.tables, "figure": self.figures, None: every}[kind]
        if name not in known and name in every:
            other = "table" if name in self.tables else "figure"
            raise FedreproError(
                f"paper '{self.paper}' has no {kind} '{name}': it is a {other}, which `fedrepro "
                f"{other} {argument(self.paper)} {name}` makes"
            )
        if name not in known:
            raise FedreproError(
                f"paper '{self.paper}' has no {kind or 'table or figure'} '{name}' "
                f"{nearest(name, list(known))}"
            )
        return known[name]
