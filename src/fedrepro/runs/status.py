"""Which planned runs are recorded, which are not, and what the missing ones will cost."""

from __future__ import annotations

import contextlib
import functools
import re
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedrepro.base.errors import BadFile, FedreproError
from fedrepro.fl.cost import estimate, kind, sample_passes, seconds_per_pass
from fedrepro.fl.engine import BACKENDS
from fedrepro.fl.spec import RUN_ID_LENGTH, canonical_json, spec_dict
from fedrepro.runs import records
from fedrepro.runs.plan import PlannedRun, expand, left_behind, scales, unique
from fedrepro.runs.plan_files import argument, is_own, papers, plans

_RUN_ID = re.compile(rf"[0-9a-f]{{{RUN_ID_LENGTH}}}")


@dataclass(frozen=True)
class Status:
    """The state of a list of planned runs.

    Attributes:
        runs: the distinct runs, in plan order.
        recorded: ids of those with a valid record.
        pending: ids of those without.
        seconds: id -> estimated training time of each pending run on one core, in seconds; of one
            that needs a GPU, as if a core had its precision.
        gpu_seconds: the same on one GPU, for the pending runs whose like were trained on one.
        gpus: names of the GPUs that they were trained on.
    """

    runs: tuple[PlannedRun, ...]
    recorded: tuple[str, ...]
    pending: tuple[str, ...]
    seconds: dict[str, float]
    gpu_seconds: dict[str, float]
    gpus: tuple[str, ...]

    @functools.cached_property
    def orphaned(self) -> tuple[str, ...]:
        """Ids of committed records that no plan asks for at any scale; looked up when asked."""
        return orphans()

    @functools.cached_property
    def outdated(self) -> dict[str, tuple[str, ...]]:
        """Plan of one's own -> ids of the records of its runs by other code; likewise."""
        own = (name for name in dict.fromkeys(run.paper for run in self.runs) if is_own(name))
        return {name: ids for name in own if (ids := outdated(name))}

    @functools.cached_property
    def core_seconds(self) -> dict[str, float]:
        """Those of the ``seconds`` that are of runs which a core can train."""
        on_core = (run.id for run in self.runs if not run.needs_gpu)
        return {run_id: self.seconds[run_id] for run_id in on_core if run_id in self.seconds}

    @property
    def pending_seconds(self) -> float:
        """Estimated seconds to train the pending runs that one core can, one after another."""
        return sum(self.core_seconds.values())

    def to_json(self) -> dict[str, Any]:
        """Return plain values: ids by state, estimated seconds in all and of each pending run."""
        return {
            "recorded": list(self.recorded),
            "pending": list(self.pending),
            "orphaned": list(self.orphaned),
            "outdated": [run_id for ids in self.outdated.values() for run_id in ids],
            "pending_seconds": round(self.pending_seconds, 1),
            "seconds": {run_id: round(value, 1) for run_id, value in self.core_seconds.items()},
            "gpu_seconds": {run_id: round(value, 1) for run_id, value in self.gpu_seconds.items()},
            "gpus": list(self.gpus),
        }

    def text(self, *, list_runs: bool = False) -> str:
        """Return counts for each paper, and one line a run if asked for."""
        from tabulate import tabulate

        by_paper: dict[str, list[PlannedRun]] = defaultdict(list)
        for run in self.runs:
            by_paper[run.paper].append(run)
        rows = [self._row(paper, runs) for paper, runs in by_paper.items()]
        if len(rows) > 1:
            rows.append(self._row("all", self.runs))
        times = [f"{where}\n(estimate)" for where in ("on one core", "on a GPU")]
        headers = ["paper", "recorded", "pending", *times]
        align = ("left", "right", "right", "left", "left")
        parts = [tabulate(rows, headers, tablefmt="simple", colalign=align)]
        if self.pending:
            parts.append(self._on_gpus())
        if list_runs:
            parts.append("\n".join(self.lines()))
        if self.orphaned:
            parts.append(
                f"{len(self.orphaned)} records belong to no planned run; `fedrepro prune` lists "
                "them."
            )
        places = dict.fromkeys((run.paper, run.scale) for run in self.runs)
        for name, scale in places:
            parts += left_behind(name, scale) if is_own(name) else []
        for name, ids in self.outdated.items():
            parts.append(
                f"{len(ids)} records of {name} are of other code than this; `fedrepro prune "
                f"{argument(name)}` lists them."
            )
        return "\n\n".join(parts)

    def lines(self) -> list[str]:
        """Return one line a run: id, place in the plan, whether it is recorded."""
        return [self._line(run) for run in self.runs]

    def takes(self, run: PlannedRun) -> str:
        """Return how long a pending run trains: on one core, or on a GPU if it needs one."""
        if not run.needs_gpu:
            return duration(self.seconds[run.id])
        on_gpu = self.gpu_seconds.get(run.id)
        return "needs a GPU" if on_gpu is None else f"{duration(on_gpu)} on a GPU"

    def _row(self, name: str, runs: Sequence[PlannedRun]) -> list[Any]:
        """Return a row: counts, and the time that the pending ones take."""
        pending = sum(run.id in self.seconds for run in runs)
        return [name, len(runs) - pending, pending, *self.left(run.id for run in runs)]

    def left(self, ids: Iterable[str]) -> tuple[str, str]:
        """Return what the pending ones of some runs take, on one core and on a GPU, for readers.

        An estimate that is not of all of them says of how many it is.
        """
        pending = [run_id for run_id in ids if run_id in self.seconds]
        if not pending:
            return "", ""
        on_core = _of_some(pending, self.core_seconds) or "needs a GPU"
        return on_core, _of_some(pending, self.gpu_seconds) or "not measured"

    def _on_gpus(self) -> str:
        """Say what the time on a GPU rests on, and for which networks nothing was measured."""
        unknown: dict[str, set[int]] = defaultdict(set)
        for run in self.runs:
            if run.id in self.seconds and run.id not in self.gpu_seconds:
                spec = run.spec
                width = "" if spec.model.width == 1 else f" of width {spec.model.width:g}"
                name = f"{spec.model.name}{width}"
                unknown[f"{name}, {spec.precision}"].add(spec.batch)
        lines = []
        if self.gpu_seconds:
            lines.append(
                "On a GPU: rough, from like runs that were trained side by side on "
                f"{', '.join(self.gpus)}; another card takes another time."
            )
        if unknown:
            lines.append("No estimate for a GPU, since no like run was recorded on one:")
        for name, batches in sorted(unknown.items()):
            lines.append(f"  {name}, batches of {', '.join(map(str, sorted(batches)))}")
        return "\n".join(lines)

    def _line(self, run: PlannedRun) -> str:
        state = "recorded"
        if run.id in self.seconds:
            state = f"pending ({self.takes(run)})"
        return f"{run.id}  {describe(run):<60} {state}"


