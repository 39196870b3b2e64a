"""The consumer against a broker: ours, or with PYCLIENT_BROKER=kafka the real one."""

from __future__ import annotations

import asyncio
import pickle
import re
import threading
from collections.abc import Collection

import pytest
from confluent_kafka import Producer

from pyclient import Admin, Consumer, TopicPartition, aio
from pyclient.consumer import CommitFailed, IllegalState, NoOffsetForPartition, OffsetAndMetadata, Records
from pyclient.errors import ClientClosed, ConfigError, ConnectionFailed, WakeupError
from pyclient.tests.brokers import broker, unique  # noqa: F401
from pyclient.tests.support import SOON_S, until

PROTOCOLS = ("classic", "consumer")
QUICK = {
    "auto_offset_reset": "earliest",
    "heartbeat_interval_ms": 200,
    "default_api_timeout_ms": 60_000,
    "fetch_max_wait_ms": 50,
}


@pytest.fixture(scope="module")
def admin(broker):  # noqa: F811
    with Admin(broker.bootstrap) as made:
        made.connect(60)
        yield made


@pytest.fixture
def topic(admin, broker):  # noqa: F811
    """Creates a topic of two partitions with 50 records each: b"0" to b"49"."""
    name = unique("c")
    admin.create_topics(name, num_partitions=2, replication_factor=1)
    fill(broker.bootstrap, name)
    return name


def fill(bootstrap: str, topic: str, count: int = 50, **settings: object) -> Producer:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, **settings})
    if "transactional.id" in settings:
        producer.init_transactions(60)
        producer.begin_transaction()
    for number in range(count):
        for partition in (0, 1):
            producer.produce(topic, b"%d" % number, key=b"k", partition=partition, headers=[("h", b"x")])
    producer.flush(60)
    return producer


def both(topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, 0), TopicPartition(topic, 1)]


def read(consumer: Consumer, count: int) -> list:
    records: list = []
    while len(records) < count:
        found = consumer.poll(60)
        assert found, f"{len(records)} of {count} records"
        records += found
    return records


def test_assigned_partitions_are_read_in_order(broker, topic) -> None:  # noqa: F811
    with Consumer(broker.bootstrap, **QUICK) as consumer:
        consumer.assign(both(topic))
        records = read(consumer, 100)
        for partition in (0, 1):
            mine = [record for record in records if record.partition == partition]
            assert [record.offset for record in mine] == list(range(50))
            assert [record.value for record in mine] == [b"%d" % n for n in range(50)]
        assert pickle.loads(pickle.dumps(records[0])).headers == [("h", b"x")]
        assert consumer.poll(0) == []
        assert [consumer.position(tp) for tp in both(topic)] == [50, 50]
        assert {tp: row.offset for tp, row in consumer.position().items()} == dict.fromkeys(both(topic), 50)
        assert consumer.current_lag(both(topic)[0]) == 0


def test_seek_and_pause_work_and_offsets_are_returned(broker, topic) -> None:  # noqa: F811
    one, other = both(topic)
    with Consumer(broker.bootstrap, **QUICK) as consumer:
        consumer.assign([one, other])
        consumer.pause([other])
        consumer.seek(one, 48)
        assert [record.offset for record in read(consumer, 2)] == [48, 49]
        assert consumer.poll(0.05) == []
        consumer.resume([other])
        assert {record.partition for record in read(consumer, 50)} == {1}
        consumer.seek_to_beginning([one])
        assert read(consumer, 1)[0].offset == 0
        consumer.seek_to_end([one])
        assert consumer.position(one) == 50
        assert consumer.beginning_offsets([one]) == {one: 0}
        assert consumer.end_offsets([one, other]) == {one: 50, other: 50}
        found = consumer.offsets_for_times({one: 0, other: 1 << 50})
        assert (found[one].offset, found[other]) == (0, None)
        with pytest.raises(ValueError, match="a time in ms since 1970 must not be below 0, as -1 is"):
            consumer.offsets_for_times({one: -1})
        consumer.seek(one, 4000)
        assert read(consumer, 1)[0].offset == 0


