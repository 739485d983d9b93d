"""Experiment plans: ``config/papers/<paper>.yaml`` expanded into runs, one pure function.

A plan is written once, at the published scale; ``scales`` holds what differs at the others. Runs
are specs, and equal specs are one run: two figures, papers or scales that ask for the same training
share its record.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, Field, model_validator

from fedrepro.base.configfile import name_of, nearest, read_yaml, validate
from fedrepro.base.errors import FedreproError
from fedrepro.base.paths import find_root
from fedrepro.base.strict import Strict
from fedrepro.fl.spec import NetworkName, Precision, RunSpec, run_id
from fedrepro.runs.records import FOLDER, OWN_FOLDER, is_recorded, path_of

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


Seeds = Annotated[list[int], Field(min_length=1), AfterValidator(_different)]
Axis = Annotated[list[Scalar], AfterValidator(_different)]

_COLUMNS = {"group", "title", "seed", "run", "round", "value"}
"""Columns of the frames of :class:`fedrepro.runs.runset.RunSet` besides grid and labels."""


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
    runs: dict[str, RunGroup]
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
                f"{_file(self.paper)}: scales: no scale '{scale}'; say there what differs from "
                "the published one"
            )
        return self.scales.get(scale, ScaleEntry())

    def made(self, kind: Literal["tables", "figures"], scale: Scale) -> list[str]:
        """Return the names of the tables or figures that are made at a scale.

        Raises:
            FedreproError: as :meth:`at`.
        """
        every = self.tables if kind == "tables" else self.figures
        chosen = self.at(scale).artefacts
        return [name for name in every if chosen is None or name in chosen]

    def not_made(self, name: str, scale: Scale) -> str:
        """Say why a table or figure is not made at a scale; empty if it is.

        Raises:
            FedreproError: as :meth:`at`.
        """
        made = [*self.made("tables", scale), *self.made("figures", scale)]
        if name in made or self.at(scale).artefacts is None:
            return ""
        has = f"has {', '.join(made)} only" if made else "has none"
        return f"{self.paper}: {name} is not made at scale {scale}, which {has}; choose scale lite"

    def artefact(self, name: str, kind: Literal["table", "figure"] | None = None) -> Artefact:
        """Return the entry of a table or figure; with ``kind``, of that kind only.

        Raises:
            FedreproError: there is none of that name; says the nearest.
        """
        every = self.tables | self.figures
        known = {"table": self.tables, "figure": self.figures, None: every}[kind]
        if name not in known:
            raise FedreproError(
                f"paper '{self.paper}' has no {kind or 'table or figure'} '{name}' "
                f"{nearest(name, list(known))}"
            )
        return known[name]


@dataclass(frozen=True)
class PlannedRun:
    """A run and its place in the plan.

    Attributes:
        paper: slug of the paper.
        group: name of the group of runs.
        coordinates: the grid point: last part of the dotted path -> value.
        seed: the run's seed.
        spec: the run.
        id: its run id, 12 hexadecimal digits.
        folder: of its record, if a program chose one.
        scale: of the plan.
    """

    paper: str
    group: str
    coordinates: dict[str, Scalar]
    seed: int
    spec: RunSpec
    id: str
    folder: Path | None = None
    scale: Scale = "paper"

    @property
    def records(self) -> Path:
        """The folder of its record: a paper's at the scales ``paper`` and ``lite`` are committed.

        A run whose record is among the committed ones has it there, whoever plans it.
        """
        if self.folder is not None:
            return self.folder
        of_paper = self.scale in COMMITTED and not is_own(self.paper)
        committed = of_paper or path_of(self.id).exists()
        return FOLDER if committed else OWN_FOLDER

    def on_content(self, sha256: str) -> PlannedRun:
        """Return the run that does the same on other data of this content hash: one's own."""
        dataset = self.spec.dataset.model_copy(update={"content": sha256})
        spec = self.spec.model_copy(update={"dataset": dataset})
        return dataclasses.replace(self, spec=spec, id=run_id(spec), folder=OWN_FOLDER)

    @property
    def recorded(self) -> bool:
        """Whether it has a valid record.

        Raises:
            FedreproError: it has one that is damaged, edited or of another run.
        """
        return is_recorded(self.id, self.records)


OWN_PLANS = "FEDREPRO_PLANS"
"""Environment variable with the user's own plans: files or folders, separated as in ``PATH``."""


