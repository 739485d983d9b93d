"""Where a record's numbers come from: code, libraries, machine, data."""

from __future__ import annotations

import datetime
import functools
import os
import platform
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import torch

import fedrepro
from fedrepro.base.paths import find_root
from fedrepro.fl.engine.active import ActiveRun
from fedrepro.fl.engine.jobs import Backend
from fedrepro.fl.engine.saved import Part
from fedrepro.fl.spec import component_versions, distributions, spec_dict
from fedrepro.runs import records


def content(run: ActiveRun, started: datetime.datetime) -> dict[str, Any]:
    """Return the record of a run that ended, as :func:`fedrepro.runs.records.write` takes it.

    Args:
        run: the run.
        started: when this process began to train.
    """
    partition = run.fed.partition
    plain = spec_dict(run.spec)
    return {
        "schema_version": records.SCHEMA,
        "run_id": run.id,
        "status": "complete",
        "spec": plain,
        "versions": component_versions(plain),
        "metrics": dict(run.progress.metrics),
        "final": run.progress.final,
        "partition": {"counts": partition.counts.tolist(), "sha256": partition.sha256},
        "provenance": _provenance(run, started),
    }


def _provenance(run: ActiveRun, started: datetime.datetime) -> dict[str, Any]:
    *earlier, this = run.parts
    found: dict[str, Any] = this.origin | {
        "started": started.isoformat(timespec="seconds"),
        "seconds": run.progress.seconds,
        "dataset_source": run.dataset.source,
        "dataset_sha256": run.dataset.sha256,
        "dataset_note": run.dataset.note,
    }
    if packages := distributions(spec_dict(run.spec)):
        found["packages"] = {name: " ".join(package) for name, package in packages.items()}
    if run.idle:
        found["idle_clients"] = run.idle
    if earlier:
        found["earlier"] = [_part(part) for part in earlier]
    if run.imported:
        found["imported"] = [_part(part) for part in run.imported]
    return found


def _part(part: Part) -> dict[str, Any]:
    return part.origin | {"rounds": part.rounds, "seconds": part.seconds}


def origin(backend: Backend, device: str) -> dict[str, Any]:
    """Return the part of a record's provenance that a process has: code, libraries, machine.

    Args:
        backend: what it trains with.
        device: a PyTorch device name.

    Returns:
        The fields of :class:`fedrepro.runs.records.Origin`.
    """
    commit, dirty = code_version()
    gpu = device.startswith("cuda")
    return {
        "commit": commit,
        "dirty": dirty,
        "fedrepro": fedrepro.__version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "backend": backend.name,
        "compile": backend.compiles,
        "deterministic": backend.deterministic,
        "device": torch.cuda.get_device_name(device) if gpu else processor(),
        "device_type": "cuda" if gpu else "cpu",
        "threads": torch.get_num_threads(),
        "arithmetic": "" if gpu else arithmetic(),
        "host": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
    }


def processor() -> str:
    """Return the processor's name, family and model; cloud machines leave these out of the name.

    Matrix libraries choose their code, and so their rounding, by the processor's generation.
    """
    facts: dict[str, str] = {}
    for line in _lines(Path("/proc/cpuinfo")):
        key, _, value = line.partition(":")
        facts.setdefault(key.strip(), value.strip())
    if "model name" not in facts:
        return platform.processor() or "CPU"
    numbers = [f"{key} {facts[key]}" for key in ("cpu family", "model") if key in facts]
    return ", ".join([facts["model name"], *numbers])


_LIBRARIES = re.compile(r"(?:Math Kernel Library Version|MKL-DNN v|OpenBLAS)\s*[\d.]+")
_HOLDING = (
    "ATEN_CPU_CAPABILITY",
    "ONEDNN_MAX_CPU_ISA",
    "DNNL_MAX_CPU_ISA",
    "MKL_ENABLE_INSTRUCTIONS",
    "MKL_CBWR",
    "OPENBLAS_CORETYPE",
)


def arithmetic() -> str:
    """Return which code of PyTorch and its libraries computes on this processor.

    That is the instruction set that PyTorch takes, the matrix libraries it was built with, and the
    environment variables that hold any of them to another one.
    """
    libraries = _LIBRARIES.findall(torch.__config__.show())
    held = [f"{name}={os.environ[name]}" for name in _HOLDING if name in os.environ]
    return ", ".join([torch.backends.cpu.get_cpu_capability(), *libraries, *held])


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text().splitlines()
    except OSError:
        return []


@functools.cache
def code_version() -> tuple[str, bool]:
    """Return the commit of the code and whether source files differ from it.

    The commit is ``unknown`` outside a git clone, and where the code is not the clone's: an
    unpacked archive may lie in a repository of other things.
    """
    here = find_root()
    if here is None:
        return "unknown", False

    def git(*arguments: str) -> str:
        ours = f"safe.directory={here}"  # git looks into no folder of another user, untold
        return subprocess.run(
            ["git", "-C", str(here), "-c", ours, *arguments],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", str(Path(__file__).resolve()))
        commit = git("rev-parse", "HEAD")
        dirty = bool(git("status", "--porcelain", "--untracked-files", "--", "src", "config"))
    except (OSError, subprocess.CalledProcessError):
        return "unknown", False
    return commit, dirty