def test_arrow_holds_the_records(broker, topic) -> None:  # noqa: F811
    with Consumer(broker.bootstrap, **QUICK) as consumer:
        consumer.assign(both(topic)[:1])
        batch = consumer.poll_arrow(timeout=60)
        assert batch.column("offset").to_pylist() == list(range(batch.num_rows))
        assert batch.slice(0, 1).to_pylist()[0]["headers"] == [{"key": "h", "value": b"x"}]
        assert batch.slice(0, 1).to_pylist()[0]["topic"] == topic


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_group_resumes_at_its_committed_offset(broker, topic, protocol) -> None:  # noqa: F811
    group = {"group_id": unique("g"), "group_protocol": protocol, "topics": [topic], **QUICK}
    with Consumer(broker.bootstrap, **group, enable_auto_commit=False) as consumer:
        for count, _record in enumerate(consumer, 1):
            if count == 30:
                break
        consumer.commit()
        assert sum(row.offset for row in consumer.committed(both(topic)).values() if row) == 30
        assert consumer.group_metadata().generation_id > 0
    with Consumer(broker.bootstrap, **group) as consumer:
        assert len(read(consumer, 70)) == 70
    with Consumer(broker.bootstrap, **group) as consumer:
        assert consumer.poll(0.5) == []
        assert sum(row.offset for row in consumer.committed(both(topic)).values()) == 100


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_exception_leaves_the_last_poll_uncommitted(broker, topic, protocol) -> None:  # noqa: F811
    group = {"group_id": unique("g"), "group_protocol": protocol, "topics": [topic], **QUICK}

    def fail() -> None:
        with Consumer(broker.bootstrap, **group) as consumer:
            for _ in consumer:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with Consumer(broker.bootstrap, **group) as consumer:
        assert len(read(consumer, 100)) == 100


class Told:
    """A listener that records its calls."""

    def __init__(self) -> None:
        self.events: list[tuple[str, list[int]]] = []

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        self.events.append(("+", sorted(tp.partition for tp in partitions)))

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self.events.append(("-", sorted(tp.partition for tp in partitions)))


@pytest.mark.parametrize(
    "settings",
    [
        {"group_protocol": "consumer"},
        {"partition_assignment_strategy": "range"},
        {"partition_assignment_strategy": "cooperative-sticky"},
    ],
    ids=["consumer", "eager", "cooperative"],
)
def test_a_second_member_takes_over_a_partition(broker, topic, settings) -> None:  # noqa: F811
    group = {"group_id": unique("g"), **QUICK, **settings}
    told = Told()
    with Consumer(broker.bootstrap, **group) as first, Consumer(broker.bootstrap, **group) as second:
        first.subscribe([topic], listener=told)
        assert len(read(first, 100)) == 100
        assert told.events == [("+", [0, 1])]
        second.subscribe([topic])
        for _ in range(600):
            assert first.poll(0.05) == []
            assert second.poll(0.05) == []
            if len(first.assignment()) == len(second.assignment()) == 1:
                break
        assert first.assignment() | second.assignment() == set(both(topic))
        assert sum(len(each) for mark, each in told.events if mark == "-") >= 1
    assert told.events[-1][0] == "-"


def test_a_pattern_reads_the_topics_that_match(broker, topic) -> None:  # noqa: F811
    with Consumer(broker.bootstrap, group_id=unique("g"), **QUICK) as consumer:
        consumer.subscribe(re.compile(re.escape(topic)))
        assert {record.topic for record in read(consumer, 100)} == {topic}
        assert consumer.subscription() == {topic}


def test_read_committed_returns_no_aborted_records(broker, topic) -> None:  # noqa: F811
    fill(broker.bootstrap, topic, 5, **{"transactional.id": unique("x")}).abort_transaction()
    fill(broker.bootstrap, topic, 3, **{"transactional.id": unique("x")}).commit_transaction()
    with Consumer(broker.bootstrap, isolation_level="read_committed", **QUICK) as consumer:
        consumer.assign(both(topic))
        assert len(read(consumer, 106)) == 106
        assert consumer.poll(0.05) == []


@pytest.mark.nightly
def test_a_member_that_polled_too_late_cannot_commit(broker, topic) -> None:  # noqa: F811
    settings = {"group_id": unique("g"), "enable_auto_commit": False, "max_poll_interval_ms": 300, **QUICK}
    with Consumer(broker.bootstrap, topics=[topic], **settings) as consumer:
        read(consumer, 100)
        for _ in range(100):
            threading.Event().wait(0.05)
            if not consumer.group_metadata().member_id:
                break
        with pytest.raises(CommitFailed):
            consumer.commit()
        assert len(read(consumer, 100)) == 100


