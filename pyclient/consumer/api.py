"""The methods that the blocking and the asyncio consumer share, none of which waits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from inspect import getattr_static, isfunction
from operator import index
from typing import Any

from cy.consume.fetched import Chunk
from cy.consume.records import Record, Records, RecordsIterator
from cy.produce.callback_order import check_parameters
from pyclient.config import CONSUMER, Config, load
from pyclient.consumer.appointments import ASSIGNED, LOST, REVOKED
from pyclient.consumer.core import ConsumerCore, Topics
from pyclient.consumer.offsets.commits import OnCommit
from pyclient.consumer.subscription import EARLIEST, LATEST
from pyclient.consumer.types import GroupMetadata, OffsetAndMetadata, RebalanceListener
from pyclient.core.showing import shown
from pyclient.other_names import OF_CONSUMER, knows
from pyclient.topic_partition import TopicPartition, partition_of, partitions_of

__all__ = ["ConsumerApi", "Offsets", "OnCommit", "Topics", "offsets_of", "patience_of", "settings_of"]

Offsets = Mapping[TopicPartition, OffsetAndMetadata | int]


def settings_of(
    bootstrap_servers: Any, config: Mapping[str, Any] | None, settings: Mapping[str, Any]
) -> Config:
    """Returns the consumer's settings. Raises ConfigError."""
    return load(CONSUMER, bootstrap_servers, config, settings)


def patience_of(settings: Config) -> float | None:
    """Returns the seconds after which an iteration without a record ends; None means never."""
    limit: int = settings.consumer_timeout_ms
    return None if limit < 0 else limit / 1000


def offsets_of(offsets: Offsets) -> dict[TopicPartition, OffsetAndMetadata]:
    """Returns the offsets with plain ints as OffsetAndMetadata. Raises TypeError."""
    if not isinstance(offsets, Mapping):
        given = type(offsets).__name__
        raise TypeError(f"{given} has no offsets: pass a mapping {{TopicPartition: offset}}, or a record")
    return {partition_of(tp): offset_of(row) for tp, row in offsets.items()}


def offset_of(given: object) -> OffsetAndMetadata:
    """Returns the offset in the form in which it is committed. Raises TypeError."""
    if isinstance(given, int):
        return OffsetAndMetadata(given)
    if isinstance(given, OffsetAndMetadata):
        return given
    raise TypeError(f"offset {given!r} is neither int nor OffsetAndMetadata")


def offset_behind(record: Record) -> dict[TopicPartition, OffsetAndMetadata]:
    """Returns the offset to commit when this record and those before it are processed."""
    place = TopicPartition(record.topic, record.partition)
    return {place: OffsetAndMetadata(record.offset + 1, record.leader_epoch)}


def listener_of(given: RebalanceListener | None) -> RebalanceListener | None:
    """Returns the listener. Raises TypeError for an object without a listener's methods, and for a class."""
    if given is None:
        return None
    found = [getattr_static(given, name, None) for name in (ASSIGNED, REVOKED, LOST)]
    if isinstance(given, type) and any(isfunction(each) for each in found):
        raise TypeError(f"listener is the class {given.__name__}: pass an instance, {given.__name__}()")
    if not any(hasattr(given, name) for name in (ASSIGNED, REVOKED, LOST)):
        raise TypeError(f"listener {given!r} has no {ASSIGNED} or {REVOKED}: derive a class from RebalanceListener")
    return given


def limit_of(given: int, name: str = "max_records") -> int:
    """Returns how many records a poll may return. Raises TypeError, and ValueError for less than one."""
    try:
        limit = index(given)
    except TypeError:
        raise TypeError(f"{name} must be a number of records, not {given!r}") from None
    if limit < 1:
        raise ValueError(f"{name}={given} is less than 1")
    return limit


