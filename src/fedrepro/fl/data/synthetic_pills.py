"""Made-up pictures of pills: a stand-in for the private PILL images of Nguyen et al. 2023.

They look like no real pill and no published number can be held against them; they let the whole
path run: 15 labels with as many images as PILL has of each, the published counts of the clients,
ResNet-18. A class is a shape, one or two colours and a mark (:data:`LOOKS`). An example is that
pill at a random place, angle and size, its colour tinted, under slanted light, on a greyish tray,
with pixel noise. Numbers come from the streams of :mod:`fedrepro.fl.data.synthetic` and
arithmetic is on integers, so the content hash is stable and pinned in its description.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedrepro.fl.data.dataset import Arrays
from fedrepro.fl.data.registry import DatasetInfo, require_known
from fedrepro.fl.data.synthetic import octets, words

Values = NDArray[np.int32]

PIXEL = 64
"""Parts of a pixel that lengths are measured in; coverage, sizes and weights are in 256ths."""

ANGLES = 256
_TURN = [2 * math.pi * k / ANGLES for k in range(ANGLES)]
COS = np.array([round(1024 * math.cos(angle)) for angle in _TURN], dtype=np.int32)
SIN = np.array([round(1024 * math.sin(angle)) for angle in _TURN], dtype=np.int32)

PLACE, TINT, NOISE = 3, 24, 40
"""Largest shift along an axis (pixels), largest tint and largest noise (of 255)."""


@dataclass(frozen=True)
class Shape:
    """All points nearer than ``radius`` to a segment of half length ``half``, squeezed.

    Attributes:
        half: half length of the straight part, along the pill.
        radius: lengths as in :data:`PIXEL`.
        squeeze: factor on the distance across the pill, in 256ths; above 256 it makes an oval.
    """

    half: int
    radius: int
    squeeze: int = 256


ROUND = Shape(0, 9 * PIXEL)
OBLONG = Shape(6 * PIXEL, 5 * PIXEL)
OVAL = Shape(0, 11 * PIXEL, 420)

WHITE, YELLOW, PINK = (228, 226, 218), (226, 206, 120), (222, 160, 164)
GREEN, RED, ORANGE = (110, 160, 120), (182, 84, 78), (220, 150, 90)
Colour = tuple[int, int, int]


@dataclass(frozen=True)
class Look:
    """What the pills of a class have in common.

    Attributes:
        shape: the outline.
        colours: of the two halves.
        mark: "" or what is pressed into it: score (across), bar (along), cross, dot.
    """

    shape: Shape
    colours: tuple[Colour, Colour]
    mark: str = ""


LOOKS: dict[str, Look] = {
    "white round": Look(ROUND, (WHITE, WHITE)),
    "white round, scored": Look(ROUND, (WHITE, WHITE), "score"),
    "white round, crossed": Look(ROUND, (WHITE, WHITE), "cross"),
    "white oblong": Look(OBLONG, (WHITE, WHITE)),
    "white oblong, scored": Look(OBLONG, (WHITE, WHITE), "score"),
    "white oval, barred": Look(OVAL, (WHITE, WHITE), "bar"),
    "yellow round": Look(ROUND, (YELLOW, YELLOW)),
    "yellow round, scored": Look(ROUND, (YELLOW, YELLOW), "score"),
    "yellow oblong": Look(OBLONG, (YELLOW, YELLOW)),
    "pink round, dotted": Look(ROUND, (PINK, PINK), "dot"),
    "pink oblong, scored": Look(OBLONG, (PINK, PINK), "score"),
    "pink oval": Look(OVAL, (PINK, PINK)),
    "green and white capsule": Look(OBLONG, (GREEN, WHITE)),
    "red and yellow capsule": Look(OBLONG, (RED, YELLOW)),
    "orange oval, scored": Look(OVAL, (ORANGE, ORANGE), "score"),
}
"""Class name -> look, in the order of the labels."""


def generate(info: DatasetInfo) -> Arrays:
    """Make the data set ``info`` describes: as many examples of each label as it says.

    Raises:
        FedreproError: it names a class that has no look.
    """
    for name in info.class_names:
        require_known(name, tuple(LOOKS), f"class of data set {info.name!r}")
    looks = [LOOKS[name] for name in info.class_names]
    train_x, train_y = _split(info, "train", looks, info.train_per_class)
    test_x, test_y = _split(info, "test", looks, info.test_per_class)
    return Arrays(train_x, train_y, test_x, test_y)


def _split(
    info: DatasetInfo, split: str, looks: list[Look], per_class: tuple[int, ...]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Make one side of the split, labels in random order."""
    _, height, width = info.shape
    key = f"{info.name} {split}"
    order = np.argsort(words(f"{key} order", sum(per_class)), kind="stable")
    y = np.repeat(np.arange(info.classes, dtype=np.int64), per_class)[order]
    x = np.empty((len(y), *info.shape), dtype=np.uint8)
    for label, look in enumerate(looks):
        mine = y == label
        x[mine] = _draw(look, f"{key} {label}", per_class[label], height, width)
    return x, y


