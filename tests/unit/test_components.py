"""Components: what there is, whose it is, and what goes wrong with those of others."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from entry_points import Point
from small_runs import make_spec

from fedrepro.base.errors import FedreproError
from fedrepro.fl import components
from fedrepro.fl.algorithms import ALGORITHMS
from fedrepro.fl.components import Registry
from fedrepro.fl.data.registry import describe, names
from fedrepro.fl.losses import LOSS_TERMS
from fedrepro.fl.models import NETWORKS, Network
from fedrepro.fl.partition import SCHEMES
from fedrepro.fl.spec import component_versions, partition_id, spec_dict

REGISTRIES = {"scheme": SCHEMES, "network": NETWORKS, "algorithm": ALGORITHMS, "loss": LOSS_TERMS}


@pytest.mark.parametrize("kind", REGISTRIES)
def test_components_are_those_of_the_files(kind: str) -> None:
    registry: Registry[Any] = REGISTRIES[kind]
    assert list(registry) == sorted(registry)
    assert all(registry.plugin(name) is None for name in registry)
    assert all(registry.module(name).startswith("fedrepro.fl.") for name in registry)
    assert all(registry[name].version == 1 for name in registry)


def test_networks_and_algorithms_have_costs() -> None:
    assert all(network.mflop is None or network.mflop > 0 for network in NETWORKS.values())
    wide = NETWORKS["resnet18"].flop((3, 224, 224), 10, 1.0)
    assert NETWORKS["resnet18"].flop((3, 112, 112), 10, 1.0) == pytest.approx(wide / 4)
    assert NETWORKS["mnist_cnn"].flop((1, 28, 28), 10, 0.5) == pytest.approx(72.4e6 / 4)
    assert ALGORITHMS["sgd"].cost.lanes(make_spec()) == 1
    assert ALGORITHMS["fedavg"].cost.lanes(make_spec()) == 8


def test_an_unknown_name_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(FedreproError, match=r"unknown algorithm 'fedavgg' .*'fedavg'"):
        ALGORITHMS["fedavgg"]
    assert "fedavgg" not in ALGORITHMS


def test_an_unknown_name_is_a_key_error_with_a_plain_message() -> None:
    """So that ``get`` works as with any mapping."""
    assert ALGORITHMS.get("fedavgg") is None
    assert ALGORITHMS.get("fedavg") is ALGORITHMS["fedavg"]
    with pytest.raises(KeyError) as error:
        ALGORITHMS["fedavgg"]
    assert str(error.value).startswith("unknown algorithm 'fedavgg' ")


class Nameless(Network):
    """A network whose author forgot what it needs."""

    def __init__(self) -> None:
        pass


def registry_with(monkeypatch: pytest.MonkeyPatch, *points: Point) -> Registry[Network]:
    components.entry_points.cache_clear()
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: list(points))
    found: Registry[Network] = Registry(
        "network", "fedrepro.fl.models", "tests.networks", NETWORKS._named
    )
    return found


@pytest.fixture(autouse=True)
def _forget_entry_points() -> Any:
    yield
    components.entry_points.cache_clear()


@pytest.mark.parametrize("package", [True, False])
def test_a_distribution_that_is_being_written_is_known_by_its_code(
    package: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else its runs, recorded before a change, would be taken for those after it."""
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / ("unreleased/__init__.py" if package else "unreleased.py")
    file.parent.mkdir(exist_ok=True)
    point = Point("tiny", None, "unreleased")
    about = '{"url": "file:///x", "dir_info": {"editable": true}}'
    monkeypatch.setattr(point.dist, "read_text", {"direct_url.json": about}.get)
    found = []
    for number in (1, 2, 2):
        file.write_text(f"NUMBER = {number}\n")
        importlib.import_module("unreleased")
        components._digest.cache_clear()
        found.append(components.distribution(point))  # type: ignore[arg-type]
        monkeypatch.delitem(sys.modules, "unreleased")
    assert found[0] != found[1] == found[2]
    assert re.fullmatch(r"0\.2, code [0-9a-f]{12}", found[0][1])
    monkeypatch.setattr(point.dist, "read_text", {"direct_url.json": '{"dir_info": {}}'}.get)
    assert components.distribution(point) == ("unreleased", "0.2")  # type: ignore[arg-type]


