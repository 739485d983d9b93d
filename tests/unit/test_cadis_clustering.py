"""Cosines, running means, transitive estimates and clusters, by hand and by property."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedrepro.base.errors import FedreproError
from fedrepro.fl.algorithms import classifier, clustering
from fedrepro.fl.layout import Layout

APART = np.nan


def vectors(*rows):
    return np.array(rows, dtype=np.float32)


def test_cosines_by_hand():
    values = clustering.cosines(vectors([3, 0], [3, 4], [-2, 0], [0, 0]))
    expected = [
        [np.nan, 0.6, -1, np.nan],
        [0.6, np.nan, -0.6, np.nan],
        [-1, -0.6, np.nan, np.nan],
        [np.nan] * 4,
    ]
    np.testing.assert_allclose(values, expected, atol=1e-12)


def test_places_in_set_order_are_those_of_the_numbers_modulo_32():
    drawn = [8, 15, 17, 32, 57, 60, 63, 72, 83, 97]
    assert clustering.places(drawn, "correct") == drawn
    of_a_set = [32, 97, 8, 72, 15, 17, 83, 57, 60, 63]
    assert clustering.places(drawn, "set_order") == of_a_set
    assert [k % 32 for k in of_a_set] == sorted(k % 32 for k in drawn)


def test_cosines_as_run_compare_place_p_with_place_q_minus_p_minus_1():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((6, 4)).astype(np.float32)
    unit = rows / np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
    values = clustering.cosines(rows, "set_order")
    for p in range(6):
        for q in range(p + 1, 6):
            assert values[p, q] == values[q, p] == pytest.approx(unit[p] @ unit[q - p - 1])
    assert [values[p, 2 * p + 1] for p in (0, 1, 2)] == pytest.approx([1, 1, 1])


def test_running_means_and_counts():
    similarity, together = np.zeros((4, 4)), np.zeros((4, 4), dtype=np.int64)
    for clients, value in (([0, 2], 0.8), ([2, 0], 0.2), ([0, 3], np.nan)):
        instance = np.array([[np.nan, value], [value, np.nan]])
        before = similarity.copy()
        after, together = clustering.observe(similarity, together, clients, instance)
        assert (similarity == before).all()
        similarity = after
    assert similarity[0, 2] == similarity[2, 0] == pytest.approx(0.5)
    assert together[0, 2] == together[2, 0] == 2
    assert together[0, 3] == 0
    assert together.sum() == 4


UNIT = st.lists(st.floats(-1, 1), min_size=4, max_size=4).filter(lambda v: np.linalg.norm(v) > 1e-3)


@given(UNIT, UNIT, UNIT)
def test_theorem_iii_3_bounds_the_third_cosine(x, y, z):
    s = np.nan_to_num(clustering.cosines(np.array([x, y, z])))
    middle = s[0, 2] * s[2, 1]
    reach = np.sqrt((1 - s[0, 2] ** 2) * (1 - s[2, 1] ** 2))
    assert middle - reach - 1e-9 <= s[0, 1] <= middle + reach + 1e-9


def pairs(number, **values):
    """Return a symmetric matrix and what is known of it: ``s01=0.9`` sets the pair 0, 1."""
    matrix, known = np.zeros((number, number)), np.zeros((number, number), dtype=bool)
    for name, value in values.items():
        i, j = int(name[1]), int(name[2])
        matrix[i, j] = matrix[j, i] = value
        known[i, j] = known[j, i] = True
    return matrix, known


def test_a_bridge_needs_two_cosines_near_one():
    estimate = clustering.bridged(*pairs(4, s02=0.99, s12=0.99, s03=0.98, s13=0.98), eps=0.02)
    # Through 2: sigma = 1 - 0.99^2 = 0.0199; through 3: 0.0396, too much.
    assert estimate[0, 1] == estimate[1, 0] == pytest.approx(0.9801)
    assert np.isnan(estimate[2, 3])
    assert np.isnan(np.diag(estimate)).all()


def test_a_bridge_is_known_to_both_its_ends():
    assert np.isnan(clustering.bridged(*pairs(3, s02=0.9999), eps=0.02)).all()


def test_several_bridges_are_averaged_and_draws_scatter_around_them():
    known = pairs(4, s02=0.99, s12=0.995, s03=0.99, s13=0.99)
    mean = (0.99 * 0.995 + 0.99 * 0.99) / 2
    assert clustering.bridged(*known, eps=0.02)[0, 1] == pytest.approx(mean)
    drawn = [
        clustering.bridged(*known, eps=0.02, rng=np.random.default_rng(i))[0, 1] for i in range(300)
    ]
    sigmas = np.array([np.sqrt((1 - 0.99**2) * (1 - 0.995**2)), 1 - 0.99**2])
    assert np.mean(drawn) == pytest.approx(mean, abs=0.003)
    one = clustering.bridged(*known, eps=0.02, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(one, one.T)
    assert np.std(drawn) == pytest.approx(np.sqrt((sigmas**2).sum()) / 2, rel=0.15)


def test_opposite_bridges_do_not_join():
    assert clustering.bridged(*pairs(3, s02=-0.999, s12=0.999), eps=0.02)[0, 1] < -0.99


@given(seed=st.integers(0, 2**32 - 1), eps=st.sampled_from([0.1, 0.3, 2.0]))
def test_bridges_join_no_more_clients_than_connected_components_do(seed, eps):
    # Why claim NF1-clusters is no test. Two negative cosines make at most 0.25.
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.uniform(-0.5, 1, (8, 8)), 1)
    drawn = np.triu(rng.random((8, 8)) < 0.5, 1)
    similarity, known = upper + upper.T + np.eye(8), drawn | drawn.T | np.eye(8, dtype=bool)
    similarity[0, 1] = similarity[1, 0] = -0.5
    known[0, 1] = known[1, 0] = True
    estimate = clustering.bridged(similarity, known, eps)
    filled = ~known & ~np.isnan(estimate)
    values = np.where(filled, estimate, similarity)
    np.testing.assert_array_equal(
        clustering.same_cluster(values, known | filled, 0.8),
        clustering.same_cluster(similarity, known, 0.8),
    )


def members(relation):
    return [np.flatnonzero(row).tolist() for row in relation]


def test_rescaling_takes_the_diagonal_as_highest_and_all_pairs_as_lowest():
    # S_min = -0.2: Q(0, 1) = (0.7 + 0.2) / 1.2 = 0.75, Q(0, 2) = 0.
    known = pairs(3, s01=0.7, s02=-0.2, s12=0.1)
    assert members(clustering.same_cluster(*known, 0.75 - 1e-12)) == [[0, 1], [0, 1], [2]]
    assert members(clustering.same_cluster(*known, 0.76)) == [[0], [1], [2]]


def test_without_a_pair_of_one_cluster_nothing_is_merged():
    assert members(clustering.same_cluster(*pairs(3, s01=0.2, s02=-0.2, s12=0.1), 0.8)) == [
        [0],
        [1],
        [2],
    ]


def test_equal_clients_are_one_cluster_and_unknown_ones_apart():
    relation = clustering.same_cluster(*pairs(4, s01=1.0, s02=1.0, s12=1 - 1e-9), 0.8)
    assert members(relation) == [[0, 1, 2], [0, 1, 2], [0, 1, 2], [3]]


def test_clients_that_differ_by_little_are_still_told_apart():
    known = pairs(3, s01=1.0, s02=0.999, s12=0.999)
    assert members(clustering.same_cluster(*known, 0.8)) == [[0, 1], [0, 1], [2]]


def test_no_pair_is_known_in_a_round_of_one_client():
    for rule in ("all", "as_run"):
        assert members(clustering.same_cluster(*pairs(3), 0.8, rule)) == [[0], [1], [2]]


def test_as_run_a_negative_cosine_counts_as_a_large_one():
    # Positive entries 0.9 and 1: lowest 0.9, so Q(0, 2) = (-0.1 - 0.9) / 0.1 = -10.
    known = pairs(3, s01=0.9, s02=-0.1, s12=-0.1)
    assert members(clustering.same_cluster(*known, 0.975, "as_run")) == [[0, 1, 2]] * 3
    assert members(clustering.same_cluster(*known, 0.8)) == [[0, 1], [0, 1], [2]]


CHAIN = np.eye(5, dtype=bool) | np.eye(5, k=1, dtype=bool) | np.eye(5, k=-1, dtype=bool)


def test_at_the_threshold_clients_are_together_and_as_run_apart():
    # Q(0, 1) = 1 / 2: of 0.5 between 0 and 1, and as run of 0.75 between 0.5 and 1.
    assert members(clustering.same_cluster(*pairs(3, s01=0.5, s02=0, s12=0), 0.5))[0] == [0, 1]
    known = pairs(3, s01=0.75, s02=0.5, s12=0.5)
    assert members(clustering.same_cluster(*known, 0.5, "as_run")) == [[0], [1], [2]]


def test_closures_of_a_chain():
    assert members(clustering.closed(CHAIN, "none"))[0] == [0, 1]
    assert members(clustering.closed(CHAIN, "two_hop")) == [
        [0, 1, 2],
        [0, 1, 2, 3],
        [0, 1, 2, 3, 4],
        [1, 2, 3, 4],
        [2, 3, 4],
    ]
    assert clustering.closed(CHAIN, "components").all()


def test_sizes_count_only_some_clients_and_clusters_are_whole():
    relation = np.kron(np.eye(2), np.ones((3, 3))).astype(bool)
    assert clustering.sizes(relation, [0, 1, 3]).tolist() == [2, 2, 2, 1, 1, 1]
    assert clustering.number_of_clusters(relation, [0, 1, 3]) == pytest.approx(2)
    assert clustering.number_of_clusters(relation, range(6)) == pytest.approx(2)


def test_true_clusters_and_what_is_wrong_of_others():
    truth = clustering.true_clusters(np.array([[3, 1, 0], [1, 9, 0], [0, 2, 2], [4, 0, 0]]))
    assert members(truth) == [[0, 1], [0, 1], [2], [3]]
    assert clustering.wrong_pairs(np.eye(4, dtype=bool), truth) == pytest.approx(1 / 6)
    assert clustering.wrong_pairs(truth, truth) == 0
    matrix, _ = pairs(4, s01=0.5, s23=0.1)
    assert clustering.squared_error(matrix, truth) == pytest.approx((0.25 + 0.01) / 6)


LAYOUT = Layout(
    ("a.weight", "out.weight", "out.bias", "bn.mean"),
    ((1,), (2, 2), (2,), (1,)),
    (0, 1, 5, 7, 8),
    7,
)


def test_the_final_layer_is_the_last_two_trainable_tensors():
    start = torch.arange(8.0)
    weight, bias = classifier.tensors(LAYOUT, start)
    assert weight.tolist() == [[1, 2], [3, 4]]
    assert bias.tolist() == [5, 6]
    trained = [start + 1, start * 2]
    found = {
        kind: classifier.vectors(LAYOUT, trained, start, kind).tolist()
        for kind in ("weight_change", "bias_change", "weight", "bias")
    }
    assert found == {
        "weight_change": [[1, 1, 1, 1], [1, 2, 3, 4]],
        "bias_change": [[1, 1], [5, 6]],
        "weight": [[2, 3, 4, 5], [2, 4, 6, 8]],
        "bias": [[6, 7], [10, 12]],
    }


def test_a_final_layer_without_a_bias_cannot_be_compared():
    layout = Layout(("a.bias", "out.weight"), ((2,), (2, 2)), (0, 2, 6), 6)
    with pytest.raises(FedreproError, match="has no bias"):
        classifier.tensors(layout, torch.zeros(6))
