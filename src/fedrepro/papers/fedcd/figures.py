"""Kopparapu, Lin, Zhao 2020: figures 1 to 9, and our own of devices and models.

The paper prints its curves as images only; :mod:`fedrepro.papers.fedcd.public_logs` has those of
the authors' public logs. Rounds are counted from 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Literal

import numpy as np

from fedrepro.fl.partition.archetypes import Hypergeometric
from fedrepro.papers.fedcd import public_logs
from fedrepro.papers.fedcd.measurements import (
    BITS,
    COUNTED_UNTIL,
    FEDAVG,
    FEDCD,
    HIERARCHICAL,
    HYPERGEOMETRIC,
    METHODS,
    Log,
    Row,
    by_archetype,
    by_choice,
    by_rising_bias,
    curve,
    entry,
    first_log,
    hypergeometric_law,
    logs,
    megabytes,
    params,
    summarised,
)
from fedrepro.papers.fedcd.public_logs import CHANGE, SPREAD, beside_logs
from fedrepro.report import choices
from fedrepro.report.figure import Figure
from fedrepro.runs.runset import RunSet

LOG_OF_30 = "public notebook, 30 devices, milestones 2, 15, 25, 30"
LOG_OF_18 = "public notebook, 18 devices"
"""Public logs in figures of our own runs as published, whose set-up is close to theirs."""


# Figures 1 and 4: accuracy of the archetypes


@summarised
def archetype_curves(
    runs: RunSet, *, experiment: str, methods: Sequence[str], rounds: int
) -> Iterator[Row]:
    """Yield the accuracy (fraction) of every archetype over the rounds.

    Further columns: ``algorithm``, ``archetype``, ``meta`` (its meta-archetype) and ``archetypes``
    (how many there are).
    """
    for method in methods:
        for log in logs(runs, experiment, method):
            for a, values in enumerate(log.by_archetype[:rounds].T):
                more = {"archetype": a, "meta": log.metas[a], "archetypes": len(log.metas)}
                name = f"{method}, archetype {a}"
                yield from curve(log, name, values, algorithm=method, **more)


# Figures 2 and 5: changes


@summarised
def changes(runs: RunSet, *, experiment: str, rounds: int) -> Iterator[Row]:
    """Yield the mean change (fraction) of a device's accuracy, by round."""
    for method in METHODS:
        for log in logs(runs, experiment, method):
            yield from curve(log, method, log.change[1:rounds], first=1)


# Figure 3: the hypergeometric law


@summarised
def label_shares(runs: RunSet) -> Iterator[Row]:
    """Yield the hypergeometric law of every archetype, and what our devices drew.

    The law is computed, and its last value lies beyond the last label: those images are dropped.
    ``<archetype>, images drawn`` is the mean share of each label in the images that the archetype's
    devices asked for. Further column: ``archetype``.
    """
    for log in logs(runs, HYPERGEOMETRIC, FEDCD):
        partition = log.run.spec.partition
        assert isinstance(partition, Hypergeometric)
        counts = np.array(runs.record(log.run).partition.counts) / partition.train
        drawn = by_archetype(counts.T, log.archetype).T
        for a, successes in enumerate(partition.successes):
            law = hypergeometric_law(partition.population, successes, partition.draws)
            yield from curve(log, f"archetype {a}", law, archetype=a)
            yield from curve(log, drawn_by(a), drawn[a], archetype=a)


def drawn_by(archetype: int) -> str:
    """Return the series of the images that the devices of an archetype drew."""
    return f"archetype {archetype}, images drawn"


# Figure 6: quantisation


@summarised
def bits_curves(runs: RunSet) -> Iterator[Row]:
    """Yield the mean accuracy (fraction) of all devices by number of bits.

    Further columns: ``algorithm`` and ``bits`` (32: not quantised).
    """
    for log in [*logs(runs, HIERARCHICAL), *logs(runs, BITS)]:
        bits = params(log.run.spec).quantise_bits or 32
        values = log.accuracy[:COUNTED_UNTIL].mean(axis=1)
        name = f"{log.method}, {bits} bits"
        yield from curve(log, name, values, algorithm=log.method, bits=bits)


# Figure 7, and our own: who prefers and who has which model, in the run of the first seed


