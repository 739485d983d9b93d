"""Zhao et al. 2018: what we report of a run, and the tables.

The paper does not say which accuracy of a training it prints. Here it is the mean over the
evaluations in the last ten rounds; the accuracy of the last round and the best one stand beside it.

Groups of runs are chosen by their labels in the plan: ``dataset``, ``training`` and ``batches``;
``reference: sgd`` where they record the weight divergence from SGD after the first round, and
``choice`` where they differ from the paper's in one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pandas as pd

from fedrepro.report.choices import COMMITTED, moved
from fedrepro.report.stats import differences, in_order, summarise
from fedrepro.runs.runset import MissingRunsError, RunSet

FIRST_ROUND = ", first round"
"""How titles of groups end that are trained for the weight divergence alone."""

LAST_ROUNDS = 10
"""How many rounds at the end of a run are reported."""

DATASETS = {"mnist": "MNIST", "cifar10": "CIFAR-10", "kws": "KWS"}
"""Data sets by label, and how the paper's tables call them."""

KWS_PACKED = "KWS, 20 x 11 features"
"""How the packed features are called, which are coarser than those of the paper."""

LAYERS = {
    "mnist": ("conv1", "conv2", "fc1", "fc2"),
    "cifar10": ("conv1", "conv2", "fc3", "fc4", "fc5"),
    "kws": ("conv1", "conv2", "low_rank", "fc", "output"),
}
"""Layers of the networks, input to output; a layer's divergence is that of its weights alone."""

SCRATCH, WARM, BOUND = "sharing_scratch", "sharing_warm", "bound"
"""Groups of runs: with data sharing (section 4), and for Proposition 3.1."""

CHOICE_TRAININGS = {
    "one_class": "non-IID(1)",
    "two_class": "non-IID(2)",
    "iid": "IID",
    "one_class_e5": "non-IID(1), E = 5",
}
"""Trainings by label, the columns of the table."""

CHOICES = {
    "pixels": "pixels in [0, 1]",
    "init": "PyTorch's initial weights",
    "both": "pixels in [0, 1], PyTorch's weights",
    "truncated": "truncated normal weights",
    "truncated_unit": "pixels in [0, 1], truncated normal weights",
    "tutorial": "pixels and weights of TensorFlow's tutorial",
    "start": "other initial weights",
    "examples": "a ninth of the examples fewer",
    "decay": "step size decays by epoch",
}
"""Choices by label."""

PIXELS = {
    "standard": "standardised pixels",
    "unit": "pixels in [0, 1]",
    "centred": "pixels in [-0.5, 0.5]",
}
"""Transforms of MNIST, and how our table of their divergence calls them."""

INITIAL_WEIGHTS = {
    "glorot": "Glorot's weights",
    "own": "PyTorch's weights",
    "truncated_normal": "truncated normal weights",
    "tensorflow_mnist": "TensorFlow's tutorial weights",
}
"""Initial weights by ``model.init``, in the same table."""

OF_THE_SAME_RUN = {"final": "after the last round", "best": "best round"}
"""Choices of what is reported, by column of :func:`fedrepro.papers.emd.measurements.reported`."""

LARGEST_REDUCTION, RELATIVE_ACCURACY = "largest reduction", "accuracy / mean, largest sd"


def titles(runs: RunSet) -> dict[str, str]:
    """Return :data:`DATASETS` with the packed keyword features, where used, under their own name.

    Published values of KWS are for other features, so they are not shown beside these.
    """
    used = {run.spec.dataset.name for run in runs.planned(runs.labelled(dataset="kws"))}
    return DATASETS | ({"kws": KWS_PACKED} if "kws_mfcc20" in used else {})


