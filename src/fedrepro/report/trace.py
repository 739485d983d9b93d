"""From a number to its runs: what ``fedrepro why`` prints."""

from __future__ import annotations

import difflib
import functools
import math
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace

import pandas as pd

from fedrepro.base.errors import FedreproError
from fedrepro.fl.spec import canonical_json
from fedrepro.report.artefacts import LEFT_OUT, as_tuple, frame, keys_of, lacking, left_out
from fedrepro.report.checks import (
    DECIDED,
    Check,
    condition,
    how_sure,
    remarks,
    shown,
    shown_difference,
    tolerance,
)
from fedrepro.report.code import from_here, place_of
from fedrepro.report.expected import Claim, NotReproducible, Number, cell_key, load_expected
from fedrepro.report.verdicts import check_entry, check_runs
from fedrepro.runs import records
from fedrepro.runs.plan import PlannedRun, arguments, training_command
from fedrepro.runs.plan_files import argument, file_of, is_study
from fedrepro.runs.plan_schema import Scale
from fedrepro.runs.records import RunRecord
from fedrepro.runs.runset import MissingRunsError, RunSet
from fedrepro.runs.status import describe, status

_LISTED = 3
"""Run ids in the line of a cell."""


def why(paper: str, name: str | None, cell: str | None, scale: Scale) -> str:
    """Trace a table, a figure, one cell of it, or a verdict back to its runs.

    Args:
        paper: slug of the paper.
        name: of a table or figure in the plan, or id of a published number or claim; None for a
            list of the tables and figures.
        cell: ``ROW/COLUMN`` of a table or ``SERIES/X`` of a figure; None for all cells.
        scale: the plan's scale.

    Returns:
        Of a table or figure one line for each cell: its name, our value, the published one with
        its verdict, up to three of its run ids; then which runs have no record, where that leaves
        something out. Of a cell its value for every seed, the code that makes it and, for each of
        its runs: where the record is, its spec, seed, code, data, device, time, and the commands
        that verify it and train it again. Of an id the verdict, what decides it, and a line for
        each of its runs.

    Raises:
        FedreproError: unknown names (says the nearest), or nothing can be made of what is recorded.
    """
    runs = RunSet(paper, scale)
    if name is None:
        return _artefacts(runs)
    if name not in runs.plan.tables | runs.plan.figures and not is_study(paper):
        return _why_verdict(runs, name, cell)
    return _why_cells(runs, name, cell)


def _artefacts(runs: RunSet) -> str:
    """List the tables and figures that are made at the scale, with their titles and sources."""
    plan = runs.plan
    both = plan.tables | plan.figures
    made = {name: about for name, about in both.items() if not plan.not_made(name, runs.scale)}
    if both and not made:
        raise MissingRunsError(plan.not_made(next(iter(both)), runs.scale))
    width = max(map(len, made), default=0)
    lines = [f"  {name:<{width}}  {about.title} ({about.source})" for name, about in made.items()]
    paper = argument(runs.paper)
    ids = [] if is_study(runs.paper) else [f"`fedrepro check {paper} --verbose` lists the claims."]
    return "\n".join(
        [
            f"{runs.paper}, scale {runs.scale}: tables and figures",
            *lines,
            f"`fedrepro why {paper} NAME --scale {runs.scale}` lists the cells of one.",
            *ids,
        ]
    )


def _why_cells(runs: RunSet, artefact: str, cell: str | None) -> str:
    """Trace a table, a figure or one cell of it back to its runs."""
    about = runs.plan.artefact(artefact)
    try:
        cells = frame(runs, artefact, partial=True)
    except MissingRunsError:
        if not runs.plan.not_made(artefact, runs.scale):
            runs.require(about.runs, artefact)  # says how many, and how to train them
        raise
    if "runs" not in cells:  # one run a row, or a drawing of all of them
        cells["runs"] = [as_tuple(run) for run in cells.get("run", [""] * len(cells))]
    title = f"{runs.paper} {artefact}: {about.title} ({about.source}); scale: {runs.scale}"
    if cell is None:
        return "\n".join([title, *_all_cells(runs, artefact, cells)])
    return f"{title}\n{_one_cell(runs, artefact, cells, cell)}"


def _all_cells(runs: RunSet, artefact: str, cells: pd.DataFrame) -> list[str]:
    """Return a line for each cell, and lines of what is left out."""
    keys = ["/".join(key) for key in keys_of(cells)]
    width = max(map(len, keys), default=0)
    rows = [row for _, row in cells.iterrows()]
    held = _held_against(runs, artefact, keys, rows)
    lines = [
        _line(f"{key:<{width}}", row, _of_cell(runs.paper, key, items))
        for key, row, items in zip(keys, rows, held, strict=True)
    ]
    return lines + _absent(runs, artefact)


