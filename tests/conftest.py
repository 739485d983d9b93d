"""What tests of all tiers share."""

from __future__ import annotations

import os
import signal
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

# Servers of tests are on this machine; both spellings, for the lower case wins.
os.environ |= {"NO_PROXY": "*", "no_proxy": "*"}

# Git sets these for its hooks and for `git rebase --exec`: repositories of tests would be that one.
for _name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX"):
    os.environ.pop(_name, None)

# Tests send these signals to programs they start, which `nohup make test &` would have ignore them.
for _number, _handler in (
    (signal.SIGHUP, signal.SIG_DFL),
    (signal.SIGINT, signal.default_int_handler),
):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _handler)

WriteRecord = Callable[..., Path]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of ``tests/faults``, which pytest takes from the outermost folder only."""
    group = parser.getgroup("faults")
    group.addoption("--campaign", type=float, default=1, help="so many times as many trials")
    group.addoption("--fault-seed", default="", help="of the trials; default: 0, or a fresh one")
    group.addoption("--campaign-page", default="", help="page to write the outcomes to")
    group.addoption("--campaign-log", default="", help="file to write a line a trial to")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take long, so that no process is left alone with one at the end."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.fixture(autouse=True, scope="session")
def _do_not_wait_for_the_disk() -> Iterator[None]:
    """What tests write, tens of thousands of records, need not outlast a loss of power."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(autouse=True)
def _close_figures() -> Iterator[None]:
    """Close what a test has drawn: Matplotlib keeps figures and warns of the twenty-first."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture(autouse=True)
def _settings_of_pytorch_stay() -> Iterator[None]:
    """Fail the test that leaves gradients off or subnormal numbers flushed, not those after it."""
    yield
    if "torch" not in sys.modules:
        return
    torch = sys.modules["torch"]
    grown = torch.ones((), requires_grad=True) * 2
    tiny = torch.full((), 1e-39).item()
    torch.set_grad_enabled(True)
    torch.set_flush_denormal(False)
    assert grown.requires_grad, "the test leaves gradients off"
    assert tiny, "the test leaves subnormal numbers flushed"


@pytest.fixture(scope="session")
def write_record() -> WriteRecord:
    """Write a valid record with made-up numbers: ``(run, folder, **changes) -> file``."""

    def write(run: PlannedRun, folder: Path, **changes: Any) -> Path:
        return records.write(content(run, **changes), folder)

    return write
