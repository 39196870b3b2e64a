"""Produce in transactions: when the coordinator is asked, and how long its answer is valid."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from cy.batch.compression import Codec
from pybroker.cluster.metadata.image import MetadataDelta
from pybroker.handlers import produce
from pybroker.handlers.tests.harness import Node
from pybroker.handlers.tests.test_produce import Request, code, request, send
from pybroker.log.producers.marker import EndTxnMarker
from pybroker.log.producers.verification import MAX_ENTRIES
from pybroker.log.validation import UNPACKED_ON_LOOP
from pybroker.replication.tests.harness import NOW, TP, batch, idempotent, topic_id
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import Produce, errors

Said = Mapping[TopicPartition, errors.KafkaError | None]
OTHER = TopicPartition("t", 1)


class Coordinator:
    """A coordinator that answers ``verdict``, after the future ``word`` if that is set. It records the requests."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int, int, list[TopicPartition], bool]] = []
        self.verdict: errors.KafkaError | None = None
        self.raised: errors.KafkaError | None = None
        self.word: asyncio.Future[None] | None = None

    async def admit(
        self, transactional_id: str, producer: int, epoch: int, partitions: list[TopicPartition], *, add: bool
    ) -> Said:
        self.asked.append((transactional_id, producer, epoch, list(partitions), add))
        if self.word is not None:
            await self.word
        if self.raised is not None:
            raise self.raised
        return dict.fromkeys(partitions, self.verdict)


@pytest.fixture
def node(make_node: Callable[..., Node]) -> Node:
    node = make_node()
    node.transactions = Coordinator()
    node.create(partitions=2)
    return node


def transactional(sequence: int = 0, *values: bytes, epoch: int = 0, producer: int = 7) -> bytes:
    return batch(
        *values, producer_id=producer, producer_epoch=epoch, base_sequence=sequence, transactional=True
    )


def log(node: Node) -> Any:
    return node.replicas.find("t", 0).log


def end(node: Node, epoch: int, *, version: int = 2) -> None:
    node.replicas.append_marker(TP, EndTxnMarker(7, epoch, 0, False, version), NOW)


def write(node: Node, sequence: int = 0, version: int = 12, **options: Any) -> str:
    """Sends one transactional batch to partition 0, and returns the outcome."""
    return code(node, transactional(sequence, **options), version, transactional_id="x")


@pytest.mark.parametrize(("version", "add"), [(3, False), (11, False), (12, True), (13, True)])
def test_a_leader_asks_the_coordinator_about_the_first_batch_of_a_transaction(
    node: Node, version: int, add: bool
) -> None:
    assert write(node, version=version) == "NONE"
    assert node.transactions.asked == [("x", 7, 0, [TP], add)]
    assert log(node).last_stable_offset == 0


def test_a_leader_accepts_later_batches_of_a_transaction_without_the_coordinator(node: Node) -> None:
    assert [write(node, sequence) for sequence in range(4)] == ["NONE"] * 4
    assert len(node.transactions.asked) == 1
    end(node, 1)
    assert write(node, epoch=1) == "NONE"
    assert len(node.transactions.asked) == 2


def test_a_leader_asks_the_coordinator_once_for_all_partitions_of_a_produce(node: Node) -> None:
    data = [Request.PartitionProduceData(index=index, records=transactional()) for index in (0, 1, 7)]
    topics = [Request.TopicProduceData(name="t", topic_id=topic_id("t"), partition_data=data)]
    response = node.ask(produce, Request(acks=-1, timeout_ms=1, transactional_id="x", topic_data=topics), 13)
    codes = [each.error_code for each in response.responses[0].partition_responses]
    assert codes == [0, 0, errors.UnknownTopicOrPartition.code]
    assert node.transactions.asked == [("x", 7, 0, [TP, OTHER], True)]


def test_case_39_a_write_to_a_partition_outside_the_transaction_is_refused(node: Node) -> None:
    node.transactions.verdict = errors.TransactionAbortable()
    assert write(node, version=10) == "INVALID_TXN_STATE"
    assert write(node, version=11) == "TRANSACTION_ABORTABLE"
    assert code(node, transactional(), 11) == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
    assert (log(node).log_end_offset, log(node).last_stable_offset) == (0, 0)


