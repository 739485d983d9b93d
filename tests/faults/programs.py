"""Commands of fedrepro in processes of their own, which can be killed, and what they said."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]
LONGEST = 300.0
"""Seconds after which a command hangs."""


@dataclass(frozen=True)
class Ended:
    """A command that has ended: its exit status, negative for a signal, and its output."""

    status: int
    said: str

    @property
    def crashed(self) -> bool:
        """Whether it ended in a way that is for programmers: a traceback, or a signal."""
        return "Traceback (most recent call last)" in self.said or self.status not in (0, 1, 2)

    @property
    def refused(self) -> bool:
        return not self.crashed and self.status in (1, 2)


class Running:
    """A command that was started."""

    def __init__(self, server: Server, process: int, said: Path) -> None:
        self.process = process
        self._server = server
        self._said = said

    def send(self, number: int, *, all_processes: bool = False) -> None:
        """Send a signal, to all processes of its session if wanted; none if it has ended."""
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if all_processes else os.kill)(self.process, number)

    def wait(self) -> Ended:
        """Wait for its end; a command that hangs is killed, and its status is that of SIGKILL."""
        alarm = threading.Timer(LONGEST, lambda: self.send(signal.SIGKILL, all_processes=True))
        alarm.start()
        try:
            status = int(self._server.ask({"wait": self.process}))
        finally:
            alarm.cancel()
        return Ended(status, self._said.read_text(errors="replace"))


class Server:
    """Runs ``fedrepro`` without waiting for its imports (:mod:`server`)."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        os.chmod(self._folder.name, 0o777)
        self._count = 0
        others = {k: v for k, v in os.environ.items() if not k.startswith("FEDREPRO_")}
        self.environment = others | {
            "PYTHONPATH": str(REPOSITORY / "src"),
            "FEDREPRO_ROOT": str(REPOSITORY),
            "OMP_NUM_THREADS": "1",
            "MPLCONFIGDIR": self._folder.name,
        }
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("server.py"))],
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, order: dict[str, Any]) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(order), file=self._process.stdin, flush=True)
        return self._process.stdout.readline()

    def start(
        self,
        folder: Path,
        *arguments: str,
        most_bytes: int | None = None,
        modest: bool = False,
        saves: int | None = None,
        **environment: str,
    ) -> Running:
        """Start a command.

        Args:
            folder: the working directory.
            arguments: of ``fedrepro``.
            most_bytes: that a file may have, if there is such a limit.
            modest: whether it may write only where its user may, even if that is root.
            saves: after so many checkpoints it kills itself, if there is such a limit.
            environment: variables beside those of the server.
        """
        self._count += 1
        said = Path(self._folder.name, f"{self._count}.txt")
        order = {
            "arguments": [os.fsencode(word).hex() for word in arguments],
            "folder": str(folder),
            "environment": environment,
            "said": str(said),
            "most_bytes": most_bytes,
            "modest": modest,
            "saves": saves,
        }
        return Running(self, int(self.ask({"start": order})), said)

    def run(self, folder: Path, *arguments: str, **how: Any) -> Ended:
        """Run a command to its end; see :meth:`start`."""
        return self.start(folder, *arguments, **how).wait()

    def close(self) -> None:
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()
        self._folder.cleanup()