def _one_cell(runs: RunSet, artefact: str, cells: pd.DataFrame, cell: str) -> str:
    """Return the values of a cell, what they are held against and made by, and each of its runs."""
    about, keys = runs.plan.artefact(artefact), ["/".join(key) for key in keys_of(cells)]
    where = f"{runs.paper} {artefact} ({runs.scale})"
    wanted = find_cell(cell, keys, where, left_out(runs, artefact))
    chosen = cells[[key == wanted for key in keys]]
    rows = [row for _, row in chosen.iterrows()]
    values = [_value(row, each=True) for row in rows]
    held = _held_against(runs, artefact, [wanted] * len(rows), rows)
    values += [_told(item) for items in held for item in items]
    if artefact in runs.plan.tables:
        values.append(f"cells: {about.cells}")
    place = place_of(runs.paper, artefact)
    values.append(f"made by {place} from runs of {from_here(file_of(runs.paper))}")
    planned = {run.id: run for run in runs.members(about.runs)}
    ids = dict.fromkeys(run_id for ids in chosen["runs"] for run_id in ids)
    parts = [_run(planned[run_id], runs.record(planned[run_id])) for run_id in ids]
    return "\n\n".join(["\n".join([wanted, *values]), *parts])


def _why_verdict(runs: RunSet, name: str, cell: str | None) -> str:
    """Trace a verdict, which has no cells, to what decides it: a tolerance or a rule, and runs."""
    paper, expected = runs.paper, load_expected(runs.paper)
    judged: list[Number | NotReproducible | Claim] = [*expected.judged_numbers()]
    judged += [*expected.not_reproducible, *expected.claims]
    entries = {entry.id: entry for entry in judged}
    if name not in entries:
        raise _unknown(runs, name, entries)
    entry = entries[name]
    if cell is not None:
        kind = "claim" if isinstance(entry, Claim) else "published number"
        raise FedreproError(f"{paper} {name} is a {kind}, which has no cells: leave out '{cell}'")
    item = check_entry(runs, entry)
    known = {"published in" if item.kind == "number" else "source": item.where}
    if item.published is not None:
        known["published"] = shown(item.published, item.unit)
    if item.kind == "number" and item.ours is not None:
        known["ours"] = ", ".join(filter(None, [shown(item.ours, item.unit), how_sure(item)]))
    if item.tolerance is not None:
        known["tolerance"] = f"± {tolerance(item)}"
    known["reason"] = item.reason
    because = remarks(item)
    if isinstance(entry, Number):
        place = "/".join(cell_key(*entry.cell))
        known["cell"] = f'fedrepro why {paper} {entry.artefact} "{place}" --scale {runs.scale}'
        if item.verdict == "not run":
            because = _missing_of(runs, entry.artefact)
        elif item.verdict == "not decidable":
            because = item.evidence or "numbers are judged at the published scale"
    if isinstance(entry, Claim):
        values = ", ".join(f"{key}: {value}" for key, value in entry.values.items())
        known["rule"] = f"{entry.rule} ({values})"
        if runs.scale not in entry.scales:
            because += f"; --scale {entry.scales[0]} can"
    known |= {"reading": item.reading, "verdict": item.verdict, "because": because}
    if item.kind == "claim" and item.seeds:
        known["seeds"] = str(item.seeds)
    known["margins"] = f"\n{16 * ' '}".join(map(condition, item.margins))
    known["p value"] = "" if item.p is None else f"{item.p:.2g}, one-sided"
    title = f"{paper} {name}, scale {runs.scale}: {item.statement or 'a published number'}"
    told = [f"  {key:<14}{value}" for key, value in known.items() if value]
    return "\n".join([title, *told, *_runs_of(runs, item)])


def _missing_of(runs: RunSet, artefact: str) -> str:
    """Say how many runs of a table or figure have no record, and where they are listed."""
    groups = runs.groups_of(artefact)
    of = f"{len(runs.missing(groups))} of the {len(runs.planned(groups))} runs of {artefact}"
    listed = f"fedrepro why {argument(runs.paper)} {artefact} --scale {runs.scale}"
    return f"{of} have no record: `{listed}` says which"


