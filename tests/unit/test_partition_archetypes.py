"""Devices of archetypes: label shares, sizes, pools, and the published probabilities."""

from __future__ import annotations

import numpy as np
import pytest

from fedrepro.base.errors import FedreproError
from fedrepro.fl.partition import build_partition
from fedrepro.fl.partition.archetypes import (
    Hierarchical,
    Hypergeometric,
    Sizes,
    archetype_of,
    draw_devices,
    hierarchical,
    hypergeometric,
)

PMF = [  # probability of each label (and of 10, which does not exist) by archetype, as published
    [0.6151, 0.3204, 0.0595, 0.0049, 0.0002, 0, 0, 0, 0, 0, 0],
    [0.0667, 0.2195, 0.3078, 0.2421, 0.1180, 0.0372, 0.0076, 0.0010, 0.0001, 0, 0],
    [0.0038, 0.0307, 0.1065, 0.2106, 0.2624, 0.2152, 0.1176, 0.0423, 0.0096, 0.0012, 0.0001],
    [0.0001, 0.0012, 0.0096, 0.0423, 0.1176, 0.2152, 0.2624, 0.2106, 0.1065, 0.0307, 0.0038],
    [0, 0, 0.0001, 0.0010, 0.0076, 0.0372, 0.1180, 0.2421, 0.3078, 0.2195, 0.0667],
    [0, 0, 0, 0, 0, 0, 0.0002, 0.0049, 0.0595, 0.3204, 0.6151],
]
CIFAR_TRAIN = np.tile(np.arange(10), 5000)
CIFAR_TEST = np.tile(np.arange(10), 1000)


def build(spec, seed=0, train=CIFAR_TRAIN, test=CIFAR_TEST):
    return build_partition(spec, train, test, 10, seed)


def published(**changes):
    content = {"scheme": "hierarchical", "clients": 30, "train": 5000, "validation": 1250}
    return Hierarchical.model_validate(content | {"test": 500} | changes)


def hyper(**changes):
    content = {"scheme": "hypergeometric", "clients": 30, "train": 5000, "validation": 1250}
    return Hypergeometric.model_validate(content | {"test": 500} | changes)


def shares(labels, parts):
    return np.array([np.bincount(labels[part], minlength=10) / len(part) for part in parts])


def test_devices_are_numbered_archetype_by_archetype():
    assert [archetype_of(device, 30, 10) for device in (0, 2, 3, 29)] == [0, 0, 1, 9]
    assert [archetype_of(device, 30, 6) for device in (4, 5, 29)] == [0, 1, 5]


