"""Ozdayi et al. 2020: the claims of the tables, of the hypotheses behind them, and of the text.

A claim is a function of our means over the seeds; every number in the code is a fraction, "points"
in the texts are percentage points. Claims about the paper's own numbers rest on no run.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable

import numpy as np
import pandas as pd

from fedrepro.papers.tricks.conflicts import EVERYTHING, POINTS, VOTES, grid, hypotheses
from fedrepro.papers.tricks.measurements import (
    ACCURACY,
    BASELINE,
    BEST,
    CENTRALISED,
    CONFLICTS,
    GRID,
    IID,
    MOMENTUM_5,
    MOMENTUM_9,
    PROJECTED,
    PROJECTED_NOISE,
    PROJECTED_UPDATE,
    PROJECTED_UPDATE_NOISE,
    SAME_SIGN,
    SERVER_TRAINING,
    SIGN_AGREEMENT,
    TECHNIQUES,
    THE_PAPERS_BEST,
    chosen,
    diagnosis,
    late,
    published_summary,
    searched,
    welch,
)
from fedrepro.report.expected import published
from fedrepro.report.finding import SLACK, Finding, in_percent, in_points, run_ids
from fedrepro.report.stats import summarise
from fedrepro.runs.runset import RunSet

SINGLE = tuple(group for group in TECHNIQUES if group != BEST)


def _accuracies(runs: RunSet, *groups: str) -> pd.DataFrame:
    """Return the accuracy of every group, summarised over the seeds; its index is the group."""
    finals = runs.final(groups, [ACCURACY])
    return summarise(finals, ACCURACY, ["group", "title"]).set_index("group")


def _listed(cells: pd.DataFrame) -> str:
    return ", ".join(
        f"{title} {in_percent(mean)}"
        for title, mean in zip(cells["title"], cells["mean"], strict=True)
    )


def iid_matches_centralised(runs: RunSet) -> Finding:
    """OA1: FedAvg on IID data and centralised training are at most 1.5 points apart."""
    cells = _accuracies(runs, CENTRALISED, IID)
    gap = float(cells["mean"][IID] - cells["mean"][CENTRALISED])
    return Finding(abs(gap) <= 0.015 + SLACK, _listed(cells), run_ids(cells), gap)


def non_iid_costs(runs: RunSet, *, at_least: float) -> Finding:
    """OA2: NIID(5) is below IID by at least so much; by anything where that is 0."""
    cells = _accuracies(runs, IID, BASELINE)
    loss = float(cells["mean"][IID] - cells["mean"][BASELINE])
    return Finding(_reaches(loss, at_least), _listed(cells), run_ids(cells), loss)


def _reaches(gain: float, at_least: float) -> bool:
    return gain > 0 and gain >= at_least - SLACK


def gains(runs: RunSet, *, technique: str, at_least: float = 0.0) -> Finding:
    """OA7 and all trends: a technique gains at least so much; anything where that is 0."""
    cells = _accuracies(runs, BASELINE, technique)
    gain = float(cells["mean"][technique] - cells["mean"][BASELINE])
    return Finding(_reaches(gain, at_least), _listed(cells), run_ids(cells), gain)


def server_training_is_best(runs: RunSet) -> Finding:
    """OA3: server-side training gains at least 5 points, and most of the single techniques."""
    cells = _accuracies(runs, BASELINE, *SINGLE)
    gain = float(cells["mean"][SERVER_TRAINING] - cells["mean"][BASELINE])
    others = cells["mean"].drop([SERVER_TRAINING, BASELINE])
    holds = _reaches(gain, 0.05) and float(cells["mean"][SERVER_TRAINING]) > float(others.max())
    return Finding(holds, _listed(cells), run_ids(cells), gain)


def server_training_steadies(runs: RunSet) -> Finding:
    """OA4: the standard deviation is smaller with server-side training than without."""
    cells = _accuracies(runs, BASELINE, SERVER_TRAINING)
    served, plain = float(cells["sd"][SERVER_TRAINING]), float(cells["sd"][BASELINE])
    evidence = f"standard deviation {in_points(served)} with, {in_points(plain)} without"
    return Finding(served < plain, evidence, run_ids(cells), served)


def projection_gains(runs: RunSet, *, plain: str, noisy: str) -> Finding:
    """OA5: projection gains, and noise costs at most 1 point."""
    cells = _accuracies(runs, BASELINE, plain, noisy)
    gain = float(cells["mean"][plain] - cells["mean"][BASELINE])
    noise = float(cells["mean"][noisy] - cells["mean"][plain])
    return Finding(gain > 0 and noise >= -0.01 - SLACK, _listed(cells), run_ids(cells), gain)


def half_momentum_is_better(runs: RunSet) -> Finding:
    """OA6: momentum 0.5 gains at least 3 points and is better than 0.9."""
    cells = _accuracies(runs, BASELINE, MOMENTUM_5, MOMENTUM_9)
    means = cells["mean"]
    gain = float(means[MOMENTUM_5] - means[BASELINE])
    holds = _reaches(gain, 0.03) and float(means[MOMENTUM_5]) > float(means[MOMENTUM_9])
    return Finding(holds, _listed(cells), run_ids(cells), gain)


def combination_is_best(runs: RunSet) -> Finding:
    """OA8: no single technique is better; 8 points above the baseline; spread at most 1 point."""
    cells = _accuracies(runs, BASELINE, *SINGLE, BEST)
    best, spread = float(cells["mean"][BEST]), float(cells["sd"][BEST])
    gain = best - float(cells["mean"][BASELINE])
    single = float(cells["mean"][list(SINGLE)].max())
    holds = best >= single - SLACK and _reaches(gain, 0.08) and spread <= 0.01 + SLACK
    evidence = f"{_listed(cells)}; standard deviation of the combination {in_points(spread)}"
    return Finding(holds, evidence, run_ids(cells), gain)


def combination_stays_below(runs: RunSet) -> Finding:
    """OA9: the best combination is below centralised training, by at most 8 points."""
    cells = _accuracies(runs, CENTRALISED, BEST)
    gap = float(cells["mean"][CENTRALISED] - cells["mean"][BEST])
    return Finding(0 < gap <= 0.08 + SLACK, _listed(cells), run_ids(cells), gap)


def search_ends_there(runs: RunSet) -> Finding:
    """OG1: the best cell of the grid on test images is the paper's."""
    runs.require(GRID, "the grid search")
    table = searched(runs)
    best = chosen(table, "test")
    means = table.groupby("cell")["test"].mean()
    rank = int((means > means[THE_PAPERS_BEST]).sum()) + 1
    evidence = (
        f"best: {best}, {in_percent(means[best])}; the paper's: {THE_PAPERS_BEST}, "
        f"{in_percent(means[THE_PAPERS_BEST])}, number {rank} of {len(means)}"
    )
    return Finding(best == THE_PAPERS_BEST, evidence, list(table["run"]), float(rank))


