"""Truncates a log in pieces, if the truncation takes too long for one turn of the event loop.

Two things may take long. The producers' state can be undone as far as their journal reaches (``producer_journal``).
Further back, the state has to be read, from the newest snapshot before the truncation point and from all batches in
between: perhaps a whole segment. And a log may lose thousands of segments, each with files to rename.

So the state is read piece by piece while the log stays unchanged, and then the log is truncated. If many segments go,
it is truncated several times, each time by ``REMOVED_PER_TURN`` segments. If the broker stops in between, the log
simply ends later. If the log changes meanwhile, by retention for example, the reading begins again.

Thread-safety: loop's thread only.
"""

from __future__ import annotations

from collections.abc import Iterator

from pybroker.log.log import Log
from pybroker.log.producers.producer_state import ProducerStates
from pybroker.log.replay import reading_producers
from pybroker.log.segment.segments import REMOVED_PER_TURN
from pyclient.protocol import errors


class DeepCut:
    """Removes every batch with a record at or beyond ``offset``, as ``Log.truncate_to`` does.

    With ``starts_over`` it removes all batches, as ``Log.truncate_fully_and_start_at`` does.
    """

    __slots__ = ("_before", "_end", "_log", "_pieces", "_producers", "_starts_over", "offset")

    def __init__(self, log: Log, offset: int, *, starts_over: bool = False) -> None:
        """Prepares the truncation, and changes nothing. Raises KafkaStorageError, CorruptMessage."""
        self.offset = offset
        self._starts_over = starts_over
        self._log = log
        self._end: int | None = None
        """The offset of the next truncation if it is not the last. None if the next one is the last, to ``offset``."""
        self._producers: ProducerStates | None = None
        self._pieces: Iterator[None] = iter(())
        self._begin()

    @property
    def takes_long(self) -> bool:
        """True if the truncation needs more than one piece."""
        return self._producers is not None or self._end is not None

    def go_on(self, now_ms: int) -> bool:
        """Does another piece; returns True if it was the last one. ``now_ms`` is the time, as in ``Log.truncate_to``.

        Raises KafkaStorageError, CorruptMessage.
        """
        log = self._log
        log.log_dir.check_online()
        try:
            if self._before != _state_of(log):
                self._begin()
            with log.files.failing("reading producers"):
                if next(self._pieces, self._pieces) is None:
                    return False
            if self._end is not None:
                log.truncate_to(self._end, now_ms, self._producers)
                self._begin()
                return False
        except errors.CorruptMessage:
            if not self._all_goes:
                raise
            self._go_at_once()
        if self._starts_over:
            log.truncate_fully_and_start_at(self.offset, now_ms)
        else:
            log.truncate_to(self.offset, now_ms, self._producers)
        return True

    def _begin(self) -> None:
        log = self._log
        self._before = _state_of(log)
        self._end, self._producers, self._pieces = self._next_end(), None, iter(())
        try:
            if self._end is not None:
                self._producers, self._pieces = producers_after_cut(log, self._end)
            elif not self._starts_over:
                self._producers, self._pieces = producers_after_cut(log, self.offset)
        except errors.CorruptMessage:
            if not self._all_goes:
                raise
            self._go_at_once()

    def _next_end(self) -> int | None:
        segments = self._log.segments
        count = len(segments) if self._starts_over else segments.count_from(self.offset)
        return segments[-REMOVED_PER_TURN].base_offset if count > REMOVED_PER_TURN else None

    @property
    def _all_goes(self) -> bool:
        return self._starts_over or self.offset <= self._log.first_segment_offset

    def _go_at_once(self) -> None:
        """Lets the next piece truncate without reading: the batches to read are damaged, and all will be removed."""
        self._end, self._producers, self._pieces = None, None, iter(())


def producers_after_cut(log: Log, offset: int) -> tuple[ProducerStates | None, Iterator[None]]:
    """Returns the producers' state after a truncation to ``offset``, and an iterator; it reads a piece in each step.

    The state is complete when the iterator has ended. The state is None if nothing has to be read: the journal reaches
    back to the offset, or no producers remain. Raises KafkaStorageError, CorruptMessage.
    """
    if log.first_segment_offset < offset < log.log_end_offset:
        with log.files.failing("truncating"):
            end = log.segments.end_of_cut(offset)[2]
            if not log.producers.can_undo_to(end):
                return reading_producers(log.producers, log.segments, log.log_start_offset, end)
    return None, iter(())


def _state_of(log: Log) -> tuple[object, ...]:
    """Returns a value that changes if the log is truncated, appended to or compacted, so that the reading must begin
    again.
    """
    return log.files.durability.truncations, log.log_start_offset, log.log_end_offset, log.segments.snapshot()