def test_published_hierarchical_partition():
    partition = build(published())
    assert [len(part) for part in partition.clients] == [5000] * 30
    for device, counts in enumerate(partition.counts):
        label = device // 3
        others = [k for k in range(5 * (label // 5), 5 * (label // 5) + 5) if k != label]
        bias = counts[label] / 5000
        assert 0.6 <= bias <= 0.7
        assert counts[others].sum() == 5000 - counts[label]
        # pooled: a hypergeometric number of each, of standard deviation below 17
        assert counts[others] == pytest.approx(np.full(4, (1 - bias) * 1250), abs=100)
    biases = partition.counts[np.arange(30), np.arange(30) // 3]
    assert len(set(biases.tolist())) > 25


def test_all_sets_of_a_device_share_its_bias():
    partition = build(published())
    for name, labels, size in (("validation", CIFAR_TRAIN, 1250), ("test", CIFAR_TEST, 500)):
        parts = partition.node_sets[name].parts
        assert [len(part) for part in parts] == [size] * 30
        for device, part in enumerate(parts):
            bias = partition.counts[device, device // 3] / 5000
            own = int((labels[part] == device // 3).sum())
            assert own in (int(bias * size), int(bias * size + size / 5000))


def test_validation_images_are_set_aside():
    partition = build(published())
    assert partition.node_sets["test"].split == "test"
    assert partition.node_sets["validation"].split == "train"
    trained = np.unique(np.concatenate(partition.clients))
    assert not np.isin(trained, partition.validation).any()
    assert np.isin(
        np.concatenate(partition.node_sets["validation"].parts), partition.validation
    ).all()
    assert len(trained) <= 40_000
    assert len(partition.validation) <= 10_000


def test_shared_pools_overlap():
    partition = build(published(pools="shared", validation=1666))
    assert {len(part) for part in partition.node_sets["validation"].parts} == {1666}
    trained = np.unique(np.concatenate(partition.clients))
    assert np.isin(trained, partition.validation).mean() > 0.3
    assert len(np.unique(np.concatenate(partition.clients))) > 40_000


def test_a_device_has_no_image_twice_and_devices_overlap():
    partition = build(published())
    for part in partition.clients:
        assert part.dtype == np.int64
        assert np.all(np.diff(part) > 0)
    assert np.isin(partition.clients[0], partition.clients[1]).any()


@pytest.mark.parametrize(("bias", "own"), [(0.0, 0), (0.2, 1000), (0.65, 3250), (0.8, 4000)])
def test_one_bias_for_all_devices(bias, own):
    partition = build(published(bias=bias))
    assert set(partition.counts[np.arange(30), np.arange(30) // 3]) == {own}


def test_a_share_is_not_lost_in_floating_point():
    """0.29 times 100 is a little less than 29."""
    partition = build(published(bias=0.29, train=100))
    assert set(partition.counts[np.arange(30), np.arange(30) // 3]) == {29}


def test_equal_others_differ_by_one_at_most():
    partition = build(published(bias_low=0.65, bias_high=0.65, others="equal", train=4999))
    for device, counts in enumerate(partition.counts):
        rest = [k for k in range(10) if k // 5 == device // 15 and k != device // 3]
        assert counts[device // 3] == 3249  # 0.65 * 4999 = 3249.35
        assert sorted(counts[rest]) == [437, 437, 438, 438]


def test_fewer_archetypes_use_fewer_labels():
    partition = build(published(clients=18, archetypes=6))
    assert np.all(partition.counts[:, 6:] == 0)
    assert np.all(partition.counts[:9, 3:6] == 0)
    assert np.all(partition.counts[9:, :3] == 0)
    assert partition.counts[:, :6].sum() == 18 * 5000


def test_one_meta_archetype():
    """The course notebook's 9 devices: labels 0 to 2, shares of 75 to 85 %, shared pools."""
    partition = build(
        published(
            clients=9,
            archetypes=3,
            meta_archetypes=1,
            bias_low=0.75,
            bias_high=0.85,
            pools="shared",
            validation=1666,
        )
    )
    assert np.all(partition.counts[:, 3:] == 0)
    own = partition.counts[np.arange(9), np.arange(9) // 3] / 5000
    assert np.all((own >= 0.75 - 1 / 5000) & (own <= 0.85))
    assert [len(part) for part in partition.node_sets["validation"].parts] == [1666] * 9


def test_published_probabilities():
    from scipy import stats  # slow to import

    for successes, row in zip((5, 25, 45, 65, 85, 105), PMF, strict=True):
        ours = stats.hypergeom(110, successes, 10).pmf(np.arange(11))
        assert ours == pytest.approx(row, abs=5e-5)
    kept = [5000 * stats.hypergeom(110, k, 10).cdf(9) for k in (5, 25, 45, 65, 85, 105)]
    assert np.round(kept).tolist() == [5000, 5000, 5000, 4981, 4666, 1924]


def test_published_hypergeometric_partition():
    partition = build(hyper())
    sizes = np.array([len(part) for part in partition.clients]).reshape(6, 5)
    assert sizes[0].tolist() == sizes[1].tolist() == [5000] * 5
    # binomial numbers of images kept; expected 5000, 5000, 5000, 4981, 4666, 1924
    for archetype, expected in enumerate((5000, 5000, 5000, 4981, 4666, 1924)):
        assert sizes[archetype] == pytest.approx(np.full(5, expected), abs=150)
    for device, share in enumerate(shares(CIFAR_TRAIN, partition.clients)):
        law = np.array(PMF[device // 5][:10])
        assert share == pytest.approx(law / law.sum(), abs=0.03)
    majority = shares(CIFAR_TRAIN, partition.clients).max(axis=1).reshape(6, 5).mean(axis=1)
    assert majority == pytest.approx([0.615, 0.308, 0.262, 0.263, 0.330, 0.832], abs=0.01)


def test_hypergeometric_test_sets_are_drawn_alike():
    partition = build(hyper())
    tests = partition.node_sets["test"].parts
    assert np.mean([len(part) for part in tests[25:]]) == pytest.approx(192, abs=15)
    share = shares(CIFAR_TEST, tests)[25:].mean(axis=0)
    assert share[9] == pytest.approx(0.832, abs=0.03)


def test_redraw_keeps_the_number_of_images():
    partition = build(hyper(train=3000, validation=900, overflow="redraw"))
    assert {len(part) for part in partition.clients} == {3000}
    law = np.array(PMF[5][:10])
    assert shares(CIFAR_TRAIN, partition.clients[25:]).mean(axis=0) == pytest.approx(
        law / law.sum(), abs=0.02
    )
    with pytest.raises(FedreproError, match="images of label 9"):
        build(hyper(overflow="redraw"))  # about 4161 of 5000, of 4000


def test_seeds_draw_differently_and_repeat():
    one, again, other = build(published(), 1), build(published(), 1), build(published(), 2)
    assert one.sha256 == again.sha256 != other.sha256
    for name in ("validation", "test"):
        for a, b in zip(one.node_sets[name].parts, again.node_sets[name].parts, strict=True):
            assert a.tolist() == b.tolist()
    assert one.counts.tolist() != other.counts.tolist()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"clients": 25}, "clients must be a multiple of the 10 archetypes, got 25"),
        ({"meta_archetypes": 3}, "archetypes must be a multiple of the 3 meta-archetypes"),
        ({"meta_archetypes": 10}, "at least 2 in each, got 10"),
        ({"bias_low": 0.9, "bias_high": 0.9}, "a device needs 4500 images of label 0"),
        (
            {"archetypes": 20, "clients": 40},
            "archetypes: 20, each with a favourite label of its own, but the data have 10 classes",
        ),
        ({"validation_pool": 9999}, "validation_pool must be a multiple of the 10 classes"),
        ({"validation_pool": 50_000}, r"leave images of each \(the smallest class has 5000\)"),
        ({"bias_low": 0.0, "bias_high": 0.0, "train": 20_000}, r"labels \[1, 2, 3, 4\]"),
        ({"train": 50_001}, r"partition\.train must be at most the 50000 images .* got 50001"),
    ],
)
def test_infeasible_hierarchical_partitions(changes, text):
    with pytest.raises(FedreproError, match=text):
        build(published(**changes))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"clients": 31}, "clients must be a multiple of the 6 archetypes, got 31"),
        ({"successes": [5, 120], "clients": 2}, "at most the population of 110"),
        ({"successes": [110], "clients": 1}, "never give one of the 10 labels"),
        (
            {"population": 1000, "successes": [990], "draws": 19, "clients": 1, "train": 5}
            | {"overflow": "redraw"},
            "hardly ever give one of the 10 labels in 19 draws",
        ),
        ({"validation": 10**14}, r"partition\.validation must be at most the 50000 images"),
        ({"test": 10**14}, r"partition\.test must be at most the 10000 images"),
    ],
)
def test_infeasible_hypergeometric_partitions(changes, text):
    with pytest.raises(FedreproError, match=text):
        build(hyper(**changes))


def test_a_device_must_not_end_up_without_images():
    labels = np.tile(np.arange(4), 50)
    draws = hypergeometric(2, 10, [0, 6], 6, "drop")  # the second device mostly draws 4 or more
    with pytest.raises(FedreproError, match=r"device 1 .* its test set.*raise partition\.test"):
        draw_devices(labels, labels, 4, draws, Sizes(50, 50, 1), None, np.random.default_rng(3))


def test_biases_are_checked():
    with pytest.raises(ValueError, match="bias_low must be at most bias_high"):
        published(bias_low=0.7, bias_high=0.6)


def test_draws_without_a_spec():
    labels = np.tile(np.arange(4), 50)
    rng = np.random.default_rng(1)
    draws = hierarchical(4, 4, 2, (0.5, 0.5), "equal", rng)
    devices = draw_devices(labels, labels, 4, draws, Sizes(20, 4, 8), 40, rng)
    assert [np.bincount(labels[part], minlength=4).tolist() for part in devices.train] == [
        [10, 10, 0, 0],
        [10, 10, 0, 0],
        [0, 0, 10, 10],
        [0, 0, 10, 10],
    ]
    certain = hypergeometric(2, 3, [0, 3], 3, "drop")
    devices = draw_devices(labels, labels, 4, certain, Sizes(9, 4, 8), None, rng)
    assert [set(labels[part]) for part in devices.test] == [{0}, {3}]


def test_a_pool_leaves_images_of_the_smallest_class():
    labels = np.repeat(np.arange(4), (50, 50, 10, 50))
    draws = hierarchical(4, 4, 2, (0.5, 0.5), "equal", np.random.default_rng(1))
    with pytest.raises(FedreproError, match=r"the smallest class has 10\), got 40"):
        draw_devices(labels, labels, 4, draws, Sizes(2, 2, 2), 40, np.random.default_rng(2))


def test_where_no_image_is_too_many_none_is_drawn_again():
    labels = np.tile(np.arange(4), 50)
    drawn = [
        draw_devices(
            *(labels, labels, 4, hypergeometric(2, 10, [0, 3], 3, overflow)),
            *(Sizes(20, 4, 8), None, np.random.default_rng(1)),
        )
        for overflow in ("drop", "redraw")
    ]
    for one, other in zip(*(devices.test for devices in drawn), strict=True):
        assert one.tolist() == other.tolist()
