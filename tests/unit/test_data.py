"""Descriptions, the made-up data sets, and where data come from."""

from __future__ import annotations

import copy
import errno
import functools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tiny_data import REGISTRY, images, read_registry, tiny_root, write_official, write_registry

from fedrepro.base import paths
from fedrepro.base.errors import FedreproError
from fedrepro.fl import data
from fedrepro.fl.data import commands, registry, sources
from fedrepro.fl.data.dataset import Arrays, content_sha256
from fedrepro.fl.spec import component_versions

SYNTHETIC = {
    "synthetic": "01bae287f61d7254b29661c1318d61a94a5f4ac7985fee0fc7f8994fa9183cf5",
    "synthetic_rgb": "44bb2a6cb18eaf87142f0fe53389591dc0fedad32882f995d1235a13e150e203",
}


OFFICIAL = REGISTRY["datasets"]["mnist"]["official"]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return tiny_root(tmp_path, monkeypatch)


def test_every_data_set_is_described() -> None:
    for name in data.names():
        info = data.describe(name)
        assert info.name == name
        assert sum(info.train_per_class) == info.train
        assert sum(info.test_per_class) == info.test
        assert -1 in info.statistics_shape
    assert data.describe("cifar100").train_per_class == (500,) * 100
    assert sum(len(names) for names in data.describe("cifar100").superclasses.values()) == 100
    assert data.describe("kws_mfcc20").statistics_shape == (1, 1, -1, 1)


def test_an_unknown_name_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(FedreproError, match=r"'cifar_10'.*'cifar10'.*mnist"):
        data.load("cifar_10")
    with pytest.raises(FedreproError, match="unknown data set 'imagenet'"):
        data.describe("imagenet")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"licencee": "x"}, r"licencee.*did you mean 'licence'"),
        ({"train": 60001}, r"per_class\.train has 10 classes and 60000 examples"),
        ({"mean": [0.1, 0.2]}, r"mean and std must have 1 entries"),
        ({"class_names": ["0"]}, r"class_names has 1 of 10"),
        ({"class_names": ["0"] * 10}, "class_names has a name twice"),
        ({"superclasses": {"even": ["0", "2"]}}, "every one of class_names once"),
        ({"shape": [1, 0, 28]}, r"shape\.1: .*greater than 0"),
        ({"per_class": {"train": [-1, 1], "test": 1}}, r"per_class\.train.*or equal to 0"),
        ({"name": "letters"}, "name: letters, but the file is named 'mnist'"),
        ({"format": "plugin"}, "format: plugin is for data sets that a program describes"),
        ({"format": "memory"}, "format: memory is for data sets that a program describes"),
        ({"format": "keywords"}, "format keywords needs one pack file, and no official ones"),
        ({"format": "synthetic"}, "format synthetic has no official files and no pack files"),
        ({"format": "pill"}, "format pill has no official files"),
        ({"format": "pill", "official": None, "pack": None}, "format pill has 3 channels"),
        ({"official": None, "pack": None}, "format mnist needs official files or pack files"),
        ({"pack": {"train": ["a.npz"], "test": ["b.npz"]}}, "format mnist needs one pack file"),
        ({"pack": {"train": ["SHA256SUMS"], "test": ["b.npz"]}}, r"pack\.train\.0: .*npz"),
        ({"official": OFFICIAL | {"test": []}}, "format mnist needs two official files a side"),
        ({"format": "cifar", "official": OFFICIAL | {"test": []}}, "files of both sides"),
        ({"official": OFFICIAL | {"archives": []}}, r"official\.archives: .*at least 1"),
        ({"official": OFFICIAL | {"folder": "../../etc"}}, r"official\.folder: "),
        ({"official": OFFICIAL | {"urls": ["https://x.org"]}}, r"official\.urls\.0: "),
    ],
)
def test_a_typo_in_the_registry_is_named(
    root: Path, change: dict[str, object], expected: str
) -> None:
    found = copy.deepcopy(REGISTRY)
    found["datasets"]["mnist"] |= change
    write_registry(root, found)
    with pytest.raises(FedreproError, match=f"(?s)mnist.yaml.*{expected}"):
        data.describe("mnist")


def test_a_class_that_nobody_can_draw_is_named(root: Path) -> None:
    found = copy.deepcopy(REGISTRY["datasets"]["synthetic_pills"])
    found["class_names"][3] = "white oblongg"
    write_registry(root, read_registry(root) | {"datasets": {"tablets": found}})
    with pytest.raises(FedreproError, match=r"set 'tablets' 'white oblongg'.*did you"):
        data.load("tablets")


