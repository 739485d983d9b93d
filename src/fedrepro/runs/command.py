"""What commands on runs have in common: which runs are meant, and how a command ends."""

from __future__ import annotations

import difflib
import os
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from fedrepro.base.configfile import yaml_files
from fedrepro.base.errors import DeviceFailed, FedreproError
from fedrepro.base.paths import MARKER, require_place, root
from fedrepro.runs.plan import PlannedRun, expand, load_plan, scales, unique
from fedrepro.runs.plan_files import argument, papers, plans, use_plans
from fedrepro.runs.plan_schema import SCALES, Scale
from fedrepro.runs.stopping import signal_of

_MOST_IDS = 5
"""Ids that an error lists."""


def open_streams() -> None:
    """Let standard streams that were closed (``>&-``) lead nowhere, as Python's are then None.

    A file that is opened next would get the number of one, and what libraries write to that.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
            setattr(sys, name, os.fdopen(nowhere, mode))


def carry_out(work: Callable[[], int | None], *, unread: int = 1) -> int:
    """Do the work of a command; user errors are one message, no traceback.

    Where the device is lost, the process ends here.

    Args:
        work: returns the exit status; None: 0.
        unread: the exit status where the reader of the output has gone, which ends the work.

    Returns:
        The exit status.
    """
    try:
        require_place()
        status = work()
        sys.stdout.flush()
    except FedreproError as error:
        print(f"fedrepro: {error}", file=sys.stderr)
        if isinstance(error, DeviceFailed):
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(1)
        return 1
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # it is flushed at the end
        return unread
    except OSError as error:  # of files that no command is expected to fail at
        print(f"fedrepro: {told(error)}", file=sys.stderr)
        return 1
    except MemoryError as error:
        reason = str(error) or "it is used up"
        print(
            f"fedrepro: not enough memory ({reason}); end other programs, or use a machine that "
            "has more, then run again",
            file=sys.stderr,
        )
        return 1
    except KeyboardInterrupt as interrupt:
        number = signal_of(interrupt)
        how = "interrupted" if number == signal.SIGINT else f"stopped by {number.name}"
        notes = getattr(interrupt, "__notes__", [])  # what to do about what was interrupted
        print("; ".join([f"fedrepro: {how}", *notes]), file=sys.stderr)
        return 128 + number
    return status or 0


def told(error: OSError) -> str:
    """Say what the system refused, and of which file."""
    reason = error.strerror or str(error) or type(error).__name__
    files = [os.fspath(file) for file in (error.filename, error.filename2) if file is not None]
    return (
        f"{' -> '.join(map(str, files)) or 'the system refuses'}: {reason}; check that it is a "
        "file or folder of the kind that is meant, that it may be used and that there is room"
    )


def known_paper(name: str) -> str:
    """Return the slug of a paper, of a study of our own, or of the plan of one's own in a file.

    A name that a plan has is that plan, whatever folder is called so.

    Raises:
        FedreproError: there is no such plan, it is not valid, or a folder holds several.
    """
    if name not in plans() and is_plan(name):
        found = use_plans(name)
        if len(found) > 1:
            raise FedreproError(f"{name}: holds the plans {', '.join(found)}; give the file of one")
        (name,) = found
    load_plan(name)
    return name


def is_plan(name: str) -> bool:
    """Return whether an argument is a plan of one's own, or a folder of them, not a name or id."""
    return name != "" and (Path(name).suffix in (".yaml", ".yml") or Path(name).is_dir())


def all_papers() -> list[str]:
    """Return the slugs of all papers, for a command that does something with each.

    Raises:
        FedreproError: there is none, so the command would do nothing and end well; or one of those
            with published values has no plan, so the command would pass it over.
    """
    found = papers()
    if not found:
        raise FedreproError(
            f"{root() / MARKER}: no plan of a paper is there, or none with published values in "
            "config/expected; restore these files with git, or name a plan of your own"
        )
    for file in yaml_files(root() / "config/expected"):
        if file.stem not in found:
            raise FedreproError(
                f"{root() / MARKER / file.name}: missing, and {file} is there; restore the plan "
                "with git, or remove both"
            )
    return found


def selected(paper: str | None, scale: Scale | None, *, studies: bool = False) -> list[PlannedRun]:
    """Return the distinct planned runs of a paper and scale, in priority order.

    Args:
        paper: slug; None: all papers.
        scale: None: all scales that a plan has.
        studies: without a paper, also the runs of studies of our own.

    Raises:
        FedreproError: there is no plan at all, or as :func:`fedrepro.runs.plan.expand`.
    """
    names = [paper] if paper else plans() if studies else []
    names = names or all_papers()
    planned = [
        run
        for each in ([scale] if scale else SCALES)
        for name in names
        if scale or each in scales(name)
        for run in expand(name, each)
    ]
    return list(unique(planned).values())


def unknown_run(
    name: str,
    known: Iterable[str],
    has: str = "has an id that begins with",
    *,
    paper: str | None = None,
    scale: Scale | None = None,
) -> FedreproError:
    """Return the error of an id that no planned run has: the nearest ids, and what has them all.

    Args:
        name: an id, or how one begins.
        known: ids of all runs that could be meant.
        has: what none of them does with the name.
        paper: whose runs they are; None: of any.
        scale: of the runs; None: any.
    """
    ids = list(known)
    by_start: dict[str, list[str]] = {}
    for run_id in ids:
        by_start.setdefault(run_id[: len(name)], []).append(run_id)
    starts = difflib.get_close_matches(name, by_start, n=3)
    near = [run_id for start in starts for run_id in by_start[start]][:3]
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    whose = (f" of {paper}" if paper else "") + (f" at scale {scale}" if scale else "")
    options = (f" --paper {argument(paper)}" if paper else "") + (
        f" --scale {scale}" if scale else ""
    )
    return FedreproError(
        f"no planned run{whose} {has} '{name}'; {hint}`fedrepro status{options} --list` shows the "
        f"ids{'' if scale else ' of a scale'}"
    )


def ambiguous(name: str, ids: Sequence[str]) -> str:
    """Say that several runs have ids that begin so, and which."""
    such = ", such as " if len(ids) > _MOST_IDS else ": "
    return f"'{name}' begins the ids of {len(ids)} runs{such}{', '.join(ids[:_MOST_IDS])}"
