"""Every message that the page quotes is one of ours, in these words."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from docs.tests.blocks import ROOT

PAGE = ROOT / "docs" / "troubleshooting.md"
FOREIGN = {"Broker transport failure", "NoBrokersAvailable", "Too many open files"}
"""What other clients say, and the system."""
GAP = "…"


def quoted() -> list[str]:
    """The messages in the first column of the page's tables."""
    cells = re.findall(r"^\| (.*?) \|", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    found = [text for cell in cells for text in re.findall(r"`([^`]+)`", cell)]
    return [text for text in found if text not in FOREIGN]


def texts() -> Iterator[str]:
    """The strings of the sources, with ``GAP`` for what is filled in when they are shown."""
    for room in ("pybroker", "pyclient"):
        for path in (ROOT / room).rglob("*.py"):
            if "tests" not in path.parts:
                for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                    if isinstance(node, ast.JoinedStr):
                        known = [each.value if isinstance(each, ast.Constant) else GAP for each in node.values]
                        yield "".join(map(str, known))
                    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                        yield re.sub(r"%[-\d.]*[sdgrf]|\{[^}]*\}", GAP, node.value)
                    elif isinstance(node, ast.ClassDef | ast.Name):
                        yield node.name if isinstance(node, ast.ClassDef) else node.id


def pieces(message: str) -> list[str]:
    """What of a message does not depend on the case, as several strings may make one."""
    given = re.sub(r"\d+|\bFILE:LINE\b|\bSIG[A-Z]+\b|\w*[._]\w+|\b(?:connect|handshake)\b|[:,;(] ?", GAP, message)
    return [piece.strip() for piece in given.split(GAP) if len(re.findall(r"[A-Za-z]", piece)) > 2]


@pytest.fixture(scope="module")
def sources() -> str:
    return "\n".join(texts())


@pytest.mark.parametrize("message", quoted())
def test_a_quoted_message_is_in_the_sources(message: str, sources: str) -> None:
    assert [piece for piece in pieces(message) if piece not in sources] == []


def test_a_message_in_other_words_is_found_out(sources: str) -> None:
    assert pieces("log dir … goes off line") == ["log dir", "goes off line"]
    assert "goes off line" not in sources