def plan_files() -> dict[str, Path]:
    """Return the file of every plan by its slug: those of the repository, then the user's own.

    Raises:
        FedreproError: a plan cannot be called so, or one of the user's own is missing, or has the
            slug of another one.
    """
    here = find_root()
    folder = None if here is None else here / "config/papers"
    stamp = 0 if folder is None else folder.stat().st_mtime_ns
    return _plan_files(folder, stamp, os.environ.get(OWN_PLANS, ""), Path.cwd())


@functools.lru_cache(maxsize=16)
def _plan_files(folder: Path | None, stamp: int, places: str, cwd: Path) -> dict[str, Path]:
    """List plans; ``stamp`` (the folder's time of change) and ``cwd`` are part of the cache key."""
    found = [] if folder is None else sorted(folder.glob("*.yaml"))
    files = {name_of(file): file for file in found}
    for file in own_plan_files(places):
        if files.get(file.stem, file) != file:
            raise FedreproError(
                f"{file}: there is a plan {files[file.stem]} of the same name; rename one of them"
            )
        files[file.stem] = file
    return files


def own_plan_files(places: str) -> list[Path]:
    """Return the files of the user's own plans.

    Args:
        places: YAML files, or folders of them, separated as in ``PATH``.

    Raises:
        FedreproError: one of them is missing, or is a folder without a plan, or a file that cannot
            be called so or lie there.
    """
    files: list[Path] = []
    several = [places] if os.path.exists(places) else places.split(os.pathsep)
    for place in filter(None, several):
        path = Path(place)
        found = sorted(path.glob("*.yaml")) if path.is_dir() else [path]
        if not found or not all(file.is_file() for file in found):
            raise FedreproError(f"{path}: no plan there; give a YAML file or a folder of them")
        files += [file.resolve() for file in found]
    for file in files:
        name_of(file)
        if os.pathsep in str(file):
            raise FedreproError(
                f"{file}: no plan may lie in a path with '{os.pathsep}', which separates the plans "
                f"of {OWN_PLANS}; rename the folder, or move the plan"
            )
    return files


def use_plans(places: str) -> list[str]:
    """Make the user's own plans known to this process and those it starts; return their slugs.

    Raises:
        FedreproError: as :func:`own_plan_files` and :func:`plan_files`.
    """
    files = own_plan_files(places)
    before = os.environ.get(OWN_PLANS, "")
    known = dict.fromkeys([*filter(None, before.split(os.pathsep)), *map(str, files)])
    os.environ[OWN_PLANS] = os.pathsep.join(known)
    plan_files()
    return [file.stem for file in files]


def is_own(name: str) -> bool:
    """Return whether a plan lies outside the repository's ``config/papers``.

    Raises:
        FedreproError: as :func:`plan_files`.
    """
    here = find_root()
    file = plan_files().get(name)
    return file is not None and (here is None or file.parent != here / "config/papers")


def _file(paper: str) -> Path:
    return plan_files().get(paper, Path(f"config/papers/{paper}.yaml"))


def plans() -> list[str]:
    """Return the slugs of all plans, of papers and of studies, sorted.

    Raises:
        FedreproError: as :func:`plan_files`.
    """
    return sorted(plan_files())


def scales(paper: str) -> list[Scale]:
    """Return the scales that a plan has, the published one first.

    Raises:
        FedreproError: as :func:`load_plan`.
    """
    plan = load_plan(paper)
    return [scale for scale in SCALES if plan.has(scale)]


def is_study(name: str) -> bool:
    """Return whether a plan is a study of its own: it has no published values to compare with.

    A study is trained, and its tables and figures are made, only if it is named. It has no verdicts
    and no notebook.

    Raises:
        FedreproError: as :func:`plan_files`.
    """
    here = find_root()
    return here is None or is_own(name) or not (here / f"config/expected/{name}.yaml").exists()


def papers() -> list[str]:
    """Return the slugs of all papers that have a plan, sorted.

    Raises:
        FedreproError: as :func:`plan_files`.
    """
    return [name for name in plans() if not is_study(name)]


