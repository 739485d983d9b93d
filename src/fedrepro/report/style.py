"""One look for all figures, and files that are equal byte for byte when the data are."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.figure
import matplotlib.pyplot as plt

from fedrepro.base.files import write_bytes

WIDTH = 7.0
"""Width of a figure in inches."""

PALETTE = {
    "blue": "#0173b2",
    "orange": "#de8f05",
    "green": "#029e73",
    "red": "#d55e00",
    "purple": "#cc78bc",
    "brown": "#ca9161",
    "grey": "#949494",
    "sky": "#56b4e9",
}
"""Seaborn's colour-blind palette by name."""

RC: dict[Any, Any] = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "figure.constrained_layout.use": True,
    "figure.dpi": 110,
    "figure.titlesize": 10,
    "font.size": 9,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.5,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "lines.linewidth": 1.5,
    "lines.markersize": 4,
    "savefig.dpi": 160,
    "svg.fonttype": "path",
    "svg.hashsalt": "fedrepro",
}


def use() -> None:
    """Set the style and a backend that needs no screen."""
    mpl.use("Agg")
    plt.rcdefaults()
    plt.rcParams.update(RC)


def save(figure: matplotlib.figure.Figure, stem: Path) -> None:
    """Write ``<stem>.svg`` and ``<stem>.png``; equal figures give equal files.

    Raises:
        FedreproError: a file cannot be written.
    """
    for kind, content in rendered(figure, "svg", "png").items():
        write_bytes(stem.with_name(f"{stem.name}.{kind}"), content)


_METADATA = {"svg": {"Date": None}, "png": {"Software": None}}


def rendered(figure: matplotlib.figure.Figure, *kinds: str) -> dict[str, bytes]:
    """Return what a figure's files hold, of each kind, and close it.

    The figure is laid out once, for the first of them, since that takes as long as drawing it.

    Args:
        figure: one of pyplot's.
        kinds: ``svg`` or ``png``.
    """
    files = {}
    for kind in kinds:
        buffer = io.BytesIO()
        figure.savefig(buffer, format=kind, metadata=_METADATA[kind])
        figure.set_layout_engine("none")
        files[kind] = _shortened(buffer.getvalue()) if kind == "svg" else buffer.getvalue()
    plt.close(figure)
    return files


_COORDINATES = re.compile(rb' (?:d|x|y)="[^"]*"|translate\([^)]*\)')
_BEYOND_HUNDREDTHS = re.compile(rb"(?<=\.\d\d)\d+")
_NAMES_OF_GROUPS = re.compile(rb'(?<=<g) id="[^"]*"')
_MARGINS = re.compile(rb"^ +| +$", re.MULTILINE)


def _shortened(svg: bytes) -> bytes:
    """Return a drawing of Matplotlib's in fewer bytes: a report holds dozens.

    Coordinates end at a hundredth of a point; indentation goes, and the names of groups, which
    nothing refers to.
    """
    svg = _COORDINATES.sub(lambda found: _BEYOND_HUNDREDTHS.sub(b"", found[0]), svg)
    return _MARGINS.sub(b"", _NAMES_OF_GROUPS.sub(b"", svg))
