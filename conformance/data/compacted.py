"""A compacted topic that a test writes batch by batch, and seals so that compaction takes what is there."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

from conformance.data import batches
from conformance.data.batches import Record
from harness.protocol.wire_client import Wire
from harness.servers.brokers import Broker
from harness.waiting import until
from pyclient.keywords import with_dots

PATIENCE_S = 120
#: Compaction looks for work all the time, and takes what it finds.
EAGER = {
    "log_cleaner_backoff_ms": 50,
    "log_cleaner_min_cleanable_ratio": 0.0001,
    "log_cleaner_dedupe_buffer_size": 8 << 20,
    "log_retention_check_interval_ms": 100,
    "log_initial_task_delay_ms": 1,
    "offsets_topic_segment_bytes": 1 << 20,
}
COMPACTED = {"cleanup_policy": "compact", "segment_ms": 1000, "min_cleanable_dirty_ratio": 0.0001}
_number = count(1)

Row = tuple[int, bytes | None, bytes | None]
Pair = tuple[bytes, bytes | None]


class CompactedTopic:
    """A compacted topic of one partition, written and read over a bare connection.

    A segment rolls by the timestamps of its records: ``seal`` writes a record that is two seconds newer than all
    before.
    """

    def __init__(self, broker: Broker, **configs: object) -> None:
        self.broker = broker
        self.name = f"compacted-{next(_number)}"
        self.time_ms = batches.now_ms() - 3_000_000
        with Wire(broker.address) as wire:
            dotted = with_dots({**COMPACTED, **configs})
            wire.create_topic(self.name, 1, dotted)

    def write(self, *pairs: Pair, codec: int = 0, **fields: Any) -> int:
        """Writes one batch and returns its first offset."""
        records = [Record(value, key) for key, value in pairs]
        with Wire(self.broker.address) as wire:
            data = batches.batch(records, codec=codec, base_timestamp=self.time_ms, **fields)
            reply = wire.produce(self.name, data)
        assert reply.error_code == 0, reply
        return int(reply.base_offset)

    def seal(self) -> None:
        """Rolls the segment, so that compaction may take everything before."""
        self.time_ms += 2000
        self.write((b"seal", b"%d" % self.time_ms))

    def bytes(self) -> bytes:
        """Returns all batches as a fetch returns them."""
        found, offset = b"", 0
        with Wire(self.broker.address) as wire:
            end = wire.end_offset(self.name)
            offset = int(wire.offset(self.name, -2).offset)
            while offset < end:
                data = bytes(wire.fetch(self.name, offset).records or b"")
                found += data
                read = batches.headers(data)
                assert read, f"nothing at offset {offset}, the log ends at {end}"
                assert all(header.crc_is_right for header in read)
                offset = read[-1].next_offset
        return found

    def rows(self) -> list[Row]:
        """Returns (offset, key, value) of all records except the seals."""
        return [row for row in batches.rows(self.bytes()) if row[1] != b"seal"]

    def until_rows(self, expected: Sequence[Row], what: str) -> None:
        """Seals until compaction has left exactly these records."""

        def is_reached() -> bool:
            self.seal()
            return self.rows() == list(expected)

        until(is_reached, f"{what}; there are {self.rows()[:20]}", PATIENCE_S)
