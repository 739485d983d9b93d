from __future__ import annotations

import functools
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from readable import small

from fedrepro.base.errors import FedreproError
from fedrepro.cli import main
from fedrepro.fl.data import describe, labels
from fedrepro.fl.partition import build_partition
from fedrepro.report import partitions
from fedrepro.report.partitions import (
    MOST_PANELS,
    distinct_partitions,
    overview,
    overviewed,
    write_indices,
    write_overview,
)
from fedrepro.runs import records
from fedrepro.runs.plan import expand
from fedrepro.runs.plan_files import papers

PARTITIONS = {
    paper: distinct_partitions(paper, "smoke") for paper in ("emd", "selective", "tricks")
}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@functools.cache
def built(paper: str, name: str) -> Any:
    spec = PARTITIONS[paper][name][0].spec
    train, test = labels(spec.dataset.name)
    classes = describe(spec.dataset.name).classes
    return build_partition(spec.partition, train, test, classes, spec.seed)


def record_all(paper: str, write_record: Any) -> None:
    """Write a record for every run, with the partition as it is built from data."""
    for name, runs in PARTITIONS[paper].items():
        made = built(paper, name)
        content = {"counts": made.counts.tolist(), "sha256": made.sha256}
        for run in runs:
            write_record(run, records.FOLDER, partition=content)


def test_every_run_has_one_partition() -> None:
    for paper, cut in PARTITIONS.items():
        runs = [run for members in cut.values() for run in members]
        assert len(runs) == len(expand(paper, "smoke"))
        for members in cut.values():
            assert len({run.spec.partition for run in members}) == 1
    assert all(len({run.seed for run in runs}) == 1 for runs in PARTITIONS["emd"].values())
    shared = PARTITIONS["selective"].values()
    assert any(len({run.seed for run in runs}) > 1 for runs in shared), "the scheme uses no seed"


@pytest.mark.parametrize(("paper", "position"), [("emd", 0), ("emd", -1), ("selective", -1)])
def test_indices_are_the_partition(paper: str, position: int) -> None:
    name = list(PARTITIONS[paper])[position]
    out = Path("x/p.npz")
    write_indices(paper, "smoke", name, out, None)
    made = built(paper, name)
    with np.load(out, allow_pickle=False) as arrays:
        clients = sorted(key for key in arrays if key.startswith("client_"))
        assert clients == [f"client_{i:03}" for i in range(len(made.clients))]
        for key, indices in zip(clients, made.clients, strict=True):
            assert arrays[key].dtype == np.int32
            assert np.array_equal(arrays[key], indices)
        assert np.array_equal(arrays["validation"], made.validation)
        assert ("server" in arrays) == (len(made.server) > 0)
    first = out.read_bytes()
    write_indices(paper, "smoke", name, out, None)
    assert out.read_bytes() == first


@pytest.mark.parametrize(
    ("paper", "parameter", "key", "size"),
    [
        ("tricks", "server_share", "server", 10),  # one of 20 examples of each class
        ("emd", "beta", "shared", 20),  # a tenth of 20 examples of each class
    ],
)
def test_the_servers_examples_are_among_the_indices(
    paper: str, parameter: str, key: str, size: int
) -> None:
    name = next(
        name
        for name, runs in PARTITIONS[paper].items()
        if getattr(runs[0].spec.partition, parameter, 0)
    )
    out = Path("served.npz")
    write_indices(paper, "smoke", name, out, None)
    expected = getattr(built(paper, name), key)
    with np.load(out, allow_pickle=False) as arrays:
        assert np.array_equal(arrays[key], expected)
        assert len(arrays[key]) == size


@pytest.mark.parametrize("folder", [records.FOLDER, records.OWN_FOLDER])
def test_indices_agree_with_records(write_record: Any, folder: Path) -> None:
    name, (run, *_) = next(iter(PARTITIONS["emd"].items()))
    good = {"counts": [[1]], "sha256": built("emd", name).sha256}
    write_record(run, folder, partition=good)
    write_indices("emd", "smoke", name, Path("p.npz"), None)
    Path("p.npz").unlink()
    write_record(run, folder, partition=good | {"sha256": "1" * 64})
    with pytest.raises(FedreproError) as error:
        write_indices("emd", "smoke", name, Path("p.npz"), None)
    assert f"{folder}/{run.id}.json was trained on the partition 111111111111" in str(error.value)
    assert f"building it from the data here gives {good['sha256'][:12]}" in str(error.value)
    assert not Path("p.npz").exists()