def test_a_missing_position_is_an_error_if_no_reset_policy_is_set(broker, topic) -> None:  # noqa: F811
    with Consumer(broker.bootstrap, auto_offset_reset="none") as consumer:
        consumer.assign(both(topic))
        with pytest.raises(NoOffsetForPartition, match=topic):
            consumer.poll(60)


def test_a_seek_clears_an_error_that_no_poll_has_raised_yet(broker, topic):  # noqa: F811
    with Consumer(broker.bootstrap, **{**QUICK, "auto_offset_reset": "none"}) as consumer:
        consumer.assign(both(topic))
        until(lambda: consumer._core._errors)  # the search has ended without a position
        for tp in both(topic):
            consumer.seek(tp, 40)
        assert len(read(consumer, 20)) == 20


def test_wakeup_ends_the_wait(broker, topic) -> None:  # noqa: F811
    with Consumer(broker.bootstrap) as consumer:
        consumer.assign(both(topic))
        threading.Timer(SOON_S, consumer.wakeup).start()
        with pytest.raises(WakeupError):
            consumer.poll()


def test_wrong_use_of_a_consumer_raises_an_error(broker) -> None:  # noqa: F811
    with pytest.raises(ConfigError, match="did you mean group_id"):
        Consumer(broker.bootstrap, group_idd="g")
    with pytest.raises(ConfigError, match="assignment"):
        Consumer(broker.bootstrap, group_id="g", partition_assignment_strategy="sticki")
    with pytest.raises(ConnectionFailed), Consumer("127.0.0.1:1") as lost:
        lost.connect(0.1)
    consumer = Consumer(broker.bootstrap)
    with pytest.raises(IllegalState, match=r"group\.id"):
        consumer.commit()
    with pytest.raises(IllegalState, match="not assigned"):
        consumer.seek(TopicPartition("t", 0), 1)
    consumer.close()
    consumer.close()
    with pytest.raises(ClientClosed):
        consumer.poll(0)


def test_the_asyncio_consumer_reads_and_commits(broker, topic) -> None:  # noqa: F811
    group = {"group_id": unique("g"), "topics": [topic], **QUICK}

    async def check() -> None:
        async with aio.Consumer(broker.bootstrap, **group) as consumer:
            count = 0
            async for record in consumer:
                count += 1
                if count == 60:
                    await consumer.commit(record)
                    break
            assert len(await consumer.poll(60)) == 40
            assert await consumer.poll(0) == []
            assert await consumer.end_offsets(both(topic)) == dict.fromkeys(both(topic), 50)

    asyncio.run(check())


def test_deserializers_are_called_lazily(broker, topic) -> None:  # noqa: F811
    with Consumer(broker.bootstrap, value_deserializer="json", key_deserializer="str", **QUICK) as consumer:
        consumer.assign(both(topic)[:1])
        record = read(consumer, 1)[0]
        assert (record.key, record.value) == ("k", 0)


class Seen:
    """An interceptor that notes its calls, and raises."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, object]] = []

    def configure(self, settings: dict[str, object]) -> None:
        self.notes.append(("configure", settings["client.id"]))

    def on_consume(self, records: Records) -> None:
        self.notes.append(("consume", [record.offset for record in records]))
        raise RuntimeError("an interceptor does not disturb the consumer")

    def on_commit(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        self.notes.append(("commit", {tp: row.offset for tp, row in offsets.items()}))

    def close(self) -> None:
        self.notes.append(("close", None))


def test_interceptors_are_called_for_polls_and_commits(broker, topic) -> None:  # noqa: F811
    seen = Seen()
    first = TopicPartition(topic, 0)
    with Consumer(
        broker.bootstrap, group_id=f"g-{topic}", client_id="seer", interceptor_classes=[seen], enable_auto_commit=False
    ) as consumer:
        consumer.assign([first])
        consumer.seek_to_beginning()
        polled = [record.offset for record in consumer.poll(60)]
        consumer.commit()
    expected = [("configure", "seer"), ("consume", polled), ("commit", {first: polled[-1] + 1}), ("close", None)]
    assert seen.notes == expected


def test_an_interceptor_class_is_refused_because_an_instance_is_expected() -> None:
    with pytest.raises(ConfigError, match="pass an instance"):
        Consumer("localhost:9", interceptor_classes=[Seen])
