"""Recorded runs trained again and compared."""

import contextlib
import json
import math
import re
import shutil
import signal

import pytest
from made_up import content
from small_runs import planned

from fedrepro import cli
from fedrepro.base.errors import FedreproError
from fedrepro.cli import runs as commands
from fedrepro.report import reproducibility
from fedrepro.runs import measured, records, session, verify
from fedrepro.runs.options import TrainOptions
from fedrepro.runs.records import Origin, RunRecord

RUNS = [planned(seed=seed, rounds=2) for seed in range(3)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder in which the runs were trained."""
    folder = tmp_path_factory.mktemp("trained")
    with contextlib.chdir(folder):
        session.train(RUNS, TrainOptions(backend="loop"))
    return folder


@pytest.fixture
def recorded(trained, tmp_path, monkeypatch):
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(commands, "selected", lambda paper, scale: RUNS)


def rewrite(run, **changes):
    """Change a record and give it a valid checksum."""
    content = json.loads(records.path_of(run.id).read_text())
    for name, values in changes.items():
        content[name] |= values
    records.write(content)


def test_equal_runs_are_verified_and_nothing_is_left(recorded, tmp_path, capsys):
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    assert cli.main(["verify", "--sample", "2", "--seed", "1"]) == 0
    said = capsys.readouterr().out
    assert said.count(": equal (every digit compared)") == 2
    assert "2 of 2 records verified" in said
    after = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    assert after == before


def test_a_signal_leaves_nothing_behind(recorded, tmp_path, monkeypatch, capsys):
    """As where a scheduler ends a verification; the temporary folder may hold much."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))

    def stopped(*_):
        assert list((tmp_path / "temporary").iterdir())
        assert signal.getsignal(signal.SIGTERM) != signal.SIG_DFL
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(session, "train", stopped)
    assert cli.main(["verify"]) == 128 + signal.SIGTERM
    assert "stopped by SIGTERM" in capsys.readouterr().err
    assert not list((tmp_path / "temporary").iterdir())


def test_named_runs_are_verified_and_no_others(recorded, monkeypatch, capsys):
    monkeypatch.setattr("fedrepro.report.recorded.selected", lambda paper, scale, studies: RUNS)
    assert cli.main(["verify", RUNS[2].id, RUNS[0].id[:8]]) == 0
    _, *compared, total = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in compared] == [RUNS[2].id, RUNS[0].id]
    assert total == "2 of 2 records verified"
    assert cli.main(["verify", RUNS[2].id, "--max-hours", "1"]) == 2
    assert "chooses among runs that are drawn; name none" in capsys.readouterr().err
    rewrite(RUNS[2], provenance={"device_type": "cuda", "device": "a GPU"})
    assert cli.main(["verify", RUNS[2].id]) == 1
    assert f"run {RUNS[2].id} was trained on a GPU, where" in capsys.readouterr().err


def test_an_edited_record_is_found(recorded, capsys):
    accuracy = records.read(RUNS[1].id).final["accuracy"]
    rewrite(RUNS[1], final={"accuracy": accuracy + 0.001})
    assert cli.main(["verify", "--sample", "3"]) == 1
    said = capsys.readouterr().out
    assert f"{RUNS[1].id}  made_up group seed=1: differs (every digit compared): final" in said
    assert ": final accuracy by 0.001\n" in said
    assert said.count(": equal (every digit compared)") == 2
    assert "2 of 3 records verified" in said


@pytest.mark.parametrize(("by", "found"), [(0.04, []), (0.06, ["final accuracy"])])
def test_other_processors_have_a_tolerance(recorded, by, found):
    run = RUNS[0]
    final = records.read(run.id).final
    changed = {"accuracy": final["accuracy"] + by, "loss": final["loss"] + 5}
    rewrite(run, final=changed, provenance={"device": "another"})
    [comparison] = verify.verify([run], tolerance=0.05)
    assert not comparison.same_machine
    assert comparison.beyond == found
    assert comparison.differences == {
        "final accuracy": pytest.approx(by, abs=1e-5),
        "final loss": pytest.approx(5, abs=1e-4),  # which has no tolerance
    }
    assert "other processor" in comparison.text()
    assert "to 5 points" in comparison.text()


@pytest.mark.parametrize(
    "changes",
    [
        {"arithmetic": "AVX512, another library"},
        {"torch": "1.0"},
        {"backend": "another"},
        {"threads": 64},
        {"earlier": [{"device": "another"}]},
        {"imported": [{"device": "another"}]},
    ],
)
def test_every_digit_is_asked_for_only_where_the_same_code_computed_all_rounds(recorded, changes):
    record = records.read(RUNS[0].id)
    origin = {name: getattr(record.provenance, name) for name in Origin.model_fields}
    for name in changes.keys() & {"earlier", "imported"}:
        changes = {name: [origin | {"rounds": 1, "seconds": 1.0} | changes[name][0]]}
    assert verify.compare(RUNS[0], record, record).same_machine
    rewrite(RUNS[0], provenance=changes)
    assert not verify.compare(RUNS[0], records.read(RUNS[0].id), record).same_machine


def test_records_that_do_not_name_the_libraries_are_held_to_every_digit(recorded):
    record = records.read(RUNS[0].id)
    assert record.provenance.arithmetic
    rewrite(RUNS[0], provenance={"arithmetic": ""})
    older = records.read(RUNS[0].id)
    for arithmetic, alike in (("AVX2", True), ("AVX2, ATEN_CPU_CAPABILITY=avx2", False)):
        changed = record.provenance.model_copy(update={"arithmetic": arithmetic})
        again = record.model_copy(update={"provenance": changed})
        assert verify.compare(RUNS[0], older, again).same_machine == alike
        assert verify.compare(RUNS[0], again, older).same_machine == alike