@knows(OF_CONSUMER)
class ConsumerApi:
    """Positions, pauses and other state that needs no request. The core's lock guards it."""

    _core: ConsumerCore
    _reading: RecordsIterator | None = None
    """The polled records that ``for record in consumer`` and ``get`` have not returned yet."""

    _is_closed: bool

    def __repr__(self) -> str:
        core = getattr(self, "_core", None)
        if core is None:
            return f"<{type(self).__name__} whose constructor failed>"
        return shown(
            type(self).__name__, core.config, core.client, self._is_closed, **{"group.id": core.config.group_id}
        )

    def metrics(self) -> dict[str, dict[str, float]]:
        """Returns metrics by group and by Kafka's names. Lags are those of the last fetch. The groups
        ``consumer-fetch-manager-metrics.topic-partition`` have the lag of one partition each.
        """
        lags = {tp: lag for tp in self.assignment() if (lag := self.current_lag(tp)) is not None}
        metrics: dict[str, dict[str, float]] = {
            "consumer-metrics": {"connection-count": self._core.client.nodes.connections},
            "consumer-coordinator-metrics": {"assigned-partitions": len(self.assignment())},
            "consumer-fetch-manager-metrics": {"records-lag-max": max(lags.values())} if lags else {},
        }
        return metrics | {f"consumer-fetch-manager-metrics.{tp}": {"records-lag": lag} for tp, lag in lags.items()}

    # -- iteration -----------------------------------------------------------------------------------

    def _unread(self) -> dict[TopicPartition, int]:
        """Returns the offsets of the first records that were polled but not reached by the iteration."""
        if self._reading is None:
            return {}
        return {TopicPartition(*place): offset for place, offset in self._reading.rest().items()}

    def _next(self) -> Record | None:
        """Returns the next polled record, or None if all were returned."""
        reading = self._reading
        if reading is None:
            return None
        before = reading.given
        try:
            record = next(reading, None)
        except BaseException:  # raised by a signal handler: the caller does not get the record
            reading.back_to(before)
            raise
        if record is None:
            self._reading = None
        return record

    def _rewind(self) -> None:
        """Makes the next poll return the records that the iteration did not reach. The reached records do not count as
        processed yet, because the application may still work on the last one.
        """
        rest, reading = self._unread(), self._reading
        with self._core.lock:
            for tp, offset in rest.items():
                state = self._core.subscription.states.get(tp)
                if state is not None and state.position is not None:
                    state.go_back(offset)
        if reading is not None:
            reading.stop()
        self._reading = None
        if rest:
            self._core.fetcher.wake()

    def _intercepted(self, chunks: list[Chunk]) -> Records:
        """Returns the result of ``poll`` after calling the interceptors."""
        records = Records(chunks)
        if chunks and self._core.interceptors:
            self._core.interceptors.on_consume(records)
        return records

    # -- positions -----------------------------------------------------------------------------------

    def assignment(self) -> set[TopicPartition]:
        """Returns the partitions that the consumer currently reads."""
        with self._core.lock:
            return set(self._core.subscription.states)

    def subscription(self) -> set[str]:
        """Returns the subscribed topics. For a pattern these are the matching topics. If the coordinator matches the
        pattern (KIP-848), they are the topics of this consumer's partitions.
        """
        subscription = self._core.subscription
        return set(subscription.topics) if subscription.by_group else set()

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Returns the offset of the next record for each partition that has a position, for ``Producer.send_offsets``.
        """
        found = self._core.positions()
        for tp, offset in self._unread().items():
            if tp in found:
                found[tp] = OffsetAndMetadata(offset, found[tp].leader_epoch)
        return found

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Continues a partition at ``offset``. Raises IllegalState if the partition is not assigned, and ValueError for
        an offset below 0.
        """
        where = offset_of(offset)
        if where.offset < 0:
            raise ValueError(f"offset {where.offset} is below 0")
        self._rewind()
        with self._core.lock:
            self._core.subscription.state(partition_of(partition)).seek(where.offset, where.leader_epoch)
        self._core.fetcher.wake()

    def seek_to_beginning(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Continues at the first record of these partitions, or of all partitions."""
        self._seek_by(partitions, EARLIEST)

    def seek_to_end(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Continues after the last record (with read_committed: at the last stable offset) of these partitions, or of
        all.
        """
        self._seek_by(partitions, LATEST)

    def _seek_by(self, partitions: Iterable[TopicPartition], timestamp: int) -> None:
        wanted = partitions_of(partitions)
        self._rewind()
        core = self._core
        with core.lock:
            for tp in wanted or list(core.subscription.states):
                core.subscription.state(tp).seek_by(timestamp)
        core.client.loop.call_soon_threadsafe(core.on_assignment)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Returns no records of these partitions from ``poll`` until ``resume``. With every protocol and assignor, a
        rebalance keeps the pauses of the partitions that this consumer keeps. In Kafka's own consumer an eager
        rebalance ends all pauses.
        """
        wanted = partitions_of(partitions)
        self._rewind()
        with self._core.lock:
            for tp in wanted:
                self._core.subscription.state(tp).paused = True
        self._core.fetcher.on_pause()

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Reads these partitions again."""
        wanted = partitions_of(partitions)
        with self._core.lock:
            for tp in wanted:
                self._core.subscription.state(tp).paused = False
        self._core.fetcher.wake()

    def paused(self) -> set[TopicPartition]:
        """Returns the paused partitions."""
        with self._core.lock:
            return self._core.subscription.paused()

    def at_end(self) -> set[TopicPartition]:
        """Returns the partitions that were read to the end that the last fetch found, so that their ``current_lag`` is
        0. Newer records may have been written since. A partition is not included before its first fetch.
        """
        return {tp for tp in self.assignment() if self.current_lag(tp) == 0}

    def current_lag(self, partition: TopicPartition) -> int | None:
        """Returns the number of records between the position and the end at the last fetch; None before the first
        fetch.
        """
        tp = partition_of(partition)
        with self._core.lock:
            state = self._core.subscription.state(tp)
            committed = self._core.config.isolation_level == "read_committed"
            end = state.last_stable_offset if committed else state.high_watermark
            position = self._unread().get(tp, state.position)
            return None if end < 0 or position is None else max(0, end - position)

    def group_metadata(self) -> GroupMetadata:
        """Returns this consumer's membership, for ``Producer.send_offsets``. Raises IllegalState without a group."""
        return self._core.commits.identity()

    def wakeup(self) -> None:
        """Ends the waiting poll, or the next one, with WakeupError. Any thread or signal handler may call this."""
        self._core.wakeup()

    def _to_commit(
        self, offsets: Offsets | Record | None, on_commit: OnCommit | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        self._core.commits.of_group()  # raises without one
        if on_commit is not None:
            check_parameters(on_commit, "on_commit", "offsets")
        if offsets is None:
            return self.positions()
        return offset_behind(offsets) if isinstance(offsets, Record) else offsets_of(offsets)
