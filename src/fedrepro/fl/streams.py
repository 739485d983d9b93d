"""Counter-based random streams: every draw is a pure function of named keys.

Shuffling, participation, noise and masks never come from a global generator, so a run's numbers
do not depend on what else is trained beside it, on the order of execution or on a resume.

A stream is a 64-bit key derived from ``(run seed, purpose, ids...)`` by SHA-256. Its ``i``-th value
is SplitMix64 (Steele, Lea, Flood 2014) read as a counter-based generator:
``mix(key + (i + 1) * golden)``. Only integer additions, shifts and multiplications are used, so the
same values can be computed on any device, and no library version can change them.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


def key(seed: int, purpose: str, *ids: int | str) -> int:
    """Return the key of the stream named by the run seed, a purpose and ids, ``0..2^64 - 1``."""
    name = "/".join(str(part) for part in (seed, purpose, *ids))
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")


def bits(stream: int, size: int) -> NDArray[np.uint64]:
    """Return the first ``size`` values of a stream, given its key, uint64 [size]."""
    z = np.uint64(stream) + np.arange(1, size + 1, dtype=np.uint64) * _GOLDEN
    z = (z ^ (z >> np.uint64(30))) * _MIX_1
    z = (z ^ (z >> np.uint64(27))) * _MIX_2
    return z ^ (z >> np.uint64(31))


def permutation(stream: int, size: int) -> NDArray[np.int64]:
    """Return a random order of ``0..size-1``, int64 [size]: the order that sorts the stream."""
    return np.argsort(bits(stream, size)).astype(np.int64, copy=False)


def choice(stream: int, population: int, size: int) -> NDArray[np.int64]:
    """Draw ``size`` of the ids ``0..population-1`` without replacement, ascending, int64 [size]."""
    return np.sort(permutation(stream, population)[:size])


def participants(seed: int, t: int, clients: int, count: int) -> NDArray[np.int64]:
    """Draw the ``count`` of a run's clients that take part in round ``t`` (from 0), ascending."""
    return choice(key(seed, "participants", t), clients, count)


def generator(seed: int, purpose: str, *ids: int | str) -> np.random.Generator:
    """Return a NumPy generator (Philox) for a named purpose, for code that needs its laws."""
    return np.random.Generator(np.random.Philox(key=key(seed, purpose, *ids)))
