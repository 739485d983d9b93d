"""Zhao et al. 2018: what we report of a run, and the tables.

The paper does not say which accuracy of a training it prints. Here it is the mean over the
evaluations in the last ten rounds; the accuracy of the last round and the best one stand beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pandas as pd

from fedrepro.report.stats import summarise
from fedrepro.runs.runset import RunSet

LAST_ROUNDS = 10
"""How many rounds at the end of a run are reported."""

DATASETS = {"mnist": "MNIST", "cifar10": "CIFAR-10", "kws": "KWS"}
"""Prefix of the names of groups of runs -> how tables and figures call the data set."""

KWS_PACKED = "KWS, 20 x 11 features"
"""How the packed features are called, which are coarser than those of the paper."""

SGD, IID = "sgd_large", "iid_large"
TWO_CLASS, ONE_CLASS, ONE_CLASS_E5 = "two_class_large", "one_class_large", "one_class_large_e5"
PRETRAINED = "pretrained_large"
SGD_SMALL, IID_SMALL = "sgd_small", "iid_small"
TWO_CLASS_SMALL, ONE_CLASS_SMALL = "two_class_small", "one_class_small"
SWEEP = "sweep"
SCRATCH, WARM = "sharing_scratch", "sharing_warm"
BOUND = "bound"

LARGE = (SGD, IID, TWO_CLASS, ONE_CLASS, ONE_CLASS_E5, PRETRAINED)
SMALL = (SGD_SMALL, IID_SMALL, TWO_CLASS_SMALL, ONE_CLASS_SMALL)
"""Trainings by the second part of their groups' names, in the order of Table 3."""
TABLE_1 = {
    ONE_CLASS: SGD,
    ONE_CLASS_E5: SGD,
    TWO_CLASS: SGD,
    ONE_CLASS_SMALL: SGD_SMALL,
    TWO_CLASS_SMALL: SGD_SMALL,
}
"""Trainings in the order of Table 1, and the SGD each is held against."""

LAYERS = {
    "mnist": ("conv1", "conv2", "fc1", "fc2"),
    "cifar10": ("conv1", "conv2", "fc3", "fc4", "fc5"),
    "kws": ("conv1", "conv2", "low_rank", "fc", "output"),
}
"""Layers of the networks, input to output; a layer's divergence is that of its weights alone."""

ROUNDING = 1e-5
"""Distances below this share of the weights' norm are those of single-precision arithmetic."""

LARGEST_REDUCTION, LARGEST_VARIATION = "largest reduction", "largest relative sd"


def group(dataset: str, training: str) -> str:
    """Return the plan's name of a data set's training: ``mnist_sgd_large``."""
    return f"{dataset}_{training}"


def titles(runs: RunSet) -> dict[str, str]:
    """Return :data:`DATASETS` with the packed keyword features, where used, under their own name.

    Published values of KWS are for other features, so they are not shown beside these.
    """
    used = runs.members([group("kws", SWEEP)])[0].spec.dataset.name
    return DATASETS | ({"kws": KWS_PACKED} if used == "kws_mfcc20" else {})


def _titles(runs: RunSet, table: pd.DataFrame) -> pd.Series:
    return table["group"].str.partition("_")[0].map(titles(runs))


def _groups(trainings: Sequence[str]) -> list[str]:
    return [group(dataset, training) for training in trainings for dataset in DATASETS]


def recorded(runs: RunSet, groups: Sequence[str]) -> list[str]:
    """Return those of the groups whose runs are all recorded; all groups where none is."""
    return [name for name in groups if not runs.missing([name])] or list(groups)


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


def table1(runs: RunSet) -> pd.DataFrame:
    """Build Table 1: the accuracy lost against SGD of the same batches, seed by seed."""
    table = reported(runs, _groups([*TABLE_1, SGD, SGD_SMALL]))
    table = table.set_index(["group", "seed"])
    parts = []
    for training, reference in TABLE_1.items():
        for dataset, title in titles(runs).items():
            ours = table.loc[group(dataset, training)]
            sgd = table.loc[group(dataset, reference)].reindex(ours.index)
            parts.append(
                pd.DataFrame(
                    {name: sgd[name] - ours[name] for name in ("accuracy", "final", "best")}
                ).assign(
                    row=ours["title"],
                    column=title,
                    run=_pairs(ours["run"], sgd["run"]),
                )
            )
    lost = pd.concat(parts).reset_index().dropna(subset=["accuracy"])
    return _cells(lost).assign(unit="points")


def table2(runs: RunSet) -> pd.DataFrame:
    """Build Table 2: mean and standard deviation over the distributions, by EMD."""
    table = reported(runs, _groups([SWEEP]))
    return _cells(table.assign(row=_titles(runs, table), column=table["emd"].map(emd_label)))


