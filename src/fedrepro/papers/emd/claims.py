"""Zhao et al. 2018: the claims, and the contradictions between the paper's own numbers.

A claim is a function of our means over the seeds; every number in the code is a fraction, "points"
in the texts are percentage points. Claims that the paper makes of every data set are one function,
held against each. The last group is about the paper's own numbers: they are decided from what is
published alone and rest on no run.
"""

from __future__ import annotations

import functools
import itertools
from collections import defaultdict
from collections.abc import Callable
from typing import Literal

import numpy as np
import pandas as pd

from fedrepro.base.errors import FedreproError
from fedrepro.papers.emd.measurements import (
    BOUND,
    DATASETS,
    IID,
    IID_SMALL,
    LARGEST_REDUCTION,
    LARGEST_VARIATION,
    LAYERS,
    ONE_CLASS,
    ONE_CLASS_E5,
    ONE_CLASS_SMALL,
    PRETRAINED,
    ROUNDING,
    SCRATCH,
    SGD,
    SGD_SMALL,
    SWEEP,
    TABLE_1,
    TWO_CLASS,
    TWO_CLASS_SMALL,
    WARM,
    divergences,
    emd_label,
    group,
    reported,
    shared_label,
)
from fedrepro.report.expected import published
from fedrepro.report.finding import SLACK, Finding, in_percent, in_points, not_planned, run_ids
from fedrepro.report.stats import summarise
from fedrepro.runs.runset import RunSet

NAMES = {
    SGD: "SGD",
    IID: "IID",
    TWO_CLASS: "2-class",
    ONE_CLASS: "1-class",
    ONE_CLASS_E5: "1-class with E = 5",
    PRETRAINED: "pre-trained 1-class",
    SGD_SMALL: "SGD, small B",
    IID_SMALL: "IID, small B",
    TWO_CLASS_SMALL: "2-class, small B",
    ONE_CLASS_SMALL: "1-class, small B",
}

Size = Literal["large", "small"]
ROWS: dict[Size, tuple[str, str, str, str]] = {
    "large": (SGD, IID, TWO_CLASS, ONE_CLASS),
    "small": (SGD_SMALL, IID_SMALL, TWO_CLASS_SMALL, ONE_CLASS_SMALL),
}


def _accuracies(runs: RunSet, dataset: str, *trainings: str) -> tuple[dict[str, float], list[str]]:
    """Return the mean reported accuracy of every training, and the ids of the runs."""
    names = {group(dataset, training): training for training in trainings}
    cells = summarise(reported(runs, list(names)), "accuracy", ["group"])
    found = dict(zip(cells["group"].map(names), cells["mean"], strict=True))
    return {training: found[training] for training in trainings}, run_ids(cells)


def _listed(accuracies: dict[str, float]) -> str:
    return ", ".join(f"{NAMES[name]} {in_percent(value)}" for name, value in accuracies.items())


def _sweep(runs: RunSet, dataset: str, *needed: float) -> pd.DataFrame:
    """Return the summary of the sweep by EMD, ascending; its index is the EMD.

    Raises:
        FedreproError: the plan has none of the needed values at this scale.
    """
    name = group(dataset, SWEEP)
    cells = summarise(reported(runs, [name]), "accuracy", ["emd"])
    cells = cells.set_index("emd").sort_index()
    for emd in needed:
        if emd not in cells.index:
            raise not_planned(runs, name, f"EMD {emd:g}")
    return cells


def _at(cells: pd.DataFrame, emd: float) -> float:
    return float(cells["mean"][emd])


# Table 3, figures 1 and 8


def iid_matches_sgd(runs: RunSet, dataset: str, size: Size, points: float) -> Finding:
    """ZA1: FedAvg on IID data and SGD are at most so many points apart."""
    sgd, iid, _, _ = ROWS[size]
    ours, used = _accuracies(runs, dataset, sgd, iid)
    gap = ours[iid] - ours[sgd]
    return Finding(abs(gap) <= points / 100 + SLACK, _listed(ours), used, gap)