def _runs_of(runs: RunSet, item: Check) -> list[str]:
    """Return a line for each run of a verdict, and for those that it lacks how to train them."""
    planned = {run.id: run for run in runs.planned(runs.plan.runs)}
    lines = [f"{id}  {describe(run)}" for id, run in planned.items() if id in item.runs]
    if item.missing:
        missing = [planned[run_id] for run_id in item.missing]
        lines += status(missing).lines()
        lines.append(f"to train them: {training_command(missing)}")
    return lines


def _unknown(runs: RunSet, name: str, ids: Collection[str]) -> FedreproError:
    known = [*runs.plan.tables, *runs.plan.figures, *ids]
    near = [each for each in known if each.startswith(f"{name}-")]  # ZA2 is all of ZA2-mnist, ...
    near = near or difflib.get_close_matches(name, known, n=1, cutoff=0.4)
    hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else "."
    return FedreproError(
        f"paper '{runs.paper}' has no table, figure, number or claim '{name}'{hint} "
        f"`fedrepro check --paper {argument(runs.paper)} --verbose` lists the ids"
    )


def find_cell(cell: str, keys: list[str], where: str, absent: str = "") -> str:
    """Return the key that is meant; numbers may be written in any way (``0.360`` is ``0.36``).

    Args:
        cell: ``ROW/COLUMN`` or ``SERIES/X``.
        keys: of the cells that there are.
        where: they are, for the error.
        absent: what is left out for want of records, for the error.

    Raises:
        FedreproError: there is none; says the nearest, and what is ``absent``.
    """
    for split in (i for i, letter in enumerate(cell) if letter == "/"):
        key = "/".join(cell_key(_number(cell[:split]), _number(cell[split + 1 :])))
        if key in keys:
            return key
    if not keys:
        raise FedreproError(" ".join(filter(None, [f"{where} has no cells.", absent])))
    near = difflib.get_close_matches(cell, keys, n=1, cutoff=0.3)
    hint = f"; did you mean '{near[0]}'?" if near else f", but for example '{keys[0]}'."
    raise FedreproError(
        f"{where} has no cell '{cell}'{hint} `fedrepro why` without a cell lists all {len(keys)}."
        + (f" {absent}" if absent else "")
    )


