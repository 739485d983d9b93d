"""Writes the pages of the report: an overview, a page a paper, a training and a partition."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

import jinja2
import plotly

from fedrepro.base.errors import FedreproError
from fedrepro.base.files import write_text
from fedrepro.report.checks import (
    DECIDED,
    condition,
    how_sure,
    remarks,
    shown,
    shown_difference,
    tolerance,
)
from fedrepro.report.html.content import Paper, read_paper, there
from fedrepro.report.html.results import gaps, write_partial
from fedrepro.report.html.trainings import Runs, by_page, partitions, recorded, trainings
from fedrepro.report.score import COUNTS, in_words
from fedrepro.runs.plan_files import is_study
from fedrepro.runs.plan_schema import Scale

BARS = (*DECIDED, "not informative", "not tried")
"""Parts of a bar, from left to right; the last one is what no run has tried."""


def write(
    papers: Iterable[str], scale: Scale, results: Path, folder: Path, *, partial: bool = False
) -> Path:
    """Write the report, whole or not at all; return its first page.

    Args:
        papers: slugs, in order; without ``partial``, studies of our own, which have no verdicts and
            notebooks, are left out.
        scale: of the tables and figures; verdicts at the published scale stand beside.
        results: the folder of results, as :func:`fedrepro.report.html.content.read_paper` reads it;
            pages lead to the notebooks there.
        folder: where the pages go; what it holds is replaced.
        partial: make do with the runs that are recorded, of which all is made anew, without
            notebooks; ``results`` is not read.

    Raises:
        FedreproError: there is no paper, a result is missing, or the folder holds something else or
            cannot be written.
    """
    _refuse_other(folder)
    if partial:
        with TemporaryDirectory(prefix="fedrepro-") as made:
            temporary = Path(made)
            lacks = {name: write_partial(name, scale, temporary) for name in papers}
            read = [read_paper(name, scale, temporary, lacks[name]) for name in lacks]
            return _write(read, scale, temporary, folder, notebooks=None)
    judged = [name for name in papers if not is_study(name)]
    if not judged:
        raise FedreproError(
            "studies of our own have no verdicts and notebooks: name a paper, or make do without "
            "them with `--partial`"
        )
    read = [read_paper(name, scale, results, gaps(name, scale)) for name in judged]
    notebooks = results / scale / "notebooks"
    for paper in read:
        there(notebooks / f"{paper.name}.html", scale)
    return _write(read, scale, results, folder, notebooks)


def _write(
    read: Sequence[Paper], scale: Scale, results: Path, folder: Path, notebooks: Path | None
) -> Path:
    """Write the pages on papers, of which the results are there."""
    used = _uses(read)
    runs = recorded(read, scale)
    with _replaced(folder) as new:
        _copy_assets(new)
        pages = _Pages(new, scale, notebooks, folder)
        for paper in read:
            _copy_results(paper, scale, results, new)
            pages.write(f"papers/{paper.name}.html", "paper.html", paper=paper, runs=runs)
        for page, training in trainings(runs).items():
            places = dict.fromkeys(place for item in training.runs for place in used[item.run.id])
            pages.write(page, "training.html", training=training, places=places)
        for page, trained_on in partitions(runs).items():
            partition = next(iter(trained_on.values()))[0].record.partition
            pages.write(page, "partition.html", partition=partition, runs=trained_on)
        write_text(new / _ENTRIES, _entries(read, runs))
        write_text(new / "summary.txt", _summary(read, runs, folder))
        pages.write("index.html", "index.html", papers=read, bars=BARS)
    return folder / "index.html"


@contextlib.contextmanager
def _replaced(folder: Path) -> Iterator[Path]:
    """Yield a new folder, which takes the place of another once it is filled without an error."""
    old = Path(os.path.realpath(folder))  # a link stays one
    try:
        old.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f"{old.name}.", suffix=".tmp", dir=old.parent) as beside:
            new = Path(beside) / "new"
            new.mkdir()
            yield new
            aside = Path(beside) / "old"
            try:
                if old.exists():
                    old.rename(aside)
                new.rename(old)
            finally:
                if aside.exists() and not old.exists():  # it failed, or was interrupted
                    aside.rename(old)
    except OSError as error:
        raise FedreproError(
            f"{folder}: cannot be written ({error.strerror or error}); free some space or check "
            "the permissions, then run again"
        ) from error


def _refuse_other(folder: Path) -> None:
    """Make sure that nothing but an older report is replaced."""
    if folder.exists() and any(folder.iterdir()) and not (folder / _ENTRIES).exists():
        raise FedreproError(f"{folder}: holds something else than a report; name another folder")


_ENTRIES = "assets/entries.js"


class _Pages:
    """Fills templates, and writes what comes out."""

    def __init__(self, folder: Path, scale: Scale, notebooks: Path | None, read_in: Path) -> None:
        """Make ready.

        Args:
            folder: where pages are written.
            scale: of the report.
            notebooks: the folder of executed notebooks, if there are any.
            read_in: where readers find the pages, from which links lead out of the report.
        """
        self._folder = folder
        self._templates = jinja2.Environment(
            loader=jinja2.PackageLoader("fedrepro.report.html"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
        self._templates.globals.update(
            scale=scale,
            notebooks=notebooks,
            counts=COUNTS,
            shown=shown,
            shown_difference=shown_difference,
            how_sure=how_sure,
            remarks=remarks,
            condition=condition,
            tolerance=tolerance,
        )
        self._templates.filters.update(
            percent=lambda share: f"{100 * share:.0f} %",
            named=in_words,
            by_page=by_page,
            outside=lambda file: quote(os.path.relpath(file, read_in)),
            unbroken=lambda text: re.sub(" (?=[±%])|(?<=±) ", "\N{NO-BREAK SPACE}", text),
        )

    def write(self, path: str, template: str, **content: Any) -> None:
        """Write a page; ``top`` leads from it to the folder of the report."""
        top = "../" * path.count("/")
        text = self._templates.get_template(template).render(top=top, **content)
        write_text(self._folder / path, text)


def _uses(papers: Iterable[Paper]) -> dict[str, list[tuple[str, str]]]:
    """Return run id -> (paper, table or figure) of what it is part of."""
    used: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for paper in papers:
        for view in paper.views:
            for run in dict.fromkeys(run for cell in view.cells for run in cell.runs):
                used[run].append((paper.name, view.name))
    return used


def _entries(papers: Iterable[Paper], runs: Runs) -> str:
    """Return what the search looks through: kind, text, address and verdict of each entry."""
    return f"const ENTRIES = {json.dumps([*_searchable(papers, runs)], separators=(',', ':'))};\n"


def _searchable(papers: Iterable[Paper], runs: Runs) -> Iterator[tuple[str, str, str, str]]:
    for paper in papers:
        page = f"papers/{paper.name}.html"
        for item in paper.claims:
            text = f"{paper.name} {item.id}: {item.statement}"
            verdicts = dict.fromkeys(one.verdict for one in paper.at_scales(item))
            yield "claim", text, f"{page}#claim-{item.id}", ", ".join(verdicts)
        for item in paper.tried_as_published:
            yield "number", f"{paper.name} {item.where}", f"{page}#published", item.verdict
        for view in paper.made:
            text = f"{paper.name} {view.name}: {view.about.title}"
            yield view.kind, text, f"{page}#{view.name}", ""
            for cell in view.held:
                text = f"{paper.name} {view.name}: {cell.row}, {cell.column}"
                yield "number", text, f"{page}#{view.name}", cell.verdict
    for of_run in runs.values():
        run = of_run.run
        yield "run", f"{run.paper} {run.id} {run.group} seed {run.seed}", of_run.address, ""


def _summary(papers: Iterable[Paper], runs: Runs, folder: Path) -> str:
    """Return in a few lines what there is and what held."""
    papers = list(papers)
    kinds = Counter(view.kind for paper in papers for view in paper.made)
    lines = [f"{kinds['figure']} figures and {kinds['table']} tables of {len(runs)} runs"]
    lines += [
        f"{paper.name:<10} {paper.recorded} of {paper.planned} runs are recorded"
        for paper in papers
        if paper.recorded < paper.planned
    ]
    told = []
    for paper in papers:
        for outcome in paper.outcomes:
            tried = {k: outcome.counts[k] for k in BARS[:-1] if outcome.counts[k]}
            counts = ", ".join(f"{count} {name}" for name, count in tried.items()) or "none tried"
            told.append((paper.name, f"{outcome.what}, scale {outcome.scale}", counts))
    width = max((len(what) for _, what, _ in told), default=0)
    lines += [f"{name:<10} {what:<{width}}  {counts}" for name, what, counts in told]
    return "\n".join([*lines, f"Open {folder / 'index.html'}"]) + "\n"


def _copy_assets(folder: Path) -> None:
    """Copy style and scripts; curves are drawn by Plotly, whose script is part of the package."""
    for file in (resources.files("fedrepro.report.html") / "assets").iterdir():
        write_text(folder / "assets" / file.name, file.read_text(encoding="utf-8"))
    script = resources.files(plotly) / "package_data/plotly.min.js"
    write_text(folder / "assets/plotly.js", script.read_text(encoding="utf-8"))


def _copy_results(paper: Paper, scale: Scale, results: Path, folder: Path) -> None:
    """Copy a paper's figures, and the data of figures and tables."""
    for view in paper.made:
        endings = ("csv", "svg") if view.kind == "figure" else ("csv",)
        for ending in endings:
            source = results / scale / f"{view.kind}s" / paper.name / f"{view.name}.{ending}"
            target = folder / "data" / paper.name / f"{view.name}.{ending}"
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(there(source, scale), target)
