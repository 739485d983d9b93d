"""Data sets of a program's own arrays, and those that another distribution brings."""

from __future__ import annotations

import importlib.metadata
import tracemalloc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from entry_points import Point
from pydantic import ValidationError

from fedrepro.base.errors import FedreproError
from fedrepro.fl import components, data
from fedrepro.fl.data import Dataset, arrays_file, commands, registry, sources
from fedrepro.fl.data.dataset import ANY, Arrays, Source
from fedrepro.fl.data.registry import DatasetInfo
from fedrepro.fl.spec import DatasetSpec

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (60, 8, 8), dtype=np.uint8)
LABELS = np.arange(60) % 3


def test_arrays_become_a_data_set_known_by_its_content() -> None:
    made = Dataset.from_arrays(IMAGES, LABELS, IMAGES[:9], LABELS[:9], title="squares")
    assert made.name == f"own_{made.sha256[:12]}"
    assert data.load(made.name) is made
    info = data.describe(made.name)
    assert (info.shape, info.classes, info.train, info.test) == ((1, 8, 8), 3, 60, 9)
    assert info.mean == pytest.approx((IMAGES.mean() / 255,), abs=1e-5)
    assert (made.source, made.note) == ("memory", "")
    assert data.labels(made.name)[0].tolist() == LABELS.tolist()
    other = Dataset.from_arrays(IMAGES[::-1], LABELS, IMAGES[:9], LABELS[:9])
    assert other.name != made.name
    assert made.name not in data.names()


def test_few_pixels_or_many_channels_are_not_taken_for_another_order_of_axes() -> None:
    for shape in ((9, 8, 1), (8, 3, 3), (3, 8, 8), (4, 4, 4)):
        x = RNG.integers(0, 256, (60, *shape), dtype=np.uint8)
        made = Dataset.from_arrays(x, LABELS, x[:9], LABELS[:9])
        assert data.describe(made.name).shape == shape


def test_half_precision_is_taken_without_a_word() -> None:
    half = (IMAGES / 7).astype(np.float16)
    assert Dataset.from_arrays(half, LABELS, half[:9], LABELS[:9]).train_x.dtype == np.float32


def test_floats_are_features() -> None:
    made = Dataset.from_arrays(IMAGES / 7.0, LABELS, IMAGES[:9] / 7.0, LABELS[:9])
    assert made.train_x.dtype == np.float32
    assert data.describe(made.name).mean == pytest.approx((IMAGES.mean() / 7,), rel=1e-4)


def test_statistics_are_not_rounded_away() -> None:
    """Of values far from 0, and of a channel that is the same throughout."""
    far = np.random.default_rng(0).normal(1000, 1e-3, (60, 1, 8, 8))
    flat = np.full((60, 1, 8, 8), 0.1)
    made = Dataset.from_arrays(
        np.concatenate([far, flat], 1), LABELS, np.concatenate([far, flat], 1)[:9], LABELS[:9]
    )
    info = data.describe(made.name)
    assert info.std[0] == pytest.approx(1e-3, rel=0.1)
    assert info.std[1] == 1


def test_another_process_has_to_make_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Dataset.from_arrays(IMAGES, LABELS, IMAGES[:9], LABELS[:9])
    spec = DatasetSpec(name=made.name)
    monkeypatch.setattr(registry, "_HELD", {})
    monkeypatch.setattr(registry, "_DESCRIBED", {})
    for ask in (data.load, data.describe):
        with pytest.raises(FedreproError, match=r"--paper my-plan.yaml.* it again with `Dataset\."):
            ask(spec.name)


