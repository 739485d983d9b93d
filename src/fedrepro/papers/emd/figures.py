"""Zhao et al. 2018: figures 1 to 8, and the bound of Proposition 3.1.

The paper prints its curves and divergences as images only. Published numbers are drawn in figure
5a, which is Table 2 as a curve, and in figure 7, where the text names a few. Figures 3 and 6 are
drawings in the paper; here they are drawn from a run's weights and from a run's partition.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import pandas as pd

from fedrepro.fl.partition.data_sharing import DataSharing
from fedrepro.papers.emd.measurements import (
    BOUND,
    DATASETS,
    FIRST_ROUND,
    SCRATCH,
    WARM,
    by_choice,
    divergences,
    pretrain_epochs,
    reported,
    shared_label,
    synchronisations,
    titles,
)
from fedrepro.report import choices
from fedrepro.report.expected import cell_key, published
from fedrepro.report.figure import Figure, at_the_end
from fedrepro.report.stats import summarise
from fedrepro.runs.runset import RunSet

NOISE_FLOOR = "SGD in another order (noise floor)"
"""The divergence of two SGD runs that differ in nothing but the order of the examples."""

ROUNDING = 1e-5
"""Distances below this share of the weights' norm are those of single-precision arithmetic."""
_BOXED_EMD = 1.44
_KEYS = ["series", "x"]


# Figures 1 and 8: accuracy over the rounds


def accuracy_curves(runs: RunSet, figure: str) -> pd.DataFrame:
    """Return test accuracy (fraction) over the rounds, one series a training.

    A pre-trained run begins at round 0 with what pre-training reached. Further columns:
    ``dataset``, and ``reported``, what Table 3 prints, in a series' last row.
    """
    groups = runs.groups_of(figure)
    curves = runs.curves(groups, "accuracy")
    curves["x"] = curves["round"] - curves["run"].map(pretrain_epochs(runs, groups))
    curves["dataset"] = curves["dataset"].map(titles(runs))
    curves = curves[curves["x"] >= 0].rename(columns={"title": "series"})
    cells = summarise(curves, "value", _KEYS, "dataset")
    table3 = published(runs.paper, "table3")
    keys = zip(cells["series"], cells["dataset"].map(_printed_as(runs)), strict=True)
    printed = pd.Series([table3.get(cell_key(*key), np.nan) for key in keys], cells.index)
    return at_the_end(cells, printed)


def _printed_as(runs: RunSet) -> dict[str, str]:
    """Return how the paper calls our data sets; its KWS has other features than our packed one."""
    return {ours: DATASETS[key] for key, ours in titles(runs).items()}


# Figures 2 and 4: weight divergence


def divergence_by_skew(runs: RunSet) -> pd.DataFrame:
    """Return figure 2: divergence of each layer for IID, 2-class and 1-class clients.

    A fourth series, our own, is the noise floor, taken from the IID runs. Further columns:
    ``dataset`` and ``layer``, which together are ``x``.
    """
    groups = runs.groups_of("fig2")
    table = divergences(runs, groups)
    iid = runs.labelled(groups, training="iid")
    if runs.members(iid):
        floor = divergences(runs, iid, "sgd_other_shuffle").assign(title=NOISE_FLOOR)
        table = pd.concat([table, floor])
    table["x"] = table["dataset"] + " " + table["layer"]
    table["series"] = table["title"].str.removesuffix(FIRST_ROUND)
    return summarise(table, "value", _KEYS, "dataset", "layer")


def divergence_by_emd(runs: RunSet, figure: str) -> pd.DataFrame:
    """Return figure 4: divergence of each layer against EMD, over the distributions."""
    table = divergences(runs, runs.groups_of(figure))
    table = table.rename(columns={"layer": "series", "emd": "x"})
    return summarise(table, "value", _KEYS, "dataset")


# Figure 5: accuracy against EMD


def accuracy_by_emd(runs: RunSet) -> pd.DataFrame:
    """Return figure 5a: reported test accuracy (fraction) against EMD, a series a data set.

    Further columns: ``table2`` and ``table2_sd``, the published values that the curves show, KWS's
    also where our features are packed.
    """
    table = reported(runs, runs.groups_of("fig5a"))
    cells = summarise(table.rename(columns={"dataset": "series", "emd": "x"}), "accuracy", _KEYS)
    names = cells["series"].map(_printed_as(runs))
    keys = [cell_key(*key) for key in zip(names, cells["x"], strict=True)]
    means, sds = published(runs.paper, "table2"), published(runs.paper, "table2", "sd")
    cells["table2"] = [means.get(key, np.nan) for key in keys]
    cells["table2_sd"] = [sds.get(key, np.nan) for key in keys]
    return cells.assign(scale=runs.scale)


