"""Carries new records and checkpoints between machines in one tar file."""

from __future__ import annotations

import os
import re
import tarfile
import tempfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fedrepro.base.errors import FedreproError
from fedrepro.base.files import write_bytes
from fedrepro.runs import records

_RECORD = re.compile(r"results/(?:own/)?runs/([0-9a-f]{12})\.json")
_CHECKPOINT = re.compile(r"\.checkpoints/([0-9a-f]{12})\.pt")
_END = bytes(2 * tarfile.BLOCKSIZE)  # ends every tar file that is whole


@dataclass(frozen=True)
class Imported:
    """What an import did, as run ids.

    Attributes:
        records: runs whose record was imported.
        checkpoints: runs whose checkpoint was imported.
        known: runs of which nothing was, as their record or checkpoint was here already.
    """

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

    If its name ends in .gz, it is compressed. What the file already holds is kept, except for older
    files of the same name and for checkpoints of runs that now have their record there.

    Raises:
        FedreproError: it cannot be written, or it exists and was not written by this function.
    """
    with tempfile.TemporaryDirectory() as folder:
        members = content(out, Path(folder)) if out.exists() else {}
        members |= {file.as_posix(): file for file in files}
        ended = {file.stem for file in members.values() if file.suffix == ".json"}
        partial = out.with_name(f"{out.name}.{os.getpid()}.tmp")
        mode: Literal["w:gz", "w"] = "w:gz" if out.suffix == ".gz" else "w"
        try:
            out.parent.mkdir(parents=True, exist_ok=True)
            with tarfile.open(partial, mode) as tar:
                for name, file in members.items():
                    if file.suffix == ".json" or file.stem not in ended:
                        tar.add(file, arcname=name)
            partial.replace(out)
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise FedreproError(
                f"{out}: cannot write the records and checkpoints: {error}"
            ) from error


def read(source: Path, checkpoints: Path) -> Imported:
    """Take records and checkpoints out of a tar file, each verified first.

    A record that is here already stays; so does a checkpoint of a run that has one. A checkpoint of
    a run that is recorded is not taken; one that is here is deleted if the file has the record. If
    anything in the file is wrong, nothing is taken from it.

    Args:
        source: as :func:`write` makes it.
        checkpoints: folder of the checkpoints.

    Raises:
        FedreproError: it is not such a file, or something in it is damaged, edited or foreign.
    """
    from fedrepro.fl.engine import checkpoint  # needs PyTorch

    with tempfile.TemporaryDirectory() as folder:
        try:
            files = content(source, Path(folder))
            for file in files.values():
                if file.suffix == ".json":
                    records.read(file.stem, file.parent)
                else:
                    checkpoint.load(file, file.stem)
        except FedreproError as error:
            raise FedreproError(f"nothing was imported from {source}: {error}") from error
        imported = Imported([], [], [])
        for name, file in sorted(files.items(), key=lambda item: item[1].suffix):  # records first
            run = file.stem
            target = checkpoints / f"{run}.pt"
            if file.suffix == ".pt":
                if _recorded(run, records.OWN_FOLDER) or target.exists():
                    imported.known.append(run)
                else:
                    write_bytes(target, file.read_bytes())
                    imported.checkpoints.append(run)
                continue
            if _recorded(run, Path(name).parent):
                imported.known.append(run)
            else:
                write_bytes(Path(name), file.read_bytes())
                imported.records.append(run)
            target.unlink(missing_ok=True)
        return imported


def _recorded(run: str, folder: Path) -> bool:
    """Return whether a run has a record among the committed ones, or in another folder."""
    return records.is_recorded(run) or records.is_recorded(run, folder)


def content(source: Path, folder: Path) -> dict[str, Path]:
    """Copy the members of a tar file to a folder.

    Returns:
        Name of each member -> the copy.

    Raises:
        FedreproError: it is not a whole file as :func:`write` makes it.
    """  # noqa: DOC501 - caught below
    found = {}
    try:
        with tarfile.open(source) as tar:
            for member in tar:
                match = _RECORD.fullmatch(member.name) or _CHECKPOINT.fullmatch(member.name)
                stream = tar.extractfile(member) if member.isfile() else None
                if match is None or stream is None:
                    raise FedreproError(
                        f"{source}: holds '{member.name}', which is neither a record nor a "
                        "checkpoint"
                    )
                file = folder / Path(member.name).name
                file.write_bytes(stream.read())
                found[member.name] = file
            if tar.fileobj is not None:
                tar.fileobj.seek(tar.offset)
                if not tar.fileobj.read(-1).startswith(_END):
                    raise EOFError("its end is missing")
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        raise FedreproError(
            f"{source}: not a whole tar file of `fedrepro train --out` ({error})"
        ) from error
    return found
