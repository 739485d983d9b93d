"""Training: drives runs, answers their requests on a backend, checkpoints them."""

from __future__ import annotations

from typing import Literal, get_args

Choice = Literal["auto", "on", "off"]
"""Whether networks are compiled on a GPU."""
CHOICES: tuple[Choice, ...] = get_args(Choice)

BackendName = Literal["auto", "loop", "pool", "graphs"]
BACKENDS: tuple[BackendName, ...] = get_args(BackendName)
"""Names of the backends. ``auto`` is ``graphs`` on a GPU; on a CPU it is ``pool``, with small dense
networks stacked in each worker. benchmarks/README.md has the measurements behind that."""
