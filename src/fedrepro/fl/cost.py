"""What a run costs: sample passes from its spec, seconds from the runs recorded so far."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable

from fedrepro.fl.algorithms import ALGORITHMS
from fedrepro.fl.data import DatasetInfo, describe
from fedrepro.fl.partition import index_file, published_counts
from fedrepro.fl.spec import PartitionSpec, RunSpec

# Arithmetic of one training sample pass at width 1 (forward and backward), in MFLOP.
_MFLOP_PER_SAMPLE = {
    "liu1": 0.0959,
    "liu2": 2.595,
    "liu3": 179.6,
    "mnist_cnn": 72.4,
    "cifar_tutorial": 110.8,
    "kws_cnn": 15.0,
    "fedcd_cnn": 628.2,
    "resnet9": 571.6,
    "fixup_resnet20": 243.3,
    "resnet18": 163_000.0,
}
_RESNET18_PIXELS = 224 * 224
"""Image size of its arithmetic above; all of it is in convolutions."""
_ASSUMED_GFLOP_PER_SECOND = 20.0
_PREDICT_SHARE = 1 / 3
"""Cost of predicting an example against training on it: forward only."""
_FEDCD_MODELS = 2.1
"""Models that a device of FedCD has after the first milestone, on average."""


def sample_passes(spec: RunSpec) -> float:
    """Return how many examples a run trains on, plus a third of those it predicts."""
    info = describe(spec.dataset.name)
    partition, algorithm = spec.partition, spec.algorithm
    examples = _examples(partition, info)
    rounds = ALGORITHMS[algorithm.name].rounds(spec)
    trained = float(rounds * spec.local_epochs * examples)
    models = 1
    participants = getattr(algorithm, "participants", None)
    if participants is not None:
        trained *= min(1.0, participants / partition.clients)
    if algorithm.name == "cadis" and algorithm.distillation:
        trained *= 1 + _PREDICT_SHARE  # the teacher's forward pass
    if algorithm.name == "fedavg":
        if algorithm.sgd_reference:
            trained += 2 * spec.local_epochs * examples
        if algorithm.bn_statistics == "local":
            models = partition.clients
    elif algorithm.name == "divergence_bound":  # all class gradients of the centre and of clients
        trained *= 1 + partition.clients
    elif algorithm.name == "fedopt":
        trained += len(algorithm.update_rounds) * spec.local_epochs * examples
    elif algorithm.name in ("local", "selective"):
        models = partition.clients
    elif algorithm.name == "fedcd":
        late = rounds - min([*algorithm.milestones, rounds])
        trained *= 1 + (_FEDCD_MODELS - 1) * late / rounds
    evaluations = rounds // spec.evaluate_every + 1
    predicted = info.test
    if partition.scheme == "balanced_percent":
        predicted += partition.validation
    elif partition.scheme == "hierarchical" or partition.scheme == "hypergeometric":
        predicted = partition.clients * (partition.test + partition.validation)
    elif partition.scheme == "class_blocks":
        predicted += partition.validation * info.classes
    if algorithm.name == "fedopt":
        predicted += partition.clients * algorithm.conflict_examples
    return trained + _PREDICT_SHARE * evaluations * models * predicted


def _examples(partition: PartitionSpec, info: DatasetInfo) -> float:
    """Return how many examples the clients hold together, about."""
    if partition.scheme == "balanced_percent":
        return info.train - partition.validation
    if partition.scheme == "data_sharing":
        received = partition.clients * partition.alpha * partition.beta
        return partition.per_class * info.classes * (1 + received)
    if partition.scheme == "hierarchical" or partition.scheme == "hypergeometric":
        return partition.clients * partition.train
    if partition.scheme == "index_file":
        return partition.keep * index_file.EXAMPLES[partition.lists]
    if partition.scheme == "published_counts":
        return partition.keep * sum(map(sum, published_counts.COUNTS[partition.counts]))
    if partition.scheme == "label_clusters":
        bases = partition.per_label
        each = bases if isinstance(bases, tuple) else (bases,) * len(partition.clusters)
        labels = info.classes // len(partition.clusters)
        return sum(n * m * labels for n, m in zip(partition.clusters, each, strict=True))
    if partition.scheme == "main_cluster":
        return partition.clients * partition.labels_per_client * partition.per_label
    if partition.scheme == "pareto_labels":
        return partition.budget * info.classes / 3  # the other labels are held far less often
    if partition.scheme != "iid_plain" and partition.per_class is not None:
        return partition.per_class * info.classes
    if partition.scheme == "class_blocks":
        return info.train - partition.validation * info.classes
    return info.train


def flop(spec: RunSpec) -> float:
    """Return the arithmetic of one sample pass, forward and backward, in FLOP.

    A narrower network has fewer inputs and outputs of every layer, so it goes by the square of the
    width; that makes too little of the first layer and the last.
    """
    mflop = _MFLOP_PER_SAMPLE[spec.model.name] * spec.model.width**2
    if spec.model.name == "resnet18":
        _, height, width = describe(spec.dataset.name).shape
        mflop *= height * width / _RESNET18_PIXELS
    return mflop * 1e6


def lanes(spec: RunSpec) -> int:
    """Return how many models a round of a run trains side by side, about."""
    if spec.algorithm.name == "sgd":
        return 1
    participants = getattr(spec.algorithm, "participants", None)
    clients = spec.partition.clients
    return clients if participants is None else min(participants, clients)


def seconds_per_pass(trained: Iterable[tuple[RunSpec, float]]) -> dict[str, float]:
    """Return the median seconds a sample pass of each kind of run, from recorded runs.

    The key is :func:`kind`; runs of all processors are pooled, so this is an estimate.

    Args:
        trained: runs recorded on a CPU, and the seconds each took.
    """
    seen: dict[str, list[float]] = defaultdict(list)
    for spec, seconds in trained:
        seen[kind(spec)].append(seconds / sample_passes(spec))
    return {key: statistics.median(values) for key, values in seen.items()}


def kind(spec: RunSpec) -> str:
    """Return what decides the speed of a sample pass: network, width and batch size."""
    return f"{spec.model.name}*{spec.model.width:g}/B{spec.batch}"


def estimate(spec: RunSpec, speeds: dict[str, float]) -> float:
    """Return the seconds a run will take on one core, from like runs or from its arithmetic."""
    speed = speeds.get(kind(spec))
    if speed is None:
        speed = flop(spec) / (_ASSUMED_GFLOP_PER_SECOND * 1e9) + 2e-4 / spec.batch
    return speed * sample_passes(spec)
