"""What a consumer reads and how far it is. No I/O, no clock; guarded by the consumer's lock.

A partition has several places. ``fetch_offset`` is where the next fetch begins. ``position`` is behind the last record
that ``poll`` gave. ``settled`` is the position at the last ``poll``, up to which the application has processed
everything. ``committed`` is the committed offset. ``turn`` counts seeks: records that were fetched in an earlier turn
are dropped.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from enum import Enum

from pyclient.consumer.errors import IllegalState
from pyclient.topic_partition import TopicPartition

EARLIEST, LATEST = -2, -1
"""Timestamps of ListOffsets: the log's start, its end."""
NO_END = (1 << 63) - 1
"""An offset that no record has."""


class Mode(Enum):
    """How the partitions come: not at all, by the group (topics or pattern), named by the application."""

    NONE = "nothing"
    TOPICS = "topics"
    PATTERN = "the topics of a pattern"
    ASSIGNED = "assigned partitions"


class PartitionState:
    """A partition that is read."""

    __slots__ = (
        *("buffered", "committed", "damaged", "epoch", "failed", "fetch_epoch", "fetch_offset", "high_watermark"),
        *("last_stable_offset", "leaving", "log_start_offset", "paused", "position", "preferred", "preferred_until"),
        *("proven", "reset", "retry_at", "settled", "settled_epoch", "tp", "turn", "until"),
    )

    def __init__(self, tp: TopicPartition) -> None:
        self.tp = tp
        self.turn = 0
        self.position: int | None = None
        """None until it is known where to begin."""
        self.epoch = -1
        """Leader epoch of the record before the position."""
        self.settled: int | None = None
        self.settled_epoch = -1
        self.committed: int | None = None
        self.reset: int | None = None
        """The timestamp to find a position by, None: the committed offset, or else the policy."""
        self.fetch_offset = 0
        self.fetch_epoch = -1
        self.proven = -1
        """The leader epoch whose log has what lies before ``fetch_offset`` (see ``truncation``)."""
        self.damaged: int | None = None
        """The position from which damaged bytes came."""
        self.until = NO_END
        """Records from this offset on are not wanted."""
        self.buffered = 0
        """Bytes that were fetched and not given yet."""
        self.paused = False
        self.leaving = False
        """The partition moves to another member: its records are no longer returned."""
        self.failed = False
        """An error waits in the buffer: nothing more is fetched."""
        self.retry_at = 0.0
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1
        self.preferred: int | None = None
        """The replica to fetch from (KIP-392), until ``preferred_until``."""
        self.preferred_until = 0.0

    def seek(self, offset: int, epoch: int = -1) -> None:
        """The next record is the one at ``offset``."""
        self._turn()
        self.position = self.settled = self.fetch_offset = offset
        self.epoch = self.settled_epoch = self.fetch_epoch = epoch

    def go_back(self, offset: int) -> None:
        """Continues at an offset within the records that were returned last. This marks no further records as
        processed.
        """
        settled = self.settled, self.settled_epoch
        self.seek(offset)
        self.settled, self.settled_epoch = settled

    def rewind(self) -> None:
        """Fetches again the records that were fetched but not returned."""
        assert self.position is not None
        self._turn()
        self.fetch_offset, self.fetch_epoch = self.position, self.epoch

    def seek_by(self, timestamp: int) -> None:
        """The position is to be found by a timestamp, or EARLIEST, LATEST."""
        self._turn()
        self.position = self.settled = None
        self.reset = timestamp

    def _turn(self) -> None:
        self.turn += 1
        self.reset = None
        self.failed = False
        self.buffered = 0
        self.proven = -1

    def settle(self) -> None:
        """The application is done with what it was given."""
        self.settled, self.settled_epoch = self.position, self.epoch


