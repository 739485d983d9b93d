"""Starts commands at once: a process that has imported everything forks one for each order.

Orders are lines of JSON on the standard input, answers are lines on the standard output:
``{"start": {...}}`` is answered with the id of a new process, once that is the leader of a session
of its own, ``{"wait": id}`` with its exit status, negative for a signal, once it has ended.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import itertools
import json
import os
import resource
import signal
import subprocess
import sys
from typing import Any

from fedrepro import cli
from fedrepro.fl.engine import checkpoint

USED = [
    *("fl.data.commands", "report.drawings", "report.generic", "report.recorded"),
    *("report.html.site", "report.trace", "runs.session", "runs.verify"),
]
"""What commands import once they run."""

MOST_MEMORY = 8 << 30
"""Bytes that a command may ask for: what asks for all there is fails by itself."""


def serve() -> dict[str, Any]:
    """Carry out orders; return the one to be done, in the process that is to do it."""
    for line in sys.stdin:
        order = json.loads(line)
        if "wait" in order:
            _, status = os.waitpid(order["wait"], 0)
            print(os.waitstatus_to_exitcode(status), flush=True)
            continue
        begun, begin = os.pipe()
        process = os.fork()
        if not process:
            return order["start"] | {"begin": begin}
        os.close(begin)
        os.read(begun, 1)
        os.close(begun)
        print(process, flush=True)
    sys.exit()


def become(
    folder: str, environment: dict[str, str], said: str, most_bytes: int | None, modest: bool
) -> subprocess.Popen[bytes] | None:
    """Make this process one that was started in a folder, with its output going to a file.

    Returns:
        The process that writes its output, where files that it writes itself cannot get large.
    """
    os.setsid()
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))
    os.chdir(folder)
    os.environ.update(environment)
    nothing = os.open(os.devnull, os.O_RDONLY)
    out = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    writer = None
    if most_bytes is not None:
        writer = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=out)
        assert writer.stdin is not None
        out = writer.stdin.detach().fileno()
        resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
    for target, source in ((0, nothing), (1, out), (2, out)):
        os.dup2(source, target)
    os.close(out)
    if modest and not os.geteuid():
        _give_up_rights()
    return writer


def _give_up_rights() -> None:
    """Give up the rights of root to write and read where nobody may (see ``capabilities(7)``)."""
    libc = ctypes.CDLL(None, use_errno=True)
    version, rights = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    libc.capget(version, rights)
    for each in range(3):
        rights[each] &= ~0b110
    if libc.capset(version, rights):
        raise OSError(ctypes.get_errno(), "capset")


def die_after(saves: int) -> None:
    """Let this process kill itself once it has written so many checkpoints."""
    save, left = checkpoint.save, itertools.count(saves - 1, -1)

    def save_and_die(*arguments: Any) -> None:
        save(*arguments)
        if not next(left):
            os.kill(os.getpid(), signal.SIGKILL)

    checkpoint.save = save_and_die


if __name__ == "__main__":
    for module in USED:
        importlib.import_module(f"fedrepro.{module}")
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback but the command's
    gc.freeze()  # what is imported is never looked through, nor copied for that
    task = serve()
    arguments, saves, begin = (task.pop(name) for name in ("arguments", "saves", "begin"))
    if saves is not None:
        die_after(saves)
    writer = become(**task)
    words = [os.fsdecode(bytes.fromhex(word)) for word in arguments]
    os.close(begin)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    status = cli.main(words)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.stdout.flush()
    sys.stderr.flush()
    if writer is not None:
        os.closerange(1, 3)
        writer.wait()
    os._exit(status)  # to take down what was imported takes longer than most commands
