"""Transactions with librdkafka, aiokafka and Kafka's own producer: S41–S44; case 35 of the faults."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import pytest

from conformance.conftest import Counted, NewBroker, NewTopic
from conformance.data import batches
from conformance.drivers.base import ClientError, Consumer, Driver, Fenced, MustAbort, Place, Producer
from conformance.scenarios.by_spark import BySpark
from harness.clients.librdkafka import write
from harness.protocol import kinds
from harness.protocol.wire_client import Wire
from harness.servers.brokers import Broker
from harness.waiting import until

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
PATIENCE_S = 90.0


@contextmanager
def transactional(driver: Driver, broker: Broker, name: str, **settings: object) -> Iterator[Producer]:
    """Makes a transactional producer and initialises its transactions."""
    with driver.producer(broker.bootstrap, transactional_id=name, **settings) as producer:
        producer.init_transactions()
        yield producer


def send_all(producer: Producer, rows: Iterable[tuple[Place, bytes]]) -> None:
    for place, value in rows:
        producer.send(place.topic, value, partition=place.partition)


def end_offset(broker: Broker, place: Place, isolation_level: int) -> int:
    with Wire(broker.address) as wire:
        row = {"partition_index": place.partition, "current_leader_epoch": -1, "timestamp": -1}
        topics = [{"name": place.topic, "partitions": [row]}]
        reply = wire.ask("ListOffsets", 5, replica_id=-1, isolation_level=isolation_level, topics=topics)
    return int(reply.topics[0].partitions[0].offset)


def settle(broker: Broker, places: Iterable[Place]) -> None:
    """Waits until no transaction is open in these partitions: markers are written after the answer."""
    for place in places:
        until(
            lambda place=place: (  # type: ignore[misc]
                end_offset(broker, place, READ_COMMITTED) == end_offset(broker, place, READ_UNCOMMITTED)
            ),
            f"the end of all transactions in {place}",
            PATIENCE_S,
        )


def read(
    driver: Driver, broker: Broker, places: Sequence[Place], isolation: str = "read_committed"
) -> dict[Place, list[bytes]]:
    """Returns the records that a consumer gets from these partitions, up to its visible end."""
    level = READ_COMMITTED if isolation == "read_committed" else READ_UNCOMMITTED
    ends = {place: end_offset(broker, place, level) for place in places}
    found: dict[Place, list[bytes]] = {place: [] for place in places}
    with driver.consumer(broker.bootstrap, group_id="reader", isolation_level=isolation) as consumer:
        consumer.assign(dict.fromkeys(places, 0))

        def whole() -> bool:
            for record in consumer.poll(0.1):
                found[record.place].append(record.value or b"")
            return all(consumer.position(place) >= end for place, end in ends.items())

        until(whole, "the end of all partitions", PATIENCE_S)
    return found


def alike(places: Iterable[Place], values: list[bytes]) -> dict[Place, list[bytes]]:
    """Returns the same records for each place."""
    return {place: list(values) for place in places}


@pytest.fixture
def places(new_topic: NewTopic) -> list[Place]:
    """Returns three partitions of two topics."""
    one, other = new_topic(partitions=2), new_topic()
    return [Place(one, 0), Place(one, 1), Place(other, 0)]


def test_s42_a_transaction_is_visible_in_all_its_partitions_or_in_none(
    broker: Broker, driver: Driver, places: list[Place], group: str
) -> None:
    with transactional(driver, broker, group) as producer:
        producer.begin()
        send_all(producer, [(place, b"%d" % number) for number in range(5) for place in places])
        assert [sent.offset for sent in producer.flush()] == [number for number in range(5) for _ in places]
        for place in places:
            assert end_offset(broker, place, READ_COMMITTED) == 0
            assert end_offset(broker, place, READ_UNCOMMITTED) == 5
        assert read(driver, broker, places) == {place: [] for place in places}
        producer.commit()
        settle(broker, places)
    expected = [b"%d" % number for number in range(5)]
    assert read(driver, broker, places) == alike(places, expected)
    for place in places:
        assert end_offset(broker, place, READ_COMMITTED) == 6, "the marker takes an offset"


def test_s42_records_of_an_aborted_transaction_are_never_visible(
    broker: Broker, driver: Driver, places: list[Place], group: str, by_spark: BySpark
) -> None:
    with transactional(driver, broker, group) as producer:
        for number in range(6):
            producer.begin()
            send_all(producer, [(place, b"%d" % number) for place in places])
            if number % 2:
                producer.flush()
                producer.abort()
            else:
                producer.commit()
        settle(broker, places)
    assert read(driver, broker, places) == alike(places, [b"0", b"2", b"4"])
    everything = [b"%d" % number for number in range(6)]
    assert read(driver, broker, places, "read_uncommitted") == alike(places, everything)
    topic = places[0].topic
    committed = by_spark.values(broker, topic, {"kafka.isolation.level": "read_committed"})
    assert committed == [b"0", b"2", b"4"] * 2
    assert by_spark.values(broker, topic) == everything * 2


def test_s42_records_after_an_open_transaction_are_visible_only_at_its_end(
    broker: Broker, driver: Driver, topic: str, group: str
) -> None:
    """A reader of committed records never goes past the last stable offset, not even for a record outside of
    transactions.
    """
    place = Place(topic, 0)
    with transactional(driver, broker, f"{group}-one") as one, transactional(driver, broker, f"{group}-two") as two:
        one.begin()
        send_all(one, [(place, b"first")])
        one.flush()
        two.begin()
        send_all(two, [(place, b"second")])
        two.commit()
        write(broker, topic, [b"plain"], partition=0)
        assert end_offset(broker, place, READ_COMMITTED) == 0
        assert read(driver, broker, [place]) == {place: []}
        one.abort()
        settle(broker, [place])
    assert read(driver, broker, [place]) == {place: [b"second", b"plain"]}


def test_s42_a_compressed_transaction_of_many_batches_is_whole(
    broker: Broker, driver: Driver, topic: str, group: str
) -> None:
    place, values = Place(topic, 0), [b"%d" % number + b"x" * 900 for number in range(500)]
    with transactional(driver, broker, group, compression_type="gzip") as producer:
        for outcome in (producer.abort, producer.commit):
            producer.begin()
            send_all(producer, [(place, value) for value in values])
            producer.flush()
            outcome()
        settle(broker, [place])
    assert read(driver, broker, [place]) == {place: values}


#: These keys have this Java String.hashCode(). The last one's is -2^31, whose absolute value no int holds: Kafka takes
#: 0.
HASHES = {"app-1": 93027205, "order-service": 562889526, "polygenelubricants": -(2**31)}


@pytest.mark.parametrize("transactional_id", HASHES)
def test_s43_the_coordinator_of_a_transactional_id_leads_partition_hash_mod_50(
    broker: Broker, driver: Driver, topic: str, transactional_id: str
) -> None:
    name, hashed = transactional_id, HASHES[transactional_id]
    assert java_hash(name) == hashed
    partition = (0 if hashed == -(2**31) else abs(hashed)) % 50
    with transactional(driver, broker, name) as producer:
        producer.begin()
        producer.send(topic, b"x")
        producer.commit()
    with Wire(broker.address) as wire:
        partitions = wire.metadata("__transaction_state").partitions
        assert len(partitions) == 50
        leader = next(row.leader_id for row in partitions if row.partition_index == partition)
        assert wire.ask("FindCoordinator", 3, key=name, key_type=kinds.TRANSACTION).node_id == leader
        data = wire.fetch("__transaction_state", 0, partition).records
    keys = {key for _, key, _ in batches.rows(data)}
    assert b"\0\0" + len(name).to_bytes(2) + name.encode() in keys


def java_hash(text: str) -> int:
    """Returns the hash that Java's ``String.hashCode()`` has."""
    found = 0
    for letter in text:
        found = (31 * found + ord(letter)) & 0xFFFFFFFF
    return found - (1 << 32) if found >> 31 else found


