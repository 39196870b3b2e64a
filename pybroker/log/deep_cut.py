"""A truncation of a log that takes long, in pieces.

Two things may take long. The state of the producers can be undone as far as their journal reaches
(``producer_journal``). Further back it has to be read: from the newest snapshot before the truncation point, and from
the batches in between, perhaps a whole segment. And a log may lose thousands of segments, each of which has files to
rename. The event loop has no time for that at once.

So the log is read piece by piece, stays unchanged until all is known, and is truncated then. Where many segments go, it
is truncated several times, each time by ``REMOVED_PER_TURN`` segments. A broker that stops in between has a log that
ends later. If the log has changed meanwhile, by retention for example, the reading begins again.

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
    """Removes every batch with a record at or beyond ``offset``, as ``Log.truncate_to`` does. ``starts_over``: all of
    them, as ``Log.truncate_fully_and_start_at`` does.
    """

    __slots__ = ("_before", "_end", "_log", "_pieces", "_producers", "_starts_over", "offset")

    def __init__(self, log: Log, offset: int, *, starts_over: bool = False) -> None:
        """Changes nothing. Raises KafkaStorageError, CorruptMessage."""
        self.offset = offset
        self._starts_over = starts_over
        self._log = log
        self._end: int | None = None
        """Where the log is truncated next, since too many segments go for one turn; None: at ``offset``, which is
        all."""
        self._producers: ProducerStates | None = None
        self._pieces: Iterator[None] = iter(())
        self._begin()

    @property
    def takes_long(self) -> bool:
        """Whether something has to be done before it; else the first piece is the truncation."""
        return self._producers is not None or self._end is not None

    def go_on(self, now_ms: int) -> bool:
        """Does another piece; True where that was the last one, the truncation. ``now_ms``: as of ``Log.truncate_to``.

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
        """What was to be read is damaged: that does not matter where all goes."""
        self._end, self._producers, self._pieces = None, None, iter(())


def producers_after_cut(log: Log, offset: int) -> tuple[ProducerStates | None, Iterator[None]]:
    """The state of producers after the log has been truncated to ``offset``, known when all pieces have been read. None
    where the state can be undone to there, or all producers go. Raises KafkaStorageError, CorruptMessage.
    """
    if log.first_segment_offset < offset < log.log_end_offset:
        with log.files.failing("truncating"):
            end = log.segments.end_of_cut(offset)[2]
            if not log.producers.can_undo_to(end):
                return reading_producers(log.producers, log.segments, log.log_start_offset, end)
    return None, iter(())


def _state_of(log: Log) -> tuple[object, ...]:
    """What the reading goes by; another one where the log has been truncated, written or cleaned."""
    return log.files.durability.truncations, log.log_start_offset, log.log_end_offset, log.segments.snapshot()
