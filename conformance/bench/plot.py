"""Draws factors: how many times better ours is, a bar each, on a logarithmic scale."""

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
    """A factor above 1 is in our favour. ``goal``: the factor that was to be reached, marked by a line."""

    title: str
    factor: float
    colour: str
    goal: float | None = None


def draw(bars: Sequence[Bar], legend: str, path: Path) -> None:
    """A PNG of the bars from top to bottom; a title that stands above its like already is not repeated."""
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
