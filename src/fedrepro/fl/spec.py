"""What one training run is, and the identity derived from it.

A spec is a frozen, fully typed description that holds everything that changes a run's numbers and
nothing else. ``run_id`` is the hash of the canonical JSON of the spec and of the versions of the
components the spec uses (see :func:`component_versions`). A field at its default is left out of
the JSON, so a new option does not rename old runs; for the same reason a default is never changed.

Fractions are in [0, 1]. This module imports no torch: the Snakefile imports it on every call.
"""

from __future__ import annotations

import functools
import hashlib
import json
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, Field, ValidationInfo, model_validator

from fedrepro.base.configfile import nearest
from fedrepro.base.errors import FedreproError
from fedrepro.base.strict import Strict, fields_of_file
from fedrepro.fl.algorithms import ALGORITHMS, Algorithm
from fedrepro.fl.data import arrays_file, registry
from fedrepro.fl.losses import LOSS_TERMS, LossTerm
from fedrepro.fl.models import NETWORKS, Network
from fedrepro.fl.partition import SCHEMES

if TYPE_CHECKING:
    from fedrepro.fl.algorithms import AlgorithmParams
    from fedrepro.fl.partition import Scheme

RUN_ID_LENGTH = 12
TUTORIAL_CROP = 24
"""Height and width in pixels of the examples of ``transform: tutorial24``."""
MOST_FLOAT32 = 3.4028234663852886e38
"""Largest number of the type that runs are computed in."""
ENGINE_VERSION = 1
"""Raised when the numbers of all runs change."""


def _names(exists: Callable[[str], bool], known: Callable[[], Iterable[str]], what: str) -> Any:
    """Return the type of a name that is looked up, with the known names in the schema."""

    def check(name: str) -> str:
        if not exists(name):
            raise ValueError(f"unknown {what} '{name}' {nearest(name, list(known()))}")
        return name

    return Annotated[str, AfterValidator(check), _ListedInSchema(known)]


@dataclass(frozen=True)
class _ListedInSchema:
    """Lists the known names in the JSON schema; they are looked up when that is made."""

    known: Callable[[], Iterable[str]]

    def __get_pydantic_json_schema__(self, *_: Any) -> dict[str, Any]:
        """Return the schema, as pydantic asks for it."""
        return {"enum": sorted(self.known())}


def _one_of(models: Iterable[type[Strict]], tag: str) -> Any:
    """Return the type of one of several models, which a field tells apart."""
    return Annotated[functools.reduce(operator.or_, models), Field(discriminator=tag)]


if TYPE_CHECKING:
    DatasetName: TypeAlias = str
    NetworkName: TypeAlias = str
else:
    DatasetName = _names(registry.exists, registry.names, "data set")
    NetworkName = _names(NETWORKS.__contains__, lambda: NETWORKS, "network")


class DatasetSpec(Strict):
    """A data set and how its pixels reach the network."""

    name: DatasetName
    transform: Literal["unit", "centred", "standard", "tutorial24"] = Field(
        default="unit",
        description="unit: uint8 pixels / 255; centred: unit, then x - 0.5 (the TensorFlow MNIST "
        "tutorial); standard: unit, then (x - mean) / std with the constants of the data set; "
        "features are standardised when read, and unit, centred and standard leave them as they "
        "are; tutorial24: central 24x24 crop, then each image to mean 0 and standard deviation 1 "
        "(the TensorFlow CIFAR-10 tutorial, used by Zhao et al.)",
    )
    augment: bool = Field(
        default=False,
        description="training examples only. All but tutorial24: random crop after padding by 4 "
        "zero pixels, random horizontal flip; tutorial24: random 24x24 crop, random horizontal "
        "flip, random contrast between 0.2 and 1.8",
    )
    downsample: int = Field(
        default=1,
        ge=1,
        description="all transforms but tutorial24: each block of so many pixels squared becomes "
        "one, their mean, after augmentation and before the scaling",
    )

    content: str | None = Field(
        default=None,
        pattern=r"^[0-9a-f]{64}$",
        description="content hash of the data, where they are others than those that the data "
        "set's description means; null: those",
    )

    @model_validator(mode="before")
    @classmethod
    def _from_file(cls, content: Any, info: ValidationInfo) -> Any:
        """Take ``file: arrays.npz`` in place of a name."""
        return fields_of_file(content, lambda file: {"name": arrays_file.read(file).name}, info)

    def input_shape(self, stored: tuple[int, ...]) -> tuple[int, int, int]:
        """Return channels, height and width of what the network sees.

        Args:
            stored: shape of one stored example, [channels, height, width].

        Raises:
            FedreproError: the images are smaller than the crop, or cannot be cut into blocks of
                ``downsample`` pixels squared.
        """
        channels, height, width = stored
        if self.transform != "tutorial24":
            if height % self.downsample or width % self.downsample:
                raise FedreproError(
                    f"dataset.downsample: {self.name} has examples of {height}x{width} pixels, "
                    f"which blocks of {self.downsample}x{self.downsample} do not fill; choose a "
                    "divisor of both"
                )
            return channels, height // self.downsample, width // self.downsample
        if min(height, width) < TUTORIAL_CROP:
            raise FedreproError(
                f"dataset.transform: tutorial24 crops 24x24 pixels, but {self.name} has examples "
                f"of {height}x{width}; choose another"
            )
        return channels, TUTORIAL_CROP, TUTORIAL_CROP

    @model_validator(mode="after")
    def _tutorial_has_its_own_size(self) -> DatasetSpec:
        if self.transform == "tutorial24" and self.downsample > 1:
            raise ValueError("downsample goes with every transform but tutorial24")
        return self