def variation(runs: RunSet) -> pd.DataFrame:
    """Return figure 5b: what the distributions of EMD 1.44 do to accuracy and divergence.

    Values are relative to their mean. Series ``accuracy`` by data set, which the text speaks of;
    series ``weight divergence`` by data set and layer, which the caption names. Further columns:
    ``dataset`` and ``layer``, which together are ``x`` (no layer: accuracy), and ``emd``.
    At a scale without that EMD, the nearest is taken.
    """
    groups = runs.groups_of("fig5b")
    accuracy = reported(runs, runs.labelled(groups, batches="large"))
    accuracy = accuracy.rename(columns={"accuracy": "value"})
    divergence = divergences(runs, runs.labelled(groups, reference="sgd"))
    divergence = divergence.assign(series="weight divergence")
    table = pd.concat([accuracy.assign(series="accuracy", layer=""), divergence])
    level = min(table["emd"].unique(), key=lambda emd: abs(emd - _BOXED_EMD))
    table = table[table["emd"] == level].reset_index()
    table["x"] = (table["dataset"] + " " + table["layer"]).str.rstrip()
    table["value"] /= table.groupby(_KEYS)["value"].transform("mean")
    return summarise(table, "value", _KEYS, "dataset", "layer", "emd")


# Figures 3 and 6, redrawn from runs


def weights_in_a_plane(runs: RunSet) -> pd.DataFrame:
    """Return figure 3: models of the first synchronisations, projected to a plane.

    The records of the runs for Proposition 3.1 hold the inner products of all models'
    displacements from the initial weights; their first two principal components span the plane of
    each panel, in units of the weights.

    Returns:
        One row a model: ``series`` (``EMD 1.8: client 3``), ``x`` (synchronisation, 0 is the
        start), ``mean`` (along the first component), ``up`` (along the second), ``kept`` (share of
        the squared distances that the plane keeps), ``emd``, ``model``, ``dataset``, ``runs``.
    """
    members = runs.some([BOUND])
    parts = []
    for run in (members[0], members[-1]):
        record = runs.record(run)
        place, kept = plane(np.array(record.final["inner_products"]))
        models = [f"client {k}" for k in range(len(record.partition.counts))] + ["FedAvg", "SGD"]
        rounds = (len(place) - 1) // len(models)
        emd = run.coordinates["emd"]
        part = pd.DataFrame(place, columns=["mean", "up"]).assign(kept=kept, emd=emd, runs=run.id)
        part["model"] = ["start", *models * rounds]
        part.insert(0, "x", [0, *np.repeat(range(1, rounds + 1), len(models))])
        part.insert(0, "series", f"EMD {emd:g}: " + part["model"])
        parts.append(part)
    dataset = titles(runs)[runs.plan.runs[BOUND].labels["dataset"]]
    return pd.concat(parts, ignore_index=True).assign(dataset=dataset)


def plane(products: np.ndarray) -> tuple[np.ndarray, float]:
    """Project vectors to the plane of their first two principal components.

    Args:
        products: inner products of n vectors, float64 [n, n]; the zero vector is put in front.

    Returns:
        Coordinates, float64 [n + 1, 2], the zero vector first and at the origin; and the share of
        the sum of squared distances from the mean that lies in the plane.
    """
    gram = np.pad(products, (1, 0))
    centre = np.eye(len(gram)) - 1 / len(gram)
    values, vectors = np.linalg.eigh(centre @ gram @ centre)
    place = vectors[:, -2:][:, ::-1] * np.sqrt(np.maximum(values[-2:][::-1], 0))
    place = place - place[0]
    place *= np.where(place[-1] >= 0, 1, -1)  # signs are arbitrary: the last lies up and right
    total = float(np.maximum(values, 0).sum())
    return place, float(values[-2:].sum()) / total if total else 1.0


