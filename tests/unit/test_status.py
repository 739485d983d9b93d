from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import small_runs

from fedrepro.base.errors import FedreproError
from fedrepro.cli import main
from fedrepro.fl.cost import kind
from fedrepro.runs import records
from fedrepro.runs.plan import PlannedRun, expand, unique
from fedrepro.runs.plan_files import OWN_PLANS
from fedrepro.runs.status import duration, status

RUNS = list(unique(expand("emd", "smoke")).values())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return records.FOLDER


def test_recorded_pending_orphaned(folder: Path, write_record: Any) -> None:
    for run in RUNS[:5]:
        write_record(run, folder)
    strange = RUNS[0].spec.model_copy(update={"rounds": 77})
    plain = strange.model_dump(mode="json", exclude_defaults=True)
    versions = {"engine": 1}
    orphan = records.identity(plain, versions)
    write_record(RUNS[0], folder, spec=plain, versions=versions, run_id=orphan)
    state = status(RUNS)
    assert state.recorded == tuple(run.id for run in RUNS[:5])
    assert state.pending == tuple(run.id for run in RUNS[5:])
    assert state.orphaned == (orphan,)
    assert state.pending_seconds == pytest.approx(sum(state.seconds.values()))
    assert all(seconds > 0 for seconds in state.seconds.values())
    assert re.search(rf"^emd +5 +{len(RUNS) - 5} ", state.text(), re.MULTILINE)
    assert "1 records belong to no planned run" in state.text()


def test_nothing_is_recorded(folder: Path) -> None:
    state = status(RUNS)
    assert not state.recorded
    assert not state.orphaned
    assert len(state.pending) == len(RUNS)


def test_everything_is_recorded(folder: Path, write_record: Any) -> None:
    for run in RUNS:
        write_record(run, folder)
    state = status(RUNS)
    assert state.pending == ()
    assert state.pending_seconds == 0


def test_equal_runs_count_once(folder: Path) -> None:
    assert len(status([*RUNS, *RUNS]).pending) == len(RUNS)


def test_recorded_seconds_decide_the_estimate(folder: Path, write_record: Any) -> None:
    like = [run for run in RUNS if run.group == "mnist_sweep"]
    provenance = json.loads(write_record(like[0], folder).read_text())["provenance"]
    write_record(like[0], folder, provenance=provenance | {"seconds": 100.0})
    state = status([like[1]])
    assert state.pending_seconds == pytest.approx(100, rel=0.3)


def on_a_gpu(
    run: PlannedRun,
    seconds: float,
    folder: Path,
    write_record: Any,
    backend: str = "graphs",
    device: str = "GPU X",
) -> None:
    provenance = json.loads(write_record(run, folder).read_text())["provenance"]
    changed = {"seconds": seconds, "device_type": "cuda", "device": device, "backend": backend}
    write_record(run, folder, provenance=provenance | changed)


def test_like_runs_on_a_gpu_decide_the_estimate_on_one(folder: Path, write_record: Any) -> None:
    like = [run for run in RUNS if run.group == "mnist_sweep"]
    other = next(run for run in RUNS if run.spec.model.name == "kws_cnn")
    for run, seconds in zip(like[:3], (1, 100, 900), strict=True):
        on_a_gpu(run, seconds, folder, write_record)
    on_a_gpu(like[4], 1000, folder, write_record, backend="stacked")  # which is no more
    state = status([like[3], other])
    assert state.gpu_seconds == {like[3].id: pytest.approx(100, rel=0.3)}
    assert state.gpus == ("GPU X",)
    text = state.text()
    assert " for 1 of them" in text
    assert "side by side on GPU X; another" in text
    unknown = text.partition("no like run was recorded on one:")[2]
    assert "kws_cnn of width" in unknown
    assert "mnist_cnn" not in unknown


def test_the_gpus_of_like_runs_are_named_and_no_others(folder: Path, write_record: Any) -> None:
    mnist = [run for run in RUNS if run.spec.model.name == "mnist_cnn"]
    kws = [run for run in RUNS if run.group == "kws_sweep"]
    on_a_gpu(mnist[0], 100, folder, write_record)
    on_a_gpu(kws[0], 100, folder, write_record, device="GPU Y")
    assert status([mnist[1], kws[1]]).gpus == ("GPU X", "GPU Y")
    assert status([mnist[1], kws[0]]).gpus == ("GPU X",)


def test_seconds_of_a_core_say_nothing_about_gpus(folder: Path, write_record: Any) -> None:
    like = [run for run in RUNS if run.group == "mnist_sweep"]
    write_record(like[0], folder)
    assert status([like[1]]).gpu_seconds == {}


def test_another_precision_is_not_like(folder: Path, write_record: Any) -> None:
    like = [run for run in RUNS if run.group == "mnist_sweep"]
    on_a_gpu(like[0], 100, folder, write_record)
    spec = like[1].spec.model_copy(update={"precision": "tf32"})
    state = status([dataclasses.replace(like[1], spec=spec)])
    assert state.gpu_seconds == {}
    assert "not measured" in state.text()
    assert state.text(list_runs=True).endswith(" pending (needs a GPU)")


