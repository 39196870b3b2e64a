"""In-sync replicas: proposals, what they mean for the high watermark, and time."""

from __future__ import annotations

from pybroker.replication.isr import UNKNOWN_OFFSET, Expand, IsrTracker, Shrink

LAG_MS = 30_000


def tracker(members: tuple[int, ...] = (1, 2, 3), epoch_start: int = 0) -> IsrTracker:
    """Returns a tracker: broker 1 leads 1, 2 and 3 from time 0."""
    return IsrTracker(1, (1, 2, 3), members, epoch_start_offset=epoch_start, lag_time_max_ms=LAG_MS, now_ms=0)


def fetch(
    isr: IsrTracker, replica: int, offset: int, *, end: int, high_watermark: int = 0, now: int = 0
) -> Expand | None:
    return isr.on_fetch(replica, offset, 0, leader_end=end, high_watermark=high_watermark, now_ms=now)


def test_leader_alone_commits_what_it_has() -> None:
    isr = tracker((1,))
    assert isr.is_alone
    assert isr.least_log_end(42) == 42


def test_leader_is_always_a_member() -> None:
    isr = tracker((2, 3))
    assert isr.members == {1, 2, 3}
    isr.confirm((2,))
    assert 1 in isr.members


def test_least_log_end_is_that_of_the_slowest_member() -> None:
    isr = tracker()
    fetch(isr, 2, 10, end=20)
    fetch(isr, 3, 7, end=20)
    assert isr.least_log_end(20) == 7


def test_member_that_has_not_fetched_holds_the_high_watermark() -> None:
    assert tracker().least_log_end(20) == -1


def test_follower_outside_the_set_does_not_hold_the_high_watermark() -> None:
    isr = tracker((1, 2))
    fetch(isr, 2, 20, end=20)
    fetch(isr, 3, 5, end=20, high_watermark=20)
    assert isr.least_log_end(20) == 20


def test_case_15_follower_that_lags_too_long_is_to_leave() -> None:
    isr = tracker()
    fetch(isr, 2, 100, end=100, now=LAG_MS)
    fetch(isr, 3, 10, end=100, now=LAG_MS)
    assert isr.on_tick(100, LAG_MS) is None
    assert isr.on_tick(101, LAG_MS + 1) == Shrink(frozenset({3}), frozenset({1, 2}))


