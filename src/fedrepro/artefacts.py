"""Builds tables and figures with the published values beside ours, and writes their files."""

from __future__ import annotations

import textwrap
from pathlib import Path

import numpy as np
import pandas as pd

from fedrepro.expected import cell_key, published
from fedrepro.files import write_text
from fedrepro.plan import load_plan
from fedrepro.runs import RunSet
from fedrepro.stats import seed_values
from fedrepro.tables import TABLES

_TITLE_WIDTH = 100
"""Characters of a line of a figure's title."""


def frame(runs: RunSet, name: str, *, partial: bool = False) -> pd.DataFrame:
    """Return the frame of a table or figure, with a column ``published``.

    It holds what the expected values have for a cell, else what the table or figure itself has.

    Args:
        runs: the paper's runs at a scale.
        name: of the table or figure.
        partial: an artefact that can do without some of its runs may leave their cells out
            (:func:`left_out` says which runs).

    Raises:
        FedreproError: no such artefact, or a record is missing; says what to do.
    """
    if not partial:
        runs.require(runs.plan.artefact(name).runs, name)
    if name in runs.plan.tables:
        cells = TABLES[runs.paper][name](runs)
    else:
        from fedrepro.plots import FIGURES  # Matplotlib is slow to import

        cells = FIGURES[runs.paper][name].data(runs)
    return _with_published(cells, runs.paper, name)


def keys_of(cells: pd.DataFrame) -> list[tuple[str, str]]:
    """Return the key of every cell of a frame: its first two columns as text."""
    return [cell_key(a, b) for a, b in zip(cells.iloc[:, 0], cells.iloc[:, 1], strict=True)]


def _with_published(cells: pd.DataFrame, paper: str, name: str) -> pd.DataFrame:
    values = published(paper, load_plan(paper).artefact(name).part_of or name)
    result = cells.copy()
    own = cells.get("published", pd.Series(float("nan"), cells.index))
    result["published"] = [
        values.get(key, known) for key, known in zip(keys_of(cells), own, strict=True)
    ]
    return result


def left_out(runs: RunSet, name: str) -> str:
    """Say of which groups of runs a table or figure lacks records; empty if of none."""
    groups = []
    for group in runs.plan.artefact(name).runs:
        missing, planned = len(runs.missing([group])), len(runs.members([group]))
        if missing:
            title = runs.plan.runs[group].title
            groups.append(f"{title}, {planned - missing} of {planned} recorded")
    return f"Left out is what needs runs without a record: {'; '.join(groups)}." if groups else ""


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
    write_text(stem.with_name(f"{stem.name}.csv"), cells.to_csv(index=False))
    write_text(stem.with_name(f"{stem.name}.md"), with_note(runs, name, cells))


def with_note(runs: RunSet, name: str, cells: pd.DataFrame) -> str:
    """Lay a table out, and say below it what is left out."""
    note = left_out(runs, name)
    return markdown(runs, name, cells) + (f"\n{note}\n" if note else "")


def markdown(runs: RunSet, name: str, cells: pd.DataFrame) -> str:
    """Lay a table out: rows and columns by key, each cell ``mean ± sd (n) [published]``."""
    artefact = runs.plan.artefact(name)
    scale = runs.plan.scales[runs.scale]
    grid = pd.DataFrame(
        {
            "row": cells["row"].astype(str),
            "column": cells["column"].astype(str),
            "text": [_cell_text(cell) for _, cell in cells.iterrows()],
        }
    ).pivot(index="row", columns="column", values="text")
    grid = grid.reindex(
        index=cells["row"].astype(str).unique(), columns=cells["column"].astype(str).unique()
    ).fillna("")
    note = f" ({scale.note})" if scale.note else ""
    return (
        f"**{artefact.title}** ({artefact.source}). Scale: {runs.scale}{note}. "
        "Cells: our mean ± sample standard deviation over n seeds; in brackets the published "
        "value.\n\n" + str(grid.to_markdown()) + "\n"
    )


def _cell_text(cell: pd.Series) -> str:
    unit = cell.get("unit", "fraction")
    factor, digits, sign = (100, 2, " %") if unit == "fraction" else (1, 3, "")
    if not cell["n"]:  # published only
        return f"[{cell['published'] * factor:.{digits if unit == 'fraction' else 0}f}{sign}]"
    seeds = seed_values(cell["values"])
    if unit == "count" and all(v.is_integer() and v == cell["mean"] for v in seeds):
        digits = 0
    text = f"{cell['mean'] * factor:.{digits}f}"
    if cell["n"] > 1 and not np.isnan(cell["sd"]):
        text += f" ± {cell['sd'] * factor:.{digits}f}"
    text += f"{sign} (n={cell['n']})"
    if not np.isnan(cell["published"]):
        text += f" [{cell['published'] * factor:.{digits}f}{sign}]"
    return text


def write_figure(runs: RunSet, name: str, stem: Path, *, partial: bool = False) -> None:
    """Write ``<stem>.svg``, ``<stem>.png`` and the plotted data as ``<stem>.csv``.

    Args:
        runs: the paper's runs at a scale.
        name: of the figure.
        stem: file name without ending.
        partial: make do with what is recorded, and say in the title what is left out.

    Raises:
        FedreproError: the paper has no such figure, or a record is missing that it cannot do
            without.
    """
    from fedrepro.plots import FIGURES, style

    artefact = runs.plan.artefact(name, "figure")
    style.use()
    cells = frame(runs, name, partial=partial)
    figure = FIGURES[runs.paper][name].draw(cells)
    title = f"{artefact.title} ({artefact.source}); scale: {runs.scale}"
    lines = [title, *textwrap.wrap(left_out(runs, name), _TITLE_WIDTH)]
    figure.suptitle("\n".join(lines), fontsize=10)
    style.save(figure, stem)
    write_text(stem.with_name(f"{stem.name}.csv"), cells.to_csv(index=False))
