"""What is made of records: ``fedrepro check``, ``table``, ``figure``, ``report``, ``docs``, ..."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from fedrepro.base.configfile import nearest
from fedrepro.base.errors import FedreproError
from fedrepro.base.paths import root
from fedrepro.cli.command import (
    Command,
    DataRoot,
    OptionalPaper,
    PaperName,
    PaperScale,
    npz,
    path,
    require_root,
    stem,
)
from fedrepro.cli.output import show, width
from fedrepro.runs.command import all_papers, known_paper
from fedrepro.runs.plan_schema import COMMITTED, Scale

if TYPE_CHECKING:
    from fedrepro.report.checks import Check

app = typer.Typer()

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="Its name in the plan, such as table2 or fig3.")
]
Stem = Annotated[Path, typer.Option(metavar="STEM", parser=stem, help="File name without ending.")]
OptionalStem = Annotated[
    Path | None,
    typer.Option(metavar="STEM", parser=stem, help="File name without ending; default: print it."),
]
Partial = Annotated[
    bool,
    typer.Option(
        "--partial",
        help="Make do with the runs that are recorded, and say which are left out.",
    ),
]


@app.command(cls=Command)
def check(
    paper: OptionalPaper = None,
    scale: PaperScale = "lite",
    as_json: Annotated[
        bool, typer.Option("--json", help="As a JSON list, one entry a check.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", parser=path, help="Also write the JSON list here."),
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Show every check, then the counts.")
    ] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="VERDICT", help="Show the checks with this verdict; may be given several times."
        ),
    ] = None,
    against_released: Annotated[
        bool, typer.Option("--against-released", help="Fail if a released verdict changed.")
    ] = False,
    release: Annotated[
        bool, typer.Option("--release", help="Make these the released verdicts.")
    ] = False,
) -> None:
    """Compare our runs with every published number and claim.

    Numbers are judged at the published scale, claims also at lite.
    """
    from fedrepro.base.files import write_text
    from fedrepro.report import checks, criteria, released, score, verdicts

    known = list(get_args(checks.Verdict))
    for verdict in only or ():
        if verdict not in known:
            raise typer.BadParameter(f"--only: no verdict '{verdict}' {nearest(verdict, known)}")
    if release and against_released:
        raise typer.BadParameter("--release: not allowed with --against-released")
    if release:
        require_root("the released verdicts are")
    found = {name: verdicts.check(name, scale) for name in ([paper] if paper else all_papers())}
    everything = [item for items in found.values() for item in items]
    if out:
        write_text(out, checks.to_json(everything))
    changed = _changes(found, scale) if against_released else []
    if release:
        criteria.take_over()
        for name, items in found.items():
            write_text(released.path_of(name, scale), released.text(items))
    chosen = [item for item in everything if item.verdict in (only or known)]
    try:
        if as_json:
            print(checks.to_json(chosen), end="")
        elif only:
            count = f"{len(chosen)} of {len(everything)} checks"
            show("\n".join([*map(checks.line, chosen), count]), wrap=True)
        else:
            show(score.text(everything, verbose=verbose, width=width()), wrap=True)
            if scale not in COMMITTED:
                print(
                    f"\nNothing is judged at scale {scale}: "
                    "numbers are at the published one, claims also at lite."
                )
    finally:  # whoever reads the output may have stopped reading
        if changed:
            advice = "look into it; `fedrepro check --release` makes the new ones current"
            raise FedreproError("\n".join([*changed, advice]))


def _changes(found: Mapping[str, Sequence[Check]], scale: Scale) -> list[str]:
    """Return for each paper whose verdicts are not the released ones what differs."""
    from fedrepro.report import released

    changed = []
    for name, items in found.items():
        file = released.path_of(name, scale)
        if changes := released.changes(items, file):
            title = f"verdicts of {name} differ from the released ones in {file}:"
            changed.append("\n  ".join([title, *changes]))
    return changed


@app.command(cls=Command, epilog="Example: fedrepro table emd table2")
def table(
    paper: PaperName,
    name: Name,
    out: OptionalStem = None,
    scale: PaperScale = "lite",
    partial: Partial = False,
    as_latex: Annotated[
        bool, typer.Option("--latex", help="Print it for LaTeX with the package booktabs.")
    ] = False,
) -> None:
    """Print one table, or write it as csv, md."""
    from fedrepro.report import artefacts
    from fedrepro.runs.runset import RunSet

    if out and as_latex:
        raise typer.BadParameter("--latex: not allowed with --out, which writes csv and md")
    runs = RunSet(paper, scale)
    if out:
        artefacts.write_table(runs, name, out, partial=partial)
        _say_written(out, "csv", "md")
        return
    runs.plan.artefact(name, "table")
    cells = artefacts.frame(runs, name, partial=partial)
    if as_latex:
        print(artefacts.latex(runs, name, cells), end="")
    else:
        show(artefacts.markdown(runs, name, cells).rstrip())


@app.command(cls=Command, epilog="Example: fedrepro figure emd fig1a --out mine/fig1a")
def figure(
    paper: PaperName,
    name: Name,
    out: OptionalStem = None,
    scale: PaperScale = "lite",
    partial: Partial = False,
) -> None:
    """Print one figure's numbers, or write it as svg, png, csv.

    Without --out the numbers go into a pipe or file, not to a terminal: they may be thousands of
    lines.
    """
    from fedrepro.report import artefacts
    from fedrepro.runs.runset import RunSet

    runs = RunSet(paper, scale)
    if out:
        from fedrepro.report.drawings import write_figure  # Matplotlib is slow to import

        write_figure(runs, name, out, partial=partial)
        _say_written(out, "svg", "png", "csv")
        return
    runs.plan.artefact(name, "figure")
    if sys.stdout.isatty():
        raise FedreproError(
            f"the numbers of a figure are too many for a terminal: write it with `--out {name}`, "
            "as svg, png and csv, or pipe the numbers into a program or file"
        )
    print(artefacts.as_csv(artefacts.frame(runs, name, partial=partial)), end="")


@app.command(cls=Command, epilog="Example: fedrepro partition emd 0b77a2 --out lists.npz")
def partition(
    paper: PaperName,
    id: Annotated[
        str,
        typer.Argument(
            metavar="ID", help="Id of the partition, or of a run that uses it, or how that begins."
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="FILE.npz", parser=npz, help="File to write.")],
    scale: PaperScale = "lite",
    data_root: DataRoot = None,
) -> None:
    """Write the index lists of one partition.

    Builds it from the data, checks it against the digest in the records of its runs, and writes the
    clients' index lists as npz.
    """
    from fedrepro.report import partitions

    partitions.write_indices(paper, scale, id, out, data_root)
    print(out)


@app.command(cls=Command, epilog="Example: fedrepro partitions emd --out mine/partitions")
def partitions(
    paper: PaperName, out: Stem, scale: PaperScale = "lite", partial: Partial = False
) -> None:
    """Write a paper's table and figure of class counts.

    They show class counts and EMD of every client of every partition, from records; no data are
    needed.
    """
    from fedrepro.report.partitions import write_overview

    write_overview(paper, scale, out, partial=partial)
    _say_written(out, "csv", "svg", "png")


def _say_written(out: Path, *endings: str) -> None:
    """Print the files that were written, a line each."""
    for ending in endings:
        print(out.with_name(f"{out.name}.{ending}"))


@app.command(cls=Command)
def report(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PAPER", help="Slugs of the papers; also as `--paper PAPER`; default: all."
        ),
    ] = None,
    scale: PaperScale = "lite",
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", parser=path, help="Where; default: results/<scale>/report."),
    ] = None,
    partial: Partial = False,
) -> None:
    """Write the report: pages from every number to its runs.

    It is made from the tables, figures, verdicts and notebooks in results/<scale>, which
    `snakemake all_report` makes first; with --partial, from the records alone, without notebooks.
    An older report in the folder is replaced.
    """
    from fedrepro.report.html import site

    results = Path("results")
    chosen = dict.fromkeys(map(known_paper, names) if names else all_papers())
    folder = out or results / scale / "report"
    print(site.write(chosen, scale, results, folder, partial=partial))


@app.command(cls=Command)
def docs(
    check: Annotated[bool, typer.Option("--check", help="Fail if a block is not current.")] = False,
) -> None:
    """Write the numbers in README and docs from the records.

    Fills the generated blocks of README.md and docs, then compares the numbers in sentences with
    the cells that config/cited/*.yaml names.
    """
    from fedrepro.report import cited, documents

    require_root("the numbers in the documents are")
    changed = [str(file.relative_to(root())) for file in documents.update(dry_run=check)]
    if changed and check:
        raise FedreproError(
            f"{', '.join(changed)}: numbers are not those of the records; `fedrepro docs` writes "
            "them anew"
        )
    print("\n".join(f"updated {file}" for file in changed) or "all generated numbers are current")
    if wrong := cited.wrong():
        raise FedreproError("\n".join([*wrong, "put the text right, or the file that cites it"]))
