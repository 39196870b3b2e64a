"""Runs shards: one per partition of an internal topic that this broker leads.

An event goes through four steps, none of which waits, so events never interleave:

1. The shard decides: its ``Result`` has records and replies.
2. The records are appended to the partition (acks=all).
3. They are replayed into the shard, so its durable state matches the log.
4. The replies are sent when the records are durable: at once if this broker is the only in-sync replica, else when the
   high watermark has passed them. Then effects are performed.

If the event raises (1) or the append is refused (2), nothing is written. Every reply of the event becomes an error,
including those of other requests whose tokens the event had taken. ``Result.on_failure`` undoes the changes of the
event. If too few replicas are in sync, the error is delayed, because some clients retry at once. If an accepted append
is not durable in time (4), the reply is an error too. But the state stays, because the log has its records. Only a new
leader could truncate them, and a new leader loads the partition again.

Replies and effects that show durable state (``Result.reads``) wait for earlier writes of other events. So no client
gets an offset that a failover may take back. And no marker is sent for an outcome that this broker has loaded but that
is not on all in-sync replicas. Effects have no timeout: they wait as long as this broker coordinates the partition.

The end of a transaction (``complete_transaction``) is an event too: its marker is appended, replayed, and reported when
it is durable.

Requests for a partition that is still loading wait for it, up to ``LOAD_WAIT_S``: some clients do not retry after
COORDINATOR_LOAD_IN_PROGRESS, and loading is short. If a partition could not be loaded (for example because no file
descriptor was free), loading is repeated after a pause, which doubles. Meanwhile its requests get NOT_COORDINATOR,
because this state may last.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from pybroker.clock import Clock
from pybroker.coordinator import loading
from pybroker.coordinator.batching import builder, parts
from pybroker.coordinator.replies import Promise, coordinator_error, send, settle, why_not
from pybroker.coordinator.shard import (
    Event,
    Moment,
    Producer,
    Reply,
    Result,
    Shard,
)
from pybroker.coordinator.skipping import Skipped
from pybroker.log.appending import Origin
from pybroker.replication.partition import ACKS_ALL, Partition
from pybroker.replication.promises import Appended
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import errors
from pyclient.protocol.errors import KafkaError

if TYPE_CHECKING:
    from pybroker.log.producers.marker import EndTxnMarker

LOAD_WAIT_S = 10.0
FIRST_LOAD_PAUSE_S, LONGEST_LOAD_PAUSE_S = 0.1, 30.0
"""The shortest and longest pause between two attempts to load a partition."""
PROMISE_RETRY_S = 1.0
SHORTEST_REFUSAL_S, LONGEST_REFUSAL_S = 0.1, 2.0
"""The shortest and longest delay of the error that reports too few in-sync replicas."""

S = TypeVar("S", bound=Shard)
Token = asyncio.Future[Any]
Decide = Callable[[S, Result], None]
Perform = Callable[[int, object], None]

logger = logging.getLogger(__name__)


class Replicas(Protocol):
    """The part of ``pybroker.replication.ReplicaManager`` that the runtime uses."""

    def partition(self, topic_partition: TopicPartition) -> Partition: ...

    def append(
        self,
        topic_partition: TopicPartition,
        records: bytes,
        acks: int,
        now_ms: int,
        origin: Origin = ...,
        timeout_ms: int = ...,
    ) -> Appended: ...

    def append_marker(
        self,
        topic_partition: TopicPartition,
        marker: EndTxnMarker,
        now_ms: int,
        timeout_ms: int,
    ) -> Appended: ...

    def promise(self, partition: Partition, last_offset: int, timeout_ms: int) -> Promise | None: ...


class Hosted(Generic[S]):
    """A partition that this broker coordinates."""

    __slots__ = (
        "alarm",
        "alarm_ms",
        "last_offset",
        "leader_epoch",
        "load_pause_s",
        "loading",
        "name",
        "partition",
        "postponed",
        "refused_since_ms",
        "reloading",
        "shard",
        "skipped",
        "waiting",
    )

    def __init__(self, name: TopicPartition, leader_epoch: int, partition: Partition, shard: S) -> None:
        self.name = name
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.shard = shard
        self.skipped = Skipped(name)
        self.loading: asyncio.Task[None] | None = None
        """The task that loads the partition; None once all records are replayed. A task that has ended here failed."""
        self.load_pause_s = FIRST_LOAD_PAUSE_S
        self.reloading: asyncio.TimerHandle | None = None
        """The timer for the next attempt to load."""
        self.last_offset = -1
        """The offset of the last record that is part of the shard's state."""
        self.postponed: list[Decide[S]] = []
        """The events that arrived while the partition was loading."""
        self.refused_since_ms: int | None = None
        """When appends began to be refused because too few replicas are in sync; None if the last append was accepted.
        """
        self.waiting: set[Token] = set()
        self.alarm: asyncio.TimerHandle | None = None
        self.alarm_ms = 0


