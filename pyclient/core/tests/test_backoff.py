"""Waits between attempts."""

from __future__ import annotations

import pytest

from pyclient.core.backoff import Backoff


def test_waits_double_up_to_the_longest():
    backoff = Backoff(0.1, 1.0, lambda: 0.5)
    assert [round(backoff.next(), 3) for _ in range(6)] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    backoff.reset()
    assert backoff.next() == pytest.approx(0.1)


def test_jitter_is_at_most_20_percent_either_way():
    assert Backoff(1, 1, lambda: 0.0).next() == pytest.approx(0.8)
    assert Backoff(1, 1, lambda: 1.0).next() == pytest.approx(1.2)


def test_many_failures_do_not_overflow():
    backoff = Backoff(0.1, 1.0, lambda: 0.5)
    backoff.failures = 10_000
    assert backoff.next() == pytest.approx(1.0)


def test_a_maximum_below_the_first_wait_is_raised_to_it():
    assert Backoff(0.5, 0.1, lambda: 0.5).next() == pytest.approx(0.5)
