"""Run records: the committed results of training, and the source of every number.

``results/runs/<run id>.json`` holds the spec and component versions (from which the id is derived
again on reading), per-round metrics, the final evaluation, the partition's class counts, and where
the numbers come from. Floats have 6 significant digits; in class counts a negative number ``-k``
stands for ``k`` zeros in a row. A record is written to a temporary name and, once it is on the
disk, moved into place; a checksum over its content makes a damaged or edited file an error.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field, ValidationError, field_validator, model_validator

from fedrepro.base.errors import BadFile, FedreproError, unread
from fedrepro.base.files import write_bytes
from fedrepro.base.strict import Strict, first_problem
from fedrepro.fl.data import registry
from fedrepro.fl.partition import statistics
from fedrepro.fl.spec import RunSpec, canonical_json, identity

SCHEMA = 2
"""Of the records written; 1 has class counts in full, and the EMDs beside them."""
FOLDER = Path("results/runs")
"""Where records lie, relative to the working directory."""
OWN_FOLDER = Path("results/own/runs")
"""Where records lie that are not committed: of the user's own plans, and of small scales."""
_MOST_COUNTS = 10**8
"""Most class counts of a partition: runs of zeros of a damaged file must not fill the memory."""


class PartitionRecord(Strict):
    """The partition a run trained on.

    Attributes:
        counts: examples of each class, [clients][classes]; read as :func:`shortened` writes them.
        sha256: digest of the index lists.
    """

    counts: list[list[int]]
    sha256: str

    @model_validator(mode="before")
    @classmethod
    def _without_emd(cls, content: Any) -> Any:
        """Leave out what schema 1 has and the counts say."""
        if not isinstance(content, dict):
            return content
        return {key: value for key, value in content.items() if key != "emd"}

    @field_validator("counts")
    @classmethod
    def _in_full(cls, counts: list[list[int]]) -> list[list[int]]:
        if sum(max(1, -count) for row in counts for count in row) > _MOST_COUNTS:
            raise ValueError(f"more than {_MOST_COUNTS:,} counts")
        rows = [[n for count in row for n in ([0] * -count or [count])] for row in counts]
        if len(set(map(len, rows))) != 1:
            raise ValueError("clients have different numbers of classes, or there are none")
        if not all(map(sum, rows)):
            raise ValueError("a client has no examples")
        return rows

    @functools.cached_property
    def emd(self) -> list[float]:
        """EMD of each client, as :func:`fedrepro.fl.partition.statistics.emd`, 6 digits of it."""
        found: list[float] = rounded(statistics.emd(np.array(self.counts)).tolist())
        return found


class Origin(Strict):
    """What a process trained with: its code, libraries and machine.

    Attributes:
        commit: of the code, or ``unknown``.
        dirty: whether files of the code or its configuration differed from the commit, or were not
            in it.
        fedrepro: version of the package, as are ``python``, ``torch`` and ``numpy`` of theirs.
        backend: name of the backend.
        compile: whether networks were compiled.
        deterministic: whether a GPU used only kernels that give the same bits each time.
        device: name of the processor or the GPU.
        threads: compute threads of PyTorch.
        arithmetic: on a processor, the code that PyTorch and its libraries take; empty: unknown.
        host: operating system, architecture and number of cores.
    """

    commit: str
    dirty: bool
    fedrepro: str
    python: str
    torch: str
    numpy: str
    backend: str
    compile: bool = False
    deterministic: bool = False
    device: str
    device_type: Literal["cpu", "cuda"] = "cpu"
    threads: int
    arithmetic: str = ""
    host: str


class Part(Origin):
    """Rounds of a run that had another origin than its last ones, and the seconds they took."""

    rounds: int
    seconds: float


class Provenance(Origin):
    """Where a record's numbers come from; none of it enters the identity.

    Attributes:
        started: when the process that ended the run began, ISO 8601.
        seconds: time spent on the run by all processes.
        earlier: the parts before the last one, if the run was resumed with another origin.
        imported: the first rounds, if they come from a checkpoint that was imported: what that says
            of the machines that trained them, which nothing here can prove.
        idle_clients: the most clients of a round that took no step, as they hold less than a
            batch, among the rounds of the process that ended the run; a client without a step
            counts in ``train_loss`` as 0.
        packages: component -> name and version of the distribution, if it is not fedrepro's.
        dataset_source: as in :class:`fedrepro.fl.data.Dataset`, like the two below.
    """

    started: str
    seconds: float
    earlier: tuple[Part, ...] = ()
    imported: tuple[Part, ...] = ()
    idle_clients: int = 0
    packages: dict[str, str] = Field(default={})
    dataset_source: str
    dataset_sha256: str
    dataset_note: str = ""


