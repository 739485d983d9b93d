"""What the Snakefile asks: which artefacts there are, what each is made of, what is to be trained.

Paths are relative to the working directory, so that a clone may be moved without making everything
again; where that is not the clone, those of configuration and code are absolute. Only runs without
a record belong to a training job: a recorded run is a plain file that no rule makes, so nothing can
train it again by accident.
"""

from __future__ import annotations

import functools
import math
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn

from fedrepro.base.configfile import NAME, nearest
from fedrepro.base.errors import FedreproError
from fedrepro.base.paths import require_place, root
from fedrepro.fl.cost import lanes
from fedrepro.fl.data import arrays_file
from fedrepro.fl.spec import partition_id
from fedrepro.report import code
from fedrepro.runs import records
from fedrepro.runs.command import unknown_run
from fedrepro.runs.plan import PlannedRun, batches, expand, load_plan, scales, unique
from fedrepro.runs.plan_files import is_study, plan_files, plans
from fedrepro.runs.plan_schema import SCALES
from fedrepro.runs.status import Status, describe, status
from fedrepro.workflow import sources
from fedrepro.workflow.config import load_config, not_made

_FILES = {
    "tables": ("<paper>/<table>.csv", "<paper>/<table>.md"),
    "figures": ("<paper>/<figure>.svg", "<paper>/<figure>.png", "<paper>/<figure>.csv"),
    "notebooks": ("<paper>.html", "<paper>.ipynb"),
    "checks": ("<paper>.json",),
    "partitions": (
        "<paper>/<partition>.npz",
        "<paper>/overview.csv",
        "<paper>/overview.svg",
        "<paper>/overview.png",
    ),
    "report": ("index.html", "summary.txt"),
}
"""Folders of a scale in ``results`` -> the files that rules make there."""


def _made() -> str:
    """Return an expression for the files of a scale that have a rule."""
    files = [f"{folder}/{file}" for folder, names in _FILES.items() for file in names]
    return "|".join(
        re.sub("<(.*?)>", lambda part: NAME if part[1] == "paper" else "[^/.]+", re.escape(file))
        for file in files
    )


MADE = _made()
"""Regular expression for the files of a scale, in its folder, that rules make."""


@dataclass(frozen=True)
class Batch:
    """Runs that one job trains.

    Attributes:
        name: made from the plan alone, so a later parse gives the same.
        dataset: the data set all of them need.
        runs: ids of its runs that the job trains.
        tf32: ids of those among them that only a GPU can train.
        minutes: the time that the job asks a cluster for.
    """

    name: str
    dataset: str
    runs: tuple[str, ...]
    tf32: tuple[str, ...]
    minutes: int


