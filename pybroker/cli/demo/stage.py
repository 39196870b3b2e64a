"""The display of the running demo on stderr: progress bars on a terminal, elsewhere a line per step."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

EVERY_S = 0.1
"""The time between two updates of a bar."""


class Bars:
    """Counters to show: ``bars["sent"] = 17``. This class shows nothing and only counts."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def __setitem__(self, name: str, count: int) -> None:
        self.counts[name] = count

    def __getitem__(self, name: str) -> int:
        return self.counts.get(name, 0)


class LiveBars(Bars):
    """Bars that rich draws, at most every ``EVERY_S``."""

    def __init__(self, progress: Any, names: tuple[str, ...], total: int | None) -> None:
        super().__init__()
        self._progress = progress
        self._total = total
        self._tasks = {name: progress.add_task(name, total=total) for name in names}
        self._shown: dict[str, float] = {}

    def __setitem__(self, name: str, count: int) -> None:
        super().__setitem__(name, count)
        now = time.monotonic()
        if count == self._total or now - self._shown.get(name, 0) >= EVERY_S:
            self._shown[name] = now
            self._progress.update(self._tasks[name], completed=count)

    def finish(self) -> None:
        """Shows the last counts; an unknown total becomes the number of records that came."""
        for name, task in self._tasks.items():
            self._progress.update(task, completed=self[name], total=self[name])


class Stage:
    """Shows the demo's steps, each with a progress bar."""

    def __init__(self) -> None:
        self.is_live = sys.stderr.isatty()

    def say(self, line: str) -> None:
        """Prints a line on stderr; during a step, it is above the bars."""
        print(line, file=sys.stderr, flush=True)

    @contextmanager
    def step(self, title: str, names: tuple[str, ...], total: int | None) -> Iterator[Bars]:
        """Shows a step with a bar for each name."""
        self.say(title)
        if not self.is_live:
            yield Bars()
            return
        with _progress() as progress:
            bars = LiveBars(progress, names, total)
            yield bars
            bars.finish()


def _progress() -> Any:
    """Returns rich's progress display: name, bar, count, rate."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, TaskProgressColumn, TextColumn
    from rich.text import Text

    class Count(ProgressColumn):
        def render(self, task: Any) -> Text:
            speed = task.finished_speed or task.speed
            rate = f"{speed:12,.0f}/s" if speed else ""
            return Text(f"{int(task.completed):10,}{rate}", style="progress.data.speed")

    return Progress(
        TextColumn("  {task.description:>10}"),
        BarColumn(),
        TaskProgressColumn(),
        Count(),
        console=Console(stderr=True),
    )
