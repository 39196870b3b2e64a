"""The rest of a client's quota, as each request computes it. ``pybroker/quotas`` tests the arithmetic."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace

import pytest

from cy.quota import MOST_MS, Allowance, Rate, Share

WINDOWS = 11, 1000
ANSWER = SimpleNamespace(throttle_time_ms=0)


def allowance(bound: float = 1000.0) -> Allowance:
    made = Allowance(WINDOWS)
    made.bound = bound
    return made


def used(each: Allowance) -> float:
    return each.per_second(0) * each.measured_ms(0) / 1000


def test_produced_bytes_count_until_they_exceed_the_quota() -> None:
    produce = allowance()
    share = Share(produce, None, None, None)
    assert share.is_within(True, ANSWER, 4000, 0.0)
    assert share.is_within(True, None, 6000, 0.0)
    assert not share.is_within(True, ANSWER, 1, 0.0)
    assert used(produce) == 10_000


def test_fractions_of_a_millisecond_are_ignored() -> None:
    produce = allowance()
    share = Share(produce, None, None, None)
    assert share.is_within(True, ANSWER, 100, 0.0005)
    assert share.is_within(True, ANSWER, 100, 1.0009)
    assert produce.measured_ms(10_999.9) == 10_999
    assert produce.per_second(11_000.9) == 10


def test_an_exceeded_produce_quota_does_not_throttle_other_requests() -> None:
    produce = allowance()
    share = Share(produce, None, None, None)
    produce.use(50_000, 0)
    assert share.is_within(False, ANSWER, 100, 0.0)
    assert used(produce) == 50_000


def test_a_response_with_a_throttle_time_is_left_to_the_slow_path() -> None:
    share = Share(None, None, None, None)
    assert not share.is_within(False, SimpleNamespace(throttle_time_ms=5), 100, 0.0)


def test_futures_and_responses_without_a_throttle_time_are_left_to_the_slow_path() -> None:
    produce = allowance()
    share = Share(produce, None, None, None)
    for result in (Future[None](), object()):
        assert not share.is_within(True, result, 100, 0.0)
    assert used(produce) == 0


def test_an_exceeded_request_quota_throttles_every_request() -> None:
    request = allowance(1)
    share = Share(None, None, request, None)
    assert share.spend(0.1, 0.0)
    assert share.is_within(False, ANSWER, 100, 0.0)
    assert share.spend(0.001, 0.0)
    assert not share.is_within(False, ANSWER, 100, 0.0)
    assert not share.is_within(True, ANSWER, 7, 0.0)
    assert used(request) == pytest.approx(10.1)


def test_an_outdated_share_counts_nothing() -> None:
    produce, request = allowance(), allowance()
    share = Share(produce, None, request, None)
    share.is_current = False
    assert not share.is_within(True, ANSWER, 1, 0.0)
    assert not share.is_within(False, ANSWER, 100, 0.0)
    assert not share.spend(1, 0.0)
    assert used(produce) == used(request) == 0


def test_a_client_without_quotas_is_never_throttled() -> None:
    share = Share(None, None, None, None)
    assert share.is_within(True, ANSWER, 10**15, 0.0)
    assert share.spend(1000, 0.0)


def test_the_largest_quotas_and_windows_do_not_overflow() -> None:
    most = Allowance((2**31 - 1, (2**31 - 1) * 1000))
    most.bound = 1e308
    assert most.most_at_once == 2**62
    assert most.use(10**15, 2**41) == 0
    rate = Rate((2**31 - 1, (2**31 - 1) * 1000))
    rate.record(1.0, 2**41)
    assert rate.measured_ms(2**41) > 0
    assert rate.until_ms(1e-300, 2**41) == MOST_MS
