"""The runtime with records in transactions, markers and effects, on real logs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import pytest

from pybroker.cluster.metadata.image import OFFSETS_TOPIC
from pybroker.coordinator import loading
from pybroker.coordinator.group.offsets import UNSTABLE
from pybroker.coordinator.group.shard import GroupShard, OffsetsAsked
from pybroker.coordinator.groups import MOST_ADMISSIONS
from pybroker.coordinator.shard import Record, Result, Shard
from pybroker.coordinator.tests.harness import Node
from pybroker.log.log import Log
from pybroker.log.producers.marker import EndTxnMarker
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import TxnOffsetCommit, errors
from pyclient.protocol.errors import KafkaError

PRODUCER = 9


class Transactions:
    """Admits every producer, or answers with ``error``; ``before`` runs first."""

    def __init__(self) -> None:
        self.asked: list[tuple[TopicPartition, bool]] = []
        self.error: KafkaError | None = None
        self.before: Callable[[], Awaitable[object]] | None = None

    async def admit(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        add: bool,
    ) -> Mapping[TopicPartition, KafkaError | None]:
        self.asked += [(each, add) for each in partitions]
        if self.before is not None:
            await self.before()
        return dict.fromkeys(partitions, self.error)


@pytest.fixture
def transactions(node: Node) -> Transactions:
    """Lets the node admit transactions."""
    node.offsets_topic()
    node.groups.transactions = Transactions()
    return node.groups.transactions


def hold(node: Node, offset: int, version: int = 5, epoch: int = 0) -> int:
    """Sends a TxnOffsetCommit of one offset, and returns the error code."""
    topic, partition = (
        TxnOffsetCommit.Request.TxnOffsetCommitRequestTopic,
        TxnOffsetCommit.Request.TxnOffsetCommitRequestPartition,
    )
    partitions = [partition(partition_index=0, committed_offset=offset)]
    request = TxnOffsetCommit.Request(
        transactional_id="x",
        group_id="g",
        producer_id=PRODUCER,
        producer_epoch=epoch,
        topics=[topic(name="t", partitions=partitions)],
    )
    response = node.run(node.groups.txn_offset_commit(request, version))
    [answered] = response.topics
    return int(answered.partitions[0].error_code)


def end(node: Node, *, committed: bool, epoch: int = 0) -> Any:
    """Writes the marker, as a coroutine."""
    marker = EndTxnMarker(PRODUCER, epoch, 0, committed, 1)
    partition = node.groups.partition_of("g")
    return node.groups.runtime.complete_transaction(partition, marker)


def stable(node: Node) -> object:
    """Returns the offset of t-0 that a stable read returns."""
    asked = OffsetsAsked("g", [("t", [0])], True)
    [(_, offsets)] = node.run(node.groups.committed(asked))
    return UNSTABLE if offsets[0] is UNSTABLE else offsets[0].offset


def test_a_transaction_is_admitted_once_and_survives_restarts(
    node: Node, transactions: Transactions
) -> None:
    assert [hold(node, 5), hold(node, 6)] == [errors.NONE, errors.NONE]
    assert transactions.asked == [
        (TopicPartition(OFFSETS_TOPIC, node.groups.partition_of("g")), True)
    ]
    node.stop()
    node.start()
    assert stable(node) is UNSTABLE
    node.run(end(node, committed=True))
    assert stable(node) == 6
    node.stop()
    node.start()
    assert stable(node) == 6


def test_an_aborted_transaction_is_gone_after_a_restart(
    node: Node, transactions: Transactions
) -> None:
    node.run(node.commit(3))
    hold(node, 5)
    node.run(end(node, committed=False))
    node.stop()
    node.start()
    assert stable(node) == 3


def test_a_marker_for_a_partition_that_is_loading_waits_for_it(
    node: Node, transactions: Transactions
) -> None:
    hold(node, 5)
    node.stop()
    node.start()
    waiting = node.loop.create_task(end(node, committed=True))
    assert not waiting.done()
    node.run(waiting)
    assert stable(node) == 5


@pytest.mark.parametrize(
    ("error", "version", "told"),
    [
        (errors.TransactionAbortable, 5, errors.TransactionAbortable),
        (errors.TransactionAbortable, 4, errors.TransactionAbortable),
        (errors.TransactionAbortable, 3, errors.InvalidTxnState),
        (errors.ProducerFenced, 5, errors.InvalidProducerEpoch),
        (errors.InvalidProducerIdMapping, 3, errors.InvalidProducerIdMapping),
        (errors.CoordinatorLoadInProgress, 2, errors.CoordinatorLoadInProgress),
        (errors.CoordinatorLoadInProgress, 1, errors.CoordinatorNotAvailable),
        (errors.ConcurrentTransactions, 5, errors.ConcurrentTransactions),
        (errors.NetworkException, 5, errors.CoordinatorLoadInProgress),
        (errors.BrokerNotAvailable, 5, errors.CoordinatorLoadInProgress),
        (errors.BrokerNotAvailable, 1, errors.CoordinatorNotAvailable),
    ],
)
def test_a_transactional_commit_that_is_not_admitted_is_not_written(
    node: Node,
    transactions: Transactions,
    error: type[KafkaError],
    version: int,
    told: type[KafkaError],
) -> None:
    transactions.error = error("no")
    assert hold(node, 5, version) == told.code
    assert [add for _, add in transactions.asked] == [version >= 5]
    assert stable(node) == -1


def test_an_admission_after_the_marker_admits_nothing(
    node: Node, transactions: Transactions
) -> None:
    transactions.before = lambda: end(node, committed=False, epoch=1)
    assert hold(node, 5) == errors.InvalidProducerEpoch.code
    assert stable(node) == -1


def test_a_producer_with_a_stream_of_markers_is_refused(
    node: Node, transactions: Transactions
) -> None:
    transactions.before = lambda: end(node, committed=False)
    assert hold(node, 5, 3) == errors.InvalidTxnState.code
    assert len(transactions.asked) == MOST_ADMISSIONS
    assert stable(node) == -1


def test_a_late_copy_of_the_last_marker_does_not_refuse_the_next_transactions_offsets(
    node: Node, transactions: Transactions
) -> None:
    async def late() -> None:
        transactions.before = None
        await end(node, committed=True)

    transactions.before = late
    assert hold(node, 5, 3) == errors.NONE
    assert len(transactions.asked) == 2
    node.run(end(node, committed=True))
    assert stable(node) == 5


def test_a_transactional_batch_holds_the_last_stable_offset_until_its_marker(
    node: Node, transactions: Transactions
) -> None:
    name = TopicPartition(OFFSETS_TOPIC, node.groups.partition_of("g"))
    log = node.replicas.partition(name).log
    hold(node, 5)
    assert log.last_stable_offset == log.log_end_offset - 1
    node.run(end(node, committed=True))
    assert log.last_stable_offset == log.log_end_offset


def test_an_old_epoch_is_refused_without_asking_the_coordinator(
    node: Node, transactions: Transactions
) -> None:
    hold(node, 5, epoch=1)
    node.run(end(node, committed=True, epoch=1))
    transactions.error = errors.InvalidProducerIdMapping()
    assert hold(node, 6, epoch=0) == errors.InvalidProducerEpoch.code
    assert stable(node) == 5


def test_effects_run_in_order_when_their_records_are_replicated(node: Node) -> None:
    def decide(shard: GroupShard, result: Result) -> None:
        result.write(Record(b"\0\x63", b""))
        result.effects += ["first", "second"]
        result.answer(None)

    seen: list[tuple[int, object]] = []
    node.groups.runtime._do = lambda partition, effect: seen.append((partition, effect))
    node.offsets_topic(replicas=(1, 2), isr=(1, 2))
    waiting = node.task(node.groups.runtime.submit(1, decide))
    assert seen == []
    assert not waiting.done()
    node.offsets_topic(replicas=(1, 2), isr=(1,), partition_epoch=1)
    node.run(waiting)
    assert seen == [(1, "first"), (1, "second")]


def test_effects_of_a_refused_write_never_run(node: Node) -> None:
    def decide(shard: GroupShard, result: Result) -> None:
        result.write(Record(b"\0\x63", b""))
        result.effects.append("of the write")
        result.answer(None)

    seen: list[object] = []
    node.groups.runtime._do = lambda partition, effect: seen.append(effect)
    node.offsets_topic()
    node.run(node.commit(1))
    node.offsets_topic(replicas=(1, 2), isr=(1,), partition_epoch=1, min_insync_replicas="2")
    with pytest.raises(errors.CoordinatorNotAvailable):
        node.run(node.groups.runtime.submit(1, decide))
    node.groups.runtime.tell(1, decide)
    node.offsets_topic(replicas=(1, 2), isr=(1,), partition_epoch=2)
    node.run(node.groups.runtime.submit(1, decide))
    assert seen == ["of the write"]  # the effect of the write that was not refused


def test_effects_run_even_if_the_records_are_replicated_late(
    hasty: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    def decide(shard: GroupShard, result: Result) -> None:
        result.write(Record(b"\0\x63", b""))
        result.effects.append("late")
        result.answer(None)

    seen: list[object] = []
    monkeypatch.setattr("pybroker.coordinator.runtime.PROMISE_RETRY_S", 0.01)
    hasty.groups.runtime._do = lambda partition, effect: seen.append(effect)
    hasty.offsets_topic(replicas=(1, 2), isr=(1, 2))
    with pytest.raises(errors.CoordinatorNotAvailable):
        hasty.run(hasty.groups.runtime.submit(1, decide))
    assert seen == []
    hasty.offsets_topic(replicas=(1, 2), isr=(1,), partition_epoch=1)
    hasty.until(lambda: bool(seen))
    assert seen == ["late"]


def test_the_runtime_returns_the_partitions_that_it_hosts(node: Node) -> None:
    node.offsets_topic(epoch=3)
    runtime = node.groups.runtime
    assert runtime.is_hosted(0)
    assert runtime.is_hosted(0, 3)
    assert not runtime.is_hosted(0, 2)
    assert runtime.leader_epoch(0) == 3
    assert not runtime.is_hosted(99)
    with pytest.raises(errors.NotCoordinator):
        runtime.leader_epoch(99)


def test_events_for_a_loading_shard_are_delivered_after_loading(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def held_up(log: Log, shard: Shard) -> int:
        await gate.wait()
        return await load(log, shard)

    gate, load = asyncio.Event(), loading.load
    heard: list[int] = []
    node.offsets_topic()
    node.run(node.commit(5))
    node.stop()
    monkeypatch.setattr(loading, "load", held_up)
    node.start()
    partition, runtime = node.groups.partition_of("g"), node.groups.runtime
    runtime.tell(
        partition,
        lambda shard, result: heard.append(shard.offsets.of("g").get("t", 0).offset),
    )
    runtime.tell(99, lambda shard, result: heard.append(-1))
    node.turn()
    assert runtime.loaded_shard(partition) is None
    gate.set()
    node.until(lambda: bool(heard))
    assert heard == [5]
    assert runtime.loaded_shard(partition) is not None


def test_a_marker_for_a_partition_of_another_broker_is_refused(node: Node) -> None:
    node.offsets_topic(leader=2, replicas=(1, 2), isr=(1, 2))
    with pytest.raises(errors.NotCoordinator):
        node.run(end(node, committed=True))
