"""What a consumer decides for itself: S56–S59."""

from __future__ import annotations

import time

import confluent_kafka
import pytest
from confluent_kafka import TopicPartition
from kafka import ConsumerRebalanceListener, KafkaConsumer
from kafka import TopicPartition as Partition

from conformance.conftest import Counted, NewBroker, NewTopic
from conformance.data import batches
from conformance.scenarios.by_spark import BySpark, offsets
from harness.clients.librdkafka import consumer, present, take, write
from harness.clients.members import Member, committed, find_coordinator
from harness.peers import Java
from harness.protocol.wire_client import Wire
from harness.servers.brokers import Broker
from harness.waiting import until
from harness.witnesses import used

NUMBERS = [b"%d" % number for number in range(100)]


@pytest.fixture
def filled(broker: Broker, topic: str) -> str:
    """Creates a topic of the values 0 to 99."""
    write(broker, topic, NUMBERS)
    return topic


def committed_now(broker: Broker, group: str, topic: str) -> int:
    with Wire(broker.address) as wire:
        return committed(wire, group, topic)


def test_s56_auto_commit_commits_what_was_consumed(broker: Broker, filled: str, group: str) -> None:
    with consumer(broker, group, auto_commit_interval_ms=50) as client:
        client.subscribe([filled])
        take(client, 60)
    assert committed_now(broker, group, filled) == 60
    with consumer(broker, group) as client:
        client.subscribe([filled])
        assert [row.value() for row in take(client, 40)] == NUMBERS[60:]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_s56_the_next_consumer_starts_at_the_committed_offset(
    broker: Broker, filled: str, group: str, asynchronous: bool
) -> None:
    with consumer(broker, group, enable_auto_commit=False) as client:
        client.subscribe([filled])
        last = take(client, 30)[-1]
        if asynchronous:
            client.commit(message=last)
        else:
            client.commit(message=last, asynchronous=False)
        until(lambda: committed_now(broker, group, filled) == 30, "the commit")


def test_s56_asynchronous_commits_are_followed_by_a_synchronous_one(
    broker: Broker, filled: str, group: str
) -> None:
    with consumer(broker, group, enable_auto_commit=False) as client:
        client.subscribe([filled])
        for _ in range(9):
            client.commit(message=take(client, 10)[-1], asynchronous=True)
        client.commit(message=take(client, 10)[-1], asynchronous=False)
    assert committed_now(broker, group, filled) == 100


@pytest.mark.parametrize(("offset", "duplicates", "lost"), [(20, 10, 0), (45, 0, 15), (30, 0, 0)])
def test_s56_an_offset_committed_too_low_causes_duplicates_and_too_high_causes_loss(
    broker: Broker,
    filled: str,
    group: str,
    offset: int,
    duplicates: int,
    lost: int,
    by_spark: BySpark,
    counted: Counted,
) -> None:
    """The consumer processes 30 records, but commits another offset."""
    with consumer(broker, group, enable_auto_commit=False) as client:
        client.subscribe([filled])
        first = [row.value() for row in take(client, 30)]
        client.commit(offsets=[TopicPartition(filled, 0, offset)], asynchronous=False)
    with consumer(broker, group, enable_auto_commit=False) as client:
        client.subscribe([filled])
        second = [row.value() for row in take(client, 100 - offset)]
    assert by_spark.values(broker, filled, {"startingOffsets": offsets(filled, {0: offset})}) == second
    found = {"doubled": len(set(first) & set(second)), "lost": len(set(NUMBERS) - set(first) - set(second))}
    counted(f"30 processed, {offset} committed", **found)
    assert found == {"doubled": duplicates, "lost": lost}


def test_s56_without_a_commit_all_records_are_read_again(broker: Broker, filled: str, group: str) -> None:
    for _ in range(2):
        with consumer(broker, group, enable_auto_commit=False) as client:
            client.subscribe([filled])
            assert [row.value() for row in take(client, 100)] == NUMBERS


def test_s57_offsets_live_in_consumer_offsets_and_survive_a_crash(new_broker: NewBroker) -> None:
    broker = new_broker()
    with Wire(broker.address) as wire:
        wire.create_topic("t")
        find_coordinator(wire, "g")
    write(broker, "t", NUMBERS)
    with consumer(broker, "g", enable_auto_commit=False) as client:
        client.subscribe(["t"])
        client.commit(message=take(client, 42)[-1], asynchronous=False)
    with Wire(broker.address) as wire:
        assert len(wire.metadata("__consumer_offsets").partitions) == 50
        keys = _offset_keys(wire)
    assert (1, b"g", b"t", 0) in keys
    broker.crash()
    with Wire(broker.address) as wire:
        assert committed(wire, "g", "t") == 42


