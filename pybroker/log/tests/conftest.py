"""Logs of these tests are small, and are closed like large ones."""

from __future__ import annotations

import pytest

from pybroker.log import log_files


@pytest.fixture(autouse=True)
def snapshots_of_small_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every log that is closed takes a snapshot of its producers."""
    monkeypatch.setattr(log_files, "SMALL_LOG_BYTES", 0)
