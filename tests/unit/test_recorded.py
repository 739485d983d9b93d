"""What ``fedrepro show`` and ``fedrepro compare`` say of recorded runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fedrepro.base.errors import FedreproError
from fedrepro.cli import main
from fedrepro.report import recorded
from fedrepro.runs import records
from fedrepro.runs.plan import expand, unique

RUNS = [run for run in unique(expand("emd", "smoke")).values() if run.group == "mnist_sweep"][:3]
CURVE = [0.1, 0.9, 0.3]


@pytest.fixture(autouse=True)
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write_record: Any) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(recorded, "find_root", lambda: tmp_path / "clone")
    for run in RUNS[:2]:
        metrics = {
            "evaluated_rounds": [1, 10, 20],
            "accuracy": [value - run.seed / 100 for value in CURVE],
            "train_loss": [3.0, 2.5, 2.0, 1.0],
        }
        write_record(run, records.FOLDER, metrics=metrics, final={"accuracy": 0.9})


def test_a_run_is_found_by_how_its_id_begins() -> None:
    (found,) = recorded.find([RUNS[0].id[:8]])
    assert found.run == RUNS[0]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("zz", "no planned run has an id that begins with 'zz'; `fedrepro status --list`"),
        ("", r"begins the ids of \d+ runs, such as (\w{12}, ){4}\w{12}$"),
        (RUNS[2].id, f"run {RUNS[2].id} has no record here; `fedrepro train {RUNS[2].id}`"),
    ],
)
def test_what_is_no_recorded_run_is_named(name: str, text: str) -> None:
    with pytest.raises(FedreproError, match=text):
        recorded.find([name])


def test_whose_runs_were_looked_through_is_said() -> None:
    text = "no planned run of tricks has an id .*; `fedrepro status --paper tricks --list` shows"
    with pytest.raises(FedreproError, match=text):
        recorded.find([RUNS[0].id], "tricks")


def test_the_nearest_ids_are_offered(capsys: pytest.CaptureFixture[str]) -> None:
    slip = RUNS[0].id[:5] + "z" + RUNS[0].id[6:]
    for command in (["show", slip], ["compare", slip, slip], ["train", slip]):
        assert main(command) == 1
        assert f"did you mean {RUNS[0].id}" in capsys.readouterr().err
    start = slip[:8]
    assert main(["show", start]) == 1
    assert RUNS[0].id in capsys.readouterr().err
    assert main(["train", "zz"]) == 1
    assert "did you mean" not in capsys.readouterr().err


def test_show_says_what_a_run_is_where_it_is_used_and_how_it_went() -> None:
    text = recorded.show(recorded.find([RUNS[0].id])[0])
    assert text.startswith(f"run {RUNS[0].id}\n")
    assert "\n  emd table2: " in text
    assert "\n  emd fig5a: " in text
    assert "table3" not in text
    lines = text.splitlines()
    spec = [line.split() for line in lines[lines.index("spec") + 1 : lines.index("part of")]]
    assert ["dataset.name", RUNS[0].spec.dataset.name] in spec
    assert ["seed", str(RUNS[0].seed)] in spec
    assert f"fedrepro train {RUNS[0].id}" in text
    accuracy, loss = text.splitlines()[-2:]
    assert accuracy == "  accuracy    ▁█▃  round 1: 0.1, 20: 0.3; from 0.1 to 0.9"
    assert loss == "  train_loss  █▆▅▁  round 1: 3, 4: 1; from 1 to 3"


def test_a_record_is_named_where_it_is(write_record: Any) -> None:
    """Those of `quick`, `smoke` and of one's own plans are apart from the committed ones."""
    metrics = {"evaluated_rounds": [1], "accuracy": [0.5]}
    write_record(RUNS[2], records.OWN_FOLDER, metrics=metrics, final={"accuracy": 0.5})
    text = recorded.show(recorded.find([RUNS[2].id])[0])
    assert f"  record    results/own/runs/{RUNS[2].id}.json\n" in text
    assert f"rm -f results/own/runs/{RUNS[2].id}.json " in text


