"""The command ``train``: which runs it is given, on which devices, in how many processes."""

from __future__ import annotations

import dataclasses
import itertools
import sys
import time
from collections import Counter
from collections.abc import Hashable, Sequence
from pathlib import Path

from fedrepro.base.errors import FedreproError
from fedrepro.fl.data import load
from fedrepro.fl.data.dataset import ANY
from fedrepro.runs import command, options, records, stopping
from fedrepro.runs.options import TrainArguments
from fedrepro.runs.plan import PlannedRun, expand, left_behind, unique
from fedrepro.runs.plan_files import argument, is_own, use_plans
from fedrepro.runs.plan_schema import SCALES, Scale

OWN_SCALE: Scale = "lite"
"""At which plans of one's own are trained unless another scale is named."""


def train(arguments: TrainArguments, *, next_step: bool = False) -> int:
    """Train the runs that the arguments name; return the exit status.

    Args:
        arguments: which runs, and how.
        next_step: whether to say, in the end, which command shows what came of them.

    Raises:
        FedreproError: a run failed, or the arguments do not go together.
        KeyboardInterrupt: as it came, with a note on the checkpoints.
    """
    if bool(arguments.runs) == arguments.pending:
        raise FedreproError(
            "give either run ids or files of your own plans, or --pending for all planned runs "
            "without a record, of one paper with --paper, at one scale with --scale; such as "
            "`fedrepro train --pending --paper emd --scale quick`"
        )
    with stopping.interrupting():
        with stopping.held():  # pydantic drops what is raised while it looks at a plan
            if arguments.paper is not None:
                arguments = dataclasses.replace(
                    arguments, paper=command.known_paper(arguments.paper)
                )
            planned = _planned(arguments)
        stopping.check()
        if arguments.allow_other_data:
            planned = _on_data_here(planned, arguments.data_root)
        try:
            if arguments.runs and arguments.out is not None:
                _hand_over(arguments.out, planned)
            devices = _devices(arguments.device)
            if len(devices) > 1:
                status = _train_on_all(arguments, planned, devices)
            else:
                status = _train_here(arguments, planned)
        except KeyboardInterrupt as interrupt:
            interrupt.add_note("run again to go on from the checkpoints")
            raise
    if arguments.out is not None and not arguments.out.exists():
        print(
            f"{arguments.out}: not written, as nothing is new; `fedrepro records push FOLDER "
            "RUN...` hands over recorded runs"
        )
    if next_step and status == 0 and not arguments.allow_other_data:  # which no table shows
        _say_next_step(planned)
    return status


def _say_next_step(planned: Sequence[PlannedRun]) -> None:
    """Say which command shows what came of runs, if they are of one plan at one scale."""
    plans = {(run.paper, run.scale) for run in planned}
    if len(plans) == 1:
        [(paper, scale)] = plans
        why = f"fedrepro why {argument(paper)} --scale {scale}"
        print(f"`{why}` lists the tables and figures of these runs")


def _hand_over(out: Path, planned: Sequence[PlannedRun]) -> None:
    """Put the records that named runs have already into the file of ``--out``."""
    from fedrepro.runs import session

    files = [records.path_of(run.id, run.records) for run in planned if run.recorded]
    session.write_out(out, files, [])


def _planned(arguments: TrainArguments) -> list[PlannedRun]:
    """Return the distinct runs that are meant, in the order in which they are trained."""
    places = [name for name in arguments.runs if command.is_plan(name)]
    if places:
        return _seeds_in_turn(_of_plans(arguments, places))
    if arguments.runs:
        return _named(command.selected(arguments.paper, arguments.scale, studies=True), arguments)
    paper, scale = arguments.paper, arguments.scale
    if paper is not None and is_own(paper):
        scale = scale or OWN_SCALE
        _say_left_behind([paper], scale)
    planned = command.selected(paper, scale)
    if not arguments.device.startswith("cuda"):
        planned = _without_gpu(planned)
    return _seeds_in_turn(planned)


def _seeds_in_turn(planned: Sequence[PlannedRun]) -> list[PlannedRun]:
    """Return the runs so that, scale by scale, all that is planned comes before it is repeated.

    A training that is cut short then leaves whole tables of few seeds.
    """
    before = Counter[Hashable]()
    turns = {}
    for run in planned:
        turns[run.id] = (SCALES.index(run.scale), before[run.point])
        before[run.point] += 1
    return sorted(planned, key=lambda run: turns[run.id])


def _named(planned: Sequence[PlannedRun], arguments: TrainArguments) -> list[PlannedRun]:
    """Return the runs whose ids are given, each once."""
    known = {run.id: run for run in planned}
    unknown = [name for name in arguments.runs if name not in known]
    if unknown:
        raise command.unknown_run(
            unknown[0], known, "has the id", paper=arguments.paper, scale=arguments.scale
        )
    return [known[name] for name in dict.fromkeys(arguments.runs)]


