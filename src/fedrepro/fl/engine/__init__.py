"""Training: drives runs, answers their requests on a backend, checkpoints them."""

from __future__ import annotations

from typing import Literal, get_args

CompileChoice = Literal["auto", "on", "off"]
"""Whether networks are compiled on a GPU."""
COMPILE_CHOICES: tuple[CompileChoice, ...] = get_args(CompileChoice)

BackendName = Literal["auto", "loop", "pool", "graphs"]
BACKENDS: tuple[BackendName, ...] = get_args(BackendName)
"""Names of the backends. ``auto`` is ``graphs`` on a GPU; on a CPU it is ``pool``, with small dense
networks stacked in each worker. benchmarks/README.md has the measurements behind that."""