def test_a_shape_that_no_pattern_fills_is_named(root: Path) -> None:
    odd = REGISTRY["datasets"]["synthetic"] | {"shape": [1, 30, 28]}
    write_registry(root, read_registry(root) | {"datasets": {"odd": odd}})
    with pytest.raises(FedreproError, match=r"'odd': shape: 30x28 .* multiples of 4"):
        data.load("odd")


@pytest.mark.parametrize("name", [".#mnist.yaml", "._mnist.yaml"])
def test_hidden_files_are_no_descriptions(root: Path, name: str) -> None:
    """Emacs locks a file that is edited by such a link; macOS puts such files into archives."""
    (root / "config/datasets" / name).symlink_to("user@host.1234:5678")
    assert "mnist" in data.names()


def test_descriptions_that_may_not_be_listed_are_not_passed_over(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else fedrepro's own data set of the name would be taken."""
    whole = os.scandir, os.listdir

    def guarded(look: Callable[..., Any], folder: Any) -> Any:
        if str(folder).endswith("config/datasets"):
            raise PermissionError(errno.EACCES, "Permission denied", str(folder))
        return look(folder)

    monkeypatch.setattr(os, "scandir", functools.partial(guarded, whole[0]))
    monkeypatch.setattr(os, "listdir", functools.partial(guarded, whole[1]))
    with pytest.raises(PermissionError, match="config/datasets"):
        data.describe("mnist")


@pytest.mark.parametrize("value", ["x" * 300, "a\0b", "~/packs"])
def test_a_data_root_that_no_folder_can_have_is_named(
    root: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    with pytest.raises(FedreproError, match=r"data_root is .* not a folder"):
        data.load("mnist", Path(value))


def test_a_broken_description_is_named(root: Path) -> None:
    (root / "config/datasets/mnist.yaml").write_text("a: [")
    with pytest.raises(FedreproError, match=r"mnist\.yaml: not valid YAML"):
        data.describe("mnist")


def test_a_clone_may_have_data_sets_of_its_own(root: Path) -> None:
    found = read_registry(root)
    (root / "config/datasets/mnist.yaml").unlink()
    assert data.describe("mnist").train == 60_000, "then fedrepro's own is back"
    write_registry(root, found | {"datasets": {"letters": found["datasets"]["mnist"]}})
    assert "letters" in data.names()
    assert data.describe("letters").name == "letters"


def test_other_constants_of_a_description_of_ones_own_make_other_runs(root: Path) -> None:
    entry = read_registry(root)["datasets"]["mnist"]

    def versions(name: str, **changes: object) -> dict[str, int | str]:
        write_registry(root, read_registry(root) | {"datasets": {name: entry | changes}})
        found = component_versions(
            {
                "dataset": {"name": name},
                "partition": {"scheme": "iid_stratified"},
                "model": {"name": "liu1"},
                "algorithm": {"name": "fedavg"},
            }
        )
        return {key: value for key, value in found.items() if key.startswith("data.")}

    letters = versions("letters")
    assert versions("letters", title="Letters") == letters
    assert versions("letters", std=[5.0]) != letters
    assert versions("letters", version=2) != letters
    assert versions("mnist", std=[5.0]) != versions("mnist") == {"data.mnist": 1}
    published = (registry.FOLDER / "mnist.yaml").read_text()
    mirrored = published.replace("https://", "https://mirror.", 1)
    (root / "config/datasets/mnist.yaml").write_text(mirrored)
    assert registry.constants("mnist") == "", "another address alone is the same data set"


@pytest.mark.parametrize("name", ["2nd", "my set", "my.set"])
def test_a_data_set_has_a_name_that_snakemake_can_use(root: Path, name: str) -> None:
    file = root / "config/datasets/My-Set_2.yaml"
    file.write_text((root / "config/datasets/mnist.yaml").read_text())
    assert data.describe("My-Set_2").name == "My-Set_2"
    file.rename(file.with_name(f"{name}.yaml"))
    with pytest.raises(FedreproError, match=rf"{name}\.yaml: '{name}' cannot be the name of a"):
        data.names()


def test_root_and_data_root_refuse_wrong_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDREPRO_ROOT", str(tmp_path))
    for find in (paths.root, paths.find_root):
        with pytest.raises(FedreproError, match=r"FEDREPRO_ROOT is .* no config/papers"):
            find()
    monkeypatch.delenv("FEDREPRO_ROOT")
    assert (paths.root() / "config/papers").is_dir()
    monkeypatch.setenv("FEDREPRO_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(FedreproError, match=r"FEDREPRO_DATA is .*nowhere"):
        data.load("mnist")
    with pytest.raises(FedreproError, match=r"data_root is .*elsewhere"):
        data.load("mnist", tmp_path / "elsewhere")
    monkeypatch.setenv("FEDREPRO_DATA", "")
    assert paths.data_root() is None


def test_root_is_found_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "clone/config/papers").mkdir(parents=True)
    (tmp_path / "clone/deep/er").mkdir(parents=True)
    monkeypatch.delenv("FEDREPRO_ROOT", raising=False)
    monkeypatch.setattr(paths, "__file__", str(tmp_path / "site-packages/fedrepro/paths.py"))
    monkeypatch.chdir(tmp_path / "clone/deep/er")
    assert paths.root() == (tmp_path / "clone").resolve()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FedreproError, match="change into the clone, or set FEDREPRO_ROOT"):
        paths.root()
    assert paths.find_root() is None


@pytest.mark.parametrize("name", SYNTHETIC)
def test_synthetic_data_are_the_same_bytes_everywhere(name: str) -> None:
    made, info = data.load(name), data.describe(name)
    assert made.sha256 == SYNTHETIC[name]
    assert (made.source, made.note) == ("synthetic", "")
    assert made.train_x.shape == (2000, *info.shape)
    assert made.test_x.shape == (500, *info.shape)
    assert made.train_x.dtype == np.uint8
    assert made.train_y.dtype == np.int64
    assert np.bincount(made.train_y).tolist() == [200] * 10
    assert np.bincount(made.test_y).tolist() == [50] * 10
    values = made.train_x / 255.0
    assert np.allclose(values.mean((0, 2, 3)), info.mean, atol=0.001)
    assert np.allclose(values.std((0, 2, 3)), info.std, atol=0.001)
    assert data.load(name) is made


@pytest.mark.parametrize("name", SYNTHETIC)
def test_synthetic_data_can_be_learned(name: str) -> None:
    made = data.load(name)
    train, test = _flat(made.train_x), _flat(made.test_x)
    targets = np.eye(10)[made.train_y]
    ridge = train.T @ train + 10.0 * np.eye(train.shape[1])
    guess = (test @ np.linalg.solve(ridge, train.T @ targets)).argmax(1)
    assert (guess == made.test_y).mean() > 0.9


def test_content_hash_covers_values_shape_and_dtype() -> None:
    x, y = images("cifar10", "train")
    xt, yt = images("cifar10", "test")
    hashes = {
        content_sha256(arrays)
        for arrays in (
            Arrays(x, y, xt, yt),
            Arrays(x ^ 1, y, xt, yt),
            Arrays(x.reshape(-1, 3, 64, 16), y, xt, yt),
            Arrays(x.astype(np.float32), y, xt, yt),
            Arrays(x, y[::-1].copy(), xt, yt),
            Arrays(x, y, xt, yt.astype(np.int32)),  # type: ignore[arg-type]
        )
    }
    assert len(hashes) == 6
    strided = np.asfortranarray(x)
    assert content_sha256(Arrays(strided, y, xt, yt)) == content_sha256(Arrays(x, y, xt, yt))


def test_importing_the_package_or_reading_raw_files_imports_no_torch(root: Path) -> None:
    write_official("mnist", root / "data/raw")
    code = (
        "import sys; from fedrepro.fl import data; from fedrepro.fl.data import commands; "
        "data.load('mnist'); print('torch' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "False", result.stderr


def test_sources_are_tried_in_order(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sources.locate("mnist").kind == "download"
    assert sources.locate("kws_mfcc20").kind == "nowhere"
    assert sources.locate("synthetic").kind == "synthetic"
    write_official("mnist", Path("data/raw"))
    assert sources.locate("mnist") == sources.locate("mnist", None)
    assert sources.locate("mnist").kind == "raw"
    write_official("mnist", root / "mine/raw")
    monkeypatch.setenv("FEDREPRO_DATA", str(root / "mine"))
    assert sources.locate("mnist").folder == root / "mine/raw"
    commands.pack(Path("data/pack"), ["mnist"])
    assert sources.locate("mnist").folder == Path("data/pack")
    commands.pack(root / "mine", ["mnist"])
    assert sources.locate("mnist").folder == root / "mine"
    commands.pack(root / "yours", ["mnist"])
    assert sources.locate("mnist", root / "yours").folder == root / "yours"
    kinds = [data.load("mnist", folder).source for folder in (None, root / "yours")]
    assert kinds == ["pack", "pack"]


def _flat(x: NDArray[np.generic]) -> NDArray[np.float64]:
    """Return means of 4 x 4 pixels, and a one for the bias: [n, features]."""
    blocks = x.reshape(*x.shape[:2], x.shape[2] // 4, 4, x.shape[3] // 4, 4).mean((3, 5))
    return np.hstack([blocks.reshape(len(x), -1) / 255.0, np.ones((len(x), 1))])
