"""Reads a partition of an internal topic into a shard, a chunk per turn of the loop.

The log is a map written as a journal: of the records of one key only the last counts. So of each
chunk only the last record of each key is replayed, in the order of these last ones; a consumer
that commits every few seconds costs one replay per chunk and not one per commit. What belongs to a
transaction is left as it is: there the order between records and markers matters.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from cy.batch import Batch, CorruptBatch, InvalidBatch, iterate, scan
from cy.compression import CompressionError
from pybroker.coordinator.shard import Record, Shard
from pybroker.log.log import Log
from pyclient.protocol import errors

CHUNK_BYTES = 256 << 10


async def load(log: Log, shard: Shard) -> int:
    """Replays the whole log; returns its end. Raises CorruptMessage, KafkaStorageError."""
    offset = log.log_start_offset
    while offset < (end := log.log_end_offset):
        data = log.read_bytes(offset, CHUNK_BYTES, end)
        batches = list(scan(data))
        if not batches:
            raise errors.CorruptMessage(f"{log} cannot be read at offset {offset}")
        try:
            for record in records(data, batches):
                shard.replay(record)
        except (CorruptBatch, InvalidBatch, CompressionError) as error:
            raise errors.CorruptMessage(f"{log} from offset {offset}: {error}") from error
        offset = batches[-1].next_offset
        await asyncio.sleep(0)
    return offset


def records(data: bytes, batches: list[Batch]) -> Iterator[Record]:
    """The records of the batches that have to be replayed."""
    if any(batch.is_control or batch.is_transactional for batch in batches):
        view = memoryview(data)
        for batch in batches:
            if not batch.is_control:
                yield from _latest(bytes(view[batch.position : batch.end]))
    else:
        yield from _latest(data)


def _latest(data: bytes) -> Iterator[Record]:
    latest: dict[bytes, bytes | None] = {}
    for record in iterate(data, check_crcs=False):
        if record.key is not None:
            latest.pop(record.key, None)
            latest[record.key] = record.value
    return (Record(key, value) for key, value in latest.items())