def test_the_tolerance_is_the_most_that_was_measured_of_the_network(tmp_path, monkeypatch):
    monkeypatch.setattr(verify, "find_root", lambda: tmp_path)
    assert verify.tolerance_of("liu3") == verify.TOLERANCE
    file = tmp_path / measured.MEASURED
    file.parent.mkdir()
    points = {"liu3": (1.5, 7.8), "liu1": (0.0, 0.1), "liu2": ()}
    changes = {
        name: {
            str(i): {"equal": False, "weights": [], "points": [], "most_points": much}
            for i, much in enumerate(each)
        }
        for name, each in points.items()
    }
    networks = {name: {"accuracy": 0.5, "changes": changes[name]} for name in points}
    file.write_text(json.dumps({"on": {}, "rounds": [], "networks": networks}))
    assert verify.tolerance_of("liu3") == pytest.approx(0.078)
    assert verify.tolerance_of("liu1") == verify.TOLERANCE
    assert verify.tolerance_of("liu2") == verify.TOLERANCE
    assert verify.tolerance_of("resnet9") == verify.TOLERANCE
    monkeypatch.setattr(verify, "find_root", lambda: None)
    assert verify.tolerance_of("liu3") == verify.TOLERANCE


@pytest.mark.parametrize("content", ['{"networks": ', '{"networks": {"liu3": {}}}', "[]"])
def test_damaged_measurements_are_an_error_that_names_the_file(tmp_path, monkeypatch, content):
    file = tmp_path / measured.MEASURED
    file.parent.mkdir()
    file.write_text(content)
    monkeypatch.setattr(verify, "find_root", lambda: tmp_path)
    monkeypatch.setattr(reproducibility, "root", lambda: tmp_path)
    damaged = rf"{re.escape(str(file))}: not as it was written .*; restore it with git, or measure"
    for read in (lambda: verify.tolerance_of("liu3"), reproducibility.BLOCKS["measured_on"]):
        with pytest.raises(FedreproError, match=damaged):
            read()


@pytest.mark.parametrize(
    ("changes", "beyond"),
    [
        ({"partition": {"sha256": "0" * 64}}, "partition"),
        ({"metrics": {"more": [1.0]}}, "names of metrics"),
        ({"final": {"more": 1.0}}, "names of the last evaluation"),
    ],
)
def test_inputs_must_be_equal_everywhere(recorded, changes, beyond):
    rewrite(RUNS[0], provenance={"device": "another"}, **changes)
    [comparison] = verify.verify([RUNS[0]])
    assert comparison.beyond == [beyond]


def made_up(**changes):
    """Return a made-up record; ``data`` is the content hash of its data set."""
    found = content(RUNS[0])
    found["provenance"]["dataset_sha256"] = changes.pop("data", "0" * 64)
    return RunRecord.model_validate(found | changes | {"checksum": "0" * 64})


def test_other_data_are_told_whatever_the_numbers():
    assert verify.compare(RUNS[0], made_up(), made_up()).beyond == []
    assert verify.compare(RUNS[0], made_up(), made_up(data="1" * 64)).beyond == ["data set"]


def test_by_how_much_records_differ_at_most():
    one = made_up(
        metrics={"a": [1.0, 2.0], "b": [1.0]},
        final={"c": {"d": [1, 2.0], "e": 1}, "f": "x", "g": [1], "h": [1], "i": None},
    )
    other = made_up(
        metrics={"a": [1.25, 1.5], "b": [1.0]},
        final={"c": {"d": [1, 5.0], "e": 3}, "f": "y", "g": [1, 2], "h": 1, "i": None},
    )
    found = verify.compare(RUNS[0], one, other)
    unlike = dict.fromkeys(("final f", "final g", "final h"), math.inf)
    assert found.differences == {"a": 0.5, "final c": 3.0} | unlike
    assert sorted(found.beyond) == sorted(found.differences)


def test_elsewhere_accuracies_of_the_last_evaluation_may_be_off_by_just_the_tolerance():
    elsewhere = made_up().provenance.model_copy(update={"device": "another"})
    here = made_up(metrics={"accuracy": [0.25, 0.5]}, final={"accuracy": 0.5, "accuracy_iid": 0.5})
    for off, beyond in ((0.25, []), (0.5, ["final accuracy", "final accuracy_iid"])):
        there = made_up(
            metrics={"accuracy": [0.75, 0.5]},
            final={"accuracy": 0.5 + off, "accuracy_iid": 0.5 - off},
            provenance=elsewhere,
        )
        assert verify.compare(RUNS[0], there, here, tolerance=0.25).beyond == beyond


def test_the_sample_is_drawn_cheapest_first_within_the_hours(recorded):
    for i, run in enumerate(RUNS):
        rewrite(run, provenance={"seconds": 3600.0 * (3 - i)})
    assert verify.sample(RUNS, 9, 0) == RUNS[::-1]
    assert verify.sample(RUNS, 9, 0, max_hours=3) == [RUNS[2], RUNS[1]]
    assert len({tuple(r.id for r in verify.sample(RUNS, 1, seed)) for seed in range(20)}) == 3
    with pytest.raises(FedreproError, match=r"none recorded on a CPU that fits 0\.5 h"):
        verify.sample(RUNS, 9, 0, max_hours=0.5)
    rewrite(RUNS[0], provenance={"device_type": "cuda"})
    assert verify.sample(RUNS, 9, 0) == [RUNS[2], RUNS[1]]
