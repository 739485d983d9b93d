"""Starts commands at once: a process that has imported everything forks one for each order.

Orders are lines of JSON on the standard input, answers are lines on the standard output:
``{"start": {...}}`` is answered with the id of a new process, which is the leader of a session of
its own, ``{"wait": id}`` with its exit status, negative for a signal, once it has ended.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import sys
from typing import Any

import fedrepro.report.artefacts
import fedrepro.report.generic
import fedrepro.report.html.site
import fedrepro.report.recorded
import fedrepro.report.style
import fedrepro.runs.session
import fedrepro.runs.transfer
import fedrepro.runs.verify
from fedrepro import cli


def serve() -> dict[str, Any]:
    """Carry out orders; return the one to be done, in the process that is to do it."""
    for line in sys.stdin:
        order = json.loads(line)
        if "wait" in order:
            _, status = os.waitpid(order["wait"], 0)
            print(os.waitstatus_to_exitcode(status), flush=True)
            continue
        process = os.fork()
        if not process:
            return dict(order["start"])
        print(process, flush=True)
    sys.exit()


def become(
    folder: str, environment: dict[str, str], said: str, most_bytes: int | None, user: int | None
) -> None:
    """Make this process one that was started in a folder, with its output going to a file."""
    os.setsid()
    os.chdir(folder)
    os.environ.update(environment)
    nothing = os.open(os.devnull, os.O_RDONLY)
    out = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for target, source in ((0, nothing), (1, out), (2, out)):
        os.dup2(source, target)
    if most_bytes is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
    if user is not None:
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)


if __name__ == "__main__":
    gc.freeze()  # what is imported is never looked through, nor copied for that
    task = serve()
    arguments = task.pop("arguments")
    become(**task)
    status = cli.main([os.fsdecode(bytes.fromhex(word)) for word in arguments])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # to take down what was imported takes longer than most commands
