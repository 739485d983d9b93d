"""Label skew and quantity skew."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrepro.base.errors import FedreproError
from fedrepro.fl.partition import build_partition
from fedrepro.fl.partition.dirichlet import Dirichlet, QuantitySkew, label_skew, quantity_skew
from fedrepro.fl.partition.statistics import class_counts, emd

LABELS = np.arange(1000, dtype=np.int64) % 10


@given(
    clients=st.integers(1, 12), alpha=st.sampled_from([0.5, 1.0, 100.0]), seed=st.integers(0, 99)
)
def test_every_example_is_used_once(clients: int, alpha: float, seed: int) -> None:
    for cut in (label_skew, quantity_skew):
        parts = cut(LABELS, clients, alpha, np.random.default_rng(seed))
        assert len(parts) == clients
        assert all((np.diff(part) > 0).all() for part in parts)
        np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(1000))


def test_alpha_says_how_unequal_labels_are() -> None:
    skew = {
        alpha: emd(
            class_counts(LABELS, label_skew(LABELS, 10, alpha, np.random.default_rng(0)), 10)
        ).mean()
        for alpha in (0.05, 0.5, 1000.0)
    }
    assert skew[0.05] > 1.2
    assert 0.4 < skew[0.5] < 1.2
    assert skew[1000.0] < 0.1


def test_alpha_says_how_unequal_sizes_are() -> None:
    sizes = {
        alpha: [len(p) for p in quantity_skew(LABELS, 10, alpha, np.random.default_rng(1))]
        for alpha in (0.3, 1e6)
    }
    assert max(sizes[0.3]) > 3 * np.median(sizes[0.3])
    assert np.ptp(sizes[1e6]) <= 4


def test_per_class_and_the_smallest_client() -> None:
    spec = Dirichlet(scheme="dirichlet", clients=5, alpha=0.2, per_class=40, smallest=20)
    for seed in range(8):  # the first draw of some has a smaller client
        partition = build_partition(spec, LABELS, LABELS, 10, seed=seed)
        assert partition.counts.sum(axis=0).tolist() == [40] * 10
        assert partition.counts.sum(axis=1).min() >= 20


def test_clients_have_ten_examples_at_least_unless_told() -> None:
    for name, scheme in (("dirichlet", Dirichlet), ("quantity_skew", QuantitySkew)):
        spec = scheme.model_validate({"scheme": name, "clients": 101, "alpha": 1.0})
        with pytest.raises(FedreproError, match=r"smallest = 10 for 101 clients needs 1010 examp"):
            build_partition(spec, LABELS, LABELS, 10, seed=0)


@pytest.mark.parametrize("own", [0, 7])
def test_a_seed_of_its_own_fixes_a_partition(own: int) -> None:
    spec = QuantitySkew(scheme="quantity_skew", clients=5, alpha=1.0, seed=own)
    digests = {build_partition(spec, LABELS, LABELS, 10, seed=seed).sha256 for seed in range(3)}
    assert len(digests) == 1
    free = spec.model_copy(update={"seed": None})
    assert build_partition(free, LABELS, LABELS, 10, seed=own).sha256 in digests


def test_all_clients_may_be_as_small_as_the_smallest() -> None:
    labels = np.repeat(np.arange(2), 2)
    for cut in (label_skew, quantity_skew):
        parts = cut(labels, 2, 1e6, np.random.default_rng(0), smallest=2)
        assert [len(part) for part in parts] == [2, 2]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"smallest": 300}, "needs 1500 examples, and there are 1000"),
        ({"smallest": 199}, "1000 draws left a client with fewer than"),
        ({"per_class": 200}, r"per_class must be in 1\.\.100"),
    ],
)
def test_impossible_wishes_are_refused(changes: dict[str, float], text: str) -> None:
    spec = Dirichlet.model_validate({"scheme": "dirichlet", "clients": 5, "alpha": 1.0} | changes)
    with pytest.raises(FedreproError, match=text):
        build_partition(spec, LABELS, LABELS, 10, seed=0)
