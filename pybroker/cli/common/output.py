"""Shows rows in a format: ``-o table|json|jsonl|yaml|csv|name``, always on stdout.

table  aligned columns; on a terminal no wider than it (``tables``); without rows nothing, or a word on stderr
json   one document: a list      jsonl  a document per line      yaml  one document
csv    a header and rows         name   the names alone, for other commands
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import click

from pybroker.cli.common.tables import fitted, plain, text

FORMATS = ("table", "json", "jsonl", "yaml", "csv", "name")
Row = Sequence[Any]


def with_output(function: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a verb ``output``."""
    return click.option(
        *("-o", "--output"),
        type=click.Choice(FORMATS),
        default="table",
        help="How to show it [table].",
    )(function)


def show(
    output: str,
    columns: Sequence[str],
    rows: Iterable[Row],
    *,
    documents: Iterable[Mapping[str, Any]] | None = None,
    names: Iterable[str] | None = None,
    none: str = "",
) -> None:
    """Writes rows. The formats json and jsonl show ``documents`` instead. The format name shows ``names``, by default
    the first column. ``none`` is the line on stderr for a table without rows.
    """
    given = list(rows)
    if _stamp is not None:
        time, _ = _stamp
        columns, given = ("time", *columns), [(time, *row) for row in given]
        documents = None if documents is None else [{"time": time, **each} for each in documents]
    if output in DOCUMENTS:
        shown = [dict(zip(columns, row, strict=True)) for row in given] if documents is None else list(documents)
        write(DOCUMENTS[output](shown))
    elif output == "csv":
        write("".join(csv_line(line) for line in ((columns, *given) if has_heads() else given)))
    elif output == "name":
        found = (str(row[0]) for row in given) if names is None else names
        write("".join(f"{name}\n" for name in dict.fromkeys(found)))
    elif given and sys.stdout.isatty():
        write(terminal_table(columns, given))
    elif given:
        write(plain_table(columns, given))
    elif none:
        click.echo(none, err=True)


def yaml(documents: Sequence[Any]) -> str:
    from pybroker.cli.common.yaml_text import as_yaml

    return as_yaml(documents)


def json_lines(documents: Sequence[Any]) -> str:
    return "".join(map(json_line, documents))


def write(text: str) -> None:
    """Writes to stdout, or into ``kept`` if that is set."""
    if _kept is not None:
        _kept.append(text)
    else:
        sys.stdout.write(text)
        sys.stdout.flush()


_kept: list[str] | None = None
_stamp: tuple[str, bool] | None = None


@contextlib.contextmanager
def kept() -> Iterator[list[str]]:
    """Within ``with``, the output is gathered in a list instead of being written."""
    global _kept
    parts: list[str] = []
    _kept = parts
    try:
        yield parts
    finally:
        _kept = None


@contextlib.contextmanager
def stamped(time: str, *, heads: bool) -> Iterator[None]:
    """Within ``with``, every row and document begins with ``time``. Tables and CSV have heads only with ``heads``."""
    global _stamp
    _stamp = time, heads
    try:
        yield
    finally:
        _stamp = None


def has_heads() -> bool:
    return _stamp is None or _stamp[1]


def as_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=list) + "\n"


def json_line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=list) + "\n"


DOCUMENTS: Mapping[str, Callable[[Sequence[Any]], str]] = {"json": as_json, "jsonl": json_lines, "yaml": yaml}


def csv_line(row: Iterable[Any]) -> str:
    """Formats a row as CSV with its line feed; None becomes an empty field."""
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow("" if cell is None else text(cell) for cell in row)
    return line.getvalue()


def plain_table(columns: Sequence[str], rows: Sequence[Row]) -> str:
    """Formats the table for pipes and files, at its full width."""
    return as_text(plain(columns, rows)[0 if has_heads() else 1 :])


def terminal_table(columns: Sequence[str], rows: Sequence[Row]) -> str:
    """Formats the table for a terminal of this width, with bold heads."""
    from rich.cells import cell_len

    width = shutil.get_terminal_size().columns
    return as_text(fitted(columns, rows, width, cell_len, bold))


def as_text(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def bold(line: str) -> str:
    """Makes a line bold, unless the user wants no colours or the terminal has none."""
    has_none = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    return line if has_none else f"\x1b[1m{line}\x1b[0m"
