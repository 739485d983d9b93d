"""``python -m fedrepro.runs train``: training where only PyTorch, NumPy, pydantic and PyYAML are.

Elsewhere ``fedrepro train`` does the same.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args, get_origin

from fedrepro import __version__
from fedrepro.runs import training
from fedrepro.runs.command import carry_out, open_streams
from fedrepro.runs.options import Described, TrainArguments, described


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m fedrepro.runs",
        description="Train runs on a machine without the packages that tables and figures need.",
        epilog="Run it in the repository. Where they are installed, `fedrepro` can do more.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    train = commands.add_parser(
        "train", help="train runs and write their records", description=TrainArguments.__doc__
    )
    for option in described():
        _add(train, option)
    return parser


def _add(parser: argparse.ArgumentParser, option: Described) -> None:
    says = option.says
    help = argparse.SUPPRESS if says.hidden else says.help
    if option.name == "runs":
        parser.add_argument("runs", nargs="*", metavar=says.metavar, help=help)
    elif option.type is bool:
        parser.add_argument(option.flag, action="store_true", help=help)
    elif get_origin(option.type) is Literal:
        choices = get_args(option.type)
        parser.add_argument(option.flag, choices=choices, default=option.default, help=help)
    else:
        parser.add_argument(
            option.flag,
            type=_telling(says.read or option.type),
            default=option.default,
            metavar=says.metavar,
            help=help,
        )


def _telling(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """Let argparse show what a function that reads a text says is wrong with it."""

    def reads(text: str) -> Any:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return reads


def parse(argv: Sequence[str] | None = None) -> TrainArguments:
    """Read a command line, that of this process by default."""
    return TrainArguments(**vars(_parser().parse_args(argv)))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    open_streams()
    arguments = parse(argv)
    return carry_out(lambda: training.train(arguments))


if __name__ == "__main__":
    sys.exit(main())
