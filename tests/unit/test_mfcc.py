"""MFCC features against plain NumPy, by hand-computed numbers, and on real clips."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fedrepro.fl.data import mfcc, packs

SAMPLE = "speech_commands_wav_sample.npz"
FEATURES = "speech_commands_mfcc.npz"


def tone(hertz: float, amplitude: float = 0.5, samples: int = 16_000) -> NDArray[np.int16]:
    wave = amplitude * np.sin(2 * np.pi * hertz * np.arange(samples) / 16_000)
    return np.rint(32_767 * wave).astype(np.int16)


def noise(seed: int, amplitude: float = 0.1) -> NDArray[np.int16]:
    wave = np.random.default_rng(seed).normal(0, amplitude, 16_000)
    return np.rint(32_767 * wave.clip(-1, 1)).astype(np.int16)


def by_hand(clip: NDArray[np.int16]) -> NDArray[np.float64]:
    """Compute the 50 x 10 coefficients of one clip frame by frame, by the formulas alone."""
    padded = np.concatenate([clip / 32_768, np.zeros(160)])
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(480) / 480)
    lowest, highest = (2595 * np.log10(1 + hertz / 700) for hertz in (20, 4000))
    edges = 700 * (10 ** (np.linspace(lowest, highest, 42) / 2595) - 1)
    low, middle, high = (edges[i : i + 40, None] for i in range(3))
    hertz = np.arange(257) * 16_000 / 512
    triangles = np.minimum((hertz - low) / (middle - low), (high - hertz) / (high - middle)).clip(0)
    angles = np.pi * (np.arange(40) + 0.5) / 40
    scales = [np.sqrt(1 / 40)] + [np.sqrt(2 / 40)] * 9
    rows = []
    for frame in range(50):
        samples = padded[320 * frame : 320 * frame + 480]
        magnitudes = np.abs(np.fft.rfft(window * samples, 512))
        logarithms = np.log(np.maximum(triangles @ magnitudes, 1e-12))
        rows.append([s * (logarithms * np.cos(k * angles)).sum() for k, s in enumerate(scales)])
    return np.array(rows)


def test_a_second_has_fifty_frames_by_the_ceil_rule() -> None:
    assert mfcc.FRAMES == 50
    assert 320 * 48 + 480 < 16_000 <= 320 * 49 + 480  # 49 frames miss samples, 50 do not


def test_clips_are_cut_or_padded_to_a_second() -> None:
    clip = np.arange(1, 16_101, dtype=np.int16)
    np.testing.assert_array_equal(mfcc.fit_length(clip), clip[:16_000])
    short = mfcc.fit_length(clip[:3])
    assert short[:4].tolist() == [1, 2, 3, 0]
    assert short.shape == (16_000,)
    assert short.dtype == np.int16
    assert not short[3:].any()


@pytest.mark.parametrize("clip", [noise(0), tone(440), tone(3000, samples=5000)])
def test_features_are_those_of_the_formulas(clip: NDArray[np.int16]) -> None:
    clip = mfcc.fit_length(clip)
    found = mfcc.mfcc_50x10(clip[None])
    assert found.shape == (1, 50, 10)
    np.testing.assert_allclose(found[0], by_hand(clip), rtol=0, atol=1e-9)


def test_the_first_coefficient_is_loudness() -> None:
    """Twice the amplitude adds ln 2 to 40 bands: sqrt(40) ln 2 = 4.3839 to coefficient 0 alone."""
    clip = noise(1, 0.05) // 2
    louder = mfcc.mfcc_50x10(np.stack([clip, 2 * clip]))
    difference = louder[1] - louder[0]
    np.testing.assert_allclose(difference[:, 0], 4.3839, atol=1e-4)
    np.testing.assert_allclose(difference[:, 1:], 0, atol=1e-9)


def test_rows_are_time() -> None:
    clip = np.zeros(16_000, np.int16)
    clip[8000:] = tone(1000)[8000:]
    loudness = mfcc.mfcc_50x10(clip[None])[0, :, 0]
    first = 24  # covers samples 7,680 to 8,159; frame 23 ends with 7,839
    np.testing.assert_allclose(loudness[:first], np.sqrt(40) * np.log(1e-12))
    assert (loudness[first:] > loudness[0] + 10).all()


def test_a_clip_does_not_depend_on_its_batch() -> None:
    clips = np.stack([noise(seed) for seed in range(5)])
    together = mfcc.in_steps(mfcc.mfcc_50x10(clips))
    alone = [mfcc.in_steps(mfcc.mfcc_50x10(clip[None]))[0] for clip in clips]
    np.testing.assert_array_equal(together, alone)


def test_steps_are_a_1024th() -> None:
    assert mfcc.in_steps(np.array([1.0, -0.5, 0.0004, 0.0006])).tolist() == [1024, -512, 0, 1]


def test_standardised_by_hand() -> None:
    train = np.array([[[1, 10], [3, 10]], [[5, 10], [7, 30]]])  # means 4, 15; variances 5, 75
    test = np.array([[[4, 15], [9, 0]]])
    scaled, other = mfcc.standardised(train, test)
    assert scaled.dtype == other.dtype == np.float32
    np.testing.assert_allclose(scaled[..., 0], np.array([[-3, -1], [1, 3]]) / np.sqrt(5), rtol=1e-6)
    np.testing.assert_allclose(other[0, 1], [5 / np.sqrt(5), -15 / np.sqrt(75)], rtol=1e-6)
    with pytest.raises(ValueError, match="the same in all frames"):
        mfcc.standardised(train * [1, 0], test)


def test_sums_of_large_features_are_exact() -> None:
    train = np.full((2, 50, 1), 2**27, np.int32)
    train[0] += 1  # variance 1/4, lost in double precision next to squares of 2^54
    scaled, _ = mfcc.standardised(train, train)
    np.testing.assert_array_equal(scaled[0], 1.0)
    np.testing.assert_array_equal(scaled[1], -1.0)


@pytest.fixture(scope="module")
def sample() -> dict[str, NDArray[Any]]:
    """Return the 100 real clips: ``wav`` int16 [100, 16000], ``n``, ``y``, ``files``, ..."""
    folder = Path(os.environ.get("FEDREPRO_DATA") or "data/pack")
    if not packs.has(folder, (SAMPLE,)):
        pytest.skip(f"no real clips: {SAMPLE} is in no pack that FEDREPRO_DATA names")
    with packs.opened(folder, SAMPLE) as arrays:
        return dict(arrays)


def test_real_clips_have_the_features_of_the_formulas(sample: dict[str, NDArray[Any]]) -> None:
    clips = sample["wav"]
    assert clips.shape == (100, 16_000)
    found = mfcc.mfcc_50x10(clips)
    assert found.shape == (100, 50, 10)
    np.testing.assert_array_equal(found, mfcc.mfcc_50x10(clips))
    assert sample["n"].min() < 16_000  # padded clips are among them
    for clip, features in zip(clips, found, strict=True):
        np.testing.assert_allclose(features, by_hand(clip), rtol=0, atol=1e-9)
    spread = found.std(axis=(0, 1))
    assert (spread[0] > 4 * spread[1:]).all()  # loudness varies most
    assert np.isfinite(found).all()


def test_packed_features_are_made_again_from_real_clips(sample: dict[str, NDArray[Any]]) -> None:
    folder = Path(os.environ.get("FEDREPRO_DATA") or "data/pack")
    if not packs.has(folder, (FEATURES,)):
        pytest.skip(f"{folder} holds no {FEATURES}")
    with packs.opened(folder, FEATURES) as arrays:
        packed, labels = arrays["x"][sample["mfcc_row"]], arrays["y"][sample["mfcc_row"]]
        scale = float(arrays["scale"])
    np.testing.assert_array_equal(labels, sample["y"])
    made = np.stack(
        [
            mfcc.mfcc_20x11(clip[:length])
            for clip, length in zip(sample["wav"], sample["n"], strict=True)
        ]
    )
    off = np.abs(np.rint(made * scale) - packed)
    assert off.max() <= 1
    assert (off > 0).mean() < 1e-3  # another processor may round the last bit in another way
    assert np.abs(made - packed / scale).max() < 0.0185  # the rounding that the pack states


def test_packed_recipe_pads_short_clips_with_zeros() -> None:
    features = mfcc.mfcc_20x11(tone(500, samples=12_000))  # 4,000 samples: 8 frames
    assert features.shape == (20, 11)
    assert features[:, :8].any(axis=0).all()
    assert not features[:, 8:].any()
