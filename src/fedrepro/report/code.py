"""Finds the code that makes a paper's tables, figures and claims: ``fedrepro.papers.<slug>``.

A slug's ``-`` is ``_`` there.

- ``measurements.TABLES``: name of a table in the plan -> a function from runs to a frame of one row
  a cell: key columns ``row`` and ``column``, what :func:`fedrepro.report.stats.summarise` returns,
  and ``unit``: ``fraction`` (shown in per cent), ``points`` (a difference of fractions), or what
  the number is; a column ``otherwise`` has what a cell of no seed says;
- ``figures.FIGURES``: name of a figure -> a :class:`fedrepro.report.figure.Figure`, its data;
- ``drawings.DRAWINGS``: name of a figure -> a function that draws the frame of its data;
- ``claims.RULES``: name of a rule -> a function from runs, and the values that a claim of
  ``config/expected`` has for the rule, to a finding.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from fedrepro.report.figure import Figure
    from fedrepro.report.finding import Finding
    from fedrepro.runs.runset import RunSet

    Table = Callable[[RunSet], pd.DataFrame]
    Claim = Callable[..., Finding]


MODULES = {
    "TABLES": "measurements",
    "FIGURES": "figures",
    "DRAWINGS": "drawings",
    "RULES": "claims",
}
"""What a paper's code lists -> the module that does."""


def tables(paper: str) -> dict[str, Table]:
    """Return what makes each table of a paper; without code of its own, what suits any plan."""
    from fedrepro.report import generic

    if not has_code(paper):
        return generic.TABLES
    return found(paper, "TABLES")


def figures(paper: str) -> dict[str, Figure]:
    """Return the data of each figure of a paper, likewise."""
    from fedrepro.report import generic

    if not has_code(paper):
        return generic.FIGURES
    return found(paper, "FIGURES")


def place_of(paper: str, artefact: str) -> str:
    """Return file and line of the function that makes a table, or the numbers of a figure."""
    make: Any = tables(paper).get(artefact) or figures(paper)[artefact].data
    function = make.func if isinstance(make, functools.partial) else make
    code = function.__code__
    return f"{from_here(Path(code.co_filename))}:{code.co_firstlineno}"


def from_here(file: Path) -> Path:
    """Return a path relative to the working directory, if it is below that."""
    return file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file


def claims(paper: str) -> dict[str, Claim]:
    """Return the rules that decide the claims of a paper."""
    return found(paper, "RULES")


def has_code(paper: str) -> bool:
    """Return whether a plan has code of its own."""
    return module_of(paper, "measurements") is not None


def package_of(paper: str) -> str:
    """Return what the package of a plan's code is called: its slug, with ``_`` for ``-``."""
    return paper.replace("-", "_")


def module_of(paper: str, part: str) -> str | None:
    """Return the dotted name of a module of a paper's code, or None if there is none."""
    name = f"fedrepro.papers.{package_of(paper)}"
    if importlib.util.find_spec(name) is None:
        return None
    return f"{name}.{part}" if importlib.util.find_spec(f"{name}.{part}") else None


def found(paper: str, listed: str) -> dict[str, Any]:
    """Return what a paper's code lists, by the names of :data:`MODULES`; empty if it does not."""
    module = module_of(paper, MODULES[listed])
    if module is None:
        return {}
    functions: dict[str, Any] = getattr(importlib.import_module(module), listed)
    return functions
