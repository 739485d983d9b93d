"""Builds the frames of tables and figures, published values beside ours; writes tables."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from fedrepro.base.errors import FedreproError
from fedrepro.base.files import write_text
from fedrepro.report import code
from fedrepro.report.expected import cell_key, published
from fedrepro.runs.plan import load_plan, unique
from fedrepro.runs.plan_files import file_of, is_study
from fedrepro.runs.runset import MissingRunsError, RunSet

_Made = TypeVar("_Made")
_NO_CELL = "No run gives it a cell."


def frame(runs: RunSet, name: str, *, partial: bool = False) -> pd.DataFrame:
    """Return the frame of a table or figure, with columns ``unit`` and ``published``.

    ``published`` holds what the expected values have for a cell, else what the table or figure
    itself has.

    Args:
        runs: the paper's runs at a scale.
        name: of the table or figure.
        partial: make it of the runs that are recorded (:func:`left_out` says which are not).

    Raises:
        FedreproError: no such artefact, or a record is missing; says what to do.
    """
    artefact = runs.plan.artefact(name)
    if why := runs.plan.not_made(name, runs.scale):
        raise MissingRunsError(why)
    if not partial:
        runs.require(artefact.runs, name, "; `--partial` leaves them out")
        return _made_of(runs, name)
    runs = runs.recorded()
    try:
        return _made_of(runs, name)
    except MissingRunsError as error:
        recorded = unique(runs.members(artefact.runs))
        if not recorded:
            runs.require(artefact.runs, name)
        planned = unique(runs.planned(artefact.runs))
        which = f"the {len(recorded)} of {len(planned)} runs that are recorded"
        where = f"{runs.paper}, scale {runs.scale}: "
        reason = str(error).removeprefix(where)
        if not error.missing:
            reason += f"; {runs.how_to_train(runs.missing(artefact.runs))}"
        message = f"{where}{name} cannot be made of {which}: {reason}"
        raise MissingRunsError(message, error.missing) from error


def _made_of(runs: RunSet, name: str) -> pd.DataFrame:
    if name in runs.plan.tables:
        cells = made_by(code.tables(runs.paper), "TABLES", runs, name)(runs)
    else:
        figure = made_by(code.figures(runs.paper), "FIGURES", runs, name)
        cells = figure.with_units(figure.data(runs))
    return _with_published(cells, runs.paper, name)


def made_by(functions: Mapping[str, _Made], listed: str, runs: RunSet, name: str) -> _Made:
    """Return what makes, or draws, a table or figure of the plan.

    Args:
        functions: those of the paper.
        listed: what the paper's code calls them, a key of :data:`fedrepro.report.code.MODULES`.
        runs: the paper's runs at a scale.
        name: of the table or figure.

    Raises:
        FedreproError: there is no such function.
    """
    if name not in functions:
        kind = "tables" if name in runs.plan.tables else "figures"
        folder = f"src/fedrepro/papers/{code.package_of(runs.paper)}"
        cure = f"name one in {listed} of {folder}/{code.MODULES[listed]}.py"
        if not code.has_code(runs.paper):
            cure = f"a plan without code of its own has {', '.join(functions)} there, or {cure}"
        raise FedreproError(f"{file_of(runs.paper)}: {kind}.{name}: no function makes it; {cure}")
    return functions[name]


def keys_of(cells: pd.DataFrame) -> list[tuple[str, str]]:
    """Return the key of every cell of a frame: its first two columns as text."""
    return [cell_key(a, b) for a, b in zip(cells.iloc[:, 0], cells.iloc[:, 1], strict=True)]


def _with_published(cells: pd.DataFrame, paper: str, name: str) -> pd.DataFrame:
    place = load_plan(paper).artefact(name).part_of or name
    values, sds = published(paper, place), published(paper, place, "sd")
    result = cells.copy()
    for column in ("values", "runs"):
        if column in result:
            result[column] = [as_tuple(cell) for cell in result[column]]
    own = cells.get("published", pd.Series(float("nan"), cells.index))
    result["published"] = [
        values.get(key, known) for key, known in zip(keys_of(cells), own, strict=True)
    ]
    if sds:
        result["published_sd"] = [sds.get(key, math.nan) for key in keys_of(cells)]
    return result


def as_tuple(cell: Any) -> Any:
    """Return a cell's values or run ids as a tuple; there may be one, or none."""
    if isinstance(cell, tuple):
        return cell
    return () if cell == "" or pd.isna(cell) else (cell,)


