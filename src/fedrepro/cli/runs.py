"""``fedrepro status``, ``why``, ``show``, ``compare``, ``verify``, ``prune``: runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from fedrepro.base.errors import FedreproError
from fedrepro.cli.command import (
    Command,
    DataRoot,
    OptionalPaper,
    PaperName,
    PaperScale,
    stem,
)
from fedrepro.cli.output import show
from fedrepro.runs import records, stopping
from fedrepro.runs.command import all_papers, selected
from fedrepro.runs.plan import PlannedRun
from fedrepro.runs.plan_files import argument

app = typer.Typer()


@app.command(cls=Command)
def status(
    paper: OptionalPaper = None,
    scale: PaperScale = "lite",
    as_json: Annotated[
        bool,
        typer.Option("--json", help="As JSON: ids of runs by state, and estimates in seconds."),
    ] = False,
    list_runs: Annotated[
        bool, typer.Option("--list", help="Also list all runs: id, place in the plan, state.")
    ] = False,
) -> None:
    """Count the runs with and without a record; estimate the rest.

    A run is recorded if it has a valid record, and pending if it has none. The time to train the
    pending runs is estimated twice: one after another on one core, for those that need no GPU, and
    on a GPU, for those similar to runs trained on one. Below the table are the numbers of
    committed records that no plan asks for, and of records of a plan of your own that other code
    trained.
    """
    from fedrepro.runs.status import status

    report = status(selected(paper, scale))
    if as_json:
        print(json.dumps(report.to_json(), indent=1))
    else:
        show(report.text(list_runs=list_runs))


@app.command(cls=Command, epilog="Example: fedrepro why emd table2 MNIST/1.44")
def why(
    paper: PaperName,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="Table or figure, such as table2, or id of a published number or claim, such as "
            "ZA2-mnist; default: list the tables and figures.",
            show_default=False,
        ),
    ] = None,
    cell: Annotated[
        str | None,
        typer.Argument(
            metavar="CELL",
            help="ROW/COLUMN of a table or SERIES/X of a figure; default: list all cells.",
            show_default=False,
        ),
    ] = None,
    scale: PaperScale = "lite",
) -> None:
    """Go from a number or verdict to its runs.

    Of a table or figure: every cell with our value, the published one, its verdict and runs. Of one
    cell: each run with its seed, spec, code version, data hash, device and seconds, and the
    commands that verify it and train it again. Of a published number or claim: the verdict, what
    decides it, its runs, and the runs that it lacks.
    """
    from fedrepro.report import trace

    print(trace.why(paper, name, cell, scale))


OfPlan = Annotated[
    str | None,
    typer.Option(
        "--paper",
        metavar="P",
        help="Only runs of this paper, or of the plan of your own in this file; default: all "
        "papers.",
    ),
]
Ids = Annotated[
    list[str],
    typer.Argument(metavar="RUN", help="Run ids, or how they begin, or files of records."),
]
Drawn = Annotated[
    Path | None,
    typer.Option(
        metavar="STEM", parser=stem, help="Also write csv, svg and png; file name without ending."
    ),
]


@app.command("show", cls=Command, epilog="Example: fedrepro show 36726f --metric accuracy")
def show_run(
    run: Annotated[
        str,
        typer.Argument(metavar="RUN", help="A run id, or how it begins, or the file of a record."),
    ],
    metric: Annotated[
        str | None, typer.Option(metavar="M", help="Only this curve; default: all that it logs.")
    ] = None,
    out: Drawn = None,
    paper: OfPlan = None,
) -> None:
    """Show a recorded run: what it is, where it is used, its curves.

    The package of its components need not be installed. A run of a paper that is not recorded here
    is read from the clone.
    """
    from fedrepro.report import recorded

    found = recorded.find([run], paper)
    print(recorded.show(found[0], metric))
    if out:
        _written(recorded.write(found, metric or recorded.METRIC, out))


@app.command(cls=Command, epilog="Example: fedrepro compare 003add b0e0b5 --out mine/pixels")
def compare(
    runs: Ids,
    metric: Annotated[str, typer.Option(metavar="M", help="What is compared.")] = "accuracy",
    out: Drawn = None,
    paper: OfPlan = None,
) -> None:
    """Compare recorded runs: how specs differ, how they ended.

    Runs are found as by `fedrepro show`, wherever each is recorded.
    """
    from fedrepro.report import recorded

    found = recorded.find(runs, paper)
    print(recorded.compare(found, metric).set_index("run").T.to_markdown())
    if out:
        _written(recorded.write(found, metric, out))


def _written(files: list[Path]) -> None:
    print("\n".join(f"wrote {file}" for file in files))


@app.command(cls=Command, epilog="Examples: fedrepro verify 0b77a2; fedrepro verify --sample 5")
def verify(
    ids: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN",
            help="Run ids, or how they begin, or files of records; default: a random sample.",
            show_default=False,
        ),
    ] = None,
    number: Annotated[
        int,
        typer.Option("--sample", metavar="N", min=1, help="How many to draw, without RUN."),
    ] = 3,
    seed: Annotated[int, typer.Option(metavar="S", help="Of the draw.")] = 0,
    paper: OfPlan = None,
    scale: PaperScale = "lite",
    max_hours: Annotated[
        float | None,
        typer.Option(
            metavar="H",
            min=0.0,
            help="Of the runs drawn, train the cheapest that fit into so many hours.",
        ),
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            metavar="T",
            min=0.0,
            help="How far a final accuracy, a fraction, may be off on another processor; default: "
            "0.05, or the largest difference measured for its network if that is more "
            "(docs/reproducibility.md).",
        ),
    ] = None,
    data_root: DataRoot = None,
) -> int:
    """Train recorded runs again and compare.

    The named runs, or a random sample of those that a CPU trained, are trained in a temporary
    folder; the records stay as they are. With the processor and PyTorch of the record every number
    must be equal; otherwise the final accuracies must agree within the tolerance. Each line says
    which. The exit status is 1 if a run fails this.
    """
    from fedrepro.runs import verify

    if ids and max_hours is not None:
        raise typer.BadParameter("--max-hours: chooses among runs that are drawn; name none")
    if ids:
        runs = _of_a_cpu(ids, paper)
    else:
        runs = verify.sample(selected(paper, scale), number, seed, max_hours)
    print(verify.plan_text(runs), flush=True)
    failed = 0
    with stopping.interrupting():  # else a signal would leave the temporary folder behind
        for found in verify.verify(runs, data_root, tolerance):
            print(found.text(), flush=True)
            failed += bool(found.beyond)
    print(f"{len(runs) - failed} of {len(runs)} records verified")
    return int(failed > 0)


def _of_a_cpu(ids: list[str], paper: str | None) -> list[PlannedRun]:
    """Return the recorded runs with these ids.

    Raises:
        FedreproError: there is no such run or record, or a GPU trained it.
    """
    from fedrepro.report import recorded

    found = recorded.find(ids, paper)
    for each in found:
        from_ = each.record.provenance
        if from_.device_type != "cpu":
            raise FedreproError(
                f"run {each.run.id} was trained on {from_.device}, where rounding differs each "
                "time; only runs of a CPU are verified"
            )
    return [each.trainable() for each in found]


@app.command(cls=Command)
def prune(
    paper: Annotated[
        str | None,
        typer.Argument(
            metavar="PLAN",
            help="File of a plan of your own (my-plan.yaml): its records that other code trained; "
            "default: the committed records that no plan asks for.",
            show_default=False,
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Remove them, not only list them.")] = False,
) -> None:
    """List or remove records that no plan asks for at any scale.

    For a plan of your own, these are the records in results/own/runs that have the spec of one of
    its runs, but another id, because the code or version of a component has changed. Other files
    are left alone.
    """
    from fedrepro.runs import status

    if paper is None:
        all_papers()  # without their plans, no record would be asked for
        files, what, again = _of_no_run(), "records of no planned run", ""
    else:
        files = [records.path_of(run, records.OWN_FOLDER) for run in status.outdated(paper)]
        what, again = f"records of {paper} by other code", f" {argument(paper)}"
    for file in files:
        if yes:
            file.unlink()
        print(f"{'removed' if yes else 'would remove'} {file}")
    print(f"{len(files)} {what}")
    if files and not yes:
        print(f"nothing was removed; `fedrepro prune{again} --yes` removes them")


def _of_no_run() -> list[Path]:
    """Return the files of committed records that no plan asks for; say which are left alone."""
    from fedrepro.runs import status

    files = []
    for run_id in status.orphans():
        try:
            records.is_recorded(run_id)
            files.append(records.path_of(run_id))
        except FedreproError as error:
            print(f"left alone: {error}")
    return files
