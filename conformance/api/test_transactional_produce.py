"""Records in transactions, frame by frame: cases 33 and 36–40, semantics 8, 15, 19, 24, 36; and their state after a
kill.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from conformance.conftest import NewBroker, NewTopic
from conformance.data import batches
from conformance.data.batches import batch
from harness.protocol import kinds
from harness.protocol.error_codes import (
    CONCURRENT_TRANSACTIONS,
    COORDINATOR_NOT_READY,
    INVALID_PRODUCER_EPOCH,
    INVALID_TXN_STATE,
    NOT_ENOUGH_REPLICAS,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    PRODUCER_FENCED,
    TRANSACTION_ABORTABLE,
    TRANSACTION_COORDINATOR_FENCED,
)
from harness.protocol.wire_client import Wire
from harness.waiting import until

RETRIABLE = (*COORDINATOR_NOT_READY, NOT_ENOUGH_REPLICAS, CONCURRENT_TRANSACTIONS)
V1, V2 = 11, 12


class Producer:
    """A transactional producer that sends one request at a time, and repeats requests after retriable errors."""

    def __init__(self, wire: Wire, topic: str) -> None:
        self.wire = wire
        self.topic = topic
        self.name = f"txn-{uuid.uuid4()}"
        self.sequence = 0
        until(lambda: self._coordinator() == 0, "a transaction coordinator", 60)
        self.begin_session()

    def _coordinator(self) -> int:
        return int(self.wire.ask("FindCoordinator", 3, key=self.name, key_type=kinds.TRANSACTION).error_code)

    def begin_session(self) -> None:
        """Begins a new epoch."""
        fields = {"transactional_id": self.name, "transaction_timeout_ms": 60_000}
        reply = settled(
            lambda: self.wire.ask("InitProducerId", 4, producer_id=-1, producer_epoch=-1, **fields)
        )
        assert reply.error_code == 0, reply
        self.id, self.epoch, self.sequence = reply.producer_id, reply.producer_epoch, 0

    @property
    def claim(self) -> dict[str, Any]:
        return {"transactional_id": self.name, "producer_id": self.id, "producer_epoch": self.epoch}

    def add_partition(self, partition: int = 0) -> None:
        """Adds a partition, as clients of transactions v1 do before they write to it."""
        topics = [{"name": self.topic, "partitions": [partition]}]
        asked = {f"v3_and_below_{key}": value for key, value in self.claim.items()}
        reply = settled(
            lambda: self.wire.ask("AddPartitionsToTxn", 3, v3_and_below_topics=topics, **asked), added
        )
        assert added(reply) == 0

    def records(self, *values: bytes, attributes: int = batches.TRANSACTIONAL) -> bytes:
        return batch(
            values,
            producer_id=self.id,
            producer_epoch=self.epoch,
            base_sequence=self.sequence,
            attributes=attributes,
        )

    def ask(self, version: int, records: bytes, partition: int = 0) -> dict[str, Any]:
        data = {"name": self.topic, "partition_data": [{"index": partition, "records": records}]}
        return {
            "name": "Produce",
            "version": version,
            "transactional_id": self.name,
            "acks": -1,
            "timeout_ms": 30_000,
            "topic_data": [data],
        }

    def write(self, version: int = V2, *values: bytes, partition: int = 0, **options: Any) -> Any:
        """Produces one batch. Returns the partition's row of the reply."""
        values = values or (b"v",)
        asked = self.ask(version, self.records(*values, **options), partition)
        row = row_of(settled(lambda: self.wire.ask(**asked), lambda reply: row_of(reply).error_code))
        self.sequence += len(values) if row.error_code == 0 else 0
        return row

    def end(self, *, commit: bool, version: int = 5, **fields: Any) -> int:
        """Sends EndTxn. From v5 on, it begins the next epoch."""
        asked = {**self.claim, "committed": commit, **fields}
        reply = settled(lambda: self.wire.ask("EndTxn", version, **asked))
        if version >= 5 and reply.error_code == 0:
            self.id, self.epoch, self.sequence = reply.producer_id, reply.producer_epoch, 0
        return int(reply.error_code)


def settled(ask: Callable[[], Any], code: Callable[[Any], int] = lambda reply: reply.error_code) -> Any:
    """Returns the first reply that is not retriable."""
    replies: list[Any] = []

    def look() -> bool:
        replies.append(ask())
        return code(replies[-1]) not in RETRIABLE

    until(look, "an answer that is not retriable", 60)
    return replies[-1]


def row_of(reply: Any) -> Any:
    return reply.responses[0].partition_responses[0]


def added(reply: Any) -> int:
    [topic] = reply.results_by_topic_v3_and_below
    [row] = topic.results_by_partition
    return int(row.partition_error_code)