def describe(run: PlannedRun) -> str:
    """Return a run's place in the plan: ``emd sweep emd=1.44 seed=0``."""
    point = [f"{name}={value}" for name, value in run.coordinates.items()]
    words = [run.paper, run.group, *point, f"seed={run.seed}"]
    return " ".join(filter(None, words))  # runs of a program are of no paper


def duration(seconds: float) -> str:
    """Return a time for readers: ``45 s``, ``12 min``, ``3.5 h``, ``12 days``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    hours = seconds / 3600
    return f"{hours:.1f} h" if hours < 48 else f"{hours / 24:.0f} days"


def _of_some(ids: Sequence[str], seconds: Mapping[str, float]) -> str:
    """Return what those of some runs take together that there is an estimate of; empty if none."""
    known = [seconds[run_id] for run_id in ids if run_id in seconds]
    if not known:
        return ""
    return duration(sum(known)) + (f" for {len(known)} of them" if len(known) < len(ids) else "")


def orphans() -> tuple[str, ...]:
    """Return the ids of record files that no plan asks for at any scale.

    Where there is no paper's plan, there are none: these records are the papers'.
    """
    names = [name for name in records.recorded_ids() if _RUN_ID.fullmatch(name)]
    if not names or not papers():
        return ()
    planned = _planned(plans())
    return tuple(name for name in names if name not in planned)


def outdated(plan: str) -> tuple[str, ...]:
    """Return the ids of records of a plan's runs that other code trained, among one's own.

    They have the spec of a planned run and another id, as the version of some component is another
    one. What is of a spec that the plan does not have may be another plan's, and is left out; so is
    what is damaged.

    Args:
        plan: its slug.
    """
    planned, folder = _planned([plan]), records.OWN_FOLDER
    specs = {canonical_json(spec_dict(run.spec)) for run in planned.values()}
    found = []
    for name in records.recorded_ids(folder):
        if name not in planned:
            with contextlib.suppress(BadFile):
                if canonical_json(records.read(name, folder).spec) in specs:
                    found.append(name)
    return tuple(found)


def _planned(names: Iterable[str]) -> dict[str, PlannedRun]:
    """Return the runs of plans at all scales, by id."""
    return unique([run for name in names for scale in scales(name) for run in expand(name, scale)])


def status(runs: Sequence[PlannedRun]) -> Status:
    """Look up which runs have a record; every record found is verified.

    Args:
        runs: planned runs; equal ones count once.

    Raises:
        FedreproError: a record is damaged, edited or of another run.
    """
    distinct = unique(runs)
    took = _took(distinct)
    pending = [run for run_id, run in distinct.items() if took[run_id] is None]
    known = _known(pending, distinct, took) if pending else []
    on_gpu, gpus = _on_gpu(pending, known)
    return Status(
        runs=tuple(distinct.values()),
        recorded=tuple(run_id for run_id, cost in took.items() if cost is not None),
        pending=tuple(run.id for run in pending),
        seconds=_on_core(pending, known),
        gpu_seconds=on_gpu,
        gpus=gpus,
    )


def _took(runs: Mapping[str, PlannedRun]) -> dict[str, records.TrainingTime | None]:
    """Return what each run took, None if it has no record.

    Raises:
        FedreproError: records are damaged; it names them, up to 20.
    """
    took, damaged = dict[str, records.TrainingTime | None](), list[str]()
    for run_id, run in runs.items():
        try:
            took[run_id] = records.training_time(run_id, run.records)
        except FedreproError as error:
            damaged.append(str(error))
    if damaged:
        more = [f"and {len(damaged) - 20} more"] if len(damaged) > 20 else []
        raise FedreproError("\n".join([*damaged[:20], *more]))
    return took


Known = Sequence[tuple[PlannedRun, records.TrainingTime]]
"""Recorded runs, of whatever plan, and what they took."""


def _known(
    pending: Iterable[PlannedRun],
    runs: Mapping[str, PlannedRun],
    took: Mapping[str, records.TrainingTime | None],
) -> Known:
    """Return the recorded runs of any plan that tell how long the pending ones take.

    They have the network, images and batch size of one of these. Other plans and records may be
    damaged.

    Args:
        pending: runs without a record.
        runs: the runs looked up so far, the pending ones among them.
        took: what each of them took, None without a record.
    """
    known = [(runs[run_id], cost) for run_id, cost in took.items() if cost is not None]
    others = set(records.recorded_ids()) - took.keys()
    if not others:
        return known
    kinds = {kind(run.spec) for run in pending}
    for name in plans():
        with contextlib.suppress(FedreproError):
            for run_id, run in _planned([name]).items():
                if run_id in others and kind(run.spec) in kinds:
                    others.remove(run_id)
                    with contextlib.suppress(FedreproError):
                        if cost := records.training_time(run_id):
                            known.append((run, cost))
    return known


def _on_core(pending: Iterable[PlannedRun], known: Known) -> dict[str, float]:
    """Estimate the seconds of runs on one core; what GPUs took says nothing about cores."""
    speeds = seconds_per_pass((run.spec, cost.seconds) for run, cost in known if not cost.gpu)
    return {run.id: estimate(run.spec, speeds) for run in pending}


def _on_gpu(
    pending: Iterable[PlannedRun], known: Known
) -> tuple[dict[str, float], tuple[str, ...]]:
    """Estimate the seconds of runs on one GPU, from like runs on GPUs; say which GPUs.

    Like runs have the same network, width, batch size and precision, and were trained by a backend
    that is still there. A recorded run's seconds are its share of a GPU that trained others beside
    it. What has no like run is left out.
    """

    def like(run: PlannedRun) -> tuple[str, str]:
        return kind(run.spec), run.spec.precision

    seen: dict[tuple[str, str], list[tuple[float, str]]] = defaultdict(list)
    for run, cost in known:
        if cost.gpu and cost.backend in BACKENDS:
            seen[like(run)].append((cost.seconds / sample_passes(run.spec), cost.device))
    found = {}
    gpus: set[str] = set()
    for run in pending:
        if measured := seen.get(like(run)):
            found[run.id] = statistics.median(s for s, _ in measured) * sample_passes(run.spec)
            gpus |= {device for _, device in measured}
    return found, tuple(sorted(gpus))
