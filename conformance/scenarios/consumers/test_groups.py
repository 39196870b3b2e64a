"""Consumer groups: S50–S55 and S60, with the clients' own consumers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewPartitions
from kafka import KafkaConsumer
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from conformance.conftest import NewBroker, NewTopic
from harness.clients.librdkafka import consumer, present, producer, take, write
from harness.clients.members import Member, committed, describe, find_coordinator, subscription
from harness.protocol import error_codes
from harness.protocol.wire_client import Wire
from harness.servers.brokers import Broker
from harness.waiting import until
from harness.witnesses import used

Partitions = set[tuple[str, int]]


def assigned(client: confluent_kafka.Consumer) -> Partitions:
    """Serves the client for a moment and returns the partitions that it has."""
    for message in client.consume(100, 0.05):
        assert message.error() is None, message.error()
    return {(row.topic, row.partition) for row in client.assignment()}


def whole(topic: str, count: int) -> Partitions:
    return {(topic, partition) for partition in range(count)}


def shared(clients: list[confluent_kafka.Consumer], expected: Partitions) -> Callable[[], bool]:
    """Checks that the clients own exactly these partitions, each once, and that no client is idle."""

    def look() -> bool:
        parts = [assigned(client) for client in clients]
        return all(parts) and sum(map(len, parts)) == len(expected) and set().union(*parts) == expected

    return look


def test_s50_a_partition_has_one_consumer_per_group_and_groups_are_independent(
    broker: Broker, new_topic: NewTopic, group: str
) -> None:
    topic = new_topic(partitions=4)
    with consumer(broker, group) as one, consumer(broker, group) as other:
        one.subscribe([topic])
        other.subscribe([topic])
        until(shared([one, other], whole(topic, 4)), "two shares of four partitions")
        with consumer(broker, group + "-other") as stranger:
            stranger.subscribe([topic])
            until(shared([stranger], whole(topic, 4)), "the other group's share")
            assert shared([one, other], whole(topic, 4))()


def test_s51_consumers_beyond_the_number_of_partitions_idle(
    broker: Broker, new_topic: NewTopic, group: str
) -> None:
    topic = new_topic(partitions=2)
    with ExitStack() as stack:
        clients = [stack.enter_context(consumer(broker, group)) for _ in range(4)]
        for client in clients:
            client.subscribe([topic])

        def settled() -> bool:
            sizes = sorted(len(assigned(client)) for client in clients)
            with Wire(broker.address) as wire:
                row = describe(wire, group)
            return sizes == [0, 0, 1, 1] and row.group_state == "Stable" and len(row.members) == 4

        until(settled, "two consumers with a partition each and two without")


def test_s52_partitions_move_when_a_member_joins_and_leaves(
    broker: Broker, new_topic: NewTopic, group: str
) -> None:
    topic = new_topic(partitions=3)
    with consumer(broker, group) as one:
        one.subscribe([topic])
        until(shared([one], whole(topic, 3)), "all partitions at the first member")
        with consumer(broker, group) as other:
            other.subscribe([topic])
            until(shared([one, other], whole(topic, 3)), "partitions shared with the second")
        until(shared([one], whole(topic, 3)), "all partitions back at the first member")


def test_s52_partitions_of_a_killed_member_move_after_its_session_timeout(new_broker: NewBroker) -> None:
    broker = new_broker(group_min_session_timeout_ms=100)
    with Wire(broker.address) as wire:
        wire.create_topic("t", 2)
    find_coordinator(Wire(broker.address), "g")
    protocols = {"range": subscription("t")}
    dead = Member(broker, "g", session_timeout_ms=1_000, protocols=protocols).join_alone()
    dead.wire.close()
    with consumer(broker, "g") as heir:
        heir.subscribe(["t"])
        until(shared([heir], whole("t", 2)), "the killed member's partitions")


def test_s52_partitions_added_to_the_topic_are_read(
    broker: Broker, new_topic: NewTopic, group: str
) -> None:
    topic = new_topic(partitions=1)
    with consumer(broker, group, topic_metadata_refresh_interval_ms=200) as client:
        client.subscribe([topic])
        until(shared([client], whole(topic, 1)), "the one partition")
        used("librdkafka")
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_partitions([NewPartitions(topic, 3)])[topic].result(90)
        until(shared([client], whole(topic, 3)), "the added partitions")
        write(broker, topic, [b"new"], partition=2)
        assert [message.value() for message in take(client, 1)] == [b"new"]


def test_s53_a_member_without_heartbeats_is_evicted_after_its_session_timeout(new_broker: NewBroker) -> None:
    broker = new_broker(group_min_session_timeout_ms=100)
    with Wire(broker.address) as wire, Member(broker, "g", session_timeout_ms=800) as member:
        wire.create_topic("t")
        find_coordinator(wire, "g")
        member.join_alone()
        start = time.monotonic()
        until(lambda: describe(wire, "g").group_state == "Empty", "the group to be empty")
        assert time.monotonic() - start > 0.6
        assert member.heartbeat() == 25
        assert member.commit("t", 7) == 25
        assert committed(wire, "g", "t") == -1


def test_s53_heartbeats_keep_a_member_in(new_broker: NewBroker) -> None:
    broker = new_broker(group_min_session_timeout_ms=100)
    find_coordinator(Wire(broker.address), "g")
    with Member(broker, "g", session_timeout_ms=4_000) as member:
        member.join_alone()
        end = time.monotonic() + 6
        while time.monotonic() < end:
            assert member.heartbeat() == 0
            time.sleep(0.05)


def test_s53_a_consumer_without_poll_is_evicted_and_its_records_redelivered(
    new_broker: NewBroker,
) -> None:
    """The broker refuses the late commit, and another consumer of the group gets the records again."""
    broker = new_broker(group_min_session_timeout_ms=100)
    with Wire(broker.address) as wire:
        wire.create_topic("t")
    write(broker, "t", [b"%d" % number for number in range(10)])
    slow_settings = {"session_timeout_ms": 1_000, "max_poll_interval_ms": 1_000, "heartbeat_interval_ms": 200}
    with consumer(broker, "g", enable_auto_commit=False, **slow_settings) as slow:
        slow.subscribe(["t"])
        first = take(slow, 10)
        with consumer(broker, "g", enable_auto_commit=False) as heir:
            heir.subscribe(["t"])
            again = take(heir, 10)
            assert [row.offset() for row in again] == [row.offset() for row in first]
            with pytest.raises(confluent_kafka.KafkaException) as late:
                slow.commit(message=first[-1], asynchronous=False)
            assert late.value.args[0].code() in (
                confluent_kafka.KafkaError.UNKNOWN_MEMBER_ID,
                confluent_kafka.KafkaError.ILLEGAL_GENERATION,
                confluent_kafka.KafkaError.REBALANCE_IN_PROGRESS,
            )


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_s54_assignors_of_librdkafka_share_evenly_and_follow_the_members(
    broker: Broker, new_topic: NewTopic, group: str, strategy: str
) -> None:
    topic = new_topic(partitions=6)
    with ExitStack() as stack:
        clients: list[confluent_kafka.Consumer] = []
        for count in (1, 2, 3):
            joining = consumer(broker, group, partition_assignment_strategy=strategy)
            clients.append(stack.enter_context(joining))
            clients[-1].subscribe([topic])
            until(shared(clients, whole(topic, 6)), f"{count} shares by {strategy}")
            sizes = {len(client.assignment()) for client in clients}
            assert sizes == {6 // count}


@pytest.mark.parametrize(
    "assignor", [RangePartitionAssignor, RoundRobinPartitionAssignor, StickyPartitionAssignor]
)
def test_s54_assignors_of_kafka_python_share_evenly(
    broker: Broker, new_topic: NewTopic, group: str, assignor: type
) -> None:
    topic = new_topic(partitions=4)
    settings = {"partition_assignment_strategy": [assignor], "heartbeat_interval_ms": 200}
    used("kafka-python")
    clients = [
        KafkaConsumer(bootstrap_servers=broker.bootstrap, group_id=group, **settings) for _ in range(2)
    ]
    stop = threading.Event()
    threads = [threading.Thread(target=_poll, args=(client, stop)) for client in clients]
    try:
        for client in clients:  # Its leader assigns no partitions of a topic that its metadata lack.
            assert client.partitions_for_topic(topic) == {0, 1, 2, 3}
            client.subscribe([topic])
        for thread in threads:
            thread.start()
        until(lambda: _sizes(clients) == [2, 2], f"two shares by {assignor.__name__}")
    finally:
        stop.set()
        for thread, client in zip(threads, clients, strict=True):
            if thread.ident is not None:
                thread.join()
            client.close()


def _poll(client: KafkaConsumer, stop: threading.Event) -> None:
    """Polls for long: kafka-python restarts its join if a poll ends before the join does."""
    while not stop.is_set():
        client.poll(1_500)


def _sizes(clients: list[KafkaConsumer]) -> list[int]:
    return [len(client.assignment()) for client in clients]


def test_s54_members_without_a_common_assignor_cannot_be_in_one_group(broker: Broker, group: str) -> None:
    with Member(broker, group) as one, Member(broker, group, protocols={"other": subscription()}) as other:
        find_coordinator(one.wire, group)
        one.join_alone()
        assert other.join().error_code == error_codes.INCONSISTENT_GROUP_PROTOCOL


def test_s55_a_member_subscribes_to_a_list_of_topics(broker: Broker, new_topic: NewTopic, group: str) -> None:
    topics = [new_topic(), new_topic(partitions=2)]
    with consumer(broker, group) as client:
        client.subscribe(topics)
        until(shared([client], whole(topics[0], 1) | whole(topics[1], 2)), "both topics")


def test_s55_a_matching_topic_created_later_is_subscribed(
    broker: Broker, new_topic: NewTopic, group: str
) -> None:
    new_topic(name=f"{group}.one")
    with consumer(broker, group, topic_metadata_refresh_interval_ms=200) as client:
        client.subscribe([f"^{group}\\..*"])
        until(shared([client], whole(f"{group}.one", 1)), "the first topic of the pattern")
        new_topic(name=f"{group}.two")
        both = whole(f"{group}.one", 1) | whole(f"{group}.two", 1)
        until(shared([client], both), "the topic that came later")


def test_s60_the_first_member_leads_and_another_leads_when_it_leaves(broker: Broker, group: str) -> None:
    with Member(broker, group) as first, Member(broker, group) as second:
        find_coordinator(first.wire, group)
        first.join_alone()
        second.post_join()
        until(lambda: first.heartbeat() == 27, "the call for a new round")
        first.post_join()
        assert first.joined().error_code == 0
        assert second.joined().error_code == 0
        assert first.leads
        assert sorted(first.members) == sorted([first.member_id, second.member_id])
        assert second.leader == first.member_id
        assert second.members == []
        second.post_sync()
        assert first.sync({first.member_id: b"a", second.member_id: b"b"}).assignment == b"a"
        assert second.wire.reply("SyncGroup", 5).assignment == b"b"
        assert first.leave() == 0
        until(lambda: second.heartbeat() == 27, "the call for a round without the leader")
        assert second.join().error_code == 0
        assert second.leads
        assert second.members == [second.member_id]


def test_s60_a_restarted_coordinator_keeps_commits_and_lets_members_rejoin(
    new_broker: NewBroker,
) -> None:
    broker = new_broker()
    with Wire(broker.address) as wire:
        wire.create_topic("t")
    write(broker, "t", [b"%d" % number for number in range(100)])
    with consumer(broker, "g", enable_auto_commit=False, heartbeat_interval_ms=200) as client:
        client.subscribe(["t"])
        rows = take(client, 50)
        client.commit(message=rows[-1], asynchronous=False)
        broker.crash()
        with Wire(broker.address) as wire:
            assert committed(wire, "g", "t") == 50
        producer(broker).produce("t", b"after")
        rest = take(client, 50, timeout_s=60)
        assert [int(present(row.value())) for row in rest] == list(range(50, 100))
        client.commit(message=rest[-1], asynchronous=False)
        with Wire(broker.address) as wire:
            assert committed(wire, "g", "t") == 100
