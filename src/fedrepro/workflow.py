"""What the Snakefile asks: which artefacts there are, what each is made of, what is to be trained.

Paths are relative to the working directory, so that a clone may be moved without making everything
again; where that is not the clone, those of configuration and code are absolute. Only runs without
a record belong to a training job: a recorded run is a plain file that no rule makes, so nothing can
train it again by accident.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedrepro import records
from fedrepro.config import load_config
from fedrepro.errors import FedreproError
from fedrepro.paths import root
from fedrepro.plan import PlannedRun, batches, expand, load_plan
from fedrepro.spec import partition_id
from fedrepro.status import Status, describe, duration, status

ANALYSIS = ("artefacts", "configfile", "expected", "plan", "records", "runs", "spec", "stats")
"""Modules that every table, figure, check and notebook is made with."""


@dataclass(frozen=True)
class Batch:
    """Runs that one job trains.

    Attributes:
        name: made from the plan alone, so a later parse gives the same.
        dataset: the data set all of them need.
        runs: ids of its runs that the job trains.
    """

    name: str
    dataset: str
    runs: tuple[str, ...]


class Workflow:
    """The plan of one Snakemake call.

    Attributes:
        config: the configuration.
        scale: the scale whose artefacts are made.
        papers: slugs of the chosen papers.
        batches: the training jobs, of the runs without a record.
        summary: how many runs are recorded, how many to train, and how long that takes.
    """

    def __init__(self, values: Mapping[str, Any], *, every_batch: bool = False) -> None:
        """Read the configuration and plans, and look up once which runs are recorded.

        Args:
            values: Snakemake's ``config``.
            every_batch: also the batches and runs that are recorded. For a job on another machine,
                which reads the plan again: its runs may have got their records in the meantime.

        Raises:
            FedreproError: configuration, a plan or a record is wrong.
        """
        self.config = load_config(values)
        self.scale = self.config.scale
        self.papers = self.config.papers
        self._root = Path() if root() == Path.cwd() else root()
        planned = [run for paper in self.papers for run in expand(paper, self.scale)]
        self._records = {run.id: str(records.path_of(run.id)) for run in planned}
        state = status(planned)
        minutes = duration(state.pending_seconds)
        self.summary = f"fedrepro, scale {self.scale}: {len(state.recorded)} runs recorded"
        if state.pending:
            self.summary += f", {len(state.pending)} to train (about {minutes} on one core)"
        if not records.FOLDER.is_dir():
            self.summary += f"; there is no folder {records.FOLDER} in {Path.cwd()}"
        self._status = state
        self.batches = [
            Batch(name, members[0].spec.dataset.name, ids)
            for name, members in batches(state.runs, self.config.runs_per_batch)
            if (ids := tuple(r.id for r in members if every_batch or r.id in state.seconds))
        ]

    def data_of(self, batch: Batch) -> str:
        """Return what a training job needs.

        Raises:
            FedreproError: training is switched off; lists what has no record.
        """
        if self.config.train == "never":
            raise FedreproError(_refusal(self._status, self.scale))
        return f"data/ready/{batch.dataset}.json"

    def of_dataset(self, name: str) -> list[str]:
        """Return the files that hold a data set now; none where it is downloaded or made up.

        Raises:
            FedreproError: unknown data set, no such folder of packed data, or half a pack.
        """
        from fedrepro.data import sources  # only a workflow that needs data waits for this import

        chosen = self.config.data_root
        return [str(file) for file in sources.locate(name, Path(chosen) if chosen else None).files]

    def tables(self, papers: Iterable[str]) -> list[str]:
        """Return the tables of the papers."""
        return [
            f"results/{self.scale}/tables/{paper}/{table}.{ending}"
            for paper in papers
            for table in load_plan(paper).tables
            for ending in ("csv", "md")
        ]

    def figures(self, papers: Iterable[str]) -> list[str]:
        """Return the figures of the papers."""
        return [
            f"results/{self.scale}/figures/{paper}/{figure}.{ending}"
            for paper in papers
            for figure in load_plan(paper).figures
            for ending in ("svg", "png", "csv")
        ]

    def notebooks(self, papers: Iterable[str]) -> list[str]:
        """Return the executed notebooks of the papers."""
        return [
            f"results/{self.scale}/notebooks/{paper}.{ending}"
            for paper in papers
            for ending in ("html", "ipynb")
        ]

    def checks(self, papers: Iterable[str]) -> list[str]:
        """Return the verdicts of the papers."""
        return [f"results/{self.scale}/checks/{paper}.json" for paper in papers]

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

    def everything(self, papers: Sequence[str]) -> list[str]:
        """Return all that can be made from records, without data."""
        return [
            *self.tables(papers),
            *self.figures(papers),
            *self.notebooks(papers),
            *self.checks(papers),
            *self.overviews(papers),
        ]

    def of_table(self, scale: str, paper: str, table: str) -> dict[str, Any]:
        """Return what a table is made of."""
        self._require(scale, paper)
        entry = load_plan(paper).artefact(table, "table")
        modules = (*ANALYSIS, *FOR_TABLES.get(paper, ()), "tables/__init__", f"tables/{paper}")
        return self._files(paper, entry.runs, modules)

    def of_figure(self, scale: str, paper: str, figure: str) -> dict[str, Any]:
        """Return what a figure is made of."""
        self._require(scale, paper)
        entry = load_plan(paper).artefact(figure, "figure")
        return self._files(paper, entry.runs, (*ANALYSIS, *_drawing(paper)))

    def of_check(self, scale: str, paper: str) -> dict[str, Any]:
        """Return what the verdicts on a paper are made of."""
        self._require(scale, paper)
        claims = ("checks", "claims/__init__", "claims/finding", f"claims/{paper}")
        modules = (*ANALYSIS, *_drawing(paper), *claims)
        return self._files(paper, load_plan(paper).runs, modules)

    def of_notebook(self, scale: str, paper: str) -> dict[str, Any]:
        """Return what a paper's notebook is made of."""
        files = self.of_check(scale, paper)
        code = [*files["code"], str(self._root / "src/fedrepro/display.py")]
        return files | {"code": code, "template": str(self._root / f"notebooks/{paper}.ipynb")}

    def of_overview(self, scale: str, paper: str) -> dict[str, Any]:
        """Return what the overview of a paper's partitions is made of."""
        self._require(scale, paper)
        modules = (*ANALYSIS, "partition_artefacts", "plots/style")
        return self._files(paper, load_plan(paper).runs, modules)

    def dataset_of(self, scale: str, paper: str, partition: str) -> str:
        """Return the name of the data set that a partition divides."""
        self._require(scale, paper)
        known = self._partitions[paper]
        if partition not in known:
            raise FedreproError(
                f"{paper} ({scale}) has no partition '{partition}'; "
                f"results/{scale}/partitions/{paper}/overview.csv lists all {len(known)}"
            )
        return known[partition].spec.dataset.name

    @functools.cached_property
    def _partitions(self) -> dict[str, dict[str, PlannedRun]]:
        """Return by paper and partition id the first run that uses a partition."""
        return {
            paper: {partition_id(run.spec): run for run in reversed(expand(paper, self.scale))}
            for paper in self.papers
        }

    def _require(self, scale: str, paper: str) -> None:
        load_plan(paper)
        if paper not in self.papers:
            raise FedreproError(
                f"paper '{paper}' is switched off; add `--config papers={paper}`, or add it to "
                "papers in config/config.yaml"
            )
        if scale != self.scale:
            raise FedreproError(
                f"results/{scale}/... is made at scale {scale}, and the scale here is "
                f"{self.scale}; add `--config scale={scale}`"
            )

    def _files(self, paper: str, groups: Iterable[str], modules: Iterable[str]) -> dict[str, Any]:
        wanted = set(groups)
        runs = dict.fromkeys(run.id for run in expand(paper, self.scale) if run.group in wanted)
        return {
            "records": [self._records[run_id] for run_id in runs],
            "config": [
                str(self._root / f"config/papers/{paper}.yaml"),
                str(self._root / f"config/expected/{paper}.yaml"),
                *(str(self._root / file) for file in ALSO_READ.get(paper, ())),
            ],
            "code": [str(self._root / f"src/fedrepro/{module}.py") for module in modules],
        }


