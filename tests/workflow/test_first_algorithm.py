"""The tutorial, done: an installed wheel, a plugin beside it, no clone anywhere near."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from fedrepro.base.paths import root

_FILE = re.compile(r"^```\w+ title=(\S+)\n(.*?)^```$", re.M | re.S)
_BUILD = "import sys; from setuptools.build_meta import build_wheel; build_wheel(sys.argv[1])"


def install(source: Path, site: Path) -> None:
    """Build a project's wheel and unpack it, which is all that installing a pure one does."""
    wheels = site.parent / f"wheel-{source.name}"
    wheels.mkdir()
    subprocess.run([sys.executable, "-c", _BUILD, str(wheels)], cwd=source, check=True, text=True)
    (wheel,) = wheels.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(site)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the tutorial's files; both distributions are in ``site`` beside it."""
    base = tmp_path_factory.mktemp("tutorial")
    site, plugin, clone = base / "site", base / "plugin", base / "fedrepro"
    for path in (site, plugin, base / "work"):
        path.mkdir()
    files = dict(_FILE.findall((root() / "docs/first-algorithm.md").read_text()))
    assert set(files) == {"fedmedian.py", "pyproject.toml", "compare.py", "median.yaml"}
    for name, text in files.items():
        place = plugin if name in ("fedmedian.py", "pyproject.toml") else base / "work"
        (place / name).write_text(text)
    clone.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        (clone / name).write_bytes((root() / name).read_bytes())
    source = ["cp", "-r", str(root() / "src"), str(clone)]
    subprocess.run(source, check=True)
    install(clone, site)
    install(plugin, site)
    assert not list(base.rglob("config/papers"))
    return base / "work"


def run(folder: Path, *command: str) -> str:
    """Run Python with the two installed distributions; return what it printed."""
    names = ("FEDREPRO_ROOT", "FEDREPRO_PLANS", "FEDREPRO_DATA", "PYTHONPATH")
    environment = {key: value for key, value in os.environ.items() if key not in names}
    environment |= {"PYTHONPATH": str(folder.parent / "site"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_comparison_runs_outside_any_clone(folder: Path) -> None:
    out = run(folder, "compare.py").splitlines()
    assert re.fullmatch(r"fedavg \d+\.\d\d %", out[0])
    assert re.fullmatch(r"fedmedian \d+\.\d\d %", out[1])
    assert out[0].split()[1] != out[1].split()[1]
    assert out[2] == "0.1.0"
    records = sorted((folder / "fedrepro-runs").glob("*.json"))
    assert len(records) == 4
    stamps = [file.stat().st_mtime_ns for file in records]
    assert run(folder, "compare.py").splitlines() == out
    assert [file.stat().st_mtime_ns for file in records] == stamps, "trained once"


@pytest.mark.slow
def test_the_plan_trains_and_gets_a_table(folder: Path) -> None:
    run(folder, "-m", "fedrepro.cli", "train", "median.yaml")
    assert len(list((folder / "results/own/runs").glob("*.json"))) == 4
    run(folder, "-m", "fedrepro.cli", "table", "median.yaml", "accuracy", "--out", "accuracy")
    assert "FedMedian" in (folder / "accuracy.md").read_text()
