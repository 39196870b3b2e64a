"""The words of the project are read at once: pages, docstrings, comments, messages, names of tests (``docs.words``)."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.words import LONGEST_PAGE, LONGEST_SENTENCE, Text, faults, found_in, of_file, tracked

ROOMS = ("*.md", "docs", "examples", "conformance", "cy", "proofs", "pybroker", "pyclient")

def shown(texts: str) -> list[str]:
    """What is wrong with a text, without the text."""
    return [fault.fault.partition(":")[0].partition(",")[0] for fault in faults(Text(Path("a.md"), 1, "page", texts))]


@pytest.mark.parametrize("room", ROOMS)
def test_no_sentence_of_a_room_is_long_or_says_a_forbidden_word(room: str) -> None:
    files = list(tracked([room]))
    assert files
    assert [str(fault) for path in files for fault in found_in(path)] == []


def test_a_sentence_ends_with_its_point_and_code_is_one_word() -> None:
    words = "word " * (LONGEST_SENTENCE - 2)
    assert shown(f"A {words}end. Say `a b c d` {words}.") == []
    assert shown(f"It is {words}long.") == [f"{LONGEST_SENTENCE + 1} words in a sentence"]


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("It goes to whoever asks.", "It goes to `whoever` asks."),
        ("It is made anew.", "It is made again."),
        ("It is no more.", "It has no more records."),
        ("Who leads is asked.", "Who leads?"),
        ("Locked; who waits is woken.", "A client who waits is woken."),
        ("It has such a name that nobody asks.", "Keys such as those that begin."),
    ],
)
def test_a_word_is_refused_where_it_is_hard_to_read(wrong: str, right: str) -> None:
    assert shown(wrong)
    assert shown(right) == []


def test_everything_that_people_read_is_looked_at_and_code_is_not(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        '"""Anew, the module.\n\n    anew = code\n"""\n'
        "# Anew, a comment\n# of two lines\n"
        'NAME = "anew"\n'
        "def test_it_is_made_anew(x: int) -> None:\n"
        '    """Anew, the function."""\n'
        '    raise ValueError(f"the {x} is made anew")\n'
    )
    page = tmp_path / "page.md"
    page.write_text("# Anew\n\n| anew |\n\n```sh\nanew\n```\n")
    kinds = sorted(fault.kind for path in (module, page) for text in of_file(path) for fault in faults(text))
    assert kinds == ["comment", "docstring", "docstring", "message", "name of a test", "page"]


def test_a_page_is_not_too_long(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("Short.\n" * (LONGEST_PAGE + 1))
    (fault,) = found_in(page)
    assert fault.fault.startswith(f"{LONGEST_PAGE + 1:,} words of prose")