def ordered(runs: RunSet, dataset: str, size: Size) -> Finding:
    """ZA2: SGD and IID are above 2-class, and 2-class is above 1-class."""
    sgd, iid, two, one = ROWS[size]
    ours, used = _accuracies(runs, dataset, sgd, iid, two, one)
    smallest = min(min(ours[sgd], ours[iid]) - ours[two], ours[two] - ours[one])
    return Finding(smallest > 0, _listed(ours), used, smallest)


def one_class_drop(runs: RunSet, dataset: str, points: float) -> Finding:
    """ZA3: 1-class clients cost at least so many points."""
    ours, used = _accuracies(runs, dataset, SGD, ONE_CLASS)
    drop = ours[SGD] - ours[ONE_CLASS]
    return Finding(drop >= points / 100 - SLACK, _listed(ours), used, drop)


def two_class_drop(runs: RunSet, dataset: str, size: Size) -> Finding:
    """ZA4: 2-class clients cost less than half of what 1-class clients cost."""
    sgd, _, two, one = ROWS[size]
    ours, used = _accuracies(runs, dataset, sgd, two, one)
    lost_two, lost_one = ours[sgd] - ours[two], ours[sgd] - ours[one]
    evidence = f"lost against SGD: 2-class {in_points(lost_two)}, 1-class {in_points(lost_one)}"
    holds = lost_one > 0 and lost_two < lost_one / 2
    return Finding(holds, evidence, used, lost_two / lost_one if lost_one else None)


def epochs_do_not_help(runs: RunSet, dataset: str) -> Finding:
    """ZA5: E = 5 and E = 1 end at most 1.5 points apart on 1-class data."""
    ours, used = _accuracies(runs, dataset, ONE_CLASS, ONE_CLASS_E5)
    gap = ours[ONE_CLASS_E5] - ours[ONE_CLASS]
    return Finding(abs(gap) <= 0.015 + SLACK, _listed(ours), used, gap)


def small_batches(runs: RunSet, dataset: str) -> Finding:
    """ZA6: smaller batches raise SGD and IID, and cost 1-class at least 3 points."""
    wanted = (SGD, SGD_SMALL, IID, IID_SMALL, ONE_CLASS, ONE_CLASS_SMALL)
    ours, used = _accuracies(runs, dataset, *wanted)
    sgd, iid, one = (ours[s] - ours[b] for b, s in zip(wanted[::2], wanted[1::2], strict=True))
    evidence = f"change: SGD {in_points(sgd)}, IID {in_points(iid)}, 1-class {in_points(one)}"
    return Finding(min(sgd, iid) > 0 and one <= -0.03 + SLACK, evidence, used, one)


def pretraining_is_undone(runs: RunSet, dataset: str) -> Finding:
    """ZA7: from pre-trained weights FedAvg ends below where it began, and above scratch."""
    ours, used = _accuracies(runs, dataset, ONE_CLASS, PRETRAINED)
    name = group(dataset, PRETRAINED)
    curves = runs.curves([name], "accuracy")
    before = getattr(runs.members([name])[0].spec.algorithm, "pretrain_epochs", 0)
    start = float(curves.loc[curves["round"] == before, "value"].mean())
    evidence = f"pre-training reaches {in_percent(start)}; {_listed(ours)}"
    holds = ours[ONE_CLASS] < ours[PRETRAINED] < start
    return Finding(holds, evidence, used, ours[PRETRAINED] - ours[ONE_CLASS])


# Weight divergence: figures 2 and 4


def divergence_follows_skew(runs: RunSet, dataset: str) -> Finding:
    """ZA8: IID < 2-class < 1-class in every layer."""
    names = {group(dataset, training): training for training in (IID, TWO_CLASS, ONE_CLASS)}
    layers = LAYERS[dataset]
    cells = summarise(divergences(runs, list(names), layers), "value", ["layer", "group"])
    cells["group"] = cells["group"].map(names)
    means = cells.pivot(index="layer", columns="group", values="mean")
    smallest = min(
        float((means[more] / means[less])[layer])
        for less, more in ((IID, TWO_CLASS), (TWO_CLASS, ONE_CLASS))
        for layer in layers
    )
    evidence = "; ".join(
        f"{layer}: "
        + ", ".join(f"{NAMES[g]} {means[g][layer]:.3g}" for g in (IID, TWO_CLASS, ONE_CLASS))
        for layer in layers
    )
    return Finding(smallest > 1, evidence, run_ids(cells), smallest)


