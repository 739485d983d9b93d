"""A repository of tiny data sets, with official files and a pack."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from programs import Server
from tiny_data import read_registry, tiny_root, write_official, write_registry

from fedrepro.fl.data import commands, load

NAMES = ["mnist", "cifar10"]
TINY = ("data", "verify", *NAMES)


@dataclass(frozen=True)
class Tiny:
    """Where it is, and what `data verify` says of its pack, content hashes and all."""

    root: Path
    said: str

    def copy(self, target: Path) -> Path:
        """Copy it to a folder; return that."""
        shutil.copytree(self.root, target, dirs_exist_ok=True)
        return target


def make(server: Server, root: Path) -> Tiny:
    """Write it; the descriptions of its data sets state the content that is meant."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        tiny_root(root, monkeypatch)
        for name in NAMES:
            write_official(name, root / "data/raw")
        found = read_registry(root)
        for name in NAMES:
            found["datasets"][name]["content"] = {"official": load(name).sha256}
        write_registry(root, found)
        commands.pack(root / "packed", NAMES)
    ended = server.run(root, *TINY, "--data-root", "packed", FEDREPRO_ROOT=str(root))
    assert ended.status == 0, ended
    return Tiny(root, ended.said)
