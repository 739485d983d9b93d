"""Downloads from a server that does what it should not."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml
from servers import listening

from fedrepro.fl.data import fetch, registry

CONTENT = bytes(range(256)) * 4000
SHA256 = hashlib.sha256(CONTENT).hexdigest()
TARGET = Path("folder/archive.bin")
LEFT = Path("folder/.partial-archive.bin")


class Server(http.server.ThreadingHTTPServer):
    """Answers every request as ``behave`` says."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[str] = []
        self.behave: Callable[[Handler], None] = whole
        self.url = f"http://127.0.0.1:{self.server_port}/archive.bin"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append(self.headers.get("Range", ""))
        try:
            self.server.behave(self)
        except OSError:
            self.close_connection = True  # the client has gone

    def answer(self, status: int, **headers: str | int) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def whole(handler: Handler) -> None:
    """Send the file, from where it is asked for."""
    begun = int(handler.headers.get("Range", "bytes=0-")[6:-1])
    rest = CONTENT[begun:]
    if not rest:
        handler.answer(416)
    else:
        handler.answer(206 if begun else 200, Content_Length=len(rest))
        handler.wfile.write(rest)


def without_ranges(handler: Handler) -> None:
    handler.answer(200, Content_Length=len(CONTENT))
    handler.wfile.write(CONTENT)


def cut(handler: Handler) -> None:
    """Announce all and send a part."""
    handler.answer(200, Content_Length=len(CONTENT))
    handler.wfile.write(CONTENT[:300_000])


def cut_unannounced(handler: Handler) -> None:
    handler.answer(200)
    handler.wfile.write(CONTENT[:300_000])


def wrong(handler: Handler) -> None:
    handler.answer(200, Content_Length=len(CONTENT))
    handler.wfile.write(CONTENT[::-1])


def endless(handler: Handler) -> None:
    handler.answer(200)
    while True:
        handler.wfile.write(CONTENT)


def announced_too_long(handler: Handler) -> None:
    handler.answer(200, Content_Length=10**12)
    handler.wfile.write(CONTENT)


def shorter(handler: Handler) -> None:
    handler.answer(200, Content_Length=1000)
    handler.wfile.write(CONTENT[:1000])


def drip(handler: Handler) -> None:
    handler.answer(200, Content_Length=len(CONTENT))
    for i in range(len(CONTENT)):
        handler.wfile.write(CONTENT[i : i + 1])
        time.sleep(0.02)


def drip_of_headers(handler: Handler) -> None:
    handler.wfile.write(b"HTTP/1.0 200 OK\r\nX-Endless: ")
    while True:
        handler.wfile.write(b"x")
        time.sleep(0.02)


def silence(handler: Handler) -> None:
    handler.rfile.read(1)  # nothing comes until the client has gone


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.chdir(tmp_path)
    with listening(Server()) as started:
        yield started


def get(server: Server, *, sha256: str = SHA256, seconds: float = 300.0) -> None:
    fetch.fetch(
        [server.url],
        TARGET,
        size=len(CONTENT),
        sha256=sha256,
        seconds=seconds,
        plain_hosts=["127.0.0.1"],
    )


def test_a_file_arrives_whole(server: Server) -> None:
    get(server)
    assert TARGET.read_bytes() == CONTENT
    assert list(TARGET.parent.iterdir()) == [TARGET]


@pytest.mark.parametrize(
    ("behave", "text", "left"),
    [
        (wrong, "its sha256 is .*, expected", 0),
        (cut, "cut off after 300,000 of 1,024,000 bytes; run again to go on", 300_000),
        (cut_unannounced, "cut off after 300,000 of 1,024,000 bytes", 300_000),
        (endless, "more than the 1,024,000 bytes that are published", 0),
        (announced_too_long, "it has 1,000,000,000,000 bytes, and 1,024,000 are published", 0),
        (shorter, "it has 1,000 bytes, and 1,024,000 are published", 0),
        (lambda handler: handler.answer(404), "404", 0),
        (lambda handler: handler.answer(302, Location="ftp://127.0.0.1/x"), "is not https", 0),
        (lambda handler: handler.answer(302, Location="http://example.org/x"), "is not https", 0),
        (lambda handler: handler.answer(302, Location="file:///etc/passwd"), "not allowed", 0),
    ],
)
def test_what_a_server_does_wrong_is_told_and_not_kept(
    server: Server, behave: Callable[[Handler], None], text: str, left: int
) -> None:
    server.behave = behave
    with pytest.raises(fetch.DownloadError, match=f"{server.url}: .*{text}"):
        get(server)
    assert not TARGET.exists()
    there = {path: path.stat().st_size for path in TARGET.parent.iterdir()}
    assert there == ({LEFT: left} if left else {})


