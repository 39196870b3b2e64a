"""The transaction coordinator, frame by frame: semantics 9 and 34–37, S43, cases 33 and 35–38.

What the log makes of transactions is in ``test_transactional_produce``.
"""

from __future__ import annotations

import uuid
from typing import Any, NamedTuple

import pytest

from conformance.conftest import NewBroker, NewTopic
from conformance.data.batches import TRANSACTIONAL, batch
from harness.protocol import kinds
from harness.protocol.error_codes import (
    CONCURRENT_TRANSACTIONS,
    COORDINATOR_NOT_READY,
    INVALID_PRODUCER_EPOCH,
    INVALID_PRODUCER_ID_MAPPING,
    INVALID_REGULAR_EXPRESSION,
    INVALID_REQUEST,
    INVALID_TRANSACTION_TIMEOUT,
    INVALID_TXN_STATE,
    NOT_ENOUGH_REPLICAS,
    OPERATION_NOT_ATTEMPTED,
    PRODUCER_FENCED,
    TRANSACTION_ABORTABLE,
    TRANSACTION_COORDINATOR_FENCED,
    TRANSACTIONAL_ID_NOT_FOUND,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from harness.protocol.wire_client import Wire
from harness.servers.brokers import Broker
from harness.waiting import until

PATIENCE_S = 60
V1, V2 = 4, 5


class Owner(NamedTuple):
    """The owner of a transactional id: a producer id and its epoch."""

    id: int
    epoch: int


class Coordinator:
    """Calls the coordinator of one transactional id."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.id = f"txn-{uuid.uuid4()}"
        until(lambda: self.find() == 0, "the coordinator", PATIENCE_S)
        until(lambda: self.described().error_code == TRANSACTIONAL_ID_NOT_FOUND, "the coordinator's state", PATIENCE_S)

    def find(self) -> int:
        return int(self.wire.ask("FindCoordinator", 3, key=self.id, key_type=kinds.TRANSACTION).error_code)

    def init(self, version: int = 5, *, timeout_ms: int = 60_000, owner: Owner | None = None) -> Any:
        """Sends InitProducerId and returns the reply."""
        fields: dict[str, Any] = {"transactional_id": self.id, "transaction_timeout_ms": timeout_ms}
        if version >= 3:
            fields["producer_id"], fields["producer_epoch"] = owner or (-1, -1)
        return self.wire.ask("InitProducerId", version, **fields)

    def owner(self, **options: Any) -> Owner:
        """Initialises the transactional id, once its last transaction has ended."""
        replies: list[Any] = []

        def look() -> bool:
            replies.append(self.init(**options))
            return replies[-1].error_code not in (CONCURRENT_TRANSACTIONS, *COORDINATOR_NOT_READY)

        until(look, "the end of the transaction before", PATIENCE_S)
        assert replies[-1].error_code == 0, replies[-1]
        return Owner(replies[-1].producer_id, replies[-1].producer_epoch)

    def add(self, owner: Owner, *topics: str, version: int = 3) -> dict[str, int]:
        """Sends AddPartitionsToTxn of partition 0 of each topic. Returns the error codes."""
        rows = [{"name": name, "partitions": [0]} for name in topics]
        reply = self.wire.ask(
            "AddPartitionsToTxn",
            version,
            v3_and_below_transactional_id=self.id,
            v3_and_below_producer_id=owner.id,
            v3_and_below_producer_epoch=owner.epoch,
            v3_and_below_topics=rows,
        )
        found = reply.results_by_topic_v3_and_below
        return {row.name: row.results_by_partition[0].partition_error_code for row in found}

    def verify(self, owner: Owner, topic: str) -> int:
        """Sends AddPartitionsToTxn as a broker that only verifies. Returns the error code."""
        transaction = {
            "transactional_id": self.id,
            "producer_id": owner.id,
            "producer_epoch": owner.epoch,
            "verify_only": True,
            "topics": [{"name": topic, "partitions": [0]}],
        }
        reply = self.wire.ask("AddPartitionsToTxn", 4, transactions=[transaction])
        [result] = reply.results_by_transaction
        [row] = result.topic_results
        return int(row.results_by_partition[0].partition_error_code)

    def end(self, owner: Owner, committed: bool = True, version: int = V1) -> Any:
        """Sends EndTxn and returns the reply."""
        return self.wire.ask(
            "EndTxn",
            version,
            transactional_id=self.id,
            producer_id=owner.id,
            producer_epoch=owner.epoch,
            committed=committed,
        )

    def ended(self, owner: Owner, committed: bool = True, version: int = V1) -> Owner:
        """Ends the transaction and waits for its markers. Returns the id and the epoch of the next one."""
        reply = self.end(owner, committed, version)
        assert reply.error_code == 0, reply
        self.until_complete()
        return Owner(reply.producer_id, reply.producer_epoch) if version >= V2 else owner

    def described(self) -> Any:
        """Returns the only row of DescribeTransactions."""
        [row] = self.wire.ask("DescribeTransactions", 0, transactional_ids=[self.id]).transaction_states
        return row

    @property
    def state(self) -> str:
        return str(self.described().transaction_state)

    def until_complete(self) -> None:
        until(lambda: self.state.startswith("Complete"), "all markers", PATIENCE_S)

    def write(self, owner: Owner, topic: str, value: bytes = b"v", sequence: int = 0) -> int:
        """Produces in a transaction as a client of transactions v2 does. Repeats the request after retriable errors.
        Returns the error code.
        """
        records = batch(
            [value],
            attributes=TRANSACTIONAL,
            producer_id=owner.id,
            producer_epoch=owner.epoch,
            base_sequence=sequence,
        )
        data = {"name": topic, "partition_data": [{"index": 0, "records": records}]}
        codes: list[int] = []

        def look() -> bool:
            reply = self.wire.ask(
                "Produce", 12, transactional_id=self.id, acks=-1, timeout_ms=30_000, topic_data=[data]
            )
            codes.append(reply.responses[0].partition_responses[0].error_code)
            return codes[-1] not in (CONCURRENT_TRANSACTIONS, NOT_ENOUGH_REPLICAS)

        until(look, "an answer that is not retriable", PATIENCE_S)
        return codes[-1]


@pytest.fixture
def coordinator(wire: Wire) -> Coordinator:
    return Coordinator(wire)


def markers(wire: Wire, topic: str) -> int:
    """Counts the markers after the records of these tests, which write one record each."""
    return wire.end_offset(topic)


# The owner of the transactional id


def test_s43_a_transactional_id_has_one_coordinator(wire: Wire, coordinator: Coordinator) -> None:
    for version in range(1, 4):
        found = wire.ask("FindCoordinator", version, key=coordinator.id, key_type=kinds.TRANSACTION)
        assert found.error_code == 0
    keys = [coordinator.id, "other"]
    rows = wire.ask("FindCoordinator", 4, coordinator_keys=keys, key_type=kinds.TRANSACTION).coordinators
    assert {(row.node_id, row.host, row.port) for row in rows} == {(found.node_id, found.host, found.port)}
    topic = wire.metadata("__transaction_state")
    assert len(topic.partitions) == 50


@pytest.mark.parametrize("version", range(6))
def test_semantic_34_each_init_producer_id_returns_a_greater_epoch(coordinator: Coordinator, version: int) -> None:
    first, second = coordinator.owner(version=version), coordinator.owner(version=version)
    assert (second.id, second.epoch) == (first.id, first.epoch + 1)


def test_semantic_34_a_new_producer_aborts_the_open_transaction(coordinator: Coordinator, topic: str) -> None:
    zombie = coordinator.owner()
    assert coordinator.add(zombie, topic) == {topic: 0}
    assert coordinator.init().error_code == CONCURRENT_TRANSACTIONS
    coordinator.until_complete()
    assert coordinator.state == "CompleteAbort"
    owner = coordinator.owner()
    assert (owner.id, owner.epoch) == (zombie.id, zombie.epoch + 2)
    assert markers(coordinator.wire, topic) == 1


def test_a_producer_that_sends_its_epoch_gets_the_next_one(coordinator: Coordinator) -> None:
    """KIP-360 lets the producer repeat the call."""
    owner = coordinator.owner()
    following = coordinator.owner(owner=owner)
    assert following == Owner(owner.id, owner.epoch + 1)
    assert coordinator.owner(owner=owner) == following


@pytest.mark.parametrize(("version", "code"), [(3, INVALID_PRODUCER_EPOCH), (4, PRODUCER_FENCED), (5, PRODUCER_FENCED)])
def test_case_33_a_fenced_producer_cannot_get_a_new_epoch(
    coordinator: Coordinator, version: int, code: int
) -> None:
    zombie = coordinator.owner()
    coordinator.owner()
    assert coordinator.init(version, owner=zombie).error_code == code


@pytest.mark.parametrize("version", range(5))
def test_case_33_a_replaced_producer_is_fenced(coordinator: Coordinator, topic: str, version: int) -> None:
    code = INVALID_PRODUCER_EPOCH if version < 2 else PRODUCER_FENCED
    zombie = coordinator.owner()
    coordinator.owner()
    assert coordinator.add(zombie, topic, version=min(version, 3)) == {topic: code}
    assert coordinator.end(zombie, version=version).error_code == code
    reply = coordinator.wire.ask(
        "AddOffsetsToTxn",
        version,
        transactional_id=coordinator.id,
        producer_id=zombie.id,
        producer_epoch=zombie.epoch,
        group_id="g",
    )
    assert reply.error_code == code


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_case_35_a_transaction_timeout_outside_its_bounds_is_refused(coordinator: Coordinator, timeout_ms: int) -> None:
    assert coordinator.init(timeout_ms=timeout_ms).error_code == INVALID_TRANSACTION_TIMEOUT


def test_contradictory_producer_ids_and_epochs_are_refused(coordinator: Coordinator) -> None:
    assert coordinator.init(owner=Owner(5, -1)).error_code == INVALID_REQUEST
    assert coordinator.init(owner=Owner(-1, 5)).error_code == INVALID_REQUEST
    coordinator.id = ""
    assert coordinator.init().error_code == INVALID_REQUEST
    assert coordinator.end(Owner(5, 0)).error_code == INVALID_REQUEST


# Partitions


@pytest.mark.parametrize("version", range(4))
def test_semantic_37_one_unknown_partition_fails_all(coordinator: Coordinator, topic: str, version: int) -> None:
    owner = coordinator.owner()
    codes = coordinator.add(owner, topic, "there-is-none", version=version)
    assert codes == {topic: OPERATION_NOT_ATTEMPTED, "there-is-none": UNKNOWN_TOPIC_OR_PARTITION}
    assert coordinator.state == "Empty"


def test_brokers_can_verify_that_a_partition_is_in_a_transaction(coordinator: Coordinator, topic: str) -> None:
    owner = coordinator.owner()
    assert coordinator.verify(owner, topic) == TRANSACTION_ABORTABLE
    coordinator.add(owner, topic)
    assert coordinator.verify(owner, topic) == 0
    assert coordinator.verify(Owner(owner.id, owner.epoch + 1), topic) == PRODUCER_FENCED
    assert coordinator.verify(Owner(owner.id + 1, owner.epoch), topic) == INVALID_PRODUCER_ID_MAPPING


def test_transactions_are_described_and_listed(wire: Wire, coordinator: Coordinator, topic: str) -> None:
    owner = coordinator.owner()
    coordinator.add(owner, topic)
    row = coordinator.described()
    assert (row.transaction_state, row.producer_id, row.producer_epoch) == ("Ongoing", *owner)
    assert [(each.topic, list(each.partitions)) for each in row.topics] == [(topic, [0])]
    assert row.transaction_timeout_ms == 60_000

    def listed(**fields: Any) -> list[str]:
        defaults: dict[str, Any] = {"state_filters": [], "producer_id_filters": [], "duration_filter": -1}
        version = 2 if "transactional_id_pattern" in fields else 1
        found = wire.ask("ListTransactions", version, **defaults | fields)
        return [each.transactional_id for each in found.transaction_states]

    assert coordinator.id in listed()
    assert listed(producer_id_filters=[owner.id]) == [coordinator.id]
    assert coordinator.id in listed(state_filters=["Ongoing"])
    assert coordinator.id not in listed(state_filters=["Empty"])
    assert coordinator.id not in listed(duration_filter=3_600_000)
    assert listed(transactional_id_pattern=coordinator.id[:-1] + ".") == [coordinator.id]
    assert listed(transactional_id_pattern=coordinator.id[:-1]) == []
    broken = wire.ask(
        "ListTransactions", 2, state_filters=["Odd"], producer_id_filters=[], duration_filter=-1,
        transactional_id_pattern="(",
    )  # fmt: skip
    assert broken.error_code == INVALID_REGULAR_EXPRESSION


# Ending


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("version", range(6))
def test_semantic_35_a_transaction_is_committed_or_aborted(
    coordinator: Coordinator, topic: str, version: int, committed: bool
) -> None:
    owner = coordinator.owner()
    assert coordinator.add(owner, topic) == {topic: 0}
    following = coordinator.ended(owner, committed, version)
    bumped = Owner(owner.id, owner.epoch + 1)
    assert following == (bumped if version >= V2 else owner)
    assert coordinator.state == ("CompleteCommit" if committed else "CompleteAbort")
    assert markers(coordinator.wire, topic) == 1


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("version", [V1, V2])
def test_semantic_35_a_retried_end_of_a_transaction_succeeds(
    coordinator: Coordinator, topic: str, version: int, committed: bool
) -> None:
    owner = coordinator.owner()
    coordinator.add(owner, topic)
    following = coordinator.ended(owner, committed, version)
    assert coordinator.ended(owner, committed, version) == following
    assert markers(coordinator.wire, topic) == 1


@pytest.mark.parametrize("version", [V1, V2])
def test_case_37_an_abort_after_a_commit_is_refused(coordinator: Coordinator, topic: str, version: int) -> None:
    owner = coordinator.owner()
    coordinator.add(owner, topic)
    coordinator.ended(owner, True, version)
    assert coordinator.end(owner, False, version).error_code == INVALID_TXN_STATE


@pytest.mark.parametrize("version", [V1, V2])
def test_case_37_a_commit_without_a_transaction_is_refused(coordinator: Coordinator, version: int) -> None:
    owner = coordinator.owner()
    assert coordinator.end(owner, True, version).error_code == INVALID_TXN_STATE
    stranger = Owner(owner.id + 1, owner.epoch)
    assert coordinator.end(stranger, True, version).error_code == INVALID_PRODUCER_ID_MAPPING


def test_transactions_v2_can_abort_a_transaction_that_has_not_begun(coordinator: Coordinator) -> None:
    owner = coordinator.owner()
    assert coordinator.end(owner, False, V1).error_code == INVALID_TXN_STATE
    assert coordinator.ended(owner, False, V2) == Owner(owner.id, owner.epoch + 1)


def test_semantic_36_each_transaction_of_v2_raises_the_epoch(coordinator: Coordinator, topic: str) -> None:
    owner = coordinator.owner()
    for count in range(1, 4):
        assert coordinator.write(owner, topic) == 0
        owner = coordinator.ended(owner, count % 2 == 0, V2)
        assert owner.epoch == count
        assert coordinator.wire.end_offset(topic) == 2 * count


@pytest.mark.parametrize("committed", [True, False])
def test_case_38_a_late_end_request_does_not_end_the_next_transaction(
    coordinator: Coordinator, topic: str, committed: bool
) -> None:
    owner = coordinator.owner()
    coordinator.write(owner, topic)
    following = coordinator.ended(owner, committed, V2)
    assert coordinator.write(following, topic) == 0
    assert coordinator.end(owner, committed, V2).error_code == PRODUCER_FENCED
    assert coordinator.state == "Ongoing"
    coordinator.ended(following, True, V2)


def test_case_36_the_marker_with_an_old_coordinator_epoch_is_refused(
    wire: Wire, coordinator: Coordinator, topic: str
) -> None:
    owner = coordinator.owner()
    coordinator.add(owner, topic)

    def mark(coordinator_epoch: int) -> int:
        marker = {
            "producer_id": owner.id,
            "producer_epoch": owner.epoch,
            "transaction_result": False,
            "topics": [{"name": topic, "partition_indexes": [0]}],
            "coordinator_epoch": coordinator_epoch,
        }
        [row] = wire.ask("WriteTxnMarkers", 1, markers=[marker]).markers
        return int(row.topics[0].partitions[0].error_code)

    assert mark(7) == 0
    assert mark(6) == TRANSACTION_COORDINATOR_FENCED
    assert mark(7) == 0


def test_a_deleted_topic_does_not_block_a_transaction(
    wire: Wire, coordinator: Coordinator, new_topic: NewTopic
) -> None:
    kept, gone = new_topic(), new_topic()
    owner = coordinator.owner()
    coordinator.add(owner, kept, gone)
    reply = wire.ask("DeleteTopics", 5, topic_names=[gone], timeout_ms=30_000)
    assert reply.responses[0].error_code == 0
    coordinator.ended(owner)
    assert markers(wire, kept) == 1


# Time and crashes: on a broker of their own


@pytest.fixture
def own(new_broker: NewBroker) -> Broker:
    """Starts a broker that looks twice a second for transactions that have timed out."""
    return new_broker(
        transaction_abort_timed_out_transaction_cleanup_interval_ms=500,
        offsets_topic_replication_factor=1,
        transaction_state_log_replication_factor=1,
        transaction_state_log_min_isr=1,
    )


def test_case_35_and_36_a_timeout_aborts_and_a_crash_loses_no_transaction(own: Broker) -> None:
    """The transactions survive kill -9: one goes on, one is complete, one times out."""
    with Wire(own.address) as wire:
        wire.create_topic("t")
        ongoing, complete = Coordinator(wire), Coordinator(wire)
        owner, other = ongoing.owner(timeout_ms=600_000), complete.owner()
        assert ongoing.write(owner, "t", b"kept") == 0
        assert complete.write(other, "t", b"other") == 0
        following = complete.ended(other, True, V2)
    own.crash()
    with Wire(own.address) as wire:
        ongoing.wire = complete.wire = wire
        until(lambda: ongoing.find() == 0, "the coordinator after the crash", PATIENCE_S)
        until(lambda: ongoing.described().error_code == 0, "its state", PATIENCE_S)
        assert (ongoing.state, complete.state) == ("Ongoing", "CompleteCommit")
        assert ongoing.write(owner, "t", b"also kept", sequence=1) == 0
        assert ongoing.ended(owner, True, V2) == Owner(owner.id, owner.epoch + 1)
        assert complete.write(following, "t") == 0
        complete.ended(following, True, V2)
        slow = Coordinator(wire)
        owner = slow.owner(timeout_ms=1_000)
        assert slow.write(owner, "t", b"never") == 0
        slow.until_complete()
        assert slow.state == "CompleteAbort"
        assert slow.write(owner, "t", sequence=1) == INVALID_PRODUCER_EPOCH