def reported(runs: RunSet, groups: Sequence[str]) -> pd.DataFrame:
    """Return the reported test accuracy of every run, as fractions.

    Args:
        runs: the records.
        groups: names of groups of runs.

    Returns:
        One row a run: ``group``, ``title``, labels (``dataset`` as it is printed), grid
        coordinates, ``seed``, ``run``, ``accuracy`` (mean of the evaluations in the last ten
        rounds), ``final`` (after the last round) and ``best`` (the highest).
    """
    curves = runs.curves(groups, "accuracy")
    curves["dataset"] = curves["dataset"].map(titles(runs))
    keys = [name for name in curves.columns if name not in ("round", "value")]
    curves["last"] = curves.groupby("run")["round"].transform("max")
    late = curves[curves["round"] > curves["last"] - LAST_ROUNDS]
    table = curves.groupby(keys, sort=False, dropna=False)["value"].agg(final="last", best="max")
    table["accuracy"] = late.groupby(keys, sort=False, dropna=False)["value"].mean()
    return table.reset_index()


def pretrain_epochs(runs: RunSet, groups: Sequence[str]) -> dict[str, int]:
    """Return how many epochs of pre-training each run begins with: run id -> epochs."""
    return {
        run.id: getattr(run.spec.algorithm, "pretrain_epochs", 0) for run in runs.members(groups)
    }


def divergences(runs: RunSet, groups: Sequence[str], what: str = "fedavg") -> pd.DataFrame:
    """Return the weight divergence from SGD after the first round (eq. 1), one row a run and layer.

    Args:
        runs: the records.
        groups: groups of runs that record it.
        what: ``fedavg``, or ``sgd_other_shuffle`` for the noise floor.

    Returns:
        ``group``, ``title``, labels (``dataset`` as it is printed), grid coordinates, ``seed``,
        ``run``, ``layer`` and ``value``.
    """
    parts = []
    runs.some(groups)
    for dataset, layers in LAYERS.items():
        here = runs.labelled(groups, dataset=dataset)
        if runs.members(here):
            metrics = {f"weight_divergence.{what}.{layer}": layer for layer in layers}
            finals = runs.final(here, list(metrics)).rename(columns=metrics)
            names = [name for name in finals.columns if name not in layers]
            finals["dataset"] = titles(runs)[dataset]
            parts.append(finals.melt(names, var_name="layer"))
    return pd.concat(parts, ignore_index=True)


def synchronisations(runs: RunSet) -> pd.DataFrame:
    """Return what the runs for Proposition 3.1 find, in units of the weights.

    Returns:
        One row a run and synchronisation: ``emd``, ``seed``, ``run``, ``m`` (from 1), ``distance``
        of FedAvg from SGD, ``bound`` on it (eq. 2) and ``norm`` of SGD's weights.
    """
    found = ["distance", "bound", "norm"]
    table = runs.final([BOUND], found).explode(found, ignore_index=True)
    table["m"] = table.groupby(["run", "seed"]).cumcount() + 1
    return table.astype(dict.fromkeys(found, float))


def shared_label(beta: float) -> str:
    """Return the name of a set G by its size: ``G = 10 % of D``."""
    return f"G = {100 * beta:g} % of D"


def table1(runs: RunSet) -> pd.DataFrame:
    """Build Table 1: the accuracy lost against SGD of the same batches, seed by seed."""
    groups = runs.groups_of("table1")
    table = in_order(reported(runs, groups), "group", groups)
    central = table["training"] == "sgd"
    values = ["accuracy", "final", "best"]
    lost = differences(table[~central], table[central], *values, on=["dataset", "batches", "seed"])
    if lost.empty:
        raise MissingRunsError("no training is recorded beside SGD of the same batches and seed")
    lost[values] = 0 - lost[values]  # what is lost, of 0 without a minus
    return _cells(lost, row="title", column="dataset").assign(unit="points")


def table2(runs: RunSet) -> pd.DataFrame:
    """Build Table 2: mean and standard deviation over the distributions, by EMD."""
    table = reported(runs, runs.groups_of("table2"))
    table["emd"] = table["emd"].map("{:g}".format)
    return _cells(table, row="dataset", column="emd")


def table3(runs: RunSet) -> pd.DataFrame:
    """Build Table 3 (the text's Table A.2)."""
    return _by_title(runs, "table3")


