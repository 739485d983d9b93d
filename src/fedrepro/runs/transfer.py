"""Carries new records and checkpoints between machines in one tar file.

A file that comes from elsewhere is not trusted: it may say of itself what it likes, but nothing of
it is unpacked that is not named like a record or checkpoint, or that is larger than it can be.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import os
import re
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal, Self

from filelock import FileLock
from pydantic import ValidationError

from fedrepro.base.errors import FedreproError
from fedrepro.base.files import write_bytes
from fedrepro.runs import records

MOST_MEMBERS = 100_000
"""More runs than all plans have together."""

MOST_RECORD_BYTES = 8 << 20
"""Largest record; the largest there are have 50 kB."""

LEAST_LIMIT, MOST_RATIO = 64 << 20, 20
"""All members together have at most so many bytes, and as many times those of the file more."""

RECORD = re.compile(r"results/(own/)?runs/[0-9a-f]{12}\.json")
"""Name of a record on its way: its file, relative to the working directory."""

_CHECKPOINT = re.compile(r"\.checkpoints/[0-9a-f]{12}\.pt")
_END = bytes(2 * tarfile.BLOCKSIZE)  # ends every tar file that is whole
_MOST_HEADER_BYTES = 64 << 10


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
    files of the same name and for checkpoints of runs that now have their record there. Processes
    of a machine that write one file do it one after the other. A checkpoint that is gone by now is
    left out: its run has ended.

    Raises:
        FedreproError: it cannot be written, or it exists and was not written by this function.
    """
    with _lock(out), tempfile.TemporaryDirectory() as folder:
        members = content(out, Path(folder)) if out.exists() else {}
        members |= {file.as_posix(): file for file in files}
        ended = {file.stem for file in members.values() if file.suffix == ".json"}
        partial = out.with_name(f"{out.name}.{os.getpid()}.tmp")
        mode: Literal["w:gz", "w"] = "w:gz" if out.suffix == ".gz" else "w"
        try:
            out.parent.mkdir(parents=True, exist_ok=True)
            with tarfile.open(partial, mode) as tar:
                for name, file in members.items():
                    if file.suffix == ".json":
                        tar.add(file, arcname=name)
                    elif file.stem not in ended:
                        with contextlib.suppress(FileNotFoundError):
                            tar.add(file, arcname=name)
            partial.replace(out)
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise FedreproError(
                f"{out}: cannot write the records and checkpoints: {error}"
            ) from error


def _lock(out: Path) -> FileLock:
    """Return what keeps other processes of this user and machine from writing the file meanwhile.

    It lies in the folder of temporary files, since that of ``out`` may have no locks.
    """
    digest = hashlib.sha256(str(out.resolve()).encode()).hexdigest()
    return FileLock(Path(tempfile.gettempdir()) / f"fedrepro-{os.getuid()}-{digest[:12]}.lock")


def read(source: Path, checkpoints: Path) -> Imported:
    """Take records and checkpoints out of a tar file, each verified first.

    A record that is here already stays; so does a checkpoint of a run that has one. A checkpoint of
    a run that is recorded is not taken; one that is here is deleted if the file has the record. A
    record that is trained on from a checkpoint says which rounds came with it. If anything in the
    file is wrong, nothing is taken from it.

    Args:
        source: as :func:`write` makes it.
        checkpoints: folder of the checkpoints.

    Raises:
        FedreproError: it is not such a file, or something in it is damaged, edited or foreign.
    """
    with tempfile.TemporaryDirectory() as folder:
        try:
            members = content(source, Path(folder))
            for file in members.values():
                if file.suffix == ".json":
                    records.read(file.stem, file.parent)
                else:
                    _mark_imported(file)
        except FedreproError as error:
            raise FedreproError(f"nothing was imported from {source}: {error}") from error
        imported = Imported([], [], [])
        for name, file in sorted(members.items(), key=lambda item: item[1].suffix):  # records first
            if file.suffix == ".json":
                new = keep(name, file.read_bytes(), checkpoints)
                (imported.records if new else imported.known).append(file.stem)
                continue
            target = checkpoints / file.name
            if recorded(file.stem, records.OWN_FOLDER) or target.exists():
                imported.known.append(file.stem)
            else:
                write_bytes(target, file.read_bytes())
                imported.checkpoints.append(file.stem)
        return imported


