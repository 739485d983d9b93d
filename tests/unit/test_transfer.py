"""Records and checkpoints on their way between machines."""

import contextlib
import dataclasses
import errno
import gzip
import io
import json
import os
import shutil
import tarfile
import threading
import zipfile
from tempfile import gettempdir

import pytest
import small_runs
from made_up import content
from small_runs import ends_after

from fedrepro.base.errors import FedreproError
from fedrepro.fl.engine import checkpoint, saved
from fedrepro.runs import records, session, transfer
from fedrepro.runs.locks import Claims
from fedrepro.runs.options import TrainOptions


def planned(seed, rounds=2):
    return small_runs.planned(seed=seed, rounds=rounds)


def cut_off(run):
    """Train the next round of a run and return its checkpoint."""
    with ends_after(3, KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        session.train([run], TrainOptions(backend="loop"))
    return session.CHECKPOINTS / f"{run.id}.pt"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder where a run was trained, another was cut off and a tar made of both; their ids."""
    folder = tmp_path_factory.mktemp("trained")
    with contextlib.chdir(folder):
        run, cut = planned(0), planned(1)
        session.train([run])
        partial = cut_off(cut)
        transfer.write(folder / "new.tar.gz", [records.path_of(run.id), partial])
    return folder, run.id, cut.id


@pytest.fixture
def there(trained, tmp_path, monkeypatch):
    """A machine that has the same; returns the tar and both ids."""
    folder, run, cut = trained
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "new.tar.gz", run, cut


@pytest.fixture
def here(tmp_path, monkeypatch, there):
    """Another machine, without records."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return there


def test_records_and_checkpoints_arrive_as_they_were(here, tmp_path):
    tar, run, cut = here
    imported = transfer.read(tar, session.CHECKPOINTS)
    assert (imported.records, imported.checkpoints, imported.known) == ([run], [cut], [])
    sent = (tmp_path / records.path_of(run)).read_bytes()
    assert records.path_of(run).read_bytes() == sent
    assert checkpoint.load(session.CHECKPOINTS / f"{cut}.pt", cut)["progress"]["round"] == 1
    again = transfer.read(tar, session.CHECKPOINTS)
    assert again.known == [run, cut]
    assert again.text() == "0 records and 0 checkpoints imported, 2 were here already"


def test_a_record_says_which_rounds_came_with_a_checkpoint(here):
    tar, _, cut = here
    transfer.read(tar, session.CHECKPOINTS)
    session.train([planned(1)])
    (part,) = records.read(cut).provenance.imported
    assert part.rounds == 1


def test_records_that_are_not_committed_arrive_beside_them(tmp_path, monkeypatch):
    run = dataclasses.replace(planned(0), scale="quick")
    for name in ("there", "here"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "there")
    session.train([run])
    transfer.write(tmp_path / "new.tar", [records.path_of(run.id, records.OWN_FOLDER)])
    monkeypatch.chdir(tmp_path / "here")
    assert transfer.read(tmp_path / "new.tar", session.CHECKPOINTS).records == [run.id]
    assert run.recorded
    assert not records.FOLDER.exists()
    assert transfer.read(tmp_path / "new.tar", session.CHECKPOINTS).known == [run.id]


def test_of_two_checkpoints_the_one_of_more_rounds_counts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = planned(7, rounds=4)
    older, newer = tmp_path / "older.tar", tmp_path / "newer.tar"
    for tar in (older, newer):
        file = cut_off(run)
        transfer.write(tar, [file])
    ours = file.read_bytes()
    for tar in (older, newer):
        assert transfer.read(tar, session.CHECKPOINTS).known == [run.id]
    assert file.read_bytes() == ours
    file.unlink()
    transfer.read(older, session.CHECKPOINTS)
    imported = transfer.read(newer, session.CHECKPOINTS)
    assert (imported.checkpoints, imported.replaced) == ([run.id], [run.id])
    assert imported.text() == (
        "0 records and 1 checkpoints imported (1 in place of older ones), 0 were here already"
    )
    assert saved.read(file, run.id).progress.round == 2
    assert list(session.CHECKPOINTS.iterdir()) == [file]


def test_a_checkpoint_here_that_cannot_be_used_is_replaced(here):
    tar, _, cut = here
    ours = session.CHECKPOINTS / f"{cut}.pt"
    ours.parent.mkdir()
    ours.write_text("damaged")
    imported = transfer.read(tar, session.CHECKPOINTS)
    assert imported.checkpoints == [cut]
    assert imported.text().endswith(f"\n{ours}: could not be used, and was replaced")
    assert saved.read(ours, cut).progress.round == 1
    ours.unlink()
    ours.symlink_to(ours.name)  # cannot be read, and may hold more rounds
    with pytest.raises(FedreproError, match=rf"{cut}\.pt: cannot be read \(Too many levels"):
        transfer.read(tar, session.CHECKPOINTS)
    assert ours.is_symlink()


def test_the_checkpoint_of_a_run_that_is_being_trained_stays(here):
    tar, _, cut = here
    ours = session.CHECKPOINTS / f"{cut}.pt"
    claims = Claims(session.CHECKPOINTS)
    assert claims.take(cut)
    ours.write_text("of the process that trains it")
    imported = transfer.read(tar, session.CHECKPOINTS)
    claims.release_all()
    assert imported.text().endswith(f"\n{ours}: stays, as another process trains the run")
    assert ours.read_text() == "of the process that trains it"


def test_a_run_that_is_being_trained_here_gets_no_checkpoint_meanwhile(here):
    """The process that trains it may be about to write its own."""
    tar, _, cut = here
    claims = Claims(session.CHECKPOINTS)
    assert claims.take(cut)
    imported = transfer.read(tar, session.CHECKPOINTS)
    claims.release_all()
    ours = session.CHECKPOINTS / f"{cut}.pt"
    note = f"\n{ours}: is not imported, as another process trains the run"
    assert imported.text().endswith(note)
    assert not ours.exists()
    assert transfer.read(tar, session.CHECKPOINTS).checkpoints == [cut]


def test_a_run_that_ends_before_its_checkpoint_is_imported_gets_none(
    here, monkeypatch, write_record
):
    tar, _, cut = here
    take = Claims.take

    def late(claims, run_id):
        write_record(planned(1), records.FOLDER)
        return take(claims, run_id)

    monkeypatch.setattr(Claims, "take", late)
    imported = transfer.read(tar, session.CHECKPOINTS)
    assert (imported.checkpoints, imported.known) == ([], [cut])
    assert list(session.CHECKPOINTS.iterdir()) == []


def test_a_damaged_record_here_is_told_before_anything_is_taken(here):
    tar, run, cut = here
    records.FOLDER.mkdir(parents=True)
    records.path_of(cut).write_text("{}")
    with pytest.raises(FedreproError, match=rf"nothing was imported .*{cut}\.json: not a whole"):
        transfer.read(tar, session.CHECKPOINTS)
    assert not records.path_of(run).exists()


def test_a_checkpoint_of_a_recorded_run_is_not_needed(here, tmp_path):
    tar, run, _ = here
    transfer.read(tar, session.CHECKPOINTS)
    record = records.path_of(run).read_bytes()
    records.path_of(run).unlink()
    late = cut_off(planned(0))
    transfer.write(tmp_path / "late.tar", [late])
    records.path_of(run).write_bytes(record)
    late.unlink()
    assert transfer.read(tmp_path / "late.tar", session.CHECKPOINTS).known == [run]
    assert not late.exists()


def repack(source, target, change):
    """Copy a tar file; ``change`` maps each (name, bytes) to what takes its place."""
    with tarfile.open(source) as old, tarfile.open(target, "w") as new:
        for member in old:
            name, content = change(member.name, old.extractfile(member).read())
            info = tarfile.TarInfo(name)
            info.size = len(content)
            new.addfile(info, io.BytesIO(content))


def edited(name, content):
    if name.endswith(".json"):
        record = json.loads(content)
        record["final"]["accuracy"] = 0.99
        content = json.dumps(record).encode()
    return name, content


def renamed(name, content):
    return name.replace(name.split("/")[-1].split(".")[0], "0123456789ab"), content


def cut_short(name, content):
    return name, content[:100] if name.endswith(".pt") else content


def test_a_record_that_arrives_replaces_the_checkpoint_of_its_run(here):
    tar, run, _ = here
    session.CHECKPOINTS.mkdir()
    own = session.CHECKPOINTS / f"{run}.pt"
    for _ in range(2):  # also where the record came before
        own.write_text("of an earlier round")
        transfer.read(tar, session.CHECKPOINTS)
        assert not own.exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (edited, r"checksum"),
        (renamed, r"0123456789ab"),
        (cut_short, r"\.pt.*is damaged"),
        (lambda name, content: (f"../{name}", content), r"neither a record nor a checkpoint"),
        (lambda name, content: (f"/{name}", content), r"neither a record nor a checkpoint"),
        (lambda _, content: ("notes.txt", content), r"'notes\.txt'"),
    ],
)
def test_a_file_with_anything_wrong_is_refused_whole(here, tmp_path, change, message):
    tar, *_ = here
    wrong = tmp_path / "wrong.tar"
    repack(tar, wrong, change)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(FedreproError, match=message) as caught:
        transfer.read(wrong, session.CHECKPOINTS)
    assert "nothing was imported" in str(caught.value)
    assert gettempdir() not in str(caught.value).replace(str(wrong), "")
    assert "delete it" not in str(caught.value)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("blocks", range(1, 21))
