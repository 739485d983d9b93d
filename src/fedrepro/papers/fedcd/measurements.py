"""Kopparapu, Lin, Zhao 2020: what the paper shows of a run, and its table.

Rounds are counted from 0, as the paper's milestones are: round 5 is the sixth. A device's accuracy
is that of the model it scores highest, on its own test images. "Change" is the size of the step of
a device's accuracy from one round to the next, averaged over the devices (Figs 2 and 5).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedrepro.fl.algorithms.fedcd import SCORE_UNIT, Params
from fedrepro.fl.data import describe
from fedrepro.fl.partition.archetypes import Hierarchical, Hypergeometric, archetype_of
from fedrepro.fl.spec import RunSpec
from fedrepro.report.stats import summarise
from fedrepro.runs.plan import PlannedRun
from fedrepro.runs.runset import RunSet

HIER_FEDCD, HIER_FEDAVG = "hier_fedcd", "hier_fedavg"
HYPER_FEDCD, HYPER_FEDAVG = "hyper_fedcd", "hyper_fedavg"
BITS, FEDCD_FLOAT32, FEDAVG_FLOAT32 = "fedcd_bits", "fedcd_float32", "fedavg_float32"
BIAS = "fedcd_bias"
HIER_AS_RUN, SIX_AS_RUN = "hier_as_run", "six_as_run"
SIX_FEDAVG_AS_RUN, NINE_AS_RUN = "six_fedavg_as_run", "nine_as_run"
"""Groups of runs by their names in the plan."""

EXPERIMENTS = {
    "Hypergeometric": (HYPER_FEDCD, HYPER_FEDAVG),
    "Hierarchical": (HIER_FEDCD, HIER_FEDAVG),
}
"""Rows of Table 1: FedCD and FedAvg of each experiment."""

LATE = (35, 45)
"""First round, and the one behind the last, of the ten whose mean is the accuracy at the end."""

CALM, WINDOW = 0.02, 5
"""Converged: the mean change of five rounds stays below two points."""

FLOAT_BYTES = 4
"""Bytes of a number that is not quantised."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Log:
    """What a run recorded, unpacked.

    Attributes:
        run: the planned run.
        accuracy: fractions, float64 [rounds, devices].
        archetype: of every device, int [devices].
        active: models of every device after every round; empty without milestones.
        preferred: the model with the highest score, as ``active``.
        scores: of the active models in ascending order, fractions, as ``active``.
        passes: images trained on in every round.
        trained: device and model pairs trained in every round.
        sent: models that devices downloaded in every round.
    """

    run: PlannedRun
    accuracy: Floats
    archetype: NDArray[np.int64]
    active: list[list[list[int]]]
    preferred: list[list[int]]
    scores: list[list[list[float]]]
    passes: Floats
    trained: Floats
    sent: Floats

    @property
    def change(self) -> Floats:
        """Mean change over the devices, fractions, [rounds - 1]; entry 0 is round 1."""
        steps: Floats = np.abs(np.diff(self.accuracy, axis=0)).mean(axis=1)
        return steps

    @property
    def by_archetype(self) -> Floats:
        """Mean accuracy of each archetype's devices, [rounds, archetypes]."""
        return np.stack(
            [
                self.accuracy[:, self.archetype == a].mean(axis=1)
                for a in range(int(self.archetype.max()) + 1)
            ],
            axis=1,
        )

    @property
    def active_models(self) -> list[int]:
        """Active models of all devices together, in every round."""
        return [sum(len(models) for models in devices) for devices in self.active]

    @property
    def live_models(self) -> list[int]:
        """Models that some device has, in every round."""
        return [len({m for models in devices for m in models}) for devices in self.active]

    @property
    def given(self) -> list[list[set[int]]]:
        """Models of every device as each round begins, clones of the last milestone included.

        A clone of model m is model M + m, where M models have been created so far. This is cloning
        by accuracies: every model that a device has is cloned.
        """
        count, before = 1, [[0] for _ in self.archetype]
        given = []
        for t, after in enumerate(self.active):
            held = [set(models) for models in before]
            if t - 1 in milestones(self.run.spec):
                held = [models | {count + m for m in models} for models in held]
                count *= 2
            given.append(held)
            before = after
        return given

    @property
    def deletions(self) -> list[tuple[int, int, int]]:
        """Who deleted what when: round, device and model, in this order."""
        return [
            (t, device, model)
            for t, (before, after) in enumerate(zip(self.given, self.active, strict=True))
            for device, (had, has) in enumerate(zip(before, after, strict=True))
            for model in sorted(had - set(has))
        ]

    def holders(self, model: int, archetypes: Iterable[int]) -> list[int]:
        """Return how many devices of some archetypes have a model, in every round."""
        wanted = np.flatnonzero(np.isin(self.archetype, list(archetypes)))
        return [sum(model in devices[i] for i in wanted) for devices in self.active]

    @property
    def spread(self) -> list[float]:
        """Mean over the devices of the sample deviation of their scores; 0 for a single one."""
        return [
            float(np.mean([np.std(s, ddof=1) if len(s) > 1 else 0.0 for s in devices]))
            for devices in self.scores
        ]

    @property
    def consensus(self) -> list[list[int]]:
        """Model that most devices of each archetype prefer, round by round; of equals the lowest.

        What a device prefers is a model it has, so some device still holds it.
        """
        return [
            [
                int(np.argmax(np.bincount(np.array(devices)[self.archetype == a])))
                for a in range(int(self.archetype.max()) + 1)
            ]
            for devices in self.preferred
        ]

    def preferred_by(self, archetypes: Iterable[int], rounds: Iterable[int]) -> set[int]:
        """Return the models that devices of some archetypes prefer in any of some rounds."""
        wanted = np.isin(self.archetype, list(archetypes))
        return {
            model
            for t in rounds
            for model, theirs in zip(self.preferred[t], wanted, strict=True)
            if theirs
        }


