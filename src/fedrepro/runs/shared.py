"""Records that several machines share in a store, and claims there on the runs they train.

A store has records under the names that they have in a clone, ``results/runs/<run id>.json`` and
``results/own/runs/<run id>.json``, and while runs are trained ``claims/<run id>.<n>.json``. It is
not trusted: what is taken from it passes the checks of ``fedrepro records import``. No record in it
is replaced or deleted.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import re
import socket
import threading
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import AwareDatetime, ValidationError

from fedrepro.base.errors import BadFile, FedreproError
from fedrepro.base.strict import Strict
from fedrepro.runs import records, transfer
from fedrepro.runs.command import ambiguous
from fedrepro.runs.locks import Claims, locked
from fedrepro.runs.store import Store, told

RENEWED_AFTER, ABANDONED_AFTER = 60.0, 600.0
"""Seconds: how often a claim is renewed, and after how long without that it no longer counts."""

_CLAIM = re.compile(r"claims/([0-9a-f]{12})\.([1-9][0-9]{0,8})\.json")
_MOST_CLAIM_BYTES = 4096


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
        refused = f", {len(self.refused)} refused" if self.refused else ""
        return f"{len(self.new)} records {done}, {len(self.known)} were there already{refused}"

    def require_all(self) -> None:
        """Complain of what was refused.

        Raises:
            FedreproError: anything was; the message has a line for each.
        """
        if self.refused:
            raise FedreproError("\n".join(["refused:", *self.refused]))


def listed(store: Store) -> dict[str, int]:
    """Return all that lies among the records: name -> size in bytes, -1 for what is no object.

    Raises:
        FedreproError: the store cannot be read, or holds more than all plans together.
    """
    folders = [folder.as_posix() for folder in (records.FOLDER, records.OWN_FOLDER)]
    found = store.listed(folders[0]) | store.listed(folders[1])
    if len(found) > transfer.MOST_MEMBERS:
        raise FedreproError(f"{store.address}: holds {len(found):,} files among the records")
    return found


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
    found: dict[str, None] = {}
    for begin in ids:
        fitting = [name for name in every if _run(name).startswith(begin)]
        runs = sorted({_run(name) for name in fitting})
        if len(runs) != 1:
            raise FedreproError(
                ambiguous(begin, runs) if runs else f"'{begin}' has no record in {where}"
            )
        found |= dict.fromkeys(fitting)
    return list(found) if ids else every


def pull(store: Store, names: Mapping[str, int], checkpoints: Path) -> Moved:
    """Take in records that are not here yet, each verified first.

    What is here already stays, and the rest arrives whatever is wrong with some.

    Args:
        store: where they are.
        names: what of :func:`listed` to take in.
        checkpoints: folder of the checkpoints; those of the runs are no longer needed.

    Raises:
        FedreproError: the store can no longer be read, or nothing can be written here.
    """
    moved = Moved()
    wanted = {}
    for name, size in names.items():
        if reason := _foreign(name, size):
            moved.refused.append(f"{store.address}: {name!a} {reason}")
            continue
        try:
            known = transfer.recorded(_run(name), Path(name).parent)
        except FedreproError as error:  # the one that is here is damaged
            moved.refused.append(str(error))
            continue
        if known:
            moved.known.append(name)
        else:
            wanted[name] = size
    for name, content in store.contents(wanted):
        where = f"{store.address}: {name}"
        try:
            if isinstance(content, Exception):
                raise FedreproError(f"{where}: cannot be read ({told(content)})")
            _verify(content, _run(name), where)
        except FedreproError as error:
            moved.refused.append(str(error))
        else:
            new = transfer.keep(name, content, checkpoints)
            (moved.new if new else moved.known).append(name)
    return moved


def push(store: Store, files: Sequence[Path]) -> Moved:
    """Add records to a store; what it holds is not replaced.

    A record is known where the store has a valid one with the same results: when, where and how
    fast a run was trained may differ.

    Args:
        store: where to.
        files: of the records, relative to the working directory.

    Raises:
        FedreproError: the store can no longer be read or written.
    """
    moved = Moved()
    there = listed(store) if len(files) > 1 else {}
    known = {file.as_posix() for file in files} & there.keys()
    theirs = dict(store.contents({name: there[name] for name in known if there[name] >= 0}))
    for file in files:
        name = file.as_posix()
        try:
            records.read(file.stem, file.parent)
        except FedreproError as error:
            moved.refused.append(str(error))
            continue
        if name not in there and store.create(name, file.read_bytes()):
            moved.new.append(name)
            continue
        held = theirs[name] if name in theirs else store.content(name)
        if reason := _difference(file, held):
            moved.refused.append(f"{store.address}: {name}: {reason}")
        else:
            moved.known.append(name)
    return moved


def _difference(file: Path, held: bytes | Exception | None) -> str:
    """Return why what a store holds is not the record in a file; empty if it has its results."""
    if isinstance(held, Exception):
        return f"cannot be read ({told(held)})"
    ours = file.read_bytes()
    if held != ours:
        try:
            _verify(held or b"", file.stem, "")
            same = _results(held or b"") == _results(ours)
        except FedreproError:
            same = False
        if not same:
            return "is not the record that is here, and stays; compare them, delete the wrong one"
    return ""


def _results(content: bytes) -> dict[str, Any]:
    """Return a record without what may differ from one training to the next."""
    record: dict[str, Any] = json.loads(content)
    return {key: record[key] for key in record.keys() - {"provenance", "checksum"}}


def _foreign(name: str, size: int) -> str:
    """Return why an object cannot be a record, by its name and size; empty if it can be one."""
    if size < 0 or not transfer.RECORD.fullmatch(name):
        return "is not a record"
    if size > transfer.MOST_RECORD_BYTES:
        return f"has {size:,} bytes, more than a record can have"
    return ""


def _verify(content: bytes, run_id: str, where: str) -> None:
    """Refuse what is not a valid record of a run.

    Raises:
        FedreproError: it is not; the message says where it is.
    """
    try:
        records.checked(content, records.path_of(run_id))
    except BadFile as error:
        raise FedreproError(
            f"{where}: {error.problem}; delete it there, and push a good one"
        ) from error


def _run(name: str) -> str:
    """Return the run id in the name of a record."""
    return Path(name).stem


class Claim(Strict):
    """A process trains a run.

    Attributes:
        host: its machine.
        process: its number there.
        token: drawn once for the folder of its checkpoints.
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
        return abs(age.total_seconds()) < ABANDONED_AFTER