@pytest.mark.parametrize(
    ("said", "version", "told"),
    [
        (errors.ProducerFenced, 12, "INVALID_PRODUCER_EPOCH"),
        (errors.InvalidProducerEpoch, 12, "INVALID_PRODUCER_EPOCH"),
        (errors.InvalidProducerIdMapping, 12, "INVALID_PRODUCER_ID_MAPPING"),
        (errors.ConcurrentTransactions, 12, "CONCURRENT_TRANSACTIONS"),
        (errors.ConcurrentTransactions, 11, "NOT_ENOUGH_REPLICAS"),
        (errors.NotCoordinator, 12, "NOT_ENOUGH_REPLICAS"),
        (errors.CoordinatorLoadInProgress, 9, "NOT_ENOUGH_REPLICAS"),
        (errors.CoordinatorNotAvailable, 11, "NOT_ENOUGH_REPLICAS"),
        (errors.BrokerNotAvailable, 12, "NOT_ENOUGH_REPLICAS"),
        (errors.RequestTimedOut, 12, "NOT_ENOUGH_REPLICAS"),
    ],
)
@pytest.mark.parametrize("raised", [False, True])
def test_an_error_of_the_coordinator_becomes_a_produce_error_that_the_client_knows(
    node: Node, said: type[errors.KafkaError], version: int, told: str, raised: bool
) -> None:
    setattr(node.transactions, "raised" if raised else "verdict", said())
    assert write(node, version=version) == told
    assert log(node).log_end_offset == 0


def test_transactional_batches_of_several_producers_in_one_request_are_refused(node: Node) -> None:
    data = [
        Request.PartitionProduceData(index=index, records=transactional(producer=index)) for index in (0, 1)
    ]
    topics = [Request.TopicProduceData(name="t", topic_id=topic_id("t"), partition_data=data)]
    response = node.ask(produce, Request(acks=-1, timeout_ms=1, transactional_id="x", topic_data=topics), 12)
    codes = {each.error_code for each in response.responses[0].partition_responses}
    assert codes == {errors.InvalidProducerIdMapping.code}
    assert node.transactions.asked == []
    assert len(log(node).producers.verifications) == 0


def test_batches_without_a_transaction_never_need_a_coordinator(node: Node) -> None:
    assert code(node, batch(), transactional_id="x") == "NONE"
    assert code(node, idempotent(0), transactional_id="x") == "NONE"
    assert node.transactions.asked == []


def test_a_transactional_batch_without_a_producer_id_is_refused(node: Node) -> None:
    assert code(node, batch(transactional=True), 12, transactional_id="x") == "INVALID_RECORD"
    assert node.transactions.asked == []


def test_internal_topics_cannot_join_a_clients_transaction(node: Node) -> None:
    node.create("__consumer_offsets")
    records = transactional()
    assert code(node, records, 12, topic="__consumer_offsets", transactional_id="x") == "INVALID_TOPIC_EXCEPTION"
    assert node.transactions.asked == []


def test_a_leader_refuses_a_fenced_producer_without_asking_the_coordinator(node: Node) -> None:
    assert write(node, epoch=1) == "NONE"
    assert write(node, epoch=0) == "INVALID_PRODUCER_EPOCH"
    assert len(node.transactions.asked) == 1


# Sequences


def test_transactions_v2_begin_at_sequence_0_even_for_an_unknown_producer(node: Node) -> None:
    assert write(node, 5) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert write(node, 0) == "NONE"
    end(node, 1)
    assert write(node, 1, epoch=1) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert write(node, 0, epoch=1) == "NONE"


def test_transactions_v1_accept_any_first_sequence_of_an_unknown_producer(node: Node) -> None:
    assert write(node, 5, version=11) == "NONE"
    end(node, 0, version=1)
    assert write(node, 6, version=11) == "NONE"


def test_a_later_batch_does_not_overtake_one_that_failed_at_the_coordinator(node: Node) -> None:
    node.transactions.verdict = errors.NotCoordinator()
    assert write(node, 5, version=11) == "NOT_ENOUGH_REPLICAS"
    node.transactions.verdict = None
    assert write(node, 6, version=11) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert write(node, 5, version=11) == "NONE"
    assert write(node, 6, version=11) == "NONE"


