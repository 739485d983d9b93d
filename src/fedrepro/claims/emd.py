"""Zhao et al. 2018: the claims of the MNIST parts with large batches.

A claim is a function of our means over the seeds; every number in the code is a fraction, "points"
in the texts are percentage points. The last group of claims is about the paper's own numbers: they
are decided from what is published alone and rest on no run.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Literal

import pandas as pd
from scipy import stats

from fedrepro.claims.finding import Finding
from fedrepro.errors import FedreproError
from fedrepro.expected import published
from fedrepro.runs import RunSet
from fedrepro.stats import summarise
from fedrepro.tables.emd import (
    DATASET,
    IID,
    LARGEST_REDUCTION,
    LARGEST_VARIATION,
    LAYERS,
    ONE_CLASS,
    ONE_CLASS_E5,
    SGD,
    SWEEP,
    TABLE_1,
    TWO_CLASS,
    divergences,
    reported,
)

SLACK = 1e-9
"""Means of decimal fractions are not exact; a bound that is met exactly is met."""

NAMES = {
    SGD: "SGD",
    IID: "IID",
    TWO_CLASS: "2-class",
    ONE_CLASS: "1-class",
    ONE_CLASS_E5: "1-class with E = 5",
}


def _percent(value: float) -> str:
    return f"{100 * value:.2f} %"


def _points(value: float) -> str:
    return f"{100 * value:.2f} points"


def _ids(cells: pd.DataFrame) -> list[str]:
    return [run for runs in cells["runs"] for run in str(runs).split()]


def _accuracies(runs: RunSet, *groups: str) -> tuple[dict[str, float], list[str]]:
    """Return the mean reported accuracy of every group, and the ids of their runs."""
    cells = summarise(reported(runs, groups), "accuracy", ["group"])
    return dict(zip(cells["group"], cells["mean"], strict=True)), _ids(cells)


def _listed(accuracies: dict[str, float]) -> str:
    return ", ".join(f"{NAMES[group]} {_percent(value)}" for group, value in accuracies.items())


def _sweep(runs: RunSet, *needed: float) -> pd.DataFrame:
    """Return the summary of the sweep by EMD, ascending; its index is the EMD.

    Raises:
        FedreproError: the plan has none of the needed values at this scale.
    """
    cells = summarise(reported(runs, [SWEEP]), "accuracy", ["emd"])
    cells = cells.set_index("emd").sort_index()
    for emd in needed:
        if emd not in cells.index:
            raise FedreproError(
                f"config/papers/{runs.paper}.yaml: scales.{runs.scale}: the sweep has no EMD "
                f"{emd:g}, which a claim needs; add it to the grid, or take the scale off the claim"
            )
    return cells


def _at(cells: pd.DataFrame, emd: float) -> float:
    return float(cells["mean"][emd])


# Table 3 and figure 1a


def iid_matches_sgd(runs: RunSet) -> Finding:
    """ZA1: FedAvg on IID data and SGD are at most 1 point apart."""
    ours, used = _accuracies(runs, SGD, IID)
    gap = ours[IID] - ours[SGD]
    return Finding(abs(gap) <= 0.01 + SLACK, _listed(ours), used, gap)


def ordered(runs: RunSet) -> Finding:
    """ZA2: SGD and IID are above 2-class, and 2-class is above 1-class."""
    ours, used = _accuracies(runs, SGD, IID, TWO_CLASS, ONE_CLASS)
    smallest = min(ours[SGD], ours[IID]) - ours[TWO_CLASS], ours[TWO_CLASS] - ours[ONE_CLASS]
    return Finding(min(smallest) > 0, _listed(ours), used, min(smallest))


def one_class_drop(runs: RunSet) -> Finding:
    """ZA3: 1-class clients cost at least 3 points."""
    ours, used = _accuracies(runs, SGD, ONE_CLASS)
    drop = ours[SGD] - ours[ONE_CLASS]
    return Finding(drop >= 0.03 - SLACK, _listed(ours), used, drop)


def two_class_drop(runs: RunSet) -> Finding:
    """ZA4: 2-class clients cost less than half of what 1-class clients cost."""
    ours, used = _accuracies(runs, SGD, TWO_CLASS, ONE_CLASS)
    two, one = ours[SGD] - ours[TWO_CLASS], ours[SGD] - ours[ONE_CLASS]
    evidence = f"lost against SGD: 2-class {_points(two)}, 1-class {_points(one)}"
    return Finding(one > 0 and two < one / 2, evidence, used, two / one if one else None)


def epochs_do_not_help(runs: RunSet) -> Finding:
    """ZA5: E = 5 and E = 1 end at most 1.5 points apart on 1-class data."""
    ours, used = _accuracies(runs, ONE_CLASS, ONE_CLASS_E5)
    gap = ours[ONE_CLASS_E5] - ours[ONE_CLASS]
    return Finding(abs(gap) <= 0.015 + SLACK, _listed(ours), used, gap)


# Weight divergence: figures 2 and 4a


def divergence_follows_skew(runs: RunSet) -> Finding:
    """ZA8: IID < 2-class < 1-class in every layer."""
    cells = summarise(
        divergences(runs, (IID, TWO_CLASS, ONE_CLASS), LAYERS), "value", ["layer", "group"]
    )
    means = cells.pivot(index="layer", columns="group", values="mean")
    smallest = min(
        float((means[more] / means[less])[layer])
        for less, more in ((IID, TWO_CLASS), (TWO_CLASS, ONE_CLASS))
        for layer in LAYERS
    )
    evidence = "; ".join(
        f"{layer}: "
        + ", ".join(f"{NAMES[g]} {means[g][layer]:.3g}" for g in (IID, TWO_CLASS, ONE_CLASS))
        for layer in LAYERS
    )
    return Finding(smallest > 1, evidence, _ids(cells), smallest)


def _divergence_by_emd(runs: RunSet) -> tuple[pd.DataFrame, list[str]]:
    """Return the mean divergence, EMD x layer, and the ids of the runs."""
    cells = summarise(divergences(runs, [SWEEP], LAYERS), "value", ["emd", "layer"])
    means = cells.pivot(index="emd", columns="layer", values="mean").sort_index()
    return means[list(LAYERS)], _ids(cells)


def divergence_follows_emd(runs: RunSet) -> Finding:
    """ZA9: in every layer Spearman's rank correlation of EMD and mean divergence is >= 0.9."""
    means, used = _divergence_by_emd(runs)
    rank = {layer: float(stats.spearmanr(means.index, means[layer]).statistic) for layer in LAYERS}
    evidence = "rank correlation: " + ", ".join(f"{k} {v:.3f}" for k, v in rank.items())
    lowest = min(rank.values())
    return Finding(lowest >= 0.9 - SLACK, evidence, used, lowest)


