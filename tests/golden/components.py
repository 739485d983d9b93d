"""Fingerprints of the versioned components: the code of each, and of all that it imports."""

import ast
import functools
import hashlib
from pathlib import Path

import fedrepro
from fedrepro.fl.algorithms import ALGORITHMS
from fedrepro.fl.data import describe, names
from fedrepro.fl.losses import LOSS_TERMS
from fedrepro.fl.models import NETWORKS
from fedrepro.fl.partition import SCHEMES
from fedrepro.fl.spec import ENGINE_VERSION
from fedrepro.workflow import sources

SOURCE = Path(fedrepro.__file__).parent
ENGINE = ("driver", "graphs", "loop", "pool")
"""Modules of the engine that, with all that they import, make the numbers of every run."""
NOT_NUMBERS = ("base/", "fl/components.py", "fl/cost.py", "fl/spec.py", "fl/data/registry.py")
"""Files that decide no number: run ids show what of them matters."""


def versions() -> dict[str, int]:
    """Return the version of every component of fedrepro."""
    return {
        "engine": ENGINE_VERSION,
        **{f"data.{name}": describe(name).version for name in names()},
        **{f"partition.{name}": scheme.version for name, scheme in SCHEMES.items()},
        **{f"model.{name}": network.version for name, network in NETWORKS.items()},
        **{f"algorithm.{name}": algorithm.version for name, algorithm in ALGORITHMS.items()},
        **{f"loss.{name}": term.version for name, term in LOSS_TERMS.items()},
    }


def files(component: str) -> list[str]:
    """Return the source files of a component, relative to the package."""
    kind, _, name = component.partition(".")
    if kind == "engine":
        modules = [f"fedrepro.fl.engine.{module}" for module in ENGINE]
    elif kind == "data":
        modules = ["fedrepro.fl.data.sources"]
    else:
        kinds = {"partition": SCHEMES, "model": NETWORKS, "algorithm": ALGORITHMS}
        modules = [(kinds | {"loss": LOSS_TERMS})[kind].module(name)]
    found = [file for file in sources.files(modules) if file.endswith(".py")]
    return [file for file in found if not file.startswith(NOT_NUMBERS)]


def fingerprint(component: str) -> str:
    """Hash a component's code; comments, docstrings and layout do not count.

    To a data set belong the constants of ``transform: standard`` in its description.
    """
    digest = hashlib.sha256()
    for file in files(component):
        digest.update(_code(SOURCE / file).encode())
    kind, _, name = component.partition(".")
    if kind == "data":
        info = describe(name)
        digest.update(repr((info.mean, info.std, info.statistics_axis)).encode())
    return digest.hexdigest()[:16]


@functools.cache
def _code(file: Path) -> str:
    tree = ast.parse(file.read_text())
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and _is_text(body[0]):
            node.body = body[1:] or [ast.Pass()]
    return repr(_plain(tree))


def _plain(node: object) -> object:
    """Return code as lists that are the same in every version of Python.

    New versions add fields, which are empty where nothing new is used, and 3.12 adds empty strings
    inside of f-strings: both are left out.
    """
    if isinstance(node, ast.JoinedStr):
        return ["f", *(_plain(part) for part in node.values if getattr(part, "value", None) != "")]
    if isinstance(node, ast.AST):
        fields = [(name, _plain(value)) for name, value in ast.iter_fields(node)]
        return [type(node).__name__, *(field for field in fields if field[1] not in (None, []))]
    return [_plain(item) for item in node] if isinstance(node, list) else node


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(getattr(node.value, "value", None), str)


def current() -> dict[str, dict[str, object]]:
    """Return version and fingerprint of every component."""
    return {
        name: {"version": version, "fingerprint": fingerprint(name)}
        for name, version in sorted(versions().items())
    }
