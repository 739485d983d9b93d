"""The CADIS client lists from the authors' JSON files: at hand, downloaded, refused."""

from __future__ import annotations

import http.server
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from servers import listening
from tiny_data import CADIS_LISTS, NOWHERE, allow_plain, read_registry, tiny_root, write_registry

from fedrepro.base.errors import FedreproError
from fedrepro.fl import data
from fedrepro.fl.data import cadis, commands, packs
from fedrepro.fl.data.registry import CadisIndex, cadis_index

FOLDER = Path("data/raw/cadis")
LISTS = {str(client): positions for client, positions in enumerate(CADIS_LISTS)}
GOOD = json.dumps(LISTS)


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    allow_plain(monkeypatch)
    return tiny_root(tmp_path, monkeypatch)


class Server(http.server.ThreadingHTTPServer):
    """Answers every request with ``content``, or with an error where that is None."""

    content: str | None = GOOD

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[str] = []
        self.url = f"http://127.0.0.1:{self.server_port}/"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        content = self.server.content
        self.send_response(404 if content is None else 200)
        self.end_headers()
        self.wfile.write((content or "not here").encode())

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server(root: Path) -> Iterator[Server]:
    """Serve the lists, at the addresses that the registry of ``root`` has."""
    with listening(Server()) as started:
        known = read_registry(root)
        repositories = known["cadis_index"]["repositories"]
        for name in repositories:
            repositories[name] = f"{started.url}{name}/"
        write_registry(root, known)
        yield started


def put(name: str, content: str = GOOD, raw: Path = FOLDER) -> Path:
    """Write the file of a partition where it is looked for."""
    path = raw / cadis_index().partitions[name].path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


def assert_lists(clients: tuple[np.ndarray[Any, Any], ...]) -> None:
    assert [client.tolist() for client in clients] == CADIS_LISTS
    assert all(client.dtype == np.int64 for client in clients)


def test_files_at_hand_are_read() -> None:
    put("cifar10_pa")
    assert_lists(data.cadis_partition("cifar10_pa"))
    put("mnist_mc", json.dumps(dict(reversed(LISTS.items())), indent=4))
    assert_lists(data.cadis_partition("mnist_mc"))


def test_files_beside_a_pack_are_read(root: Path) -> None:
    Path("packs").mkdir()
    put("cifar10_pa", raw=Path("packs/raw/cadis"))
    assert_lists(data.cadis_partition("cifar10_pa", Path("packs")))
    assert cadis.locate("cifar10_pa", Path("packs")).folder == Path("packs/raw/cadis")


def test_a_pack_comes_first(root: Path) -> None:
    put("mnist_mc", "broken")
    lists = tuple(np.array(client, dtype=np.int64) for client in CADIS_LISTS)
    names = cadis_index().partitions
    packs.publish(
        Path("data/pack"),
        {"cadis_index.npz": lambda path: cadis.write_pack_file(path, dict.fromkeys(names, lists))},
    )
    assert_lists(data.cadis_partition("mnist_mc"))


