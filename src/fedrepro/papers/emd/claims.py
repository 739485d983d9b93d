"""Zhao et al. 2018: what decides the claims, and the contradictions between the paper's numbers.

Claims compare means over the seeds. Their thresholds and what they compare are in
``config/expected/emd.yaml``: ``points`` are percentage points, ``percent`` is a share of 100,
``beta`` and ``alpha`` are in per cent. The last group is about the paper's own numbers: its rules
read what is published alone and rest on no run.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import pandas as pd

from fedrepro.fl.partition.data_sharing import DataSharing
from fedrepro.papers.emd.measurements import (
    BOUND,
    DATASETS,
    LARGEST_REDUCTION,
    RELATIVE_ACCURACY,
    SCRATCH,
    WARM,
    divergences,
    pretrain_epochs,
    reported,
    synchronisations,
)
from fedrepro.report.expected import called, published
from fedrepro.report.finding import (
    SLACK,
    Finding,
    Margin,
    in_percent,
    in_points,
    not_planned,
)
from fedrepro.report.rules import (
    Rules,
    Sample,
    amount,
    combined,
    compared,
    lead,
    leads,
    less,
    listed,
    near,
    paired,
    steady,
    undecided,
    whole_seeds,
    within,
)
from fedrepro.report.stats import jackknife, rank_correlation
from fedrepro.runs.runset import Evaluated, MissingRunsError, RunSet

WHOLE = "weight_divergence.fedavg.model"
"""The weight divergence of all weights of a network (eq. 1), in records."""


def accuracy(runs: RunSet, what: str | float, *, dataset: str, batches: str = "large") -> Sample:
    """Return the reported accuracy of a training, or of the sweep at an EMD.

    Raises:
        FedreproError: the plan has no such EMD at this scale.
    """
    if isinstance(what, str):
        groups = runs.labelled(dataset=dataset, training=what, batches=batches)
        return _reported(called(runs.paper, what), reported(runs, groups), runs.evaluated(groups))
    (group,) = runs.labelled(dataset=dataset, training="sweep", batches=batches)
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
    return _reported(name, table, runs.evaluated([group]))


def _reported(name: str, table: pd.DataFrame, on: Evaluated) -> Sample:
    return Sample.of(name, table.sort_values("seed"), "accuracy", on)


def _shown(
    values: Iterable[tuple[object, float]], show: Callable[[float], str] = "{:.3g}".format
) -> str:
    """Return names and values: ``conv1 0.203, conv2 0.17``."""
    return ", ".join(f"{name} {show(value)}" for name, value in values)


RULES = Rules(where=accuracy)
RULES.add(near(accuracy), "near")
RULES.add(leads(accuracy), "leads")
RULES.add(leads(shared), "sharing_leads")


# Table 3, figures 1 and 8


@RULES.add
def in_turn(runs: RunSet, *, first: Sequence[str], then: str, last: str, **where: str) -> Finding:
    """All of ``first`` are above ``then``, and that is above ``last``."""
    *high, middle, low = samples = [accuracy(runs, x, **where) for x in [*first, then, last]]
    smallest = min(*(lead(sample, middle) for sample in high), lead(middle, low))
    margins = [less(sample, middle, strict=True) for sample in high]
    return compared(samples, [*margins, less(middle, low, strict=True)], smallest)


@RULES.add
def costs_less(
    runs: RunSet, *, what: str, than: str, over: str, percent: float, **where: str
) -> Finding:
    """Against ``over``, ``what`` loses less than so many per cent of what ``than`` loses."""
    best, one, other = samples = [accuracy(runs, name, **where) for name in (over, what, than)]
    losses = [(a - b, a - c) for a, b, c in paired(best, one, other)]
    lost, more = np.mean(losses, axis=0)
    what = f"{percent:g} % of ({best.name} - {other.name}) - ({best.name} - {one.name})"
    share = percent / 100
    terms = [(share - 1, best), (1.0, one), (-share, other)]
    margins = [less(best, other, strict=True), combined(terms, 0, what, strict=True)]
    return compared(samples, margins, float(lost / more) if more else None)


@RULES.add
def small_batches(
    runs: RunSet, *, raised: Sequence[str], lowered: str, points: float, **where: str
) -> Finding:
    """Small batches raise the accuracy of some trainings, and lower that of another."""
    small, large = (
        [accuracy(runs, name, batches=batches, **where) for name in [*raised, lowered]]
        for batches in ("small", "large")
    )
    changes = [lead(*pair) for pair in zip(small, large, strict=True)]
    evidence = _shown(zip([sample.name for sample in small], changes, strict=True), in_points)
    margins = [
        less(*pair, what=f"{pair[0].name}, small - large batches", strict=True)
        for pair in zip(small[:-1], large[:-1], strict=True)
    ]
    loss = f"{small[-1].name}, large - small batches"
    margins.append(less(large[-1], small[-1], points / 100, loss))
    return compared([*large, *small], margins, changes[-1], f"change: {evidence}")


@RULES.add
def gains_little(runs: RunSet, *, what: str, over: str, points: float, **where: str) -> Finding:
    """``what`` ends at most so many points above ``over``."""
    one, other = (accuracy(runs, name, **where) for name in (what, over))
    return compared([other, one], [less(other, one, -points / 100)], lead(one, other))


def _pretrained(runs: RunSet, what: str, dataset: str) -> tuple[Sample, Sample]:
    """Return the accuracy that pre-training reached, and that after FedAvg."""
    groups = runs.labelled(dataset=dataset, training=what, batches="large")
    curves = runs.curves(groups, "accuracy")
    began = curves[curves["round"] == curves["run"].map(pretrain_epochs(runs, groups))]
    return (
        Sample.of("pre-training", began, "value", runs.evaluated(groups)),
        accuracy(runs, what, dataset=dataset),
    )


@RULES.add
def pretrained_gains_little(runs: RunSet, *, what: str, points: float, dataset: str) -> Finding:
    """A pre-trained run ends at most so many points above where it began."""
    start, end = _pretrained(runs, what, dataset)
    return compared([start, end], [less(start, end, -points / 100)], lead(end, start))


@RULES.add
def pretrained_drops(runs: RunSet, *, what: str, dataset: str) -> Finding:
    """A pre-trained run ends below where it began."""
    start, end = _pretrained(runs, what, dataset)
    return compared([start, end], [less(start, end, strict=True)], lead(end, start))


@RULES.add
def curves_overlap(
    runs: RunSet, *, what: str, to: str, points: float, dataset: str, batches: str = "large"
) -> Finding:
    """Two trainings are so many points apart, root mean square over all evaluations, or less.

    Noise sets curves apart, too: from the square of each mean over two seeds or more, that of its
    standard error is subtracted.
    """
    labels = {"dataset": dataset, "batches": batches}
    one, other = (
        runs.curves(runs.labelled(training=name, **labels), "accuracy") for name in (what, to)
    )
    pairs = one.merge(other, on=["seed", "round"])
    pairs["lead"] = pairs["value_x"] - pairs["value_y"]
    by_round = pairs.pivot(index="seed", columns="round", values="lead")

    def apart(seeds: Sequence[int]) -> float:
        some = by_round.loc[[*seeds]]
        noise = some.var() / len(some) if len(some) > 1 else 0
        return math.sqrt(max(0, float((some.mean() ** 2 - noise).mean())))

    seeds = [*by_round.index]
    distance = apart(seeds)
    evidence = f"{in_points(distance)} apart over {by_round.shape[1]} evaluations"
    ids = [*dict.fromkeys([*pairs["run_x"], *pairs["run_y"]])]
    told = f"{amount(points / 100, 'points')} - distance of the curves"
    each = jackknife(lambda some: points / 100 - apart(some), seeds)
    margin = Margin.of(each, told, unit="points")
    networks = [accuracy(runs, name, **labels) for name in (what, to)]
    return Finding.of([margin], evidence, ids, distance, undecided(networks))


# Weight divergence: figures 2 and 4


def _divergence(runs: RunSet, by: str, dataset: str, trainings: Sequence[str]) -> pd.DataFrame:
    """Return the divergence, one row a run and layer, with the column ``by``."""
    chosen = (runs.labelled(dataset=dataset, training=name, reference="sgd") for name in trainings)
    return divergences(runs, [*itertools.chain(*chosen)])[[by, "layer", "seed", "run", "value"]]


def _means(table: pd.DataFrame, seeds: Sequence[int] | None = None) -> pd.DataFrame:
    """Return the mean of a table of divergences, ``by`` x layer, over all seeds or those given."""
    by, layers = table.columns[0], table["layer"].unique()
    if seeds is not None:
        table = table[table["seed"].isin(seeds)]
    return table.pivot_table("value", by, "layer")[[*layers]]


def _seeds(table: pd.DataFrame) -> list[int]:
    return sorted(table["seed"].unique())


@RULES.add
def divergence_in_turn(runs: RunSet, *, what: Sequence[str], dataset: str) -> Finding:
    """In every layer the divergence of each training is below that of the next."""
    table = _divergence(runs, "training", dataset, what)
    means = _means(table).loc[[*what]]
    smallest = float(np.nanmin(means / means.shift()))
    names = [called(runs.paper, name) for name in what]
    evidence = "; ".join(
        f"{layer}: {_shown(zip(names, means[layer], strict=True))}" for layer in means
    )
    cells = {
        (training, layer): Sample.of(f"{called(runs.paper, training)}, {layer}", of, "value")
        for (training, layer), of in table.groupby(["training", "layer"])
    }
    margins = [
        less(cells[higher, layer], cells[lower, layer], strict=True)
        for lower, higher in itertools.pairwise(what)
        for layer in means
    ]
    return Finding.of(margins, evidence, [*table["run"].unique()], smallest)


@RULES.add
def skew_counts_by_step_size(runs: RunSet, *, low: str, high: str, dataset: str) -> Finding:
    """Hold where the divergence rises the more between trainings the larger the step size is."""

    def by_step_size(training: str) -> dict[float, Sample]:
        labels = {"dataset": dataset, "training": training}
        groups = runs.labelled(**labels, reference="sgd") + runs.labelled(**labels, choice="step")
        lr = {run.id: run.spec.optimizer.lr for run in runs.members(groups)}
        finals = runs.final(groups, [WHOLE])
        name = called(runs.paper, training)
        return {
            step: Sample.of(f"{name}, step size {step:g}", of, WHOLE)
            for step, of in finals.groupby(finals["run"].map(lr))
        }

    even, skewed = by_step_size(low), by_step_size(high)
    margins = [
        combined(
            [(1, skewed[large]), (-1, even[large]), (-1, skewed[small]), (1, even[small])],
            what=f"rise at step size {large:g} - at {small:g}",
            strict=True,
        )
        for small, large in itertools.pairwise(sorted(even))
    ]
    rises = (f"{lead(skewed[step], even[step]):.4f} at {step:g}" for step in sorted(even))
    samples = [*even.values(), *skewed.values()]
    return compared(samples, margins, None, f"rise by step size: {', '.join(rises)}")


@RULES.add
def divergence_follows_emd(runs: RunSet, *, rank: float, dataset: str) -> Finding:
    """In every layer Spearman's rank correlation of EMD and mean divergence is high."""
    table = whole_seeds(_divergence(runs, "emd", dataset, ["sweep"]))
    layers = [*table["layer"].unique()]
    by_seed = table.pivot(index="seed", columns=["layer", "emd"], values="value").dropna(axis=1)
    emds = by_seed[layers[0]].columns
    values = np.stack([by_seed[layer] for layer in layers], axis=1)  # [seeds, layers, EMDs]

    def ranks(some: np.ndarray) -> np.ndarray:
        return rank_correlation(some.mean(axis=1), emds)

    found = ranks(values[None])[0]
    margin = Margin.by_bootstrap(
        lambda some: ranks(some).min(axis=-1) - rank,
        values,
        f"lowest rank correlation of a layer - {rank:g}",
        most=1 - rank,
    )
    evidence = f"rank correlation: {_shown(zip(layers, found, strict=True), '{:.3f}'.format)}"
    return Finding.of([margin], evidence, [*table["run"].unique()], float(found.min()))


