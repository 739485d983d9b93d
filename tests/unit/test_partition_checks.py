"""What a scheme of one's own gives is checked before anything is trained on it."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest

from fedrepro.base.errors import FedreproError
from fedrepro.fl.partition import Cut, Labelled, NodeSets, Partition, Scheme, build_partition

LABELS = np.arange(20, dtype=np.int64) % 10
HALF = np.arange(10)


def cut_of(clients: Any, **others: Any) -> Partition:
    """Build the partition of a scheme for two clients that gives just this."""

    class Given(Scheme):
        scheme: Literal["given"] = "given"
        clients: int = 2  # type: ignore[assignment]

        def cut(self, data: Labelled, rng: np.random.Generator) -> Cut:
            return Cut(clients, **others)

    return build_partition(Given(), LABELS, LABELS[:5], 10, seed=0)


@pytest.mark.parametrize("kind", [list, np.int32, np.uint8, np.int64])
def test_positions_of_every_kind_of_integer_are_int64(kind: Any) -> None:
    one = HALF.tolist() if kind is list else HALF.astype(kind)
    partition = cut_of([one, one[:5]], validation=one)
    assert [part.dtype for part in partition.clients] == [np.int64, np.int64]
    assert partition.clients[0].tolist() == partition.validation.tolist() == HALF.tolist()
    assert partition.counts.sum(axis=1).tolist() == [10, 5]


@pytest.mark.parametrize(
    ("clients", "others", "text"),
    [
        ((HALF,), {}, "gives 1 clients, not 2"),
        ((HALF, LABELS < 5), {}, "gives client 1 array.*, not positions, int64"),
        ((HALF, HALF.astype(float)), {}, "gives client 1 array.*, not positions, int64"),
        ((HALF, HALF[None]), {}, "gives client 1 array.*, not positions, int64"),
        ((HALF, HALF + 11), {}, "gives client 1 an example that the 20 of the split do not have"),
        ((HALF, HALF - 1), {}, "gives client 1 an example that the 20"),
        ((HALF, HALF), {"server": HALF * 100}, "gives server an example that the 20"),
        ((HALF, HALF), {"shared": HALF * 100}, "gives shared an example that the 20"),
        ((HALF, HALF), {"validation": HALF - 1}, "gives validation an example that the 20"),
        (
            (HALF, HALF),
            {"node_sets": {"own": NodeSets("test", (HALF, HALF))}},
            "gives node set own an example that the 5 of the split do not have",
        ),
        (
            (HALF, HALF),
            {"node_sets": {"own": NodeSets("valid", (HALF, HALF))}},  # type: ignore[arg-type]
            "gives node set own the split 'valid', not train or test",
        ),
        (
            (HALF, HALF),
            {"node_sets": {"own": NodeSets("train", (HALF,))}},
            "gives node set own 1 parts, not 2",
        ),
        (
            (HALF, HALF),
            {"node_sets": {"own": NodeSets("train", (HALF, HALF[:0]))}},
            "gives node set own a part without an example",
        ),
    ],
)
def test_what_is_not_a_cut_of_the_data_set_is_refused(clients: Any, others: Any, text: str) -> None:
    with pytest.raises(FedreproError, match=f"partition.scheme: 'given' {text}"):
        cut_of(clients, **others)