def stable(wire: Wire, topic: str) -> int:
    """Returns the last stable offset, up to which read_committed consumers can read."""
    return int(wire.offset(topic, -1, isolation_level=1).offset)


def until_stable(wire: Wire, topic: str, offset: int) -> None:
    until(lambda: stable(wire, topic) == offset, f"the last stable offset {offset}", 60)


def committed(wire: Wire, topic: str) -> list[bytes | None]:
    """Returns the values that a read_committed consumer gets."""
    row = wire.fetch(topic, 0, isolation_level=1)
    aborted = {(each.producer_id, each.first_offset) for each in row.aborted_transactions or ()}
    given: list[bytes | None] = []
    skipped: set[int] = set()
    position = 0
    for header in batches.headers(row.records):
        skipped |= {producer for producer, first in aborted if first == header.base_offset}
        if header.attributes & batches.CONTROL:
            skipped.discard(header.producer_id)
        elif header.producer_id not in skipped:
            given += batches.values(row.records[position : position + header.size])
        position += header.size
    return given


def producers(wire: Wire, topic: str) -> dict[int, Any]:
    """Sends DescribeProducers of partition 0."""
    asked = [{"name": topic, "partition_indexes": [0]}]
    reply = wire.ask("DescribeProducers", 0, topics=asked)
    return {each.producer_id: each for each in reply.topics[0].partitions[0].active_producers}


def mark(wire: Wire, producer: Producer, *, epoch: int, coordinator_epoch: int, version: int) -> int:
    """Sends WriteTxnMarkers for partition 0: an abort, as a coordinator would send it."""
    marker = {
        "producer_id": producer.id,
        "producer_epoch": epoch,
        "transaction_result": False,
        "topics": [{"name": producer.topic, "partition_indexes": [0]}],
        "coordinator_epoch": coordinator_epoch,
        "transaction_version": version,
    }
    reply = wire.ask("WriteTxnMarkers", 2, markers=[marker])
    return int(reply.markers[0].topics[0].partitions[0].error_code)


@pytest.fixture
def producer(wire: Wire, topic: str) -> Producer:
    wire.end_offset(topic)
    return Producer(wire, topic)


@pytest.mark.parametrize("commit", [True, False])
def test_semantic_36_transactions_v2_add_the_partition_with_the_first_batch(
    producer: Producer, wire: Wire, topic: str, commit: bool
) -> None:
    epoch = producer.epoch
    assert producer.write(V2, b"a", b"b").base_offset == 0
    assert producer.write(V2, b"c").base_offset == 2
    assert (stable(wire, topic), wire.end_offset(topic)) == (0, 3)
    assert committed(wire, topic) == []
    assert producer.end(commit=commit) == 0
    assert producer.epoch == epoch + 1
    until_stable(wire, topic, 4)
    assert committed(wire, topic) == ([b"a", b"b", b"c"] if commit else [])
    assert producer.write(V2, b"d").base_offset == 4


@pytest.mark.parametrize("version", [3, 10, V1])
def test_transactions_v1_write_to_partitions_that_were_added(
    producer: Producer, wire: Wire, topic: str, version: int
) -> None:
    for number, commit in enumerate((False, True)):
        producer.add_partition()
        assert producer.write(version, b"%d" % number).error_code == 0
        assert producer.end(commit=commit, version=3) == 0
        until_stable(wire, topic, 2 * number + 2)
    assert committed(wire, topic) == [b"1"]


@pytest.mark.parametrize(("version", "code"), [(10, INVALID_TXN_STATE), (V1, TRANSACTION_ABORTABLE)])
def test_case_39_a_write_to_a_partition_that_was_not_added_is_refused(
    new_topic: NewTopic, wire: Wire, version: int, code: int
) -> None:
    topic = new_topic(partitions=2)
    wire.end_offset(topic)
    producer = Producer(wire, topic)
    producer.add_partition(1)
    assert producer.write(version).error_code == code
    assert (stable(wire, topic), wire.end_offset(topic)) == (0, 0)
    assert producer.write(version, partition=1).error_code == 0


def test_semantic_36_batches_in_flight_together_keep_their_order(
    producer: Producer, wire: Wire, topic: str
) -> None:
    producer.write(V2)
    assert producer.end(commit=False) == 0
    until_stable(wire, topic, 2)
    asked = []
    for number in range(5):
        asked.append(producer.ask(V2, producer.records(b"%d" % number)))
        producer.sequence += 1
    posted = [wire.post(**each) for each in asked]
    rows = [row_of(wire.reply("Produce", V2, number)) for number in posted]
    assert [(row.error_code, row.base_offset) for row in rows] == [(0, offset) for offset in range(2, 7)]


