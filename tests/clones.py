"""Snakemake on a copy of the repository, with that copy's code."""

from __future__ import annotations

import atexit
import functools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import yaml

REPOSITORY = Path(__file__).parents[1]
PAPERS: list[str] = yaml.safe_load((REPOSITORY / "config/config.yaml").read_text())["papers"]
"""The papers that are switched on."""
SMOKE = ("--config", "scale=smoke", "--")
MADE = "tricks"
"""Paper whose artefacts Snakemake makes at smoke scale; unit tests make those of all papers."""
SMOKE_OF_MADE = ("--config", "scale=smoke", f"papers={MADE}", "--")

_FORKS = """
import json, os, sys
import snakemake.cli

for line in sys.stdin:
    folder, environment, files, arguments = json.loads(line)
    if child := os.fork():
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        continue
    for number, file in enumerate(files):  # standard input, output and error
        os.dup2(os.open(file, os.O_RDWR), number)
    os.chdir(folder)  # where sys.path begins
    os.environ.clear()
    os.environ.update(environment)
    sys.path.insert(1, environment["PYTHONPATH"])
    sys.argv[1:] = arguments
    snakemake.cli.main()
"""
"""A process that has imported Snakemake, which is half of planning; its forks are calls of it."""


@functools.cache
def _forks() -> subprocess.Popen[str]:
    """Start the process whose forks are calls of Snakemake; it ends with this one."""
    left_out = ("FEDREPRO_", "PYTHON")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(left_out)}
    forks = subprocess.Popen(
        [sys.executable, "-c", _FORKS],
        cwd="/",
        env=environment | {"OMP_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(forks.communicate)
    return forks


@dataclass
class Plan:
    """What a dry run says.

    Attributes:
        jobs: rule -> number of jobs; all training jobs are counted as ``train``.
        trained: ids of the runs that would be trained, sorted.
        text: the whole output.
    """

    jobs: dict[str, int] = field(default_factory=dict)
    trained: list[str] = field(default_factory=list)
    text: str = ""


@dataclass
class Clone:
    """A copy of the repository's sources."""

    root: Path

    @property
    def environment(self) -> dict[str, str]:
        """The copy's code, which may be compiled; no packed data, one thread."""
        left_out = ("FEDREPRO_", "PYTHONDONTWRITEBYTECODE")
        others = {k: v for k, v in os.environ.items() if not k.startswith(left_out)}
        return others | {"PYTHONPATH": str(self.root / "src"), "OMP_NUM_THREADS": "1"}

    def run(self, *command: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command in the copy, or in another folder with the copy's plans and code."""
        return subprocess.run(
            command,
            cwd=folder or self.root,
            env=self.environment | {"FEDREPRO_ROOT": str(self.root)},
            capture_output=True,
            text=True,
            check=False,
        )

    def snakemake(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Do what ``python -m snakemake`` does in the copy."""
        environment = self.environment | {"FEDREPRO_ROOT": str(self.root)}
        with tempfile.NamedTemporaryFile() as out, tempfile.NamedTemporaryFile() as error:
            forks, files = _forks(), ["/dev/null", out.name, error.name]
            assert forks.stdin is not None
            assert forks.stdout is not None
            call = [str(self.root), environment, files, arguments]
            print(json.dumps(call), file=forks.stdin, flush=True)
            status = int(forks.stdout.readline())
            said = (file.read().decode() for file in (out, error))
            return subprocess.CompletedProcess(arguments, status, *said)

    def fedrepro(
        self, *arguments: str, folder: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        return self.run(sys.executable, "-m", "fedrepro.cli", *arguments, folder=folder)

    def plan(self, *arguments: str) -> Plan:
        """Return what ``snakemake -n`` would do."""
        done = self.snakemake("-n", *arguments)
        text = done.stdout + done.stderr
        assert done.returncode == 0, text
        plan = Plan(text=text)
        table = re.search(r"Job stats:\njob +count\n[- ]+\n(.*?)\ntotal", text, re.DOTALL)
        for line in table.group(1).splitlines() if table else []:
            rule, count = line.split()
            name = "train" if rule.startswith("train_") else rule
            plan.jobs[name] = plan.jobs.get(name, 0) + int(count)
        outputs = re.findall(r"^    output: (.*)$", text, re.MULTILINE)
        plan.trained = sorted(
            set(re.findall(r"results/own/runs/([0-9a-f]{12})", " ".join(outputs)))
        )
        return plan

    def fails(self, *arguments: str) -> str:
        """Return what Snakemake prints when it refuses."""
        done = self.snakemake(*arguments)
        assert done.returncode != 0
        return done.stdout + done.stderr

    def edit(self, file: str, old: str, new: str) -> None:
        """Replace a text that occurs once in a file."""
        text = (self.root / file).read_text()
        assert text.count(old) == 1, f"{file} has {text.count(old)} times {old!r}"
        (self.root / file).write_text(text.replace(old, new))

    @property
    def records(self) -> Path:
        return self.root / "results/own/runs"


def copy_repository(target: Path) -> Clone:
    """Copy the sources, and what is compiled of them, which is as old as they are."""
    ignored = shutil.ignore_patterns("*.egg-info", "*.pyc.*")  # the latter are being written
    for name in ("src", "config", "workflow", "notebooks", "profiles", "envs", "benchmarks"):
        shutil.copytree(REPOSITORY / name, target / name, ignore=ignored)
    shutil.copy(REPOSITORY / "Snakefile", target)
    return Clone(target)
