"""Nothing in this folder touches the repository: all happens in copies of it.

The smoke scale is trained once, in one copy; other tests start from its records.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from clones import PAPERS, SMOKE_OF_MADE, Clone, copy_repository
from filelock import FileLock

from fedrepro.runs.plan import PlannedRun, expand, unique


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    """A fresh clone without records."""
    return copy_repository(tmp_path / "clone")


@pytest.fixture(scope="session")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> tuple[Clone, Path, str]:
    """A clone, a working directory with ``all`` of a paper at smoke scale, and what it said.

    The other papers' runs are trained there by one command, which is quicker than by jobs. The
    processes of pytest-xdist make it once together.
    """
    base = tmp_path_factory.getbasetemp()
    root = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "smoke"
    made, folder, said = Clone(root / "clone"), root / "work", root / "said.txt"
    with FileLock(f"{root}.lock"):
        if not said.exists():
            copy_repository(made.root)
            said.write_text(_make(made, folder))
    return made, folder, said.read_text()


def _make(made: Clone, folder: Path) -> str:
    *chosen, _ = SMOKE_OF_MADE
    two_jobs = (*chosen, "runs_per_batch=24", "--")  # to train: each waits for PyTorch
    done = made.snakemake("--cores", "2", "--directory", str(folder), *two_jobs, "all")
    text = done.stdout + done.stderr
    assert done.returncode == 0, text
    rest = made.fedrepro("train", "--pending", "--scale", "smoke", folder=folder)
    assert rest.returncode == 0, rest.stdout + rest.stderr
    return text


@pytest.fixture
def recorded(clone: Clone, smoke: tuple[Clone, Path, str]) -> Clone:
    """A fresh clone with the records of the smoke scale, and nothing else made."""
    shutil.copytree(smoke[1] / "results/own/runs", clone.records)
    return clone


SmokeIds = Callable[..., list[str]]


@pytest.fixture(scope="session")
def smoke_runs() -> list[PlannedRun]:
    """All planned smoke runs, each once."""
    return [*unique([run for paper in PAPERS for run in expand(paper, "smoke")]).values()]


@pytest.fixture(scope="session")
def smoke_ids(smoke_runs: list[PlannedRun]) -> SmokeIds:
    """Return the ids of planned smoke runs of which something is true."""

    def ids(keep: Callable[[PlannedRun], bool] = lambda _: True) -> list[str]:
        return sorted(run.id for run in smoke_runs if keep(run))

    return ids