def test_a_run_that_the_clone_has_is_read_there(
    write_record: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    metrics = {"evaluated_rounds": [1], "accuracy": [0.5]}
    file = write_record(RUNS[2], tmp_path / "clone" / RUNS[2].records, metrics=metrics)
    assert main(["show", RUNS[2].id]) == 0
    text = capsys.readouterr().out
    assert f"  record    {file}\n" in text
    assert "  group     emd mnist_sweep" in text
    assert "rm -f" not in text, "the record of another folder stays"
    assert main(["compare", RUNS[0].id, RUNS[2].id]) == 0


def test_a_run_is_found_by_the_file_of_its_record(
    write_record: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    metrics = {"evaluated_rounds": [1], "accuracy": [0.5]}
    file = write_record(RUNS[2], tmp_path / "theirs", metrics=metrics)
    (found,) = recorded.find([str(file)])
    assert (found.run.id, found.run.group, found.file) == (RUNS[2].id, "mnist_sweep", file)
    assert recorded.compare(recorded.find([RUNS[0].id, str(file)])).shape[0] == 2
    assert main(["show", "theirs/none.json"]) == 1
    assert "theirs/none.json: no such file; give the file of a record" in capsys.readouterr().err
    file.write_text(file.read_text().replace("0.5", "0.6"))
    assert main(["show", str(file)]) == 1
    error = capsys.readouterr().err
    assert f"{file}: was edited" in error
    assert error.endswith("; give the file of a record, which is named after its run\n")
    assert "delete" not in error, "it may be no record at all"


def test_one_curve_of_a_run() -> None:
    (found,) = recorded.find([RUNS[0].id])
    assert "train_loss" not in recorded.show(found, "accuracy")
    with pytest.raises(FedreproError, match="logs no 'loss'; it logs accuracy, train_loss"):
        recorded.show(found, "loss")


def test_a_long_curve_fits_a_line() -> None:
    line = recorded._sparkline({t: t / 1000 for t in range(1, 1001)})
    bars = line.split()[0]
    assert len(bars) == 60
    assert (bars[0], bars[-1], list(bars) == sorted(bars)) == ("▁", "█", True)


def test_a_flat_curve_and_one_of_one_round_have_a_line() -> None:
    assert recorded._sparkline({1: 0.5, 2: 0.5}).startswith("▁▁  round 1: 0.5, 2: 0.5")
    assert recorded._sparkline({7: 0.5}).startswith("▁  round 7: 0.5, 7: 0.5")


def test_compare_shows_what_differs_and_nothing_else() -> None:
    table = recorded.compare(recorded.find([run.id for run in RUNS[:2]]))
    assert list(table["run"]) == [run.id for run in RUNS[:2]]
    differing = set(table.columns) - {"run", "group", "last round", "accuracy"}
    differing -= {"lowest accuracy", "highest accuracy"}
    specs = [run.spec for run in RUNS[:2]]
    assert ("seed" in differing) == (specs[0].seed != specs[1].seed)
    assert ("partition.emd" in differing) == (RUNS[0].coordinates != RUNS[1].coordinates)
    assert not differing & {"rounds", "batch", "model.name"}
    assert list(table["last round"]) == [20, 20]
    of_first = table.loc[0, ["accuracy", "lowest accuracy", "highest accuracy"]]
    assert list(of_first) == pytest.approx([0.3, 0.1, 0.9])


def test_curves_are_labelled_by_what_differs() -> None:
    runs = recorded.find([run.id for run in RUNS[:2]])
    labels = recorded._labels(runs)
    assert len(set(labels)) == 2
    assert not any(run.run.id in label for run, label in zip(runs, labels, strict=True))
    table = recorded.compare(runs)
    differing = [name for name in table.columns if "." in name or name == "seed"]
    assert all(f"{name} " in label for name in differing for label in labels)
    assert recorded._labels([runs[0], runs[0]]) == [f"({RUNS[0].id})"] * 2


def test_what_a_spec_leaves_at_its_default_is_compared_as_its_value() -> None:
    runs = recorded.find([run.id for run in RUNS[:2]])
    runs[1].record.spec["dataset"]["downsample"] = 2
    assert "downsample" not in runs[0].record.spec["dataset"]
    downsample = [keys["dataset.downsample"] for keys in recorded._differences(runs)]
    assert downsample == ["1", "2"]


def test_commands_print_and_write(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    ids = [run.id for run in RUNS[:2]]
    assert main(["compare", *ids, "--out", "mine/both"]) == 0
    text = capsys.readouterr().out
    assert all(run_id in text for run_id in ids)
    assert "wrote mine/both.csv" in text
    assert {file.name for file in Path("mine").iterdir()} == {"both.csv", "both.svg", "both.png"}
    assert main(["show", ids[0][:10], "--metric", "train_loss", "--out", "mine/loss"]) == 0
    assert Path("mine/loss.svg").exists()
    assert main(["show", "zz"]) == 1