@RULES.add
def divergence_rises_most(
    runs: RunSet, *, layers: Sequence[str], low: float, high: float, dataset: str
) -> Finding:
    """Between two EMDs the divergence rises most in these layers."""
    table = whole_seeds(_divergence(runs, "emd", dataset, ["sweep"]))

    def rise(seeds: Sequence[int] | None = None) -> pd.Series:
        means = _means(table, seeds)
        return means.T[high] - means.T[low]

    def ahead(seeds: Sequence[int]) -> float:
        found = rise(seeds)
        return float(found[[*layers]].min() - found.drop([*layers]).max())

    what = f"least rise of {' and '.join(layers)} - largest rise of the others"
    margin = Margin.of(jackknife(ahead, _seeds(table)), what, strict=True)
    ordered = rise().sort_values(ascending=False)
    evidence = f"rise: {_shown(ordered.items(), '{:.4g}'.format)}"
    return Finding.of([margin], evidence, [*table["run"].unique()])


@RULES.add
def divergence_is_largest(runs: RunSet, *, what: str, over: Sequence[str]) -> Finding:
    """The largest divergence of any layer and EMD is that of one data set."""
    tables = {name: _divergence(runs, "emd", name, ["sweep"]) for name in [what, *over]}

    def largest(seeds: Sequence[int] | None = None) -> dict[str, float]:
        return {name: float(np.max(_means(table, seeds))) for name, table in tables.items()}

    def ahead(seeds: Sequence[int]) -> float:
        found = largest(seeds)
        return found[what] / max(found[name] for name in over) - 1

    seeds = sorted(set.intersection(*(set(table["seed"]) for table in tables.values())))
    rest = " and ".join(called(runs.paper, name) for name in over)
    told = f"{called(runs.paper, what)} / the larger of {rest} - 1"
    margin = Margin.of(jackknife(ahead, seeds), told, strict=True)
    evidence = _shown((called(runs.paper, name), value) for name, value in largest().items())
    ids = [run for table in tables.values() for run in table["run"].unique()]
    return Finding.of([margin], evidence, ids, margin.value + 1)


