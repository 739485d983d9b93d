"""``fedrepro records``: records that travel between machines, and who vouches for them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from fedrepro.base.errors import FedreproError
from fedrepro.cli.command import Command, path
from fedrepro.runs import records, stopping

app = typer.Typer()
actions = typer.Typer(no_args_is_help=True)
app.add_typer(actions, name="records")

SIGNERS = "File of the keys that count, a line a key: NAME KEY (ssh-keygen(1), ALLOWED SIGNERS)."

Address = Annotated[
    str,
    typer.Argument(
        metavar="ADDRESS", help="Folder, or address of fsspec, such as s3://bucket/folder."
    ),
]
SomeIds = Annotated[
    list[str] | None,
    typer.Argument(metavar="RUN", help="Ids of runs, or how they begin; default: all."),
]
SomeFiles = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="RUN|FILE",
        help="Ids of runs, or files of train --out; default: the committed records.",
    ),
]


@actions.callback()
def _records() -> None:
    """Take in records of other machines, share and sign them."""


@actions.command("import", cls=Command, epilog="Example: fedrepro records import new.tar")
def import_records(
    source: Annotated[
        Path, typer.Argument(metavar="FILE.tar", parser=path, help="A file of `train --out`.")
    ],
    signers: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", parser=path, help=f"Take it only if FILE.tar.sig is good. {SIGNERS}"
        ),
    ] = None,
) -> None:
    """Verify a tar file's content and take it in.

    It holds records and checkpoints that `fedrepro train --out` wrote on another machine. What is
    verified protects against damage, not against a deliberate edit: a signature says whose it is,
    and `fedrepro verify` trains runs again.
    """
    from fedrepro.runs import signatures, transfer
    from fedrepro.runs.options import CHECKPOINTS

    if signers is not None:
        print(f"{source}: signed by {signatures.signer(source, signers)}")
    with stopping.interrupting():  # else a signal would leave what is unpacked behind
        print(transfer.read(source, CHECKPOINTS).text())


@actions.command("push", cls=Command, epilog="Example: fedrepro records push s3://bucket/team")
def push_records(address: Address, runs: SomeIds = None) -> None:
    """Add records to a store that several machines share.

    What the store holds is never replaced: where it has something else under the name of a record,
    that is an error, and the others are added.
    """
    from fedrepro.runs import shared
    from fedrepro.runs.store import Store

    store = Store(address)
    files = [
        records.path_of(run, folder).as_posix()
        for folder in (records.FOLDER, records.OWN_FOLDER)
        for run in records.recorded_ids(folder)
    ]
    if not files:
        raise FedreproError(f"{records.FOLDER}, {records.OWN_FOLDER}: no record to push")
    moved = shared.push(store, list(map(Path, shared.chosen(files, runs or [], "results"))))
    print(moved.text(f"pushed to {store.address}"))
    moved.require_all()


@actions.command("pull", cls=Command, epilog="Example: fedrepro records pull s3://bucket/team")
def pull_records(address: Address, runs: SomeIds = None) -> None:
    """Take in records from a store, each verified first.

    They are verified as by `records import`. A record that is here already stays. What is not a
    valid record is refused by name, and the rest is taken in.
    """
    from fedrepro.runs import shared
    from fedrepro.runs.options import CHECKPOINTS
    from fedrepro.runs.store import Store

    store = Store(address)
    store.require()
    listed = shared.listed(store)
    names = shared.chosen(listed, runs or [], store.address)
    moved = shared.pull(store, {name: listed[name] for name in names}, CHECKPOINTS)
    print(moved.text(f"pulled from {store.address}"))
    moved.require_all()


@actions.command(cls=Command, epilog="Example: fedrepro records sign --key ~/.ssh/id_ed25519")
def sign(
    key: Annotated[Path, typer.Option(metavar="FILE", parser=path, help="Private SSH key.")],
    what: SomeFiles = None,
) -> None:
    """Sign records, or files of `train --out`, with an SSH key.

    The signature of FILE is FILE.sig. Records are verified first.
    """
    from fedrepro.runs import signatures

    for file in _files(what):
        if file.suffix == ".json":
            records.read(file.stem, file.parent)
        print(signatures.sign(file, key))


@actions.command(
    "signatures", cls=Command, epilog="Example: fedrepro records signatures --signers signers.txt"
)
def check_signatures(
    signers: Annotated[Path, typer.Option(metavar="FILE", parser=path, help=SIGNERS)],
    what: SomeFiles = None,
) -> int:
    """Check who signed records, or files of `train --out`.

    Exits with 1 if one of them has no valid signature by one of the given keys.
    """
    from fedrepro.runs import signatures

    files, by = _files(what), Counter[str]()
    for file in files:
        try:
            by[signatures.signer(file, signers)] += 1
        except FedreproError as error:
            print(error)
    names = ", ".join(f"{count} by {name}" for name, count in by.most_common())
    print(f"{by.total()} of {len(files)} records signed{': ' * bool(names)}{names}")
    return int(by.total() < len(files))


def _files(what: list[str] | None) -> list[Path]:
    """Return the files that ids of runs and names of files mean; without any, all records."""
    if what:
        return [_file(name) for name in what]
    files = [records.path_of(run) for run in records.recorded_ids()]
    if not files:
        raise FedreproError(f"{records.FOLDER}: no record there; give ids of runs, or files")
    return files


def _file(name: str) -> Path:
    places = [records.path_of(name, folder) for folder in (records.FOLDER, records.OWN_FOLDER)]
    found = next((file for file in (*places, Path(name)) if file.is_file()), None)
    if found is None:
        raise FedreproError(f"{name}: neither the id of a recorded run nor a file")
    return found