class SharedClaims(Claims):
    """Claims on runs in a store, for machines that share no folder; on this machine also by locks.

    A claim is an object that a process creates, and no other one replaces. Where there is an
    abandoned one, the next in number is created. A process that sees the claim of another one
    after it has made its own takes that back. Claims that were made in the same folder do not
    count: by the lock there, their process was killed, and its checkpoints are here.

    Args:
        store: what the machines share.
        checkpoints: folder of the checkpoints, and of the locks on runs.

    Raises:
        FedreproError: the store cannot be written, or lets an object be created twice.
    """

    seconds_between_looks = 10.0

    def __init__(self, store: Store, checkpoints: Path) -> None:
        super().__init__(checkpoints)
        store.require_exclusive()
        self._store = store
        self._checkpoints = checkpoints
        self._host, self._token = socket.gethostname(), _token(checkpoints)
        self._names: dict[str, str] = {}  # run id -> its claim
        self._naming = threading.Lock()
        self._end = threading.Event()
        self._renewing: threading.Thread | None = None

    def fetch(self, run_ids: Iterable[str]) -> Moved:
        """Take in the records of runs, and add those that a killed process was about to add.

        Raises:
            FedreproError: the store has a record that is refused, or cannot be read or written.
        """
        wanted = set(run_ids)
        names = {
            name: size
            for name, size in listed(self._store).items()
            if transfer.RECORD.fullmatch(name) and _run(name) in wanted
        }
        moved = pull(self._store, names, self._checkpoints)
        moved.require_all()
        late = map(self._add_late, sorted(self._claimed() & wanted))
        moved.refused.extend(filter(None, late))
        moved.require_all()
        return moved

    def _claimed(self) -> set[str]:
        """Return the runs on which there are claims."""
        matches = map(_CLAIM.fullmatch, self._store.listed("claims"))
        return {match[1] for match in matches if match}

    def _add_late(self, run_id: str) -> str:
        """Add the record of a run that nobody trains, if there is one here, and end its claims.

        A process that was killed after it wrote the record has left its claim.

        Returns:
            Why it is refused in the store; empty if it is not.
        """
        for folder in (records.FOLDER, records.OWN_FOLDER):
            if records.is_recorded(run_id, folder) and self.take(run_id):
                try:
                    return self.publish(records.path_of(run_id, folder))
                finally:
                    self.release(run_id)
        return ""

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
                self._fetch(run_id)
        except BaseException:
            self.release(run_id)
            raise
        if not taken:
            self.release(run_id)
        return taken

    def _fetch(self, run_id: str) -> None:
        """Take in the record of a run, if the store has it; what else is there is not listed."""
        for folder in (records.FOLDER, records.OWN_FOLDER):
            name = records.path_of(run_id, folder).as_posix()
            content = self._store.content(name)
            if content is not None:
                _verify(content, run_id, f"{self._store.address}: {name}")
                transfer.keep(name, content, self._checkpoints)

    def _claim(self, run_id: str) -> bool:
        """Claim a run in the store; return whether no other process holds it."""
        found = self._claims(run_id)
        if self._is_elsewhere(found):
            return False
        name = f"claims/{run_id}.{1 + max(map(_number, found), default=0)}.json"
        if not self._store.create(name, self._content()):
            return False
        with self._naming:
            self._names[run_id] = name
        if self._is_elsewhere(self._claims(run_id)):
            return False
        for abandoned in found:
            self._store.delete(abandoned)
        if self._renewing is None:
            self._renewing = threading.Thread(target=self._renew, daemon=True)
            self._renewing.start()
        return True

    def _is_elsewhere(self, claims: Mapping[str, Claim]) -> bool:
        """Return whether one of the claims on a run counts that was made in another folder."""
        here = self._host, self._token  # a copy of the folder may be on another machine
        return any(claim.counts and (claim.host, claim.token) != here for claim in claims.values())

    def _claims(self, run_id: str) -> dict[str, Claim]:
        """Return the claims on a run, by name.

        Raises:
            FedreproError: the store cannot be read, or holds something else as a claim.
        """
        names = [
            name
            for name in self._store.listed("claims")
            if (match := _CLAIM.fullmatch(name)) and match[1] == run_id
        ]
        found = {}
        # Not by their sizes: since they were listed, another claim may have come under a name.
        for name, content in self._store.contents(dict.fromkeys(names, _MOST_CLAIM_BYTES)):
            if isinstance(content, FileNotFoundError):  # given up meanwhile
                continue
            if isinstance(content, Exception):
                raise FedreproError(f"{self._store.address}: {name}: {told(content)}")
            try:
                found[name] = Claim.model_validate_json(content)
            except ValidationError as error:
                raise FedreproError(
                    f"{self._store.address}: {name} is not a claim on a run; delete it"
                ) from error
        return found

    def publish(self, record: Path) -> str:
        """Add a record to the store.

        Returns:
            Why it is refused there; empty if it is not.

        Raises:
            FedreproError: the store cannot be written; the record stays here.
            KeyboardInterrupt: as it came, with a note on that.
        """
        later = f"{record} is not in the store; `fedrepro records push` adds it later"
        try:
            return "\n".join(push(self._store, [record]).refused)
        except FedreproError as error:
            raise FedreproError(f"{error}\n{later}") from error
        except KeyboardInterrupt as interrupt:
            interrupt.add_note(later)
            raise

    def release(self, run_id: str) -> None:
        """Give up a run that is held.

        Raises:
            KeyError: it is not.
        """
        with self._naming:
            if name := self._names.get(run_id):
                with contextlib.suppress(FedreproError):  # it will be seen to be abandoned
                    self._store.delete(name)
                del self._names[run_id]
        super().release(run_id)

    def release_all(self) -> None:
        """Give up all runs that are still held, such as when an error ends the training."""
        self._end.set()
        with self._naming:
            with contextlib.suppress(FedreproError):  # others would take as long to fail
                for name in self._names.values():
                    self._store.delete(name)
            self._names.clear()
        super().release_all()

    def _content(self) -> bytes:
        claim = Claim(
            host=self._host,
            process=os.getpid(),
            token=self._token,
            renewed=datetime.datetime.now(datetime.UTC),
        )
        return claim.model_dump_json().encode()

    def _renew(self) -> None:
        """Renew the claims as long as there may be any."""
        while not self._end.wait(RENEWED_AFTER):
            for run_id in list(self._names):
                with self._naming, contextlib.suppress(FedreproError):
                    if name := self._names.get(run_id):
                        self._store.replace(name, self._content())


def _token(checkpoints: Path) -> str:
    """Return what claims are marked with that are made in a folder of checkpoints.

    It is drawn by the first process that asks; one that asks meanwhile waits for it.
    """
    file = locked(checkpoints / "token", wait=True)
    assert file is not None
    with file:
        file.seek(0)
        token = file.read()
        if not token:
            token = uuid.uuid4().hex.encode()
            file.write(token)
            file.flush()
            os.fsync(file.fileno())
    return token.decode()


def _number(claim: str) -> int:
    match = _CLAIM.fullmatch(claim)
    assert match is not None
    return int(match[2])
