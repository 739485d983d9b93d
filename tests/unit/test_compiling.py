"""`fedrepro train --compile`: what it needs, what it refuses, and what a record says of it."""

import importlib.util
import json
import shutil
import sysconfig

import pytest
import small_runs

from fedrepro import cli
from fedrepro.base.errors import FedreproError
from fedrepro.fl.engine import backends, compiling
from fedrepro.fl.engine.backends import backend
from fedrepro.fl.engine.loop import LoopBackend
from fedrepro.runs import command, records, session


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine that has everything; a test takes away what it is about."""
    found = {"triton": object(), "gcc": "/bin/gcc", "clang": None}
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: found.get(name))
    monkeypatch.setattr(shutil, "which", lambda name: found.get(name))
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"include": str(tmp_path)})
    (tmp_path / "Python.h").touch()
    return found


def test_gcc_or_clang_or_the_one_named_will_do(machine, monkeypatch):
    assert compiling.compiler_problem() is None
    machine.update(gcc=None, clang="/bin/clang")
    assert compiling.compiler_problem() is None
    machine.update(clang=None, icx="/bin/icx")
    monkeypatch.setenv("CC", "icx")
    assert compiling.compiler_problem() is None


def test_what_is_missing_is_named(machine, monkeypatch, tmp_path):
    (tmp_path / "Python.h").unlink()
    assert f"{tmp_path}/Python.h is missing; install" in compiling.compiler_problem()
    machine["gcc"] = None
    assert "no C compiler; install gcc or clang" in compiling.compiler_problem()
    monkeypatch.setenv("CC", "nvc")
    assert compiling.compiler_problem().startswith("CC=nvc names a C compiler that is not there")
    machine["triton"] = None
    assert "triton is missing" in compiling.compiler_problem()


def test_a_compiler_is_asked_for_only_where_compiling_is_on(machine, monkeypatch):
    machine["gcc"] = None
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr(backends, "_use", lambda _: None)
    assert backend("loop", "cuda", compile="auto").cores == 0
    assert backend("loop", "cuda", compile="off").cores == 0
    with pytest.raises(FedreproError, match="compile on: there is no C compiler; install gcc"):
        backend("loop", "cuda", compile="on")
    machine["gcc"] = "/bin/gcc"
    with pytest.raises(FedreproError, match="compile on: backend loop does not compile"):
        backend("loop", "cuda", compile="on")


def test_nothing_is_compiled_for_a_cpu():
    with pytest.raises(
        FedreproError, match=r"compile on: .* the device is cpu; .* the device cuda"
    ):
        backend("loop", "cpu", compile="on")
    with pytest.raises(FedreproError, match="compile always: there are auto, on, off"):
        backend("loop", "cpu", compile="always")


def test_the_choice_reaches_the_backend(monkeypatch):
    run, seen = small_runs.planned(), []
    monkeypatch.setattr(command, "selected", lambda *_, **__: [run])
    monkeypatch.setattr(session, "train", lambda _, options: seen.append(options.compile) or 0)
    cli.main(["train", "--pending"])
    cli.main(["train", "--pending", "--compile", "off"])
    assert seen == ["auto", "off"]


@pytest.mark.parametrize("compiles", [None, False, True])
def test_a_record_says_whether_networks_were_compiled(tmp_path, monkeypatch, compiles):
    """And an older one, which says nothing of it, is read as it was: they were not."""
    monkeypatch.chdir(tmp_path)
    made = LoopBackend()
    if compiles is not None:
        made.compiles = compiles
    monkeypatch.setattr(session, "make_backend", lambda *_, **__: made)
    run = small_runs.planned()
    session.train([run])
    assert records.read(run.id).provenance.compile == bool(compiles)
    content = json.loads(records.path_of(run.id).read_text())
    del content["provenance"]["compile"]
    content["checksum"] = records.checksum(content)
    records.path_of(run.id).write_text(json.dumps(content))
    assert records.read(run.id).provenance.compile is False
