"""Liu, Lee, Julien 2020: figures 3 to 8, and our own on what stands behind them.

Our own: shared storage at small N, the three networks at N = 0, the groups, the threshold, and the
worst case of the theorem, for which nothing is trained.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any

import pandas as pd

from fedrepro.fl.spec import RunSpec
from fedrepro.papers.selective.measurements import (
    CURVES,
    METHODS,
    NETWORKS,
    TESTS,
    by_choice,
    measured,
    metric,
    published_curve,
    shown,
    some,
    tuning,
)
from fedrepro.papers.selective.theory import UnfairOptimum, course
from fedrepro.report import choices
from fedrepro.report.figure import Figure, published_points
from fedrepro.report.stats import SUMMARY, summarise
from fedrepro.runs.plan import expand
from fedrepro.runs.plan_schema import Scale
from fedrepro.runs.runset import RunSet


def _points(cells: pd.DataFrame, *others: str, **columns: Any) -> pd.DataFrame:
    """Lay summarised cells out as a figure's frame wants them, with some other columns."""
    return cells.assign(**columns)[["series", "x", *SUMMARY, *others]]


def curves(runs: RunSet, *, artefact: str) -> pd.DataFrame:
    """Return a network's curves on one test: both readings, and centralised at x = 100.

    The published curves, at all their points, are further series, ``<method>, published``, with the
    published accuracy as ``mean``.
    """
    ours = measured(runs, artefact, CURVES[artefact][1])
    ours = _points(ours, series=ours["curve"], x=ours["percent"])
    known = [
        published_points(published_curve(artefact, method), f"{method}, published")
        for method in METHODS
    ]
    return pd.concat([ours, *known], ignore_index=True)


SMALL_PERCENT = 20
"""Largest N of the figure on shared storage."""


def _on_both_tests(runs: RunSet, artefact: str, last: int) -> pd.DataFrame:
    """Return accuracies up to an N on both tests, with the columns ``test`` and ``series``."""
    parts = [measured(runs, artefact, test).assign(test=title) for test, title in TESTS.items()]
    cells = pd.concat(parts, ignore_index=True)
    cells = some(runs, artefact, cells[cells["percent"] <= last])
    return cells.assign(series=cells["curve"] + "; " + cells["test"])


def aliasing(runs: RunSet) -> pd.DataFrame:
    """Return federated accuracy at small N, true averaging against shared storage, both tests.

    Further columns: ``curve`` (the series without its test) and ``test``.
    """
    cells = _on_both_tests(runs, "aliasing", SMALL_PERCENT)
    return _points(cells, "curve", "test", x=cells["percent"])


def rounds(runs: RunSet) -> pd.DataFrame:
    """Return the accuracy of Model 2 with shared storage after every round, on both tests.

    The published accuracies stand at the round that they are published for, as series
    ``..., published``. Further columns: ``percent`` (N) and ``test``.
    """
    (group,) = runs.labelled(variant="every round")
    parts = []
    for test, title in TESTS.items():
        values = runs.curves([group], metric(test, **runs.plan.runs[group].labels))
        values["series"] = values["percent"].map(f"N = {{}}; {title}".format)
        ours = summarise(values, "value", ["series", "round", "percent"])
        parts.append(ours.rename(columns={"round": "x"}).assign(test=title))
        figure = next(name for name, shows in CURVES.items() if shows == ("m2", test))
        known = published_points(published_curve(figure, "federated"), "")
        known = known.rename(columns={"x": "percent"}).merge(values[["percent"]].drop_duplicates())
        known["series"] = known["percent"].map(f"N = {{:g}}; {title}, published".format)
        parts.append(known.assign(test=title, x=_spec(group, "paper").rounds))
    return _points(pd.concat(parts, ignore_index=True), "percent", "test")


def _spec(group: str, scale: Scale) -> RunSpec:
    """Return the first run of a group at a scale."""
    return next(run.spec for run in expand("selective", scale) if run.group == group)