class ModelSpec(Strict):
    """A network architecture of :mod:`fedrepro.fl.models`, or of a plugin."""

    name: NetworkName
    width: float = Field(
        default=1.0, gt=0, le=1, description="share of the hidden units and channels kept"
    )
    init: Literal["own", "glorot", "truncated_normal", "tensorflow_mnist"] = Field(
        default="own",
        description="initial weights. own: as the network draws them; glorot: kernels uniform "
        "(Glorot and Bengio 2010), biases 0, as Keras does; truncated_normal: kernels normal, "
        "standard deviation 0.1, cut at two of them, biases 0.1; tensorflow_mnist: the same, but "
        "biases of the first layer 0, as in the TensorFlow MNIST tutorial with this network",
    )


if TYPE_CHECKING:
    PartitionSpec: TypeAlias = Scheme
    AnyAlgorithm: TypeAlias = AlgorithmParams
else:
    PartitionSpec = _one_of(SCHEMES.values(), "scheme")
    AnyAlgorithm = _one_of((algorithm.params for algorithm in ALGORITHMS.values()), "name")


Precision = Literal["float32", "tf32", "bf16"]


class _StepSize(Strict):
    """The step size in round t (from 0): ``lr * lr_decay**t``, times 0.1 at each milestone."""

    lr: float = Field(gt=0)
    lr_decay: float = Field(default=1.0, gt=0, le=1, description="factor per round")
    lr_milestones: tuple[Annotated[int, Field(ge=0)], ...] = Field(
        default=(), description="rounds from which the step size is a tenth of what it was before"
    )
    clip_norm: float | None = Field(
        default=None, gt=0, description="gradients of a larger Euclidean norm are scaled down to it"
    )

    def step_size(self, round: int) -> float:
        """Return the step size in a round, counted from 0; see the class."""
        passed = sum(round >= milestone for milestone in self.lr_milestones)
        return self.lr * self.lr_decay**round * 0.1**passed


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
    algorithm: AnyAlgorithm
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
    def _partition_is_of_the_data_set(self) -> RunSpec:
        needed = self.partition.dataset
        if needed and needed != self.dataset.name:
            raise ValueError(
                f"partition {self.partition.scheme} is of the data set {needed}, not of "
                f"{self.dataset.name}"
            )
        return self

    @model_validator(mode="after")
    def _numbers_are_of_float32(self) -> RunSpec:
        for part, values in (("optimizer", self.optimizer), ("algorithm", self.algorithm)):
            for name, value in vars(values).items():
                if isinstance(value, float) and abs(value) > MOST_FLOAT32:
                    raise ValueError(f"{part}.{name}: {value} is too large for float32")
        return self

    @model_validator(mode="after")
    def _algorithm_fits(self) -> RunSpec:
        self.algorithm.require_fit(self)
        return self

    def local_steps(self, examples: int) -> int:
        """Return the steps that a client with so many examples takes a round."""
        return self.local_epochs * len(batch_sizes(examples, self.batch, self.last_batch))


def use(component: Network | Algorithm | type[Scheme]) -> str:
    """Let specs have a component that this program defines itself; return its name.

    Raises:
        FedreproError: as :meth:`fedrepro.fl.components.Registry.use`.
    """
    if isinstance(component, Network):
        return NETWORKS.use(component)
    models: Iterable[type[Strict]]
    if isinstance(component, Algorithm):
        for term in component.loss_terms:
            if isinstance(term, LossTerm):
                LOSS_TERMS.use(term)
        field, name = "algorithm", ALGORITHMS.use(component)
        models = (algorithm.params for algorithm in ALGORITHMS.values())
    else:
        field, name = "partition", SCHEMES.use(component)
        models = SCHEMES.values()
    RunSpec.model_fields[field].annotation = functools.reduce(operator.or_, models)
    RunSpec.model_rebuild(force=True)
    return name


def batch_sizes(examples: int, batch: int, last_batch: str) -> list[int]:
    """Return the sizes of the batches of one epoch.

    Args:
        examples: number of examples.
        batch: examples of a full batch.
        last_batch: the spec's rule for a smaller last one: ``keep``, ``drop`` or ``drop_single``.
    """
    full, rest = divmod(examples, batch)
    kept = {"keep": rest > 0, "drop": False, "drop_single": rest > 1}[last_batch]
    return [batch] * full + [rest] * kept