def test_a_batch_before_the_first_accepted_sequence_is_out_of_order_not_a_duplicate(node: Node) -> None:
    assert write(node, 5, version=11) == "NONE"
    for sequence in (6, 7, 8, 9, 10, 11):
        assert write(node, sequence, version=11) == "NONE"
    assert write(node, 5, version=11) == "DUPLICATE_SEQUENCE_NUMBER"
    assert write(node, 4, version=11) == "OUT_OF_ORDER_SEQUENCE_NUMBER"


# While the coordinator is asked


class Waiting:
    """A request that waits for the coordinator's answer."""

    def __init__(self, node: Node, records: bytes, version: int = 12) -> None:
        self.node = node
        self.word: asyncio.Future[None] = node.loop.create_future()
        node.transactions.word = self.word
        self.buffer = bytearray(records)
        self.task = node.loop.create_task(self._ask(version))
        node.turn()

    async def _ask(self, version: int) -> Any:
        asked = request(memoryview(self.buffer), transactional_id="x")
        return await produce.handle(asked, self.node.call(version))  # type: ignore[misc]

    def answered(self) -> Produce.Response.PartitionProduceResponse:
        if not self.word.done():
            self.word.set_result(None)
        response = self.node.run(self.task)
        return response.responses[0].partition_responses[0]


def test_a_produce_that_waits_for_the_coordinator_holds_its_connection_and_copies_its_batch(node: Node) -> None:
    waiting = Waiting(node, transactional(0, b"value"))
    assert node.connection.held == 1
    waiting.buffer[:] = bytes(len(waiting.buffer))
    assert waiting.answered().error_code == 0
    assert node.connection.held == 0
    assert log(node).log_end_offset == 1


def test_a_cancelled_wait_for_the_coordinator_appends_nothing_and_releases_the_connection(node: Node) -> None:
    waiting = Waiting(node, transactional())
    waiting.task.cancel()
    node.turn()
    assert (node.connection.held, log(node).log_end_offset) == (0, 0)


@pytest.mark.parametrize("version", [11, 12])
def test_a_coordinators_answer_after_the_end_of_the_transaction_admits_no_batch(node: Node, version: int) -> None:
    waiting = Waiting(node, transactional(), version)
    end(node, 1)
    node.transactions.word = None
    assert waiting.answered().error_code == errors.InvalidProducerEpoch.code
    waiting = Waiting(node, transactional(epoch=1), 11)
    end(node, 1, version=1)
    assert waiting.answered().error_code == errors.TransactionAbortable.code
    assert log(node).last_stable_offset == log(node).log_end_offset == 2


class Later(Executor):
    """A thread that runs its function when ``go_on`` is called."""

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **_: Any) -> Future[Any]:
        self._done: Future[Any] = Future()
        self._work = partial(work, *arguments)
        return self._done

    def go_on(self) -> None:
        self._done.set_result(self._work())


def test_a_batch_is_refused_if_its_transaction_ends_while_a_thread_checks_it(node: Node) -> None:
    thread = node.unpackers = Later()
    assert write(node, version=11) == "NONE"
    value = bytes(2 * UNPACKED_ON_LOOP)
    large = batch(value, codec=Codec.ZSTD, producer_id=7, producer_epoch=0, base_sequence=1, transactional=True)
    work = node.loop.create_task(
        produce.handle(request(memoryview(bytearray(large)), transactional_id="x"), node.call(11))  # type: ignore[arg-type]
    )
    node.turn()
    assert node.connection.held == 1
    end(node, 0, version=1)
    thread.go_on()
    answer = node.run(work).responses[0].partition_responses[0]
    assert answer.error_code == errors.TransactionAbortable.code
    assert log(node).last_stable_offset == log(node).log_end_offset == 2


def test_a_late_marker_of_the_previous_transaction_does_not_stop_the_next_one(node: Node) -> None:
    assert write(node) == "NONE"
    waiting = Waiting(node, transactional(epoch=1))
    end(node, 1)
    assert waiting.answered().error_code == 0


def test_a_refused_zombie_producer_does_not_affect_its_successor(node: Node) -> None:
    waiting = Waiting(node, transactional(epoch=1))
    node.transactions.word = None
    node.transactions.verdict = errors.ProducerFenced()
    assert write(node, 3, epoch=0) == "INVALID_PRODUCER_EPOCH"
    node.transactions.verdict = None
    assert waiting.answered().error_code == 0


