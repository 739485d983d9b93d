"""Experiment plans, read and expanded into runs: one pure function.

Runs are specs, and equal specs are one run: two figures, papers or scales that ask for the same
training share its record.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from fedrepro.base.configfile import nearest, read_yaml, validate
from fedrepro.base.errors import FedreproError
from fedrepro.fl.data import describe, registry
from fedrepro.fl.spec import (
    RunSpec,
    component_names,
    component_versions,
    identity,
    not_here,
    run_id,
    spec_dict,
)
from fedrepro.runs.plan_files import argument, file_of, is_own
from fedrepro.runs.plan_schema import (
    COMMITTED,
    SCALES,
    Artefact,
    Axis,
    MoreSeeds,
    PaperPlan,
    Range,
    RunGroupOverride,
    Scalar,
    Scale,
    ScaleEntry,
    Seeds,
)
from fedrepro.runs.records import FOLDER, OWN_FOLDER, is_recorded, path_of

_COLUMNS = {"group", "title", "seed", "run", "round", "value"}
"""Columns of the frames of :class:`fedrepro.runs.runset.RunSet` besides grid and labels."""


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

    @functools.cached_property
    def point(self) -> tuple[Hashable, ...]:
        """Its place in the plan but for the seed: runs of one point repeat each other."""
        return (self.scale, self.paper, self.group, *self.coordinates.items())

    @property
    def records(self) -> Path:
        """The folder of its record: a paper's at the scales ``paper`` and ``lite`` are committed.

        A run whose record is among the committed ones has it there, whoever plans it.
        """
        if self.folder is not None:
            return self.folder
        committed = path_of(self.id).exists() or (
            self.scale in COMMITTED and not is_own(self.paper)
        )
        return FOLDER if committed else OWN_FOLDER

    def on_content(self, sha256: str) -> PlannedRun:
        """Return the run that does the same on other data of this content hash: one's own."""
        dataset = self.spec.dataset.model_copy(update={"content": sha256})
        spec = self.spec.model_copy(update={"dataset": dataset})
        return dataclasses.replace(self, spec=spec, id=run_id(spec), folder=OWN_FOLDER)

    @property
    def needs_gpu(self) -> bool:
        """Whether no CPU can train it: NVIDIA GPUs alone have TF32."""
        return self.spec.precision == "tf32"

    @property
    def command(self) -> str:
        """The command that trains it."""
        return training_command([self])

    @property
    def recorded(self) -> bool:
        """Whether it has a valid record.

        Raises:
            FedreproError: it has one that is damaged, edited or of another run.
        """
        return is_recorded(self.id, self.records)


def on_device(runs: Iterable[PlannedRun], device: str = "cpu") -> str:
    """Return the option that ``train`` takes for a device: a GPU where one of the runs needs it."""
    chosen = "cuda" if any(run.needs_gpu for run in runs) else device
    return f" --device {chosen}" if chosen != "cpu" else ""


def arguments(runs: Sequence[PlannedRun]) -> str:
    """Return how commands name runs of one plan: by their ids, and the plan if it is one's own."""
    own = [f"--paper {argument(runs[0].paper)}"] if is_own(runs[0].paper) else []
    return " ".join([*(run.id for run in runs), *own])


def training_command(runs: Sequence[PlannedRun], device: str = "cpu") -> str:
    """Return the command that trains runs of one plan."""
    return f"fedrepro train {arguments(runs)}{on_device(runs, device)}"


def scales(paper: str) -> list[Scale]:
    """Return the scales that a plan has, the published one first.

    Raises:
        FedreproError: as :func:`load_plan`.
    """
    plan = load_plan(paper)
    return [scale for scale in SCALES if plan.has(scale)]


@functools.cache
def load_plan(paper: str) -> PaperPlan:
    """Read a paper's plan.

    Raises:
        FedreproError: there is no such paper, or the file is wrong (names the key).
    """
    file = file_of(paper)
    plan = read_yaml(file, PaperPlan)
    if plan.paper != paper:
        raise FedreproError(
            f"{file}: paper: '{plan.paper}' is not the name of the file; write `paper: {paper}`, "
            "or rename the file"
        )
    if not (plan.tables or plan.figures):
        plan = plan.model_copy(update=_plain_artefacts(plan))
    _require_consistent(file, plan)
    return plan


