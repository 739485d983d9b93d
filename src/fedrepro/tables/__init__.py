"""Tables: run records in, one data frame a table out; no plotting, no files.

Each paper's module holds a dictionary ``TABLES`` from the table's name in the plan to a function
``RunSet -> DataFrame``. The frame has one row a cell: two key columns ``row`` and ``column`` first,
then what :func:`fedrepro.stats.summarise` returns, and ``unit``: ``fraction`` (an accuracy, shown
in per cent), ``points`` (a difference of fractions, shown in percentage points), or what the number
is.
"""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from fedrepro.runs import RunSet
from fedrepro.tables import cadis, emd, fedcd, precision, selective, tricks

Table = Callable[[RunSet], pd.DataFrame]

TABLES: dict[str, dict[str, Table]] = {
    "cadis": cadis.TABLES,
    "emd": emd.TABLES,
    "fedcd": fedcd.TABLES,
    "precision": precision.TABLES,
    "selective": selective.TABLES,
    "tricks": tricks.TABLES,
}
