"""What one training run is, and the identity derived from it.

A spec is a frozen, fully typed description that holds everything that changes a run's numbers and
nothing else. ``run_id`` is the hash of the canonical JSON of the spec and of the versions of the
components the spec uses (see :mod:`fedrepro.fl.versions`). A field at its default is left out of
the JSON, so a new option does not rename old runs; for the same reason a default is never changed.

Fractions are in [0, 1]. This module imports no torch: the Snakefile imports it on every call.
"""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from fedrepro.base.strict import Strict
from fedrepro.fl.algorithms import AlgorithmParams
from fedrepro.fl.versions import component_versions

RUN_ID_LENGTH = 12


DatasetName = Literal[
    "mnist",
    "cifar10",
    "cifar100",
    "kws_mfcc",
    "kws_mfcc20",
    "synthetic",
    "synthetic_rgb",
    "pill",
    "synthetic_pills",
]


class DatasetSpec(Strict):
    """A data set and how its pixels reach the network."""

    name: DatasetName
    transform: Literal["unit", "standard", "tutorial24"] = Field(
        default="unit",
        description="unit: uint8 pixels / 255; standard: unit, then (x - mean) / std with the "
        "constants of config/datasets.yaml; tutorial24: central 24x24 crop, then each image to "
        "mean 0 and standard deviation 1 (the TensorFlow CIFAR-10 tutorial, used by Zhao et al.)",
    )
    augment: bool = Field(
        default=False,
        description="training examples only. unit, standard: random crop after padding by 4 zero "
        "pixels, random horizontal flip; tutorial24: random 24x24 crop, random horizontal flip, "
        "random contrast between 0.2 and 1.8",
    )


class IidPlain(Strict):
    """Random split; client sizes differ by at most one example."""

    scheme: Literal["iid_plain"]
    clients: int = Field(ge=1)


class IidStratified(Strict):
    """Every client gets the same number of each class (Zhao et al. 2018, section 2.1)."""

    scheme: Literal["iid_stratified"]
    clients: int = Field(ge=1)
    per_class: int | None = Field(default=None, ge=1, description="examples kept of each class")


class ClassAligned(Strict):
    """Every client holds one or two classes only (Zhao et al. 2018, section 2.1)."""

    scheme: Literal["class_aligned"]
    clients: int = Field(ge=1)
    classes_per_client: Literal[1, 2]
    per_class: int | None = Field(default=None, ge=1, description="examples kept of each class")


class DataSharing(Strict):
    """Every client holds one class and a random share of a common set G (Zhao et al. 2018, 4.1).

    D, the clients' own examples, has ``per_class`` of each class. G is drawn from ``held_out``
    others of each class, has ``beta`` times the size of D and the same number of every class.
    """

    scheme: Literal["data_sharing"]
    clients: int = Field(ge=1)
    per_class: int = Field(ge=1, description="examples of each class in D")
    held_out: int = Field(ge=1, description="examples of each class set aside, of which G is made")
    beta: float = Field(ge=0, description="size of G / size of D")
    alpha: float = Field(default=1.0, gt=0, le=1, description="share of G that a client receives")
    shares: Literal["independent", "common"] = Field(
        default="independent", description="whether each client's share is drawn on its own"
    )


class EmdShift(Strict):
    """Every client at the same exact EMD from uniform (Zhao et al. 2018, section 3.2.1).

    The run seed is the number of the distribution: seeds 0..4 are the paper's five.
    """

    scheme: Literal["emd_shift"]
    clients: int = Field(ge=2)
    emd: float = Field(ge=0, le=2, description="sum of absolute differences of class shares")
    per_class: int = Field(ge=1, description="M: examples kept of each class, and client size")


