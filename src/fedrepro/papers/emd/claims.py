"""Zhao et al. 2018: what decides the claims, and the contradictions between the paper's numbers.

Claims compare means over the seeds. Their thresholds and what they compare are in
``config/expected/emd.yaml``: ``points`` are percentage points, ``percent`` is a share of 100,
``beta`` and ``alpha`` are in per cent. The last group is about the paper's own numbers: its rules
read what is published alone and rest on no run.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import numpy as np
import pandas as pd

from fedrepro.fl.partition.data_sharing import DataSharing
from fedrepro.papers.emd.measurements import (
    BOUND,
    DATASETS,
    LARGEST_REDUCTION,
    LARGEST_VARIATION,
    LAYERS,
    SCRATCH,
    WARM,
    divergences,
    groups_of,
    reported,
    synchronisations,
)
from fedrepro.report.expected import load_expected, published
from fedrepro.report.finding import SLACK, Finding, in_percent, in_points, not_planned, run_ids
from fedrepro.report.rules import Rule, Sample, leads, listed, near
from fedrepro.report.stats import summarise
from fedrepro.runs.runset import RunSet


def accuracy(runs: RunSet, what: str | float, *, dataset: str, batches: str = "large") -> Sample:
    """Return the reported accuracy of a training, or of the sweep at an EMD.

    Raises:
        FedreproError: the plan has no such EMD at this scale.
    """
    if isinstance(what, str):
        table = reported(runs, runs.labelled(dataset=dataset, training=what, batches=batches))
        return _sample(_name(runs, what), table)
    (group,) = runs.labelled(dataset=dataset, training="sweep")
    return _at(runs, group, emd=what)


def shared(runs: RunSet, beta: float, alpha: float | None = None) -> Sample:
    """Return the reported accuracy with data sharing; without alpha: all of G, from scratch.

    Args:
        runs: the records.
        beta: size of G, per cent of D.
        alpha: the clients' share of G, per cent; training starts from the warm-up model.

    Raises:
        FedreproError: the plan has no such beta and alpha at this scale.
    """
    if alpha is None:
        return _at(runs, SCRATCH, beta=beta / 100)
    return _at(runs, WARM, beta=beta / 100, alpha=alpha / 100)


def _at(runs: RunSet, group: str, **point: float) -> Sample:
    """Return the reported accuracy of a group at a grid point."""
    table = reported(runs, [group])
    for key, value in point.items():
        table = table[np.isclose(table[key], value)]
    name = ", ".join(f"{key.replace('emd', 'EMD')} {value:g}" for key, value in point.items())
    if table.empty:
        raise not_planned(runs, group, name)
    return _sample(name, table)


def _sample(name: str, table: pd.DataFrame) -> Sample:
    ordered = table.sort_values("seed")
    return Sample(name, tuple(ordered["accuracy"]), tuple(ordered["run"]))


def _name(runs: RunSet, what: object) -> str:
    """Return what a reader calls a label."""
    return load_expected(runs.paper).names.get(str(what), str(what))


def _shown(
    values: Iterable[tuple[object, float]], show: Callable[[float], str] = "{:.3g}".format
) -> str:
    """Return names and values: ``conv1 0.203, conv2 0.17``."""
    return ", ".join(f"{name} {show(value)}" for name, value in values)


def _finding(
    holds: bool, ours: float | None, samples: Sequence[Sample], evidence: str = ""
) -> Finding:
    """Return a finding on samples, whose means are the evidence where there is no other."""
    used = [run for sample in samples for run in sample.runs]
    return Finding(holds, evidence or listed(samples), used, ours)


def _rank_correlation(values: pd.Series) -> float:
    """Return Spearman's rank correlation of values with their index."""
    return float(values.rank().corr(values.index.to_series().rank()))


# Table 3, figures 1 and 8


def in_turn(runs: RunSet, *, first: Sequence[str], then: str, last: str, **where: str) -> Finding:
    """All of ``first`` are above ``then``, and that is above ``last``."""
    *high, middle, low = samples = [accuracy(runs, x, **where) for x in [*first, then, last]]
    top = min(sample.mean for sample in high)
    smallest = min(top - middle.mean, middle.mean - low.mean)
    return _finding(smallest > 0, smallest, samples)


