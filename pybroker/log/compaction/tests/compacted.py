"""A log and its cleaner, which runs on command."""

from __future__ import annotations

import os

from cy.batch import Builder, iterate, scan
from pybroker.clock import ManualClock
from pybroker.config.log_config import LogConfig
from pybroker.log.appending import AppendInfo, Origin
from pybroker.log.compaction.cleaner import Cleaner
from pybroker.log.compaction.compaction import Resources
from pybroker.log.compaction.throttle import Throttle
from pybroker.log.interruption import Interruption
from pybroker.log.log import Log
from pybroker.log.manager import LogManager
from pybroker.log.tests.helpers import NOW, TOPIC_ID, TP, UnsyncedStorage, marker
from pybroker.log.validation import TooHeavy

HOUR_MS = 3_600_000


CONFIG = LogConfig(
    cleanup_policy=frozenset({"compact"}),
    segment_bytes=1 << 20,
    index_interval_bytes=100,
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=HOUR_MS,
)


SMALL = Resources(map_bytes=1 << 16, read_bytes=500)


class Compacted:
    """A log, and a cleaner that runs on command."""

    def __init__(self, root, config: LogConfig = CONFIG, *, storage=None, throttle=None) -> None:
        self.clock = ManualClock(NOW)
        self.storage = storage or UnsyncedStorage()
        self.logs = LogManager(
            [f"{root}/data"], self.storage, config, self.clock, cluster_id="cluster", node_id=1
        )
        self.logs.load()
        self.log = self.logs.get_or_create(TP, TOPIC_ID, config)
        self.cleaner = Cleaner(self.logs, self.clock, throttle or Throttle(), lambda work: work())

    def append(self, *records: tuple[bytes | None, bytes | None], log_time: int = NOW, **options) -> int:
        """Appends one batch of (key, value); returns its first offset."""
        builder = Builder(**options)
        for key, value in records:
            builder.append(log_time, key, value, [("header", b"h")])
        offset = self._append(bytearray(builder.build())).first_offset
        self.log.update_high_watermark(self.log.log_end_offset)
        return offset

    def _append(self, batch: bytearray) -> AppendInfo:
        """Appends like a broker: checks a large batch first."""
        now_ms = self.clock.now_ms()
        try:
            return self.log.append_as_leader(batch, 0, now_ms)
        except TooHeavy as heavy:
            return self.log.append_as_leader(heavy.rules.checked(batch, now_ms), 0, now_ms)

    def end(self, kind: int, **options) -> int:
        offset = self.log.append_as_leader(marker(kind, **options), 0, self.clock.now_ms(), origin=Origin.COORDINATOR)
        self.log.update_high_watermark(self.log.log_end_offset)
        return offset.first_offset

    def roll(self) -> None:
        self.log.roll(self.clock.now_ms())

    def clean(self, resources: Resources = SMALL, *, roll: bool = True) -> bool:
        if roll:
            self.roll()
        return self.cleaner.clean_next(resources, Interruption())

    def clean_all(self) -> int:
        rounds = 0
        while self.clean(roll=False):
            rounds += 1
        return rounds

    def files(self, *suffixes: str) -> list[str]:
        return sorted(name for name in os.listdir(self.log.folder) if name.endswith(suffixes))


def records(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    """Returns (offset, key, value) of the data records, as a consumer reads them."""
    found = []
    offset = log.log_start_offset
    while (part := log.read(offset, 2000)).size:
        data = part.read()
        control = [batch for batch in scan(data) if batch.is_control]
        found += [
            (record.offset, record.key, record.value)
            for record in iterate(data)
            if record.offset >= offset and not any(b.base_offset <= record.offset <= b.last_offset for b in control)
        ]
        assert part.next_offset > offset
        offset = part.next_offset
    assert offset == log.log_end_offset
    return found


def batches_of(log: Log):
    return [batch for segment in log.segments for batch in scan(segment.read_bytes(0, segment.size))]
