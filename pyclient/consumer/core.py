"""The part that the blocking and the asyncio consumer share.

``take`` and what it uses (subscription, buffer) run on any one thread, under the lock. Coroutines and callbacks run on
the client's loop. The two consumers add the waiting. ``on_ready`` is called when a waiting poll should look again.
``on_wakeup`` does the same from any thread or signal handler. Neither may wait for a lock.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import time
from collections.abc import Callable, Collection, Coroutine, Iterator
from typing import Any, Final

from cy.client import held_signals
from cy.client.signal_safe_lock import SignalSafeLock
from cy.consume.fetched import Chunk
from cy.seconds import seconds
from pyclient.config import Config
from pyclient.consumer.alone import Alone
from pyclient.consumer.appointments import SETTLE, Appointments
from pyclient.consumer.errors import IllegalState
from pyclient.consumer.fetching.fetcher import NO_LIMIT, READ_COMMITTED, Fetcher
from pyclient.consumer.group.classic import ClassicMembership
from pyclient.consumer.group.modern import ConsumerMembership
from pyclient.consumer.interceptors import Interceptors
from pyclient.consumer.missing import tell_missing
from pyclient.consumer.offsets.commits import Commits
from pyclient.consumer.offsets.list_offsets import OffsetLookup
from pyclient.consumer.offsets.positions import PositionFinder
from pyclient.consumer.poll_errors import PollErrors
from pyclient.consumer.questions import Questions
from pyclient.consumer.readers import reader
from pyclient.consumer.subscription import PartitionState, Subscription
from pyclient.consumer.types import OffsetAndMetadata
from pyclient.core.client import Client
from pyclient.core.cluster import Cluster
from pyclient.core.metadata import may_pass
from pyclient.core.reports.rights import CONSUMING
from pyclient.core.tasks import ended, watched
from pyclient.errors import KafkaError, RequestTimedOut, WakeupError
from pyclient.protocol.errors import InvalidTopicException, TopicAuthorizationFailed
from pyclient.topic_name import check_topics
from pyclient.topic_partition import TopicPartition

log = logging.getLogger(__name__)

LOOK_S: Final = 1.0
"""Seconds to wait for a topic's metadata, before the topic counts as missing."""
PAUSE_S: Final = 0.1
"""Seconds between attempts to reach the cluster."""

Topics = str | Collection[str] | re.Pattern[str]


