"""The counter-based streams of :mod:`fedrepro.fl.streams`, computed on the device.

SplitMix64 in wrapping int64 arithmetic: the values are those of the NumPy version, bit for bit, on
every device. Keys are int64 tensors of any shape, written [*key] below, so the keys of many lanes
are derived and used at once, without involving the host.
"""

from __future__ import annotations

import math

import torch

_GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)
_MIX_1 = 0xBF58476D1CE4E5B9 - (1 << 64)
_MIX_2 = 0x94D049BB133111EB - (1 << 64)


def as_signed(key: int) -> int:
    """Return the int64 with the bits of a 64-bit key of :func:`fedrepro.fl.streams.key`."""
    return key - (1 << 64) if key >= 1 << 63 else key


def _shift(z: torch.Tensor, by: int) -> torch.Tensor:
    """Shift right without sign extension."""
    return (z >> by).bitwise_and_((1 << (64 - by)) - 1)


def _mix(z: torch.Tensor) -> torch.Tensor:
    """Mix in place: ``z`` must be the caller's own."""
    z.bitwise_xor_(_shift(z, 30)).mul_(_MIX_1)
    z.bitwise_xor_(_shift(z, 27)).mul_(_MIX_2)
    return z.bitwise_xor_(_shift(z, 31))


def bits(key: torch.Tensor, size: int) -> torch.Tensor:
    """Return the first ``size`` values of each stream, int64 [*key, size]."""
    counter = torch.arange(1, size + 1, device=key.device)
    return _mix(key.unsqueeze(-1) + counter * _GOLDEN)


def child(key: torch.Tensor, number: int | torch.Tensor) -> torch.Tensor:
    """Return the keys of sub-streams: value number ``number`` of each stream.

    Args:
        key: int64 [*key].
        number: from 0; int, or int64 tensor that broadcasts against ``key``.

    Returns:
        int64, of the shape that the two broadcast to.
    """
    if isinstance(number, int):
        return _mix(key + as_signed((number + 1) * _GOLDEN % (1 << 64)))
    return _mix(key + (number + 1) * _GOLDEN)


def keep(key: torch.Tensor, size: int, p: float) -> torch.Tensor:
    """Return which values a dropout of probability ``p`` keeps, bool [*key, size].

    A stream value serves four decisions of 16 bits, so ``p`` is rounded to a multiple of 2**-16.
    Decision number i does not depend on ``size``.

    Compiled code calls this without compiling it: on a CPU, PyTorch 2.11's compiler would change
    the masks.
    """
    if torch.compiler.is_compiling():
        kept: torch.Tensor = torch.ops.fedrepro.keep(key, size, p)
        return kept
    return _keep(key, size, p)


def _keep(key: torch.Tensor, size: int, p: float) -> torch.Tensor:
    quarters = bits(key, (size + 3) // 4).view(torch.int16)  # the lowest first
    unsigned = quarters ^ -32768  # in the order of unsigned numbers, less 32768
    return (unsigned >= round(p * 65536) - 32768)[..., :size].contiguous()


torch.library.custom_op("fedrepro::keep", _keep, mutates_args=()).register_fake(
    lambda key, size, p: torch.empty(*key.shape, size, dtype=torch.bool, device=key.device)
)


def uniform(key: torch.Tensor, size: int) -> torch.Tensor:
    """Return numbers in [0, 1) on a grid of 2**-24, float32 [*key, size]."""
    return _shift(bits(key, size), 40).to(torch.float32) * 2.0**-24


def normal(key: torch.Tensor, size: int) -> torch.Tensor:
    """Return standard normal numbers (Box and Muller 1958), float32 [*key, size]."""
    half = (size + 1) // 2
    raw = bits(key, half)
    radius = (_shift(raw, 40).to(torch.float32) + 0.5) * 2.0**-24
    angle = (raw & 0xFFFFFF).to(torch.float32) * (2.0**-24 * 2 * math.pi)
    radius = torch.sqrt(-2 * torch.log(radius))
    both = torch.stack([radius * torch.cos(angle), radius * torch.sin(angle)], dim=-1)
    return both.flatten(-2)[..., :size]
