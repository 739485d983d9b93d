"""The vocabulary of figures: what is drawn, and what the legend says of it."""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgba
from matplotlib.lines import Line2D
from readable import alike, small

from fedrepro.report import style
from fedrepro.report.figure import at_the_end
from fedrepro.report.plots import (
    ACCURACY,
    ALL_SEEDS,
    BLACK,
    EVERY_SEED,
    PUBLISHED,
    ROUND,
    Canvas,
    Ink,
)
from fedrepro.report.stats import summarise

SEEDS = {0: (0.1, 0.3), 1: (0.2, 0.4)}
"""Seed -> values at x = 1 and 2."""


@pytest.fixture(autouse=True)
def styled() -> None:
    style.use()


def points(seeds: dict[int, tuple[float, ...]] = SEEDS) -> pd.DataFrame:
    """Return a series as the frames of figures have it, published as 0.35 at x = 2."""
    rows = [
        {"x": x, "value": value, "seed": seed, "run": f"{seed}{x}"}
        for seed, values in seeds.items()
        for x, value in enumerate(values, start=1)
    ]
    cells = summarise(pd.DataFrame(rows, columns=["x", "value", "seed", "run"]), "value", ["x"])
    return cells.assign(published=[0.35 if x == 2 else float("nan") for x in cells["x"]])


def heights(line: Line2D) -> list[float]:
    return [float(y) for y in np.asarray(line.get_ydata())]


def keys(canvas: Canvas) -> list[str]:
    """Return what the legend of a figure says."""
    canvas.legend()
    return [text.get_text() for text in canvas.figure.legends[0].get_texts()]


def test_colours_that_look_alike_are_found() -> None:
    axis = Canvas().axis
    for colour, line in (("red", "-"), ("orange", "--"), ("blue", "-")):
        axis.plot([0, 1], [0, 1], **Ink(colour, line).options)
    assert alike(axis) == []
    axis.plot([0, 1], [1, 0], **Ink("orange").options)
    assert alike(axis) == [(style.PALETTE["red"], style.PALETTE["orange"])]


def test_small_letters_are_found() -> None:
    canvas = Canvas()
    canvas.axis.set_title("small", fontsize=6.5)
    canvas.axis.set_xlabel("large")
    assert small(canvas.figure) == ["small"]


def test_inks_know_the_palette_and_other_colours() -> None:
    assert Ink("blue").options["color"] == style.PALETTE["blue"]
    assert BLACK.options == {"color": "black", "linestyle": "-", "marker": ""}


def test_panels_come_row_by_row() -> None:
    canvas = Canvas(2, 3, sharey=True)
    assert list(canvas) == list(canvas.axes.flat)
    assert canvas.axis is canvas.axes[0, 0]
    assert canvas.figure.get_figwidth() == style.WIDTH


def test_a_curve_is_a_mean_in_per_cent_and_a_thin_line_a_seed() -> None:
    canvas = Canvas()
    canvas.curve(canvas.axis, points(), Ink("blue", "--"), "ours", linewidth=2)
    mean, *seeds = canvas.axis.lines
    assert heights(mean) == pytest.approx([15, 35])
    assert (mean.get_linestyle(), mean.get_linewidth()) == ("--", 2)
    assert [heights(line) for line in seeds] == [pytest.approx([10, 30]), pytest.approx([20, 40])]
    assert {line.get_color() for line in seeds} == {style.PALETTE["blue"]}
    assert keys(canvas) == ["ours", EVERY_SEED]


def test_seeds_that_miss_a_point_are_drawn_where_they_are() -> None:
    canvas = Canvas()
    canvas.curve(canvas.axis, points({0: (0.1, 0.3), 1: (0.2,)}), BLACK)
    assert heights(canvas.axis.lines[2])[:1] == pytest.approx([20])
    assert np.isnan(heights(canvas.axis.lines[2])[1])