def test_a_partition_is_that_of_a_run() -> None:
    name, (run, *_) = list(PARTITIONS["emd"].items())[-1]
    write_indices("emd", "smoke", name, Path("by_name.npz"), None)
    write_indices("emd", "smoke", run.id, Path("by_run.npz"), None)
    assert Path("by_run.npz").read_bytes() == Path("by_name.npz").read_bytes()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("xyz", r"emd \(smoke\) has no partition 'xyz' and no run of that id; `fedrepro status "),
        ("", rf"'' begins the ids of runs of {len(PARTITIONS['emd'])} partitions; `fedrepro "),
    ],
)
def test_unknown_partition(name: str, text: str) -> None:
    with pytest.raises(FedreproError, match=text):
        write_indices("emd", "smoke", name, Path("p.npz"), None)


@pytest.mark.parametrize("paper", ["emd", "selective"])
def test_overview(paper: str, write_record: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "MOST_PANELS", 4)  # drawn in a second
    record_all(paper, write_record)
    write_overview(paper, "smoke", Path("out/overview"))
    frame = pd.read_csv("out/overview.csv")
    assert list(dict.fromkeys(frame["partition"])) == list(PARTITIONS[paper])
    for name, rows in frame.groupby("partition"):
        made = built(paper, str(name))
        classes = [column for column in frame if column.startswith("class_")]
        assert np.array_equal(rows[classes], made.counts)
        assert rows["total"].tolist() == made.counts.sum(axis=1).tolist()
        assert rows["emd"].to_numpy() == pytest.approx(made.emd, rel=1e-5)
        assert rows["client"].tolist() == list(range(len(made.clients)))
        assert set(rows["sha256"]) == {made.sha256}
        assert set(rows["runs"]) == {len(PARTITIONS[paper][str(name)])}
    svg = Path("out/overview.svg").read_bytes()
    assert Path("out/overview.png").stat().st_size > 10_000
    write_overview(paper, "smoke", Path("again/overview"))
    assert Path("again/overview.svg").read_bytes() == svg


