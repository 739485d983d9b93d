"""Official files: small ones in the official layouts, and downloads that work or fail."""

from __future__ import annotations

import errno
import gzip
import io
import os
import pickle
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError

import numpy as np
import pytest
from servers import serving
from tiny_data import (
    FOLDERS,
    allow_plain,
    cifar_batch,
    described,
    idx,
    images,
    md5,
    official_files,
    read_registry,
    tiny_root,
    write_official,
    write_registry,
)

from fedrepro.base.errors import FedreproError
from fedrepro.fl import data
from fedrepro.fl.data import official

RAW = Path("data/raw")


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return tiny_root(tmp_path, monkeypatch)


@pytest.mark.parametrize("name", FOLDERS)
def test_official_layouts_are_read(name: str) -> None:
    write_official(name, RAW)
    found = data.load(name)
    (x, y), (xt, yt) = images(name, "train"), images(name, "test")
    np.testing.assert_array_equal(found.train_x, x)
    np.testing.assert_array_equal(found.train_y, y)
    np.testing.assert_array_equal(found.test_x, xt)
    np.testing.assert_array_equal(found.test_y, yt)
    assert (found.source, found.note) == ("raw", "")
    assert found.train_x.flags.writeable
    train_y, test_y = data.labels(name)
    np.testing.assert_array_equal(train_y, y)
    np.testing.assert_array_equal(test_y, yt)


def test_gzipped_mnist_files_are_read_as_they_are() -> None:
    write_official("mnist", RAW, zipped=True)
    np.testing.assert_array_equal(data.load("mnist").train_x, images("mnist", "train")[0])


def test_torchvision_reads_the_same_from_our_small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("torchvision.datasets")
    for name, loader in (("mnist", datasets.MNIST), ("cifar10", _tiny_cifar10(datasets))):
        write_official(name, RAW)
        theirs = loader(RAW, train=True, download=False)
        ours = data.load(name)
        pixels = np.asarray(theirs.data)
        expected = pixels[:, None] if name == "mnist" else pixels.transpose(0, 3, 1, 2)
        np.testing.assert_array_equal(ours.train_x, expected)
        np.testing.assert_array_equal(ours.train_y, np.asarray(theirs.targets))


@pytest.mark.parametrize(
    ("name", "file"), [("mnist", "train-images-idx3-ubyte"), ("cifar10", "data_batch_3")]
)
def test_a_wrong_checksum_is_refused_before_reading(name: str, file: str) -> None:
    path = write_official(name, RAW) / file
    expected = md5(path.read_bytes())
    damaged = bytearray(path.read_bytes())
    damaged[-1] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(FedreproError) as caught:
        data.load(name)
    for part in (str(path), expected, md5(bytes(damaged)), "Delete it and run again"):
        assert part in str(caught.value)


