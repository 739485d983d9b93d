"""Clients that hold blocks of consecutive classes; examples set aside for server and validation.

With 2 clients of 5 classes this is FL-NIID(5) of Ozdayi et al. 2020, section 4.2, with 2 clients of
10 classes their FL-IID, and with a single client the centralised data. For equal labels and random
numbers, the examples that are kept, validated on and given to the server do not depend on the
number of clients or of their classes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from pydantic import Field

from fedrepro.base.errors import FedreproError
from fedrepro.fl.partition.scheme import Cut, Labelled, NodeSets, Scheme
from fedrepro.fl.partition.shared import Indices, check_clients, shuffled_classes

if TYPE_CHECKING:
    from fedrepro.fl.data import DatasetInfo


def class_blocks(
    labels: Indices,
    clients: int,
    classes_per_client: int,
    rng: np.random.Generator,
    *,
    per_class: int | None = None,
    server_share: float = 0.0,
    validation: int = 0,
) -> Cut:
    """Cut every shuffled class into validation, server and clients' parts.

    Client k holds the ``classes_per_client`` classes from class ``k * classes_per_client`` on,
    counted round the classes. A class is dealt evenly to the clients that hold it.

    Args:
        labels: int64 [n], class numbers from 0; the classes are ``0..max(labels)``.
        clients: number of clients; ``clients * classes_per_client`` is a multiple of the classes.
        classes_per_client: at most the number of classes.
        rng: draws one permutation per class, in class order.
        per_class: examples of each class that server and clients share, the surplus being dropped
            at random; None: all but the validation examples.
        server_share: share of these that the server keeps, 0..1, in whole examples of each class.
        validation: examples of each class set aside.

    Returns:
        Disjoint clients, server and validation, each ascending.

    Raises:
        FedreproError: the arguments do not fit each other; the message names the feasible values.
    """
    members = shuffled_classes(labels, None, rng)
    classes = len(members)
    if not 1 <= classes_per_client <= classes:
        raise FedreproError(
            f"classes_per_client must be in 1..{classes}, the number of classes, got "
            f"{classes_per_client}"
        )
    if clients < 1 or clients * classes_per_client % classes:
        raise FedreproError(
            f"clients * classes_per_client must be a positive multiple of the {classes} classes, "
            f"got {clients} * {classes_per_client}"
        )
    check_clients(clients, labels.size)
    holders = clients * classes_per_client // classes
    smallest = min(member.size for member in members) - validation
    if per_class is not None and per_class > smallest:
        raise FedreproError(
            f"per_class must be at most {max(smallest, 0)}, the size of the smallest class less "
            f"{validation} validation examples, got {per_class}"
        )
    dealt: list[list[Indices]] = [[] for _ in range(clients)]
    server = []
    for label, member in enumerate(members):
        kept = member[validation:][:per_class]
        served = round(server_share * kept.size)
        if kept.size - served < holders:
            raise FedreproError(
                f"class {label} has {kept.size - served} examples left for the {holders} clients "
                "that hold it; lower server_share or validation, or raise per_class"
            )
        server.append(kept[:served])
        holding = [
            k
            for k in range(clients)
            if (label - k * classes_per_client) % classes < classes_per_client
        ]
        for place, client in enumerate(holding):
            dealt[client].append(kept[served:][place::holders])
    return Cut(
        clients=tuple(np.sort(np.concatenate(parts)) for parts in dealt),
        server=np.sort(np.concatenate(server)),
        validation=np.sort(np.concatenate([member[:validation] for member in members])),
    )


class ClassBlocks(Scheme):
    """Client k holds the k-th block of consecutive classes (Ozdayi et al. 2020, section 4.2).

    Two clients of five classes are FL-NIID(5), two of ten FL-IID; one of ten is centralised data.
    """

    scheme: Literal["class_blocks"]
    clients: int = Field(ge=1)
    classes_per_client: int = Field(ge=1)
    per_class: int | None = Field(
        default=None, ge=1, description="examples of each class for server and clients; null: all"
    )
    server_share: float = Field(
        default=0.0, ge=0, lt=1, description="share of these that the server keeps to train on"
    )
    validation: int = Field(
        default=0, ge=0, description="further examples of each class, set aside for validation"
    )

    example: ClassVar = {
        "scheme": "class_blocks",
        "clients": 2,
        "classes_per_client": 5,
        "per_class": 40,
    }

    def cut(self, data: Labelled, rng: np.random.Generator) -> Cut:
        """Cut blocks; every node's test set ``validation`` is all of the images set aside."""
        cut = class_blocks(
            data.train,
            self.clients,
            self.classes_per_client,
            rng,
            per_class=self.per_class,
            server_share=self.server_share,
            validation=self.validation,
        )
        sets = {"validation": NodeSets("train", (cut.validation,) * self.clients)}
        return replace(cut, node_sets=sets) if self.validation else cut

    def examples(self, info: DatasetInfo) -> float:
        """Return how many training examples the clients and the server hold together."""
        per_class = self.per_class
        if per_class is not None:
            return per_class * info.classes
        return info.train - self.validation * info.classes

    def evaluated(self, info: DatasetInfo) -> float:
        """Return how many examples an evaluation predicts."""
        return info.test + self.validation * info.classes