FOR_TABLES = {
    "cadis": ("algorithms/clustering", "algorithms/probe"),
    "fedcd": (
        "algorithms/fedcd",
        "partition/archetypes",
        "partition/shared",
        "data/registry",
        "models/__init__",
        "models/fedcd_cnn",
        "models/layers",
    ),
    "selective": (
        "algorithms/__init__",
        "algorithms/fedavg",
        "algorithms/local",
        "algorithms/selective",
        "algorithms/sgd",
        "data/registry",
        "models/__init__",
        "models/layers",
        "models/liu1",
        "models/liu2",
        "models/liu3",
    ),
}
"""Modules that a paper's tables and figures are made with besides its own of tables."""

FOR_FIGURES = {
    "selective": ("theory",),
    "tricks": ("conflicts",),
    "cadis": (
        "meeting",
        "data/dataset",
        "data/pill_counts",
        "data/registry",
        "data/sources",
        "data/synthetic",
        "data/synthetic_pills",
    ),
    "fedcd": ("plots/fedcd_curves", "plots/fedcd_logs"),
}
"""Modules that a paper's figures are made with besides those and its own of plots."""

_DATASETS = "config/datasets.yaml"
ALSO_READ = {
    "cadis": ("benchmarks/cadis.json", _DATASETS),
    "fedcd": (_DATASETS,),
    "selective": (_DATASETS,),
}
"""Files besides plan and published values that a paper's tables and figures are made from."""


def _drawing(paper: str) -> tuple[str, ...]:
    return (
        *FOR_TABLES.get(paper, ()),
        *FOR_FIGURES.get(paper, ()),
        "tables/__init__",
        f"tables/{paper}",
        "plots/__init__",
        "plots/figure",
        "plots/style",
        f"plots/{paper}",
    )


_MOST_LISTED = 20


def _refusal(state: Status, scale: str) -> str:
    seconds = state.seconds
    missing = [run for run in state.runs if run.id in seconds]
    lines = [
        f"  {run.id}  {describe(run):<60} about {seconds[run.id] / 60:.2f} min"
        for run in missing[:_MOST_LISTED]
    ]
    if len(missing) > _MOST_LISTED:
        more = len(missing) - _MOST_LISTED
        lines.append(f"  and {more} more: `fedrepro status --list --scale {scale}`")
    total = state.pending_seconds / 60
    return "\n".join(
        [
            f"{len(missing)} runs of scale {scale} have no record, and training is switched off "
            "(train: never):",
            *lines,
            f"They would take about {total:.2f} min on one core. Train them with `fedrepro train "
            f"--pending --scale {scale}`, or leave out `--config train=never`.",
        ]
    )
