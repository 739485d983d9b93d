"""The container recipes: they copy what is there and run what the Makefile runs."""

from __future__ import annotations

import fnmatch
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
APPTAINER = (ROOT / "apptainer.def").read_text()
BASE = "python:3.11-slim-bookworm"


def instructions() -> list[tuple[str, str]]:
    """Return the steps of the Dockerfile: instruction and arguments."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = re.sub(r" *\\\n *", " ", text).split("\n")
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in lines if line.strip()]


def section(name: str) -> list[str]:
    """Return the lines of a section of the Apptainer definition, without comments."""
    (body,) = re.findall(rf"^%{name}\n((?:    .*\n|\n)*)", APPTAINER, re.MULTILINE)
    return [line.strip() for line in body.splitlines() if line.strip() and "# " not in line]


def test_both_start_from_one_python_that_the_project_supports() -> None:
    assert instructions()[0] == ("FROM", BASE)
    assert f"Bootstrap: docker\nFrom: {BASE}\n" in APPTAINER
    assert "python=3.11" in (ROOT / "envs/fedrepro.yaml").read_text()


def test_docker_installs_the_lock_then_what_make_installs() -> None:
    apt, lock, ready = [text for name, text in instructions() if name == "RUN"]
    assert "--no-install-recommends git make" in apt
    assert lock.endswith("pip install --no-cache-dir --require-hashes -r envs/requirements.lock")
    assert ready == "make .venv/.ready"
    makefile = (ROOT / "Makefile").read_text()
    assert "READY := .venv/.ready\n" in makefile
    assert re.search(
        r"^\$\(READY\): envs/requirements.lock envs/install.sh", makefile, re.MULTILINE
    )


def test_docker_runs_a_target_of_the_makefile_as_an_ordinary_user() -> None:
    steps = instructions()
    assert steps[-1] == ("CMD", '["make", "figures"]')
    assert "\n.PHONY: figures\n" in (ROOT / "Makefile").read_text()
    assert [text for name, text in steps if name == "USER"] == ["1000"]
    assert all("--chown=1000" in text for name, text in steps if name == "COPY")
    assert ("WORKDIR", "/fedrepro") in steps
    assert ("ENV", "PATH=/fedrepro/.venv/bin:$PATH") in steps


def test_apptainer_installs_as_make_does() -> None:
    *_, last = section("post")
    assert last == "bash /opt/fedrepro/envs/install.sh /opt/fedrepro/.venv"
    copied = dict(line.split() for line in section("files"))
    for source, target in copied.items():
        assert (ROOT / source).exists()
        assert target == f"/opt/fedrepro/{source}"
    needed = {"envs", "src", "pyproject.toml"}  # and what pyproject.toml names
    assert needed | {"README.md", "LICENSE"} == copied.keys()


def test_the_context_of_the_build_holds_every_committed_file_and_no_ignored_folder() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git work tree")
    rules = [r for r in (ROOT / ".dockerignore").read_text().splitlines() if r and r[0] != "#"]
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert [file for file in listed.stdout.splitlines() if _left_out(file, rules)] == []
    ignored = (ROOT / ".gitignore").read_text().split()
    assert [rule.strip("/").removeprefix("!") for rule in ignored] == [
        rule.removeprefix("!").removeprefix("**/").strip("/") for rule in rules
    ]


def _left_out(file: str, rules: list[str]) -> bool:
    """Return whether Docker leaves a file out: the last rule that fits it or a parent decides."""
    out = False
    for rule in rules:
        pattern = rule.removeprefix("!").strip("/")
        parts = file.split("/")
        parents = ["/".join(parts[: n + 1]) for n in range(len(parts))]
        if pattern.startswith("**/"):
            fits = any(fnmatch.fnmatch(part, pattern[3:]) for part in parts)
        else:  # a star stands for anything within one folder
            fits = any(
                fnmatch.fnmatch(parent, pattern) and parent.count("/") == pattern.count("/")
                for parent in parents
            )
        if fits:
            out = not rule.startswith("!")
    return out
