"""Transaction APIs in each version: the handler's part, beside the coordinator's."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pybroker.cluster.metadata.image import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from pybroker.coordinator.partitioner import partition_for
from pybroker.coordinator.tests import transactions
from pybroker.coordinator.tests.harness import PARTITIONS
from pybroker.handlers import ROWS
from pybroker.handlers.find_coordinator import CoordinatorType
from pybroker.handlers.tests import harness
from pybroker.handlers.tests.harness import OneItemTurns
from pyclient.protocol import (
    AddOffsetsToTxn,
    AddPartitionsToTxn,
    DescribeTransactions,
    EndTxn,
    FindCoordinator,
    InitProducerId,
    ListTransactions,
    WriteTxnMarkers,
    errors,
)
from pyclient.protocol.apis import Api

HANDLERS = {row.api: row.handle for row in ROWS}
FENCED, OLD_FENCED = errors.ProducerFenced.code, errors.InvalidProducerEpoch.code


class Node(transactions.Node, harness.Node):
    """A broker with transactions, as handlers see it."""


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """A broker with the internal topics and topic t of two partitions."""
    node = Node(tmp_path)
    node.offsets_topic()
    node.state_topic()
    node.create("t", 2)
    yield node
    node.close()


def ask(node: Node, api: Api, version: int, **fields: Any) -> Any:
    """Sends a request; returns the response, after checking that its version can encode it."""
    response = HANDLERS[api](api.Request(**fields), node.call(version))
    if inspect.isawaitable(response):
        response = node.run(response)
    api.encode_response(version, 1, response)
    return response


def init(node: Node, version: int = 5, **fields: Any) -> tuple[int, int, int]:
    """Sends InitProducerId; returns error code, producer id and epoch."""
    fields = {"transactional_id": "x", "transaction_timeout_ms": 60_000} | fields
    answer = ask(node, InitProducerId, version, **fields)
    return answer.error_code, answer.producer_id, answer.producer_epoch


def add(node: Node, version: int, producer: tuple[int, int], *names: str) -> list[int]:
    """Sends AddPartitionsToTxn; returns the error codes of partition 0 of the topics."""
    topics = [
        AddPartitionsToTxn.Request.AddPartitionsToTxnTopic(name=name, partitions=[0])
        for name in names or ("t",)
    ]
    fields: dict[str, Any]
    if version < 4:
        fields = {
            "v3_and_below_transactional_id": "x",
            "v3_and_below_producer_id": producer[0],
            "v3_and_below_producer_epoch": producer[1],
            "v3_and_below_topics": topics,
        }
    else:
        transaction = AddPartitionsToTxn.Request.AddPartitionsToTxnTransaction(
            transactional_id="x", producer_id=producer[0], producer_epoch=producer[1], topics=topics
        )
        fields = {"transactions": [transaction]}
    answer = ask(node, AddPartitionsToTxn, version, **fields)
    found = answer.results_by_topic_v3_and_below
    if version >= 4:
        [result] = answer.results_by_transaction
        found = result.topic_results
    return [each.results_by_partition[0].partition_error_code for each in found]


def end(node: Node, version: int, producer: tuple[int, int], committed: bool = True) -> tuple[int, int, int]:
    """Sends EndTxn; returns error code, next producer id and epoch."""
    answer = ask(
        node,
        EndTxn,
        version,
        transactional_id="x",
        producer_id=producer[0],
        producer_epoch=producer[1],
        committed=committed,
    )
    return answer.error_code, answer.producer_id, answer.producer_epoch


@pytest.mark.parametrize("version", range(6))
def test_init_producer_id_raises_the_epoch_of_a_transactional_id_that_has_a_producer(node: Node, version: int) -> None:
    assert init(node, version) == (0, 1000, 0)
    assert init(node, version) == (0, 1000, 1)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"transactional_id": ""}, errors.InvalidRequest.code),
        ({"producer_id": 5}, errors.InvalidRequest.code),
        ({"transaction_timeout_ms": 0}, errors.InvalidTransactionTimeout.code),
        ({"transaction_timeout_ms": 900_001}, errors.InvalidTransactionTimeout.code),
    ],
)
def test_init_producer_id_refuses_invalid_fields(node: Node, fields: dict[str, Any], code: int) -> None:
    assert init(node, **fields) == (code, -1, -1)


@pytest.mark.parametrize(("version", "code"), [(3, OLD_FENCED), (4, FENCED), (5, FENCED)])
def test_init_producer_id_reports_a_fenced_producer_with_the_error_of_its_version(
    node: Node, version: int, code: int
) -> None:
    init(node)
    assert init(node, version, producer_id=7, producer_epoch=1)[0] == code


@pytest.mark.parametrize("version", range(6))
def test_a_transaction_begins_when_its_first_partition_is_added(node: Node, version: int) -> None:
    _, *producer = init(node)
    assert add(node, version, (producer[0], producer[1])) == [0]
    assert node.state() == "Ongoing"


@pytest.mark.parametrize("version", range(6))
def test_add_partitions_to_txn_reports_a_fenced_producer_with_the_error_of_its_version(
    node: Node, version: int
) -> None:
    init(node)
    assert add(node, version, (1000, 5)) == [OLD_FENCED if version < 2 else FENCED]


def test_add_partitions_to_txn_adds_nothing_if_one_partition_is_unknown(node: Node) -> None:
    """Semantic 37."""
    init(node)
    bad, not_tried = errors.UnknownTopicOrPartition.code, errors.OperationNotAttempted.code
    assert add(node, 3, (1000, 0), "t", "unknown") == [not_tried, bad]
    assert node.state() == "Empty"


@pytest.mark.parametrize("topic", [OFFSETS_TOPIC, TRANSACTIONS_TOPIC])
def test_a_client_cannot_add_an_internal_topic_to_its_transaction(node: Node, topic: str) -> None:
    init(node)
    denied, not_tried = errors.TopicAuthorizationFailed.code, errors.OperationNotAttempted.code
    assert add(node, 3, (1000, 0), "t", topic) == [not_tried, denied]
    assert node.state() == "Empty"


def test_a_verify_only_request_checks_which_partitions_belong_to_the_transaction(node: Node) -> None:
    init(node)
    add(node, 4, (1000, 0))
    topics = [AddPartitionsToTxn.Request.AddPartitionsToTxnTopic(name="t", partitions=[0, 1])]
    asked = AddPartitionsToTxn.Request.AddPartitionsToTxnTransaction(
        transactional_id="x", producer_id=1000, producer_epoch=0, verify_only=True, topics=topics
    )
    answer = ask(node, AddPartitionsToTxn, 4, transactions=[asked])
    [result] = answer.results_by_transaction
    [topic] = result.topic_results
    codes = [each.partition_error_code for each in topic.results_by_partition]
    assert codes == [0, errors.TransactionAbortable.code]


@pytest.mark.parametrize("version", [3, 4])
def test_many_partitions_are_added_to_a_transaction_in_several_turns(node: Node, version: int) -> None:
    """Each partition is answered, even one that the request names several times."""
    init(node)
    node.turns = OneItemTurns()
    names = ["t"] * 7
    assert add(node, version, (1000, 0), *names)[0] == 0
    assert node.turns.count >= 2 * 6
    assert node.connection.held == 0
    assert [each.topic for each in node.run(node.transactions.describe("x")).topics] == ["t"]


@pytest.mark.parametrize("version", range(5))
def test_add_offsets_to_txn_adds_the_groups_partition_of_the_offsets_topic(node: Node, version: int) -> None:
    init(node)
    fields = {"transactional_id": "x", "producer_id": 1000, "group_id": "g"}
    answer = ask(node, AddOffsetsToTxn, version, producer_epoch=0, **fields)
    assert answer.error_code == 0
    index = partition_for("g", PARTITIONS)
    state = node.run(node.transactions.describe("x"))
    assert [(topic.topic, topic.partitions) for topic in state.topics] == [(OFFSETS_TOPIC, [index])]
    answer = ask(node, AddOffsetsToTxn, version, producer_epoch=9, **fields)
    assert answer.error_code == (OLD_FENCED if version < 2 else FENCED)


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize("committed", [True, False])
def test_end_txn_writes_markers_only_to_the_partitions_of_the_transaction(
    node: Node, version: int, committed: bool
) -> None:
    init(node)
    add(node, 3 if version < 5 else 4, (1000, 0))
    expected = (0, 1000, 1) if version == 5 else (0, -1, -1)
    assert end(node, version, (1000, 0), committed) == expected
    node.until("x", "CompleteCommit" if committed else "CompleteAbort")
    assert node.replicas.find("t", 0).log.log_end_offset == 1
    assert node.replicas.find("t", 1).log.log_end_offset == 0


@pytest.mark.parametrize("version", range(6))
def test_end_txn_reports_a_fenced_producer_with_the_error_of_its_version(node: Node, version: int) -> None:
    init(node)
    assert end(node, version, (1000, 9)) == (OLD_FENCED if version < 2 else FENCED, -1, -1)


@pytest.mark.parametrize("version", [1, 2])
def test_write_txn_markers_writes_markers_and_fences_an_old_coordinator(node: Node, version: int) -> None:
    Request = WriteTxnMarkers.Request  # noqa: N806
    topics = [
        Request.WritableTxnMarkerTopic(name="t", partition_indexes=[1, 7]),
        Request.WritableTxnMarkerTopic(name=OFFSETS_TOPIC, partition_indexes=[0, 77]),
    ]
    marker = Request.WritableTxnMarker(
        producer_id=5, producer_epoch=1, transaction_result=True, topics=topics, coordinator_epoch=3
    )
    answer = ask(node, WriteTxnMarkers, version, markers=[marker])
    [result] = answer.markers
    assert result.producer_id == 5
    codes = [[each.error_code for each in topic.partitions] for topic in result.topics]
    not_here = errors.NotLeaderOrFollower.code
    assert codes == [[0, errors.UnknownTopicOrPartition.code], [0, not_here]]
    assert node.replicas.find("t", 1).log.log_end_offset == 1
    marker.coordinator_epoch = 2
    answer = ask(node, WriteTxnMarkers, version, markers=[marker])
    assert answer.markers[0].topics[0].partitions[0].error_code == errors.TransactionCoordinatorFenced.code


@pytest.mark.parametrize(("id", "epoch"), [(-1, 0), (5, -1)])
def test_write_txn_markers_refuses_a_marker_without_a_producer_id_or_epoch(node: Node, id: int, epoch: int) -> None:
    Request = WriteTxnMarkers.Request  # noqa: N806
    topics = [Request.WritableTxnMarkerTopic(name="t", partition_indexes=[0])]
    markers = [
        Request.WritableTxnMarker(producer_id=each[0], producer_epoch=each[1], topics=topics)
        for each in ((7, 0), (id, epoch))
    ]
    answer = ask(node, WriteTxnMarkers, 1, markers=markers)
    codes = [each.topics[0].partitions[0].error_code for each in answer.markers]
    assert codes == [errors.UnknownServerError.code] * 2
    assert node.replicas.find("t", 0).log.log_end_offset == 0


def test_a_write_txn_markers_request_without_markers_gets_an_empty_answer(node: Node) -> None:
    answer = ask(node, WriteTxnMarkers, 1, markers=[])
    assert answer.markers == []


def test_describe_transactions_returns_a_state_or_an_error_for_each_id(node: Node) -> None:
    init(node)
    add(node, 3, (1000, 0))
    answer = ask(node, DescribeTransactions, 0, transactional_ids=["x", "unknown", ""])
    known, unknown, empty = answer.transaction_states
    assert (known.error_code, known.transaction_state, known.transaction_timeout_ms) == (0, "Ongoing", 60_000)
    assert unknown.error_code == errors.TransactionalIdNotFound.code
    assert empty.error_code == errors.InvalidRequest.code


@pytest.mark.parametrize("version", range(3))
def test_list_transactions_filters_by_state_and_reports_unknown_states(node: Node, version: int) -> None:
    for id in ("x", "y", "z"):
        init(node, transactional_id=id)
    add(node, 3, (1000, 0))
    answer = ask(node, ListTransactions, version)
    assert sorted(each.transactional_id for each in answer.transaction_states) == ["x", "y", "z"]
    answer = ask(node, ListTransactions, version, state_filters=["Ongoing", "Odd"])
    assert [each.transactional_id for each in answer.transaction_states] == ["x"]
    assert answer.unknown_state_filters == ["Odd"]


def test_list_transactions_filters_by_a_pattern_of_the_transactional_id(node: Node) -> None:
    init(node, transactional_id="orders-1")
    init(node, transactional_id="bills-1")
    answer = ask(node, ListTransactions, 2, transactional_id_pattern="ord.*")
    assert [each.transactional_id for each in answer.transaction_states] == ["orders-1"]
    answer = ask(node, ListTransactions, 2, transactional_id_pattern="ord")
    assert answer.transaction_states == []
    answer = ask(node, ListTransactions, 2, transactional_id_pattern="(")
    assert answer.error_code == errors.InvalidRegularExpression.code


@pytest.mark.parametrize("version", range(7))
def test_the_coordinator_of_a_transactional_id_is_the_leader_of_its_partition(node: Node, version: int) -> None:
    """S43: the leader of its partition of __transaction_state."""
    keys = {"coordinator_keys": ["x"]} if version >= 4 else {"key": "x"}
    node.state_topic(leader=2, replicas=(2,), epoch=1)
    if version > 0:
        answer = ask(node, FindCoordinator, version, key_type=CoordinatorType.TRANSACTION, **keys)
        found = answer.coordinators[0] if version >= 4 else answer
        assert (found.error_code, found.node_id) == (0, 2)


def test_a_broker_refuses_transactional_ids_that_another_broker_coordinates(node: Node) -> None:
    node.state_topic(leader=2, replicas=(2,), epoch=1)
    assert init(node) == (errors.NotCoordinator.code, -1, -1)
    assert add(node, 3, (1000, 0)) == [errors.NotCoordinator.code]
    assert end(node, 4, (1000, 0)) == (errors.NotCoordinator.code, -1, -1)