@pytest.mark.parametrize("behave", [drip, drip_of_headers, silence])
def test_a_slow_drip_ends(server: Server, behave: Callable[[Handler], None]) -> None:
    server.behave = behave
    begun = time.monotonic()
    with pytest.raises(fetch.DownloadError, match=r"not done after 1 s"):
        get(server, seconds=0.6)
    assert time.monotonic() - begun < 60
    assert not TARGET.exists()


def test_time_that_is_up_before_the_connection_is_there_counts(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect, over = http.client.HTTPConnection.connect, threading.Event()
    cut = fetch._Line._cut

    def late(connection: http.client.HTTPConnection) -> None:
        connect(connection)
        assert over.wait(300)

    def noted(line: fetch._Line) -> None:
        cut(line)
        over.set()

    monkeypatch.setattr(http.client.HTTPConnection, "connect", late)
    monkeypatch.setattr(fetch._Line, "_cut", noted)
    server.behave = drip_of_headers
    begun = time.monotonic()
    with pytest.raises(fetch.DownloadError, match=r"not done after 0 s"):
        get(server, seconds=0.0)
    assert time.monotonic() - begun < 60


def test_a_handshake_that_does_not_end_is_cut(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url, begun = f"https://127.0.0.1:{silent.getsockname()[1]}/x", time.monotonic()
        with pytest.raises(fetch.DownloadError, match=r"not done after 0 s"):
            fetch.fetch([url], tmp_path / "x", size=9, seconds=0.2)
    assert time.monotonic() - begun < fetch.SILENCE_SECONDS


def test_the_time_there_is_grows_with_the_size(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "LEAST_SECONDS", 0.2)
    monkeypatch.setattr(fetch, "LEAST_RATE", 10 * len(CONTENT))
    server.behave = drip
    begun = time.monotonic()
    with pytest.raises(fetch.DownloadError, match="not done"):
        fetch.fetch([server.url], TARGET, size=len(CONTENT), plain_hosts=["127.0.0.1"])
    assert 0.3 <= time.monotonic() - begun < 60


def test_the_next_attempt_goes_on_where_the_last_one_ended(server: Server) -> None:
    server.behave = cut
    with pytest.raises(fetch.DownloadError):
        get(server)
    server.behave = whole
    get(server)
    assert server.asked == ["", "bytes=300000-"]
    assert TARGET.read_bytes() == CONTENT
    assert list(TARGET.parent.iterdir()) == [TARGET]


@pytest.mark.parametrize("behave", [whole, without_ranges])
@pytest.mark.parametrize("left", [CONTENT[:10], CONTENT + b"x", CONTENT[:-1]])
def test_what_is_left_is_used_if_it_fits(
    server: Server, behave: Callable[[Handler], None], left: bytes
) -> None:
    LEFT.parent.mkdir()
    LEFT.write_bytes(left)
    server.behave = behave
    get(server)
    assert server.asked == [f"bytes={len(left)}-" if len(left) < len(CONTENT) else ""]
    assert TARGET.read_bytes() == CONTENT


def page(handler: Handler) -> None:
    """Send what a hotel's network sends in place of everything."""
    handler.answer(200, Content_Length=1000)
    handler.wfile.write(b"<html>".ljust(1000))


@pytest.mark.parametrize("behave", [page, announced_too_long, lambda handler: handler.answer(503)])
def test_what_has_arrived_outlives_an_address_that_has_another_file(
    server: Server, behave: Callable[[Handler], None]
) -> None:
    for each, expected in ((cut, 300_000), (behave, 300_000), (whole, 0)):
        server.behave = each
        with contextlib.suppress(fetch.DownloadError):
            get(server)
        assert (LEFT.stat().st_size if LEFT.exists() else 0) == expected
    assert server.asked == ["", "bytes=300000-", "bytes=300000-"]
    assert TARGET.read_bytes() == CONTENT


def test_an_address_that_is_none_is_told_and_the_next_one_asked(server: Server) -> None:
    urls, size = ["https://[bad/archive.bin", "no address", server.url], len(CONTENT)
    fetch.fetch(urls, TARGET, size=size, sha256=SHA256, plain_hosts=["127.0.0.1"])
    with pytest.raises(fetch.DownloadError, match=r"(?s)Invalid IPv6.*no address is not https"):
        fetch.fetch(urls[:2], TARGET, size=size)


def test_what_is_left_of_another_file_is_dropped(server: Server) -> None:
    LEFT.parent.mkdir()
    LEFT.write_bytes(b"other")
    with pytest.raises(fetch.DownloadError, match="sha256"):
        get(server)
    get(server)
    assert TARGET.read_bytes() == CONTENT


def test_a_server_whose_file_is_shorter_than_what_is_left_is_asked_for_all(server: Server) -> None:
    LEFT.parent.mkdir()
    LEFT.write_bytes(b"x" * 1000)

    def behave(handler: Handler) -> None:
        handler.answer(416) if "Range" in handler.headers else without_ranges(handler)

    server.behave = behave
    get(server)
    assert TARGET.read_bytes() == CONTENT


def test_a_part_of_a_killed_process_is_taken_over_and_that_of_a_living_one_is_not(
    server: Server,
) -> None:
    LEFT.parent.mkdir()
    dead, living = LEFT.with_name(f"{LEFT.name}.1"), LEFT.with_name(f"{LEFT.name}.2")
    dead.write_bytes(CONTENT[:500])
    living.write_bytes(CONTENT[:700])
    os.utime(dead, (0, time.time() - 100))
    get(server)
    assert server.asked == ["bytes=500-"]
    assert sorted(TARGET.parent.iterdir()) == [living, TARGET]


def test_two_downloads_at_once_do_not_disturb_each_other(server: Server) -> None:
    """Of one process, or of two containers whose processes have one number."""
    both = threading.Barrier(2)

    def halves(handler: Handler) -> None:
        handler.answer(200, Content_Length=len(CONTENT))
        for half in (CONTENT[:500_000], CONTENT[500_000:]):
            both.wait(300)
            handler.wfile.write(half)

    server.behave = halves
    with ThreadPoolExecutor(2) as threads:
        for done in [threads.submit(get, server) for _ in range(2)]:
            done.result()
    assert TARGET.read_bytes() == CONTENT
    assert list(TARGET.parent.iterdir()) == [TARGET]


def test_what_was_left_long_ago_is_swept(server: Server) -> None:
    folder = TARGET.parent / ".partial-abcdef"
    folder.mkdir(parents=True)
    (folder / "half").write_text("x")
    fresh = TARGET.parent / ".partial-fresh"
    fresh.mkdir()
    os.utime(folder, (0, time.time() - 2 * fetch.LEFT_SECONDS))
    get(server)
    assert sorted(TARGET.parent.iterdir()) == [fresh, TARGET]


def test_a_mirror_goes_on_where_the_first_address_ended(server: Server) -> None:
    def behave(handler: Handler) -> None:
        cut(handler) if len(server.asked) == 1 else whole(handler)

    server.behave = behave
    urls = [server.url, server.url.replace("archive", "mirror")]
    size = len(CONTENT)
    fetch.fetch(urls, TARGET, size=size, sha256=SHA256, plain_hosts=["127.0.0.1"])
    assert server.asked == ["", "bytes=300000-"]


def test_parts_may_wait_elsewhere(server: Server) -> None:
    parts = Path("parts")
    parts.mkdir()
    target, size = Path("temporary") / TARGET.name, len(CONTENT)
    for behave in (cut, whole):
        server.behave = behave
        with contextlib.suppress(fetch.DownloadError):
            fetch.fetch(
                [server.url],
                target,
                size=size,
                sha256=SHA256,
                parts=parts,
                plain_hosts=["127.0.0.1"],
            )
        assert [path.name for path in parts.iterdir()] == ([LEFT.name] if behave == cut else [])
    assert server.asked == ["", "bytes=300000-"]
    assert target.read_bytes() == CONTENT


def test_a_file_without_a_known_hash_is_never_pieced_together(server: Server) -> None:
    server.behave = cut
    with pytest.raises(fetch.DownloadError, match="cut off"):
        get(server, sha256="")
    assert list(TARGET.parent.iterdir()) == []
    server.behave = whole
    get(server, sha256="")
    assert server.asked == ["", ""]


def test_plain_http_is_refused_unless_a_host_is_allowed(server: Server) -> None:
    for allowed in ([], ["localhost"]):
        with pytest.raises(fetch.DownloadError, match="is not https"):
            fetch.fetch([server.url], TARGET, size=9, plain_hosts=allowed)
    assert server.asked == []


def test_every_address_of_ours_is_https() -> None:
    described = [yaml.safe_load(file.read_text()) for file in registry.FOLDER.glob("*.yaml")]
    urls = [url for entry in described for url in entry.get("official", {}).get("urls", ())]
    index = yaml.safe_load((registry.FOLDER.parent / "cadis_index.yaml").read_text())
    urls += index["repositories"].values()
    assert len(urls) >= 5
    assert all(url.startswith("https://") for url in urls)
