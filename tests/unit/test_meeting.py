"""Rounds until all clients are seen: against cases that can be counted, and the published sizes."""

import numpy as np
import pytest

from fedrepro.papers.cadis.meeting import rounds_to_see_all, share_of_pairs_met


def test_one_client_a_round_is_the_coupon_collector():
    assert rounds_to_see_all(4, 1) == pytest.approx(4 * (1 + 1 / 2 + 1 / 3 + 1 / 4))


def test_all_clients_at_once_take_one_round():
    assert rounds_to_see_all(7, 7) == 1


def test_two_of_three_by_hand():
    # After the first round one client is missing; each round draws it with probability 2 / 3.
    assert rounds_to_see_all(3, 2) == pytest.approx(1 + 3 / 2)


@pytest.mark.parametrize(
    ("clients", "participants", "rounds"),
    [(100, 10, 49.9), (100, 20, 23.9), (100, 30, 15.1), (100, 40, 10.7), (100, 50, 8.0)],
)
def test_the_sizes_of_the_paper(clients, participants, rounds):
    assert rounds_to_see_all(clients, participants) == pytest.approx(rounds, abs=0.05)


def test_share_of_pairs_met():
    assert share_of_pairs_met(3, 2, 1) == pytest.approx(1 / 3)
    assert share_of_pairs_met(3, 2, 0) == 0
    rng = np.random.default_rng(0)
    met = np.zeros((200, 20, 20), dtype=bool)
    for world in met:
        for _ in range(9):
            drawn = rng.choice(20, 5, replace=False)
            world[np.ix_(drawn, drawn)] = True
    upper = np.triu_indices(20, 1)
    assert met[:, *upper].mean() == pytest.approx(share_of_pairs_met(20, 5, 9), abs=0.01)
