"""Any recorded runs, one or side by side: what ``fedrepro show`` and ``fedrepro compare`` print."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import TypeAdapter, ValidationError

from fedrepro.base.configfile import validate
from fedrepro.base.errors import BadFile, FedreproError
from fedrepro.base.files import write_text
from fedrepro.base.paths import find_root
from fedrepro.fl.spec import RunSpec, run_id
from fedrepro.report.trace import facts
from fedrepro.runs import records
from fedrepro.runs.command import all_papers, ambiguous, selected, unknown_run
from fedrepro.runs.plan import PlannedRun, expand, load_plan, scales
from fedrepro.runs.plan_files import plans
from fedrepro.runs.records import RunRecord

METRIC = "accuracy"
_BARS = "▁▂▃▄▅▆▇█"
_WIDTH = 60
_LABEL_WIDTH = 80
"""Characters of a line of a legend."""
_OF_A_PLAN = ("group",)
_BY_ID = ("verify", "again")
"""Facts of a run that a plan has, and of one whose record lies where its plan has it."""


@dataclass(frozen=True)
class Recorded:
    """A run and its record.

    The run of no plan has the paper ``""`` and a spec that is not validated. One whose record lies
    elsewhere than its plan has it, or that no plan has, names the folder.
    """

    run: PlannedRun
    record: RunRecord

    def curve(self, metric: str) -> dict[int, float]:
        """Return round -> value of a metric that was logged every round, or when evaluated.

        Raises:
            FedreproError: the run logs no such metric; names those that it logs.
        """
        if metric not in self.metrics:
            known = ", ".join(self.metrics)
            raise FedreproError(f"run {self.run.id} logs no '{metric}'; it logs {known}")
        return self.record.curve(metric)

    def trainable(self) -> PlannedRun:
        """Return the run so that it can be trained here.

        Raises:
            FedreproError: a component is not here (names the packages that the run used), or in
                another version.
        """
        if self.run.paper:
            return self.run
        try:
            spec = validate(self.record.spec, RunSpec, str(self.file))
        except FedreproError as error:
            used = [f"{name} {text.split(',')[0]}" for name, text in self.record.plugins.items()]
            cure = f"\n  the run used {', '.join(used)}: install that to train it" if used else ""
            raise FedreproError(f"{error}{cure}") from error
        if run_id(spec) != self.run.id:
            raise FedreproError(
                f"{self.file}: other versions of components trained this run than are here; "
                f"`fedrepro show {self.file}` names them"
            )
        return dataclasses.replace(self.run, spec=spec)

    @property
    def file(self) -> Path:
        """The file of its record."""
        return records.path_of(self.run.id, self.run.records)

    @property
    def metrics(self) -> list[str]:
        """Names of what it logs."""
        return [name for name in self.record.metrics if name != "evaluated_rounds"]


def find(names: Iterable[str], paper: str | None = None) -> list[Recorded]:
    """Return the runs with these ids, or beginnings of ids, or in these files of records.

    A record of one's own is found without its plan, too: that may have changed since, or the code
    of an algorithm, or it is a colleague's. A paper's run that is not recorded here is read where
    the clone has it.

    Args:
        names: the ids, or beginnings, or files.
        paper: whose plan has the ids; None: that of any paper, or study of our own.

    Raises:
        FedreproError: no planned run has such an id, or several have; or it has no record.
    """
    any_plan = paper is not None or plans()  # else the package is installed outside any clone
    runs = selected(paper, None, studies=True) if any_plan else []
    planned = {run.id: run for run in runs}
    return [
        _in_file(Path(name), planned) if name.endswith(".json") else _find(name, planned, paper)
        for name in names
    ]


def _in_file(file: Path, planned: Mapping[str, PlannedRun]) -> Recorded:
    """Return the run whose record a file is, of a plan or not."""
    if not file.is_file():
        raise FedreproError(f"{file}: no such file; give the file of a record, or the id of a run")
    try:
        if file.stem not in planned:
            return _unplanned(file)
        run = dataclasses.replace(planned[file.stem], folder=file.parent)
        return Recorded(run, records.read(run.id, file.parent))
    except BadFile as error:  # whose cure is for records where ours are: to delete it
        raise FedreproError(
            f"{file}: {error.problem}; give the file of a record, which is named after its run"
        ) from error


def _find(name: str, planned: Mapping[str, PlannedRun], paper: str | None) -> Recorded:
    ids = [run_id for run_id in planned if run_id.startswith(name)]
    if not ids:
        return _without_plan(name, planned, paper)
    if len(ids) > 1:
        raise FedreproError(ambiguous(name, ids))
    run, clone = planned[ids[0]], find_root()
    if not run.recorded:
        if clone is None or not records.is_recorded(run.id, clone / run.records):
            raise FedreproError(
                f"run {run.id} has no record here; `{run.command}` trains it, or give the file of "
                "a record that lies elsewhere"
            )
        run = dataclasses.replace(run, folder=clone / run.records)
    return Recorded(run, records.read(run.id, run.records))


def _without_plan(name: str, planned: Iterable[str], paper: str | None) -> Recorded:
    """Return a run that none of the plans has, from its record among one's own."""
    folder = records.OWN_FOLDER
    ids = [run_id for run_id in records.recorded_ids(folder) if run_id.startswith(name)]
    if not ids and not planned:
        all_papers()  # says why there is none
    if not ids:
        raise unknown_run(name, planned, paper=paper)
    if len(ids) > 1:
        raise FedreproError(ambiguous(name, ids))
    return _unplanned(records.path_of(ids[0], folder))