def test_runs_that_need_a_gpu_are_not_counted_on_a_core(folder: Path, write_record: Any) -> None:
    tf32 = small_runs.planned(precision="tf32")
    on_core = dataclasses.replace(small_runs.planned(seed=1), paper=tf32.paper)
    alone, both = status([tf32]), status([on_core, tf32])
    assert alone.left([tf32.id]) == ("needs a GPU", "not measured")
    assert (alone.pending_seconds, alone.to_json()["seconds"]) == (0, {})
    assert both.pending_seconds == status([on_core]).pending_seconds > 0
    assert not re.search(r"of them|^all ", status([on_core]).text(), re.MULTILINE)
    assert re.search(r"^\S+ +0 +2 +\d+ s for 1 of them +not measured$", both.text(), re.MULTILINE)


def test_a_run_that_needs_a_gpu_has_the_time_of_one(folder: Path, write_record: Any) -> None:
    tf32 = [small_runs.planned(seed=seed, precision="tf32") for seed in (0, 1)]
    on_a_gpu(tf32[0], 600, folder, write_record)
    assert status(tf32).lines()[1].endswith(" pending (10 min on a GPU)")


def test_seconds_of_a_gpu_say_nothing_about_cores(folder: Path, write_record: Any) -> None:
    like = [run for run in RUNS if run.group == "mnist_sweep"]
    unknown = status([like[1]]).pending_seconds
    on_a_gpu(like[0], 1e-3, folder, write_record)
    assert records.training_time(like[0].id) == records.TrainingTime(
        1e-3, gpu=True, device="GPU X", backend="graphs"
    )
    assert status([like[1]]).pending_seconds == unknown


def test_all_damaged_records_are_named(folder: Path, write_record: Any) -> None:
    for run in RUNS[:2]:
        file = write_record(run, folder)
        file.write_text(file.read_text()[:100])
    with pytest.raises(FedreproError) as refused:
        status(RUNS)
    lines = str(refused.value).splitlines()
    assert len(lines) == 2
    for run, line in zip(RUNS, lines, strict=False):
        assert f"{run.id}.json: not a whole run record" in line


def test_twenty_damaged_records_are_named_and_the_others_counted(
    folder: Path, write_record: Any
) -> None:
    for run in RUNS[:22]:
        write_record(run, folder).write_text("{}")
    with pytest.raises(FedreproError) as refused:
        status(RUNS)
    *named, rest = str(refused.value).splitlines()
    assert (len(named), rest) == (20, "and 2 more")


def test_a_damaged_record_of_no_planned_run_stops_nothing(folder: Path, write_record: Any) -> None:
    write_record(RUNS[0], folder)
    (folder / f"{'0' * 12}.json").write_text("{}")
    state = status(RUNS)
    assert len(state.pending) == len(RUNS) - 1
    assert state.orphaned == ("0" * 12,)


def test_other_plans_and_records_that_cannot_be_read_stop_nothing(
    folder: Path, write_record: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would only help to estimate."""
    like = [run for run in RUNS if run.group == "mnist_sweep"]
    write_record(like[0], folder).write_text("{}")
    (folder.parent / "wrong.yaml").write_text("paper: other")
    monkeypatch.setenv(OWN_PLANS, str(folder.parent / "wrong.yaml"))
    assert status([like[1]]).pending == (like[1].id,)
    provenance = json.loads(write_record(like[2], folder).read_text())["provenance"]
    write_record(like[2], folder, provenance=provenance | {"seconds": 100.0})
    assert status([like[1]]).pending_seconds == pytest.approx(100, rel=0.3)


def test_without_a_like_record_no_other_is_read(
    folder: Path, write_record: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder of one's own the papers' plans, thousands of runs, are not looked at either."""
    pending = RUNS[0]
    other = next(run for run in RUNS if kind(run.spec) != kind(pending.spec))
    with monkeypatch.context() as patched:
        patched.setattr("fedrepro.runs.status.plans", lambda: pytest.fail("read"))
        assert status([pending]).pending == (pending.id,)
    write_record(other, folder)
    looked_up = []
    took = records.training_time
    monkeypatch.setattr(records, "training_time", lambda *a: looked_up.append(a[0]) or took(*a))
    status([pending])
    assert looked_up == [pending.id]


def test_command(folder: Path, write_record: Any, capsys: pytest.CaptureFixture[str]) -> None:
    write_record(RUNS[0], folder)
    assert main(["status", "--scale", "smoke", "--paper", "emd", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["recorded"] == [RUNS[0].id]
    assert len(content["pending"]) == len(RUNS) - 1
    assert content["orphaned"] == []
    assert content["pending_seconds"] > 0
    assert main(["status", "--scale", "smoke", "--list"]) == 0
    text = capsys.readouterr().out
    assert f"{RUNS[0].id}  emd {RUNS[0].group} seed=0" in text
    assert " pending (" in text
    assert "selective" in text


def test_durations_for_readers() -> None:
    assert [duration(s) for s in (0.4, 89, 90, 3600, 5400, 172_799, 172_800, 864_000)] == [
        "0 s",
        "89 s",
        "2 min",
        "60 min",
        "1.5 h",
        "48.0 h",
        "2 days",
        "10 days",
    ]


def test_status_does_not_wait_for_torch(folder: Path, write_record: Any) -> None:
    """Nor where it estimates what the pending runs of all papers take."""
    on_a_gpu(expand("emd", "lite")[0], 100, folder, write_record)
    program = (
        "import sys; from fedrepro.cli import main; "
        "sys.exit(main(['status', '--json']) or 'torch' in sys.modules)"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
