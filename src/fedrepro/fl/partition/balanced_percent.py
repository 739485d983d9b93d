"""The N-% balanced partition: N % of the images dealt evenly, the rest by label group.

Liu et al. 2020, section III.A. Deterministic: images are taken in the order of the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedrepro.base.errors import FedreproError
from fedrepro.fl.partition.scheme import Cut, Labelled, NodeSets, Scheme
from fedrepro.fl.partition.shared import Clients, Indices, check_clients, check_labels

if TYPE_CHECKING:
    from fedrepro.fl.data import DatasetInfo


Groups: TypeAlias = tuple[tuple[int, int], ...]
"""Inclusive label ranges ``(lowest, highest)``, one for each group of clients."""

CODE_GROUPS: Groups = ((0, 2), (3, 5), (6, 9))
"""The groups that the published numbers were made with (the authors' code)."""

PAPER_GROUPS: Groups = ((0, 3), (4, 6), (7, 9))
"""The groups of the paper's Table I."""

GROUPS: dict[str, Groups] = {"code": CODE_GROUPS, "paper": PAPER_GROUPS}

SINGLE_LABELS: Groups = (*((label, label) for label in range(8)), (8, 9))
"""The groups of the authors' non-IID test with nine clients: one label each, the last one two."""


def balanced_percent(labels: Indices, clients: int, percent: int, groups: Groups) -> Clients:
    """Deal ``percent`` % of the images evenly and send each of the others to its label's client.

    1. Balanced part: ``floor(n percent / 100)`` images are due; ``floor(due / clients)`` for each
       client are dealt round robin from the start of the file.
    2. Unbalanced part: the next ``n - due`` images go each to the client that owns its label. When
       a group has several clients (``clients / len(groups)`` consecutive ones), its images are
       dealt round robin to them, starting with the first.

    The last ``due mod clients`` images of the file stay unused.

    Args:
        labels: int64 [n], class numbers from 0, in file order.
        clients: number of clients, a multiple of the number of groups.
        percent: N, percentage balanced, 0..100.
        groups: inclusive label ranges that hold every label exactly once; group g belongs to
            clients ``g c .. g c + c - 1`` with ``c = clients / len(groups)``.

    Returns:
        One ascending index array for each client.

    Raises:
        FedreproError: an argument is out of range, the groups overlap or miss a label, or a client
            would get no image.
    """
    check_labels(labels)
    check_clients(clients, labels.size)
    if not 0 <= percent <= 100:
        raise FedreproError(f"percent must be in 0..100, got {percent}")
    if not groups or clients % len(groups):
        raise FedreproError(
            f"clients must be a multiple of the number of groups ({len(groups)}), got {clients}"
        )
    due = labels.size * percent // 100
    dealt_images = due // clients * clients
    unbalanced = np.arange(dealt_images, dealt_images + labels.size - due)
    group_of = _owners(int(labels.max()) + 1, groups)[labels[unbalanced]]
    group_size = clients // len(groups)
    partition = tuple(
        np.concatenate(
            [
                np.arange(client, dealt_images, clients),
                unbalanced[group_of == client // group_size][client % group_size :: group_size],
            ]
        )
        for client in range(clients)
    )
    for client, indices in enumerate(partition):
        if indices.size == 0:
            low, high = groups[client // group_size]
            raise FedreproError(
                f"client {client} would get no image: too few of labels {low}..{high} among "
                f"{labels.size} images at percent {percent}; use more images or fewer clients"
            )
    return partition


def _owners(classes: int, groups: Groups) -> NDArray[np.int64]:
    """Return the group of every label, int64 [classes or more]; refuse overlaps and gaps."""
    owners = np.full(max(classes, 1 + max(high for _, high in groups)), -1, dtype=np.int64)
    for number, (low, high) in enumerate(groups):
        if not 0 <= low <= high:
            raise FedreproError(f"groups must be ranges (lowest, highest) from 0, got {groups}")
        if np.any(owners[low : high + 1] >= 0):
            raise FedreproError(f"groups must not overlap, got {groups}")
        owners[low : high + 1] = number
    missing = np.flatnonzero(owners[:classes] < 0)
    if missing.size:
        raise FedreproError(
            f"groups must hold every label in 0..{classes - 1}, "
            f"and {groups} lack label {missing[0]}"
        )
    return owners


def dealt(examples: int, clients: int) -> Clients:
    """Deal the same number of images to every client, round robin in file order.

    The authors' IID test: 10,000 test images give 3 x 3,333 or 9 x 1,111, which is 9,999 images.

    Args:
        examples: number of images n.
        clients: number of clients, ``1..n``.

    Returns:
        One ascending index array [floor(n / clients)] for each client; the last
        ``n mod clients`` images stay unused.

    Raises:
        FedreproError: there are fewer images than clients.
    """
    check_clients(clients, examples)
    used = examples // clients * clients
    return tuple(np.arange(client, used, clients) for client in range(clients))


class BalancedPercent(Scheme):
    """Liu et al. 2020, section III.A: N % of the images dealt evenly, the rest by label group.

    Deterministic in file order; the first ``validation`` training images are set aside.
    """

    scheme: Literal["balanced_percent"]
    clients: int = Field(ge=1)
    percent: int = Field(ge=0, le=100, description="N: percentage balanced")
    groups: Literal["code", "paper"] = Field(
        default="code", description="label groups 0-2|3-5|6-9 (as run) or 0-3|4-6|7-9 (Table I)"
    )
    validation: int = Field(default=10_000, ge=0, description="images set aside for validation")

    seeded: ClassVar = False
    example: ClassVar = {
        "scheme": "balanced_percent",
        "clients": 3,
        "percent": 10,
        "validation": 400,
    }

    def cut(self, data: Labelled, rng: np.random.Generator) -> Cut:
        """Cut training, validation and test images by the same N rule (sections III.A, VII).

        The nodes' test sets: ``iid`` all test images; ``iid_dealt`` the images dealt evenly over
        the nodes (as run); ``noniid`` the test images cut as the training images;
        ``noniid_as_run`` the same, but for nine nodes by single labels (:data:`SINGLE_LABELS`);
        ``validation`` a node's own part of the validation images; ``validation_all`` all of them.

        Raises:
            FedreproError: as :func:`balanced_percent`, or no training image is left.
        """
        held, train, test = self.validation, data.train, data.test
        if held >= len(train):
            raise FedreproError(
                f"partition.validation = {held} leaves no training image of {len(train)}; lower it"
            )
        if 0 < held < self.clients:
            raise FedreproError(
                f"partition.validation = {held}: fewer images than the {self.clients} clients; set "
                "more aside, or 0 for none"
            )
        groups = GROUPS[self.groups] if self.clients > 1 else ((0, data.classes - 1),)
        single_labels = SINGLE_LABELS if self.clients == 9 else groups

        def by(labels: Indices, cut_by: Groups) -> Clients:
            return balanced_percent(labels, self.clients, self.percent, cut_by)

        clients = tuple(part + held for part in by(train[held:], groups))
        validation = np.arange(held, dtype=np.int64)
        everything = np.arange(len(test), dtype=np.int64)
        node_sets = {
            "iid": NodeSets("test", (everything,) * self.clients),
            "iid_dealt": NodeSets("test", dealt(len(test), self.clients)),
            "noniid": NodeSets("test", by(test, groups)),
            "noniid_as_run": NodeSets("test", by(test, single_labels)),
        }
        if held:
            node_sets["validation"] = NodeSets("train", by(train[:held], groups))
            node_sets["validation_all"] = NodeSets("train", (validation,) * self.clients)
        return Cut(clients, validation=validation, node_sets=node_sets)

    def examples(self, info: DatasetInfo) -> float:
        """Return how many training examples the clients hold together."""
        return info.train - self.validation

    def evaluated(self, info: DatasetInfo) -> float:
        """Return how many examples an evaluation predicts."""
        return info.test + self.validation
