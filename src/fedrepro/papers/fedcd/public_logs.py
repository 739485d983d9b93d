"""Kopparapu, Lin, Zhao 2020: figures of runs as the public code, beside its logs.

Beside ours are logs of the authors' public notebooks and values read off the plots of their course
report, in the set-ups of those. Rounds are counted from 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pandas as pd

from fedrepro.papers.fedcd.measurements import (
    FEDCD,
    NOTEBOOK,
    OF_9,
    OF_18,
    Row,
    curve,
    logs,
    summarised,
)
from fedrepro.report.expected import load_expected
from fedrepro.report.figure import Figure, published_points
from fedrepro.runs.runset import RunSet

CHANGE, SPREAD = "mean change", "standard deviation of the scores"
"""Series that figures of the paper and of the public logs have in common."""


def logged_as(series: str) -> str:
    """Return what the public log of one of our series is called."""
    return f"{series}, public log"


def beside_logs(
    data: Callable[[RunSet], pd.DataFrame], artefact: str, names: Mapping[str, str] | None = None
) -> Callable[[RunSet], pd.DataFrame]:
    """Return what makes a figure's frame: our series, and public logs as series of their own.

    Args:
        data: makes the frame of ours.
        artefact: the figure that the public logs belong to.
        names: its series with a public log -> what the log is called; None: all.
    """

    def frame(runs: RunSet) -> pd.DataFrame:
        cells = [data(runs)]
        for log in load_expected(runs.paper).series:
            if log.artefact == artefact and (names is None or log.series in names):
                name = logged_as(log.series) if names is None else names[log.series]
                cells.append(published_points(log, name))
        return pd.concat(cells, ignore_index=True)

    return frame


# The last notebook: 30 devices


@summarised
def notebook(runs: RunSet) -> Iterator[Row]:
    """Yield what the last public notebook logs (fractions)."""
    for log in logs(runs, NOTEBOOK):
        yield from curve(log, "all devices", log.accuracy.mean(axis=1))
        for meta in (0, 1):
            mean = log.by_archetype[:, log.metas == meta].mean(axis=1)
            yield from curve(log, f"meta-archetype {meta}", mean)
        yield from curve(log, CHANGE, log.change[1:], first=1)


@summarised
def archetypes(runs: RunSet) -> Iterator[Row]:
    """Yield the accuracy (fraction) of every archetype as the last public notebook has it.

    Further column: ``archetype``.
    """
    for log in logs(runs, NOTEBOOK):
        for a, accuracy in enumerate(log.by_archetype.T):
            yield from curve(log, f"archetype {a}", accuracy, archetype=a)


def archetypes_beside_logs(runs: RunSet) -> pd.DataFrame:
    """Return every archetype's accuracy, ours and the public log's."""
    cells = beside_logs(archetypes, "archetypes")(runs)
    places = {logged_as(f"archetype {a}"): a for a in range(10)}
    return cells.fillna({"archetype": cells["series"].map(places)})


# The course notebook and report: 18 and 9 devices


@summarised
def six(runs: RunSet) -> Iterator[Row]:
    """Yield what the course notebook logs: active and live models, and the spread of scores."""
    for log in logs(runs, OF_18, FEDCD):
        yield from curve(log, "active models", log.active_models)
        yield from curve(log, "models left", log.live_models)
        yield from curve(log, SPREAD, log.spread)


ACTIVE_OF_18 = "active models, 18 devices"


@summarised
def course(runs: RunSet) -> Iterator[Row]:
    """Yield what the course report plots, and its notebook logs, of 18 and of 9 devices.

    Accuracies are means over all devices, fractions. A scale may leave runs out.
    """
    for log in logs(runs, OF_18, FEDCD):
        yield from curve(log, ACTIVE_OF_18, log.active_models)
    for log in [*logs(runs, OF_18), *logs(runs, OF_9)]:
        yield from curve(log, f"{log.method}, {log.experiment}", log.accuracy.mean(axis=1))


FIGURES: dict[str, Figure] = {
    "notebook": Figure(beside_logs(notebook, "notebook"), {CHANGE: "points", "": "fraction"}),
    "archetypes": Figure(archetypes_beside_logs),
    "six": Figure(beside_logs(six, "six"), {SPREAD: "points", "": "count"}),
    "course": Figure(beside_logs(course, "course"), {ACTIVE_OF_18: "count", "": "fraction"}),
}
