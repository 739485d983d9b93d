"""Nguyen et al. 2023: the claims, and what the authors' code does instead.

Rules decide the claims of ``config/expected/cadis.yaml``, where thresholds and groups of runs are.
Comparisons are of means over the seeds of each run's best accuracy, unless a rule says otherwise.
The last rules are about what is published alone and rest on no run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from fedrepro.fl.algorithms.probe import THRESHOLDS
from fedrepro.fl.data import describe
from fedrepro.fl.data.pill_counts import COUNTS, DIABETES
from fedrepro.papers.cadis.measurements import (
    BASELINES,
    KINDS,
    OVER_BEST,
    OVER_FEDAVG,
    SINGLESET,
    moving_average,
    partition_facts,
    recorded,
    rounds_to,
    separations,
)
from fedrepro.papers.cadis.meeting import rounds_to_see_all
from fedrepro.report.expected import load_expected, published
from fedrepro.report.finding import SLACK, Finding, in_percent, in_points
from fedrepro.report.rules import Rule, Sample, leads, near, title_of
from fedrepro.runs.plan import PlannedRun
from fedrepro.runs.runset import RunSet

ROUNDED = 1e-6
"""Records hold six digits."""


def _members(runs: RunSet, *groups: str) -> list[PlannedRun]:
    """Return the runs of groups, all of which must be recorded."""
    runs.require(groups, "a claim")
    return recorded(runs, groups)


def _ids(members: Sequence[PlannedRun]) -> list[str]:
    return [run.id for run in members]


def best(runs: RunSet, what: str, *, lists: str = "") -> Sample:
    """Return the best accuracy of a group's runs, or of those on one of the authors' lists."""
    members = [
        run for run in _members(runs, what) if not lists or run.coordinates["lists"] == lists
    ]
    values = tuple(max(_accuracy(runs, run)) for run in members)
    return Sample(title_of(runs, what), values, tuple(_ids(members)))


def late(runs: RunSet, what: str, *, evaluations: int) -> Sample:
    """Return the mean accuracy of the last evaluations of a group's runs."""
    members = _members(runs, what)
    values = tuple(moving_average(_accuracy(runs, run), evaluations)[-1] for run in members)
    return Sample(title_of(runs, what), values, tuple(_ids(members)))


def _accuracy(runs: RunSet, run: PlannedRun) -> list[float]:
    return runs.record(run).metrics["accuracy"]


