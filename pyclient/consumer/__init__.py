"""The consumer, blocking; ``pyclient.aio.Consumer`` is the same on asyncio.

    with Consumer("localhost:9092", group_id="g", topics=["flights"]) as consumer:
        for record in consumer:
            print(record.offset, record.value)

``subscription`` and ``fetch_session`` are state machines without I/O. ``fetching``, ``offsets`` and the memberships of
``group`` (``classic``, ``modern``) send requests on the client's loop. ``core`` puts them together. ``blocking`` and
``asynchronous`` have the two public consumers.
"""

from __future__ import annotations

from cy.consume.records import Record, Records
from pyclient.consumer.blocking import Consumer
from pyclient.consumer.errors import (
    BatchTooLarge,
    CommitFailed,
    CorruptRecords,
    DeserializationError,
    IllegalState,
    LogTruncation,
    NoOffsetForPartition,
)
from pyclient.consumer.types import GroupMetadata, OffsetAndMetadata, OffsetAndTimestamp, RebalanceListener

__all__ = [
    "BatchTooLarge",
    "CommitFailed",
    "Consumer",
    "CorruptRecords",
    "DeserializationError",
    "GroupMetadata",
    "IllegalState",
    "LogTruncation",
    "NoOffsetForPartition",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "RebalanceListener",
    "Record",
    "Records",
]
