"""`fedrepro prune`: what it lists, what it removes, what it leaves alone."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from fedrepro.base import paths
from fedrepro.base.paths import root
from fedrepro.cli import main
from fedrepro.runs import records
from fedrepro.runs.plan import expand

RUN = expand("emd", "smoke")[0]


@pytest.fixture
def orphan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write_record: Any) -> Path:
    """A record of no planned run, in an empty working directory."""
    monkeypatch.chdir(tmp_path)
    plain = RUN.spec.model_copy(update={"rounds": 77}).model_dump(
        mode="json", exclude_defaults=True
    )
    run_id = records.identity(plain, {"engine": 1})
    file: Path = write_record(
        RUN, records.FOLDER, spec=plain, versions={"engine": 1}, run_id=run_id
    )
    return file


def test_nothing_is_removed_without_yes(orphan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prune"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"would remove {orphan}",
        "1 records of no planned run",
        "nothing was removed; `fedrepro prune --yes` removes them",
    ]
    assert orphan.exists()


def test_only_records_of_no_planned_run_are_removed(
    orphan: Path, write_record: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    study = expand("precision", "paper")[0]
    kept = [
        write_record(RUN, records.FOLDER),
        records.path_of("notes"),
        records.path_of("0" * 12),
    ]
    for file in kept[1:]:
        file.write_text("{}")
    kept.append(write_record(study, records.FOLDER))
    assert main(["prune", "--yes"]) == 0
    out = capsys.readouterr().out
    assert f"left alone: {kept[2]}: not a whole run record" in out
    assert "notes" not in out
    assert out.endswith(f"removed {orphan}\n1 records of no planned run\n")
    assert sorted(records.FOLDER.iterdir()) == sorted(kept)


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("elsewhere", "FEDREPRO_ROOT is elsewhere, which has no config/papers"),
        ("", "Cannot find the fedrepro repository"),
        ("empty", "no plan of a paper is there"),
        ("one less", "config/papers/tricks.yaml: missing, and "),
    ],
)
def test_nothing_is_removed_where_there_are_no_plans(
    orphan: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    place: str,
    text: str,
) -> None:
    (tmp_path / "empty/config/papers").mkdir(parents=True)
    if place == "one less":
        shutil.copytree(root() / "config", tmp_path / place / "config")
        (tmp_path / place / "config/papers/tricks.yaml").unlink()
    monkeypatch.setattr(paths, "__file__", str(tmp_path / "site-packages/fedrepro/paths.py"))
    monkeypatch.setenv("FEDREPRO_ROOT", place)
    assert main(["prune", "--yes"]) == 1
    assert text in capsys.readouterr().err
    assert orphan.exists()
