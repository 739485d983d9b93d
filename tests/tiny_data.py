"""Tiny data sets in the official layouts, with a registry that expects them.

Every test that uses this works in its own folder: a repository root with data sets of small counts
in ``config/datasets``, which is also the working directory.
"""

from __future__ import annotations

import copy
import functools
import gzip
import hashlib
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from numpy.typing import NDArray

from fedrepro.fl.data import fetch
from fedrepro.fl.data import registry as known

REGISTRY = {
    "datasets": {
        file.stem: yaml.safe_load(file.read_text()) for file in known.FOLDER.glob("*.yaml")
    },
    "cadis_index": yaml.safe_load((known.FOLDER.parent / "cadis_index.yaml").read_text()),
}


CADIS_LISTS = [[4, 0], [], [9, 1, 2]]
"""What the three clients of every tiny CADIS partition hold."""

NOWHERE = "http://127.0.0.1:9/"
"""An address that refuses."""


def tiny_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make ``tmp_path`` a repository of tiny data sets and work there; return it."""
    (tmp_path / "config/papers").mkdir(parents=True)
    write_registry(tmp_path, _tiny_registry())
    monkeypatch.setenv("FEDREPRO_ROOT", str(tmp_path))
    monkeypatch.delenv("FEDREPRO_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@functools.cache
def _tiny_registry() -> dict[str, Any]:
    registry = copy.deepcopy(REGISTRY)
    for name, train, test in (("mnist", 2, 1), ("cifar10", 2, 1), ("cifar100", 2, 1)):
        entry = registry["datasets"][name]
        entry["train"], entry["test"] = train * entry["classes"], test * entry["classes"]
        entry["per_class"] = {"train": train, "test": test}
        entry["content"] = {}
        files = official_files(name)
        for side in ("train", "test"):
            for file in entry["official"][side]:
                file["md5"] = md5(files[file["file"]])
        for archive in entry["official"]["archives"]:
            plain = files.get(archive["file"].removesuffix(".gz"))
            if plain is not None:
                archive |= described(gzip.compress(plain, mtime=0))
    cadis = registry["cadis_index"]
    cadis["clients"] = len(CADIS_LISTS)
    cadis["repositories"] = dict.fromkeys(cadis["repositories"], NOWHERE)
    for lists in cadis["partitions"].values():
        lists["sha256"] = cadis_sha256()
    return registry


def described(content: bytes) -> dict[str, Any]:
    """Return what the registry says of an archive of this content, but for its name."""
    sha256 = hashlib.sha256(content).hexdigest()
    return {"bytes": len(content), "md5": md5(content), "sha256": sha256}


def allow_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let downloads ask a server of the test, which has no certificate."""
    allowed = functools.partial(fetch.fetch, plain_hosts=["127.0.0.1"])
    monkeypatch.setattr(fetch, "fetch", allowed)


def write_registry(root: Path, registry: dict[str, Any]) -> None:
    """Write data sets and lists; JSON is YAML."""
    folder = root / "config/datasets"
    folder.mkdir(exist_ok=True)
    for name, entry in registry["datasets"].items():
        (folder / f"{name}.yaml").write_text(json.dumps(entry))
    (root / "config/cadis_index.yaml").write_text(json.dumps(registry["cadis_index"]))


def read_registry(root: Path) -> dict[str, Any]:
    files = (root / "config/datasets").glob("*.yaml")
    return {
        "datasets": {file.stem: json.loads(file.read_text()) for file in files},
        "cadis_index": json.loads((root / "config/cadis_index.yaml").read_text()),
    }


def images(name: str, split: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the images (uint8 [n, channels, height, width]) and labels of a tiny data set."""
    classes = 100 if name == "cifar100" else 10
    shape = (1, 28, 28) if name == "mnist" else (3, 32, 32)
    count = classes * (2 if split == "train" else 1)
    seed = int.from_bytes(hashlib.sha256(f"{name} {split}".encode()).digest()[:4], "big")
    generator = np.random.default_rng(seed)
    x = generator.integers(0, 256, (count, *shape), dtype=np.uint8)
    return x, np.arange(count, dtype=np.int64) % classes


def official_files(name: str) -> dict[str, bytes]:
    """Return the content of the official files of a tiny data set, by file name."""
    (x, y), (xt, yt) = images(name, "train"), images(name, "test")
    if name == "mnist":
        return {
            "train-images-idx3-ubyte": idx(x[:, 0]),
            "train-labels-idx1-ubyte": idx(y.astype(np.uint8)),
            "t10k-images-idx3-ubyte": idx(xt[:, 0]),
            "t10k-labels-idx1-ubyte": idx(yt.astype(np.uint8)),
        }
    if name == "cifar10":
        batches = {
            f"data_batch_{i + 1}": cifar_batch(x[4 * i : 4 * i + 4], y[4 * i : 4 * i + 4])
            for i in range(5)
        }
        return batches | {"test_batch": cifar_batch(xt, yt), "batches.meta": pickled_names()}
    return {
        "train": cifar_batch(x, y, "fine_labels"),
        "test": cifar_batch(xt, yt, "fine_labels"),
        "meta": pickled_names("fine_label_names"),
    }


FOLDERS = {
    "mnist": "MNIST/raw",
    "cifar10": "cifar-10-batches-py",
    "cifar100": "cifar-100-python",
}


def write_official(name: str, raw: Path, *, zipped: bool = False) -> Path:
    """Write the official files of a tiny data set below ``raw``; return their folder."""
    folder = raw / FOLDERS[name]
    folder.mkdir(parents=True, exist_ok=True)
    for file, content in official_files(name).items():
        if zipped:
            (folder / f"{file}.gz").write_bytes(gzip.compress(content, mtime=0))
        else:
            (folder / file).write_bytes(content)
    return folder


def cadis_sha256() -> str:
    """Return the content hash of the tiny CADIS lists, written out from its definition."""
    return hashlib.sha256(struct.pack("<9q", 0, 2, 2, 5, 4, 0, 9, 1, 2)).hexdigest()


def idx(values: NDArray[np.uint8]) -> bytes:
    """Write an array in the idx format."""
    sizes = b"".join(struct.pack(">I", size) for size in values.shape)
    return bytes([0, 0, 8, values.ndim]) + sizes + values.tobytes()


def cifar_batch(x: NDArray[np.uint8], y: NDArray[np.int64], label_key: str = "labels") -> bytes:
    """Write images as the pickle (protocol 2, byte strings) that Python 2 wrote for CIFAR."""
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01"
        + b"J%sM\x00\x0c\x86" % struct.pack("<i", len(x))
        + b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xff"
        + b"K\x00tb\x89T%s%stb" % (struct.pack("<i", x.size), x.tobytes())
    )
    labels = b"](%se" % b"".join(b"K%c" % label for label in y.tolist())
    return b"\x80\x02}(%s%s%s%su." % (_key("data"), array, _key(label_key), labels)


def pickled_names(key: str = "label_names") -> bytes:
    """Write the small file of class names, here with none."""
    return b"\x80\x02}(%s]u." % _key(key)


def md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def _key(text: str) -> bytes:
    return b"U%c%s" % (len(text), text.encode())
