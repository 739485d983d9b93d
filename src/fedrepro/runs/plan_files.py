"""Where plans are: those of the repository, in ``config/papers``, and the user's own."""

from __future__ import annotations

import functools
import os
import re
import shlex
from pathlib import Path

from fedrepro.base.configfile import name_of, nearest, yaml_files
from fedrepro.base.errors import FedreproError
from fedrepro.base.paths import MARKER, find_root, root

OWN_PLANS = "FEDREPRO_PLANS"
"""Environment variable with the user's own plans: files or folders, separated as in ``PATH``."""


def plan_files() -> dict[str, Path]:
    """Return the file of every plan by its slug: those of the repository, then the user's own.

    Raises:
        FedreproError: a plan cannot be called so, or one of the user's own is missing, or has the
            slug of another one.
    """
    here = find_root()
    folder = None if here is None else here / MARKER
    stamp = 0 if folder is None else folder.stat().st_mtime_ns
    return _plan_files(folder, stamp, os.environ.get(OWN_PLANS, ""), Path.cwd())


@functools.lru_cache(maxsize=16)
def _plan_files(folder: Path | None, stamp: int, places: str, cwd: Path) -> dict[str, Path]:
    """List plans; ``stamp`` (the folder's time of change) and ``cwd`` are part of the cache key."""
    found = [] if folder is None else yaml_files(folder)
    files = {name_of(file): file for file in found}
    for file in own_plan_files(places):
        if files.get(file.stem, file) != file:
            raise FedreproError(
                f"{file}: there is a plan {files[file.stem]} of the same name; rename one of them"
            )
        files[file.stem] = file
    return files


def own_plan_files(places: str) -> list[Path]:
    """Return the files of the user's own plans.

    Args:
        places: YAML files, or folders of them, separated as in ``PATH``.

    Raises:
        FedreproError: one of them is missing, or is a folder without a plan, or a file that cannot
            be called so or lie there.
    """
    files: list[Path] = []
    several = [places] if os.path.exists(places) else places.split(os.pathsep)
    for place in filter(None, several):
        path = Path(place)
        found = yaml_files(path) if path.is_dir() else [path]
        if not found or not all(file.is_file() for file in found):
            raise FedreproError(f"{path}: no plan there; give a YAML file or a folder of them")
        files += [file.resolve() for file in found]
    for file in files:
        name_of(file)
        if os.pathsep in str(file):
            raise FedreproError(
                f"{file}: no plan may lie in a path with '{os.pathsep}', which separates the plans "
                f"of {OWN_PLANS}; rename the folder, or move the plan"
            )
    return files


def use_plans(places: str) -> list[str]:
    """Make the user's own plans known to this process and those it starts; return their slugs.

    Raises:
        FedreproError: there is none, or as :func:`own_plan_files` and :func:`plan_files`.
    """
    files = own_plan_files(places)
    if not files:  # of two empty variables, say
        raise FedreproError(f"{places}: no plan there; give a YAML file or a folder of them")
    before = os.environ.get(OWN_PLANS, "")
    known = dict.fromkeys([*filter(None, before.split(os.pathsep)), *map(str, files)])
    os.environ[OWN_PLANS] = os.pathsep.join(known)
    plan_files()
    return list(dict.fromkeys(file.stem for file in files))


def is_own(name: str) -> bool:
    """Return whether a plan lies outside the repository's ``config/papers``.

    Raises:
        FedreproError: as :func:`plan_files`.
    """
    here = find_root()
    file = plan_files().get(name)
    return file is not None and (here is None or file.parent != here / MARKER)


def file_of(name: str) -> Path:
    """Return the file of a plan.

    Raises:
        FedreproError: there is no such plan (says the nearest), or no repository to look in; or as
            :func:`plan_files`.
    """
    files = plan_files()
    if not files:
        root()  # says that there is no clone
    if name not in files:
        own = f"{name}.yaml"
        hint = f"; a plan of your own is named by its file: {own}" if Path(own).is_file() else ""
        if re.fullmatch(r"(?=.*\d)[0-9a-f]{4,12}", name):
            hint = f"; if it is a run: `fedrepro show {name}`"
        raise FedreproError(f"unknown paper '{name}' {nearest(name, sorted(files))}{hint}")
    return files[name]


def argument(name: str) -> str:
    """Return how a command names a plan: by its slug, or the file of one of the user's own.

    Raises:
        FedreproError: as :func:`plan_files`.
    """
    return shlex.quote(str(file_of(name))) if is_own(name) else name


def plans() -> list[str]:
    """Return the slugs of all plans, of papers and of studies, sorted.

    Raises:
        FedreproError: as :func:`plan_files`.
    """
    return sorted(plan_files())


def is_study(name: str) -> bool:
    """Return whether a plan is a study of its own: it has no published values to compare with.

    A study is trained, and its tables and figures are made, only if it is named. It has no verdicts
    and no notebook.

    Raises:
        FedreproError: as :func:`plan_files`.
    """
    here = find_root()
    return here is None or is_own(name) or not (here / f"config/expected/{name}.yaml").exists()


def papers() -> list[str]:
    """Return the slugs of all papers that have a plan, sorted.

    Raises:
        FedreproError: as :func:`plan_files`.
    """
    return [name for name in plans() if not is_study(name)]
