"""The published label counts of the PILL clients (Nguyen et al. 2023, Table I and Fig. 7).

The images are private; the counts are not. They are those of the collection ``syndata3`` in the
authors' repository (``benchmark/pilldataset``, ``label_count.csv``): 10 clients, 15 labels, a
client's labels in equal amounts.
"""

from __future__ import annotations

LABELS = 15

_CLIENTS: tuple[tuple[int, tuple[int, ...]], ...] = (
    (104, (5, 8, 14)),
    (127, (2, 3, 5, 8, 9)),
    (113, (4, 5, 8, 14)),
    (113, (3, 5, 8, 11)),
    (105, (1, 2, 3, 5, 8, 11, 12, 13, 14)),
    (114, (5, 8)),
    (117, (5, 8, 11)),
    (137, (0, 1, 2, 4, 6, 7, 12)),
    (110, (0, 1, 4, 6, 7, 10, 12, 13)),
    (131, (0, 1, 2, 4, 6, 7, 10, 12, 14)),
)
"""For each client: images of each of its labels, and which labels."""

COUNTS: tuple[tuple[int, ...], ...] = tuple(
    tuple(amount if label in labels else 0 for label in range(LABELS))
    for amount, labels in _CLIENTS
)
"""Images of each label, [clients][labels]."""
