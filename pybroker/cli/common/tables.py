"""Tables that fit the terminal: a cell is broken between words and after commas, never within a word or a number.

A table that does not fit is shown turned, with a line for each column. The values of the rows stand side by side where
they fit, otherwise one row follows the other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

GAP = "  "
PIECES = re.compile(r"\s*[^\s,]+,*|\s*,+")
Width = Callable[[str], int]


def text(cell: Any) -> str:
    """Formats a cell for people: ``-`` for None, lists with commas."""
    if cell is None:
        return "-"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, (list, tuple)):
        return ",".join(map(str, cell))
    return str(cell)


def is_number(cells: Iterable[Any]) -> bool:
    """Says whether a column holds only numbers, which are aligned to the right."""
    return all(cell is None or (isinstance(cell, (int, float)) and not isinstance(cell, bool)) for cell in cells)


def plain(columns: Sequence[str], rows: Sequence[Sequence[Any]], width_of: Width = len) -> list[str]:
    """Returns the lines of a table at its full width, with two spaces between columns: the heads, then the rows."""
    cells = [[name.upper() for name in columns], *([text(cell) or "-" for cell in row] for row in rows)]
    return aligned(cells, numeric(columns, rows), width_of)


def fitted(
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    limit: int,
    width_of: Width = len,
    emphasis: Callable[[str], str] = str,
) -> list[str]:
    """Returns a table's lines, at most ``limit`` wide; turns the table if it does not fit. ``emphasis`` is for heads.
    """
    lines = plain(columns, rows, width_of)
    if widest(lines, width_of) <= limit:
        return [emphasis(lines[0]), *lines[1:]]
    cells = [[text(cell) or "-" for cell in row] for row in rows]
    heads = [name.upper() for name in columns]
    widths = shrunk([heads, *cells], limit, width_of)
    if widths is None:
        return turned(heads, cells, limit, width_of)
    lines = folded(heads, rows, cells, widths, width_of)
    return [emphasis(lines[0]), *lines[1:]]


def numeric(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[bool]:
    """Says for each column whether it has only numbers."""
    return [bool(rows) and is_number(row[at] for row in rows) for at in range(len(columns))]


def aligned(cells: Sequence[Sequence[str]], right: Sequence[bool], width_of: Width) -> list[str]:
    """Returns each row of cells as a line."""
    widths = [max(map(width_of, column)) for column in zip(*cells, strict=True)]
    return [_line(row, widths, right, width_of) for row in cells]


def _line(row: Sequence[str], widths: Sequence[int], right: Sequence[bool], width_of: Width) -> str:
    def cell(word: str, width: int, to_right: bool) -> str:
        space = " " * (width - width_of(word))
        return space + word if to_right else word + space

    return GAP.join(map(cell, row, widths, right)).rstrip()


class Growing:
    """A table whose rows come one by one: a column is as wide as its widest cell so far. ``sample`` is a row that sets
    the first widths, and shows which columns are numbers.
    """

    def __init__(self, columns: Sequence[str], sample: Sequence[Any]) -> None:
        self.heads = [name.upper() for name in columns]
        self._right = numeric(columns, [sample])
        self._widths = [max(len(head), len(text(cell))) for head, cell in zip(self.heads, sample, strict=True)]

    def line(self, row: Sequence[Any]) -> str:
        """Returns the next line, with its line feed."""
        cells = [text(cell) or "-" for cell in row]
        self._widths = list(map(max, self._widths, map(len, cells)))
        return _line(cells, self._widths, self._right, len) + "\n"


def widest(lines: Iterable[str], width_of: Width) -> int:
    return max(map(width_of, lines), default=0)


def shrunk(cells: Sequence[Sequence[str]], limit: int, width_of: Width) -> list[int] | None:
    """Returns widths of columns that fit: the widest breakable columns become narrower. None if they cannot fit."""
    columns = list(zip(*cells, strict=True))
    widths = [max(map(width_of, column)) for column in columns]
    least = [max(width_of(word.strip()) for cell in column for word in words(cell)) for column in columns]
    over = sum(widths) + len(GAP) * (len(widths) - 1) - limit
    while over > 0:
        at = max(range(len(widths)), key=lambda at: (widths[at] > least[at], widths[at]))
        if widths[at] <= least[at]:
            return None
        widths[at] -= 1
        over -= 1
    return widths


def words(cell: str) -> list[str]:
    """Splits a cell into its unbreakable pieces, each with the space before it."""
    return PIECES.findall(cell) or [cell]


def folded(
    heads: Sequence[str],
    rows: Sequence[Sequence[Any]],
    cells: Sequence[Sequence[str]],
    widths: Sequence[int],
    width_of: Width,
) -> list[str]:
    """Returns the table with some cells folded into several lines."""
    lines = [list(heads)]
    for row in cells:
        parts = [wrapped(cell, width, width_of) for cell, width in zip(row, widths, strict=True)]
        height = max(map(len, parts))
        lines += [list(line) for line in zip(*(part + [""] * (height - len(part)) for part in parts), strict=True)]
    return aligned(lines, numeric(heads, rows), width_of)


def wrapped(cell: str, width: int, width_of: Width) -> list[str]:
    """Returns lines of at most this width; only a word that is wider exceeds it."""
    lines = [""]
    for word in words(cell):
        if lines[-1] and width_of(lines[-1] + word) > width:
            lines.append(word.lstrip())
        else:
            lines[-1] += word
    return lines


def turned(heads: Sequence[str], cells: Sequence[Sequence[str]], limit: int, width_of: Width) -> list[str]:
    """Turns each column into a line: all rows beside each other or, if they do not fit, one below the other."""
    left = [False] * (1 + len(cells))
    beside = aligned([[head, *column] for head, *column in zip(heads, *cells, strict=True)], left, width_of)
    if widest(beside, width_of) <= limit:
        return beside
    room = limit - widest(heads, width_of) - len(GAP)
    blocks = [aligned(list(pairs(heads, row, room, width_of)), [False, False], width_of) for row in cells]
    return [line for at, block in enumerate(blocks) for line in ([""] if at else []) + block]


def pairs(heads: Sequence[str], row: Sequence[str], room: int, width_of: Width) -> Iterator[tuple[str, str]]:
    """Yields each head with its cell in the row; a long cell takes several lines."""
    for head, cell in zip(heads, row, strict=True):
        first, *more = wrapped(cell, room, width_of)
        yield head, first
        yield from (("", line) for line in more)