# Accuracy against EMD: Table 2 and figure 5


def _sweep(runs: RunSet, dataset: str) -> dict[float, Sample]:
    """Return the reported accuracy of a data set's sweep by EMD, ascending."""
    groups = runs.labelled(dataset=dataset, training="sweep", batches="large")
    table, on = reported(runs, groups), runs.evaluated(groups)
    return {
        emd: _reported(f"EMD {emd:g}", table[table["emd"] == emd], on)
        for emd in sorted({*table["emd"].astype(float)})
    }


@RULES.add
def falls_with_emd(runs: RunSet, *, points: float, dataset: str) -> Finding:
    """From each EMD to the next accuracy rises by at most so many points; over all it falls."""
    samples = [*_sweep(runs, dataset).values()]
    steps = [*itertools.pairwise(samples)]
    margins = [less(one, following, -points / 100) for one, following in steps]
    margins.append(less(samples[0], samples[-1], strict=True))
    return compared(samples, margins, max(lead(after, before) for before, after in steps))


@RULES.add
def falls_faster(
    runs: RunSet, *, low: float, middle: float, high: float, times: float, dataset: str
) -> Finding:
    """Accuracy falls so many times as fast above the middle EMD as below it, or faster."""
    samples = [accuracy(runs, emd, dataset=dataset) for emd in (low, middle, high)]
    falls = [-np.diff(values) / np.diff([low, middle, high]) for values in paired(*samples)]
    early, late = np.mean(falls, axis=0)
    evidence = (
        f"loss per unit of EMD: {in_points(early)} up to {middle:g}, {in_points(late)} from there"
    )
    above = f"loss per unit of EMD above {middle:g}"
    faster = f"{above} - {times:g} x that below"
    first, middle_one, last = samples
    steep, slow = 1 / (high - middle), times / (middle - low)
    fall = [(steep, middle_one), (-steep, last)]
    faster_fall = [(-slow, first), (steep + slow, middle_one), (-steep, last)]
    margins = [
        combined(fall, 0, above, strict=True),
        combined(faster_fall, 0, faster, strict=times <= 1),
    ]
    return compared(samples, margins, float(late / early) if early > 0 else None, evidence)


