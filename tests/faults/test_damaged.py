"""Damaged files: each is refused by name or has no effect; never another number or a traceback."""

from __future__ import annotations

import functools
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml
from damage import damage
from programs import REPOSITORY, Server
from tiny_packs import TINY, Tiny
from trials import Trial
from undisturbed import PLAN, RECORDS, TABLE, TRAIN, Undisturbed, results

from fedrepro.fl.data import packs


@pytest.mark.trials("run record", 24)
def test_record(trial: Trial, server: Server, whole: Undisturbed, tmp_path: Path) -> None:
    folder = whole.copy(tmp_path)
    file = folder / RECORDS / f"{trial.draw.choice(whole.runs)}.json"
    other = file.with_name(f"{trial.draw.choice(whole.runs)}.json")
    if other != file and trial.draw.random() < 0.1:
        trial.done = "the record of another run"
        shutil.copy(other, file)
    elif trial.draw.random() < 0.05:
        trial.done = "a folder in its place"
        file.unlink()
        file.mkdir()
    else:
        trial.done = damage(trial.draw, file)
    ended = server.run(folder, *TABLE)
    trial.judge(ended, [file.name], same=ended.said == whole.table)


@pytest.mark.trials("checkpoint", 10)
def test_checkpoint(trial: Trial, server: Server, whole: Undisturbed, tmp_path: Path) -> None:
    file = whole.begin(tmp_path, trial.draw.choice(whole.runs))
    trial.done = damage(trial.draw, file)
    ended = server.run(tmp_path, *TRAIN)
    trial.judge(ended, [file.name], same=whole.same(tmp_path))


@pytest.mark.trials("tar file of records", 12)
def test_tar(trial: Trial, server: Server, whole: Undisturbed, tmp_path: Path) -> None:
    shutil.copy(PLAN, tmp_path)
    file = Path(shutil.copy(whole.folder / "new.tar", tmp_path))
    trial.done = damage(trial.draw, file)
    ended = server.run(tmp_path, "records", "import", file.name)
    taken = results(tmp_path)
    same = all(whole.results.get(run) == result for run, result in taken.items())
    assert same, (trial.done, ended)
    if ended.refused:
        assert not taken, "refused, but taken in"
        assert not list(tmp_path.rglob("*.pt")), "refused, but taken in"
    else:  # what came with it is used; whatever it was, the numbers are the same
        again = server.run(tmp_path, *TRAIN)
        assert again.status == 0, again
        same = whole.same(tmp_path)
    trial.judge(ended, [file.name], same=same)


@pytest.mark.trials("plan", 20)
def test_plan(trial: Trial, server: Server, whole: Undisturbed, tmp_path: Path) -> None:
    """A plan that is read otherwise means other runs, which have other ids and no record."""
    folder = whole.copy(tmp_path)
    trial.done = damage(trial.draw, folder / PLAN.name)
    ended = server.run(folder, *TABLE)
    if re.search("no record", ended.said) and not ended.crashed:
        trial.outcome = "other runs"
        return
    names = [PLAN.name, "no table", "no scale"]
    trial.judge(ended, names, same=numbers(ended.said) == numbers(whole.table))


def numbers(table: str) -> list[str]:
    """Return the cells of a table that hold numbers: titles are the plan's to choose."""
    return [cell for line in table.splitlines() for cell in line.split("|") if "%" in cell]


@pytest.mark.trials("index lists", 8)
def test_lists(trial: Trial, server: Server, whole: Undisturbed, tmp_path: Path) -> None:
    """Lists that are read otherwise are another partition, and mean other runs."""
    kind = trial.draw.choice(["npz", "json"])
    clients = [[3, 1, 2], [50, 7], [99, 30, 31]]
    file = tmp_path / f"lists.{kind}"
    if kind == "npz":
        np.savez(file, **{f"client_{i:03}": np.array(c, "<i4") for i, c in enumerate(clients)})
    else:
        file.write_text(json.dumps(clients))
    plan = yaml.safe_load(PLAN.read_text())
    plan["defaults"]["partition"] = {"scheme": "lists", "file": file.name}
    plan["runs"] = {"fedavg": plan["runs"]["fedavg"]}
    (tmp_path / PLAN.name).write_text(yaml.safe_dump(plan))
    command = ("status", "--paper", PLAN.name, "--list")
    before = server.run(tmp_path, *command)
    assert before.status == 0, before
    trial.done = f"{kind}, {damage(trial.draw, file)}"
    ended = server.run(tmp_path, *command)
    trial.judge(ended, [file.name], same=ended.said == before.said, otherwise="other runs")