def log_of(runs: RunSet, run: PlannedRun) -> Log:
    """Unpack a run's record."""
    record = runs.record(run)
    final: dict[str, Any] = record.final
    devices = len(final["tested"])
    archetypes = archetypes_of(run.spec)
    return Log(
        run=run,
        accuracy=np.array(final["correct"]) / np.array(final["tested"]),
        archetype=np.array([archetype_of(i, devices, archetypes) for i in range(devices)]),
        active=[[_bits(mask) for mask in masks] for masks in final.get("active", [])],
        preferred=final.get("preferred", []),
        scores=[
            [[c / SCORE_UNIT for c in scores] for scores in devices]
            for devices in final.get("scores", [])
        ],
        passes=np.array(record.metrics["sample_passes"]),
        trained=np.array(record.metrics["trained_models"]),
        sent=np.array(record.metrics["sent_models"]),
    )


def logs(runs: RunSet, *groups: str) -> list[Log]:
    """Unpack the records of groups of runs, in plan order."""
    return [log_of(runs, run) for run in runs.members(groups)]


def _bits(mask: int) -> list[int]:
    return [m for m in range(mask.bit_length()) if mask >> m & 1]


def archetypes_of(spec: RunSpec) -> int:
    """Return the number of archetypes of a run's partition."""
    partition = spec.partition
    if isinstance(partition, Hierarchical):
        return partition.archetypes
    assert isinstance(partition, Hypergeometric)
    return len(partition.successes)


def meta_archetype(spec: RunSpec, archetype: int) -> int:
    """Return the meta-archetype of an archetype; 0 where there are none."""
    partition = spec.partition
    if not isinstance(partition, Hierarchical):
        return 0
    return archetype * partition.meta_archetypes // partition.archetypes


def members_of(spec: RunSpec, meta: int) -> list[int]:
    """Return the archetypes of a meta-archetype."""
    return [a for a in range(archetypes_of(spec)) if meta_archetype(spec, a) == meta]


def by_rising_bias(runs: RunSet) -> dict[str, list[Log]]:
    """Return the runs of Figs 8 and 9 by rising bias: its name -> one log a seed."""
    found: dict[tuple[float, str], list[Log]] = {}
    for log in logs(runs, HIER_FEDCD, BIAS):
        partition = log.run.spec.partition
        assert isinstance(partition, Hierarchical)
        low, high, one = partition.bias_low, partition.bias_high, partition.bias
        key = (
            ((low + high) / 2, f"b = {low:g} to {high:g}") if one is None else (one, f"b = {one:g}")
        )
        found.setdefault(key, []).append(log)
    return {name: found[level, name] for level, name in sorted(found)}


