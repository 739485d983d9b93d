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
from fedrepro.fl.models import NETWORKS
from fedrepro.fl.partition import SCHEMES
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


def test_every_component_has_a_trajectory():
    """Its own example makes a case where no other case has it, so a new file needs no list."""
    specs = [trajectories.spec(name) for name in trajectories.CASES]
    assert {spec.algorithm.name for spec in specs} == set(ALGORITHMS)
    assert {spec.partition.scheme for spec in specs} == {
        name for name, scheme in SCHEMES.items() if scheme.example
    }
    assert {spec.model.name for spec in specs} == set(NETWORKS)


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
        "where it is defined. Or they did not: `python tests/golden/update.py` checks "
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
    """`transform: standard` takes them from the description, which anybody may edit."""
    before = components.fingerprint("data.mnist")
    info = components.describe("mnist")
    other = info.model_copy(update={"std": (0.5,)})
    monkeypatch.setattr(components, "describe", lambda name: other if name == "mnist" else info)
    assert components.fingerprint("data.mnist") != before


def test_a_component_is_its_file_and_all_that_it_imports():
    assert {"fl/algorithms/cadis.py", "fl/algorithms/clustering.py", "fl/requests.py"} <= {
        *components.files("algorithm.cadis")
    }
    engine = components.files("engine")
    assert {"fl/engine/lane.py", "fl/layout.py", "fl/streams.py"} <= {*engine}
    assert not [file for file in engine if file.startswith(("base/", "runs/"))]
    assert "fl/models/parts/layers.py" in components.files("model.liu3")
    assert "fl/partition/label_clusters.py" in components.files("partition.main_cluster")


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
    monkeypatch.setattr(components, "files", lambda _: ["a.py"])
    prints = []
    for text in (
        '"""Doc."""\n\ndef f(x):\n    """Doc."""\n    return x + 1\n',
        '"""Other."""\n\n\ndef f(x):  # why\n    return x + 1\n',
        "def f(x):\n    return x + 2\n",
    ):
        (tmp_path / "a.py").write_text(text)
        components._code.cache_clear()
        prints.append(components.fingerprint("engine"))
    assert prints[0] == prints[1]
    assert prints[1] != prints[2]
