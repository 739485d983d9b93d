"""Carries new records and checkpoints between machines in one tar file.

A file that comes from elsewhere is not trusted: it may say of itself what it likes, but nothing of
it is unpacked that is not named like a record or checkpoint, or that is larger than it can be.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import gzip
import hashlib
import os
import re
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Literal, Self

from filelock import FileLock
from pydantic import ValidationError

from fedrepro.base.errors import BadFile, FedreproError
from fedrepro.base.files import (
    require_replaceable,
    sweep,
    sync,
    temporary_name,
    write_bytes,
)
from fedrepro.runs import records
from fedrepro.runs.locks import Claims

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
_ONLY_WRITING = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}  # fails in these ways


@dataclass(frozen=True)
class Imported:
    """What an import did, as run ids.

    Attributes:
        records: runs whose record was imported.
        checkpoints: runs whose checkpoint was imported.
        replaced: those of them that had a checkpoint of fewer rounds here.
        known: runs of which nothing was imported: their record, or a checkpoint of as many rounds,
            was here already.
        notes: what else there is to say of checkpoints, a sentence each.
    """

    records: list[str] = field(default_factory=list)
    checkpoints: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    known: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def text(self) -> str:
        """Return one line for a person, and one for each note."""
        replaced = f" ({len(self.replaced)} in place of older ones)" if self.replaced else ""
        counts = (
            f"{len(self.records)} records and {len(self.checkpoints)} checkpoints imported"
            f"{replaced}, {len(self.known)} were here already"
        )
        return "\n".join([counts, *self.notes])


def write(out: Path, files: Sequence[Path]) -> None:
    """Write files, given relative to the working directory, to one tar file.

    If its name ends in .gz, it is compressed. What the file already holds is kept, except for older
    files of the same name and for checkpoints of runs that now have their record there. Processes
    of a machine that write one file do it one after the other. A checkpoint that is gone by now is
    left out: its run has ended.

    Raises:
        FedreproError: it cannot be written, or it exists and was not written by this function.
    """
    new = {file.as_posix(): file for file in files}
    with _locked(out):
        ended = {Path(name).stem for name in (*_names(out), *new) if name.endswith(".json")}
        target = Path(os.path.realpath(out))  # a link stays one
        sweep(target.parent, f"{glob.escape(target.name)}.*.tmp")
        partial = temporary_name(target)
        mode: Literal["w:gz", "w"] = "w:gz" if out.suffix == ".gz" else "w"
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with tarfile.open(partial, mode) as tar:
                if out.exists():
                    for member, stream in _members(out):
                        if member.name not in new and not _is_superseded(member.name, ended):
                            tar.addfile(member, stream)
                for name, file in new.items():
                    if not _is_superseded(name, ended):
                        _add(tar, name, file)
            sync(partial)
            partial.replace(target)
        except OSError as error:
            raise FedreproError(
                f"{out}: cannot write the records and checkpoints: {error}"
            ) from error
        finally:
            partial.unlink(missing_ok=True)


def require_addable(out: Path) -> None:
    """Refuse a file that :func:`write` could not add to, as it would.

    Raises:
        FedreproError: it exists and was not written by :func:`write`, or there are no locks for it.
    """
    with _locked(out):
        _names(out)


def _is_superseded(name: str, ended: set[str]) -> bool:
    """Return whether a member is the checkpoint of a run that has ended."""
    file = Path(name)
    return file.suffix != ".json" and file.stem in ended


def _add(tar: tarfile.TarFile, name: str, file: Path) -> None:
    """Add a file as it is when it is opened, as another process may replace or delete it."""
    with contextlib.ExitStack() as opened:
        try:
            stream = opened.enter_context(file.open("rb"))
        except FileNotFoundError:
            if file.suffix == ".json":
                raise
            return
        tar.addfile(tar.gettarinfo(arcname=name, fileobj=stream), stream)


@contextlib.contextmanager
def _locked(out: Path) -> Iterator[None]:
    """Keep other processes of this user and machine from writing the file meanwhile.

    The lock lies in the folder of temporary files, since that of ``out`` may have no locks.
    """  # noqa: DOC501 - made by a function
    digest = hashlib.sha256(os.fsencode(os.path.realpath(out))).hexdigest()
    try:
        name = f"fedrepro-{os.getuid()}-{digest[:12]}.lock"
        lock = FileLock(Path(tempfile.gettempdir()) / name)
        lock.acquire()
    except (OSError, NotImplementedError) as error:
        raise _no_temporary(error) from error
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """Make a folder to unpack to, which is deleted afterwards.

    Yields:
        The folder.

    Raises:
        FedreproError: there is no place for one.
    """  # noqa: DOC501 - made by a function
    try:
        folder = tempfile.TemporaryDirectory()
    except OSError as error:
        raise _no_temporary(error) from error
    with folder as name:
        yield Path(name)


def _no_temporary(error: Exception) -> FedreproError:
    return FedreproError(
        f"the folder of temporary files cannot be used ({error}); free some space there or check "
        "the permissions, or name another folder in TMPDIR"
    )


def read(source: Path, checkpoints: Path) -> Imported:
    """Take records and checkpoints out of a tar file, each verified first.

    A record that is here already stays. Of two checkpoints of a run the one of more rounds counts;
    that of a run which a process here trains stays. A checkpoint of a run that is recorded is not
    taken; one that is here is deleted if the file has the record. A record that is trained on from
    a checkpoint says which rounds came with it. If anything in the file is wrong, or a record here
    of one of its runs, nothing is taken from it.

    Args:
        source: as :func:`write` makes it.
        checkpoints: folder of the checkpoints.

    Raises:
        FedreproError: it is not such a file, something in it is damaged, edited or foreign, or a
            record that is here is; or a file cannot be written here.
    """
    with temporary_folder() as folder:
        try:
            members = content(source, folder)
            for name, file in members.items():
                _verify(name, file)
                recorded(file.stem, _records_beside(name))
        except FedreproError as error:
            why = str(error).removeprefix(f"{source}: ")
            raise FedreproError(f"nothing was imported from {source}: {why}") from error
        imported = Imported()
        for name, file in sorted(members.items(), key=lambda item: item[1].suffix):  # records first
            if file.suffix == ".json":
                new = keep(name, file.read_bytes(), checkpoints)
                (imported.records if new else imported.known).append(file.stem)
            else:
                _take(file, checkpoints / file.name, imported)
        return imported


def _verify(name: str, file: Path) -> None:
    """Refuse a member that is not what its name says.

    Args:
        name: of the member.
        file: its copy.

    Raises:
        FedreproError: it is damaged, edited or foreign.
    """
    try:
        if file.suffix == ".json":
            records.read(file.stem, file.parent)
        else:
            _verify_checkpoint(file)
    except BadFile as error:
        raise FedreproError(
            f"{name}: {error.problem}; get the tar file again, or make it again with `fedrepro "
            "train --out`"
        ) from error


def _records_beside(name: str) -> Path:
    """Return the folder in which the run of a member may have a record that is not committed."""
    return Path(name).parent if name.endswith(".json") else records.OWN_FOLDER


def _take(file: Path, target: Path, imported: Imported) -> None:
    """Take a verified checkpoint if that which is here has fewer rounds, or cannot be used.

    That of a recorded run is not taken. It notes that its rounds were trained elsewhere.
    """
    from fedrepro.fl.engine import checkpoint, saved  # need PyTorch

    run_id, claims = file.stem, Claims(target.parent)
    if not claims.take(run_id):
        what = "stays" if target.exists() else "is not imported"
        imported.notes.append(f"{target}: {what}, as another process trains the run")
        return
    try:
        if recorded(run_id, records.OWN_FOLDER):  # maybe by the process that held the claim
            imported.known.append(run_id)
            return
        rounds, theirs = _rounds(target), saved.read(file, run_id)
        assert theirs is not None
        if rounds is not None and rounds >= theirs.progress.round:
            imported.known.append(run_id)
            return
        marked = theirs.model_copy(update={"imported": theirs.parts})
        checkpoint.save(target, run_id, marked.model_dump())
        imported.checkpoints.append(run_id)
        if rounds is None:
            imported.notes.append(f"{target}: could not be used, and was replaced")
        elif rounds >= 0:
            imported.replaced.append(run_id)
    finally:
        claims.release(run_id)


def _rounds(file: Path) -> int | None:
    """Return how many rounds a checkpoint holds, -1 if there is none; None if it is unusable."""
    from fedrepro.fl.engine import saved  # needs PyTorch

    try:
        found = saved.read(file, file.stem)
    except BadFile:
        return None
    return found.progress.round if found else -1


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
        write_bytes(file, content)  # may be taken in again, so the disk is not waited for
    (checkpoints / f"{file.stem}.pt").unlink(missing_ok=True)
    return new


def recorded(run: str, folder: Path) -> bool:
    """Return whether a run has a record among the committed ones, or in another folder."""
    return records.is_recorded(run) or records.is_recorded(run, folder)


def _is_compressed(file: Path) -> bool:
    """Return whether a checkpoint unpacks to more than its size; ours do not."""
    if not zipfile.is_zipfile(file):
        return False
    with zipfile.ZipFile(file) as parts:
        return sum(part.file_size for part in parts.infolist()) > file.stat().st_size


def _verify_checkpoint(file: Path) -> None:
    """Refuse a checkpoint that is damaged, or whose content contradicts itself.

    Raises:
        BadFile: it is.
    """  # noqa: DOC501 - made by a function
    from fedrepro.fl.engine import checkpoint, saved  # need PyTorch

    try:
        compressed = _is_compressed(file)
    except Exception as error:  # what zipfile raises for what is broken is anybody's guess
        raise checkpoint.unusable(file, f"is damaged ({error})") from error
    if compressed:
        raise checkpoint.unusable(file, "is compressed, and none of ours is")
    found = saved.read(file, file.stem)
    assert found is not None
    try:
        for part in found.parts:
            records.Part.model_validate(
                part.origin | {"rounds": part.rounds, "seconds": part.seconds}
            )
    except ValidationError as error:
        raise checkpoint.unusable(file, "does not say what it was trained with") from error


def content(source: Path, folder: Path) -> dict[str, Path]:
    """Copy the members of a tar file to a folder.

    Returns:
        Name of each member -> the copy.

    Raises:
        FedreproError: it is not a whole file as :func:`write` makes it, it or a member is larger
            than it can be, or the folder has no room for it.
    """  # noqa: DOC501 - caught by _reading
    found: dict[str, Path] = {}
    with _reading(source):
        for member, packed in _members(source):
            file = folder / member.name
            file.parent.mkdir(parents=True, exist_ok=True)
            try:
                with file.open("wb") as copy:
                    shutil.copyfileobj(packed, copy)
            except OSError as error:
                if error.errno not in _ONLY_WRITING:
                    raise
                raise FedreproError(
                    f"{source}: cannot be unpacked to {folder} ({error.strerror}); free some space "
                    "there, or name another folder of temporary files in TMPDIR"
                ) from error
            found[member.name] = file
    return found


def _names(source: Path) -> list[str]:
    """Return the names of the members of a tar file; of one that is not there, none.

    Raises:
        FedreproError: it is not a whole file as :func:`write` makes it.
    """
    if not source.exists():
        return []
    if not source.is_dir():  # which cannot be read as a tar file
        require_replaceable(source)
    with _reading(source):
        return [member.name for member, _ in _members(source)]


@contextlib.contextmanager
def _reading(source: Path) -> Iterator[None]:
    """Say of whatever goes wrong in reading a tar file that it is not whole.

    Raises:
        FedreproError: as what is read raises it, or for an error of any other kind.
    """
    try:
        yield
    except FedreproError:
        raise
    except FileNotFoundError as error:
        raise FedreproError(f"{source}: no such file") from error
    except Exception as error:  # what tarfile raises for headers that lie is anybody's guess
        raise FedreproError(
            f"{source}: not a whole tar file of `fedrepro train --out` ({error})"
        ) from error


def _members(source: Path) -> Iterator[tuple[tarfile.TarInfo, IO[bytes]]]:
    """Yield the members of a tar file and their content, each to be read before the next one.

    Raises:
        FedreproError: it holds what :func:`write` would not have written, or more than it can.
        EOFError: it was cut off; what tarfile and gzip raise is of other kinds.
    """
    found: set[str] = set()
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
            packed = tar.extractfile(member)
            assert packed is not None  # a plain file
            with packed:
                yield member, packed
            found.add(member.name)
        stream.seek(tar.offset)
        longest = tarfile.RECORDSIZE + tarfile.BLOCKSIZE  # an end that begins a block too late
        end = stream.read(longest + 1)
        if not end.startswith(_END) or len(end) > longest:
            raise EOFError("its end is missing")


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


def _require_expected(source: Path, member: tarfile.TarInfo, found: set[str]) -> None:
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