@functools.cache
def load_plan(paper: str) -> PaperPlan:
    """Read a paper's plan.

    Raises:
        FedreproError: there is no such paper, or the file is wrong (names the key).
    """
    file = _file(paper)
    if Path(paper).name != paper or not file.exists():
        raise FedreproError(f"unknown paper '{paper}' {nearest(paper, plans())}")
    plan = read_yaml(file, PaperPlan)
    if plan.paper != paper:
        raise FedreproError(
            f"{file}: paper: '{plan.paper}' is not the name of the file; write `paper: {paper}`, "
            "or rename the file"
        )
    if not (plan.tables or plan.figures):
        plan = plan.model_copy(update=_plain_artefacts(plan))
    for kind, artefacts in (("tables", plan.tables), ("figures", plan.figures)):
        for name, artefact in artefacts.items():
            for group in artefact.runs:
                if group not in plan.runs:
                    raise FedreproError(
                        f"{file}: {kind}.{name}.runs: no group of runs '{group}' "
                        f"{nearest(group, list(plan.runs))}"
                    )
            if artefact.part_of and artefact.part_of not in plan.tables:
                raise FedreproError(
                    f"{file}: {kind}.{name}.part_of: no table '{artefact.part_of}' "
                    f"{nearest(artefact.part_of, list(plan.tables))}"
                )
    for name, members in plan.runs.items():
        _require_columns(f"{file}: runs.{name}.grid", members.grid)
        _require_columns(f"{file}: runs.{name}.labels", [*members.grid, *members.labels])
    for scale, entry in plan.scales.items():
        _require_known(f"{file}: scales.{scale}", entry, plan)
        for group, override in entry.runs.items():
            where = f"{file}: scales.{scale}.runs.{group}.grid"
            _require_columns(where, plan.runs[group].grid | override.grid)
    return plan


def _require_known(where: str, entry: ScaleEntry, plan: PaperPlan) -> None:
    """Check that the plan has the groups and artefacts that a scale names.

    Args:
        where: file and key, for the error.
        entry: the scale.
        plan: the plan, as published.

    Raises:
        FedreproError: it lacks one; says the nearest.
    """
    groups, artefacts = list(plan.runs), [*plan.tables, *plan.figures]
    named = [
        ("runs", "group of runs", list(entry.runs), groups),
        ("groups", "group of runs", entry.groups or [], groups),
        ("artefacts", "table or figure", entry.artefacts or [], artefacts),
    ]
    for key, what, names, known in named:
        for name in names:
            if name not in known:
                raise FedreproError(f"{where}.{key}: no {what} '{name}' {nearest(name, known)}")


def _plain_artefacts(plan: PaperPlan) -> dict[str, dict[str, Artefact]]:
    """Return what is made of a plan that names no table or figure: of all its runs."""
    runs = list(plan.runs)

    def artefact(title: str, **options: str) -> Artefact:
        return Artefact(title=title, source=plan.title, runs=runs, **options)

    return {
        "tables": {
            "accuracy": artefact("Test accuracy"),
            "comparison": artefact(
                "Differences from the first group",
                cells="mean of the paired differences ± sample standard deviation over n seeds",
            ),
        },
        "figures": {"curves": artefact("Test accuracy over the rounds")},
    }


def _coordinate(path: str) -> str:
    """Return what a grid axis is called in coordinates and frames: the last part of its path."""
    return path.rpartition(".")[2]


def _require_columns(where: str, grid: Iterable[str]) -> None:
    """Check that the axes of a grid have names of their own among the columns of a frame.

    Args:
        where: file and key, for the error.
        grid: dotted paths.

    Raises:
        FedreproError: a name is taken.
    """
    taken = set(_COLUMNS)
    for path in grid:
        name = _coordinate(path)
        if name in taken:
            what = "a column of all runs" if name in _COLUMNS else "the end of another axis"
            raise FedreproError(f"{where}: {path}: '{name}' is {what}; use groups of runs instead")
        taken.add(name)