def _rank_correlation(values: pd.Series) -> float:
    """Return Spearman's rank correlation of values with their index."""
    from scipy.stats import spearmanr  # slow to import

    return float(spearmanr(values.index, values).statistic)


def _divergence_by_emd(runs: RunSet, dataset: str) -> tuple[pd.DataFrame, list[str]]:
    """Return the mean divergence, EMD x layer, and the ids of the runs."""
    layers = LAYERS[dataset]
    cells = summarise(divergences(runs, [group(dataset, SWEEP)], layers), "value", ["emd", "layer"])
    means = cells.pivot(index="emd", columns="layer", values="mean").sort_index()
    return means[list(layers)], run_ids(cells)


def divergence_follows_emd(runs: RunSet, dataset: str) -> Finding:
    """ZA9: in every layer Spearman's rank correlation of EMD and mean divergence is >= 0.9."""
    means, used = _divergence_by_emd(runs, dataset)
    rank = {layer: _rank_correlation(means[layer]) for layer in means}
    evidence = "rank correlation: " + ", ".join(f"{k} {v:.3f}" for k, v in rank.items())
    lowest = min(rank.values())
    return Finding(lowest >= 0.9 - SLACK, evidence, used, lowest)


def divergence_rises_most_at_the_ends(runs: RunSet, dataset: str) -> Finding:
    """ZA10: the divergence rises most, from the lowest to the highest EMD, in the outer layers."""
    means, used = _divergence_by_emd(runs, dataset)
    rise = (means.iloc[-1] - means.iloc[0]).sort_values(ascending=False)
    evidence = "rise: " + ", ".join(f"{layer} {value:.4g}" for layer, value in rise.items())
    layers = LAYERS[dataset]
    return Finding(set(rise.index[:2]) == {layers[0], layers[-1]}, evidence, used)


def divergence_is_largest_for_cifar(runs: RunSet) -> Finding:
    """ZA11: the largest divergence of any layer and EMD is CIFAR-10's."""
    largest: dict[str, float] = {}
    used: list[str] = []
    for dataset in DATASETS:
        means, ids = _divergence_by_emd(runs, dataset)
        largest[dataset] = float(means.to_numpy().max())
        used += ids
    evidence = ", ".join(f"{DATASETS[name]} {value:.3g}" for name, value in largest.items())
    lead = largest["cifar10"] / max(largest["mnist"], largest["kws"])
    return Finding(lead > 1, evidence, used, lead)


# Accuracy against EMD: Table 2 and figure 5


def _levels(cells: pd.DataFrame) -> str:
    return "mean at EMD " + ", ".join(
        f"{emd:g}: {in_percent(_at(cells, emd))}" for emd in cells.index
    )


def accuracy_falls(runs: RunSet, dataset: str) -> Finding:
    """ZA12: from each EMD to the next the mean accuracy rises by at most 0.3 points."""
    cells = _sweep(runs, dataset)
    largest = float(cells["mean"].diff().max())
    return Finding(largest <= 0.003 + SLACK, _levels(cells), run_ids(cells), largest)


def decline_accelerates(runs: RunSet, dataset: str, *, factor: float) -> Finding:
    """ZA13: accuracy falls at least ``factor`` times as fast above EMD 1.44 as below it."""
    cells = _sweep(runs, dataset, 0, 1.44, 1.8)
    start, middle, end = (_at(cells, emd) for emd in (0, 1.44, 1.8))
    early, late = (start - middle) / 1.44, (middle - end) / (1.8 - 1.44)
    evidence = f"loss per unit of EMD: {in_points(early)} up to 1.44, {in_points(late)} from there"
    ratio = late / early if early > 0 else None
    return Finding(late > 0 and late >= factor * early - SLACK, evidence, run_ids(cells), ratio)


