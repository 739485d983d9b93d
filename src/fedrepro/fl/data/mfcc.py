"""Mel-frequency cepstral coefficients (MFCC) of spoken words, computed with librosa.

`mfcc_50x10` makes the features of ``kws_mfcc`` (Zhao et al. 2018, section 2.1), `mfcc_20x11` those
of ``kws_mfcc20``. librosa is imported only where they are computed, so that neither training nor
reading stored features needs it.

What Zhao et al. state: 10 MFCC for each frame of 30 ms, a stride of 20 ms, 50 x 10 features. What
they leave open, and what is done here:

- *Number of frames.* A second holds 49 whole frames of 30 ms, which leave the last 10 ms out; 50
  cover it all ("ceil rule"). Frame i covers samples 320 i to 320 i + 479; zeros follow the last
  sample.
- *Everything between frame and coefficient* follows Zhang et al. 2017 ("Hello Edge"), from whom
  Zhao et al. take the network, and TensorFlow's operations, which that work uses: Hann window,
  512-point Fourier transform, magnitudes, 40 triangular bands from 20 to 4,000 Hz on HTK's mel
  scale, natural logarithm of at least 1e-12, DCT-II. The triangles are librosa's, which are
  straight over frequency, not over mel.
- *Scale.* Each coefficient is standardised with its mean and standard deviation over all training
  frames (`standardised`), so constant factors, such as those of the DCT, do not matter.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

RATE = 16_000
"""Samples a second, and samples of a clip."""

FRAME, STRIDE = 480, 320
"""Samples of a frame (30 ms), and from one frame to the next (20 ms)."""

FRAMES = 1 + math.ceil((RATE - FRAME) / STRIDE)
"""Frames of a clip by the ceil rule: 50."""

COEFFICIENTS = 10

STEPS = 1024
"""Features are stored as multiples of 1/STEPS, so that the rounding of a machine's Fourier
transform, about 1e-12, does not show in the content hash."""

_FFT, _BANDS, _LOWEST, _HIGHEST, _FLOOR = 512, 40, 20.0, 4000.0, 1e-12
_FULL_SCALE = 32_768.0

Clips = NDArray[np.int16]


def fit_length(clip: Clips) -> Clips:
    """Cut a clip after its first second, or append zeros: int16 [samples] -> int16 [16000]."""
    fitted = np.zeros(RATE, np.int16)
    fitted[: len(clip)] = clip[:RATE]
    return fitted


def mfcc_50x10(clips: Clips) -> NDArray[np.float64]:
    """Compute the features of ``kws_mfcc``, before they are standardised.

    Args:
        clips: int16 [n, 16000].

    Returns:
        float64 [n, 50 frames, 10 coefficients].
    """
    import librosa

    before = (_FFT - FRAME) // 2  # librosa centres the window in the span it transforms
    behind = STRIDE * (FRAMES - 1) + _FFT - before - RATE
    padded = np.pad(clips / _FULL_SCALE, ((0, 0), (before, behind)))
    spectra = librosa.stft(
        padded, n_fft=_FFT, hop_length=STRIDE, win_length=FRAME, window="hann", center=False
    )
    triangles = librosa.filters.mel(
        sr=RATE,
        n_fft=_FFT,
        n_mels=_BANDS,
        fmin=_LOWEST,
        fmax=_HIGHEST,
        htk=True,
        norm=None,
        dtype=np.float64,
    )
    logarithms = np.log(np.maximum(triangles @ np.abs(spectra), _FLOOR))
    coefficients: NDArray[np.float64] = librosa.feature.mfcc(S=logarithms, n_mfcc=COEFFICIENTS)
    return coefficients.transpose(0, 2, 1)


def in_steps(features: NDArray[np.float64]) -> NDArray[np.int32]:
    """Return features in steps of 1/STEPS, rounded to int32, as they are stored; same shape."""
    return np.rint(features * STEPS).astype(np.int32)


def standardised(
    train: NDArray[np.integer[Any]], test: NDArray[np.integer[Any]]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Give each coefficient mean 0 and standard deviation 1 over all frames of the training clips.

    Sums are exact, so the result is the same to the last bit on every machine.

    Args:
        train: features of the training clips in steps, integer [n, frames, coefficients].
        test: those of the test clips, standardised with the same constants.

    Returns:
        Both as float32, of the same shapes.

    Raises:
        ValueError: a coefficient is the same in all training frames.
    """
    values = train.astype(np.int64)
    count = values.shape[0] * values.shape[1]
    sums, squares = values.sum((0, 1)).tolist(), (values**2).sum((0, 1)).tolist()
    spreads = [count * square - s * s for s, square in zip(sums, squares, strict=True)]
    if not all(spread > 0 for spread in spreads):
        raise ValueError("a coefficient is the same in all frames of the training clips")
    mean = np.array([s / count for s in sums])
    std = np.array([math.sqrt(spread / count**2) for spread in spreads])
    scaled = [((steps - mean) / std).astype(np.float32) for steps in (train, test)]
    return scaled[0], scaled[1]


def mfcc_20x11(clip: Clips) -> NDArray[np.float64]:
    """Compute the features of one clip as those of ``kws_mfcc20`` were computed by their author.

    Every third sample is taken without a filter, but the rate is given as 16 kHz all the same, so
    a frame of 2,048 samples spans 0.38 s. 128 bands, decibels down to 80 below the loudest,
    20 coefficients, padded with zeros to 11 frames. ``kws_mfcc20`` holds the result in steps of
    1/28.

    Args:
        clip: int16 [at most 16000], as recorded, without padding.

    Returns:
        float64 [20 coefficients, 11 frames].
    """
    import librosa

    wave = (clip[::3] / _FULL_SCALE).astype(np.float32)
    found = librosa.feature.mfcc(
        y=wave, sr=RATE, n_mfcc=20, n_fft=2048, hop_length=512, pad_mode="reflect"
    )
    features = np.zeros((20, 11))
    features[:, : found.shape[1]] = found[:, :11]
    return features
