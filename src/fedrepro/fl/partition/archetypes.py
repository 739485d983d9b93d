"""Devices of archetypes: every archetype has a label distribution, devices of one share it.

Kopparapu, Lin, Zhao 2020, sections 3.2 and 3.3. A device draws its training, validation and test
images by the same distribution, without replacement within each set, and independently of the
other devices: two devices may hold the same image.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

import numpy as np
from pydantic import Field, model_validator

from fedrepro.base.errors import FedreproError
from fedrepro.fl.partition.scheme import Cut, Labelled, NodeSets, Scheme
from fedrepro.fl.partition.shared import Clients, Indices, check_labels

if TYPE_CHECKING:
    from fedrepro.fl.data import DatasetInfo


Draw: TypeAlias = Callable[[list[Indices], int, np.random.Generator], Indices]
"""Draws one set: from the positions of each label's images and a number of images to draw to
ascending positions, int64 [number or, if ``overflow`` drops some, fewer]."""

TRIES = 10_000
"""Draws of a set after which its labels count as too rare to be drawn again and again."""

SLACK = 1e-9
"""``floor(0.29 * 100)`` is to be 29, although the product is a little less in floating point."""


@dataclass(frozen=True)
class Sizes:
    """Number of images that a device draws for each of its sets."""

    train: int
    validation: int
    test: int


@dataclass(frozen=True)
class Devices:
    """The devices' images: ascending positions, one array a device.

    Attributes:
        train: in the training split.
        validation: in the training split.
        test: in the test split.
    """

    train: Clients
    validation: Clients
    test: Clients


def draw_devices(
    train_labels: Indices,
    test_labels: Indices,
    classes: int,
    devices: Sequence[Draw],
    sizes: Sizes,
    validation_pool: int | None,
    rng: np.random.Generator,
) -> Devices:
    """Draw all devices' images.

    Args:
        train_labels: int64 [train], class numbers from 0.
        test_labels: int64 [test], likewise.
        classes: number of classes.
        devices: how each device draws.
        sizes: images a device draws for each set.
        validation_pool: training images set aside for validation, the same number of each class;
            None: both sets are drawn from all training images, and may overlap (as run).
        rng: draws the pool, class by class, then device by device its three sets.

    Raises:
        FedreproError: there are too few images, in all or of a label, the pool does not divide
            evenly, or a device ends up without images in one of its sets.
    """
    check_labels(train_labels)
    check_labels(test_labels)
    for name, count, labels in (
        ("train", sizes.train, train_labels),
        ("validation", sizes.validation, train_labels),
        ("test", sizes.test, test_labels),
    ):
        if count > labels.size:
            raise FedreproError(
                f"partition.{name} must be at most the {labels.size} images that there are, got "
                f"{count}"
            )
    training = [np.flatnonzero(train_labels == label) for label in range(classes)]
    test = [np.flatnonzero(test_labels == label) for label in range(classes)]
    validation = training
    if validation_pool is not None:
        training, validation = _split(training, validation_pool, rng)
    drawn = [
        (
            draw(training, sizes.train, rng),
            draw(validation, sizes.validation, rng),
            draw(test, sizes.test, rng),
        )
        for draw in devices
    ]
    for device, parts in enumerate(drawn):
        for name, part in zip(("train", "validation", "test"), parts, strict=True):
            if not part.size:
                raise FedreproError(
                    f"device {device} draws no image for its {name} set, as all labels it draws "
                    f"are beyond the last; raise partition.{name}"
                )
    return Devices(*zip(*drawn, strict=True))


def _split(
    members: list[Indices], pool: int, rng: np.random.Generator
) -> tuple[list[Indices], list[Indices]]:
    """Set the same number of images of every label aside; return what is left, and the pool."""
    aside, rest = divmod(pool, len(members))
    smallest = min(member.size for member in members)
    if rest or aside >= smallest:
        raise FedreproError(
            f"validation_pool must be a multiple of the {len(members)} classes and leave images of "
            f"each (the smallest class has {smallest}), got {pool}"
        )
    shuffled = [rng.permutation(member) for member in members]
    return [order[aside:] for order in shuffled], [order[:aside] for order in shuffled]


def _take(members: Indices, count: int, what: str, rng: np.random.Generator) -> Indices:
    if count > members.size:
        raise FedreproError(
            f"a device needs {count} images of {what}, and there are {members.size}; lower the "
            "bias or the images per device"
        )
    return rng.choice(members, count, replace=False)


def archetype_of(device: int, devices: int, archetypes: int) -> int:
    """Return a device's archetype, ``device * archetypes // devices``."""
    return device * archetypes // devices


