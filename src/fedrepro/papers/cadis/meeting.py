"""How long random participation takes to see every client, and every pair of them.

Nguyen et al. 2023, Theorem III.4. Each round draws K of N clients uniformly without replacement.
"""

from __future__ import annotations

import math


def rounds_to_see_all(clients: int, participants: int) -> float:
    """Return the expected number of rounds until every client has taken part.

    With i clients seen, a round adds m new ones with probability
    ``C(i, K - m) C(N - i, m) / C(N, K)``; the expectation follows backwards from i = N (eq. 14).

    Args:
        clients: N.
        participants: K, ``1..N``.
    """
    expected = [0.0] * (clients + 1)
    ways = math.comb(clients, participants)
    for seen in range(clients - 1, -1, -1):
        chance = [
            math.comb(seen, participants - new) * math.comb(clients - seen, new) / ways
            for new in range(min(participants, clients - seen) + 1)
        ]
        later = sum(p * expected[seen + new] for new, p in enumerate(chance) if new)
        expected[seen] = (1 + later) / (1 - chance[0])
    return expected[0]


def share_of_pairs_met(clients: int, participants: int, rounds: int) -> float:
    """Return the expected share of pairs of clients that have taken part in a round together."""
    together = participants * (participants - 1) / (clients * (clients - 1))
    return 1 - (1 - together) ** rounds
