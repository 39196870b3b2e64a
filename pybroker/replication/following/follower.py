"""One partition that this broker follows: where its log stands, and what a leader's answer does to it.

A follower asks for the records behind its log's end and names the epoch of its last record. A leader whose history
differs there answers with the point up to which the two may agree (*diverging epoch*, KIP-595) instead of records. The
follower truncates its log there and asks again, until they agree. So a log is truncated by leader epochs only, never
to the high watermark (KIP-101, KIP-279). Records that only the follower has go; records that both have stay.

The exception is a log of the old message formats, which knows no epochs. It is truncated to its high watermark when it
begins to follow.

A deep truncation is done in pieces (``DeepCut``). The follower fetches nothing until it is over.

Pure: reaches the disk only through its log; time is an argument (``wall_ms`` the calendar's, ``now_ms`` monotonic).
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
    """What a follower asks of its leader."""

    offset: int
    leader_epoch: int
    last_epoch: int
    """The epoch of the record before ``offset``, -1 where there is none."""
    log_start_offset: int
    """What survives a crash: the leader tells clients that the records below are gone for good."""

    def is_same_place(self, other: Position | None) -> bool:
        """True where an answer to the other is one to this."""
        return other is not None and self[:3] == other[:3]


class Followed:
    """A partition of which another broker has the lead."""

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
        """Raises CorruptMessage, KafkaStorageError."""
        self.partition = partition
        self.key: Key = (partition.topic_id, partition.topic_partition.partition)
        self.leader_epoch = partition.leader_epoch
        self.asked: Position | None = None
        """What the leader has been told last, in the session that goes on."""
        self.asked_in = 0
        """The number of the first request that told this place; later ones may have told another log start."""
        self.retry_at_ms = 0
        """Until then nothing is asked, after something went wrong."""
        self.cut: DeepCut | None = None
        """Its log is being truncated: to be gone on with by ``go_on_cutting`` before anything is asked."""
        self.is_unsynced = False
        """A sync was refused: its log has to be synced (``Source.take_unsynced``) before anything is asked."""
        self._pause_ms = FIRST_PAUSE_MS
        log = partition.log
        if log.leader_epochs.latest == UNDEFINED_EPOCH and log.log_end_offset > log.high_watermark:
            self._cut_to(log.high_watermark, wall_ms)

    @property
    def position(self) -> Position:
        """Where it stands."""
        log = self.partition.log
        return Position(log.log_end_offset, self.leader_epoch, log.leader_epochs.latest, log.kept_start_offset)

    @property
    def must_keep_start(self) -> bool:
        """Whether the log begins later than it may say: ``Log.keep_start`` is to be called."""
        log = self.partition.log
        return log.log_start_offset > log.kept_start_offset

    def is_answer(self, number: int) -> bool:
        """True where a response to request ``number`` speaks of where the log stands now."""
        return self.asked_in <= number and self.position.is_same_place(self.asked)

    def take(self, answer: Any, wall_ms: int) -> bool:
        """What the leader has answered; ``answer`` is a PartitionData of Fetch without an error.

        True where the log has changed, or its high watermark; False also where that takes longer (``cut``). Raises
        CorruptMessage, KafkaStorageError.
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
        """The leader's high watermark and log start are ours as far as our log goes."""
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
        """Does another piece of ``cut``; True where it is over. Raises CorruptMessage, KafkaStorageError: then the
        log is what it was, and the leader is to be asked again.
        """
        cut, self.cut = self.cut, None
        assert cut is not None
        is_over = cut.go_on(wall_ms)
        if not is_over:
            self.cut = cut
        return is_over

    def start_over(self, log_start_offset: int, wall_ms: int) -> bool:
        """Handles a leader without records at our log's end: it has deleted them, or never had them and knows none of
        our epochs. Our log is emptied and starts again where the leader's begins.

        False where that takes longer (``cut``). Raises KafkaStorageError.
        """
        self.cut = DeepCut(self.partition.log, log_start_offset, starts_over=True)
        return not self.cut.takes_long and self.go_on_cutting(wall_ms)

    def next_pause_ms(self, longest_ms: int) -> int:
        """Something went wrong: how long to wait, twice as long each time."""
        pause_ms = self._pause_ms
        self._pause_ms = min(pause_ms * 2, max(longest_ms, FIRST_PAUSE_MS))
        return pause_ms


def agreed_end(log: Log, leader: EpochEnd) -> int:
    """The offset up to which ``log`` and that of a leader may agree: ``leader`` is the newest epoch, not above our
    last, that the leader knows, and its end there.
    """
    own = log.end_offset_for_epoch(leader.epoch)
    if leader.epoch == UNDEFINED_EPOCH or own.epoch == UNDEFINED_EPOCH:
        end = leader.end_offset
    elif own.epoch == leader.epoch:
        end = min(leader.end_offset, own.end_offset)
    else:
        end = own.end_offset
    return max(0, min(end, log.log_end_offset))
