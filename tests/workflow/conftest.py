"""Nothing in this folder touches the repository: all happens in copies of it.

The smoke scale is trained once, in one copy; other tests start from its records.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from clones import PAPERS, SMOKE_OF_MADE, Clone, copy_repository


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    """A fresh clone without records."""
    return copy_repository(tmp_path / "clone")


@pytest.fixture(scope="session")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> tuple[Clone, Path, str]:
    """A clone, a working directory with ``all`` of two papers at smoke scale, and what it said.

    The other papers' runs are trained there by one command, which is quicker than by jobs.
    """
    root = tmp_path_factory.mktemp("smoke")
    made = copy_repository(root / "clone")
    folder = root / "work"
    done = made.snakemake("--cores", "2", "--directory", str(folder), *SMOKE_OF_MADE, "all")
    text = done.stdout + done.stderr
    assert done.returncode == 0, text
    rest = made.fedrepro("train", "--pending", "--scale", "smoke", folder=folder)
    assert rest.returncode == 0, rest.stdout + rest.stderr
    return made, folder, text


@pytest.fixture
def recorded(clone: Clone, smoke: tuple[Clone, Path, str]) -> Clone:
    """A fresh clone with the records of the smoke scale, and nothing else made."""
    shutil.copytree(smoke[1] / "results/own/runs", clone.records)
    return clone


SmokeIds = Callable[..., list[str]]


@pytest.fixture(scope="session")
def smoke_ids() -> SmokeIds:
    """Return the ids of planned smoke runs, by paper and what is true of them."""
    from fedrepro.runs.plan import PlannedRun, expand, unique

    def ids(keep: Callable[[PlannedRun], bool] = lambda _: True) -> list[str]:
        runs = unique([run for paper in PAPERS for run in expand(paper, "smoke")])
        return sorted(run.id for run in runs.values() if keep(run))

    return ids