def test_a_file_that_may_not_be_read_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    write_official("mnist", RAW)

    def refuse(*_: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("hashlib.file_digest", refuse)
    with pytest.raises(FedreproError, match="images-idx3-ubyte cannot be read: Permission denied"):
        data.load("mnist")


def test_wrong_counts_are_refused(root: Path) -> None:
    write_official("mnist", RAW)
    registry = read_registry(root)
    entry = registry["datasets"]["mnist"]
    entry["train"], entry["per_class"]["train"] = 30, 3
    write_registry(root, registry)
    with pytest.raises(FedreproError, match=r"training labels.*\(20,\).*expected.*\(30,\)"):
        data.load("mnist")
    with pytest.raises(FedreproError, match=r"'mnist' from data/raw.*\(20,\)"):
        data.labels("mnist")


def test_a_whole_file_of_another_format_is_not_to_be_deleted(root: Path) -> None:
    """Its checksum is right: a download would bring the same file."""
    write_official("mnist", RAW)
    registry = read_registry(root)
    registry["datasets"]["mnist"]["format"] = "cifar"
    write_registry(root, registry)
    with pytest.raises(FedreproError, match=r"not a CIFAR batch.*names another format") as caught:
        data.load("mnist")
    assert "Delete" not in str(caught.value)


def test_labels_out_of_range_and_uneven_classes_are_refused(root: Path) -> None:
    folder = write_official("mnist", RAW)
    for labels, expected in (([11] * 20, "0 to 9"), ([0] * 20, "per class")):
        content = idx(np.array(labels, np.uint8))
        (folder / "train-labels-idx1-ubyte").write_bytes(content)
        registry = read_registry(root)
        registry["datasets"]["mnist"]["official"]["train"][1]["md5"] = md5(content)
        write_registry(root, registry)
        with pytest.raises(FedreproError, match=expected):
            data.load("mnist")


@pytest.mark.parametrize(
    "content",
    [b"", b"\x00\x00", b"PK\x03\x04....", b"\x00\x00\x0d\x01\x00\x00\x00\x01\x00\x00\x00\x00"],
)
def test_what_is_not_an_idx_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(FedreproError, match="not an idx file"):
        official.read_idx(path)


def test_idx_files_of_wrong_length_are_refused(tmp_path: Path) -> None:
    whole = idx(np.zeros((3, 4), np.uint8))
    for name, content, expected in (
        ("short", whole[:-1], "23 bytes.*needs 24"),
        ("long", whole + b"x", "25 bytes.*needs 24"),
        ("header", whole[:7], "7 bytes"),
        ("cut.gz", gzip.compress(whole)[:-4], "cannot be read"),
        ("not.gz", whole, "cannot be read"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(FedreproError, match=expected):
            official.read_idx(tmp_path / name)
    (tmp_path / "good.gz").write_bytes(gzip.compress(whole))
    assert official.read_idx(tmp_path / "good.gz").shape == (3, 4)


class _Evil:
    def __reduce__(self) -> Any:
        return os.system, ("touch harmed",)


def test_a_pickle_that_asks_for_code_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "data_batch_1"
    path.write_bytes(pickle.dumps({"data": _Evil(), "labels": [0]}))
    with pytest.raises(FedreproError, match=r"not a CIFAR batch.*system"):
        official.read_cifar_batch(path)
    assert not Path("harmed").exists()


def test_what_is_not_a_cifar_batch_is_refused(tmp_path: Path) -> None:
    x, y = images("cifar10", "test")
    path = tmp_path / "batch"
    for content in (
        b"",
        b"no pickle",
        pickle.dumps([1, 2]),
        pickle.dumps({"data": [[1]], "labels": [0]}),
        cifar_batch(x, y)[:-100],
        cifar_batch(x, y[:-1]),
    ):
        path.write_bytes(content)
        with pytest.raises(FedreproError, match="batch is not a CIFAR batch"):
            official.read_cifar_batch(path)


def test_arrays_pickled_by_a_new_numpy_are_read_too(tmp_path: Path) -> None:
    x, y = images("cifar10", "test")
    path = tmp_path / "batch"
    batch = {"data": x.reshape(len(x), -1), "labels": y.tolist()}
    path.write_bytes(pickle.dumps(batch, protocol=4))
    found, labels = official.read_cifar_batch(path)
    np.testing.assert_array_equal(found, x)
    np.testing.assert_array_equal(labels, y)


@pytest.mark.parametrize(
    ("name", "by_hand"),
    [
        ("mnist", "train-images-idx3-ubyte.gz.* into data/raw/MNIST/raw;"),
        ("cifar10", "cifar-10-python.tar.gz .* into data/raw;"),
    ],
)
def test_without_internet_the_error_says_what_to_put_where(
    monkeypatch: pytest.MonkeyPatch, name: str, by_hand: str
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise URLError("no route to host")

    monkeypatch.setattr("urllib.request.OpenerDirector.open", refuse)
    with pytest.raises(FedreproError) as caught:
        data.load(name)
    text = str(caught.value)
    assert f"Could not download data set '{name}'" in text
    official = data.describe(name).official
    assert official is None or official.urls[0] in text
    assert text.count("no route to host") >= 2  # primary and mirror
    for part in ("FEDREPRO_DATA", "fedrepro data import", "data/pack"):
        assert part in text
    with pytest.raises(FedreproError, match=by_hand):
        data.load(name)
    assert list(RAW.iterdir()) == []


@pytest.fixture
def server(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Serve the folder ``served``; return its address."""
    allow_plain(monkeypatch)
    Path("served").mkdir()
    with serving(root / "served") as address:
        yield address


def expect(root: Path, name: str, urls: list[str], archive: bytes | None = None) -> None:
    """Make the registry name these addresses and, of a data set with one archive, this archive."""
    registry = read_registry(root)
    entry = registry["datasets"][name]["official"]
    entry["urls"] = urls
    if archive is not None:
        entry["archives"][0] |= described(archive)
    write_registry(root, registry)


def cifar_archive() -> bytes:
    """Return the archive of the tiny CIFAR-10."""
    folder = write_official("cifar10", Path("elsewhere"))
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        tar.add(folder, FOLDERS["cifar10"])
    return stream.getvalue()


def test_a_download_falls_back_to_the_mirror(root: Path, server: str) -> None:
    for file, content in official_files("mnist").items():
        Path("served", f"{file}.gz").write_bytes(gzip.compress(content, mtime=0))
    expect(root, "mnist", [f"{server}nowhere/", server])
    first = data.load("mnist")
    assert first.source == "download"
    second = data.load("mnist")
    assert second.source == "raw"
    assert second.sha256 == first.sha256
    assert sorted(path.name for path in RAW.iterdir()) == ["MNIST"]
    assert sorted(path.name for path in Path(RAW, FOLDERS["mnist"]).iterdir()) == sorted(
        official_files("mnist")
    )


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_archive_is_downloaded_and_unpacked(root: Path, server: str) -> None:
    archive = cifar_archive()
    expect(root, "cifar10", [server], archive)
    Path("served/cifar-10-python.tar.gz").write_bytes(archive)
    assert data.load("cifar10").source == "download"
    assert [path.name for path in RAW.iterdir()] == [FOLDERS["cifar10"]]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_another_archive_is_not_unpacked(root: Path, server: str) -> None:
    archive = cifar_archive()
    expect(root, "cifar10", [server], archive)
    other = archive[:-1] + bytes([archive[-1] ^ 1])
    Path("served/cifar-10-python.tar.gz").write_bytes(other)
    with pytest.raises(FedreproError, match=r"(?s)Could not download.*its sha256 is .*, expected"):
        data.load("cifar10")
    assert list(RAW.iterdir()) == []


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_archive_put_there_by_hand_is_used(root: Path) -> None:
    RAW.mkdir(parents=True)
    archive = RAW / "cifar-10-python.tar.gz"
    archive.write_bytes(cifar_archive())
    expect(root, "cifar10", ["https://127.0.0.1:9/"], archive.read_bytes())
    assert data.load("cifar10").source == "download"
    assert (RAW / "cifar-10-batches-py/test_batch").is_file()
    assert archive.is_file()


def test_a_data_set_without_official_files_says_how_to_get_it() -> None:
    with pytest.raises(
        FedreproError, match=r"(?s)kws_mfcc20.*only in a pack.*FEDREPRO_DATA.*speech"
    ):
        data.load("kws_mfcc20")


def _tiny_cifar10(datasets: Any) -> Any:
    """Return torchvision's class, expecting our small files instead of the official ones."""
    sums = {file: md5(content) for file, content in official_files("cifar10").items()}
    attributes = {
        "train_list": [[file, sums[file]] for file in sorted(sums) if "data_batch" in file],
        "test_list": [["test_batch", sums["test_batch"]]],
        "meta": {**datasets.CIFAR10.meta, "md5": sums["batches.meta"]},
    }
    return type("CIFAR10", (datasets.CIFAR10,), attributes)
