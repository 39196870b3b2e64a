"""What a consumer reads and how far it has read. No I/O, no clock; the consumer's lock guards it.

A partition has several places. ``fetch_offset`` is where the next fetch begins. ``position`` follows the last record
that ``poll`` returned. ``settled`` is the position at the last ``poll``, up to which the application has processed
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
"""Timestamps in ListOffsets that mean the log's start and its end."""
NO_END = (1 << 63) - 1
"""An offset that no record has."""


class Mode(Enum):
    """What chooses the partitions: nothing, the group (by topics or a pattern), or the application."""

    NONE = "nothing"
    TOPICS = "topics"
    PATTERN = "the topics of a pattern"
    ASSIGNED = "assigned partitions"


class PartitionState:
    """The state of a partition that is read."""

    __slots__ = (
        *("buffered", "committed", "damaged", "epoch", "failed", "fetch_epoch", "fetch_offset", "high_watermark"),
        *("last_stable_offset", "leaving", "log_start_offset", "paused", "position", "preferred", "preferred_until"),
        *("proven", "reset", "retry_at", "settled", "settled_epoch", "tp", "turn", "until"),
    )

    def __init__(self, tp: TopicPartition) -> None:
        self.tp = tp
        self.turn = 0
        self.position: int | None = None
        """The next offset to read; None until it is found."""
        self.epoch = -1
        """Leader epoch of the record before the position."""
        self.settled: int | None = None
        self.settled_epoch = -1
        self.committed: int | None = None
        self.reset: int | None = None
        """The timestamp by which to find a position. None means the committed offset, or auto.offset.reset if there is
        none.
        """
        self.fetch_offset = 0
        self.fetch_epoch = -1
        self.proven = -1
        """The leader epoch whose log has the records before ``fetch_offset`` (see ``truncation``)."""
        self.damaged: int | None = None
        """The position at which damaged bytes were fetched."""
        self.until = NO_END
        """The end of a range: records from this offset on are not read."""
        self.buffered = 0
        """Bytes that were fetched but not returned."""
        self.paused = False
        self.leaving = False
        """Whether the partition moves to another member: its records are no longer returned."""
        self.failed = False
        """Whether an error waits in the buffer, so that nothing more is fetched."""
        self.retry_at = 0.0
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1
        self.preferred: int | None = None
        """The replica to fetch from (KIP-392), until ``preferred_until``."""
        self.preferred_until = 0.0

    def seek(self, offset: int, epoch: int = -1) -> None:
        """Makes the record at ``offset`` the next one."""
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
        """Makes the consumer find the position by a timestamp, EARLIEST or LATEST."""
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
        """Marks the returned records as processed."""
        self.settled, self.settled_epoch = self.position, self.epoch


