"""What reaches a network: shapes, the tutorial's transform, and augmentation from named streams."""

import numpy as np
import pytest
import torch
from small_runs import float_dataset, make_spec

from fedrepro.base.errors import FedreproError
from fedrepro.fl import data, device_streams
from fedrepro.fl.engine.data import PADDING, DeviceData, tensors_of
from fedrepro.fl.federation import Federation
from fedrepro.fl.spec import DatasetSpec

CPU = torch.device("cpu")


def device_data(dataset=None, name="synthetic", **options):
    spec = DatasetSpec.model_validate({"name": name} | options)
    return DeviceData(spec, tensors_of(dataset or data.load(name)), CPU)


def keys(*numbers):
    return device_streams.child(torch.tensor(11), torch.tensor(numbers))


def test_input_shapes():
    shapes = {
        transform: DatasetSpec.model_validate(
            {"name": "synthetic_rgb", "transform": transform}
        ).input_shape((3, 32, 32))
        for transform in ("unit", "centred", "standard", "tutorial24")
    }
    whole = dict.fromkeys(("unit", "centred", "standard"), (3, 32, 32))
    assert shapes == whole | {"tutorial24": (3, 24, 24)}


def test_centred_pixels_reach_from_minus_to_plus_one_half():
    stored = data.load("synthetic_rgb")
    images, _ = device_data(name="synthetic_rgb", transform="centred").batch(
        "test", torch.arange(len(stored.test_x))
    )
    expected = (stored.test_x.astype(np.float64) - 127.5) / 255
    np.testing.assert_allclose(images.numpy(), expected, rtol=0, atol=1e-7)


def test_downsampled_pixels_are_means_of_blocks():
    stored = data.load("synthetic_rgb")
    ours = device_data(name="synthetic_rgb", downsample=4)
    images, _ = ours.batch("test", torch.arange(6))
    blocks = stored.test_x[:6].reshape(6, 3, 8, 4, 8, 4)
    np.testing.assert_allclose(images.numpy(), blocks.mean(axis=(3, 5)) / 255, rtol=1e-6)
    assert ours.shape == (3, 8, 8)


def test_images_are_augmented_before_they_are_downsampled():
    draws = device_data(name="synthetic_rgb", augment=True).draws(keys(0)[0], 6)
    whole, half = (
        device_data(name="synthetic_rgb", augment=True, **options).batch(
            "train", torch.arange(6), draws
        )[0]
        for options in ({}, {"downsample": 2})
    )
    means = whole.reshape(6, 3, 16, 2, 16, 2).mean(dim=(3, 5))
    torch.testing.assert_close(half, means, rtol=1e-5, atol=1e-6)


def test_what_cannot_be_downsampled_is_a_clear_error():
    with pytest.raises(FedreproError, match=r"32x32 pixels, which blocks of 3x3 do not fill"):
        device_data(name="synthetic_rgb", downsample=3)
    with pytest.raises(ValueError, match="downsample goes with every transform but tutorial24"):
        DatasetSpec(name="synthetic_rgb", transform="tutorial24", downsample=2)


def test_images_smaller_than_the_crop_are_a_clear_error():
    message = r"tutorial24 crops 24x24 pixels, but kws_mfcc20 has examples of 20x11; choose"
    dataset = float_dataset(np.zeros((20, 1, 20, 11), np.float32), np.arange(20) % 10)
    spec = make_spec(dataset={"name": "kws_mfcc20", "transform": "tutorial24"})
    with pytest.raises(FedreproError, match=message):
        Federation(spec, dataset)
    with pytest.raises(FedreproError, match=message):
        device_data(dataset, "kws_mfcc20", transform="tutorial24")


def test_unit_divides_bytes_and_leaves_floats():
    stored = data.load("synthetic")
    images, labels = device_data().batch("test", torch.tensor([4, 0]))
    np.testing.assert_array_equal(images.numpy(), stored.test_x[[4, 0]] / np.float32(255))
    assert labels.tolist() == stored.test_y[[4, 0]].tolist()
    values = np.random.default_rng(0).normal(0, 100, (20, 1, 5, 4)).astype(np.float32)
    dataset = float_dataset(values, np.arange(20) % 10)
    images, _ = device_data(dataset, "kws_mfcc20").batch("train", torch.arange(20))
    np.testing.assert_array_equal(images.numpy(), values)
    np.testing.assert_array_equal(dataset.train_x, values)


def standardised(image):
    values = image.astype(np.float64)
    return (values - values.mean()) / max(values.std(), 1 / values.size**0.5)


def test_the_tutorial_evaluates_the_standardised_centre():
    stored = data.load("synthetic_rgb")
    for augment in (False, True):
        ours = device_data(name="synthetic_rgb", transform="tutorial24", augment=augment)
        images, _ = ours.batch("test", torch.arange(6))
        for image, raw in zip(images.numpy(), stored.test_x, strict=False):
            expected = standardised(raw[:, 4:28, 4:28])
            np.testing.assert_allclose(image, expected, rtol=1e-4, atol=1e-4)


def test_a_flat_image_is_standardised_to_zeros():
    dataset = float_dataset(np.full((10, 1, 28, 28), 7, np.float32), np.arange(10))
    images, _ = device_data(dataset, "kws_mfcc20", transform="tutorial24").batch(
        "train", torch.arange(3)
    )
    assert images.abs().max() < 1e-3


def ramp(channels=2, size=28, count=10):
    """Images whose pixels all differ, so that a window can be found in them."""
    values = np.arange(count * channels * size * size, dtype=np.float32) + 1
    images = values.reshape(count, channels, size, size)
    return float_dataset(images, np.arange(count) % 10)


