"""Log lines that could otherwise repeat for every record."""

from __future__ import annotations

import logging

from pyclient.core.reports.rare import INTERVAL, RareLog


def fail(rare, text, *arguments):
    try:
        raise ValueError("why")
    except ValueError:
        rare.exception(text, *arguments)


def test_repeated_lines_are_logged_once_per_interval_with_their_count(caplog):
    now = [0.0]
    rare = RareLog(logging.getLogger("test.rare"), lambda: now[0])
    for number in range(1000):
        fail(rare, "callback %r failed", number)
    fail(rare, "interceptor %r failed", "x")
    now[0] = INTERVAL
    fail(rare, "callback %r failed", "late")
    assert [record.getMessage() for record in caplog.records] == [
        "callback 0 failed",
        "interceptor 'x' failed",
        "callback 'late' failed (and 999 times since the last such line)",
    ]
    assert all(record.exc_info[0] is ValueError for record in caplog.records)
    now[0] = 2 * INTERVAL
    fail(rare, "callback %r failed", "alone")
    assert caplog.records[-1].getMessage() == "callback 'alone' failed"
    fail(rare, "callback %r failed", "left out")
    now[0] = 3 * INTERVAL
    fail(rare, "callback %r failed", "again")
    assert caplog.records[-1].getMessage() == "callback 'again' failed (and 1 time since the last such line)"
    rare.warning("%s waits", "a")
    rare.warning("%s waits", "b")
    last = caplog.records[-1]
    assert (last.levelname, last.getMessage(), last.exc_info) == ("WARNING", "a waits", None)


def test_a_different_error_with_the_same_line_is_logged_at_once(caplog):
    rare = RareLog(logging.getLogger("test.rare"), lambda: 0.0)

    def divide():
        return 1 / 0

    def elsewhere():
        raise ValueError("elsewhere")

    for fault in (divide, elsewhere) * 3:
        try:
            fault()
        except (ZeroDivisionError, ValueError):
            rare.exception("callback %r failed", "c")
    fail(rare, "callback %r failed", "c")
    assert [record.exc_info[1].args for record in caplog.records] == [
        ("division by zero",), ("elsewhere",), ("why",)
    ]
