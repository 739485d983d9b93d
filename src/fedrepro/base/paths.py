"""Where the repository and the data are.

The repository holds everything a run is described by (``config/``), and is found from anywhere.
Records (``results/runs/``), data and results are relative to the working directory: the root of the
repository, or a folder outside it that starts with no records.
"""

from __future__ import annotations

import os
from pathlib import Path

from fedrepro.base.errors import FedreproError

MARKER = "config/papers"
"""The folder that makes a folder the root of the repository."""


def root() -> Path:
    """Return the root of the repository: the folder that holds ``config/papers``.

    In this order: the environment variable ``FEDREPRO_ROOT``; the nearest parent of this file (a
    clone, or a package installed from it in editable mode); the working directory or its nearest
    parent (a package installed elsewhere, called inside a clone).

    Raises:
        FedreproError: ``FEDREPRO_ROOT`` is not such a folder, or no such folder is found.
    """
    found = find_root()
    if found is None:
        raise FedreproError(
            f"Cannot find the fedrepro repository (a folder with {MARKER}) from {Path.cwd()}: "
            "change into the clone, or set FEDREPRO_ROOT to it."
        )
    return found


def find_root() -> Path | None:
    """Return the root of the repository as :func:`root` does, or None where none is found.

    Raises:
        FedreproError: ``FEDREPRO_ROOT`` is not such a folder, or the working directory is gone.
    """
    try:
        place = os.environ.get("FEDREPRO_ROOT"), os.getcwd()
    except FileNotFoundError as error:
        raise FedreproError(
            "the working directory was deleted: change into one that is there"
        ) from error
    found = _FOUND.get(place)
    if found is None or not os.path.isdir(f"{found}/{MARKER}"):
        found = _look(*place)
        if found is not None:
            _FOUND[place] = found
        elif place[0]:
            raise FedreproError(
                f"FEDREPRO_ROOT is {place[0]}, which has no {MARKER}: set it to a clone of the "
                "fedrepro repository, or unset it and work inside the clone."
            )
    return found


def require_place() -> None:
    """Refuse a working directory below the root of the repository: records are looked up in it.

    Raises:
        FedreproError: it is one; or as :func:`find_root`.
    """
    here = find_root()
    if here is not None and here in Path.cwd().parents:
        raise FedreproError(f"run it in {here}: records are looked up in ./results/runs")


_FOUND: dict[tuple[str | None, str], Path] = {}
"""Roots found before, by what they depend on: asked for thousands of times."""


def _look(named: str | None, working_directory: str) -> Path | None:
    here = Path(working_directory)
    places = [Path(named)] if named else [*Path(__file__).resolve().parents, here, *here.parents]
    return next((place.resolve() for place in places if (place / MARKER).is_dir()), None)


def data_root(named: Path | None = None) -> Path | None:
    """Return the folder of packed data the user chose, or None where none was chosen.

    Args:
        named: the folder from the command line or ``config.data_root``; it goes before the
            environment variable ``FEDREPRO_DATA``.

    Raises:
        FedreproError: the folder does not exist.
    """
    chosen = named or (Path(value) if (value := os.environ.get("FEDREPRO_DATA")) else None)
    if chosen is not None and not os.path.isdir(chosen):  # False, too, where it may not be looked
        origin = "data_root" if named else "FEDREPRO_DATA"
        seen_from = "" if chosen.is_absolute() else f" in {Path.cwd()}"
        raise FedreproError(
            f"{origin} is {chosen}, which is not a folder{seen_from}, or may not be looked into: "
            "set it to a folder written by `fedrepro data pack`, or leave it out to use "
            "data/pack, data/raw or a download."
        )
    return chosen
