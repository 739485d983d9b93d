"""What a training can be told, described once.

Programs give :class:`TrainOptions`. The command line of :mod:`fedrepro.cli` and the plain one of
``python -m fedrepro.runs`` are both made from :class:`TrainArguments`, which adds what is to be
trained. This module imports no torch.
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

CHECKPOINTS = Path(".checkpoints")


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
class _Chosen:
    """Which runs are trained."""

    runs: Annotated[
        Sequence[str],
        Says(
            "Ids of runs, as `fedrepro status --list` shows them, or files of your own plans, such "
            "as my-plan.yaml.",
            "ID",
        ),
    ] = ()
    pending: Annotated[bool, Says("Train all planned runs that have no record.")] = False
    paper: Annotated[
        str | None,
        Says(
            "Only runs of this paper, such as emd, of the study precision, or of a plan of your "
            "own; default: all five papers.",
            "P",
        ),
    ] = None
    scale: Annotated[
        Scale | None,
        Says(
            "Only runs at this scale; default: all, the published one (paper) first; for a plan of "
            "your own: lite."
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """How runs are trained; none of it changes their identity.

    Fields that are options of the command line say what they are for in their annotation.

    Attributes:
        checkpoints: folder of the checkpoints, and of the locks on runs.
        wait: whether to wait for runs that another process trains, and to take over those that it
            gives up.
        say_failures: whether to say of a run that it failed, and why, before the end, which says so
            of all that did.
        keep_weights: whether to write the trained model of each run beside its record.
    """

    device: Annotated[
        str,
        Says(
            "cpu; cuda: all GPUs, with one process each; cuda:1: one of them; default: cpu.",
            "DEVICE",
        ),
    ] = "cpu"
    backend: Annotated[
        BackendName,
        Says(
            "loop: models are trained one after another; pool: in several processes; graphs: as "
            "CUDA graphs; default: auto, which takes the fastest for the device."
        ),
    ] = "auto"
    workers: Annotated[
        int | None, Says("Processes of the pool; default: one per core.", "N", _positive)
    ] = None
    compile: Annotated[
        CompileChoice,
        Says(
            "Whether to compile networks on a GPU, which takes a while and then trains faster; "
            "default: auto, if that pays off and there is a C compiler."
        ),
    ] = "auto"
    deterministic: Annotated[
        bool, Says("On a GPU, use only operations that give the same bits each time; slower.")
    ] = False
    in_flight: Annotated[
        int | None,
        Says(
            "Most runs in training at once; default: as many as keep the device busy.",
            "N",
            _positive,
        ),
    ] = None
    time_budget: Annotated[
        float | None,
        Says(
            "Stop after S seconds, with checkpoints of the unfinished runs. On a CPU, no run is "
            "started that cannot finish a round in time; on a GPU, runs that can end in time come "
            "first.",
            "S",
            _seconds,
        ),
    ] = None
    out: Annotated[
        Path | None,
        Says(
            "Also collect new records and checkpoints in this file, for `fedrepro records import`, "
            "and what is recorded already of runs or plans that are named; what it holds is kept.",
            "FILE.tar",
            named,
        ),
    ] = None
    shared: Annotated[
        str | None,
        Says(
            "Share the work with other machines through a folder or bucket (any address that "
            "fsspec knows): runs that another machine has trained or is training are left to it, "
            "and new records are put there at once.",
            "ADDRESS",
        ),
    ] = None
    checkpoint_seconds: Annotated[
        float,
        Says(
            "Least seconds between two checkpoints of a run; 0: after every round; default: 30.",
            "S",
            _pause,
        ),
    ] = 30.0
    data_root: Annotated[
        Path | None,
        Says(
            "Folder of packed data (`fedrepro data pack`); default: $FEDREPRO_DATA.", "DIR", named
        ),
    ] = None
    checkpoints: Path = CHECKPOINTS
    wait: bool = False
    say_failures: bool = True
    keep_weights: bool = False


@dataclass(frozen=True, kw_only=True)
class TrainArguments(TrainOptions, _Chosen):  # in the order of --help, _Chosen is first
    """Train runs that have no record, and write their records.

    Name the runs by their ids, give the file of a plan of your own, or say --pending. The record of
    a run is results/runs/ID.json, or results/own/runs/ID.json for your own plans and the scales
    quick and smoke. A run with a record is not trained: to repeat it, delete its record. A killed
    run resumes from its last checkpoint. Several processes may train at the same time: with
    --pending, each skips the runs that another one is training; with ids, it waits for them.
    """

    deadline: Annotated[
        float | None,
        Says("The time budget's end, by time.monotonic().", read=_seconds, hidden=True),
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
    """An option of :class:`TrainArguments`, for whoever makes a command line of them.

    Attributes:
        name: of the field; the option is ``--name``, with ``-`` for ``_``.
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
    """Yield the options of :class:`TrainArguments` in order; ``runs`` is the first."""
    hints = get_type_hints(TrainArguments, include_extras=True)
    for each in fields(TrainArguments):
        if get_origin(hints[each.name]) is not Annotated:
            continue  # for programs alone
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
