"""Reads a partition of an internal topic into a shard, a chunk per turn of the loop.

The log is a map written as a journal: of the records of one key only the last counts. For types of
record whose order among others does not matter (``Shard.unordered``) only the last record of each
key in a chunk is replayed: a consumer that commits every few seconds costs one replay per chunk and
not one per commit. Everything else, and whatever belongs to a transaction, is replayed in the order
of the log, markers in their places; tombstones too, which take what transactions hold along.
"""

from __future__ import annotations

import asyncio
from collections.abc import Set

from cy.batch import Batch, CorruptBatch, InvalidBatch, iterate, scan
from cy.compression import CompressionError
from pybroker.coordinator.shard import Producer, Record, Shard
from pybroker.log.log import Log
from pyclient.protocol import errors

CHUNK_BYTES = 256 << 10
_ABORT, _COMMIT = 0, 1


async def load(log: Log, shard: Shard) -> int:
    """Replays the whole log; returns its end. Raises CorruptMessage, KafkaStorageError."""
    offset = log.log_start_offset
    while offset < (end := log.log_end_offset):
        data = log.read_bytes(max(offset, log.log_start_offset), CHUNK_BYTES, end)
        if not data:
            return end  # compaction has left nothing up to the end
        batches = list(scan(data))
        if not batches:
            raise errors.CorruptMessage(f"{log} cannot be read at offset {offset}")
        try:
            replay(data, batches, shard)
        except (CorruptBatch, InvalidBatch, CompressionError) as error:
            raise errors.CorruptMessage(f"{log} from offset {offset}: {error}") from error
        offset = batches[-1].next_offset
        await asyncio.sleep(0)
    return offset


def replay(data: bytes, batches: list[Batch], shard: Shard) -> None:
    """Replays ``batches``, which lie in ``data``."""
    plain_from = 0
    view = memoryview(data)
    for batch in batches:
        if batch.is_control or batch.is_transactional:
            if plain_from < batch.position:
                _replay_plain(view[plain_from : batch.position], shard)
            _replay_transactional(view[batch.position : batch.end], batch, shard)
            plain_from = batch.end
    _replay_plain(view[plain_from:], shard)


def _replay_transactional(octets: memoryview, batch: Batch, shard: Shard) -> None:
    producer = Producer(batch.producer_id, batch.producer_epoch)
    for record in iterate(octets, check_crcs=False):
        if record.key is None:
            continue
        if not batch.is_control:
            shard.replay(Record(record.key, record.value), producer)
        elif (kind := int.from_bytes(record.key[2:4], "big")) in (_ABORT, _COMMIT):
            shard.replay_marker(producer, kind == _COMMIT)


def _replay_plain(octets: memoryview, shard: Shard) -> None:
    for key, value in _effective(octets, shard.unordered).items():
        shard.replay(Record(key if isinstance(key, bytes) else key[0], value), None)


def _effective(
    octets: memoryview, unordered: Set[bytes]
) -> dict[bytes | tuple[bytes, int], bytes | None]:
    """The records to replay, in order; a key that may come several times is (key, number)."""
    found: dict[bytes | tuple[bytes, int], bytes | None] = {}
    for record in iterate(octets, check_crcs=False):
        key = record.key
        if key is None:
            continue
        if key[:2] in unordered:
            found.pop(key, None)
            if record.value is not None:
                found[key] = record.value
                continue
        found[key, record.offset] = record.value
    return found
