"""The command line: ``fedrepro <command>``; the Snakefile's rules call the same commands."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from fedrepro import __version__
from fedrepro.base.errors import FedreproError
from fedrepro.base.paths import find_root, root
from fedrepro.fl.engine import BACKENDS, CHOICES
from fedrepro.runs import records
from fedrepro.runs.plan import (
    SCALES,
    PlannedRun,
    expand,
    load_plan,
    papers,
    plans,
    unique,
    use_plans,
)

# Commands import what they need themselves: `fedrepro status` must not wait for PyTorch.


def _add_scale(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--scale", choices=SCALES, default="lite", help="default: lite")


def _add_selection(parser: argparse.ArgumentParser, *, all_scales: bool = False) -> None:
    parser.add_argument(
        "--paper",
        metavar="P",
        help="only the runs of this paper, or study of our own (precision); default: all papers",
    )
    parser.add_argument(
        "--scale",
        choices=SCALES,
        default=None if all_scales else "lite",
        help="the plan's scale" + ("; default: all" if all_scales else "; default: lite"),
    )


def _selected(arguments: argparse.Namespace, *, studies: bool = False) -> list[PlannedRun]:
    """Return the distinct planned runs that --paper and --scale select, in priority order.

    Without --paper these are the papers' runs, and those of our own studies if asked for.
    """
    every = plans() if studies else papers()
    names = [arguments.paper] if arguments.paper else every
    scales = [arguments.scale] if arguments.scale else list(SCALES)
    return list(unique([r for s in scales for name in names for r in expand(name, s)]).values())


def _train(arguments: argparse.Namespace) -> int:
    if bool(arguments.runs) == arguments.pending:
        raise FedreproError("fedrepro train: give run ids or plans, or --pending, and not both")
    own = [name for name in arguments.runs if _is_plan(name)]
    planned = (
        _of_plans(arguments, own) if own else _selected(arguments, studies=bool(arguments.runs))
    )
    if arguments.runs and not own:
        known = {run.id: run for run in planned}
        unknown = [name for name in arguments.runs if name not in known]
        if unknown:
            raise FedreproError(
                f"no planned run has the id {unknown[0]}; `fedrepro status --list` shows the ids"
            )
        planned = [known[name] for name in dict.fromkeys(arguments.runs)]
    if arguments.pending and not arguments.device.startswith("cuda"):
        planned = _without_gpu(planned)
    with _terminated_like_interrupted():
        devices = _devices(arguments.device)
        if len(devices) > 1:
            return _train_on_all(arguments, planned, devices)
        return _train_here(arguments, planned)


def _is_plan(name: str) -> bool:
    """Return whether an argument is a plan of one's own, or a folder of them, not a name or id."""
    return Path(name).suffix in (".yaml", ".yml") or Path(name).is_dir()


def _of_plans(arguments: argparse.Namespace, places: Sequence[str]) -> list[PlannedRun]:
    """Return the distinct runs of plans of one's own."""
    if len(places) < len(arguments.runs):
        raise FedreproError("fedrepro train: give run ids, or plans, and not both")
    names = [name for place in places for name in use_plans(place)]
    scale = arguments.scale or "lite"
    return list(unique([run for name in names for run in expand(name, scale)]).values())


def _without_gpu(planned: Sequence[PlannedRun]) -> list[PlannedRun]:
    """Leave out runs that only a GPU can train, and say how many of them are pending."""
    left_out = [run for run in planned if run.spec.precision == "tf32"]
    pending = sum(not run.recorded for run in left_out)
    if pending:
        print(
            f"{pending} pending runs are left out: precision: tf32 needs --device cuda",
            file=sys.stderr,
        )
    return [run for run in planned if run.spec.precision != "tf32"]


