"""``fedrepro data`` and ``schema``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedrepro.cli.command import Command, DataRoot, path
from fedrepro.cli.output import show

app = typer.Typer()
actions = typer.Typer(no_args_is_help=True)
app.add_typer(actions, name="data")

Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="NAME", help="Data sets; default: all that are here."),
]


@actions.callback()
def _data() -> None:
    """List, verify, pack and import data sets.

    Data sets come from FEDREPRO_DATA (a pack), data/pack, data/raw or a download, in this order.
    """


@actions.command("list", cls=Command)
def list_datasets(data_root: DataRoot = None) -> None:
    """Show what there is and where it would come from."""
    from fedrepro.fl.data import commands

    show(commands.list_datasets(data_root))


@actions.command(cls=Command)
def verify(names: Names = None, data_root: DataRoot = None) -> None:
    """Load data sets and check counts, shapes and hashes."""
    from fedrepro.fl.data import commands

    print(commands.verify(names or [], data_root))


@actions.command(cls=Command, epilog="Example: fedrepro data pack pack/ cifar10")
def pack(
    out: Annotated[Path, typer.Argument(metavar="DIR", parser=path, help="Folder to write.")],
    names: Names = None,
    data_root: DataRoot = None,
) -> None:
    """Write a pack for machines without internet."""
    from fedrepro.fl.data import commands

    print(commands.pack(out, names or [], data_root))


@actions.command("import", cls=Command, epilog="Example: fedrepro data import pack/")
def import_pack(
    source: Annotated[
        Path,
        typer.Argument(metavar="PACK", parser=path, help="A pack's folder or one of its files."),
    ],
    to: Annotated[Path, typer.Option(metavar="DIR", parser=path, help="Where to copy it.")] = Path(
        "data/pack"
    ),
) -> None:
    """Verify a pack and copy it to data/pack."""
    from fedrepro.fl.data import commands

    print(commands.import_pack(source, to))


@actions.command(cls=Command, epilog="Example: fedrepro data prepare mnist --out mnist.json")
def prepare(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Data set.")],
    out: Annotated[
        Path, typer.Option(metavar="FILE.json", parser=path, help="The manifest to write.")
    ],
    data_root: DataRoot = None,
    content: Annotated[
        str | None,
        typer.Option(
            metavar="SHA256", help="Content hash of other data, where a plan's runs are on them."
        ),
    ] = None,
) -> None:
    """Make sure a data set is here, and write a manifest."""
    from fedrepro.fl.data import commands

    print(commands.prepare(name, out, data_root, content=content))


@app.command(cls=Command)
def schema(
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", parser=path, help="Folder; default: config/schemas."),
    ] = None,
) -> None:
    """Export the JSON schemas of the configuration.

    That is of configuration, data sets, plans, published values, cited cells and specs.
    """
    from fedrepro.workflow.schemas import write_schemas

    for file in write_schemas(out):
        print(file)