def keep(name: str, content: bytes, checkpoints: Path) -> bool:
    """Write a verified record where it belongs, unless its run has one; delete its checkpoint.

    Args:
        name: of the record, which matches :data:`RECORD`.
        content: of its file.
        checkpoints: folder of the checkpoints.

    Returns:
        Whether it was written.

    Raises:
        FedreproError: it cannot be written, or the record that is here is damaged.
    """
    file = Path(name)
    new = not recorded(file.stem, file.parent)
    if new:
        write_bytes(file, content)
    (checkpoints / f"{file.stem}.pt").unlink(missing_ok=True)
    return new


def recorded(run: str, folder: Path) -> bool:
    """Return whether a run has a record among the committed ones, or in another folder."""
    return records.is_recorded(run) or records.is_recorded(run, folder)


def _refuse_compressed(file: Path) -> None:
    """Refuse a checkpoint that unpacks to more than its size; ours do not."""
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as parts:
            if sum(part.file_size for part in parts.infolist()) > file.stat().st_size:
                raise FedreproError(f"{file.name} is compressed, and no checkpoint is")


def _mark_imported(file: Path) -> None:
    """Verify a checkpoint and note in it that its rounds were trained elsewhere.

    Raises:
        FedreproError: it is damaged, or its content contradicts itself.
    """  # noqa: DOC501 - made by a function
    from fedrepro.fl.engine import checkpoint, saved  # need PyTorch

    _refuse_compressed(file)
    found = saved.read(file, file.stem)
    assert found is not None
    try:
        for part in found.parts:
            records.Part.model_validate(
                part.origin | {"rounds": part.rounds, "seconds": part.seconds}
            )
    except ValidationError as error:
        raise checkpoint.unusable(file, "does not say what it was trained with") from error
    marked = found.model_copy(update={"imported": found.parts})
    checkpoint.save(file, file.stem, marked.model_dump())


def content(source: Path, folder: Path) -> dict[str, Path]:
    """Copy the members of a tar file to a folder.

    Returns:
        Name of each member -> the copy.

    Raises:
        FedreproError: it is not a whole file as :func:`write` makes it, or it or a member is larger
            than it can be.
    """  # noqa: DOC501 - caught below
    found: dict[str, Path] = {}
    try:
        limit = LEAST_LIMIT + MOST_RATIO * source.stat().st_size
        with _opened(source) as stream, tarfile.open(fileobj=stream, tarinfo=_Member) as tar:
            for member in tar:
                _require_expected(source, member, found)
                limit -= member.size
                if limit < 0 or len(found) >= MOST_MEMBERS:
                    raise FedreproError(
                        f"{source}: says that it holds more than such a file can; make it again "
                        "with `fedrepro train --out`"
                    )
                file = folder / member.name
                file.parent.mkdir(parents=True, exist_ok=True)
                content = tar.extractfile(member)
                assert content is not None  # a plain file
                with content, file.open("wb") as copy:
                    shutil.copyfileobj(content, copy)
                found[member.name] = file
            stream.seek(tar.offset)
            longest = tarfile.RECORDSIZE + tarfile.BLOCKSIZE  # an end that begins a block too late
            end = stream.read(longest + 1)
            if not end.startswith(_END) or len(end) > longest:
                raise EOFError("its end is missing")
    except FedreproError:
        raise
    except Exception as error:  # what tarfile raises for headers that lie is anybody's guess
        raise FedreproError(
            f"{source}: not a whole tar file of `fedrepro train --out` ({error})"
        ) from error
    return found


def _opened(source: Path) -> IO[bytes] | gzip.GzipFile:
    with source.open("rb") as stream:
        compressed = stream.read(2) == b"\x1f\x8b"
    return gzip.open(source) if compressed else source.open("rb")


class _Member(tarfile.TarInfo):
    """A member whose extended headers, which are read into memory, are no larger than needed."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """Read a header."""
        member = super().frombuf(buf, encoding, errors)
        if member.size < 0 or (member.size > _MOST_HEADER_BYTES and not member.isreg()):
            raise tarfile.ReadError(f"a header of {member.size:,} bytes")
        return member


def _require_expected(source: Path, member: tarfile.TarInfo, found: dict[str, Path]) -> None:
    """Refuse a member that :func:`write` would not have written."""
    plain = member.isreg() and not member.issparse() and member.size >= 0
    record = RECORD.fullmatch(member.name)
    if not plain or not (record or _CHECKPOINT.fullmatch(member.name)):
        raise FedreproError(
            f"{source}: holds '{member.name}', which is neither a record nor a checkpoint"
        )
    if member.name in found:
        raise FedreproError(f"{source}: holds '{member.name}' twice")
    if record and member.size > MOST_RECORD_BYTES:
        raise FedreproError(
            f"{source}: '{member.name}' has {member.size:,} bytes, more than a record can have"
        )