def test_a_tar_file_of_any_length_has_an_end(tmp_path, blocks):
    """Tar files end on a record of 20 blocks, up to 21 blocks after their last member."""
    file = tmp_path / "whole.tar"
    name = "results/runs/0123456789ab.json"
    with tarfile.open(file, "w") as tar:
        info = tarfile.TarInfo(name)
        info.size = blocks * tarfile.BLOCKSIZE
        tar.addfile(info, io.BytesIO(b"1" * info.size))
    assert list(transfer.content(file, tmp_path / "unpacked")) == [name]


def test_not_a_tar_file(here, tmp_path):
    file = tmp_path / "text.tar"
    file.write_text("no")
    with pytest.raises(FedreproError, match=r"text\.tar: not a whole tar file"):
        transfer.read(file, session.CHECKPOINTS)
    with pytest.raises(FedreproError, match=r"nowhere\.tar: no such file$"):
        transfer.read(tmp_path / "nowhere.tar", session.CHECKPOINTS)


def test_a_link_in_the_file_is_refused(here, tmp_path):
    _, run, _ = here
    wrong = tmp_path / "link.tar"
    with tarfile.open(wrong, "w") as tar:
        info = tarfile.TarInfo(f"results/runs/{run}.json")
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/hostname"
        tar.addfile(info)
    with pytest.raises(FedreproError, match="neither a record nor a checkpoint"):
        transfer.read(wrong, session.CHECKPOINTS)