def most_is_kept(runs: RunSet, dataset: str) -> Finding:
    """ZA14: at EMD 1.44 at least 90 % of the accuracy at EMD 0 is kept."""
    cells = _sweep(runs, dataset, 0, 1.44)
    share = _at(cells, 1.44) / _at(cells, 0)
    return Finding(share >= 0.9 - SLACK, f"{in_percent(share)} kept", run_ids(cells), share)


def last_step_costs(runs: RunSet, dataset: str, points: float) -> Finding:
    """ZA15: the step from EMD 1.764 to 1.8 alone costs at least so many points."""
    cells = _sweep(runs, dataset, 1.764, 1.8)
    loss = _at(cells, 1.764) - _at(cells, 1.8)
    evidence = f"the last step costs {in_points(loss)}"
    return Finding(loss >= points / 100 - SLACK, evidence, run_ids(cells), loss)


def variation_is_small(runs: RunSet, dataset: str, percent: float) -> Finding:
    """ZA16: at no EMD is the relative standard deviation over the distributions larger."""
    cells = _sweep(runs, dataset)
    relative = cells["sd"] / cells["mean"]
    worst = float(relative.max())
    evidence = f"largest sd / mean {100 * worst:.3f} % (EMD {relative.idxmax():g})"
    return Finding(worst <= percent / 100 + SLACK, evidence, run_ids(cells), worst)


def ends_match_table3(runs: RunSet, dataset: str) -> Finding:
    """ZA17: EMD 0 and IID, and EMD 1.8 and 1-class, are at most 1.5 points apart."""
    cells = _sweep(runs, dataset, 0, 1.8)
    ours, used = _accuracies(runs, dataset, IID, ONE_CLASS)
    gaps = [_at(cells, 0) - ours[IID], _at(cells, 1.8) - ours[ONE_CLASS]]
    evidence = (
        f"EMD 0 {in_percent(_at(cells, 0))}, EMD 1.8 {in_percent(_at(cells, 1.8))}; "
        + _listed(ours)
    )
    worst = max(gaps, key=abs)
    return Finding(abs(worst) <= 0.015 + SLACK, evidence, [*run_ids(cells), *used], worst)


def emd_is_not_all(runs: RunSet, dataset: str) -> Finding:
    """ZA18: 2-class clients (EMD 1.6) reach less than shifted distributions at EMD 1.62."""
    cells = _sweep(runs, dataset, 1.62)
    ours, used = _accuracies(runs, dataset, TWO_CLASS)
    lead = _at(cells, 1.62) - ours[TWO_CLASS]
    evidence = f"{_listed(ours)}, EMD 1.62 {in_percent(_at(cells, 1.62))}"
    return Finding(lead > 0, evidence, [*run_ids(cells), *used], lead)


# Data sharing: figure 7


def _by_beta(runs: RunSet, *needed: float) -> pd.DataFrame:
    return _shared(runs, SCRATCH, ["beta"], [(beta,) for beta in needed])


def _shared(
    runs: RunSet, name: str, keys: list[str], needed: list[tuple[float, ...]]
) -> pd.DataFrame:
    """Return the summary of the runs with data sharing by their grid point, ascending."""
    cells = summarise(reported(runs, [name]), "accuracy", keys).set_index(keys).sort_index()
    for point in needed:
        if (point if len(point) > 1 else point[0]) not in cells.index:
            what = ", ".join(f"{key} {value:g}" for key, value in zip(keys, point, strict=True))
            raise FedreproError(
                f"config/papers/{runs.paper}.yaml: scales.{runs.scale}: {name} has no {what}, "
                "which a claim needs; add it to the grid, or take the scale off the claim"
            )
    return cells


def _betas(cells: pd.DataFrame) -> str:
    return "accuracy by beta " + ", ".join(
        f"{100 * float(beta):g} %: {in_percent(_at(cells, beta))}" for beta in cells.index
    )


