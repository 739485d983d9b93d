"""Scores of FedCD: how good each of its models is to a device, and which of them it drops.

Kopparapu, Lin, Zhao 2020, section 2, equations 2 to 4. A device's scores are a dictionary from its
active models to ``c >= 0``; they sum to 1 unless said otherwise. Accuracies are fractions.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

Scores = Mapping[int, float]

LOWEST = 1e-5
"""What an accuracy of 0 counts as."""
CROWD = 3
"""With more models than this ever created, a score below a tenth of the best is dropped too."""
_SLACK = 1e-12


def raw_score(history: Sequence[float], window: int) -> float:
    """Return the mean of the last ``window`` accuracies (equation 2), a fraction.

    A history shorter than ``window`` counts by its last entry alone, as in the public code.

    Args:
        history: validation accuracies, fractions, at least one.
        window: l, number of accuracies averaged.
    """
    recent = history[-window:] if len(history) >= window else history[-1:]
    return max(sum(recent) / len(recent), LOWEST)


def normalised(
    histories: Mapping[int, Sequence[float]],
    active: Sequence[int],
    window: int,
    created: int | None = None,
) -> dict[int, float]:
    """Return the active models' raw scores, divided by their sum (equation 3).

    Args:
        histories: validation accuracies (fractions) of every model that the device ever had.
        active: models it still has.
        window: l, number of accuracies averaged.
        created: number of models ever created: divide by the sum over all of them (as run), where
            a model that the device has lost counts by its last accuracies, and one it never had as
            an accuracy of 0. None: divide by the sum over the active ones.
    """
    raw = {m: raw_score(histories[m], window) for m in active}
    if created is None:
        total = sum(raw.values())
    else:
        never = created - len(histories)
        total = sum(raw_score(history, window) for history in histories.values()) + never * LOWEST
    return {m: value / total for m, value in raw.items()}


def dropped(scores: Scores, rule: Literal["code", "paper"], created: int) -> list[int]:
    """Return the models that a device deletes (equation 4).

    Taken literally, ``max - c >= sd`` deletes one of any two models, and even a single one.
    ``paper`` is strict and needs three models, of which it may leave one. ``code`` deletes where
    ``mean - c > sd``, which never holds for two; and, once more than three models were created,
    where ``10 c < max``. The standard deviation is the sample's.

    Args:
        scores: of the device's models.
        rule: ``code`` or ``paper``.
        created: number of models ever created.
    """
    if len(scores) < 2:
        return []
    values = list(scores.values())
    highest, spread = max(values), statistics.stdev(values)
    if rule == "paper":
        if len(scores) < 3:
            return []
        return [m for m, c in scores.items() if highest - c > spread + _SLACK]
    level = statistics.fmean(values)
    return [
        m
        for m, c in scores.items()
        if level - c > spread + _SLACK or (created > CROWD and 10 * c < highest)
    ]


def noisy(scores: Scores, sd: float, rng: np.random.Generator) -> dict[int, float]:
    """Return the scores with noise that cancels in their sum, none below 0.

    A model chosen uniformly gets a number from Normal(0, sd^2) added; the others share its
    opposite equally. A single model has no noise.
    """
    models = list(scores)
    if sd == 0 or len(models) < 2:
        return dict(scores)
    chosen = models[int(rng.integers(len(models)))]
    noise = float(rng.normal(0, sd))
    shift = -noise / (len(models) - 1)
    return {m: max(c + (noise if m == chosen else shift), 0.0) for m, c in scores.items()}


def noisy_as_run(
    scores: Scores, gone: Sequence[int], created: int, sd: float, rng: np.random.Generator
) -> dict[int, float]:
    """Return the scores of the models that stay, with the noise of the public code.

    The model that the noise is added to may be one that was just deleted; every other model ever
    created, deleted ones included, has ``noise / (len(scores) - 1)`` subtracted. If a score is then
    below 0, the smallest is subtracted from all. The sum over all models is 1, so the scores of
    those that stay sum to less where deleted models hold noise.

    Args:
        scores: of the device's models before the deletion.
        gone: models that it has just deleted.
        created: number of models ever created.
        sd: standard deviation of the noise on one score.
        rng: draws the model and the noise.
    """
    values = np.zeros(created)
    for m, c in scores.items():
        values[m] = 0 if m in gone else c
    chosen = list(scores)[int(rng.integers(len(scores)))]
    noise = float(rng.normal(0, sd))
    if len(scores) > 1:
        values[np.arange(created) != chosen] -= noise / (len(scores) - 1)
    values[chosen] += noise
    values -= min(values.min(), 0)
    values /= values.sum()
    return {m: float(values[m]) for m in scores if m not in gone}


def loser_of_two(scores: Scores, rule: Literal["score", "gap"], threshold: float) -> int | None:
    """Return the worse of exactly two models if it is to be deleted, else None (section 2).

    Args:
        scores: of the device's models.
        rule: ``score``: if its score is at most the threshold; ``gap``: if it is more than the
            threshold below the other (as run).
        threshold: of the score or of the gap; the paper's is a score of 0.3.
    """
    if len(scores) != 2:
        return None
    worse, better = sorted(scores, key=lambda m: scores[m])
    low, high = scores[worse], scores[better]
    gone = low <= threshold if rule == "score" else high - low > threshold
    return worse if gone else None


def best(scores: Scores) -> int:
    """Return the model with the highest score; of equal ones the one with the lowest index."""
    return min(scores, key=lambda m: (-scores[m], m))
