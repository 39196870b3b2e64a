"""When an application counts as one that no longer polls."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from pyclient import Consumer
from pyclient.consumer import core as core_module


def test_a_poll_that_waits_longer_than_max_poll_interval_is_not_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a topic without records: the interval begins at the end of a poll, and does not run during the next poll."""
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(core_module, "time", SimpleNamespace(monotonic=lambda: clock.now, time=time.time))
    with Consumer("127.0.0.1:1", group_id="g", max_poll_interval_ms=300_000) as consumer:
        core = consumer._core
        with core.polling():
            clock.now += 1_000
            assert not core.poll_is_late()
        clock.now += 299
        assert not core.poll_is_late()
        clock.now += 2
        assert core.poll_is_late()