def _unplanned(file: Path) -> Recorded:
    """Return the run of a record that no plan has; its components need not be here."""
    record = records.read(file.stem, file.parent)
    spec = RunSpec.model_construct(**record.spec)
    return Recorded(
        PlannedRun("", "(no plan)", {}, spec.seed, spec, file.stem, file.parent), record
    )


def show(found: Recorded, metric: str | None = None) -> str:
    """Return what is known of a run, what it is part of, and its curves.

    Args:
        found: the run.
        metric: whose curve; None: of all that it logs.
    """
    width = max(len(name) for name in found.metrics)
    curves = [
        f"  {name:<{width}}  {_sparkline(found.curve(name))}"
        for name in ([metric] if metric else found.metrics)
    ]
    known = facts(found.run, found.record)
    left_out = _OF_A_PLAN * (not found.run.paper) + _BY_ID * (found.run.folder is not None)
    lines = [f"  {name:<10}{value}" for name, value in known.items() if name not in left_out]
    spec = _flat(found.record.spec)
    wide = max(map(len, spec))
    keys = [f"  {key:<{wide}}  {_plain(value)}" for key, value in spec.items()]
    used = [f"  {place}" for place in _used_by(found.run)]
    parts = [f"run {found.run.id}", *lines, "spec", *keys, "part of", *used, "curves", *curves]
    return "\n".join(parts)


def _used_by(run: PlannedRun) -> list[str]:
    """Return the tables and figures that are made from a run, of any group that has it."""
    if not run.paper:
        return ["none of the plans looked at; `--paper my-plan.yaml` looks at one of your own"]
    plan = load_plan(run.paper)
    planned = (other for scale in scales(run.paper) for other in expand(run.paper, scale))
    groups = {other.group for other in planned if other.id == run.id}
    artefacts = itertools.chain(plan.tables.items(), plan.figures.items())
    return [
        f"{run.paper} {name}: {about.title}"
        for name, about in artefacts
        if groups.intersection(about.runs)
    ]