def _late(runs: RunSet, quantity: str, *groups: str) -> tuple[pd.Series, str, list[str]]:
    """Return a quantity's mean over the second half of the rounds by group, in words, and ids."""
    table = late(diagnosis(runs, groups))
    cells = summarise(table[table["quantity"] == quantity], "value", ["group", "title"])
    means = cells.set_index("group")["mean"]
    return means, _listed(cells), run_ids(cells)


def conflicts_fall(runs: RunSet) -> Finding:
    """OC1: fewer conflicts with server-side training than in the baseline."""
    means, listed, used = _late(runs, CONFLICTS, BASELINE, SERVER_TRAINING)
    change = float(means[SERVER_TRAINING] - means[BASELINE])
    return Finding(change < 0, f"conflict rate: {listed}", used, change)


def projection_keeps_together(runs: RunSet) -> Finding:
    """OC2: projected agents end every round closer to each other."""
    apart: dict[tuple[str, int], list[float]] = defaultdict(list)
    used = []
    for run in runs.members(["updates", "updates_projected"]):
        used.append(run.id)
        for kept in runs.record(run).final["updates"]:
            apart[run.group, kept["round"]].append(_distance(np.array(kept["inner_products"])))
    plain, projected = (
        {t: float(np.mean(values)) for (name, t), values in apart.items() if name == group}
        for group in ("updates", "updates_projected")
    )
    evidence = "distance of the agents: " + "; ".join(
        f"round {t}: {projected[t]:.3g} with projection, {plain[t]:.3g} without" for t in plain
    )
    ratio = max(projected[t] / plain[t] for t in plain)
    return Finding(ratio < 1, evidence, used, ratio)


def _distance(products: np.ndarray) -> float:
    """Return how far the first two updates are apart, from all inner products."""
    return float(np.sqrt(max(products[0, 0] + products[1, 1] - 2 * products[0, 1], 0.0)))