RECORD = "results/runs/0123456789ab.json"
CHECKPOINT = ".checkpoints/0123456789ab.pt"
HUGE = 40 * 10**9


def header(name, size, kind=tarfile.REGTYPE):
    """A header of 512 bytes that may say anything of the size."""
    info = tarfile.TarInfo(name)
    info.size, info.type = size, kind
    return info.tobuf(tarfile.GNU_FORMAT)


def sparse():
    """A member of GNU's sparse kind: 40 GB of zeros from a few bytes."""
    block = bytearray(header(CHECKPOINT, 512, tarfile.GNUTYPE_SPARSE))
    block[386:398], block[398:410] = b"00000000000\0", b"00000001000\0"  # where the bytes are
    block[483:495] = b"\x80" + HUGE.to_bytes(11, "big")
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block) + bytes(512)


def pax(text):
    """A member whose size is told by an extended header."""
    line = f"{len(text) + 4} {text}\n".encode()
    extended = header("x", len(line), tarfile.XHDTYPE) + line.ljust(512, b"\0")
    return extended + header(CHECKPOINT, 0)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (header(CHECKPOINT, HUGE), "more than such a file can"),
        (header(RECORD, 20 << 20), "more than a record can have"),
        (sparse(), "neither a record nor a checkpoint"),
        (pax("size=40000000000"), "more than such a file can"),
        (pax("size=-40000000"), "neither a record nor a checkpoint"),
        (header(CHECKPOINT, -1024), r"a header of -1,024 bytes"),
        (header("x", 10**9, tarfile.XHDTYPE), "a header of 1,000,000,000 bytes"),
        (header("x", 10**9, tarfile.GNUTYPE_LONGNAME), "a header of 1,000,000,000 bytes"),
        (header(CHECKPOINT, 0) * 2, "twice"),
        (header("x", 0, tarfile.XHDTYPE) * 3000 + header(CHECKPOINT, 0), "not a whole tar"),
        (header(CHECKPOINT, 50 << 20), "not a whole tar"),
        (header(RECORD, transfer.MOST_RECORD_BYTES), "not a whole tar"),
        (bytes(1024) + b"x" * 20_000, "its end is missing"),
    ],
)
def test_a_file_that_says_more_than_it_can_hold_is_refused(
    here, tmp_path, content, message, packed
):
    wrong = tmp_path / "wrong.tar"
    content += bytes(1024)
    wrong.write_bytes(gzip.compress(content) if packed else content)
    with pytest.raises(FedreproError, match=message):
        transfer.read(wrong, session.CHECKPOINTS)
    assert not session.CHECKPOINTS.exists()


