"""Records that several machines share in a store: a folder, a bucket, any address of fsspec.

A store has its records under the names that they have in a clone, ``results/runs/<run id>.json``
and ``results/own/runs/<run id>.json``, and while runs are trained ``claims/<run id>.<n>.json``.
Nothing in it is trusted: what is taken from it passes the checks of ``fedrepro records import``.
Nothing in it is replaced, and nothing but claims deleted.

fsspec is imported once an address is given, and what it needs for that address with it.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import re
import socket
import tempfile
import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import AwareDatetime, ValidationError

from fedrepro.base.errors import FedreproError
from fedrepro.base.files import write_bytes
from fedrepro.base.strict import Strict
from fedrepro.runs import records, transfer
from fedrepro.runs.locks import Claims

RENEWED_AFTER, ABANDONED_AFTER = 60.0, 600.0
"""Seconds: how often a claim is renewed, and after how long without that it no longer counts."""

_CLAIM = re.compile(r"claims/([0-9a-f]{12})\.([1-9][0-9]{0,8})\.json")
_MOST_BYTES = transfer.MOST_RECORD_BYTES + 1  # of any object: one more shows that it is too large
_AT_ONCE = 64  # objects that are fetched together


@dataclass(frozen=True)
class Moved:
    """What became of records on their way to or from a store.

    Attributes:
        new: names of those that arrived.
        known: names of those that were there already.
        refused: what is wrong with the others, each by name.
    """

    new: list[str] = field(default_factory=list)
    known: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def text(self, done: str) -> str:
        """Return one line for a person; ``done`` says what was done with the new ones."""
        refused = f", {len(self.refused)} were refused" if self.refused else ""
        return f"{len(self.new)} records {done}, {len(self.known)} were there already{refused}"

    def require_all(self) -> None:
        """Complain of what was refused.

        Raises:
            FedreproError: anything was; the message has a line for each.
        """
        if self.refused:
            raise FedreproError("\n".join(["refused:", *self.refused]))


class Store:
    """A store of records.

    Args:
        address: a folder, or what fsspec understands, such as ``s3://bucket/folder``.

    Raises:
        FedreproError: a package for such addresses is missing, or the address means nothing.

    Attributes:
        address: as it is shown, without a password.
    """

    def __init__(self, address: str) -> None:
        self.address = re.sub(r"//[^/@]*@", "//", address)
        try:
            from fsspec.core import url_to_fs
        except ImportError as error:
            raise FedreproError(
                f"{self.address}: needs the package fsspec; pip install fsspec, and s3fs for s3://"
            ) from error
        try:
            with self._errors():
                self._fs, root = url_to_fs(address, use_listings_cache=False)
        except FedreproError as error:
            if isinstance(error.__cause__, ImportError):
                raise FedreproError(
                    f"{self.address}: needs another package ({error.__cause__}); for s3:// it is "
                    "s3fs, for gs:// gcsfs: pip install it here"
                ) from error
            raise
        self._root = root.rstrip("/")
        self._is_local = "file" in _protocols(self._fs)

    # Records

    def listed(self) -> dict[str, int]:
        """Return all that lies among the records: name -> size in bytes, -1 for what is no file.

        Raises:
            FedreproError: the store cannot be read, or holds more than all plans.
        """
        found = self._entries(records.FOLDER) | self._entries(records.OWN_FOLDER)
        if len(found) > transfer.MOST_MEMBERS:
            raise FedreproError(f"{self.address}: holds {len(found):,} files among the records")
        return found

    def require_records(self) -> dict[str, int]:
        """Return what :meth:`listed` does, of a store that holds something.

        Raises:
            FedreproError: as :meth:`listed`, or there is nothing, or no store.
        """
        listed = self.listed()
        if not listed:
            with self._errors():
                self._fs.ls(self._root)  # says if there is no such bucket or folder
            raise FedreproError(f"{self.address}: holds no {records.FOLDER}")
        return listed

    def pull(self, checkpoints: Path, names: Mapping[str, int]) -> Moved:
        """Take in records that are not here yet, each verified first.

        What is here already stays, and the rest arrives whatever is wrong with some.

        Args:
            checkpoints: folder of the checkpoints; those of the runs are no longer needed.
            names: what of :meth:`listed` to take in.

        Raises:
            FedreproError: nothing can be read or written any more, or a record here is damaged.
        """
        moved = Moved()
        wanted = {}
        for name, size in names.items():
            if reason := _foreign(name, size):
                moved.refused.append(f"{self.address}: {name!a} {reason}")
            elif transfer.recorded(Path(name).stem, Path(name).parent):
                moved.known.append(name)
            else:
                wanted[name] = size
        for name, content in self._contents(wanted):
            try:
                self._verify(name, content)
            except FedreproError as error:
                moved.refused.append(str(error))
                continue
            new = transfer.keep(name, content, checkpoints)
            (moved.new if new else moved.known).append(name)
        return moved

    def push(self, files: Sequence[Path]) -> Moved:
        """Add records to the store; what it holds is not replaced.

        A record is known where the store has one with the same results: when, where and how fast a
        run was trained may differ.

        Args:
            files: relative to the working directory.

        Raises:
            FedreproError: the store can no longer be read or written.
        """
        moved = Moved()
        there = self.listed()
        sizes = {name: there[name] for name in map(Path.as_posix, files) if name in there}
        theirs = dict(self._contents({n: size for n, size in sizes.items() if size >= 0}))
        for file in files:
            name = file.as_posix()
            try:
                records.read(file.stem, file.parent)
            except FedreproError as error:
                moved.refused.append(str(error))
                continue
            ours = file.read_bytes()
            if name not in there and self.create(name, ours):
                moved.new.append(name)
            elif self._have_same_results(name, ours, theirs.get(name)):
                moved.known.append(name)
            else:
                moved.refused.append(
                    f"{name}: {self.address} holds something else under this name, which stays; "
                    "compare the two, and delete the wrong one"
                )
        return moved

    def _have_same_results(self, name: str, ours: bytes, theirs: bytes | Exception | None) -> bool:
        """Return whether what the store holds is a valid record with the results of ours."""
        if theirs is None:  # it came after we looked
            theirs = self._content(name)
        if theirs == ours:
            return True
        try:
            self._verify(name, theirs)
        except FedreproError:
            return False
        assert isinstance(theirs, bytes)
        return _results(theirs) == _results(ours)

    def _verify(self, name: str, content: bytes | Exception | None) -> None:
        """Refuse what is not a valid record of the run that the name says.

        Raises:
            FedreproError: it is not, or could not be read.
        """
        where = f"{self.address}: {name}"
        if not isinstance(content, bytes):
            raise FedreproError(f"{where}: cannot be read ({_told(content)})")
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, Path(name).name)
            file.write_bytes(content)
            try:
                records.read(file.stem, file.parent)
            except FedreproError as error:
                raise FedreproError(str(error).replace(str(file), where)) from error

    # Claims

    def claims(self, run_id: str) -> dict[str, Claim]:
        """Return the claims on a run, by name.

        Raises:
            FedreproError: the store cannot be read, or holds something else as a claim.
        """
        listed = self._entries(Path("claims"))
        names = {
            name: size
            for name, size in listed.items()
            if (match := _CLAIM.fullmatch(name)) and match[1] == run_id
        }
        found = {}
        for name, content in self._contents(names):
            if isinstance(content, FileNotFoundError):  # given up meanwhile
                continue
            try:
                if not isinstance(content, bytes):
                    raise FedreproError(f"{self.address}: {name}: {_told(content)}")
                found[name] = Claim.model_validate_json(content)
            except ValidationError as error:
                raise FedreproError(
                    f"{self.address}: {name} is not a claim on a run; delete it"
                ) from error
        return found

    def require_exclusive(self) -> None:
        """Refuse a store in which an object can be created twice.

        Raises:
            FedreproError: it is such a store, or it cannot be written.
        """
        name = f"claims/probe.{uuid.uuid4().hex}.json"
        try:
            twice = self.create(name, b"1") and self.create(name, b"2")
        finally:
            self.delete(name)
        if twice:
            raise FedreproError(
                f"{self.address}: creates an object that is there already, so claims do not keep "
                "two machines from training one run; share out the runs by hand, and use "
                "`fedrepro records push` and `pull`"
            )

    # Objects

    def create(self, name: str, content: bytes) -> bool:
        """Create an object unless there is one; return whether it has this content now.

        Raises:
            FedreproError: it cannot be written.
        """
        try:
            self._write(name, content, new=True)
        except FedreproError:
            # It was there, which stores say in several ways, or our own answer was lost on the way.
            found = self._content(name)
            if found is None:
                raise
            return found == content
        return True

    def replace(self, name: str, content: bytes) -> None:
        """Write an object, whatever is there.

        Raises:
            FedreproError: it cannot be written.
        """
        self._write(name, content, new=False)

    def delete(self, name: str) -> None:
        """Delete an object if it is there.

        Raises:
            FedreproError: it cannot be deleted.
        """
        with self._errors(), contextlib.suppress(FileNotFoundError):
            self._fs.rm_file(self._path(name))

    def _write(self, name: str, content: bytes, *, new: bool) -> None:
        path = self._path(name)
        with self._errors():
            if not self._fs.async_impl:  # others have no folders
                self._fs.makedirs(path.rpartition("/")[0], exist_ok=True)
            if self._is_local:
                _write_local(Path(path), content, new=new)
            else:
                self._fs.pipe_file(path, content, mode="create" if new else "overwrite")

    def _content(self, name: str) -> bytes | None:
        """Return an object's content, or None if there is none."""
        path = self._path(name)
        with self._errors():
            try:
                end = min(self._fs.info(path)["size"], _MOST_BYTES)
                content = self._fs.cat_file(path, start=0, end=end) if end else b""
            except FileNotFoundError:
                return None
        assert isinstance(content, bytes)
        return content

    def _contents(self, names: Mapping[str, int]) -> Iterator[tuple[str, bytes | Exception]]:
        """Yield objects, no more of each than the size it was listed with, or why it has none.

        Raises:
            FedreproError: none of many can be read.
        """
        every = list(names)
        for start in range(0, len(every), _AT_ONCE):
            some = every[start : start + _AT_ONCE]
            paths = [self._path(name) for name in some]
            ends = [min(names[name], _MOST_BYTES) for name in some]
            with self._errors():
                found = self._fs.cat_ranges(paths, [0] * len(some), ends, on_error="return")
                if all(isinstance(each, Exception) for each in found) and len(found) > 1:
                    raise found[0]
            yield from zip(some, found, strict=True)

    def _entries(self, folder: Path) -> dict[str, int]:
        """Return what lies in a folder: name -> size in bytes, -1 for what is no file."""
        path = self._path(folder.as_posix())
        with self._errors():
            try:
                entries = self._fs.ls(path, detail=True)
            except FileNotFoundError:
                return {}
        found = {}
        for entry in entries:
            place = entry["name"].rstrip("/")
            if place != path.rstrip("/"):  # an object that stands for the folder
                name = f"{folder.as_posix()}/{place.rpartition('/')[2]}"
                found[name] = int(entry["size"]) if entry["type"] == "file" else -1
        return found

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Make errors of any kind, for fsspec's parts agree on none, errors that users see."""
        try:
            yield
        except FedreproError:
            raise
        except Exception as error:
            raise FedreproError(f"{self.address}: {_told(error)}") from error


