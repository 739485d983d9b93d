"""Made-up images for smoke runs and tests: seeded, and the same bytes on every machine.

A class is a smooth random pattern. An example is its class's pattern, shifted by up to two
pixels, mixed with a smooth pattern of its own and with pixel noise; what is darker than a
threshold becomes black, as most of a handwritten digit's image is. All random numbers are raw
64-bit output of Philox, whose stream NumPy guarantees (unlike that of ``Generator`` methods), and
all arithmetic is on integers, so the content hash is stable and pinned in its description.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from fedrepro.base.errors import FedreproError
from fedrepro.fl.data.dataset import Arrays
from fedrepro.fl.data.registry import DatasetInfo

CELL = 4
"""Side of a cell of the coarse grids, in pixels; height and width are multiples of it."""

SHIFT = 2
"""Largest shift of an example's pattern along each axis, in pixels."""

PATTERN, OWN, NOISE = 120, 88, 48
"""Weights of class pattern, own pattern and pixel noise, of 256."""

THRESHOLD, CONTRAST = 140, 5
"""A mixed value v of 0-255 becomes the pixel CONTRAST * (v - THRESHOLD), clipped to 0-255."""


def generate(info: DatasetInfo) -> Arrays:
    """Make the data set ``info`` describes: its shape, classes and examples per class.

    Raises:
        FedreproError: the cells of a pattern do not fill its shape.
    """
    channels, height, width = info.shape
    if height % CELL or width % CELL:
        raise FedreproError(
            f"data set {info.name!r}: shape: {height}x{width} pixels, which cells of {CELL}x{CELL} "
            f"do not fill; give multiples of {CELL}"
        )
    grid = (channels, height // CELL, width // CELL)
    patterns = _smooth(octets(f"{info.name} patterns", (info.classes, *grid)))
    train_x, train_y = _split(info, "train", patterns, info.train_per_class)
    test_x, test_y = _split(info, "test", patterns, info.test_per_class)
    return Arrays(train_x, train_y, test_x, test_y)


def _split(
    info: DatasetInfo, split: str, patterns: NDArray[np.int32], per_class: tuple[int, ...]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Make the examples of one side of the split, classes in random order.

    ``patterns``: int32 [classes, channels, height, width], 0-255.
    """
    count = sum(per_class)
    channels, height, width = info.shape
    key = f"{info.name} {split}"
    order = np.argsort(words(f"{key} order", count), kind="stable")
    y = np.repeat(np.arange(info.classes, dtype=np.int64), per_class)[order]
    moves = octets(f"{key} shifts", (count, 2)) % (2 * SHIFT + 1) - SHIFT
    rows = (np.arange(height) - moves[:, :1]) % height
    columns = (np.arange(width) - moves[:, 1:]) % width
    shifted = patterns[
        y[:, None, None, None],
        np.arange(channels)[None, :, None, None],
        rows[:, None, :, None],
        columns[:, None, None, :],
    ]
    own = _smooth(octets(f"{key} own", (count, channels, height // CELL, width // CELL)))
    noise = octets(f"{key} noise", (count, channels, height, width))
    mixed = (PATTERN * shifted + OWN * own + NOISE * noise) >> 8
    return np.clip(CONTRAST * (mixed - THRESHOLD), 0, 255).astype(np.uint8), y


def _smooth(grid: NDArray[np.int32]) -> NDArray[np.int32]:
    """Enlarge the last two axes ``CELL`` times by linear interpolation, wrapping around."""
    weights = np.arange(CELL, dtype=np.int32)
    for axis in (-2, -1):
        here = np.moveaxis(grid, axis, -1)[..., None]
        after = np.roll(here, -1, axis=-2)
        fine = (here * (CELL - weights) + after * weights) // CELL
        grid = np.moveaxis(fine.reshape(*fine.shape[:-2], -1), -1, axis)
    return grid


def octets(purpose: str, shape: tuple[int, ...]) -> NDArray[np.int32]:
    """Return numbers from 0 to 255 of the stream of ``purpose``, int32 [*shape]."""
    count = int(np.prod(shape))
    values = words(purpose, -(-count // 8)).astype("<u8").view(np.uint8)[:count]
    return values.astype(np.int32).reshape(shape)


def words(purpose: str, count: int) -> NDArray[np.uint64]:
    """Return raw 64-bit words of the stream of ``purpose``, uint64 [count]."""
    key = int.from_bytes(hashlib.sha256(f"fedrepro {purpose}".encode()).digest()[:16], "little")
    return np.random.Philox(key=key).random_raw(count)
