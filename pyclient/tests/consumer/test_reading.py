"""The consumer alone: positions, pauses, offsets, Arrow."""

from __future__ import annotations

import time

import pytest

from pyclient import Consumer, Producer, TopicPartition
from pyclient.consumer.errors import IllegalState, NoOffsetForPartition
from pyclient.errors import ClientClosed, KafkaError
from pyclient.tests.support import PATIENCE_S, take, until

START_MS = int(time.time() * 1000) - 100_000


@pytest.fixture
def filled(producer, new_topic):
    """Creates a topic of two partitions with 100 records each. The timestamp of record n is n ms after START_MS."""
    topic = new_topic(2)
    for partition in range(2):
        for number in range(100):
            producer.send(topic, value=b"%d" % number, partition=partition, timestamp=START_MS + number)
    producer.flush(PATIENCE_S)
    return topic


@pytest.fixture
def consumer(broker, filled):
    with Consumer(broker.bootstrap) as made:
        made.assign([TopicPartition(filled, 0), TopicPartition(filled, 1)])
        made.seek_to_beginning()
        yield made


def test_records_of_a_partition_come_in_order_of_offsets(consumer, filled):
    found = take(consumer, 200)
    for partition in range(2):
        mine = [record for record in found if record.partition == partition]
        assert [record.offset for record in mine] == list(range(100))
        assert [int(record.value) for record in mine] == list(range(100))
        assert [record.timestamp - START_MS for record in mine] == list(range(100))


def test_poll_gives_at_most_max_records(consumer):
    sizes = [len(consumer.poll(timeout=PATIENCE_S, max_records=7)) for _ in range(5)]
    assert max(sizes) <= 7
    assert sum(consumer.position(place) for place in consumer.assignment()) == sum(sizes)


def test_iteration_commits_only_records_that_were_reached(consumer):
    for reached, _ in enumerate(consumer, 1):
        if reached == 30:
            break
    assert sum(place.offset for place in consumer.positions().values()) == 30
    assert len(take(consumer, 170)) == 170


def test_seek_drops_fetched_records_and_reads_from_the_new_offset(consumer, filled):
    take(consumer, 200)
    place = TopicPartition(filled, 1)
    consumer.seek(place, 42)
    assert consumer.position(place) == 42
    assert [record.offset for record in take(consumer, 58)] == list(range(42, 100))


def test_seek_to_end_reads_only_later_records(consumer, producer, filled):
    consumer.seek_to_end()
    assert {consumer.position(place) for place in consumer.assignment()} == {100}
    producer.send(filled, value=b"new", partition=0)
    (record,) = take(consumer, 1)
    assert (record.offset, bytes(record.value)) == (100, b"new")


def test_a_seek_of_an_unassigned_partition_is_refused(consumer):
    with pytest.raises(IllegalState):
        consumer.seek(TopicPartition("other", 0), 1)
    with pytest.raises(ValueError, match="below 0"):
        consumer.seek(min(consumer.assignment()), -1)


def test_a_paused_partition_returns_nothing_until_resumed(consumer, filled):
    first, second = TopicPartition(filled, 0), TopicPartition(filled, 1)
    consumer.pause([first])
    assert {record.partition for record in take(consumer, 100)} == {1}
    assert consumer.paused() == {first}
    assert not consumer.poll(timeout=0.3)
    consumer.resume([first])
    assert {record.partition for record in take(consumer, 100)} == {0}
    assert consumer.position(second) == 100


def test_a_pause_right_after_a_poll_loses_no_record(consumer):
    seen = list(consumer.poll(timeout=PATIENCE_S, max_records=10))
    consumer.pause(consumer.assignment())
    assert not consumer.poll(timeout=0.3)
    consumer.resume(consumer.assignment())
    seen += take(consumer, 190)
    assert len({(record.partition, record.offset) for record in seen}) == 200


def test_lag_is_the_end_offset_minus_the_position(consumer, filled):
    place = TopicPartition(filled, 0)
    consumer.assign([place])
    consumer.seek(place, 0)
    consumer.poll(timeout=PATIENCE_S, max_records=40)
    assert consumer.current_lag(place) == 100 - consumer.position(place)
    consumer.seek(place, 97)
    take(consumer, 3)
    assert consumer.current_lag(place) == 0


def test_end_offsets_answers_at_once_although_a_fetch_waits(broker, filled):
    place = TopicPartition(filled, 0)
    with Consumer(broker.bootstrap, fetch_max_wait_ms=60_000, auto_offset_reset="latest") as consumer:
        consumer.assign([place])
        assert not consumer.poll(timeout=1.0)  # its fetch waits for a minute
        assert consumer.end_offsets([place], timeout=PATIENCE_S / 2) == {place: 100}


def test_offsets_are_found_by_time_and_at_both_ends(consumer, filled, admin):
    first, second = TopicPartition(filled, 0), TopicPartition(filled, 1)
    found = consumer.offsets_for_times({first: START_MS + 50, second: START_MS + 1000})
    assert (found[first].offset, found[first].timestamp) == (50, START_MS + 50)
    assert found[second] is None
    admin.delete_records({first: 10})
    assert consumer.beginning_offsets([first, second]) == {first: 10, second: 0}
    assert consumer.end_offsets([first, second]) == {first: 100, second: 100}


