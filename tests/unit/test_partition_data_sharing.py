"""Data sharing: one class a client, plus a share of the common set."""

from types import SimpleNamespace

import numpy as np
import pytest

from fedrepro.base.errors import FedreproError
from fedrepro.fl.partition import build_partition, statistics
from fedrepro.fl.partition.data_sharing import DataSharing, data_sharing

LABELS = np.repeat(np.arange(10), 60)[np.random.default_rng(5).permutation(600)]


def cut(seed=0, **changes):
    given = {"per_class": 40, "held_out": 20, "beta": 0.5, "alpha": 0.5} | changes
    return data_sharing(LABELS, 10, np.random.default_rng(seed), **given)


def counts(clients):
    return statistics.class_counts(LABELS, clients, 10)


def test_every_client_has_its_class_and_the_same_of_all_shared_classes():
    clients, shared = cut()
    assert np.bincount(LABELS[shared]).tolist() == [20] * 10
    table = counts(clients)
    assert sorted(np.argmax(table, axis=1)) == list(range(10))
    assert (np.sort(table, axis=1) == [10] * 9 + [50]).all()
    for client in clients:
        assert np.unique(client).size == client.size


@pytest.mark.parametrize("beta", [0.05, 0.1, 0.5])
@pytest.mark.parametrize("alpha", [0.5, 1])
def test_realised_emd_is_the_formula(beta, alpha):
    """ZA22: 1.8 / (1 + K alpha beta)."""
    table = counts(cut(beta=beta, alpha=alpha)[0])
    uniform = np.full(10, 0.1)
    realised = np.abs(table / table.sum(axis=1, keepdims=True) - uniform).sum(axis=1)
    assert realised == pytest.approx(np.full(10, 1.8 / (1 + 10 * alpha * beta)), abs=1e-12)


def test_private_examples_are_never_shared_and_do_not_depend_on_the_sharing():
    alone, nothing = cut(beta=0)
    assert nothing.size == 0
    for beta, alpha in ((0.5, 0.5), (0.1, 1)):
        clients, shared = cut(beta=beta, alpha=alpha)
        for own, merged in zip(alone, clients, strict=True):
            assert set(own) == set(merged) - set(shared)
    assert not set(np.concatenate(alone)) & set(shared)


def test_a_larger_set_holds_the_smaller_one():
    small, large = cut(beta=0.1)[1], cut(beta=0.5)[1]
    assert set(small) < set(large)


def test_shares_are_independent_or_common():
    def received(common):
        clients, shared = cut(common=common)
        return [frozenset(set(client) & set(shared)) for client in clients]

    assert len(set(received(True))) == 1
    assert len(set(received(False))) == 10


def test_seeds_differ_and_repeat():
    same, other = cut(seed=1), cut(seed=2)
    assert all(np.array_equal(a, b) for a, b in zip(same[0], cut(seed=1)[0], strict=True))
    assert not np.array_equal(same[1], other[1])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"beta": 0.51}, "partition.beta = 0.51: beta \\* per_class must be a whole number"),
        ({"beta": 0.5015}, "beta \\* per_class must be a whole number of examples, got 20.06"),
        ({"alpha": 0.33}, "partition.alpha = 0.33"),
        ({"beta": 0.75}, "needs 30 shared examples of each class, but held_out is 20"),
        ({"held_out": 21}, "held_out = 21: after per_class = 40 a class has 20 examples left"),
    ],
)
def test_what_does_not_fit_is_refused(changes, words):
    with pytest.raises(FedreproError, match=words):
        cut(**changes)


def test_the_last_class_needs_examples_to_share_too():
    labels = np.repeat(np.arange(10), [60] * 9 + [40])
    with pytest.raises(FedreproError, match="after per_class = 40 a class has 0 examples left"):
        data_sharing(labels, 10, np.random.default_rng(0), per_class=40, held_out=20, beta=0.5)


def test_a_number_of_examples_is_whole_though_its_product_is_not():
    """0.28 times 25 is a little more than 7 in floating point."""
    shared = cut(per_class=25, beta=0.28, alpha=1)[1]
    assert np.bincount(LABELS[shared]).tolist() == [7] * 10


def test_the_scheme_is_built_from_its_spec():
    spec = DataSharing(
        scheme="data_sharing", clients=10, per_class=40, held_out=20, beta=0.5, alpha=0.5
    )
    partition = build_partition(spec, LABELS, LABELS, 10, seed=4)
    assert partition.shared.size == 200
    assert partition.emd == pytest.approx(np.full(10, 1.8 / 3.5))
    held = sum(len(client) for client in partition.clients)
    assert spec.examples(SimpleNamespace(classes=10)) == pytest.approx(held)
