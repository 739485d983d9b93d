from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrepro.fl import streams

seeds = st.integers(0, 2**63 - 1)


def splitmix64(state: int, count: int) -> list[int]:
    """The generator as published, in plain integers, one value after the other."""
    mask, values = 2**64 - 1, []
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) & mask
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        values.append(z ^ (z >> 31))
    return values


def test_bits_are_splitmix64() -> None:
    for stream in (0, 1, 2**64 - 1, 1234567):
        assert streams.bits(stream, 20).tolist() == splitmix64(stream, 20)
    assert streams.bits(1234567, 3).tolist() == [  # the reference values of the literature
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
    ]


def test_pinned_values() -> None:
    assert streams.key(0, "shuffle", 3, 7) == 7350091855282728483
    assert streams.permutation(streams.key(0, "shuffle", 3, 7), 8).tolist() == [
        1,
        4,
        3,
        6,
        5,
        2,
        7,
        0,
    ]
    assert streams.choice(streams.key(1, "participants", 0), 10, 3).tolist() == [1, 3, 4]
    assert streams.generator(0, "partition").integers(0, 100, 5).tolist() == [42, 65, 73, 0, 5]


@given(seeds, st.integers(0, 300))
def test_a_permutation_is_a_permutation(stream: int, size: int) -> None:
    order = streams.permutation(stream, size)
    assert order.dtype == np.int64
    assert sorted(order.tolist()) == list(range(size))


@given(seeds, st.integers(1, 100), st.data())
def test_a_choice_is_distinct_and_ascending(stream: int, population: int, data: st.DataObject):
    size = data.draw(st.integers(0, population))
    chosen = streams.choice(stream, population, size).tolist()
    assert len(chosen) == size
    assert chosen == sorted(set(chosen))
    assert all(0 <= member < population for member in chosen)


def test_a_longer_stream_starts_like_a_shorter_one() -> None:
    assert streams.bits(5, 100)[:10].tolist() == streams.bits(5, 10).tolist()


def test_all_parts_of_a_name_count() -> None:
    names = [(0, "a"), (1, "a"), (0, "b"), (0, "a", 0), (0, "a", 1), (0, "a", 0, 1), (0, "a", 1, 0)]
    assert len({streams.key(*name) for name in names}) == len(names)


def test_permutations_are_even() -> None:
    """Each of the six orders of three comes up about as often as the others."""
    counts: dict[tuple[int, ...], int] = {}
    for i in range(6000):
        order = tuple(streams.permutation(streams.key(0, "even", i), 3).tolist())
        counts[order] = counts.get(order, 0) + 1
    assert len(counts) == 6
    assert min(counts.values()) == pytest.approx(1000, abs=130)  # 4.5 standard deviations
    assert max(counts.values()) == pytest.approx(1000, abs=130)
