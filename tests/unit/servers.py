"""Web servers of this machine, for tests of downloads."""

from __future__ import annotations

import contextlib
import functools
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

Server = TypeVar("Server", bound=http.server.HTTPServer)


@contextlib.contextmanager
def listening(server: Server) -> Iterator[Server]:
    """Let a server answer for a while."""
    with server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Serve the files of a folder for a while; yield their address."""
    handler = functools.partial(_Quiet, directory=folder)
    with listening(http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)) as server:
        yield f"http://127.0.0.1:{server.server_port}/"
