"""Ozdayi et al. 2020: rules of the claims of the tables, of the hypotheses and of the text.

Their values stand in ``config/expected/tricks.yaml``: groups of runs by the plan's names,
differences in percentage points. Rules of the paper's own numbers rest on no run.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from fedrepro.base.errors import FedreproError
from fedrepro.papers.tricks.conflicts import EVERYTHING, POINTS, VOTES, grid, hypotheses
from fedrepro.papers.tricks.measurements import (
    ACCURACY,
    CANCELLED,
    CONFLICTS,
    GRID,
    TEST,
    cell_name,
    chosen,
    diagnosis,
    lately,
    printed,
    searched,
    welch,
)
from fedrepro.report.finding import SLACK, Finding, in_percent, in_points
from fedrepro.report.rules import (
    Quantity,
    Rules,
    Sample,
    compared,
    final_accuracy,
    lead,
    leads,
    less,
    listed,
    near,
    steadier,
    steady,
    title_of,
)
from fedrepro.report.stats import Error
from fedrepro.runs.plan import PlannedRun
from fedrepro.runs.runset import RunSet


def accuracy(runs: RunSet, what: str) -> Sample:
    """Return the final accuracy of a group of runs.

    One run or two say nothing of other seeds: the standard deviation that the paper prints of the
    group, if any, is the error of each, known on its three repeats.
    """
    sample, cell = final_accuracy(runs, what), printed(runs.paper).get(what)
    if cell is None:
        return sample
    return dataclasses.replace(sample, error=Error(estimated=cell["sd"], freedom=cell["n"] - 1))


RULES = Rules()
RULES.add(near(accuracy), "near")
RULES.add(leads(accuracy), "leads")


def spreads_less(runs: RunSet, *, what: str, than: str) -> Finding:
    """Hold where the standard deviation of one group is smaller than that of the other."""
    one, other = accuracy(runs, what), accuracy(runs, than)
    evidence = f"standard deviation {in_points(one.sd)} with, {in_points(other.sd)} without"
    if math.isnan(one.sd) or math.isnan(other.sd):
        evidence = "one seed has no spread"
    return compared([one, other], [steadier(one, other)], one.sd, evidence)


RULES.add(spreads_less, "steadier")


@RULES.add
def bears_noise(runs: RunSet, *, what: str, over: str, noisy: str, points: float) -> Finding:
    """Hold where ``what`` gains, and ``noisy`` is at most so many points below it."""
    base, plain, other = (accuracy(runs, group) for group in (over, what, noisy))
    margins = [less(plain, base, strict=True), less(other, plain, -points / 100)]
    return compared([base, plain, other], margins, lead(plain, base))


@RULES.add
def unsurpassed(
    runs: RunSet, *, what: str, over: str, points: float, by: Sequence[str], spread: float
) -> Finding:
    """Hold where no mean is greater, the gain is that large, and the spread at most ``spread``."""
    base, one = accuracy(runs, over), accuracy(runs, what)
    others = [accuracy(runs, group) for group in by]
    margins = [
        *(less(one, other) for other in others),
        less(one, base, points / 100),
        steady(one, spread / 100),
    ]
    samples = [base, *others, one]
    evidence = f"{listed(samples)}; standard deviation of the last {in_points(one.sd)}"
    return compared(samples, margins, lead(one, base), evidence)


@RULES.add
def search_ends(
    runs: RunSet, *, server_percent: float, server_momentum: float, threshold: int
) -> Finding:
    """Hold where this cell, without projection, is the best of the grid on test images."""
    runs.require(GRID, "the grid search")
    table = searched(runs)
    papers = cell_name(server_percent / 100, server_momentum, threshold)
    best = chosen(table, TEST)
    on = runs.evaluated(GRID)
    found = {str(cell): Sample.of(str(cell), of, TEST, on) for cell, of in table.groupby("cell")}
    own = found.pop(papers)
    rank = sum(other.mean > own.mean for other in found.values()) + 1
    first = found.get(best, own)
    evidence = (
        f"best: {best}, {in_percent(first.mean)}; the paper's: {papers}, {in_percent(own.mean)}, "
        f"number {rank} of {len(found) + 1}"
    )
    margins = [less(own, other) for other in found.values()]
    return compared([own, *found.values()], margins, float(rank), evidence)


# Hypotheses of section 3


def in_the_end(quantity: str) -> Quantity:
    """Return the quantity: what the rounds log, in the mean of the last ``last`` % of them."""

    def mean(runs: RunSet, what: str, *, last: float) -> Sample:
        title, table = title_of(runs, what), lately(diagnosis(runs, [what]), last)
        rounds = table[table["quantity"] == quantity]
        return _over_rounds(title, runs.members([what]), rounds)

    return mean


def _over_rounds(title: str, runs: Sequence[PlannedRun], table: pd.DataFrame) -> Sample:
    """Return the mean of each run's rounds, of which the table has one a row, fractions all."""
    rounds = (table.loc[table["run"] == run.id, "value"] for run in runs)
    return Sample.over_rounds(title, runs, rounds, fraction=True)


RULES.add(leads(in_the_end(CANCELLED)), "cancel_more")


