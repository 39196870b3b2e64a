"""DescribeProducers: the producers that a partition knows."""

from __future__ import annotations

from typing import Any

from pybroker.handlers import describe_producers
from pybroker.handlers.tests.harness import Node
from pybroker.log.producers.marker import EndTxnMarker
from pybroker.replication.tests.harness import NOW, TP, batch, idempotent
from pyclient.protocol import DescribeProducers, errors

Request = DescribeProducers.Request


def ask(node: Node, index: int = 0) -> Any:
    topic = Request.TopicRequest(name="t", partition_indexes=[index])
    return node.ask(describe_producers, Request(topics=[topic]), 0).topics[0].partitions[0]


def test_describe_producers_returns_sequences_and_open_transactions(node: Node) -> None:
    node.create()
    node.append(b"a")
    node.replicas.append(TP, idempotent(0, b"b", b"c", producer=7, epoch=2), 1, NOW)
    records = batch(producer_id=8, producer_epoch=0, base_sequence=5, transactional=True)
    node.replicas.append(TP, records, 1, NOW)
    first, second = ask(node).active_producers
    assert (first.producer_id, first.producer_epoch, first.last_sequence) == (7, 2, 1)
    assert (first.last_timestamp, first.current_txn_start_offset) == (NOW + 1, -1)
    assert (second.producer_id, second.current_txn_start_offset) == (8, 3)
    assert second.coordinator_epoch == -1


def test_a_marker_ends_the_transaction_and_shows_its_coordinator_epoch(node: Node) -> None:
    node.create()
    records = batch(producer_id=8, producer_epoch=0, base_sequence=0, transactional=True)
    node.replicas.append(TP, records, 1, NOW)
    assert ask(node).active_producers[0].current_txn_start_offset == 0
    node.replicas.append_marker(TP, EndTxnMarker(8, 1, 3, True, 2), NOW + 9)
    [producer] = ask(node).active_producers
    assert (producer.producer_epoch, producer.last_sequence, producer.last_timestamp) == (1, -1, NOW + 9)
    assert (producer.coordinator_epoch, producer.current_txn_start_offset) == (3, -1)


def test_only_the_leader_describes_producers(node: Node) -> None:
    node.create(leader=2, replicas=(1, 2))
    assert ask(node).error_code == errors.NotLeaderOrFollower.code
    answer = ask(node, 9)
    assert answer.error_code == errors.UnknownTopicOrPartition.code
    assert answer.error_message
