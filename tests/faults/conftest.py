"""Trials of faults: how many, from which seed, and where their outcomes go.

``--campaign N`` makes N times as many trials. ``--fault-seed S`` repeats those of a seed, or one of
them by its name: ``pytest "tests/faults/test_damaged.py::test_record[3]" --fault-seed S``.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import tiny_packs
import undisturbed
from programs import REPOSITORY, Server
from tiny_packs import Tiny
from trials import Trial, introduction, write_page
from undisturbed import Undisturbed

_TRIALS = pytest.StashKey[list[Trial]]()
_SEED = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_TRIALS] = []
    given = config.getoption("--fault-seed")
    fresh = str(time.time_ns() % 10**9) if config.getoption("--campaign") > 1 else "0"
    config.stash[_SEED] = given or fresh


def pytest_report_header(config: pytest.Config) -> str:
    times = config.getoption("--campaign")
    return f"faults: --campaign {times} --fault-seed {config.stash[_SEED]}"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test as often as its mark says, and as often again as is asked for."""
    if "trial" in metafunc.fixturenames:
        (mark,) = metafunc.definition.iter_markers("trials")
        count = mark.args[1] * metafunc.config.getoption("--campaign")
        metafunc.parametrize("trial", range(max(1, round(count))), indirect=True)


@pytest.fixture
def trial(request: pytest.FixtureRequest) -> Iterator[Trial]:
    """A trial, which has failed until the test says otherwise."""
    mark = request.node.get_closest_marker("trials")
    draw = random.Random(f"{request.config.stash[_SEED]} {request.node.name}")
    one, started = Trial(mark.args[0], draw), time.monotonic()
    yield one
    one.seconds = time.monotonic() - started
    if one.done:  # not skipped
        request.config.stash[_TRIALS].append(one)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    started = Server()
    yield started
    started.close()


@pytest.fixture(scope="session")
def whole(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    """The small plan, trained undisturbed."""
    return undisturbed.make(server, tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="session")
def tiny(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """Tiny data sets, whole."""
    return tiny_packs.make(server, tmp_path_factory.mktemp("tiny"))


def pytest_sessionfinish(session: pytest.Session) -> None:
    page, log = (session.config.getoption(f"--campaign-{name}") for name in ("page", "log"))
    trials = session.config.stash[_TRIALS]
    if log:
        Path(log).write_text("".join(f"{trial.line()}\n" for trial in trials))
    if page:
        text = introduction(trials, session.config.stash[_SEED], REPOSITORY)
        write_page(Path(page), trials, text)