def _sparkline(curve: Mapping[int, float]) -> str:
    """Return a curve in one line, with its first, last and extreme values."""
    values = list(curve.values())
    width = min(len(values), _WIDTH)
    kept = [values[i * len(values) // width] for i in range(width)]
    low, high = min(values), max(values)
    reach = high - low or 1
    bars = "".join(_BARS[round((value - low) / reach * (len(_BARS) - 1))] for value in kept)
    rounds = list(curve)
    return (
        f"{bars}  round {rounds[0]}: {values[0]:.4g}, {rounds[-1]}: {values[-1]:.4g}; "
        f"from {low:.4g} to {high:.4g}"
    )


def compare(found: Sequence[Recorded], metric: str = METRIC) -> pd.DataFrame:
    """Return a row a run: how its spec differs from the others', and a metric at the end.

    Args:
        found: the runs.
        metric: for example ``accuracy``, a fraction.

    Raises:
        FedreproError: a run does not log it.
    """
    rows = []
    for one, differing in zip(found, _differences(found), strict=True):
        curve = one.curve(metric)
        row = {"run": one.run.id, "group": f"{one.run.paper} {one.run.group}".strip()}
        rows.append(
            row
            | differing
            | {"last round": list(curve)[-1], metric: list(curve.values())[-1]}
            | {f"lowest {metric}": min(curve.values()), f"highest {metric}": max(curve.values())}
        )
    return pd.DataFrame(rows)


def _differences(found: Sequence[Recorded]) -> list[dict[str, str]]:
    """Return the keys of each run's spec whose values are not the same in all.

    They are keys that some spec sets; where another leaves one at its default, that is its value,
    or nothing where its component is not here. So are the components that all runs use, in
    different versions.
    """
    told = all(one.record.provenance.packages or not one.record.plugins for one in found)
    versions = [one.record.components if told else one.record.versions for one in found]
    used = [name for name in versions[0] if all(name in others for others in versions)]
    specs = [
        _flat(_with_defaults(one.record.spec)) | {name: code[name] for name in used}
        for one, code in zip(found, versions, strict=True)
    ]
    keys = dict.fromkeys([*(key for one in found for key in _flat(one.record.spec)), *used])
    texts = [{key: _plain(spec.get(key, "")) for key in keys} for spec in specs]
    differing = [key for key in keys if len({text[key] for text in texts}) > 1]
    return [{key: text[key] for key in differing} for text in texts]


def _with_defaults(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a recorded spec with its defaults, but those of components that are not here."""
    filled: dict[str, Any] = {}
    for name, field in RunSpec.model_fields.items():
        value = spec.get(name, field.default)
        with contextlib.suppress(ValidationError):
            kind = TypeAdapter[Any](field.rebuild_annotation())
            value = kind.dump_python(kind.validate_python(value), mode="json")
        filled[name] = value
    return filled


def _labels(found: Sequence[Recorded]) -> list[str]:
    """Return what tells runs apart in a legend; the id only where nothing of the spec does."""
    labels = []
    for differing in _differences(found):
        given = ", ".join(f"{key} {value}" for key, value in differing.items() if value)
        labels.append(textwrap.fill(given, _LABEL_WIDTH, max_lines=2))
    return [
        label if label and labels.count(label) == 1 else f"{label} ({one.run.id})".strip()
        for label, one in zip(labels, found, strict=True)
    ]


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _flat(content: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested values by dotted key."""
    flat: dict[str, Any] = {}
    for key, value in content.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def write(found: Sequence[Recorded], metric: str, stem: Path) -> list[Path]:
    """Write the comparison and the curves of runs.

    Args:
        found: the runs.
        metric: whose curves.
        stem: file name without ending.

    Returns:
        ``<stem>.csv``, one row a run; ``<stem>.svg`` and ``<stem>.png``.

    Raises:
        FedreproError: a run does not log the metric, or a file cannot be written.
    """
    from fedrepro.report import style  # Matplotlib is slow to import

    table = compare(found, metric)
    style.use()
    style.save(_drawn(found, metric), stem)
    csv = stem.with_name(f"{stem.name}.csv")
    write_text(csv, table.to_csv(index=False, float_format="%.10g"))
    return [csv, *(stem.with_name(f"{stem.name}.{kind}") for kind in ("svg", "png"))]


def _drawn(found: Sequence[Recorded], metric: str) -> Any:
    from fedrepro.report.drawings import series_inks
    from fedrepro.report.plots import ROUND, Canvas

    canvas = Canvas()
    for one, label, ink in zip(found, _labels(found), series_inks(), strict=False):
        curve = one.curve(metric)
        points = pd.DataFrame({"x": list(curve), "mean": list(curve.values())}).assign(n=1)
        canvas.curve(canvas.axis, points, ink, label, factor=1)
    canvas.axis.set(xlabel=ROUND, ylabel=metric)
    return canvas.legend(1)