def costs_less(
    runs: RunSet, *, what: str, than: str, over: str, percent: float, **where: str
) -> Finding:
    """Against ``over``, ``what`` loses less than so many per cent of what ``than`` loses."""
    samples = [accuracy(runs, name, **where) for name in (over, what, than)]
    lost, more = (samples[0].mean - sample.mean for sample in samples[1:])
    holds = more > 0 and lost < percent / 100 * more
    return _finding(holds, lost / more if more else None, samples)


def small_batches(
    runs: RunSet, *, raised: Sequence[str], lowered: str, points: float, **where: str
) -> Finding:
    """Small batches raise the accuracy of some trainings, and lower that of another."""
    small, large = (
        [accuracy(runs, name, batches=batches, **where) for name in [*raised, lowered]]
        for batches in ("small", "large")
    )
    *gains, lost = changes = [a.mean - b.mean for a, b in zip(small, large, strict=True)]
    evidence = _shown(zip([sample.name for sample in small], changes, strict=True), in_points)
    holds = min(gains) > 0 and lost <= -points / 100 + SLACK
    return _finding(holds, lost, [*large, *small], f"change: {evidence}")


def pretraining_is_undone(runs: RunSet, *, what: str, over: str, dataset: str) -> Finding:
    """A pre-trained run ends below where it began, and above one from random weights."""
    scratch, pretrained = (accuracy(runs, name, dataset=dataset) for name in (over, what))
    groups = runs.labelled(dataset=dataset, training=what)
    curves = runs.curves(groups, "accuracy")
    before = getattr(runs.members(groups)[0].spec.algorithm, "pretrain_epochs", 0)
    start = float(curves.loc[curves["round"] == before, "value"].mean())
    samples = [scratch, pretrained]
    evidence = f"pre-training reaches {in_percent(start)}; {listed(samples)}"
    holds = scratch.mean < pretrained.mean < start
    return _finding(holds, pretrained.mean - scratch.mean, samples, evidence)


# Weight divergence: figures 2 and 4


def _mean_divergence(
    runs: RunSet, by: str, dataset: str, trainings: Sequence[str], **labels: str
) -> tuple[pd.DataFrame, list[str]]:
    """Return the mean divergence, ``by`` x layer, and the ids of the runs."""
    chosen = (runs.labelled(dataset=dataset, training=name, **labels) for name in trainings)
    cells = summarise(divergences(runs, [*itertools.chain(*chosen)]), "value", [by, "layer"])
    means = cells.pivot(index=by, columns="layer", values="mean")
    return means[[*LAYERS[dataset]]], run_ids(cells)


def divergence_in_turn(runs: RunSet, *, what: Sequence[str], dataset: str) -> Finding:
    """In every layer the divergence of each training is below that of the next."""
    found, used = _mean_divergence(runs, "training", dataset, what, batches="large")
    means = found.loc[[*what]]
    smallest = float(np.nanmin(means / means.shift()))
    names = [_name(runs, name) for name in what]
    evidence = "; ".join(
        f"{layer}: {_shown(zip(names, means[layer], strict=True))}" for layer in means
    )
    return Finding(smallest > 1, evidence, used, smallest)


def divergence_follows_emd(runs: RunSet, *, rank: float, dataset: str) -> Finding:
    """In every layer Spearman's rank correlation of EMD and mean divergence is high."""
    means, used = _mean_divergence(runs, "emd", dataset, ["sweep"])
    ranks = means.apply(_rank_correlation)
    lowest = float(ranks.min())
    evidence = f"rank correlation: {_shown(ranks.items(), '{:.3f}'.format)}"
    return Finding(lowest >= rank - SLACK, evidence, used, lowest)


def divergence_rises_most(
    runs: RunSet, *, layers: Sequence[str], low: float, high: float, dataset: str
) -> Finding:
    """Between two EMDs the divergence rises most in these layers."""
    means, used = _mean_divergence(runs, "emd", dataset, ["sweep"])
    rise = (means.T[high] - means.T[low]).sort_values(ascending=False)
    holds = {*rise.index[: len(layers)]} == {*layers}
    return Finding(holds, f"rise: {_shown(rise.items(), '{:.4g}'.format)}", used)


