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


def npz(text: str | Path) -> Path:
    """Read an option that names a file of arrays."""
    file = path(text)
    if file.suffix != ".npz":
        raise typer.BadParameter(f"{text}: it is written as npz; name a file that ends in .npz")
    return file


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
        help="Slug of the paper, such as emd, or the file of your own plan (my-plan.yaml); also "
        "as `--paper PAPER`.",
    ),
]
OptionalPaper = Annotated[
    str | None,
    typer.Argument(
        metavar="PAPER",
        help="Slug of the paper, such as emd, or the file of your own plan (my-plan.yaml); also "
        "as `--paper PAPER`; default: all papers.",
        show_default=False,
    ),
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


_SHOWING = ("status", "why", "show", "compare", "table", "figure", "list")
"""Commands of which whoever reads the output may have seen enough."""


class Command(TyperCommand):
    """A command of ours: papers are checked before it runs, and user errors are one message.

    The argument PAPER may be given as an option, as other commands have it. Where an argument is
    missing, the message ends with the example of the command's epilog.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments."""
        try:
            if any((x.param_type_name, x.metavar) == ("argument", "PAPER") for x in self.params):
                args = _paper_first(args)
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            error.message = error.message or self.epilog or ""  # only a missing one says nothing
            error.ctx = error.ctx or ctx
            raise

    def invoke(self, ctx: Any) -> NoReturn:
        """Run the command and end with its exit status."""

        def work() -> int | None:
            if ctx.params.get("paper") is not None:
                ctx.params["paper"] = known_paper(ctx.params["paper"])
            status: int | None = super(Command, self).invoke(ctx)
            return status

        # work that ended in its middle, or a verdict that nobody read, is no success
        raise typer.Exit(carry_out(work, unread=0 if self.name in _SHOWING else 1))


def _paper_first(args: Sequence[str]) -> list[str]:
    """Return the words of a command with those in front that ``--paper`` names.

    Raises:
        typer.BadParameter: the last word is ``--paper``.
    """
    papers, others, words = list[str](), list[str](), iter(args)
    for word in words:
        option, equals, paper = word.partition("=")
        if option != "--paper":
            others += [word, *words] if word == "--" else [word]
        elif (named := paper if equals else next(words, None)) is None:
            raise typer.BadParameter("--paper: name a paper")
        else:
            papers.append(named)
    return papers + others


def require_root(what: str) -> None:
    """Refuse to go on elsewhere than in the repository's root.

    Args:
        what: what is made, and a verb.

    Raises:
        FedreproError: the working directory is another one.
    """
    if Path.cwd().resolve() != root():
        raise FedreproError(f"run it in {root()}: {what} made from the records there")