def test_many_seeds_are_an_area_that_leaves_the_mean_to_be_seen() -> None:
    canvas = Canvas()
    of = {seed: (0.1 + seed / 100, 0.3) for seed in range(11)}
    canvas.curve(canvas.axis, points(of | {5: (0.15,)}), Ink("blue"), "ours")
    [area] = canvas.axis.collections
    [outline] = area.get_paths()
    assert outline.get_extents().get_points() == pytest.approx(np.array([[1, 10], [2, 30]]))
    assert len(canvas.axis.lines) == 1
    assert keys(canvas) == ["ours", ALL_SEEDS]


@pytest.mark.parametrize("shown", [{"points": points({0: (0.1, 0.2)})}, {"seeds": False}])
def test_one_seed_or_none_that_is_wanted_is_the_mean_alone(shown: dict[str, object]) -> None:
    canvas = Canvas()
    canvas.curve(canvas.axis, **({"points": points(), "ink": BLACK, "label": "a"} | shown))  # type: ignore[arg-type]
    assert len(canvas.axis.lines) == 1
    assert keys(canvas) == ["a"]


def test_what_has_no_points_is_not_in_the_legend() -> None:
    canvas = Canvas()
    none = points({}).astype({"mean": float, "n": int})
    canvas.curve(canvas.axis, none, BLACK, "a curve")
    canvas.intervals(canvas.axis, none, BLACK, "intervals")
    canvas.dots(canvas.axis, none, BLACK)
    canvas.published(canvas.axis, none, BLACK)
    canvas.legend()
    assert canvas.figure.legends == []
    assert not canvas.axis.lines


def test_every_seed_is_a_dot() -> None:
    canvas = Canvas()
    canvas.dots(canvas.axis, points(), Ink("red"), factor=1)
    assert [heights(line) for line in canvas.axis.lines] == [[0.1, 0.2], [0.3, 0.4]]
    assert [list(np.asarray(line.get_xdata())) for line in canvas.axis.lines] == [[1, 1], [2, 2]]


def test_intervals_reach_from_low_to_high_and_are_left_out_for_one_seed() -> None:
    canvas = Canvas()
    both = pd.concat([points(), points({0: (0.1,)}).assign(x=3)])
    canvas.intervals(canvas.axis, both, Ink("blue", "", "s"), "ours")
    (bars,) = canvas.axis.containers
    segments = bars.lines[2][0].get_segments()  # type: ignore[attr-defined]
    ends = [tuple(segment[:, 1]) for segment in segments]
    cells = points()
    assert ends[:2] == [
        pytest.approx((100 * low, 100 * high))
        for low, high in zip(cells["low"], cells["high"], strict=True)
    ]
    assert ends[2] == pytest.approx((10, 10))
    assert keys(canvas) == ["ours"]


def test_published_points_are_hollow_and_only_where_there_are_any() -> None:
    canvas = Canvas()
    canvas.published(canvas.axis, points(), Ink("blue"))
    (line,) = canvas.axis.lines
    assert (list(np.asarray(line.get_xdata())), heights(line)) == ([2], pytest.approx([35]))
    assert (line.get_linestyle(), line.get_marker()) == ("None", "o")
    assert line.get_markerfacecolor() == "none"
    assert keys(canvas) == [PUBLISHED]
    (handle,) = canvas.figure.legends[0].legend_handles
    assert isinstance(handle, Line2D)
    assert (handle.get_color(), handle.get_marker()) == ("black", "o")


def test_published_curves_may_be_lines_of_another_column() -> None:
    canvas = Canvas()
    reported = points().assign(reported=[0.3, 0.4])
    canvas.published(canvas.axis, reported, BLACK, column="reported", linestyle=":", marker="")
    (line,) = canvas.axis.lines
    assert heights(line) == pytest.approx([30, 40])
    assert (line.get_linestyle(), line.get_marker()) == (":", "")


def test_levels_cross_the_panel_and_have_no_marker_in_the_legend() -> None:
    canvas = Canvas()
    canvas.level(canvas.axis, 0.1, "chance", Ink("grey", ":", "o"))
    canvas.level(canvas.axis, 0.2, "", BLACK)
    assert [heights(line) for line in canvas.axis.lines] == [[10, 10], [20, 20]]
    assert keys(canvas) == ["chance"]
    (handle,) = canvas.figure.legends[0].legend_handles
    assert isinstance(handle, Line2D)
    assert (handle.get_linestyle(), handle.get_marker()) == (":", "")


