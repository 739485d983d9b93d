"""Whether a figure can be read: letters, colours as who sees no green sees them, legends."""

from __future__ import annotations

import itertools

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.text import Text
from numpy.typing import NDArray

from fedrepro.report.style import PALETTE

LEAST_POINTS = 7
LEAST_DISTANCE = 15
"""In CIELAB; the palette's red and orange are 13 apart to a deuteranope."""
_THIN = 0.5
"""Lines up to this width are the seeds or rounds below a mean of the same colour."""

_DEUTERANOPE = np.array(
    [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ]
)
"""Machado, Oliveira, Fernandes 2009, severity 1, on linear RGB."""
_XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
)
_WHITE = np.array([0.95047, 1.0, 1.08883])


def seen(colour: object) -> NDArray[np.float64]:
    """Return what a deuteranope sees of a colour, in CIELAB."""
    rgb = np.array(to_rgb(colour))  # type: ignore[arg-type]
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    x, y, z = _bent(_XYZ @ np.clip(_DEUTERANOPE @ linear, 0, 1) / _WHITE)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def _bent(xyz: NDArray[np.float64]) -> NDArray[np.float64]:
    bent: NDArray[np.float64] = np.where(
        xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz / (3 * (6 / 29) ** 2) + 4 / 29
    )
    return bent


def distance(one: object, other: object) -> float:
    """Return how far apart a deuteranope sees two colours."""
    return float(np.linalg.norm(seen(one) - seen(other)))


def _look(line: Line2D) -> tuple[object, ...]:
    hollow = str(line.get_markerfacecolor()) == "none"
    return line.get_linestyle(), line.get_marker(), hollow


def _colour(line: Line2D) -> object:
    without_line = line.get_linestyle() in ("None", "none", "")
    return line.get_markeredgecolor() if without_line else line.get_color()


def _is_drawn(line: Line2D) -> bool:
    """Return whether a line has anything to see; those that hold error bars have not."""
    return not {line.get_linestyle(), line.get_marker()} <= {"None", "none", "", None}


def alike(axis: Axes) -> list[tuple[object, object]]:
    """Return the colours of a panel that look alike, on lines of one style and marker."""
    drawn = [line for line in axis.lines if line.get_alpha() != 0 and _is_drawn(line)]
    thick = [line for line in drawn if line.get_linewidth() > _THIN or line.get_marker()]
    colours = sorted({(str(_look(line)), to_hex(_colour(line))) for line in thick})
    return [
        (one[1], other[1])
        for one, other in itertools.combinations(colours, 2)
        if one[0] == other[0] and distance(one[1], other[1]) < LEAST_DISTANCE
    ]


def small(figure: Figure) -> list[str]:
    """Return what is written in letters that are too small."""
    texts = [text for text in figure.findobj(Text) if isinstance(text, Text)]
    return [
        text.get_text()
        for text in texts
        if text.get_visible() and text.get_text() and text.get_fontsize() < LEAST_POINTS
    ]


def unexplained(figure: Figure) -> list[str]:
    """Return the colours, of panels that have several, which neither a legend nor a text has.

    Grey and white are of helping lines and dots, which a legend's title may explain.
    """
    legends = [*figure.legends, *(axis.get_legend() for axis in figure.axes)]
    handles = [handle for legend in legends if legend for handle in legend.legend_handles]
    explained = {to_hex(PALETTE["grey"]), "#ffffff"}
    explained |= {to_hex(_colour(handle)) for handle in handles if isinstance(handle, Line2D)}
    explained |= {to_hex(part.get_facecolor()) for part in handles if isinstance(part, Patch)}
    explained |= {to_hex(text.get_color()) for text in figure.findobj(Text) if text.get_text()}  # type: ignore[attr-defined]
    found: list[str] = []
    for axis in figure.axes:
        drawn = [line for line in axis.lines if line.get_alpha() != 0 and _is_drawn(line)]
        colours = {to_hex(_colour(line)) for line in drawn} - {"#ffffff"}
        found += sorted(colours - explained) if len(colours) > 1 else []
    return found


def check_readable(figure: Figure, *, named_on_the_axis: bool = False) -> None:
    """Check that no letters are too small, no two series look alike, and the legend is complete.

    Args:
        figure: what is drawn.
        named_on_the_axis: series stand side by side, above their names.
    """
    figure.draw_without_rendering()  # ticks get their labels
    assert small(figure) == []
    assert [pair for axis in figure.axes for pair in alike(axis)] == []
    assert named_on_the_axis or unexplained(figure) == []
