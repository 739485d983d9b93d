"""Kopparapu, Lin, Zhao 2020: what the paper shows of a run, and its tables.

Rounds are counted from 0, as the paper's milestones are: round 5 is the sixth. A device's accuracy
is that of the model it scores highest, on its own test images. "Change" is the size of the step of
a device's accuracy from one round to the next, averaged over the devices (Figs 2 and 5).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ParamSpec, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedrepro.fl.algorithms.fedcd import SCORE_UNIT, Params
from fedrepro.fl.data import describe
from fedrepro.fl.partition.archetypes import Hierarchical, Hypergeometric, archetype_of
from fedrepro.fl.spec import RunSpec
from fedrepro.report.choices import by_labels, moved, of_records
from fedrepro.report.stats import summarise
from fedrepro.runs.plan import PlannedRun
from fedrepro.runs.records import RunRecord
from fedrepro.runs.runset import MissingRunsError, RunSet

EXPERIMENTS = HYPERGEOMETRIC, HIERARCHICAL = "Hypergeometric", "Hierarchical"
BITS, BIAS, DELETION = "bits", "bias", "deletion"
"""Hierarchical runs with other numbers of bits, other biases, and deletion by equation 4."""
NOTEBOOK, OF_18, OF_9 = "public notebook", "18 devices", "9 devices"
"""Set-ups of the public notebooks."""
FEDCD, FEDAVG = METHODS = "FedCD", "FedAvg"
"""Labels of the plan: experiments and methods."""

COUNTED_UNTIL = 45
"""Rounds of Figs 1 and 7 to 9, at whose end the paper counts models."""

FLOAT_BYTES = 4
"""Bytes of a number that is not quantised."""

Floats: TypeAlias = NDArray[np.float64]
Row: TypeAlias = dict[str, Any]
_P = ParamSpec("_P")


# What a run recorded


@dataclass(frozen=True)
class Log:
    """What a run recorded, unpacked.

    Attributes:
        run: the planned run.
        title: of its group, with its grid point.
        experiment: label of its group.
        method: label of its group.
        accuracy: fractions, float64 [rounds, devices].
        change: mean change over the devices, fractions, float64 [rounds]; round 0 has NaN.
        archetype: of every device, int [devices].
        metas: the meta-archetype of every archetype, int [archetypes].
        majority: share of the most frequent label of every archetype's devices, [archetypes]: the
            accuracy of a model that knows nothing but that label.
        active: models of every device after every round; empty without milestones.
        preferred: the model with the highest score, as ``active``.
        scores: of the active models in ascending order, fractions, as ``active``.
        passes: images trained on in every round.
        trained: device and model pairs trained in every round.
        sent: models that devices downloaded in every round.
    """

    run: PlannedRun
    title: str
    experiment: str
    method: str
    accuracy: Floats
    change: Floats
    archetype: NDArray[np.int64]
    metas: NDArray[np.int64]
    majority: Floats
    active: list[list[list[int]]]
    preferred: list[list[int]]
    scores: list[list[list[float]]]
    passes: Floats
    trained: Floats
    sent: Floats

    def cut(self, first: int, last: int | None = None) -> Log:
        """Return the rounds from ``first`` to ``last`` inclusive; None: to the end."""
        span = slice(first, None if last is None else last + 1)
        names = ("accuracy", "change", "active", "preferred", "scores", "passes", "trained", "sent")
        return replace(self, **{name: getattr(self, name)[span] for name in names})

    @property
    def by_archetype(self) -> Floats:
        """Mean accuracy of each archetype's devices, [rounds, archetypes]."""
        return by_archetype(self.accuracy, self.archetype)

    @property
    def active_models(self) -> list[int]:
        """Active models of all devices together, in every round."""
        return [sum(len(models) for models in devices) for devices in self.active]

    @property
    def live_models(self) -> list[int]:
        """Models that some device has, in every round."""
        return [len(set().union(*devices)) for devices in self.active]

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
            if t - 1 in params(self.run.spec).milestones:
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

    def holders(self, model: int, meta: int) -> list[int]:
        """Return how many devices of a meta-archetype have a model, in every round."""
        theirs = np.flatnonzero(self.metas[self.archetype] == meta)
        return [sum(model in devices[i] for i in theirs) for devices in self.active]

    @property
    def spread(self) -> list[float]:
        """Mean over the devices of the sample standard deviation of their scores; 0 for one."""
        return [
            float(np.mean([np.std(s, ddof=1) if len(s) > 1 else 0.0 for s in devices]))
            for devices in self.scores
        ]

    @property
    def consensus(self) -> NDArray[np.int64]:
        """Model that most devices of each archetype prefer, of equals the lowest.

        int [rounds, archetypes]. What a device prefers is a model it has.
        """
        votes = np.array(self.preferred)
        models = [
            [int(np.bincount(row[self.archetype == a]).argmax()) for a in range(len(self.metas))]
            for row in votes
        ]
        return np.array(models)

    @property
    def agreeing(self) -> NDArray[np.bool_]:
        """Whether all devices of each archetype prefer one model, bool [rounds, archetypes]."""
        votes = np.array(self.preferred)
        agree = [np.ptp(votes[:, self.archetype == a], axis=1) == 0 for a in range(len(self.metas))]
        return np.stack(agree, axis=-1)

    def preferred_by(self, meta: int) -> set[int]:
        """Return the models that devices of a meta-archetype prefer in any round."""
        theirs = self.metas[self.archetype] == meta
        return set(np.array(self.preferred)[:, theirs].ravel().tolist())