def test_a_small_file_that_unpacks_to_a_large_one_is_refused(here, tmp_path, monkeypatch):
    monkeypatch.setattr(transfer, "LEAST_LIMIT", 1 << 20)
    size = 30 << 20
    bomb = tmp_path / "bomb.tar.gz"
    bomb.write_bytes(gzip.compress(header(CHECKPOINT, size) + bytes(size + 1024), 1))
    assert bomb.stat().st_size < 1 << 20
    with pytest.raises(FedreproError, match="more than such a file can"):
        transfer.read(bomb, session.CHECKPOINTS)
    bomb.write_bytes(gzip.compress(header(CHECKPOINT, 0) + bytes(size), 1))
    with pytest.raises(FedreproError, match="its end is missing"):
        transfer.read(bomb, session.CHECKPOINTS)


def test_too_many_members_are_refused(here, tmp_path, monkeypatch):
    monkeypatch.setattr(transfer, "MOST_MEMBERS", 1)
    with pytest.raises(FedreproError, match="more than such a file can"):
        transfer.read(here[0], session.CHECKPOINTS)


def test_a_compressed_checkpoint_is_refused(here, tmp_path):
    _, _, cut = here
    bomb = tmp_path / f"{cut}.pt"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as parts:
        parts.writestr("archive/data/0", bytes(1 << 20))
    with tarfile.open(tmp_path / "bomb.tar", "w") as tar:
        tar.add(bomb, f".checkpoints/{cut}.pt")
    with pytest.raises(FedreproError, match="is compressed, and none of ours is"):
        transfer.read(tmp_path / "bomb.tar", session.CHECKPOINTS)


