"""Tables that fit, in a terminal of 80 columns and of 50: no number and no word is torn."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

import pybroker
from pybroker.cli.common.tables import fitted, plain
from pybroker.cli.tests.running import Shell

COLUMNS = ("check", "level", "found", "size")
FOUND = "the name has no address, and nobody answers"
ROWS = [("bootstrap a:1", "error", FOUND, 12345), ("clock", "ok", "-", 7)]


def test_a_table_that_fits_is_shown_plain() -> None:
    assert fitted(COLUMNS, ROWS, 80) == plain(COLUMNS, ROWS)


def test_a_cell_is_broken_between_words_and_columns_stay_aligned() -> None:
    assert fitted(COLUMNS, ROWS, 50) == [
        "CHECK          LEVEL  FOUND                 SIZE",
        "bootstrap a:1  error  the name has no      12345",
        "                      address, and nobody",
        "                      answers",
        "clock          ok     -                        7",
    ]


@pytest.mark.parametrize("limit", range(1, 100))
def test_no_word_is_split_at_any_width(limit: int) -> None:
    rows = [("a" * 12, 1234567, (1, 22, 333), "x, y"), ("b", 1, (), None)]
    lines = fitted(("name", "size", "ids", "more"), rows, limit)
    found = " ".join(lines).replace(",", " ").split()
    assert {"a" * 12, "1234567", "1", "22", "333", "x", "y", "NAME", "MORE"} <= {*found}
    if limit >= 19:  # the longest word beside the longest head
        assert max(map(len, lines)) <= limit


def test_rows_of_a_turned_table_stand_beside_each_other_where_they_fit() -> None:
    rows = [("aa", 10_000_000_000, 1), ("bb" * 5, 2, 20_000_000_000)]
    assert fitted(("what", "first", "second"), rows, 34) == [
        "WHAT    aa           bbbbbbbbbb",
        "FIRST   10000000000  2",
        "SECOND  1            20000000000",
    ]
    assert fitted(("what", "first", "second"), rows, 22)[3:5] == ["", "WHAT    bbbbbbbbbb"]


def test_the_heads_alone_are_emphasized_and_a_turned_table_has_none() -> None:
    assert fitted(COLUMNS, ROWS, 80, emphasis=str.swapcase)[0].startswith("check")
    assert fitted(COLUMNS, ROWS, 50, emphasis=str.swapcase)[0].startswith("check")
    assert fitted(COLUMNS, ROWS, 20, emphasis=str.swapcase)[0].startswith("CHECK")


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with pybroker.run() as broker:
        Shell(broker.bootstrap_servers).done("topic", "create", "a-topic-with-a-long-name", "-p", 3)
        yield broker.bootstrap_servers


def on_terminal(columns: int, bootstrap: str, *words: str) -> list[str]:
    """Returns what a command prints on a terminal at its stdout."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "PYBROKER_BOOTSTRAP": bootstrap, "COLUMNS": str(columns), "TERM": "xterm"}
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "pybroker", *words],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        env=environment,
    )
    os.close(theirs)
    shown = b"".join(read(ours))
    assert process.wait(60) == 0
    return re.sub(r"\x1b\[[0-9;]*m", "", shown.decode()).splitlines()


def read(terminal: int) -> Iterator[bytes]:
    try:
        while part := os.read(terminal, 65_536):
            yield part
    except OSError:  # the other end is closed
        os.close(terminal)


@pytest.mark.nightly
@pytest.mark.parametrize("columns", [80, 50])
@pytest.mark.parametrize(
    "words",
    [
        ("bench", "produce", "-n", "20000"),
        ("bench", "e2e", "-n", "20"),
        ("topic", "describe", "a-topic-with-a-long-name"),
        ("topic", "list"),
        ("cluster", "describe"),
        ("doctor", "--local"),
        ("api-versions",),
    ],
    ids=" ".join,
)
def test_a_table_fits_its_terminal(words: tuple[str, ...], columns: int, bootstrap: str) -> None:
    lines = on_terminal(columns, bootstrap, *words)
    assert lines
    assert max(map(len, lines)) <= columns
    heads = {"bench": "RECORDS_PER_S", "topic": "PARTITION", "cluster": "CONTROLLER", "doctor": "ADVICE"}
    assert heads.get(words[0], "USABLE") in " ".join(lines)
    if words[0] == "bench":
        assert re.search(rf"\b{words[3]}\b", " ".join(lines))