def sharing_helps(runs: RunSet) -> Finding:
    """ZA19: accuracy never falls by over 1 point as G grows; 10 % gain at least 20 points."""
    cells = _by_beta(runs, 0, 0.1)
    falls, gain = float(-cells["mean"].diff().min()), _at(cells, 0.1) - _at(cells, 0)
    holds = falls <= 0.01 + SLACK and gain >= 0.2 - SLACK
    return Finding(holds, _betas(cells), run_ids(cells), gain)


def sharing_trend(runs: RunSet) -> Finding:
    """ZA19-trend: accuracy rises with beta, rank correlation >= 0.9."""
    cells = _by_beta(runs)
    rank = _rank_correlation(cells["mean"])
    return Finding(rank >= 0.9 - SLACK, f"{_betas(cells)}; rank {rank:.3f}", run_ids(cells), rank)


def control_is_quoted(runs: RunSet) -> Finding:
    """ZA19-control: D alone, 300 rounds, reaches the 44 % quoted, within 3 points."""
    cells = _by_beta(runs, 0)
    ours = _at(cells.loc[[0]], 0)
    return Finding(
        abs(ours - 0.44) <= 0.03 + SLACK, in_percent(ours), run_ids(cells.loc[[0]]), ours
    )


def _by_alpha(runs: RunSet, *needed: tuple[float, float]) -> pd.DataFrame:
    return _shared(runs, WARM, ["beta", "alpha"], list(needed))


def half_is_enough(runs: RunSet) -> Finding:
    """ZA20: half of G instead of all of it costs at most 1.5 points, for both G."""
    cells = _by_alpha(runs, *((beta, alpha) for beta in (0.1, 0.2) for alpha in (0.5, 1)))
    gaps = {beta: cells["mean"][beta, 1] - cells["mean"][beta, 0.5] for beta in (0.1, 0.2)}
    evidence = "alpha 100 % less 50 %: " + ", ".join(
        f"{shared_label(beta)} {in_points(gap)}" for beta, gap in gaps.items()
    )
    worst = max(gaps.values(), key=abs)
    return Finding(abs(worst) <= 0.015 + SLACK, evidence, run_ids(cells), worst)


def larger_set_is_better(runs: RunSet) -> Finding:
    """ZA20-order: at every alpha the larger G gives the higher accuracy."""
    cells = _by_alpha(runs)
    means = cells["mean"].unstack("beta")
    lead = means[0.2] - means[0.1]
    evidence = "lead of the larger G: " + ", ".join(
        f"alpha {100 * float(alpha):g} %: {in_points(lead[alpha])}" for alpha in lead.index
    )
    return Finding(float(lead.min()) > 0, evidence, run_ids(cells), float(lead.min()))


def five_percent_gain(runs: RunSet, points: float) -> Finding:
    """ZA21: half of a G of 10 %, and the warm-up model, gain so many points over no sharing."""
    warm, scratch = _by_alpha(runs, (0.1, 0.5)), _by_beta(runs, 0)
    here, alone = float(warm["mean"][0.1, 0.5]), _at(scratch, 0)
    evidence = f"no sharing {in_percent(alone)}, beta 10 % and alpha 50 % {in_percent(here)}"
    used = [*run_ids(warm.loc[[(0.1, 0.5)]]), *run_ids(scratch.loc[[0]])]
    return Finding(here - alone > points / 100 - SLACK, evidence, used, here - alone)


def warm_up_does_not_help(runs: RunSet) -> Finding:
    """ZA23: with all of G, the warm-up model ends no higher than training from scratch."""
    warm, scratch = _by_alpha(runs, (0.1, 1)), _by_beta(runs, 0.1)
    start, alone = float(warm["mean"][0.1, 1]), _at(scratch, 0.1)
    evidence = f"from the warm-up model {in_percent(start)}, from scratch {in_percent(alone)}"
    used = [*run_ids(warm.loc[[(0.1, 1)]]), *run_ids(scratch.loc[[0.1]])]
    return Finding(start <= alone + SLACK, evidence, used, start - alone)


