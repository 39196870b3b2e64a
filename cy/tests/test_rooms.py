"""Imports between rooms of ``cy`` only go down. The tool that checks Python imports cannot read Cython."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CY = Path(__file__).parents[1]
FLOORS = ["client", "consume", "produce", "compaction", "batch", "wire", ""]
"""The rooms from the top down. "" stands for the modules without a room, which every room may import."""
NEIGHBOURS = {"consume", "produce", "compaction"}
"""Rooms that must not import each other."""


def imported(text: str) -> set[str]:
    """Returns the rooms that the text of a module imports."""
    names = re.findall(r"^\s*(?:from|cimport|import) cy((?:\.\w+)*)(?: c?import|$| as)", text, flags=re.MULTILINE)
    rooms = {name.split(".")[1] if "." in name else "" for name in names}
    return {room if room in FLOORS else "" for room in rooms}


def is_allowed(room: str, other: str) -> bool:
    if room == other:
        return True
    return FLOORS.index(room) < FLOORS.index(other) and not {room, other} <= NEIGHBOURS


@pytest.mark.parametrize("room", FLOORS)
def test_imports_between_rooms_only_go_down(room: str) -> None:
    modules = [path for path in (CY / room).iterdir() if path.suffix in (".pyx", ".pxd", ".py", ".pyi")]
    wrong = {
        path.name: [other for other in imported(path.read_text()) if not is_allowed(room, other)] for path in modules
    }
    assert modules
    assert {name: rooms for name, rooms in wrong.items() if rooms} == {}


def test_the_check_finds_an_import_that_goes_up() -> None:
    text = "from cy.produce.blocks cimport Blocks\nfrom cy.endian cimport load_int32\n"
    text += "cimport cy.consume.fetched as it\n"
    assert imported(text) == {"produce", "", "consume"}
    assert not is_allowed("wire", "produce")
    assert not is_allowed("consume", "produce")
    assert is_allowed("client", "produce")