@RULES.add
def conflicts_fall(runs: RunSet, *, what: str, under: str, last: float) -> Finding:
    """Hold where the agents' models differ on fewer test images in one group than in the other."""
    one, other = (in_the_end(CONFLICTS)(runs, group, last=last) for group in (what, under))
    return compared([other, one], [less(other, one, strict=True)], lead(one, other))


def changes_lately(runs: RunSet, what: str, *, last: float) -> Sample:
    """Return the mean size of the step of accuracy to each evaluation in the last rounds."""
    title, steps = title_of(runs, what), runs.curves([what], ACCURACY)
    steps["value"] = steps.groupby("run")["value"].diff().abs()
    late = lately(steps.dropna(subset=["value"]), last)
    return _over_rounds(title, runs.members([what]), late)


@RULES.add
def dampens(runs: RunSet, *, what: str, than: str, last: float) -> Finding:
    """Hold where accuracy changes less from one evaluation to the next than in another group."""
    one, other = (changes_lately(runs, group, last=last) for group in (what, than))
    evidence = f"mean change: {listed([other, one], in_points)}"
    margins = [less(other, one, strict=True)]
    return compared([other, one], margins, lead(one, other), evidence)


@RULES.add
def keeps_together(runs: RunSet, *, what: str, than: str) -> Finding:
    """Hold where the agents end closer to each other in every round that both groups keep."""
    one, other = _distances(runs, what), _distances(runs, than)
    evidence = "distance of the agents: " + "; ".join(
        f"round {t}: {one[t].mean:.3g} with projection, {other[t].mean:.3g} without" for t in other
    )
    ratio = max(one[t].mean / other[t].mean for t in other)
    margins = [
        less(other[t], one[t], what=f"without - with projection, round {t}", strict=True)
        for t in other
    ]
    return compared([*one.values(), *other.values()], margins, ratio, evidence)


def _distances(runs: RunSet, group: str) -> dict[int, Sample]:
    """Return how far the two agents' updates are apart in each kept round."""
    distances: dict[int, list[float]] = {}
    members = runs.members([group])
    for run in members:
        for kept in runs.record(run).final["updates"]:
            (one, product, *_), (_, other, *_), *_ = kept["inner_products"]
            distance = math.sqrt(max(one + other - 2 * product, 0.0))
            distances.setdefault(kept["round"], []).append(distance)
    title = title_of(runs, group)
    return {t: Sample.of_runs(title, members, values) for t, values in distances.items()}


@RULES.add
def trees_conflict(runs: RunSet) -> Finding:
    """Hold where a tree learns the four points and the agents' trees cancel on the whole plane."""
    known = np.array(POINTS)
    learned = float((hypotheses(known[:, :2])[EVERYTHING] == known[:, 2]).mean())
    cancelled = float((hypotheses(grid())[VOTES] == 0).mean())
    evidence = (
        f"one tree is right on {in_percent(learned)} of the points; the votes cancel on "
        f"{in_percent(cancelled)} of the plane"
    )
    return Finding(learned == cancelled == 1, evidence, [], cancelled)


# The paper's own numbers


def _printed(runs: RunSet, groups: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return what the paper prints of groups, as :func:`printed` does.

    Raises:
        FedreproError: of one of them there is nothing.
    """
    cells = printed(runs.paper)
    for group in groups:
        if group not in cells:
            raise FedreproError(
                f"config/expected/{runs.paper}.yaml: numbers: no published mean and standard "
                f"deviation of '{group}', which a claim needs"
            )
    return cells


@RULES.add
def quoted(
    runs: RunSet,
    *,
    what: Sequence[str],
    over: Sequence[str],
    more_than: Sequence[float],
    about: Sequence[float],
    within: float,
) -> Finding:
    """Hold where the tables have the differences, ``what`` less ``over``, that the text quotes.

    The first are more than so many points, the others about so many, give or take ``within``.
    """
    cells = _printed(runs, [*what, *over])
    texts = [("more than", text) for text in more_than] + [("about", text) for text in about]
    parts, holds = [], True
    for group, base, (word, text) in zip(what, over, texts, strict=True):
        found = cells[group]["mean"] - cells[base]["mean"]
        beyond = found - text / 100
        holds &= beyond > SLACK if word == "more than" else abs(beyond) <= within / 100 + SLACK
        one, other = (runs.plan.runs[name].title for name in (group, base))
        quote = f"{word} {text:g} in the text, {in_points(found)} in the tables"
        parts.append(f"{one} above {other}: {quote}")
    return Finding(holds, "; ".join(parts), [])


@RULES.add
def established(runs: RunSet, *, what: Sequence[str], over: str, percent: float) -> Finding:
    """Hold where Welch's t test separates all published means from that of ``over``."""
    cells = _printed(runs, [*what, over])
    tests = {group: welch(cells[group], cells[over]) for group in what}
    evidence = "; ".join(
        f"{runs.plan.runs[group].title}: t {t:.2f}, p {p:.3f}" for group, (t, p) in tests.items()
    )
    worst = max(p for _, p in tests.values())
    return Finding(worst < percent / 100, evidence, [], worst)