class Claim(Strict):
    """A process trains a run.

    Attributes:
        host: its machine.
        process: its number there.
        token: drawn by the process.
        renewed: when it last said so, by its own clock.
    """

    host: str
    process: int
    token: str
    renewed: AwareDatetime

    @property
    def counts(self) -> bool:
        """Whether it was renewed lately; the machines' clocks have to agree to some minutes."""
        age = datetime.datetime.now(datetime.UTC) - self.renewed
        return age.total_seconds() < ABANDONED_AFTER


class SharedClaims(Claims):
    """Claims on runs in a store, for machines that share no folder; here also by locks.

    The claim on a run is an object that is created, never replaced by another process. Where there
    is an abandoned one, the next in number is created. Of the claims that count there is one: a
    process that sees another one after it has made its own takes that back.

    Args:
        store: what the machines share.
        checkpoints: folder of the checkpoints, and of the locks on runs.

    Raises:
        FedreproError: the store does not refuse to create what is there.
    """

    seconds_between_looks = 10.0

    def __init__(self, store: Store, checkpoints: Path) -> None:
        super().__init__(checkpoints)
        store.require_exclusive()
        self._store = store
        self._checkpoints = checkpoints
        self._token = uuid.uuid4().hex
        self._names: dict[str, str] = {}  # run id -> its claim
        self._naming = threading.Lock()
        self._end = threading.Event()
        self._renewing: threading.Thread | None = None

    def fetch(self, run_ids: Iterable[str]) -> Moved:
        """Take in the records of runs.

        Raises:
            FedreproError: the store has a record that is refused, or cannot be read.
        """
        wanted = set(run_ids)
        listed = self._store.listed()
        names = {name: size for name, size in listed.items() if _stem(name) in wanted}
        moved = self._store.pull(self._checkpoints, names)
        moved.require_all()
        return moved

    def take(self, run_id: str) -> bool:
        """Claim a run; return whether no other process holds it.

        If another machine has ended it, its record is here afterwards.

        Raises:
            FedreproError: as :meth:`Claims.take` and :meth:`fetch`.
        """
        if not super().take(run_id):
            return False
        try:
            taken = self._claim(run_id)
            if taken:
                self.fetch([run_id])
        except BaseException:
            self.release(run_id)
            raise
        if not taken:
            self.release(run_id)
        return taken

    def _claim(self, run_id: str) -> bool:
        """Claim a run in the store; return whether no other process holds it."""
        others = self._store.claims(run_id)
        if any(claim.counts for claim in others.values()):
            return False
        name = f"claims/{run_id}.{1 + max(map(_number, others), default=0)}.json"
        if not self._store.create(name, self._content()):
            return False
        with self._naming:
            self._names[run_id] = name
        if any(claim.counts for claim in self._others(run_id)):
            return False
        for abandoned in others:
            self._store.delete(abandoned)
        if self._renewing is None:
            self._renewing = threading.Thread(target=self._renew, daemon=True)
            self._renewing.start()
        return True

    def _others(self, run_id: str) -> list[Claim]:
        claims = self._store.claims(run_id)
        return [claim for claim in claims.values() if claim.token != self._token]

    def publish(self, record: Path) -> str:
        """Add a record to the store.

        Returns:
            Why it is refused there; empty if it is not.

        Raises:
            FedreproError: the store cannot be written; the record stays here.
        """
        try:
            return "\n".join(self._store.push([record]).refused)
        except FedreproError as error:
            raise FedreproError(
                f"{error}\n{record} is not in the store; `fedrepro records push` adds it later"
            ) from error

    def release(self, run_id: str) -> None:
        """Give up a run that is held.

        Raises:
            KeyError: it is not.
        """
        with self._naming:
            name = self._names.pop(run_id, None)
            if name is not None:
                with contextlib.suppress(FedreproError):  # it will be seen to be abandoned
                    self._store.delete(name)
        super().release(run_id)

    def release_all(self) -> None:
        """Give up all runs that are still held, such as when an error ends the training."""
        self._end.set()
        with self._naming:
            names = list(self._names.values())
            self._names.clear()
            with contextlib.suppress(
                FedreproError
            ):  # the first says that the store is out of reach
                for name in names:
                    self._store.delete(name)
        super().release_all()

    def _content(self) -> bytes:
        now = datetime.datetime.now(datetime.UTC)
        claim = Claim(
            host=socket.gethostname(), process=os.getpid(), token=self._token, renewed=now
        )
        return claim.model_dump_json().encode()

    def _renew(self) -> None:
        """Renew the claims as long as there may be any."""
        while not self._end.wait(RENEWED_AFTER):
            for run_id in list(self._names):
                with self._naming, contextlib.suppress(FedreproError):
                    if name := self._names.get(run_id):
                        self._store.replace(name, self._content())


