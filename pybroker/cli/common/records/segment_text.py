"""The files of a log as text, line for line as Kafka's DumpLogSegments writes them; and as JSON documents.

    .log         a line per batch, with ``deep`` also per record (``| offset: …``), with ``contents`` its key and value
    .index       offset, position          .timeindex  timestamp, offset
    .txnindex    aborted transactions      .snapshot   producers

Nothing is changed; a batch whose CRC does not hold is shown with ``isvalid: false`` and without its records.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from cy.batch import Batch, Record, check_crc, iterate
from cy.batch.compression import Codec
from pybroker.cli.common.records.record_documents import shown
from pybroker.cli.common.verbs import Failure
from pybroker.log.files.batches import Located, MalformedBatch, walk
from pybroker.log.files.file_cache import FileCache
from pybroker.log.files.offset_index import OffsetIndex
from pybroker.log.files.time_index import TimeIndex
from pybroker.log.files.txn_index import TransactionIndex
from pybroker.log.inspection import ReadOnly, base_offset_of, batch_bytes, offset_entries, time_entries
from pybroker.log.producers import marker, producer_snapshot

MARKERS = {marker.ABORT: "ABORT", marker.COMMIT: "COMMIT"}
Contents = Callable[[Record], tuple[str | None, str | None]]
SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")


class Shown(NamedTuple):
    """How much to show. ``contents`` returns key and value of a record as text, None for null."""

    deep: bool = False
    contents: Contents | None = None
    metadata: bool = True
    max_bytes: int = 1 << 62


def texts(record: Record) -> tuple[str | None, str | None]:
    """Returns key and value as UTF-8, like Kafka's StringDecoder."""
    key, value = record.key, record.value
    return (
        None if key is None else key.decode(errors="replace"),
        None if value is None else value.decode(errors="replace"),
    )


def lines(path: str, how: Shown) -> Iterator[str]:
    """Yields a file as lines. Raises Failure for a file of another kind, OSError."""
    suffix = os.path.splitext(path)[1]
    makers: dict[str, Callable[[str], Iterator[str]]] = {
        ".log": lambda path: log_lines(path, how),
        ".index": index_lines,
        ".timeindex": time_index_lines,
        ".txnindex": aborted_lines,
        ".snapshot": snapshot_lines,
    }
    if suffix not in makers:
        raise Failure(f"{path}: not one of the files of a log: {', '.join(SUFFIXES)}")
    try:
        return makers[suffix](path)
    except ValueError as error:
        raise Failure(f"{path}: {error}") from error


def log_lines(path: str, how: Shown) -> Iterator[str]:
    yield f"Log starting offset: {base_offset_of(path)}"
    file = ReadOnly().open(path)
    size = file.size()
    end = 0
    try:
        for located in walk(file, 0, size):
            if located.end > how.max_bytes:
                return
            data = batch_bytes(file, located)
            valid = check_crc(data, 0, located.batch)
            yield batch_line(located, valid)
            if how.deep and valid:
                control = control_text(data) if located.batch.is_control else ""
                yield from (record_line(located.batch, each, how, control) for each in iterate(data))
            end = located.end
    except MalformedBatch as error:
        yield f"Found {size - end} invalid bytes at the end of {os.path.basename(path)}: {error}"


def batch_line(located: Located, valid: bool) -> str:
    batch = located.batch
    head = f"offset: {batch.last_offset}" if batch.magic < 2 else header_line(batch)
    return (
        f"{head} position: {located.position} {time_type(batch)}: {batch.max_timestamp} size: {batch.size}"
        f" magic: {batch.magic} compresscodec: {Codec(batch.codec).name.lower()} crc: {batch.crc & 0xFFFFFFFF}"
        f" isvalid: {java(valid)}"
    )


def header_line(batch: Batch) -> str:
    """Formats the fields that format v2 has beyond the older ones."""
    horizon = batch.delete_horizon_ms
    return (
        f"baseOffset: {batch.base_offset} lastOffset: {batch.last_offset} count: {batch.count}"
        f" baseSequence: {batch.base_sequence} lastSequence: {batch.last_sequence} producerId: {batch.producer_id}"
        f" producerEpoch: {batch.producer_epoch} partitionLeaderEpoch: {batch.partition_leader_epoch}"
        f" isTransactional: {java(batch.is_transactional)} isControl: {java(batch.is_control)} deleteHorizonMs: "
        + ("OptionalLong.empty" if horizon is None else f"OptionalLong[{horizon}]")
    )


