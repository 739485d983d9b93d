"""Downloads one file over https: whole and as published, or not at all.

A server, or whoever answers in its place, is not trusted: it cannot send more bytes than are
published, another content where the hash is known, or take for ever; and what it redirects to must
be https as well. Where the hash is known, what has arrived waits in ``.partial-<name>``, and the
next attempt goes on from there, at any address; the hash of the whole decides.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import http.client
import os
import secrets
import shutil
import socket
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from fedrepro import __version__
from fedrepro.base.errors import FedreproError

SILENCE_SECONDS = 30.0
"""How long a server may stay silent."""

LEAST_SECONDS, LEAST_RATE = 60.0, 100_000.0
"""A download may take so many seconds, and as many more as its bytes need at this rate a second."""

LEFT_SECONDS = 2 * 24 * 3600.0
"""What a process has left under a temporary name for so long, it does not come back to."""

PARTIAL = ".partial-"

_CHUNK = 1 << 18
_HEADERS = {"User-Agent": f"fedrepro/{__version__}"}


class DownloadError(FedreproError):
    """No address gave the file.

    Attributes:
        failures: what went wrong, a line for each address.
    """

    def __init__(self, failures: Sequence[str]) -> None:
        super().__init__("\n".join(failures))
        self.failures = list(failures)


def fetch(
    urls: Sequence[str],
    target: Path,
    *,
    size: int,
    sha256: str = "",
    parts: Path | None = None,
    seconds: float | None = None,
    plain_hosts: Collection[str] = (),
) -> None:
    """Download a file from the first address that has it.

    Args:
        urls: addresses of the same file, in order.
        target: where it goes; its folder is made. A file there is replaced.
        size: bytes that are published; of a file without ``sha256``, the most there may be.
        sha256: of the file, hexadecimal; "" where only its content can be checked, by the caller.
        parts: folder where a part of the file waits for the next attempt; None: the target's.
        seconds: after which an address is given up; None: by the size.
        plain_hosts: hosts that may be asked without encryption; for tests.

    Raises:
        DownloadError: no address worked.
        OSError: the file cannot be written.
    """
    left = (parts or target.parent) / f"{PARTIAL}{target.name}"
    target.parent.mkdir(parents=True, exist_ok=True)
    sweep(left.parent)
    limit = LEAST_SECONDS + size / LEAST_RATE if seconds is None else seconds
    failures = []
    for url in urls:
        print(f"downloading {url} (up to {size / 1e6:.1f} MB)", file=sys.stderr)
        part = _take_up(left)
        try:
            _receive(url, part, size, sha256, limit, plain_hosts)
            os.replace(part, target)
            return
        except _Failed as failure:
            failures.append(f"  {url}: {failure}")
        finally:
            _put_down(part, left, keep=bool(sha256))
    raise DownloadError(failures)


def sweep(folder: Path) -> None:
    """Delete what killed processes left in a folder under temporary names long ago."""
    for path in folder.glob(f"{PARTIAL}*"):
        with contextlib.suppress(OSError):  # another process may have been faster
            if time.time() - path.stat().st_mtime > LEFT_SECONDS:
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def not_written(folder: Path, error: Exception) -> FedreproError:
    """Return the error of a download that came to a folder in which it could not be kept."""
    return FedreproError(
        f"Cannot write to {folder}: {error}. Free some space there, or check the permissions."
    )


class _Failed(Exception):
    """What an address did wrong, for a person."""


def _take_up(left: Path) -> Path:
    """Return a name of this download's own, with what was left of an earlier attempt, if any.

    A part that another download still writes to is not touched: that one is silent only so long.
    """
    own = left.with_name(f"{left.name}.{secrets.randbits(32)}")  # containers share process ids
    for path in (*left.parent.glob(f"{glob.escape(left.name)}.[0-9]*"), left):
        with contextlib.suppress(OSError):  # there is none, or another process has taken it
            if path == left or time.time() - path.stat().st_mtime > 2 * SILENCE_SECONDS:
                path.replace(own)
    return own


def _put_down(part: Path, left: Path, *, keep: bool) -> None:
    """Leave what has arrived to the next attempt, or delete it."""
    if part.exists():
        if keep and part.stat().st_size:
            part.replace(left)
        else:
            part.unlink()


def _receive(
    url: str, part: Path, size: int, sha256: str, seconds: float, plain_hosts: Collection[str]
) -> None:
    """Write what an address has to a file, after what is in it; keep only what may be right."""
    with part.open("ab") as stream, _Line(seconds, plain_hosts) as line:
        begun = stream.tell()
        if not sha256 or begun >= size:
            begun = 0
        try:
            with line.open(url, begun) as response:
                if response.status != http.HTTPStatus.PARTIAL_CONTENT:
                    begun = 0
                announced = None if response.length is None else begun + response.length
                if announced is not None and (announced > size or (sha256 and announced < size)):
                    raise _Failed(f"it has {announced:,} bytes, and {size:,} are published")
                # what is there outlives an address that has another file: a log-in page, say
                stream.truncate(begun)
                arrived = _copy(response, stream, begun, size, line)
            whole = size if sha256 else announced
            if whole is not None and arrived < whole:
                raise _Failed(f"cut off after {arrived:,} of {whole:,} bytes; run again to go on")
        except _TooLong:
            stream.truncate(begun)
            raise _Failed(f"it has more than the {size:,} bytes that are published") from None
    if sha256:
        with part.open("rb") as content:
            found = hashlib.file_digest(content, "sha256").hexdigest()
        if found != sha256:
            part.unlink()
            raise _Failed(f"its sha256 is {found}, expected {sha256}")


class _TooLong(Exception):
    """A server sends more than the published file has."""


def _copy(
    response: http.client.HTTPResponse, stream: IO[bytes], begun: int, size: int, line: _Line
) -> int:
    """Copy an answer to a file that holds ``begun`` bytes; return how many it holds then."""
    arrived = begun
    while chunk := line.read(response):
        arrived += len(chunk)
        if arrived > size:
            raise _TooLong
        stream.write(chunk)
    return arrived


class _Line:
    """The connection to a server, which is cut when the time is up, whatever it waits for."""

    def __init__(self, seconds: float, plain_hosts: Collection[str]) -> None:
        self._seconds = seconds
        self._plain_hosts = plain_hosts
        self._sockets: list[socket.socket] = []
        self._over = threading.Event()
        self._timer = threading.Timer(seconds, self._cut)

    def __enter__(self) -> _Line:
        self._timer.daemon = True
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._timer.join()
        for connected in self._sockets:
            connected.close()

    def _cut(self) -> None:
        self._over.set()
        for connected in list(self._sockets):
            _shut(connected)

    def note(self, connected: socket.socket) -> None:
        """Cut this connection, too, when the time is up, which it may be already."""
        self._sockets.append(connected.dup())  # TLS takes the socket itself over
        if self._over.is_set():
            _shut(connected)

    def open(self, url: str, begun: int) -> http.client.HTTPResponse:
        """Ask for a file, from a byte on; of one without that byte, for the whole."""
        opener = urllib.request.build_opener(_Redirects(self), *_handlers(self.note))
        try:
            with self._told():
                self.require_encrypted(url)
                request = urllib.request.Request(url, headers=_HEADERS)
                if begun:
                    request.add_header("Range", f"bytes={begun}-")
                response: http.client.HTTPResponse = opener.open(request, timeout=SILENCE_SECONDS)
        except _Failed as failure:
            cause = failure.__cause__
            too_far = http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE
            if begun and isinstance(cause, urllib.error.HTTPError) and cause.code == too_far:
                return self.open(url, 0)
            raise
        return response

    def read(self, response: http.client.HTTPResponse) -> bytes:
        """Return what has arrived, at least one byte; b"" at the end."""
        with self._told():
            return response.read1(_CHUNK)

    def require_encrypted(self, url: str) -> None:
        """Refuse an address, or where it redirects to, that is not https."""
        parts = urllib.parse.urlsplit(url)
        allowed = parts.scheme == "http" and parts.hostname in self._plain_hosts
        if parts.scheme != "https" and not allowed:
            raise _Failed(f"{url} is not https")

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Turn what a network does into :class:`_Failed`."""
        try:
            yield
        except (OSError, http.client.HTTPException, ValueError) as error:
            if isinstance(error, urllib.error.HTTPError):
                error.close()
            if not self._over.is_set():
                raise _Failed(str(error).strip() or type(error).__name__) from error
        if self._over.is_set():
            raise _Failed(f"not done after {self._seconds:.0f} s; run again to go on")


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects to https only."""

    def __init__(self, line: _Line) -> None:
        self._line = line

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        """Return the request to follow with, if its address is a safe one."""
        try:
            self._line.require_encrypted(newurl)
        except _Failed:
            fp.close()
            raise
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _shut(connected: socket.socket) -> None:
    with contextlib.suppress(OSError):  # the server was faster
        connected.shutdown(socket.SHUT_RDWR)


def _handlers(note: Callable[[socket.socket], None]) -> list[urllib.request.BaseHandler]:
    """Return handlers of http and https that tell of the sockets they open."""

    class Plain(http.client.HTTPConnection):
        def connect(self) -> None:
            super().connect()
            note(self.sock)

    class Encrypted(http.client.HTTPSConnection, Plain):  # which connects, then encrypts
        pass

    class PlainHandler(urllib.request.HTTPHandler):
        def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
            return self.do_open(Plain, req)

    class EncryptedHandler(urllib.request.HTTPSHandler):
        def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
            return self.do_open(Encrypted, req)

    return [PlainHandler(), EncryptedHandler()]
