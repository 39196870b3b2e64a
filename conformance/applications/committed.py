"""Reads a topic as read_committed consumers do, even while its broker is killed and restarted."""

from __future__ import annotations

import confluent_kafka
from confluent_kafka import OFFSET_BEGINNING, Message, TopicPartition

from harness.clients import librdkafka
from harness.protocol.wire_client import Wire
from harness.servers.brokers import Broker
from harness.waiting import until


class CommittedReader:
    """Reads all partitions of a topic from the beginning. ``records`` contains those that have arrived so far."""

    def __init__(self, broker: Broker, topic: str, partitions: int) -> None:
        self.topic = topic
        self.records: list[Message] = []
        #: The end of each partition when it was last reached. Control records count.
        self.reached: dict[int, int] = {}
        settings = {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 50,
            "fetch.queue.backoff.ms": 5,
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 100,
            "log_level": 0,
        }
        self._consumer = librdkafka.Consumer(settings)
        self._consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)])

    def poll(self) -> int:
        """Takes the records that have arrived, and returns how many there are by now."""
        for message in self._consumer.consume(1000, 0.2):
            error = message.error()
            if error is None:
                self.records.append(message)
            elif error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
                self.reached[message.partition()] = message.offset()
            else:
                assert error.retriable() or error.code() < 0, error
        return len(self.records)

    def __enter__(self) -> CommittedReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()


def read_all(broker: Broker, topic: str, partitions: int = 1) -> list[Message]:
    """Returns what a topic holds for a read_committed consumer, once no transaction is open in it."""
    ends = until(lambda: _settled_ends(broker, topic, partitions), f"no open transaction in {topic}", 90)
    with CommittedReader(broker, topic, partitions) as reader:

        def done() -> bool:
            reader.poll()
            return all(reader.reached.get(number, 0) >= ends[number] for number in ends)

        until(done, f"the end of {topic}", 90)
        return reader.records


def _settled_ends(broker: Broker, topic: str, partitions: int) -> dict[int, int] | None:
    """Returns the ends of the partitions, or None while some last stable offset is below its partition's end."""
    with Wire(broker.address) as wire:
        ends = {number: wire.end_offset(topic, number) for number in range(partitions)}
        stable = {number: wire.offset(topic, -1, number, isolation_level=1).offset for number in ends}
    return ends if ends == stable else None
