"""`python -m fedrepro.runs train` with PyTorch, NumPy, pydantic, PyYAML and filelock alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from small_runs import TINY_PLAN

import fedrepro
from fedrepro.cli import main
from fedrepro.fl.engine import BACKENDS
from fedrepro.runs import records

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

PLAN = TINY_PLAN | {"seeds": [0]}


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """The environment of a process that finds few packages."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site/sitecustomize.py").write_text(BARE)
    places = [str(tmp_path / "site"), str(Path(fedrepro.__file__).parents[1])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(places)}


@pytest.mark.parametrize("options", [["--backend", "loop"], ["--workers", "1"]])
def test_a_run_is_trained_with_few_packages(
    tmp_path: Path, bare: dict[str, str], monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tiny.yaml").write_text(yaml.safe_dump(PLAN))
    command = [sys.executable, "-m", "fedrepro.runs", "train", "tiny.yaml", *options]
    done = subprocess.run(command, env=bare, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "1 of 1 runs trained\n"
    (file,) = records.OWN_FOLDER.glob("*.json")
    assert records.is_recorded(file.stem, records.OWN_FOLDER)


def test_a_store_needs_one_package_more(tmp_path: Path, bare: dict[str, str]) -> None:
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(PLAN))
    command = [sys.executable, "-m", "fedrepro.runs", "train", "tiny.yaml", "--shared=store"]
    done = subprocess.run(
        command, cwd=tmp_path, env=bare, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "fedrepro: store: needs the package fsspec: pip install fsspec, and s3fs for s3://\n"
    )


@pytest.mark.parametrize("program", ["fedrepro.cli", "fedrepro.runs"])
def test_both_command_lines_refuse_alike(tmp_path: Path, program: str) -> None:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", program, "train", *words]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    wrong = run("--pending", "--workers", "0")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "--workers: 0: must be at least 1" in wrong.stderr
    wrong = run("--pending", "--backend", "stacked")
    assert wrong.returncode == 2
    assert all(name in wrong.stderr for name in ("--backend", "stacked", *BACKENDS))
    neither = run()
    assert (neither.returncode, neither.stdout) == (1, "")
    assert neither.stderr.startswith("fedrepro: give either run ids or files of your own plans, or")


def test_the_help_names_every_backend(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--help"]) == 0
    said = capsys.readouterr().out
    assert all(name in said for name in BACKENDS)
    assert "--deadline" not in said, "for our own processes only"