def divergence_rises_most_at_the_ends(runs: RunSet) -> Finding:
    """ZA10: the divergence rises most, from the lowest to the highest EMD, in conv1 and fc2."""
    means, used = _divergence_by_emd(runs)
    rise = (means.iloc[-1] - means.iloc[0]).sort_values(ascending=False)
    evidence = "rise: " + ", ".join(f"{layer} {value:.4g}" for layer, value in rise.items())
    return Finding(set(rise.index[:2]) == {LAYERS[0], LAYERS[-1]}, evidence, used)


# Accuracy against EMD: Table 2 and figure 5a


def _levels(cells: pd.DataFrame) -> str:
    return "mean at EMD " + ", ".join(
        f"{emd:g}: {_percent(_at(cells, emd))}" for emd in cells.index
    )


def accuracy_falls(runs: RunSet) -> Finding:
    """ZA12: from each EMD to the next the mean accuracy rises by at most 0.3 points."""
    cells = _sweep(runs)
    largest = float(cells["mean"].diff().max())
    return Finding(largest <= 0.003 + SLACK, _levels(cells), _ids(cells), largest)


def decline_accelerates(runs: RunSet, *, factor: float) -> Finding:
    """ZA13: accuracy falls at least ``factor`` times as fast above EMD 1.44 as below it."""
    cells = _sweep(runs, 0, 1.44, 1.8)
    start, middle, end = (_at(cells, emd) for emd in (0, 1.44, 1.8))
    early, late = (start - middle) / 1.44, (middle - end) / (1.8 - 1.44)
    evidence = f"loss per unit of EMD: {_points(early)} up to 1.44, {_points(late)} from there"
    ratio = late / early if early > 0 else None
    return Finding(late > 0 and late >= factor * early - SLACK, evidence, _ids(cells), ratio)


