"""Records in a store that machines share: a folder, a store in memory, and S3 (moto's server)."""

import contextlib
import datetime
import errno
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from made_up import content
from small_runs import TINY_PLAN, ends_after, planned

import fedrepro
from fedrepro import cli
from fedrepro.base.errors import FedreproError
from fedrepro.runs import records, session, shared, store, transfer
from fedrepro.runs.options import TrainOptions
from fedrepro.runs.shared import Claim, SharedClaims
from fedrepro.runs.store import Store

fsspec = pytest.importorskip("fsspec")
FOLDER = records.FOLDER.as_posix()


@pytest.fixture(scope="module")
def server():
    """The address of an S3 server on this machine, and a client of it."""
    reason = "moto[s3], flask, flask-cors and s3fs are the S3 server and client"
    moto_server = pytest.importorskip("moto.server", reason=reason)
    pytest.importorskip("s3fs", reason=reason)
    import boto3

    moto = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    host, port = moto.get_host_and_port()
    address = f"http://{host}:{port}"
    keys = {"aws_access_key_id": "a", "aws_secret_access_key": "b", "region_name": "us-east-1"}
    client = boto3.client("s3", endpoint_url=address, **keys)
    yield address, client
    client.close()
    moto.stop()


@pytest.fixture
def s3(server, monkeypatch):
    """An empty bucket's address, and a client."""
    address, client = server
    for key, value in {
        "AWS_ENDPOINT_URL": address,
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(key, value)
    client.create_bucket(Bucket="bucket")
    yield "s3://bucket/team", client
    for entry in client.list_objects_v2(Bucket="bucket").get("Contents", []):
        client.delete_object(Bucket="bucket", Key=entry["Key"])


@pytest.fixture
def new_client():
    """No client of s3fs outlives the test, or is there before: each reads the environment anew."""
    from s3fs import S3FileSystem

    S3FileSystem.clear_instance_cache()
    yield
    S3FileSystem.clear_instance_cache()


@pytest.fixture
def memory():
    from fsspec.implementations.memory import MemoryFileSystem

    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]
    return "memory://team"


