"""Re-creates five papers on federated learning with non-IID data, and trains your own runs.

The functions below are those of :mod:`fedrepro.library`; importing this package imports none of
what they need.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedrepro.fl.data import Dataset
    from fedrepro.library import Parts, Result, algorithm, load, partition, train

__version__ = "0.1.0"

__all__ = ["Dataset", "Parts", "Result", "algorithm", "load", "partition", "train"]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module 'fedrepro' has no attribute '{name}'")
    module = "fedrepro.fl.data" if name == "Dataset" else "fedrepro.library"
    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted([*__all__, "__version__"])