def test_semantic_08_transactions_v2_begin_at_sequence_0(producer: Producer) -> None:
    producer.sequence = 3
    assert producer.write().error_code == OUT_OF_ORDER_SEQUENCE_NUMBER
    producer.sequence = 0
    assert producer.write().error_code == 0
    assert producer.end(commit=True) == 0
    producer.sequence = 1
    assert producer.write().error_code == OUT_OF_ORDER_SEQUENCE_NUMBER


def test_case_33_a_batch_of_an_old_epoch_is_refused(producer: Producer, wire: Wire, topic: str) -> None:
    assert producer.write(V2, b"old").error_code == 0
    old = producer.epoch
    producer.begin_session()
    until_stable(wire, topic, 2)
    new, producer.epoch, producer.sequence = producer.epoch, old, 1
    assert producer.write(V2, b"zombie").error_code == INVALID_PRODUCER_EPOCH
    producer.epoch, producer.sequence = new, 0
    assert producer.write(V2, b"new").error_code == 0
    assert producer.end(commit=True) == 0
    until_stable(wire, topic, 4)
    assert committed(wire, topic) == [b"new"]


def test_case_38_an_end_after_the_beginning_of_the_next_transaction_is_refused(
    producer: Producer, wire: Wire, topic: str
) -> None:
    first = producer.claim
    assert producer.write(V2, b"first").error_code == 0
    assert producer.end(commit=True) == 0
    until_stable(wire, topic, 2)
    assert producer.write(V2, b"second").error_code == 0
    assert producer.end(commit=False, **first) in (INVALID_PRODUCER_EPOCH, PRODUCER_FENCED)
    assert stable(wire, topic) == 2
    assert producer.end(commit=True) == 0
    until_stable(wire, topic, 4)
    assert committed(wire, topic) == [b"first", b"second"]


def test_case_38_a_late_marker_does_not_end_the_next_transaction(
    producer: Producer, wire: Wire, topic: str
) -> None:
    producer.begin_session()
    producer.write()
    assert mark(wire, producer, epoch=producer.epoch, coordinator_epoch=0, version=2) == INVALID_PRODUCER_EPOCH
    assert mark(wire, producer, epoch=producer.epoch - 1, coordinator_epoch=0, version=1) == INVALID_PRODUCER_EPOCH
    assert stable(wire, topic) == 0


def test_case_36_a_marker_of_a_fenced_coordinator_is_refused(
    producer: Producer, wire: Wire, topic: str
) -> None:
    producer.write()
    assert mark(wire, producer, epoch=producer.epoch + 1, coordinator_epoch=1000, version=2) == 0
    late = mark(wire, producer, epoch=producer.epoch + 1, coordinator_epoch=999, version=2)
    assert late == TRANSACTION_COORDINATOR_FENCED
    assert stable(wire, topic) == wire.end_offset(topic) == 2


def test_case_40_a_plain_write_inside_an_open_transaction_is_refused(
    producer: Producer, wire: Wire, topic: str
) -> None:
    producer.write()
    assert producer.write(V2, attributes=0).error_code == INVALID_TXN_STATE
    assert producer.end(commit=True) == 0
    until_stable(wire, topic, 2)


def test_producers_are_described_with_their_transactions(producer: Producer, wire: Wire, topic: str) -> None:
    wire.produce(topic, batch([b"before"]))
    producer.write(V2, b"a", b"b")
    found = producers(wire, topic)[producer.id]
    assert (found.producer_epoch, found.last_sequence, found.current_txn_start_offset) == (producer.epoch, 1, 1)
    id = producer.id
    assert producer.end(commit=True) == 0
    until_stable(wire, topic, 4)
    assert producers(wire, topic)[id].current_txn_start_offset == -1


def test_case_13_transactions_are_unchanged_after_the_broker_was_killed(new_broker: NewBroker) -> None:
    broker = new_broker()
    with Wire(broker.address, 60) as wire:
        wire.create_topic("t")
        wire.end_offset("t")
        one, two = Producer(wire, "t"), Producer(wire, "t")
        for number, commit in enumerate((False, True, False)):
            one.write(V2, b"%d" % number)
            assert one.end(commit=commit) == 0
            until_stable(wire, "t", 2 * number + 2)
        two.write(V2, b"open")
    broker.kill()
    broker.start()
    with Wire(broker.address, 60) as wire:
        two.wire = wire
        until(lambda: wire.offset("t", -1).error_code == 0, "a leader", 60)
        assert wire.fetch("t", 0, isolation_level=1).last_stable_offset == 6
        assert committed(wire, "t") == [b"1"]
        assert producers(wire, "t")[two.id].current_txn_start_offset == 6
        assert two.write(V2, b"more").base_offset == 7
        assert two.end(commit=True) == 0
        until_stable(wire, "t", 9)
        assert committed(wire, "t") == [b"1", b"open", b"more"]
