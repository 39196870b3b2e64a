"""Transactions on real logs: markers, restarts, replicas (S44; faults 35–37, 39)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cy.batch import scan
from pybroker.cluster.metadata.image import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from pybroker.coordinator.partitioner import partition_for
from pybroker.coordinator.shard import Producer
from pybroker.coordinator.tests.harness import PARTITIONS
from pybroker.coordinator.tests.transactions import A, B, Node, until
from pybroker.log.producers.marker import ABORT, COMMIT, Marker, decode
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import errors


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Node]]:
    """Makes a broker with the internal topics and topic t of two partitions."""
    made: list[Node] = []

    def make(**options: Any) -> Node:
        node = Node(tmp_path, **options)
        made.append(node)
        node.offsets_topic()
        node.state_topic()
        node.create("t", 2)
        return node

    yield make
    for node in made:
        node.close()


@pytest.fixture
def node(make: Callable[..., Node]) -> Node:
    return make()


def markers(node: Node, tp: TopicPartition) -> list[Marker | None]:
    """Returns the markers in the partition."""
    log = node.replicas.partition(tp).log
    data = log.read_bytes(log.log_start_offset, 1 << 20, log.log_end_offset)
    return [decode(data[each.position : each.end]) for each in scan(data) if each.is_control]


def test_every_partition_gets_its_marker(node: Node) -> None:
    producer = node.init()
    offsets = TopicPartition(OFFSETS_TOPIC, 1)
    node.add(producer, A, B, offsets)
    assert node.end(producer) == Producer(1000, 1)
    node.until("x", "CompleteCommit")
    for tp in (A, B, offsets):
        assert markers(node, tp) == [Marker(COMMIT, 0)]


def test_the_next_transaction_need_not_wait_if_no_replica_must_confirm(node: Node) -> None:
    """Markers and completion take no longer than the response takes to reach a client."""
    producer = node.init()
    for count in range(1, 4):
        node.add(producer)
        producer = node.end(producer, committed=False)
        for _ in range(3):
            node.turn()
        assert node.state() == "CompleteAbort"
        assert markers(node, A) == [Marker(ABORT, 0)] * count


def test_transactions_survive_a_restart(node: Node) -> None:
    producer = node.init()
    node.add(producer)
    node.stop()
    node.start()
    assert node.state() == "Ongoing"
    node.end(producer)
    node.until("x", "CompleteCommit")
    assert node.init() == Producer(1000, 2)


def test_a_loading_coordinator_completes_prepared_transactions(node: Node) -> None:
    """Fault 36: killed between Prepare and markers."""
    producer = node.init()
    node.add(producer)
    node.transactions._sender.send = lambda *ignored: None  # type: ignore[method-assign]
    node.end(producer)
    assert node.state() == "PrepareCommit"
    node.stop()
    node.start()
    node.until("x", "CompleteCommit")
    assert markers(node, A) == markers(node, B) == [Marker(COMMIT, 0)]


def test_markers_of_a_new_term_carry_its_epoch(node: Node) -> None:
    producer = node.init()
    node.state_topic(epoch=4)
    node.add(producer)
    node.end(producer)
    node.until("x", "CompleteCommit")
    assert markers(node, A) == [Marker(COMMIT, 4)]


def test_a_deleted_topic_does_not_hold_up_the_transaction(node: Node) -> None:
    producer = node.init()
    node.create("u")
    node.add(producer, A, TopicPartition("u", 0))
    node.delete("u")
    node.end(producer)
    node.until("x", "CompleteCommit")


def test_a_partition_without_leader_holds_up_the_transaction_until_it_has_one(node: Node) -> None:
    producer = node.init()
    node.add(producer)
    node.create("t", 2, leader=-1, epoch=1, partition_epoch=1)
    following = node.end(producer)
    for _ in range(20):
        node.turn()
    assert node.state() == "PrepareCommit"
    with pytest.raises(errors.ConcurrentTransactions):
        node.add(following)
    node.create("t", 2, epoch=2, partition_epoch=2)
    until(node, lambda: node.state() == "CompleteCommit")


def test_the_timeout_aborts_with_markers(make: Callable[..., Node]) -> None:
    """Fault 35."""
    node = make(**{"transaction.abort.timed.out.transaction.cleanup.interval.ms": "50"})
    producer = node.init(timeout_ms=1_000)
    node.add(producer)
    until(node, lambda: node.state() == "CompleteAbort")
    assert markers(node, A) == markers(node, B) == [Marker(ABORT, 0)]


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_producer_that_takes_over_aborts_with_markers(make: Callable[..., Node], level: int) -> None:
    """S44: the open transaction of the previous producer is aborted, and that producer is fenced."""
    node = make(level=level)
    zombie = node.init()
    node.run(node.transactions.add("x", zombie, [A], level & 2))
    with pytest.raises(errors.ConcurrentTransactions):
        node.init()
    node.until("x", "CompleteAbort")
    assert markers(node, A) == [Marker(ABORT, 0)]
    assert node.init() == Producer(1000, 2)
    with pytest.raises(errors.ProducerFenced):
        node.run(node.transactions.end("x", zombie, True, level & 2))


def test_an_answer_waits_for_the_replicas_and_markers_wait_for_the_answer(node: Node) -> None:
    producer = node.init()
    node.add(producer)
    node.state_topic(replicas=(1, 2), isr=(1, 2), partition_epoch=1)
    ending = node.task(node.transactions.end("x", producer, True, 2))
    assert not ending.done()
    assert markers(node, A) == []
    partition = node.replicas.find(TRANSACTIONS_TOPIC, partition_for("x", PARTITIONS))
    log_end = partition.log.log_end_offset
    node.state_topic(replicas=(1, 2), isr=(1,), partition_epoch=2)
    assert node.run(ending) == Producer(1000, 1)
    node.until("x", "CompleteCommit")
    assert markers(node, A) == [Marker(COMMIT, 0)]
    assert partition.log.log_end_offset == log_end + 1


def test_a_loaded_outcome_has_no_markers_before_the_replicas_have_it(node: Node) -> None:
    """Otherwise a third replica that lacks the outcome could become leader, and decide otherwise."""
    producer = node.init()
    node.add(producer)
    node.state_topic(replicas=(1, 2, 3), isr=(1, 2, 3), partition_epoch=1)
    node.task(node.transactions.end("x", producer, True, 2))
    node.stop()
    node.start()
    partition = partition_for("x", PARTITIONS)
    until(node, lambda: node.transactions.runtime.loaded_shard(partition) is not None)
    for _ in range(20):
        node.turn()
    assert markers(node, A) == []
    node.state_topic(replicas=(1, 2, 3), isr=(1,), partition_epoch=2)
    node.until("x", "CompleteCommit")
    assert markers(node, A) == [Marker(COMMIT, 0)]


def test_a_transaction_with_too_few_replicas_is_refused_and_changes_nothing(node: Node) -> None:
    producer = node.init()
    node.add(producer)
    node.state_topic(replicas=(1, 2), isr=(1,), partition_epoch=1, min_insync_replicas="2")
    with pytest.raises(errors.CoordinatorNotAvailable):
        node.end(producer)
    node.state_topic(replicas=(1, 2), isr=(1,), partition_epoch=2, min_insync_replicas="1")
    assert node.state() == "Ongoing"
    assert node.end(producer) == Producer(1000, 1)


def test_another_coordinator_ends_what_this_one_has_begun(node: Node) -> None:
    producer = node.init()
    node.add(producer)
    node.create("t", 2, leader=-1, epoch=1, partition_epoch=1)
    node.end(producer)
    node.state_topic(leader=2, replicas=(1, 2), epoch=1, partition_epoch=1)
    with pytest.raises(errors.NotCoordinator):
        node.state()
    for _ in range(3):
        node.turn()
    assert not any(partition in (0, 1, 2) for partition in node.transactions.runtime._hosted)


def test_producers_are_admitted(node: Node) -> None:
    """Fault 39."""
    producer = node.init()

    def admit(*partitions: TopicPartition, add: bool) -> list[str | None]:
        found = node.run(node.transactions.admit("x", *producer, partitions, add=add))
        return [None if (error := found[each]) is None else error.name for each in partitions]

    assert admit(A, add=False) == ["TRANSACTION_ABORTABLE"]
    assert admit(A, add=True) == [None]
    assert node.state() == "Ongoing"
    assert admit(A, B, add=False) == [None, "TRANSACTION_ABORTABLE"]
    node.init(id="y")
    found = node.run(node.transactions.admit("y", *producer, [A], add=True))
    assert found[A].name == "INVALID_PRODUCER_ID_MAPPING"
    found = node.run(node.transactions.admit("", *producer, [A], add=True))
    assert found[A].name == "INVALID_REQUEST"


def test_ids_of_a_topic_that_does_not_exist_have_no_coordinator(tmp_path: Path) -> None:
    node = Node(tmp_path)
    with pytest.raises(errors.NotCoordinator):
        node.init()
    node.close()


def test_producer_ids_are_unique_among_transactional_ids(node: Node) -> None:
    assert len({node.init(id=f"id{number}").id for number in range(20)}) == 20
