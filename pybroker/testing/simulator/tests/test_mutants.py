"""Broken protocols are found out, and by an invariant that says what is wrong."""

from __future__ import annotations

import pytest

from pybroker.testing.simulator.hunt import ALL, find
from pybroker.testing.simulator.mutants import HISTORIC

HISTORIES = 60
QUICK = [number for number, mutant in enumerate(ALL) if mutant.seed >= 0]
"""The others take thousands of histories: ``tox -e simulation``."""


@pytest.mark.timeout(900)
@pytest.mark.parametrize("number", QUICK, ids=lambda number: ALL[number].name)
def test_a_broken_protocol_is_found_out(number: int) -> None:
    found = find(number, HISTORIES)
    assert found.is_right, found.line()


def test_there_are_enough_of_them() -> None:
    assert len(HISTORIC) == 5
    assert all(mutant.seed >= 0 for mutant in HISTORIC)
    assert len(QUICK) >= 20
    assert len({mutant.name for mutant in ALL}) == len(ALL)