def late(rounds: int) -> slice:
    """Return the rounds whose mean is the accuracy at the end: 35 to 44, or the last ten."""
    first, behind = LATE
    return slice(first, behind) if rounds >= behind else slice(max(rounds - 10, 0), rounds)


def converged(change: Sequence[float] | Floats) -> int | None:
    """Return the round in which a run has converged, or None.

    The paper gives no criterion. Here: the first round at which, and at every later one of the run,
    the mean change of the last five rounds is below two points.

    Args:
        change: mean change, fractions; entry 0 is round 1.
    """
    if len(change) < WINDOW:
        return None
    means = np.convolve(change, np.full(WINDOW, 1 / WINDOW), mode="valid")  # entry 0: round 5
    restless = np.flatnonzero(means >= CALM)
    first = 0 if restless.size == 0 else int(restless[-1]) + 1
    return None if first == len(means) else first + WINDOW


def rounds_to_convergence(log: Log) -> int:
    """Return the round in which a run has converged, or its number of rounds (the cap)."""
    found = converged(log.change)
    return len(log.accuracy) if found is None else found


def majority_share(runs: RunSet, log: Log) -> Floats:
    """Return the share of the most frequent label of every archetype's devices, [archetypes].

    It is the accuracy of a model that knows nothing but the most frequent label of each device.
    """
    counts = np.array(runs.record(log.run).partition.counts)
    shares = counts.max(axis=1) / counts.sum(axis=1)
    return np.array([shares[log.archetype == a].mean() for a in range(log.archetype.max() + 1)])


def cells_of(rows: Iterable[dict[str, Any]], keys: tuple[str, str]) -> pd.DataFrame:
    """Summarise ``value`` over the seeds of each cell; columns beyond the summary's are kept.

    Args:
        rows: one a run and cell: the keys, ``value``, ``seed``, ``run``, and what else names the
            cell.
        keys: the two key columns.
    """
    table = pd.DataFrame(list(rows))
    others = [n for n in table.columns if n not in (*keys, "value", "seed", "run")]
    cells = summarise(table, "value", [*keys, *others])
    return cells[[*keys, *(n for n in cells.columns if n not in (*keys, *others)), *others]]


def _cell(
    log: Log, row: str, column: str, value: float, unit: str = "count", *others: Log
) -> dict[str, Any]:
    used = tuple(dict.fromkeys(item.run.id for item in (log, *others)))
    cell = {"row": row, "column": column, "value": float(value), "unit": unit}
    return cell | {"seed": log.run.seed, "run": used}


_ROW_AND_COLUMN = ("row", "column")


def _pairs(runs: RunSet, fedcd: str, fedavg: str) -> list[tuple[Log, Log]]:
    """Return FedCD and FedAvg of the same seed."""
    others = {log.run.seed: log for log in logs(runs, fedavg)}
    return [(log, others[log.run.seed]) for log in logs(runs, fedcd) if log.run.seed in others]


def passes_until(log: Log, t: int) -> float:
    """Return the images trained on in the rounds before round t."""
    return float(log.passes[:t].sum())


FEDCD_ROUNDS, FEDAVG_ROUNDS = "rounds, FedCD", "rounds, FedAvg"
FEDCD_CONVERGED, FEDAVG_CONVERGED = "FedCD converged", "FedAvg converged"
PASSES_RATIO, SECONDS_RATIO = "FedAvg : FedCD, sample passes", "FedAvg : FedCD, seconds"


