"""Asks the brokers, for the driver, which partitions exist, and where they begin and end.

A request that fails is sent again (``fetchOffset.numRetries``), unless no broker could be reached during all of
``default.api.timeout.ms``. A request for the latest offsets is also repeated if the answer is lower than known offsets:
a newly elected leader may not know its high watermark yet.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, TypeVar

from pyclient import Admin
from pyclient.config import ADMIN
from pyclient.errors import ConfigError, ConnectionFailed, KafkaError, UnsupportedByBroker
from pyclient.protocol.errors import UnknownTopicOrPartition
from pyclient.spark.source.offsets import EARLIEST, LATEST, Edge, Offsets, Place, Specific, Time, Times, named
from pyclient.spark.source.source_options import SourceOptions
from pyclient.topic_partition import TopicPartition

log = logging.getLogger(__name__)

T = TypeVar("T")
Partitions = frozenset[TopicPartition]
ID_S: Final = 5.0
"""How long a broker may take to describe a topic."""
_LASTING: Final = (ConfigError, ConnectionFailed, UnsupportedByBroker)


class LogOffsets:
    """The log offsets of the partitions that a source reads. Not thread-safe. Connects on first use."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._kept: Admin | None = None
        self.topic_ids: dict[str, str] = {}
        """The ids of the topics, as found last."""

    @property
    def admin(self) -> Admin:
        """The client, created on first use."""
        if self._kept is None:
            settings = {name: text for name, text in self._options.client.items() if name in ADMIN}
            self._kept = Admin(config=settings)
        return self._kept

    def close(self) -> None:
        """Closes the connections to the brokers."""
        kept, self._kept = self._kept, None
        if kept is not None:
            kept.close()

    # -- partitions ------------------------------------------------------------------------------------

    def partitions(self, *, missing_is_error: bool = True) -> Partitions:
        """Returns the partitions to read now. A missing topic counts as one without partitions, or raises
        UnknownTopicOrPartition.
        """
        return self._asked(lambda: self._partitions(missing_is_error))

    def _partitions(self, missing_is_error: bool) -> Partitions:
        found = self.admin.describe_topics(self._topics(), check=missing_is_error)
        for error in found.errors.values():
            if not isinstance(error, UnknownTopicOrPartition):
                raise error
        self.topic_ids = {name: topic.topic_id for name, topic in found.items()}
        there = frozenset(
            TopicPartition(name, row.partition) for name, topic in found.items() for row in topic.partitions
        )
        assigned = self._assigned()
        if assigned is None:
            return there
        if missing_is_error and not assigned <= there:
            raise ConfigError(f"assign names partitions that do not exist: {named(assigned - there)}")
        return there & assigned

    def _assigned(self) -> Partitions | None:
        subscribed = self._options.subscribed
        return frozenset(subscribed) if self._options.is_assigned else None  # type: ignore[arg-type]

    def _topics(self) -> list[str]:
        subscribed = self._options.subscribed
        if isinstance(subscribed, re.Pattern):
            return [name for name in self.admin.list_topics() if subscribed.fullmatch(name)]
        assigned = self._assigned()
        return list(subscribed) if assigned is None else sorted({tp.topic for tp in assigned})  # type: ignore[arg-type]

    def id_of(self, topic: str) -> str | None:
        """Returns the current id of a topic, None if the topic is missing. Asks once, with a short time-out."""
        found = self.admin.describe_topics([topic], timeout=ID_S, check=False)
        return found[topic].topic_id if topic in found else None

    # -- offsets ---------------------------------------------------------------------------------------

    def earliest(self, partitions: Collection[TopicPartition]) -> Offsets:
        """Returns the first offset of each partition."""
        return self._listed(dict.fromkeys(partitions, EARLIEST))

    def latest(self, partitions: Collection[TopicPartition], known: Mapping[TopicPartition, int]) -> Offsets:
        """Returns the offset after the last record of each partition; with read_committed, after the last decided one.
        If it is lower than the known offset, asks again, and accepts the last answer.
        """
        for left in range(self._options.retries, -1, -1):
            found = self._listed(dict.fromkeys(partitions, LATEST))
            back = [tp for tp, offset in found.items() if offset < known.get(tp, 0)]
            if not back or not left:
                break
            log.warning("the latest offsets of %s are lower than before: asking again", named(back))
            self._pause()
        return found

    def at(self, place: Place, partitions: Partitions, *, is_start: bool) -> Offsets:
        """Returns the offset of each partition at a position. Raises ConfigError if a position by partition does not
        name all partitions, or if no record is at or after the time to start at.
        """
        if isinstance(place, Edge):
            return self._listed(dict.fromkeys(partitions, place.offset))
        if isinstance(place, Specific):
            _check_names(place.offsets, partitions, is_start)
            edges = {tp: offset for tp, offset in place.offsets.items() if offset < 0}
            return {**place.offsets, **self._listed(edges)}
        times = dict.fromkeys(partitions, place.ms) if isinstance(place, Time) else dict(place.times)
        if isinstance(place, Times):
            _check_names(times, partitions, is_start)
        return self._at_times(times, is_start)

    def after(self, times: Mapping[TopicPartition, int]) -> Offsets:
        """Returns the offset of the first record at or after a time (ms), or the end if there is none."""
        found = self._listed(times)
        ends = self._listed({tp: LATEST for tp, offset in found.items() if offset < 0})
        return {**found, **ends}

    def _at_times(self, times: Mapping[TopicPartition, int], is_start: bool) -> Offsets:
        found = self._listed(times)
        late = [tp for tp, offset in found.items() if offset < 0]
        if late and is_start and not self._options.starts_latest_without_match:
            tp = min(late)
            raise ConfigError(f"No offset matched from request of topic-partition {tp} and timestamp {times[tp]}.")
        return {**found, **self._listed(dict.fromkeys(late, LATEST))}

    def _listed(self, specs: Mapping[TopicPartition, int]) -> Offsets:
        """Returns offsets by a time, EARLIEST or LATEST. An offset is -1 if no record is that late."""
        if not specs:
            return {}
        isolation = self._options.isolation
        rows = self._asked(lambda: self.admin.list_offsets(specs, isolation_level=isolation))
        return {tp: row.offset for tp, row in rows.items()}

    # -- sizes -----------------------------------------------------------------------------------------

    def bytes_of(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Returns the size of each partition's log, the largest if replicas differ."""
        dirs = self._asked(lambda: self.admin.describe_log_dirs(partitions=partitions))
        sizes = dict.fromkeys(partitions, 0)
        for rows in (row for results in dirs.values() for row in results.values()):
            for tp, replica in rows.replicas.items():
                if tp in sizes:
                    sizes[tp] = max(sizes[tp], replica.size)
        return sizes

    # -- patience --------------------------------------------------------------------------------------

    def _asked(self, question: Callable[[], T]) -> T:
        for left in range(self._options.retries, -1, -1):
            try:
                return question()
            except KafkaError as error:
                if not left or isinstance(error, _LASTING):
                    raise
                log.warning("asking for offsets again: %s", error)
                self._pause()
        raise AssertionError("the last attempt returns or raises")

    def _pause(self) -> None:
        time.sleep(self._options.retry_interval_ms / 1000)


def _check_names(given: Mapping[TopicPartition, Any], partitions: Iterable[TopicPartition], is_start: bool) -> None:
    which = "startingOffsets" if is_start else "endingOffsets"
    if given.keys() != set(partitions):
        raise ConfigError(
            f"If {which} contains specific offsets, you must specify all TopicPartitions. Use -1 for latest, "
            f"-2 for earliest. Specified: {named(given)} Assigned: {named(partitions)}"
        )
