"""Offsets in transactions, frame by frame: KIP-447, KIP-890, and their state after a crash (case 42)."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from conformance.conftest import NewBroker
from harness.clients.members import Member, committed, find_coordinator
from harness.protocol import kinds
from harness.protocol.error_codes import (
    CONCURRENT_TRANSACTIONS,
    COORDINATOR_NOT_READY,
    FENCED_INSTANCE_ID,
    ILLEGAL_GENERATION,
    INVALID_GROUP_ID,
    INVALID_TXN_STATE,
    TRANSACTION_ABORTABLE,
    UNKNOWN_MEMBER_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
    UNSTABLE_OFFSET_COMMIT,
)
from harness.protocol.wire_client import Wire
from harness.servers.brokers import Broker
from harness.waiting import until

RETRIABLE = (*COORDINATOR_NOT_READY, CONCURRENT_TRANSACTIONS)
OLDEST, OLDER, NEWEST = 0, 3, 5


class Transactional:
    """A producer that calls its coordinator, one request at a time. It repeats requests after retriable errors."""

    def __init__(self, wire: Wire, group: str) -> None:
        self.wire = wire
        self.group = group
        self.id = f"txn-{uuid.uuid4()}"
        self.begin_session()

    def begin_session(self) -> None:
        """Begins a new epoch."""
        until(lambda: self._found() == 0, "a transaction coordinator", 60)
        reply = self.settled(lambda: self._init(), lambda reply: int(reply.error_code))
        assert reply.error_code == 0, reply
        self.producer_id, self.epoch = reply.producer_id, reply.producer_epoch

    def _found(self) -> int:
        return int(self.wire.ask("FindCoordinator", 3, key=self.id, key_type=kinds.TRANSACTION).error_code)

    def _init(self) -> Any:
        return self.wire.ask(
            "InitProducerId",
            4,
            transactional_id=self.id,
            transaction_timeout_ms=60_000,
            producer_id=-1,
            producer_epoch=-1,
        )

    def settled(self, ask: Callable[[], Any], code: Callable[[Any], int]) -> Any:
        """Returns the first reply that is not retriable."""
        replies: list[Any] = []

        def look() -> bool:
            replies.append(ask())
            return code(replies[-1]) not in RETRIABLE

        until(look, "an answer that is not retriable", 60)
        return replies[-1]

    @property
    def claim(self) -> dict[str, Any]:
        return {
            "transactional_id": self.id,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
        }

    def add_offsets(self) -> int:
        """Sends AddOffsetsToTxn, as clients of transactions v1 do before they commit."""
        reply = self.settled(
            lambda: self.wire.ask("AddOffsetsToTxn", 3, group_id=self.group, **self.claim),
            lambda reply: int(reply.error_code),
        )
        return int(reply.error_code)

    def commit_offset(self, topic: str, offset: int, version: int, **fields: Any) -> int:
        """Sends TxnOffsetCommit of partition 0."""
        row = {"partition_index": 0, "committed_offset": offset, "committed_metadata": "m"}
        topics = [{"name": topic, "partitions": [row]}]
        asked = {"group_id": self.group, **self.claim, **fields}
        reply = self.settled(
            lambda: self.wire.ask("TxnOffsetCommit", version, topics=topics, **asked), code_of
        )
        return code_of(reply)

    def end(self, *, commit: bool, version: int = 3) -> int:
        reply = self.settled(
            lambda: self.wire.ask("EndTxn", version, committed=commit, **self.claim),
            lambda reply: int(reply.error_code),
        )
        if version >= NEWEST and reply.error_code == 0:
            self.producer_id, self.epoch = reply.producer_id, reply.producer_epoch
        return int(reply.error_code)


def code_of(reply: Any) -> int:
    """Returns the error code of the only partition."""
    return int(reply.topics[0].partitions[0].error_code)


def row(wire: Wire, group: str, topic: str, *, stable: bool) -> tuple[int, int]:
    """Returns the error code and the offset of partition 0."""
    wanted = [{"name": topic, "partition_indexes": [0]}]
    reply = wire.ask("OffsetFetch", 7, group_id=group, topics=wanted, require_stable=stable)
    found = reply.topics[0].partitions[0]
    return int(found.error_code), int(found.committed_offset)


def settle(wire: Wire, group: str, topic: str) -> int:
    """Returns the committed offset, once no transaction may change it."""
    until(lambda: row(wire, group, topic, stable=True)[0] != UNSTABLE_OFFSET_COMMIT, "the marker", 60)
    return row(wire, group, topic, stable=True)[1]


@pytest.fixture
def producer(wire: Wire, group: str) -> Transactional:
    """Returns a transactional producer that will commit for a group whose coordinator has loaded."""
    find_coordinator(wire, group)
    return Transactional(wire, group)


@pytest.mark.parametrize("version", [OLDEST, 1, 2, OLDER, 4])
@pytest.mark.parametrize("commit", [True, False])
def test_an_offset_counts_only_after_its_transaction_is_committed(
    producer: Transactional, wire: Wire, group: str, topic: str, version: int, commit: bool
) -> None:
    assert producer.add_offsets() == 0
    assert producer.commit_offset(topic, 5, version) == 0
    assert row(wire, group, topic, stable=True) == (UNSTABLE_OFFSET_COMMIT, -1)
    assert row(wire, group, topic, stable=False) == (0, -1)
    assert producer.end(commit=commit) == 0
    assert settle(wire, group, topic) == (5 if commit else -1)


def test_transactions_v2_add_the_group_with_the_commit(
    producer: Transactional, wire: Wire, group: str, topic: str
) -> None:
    for offset in (5, 6):
        assert producer.commit_offset(topic, offset, NEWEST) == 0
        assert producer.end(commit=True, version=NEWEST) == 0
        assert settle(wire, group, topic) == offset


def test_transactions_v2_may_follow_each_other_at_once(
    producer: Transactional, wire: Wire, group: str, topic: str
) -> None:
    """The next transaction begins while the markers of the last one are still being written."""
    for offset in range(50):
        assert producer.commit_offset(topic, offset, NEWEST) == 0
        assert producer.end(commit=offset % 3 != 1, version=NEWEST) == 0
    assert settle(wire, group, topic) == 48


@pytest.mark.parametrize(("version", "code"), [(OLDER, INVALID_TXN_STATE), (4, TRANSACTION_ABORTABLE)])
def test_case_39_a_group_that_was_not_added_is_refused(
    producer: Transactional, wire: Wire, group: str, topic: str, version: int, code: int
) -> None:
    assert producer.commit_offset(topic, 5, version) == code
    assert row(wire, group, topic, stable=True) == (0, -1)


def test_offsets_committed_by_a_fenced_producer_never_count(
    producer: Transactional, wire: Wire, group: str, topic: str
) -> None:
    assert producer.add_offsets() == 0
    assert producer.commit_offset(topic, 5, OLDER) == 0
    old = producer.epoch
    producer.begin_session()
    assert settle(wire, group, topic) == -1
    assert producer.commit_offset(topic, 6, OLDER, producer_epoch=old) != 0
    assert settle(wire, group, topic) == -1


def test_the_offset_written_last_counts(
    producer: Transactional, wire: Wire, group: str, topic: str
) -> None:
    assert producer.add_offsets() == 0
    assert producer.commit_offset(topic, 5, OLDER) == 0
    plain = {"partition_index": 0, "committed_offset": 9, "committed_metadata": ""}
    topics = [{"name": topic, "partitions": [plain]}]
    reply = wire.ask("OffsetCommit", 8, group_id=group, topics=topics)
    assert code_of(reply) == 0
    assert producer.end(commit=True) == 0
    assert settle(wire, group, topic) == 9


def test_invalid_partitions_and_groups_are_refused(
    producer: Transactional, topic: str
) -> None:
    assert producer.add_offsets() == 0
    assert producer.commit_offset("nowhere", 5, OLDER) == UNKNOWN_TOPIC_OR_PARTITION
    assert producer.commit_offset(topic, 5, OLDER, group_id="") == INVALID_GROUP_ID


@pytest.fixture
def static(broker: Broker, group: str, producer: Transactional) -> Iterator[Member]:
    """Returns the only member of a stable group, with an instance id."""
    with Member(broker, group, instance_id="i") as one:
        yield one.join_alone()


def test_members_can_commit_only_in_their_own_generation(
    producer: Transactional, static: Member, wire: Wire, topic: str
) -> None:
    assert producer.add_offsets() == 0
    me = {"member_id": static.member_id, "generation_id": static.generation}
    assert producer.commit_offset(topic, 5, OLDER, **me, group_instance_id="i") == 0
    late = {**me, "generation_id": static.generation + 1}
    assert producer.commit_offset(topic, 6, OLDER, **late) == ILLEGAL_GENERATION
    assert producer.commit_offset(topic, 6, OLDER, **{**me, "member_id": "x"}) == UNKNOWN_MEMBER_ID
    other = {**me, "member_id": "x", "group_instance_id": "i"}
    assert producer.commit_offset(topic, 6, OLDER, **other) == FENCED_INSTANCE_ID
    assert producer.end(commit=True) == 0
    assert settle(wire, producer.group, topic) == 5


def test_deleting_a_group_drops_its_offsets_of_an_open_transaction(
    producer: Transactional, wire: Wire, group: str, topic: str
) -> None:
    assert producer.add_offsets() == 0
    assert producer.commit_offset(topic, 5, OLDER) == 0
    [deleted] = wire.ask("DeleteGroups", 1, groups_names=[group]).results
    assert deleted.error_code == 0
    assert row(wire, group, topic, stable=True) == (0, -1)
    assert producer.end(commit=True) == 0
    assert settle(wire, group, topic) == -1


def test_case_42_transactions_continue_after_the_broker_was_killed(
    new_broker: NewBroker, group: str
) -> None:
    """One transaction is open at the kill and ends after it. Another one ends before the kill and is found after it."""
    broker = new_broker()
    with Wire(broker.address, 60) as wire:
        for name in ("held", "ended"):
            wire.create_topic(name)
        find_coordinator(wire, group)
        ended, held = Transactional(wire, group), Transactional(wire, group)
        for producer, topic in ((ended, "ended"), (held, "held")):
            assert producer.add_offsets() == 0
            assert producer.commit_offset(topic, 5, OLDER) == 0
        assert ended.end(commit=True) == 0
        assert settle(wire, group, "ended") == 5
    broker.kill()
    broker.start()
    with Wire(broker.address, 60) as wire:
        held.wire = wire
        assert committed(wire, group, "ended") == 5
        assert row(wire, group, "held", stable=True) == (UNSTABLE_OFFSET_COMMIT, -1)
        assert held.commit_offset("held", 6, OLDER) == 0
        assert held.end(commit=True) == 0
        assert settle(wire, group, "held") == 6
