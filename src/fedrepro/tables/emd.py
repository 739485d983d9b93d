"""Zhao et al. 2018: what we report of a run, and the tables of the MNIST parts.

The paper does not say which accuracy of a training it prints. Here it is the mean over the
evaluations in the last ten rounds; the accuracy of the last round and the best one stand beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pandas as pd

from fedrepro.runs import RunSet
from fedrepro.stats import summarise

LAST_ROUNDS = 10
"""How many rounds at the end of a run are reported."""

DATASET = "MNIST"

SGD, IID = "sgd_large", "iid_large"
TWO_CLASS, ONE_CLASS, ONE_CLASS_E5 = "two_class_large", "one_class_large", "one_class_large_e5"
SWEEP = "sweep"
TABLE_3 = (SGD, IID, TWO_CLASS, ONE_CLASS, ONE_CLASS_E5)
TABLE_1 = (ONE_CLASS, ONE_CLASS_E5, TWO_CLASS)
"""Groups of runs by their names in the plan, in the order of the paper's rows."""

LAYERS = ("conv1", "conv2", "fc1", "fc2")
"""Layers of the network, from input to output; divergence is that of their weights, no biases."""

LARGEST_REDUCTION, LARGEST_VARIATION = "largest reduction", "largest relative sd"


def reported(runs: RunSet, groups: Sequence[str]) -> pd.DataFrame:
    """Return the reported test accuracy of every run, as fractions.

    Args:
        runs: the records.
        groups: names of groups of runs.

    Returns:
        One row a run: ``group``, ``title``, the grid coordinates, ``seed``, ``run``, ``accuracy``
        (mean of the evaluations in the last ten rounds), ``final`` (after the last round) and
        ``best`` (the highest).
    """
    curves = runs.curves(groups, "accuracy")
    keys = [name for name in curves.columns if name not in ("round", "value")]
    curves["last"] = curves.groupby("run")["round"].transform("max")
    late = curves[curves["round"] > curves["last"] - LAST_ROUNDS]
    table = curves.groupby(keys, sort=False, dropna=False)["value"].agg(final="last", best="max")
    table["accuracy"] = late.groupby(keys, sort=False, dropna=False)["value"].mean()
    return table.reset_index()


def divergences(
    runs: RunSet, groups: Sequence[str], layers: Sequence[str], what: str = "fedavg"
) -> pd.DataFrame:
    """Return the weight divergence from SGD after the first round (eq. 1), one row a run and layer.

    Args:
        runs: the records.
        groups: groups of runs that record it.
        layers: layers (weights only), ``<layer>+bias`` or ``model``.
        what: ``fedavg``, or ``sgd_other_shuffle`` for the noise floor.

    Returns:
        ``group``, ``title``, the grid coordinates, ``seed``, ``run``, ``layer`` and ``value``.
    """
    metrics = {f"weight_divergence.{what}.{layer}": layer for layer in layers}
    finals = runs.final(groups, list(metrics)).rename(columns=metrics)
    names = [name for name in finals.columns if name not in layers]
    return finals.melt(id_vars=names, var_name="layer", value_name="value")


def emd_label(emd: float) -> str:
    """Return an EMD as tables and published values name it: ``1.764``."""
    return f"{emd:g}"


def table2(runs: RunSet) -> pd.DataFrame:
    """Build Table 2, row MNIST: mean and standard deviation over the distributions, by EMD."""
    table = reported(runs, [SWEEP])
    return _cells(table.assign(row=DATASET, column=table["emd"].map(emd_label)))


def table3(runs: RunSet) -> pd.DataFrame:
    """Build Table 3, column MNIST, rows 1 to 5."""
    table = reported(runs, TABLE_3)
    return _cells(table.assign(row=table["title"], column=DATASET))


def table1(runs: RunSet) -> pd.DataFrame:
    """Build Table 1, column MNIST, large batches: the accuracy lost against SGD, seed by seed."""
    table = reported(runs, (SGD, *TABLE_1))
    sgd = table[table["group"] == SGD].set_index("seed")[["run", "accuracy", "final", "best"]]
    pairs = table[table["group"] != SGD].join(sgd.add_suffix("_sgd"), on="seed", how="inner")
    pairs = pairs.sort_values("group", key=lambda names: names.map(TABLE_1.index), kind="stable")
    lost = {name: pairs[f"{name}_sgd"] - pairs[name] for name in ("accuracy", "final", "best")}
    both = pairs["run"] + " " + pairs["run_sgd"]
    return _cells(pairs.assign(row=pairs["title"], column=DATASET, run=both, **lost))


def sweep_text(runs: RunSet) -> pd.DataFrame:
    """Build the two numbers that section 3.2.3 quotes of Table 2.

    The largest reduction is the accuracy at EMD 0 less that at the EMD with the lowest mean, seed
    by seed. The largest relative standard deviation is one value: the largest sd / mean of all
    EMDs ("maximum variation" in the text; Table 2 shows that it is relative).
    """
    table = reported(runs, [SWEEP])
    levels = summarise(table, "accuracy", ["emd"])
    lowest = table[table["emd"] == levels["emd"].iloc[int(levels["mean"].argmin())]]
    uniform = table[table["emd"] == table["emd"].min()].set_index("seed")[["accuracy", "run"]]
    pairs = lowest.join(uniform.add_suffix("_uniform"), on="seed", how="inner")
    reduction = pairs.assign(
        value=pairs["accuracy_uniform"] - pairs["accuracy"],
        run=pairs["run"] + " " + pairs["run_uniform"],
        column=LARGEST_REDUCTION,
    )
    levels["value"] = levels["sd"] / levels["mean"]
    variation = levels.nlargest(1, "value").rename(columns={"runs": "run"})
    variation = variation.assign(seed=0, column=LARGEST_VARIATION)
    both = pd.concat([reduction, variation], ignore_index=True).assign(row=DATASET)
    return summarise(both, "value", ["row", "column"]).assign(unit="fraction")


def _cells(table: pd.DataFrame) -> pd.DataFrame:
    """Summarise ``accuracy`` by ``row`` and ``column``; ``final`` and ``best`` as means."""
    cells = summarise(table, "accuracy", ["row", "column"])
    means = table.groupby(["row", "column"], sort=False)[["final", "best"]].mean()
    return cells.join(means, on=["row", "column"]).assign(unit="fraction")


TABLES: dict[str, Callable[[RunSet], pd.DataFrame]] = {
    "table1": table1,
    "table2": table2,
    "table3": table3,
    "sweep_text": sweep_text,
}