def test_a_topic_recreated_while_the_coordinator_is_asked_gets_no_batch(node: Node) -> None:
    waiting = Waiting(node, transactional())
    node.delete()
    node.create(generation=1)
    assert waiting.answered().error_code == errors.TransactionAbortable.code
    assert log(node).log_end_offset == 0


def leadership(node: Node, leaders: tuple[int, int], epoch: int) -> None:
    """Sets the leaders of the two partitions. A changed leader leads in ``epoch``."""
    topic = node.metadata.image.topics["t"]
    partitions = tuple(
        each
        if each.leader == leader
        else replace(each, leader=leader, leader_epoch=epoch, partition_epoch=epoch, replicas=(1, 2), isr=(1, 2))
        for each, leader in zip(topic.partitions, leaders, strict=True)
    )
    node.publish(MetadataDelta(changed={"t": topic._replace(partitions=partitions)}))


def asked_for_both(node: Node) -> Callable[[], list[int]]:
    """Sends a request with a batch for each partition, which waits. Returns a function for the error codes."""
    node.transactions.word = word = node.loop.create_future()
    data = [Request.PartitionProduceData(index=index, records=transactional()) for index in (0, 1)]
    topics = [Request.TopicProduceData(name="t", partition_data=data)]
    asked = Request(acks=1, timeout_ms=1, transactional_id="x", topic_data=topics)

    async def answer() -> Produce.Response:
        return await produce.handle(asked, node.call(7))  # type: ignore[misc]

    task = node.loop.create_task(answer())
    node.turn()

    def codes() -> list[int]:
        word.set_result(None)
        return [each.error_code for each in node.run(task).responses[0].partition_responses]

    return codes


def test_a_partition_that_the_broker_began_to_lead_while_it_asked_refuses_its_batch(node: Node) -> None:
    """The client sends the batch again. After a final refusal, aiokafka would commit the rest of the transaction."""
    leadership(node, (1, 2), 1)
    codes = asked_for_both(node)
    assert node.transactions.asked[-1][3] == [TP]
    leadership(node, (1, 1), 2)
    assert codes() == [0, errors.NotLeaderOrFollower.code]
    assert write(node, version=7) == "NONE"


def test_a_verification_from_before_a_leader_change_does_not_count(node: Node) -> None:
    codes = asked_for_both(node)
    leadership(node, (1, 2), 1)
    leadership(node, (1, 1), 2)
    assert codes() == [0, errors.NotLeaderOrFollower.code]


def test_a_batch_sent_on_two_connections_is_appended_once_and_both_are_answered(node: Node) -> None:
    first, second = Waiting(node, transactional()), Waiting(node, transactional())
    assert first.answered().error_code == 0
    again = second.answered()
    assert (again.error_code, again.base_offset) == (0, 0)
    assert log(node).log_end_offset == 1


# What it costs


def test_producers_that_the_coordinator_refuses_leave_no_state(node: Node) -> None:
    node.transactions.verdict = errors.InvalidProducerIdMapping()
    for producer in range(20):
        assert write(node, producer=producer) == "INVALID_PRODUCER_ID_MAPPING"
    assert len(log(node).producers.verifications) == 0
    assert log(node).producers.active() == []


def test_pending_verifications_of_producers_are_limited_and_expire(node: Node) -> None:
    node.transactions.verdict = errors.NotCoordinator()
    for producer in range(MAX_ENTRIES + 5):
        send(node, transactional(producer=producer), 12, transactional_id="x")
    producers = log(node).producers
    assert len(producers.verifications) == MAX_ENTRIES
    producers.remove_expired(NOW + 999, 1000)
    assert len(producers.verifications) == MAX_ENTRIES
    producers.remove_expired(NOW + 1000, 1000)
    assert len(producers.verifications) == 0


@pytest.mark.parametrize(("version", "lookup"), [(12, "find"), (13, "by_id")])
def test_the_partition_of_a_batch_in_an_open_transaction_is_looked_up_once(
    node: Node, monkeypatch: pytest.MonkeyPatch, version: int, lookup: str
) -> None:
    assert write(node, version=version) == "NONE"
    found: list[Any] = []
    whole = getattr(node.replicas, lookup)

    def noted(*given: Any) -> Any:
        found.append(given)
        return whole(*given)

    monkeypatch.setattr(node.replicas, lookup, noted)
    assert write(node, 1, version=version) == "NONE"
    assert len(found) == 1