@summarised
def preferences(runs: RunSet, *, by: Literal["archetype", "device"]) -> Iterator[Row]:
    """Yield the model that most devices of each archetype, or each device, prefer, by round.

    ``mean`` is the number of the model. Further column: ``line``, the archetype or device.
    """
    log = first_log(runs)
    if log is None:
        return
    rounds = log.consensus[:COUNTED_UNTIL] if by == "archetype" else np.array(log.preferred)
    for i, models in enumerate(rounds.T):
        yield from curve(log, f"{by} {i}", models, line=i)


@summarised
def holders(runs: RunSet) -> Iterator[Row]:
    """Yield how many devices of each meta-archetype have each model, by round.

    Further columns: ``model``, ``meta`` and ``devices`` (how many the meta-archetype has).
    """
    whole = first_log(runs)
    if whole is None:
        return
    log = whole.cut(0, COUNTED_UNTIL - 1)
    created = sorted({model for devices in log.active for held in devices for model in held})
    for meta in (0, 1):
        size = int((log.metas[log.archetype] == meta).sum())
        for model in created:
            counts, name = log.holders(model, meta), f"model {model}, meta-archetype {meta}"
            yield from curve(log, name, counts, model=model, meta=meta, devices=size)


@summarised
def active(runs: RunSet) -> Iterator[Row]:
    """Yield which models every device has, by round: a row a device, model and round.

    ``mean`` is the model's number; a model that is missing in the next round was deleted there.
    Further columns: ``device`` and ``model``.
    """
    log = first_log(runs)
    if log is None:
        return
    for t, devices in enumerate(log.active[:COUNTED_UNTIL]):
        for i, models in enumerate(devices):
            for m in models:
                yield entry(log, m, series=f"device {i}, model {m}", x=t, device=i, model=m)


# Our own: traffic


@summarised
def traffic(runs: RunSet) -> Iterator[Row]:
    """Yield the megabytes that all devices together send and receive, by round (section 3.6)."""
    for log in logs(runs, HIERARCHICAL):
        for way, sizes in megabytes(log).items():
            yield from curve(log, f"{log.method}, {way}", sizes[:COUNTED_UNTIL])


# Figures 8 and 9: biases


@summarised
def by_bias(runs: RunSet, *, value: Callable[[Log], Sequence[float]]) -> Iterator[Row]:
    """Yield a value of every round, for every bias, rising."""
    for name, found in by_rising_bias(runs).items():
        for log in found:
            yield from curve(log, name, value(log)[:COUNTED_UNTIL])


def _accuracies(experiment: str, methods: Sequence[str], rounds: int) -> Figure:
    return Figure(partial(archetype_curves, experiment=experiment, methods=methods, rounds=rounds))


FIGURES: dict[str, Figure] = {
    "fig1a": _accuracies(HIERARCHICAL, [FEDCD], 45),
    "fig1b": _accuracies(HIERARCHICAL, [FEDAVG, FEDCD], 50),
    "fig2": Figure(
        beside_logs(
            partial(changes, experiment=HIERARCHICAL, rounds=150), "notebook", {CHANGE: LOG_OF_30}
        ),
        "points",
    ),
    "fig3": Figure(label_shares),
    "fig4a": _accuracies(HYPERGEOMETRIC, [FEDCD], 80),
    "fig4b": _accuracies(HYPERGEOMETRIC, [FEDAVG, FEDCD], 80),
    "fig5": Figure(partial(changes, experiment=HYPERGEOMETRIC, rounds=80), "points"),
    "fig6": Figure(bits_curves),
    "fig7": Figure(partial(preferences, by="archetype"), "index"),
    "fig8": Figure(partial(by_bias, value=lambda log: log.active_models), "count"),
    "fig9": Figure(
        beside_logs(partial(by_bias, value=lambda log: log.spread), "six", {SPREAD: LOG_OF_18}),
        "points",
    ),
    "preference": Figure(partial(preferences, by="device"), "index"),
    "holders": Figure(holders, "count"),
    "active": Figure(active, "index"),
    "traffic": Figure(traffic, "MB"),
    "open_choices": choices.figure(by_choice),
    **public_logs.FIGURES,
}
