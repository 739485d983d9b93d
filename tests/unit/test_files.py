"""Files that are written whole or not at all, and those of them that outlast a loss of power."""

from __future__ import annotations

import errno
import os
import re
import socket
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made_up import content
from small_runs import planned

from fedrepro.base.errors import FedreproError
from fedrepro.base.files import write_bytes, write_text
from fedrepro.fl.engine import checkpoint
from fedrepro.fl.engine.active import ActiveRun
from fedrepro.runs import records, session, transfer
from fedrepro.runs.options import TrainOptions
from fedrepro.runs.store import Store

RUN = planned(seed=3)


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the system is asked for, in order: ``on disk NAME``, ``named NAME``, ``gone NAME``."""
    if sys.platform != "linux":
        pytest.skip("reads /proc")
    monkeypatch.chdir(tmp_path)
    asked: list[str] = []

    def noted(owner: Any, name: str, say: Callable[..., str]) -> None:
        real = getattr(owner, name)

        def call(*arguments: Any, **options: Any) -> Any:
            asked.append(re.sub(r"\.[0-9a-f]{8}(?=\.tmp)", "", say(*arguments)))
            return real(*arguments, **options)

        monkeypatch.setattr(owner, name, call)

    noted(
        os, "fsync", lambda opened: f"on disk {Path(os.readlink(f'/proc/self/fd/{opened}')).name}"
    )
    noted(Path, "replace", lambda _, target: f"named {target.name}")
    noted(os, "link", lambda _, target: f"named {target.name}")
    noted(ActiveRun, "forget_checkpoint", lambda run: f"gone {run.id}.pt")
    return asked


def test_what_can_be_made_again_is_not_waited_for(disk: list[str]) -> None:
    write_bytes(Path("table.csv"), b"1")
    assert disk == ["named table.csv"]


@pytest.mark.parametrize("name", ["table.csv", "folder/table.csv"])
def test_a_file_below_a_file_is_refused_by_its_own_name(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FedreproError, match=rf"file/{name}: a file is where a folder"):
        write_bytes(tmp_path / "file" / name, b"1")


WRITERS = [lambda file: write_bytes(file, b"1"), lambda file: transfer.write(file, [])]


@pytest.mark.parametrize("write", [*WRITERS, transfer.require_addable])
def test_what_is_no_file_is_not_replaced_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path], None]
) -> None:
    """As root may replace ``/dev/null``."""
    monkeypatch.chdir(tmp_path)  # a socket's name may not be long
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("socket")
    with pytest.raises(FedreproError, match=r"socket: is no file, and would be replaced by one"):
        write(Path("socket"))
    assert Path("socket").is_socket()


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("there", [True, False])
def test_a_link_stays_one(tmp_path: Path, write: Callable[[Path], None], there: bool) -> None:
    target, link = tmp_path / "kept/file", tmp_path / "link"
    target.parent.mkdir()
    link.symlink_to("kept/file")
    if there:
        write(target)
    write(link)
    assert link.is_symlink()
    assert target.stat().st_size
    assert sorted(tmp_path.iterdir()) == [target.parent, link]


def test_a_path_that_is_not_utf_8_is_written_with_escapes(tmp_path: Path) -> None:
    write_text(tmp_path / "page", os.fsdecode(b"made from d\xe9/plan.yaml, ") + "ä")
    assert (tmp_path / "page").read_text("utf-8") == "made from d\\udce9/plan.yaml, ä"


def test_a_link_to_itself_can_be_replaced(tmp_path: Path) -> None:
    link = tmp_path / "link"
    for write in WRITERS:
        link.symlink_to(link)
        write(link)
        assert link.is_file()
        link.unlink()


def test_a_record_is_on_the_disk_before_it_has_its_name(disk: list[str]) -> None:
    file = records.write(content(RUN), Path("kept"))
    assert disk == [f"on disk {file.name}.tmp", f"named {file.name}", "on disk kept"]


def test_a_checkpoint_is_on_the_disk_before_the_old_one_is_gone(disk: list[str]) -> None:
    checkpoint.save(Path("kept/a.pt"), "a", {"round": 1})
    assert disk == ["on disk a.pt.tmp", "named a.pt"]


def test_a_file_of_out_is_on_the_disk_before_the_old_one_is_gone(disk: list[str]) -> None:
    file = records.write(content(RUN))
    disk.clear()
    transfer.write(Path("kept/new.tar"), [file])
    assert disk == ["on disk new.tar.tmp", "named new.tar"]


def test_an_object_in_a_folder_is_on_the_disk_before_it_has_its_name(disk: list[str]) -> None:
    pytest.importorskip("fsspec")
    store = Store(str(Path("kept").absolute()))
    store.create("claims/a", b"1")
    synced, named = disk
    assert synced.startswith("on disk .")
    assert named == "named a"
    disk.clear()
    store.replace("claims/a", b"2")
    assert disk[:2] == ["on disk a.tmp", "named a"]


def test_a_record_is_on_the_disk_before_its_checkpoint_is_gone(disk: list[str]) -> None:
    session.train([RUN], TrainOptions(backend="loop", checkpoint_seconds=0, keep_weights=True))
    assert disk[-7:] == [
        f"on disk {RUN.id}.pt.tmp",  # the weights
        f"named {RUN.id}.pt",
        "on disk runs",
        f"on disk {RUN.id}.json.tmp",
        f"named {RUN.id}.json",
        "on disk runs",
        f"gone {RUN.id}.pt",
    ]


def test_threads_that_write_one_file_at_once_do_not_disturb_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As little as containers do whose processes have one number."""
    file, write = tmp_path / "a", Path.write_bytes

    def late(temporary: Path, content: bytes) -> int:
        monkeypatch.setattr(Path, "write_bytes", write)
        written = temporary.write_bytes(content)
        write_bytes(file, b"of another thread")
        return written

    monkeypatch.setattr(Path, "write_bytes", late)
    write_bytes(file, b"the last one")
    assert file.read_bytes() == b"the last one"
    assert [*tmp_path.iterdir()] == [file]


def full(_: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_no_room_that_shows_only_on_the_disk_leaves_the_old_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on network file systems."""
    record, saved = records.write(content(RUN), tmp_path), tmp_path / "a.pt"
    checkpoint.save(saved, "a", {"round": 1})
    before = {file: file.read_bytes() for file in (record, saved)}
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FedreproError, match=rf"{record.name}: cannot be written \(No space left"):
        records.write(content(RUN, final={"accuracy": 0.75}), tmp_path)
    with pytest.raises(checkpoint.NotSaved, match=r"a\.pt: cannot write .*No space left"):
        checkpoint.save(saved, "a", {"round": 2})
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_a_file_system_that_does_not_wait_for_folders_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def files_only(opened: int) -> None:
        if stat.S_ISDIR(os.fstat(opened).st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(os, "fsync", files_only)
    write_bytes(tmp_path / "a", b"1", durable=True)
    assert (tmp_path / "a").read_bytes() == b"1"
