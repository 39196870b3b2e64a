"""A group without a coordinator is reported in words, after a while, and seldom."""

from __future__ import annotations

import pytest

from pyclient.core.reports.absent_coordinators import AbsentCoordinators
from pyclient.protocol.errors import CoordinatorNotAvailable

WHY = CoordinatorNotAvailable("__consumer_offsets cannot be created yet: only 2 brokers are registered")


def test_a_missing_coordinator_is_logged_after_3_s_and_then_each_minute(caplog: pytest.LogCaptureFixture) -> None:
    absent = AbsentCoordinators()
    for now in (0.0, 2.9, 3.0, 10.0, 62.9, 63.0):
        absent.tell("g", WHY, now)
    assert [record.getMessage() for record in caplog.records] == [
        "g has no coordinator yet: __consumer_offsets cannot be created yet: only 2 brokers are registered; "
        "still trying"
    ] * 2


def test_a_coordinator_that_is_found_in_time_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    absent = AbsentCoordinators()
    absent.tell("g", WHY, 0.0)
    absent.end("g")
    absent.tell("g", WHY, 3.0)
    assert not caplog.records