def test_case_15_a_follower_at_the_end_of_its_last_fetch_is_in_sync() -> None:
    isr = tracker()
    for now in range(0, 5 * LAG_MS, LAG_MS // 2):
        fetch(isr, 2, now, end=now + LAG_MS // 2, now=now)
        fetch(isr, 3, now, end=now + LAG_MS // 2, now=now)
        assert isr.on_tick(now + LAG_MS // 2, now + 1) is None


def test_idle_follower_at_the_log_end_stays_for_ever() -> None:
    isr = tracker()
    for replica in (2, 3):
        fetch(isr, replica, 100, end=100)
    assert isr.on_tick(100, 1_000_000_000) is None


def test_case_15_follower_comes_back_at_high_watermark_and_epoch_start() -> None:
    isr = tracker((1, 2), epoch_start=50)
    assert fetch(isr, 3, 40, end=100, high_watermark=30) is None
    assert fetch(isr, 3, 60, end=100, high_watermark=70) is None
    assert fetch(isr, 3, 70, end=100, high_watermark=70) == Expand(3, frozenset({1, 2, 3}), UNKNOWN_OFFSET)


def test_a_leader_sends_one_isr_proposal_at_a_time() -> None:
    isr = tracker((1,))
    assert fetch(isr, 2, 10, end=10, high_watermark=10) is not None
    assert fetch(isr, 3, 10, end=10, high_watermark=10) is None
    isr.confirm((1, 2))
    assert fetch(isr, 3, 10, end=10, high_watermark=10) == Expand(3, frozenset({1, 2, 3}), UNKNOWN_OFFSET)


def test_proposed_member_counts_before_the_controller_has_answered() -> None:
    isr = tracker((1,))
    fetch(isr, 2, 10, end=10, high_watermark=10)
    assert not isr.is_alone
    assert isr.least_log_end(15) == 10
    isr.give_up()
    assert isr.least_log_end(15) == 15


def test_member_proposed_to_leave_counts_until_the_controller_has_answered() -> None:
    isr = tracker((1, 2))
    fetch(isr, 2, 10, end=10)
    assert isr.on_tick(20, LAG_MS + 1) == Shrink(frozenset({2}), frozenset({1}))
    assert isr.on_tick(20, LAG_MS + 2) is None
    assert isr.least_log_end(20) == 10
    isr.confirm((1,))
    assert isr.least_log_end(20) == 20


def test_low_watermark_is_the_least_log_start() -> None:
    isr = tracker()
    assert isr.low_watermark(9) == -1
    isr.followers[2].log_start_offset = 4
    isr.followers[3].log_start_offset = 7
    assert isr.low_watermark(9) == 4


def test_the_state_of_remaining_replicas_outlives_a_reassignment() -> None:
    isr = tracker()
    fetch(isr, 2, 20, end=20)
    fetch(isr, 3, 20, end=20)
    isr.reassign((1, 2, 4), now_ms=0)
    isr.confirm((1, 2))
    assert isr.least_log_end(20) == 20
    assert set(isr.followers) == {2, 4}


def test_only_proposals_with_removed_replicas_are_dropped() -> None:
    isr = tracker((1, 2))
    assert fetch(isr, 3, 10, end=10) == Expand(3, frozenset({1, 2, 3}), UNKNOWN_OFFSET)
    isr.reassign((1, 2, 3, 4), now_ms=0)
    assert isr.pending is not None
    isr.reassign((1, 2), now_ms=0)
    assert isr.pending is None
    fetch(isr, 2, 20, end=20)
    assert isr.least_log_end(20) == 20


def test_a_follower_whose_registration_is_not_known_yet_waits_for_that() -> None:
    isr = tracker((1, 2))
    proposal = isr.on_fetch(
        3, 20, 0, leader_end=20, high_watermark=20, now_ms=0, broker_epoch=9, is_eligible=False
    )
    assert proposal is None
    assert not isr.registered(3, 8)
    assert isr.next_expand(20) is None
    assert isr.registered(3, 9)
    assert isr.next_expand(20) == Expand(3, frozenset({1, 2, 3}), 9)


def test_fetches_of_an_earlier_registration_do_not_count() -> None:
    isr = tracker((1,))
    assert fetch(isr, 2, 20, end=20, high_watermark=20) is not None
    isr.on_fetch(3, 20, 0, leader_end=20, high_watermark=20, now_ms=0, broker_epoch=9)
    assert not isr.registered(3, 10)
    isr.confirm((1, 2))
    assert isr.next_expand(20) is None
    isr.on_fetch(3, 0, 0, leader_end=20, high_watermark=20, now_ms=0, broker_epoch=10)
    assert isr.next_expand(20) is None
    proposal = isr.on_fetch(3, 20, 0, leader_end=20, high_watermark=20, now_ms=0, broker_epoch=10)
    assert proposal == Expand(3, frozenset({1, 2, 3}), 10)


def test_fetches_of_the_same_registration_still_count() -> None:
    isr = tracker((1,))
    assert fetch(isr, 2, 20, end=20, high_watermark=20) is not None
    isr.on_fetch(3, 20, 0, leader_end=20, high_watermark=20, now_ms=0, broker_epoch=9)
    assert not isr.registered(3, 9)
    isr.confirm((1, 2))
    assert isr.next_expand(20) == Expand(3, frozenset({1, 2, 3}), 9)


def test_the_next_follower_is_proposed_when_the_one_before_is_decided() -> None:
    isr = tracker((1,))
    assert fetch(isr, 2, 20, end=20, high_watermark=20) is not None
    assert fetch(isr, 3, 20, end=20, high_watermark=20) is None
    isr.confirm((1, 2))
    assert isr.next_expand(20) == Expand(3, frozenset({1, 2, 3}), UNKNOWN_OFFSET)


def test_case_15_a_follower_that_had_everything_was_caught_up_at_its_last_fetch() -> None:
    isr = tracker((1, 2))
    fetch(isr, 2, 20, end=20)
    isr.followers[2].was_caught_up(40_000)
    assert isr.on_tick(21, 40_000 + LAG_MS) is None
    assert isr.on_tick(21, 40_001 + LAG_MS) is not None
