"""What a scheme of one's own gives is checked before anything is trained on it."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest

from fedrepro.base.errors import FedreproError
from fedrepro.fl.data import describe
from fedrepro.fl.partition import (
    SCHEMES,
    Cut,
    Labelled,
    NodeSets,
    Partition,
    Scheme,
    build_partition,
)

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
        ((HALF, []), {}, "gives client 1 no example; every client needs one"),
        ((HALF, [1, [2]]), {}, r"gives client 1 \[1, \[2\]\], not positions, int64"),
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


@pytest.mark.parametrize("made", [None, (HALF, HALF)])
def test_what_is_no_cut_at_all_is_refused(made: Any) -> None:
    class Given(Scheme):
        scheme: Literal["given"] = "given"
        clients: int = 2

        def cut(self, data: Labelled, rng: np.random.Generator) -> Cut:
            return made  # type: ignore[no-any-return]

    with pytest.raises(FedreproError, match=r"'given' gives .*, not a Cut$"):
        build_partition(Given(), LABELS, LABELS[:5], 10, seed=0)


def test_clients_may_come_from_a_generator() -> None:
    assert len(cut_of(part for part in (HALF, HALF)).clients) == 2


def test_a_scheme_cannot_change_the_labels_that_are_trained_on() -> None:
    class Sorting(Scheme):
        scheme: Literal["sorting"] = "sorting"
        clients: int = 1

        def cut(self, data: Labelled, rng: np.random.Generator) -> Cut:
            data.train.sort()
            return Cut((HALF,))

    labels = LABELS[::-1].copy()
    with pytest.raises(ValueError, match="read-only"):
        build_partition(Sorting(), labels, LABELS[:5], 10, seed=0)
    assert labels.tolist() == LABELS[::-1].tolist()


@pytest.mark.parametrize("clients", [10**6, 10**12])
@pytest.mark.parametrize(
    "name", ["balanced_percent", "class_blocks", "main_cluster", "pareto_labels"]
)
def test_more_clients_than_examples_are_refused_before_anything_is_made(
    name: str, clients: int
) -> None:
    scheme = SCHEMES[name]
    content = {"scheme": name, **scheme.example, "clients": clients}
    labels = np.arange(1000) % 10
    if name == "balanced_percent":
        content |= {"validation": 0, "clients": 3 * clients}
    with pytest.raises(FedreproError, match=r"clients must be in 1\.\.1000 \(one example each"):
        build_partition(scheme.model_validate(content), labels, labels, 10, 0)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"scheme": "emd_shift", "per_class": 10**20}, r"per_class must be in 1\.\.100, .*0{20}$"),
        ({"scheme": "main_cluster", "per_label": 10**20}, "too few examples for its clients"),
        ({"scheme": "main_cluster", "spread": 1e300}, "too few examples for its clients"),
        ({"scheme": "label_clusters", "clusters": [2**30] * 5}, r"clients must be in 1\.\.1000 "),
        ({"scheme": "pareto_labels", "budget": 10**20}, "too few examples for its clients"),
        ({"scheme": "pareto_labels", "budget": 10**20, "shared": True}, "lower budget"),
        ({"scheme": "pareto_labels", "shape": 1e-4}, r"shape 0\.0001 draws numbers beyond"),
        ({"scheme": "pareto_labels", "draws": 1000}, "more than the 1000 examples, got 1000 each"),
    ],
)
def test_numbers_beyond_all_measure_are_refused_as_such(changes: dict[str, Any], text: str) -> None:
    """And not, with a warning of NumPy, as negative numbers."""
    scheme, labels = SCHEMES[changes["scheme"]], np.arange(1000) % 10
    spec = scheme.model_validate({**scheme.example, **changes})
    with pytest.raises(FedreproError, match=text):
        build_partition(spec, labels, labels, 10, 0)


@pytest.mark.parametrize(
    ("name", "changes", "evaluated"),
    [
        ("balanced_percent", {}, 1000 + 400),
        ("class_aligned", {}, 1000),
        ("class_aligned", {"per_class": None}, 1000),
        ("class_blocks", {}, 1000),
        ("class_blocks", {"per_class": None, "server_share": 0.05, "validation": 3}, 1000 + 30),
        ("data_sharing", {"alpha": 0.5}, 1000),
        ("dirichlet", {}, 1000),
        ("dirichlet", {"per_class": None}, 1000),
        ("emd_shift", {}, 1000),
        ("hierarchical", {"test": 10, "validation": 30}, 10 * (10 + 30)),
        ("hypergeometric", {"overflow": "redraw"}, 6 * (20 + 20)),
        ("iid_plain", {}, 1000),
        ("iid_stratified", {}, 1000),
        ("iid_stratified", {"per_class": None}, 1000),
        ("label_clusters", {"spread": 0.0}, 1000),
        ("main_cluster", {}, 1000),
        ("quantity_skew", {}, 1000),
    ],
)
def test_estimates_count_what_is_trained_and_evaluated_on(
    name: str, changes: dict[str, Any], evaluated: int
) -> None:
    """On 1,000 examples of 10 classes in either split, where no amount is left to chance."""
    labels = np.arange(1000) % 10
    info = describe("mnist").model_copy(update={"train": len(labels), "test": len(labels)})
    spec = SCHEMES[name].model_validate({**SCHEMES[name].example, **changes})
    partition = build_partition(spec, labels, labels, 10, seed=0)
    trained = len(partition.server) + sum(len(client) for client in partition.clients)
    assert spec.examples(info) == pytest.approx(trained)
    assert spec.evaluated(info) == evaluated
