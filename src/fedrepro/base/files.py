"""Files are written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from fedrepro.base.errors import FedreproError


def write_text(file: Path, text: str) -> None:
    """Write a UTF-8 text file atomically, with the errors of :func:`write_bytes`."""
    write_bytes(file, text.encode())


def write_bytes(file: Path, content: bytes) -> None:
    """Write a file atomically, in a folder that is made if need be.

    On failure the old file stays and no half-written one is left.

    Raises:
        FedreproError: the file cannot be written.
    """
    temporary = file.with_name(f"{file.name}.{os.getpid()}.tmp")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(content)
        temporary.replace(file)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise FedreproError(
            f"{file}: cannot be written ({error.strerror or error}); free some space or check the "
            "permissions, then run again"
        ) from error