@pytest.mark.trials("data pack", 16)
def test_pack(trial: Trial, server: Server, tiny: Tiny, tmp_path: Path) -> None:
    folder = tiny.copy(tmp_path) / "packed"
    file = trial.draw.choice(sorted(folder.iterdir()))
    trial.done = f"{'checksums' if file.name == packs.SUMS else 'data'}, "
    trial.done += damage(trial.draw, file)
    shutil.rmtree(tmp_path / "data")
    ended = server.run(tmp_path, *TINY, "--data-root", "packed", FEDREPRO_ROOT=str(tmp_path))
    trial.judge(ended, [file.name], same=ended.said == tiny.said)


@pytest.mark.trials("official data file", 6)
def test_official(trial: Trial, server: Server, tiny: Tiny, tmp_path: Path) -> None:
    folder = tiny.copy(tmp_path)
    shutil.rmtree(folder / "packed")
    command = functools.partial(server.run, folder, *TINY, FEDREPRO_ROOT=str(folder))
    before = command()
    assert before.status == 0, before.said
    files = [file for file in (folder / "data/raw").rglob("*") if file.is_file()]
    file = trial.draw.choice(sorted(files))
    trial.done = damage(trial.draw, file)
    ended = command()
    trial.judge(ended, [file.name], same=ended.said == before.said)


@pytest.mark.trials("data set description", 8)
def test_description(trial: Trial, server: Server, tiny: Tiny, tmp_path: Path) -> None:
    """Words may change, such as a title or an address; what is read is what is meant."""
    folder = tiny.copy(tmp_path)
    trial.done = damage(trial.draw, folder / "config/datasets/mnist.yaml")
    ended = server.run(folder, *TINY, "--data-root", "packed", FEDREPRO_ROOT=str(folder))
    content = re.findall("content ([0-9a-f]{12})", tiny.said)
    same = re.findall("content ([0-9a-f]{12})", ended.said) == content
    trial.judge(ended, ["mnist"], same=same)


JUDGED = "tricks"


@pytest.fixture(scope="session")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with the committed records, published values and verdicts."""
    root = tmp_path_factory.mktemp("judged")
    shutil.copytree(REPOSITORY / "config", root / "config")
    shutil.copytree(REPOSITORY / "docs/verdicts", root / "docs/verdicts")
    (root / "results").mkdir()
    return root


@pytest.mark.trials("published values", 6)
def test_expected(trial: Trial, server: Server, judged: Path, tmp_path: Path) -> None:
    """What decides a verdict does not change unless `changes` says so, or it is not released."""
    shutil.copytree(judged, tmp_path, dirs_exist_ok=True)
    (tmp_path / "results/runs").symlink_to(REPOSITORY / "results/runs")
    expected = f"config/expected/{JUDGED}.yaml"
    released = f"docs/verdicts/lite/{JUDGED}.json"
    file = tmp_path / trial.draw.choice(
        [expected, expected, expected, expected, released, "config/expected/criteria.json"]
    )
    before = (judged / released).read_bytes()
    trial.done = f"{file.name}, {damage(trial.draw, file)}"
    option = "--against-released" if file.name.endswith("s.json") else "--release"
    ended = server.run(
        tmp_path, "check", "--paper", JUDGED, "--scale", "lite", option, FEDREPRO_ROOT=str(tmp_path)
    )
    names = [file.name, JUDGED, "what decides"]
    same = (tmp_path / released).read_bytes() == before or file.name == "criteria.json"
    trial.judge(ended, names, same=same)
