"""The client partitions published by the CADIS authors: which client holds which images.

They come from the first of these places that has them:

1. ``cadis_index.npz`` in a pack. It holds, per partition ``<name>``, ``<name>_index`` (positions in
   the official training set) and ``<name>_offsets`` [clients + 1]: client ``i`` has
   ``index[offsets[i]:offsets[i + 1]]``.
2. The authors' JSON files below ``data/raw/cadis``, at their paths in the authors' repositories: an
   object of client id, "0" to "99", to the list of positions.
3. A download of the one JSON file that is asked for, to that place.

Wherever they come from, they are read only if their hash is the one in ``cadis_index.yaml``.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, TypeAdapter, ValidationError

from fedrepro.base.errors import FedreproError
from fedrepro.fl.data import fetch, packs
from fedrepro.fl.data.registry import cadis_index, describe, require_known
from fedrepro.fl.data.sources import RAW, Location, pack_folders

IntArray = NDArray[np.int64]
Clients = tuple[IntArray, ...]

MOST_BYTES = 1 << 26
"""Most bytes of a pack's file of lists, packed or unpacked; the published ones have 1 MB."""


def cadis_partition(name: str, data_root: Path | None = None) -> Clients:
    """Read one of the partitions behind CADIS Tables I and III, downloading it if need be.

    Args:
        name: ``<data set>_<kind>``: mnist, cifar10 or cifar100; mc (sample-unbalanced
            multi-cluster), bc or uc (sample-balanced or sample-unbalanced single cluster) or pa
            (Pareto), e.g. "cifar10_mc", which is sample-balanced, contrary to the paper.
        data_root: as in `fedrepro.fl.data.load`.

    Returns:
        For each of the 100 clients, int64 [examples]: positions in the training set, in the
        order of the file. Disjoint, but for the Pareto kind: there clients share examples, and
        a few clients list an example twice.

    Raises:
        FedreproError: the name is unknown, the file is corrupt or holds other lists than the
            published ones, or the download failed. The text names the file and what to do.
    """
    place = locate(name, data_root)
    if place.kind == "pack":
        return _read_pack(name, place.folder)
    if place.kind == "raw":
        return _read_json(name, place.files[0], str(place.files[0]), _AGAIN)
    try:
        return _download(name, place.folder)
    except FedreproError as error:
        places = ", ".join(str(folder) for folder in pack_folders(data_root))
        raise FedreproError(f"{error}\nLooked for packs in: {places}.") from None


def locate(name: str, data_root: Path | None = None) -> Location:
    """Find the first source that has a partition, without reading it; as `sources.locate`.

    Raises:
        FedreproError: the name is unknown, or a pack lists the file but does not hold it.
    """
    known = cadis_index()
    require_known(name, tuple(known.partitions), "CADIS partition")
    pack = cadis_folder(data_root)
    if pack is not None:
        return Location("pack", pack, (pack / known.file,))
    for raw in (*(folder / "raw" for folder in pack_folders(data_root)[:-1]), RAW):
        path = raw / known.folder / known.partitions[name].path
        if path.is_file():
            return Location("raw", raw / known.folder, (path,))
    return Location("download", RAW / known.folder)


def cadis_folder(data_root: Path | None = None) -> Path | None:
    """Return the pack that holds the client lists; None if none does.

    Raises:
        FedreproError: the named folder is missing, or a pack lists the file but does not hold it.
    """
    file = cadis_index().file
    return next((folder for folder in pack_folders(data_root) if packs.has(folder, (file,))), None)


def lists_sha256(clients: Clients) -> str:
    """Return the SHA-256 of lists, hexadecimal: of offsets, then positions, as in a pack.

    All are hashed as little-endian int64.
    """
    positions, offsets = _joined(clients)
    values = np.concatenate([offsets, positions]).astype("<i8")
    return hashlib.sha256(values.tobytes()).hexdigest()


def write_pack_file(path: Path, partitions: Mapping[str, Clients]) -> None:
    """Write partitions, by name, as the file of a pack; the format is in the module."""
    arrays: dict[str, NDArray[np.integer[Any]]] = {}
    for name, clients in partitions.items():
        positions, offsets = _joined(clients)
        arrays[f"{name}_index"] = positions.astype(np.min_scalar_type(_examples(name) - 1))
        arrays[f"{name}_offsets"] = offsets.astype(np.int32)
    np.savez_compressed(path, allow_pickle=False, **arrays)


_AGAIN = "Delete it and run again to download it."

_LISTS = TypeAdapter(dict[str, list[Annotated[int, Field(strict=True, ge=0, lt=2**31)]]])


