"""Records: whole or refused by name."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import made_up
import numpy as np
import pytest
import small_runs
from hypothesis import given
from hypothesis import strategies as st

from fedrepro.base.errors import FedreproError
from fedrepro.fl.data import Dataset
from fedrepro.runs import records
from fedrepro.runs.plan import PlannedRun, expand

RUN, OTHER = expand("emd", "smoke")[:2]


@pytest.fixture
def file(tmp_path: Path, write_record: Any) -> Path:
    written: Path = write_record(RUN, tmp_path)
    return written


def edit(file: Path, **changes: Any) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def refusals(folder: Path, run: PlannedRun = RUN) -> str:
    """Return the one message with which both ways of reading refuse a record."""
    with pytest.raises(FedreproError) as looked_up:
        records.is_recorded(run.id, folder)
    with pytest.raises(FedreproError) as read:
        records.read(run.id, folder)
    assert str(looked_up.value) == str(read.value)
    return str(read.value)


def test_round_trip(file: Path, tmp_path: Path) -> None:
    assert file == tmp_path / f"{RUN.id}.json"
    assert records.is_recorded(RUN.id, tmp_path)
    record = records.read(RUN.id, tmp_path)
    assert record.typed_spec() == RUN.spec
    assert record.final == {"accuracy": 0.5}
    assert records.recorded_ids(tmp_path) == [RUN.id]
    assert not list(tmp_path.glob("*.tmp"))


def test_names_of_records_are_sorted_whatever_the_folder_lists_first(tmp_path: Path) -> None:
    names = [f"{7919 * number % 10_007:012x}" for number in range(100)]
    for name in names:
        (tmp_path / f"{name}.json").touch()
    assert records.recorded_ids(tmp_path) == sorted(names)


def test_a_metric_has_a_value_a_round_or_an_evaluation(tmp_path: Path, write_record: Any) -> None:
    metrics = {"evaluated_rounds": [2.0, 4.0], "accuracy": [0.5, 0.6], "loss": [4.0, 3.0, 2.0, 1.0]}
    write_record(RUN, tmp_path, metrics=metrics)
    record = records.read(RUN.id, tmp_path)
    assert record.curve("accuracy") == {2: 0.5, 4: 0.6}
    assert record.curve("loss") == {1: 4.0, 2: 3.0, 3: 2.0, 4: 1.0}


def test_equal_content_gives_equal_files(file: Path, tmp_path: Path, write_record: Any) -> None:
    again = write_record(RUN, tmp_path / "again")
    assert again.read_bytes() == file.read_bytes()
    assert file.read_text().endswith("}\n")
    keys = list(json.loads(file.read_text()))
    assert keys == sorted(keys)


def test_floats_have_six_significant_digits(tmp_path: Path, write_record: Any) -> None:
    file = write_record(RUN, tmp_path, final={"accuracy": 0.123456789, "loss": 1234567.0})
    assert json.loads(file.read_text())["final"] == {"accuracy": 0.123457, "loss": 1234570.0}
    spec = json.loads(file.read_text())["spec"]
    assert spec == RUN.spec.model_dump(mode="json", exclude_defaults=True)
    file = write_record(RUN, tmp_path, final={"of": [0.123456789, (2.000000001, 3)]})
    assert json.loads(file.read_text())["final"] == {"of": [0.123457, [2.0, 3]]}
    assert '"of": [0.123457,[2.0,3]]\n' in file.read_text(), "a list is on one line"


def test_a_spec_keeps_all_digits(tmp_path: Path) -> None:
    """The identity is derived from it again."""
    run = small_runs.planned(optimizer={"name": "sgd", "lr": 0.123456789})
    records.write(made_up.content(run), tmp_path)
    assert records.is_recorded(run.id, tmp_path)
    assert records.read(run.id, tmp_path).typed_spec().optimizer.lr == 0.123456789


def partition(counts: Any) -> dict[str, Any]:
    return {"counts": counts, "sha256": "0" * 64}


def test_zeros_in_a_row_are_one_number_in_the_file(tmp_path: Path, write_record: Any) -> None:
    counts = [[0, 0, 5, 0, 7], [1, 0, 0, 0, 0], [1, 2, 3, 4, 5]]
    file = write_record(RUN, tmp_path, partition=partition(counts))
    assert '"counts": [[-2,5,0,7],[1,-4],[1,2,3,4,5]]' in file.read_text()
    assert records.read(RUN.id, tmp_path).partition.counts == counts


@given(st.data(), st.integers(1, 12))
def test_class_counts_are_read_as_they_were(data: st.DataObject, classes: int) -> None:
    count = st.one_of(st.just(0), st.integers(0, 10**6))
    row = st.lists(count, min_size=classes, max_size=classes).filter(any)
    counts = data.draw(st.lists(row, min_size=1, max_size=5))
    short = records.shortened(counts)
    assert records.PartitionRecord(**partition(short)).counts == counts
    assert len(str(short)) <= len(str(counts))


def test_a_record_of_schema_1_is_read(file: Path, tmp_path: Path) -> None:
    counts = [[0, 0, 1], [2, 2, 0]]
    old = partition(counts) | {"emd": [1.6, 0.4]}
    content = json.loads(file.read_text()) | {"schema_version": 1, "partition": old}
    edit(file, **content | {"checksum": records.checksum(content)})
    found = records.read(RUN.id, tmp_path).partition
    assert found.counts == counts
    assert found.emd == old["emd"]


@pytest.mark.parametrize(
    ("counts", "problem"),
    [
        ([[1, -(10**9)]], "partition.counts: more than 100,000,000 counts"),
        ([[1, 2], [1, -2]], "partition.counts: clients have different numbers of classes"),
        ([], "there are none"),
        ([[1, 2], [0, 0]], "partition.counts: a client has no examples"),
        ([[1, 0.5]], "partition.counts.0.1: "),
    ],
)
def test_class_counts_that_cannot_be(
    file: Path, tmp_path: Path, counts: list[Any], problem: str
) -> None:
    content = json.loads(file.read_text()) | {"partition": partition(counts)}
    edit(file, **content | {"checksum": records.checksum(content)})
    with pytest.raises(FedreproError, match="not a valid run record") as error:
        records.read(RUN.id, tmp_path)
    assert str(file) in str(error.value)
    assert problem in str(error.value)


def test_no_record(tmp_path: Path) -> None:
    assert not records.is_recorded(RUN.id, tmp_path)
    with pytest.raises(FedreproError, match=f"no record; `fedrepro train {RUN.id}` trains it"):
        records.read(RUN.id, tmp_path)


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_half_written(file: Path, tmp_path: Path, share: float) -> None:
    whole = file.read_text()
    file.write_text(whole[: int(share * len(whole))])
    message = refusals(tmp_path)
    assert str(file) in message
    assert "not a whole run record" in message
    assert "delete it to train the run again" in message


@pytest.mark.parametrize("content", ["[]", '"text"', "{}", "null"])
def test_another_kind_of_json(file: Path, tmp_path: Path, content: str) -> None:
    file.write_text(content)
    assert "not a whole run record" in refusals(tmp_path)


def test_binary(file: Path, tmp_path: Path) -> None:
    file.write_bytes(b"\xff\xfe\x00")
    assert "not a whole run record" in refusals(tmp_path)


def test_what_cannot_be_read_is_not_to_be_deleted(tmp_path: Path) -> None:
    """A link to itself stands for a file that may not be read, or a disk that does not answer."""
    file = records.path_of(RUN.id, tmp_path)
    file.symlink_to(file.name)
    message = refusals(tmp_path)
    assert message.startswith(f"{file}: cannot be read (Too many levels of symbolic links); check")
    assert "delete" not in message


def test_a_folder_that_cannot_be_listed_is_not_empty(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name in ("none", "file", "file/runs"):
        assert records.recorded_ids(tmp_path / name) == []
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError, match="Too many levels"):
        records.recorded_ids(tmp_path / "loop")


def test_a_file_in_place_of_its_folder(tmp_path: Path) -> None:
    (tmp_path / "results").touch()
    for refuse in (records.is_recorded, records.read):
        with pytest.raises(
            FedreproError, match=r"json: a file is where a folder .*; move that away"
        ):
            refuse(RUN.id, tmp_path / "results")


@pytest.mark.parametrize(
    "changes",
    [
        {"final": {"accuracy": 0.6}},
        {"metrics": {"accuracy": [0.6], "evaluated_rounds": [1]}},
        {"status": "running"},
        {"checksum": "0" * 64},
    ],
)
def test_edited(file: Path, tmp_path: Path, changes: dict[str, Any]) -> None:
    edit(file, **changes)
    message = refusals(tmp_path)
    assert str(file) in message
    assert "edited" in message


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"status": "running"}, "incomplete"),
        ({"schema_version": 3}, "has schema_version 3, and this fedrepro reads up to 2; read it"),
        ({"schema_version": 0}, "has schema_version 0, and this fedrepro reads up to 2; read it"),
        ({"run_id": "0" * 12}, "record of another run"),
    ],
)
def test_a_matching_checksum_is_not_enough(
    file: Path, tmp_path: Path, changes: dict[str, Any], problem: str
) -> None:
    content = json.loads(file.read_text()) | changes
    edit(file, **changes, checksum=records.checksum(content))
    assert problem in refusals(tmp_path)


@pytest.mark.parametrize(
    "provenance", [[], None, "text", {"seconds": 10**400, "device": "CPU", "backend": "loop"}]
)
def test_a_provenance_of_another_kind(file: Path, tmp_path: Path, provenance: Any) -> None:
    content = json.loads(file.read_text()) | {"provenance": provenance}
    edit(file, provenance=provenance, checksum=records.checksum(content))
    assert "not a whole run record" in refusals(tmp_path)


@pytest.mark.parametrize("spec", [{"x": 1}, {"dataset": "mnist"}, {"dataset": {"name": 1}}])
def test_a_spec_of_something_else(file: Path, tmp_path: Path, spec: dict[str, Any]) -> None:
    """Its id is derived as that of a run is."""
    content = json.loads(file.read_text()) | {"spec": spec}
    run_id = records.identity(spec, content["versions"])
    content["run_id"] = run_id
    content["checksum"] = records.checksum(content)
    records.path_of(run_id, tmp_path).write_text(json.dumps(content))
    with pytest.raises(FedreproError, match=f"{run_id}.json: not a whole run record"):
        records.read(run_id, tmp_path)


def test_a_record_of_other_arrays_than_its_data_set_is_named_after(tmp_path: Path) -> None:
    x, y = np.arange(256, dtype=np.uint8).reshape(4, 8, 8), np.arange(4) % 2
    arrays = Dataset.from_arrays(x, y, x, y)
    run = small_runs.planned(dataset={"name": arrays.name})
    found = made_up.content(run)
    found["provenance"]["dataset_sha256"] = arrays.sha256
    records.write(found, tmp_path)
    assert records.read(run.id, tmp_path).spec["dataset"] == {"name": arrays.name}
    found["provenance"]["dataset_sha256"] = "1" * 64
    records.write(found, tmp_path)
    with pytest.raises(FedreproError, match=f"other data than the data set {arrays.name} means"):
        records.read(run.id, tmp_path)


def test_an_edited_spec_is_another_run(file: Path, tmp_path: Path) -> None:
    spec = json.loads(file.read_text())["spec"]
    edit(file, spec=spec | {"rounds": 9})
    assert "record of another run" in refusals(tmp_path)


def test_edited_versions_are_another_run(file: Path, tmp_path: Path) -> None:
    versions = json.loads(file.read_text())["versions"]
    edit(file, versions=versions | {"engine": 9})
    assert "record of another run" in refusals(tmp_path)


def test_foreign_record_under_this_id(file: Path, tmp_path: Path, write_record: Any) -> None:
    write_record(OTHER, tmp_path).rename(file)
    message = refusals(tmp_path)
    assert "record of another run" in message
    assert OTHER.id in message
    assert str(file) in message


CHANGES: dict[str, Callable[[str], str]] = {
    "replaced by 7": lambda _: "7",
    "deleted": lambda _: "",
    "twice": lambda character: 2 * character,
    "space before": lambda character: f" {character}",
    "line break before": lambda character: f"\n {character}",
}


@pytest.mark.parametrize("change", CHANGES)
def test_any_changed_character_is_noticed(file: Path, tmp_path: Path, change: str) -> None:
    whole = file.read_text()
    content = json.loads(whole)
    refused = 0
    step = 1 if change == "replaced by 7" else 4  # each takes seconds in full
    places = range(0, len(whole), step)
    for at in places:
        file.write_text(whole[:at] + CHANGES[change](whole[at]) + whole[at + 1 :])
        try:
            assert records.is_recorded(RUN.id, tmp_path)
        except FedreproError:
            refused += 1
        else:
            assert json.loads(file.read_text()) == content, (at, whole[at - 20 : at + 20])
    assert refused > len(places) / 2


def test_white_space_does_not_matter(file: Path, tmp_path: Path) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()), indent=4))
    assert records.is_recorded(RUN.id, tmp_path)


def test_no_space_left(tmp_path: Path, write_record: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(file: Path, content: bytes) -> int:
        with file.open("wb") as out:
            out.write(content[:10])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(FedreproError, match=r"No space left on device.*free some space"):
        write_record(RUN, tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert not records.is_recorded(RUN.id, tmp_path)


def test_no_space_left_keeps_the_old_record(
    file: Path, tmp_path: Path, write_record: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = file.read_bytes()

    def full(path: Path, content: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        with pytest.raises(FedreproError, match="cannot be written"):
            write_record(RUN, tmp_path, final={"accuracy": 0.9})
    assert file.read_bytes() == old
    assert list(tmp_path.iterdir()) == [file]


def test_keys_are_text(tmp_path: Path, write_record: Any) -> None:
    """As JSON has them; a summary by class may have numbers."""
    write_record(RUN, tmp_path, final={"per_class": {2: 0.5, 10: 0.25}})
    assert records.read(RUN.id, tmp_path).final["per_class"] == {"2": 0.5, "10": 0.25}


def test_not_a_number_is_never_recorded(tmp_path: Path, write_record: Any) -> None:
    with pytest.raises(ValueError, match="Out of range"):
        write_record(RUN, tmp_path, final={"accuracy": float("nan")})
    assert list(tmp_path.iterdir()) == []
