"""PILL: the reader of the private images' layout, the published counts, and the stand-in."""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tiny_data import REGISTRY, read_registry, tiny_root, write_registry

from fedrepro.base.errors import FedreproError
from fedrepro.fl import cost, data
from fedrepro.fl.data import commands, pill, sources
from fedrepro.fl.data.pill_counts import COUNTS
from fedrepro.fl.data.synthetic_pills import LOOKS
from fedrepro.fl.partition.published_counts import published_counts
from fedrepro.fl.spec import RunSpec, partition_id

TINY = ((1, 1, 0), (0, 2, 1))
"""Images of three labels that two clients hold."""

CLIENT_LABELS = {"a0.png": "A", "b0.png": "B", "b1.png": "B", "b2.png": "B", "c0.png": "C"}
CLIENT_LISTS = {"0": ["b0.png", "a0.png"], "1": ["c0.png", "b2.png", "b1.png"]}
SERVER_LABELS = {"t0.png": "A", "t1.png": "C", "t2.png": "B"}
LAYOUT: dict[str, Any] = {
    "client_dataset/user_group_img.json": CLIENT_LISTS,
    "client_dataset/img_label_dict.json": CLIENT_LABELS,
    "client_dataset/label_hash.json": {"B": 1, "A": 0, "C": 2},
    "server_dataset/user_group_img.json": {"0": ["t2.png", "t0.png", "t1.png"]},
    "server_dataset/img_label_dict.json": SERVER_LABELS,
}

RNG = np.random.default_rng(0)