@RULES.add
def keeps(runs: RunSet, *, what: float, of: float, percent: float, dataset: str) -> Finding:
    """At one EMD so many per cent of the accuracy at another are kept."""
    whole, rest = samples = [accuracy(runs, emd, dataset=dataset) for emd in (of, what)]
    pairs = paired(whole, rest)
    before, kept = np.mean(pairs, axis=0)
    share = float(kept / before)
    what_is_left = f"{rest.name} - {percent:g} % of {whole.name}"
    margin = combined([(1, rest), (-percent / 100, whole)], 0, what_is_left)
    return compared(samples, [margin], share, f"{in_percent(share)} kept")


@RULES.add
def varies_little(runs: RunSet, *, percent: float, dataset: str) -> Finding:
    """At no EMD is the relative standard deviation over the distributions larger."""
    samples = _sweep(runs, dataset)
    relative = {emd: sample.sd / sample.mean for emd, sample in samples.items()}
    largest = max(relative, key=relative.__getitem__)
    margins = [steady(sample, percent / 100 * sample.mean) for sample in samples.values()]
    evidence = f"largest sd / mean {100 * relative[largest]:.3f} % (EMD {largest:g})"
    return compared([*samples.values()], margins, relative[largest], evidence)


@RULES.add
def ends_match(
    runs: RunSet, *, emds: Sequence[float], to: Sequence[str], points: float, dataset: str
) -> Finding:
    """The sweep at these EMDs and these trainings are at most so many points apart."""
    ends, others = ([accuracy(runs, x, dataset=dataset) for x in what] for what in (emds, to))
    pairs = [*zip(ends, others, strict=True)]
    worst = max((lead(*pair) for pair in pairs), key=abs)
    margins = [margin for pair in pairs for margin in within(*pair, points)]
    return compared([*ends, *others], margins, worst)