def _check_devices(devices: int, archetypes: int) -> None:
    if devices < 1 or devices % archetypes:
        raise FedreproError(
            f"clients must be a multiple of the {archetypes} archetypes, got {devices}"
        )


def hierarchical(
    devices: int,
    archetypes: int,
    meta_archetypes: int,
    bias: tuple[float, float],
    others: Literal["pooled", "equal"],
    rng: np.random.Generator,
) -> list[Draw]:
    """Return how devices of hierarchical archetypes draw (section 3.2).

    Archetype a is label a; consecutive archetypes form a meta-archetype. Of n images a device with
    bias b draws ``floor(b n)`` of its archetype's label, and the rest from the other labels of the
    meta-archetype. Each device's b is drawn once, for all its sets.

    Args:
        devices: a multiple of ``archetypes``.
        archetypes: number of labels used, a multiple of ``meta_archetypes``.
        meta_archetypes: number of groups of labels.
        bias: lowest and highest b, 0..1; b is uniform between them.
        others: draw the rest from the pooled images of the other labels (as run), or the same
            number of each, within one (as written).
        rng: draws the biases, in device order.

    Raises:
        FedreproError: the numbers do not fit each other.
    """
    _check_devices(devices, archetypes)
    together, rest = divmod(archetypes, meta_archetypes)
    if rest or together < 2:
        raise FedreproError(
            f"archetypes must be a multiple of the {meta_archetypes} meta-archetypes, with at "
            f"least 2 in each, got {archetypes}"
        )
    draws: list[Draw] = []
    for device, share in enumerate(rng.uniform(*bias, size=devices)):
        label = archetype_of(device, devices, archetypes)
        first = label // together * together
        other = [k for k in range(first, first + together) if k != label]
        draws.append(_biased(label, other, float(share), others))
    return draws


def _biased(
    label: int, others: Sequence[int], share: float, how: Literal["pooled", "equal"]
) -> Draw:
    def draw(members: list[Indices], count: int, rng: np.random.Generator) -> Indices:
        own = math.floor(share * count + SLACK)
        parts = [_take(members[label], own, f"label {label}", rng)]
        if how == "pooled":
            pooled = np.concatenate([members[k] for k in others])
            parts.append(_take(pooled, count - own, f"labels {list(others)}", rng))
        else:
            each, left = divmod(count - own, len(others))
            parts += [
                _take(members[k], each + (place < left), f"label {k}", rng)
                for place, k in enumerate(others)
            ]
        return np.sort(np.concatenate(parts))

    return draw


def hypergeometric(
    devices: int,
    population: int,
    successes: Sequence[int],
    draws: int,
    overflow: Literal["drop", "redraw"],
) -> list[Draw]:
    """Return how devices of hypergeometric archetypes draw (section 3.3).

    The label of an image is the number of successes among ``draws`` drawn from a population with
    ``successes[a]`` of them, for archetype a.

    Args:
        devices: a multiple of the number of archetypes.
        population: N, size of the population.
        successes: K of each archetype, successes in the population.
        draws: n, number of draws without replacement.
        overflow: what to do with a label beyond the last one: drop leaves the image out, so that
            the device has fewer (as run); redraw draws again.

    Raises:
        FedreproError: the numbers do not fit each other.
    """
    _check_devices(devices, len(successes))
    if draws > population or not all(0 <= k <= population for k in successes):
        raise FedreproError(
            f"successes and draws must be at most the population of {population}, got "
            f"{list(successes)} and {draws}"
        )
    return [
        _counted(
            population,
            successes[archetype_of(device, devices, len(successes))],
            draws,
            redraw=overflow == "redraw",
        )
        for device in range(devices)
    ]