def divergence_is_largest(runs: RunSet, *, what: str, over: Sequence[str]) -> Finding:
    """The largest divergence of any layer and EMD is that of one data set."""
    found = {name: _mean_divergence(runs, "emd", name, ["sweep"]) for name in [what, *over]}
    largest = {name: float(np.max(means)) for name, (means, _) in found.items()}
    lead = largest[what] / max(largest[name] for name in over)
    evidence = _shown((_name(runs, name), value) for name, value in largest.items())
    return Finding(lead > 1, evidence, [run for _, used in found.values() for run in used], lead)


# Accuracy against EMD: Table 2 and figure 5


def _sweep(runs: RunSet, dataset: str) -> pd.DataFrame:
    """Return the summary of the sweep; its index is the EMD, ascending."""
    table = reported(runs, runs.labelled(dataset=dataset, training="sweep"))
    return summarise(table, "accuracy", ["emd"]).set_index("emd").sort_index()


def never_rises(runs: RunSet, *, points: float, dataset: str) -> Finding:
    """From each EMD to the next the mean accuracy rises by at most so many points."""
    cells = _sweep(runs, dataset)
    largest = float(cells["mean"].diff().max())
    means = ((f"EMD {emd:g}", mean) for emd, mean in cells["mean"].items())
    evidence = _shown(means, in_percent)
    return Finding(largest <= points / 100 + SLACK, evidence, run_ids(cells), largest)


def falls_faster(
    runs: RunSet, *, low: float, middle: float, high: float, times: float, dataset: str
) -> Finding:
    """Accuracy falls so many times as fast above the middle EMD as below it, or faster."""
    samples = [accuracy(runs, emd, dataset=dataset) for emd in (low, middle, high)]
    early, late = -np.diff([sample.mean for sample in samples]) / np.diff([low, middle, high])
    evidence = (
        f"loss per unit of EMD: {in_points(early)} up to {middle:g}, {in_points(late)} from there"
    )
    holds = bool(late > 0 and late >= times * early - SLACK)
    return _finding(holds, float(late / early) if early > 0 else None, samples, evidence)


def keeps(runs: RunSet, *, what: float, of: float, percent: float, dataset: str) -> Finding:
    """At one EMD so many per cent of the accuracy at another are kept."""
    samples = [accuracy(runs, emd, dataset=dataset) for emd in (of, what)]
    share = samples[1].mean / samples[0].mean
    return _finding(share >= percent / 100 - SLACK, share, samples, f"{in_percent(share)} kept")


def varies_little(runs: RunSet, *, percent: float, dataset: str) -> Finding:
    """At no EMD is the relative standard deviation over the distributions larger."""
    cells = _sweep(runs, dataset)
    relative = cells["sd"] / cells["mean"]
    worst = float(relative.max())
    evidence = f"largest sd / mean {100 * worst:.3f} % (EMD {relative.idxmax():g})"
    return Finding(worst <= percent / 100 + SLACK, evidence, run_ids(cells), worst)


def ends_match(
    runs: RunSet, *, emds: Sequence[float], to: Sequence[str], points: float, dataset: str
) -> Finding:
    """The sweep at these EMDs and these trainings are at most so many points apart."""
    ends, others = ([accuracy(runs, x, dataset=dataset) for x in what] for what in (emds, to))
    worst = max((a.mean - b.mean for a, b in zip(ends, others, strict=True)), key=abs)
    return _finding(abs(worst) <= points / 100 + SLACK, worst, [*ends, *others])


# Data sharing: figure 7


def _by_beta(runs: RunSet) -> tuple[pd.Series, str, list[str]]:
    """Return mean accuracy by beta (per cent), ascending; the same in words; ids of the runs."""
    cells = summarise(reported(runs, [SCRATCH]), "accuracy", ["beta"])
    means = cells.set_index(100 * cells["beta"])["mean"].sort_index()
    shown = _shown(((f"{beta:g} %", mean) for beta, mean in means.items()), in_percent)
    return means, f"accuracy by beta: {shown}", run_ids(cells)


def sharing_helps(runs: RunSet, *, beta: float, over: float, points: float, fall: float) -> Finding:
    """A beta gains so many points over another; none loses more than ``fall`` to the one before."""
    means, evidence, used = _by_beta(runs)
    gain = shared(runs, beta).mean - shared(runs, over).mean
    steady = float(-means.diff().min()) <= fall / 100 + SLACK
    return Finding(steady and gain >= points / 100 - SLACK, evidence, used, gain)


