"""Truncates a log: removes its end, or all of it.

Everything that needs a file descriptor comes before the first change. Then the offsets in the checkpoint files are
lowered, durably. Only then are files removed, the newest first: a crash in between leaves a log that ends somewhere
between the truncation point and its old end. State that is derived from the log changes last: offsets, epochs,
producers.

Thread-safety: loop's thread only.
"""

from __future__ import annotations

import contextlib
from typing import Protocol

from pybroker.log.dirs.log_dir import LogDir
from pybroker.log.files.leader_epochs import LeaderEpochs
from pybroker.log.log_files import LogFiles
from pybroker.log.producers.producer_state import ProducerStates
from pybroker.log.replay import producers_at
from pybroker.log.segment.segment import Segment
from pybroker.log.segment.segments import Segments
from pyclient.protocol import errors


class Truncated(Protocol):
    """The part of the log that this module uses."""

    log_dir: LogDir
    files: LogFiles
    segments: Segments
    producers: ProducerStates
    leader_epochs: LeaderEpochs
    log_start_offset: int
    high_watermark: int
    log_end_offset: int
    clean_offset: int

    @property
    def folder(self) -> str: ...

    @property
    def first_segment_offset(self) -> int: ...

    def activate(self, segment: Segment) -> None: ...


def truncate_to(log: Truncated, offset: int, now_ms: int, producers: ProducerStates | None = None) -> bool:
    """Removes every batch with a record at or beyond ``offset``. Returns True if there was one.

    ``producers`` is the state of the producers at ``offset``. Without it, this function may have to read the state,
    which may take seconds: see ``DeepCut``. Raises KafkaStorageError, CorruptMessage.
    """
    if offset >= log.log_end_offset:
        log.leader_epochs.truncate_from_end(log.log_end_offset)
        return False
    if offset <= log.first_segment_offset:
        truncate_fully_and_start_at(log, offset, now_ms)
        return True
    with contextlib.ExitStack() as held:
        with log.files.failing("truncating"):  # whatever needs a descriptor comes before the first change
            segment, cut, end = log.segments.end_of_cut(offset)
            held.enter_context(log.segments.last_below(offset).held())
            if producers is None and not log.producers.can_undo_to(end):
                producers = producers_at(log.producers, log.segments, log.log_start_offset, end)
        _lower(log, end)
        with log.files.failing("truncating"):
            log.files.remove(log.segments.remove_from(offset)[::-1])
            active = log.segments[-1]
            log.activate(active)
            if cut is not None and segment is active:
                segment.truncate(cut.position)
            if producers is None:
                log.producers.undo_to(end)
            _ends_at(log, active.read_end() + 1, producers)
    return True


def truncate_fully_and_start_at(log: Truncated, offset: int, now_ms: int, *, begins_there: bool = True) -> None:
    """Removes all records; the next record's offset is ``offset``. Raises KafkaStorageError.

    Without ``begins_there``, the durable log start stays, and the caller sets the log start afterwards.
    """
    log_dir = log.log_dir
    with log.files.failing("truncating"):  # whatever needs a descriptor comes before the first change
        segment = Segment.prepare(log_dir.storage, log_dir.cache, log.folder, offset, now_ms)
        producers = producers_at(log.producers, Segments([]), offset, offset)
    _lower(log, offset, begins_there=begins_there)
    with log.files.failing("truncating"):
        log.files.remove(log.segments.snapshot()[::-1])
        log.log_start_offset = offset
        segment.files.place()
        log.files.durability.names_gone_below(offset)  # not before the file is there: a sync may be running
        log.segments.start_over(segment)  # not before: other threads find some segment at any time
        log.activate(segment)
        _ends_at(log, offset, producers)
        log.producers.remove_snapshots(lambda at: at != offset)


def _lower(log: Truncated, offset: int, *, begins_there: bool = True) -> None:
    """Lowers the log's offsets in the checkpoint files before its truncation. Raises KafkaStorageError.

    Without ``begins_there``, the log start stays, because it is the leader's.
    """
    log.files.durability.lower(offset)
    start = log.log_start_offset
    if begins_there and start > offset:
        try:
            log.log_start_offset = offset
            log.files.durability.start.take_back(offset)
        except errors.KafkaStorageError:
            log.log_start_offset = start
            raise
    clean_offset = log.clean_offset
    if clean_offset > offset:
        try:
            log.clean_offset = offset
            log.log_dir.checkpoint_clean_offsets()
        except errors.KafkaStorageError:
            log.clean_offset = clean_offset
            raise


def _ends_at(log: Truncated, offset: int, producers: ProducerStates | None) -> None:
    """Adapts everything that is derived from the log to its truncation to ``offset``.

    ``producers`` is their state at ``offset`` if the journal could not undo the changes, else None.
    """
    log.log_end_offset = offset
    log.files.durability.lower(offset)  # again: a sync may have begun before the truncation
    log.log_start_offset = min(log.log_start_offset, offset)
    log.clean_offset = min(log.clean_offset, offset)
    log.high_watermark = max(log.log_start_offset, min(log.high_watermark, offset))
    log.leader_epochs.truncate_from_end(offset)
    if producers is not None:
        log.producers.become(producers)
    log.producers.remove_snapshots(lambda at: at > offset)
    log.files.durability.names_synced = False  # removed files must not come back when the log is as long again
    log.producers.end_offset = offset  # lower than the undone changes reach if compaction has left a gap
    log.producers.on_high_watermark(log.high_watermark)