class ClassBlocks(Strict):
    """Client k holds the k-th block of consecutive classes (Ozdayi et al. 2020, section 4.2).

    Two clients of five classes are FL-NIID(5), two of ten FL-IID; one of ten is centralised data.
    """

    scheme: Literal["class_blocks"]
    clients: int = Field(ge=1)
    classes_per_client: int = Field(ge=1)
    per_class: int | None = Field(
        default=None, ge=1, description="examples of each class for server and clients; null: all"
    )
    server_share: float = Field(
        default=0.0, ge=0, lt=1, description="share of these that the server keeps to train on"
    )
    validation: int = Field(
        default=0, ge=0, description="further examples of each class, set aside for validation"
    )


class BalancedPercent(Strict):
    """Liu et al. 2020, section III.A: N % of the images dealt evenly, the rest by label group.

    Deterministic in file order; the first ``validation`` training images are set aside.
    """

    scheme: Literal["balanced_percent"]
    clients: int = Field(ge=1)
    percent: int = Field(ge=0, le=100, description="N: percentage balanced")
    groups: Literal["code", "paper"] = Field(
        default="code", description="label groups 0-2|3-5|6-9 (as run) or 0-3|4-6|7-9 (Table I)"
    )
    validation: int = Field(default=10_000, ge=0, description="images set aside for validation")


class _Devices(Strict):
    """Devices of archetypes (Kopparapu et al. 2020, section 3.1): images each draws for its sets.

    A device draws without replacement within a set, and independently of the other devices.
    """

    clients: int = Field(ge=1, description="devices, numbered archetype by archetype")
    train: int = Field(ge=1, description="training images a device")
    validation: int = Field(ge=1, description="validation images a device")
    test: int = Field(ge=1, description="test images a device")
    pools: Literal["disjoint", "shared"] = Field(
        default="disjoint",
        description="validation images come from training images set aside (as written), or "
        "from all training images, like the training images themselves (as run)",
    )
    validation_pool: int = Field(
        default=10_000,
        ge=1,
        description="training images set aside, the same number of each class; unused if shared",
    )


class Hierarchical(_Devices):
    """Archetypes within meta-archetypes, each a favourite label (section 3.2)."""

    scheme: Literal["hierarchical"]
    archetypes: int = Field(default=10, ge=2, description="archetype a favours label a")
    meta_archetypes: int = Field(default=2, ge=1, description="groups of consecutive archetypes")
    bias_low: float = Field(default=0.6, ge=0, le=1, description="lowest share of the favourite")
    bias_high: float = Field(default=0.7, ge=0, le=1, description="highest share of the favourite")
    bias: float | None = Field(
        default=None, ge=0, le=1, description="one share for all devices, instead of the two bounds"
    )
    others: Literal["pooled", "equal"] = Field(
        default="pooled",
        description="the rest: from the pooled other labels of the meta-archetype (as run), or the "
        "same number of each (as written)",
    )

    @model_validator(mode="after")
    def _low_is_not_above_high(self) -> Hierarchical:
        if self.bias_low > self.bias_high:
            raise ValueError("bias_low must be at most bias_high")
        return self


class Hypergeometric(_Devices):
    """Archetypes along an axis: labels are numbers of successes (section 3.3)."""

    scheme: Literal["hypergeometric"]
    population: int = Field(default=110, ge=1, description="N")
    successes: tuple[int, ...] = Field(
        default=(5, 25, 45, 65, 85, 105), min_length=1, description="K of each archetype"
    )
    draws: int = Field(default=10, ge=0, description="n")
    overflow: Literal["drop", "redraw"] = Field(
        default="drop", description="an image whose label does not exist: left out, or drawn again"
    )


_Count = Annotated[int, Field(ge=1)]
_Deviation = Annotated[float, Field(ge=0)]


class LabelClusters(Strict):
    """Clusters of clients with the same labels (Nguyen et al. 2023, section V.A, MC)."""

    scheme: Literal["label_clusters"]
    clusters: tuple[_Count, ...] = Field(min_length=1, description="clients in each cluster")
    per_label: _Count | tuple[_Count, ...] = Field(
        description="examples a client gets of each label, before its factor; one for each cluster"
    )
    spread: _Deviation | tuple[_Deviation, ...] = Field(
        default=0.3, description="standard deviation of a client's factor; one for each cluster"
    )
    labels: Literal["consecutive", "random"] = Field(
        default="consecutive", description="how the labels are cut into as many equal parts"
    )

    @property
    def clients(self) -> int:
        """Clients of all clusters."""
        return sum(self.clusters)


