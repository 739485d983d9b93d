"""Finds what a run is made of: partitions, networks, algorithms, loss terms.

A component is defined in one file, with all that concerns it. Those of fedrepro are found in the
package of their kind, and those of other distributions by their entry points:

    [project.entry-points."fedrepro.algorithms"]
    fedmedian = "my_package.fedmedian:ALGORITHM"

A run that uses a component of another distribution has that distribution's name and version in its
identity, and a digest of its code while it is installed as editable. Importing components imports
no PyTorch: the Snakefile does on every call.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.metadata
import json
import pkgutil
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from fedrepro.base.configfile import nearest
from fedrepro.base.errors import FedreproError, UnknownName

C = TypeVar("C")

UNPACKAGED = "unpackaged"
"""Stands for the distribution of a component that the running program defines itself."""


class Registry(Mapping[str, C]):
    """The components of a kind by name, sorted; they are imported when first asked for.

    That first use raises a FedreproError if two components have one name, or if one of another
    distribution cannot be imported or is not of the kind.

    Args:
        what: what messages call a component of the kind.
        package: the package whose modules define fedrepro's components.
        group: the group of entry points that names those of other distributions.
        named: returns the name of an object, or None if it is no component of the kind.
    """

    def __init__(
        self, what: str, package: str, group: str, named: Callable[[Any], str | None]
    ) -> None:
        self._what, self._package, self._group, self._named = what, package, group, named

    def __getitem__(self, name: str) -> C:
        """Return a component.

        Raises:
            UnknownName: there is no such component; says the nearest name.
        """
        self.require(name)
        component: C = self._found[name][0]
        return component

    def __iter__(self) -> Iterator[str]:
        """Yield the names, sorted."""
        return iter(sorted(self._found))

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._found)

    def __contains__(self, name: object) -> bool:
        """Return whether there is a component of this name."""
        return isinstance(name, str) and name in self._found

    def require(self, name: str) -> str:
        """Return the name if there is such a component.

        Raises:
            UnknownName: there is no such component; says the nearest name.
        """
        if name not in self:
            raise UnknownName(f"unknown {self._what} '{name}' {nearest(str(name), list(self))}")
        return name

    def plugin(self, name: str) -> tuple[str, str] | None:
        """Return name and version of a component's distribution; None if it is fedrepro's.

        Raises:
            KeyError: there is no such component.
        """
        return self._found[name][1]

    def module(self, name: str) -> str:
        """Return the dotted name of the module that defines a component.

        Raises:
            KeyError: there is no such component.
        """
        return self._found[name][2]

    def use(self, component: C) -> str:
        """Know a component that this program defines itself, for as long as the program runs.

        Nothing says whether its code is still the same, functions that it calls included. So each
        call gives it a version of its own, and no run is taken for one of an earlier call.

        Args:
            component: of the kind; it replaces the one of its name that was used before. One that
                is installed is known already.

        Returns:
            Its name.

        Raises:
            FedreproError: it is not of the kind, or has the name of an installed component.
        """
        name = self._name_of(component)
        if name is None:
            raise FedreproError(
                f"{component!r:.50} is no {self._what} with a name: docs/own-components.md and "
                "docs/first-algorithm.md have one of each kind"
            )
        if name in self and not self.is_unpackaged(name):
            if component is self._found[name][0]:
                return name
            raise FedreproError(
                f"there is an installed {self._what} '{name}': use that by its name, or give this "
                "one another"
            )
        version = UNPACKAGED, secrets.token_hex(6)
        self._found[name] = component, version, str(getattr(component, "module", ""))
        return name

    def is_unpackaged(self, name: str) -> bool:
        """Return whether there is a component of this name, and this program defines it itself."""
        plugin = self.plugin(name) if name in self else None
        return plugin is not None and plugin[0] == UNPACKAGED

    @functools.cached_property
    def _found(self) -> dict[str, tuple[Any, tuple[str, str] | None, str]]:
        found: dict[str, tuple[Any, tuple[str, str] | None, str]] = {}
        package = importlib.import_module(self._package)
        for info in pkgutil.iter_modules(package.__path__, f"{self._package}."):
            module = importlib.import_module(info.name)
            for value in vars(module).values():
                name = self._named(value)
                if name is not None and _defined_in(value, info.name):
                    found[name] = (value, None, info.name)
        for name, point in entry_points(self._group).items():
            if name in found:
                raise FedreproError(
                    f"{owner(point)} names a {self._what} '{name}' as fedrepro does: uninstall "
                    "it, or give that component another name"
                )
            component = load_entry_point(point)
            if self._name_of(component) != name:
                raise FedreproError(
                    f"{owner(point)}: {point.value} is no {self._what} of the name '{name}'"
                )
            found[name] = (component, distribution(point), point.module)
        return found

    def _name_of(self, component: Any) -> str | None:
        """Return the name of what another distribution brings, which may be anything."""
        try:
            return self._named(component)
        except Exception:
            return None


def _defined_in(value: Any, module: str) -> bool:
    """Return whether a component is a module's own, not one that it imports."""
    return getattr(value, "module", None) == module or getattr(value, "__module__", None) == module


@functools.cache
def entry_points(group: str) -> dict[str, importlib.metadata.EntryPoint]:
    """Return the entry points of a group by name.

    Raises:
        FedreproError: two distributions use the same name.
    """
    points: dict[str, importlib.metadata.EntryPoint] = {}
    for point in importlib.metadata.entry_points(group=group):
        if point.name in points:
            raise FedreproError(
                f"{owner(point)} and {owner(points[point.name])} both name '{point.name}' in "
                f"{group}: uninstall one of them"
            )
        points[point.name] = point
    return points


def load_entry_point(point: importlib.metadata.EntryPoint) -> Any:
    """Return what an entry point names.

    Raises:
        FedreproError: it cannot be imported; names the distribution.
    """
    try:
        return point.load()
    except Exception as error:
        raise FedreproError(
            f"{owner(point)}: {point.value} cannot be imported ({type(error).__name__}: {error}); "
            "mend or uninstall it"
        ) from error


def distribution(point: importlib.metadata.EntryPoint) -> tuple[str, str]:
    """Return name and version of a loaded entry point's distribution, as runs are identified by.

    Where it is installed as editable (PEP 610), code changes more often than the version, so that
    this ends with a digest of the code: ``0.1.0, code 53bc2a70e1f4``.
    """
    assert point.dist is not None
    name, version = point.dist.name, point.dist.version
    url = json.loads(point.dist.read_text("direct_url.json") or "{}")
    if url.get("dir_info", {}).get("editable"):
        version += f", code {_digest(point.module.partition('.')[0])}"
    return name, version


@functools.cache  # of the code that this process has imported
def _digest(package: str) -> str:
    """Return a digest, 12 hexadecimal digits, of the Python files of a top-level package or module.

    Args:
        package: its name; it must have been imported.
    """
    imported = sys.modules[package]
    folders = [Path(folder) for folder in getattr(imported, "__path__", [])]
    files = {file.relative_to(folder): file for folder in folders for file in folder.rglob("*.py")}
    if not folders and imported.__file__:
        files = {Path(): Path(imported.__file__)}
    listed = [[path.as_posix(), files[path].read_text(encoding="utf-8")] for path in sorted(files)]
    return hashlib.sha256(json.dumps(listed).encode()).hexdigest()[:12]


def owner(point: importlib.metadata.EntryPoint) -> str:
    """Say whose an entry point is, with the version."""
    assert point.dist is not None
    return f"the distribution {point.dist.name} {point.dist.version}"