def sharing_reaches(runs: RunSet, *, beta: float, percent: float, points: float) -> Finding:
    """A beta reaches an accuracy that the text quotes, within so many points."""
    sample = shared(runs, beta)
    gap = abs(sample.mean - percent / 100)
    return _finding(gap <= points / 100 + SLACK, sample.mean, [sample])


def sharing_trend(runs: RunSet, *, rank: float) -> Finding:
    """Spearman's rank correlation of beta and accuracy is high."""
    means, evidence, used = _by_beta(runs)
    ours = _rank_correlation(means)
    return Finding(ours >= rank - SLACK, f"{evidence}; rank {ours:.3f}", used, ours)


def share_is_enough(
    runs: RunSet, *, betas: Sequence[float], alpha: float, of: float, points: float
) -> Finding:
    """For each G a share changes the accuracy of a larger share by at most so many points."""
    pairs = [(shared(runs, beta, of), shared(runs, beta, alpha)) for beta in betas]
    worst = max((whole.mean - part.mean for whole, part in pairs), key=abs)
    return _finding(abs(worst) <= points / 100 + SLACK, worst, [*itertools.chain(*pairs)])


def larger_set_leads(runs: RunSet, *, beta: float, over: float) -> Finding:
    """At every alpha the larger G gives the higher accuracy."""
    alphas = sorted({100 * float(run.coordinates["alpha"]) for run in runs.members([WARM])})
    pairs = [[shared(runs, size, alpha) for size in (beta, over)] for alpha in alphas]
    lead = [large.mean - small.mean for large, small in pairs]
    named = ((f"alpha {alpha:g} %", gap) for alpha, gap in zip(alphas, lead, strict=True))
    evidence = f"lead of the larger G: {_shown(named, in_points)}"
    return _finding(min(lead) > 0, min(lead), [*itertools.chain(*pairs)], evidence)


def warm_up_gains(
    runs: RunSet,
    *,
    beta: float,
    alpha: float,
    over: float,
    points: float = float("-inf"),
    at_most: float = float("inf"),
) -> Finding:
    """From the warm-up model with a share of G, against another beta from scratch."""
    warm, scratch = shared(runs, beta, alpha), shared(runs, over)
    gain = warm.mean - scratch.mean
    holds = points / 100 - SLACK < gain <= at_most / 100 + SLACK
    return _finding(holds, gain, [scratch, warm])


def realised_emd(runs: RunSet, *, alone: float, to: float) -> Finding:
    """Every client's EMD is ``alone`` / (1 + K alpha beta)."""
    worst, members = 0.0, runs.members([SCRATCH, WARM])
    for run in members:
        cut = run.spec.partition
        assert isinstance(cut, DataSharing)
        formula = alone / (1 + cut.clients * cut.alpha * cut.beta)
        emd = np.array(runs.record(run).partition.emd)
        worst = max(worst, float(np.abs(emd - formula).max()))
    evidence = f"largest distance from the formula over {len(members)} runs: {worst:.2g}"
    return Finding(worst <= to, evidence, [run.id for run in members], worst)


# Proposition 3.1


def bound_holds(runs: RunSet, *, percent: float) -> Finding:
    """No distance exceeds its bound by more than so many per cent of the weights' norm."""
    table = synchronisations(runs)
    rounding = percent / 100 * table["norm"]
    holds = bool((table["distance"] <= table["bound"] + rounding).all())
    told = table[table["distance"] > rounding]  # below that, the ratio is one of rounding errors
    ratio = (told["bound"] / told["distance"]).groupby(told["emd"]).agg(["min", "max"])
    evidence = "; ".join(
        f"EMD {emd:g}: {low:.3g} to {high:.3g}" for emd, low, high in ratio.itertuples()
    )
    lowest = float(ratio["min"].min())
    return Finding(holds, f"bound / distance: {evidence}", [*table["run"].unique()], lowest)


def distance_follows_emd(runs: RunSet, *, m: int) -> Finding:
    """The larger the EMD, the larger the distance after synchronisation m."""
    table = synchronisations(runs)
    table = table[table["m"] == m]
    distance = table.groupby("emd")["distance"].mean()
    rises = bool((distance.diff().dropna() > 0).all())
    evidence = f"distance: {_shown((f'EMD {emd:g}', value) for emd, value in distance.items())}"
    return Finding(rises, evidence, [*table["run"]])


