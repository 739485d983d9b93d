"""The client partitions published by the CADIS authors, as a file of index lists.

``cadis_index.npz`` holds, per partition ``<name>``, ``<name>_index`` (positions in the official
training set) and ``<name>_offsets`` [clients + 1]: client ``i`` has
``index[offsets[i]:offsets[i + 1]]``. It comes only in a pack.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedrepro.data import packs
from fedrepro.data.registry import registry, require_known
from fedrepro.data.sources import pack_folders
from fedrepro.errors import FedreproError

IntArray = NDArray[np.int64]


def cadis_partition(name: str, data_root: Path | None = None) -> tuple[IntArray, ...]:
    """Read one of the partitions behind CADIS Tables I and III.

    Args:
        name: ``<data set>_<kind>``: mnist, cifar10 or cifar100; mc (sample-unbalanced
            multi-cluster), bc or uc (sample-balanced or sample-unbalanced single cluster) or pa
            (Pareto), e.g. "cifar10_mc", which is sample-balanced, contrary to the paper.
        data_root: as in `fedrepro.data.load`.

    Returns:
        for each of the 100 clients, int64 [examples]: positions in the training set, in the
        order of the file. Disjoint, but for the Pareto kind: there clients share examples, and
        a few clients list an example twice.

    Raises:
        FedreproError: the name is unknown, no pack holds the file, or the file is corrupt.
    """
    known = registry().cadis_index
    require_known(name, tuple(known.partitions), "CADIS partition")
    examples = registry().datasets[known.partitions[name]].train
    folder = cadis_folder(data_root)
    if folder is None:
        places = ", ".join(str(place) for place in pack_folders(data_root))
        raise FedreproError(
            f"{known.file} (the CADIS client partitions) is in no pack; looked in {places}. Set "
            "FEDREPRO_DATA to a pack that holds it, or run `fedrepro data import FOLDER` on one."
        )
    with packs.opened(folder, known.file) as arrays:
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
    if len(positions) and not 0 <= positions.min() <= positions.max() < examples:
        raise FedreproError(
            f"{folder / known.file}: {name}_index leaves the training set of {examples} examples."
        )
    return tuple(np.split(positions, ends[1:-1]))


def cadis_folder(data_root: Path | None = None) -> Path | None:
    """Return the pack that holds the file; None where none does."""
    file = registry().cadis_index.file
    return next((folder for folder in pack_folders(data_root) if packs.has(folder, (file,))), None)