def most_is_kept(runs: RunSet) -> Finding:
    """ZA14: at EMD 1.44 at least 90 % of the accuracy at EMD 0 is kept."""
    cells = _sweep(runs, 0, 1.44)
    share = _at(cells, 1.44) / _at(cells, 0)
    return Finding(share >= 0.9 - SLACK, f"{_percent(share)} kept", _ids(cells), share)


def last_step_costs(runs: RunSet) -> Finding:
    """ZA15: the step from EMD 1.764 to 1.8 alone costs at least 2 points."""
    cells = _sweep(runs, 1.764, 1.8)
    loss = _at(cells, 1.764) - _at(cells, 1.8)
    return Finding(loss >= 0.02 - SLACK, f"the last step costs {_points(loss)}", _ids(cells), loss)


def variation_is_small(runs: RunSet) -> Finding:
    """ZA16: at no EMD is the relative standard deviation over the distributions above 0.2 %."""
    cells = _sweep(runs)
    relative = cells["sd"] / cells["mean"]
    worst = float(relative.max())
    evidence = f"largest sd / mean {100 * worst:.3f} % (EMD {relative.idxmax():g})"
    return Finding(worst <= 0.002 + SLACK, evidence, _ids(cells), worst)


def ends_match_table3(runs: RunSet) -> Finding:
    """ZA17: EMD 0 and IID, and EMD 1.8 and 1-class, are at most 1.5 points apart."""
    cells = _sweep(runs, 0, 1.8)
    ours, used = _accuracies(runs, IID, ONE_CLASS)
    gaps = [_at(cells, 0) - ours[IID], _at(cells, 1.8) - ours[ONE_CLASS]]
    evidence = f"EMD 0 {_percent(_at(cells, 0))}, EMD 1.8 {_percent(_at(cells, 1.8))}; " + _listed(
        ours
    )
    worst = max(gaps, key=abs)
    return Finding(abs(worst) <= 0.015 + SLACK, evidence, [*_ids(cells), *used], worst)


def emd_is_not_all(runs: RunSet) -> Finding:
    """ZA18: 2-class clients (EMD 1.6) reach less than shifted distributions at EMD 1.62."""
    cells = _sweep(runs, 1.62)
    ours, used = _accuracies(runs, TWO_CLASS)
    lead = _at(cells, 1.62) - ours[TWO_CLASS]
    evidence = f"{_listed(ours)}, EMD 1.62 {_percent(_at(cells, 1.62))}"
    return Finding(lead > 0, evidence, [*_ids(cells), *used], lead)


# The paper's own numbers


def _by_emd(paper: str, value: Literal["mean", "sd"] = "mean") -> dict[float, float]:
    """Return the published means or standard deviations of Table 2."""
    return {float(emd): number for (_, emd), number in published(paper, "table2", value).items()}