def no_skew_no_distance(runs: RunSet, *, emd: float, m: int, percent: float) -> Finding:
    """At this EMD the distance after synchronisation m is rounding."""
    table = synchronisations(runs)
    table = table[(table["emd"] == emd) & (table["m"] == m)]
    if table.empty:
        raise not_planned(runs, BOUND, f"EMD {emd:g}")
    relative = float((table["distance"] / table["norm"]).mean())
    evidence = f"distance / norm {relative:.2g}"
    return Finding(relative <= percent / 100, evidence, [*table["run"]], relative)


# The paper's own numbers


def _table2(paper: str, dataset: str, value: Literal["mean", "sd"] = "mean") -> pd.Series:
    """Return the published means or standard deviations of a row of Table 2, by EMD."""
    numbers = published(paper, "table2", value)
    row = {float(emd): n for (name, emd), n in numbers.items() if name == DATASETS[dataset]}
    return pd.Series(row).sort_index()


def _interpolated(means: pd.Series, emd: float) -> float:
    return float(np.interp(emd, means.index, means))


def _printed(runs: RunSet) -> pd.DataFrame:
    """Return what Tables 1 and 3 print, by labels: ``lost`` and ``accuracy``."""
    lost, kept = (published(runs.paper, table) for table in ("table1", "table3"))
    rows = []
    for group in groups_of(runs, "table3"):
        labels = runs.plan.runs[group].labels
        cell = runs.plan.runs[group].title, DATASETS[labels["dataset"]]
        rows.append(labels | {"lost": lost.get(cell), "accuracy": kept[cell]})
    return pd.DataFrame(rows).set_index(["dataset", "batches", "training"])


def table1_is_table3(runs: RunSet, *, points: float) -> Finding:
    """Table 1's entries are differences of Table 3's, to so many points."""
    table = _printed(runs)
    kept = table["accuracy"]
    central = kept.where(table.index.get_level_values("training") == "sgd")
    sgd = central.groupby(["dataset", "batches"]).transform("first")
    gaps = (sgd - kept - table["lost"]).abs().groupby("dataset", sort=False).max()
    named = ((_name(runs, dataset), gap) for dataset, gap in gaps.items())
    evidence = f"off by at most: {_shown(named, '{:.2g}'.format)}"
    worst = float(gaps.max())
    return Finding(worst <= points / 100 + SLACK, evidence, [], worst)


def introduction_is_table1(
    runs: RunSet, *, datasets: Sequence[str], percent: Sequence[float], points: float
) -> Finding:
    """The largest reductions that the introduction names are Table 1's, rounded."""
    largest = _printed(runs)["lost"].groupby("dataset").max()[[*datasets]]
    holds = bool((abs(largest - np.array(percent) / 100) <= points / 100 + SLACK).all())
    evidence = "; ".join(
        f"{_name(runs, dataset)}: text {quoted:g} %, Table 1 {in_points(largest[dataset])}"
        for dataset, quoted in zip(datasets, percent, strict=True)
    )
    return Finding(holds, evidence, [])


def reduction_is_table2(runs: RunSet, *, dataset: str, points: float) -> Finding:
    """The reduction quoted in the text is Table 2's, to so many points."""
    means = _table2(runs.paper, dataset)
    quoted = published(runs.paper, "sweep_text")[DATASETS[dataset], LARGEST_REDUCTION]
    gaps = means.iloc[0] - means.min(), means.max() - means.min()
    evidence = (
        f"text {in_points(quoted)}; Table 2 {in_points(gaps[0])} from EMD 0, "
        f"{in_points(gaps[1])} from the best EMD"
    )
    holds = any(abs(gap - quoted) <= points / 100 + SLACK for gap in gaps)
    return Finding(holds, evidence, [], float(gaps[0]))


def variation_is_relative(runs: RunSet, *, dataset: str, percent: float) -> Finding:
    """The text's bound on the variation is Table 2's largest sd / mean, or little above it."""
    sds = _table2(runs.paper, dataset, "sd")
    quoted = published(runs.paper, "sweep_text")[DATASETS[dataset], LARGEST_VARIATION]
    relative = float((sds / _table2(runs.paper, dataset)).max())
    evidence = (
        f"text: less than {100 * quoted:g} %; Table 2: largest sd / mean {100 * relative:.4f} %, "
        f"largest sd {100 * sds.max():.4f} points"
    )
    return Finding(quoted - percent / 100 <= relative <= quoted, evidence, [], relative)


