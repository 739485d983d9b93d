"""The precision study (docs/precision.md): what float32, TF32 and bfloat16 reach, seed by seed."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from fedrepro.report.stats import differences, summarise
from fedrepro.runs.runset import RunSet

FLOAT32 = "float32"
PRECISIONS = {FLOAT32: "float32", "tf32": "TF32", "bf16": "bfloat16"}
"""Precisions as plans name them -> as tables and figures do."""

SPREAD = "seeds apart in float32"


def recorded(runs: RunSet) -> list[str]:
    """Return the groups, one a network, whose runs are all recorded; all where none is."""
    groups = list(runs.plan.runs)
    return [name for name in groups if not runs.missing([name])] or groups


def networks(runs: RunSet) -> pd.DataFrame:
    """Build the table: for each network a row of all seeds, then one a seed.

    Differences are taken seed by seed, in points. The spread is the highest less the lowest of the
    float32 seeds: what a change of the seed alone does.
    """
    finals = runs.final(recorded(runs), ["accuracy"]).rename(columns={"accuracy": "value"})
    by_network = finals.groupby("title", sort=False)
    return pd.concat([_network(str(title), cells) for title, cells in by_network])


def _network(title: str, finals: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of one network; ``finals`` has a row a run, accuracies as ``value``."""
    finals = finals.assign(column=finals["precision"].map(PRECISIONS))
    exact = finals["precision"] == FLOAT32
    reference = finals[exact]
    less = differences(finals[~exact], reference, "value", on=["seed"])
    less = less.assign(column=less["column"] + " less float32", unit="points")
    both = pd.concat([finals.assign(unit="fraction"), less])
    spread = reference["value"].max() - reference["value"].min()
    apart = {"row": title, "column": SPREAD, "unit": "points", "seed": 0, "value": spread}
    cells = [
        both.assign(row=title),
        both.assign(row=title + ", seed " + both["seed"].astype(str)),
        pd.DataFrame([apart | {"run": tuple(reference["run"])}]),
    ]
    summary = summarise(pd.concat(cells), "value", ["row", "column"], "unit")
    summary.loc[summary["column"] == SPREAD, "n"] = len(reference)  # one value, of all seeds
    return summary


TABLES: dict[str, Callable[[RunSet], pd.DataFrame]] = {"networks": networks}
