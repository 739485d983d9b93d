"""Pinned run ids, pinned trajectories, and a fingerprint of every component's code."""

import ast
import json
import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import components
import trajectories
import update

from fedrepro.fl.algorithms import ALGORITHMS
from fedrepro.fl.engine.pool import PoolBackend
from fedrepro.fl.spec import run_id

FOLDER = Path(__file__).parent


def stored(name):
    return json.loads((FOLDER / name).read_text())


@pytest.mark.parametrize("name", sorted(trajectories.CASES))
def test_run_ids_are_what_they_were(name):
    assert run_id(trajectories.spec(name)) == stored("run_ids.json")[name], (
        "the identity of a run changed without a new version: a default, a field name or the "
        "canonical form is different; all committed records of such runs would be orphaned"
    )


ROUNDING = 1e-4
"""Share by which processors of other generations differ, seen between two of AMD: up to 1.6e-5."""


SHARES = re.compile(r"\.(nodes_|agreement|\w*accuracy)")
"""Names of metrics that are shares of examples."""


def assert_same(ours, golden, rel, place):
    """Compare floats by the largest of their list, which differences may cancel to; others exactly.

    Shares of examples may differ by one in a hundred: where a small network is undecided, another
    processor's rounding decides.

    Args:
        ours: JSON values.
        golden: the same.
        rel: tolerance, a share.
        place: name in messages.
    """
    if isinstance(golden, dict):
        assert ours.keys() == golden.keys(), place
        for key, value in golden.items():
            assert_same(ours[key], value, rel, f"{place}.{key}")
    elif isinstance(golden, list) and any(isinstance(value, list) for value in golden):
        assert len(ours) == len(golden), place
        for number, (one, value) in enumerate(zip(ours, golden, strict=True)):
            assert_same(one, value, rel, f"{place}[{number}]")
    elif isinstance(golden, list) and any(isinstance(value, float) for value in golden):
        slack = 0.01 if SHARES.search(place) else rel * max(map(abs, golden))
        assert ours == pytest.approx(golden, rel=rel, abs=slack), place
    elif isinstance(golden, float):
        slack = 0.01 if SHARES.search(place) else rel * abs(golden)
        assert ours == pytest.approx(golden, abs=slack), place
    else:
        assert ours == golden, place


@pytest.mark.parametrize("name", sorted(trajectories.CASES))
def test_trajectories_are_what_they_were(name):
    assert_same(trajectories.run(name), stored("trajectories.json")[name], ROUNDING, name)


@pytest.mark.parametrize("name", sorted(trajectories.CASES))
def test_the_pool_has_the_trajectories_of_the_loop(name):
    """What ``auto`` trains with on a CPU: channels last, and small dense networks stacked."""
    ours = trajectories.run(name, PoolBackend(1, stack=True))
    assert_same(ours, stored("trajectories.json")[name], ROUNDING, name)


def test_every_algorithm_has_a_trajectory():
    covered = {case["algorithm"]["name"] for case in trajectories.CASES.values()}
    assert covered == set(ALGORITHMS)


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
        "in src/fedrepro/fl/versions.py. Or they did not: `python tests/golden/update.py` checks "
        "that and takes the new fingerprint over."
    )
    raised = [name for name in now if now[name]["version"] != golden[name]["version"]]
    assert not raised, f"{', '.join(raised)}: run `python tests/golden/update.py`"


def test_fingerprints_see_code_and_not_its_python():
    def plain(code):
        return components._plain(ast.parse(code))

    code = "def f(x):\n    return f'{x:0{3}}', None, ''\n"
    for other in ("None, 0", "0, ''", "None"):
        assert plain(code) != plain(code.replace("None, ''", other))
    newer = ast.parse(code)
    newer.body[0].type_params = []
    newer.body[0]._fields += ("type_params",)
    newer.body[0].body[0].value.elts[0].values[0].format_spec.values.append(ast.Constant(""))
    assert components._plain(newer) == plain(code)


def test_fingerprints_of_data_see_their_constants(monkeypatch):
    """`transform: standard` takes them from config/datasets.yaml, which anybody may edit."""
    before = components.fingerprint("data.mnist")
    info = components.describe("mnist")
    other = info.model_copy(update={"std": (0.5,)})
    monkeypatch.setattr(components, "describe", lambda name: other if name == "mnist" else info)
    assert components.fingerprint("data.mnist") != before


def test_fingerprints_cover_what_a_component_imports():
    """Its own files, and those that all of a kind share: every run has one of each kind.

    A shared file may import what is a component's own, as `sources.py` every reader. The registry
    reads config/datasets.yaml, and the constants there enter the fingerprints themselves.
    """
    shared = {file for files in components.SHARED.values() for file in files}
    every = {file for name in components.VERSIONS for file in components.files(name)}
    for name in components.VERSIONS:
        for file in components.files(name):
            covered = every if file in shared else shared.union(components.files(name))
            missing = components.imports(file) - covered - {"data/registry.py"}
            assert not missing, f"{name}: {file} imports {missing}"


def test_imports_are_seen_wherever_they_are(tmp_path, monkeypatch):
    monkeypatch.setattr(components, "SOURCE", tmp_path)
    (tmp_path / "data").mkdir()
    for name in ("data/a.py", "data/b.py", "data/c.py", "data/d.py", "spec.py"):
        (tmp_path / name).write_text("")
    (tmp_path / "data/e.py").write_text(
        "import os\nimport fedrepro.fl.data.a\nfrom fedrepro.fl.data import b, load\n"
        "from fedrepro.fl.spec import RunSpec\n\n"
        "def f():\n    from fedrepro.fl.data.c import x\n    return x\n"
    )
    assert components.imports("data/e.py") == {"data/a.py", "data/b.py", "data/c.py"}


def test_only_cases_of_another_run_id_get_new_numbers(monkeypatch):
    monkeypatch.setattr(trajectories, "run", lambda name: f"new {name}")
    ids = {"same": "1", "changed": "2", "added": "3"}
    old_ids = {"same": "1", "changed": "9", "left_out": "4"}
    old = {name: f"old {name}" for name in old_ids}
    assert update.renewed(ids, old_ids, old) == {
        "same": "old same",
        "changed": "new changed",
        "added": "new added",
    }


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