def groups_per_n(runs: RunSet) -> pd.DataFrame:
    """Return the number of groups at every N, for each network and reading.

    Further columns: ``curve`` (the reading) and ``model``.
    """
    cells = measured(runs, "groups_per_n", "groups")
    cells = cells.rename(columns={"network": "model", "percent": "x"})
    return _points(cells, "curve", "model", series=cells["model"] + ", " + cells["curve"])


def complexity(runs: RunSet) -> pd.DataFrame:
    """Return federated accuracy at N = 0 of each network, for each reading and test.

    ``x`` is the number of the network. Further columns: ``curve``, ``test`` and ``network`` (its
    name, and how its training differs from the published one).
    """
    cells = _on_both_tests(runs, "complexity", 0)
    titles = {}
    for group in shown(runs, "complexity"):
        name = NETWORKS[runs.plan.runs[group].labels["network"]]
        titles[name] = "\n".join([name, *_reduced(group, runs.scale)])
    number = cells["network"].map(list(NETWORKS.values()).index) + 1
    cells = cells.assign(x=number, network=cells["network"].map(titles))
    return _points(cells, "curve", "test", "network")


def _reduced(group: str, scale: Scale) -> list[str]:
    """Say what of a group's training is less than published."""
    ours, full = _spec(group, scale), _spec(group, "paper")
    parts = []
    if ours.rounds != full.rounds:
        parts.append(f"{ours.rounds} of {full.rounds} rounds")
    if ours.model.width != full.model.width:
        parts.append(f"{ours.model.width / full.model.width:g} of the width")
    if ours.dataset.downsample != full.dataset.downsample:
        share = (full.dataset.downsample / ours.dataset.downsample) ** 2
        parts.append(f"{share:g} of the pixels")
    return parts


def threshold_tuning(runs: RunSet) -> pd.DataFrame:
    """Return the accuracy on the tuning images at every threshold, for each N and their mean."""
    cells = tuning(runs)
    return _points(cells, series=cells["at"], x=cells["threshold"])


FACTORS = (2.0, 5.0, 20.0)
GAMMAS = (0.01, 1.0, 100.0)
SHARES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 0.6)
_SHOWN_SHARE = 0.01


def theorem(runs: RunSet) -> pd.DataFrame:
    """Return federated averaging on the worst case of appendix A; no run is trained for it.

    ``mean`` is over runs with noisy gradients. Panels: ``global`` (global loss above its minimum,
    in units of Gamma) and ``node`` (node N's loss in multiples of its minimum), by round; ``share``
    (node N's loss after the last round, by p_N). Further columns: ``panel``, ``factor``, ``gamma``.
    """
    parts = []
    for factor, share, gamma in itertools.product(FACTORS, SHARES, GAMMAS):
        excess, node = course(UnfairOptimum(factor, share, gamma))
        shown = {"share": pd.DataFrame({"series": "node N", "x": share, "mean": node[-1:]})}
        if share == _SHOWN_SHARE and gamma == 1.0:
            for panel, mean in {"global": excess, "node": node}.items():
                x = range(len(mean))
                shown[panel] = pd.DataFrame({"series": panel, "x": x, "mean": mean})
        for panel, points in shown.items():
            series = f"C = {factor:g}, Gamma = {gamma:g}: " + points["series"]
            parts.append(points.assign(series=series, panel=panel, factor=factor, gamma=gamma))
    return pd.concat(parts, ignore_index=True)


FIGURES: dict[str, Figure] = {
    **{name: Figure(functools.partial(curves, artefact=name)) for name in CURVES},
    "complexity": Figure(complexity),
    "aliasing": Figure(aliasing),
    "m2_rounds": Figure(rounds),
    "groups_per_n": Figure(groups_per_n, "count"),
    "threshold_tuning": Figure(threshold_tuning),
    "theorem": Figure(theorem, "ratio"),
    "open_choices": choices.figure(by_choice),
}