def test_of_an_unresolved_merge_the_first_side_is_read() -> None:
    other = json.dumps({**LISTS, "1": [3]})
    merge = "<<<<<<< HEAD\n{}\n=======\n{}\n>>>>>>> 0123abc\n"
    put("cifar100_mc", merge.format(GOOD, other))
    assert_lists(data.cadis_partition("cifar100_mc"))
    put("cifar100_mc", merge.format(other, GOOD))
    with pytest.raises(FedreproError, match="does not hold the published lists of cifar100_mc"):
        data.cadis_partition("cifar100_mc")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", "is not JSON"),
        ("<html>404</html>", "is not JSON"),
        ("[[4, 0], [], [9, 1, 2]]", "is not JSON of client ids and lists of positions"),
        (
            '{"0": [4, 0], "1": [], "2": [9, 1, "2"]}',
            r"\['2'\]\[2\]: .*valid integer",
        ),
        (
            '{"0": [4, 0], "1": [], "2": [9, true, 2]}',
            r"\['2'\]\[1\]: .*valid integer",
        ),
        (
            '{"0": [4.5, 0], "1": [], "2": [9, 1, 2]}',
            r"\['0'\]\[0\]: .*valid integer",
        ),
        ('{"0": [4, 0], "1": null, "2": [9, 1, 2]}', r"\['1'\]: .*valid array"),
        ('{"0": [4, -1], "1": [], "2": [9, 1, 2]}', "greater than or equal to 0"),
        ('{"0": [4, 99999999999999999999], "1": [], "2": []}', "less than"),
        ('{"0": [4, 0], "1": []}', "has no client '2', not clients '0' to '2'"),
        ('{"0": [4, 0], "1": [], "2": [9, 1, 2], "3": []}', "has 4 clients"),
        ('{"0": [4, 0], "1": [], "2": [9, 1, 20]}', "leave the training set of 20 examples"),
        ('{"0": [0, 4], "1": [], "2": [9, 1, 2]}', "published lists of mnist_mc.*expected"),
        ('{"0": [4], "1": [0], "2": [9, 1, 2]}', "published lists of mnist_mc"),
        ('{"0": [], "1": [], "2": []}', "published lists of mnist_mc"),
    ],
)
def test_other_content_is_refused_and_never_kept(
    content: str, expected: str, server: Server
) -> None:
    path = put("mnist_mc", content)
    with pytest.raises(FedreproError, match=f"(?s){path}.*{expected}.*Delete it and run again"):
        data.cadis_partition("mnist_mc")
    path.unlink()
    server.content = content
    with pytest.raises(FedreproError, match=f"(?s){server.url}cadis/.*{expected}.*It was not kept"):
        data.cadis_partition("mnist_mc")
    assert not path.exists()
    assert list(FOLDER.glob(".partial-*")) == []
    server.content = GOOD
    assert_lists(data.cadis_partition("mnist_mc"))


def test_only_the_file_that_is_asked_for_is_downloaded_and_only_once(server: Server) -> None:
    assert cadis.locate("cifar100_mc").kind == "download"
    first = data.cadis_partition("cifar100_mc")
    again = data.cadis_partition("cifar100_mc")
    assert_lists(first)
    assert_lists(again)
    path = cadis_index().partitions["cifar100_mc"].path
    assert server.asked == [f"/easyfl/{path}"]
    assert [file for file in FOLDER.rglob("*") if file.is_file()] == [FOLDER / path]
    assert cadis.locate("cifar100_mc").kind == "raw"


def test_an_address_that_fails_says_what_to_do(server: Server) -> None:
    server.content = None
    with pytest.raises(FedreproError) as caught:
        data.cadis_partition("mnist_mc")
    text = str(caught.value)
    address = server.url + "cadis/dataset_idx/mnist/client_cluster/MNIST-100client-cluster-quantit"
    for part in (
        "Could not download the CADIS client lists 'mnist_mc'",
        address,
        "404",
        "put that file into data/raw/cadis/dataset_idx/mnist/client_cluster;",
        "FEDREPRO_DATA",
        "fedrepro data import",
        "Looked for packs in: data/pack.",
    ):
        assert part in text
    assert [file for file in FOLDER.rglob("*") if file.is_file()] == []


def test_a_server_that_refuses_and_a_folder_that_cannot_be_written(root: Path) -> None:
    with pytest.raises(FedreproError, match=r"(?s)Could not download.*127\.0\.0\.1.*refused"):
        data.cadis_partition("mnist_mc")
    FOLDER.rmdir()
    FOLDER.write_text("in the way")
    with pytest.raises(FedreproError, match="Cannot write to data/raw/cadis"):
        data.cadis_partition("mnist_mc")


