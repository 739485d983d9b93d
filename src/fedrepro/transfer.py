"""Carries new records and checkpoints between machines in one tar file."""

from __future__ import annotations

import re
import tarfile
import tempfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedrepro import records
from fedrepro.errors import FedreproError
from fedrepro.files import write_bytes

_RECORD = re.compile(r"results/runs/([0-9a-f]{12})\.json")
_CHECKPOINT = re.compile(r"\.checkpoints/([0-9a-f]{12})\.pt")
_END = bytes(2 * tarfile.BLOCKSIZE)  # ends every tar file that is whole


@dataclass(frozen=True)
class Imported:
    """What an import did with each run: ids whose record or checkpoint came in, or was here."""

    records: list[str]
    checkpoints: list[str]
    known: list[str]

    def text(self) -> str:
        """Return one line for a person."""
        return (
            f"{len(self.records)} records and {len(self.checkpoints)} checkpoints imported, "
            f"{len(self.known)} were here already"
        )


def write(out: Path, files: Sequence[Path]) -> None:
    """Write files, given relative to the working directory, to one tar file.

    A name that ends in .gz is compressed.

    Raises:
        FedreproError: it cannot be written.
    """
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        if out.suffix == ".gz":
            with tarfile.open(out, "w:gz") as tar:
                _add(tar, files)
        else:
            with tarfile.open(out, "w") as tar:
                _add(tar, files)
    except OSError as error:
        raise FedreproError(f"{out}: cannot write the records and checkpoints: {error}") from error


def _add(tar: tarfile.TarFile, files: Sequence[Path]) -> None:
    for file in files:
        tar.add(file, arcname=file.as_posix())


def read(source: Path, checkpoints: Path) -> Imported:
    """Take records and checkpoints out of a tar file, each verified first.

    A record that is here already stays; so does a checkpoint of a run that is recorded or has one.
    Nothing is taken from a file that has anything wrong in it.

    Args:
        source: as :func:`write` makes it.
        checkpoints: folder of the checkpoints.

    Raises:
        FedreproError: not such a file, or something in it is damaged, edited or foreign.
    """
    from fedrepro.engine import checkpoint  # needs PyTorch

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = _unpack(source, folder)
        for run in found[".json"]:
            try:
                records.read(run, folder)
            except FedreproError as error:
                raise FedreproError(f"{source}: nothing was imported. {error}") from error
        for run in found[".pt"]:
            try:
                checkpoint.load(folder / f"{run}.pt", run)
            except FedreproError as error:
                raise FedreproError(f"{source}: nothing was imported. {error}") from error
        imported = Imported([], [], [])
        for run in found[".json"]:
            if records.is_recorded(run):
                imported.known.append(run)
                continue
            write_bytes(records.path_of(run), (folder / f"{run}.json").read_bytes())
            imported.records.append(run)
        for run in found[".pt"]:
            target = checkpoints / f"{run}.pt"
            if records.is_recorded(run) or target.exists():
                imported.known.append(run)
                continue
            write_bytes(target, (folder / f"{run}.pt").read_bytes())
            imported.checkpoints.append(run)
        return imported


def _unpack(source: Path, folder: Path) -> dict[str, list[str]]:
    """Copy the members to ``folder`` and return their run ids by kind of file."""
    found: dict[str, list[str]] = {".json": [], ".pt": []}
    try:
        with tarfile.open(source) as tar:
            for member in tar:
                match = _RECORD.fullmatch(member.name) or _CHECKPOINT.fullmatch(member.name)
                content = tar.extractfile(member) if member.isfile() else None
                if match is None or content is None:
                    raise FedreproError(
                        f"{source}: holds '{member.name}', which is neither a record nor a "
                        "checkpoint; nothing was imported"
                    )
                suffix = Path(member.name).suffix
                (folder / f"{match[1]}{suffix}").write_bytes(content.read())
                found[suffix].append(match[1])
            if tar.fileobj is not None:
                tar.fileobj.seek(tar.offset)
                if not tar.fileobj.read(-1).startswith(_END):
                    raise EOFError("its end is missing")
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        raise FedreproError(
            f"{source}: not a whole tar file of `fedrepro train --out` ({error}); nothing was "
            "imported"
        ) from error
    return found