def test_a_component_of_another_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = Network("tiny", lambda *_: None, mflop=0.1, version=3, module="elsewhere")  # type: ignore[arg-type, return-value]
    registry = registry_with(monkeypatch, Point("tiny", tiny))
    assert registry["tiny"] is tiny
    assert registry.plugin("tiny") == ("elsewhere", "0.2")
    monkeypatch.setitem(NETWORKS._found, "tiny", registry._found["tiny"])
    versions = component_versions(spec_dict(make_spec()) | {"model": {"name": "tiny"}})
    assert versions["model.tiny"] == 3
    assert versions["plugin.elsewhere"] == "0.2"


def test_a_partition_is_named_by_the_code_that_cuts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the index lists of a scheme that changed would be those of before."""
    spec = make_spec()
    scheme, ids = spec.partition.scheme, [partition_id(spec)]
    for version in ("0.1, code a", "0.1, code b"):
        found = SCHEMES[scheme], ("mine", version), "mine"
        monkeypatch.setitem(SCHEMES._found, scheme, found)
        ids.append(partition_id(spec))
    monkeypatch.setitem(
        ALGORITHMS._found, "fedavg", (ALGORITHMS["fedavg"], ("yours", "3"), "yours")
    )
    assert partition_id(spec) == ids[-1]
    assert len(set(ids)) == 3


def test_the_code_of_every_module_of_a_distribution_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a change of one module would go unnoticed in runs that use two."""
    spec = spec_dict(make_spec())
    for registry, name, code in (
        (SCHEMES, spec["partition"]["scheme"], "b"),
        (NETWORKS, spec["model"]["name"], "a"),
        (ALGORITHMS, spec["algorithm"]["name"], "b"),
    ):
        component, _, module = registry._found[name]
        found = (component, ("mine", f"0.1, code {code}"), module)
        monkeypatch.setitem(registry._found, name, found)
    assert component_versions(spec)["plugin.mine"] == "0.1, code a; 0.1, code b"


@pytest.mark.parametrize(
    ("points", "text"),
    [
        ([Point("liu1", NETWORKS["liu1"])], "names a network 'liu1' as fedrepro does"),
        ([Point("tiny", ValueError("no"))], r"elsewhere:X cannot be imported \(ValueError: no\)"),
        ([Point("tiny", NETWORKS["liu1"])], "is no network of the name 'tiny'"),
        ([Point("tiny", Nameless())], "is no network of the name 'tiny'"),
        ([Point("a", 1), Point("a", 1, "third")], "third 0.2 and the distribution elsewhere 0.2"),
    ],
)
def test_what_is_wrong_with_another_distribution_is_named(
    monkeypatch: pytest.MonkeyPatch, points: list[Point], text: str
) -> None:
    with pytest.raises(FedreproError, match=text):
        len(registry_with(monkeypatch, *points))


def test_every_data_set_has_a_version() -> None:
    assert {describe(name).version for name in names()} == {1}


def test_a_distribution_that_cannot_be_imported_is_one_line(tmp_path: Path) -> None:
    """It fails before any command begins."""
    about = tmp_path / "broken-0.2.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 0.2\n")
    (about / "entry_points.txt").write_text("[fedrepro.algorithms]\nmine = broken:ALGORITHM\n")
    (tmp_path / "broken.py").write_text("import no_such_module\n")
    done = subprocess.run(
        [sys.executable, "-m", "fedrepro.cli", "status"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("fedrepro: the distribution broken 0.2: broken:ALGORITHM cannot")
    assert done.stderr.count("\n") == 1
