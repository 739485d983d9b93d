"""Packs: written, read, imported, and refused when anything about them is wrong."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import shutil
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tiny_data import FOLDERS, images, read_registry, tiny_root, write_official, write_registry

from fedrepro.base.errors import FedreproError
from fedrepro.fl import data
from fedrepro.fl.data import commands, packs, sources
from fedrepro.fl.data.dataset import ANY

PACK = Path("packed")


@pytest.fixture(scope="module")
def whole_pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a pack of the tiny official files."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as monkeypatch:
        tiny_root(folder, monkeypatch)
        for name in FOLDERS:
            write_official(name, Path("data/raw"))
        write_cadis()
        commands.pack(PACK)
    return folder / PACK


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole_pack: Path) -> Path:
    """Work in a folder that holds a copy of the pack and nothing else."""
    tiny_root(tmp_path, monkeypatch)
    shutil.copytree(whole_pack, PACK)
    return tmp_path


def write_cadis() -> None:
    """Write a tiny file of client partitions, three clients each, to the pack ``data/pack``."""
    arrays: dict[str, Any] = {}
    for name in read_registry(Path())["cadis_index"]["partitions"]:
        arrays[f"{name}_index"] = np.array([4, 0, 9, 1, 2], np.uint16)
        arrays[f"{name}_offsets"] = np.array([0, 2, 2, 5], np.int32)
    write_pack(Path("data/pack"), "cadis_index.npz", arrays)


def write_pack(folder: Path, file: str, arrays: dict[str, Any], pickled: bool = False) -> None:
    """Add a file with these arrays to a pack."""
    packs.publish(folder, {file: lambda path: np.savez(path, allow_pickle=pickled, **arrays)})


@pytest.mark.parametrize("name", FOLDERS)
def test_a_pack_gives_back_what_was_packed(name: str) -> None:
    found = data.load(name, PACK)
    (x, y), (xt, yt) = images(name, "train"), images(name, "test")
    np.testing.assert_array_equal(found.train_x, x)
    np.testing.assert_array_equal(found.train_y, y)
    np.testing.assert_array_equal(found.test_x, xt)
    np.testing.assert_array_equal(found.test_y, yt)
    assert found.source == "pack"
    assert "unknown origin" in found.note  # the tiny registry knows no hashes
    assert found.train_x.flags.c_contiguous
    train_y, test_y = data.labels(name, PACK)
    np.testing.assert_array_equal(train_y, y)
    np.testing.assert_array_equal(test_y, yt)


def test_the_note_says_whether_the_content_is_official(root: Path) -> None:
    sha256 = data.load("mnist", PACK).sha256
    registry = read_registry(root)
    for content, expected in (
        ({"official": sha256}, ""),
        ({"official": "0" * 64, "copies": [{"sha256": sha256, "note": "rounded"}]}, "rounded"),
        (
            {"official": "0" * 64},
            f"Other data than those that are meant: content hash {sha256[:12]}",
        ),
    ):
        registry["datasets"]["mnist"]["content"] = content
        write_registry(root, registry)
        sources._load.cache_clear()
        note = data.load("mnist", PACK, content=ANY).note
        assert expected in note if expected else note == ""


def test_packs_are_written_alike_and_checked_by_the_usual_tool() -> None:
    for name in FOLDERS:
        write_official(name, Path("data/raw"))
    commands.pack(Path("again"), ["mnist", "cifar10", "cifar100"])
    listed = packs.sums(PACK)
    assert {file: listed[file] for file in packs.sums(Path("again"))} == packs.sums(Path("again"))
    assert sorted(listed) == sorted(path.name for path in PACK.iterdir() if path.name != packs.SUMS)
    for line in (PACK / packs.SUMS).read_text().splitlines():
        sha256, file = line.split("  ")
        assert hashlib.sha256((PACK / file).read_bytes()).hexdigest() == sha256


def test_sheets_are_as_documented() -> None:
    with np.load(PACK / "cifar100_train_b.npz") as arrays:
        assert {"sheet000", "y", "step", "names", "coarse_names", "fine_to_coarse"} == set(arrays)
        assert arrays["sheet000"][:4].tobytes() == b"RIFF"
        assert arrays["step"] == 1
        coarse = arrays["coarse_names"][arrays["fine_to_coarse"]]
        pairs = dict(zip(arrays["names"].tolist(), coarse.tolist(), strict=True))
        assert pairs["beaver"] == "aquatic_mammals"
        assert pairs["tractor"] == "vehicles_2"
    with np.load(PACK / "cifar10_train_b.npz") as arrays:
        assert arrays["first"] == 10
        assert arrays["lossy_idx"].size == 0


def test_rounded_sheets_are_scaled_up() -> None:
    with np.load(PACK / "cifar10_test.npz") as arrays:
        changed = dict(arrays) | {"step": np.uint8(3)}
    write_pack(PACK, "cifar10_test.npz", changed)
    expected = images("cifar10", "test")[0] * np.uint8(3)
    np.testing.assert_array_equal(data.load("cifar10", PACK).test_x, expected)


def test_a_corrupt_file_is_named_with_both_hashes() -> None:
    path, expected = PACK / "mnist.npz", packs.sums(PACK)["mnist.npz"]
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    found = hashlib.sha256(content).hexdigest()
    for read in (data.load, data.labels):
        with pytest.raises(FedreproError) as caught:
            read("mnist", PACK)
        for part in (str(path), expected, found, "corrupt", "Copy the pack again"):
            assert part in str(caught.value)


def test_missing_and_unlisted_files_are_named() -> None:
    (PACK / "cifar10_train_b.npz").rename("hidden")
    with pytest.raises(FedreproError, match=r"cifar10_train_b\.npz is missing.*cifar10_train_a"):
        data.load("cifar10", PACK)
    Path("hidden").rename(PACK / "cifar10_train_b.npz")
    lines = (PACK / packs.SUMS).read_text().splitlines(keepends=True)
    (PACK / packs.SUMS).write_text("".join(line for line in lines if "mnist" not in line))
    with pytest.raises(FedreproError, match=r"mnist\.npz is not listed in packed/SHA256SUMS"):
        data.load("mnist", PACK)
    (PACK / packs.SUMS).unlink()
    with pytest.raises(FedreproError, match=r"is not listed in packed/SHA256SUMS"):
        data.load("cifar100", PACK)
    with pytest.raises(FedreproError, match="packed has no SHA256SUMS"):
        commands.import_pack(PACK)


@pytest.mark.parametrize("line", ["abc  mnist.npz", f"{'0' * 64}  ../mnist.npz", f"{'0' * 64} x y"])
def test_a_bad_line_of_checksums_is_named(line: str) -> None:
    (PACK / packs.SUMS).write_text(f"{line}\n")
    with pytest.raises(FedreproError, match="SHA256SUMS, line 1 is not"):
        data.load("mnist", PACK)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda a: a.pop("x_train"), "x_train"),
        (lambda a: a.update(y_train=np.array([None] * 20)), "(?i)pickle|object"),
        (lambda a: a.update(y_train=a["y_train"] / 2), "labels are float64"),
        (lambda a: a.update(x_train=a["x_train"][:-1]), r"training data.*\(19, 1, 28, 28\)"),
        (lambda a: a.update(x_train=a["x_train"].astype(np.int16)), "training data.*'int16'"),
        (lambda a: a.update(y_test=np.full(10, 10)), "test labels from 10 to 10.*0 to 9"),
    ],
)
def test_content_that_does_not_fit_is_refused(
    change: Callable[[dict[str, Any]], Any], expected: str
) -> None:
    with np.load(PACK / "mnist.npz") as arrays:
        changed = dict(arrays)
    change(changed)
    write_pack(PACK, "mnist.npz", changed, pickled=True)
    with pytest.raises(FedreproError, match=expected):
        data.load("mnist", PACK)


def test_short_memory_is_no_fault_of_the_pack(monkeypatch: pytest.MonkeyPatch) -> None:
    def short(*_: object) -> None:
        raise MemoryError("Unable to allocate 146. MiB")

    monkeypatch.setattr(packs, "_labels", short)
    for name in ("mnist", "cifar10"):
        with pytest.raises(MemoryError, match="146"):
            data.load(name, PACK)


@pytest.mark.parametrize("content", [b"", b"no zip file at all", b"PK\x03\x04 cut"])
def test_what_is_no_npz_file_is_refused(content: bytes) -> None:
    packs.publish(PACK, {"mnist.npz": lambda path: path.write_bytes(content) and None})
    with pytest.raises(FedreproError, match=r"mnist\.npz is not of the pack format"):
        data.load("mnist", PACK)


@pytest.mark.parametrize("change", [{"sheet000": np.zeros(50, np.uint8)}, {"y": np.uint8(3)}])
def test_sheets_are_images_and_labels_a_list(change: dict[str, Any]) -> None:
    with np.load(PACK / "cifar10_test.npz") as arrays:
        changed = dict(arrays) | change
    write_pack(PACK, "cifar10_test.npz", changed)
    with pytest.raises(FedreproError, match=r"cifar10_test\.npz is not of the pack format"):
        data.load("cifar10", PACK)


def webp(height: int, width: int = 32) -> Any:
    stream = io.BytesIO()
    Image.new("RGB", (width, height)).save(stream, "WEBP", lossless=True)
    return np.frombuffer(stream.getvalue(), np.uint8)


@pytest.mark.parametrize(
    ("sheets", "expected"),
    [
        ([webp(16_000), webp(16_000)], "more images than the data set"),
        ([webp(16_032)], "sheet000 is 32 x 16032 pixels large"),
        ([webp(32, 16_000)], "sheet000 is 16000 x 32 pixels large"),
        ([webp(32)] * 31, "31 sheets"),
    ],
)
def test_sheets_that_unpack_to_more_than_there_is_are_refused(
    sheets: list[Any], expected: str
) -> None:
    with np.load(PACK / "cifar10_test.npz") as arrays:
        rest = {name: array for name, array in arrays.items() if not name.startswith("sheet")}
    named = {f"sheet{number:03d}": sheet for number, sheet in enumerate(sheets)}
    write_pack(PACK, "cifar10_test.npz", rest | named)
    with pytest.raises(FedreproError, match=expected):
        data.load("cifar10", PACK)


def zip_bomb(path: Path) -> None:
    """Write an array of zeros that is a thousand times smaller on disk."""
    np.savez_compressed(path, x_train=np.zeros(50 << 20, np.uint8))


def claims(path: Path) -> None:
    """Write an array whose header says that it has 40 GB."""
    header = io.BytesIO()
    described = {"descr": "|u1", "fortran_order": False, "shape": (40 * 10**9,)}
    np.lib.format.write_array_header_1_0(header, described)
    with zipfile.ZipFile(path, "w") as parts:
        for name in ("x_train", "y_train", "x_test", "y_test"):
            parts.writestr(f"{name}.npy", header.getvalue())


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        (zip_bomb, "bytes when it is unpacked, and what it is to hold needs at most"),
        (claims, "not of the pack format"),
        (lambda path: path.write_bytes(bytes(3 << 20)), "3,145,728 bytes"),
    ],
)
def test_files_larger_than_their_data_set_are_not_read(
    write: Callable[[Path], Any], expected: str
) -> None:
    packs.publish(PACK, {"mnist.npz": write})
    for read in (
        lambda: data.load("mnist", PACK),
        lambda: data.labels("mnist", PACK),
        lambda: commands.import_pack(PACK),
    ):
        with pytest.raises(FedreproError, match=expected):
            read()
    assert not Path("data").exists()


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("{'descr': '|u1', 'fortran_order': False, 'shape': (10**12, 28, 28), }", ": "),
        (
            "{'descr': '|u1', 'fortran_order': False, 'shape': (1000000000000, 28, 28), }",
            "says uint8 \\(1000000000000, 28, 28\\), and 3 bytes follow it",
        ),
        ("{'descr': '|u1', 'fortran_order': False, 'shape': (-1, -3), }", "says uint8"),
        ("{'descr': '|u1', 'fortran_order': False, 'shape': (), }", "says uint8"),
        ("{'descr': '|u1'", ": "),
        ("((((((((", ": "),
    ],
)
def test_a_header_says_how_many_bytes_there_are(header: str, expected: str) -> None:
    """NumPy would make room for what it says."""
    text = header.encode() + b"\n"

    def write(path: Path) -> None:
        content = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + b"abc"
        with zipfile.ZipFile(path, "w") as parts:
            for name in ("x_train", "y_train", "x_test", "y_test"):
                parts.writestr(f"{name}.npy", content)

    packs.publish(PACK, {"mnist.npz": write})
    with pytest.raises(FedreproError, match=rf"mnist\.npz is not of the pack format.*{expected}"):
        data.load("mnist", PACK)


def test_an_array_without_axes_is_refused() -> None:
    write_pack(PACK, "mnist.npz", dict.fromkeys(("x_train", "y_train", "x_test", "y_test"), 1))
    with pytest.raises(FedreproError, match=r"mnist\.npz is not of the pack format.*indices"):
        data.load("mnist", PACK)


def test_checksums_that_are_too_large_are_not_read() -> None:
    with (PACK / packs.SUMS).open("ab") as stream:
        stream.truncate(1 << 30)
    with pytest.raises(FedreproError, match=r"no file of checksums, or too large.*Copy the pack"):
        data.load("mnist", PACK)


def test_checksums_that_are_no_file_are_not_waited_for() -> None:
    (PACK / packs.SUMS).unlink()
    os.mkfifo(PACK / packs.SUMS)
    with pytest.raises(FedreproError, match="no file of checksums"):
        data.load("mnist", PACK)


def test_who_adds_to_one_pack_at_once_does_so_in_turn() -> None:
    for number in range(20):
        both = threading.Barrier(2)

        def write(path: Path, both: threading.Barrier = both) -> None:
            path.write_bytes(b"x")
            both.wait(300)

        files = [f"{number}{side}.npz" for side in "ab"]
        added = [threading.Thread(target=packs.publish, args=(PACK, {f: write})) for f in files]
        for thread in added:
            thread.start()
        for thread in added:
            thread.join()
        assert {*files} <= {*packs.sums(PACK)}


def test_import_leaves_what_it_does_not_know() -> None:
    packs.publish(PACK, {"other.npz": lambda path: path.write_bytes(b"x") and None})
    assert commands.import_pack(PACK).endswith("; 1 unknown left")
    assert "other.npz" not in packs.sums(Path("data/pack"))
    with pytest.raises(FedreproError, match="holds no data set known here"):
        commands.import_pack(PACK / "other.npz")


def test_import_makes_later_loads_find_the_data() -> None:
    text = commands.import_pack(PACK)
    assert text.startswith("data/pack: imported cifar10, cifar100, mnist, cadis_index (8 files")
    assert data.load("mnist").source == "pack"
    assert packs.sums(Path("data/pack")) == packs.sums(PACK)
    commands.import_pack(PACK)  # again: nothing changes
    commands.import_pack(PACK / "mnist.npz", Path("other"))
    assert sorted(path.name for path in Path("other").iterdir()) == [packs.SUMS, "mnist.npz"]
    commands.import_pack(PACK, Path("other"))
    assert len(packs.sums(Path("other"))) == 8


def test_import_refuses_what_is_not_a_whole_pack() -> None:
    with pytest.raises(FedreproError, match="does not exist"):
        commands.import_pack(Path("nowhere"))
    with pytest.raises(FedreproError, match="one of 3 files of cifar10: import the folder packed"):
        commands.import_pack(PACK / "cifar10_test.npz")
    Path("loose").mkdir()
    shutil.copy(PACK / "mnist.npz", "loose")
    with pytest.raises(FedreproError, match=r"loose/mnist\.npz is not listed"):
        commands.import_pack(Path("loose/mnist.npz"))
    with pytest.raises(FedreproError, match="nothing to do"):
        commands.import_pack(PACK, PACK)
    Path("loop").symlink_to("loop")
    with pytest.raises(FedreproError, match="Cannot write the pack loop"):
        commands.import_pack(PACK, Path("loop"))
    with pytest.raises(FedreproError, match="Cannot write the pack loop"):
        commands.pack(Path("loop"), ["mnist"], PACK)
    (PACK / "cifar10_test.npz").unlink()
    with pytest.raises(FedreproError, match=r"cifar10_test\.npz is missing"):
        commands.import_pack(PACK)
    assert not Path("data").exists()


def test_import_refuses_wrong_content_and_leaves_nothing() -> None:
    with np.load(PACK / "mnist.npz") as arrays:
        changed = dict(arrays) | {"y_test": np.zeros(10, np.uint8)}
    write_pack(PACK, "mnist.npz", changed)
    with pytest.raises(FedreproError, match="test examples per class"):
        commands.import_pack(PACK)
    (PACK / "mnist.npz").write_bytes(b"half")
    with pytest.raises(FedreproError, match="corrupt"):
        commands.import_pack(PACK)
    assert not Path("data").exists()


def test_a_full_disk_while_importing_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    commands.import_pack(PACK / "mnist.npz")
    before = sorted(path.name for path in Path("data/pack").iterdir())
    copied: list[Path] = []

    def copy(source: Path, target: Path) -> None:
        copied.append(source)
        if len(copied) > 3:
            target.write_bytes(b"half")
            raise OSError(errno.ENOSPC, "No space left on device")
        target.write_bytes(source.read_bytes())

    monkeypatch.setattr(shutil, "copyfile", copy)
    with pytest.raises(FedreproError, match="Cannot write the pack data/pack: No space left"):
        commands.import_pack(PACK)
    assert sorted(path.name for path in Path("data/pack").iterdir()) == before
    copied.clear()
    with pytest.raises(FedreproError, match="No space left"):
        commands.import_pack(PACK, Path("fresh"))
    assert not Path("fresh").exists()


def test_a_bad_copy_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "copyfile", lambda _, target: target.write_bytes(b"other"))
    with pytest.raises(FedreproError, match=r"came out with sha256.*Nothing was changed"):
        commands.import_pack(PACK)
    assert not Path("data/pack").exists()


def test_a_kill_between_files_leaves_no_wrong_pack(monkeypatch: pytest.MonkeyPatch) -> None:
    commands.import_pack(PACK)
    with np.load(PACK / "mnist.npz") as arrays:
        changed = dict(arrays) | {"x_test": arrays["x_test"] ^ 1}
    write_pack(PACK, "mnist.npz", changed)
    whole = packs._write_sums
    calls: list[int] = []

    def killed(*arguments: Any) -> None:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        whole(*arguments)

    monkeypatch.setattr(packs, "_write_sums", killed)
    with pytest.raises(KeyboardInterrupt):
        commands.import_pack(PACK)
    with pytest.raises(FedreproError, match=r"mnist\.npz is not listed.*import it again"):
        data.load("mnist")
    assert data.load("cifar10").source == "pack"
    monkeypatch.setattr(packs, "_write_sums", whole)
    commands.import_pack(PACK)
    np.testing.assert_array_equal(data.load("mnist").test_x, images("mnist", "test")[0] ^ 1)


def test_a_pack_can_be_packed_again() -> None:
    text = commands.pack(Path("second"), data_root=PACK)
    assert text.startswith("second: packed cifar10, cifar100, mnist, cadis_index (8 files")
    assert packs.sums(Path("second")) == packs.sums(PACK)
    with pytest.raises(FedreproError, match="already in the pack packed"):
        commands.pack(PACK, ["mnist"], PACK)
    with pytest.raises(FedreproError, match="'mnist' is a data set: name the folder"):
        commands.pack(Path("mnist"), data_root=PACK)
    with pytest.raises(FedreproError, match="made on the spot"):
        commands.pack(Path("third"), ["synthetic"])
    with pytest.raises(FedreproError, match="no data set here to pack"):
        commands.pack(Path("third"))
    with pytest.raises(FedreproError, match="Could not download the CADIS client lists 'mnist_mc'"):
        commands.pack(Path("third"), ["cadis_index"])
    with pytest.raises(FedreproError, match=r"unknown data set 'minst' .did you mean 'mnist'"):
        commands.pack(Path("third"), ["minst"])
    assert not Path("third").exists()


def test_cadis_partitions() -> None:
    clients = data.cadis_partition("cifar10_mc", PACK)
    assert [client.tolist() for client in clients] == [[4, 0], [], [9, 1, 2]]
    assert all(client.dtype == np.int64 for client in clients)
    with pytest.raises(FedreproError, match=r"unknown CADIS partition 'cifar_mc' .did you mean"):
        data.cadis_partition("cifar_mc", PACK)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"mnist_mc_index": np.array([0, 1, 2, 3, 20])}, "training set of 20 examples"),
        ({"mnist_mc_offsets": np.array([0, 2, 5])}, "does not cut"),
        ({"mnist_mc_offsets": np.array([0, 3, 2, 5])}, "does not cut"),
        ({"mnist_mc_offsets": np.array([0, 2, 2, 4])}, "does not cut"),
        ({"mnist_mc_index": np.zeros(5)}, "not integer"),
        (
            {"mnist_mc_index": np.array([0, 4, 9, 1, 2])},
            "published lists of mnist_mc.*another pack",
        ),
    ],
)
def test_wrong_cadis_partitions_are_refused(change: dict[str, Any], expected: str) -> None:
    with np.load(PACK / "cadis_index.npz") as arrays:
        changed = dict(arrays) | change
    write_pack(PACK, "cadis_index.npz", changed)
    with pytest.raises(FedreproError, match=expected):
        data.cadis_partition("mnist_mc", PACK)
    with pytest.raises(FedreproError, match=expected):
        commands.verify(["cadis_index"], PACK)


def test_keyword_clips_with_equal_features_stay_together() -> None:
    dup_of = np.array([0, 1, 0, 3, 1, 5, *range(6, 2000)])
    test = packs.keyword_test_mask(dup_of)
    assert test[0] == test[2]
    assert test[1] == test[4]
    assert 0.17 < test.mean() < 0.23
    np.testing.assert_array_equal(test[:6], packs.keyword_test_mask(dup_of[:6]))
    pairs = packs.keyword_test_mask(np.arange(400) // 2 * 2)
    np.testing.assert_array_equal(pairs[::2], pairs[1::2])


def test_keyword_features_are_split_and_scaled() -> None:
    info = data.describe("kws_mfcc20")
    assert info.pack is not None
    dup_of = np.arange(60, dtype=np.int32)
    x = np.arange(60 * 20 * 11).reshape(60, 20, 11).astype(np.int16)
    y = (dup_of % 10).astype(np.uint8)
    arrays = {"x": x, "y": y, "dup_of": dup_of, "scale": np.float32(4)}
    write_pack(PACK, info.pack.train[0], arrays)
    found, test = packs.read(info, PACK), packs.keyword_test_mask(dup_of)
    assert 0 < test.sum() < 30
    np.testing.assert_array_equal(found.train_x[:, 0], x[~test] / 4)
    np.testing.assert_array_equal(found.test_x[:, 0], x[test] / 4)
    for train_y, test_y in ((found.train_y, found.test_y), packs.read_labels(info, PACK)):
        np.testing.assert_array_equal(train_y, y[~test])
        np.testing.assert_array_equal(test_y, y[test])


def test_list_says_where_data_would_come_from() -> None:
    text = commands.list_datasets(PACK)
    for line, parts in zip(
        text.splitlines()[2:],
        [
            ("cifar10", "pack packed"),
            ("cifar100", "pack packed"),
            ("kws_mfcc", "1 x 50 x 10", "download to data/raw", "2428.9", "CC BY 4.0"),
            ("kws_mfcc20", "not here: import a pack"),
            ("mnist", "20 + 10", "1 x 28 x 28", "pack packed", "CC BY-SA"),
            ("pill", "not here: private"),
            ("synthetic", "made on the spot"),
            ("synthetic_pills", "6,393 + 690"),
            ("synthetic_rgb", "3 x 32 x 32"),
            ("cadis_index", "12 partitions", "pack packed"),
        ],
        strict=True,
    ):
        assert all(part in line for part in parts)
    (PACK / "cifar10_test.npz").unlink()
    assert "problem: packed/cifar10_test.npz is missing" in commands.list_datasets(PACK)
    assert "download to data/raw" in commands.list_datasets()


def test_a_description_that_is_wrong_is_a_problem_in_the_list(root: Path) -> None:
    found = read_registry(root)
    found["datasets"]["mnist"]["licencee"] = "x"
    write_registry(root, found)
    (root / "config/datasets/gone.yaml").symlink_to("nowhere")
    lines = {line.split()[0]: line for line in commands.list_datasets(PACK).splitlines()}
    assert "problem: " in lines["gone"]
    assert "mnist.yaml: licencee: unknown key; did you mean 'licence'?" in lines["mnist"]
    assert "pack packed" in lines["cifar10"]


def test_verify_names_every_problem() -> None:
    text = commands.verify(data_root=PACK)
    assert text.count("OK") == 7
    assert "kws_mfcc20      not here   not here: import a pack" in text
    (PACK / "cifar100_test.npz").write_bytes(b"x")
    with pytest.raises(FedreproError) as caught:
        commands.verify(["mnist", "cifar100"], PACK)
    assert "mnist           OK" in str(caught.value)
    assert "cifar100        PROBLEM  packed/cifar100_test.npz is corrupt" in str(caught.value)
    assert str(caught.value).endswith("1 of 2 have a problem.")
    with pytest.raises(FedreproError, match="did you mean 'cifar10'"):
        commands.verify(["cifar"])


def test_a_file_that_may_not_be_read_is_one_problem_of_several(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = Path.open

    def guarded(path: Path, *arguments: Any, **named: Any) -> Any:
        if path.name == "mnist.npz":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return whole(path, *arguments, **named)

    packs._file_sha256.cache_clear()
    monkeypatch.setattr(Path, "open", guarded)
    with pytest.raises(FedreproError, match=r"mnist\.npz cannot be read: Permission denied. Copy"):
        data.load("mnist", PACK)
    with pytest.raises(FedreproError) as caught:
        commands.verify(["cifar10", "mnist"], PACK)
    assert "cifar10         OK" in str(caught.value)
    assert "mnist           PROBLEM  " in str(caught.value)


def test_a_folder_that_may_not_be_looked_into_is_a_problem_in_the_list(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = Path.is_file

    def guarded(path: Path) -> bool:
        if "pill" in path.parts:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return whole(path)

    monkeypatch.setattr(Path, "is_file", guarded)
    text = commands.list_datasets(PACK)
    assert "problem: [Errno 13] Permission denied: 'packed/raw/pill" in text
    assert "pack packed" in text


def test_prepare_writes_a_manifest() -> None:
    out = Path("deep/er/mnist.json")
    commands.prepare("mnist", out, PACK)
    first = out.read_text()
    assert json.loads(first) == {
        "name": "mnist",
        "source": "pack",
        "sha256": data.load("mnist", PACK).sha256,
        "train": 20,
        "test": 10,
        "note": data.load("mnist", PACK).note,
    }
    commands.prepare("mnist", out, PACK)
    assert out.read_text() == first