def test_s57_case_1_offsets_survive_a_torn_tail_of_their_own_log(new_broker: NewBroker) -> None:
    broker = new_broker(offsets_topic_num_partitions=1)
    with Wire(broker.address) as wire, Member(broker, "g") as member:
        wire.create_topic("t")
        find_coordinator(wire, "g")
        assert [member.commit_outside("t", offset) for offset in range(10)] == [0] * 10
    broker.kill()
    with (broker.partition_dir("__consumer_offsets") / f"{0:020}.log").open("ab") as file:
        file.write(batches.batch([b"half"], base_offset=10, leader_epoch=0)[:50])
    broker.start()
    with Wire(broker.address) as wire:
        assert committed(wire, "g", "t") == 9


def _offset_keys(wire: Wire) -> set[tuple[int, bytes, bytes, int]]:
    """Returns the keys of offset commits: i16 version, string group, string topic, i32 partition."""
    found = set()
    for partition in range(50):
        end = wire.end_offset("__consumer_offsets", partition)
        data = wire.fetch("__consumer_offsets", 0, partition).records if end else b""
        for _, key, _ in batches.rows(data or b""):
            assert key is not None
            if key[:2] in (b"\0\0", b"\0\1"):
                group_end = 4 + int.from_bytes(key[2:4])
                topic_end = group_end + 2 + int.from_bytes(key[group_end : group_end + 2])
                group, topic = key[4:group_end], key[group_end + 2 : topic_end]
                found.add((key[1], group, topic, int.from_bytes(key[topic_end:])))
    return found


def test_s58_a_rebalance_listener_is_called_for_assigned_and_revoked_partitions(
    broker: Broker, new_topic: NewTopic, group: str
) -> None:
    topic = new_topic(partitions=2)
    events: list[tuple[str, list[int]]] = []

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_revoked(self, revoked: set[Partition]) -> None:
            events.append(("revoked", sorted(row.partition for row in revoked)))

        def on_partitions_assigned(self, assigned: set[Partition]) -> None:
            events.append(("assigned", sorted(row.partition for row in assigned)))

    used("kafka-python")
    one = KafkaConsumer(bootstrap_servers=broker.bootstrap, group_id=group, heartbeat_interval_ms=200)
    assert one.partitions_for_topic(topic) == {0, 1}  # Its leader assigns no partitions of an unknown topic.
    one.subscribe([topic], listener=Listener())
    try:
        until(lambda: one.poll(1_500) is not None and ("assigned", [0, 1]) in events, "both partitions")
        with consumer(broker, group, partition_assignment_strategy="range") as other:
            other.subscribe([topic])

            def moved() -> bool:
                one.poll(1_500)  # kafka-python restarts its join if a poll ends before the join does.
                other.consume(1, 0.05)
                kind, partitions = events[-1]
                return len(other.assignment()) == 1 and kind == "assigned" and len(partitions) == 1

            until(moved, "one partition at each consumer")
        assert ("revoked", [0, 1]) in events
    finally:
        one.close()


@pytest.mark.parametrize("offset", [0, 37, 99])
def test_s58_seek_goes_to_any_offset(broker: Broker, filled: str, offset: int, by_spark: BySpark) -> None:
    used("kafka-python")
    client = KafkaConsumer(bootstrap_servers=broker.bootstrap)
    place = Partition(filled, 0)
    client.assign([place])
    client.seek(place, offset)
    rows = until(lambda: client.poll(500, max_records=1), "a record")[place]
    assert [(row.offset, row.value) for row in rows] == [(offset, NUMBERS[offset])]
    client.seek_to_end(place)
    assert client.position(place) == 100
    client.seek_to_beginning(place)
    assert client.position(place) == 0
    client.close()
    options = {"startingOffsets": offsets(filled, {0: offset})}
    assert by_spark.values(broker, filled, options) == NUMBERS[offset:]


def test_s58_seek_by_time_finds_the_first_record_at_or_after_it(
    broker: Broker, topic: str, by_spark: BySpark
) -> None:
    with Wire(broker.address) as wire:
        for step in range(10):
            wire.produce(topic, batches.batch([b"%d" % step], base_timestamp=1_000_000 + step * 100))
    used("kafka-python")
    client = KafkaConsumer(bootstrap_servers=broker.bootstrap)
    place = Partition(topic, 0)
    assert client.offsets_for_times({place: 1_000_450})[place].offset == 5
    assert client.offsets_for_times({place: 1_000_500})[place].offset == 5
    assert client.offsets_for_times({place: 2_000_000})[place] is None
    client.close()
    assert [row.offset for row in by_spark(broker, topic, {"startingTimestamp": 1_000_450})] == list(range(5, 10))


