"""The distillation loss of CADIS (Nguyen et al. 2023, eq. 18-20): a batch's pairwise structure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedrepro.fl.losses.term import LossTerm, Outputs

if TYPE_CHECKING:
    import torch

SMALLEST_BATCH = 3
"""Fewest examples of a batch with a pairwise structure; two have a single distance."""
_VARIANCE_FLOOR = 0.001


def pairwise_divergence(student: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
    """Return D, how far a batch's pairwise structure is from the teacher's (Nguyen et al. 2023).

    With ``d_ab`` the Euclidean distances of the representations of different examples, and m and v
    their mean and unbiased variance, ``k_ab = exp(-(d_ab - m)^2 / (2 (v + 0.001)))`` is normalised
    over b: to p_ab for the student, q_ab for the teacher. D is the sum of ``q_ab log(q_ab / p_ab)``
    over all pairs, KL(teacher || student) of every row (eq. 18-19, with the kernel of the authors'
    code, as the text leaves the bandwidth open). Batches of fewer than three examples have D = 0.

    Args:
        student: representations, float32 [n, features].
        teacher: representations of the same examples by the start model, float32 [n, features].

    Returns:
        D in nats, float32 [].
    """
    import torch

    count = student.shape[0]
    pairs = 1 - torch.eye(count, device=student.device)
    log_p = _log_affinity(student, pairs)
    log_q = _log_affinity(teacher, pairs)
    divergence = (pairs * log_q.exp() * (log_q - log_p)).sum()
    return divergence * float(count >= SMALLEST_BATCH)


def _log_affinity(representation: torch.Tensor, pairs: torch.Tensor) -> torch.Tensor:
    """Return the log of the normalised kernel, [n, n]; meaningless where ``pairs`` is 0."""
    import torch

    difference = representation[:, None, :] - representation[None, :, :]
    squared = difference.square().sum(-1)
    apart = squared > 0
    distance = torch.where(apart, squared, 1.0).sqrt() * apart
    number = pairs.sum()
    mean = (pairs * distance).sum() / number.clamp(min=1)
    variance = (pairs * (distance - mean).square()).sum() / (number - 1).clamp(min=1)
    exponent = -0.5 * (distance - mean).square() / (variance + _VARIANCE_FLOOR)
    exponent = exponent.masked_fill(pairs == 0, -1e9)
    return exponent - exponent.logsumexp(dim=1, keepdim=True)


def _of(outputs: Outputs) -> torch.Tensor:
    assert outputs.start is not None
    return pairwise_divergence(outputs.representation, outputs.start)


TERM = LossTerm("pairwise_divergence", _of, needs_start=True)
