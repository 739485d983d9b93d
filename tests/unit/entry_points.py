"""Components of other distributions, without any that is installed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


class Point:
    """An entry point of a distribution."""

    def __init__(self, name: str, value: Any, owner: str = "elsewhere") -> None:
        self.name, self._value = name, value
        self.value, self.module = f"{owner}:X", owner
        self.dist = SimpleNamespace(name=owner, version="0.2", read_text=lambda _: None)

    def load(self) -> Any:
        if isinstance(self._value, Exception):
            raise self._value
        return self._value