def _of_plans(arguments: TrainArguments, places: Sequence[str]) -> list[PlannedRun]:
    """Return the distinct runs of plans of one's own."""
    if len(places) < len(arguments.runs):
        raise FedreproError("give either run ids or files of plans, not both in one call")
    if arguments.paper is not None:
        raise FedreproError("--paper: leave it out where files of plans are given")
    names = [name for place in places for name in use_plans(place)]
    scale = arguments.scale or OWN_SCALE
    _say_left_behind(names, scale)
    planned = list(unique([run for name in names for run in expand(name, scale)]).values())
    if not planned:
        raise FedreproError(
            f"{', '.join(places)}: no run at scale {scale}; give each axis of a grid a value, or "
            "another --scale"
        )
    return planned


def _say_left_behind(names: Sequence[str], scale: Scale) -> None:
    """Say which defaults of plans of one's own groups have left behind, perhaps unawares."""
    for sentence in itertools.chain.from_iterable(left_behind(name, scale) for name in names):
        print(sentence, file=sys.stderr)


def _without_gpu(planned: Sequence[PlannedRun]) -> list[PlannedRun]:
    """Leave out runs that only a GPU can train, and say how many of them are pending."""
    left_out = [run for run in planned if run.needs_gpu]
    pending = sum(not run.recorded for run in left_out)
    if pending:
        print(
            f"{pending} pending runs are left out: precision: tf32 needs --device cuda",
            file=sys.stderr,
        )
    return [run for run in planned if not run.needs_gpu]


def _on_data_here(planned: Sequence[PlannedRun], data_root: Path | None) -> list[PlannedRun]:
    """Return the runs on the data that are here: runs of their own where these are other data."""
    meant = [run.spec.dataset.name for run in planned if not run.spec.dataset.content]
    contents = {}
    for name in dict.fromkeys(meant):
        data = load(name, data_root, content=ANY)
        if data.other:
            contents[name] = data.sha256
            print(
                f"{name}: other data, content {data.sha256}; the runs on them have ids of their "
                f"own and records in {records.OWN_FOLDER}",
                file=sys.stderr,
            )
    here = [
        run.on_content(contents[run.spec.dataset.name])
        if not run.spec.dataset.content and run.spec.dataset.name in contents
        else run
        for run in planned
    ]
    return list(unique(here).values())  # a plan may name these data as well


def _devices(device: str) -> list[str]:
    """Return the devices that --device names: ``cuda`` is every GPU that PyTorch sees."""
    if device != "cuda":
        return [device]
    import torch

    count = torch.cuda.device_count()
    return [device] if count < 2 else [f"cuda:{i}" for i in range(count)]


def _train_here(arguments: TrainArguments, planned: Sequence[PlannedRun]) -> int:
    from fedrepro.runs import session

    how = dataclasses.replace(arguments, wait=bool(arguments.runs))
    if arguments.deadline is not None:
        how = dataclasses.replace(how, time_budget=max(arguments.deadline - time.monotonic(), 0.0))
    pending = [run for run in planned if not run.recorded]
    trained = session.train(planned, how)
    others = sum(_is_recorded(run) for run in pending) - trained
    counts = [f"{trained} of {len(planned)} runs trained"]
    if recorded := len(planned) - len(pending):
        counts.append(f"{recorded} had a record")
    if others:
        counts.append(f"{others} trained by others")
    left = len(pending) - trained - others
    if left and how.time_budget is None:  # else the budget says what is left
        counts.append(f"{left} left to others")
    print(", ".join(counts))
    return 0


def _train_on_all(
    arguments: TrainArguments, planned: Sequence[PlannedRun], devices: Sequence[str]
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
    commands = {device: _command(arguments, device, deadline) for device in devices}
    try:
        return side_by_side.run(commands)
    finally:  # also what a process that was killed had written
        stopping.ignore()
        trained = [run for run in pending if _is_recorded(run)]
        if arguments.out is not None:
            files = [records.path_of(run.id, run.records) for run in trained]
            session.write_out(arguments.out, files, planned)
        print(f"{len(trained)} of {len(planned)} runs trained on {len(devices)} GPUs")


def _is_recorded(run: PlannedRun) -> bool:
    """Return whether a run has a valid record; say what is wrong with one that is not."""
    try:
        return run.recorded
    except FedreproError as error:
        print(error, file=sys.stderr)
        return False


def _command(arguments: TrainArguments, device: str, deadline: float | None) -> list[str]:
    """Return the command that trains the same runs on one device; it writes no --out."""
    own = dataclasses.replace(
        arguments, device=device, deadline=deadline, time_budget=None, out=None
    )
    return [sys.executable, "-m", "fedrepro.runs", "train", *options.words(own)]