def sharing_partition(runs: RunSet) -> pd.DataFrame:
    """Return figure 6: what each client holds of each class, of its own and of G.

    Taken from one run of figure 7b: the smaller G, the alpha nearest to one half. Series ``own``
    and ``class <i> of G``, ``x`` the client; ``mean`` counts examples; ``label`` is the class.
    """
    members = runs.some([WARM])
    run = min(members, key=lambda run: abs(float(run.coordinates["alpha"]) - 0.5))
    cut, found = run.spec.partition, runs.record(run).partition
    assert isinstance(cut, DataSharing)
    counts = np.array(found.counts)
    shared = round(cut.alpha * cut.beta * cut.per_class)
    own = np.where(counts == counts.max(axis=1, keepdims=True), counts - shared, 0)
    clients, labels = np.indices(counts.shape).reshape(2, -1)
    table = pd.DataFrame(
        {"x": clients, "label": labels, "own": own.flat, "shared": (counts - own).flat}
    )
    table = table.melt(["x", "label"], var_name="held", value_name="mean")
    table = table[(table["held"] == "shared") | (table["mean"] > 0)]
    names = {"own": "own, class {}", "shared": "class {} of G"}
    keys = zip(table["held"], table["label"], strict=True)
    table["series"] = [names[held].format(label) for held, label in keys]
    return table[["series", "x", "mean", "held", "label"]].assign(
        what=f"{shared_label(cut.beta)}, alpha = {100 * cut.alpha:g} %",
        emd=float(np.mean(found.emd)),
        runs=run.id,
    )


# Figure 7: data sharing


def accuracy_by_beta(runs: RunSet) -> pd.DataFrame:
    """Return figure 7a: reported accuracy (fraction) by beta (per cent), and the clients' EMD."""
    table = reported(runs, [SCRATCH])
    emd = {run.id: np.mean(runs.record(run).partition.emd) for run in runs.members([SCRATCH])}
    table = table.assign(series="accuracy", x=100 * table["beta"], emd=table["run"].map(emd))
    cells = summarise(table, "accuracy", _KEYS)
    return cells.assign(emd=summarise(table, "emd", _KEYS)["mean"])


def accuracy_by_alpha(runs: RunSet) -> pd.DataFrame:
    """Return figure 7b: reported accuracy (fraction) by alpha (per cent), a series a G."""
    table = reported(runs, [WARM])
    table = table.assign(series=table["beta"].map(shared_label), x=100 * table["alpha"])
    return summarise(table, "accuracy", _KEYS)


# Proposition 3.1


def bound_by_synchronisation(runs: RunSet) -> pd.DataFrame:
    """Return the distance of FedAvg from SGD and the bound on it, by synchronisation m.

    A further column, ``rounding``, is the distance below which single-precision arithmetic alone
    may be seen. All in units of the weights.
    """
    table = synchronisations(runs).rename(columns={"m": "x"})
    table["rounding"] = ROUNDING * table["norm"]
    table = table.melt(
        ["emd", "x", "rounding", "seed", "run"], ["distance", "bound"], var_name="side"
    ).sort_values("emd", kind="stable")
    table["series"] = "EMD " + table["emd"].map("{:g}".format) + ", " + table["side"]
    cells = summarise(table, "value", _KEYS, "emd", "side")
    return cells.assign(rounding=summarise(table, "rounding", _KEYS)["mean"])


def _panels(
    number: str, data: Callable[..., pd.DataFrame], unit: str = "fraction"
) -> dict[str, Figure]:
    """Return the panels a, b, c of a figure, one a data set, as figures of their own."""
    names = [f"fig{number}{letter}" for letter in "abc"]
    return {name: Figure(functools.partial(data, figure=name), unit) for name in names}


FIGURES: dict[str, Figure] = {
    **_panels("1", accuracy_curves),
    "fig2": Figure(divergence_by_skew, "ratio"),
    "fig3": Figure(weights_in_a_plane, "weights"),
    **_panels("4", divergence_by_emd, "ratio"),
    "fig5a": Figure(accuracy_by_emd),
    "fig5b": Figure(variation, "ratio"),
    "fig6": Figure(sharing_partition, "count"),
    "fig7a": Figure(accuracy_by_beta),
    "fig7b": Figure(accuracy_by_alpha),
    **_panels("8", accuracy_curves),
    "bound_rounds": Figure(bound_by_synchronisation, "weights"),
    "open_choices": choices.figure(by_choice),
}