def test_arrays_take_memory_as_long_as_something_uses_them() -> None:
    """Their description stays, by which runs that were trained are still costed."""
    made = Dataset.from_arrays(IMAGES // 2, LABELS, IMAGES[:9], LABELS[:9])
    name, alive = made.name, weakref.ref(made)
    assert data.load(name) is made
    del made
    assert alive() is None
    assert data.describe(name).train == 60
    with pytest.raises(FedreproError, match=r"make it again with `Dataset\.from_arrays`"):
        data.load(name)


def test_arrays_are_not_taken_for_those_of_another_hash() -> None:
    """A run of them would be trained, and its record would then be refused."""
    made = Dataset.from_arrays(IMAGES, LABELS, IMAGES[:9], LABELS[:9])
    for ask in (data.load, data.labels):
        with pytest.raises(FedreproError, match=r"dataset\.content asks for 0000"):
            ask(made.name, content="0" * 64)
        with pytest.raises(FedreproError, match="leave it out, or equal runs would have two ids"):
            ask(made.name, content=made.sha256)
    assert data.load(made.name, content=ANY) is made


def test_equal_arrays_are_one_data_set_whoever_drops_it_first() -> None:
    first = Dataset.from_arrays(IMAGES // 2, LABELS, IMAGES[:9], LABELS[:9])
    second = Dataset.from_arrays(IMAGES // 2, LABELS, IMAGES[:9], LABELS[:9], title="again")
    assert second is first
    assert data.describe(first.name).title == "again"
    del second
    assert data.load(first.name) is first


def test_arrays_that_were_changed_are_not_taken_for_those_that_they_were() -> None:
    given = IMAGES // 2
    changed = Dataset.from_arrays(given, LABELS, IMAGES[:9], LABELS[:9])
    given[0] = 255 - given[0]
    made = Dataset.from_arrays(IMAGES // 2, LABELS, IMAGES[:9], LABELS[:9])
    assert (made.name, made.train_x[0].tolist()) == (changed.name, [(IMAGES[0] // 2).tolist()])
    del changed
    assert data.load(made.name) is made


def test_a_file_of_a_plan_stays_when_a_program_drops_its_arrays(tmp_path: Path) -> None:
    given = GIVEN | {"train_x": IMAGES // 3}
    np.savez(tmp_path / "squares.npz", **given)
    own = Dataset.from_arrays(**given)
    spec = DatasetSpec.model_validate({"file": str(tmp_path / "squares.npz")})
    del own
    assert data.load(spec.name).train_x[0].tolist() == [(IMAGES[0] // 3).tolist()]


def test_a_data_set_is_made_without_its_pixels_in_double_precision() -> None:
    pixels = RNG.integers(0, 256, (20_000, 3, 16, 16), dtype=np.uint8)
    labels = np.arange(20_000) % 3
    tracemalloc.start()
    try:
        made = Dataset.from_arrays(pixels, labels, pixels[:9], labels[:9])
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 4 * pixels.nbytes
    info = data.describe(made.name)
    assert info.mean == pytest.approx(pixels.mean((0, 2, 3)) / 255, abs=1e-6)
    assert info.std == pytest.approx(pixels.std((0, 2, 3)) / 255, abs=1e-6)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"train_x": IMAGES[0]}, r"train_x: shape \(8, 8\)"),
        ({"train_x": None}, r"train_x: shape \(\); give \[n, channels, height, width\], none"),
        ({"train_x": (image for image in IMAGES)}, r"train_x: shape \(\); give"),
        ({"train_x": np.arange(60.0)}, r"train_x: shape \(60,\); give"),
        ({"train_x": np.zeros((60, 5))}, r"a table as x.reshape\(n, 1, 1, 5\)"),
        ({"train_x": IMAGES.astype(np.int64)}, "uint8 pixels or floats, not int64"),
        ({"train_x": np.full((60, 8, 8), np.nan)}, "finite floats"),
        ({"test_y": LABELS[:9] / 2}, "test_y: give class numbers"),
        ({"test_y": LABELS[:9].astype(str)}, "test_y: .*, not <U21 .*; number the classes of both"),
        ({"train_y": LABELS[:5]}, "60 training examples with 5 labels"),
        ({"train_y": LABELS - 1}, "train_y: give class numbers from 0"),
        ({"test_x": IMAGES[:9, :4]}, r"uint8 \[1, 8, 8\] and uint8 \[1, 4, 8\]; give both"),
        ({"train_x": np.full((60, 8, 8), 1e19)}, r"finite floats, smaller than 1e\+18"),
        ({"train_x": IMAGES[:, :0]}, "none of them 0"),
        ({"train_x": [[[1]], [[1, 2]]]}, "train_x: rows of different lengths"),
        ({"train_y": LABELS * 0, "test_y": LABELS[:9] * 0}, "two classes or more"),
        ({"train_y": LABELS + 10**13}, "number the classes of both from 0"),
        ({"train_y": LABELS + 1, "test_y": LABELS[:9] + 1}, "train_y: no example of class 0, and"),
        ({"test_y": LABELS[:9] + 1}, "train_y: no example of class 3, which test_y has; train"),
        ({"test_y": np.full(9, 2**64 - 1, np.uint64)}, "test_y: give class numbers from 0"),
        ({"train_x": IMAGES.reshape(60, 8, 8, 1)}, r"height, width, channels.*moveaxis"),
        ({"test_x": np.zeros((9, 6, 8, 3), np.uint8)}, r"test_x: .*height, width, channels"),
        ({"test_x": IMAGES[:9] / 255.0}, r"uint8 \[1, 8, 8\] and float32 \[1, 8, 8\]; give both"),
        ({"train_x": np.ma.masked_array(IMAGES, IMAGES > 5)}, "train_x: some values are masked"),
        ({"train_x": torch.zeros(60, 8, 8, requires_grad=True)}, "train_x: .*requires grad"),
        (
            {"train_x": torch.zeros(60, 8, 8, dtype=torch.bfloat16)},
            "train_x: .*BFloat16; give an array$",
        ),
        ({"train_x": IMAGES * 1e-60, "test_x": IMAGES[:9] * 1e-60}, r"train_x: 0\.0 throughout"),
        ({"train_x": IMAGES * 1e300}, "finite floats"),
        ({"title": 5}, "title: 5 is no text"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, Any], text: str) -> None:
    arrays: dict[str, Any] = {
        "train_x": IMAGES,
        "train_y": LABELS,
        "test_x": IMAGES[:9],
        "test_y": LABELS[:9],
    }
    with pytest.raises(FedreproError, match=text):
        Dataset.from_arrays(**(arrays | change))


GIVEN = {"train_x": IMAGES, "train_y": LABELS, "test_x": IMAGES[:9], "test_y": LABELS[:9]}


def test_a_file_of_arrays_is_the_same_data_set_as_its_arrays(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "squares.npz", **GIVEN)
    spec = DatasetSpec.model_validate({"file": str(tmp_path / "squares.npz"), "downsample": 2})
    assert data.describe(spec.name).title == "squares"
    assert spec == DatasetSpec(name=Dataset.from_arrays(**GIVEN).name, downsample=2)
    assert arrays_file.file_of(spec.name) == tmp_path / "squares.npz"
    assert arrays_file.file_of("mnist") is None
    read = arrays_file.read(tmp_path / "squares.npz")
    assert arrays_file.read(tmp_path / "squares.npz") is read
    np.savez(tmp_path / "squares.npz", **(GIVEN | {"train_x": IMAGES[::-1]}))
    assert arrays_file.read(tmp_path / "squares.npz").name != read.name


@pytest.mark.parametrize(
    ("arrays", "text"),
    [
        ({"train_y": LABELS}, "has the arrays train_y; give train_x, train_y, test_x, test_y"),
        (GIVEN | {"val_x": IMAGES}, "has the arrays .*val_x; give"),
        ({}, r"has the arrays \(none\); give"),
        (GIVEN | {"train_y": LABELS / 2}, "train_y: give class numbers"),
        (GIVEN | {"train_y": np.array([None] * 60)}, "train_y.npy says object"),
    ],
)
def test_a_file_without_a_data_set_is_named(
    tmp_path: Path, arrays: dict[str, Any], text: str
) -> None:
    np.savez(tmp_path / "squares.npz", **arrays)
    with pytest.raises(FedreproError, match=rf"squares\.npz: .*{text}"):
        DatasetSpec.model_validate({"file": str(tmp_path / "squares.npz")})


def test_a_file_of_another_kind_is_named(tmp_path: Path) -> None:
    with pytest.raises(FedreproError, match=r"none\.npz: No such file"):
        arrays_file.read(tmp_path / "none.npz")
    (tmp_path / "text.npz").write_text("no arrays")
    with pytest.raises(FedreproError, match=r"text\.npz: File is not a zip file"):
        arrays_file.read(tmp_path / "text.npz")


def test_a_file_and_a_name_are_not_both_given(tmp_path: Path) -> None:
    np.savez(tmp_path / "squares.npz", **GIVEN)
    with pytest.raises(ValidationError, match="name: the file says so; leave it out"):
        DatasetSpec.model_validate({"file": str(tmp_path / "squares.npz"), "name": "mnist"})


ARRAYS = Arrays(IMAGES[:, None], LABELS, IMAGES[:9, None], LABELS[:9])


def plug_in(
    monkeypatch: pytest.MonkeyPatch, read: Callable[[], Any], **changes: object
) -> DatasetInfo:
    """Install a distribution that brings the data set `squares`; return its description."""
    described = data.describe(Dataset.from_arrays(IMAGES, LABELS, IMAGES[:9], LABELS[:9]).name)
    info = described.model_copy(update={"name": "squares", "format": "plugin"} | changes)
    point = Point("squares", Source(info, read))
    monkeypatch.setattr(
        importlib.metadata, "entry_points", lambda group: [point] if group == registry.GROUP else []
    )
    components.entry_points.cache_clear()
    sources._load.cache_clear()
    return info


@pytest.fixture(autouse=True)
def _forget_entry_points() -> Any:
    yield
    components.entry_points.cache_clear()


def test_a_data_set_of_another_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    info = plug_in(monkeypatch, lambda: ARRAYS)
    found = data.load("squares")
    np.testing.assert_array_equal(found.train_x, ARRAYS.train_x)
    assert (found.source, data.describe("squares")) == ("plugin", info)
    assert "OK       60 + 9, another distribution, content" in commands.verify(["squares"])
    with pytest.raises(FedreproError, match="of another distribution: install that"):
        commands.pack(Path("out"), ["squares"])
    with pytest.raises(FedreproError, match="'squares' from its distribution: content hash"):
        data.load("squares", content="0" * 64)


@pytest.mark.parametrize("read", [lambda: None, lambda: 1 / 0, lambda: Arrays([], [], [], [])])
def test_what_another_distribution_does_wrong_is_told(
    monkeypatch: pytest.MonkeyPatch, read: Callable[[], Any]
) -> None:
    plug_in(monkeypatch, read)
    with pytest.raises(FedreproError, match=r"elsewhere 0\.2: .* cannot be read"):
        data.load("squares")


@pytest.mark.parametrize("changes", [{"name": "circles"}, {"format": "synthetic"}])
def test_a_distribution_that_describes_another_data_set_is_named(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, object]
) -> None:
    """Of the format `synthetic`, made-up pictures would be read in place of its own."""
    plug_in(monkeypatch, lambda: ARRAYS, **changes)
    with pytest.raises(FedreproError, match=r"elsewhere 0\.2: .* is no data set of the name 'squ"):
        data.load("squares")