def test_s44_a_restarted_producer_aborts_its_open_transaction(
    broker: Broker, driver: Driver, places: list[Place], group: str, by_spark: BySpark
) -> None:
    with transactional(driver, broker, group) as lost:
        lost.begin()
        send_all(lost, [(place, b"left") for place in places])
        lost.flush()
        with transactional(driver, broker, group) as producer:
            settle(broker, places)
            producer.begin()
            send_all(producer, [(place, b"new") for place in places])
            producer.commit()
            settle(broker, places)
    assert read(driver, broker, places) == alike(places, [b"new"])
    options = {"kafka.isolation.level": "read_committed"}
    assert by_spark.values(broker, places[0].topic, options) == [b"new", b"new"]


def test_s44_a_committed_transaction_is_complete_after_the_producer_restarts(
    broker: Broker, driver: Driver, places: list[Place], group: str
) -> None:
    with transactional(driver, broker, group) as first:
        first.begin()
        send_all(first, [(place, b"kept") for place in places])
        first.commit()
    with transactional(driver, broker, group):
        settle(broker, places)
    assert read(driver, broker, places) == alike(places, [b"kept"])


@pytest.mark.parametrize("moment", ["begin", "send", "commit"])
def test_s44_a_replaced_producer_is_fenced_and_its_records_are_not_visible(
    broker: Broker, driver: Driver, places: list[Place], group: str, moment: str
) -> None:
    """A new producer takes the id at each stage of the old one's transaction."""
    with transactional(driver, broker, group) as zombie:

        def send() -> None:
            send_all(zombie, [(place, b"zombie") for place in places])
            zombie.flush()

        steps: list[Callable[[], object]] = [zombie.begin, send, zombie.commit]
        before = ("begin", "send", "commit").index(moment)
        for step in steps[:before]:
            step()
        with transactional(driver, broker, group) as heir:
            assert isinstance(failure(steps[before:], zombie), Fenced)
            heir.begin()
            send_all(heir, [(place, b"heir") for place in places])
            heir.commit()
            settle(broker, places)
    assert read(driver, broker, places) == alike(places, [b"heir"])


