"""Pinned run ids, pinned trajectories, and a fingerprint of every component's code."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import components
import trajectories

from fedrepro.algorithms import ALGORITHMS
from fedrepro.engine.pool import PoolBackend
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


def assert_same(ours, golden, rel, place):
    """Compare floats by the largest of their list, which differences may cancel to; others exactly.

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
        largest = max(map(abs, golden))
        assert ours == pytest.approx(golden, rel=rel, abs=rel * largest), place
    elif isinstance(golden, float):
        assert ours == pytest.approx(golden, rel=rel), place
    else:
        assert ours == golden, place


@pytest.mark.parametrize("name", sorted(trajectories.CASES))
def test_trajectories_are_what_they_were(name):
    assert_same(trajectories.run(name), stored("trajectories.json")[name], 1e-5, name)


AMPLIFIED = {"fedavg_local_statistics", "selective_local_statistics"}
"""Cases in which the pool's rounding grows: batch normalisation of 28 x 28 images, channels last.

There PyTorch sums a channel's values one after another in single precision: after the first layer
values are off by some 1e-5 of their size, and with channels first by 1e-7
(``benchmarks/batch_norm.py``). Single ReLUs then switch, which at so small a width moves the
weights of a lane apart within five steps; losses differ by up to 0.6 %. With channels first the
pool has the loop's numbers here too. In all other cases nothing differs by more than 0.002 %.
"""


@pytest.mark.parametrize("name", sorted(trajectories.CASES))
def test_the_pool_has_the_trajectories_of_the_loop(name):
    """What ``auto`` trains with on a CPU: channels last, and small dense networks stacked."""
    ours = trajectories.run(name, PoolBackend(1, stack=True))
    golden = stored("trajectories.json")[name]
    if name not in AMPLIFIED:
        assert_same(ours, golden, 1e-4, name)
        return
    assert ours["partition"] == golden["partition"]
    assert ours["metrics"].keys() == golden["metrics"].keys()
    for metric in ("train_loss", "loss"):
        assert_same(ours["metrics"][metric], golden["metrics"][metric], 0.02, metric)


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


def test_fingerprints_of_data_see_their_constants(monkeypatch):
    """`transform: standard` takes them from config/datasets.yaml, which anybody may edit."""
    before = components.fingerprint("data.mnist")
    info = components.describe("mnist")
    other = info.model_copy(update={"std": (0.5,)})
    monkeypatch.setattr(components, "describe", lambda name: other if name == "mnist" else info)
    assert components.fingerprint("data.mnist") != before


def test_fingerprints_cover_what_an_algorithm_imports():
    """Of its own package: the modules that all algorithms share belong to the engine."""
    for name, module in ALGORITHMS.items():
        listed = components.files(f"algorithm.{name}") + components.files("engine")
        for other in (components.SOURCE / "algorithms").glob("*.py"):
            if f"fedrepro.algorithms.{other.stem}" in modules_of(module):
                assert f"algorithms/{other.name}" in listed, (name, other.name)


def modules_of(module):
    """Return the names of the modules that a module takes something from, itself included."""
    found = {module.__name__}
    for value in vars(module).values():
        found.add(getattr(value, "__module__", None) or getattr(value, "__name__", ""))
        found.add(getattr(value, "__name__", ""))
    return found


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
