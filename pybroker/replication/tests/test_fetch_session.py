"""Fetch sessions (KIP-227): epochs, what an incremental response leaves out, slots."""

from __future__ import annotations

from itertools import count

import pytest

from pybroker.replication import fetch_session
from pybroker.replication.fetch_partition import FetchPartition, PartitionRead
from pybroker.replication.fetch_session import (
    EVICTION_MS,
    FINAL_EPOCH,
    INITIAL_EPOCH,
    LONGEST_NAME,
    MAX_EPOCH,
    Context,
    FetchSessions,
    Key,
    next_epoch,
)
from pyclient.protocol import errors


def sessions(slots: int = 10) -> FetchSessions:
    """Returns sessions that get the ids 1, 2, …"""
    ids = count(1)
    return FetchSessions(slots, lambda: next(ids))


def wanted(*indexes: int, topic: str = "t", offset: int = 0) -> dict[Key, FetchPartition]:
    partitions = [FetchPartition(topic, bytes(16), n, offset, 100) for n in indexes]
    return {each.key: each for each in partitions}


def read(size: int = 0, high_watermark: int = 0, start: int = 0) -> PartitionRead:
    found = PartitionRead(high_watermark, high_watermark, start)
    found.size = size
    return found


ALICE, BOB = "User:alice", "User:bob"


def start(each: FetchSessions, *indexes: int, now: int = 0, owner: str = ALICE) -> int:
    """Makes a session whose first fetch found no records; returns its id."""
    context = each.context(0, INITIAL_EPOCH, wanted(*indexes), (), False, now, owner)
    return context.answer([read() for _ in indexes], now)[0]


def go_on(
    each: FetchSessions,
    id: int,
    epoch: int,
    *indexes: int,
    forget: tuple[int, ...] = (),
    now: int = 0,
    owner: str = ALICE,
) -> Context:
    keys = [("t", index) for index in forget]
    return each.context(id, epoch, wanted(*indexes), keys, False, now, owner)


def indexes(context: Context) -> list[int]:
    return [each.index for each in context.partitions]


def answered(context: Context, *reads: PartitionRead) -> list[int]:
    return [partition.index for partition, _ in context.answer(list(reads), 0)[1]]


def test_final_epoch_is_a_fetch_without_a_session() -> None:
    each = sessions()
    context = each.context(0, FINAL_EPOCH, wanted(0, 1), (), False, 0, ALICE)
    session_id, answers = context.answer([read(), read()], 0)
    assert session_id == 0
    assert [partition.index for partition, _ in answers] == [0, 1]
    assert len(each) == 0


def test_session_begins_with_the_first_response_which_has_everything() -> None:
    each = sessions()
    context = each.context(0, INITIAL_EPOCH, wanted(0, 1), (), False, 0, ALICE)
    assert len(each) == 0
    assert context.answer([read(), read()], 0)[0] == 1
    assert len(each) == 1


def test_incremental_response_has_only_what_is_new() -> None:
    each = sessions()
    id = start(each, 0, 1, 2, 3)
    context = go_on(each, id, 1)
    assert indexes(context) == [0, 1, 2, 3]
    assert answered(context, read(), read(size=5), read(high_watermark=9), read(start=1)) == [
        1,
        2,
        3,
    ]
    context = go_on(each, id, 2)
    assert answered(context, *[read(high_watermark=0)] * 4) == [2, 3]


def test_an_error_is_always_returned_and_then_the_partition() -> None:
    each = sessions()
    id = start(each, 0)
    failed = PartitionRead(error=errors.NotLeaderOrFollower())
    assert answered(go_on(each, id, 1), failed) == [0]
    assert answered(go_on(each, id, 2), failed) == [0]
    assert answered(go_on(each, id, 3), read()) == [0]
    assert answered(go_on(each, id, 4), read()) == []


def test_partition_that_gave_records_goes_to_the_end() -> None:
    each = sessions()
    id = start(each, 0, 1, 2)
    answered(go_on(each, id, 1), read(size=1), read(), read())
    context = go_on(each, id, 2)
    assert indexes(context) == [1, 2, 0]


def test_partitions_are_added_changed_and_forgotten() -> None:
    each = sessions()
    id = start(each, 0, 1)
    context = each.context(id, 1, wanted(1, 2, offset=50), [("t", 0)], False, 0, ALICE)
    assert [(p.index, p.fetch_offset) for p in context.partitions] == [(1, 50), (2, 50)]


def test_session_without_partitions_ends() -> None:
    each = sessions()
    id = start(each, 0)
    context = go_on(each, id, 1, forget=(0,))
    assert context.answer([], 0) == (0, [])
    with pytest.raises(errors.FetchSessionIdNotFound):
        go_on(each, id, 2)


def test_epoch_must_be_the_next_one() -> None:
    each = sessions()
    id = start(each, 0)
    for epoch in (2, 7):
        with pytest.raises(errors.InvalidFetchSessionEpoch):
            go_on(each, id, epoch)
    go_on(each, id, 1)
    with pytest.raises(errors.InvalidFetchSessionEpoch):
        go_on(each, id, 1)
    go_on(each, id, 2)


def test_epoch_after_the_greatest_is_one() -> None:
    assert next_epoch(MAX_EPOCH) == 1
    assert next_epoch(INITIAL_EPOCH) == 1


def test_an_unknown_session_is_an_error() -> None:
    with pytest.raises(errors.FetchSessionIdNotFound):
        go_on(sessions(), 99, 1)


def test_topic_ids_and_names_do_not_mix() -> None:
    each = sessions()
    id = start(each, 0)
    with pytest.raises(errors.FetchSessionTopicIdError):
        each.context(id, 1, {}, (), True, 0, ALICE)