def merge(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return ``base`` with ``changes`` merged in, dictionaries key by key.

    A dictionary whose ``name`` or ``scheme`` changes is of another component: it is replaced as a
    whole. Values that do not change are shared with ``base``, not copied.
    """
    merged = base | changes
    for key, value in changes.items():
        old = base.get(key)
        if isinstance(value, dict) and isinstance(old, dict) and _same_kind(old, value):
            merged[key] = merge(old, value)
    return merged


def _same_kind(old: dict[str, Any], new: dict[str, Any]) -> bool:
    return all(new.get(tag, old.get(tag)) == old.get(tag) for tag in ("name", "scheme"))


def _nested(path: str, value: Any) -> dict[str, Any]:
    for part in reversed(path.split(".")):
        value = {part: value}
    assert isinstance(value, dict)
    return value


def _values(axis: list[Scalar] | Range) -> list[Scalar]:
    if isinstance(axis, Range):
        return list(range(axis.start, axis.stop + 1, axis.step))
    return axis


@functools.cache
def expand(paper: str, scale: Scale) -> tuple[PlannedRun, ...]:
    """Return the runs of a paper at a scale, in priority order: the plan's, seed by seed.

    Raises:
        FedreproError: there is no such paper or scale, or the plan is wrong (names file and key).
    """
    plan = load_plan(paper)
    entry = plan.at(scale)
    defaults = merge(plan.defaults, entry.defaults)
    planned = []
    for name, group in plan.runs.items():
        if entry.groups is not None and name not in entry.groups:
            continue
        override = entry.runs.get(name, RunGroupOverride())
        base = merge(merge(defaults, group.set), override.set)
        grid = group.grid | override.grid
        seeds = override.seeds or entry.seeds or group.seeds or plan.seeds
        trained = _product(seeds, grid)
        where = f"{_file(paper)}: runs.{name} ({scale})"
        unchanged = not (override.seeds or entry.seeds or override.grid)
        if more := override.more or (group.more if unchanged else None):
            _require_more(f"{where}: more", more, seeds, grid)
            trained += _product(more.seeds, grid | more.grid)
        for seed, point in trained:
            content = merge(base, {"seed": seed})
            for path, value in zip(grid, point, strict=True):
                content = merge(content, _nested(path, value))
            spec = validate(_with_precision(content, entry), RunSpec, where)
            coordinates = {
                _coordinate(path): value for path, value in zip(grid, point, strict=True)
            }
            planned.append(
                PlannedRun(paper, name, coordinates, seed, spec, run_id(spec), scale=scale)
            )
    return tuple(planned)


def _require_more(
    where: str, more: MoreSeeds, seeds: Seeds, grid: Mapping[str, Axis | Range]
) -> None:
    """Check that further seeds are new, and at points of the grid.

    Args:
        where: file and key, for the error.
        more: the seeds, and where.
        seeds: those of all points.
        grid: of the group.

    Raises:
        FedreproError: they are not; names the value.
    """
    if known := set(seeds) & set(more.seeds):
        raise FedreproError(f"{where}.seeds: all points have seed {min(known)}; leave it out")
    for path, values in more.grid.items():
        if path not in grid:
            raise FedreproError(f"{where}.grid: no axis '{path}' {nearest(path, list(grid))}")
        for value in values:
            if value not in _values(grid[path]):
                raise FedreproError(f"{where}.grid.{path}: the group's grid has no {value}")


def _product(
    seeds: Seeds, grid: Mapping[str, Axis | Range]
) -> list[tuple[int, tuple[Scalar, ...]]]:
    """Return seeds and grid points, every one of them with every other."""
    points = list(itertools.product(*(_values(axis) for axis in grid.values())))
    return list(itertools.product(seeds, points))


def _with_precision(content: dict[str, Any], entry: ScaleEntry) -> dict[str, Any]:
    """Return a run's content with the precision of its network at the scale, if it names none."""
    network = content.get("model", {}).get("name")
    if "precision" in content or network not in entry.precision:
        return content
    return content | {"precision": entry.precision[network]}


def at_published_scale(paper: str, ids: Iterable[str]) -> bool:
    """Return whether runs, by their ids, are all in a paper's plan at the scale ``paper``.

    Raises:
        FedreproError: as :func:`expand`.
    """
    return not set(ids).difference(run.id for run in expand(paper, "paper"))


def unique(runs: Sequence[PlannedRun]) -> dict[str, PlannedRun]:
    """Return the runs by id, each where it first occurs; equal specs are one run."""
    by_id: dict[str, PlannedRun] = {}
    for run in runs:
        by_id.setdefault(run.id, run)
    return by_id


def batches(runs: Sequence[PlannedRun], size: int) -> Iterator[tuple[str, list[PlannedRun]]]:
    """Group runs that one job may train together: same data set, model, optimiser and batch size.

    The grouping depends on the plan alone, never on what is recorded, so a batch keeps its name
    when the plan is read again while it runs.

    Args:
        runs: distinct runs in priority order.
        size: most runs in a batch.

    Yields:
        The name of a batch and its runs.
    """
    fusable: dict[str, list[PlannedRun]] = {}
    for run in runs:
        spec = run.spec
        key = f"{run.paper}_{spec.dataset.name}_{spec.model.name}_{spec.optimizer.name}{spec.batch}"
        fusable.setdefault(key, []).append(run)
    for key, members in fusable.items():
        for number, start in enumerate(range(0, len(members), size)):
            yield f"{key}_{number}", members[start : start + size]