def realised_emd(runs: RunSet) -> Finding:
    """ZA22: every client's EMD is 1.8 / (1 + K alpha beta), to 0.001."""
    worst, used = 0.0, []
    for run in runs.members([SCRATCH, WARM]):
        cut = run.spec.partition
        assert cut.scheme == "data_sharing"
        formula = 1.8 / (1 + cut.clients * cut.alpha * cut.beta)
        emd = np.array(runs.record(run).partition.emd)
        worst = max(worst, float(np.abs(emd - formula).max()))
        used.append(run.id)
    evidence = f"largest distance from the formula over {len(used)} runs: {worst:.2g}"
    return Finding(worst <= 0.001, evidence, used, worst)


# Proposition 3.1


def bound_holds(runs: RunSet) -> Finding:
    """ZB1: after every synchronisation the distance is within the bound, but for rounding."""
    lowest, texts, used, holds = float("inf"), [], [], True
    for run in runs.members([BOUND]):
        final = runs.record(run).final
        distance, limit, norm = (np.array(final[key]) for key in ("distance", "bound", "norm"))
        holds &= bool(np.all(distance <= limit + ROUNDING * norm))
        told = distance > ROUNDING * norm  # below that, the ratio is one of rounding errors
        ratios = limit[told] / distance[told]
        emd = emd_label(float(run.coordinates["emd"]))
        if len(ratios):
            lowest = min(lowest, float(ratios.min()))
            texts.append(f"EMD {emd}: {ratios.min():.3g} to {ratios.max():.3g}")
        used.append(run.id)
    return Finding(holds, "bound / distance: " + "; ".join(texts), used, lowest)


def distance_follows_emd(runs: RunSet) -> Finding:
    """ZB2: the larger the EMD, the larger the distance after the first synchronisation."""
    seeds = defaultdict(list)
    for run in runs.members([BOUND]):
        seeds[float(run.coordinates["emd"])].append(runs.record(run).final["distance"][0])
    distance = {emd: float(np.mean(seeds[emd])) for emd in sorted(seeds)}
    evidence = "distance after the first synchronisation: " + ", ".join(
        f"EMD {emd_label(emd)} {value:.3g}" for emd, value in distance.items()
    )
    used = [run.id for run in runs.members([BOUND])]
    return Finding(bool(np.all(np.diff(list(distance.values())) > 0)), evidence, used)


def no_skew_no_distance(runs: RunSet) -> Finding:
    """ZB3: at EMD 0 the first synchronisation leaves nothing but rounding (Remark 3.2)."""
    members = [run for run in runs.members([BOUND]) if run.coordinates["emd"] == 0]
    if not members:
        raise not_planned(runs, BOUND, "EMD 0")
    finals = [runs.record(run).final for run in members]
    relative = float(np.mean([final["distance"][0] / final["norm"][0] for final in finals]))
    used = [run.id for run in members]
    return Finding(relative <= ROUNDING, f"distance / norm {relative:.2g}", used, relative)


# The paper's own numbers


def _by_emd(paper: str, dataset: str, value: Literal["mean", "sd"] = "mean") -> dict[float, float]:
    """Return the published means or standard deviations of a row of Table 2."""
    numbers = published(paper, "table2", value)
    return {float(emd): n for (row, emd), n in numbers.items() if row == DATASETS[dataset]}


def _printed(runs: RunSet, table: str, dataset: str, training: str) -> float:
    title = runs.plan.runs[group(dataset, training)].title
    return published(runs.paper, table)[title, DATASETS[dataset]]


def table1_is_table3(runs: RunSet) -> Finding:
    """ZP1: Table 1's entries are differences of Table 3's, to the last digit printed."""
    worst, texts = 0.0, []
    for dataset, title in DATASETS.items():
        gaps = []
        for training, sgd in TABLE_1.items():
            accuracy = [_printed(runs, "table3", dataset, name) for name in (sgd, training)]
            gaps.append(
                abs(accuracy[0] - accuracy[1] - _printed(runs, "table1", dataset, training))
            )
        worst = max(worst, *gaps)
        texts.append(f"{title}: {len(gaps)} entries, at most {in_points(max(gaps))} off")
    return Finding(worst <= 0.00005 + SLACK, "; ".join(texts), [], worst)