def sweep_text(runs: RunSet) -> pd.DataFrame:
    """Build the two numbers that section 3.2.3 quotes of each row of Table 2.

    Of the seeds that are recorded at every EMD of a data set, since one more could be the lowest.
    The largest reduction is the accuracy at the lowest EMD less that at the EMD with the lowest
    mean, seed by seed. The text's "maximum variation" is the largest sd / mean of all EMDs, as
    Table 2 shows: the accuracy relative to its mean, at the EMD where that varies most.
    """
    table = _whole_sweeps(runs).rename(columns={"dataset": "row"})
    levels = summarise(table, "accuracy", ["row", "emd"])
    lowest = levels.sort_values("mean").groupby("row").head(1)[["row", "emd"]]
    uniform = table[table["emd"] == table.groupby("row")["emd"].transform("min")]
    reduction = differences(table.merge(lowest), uniform, "accuracy", on=["row", "seed"])
    reduction = reduction.assign(
        value=0 - reduction["accuracy"], column=LARGEST_REDUCTION, unit="points"
    )
    levels["relative"] = levels["sd"] / levels["mean"]
    varies_most = levels.sort_values("relative", ascending=False).groupby("row").head(1)
    varying = table.merge(varies_most[["row", "emd", "mean"]])
    variation = varying.assign(
        value=varying["accuracy"] / varying["mean"], column=RELATIVE_ACCURACY, unit="fraction"
    )
    both = pd.concat([reduction, variation], ignore_index=True)
    return summarise(both, "value", ["row", "column"], "unit")


def _whole_sweeps(runs: RunSet) -> pd.DataFrame:
    """Return what the seeds reported that are recorded at every EMD of their data set.

    Raises:
        MissingRunsError: there is none.
    """
    groups = runs.groups_of("sweep_text")
    planned = {
        group: len({run.coordinates["emd"] for run in runs.planned([group])}) for group in groups
    }
    table = reported(runs, groups)
    there = table.groupby(["group", "seed"])["emd"].transform("nunique")
    table = table[there == table["group"].map(planned)]
    if table.empty:
        raise MissingRunsError("no seed is recorded at every EMD of a data set")
    return table


def warm_up(runs: RunSet) -> pd.DataFrame:
    """Build our table of the warm-up models: epochs on G, and the test accuracy reached.

    Runs that differ in alpha alone share their warm-up model; it is shown once.
    """
    units = {"epochs": "count", "accuracy": "fraction"}
    metrics = {f"warm_up.{name}": name for name in units}
    table = runs.final([WARM], list(metrics)).rename(columns=metrics)
    table = table.drop_duplicates(["beta", "seed"]).assign(row=table["beta"].map(shared_label))
    return _columns(table, units)


def bound(runs: RunSet) -> pd.DataFrame:
    """Build our table of Proposition 3.1: distance of FedAvg from SGD, and the bound on it.

    One row an EMD and side, one column a synchronisation, in units of the weights.
    """
    table = synchronisations(runs).rename(columns={"distance": "measured"})
    table = table.melt(["emd", "m", "seed", "run"], ["measured", "bound"], var_name="side")
    table = table.sort_values("emd", kind="stable")
    row = "EMD " + table["emd"].map("{:g}".format) + ", " + table["side"]
    column = "m = " + table["m"].astype(str)
    cells = summarise(table.assign(row=row, column=column), "value", ["row", "column"])
    return cells.assign(unit="weights")


def own_initial(runs: RunSet) -> pd.DataFrame:
    """Build our table on Remark 3.3: accuracy by what clients start from."""
    return _by_title(runs, "own_initial")


def unit_pixels(runs: RunSet) -> pd.DataFrame:
    """Build our table of the trainings of MNIST in the other reading of what is left open."""
    return _by_title(runs, "unit_pixels")