@RULES.add
def accuracy_follows_divergence(runs: RunSet, *, rank: float, dataset: str) -> Finding:
    """Over the EMDs the rank correlation of the network's divergence and accuracy is at most so."""
    samples = _sweep(runs, dataset)
    groups = runs.labelled(dataset=dataset, training="sweep", reference="sgd")
    finals = runs.final(groups, [WHOLE]).pivot(index="seed", columns="emd", values=WHOLE)
    accuracies = pd.DataFrame({emd: sample.by_seed() for emd, sample in samples.items()}).dropna()
    diverged, accuracies = finals.dropna().align(accuracies, join="inner")
    if accuracies.empty:
        raise MissingRunsError(f"{dataset}: no seed is recorded at every EMD")
    values = np.stack([diverged, accuracies], axis=1)  # [seeds, 2, EMDs]

    def correlation(some: np.ndarray) -> np.ndarray:
        means = some.mean(axis=1)
        return rank_correlation(means[:, 0], means[:, 1])

    ours = float(correlation(values[None])[0])
    margin = Margin.by_bootstrap(
        lambda some: rank - correlation(some),
        values,
        f"{rank:g} - rank correlation",
        most=rank + 1,
    )
    named = zip((sample.name for sample in samples.values()), diverged.mean(), strict=True)
    evidence = f"divergence: {_shown(named)}; {listed([*samples.values()])}; rank {ours:.3f}"
    found = compared([*samples.values()], [margin], ours, evidence)
    members = runs.members(groups)
    return replace(found, runs=[*found.runs, *(run.id for run in members)])


# Data sharing: figure 7


def _by_beta(runs: RunSet) -> dict[float, Sample]:
    """Return accuracy by beta (per cent), ascending."""
    betas = sorted({100 * float(run.coordinates["beta"]) for run in runs.members([SCRATCH])})
    return {beta: replace(shared(runs, beta), name=f"{beta:g} %") for beta in betas}


@RULES.add
def sharing_helps(runs: RunSet, *, beta: float, over: float, points: float, fall: float) -> Finding:
    """A beta gains so many points over another; none loses more than ``fall`` to the one before."""
    samples = [*_by_beta(runs).values()]
    one, other = shared(runs, beta), shared(runs, over)
    steps = [less(b, a, -fall / 100) for a, b in itertools.pairwise(samples)]
    margins = [less(one, other, points / 100), *steps]
    evidence = f"accuracy by beta: {listed(samples)}"
    return compared(samples, margins, lead(one, other), evidence)


