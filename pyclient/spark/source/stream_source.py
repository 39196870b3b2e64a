"""Makes a stream's decisions on the driver: where it begins, how far each micro-batch goes, and what its tasks read.

New partitions begin at their first record. If a topic was deleted and created again, which its id shows, it is read
from its start, provided that ``failOnDataLoss`` is off. If any other log ends before the offsets that were read, the
stream waits until the log reaches them. The log's leader may lag, or an unclean election has lost records. The
checkpoint has no ids, so this process knows only ids that it has seen. If a log is too short when a query starts again,
it may belong to a new topic: with ``failOnDataLoss``, the query fails.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable

from pyclient.errors import KafkaError
from pyclient.spark.source import data_loss
from pyclient.spark.source.limits import Patience, Sizes, at_most, at_most_bytes, count
from pyclient.spark.source.log_offsets import LogOffsets, Partitions
from pyclient.spark.source.offsets import Offsets, named
from pyclient.spark.source.progress import Progress
from pyclient.spark.source.ranges import Range, split
from pyclient.spark.source.source_options import SourceOptions
from pyclient.topic_partition import TopicPartition

log = logging.getLogger(__name__)


class StreamSource:
    """The stream source of one query, in the driver's Python process."""

    def __init__(self, options: SourceOptions, clock: Callable[[], float] = time.monotonic) -> None:
        self._options = options
        self._clock = clock
        self._offsets = LogOffsets(options)
        self._progress = Progress(options.group, self._offsets, clock)
        self._patience = Patience(options.min_offsets, options.max_delay_ms)
        self._initial: Offsets | None = None
        self._target: Offsets | None = None
        self._ids: dict[str, str] = {}
        self._renewed: tuple[Offsets, frozenset[str]] = {}, frozenset()
        """Topics that were created again since these offsets, the start of a batch."""
        self.newest: Offsets = {}
        """The newest offsets, as of the last lookup."""

    def initial(self) -> Offsets:
        """Returns the offsets where a new query starts. Spark asks twice, and gets the same answer."""
        if self._initial is None:
            partitions = self._offsets.partitions()
            self._ids = dict(self._offsets.topic_ids)
            self._initial = self._offsets.at(self._options.starting, partitions, is_start=True)
        return self._initial

    def aim(self) -> None:
        """Lets the query end when it has read everything that exists now (``Trigger.AvailableNow``)."""
        self._target = self._offsets.latest(self._there(), {})

    def latest(self, start: Offsets, *, is_limited: bool) -> Offsets:
        """Returns where the batch from ``start`` ends; returns ``start`` if there is no batch. Everything before
        ``start`` is finished.
        """
        self._progress.finished(start)
        end = self.newest = self._looked(start)
        if self._target is not None:
            end = self._up_to(self._target, start, end)
            self._target |= {tp: offset for tp, offset in end.items() if tp.topic in self._renewed_of(start)}
        if not is_limited:
            return end
        begin = {**self._beginning(end, start), **start, **self._begin_of_renewed(start, end)}
        if self._target is None and self._patience.wants_more(count(begin, end), self._clock()):
            return start
        return self._limited(begin, end)

    def latest_of_unknown_start(self, last: Offsets | None) -> Offsets:
        """Returns where the next batch ends if Spark does not pass where it starts (before 4.2). Limits do not apply to
        the first batch after a restart.
        """
        if last is None:
            with contextlib.suppress(KafkaError):  # Spark asks again later, and then gets the error
                self.initial()
        return self.latest(last or {}, is_limited=last is not None)

    def ranges(self, start: Offsets, end: Offsets) -> list[Range]:
        """Returns the ranges that the tasks of a batch read. Raises DataLoss."""
        fails = self._options.fails_on_loss
        gone = start.keys() - end.keys()
        if gone:
            data_loss.report(f"Partitions {named(gone)} are gone with their records", fails=fails)
        first = self._beginning(end, start)
        for tp, offset in sorted(first.items()):
            if offset > 0:
                data_loss.report(f"Added partition {tp} starts from {offset} instead of 0", fails=fails)
        renewed = self._begin_of_renewed(start, end)
        for tp in sorted(end.keys() - renewed.keys()):
            if end[tp] < start.get(tp, 0):
                data_loss.report(_changed(tp, start, end), fails=fails)
        begin = {**first, **start, **renewed}
        ranges = [Range(tp, begin[tp], end[tp]) for tp in sorted(end) if tp in begin]
        return split(ranges, self._options.min_partitions, self._options.max_records)

    def topic_id(self, topic: str) -> str:
        """Returns the topic's id, as of the last lookup; empty if unknown."""
        return self._ids.get(topic, "")

    def finished(self, end: Offsets) -> None:
        """Notes that Spark has finished the batch that ended here."""
        self._progress.finished(end)

    def close(self) -> None:
        """Closes the connections to the brokers."""
        self._offsets.close()

    # -- looking ---------------------------------------------------------------------------------------

    def _looked(self, start: Offsets) -> Offsets:
        """Returns where the logs end now, but never before ``start``, except for topics that were created again. A
        missing partition keeps its offset: a broker may not know it yet. If the partition comes back, it continues at
        that offset, unless its topic has another id.
        """
        partitions = self._there()
        renewed = self._renewal(start)
        known = {tp: offset for tp, offset in start.items() if tp.topic not in renewed}
        found = self._offsets.latest(partitions, known)
        held = {tp: offset for tp, offset in known.items() if found.get(tp, offset) < offset}
        absent = {} if self._options.fails_on_loss else {tp: known[tp] for tp in known.keys() - found.keys()}
        for tp in sorted(held):
            if tp.topic not in self._ids:
                data_loss.report(_changed(tp, start, found), fails=self._options.fails_on_loss)
        if held:
            log.warning("the logs of %s are shorter than before: nothing is read from them until they reach the "
                        "offsets that were read", named(held))
        self._ids |= self._offsets.topic_ids
        return found | held | absent

    def _there(self) -> Partitions:
        return self._offsets.partitions(missing_is_error=self._options.fails_on_loss)

    def _up_to(self, target: Offsets, start: Offsets, end: Offsets) -> Offsets:
        """Returns the offsets limited to the target, but never before those that were read already."""
        renewed = self._renewed_of(start)
        least = {tp: 0 if tp.topic in renewed else offset for tp, offset in start.items()}
        return {
            tp: max(min(offset, target.get(tp, 0)), least.get(tp, 0))
            for tp, offset in end.items()
            if tp in target or tp in start
        }

    def _renewal(self, start: Offsets) -> frozenset[str]:
        """Returns the topics that were deleted and created again since ``start``."""
        now = self._offsets.topic_ids
        topics = frozenset(tp.topic for tp in start)
        renewed = frozenset(name for name in topics & now.keys() if self._ids.get(name, now[name]) != now[name])
        if renewed:
            told = f"Topics {', '.join(sorted(renewed))} were deleted and created again"
            data_loss.report(told, fails=self._options.fails_on_loss)
            self._renewed = dict(start), renewed | self._renewed_of(start)
        return self._renewed_of(start)

    def _renewed_of(self, start: Offsets) -> frozenset[str]:
        since, topics = self._renewed
        return topics if since == start else frozenset()

    def _begin_of_renewed(self, start: Offsets, end: Offsets) -> Offsets:
        """Returns where to begin with partitions whose offsets count from 0 again."""
        topics = self._renewed_of(start)
        return self._offsets.earliest({tp for tp in end.keys() & start.keys() if tp.topic in topics})

    def _beginning(self, end: Offsets, start: Offsets) -> Offsets:
        """Returns the first offsets of new partitions."""
        return self._offsets.earliest(end.keys() - start.keys())

    # -- limits ----------------------------------------------------------------------------------------

    def _limited(self, begin: Offsets, end: Offsets) -> Offsets:
        if self._options.max_offsets is not None:
            end = at_most(self._options.max_offsets, begin, end)
        if self._options.max_bytes is not None:
            grown = frozenset(tp for tp, offset in end.items() if offset > begin.get(tp, offset))
            end = at_most_bytes(self._options.max_bytes, begin, end, self._bytes_each(grown))
        return end

    def _bytes_each(self, grown: Partitions) -> Sizes:
        """Returns the average size of each partition's records in the log: compressed, with their batches' headers."""
        first, sizes = self._offsets.earliest(grown), self._offsets.bytes_of(grown)
        last = self._offsets.latest(grown, {})
        return {tp: sizes[tp] / max(1, last[tp] - first[tp]) for tp in grown}


def _changed(tp: TopicPartition, start: Offsets, end: Offsets) -> str:
    return f"Partition {tp}'s offset was changed from {start[tp]} to {end[tp]}"
