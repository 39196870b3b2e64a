"""Loads a partition of an internal topic into a shard, one chunk per turn of the loop.

Of the records with the same key only the last counts. For types of records whose relative order does not matter
(``Shard.unordered``), only the last record of each key in a chunk is replayed. So a consumer that commits every few
seconds costs one replay per chunk, not one per commit. All other records are replayed in the order of the log: those of
transactions, markers, and tombstones, which also delete pending offsets.

Unreadable records are skipped (``skipping``): they never prevent loading.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Set
from typing import Any

from cy.batch import Batch, CorruptBatch, InvalidBatch, iterate, scan
from cy.batch.compression import CompressionError
from pybroker.coordinator.shard import Producer, Record, Shard
from pybroker.coordinator.skipping import Skipped
from pybroker.log.log import Log
from pyclient.protocol import errors

CHUNK_BYTES = 256 << 10
_ABORT, _COMMIT = 0, 1


async def load(log: Log, shard: Shard) -> int:
    """Replays the whole log; returns its end offset. Raises CorruptMessage, KafkaStorageError."""
    skipped = Skipped(log)
    offset = log.log_start_offset
    while offset < (end := log.log_end_offset):
        data = log.read_bytes(max(offset, log.log_start_offset), CHUNK_BYTES, end)
        if not data:
            break  # # compaction has removed everything up to the end
        batches = list(scan(data))
        if not batches:
            raise errors.CorruptMessage(f"{log} cannot be read at offset {offset}")
        replay(data, batches, shard, skipped)
        offset = batches[-1].next_offset
        await asyncio.sleep(0)
    skipped.tell()
    return max(offset, end)


def replay(data: bytes, batches: list[Batch], shard: Shard, skipped: Skipped) -> None:
    """Replays ``batches``, which are in ``data``."""
    plain: list[Batch] = []
    view = memoryview(data)
    for batch in batches:
        if batch.is_control or batch.is_transactional:
            _replay_plain(view, plain, shard, skipped)
            plain = []
            _replay_transactional(view, batch, shard, skipped)
        else:
            plain.append(batch)
    _replay_plain(view, plain, shard, skipped)


def _records(view: memoryview, batch: Batch, skipped: Skipped) -> Iterator[Any]:
    """Yields the records of a batch. Its CRC was checked, but its content may be malformed."""
    try:
        yield from iterate(view[batch.position : batch.end], check_crcs=False)
    except (CorruptBatch, InvalidBatch, CompressionError) as error:
        skipped.add(f"the rest of the batch at offset {batch.base_offset}", error)


def _replay_transactional(
    view: memoryview, batch: Batch, shard: Shard, skipped: Skipped
) -> None:
    producer = Producer(batch.producer_id, batch.producer_epoch)
    for record in _records(view, batch, skipped):
        if record.key is None:
            continue
        if not batch.is_control:
            skipped.replay(shard, Record(record.key, record.value), producer)
        elif (kind := int.from_bytes(record.key[2:4], "big")) in (_ABORT, _COMMIT):
            shard.replay_marker(producer, kind == _COMMIT)


def _replay_plain(
    view: memoryview, batches: list[Batch], shard: Shard, skipped: Skipped
) -> None:
    found = _effective(view, batches, shard.unordered, skipped)
    for key, value in found.items():
        is_last = isinstance(key, bytes)
        record = Record(key if isinstance(key, bytes) else key[0], value)
        if not skipped.replay(shard, record, None) and is_last:
            _replay_before(view, batches, record, shard, skipped)


def _replay_before(
    view: memoryview, batches: list[Batch], last: Record, shard: Shard, skipped: Skipped
) -> None:
    """Replays the last readable value of the key of ``last``, which is the key's last record and was skipped."""
    values: list[bytes | None] = []
    for batch in batches:
        records = _records(view, batch, skipped)
        values += [record.value for record in records if record.key == last.key]
    for value in values[-2::-1]:
        if value is None or skipped.replay(shard, Record(last.key, value), None):
            return


def _effective(
    view: memoryview, batches: list[Batch], unordered: Set[bytes], skipped: Skipped
) -> dict[bytes | tuple[bytes, int], bytes | None]:
    """Returns the values to replay, in order, by key.

    If all records of a key are replayed, each is under the pair of the key and its offset.
    """
    found: dict[bytes | tuple[bytes, int], bytes | None] = {}
    for batch in batches:
        for record in _records(view, batch, skipped):
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
