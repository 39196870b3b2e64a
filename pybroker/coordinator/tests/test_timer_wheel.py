from __future__ import annotations

import random

from pybroker.coordinator.timer_wheel import TimerWheel


def due(wheel: TimerWheel[str], now_ms: int) -> list[str]:
    fired = []
    while (timer := wheel.pop(now_ms)) is not None:
        fired.append(timer.action)
    return fired


def test_a_timer_fires_once_and_never_early() -> None:
    wheel: TimerWheel[str] = TimerWheel(10)
    wheel.schedule(95, "a")
    assert wheel.next_deadline_ms == 100
    assert due(wheel, 99) == []
    assert due(wheel, 100) == ["a"]
    assert due(wheel, 1_000) == []
    assert wheel.next_deadline_ms is None


def test_a_cancelled_timer_does_not_fire() -> None:
    wheel: TimerWheel[str] = TimerWheel()
    kept, gone = wheel.schedule(5, "kept"), wheel.schedule(5, "gone")
    wheel.cancel(gone)
    wheel.cancel(None)
    assert due(wheel, 5) == ["kept"]
    wheel.cancel(kept)
    wheel.cancel(gone)


def test_cancelling_all_leaves_nothing_to_wait_for() -> None:
    wheel: TimerWheel[str] = TimerWheel()
    wheel.cancel(wheel.schedule(5, "a"))
    assert wheel.next_deadline_ms is None
    wheel.schedule(5, "b")
    assert due(wheel, 5) == ["b"]


def test_an_action_that_sets_its_timer_again_does_not_fire_twice_at_one_moment() -> None:
    wheel: TimerWheel[str] = TimerWheel()
    wheel.schedule(7, "a")
    timer = wheel.pop(7)
    assert timer is not None
    wheel.schedule(7, "again")
    assert wheel.pop(7) is None
    assert due(wheel, 8) == ["again"]


def test_timers_fire_in_the_order_of_their_deadlines_whatever_is_set_and_cancelled() -> None:
    pick = random.Random(1)
    wheel: TimerWheel[int] = TimerWheel()
    timers = [wheel.schedule(pick.randrange(1_000), number) for number in range(2_000)]
    gone = set(pick.sample(range(2_000), 500))
    for number in gone:
        wheel.cancel(timers[number])
    fired: list[int] = []
    for now_ms in range(0, 1_001, 50):
        while (timer := wheel.pop(now_ms)) is not None:
            assert timer.deadline_ms <= now_ms
            fired.append(timer.action)
    assert set(fired) == set(range(2_000)) - gone
    deadlines = [timers[number].deadline_ms for number in fired]
    assert deadlines == sorted(deadlines)