def test_a_checkpoint_whose_archive_cannot_be_listed_is_refused(here, tmp_path):
    tar, _, cut = here
    damaged = transfer.content(tar, tmp_path)[f".checkpoints/{cut}.pt"]
    damaged.write_bytes(damaged.read_bytes().replace(b"PK\1\2", b"PK\1\3"))
    with tarfile.open(tmp_path / "damaged.tar", "w") as made:
        made.add(damaged, f".checkpoints/{cut}.pt")
    with pytest.raises(FedreproError, match=rf"{cut}\.pt: this checkpoint is damaged .*Bad magic"):
        transfer.read(tmp_path / "damaged.tar", session.CHECKPOINTS)


def test_a_deeply_nested_record_is_refused(here, tmp_path):
    content = b'{"a":' * 200_000
    wrong = tmp_path / "wrong.tar"
    with tarfile.open(wrong, "w") as tar:
        info = tarfile.TarInfo(RECORD)
        info.size = len(content)
        tar.addfile(info, io.BytesIO(content))
    with pytest.raises(FedreproError, match="not a whole run record"):
        transfer.read(wrong, session.CHECKPOINTS)


def test_records_of_ones_own_go_where_they_were(here, tmp_path, write_record):
    own = planned(5)
    write_record(own, tmp_path / records.OWN_FOLDER)
    tar = tmp_path / "own.tar"
    with contextlib.chdir(tmp_path):
        transfer.write(tar, [records.path_of(own.id, records.OWN_FOLDER)])
    assert transfer.read(tar, session.CHECKPOINTS).records == [own.id]
    assert records.is_recorded(own.id, records.OWN_FOLDER)
    assert not records.FOLDER.exists()


def test_a_record_of_other_data_is_refused(here, tmp_path, write_record):
    run = planned(6)
    provenance = content(run)["provenance"] | {"dataset_sha256": "1" * 64}
    with contextlib.chdir(tmp_path):
        file = write_record(run, records.FOLDER, provenance=provenance)
        transfer.write(tmp_path / "other.tar", [file])
    with pytest.raises(FedreproError, match="trained on other data than the data set synthetic"):
        transfer.read(tmp_path / "other.tar", session.CHECKPOINTS)


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.7, 0.9, 1.0])
@pytest.mark.parametrize("suffix", ["tar", "tar.gz"])
def test_a_file_that_was_cut_off_on_the_way_is_refused(here, tmp_path, suffix, share):
    tar, *_ = here
    whole = gzip.decompress(tar.read_bytes())
    with tarfile.open(tar) as opened:
        end = max(member.offset_data + member.size for member in opened)
    content, end = (whole, end) if suffix == "tar" else (tar.read_bytes(), tar.stat().st_size - 1)
    part = tmp_path / f"part.{suffix}"
    part.write_bytes(content[: int(share * end)])
    with pytest.raises(FedreproError, match=rf"(?s)nothing was.*part\.{suffix}: not a whole tar"):
        transfer.read(part, session.CHECKPOINTS)
    assert not records.FOLDER.exists()


def test_a_file_keeps_the_checkpoint_of_a_run_that_has_none_here(there, tmp_path):
    tar, _, cut = there
    own = session.CHECKPOINTS / f"{cut}.pt"
    own.unlink()
    session.write_out(tar, [], [planned(1)])
    assert own.as_posix() in transfer.content(tar, tmp_path / "out")


def test_a_checkpoint_that_is_gone_by_now_is_left_out(there, tmp_path):
    """Another process has ended its run meanwhile."""
    _, run, _ = there
    record, gone = records.path_of(run), session.CHECKPOINTS / "0123456789ab.pt"
    out = tmp_path / "less.tar"
    transfer.write(out, [record, gone])
    assert [*transfer.content(out, tmp_path)] == [record.as_posix()]
    with pytest.raises(FedreproError, match=r"less\.tar: cannot write .*No such file"):
        transfer.write(out, [record.with_name("0123456789ab.json")])