def emd_alone_decides(
    runs: RunSet, *, what: str, emd: float, sds: float, dataset: str, batches: str = "large"
) -> Finding:
    """Table 3's accuracy of a training is Table 2's, interpolated at its EMD."""
    spread = _table2(runs.paper, dataset, "sd")
    expected = _interpolated(_table2(runs.paper, dataset), emd)
    sd = max(spread[spread.index < emd].iloc[-1], spread[spread.index > emd].iloc[0])
    here = float(_printed(runs)["accuracy"][dataset, batches, what])
    evidence = (
        f"{_name(runs, what)} {in_percent(here)}; Table 2 at {emd:g} {in_percent(expected)}, "
        f"sd {in_points(sd)}; {in_points(expected - here)} apart"
    )
    return Finding(abs(expected - here) <= sds * sd, evidence, [], here - expected)


def as_printed(runs: RunSet, what: str | float, *, dataset: str, batches: str = "large") -> Sample:
    """Return the published accuracy of a training (Table 3), or at an EMD (Table 2)."""
    if isinstance(what, str):
        value = _printed(runs)["accuracy"][dataset, batches, what]
        return Sample(f"Table 3, {_name(runs, what)}", (float(value),), ())
    return Sample(f"Table 2, EMD {what:g}", (_table2(runs.paper, dataset)[what],), ())


def emd_predicts_sharing(
    runs: RunSet, *, beta: float, emd: float, points: float, dataset: str
) -> Finding:
    """Table 2, interpolated at the EMD of a beta, is near to Fig. 7a."""
    here = published(runs.paper, "fig7a")["accuracy", f"{beta:g}"]
    predicted = _interpolated(_table2(runs.paper, dataset), emd)
    evidence = f"EMD {emd:g}: Table 2 {in_percent(predicted)}, Fig. 7a {in_percent(here)}"
    return Finding(abs(here - predicted) <= points / 100 + SLACK, evidence, [], here - predicted)


def means_fall(runs: RunSet, *, dataset: str) -> Finding:
    """The published means of Table 2 never rise with EMD."""
    rises = {
        f"{low:g} to {high:g}": b - a
        for (low, a), (high, b) in itertools.pairwise(_table2(runs.paper, dataset).items())
        if b > a
    }
    evidence = ", ".join(f"{in_points(rise)} from EMD {step}" for step, rise in rises.items())
    return Finding(not rises, f"rises: {evidence or 'none'}", [], max(rises.values(), default=0.0))


CLAIMS: dict[str, Rule] = {
    "near": near(accuracy),
    "leads": leads(accuracy),
    "printed_near": near(as_printed),
    "in_turn": in_turn,
    "costs_less": costs_less,
    "small_batches": small_batches,
    "pretraining_is_undone": pretraining_is_undone,
    "divergence_in_turn": divergence_in_turn,
    "divergence_follows_emd": divergence_follows_emd,
    "divergence_rises_most": divergence_rises_most,
    "divergence_is_largest": divergence_is_largest,
    "never_rises": never_rises,
    "falls_faster": falls_faster,
    "keeps": keeps,
    "varies_little": varies_little,
    "ends_match": ends_match,
    "sharing_helps": sharing_helps,
    "sharing_reaches": sharing_reaches,
    "sharing_trend": sharing_trend,
    "share_is_enough": share_is_enough,
    "larger_set_leads": larger_set_leads,
    "warm_up_gains": warm_up_gains,
    "realised_emd": realised_emd,
    "bound_holds": bound_holds,
    "distance_follows_emd": distance_follows_emd,
    "no_skew_no_distance": no_skew_no_distance,
    "table1_is_table3": table1_is_table3,
    "introduction_is_table1": introduction_is_table1,
    "reduction_is_table2": reduction_is_table2,
    "variation_is_relative": variation_is_relative,
    "emd_alone_decides": emd_alone_decides,
    "emd_predicts_sharing": emd_predicts_sharing,
    "means_fall": means_fall,
}
