"""The API reference is that of the code."""

from __future__ import annotations

import pytest

import pyclient
from docs.reference import API, reference
from docs.reference_tables import prose
from pyclient import aio


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    return reference()


def test_the_reference_is_current(made: dict[str, str]) -> None:
    assert sorted(made) == sorted(path.name for path in API.glob("*.md"))
    for name, text in made.items():
        stands = (API / name).read_text(encoding="utf-8")
        assert stands == text, f"docs/api/{name} is out of date: python -m docs.reference"


def test_every_public_name_of_the_client_is_in_it(made: dict[str, str]) -> None:
    pages = "".join(made.values())
    for name in {*pyclient.__all__, *aio.__all__} - {"aio"}:  # which is a page
        assert f"## {name}\n" in pages or f"`{name}`" in pages, name


def test_code_that_is_set_in_stands_between_blank_lines() -> None:
    given = ["An ``a``:", "    x = 1", "", "    y = 2", "More.", ""]
    assert prose(given) == "An `a`:\n\n    x = 1\n\n    y = 2\n\nMore."