def table1(runs: RunSet) -> pd.DataFrame:
    """Build Table 1: rounds to convergence, and what FedAvg costs beside FedCD until then.

    A run that does not converge counts with all its rounds, as FedAvg's "300*" does in the paper;
    ``FedCD converged`` and ``FedAvg converged`` are then 0, and 1 for a run that does. The cost is
    the number of sample passes, which no machine changes; beside it the seconds that the runs took,
    in proportion to the passes until convergence.
    """
    rows = []
    for experiment, groups in EXPERIMENTS.items():
        for fedcd, fedavg in _pairs(runs, *groups):
            met = [converged(log.change) is not None for log in (fedcd, fedavg)]
            ends = [rounds_to_convergence(log) for log in (fedcd, fedavg)]
            passes = [
                passes_until(log, end) for log, end in zip((fedcd, fedavg), ends, strict=True)
            ]
            seconds = [
                runs.record(log.run).provenance.seconds * part / log.passes.sum()
                for log, part in zip((fedcd, fedavg), passes, strict=True)
            ]
            rows += [
                _cell(fedcd, experiment, FEDCD_ROUNDS, ends[0]),
                _cell(fedcd, experiment, FEDCD_CONVERGED, met[0]),
                _cell(fedavg, experiment, FEDAVG_ROUNDS, ends[1]),
                _cell(fedavg, experiment, FEDAVG_CONVERGED, met[1]),
                _cell(fedcd, experiment, "million sample passes, FedCD", passes[0] / 1e6, "M"),
                _cell(fedavg, experiment, "million sample passes, FedAvg", passes[1] / 1e6, "M"),
                _cell(fedcd, experiment, PASSES_RATIO, passes[1] / passes[0], "ratio", fedavg),
                _cell(fedcd, experiment, "minutes, FedCD", seconds[0] / 60, "min"),
                _cell(fedavg, experiment, "minutes, FedAvg", seconds[1] / 60, "min"),
                _cell(fedcd, experiment, SECONDS_RATIO, seconds[1] / seconds[0], "ratio", fedavg),
            ]
    return cells_of(rows, _ROW_AND_COLUMN)


def accuracy(runs: RunSet) -> pd.DataFrame:
    """Show the accuracy at the end (mean of rounds 35 to 44) of every archetype."""
    rows = []
    for groups, name in itertools.product(EXPERIMENTS.values(), ("FedCD", "FedAvg")):
        for log in logs(runs, groups[name == "FedAvg"]):
            means = log.by_archetype[late(len(log.accuracy))].mean(axis=0)
            experiment = "hierarchical" if groups[0] == HIER_FEDCD else "hypergeometric"
            share = majority_share(runs, log)
            for a, value in enumerate(means):
                row = f"{experiment}, archetype {a}"
                rows.append(_cell(log, row, name, value, "fraction"))
                if experiment == "hypergeometric":
                    above = value - share[a]
                    column = f"{name}, above the majority label"
                    rows.append(_cell(log, row, column, above, "points"))
                    if name == "FedCD":
                        rows.append(_cell(log, row, "majority label", share[a], "fraction"))
            rows.append(_cell(log, f"{experiment}, all devices", name, means.mean(), "fraction"))
    return cells_of(rows, _ROW_AND_COLUMN)


CREATED, DELETED, LIVE = "models created", "deleted by all devices", "models left"
PREFERRED, MOST_ACTIVE = "models preferred at the end", "active models of a device, at most"
COUNTED_UNTIL = 45
"""Rounds of Figs 7 to 9, at whose end the paper counts models."""


def models(runs: RunSet) -> pd.DataFrame:
    """Count models after 45 rounds (sections 3.5 and 3.6)."""
    rows = []
    for log in logs(runs, HIER_FEDCD, HYPER_FEDCD, BIAS, HIER_AS_RUN, SIX_AS_RUN):
        end = min(COUNTED_UNTIL, len(log.active)) - 1
        created = 2 ** sum(m < end for m in milestones(log.run.spec))
        counts = {
            CREATED: created,
            DELETED: created - log.live_models[end],
            LIVE: log.live_models[end],
            PREFERRED: len(set(log.preferred[end])),
            MOST_ACTIVE: max(len(active) for active in log.active[end]),
        }
        name = runs.plan.runs[log.run.group].title
        point = ", ".join(f"b = {value:g}" for value in log.run.coordinates.values())
        row = f"{name}: {point}" if point else name
        rows += [_cell(log, row, column, value) for column, value in counts.items()]
    return cells_of(rows, _ROW_AND_COLUMN)


