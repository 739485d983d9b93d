"""A store of objects that several machines share: a folder, a bucket, any address of fsspec.

fsspec is imported once an address is given, and what it needs for that address with it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fedrepro.base.errors import FedreproError
from fedrepro.base.files import sync, write_bytes
from fedrepro.runs.transfer import MOST_RECORD_BYTES

MOST_BYTES = MOST_RECORD_BYTES + 1
"""More of an object is not read: it shows that the object is larger than any of ours."""

PATIENCE = 120.0
"""Seconds that a server has for an answer; clients wait without end to be let write an object."""

_SLIP = re.compile(r"(?!\w[\w+.-]*(://|::)|(file|local):)[^/]*:")
"""What would be taken for a folder, and is meant otherwise: ``s3:/bucket``, ``host:folder``."""

_AT_ONCE = 64  # objects that are read together
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}


class Store:
    """Objects by name, which are written whole or not at all.

    What is larger than anything of ours is read in part (:data:`MOST_BYTES`).

    Args:
        address: a folder, or what fsspec understands, such as ``s3://bucket/folder``.

    Raises:
        FedreproError: the address is empty or means nothing, or a package for it is missing.

    Attributes:
        address: as it is shown, without a password.
    """

    def __init__(self, address: str) -> None:
        if not address.rpartition("://")[2].strip():
            raise FedreproError(
                f"'{address}' is no address of a store; give a folder, or an address such as "
                "s3://bucket/folder"
            )
        if _SLIP.match(address) and not os.path.isdir(address):
            raise FedreproError(
                f"'{address}' is no address of a store, which has '://', such as "
                f"s3://bucket/folder; if it is to be a folder here, give ./{address}"
            )
        self.address = re.sub(r"//[^/]*@", "//", address)
        try:
            from fsspec.core import url_to_fs
            from fsspec.implementations.local import LocalFileSystem
        except ImportError as error:
            raise FedreproError(
                f"{self.address}: needs the package fsspec: pip install fsspec, and s3fs for s3://"
            ) from error
        try:
            with self._errors():
                self._fs, root = url_to_fs(address, use_listings_cache=False)
        except FedreproError as error:
            if isinstance(error.__cause__, ImportError):
                raise FedreproError(
                    f"{self.address}: needs a package ({error.__cause__}): pip install s3fs for "
                    "s3://, gcsfs for gs://"
                ) from error
            raise
        self._root = root.rstrip("/")
        self._is_local = isinstance(self._fs, LocalFileSystem)

    def require(self) -> None:
        """Refuse a store that is not there.

        Raises:
            FedreproError: there is no such bucket or folder, or it cannot be read.
        """
        with self._errors():
            try:
                self._ask("ls", self._root)
            except FileNotFoundError:
                raise FedreproError(
                    f"{self.address}: no such folder or bucket; check the address, or put records "
                    "there first: fedrepro records push"
                ) from None

    def require_exclusive(self) -> None:
        """Refuse a store in which an object can be created twice.

        Raises:
            FedreproError: it is such a store, or it cannot be written.
        """
        name = f"claims/probe.{uuid.uuid4().hex}"
        twice = self.create(name, b"1") and self.create(name, b"2")
        self.delete(name)
        if twice:
            raise FedreproError(
                f"{self.address}: creates an object that is there already, so it cannot keep two "
                "machines from training one run; give them different runs, and use `fedrepro "
                "records push` and `pull`"
            )

    def listed(self, folder: str) -> dict[str, int]:
        """Return what lies in a folder: name -> size in bytes, -1 for what is no object.

        Raises:
            FedreproError: the store cannot be read.
        """
        path = self._path(folder)
        with self._errors():
            try:
                entries = self._ask("ls", path, detail=True)
            except FileNotFoundError:
                return {}
        found = {}
        for entry in entries:
            place = entry["name"].rstrip("/")
            if place != path:  # an object that stands for the folder
                name = f"{folder}/{place.rpartition('/')[2]}"
                found[name] = int(entry["size"]) if entry["type"] == "file" else -1
        return found

    def content(self, name: str) -> bytes | None:
        """Return an object's content, or None if there is none.

        Raises:
            FedreproError: it cannot be read.
        """
        path = self._path(name)
        with self._errors():
            try:
                end = min(self._ask("info", path)["size"], MOST_BYTES)
                content = self._ask("cat_file", path, start=0, end=end) if end else b""
            except FileNotFoundError:
                return None
        assert isinstance(content, bytes)
        return content

    def contents(self, names: Mapping[str, int]) -> Iterator[tuple[str, bytes | Exception]]:
        """Yield name and content of objects, or why an object has none.

        Args:
            names: name -> size in bytes, of which no more is read.

        Raises:
            FedreproError: none can be read, of several that were not deleted meanwhile.
        """
        every = list(names)
        for start in range(0, len(every), _AT_ONCE):
            some = every[start : start + _AT_ONCE]
            paths = [self._path(name) for name in some]
            ends = [min(names[name], MOST_BYTES) for name in some]
            with self._errors():
                found = self._ask("cat_ranges", paths, [0] * len(some), ends, on_error="return")
                left = [each for each in found if not isinstance(each, FileNotFoundError)]
                if len(left) > 1 and all(isinstance(each, Exception) for each in left):
                    raise left[0]
            yield from zip(some, found, strict=True)

    def create(self, name: str, content: bytes) -> bool:
        """Create an object unless there is one; return whether it has this content now.

        Raises:
            FedreproError: it cannot be written.
        """
        try:
            self._write(name, content, new=True)
        except FedreproError:
            # It was there, which stores say in several ways, or our own answer was lost on the way.
            found = self.content(name)
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
            self._ask("rm_file", self._path(name))

    def _write(self, name: str, content: bytes, *, new: bool) -> None:
        path = self._path(name)
        with self._errors():
            if not self._fs.async_impl:  # the others are buckets, which have no folders
                self._fs.makedirs(path.rpartition("/")[0], exist_ok=True)
            if self._is_local:
                self._write_local(Path(path), content, new=new)
            else:
                self._ask("pipe_file", path, content, mode="create" if new else "overwrite")

    def _write_local(self, file: Path, content: bytes, *, new: bool) -> None:
        if not new:
            write_bytes(file, content, durable=True)
            return
        temporary = Path(self._root, f".{uuid.uuid4().hex}.tmp")
        try:
            temporary.write_bytes(content)
            sync(temporary)
            os.link(temporary, file)  # unlike a renaming does not replace a file
        except OSError as error:
            if error.errno in _NO_LINKS:
                raise FedreproError(
                    f"{self.address}: the folder's file system has no hard links, so two machines "
                    "could create one file; choose another folder or a bucket, or carry records "
                    "from machine to machine with `fedrepro train --out FILE.tar` and `fedrepro "
                    "records import`"
                ) from error
            raise
        finally:
            temporary.unlink(missing_ok=True)

    def _ask(self, method: str, *arguments: Any, **options: Any) -> Any:
        """Call a method of the file system; of a server, no longer than it has for an answer."""
        if self._fs.async_impl:
            options["timeout"] = PATIENCE
        return getattr(self._fs, method)(*arguments, **options)

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
            raise FedreproError(f"{self.address}: {told(error)}") from error


def told(error: object) -> str:
    """Return what an error says, with its kind."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
