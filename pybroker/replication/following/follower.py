"""One partition that this broker follows: its position, and how a leader's response changes its log.

A follower asks for the records behind its log's end and names the epoch of its last record. If the leader's history
differs there, the leader answers with a *diverging epoch* (KIP-595): the offset up to which the logs may agree. The
follower truncates its log to that offset and asks again, until the logs agree. So leader epochs alone decide what is
truncated, never the high watermark (KIP-101, KIP-279). Records that only the follower has are removed; records that
both have stay.

The exception is a log of the old message formats, which has no epochs. It is truncated to its high watermark when it
begins to follow.

A deep truncation is done in pieces (``DeepCut``). The follower fetches nothing until it is complete.

Pure: it reaches the disk only through its log. Time is an argument: ``wall_ms`` of the wall clock, ``now_ms``
monotonic.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from pybroker.log.appending import UnexpectedOffset
from pybroker.log.deep_cut import DeepCut
from pybroker.log.files.leader_epochs import UNDEFINED_EPOCH, EpochEnd
from pybroker.log.log import Log
from pybroker.replication.partition import Partition
from pyclient.protocol import errors

FIRST_PAUSE_MS: Final = 20

Key = tuple[bytes, int]
"""Topic id and index."""


class Position(NamedTuple):
    """The position that a follower names to its leader."""

    offset: int
    leader_epoch: int
    last_epoch: int
    """The epoch of the record before ``offset``, -1 if there is none."""
    log_start_offset: int
    """The durable log start. It must be durable: the leader tells clients that all records below it are deleted."""

    def is_same_place(self, other: Position | None) -> bool:
        """Returns True if a response to ``other`` also answers this position."""
        return other is not None and self[:3] == other[:3]


class Followed:
    """A partition that another broker leads."""

    __slots__ = (
        "_pause_ms",
        "asked",
        "asked_in",
        "cut",
        "is_unsynced",
        "key",
        "leader_epoch",
        "partition",
        "retry_at_ms",
    )

    def __init__(self, partition: Partition, wall_ms: int) -> None:
        """Begins to follow at the end of the partition's log. Raises CorruptMessage, KafkaStorageError."""
        self.partition = partition
        self.key: Key = (partition.topic_id, partition.topic_partition.partition)
        self.leader_epoch = partition.leader_epoch
        self.asked: Position | None = None
        """The position that was last named to the leader in the current session."""
        self.asked_in = 0
        """The number of the first request that named this position. Later requests may have another log start."""
        self.retry_at_ms = 0
        """After a failure, the partition is not fetched before this time."""
        self.cut: DeepCut | None = None
        """The truncation in progress. ``go_on_cutting`` has to finish it before the partition is fetched."""
        self.is_unsynced = False
        """True if a sync was refused: the log must be synced (``Source.take_unsynced``) before the next fetch."""
        self._pause_ms = FIRST_PAUSE_MS
        log = partition.log
        if log.leader_epochs.latest == UNDEFINED_EPOCH and log.log_end_offset > log.high_watermark:
            self._cut_to(log.high_watermark, wall_ms)

    @property
    def position(self) -> Position:
        """The end of the log, with its epochs and the durable log start."""
        log = self.partition.log
        return Position(log.log_end_offset, self.leader_epoch, log.leader_epochs.latest, log.kept_start_offset)

    @property
    def must_keep_start(self) -> bool:
        """True if the log start is not durable yet: ``Log.keep_start`` has to be called."""
        log = self.partition.log
        return log.log_start_offset > log.kept_start_offset

    def is_answer(self, number: int) -> bool:
        """Returns True if the response to request ``number`` answers the log's current position."""
        return self.asked_in <= number and self.position.is_same_place(self.asked)

    def take(self, answer: Any, wall_ms: int) -> bool:
        """Appends or truncates as ``answer`` says, a PartitionData of the leader's Fetch response without an error.

        Returns True if the log or its high watermark has changed. Returns False while a truncation is not complete
        (``cut``). Raises CorruptMessage, KafkaStorageError.
        """
        self._pause_ms = FIRST_PAUSE_MS
        log = self.partition.log
        if answer.diverging_epoch is not None:
            end = EpochEnd(answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset)
            return self._cut_to(agreed_end(log, end), wall_ms)
        changed = False
        if answer.records:
            try:
                changed = log.append_as_follower(answer.records, self.leader_epoch, wall_ms) is not None
            except UnexpectedOffset as error:
                raise errors.CorruptMessage(f"{self.partition.topic_partition}: {error}") from error
        return self._advance(answer.high_watermark, answer.log_start_offset) or changed

    def _advance(self, high_watermark: int, log_start_offset: int) -> bool:
        """Takes over the leader's high watermark and log start, as far as our log reaches."""
        log = self.partition.log
        before = log.high_watermark
        if min(high_watermark, log.log_end_offset) > before:
            log.update_high_watermark(high_watermark)
        if log_start_offset > log.log_start_offset:
            log.raise_log_start_offset(min(log_start_offset, log.high_watermark))
        return log.high_watermark != before

    def _cut_to(self, offset: int, wall_ms: int) -> bool:
        self.cut = DeepCut(self.partition.log, offset)
        return not self.cut.takes_long and self.go_on_cutting(wall_ms)

    def go_on_cutting(self, wall_ms: int) -> bool:
        """Does another piece of ``cut``; returns True when the truncation is complete.

        Raises CorruptMessage, KafkaStorageError. Then the log is unchanged, and the caller has to ask the leader again.
        """
        cut, self.cut = self.cut, None
        assert cut is not None
        is_over = cut.go_on(wall_ms)
        if not is_over:
            self.cut = cut
        return is_over

    def start_over(self, log_start_offset: int, wall_ms: int) -> bool:
        """Empties our log and lets it start where the leader's begins, because the leader has no records at our end.

        The leader has deleted these records, or it never had them and knows none of our epochs. Returns False if the
        truncation takes several pieces (``cut``). Raises KafkaStorageError.
        """
        self.cut = DeepCut(self.partition.log, log_start_offset, starts_over=True)
        return not self.cut.takes_long and self.go_on_cutting(wall_ms)

    def next_pause_ms(self, longest_ms: int) -> int:
        """Returns the pause after a failure, twice as long each time, up to ``longest_ms``."""
        pause_ms = self._pause_ms
        self._pause_ms = min(pause_ms * 2, max(longest_ms, FIRST_PAUSE_MS))
        return pause_ms


def agreed_end(log: Log, leader: EpochEnd) -> int:
    """Returns the offset up to which ``log`` and the leader's log may agree.

    ``leader`` is the leader's newest epoch that is not above our last one, and the end of that epoch in its log.
    """
    own = log.end_offset_for_epoch(leader.epoch)
    if leader.epoch == UNDEFINED_EPOCH or own.epoch == UNDEFINED_EPOCH:
        end = leader.end_offset
    elif own.epoch == leader.epoch:
        end = min(leader.end_offset, own.end_offset)
    else:
        end = own.end_offset
    return max(0, min(end, log.log_end_offset))
