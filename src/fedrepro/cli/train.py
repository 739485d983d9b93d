"""``fedrepro train``, whose options are those of :mod:`fedrepro.runs.options`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any, Literal, get_args, get_origin

import typer

from fedrepro.cli.command import Command, one_of
from fedrepro.runs.options import Described, TrainArguments, described

app = typer.Typer()


def _reader(option: Described) -> Callable[[str], Any] | None:
    """Return what reads an option's value; typer shows what it says is wrong with it."""
    read = option.says.read
    if read is None:
        return None

    def reads(text: str) -> Any:
        try:
            return read(text)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint=option.flag) from error

    return reads


def _parameter(option: Described) -> inspect.Parameter:
    """Return the parameter that typer makes an option or argument of."""
    says = option.says
    shown: dict[str, Any] = {"help": says.help, "show_default": False}
    kind: Any = option.type | None if option.optional else option.type
    default = option.default
    if option.name == "runs":
        kind, default, info = list[str] | None, None, typer.Argument(metavar=says.metavar, **shown)
    elif get_origin(option.type) is Literal:
        info = typer.Option(option.flag, **one_of(get_args(option.type)), **shown)
    else:
        reader, metavar = _reader(option), says.metavar
        info = typer.Option(
            option.flag, parser=reader, metavar=metavar, hidden=says.hidden, **shown
        )
    return inspect.Parameter(
        option.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[kind, info],
    )


def train(**given: Any) -> int:
    """Train the runs; the parameters are the fields of :class:`TrainArguments`."""
    from fedrepro.runs import training

    arguments = TrainArguments(**given | {"runs": given["runs"] or ()})
    return training.train(arguments, next_step=True)


train.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [_parameter(option) for option in described()]
)
app.command(cls=Command, help=TrainArguments.__doc__)(train)