def line(text: str) -> str:
    return next(line for line in text.splitlines() if line.startswith("cadis_index"))


def test_commands_say_where_the_lists_come_from(server: Server) -> None:
    assert "download to data/raw/cadis " in line(commands.list_datasets())
    assert line(commands.verify()).endswith("not here   download to data/raw/cadis")
    put("mnist_mc")
    place = "raw data/raw/cadis (1 of 12), the others: download"
    assert place in line(commands.list_datasets())
    assert line(commands.verify()).endswith(f"OK       1 partitions, {place}")
    assert server.asked == []
    with pytest.raises(FedreproError, match="no data set here to pack"):
        commands.pack(Path("packed"))
    assert commands.verify(["cadis_index"]).endswith("OK       12 partitions, raw data/raw/cadis")
    assert len(server.asked) == 11
    assert "raw data/raw/cadis  " in line(commands.list_datasets())
    text = commands.prepare("cadis_index", Path("ready.json"))
    assert text == "cadis_index: raw, 12 partitions, manifest ready.json"
    with pytest.raises(FedreproError, match="cadis_index: has no other content than its own"):
        commands.prepare("cadis_index", Path("ready.json"), content="0" * 64)
    manifest = json.loads(Path("ready.json").read_text())
    partitions = cadis_index().partitions
    assert manifest["partitions"] == {name: lists.sha256 for name, lists in partitions.items()}
    assert (manifest["name"], manifest["source"]) == ("cadis_index", "raw")


def test_a_pack_that_lost_the_file_is_a_problem_in_the_list() -> None:
    for name in cadis_index().partitions:
        put(name)
    commands.pack(Path("packed"))
    Path("packed/cadis_index.npz").unlink()
    text = commands.list_datasets(Path("packed"))
    assert "problem: packed/cadis_index.npz is missing" in line(text)


def test_downloaded_lists_become_a_pack_with_the_same_lists(server: Server) -> None:
    text = commands.pack(Path("packed"), ["cadis_index"])
    assert text.startswith("packed: packed cadis_index (1 files")
    server.content = None
    for name in cadis_index().partitions:
        assert_lists(data.cadis_partition(name, Path("packed")))
    commands.pack(Path("again"))  # the raw files, which are here now
    assert packs.sums(Path("again")) == packs.sums(Path("packed"))
    commands.import_pack(Path("packed"))
    assert line(commands.verify()).endswith("OK       12 partitions, pack data/pack")


def test_lists_at_hand_are_read_without_torch() -> None:
    put("mnist_mc")
    code = (
        "import sys; from fedrepro.fl import data; data.cadis_partition('mnist_mc'); "
        "print([name for name in ('torch', 'torchvision', 'requests') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "[]", result.stderr


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("repository", "nowhere", "partitions.mnist_mc names no repository: 'nowhere'"),
        ("path", "../mnist_mc.json", "should match pattern"),
        ("path", "a/../mnist_mc.json", "should match pattern"),
        ("sha256", "abc", "should match pattern"),
        ("bytes", 0, "greater than 0"),
    ],
)
def test_wrong_entries_of_the_registry_are_named(
    root: Path, key: str, value: object, expected: str
) -> None:
    content = read_registry(root)["cadis_index"]
    assert content["repositories"] == {"cadis": NOWHERE, "easyfl": NOWHERE}
    content["partitions"]["mnist_mc"][key] = value
    with pytest.raises(ValidationError, match=expected):
        CadisIndex.model_validate(content)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"partitions": {}}, "at least 1 item"),
        ({"repositories": {"cadis": "https://example.org/x", "easyfl": NOWHERE}}, "match pattern"),
    ],
)
def test_a_registry_that_leads_nowhere_is_refused(
    root: Path, change: dict[str, object], expected: str
) -> None:
    with pytest.raises(ValidationError, match=expected):
        CadisIndex.model_validate(read_registry(root)["cadis_index"] | change)
