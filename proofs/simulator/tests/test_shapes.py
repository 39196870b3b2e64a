"""Checks that every invariant holds in histories of each shape, unless a defect is planted (``test_defects.py``)."""

from __future__ import annotations

import pytest

from proofs.simulator.shapes import SHAPES

HISTORIES, THOUSANDS = 60, 3_000
RARE = ("commits", "diverging logs", "haste", "moves", "much power", "topics")
"""Shapes of defects that take thousands of histories to find."""


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_invariant_holds(shape: str) -> None:
    failure = SHAPES[shape].failure(HISTORIES)
    assert not failure, failure


@pytest.mark.campaign
@pytest.mark.parametrize("shape", RARE)
def test_every_invariant_holds_in_thousands_of_histories(shape: str) -> None:
    failure = SHAPES[shape].failure(THOUSANDS)
    assert not failure, failure