class Subscription:
    """The partitions that are read, and the subscription that chose them."""

    def __init__(self) -> None:
        self.mode = Mode.NONE
        self.topics: frozenset[str] = frozenset()
        """The topics that the group shares. For a pattern these are the matching topics, for a ``regex`` the assigned
        ones.
        """
        self.pattern: re.Pattern[str] | None = None
        self.regex: str | None = None
        """The pattern as text, if the group's coordinator matches it. Otherwise ``match`` matches it."""
        self.states: dict[TopicPartition, PartitionState] = {}
        self._pauses: frozenset[TopicPartition] = frozenset()

    def _enter(self, mode: Mode) -> None:
        if self.mode not in (Mode.NONE, mode):
            raise IllegalState(f"the consumer already reads {self.mode.value}: unsubscribe() first")
        self.mode = mode

    def subscribe(self, topics: Collection[str]) -> None:
        """Subscribes to these topics instead of the previous ones. The group assigns their partitions."""
        self._enter(Mode.TOPICS)
        self.topics = frozenset(topics)

    def subscribe_pattern(self, pattern: re.Pattern[str], regex: str | None = None) -> None:
        """Subscribes to all topics whose whole name matches, including later ones. ``regex`` is set if the coordinator
        matches.
        """
        self._enter(Mode.PATTERN)
        self.pattern, self.regex = pattern, regex

    @property
    def is_matched_here(self) -> bool:
        """True if the consumer itself must match a pattern, by ``match``."""
        return self.pattern is not None and self.regex is None

    def match(self, topics: Iterable[str]) -> bool:
        """Matches the pattern with the cluster's topics. Returns whether the matching topics have changed."""
        assert self.pattern is not None
        matching = frozenset(name for name in topics if self.pattern.fullmatch(name))
        changed = matching != self.topics
        self.topics = matching
        return changed

    def wants(self, topic: str) -> bool:
        """Returns whether the topic is subscribed to. A pattern also wants topics that are not known yet."""
        return topic in self.topics if self.pattern is None else self.pattern.fullmatch(topic) is not None

    def topics_in_use(self, watched: Iterable[str], may_create: bool) -> dict[str, bool]:
        """Returns the topics that this consumer reads or watches for its group.

        The value is True if the topic may be created: only if the application has named it.
        """
        used = dict.fromkeys(watched if self.by_group else (), False)
        used |= dict.fromkeys((tp.topic for tp in self.states), False)
        return used | dict.fromkeys(self.topics, may_create and self.pattern is None)

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Reads these partitions instead of the previous ones, without a group."""
        self._enter(Mode.ASSIGNED)
        self.topics = frozenset(tp.topic for tp in partitions)
        self.set_assigned(partitions)
        for state in self.states.values():
            state.until = NO_END

    def assign_range(self, tp: TopicPartition, start: int, end: int) -> None:
        """Like ``assign``, but reads only this partition, from ``start`` up to ``end``."""
        self.assign([tp])
        self.states[tp].seek(start)
        self.states[tp].until = end

    def is_at_end(self) -> bool:
        """Returns whether every assigned range was read to its end."""
        return bool(self.states) and all(
            state.position is not None and state.position >= state.until for state in self.states.values()
        )

    def unsubscribe(self) -> None:
        """Stops reading everything."""
        self.mode, self.topics = Mode.NONE, frozenset()
        self.pattern = self.regex = None
        self._pauses = frozenset()
        self.set_assigned(())

    @property
    def is_empty(self) -> bool:
        """Whether nothing is subscribed to and nothing assigned."""
        return self.mode is Mode.NONE or (self.mode is Mode.ASSIGNED and not self.states)

    @property
    def by_group(self) -> bool:
        """Whether the group chooses the partitions."""
        return self.mode in (Mode.TOPICS, Mode.PATTERN)

    def set_assigned(self, partitions: Collection[TopicPartition]) -> None:
        """Reads exactly these partitions from now on. Partitions that were read before keep their places."""
        wanted = set(partitions)
        if self.regex is not None:
            self.topics = frozenset(tp.topic for tp in wanted)
        for tp in self.states.keys() - wanted:
            self.states.pop(tp).turn += 1
        for tp in sorted(wanted - self.states.keys()):
            self.states[tp] = PartitionState(tp)
            self.states[tp].paused = tp in self._pauses

    def paused(self) -> set[TopicPartition]:
        """Returns the paused partitions."""
        return {tp for tp, state in self.states.items() if state.paused}

    def keep_pauses(self, partitions: Iterable[TopicPartition]) -> None:
        """Pauses these partitions again when they are assigned next. An eager rebalance first revokes all partitions.
        """
        self._pauses = frozenset(partitions)

    def leave(self, partitions: Iterable[TopicPartition]) -> None:
        """Marks partitions that the consumer is about to give up."""
        for tp in partitions:
            if tp in self.states:
                self.states[tp].leaving = True

    def stay(self, partitions: Iterable[TopicPartition]) -> None:
        """Removes the mark of ``leave`` from partitions that are still assigned."""
        for tp in partitions:
            if tp in self.states:
                self.states[tp].leaving = False

    def state(self, tp: TopicPartition) -> PartitionState:
        """Returns the state of a partition. Raises IllegalState if it is not assigned."""
        found = self.states.get(tp)
        if found is None:
            how = "assign() chooses partitions; after subscribe(), poll() gets them"
            raise IllegalState(f"{TopicPartition(*tp)} is not assigned to this consumer: {how}")
        return found
