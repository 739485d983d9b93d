"""What `fedrepro data ...` does. Each function returns the text to print."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from tabulate import tabulate

from fedrepro.base.errors import FedreproError
from fedrepro.base.files import write_text
from fedrepro.fl.data import cadis, npz, packs, sources
from fedrepro.fl.data.dataset import build, require_content
from fedrepro.fl.data.registry import DatasetInfo, cadis_index, describe, require_known
from fedrepro.fl.data.registry import names as known_names

CADIS_INDEX = "cadis_index"
"""What the CADIS client partitions are called beside the data sets."""


def list_datasets(data_root: Path | None = None) -> str:
    """Say of every data set what it is and where it would come from now.

    Args:
        data_root: a pack folder, as in `fedrepro.fl.data.load`.
    """
    rows: list[list[object]] = []
    for name in known_names():
        try:
            info = describe(name)
        except (FedreproError, OSError) as error:
            first = " ".join(line.strip() for line in str(error).splitlines()[:2])
            rows.append([name, "", "", "", f"problem: {first}", "", ""])
            continue
        try:
            location = sources.locate(name, data_root)
            place, size = _place(info, location), _size(info, location)
        except (FedreproError, OSError) as error:
            place, size = f"problem: {error}", 0
        channels, height, width = info.shape
        examples = f"{info.train:,} + {info.test:,}"
        shape = f"{channels} x {height} x {width}"
        rows.append([name, examples, shape, info.classes, place, _megabytes(size), info.licence])
    known = cadis_index()
    try:
        place, size = _cadis_place(data_root), _cadis_size(data_root)
    except (FedreproError, OSError) as error:
        place, size = f"problem: {error}", 0
    examples, clients = f"{len(known.partitions)} partitions", f"{known.clients} clients"
    rows.append([CADIS_INDEX, examples, clients, "", place, _megabytes(size), known.licence])
    headers = ["name", "training + test", "shape", "classes", "source now", "MB", "licence"]
    return tabulate(rows, headers, tablefmt="simple", colalign=("left",) * 3 + ("right", "left"))


def verify(names: Sequence[str] = (), data_root: Path | None = None) -> str:
    """Load data sets and check their checksums, shapes and counts.

    Args:
        names: data sets, or `CADIS_INDEX`; none means all that are here without a download.
        data_root: a pack folder, as in `fedrepro.fl.data.load`.

    Returns:
        One line for each data set.

    Raises:
        FedreproError: something is wrong with at least one; the message holds all lines.
    """
    _require_names(names)
    lines, bad = [], 0
    for name in names or (*known_names(), CADIS_INDEX):
        try:
            problem, text = False, _verify_one(name, data_root, download=bool(names))
        except (FedreproError, OSError) as error:
            problem, text = True, f"PROBLEM  {error}"
        bad += problem
        lines.append(f"{name:<15} {text}")
    if bad:
        raise FedreproError("\n".join([*lines, f"{bad} of {len(lines)} have a problem."]))
    return "\n".join(lines)


def pack(out: Path, names: Sequence[str] = (), data_root: Path | None = None) -> str:
    """Write data sets as a pack, from wherever they are; see `fedrepro.fl.data.packs`.

    Files of a pack are copied as they are, and so are features computed from audio; official files
    are packed without loss.

    Args:
        out: folder to write to; other data sets already packed there stay.
        names: data sets, or `CADIS_INDEX`; none means all that are here without a download.
        data_root: a pack folder to read from, as in `fedrepro.fl.data.load`.

    Raises:
        FedreproError: a data set cannot be had, or is never packed (generated or private), or
            ``out`` cannot be written, or is the name of a data set and no other is given.
    """
    if not names and str(out) in (*known_names(), CADIS_INDEX):
        raise FedreproError(
            f"'{out}' is a data set: name the folder to write first, as in `fedrepro data pack "
            f"FOLDER {out}`."
        )
    _require_names(names)
    writers: dict[str, Callable[[Path], None]] = {}
    expected: dict[str, str] = {}
    packed = []
    for name in names or (*known_names(), CADIS_INDEX):
        if name == CADIS_INDEX:
            files: tuple[str, ...] = (cadis_index().file,)
            folder = cadis.cadis_folder(data_root)
            places = _cadis_locations(data_root).values()
            if not names and any(place.kind == "download" for place in places):
                continue
            lists = _read_cadis(data_root)  # checks everything
            if folder is None:
                writers[files[0]] = partial(cadis.write_pack_file, partitions=lists)
        else:
            info, location = describe(name), sources.locate(name, data_root)
            if location.kind in ("synthetic", "download", "nowhere") and not names:
                continue
            if info.pack is None and not names:
                continue
            if info.pack is None:
                why = {
                    "synthetic": "made on the spot",
                    "plugin": "of another distribution: install that",
                }.get(location.kind, "private: copy its folder")
                raise FedreproError(f"Data set {name!r} is {why}: nothing to pack.")
            data = sources.load(name, data_root)  # checks everything
            location = sources.locate(name, data_root)  # where a download has put it
            files = info.pack.files
            stored = location.kind == "pack" or info.format == "speech_commands"
            folder = location.files[0].parent if stored else None
            if folder is None:
                writers |= packs.writers(info, data)
        if folder is not None:
            if os.path.realpath(folder) == os.path.realpath(out):
                raise FedreproError(f"{name} is already in the pack {out}: choose another folder.")
            writers |= {file: partial(_copy, folder / file) for file in files}
            expected |= {file: packs.sums(folder)[file] for file in files}
        packed.append(name)
    if not packed:
        raise FedreproError("There is no data set here to pack: name one to download it.")
    packs.publish(out, writers, expected)
    size = sum((out / file).stat().st_size for file in writers)
    return f"{out}: packed {', '.join(packed)} ({len(writers)} files, {_megabytes(size)} MB)"


def import_pack(source: Path, root: Path | None = None) -> str:
    """Check a pack and copy it to where later loads find it; all of it or nothing.

    Args:
        source: the folder of a pack, or one file of it that is a whole data set by itself.
        root: the pack to copy into; None for ``data/pack`` of the working directory.

    Raises:
        FedreproError: the pack is incomplete, corrupt, of other data or larger than its data sets
            can be, or the copy failed.
    """
    target = root or sources.PACK
    folder, only = (source, None) if source.is_dir() else (source.parent, source.name)
    if not source.exists():
        raise FedreproError(f"{source} does not exist: name the folder of a pack.")
    listed = packs.sums(folder)
    if only is not None and only not in listed:
        raise FedreproError(
            f"{source} is not listed in a {packs.SUMS} beside it: name the folder of a pack, "
            "unpacked if it came as an archive."
        )
    if not listed:
        raise FedreproError(
            f"{folder} has no {packs.SUMS}, so it is not a pack: write one with `fedrepro data "
            "pack`, or name the folder that holds that file."
        )
    if os.path.realpath(folder) == os.path.realpath(target):
        raise FedreproError(f"{folder} is the pack to import into: nothing to do.")
    limits = _limits()
    files = [file for file in ([only] if only else sorted(listed)) if file in limits]
    if not files:
        raise FedreproError(f"{source} holds no data set known here: nothing to import.")
    for file in files:
        if (folder / file).is_file():
            npz.require_size(folder / file, limits[file])
        packs.checked(folder, file)
    known = []
    for name in known_names():
        info = describe(name)
        if info.pack is not None and set(info.pack.files) & set(files):
            if only and len(info.pack.files) > 1:
                raise FedreproError(
                    f"{source} is one of {len(info.pack.files)} files of {name}: import the folder "
                    f"{folder}."
                )
            packs.has(folder, info.pack.files)
            where = f"the pack {folder}"
            require_content(build(info, packs.read(info, folder), "pack", where), where)
            known.append(name)
    if cadis_index().file in files:
        _read_cadis(folder)
        known.append(CADIS_INDEX)
    packs.publish(
        target,
        {file: partial(_copy, folder / file) for file in files},
        {file: listed[file] for file in files},
    )
    size = sum((target / file).stat().st_size for file in files)
    left = "" if only or len(files) == len(listed) else f"; {len(listed) - len(files)} unknown left"
    return (
        f"{target}: imported {', '.join(known)} ({len(files)} files, {_megabytes(size)} MB){left}"
    )


def _limits() -> dict[str, int]:
    """Return the files that a pack may have, and how many bytes each has at most."""
    limits = {cadis_index().file: cadis.MOST_BYTES}
    for name in known_names():
        info = describe(name)
        if info.pack is not None:
            limits |= dict.fromkeys(info.pack.files, packs.most_bytes(info))
    return limits


def prepare(
    name: str, out: Path, data_root: Path | None = None, *, content: str | None = None
) -> str:
    """Make sure a data set is there, downloading it if need be, and write a manifest of it.

    The manifest is JSON: name, source, sha256, train, test (examples) and note. A download counts
    as "raw", as every later load calls it, so a manifest does not depend on who came first. That
    of `CADIS_INDEX` has the sha256 of the lists of every partition.

    Args:
        name: one of `fedrepro.fl.data.names()`, or `CADIS_INDEX`.
        out: the manifest to write.
        data_root: a pack folder, as in `fedrepro.fl.data.load`.
        content: of other data, as there.

    Returns:
        One line that says where the data come from.

    Raises:
        FedreproError: as `fedrepro.fl.data.load`, ``out`` cannot be written, or a content is given
            of `CADIS_INDEX`, which has one only.
    """
    if name == CADIS_INDEX:
        if content is not None:
            raise FedreproError(f"{name}: has no other content than its own; leave out --content")
        return _prepare_cadis(out, data_root)
    _require_names([name])
    data = sources.load(name, data_root, content=content)
    manifest = {
        "name": data.name,
        "source": "raw" if data.source == "download" else data.source,
        "sha256": data.sha256,
        "train": len(data.train_y),
        "test": len(data.test_y),
        "note": data.note,
    }
    _write_manifest(out, manifest)
    return f"{name}: {manifest['source']}, content {data.sha256[:12]}, manifest {out}"


def _verify_one(name: str, data_root: Path | None, *, download: bool) -> str:
    if name == CADIS_INDEX:
        lists = _read_cadis(data_root, download=download)
        place = _cadis_place(data_root)
        return f"OK       {len(lists)} partitions, {place}" if lists else f"not here   {place}"
    location = sources.locate(name, data_root)
    if location.kind in ("download", "nowhere") and not download:
        return f"not here   {_place(describe(name), location)}"
    data = sources.load(name, data_root)
    place = _place(describe(name), location)
    text = f"OK       {len(data.train_y):,} + {len(data.test_y):,}, {place}, "
    return f"{text}content {data.sha256[:12]}" + (f"\n{'':<25}{data.note}" if data.note else "")


def _prepare_cadis(out: Path, data_root: Path | None) -> str:
    lists = _read_cadis(data_root)
    kind = "raw" if cadis.cadis_folder(data_root) is None else "pack"
    hashes = {name: cadis.lists_sha256(clients) for name, clients in lists.items()}
    _write_manifest(out, {"name": CADIS_INDEX, "source": kind, "partitions": hashes})
    return f"{CADIS_INDEX}: {kind}, {len(lists)} partitions, manifest {out}"


def _read_cadis(data_root: Path | None, *, download: bool = True) -> dict[str, cadis.Clients]:
    """Read and check the CADIS partitions, by name: all, or those here without a download."""
    return {
        name: cadis.cadis_partition(name, data_root)
        for name, location in _cadis_locations(data_root).items()
        if download or location.kind != "download"
    }


def _cadis_locations(data_root: Path | None) -> dict[str, sources.Location]:
    """Return the first source of each CADIS partition, by name."""
    names = cadis_index().partitions
    return {name: cadis.locate(name, data_root) for name in names}


def _cadis_place(data_root: Path | None) -> str:
    """Say where the CADIS partitions would come from."""
    locations = _cadis_locations(data_root).values()
    here = [location for location in locations if location.kind != "download"]
    if not here:
        return f"download to {next(iter(locations)).folder}"
    place = f"{here[0].kind} {here[0].folder}"
    if len(here) < len(locations):
        return f"{place} ({len(here)} of {len(locations)}), the others: download"
    return place


def _cadis_size(data_root: Path | None) -> int:
    """Return bytes on disk, or bytes to download where nothing is there."""
    files = {path for place in _cadis_locations(data_root).values() for path in place.files}
    lists = cadis_index().partitions.values()
    return sum(path.stat().st_size for path in files) or sum(each.bytes for each in lists)


def _require_names(names: Sequence[str]) -> None:
    for name in names:
        require_known(name, (*known_names(), CADIS_INDEX), "data set")


def _place(info: DatasetInfo, location: sources.Location) -> str:
    """Say where a data set would come from."""
    return {
        "synthetic": "made on the spot",
        "plugin": "another distribution",
        "download": f"download to {location.folder}",
        "nowhere": "not here: import a pack" if info.pack else "not here: private",
    }.get(location.kind, f"{location.kind} {location.folder}")


def _size(info: DatasetInfo, location: sources.Location) -> int:
    """Return bytes on disk, or bytes to download."""
    if location.kind == "download" and info.official is not None:
        return sum(archive.bytes for archive in info.official.archives)
    return sum(path.stat().st_size for path in location.files)


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f}"


def _write_manifest(out: Path, manifest: dict[str, object]) -> None:
    write_text(out, json.dumps(manifest, indent=1, sort_keys=True) + "\n")


def _copy(source: Path, target: Path) -> None:
    shutil.copyfile(source, target)