@RULES.add
def sharing_reaches(runs: RunSet, *, beta: float, percent: float, points: float) -> Finding:
    """A beta reaches an accuracy that the text quotes, within so many points."""
    sample = shared(runs, beta)
    margins = [sample.above((percent - points) / 100), sample.below((percent + points) / 100)]
    return compared([sample], margins, sample.mean)


def _by_alpha(runs: RunSet, beta: float) -> dict[float, Sample]:
    """Return accuracy from the warm-up model by alpha (per cent), ascending."""
    alphas = sorted({100 * float(run.coordinates["alpha"]) for run in runs.members([WARM])})
    return {alpha: replace(shared(runs, beta, alpha), name=f"{alpha:g} %") for alpha in alphas}


@RULES.add
def sharing_trend(runs: RunSet, *, rank: float, beta: float | None = None) -> Finding:
    """Spearman's rank correlation of beta and accuracy is high; given a beta, that of alpha."""
    by, samples = ("beta", _by_beta(runs)) if beta is None else ("alpha", _by_alpha(runs, beta))
    values = np.array(paired(*samples.values()))  # [seeds, betas or alphas]

    def correlation(some: np.ndarray) -> np.ndarray:
        return rank_correlation(some.mean(axis=1), [*samples])

    ours = float(correlation(values[None])[0])
    margin = Margin.by_bootstrap(
        lambda some: correlation(some) - rank,
        values,
        f"rank correlation - {rank:g}",
        most=1 - rank,
    )
    evidence = f"accuracy by {by}: {listed([*samples.values()])}; rank {ours:.3f}"
    return compared([*samples.values()], [margin], ours, evidence)


@RULES.add
def share_is_enough(
    runs: RunSet, *, betas: Sequence[float], alpha: float, of: float, points: float
) -> Finding:
    """For each G a share changes the accuracy of a larger share by at most so many points."""
    pairs = [(shared(runs, beta, of), shared(runs, beta, alpha)) for beta in betas]
    worst = max((lead(*pair) for pair in pairs), key=abs)
    margins = [margin for pair in pairs for margin in within(*pair, points)]
    return compared([*itertools.chain(*pairs)], margins, worst)


@RULES.add
def rises_faster_first(
    runs: RunSet, *, beta: float, low: float, middle: float, high: float
) -> Finding:
    """Accuracy rises with alpha up to the middle one, and faster than above it."""
    samples = [
        replace(shared(runs, beta, alpha), name=f"{alpha:g} %") for alpha in (low, middle, high)
    ]
    rises = [np.diff(values) / np.diff([low, middle, high]) for values in paired(*samples)]
    early, late = 10 * np.mean(rises, axis=0)
    evidence = (
        f"rise per 10 % of alpha: {in_points(early)} up to {middle:g} %, "
        f"{in_points(late)} from there; {listed(samples)}"
    )
    first, then = 10 / (middle - low), 10 / (high - middle)
    margins = [
        less(samples[1], samples[0], strict=True),
        combined(
            [*zip((-first, first + then, -then), samples, strict=True)],
            0,
            f"rise per 10 % of alpha up to {middle:g} % - that above it",
            strict=True,
        ),
    ]
    return compared(samples, margins, float(early - late), evidence)


@RULES.add
def larger_set_leads(runs: RunSet, *, beta: float, over: float) -> Finding:
    """At every alpha the larger G gives the higher accuracy."""
    large, small = _by_alpha(runs, beta), _by_alpha(runs, over)
    leads_by = {alpha: lead(large[alpha], small[alpha]) for alpha in large}
    named = ((f"alpha {alpha:g} %", gap) for alpha, gap in leads_by.items())
    evidence = f"lead of the larger G: {_shown(named, in_points)}"
    margins = [
        less(large[alpha], small[alpha], what=f"larger - smaller G, alpha {alpha:g} %", strict=True)
        for alpha in large
    ]
    least = min(leads_by.values())
    return compared([*large.values(), *small.values()], margins, least, evidence)