def record_line(batch: Batch, record: Record, how: Shown, control: str) -> str:
    parts = ["|"]
    if how.metadata:
        parts += [
            f"offset: {record.offset} {time_type(batch)}: {record.timestamp}",
            f"keySize: {size_of(record.key)} valueSize: {size_of(record.value)}",
        ]
        if batch.magic >= 2:
            names = ",".join(name for name, _ in record.headers)
            parts.append(f"sequence: {sequence_of(batch, record)} headerKeys: [{names}]")
        if control:
            parts.append(control)
    if how.contents is not None and not batch.is_control:
        key, value = how.contents(record)
        parts += [f"{name}: {text}" for name, text in (("key", key), ("payload", value)) if text is not None]
    return " ".join(parts)


def control_text(data: bytes) -> str:
    found = marker.decode(data)
    if found is None:
        return "controlType: UNKNOWN"
    return f"endTxnMarker: {MARKERS.get(found.kind, found.kind)} coordinatorEpoch: {found.coordinator_epoch}"


def sequence_of(batch: Batch, record: Record) -> int:
    return -1 if batch.base_sequence < 0 else (batch.base_sequence + record.offset - batch.base_offset) & 0x7FFFFFFF


def time_type(batch: Batch) -> str:
    if batch.magic == 0:
        return "NoTimestampType"
    return "LogAppendTime" if batch.is_log_append_time else "CreateTime"


def java(value: bool) -> str:
    return str(value).lower()


def size_of(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def index_lines(path: str) -> Iterator[str]:
    index = OffsetIndex(ReadOnly(), FileCache(1), os.path.dirname(path) or ".", base_offset_of(path))
    return (f"offset: {each.offset} position: {each.position}" for each in offset_entries(index))


def time_index_lines(path: str) -> Iterator[str]:
    index = TimeIndex(ReadOnly(), FileCache(1), os.path.dirname(path) or ".", base_offset_of(path))
    return (f"timestamp: {each.timestamp} offset: {each.offset}" for each in time_entries(index))


def aborted_lines(path: str) -> Iterator[str]:
    index = TransactionIndex(ReadOnly(), FileCache(1), os.path.dirname(path) or ".", base_offset_of(path))
    return (
        f"version: 0 producerId: {each.producer_id} firstOffset: {each.first_offset}"
        f" lastOffset: {each.last_offset} lastStableOffset: {each.last_stable_offset}"
        for each in index
    )


def snapshot_lines(path: str) -> Iterator[str]:
    for entry in producer_snapshot.decode(ReadOnly().read(path)):
        first = entry.transaction_first_offset
        line = (
            f"producerId: {entry.producer_id} producerEpoch: {entry.epoch} coordinatorEpoch: {entry.coordinator_epoch}"
            f" currentTxnFirstOffset: {'OptionalLong.empty' if first < 0 else f'OptionalLong[{first}]'}"
            f" lastTimestamp: {entry.last_timestamp}"
        )
        if entry.batches:
            last = entry.batches[-1]
            line += (
                f" firstSequence: {last.first_sequence} lastSequence: {last.last_sequence}"
                f" lastOffset: {last.last_offset} offsetDelta: {last.offset_delta} timestamp: {last.timestamp}"
            )
        yield line


def documents(path: str, *, deep: bool) -> Iterator[dict[str, Any]]:
    """Yields a ``.log`` as documents: one per batch, or with ``deep`` one per record. Raises Failure."""
    file = ReadOnly().open(path)
    try:
        for located in walk(file, 0, file.size()):
            data = batch_bytes(file, located)
            valid = check_crc(data, 0, located.batch)
            head = batch_document(located, valid)
            if deep and valid and not located.batch.is_control:
                yield from (record_document(head, each) for each in iterate(data))
            else:
                yield head
    except MalformedBatch as error:
        raise Failure(f"{path}: {error}") from error


def batch_document(located: Located, valid: bool) -> dict[str, Any]:
    batch = located.batch
    return {
        "base_offset": batch.base_offset,
        "last_offset": batch.last_offset,
        "count": batch.count,
        "position": located.position,
        "size": batch.size,
        "magic": batch.magic,
        "codec": Codec(batch.codec).name.lower(),
        "max_timestamp": batch.max_timestamp,
        "leader_epoch": batch.partition_leader_epoch,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "base_sequence": batch.base_sequence,
        "transactional": batch.is_transactional,
        "control": batch.is_control,
        "valid": valid,
    }


def record_document(batch: dict[str, Any], record: Record) -> dict[str, Any]:
    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": shown(record.key),
        "value": shown(record.value),
        "headers": [[name, shown(value)] for name, value in record.headers],
        "batch": batch["base_offset"],
    }
