"""The exactly-once sink under kill -9: each row once, in the topic and in the table that is read from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.conftest import Counted
from conformance.spark.hooks.planted import MUTANTS
from conformance.spark.kills import Strike, campaign, plan

pytestmark = pytest.mark.ours
FEW = (
    Strike("decided", "worker"),
    Strike("written", "worker"),
    Strike("between the ends", "broker"),
    Strike("before the decision", "driver"),
)
"""One kill of each kind: before and after the commit point, with each victim."""


def test_each_row_exists_once_after_a_kill_of_each_kind(tmp_path: Path, counted: Counted) -> None:
    verdict = campaign(tmp_path, FEW)
    counted("", kills=len(FEW), rows=verdict.rows, lost=verdict.lost, doubled=verdict.doubled)
    assert verdict.is_clean, verdict


@pytest.mark.campaign
@pytest.mark.timeout(6 * 3600)
def test_each_row_exists_once_after_200_kills(tmp_path: Path, counted: Counted) -> None:
    verdict = campaign(tmp_path, plan(200, seed=1))
    counted("", kills=200, rows=verdict.rows, lost=verdict.lost, doubled=verdict.doubled)
    assert verdict.is_clean, verdict


@pytest.mark.campaign
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_a_planted_defect_of_the_sink_is_found(tmp_path: Path, name: str) -> None:
    mutant = MUTANTS[name]
    verdict = campaign(tmp_path, [Strike(mutant.stage, mutant.victim)], name)
    assert getattr(verdict, mutant.finding) > 0