def canonical_json(value: Any) -> str:
    """Return JSON with sorted keys and no spaces: equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def spec_dict(spec: RunSpec) -> dict[str, Any]:
    """Return the spec as plain JSON values with fields at their default left out."""
    return spec.model_dump(mode="json", exclude_defaults=True)


def identity(spec: dict[str, Any], versions: Mapping[str, int | str]) -> str:
    """Hash a spec (as of :func:`spec_dict`) and component versions: 12 hexadecimal digits."""
    text = canonical_json({"spec": spec, "versions": versions})
    return hashlib.sha256(text.encode()).hexdigest()[:RUN_ID_LENGTH]


def component_names(spec: dict[str, Any]) -> tuple[str, str, str, str]:
    """Return the names of data set, partition scheme, network and algorithm of a spec.

    Specs (as of :func:`spec_dict`) with the same names have the same :func:`component_versions`.
    """
    return (
        spec["dataset"]["name"],
        spec["partition"]["scheme"],
        spec["model"]["name"],
        spec["algorithm"]["name"],
    )


def component_versions(spec: dict[str, Any]) -> dict[str, int | str]:
    """Return the versions of the components that a spec (as of :func:`spec_dict`) uses.

    A version is raised when a component's numbers change; then exactly the runs that use it get new
    ids and train again. A change that leaves the numbers alone (the golden trajectories still
    match) keeps the version: see tests/golden/test_golden.py, which notices every change of code.
    Components of other distributions add these: ``plugin.<name>`` is its version. A clone's own
    description of a data set adds a digest of its constants.

    Raises:
        FedreproError: the spec names an unknown component.
    """
    data, scheme, network, algorithm = component_names(spec)
    versions: dict[str, int | str] = {
        "engine": ENGINE_VERSION,
        f"data.{data}": registry.version(data),
        f"partition.{scheme}": SCHEMES[scheme].version,
        f"model.{network}": NETWORKS[network].version,
        f"algorithm.{algorithm}": ALGORITHMS[algorithm].version,
    }
    if constants := registry.constants(data):
        versions[f"data.{data}.constants"] = constants
    terms = ALGORITHMS[algorithm].terms
    versions |= {f"loss.{t}": LOSS_TERMS[t].version for t in terms if LOSS_TERMS[t].version > 1}
    return versions | _plugin_versions(distributions(spec).values())


def distributions(spec: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Return name and version of other distributions by the components that a spec has of them.

    Components are called as in :func:`component_versions`.

    Raises:
        FedreproError: the spec names an unknown component.
    """
    data, scheme, network, algorithm = component_names(spec)
    plugins = {
        f"data.{data}": registry.plugin(data),
        f"partition.{scheme}": SCHEMES.plugin(scheme),
        f"model.{network}": NETWORKS.plugin(network),
        f"algorithm.{algorithm}": ALGORITHMS.plugin(algorithm),
        **{f"loss.{term}": LOSS_TERMS.plugin(term) for term in ALGORITHMS[algorithm].terms},
    }
    return {name: plugin for name, plugin in plugins.items() if plugin}


def not_here(content: Mapping[str, Any]) -> list[str]:
    """Return the names of the components in a spec, valid or not, that nothing here defines."""
    known: dict[tuple[str, str], Callable[[str], bool]] = {
        ("dataset", "name"): registry.exists,
        ("partition", "scheme"): SCHEMES.__contains__,
        ("model", "name"): NETWORKS.__contains__,
        ("algorithm", "name"): ALGORITHMS.__contains__,
    }
    found = []
    for (field, key), exists in known.items():
        part = content.get(field)
        name = part.get(key) if isinstance(part, Mapping) else None
        if isinstance(name, str) and not exists(name):
            found.append(name)
    return found


def _plugin_versions(plugins: Iterable[tuple[str, str]]) -> dict[str, int | str]:
    """Return the versions of other distributions, by ``plugin.<name>``.

    Args:
        plugins: name and version of each that brings a component.
    """
    versions: dict[str, int | str] = {}
    for name, version in sorted(set(plugins)):
        key = f"plugin.{name}"  # an editable one has a digest of each module that components are in
        versions[key] = f"{versions[key]}; {version}" if key in versions else version
    return versions


def run_id(spec: RunSpec) -> str:
    """Return a run's identity with the component versions of this code, 12 hexadecimal digits."""
    plain = spec_dict(spec)
    return identity(plain, component_versions(plain))


def partition_id(spec: RunSpec) -> str:
    """Return the identity of the run's partition, 12 hexadecimal digits.

    It is of data set, scheme, parameters, seed and versions, those of other distributions that
    bring the data set or the scheme included. The seed is left out for schemes that use none, so
    all seeds share one partition.
    """
    plain = spec_dict(spec)
    key: dict[str, Any] = {"dataset": plain["dataset"]["name"], "partition": plain["partition"]}
    if spec.dataset.content:
        key["content"] = spec.dataset.content
    if spec.partition.seeded and spec.partition.seed is None:
        key["seed"] = spec.seed
    versions = {
        name: version
        for name, version in component_versions(plain).items()
        if name.startswith(("data.", "partition."))
    }
    plugins = [
        plugin
        for name, plugin in distributions(plain).items()
        if name.startswith(("data.", "partition."))
    ]
    return identity(key, versions | _plugin_versions(plugins))