@RULES.add
def warm_up_gains(
    runs: RunSet,
    *,
    beta: float,
    alpha: float,
    over: float,
    points: float = -math.inf,
    at_most: float = math.inf,
) -> Finding:
    """From the warm-up model with a share of G, against another beta from scratch."""
    warm, scratch = shared(runs, beta, alpha), shared(runs, over)
    margins = []
    if points > -math.inf:
        margins.append(less(warm, scratch, points / 100, strict=points <= 0))
    if at_most < math.inf:
        margins.append(less(scratch, warm, -at_most / 100))
    return compared([scratch, warm], margins, lead(warm, scratch))


@RULES.add
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


@RULES.add
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


@RULES.add
def distance_follows_emd(runs: RunSet, *, m: int) -> Finding:
    """The larger the EMD, the larger the distance after synchronisation m."""
    table = synchronisations(runs)
    table = table[table["m"] == m]
    samples = [Sample.of(f"EMD {emd:g}", of, "distance") for emd, of in table.groupby("emd")]
    margins = [less(b, a, strict=True) for a, b in itertools.pairwise(samples)]
    evidence = f"distance: {listed(samples, '{:.3g}'.format)}"
    return compared(samples, margins, None, evidence)


@RULES.add
def distance_is_larger(runs: RunSet, *, high: float, low: float) -> Finding:
    """After every synchronisation the distance at the higher EMD is above that at the lower."""
    skewed, even = (_distances(runs, emd) for emd in (high, low))
    margins = [less(*pair, strict=True) for pair in zip(skewed, even, strict=True)]
    evidence = f"distance after each synchronisation, {_told(high, skewed)}; {_told(low, even)}"
    return compared([*skewed, *even], margins, None, evidence)


@RULES.add
def distance_accumulates(runs: RunSet, *, emd: float) -> Finding:
    """Every synchronisation adds to the distance."""
    found = _distances(runs, emd)
    pairs = itertools.pairwise(found)
    margins = [less(after, before, strict=True) for before, after in pairs]
    return compared(
        found, margins, None, f"distance after each synchronisation, {_told(emd, found)}"
    )


def _distances(runs: RunSet, emd: float) -> list[Sample]:
    """Return the distances from SGD at an EMD, a sample a synchronisation."""
    table = synchronisations(runs)
    table = table[table["emd"] == emd]
    if table.empty:
        raise not_planned(runs, BOUND, f"EMD {emd:g}")
    return [Sample.of(f"EMD {emd:g}, m = {m}", of, "distance") for m, of in table.groupby("m")]


def _told(emd: float, samples: Sequence[Sample]) -> str:
    return f"EMD {emd:g}: {', '.join(f'{sample.mean:.3g}' for sample in samples)}"


@RULES.add
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
    for group in runs.groups_of("table3"):
        labels = runs.plan.runs[group].labels
        cell = runs.plan.runs[group].title, DATASETS[labels["dataset"]]
        rows.append(labels | {"lost": lost.get(cell), "accuracy": kept[cell]})
    return pd.DataFrame(rows).set_index(["dataset", "batches", "training"])


@RULES.add
def table1_is_table3(runs: RunSet, *, points: float) -> Finding:
    """Table 1's entries are differences of Table 3's, to so many points."""
    table = _printed(runs)
    kept = table["accuracy"]
    central = kept.where(table.index.get_level_values("training") == "sgd")
    sgd = central.groupby(["dataset", "batches"]).transform("first")
    gaps = (sgd - kept - table["lost"]).abs().groupby("dataset", sort=False).max()
    gaps = gaps.round(6)  # tables print hundredths of a point; the rest is floating point
    named = ((called(runs.paper, dataset), gap) for dataset, gap in gaps.items())
    evidence = f"off by at most: {_shown(named, in_points)}"
    worst = float(gaps.max())
    return Finding(worst <= points / 100 + SLACK, evidence, [], worst)


