"""Loss terms that lanes may minimise besides the cross entropy. One file a term.

An algorithm names them in :class:`fedrepro.fl.requests.Objective`. Other distributions name theirs
as entry points of ``fedrepro.losses``.
"""

from __future__ import annotations

from typing import Any

from fedrepro.fl.components import Registry
from fedrepro.fl.losses.term import LossTerm, Outputs

__all__ = ["LOSS_TERMS", "LossTerm", "Outputs"]


def _term_name(value: Any) -> str | None:
    return value.name if isinstance(value, LossTerm) else None


LOSS_TERMS: Registry[LossTerm] = Registry("loss term", __name__, "fedrepro.losses", _term_name)
