"""Each trial finds nothing on brokers that keep their promises, and every planted mutant of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.faults import mutants
from conformance.faults.mutants.planted import MUTANTS
from conformance.faults.trials import scripts

pytestmark = pytest.mark.ours
#: In CI a few stand for all.
SHORT_TRIALS = ("frozen followers",)
SHORT_MUTANTS = ("acks_before_replication",)


def chosen(names: list[str], short: tuple[str, ...]) -> list[object]:
    return [name if name in short else pytest.param(name, marks=pytest.mark.campaign) for name in names]


@pytest.mark.parametrize("name", chosen(sorted(scripts.TRIALS), SHORT_TRIALS))
def test_a_trial_finds_nothing(name: str, tmp_path: Path) -> None:
    assert scripts.run(name, tmp_path) == []


@pytest.mark.parametrize("name", chosen(sorted(MUTANTS), SHORT_MUTANTS))
def test_a_mutant_is_caught(name: str, tmp_path: Path) -> None:
    mutant = MUTANTS[name]
    found = scripts.run(mutant.trial, tmp_path, mutants.environment(name))
    assert {anomaly.kind for anomaly in found} & set(mutant.kinds), (mutant.kinds, found)