class RunRecord(Strict):
    """A finished run.

    Attributes:
        spec: as of :func:`fedrepro.fl.spec.spec_dict`.
        versions: of the components that the run used.
        metrics: name -> one number for each round, or for each of ``evaluated_rounds``; accuracies
            are fractions.
        final: the last evaluation and the algorithm's summary.
        checksum: as of :func:`checksum`.
    """

    schema_version: Literal[1, 2]
    run_id: str
    status: Literal["complete"]
    spec: dict[str, Any]
    versions: dict[str, int | str]
    metrics: dict[str, list[float]]
    final: dict[str, Any]
    partition: PartitionRecord
    provenance: Provenance
    checksum: str

    def curve(self, metric: str) -> dict[int, float]:
        """Return round -> value of a metric, whether it is logged every round or when evaluated.

        Raises:
            KeyError: the run logs no such metric.
        """
        values, evaluated = self.metrics[metric], self.metrics.get("evaluated_rounds", [])
        rounds = evaluated if len(values) == len(evaluated) else range(1, len(values) + 1)
        return dict(zip(map(int, rounds), values, strict=True))

    @property
    def plugins(self) -> dict[str, str]:
        """Distribution -> its version, of those that brought components of the run."""
        prefix = "plugin."
        return {
            name.removeprefix(prefix): str(version)
            for name, version in self.versions.items()
            if name.startswith(prefix)
        }

    @property
    def components(self) -> dict[str, str]:
        """Component -> its version, with the package that it is from, if it is not fedrepro's.

        Older records do not say which component a package brought: there it has its own entry.
        """
        packages = self.provenance.packages
        found = {name: str(version) for name, version in self.versions.items()}
        if packages:
            found = {k: v for k, v in found.items() if not k.startswith("plugin.")}
        for name, package in packages.items():
            found[name] = f"{found.get(name, 1)} of {package}"
        return found

    def typed_spec(self) -> RunSpec:
        """Return the spec as a model."""
        return RunSpec.model_validate(self.spec)


def path_of(run_id: str, folder: Path = FOLDER) -> Path:
    """Return the file of a run's record."""
    return folder / f"{run_id}.json"


def rounded(value: Any) -> Any:
    """Return the value with all floats in it rounded to 6 significant digits."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(item) for item in value]
    return value


def shortened(counts: list[list[int]]) -> list[list[int]]:
    """Return class counts, [clients][classes], with ``-k`` in place of ``k > 1`` zeros in a row."""
    rows = []
    for row in counts:
        rows.append(short := list[int]())
        for held, group in itertools.groupby(row, key=bool):
            run = list(group)
            short += run if held or len(run) == 1 else [-len(run)]
    return rows


def checksum(content: dict[str, Any]) -> str:
    """Return the SHA-256, hexadecimal, of a record's content without its own checksum."""
    rest = {key: value for key, value in content.items() if key != "checksum"}
    return hashlib.sha256(canonical_json(rest).encode()).hexdigest()


def write(content: dict[str, Any], folder: Path = FOLDER) -> Path:
    """Write a record atomically; its checksum is added here.

    Args:
        content: the fields of :class:`RunRecord` but for ``checksum``, as plain JSON values;
            class counts in full.
        folder: where to.

    Returns:
        Its file.

    Raises:
        FedreproError: the file cannot be written (no space left, say); nothing is left behind.
    """
    exact = ("spec", "versions")  # the identity is derived from these again
    plain = {key: value if key in exact else rounded(value) for key, value in content.items()}
    plain["partition"]["counts"] = shortened(plain["partition"]["counts"])
    plain = json.loads(canonical_json(plain))  # keys are text, as they are read again
    plain["checksum"] = checksum(plain)
    record = RunRecord.model_validate(plain)
    file = path_of(record.run_id, folder)
    write_bytes(file, _dump(plain).encode(), durable=True)  # its checkpoint is deleted afterwards
    return file


def _dump(value: Any, indent: int = 0) -> str:
    """Return JSON with sorted keys, one key a line, and lists of numbers on one line."""
    if isinstance(value, dict) and value:
        space = " " * (indent + 1)
        lines = [f"{space}{json.dumps(k)}: {_dump(value[k], indent + 1)}" for k in sorted(value)]
        body = "{\n" + ",\n".join(lines) + "\n" + " " * indent + "}"
    else:
        body = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return body if indent else body + "\n"


def is_recorded(run_id: str, folder: Path = FOLDER) -> bool:
    """Return whether a run has a valid record.

    Raises:
        FedreproError: there is a file under this id, but it is damaged, edited or of another run.
    """
    return training_time(run_id, folder) is not None