def test_a_checkpoint_that_is_replaced_meanwhile_arrives_whole(there, tmp_path, monkeypatch):
    """The process that trains its run writes the next one, which is larger."""
    _, _, cut = there
    file, before = session.CHECKPOINTS / f"{cut}.pt", tmp_path / "before"
    before.write_bytes(file.read_bytes())
    describe = tarfile.TarFile.gettarinfo

    def late(*arguments, **options):
        found = describe(*arguments, **options)
        file.with_suffix(".tmp").write_bytes(2 * before.read_bytes()[::-1])
        file.with_suffix(".tmp").replace(file)
        return found

    monkeypatch.setattr(tarfile.TarFile, "gettarinfo", late)
    transfer.write(tmp_path / "one.tar", [file])
    [arrived] = transfer.content(tmp_path / "one.tar", tmp_path / "out").values()
    assert arrived.read_bytes() == before.read_bytes()


def test_what_killed_processes_left_of_a_file_long_ago_is_deleted(there):
    tar, run, _ = there
    old, fresh, other = (
        tar.with_name(name) for name in (f"{tar.name}.1.tmp", f"{tar.name}.2.tmp", "b.tar.1.tmp")
    )
    for half in (old, fresh, other):
        half.write_bytes(b"half")
    for half in (old, other):
        os.utime(half, (0, 0))
    transfer.write(tar, [records.path_of(run)])
    assert [half.exists() for half in (old, fresh, other)] == [False, True, True]


def test_a_file_is_added_to_without_room_to_unpack_it(there, monkeypatch):
    tar, run, cut = there

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryDirectory", full)
    record = records.path_of(run).rename(records.path_of("0123456789ab"))
    session.check_out(tar)
    transfer.write(tar, [record])
    kept = [records.path_of(run), session.CHECKPOINTS / f"{cut}.pt"]
    assert transfer._names(tar) == [file.as_posix() for file in (*kept, record)]


def test_processes_that_write_one_file_keep_what_the_other_wrote(there, tmp_path, monkeypatch):
    """The second comes while the first has read the file and not yet replaced it."""
    _, run, cut = there
    out, record = tmp_path / "both.tar", records.path_of(run)
    transfer.write(out, [])
    started = threading.Event()
    names = transfer._names

    def slowly(source):
        found = names(source)
        if not started.is_set():
            started.set()
            other.join(timeout=0.5)
        return found

    monkeypatch.setattr(transfer, "_names", slowly)
    checkpoint = session.CHECKPOINTS / f"{cut}.pt"
    other = threading.Thread(target=lambda: started.wait(300) and transfer.write(out, [checkpoint]))
    other.start()
    transfer.write(out, [record])
    other.join()
    assert {*names(out)} == {record.as_posix(), checkpoint.as_posix()}


def test_a_folder_of_temporary_files_that_cannot_be_used_is_named(there, tmp_path, monkeypatch):
    tar, run, _ = there
    (tmp_path / "file").touch()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "file"))
    for use in (
        lambda: session.check_out(tmp_path / "new.tar"),
        lambda: transfer.write(tmp_path / "new.tar", [records.path_of(run)]),
        lambda: transfer.read(tar, session.CHECKPOINTS),
    ):
        with pytest.raises(FedreproError, match=r"temporary files cannot .*/file.* in TMPDIR"):
            use()


def test_no_room_to_unpack_is_not_told_of_the_file(here, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(transfer.shutil, "copyfileobj", full)
    with pytest.raises(FedreproError, match=r"gz: cannot be unpacked to .*No space left.*TMPDIR"):
        transfer.read(here[0], session.CHECKPOINTS)


def test_a_full_disk_is_a_clear_error(here, monkeypatch):
    tar, run, _ = here
    real = type(tar).write_bytes

    def full(file, content):
        if not file.is_absolute():
            raise OSError(28, "No space left on device")
        return real(file, content)

    monkeypatch.setattr(type(tar), "write_bytes", full)
    with pytest.raises(FedreproError, match=rf"{run}\.json.*No space left"):
        transfer.read(tar, session.CHECKPOINTS)
    assert not list(records.FOLDER.glob("*"))
