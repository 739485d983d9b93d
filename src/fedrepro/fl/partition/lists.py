"""Index lists of the user's own, from a file or from a program.

The identity of a run contains the digest of the lists, not where they come from.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, TypeAdapter, ValidationError, ValidationInfo, model_validator

from fedrepro.base.errors import FedreproError
from fedrepro.base.strict import fields_of_file
from fedrepro.fl.data import npz
from fedrepro.fl.partition.scheme import Cut, Labelled, Scheme
from fedrepro.fl.partition.shared import Clients, Indices
from fedrepro.fl.partition.statistics import digest

if TYPE_CHECKING:
    from fedrepro.fl.data import DatasetInfo


class NoLists(FedreproError):
    """What is given is no list of positions for each client."""


_KNOWN: dict[str, Clients] = {}
"""The lists that this process has, by their digest."""


def remember(clients: Sequence[Indices]) -> str:
    """Keep lists for the runs of this process; return their digest.

    Args:
        clients: for each client, positions in the training split, int64 [n_k], n_k > 0.

    Returns:
        SHA-256 as of :func:`.statistics.digest`, 64 hexadecimal digits.

    Raises:
        NoLists: there is no list, or one is empty or holds anything but positions.
    """
    if not clients:
        raise NoLists("index lists: no client; give one list of positions for each")
    kept = []
    for number, positions in enumerate(clients):
        array = np.asarray(positions)
        if array.shape == (0,):
            raise NoLists(f"index lists: client {number} holds no example")
        if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
            cure = "; of a mask give `numpy.flatnonzero(mask)`" if array.dtype == bool else ""
            raise NoLists(
                f"index lists: client {number} holds an array of shape {array.shape} and type "
                f"{array.dtype}, not a list of whole numbers{cure}"
            )
        for position in (array.min(), array.max()):
            if not 0 <= position < 2**31:
                raise NoLists(f"index lists: client {number} has the position {position}")
        kept.append(array.astype(np.int64))
    name = digest(kept)
    _KNOWN[name] = tuple(kept)
    return name


def read(file: Path) -> list[Indices]:
    """Read lists: ``.npz`` as `fedrepro partition` writes it, or ``.json``, a list of lists.

    Raises:
        FedreproError: the file is missing or is none of these; names it.
    """
    try:
        if file.suffix == ".json":
            return [np.array(positions) for positions in _JSON.validate_json(file.read_bytes())]
        with npz.opened(file) as arrays:
            return [arrays[name] for name in _clients(arrays)]
    except ValidationError as error:
        reason = str(error.errors()[0]["msg"])
    except OSError as error:
        reason = str(error.strerror or error)
    except npz.WrongFormat as error:
        reason = str(error).removeprefix(f"{file}: ")
    raise FedreproError(
        f"{file}: no index lists ({reason}); give an .npz with arrays client_000, client_001, ..., "
        "or a .json with one list of positions a client"
    )


def _clients(names: Iterable[str]) -> list[str]:
    """Return the names of the clients' arrays in the order of their numbers.

    Raises:
        WrongFormat: they are not numbered from 0, each number once.
    """
    found = [name for name in names if name.startswith("client_")]
    numbers = {name: int(name[7:]) for name in found if re.fullmatch("[0-9]{1,9}", name[7:])}
    if sorted(numbers.values()) != list(range(len(found))):
        other = [name for name in found if name not in numbers]
        raise npz.WrongFormat(
            f"{other[0]} has no number" if other else "clients are not numbered from 0, each once"
        )
    return sorted(numbers, key=numbers.__getitem__)


_JSON = TypeAdapter(list[list[Annotated[int, Field(strict=True, ge=0, lt=2**31)]]])


class Lists(Scheme):
    """Clients hold the examples that the user's own lists name."""

    scheme: Literal["lists"]
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$", description="digest of the lists")
    clients: int = Field(ge=1)
    total: int = Field(ge=1, description="examples of all clients together")

    seeded: ClassVar = False

    @model_validator(mode="before")
    @classmethod
    def _from_file(cls, content: Any, info: ValidationInfo) -> Any:
        """Take ``file: lists.npz`` in place of the other fields.

        Raises:
            ValueError: neither it nor they are there.
        """
        content = fields_of_file(content, _described_file, info)
        if isinstance(content, dict) and "sha256" not in content:
            raise ValueError(
                "file: name the file that holds the lists; or give the lists themselves to "
                "fr.partition, in place of the name"
            )
        return content

    def cut(self, data: Labelled, rng: np.random.Generator) -> Cut:
        """Return the lists.

        Raises:
            FedreproError: this process does not have them, or they do not fit the data set.
        """
        if self.sha256 not in _KNOWN:
            raise FedreproError(
                f"the index lists {self.sha256[:12]} of this run are not here: give them again "
                "(the lists that the program had, or a plan's partition.file, and the plan in the "
                "command: --paper my-plan.yaml)"
            )
        clients = _KNOWN[self.sha256]
        found = (len(clients), sum(len(client) for client in clients))
        if found != (self.clients, self.total):
            raise FedreproError(
                f"partition.clients, partition.total: {self.clients}, {self.total}, and the index "
                f"lists {self.sha256[:12]} have {found[0]} clients with {found[1]} examples"
            )
        largest = max(int(client.max()) for client in clients)
        if largest >= len(data.train):
            raise FedreproError(
                f"the index lists {self.sha256[:12]} name the example {largest}, and this data set "
                f"has {len(data.train)}"
            )
        return Cut(clients)

    def examples(self, info: DatasetInfo) -> float:
        """Return how many training examples the clients hold together."""
        return self.total


def _described_file(file: Path) -> dict[str, Any]:
    try:
        return described(read(file))
    except NoLists as error:
        raise FedreproError(f"{file}: {error}") from error


def described(clients: Sequence[Indices]) -> dict[str, Any]:
    """Keep lists (:func:`remember`, with its errors) and return the parameters of their scheme."""
    return {
        "sha256": remember(clients),
        "clients": len(clients),
        "total": sum(len(client) for client in clients),
    }
