"""A sample application: copies flights that were late to a topic of their own, exactly once, until SIGTERM or Ctrl-C.

    pybroker demo --keep                                                    # a broker with a topic of flights
    python docs/examples/late_flights.py ADDRESS flights very-late --minutes 300

Copies and offsets are in one transaction, so the program may be killed at any time. Start as many as there are
partitions, each with another --name. Readers of the copies take isolation_level="read_committed".
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from collections.abc import Collection
from dataclasses import dataclass
from types import FrameType

import msgspec

from pyclient import Consumer, KafkaError, Producer, Record, TopicPartition
from pyclient.errors import ConfigError, WakeupError

logger = logging.getLogger("late_flights")


@dataclass
class Flight:
    """The fields of a record; ``delay`` is in minutes, or None if the flight was cancelled."""

    carrier: str
    flight: int
    delay: int | None


class Journal:
    """Tells in the log which partitions come and go."""

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        logger.info("got %s", sorted(partitions))

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        logger.info("gave back %s", sorted(partitions))

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        logger.warning("lost %s: what was under way is aborted, others do it again", sorted(partitions))


class LateFlights:
    """Reads ``source``, writes to ``target``."""

    def __init__(self, bootstrap: str, source: str, target: str, minutes: int, name: str) -> None:
        self.target = target
        self.minutes = minutes
        self.decode = msgspec.json.Decoder(Flight).decode
        self.consumer = Consumer(
            bootstrap,
            group_id="late-flights",
            topics=[source],
            listener=Journal(),
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
        )
        self.producer = Producer(bootstrap, transactional_id=f"late-flights-{name}", compression_type="zstd")

    def run(self) -> None:
        """Works until ``stop``. Raises KafkaError where it cannot go on."""
        with self.consumer, self.producer:
            try:
                while True:
                    self.step(self.consumer.poll(max_records=5000))
            except WakeupError:
                logger.info("stopped")

    def step(self, records: Collection[Record]) -> None:
        """One transaction: the copies of some records, and the position behind them."""
        with self.producer.transaction():
            for record in records:
                if self.is_late(record):
                    self.producer.send(self.target, record.value, record.key, timestamp=record.timestamp)
            self.producer.send_offsets(self.consumer.positions(), self.consumer.group_metadata())

    def is_late(self, record: Record) -> bool:
        """Reports and skips a record that is not a flight."""
        try:
            delay = self.decode(record.value).delay
        except msgspec.DecodeError as error:
            logger.warning("%s-%d@%d is not a flight: %s", record.topic, record.partition, record.offset, error)
            return False
        return delay is not None and delay >= self.minutes

    def stop(self, number: int, frame: FrameType | None) -> None:
        """The handler of a signal: ends the poll that waits, or the next one."""
        self.consumer.wakeup()


def main() -> int:
    """Exit code 0 when it was stopped, 1 when it failed."""
    parser = argparse.ArgumentParser(description="Copies flights that were late to a topic of their own, exactly once.")
    parser.add_argument("bootstrap", help="host:port of brokers")
    parser.add_argument("source", help="the topic of flights")
    parser.add_argument("target", help="the topic of those that were late")
    parser.add_argument("--minutes", type=int, default=120, help="late is so much or more [%(default)s]")
    parser.add_argument("--name", default="1", help="of this instance: each has its own [%(default)s]")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        worker = LateFlights(options.bootstrap, options.source, options.target, options.minutes, options.name)
        signal.signal(signal.SIGTERM, worker.stop)
        signal.signal(signal.SIGINT, worker.stop)
        worker.run()
    except ConfigError as error:
        parser.error(str(error))
    except KafkaError as error:
        logger.error("%s (%s)", error, "try again" if error.retriable else "for good")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