def table3(runs: RunSet) -> pd.DataFrame:
    """Build Table 3 (the text's Table A.2), of the trainings that are recorded."""
    groups = _groups([*LARGE, *SMALL])
    table = reported(runs, recorded(runs, groups))
    table["place"] = table["group"].map(groups.index)
    table = table.sort_values("place", kind="stable")
    return _cells(table.assign(row=table["title"], column=_titles(runs, table)))


def sweep_text(runs: RunSet) -> pd.DataFrame:
    """Build the two numbers that section 3.2.3 quotes of each row of Table 2.

    The largest reduction is the accuracy at EMD 0 less that at the EMD with the lowest mean, seed
    by seed. The largest relative standard deviation is one value: the largest sd / mean of all
    EMDs ("maximum variation" in the text; Table 2 shows that it is relative).
    """
    both = [
        part
        for dataset, title in titles(runs).items()
        for part in _sweep_text(reported(runs, [group(dataset, SWEEP)]), title)
    ]
    cells = summarise(pd.concat(both, ignore_index=True), "value", ["row", "column"])
    reduction = cells["column"] == LARGEST_REDUCTION
    return cells.assign(unit=reduction.map({True: "points", False: "fraction"}))


def _sweep_text(table: pd.DataFrame, title: str) -> list[pd.DataFrame]:
    levels = summarise(table, "accuracy", ["emd"])
    lowest = table[table["emd"] == levels["emd"].iloc[int(levels["mean"].argmin())]]
    uniform = table[table["emd"] == table["emd"].min()].set_index("seed")[["accuracy", "run"]]
    pairs = lowest.join(uniform.add_suffix("_uniform"), on="seed", how="inner")
    reduction = pairs.assign(
        value=pairs["accuracy_uniform"] - pairs["accuracy"],
        run=_pairs(pairs["run"], pairs["run_uniform"]),
        column=LARGEST_REDUCTION,
    )
    levels["value"] = levels["sd"] / levels["mean"]
    variation = levels.nlargest(1, "value").rename(columns={"runs": "run"})
    variation = variation.assign(seed=0, column=LARGEST_VARIATION)
    return [reduction.assign(row=title), variation.assign(row=title)]


def shared_label(beta: float) -> str:
    """Return the name of a set G by its size: ``G = 10 % of D``."""
    return f"G = {100 * beta:g} % of D"


def warm_up(runs: RunSet) -> pd.DataFrame:
    """Build our table of the warm-up models: epochs on G, and the test accuracy reached.

    Runs that differ in alpha alone share their warm-up model; it is shown once.
    """
    table = runs.final([WARM], ["warm_up.epochs", "warm_up.accuracy"])
    table = table.drop_duplicates(["beta", "seed"]).assign(row=table["beta"].map(shared_label))
    parts = [
        summarise(table.assign(column=name), f"warm_up.{name}", ["row", "column"]).assign(unit=unit)
        for name, unit in (("epochs", "count"), ("accuracy", "fraction"))
    ]
    return pd.concat(parts, ignore_index=True)


def bound(runs: RunSet) -> pd.DataFrame:
    """Build our table of Proposition 3.1: distance of FedAvg from SGD, and the bound on it.

    One row an EMD and side, one column a synchronisation, in units of the weights.
    """
    parts = []
    for run in runs.members([BOUND]):
        final = runs.record(run).final
        for side in ("distance", "bound"):
            rows = {
                "row": f"EMD {emd_label(float(run.coordinates['emd']))}, {_SIDES[side]}",
                "column": [f"m = {m}" for m in range(1, len(final[side]) + 1)],
                "value": final[side],
                "seed": run.seed,
                "run": run.id,
            }
            parts.append(pd.DataFrame(rows))
    cells = summarise(pd.concat(parts, ignore_index=True), "value", ["row", "column"])
    return cells.assign(unit="number")


_SIDES = {"distance": "measured", "bound": "bound"}


def _cells(table: pd.DataFrame) -> pd.DataFrame:
    """Summarise ``accuracy`` by ``row`` and ``column``; ``final`` and ``best`` as means."""
    cells = summarise(table, "accuracy", ["row", "column"])
    means = table.groupby(["row", "column"], sort=False)[["final", "best"]].mean()
    return cells.join(means, on=["row", "column"]).assign(unit="fraction")


def _pairs(ones: pd.Series, others: pd.Series) -> pd.Series:
    """Return the ids of two runs each, for a value that both make."""
    return pd.Series(list(zip(ones, others, strict=True)), index=ones.index)


TABLES: dict[str, Callable[[RunSet], pd.DataFrame]] = {
    "table1": table1,
    "table2": table2,
    "table3": table3,
    "sweep_text": sweep_text,
    "warm_up": warm_up,
    "bound": bound,
}