@RULES.add
def introduction_is_table1(
    runs: RunSet, *, datasets: Sequence[str], percent: Sequence[float], points: float
) -> Finding:
    """The largest reductions that the introduction names are Table 1's, rounded."""
    largest = _printed(runs)["lost"].groupby("dataset").max()[[*datasets]]
    holds = bool((abs(largest - np.array(percent) / 100) <= points / 100 + SLACK).all())
    evidence = "; ".join(
        f"{called(runs.paper, dataset)}: text {quoted:g} %, Table 1 {in_points(largest[dataset])}"
        for dataset, quoted in zip(datasets, percent, strict=True)
    )
    return Finding(holds, evidence, [])


@RULES.add
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


@RULES.add
def variation_is_relative(runs: RunSet, *, dataset: str, percent: float) -> Finding:
    """The text's bound on the variation is Table 2's largest sd / mean, or little above it."""
    sds = _table2(runs.paper, dataset, "sd")
    quoted = published(runs.paper, "sweep_text", "sd")[DATASETS[dataset], RELATIVE_ACCURACY]
    relative = float((sds / _table2(runs.paper, dataset)).max())
    evidence = (
        f"text: less than {100 * quoted:g} %; Table 2: largest sd / mean {100 * relative:.4f} %, "
        f"largest sd {100 * sds.max():.4f} points"
    )
    return Finding(quoted - percent / 100 <= relative <= quoted, evidence, [], relative)


@RULES.add
def emd_alone_decides(runs: RunSet, *, what: str, emd: float, sds: float, dataset: str) -> Finding:
    """Table 3's accuracy of a training is Table 2's, interpolated at its EMD."""
    spread = _table2(runs.paper, dataset, "sd")
    expected = _interpolated(_table2(runs.paper, dataset), emd)
    sd = max(spread[spread.index < emd].iloc[-1], spread[spread.index > emd].iloc[0])
    here = float(_printed(runs)["accuracy"][dataset, "large", what])
    evidence = (
        f"{called(runs.paper, what)} {in_percent(here)}; Table 2 at {emd:g} "
        f"{in_percent(expected)}, sd {in_points(sd)}; {in_points(expected - here)} apart"
    )
    return Finding(abs(expected - here) <= sds * sd, evidence, [], here - expected)


def as_printed(runs: RunSet, what: str | float, *, dataset: str) -> Sample:
    """Return the published accuracy of a training (Table 3, large B), or at an EMD (Table 2)."""
    if isinstance(what, str):
        value = _printed(runs)["accuracy"][dataset, "large", what]
        return Sample(f"Table 3, {called(runs.paper, what)}", (float(value),), ())
    return Sample(f"Table 2, EMD {what:g}", (_table2(runs.paper, dataset)[what],), ())


RULES.add(near(as_printed), "printed_near")


@RULES.add
def emd_predicts_sharing(
    runs: RunSet, *, beta: float, emd: float, points: float, dataset: str
) -> Finding:
    """Table 2, interpolated at the EMD of a beta, is near to Fig. 7a."""
    here = published(runs.paper, "fig7a")["accuracy", f"{beta:g}"]
    predicted = _interpolated(_table2(runs.paper, dataset), emd)
    evidence = f"EMD {emd:g}: Table 2 {in_percent(predicted)}, Fig. 7a {in_percent(here)}"
    return Finding(abs(here - predicted) <= points / 100 + SLACK, evidence, [], here - predicted)


@RULES.add
def means_fall(runs: RunSet, *, dataset: str, sds: float) -> Finding:
    """From EMD to EMD no published mean of Table 2 rises by more than chance.

    That is by more than so many of the standard deviations that it prints there, the larger of two.
    """
    means, spreads = _table2(runs.paper, dataset), _table2(runs.paper, dataset, "sd")
    rises = {
        (low, high): means[high] - means[low]
        for low, high in itertools.pairwise(means.index)
        if means[high] > means[low]
    }
    told, holds = [], True
    for (low, high), rise in rises.items():
        spread = max(spreads[low], spreads[high])
        holds &= bool(rise <= sds * spread + SLACK)
        told.append(f"{in_points(rise)} from EMD {low:g} to {high:g}, sd {in_points(spread)}")
    largest = max(rises.values(), default=0.0)
    return Finding(holds, f"rises: {', '.join(told) or 'none'}", [], largest)
