"""The design pages name files that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.tests.blocks import ROOT

ROOMS = {
    "client.md": ("pyclient", "pyclient/consumer"),
    "command-line.md": ("pybroker/cli",),
    "groups.md": ("pybroker/coordinator", "pybroker/coordinator/group/consumer"),
    "log.md": ("pybroker/log",),
    "metadata.md": ("pybroker/cluster",),
    "proof.md": ("proofs/simulator",),
    "replication.md": ("pybroker/replication",),
    "spark.md": ("pyclient/spark",),
    "transactions.md": ("pybroker/coordinator",),
}
"""What a page is about: its paths may begin there, as those of every page may at the root and in ``EVERYWHERE``."""
EVERYWHERE = ("", "pybroker", "pyclient", "proofs", "conformance")
DRAWINGS = sorted((ROOT / "docs" / "img").glob("*.dot"))
PAGES = [ROOT / "docs" / "design.md", *sorted((ROOT / "docs" / "design").glob("*.md"))]


def named(text: str) -> list[str]:
    """The files and folders that a page names between backquotes; ``cli/<verb>.py`` stands for many and is none."""
    return re.findall(r"`((?:[a-z_]+/)*[a-z_]+\.py|cy(?:[/.][a-z_]+)+|[a-z_]+(?:/[a-z_]+)+/?)`", text)


def is_there(path: str, rooms: tuple[str, ...]) -> bool:
    """Whether one of the rooms has it. A module of Cython is named without its ending, also as it is imported."""
    if path.startswith(("cy/", "cy.")):
        return (ROOT / path.replace(".", "/")).with_suffix(".pyx").is_file()
    return any((ROOT / room / path).exists() or (ROOT / room / f"{path}.py").is_file() for room in rooms)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_that_a_page_names_is_there(page: Path) -> None:
    rooms = (*EVERYWHERE, *ROOMS.get(page.name, ()))
    paths = named(page.read_text(encoding="utf-8"))
    assert paths
    assert [path for path in paths if not is_there(path, rooms)] == []


@pytest.mark.parametrize("drawing", DRAWINGS, ids=lambda drawing: drawing.stem)
def test_every_file_that_a_drawing_names_is_there_and_is_drawn(drawing: Path) -> None:
    paths = re.findall(r"(?:[a-z_]+/)*[a-z_]+\.py", drawing.read_text(encoding="utf-8"))
    drawn = drawing.with_suffix(".svg").read_text(encoding="utf-8")
    assert [path for path in paths if not is_there(path, EVERYWHERE) or path not in drawn] == []


def test_a_file_that_has_moved_is_found_missing() -> None:
    text = "`log/log.py`, `log/moved.py`, `cy/produce/sending`, `cy.sent`, `handlers/<api>.py`, `cli/kafka`, `x.sock`"
    assert [path for path in named(text) if not is_there(path, EVERYWHERE)] == ["log/moved.py", "cy.sent"]
