"""What all commands share: how they run and end, and the options that several of them have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand

from fedrepro.base.errors import FedreproError
from fedrepro.base.files import named
from fedrepro.base.paths import root
from fedrepro.runs.command import carry_out, known_paper
from fedrepro.runs.plan_schema import Scale

# Commands import what they need themselves: `fedrepro status` must not wait for PyTorch.


def path(text: str | Path) -> Path:
    """Read an option or argument that names a file or a folder."""
    try:
        return named(str(text))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


PaperName = Annotated[
    str,
    typer.Argument(
        help="Slug of the paper, such as emd, or the file of your own plan (my-plan.yaml)."
    ),
]
PaperScale = Annotated[Scale, typer.Option(help="The plan's scale.")]
DataRoot = Annotated[
    Path | None,
    typer.Option(
        "--data-root",
        metavar="DIR",
        parser=path,
        help="Folder of packed data; default: $FEDREPRO_DATA.",
    ),
]


class Command(TyperCommand):
    """A command of ours: papers are checked before it runs, and user errors are one message."""

    def invoke(self, ctx: Any) -> NoReturn:
        """Run the command and end with its exit status."""

        def work() -> int | None:
            if ctx.params.get("paper") is not None:
                ctx.params["paper"] = known_paper(ctx.params["paper"])
            status: int | None = super(Command, self).invoke(ctx)
            return status

        # a verdict that nobody read is none
        raise typer.Exit(carry_out(work, unread=1 if self.name == "check" else 0))


def require_root(what: str) -> None:
    """Refuse to go on elsewhere than in the repository's root.

    Args:
        what: what is made, and a verb.

    Raises:
        FedreproError: the working directory is another one.
    """
    if Path.cwd().resolve() != root():
        raise FedreproError(f"run it in {root()}: {what} made from the records there")