class Runtime(Generic[S]):
    """The shards of one internal topic on this broker.

    ``perform(partition, effect)`` carries out one effect of an event, when the event's records are durable. It must not
    raise.
    """

    def __init__(
        self,
        topic: str,
        make_shard: Callable[[int], S],
        replicas: Replicas,
        clock: Clock,
        *,
        append_timeout_ms: int,
        codec: int = 0,
        perform: Perform | None = None,
    ) -> None:
        self.topic = topic
        self._make_shard = make_shard
        self._replicas = replicas
        self._clock = clock
        self._append_timeout_ms = append_timeout_ms
        self._codec = codec
        self._do = perform or _nothing_to_do
        self._hosted: dict[int, Hosted[S]] = {}
        self._loop = asyncio.get_running_loop()

    # # Leadership

    def on_leadership(self, name: TopicPartition, leader_epoch: int | None) -> None:
        """Notes that this broker leads the partition in that epoch; with None, that it no longer leads it."""
        if name.topic != self.topic:
            return
        known = self._hosted.get(name.partition)
        if known is not None:
            if known.leader_epoch == leader_epoch:
                return
            self._unload(known)
        if leader_epoch is not None:
            partition = self._replicas.partition(name)
            hosted = Hosted(name, leader_epoch, partition, self._make_shard(name.partition))
            self._hosted[name.partition] = hosted
            self._begin_load(hosted)

    def _begin_load(self, hosted: Hosted[S]) -> None:
        hosted.reloading = None
        hosted.loading = self._loop.create_task(self._load(hosted))

    async def _load(self, hosted: Hosted[S]) -> None:
        try:
            hosted.last_offset = await loading.load(hosted.partition.log, hosted.shard) - 1
        except Exception as error:
            pause_s = hosted.load_pause_s
            trace = None if isinstance(error, errors.KafkaStorageError) else error
            logger.error("%s cannot be loaded, retry in %g s: %s", hosted.name, pause_s, error, exc_info=trace)
            hosted.load_pause_s = min(2 * pause_s, LONGEST_LOAD_PAUSE_S)
            hosted.shard = self._make_shard(hosted.name.partition)
            hosted.reloading = self._loop.call_later(pause_s, self._begin_load, hosted)
            return
        hosted.loading = None
        self._perform(hosted, hosted.shard.loaded)
        postponed, hosted.postponed = hosted.postponed, []
        for event in postponed:
            self._tell(hosted, event)

    def _unload(self, hosted: Hosted[S]) -> None:
        del self._hosted[hosted.name.partition]
        if hosted.loading is not None:
            hosted.loading.cancel()
        for timer in (hosted.reloading, hosted.alarm):
            if timer is not None:
                timer.cancel()
        for token in tuple(hosted.waiting):
            settle(token, errors.NotCoordinator(f"another broker leads {hosted.name} now"))

    def close(self) -> None:
        """Unloads every partition; waiting requests get NOT_COORDINATOR."""
        for hosted in tuple(self._hosted.values()):
            self._unload(hosted)

    def is_hosted(self, partition: int, leader_epoch: int | None = None) -> bool:
        """Returns whether this broker coordinates the partition (in that epoch), loaded or not."""
        hosted = self._hosted.get(partition)
        return hosted is not None and leader_epoch in (None, hosted.leader_epoch)

    def leader_epoch(self, partition: int) -> int:
        """Returns the epoch in which this broker leads the partition. Raises NotCoordinator."""
        hosted = self._hosted.get(partition)
        if hosted is None:
            raise errors.NotCoordinator(f"this broker does not lead {self.topic}-{partition}")
        return hosted.leader_epoch

    def is_fenced(self, partition: int, producer: Producer) -> bool:
        """Returns whether the partition's log has a newer epoch of the producer. Raises NotCoordinator."""
        hosted = self._hosted.get(partition)
        if hosted is None:
            raise errors.NotCoordinator(f"this broker does not lead {self.topic}-{partition}")
        return hosted.partition.log.producers.is_fenced(producer.id, producer.epoch)

    def loaded_shard(self, partition: int) -> S | None:
        """Returns the partition's shard, to read from it without an event; None until it is loaded."""
        hosted = self._hosted.get(partition)
        return None if hosted is None or hosted.loading is not None else hosted.shard

    def loaded_shards(self) -> list[S]:
        """Returns the loaded shards."""
        return [hosted.shard for hosted in self._hosted.values() if hosted.loading is None]

    # Events

    async def submit(self, partition: int, decide: Decide[S]) -> Any:
        """Runs ``decide(shard, result)`` on the partition's shard, and returns its reply.

        Raises the KafkaError that answers the request: NotCoordinator, CoordinatorLoadInProgress,
        CoordinatorNotAvailable, or an error of the shard.
        """
        hosted = self._hosted.get(partition)
        if hosted is None or hosted.loading is not None:
            hosted = await self._when_loaded(partition)
        token: Token = self._loop.create_future()
        shard = hosted.shard
        self._perform(hosted, lambda result: decide(shard, result), token)
        if not token.done():
            hosted.waiting.add(token)
            token.add_done_callback(hosted.waiting.discard)
        try:
            return await token
        finally:
            del token  # # it refers to an error that refers to this frame

    async def _when_loaded(self, partition: int) -> Hosted[S]:
        hosted = self._hosted.get(partition)
        if hosted is not None and hosted.loading is not None:
            await asyncio.wait([hosted.loading], timeout=LOAD_WAIT_S)
            hosted = self._hosted.get(partition)
        if hosted is None:
            raise errors.NotCoordinator(f"this broker does not lead {self.topic}-{partition}")
        if hosted.loading is not None and hosted.loading.done():
            raise errors.NotCoordinator(f"{hosted.name} could not be loaded yet")
        if hosted.loading is not None:
            raise errors.CoordinatorLoadInProgress(f"{hosted.name} is being loaded")
        return hosted

    async def on_every_shard(self, decide: Decide[S]) -> list[Any]:
        """Runs ``decide`` on all shards and returns the replies. Leaves out shards that this broker loses meanwhile."""
        replies = []
        for partition in tuple(self._hosted):
            try:
                replies.append(await self.submit(partition, decide))
            except errors.NotCoordinator:
                continue
        return replies

    async def complete_transaction(self, partition: int, marker: EndTxnMarker) -> None:
        """Ends a transaction in the partition; returns when the marker is durable.

        Raises NotCoordinator, CoordinatorLoadInProgress, and the errors of ``Replicas.append_marker``.
        """
        hosted = self._hosted.get(partition)
        if hosted is None or hosted.loading is not None:
            hosted = await self._when_loaded(partition)
        now_ms = self._clock.now_ms()
        appended = self._replicas.append_marker(
            hosted.name, marker, now_ms, self._append_timeout_ms
        )
        hosted.last_offset = appended.info.last_offset
        producer = Producer(marker.producer_id, marker.producer_epoch)
        hosted.shard.replay_marker(producer, marker.committed)
        if appended.done is not None:
            await appended.done

    def tell(self, partition: int, event: Decide[S]) -> None:
        """Runs an event on the partition's shard, now or when it is loaded. Without the shard, it does nothing."""
        hosted = self._hosted.get(partition)
        if hosted is not None:
            self._tell(hosted, event)

    def tell_all(self, event: Decide[S]) -> None:
        """Runs an event on every shard, now or when it is loaded."""
        for hosted in tuple(self._hosted.values()):
            self._tell(hosted, event)

    def _tell(self, hosted: Hosted[S], event: Decide[S]) -> None:
        if hosted.loading is None:
            self._perform(hosted, partial(event, hosted.shard))
        else:
            hosted.postponed.append(event)

    def _moment(self) -> Moment:
        return Moment(self._clock.now_ms(), self._clock.monotonic_ms())

    def _perform(self, hosted: Hosted[S], event: Event, token: Token | None = None) -> None:
        result = Result(self._moment(), token)
        try:
            event(result)
        except KafkaError as error:
            settle(token, error)
            self._abandon(hosted, result, errors.CoordinatorNotAvailable(str(error)))
        except Exception:
            logger.exception("%s: an event failed", hosted.name)
            settle(token, errors.UnknownServerError())
            self._abandon(hosted, result, errors.CoordinatorNotAvailable("an event failed"))
        else:
            self._carry_out(hosted, result)
        self._set_alarm(hosted)

    def _carry_out(self, hosted: Hosted[S], result: Result) -> None:
        """Writes the records, and sends the replies when they are durable."""
        promise = None
        try:
            if result.records:
                promise = self._write(hosted, result)
            elif result.reads:
                promise = self._settled(hosted)
        except KafkaError as error:
            logger.warning("%s: an append was refused: %s", hosted.name, error)
            self._abandon(hosted, result, coordinator_error(error), self._patience_s(hosted, error))
        except Exception:
            logger.exception("%s: an append failed", hosted.name)
            self._abandon(hosted, result, errors.UnknownServerError())
        else:
            send(result.replies, promise)
            if result.effects:
                self._when_safe(hosted, result.effects, promise)

    def _when_safe(self, hosted: Hosted[S], effects: list[object], promise: Promise | None) -> None:
        """Performs the effects once the promise succeeds; requests another promise if this one timed out."""
        if not self._hosts(hosted):
            return
        if promise is not None and not promise.done():
            promise.add_done_callback(partial(self._when_safe, hosted, effects))
        elif promise is None or why_not(promise) is None:
            for effect in effects:
                self._do(hosted.name.partition, effect)
        else:
            self._loop.call_later(PROMISE_RETRY_S, self._ask_again, hosted, effects)

    def _ask_again(self, hosted: Hosted[S], effects: list[object]) -> None:
        if not self._hosts(hosted):
            return
        try:
            promise = self._replicas.promise(
                hosted.partition, hosted.last_offset, self._append_timeout_ms
            )
        except KafkaError:
            self._loop.call_later(PROMISE_RETRY_S, self._ask_again, hosted, effects)
        else:
            self._when_safe(hosted, effects, promise)

    def _hosts(self, hosted: Hosted[S]) -> bool:
        return self._hosted.get(hosted.name.partition) is hosted

    def _write(self, hosted: Hosted[S], result: Result) -> Promise | None:
        now_ms = result.now.wall_ms
        producer = result.producer
        whole = result.atomic or len(result.records) == 1
        for records in (result.records,) if whole else parts(result.records):
            batch = builder(self._codec, producer)
            for key, value in records:
                batch.append(now_ms, key, value)
            appended = self._replicas.append(
                hosted.name,
                batch.build(),
                ACKS_ALL,
                now_ms,
                Origin.COORDINATOR,
                self._append_timeout_ms,
            )
            hosted.last_offset = appended.info.last_offset
            hosted.refused_since_ms = None
            for record in records:
                hosted.skipped.replay(hosted.shard, record, producer)
        promise: Promise | None = appended.done
        return promise

    def _settled(self, hosted: Hosted[S]) -> Promise | None:
        """Returns the promise that the shard's whole state is durable.

        For this promise, the replicas in sync are enough, even if they are fewer than ``min.insync.replicas`` by now.
        """
        try:
            return self._replicas.promise(
                hosted.partition, hosted.last_offset, self._append_timeout_ms
            )
        except errors.NotEnoughReplicasAfterAppend:
            return None

    def _patience_s(self, hosted: Hosted[S], error: KafkaError) -> float:
        """Returns how long to delay the answer to a refused append: the time since appends were first refused.

        Some clients (librdkafka) join again as soon as they get the error, thousands of times while too few replicas
        are in sync. Each join makes another generation of the group.
        """
        if not isinstance(error, errors.NotEnoughReplicas):
            return 0.0
        now_ms = self._clock.monotonic_ms()
        if hosted.refused_since_ms is None:
            hosted.refused_since_ms = now_ms
        lasted_s = (now_ms - hosted.refused_since_ms) / 1000
        return min(max(lasted_s, SHORTEST_REFUSAL_S), LONGEST_REFUSAL_S)

    def _abandon(
        self, hosted: Hosted[S], result: Result, told: KafkaError, after_s: float = 0.0
    ) -> None:
        """Answers the requests of an event with the error, because nothing was written."""
        replies = [Reply(token, told) for token, _ in result.replies]
        if after_s:
            self._loop.call_later(after_s, send, replies, None)
        else:
            send(replies, None)
        on_failure = result.on_failure
        if on_failure is not None:
            self._perform(hosted, lambda next: on_failure(next, told))

    # Timers

    def _set_alarm(self, hosted: Hosted[S]) -> None:
        deadline_ms = hosted.shard.timers.next_deadline_ms
        if deadline_ms is None or (hosted.alarm is not None and hosted.alarm_ms <= deadline_ms):
            return
        if hosted.alarm is not None:
            hosted.alarm.cancel()
        wait_ms = max(0, deadline_ms - self._clock.monotonic_ms())
        hosted.alarm_ms = deadline_ms
        hosted.alarm = self._loop.call_later(wait_ms / 1000, self._ring, hosted)

    def _ring(self, hosted: Hosted[S]) -> None:
        hosted.alarm = None
        now_ms = self._clock.monotonic_ms()
        while (timer := hosted.shard.timers.pop(now_ms)) is not None:
            self._perform(hosted, timer.action)
        self._set_alarm(hosted)


def _nothing_to_do(partition: int, effect: object) -> None:
    raise TypeError(f"unknown effect {effect!r}")
