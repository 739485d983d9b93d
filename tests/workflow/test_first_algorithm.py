"""The tutorials, done: an installed wheel, plugins beside it, no clone anywhere near."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from fedrepro.base.paths import root
from fedrepro.runs.plan import expand, load_plan

_FILE = re.compile(r'^```\w+ title="(\S+)"\n(.*?)^```$', re.M | re.S)
PAGES = {
    "first-algorithm": {"pyproject.toml", "fedmedian.py"},
    "own-components": {"pyproject.toml", "staircase.py", "one_convolution.py", "confidence.py"},
}
"""Pages of docs/, and their files that belong to the package; the others lie where one works."""
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
    """Return a folder with the tutorials' files; all distributions are in ``site`` beside it."""
    base = tmp_path_factory.mktemp("tutorial")
    site, work, clone = base / "site", base / "work", base / "fedrepro"
    for path in (site, work, clone, *(base / page for page in PAGES)):
        path.mkdir()
    for page, of_package in PAGES.items():
        files = dict(_FILE.findall((root() / f"docs/{page}.md").read_text()))
        assert of_package < set(files)
        for name, text in files.items():
            ((base / page if name in of_package else work) / name).write_text(text)
    assert {file.name for file in work.iterdir()} == {"compare.py", "median.yaml", "penalty.yaml"}
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        (clone / name).write_bytes((root() / name).read_bytes())
    source = ["cp", "-r", str(root() / "src"), str(clone)]
    subprocess.run(source, check=True)
    install(clone, site)
    for page in PAGES:
        install(base / page, site)
    assert not list(base.rglob("config/papers"))
    return base / "work"


def run(folder: Path, *command: str, path: Path | None = None) -> str:
    """Run Python with the installed distributions, or those in ``path``; return what it printed."""
    names = ("FEDREPRO_ROOT", "FEDREPRO_PLANS", "FEDREPRO_DATA", "PYTHONPATH")
    environment = {key: value for key, value in os.environ.items() if key not in names}
    environment |= {"PYTHONPATH": str(path or folder.parent / "site"), "OMP_NUM_THREADS": "1"}
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


def recorded(folder: Path, plan: str) -> list[dict[str, Any]]:
    """Return the records of a plan's runs."""
    names = json.loads(run(folder, "-m", "fedrepro.cli", "status", "--paper", plan, "--json"))
    return [
        json.loads((folder / f"results/own/runs/{name}.json").read_text())
        for name in names["recorded"]
    ]


@pytest.fixture(scope="module")
def compared(folder: Path) -> list[str]:
    """What the comparison prints where nothing is recorded yet."""
    return run(folder, "compare.py").splitlines()


@pytest.mark.slow
def test_the_comparison_runs_outside_any_clone(folder: Path, compared: list[str]) -> None:
    assert re.fullmatch(r"fedavg \d+\.\d\d %", compared[0])
    assert re.fullmatch(r"fedmedian \d+\.\d\d %", compared[1])
    assert compared[0].split()[1] != compared[1].split()[1]
    assert compared[2] == "0.1.0"
    records = sorted((folder / "fedrepro-runs").glob("*.json"))
    assert len(records) == 4
    stamps = [file.stat().st_mtime_ns for file in records]
    assert run(folder, "compare.py").splitlines() == compared
    assert [file.stat().st_mtime_ns for file in records] == stamps, "trained once"


@pytest.mark.slow
def test_the_plan_trains_and_gets_a_table(folder: Path, compared: list[str]) -> None:
    run(folder, "-m", "fedrepro.cli", "train", "median.yaml")
    ids = {record["run_id"] for record in recorded(folder, "median.yaml")}
    assert len(ids) == 4
    assert ids == {file.stem for file in (folder / "fedrepro-runs").glob("*.json")}, "the same runs"
    run(folder, "-m", "fedrepro.cli", "table", "median.yaml", "accuracy", "--out", "accuracy")
    assert "FedMedian" in (folder / "accuracy.md").read_text()


@pytest.mark.slow
def test_a_plan_of_own_components_trains_and_gets_a_table(folder: Path) -> None:
    run(folder, "-m", "fedrepro.cli", "train", "penalty.yaml")
    records = recorded(folder, "penalty.yaml")
    assert len(records) == 4
    for record in records:
        assert record["versions"]["plugin.fedrepro-own"] == "0.1.0"
        assert record["versions"]["partition.staircase"] == 1
        assert record["versions"]["model.one_convolution"] == 1
    losses = {str(record["metrics"]["train_loss"]) for record in records}
    assert len(losses) == 4, "the penalty and the seed change the training"
    run(folder, "-m", "fedrepro.cli", "table", "penalty.yaml", "comparison", "--out", "penalty")
    table = (folder / "penalty.md").read_text()
    assert "FedAvg with the penalty" in table
    assert "0.00 ± 0.00" not in table, "the table shows that the penalty does something"


def test_the_page_says_which_seeds_a_papers_group_has() -> None:
    page = " ".join((root() / "docs/first-algorithm.md").read_text().split())
    seeds = load_plan("cadis").scales["lite"].seeds
    assert f"the seeds of the scale, {seeds[0]} to {seeds[-1]};" in page
    runs = expand("cadis", "lite")
    fewest = min(
        sum(run.group == group for run in runs)
        for group in load_plan("cadis").tables["table1_mnist"].runs
    )
    assert f"have 0 to {fewest - 1} or more" in page


@pytest.mark.slow
def test_the_algorithm_stands_in_a_papers_table(tmp_path: Path) -> None:
    page = (root() / "docs/first-algorithm.md").read_text()
    (group,) = re.findall(r"^```yaml\n(  mnist_mc_fedmedian:\n.*?)^```$", page, re.M | re.S)
    for name in ("src", "config"):
        shutil.copytree(root() / name, tmp_path / name)
    algorithm = tmp_path / "src/fedrepro/fl/algorithms/fedmedian.py"
    algorithm.write_text(dict(_FILE.findall(page))["fedmedian.py"])
    plan = tmp_path / "config/papers/cadis.yaml"
    before, table, after = plan.read_text().partition("\n  table1_mnist:\n")
    before = before.replace("\nruns:\n", f"\nruns:\n{group}", 1)
    after = after.replace("[mnist_mc_fedavg,", "[mnist_mc_fedavg, mnist_mc_fedmedian,", 1)
    plan.write_text(before + table + after)

    def fedrepro(*words: str) -> str:
        command = ["-m", "fedrepro.cli", *words, "--scale", "smoke"]
        return run(tmp_path, *command, path=tmp_path / "src")

    listed = [line.split() for line in fedrepro("status", "cadis", "--list").splitlines()]
    groups = {"mnist_mc_fedavg", "mnist_mc_fedmedian"}
    ids = [line[0] for line in listed if len(line) > 2 and line[2] in groups]
    fedrepro("train", *ids)
    shown = fedrepro("table", "cadis", "table1_mnist", "--partial")
    (head,) = (line for line in shown.splitlines() if line.startswith("| row"))
    assert head.replace(" ", "") == "|row|FedMedian|FedAvg|"
