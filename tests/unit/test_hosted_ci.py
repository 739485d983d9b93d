"""The workflow files of hosted CI: pinned actions, no rights, and what ``make`` offers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / ".github/workflows").glob("*.y*ml"))
WORKFLOWS: dict[str, dict[str, Any]] = {
    file.stem: yaml.safe_load(file.read_text()) for file in FILES
}
JOB: dict[str, Any] = WORKFLOWS["ci"]["jobs"]["make"]
CASES: list[dict[str, Any]] = JOB["strategy"]["matrix"]["include"]
NEWEST: dict[str, Any] = WORKFLOWS["newest"]["jobs"]["make"]
TARGETS = set(re.findall(r"^\.PHONY: (\w+)$", (ROOT / "Makefile").read_text(), re.MULTILINE))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_actions_are_pinned_by_commit_and_name_their_release(file: Path) -> None:
    used = re.findall(r"^[ -]*uses: *(.*)$", file.read_text(), re.MULTILINE)
    assert used
    for action in used:
        assert re.fullmatch(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_job_may_read_and_no_more(file: Path) -> None:
    workflow = WORKFLOWS[file.stem]
    assert workflow["permissions"] == {"contents": "read"}
    assert "secrets" not in file.read_text()
    (job,) = workflow["jobs"].values()
    assert "permissions" not in job
    (checkout,) = [s for s in job["steps"] if s.get("uses", "").startswith("actions/checkout@")]
    assert checkout["with"]["persist-credentials"] is False


def test_every_job_ends_and_that_of_a_pull_request_gives_way_to_a_later_push() -> None:
    assert WORKFLOWS["ci"]["concurrency"] == {
        "group": "${{ github.workflow }}-${{ github.ref }}",
        "cancel-in-progress": "${{ github.event_name == 'pull_request' }}",
    }
    assert WORKFLOWS["newest"]["concurrency"]["cancel-in-progress"] is False
    assert JOB["timeout-minutes"] == "${{ matrix.minutes }}"
    assert all(0 < case["minutes"] <= 60 for case in CASES)
    assert 0 < NEWEST["timeout-minutes"] <= 60


def test_commands_are_targets_of_the_makefile() -> None:
    commands = [step["run"] for step in JOB["steps"] if "run" in step]
    assert commands == ['make "$TARGET"']
    assert [step["run"] for step in NEWEST["steps"] if "run" in step] == ["make newest"]
    assert "newest" in TARGETS
    assert JOB["env"] == {"PYTHON": "${{ matrix.python }}", "TARGET": "${{ matrix.target }}"}
    assert {"lint", "test", "figures"} <= {case["target"] for case in CASES} <= TARGETS


def test_pythons_are_those_of_the_project() -> None:
    project = re.search(r'^requires-python = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.M)
    assert project
    for case in CASES:
        assert SpecifierSet(project[1]).contains(case["python"].removeprefix("python"))


def test_packages_are_cached_by_the_lock() -> None:
    (uv,) = [s for s in JOB["steps"] if s.get("uses", "").startswith("astral-sh/setup-uv@")]
    assert uv["with"]["enable-cache"] is True
    assert (ROOT / uv["with"]["cache-dependency-glob"]).is_file()