def colour(name: str) -> tuple[int, int, int]:
    """Return the colour of an image by its name; every image has one of its own."""
    return (50 * int(name[1]), 40 * "abct".index(name[0]), 200)


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write the layout of a tiny PILL below ``data/raw``; return its folder."""
    root = tiny_root(tmp_path, monkeypatch)
    registry = read_registry(root)
    registry["datasets"]["pill"] |= {
        "shape": [3, 4, 6],
        "classes": 3,
        "class_names": ["A", "B", "C"],
        "train": 5,
        "test": 3,
        "per_class": {"train": [1, 3, 1], "test": 1},
    }
    write_registry(root, registry)
    monkeypatch.setattr(pill, "COUNTS", TINY)
    folder = root / "data/raw/pill"
    for file, content in LAYOUT.items():
        write(folder / file, content)
    for side, names in (("client_dataset", CLIENT_LABELS), ("server_dataset", SERVER_LABELS)):
        for name in names:
            path = folder / side / "pill_cropped" / name
            path.parent.mkdir(exist_ok=True)
            mode = "RGBA" if name == "b1.png" else "RGB"
            Image.new("RGB", (13, 9), colour(name)).convert(mode).save(path)
    return folder


def write(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


def test_the_layout_is_read_client_by_client(layout: Path) -> None:
    assert sources.locate("pill").kind == "raw"
    made = data.load("pill")
    assert made.source == "raw"
    assert made.train_y.tolist() == [1, 0, 2, 1, 1]
    assert made.test_y.tolist() == [1, 0, 2]
    order = ["b0.png", "a0.png", "c0.png", "b2.png", "b1.png"]
    assert made.train_x.shape == (5, 3, 4, 6)
    assert made.train_x[:, :, 2, 3].tolist() == [list(colour(name)) for name in order]
    assert made.test_x[:, :, 0, 0].tolist() == [
        list(colour(name)) for name in ("t2.png", "t0.png", "t1.png")
    ]
    assert [labels.tolist() for labels in data.labels("pill")] == [
        made.train_y.tolist(),
        made.test_y.tolist(),
    ]


def test_the_partition_gives_every_client_its_own_list(
    layout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fedrepro.fl.partition import published_counts as module

    monkeypatch.setitem(module.COUNTS, "pill", TINY)
    clients = published_counts(data.load("pill").train_y, "pill", 1.0, RNG)
    assert [client.tolist() for client in clients] == [[0, 1], [2, 3, 4]]


def test_images_are_resized_by_linear_interpolation(layout: Path) -> None:
    stripes = np.zeros((4, 12, 3), dtype=np.uint8)
    stripes[:, 6:] = 200
    Image.fromarray(stripes).save(layout / "server_dataset/pill_cropped/t0.png")
    row = data.load("pill").test_x[1, 0, 0].tolist()
    assert row == sorted(row)
    assert (row[0], row[-1]) == (0, 200)


def test_without_the_images_the_error_says_what_must_lie_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tiny_root(tmp_path, monkeypatch)
    with pytest.raises(FedreproError, match=r"not public.*data/raw/pill.*label_hash\.json") as info:
        data.load("pill")
    assert "synthetic_pills" in str(info.value)
    assert "pack" not in str(info.value)
    assert sources.locate("pill").kind == "nowhere"
    assert "not here: private" in commands.list_datasets()
    assert "not here: private" in commands.verify()
    with pytest.raises(FedreproError, match="'pill' is private: copy its folder"):
        commands.pack(root / "pack", ["pill"])


def test_packing_everything_leaves_private_images_out(layout: Path) -> None:
    with pytest.raises(FedreproError, match="no data set here to pack"):
        commands.pack(Path("pack"))


CLIENT = "client_dataset"


@pytest.mark.parametrize(
    ("file", "content", "expected"),
    [
        (f"{CLIENT}/label_hash.json", "{", r"label_hash\.json: Invalid JSON"),
        (
            f"{CLIENT}/label_hash.json",
            {"A": 0, "B": "1", "C": 2},
            r"label_hash\.json: B: .*integer",
        ),
        (f"{CLIENT}/label_hash.json", {"A": 0, "B": 2, "C": 1}, r"'B' is 2, expected 1"),
        (f"{CLIENT}/label_hash.json", {"A": 0, "B": 1}, r"'C' is None, expected 2"),
        (f"{CLIENT}/label_hash.json", {"A": 0, "B": 1, "C": 2, "D": 3}, r"unknown label 'D'"),
        (f"{CLIENT}/user_group_img.json", {"0": "b0.png"}, r"user_group_img\.json: 0: .*array"),
        (f"{CLIENT}/user_group_img.json", {"0": [], "2": []}, r"keys are 0, 2; expected 0, 1"),
        (
            f"{CLIENT}/user_group_img.json",
            CLIENT_LISTS | {"0": ["b0.png"]},
            r"client 0 has \[0, 1, 0\].*published are \[1, 1, 0\].*syndata3",
        ),
        (
            f"{CLIENT}/user_group_img.json",
            CLIENT_LISTS | {"0": ["b0.png", "x.png"]},
            r"img_label_dict\.json: image 'x\.png' has no label",
        ),
        (
            f"{CLIENT}/img_label_dict.json",
            CLIENT_LABELS | {"b0.png": "Z"},
            r"image 'b0\.png' has the unknown label 'Z'",
        ),
        (
            f"{CLIENT}/img_label_dict.json",
            CLIENT_LABELS | {"b0.png": 3},
            r"img_label_dict\.json: b0\.png: .*string",
        ),
        ("server_dataset/user_group_img.json", {"1": []}, r"keys are 1; expected 0"),
        ("server_dataset/user_group_img.json", {"0": ["t0.png"]}, r"test labels .*expected"),
        (
            "server_dataset/img_label_dict.json",
            [],
            r"server_dataset/img_label_dict\.json: .*object",
        ),
    ],
)
def test_a_layout_that_does_not_fit_is_refused(
    layout: Path, file: str, content: object, expected: str
) -> None:
    write(layout / file, content)
    with pytest.raises(FedreproError, match=f"(?s){expected}"):
        data.load("pill")


def test_missing_and_broken_images_are_named(layout: Path) -> None:
    path = layout / CLIENT / "pill_cropped/b2.png"
    path.write_bytes(b"no image")
    with pytest.raises(FedreproError, match=r"b2\.png cannot be read as an image"):
        data.load("pill")
    path.unlink()
    with pytest.raises(FedreproError, match=r"b2\.png is missing; .*user_group_img\.json lists it"):
        data.load("pill")


def test_an_image_that_unpacks_to_gigapixels_is_refused(layout: Path) -> None:
    path = layout / CLIENT / "pill_cropped/b2.png"
    content = bytearray(path.read_bytes())
    content[16:24] = struct.pack(">II", 60_000, 60_000)  # what its header says
    content[29:33] = struct.pack(">I", zlib.crc32(content[12:29]))
    path.write_bytes(content)
    with pytest.raises(FedreproError, match=r"b2\.png cannot be read.*3600000000 pixels"):
        data.load("pill")


def test_formats_that_other_programs_read_are_refused(layout: Path) -> None:
    path = layout / CLIENT / "pill_cropped/b2.png"
    path.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n")
    with pytest.raises(FedreproError, match=r"b2\.png cannot be read as an image \(JPEG"):
        data.load("pill")


@pytest.mark.parametrize("name", ["../b0.png", "/etc/passwd", "a/b.png", "..", ""])
def test_a_list_cannot_name_a_file_elsewhere(layout: Path, name: str) -> None:
    write(layout / CLIENT / "img_label_dict.json", CLIENT_LABELS | {name: "B"})
    lists = CLIENT_LISTS | {"0": [name, "a0.png"]}
    write(layout / CLIENT / "user_group_img.json", lists)
    with pytest.raises(FedreproError, match="is not a plain file name"):
        data.load("pill")


def test_the_published_counts() -> None:
    counts = np.array(COUNTS)
    assert counts.shape == (10, 15)
    assert counts.sum(axis=1).tolist() == [312, 635, 452, 452, 945, 228, 351, 959, 880, 1179]
    assert counts.sum() == 6393
    assert (counts > 0).sum(axis=1).tolist() == [3, 5, 4, 4, 9, 2, 3, 7, 8, 9]
    for name in ("pill", "synthetic_pills"):
        info = REGISTRY["datasets"][name]
        assert info["per_class"] == {"train": counts.sum(axis=0).tolist(), "test": 46}
    both = np.flatnonzero((counts[:, 5] > 0) & (counts[:, 8] > 0))
    assert both.tolist() == list(range(7))  # two drugs against diabetes
    assert not counts[7:, [5, 8]].any()


def test_a_share_is_not_raised_by_floating_point(monkeypatch: pytest.MonkeyPatch) -> None:
    """0.07 times 100 is a little more than 7."""
    from fedrepro.fl.partition import published_counts as module

    monkeypatch.setitem(module.COUNTS, "pill", ((100,),))
    (client,) = published_counts(np.zeros(100, dtype=np.int64), "pill", 0.07, RNG)
    assert len(client) == 7


@pytest.mark.parametrize("share", [1.0, 0.1])
def test_clients_hold_what_the_table_says(share: float) -> None:
    labels = np.random.default_rng(3).permutation(np.repeat(np.arange(15), np.sum(COUNTS, axis=0)))
    clients = published_counts(labels, "pill", share, RNG)
    found = np.array([np.bincount(labels[client], minlength=15) for client in clients])
    assert (found == np.ceil(share * np.array(COUNTS) - 1e-9)).all()
    held = np.concatenate(clients)
    assert len(set(held.tolist())) == len(held)
    assert all((np.diff(client) > 0).all() for client in clients)
    whole = published_counts(labels, "pill", 1.0, RNG)
    assert all(set(part) <= set(all_) for part, all_ in zip(clients, whole, strict=True))


def test_data_that_do_not_reach_are_refused() -> None:
    labels = np.repeat(np.arange(15), 793)
    with pytest.raises(FedreproError, match="for 15 labels, these data have 10"):
        published_counts(labels[labels < 10], "pill", 1.0, RNG)
    with pytest.raises(FedreproError, match=r"label 8 has 792 images; .* hold 793"):
        published_counts(
            np.delete(labels, np.flatnonzero(labels == 8)[0]), "pill", 0.1, np.random.default_rng(0)
        )


def test_all_seeds_share_the_whole_partition_and_its_cost() -> None:
    def spec(seed: int, share: float = 1.0, dataset: str = "synthetic_pills") -> RunSpec:
        return RunSpec.model_validate(
            {
                "dataset": {"name": dataset},
                "partition": {"scheme": "published_counts", "counts": "pill", "share": share},
                "model": {"name": "resnet18"},
                "algorithm": {"name": "fedavg"},
                "optimizer": {"name": "sgd", "lr": 0.01},
                "batch": 8,
                "rounds": 2,
                "seed": seed,
            }
        )

    assert partition_id(spec(0)) == partition_id(spec(1)) != partition_id(spec(0, 0.5))
    assert partition_id(spec(0, 0.5)) != partition_id(spec(1, 0.5))
    assert spec(0).partition.clients == len(COUNTS)
    small, large = (cost.estimate(spec(0, 1.0, name), {}) for name in ("synthetic_pills", "pill"))
    assert large / small == pytest.approx((224 / 32) ** 2, rel=0.01)
    assert cost.sample_passes(spec(0)) == pytest.approx(2 * 6393 + 2 * 690 / 3)
    assert cost.sample_passes(spec(0, 0.5)) == pytest.approx(6393 + 2 * 690 / 3)


def test_the_stand_in_is_the_same_bytes_everywhere() -> None:
    made, info = data.load("synthetic_pills"), data.describe("synthetic_pills")
    assert made.sha256 == "8884cb5a29659143dec8d44a8f02329f70e817a8258701ef01456e5c31cc047e"
    assert (made.source, made.note) == ("synthetic", "")
    assert tuple(LOOKS) == info.class_names
    assert made.train_x.shape == (6393, 3, 32, 32)
    assert np.bincount(made.train_y).tolist() == np.sum(COUNTS, axis=0).tolist()
    values = made.train_x / 255.0
    assert np.allclose(values.mean((0, 2, 3)), info.mean, atol=0.001)
    assert np.allclose(values.std((0, 2, 3)), info.std, atol=0.001)
    assert len(np.unique(made.train_x.reshape(6393, -1), axis=0)) == 6393


def test_the_stand_in_can_be_learned_but_not_by_a_linear_map_of_pixels() -> None:
    made = data.load("synthetic_pills")
    x, test_x = _pixels(made.train_x), _pixels(made.test_x)
    weights = np.linalg.solve(x.T @ x + np.eye(x.shape[1]), x.T @ np.eye(15)[made.train_y])
    right = float(((test_x @ weights).argmax(1) == made.test_y).mean())
    assert 3 / 15 < right < 9 / 15  # colours of the pills help, shapes and marks do not


def _pixels(x: np.ndarray) -> np.ndarray:
    """Return means of 4 x 4 pixels, and a one for the bias: [n, features]."""
    means = x.reshape(len(x), 3, 8, 4, 8, 4).mean((3, 5)).reshape(len(x), -1) / 255.0
    return np.hstack([means, np.ones((len(x), 1))])
