"""Checks that the search for garbage finds everything that the test itself leaves, and nothing that other code leaves.
"""

from __future__ import annotations

import gc

import pytest

from proofs.garbage import leaves_nothing


class Thing:
    """An object that may be part of a cycle."""

    other: object = None


class Special(Thing):
    """A subclass counts too."""


def cycle() -> None:
    with leaves_nothing(Thing):
        thing = Special()
        thing.other = thing
        del thing


def test_a_reference_cycle_is_found() -> None:
    with pytest.raises(AssertionError, match="1 of them"):
        cycle()
    assert gc.isenabled()


def test_objects_without_a_cycle_are_not_reported() -> None:
    with leaves_nothing(Thing):
        Thing().other = Thing()


def replaced(things: list[Thing]) -> None:
    with leaves_nothing(Thing):
        things.clear()
        things.append(Thing())


def test_garbage_of_other_code_is_not_counted_and_hides_nothing() -> None:
    others = [Thing() for _ in range(100)]
    with leaves_nothing(Thing):
        assert len(others) == 100
    with pytest.raises(AssertionError, match="1 of them"):
        replaced(others)
