"""Checkpoints: the state of a run between two rounds, so that a killed run goes on where it was.

A file ``.checkpoints/<run id>.pt`` is written to a temporary name and moved into place, so it is
either whole or not there. It is read with ``weights_only=True``: nothing in it is executed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from fedrepro.base.errors import FedreproError

FORMAT = 2


class NotSaved(FedreproError):
    """A checkpoint cannot be written, whatever the run: the disk is full, say."""


def save(path: Path, run_id: str, progress: dict[str, Any]) -> None:
    """Write a checkpoint atomically.

    Args:
        path: the file.
        run_id: identity of the run, checked on reading.
        progress: tensors, numbers, strings and lists or dicts of these.

    Raises:
        NotSaved: the file cannot be written (no space left, say).
    """
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save({"format": FORMAT, "run_id": run_id, "progress": progress}, temporary)
        temporary.replace(path)
    except (OSError, RuntimeError) as error:
        temporary.unlink(missing_ok=True)
        raise NotSaved(
            f"{path}: cannot write the checkpoint ({error}); free some space and run again, "
            "training goes on from the last checkpoint"
        ) from error


def load(path: Path, run_id: str) -> dict[str, Any] | None:
    """Return the saved progress, with tensors on the CPU, or None if there is no checkpoint.

    Raises:
        FedreproError: the file is damaged or belongs to another run or format.
    """
    if not path.exists():
        return None
    try:
        content = torch.load(path, weights_only=True, map_location="cpu")
        if content["format"] == FORMAT and content["run_id"] == run_id:
            progress: dict[str, Any] = content["progress"]
            return progress
        problem = "belongs to another run or version"
    except Exception as error:  # torch.load raises many kinds, all meaning the same
        problem = f"cannot be read ({type(error).__name__})"
    raise FedreproError(f"{path}: this checkpoint {problem}; delete it to start the run anew")