def test_an_offset_out_of_range_follows_auto_offset_reset(broker, filled, admin):
    place = TopicPartition(filled, 0)
    admin.delete_records({place: 10})
    with Consumer(broker.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([place])
        consumer.seek(place, 3)
        assert take(consumer, 1)[0].offset == 10
    with Consumer(broker.bootstrap, auto_offset_reset="none") as consumer:
        consumer.assign([place])
        consumer.seek(place, 3)
        with pytest.raises(KafkaError):
            consumer.poll(timeout=PATIENCE_S)


def test_no_committed_offset_and_no_reset_policy_is_an_error(broker, filled, group):
    with Consumer(broker.bootstrap, group_id=group, auto_offset_reset="none") as consumer:
        consumer.assign([TopicPartition(filled, 0)])
        with pytest.raises(NoOffsetForPartition):
            consumer.poll(timeout=PATIENCE_S)


def test_poll_arrow_returns_the_same_rows_as_poll(broker, consumer, filled):
    rows = []
    while len(rows) < 200:
        batch = consumer.poll_arrow(max_rows=64, timeout=PATIENCE_S)
        assert 0 < batch.num_rows <= 64
        batch.validate(full=True)
        rows += batch.to_pylist()
    rows.sort(key=lambda row: (row["partition"], row["offset"]))
    assert [(row["partition"], row["offset"], row["value"]) for row in rows] == [
        (partition, number, b"%d" % number) for partition in range(2) for number in range(100)
    ]
    assert {row["topic"] for row in rows} == {filled}
    assert int(rows[7]["timestamp"].timestamp() * 1000 + 0.5) == START_MS + 7


def test_a_range_is_read_to_its_end_and_no_further(broker, filled):
    with Consumer(broker.bootstrap, auto_offset_reset="none") as consumer:
        for partition, start, end in ((0, 10, 20), (1, 95, 100), (1, 0, 0)):
            place = TopicPartition(filled, partition)
            consumer.assign_range(place, start, end)
            values = [record.value for record in consumer.poll(timeout=PATIENCE_S, max_records=1000)]
            assert values == [b"%d" % number for number in range(start, end)]
            assert len(consumer.poll()) == 0  # at once
            assert consumer.position(place) == end
        with pytest.raises(ValueError, match="offsets 5 to 4 are not a range"):
            consumer.assign_range(TopicPartition(filled, 0), 5, 4)
        consumer.assign([TopicPartition(filled, 0)])
        consumer.seek(TopicPartition(filled, 0), 99)
        assert len(consumer.poll(timeout=PATIENCE_S)) == 1


def test_poll_arrow_returns_nulls_headers_and_empty_batches(broker, producer, topic):
    producer.send(topic, value=None, key=b"k", headers=[("h", b"1"), ("n", None)])
    producer.send(topic, value=b"", key=None).result(PATIENCE_S)
    with Consumer(broker.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        first, second = consumer.poll_arrow(timeout=PATIENCE_S).to_pylist()
        assert (first["key"], first["value"]) == (b"k", None)
        assert first["headers"] == [{"key": "h", "value": b"1"}, {"key": "n", "value": None}]
        assert (second["key"], second["value"], second["headers"]) == (None, b"", [])
        assert consumer.poll_arrow(timeout=0).num_rows == 0


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_committed_returns_the_offsets_that_commit_stored(broker, filled, group, protocol):
    first, second = TopicPartition(filled, 0), TopicPartition(filled, 1)
    with Consumer(broker.bootstrap, group_id=group, enable_auto_commit=False, group_protocol=protocol) as consumer:
        consumer.assign([first, second])
        consumer.seek(first, 5)
        consumer.commit({first: 5})
        told = []
        consumer.commit_async({second: 9}, on_commit=lambda offsets, error: told.append((offsets, error)))
        until(lambda: told)
        assert told[0][1] is None
        found = consumer.committed([first, second])
        assert (found[first].offset, found[second].offset) == (5, 9)


def test_a_commit_without_a_group_is_refused(consumer):
    with pytest.raises(IllegalState, match=r"group\.id"):
        consumer.commit()


def test_a_topic_created_after_the_subscription_is_read(broker, admin):
    name = f"later-{time.time_ns()}"
    with Consumer(
        broker.bootstrap, allow_auto_create_topics=False, auto_offset_reset="earliest", metadata_max_age_ms=200
    ) as consumer:
        consumer.assign([TopicPartition(name, 0)])
        assert not consumer.poll(timeout=0.3)
        admin.create_topics(name, num_partitions=1, replication_factor=1)
        with Producer(broker.bootstrap) as producer:
            producer.send(name, value=b"v").result(PATIENCE_S)
        assert bytes(take(consumer, 1)[0].value) == b"v"


def test_a_topic_created_again_is_read_by_its_new_id(broker, admin, topic, producer):
    """After a deletion, the name belongs to another topic. The consumer does not wait for records of the old one."""
    place = TopicPartition(topic, 0)
    producer.send_many(topic, [b"old"] * 5).result(PATIENCE_S)
    settings = {"auto_offset_reset": "earliest", "metadata_max_age_ms": 500, "allow_auto_create_topics": False}
    with Consumer(broker.bootstrap, **settings) as consumer:
        consumer.assign([place])
        take(consumer, 5)
        admin.delete_topics(topic)

        def made() -> bool:
            return not admin.create_topics(topic, num_partitions=1, replication_factor=1, check=False).errors

        until(made, "the topic's second life")
        with Producer(broker.bootstrap) as fresh:
            fresh.send_many(topic, [b"new"] * 9).result(PATIENCE_S)
        consumer.seek(place, 0)
        assert [bytes(record.value) for record in take(consumer, 9)] == [b"new"] * 9


def test_a_closed_consumer_raises_client_closed(broker, filled):
    consumer = Consumer(broker.bootstrap)
    consumer.assign([TopicPartition(filled, 0)])
    consumer.close()
    consumer.close()
    with pytest.raises(ClientClosed):
        consumer.poll(timeout=1)
