"""What the report is made of, and what of it there is no run for."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from fedrepro.base.files import write_text
from fedrepro.report.artefacts import left_out, write_table
from fedrepro.report.checks import to_json
from fedrepro.report.drawings import write_figure
from fedrepro.report.verdicts import check
from fedrepro.runs.plan import load_plan
from fedrepro.runs.plan_files import is_study
from fedrepro.runs.plan_schema import Scale
from fedrepro.runs.runset import MissingRunsError, RunSet


@dataclass
class Gaps:
    """What tables and figures of a paper lack for want of runs.

    Attributes:
        absent: name of one that is not made -> why.
        left_out: name of one that is -> which runs it does without.
    """

    absent: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


def gaps(paper: str, scale: Scale) -> Gaps:
    """Return what a paper lacks at a scale of which every run is recorded."""
    plan = load_plan(paper)
    reasons = {name: plan.not_made(name, scale) for name in [*plan.tables, *plan.figures]}
    return Gaps(absent={name: why for name, why in reasons.items() if why})


def write_partial(paper: str, scale: Scale, results: Path) -> Gaps:
    """Make the tables, figures and verdicts of a paper from the runs that are recorded.

    Args:
        paper: its slug; a study of our own has no verdicts.
        scale: of the runs.
        results: where they are written, in the places that Snakemake gives them.

    Returns:
        What could not be made, and what was left out.

    Raises:
        FedreproError: the plan has no such scale, or a record is damaged.
    """
    runs, found = RunSet(paper, scale), Gaps()
    for kind, names, write in (
        ("tables", runs.plan.tables, write_table),
        ("figures", runs.plan.figures, write_figure),
    ):
        for name in names:
            try:
                write(runs, name, results / scale / kind / paper / name, partial=True)
            except MissingRunsError as error:
                found.absent[name] = str(error)
            else:
                found.left_out[name] = left_out(runs, name)
    checks = [] if is_study(paper) else check(paper, scale)
    write_text(results / scale / "checks" / f"{paper}.json", to_json(checks))
    return found