def _examples(name: str) -> int:
    """Return how many training images the data set of a partition has."""
    return describe(cadis_index().partitions[name].dataset).train


def _joined(clients: Clients) -> tuple[IntArray, IntArray]:
    """Return all positions, client after client, and where each client starts and the last ends."""
    return np.concatenate(clients), np.cumsum([0, *map(len, clients)], dtype=np.int64)


def _read_pack(name: str, folder: Path) -> Clients:
    known = cadis_index()
    with packs.opened(folder, known.file, MOST_BYTES) as arrays:
        index, offsets = arrays[f"{name}_index"], arrays[f"{name}_offsets"]
        for what, values in (("index", index), ("offsets", offsets)):
            if not np.issubdtype(values.dtype, np.integer):
                raise ValueError(f"{name}_{what} is {values.dtype}, not integer")
        positions, ends = index.astype(np.int64), offsets.astype(np.int64)
    if (
        ends.shape != (known.clients + 1,)
        or ends[0] != 0
        or ends[-1] != len(positions)
        or (np.diff(ends) < 0).any()
    ):
        raise FedreproError(
            f"{folder / known.file}: {name}_offsets does not cut {len(positions)} positions into "
            f"{known.clients} clients."
        )
    clients = tuple(np.split(positions, ends[1:-1]))
    advice = "Use another pack, or one without this file: then the lists are downloaded."
    return _checked(name, clients, str(folder / known.file), advice)


def _read_json(name: str, path: Path, where: str, advice: str) -> Clients:
    """Read an authors' file, called ``where`` in errors, which end with ``advice``."""
    try:
        content = _LISTS.validate_json(_first_side(path.read_bytes()))
    except OSError as error:
        raise FedreproError(f"{where} cannot be read: {error}. {advice}") from None
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        place = "".join(f"[{part!r}]" for part in problem["loc"])
        raise FedreproError(
            f"{where} is not JSON of client ids and lists of positions: "
            f"{f'{place}: ' if place else ''}{problem['msg']}. {advice}"
        ) from None
    ids = [str(client) for client in range(cadis_index().clients)]
    missing = [client for client in ids if client not in content]
    if missing or len(content) != len(ids):
        what = f"no client {missing[0]!r}" if missing else f"{len(content)} clients"
        raise FedreproError(f"{where} has {what}, not clients '0' to '{ids[-1]}'. {advice}")
    clients = tuple(np.array(content[client], dtype=np.int64) for client in ids)
    return _checked(name, clients, where, advice)


def _first_side(content: bytes) -> bytes:
    """Return the first side of a file that was committed with an unresolved merge, or all of it.

    The authors' file of CIFAR-100 MC was; ``docs/papers/cadis.md`` says what the sides are.
    """
    if not content.startswith(b"<<<<<<< "):
        return content
    return content.partition(b"\n")[2].partition(b"\n=======\n")[0]


def _checked(name: str, clients: Clients, where: str, advice: str) -> Clients:
    """Return the clients if they are the published ones."""
    positions, examples = np.concatenate(clients), _examples(name)
    if len(positions) and not 0 <= positions.min() <= positions.max() < examples:
        raise FedreproError(
            f"{where}: the positions of {name} leave the training set of {examples} examples. "
            f"{advice}"
        )
    expected, found = cadis_index().partitions[name].sha256, lists_sha256(clients)
    if found != expected:
        raise FedreproError(
            f"{where} does not hold the published lists of {name}: the sha256 of its lists is "
            f"{found}, expected {expected}. {advice}"
        )
    return clients


def _download(name: str, folder: Path) -> Clients:
    """Fetch the file of a partition to below ``folder``; it is kept only if it is the right one."""
    known = cadis_index()
    lists, url = known.partitions[name], known.url(name)
    target = folder / lists.path
    pack = (
        "or set FEDREPRO_DATA to a folder written by `fedrepro data pack`; or run `fedrepro data "
        "import FOLDER` on such a folder."
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        fetch.sweep(folder)
        with tempfile.TemporaryDirectory(prefix=fetch.PARTIAL, dir=folder) as partial:
            path = Path(partial, "lists.json")
            fetch.fetch([url], path, size=lists.bytes)
            clients = _read_json(name, path, url, f"It was not kept. Run again later; {pack}")
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(path, target)
            return clients
    except fetch.DownloadError as error:
        raise FedreproError(
            f"Could not download the CADIS client lists {name!r}:\n{error}\nWithout internet: put "
            f"that file into {target.parent}; {pack}"
        ) from None
    except OSError as error:
        raise fetch.not_written(folder, error) from None
