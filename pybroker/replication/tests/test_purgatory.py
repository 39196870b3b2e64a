"""Waiting requests: what ends a wait, and that nothing remains of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from unittest.mock import patch

import pytest

from pybroker.log.files.txn_index import AbortedTransaction
from pybroker.log.producers.marker import EndTxnMarker
from pybroker.replication.deadlines import MIN_SWEEP, Deadlines
from pybroker.replication.fetch_partition import FetchPartition, Isolation, PartitionRead
from pybroker.replication.fetching import Fetch
from pybroker.replication.partition import Partition
from pybroker.replication.purgatory import Purgatory, Waiting, WaitingAck, WaitingDelete
from pybroker.replication.tests.harness import NOW, TP, Node, batch, until, values
from pyclient.protocol import errors

LONG_MS = 1_000_000


class Counting(Waiting):
    """A waiting operation that counts its checks, and completes after ``enough`` of them."""

    def __init__(self, purgatory: Purgatory, enough: int = 1 << 30) -> None:
        super().__init__(purgatory)
        self.seen: list[int] = []
        self.enough = enough

    def woken(self, number: int) -> None:
        self.seen.append(number)
        if len(self.seen) >= self.enough:
            self.answer("enough")

    def expired(self) -> None:
        self.answer("late")


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    made = asyncio.new_event_loop()
    yield made
    made.close()


def fetch(node: Node, *offsets: int, max_wait_ms: int = LONG_MS, min_bytes: int = 1) -> object:
    """Fetches from the partitions 0… of topic t; returns the reads, or their future."""
    wanted = [FetchPartition("t", bytes(16), n, offset, 1 << 20) for n, offset in enumerate(offsets)]
    each = Fetch(wanted, node.replicas.resolve, min_bytes=min_bytes, max_bytes=1 << 20)
    return node.replicas.fetch(each, max_wait_ms, lambda reads: reads)


def is_empty(purgatory: Purgatory) -> bool:
    return len(purgatory) == 0 and not purgatory._waiting


def test_a_waiting_request_learns_which_partition_changed(node: Node) -> None:
    purgatory = node.replicas.purgatory
    node.create(partitions=3)
    partitions = list(node.replicas.partitions)
    waiting = Counting(purgatory, enough=3)
    purgatory.park(waiting, partitions, LONG_MS)
    for number in (2, 0, 2):
        assert not waiting.done()
        purgatory.wake(partitions[number])
    assert waiting.seen == [2, 0, 2]
    assert waiting.result() == "enough"
    assert is_empty(purgatory)
    purgatory.wake(partitions[0])
    assert len(waiting.seen) == 3


def test_cancelled_wait_leaves_no_trace(node: Node) -> None:
    purgatory = node.replicas.purgatory
    node.create(partitions=3)
    waiting = Counting(purgatory)
    purgatory.park(waiting, list(node.replicas.partitions), LONG_MS)
    assert len(purgatory) == 1
    assert waiting.cancel()
    assert is_empty(purgatory)
    assert not waiting.cancel()


def test_task_that_is_cancelled_cancels_its_wait(node: Node) -> None:
    purgatory = node.replicas.purgatory
    partition = node.create()
    waiting = Counting(purgatory)
    purgatory.park(waiting, (partition,), LONG_MS)

    async def wait() -> None:
        await waiting

    task = node.loop.create_task(wait())
    node.turn()
    task.cancel()
    node.turn()
    node.turn()
    assert task.cancelled()
    assert is_empty(purgatory)


def test_deadline_ends_a_wait(node: Node) -> None:
    purgatory = node.replicas.purgatory
    waiting = Counting(purgatory)
    purgatory.park(waiting, (node.create(),), 1)
    assert node.run(waiting) == "late"
    assert is_empty(purgatory)


def test_closing_cancels_everything(node: Node) -> None:
    purgatory = node.replicas.purgatory
    node.create(partitions=2)
    waits = [Counting(purgatory) for _ in range(3)]
    for waiting in waits:
        purgatory.park(waiting, list(node.replicas.partitions), LONG_MS)
    purgatory.close()
    assert all(waiting.cancelled() for waiting in waits)
    assert is_empty(purgatory)


def test_waiting_fetch_is_answered_by_the_append_itself(node: Node) -> None:
    node.create()
    waiting = fetch(node, 0)
    assert isinstance(waiting, Waiting)
    node.append(b"a")
    assert waiting.done()
    [read] = waiting.result()
    assert values(read.records) == [b"a"]
    assert is_empty(node.replicas.purgatory)


def test_waiting_fetch_gets_what_there_is_at_its_deadline(node: Node) -> None:
    node.create()
    node.append(b"a")
    waiting = fetch(node, 0, max_wait_ms=1, min_bytes=1000)
    [read] = node.run(waiting)
    assert values(read.records) == [b"a"]


def test_fetch_that_may_not_wait_is_answered_at_once(node: Node) -> None:
    node.create()
    [read] = fetch(node, 0, max_wait_ms=0)  # type: ignore[misc]
    assert read.size == 0


def test_fetch_waits_for_enough_bytes_over_all_partitions(node: Node) -> None:
    node.create(partitions=2)
    size = len(batch(b"a"))
    waiting = fetch(node, 0, 0, min_bytes=3 * size)
    assert isinstance(waiting, Waiting)
    for index in (0, 1):
        node.append(b"a", index=index)
        assert not waiting.done()
    node.append(b"a", index=0)
    assert [read.size for read in waiting.result()] == [2 * size, size]


@pytest.mark.parametrize("change", ["delete", "new leader", "offline"])
def test_a_waiting_fetch_learns_of_changes(node: Node, change: str) -> None:
    partition = node.create()
    node.append(b"a", b"b")
    waiting = fetch(node, 2)
    assert isinstance(waiting, Waiting)
    if change == "delete":
        node.delete()
        expected: type[errors.KafkaError] = errors.UnknownTopicOrPartition
    elif change == "new leader":
        node.create(leader=2, epoch=1)
        expected = errors.NotLeaderOrFollower
    else:
        partition.log.log_dir.fail(OSError(5, "bad disk"), "testing")
        node.turn()
        expected = errors.KafkaStorageError
    [read] = waiting.result()
    assert isinstance(read.error, expected)


def test_the_failure_of_a_waiting_fetch_does_not_fail_the_producer(node: Node) -> None:
    node.create()

    def respond(reads: list[PartitionRead]) -> object:
        raise ZeroDivisionError

    wanted = [FetchPartition("t", bytes(16), 0, 0, 100)]
    each = Fetch(wanted, node.replicas.resolve, min_bytes=1, max_bytes=100)
    waiting = node.replicas.fetch(each, LONG_MS, respond)
    assert isinstance(waiting, Waiting)
    node.append(b"a")
    assert isinstance(waiting.exception(), ZeroDivisionError)


def replicated(node: Node) -> tuple[Partition, Waiting]:
    """Returns a partition, and a produce with acks=all that waits for its followers."""
    partition = node.create(replicas=(1, 2), epoch=1)
    appended = node.replicas.append(partition.topic_partition, batch(b"a"), -1, NOW)
    assert isinstance(appended.done, WaitingAck)
    return partition, appended.done


def test_acks_all_is_fulfilled_when_the_high_watermark_has_passed(node: Node) -> None:
    partition, waiting = replicated(node)
    partition.on_follower_fetch(2, 1, 0, 0)
    node.replicas.purgatory.wake(partition)
    assert waiting.result() is None
    assert is_empty(node.replicas.purgatory)


def test_acks_all_fails_when_another_broker_leads(node: Node) -> None:
    _, waiting = replicated(node)
    node.create(replicas=(1, 2), leader=2, epoch=2)
    assert isinstance(waiting.exception(), errors.NotLeaderOrFollower)


def test_acks_all_fails_at_its_deadline(node: Node) -> None:
    partition = node.create(replicas=(1, 2), epoch=1)
    tp = partition.topic_partition
    appended = node.replicas.append(tp, batch(b"a"), -1, NOW, timeout_ms=1)
    assert appended.done is not None
    with pytest.raises(errors.RequestTimedOut):
        node.run(appended.done)
    assert partition.log.log_end_offset == 1


def test_deletion_waits_for_every_replica(node: Node) -> None:
    partition = node.create(replicas=(1, 2), epoch=1)
    purgatory = node.replicas.purgatory
    waiting = WaitingDelete(purgatory, partition, 0)
    purgatory.park(waiting, (partition,), LONG_MS)
    purgatory.wake(partition)
    assert not waiting.done()
    partition.on_follower_fetch(2, 0, 0, 0)
    purgatory.wake(partition)
    assert waiting.result() == 0


# Deadlines


def test_deadlines_come_in_their_order_with_one_timer(loop: asyncio.AbstractEventLoop) -> None:
    deadlines = Deadlines(loop)
    order: list[int] = []
    with patch.object(loop, "time", return_value=loop.time()):  # all begin at the same time, even on a busy machine
        for delay_ms in (4, 1, 3, 2, 0):
            deadlines.add(delay_ms, lambda n=delay_ms: order.append(n))  # type: ignore[misc]
    until(loop, lambda: len(order) == 5)
    assert order == [0, 1, 2, 3, 4]
    assert len(deadlines) == 0


def test_cancelled_deadline_does_not_come(loop: asyncio.AbstractEventLoop) -> None:
    deadlines = Deadlines(loop)
    told: list[str] = []
    early = deadlines.add(1, lambda: told.append("early"))
    deadlines.add(2, lambda: told.append("late"))
    deadlines.cancel(early)
    deadlines.cancel(early)
    until(loop, lambda: told)
    assert told == ["late"]


def test_cancelled_deadlines_do_not_fill_the_heap(loop: asyncio.AbstractEventLoop) -> None:
    deadlines = Deadlines(loop)
    deadlines.add(LONG_MS, lambda: None)
    for _ in range(100 * MIN_SWEEP):
        deadlines.cancel(deadlines.add(LONG_MS, lambda: None))
    assert len(deadlines) <= 2 * MIN_SWEEP + 2


def test_closed_deadlines_do_not_come(loop: asyncio.AbstractEventLoop) -> None:
    closed, others = Deadlines(loop), Deadlines(loop)
    told: list[str] = []
    closed.add(0, lambda: told.append("closed"))
    others.add(2, lambda: told.append("other"))
    closed.close()
    until(loop, lambda: told)
    assert told == ["other"]


# Transactions


def committed(node: Node, offset: int) -> object:
    """Fetches from the only partition of topic t with read_committed; returns the read, or its future."""
    wanted = [FetchPartition("t", bytes(16), 0, offset, 1 << 20)]
    each = Fetch(
        wanted, node.replicas.resolve, min_bytes=1, max_bytes=1 << 20, isolation=Isolation.READ_COMMITTED
    )
    return node.replicas.fetch(each, LONG_MS, lambda reads: reads[0])


def transactional(node: Node, producer: int, *, sequence: int = 0) -> None:
    records = batch(producer_id=producer, producer_epoch=0, base_sequence=sequence, transactional=True)
    node.replicas.append(TP, records, 1, NOW)


def test_read_committed_waits_for_the_marker_and_is_woken_by_it(node: Node) -> None:
    node.create()
    transactional(node, 7)
    waiting = committed(node, 0)
    transactional(node, 7, sequence=1)
    assert isinstance(waiting, asyncio.Future)
    assert not waiting.done()
    node.replicas.append_marker(TP, EndTxnMarker(7, 1, 0, False, 2), NOW)
    read = waiting.result()
    assert (read.last_stable_offset, read.high_watermark) == (3, 3)
    assert read.aborted == [AbortedTransaction(7, 0, 2, 3)]


def test_read_committed_waits_for_the_replicas_of_the_marker(node: Node) -> None:
    partition = node.create(replicas=(1, 2))
    transactional(node, 7)
    node.replicas.append_marker(TP, EndTxnMarker(7, 1, 0, True, 2), NOW)
    waiting = committed(node, 0)
    for offset in (1, 2):
        assert isinstance(waiting, asyncio.Future)
        assert not waiting.done()
        partition.on_follower_fetch(2, offset, 0, 0)
        node.replicas.purgatory.wake(partition)
    assert waiting.result().last_stable_offset == 2


def test_marker_of_a_later_transaction_wakes_nobody_before_an_earlier_one_has_ended(node: Node) -> None:
    node.create()
    transactional(node, 7)
    transactional(node, 8)
    waiting = committed(node, 0)
    node.replicas.append_marker(TP, EndTxnMarker(8, 1, 0, True, 2), NOW)
    assert isinstance(waiting, asyncio.Future)
    assert not waiting.done()
    node.replicas.append_marker(TP, EndTxnMarker(7, 1, 0, True, 2), NOW)
    assert waiting.result().last_stable_offset == 4
