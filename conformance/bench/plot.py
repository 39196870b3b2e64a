"""Draws bars of how many times better ours is, on a logarithmic scale, and curves of growing costs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

BLUE: Final = "#3b6ea5"
ORANGE: Final = "#d9822b"


class Bar(NamedTuple):
    """A bar; a factor above 1 is in our favour. ``goal``: the factor to reach, which a line marks."""

    title: str
    factor: float
    colour: str
    goal: float | None = None


class Curve(NamedTuple):
    """A curve of points; it leaves out numbers that are not positive."""

    points: Sequence[tuple[float, float]]
    colour: str
    is_broken: bool = False


class Panel(NamedTuple):
    """Curves that are drawn into one frame."""

    title: str
    curves: Sequence[Curve]


def draw(bars: Sequence[Bar], legend: str, path: Path) -> None:
    """Draws a PNG of the bars from top to bottom; it does not repeat a title right below the same title."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure, axes = plt.subplots(figsize=(9, 0.42 * len(bars) + 1.4))
    places = range(len(bars), 0, -1)
    axes.barh(list(places), [bar.factor - 1 for bar in bars], left=1, color=[bar.colour for bar in bars], height=0.7)
    axes.set_yticks(list(places), _titles(bars), fontsize=8)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.axvline(1, color="#444444", linewidth=0.8)
    for place, bar in zip(places, bars, strict=True):
        _annotate(axes, place, bar)
    axes.margins(x=0.12, y=0.01)
    axes.set_xlabel(legend, fontsize=8)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="y", length=0)
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _titles(bars: Sequence[Bar]) -> list[str]:
    above = [None, *(bar.title for bar in bars)]
    return ["" if bar.title == before else bar.title for bar, before in zip(bars, above, strict=False)]


def _annotate(axes: Axes, place: int, bar: Bar) -> None:
    wins = bar.factor >= 1
    axes.annotate(
        f"{bar.factor:.0f}×" if bar.factor >= 10 else f"{bar.factor:.2g}×",
        (bar.factor, place),
        xytext=(4 if wins else -4, 0),
        textcoords="offset points",
        ha="left" if wins else "right",
        va="center",
        fontsize=8,
    )
    if bar.goal is not None:
        axes.plot([bar.goal, bar.goal], [place - 0.42, place + 0.42], color="#b3261e", linewidth=1.4)


COLUMNS: Final = 4


def curves(panels: Sequence[Panel], legend: str, path: Path) -> None:
    """Draws a PNG of small panels with logarithmic axes and grey lines for linear growth."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = -(-len(panels) // COLUMNS)
    figure, grid = plt.subplots(rows, COLUMNS, figsize=(3 * COLUMNS, 2.1 * rows + 0.4), squeeze=False)
    for place, axes in enumerate(grid.flat):
        axes.set_axis_off() if place >= len(panels) else _draw_panel(axes, panels[place])
    figure.supxlabel(legend, fontsize=9)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _draw_panel(axes: Axes, panel: Panel) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_title(panel.title, fontsize=8)
    axes.tick_params(labelsize=7)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter("")
    for curve in panel.curves:
        points = [point for point in curve.points if min(point) > 0]
        style = "--" if curve.is_broken else "-"
        axes.plot([x for x, _ in points], [y for _, y in points], style, marker=".", color=curve.colour, linewidth=1.2)
        if points and not curve.is_broken:
            x, y = points[-1]
            ends = [points[0][0], x]
            axes.plot(ends, [y * end / x for end in ends], color="#bbbbbb", linewidth=0.8, zorder=0)
