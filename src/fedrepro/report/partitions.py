"""Partitions as artefacts: index lists from the data, class counts and EMDs from records."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fedrepro.base.errors import FedreproError
from fedrepro.base.files import write_bytes, write_text
from fedrepro.fl.data import describe, labels
from fedrepro.fl.partition import build_partition
from fedrepro.fl.spec import partition_id
from fedrepro.runs.plan import PlannedRun, expand, scales
from fedrepro.runs.plan_files import argument
from fedrepro.runs.plan_schema import Scale
from fedrepro.runs.records import PartitionRecord, path_of
from fedrepro.runs.runset import RunSet

if TYPE_CHECKING:
    import matplotlib.figure

MOST_PANELS = 24
"""How many partitions the overview figure shows at most."""
_COLUMNS = 4
_CAPTION_WIDTH = 25
"""Characters that fit over a panel."""
_UNBROKEN = "\N{NO-BREAK SPACE}"
"""Between a parameter and its value while lines are broken."""


def distinct_partitions(paper: str, scale: Scale) -> dict[str, list[PlannedRun]]:
    """Return the partitions of a paper at a scale, in plan order: id -> the runs that use it.

    Raises:
        FedreproError: no such paper, or its plan is wrong.
    """
    return _by_partition(RunSet(paper, scale))


def _by_partition(runs: RunSet) -> dict[str, list[PlannedRun]]:
    partitions: dict[str, list[PlannedRun]] = {}
    for run in runs.members(runs.plan.runs):
        partitions.setdefault(partition_id(run.spec), []).append(run)
    return partitions


def write_indices(paper: str, scale: Scale, name: str, out: Path, data_root: Path | None) -> None:
    """Build a partition from the data and write who holds which examples, as ``.npz``.

    The file holds for each client ``client_000``, ...: int32 positions in the training split, in
    the order in which the client holds them; ``validation``: positions no client holds, set
    aside; and where there are such, ``server``: the server's own examples, and ``shared``: those
    that it hands out to clients. Equal partitions give equal files.

    Args:
        paper: slug of the paper.
        scale: the plan's scale.
        name: the partition's id, or that of a run that uses it, or how the run's id begins.
        out: the file to write.
        data_root: folder of packed data; None takes the usual sources.

    Raises:
        FedreproError: no such partition, the data are missing, or the partition is not the one that
            its runs were trained on.
    """
    runs = _users(paper, scale, name)
    spec = runs[0].spec
    train_labels, test_labels = labels(spec.dataset.name, data_root, content=spec.dataset.content)
    classes = describe(spec.dataset.name).classes
    partition = build_partition(
        spec.partition, train_labels, test_labels, classes, spec.seed, data_root
    )
    run_set = RunSet(paper, scale)
    for run in runs:
        if run.recorded:
            _require_equal(run_set, run, partition.sha256, "building it from the data here")
    digits = max(3, len(str(len(partition.clients) - 1)))
    arrays = {f"client_{i:0{digits}}": indices for i, indices in enumerate(partition.clients)}
    arrays["validation"] = partition.validation
    optional = {"server": partition.server, "shared": partition.shared}
    arrays |= {key: indices for key, indices in optional.items() if len(indices)}
    buffer = io.BytesIO()
    compact: dict[str, Any] = {key: array.astype("<i4") for key, array in arrays.items()}
    np.savez(buffer, allow_pickle=False, **compact)
    write_bytes(out, buffer.getvalue())


def _users(paper: str, scale: Scale, name: str) -> list[PlannedRun]:
    """Return the runs that use a partition, which is named as :func:`write_indices` says."""
    partitions = distinct_partitions(paper, scale)
    if name in partitions:
        return partitions[name]
    cuts = [runs for runs in partitions.values() if any(run.id.startswith(name) for run in runs)]
    if len(cuts) != 1:
        several = f"; '{name}' begins the ids of runs of {len(cuts)} partitions" if cuts else ""
        cure = f"`fedrepro status --paper {argument(paper)} --scale {scale} --list` shows the runs"
        for other in scales(paper) if name and not cuts else ():
            if any(run.id.startswith(name) for run in expand(paper, other)):
                cure = f"scale {other} has: choose that"
        raise FedreproError(
            f"{paper} ({scale}) has no partition '{name}' and no run of that id{several}; {cure}"
        )
    return cuts[0]


def _require_equal(runs: RunSet, run: PlannedRun, sha256: str, origin: str) -> None:
    recorded = runs.record(run).partition.sha256
    if recorded != sha256:
        raise FedreproError(
            f"{path_of(run.id, run.records)} was trained on the partition {recorded[:12]}, but "
            f"{origin} gives {sha256[:12]} for the same spec: the labels of "
            f"{run.spec.dataset.name} differ (`fedrepro data verify`), or the partition's code "
            "changed and its version was not raised"
        )


def write_overview(paper: str, scale: Scale, stem: Path, *, partial: bool = False) -> None:
    """Write the class counts and EMD of every client of every partition, from records alone.

    ``<stem>.csv`` has one row a partition and client; ``<stem>.svg`` and ``.png`` show up to
    :data:`MOST_PANELS` partitions, evenly spaced over the plan.

    Args:
        paper: slug of the paper.
        scale: the plan's scale.
        stem: file name without ending.
        partial: show the partitions of the runs that are recorded.

    Raises:
        FedreproError: a record is missing or damaged, or runs of one partition disagree.
    """
    from fedrepro.report import style  # Matplotlib is slow to import

    runs = overviewed(paper, scale, partial=partial)
    frame, panels = overview(runs)
    write_text(stem.with_name(f"{stem.name}.csv"), frame.to_csv(index=False))
    style.use()
    title = f"{paper}, partitions at scale {scale}"
    if runs.missing(runs.plan.runs):
        title += ", of the recorded runs"
    style.save(draw(panels, title), stem)


def overviewed(paper: str, scale: Scale, *, partial: bool = False) -> RunSet:
    """Return the runs whose partitions an overview shows: those recorded, where partial.

    Raises:
        MissingRunsError: the scale has none, a record is missing, or all are, where partial.
    """
    runs, what = RunSet(paper, scale), "the overview of its partitions"
    runs.require_planned(what)
    if partial and runs.recorded().members(runs.plan.runs):
        return runs.recorded()
    runs.require(runs.plan.runs, what, "; `--partial` leaves them out")
    return runs


def overview(runs: RunSet) -> tuple[pd.DataFrame, list[tuple[str, PartitionRecord]]]:
    """Return the table of all clients of all partitions, and each partition with its caption.

    Columns: ``partition`` (id), ``dataset``, ``scheme``, ``parameters`` (``key=value`` pairs),
    ``seed`` (of the first run), ``client``, ``class_0``, ..., ``total``, ``emd`` (0 to 2, to the
    pooled clients), ``sha256`` (digest of the index lists), ``runs`` (how many use it).
    """
    rows: list[dict[str, Any]] = []
    partitions = _by_partition(runs)
    captions = _captions([members[0] for members in partitions.values()])
    panels = []
    for caption, (name, members) in zip(captions, partitions.items(), strict=True):
        spec = members[0].spec
        record = runs.record(members[0]).partition
        first = path_of(members[0].id, members[0].records)
        for run in members[1:]:
            _require_equal(runs, run, record.sha256, str(first))
        given = spec.partition.model_dump(exclude={"scheme"}, exclude_none=True)
        parameters = " ".join(f"{key}={value}" for key, value in given.items())
        common = {
            "partition": name,
            "dataset": spec.dataset.name,
            "scheme": spec.partition.scheme,
            "parameters": parameters,
            "seed": members[0].seed,
        }
        for client, counts in enumerate(record.counts):
            rows.append(
                common
                | {"client": client}
                | {f"class_{label}": count for label, count in enumerate(counts)}
                | {"total": sum(counts), "emd": record.emd[client]}
                | {"sha256": record.sha256, "runs": len(members)}
            )
        panels.append((caption, record))
    return pd.DataFrame(rows), panels


def _captions(partitions: Sequence[PlannedRun]) -> list[str]:
    """Return short lines for each: data set, scheme, and the parameters that differ within both."""
    alike: dict[tuple[str, str], list[dict[str, Any]]] = {}
    described = []
    for run in partitions:
        kind = run.spec.dataset.name, run.spec.partition.scheme
        given = run.spec.partition.model_dump() | {"seed": run.seed}
        alike.setdefault(kind, []).append(given)
        described.append((kind, given))
    captions = []
    for kind, given in described:
        points = [
            f"{key}{_UNBROKEN}{value}"
            for key, value in given.items()
            if value is not None and any(other[key] != value for other in alike[kind])
        ]
        lines = textwrap.wrap(", ".join([*kind, *points]), _CAPTION_WIDTH)
        captions.append("\n".join(lines).replace(_UNBROKEN, " "))
    return captions


def _spread(count: int, most: int) -> Sequence[int]:
    """Return up to ``most`` positions of ``0..count-1``, evenly spaced, ends included."""
    if count <= most:
        return range(count)
    return [round(i * (count - 1) / (most - 1)) for i in range(most)]


def draw(panels: Sequence[tuple[str, PartitionRecord]], title: str) -> matplotlib.figure.Figure:
    """Draw client x class maps; the colour is the share of the class in the client's examples.

    Args:
        panels: caption and partition, in plan order.
        title: what partitions these are.
    """
    import matplotlib.pyplot as plt

    from fedrepro.report.style import WIDTH

    shown = [panels[i] for i in _spread(len(panels), MOST_PANELS)]
    columns = min(_COLUMNS, len(shown))
    rows = -(-len(shown) // columns)
    lines = 1 + max(caption.count("\n") + 1 for caption, _ in shown)
    figure, axes = plt.subplots(
        rows, columns, squeeze=False, figsize=(WIDTH, 1.4 + (1.1 + 0.12 * lines) * rows)
    )
    for axis in axes.flat[len(shown) :]:
        axis.set_axis_off()
    shares = []
    for _, record in shown:
        counts = np.array(record.counts, dtype=np.float64)
        shares.append(counts / counts.sum(axis=1, keepdims=True))
    largest = max(float(share.max()) for share in shares)
    for axis, share, (caption, record) in zip(axes.flat, shares, shown, strict=False):
        image = axis.imshow(
            share, aspect="auto", cmap="cividis", vmin=0, vmax=largest, interpolation="nearest"
        )
        axis.set_title(f"{caption}\nmean EMD {float(np.mean(record.emd)):.2f}", fontsize=7)
        clients, classes = share.shape
        axis.set_xticks(sorted({0, classes - 1}))
        axis.set_yticks(sorted({0, clients - 1}))
        axis.tick_params(labelsize=7)
        axis.grid(visible=False)
    colours = figure.colorbar(image, ax=axes, location="bottom", shrink=0.6, aspect=40, pad=0.02)
    colours.set_label("share of a class (across) in a client's (down) examples", fontsize=8)
    colours.ax.tick_params(labelsize=7)
    figure.suptitle(f"{title}: {_which(len(shown), len(panels))}", fontsize=9)
    return figure


def _which(shown: int, count: int) -> str:
    """Say how many of the partitions are drawn, and which and why if not all."""
    if shown == count:
        return "the only one" if count == 1 else f"all {count}"
    return (
        f"{shown} of {count}\nevenly spaced in the plan's order, first and last included, so that "
        "panels stay readable;\nthe CSV file beside this figure has all"
    )