def by_choice(runs: RunSet) -> pd.DataFrame:
    """Return test accuracies (fraction) under each choice that the paper leaves open.

    The paper says neither how pixels are scaled nor how weights start. Each group of runs with a
    label ``choice`` differs from the committed reading in that choice alone.

    Returns:
        A table of choices (:mod:`fedrepro.report.choices`). Where the initial weights are others,
        each of them is a row.

    Raises:
        MissingRunsError: a record is missing, or all of the other choices are, where partial.
    """
    groups = runs.groups_of("choices")
    runs.some([group for group in groups if "choice" in runs.plan.runs[group].labels])
    table = reported(runs, groups)
    table["column"] = table["training"].map(CHOICE_TRAININGS)
    table["row"] = table["choice"].map(CHOICES).fillna(COMMITTED)
    _number_draws(table, ", ")
    committed = table[table["row"] == COMMITTED]
    same = [
        committed.assign(row=name, accuracy=committed[key]) for key, name in OF_THE_SAME_RUN.items()
    ]
    columns = ["row", "column", "seed", "run", "accuracy"]
    return pd.concat([committed, *same, table[table["row"] != COMMITTED]])[columns]


def _number_draws(table: pd.DataFrame, before: str) -> None:
    """Add to the rows of runs with other initial weights than all others have, which draw it is."""
    if "init_seed" in table:
        others = table["init_seed"].notna()
        numbers = table.loc[others, "init_seed"].map("{:g}".format)
        table.loc[others, "row"] += before + numbers


def choice_divergence(runs: RunSet) -> pd.DataFrame:
    """Build our table of the rise of each layer's divergence with EMD, by pixels and weights.

    The rise is from the lowest to the highest EMD, seed by seed; one column a layer.
    """
    groups = runs.groups_of("choice_divergence")
    table = divergences(runs, groups)
    table["row"] = table["transform"].map(PIXELS) + ", " + table["init"].map(INITIAL_WEIGHTS)
    _number_draws(table, ", other draw ")
    levels = sorted({run.coordinates["emd"] for run in runs.planned(groups)})
    low, high = table[table["emd"] == levels[0]], table[table["emd"] == levels[-1]]
    rise = differences(high, low, "value", on=["row", "layer", "seed"])
    if rise.empty:
        raise MissingRunsError("no seed is recorded at both the lowest and the highest EMD")
    cells = rise.rename(columns={"layer": "column"})
    return summarise(cells, "value", ["row", "column"]).assign(unit="ratio")


OVERLAPPING = {
    "IID and SGD": ("iid", "sgd"),
    "non-IID(1), E = 5 and E = 1": ("one_class_e5", "one_class"),
}
"""Trainings whose curves overlap, as section 2.2 says, by what our tables call them."""

STRETCH = 50
"""Rounds in each stretch of the longer trainings; at lite the others end after the first."""


def curves_apart(runs: RunSet) -> pd.DataFrame:
    """Show how far apart the curves of two trainings are, and those of two seeds of one."""
    curves = runs.curves(runs.groups_of("curves_apart"), "accuracy")
    curves["column"] = curves["dataset"].map(titles(runs))
    return summarise(_apart(curves), "value", ["row", "column"]).assign(unit="points")


def longer(runs: RunSet) -> pd.DataFrame:
    """Show the same of longer trainings, a column a stretch of rounds."""
    curves = runs.curves(runs.groups_of("longer"), "accuracy")
    end = (curves["round"] + STRETCH - 1) // STRETCH * STRETCH
    curves["column"] = [f"rounds {last - STRETCH + 1} to {last}" for last in end]
    table = _apart(curves)
    table["row"] = table["dataset"].map(titles(runs)) + ", " + table["row"]
    return summarise(table, "value", ["row", "column"]).assign(unit="points")


def _apart(curves: pd.DataFrame) -> pd.DataFrame:
    """Return how far apart curves are that overlap, one row a pair and ``column`` of ``curves``.

    That is the mean absolute distance over the evaluations: of each seed's two curves, and of the
    seeds 0 and 1, 2 and 3 and so on, which nothing but chance sets apart.

    Raises:
        MissingRunsError: no pair is recorded.
    """
    of = {name: curves[curves["training"] == name] for name in curves["training"].unique()}
    parts = []
    for name, (one, other) in OVERLAPPING.items():
        if one in of and other in of:
            parts.append(_distances(of[one], of[other]).assign(row=name))
    for name, these in of.items():
        even = these["seed"] % 2 == 0
        title = {"sgd": "SGD", **CHOICE_TRAININGS}[name]
        apart = _distances(these[even], these[~even].assign(seed=these["seed"] - 1))
        parts.append(apart.assign(row=f"{title}, two seeds"))
    table = pd.concat(parts)
    if table.empty:
        raise MissingRunsError("no two curves of a pair are recorded")
    return table