class MainCluster(Strict):
    """One cluster of clients with the same labels (Nguyen et al. 2023, section V.C, BC and UC)."""

    scheme: Literal["main_cluster"]
    clients: int = Field(ge=1)
    main: int = Field(ge=1, description="clients of the cluster")
    labels_per_client: int = Field(ge=1)
    per_label: int = Field(ge=1, description="examples of each label, before the client's factor")
    spread: float = Field(
        default=0.0, ge=0, description="standard deviation of a client's factor; 0: BC"
    )


class ParetoLabels(Strict):
    """Few labels a client, amounts from a Pareto law (Nguyen et al. 2023, section V.C, PA)."""

    scheme: Literal["pareto_labels"]
    clients: int = Field(ge=1)
    draws: int = Field(ge=1, description="label draws of a client, with replacement")
    budget: int = Field(ge=1, description="examples held by the clients of the busiest label")
    shape: float = Field(default=1.0, gt=0, description="shape of the Lomax law")
    shared: bool = Field(
        default=False, description="clients share examples, as in the authors' files"
    )


class IndexFile(Strict):
    """The authors' own client lists (Nguyen et al. 2023), 100 clients each."""

    scheme: Literal["index_file"]
    lists: Literal[
        "mnist_mc",
        "mnist_bc",
        "mnist_uc",
        "mnist_pa",
        "cifar10_mc",
        "cifar10_bc",
        "cifar10_uc",
        "cifar10_pa",
        "cifar100_mc",
        "cifar100_bc",
        "cifar100_uc",
        "cifar100_pa",
    ]
    keep: float = Field(
        default=1.0, gt=0, le=1, description="share kept of what a client holds of each label"
    )

    @property
    def clients(self) -> int:
        """Clients of every list."""
        return 100


class PublishedCounts(Strict):
    """Clients by published label counts (Nguyen et al. 2023, PILL: 10 clients, 15 labels)."""

    scheme: Literal["published_counts"]
    counts: Literal["pill"]
    keep: float = Field(
        default=1.0, gt=0, le=1, description="share kept of what a client holds of each label"
    )

    @property
    def clients(self) -> int:
        """Clients of the table."""
        return 10


PartitionSpec = Annotated[
    IidPlain
    | IidStratified
    | ClassAligned
    | DataSharing
    | EmdShift
    | BalancedPercent
    | Hierarchical
    | Hypergeometric
    | ClassBlocks
    | LabelClusters
    | MainCluster
    | ParetoLabels
    | IndexFile
    | PublishedCounts,
    Field(discriminator="scheme"),
]

ModelName = Literal[
    "liu1",
    "liu2",
    "liu3",
    "mnist_cnn",
    "cifar_tutorial",
    "kws_cnn",
    "fedcd_cnn",
    "resnet9",
    "fixup_resnet20",
    "resnet18",
]


class ModelSpec(Strict):
    """A network architecture of :mod:`fedrepro.fl.models`."""

    name: ModelName
    width: float = Field(
        default=1.0, gt=0, le=1, description="share of the hidden units and channels kept"
    )


Precision = Literal["float32", "tf32", "bf16"]


class _StepSize(Strict):
    """The step size in round t (from 0): ``lr * lr_decay**t``, times 0.1 at each milestone."""

    lr: float = Field(gt=0)
    lr_decay: float = Field(default=1.0, gt=0, le=1, description="factor per round")
    lr_milestones: tuple[int, ...] = Field(
        default=(), description="rounds from which the step size is a tenth of what it was before"
    )
    clip_norm: float | None = Field(
        default=None, gt=0, description="gradients of a larger Euclidean norm are scaled down to it"
    )


