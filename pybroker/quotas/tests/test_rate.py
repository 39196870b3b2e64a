"""The arithmetic of Kafka's quotas, by cases that were computed by hand, some of them Kafka's own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from cy.quota import MOST_MS, Rate
from pybroker.quotas.rate import TokenBucket, Windows

SECONDS = Windows(11, 1000)


def rate(*records: tuple[int, float], windows: Windows = SECONDS) -> Rate:
    made = Rate(windows)
    for now_ms, value in records:
        made.record(value, now_ms)
    return made


def test_a_rate_is_measured_over_all_windows_even_before_they_have_elapsed() -> None:
    made = rate((0, 20_000))
    assert (made.measured_ms(0), made.per_second(0)) == (10_000, 2000)
    assert (made.measured_ms(500), made.per_second(500)) == (10_500, pytest.approx(1904.76, abs=0.01))
    assert (made.measured_ms(3000), made.measured_ms(10_999)) == (10_000, 10_999)


def test_the_throttle_time_is_the_time_until_the_rate_falls_to_its_bound() -> None:
    made = rate((0, 20_000))
    assert made.until_ms(1000, 0) == 10_000
    assert made.until_ms(1000, 500) == 9500
    assert made.until_ms(2000, 0) == 0
    assert rate((0, 20_000)).until_ms(1, 0) == 19_990_000


def test_a_burst_after_a_steady_rate_is_delayed_as_in_kafkas_own_test() -> None:
    made = rate(*((1000 * second, 400) for second in range(10)))
    assert made.until_ms(500, 9000) == 0
    made.record(2300, 10_500)
    assert made.per_second(10_500) == 600
    assert made.until_ms(500, 10_500) == 2100
    for second in range(1, 11):
        made.record(400, 10_500 + 2100 + 1000 * second)
    assert made.until_ms(500, 10_500 + 2100 + 11_000) == 0


def test_a_sample_expires_when_all_windows_have_passed_since_its_last_use() -> None:
    made = rate((0, 100), (900, 100), (1500, 50))
    assert made.per_second(11_899) * made.measured_ms(11_899) / 1000 == pytest.approx(250)
    assert made.per_second(11_900) * made.measured_ms(11_900) / 1000 == pytest.approx(50)
    assert not made.is_idle(12_499)
    assert made.is_idle(12_500)
    assert made.per_second(12_500) == 0
    assert made.measured_ms(12_500) == 10_000


def test_usage_that_is_taken_back_does_not_count() -> None:
    made = rate((0, 500), (2000, 9000), (2000, -9000))
    assert made.until_ms(50, 2000) == 0
    assert made.per_second(2000) == 50


def test_a_rate_with_one_window_is_measured_over_at_least_a_millisecond() -> None:
    made = rate((0, 5), windows=Windows(1, 1000))
    assert made.measured_ms(0) == 1
    assert made.per_second(0) == 5000


def test_a_delay_is_never_longer_than_the_throttle_time_field_can_hold() -> None:
    assert rate((0, 1e15)).until_ms(1, 0) == MOST_MS


@given(some.lists(some.tuples(some.integers(0, 5000), some.integers(0, 1000)), max_size=60))
def test_a_rate_counts_all_recent_usage_and_nothing_twice(
    steps: list[tuple[int, int]],
) -> None:
    made, now_ms, told = Rate(SECONDS), 0, []
    for step_ms, value in steps:
        now_ms += step_ms
        made.record(value, now_ms)
        told.append((now_ms, value))
    recent = sum(value for at_ms, value in told if now_ms - at_ms < 11_000)
    all_of_them = sum(value for _, value in told)
    total = made.per_second(now_ms) * made.measured_ms(now_ms) / 1000
    assert recent - 1e-6 <= total <= all_of_them + 1e-6
    assert 10_000 <= made.measured_ms(now_ms) < 13_000


def test_a_token_bucket_starts_full_and_may_go_below_zero() -> None:
    bucket = TokenBucket(Windows(100, 1000))
    assert bucket.left(5, 0) == 500
    bucket.take(560, 5, 0)
    assert (bucket.left(5, 0), bucket.delay_ms(5, 0)) == (-60, 12_000)
    assert bucket.delay_ms(5, 11_900) == 100
    assert bucket.delay_ms(5, 12_000) == 0
    assert bucket.left(5, 12_000) == 0
    assert bucket.left(5, 1_000_000) == 500


def test_a_token_bucket_below_zero_is_not_idle() -> None:
    bucket = TokenBucket(SECONDS)
    bucket.take(100, 1, 0)
    assert not bucket.is_idle(20_000)
    bucket.left(1, 200_000)
    assert not bucket.is_idle(200_000)
    assert bucket.is_idle(211_000)
