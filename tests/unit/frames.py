"""Cells of the frames that tables and figures are made from, frames of some runs, verdicts."""

from __future__ import annotations

import math
import random
from collections.abc import Container

import matplotlib.pyplot as plt
import pandas as pd
from seeds import Some

from fedrepro.report import artefacts, drawings
from fedrepro.report.checks import Verdict
from fedrepro.report.expected import load_expected
from fedrepro.report.verdicts import check_entry
from fedrepro.runs.runset import MissingRunsError, RunSet


def cell(frame: pd.DataFrame, row: object, column: object) -> pd.Series:
    """Return the one cell with these keys: row and column, or series and x."""
    found = frame[(frame.iloc[:, 0] == row) & (frame.iloc[:, 1] == column)]
    assert len(found) == 1
    return found.iloc[0]


def verdict(runs: RunSet, name: str) -> Verdict:
    """Return the verdict on a published number or a claim."""
    expected = load_expected(runs.paper)
    (entry,) = (e for e in (*expected.judged_numbers(), *expected.claims) if e.id == name)
    return check_entry(runs, entry).verdict


def check_any_subset(
    whole: RunSet,
    name: str,
    share: float,
    of_pairs: Container[str] = (),
    of_ratios: Container[str] = (),
) -> None:
    """Check that a table or figure is made of some of its runs, and drawn, unless there are none.

    Args:
        whole: runs that are all recorded.
        name: of the table or figure.
        share: of its runs.
        of_pairs: tables whose cells are made of several runs each, of which some may not do.
        of_ratios: tables whose cells of the unit ratio may be undefined.
    """
    ids = sorted({run.id for run in whole.planned(whole.plan.artefact(name).runs)})
    kept = random.Random(name).sample(ids, math.ceil(share * len(ids)))
    runs = Some(whole, lambda run: run.id in kept)
    try:
        cells = artefacts.frame(runs, name, partial=True)
    except MissingRunsError:
        assert not kept or name in of_pairs
        return
    assert len(cells)
    if "mean" in cells and name not in of_pairs:
        defined = cells["unit"] != "ratio" if name in of_ratios else pd.Series(True, cells.index)
        if "n" in cells:
            defined &= cells["n"] > 0
        assert not cells.loc[defined, "mean"].isna().any()
    if name in whole.plan.figures:
        plt.close(drawings.of_paper(whole.paper)[name](cells))
    else:
        assert artefacts.markdown(runs, name, cells)
