"""The input and the result of an append."""

from __future__ import annotations

import enum

from cy.batch import Batch, CorruptBatch, assign, read_header, scan, set_log_append_time, set_max_timestamp
from pybroker.log.files.offset_index import MAX_RELATIVE_OFFSET
from pybroker.log.files.storage import Bytes
from pyclient.protocol import errors


class UnexpectedOffset(ValueError):
    """Raised if the leader's records begin below our log end: the fetcher has requested the wrong offset."""


class Origin(enum.Enum):
    """The sender of records. It decides how much of an append is checked."""

    CLIENT = enum.auto()
    COORDINATOR = enum.auto()
    """The broker's own coordinators: control batches are allowed, sequences are not checked."""


class AppendInfo:
    """The outcome of an append.

    ``log_append_time_ms`` is -1 if the records keep the producer's times. A ``duplicate`` has the offsets with which
    the batch was appended the first time.
    """

    __slots__ = (
        "duplicate",
        "first_offset",
        "last_offset",
        "log_append_time_ms",
        "log_start_offset",
    )

    def __init__(
        self,
        first_offset: int,
        last_offset: int,
        log_append_time_ms: int,
        log_start_offset: int,
        duplicate: bool = False,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.duplicate = duplicate

    def __repr__(self) -> str:
        again = ", duplicate" if self.duplicate else ""
        return f"AppendInfo({self.first_offset}…{self.last_offset}{again})"


def stamped(
    records: Bytes, batch: Batch, first: int, leader_epoch: int, timestamp: int, is_append_time: bool
) -> Bytes:
    """Returns the batch as it is written: with the log's offsets and leader epoch, and the latest ``timestamp``.

    ``records`` is changed in place, or copied if it must not be changed.
    """
    if isinstance(records, bytes) or (isinstance(records, memoryview) and records.readonly):
        records = bytearray(records)
    if is_append_time:
        set_log_append_time(records, timestamp)
    elif timestamp != batch.max_timestamp:
        set_max_timestamp(records, timestamp)
    assign(records, first, leader_epoch)
    return records


def whole_batches(
    records: Bytes, log_end_offset: int, leader_epoch: int, *, may_begin_below: bool
) -> list[Batch]:
    """Returns the batches of a leader's response, up to one that is cut, damaged, or newer than ``leader_epoch``.

    A leader sends its response by sendfile, so the response has the bytes that are in the file at that moment. A leader
    that has just become a follower may have truncated the file, and appended its own leader's records (KAFKA-18723).

    Gaps between offsets are valid: compaction leaves them, also in a topic that is no longer compacted.

    Raises UnexpectedOffset unless the offsets ascend from ``log_end_offset``; with ``may_begin_below``, the first batch
    may begin below it. Raises CorruptMessage if the first batch is damaged.
    """
    batches = scan(records, check_crcs=True)
    if not batches:
        _refuse_damaged(records)
    end = log_end_offset
    for number, batch in enumerate(batches):
        if batch.partition_leader_epoch > leader_epoch:
            return batches[:number]
        if batch.base_offset < end and not (may_begin_below and number == 0 and batch.next_offset > end):
            raise UnexpectedOffset(f"the leader sent a batch at offset {batch.base_offset}, and the log ends at {end}")
        end = batch.next_offset
    return batches


def _refuse_damaged(records: Bytes) -> None:
    try:
        if len(records) and read_header(records).size <= len(records):
            raise errors.CorruptMessage("the CRC of a batch from the leader does not match")
    except CorruptBatch as error:
        if len(records) >= 61:
            raise errors.CorruptMessage(f"the leader sent a damaged batch: {error}") from error


def runs(batches: list[Batch], log_end_offset: int, room: int, segment_bytes: int) -> list[list[Batch]]:
    """Groups the batches by the segments to which they will be appended.

    The active segment has ``room`` bytes left, each later one has ``segment_bytes``. A segment also takes only offsets
    that its indexes can hold.
    """
    groups: list[list[Batch]] = [[]]
    begin = log_end_offset
    for batch in batches:
        group = groups[-1]
        if group and (batch.size > room or batch.last_offset - begin > MAX_RELATIVE_OFFSET):
            begin = group[-1].next_offset
            groups.append([])
            room = segment_bytes
        groups[-1].append(batch)
        room -= batch.size
    return groups
