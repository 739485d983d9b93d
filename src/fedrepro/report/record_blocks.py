"""Blocks of the documentation that show records: tables, runs, what they took, and the API.

Each function of ``BLOCKS`` returns the Markdown of a block; its parameters are the arguments in the
marker.
"""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Callable, Iterable

import pandas as pd

import fedrepro
from fedrepro.base.configfile import nearest
from fedrepro.report.artefacts import frame, markdown
from fedrepro.report.figure import COLUMNS, UNITS
from fedrepro.runs import records
from fedrepro.runs.plan import expand, unique
from fedrepro.runs.plan_files import papers
from fedrepro.runs.plan_schema import Scale
from fedrepro.runs.records import RunRecord
from fedrepro.runs.runset import MissingRunsError, RunSet
from fedrepro.runs.status import status


def _effort() -> str:
    """One row a paper and scale: runs recorded, what they took, and what the others would take."""
    rows = []
    scales: tuple[Scale, ...] = ("lite", "paper")
    places = [*itertools.product(papers(), scales)]
    state = status([run for place in places for run in expand(*place)])
    for paper, scale in places:
        planned = unique(expand(paper, scale))
        costs = [cost for run in planned if (cost := records.training_time(run)) is not None]
        on_core, on_gpu = state.left(planned)
        rows.append(
            {
                "paper": f"[{paper}](docs/papers/{paper}.md)",
                "scale": scale,
                "runs recorded": f"{len(costs)} of {len(planned)}",
                "core minutes": f"{_minutes(costs, gpu=False):.0f}",
                "GPU minutes": f"{_minutes(costs, gpu=True):.0f}",
                "left, on one core (estimate)": on_core,
                "left, on a GPU (estimate)": on_gpu,
            }
        )
    return str(pd.DataFrame(rows).to_markdown(index=False))


def _minutes(costs: Iterable[records.TrainingTime], *, gpu: bool) -> float:
    return sum(cost.seconds for cost in costs if cost.gpu is gpu) / 60


def _cost_table(paper: str, scale: Scale) -> str:
    """One row a group that has runs at the scale: how many, seconds a run, minutes, on what.

    Minutes of GPUs have a column of their own, if there are any.
    """
    runs = RunSet(paper, scale)
    rows = []
    for group, planned in runs.plan.runs.items():
        members = list(unique(runs.members([group])).values())
        if not members:
            continue
        found = [records.read(run.id) for run in members if records.is_recorded(run.id)]
        seconds = pd.Series([record.provenance.seconds for record in found], dtype=float)
        on_gpu = pd.Series([r.provenance.device_type == "cuda" for r in found], dtype=bool)
        rows.append(
            {
                "runs": planned.title,
                "group": f"`{group}`",
                "recorded": f"{len(found)} of {len(members)}",
                "seconds a run (median)": f"{seconds.median():.0f}" if found else "",
                "core minutes": f"{seconds[~on_gpu].sum() / 60:.1f}",
                "GPU minutes": f"{seconds[on_gpu].sum() / 60:.1f}",
                "on": "; ".join(sorted({_device(record) for record in found})),
            }
        )
    unused = [] if any(row["GPU minutes"] != "0.0" for row in rows) else ["GPU minutes"]
    return str(pd.DataFrame(rows).drop(columns=unused, errors="ignore").to_markdown(index=False))


def _device(record: RunRecord) -> str:
    """Return what trained a run; threads count on a CPU only."""
    from_ = record.provenance
    if from_.device_type == "cuda":
        return from_.device
    return f"{from_.device}, {from_.threads} thread{'s' * (from_.threads > 1)}"


def _runs(paper: str, scale: Scale, *groups: str) -> str:
    """One row a recorded run of the groups: seed, test accuracy, what it took, its record."""
    runs = RunSet(paper, scale)
    for name in groups:
        if name not in runs.plan.runs:
            raise ValueError(f"no group of runs '{name}' {nearest(name, list(runs.plan.runs))}")
    recorded = runs.recorded().members(groups)
    axes = dict.fromkeys(axis for run in recorded for axis in run.coordinates)
    rows = []
    for run in recorded:
        record = runs.record(run)
        accuracy, from_ = record.metrics["accuracy"], record.provenance
        rows.append(
            {
                "runs": runs.plan.runs[run.group].title,
                **{axis: run.coordinates.get(axis, "") for axis in axes},
                "seed": run.seed,
                "record": f"[`{run.id}`](../../{records.path_of(run.id)})",
                "after the last round": f"{100 * accuracy[-1]:.2f} %",
                "best": f"{100 * max(accuracy):.2f} %",
                "seconds": f"{from_.seconds:.0f}",
                "on": f"{from_.device}, backend {from_.backend}, commit {from_.commit[:7]}",
            }
        )
    return str(pd.DataFrame(rows).to_markdown(index=False, disable_numparse=True))


def _scale(paper: str, scale: Scale) -> str:
    """What the scale changes of the published experiment, which the page's tables do not repeat."""
    return f"Scale `{scale}`: {RunSet(paper, scale).plan.at(scale).note}."


def _table(paper: str, name: str, scale: Scale) -> str:
    """A table as its rule writes it, without the scale's note, or what there are records for."""
    runs = RunSet(paper, scale)
    try:
        return markdown(runs, name, frame(runs, name, partial=True), note=False)
    except MissingRunsError as error:
        return f"*{runs.plan.artefact(name).title}: {error}.*"


def _columns() -> str:
    """What the numbers in a figure's data are, and their units."""
    columns = [
        {"column": ", ".join(f"`{name}`" for name in names.split(", ")), "what": what}
        for names, what in COLUMNS.items()
    ]
    units = [{"`unit`": f"`{unit}`", "what": what} for unit, what in UNITS.items()]
    return "\n\n".join(pd.DataFrame(rows).to_markdown(index=False) for rows in (units, columns))


def _api(name: str) -> str:
    """Signature and docstring of a name that ``import fedrepro`` offers."""
    thing = getattr(fedrepro, name, None)
    if thing is None:
        raise ValueError(f"fedrepro has no '{name}' {nearest(name, fedrepro.__all__)}")
    if inspect.isclass(thing):
        public = [key for key in vars(thing) if not key.startswith("_")]
        members = {key: inspect.getattr_static(thing, key) for key in public}
        listed = [
            f"- `{key}`: {str(inspect.getdoc(member)).splitlines()[0]}"
            for key, member in members.items()
            if inspect.getdoc(member) and not isinstance(member, str | tuple)
        ]
        return "\n".join([f"```text\n{inspect.getdoc(thing)}\n```", "", *listed])
    signature = re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(inspect.signature(thing)))
    if len(signature) > _SIGNATURE_WIDTH:
        inside, _, returned = signature[1:].rpartition(")")
        parameters = re.split(r", (?=\*|\w+: |\*\*)", inside)
        signature = "\n".join(["(", *(f"    {item}," for item in parameters), f"){returned}"])
    return f"```text\n{name}{signature}\n\n{inspect.getdoc(thing)}\n```"


_SIGNATURE_WIDTH = 80

BLOCKS: dict[str, Callable[..., str]] = {
    "api": _api,
    "columns": _columns,
    "effort": _effort,
    "cost": _cost_table,
    "runs": _runs,
    "scale": _scale,
    "table": _table,
}