def _draw(look: Look, key: str, count: int, height: int, width: int) -> NDArray[np.uint8]:
    """Draw ``count`` examples of a look: uint8 [count, 3, height, width]."""
    one = (count, 1, 1)
    moves = ((octets(f"{key} place", (count, 2)) - 128) * PLACE * PIXEL) >> 7
    turn = octets(f"{key} angle", one)
    size = 216 + ((octets(f"{key} size", one) * 80) >> 8)
    down: Values = (np.arange(height, dtype=np.int32) * 2 + 1 - height) * (PIXEL // 2)
    right: Values = (np.arange(width, dtype=np.int32) * 2 + 1 - width) * (PIXEL // 2)
    dy: Values = down[None, :, None] - moves[:, 0].reshape(one)
    dx: Values = right[None, None, :] - moves[:, 1].reshape(one)
    cos: Values = COS[turn]
    sin: Values = SIN[turn]
    along = ((dx * cos + dy * sin) >> 10) * 256 // size
    across = ((dy * cos - dx * sin) >> 10) * 256 // size

    distance = _length(np.maximum(abs(along) - look.shape.half, 0), across * look.shape.squeeze)
    cover = _soft(look.shape.radius - distance)
    depth = 256 - ((_marked(look, along, across) * (72 + octets(f"{key} depth", one) // 4)) >> 8)
    lit = octets(f"{key} light angle", one)
    slope = ((down[None, :, None] * SIN[lit] + right[None, None, :] * COS[lit]) >> 10) // 20
    light = 176 + octets(f"{key} light", one) * 5 // 16 + slope
    grey = 30 + octets(f"{key} tray", (count, 1)) * 110 // 255
    tray = grey + octets(f"{key} tray colour", (count, 3)) * 24 // 255
    tint = ((octets(f"{key} tint", (count, 3)) - 128) * TINT) >> 7
    noise = ((octets(f"{key} noise", (count, 3, height, width)) - 128) * NOISE) >> 8

    x = np.empty((count, 3, height, width), dtype=np.uint8)
    for channel in range(3):
        first, second = (colour[channel] for colour in look.colours)
        painted: Values = np.where(along > 0, first, second).astype(np.int32)
        pill = ((painted + tint[:, channel].reshape(one)) * depth) >> 8
        mixed = (pill * cover + tray[:, channel].reshape(one) * (256 - cover)) >> 8
        x[:, channel] = np.clip(((mixed * light) >> 8) + noise[:, channel], 0, 255)
    return x


def _length(along: Values, across: Values) -> Values:
    """Return the distance from the pill's straight part; ``across`` is in 256ths."""
    squares = along.astype(np.int64) ** 2 + (across.astype(np.int64) >> 8) ** 2
    return np.sqrt(squares.astype(np.float64)).astype(np.int32)  # exact roots, rounded down


def _soft(inside: Values) -> Values:
    """Return how much of a pixel is covered whose centre is so far inside an edge, 0 to 256."""
    return np.clip(inside * 256 // PIXEL + 128, 0, 256)


def _marked(look: Look, along: Values, across: Values) -> Values:
    """Return how much of each pixel the mark covers, 0 to 256."""
    thin = 5 * PIXEL // 4
    score, bar = _soft(thin - abs(along)), _soft(thin - abs(across))
    if look.mark == "score":
        return score
    if look.mark == "bar":
        return np.minimum(bar, _soft(7 * PIXEL - abs(along)))
    if look.mark == "cross":
        return np.maximum(score, bar)
    if look.mark == "dot":
        return _soft(3 * PIXEL - _length(along, across * 256))
    return np.zeros_like(along)