def classes_in_common_agree(runs: RunSet) -> Finding:
    """OC3: more coordinates of the same sign for IID than for NIID(5)."""
    means, listed, used = _late(runs, SAME_SIGN, IID, BASELINE)
    lead = float(means[IID] - means[BASELINE])
    return Finding(lead > 0, f"same sign: {listed}", used, lead)


def trees_conflict(runs: RunSet) -> Finding:
    """OF1: a tree learns the four points; the agents' trees cancel on the whole plane."""
    known = np.array(POINTS)
    learned = float((hypotheses(known[:, :2])[EVERYTHING] == known[:, 2]).mean())
    cancelled = float((hypotheses(grid())[VOTES] == 0).mean())
    evidence = (
        f"one tree is right on {in_percent(learned)} of the points; the votes cancel on "
        f"{in_percent(cancelled)} of the plane"
    )
    return Finding(learned == cancelled == 1, evidence, [], cancelled)


# The paper's own numbers


def quoted_gains(runs: RunSet) -> Finding:
    """OP1: what the text says of gains and losses is in the tables."""
    table1 = {row: mean for (row, _), mean in published(runs.paper, "table1").items()}
    means = {group: published_summary(runs.paper, group)[0] for group in (BASELINE, *TECHNIQUES)}
    base = means[BASELINE]
    more_than = {
        "loss of NIID(5) against centralised": (0.17, table1["Centralized"] - base),
        "server-side training": (0.10, means[SERVER_TRAINING] - base),
        "projection with noise": (0.06, means[PROJECTED_NOISE] - base),
        "momentum 0.5": (0.07, means[MOMENTUM_5] - base),
        "adjustable step size": (0.05, means[SIGN_AGREEMENT] - base),
        "best combination": (0.12, means[BEST] - base),
    }
    about = {
        "projection": (0.04, means[PROJECTED] - base),
        "best combination below centralised": (0.05, table1["Centralized"] - means[BEST]),
    }
    holds = all(found > text + SLACK for text, found in more_than.values()) and all(
        abs(found - text) <= 0.005 + SLACK for text, found in about.values()
    )
    evidence = "; ".join(
        f"{name}: {word} {100 * text:g} in the text, {in_points(found)} in the tables"
        for word, pairs in (("more than", more_than), ("about", about))
        for name, (text, found) in pairs.items()
    )
    return Finding(holds, evidence, [])


def gains_are_established(runs: RunSet) -> Finding:
    """OP2: Welch's t test separates every published mean from the baseline's at 5 %."""
    base = published_summary(runs.paper, BASELINE)
    values = {group: welch(published_summary(runs.paper, group), base) for group in TECHNIQUES}
    evidence = "; ".join(
        f"{runs.plan.runs[group].title}: t {t:.2f}, p {p:.3f}" for group, (t, p) in values.items()
    )
    worst = max(p for _, p in values.values())
    return Finding(worst < 0.05, evidence, [], worst)


_of = functools.partial

CLAIMS: dict[str, Callable[[RunSet], Finding]] = {
    "OA1": iid_matches_centralised,
    "OA2": _of(non_iid_costs, at_least=0.10),
    "OA2-trend": _of(non_iid_costs, at_least=0.0),
    "OA3": server_training_is_best,
    "OA3-trend": _of(gains, technique=SERVER_TRAINING),
    "OA4": server_training_steadies,
    "OA5": _of(projection_gains, plain=PROJECTED, noisy=PROJECTED_NOISE),
    "OA5-update": _of(projection_gains, plain=PROJECTED_UPDATE, noisy=PROJECTED_UPDATE_NOISE),
    "OA5-trend": _of(gains, technique=PROJECTED),
    "OA6": half_momentum_is_better,
    "OA6-trend": _of(gains, technique=MOMENTUM_5),
    "OA7": _of(gains, technique=SIGN_AGREEMENT, at_least=0.02),
    "OA7-trend": _of(gains, technique=SIGN_AGREEMENT),
    "OA8": combination_is_best,
    "OA8-trend": _of(gains, technique=BEST),
    "OA9": combination_stays_below,
    "OG1": search_ends_there,
    "OC1": conflicts_fall,
    "OC2": projection_keeps_together,
    "OC3": classes_in_common_agree,
    "OF1": trees_conflict,
    "OP1": quoted_gains,
    "OP2": gains_are_established,
}