@dataclass(frozen=True)
class TrainingTime:
    """The time that a run took, and on what.

    Attributes:
        seconds: of training, by all processes.
        gpu: whether they are seconds of a GPU rather than of CPU cores.
        device: name of the processor or the GPU.
        backend: that trained it, perhaps one that is no longer there.
    """

    seconds: float
    gpu: bool
    device: str
    backend: str


def training_time(run_id: str, folder: Path = FOLDER) -> TrainingTime | None:
    """Return what a run took, or None if it has no record; the record is verified.

    Raises:
        FedreproError: there is a file under this id, but it is damaged, edited or of another run.
    """
    file = path_of(run_id, folder)
    content = _content(file)
    return None if content is None else _took(content, file)


def _content(file: Path) -> bytes | None:
    """Return what is in a record's file, or None if there is no file."""
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return None
    except NotADirectoryError as error:
        raise FedreproError(
            f"{file}: a file is where a folder of it would be; move that away"
        ) from error
    except IsADirectoryError as error:
        raise _not_whole(file, error) from error
    except OSError as error:  # the record may be whole
        raise unread(file, error) from error


def _bad(file: Path, problem: str) -> BadFile:
    cure = "delete it to train the run again, or restore it with git or from a copy"
    return BadFile(file, problem, cure)


def _not_whole(file: Path, error: Exception) -> BadFile:
    return _bad(file, f"not a whole run record ({type(error).__name__}: {error})")


@functools.lru_cache(maxsize=8192)  # by content: judging a paper asks for a record many times
def _took(found: bytes, file: Path) -> TrainingTime:
    """Return what the run of a record took; the record is verified."""
    try:
        content = json.loads(found.decode())
        intact, version = content["checksum"] == checksum(content), content["schema_version"]
        derived = identity(content["spec"], content["versions"])
        complete = content["status"] == "complete"
        provenance = content["provenance"]
        on_gpu = provenance.get("device_type") == "cuda"
        device, backend = str(provenance["device"]), str(provenance["backend"])
        took = TrainingTime(float(provenance["seconds"]), on_gpu, device, backend)
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        OverflowError,
        RecursionError,
    ) as error:
        raise _not_whole(file, error) from error
    if derived != file.stem or content.get("run_id") != file.stem:
        raise _bad(file, f"holds the record of another run (its spec gives the id {derived})")
    if not complete or not intact:
        raise _bad(file, "was edited or is incomplete (its checksum does not match)")
    if version not in range(1, SCHEMA + 1):
        problem = f"has schema_version {version!r:.50}, and this fedrepro reads up to {SCHEMA}"
        raise BadFile(file, problem, "read it with the fedrepro that wrote it")
    return took


def read(run_id: str, folder: Path = FOLDER) -> RunRecord:
    """Read and verify a record.

    Raises:
        FedreproError: it is missing, damaged, edited or of another run, or was trained on other
            data than its spec means.
    """
    file = path_of(run_id, folder)
    content = _content(file)
    if content is None:
        raise FedreproError(
            f"{file}: run {run_id} has no record; `fedrepro train {run_id}` trains it"
        )
    return checked(content, file)


def checked(content: bytes, file: Path) -> RunRecord:
    """Return the record of which this is the content, verified as by :func:`read`.

    Args:
        content: of the record's file.
        file: where that is or would be; its name says which run it is of.

    Raises:
        BadFile: it is no such record.
    """  # noqa: DOC501 - made by a function
    _took(content, file)
    try:
        record = RunRecord.model_validate_json(content)
    except ValidationError as error:
        raise _bad(file, f"not a valid run record ({first_problem(error)})") from error
    try:
        _require_data(file, record)
    except (KeyError, TypeError) as error:  # the spec is of something else than a run
        raise _not_whole(file, error) from error
    return record


def _require_data(file: Path, record: RunRecord) -> None:
    """Refuse a record of a run on other data than those that its spec means."""
    dataset, found = record.spec["dataset"], record.provenance.dataset_sha256
    name = dataset["name"]
    if "content" in dataset:
        meant = found == dataset["content"]
    elif registry.IN_MEMORY.match(name):
        meant = name == f"own_{found[:12]}"
    elif registry.exists(name):
        meant = registry.describe(name).knows(found, record.provenance.dataset_source)
    else:
        meant = True  # of a plugin that is not here
    if not meant:
        raise _bad(
            file,
            f"the run was trained on other data than the data set {name} means (content hash "
            f"{found})",
        )


def recorded_ids(folder: Path = FOLDER) -> list[str]:
    """Return the ids of the runs with a file of a record, sorted; no file is opened.

    A folder that may not be read is an OSError, where a glob would find nothing.
    """
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(Path(name).stem for name in names if name.endswith(".json"))
