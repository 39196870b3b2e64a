"""Numbers of things in messages."""

from __future__ import annotations

from cy.counted import counted


def test_counted_uses_the_singular_only_for_one() -> None:
    assert [counted(number, "record") for number in (0, 1, 2)] == ["0 records", "1 record", "2 records"]
    assert [counted(number, "record is", "records are") for number in (1, 2)] == ["1 record is", "2 records are"]