class Workflow:
    """The plan of one Snakemake call.

    Attributes:
        config: the configuration.
        scale: the scale whose artefacts are made.
        papers: slugs of the chosen papers.
        batches: the training jobs, of the runs without a record.
        summary: how many runs of the scale are recorded, how many not, and how long these take.
    """

    def __init__(self, values: Mapping[str, Any], *, every_batch: bool = False) -> None:
        """Read the configuration and plans, and look up once which runs are recorded.

        Args:
            values: Snakemake's ``config``.
            every_batch: also the batches and runs that are recorded. For a job on another machine,
                which reads the plan again: its runs may have got their records in the meantime.

        Raises:
            FedreproError: configuration, a plan, a record or the working directory is wrong.
        """
        require_place()
        self.config = load_config(values)
        self.scale = self.config.scale
        self.papers = self.config.papers
        self._root = Path() if root() == Path.cwd() else root()
        planned = [run for paper in self.papers for run in expand(paper, self.scale)]
        self._records = {run.id: str(records.path_of(run.id, run.records)) for run in planned}
        state = status(planned)
        self.summary = f"fedrepro, scale {self.scale}: {len(state.recorded)} runs recorded"
        if state.pending:
            on_core, _ = state.left(state.pending)
            self.summary += f", {len(state.pending)} pending (estimate on one core: {on_core})"
        self._status = state
        self._without_record: set[str] = set()
        self.batches = [
            self._batch(name, trained)
            for name, members in batches(state.runs, self.config.runs_per_batch)
            if (trained := [run for run in members if every_batch or run.id in state.seconds])
        ]

    def _batch(self, name: str, runs: Sequence[PlannedRun]) -> Batch:
        tf32 = tuple(run.id for run in runs if run.needs_gpu)
        ids = tuple(run.id for run in runs)
        return Batch(name, runs[0].spec.dataset.name, ids, tf32, self._minutes(runs))

    def _minutes(self, runs: Sequence[PlannedRun]) -> int:
        """Return the minutes to ask for: the estimate, with a margin for another machine.

        On a CPU it is twice the estimate. On a GPU it is ten times what like runs took, since fewer
        of them share the card here, and what one core would take where there are none.
        """
        on_core, on_gpu = self._status.seconds, self._status.gpu_seconds
        pending = [run for run in runs if run.id in on_core]
        if self.config.on_gpu:
            seconds = sum(min(on_core[r.id], 10 * on_gpu.get(r.id, math.inf)) for r in pending)
        else:
            cores = min(self.config.threads, sum(lanes(run.spec) for run in pending))
            seconds = 2 * sum(on_core[run.id] for run in pending) / max(1, cores)
        return min(max(_FEWEST_MINUTES, math.ceil(seconds / 60)), self.config.max_minutes)

    def trained(self, jobs: Iterable[str]) -> list[Batch]:
        """Return the training jobs among the jobs of a call.

        Args:
            jobs: names of rules; as those of a module they may begin with something else.
        """
        names = tuple(jobs)
        return [b for b in self.batches if any(n.endswith(f"train_{b.name}") for n in names)]

    def cost(self, chosen: Sequence[Batch]) -> str:
        """Return a line on what training jobs cost."""
        runs = [run for batch in chosen for run in batch.runs]
        on_core, on_gpu = self._status.left(runs)
        text = f"Training jobs: {len(chosen)}; runs: {len(runs)}; estimate on one core: {on_core}"
        return f"{text}; on a GPU: {on_gpu}" if self.config.on_gpu else text

    def stale(self) -> str:
        """Return a line on files that are there although runs they are made of have no record.

        Where nothing is to be done, these are files that were asked for by their names.
        """
        if not self._without_record:
            return ""
        return (
            f"{len(self._without_record)} of the runs that the files are made of have no record "
            "any more: add `-F` to train these and make the files again"
        )

    def no_target(self, name: str, targets: Iterable[str]) -> NoReturn:
        """Refuse a target that does not exist.

        Raises:
            FedreproError: always; names the nearest target, or the paper that is switched off.
        """
        paper = name.removeprefix("all_")
        if paper in plan_files():
            self._require(self.scale, paper)
        raise FedreproError(f"unknown target '{name}' {nearest(name, sorted(targets))}")

    def no_file(self, scale: str, name: str) -> NoReturn:
        """Refuse a file of a scale that no rule makes.

        Raises:
            FedreproError: always; names the nearest scale or folder, or the files of the folder.
        """
        _require_scale(scale)
        folder = name.partition("/")[0]
        if folder not in _FILES:
            raise FedreproError(f"no folder results/{scale}/{folder} {nearest(folder, [*_FILES])}")
        raise FedreproError(
            f"nothing makes results/{scale}/{name}; results/{scale}/{folder} holds "
            f"{', '.join(_FILES[folder])}"
        )

    def no_run(self, name: str) -> NoReturn:
        """Refuse a record that no rule makes.

        Raises:
            FedreproError: always; names the record's place, or the plan and scale that the run is
                of, or, where there is no such run, the nearest ones and what lists them.
        """
        if name in self._records:
            raise FedreproError(f"the record of run {name} is {self._records[name]}")
        runs = (run for plan in plans() for scale in scales(plan) for run in expand(plan, scale))
        if run := next((run for run in runs if run.id == name), None):
            raise FedreproError(
                f"{name} is a run of {run.paper} at scale {run.scale}, and this call has scale "
                f"{self.scale} of {', '.join(self.papers)}; `{run.command}` trains it"
            )
        raise unknown_run(name, self._records, "has the id", scale=self.scale)

    def datasets(self) -> list[str]:
        """Return the files that say that the data sets of all plans are here, as :meth:`ready`."""
        return sorted({self.ready(run.spec.dataset.name) for run in self._status.runs})

    def record_of(self, run_id: str) -> str:
        """Return the file of a run's record."""
        return self._records[run_id]

    def data_of(self, batch: Batch) -> str:
        """Return the file that says that the data set of a training job is here.

        Raises:
            FedreproError: training is switched off (lists the runs of the job), or is on a CPU, and
                the job has runs that only a GPU can train.
        """
        self._pending(batch.runs)
        if batch.tf32 and not self.config.on_gpu:
            raise FedreproError(
                f"a target needs pending runs, such as {batch.tf32[0]} ({len(batch.tf32)} in one "
                "job), that have precision: tf32, which NVIDIA GPUs alone have: add `--config "
                f"device=cuda`; on a CPU, `fedrepro train --pending --scale {self.scale}` trains "
                f"the others. {_with_what_is_recorded(self.scale)}"
            )
        return self.ready(batch.dataset)

    def ready(self, dataset: str) -> str:
        """Return the file that says that a data set is here: its manifest, or one's own arrays."""
        own = arrays_file.file_of(dataset)
        return f"data/ready/{dataset}.json" if own is None else str(own)

    def found(self, name: str) -> list[str]:
        """Return what there is of a data set, wherever it lies: checksums, or sizes and names.

        Raises:
            FedreproError: unknown data set, no such folder of packed data, or half a pack.
        """
        # Only a workflow that needs data waits for these imports.
        from fedrepro.fl.data import describe, packs, sources

        chosen = self.config.data_root
        location = sources.locate(name, Path(chosen) if chosen else None)
        if location.kind == "pack":
            known = packs.sums(location.folder)
            return [f"{known[file.name]}  {file.name}" for file in location.files]
        if describe(name).official is not None:  # here or still to be downloaded, with one checksum
            return ["official"]
        return [f"{file.stat().st_size}  {file.name}" for file in location.files]

    def content_of(self, name: str) -> str:
        """Return the content hash of the other data that the runs on a data set are on; else "".

        Raises:
            FedreproError: some runs are on the data set's own, or another, content.
        """
        datasets = {run.spec.dataset for run in self._status.runs}
        contents = {dataset.content or "" for dataset in datasets if dataset.name == name}
        if len(contents) > 1:
            raise FedreproError(
                f"the plans ask for {len(contents)} contents of the data set {name} (dataset."
                "content), and one call has one folder of data: make them in calls of their own"
            )
        return contents.pop() if contents else ""

    def tables(self, papers: Iterable[str]) -> list[str]:
        """Return the tables of the papers."""
        return [
            f"results/{self.scale}/tables/{paper}/{table}.{ending}"
            for paper in papers
            for table in load_plan(paper).made("tables", self.scale)
            for ending in ("csv", "md")
        ]

    def figures(self, papers: Iterable[str]) -> list[str]:
        """Return the figures of the papers."""
        return [
            f"results/{self.scale}/figures/{paper}/{figure}.{ending}"
            for paper in papers
            for figure in load_plan(paper).made("figures", self.scale)
            for ending in ("svg", "png", "csv")
        ]

    def notebooks(self, papers: Iterable[str]) -> list[str]:
        """Return the executed notebooks of the papers."""
        return [
            f"results/{self.scale}/notebooks/{paper}.{ending}"
            for paper in papers
            if self._is_judged(paper)
            for ending in ("html", "ipynb")
        ]

    def checks(self, papers: Iterable[str]) -> list[str]:
        """Return the verdicts of the papers."""
        return [
            f"results/{self.scale}/checks/{paper}.json"
            for paper in papers
            if self._is_judged(paper)
        ]

    def overviews(self, papers: Iterable[str]) -> list[str]:
        """Return the tables of the partitions of the papers."""
        return [
            f"results/{self.scale}/partitions/{paper}/overview.{ending}"
            for paper in papers
            for ending in ("csv", "svg", "png")
        ]

    def indices(self, papers: Iterable[str]) -> list[str]:
        """Return the index lists of all partitions of the papers."""
        return [
            f"results/{self.scale}/partitions/{paper}/{partition}.npz"
            for paper in papers
            for partition in self._partitions[paper]
        ]

    @property
    def reported(self) -> list[str]:
        """Slugs of the papers in the report: all that have verdicts at this scale."""
        return [paper for paper in self.papers if self._is_judged(paper)]

    def pending_of_reported(self) -> list[str]:
        """Return the records that verdicts, notebooks and the report need and that are missing.

        Raises:
            FedreproError: no plan has any of these; or as :meth:`pending`.
        """
        if not self.reported:
            what = "plans of your own have" if self.config.plans else f"scale {self.scale} has"
            raise FedreproError(
                f"{what} no verdicts, notebooks and report: ask for all, all_tables or all_figures"
                + ("" if self.config.plans else ", or add `--config scale=lite`")
            )
        return self.pending(self.reported)

    def _is_judged(self, paper: str) -> bool:
        """Whether a plan has verdicts, notebook and report, for which all of it must be there."""
        return not is_study(paper) and load_plan(paper).at(self.scale).artefacts is None

    def runs_folder(self, paper: str) -> str:
        """Return the folder of a paper's records at this scale."""
        return str(expand(paper, self.scale)[0].records)

    def report(self) -> list[str]:
        """Return the first page of the report and its summary, if it has anything to say."""
        names = ("index.html", "summary.txt") if self.reported else ()
        return [f"results/{self.scale}/report/{name}" for name in names]

    def everything(self, papers: Sequence[str]) -> list[str]:
        """Return all that can be made from records, without data."""
        return [
            *self.tables(papers),
            *self.figures(papers),
            *self.notebooks(papers),
            *self.checks(papers),
            *self.overviews(papers),
        ]

    def pending(
        self, papers: Iterable[str], kind: Literal["tables", "figures"] | None = None
    ) -> list[str]:
        """Return the records that artefacts need and that are not there yet.

        A target asks for them beside the artefacts, for Snakemake makes no missing input of a file
        that is there.

        Args:
            papers: slugs of the papers.
            kind: what is made of each paper; None for what all its runs go into.

        Raises:
            FedreproError: training is switched off (lists the runs).
        """
        runs: dict[str, None] = {}
        for paper in papers:
            runs |= self._runs(paper, self._groups(paper, kind))
        return [self._records[run_id] for run_id in self._pending(runs)]

    def _groups(self, paper: str, kind: Literal["tables", "figures"] | None) -> set[str]:
        """Return the groups of runs that artefacts of a paper are made of."""
        plan = load_plan(paper)
        if kind is None:
            return {*plan.runs}
        return {group for name in plan.made(kind, self.scale) for group in plan.artefact(name).runs}

    def _runs(self, paper: str, groups: set[str]) -> dict[str, None]:
        """Return the ids of the runs of some groups, in plan order, each once."""
        return dict.fromkeys(run.id for run in expand(paper, self.scale) if run.group in groups)

    def _pending(self, run_ids: Iterable[str]) -> list[str]:
        """Return those of the runs that have no record.

        Raises:
            FedreproError: there are some, and training is switched off (lists them).
        """
        missing = [run_id for run_id in run_ids if run_id in self._status.seconds]
        committed = [run_id for run_id in missing if self._is_committed(run_id)]
        if committed and root() != Path.cwd() and not records.FOLDER.is_dir():
            raise FedreproError(
                f"there is no folder {records.FOLDER} in {Path.cwd()}, so runs would be trained "
                f"that have records in {root()}: start Snakemake there, or link them with `mkdir "
                f"-p results && ln -s {shlex.quote(str(root() / records.FOLDER))} results/`; to "
                f"train them here, make an empty folder {records.FOLDER}"
            )
        if missing and self.config.train == "never":
            raise FedreproError(_refusal(missing, self._status, self.scale))
        return missing

    def _is_committed(self, run_id: str) -> bool:
        return Path(self._records[run_id]).parent == records.FOLDER

    def of_table(self, scale: str, paper: str, table: str) -> dict[str, Any]:
        """Return what a table is made of."""
        self._require(scale, paper)
        groups = load_plan(paper).artefact(table, "table").runs
        self._require_made(paper, table)
        return self._files(paper, groups, ["report.artefacts"], ["measurements"])

    def of_figure(self, scale: str, paper: str, figure: str) -> dict[str, Any]:
        """Return what a figure is made of."""
        self._require(scale, paper)
        groups = load_plan(paper).artefact(figure, "figure").runs
        self._require_made(paper, figure)
        return self._files(paper, groups, ["report.drawings"], ["figures", "drawings"])

    def labels(self, scale: str, paper: str, name: str) -> dict[str, str]:
        """Return what a table or figure is called in ``snakemake --report``."""
        artefact = load_plan(paper).artefact(name)
        return {
            "title": artefact.title,
            "in the paper": artefact.source,
            "name": name,
            "scale": scale,
        }

    def of_check(self, scale: str, paper: str) -> dict[str, Any]:
        """Return what the verdicts on a paper are made of."""
        self._require_judged(scale, paper)
        parts = ["measurements", "figures", "claims"]
        return self._files(paper, load_plan(paper).runs, ["report.verdicts"], parts)

    def of_notebook(self, scale: str, paper: str) -> dict[str, Any]:
        """Return what a paper's notebook is made of."""
        self._require_judged(scale, paper)
        parts = ["measurements", "figures", "drawings", "claims"]
        made_with = ["report.verdicts", "report.notebooks"]
        files = self._files(paper, load_plan(paper).runs, made_with, parts)
        return files | {"template": str(self._root / f"notebooks/{paper}.ipynb")}

    def of_overview(self, scale: str, paper: str) -> dict[str, Any]:
        """Return what the overview of a paper's partitions is made of."""
        self._require(scale, paper)
        return self._files(paper, load_plan(paper).runs, ["report.partitions"], [])

    def of_report(self, scale: str) -> dict[str, Any]:
        """Return what the report is made of: results of a scale, and records of the published one.

        Raises:
            FedreproError: the scale is another one than this call's.
        """
        for paper in self.papers:
            self._require_judged(scale, paper)
        papers = self.reported
        shown = (".csv", ".svg", ".html")
        made = [*self.tables(papers), *self.figures(papers), *self.notebooks(papers)]
        published = unique([run for paper in papers for run in expand(paper, "paper")]).values()
        claims = [name for paper in papers if (name := code.module_of(paper, "claims"))]
        files = sources.files(["fedrepro.report.html.site", *claims])
        return {
            "results": [file for file in made if file.endswith(shown)] + self.checks(papers),
            "records": [str(records.path_of(r.id, r.records)) for r in published if r.recorded],
            "code": [str(self._root / "src/fedrepro" / file) for file in files],
        }

    def dataset_of(self, scale: str, paper: str, partition: str) -> str:
        """Return the name of the data set that a partition divides."""
        self._require(scale, paper)
        known = self._partitions[paper]
        if partition not in known:
            raise FedreproError(
                f"{paper} ({scale}) has no partition '{partition}'; "
                f"results/{scale}/partitions/{paper}/overview.csv lists all {len(known)}"
            )
        return known[partition]

    @functools.cached_property
    def _partitions(self) -> dict[str, dict[str, str]]:
        """Return by paper and partition id the name of the data set that a partition divides."""
        return {
            paper: {partition_id(r.spec): r.spec.dataset.name for r in expand(paper, self.scale)}
            for paper in self.papers
        }

    def _require(self, scale: str, paper: str) -> None:
        _require_scale(scale)
        load_plan(paper)
        if paper not in self.papers:
            if is_study(paper):
                raise FedreproError(not_made(paper))
            raise FedreproError(
                f"paper '{paper}' is switched off; add `--config papers={paper}`, or add it to "
                "papers in config/config.yaml"
            )
        if scale != self.scale:
            raise FedreproError(
                f"results/{scale}/... is made at scale {scale}, and the scale here is "
                f"{self.scale}; add `--config scale={scale}`"
            )

    def _require_made(self, paper: str, artefact: str) -> None:
        if why := load_plan(paper).not_made(artefact, self.scale):
            raise FedreproError(why)

    def _require_judged(self, scale: str, paper: str) -> None:
        self._require(scale, paper)
        if is_study(paper):
            raise FedreproError(
                f"{paper} is a plan of your own, and has no verdicts, notebook and report: ask for "
                "all, all_tables or all_figures"
            )
        if load_plan(paper).at(self.scale).artefacts is not None:
            raise FedreproError(
                f"{paper} has no verdicts, notebook and report at scale {scale}, which has a part "
                "of its runs; add `--config scale=lite`"
            )

    def _relative(self, file: Path) -> str:
        """Return a file of the clone relative to it, where that is the working directory."""
        inside = file.is_relative_to(root())
        return str(self._root / file.relative_to(root()) if inside else file)

    def _files(
        self, paper: str, groups: Iterable[str], made_with: Iterable[str], parts: Sequence[str]
    ) -> dict[str, Any]:
        """Return the records, configuration and code that something is made of.

        Args:
            paper: slug of the paper.
            groups: the groups of runs.
            made_with: modules of the package, without its name.
            parts: modules of the paper's code, which have the published values beside ours.

        Raises:
            FedreproError: some have no record, and training is switched off (lists the runs).
        """
        runs = self._runs(paper, set(groups))
        self._without_record.update(self._pending(runs))
        own = [name for part in parts if (name := code.module_of(paper, part))]
        if parts and not own:
            own = ["fedrepro.report.generic"]
        files = sources.files([*(f"fedrepro.{name}" for name in made_with), *own])
        config = [plan_files()[paper]]
        if parts and not is_study(paper):
            config.append(root() / f"config/expected/{paper}.yaml")
        imported = [name for name in sources.modules(own) if name.startswith("fedrepro.papers.")]
        config += [root() / file for file in sources.read_by(imported)]
        return {
            "records": [self._records[run_id] for run_id in runs],
            "config": [self._relative(file) for file in config],
            "code": [str(self._root / "src/fedrepro" / file) for file in files],
        }


