"""Made-up records of the paper `fedcd`, for tests of its tables, figures and claims."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from made_up import content

from fedrepro.fl.partition.archetypes import Hypergeometric, archetype_of
from fedrepro.report.expected import load_expected
from fedrepro.runs.plan import PlannedRun

HYPER_FEDCD = (0.95, 0.7, 0.4, 0.4, 0.7, 0.995)
HYPER_FEDAVG = (0.5, 0.5, 0.6, 0.6, 0.5, 0.5)
CALM_FROM = {"hier_fedcd": 35, "hyper_fedcd": 44}


@dataclass(frozen=True)
class World:
    """What the made-up runs found; the default is what the paper claims.

    Attributes:
        level: (group, archetype) -> accuracy at the end.
        group_level: group -> accuracy at the end, of all its archetypes.
        early: half the change of FedCD in the first eight rounds.
        together: archetypes of a meta-archetype swing together early.
        calm_from: group -> round from which FedCD's change is below a point, or None.
        rough: half the change of FedCD before it is calm.
        fedavg_swing: half the change of FedAvg.
        fedavg_calm_from: round from which FedAvg changes no more.
        fedavg_blip: round in which it changes once again.
        centre_swing: the same of the central hypergeometric archetypes.
        climb: accuracy that FedCD gains in a late round.
        climb_at: that round.
        shared_from: round from which devices of the second meta-archetype prefer model 0, too.
        strays: how many, the last ones.
        hoard: models that device 0 has in the end.
        quiet: nothing is cloned after the first milestone.
        singles: bias -> devices of ten with a single model in the end.
        united: bias -> archetypes of ten whose devices all prefer one model.
        gap: difference of two scores in the end.
        cost: models that a device trains after the first milestone.
        six_extra: models that the 18 devices have too many.
        one_model_swing: half the change of the 18 devices under FedAvg.
        off_the_log: what the 30 devices as run have more than the public log.
        mirrored: the last of their archetypes has the first one's public log, and so on.
        named: models that devices of each meta-archetype prefer from round 31 on: every third
            device the last, the others the rest in turn, by archetype; None: as at first.
        settled: they no longer take turns.
    """

    paper: ClassVar[str] = "fedcd"
    level: dict[tuple[str, int], float] = field(default_factory=dict)
    group_level: dict[str, float] = field(default_factory=dict)
    early: float = 0.2
    together: bool = True
    calm_from: dict[str, int | None] = field(default_factory=dict)
    rough: float = 0.015
    fedavg_swing: float = 0.1
    fedavg_calm_from: int = 1000
    fedavg_blip: int = 1000
    centre_swing: float = 0.02
    climb: float = 0.0
    climb_at: int = 40
    shared_from: int = 1000
    strays: int = 2
    hoard: int = 2
    quiet: bool = False
    singles: dict[float, int] = field(default_factory=dict)
    united: dict[float, int] = field(default_factory=dict)
    gap: float = 0.04
    cost: dict[str, float] = field(default_factory=dict)
    six_extra: int = 0
    one_model_swing: float = 0.2
    off_the_log: float = 0.0
    mirrored: bool = False
    named: tuple[tuple[int, ...], tuple[int, ...]] | None = ((0, 1, 8), (4, 5, 9))
    settled: bool = False

    def record(self, run: PlannedRun) -> dict[str, Any]:
        """Return the content of a run's record."""
        spec, devices = run.spec, run.spec.partition.clients
        rounds, tested = spec.rounds, spec.partition.test
        archetypes = archetypes_of(run)
        archetype = [archetype_of(device, devices, archetypes) for device in range(devices)]
        correct = []
        for t in range(rounds):
            each = [round(tested * self._accuracy(run, t, a)) for a in range(archetypes)]
            correct.append([each[a] for a in archetype])
        fedcd = bool(spec.algorithm.milestones)
        drawn = float(spec.algorithm.participants)
        first = min(spec.algorithm.milestones, default=rounds)
        cost = ({"hier_fedcd": 5.5} | self.cost).get(run.group, 2.0)
        trained = [drawn if t <= first else drawn * cost for t in range(rounds)]
        final: dict[str, Any] = {"accuracy": 0.5, "tested": [tested] * devices, "correct": correct}
        if fedcd:
            held = [[self._held(run, t, i) for i in range(devices)] for t in range(rounds)]
            final["active"] = [[sum(1 << m for m in models) for models in row] for row in held]
            final["preferred"] = [
                [self._preferred(run, t, i, models) for i, models in enumerate(row)]
                for t, row in enumerate(held)
            ]
            final["scores"] = [
                [self._scores(run, t, models) for models in row] for t, row in enumerate(held)
            ]
        per_model = spec.local_epochs * spec.partition.train
        metrics = {
            "evaluated_rounds": [float(t + 1) for t in range(rounds)],
            "accuracy": [float(np.mean(row)) / tested for row in correct],
            "trained_models": trained,
            "sent_models": [2 * value for value in trained],
            "sample_passes": [value * per_model for value in trained],
        }
        partition = {"counts": self._counts(run), "sha256": "0" * 64}
        return content(run, metrics=metrics, final=final, partition=partition)

    def _accuracy(self, run: PlannedRun, t: int, a: int) -> float:
        archetypes = archetypes_of(run)
        meta = int(2 * a >= archetypes)
        sign = (-1) ** t * (1 if meta or "hyper" in run.group else -1)
        if run.group == "hier_as_run":
            a = archetypes - 1 - a if self.mirrored else a
            return public(f"ref.arch{a}", t) + self.off_the_log
        if run.group == "six_fedavg_as_run":
            return 0.45 + (-1) ** t * self.one_model_swing
        if run.group == "nine_as_run":
            return public("nine.accuracy", t)
        level = self._level(run.group, a, meta)
        if not run.spec.algorithm.milestones:
            calm = self.fedavg_calm_from <= t != self.fedavg_blip
            swing = 0 if calm else self.fedavg_swing
            if "hyper" in run.group and a in (2, 3):
                swing = self.centre_swing
            return level + sign * swing
        if t < 8:
            early = self.early * (sign if self.together else (-1) ** (t + a))
            return level / 2 + early * level
        calm_from = (CALM_FROM | self.calm_from).get(run.group, 35)
        wobble = self.rough if calm_from is None or t < calm_from else 0.004
        return level - wobble + (-1) ** t * wobble - (self.climb if t < self.climb_at else 0)

    def _level(self, group: str, a: int, meta: int) -> float:
        default = (0.6, 0.6) if "fedavg" in group else (0.89, 0.94)
        level = default[meta]
        if group in ("hyper_fedcd", "hyper_fedavg"):
            level = (HYPER_FEDCD if group == "hyper_fedcd" else HYPER_FEDAVG)[a]
        return self.level.get((group, a), self.group_level.get(group, level))

    def _held(self, run: PlannedRun, t: int, device: int) -> list[int]:
        devices = run.spec.partition.clients
        meta = int(2 * device >= devices)
        since = [t - m for m in run.spec.algorithm.milestones if m < t]
        if not since:
            return [0]
        if len(since) == 1:
            return [0, 1]
        models = [meta, meta + (4 if device % 2 else 8) * (len(since) > 2) + 2 * (len(since) == 2)]
        if self.hoard > 2 and device == 0 and t >= 40:
            return list(range(self.hoard))
        if "six" in run.group:
            models += [meta + 10] * (device < self.six_extra)
        elif t >= 20 and device % 10 < self._singles(run):
            models = models[:1] if device % 4 < 2 else models[1:]
        share = {
            (2, 1): 1,
            (2, 2): 2,
            (3, 1): 2,
            (4, 1): 4,
        }  # of the devices that have a third model
        every = share.get((len(since), since[-1]))
        if every and device % every == every - 1 and not self.quiet:
            return sorted([*models, meta + 12])
        return models

    def _singles(self, run: PlannedRun) -> int:
        bias = getattr(run.spec.partition, "bias", None) or 0.65
        return self.singles.get(bias, int(10 * bias) - 2)

    def _preferred(self, run: PlannedRun, t: int, device: int, models: list[int]) -> int:
        if t >= self.shared_from and device >= run.spec.partition.clients - self.strays:
            return 0
        meta = int(2 * device >= run.spec.partition.clients)
        own = archetype_of(device, run.spec.partition.clients, archetypes_of(run))
        bias = getattr(run.spec.partition, "bias", None) or 0.65
        united = 3 * own % 10 < self.united.get(bias, int(10 * bias))
        if self.named and run.group == "hier_fedcd" and t >= 31:
            *most, rest = self.named[meta]
            return (
                rest
                if device % 3 == 2 and not united
                else most[(own + (0 if self.settled else t)) % len(most)]
            )
        if len(models) == 2 and models == [0, 1]:
            return meta
        lasting = [m for m in models if m < 10]
        if united and run.group in ("hier_fedcd", "fedcd_bias"):
            return meta
        return lasting[0] if device % 4 < 2 else lasting[1 % len(lasting)]

    def _scores(self, run: PlannedRun, t: int, models: list[int]) -> list[int]:
        if len(models) == 1:
            return [1000]
        if len(models) == 2:
            late = sum(m < t for m in run.spec.algorithm.milestones) > 1
            gap = self.gap if late else 0.56
            return [round(500 + 500 * gap), round(500 - 500 * gap)]
        rest = 1000 // len(models)
        return [1000 - (len(models) - 1) * rest + 150, *[rest] * (len(models) - 2), rest - 150]

    def _counts(self, run: PlannedRun) -> list[list[int]]:
        from scipy import stats  # slow to import

        partition = run.spec.partition
        devices, rows = partition.clients, []
        for device in range(devices):
            if isinstance(partition, Hypergeometric):
                k = partition.successes[archetype_of(device, devices, len(partition.successes))]
                shares = stats.hypergeom(partition.population, k, partition.draws).pmf(
                    np.arange(10)
                )
            else:
                shares = np.full(10, 0.04)
                shares[archetype_of(device, devices, partition.archetypes)] = 0.64
            rows.append([int(count) for count in np.round(partition.train * shares)])
        return rows


def archetypes_of(run: PlannedRun) -> int:
    """Return how many archetypes a run has."""
    partition = run.spec.partition
    if isinstance(partition, Hypergeometric):
        return len(partition.successes)
    return partition.archetypes


@functools.cache
def public(series: str, t: int) -> float:
    """Return a value of a public log, between its rounds and beyond them by interpolation."""
    found = next(item for item in load_expected("fedcd").series if item.id == series)
    return float(np.interp(t, found.x, found.published))
