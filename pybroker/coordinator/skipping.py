"""Replays records, and skips those that are none.

A record that cannot be read (of a later Kafka, or written by something else) counts as one that was
never written: what its key stood for before stays. It is logged, and the records behind it count.
It stays in the log until another record of its key is written, which compaction then keeps alone.
Shards therefore read a record whole before they change anything.
"""

from __future__ import annotations

import logging

from cy.wire.buffer import DecodeError
from pybroker.coordinator.shard import Producer, Record, Shard

MOST_LOGGED = 10

logger = logging.getLogger(__name__)


class Skipped:
    """Counts what was skipped in the partition called ``name``; the first ones are logged singly."""

    def __init__(self, name: object) -> None:
        self._name = name
        self.count = 0

    def replay(self, shard: Shard, record: Record, producer: Producer | None) -> bool:
        """Replays the record into the shard; False where it was skipped."""
        try:
            shard.replay(record, producer)
        except Exception as error:
            self.add(f"the record with the key {record.key[:64]!r}", error)
            return False
        return True

    def add(self, what: str, error: Exception) -> None:
        """Something was skipped because of ``error``."""
        self.count += 1
        if self.count > MOST_LOGGED:
            return
        unforeseen = None if isinstance(error, (DecodeError, ValueError)) else error
        logger.error("%s: %s is skipped: %s", self._name, what, error, exc_info=unforeseen)

    def tell(self) -> None:
        """Logs the number, where there were more than the log names."""
        if self.count > MOST_LOGGED:
            logger.error("%s: %d records were skipped", self._name, self.count)