def logs(runs: RunSet, experiment: str, method: str | None = None) -> list[Log]:
    """Unpack the records of an experiment, of both methods or of one, in plan order."""
    labels = {"experiment": experiment} | ({"method": method} if method else {})
    return [_unpacked(runs, run) for run in runs.members(runs.labelled(**labels))]


def first_log(runs: RunSet) -> Log | None:
    """Return the hierarchical run of the first seed, if there is one.

    Models of different runs are not the same, so that no mean over seeds makes sense of them.
    """
    return next(iter(logs(runs, HIERARCHICAL, FEDCD)), None)


_POINTS = {"bias": "b = {:g}", "quantise_bits": "{} bits"}
"""What a grid point is called."""


def _unpacked(runs: RunSet, run: PlannedRun) -> Log:
    record, group = runs.record(run), runs.plan.runs[run.group]
    final: dict[str, Any] = record.final
    devices = len(final["tested"])
    accuracy = device_accuracies(record)
    metas, counts = _meta_archetypes(run.spec), np.array(record.partition.counts)
    archetype = np.array([archetype_of(i, devices, len(metas)) for i in range(devices)])
    point = [_POINTS[name].format(value) for name, value in run.coordinates.items()]
    return Log(
        run=run,
        title=": ".join([group.title, *point]),
        experiment=group.labels["experiment"],
        method=group.labels["method"],
        accuracy=accuracy,
        change=changes_of(accuracy),
        archetype=archetype,
        metas=metas,
        majority=by_archetype(counts.max(axis=1) / counts.sum(axis=1), archetype),
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


def by_archetype(values: Floats, archetype: NDArray[np.int64]) -> Floats:
    """Return the mean over each archetype's devices: [..., devices] -> [..., archetypes]."""
    means = [values[..., archetype == a].mean(axis=-1) for a in range(archetype.max() + 1)]
    return np.stack(means, axis=-1)


def changes_of(accuracy: Floats) -> Floats:
    """Return the mean change over the devices, [rounds]: NaN in round 0."""
    steps = np.abs(np.diff(accuracy, axis=0)).mean(axis=1)
    return np.concatenate([[np.nan], steps])


def device_accuracies(record: RunRecord) -> Floats:
    """Return the accuracy of every device after every round, fractions, [rounds, devices]."""
    accuracy: Floats = np.array(record.final["correct"]) / np.array(record.final["tested"])
    return accuracy


@functools.cache  # devices have the same few models in most rounds
def _bits(mask: int) -> list[int]:
    return [m for m in range(mask.bit_length()) if mask >> m & 1]


def _meta_archetypes(spec: RunSpec) -> NDArray[np.int64]:
    """Return the meta-archetype of every archetype; 0 where there are none."""
    partition = spec.partition
    if isinstance(partition, Hierarchical):
        return np.arange(partition.archetypes) * partition.meta_archetypes // partition.archetypes
    assert isinstance(partition, Hypergeometric)
    return np.zeros(len(partition.successes), dtype=np.int64)


def params(spec: RunSpec) -> Params:
    """Return a run's parameters of FedCD."""
    assert isinstance(spec.algorithm, Params)
    return spec.algorithm


def by_rising_bias(runs: RunSet) -> dict[str, list[Log]]:
    """Return the runs of Figs 8 and 9 by rising bias: its name -> one log a seed."""
    found: dict[tuple[float, str], list[Log]] = {}
    for log in [*logs(runs, HIERARCHICAL, FEDCD), *logs(runs, BIAS)]:
        partition = log.run.spec.partition
        assert isinstance(partition, Hierarchical)
        low, high, one = partition.bias_low, partition.bias_high, partition.bias
        key = ((low + high) / 2, f"{low:g} to {high:g}") if one is None else (one, f"{one:g}")
        found.setdefault(key, []).append(log)
    return {f"b = {name}": members for (_, name), members in sorted(found.items())}


def late(rounds: int) -> slice:
    """Return the rounds whose mean is the accuracy at the end: 35 to 44, or the last ten."""
    last = min(rounds, COUNTED_UNTIL)
    return slice(max(last - 10, 0), last)


def converged(change: Sequence[float] | Floats, points: float = 2, window: int = 5) -> int | None:
    """Return the round in which a run has converged, or None.

    The paper gives no criterion. Here: the first round at which, and at every later one of the run,
    the mean change of the last rounds is below a bound.

    Args:
        change: mean change, fractions, by round; that of round 0 is not read.
        points: the bound, in percentage points.
        window: rounds that the mean is taken of.
    """
    if len(change) <= window:
        return None
    means = np.convolve(change[1:], np.full(window, 1 / window), mode="valid")
    restless = np.flatnonzero(means >= points / 100)
    calm = int(restless[-1]) + 1 if restless.size else 0
    return None if calm == len(means) else calm + window


def common_rounds(found: Iterable[Log]) -> int:
    """Return how many rounds all the runs have: those in which their convergence is compared.

    A run that goes on for longer has more rounds in which its change may rise again.
    """
    return min(len(log.change) for log in found)


def rounds_trained(t: int | None, otherwise: int) -> int:
    """Return how many rounds a run trains until round t, included; or otherwise if t is None."""
    return otherwise if t is None else t + 1


def passes_until(log: Log, t: int) -> float:
    """Return the images trained on in the rounds before round t."""
    return float(log.passes[:t].sum())


def hypergeometric_law(population: int, successes: int, draws: int) -> Floats:
    """Return how likely each number of successes is without replacement, [draws + 1]."""
    from scipy.stats import hypergeom  # slow to import

    law: Floats = hypergeom.pmf(np.arange(draws + 1), population, successes, draws)
    return law


# Frames


def summarised(rows: Callable[_P, Iterable[Row]]) -> Callable[_P, pd.DataFrame]:
    """Turn a function that yields a row a run and cell into one that summarises the seeds.

    The two keys come first in each row; what else names the cell follows ``runs`` in the frame. It
    raises a MissingRunsError where there is no row, for want of runs.
    """

    @functools.wraps(rows)
    def frame(*args: _P.args, **kwargs: _P.kwargs) -> pd.DataFrame:
        table = pd.DataFrame(list(rows(*args, **kwargs)))
        if table.empty:
            raise MissingRunsError("none of the runs that it is made of is recorded")
        names = [name for name in table.columns if name not in ("value", "seed", "run")]
        return summarise(table, "value", names[:2], *names[2:])

    return frame


def entry(log: Log, value: float, *others: Log, **names: Any) -> Row:
    """Return a row: the value of a run, or of several, in the cell that the names say."""
    used = tuple(dict.fromkeys(item.run.id for item in (log, *others)))
    return names | {"value": float(value), "seed": log.run.seed, "run": used}


def curve(
    log: Log, series: str, values: Sequence[float] | Floats, first: int = 0, **others: Any
) -> Iterator[Row]:
    """Yield the rows of a curve; ``first`` is the round of its first value."""
    for t, value in enumerate(values, start=first):
        yield entry(log, value, series=series, x=t, **others)


def _entries(
    log: Log, row: str, columns: Mapping[str, float], *others: Log, unit: str = "count"
) -> Iterator[Row]:
    """Yield cells of a table's row that have one unit."""
    for column, value in columns.items():
        yield entry(log, value, *others, row=row, column=column, unit=unit)


# Tables

ROUNDS, PASSES_RATIO = "rounds, {}", "FedAvg : FedCD, sample passes"
"""Columns of Table 1 that claims on the paper's own numbers read."""


@summarised
def table1(runs: RunSet) -> Iterator[Row]:
    """Build Table 1: rounds to convergence, and what FedAvg costs beside FedCD until then.

    Rounds are those trained until convergence, that round included. A run that does not converge in
    the rounds that both have counts with all its rounds, as FedAvg's "300*" does in the paper;
    ``FedCD converged`` and ``FedAvg converged`` are then 0, and 1 for a run that does. The cost is
    the number of sample passes, which no machine changes; beside it the seconds that the runs took,
    in proportion to the passes until convergence.
    """
    for experiment in EXPERIMENTS:
        fedavg_of = {log.run.seed: log for log in logs(runs, experiment, FEDAVG)}
        for fedcd in logs(runs, experiment, FEDCD):
            if fedcd.run.seed in fedavg_of:
                yield from _costs(runs, experiment, fedcd, fedavg_of[fedcd.run.seed])


def _costs(runs: RunSet, experiment: str, *pair: Log) -> Iterator[Row]:
    """Yield the cells of FedCD and FedAvg of one seed."""
    both = common_rounds(pair)
    met = [converged(log.change[:both]) for log in pair]
    ends = [rounds_trained(t, len(log.accuracy)) for log, t in zip(pair, met, strict=True)]
    passes = [passes_until(log, end) for log, end in zip(pair, ends, strict=True)]
    seconds = [
        runs.record(log.run).provenance.seconds * part / log.passes.sum()
        for log, part in zip(pair, passes, strict=True)
    ]
    columns: dict[str, tuple[str, list[float]]] = {
        ROUNDS: ("count", [*ends]),
        "{} converged": ("count", [t is not None for t in met]),
        "million sample passes, {}": ("M", [part / 1e6 for part in passes]),
        "minutes, {}": ("min", [part / 60 for part in seconds]),
    }
    for column, (unit, values) in columns.items():
        for log, value in zip(pair, values, strict=True):
            yield from _entries(log, experiment, {column.format(log.method): value}, unit=unit)
    ratios = {
        PASSES_RATIO: passes[1] / passes[0],
        "FedAvg : FedCD, seconds": seconds[1] / seconds[0],
    }
    yield from _entries(pair[0], experiment, ratios, pair[1], unit="ratio")


@summarised
def accuracy(runs: RunSet) -> Iterator[Row]:
    """Show the accuracy at the end (mean of rounds 35 to 44) of every archetype."""
    for experiment, method in itertools.product(EXPERIMENTS, METHODS):
        for log in logs(runs, experiment, method):
            means = log.by_archetype[late(len(log.accuracy))].mean(axis=0)
            for a, (mean, share) in enumerate(zip(means, log.majority, strict=True)):
                row = f"{experiment.lower()}, archetype {a}"
                yield from _entries(log, row, {method: mean}, unit="fraction")
                if experiment == HYPERGEOMETRIC:
                    above = {f"{method}, above the majority label": mean - share}
                    yield from _entries(log, row, above, unit="points")
                    if method == FEDCD:
                        yield from _entries(log, row, {"majority label": share}, unit="fraction")
            row = f"{experiment.lower()}, all devices"
            yield from _entries(log, row, {method: means.mean()}, unit="fraction")


@summarised
def models(runs: RunSet) -> Iterator[Row]:
    """Count models after 45 rounds, or the last of fewer (sections 3.5 and 3.6)."""
    for experiment in (HIERARCHICAL, DELETION, HYPERGEOMETRIC, BIAS, NOTEBOOK, OF_18):
        for log in logs(runs, experiment, FEDCD):
            end = min(COUNTED_UNTIL, len(log.active)) - 1
            created = 2 ** sum(m < end for m in params(log.run.spec).milestones)
            counts = {
                "models created": created,
                "deleted by all devices": created - log.live_models[end],
                "models left": log.live_models[end],
                "models preferred at the end": len(set(log.preferred[end])),
                "active models of a device, at most": max(len(held) for held in log.active[end]),
                "devices with more than two": sum(len(held) > 2 for held in log.active[end]),
            }
            yield from _entries(log, log.title, counts)


@summarised
def lives(runs: RunSet) -> Iterator[Row]:
    """Tell what became of each model in 45 rounds: who had it, deleted it, preferred it.

    Of the first seed. A model is born in the round after a milestone; a column is left empty where
    there is nothing to say.
    """
    log = first_log(runs)
    if log is None:
        return
    given, active = log.given[:COUNTED_UNTIL], log.active[:COUNTED_UNTIL]
    born: dict[int, int] = {}
    for t, devices in enumerate(given):
        born |= dict.fromkeys(sorted(set().union(*devices) - born.keys()), t)
    for model, t in born.items():
        gone = [when for when, _, which in log.deletions if which == model and when < len(given)]
        left = sum(model in models for models in active[-1])
        life = {"clone of": model - 2 ** (model.bit_length() - 1)} if model else {}
        life |= {"first round": t, "devices at first": sum(model in had for had in given[t])}
        if gone:
            life |= {"deletions": len(gone), "first deletion": min(gone)}
        if not left:
            life["deleted by all in round"] = max(gone)
        life["devices at the end"] = left
        life["devices that prefer it at the end"] = log.preferred[len(given) - 1].count(model)
        yield from _entries(log, f"model {model}", life)


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


def megabytes(log: Log) -> dict[str, Floats]:
    """Return what all devices together send (up) and receive (down) in each round."""
    spec = log.run.spec
    bits = params(spec).quantise_bits
    size = model_bytes(spec.dataset.name, spec.model.name, spec.model.width, bits)
    return {"up": log.trained * size.up / 1e6, "down": log.sent * size.down / 1e6}


@summarised
def communication(runs: RunSet) -> Iterator[Row]:
    """Show what a round sends, all devices together, means over the first 45 rounds (section 3.6).

    A device that is drawn uploads its models; every device downloads those of its models that were
    averaged. Scores are left out: 4 bytes a model.
    """
    for experiment in (HIERARCHICAL, HYPERGEOMETRIC, BITS):
        for log in logs(runs, experiment):
            sizes = megabytes(log)
            columns = {
                "models up a round": ("count", log.trained),
                "models down a round": ("count", log.sent),
                "MB up a round": ("MB", sizes["up"]),
                "MB down a round": ("MB", sizes["down"]),
                "sample passes, thousands a round": ("k", log.passes / 1e3),
            }
            for column, (unit, values) in columns.items():
                mean = {column: values[:COUNTED_UNTIL].mean()}
                yield from _entries(log, log.title, mean, unit=unit)


def by_choice(runs: RunSet) -> pd.DataFrame:
    """Return accuracies at the end by what the paper leaves open (`fedrepro.report.choices`)."""

    def at_the_end(record: RunRecord) -> float:
        accuracy = device_accuracies(record)
        return float(accuracy[late(len(accuracy))].mean())

    return by_labels(runs, of_records(at_the_end))


TABLES: dict[str, Callable[[RunSet], pd.DataFrame]] = {
    "table1": table1,
    "accuracy": accuracy,
    "models": models,
    "lives": lives,
    "communication": communication,
    "choices": lambda runs: moved(by_choice(runs)),
}