class ConsumerCore:
    """One consumer. Any thread may create it; ``start`` runs on the loop before anything else."""

    def __init__(self, config: Config, loop: asyncio.AbstractEventLoop) -> None:
        self.config = config
        self.client = Client(config, loop=loop, separate_coordinators=True, needs=CONSUMING)
        held_signals.guard()  # because the lock holds signals back
        self.lock = SignalSafeLock()
        self.subscription = Subscription()
        self.interceptors = Interceptors(config)
        self.appointments = Appointments(loop, lambda: self.on_ready())
        self.has_listener = False
        self.on_ready: Callable[[], None] = lambda: None
        self.on_wakeup: Callable[[], None] = lambda: None
        self.is_started = self.is_closed = self._is_polling = self._wakeup = False
        self._last_poll = time.monotonic()
        self._given: list[PartitionState] = []
        self._errors = PollErrors()
        self._tasks: set[asyncio.Task[None]] = set()
        self._opening: asyncio.Task[None] | None = None
        self.timeout: float = config.default_api_timeout_ms / 1000
        self.client.uses(self._topics_in_use)
        isolation = READ_COMMITTED if config.isolation_level == "read_committed" else 0
        lookup = OffsetLookup(self.client, isolation, self.timeout)
        self.questions = Questions(self.client, lookup, self.start)
        self.commits = Commits(
            self.client,
            config,
            self.subscription,
            self.lock,
            self.interceptors,
            lambda: self.membership,
            self.hold,
        )
        self._positions = PositionFinder(
            self.client, config, self.subscription, self.lock, lookup, self.commits.committed, self, time.time
        )
        self.fetcher = Fetcher(
            self.client,
            config,
            self.subscription,
            self.lock,
            readers=(reader(config.key_deserializer, "key"), reader(config.value_deserializer, "value")),
            on_ready=lambda: self.on_ready(),
            on_reset=self._positions.reset,
            on_error=self.on_error,
        )
        modern = ConsumerMembership if config.group_protocol == "consumer" else ClassicMembership
        self.membership: ClassicMembership | ConsumerMembership | Alone = (modern if config.group_id else Alone)(
            self.client, config, self.subscription, self.lock, self.appointments, self
        )

    async def start(self, timeout: float | None = None) -> None:
        """Connects. Does nothing if already connected. Raises ConnectionFailed."""
        await self.client.start(timeout)
        if self.is_started:
            return
        self.is_started = True
        self.client.cluster.subscribe(self._on_metadata)
        self.commits.start()

    # -- subscription: on the loop -------------------------------------------------------------------------

    def check_topics(self, topics: Topics) -> Topics:
        """Returns the pattern, or the names as a list. Raises TypeError and InvalidTopicException."""
        if isinstance(topics, re.Pattern):
            return topics
        try:
            return check_topics(topics)
        except InvalidTopicException as error:
            raise InvalidTopicException(f"{error}; for a pattern, pass re.compile(…)") from None

    def choose(self, topics: Topics, has_listener: bool) -> None:
        """Subscribes to these topics, or to those that match the pattern, without sending a request."""
        topics = self.check_topics(topics)
        self.has_listener = has_listener
        self._errors.forget()
        with self.lock:
            if isinstance(topics, re.Pattern):
                self.subscription.subscribe_pattern(topics)
            else:
                self.subscription.subscribe(topics)

    async def subscribe(self, topics: Topics, has_listener: bool) -> None:
        """Reads the partitions that the group assigns to this consumer; without a group, all partitions of the topics.
        """
        if not isinstance(topics, re.Pattern) and not topics:
            await self.unsubscribe()
            return
        self.choose(topics, has_listener)
        await self._end_opening()
        await self._join()

    async def _join(self) -> None:
        member, subscription = self.membership, self.subscription
        if subscription.pattern is None:
            self.hold(self._look_for(subscription.topics))
        else:
            with self.lock:
                subscription.regex = member.regex_of(subscription.pattern)
            self.client.watch_all(subscription.is_matched_here)
            if subscription.is_matched_here:
                await self.client.all_topics()
                self._match()
        member.start()
        member.subscription_changed()

    def open(self, topics: Topics, has_listener: bool) -> None:
        """Subscribes without waiting for the cluster. If it cannot be reached in time, ``poll`` raises the reason."""
        self.choose(topics, has_listener)
        self._opening = watched(self.client.loop, self._open(), "the subscription", self.on_fault)

    async def _open(self) -> None:
        while True:
            try:
                await self.start()
                if self.subscription.by_group:
                    await self._join()
                return
            except KafkaError as error:
                self.on_error(error)
                if not error.retriable:
                    raise
            await asyncio.sleep(PAUSE_S)

    async def _end_opening(self) -> None:
        """Cancels the work of ``open`` if it has not ended, because another subscription replaces it."""
        opening, self._opening = self._opening, None
        if opening is not None and not opening.done():
            await ended(opening)

    async def _look_for(self, topics: Collection[str]) -> None:
        """Keeps the metadata of the topics fresh, and logs which are missing. Requests a denied topic again at each
        poll.
        """
        backoff = self.client.backoff()
        while self.subscription.by_group and self.subscription.topics is topics:
            try:
                await self.client.metadata(topics, timeout=LOOK_S)
            except KafkaError as error:
                if not may_pass(error):
                    self.on_error(error)
                if isinstance(error, TopicAuthorizationFailed):
                    await self.appointments.at_poll(SETTLE)
                    await asyncio.sleep(backoff.next())
                    continue
            break
        firsts = [TopicPartition(topic, 0) for topic in topics]
        for topic, _ in tell_missing(self.client, f"{self._name()} subscribes to missing topics", firsts):
            if isinstance(self.membership, Alone):
                self.membership.is_missing(topic)

    def _name(self) -> str:
        return f"group {self.config.group_id}" if self.config.group_id else "a consumer without a group"

    def _topics_in_use(self) -> dict[str, bool]:
        watched = self.membership.watched_topics()
        with self.lock:
            return self.subscription.topics_in_use(watched, self.client.may_create)

    def _match(self) -> bool:
        cluster, hides = self.client.cluster, self.config.exclude_internal_topics
        names = [name for name in cluster.topics() if not (hides and cluster.is_internal(name))]
        with self.lock:
            return self.subscription.match(names)

    def _on_metadata(self, cluster: Cluster, topics: frozenset[str]) -> None:
        self.client.loop.call_soon(self.fetcher.pump)
        if not self.subscription.by_group:
            return
        if self.subscription.is_matched_here and self._match():
            self.membership.subscription_changed()
        else:
            self.membership.topics_changed(topics)

    async def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Reads these partitions, without a group's assignment."""
        check_topics(tp.topic for tp in partitions)
        self._errors.forget()
        with self.lock:
            self.subscription.assign(partitions)
        self.on_assignment()
        self.hold(self._look_for_assigned(partitions))

    async def _look_for_assigned(self, partitions: Collection[TopicPartition]) -> None:
        """Logs which of these partitions do not exist. The search for positions reports all other failures."""
        with contextlib.suppress(KafkaError):
            await self.client.metadata({tp.topic for tp in partitions}, timeout=LOOK_S)
        held = [tp for tp in partitions if tp in self.subscription.states]
        tell_missing(self.client, f"{self._name()} is assigned missing partitions", held)

    async def assign_range(self, tp: TopicPartition, start: int, end: int) -> None:
        """Reads only this partition, from ``start`` up to ``end``. Raises UnknownTopicOrPartition."""
        check_topics([tp.topic])
        await self.client.metadata([tp.topic])
        self._errors.forget()
        with self.lock:
            self.subscription.assign_range(tp, start, end)
        self.on_assignment()

    async def unsubscribe(self) -> None:
        """Stops reading, and leaves the group."""
        await self._end_opening()
        if self.subscription.by_group:
            await self.membership.stop()
            await self.commit_settled()
            with contextlib.suppress(KafkaError):
                await self.membership.leave("the consumer unsubscribed from all topics")
            self.client.watch_all(False)
        self._errors.forget()
        with self.lock:
            self.subscription.unsubscribe()

    async def commit_settled(self) -> None:
        """Commits settled records. The group's membership calls this before partitions are given up."""
        await self.commits.commit_settled()

    def on_assignment(self) -> None:
        """Called when partitions may be without positions."""
        self._positions.start()
        self.fetcher.pump()

    def on_positions(self) -> None:
        """Called when positions were found."""
        self.fetcher.pump()
        self.on_ready()

    # -- polling: the application's thread ---------------------------------------------------------------

    def on_error(self, error: KafkaError, holds: Callable[[], bool] = lambda: True) -> None:
        """Makes the next poll raise this, if ``holds()`` is still true then. A seek in between makes it false."""
        self._errors.put(error, holds)
        self.on_ready()

    def on_fault(self, error: KafkaError) -> None:
        """Makes each poll raise this, until another subscription. Called when a background task has ended unexpectedly.
        """
        self._errors.lasting = error
        self.on_error(error)

    @contextlib.contextmanager
    def polling(self) -> Iterator[None]:
        """Returns the context of a poll. The last poll's records count as processed, and the application counts as
        alive.
        """
        self.settle()
        self._is_polling = True
        try:
            yield
        finally:
            self._last_poll = time.monotonic()
            self._is_polling = False

    def settle(self) -> None:
        """Marks the records that polls have returned as processed."""
        with self.lock:
            for state in self._given:
                state.settle()
            self._given.clear()

    def check(self) -> None:
        """Raises the error that waits for a poll."""
        self.client.check_process()
        if self._wakeup:
            self._wakeup = False
            raise WakeupError
        if self.is_closed:
            raise self.client.closed()
        error = self._errors.take() or self._errors.lasting
        if error is not None:
            raise error

    def check_wait(self) -> None:
        """Raises IllegalState if there is nothing to wait for, as Java's client does."""
        if self.subscription.is_empty:
            how = "call subscribe() or assign() first, and await it in pyclient.aio"
            raise IllegalState(f"poll() without a subscription: {how}")

    def take(self, limit: int, most: int = NO_LIMIT) -> list[Chunk]:
        """Returns the next records, at most ``limit`` records and ``most`` bytes. Raises errors of fetches."""
        with self.lock:
            chunks = self.fetcher.take(limit, most)
            states = self.subscription.states
            for chunk in chunks:
                self._given.append(states[TopicPartition(chunk.topic, chunk.partition)])
        return chunks

    def wakeup(self) -> None:
        """Makes the waiting poll, or the next one, raise WakeupError. Any thread or signal handler may call this."""
        self._wakeup = True
        self.on_wakeup()

    def poll_is_late(self) -> bool:
        """Returns whether the application has not polled for max.poll.interval.ms."""
        limit: float = self.config.max_poll_interval_ms / 1000
        return not self._is_polling and time.monotonic() - self._last_poll > limit

    def hold(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs the work in the background, on the loop."""
        task = watched(self.client.loop, work, "a background task of the consumer", self.on_fault)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- where it stands ---------------------------------------------------------------------------------

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Returns the offset of the next record for each partition that has a position."""
        with self.lock:
            return {
                tp: OffsetAndMetadata(state.position, state.epoch)
                for tp, state in self.subscription.states.items()
                if state.position is not None
            }

    async def position(self, tp: TopicPartition, timeout: float | None) -> int:
        """Returns the offset of the next record, once it is known. Raises RequestTimedOut."""
        seconds(timeout)
        deadline = self.client.clock() + (self.timeout if timeout is None else timeout)
        while True:
            with self.lock:
                position = self.subscription.state(tp).position
            if position is not None:
                return position
            error = self._errors.take()
            if error is not None:
                raise error
            if self.client.clock() > deadline:
                raise RequestTimedOut(f"the position of {tp} was not found in time")
            await asyncio.sleep(0.005)

    # -- the end -----------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Stops all background work: connecting, joining and auto-commit."""
        self.commits.stop()
        try:
            await self._end_opening()
        finally:
            await self.membership.stop()

    async def end(self) -> None:
        """Closes everything that needs no broker. Polls raise ClientClosed from now on."""
        self.is_closed = True
        self.fetcher.close()
        try:
            await self._positions.close()
        finally:
            try:
                await self.client.close()
            finally:
                for task in self._tasks:
                    task.cancel()
                self.interceptors.close()
                self.on_ready()