class Sgd(_StepSize):
    """Stochastic gradient descent."""

    name: Literal["sgd"]
    momentum: float = Field(default=0.0, ge=0, lt=1)
    nesterov: bool = False
    weight_decay: float = Field(default=0.0, ge=0, description="L2 term added to the gradient")
    vector_lr_factor: float = Field(
        default=1.0,
        gt=0,
        description="factor on the step size of biases, multipliers and normalisation parameters: "
        "every parameter with fewer than two dimensions",
    )

    @model_validator(mode="after")
    def _nesterov_needs_momentum(self) -> Sgd:
        if self.nesterov and self.momentum == 0:
            raise ValueError("nesterov needs momentum > 0")
        return self


class Adam(_StepSize):
    """Adam (Kingma and Ba 2015) with bias correction."""

    name: Literal["adam"]
    beta1: float = Field(default=0.9, ge=0, lt=1)
    beta2: float = Field(default=0.999, ge=0, lt=1)
    eps: float = Field(default=1e-8, gt=0)


OptimizerSpec = Annotated[Sgd | Adam, Field(discriminator="name")]


class RunSpec(Strict):
    """One training run: one spec and one seed give one record."""

    dataset: DatasetSpec
    partition: PartitionSpec
    model: ModelSpec
    algorithm: AlgorithmParams
    optimizer: OptimizerSpec
    batch: int = Field(ge=1, description="examples a step")
    last_batch: Literal["keep", "drop", "drop_single"] = Field(
        default="keep",
        description="what becomes of a smaller last batch of an epoch: keep trains on it, drop "
        "leaves it out, drop_single leaves it out if it is one example, which batch normalisation "
        "cannot train on",
    )
    local_epochs: int = Field(default=1, ge=1, description="E: epochs a client and round")
    rounds: int = Field(ge=1, description="communication rounds")
    evaluate_every: int = Field(
        default=1, ge=1, description="evaluate after every so many rounds, and after the last"
    )
    precision: Precision = Field(
        default="float32",
        description="of matrix products and convolutions; tf32 needs a GPU, bf16 is autocast",
    )
    seed: int = Field(ge=0, description="names every random stream of the run")
    init_seed: int | None = Field(
        default=None, ge=0, description="seed of the initial weights; null: the run seed"
    )

    @model_validator(mode="after")
    def _lists_are_of_the_data_set(self) -> RunSpec:
        partition, name = self.partition, self.dataset.name
        if partition.scheme == "index_file" and not partition.lists.startswith(f"{name}_"):
            raise ValueError(f"partition.lists = {partition.lists} is not of the data set {name}")
        return self


def canonical_json(value: Any) -> str:
    """Return JSON with sorted keys and no spaces: equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def spec_dict(spec: RunSpec) -> dict[str, Any]:
    """Return the spec as plain JSON values with fields at their default left out."""
    return spec.model_dump(mode="json", exclude_defaults=True)


def identity(spec: dict[str, Any], versions: dict[str, int]) -> str:
    """Hash a spec (as of :func:`spec_dict`) and component versions: 12 hexadecimal digits."""
    text = canonical_json({"spec": spec, "versions": versions})
    return hashlib.sha256(text.encode()).hexdigest()[:RUN_ID_LENGTH]


def run_id(spec: RunSpec) -> str:
    """Return the identity of a run with the component versions of this code."""
    plain = spec_dict(spec)
    return identity(plain, component_versions(plain))


def partition_id(spec: RunSpec) -> str:
    """Return the identity of the run's partition: data set, scheme, parameters, seed, versions.

    The seed is left out for schemes that use none, so all seeds share one partition.
    """
    plain = spec_dict(spec)
    key: dict[str, Any] = {"dataset": plain["dataset"]["name"], "partition": plain["partition"]}
    if spec.partition.scheme not in ("balanced_percent", "index_file", "published_counts"):
        key["seed"] = spec.seed
    versions = {
        name: version
        for name, version in component_versions(plain).items()
        if name.startswith(("data.", "partition."))
    }
    return identity(key, versions)