@pytest.fixture(params=["folder", "memory", "s3"])
def address(request, tmp_path):
    """Of an empty store of each kind."""
    if request.param == "folder":
        return str(tmp_path / "a [store]")
    found = request.getfixturevalue(request.param)
    return found if request.param == "memory" else found[0]


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Go to the folder of a machine, which is made if need be."""

    def go(name):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        monkeypatch.chdir(folder)
        return folder

    go("here")
    return go


RUNS = [planned(seed=seed) for seed in range(3)]
IDS = [run.id for run in RUNS]
NAMES = [f"{FOLDER}/{run.id}.json" for run in RUNS]


@pytest.fixture
def filled(address, machine, write_record):
    """A store with three records, as the machine sees it that has none."""
    machine("there")
    for run in RUNS:
        write_record(run, records.FOLDER)
    store = Store(address)
    assert shared.push(store, list(map(Path, NAMES))).new == NAMES
    machine("here")
    return store


def pull(store):
    return shared.pull(store, shared.listed(store), session.CHECKPOINTS)


# Addresses


@pytest.mark.parametrize("address", ["", " ", "s3://", "file://"])
def test_an_empty_address_is_no_store(address, machine, capsys):
    with pytest.raises(FedreproError, match="is no address of a store; give a folder"):
        Store(address)
    for words in (["push", address], ["pull", address]):
        assert cli.main(["records", *words]) == 1
        assert f"'{address}' is no address of a store" in capsys.readouterr().err
    with pytest.raises(FedreproError, match="is no address of a store"):
        session.train(RUNS[:1], TrainOptions(shared=address))
    assert not records.is_recorded(IDS[0])


@pytest.mark.parametrize("address", ["s3:/bucket", "me@host:folder", "data:,x"])
def test_a_slip_in_an_address_is_no_folder(address, machine):
    with pytest.raises(FedreproError, match=rf"'{address}' is no address .* give \./{address}"):
        Store(address)
    Path(address).mkdir(parents=True)
    Store(address)
    Store(f"./{address}")


# Records


def test_records_arrive_as_they_were_and_stay_where_they_are(filled, machine, tmp_path):
    session.CHECKPOINTS.mkdir()
    checkpoint = session.CHECKPOINTS / f"{IDS[0]}.pt"
    checkpoint.touch()
    assert sorted(pull(filled).new) == sorted(NAMES)
    assert not checkpoint.exists()
    for name in NAMES:
        assert Path(name).read_bytes() == (tmp_path / "there" / name).read_bytes()
    assert sorted(pull(filled).known) == sorted(NAMES)
    assert shared.push(filled, list(map(Path, NAMES))).known == NAMES


def test_records_are_read_some_at_a_time(filled, monkeypatch):
    monkeypatch.setattr(store, "_AT_ONCE", 2)
    assert sorted(pull(filled).new) == sorted(NAMES)


def test_what_another_process_takes_in_meanwhile_is_here_already(filled, monkeypatch):
    contents = Store.contents

    def meanwhile(store, names):
        for name, found in contents(store, names):
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path(name).write_bytes(found)
            yield name, found

    monkeypatch.setattr(Store, "contents", meanwhile)
    moved = pull(filled)
    assert (moved.new, sorted(moved.known)) == ([], sorted(NAMES))


def test_records_that_are_not_committed_arrive_beside_them(address, machine, write_record):
    machine("there")
    own = write_record(RUNS[0], records.OWN_FOLDER)
    store = Store(address)
    shared.push(store, [own])
    machine("here")
    assert pull(store).new == [own.as_posix()]
    assert not list(records.FOLDER.glob("*"))


def test_a_changed_byte_is_refused_by_name_and_the_rest_arrives(filled):
    good = filled.content(NAMES[1])
    assert good is not None
    filled.replace(NAMES[1], good.replace(b"0.5", b"0.6"))
    moved = pull(filled)
    assert sorted(moved.new) == sorted([NAMES[0], NAMES[2]])
    (refused,) = moved.refused
    assert refused.startswith(f"{filled.address}: {NAMES[1]}: was edited")
    assert not Path(NAMES[1]).exists()


@pytest.mark.parametrize(
    ("name", "found", "reason"),
    [
        (NAMES[0], b"", "not a whole run record"),
        (NAMES[0], b'{"a":' * 200_000, "not a whole run record"),
        (NAMES[0], b"\0" * transfer.MOST_RECORD_BYTES, "not a whole run record"),
        (NAMES[0], b"1" * (transfer.MOST_RECORD_BYTES + 1), "more than a record can have"),
        (f"{FOLDER}/0123456789ab.json", None, "holds the record of another run"),
        (f"{FOLDER}/notes.txt", b"x", "'results/runs/notes.txt' is not a record"),
        (f"{FOLDER}/{IDS[0]}.json.tmp", b"x", "is not a record"),
        (f"{FOLDER}/more/{IDS[0]}.json", b"x", "'results/runs/more' is not a record"),
        (f"{FOLDER}/\x1b[31mä '*?[.json", b"x", r"\x1b[31m\xe4 '*?[.json"),
    ],
)
def test_what_is_no_record_is_refused_by_name(filled, name, found, reason):
    found = filled.content(NAMES[1]) if found is None else found
    filled.delete(name)
    filled.create(name, found)
    moved = pull(filled)
    assert len(moved.new) == 3 - (name == NAMES[0])
    (refused,) = moved.refused
    assert refused.startswith(f"{filled.address}: ")
    assert reason in refused
    assert len(list(Path().rglob("*.json"))) == len(moved.new)


def test_a_damaged_record_here_keeps_the_others_from_nothing(filled):
    records.FOLDER.mkdir(parents=True)
    Path(NAMES[0]).write_text("{}")
    moved = pull(filled)
    assert sorted(moved.new) == sorted(NAMES[1:])
    assert moved.refused[0].startswith(f"{NAMES[0]}: not a whole run record")
    assert Path(NAMES[0]).read_text() == "{}"


def test_a_record_cut_short_in_the_store_is_refused(filled):
    for share in (0.0, 0.3, 0.9):
        whole = filled.content(NAMES[0])
        assert whole is not None
        filled.replace(NAMES[0], whole[: int(share * len(whole))])
        (refused,) = pull(filled).refused
        assert f"{NAMES[0]}: not a whole run record" in refused
        filled.replace(NAMES[0], whole)


def test_a_record_of_other_data_is_refused(address, machine):
    found = content(RUNS[0])
    found["provenance"]["dataset_sha256"] = "1" * 64
    machine("there")
    file = records.write(found, records.FOLDER)
    store = Store(address)
    (refused,) = shared.push(store, [file]).refused
    assert "trained on other data than the data set synthetic" in refused
    store.create(NAMES[0], file.read_bytes())
    machine("here")
    assert "trained on other data than the data set synthetic" in pull(store).refused[0]


def test_a_record_in_the_store_is_never_replaced(filled, write_record):
    ours = [
        write_record(RUNS[0], records.FOLDER, final={"accuracy": 0.75}),
        write_record(
            RUNS[1], records.FOLDER, provenance=content(RUNS[1])["provenance"] | {"seconds": 9}
        ),
        write_record(planned(seed=9), records.FOLDER),
    ]
    before = [filled.content(name) for name in NAMES]
    moved = shared.push(filled, ours)
    assert moved.new == [ours[2].as_posix()]
    assert moved.known == [NAMES[1]], "only the seconds differ"
    (refused,) = moved.refused
    assert refused.startswith(f"{filled.address}: {NAMES[0]}: is not the record that is here")
    assert [filled.content(name) for name in NAMES] == before
    assert shared.push(filled, ours[:1]).refused == [refused]


@pytest.mark.parametrize("field", ["metrics", "partition"])
def test_a_record_with_another_curve_or_partition_is_not_the_one_in_the_store(
    filled, write_record, field
):
    other = {
        "metrics": {"evaluated_rounds": [1.0], "accuracy": [0.75]},
        "partition": content(RUNS[0])["partition"] | {"sha256": "1" * 64},
    }
    ours = write_record(RUNS[0], records.FOLDER, **{field: other[field]})
    (refused,) = shared.push(filled, [ours]).refused
    assert refused.startswith(f"{filled.address}: {NAMES[0]}: is not the record that is here")


def test_what_is_damaged_in_the_store_is_not_replaced_either(filled, machine):
    machine("there")
    filled.replace(NAMES[0], b"{}")
    moved = shared.push(filled, list(map(Path, NAMES)))
    assert moved.known == NAMES[1:]
    assert len(moved.refused) == 1
    assert filled.content(NAMES[0]) == b"{}"


def test_a_damaged_record_is_not_pushed_and_the_others_are(address, machine, write_record):
    for run in RUNS:
        write_record(run, records.FOLDER)
    Path(NAMES[0]).write_text("{}")
    moved = shared.push(Store(address), list(map(Path, NAMES)))
    assert moved.new == NAMES[1:]
    assert NAMES[0] in moved.refused[0]


def test_a_record_that_comes_as_ours_is_pushed_is_not_replaced(filled, monkeypatch, write_record):
    """Both machines looked before either wrote."""
    ours = write_record(RUNS[0], records.FOLDER, final={"accuracy": 0.75})
    before = filled.content(NAMES[0])
    monkeypatch.setattr(shared, "listed", lambda store: {})
    other = write_record(planned(seed=9), records.FOLDER)
    moved = shared.push(filled, [ours, other])
    assert moved.new == [other.as_posix()]
    assert len(moved.refused) == 1
    assert filled.content(NAMES[0]) == before


def test_an_answer_that_is_lost_is_no_conflict(address, machine, monkeypatch):
    store = Store(address)
    write = Store._write

    def loses(store, name, content, *, new):
        write(store, name, content, new=new)
        raise FedreproError("timed out")

    monkeypatch.setattr(Store, "_write", loses)
    assert store.create("claims/a", b"1")
    assert not store.create("claims/a", b"2")


def test_a_folder_may_be_written_as_a_url(tmp_path):
    store = Store(f"file://{tmp_path}/store/")
    assert store.create(NAMES[0], b"1")
    assert shared.listed(Store(str(tmp_path / "store"))) == {NAMES[0]: 1}


def test_a_folder_without_hard_links_is_refused(tmp_path, monkeypatch):
    def refuses(*_):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuses)
    with pytest.raises(FedreproError, match=r"shelf: the folder's file system has no hard links"):
        Store(str(tmp_path / "shelf")).create("claims/a.json", b"1")
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == []


def test_a_folder_holds_whole_files_only(tmp_path, monkeypatch):
    store = Store(str(tmp_path / "store"))

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "link", full)
    with pytest.raises(FedreproError, match="No space left"):
        store.create(NAMES[0], b"1")
    assert shared.listed(store) == {}
    assert not [file for file in tmp_path.rglob("*") if file.is_file()]


def test_a_folder_holds_nothing_but_objects(tmp_path):
    store = Store(str(tmp_path))
    store.create(NAMES[0], b"1")
    store.replace(NAMES[0], b"2")
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == [tmp_path / NAMES[0]]


def test_of_a_large_object_only_a_part_is_read(address, monkeypatch):
    monkeypatch.setattr(store, "MOST_BYTES", 3)
    made = Store(address)
    made.create("claims/a", b"12345")
    assert made.content("claims/a") == b"123"
    assert dict(made.contents({"claims/a": 5})) == {"claims/a": b"123"}


def test_a_store_that_says_too_much_is_refused(filled, monkeypatch):
    monkeypatch.setattr(transfer, "MOST_MEMBERS", 2)
    with pytest.raises(FedreproError, match="holds 3 files among the records"):
        pull(filled)
    monkeypatch.setattr(transfer, "MOST_MEMBERS", 3)
    assert len(pull(filled).new) == 3


# The command line


def command(capsys, *words):
    status = cli.main(["records", *words])
    out, error = capsys.readouterr()
    return status, out, error


def test_push_and_pull_on_the_command_line(address, machine, write_record, capsys):
    machine("there")
    for run in RUNS:
        write_record(run, records.FOLDER)
    assert command(capsys, "push", address, IDS[0][:8], IDS[1]) == (
        0,
        f"2 records pushed to {address}, 0 were there already\n",
        "",
    )
    assert command(capsys, "push", address)[1].startswith("1 records pushed")
    machine("here")
    assert command(capsys, "pull", address, IDS[1])[1].startswith("1 records pulled from")
    Store(address).replace(NAMES[0], b"{}")
    status, out, error = command(capsys, "pull", address)
    assert (status, out) == (
        1,
        f"1 records pulled from {address}, 1 were there already, 1 refused\n",
    )
    assert error.startswith(f"fedrepro: refused:\n{address}: {NAMES[0]}: not a whole run record")
    machine("empty")
    status, _, error = command(capsys, "push", address)
    assert (status, "results/runs, results/own/runs: no record to push" in error) == (1, True)
    machine("here")
    for way in ("push", "pull"):
        status, _, error = command(capsys, way, address, "ffff")
        assert (status, "'ffff' has no record in" in error) == (1, True)


def test_several_runs_of_one_beginning_are_refused():
    with pytest.raises(FedreproError, match=r"'' begins the ids of 3 runs"):
        shared.chosen(NAMES, [""], "here")


@pytest.mark.parametrize("kind", ["folder", "memory"])
def test_a_store_that_is_not_there(machine, memory, kind, capsys, tmp_path):
    address = memory if kind == "memory" else str(tmp_path / "none")
    status, _, error = command(capsys, "pull", address)
    assert status == 1
    assert error.startswith(f"fedrepro: {address}: no such folder or bucket; check the address")


@pytest.mark.parametrize("password", ["secret", "se@cret"])
def test_a_password_in_an_address_is_not_shown(monkeypatch, password):
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(FedreproError) as caught:
        Store(f"ftp://me:{password}@host/folder")
    assert str(caught.value).startswith("ftp://host/folder: ")


def test_missing_packages_are_named(monkeypatch):
    monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, "s3", raising=False)
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(
        FedreproError, match=r"^s3://b: needs a package .*: pip install s3fs"
    ) as one:
        Store("s3://b")
    assert "\n" not in str(one.value)
    with pytest.raises(FedreproError, match="Protocol not known: nowhere"):
        Store("nowhere://b")
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(FedreproError, match="needs the package fsspec: pip install fsspec"):
        Store("/a/folder")


# S3


def test_a_missing_bucket(s3, machine, write_record, capsys):
    write_record(RUNS[0], records.FOLDER)
    for way, problem in (
        (
            "pull",
            "no such folder or bucket; check the address, or put records there first: fedrepro "
            "records push",
        ),
        ("push", "FileNotFoundError: The specified bucket does not exist"),
    ):
        status, _, error = command(capsys, way, "s3://nowhere/team")
        assert (status, error) == (1, f"fedrepro: s3://nowhere/team: {problem}\n")


def test_missing_credentials(s3, new_client, machine, monkeypatch, capsys, tmp_path):
    for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(key)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    status, _, error = command(capsys, "pull", s3[0])
    assert (status, error) == (
        1,
        f"fedrepro: {s3[0]}: NoCredentialsError: Unable to locate credentials\n",
    )


def test_a_server_that_does_not_answer(s3, new_client, machine, monkeypatch, write_record, capsys):
    from s3fs import S3FileSystem

    monkeypatch.setattr(S3FileSystem, "retries", 1)
    quick = {"read_timeout": 0.2, "connect_timeout": 0.2, "retries": {"max_attempts": 0}}
    monkeypatch.setitem(fsspec.config.conf, "s3", {"config_kwargs": quick})
    monkeypatch.setattr(store, "PATIENCE", 1.0)
    write_record(RUNS[0], records.FOLDER)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        for way in ("push", "pull"):
            status, _, error = command(capsys, way, s3[0])
            assert status == 1
            assert "Timeout" in error
            assert error.count("\n") == 1
    quick["connect_timeout"] = 60.0  # of a closed port the answer comes at once
    monkeypatch.setattr(store, "PATIENCE", 60.0)
    S3FileSystem.clear_instance_cache()
    status, _, error = command(capsys, "pull", s3[0])
    assert status == 1
    assert "Could not connect" in error


def test_a_timeout_of_one_object_leaves_the_others(s3, machine, monkeypatch, write_record):
    from s3fs import S3FileSystem

    for run in RUNS:
        write_record(run, records.FOLDER)
    store = Store(s3[0])
    shared.push(store, list(map(Path, NAMES)))
    machine("other")
    fetch = S3FileSystem._cat_file

    async def slow(self, path, *args, **options):
        if IDS[1] in path:
            raise TimeoutError
        return await fetch(self, path, *args, **options)

    monkeypatch.setattr(S3FileSystem, "_cat_file", slow)
    moved = pull(store)
    assert sorted(moved.new) == sorted([NAMES[0], NAMES[2]])
    assert moved.refused == [f"{s3[0]}: {NAMES[1]}: cannot be read (TimeoutError)"]


def test_keys_with_dots_and_folder_marks(s3, machine, write_record, tmp_path):
    """In a bucket ``..`` is a name like others."""
    address, client = s3
    record = write_record(RUNS[0], tmp_path / "elsewhere").read_bytes()
    for key in (f"{FOLDER}/", f"{FOLDER}/../evil.json", f"{FOLDER}/../../../x", f"{FOLDER}//y"):
        client.put_object(Bucket="bucket", Key=f"team/{key}", Body=record)
    client.put_object(Bucket="bucket", Key=f"team/{NAMES[0]}", Body=record)
    moved = pull(Store(address))
    assert moved.new == [NAMES[0]]
    assert f"{address}: 'results/runs/..' is not a record" in moved.refused
    assert {file.name for file in tmp_path.rglob("*") if file.is_file()} == {f"{IDS[0]}.json"}


# Claims


@pytest.fixture
def claims(address, machine):
    """Claims of processes of two machines, on one store."""
    store = Store(address)
    made = []

    def claim(name):
        made.append(SharedClaims(store, Path(name)))
        return made[-1]

    yield claim("ours"), claim("theirs"), store
    for each in made:
        each.release_all()


def age(store, seconds, name=f"claims/{IDS[0]}.1.json"):
    """Make a claim older."""
    claim = Claim.model_validate_json(store.content(name))
    renewed = claim.renewed - datetime.timedelta(seconds=seconds)
    store.replace(name, claim.model_copy(update={"renewed": renewed}).model_dump_json().encode())


def test_one_of_two_machines_gets_a_run(claims):
    ours, theirs, store = claims
    assert ours.take(IDS[0])
    assert not theirs.take(IDS[0])
    assert theirs.take(IDS[1])
    (claim,) = ours._claims(IDS[0]).values()
    assert (claim.host, claim.process) == (socket.gethostname(), os.getpid())
    ours.release(IDS[0])
    assert theirs.take(IDS[0])
    theirs.release_all()
    assert store.listed("claims") == {}
    assert ours.take(IDS[0])


def test_an_abandoned_claim_is_taken_over_once(claims):
    ours, theirs, store = claims
    assert ours.take(IDS[0])
    age(store, shared.ABANDONED_AFTER - 60)
    assert not theirs.take(IDS[0])
    age(store, 60)
    assert theirs.take(IDS[0])
    assert [*store.listed("claims")] == [f"claims/{IDS[0]}.2.json"]
    third = SharedClaims(store, Path("third"))
    assert not third.take(IDS[0])
    age(store, shared.ABANDONED_AFTER, f"claims/{IDS[0]}.2.json")
    assert third.take(IDS[0])
    assert [*store.listed("claims")] == [f"claims/{IDS[0]}.3.json"]
    third.release_all()


def test_processes_that_begin_at_once_have_one_token(tmp_path, monkeypatch):
    with ThreadPoolExecutor(1) as other:
        begun = []

        def drawn():
            if not begun:
                begun.append(other.submit(shared._token, tmp_path))
                wait(begun, timeout=0.5)
            return SimpleNamespace(hex=str(threading.get_ident()))

        monkeypatch.setattr(shared, "uuid", SimpleNamespace(uuid4=drawn))
        token = shared._token(tmp_path)
        assert begun[0].result() == token == (tmp_path / "token").read_text()


def test_a_process_that_was_killed_takes_its_runs_up_again_at_once(claims):
    ours, theirs, store = claims
    again, copied = SharedClaims(store, Path("ours")), SharedClaims(store, Path("ours"))
    copied._host = "another"  # which has a copy of the folder, not its locks
    assert ours.take(IDS[0])
    assert not again.take(IDS[0]), "it is alive"
    ours._names.clear()
    ours.release(IDS[0])  # by the system, where a process ends
    assert not theirs.take(IDS[0])
    assert not copied.take(IDS[0])
    assert again.take(IDS[0])
    assert [*store.listed("claims")] == [f"claims/{IDS[0]}.2.json"]
    again.release_all()
    assert theirs.take(IDS[0])


@pytest.mark.parametrize("folder", [records.FOLDER, records.OWN_FOLDER])
def test_a_record_that_a_killed_process_did_not_add_is_added_by_the_next(
    claims, write_record, folder
):
    ours, theirs, store = claims
    for run in RUNS[:2]:
        write_record(run, folder)
    assert ours.take(IDS[0])
    assert theirs.take(IDS[1])
    again = SharedClaims(store, Path("ours"))
    again.fetch(IDS)
    assert shared.listed(store) == {}, "it is alive"
    ours._names.clear()
    ours.release(IDS[0])  # by the system, where a process ends
    again.fetch(IDS[1:])
    assert shared.listed(store) == {}, "the run is not meant"
    again.fetch(IDS)
    assert [*shared.listed(store)] == [f"{folder}/{IDS[0]}.json"]
    assert [*store.listed("claims")] == [f"claims/{IDS[1]}.1.json"]
    again.release_all()


def test_records_of_the_runs_that_are_meant_are_fetched_and_no_others(filled):
    filled.create(f"{FOLDER}/{IDS[0]}.txt", b"notes on a run")
    claims = SharedClaims(filled, session.CHECKPOINTS)
    assert claims.fetch(IDS[:1]).new == NAMES[:1]
    assert [run for run in IDS if records.is_recorded(run)] == IDS[:1]


def test_a_late_record_that_the_store_has_with_other_results_is_refused(
    claims, machine, write_record
):
    ours, _, store = claims
    assert ours.take(IDS[0])
    ours._names.clear()
    ours.release(IDS[0])
    machine("there")
    shared.push(store, [write_record(RUNS[0], records.FOLDER)])
    machine("here")
    write_record(RUNS[0], records.FOLDER, final={"accuracy": 0.75})
    with pytest.raises(FedreproError, match=f"{NAMES[0]}: is not the record that is here"):
        ours.fetch(IDS)
    assert store.listed("claims") == {}


def test_a_claim_that_could_not_be_deleted_goes_with_the_others(claims, monkeypatch):
    ours, _, store = claims

    def interrupted(*_):
        raise KeyboardInterrupt

    assert ours.take(IDS[0])
    with monkeypatch.context() as patch:
        patch.setattr(Store, "delete", interrupted)
        with pytest.raises(KeyboardInterrupt):
            ours.release(IDS[0])
    ours.release_all()
    assert store.listed("claims") == {}


def test_a_claim_of_a_clock_that_is_far_ahead_does_not_count(claims):
    ours, theirs, store = claims
    assert ours.take(IDS[0])
    age(store, 60 - shared.ABANDONED_AFTER)
    assert not theirs.take(IDS[0])
    age(store, -120)
    assert theirs.take(IDS[0])


def test_of_two_that_see_an_abandoned_claim_one_gets_the_run(claims, monkeypatch):
    ours, theirs, _ = claims
    create, taken = Store.create, []

    def late(store, name, content):
        if name.endswith(".1.json") and not taken:  # both have looked, the other one is first
            taken.append(None)
            taken.append(theirs.take(IDS[0]))
        return create(store, name, content)

    monkeypatch.setattr(Store, "create", late)
    assert not ours.take(IDS[0])
    assert taken == [None, True]


def test_claims_that_are_given_up_between_two_looks_are_none(claims, monkeypatch):
    ours, _, _ = claims
    gone, listed = {f"claims/{IDS[0]}.{number}.json": 9 for number in (7, 8)}, Store.listed
    monkeypatch.setattr(Store, "listed", lambda store, folder: gone | listed(store, folder))
    assert ours.take(IDS[0])


def test_a_claim_that_is_given_up_and_made_anew_between_two_looks_is_read_whole(
    claims, monkeypatch
):
    """The new one has the name of the old one, and is longer."""
    ours, theirs, _ = claims
    assert theirs.take(IDS[0])
    listed = Store.listed

    def before(store, folder):
        return {name: size - 9 for name, size in listed(store, folder).items()}

    monkeypatch.setattr(Store, "listed", before)
    assert not ours.take(IDS[0])


def test_a_claim_that_appears_beside_ours_is_respected(claims, monkeypatch):
    """We saw an abandoned claim; before we wrote ours it was deleted and the run claimed anew."""
    ours, theirs, store = claims
    assert ours.take(IDS[0])
    age(store, 2 * shared.ABANDONED_AFTER)
    ours._names.clear()  # as if the process had been killed
    ours.release(IDS[0])
    create, done = Store.create, []

    def late(store, name, content):
        if name.endswith(".2.json"):
            store.delete(f"claims/{IDS[0]}.1.json")
            done.append(theirs.take(IDS[0]))
        return create(store, name, content)

    monkeypatch.setattr(Store, "create", late)
    assert not ours.take(IDS[0])
    assert done == [True]
    assert [*store.listed("claims")] == [f"claims/{IDS[0]}.1.json"]


def test_a_claim_counts_although_a_renewal_fails_and_the_next_one_is_late():
    late = 2 * shared.RENEWED_AFTER + 2 * store.PATIENCE
    assert late < shared.ABANDONED_AFTER


def test_claims_are_renewed(address, machine, monkeypatch):
    monkeypatch.setattr(shared, "RENEWED_AFTER", 0.05)
    store = Store(address)
    claims = SharedClaims(store, Path("ours"))
    assert claims.take(IDS[0])
    age(store, 2 * shared.ABANDONED_AFTER)
    deadline = time.monotonic() + 300
    while not next(iter(claims._claims(IDS[0]).values())).counts:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    claims.release_all()
    claims._renewing.join()
    assert store.listed("claims") == {}


@pytest.mark.parametrize("folder", [records.FOLDER, records.OWN_FOLDER])
def test_a_record_that_another_machine_wrote_is_here_once_the_run_is_taken(
    claims, machine, write_record, folder
):
    ours, _, store = claims
    machine("there")
    shared.push(store, [write_record(RUNS[0], folder)])
    machine("here")
    assert ours.take(IDS[0])
    assert records.is_recorded(IDS[0], folder)
    store.create(NAMES[1], b"{}")
    with pytest.raises(FedreproError, match=f"{NAMES[1]}: not a whole run record"):
        ours.take(IDS[1])
    assert not any(IDS[1] in name for name in store.listed("claims")), "given up again"


def test_a_damaged_record_of_another_run_keeps_no_run_from_being_taken(claims):
    ours, _, store = claims
    store.create(NAMES[1], b"{}")
    assert ours.take(IDS[0])


def test_a_run_is_taken_without_a_list_of_all_records(claims, monkeypatch):
    """There may be thousands, and each run is taken once."""
    ours, _, _ = claims
    folders, listed = [], Store.listed

    def noted(store, folder):
        folders.append(folder)
        return listed(store, folder)

    monkeypatch.setattr(Store, "listed", noted)
    assert ours.take(IDS[0])
    assert set(folders) == {"claims"}


def test_something_else_as_a_claim_is_an_error(claims):
    ours, _, store = claims
    store.create(f"claims/{IDS[0]}.7.json", b"{}")
    with pytest.raises(FedreproError, match=rf"claims/{IDS[0]}\.7\.json is not a claim.*delete it"):
        ours.take(IDS[0])
    store.create("claims/notes.txt", b"of no interest")
    assert ours.take(IDS[1])


def test_a_store_that_creates_an_object_twice_is_refused(memory, machine, monkeypatch):
    from fsspec.implementations.memory import MemoryFileSystem

    pipe = MemoryFileSystem.pipe_file

    def careless(self, path, value, mode="overwrite", **kwargs):
        pipe(self, path, value, **kwargs)

    monkeypatch.setattr(MemoryFileSystem, "pipe_file", careless)
    store = Store(memory)
    with pytest.raises(FedreproError, match="cannot keep two machines from training one run"):
        SharedClaims(store, session.CHECKPOINTS)
    assert store.listed("claims") == {}


# Training


def train(address, runs=RUNS, **options):
    return session.train(runs, TrainOptions(backend="loop", shared=address, **options))


def test_what_a_machine_trains_is_there_for_others(address, machine, capsys):
    assert train(address, RUNS[:2]) == 2
    assert sorted(shared.listed(Store(address))) == sorted(NAMES[:2])
    machine("other")
    assert train(address) == 1
    assert f"2 records pulled from {address}" in capsys.readouterr().out
    assert all(run.recorded for run in RUNS)
    assert Store(address).listed("claims") == {}


def test_runs_of_other_machines_are_left_to_them_or_waited_for(memory, machine, monkeypatch):
    monkeypatch.setattr(SharedClaims, "seconds_between_looks", 0.01)
    theirs = SharedClaims(Store(memory), Path("theirs"))
    assert theirs.take(IDS[0])
    assert train(memory) == 2
    assert not RUNS[0].recorded
    waited = []

    def wait(seconds, sleep=time.sleep):
        waited.append(seconds)
        if len(waited) == 2:
            theirs.release(IDS[0])
        sleep(seconds)

    monkeypatch.setattr(time, "sleep", wait)
    assert train(memory, wait=True) == 1
    assert RUNS[0].recorded
    assert len(waited) >= 2
    theirs.release_all()


def test_a_conflict_fails_the_run_by_name_and_loses_nothing(memory, machine, write_record):
    store, push = Store(memory), shared.push

    def late(store, files):
        """Another machine, which did not respect the claim, is first."""
        if files == [Path(NAMES[0])]:
            machine("other")
            push(store, [write_record(RUNS[0], records.FOLDER)])
            machine("here")
        return push(store, files)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared, "push", late)
        with pytest.raises(FedreproError, match=f"{NAMES[0]}: is not the record that is here"):
            train(memory)
    assert all(run.recorded for run in RUNS)
    assert b"made up" in store.content(NAMES[0])
    assert sorted(shared.listed(store)) == sorted(NAMES)


def test_a_store_out_of_reach_ends_the_training_and_keeps_the_record(
    memory, machine, monkeypatch, tmp_path
):
    def unreachable(*_):
        raise FedreproError("memory://team: TimeoutError")

    monkeypatch.setattr(shared, "push", unreachable)
    with pytest.raises(FedreproError, match="not in the store; `fedrepro records push` adds it"):
        train(memory, out=tmp_path / "new.tar")
    (recorded,) = [run for run in RUNS if run.recorded]
    assert [*transfer.content(tmp_path / "new.tar", tmp_path / "x")] == [
        f"{FOLDER}/{recorded.id}.json"
    ]
    assert Store(memory).listed("claims") == {}


def test_an_interrupt_while_a_record_is_added_says_that_it_is_here_only(
    memory, machine, monkeypatch
):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(shared, "push", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        train(memory)
    (recorded,) = [run for run in RUNS if run.recorded]
    said = f"{FOLDER}/{recorded.id}.json is not in the store; `fedrepro records push` adds it later"
    assert said in caught.value.__notes__
    assert Store(memory).listed("claims") == {}


def test_an_interrupted_training_gives_its_claims_up(memory, machine):
    with ends_after(3, KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        train(memory)
    assert Store(memory).listed("claims") == {}


def test_a_damaged_record_of_a_planned_run_ends_the_training_before_it_begins(memory, machine):
    Store(memory).create(NAMES[0], b"{}")
    with pytest.raises(FedreproError, match=f"{NAMES[0]}: not a whole run record"):
        train(memory)
    assert not list(records.FOLDER.glob("*"))


# Processes

PLAN = TINY_PLAN | {"seeds": list(range(6))}
TRAINER = """
    import pathlib, sys, time
    from fedrepro.fl.engine import checkpoint
    from fedrepro.runs import __main__, session, shared

    def wait_for(file):
        while not pathlib.Path(file).exists():
            time.sleep(0.01)

    shared.SharedClaims.seconds_between_looks = 0.2
    {change}
    pathlib.Path("ready").touch()
    wait_for("../begin")
    sys.exit(__main__.main(["train", "tiny.yaml", "--backend=loop", *sys.argv[1:]]))
    """
MEET = """
    take = shared.SharedClaims.take

    def meet(claims, run):
        taken = take(claims, run)
        if taken:
            pathlib.Path("claimed").touch()
            wait_for("../all-claimed")
        return taken

    shared.SharedClaims.take = meet
    """
STOP_IN_MID_TRAINING = """
    save = checkpoint.save

    def save_and_stop(*arguments):
        save(*arguments)
        if any(pathlib.Path("results/own/runs").glob("*.json")):  # another run has ended
            pathlib.Path("stopped").touch()
            wait_for("never")

    checkpoint.save = save_and_stop
    """
LOSE_PATIENCE = """
    shared.RENEWED_AFTER, shared.ABANDONED_AFTER = 0.2, 3.0
    """


class Trainer:
    """A process that trains a plan in a folder of its own, as on a machine of its own."""

    def __init__(self, folder, address, change, *options, **changes):
        folder.mkdir()
        plan = PLAN | {"defaults": PLAN["defaults"] | changes}
        (folder / "tiny.yaml").write_text(yaml.safe_dump(plan))
        self.folder = folder
        source = str(Path(fedrepro.__file__).parents[1])
        program = textwrap.dedent(TRAINER).replace("{change}", textwrap.dedent(change))
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, f"--shared={address}", *options],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": source, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def end(self):
        out, error = self.process.communicate(timeout=300)
        assert self.process.returncode == 0, error
        return out, error

    @property
    def records(self):
        return {file.name: file.read_bytes() for file in self.folder.glob("results/own/runs/*")}


@pytest.fixture
def trainer():
    """Start trainers; none outlives the test."""
    with contextlib.ExitStack() as stack:

        def start(*arguments, **changes):
            found = Trainer(*arguments, **changes)
            stack.enter_context(found.process)
            stack.callback(found.process.kill)
            return found

        yield start


def trained(said):
    """The ids of the runs that a trainer says it recorded."""
    return [line.split()[0] for line in said.splitlines() if "rounds in" in line]


def begin(folder, *trainers):
    """Let trainers begin together, once all have imported what they need."""
    waits_for(lambda: all((each.folder / "ready").exists() for each in trainers), *trainers)
    (folder / "begin").touch()


def waits_for(is_so, *trainers):
    deadline = time.monotonic() + 300
    while not is_so():
        assert time.monotonic() < deadline
        assert all(each.process.poll() is None for each in trainers)
        time.sleep(0.02)


@pytest.mark.slow
def test_two_machines_train_each_run_once(s3, tmp_path, trainer):
    """Each has a run before either goes on."""
    options = ("--in-flight=1",)
    trainers = [trainer(tmp_path / name, s3[0], MEET, *options) for name in "ab"]
    begin(tmp_path, *trainers)
    waits_for(lambda: all((each.folder / "claimed").exists() for each in trainers), *trainers)
    (tmp_path / "all-claimed").touch()
    said = [trained(each.end()[1]) for each in trainers]
    assert sorted(f"{run}.json" for run in said[0] + said[1]) == sorted(trainers[0].records)
    assert len(trainers[0].records) == len(PLAN["seeds"])
    assert all(said), "both train"
    assert trainers[0].records == trainers[1].records
    assert Store(s3[0]).listed("claims") == {}


@pytest.mark.slow
def test_the_runs_of_a_killed_machine_are_taken_over(tmp_path, trainer):
    address, store = str(tmp_path / "store"), Store(str(tmp_path / "store"))
    options = ("--checkpoint-seconds=0", "--in-flight=2")
    killed = trainer(tmp_path / "a", address, STOP_IN_MID_TRAINING, *options, rounds=3)
    begin(tmp_path, killed)
    waits_for(lambda: (killed.folder / "stopped").exists(), killed)
    killed.process.send_signal(signal.SIGKILL)
    ended = trained(killed.process.communicate()[1])
    assert ended
    claimed = {name.split("/")[1].split(".")[0] for name in store.listed("claims")}
    assert claimed
    other = trainer(tmp_path / "b", address, LOSE_PATIENCE, rounds=3)
    said = trained(other.end()[1])
    assert claimed <= {*said}
    assert not {*said} & {*ended}
    assert len(other.records) == len(PLAN["seeds"])
    assert store.listed("claims") == {}
