"""What tests of all tiers share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from made_up import content

from fedrepro.runs import records
from fedrepro.runs.plan import PlannedRun

hypothesis.settings.register_profile("fedrepro", deadline=None)  # machines are slow at times
hypothesis.settings.load_profile("fedrepro")

WriteRecord = Callable[..., Path]


@pytest.fixture(autouse=True)
def _close_figures() -> Iterator[None]:
    """Close what a test has drawn: Matplotlib keeps figures and warns of the twenty-first."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture(scope="session")
def write_record() -> WriteRecord:
    """Write a valid record with made-up numbers: ``(run, folder, **changes) -> file``."""

    def write(run: PlannedRun, folder: Path, **changes: Any) -> Path:
        return records.write(content(run, **changes), folder)

    return write
