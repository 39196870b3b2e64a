"""Compaction over many rounds, with transactions that are older and younger than what a round reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.log.compaction.tests.compaction_history import History

HISTORIES = 320
PER_TEST = 20
STEPS = 70


@pytest.mark.parametrize("first", range(0, HISTORIES, PER_TEST))
def test_a_compacted_log_behaves_like_a_dictionary_of_its_keys(tmp_path: Path, first: int) -> None:
    rounds = 0
    for seed in range(first, first + PER_TEST):
        history = History(tmp_path / str(seed), seed)
        try:
            history.run(STEPS)
        except Exception as error:
            error.add_note(f"history {seed}")
            raise
        rounds += history.rounds
    assert rounds > 2 * PER_TEST
