"""Partitions: who holds which examples. One pure function a scheme; see the modules."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from fedrepro.base.errors import FedreproError
from fedrepro.fl import streams
from fedrepro.fl.partition import (
    archetypes,
    balanced_percent,
    class_aligned,
    class_blocks,
    data_sharing,
    emd,
    iid,
    index_file,
    label_clusters,
    main_cluster,
    pareto_labels,
    published_counts,
    statistics,
)

if TYPE_CHECKING:
    from fedrepro.fl.spec import (
        BalancedPercent,
        Hierarchical,
        Hypergeometric,
        LabelClusters,
        PartitionSpec,
    )

IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class NodeSets:
    """For every node the examples it is tested on: positions in ``split``, int64 [n_k] each."""

    split: Literal["train", "test"]
    parts: tuple[IntArray, ...]


@dataclass(frozen=True)
class Partition:
    """A partition of the training split and, where a paper has them, the nodes' own test sets.

    Attributes:
        clients: positions in the training split, int64 [n_k] for each client.
        counts: examples of each class, int64 [clients, classes].
        emd: EMD of each client to the pooled clients, float64 [clients], 0..2.
        sha256: digest of the index lists.
        validation: training examples no client holds, set aside for validation, int64 [n].
        shared: training examples that the server hands out to the clients, int64 [n].
        node_sets: named test sets of the nodes.
        server: training examples no client holds, for the server to train on, int64 [n].
    """

    clients: tuple[IntArray, ...]
    counts: IntArray
    emd: NDArray[np.float64]
    sha256: str
    validation: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    shared: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    node_sets: dict[str, NodeSets] = field(default_factory=dict)
    server: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))


def build_partition(
    spec: PartitionSpec,
    train_labels: IntArray,
    test_labels: IntArray,
    classes: int,
    seed: int,
    data_root: Path | None = None,
) -> Partition:
    """Build the partition that a spec describes.

    Args:
        spec: scheme and parameters.
        train_labels: int64 [train].
        test_labels: int64 [test]; only schemes that give nodes test sets of their own read it.
        classes: number of classes of the data set.
        seed: run seed; names the random stream of the partition.
        data_root: folder of packed data, for published lists; None takes the usual places.

    Raises:
        FedreproError: the data set cannot be cut as asked.
    """
    validation = shared = server = np.zeros(0, dtype=np.int64)
    node_sets: dict[str, NodeSets] = {}
    rng = streams.generator(seed, "partition")
    if spec.scheme == "iid_plain":
        clients = iid.plain(train_labels, spec.clients, rng)
    elif spec.scheme == "iid_stratified":
        clients = iid.stratified(train_labels, spec.clients, rng, spec.per_class)
    elif spec.scheme == "class_aligned":
        clients = class_aligned.class_aligned(
            train_labels, spec.clients, spec.classes_per_client, rng, spec.per_class
        )
    elif spec.scheme == "data_sharing":
        clients, shared = data_sharing.data_sharing(
            train_labels,
            spec.clients,
            rng,
            per_class=spec.per_class,
            held_out=spec.held_out,
            beta=spec.beta,
            alpha=spec.alpha,
            common=spec.shares == "common",
        )
    elif spec.scheme == "emd_shift":
        counts = emd.draw_counts_for(
            spec.emd,
            spec.per_class,
            classes,
            seed,
            lambda number: streams.generator(number, "distribution"),
        )
        clients = emd.emd_shift(train_labels, spec.clients, counts, rng)
    elif spec.scheme == "hierarchical" or spec.scheme == "hypergeometric":
        clients, validation, node_sets = _archetypes(spec, train_labels, test_labels, classes, rng)
    elif spec.scheme == "class_blocks":
        blocks = class_blocks.class_blocks(
            train_labels,
            spec.clients,
            spec.classes_per_client,
            rng,
            per_class=spec.per_class,
            server_share=spec.server_share,
            validation=spec.validation,
        )
        clients, server, validation = blocks.clients, blocks.server, blocks.validation
        if spec.validation:
            node_sets["validation"] = NodeSets("train", (validation,) * spec.clients)
    elif spec.scheme == "label_clusters":
        clients = _label_clusters(spec, train_labels, rng)
    elif spec.scheme == "main_cluster":
        clients = main_cluster.main_cluster(
            train_labels,
            spec.clients,
            spec.main,
            spec.labels_per_client,
            spec.per_label,
            spec.spread,
            rng,
        )
    elif spec.scheme == "pareto_labels":
        clients = pareto_labels.pareto_labels(
            train_labels,
            spec.clients,
            spec.draws,
            spec.budget,
            rng,
            shape=spec.shape,
            shared=spec.shared,
        )
    elif spec.scheme == "index_file":
        clients = index_file.index_file(train_labels, spec.lists, spec.keep, data_root)
    elif spec.scheme == "published_counts":
        clients = published_counts.published_counts(train_labels, spec.counts, spec.keep)
    else:
        clients, validation, node_sets = _balanced_percent(spec, train_labels, test_labels)
    counts = statistics.class_counts(train_labels, clients, classes)
    return Partition(
        clients=clients,
        counts=counts,
        emd=statistics.emd(counts),
        sha256=statistics.digest(clients),
        validation=validation,
        shared=shared,
        node_sets=node_sets,
        server=server,
    )


def _label_clusters(
    spec: LabelClusters, labels: IntArray, rng: np.random.Generator
) -> tuple[IntArray, ...]:
    number = len(spec.clusters)
    per_label = spec.per_label if isinstance(spec.per_label, tuple) else (spec.per_label,) * number
    spread = spec.spread if isinstance(spec.spread, tuple) else (spec.spread,) * number
    return label_clusters.label_clusters(
        labels, spec.clusters, per_label, spread, rng, random_labels=spec.labels == "random"
    )


def _balanced_percent(
    spec: BalancedPercent, train_labels: IntArray, test_labels: IntArray
) -> tuple[tuple[IntArray, ...], IntArray, dict[str, NodeSets]]:
    """Cut training, validation and test images by the same N rule (Liu et al. 2020, III.A, VII).

    The nodes' test sets: ``iid`` all test images; ``iid_dealt`` the images dealt evenly over the
    nodes (as run); ``noniid`` the test images cut as the training images; ``noniid_as_run`` for
    nine nodes with one label a node (as run); ``validation`` a node's own part of the validation
    images; ``validation_all`` all of them.
    """
    if spec.validation >= len(train_labels):
        raise FedreproError(
            f"partition.validation = {spec.validation} leaves no training image of "
            f"{len(train_labels)}; lower it"
        )
    groups = balanced_percent.GROUPS[spec.groups] if spec.clients > 1 else ((0, 9),)
    single_labels = balanced_percent.SINGLE_LABELS if spec.clients == 9 else groups
    held = spec.validation
    clients = tuple(
        part + held
        for part in balanced_percent.balanced_percent(
            train_labels[held:], spec.clients, spec.percent, groups
        )
    )
    validation = np.arange(held, dtype=np.int64)

    def cut(labels: IntArray, by: tuple[tuple[int, int], ...]) -> tuple[IntArray, ...]:
        return balanced_percent.balanced_percent(labels, spec.clients, spec.percent, by)

    everything = np.arange(len(test_labels), dtype=np.int64)
    node_sets = {
        "iid": NodeSets("test", (everything,) * spec.clients),
        "iid_dealt": NodeSets("test", balanced_percent.dealt(len(test_labels), spec.clients)),
        "noniid": NodeSets("test", cut(test_labels, groups)),
        "noniid_as_run": NodeSets("test", cut(test_labels, single_labels)),
    }
    if held:
        node_sets["validation"] = NodeSets("train", cut(train_labels[:held], groups))
        node_sets["validation_all"] = NodeSets("train", (validation,) * spec.clients)
    return clients, validation, node_sets


def _archetypes(
    spec: Hierarchical | Hypergeometric,
    train_labels: IntArray,
    test_labels: IntArray,
    classes: int,
    rng: np.random.Generator,
) -> tuple[tuple[IntArray, ...], IntArray, dict[str, NodeSets]]:
    """Draw the images of devices of archetypes (Kopparapu et al. 2020, sections 3.2 and 3.3).

    The devices' test sets: ``test`` and ``validation``, drawn as their training images are. What is
    set aside for validation are the images of the validation sets; with ``shared`` pools, devices
    may train on them.
    """
    if spec.scheme == "hierarchical":
        one = spec.bias
        bounds = (spec.bias_low, spec.bias_high) if one is None else (one, one)
        draws = archetypes.hierarchical(
            spec.clients,
            spec.archetypes,
            spec.meta_archetypes,
            bounds,
            spec.others,
            rng,
        )
    else:
        draws = archetypes.hypergeometric(
            spec.clients, spec.population, spec.successes, spec.draws, spec.overflow
        )
    devices = archetypes.draw_devices(
        train_labels,
        test_labels,
        classes,
        draws,
        archetypes.Sizes(spec.train, spec.validation, spec.test),
        spec.validation_pool if spec.pools == "disjoint" else None,
        rng,
    )
    node_sets = {
        "test": NodeSets("test", devices.test),
        "validation": NodeSets("train", devices.validation),
    }
    return devices.train, np.unique(np.concatenate(devices.validation)), node_sets