@dataclass(frozen=True)
class Lacking:
    """Groups of runs that lack equally many records.

    Attributes:
        missing: how many runs of each group have no record.
        planned: of how many.
        datasets: on which of several data sets; none where their groups have only one.
        titles: of the groups; those on several data sets may share one.
    """

    missing: int
    planned: int
    datasets: tuple[str, ...]
    titles: tuple[str, ...]

    @property
    def how_many(self) -> str:
        """How many runs, without the titles: ``2 of 3 runs each on mnist``."""
        each = " each" if len(self.titles) > 1 or len(self.datasets) > 1 else ""
        on = f" on {', '.join(self.datasets)}" if self.datasets else ""
        return f"{self.missing} of {self.planned} runs{each}{on}"

    @property
    def runs(self) -> int:
        """How many runs have no record, all groups and data sets together."""
        return self.missing * len(self.titles) * max(1, len(self.datasets))


def left_out(runs: RunSet, name: str) -> str:
    """Say of which groups of runs a table or figure lacks records; empty if of none."""
    parts = [f"{each.how_many} of {'; '.join(each.titles)}." for each in lacking(runs, name)]
    return f"{LEFT_OUT}: {' '.join(parts)}" if parts else ""


def left_out_briefly(runs: RunSet, name: str) -> str:
    """Say it in two lines or so: by name only the groups of which nothing is recorded."""
    found = lacking(runs, name)
    whole = [each for each in found if each.missing == each.planned]
    if sum(len(each.titles) for each in found if each not in whole) < 2:
        return left_out(runs, name)
    parts = [f"{each.how_many} of {'; '.join(each.titles)}." for each in whole]
    planned = runs.planned(runs.groups_of(name))
    absent = sum(each.runs for each in whole)
    missing = sum(not runs.is_recorded(run) for run in planned) - absent
    other = "other " if whole else ""
    parts.append(f"{missing} of {len(planned) - absent} {other}runs.")
    return f"{LEFT_OUT}: {' '.join(parts)}"


LEFT_OUT = "Left out, as they have no record"


def lacking(runs: RunSet, name: str) -> list[Lacking]:
    """Return the groups of runs of which a table or figure lacks records.

    Groups on several data sets may share a title: then the data sets are named.
    """
    missing: dict[str, Counter[str]] = defaultdict(Counter)
    planned: dict[str, Counter[str]] = defaultdict(Counter)
    for run in runs.planned(runs.groups_of(name)):
        title, dataset = runs.plan.runs[run.group].title, run.spec.dataset.name
        missing[title][dataset] += not runs.is_recorded(run)
        planned[title][dataset] += 1
    alike: dict[tuple[int, int, tuple[str, ...]], list[str]] = {}
    for title, counts in missing.items():
        for count, all_, datasets in _by_datasets(counts, planned[title]):
            alike.setdefault((count, all_, datasets), []).append(title)
    return [Lacking(*counts, tuple(titles)) for counts, titles in alike.items()]


def _by_datasets(
    missing: Counter[str], planned: Counter[str]
) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """Yield how many runs are missing, of how many, and on which of several data sets."""
    alike: dict[tuple[int, int], list[str]] = {}
    for dataset, count in missing.items():
        if count:
            alike.setdefault((count, planned[dataset]), []).append(dataset)
    for (count, all_), datasets in alike.items():
        yield count, all_, tuple(datasets) if len(planned) > 1 else ()


def write_table(runs: RunSet, name: str, stem: Path, *, partial: bool = False) -> None:
    """Write ``<stem>.csv`` (one row a cell) and ``<stem>.md`` (laid out as in the paper).

    Args:
        runs: the paper's runs at a scale.
        name: of the table.
        stem: file name without ending.
        partial: make do with what is recorded, and say what is left out.

    Raises:
        FedreproError: the paper has no such table, or a record is missing that it cannot do
            without.
    """
    runs.plan.artefact(name, "table")
    cells = frame(runs, name, partial=partial)
    write_csv(stem, cells)
    write_text(stem.with_name(f"{stem.name}.md"), markdown(runs, name, cells))


def write_csv(stem: Path, cells: pd.DataFrame) -> None:
    """Write ``<stem>.csv``, one row a cell or plotted point."""
    write_text(stem.with_name(f"{stem.name}.csv"), as_csv(cells))


def as_csv(cells: pd.DataFrame) -> str:
    """Return a frame as csv; a cell of several values or run ids has them separated by spaces."""
    plain = cells.copy()
    for column in ("values", "runs"):
        if column in plain:
            plain[column] = [" ".join(map(_text, cell)) for cell in plain[column]]
    text: str = plain.to_csv(index=False, float_format="%.10g")
    return text


