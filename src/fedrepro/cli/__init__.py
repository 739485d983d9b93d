"""The command line: ``fedrepro <command>``; the Snakefile's rules call the same commands."""

from __future__ import annotations

import io
import signal
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from fedrepro import __version__
from fedrepro.base.errors import FedreproError

try:
    from fedrepro.cli import data, records, results, runs, train
    from fedrepro.runs.command import open_streams, told
except FedreproError as error:  # a component of another distribution that cannot be had
    raise SystemExit(f"fedrepro: {error}") from error

open_streams()
# Frames and colours are for terminals: help and errors in a file are plain text.
app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode="markdown" if sys.stdout.isatty() else None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _group in (train, runs, records, results, data):
    app.add_typer(_group.app)


def _version(asked: bool) -> None:
    if asked:
        print(__version__)
        raise typer.Exit


@app.callback(
    epilog="In the repository, the records of the papers are in results/runs; in any other folder, "
    "those of your own plans are in results/own/runs. The whole pipeline is `snakemake --cores 8 "
    "all`."
)
def _fedrepro(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Re-create the tables and figures of five papers on federated learning with non-IID data.

    From committed run records, or by training.
    """


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status. User errors are one message, no traceback."""
    out = sys.stdout
    if isinstance(out, io.TextIOWrapper) and (out.errors == "strict" or out.encoding != "utf-8"):
        out.reconfigure(errors="backslashreplace")  # a name that its encoding has not
    try:
        typer.main.get_command(app).main(argv, prog_name="fedrepro")
    except SystemExit as end:
        return int(end.code or 0)
    except KeyboardInterrupt:  # before the command has begun
        return 128 + signal.SIGINT
    except OSError as error:  # no room for a help, say
        print(f"fedrepro: {told(error)}", file=sys.stderr)
        return 1
    return 0