def test_s58_wakeup_ends_the_poll_of_another_thread(
    broker: Broker, topic: str, group: str, java: Java
) -> None:
    """Kafka's VerifiableConsumer polls without a limit; its SIGTERM handler, another thread, calls ``wakeup()``."""
    waiting = java.start(
        "org.apache.kafka.tools.VerifiableConsumer",
        *("--bootstrap-server", broker.bootstrap, "--topic", topic, "--group-id", group),
    )
    assert waiting.stdout is not None
    while "partitions_assigned" not in waiting.stdout.readline():
        assert waiting.poll() is None
    waiting.terminate()
    output, _ = waiting.communicate(timeout=90)
    assert '"name":"shutdown_complete"' in output


@pytest.mark.nightly
def test_s59_fetch_min_bytes_waits_for_that_much_or_for_max_wait(broker: Broker, topic: str) -> None:
    with Wire(broker.address) as wire:
        wire.produce(topic, batches.batch([b"x" * 100]))
        start = time.monotonic()
        row = wire.fetch(topic, 0, min_bytes=1, max_wait_ms=25_000)
        assert row.records
        assert time.monotonic() - start < 20
        start = time.monotonic()
        row = wire.fetch(topic, 0, min_bytes=100_000, max_wait_ms=500)
        assert time.monotonic() - start > 0.45
        assert row.records


def test_s59_a_waiting_fetch_ends_as_soon_as_enough_bytes_arrive(broker: Broker, topic: str) -> None:
    with Wire(broker.address) as reader, Wire(broker.address) as writer:
        partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
        # This is longer than the reader waits.
        limits = {"min_bytes": 500, "max_bytes": 1 << 20, "max_wait_ms": 250_000}
        reader.post("Fetch", 11, topics=[{"topic": topic, "partitions": [partition]}], **limits)
        writer.produce(topic, batches.batch([b"x" * 100]))
        assert _silent(reader, 0.3)
        writer.produce(topic, batches.batch([b"x" * 500]))
        reply = reader.reply("Fetch", 11)
        assert len(batches.values(reply.responses[0].partitions[0].records)) == 2


def _silent(wire: Wire, seconds: float) -> bool:
    wire.socket.settimeout(seconds)
    try:
        return not wire.socket.recv(1)
    except TimeoutError:
        return True
    finally:
        wire.socket.settimeout(90)


@pytest.mark.parametrize(("reset", "expected"), [("earliest", NUMBERS), ("latest", [b"later"])])
def test_s59_auto_offset_reset_chooses_the_start(
    broker: Broker, filled: str, group: str, reset: str, expected: list[bytes]
) -> None:
    with consumer(broker, group, auto_offset_reset=reset) as client:
        client.subscribe([filled])
        if reset == "latest":
            until(lambda: client.poll(0.1) is None and client.assignment(), "the assignment")
            with Wire(broker.address) as wire:
                until(lambda: wire.produce(filled, batches.batch(expected)) and client.poll(0.1), "a record")
                wire.produce(filled, batches.batch(expected))
        assert [row.value() for row in take(client, len(expected))] == expected


def test_s59_auto_offset_reset_error_raises_in_the_application(broker: Broker, filled: str, group: str) -> None:
    with consumer(broker, group, auto_offset_reset="error") as client:
        client.subscribe([filled])
        message = until(lambda: client.poll(0.5), "an error")
        assert present(message.error()).code() in (
            confluent_kafka.KafkaError._AUTO_OFFSET_RESET,
            confluent_kafka.KafkaError._NO_OFFSET,
        )


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_s59_isolation_levels_read_the_same_without_transactions(
    broker: Broker, filled: str, group: str, isolation: str, by_spark: BySpark
) -> None:
    with consumer(broker, group, isolation_level=isolation) as client:
        client.subscribe([filled])
        assert [row.value() for row in take(client, 100)] == NUMBERS
    waits = {"kafka.fetch.min.bytes": 100_000, "kafka.fetch.max.wait.ms": 50}
    assert by_spark.values(broker, filled, {"kafka.isolation.level": isolation, **waits}) == NUMBERS
