"""What a run costs: sample passes from its spec, seconds from the runs recorded so far.

A sample pass is one example trained on once, forward and backward.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable

from fedrepro.fl.algorithms import ALGORITHMS
from fedrepro.fl.algorithms.algorithm import clients_a_round
from fedrepro.fl.data import describe
from fedrepro.fl.models import NETWORKS
from fedrepro.fl.spec import RunSpec

_GFLOP_PER_SECOND = 70.0
"""Of a network at its published width on one core.

Measured on AMD EPYC, Zen 4: mnist_cnn, cifar_tutorial, fedcd_cnn, fixup_resnet20 and liu3 do 66 to
112. The small liu1 and liu2 do 3 to 15, but these have records.
"""
_NARROW_GFLOP_PER_SECOND = 13.0
"""The same of a narrower one (median of the recorded kinds)."""
_PREDICT_SHARE = 1 / 3
"""Sample passes that predicting an example costs: it is forward only."""


def sample_passes(spec: RunSpec) -> float:
    """Return a run's cost in sample passes: examples trained on, plus a third of those predicted.

    An example counts once for each epoch and each model; evaluations are counted as well.

    Raises:
        FedreproError: the data set is one in memory that this process does not have.
    """
    info = describe(spec.dataset.name)
    partition, algorithm = spec.partition, ALGORITHMS[spec.algorithm.name]
    cost, rounds = algorithm.cost, algorithm.rounds(spec)
    epochs = spec.local_epochs * partition.examples(info)
    share = clients_a_round(spec) / partition.clients
    trained = rounds * epochs * share * cost.factor(spec) + cost.extra(spec, epochs)
    evaluations = math.ceil(rounds / spec.evaluate_every)
    predicted = partition.evaluated(info) + cost.predicted(spec)
    return trained + _PREDICT_SHARE * evaluations * cost.models(spec) * predicted


def flop(spec: RunSpec) -> float:
    """Return the arithmetic of one sample pass of a run, in FLOP.

    Raises:
        FedreproError: the data set is one in memory that this process does not have, or its
            images do not fit the transform.
    """
    info = describe(spec.dataset.name)
    shape = spec.dataset.input_shape(info.shape)
    return NETWORKS[spec.model.name].flop(shape, info.classes, spec.model.width)


def lanes(spec: RunSpec) -> int:
    """Return about how many models a round of a run trains side by side."""
    return ALGORITHMS[spec.algorithm.name].cost.lanes(spec)


def seconds_per_pass(trained: Iterable[tuple[RunSpec, float]]) -> dict[str, float]:
    """Return the median seconds of a sample pass for each :func:`kind` of recorded run.

    This is an estimate, as runs of all processors are pooled.

    Args:
        trained: runs recorded on a CPU, and the seconds that each took.
    """
    seen: dict[str, list[float]] = defaultdict(list)
    for spec, seconds in trained:
        seen[kind(spec)].append(seconds / sample_passes(spec))
    return {key: statistics.median(values) for key, values in seen.items()}


def kind(spec: RunSpec) -> str:
    """Return a key of what decides the speed of a sample pass: network, images, batch size."""
    smaller = f"/{spec.dataset.downsample}" if spec.dataset.downsample > 1 else ""
    return f"{spec.model.name}*{spec.model.width:g}{smaller}/B{spec.batch}"


def estimate(spec: RunSpec, speeds: dict[str, float]) -> float:
    """Return about how many seconds a run takes on one core.

    Args:
        spec: the run.
        speeds: as of :func:`seconds_per_pass`; a kind that is not in it is estimated by its
            arithmetic, at 70 GFLOP/s for a network at its published width, 13 for a narrower one.
    """
    speed = speeds.get(kind(spec))
    if speed is None:
        rate = _GFLOP_PER_SECOND if spec.model.width >= 1 else _NARROW_GFLOP_PER_SECOND
        speed = flop(spec) / (rate * 1e9) + 2e-4 / spec.batch
    return speed * sample_passes(spec)