def failure(steps: Iterable[Callable[[], object]], producer: Producer) -> ClientError | None:
    """Returns a producer's final error. Some clients believe that an abort can repair the first refusal."""
    try:
        for step in steps:
            step()
    except MustAbort:
        try:
            producer.abort()
        except ClientError as error:
            return error
    except ClientError as error:
        return error
    return None


def test_s44_open_transactions_and_fencing_survive_a_crash_of_the_coordinator(
    new_broker: NewBroker, driver: Driver
) -> None:
    broker = new_broker(transaction_state_log_num_partitions=1)
    places = [Place("t", 0), Place("t", 1)]
    with Wire(broker.address) as wire:
        wire.create_topic("t", 2)
    with transactional(driver, broker, "id") as producer:
        producer.begin()
        send_all(producer, [(place, b"before") for place in places])
        producer.flush()
        broker.crash()
        send_all(producer, [(place, b"after") for place in places])
        producer.commit()
        with transactional(driver, broker, "id") as heir:
            broker.crash()
            assert isinstance(failure([producer.begin, lambda: attempt(producer)], producer), Fenced)
            heir.begin()
            send_all(heir, [(place, b"heir") for place in places])
            heir.commit()
            settle(broker, places)
    assert read(driver, broker, places) == alike(places, [b"before", b"after", b"heir"])


def attempt(producer: Producer) -> None:
    """Attempts a transaction of one record."""
    producer.send("t", b"zombie", partition=0)
    producer.commit()


def test_case_35_a_transaction_past_its_timeout_is_aborted_and_its_producer_fenced(
    new_broker: NewBroker, driver: Driver
) -> None:
    broker = new_broker(
        transaction_state_log_num_partitions=1,
        transaction_abort_timed_out_transaction_cleanup_interval_ms=100,
    )
    with Wire(broker.address) as wire:
        wire.create_topic("t")
    place = Place("t", 0)
    with transactional(driver, broker, "id", transaction_timeout_ms=1_000) as slow:
        slow.begin()
        send_all(slow, [(place, b"slow")])
        slow.flush()
        settle(broker, [place])
        assert failure([slow.commit], slow) is not None
        assert read(driver, broker, [place]) == {place: []}