def introduction_is_table1(runs: RunSet) -> Finding:
    """ZP8: the reductions "up to 11 %, 51 %, 55 %" are Table 1's largest, rounded."""
    texts, holds = [], True
    for (dataset, title), quoted in zip(DATASETS.items(), (0.11, 0.51, 0.55), strict=True):
        largest = max(_printed(runs, "table1", dataset, training) for training in TABLE_1)
        holds &= abs(largest - quoted) <= 0.005 + SLACK
        texts.append(f"{title}: text {100 * quoted:.0f} %, Table 1 {in_points(largest)}")
    return Finding(holds, "; ".join(texts), [])


def reduction_is_table2(runs: RunSet, dataset: str) -> Finding:
    """ZP2: the reduction quoted in the text is Table 2's, within the rounding of its entries."""
    means = _by_emd(runs.paper, dataset)
    quoted = published(runs.paper, "sweep_text")[DATASETS[dataset], LARGEST_REDUCTION]
    lowest = min(means.values())
    gaps = means[0] - lowest, max(means.values()) - lowest
    evidence = (
        f"text {in_points(quoted)}; Table 2 {in_points(gaps[0])} from EMD 0, "
        f"{in_points(gaps[1])} from the best EMD"
    )
    return Finding(any(abs(gap - quoted) <= 0.0005 + SLACK for gap in gaps), evidence, [], gaps[0])


def variation_is_relative(runs: RunSet, dataset: str, rounding: float) -> Finding:
    """ZP3: the text's bound on the variation is Table 2's largest sd / mean, rounded up."""
    means, sds = _by_emd(runs.paper, dataset), _by_emd(runs.paper, dataset, "sd")
    quoted = published(runs.paper, "sweep_text")[DATASETS[dataset], LARGEST_VARIATION]
    relative = max(sds[emd] / means[emd] for emd in means)
    evidence = (
        f"text: less than {100 * quoted:g} %; Table 2: largest sd / mean {100 * relative:.4f} %, "
        f"largest sd {100 * max(sds.values()):.4f} points"
    )
    return Finding(quoted - rounding <= relative <= quoted, evidence, [], relative)


def emd_alone_decides(runs: RunSet, dataset: str) -> Finding:
    """ZP4: Table 3's 2-class accuracy is Table 2's, interpolated at EMD 1.6, within 3 sd."""
    means, sds = _by_emd(runs.paper, dataset), _by_emd(runs.paper, dataset, "sd")
    between = _interpolated(means, 1.6)
    sd = max(sds[1.44], sds[1.62])
    two_class = _printed(runs, "table3", dataset, TWO_CLASS)
    evidence = (
        f"2-class {in_percent(two_class)}; Table 2 at 1.6 {in_percent(between)}, "
        f"sd {in_points(sd)}; {in_points(between - two_class)} apart"
    )
    return Finding(abs(between - two_class) <= 3 * sd, evidence, [], two_class - between)


def _interpolated(means: dict[float, float], emd: float) -> float:
    levels = sorted(means)
    return float(np.interp(emd, levels, [means[level] for level in levels]))


def same_experiment_same_number(runs: RunSet, dataset: str) -> Finding:
    """ZP5: Table 3's 1-class accuracy is Table 2's at EMD 1.8, within 1 point."""
    table2, table3 = _by_emd(runs.paper, dataset)[1.8], _printed(runs, "table3", dataset, ONE_CLASS)
    evidence = f"Table 3 {in_percent(table3)}, Table 2 {in_percent(table2)}"
    return Finding(abs(table3 - table2) <= 0.01 + SLACK, evidence, [], table3 - table2)


def emd_predicts_sharing(runs: RunSet) -> Finding:
    """ZP6: Table 2, interpolated at the EMD of beta = 10 %, is within 2 points of Fig. 7a."""
    here = published(runs.paper, "fig7a")["accuracy", "10"]
    predicted = _interpolated(_by_emd(runs.paper, "cifar10"), 0.9)
    evidence = f"EMD 0.9: Table 2 {in_percent(predicted)}, Fig. 7a {in_percent(here)}"
    return Finding(abs(here - predicted) <= 0.02 + SLACK, evidence, [], here - predicted)


