"""Hooks of MkDocs: the repository's documents as pages, where and as they lie there.

A page's address is its path in the repository, so links work here as they do in a clone. Files that
a document links to, such as a run record, come along. The reference is made of the components'
docstrings and typed parameters.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from tabulate import tabulate

from fedrepro.fl.algorithms import ALGORITHMS, Algorithm
from fedrepro.fl.components import Registry
from fedrepro.fl.losses import LOSS_TERMS, LossTerm
from fedrepro.fl.models import NETWORKS, Network
from fedrepro.fl.partition import SCHEMES, Scheme
from fedrepro.fl.spec import Adam, DatasetSpec, ModelSpec, RunSpec, Sgd

FOLDERS = ["benchmarks", "config", "docs", "envs", "profiles"]
"""Folders whose Markdown files are pages, besides the root's README and changelog."""

INTERFACES = [
    "fedrepro.fl.algorithms.algorithm",
    "fedrepro.fl.federation",
    "fedrepro.fl.requests",
    "fedrepro.fl.partition.scheme",
    "fedrepro.fl.models.network",
    "fedrepro.fl.losses.term",
]
"""Modules that a component is written against."""

NAMES = {"name", "scheme"}
"""Fields that say which component it is."""

_LINK = re.compile(r"\]\(([^)\s#]+)")
_API = re.compile(r"<!-- begin: api (\w+) -->.*?<!-- end -->", re.DOTALL)
_ROLE = re.compile(r":(?:attr|class|data|func|meth|mod):(<code>|`)~?\.?")
_BOUNDS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Return the theme's files, the documents under their paths in the repository, reference."""
    root = Path(config.config_file_path).parent
    of_theme = [file for file in files if file.src_dir != config.docs_dir]
    documents = [root / "README.md", root / "CHANGELOG.md"]
    documents += [file for name in FOLDERS for file in (root / name).rglob("*.md")]
    linked = {target for file in documents for target in _linked(file)}
    taken = [
        File.generated(config, file.relative_to(root).as_posix(), abs_src_path=str(file))
        for file in sorted({*documents, *linked, *(root / "docs/assets").iterdir()})
    ]
    made = [
        File.generated(config, f"reference/{name}.md", content=text)
        for name, text in _reference().items()
    ]
    return Files([*of_theme, *taken, *made])


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let the generated reference of the library's functions be that of mkdocstrings."""
    return _API.sub(r"::: fedrepro.\1", markdown)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Leave out Sphinx's roles, which docstrings have and Markdown does not know."""
    return _ROLE.sub(r"\1", html)


def _linked(document: Path) -> set[Path]:
    """Return the files that a document links to."""
    targets = (document.parent / link for link in _LINK.findall(document.read_text()))
    return {Path(os.path.normpath(target)) for target in targets if target.is_file()}


def _reference() -> dict[str, str]:
    """Return the pages made of code, by name."""

    def algorithm(name: str, value: Algorithm) -> str:
        return _parameters(value.params)

    def scheme(name: str, value: type[Scheme]) -> str:
        return f"`{name}`: {inspect.getdoc(value)}\n\n{_parameters(value)}"

    def network(name: str, value: Network) -> str:
        if value.mflop is None:
            return ""
        return f"A training pass of one example takes {value.mflop:g} MFLOP at width 1."

    def term(name: str, value: LossTerm) -> str:
        return f"::: {LOSS_TERMS.module(name)}.{name}"

    return {
        "runs": _runs(),
        "algorithms": _components("Algorithms", ALGORITHMS, algorithm),
        "partitions": _components("Partitions", SCHEMES, scheme),
        "networks": _components("Networks", NETWORKS, network),
        "losses": _components("Loss terms", LOSS_TERMS, term),
        "interfaces": "# Interfaces\n\n" + "\n\n".join(f"::: {name}" for name in INTERFACES),
    }


def _runs() -> str:
    """Document a run's spec."""
    sections: dict[str, type[BaseModel]] = {
        "dataset": DatasetSpec,
        "model": ModelSpec,
        "optimizer, name: sgd": Sgd,
        "optimizer, name: adam": Adam,
    }
    return "\n\n".join(
        [
            "# Runs",
            "A run has a `dataset`, a `model` and an `optimizer`, each with a `name` and what is "
            "described below, a `partition` ([Partitions](partitions.md)), an `algorithm` "
            "([Algorithms](algorithms.md)), and:",
            _parameters(RunSpec),
            *(f"## {title}\n\n{_parameters(model)}" for title, model in sections.items()),
        ]
    )


def _components(title: str, registry: Registry[Any], described: Callable[[str, Any], str]) -> str:
    """Document fedrepro's components of a kind, a section a module."""
    of_module: dict[str, list[str]] = {}
    for name in registry:
        if registry.plugin(name) is None:
            of_module.setdefault(registry.module(name), []).append(name)
    sections = [f"# {title}"]
    for module, names in of_module.items():
        sections += [f"## {', '.join(names)}", str(inspect.getdoc(import_module(module)))]
        sections += [described(name, registry[name]) for name in names]
    return "\n\n".join(sections)


def _parameters(model: type[BaseModel]) -> str:
    """Return a table of what a plan may set; its first column is the key."""
    rows = [
        [f"`{name}`", f"`{_kind(field)}`", _default(field), field.description or ""]
        for name, field in model.model_fields.items()
        if name not in NAMES and "fedrepro." not in _kind(field)  # those have tables of their own
    ]
    return tabulate(rows, ["key", "value", "default", ""], tablefmt="github") if rows else ""


def _kind(field: FieldInfo) -> str:
    """Return type and bounds."""
    kind = inspect.formatannotation(field.annotation)
    bounds = [
        f"{sign} {getattr(item, key)}"
        for item in field.metadata
        for key, sign in _BOUNDS.items()
        if hasattr(item, key)
    ]
    return ", ".join([kind, *bounds])


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    return f"`{field.get_default(call_default_factory=True)}`"