def test_s41_each_delivery_guarantee_yields_its_expected_counts_under_the_same_fault(
    broker: Broker, driver: Driver, new_topic: NewTopic, group: str, counted: Counted
) -> None:
    """A copy of 60 records, 20 at a time, breaks off after seven records of the second portion, and restarts."""
    source = new_topic()
    values = [b"%d" % number for number in range(60)]
    write(broker, source, values)
    counts = {}
    for guarantee in (AtMostOnce, AtLeastOnce, ExactlyOnce):
        target = new_topic()
        job = guarantee(driver, broker, Place(source, 0), Place(target, 0), f"{group}-{guarantee.__name__}")
        job.run(60, break_after=27)
        job.run(60, break_after=None)
        settle(broker, [job.target])
        found = Counter(read(driver, broker, [job.target])[job.target])
        lost = len(set(values) - found.keys())
        doubled = sum(found.values()) - len(found)
        counts[guarantee] = (lost, doubled)
        counted(f"{guarantee.__name__}, {driver.name}", records=60, lost=lost, doubled=doubled)
    assert counts == {AtMostOnce: (13, 0), AtLeastOnce: (0, 7), ExactlyOnce: (0, 0)}


class Copy(ABC):
    """Copies a partition in portions as a group that commits its offsets; may break off within a portion."""

    PORTION = 20
    transactional_id: str | None = None

    def __init__(self, driver: Driver, broker: Broker, source: Place, target: Place, name: str) -> None:
        self.driver, self.broker, self.name = driver, broker, name
        self.source, self.target = source, target

    def run(self, count: int, break_after: int | None) -> None:
        """Runs until the group has committed ``count``, or this many records are copied."""
        more: Mapping[str, object] = {"transactional_id": self.name} if isinstance(self, ExactlyOnce) else {}
        with (
            self.driver.producer(self.broker.bootstrap, **more) as producer,
            self.driver.consumer(self.broker.bootstrap, group_id=self.name) as consumer,
        ):
            if more:
                producer.init_transactions()
            start = max(0, consumer.committed([self.source])[self.source])
            consumer.assign({self.source: start})
            for portion in range(start, count, self.PORTION):
                left = self.PORTION if break_after is None else min(self.PORTION, break_after - portion)
                if not self.portion(producer, consumer, self._take(consumer, portion), left):
                    return

    def _take(self, consumer: Consumer, start: int) -> list[bytes]:
        found: dict[int, bytes] = {}

        def complete() -> bool:
            rows = consumer.poll(0.1, self.PORTION - len(found))
            found.update({row.offset: row.value or b"" for row in rows})
            return len(found) == self.PORTION

        until(complete, f"a portion from {start} on", PATIENCE_S)
        assert sorted(found) == list(range(start, start + self.PORTION))
        return [found[offset] for offset in sorted(found)]

    @abstractmethod
    def portion(self, producer: Producer, consumer: Consumer, values: list[bytes], left: int) -> bool:
        """Processes a portion, or the ``left`` records that remain of it. Returns whether the portion is finished."""

    def copy(self, producer: Producer, values: list[bytes], left: int) -> bool:
        send_all(producer, [(self.target, value) for value in values[:left]])
        producer.flush()
        return left == len(values)


class AtMostOnce(Copy):
    """Commits, then works: an interrupted portion is lost."""

    def portion(self, producer: Producer, consumer: Consumer, values: list[bytes], left: int) -> bool:
        consumer.commit({self.source: int(values[-1]) + 1})
        return self.copy(producer, values, left)


class AtLeastOnce(Copy):
    """Works, then commits: an interrupted portion is repeated from its start."""

    def portion(self, producer: Producer, consumer: Consumer, values: list[bytes], left: int) -> bool:
        done = self.copy(producer, values, left)
        if done:
            consumer.commit({self.source: int(values[-1]) + 1})
        return done


class ExactlyOnce(Copy):
    """Works and commits in one transaction: an interrupted portion is aborted and repeated."""

    def portion(self, producer: Producer, consumer: Consumer, values: list[bytes], left: int) -> bool:
        producer.begin()
        done = self.copy(producer, values, left)
        if done:
            producer.send_offsets(consumer, {self.source: int(values[-1]) + 1})
            producer.commit()
        return done