def table1_is_table3(runs: RunSet) -> Finding:
    """ZP1: Table 1's entries are differences of Table 3's, to the last digit printed."""
    accuracy, lost = (published(runs.paper, name) for name in ("table3", "table1"))
    titles = {group: runs.plan.runs[group].title for group in (SGD, *TABLE_1)}
    pairs = {
        title: (
            accuracy[titles[SGD], DATASET] - accuracy[title, DATASET],
            lost[title, DATASET],
        )
        for title in (titles[group] for group in TABLE_1)
    }
    evidence = "; ".join(
        f"{title}: Table 3 gives {_points(difference)}, Table 1 {_points(printed)}"
        for title, (difference, printed) in pairs.items()
    )
    return Finding(_all_within(pairs.values(), 0.00005), evidence, [])


def _all_within(pairs: Iterable[tuple[float, float]], tolerance: float) -> bool:
    return all(abs(a - b) <= tolerance + SLACK for a, b in pairs)


def reduction_is_table2(runs: RunSet) -> Finding:
    """ZP2: the reduction quoted in the text is Table 2's, whose 0.922 is rounded to 0.0005."""
    means = _by_emd(runs.paper)
    quoted = published(runs.paper, "sweep_text")[DATASET, LARGEST_REDUCTION]
    lowest = min(means.values())
    gaps = means[0] - lowest, max(means.values()) - lowest
    evidence = (
        f"text {_points(quoted)}; Table 2 {_points(gaps[0])} from EMD 0, {_points(gaps[1])} from "
        "the best EMD"
    )
    return Finding(any(abs(gap - quoted) <= 0.0005 + SLACK for gap in gaps), evidence, [], gaps[0])


def variation_is_relative(runs: RunSet) -> Finding:
    """ZP3: the text's bound on the variation is Table 2's largest sd / mean, rounded up."""
    means, sds = _by_emd(runs.paper), _by_emd(runs.paper, "sd")
    quoted = published(runs.paper, "sweep_text")[DATASET, LARGEST_VARIATION]
    relative = max(sds[emd] / means[emd] for emd in means)
    evidence = (
        f"text: less than {100 * quoted:.3f} %; Table 2: largest sd / mean {100 * relative:.4f} %, "
        f"largest sd {100 * max(sds.values()):.4f} points"
    )
    return Finding(quoted - 0.00001 <= relative <= quoted, evidence, [], relative)


def emd_alone_decides(runs: RunSet) -> Finding:
    """ZP4: Table 3's 2-class accuracy is Table 2's, interpolated at EMD 1.6, within 3 sd."""
    means, sds = _by_emd(runs.paper), _by_emd(runs.paper, "sd")
    share = (1.6 - 1.44) / (1.62 - 1.44)
    between = means[1.44] + share * (means[1.62] - means[1.44])
    sd = max(sds[1.44], sds[1.62])
    two_class = published(runs.paper, "table3")[runs.plan.runs[TWO_CLASS].title, DATASET]
    evidence = (
        f"2-class {_percent(two_class)}; Table 2 at 1.6 {_percent(between)}, sd {_points(sd)}; "
        f"{_points(between - two_class)} apart"
    )
    return Finding(abs(between - two_class) <= 3 * sd, evidence, [], two_class - between)


_of = functools.partial

CLAIMS: dict[str, Callable[[RunSet], Finding]] = {
    "ZA1": iid_matches_sgd,
    "ZA2": ordered,
    "ZA3": one_class_drop,
    "ZA4": two_class_drop,
    "ZA5": epochs_do_not_help,
    "ZA8": divergence_follows_skew,
    "ZA9": divergence_follows_emd,
    "ZA10": divergence_rises_most_at_the_ends,
    "ZA12": accuracy_falls,
    "ZA13": _of(decline_accelerates, factor=5),
    "ZA13-trend": _of(decline_accelerates, factor=1),
    "ZA14": most_is_kept,
    "ZA15": last_step_costs,
    "ZA16": variation_is_small,
    "ZA17": ends_match_table3,
    "ZA18": emd_is_not_all,
    "ZP1": table1_is_table3,
    "ZP2": reduction_is_table2,
    "ZP3": variation_is_relative,
    "ZP4": emd_alone_decides,
}
