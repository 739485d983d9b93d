"""The precision study (docs/precision.md): what float32, TF32 and bfloat16 reach, seed by seed."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from fedrepro.report.stats import summarise
from fedrepro.runs.runset import MissingRunsError, RunSet

FLOAT32 = "float32"
PRECISIONS = {FLOAT32: "float32", "tf32": "TF32", "bf16": "bfloat16"}
"""Precisions as plans name them -> as tables and figures do."""

SPREAD = "seeds apart in float32"


def less_float32(precision: str) -> str:
    """Return the name of the column with the differences of a precision to float32."""
    return f"{PRECISIONS[precision]} less float32"


def recorded(runs: RunSet) -> list[str]:
    """Return the groups, one a network, whose runs are all recorded; all where none is.

    Raises:
        MissingRunsError: the scale has no runs.
    """
    groups = list(runs.plan.runs)
    if not runs.members(groups):
        raise MissingRunsError(
            f"{runs.paper} has no runs at scale {runs.scale}; add --scale paper, its only one"
        )
    return [name for name in groups if not runs.missing([name])] or groups


def networks(runs: RunSet) -> pd.DataFrame:
    """Build the table: for each network a row of all seeds, then one a seed.

    Differences are taken seed by seed, in points. The spread is the highest less the lowest of the
    float32 seeds: what a change of the seed alone does.
    """
    finals = runs.final(recorded(runs), ["accuracy"]).rename(columns={"accuracy": "value"})
    parts = [
        _network(title, finals[finals["group"] == group])
        for group, title in finals[["group", "title"]].drop_duplicates().itertuples(index=False)
    ]
    return pd.concat(parts, ignore_index=True)


def _network(title: str, finals: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of one network; ``finals`` has a row a run, accuracies as ``value``."""
    columns = [
        finals[finals["precision"] == name].assign(column=shown, unit="fraction")
        for name, shown in PRECISIONS.items()
    ]
    reference = columns[0].set_index("seed")[["value", "run"]]
    for name, ours in zip(PRECISIONS, list(columns), strict=True):
        if name != FLOAT32:
            pairs = ours.join(reference.add_suffix("_reference"), on="seed")
            pairs["value"] -= pairs["value_reference"]
            pairs["run"] = list(zip(pairs["run"], pairs["run_reference"], strict=True))
            columns.append(pairs.assign(column=less_float32(name), unit="points"))
    table = pd.concat(columns, ignore_index=True)
    both = pd.concat(
        [table.assign(row=title), table.assign(row=title + ", seed " + table["seed"].astype(str))]
    )
    cells = summarise(both, "value", ["row", "column", "unit"])
    apart = pd.DataFrame(
        {
            "row": [title],
            "column": [SPREAD],
            "unit": ["points"],
            "value": [reference["value"].max() - reference["value"].min()],
            "seed": [0],
            "run": [tuple(reference["run"])],
        }
    )
    return pd.concat([cells, summarise(apart, "value", ["row", "column", "unit"])])


TABLES: dict[str, Callable[[RunSet], pd.DataFrame]] = {"networks": networks}
