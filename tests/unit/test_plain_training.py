"""`python -m fedrepro.runs train` with PyTorch, NumPy, pydantic, PyYAML and filelock alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from small_runs import TINY_PLAN

import fedrepro
from fedrepro.cli import main
from fedrepro.fl.engine import BACKENDS
from fedrepro.runs import records
from fedrepro.runs.__main__ import main as of_few_packages

BARE = """
import sys
from importlib.abc import MetaPathFinder

MISSING = {
    "IPython", "PIL", "fsspec", "grimp", "librosa", "matplotlib", "nbconvert", "nbformat",
    "pandas", "papermill", "pooch", "rich", "s3fs", "scipy", "sklearn", "snakemake", "tabulate",
    "torchvision", "tqdm", "typer",
}

class Bare(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in MISSING:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Bare())
"""
"""Run by each process as it starts, as `sitecustomize`."""

CALLS = """
import json, runpy, sys

for words in json.loads(sys.argv[1]):
    sys.argv = ["fedrepro.runs", "train", *words]
    try:
        runpy.run_module("fedrepro.runs", run_name="__main__")
    except SystemExit as end:
        print("exit status", end.code)
"""
OPTIONS = {
    "loop": ["--backend", "loop"],
    "alone": ["--workers", "1"],
    "stored": ["--shared=store"],
}
"""Plan -> how it is trained."""


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """The environment of a process that finds few packages."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site/sitecustomize.py").write_text(BARE)
    places = [str(tmp_path / "site"), str(Path(fedrepro.__file__).parents[1])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(places)}


def test_runs_are_trained_with_few_packages_and_a_store_needs_one_more(
    tmp_path: Path, bare: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three calls in one process: it takes seconds to begin."""
    monkeypatch.chdir(tmp_path)
    calls = [[f"{name}.yaml", *options] for name, options in OPTIONS.items()]
    for seed, name in enumerate(OPTIONS):
        plan = TINY_PLAN | {"paper": name, "seeds": [seed]}
        Path(f"{name}.yaml").write_text(yaml.safe_dump(plan))
    command = [sys.executable, "-c", CALLS, json.dumps(calls)]
    done = subprocess.run(command, env=bare, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    trained = "1 of 1 runs trained\nexit status 0\n"
    assert done.stdout == f"{trained}{trained}exit status 1\n"
    assert done.stderr.splitlines()[-1] == (
        "fedrepro: store: needs the package fsspec: pip install fsspec, and s3fs for s3://"
    )
    assert done.stderr.count("fedrepro: ") == 1
    files = list(records.OWN_FOLDER.glob("*.json"))
    assert len(files) == 2
    assert all(records.is_recorded(file.stem, records.OWN_FOLDER) for file in files)


@pytest.mark.parametrize(
    "command_line", [main, of_few_packages], ids=["fedrepro.cli", "fedrepro.runs"]
)
def test_both_command_lines_refuse_alike(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command_line: Callable[[Sequence[str]], int],
) -> None:
    def run(*words: str) -> tuple[Any, str, str]:
        try:
            status: Any = command_line(["train", *words])
        except SystemExit as end:
            status = end.code
        return status, *capsys.readouterr()

    monkeypatch.chdir(tmp_path)
    status, out, error = run("--pending", "--workers", "0")
    assert (status, out) == (2, "")
    assert "--workers: 0: must be at least 1" in error
    status, out, error = run("--pending", "--backend", "stacked")
    assert (status, out) == (2, "")
    assert all(name in error for name in ("--backend", "stacked", *BACKENDS))
    status, out, error = run()
    assert (status, out) == (1, "")
    assert error.startswith("fedrepro: give either run ids or files of your own plans, or")


def test_the_help_names_every_backend(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--help"]) == 0
    said = capsys.readouterr().out
    assert all(name in said for name in BACKENDS)
    assert "--deadline" not in said, "for our own processes only"
