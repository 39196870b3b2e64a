"""Keeps the cluster's metadata as fresh as those who use it need it.

A request is made at once when a topic is wanted that is not known, soon after something turned out
to be stale, and every metadata.max.age.ms. There is one at a time; wishes that come meanwhile go
into the next. When it fails, or leaves wishes open, the next one waits for a back-off.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection
from functools import partial

from pyclient.core.backoff import Backoff
from pyclient.core.cluster import Cluster
from pyclient.errors import ClientClosed, ClientError, KafkaError, RequestTimedOut, check
from pyclient.protocol import Metadata
from pyclient.protocol.errors import InvalidReplicationFactor, LeaderNotAvailable, UnknownTopicOrPartition

Ask = Callable[[Callable[[int], Metadata.Request]], Awaitable[Metadata.Response]]


def may_pass(error: KafkaError) -> bool:
    """Whether a topic that has this error may be there later: too few brokers for a new one may be more soon."""
    return error.retriable or isinstance(error, InvalidReplicationFactor)


def _hint(error: KafkaError) -> str:
    if isinstance(error, LeaderNotAvailable):
        return " A new topic may lack brokers for its default.replication.factor: their log says so."
    return ""


class MetadataKeeper:
    """Refreshes ``cluster`` by ``ask``, which sends a Metadata request to any broker. Seconds."""

    def __init__(
        self,
        cluster: Cluster,
        ask: Ask,
        backoff: Backoff,
        max_age: float,
        clock: Callable[[], float],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.cluster = cluster
        self.trouble: KafkaError | None = None
        """Why the last request failed; None after one that did not."""
        self.watches_all = False
        self.on_update: Callable[[], None] = lambda: None
        self._ask = ask
        self._backoff = backoff
        self._max_age = max_age
        self._clock = clock
        self._loop = loop
        self._wanted: dict[str, bool] = {}  # topic -> whether the broker may create it
        self._all_wish = 0  # the last wish for all topics
        self._due = float("inf")
        self._not_before = 0.0
        self._wish = 0  # counts wishes …
        self._served = 0  # … and this is the last one that a response has answered
        self._changed = asyncio.Event()
        self._waiters: list[asyncio.Future[None]] = []
        self._task: asyncio.Task[None] | None = None

    # -- wishes ------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Asks again, soon."""
        self._wish_by(max(self._clock(), self._not_before))

    def forget(self, topics: Collection[str]) -> None:
        """Stops asking for these."""
        for name in topics:
            self._wanted.pop(name, None)
        self.cluster.forget(topics)

    async def topics(self, names: Collection[str], deadline: float, create: bool) -> None:
        """Returns when these are known. Raises what the last answer said of one that is not, or why
        there was none.
        """
        unknown = [name for name in names if name not in self._wanted]
        for name in names:
            self._wanted[name] = create or self._wanted.get(name, False)
        if unknown:
            self._wish_by(self._clock())
        while missing := [name for name in names if self._is_missing(name)]:
            if not unknown:
                self.refresh()
            unknown = []
            if not await self.next_update(deadline):
                raise self.why_unknown(missing[0])
            self._raise_lasting(missing)

    async def everything(self, deadline: float) -> None:
        """Returns when all topics have been asked for once. Raises why that did not succeed."""
        self._wish_by(self._clock())
        wish = self._all_wish = self._wish
        while self._served < wish:
            if not await self.next_update(deadline):
                raise self.why_unknown("all topics")
            if self.trouble is not None and not self.trouble.retriable:
                raise self.trouble

    def _is_missing(self, name: str) -> bool:
        return self.cluster.partitions(name) is None or self.cluster.error(name) is not None

    def _raise_lasting(self, names: list[str]) -> None:
        """Raises an error that asking again does not heal."""
        if self.trouble is not None and not self.trouble.retriable:
            raise self.trouble
        for name in names:
            error = self.cluster.error(name)
            if error is not None and not may_pass(error):
                raise type(error)(f"{name}: {error.text}")

    def why_unknown(self, name: str) -> KafkaError:
        """What to say of a topic that did not become known in time."""
        if self.trouble is not None:
            return self.trouble
        error = self.cluster.error(name)
        if error is None:
            return RequestTimedOut(f"nothing is known of topic {name!r}: no broker has answered in time")
        if isinstance(error, UnknownTopicOrPartition):
            return UnknownTopicOrPartition(f"there is no topic {name!r} ({self._why_not_created(name)})")
        return type(error)(f"{name}: {error.text}{_hint(error)}")

    def _why_not_created(self, name: str) -> str:
        if self._wanted.get(name):
            return "auto.create.topics.enable is off at the broker, or it is still being created"
        return "this client may not create it: allow.auto.create.topics"

    # -- the task ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Begins to ask; harmless when it has begun."""
        if self._task is None:
            self._task = self._loop.create_task(self._run())

    async def stop(self) -> None:
        """Ends the task, and the waits: the client is closed."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self.trouble = ClientClosed()
        self._notify()

    def _wish_by(self, at: float) -> None:
        self._wish += 1
        if at < self._due:
            self._due = at
            self._changed.set()
        self.start()

    async def _run(self) -> None:
        while True:
            await self._until_due()
            wish, self._due = self._wish, float("inf")
            try:
                await self._request(wish)
            except Exception as fault:  # a listener's: what it does wrong must not end the refreshes
                self._not_before = self._clock() + self._backoff.next()
                context = {"message": "a refresh of the metadata failed", "exception": fault}
                self._loop.call_exception_handler(context)
            now = self._clock()
            self._due = min(self._due, now + self._max_age)
            if self._wish > self._served:
                self._due = min(self._due, max(now, self._not_before))
            self._notify()

    async def _until_due(self) -> None:
        while (wait := self._due - self._clock()) > 0:
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if wait == float("inf") else wait):
                    await self._changed.wait()

    async def _request(self, wish: int) -> None:
        """One round; afterwards ``trouble`` and ``_not_before`` say how it went."""
        try:
            for names, create in self._questions():
                response = await self._ask(partial(_message, names=names, create=create))
                check(response.error_code)
                self.cluster.update(response, names)
        except KafkaError as error:
            self.trouble = error
            self._not_before = self._clock() + self._backoff.next()
            if isinstance(error, ClientError) and not error.retriable:
                self._give_up(wish)
            return
        self.trouble, self._served = None, wish
        self.on_update()
        if all(map(self.cluster.has_leaders, self._wanted)):
            self._backoff.reset()
            self._not_before = self._clock() + self._backoff.first
        else:
            self._not_before = self._clock() + self._backoff.next()

    def _give_up(self, wish: int) -> None:
        """The request cannot be made: what is not known is not asked for again, and those that wait are told."""
        self._wanted = {name: create for name, create in self._wanted.items() if not self._is_missing(name)}
        self._served = wish

    def _questions(self) -> list[tuple[list[str] | None, bool]]:
        """The requests of a round: topics (None: all), and whether they may be created, which is
        one flag of a request.
        """
        everything = self.watches_all or self._all_wish > self._served
        created = [name for name, create in self._wanted.items() if create]
        others = [name for name, create in self._wanted.items() if not create]
        if everything:
            missing = [name for name in created if self._is_missing(name)]
            return [(None, False), *([(missing, True)] if missing else [])]
        if created:
            return [(created, True), *([(others, False)] if others else [])]
        return [(others, False)]

    async def next_update(self, deadline: float) -> bool:
        """Waits for the end of a round; False when the deadline comes first."""
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiters.append(waiter)
        try:
            async with asyncio.timeout(max(0.0, deadline - self._clock())):
                await waiter
        except TimeoutError:
            return False
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
        return True

    def _notify(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


def _message(version: int, names: list[str] | None, create: bool) -> Metadata.Request:
    """The request for these topics, None: for all; version 0 says "all" by an empty list."""
    if names is None:
        return Metadata.Request(topics=[] if version == 0 else None)
    topics = [Metadata.Request.MetadataRequestTopic(name=name) for name in names]
    if version < 4:  # before that brokers create as they please
        return Metadata.Request(topics=topics)
    return Metadata.Request(topics=topics, allow_auto_topic_creation=create)