def _text(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"


def markdown(runs: RunSet, name: str, cells: pd.DataFrame, *, note: bool = True) -> str:
    """Lay a table out: rows and columns by key, each cell ``mean ± sd (n) [published]``.

    Below it stands what is left out for want of records, if anything is.

    Args:
        runs: the paper's runs at a scale.
        name: of the table.
        cells: as of :func:`frame`.
        note: say above it what the scale changes.
    """
    grid = _grid(cells).rename(index=_in_a_row, columns=_in_a_row)
    title, rest = _about(runs, name, note=note)
    missing = left_out(runs, name)
    body = _NO_CELL if grid.empty else grid.to_markdown()
    return f"**{title}** {rest}\n\n{body}\n" + (f"\n{missing}\n" if missing else "")


def latex(runs: RunSet, name: str, cells: pd.DataFrame) -> str:
    """Lay a table out likewise, for LaTeX with the package booktabs.

    What it shows, and what is left out, stands above it as comments.

    Args:
        runs: the paper's runs at a scale.
        name: of the table.
        cells: as of :func:`frame`.
    """
    grid = _grid(cells).rename_axis(index=None, columns=None)
    lines = [" ".join(_about(runs, name)), _NO_CELL if grid.empty else "", left_out(runs, name)]
    comments = "".join(f"% {line}\n" for line in lines if line)
    if grid.empty:
        return comments
    text: str = grid.to_latex(escape=True, column_format="l" + "r" * len(grid.columns))
    return comments + text


def _grid(cells: pd.DataFrame) -> pd.DataFrame:
    """Return the texts of a table's cells by row and column, in the order of the cells."""
    rows, columns = (cells[name].astype(str) for name in ("row", "column"))
    texts = [cell_text(cell) for _, cell in cells.iterrows()]
    grid = pd.DataFrame({"row": rows, "column": columns, "text": texts})
    grid = grid.pivot(index="row", columns="column", values="text")
    return grid.reindex(index=rows.unique(), columns=columns.unique()).fillna("")


def _about(runs: RunSet, name: str, *, note: bool = True) -> tuple[str, str]:
    """Return a table's title, and where it is from, at which scale, and what its cells hold."""
    artefact = runs.plan.artefact(name)
    scale = at_scale(runs, name, note=runs.plan.at(runs.scale).note if note else "")
    brackets = "" if is_study(runs.paper) else "; in brackets the published value"
    rest = f"({artefact.source}). {scale[0].upper()}{scale[1:]}. Cells: {artefact.cells}{brackets}."
    return artefact.title, rest


def _in_a_row(key: str) -> str:
    """Return a key as a row of a Markdown table may have it."""
    return key.replace("|", r"\|")


def at_scale(runs: RunSet, name: str, *, note: str = "") -> str:
    """Say at which scale an artefact is, and whether that makes a difference to it.

    Args:
        runs: the paper's runs at a scale.
        name: of the table or figure.
        note: what the scale changes, said where it does.
    """
    groups = runs.groups_of(name)
    if not groups or not runs.plan.scales:
        return "the same at every scale"
    scale = f"scale: {runs.scale}"
    ids = [run.id for run in runs.members(groups)]
    if runs.scale != "paper" and runs.as_published(ids):
        return f"{scale}, with these runs as published"
    return f"{scale} ({note})" if note else scale


def cell_text(cell: pd.Series) -> str:
    """Return ``mean ± sd (n) [published]``, without what the cell does not have.

    A cell of no seed has what its column ``otherwise`` says.
    """
    unit = cell.get("unit", "fraction")
    factor, sign = {"fraction": (100, " %"), "points": (100, " points")}.get(unit, (1, ""))
    bracket = _bracket(cell, factor, sign)
    if not cell["n"]:
        return bracket or cell.get("otherwise", "")
    mean, sd = factor * cell["mean"], factor * cell["sd"]
    if np.isnan(mean):
        return f"undefined (n={cell['n']}) {bracket}".rstrip()
    digits = 2 if factor == 100 else _digits(mean, cell["values"])
    text = f"{mean:.{digits}f}" if digits is not None else f"{mean:.1e}"
    if cell["n"] > 1 and not np.isnan(sd):
        text += f" ± {sd:.{digits}f}" if digits is not None else f" ± {sd:.1e}"
    return f"{text}{sign} (n={cell['n']}) {bracket}".rstrip()


def _bracket(cell: pd.Series, factor: int, sign: str) -> str:
    """Return ``[published mean ± sd]``, what there is of it."""
    mean, sd = factor * cell["published"], factor * cell.get("published_sd", math.nan)
    parts = [] if np.isnan(mean) else [_published(mean, factor)]
    parts += [] if np.isnan(sd) else [f"± {sd:.2g}"]
    return f"[{' '.join(parts)}{sign}]" if parts else ""


def _digits(mean: float, values: Sequence[float]) -> int | None:
    """Return the decimals of four digits, at most three; below 0.1 of three; None: below 0.001."""
    if all(value.is_integer() and value == mean for value in values):
        return 0
    if 0 < abs(mean) < 1e-3:
        return None
    first = int(np.floor(np.log10(abs(mean) or 1)))
    return 2 - first if first < -1 else int(np.clip(3 - first, 0, 3))


def _published(value: float, factor: int) -> str:
    """Return a published number with the digits it was published with, at most four."""
    text = f"{value:.{2 if factor == 100 else 0}f}"
    return text if abs(float(text) - value) < 1e-9 * abs(value) else f"{value:.4g}"