def means_fall(runs: RunSet, dataset: str) -> Finding:
    """ZP7: the published means of Table 2 never rise with EMD."""
    means = _by_emd(runs.paper, dataset)
    levels = sorted(means)
    rises = {
        f"{low:g} to {high:g}": means[high] - means[low]
        for low, high in itertools.pairwise(levels)
        if means[high] > means[low]
    }
    evidence = ", ".join(f"{in_points(rise)} from EMD {step}" for step, rise in rises.items())
    return Finding(not rises, f"rises: {evidence or 'none'}", [], max(rises.values(), default=0.0))


_of = functools.partial


def _each(
    name: str, function: Callable[..., Finding], **options: dict[str, float]
) -> dict[str, Callable[[RunSet], Finding]]:
    """Return a claim for every data set, ``<name>-<dataset>``; options by data set."""
    return {
        f"{name}-{dataset}": _of(
            function, dataset=dataset, **{key: values[dataset] for key, values in options.items()}
        )
        for dataset in DATASETS
    }


def _each_size(
    name: str, function: Callable[..., Finding], size: Size, **options: dict[str, float]
) -> dict[str, Callable[[RunSet], Finding]]:
    claims = _each(name, _of(function, size=size), **options)
    return {f"{key}-small" if size == "small" else key: claim for key, claim in claims.items()}


_POINT = dict.fromkeys(DATASETS, 1.0)

CLAIMS: dict[str, Callable[[RunSet], Finding]] = {
    **_each_size("ZA1", iid_matches_sgd, "large", points=_POINT),
    **_each_size("ZA1", iid_matches_sgd, "small", points=_POINT | {"cifar10": 2}),
    **_each_size("ZA2", ordered, "large"),
    **_each_size("ZA2", ordered, "small"),
    **_each("ZA3", one_class_drop, points={"mnist": 3, "cifar10": 25, "kws": 30}),
    **_each_size("ZA4", two_class_drop, "large"),
    **_each_size("ZA4", two_class_drop, "small"),
    **_each("ZA5", epochs_do_not_help),
    **_each("ZA6", small_batches),
    **_each("ZA7", pretraining_is_undone),
    **_each("ZA8", divergence_follows_skew),
    **_each("ZA9", divergence_follows_emd),
    **_each("ZA10", divergence_rises_most_at_the_ends),
    "ZA11": divergence_is_largest_for_cifar,
    **_each("ZA12", accuracy_falls),
    **_each("ZA13", _of(decline_accelerates, factor=5)),
    **_each("ZA13-trend", _of(decline_accelerates, factor=1)),
    **_each("ZA14", most_is_kept),
    **_each("ZA15", last_step_costs, points={"mnist": 2, "cifar10": 5, "kws": 5}),
    **_each("ZA16", variation_is_small, percent={"mnist": 0.2, "cifar10": 3, "kws": 2}),
    **_each("ZA17", ends_match_table3),
    **_each("ZA18", emd_is_not_all),
    "ZA19": sharing_helps,
    "ZA19-trend": sharing_trend,
    "ZA19-control": control_is_quoted,
    "ZA20": half_is_enough,
    "ZA20-order": larger_set_is_better,
    "ZA21": _of(five_percent_gain, points=20),
    "ZA21-trend": _of(five_percent_gain, points=0),
    "ZA22": realised_emd,
    "ZA23": warm_up_does_not_help,
    "ZB1": bound_holds,
    "ZB2": distance_follows_emd,
    "ZB3": no_skew_no_distance,
    "ZP1": table1_is_table3,
    **_each("ZP2", reduction_is_table2),
    **_each("ZP3", variation_is_relative, rounding={"mnist": 1e-5, "cifar10": 5e-3, "kws": 5e-3}),
    **_each("ZP4", emd_alone_decides),
    **_each("ZP5", same_experiment_same_number),
    "ZP6": emd_predicts_sharing,
    **_each("ZP7", means_fall),
    "ZP8": introduction_is_table1,
}
