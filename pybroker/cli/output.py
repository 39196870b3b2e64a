"""How rows are shown: ``-o table|json|jsonl|yaml|csv|name``, always on stdout.

table  aligned columns; by rich on a terminal, plain elsewhere; nothing without rows, or a word on stderr
json   one document: a list      jsonl  a document per line      yaml  one document
csv    a header and rows         name   the names alone, for other commands
"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import click

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
    """Writes rows. ``documents`` are what the two JSONs show instead; ``names`` what name does, by
    default the first column; ``none`` what stderr says of a table without rows.
    """
    given = list(rows)
    if output in DOCUMENTS:
        shown = [dict(zip(columns, row, strict=True)) for row in given] if documents is None else list(documents)
        write(DOCUMENTS[output](shown))
    elif output == "csv":
        write("".join(csv_line(line) for line in (columns, *given)))
    elif output == "name":
        found = (str(row[0]) for row in given) if names is None else names
        write("".join(f"{name}\n" for name in dict.fromkeys(found)))
    elif given and sys.stdout.isatty():
        rich_table(columns, given)
    elif given:
        write(plain_table(columns, given))
    elif none:
        click.echo(none, err=True)


def yaml(documents: Sequence[Any]) -> str:
    from pybroker.cli.yaml_text import as_yaml

    return as_yaml(documents)


def json_lines(documents: Sequence[Any]) -> str:
    return "".join(map(json_line, documents))


def write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def as_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=list) + "\n"


def json_line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=list) + "\n"


DOCUMENTS: Mapping[str, Callable[[Sequence[Any]], str]] = {"json": as_json, "jsonl": json_lines, "yaml": yaml}


def csv_line(row: Iterable[Any]) -> str:
    """A row with its line feed; nothing is an empty field."""
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow("" if cell is None else text(cell) for cell in row)
    return line.getvalue()


def text(cell: Any) -> str:
    """A cell for people: ``-`` for nothing, lists with commas."""
    if cell is None:
        return "-"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, (list, tuple)):
        return ",".join(map(str, cell))
    return str(cell)


def is_number(cells: Iterable[Any]) -> bool:
    """A column of numbers stands to the right."""
    return all(cell is None or (isinstance(cell, (int, float)) and not isinstance(cell, bool)) for cell in cells)


def plain_table(columns: Sequence[str], rows: Sequence[Row]) -> str:
    """Columns two spaces apart."""
    cells = [[name.upper() for name in columns], *([text(cell) or "-" for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    right = [bool(rows) and is_number(row[at] for row in rows) for at in range(len(columns))]

    def line(row: Sequence[str]) -> str:
        parts = [
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        ]
        return "  ".join(parts).rstrip() + "\n"

    return "".join(map(line, cells))


def rich_table(columns: Sequence[str], rows: Sequence[Row]) -> None:
    """The same with rich, which folds what is too wide."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for at, name in enumerate(columns):
        to_right = bool(rows) and is_number(row[at] for row in rows)
        table.add_column(name.upper(), justify="right" if to_right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(text(cell) or "-") for cell in row))
    Console(file=sys.stdout).print(table)
