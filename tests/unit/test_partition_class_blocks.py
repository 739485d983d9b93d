"""Class blocks: who holds which classes, and what the server and the validation get."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrepro.base.errors import FedreproError
from fedrepro.fl.partition import build_partition
from fedrepro.fl.partition.class_blocks import ClassBlocks, class_blocks
from fedrepro.fl.partition.statistics import class_counts, emd

CIFAR = np.tile(np.arange(10), 5000)
SHAPES = st.tuples(st.integers(2, 6), st.integers(1, 3)).flatmap(
    # classes, clients per class, classes per client: a divisor of the product
    lambda t: st.tuples(
        st.just(t[0]),
        st.just(t[1]),
        st.sampled_from([c for c in range(1, t[0] + 1) if t[0] * t[1] % c == 0]),
    )
)


def build(seed=3, labels=CIFAR, **fields):
    spec = ClassBlocks.model_validate({"scheme": "class_blocks", "clients": 2} | fields)
    return build_partition(spec, labels, labels[:100], 10, seed)


def test_niid5_gives_one_agent_the_first_five_classes_and_the_other_the_rest():
    split = build(classes_per_client=5)
    assert split.counts.tolist() == [[5000] * 5 + [0] * 5, [0] * 5 + [5000] * 5]
    assert split.emd.tolist() == [1.0, 1.0]
    assert np.sort(np.concatenate(split.clients)).tolist() == list(range(50_000))
    assert len(split.server) == len(split.validation) == 0
    assert split.node_sets == {}


def test_ten_classes_are_the_stratified_split_and_one_client_holds_all():
    assert build(classes_per_client=10).counts.tolist() == [[2500] * 10] * 2
    assert build(clients=1, classes_per_client=10).counts.tolist() == [[5000] * 10]


def test_the_servers_five_percent_are_balanced_and_taken_from_the_agents():
    split = build(classes_per_client=5, server_share=0.05)
    assert split.counts.tolist() == [[4750] * 5 + [0] * 5, [0] * 5 + [4750] * 5]
    assert np.bincount(CIFAR[split.server]).tolist() == [250] * 10
    assert not set(split.server) & set(np.concatenate(split.clients))


def test_validation_is_balanced_untouched_and_the_test_set_of_every_node():
    split = build(classes_per_client=5, server_share=0.05, validation=100, per_class=1000)
    assert np.bincount(CIFAR[split.validation]).tolist() == [100] * 10
    assert np.bincount(CIFAR[split.server]).tolist() == [50] * 10
    assert split.counts.tolist() == [[950] * 5 + [0] * 5, [0] * 5 + [950] * 5]
    parts = [*split.clients, split.server, split.validation]
    assert len(set(np.concatenate(parts))) == sum(len(part) for part in parts) == 11_000
    node_set = split.node_sets["validation"]
    assert node_set.split == "train"
    assert [part.tolist() for part in node_set.parts] == [split.validation.tolist()] * 2


def test_all_settings_of_a_seed_use_the_same_images():
    options = {"validation": 100, "per_class": 1000}
    iid = build(classes_per_client=10, **options)
    one = build(clients=1, classes_per_client=10, **options)
    served = build(classes_per_client=5, server_share=0.05, **options)
    used = [set(np.concatenate([*split.clients, split.server])) for split in (iid, one, served)]
    assert used[0] == used[1] == used[2]
    assert iid.validation.tolist() == one.validation.tolist() == served.validation.tolist()
    assert set(build(seed=4, classes_per_client=5, **options).validation) != set(iid.validation)


@settings(max_examples=60)
@given(SHAPES, st.floats(0, 0.4), st.integers(0, 3), st.integers(0, 2**32))
def test_parts_are_disjoint_and_even(shape, share, validation, seed):
    classes, holders, classes_per_client = shape
    clients = classes * holders // classes_per_client
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat(np.arange(classes), rng.integers(10, 30, classes)))
    split = class_blocks(
        labels, clients, classes_per_client, rng, server_share=share, validation=validation
    )
    together = np.concatenate([*split.clients, split.server, split.validation])
    assert np.sort(together).tolist() == list(range(labels.size))
    counts = class_counts(labels, split.clients, classes)
    for k, row in enumerate(counts):
        held = {(k * classes_per_client + j) % classes for j in range(classes_per_client)}
        assert set(np.flatnonzero(row)) == held
    for label in range(classes):
        kept = np.count_nonzero(labels == label) - validation
        assert np.count_nonzero(labels[split.validation] == label) == validation
        assert np.count_nonzero(labels[split.server] == label) == round(share * kept)
        held_counts = counts[:, label][counts[:, label] > 0]
        assert held_counts.size == holders
        assert np.ptp(held_counts) <= 1
    for part in (*split.clients, split.server, split.validation):
        assert part.dtype == np.int64
        assert np.all(np.diff(part) > 0)


def test_blocks_are_counted_round_the_classes():
    labels = np.repeat(np.arange(4), 6)
    split = class_blocks(labels, 4, 3, np.random.default_rng(0))
    counts = class_counts(labels, split.clients, 4)
    assert counts.tolist() == [[2, 2, 2, 0], [2, 2, 0, 2], [2, 0, 2, 2], [0, 2, 2, 2]]
    assert emd(counts) == pytest.approx(0.5)


def test_a_class_may_be_used_up_with_one_example_for_each_of_its_holders():
    labels = np.repeat(np.arange(10), 6)
    split = build(labels=labels, classes_per_client=10, per_class=4, server_share=0.5, validation=2)
    assert split.counts.tolist() == [[1] * 10] * 2
    parts = [*split.clients, split.server, split.validation]
    assert np.sort(np.concatenate(parts)).tolist() == list(range(60))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"clients": 3, "classes_per_client": 5}, "multiple of the 10 classes, got 3 * 5"),
        ({"clients": 2, "classes_per_client": 11}, "classes_per_client must be in 1..10"),
        ({"clients": 2, "classes_per_client": 5, "per_class": 5001}, "at most 5000"),
        (
            {"clients": 2, "classes_per_client": 5, "per_class": 4501, "validation": 500},
            "at most 4500, the size of the smallest class less 500",
        ),
        ({"clients": 2, "classes_per_client": 5, "validation": 5000}, "class 0 has 0 examples"),
        (
            {"clients": 2, "classes_per_client": 10, "per_class": 2, "server_share": 0.5},
            "class 0 has 1 examples left for the 2 clients",
        ),
    ],
)
def test_what_does_not_fit_is_refused(options, text):
    with pytest.raises(FedreproError, match=text.replace("*", r"\*")):
        build(**options)


def test_nobody_holds_no_classes():
    with pytest.raises(FedreproError, match=r"positive multiple of the 10 classes, got 0 \* 5"):
        class_blocks(CIFAR, 0, 5, np.random.default_rng(0))