def _require_scale(scale: str) -> None:
    if scale not in SCALES:
        raise FedreproError(f"results/{scale}: unknown scale '{scale}' {nearest(scale, SCALES)}")


_FEWEST_MINUTES = 30
"""That a job asks for: starting, reading the data and writing checkpoints takes its time."""
_MOST_LISTED = 20


def _refusal(run_ids: Sequence[str], state: Status, scale: str) -> str:
    missing = [run for run in state.runs if run.id in run_ids]
    lines = [
        f"  {run.id}  {describe(run):<60} {state.takes(run)}" for run in missing[:_MOST_LISTED]
    ]
    if len(missing) > _MOST_LISTED:
        lines.append(f"  and {len(missing) - _MOST_LISTED} more")
    (needed, _), (in_all, _) = state.left(run_ids), state.left(state.pending)
    return "\n".join(
        [
            "training is off (train: never), and needed runs have no record, "
            f"{len(missing)} in all:",
            *lines,
            f"Estimate on one core: {needed}; of all {len(state.pending)} pending runs of scale "
            f"{scale}: {in_all}. `{missing[0].command}` trains the first of them; without "
            "`--config train=never` the target trains what it needs. "
            f"{_with_what_is_recorded(scale)}",
        ]
    )


def _with_what_is_recorded(scale: str) -> str:
    return (
        "`fedrepro table`, `fedrepro figure` and `fedrepro report` make do with the recorded runs "
        f"with `--scale {scale} --partial`."
    )