def find(window, image):
    """Return (row, column, flipped) of a window of an image, [channels, height, width]."""
    height, width = window.shape[1:]
    found = [
        (row, column, flipped)
        for row in range(image.shape[1] - height + 1)
        for column in range(image.shape[2] - width + 1)
        for flipped in (False, True)
        if np.array_equal(
            window[:, :, ::-1] if flipped else window,
            image[:, row : row + height, column : column + width],
        )
    ]
    assert len(found) == 1
    return found[0]


def test_crops_are_windows_of_the_padded_image():
    dataset = ramp()
    augmented = device_data(dataset, "kws_mfcc20", augment=True)
    found = []
    for key in keys(*range(20)):
        chosen = torch.tensor([3, 0, 3, 9])
        images, labels = augmented.batch("train", chosen, augmented.draws(key, len(chosen)))
        assert labels.tolist() == [3, 0, 3, 9]
        for image, i in zip(images.numpy(), chosen.tolist(), strict=True):
            wide = np.pad(dataset.train_x[i], [(0, 0), *[(PADDING, PADDING)] * 2])
            found.append(find(image, wide))
    rows, columns, flips = (np.array(values) for values in zip(*found, strict=True))
    for offsets in (rows, columns):
        assert offsets.min() == 0
        assert offsets.max() == 2 * PADDING
        counts = np.bincount(offsets, minlength=9)  # 80 draws over 9 places
        assert ((counts - 80 / 9) ** 2 / (80 / 9)).sum() < 26  # chi squared, 8 degrees, p = 0.001
    assert 40 - 5 * 20**0.5 < flips.sum() < 40 + 5 * 20**0.5
    assert abs(np.corrcoef(rows, columns)[0, 1]) < 0.45
    assert abs(np.corrcoef(rows, flips)[0, 1]) < 0.45


def test_the_tutorial_crops_flips_changes_the_contrast_and_standardises():
    """With one channel the standardisation takes the contrast away again, with two it does not."""
    for channels, contrast_shows in ((1, False), (2, True)):
        generator = np.random.default_rng(0)
        raw = generator.uniform(0, 50, (10, channels, 32, 32)).astype(np.float32)
        raw[:, -1] += 100  # the channels' means stay apart at any contrast
        dataset = float_dataset(raw, np.arange(10))
        augmented = device_data(dataset, "kws_mfcc20", transform="tutorial24", augment=True)
        images, _ = augmented.batch(
            "train", torch.tensor([2] * 60), augmented.draws(keys(5)[0], 60)
        )
        factors = []
        places = np.stack([*windows(raw[2])]).astype(np.float64)
        for image in images.numpy().astype(np.float64):
            assert image.mean() == pytest.approx(0, abs=1e-4)
            assert image.std() == pytest.approx(1, abs=1e-4)
            first = np.stack([image[0], *places[:, 0]]).reshape(1 + len(places), -1)
            scores = np.corrcoef(first)[0, 1:]
            assert scores.max() > 0.9999
            window = places[scores.argmax()]
            if contrast_shows:
                between = window[1].mean() - window[0].mean()
                scale = (image[1].mean() - image[0].mean()) / between
                factors.append(image[0].std() / scale / window[0].std())
            else:
                np.testing.assert_allclose(image, standardised(window), atol=1e-3)
        if contrast_shows:
            assert 0.2 <= min(factors) < 0.4
            assert 1.6 < max(factors) <= 1.8
            assert np.mean(factors) == pytest.approx(1.0, abs=5 * 0.46 / 60**0.5)


def windows(image):
    """Yield all windows of 24x24 pixels, plain and mirrored."""
    for row in range(9):
        for column in range(9):
            window = image[:, row : row + 24, column : column + 24]
            yield window
            yield window[:, :, ::-1]


@pytest.mark.parametrize("transform", ["unit", "centred", "standard", "tutorial24"])
def test_the_key_and_the_place_in_the_batch_decide(transform):
    augmented = device_data(transform=transform, augment=True)
    chosen = torch.tensor([5, 6, 5, 7, 1, 2])
    one, two = (augmented.draws(key, len(chosen)) for key in keys(1, 2))
    images, _ = augmented.batch("train", chosen, one)
    torch.manual_seed(1)
    assert torch.equal(augmented.batch("train", chosen, one)[0], images)
    assert not torch.equal(augmented.batch("train", chosen, two)[0], images)
    assert torch.equal(augmented.batch("train", chosen[:4], one)[0], images[:4])
    plain, _ = augmented.batch("train", chosen)
    assert not torch.allclose(plain, images)
    assert torch.equal(plain, device_data(transform=transform).batch("train", chosen, one)[0])


@pytest.mark.parametrize("transform", ["unit", "centred", "standard", "tutorial24"])
@pytest.mark.parametrize("augment", [False, True])
def test_lanes_side_by_side_get_what_each_gets_alone(transform, augment):
    examples = torch.tensor([[5, 6, 7], [5, 6, 7], [0, 0, 9], [1, 2, 3]])
    both = device_data(transform=transform, augment=augment)
    images, labels = both.batch("train", examples, both.draws(keys(1, 2, 3, 1), examples.shape[1]))
    assert images.shape == (4, 3, *both.shape)
    for lane, key in enumerate(keys(1, 2, 3, 1)):
        alone, own = both.batch("train", examples[lane], both.draws(key, examples.shape[1]))
        assert torch.equal(images[lane], alone)
        assert torch.equal(labels[lane], own)
    assert torch.equal(images[0], images[1]) != augment
