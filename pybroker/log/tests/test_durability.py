"""The recovery point never covers truncated records, whenever a sync runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pybroker.log.log import Log
from pybroker.log.tests.helpers import NOW, batch, open_log


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """A log of ten records, none of them synced."""
    log = open_log(tmp_path)
    for _ in range(10):
        log.append_as_leader(batch(), 0, NOW)
    return log


def test_a_sync_during_a_truncation_does_not_raise_the_recovery_point(log: Log, monkeypatch: Any) -> None:
    sync = log.segments.sync

    def cut_meanwhile(start: int, end: int) -> None:
        sync(start, end)
        log.truncate_to(4, NOW)

    monkeypatch.setattr(type(log.segments), "sync", lambda _, start, end, is_over: cut_meanwhile(start, end))
    log.flush()
    assert log.recovery_point == 0


def test_a_sync_just_before_a_truncation_does_not_raise_the_recovery_point(log: Log, monkeypatch: Any) -> None:
    log.flush()
    checkpoint = log.log_dir.checkpoint_recovery_points
    seen = []

    def sync_meanwhile() -> None:
        checkpoint()
        if not seen:
            seen.append(log.flush())

    monkeypatch.setattr(log.log_dir, "checkpoint_recovery_points", sync_meanwhile)
    log.truncate_to(4, NOW)
    assert seen == [10]
    assert log.recovery_point == 4
    log.append_as_leader(batch(), 1, NOW)
    assert log.recovery_point == 4