def _distances(ones: pd.DataFrame, others: pd.DataFrame) -> pd.DataFrame:
    """Return the mean absolute distance of curves, one row a data set, column and seed."""
    pairs = differences(ones, others, "value", on=["dataset", "column", "seed", "round"])
    pairs["value"] = pairs["value"].abs()
    means = pairs.groupby(["dataset", "column", "seed"], sort=False)
    return means.agg(value=("value", "mean"), run=("run", "first")).reset_index()


def by_pretraining(runs: RunSet) -> pd.DataFrame:
    """Show what pre-training reaches and what FedAvg makes of it, by epochs of pre-training."""
    groups = runs.groups_of("pretraining")
    epochs = pretrain_epochs(runs, groups)
    curves = runs.curves(groups, "accuracy")
    before = curves[curves["round"] == curves["run"].map(epochs)].set_index("run")["value"]
    table = in_order(reported(runs, groups), "group", groups)
    table = table.rename(columns={"accuracy": "after FedAvg"})
    table["pre-training"] = table["run"].map(before)
    table["change"] = table["after FedAvg"] - table["pre-training"]
    table["row"] = table["dataset"] + ", " + table["run"].map(epochs).astype(str) + " epochs"
    units = {"pre-training": "fraction", "after FedAvg": "fraction", "change": "points"}
    return _columns(table, units)


def by_step_size(runs: RunSet, artefact: str) -> pd.DataFrame:
    """Show each layer's weight divergence by step size; a column a training, or an EMD."""
    groups = runs.groups_of(artefact)
    table = divergences(runs, groups)
    step_size = {run.id: f"{run.spec.optimizer.lr:g}" for run in runs.members(groups)}
    table["row"] = table["dataset"] + ", " + table["layer"] + ", step size "
    table["row"] += table["run"].map(step_size)
    if "emd" in table:
        table["column"] = "EMD " + table["emd"].map("{:g}".format)
    else:
        table["column"] = table["training"].map(CHOICE_TRAININGS)
    return summarise(table, "value", ["row", "column"]).assign(unit="ratio")


def _cells(table: pd.DataFrame, row: str, column: str) -> pd.DataFrame:
    """Summarise ``accuracy`` by two columns of a table; ``final`` and ``best`` as means."""
    table = table.rename(columns={row: "row", column: "column"})
    cells = summarise(table, "accuracy", ["row", "column"])
    means = table.groupby(["row", "column"], sort=False)[["final", "best"]].mean()
    return cells.join(means, on=["row", "column"]).assign(unit="fraction")


def _columns(table: pd.DataFrame, units: Mapping[str, str]) -> pd.DataFrame:
    """Summarise several columns of a table by ``row``.

    Args:
        table: one row a run.
        units: the columns, and the unit of each.
    """
    cells = table.melt(["row", "seed", "run"], list(units), var_name="column")
    cells["unit"] = cells["column"].map(units)
    return summarise(cells, "value", ["row", "column"], "unit")


def _by_title(runs: RunSet, artefact: str) -> pd.DataFrame:
    """Summarise the accuracies of a table's groups: a row a title, a column a data set."""
    return _cells(reported(runs, runs.groups_of(artefact)), row="title", column="dataset")


TABLES: dict[str, Callable[[RunSet], pd.DataFrame]] = {
    "table1": table1,
    "table2": table2,
    "table3": table3,
    "sweep_text": sweep_text,
    "warm_up": warm_up,
    "bound": bound,
    "own_initial": own_initial,
    "unit_pixels": unit_pixels,
    "choices": lambda runs: moved(by_choice(runs)),
    "choice_divergence": choice_divergence,
    "curves_apart": curves_apart,
    "longer": longer,
    "pretraining": by_pretraining,
    "step_size": lambda runs: by_step_size(runs, "step_size"),
    "step_size_sweep": lambda runs: by_step_size(runs, "step_size_sweep"),
}