def _number(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


def _line(name: str, row: pd.Series, judged: Collection[Check]) -> str:
    verdicts = "".join(
        f"; {item.verdict}{', not informative' * (not item.informative)} ({item.id})"
        for item in judged
        if item.verdict in (*DECIDED, "no target")
    )
    runs = f"runs {' '.join(row['runs'][:_LISTED])}" if row["runs"] else "no run"
    more = f" and {len(row['runs']) - _LISTED} more" if len(row["runs"]) > _LISTED else ""
    return f"{name} {_value(row)}{verdicts}; {runs}{more}"


def _absent(runs: RunSet, artefact: str) -> list[str]:
    """Return what is left out as lines: how many runs, and below it of which groups."""
    lines = []
    for each in lacking(runs, artefact):
        lines += [f"  {each.how_many} of", *(f"    {title}" for title in each.titles)]
    return [f"{LEFT_OUT}:", *lines] if lines else []


def _value(row: pd.Series, *, each: bool = False) -> str:
    """Return the cell's value and the published one, with the digits that the report shows.

    Ours are those that runs give; others are published, measured apart or computed.

    Args:
        row: of the cell.
        each: also the value of each seed.
    """
    number, unit = row.get("n", 1), row.get("unit", "")
    if "mean" not in row or (not number and math.isnan(row["mean"])):
        text = "no number of ours"
    else:
        text = f"{'ours ' if row['runs'] else ''}{_defined(row['mean'], unit)}"
    if number > 1:
        values = ", ".join(_defined(value, unit) for value in row["values"])
        seeds = f", seeds {values}" if each else ""
        sd = "" if math.isnan(row["sd"]) else f"sd {shown_difference(row['sd'], unit)}, "
        text += f" ({sd}n = {row['n']}{seeds})"
    published = float(row["published"])
    return text + ("" if math.isnan(published) else f"; published {_defined(published, unit)}")


def _defined(value: float, unit: str) -> str:
    return "undefined" if math.isnan(value) else shown(value, unit)


def _held_against(
    runs: RunSet, artefact: str, keys: Sequence[str], rows: Sequence[pd.Series]
) -> list[list[Check]]:
    """Return the published numbers that each row of cells is held against.

    They are those whose own cell, in whatever table or figure, has the same mean over the same
    runs, and those of this very cell that are no target.

    Args:
        runs: the paper's runs at a scale.
        artefact: the table or figure.
        keys: of its cells.
        rows: the cells.
    """
    ids = {run_id for row in rows for run_id in row["runs"]}
    if is_study(runs.paper) or not ids or not all("mean" in row for row in rows):
        return [[] for _ in rows]
    places = _places(runs.paper)
    judged: dict[frozenset[str], list[Check]] = defaultdict(list)
    no_target: dict[str, list[Check]] = defaultdict(list)
    for item in check_runs(runs.paper, runs.scale, ids):
        if item.value == "mean" and item.runs and item.ours is not None:
            judged[frozenset(item.runs)].append(item)
        place, key = places[item.id]
        if item.value == "mean" and item.verdict == "no target" and place == artefact:
            no_target[key].append(item)
    return [
        [
            *(
                item
                for item in judged[frozenset(row["runs"])]
                if math.isclose(item.ours or 0, row["mean"], rel_tol=1e-5)
            ),
            *(replace(item, unit=row.get("unit", "")) for item in no_target[key]),
        ]
        for key, row in zip(keys, rows, strict=True)
    ]


@functools.cache
def _places(paper: str) -> dict[str, tuple[str, str]]:
    """Return of each published number the table or figure and the key of its cell there."""
    return {
        number.id: (number.artefact, "/".join(cell_key(*number.cell)))
        for number in load_expected(paper).judged_numbers()
    }


def _of_cell(paper: str, key: str, judged: list[Check]) -> list[Check]:
    """Return those of the numbers that are published for this very cell; all, where none is."""
    return [item for item in judged if _places(paper)[item.id][1] == key] or judged


def _told(item: Check) -> str:
    """Say which published number a cell is held against, and how it comes out."""
    return (
        f"published in {item.where}: {shown(item.published or 0, item.unit)}, "
        f"tolerance ± {tolerance(item)}; verdict: {item.verdict} ({item.id})"
    )


_REPLACED = {"stacked": "graphs"}
"""Backends that some records name and that are no more, with what does their work now."""


def _run(run: PlannedRun, record: RunRecord) -> str:
    known = facts(run, record) | {"spec": canonical_json(record.spec)}
    lines = [f"  {name:<10}{value}" for name, value in known.items()]
    return "\n".join([f"run {run.id}, seed {run.seed}", *lines])


def facts(run: PlannedRun, record: RunRecord) -> dict[str, str]:
    """Return what is known of a recorded run but its spec: code, data, device, how to repeat it."""
    file = records.path_of(run.id, run.records)
    from_ = record.provenance
    changed = ", with uncommitted changes" if from_.dirty else ""
    note = f"; {from_.dataset_note}" if from_.dataset_note else ""
    clients = len(record.partition.counts)
    versions = ", ".join(f"{name} {version}" for name, version in sorted(record.components.items()))
    found = {
        "record": str(file),
        "group": describe(run),
        "versions": versions,
        "code": f"commit {from_.commit}{changed}; fedrepro {from_.fedrepro}, "
        f"torch {from_.torch}, numpy {from_.numpy}, Python {from_.python}",
        "data": f"{record.spec['dataset']['name']}, {from_.dataset_source}, "
        f"sha256 {from_.dataset_sha256}{note}",
        "partition": f"{clients} client{'s' * (clients > 1)}, sha256 {record.partition.sha256}",
        "device": f"{from_.device}, {from_.threads} thread(s), backend {from_.backend}; "
        f"{'; '.join(filter(None, (from_.arithmetic, from_.host)))}",
        "trained": f"{from_.seconds:g} s, process started {from_.started}",
    }
    if from_.earlier:
        found["earlier"] = "; ".join(_part(part) for part in from_.earlier)
    if from_.imported:
        found["imported"] = "; ".join(_part(part) for part in from_.imported)
    backend = _REPLACED.get(from_.backend, from_.backend)
    options = " --compile on" * from_.compile + " --deterministic" * from_.deterministic
    if from_.device_type == "cpu":
        found["verify"] = f"fedrepro verify {arguments([run])}"
    train = f"{training_command([run], from_.device_type)} --backend {backend}{options}"
    found["again"] = f"rm -f {file} .checkpoints/{run.id}.pt && {train}"
    return found


def _part(part: records.Part) -> str:
    changed = ", with uncommitted changes" if part.dirty else ""
    return (
        f"{part.rounds} rounds in {part.seconds:g} s, {part.device}, backend {part.backend}, "
        f"commit {part.commit}{changed}, torch {part.torch}"
    )
