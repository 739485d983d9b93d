"""Where a data set comes from, and loading it from there."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType

from fedrepro.base import paths
from fedrepro.base.errors import FedreproError
from fedrepro.fl.data import official, packs, pill, speech_commands, synthetic, synthetic_pills
from fedrepro.fl.data.dataset import (
    Dataset,
    Labels,
    build,
    check_labels,
    require_content,
    require_labels,
)
from fedrepro.fl.data.registry import DatasetInfo, describe, in_memory, plugin, source

PACK = Path("data/pack")
"""The pack that `fedrepro data import` fills, relative to the working directory."""

RAW = Path("data/raw")
"""Official files and features made of them, relative to the working directory."""

GENERATORS = {"synthetic": synthetic.generate, "synthetic_pills": synthetic_pills.generate}
"""Generators of data sets that come from no file, by format."""

_ORIGINS: dict[str, ModuleType] = {"speech_commands": speech_commands, "pill": pill}


@dataclass(frozen=True)
class Location:
    """Where a data set would come from now.

    Attributes:
        kind: "pack", "raw", "download", "synthetic", "plugin" or "nowhere" (not here, and no
            download).
        folder: the pack, or the folder of raw files; where a download goes.
        files: the files that are there.
    """

    kind: str
    folder: Path
    files: tuple[Path, ...] = ()


def pack_folders(data_root: Path | None = None) -> tuple[Path, ...]:
    """Return the folders in which packs are looked for, in order.

    Raises:
        FedreproError: ``data_root``, or else ``FEDREPRO_DATA``, is not a folder.
    """
    chosen = paths.data_root(data_root)
    return (PACK,) if chosen is None else (chosen, PACK)


def locate(name: str, data_root: Path | None = None) -> Location:
    """Find the first source that has a data set, without reading it.

    In this order: the pack named by ``data_root`` or else ``FEDREPRO_DATA``; the pack
    ``data/pack``; official files in ``raw/`` of the named folder, then in ``data/raw``; download.

    Raises:
        FedreproError: the name is unknown, the named folder is missing, or a pack holds only part
            of the files.
    """
    info = describe(name)
    if info.format in GENERATORS:
        return Location("synthetic", Path())
    if info.format == "plugin":
        return Location("plugin", Path())
    folders = pack_folders(data_root)
    if info.pack is not None:
        for folder in folders:
            if packs.has(folder, info.pack.files):
                return Location("pack", folder, tuple(folder / file for file in info.pack.files))
    for raw in (*(folder / "raw" for folder in folders[:-1]), RAW):
        files = _origin(info).files(info, raw)
        if files:
            return Location("raw", raw, files)
    return Location("nowhere" if info.official is None else "download", RAW)


def load(name: str, data_root: Path | None = None, *, content: str | None = None) -> Dataset:
    """Load a data set, downloading it if need be; a second call returns the same object.

    Args:
        name: one of `fedrepro.fl.data.names()`.
        data_root: a pack folder; None for the one in ``FEDREPRO_DATA``, if that is set.
        content: as in `fedrepro.fl.data.dataset.require_content`.

    Raises:
        FedreproError: unknown name, missing or corrupt files, unexpected shapes, counts or content,
            or a download that failed. The message names the file and what to do.
    """
    own = in_memory(name)
    if own is not None:
        require_content(own, own.source, content)
        return own
    location = locate(name, data_root)
    stamps = tuple((path.stat().st_size, path.stat().st_mtime_ns) for path in location.files)
    try:
        data = _load(name, location, Path.cwd(), paths.find_root(), stamps)
    except FedreproError as error:
        if location.kind not in ("download", "nowhere") or describe(name).pack is None:
            raise
        places = ", ".join(str(folder) for folder in pack_folders(data_root))
        raise FedreproError(f"{error}\nLooked for packs in: {places}.") from None
    require_content(data, _where(location), content)
    return data


def labels(
    name: str, data_root: Path | None = None, *, content: str | None = None
) -> tuple[Labels, Labels]:
    """Return training and test labels, int64 [n] each, without decoding images if possible.

    Raises:
        FedreproError: as `load`.
    """
    if in_memory(name) is not None or content is not None:
        data = load(name, data_root, content=content)
        return data.train_y, data.test_y
    info, location = describe(name), locate(name, data_root)
    if location.kind == "pack":
        train, test = packs.read_labels(info, location.folder)
    elif location.kind == "raw" and info.format == "mnist":
        train, test = official.read_mnist_labels(info, location.folder)
    else:
        data = load(name, data_root)
        return data.train_y, data.test_y
    check_labels(info, train, test, _where(location))
    require_labels(info, train, test, _where(location))
    return train, test


@lru_cache(maxsize=4)
def _load(
    name: str,
    location: Location,
    working_directory: Path,
    root: Path | None,
    stamps: tuple[tuple[int, int], ...],
) -> Dataset:
    """Load from one place. The last three arguments only tell apart what is cached."""
    info = describe(name)
    if location.kind == "synthetic":
        return build(info, GENERATORS[info.format](info), "synthetic", _where(location))
    if location.kind == "plugin":
        made = source(name)
        assert made is not None
        owner = " ".join(plugin(name) or ())
        try:
            return build(info, made.read(), "plugin", owner)
        except FedreproError:
            raise
        except Exception as error:
            raise FedreproError(
                f"the distribution {owner}: its data set '{name}' cannot be read "
                f"({type(error).__name__}: {error}); mend or uninstall it"
            ) from error
    if location.kind == "pack":
        return build(info, packs.read(info, location.folder), "pack", _where(location))
    if location.kind == "download":
        _origin(info).download(info, location.folder)
    arrays = _origin(info).read(info, location.folder)
    kind = "download" if location.kind == "download" else "raw"
    return build(info, arrays, kind, _where(location))


def _where(location: Location) -> str:
    """Say where data come from, for the text of an error."""
    named = {
        "pack": f"the pack {location.folder}",
        "synthetic": "the generator",
        "plugin": "its distribution",
    }
    return named.get(location.kind, str(location.folder))


def _origin(info: DatasetInfo) -> ModuleType:
    """Return the module that finds, downloads and reads the official data."""
    return _ORIGINS.get(info.format, official)
