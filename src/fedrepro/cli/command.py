"""What all commands share: how they run and end, and the options that several of them have."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand

from fedrepro.base.configfile import nearest
from fedrepro.base.errors import FedreproError
from fedrepro.base.files import named
from fedrepro.base.paths import root
from fedrepro.runs.command import carry_out, known_paper
from fedrepro.runs.plan_schema import SCALES, Scale

# Commands import what they need themselves: `fedrepro status` must not wait for PyTorch.


def path(text: str | Path) -> Path:
    """Read an option or argument that names a file or a folder."""
    try:
        return named(str(text))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def stem(text: str | Path) -> Path:
    """Read an option that names files without their endings."""
    file = path(text)
    if file.name in ("", "..") or str(text).endswith("/"):
        raise typer.BadParameter(f"{text} is a folder; name files in it, such as {file / 'name'}")
    if file.suffix in _ENDINGS:
        raise typer.BadParameter(f"{text}: leave out {file.suffix}; each file gets its ending")
    return file


_ENDINGS = (".csv", ".md", ".png", ".svg")


def one_of(known: Sequence[str]) -> dict[str, Any]:
    """Return what makes an option take one of some words, and name the nearest of a wrong one."""

    def read(word: str) -> str:
        if word not in known:
            raise typer.BadParameter(f"'{word}' {nearest(word, known)}")
        return word

    return {"parser": read, "metavar": f"<{'|'.join(known)}>"}


PaperName = Annotated[
    str,
    typer.Argument(
        metavar="PAPER",
        help="Slug of the paper, such as emd, or the file of your own plan (my-plan.yaml).",
    ),
]
OptionalPaper = Annotated[
    str | None,
    typer.Argument(
        metavar="PAPER",
        help="Slug of the paper, such as emd, or the file of your own plan (my-plan.yaml); "
        "default: all papers.",
        show_default=False,
    ),
]
AsOption = Annotated[
    str | None, typer.Option("--paper", metavar="PAPER", help="The argument PAPER, as an option.")
]
PaperScale = Annotated[Scale, typer.Option(help="The plan's scale.", **one_of(SCALES))]
DataRoot = Annotated[
    Path | None,
    typer.Option(
        "--data-root",
        metavar="DIR",
        parser=path,
        help="Folder of packed data (`fedrepro data pack`); default: $FEDREPRO_DATA.",
    ),
]


class Command(TyperCommand):
    """A command of ours: papers are checked before it runs, and user errors are one message.

    Where an argument is missing, the message ends with the example of the command's epilog.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments."""
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            error.message = error.message or self.epilog or ""  # only a missing one says nothing
            raise

    def invoke(self, ctx: Any) -> NoReturn:
        """Run the command and end with its exit status."""

        def work() -> int | None:
            for name in ("paper", "as_option"):
                if ctx.params.get(name) is not None:
                    ctx.params[name] = known_paper(ctx.params[name])
            status: int | None = super(Command, self).invoke(ctx)
            return status

        # a verdict that nobody read is none
        raise typer.Exit(carry_out(work, unread=1 if self.name == "check" else 0))


def either(paper: str | None, as_option: str | None) -> str | None:
    """Return the paper that is named as an argument or as an option; None: neither is.

    Raises:
        typer.BadParameter: both name one.
    """
    if paper is not None and as_option is not None:
        raise typer.BadParameter("name the paper once, with --paper or without")
    return as_option if paper is None else paper


def require_root(what: str) -> None:
    """Refuse to go on elsewhere than in the repository's root.

    Args:
        what: what is made, and a verb.

    Raises:
        FedreproError: the working directory is another one.
    """
    if Path.cwd().resolve() != root():
        raise FedreproError(f"run it in {root()}: {what} made from the records there")
