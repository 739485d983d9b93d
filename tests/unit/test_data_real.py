"""Every loader on the real data, where FEDREPRO_DATA names a pack that holds them.

The expected numbers are those the pack's own documentation states.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tiny_data import FOLDERS, idx

from fedrepro.fl import data
from fedrepro.fl.data import cadis, commands, packs, sources
from fedrepro.fl.data.registry import cadis_index

PACK = os.environ.get("FEDREPRO_DATA")

pytestmark = pytest.mark.skipif(
    not PACK, reason="no real data: set FEDREPRO_DATA to a folder written by `fedrepro data pack`"
)


CADIS_EXAMPLES = {
    **{"mnist_mc": 29_002, "mnist_bc": 29_000, "mnist_uc": 28_904, "mnist_pa": 42_876},
    **{"cifar10_mc": 30_200, "cifar10_bc": 10_400, "cifar10_uc": 27_038, "cifar10_pa": 16_932},
    **{"cifar100_mc": 23_660, "cifar100_bc": 24_000, "cifar100_uc": 23_320, "cifar100_pa": 13_910},
}
"""Examples of all clients together."""


def load(name: str) -> data.Dataset:
    if sources.locate(name).kind != "pack":
        pytest.skip(f"{PACK} holds no {name}")
    return data.load(name)


def pixels_sha256(x: NDArray[np.generic]) -> str:
    """Hash images as they are commonly stored: [n, height, width, channels]."""
    return hashlib.sha256(np.ascontiguousarray(np.moveaxis(x, 1, -1))).hexdigest()


@pytest.mark.parametrize(
    ("name", "train", "test", "shape", "classes"),
    [
        ("mnist", 60_000, 10_000, (1, 28, 28), 10),
        ("cifar10", 50_000, 10_000, (3, 32, 32), 10),
        ("cifar100", 50_000, 10_000, (3, 32, 32), 100),
        ("kws_mfcc20", 18_901, 4_781, (1, 20, 11), 10),
    ],
)
def test_counts_and_shapes(
    name: str, train: int, test: int, shape: tuple[int, ...], classes: int
) -> None:
    found = load(name)
    assert found.train_x.shape == (train, *shape)
    assert found.test_x.shape == (test, *shape)
    assert found.train_x.dtype == (np.float32 if name == "kws_mfcc20" else np.uint8)
    assert found.train_y.shape == (train,)
    assert found.test_y.shape == (test,)
    assert found.train_y.dtype == found.test_y.dtype == np.int64
    assert found.classes == classes == len(np.unique(found.train_y))
    assert found.source == "pack"
    train_y, test_y = data.labels(name)
    np.testing.assert_array_equal(train_y, found.train_y)
    np.testing.assert_array_equal(test_y, found.test_y)


def test_mnist_is_the_official_data() -> None:
    found = load("mnist")
    assert found.note == ""
    assert found.sha256 == data.describe("mnist").content.official
    assert np.bincount(found.train_y).tolist() == [
        *(5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949)
    ]
    assert np.bincount(found.test_y).tolist() == [
        *(980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009)
    ]


def test_cifar10() -> None:
    found = load("cifar10")
    assert np.bincount(found.train_y).tolist() == [5000] * 10
    assert np.bincount(found.test_y).tolist() == [1000] * 10
    assert np.bincount(found.train_y[:25_000]).tolist() == [
        *(2491, 2518, 2515, 2522, 2490, 2411, 2537, 2530, 2507, 2479)
    ]
    mean, std = _statistics(found.train_x)
    np.testing.assert_allclose(mean, [0.49139968, 0.48215841, 0.44653091], atol=1e-6)
    np.testing.assert_allclose(std, [0.24703223, 0.24348513, 0.26158784], atol=1e-5)
    if found.sha256 not in {copy.sha256 for copy in data.describe("cifar10").content.copies}:
        pytest.skip("a pack of other origin: its pixels' hash is not documented")
    assert "111 of 60,000" in found.note
    assert pixels_sha256(found.train_x) == (
        "c461bd4536fb85ed1eb486daab6efe1841bd78a4c1eb300d5c7b5ac7f9c941b4"
    )
    assert pixels_sha256(found.test_x) == (
        "ca999a174ec711bbad89d5cc53d425e155595742a396a5ba95d0a218eac0704a"
    )


def test_cifar100() -> None:
    found = load("cifar100")
    assert np.bincount(found.train_y).tolist() == [500] * 100
    assert np.bincount(found.test_y).tolist() == [100] * 100
    mean, std = _statistics(found.train_x)
    np.testing.assert_allclose(mean, [0.50707516, 0.48654887, 0.44091784], atol=5e-5)
    np.testing.assert_allclose(std, [0.26733429, 0.25643846, 0.27615047], atol=1e-4)
    content = data.describe("cifar100").content
    assert found.sha256 in {content.official, *(copy.sha256 for copy in content.copies)}
    rounded = found.sha256 != content.official
    assert bool(found.note) == rounded
    assert pixels_sha256(found.train_x) == (
        "2c9bfcb1e95c328fd6c961415fc50a608719eab09dce47723f5467bd7bf8267d"
        if rounded
        else "4e457917601a66aed021f5fa37957b56c6319557c0a8ed5484de3c390af45430"
    )
    assert pixels_sha256(found.test_x) == (
        "4cb8e5d9309da489bf6b19cc10cd96c3ae6f8daf225380b605aaee4c0d6aee19"
    )


def test_official_hash_of_cifar100_follows_from_the_published_ones() -> None:
    found = load("cifar100")
    lines = (
        (
            "train_x uint8 50000x3x32x32",
            "4e457917601a66aed021f5fa37957b56c6319557c0a8ed5484de3c390af45430",
        ),
        ("train_y int64 50000", hashlib.sha256(found.train_y).hexdigest()),
        ("test_x uint8 10000x3x32x32", pixels_sha256(found.test_x)),
        ("test_y int64 10000", hashlib.sha256(found.test_y).hexdigest()),
    )
    text = "".join(f"{what} {sha256}\n" for what, sha256 in lines)
    official = hashlib.sha256(text.encode()).hexdigest()
    assert official == data.describe("cifar100").content.official


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
def test_packed_class_names_are_those_described(name: str) -> None:
    load(name)
    info = data.describe(name)
    with packs.opened(sources.locate(name).folder, f"{name}_test.npz") as arrays:
        assert tuple(arrays["names"].tolist()) == info.class_names
        if name == "cifar100":
            coarse = arrays["coarse_names"][arrays["fine_to_coarse"]].tolist()
            described = {fine: c for c, names in info.superclasses.items() for fine in names}
            assert coarse == [described[fine] for fine in info.class_names]


def test_keyword_features() -> None:
    found, info = load("kws_mfcc20"), data.describe("kws_mfcc20")
    both = np.bincount(found.train_y) + np.bincount(found.test_y)
    assert both.tolist() == [2377, 2375, 2375, 2359, 2353, 2367, 2367, 2357, 2380, 2372]
    shares = np.bincount(found.test_y) / both
    assert 0.185 < shares.min() < shares.max() < 0.215
    assert "every third audio sample" in found.note
    mean = found.train_x.astype(np.float64).mean((0, 1, 3))
    std = found.train_x.astype(np.float64).std((0, 1, 3))
    np.testing.assert_allclose(mean, info.mean, rtol=1e-4)
    np.testing.assert_allclose(std, info.std, rtol=1e-4)
    with packs.opened(sources.locate("kws_mfcc20").folder, "speech_commands_mfcc.npz") as arrays:
        dup_of, names = arrays["dup_of"], arrays["names"]
        assert np.array_equal(arrays["y"][dup_of], arrays["y"])
    assert tuple(names.tolist()) == info.class_names
    assert len(np.unique(dup_of)) == 23_475
    train = {row.tobytes() for row in found.train_x}
    assert not any(row.tobytes() in train for row in found.test_x)
    assert len(train) + len({row.tobytes() for row in found.test_x}) == 23_475


def test_cadis_lists_of_the_pack_are_those_of_the_authors_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file made of a pack's lists, as long as the authors' one, gives the same lists again."""
    folder, known = cadis.cadis_folder(), cadis_index()
    if folder is None:
        pytest.skip(f"{PACK} holds no cadis_index")
    packed = {name: data.cadis_partition(name) for name in known.partitions}
    with packs.opened(folder, known.file) as arrays:
        stored = dict(arrays)
    monkeypatch.delenv("FEDREPRO_DATA")
    monkeypatch.chdir(tmp_path)
    for name, clients in packed.items():
        lists = known.partitions[name]
        assert cadis.lists_sha256(clients) == lists.sha256
        text = json.dumps({str(i): client.tolist() for i, client in enumerate(clients)})
        assert len(text) == (161_259 if name == "cifar100_mc" else lists.bytes)
        path = Path("data/raw/cadis", lists.path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        for ours, theirs in zip(data.cadis_partition(name), clients, strict=True):
            np.testing.assert_array_equal(ours, theirs)
    commands.pack(Path("packed"), ["cadis_index"])
    with packs.opened(Path("packed"), known.file) as arrays:
        assert set(arrays) == set(stored)
        for key, values in stored.items():
            assert arrays[key].dtype == values.dtype
            np.testing.assert_array_equal(arrays[key], values)


@pytest.mark.parametrize("dataset", ["mnist", "cifar10", "cifar100"])
def test_cadis_partitions_meet_the_order_of_the_labels(dataset: str) -> None:
    if sources.locate(dataset).kind != "pack" or cadis.cadis_folder() is None:
        pytest.skip(f"{PACK} holds no {dataset} or no cadis_index")
    train_y, _ = data.labels(dataset)
    for kind in ("mc", "bc", "uc", "pa"):
        clients = data.cadis_partition(f"{dataset}_{kind}")
        assert len(clients) == 100
        assert sum(map(len, clients)) == CADIS_EXAMPLES[f"{dataset}_{kind}"]
        labels = {len(np.unique(train_y[client])) for client in clients}
        if kind == "pa":  # clients overlap here, and labels were drawn with replacement
            assert max(labels) <= {"mnist": 2, "cifar10": 3, "cifar100": 5}[dataset]
        else:
            assert len(np.unique(np.concatenate(clients))) == sum(map(len, clients))
            assert labels == {20 if dataset == "cifar100" else 2}


def test_mnist_as_official_files_has_the_official_checksums(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    datasets = pytest.importorskip("torchvision.datasets")
    packed = load("mnist")
    folder = tmp_path / "data/raw" / FOLDERS["mnist"]
    folder.mkdir(parents=True)
    for file, values in (
        ("train-images-idx3-ubyte", packed.train_x[:, 0]),
        ("train-labels-idx1-ubyte", packed.train_y),
        ("t10k-images-idx3-ubyte", packed.test_x[:, 0]),
        ("t10k-labels-idx1-ubyte", packed.test_y),
    ):
        (folder / file).write_bytes(idx(values.astype(np.uint8)))
    monkeypatch.delenv("FEDREPRO_DATA")
    monkeypatch.chdir(tmp_path)
    raw = data.load("mnist")  # refuses files whose md5 is not the official one
    assert (raw.source, raw.note, raw.sha256) == ("raw", "", packed.sha256)
    theirs = datasets.MNIST("data/raw", train=False)
    np.testing.assert_array_equal(theirs.data.numpy(), raw.test_x[:, 0])
    np.testing.assert_array_equal(theirs.targets.numpy(), raw.test_y)


def _statistics(x: NDArray[np.generic]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean and standard deviation per channel of pixels in [0, 1]."""
    sums, squares = np.zeros(x.shape[1]), np.zeros(x.shape[1])
    for part in np.array_split(x, 50):  # small parts keep the float copies small
        for channel in range(x.shape[1]):
            values = part[:, channel].astype(np.float32).ravel()
            sums[channel] += values.sum(dtype=np.float64)
            squares[channel] += values @ values
    count = x[:, 0].size
    mean = sums / count
    return mean / 255.0, np.sqrt(squares / count - mean**2) / 255.0