def test_a_label_is_in_the_legend_once_and_what_all_share_comes_last() -> None:
    canvas = Canvas(1, 2)
    for axis in canvas:
        canvas.published(axis, points(), BLACK)
        canvas.curve(axis, points(), Ink("blue"), "a")
        canvas.curve(axis, points(), Ink("red"), "b")
    canvas.patch("area", color="green")
    assert keys(canvas) == ["a", "b", "area", EVERY_SEED, PUBLISHED]


def test_a_legend_may_have_a_title_alone_and_is_left_out_where_there_is_nothing_to_say() -> None:
    titled = Canvas().legend(title="what the numbers mean")
    assert titled.legends[0].get_title().get_text() == "what the numbers mean"
    assert Canvas().legend().legends == []


def test_what_the_paper_prints_of_a_curve_stands_in_its_last_row() -> None:
    cells = pd.DataFrame({"series": list("aabb"), "x": [1, 2, 5, 3]})
    found = at_the_end(cells, cells["series"].map({"a": 0.9}))
    assert found["reported"].fillna(0).tolist() == [0, 0.9, 0, 0]
    assert at_the_end(cells, pd.Series([1, 2, 3, 4]))["reported"].fillna(0).tolist() == [0, 2, 3, 0]


def test_only_outer_axes_are_labelled() -> None:
    canvas = Canvas(2, 2)
    canvas.accuracy_over_rounds()
    assert [axis.get_xlabel() for axis in canvas] == ["", "", ROUND, ROUND]
    assert [axis.get_ylabel() for axis in canvas] == [ACCURACY, "", ACCURACY, ""]
    some = Canvas(1, 2)
    some.over_rounds("conflicts (%)", some.axes[0, :1])
    assert [axis.get_xlabel() for axis in some] == [ROUND, ""]
    assert some.axis.get_ylabel() == "conflicts (%)"


def test_the_panel_above_a_hidden_one_is_an_outer_one() -> None:
    canvas = Canvas(2, 2, sharex=True)
    canvas.axes[1, 1].set_visible(False)
    canvas.accuracy_over_rounds()
    assert [axis.get_xlabel() for axis in canvas if axis.get_visible()] == ["", ROUND, ROUND]
    assert any(label.get_visible() for label in canvas.axes[0, 1].get_xticklabels())


def test_equal_figures_are_equal_files(tmp_path: Path) -> None:
    content = []
    for name in ("one", "two"):
        style.use()
        canvas = Canvas()
        canvas.curve(canvas.axis, points(), Ink("blue"), "a")
        canvas.legend()
        style.save(canvas.figure, tmp_path / name)
        content.append([(tmp_path / f"{name}.{kind}").read_bytes() for kind in ("svg", "png")])
    assert content[0] == content[1]
    coordinates = re.findall(r' (?:d|x|y)="([^"]*)"', content[0][0].decode())
    assert max(len(digits) for text in coordinates for digits in re.findall(r"\.(\d+)", text)) == 2
    assert plt.get_fignums() == []


def test_the_style_needs_no_screen_and_forgets_other_settings() -> None:
    plt.rcParams["lines.linewidth"] = 9
    style.use()
    assert plt.rcParams["lines.linewidth"] == style.RC["lines.linewidth"]
    assert plt.get_backend().lower() == "agg"
    assert all(to_rgba(colour) for colour in style.PALETTE.values())


def test_a_legend_does_not_run_out_of_the_figure() -> None:
    canvas = Canvas()
    for number in range(6):
        canvas.key(f"a long name of the series number {number}", Ink("orange"))
    (legend,) = canvas.legend(6).legends
    assert legend.get_window_extent().width <= canvas.figure.bbox.width
    assert len(legend.get_texts()) == 6