def lives(runs: RunSet) -> pd.DataFrame:
    """Tell what became of each model in 45 rounds: who had it, deleted it, preferred it.

    Of the first seed, as models of different runs are not the same. A model is born in the round
    after a milestone; a column is left empty where there is nothing to say.
    """
    log = logs(runs, HIER_FEDCD)[0]
    end = min(COUNTED_UNTIL, len(log.active)) - 1
    born: dict[int, int] = {}
    for t, devices in enumerate(log.given[: end + 1]):
        for model in sorted(set().union(*devices) - born.keys()):
            born[model] = t
    rows = []
    for model, t in born.items():
        gone = [when for when, _, which in log.deletions if which == model and when <= end]
        left = sum(model in models for models in log.active[end])
        life = {"first round": t, "devices at first": sum(model in had for had in log.given[t])}
        if model:
            life = {"clone of": model - 2 ** (model.bit_length() - 1)} | life
        if gone:
            life |= {"deletions": len(gone), "first deletion": min(gone)}
        if not left:
            life["deleted by all in round"] = max(gone)
        life["devices at the end"] = left
        life["devices that prefer it at the end"] = log.preferred[end].count(model)
        rows += [_cell(log, f"model {model}", column, value) for column, value in life.items()]
    return cells_of(rows, _ROW_AND_COLUMN)


def milestones(spec: RunSpec) -> tuple[int, ...]:
    """Return the rounds after which a run clones."""
    assert isinstance(spec.algorithm, Params)
    return spec.algorithm.milestones


@dataclass(frozen=True)
class ModelBytes:
    """Bytes of a model as a device sends it, quantised, and as it receives it, averaged."""

    up: float
    down: float


@functools.cache
def model_bytes(dataset: str, name: str, width: float, bits: int | None) -> ModelBytes:
    """Count the bytes of a model (section 3.6).

    Weights of convolutions and the linear layer, with its bias, take ``bits`` each on the way up;
    batch normalisation, and the scale of each quantised layer, a float32. The server's average is
    not on the grid any more, so all of it comes down as float32.
    """
    from torch import nn  # PyTorch is slow to import

    from fedrepro.fl import models as networks

    info = describe(dataset)
    net = networks.build(name, info.shape, info.classes, width)
    layers = [m for m in net.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    quantised = sum(p.numel() for layer in layers for p in layer.parameters())
    total = sum(p.numel() for p in net.parameters())
    total += sum(b.numel() for b in net.buffers() if b.is_floating_point())
    down = FLOAT_BYTES * total
    if bits is None:
        return ModelBytes(down, down)
    up = quantised * bits / 8 + FLOAT_BYTES * (total - quantised + len(layers))
    return ModelBytes(up, down)


def bytes_of(spec: RunSpec) -> ModelBytes:
    """Return the bytes of a run's model."""
    assert isinstance(spec.algorithm, Params)
    bits = spec.algorithm.quantise_bits
    return model_bytes(spec.dataset.name, spec.model.name, spec.model.width, bits)


def communication(runs: RunSet) -> pd.DataFrame:
    """Show what a round sends, all devices together, means over the first 45 rounds (section 3.6).

    A device that is drawn uploads its models; every device downloads those of its models that were
    averaged. Scores are left out: 4 bytes a model.
    """
    rows = []
    shown = (HIER_FEDCD, HIER_FEDAVG, HYPER_FEDCD, HYPER_FEDAVG)
    for log in logs(runs, *shown, BITS, FEDCD_FLOAT32, FEDAVG_FLOAT32):
        size, first = bytes_of(log.run.spec), slice(0, COUNTED_UNTIL)
        name = runs.plan.runs[log.run.group].title
        point = ", ".join(f"{value} bits" for value in log.run.coordinates.values())
        row = f"{name}: {point}" if point else name
        trained, sent = log.trained[first].mean(), log.sent[first].mean()
        rows += [
            _cell(log, row, "models up a round", trained, "ratio"),
            _cell(log, row, "models down a round", sent, "ratio"),
            _cell(log, row, "MB up a round", trained * size.up / 1e6, "MB"),
            _cell(log, row, "MB down a round", sent * size.down / 1e6, "MB"),
            _cell(
                log, row, "sample passes, thousands a round", log.passes[first].mean() / 1e3, "k"
            ),
        ]
    return cells_of(rows, _ROW_AND_COLUMN)


TABLES: dict[str, Callable[[RunSet], pd.DataFrame]] = {
    "table1": table1,
    "accuracy": accuracy,
    "models": models,
    "lives": lives,
    "communication": communication,
}