@contextlib.contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """Let SIGTERM end the training as Ctrl-C does: with checkpoints, and with what --out asks."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _devices(device: str) -> list[str]:
    """Return the devices that --device names: ``cuda`` is every GPU that PyTorch sees."""
    if device != "cuda":
        return [device]
    import torch

    count = torch.cuda.device_count()
    return [device] if count < 2 else [f"cuda:{i}" for i in range(count)]


def _train_here(arguments: argparse.Namespace, planned: Sequence[PlannedRun]) -> int:
    from fedrepro.runs.session import TrainOptions, train

    time_budget = arguments.time_budget
    if arguments.deadline is not None:
        time_budget = max(arguments.deadline - time.monotonic(), 0.0)
    options = TrainOptions(
        device=arguments.device,
        backend=arguments.backend,
        workers=arguments.workers,
        compile=arguments.compile,
        deterministic=arguments.deterministic,
        in_flight=arguments.in_flight,
        data_root=arguments.data_root,
        checkpoint_seconds=arguments.checkpoint_seconds,
        time_budget=time_budget,
        out=arguments.out,
        wait=bool(arguments.runs),
    )
    trained = train(planned, options)
    print(f"{trained} of {len(planned)} runs trained")
    return 0


def _train_on_all(
    arguments: argparse.Namespace, planned: Sequence[PlannedRun], devices: Sequence[str]
) -> int:
    """Train in one process a GPU: they share the runs by the locks on them.

    Each names its GPU as ``cuda:1`` rather than seeing no other one: the names are then those that
    the user knows, and what CUDA_VISIBLE_DEVICES says, in whatever form, stays as it is.
    """
    from fedrepro.runs import session, side_by_side

    session.check_out(arguments.out)
    deadline = None
    if arguments.time_budget is not None:
        deadline = time.monotonic() + arguments.time_budget
    pending = [run for run in planned if not run.recorded]
    commands = {device: _train_command(arguments, device, deadline) for device in devices}
    try:
        return side_by_side.run(commands)
    finally:  # also what a process that was killed had written
        trained = [run for run in pending if run.recorded]
        if arguments.out is not None:
            files = [records.path_of(run.id, run.records) for run in trained]
            session.write_out(arguments.out, files, planned)
        print(f"{len(trained)} of {len(planned)} runs trained on {len(devices)} GPUs")


def _train_command(arguments: argparse.Namespace, device: str, deadline: float | None) -> list[str]:
    """Return the command that trains the same runs on one device; it writes no --out."""
    options = {
        "--paper": arguments.paper,
        "--scale": arguments.scale,
        "--device": device,
        "--backend": arguments.backend,
        "--workers": arguments.workers,
        "--compile": arguments.compile,
        "--in-flight": arguments.in_flight,
        "--deadline": deadline,
        "--checkpoint-seconds": arguments.checkpoint_seconds,
        "--data-root": arguments.data_root,
    }
    given = [f"{name}={value}" for name, value in options.items() if value is not None]
    given += ["--deterministic"] * arguments.deterministic
    runs = ["--pending"] if arguments.pending else arguments.runs
    return [sys.executable, "-m", "fedrepro.cli", "train", *given, *runs]


def _records(arguments: argparse.Namespace) -> None:
    from fedrepro.runs import transfer
    from fedrepro.runs.session import CHECKPOINTS

    print(transfer.read(arguments.source, CHECKPOINTS).text())


def _status(arguments: argparse.Namespace) -> None:
    from fedrepro.runs import status

    report = status.status(_selected(arguments))
    if arguments.json:
        print(json.dumps(report.to_json(), indent=1))
    else:
        print(report.text(list_runs=arguments.list))


def _why(arguments: argparse.Namespace) -> None:
    from fedrepro.report import trace

    print(trace.why(arguments.paper, arguments.artefact, arguments.cell, arguments.scale))


def _prune(arguments: argparse.Namespace) -> None:
    from fedrepro.runs import status

    files = []
    for run_id in status.orphans():
        try:
            records.is_recorded(run_id)
            files.append(records.path_of(run_id))
        except FedreproError as error:
            print(f"left alone: {error}")
    for file in files:
        if arguments.yes:
            file.unlink()
        print(f"{'removed' if arguments.yes else 'would remove'} {file}")
    print(f"{len(files)} records of no planned run")
    if files and not arguments.yes:
        print("nothing was removed; `fedrepro prune --yes` removes them")


def _check(arguments: argparse.Namespace) -> None:
    from fedrepro.base.files import write_text
    from fedrepro.report import score, verdicts

    if arguments.release:
        _require_root("the released verdicts are")
    names = [arguments.paper] if arguments.paper else papers()
    found = {name: verdicts.check(name, arguments.scale) for name in names}
    everything = [item for items in found.values() for item in items]
    if arguments.out:
        write_text(arguments.out, verdicts.to_json(everything))
    changed = []
    for name, items in found.items():
        file = verdicts.released_file(name, arguments.scale)
        if arguments.release:
            write_text(file, verdicts.released(items))
        elif arguments.against_released and (changes := verdicts.changes(items, file)):
            title = f"verdicts of {name} differ from the released ones in {file}:"
            changed.append("\n  ".join([title, *changes]))
    try:
        if arguments.json:
            print(verdicts.to_json(everything), end="")
        else:
            print(score.text(everything, verbose=arguments.verbose))
    finally:  # whoever reads the output may have stopped reading
        if changed:
            advice = "look into it; `fedrepro check --release` makes the new ones current"
            raise FedreproError("\n".join([*changed, advice]))


def _table(arguments: argparse.Namespace) -> None:
    from fedrepro.report.artefacts import write_table
    from fedrepro.runs.runset import RunSet

    runs = RunSet(arguments.paper, arguments.scale)
    write_table(runs, arguments.name, arguments.out, partial=arguments.partial)


def _figure(arguments: argparse.Namespace) -> None:
    from fedrepro.report.artefacts import write_figure
    from fedrepro.runs.runset import RunSet

    runs = RunSet(arguments.paper, arguments.scale)
    write_figure(runs, arguments.name, arguments.out, partial=arguments.partial)


def _partition(arguments: argparse.Namespace) -> None:
    from fedrepro.report import partitions

    partitions.write_indices(
        arguments.paper, arguments.scale, arguments.id, arguments.out, arguments.data_root
    )


def _partitions(arguments: argparse.Namespace) -> None:
    from fedrepro.report import partitions

    partitions.write_overview(arguments.paper, arguments.scale, arguments.out)


def _schema(arguments: argparse.Namespace) -> None:
    from fedrepro.workflow.schemas import write_schemas

    for file in write_schemas(arguments.out):
        print(file)


def _docs(arguments: argparse.Namespace) -> None:
    from fedrepro.report import documents

    _require_root("the numbers in the documents are")
    changed = documents.update(dry_run=arguments.check)
    if changed and arguments.check:
        raise FedreproError(
            f"{', '.join(file.name for file in changed)}: numbers are not those of the records; "
            "`fedrepro docs` writes them anew"
        )
    print("\n".join(f"updated {file}" for file in changed) or "all numbers are current")


def _data(arguments: argparse.Namespace) -> None:
    from fedrepro.fl.data import commands

    if arguments.action == "list":
        print(commands.list_datasets(arguments.data_root))
    elif arguments.action == "verify":
        print(commands.verify(arguments.names, arguments.data_root))
    elif arguments.action == "pack":
        print(commands.pack(arguments.out, arguments.names, arguments.data_root))
    elif arguments.action == "import":
        print(commands.import_pack(arguments.source, arguments.to))
    else:
        print(commands.prepare(arguments.name, arguments.out, arguments.data_root))


def _require_root(what: str) -> None:
    if Path.cwd().resolve() != root():
        raise FedreproError(f"run it in {root()}: {what} made from the records there")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fedrepro",
        description="Re-create the tables and figures of five papers on federated learning with "
        "non-IID data, from committed run records or by training.",
        epilog="Run it in the repository (records are read from and written to results/runs). "
        "The whole pipeline is `snakemake --cores 8 all`.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    train = commands.add_parser(
        "train",
        help="train runs and write their records",
        description="Train runs that have no record yet, and write results/runs/<id>.json for "
        "each. Runs with a record are left alone: delete the record to train a run again. Killed "
        "runs go on from their last checkpoint. Several processes may work on the same list: what "
        "another one trains is left to it with --pending, and waited for where ids are given.",
    )
    train.add_argument("runs", nargs="*", metavar="ID", help="run ids, as `fedrepro status --list`")
    train.add_argument("--pending", action="store_true", help="all planned runs without a record")
    _add_selection(train, all_scales=True)
    train.add_argument(
        "--device",
        default="cpu",
        help="cpu, cuda for all GPUs (a process each, which share the runs), or one of them, such "
        "as cuda:1; default: cpu",
    )
    train.add_argument(
        "--backend",
        choices=BACKENDS,
        default="auto",
        help="how lanes are trained: one after another, over worker processes, or as CUDA graphs; "
        "default: auto, whatever is fastest",
    )
    train.add_argument(
        "--workers",
        type=_positive,
        metavar="N",
        help="worker processes of the pool; default: one a core",
    )
    train.add_argument(
        "--compile",
        choices=CHOICES,
        default="auto",
        help="whether networks are compiled on a GPU, which takes a while and is faster then; "
        "default: auto, where that pays and there is a compiler",
    )
    train.add_argument(
        "--deterministic",
        action="store_true",
        help="on a GPU use only kernels that give the same bits each time; slower",
    )
    train.add_argument(
        "--in-flight",
        type=_positive,
        metavar="N",
        help="runs open at once on a device; default: as many as keep it busy",
    )
    train.add_argument(
        "--time-budget",
        type=_seconds,
        metavar="S",
        help="stop after so many seconds, with checkpoints of the runs in flight; on a CPU starts "
        "nothing that cannot finish a round in time, on a GPU prefers runs that can end in it",
    )
    train.add_argument("--deadline", type=float, help=argparse.SUPPRESS)  # of time.monotonic()
    train.add_argument(
        "--out",
        type=Path,
        metavar="FILE.tar",
        help="also write the new records and checkpoints to one file, for `records import`; adds "
        "to what is in it",
    )
    train.add_argument(
        "--checkpoint-seconds",
        type=_pause,
        default=30.0,
        metavar="S",
        help="least time between two checkpoints of a run; 0: after every round; default: 30",
    )
    _add_data_root(train)
    train.set_defaults(run=_train)

    importer = commands.add_parser(
        "records",
        help="take in records trained elsewhere",
        description="Take records and checkpoints that `fedrepro train --out` wrote on another "
        "machine, after verifying each.",
    )
    taking = importer.add_subparsers(dest="action", required=True, metavar="ACTION")
    take = taking.add_parser("import", help="verify a tar file's content and take it in")
    take.add_argument("source", type=Path, metavar="FILE.tar")
    take.set_defaults(run=_records)

    status = commands.add_parser(
        "status",
        help="recorded, pending and orphaned runs",
        description="Count the planned runs that have a record and those that do not, with the "
        "estimated seconds to train them, and the records that no plan asks for.",
    )
    _add_selection(status)
    status.add_argument("--json", action="store_true", help="as JSON: ids by state, and seconds")
    status.add_argument("--list", action="store_true", help="one line a run")
    status.set_defaults(run=_status)

    why = commands.add_parser(
        "why",
        help="from a number to its runs",
        description="Show the runs behind a table, a figure or one cell of it: id, spec, seed, "
        "code version, data hash, device, seconds, and the command that trains it again.",
        epilog="Example: fedrepro why emd table2 MNIST/1.44",
    )
    why.add_argument("paper", help="slug of the paper, such as emd")
    why.add_argument("artefact", help="table or figure, such as table2 or fig5a")
    why.add_argument(
        "cell", nargs="?", help="ROW/COLUMN of a table or SERIES/X of a figure; default: all"
    )
    _add_scale(why)
    why.set_defaults(run=_why)

    prune = commands.add_parser(
        "prune",
        help="list or remove records that no plan asks for",
        description="List the records of runs that are in no plan at any scale, or remove them. "
        "Other files are left alone.",
    )
    prune.add_argument("--yes", action="store_true", help="remove them, not only list them")
    prune.set_defaults(run=_prune)

    check = commands.add_parser(
        "check",
        help="verdicts on published numbers and claims",
        description="Hold our runs against every published number and claim. Numbers are judged "
        "at the published scale, claims also at lite.",
    )
    check.add_argument("--paper", metavar="P", help="only this paper; default: all")
    _add_scale(check)
    check.add_argument("--json", action="store_true", help="as a JSON list, one entry a check")
    check.add_argument("--out", type=Path, metavar="FILE", help="also write the JSON list here")
    check.add_argument("--verbose", action="store_true", help="show every check, not the counts")
    released = check.add_mutually_exclusive_group()
    released.add_argument(
        "--against-released", action="store_true", help="fail if a released verdict changed"
    )
    released.add_argument("--release", action="store_true", help="make these the released verdicts")
    check.set_defaults(run=_check)

    for name, function, what in (
        ("table", _table, "csv, md"),
        ("figure", _figure, "svg, png, csv"),
    ):
        artefact = commands.add_parser(
            name, help=f"write one {name}", description=f"Write one {name} as {what}."
        )
        artefact.add_argument("paper", help="slug of the paper")
        artefact.add_argument("name", help="its name in the plan, such as table2 or fig3")
        _add_scale(artefact)
        artefact.add_argument(
            "--out", type=Path, required=True, metavar="STEM", help="file name without ending"
        )
        artefact.add_argument(
            "--partial",
            action="store_true",
            help="make do with the runs that are recorded, and say which are left out",
        )
        artefact.set_defaults(run=function)

    partition = commands.add_parser(
        "partition",
        help="write the index lists of one partition",
        description="Build a partition from the data, check it against the digest in the records "
        "of its runs, and write the clients' index lists as npz.",
    )
    partition.add_argument("paper", help="slug of the paper")
    partition.add_argument("id", help="partition id")
    _add_scale(partition)
    partition.add_argument("--out", type=Path, required=True, metavar="FILE.npz")
    _add_data_root(partition)
    partition.set_defaults(run=_partition)

    partitions = commands.add_parser(
        "partitions",
        help="write a paper's table and figure of class counts",
        description="Write the class counts and EMD of every client of every partition, from "
        "records; no data are needed.",
    )
    partitions.add_argument("paper", help="slug of the paper")
    _add_scale(partitions)
    partitions.add_argument("--out", type=Path, required=True, metavar="STEM")
    partitions.set_defaults(run=_partitions)

    docs = commands.add_parser(
        "docs",
        help="write the numbers in README and docs from the records",
        description="Fill the generated blocks of README.md and docs/papers/*.md.",
    )
    docs.add_argument("--check", action="store_true", help="fail if a block is not current")
    docs.set_defaults(run=_docs)

    schema = commands.add_parser(
        "schema",
        help="export the JSON schemas of the configuration",
        description="Write the JSON schemas of configuration, data sets, plans, published values "
        "and specs.",
    )
    schema.add_argument("--out", type=Path, default=None, help="folder; default: config/schemas")
    schema.set_defaults(run=_schema)

    data = commands.add_parser(
        "data",
        help="list, verify, pack and import data sets",
        description="Data sets come from FEDREPRO_DATA (a pack), data/pack, data/raw or a "
        "download, in this order.",
    )
    actions = data.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="what there is and where it would come from")
    _add_data_root(listing)
    verify = actions.add_parser("verify", help="load and check counts, shapes and hashes")
    verify.add_argument("names", nargs="*", help="data sets; default: all that are here")
    _add_data_root(verify)
    pack = actions.add_parser("pack", help="write a pack for machines without internet")
    pack.add_argument("out", type=Path, help="folder to write")
    pack.add_argument("names", nargs="*", help="data sets; default: all that are here")
    _add_data_root(pack)
    importing = actions.add_parser("import", help="verify a pack and copy it to data/pack")
    importing.add_argument("source", type=Path, help="a pack's folder or one of its files")
    importing.add_argument("--to", type=Path, default=Path("data/pack"), help="default: data/pack")
    prepare = actions.add_parser("prepare", help="make sure a data set is here, write a manifest")
    prepare.add_argument("name", help="data set")
    prepare.add_argument("--out", type=Path, required=True, metavar="FILE.json")
    _add_data_root(prepare)
    for action in (listing, verify, pack, importing, prepare):
        action.set_defaults(run=_data)
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text}: must be at least 1")
    return number


def _seconds(text: str) -> float:
    number = float(text)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text}: must be a positive number of seconds")
    return number


def _pause(text: str) -> float:
    number = float(text)
    if not 0 <= number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text}: must be a number of seconds, or 0")
    return number


def _add_data_root(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data-root",
        type=Path,
        metavar="DIR",
        help="folder of packed data; default: $FEDREPRO_DATA",
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status. User errors are one message, no traceback."""
    arguments = _parser().parse_args(argv)
    try:
        here = find_root()
        if here is not None and here in Path.cwd().parents:
            raise FedreproError(f"run it in {here}: records are looked up in ./results/runs")
        paper = getattr(arguments, "paper", None)
        if paper is not None and _is_plan(paper):
            (paper,) = use_plans(paper)
            arguments.paper = paper
        if paper is not None:
            load_plan(paper)
        status: int | None = arguments.run(arguments)
        sys.stdout.flush()
    except FedreproError as error:
        print(f"fedrepro: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # it is flushed at the end
        return 1 if arguments.command == "check" else 0  # a verdict that nobody read is none
    except KeyboardInterrupt:
        print("fedrepro: interrupted; run again to go on from the checkpoints", file=sys.stderr)
        return 130
    return status or 0
