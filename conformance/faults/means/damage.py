"""Writes logs through a broker, damages them on disk while the broker is down, and reads them again.

A log has ``BATCHES`` small batches (two records each, of one idempotent producer) in segments of ten batches. Values
contain their offset, so a reader needs no memory of what was written.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from conformance.data import batches
from harness.protocol.wire_client import Wire
from harness.servers.brokers import Broker

BATCHES = 45
PER_BATCH = 2
COUNT = BATCHES * PER_BATCH
DUPLICATE_SEQUENCE = 46
START_MS = batches.now_ms() - 600_000
#: Ten entries fill the index, which then rolls the segment.
CONFIGS = {
    "segment.index.bytes": 80,
    "index.interval.bytes": 0,
}


def value_at(offset: int) -> bytes:
    return b"record %06d " % offset + b"." * (offset % 50)


def timestamp_at(offset: int) -> int:
    return START_MS + offset // PER_BATCH * 1_000


@dataclass(frozen=True)
class WrittenLog:
    """A topic of one partition with known contents."""

    broker: Broker
    topic: str
    producer_id: int

    @classmethod
    def write(cls, broker: Broker, topic: str) -> WrittenLog:
        with Wire(broker.address) as wire:
            wire.create_topic(topic, 1, CONFIGS)
            log = cls(broker, topic, wire.new_producer_id())
            for number in range(BATCHES):
                reply = wire.produce(topic, log.batch(number))
                assert (reply.error_code, reply.base_offset) == (0, number * PER_BATCH)
        return log

    def batch(self, number: int) -> bytes:
        """Returns the batch of that number, as its producer sends it."""
        first = number * PER_BATCH
        return batches.batch(
            [value_at(offset) for offset in range(first, first + PER_BATCH)],
            base_timestamp=timestamp_at(first),
            producer_id=self.producer_id,
            producer_epoch=0,
            base_sequence=first,
        )

    @property
    def folder(self) -> Path:
        return self.broker.partition_dir(self.topic)

    def files(self, suffix: str) -> list[Path]:
        """Returns the log's files of that suffix, by offset."""
        return sorted(self.folder.glob(f"*{suffix}"))

    def segment_of(self, number: int) -> tuple[Path, int, int]:
        """Returns a batch's file, position and size."""
        for path in reversed(self.files(".log")):
            position = 0
            for header in batches.headers(path.read_bytes()):
                if header.base_offset == number * PER_BATCH:
                    return path, position, header.size
                position += header.size
        raise LookupError(f"batch {number} is in no segment of {self.topic}")

    def overwrite(self, number: int, place: int, data: bytes) -> None:
        """Changes bytes of a batch on the disk; a negative ``place`` counts from its end."""
        path, position, size = self.segment_of(number)
        with path.open("r+b") as file:
            file.seek(position + (place if place >= 0 else size + place))
            file.write(data)

    def flip(self, number: int, place: int) -> None:
        """Changes one byte of a batch on the disk."""
        path, position, size = self.segment_of(number)
        found = path.read_bytes()[position + (place if place >= 0 else size + place)]
        self.overwrite(number, place, bytes([found ^ 0x5A]))

    def served(self) -> dict[int, bytes | None]:
        """Returns every record that the broker serves, fetched from each offset; checks all CRCs."""
        found: dict[int, bytes | None] = {}
        with Wire(self.broker.address) as wire:
            for offset in range(0, wire.end_offset(self.topic), PER_BATCH):
                row = wire.fetch(self.topic, offset, partition_max_bytes=1)
                if row.error_code == 0 and row.records:
                    assert all(header.crc_is_right for header in batches.headers(row.records))
                    found.update((place, value) for place, _, value in batches.rows(row.records))
        return found

    def check_served(self, count: int = COUNT) -> None:
        """Checks that exactly the first ``count`` records are there, unchanged."""
        with Wire(self.broker.address) as wire:
            assert wire.end_offset(self.topic) == count, self.topic
        assert self.served() == {offset: value_at(offset) for offset in range(count)}, self.topic

    def check_lookups(self) -> None:
        """Checks that the broker finds offsets by time, and recognises the producer's batches.

        A snapshot has only the offset of the last batch, so an older batch is refused as a duplicate (error 46).
        """
        with Wire(self.broker.address) as wire:
            for offset in range(0, COUNT, 7):
                first = offset // PER_BATCH * PER_BATCH
                assert wire.offset(self.topic, timestamp_at(offset) - 500).offset == first, self.topic
            assert wire.offset(self.topic, timestamp_at(COUNT - 1) + 1).offset == -1, self.topic
            for number in range(BATCHES - 5, BATCHES):
                reply = wire.produce(self.topic, self.batch(number))
                expected = [(0, number * PER_BATCH)] + [(DUPLICATE_SEQUENCE, -1)] * (number < BATCHES - 1)
                assert (reply.error_code, reply.base_offset) in expected, self.topic
            assert wire.end_offset(self.topic) == COUNT, self.topic

    def check_goes_on(self, end: int = COUNT) -> None:
        """Checks that the next record gets the next offset, and can be read."""
        with Wire(self.broker.address) as wire:
            reply = wire.produce(self.topic, batches.batch([b"more"], base_timestamp=timestamp_at(COUNT) + 1))
            assert (reply.error_code, reply.base_offset) == (0, end), self.topic
            assert batches.values(wire.fetch(self.topic, end).records) == [b"more"], self.topic
