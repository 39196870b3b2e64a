"""Batches that are small on the wire and large in memory."""

from __future__ import annotations

import pytest

from pyclient import Consumer, Producer, TopicPartition
from pyclient.consumer import BatchTooLarge, blocking
from pyclient.errors import InvalidRecord
from pyclient.tests.support import PATIENCE_S, take

COUNT = 60
SIZE = 100_000


@pytest.fixture
def place(broker, topic):
    """Creates a partition with records of zeros: 6 MB in 1 KB."""
    with Producer(broker.bootstrap, compression_type="zstd") as producer:
        producer.send_many(topic, [bytes(SIZE)] * COUNT).result(PATIENCE_S)
    return TopicPartition(topic, 0)


def test_an_arrow_batch_is_limited_in_bytes_and_no_record_is_missing(broker, place, monkeypatch):
    monkeypatch.setattr(blocking, "MOST_BYTES", 10 * SIZE)
    offsets = []
    with Consumer(broker.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([place])
        while len(offsets) < COUNT:
            batch = consumer.poll_arrow(timeout=PATIENCE_S)
            assert 0 < batch.num_rows < 10
            offsets += batch.column("offset").to_pylist()
    assert offsets == list(range(COUNT))


def test_a_single_record_may_exceed_the_limit_of_an_arrow_batch(broker, place, monkeypatch):
    monkeypatch.setattr(blocking, "MOST_BYTES", SIZE // 2)
    with Consumer(broker.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([place])
        assert [consumer.poll_arrow(timeout=PATIENCE_S).num_rows for _ in range(3)] == [1, 1, 1]


def test_positions_move_only_when_the_arrow_batch_is_made(broker, place, monkeypatch):
    def fail(*given):
        raise OverflowError

    with Consumer(broker.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([place])
        first = consumer.poll(timeout=PATIENCE_S, max_records=7)
        with monkeypatch.context() as broken:
            broken.setattr(blocking, "record_batch", fail)
            with pytest.raises(OverflowError):
                consumer.poll_arrow(timeout=PATIENCE_S)
        assert consumer.position(place) == 7
        assert [record.offset for record in [*first, *take(consumer, COUNT - 7)]] == list(range(COUNT))


def test_a_huge_record_is_read_or_reported_as_too_large(broker, topic):
    """The record has 40 MB of zeros. A real Kafka accepts it, and our broker does not."""
    place = TopicPartition(topic, 0)
    with Producer(
        broker.bootstrap, compression_type="zstd", max_request_size=100 << 20, buffer_memory=200 << 20
    ) as producer:
        report = producer.send(topic, bytes(40 << 20))
        try:
            report.result(PATIENCE_S)
        except InvalidRecord:
            return
    with Consumer(broker.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([place])
        (record,) = take(consumer, 1)
        assert len(record.value) == 40 << 20
    settings = {"auto_offset_reset": "earliest", "max_decompressed_batch_bytes": 33 << 20}
    with Consumer(broker.bootstrap, **settings) as consumer:
        consumer.assign([place])
        for _ in range(2):
            with pytest.raises(BatchTooLarge, match=r"offset 0.*max.decompressed.batch.bytes"):
                take(consumer, 1)
        assert consumer.position(place) == 0
