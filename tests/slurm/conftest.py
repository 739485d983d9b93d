"""One cluster for all tests of this folder; they skip where it cannot be had, and say why."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest
from cluster import Cluster, missing, started


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Start SLURM, and let the commands of this process and its children be those of it."""
    if absent := missing():
        pytest.skip(f"no {', '.join(absent)}: apt-get install slurm-wlm munge")
    if not importlib.util.find_spec("snakemake_executor_plugin_slurm"):
        pytest.skip("this Python has no snakemake-executor-plugin-slurm: make slurm")
    with (
        started(tmp_path_factory.mktemp("slurm")) as running,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("PATH", running.path)
        yield running
