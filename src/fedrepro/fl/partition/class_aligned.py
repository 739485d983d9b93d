"""Class-aligned partitions: every client holds exactly one or exactly two classes.

Zhao et al. 2018 (section 2.1) sort the data by label and cut it into equal parts. Where class sizes
differ (MNIST, keywords) that would mix classes at the cuts; the published accuracies fit pure
clients, so the cuts here follow the classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from pydantic import Field

from fedrepro.base.errors import FedreproError
from fedrepro.fl.partition.scheme import Cut, Labelled, Scheme
from fedrepro.fl.partition.shared import Clients, Indices, check_clients, shuffled_classes

if TYPE_CHECKING:
    from fedrepro.fl.data import DatasetInfo


MAX_SHARDS_PER_CLASS = 20
"""With more, a random pairing of shards almost never avoids same-class pairs."""


def class_aligned(
    labels: Indices,
    clients: int,
    classes_per_client: int,
    rng: np.random.Generator,
    per_class: int | None = None,
) -> Clients:
    """Give every client one or two classes (Zhao et al. 2018, section 2.1, 1- and 2-class non-IID).

    Every class is shuffled and cut into ``clients * classes_per_client / classes`` shards of equal
    size (within one example). All shards are permuted and client k takes the k-th
    ``classes_per_client`` of them; the permutation is drawn again until no client holds two shards
    of one class. With 10 clients and 10 classes this is the paper's 1-class (10 shards) or 2-class
    (20 shards) partition.

    Args:
        labels: int64 [n], class numbers from 0; the classes are ``0..max(labels)``.
        clients: number of clients; ``clients * classes_per_client`` is a multiple of the classes.
        classes_per_client: 1 or 2.
        rng: draws one permutation per class, in class order, then permutations of the shards.
        per_class: examples kept of each class, the surplus dropped at random, a multiple of the
            shards per class; None: all examples.

    Returns:
        One ascending index array for each client. Without ``per_class`` every example is used
        once; with it, all clients have the same size.

    Raises:
        FedreproError: the arguments do not fit each other; the message names the feasible values.
    """
    if classes_per_client not in (1, 2):
        raise FedreproError(f"classes_per_client must be 1 or 2, got {classes_per_client}")
    members = shuffled_classes(labels, per_class, rng)
    classes = len(members)
    check_clients(clients, sum(member.size for member in members))
    if classes_per_client > classes:
        raise FedreproError(
            f"classes_per_client must be 1 for labels of one class, got {classes_per_client}"
        )
    shards_per_class, rest = divmod(clients * classes_per_client, classes)
    if rest:
        raise FedreproError(
            f"clients * classes_per_client must be a multiple of the {classes} classes, "
            f"got {clients} * {classes_per_client}"
        )
    if classes_per_client == 2 and shards_per_class > MAX_SHARDS_PER_CLASS:
        raise FedreproError(
            f"clients must be at most {MAX_SHARDS_PER_CLASS * classes // 2} for 2 of {classes} "
            f"classes per client, got {clients}"
        )
    if per_class is not None and per_class % shards_per_class:
        raise FedreproError(
            f"per_class must be a multiple of the {shards_per_class} shards that each class is cut "
            f"into, got {per_class}"
        )
    smallest = min(member.size for member in members)
    if smallest < shards_per_class:
        raise FedreproError(
            f"every class must have at least {shards_per_class} examples, one for each of its "
            f"shards; the smallest has {smallest}: use fewer clients"
        )
    shards = [shard for member in members for shard in np.array_split(member, shards_per_class)]
    while True:
        hands = rng.permutation(len(shards)).reshape(clients, classes_per_client)
        held = hands // shards_per_class  # class of every shard held, [clients, classes_per_client]
        if classes_per_client == 1 or bool(np.all(held[:, 0] != held[:, 1])):
            return tuple(np.sort(np.concatenate([shards[shard] for shard in h])) for h in hands)


class ClassAligned(Scheme):
    """Every client holds one or two classes only (Zhao et al. 2018, section 2.1)."""

    scheme: Literal["class_aligned"]
    clients: int = Field(ge=1)
    classes_per_client: Literal[1, 2]
    per_class: int | None = Field(default=None, ge=1, description="examples kept of each class")

    example: ClassVar = {
        "scheme": "class_aligned",
        "clients": 10,
        "classes_per_client": 1,
        "per_class": 40,
    }

    def cut(self, data: Labelled, rng: np.random.Generator) -> Cut:
        """Give every client whole classes or halves of them."""
        each = self.classes_per_client
        return Cut(class_aligned(data.train, self.clients, each, rng, self.per_class))

    def examples(self, info: DatasetInfo) -> float:
        """Return how many training examples the clients hold together."""
        return info.train if self.per_class is None else self.per_class * info.classes