def test_commands_say_which_files_they_wrote(
    write_record: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(partitions, "MOST_PANELS", 4)
    record_all("tricks", write_record)
    assert main(["partitions", "tricks", "--scale", "smoke", "--out", "out/all"]) == 0
    name = next(iter(PARTITIONS["tricks"]))
    assert main(["partition", "tricks", name, "--scale", "smoke", "--out", "one.npz"]) == 0
    said = capsys.readouterr().out.split()
    assert said == ["out/all.csv", "out/all.svg", "out/all.png", "one.npz"]
    assert all(Path(file).stat().st_size for file in said)
    Path("folder.npz").mkdir()
    assert main(["partition", "tricks", name, "--scale", "smoke", "--out", "folder.npz"]) == 1
    told = "fedrepro: folder.npz: a folder is there; name a file, such as folder.npz/name\n"
    assert capsys.readouterr().err == told


def test_overview_needs_no_data(write_record: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    record_all("emd", write_record)
    monkeypatch.setattr(partitions, "labels", None)
    monkeypatch.setattr(partitions, "build_partition", None)
    frame, panels = overview(overviewed("emd", "smoke"))
    assert len(panels) == len(PARTITIONS["emd"])
    assert len(frame) == sum(len(record.counts) for _, record in panels)


def test_runs_of_one_partition_must_agree(write_record: Any) -> None:
    record_all("selective", write_record)
    members = next(runs for runs in PARTITIONS["selective"].values() if len(runs) > 1)
    wrong = {"counts": [[1]], "sha256": "1" * 64}
    write_record(members[1], records.FOLDER, partition=wrong)
    with pytest.raises(FedreproError, match=f"{members[1].id}.json was trained on"):
        overview(overviewed("selective", "smoke"))


def test_missing_records_are_named() -> None:
    text = "of the runs for the overview of its partitions, .* --scale smoke`$"
    for partial in (False, True):
        with pytest.raises(FedreproError, match=text):
            overviewed("emd", "smoke", partial=partial)


def test_an_overview_makes_do_with_the_recorded_runs(
    write_record: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    (name, (first, *_)), *_ = PARTITIONS["selective"].items()
    counts = [[3, 5], [4, 4]]
    partition = {"counts": counts, "sha256": "1" * 64}
    write_record(first, records.FOLDER, partition=partition)
    words = ["partitions", "selective", "--scale", "smoke", "--out", "out/some"]
    assert main(words) == 1
    assert "`--partial` leaves them out" in capsys.readouterr().err
    assert main([*words, "--partial"]) == 0
    frame = pd.read_csv("out/some.csv")
    assert set(frame["partition"]) == {name}
    assert set(frame["runs"]) == {1}
    assert frame[["class_0", "class_1"]].to_numpy().tolist() == counts


@pytest.mark.parametrize("out", [".", "..", "/", "out/", "out.csv", "out.svg", "out.png", "out.md"])
def test_a_stem_is_a_name_without_ending(out: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["partitions", "selective", "--scale", "smoke", "--out", out]) == 2
    assert f"Invalid value for '--out': {out}" in capsys.readouterr().err


def test_a_run_of_another_scale_is_found_there(capsys: pytest.CaptureFixture[str]) -> None:
    run = distinct_partitions("fedcd", "paper").popitem()[1][0]
    assert main(["partition", "fedcd", run.id[:8], "--out", "p.npz"]) == 1
    assert capsys.readouterr().err.endswith("; scale paper has: choose that\n")


def test_captions_say_what_differs(write_record: Any) -> None:
    record_all("emd", write_record)
    captions = [caption for caption, _ in overview(overviewed("emd", "smoke"))[1]]
    assert len(set(captions)) == len(captions)
    assert any("emd 0.36" in caption for caption in captions)
    assert {caption.split(",")[0] for caption in captions} == {"synthetic", "synthetic_rgb"}
    assert not any("clients" in caption for caption in captions if "emd_shift" in caption)


@pytest.mark.parametrize("paper", papers())
def test_captions_are_apart_and_fit(paper: str) -> None:
    from fedrepro.report import style

    members = [runs[0] for runs in distinct_partitions(paper, "lite").values()]
    captions = partitions._captions(members)
    assert len(set(captions)) == len(captions)
    datasets = [run.spec.dataset.name for run in members]
    assert [caption.split(",")[0] for caption in captions] == datasets
    record = records.PartitionRecord(counts=[[1] * 10] * 100, emd=[0.0] * 100, sha256="0")
    style.use()
    figure = partitions.draw([(caption, record) for caption in captions], paper)
    figure.draw_without_rendering()
    texts = [axis.title.get_window_extent() for axis in figure.axes if axis.get_title()]
    assert all(box.x0 >= 0 and box.x1 <= figure.bbox.width for box in texts)
    for one, other in itertools.pairwise(texts):
        assert one.x1 < other.x0 or other.x1 < one.x0
    bar = figure.axes[-1]
    label = bar.xaxis.label.get_window_extent()
    assert bar.bbox.x0 < label.x0
    assert label.x1 < bar.bbox.x1
    style.plt.close(figure)


@pytest.mark.parametrize(("count", "which"), [(1, "the only one"), (MOST_PANELS, "all 24")])
def test_the_title_says_that_all_are_drawn(count: int, which: str) -> None:
    from fedrepro.report import style

    record = records.PartitionRecord(counts=[[1, 2], [3, 4]], emd=[0.1, 0.2], sha256="0")
    figure = partitions.draw([("caption", record)] * count, "a paper")
    assert figure.get_suptitle() == f"a paper: {which}"
    style.plt.close(figure)


def test_a_panel_has_the_classes_of_its_own_partition() -> None:
    few = records.PartitionRecord(counts=[[1] * 10] * 3, emd=[0.0] * 3, sha256="0")
    many = records.PartitionRecord(counts=[[1] * 15] * 3, emd=[0.0] * 3, sha256="0")
    figure = partitions.draw([("ten", few), ("fifteen", many)], "two")
    for axis, classes in zip(figure.axes, (10, 15), strict=False):
        assert list(axis.get_xticks()) == [0, classes - 1]
        assert axis.get_xlim() == (-0.5, classes - 0.5)


def test_at_most_24_panels_evenly_spaced() -> None:
    from fedrepro.report import style

    spread = partitions._spread
    assert list(spread(5, 24)) == [0, 1, 2, 3, 4]
    chosen = list(spread(103, MOST_PANELS))
    assert len(chosen) == len(set(chosen)) == MOST_PANELS
    assert chosen[0] == 0
    assert chosen[-1] == 102
    assert max(np.diff(chosen)) - min(np.diff(chosen)) <= 1
    record = records.PartitionRecord(counts=[[1, 2], [3, 4]], emd=[0.1, 0.2], sha256="0")
    style.use()
    figure = partitions.draw([("caption", record)] * 103, "all of them")
    which, why, rest = figure.get_suptitle().split("\n")
    assert which == "all of them: 24 of 103"
    assert why.startswith("evenly spaced in the plan's order, first and last included, so that")
    assert rest == "the CSV file beside this figure has all"
    assert small(figure) == []
    figure.draw_without_rendering()
    style.plt.close(figure)