def test_full_request_ends_the_session_it_names() -> None:
    each = sessions()
    first = start(each, 0)
    each.context(first, INITIAL_EPOCH, wanted(0), (), False, 0, ALICE).answer([read()], 0)
    assert len(each) == 1
    each.context(2, FINAL_EPOCH, {}, (), False, 0, ALICE)
    assert len(each) == 0


def test_only_its_owner_can_use_a_fetch_session() -> None:
    each = sessions()
    id = start(each, 0)
    for epoch in (1, 2):
        with pytest.raises(errors.FetchSessionIdNotFound):
            go_on(each, id, epoch, 1, owner=BOB)
    for epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        go_on(each, id, epoch, owner=BOB)
    assert indexes(go_on(each, id, 1)) == [0]


def test_a_second_request_of_a_fetch_session_invalidates_the_answer_to_the_first() -> None:
    each = sessions()
    id = start(each, 0)
    slow = go_on(each, id, 1)
    go_on(each, id, 2)
    with pytest.raises(errors.InvalidFetchSessionEpoch):
        slow.answer([read()], 0)


def test_without_slots_no_session_begins() -> None:
    assert start(sessions(0), 0) == 0


def test_slots_are_bounded_and_young_sessions_keep_theirs() -> None:
    each = sessions(2)
    assert [start(each, 0), start(each, 0), start(each, *range(50))] == [1, 2, 0]


def test_session_not_used_for_two_minutes_loses_its_slot() -> None:
    each = sessions(2)
    start(each, *range(9))
    start(each, 0, now=EVICTION_MS)
    assert start(each, 0, now=EVICTION_MS + 1) == 3
    with pytest.raises(errors.FetchSessionIdNotFound):
        go_on(each, 1, 1)


def test_old_session_of_fewer_partitions_makes_room_for_a_larger_one() -> None:
    each = sessions(2)
    start(each, 0, 1)
    start(each, 0)
    late = EVICTION_MS + 1
    for id in (1, 2):
        go_on(each, id, 1, now=late)
    assert start(each, 0, now=late) == 0
    assert start(each, 0, 1, now=late) == 3
    go_on(each, 1, 2, now=late)
    with pytest.raises(errors.FetchSessionIdNotFound):
        go_on(each, 2, 2, now=late)


def test_names_that_no_topic_has_are_not_remembered() -> None:
    """Clients may invent any names, and each may be as long as a request."""
    each = sessions()
    longest, longer = (wanted(0, topic="x" * length) for length in (LONGEST_NAME, LONGEST_NAME + 1))
    context = each.context(0, INITIAL_EPOCH, longer, (), False, 0, ALICE)
    id, answers = context.answer([read()], 0)
    assert (id, len(answers), len(each)) == (0, 1, 0)
    id = each.context(0, INITIAL_EPOCH, longest, (), False, 0, ALICE).answer([read()], 0)[0]
    assert id
    with pytest.raises(errors.FetchSessionIdNotFound):
        each.context(id, 1, longer, (), False, 0, ALICE)
    assert (len(each), each.partitions) == (0, 0)


def test_session_ids_in_use_are_not_assigned_again() -> None:
    ids = iter([5, 5, 5, 6])
    each = FetchSessions(10, lambda: next(ids))
    assert [start(each, 0), start(each, 0)] == [5, 6]


def test_one_principal_cannot_take_all_partitions_of_fetch_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_session, "MOST_PARTITIONS", 20)
    each = sessions()
    strange = [start(each, *range(5), owner=BOB) for _ in range(4)]
    assert start(each, 0, owner=BOB) == 0
    mine = start(each, *range(6))
    assert (mine > 0, each.partitions) == (True, 16)
    assert start(each, *range(5), owner=BOB) == 0
    for id in strange:
        assert (id in each) is (id not in strange[:2])
    assert indexes(go_on(each, mine, 1, 6, 7, 8, 9)) == [*range(10)]
    with pytest.raises(errors.FetchSessionIdNotFound):
        go_on(each, mine, 2, 10)
    assert each.partitions == 10


def test_a_session_that_grows_takes_from_a_principal_with_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_session, "MOST_PARTITIONS", 20)
    each = sessions()
    mine = start(each, 0)
    strange = [start(each, *range(n), owner=BOB) for n in (10, 9)]
    assert indexes(go_on(each, mine, 1, 1, 2)) == [0, 1, 2]
    assert [id in each for id in strange] == [False, True]


def test_an_idle_session_that_grows_beyond_all_room_is_not_evicted_under_its_own_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fetch_session, "MOST_PARTITIONS", 4)
    each = sessions()
    idle, other = start(each, 0, 1), start(each, 2, owner=BOB)
    assert indexes(go_on(each, idle, 1, 3, 4, now=EVICTION_MS + 1)) == [0, 1, 3, 4]
    assert (idle in each, other in each, each.partitions) == (True, False, 4)


def test_one_principal_cannot_take_all_slots_of_fetch_sessions() -> None:
    each = sessions(4)
    mine = start(each, 0)
    strange = [start(each, *range(50), owner=BOB) for _ in range(3)]
    late = EVICTION_MS + 1
    go_on(each, mine, 1, now=late)
    for id in strange:
        go_on(each, id, 1, now=late, owner=BOB)
    assert start(each, *range(51), owner=BOB, now=late) > 0
    assert mine in each
    second = start(each, 1, now=late)
    assert second > 0
    assert start(each, 2, now=late) == 0
    assert (mine in each, second in each, len(each)) == (True, True, 4)
