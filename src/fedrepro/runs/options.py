"""What ``fedrepro train`` can be told, described once.

The command line of :mod:`fedrepro.cli` and the plain one of ``python -m fedrepro.runs`` are both
made from :class:`TrainArguments`. This module imports no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from fedrepro.base.files import named
from fedrepro.fl.engine import BackendName, CompileChoice
from fedrepro.runs.plan_schema import Scale


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(f"{text}: must be at least 1")
    return number


def _seconds(text: str) -> float:
    number = float(text)
    if not 0 < number < float("inf"):
        raise ValueError(f"{text}: must be a positive number of seconds")
    return number


def _pause(text: str) -> float:
    number = float(text)
    if not 0 <= number < float("inf"):
        raise ValueError(f"{text}: must be a number of seconds, or 0")
    return number


@dataclass(frozen=True)
class Says:
    """What is said of an option.

    Attributes:
        help: what it is for.
        metavar: what stands for its value.
        read: makes a value of a text, or raises ValueError; None: what its type says.
        hidden: whether it is for our own processes only.
    """

    help: str
    metavar: str | None = None
    read: Callable[[str], Any] | None = None
    hidden: bool = False


@dataclass(frozen=True, kw_only=True)
class TrainArguments:
    """Train runs and write their records.

    Writes results/runs/ID.json for each run that has no record yet. Runs with a record are left
    alone: delete the record to train a run again. Killed runs go on from their last checkpoint.
    Several processes may work on the same list: what another one trains is left to it with
    --pending, and waited for where ids are given.
    """

    runs: Annotated[
        Sequence[str],
        Says("Run ids, as `fedrepro status --list` shows them, or plans of one's own.", "ID"),
    ] = ()
    pending: Annotated[bool, Says("All planned runs without a record.")] = False
    paper: Annotated[
        str | None,
        Says(
            "Only the runs of this paper, or study of our own (precision); default: all papers.",
            "P",
        ),
    ] = None
    scale: Annotated[Scale | None, Says("The plan's scale; default: all.")] = None
    device: Annotated[
        str,
        Says(
            "cpu, cuda for all GPUs (a process each, which share the runs), or one of them, such "
            "as cuda:1; default: cpu.",
            "DEVICE",
        ),
    ] = "cpu"
    backend: Annotated[
        BackendName,
        Says(
            "How lanes are trained: one after another, over worker processes, or as CUDA graphs; "
            "default: auto, whatever is fastest."
        ),
    ] = "auto"
    workers: Annotated[
        int | None, Says("Worker processes of the pool; default: one per core.", "N", _positive)
    ] = None
    compile: Annotated[
        CompileChoice,
        Says(
            "Whether networks are compiled on a GPU, which takes a while and is faster then; "
            "default: auto, where that pays and there is a compiler."
        ),
    ] = "auto"
    deterministic: Annotated[
        bool, Says("On a GPU use only operations that give the same bits each time; slower.")
    ] = False
    in_flight: Annotated[
        int | None,
        Says("Runs open at once on a device; default: as many as keep it busy.", "N", _positive),
    ] = None
    time_budget: Annotated[
        float | None,
        Says(
            "Stop after so many seconds, with checkpoints of the runs in flight. On a CPU no run "
            "is started that cannot finish a round in time; on a GPU runs that can end in time "
            "come first.",
            "S",
            _seconds,
        ),
    ] = None
    deadline: Annotated[
        float | None,
        Says("The time budget's end, by time.monotonic().", read=_seconds, hidden=True),
    ] = None
    out: Annotated[
        Path | None,
        Says(
            "Also write the new records and checkpoints to one file, for `records import`; adds to "
            "what is in it.",
            "FILE.tar",
            named,
        ),
    ] = None
    shared: Annotated[
        str | None,
        Says(
            "Share the runs with other machines through a folder or bucket, any address of fsspec: "
            "runs that another machine has trained or is training are left to it, and new records "
            "go there at once.",
            "ADDRESS",
        ),
    ] = None
    checkpoint_seconds: Annotated[
        float,
        Says(
            "Least time between two checkpoints of a run; 0: after every round; default: 30.",
            "S",
            _pause,
        ),
    ] = 30.0
    data_root: Annotated[
        Path | None, Says("Folder of packed data; default: $FEDREPRO_DATA.", "DIR", named)
    ] = None
    allow_other_data: Annotated[
        bool,
        Says(
            "Also train on data whose content differs from the data set's description. Such runs "
            "have ids and records of their own, which no table, figure or verdict uses."
        ),
    ] = False


@dataclass(frozen=True)
class Described:
    """One field of :class:`TrainArguments`, for whoever makes a command line of them.

    Attributes:
        name: of the field; its option is ``--name``, with ``-`` for ``_``.
        type: without ``None``.
        optional: whether it may be None.
        default: where the option is not given.
        says: what is said of it.
    """

    name: str
    type: Any
    optional: bool
    default: Any
    says: Says

    @property
    def flag(self) -> str:
        """How the option is written."""
        return "--" + self.name.replace("_", "-")


def described() -> Iterator[Described]:
    """Yield the fields of :class:`TrainArguments` in order; ``runs`` is the first."""
    hints = get_type_hints(TrainArguments, include_extras=True)
    for each in fields(TrainArguments):
        hint, says = get_args(hints[each.name])
        optional = get_origin(hint) in (Union, UnionType)
        kind = get_args(hint)[0] if optional else hint
        yield Described(each.name, kind, optional, each.default, says)


def words(arguments: TrainArguments) -> list[str]:
    """Return the command line that says the same."""
    given = []
    for option in described():
        value = getattr(arguments, option.name)
        if value == option.default or option.name == "runs":
            continue
        given.append(option.flag if value is True else f"{option.flag}={value}")
    return [*given, *arguments.runs]
