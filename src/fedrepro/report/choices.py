"""How far choices that a paper leaves open move its headlines, one choice at a time.

A group of runs with the labels ``choice`` and ``of`` differs from the group ``of``, our committed
reading, in that choice alone. The table or figure names the groups of that reading in
``compared_with``: where no other has runs, it is not made.

A *table of choices* has one row a run: ``row`` (the choice; :data:`COMMITTED` first), ``column``
(the headline), ``seed``, ``run`` and ``accuracy`` (a fraction).
"""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from fedrepro.report.figure import Figure
from fedrepro.report.stats import differences, summarise
from fedrepro.runs.records import RunRecord
from fedrepro.runs.runset import MissingRunsError, RunSet

COMMITTED = "as committed"


def by_labels(runs: RunSet, measure: Callable[[RunSet, str], pd.DataFrame]) -> pd.DataFrame:
    """Return the table of choices that the labels of the groups of table ``choices`` make.

    Args:
        runs: the records.
        measure: returns of a group one row a run: ``seed``, ``run``, ``accuracy``, and ``where``,
            which tells headlines of one group apart (empty if there is one). Headlines of the
            committed reading that no choice has are left out.

    Returns:
        The table.

    Raises:
        MissingRunsError: a record is missing, or all of the other choices are, where partial.
    """
    plan, groups = runs.plan, runs.groups_of("choices")
    runs.some([group for group in groups if "choice" in plan.runs[group].labels])
    parts = []
    for group in groups:
        if not runs.members([group]):
            continue
        labels = plan.runs[group].labels
        of = plan.runs[labels.get("of", group)].title
        table = measure(runs, group)
        column = [", ".join(filter(None, (of, where))) for where in table["where"]]
        parts.append(table.assign(row=labels.get("choice", COMMITTED), column=column))
    columns = ["row", "column", "seed", "run", "accuracy"]
    every = pd.concat(parts, ignore_index=True)[columns]
    chosen = every.loc[every["row"] != COMMITTED, "column"]
    return every[every["column"].isin(chosen)]


def of_records(value: Callable[[RunRecord], float]) -> Callable[[RunSet, str], pd.DataFrame]:
    """Return a measure for :func:`by_labels`: one headline a group, computed of each run's record.

    Args:
        value: returns a run's accuracy, a fraction.
    """

    def measure(runs: RunSet, group: str) -> pd.DataFrame:
        rows = [
            {"seed": run.seed, "run": run.id, "accuracy": value(runs.record(run))}
            for run in runs.some([group])
        ]
        return pd.DataFrame(rows).assign(where="")

    return measure


def moved(table: pd.DataFrame) -> pd.DataFrame:
    """Summarise how far each choice moves the accuracy, paired by seed with the committed reading.

    Args:
        table: a table of choices.

    Raises:
        MissingRunsError: no run of another choice has one of the committed reading beside it.
    """
    committed = table[table["row"] == COMMITTED]
    others = table[table["row"] != COMMITTED]
    both = differences(others, committed, "accuracy", on=["column", "seed"])
    if both.empty:
        raise MissingRunsError("no seed is recorded of both a choice and the committed reading")
    return summarise(both, "accuracy", ["row", "column"]).assign(unit="points")


def shifts(table: pd.DataFrame) -> pd.DataFrame:
    """Return what :func:`moved` does for a figure: a series a headline, x the choice."""
    named = moved(table).rename(columns={"column": "series", "row": "x"})
    return named[["series", "x", *named.columns.drop(["series", "x"])]]


def figure(table: Callable[[RunSet], pd.DataFrame]) -> Figure:
    """Return the figure of what makes a table of choices."""
    return Figure(lambda runs: shifts(table(runs)), "points")