def _require_consistent(file: Path, plan: PaperPlan) -> None:
    """Check that what a plan names is in it, and that artefacts and columns have their own names.

    Raises:
        FedreproError: it is not so; names file and key.
    """
    for name in plan.figures:
        if name in plan.tables:
            raise FedreproError(
                f"{file}: figures.{name}: a table is called so too; rename one of them"
            )
    for kind, artefacts in (("tables", plan.tables), ("figures", plan.figures)):
        for name, artefact in artefacts.items():
            for group in artefact.runs:
                if group not in plan.runs:
                    raise FedreproError(
                        f"{file}: {kind}.{name}.runs: no group of runs '{group}' "
                        f"{nearest(group, list(plan.runs))}"
                    )
            _require_others(f"{file}: {kind}.{name}.compared_with", artefact)
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
            where, members = f"{file}: scales.{scale}.runs.{group}.grid", plan.runs[group]
            _require_columns(where, [*members.labels, *(members.grid | override.grid)])


def _require_others(where: str, artefact: Artefact) -> None:
    """Check that what a table or figure compares is among its groups, and what with as well.

    Args:
        where: file and key, for the error.
        artefact: the table or figure.

    Raises:
        FedreproError: a group is not, or there is no other.
    """
    for group in artefact.compared_with:
        if group not in artefact.runs:
            raise FedreproError(
                f"{where}: '{group}' is not among its runs {nearest(group, artefact.runs)}"
            )
    if artefact.runs and not set(artefact.runs) - set(artefact.compared_with):
        raise FedreproError(f"{where}: these are all of its runs; leave out those that it compares")


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

    def artefact(title: str, **options: Any) -> Artefact:
        return Artefact(title=title, source=plan.title, runs=runs, **options)

    return {
        "tables": {
            "accuracy": artefact("Test accuracy"),
            "comparison": artefact(
                "Differences from the first group at the same grid point",
                cells="mean of the paired differences ± sample standard deviation over n seeds",
            ),
            "rounds": artefact(
                "Communication rounds until a test accuracy is reached",
                cells="mean ± sample standard deviation over the n seeds that reach it; "
                "not reached: by none of them",
            ),
            "metrics": artefact("All metrics after the last round"),
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
            what = (
                "a column of all runs"
                if name in _COLUMNS
                else "the end of another axis, or a label"
            )
            raise FedreproError(f"{where}: {path}: '{name}' is {what}; use groups of runs instead")
        taken.add(name)


def merge(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return ``base`` with ``changes`` merged in, dictionaries key by key.

    A dictionary whose ``name`` or ``scheme`` changes, or that has a ``file`` where there was a
    ``name``, is of another component: it is replaced as a whole. Values that do not change are
    shared with ``base``, not copied.
    """
    merged = base | changes
    for key, value in changes.items():
        old = base.get(key)
        if isinstance(value, dict) and isinstance(old, dict) and _same_kind(old, value):
            merged[key] = merge(old, value)
    return merged


def _same_kind(old: dict[str, Any], new: dict[str, Any]) -> bool:
    if "file" in new and "name" in old:
        return False
    return all(new.get(tag, old.get(tag)) == old.get(tag) for tag in ("name", "scheme"))


def left_behind(paper: str, scale: Scale) -> list[str]:
    """Say which settings of a plan's defaults do not hold for groups that could have them.

    A group that names another component replaces an entry of the defaults as a whole
    (:func:`merge`). Another algorithm may then draw all clients where the defaults say
    ``participants: 8``.

    Returns:
        A sentence for each setting that the new component has, too, and neither the group nor its
        grid gives.

    Raises:
        FedreproError: as :func:`expand`.
    """
    plan = load_plan(paper)
    defaults = merge(plan.defaults, plan.at(scale).defaults)
    groups: dict[str, dict[str, None]] = {}
    for run in expand(paper, scale):
        for key, shared in defaults.items():
            own = getattr(run.spec, key, None)
            if not (isinstance(shared, dict) and isinstance(own, BaseModel)):
                continue
            for name in shared.keys() & type(own).model_fields.keys() - own.model_fields_set:
                if getattr(own, name) != shared[name]:
                    groups.setdefault(f"{key}.{name}: {shared[name]}", {})[run.group] = None
    return [
        f"{file_of(paper)}: {setting} of defaults does not hold for {', '.join(groups[setting])}: "
        f"another component replaces all of {setting.partition('.')[0]}; repeat it in their `set` "
        "if it is meant"
        for setting in sorted(groups)
    ]


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
    plan, file = load_plan(paper), file_of(paper)
    entry = plan.at(scale)
    defaults = merge(plan.defaults, entry.defaults)
    versions: dict[tuple[str, ...], dict[str, int | str]] = {}  # by names of components
    planned = []
    for name, group in plan.runs.items():
        if entry.groups is not None and name not in entry.groups:
            continue
        override = entry.runs.get(name, RunGroupOverride())
        where = f"{file}: runs.{name} ({scale})"
        base = merge(merge(defaults, group.set), override.set)
        if "seed" in base:
            raise FedreproError(f"{where}: seed: say it by `seeds` of the plan, scale or group")
        grid = plan.grid(name, scale)
        seeds = override.seeds or entry.seeds or group.seeds or plan.seeds
        trained = _product(seeds, grid)
        unchanged = not (override.seeds or entry.seeds or override.grid)
        if more := override.more or (group.more if unchanged else None):
            _require_more(f"{where}: more", more, seeds, grid)
            trained += _product(more.seeds, grid | more.grid)
        for seed, point in trained:
            content = merge(base, {"seed": seed})
            at = dict(zip(grid, point, strict=True))
            for path, value in at.items():
                content = merge(content, _nested(path, value))
            content = _with_precision(content, entry)
            place = f"{where}, at {_listed(at)}" if at else where
            spec = _spec(content, place, file.parent)
            coordinates = {_coordinate(path): value for path, value in at.items()}
            try:
                _require_images(spec)
                plain = spec_dict(spec)
                components = component_names(plain)
                if components not in versions:
                    versions[components] = component_versions(plain)
            except FedreproError as error:
                raise FedreproError(f"{place}: {error}") from error
            found = identity(plain, versions[components])
            planned.append(PlannedRun(paper, name, coordinates, seed, spec, found, scale=scale))
    return tuple(planned)


def _spec(content: dict[str, Any], where: str, folder: Path) -> RunSpec:
    """Return the run that a content describes.

    Args:
        content: as in a plan.
        where: file, group and grid point, for the error.
        folder: where the names of files in it begin.

    Raises:
        FedreproError: it is wrong; names the keys, and what a package may define.
    """
    try:
        return validate(content, RunSpec, where, folder)
    except FedreproError as error:
        if unknown := not_here(content):
            names = ", ".join(unknown)
            cure = f"  put {names} right, or install the package that defines it"
            raise FedreproError(f"{error}\n{cure}") from error
        raise


def _listed(point: Mapping[str, Scalar]) -> str:
    """Return a grid point for readers: ``batch: 8, partition.clients: 10``."""
    return ", ".join(f"{path}: {value}" for path, value in point.items())


def _require_images(spec: RunSpec) -> None:
    """Check that a run's images can be cut as it says, and are here if they are one's own.

    Raises:
        FedreproError: they cannot, or are not.
    """
    dataset = spec.dataset
    cut = dataset.downsample > 1 or dataset.transform == "tutorial24"
    if cut or registry.IN_MEMORY.match(dataset.name):
        dataset.input_shape(describe(dataset.name).shape)


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
    model = content.get("model")
    network = model.get("name") if isinstance(model, dict) else None
    if "precision" in content or network not in entry.precision:
        return content
    return content | {"precision": entry.precision[network]}


def unique(runs: Sequence[PlannedRun]) -> dict[str, PlannedRun]:
    """Return the runs by id, each where it first occurs; equal specs are one run."""
    by_id: dict[str, PlannedRun] = {}
    for run in runs:
        by_id.setdefault(run.id, run)
    return by_id


def batches(runs: Sequence[PlannedRun], size: int) -> Iterator[tuple[str, list[PlannedRun]]]:
    """Group runs that one job may train together: same data set, model, optimiser and batch size.

    At the published scale, where a run takes hours, they are also of one group of the plan, since
    artefacts ask for groups and a job trains its whole batch. The grouping depends on the plan
    alone, never on what is recorded, so a batch keeps its name when the plan is read again while
    it runs.

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
        if run.scale == "paper":
            key += re.sub(r"[^\w.-]", "-", f"_{run.group}")  # no path, and no wildcard of Snakemake
        fusable.setdefault(key, []).append(run)
    for key, members in fusable.items():
        for number, start in enumerate(range(0, len(members), size)):
            yield f"{key}_{number}", members[start : start + size]