def _counted(population: int, successes: int, draws: int, *, redraw: bool) -> Draw:
    def draw(members: list[Indices], count: int, rng: np.random.Generator) -> Indices:
        if max(0, draws + successes - population) >= len(members):
            raise FedreproError(
                f"{successes} successes in {population} never give one of the {len(members)} "
                f"labels in {draws} draws"
            )
        labels = np.zeros(0, dtype=np.int64)
        for _ in range(TRIES):
            found = rng.hypergeometric(successes, population - successes, draws, size=count)
            labels = np.concatenate([labels, found[found < len(members)]])
            if not redraw or labels.size >= count:
                return _of_labels(members, labels[:count], rng)
        raise FedreproError(
            f"{successes} successes in {population} hardly ever give one of the {len(members)} "
            f"labels in {draws} draws; lower partition.draws or successes"
        )

    return draw


def _of_labels(members: list[Indices], labels: Indices, rng: np.random.Generator) -> Indices:
    """Take as many images of every label as it occurs in ``labels``."""
    counts = np.bincount(labels, minlength=len(members))
    parts = [
        _take(member, int(count), f"label {label}", rng)
        for label, (member, count) in enumerate(zip(members, counts, strict=True))
    ]
    return np.sort(np.concatenate(parts))


class _Devices(Scheme):
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

    def _draws(self, rng: np.random.Generator) -> Sequence[Draw]:
        """Return how each device draws its images."""
        raise NotImplementedError

    def cut(self, data: Labelled, rng: np.random.Generator) -> Cut:
        """Draw the images of every device (sections 3.2 and 3.3).

        The devices' test sets are ``test`` and ``validation``, drawn as their training images are.
        The cut's ``validation`` is the union of the validation sets; with ``shared`` pools, devices
        may also train on these images.

        Raises:
            FedreproError: as :func:`draw_devices`, or the parameters do not fit each other.
        """
        devices = draw_devices(
            data.train,
            data.test,
            data.classes,
            self._draws(rng),
            Sizes(self.train, self.validation, self.test),
            self.validation_pool if self.pools == "disjoint" else None,
            rng,
        )
        node_sets = {
            "test": NodeSets("test", devices.test),
            "validation": NodeSets("train", devices.validation),
        }
        validation = np.unique(np.concatenate(devices.validation))
        return Cut(devices.train, validation=validation, node_sets=node_sets)

    def examples(self, info: DatasetInfo) -> float:
        """Return how many training examples the devices hold together."""
        return self.clients * self.train

    def evaluated(self, info: DatasetInfo) -> float:
        """Return how many examples an evaluation predicts."""
        return self.clients * (self.test + self.validation)


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

    example: ClassVar = {
        "scheme": "hierarchical",
        "clients": 10,
        "train": 20,
        "validation": 20,
        "test": 20,
        "validation_pool": 500,
    }

    @model_validator(mode="after")
    def _low_is_not_above_high(self) -> Hierarchical:
        if self.bias_low > self.bias_high:
            raise ValueError("bias_low must be at most bias_high")
        return self

    def cut(self, data: Labelled, rng: np.random.Generator) -> Cut:
        """Cut as :meth:`_Devices.cut` does.

        Raises:
            FedreproError: there are fewer classes than archetypes; or as it does.
        """
        if self.archetypes > data.classes:
            raise FedreproError(
                f"partition.archetypes: {self.archetypes}, each with a favourite label of its own, "
                f"but the data have {data.classes} classes; lower it"
            )
        return super().cut(data, rng)

    def _draws(self, rng: np.random.Generator) -> Sequence[Draw]:
        one = self.bias
        bounds = (self.bias_low, self.bias_high) if one is None else (one, one)
        return hierarchical(
            self.clients, self.archetypes, self.meta_archetypes, bounds, self.others, rng
        )


class Hypergeometric(_Devices):
    """Archetypes along an axis: labels are numbers of successes (section 3.3)."""

    scheme: Literal["hypergeometric"]
    population: int = Field(default=110, ge=1, lt=1_000_000_000, description="N")
    successes: tuple[int, ...] = Field(
        default=(5, 25, 45, 65, 85, 105), min_length=1, description="K of each archetype"
    )
    draws: int = Field(default=10, ge=0, description="n")
    overflow: Literal["drop", "redraw"] = Field(
        default="drop", description="an image whose label does not exist: left out, or drawn again"
    )

    example: ClassVar = {
        "scheme": "hypergeometric",
        "clients": 6,
        "train": 20,
        "validation": 20,
        "test": 20,
        "pools": "shared",
    }

    def _draws(self, rng: np.random.Generator) -> Sequence[Draw]:
        return hypergeometric(
            self.clients, self.population, self.successes, self.draws, self.overflow
        )