class Subscription:
    """The partitions that are read, and why."""

    def __init__(self) -> None:
        self.mode = Mode.NONE
        self.topics: frozenset[str] = frozenset()
        """That the group shares; of a pattern those that match now, of a ``regex`` those that are assigned."""
        self.pattern: re.Pattern[str] | None = None
        self.regex: str | None = None
        """The pattern for the group's coordinator where that matches it; else ``match`` does."""
        self.states: dict[TopicPartition, PartitionState] = {}
        self._pauses: frozenset[TopicPartition] = frozenset()

    def _enter(self, mode: Mode) -> None:
        if self.mode not in (Mode.NONE, mode):
            raise IllegalState(f"the consumer already reads {self.mode.value}: unsubscribe() first")
        self.mode = mode

    def subscribe(self, topics: Collection[str]) -> None:
        """These topics, in the place of those before; their partitions come from the group."""
        self._enter(Mode.TOPICS)
        self.topics = frozenset(topics)

    def subscribe_pattern(self, pattern: re.Pattern[str], regex: str | None = None) -> None:
        """All topics whose whole name matches, also those that come later; ``regex``: the coordinator
        matches it.
        """
        self._enter(Mode.PATTERN)
        self.pattern, self.regex = pattern, regex

    @property
    def is_matched_here(self) -> bool:
        """There is a pattern, which ``match`` has to be called for."""
        return self.pattern is not None and self.regex is None

    def match(self, topics: Iterable[str]) -> bool:
        """The cluster has these topics: whether those that match are others than before."""
        assert self.pattern is not None
        matching = frozenset(name for name in topics if self.pattern.fullmatch(name))
        changed = matching != self.topics
        self.topics = matching
        return changed

    def wants(self, topic: str) -> bool:
        """The topic is subscribed to; by a pattern also where it is not known here yet."""
        return topic in self.topics if self.pattern is None else self.pattern.fullmatch(topic) is not None

    def topics_in_use(self, watched: Iterable[str], may_create: bool) -> dict[str, bool]:
        """Returns the topics that this consumer reads or watches for its group.

        The value is True where the topic may be created: only if the application has named it.
        """
        used = dict.fromkeys(watched if self.by_group else (), False)
        used |= dict.fromkeys((tp.topic for tp in self.states), False)
        return used | dict.fromkeys(self.topics, may_create and self.pattern is None)

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        """These partitions, in the place of those before, without a group."""
        self._enter(Mode.ASSIGNED)
        self.topics = frozenset(tp.topic for tp in partitions)
        self.set_assigned(partitions)
        for state in self.states.values():
            state.until = NO_END

    def assign_range(self, tp: TopicPartition, start: int, end: int) -> None:
        """As ``assign``, this partition alone, from one offset up to another."""
        self.assign([tp])
        self.states[tp].seek(start)
        self.states[tp].until = end

    def is_at_end(self) -> bool:
        """All that was wanted is given: of ranges."""
        return bool(self.states) and all(
            state.position is not None and state.position >= state.until for state in self.states.values()
        )

    def unsubscribe(self) -> None:
        """Nothing is read any more."""
        self.mode, self.topics = Mode.NONE, frozenset()
        self.pattern = self.regex = None
        self._pauses = frozenset()
        self.set_assigned(())

    @property
    def is_empty(self) -> bool:
        """Nothing is subscribed to, and nothing assigned."""
        return self.mode is Mode.NONE or (self.mode is Mode.ASSIGNED and not self.states)

    @property
    def by_group(self) -> bool:
        """The group says which partitions are read."""
        return self.mode in (Mode.TOPICS, Mode.PATTERN)

    def set_assigned(self, partitions: Collection[TopicPartition]) -> None:
        """Exactly these are read from now on; those that were keep their places."""
        wanted = set(partitions)
        if self.regex is not None:
            self.topics = frozenset(tp.topic for tp in wanted)
        for tp in self.states.keys() - wanted:
            self.states.pop(tp).turn += 1
        for tp in sorted(wanted - self.states.keys()):
            self.states[tp] = PartitionState(tp)
            self.states[tp].paused = tp in self._pauses

    def paused(self) -> set[TopicPartition]:
        """The partitions that are paused."""
        return {tp for tp, state in self.states.items() if state.paused}

    def keep_pauses(self, partitions: Iterable[TopicPartition]) -> None:
        """These are paused again where they are assigned next: an eager rebalance takes all away first."""
        self._pauses = frozenset(partitions)

    def leave(self, partitions: Iterable[TopicPartition]) -> None:
        """These are to be given up."""
        for tp in partitions:
            if tp in self.states:
                self.states[tp].leaving = True

    def stay(self, partitions: Iterable[TopicPartition]) -> None:
        """These are not to be given up after all, as far as they are ours."""
        for tp in partitions:
            if tp in self.states:
                self.states[tp].leaving = False

    def state(self, tp: TopicPartition) -> PartitionState:
        """Raises IllegalState where the partition is not assigned."""
        found = self.states.get(tp)
        if found is None:
            raise IllegalState(f"{TopicPartition(*tp)} is not assigned to this consumer")
        return found
