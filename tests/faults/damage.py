"""Ways to damage a file, drawn at random."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

Change = Callable[[random.Random, bytes], bytes]


def _flip(draw: random.Random, content: bytes) -> bytes:
    changed = bytearray(content)
    for _ in range(draw.choice([1, 1, 1, 2, 8])):
        changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def _cut(draw: random.Random, content: bytes) -> bytes:
    return content[: draw.choice([0, 1, len(content) - 1, draw.randrange(len(content))])]


def _block(draw: random.Random, content: bytes) -> tuple[int, int]:
    start = draw.randrange(len(content))
    return start, min(len(content), start + draw.choice([1, 16, 512, 4096]))


def _zero(draw: random.Random, content: bytes) -> bytes:
    start, end = _block(draw, content)
    return content[:start] + bytes(end - start) + content[end:]


def _noise(draw: random.Random, content: bytes) -> bytes:
    start, end = _block(draw, content)
    return content[:start] + draw.randbytes(end - start) + content[end:]


def _lose(draw: random.Random, content: bytes) -> bytes:
    start, end = _block(draw, content)
    return content[:start] + content[end:]


def _repeat(draw: random.Random, content: bytes) -> bytes:
    start, end = _block(draw, content)
    return content[:end] + content[start:end] + content[end:]


def _digit(draw: random.Random, content: bytes) -> bytes:
    """Change a digit to another one, as an editor can."""
    places = [place for place, byte in enumerate(content) if 48 <= byte <= 57]
    if not places:
        return _flip(draw, content)
    place = draw.choice(places)
    other = draw.choice([digit for digit in b"0123456789" if digit != content[place]])
    return content[:place] + bytes([other]) + content[place + 1 :]


def _another_kind(draw: random.Random, content: bytes) -> bytes:
    others = [
        b"",
        b"\0" * len(content),
        b"{}",
        b"[]",
        b"null",
        b"NaN",
        b"[" * 5000,
        b"\xff\xfe" + content,
        b"\x1f\x8b\x08" + content,
        b"PK\x03\x04" + content,
        draw.randbytes(200),
    ]
    return draw.choice(others)


CHANGES: dict[str, Change] = {
    "flipped bits": _flip,
    "cut off": _cut,
    "a block of zeros": _zero,
    "a block of noise": _noise,
    "a block lost": _lose,
    "a block twice": _repeat,
    "a digit changed": _digit,
    "another kind of content": _another_kind,
}


def damage(draw: random.Random, file: Path) -> str:
    """Damage a file; return how."""
    how = draw.choice(list(CHANGES))
    before = file.read_bytes()
    after = CHANGES[how](draw, before)
    while after == before:
        after = CHANGES[how](draw, before)
    file.unlink()
    file.write_bytes(after)
    return how
