"""Which files of the package something is made with: its modules and all that they import.

Imports that only a type checker sees do not count. Components of a run (data sets, partitions,
networks, algorithms) are looked up by name, not imported; a change of theirs shows in run ids.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from pathlib import Path

import grimp

import fedrepro

_PACKAGE = "fedrepro"
FOLDER = Path(fedrepro.__file__).parent
_READ = {
    "fl/data/registry.py": ["fl/data/sets/*.yaml"],
    "report/html/site.py": ["report/html/templates/*", "report/html/assets/*"],
}
"""Modules, and the files beside them that they read, all relative to the package's folder."""
_NAMED = re.compile(r'"((?:benchmarks|config|docs)/[^"{}]+[.][a-z]+)"')


@functools.cache
def _graph() -> grimp.ImportGraph:
    return grimp.build_graph(_PACKAGE, exclude_type_checking_imports=True, cache_dir=None)


def modules(names: Iterable[str]) -> list[str]:
    """Return these modules and all modules of the package that they import, directly or not."""
    graph = _graph()
    found: set[str] = set()
    for name in names:
        found |= {name} | graph.find_upstream_modules(name)
    return sorted(found - {_PACKAGE})


def files(names: Iterable[str]) -> list[str]:
    """Return the files of :func:`modules`, relative to the package's folder.

    With them come the descriptions of the data sets, and the templates and assets of the report,
    where the module that reads them is among them.
    """
    paths = []
    for name in modules(names):
        path = Path(*name.split(".")[1:])
        is_package = (FOLDER / path).is_dir()
        paths.append(str(path / "__init__.py" if is_package else path.with_suffix(".py")))
    for reader, read in _READ.items():
        if reader in paths:
            found = sorted(file for pattern in read for file in FOLDER.glob(pattern))
            paths += [str(file.relative_to(FOLDER)) for file in found]
    return paths


def read_by(names: Iterable[str]) -> list[str]:
    """Return the files of the repository that modules name in their code, such as measurements."""
    code = [FOLDER / Path(*name.split(".")[1:]).with_suffix(".py") for name in names]
    texts = (file.read_text(encoding="utf-8") for file in code)
    return sorted({file for text in texts for file in _NAMED.findall(text)})
