"""The scripts in benchmarks/, as modules."""

import contextlib
import importlib.util
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from fedrepro.base.paths import root


@contextlib.contextmanager
def loaded(name: str) -> Iterator[ModuleType]:
    """Load ``benchmarks/<name>.py``; it is no module of the process any more afterwards."""
    spec = importlib.util.spec_from_file_location(
        f"benchmark_{name}", root() / f"benchmarks/{name}.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, spec.name, module)  # dataclasses look their module up
        spec.loader.exec_module(module)
        yield module
