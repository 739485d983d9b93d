"""Pinned run ids, pinned trajectories, and a fingerprint of every component's code."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import components
import trajectories

from fedrepro.algorithms import ALGORITHMS
from fedrepro.spec import run_id

FOLDER = Path(__file__).parent


def stored(name):
    return json.loads((FOLDER / name).read_text())


@pytest.mark.parametrize("name", sorted(trajectories.CASES))
def test_run_ids_are_what_they_were(name):
    assert run_id(trajectories.spec(name)) == stored("run_ids.json")[name], (
        "the identity of a run changed without a new version: a default, a field name or the "
        "canonical form is different; all committed records of such runs would be orphaned"
    )


@pytest.mark.parametrize("name", sorted(trajectories.CASES))
def test_trajectories_are_what_they_were(name):
    ours, golden = trajectories.run(name), stored("trajectories.json")[name]
    assert ours["partition"] == golden["partition"]
    assert ours.get("groups") == golden.get("groups")
    for metric in ("train_loss", "loss"):
        assert ours[metric] == pytest.approx(golden[metric], rel=1e-5), metric
    assert ours["accuracy"] == pytest.approx(golden["accuracy"], abs=1e-6)


def test_every_algorithm_has_a_trajectory():
    covered = {case["algorithm"]["name"] for case in trajectories.CASES.values()}
    assert covered == set(ALGORITHMS)


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="code is unparsed as Python 3.11 does")
def test_fingerprints_of_all_components():
    golden, now = stored("fingerprints.json"), components.current()
    assert golden.keys() == now.keys(), "run `python tests/golden/update.py`"
    changed = [
        name
        for name in now
        if now[name]["version"] == golden[name]["version"]
        and now[name]["fingerprint"] != golden[name]["fingerprint"]
    ]
    assert not changed, (
        f"the code of {', '.join(changed)} changed. Either its numbers changed: raise its version "
        "in src/fedrepro/versions.py. Or they did not: `python tests/golden/update.py` checks that "
        "and takes the new fingerprint over."
    )
    raised = [name for name in now if now[name]["version"] != golden[name]["version"]]
    assert not raised, f"{', '.join(raised)}: run `python tests/golden/update.py`"


def test_fingerprints_see_code_and_not_comments(tmp_path, monkeypatch):
    monkeypatch.setattr(components, "SOURCE", tmp_path)
    monkeypatch.setitem(components.SHARED, "engine", ["a.py"])
    prints = []
    for text in (
        '"""Doc."""\n\ndef f(x):\n    """Doc."""\n    return x + 1\n',
        '"""Other."""\n\n\ndef f(x):  # why\n    return x + 1\n',
        "def f(x):\n    return x + 2\n",
    ):
        (tmp_path / "a.py").write_text(text)
        prints.append(components.fingerprint("engine"))
    assert prints[0] == prints[1]
    assert prints[1] != prints[2]