def _second_half(runs: RunSet, group: str, metric: str) -> dict[str, np.ndarray]:
    """Return a metric over the second half of the rounds, by run id."""
    found = {run.id: runs.record(run).metrics[metric] for run in _members(runs, group)}
    return {run: np.array(values[len(values) // 2 :]) for run, values in found.items()}


# Tables I and II


def leads_at_every_number(
    runs: RunSet, *, what: Sequence[str], over: Sequence[str], clients: Sequence[int]
) -> Finding:
    """At each number of clients a round, one method is above all methods of the other groups."""
    members = _members(runs, *what, *over)
    means: dict[int, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for run in members:
        count: int = getattr(run.spec.algorithm, "participants", 0)
        method = "" if run.group in what else run.spec.algorithm.name
        means[count][method].append(max(_accuracy(runs, run)))
    lead = {}
    for count in clients:
        by_method = {name: float(np.mean(values)) for name, values in means[count].items()}
        lead[count] = by_method.pop("") - max(by_method.values())
    evidence = "ahead by " + ", ".join(f"{k}: {in_points(v)}" for k, v in lead.items())
    return Finding(min(lead.values()) > 0, evidence, _ids(members), min(lead.values()))


def no_slower(runs: RunSet, *, what: str, than: str, percents: Sequence[int]) -> Finding:
    """Accuracies are reached in no later round, in the mean over the seeds."""
    rounds = {
        group: [
            float(np.mean([rounds_to(runs, run, percent / 100) for run in _members(runs, group)]))
            for percent in percents
        ]
        for group in (than, what)
    }
    evidence = "; ".join(
        f"{title_of(runs, group)}: "
        + ", ".join(f"{p} % after {t:g}" for p, t in zip(percents, found, strict=True))
        for group, found in rounds.items()
    )
    holds = all(b >= a for a, b in zip(rounds[what], rounds[than], strict=True))
    return Finding(holds, evidence, _ids(_members(runs, than, what)))


# Figure 8


def steadier(runs: RunSet, *, what: str, than: str) -> Finding:
    """From one evaluation to the next accuracy moves less, in the second half of the rounds."""
    steps = {}
    for group in (than, what):
        halves = _second_half(runs, group, "accuracy").values()
        steps[group] = float(np.mean([np.abs(np.diff(half)).mean() for half in halves]))
    evidence = ", ".join(f"{title_of(runs, g)} {in_points(v)} a step" for g, v in steps.items())
    return Finding(steps[what] < steps[than], evidence, _ids(_members(runs, than, what)))


def local_data_are_served_better(runs: RunSet, *, what: str, than: str) -> Finding:
    """On the participants' own data a model is better, and more even, in the second half."""
    means, spreads = (
        {
            group: float(np.mean([v.mean() for v in _second_half(runs, group, metric).values()]))
            for group in (than, what)
        }
        for metric in ("local_accuracy", "local_accuracy_sd")
    )
    evidence = "; ".join(
        f"{title_of(runs, group)}: mean {in_percent(means[group])}, standard deviation "
        f"{in_points(spreads[group])}"
        for group in means
    )
    better = means[what] > means[than] and spreads[what] < spreads[than]
    used = _ids(_members(runs, than, what))
    return Finding(better, evidence, used, means[what] - means[than])


# Figure 5, and what the clustering rests on


def _rows(runs: RunSet, group: str) -> tuple[list[tuple[np.ndarray, np.ndarray]], list[str]]:
    """Return each client's row changes, [classes, 3], and which classes it holds, of all runs."""
    clients, used = [], []
    for run in _members(runs, group):
        if run.coordinates.get("warm_up", 0):
            continue
        record = runs.record(run)
        used.append(run.id)
        for rows, counts in zip(record.final["rows"], record.partition.counts, strict=True):
            clients.append((np.array(rows), np.array(counts) > 0))
    return clients, used


def only_the_own_row_rises(runs: RunSet, *, group: str) -> Finding:
    """Proposition III.1: no entry of the class's row falls, none of the others rises."""
    clients, used = _rows(runs, group)
    held = [bool((rows[own, 0] >= 0).all() and (rows[~own, 2] <= 0).all()) for rows, own in clients]
    evidence = f"true of {sum(held)} of {len(held)} clients of one class"
    return Finding(all(held), evidence, used, float(np.mean(held)))


def rising_rows_are_the_labels(runs: RunSet, *, groups: Sequence[str]) -> Finding:
    """Observation III.2: a row has a rising entry if and only if the client holds its class."""
    parts, used = {}, []
    for group in groups:
        clients, ids = _rows(runs, group)
        parts[group] = [bool(((rows[:, 2] > 0) == own).all()) for rows, own in clients]
        used += ids
    evidence = "labels read off correctly: " + ", ".join(
        f"{sum(right)} of {len(right)} ({title_of(runs, group)})" for group, right in parts.items()
    )
    share = float(np.mean(np.concatenate(list(parts.values()))))
    return Finding(all(map(all, parts.values())), evidence, used, share)


def recovers_clusters(
    runs: RunSet, *, group: str, vector: str, threshold: float, warm_up: int
) -> Finding:
    """The cosines of all clients' vectors, cut at a threshold, give the true clusters."""
    place = THRESHOLDS.index(threshold)
    members = [run for run in _members(runs, group) if run.coordinates["warm_up"] == warm_up]
    found = [runs.record(run).final["vectors"][vector]["all"] for run in members]
    wrong = [each["wrong_pairs"][place] for each in found]
    evidence = "clusters: " + ", ".join(f"{each['clusters'][place]:.0f}" for each in found)
    evidence += "; pairs wrong: " + ", ".join(map(in_percent, wrong))
    return Finding(max(wrong) == 0, evidence, _ids(members), float(np.mean(wrong)))


def the_code_merges_all(runs: RunSet, *, group: str, vector: str) -> Finding:
    """With the code's rescaling, the cosines of fresh clients make one cluster at any threshold."""
    _members(runs, group)
    found = separations(runs)
    found = found[
        (found["warm_up"] == 0)
        & (found["vector"] == vector)
        & found["what"].str.startswith("clusters as run")
    ]
    numbers = found.groupby("what", sort=False)["value"].mean()
    evidence = ", ".join(f"{what}: {number:g}" for what, number in numbers.items())
    return Finding(bool((numbers == 1).all()), evidence, sorted(set(found["run"])))


def cosines_run_towards_one(runs: RunSet, *, group: str, vector: str, above: float) -> Finding:
    """Section III.B.2: the cosines of pairs of other labels, too, are above a bound in the mean."""
    _members(runs, group)
    found = separations(runs)
    other = found[found["what"] == "other labels"].groupby("vector")["value"].mean()
    evidence = "mean cosine of clients of other labels: " + ", ".join(
        f"{str(name).replace('_', ' ')} {value:.3f}" for name, value in other.items()
    )
    ours = float(other[vector])
    return Finding(ours > above, evidence, sorted(set(found["run"])), ours)


# Transitive learning, and the clusters of whole runs


def errs_less(runs: RunSet, *, what: str, than: str) -> Finding:
    """The error of the similarities, mean over the rounds, is smaller."""
    errors = {
        group: float(
            np.mean(
                [np.mean(runs.record(r).metrics["similarity_error"]) for r in _members(runs, group)]
            )
        )
        for group in (what, than)
    }
    evidence = ", ".join(f"{title_of(runs, group)} {value:.4f}" for group, value in errors.items())
    gain = errors[than] - errors[what]
    return Finding(gain > 0, evidence, _ids(_members(runs, what, than)), gain)


def pairs_are_known_when_all_are_seen(runs: RunSet, *, group: str, percent: float) -> Finding:
    """Theorem III.4: when all clients are expected to be seen, a share of the pairs is known."""
    members = _members(runs, group)
    shares, after = [], 0
    for run in members:
        participants: int = getattr(run.spec.algorithm, "participants", 0)
        known = runs.record(run).metrics["pairs_known"]
        clients = len(runs.record(run).partition.counts)
        after = min(round(rounds_to_see_all(clients, participants)), len(known))
        shares.append(known[after - 1])
    evidence = f"pairs known after {after} rounds: " + ", ".join(map(in_percent, shares))
    return Finding(min(shares) >= percent / 100, evidence, _ids(members), float(np.mean(shares)))


def pairs_wrong(runs: RunSet, *, group: str, above: float = -1, at_most: float = 100) -> Finding:
    """After the last round each run's clusters are wrong on a share of the pairs, in percent."""
    members = _members(runs, group)
    metrics = [runs.record(run).metrics for run in members]
    wrong = [found["wrong_pairs"][-1] for found in metrics]
    evidence = ", ".join(
        f"{in_percent(share)} of the pairs wrong, {found['clusters'][-1]:.1f} clusters"
        for share, found in zip(wrong, metrics, strict=True)
    )
    holds = min(wrong) > above / 100 and max(wrong) <= at_most / 100
    return Finding(holds, evidence, _ids(members), float(np.mean(wrong)))


# Figure 10


def threshold_matters_more(runs: RunSet, *, group: str) -> Finding:
    """The best accuracy varies more over the thresholds than over the weights of distillation."""
    members = _members(runs, group)
    seeds = defaultdict(list)
    for run in members:
        point = run.coordinates["distillation"], run.coordinates["threshold"]
        seeds[point].append(max(_accuracy(runs, run)))
    means = {point: float(np.mean(values)) for point, values in seeds.items()}
    lams, taus = ({point[axis] for point in means} for axis in (0, 1))
    by_tau = [float(np.mean([means[lam, tau] for lam in lams])) for tau in taus]
    by_lam = [float(np.mean([means[lam, tau] for tau in taus])) for lam in lams]
    over_tau, over_lam = float(np.ptp(by_tau)), float(np.ptp(by_lam))
    evidence = f"range over tau {in_points(over_tau)}, over lambda {in_points(over_lam)}"
    return Finding(over_tau > over_lam, evidence, _ids(members))


# What the authors' code does


def fedfa_is_lost(runs: RunSet, *, group: str) -> Finding:
    """FedFA as run ends with every image in class 0: that class's share of the test images."""
    members = _members(runs, group)
    info = describe(members[0].spec.dataset.name)
    share = info.test_per_class[0] / info.test
    rounds, final = [], []
    for run in members:
        metrics = runs.record(run).metrics
        lost = [t + 1 for t, finite in enumerate(metrics["finite"]) if finite == 0]
        rounds.append(lost[0] if lost else None)
        final.append(metrics["accuracy"][-1])
    evidence = ", ".join(
        f"{f'not a number from round {t}' if t else 'never lost'}, accuracy {in_percent(value)}"
        for t, value in zip(rounds, final, strict=True)
    )
    holds = None not in rounds and all(abs(value - share) < ROUNDED for value in final)
    return Finding(holds, evidence, _ids(members))


def feddyn_oscillates(runs: RunSet, *, group: str, percent: float) -> Finding:
    """FedDyn as run: its weights swing with the period of the recursion, within ``percent``.

    With rho = K / N the recursion's period is ``2 pi / arccos((1 + rho) / 2)`` rounds, and that of
    the weights' norm is half of it.
    """
    members, periods, expected = _members(runs, group), [], float("nan")
    for run in members:
        record = runs.record(run)
        share = getattr(run.spec.algorithm, "participants", 1) / len(record.partition.counts)
        expected = np.pi / np.arccos((1 + share) / 2)
        norm = np.array(record.metrics["norm"])
        power = np.abs(np.fft.rfft(norm - norm.mean(), 8 * len(norm)))
        periods.append(8 * len(norm) / float(power.argmax()))
    evidence = f"period of the norm {', '.join(f'{p:.2f}' for p in periods)} rounds; recursion "
    evidence += f"{expected:.2f}"
    holds = all(abs(period / expected - 1) <= percent / 100 for period in periods)
    return Finding(holds, evidence, _ids(members), periods[0])


# The partitions: the text against the authors' lists


def cluster_sizes(runs: RunSet, *, group: str, sizes: Sequence[int]) -> Finding:
    """Section V.A: MC has clusters of so many clients, of unequal amounts."""
    run = _members(runs, group)[0]
    counts = np.array(runs.record(run).partition.counts)
    held, totals = counts > 0, counts.sum(axis=1)
    found = sorted({tuple(row): int((held == row).all(axis=1).sum()) for row in held}.values())
    equal = totals.min() == totals.max()
    evidence = f"clusters of {found[::-1]} clients, {'equal' if equal else 'unequal'} amounts"
    return Finding(found[::-1] == list(sizes) and not equal, evidence, [run.id])


def main_cluster_share(runs: RunSet, *, groups: Sequence[str], percent: float) -> Finding:
    """Section V.C: the single cluster of BC and UC holds a share of the clients."""
    shares, used = {}, []
    for group in groups:
        run = _members(runs, group)[0]
        facts = partition_facts(runs.record(run).partition.counts)
        shares[title_of(runs, group)] = facts["largest cluster"] / facts["clients"]
        used.append(run.id)
    evidence = ", ".join(f"{name}: {in_percent(share)}" for name, share in shares.items())
    holds = all(abs(share - percent / 100) < SLACK for share in shares.values())
    return Finding(holds, evidence, used)


# PILL: the images are private, synthetic pills stand in for them


def _ends(runs: RunSet, group: str) -> tuple[list[list[list[int]]], list[str]]:
    """Return the clusters that each run ends with, and the run ids."""
    members, ends = _members(runs, group), []
    for run in members:
        names = runs.record(run).final["cluster_of"]
        ends.append(
            [[i for i, own in enumerate(names) if own == name] for name in sorted({*names})]
        )
    return ends, _ids(members)


def groups_are_parted(runs: RunSet, *, group: str) -> Finding:
    """No final cluster holds clients of the diabetes group and others."""
    ends, used = _ends(runs, group)
    mixed = [
        cluster for end in ends for cluster in end if len({i in DIABETES for i in cluster}) > 1
    ]
    return Finding(not mixed, f"clusters {'; '.join(map(str, ends))}", used)


def groups_are_found(runs: RunSet, *, group: str) -> Finding:
    """The final clusters are the diabetes group and the others."""
    ends, used = _ends(runs, group)
    others = [i for i in range(len(COUNTS)) if i not in DIABETES]
    holds = all(end == [[*DIABETES], others] for end in ends)
    return Finding(holds, f"clusters {'; '.join(map(str, ends))}", used)


# The paper's own numbers


def gains_follow_from_table1(runs: RunSet, *, points: float) -> Finding:
    """Impr. (a) and (b) are CADIS's relative gains from Table I, to the digit printed."""
    cells = published(runs.paper, "table1") | _private()
    worst, rows = 0.0, sorted({row for row, column in cells if column == OVER_FEDAVG})
    for row in rows:
        leader = max(cells[row, name] for name in BASELINES)
        for column, other in ((OVER_FEDAVG, cells[row, "FedAvg"]), (OVER_BEST, leader)):
            gain = cells[row, "CADIS"] / other - 1
            worst = max(worst, abs(gain - cells[row, column]))
    evidence = f"largest difference {in_points(worst)} over {len(rows)} rows"
    return Finding(worst <= points / 100 + SLACK, evidence, [], worst)


def _private() -> dict[tuple[str, str], float]:
    """Return the published cells that cannot be re-created, by row and column of Table I."""
    cells = {}
    for item in load_expected("cadis").not_reproducible:
        row, _, _ = item.where.removeprefix("Table I, ").rpartition(", ")
        if item.where.startswith("Table I, PILL"):
            cells[row, str(item.cell[0])] = item.published
    return cells


def largest_gain(runs: RunSet, *, percent: float, points: float) -> Finding:
    """The abstract's largest gain over FedAvg is that of Table I."""
    cells = published(runs.paper, "table1") | _private()
    largest = max(value for (_, column), value in cells.items() if column == OVER_FEDAVG)
    evidence = f"text {percent:g} %; largest in Table I {in_percent(largest)}"
    holds = abs(largest - percent / 100) <= points / 100 + SLACK
    return Finding(holds, evidence, [], largest)


def is_placed(runs: RunSet, *, place: int) -> Finding:
    """Section V.C.2: in every column of Table III CADIS is at such a place or a better one."""
    cells = published(runs.paper, "table3")
    places = {}
    for column in sorted({column for _, column in cells}):
        ahead = sum(cells[name, column] > cells["CADIS", column] for name in BASELINES)
        places[column] = ahead + 1
    evidence = ", ".join(f"{column}: place {number}" for column, number in places.items())
    return Finding(max(places.values()) <= place, evidence, [], max(places.values()))


def central_is_plausible(runs: RunSet, *, dataset: str) -> Finding:
    """Central training on fewer and more skewed images (PA) reaches no more."""
    cells = published(runs.paper, "table3")
    values = {kind: cells[SINGLESET, f"{dataset} {kind}"] for kind in KINDS}
    evidence = ", ".join(f"{kind} {in_percent(value)}" for kind, value in values.items())
    return Finding(values["PA"] <= max(values["BC"], values["UC"]), evidence, [], values["PA"])


CLAIMS: dict[str, Rule] = {
    "leads": leads(best),
    "near": near(best),
    "leads_late": leads(late),
    **{
        rule.__name__: rule
        for rule in (
            leads_at_every_number,
            no_slower,
            steadier,
            local_data_are_served_better,
            only_the_own_row_rises,
            rising_rows_are_the_labels,
            recovers_clusters,
            the_code_merges_all,
            cosines_run_towards_one,
            errs_less,
            pairs_are_known_when_all_are_seen,
            pairs_wrong,
            threshold_matters_more,
            fedfa_is_lost,
            feddyn_oscillates,
            cluster_sizes,
            main_cluster_share,
            groups_are_parted,
            groups_are_found,
            gains_follow_from_table1,
            largest_gain,
            is_placed,
            central_is_plausible,
        )
    },
}