def chosen(names: Iterable[str], ids: Sequence[str], where: str) -> list[str]:
    """Return the names of records of some runs; of all, if none are asked for.

    Args:
        names: of all records there are.
        ids: of runs, or how they begin.
        where: they are, for the message.

    Raises:
        FedreproError: there is no record of such a run, or there are of several.
    """
    every = list(names)
    found = {}
    for begin in ids:
        fitting = [name for name in every if _stem(name).startswith(begin)]
        runs = sorted({_stem(name) for name in fitting})
        if len(runs) != 1:
            several = f"begins the ids of {len(runs)} runs: {', '.join(runs[:5])}"
            raise FedreproError(f"'{begin}' {several if runs else f'has no record in {where}'}")
        found |= dict.fromkeys(fitting)
    return list(found) if ids else every


def _foreign(name: str, size: int) -> str:
    """Return why an object cannot be a record, by its name and size; empty if it can be one."""
    if size < 0 or not transfer.RECORD.fullmatch(name):
        return "is not a record"
    if size > transfer.MOST_RECORD_BYTES:
        return f"has {size:,} bytes, more than a record can have"
    return ""


def _results(content: bytes) -> dict[str, Any]:
    """Return a record without what may differ from one training to the next."""
    record: dict[str, Any] = json.loads(content)
    return {key: record[key] for key in record.keys() - {"provenance", "checksum"}}


def _stem(name: str) -> str:
    return PurePosixPath(name).stem


def _number(claim: str) -> int:
    match = _CLAIM.fullmatch(claim)
    assert match is not None
    return int(match[2])


def _protocols(fs: Any) -> tuple[str, ...]:
    return (fs.protocol,) if isinstance(fs.protocol, str) else tuple(fs.protocol)


def _told(error: object) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _write_local(file: Path, content: bytes, *, new: bool) -> None:
    """Write a file whole or not at all; if it is to be new, only where there is none."""
    if not new:
        write_bytes(file, content)
        return
    temporary = file.with_name(f".{uuid.uuid4().hex}.tmp")
    try:
        temporary.write_bytes(content)
        os.link(temporary, file)  # unlike a renaming refuses to replace a file
    finally:
        temporary.unlink(missing_ok=True)
