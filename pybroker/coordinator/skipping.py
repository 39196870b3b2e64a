"""Replays records, and skips unreadable ones.

A record that cannot be parsed (a later Kafka or another program wrote it) counts as never written: the earlier value of
its key stays. The broker logs this and replays the later records. The record stays in the log until its key is written
again and the log is compacted. So shards parse a whole record before they change anything.
"""

from __future__ import annotations

import logging

from cy.wire.buffer import DecodeError
from pybroker.coordinator.shard import Producer, Record, Shard

MOST_LOGGED = 10

logger = logging.getLogger(__name__)


class Skipped:
    """Counts the records skipped in the partition ``name``, and logs the first ones."""

    def __init__(self, name: object) -> None:
        self._name = name
        self.count = 0

    def replay(self, shard: Shard, record: Record, producer: Producer | None) -> bool:
        """Replays the record into the shard; returns False if it was skipped."""
        try:
            shard.replay(record, producer)
        except Exception as error:
            self.add(f"the record with the key {record.key[:64]!r}", error)
            return False
        return True

    def add(self, what: str, error: Exception) -> None:
        """Counts and logs something that was skipped because of ``error``."""
        self.count += 1
        if self.count > MOST_LOGGED:
            return
        unforeseen = None if isinstance(error, (DecodeError, ValueError)) else error
        logger.error("%s: %s is skipped: %s", self._name, what, error, exc_info=unforeseen)

    def tell(self) -> None:
        """Logs how many records were skipped, if some of them were not logged one by one."""
        if self.count > MOST_LOGGED:
            logger.error("%s: %d records were skipped", self._name, self.count)
