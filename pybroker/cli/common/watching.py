"""``--watch``: a verb shows its output again and again, until Ctrl-C.

On a terminal, a table is redrawn in place. Otherwise each row is written below the previous one, with its time, under
one header.
"""

from __future__ import annotations

import functools
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

import click

from pybroker.cli.common import output
from pybroker.cli.common.verbs import complain, sentence

UP, REST_OF_LINE, BELOW = "\x1b[{}F", "\x1b[K", "\x1b[J"
LISTABLE = ("table", "jsonl", "csv")
"""Formats that can be continued without end."""


def with_watch(function: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a verb the argument ``watch``: the seconds between two looks at the cluster, None for a single look."""

    @click.option("--watch", is_flag=True, help="Repeat until Ctrl-C.")
    @click.option(
        *("--interval",), type=click.FloatRange(0.1, 86_400), default=2.0, metavar="S", help="Seconds of --watch [2]."
    )
    @functools.wraps(function)
    def call(watch: bool, interval: float, **options: Any) -> Any:
        if watch and options.get("output") not in LISTABLE:
            raise click.UsageError(f"--watch needs -o {', '.join(LISTABLE)}")
        return function(watch=interval if watch else None, **options)

    return call


def watched(look: Callable[[], int], watch: float | None, shown: str) -> int:
    """Looks once, or every ``watch`` seconds until a signal. Returns the exit code of the first look that failed, else
    0.

    ``shown`` is the format. Only a table is redrawn in place, because its lines fit the terminal.
    """
    if watch is None:
        return look()
    show = in_place if shown == "table" and sys.stdout.isatty() else one_below_the_other
    return show(look, watch)


def in_place(look: Callable[[], int], pause: float) -> int:
    """Shows each look in the place of the previous one."""
    above = 0
    for each in looks(look, pause):
        with output.kept() as parts:
            code = each()
        if code:
            output.write("".join(parts))
            return code
        lines = cut("".join(parts).splitlines(), shutil.get_terminal_size().lines - 1)
        output.write(frame(lines, above))
        above = len(lines)
    return 0


def one_below_the_other(look: Callable[[], int], pause: float) -> int:
    """Shows each look below the previous one."""
    for number, each in enumerate(looks(look, pause)):
        with output.stamped(datetime.now().astimezone().isoformat(timespec="seconds"), heads=not number):
            code = each()
        if code:
            return code
    return 0


def looks(look: Callable[[], int], pause: float) -> Iterator[Callable[[], int]]:
    """Yields the looks. The first one may fail. Failures of later looks may be transient, so they are only shown."""
    yield look
    while True:
        time.sleep(pause)
        yield functools.partial(patient, look)


def patient(look: Callable[[], int]) -> int:
    """Takes a look; prints a failure as a line instead of raising it."""
    from pyclient.errors import KafkaError

    try:
        look()
    except KafkaError as error:
        complain(sentence(error))
    return 0


def frame(lines: Sequence[str], above: int) -> str:
    """Returns the text that replaces the ``above`` lines over the cursor by these."""
    up = UP.format(above) if above else ""
    return up + "".join(f"{line}{REST_OF_LINE}\n" for line in lines) + BELOW


def cut(lines: list[str], most: int) -> list[str]:
    """Cuts lines to the terminal's height."""
    more = len(lines) - most
    return lines if more <= 0 else [*lines[: most - 1], f"… {more + 1} more lines"]
